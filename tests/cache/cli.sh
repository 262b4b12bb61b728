#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Code on disk, from end to end: what one process compiled the next one finds, where it could not
# compile itself; and `tegula cache` says what there is.
#   cli.sh TEGULA LIBRARY SOURCES PYTHON
set -eu
tegula=$1 library=$2 sources=$3 python=$4
"$python" -c 'import numpy' 2>/dev/null || { echo "skipped: no NumPy"; exit 77; }
out=$(mktemp -d /tmp/tegula-cache.XXXXXX)
trap 'rm -rf "$out"' EXIT
export TG_CACHE="$out/kernels" PYTHONPATH="$sources/python" TEGULA_LIBRARY="$library"

fail() {
    echo "$1" >&2
    exit 1
}

# One launch on N elements a row, of the kernel in FILE.
launch() { # FILE N
    "$python" - "$1" "$2" <<'P'
import sys
import numpy as np
import tegula
n = int(sys.argv[2])
x = np.random.default_rng(1).random((5, n), dtype=np.float32)
y = np.empty_like(x)
tegula.load(sys.argv[1]).softmax(x, y)
want = np.exp(x - x.max(1, keepdims=True))
want /= want.sum(1, keepdims=True)
assert np.abs(y - want).max() < 1e-6
P
}

cp "$sources/stdlib/softmax.teg" "$out/k.teg" 2>/dev/null || cat >"$out/k.teg" <<'T'
kernel softmax(x: f32[R, N], y: f32[R, N]) {
    parallel r in R {
        let n = cover(N);
        let e = exp(x[r, n, pad = -inf] - max(x[r, n, pad = -inf]));
        y[r, n] = e / sum(e);
    }
}
T
export TG_COMPILE=process TG_SERVER=/nowhere
launch "$out/k.teg" 100 2>/dev/null && fail "it compiled without a compiler"
unset TG_COMPILE TG_SERVER
launch "$out/k.teg" 100
export TG_COMPILE=process TG_SERVER=/nowhere
launch "$out/k.teg" 100 || fail "what was compiled was not found"
launch "$out/k.teg" 9000 2>/dev/null && fail "other facts found the same code"
echo "// a comment" >>"$out/k.teg"
launch "$out/k.teg" 100 2>/dev/null && fail "another source found the same code"
unset TG_COMPILE TG_SERVER

[ "$("$tegula" cache path)" = "$out/kernels" ] || fail "cache path"
"$tegula" cache list | grep -q 'code .*softmax for ' || fail "cache list"
key=$("$tegula" cache list | head -n 1 | cut -d ' ' -f 1)
"$tegula" cache show "$key" | grep -q "^key    $key" || fail "cache show"
"$tegula" cache show zz 2>/dev/null && fail "cache show of nothing"
"$tegula" cache verify | grep -q '^1 sound$' || fail "cache verify"
"$tegula" cache export "$out/out.db"
"$tegula" cache prune 2>/dev/null && fail "cache prune of nothing"
"$tegula" cache prune --all | grep -q '^1 removed$' || fail "cache prune"
"$tegula" cache import "$out/out.db" | grep -q ': 1 added$' || fail "cache import"
"$tegula" cache frobnicate 2>/dev/null && fail "an unknown action"

# No place to keep anything: one warning, and the launch goes on.
TG_CACHE=/proc/1/tegula launch "$out/k.teg" 50 || fail "no place for the store"
TG_CACHE= XDG_CACHE_HOME= HOME= launch "$out/k.teg" 60 || fail "no HOME"
TG_CACHE=off "$tegula" cache list 2>/dev/null && fail "TG_CACHE=off"
echo "the store: found, refused, listed, exported, imported, pruned"
