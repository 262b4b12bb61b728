#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Code on disk, from end to end. A process finds code that another one compiled, even where it could
# not compile itself, and `tegula cache` lists it.
#   cli.sh TEGULA LIBRARY SOURCES PYTHON RT-LIBRARY
set -eu
tegula=$1 library=$2 sources=$3 python=$4 rt=$5
"$python" -c 'import numpy' 2>/dev/null || { echo "skipped: no NumPy"; exit 77; }
out=$(mktemp -d /tmp/tegula-cache.XXXXXX)
trap 'rm -rf "$out"' EXIT
export TG_CACHE="$out/kernels" PYTHONPATH="$sources/python" TEGULA_LIBRARY="$library"

fail() {
    echo "$1" >&2
    exit 1
}

# Launches the kernel of FILE once, on N elements a row.
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

# A refused folder: the program reports it once, and the library once as a warning of Python.
mkdir -m 777 "$out/open"
chmod 777 "$out/open"
TG_CACHE="$out/open/k" "$tegula" run "$out/k.teg" -k softmax -a 'x=rand(2,10)' --target api \
    >"$out/ran" 2>"$out/said" || fail "a refused cache ends the program: $(cat "$out/said")"
[ "$(grep -c 'kernels are not kept on disk: .*/open: other users may write' "$out/said")" = 1 ] ||
    fail "the program does not say that its cache is refused: $(cat "$out/said")"
TG_CACHE="$out/open/k" launch "$out/k.teg" 100 2>"$out/said"
warning=' Warning: compiled kernels are not kept on disk: .*/open: '
[ "$(wc -l <"$out/said")" = 1 ] && grep -q "$warning" "$out/said" ||
    fail "the library does not warn once that its cache is refused: $(cat "$out/said")"

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

# Differences in tuning: a new result, another setting, a missing result. Equal results print
# nothing.
echo 'kernel k(x: f32[N]) tune B = 64 | 256 {
    parallel n in N by B { x[n] = 2 * x[n]; }
}' >"$out/t.teg"
tuned() { # FOLDER N B
    TG_CACHE="$1" "$tegula" tune "$out/t.teg" -a "x=zeros($2)" --budget 60 -s B="$3" \
        -s grain=1 >"$out/log" 2>&1 || fail "$(cat "$out/log")"
}
tuned "$out/one" 1000 64
tuned "$out/one" 5000 64
TG_CACHE="$out/one" "$tegula" cache export "$out/one.db"
TG_CACHE="$out/one" "$tegula" cache diff "$out/one.db" >"$out/log" ||
    fail "a store differs from itself"
[ ! -s "$out/log" ] || fail "$(cat "$out/log")"
tuned "$out/two" 1000 256
TG_CACHE="$out/two" "$tegula" cache diff "$out/one.db" >"$out/log" && fail "stores do not differ"
TG_CACHE="$out/two" "$tegula" cache export "$out/two.db"
TG_CACHE="$out/one" "$tegula" cache diff "$out/two.db" "$out/one.db" | cmp - "$out/log" ||
    fail "two files differ otherwise"
grep -q '^~ k N=1000 on .*: B=256.* -> B=64' "$out/log" || fail "$(cat "$out/log")"
grep -q '^+ k N=5000 on ' "$out/log" || fail "$(cat "$out/log")"
"$tegula" cache diff "$out/t.teg" 2>"$out/log" && fail "a source is an export"
grep -q 'is not an export of this version' "$out/log" || fail "$(cat "$out/log")"
"$tegula" cache frobnicate 2>/dev/null && fail "an unknown action"

# Tuning files of objects beside the store are listed, verified and pruned with it.
cat >"$out/main.c" <<'C'
#include "scale.h"
int main(void) {
    static _Alignas(64) float x[1 << 16], y[1 << 16];
    return (int)scale(x, y, 1 << 16);
}
C
echo 'kernel scale(x: f32[N], y: f32[N]) tune B = 64 | 512 | 4096 {
    parallel n in N by B { y[n] = 2 * x[n]; }
}' >"$out/scale.teg"
"$tegula" build "$out/scale.teg" --variants 3 --levels base -o "$out/scale.o" \
    --header "$out/scale.h"
