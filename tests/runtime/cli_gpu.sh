# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# For tests of the command line with stand-in drivers: makes a folder $out with a kernel $out/k.teg,
# and defines `expect`.
export FAKE_STRICT=1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

expect() { # expect TEXT COMMAND...
    text=$1
    shift
    "$@" > "$out/log" 2>&1 || true
    if ! grep -q -e "$text" "$out/log"; then
        echo "expected '$text' of: $*"
        cat "$out/log"
        exit 1
    fi
}

cat > "$out/k.teg" << 'K'
kernel add(x: f32[N], y: f32[N]) tune B = 64 {
    parallel n in N by B {
        y[n] += x[n];
    }
}
K

cat > "$out/ranks.teg" << 'K'
kernel gather(a: sym f32[W][N], c: f32[W, N]) tune B = 64 {
    parallel r in W, n in N by B { c[r, n] = a[r][n]; }
}
K