cc -I"$out" -I"$sources/runtime" "$out/main.c" "$out/scale.o" "$rt" -lm -lpthread -o "$out/main"
TG_TUNE=block "$out/main"
"$tegula" cache prune --size 0 >/dev/null
"$tegula" cache list >"$out/log"
grep -q ' object .* scale on .* threads$' "$out/log" || fail "$(cat "$out/log")"
grep -q '^1 files of objects' "$out/log" || fail "$(cat "$out/log")"
key=$(head -n 1 "$out/log" | cut -d ' ' -f 1)
"$tegula" cache show "$key" | grep -q '^holds  1 results of tuning$' ||
    fail "cache show of an object"
"$tegula" cache verify | grep -q '^1 sound$' || fail "cache verify of an object"
file=$(echo "$out"/kernels/tuned-*)
cp "$file" "$out/copy"

# Exports include them. Imports keep existing files.
"$tegula" cache export "$out/objects.db"
"$tegula" cache list >"$out/log2"
cmp "$out/log" "$out/log2" || fail "an export left something in the store"
TG_CACHE="$out/other" "$tegula" cache import "$out/objects.db" |
    grep -q ': 1 added, 1 of them a file of objects$' ||
    fail "cache import of an object"
cmp "$file" "$out/other/$(basename "$file")" || fail "an object's file is another one"
[ "$(stat -c %a "$out/other/$(basename "$file")")" = 600 ] ||
    fail "others may read an object's file"
echo "# another" >"$out/other/$(basename "$file")"
TG_CACHE="$out/other" "$tegula" cache import "$out/objects.db" >/dev/null
grep -q another "$out/other/$(basename "$file")" || fail "an import replaced a file"
sed 's/^[0-9a-f]* /0000000000000000 /' "$out/copy" >"$file.x" && mv "$file.x" "$file"
"$tegula" cache verify | grep -q '^0 sound, 1 damaged and removed$' || fail "a damaged result"
[ ! -e "$file" ] || fail "a file without results stays"
cat "$out/copy" - >"$file" <<'L'
0000000000000000 1 0.0=5
L
"$tegula" cache verify | grep -q '^1 sound, 1 damaged and removed$' || fail "a damaged line"
cmp "$file" "$out/copy" || fail "the sound line is lost"
touch -d '10 days ago' "$file"
"$tegula" cache prune --days 11 | grep -q '^0 removed$' || fail "it is not that old"
"$tegula" cache prune --days 9 | grep -q '^1 removed$' || fail "cache prune --days of an object"
cp "$out/copy" "$file"
: >"$file.123" # left by a killed process
"$tegula" cache prune --all | grep -q '^2 removed$' || fail "cache prune --all of an object"

# Operands and options that an action does not use are errors.
refuses() { # CODE TEXT COMMAND...
    code=$1 text=$2 got=0
    shift 2
    "$@" >"$out/log" 2>&1 || got=$?
    [ "$got" = "$code" ] || fail "$*: exit code $got"
    grep -q -e "$text" "$out/log" || fail "$*: $(cat "$out/log")"
}
refuses 2 'cache path: too many operands' "$tegula" cache path extra
refuses 2 'cache list: --size is an option of .cache prune' "$tegula" cache list --size 3
refuses 1 'cannot read .*nothere.db: No such file' "$tegula" cache import "$out/nothere.db"
refuses 1 'cannot be read, or is not an export' "$tegula" cache import "$out/k.teg"
mkdir "$out/kernels/tuned-folder"
refuses 1 "cannot read or write $out/kernels/tuned-folder: Is a directory" "$tegula" cache verify
rmdir "$out/kernels/tuned-folder"

# Without a usable folder there is one warning, and the launch continues.
TG_CACHE=/proc/1/tegula launch "$out/k.teg" 50 || fail "no place for the store"
TG_CACHE= XDG_CACHE_HOME= HOME= launch "$out/k.teg" 60 || fail "no HOME"
TG_CACHE=off "$tegula" cache list 2>/dev/null && fail "TG_CACHE=off"
echo "the store: found, refused, listed, exported, imported, pruned"
