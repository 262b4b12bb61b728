#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Objects with several settings. The settings of a tuned file apply at the tuned shapes and near
# them, on the level on which they were measured; elsewhere the default applies. The kernel returns
# its setting. Usage: tuned.sh TEGULA LIBTEGULA_RT.a SOURCE_ROOT
set -eu
tegula=$1 runtime=$2 root=$3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
cat > which.teg << 'K'
/// The tile that the code was made for, in every element.
kernel which(y: i32[M, N]) tune BM = 1 | 2, BN = 64 | 128 | 256 | 512 {
    parallel m in M by BM, n in N by BN { y[m, n] = BN; }
}
kernel bounded(x: f32[N], y: i32[N]) tune B = 64 | 128 | 256 require N <= 512 {
    parallel r in 1 {
        let n = cover(N);
        let s = sum(x[n, pad = 0]);
        for k in N by B { y[k] = B + ((s - s) as i32); }
    }
}
K
cat > main.c << 'K'
#include <stdio.h>
#include <stdlib.h>

#include "which.h"

static int32_t y[1 << 20];

/// main M N: the tile
int main(int argc, char **argv) {
    if (argc != 3) return 2;
    if (which(y, atoi(argv[1]), atoi(argv[2]))) return fprintf(stderr, "%s\n", tg_last_error()), 1;
    printf("%d\n", (int)y[0]);
}
K
device=any
entry() { # TARGET SHAPE CONFIG
    printf '{"kernel": "which", "target": "%s", "shape": "%s", "config": "%s", "device": "%s"}' \
        "$@" "$device"
}
tuned() { # TARGET: tuned.json
    printf '{"tegula_tuned": 1, "entries": [%s,\n%s,\n%s]}\n' "$(entry "$1" 'M=100 N=1000' "$2")" \
        "$(entry "$1" 'M=8 N=100000' "$3")" "$(entry sm_90a 'M=1 N=1' 'BM=1 BN=64')" > tuned.json
}
# build OPTIONS...
build() {
    "$tegula" build which.teg -o which.o --header which.h --export which -v "$@" > log 2> notes
    cc -std=c17 -Wall -Wextra -Werror -I "$root/runtime" -I . main.c which.o "$runtime" -lpthread \
        -lm -ldl -o main
}
expect() { # VALUE COMMAND...
    want=$1
    shift
    got=$("$@")
    if [ "$got" != "$want" ]; then echo "$*: $got, not $want" >&2; exit 1; fi
}

build --levels base,v3
first=$(./main 100 1000) far=$(./main 8 100000)
v3_default=$(TG_LEVEL=v3 ./main 100 1000)
base=$(TG_LEVEL=base ./main 100 1000) base_far=$(TG_LEVEL=base ./main 8 100000)
# Two tiles that are not the default at either shape.
other=512 another=64
if [ "$first" = 512 ]; then other=256; fi
if [ "$far" = 64 ]; then another=128; fi

tuned x86-64-v3 "BM=1 BN=$other" "BM=2 BN=$another"
build --levels base,v3 --tuned tuned.json
if [ -s notes ]; then cat notes; exit 1; fi
v3=$(TG_LEVEL=v3 ./main 100 1000)
if [ "$v3" = "$first" ] && ! grep -q avx2 /proc/cpuinfo; then
    echo "this CPU has no level v3"
else
    expect "$other" env TG_LEVEL=v3 ./main 100 1000
    expect "$other" env TG_LEVEL=v3 ./main 90 1100
    expect "$another" env TG_LEVEL=v3 ./main 8 100000
fi
# Settings measured on this device are used, those of other devices in the same file are ignored.
for seconds in 1 8 64; do # a busy machine needs more
    ! "$tegula" tune which.teg -k which -d M=4 -d N=64 --budget $seconds -o own.json > log || break
done
own=$(sed -n 's/.*"device": "\([^"]*\)".*/\1/p' own.json)
[ -n "$own" ] || { cat own.json; exit 1; }
device='Other CPU (0), 3 threads, v3'
foreign=$(entry x86-64-v3 'M=100 N=1000' "BM=1 BN=$other")
device=$own
mine=$(entry x86-64-v3 'M=100 N=1000' "BM=2 BN=$another")
for all in "$foreign" "$foreign, $mine" "$mine, $foreign"; do
    printf '{"tegula_tuned": 1, "entries": [%s]}\n' "$all" > tuned.json
    build --levels base,v3 --tuned tuned.json
    if [ "$v3" = "$first" ] && ! grep -q avx2 /proc/cpuinfo; then continue; fi
    case $all in
    *"$own"*) expect "$another" env TG_LEVEL=v3 ./main 100 1000 ;;
    *) expect "$v3_default" env TG_LEVEL=v3 ./main 100 1000 ;;
    esac
done
device=any
# Settings measured on one level do not apply to another.
tuned x86-64-v3 "BM=1 BN=$other" "BM=2 BN=$another"
build --levels base,v3 --tuned tuned.json
expect "$base" env TG_LEVEL=base ./main 100 1000
expect "$base_far" env TG_LEVEL=base ./main 8 100000

# The build names results for other targets, kernels or values, and for an older kernel.
tuned x86-64-v4 "BM=1 BN=$other" "BM=2 BN=$another"
build --levels base,v3 --tuned tuned.json
grep -q 'note: tuned.json: no entry is for these kernels' notes
tuned x86-64-v3 'BM=1 QQ=1024' "BM=2 BN=$another"
build --levels base,v3 --tuned tuned.json
grep -q "'BM=1 QQ=1024' of which cannot be compiled any more" notes
expect "$first" env TG_LEVEL=v3 ./main 100 1000
echo '{"tegula_tuned": 1, "entries": [' > tuned.json
if "$tegula" build which.teg -o none.o --tuned tuned.json 2> notes; then exit 1; fi
grep -q 'tuned.json: line 2: expected a value' notes

# Several settings for each size: the default stays the first choice.
build --levels base
first=$(./main 100 1000) far=$(./main 8 100000)
before=$(grep -c '^  base .*contiguous rows' log)
build --levels base --variants 3
if [ "$(grep -c '^  base .*contiguous rows' log)" -le "$before" ]; then cat log; exit 1; fi
expect "$first" ./main 100 1000
expect "$far" ./main 8 100000

# On a ladder of cover, a setting belongs to the step that its extent needs.
printf '{"tegula_tuned": 1, "entries": [{"kernel": "bounded", "target": "x86-64-v3",
"device": "any", "shape": "N=100", "config": "B=512"}]}' > tuned.json
"$tegula" build which.teg -o bounded.o --export bounded --levels v3 --tuned tuned.json -v > log
if [ "$(grep -c 'B=512' log)" != 1 ] || ! grep -q 'N<=128, contiguous rows: B=512' log; then
    cat log
    exit 1
fi

# Steps reach up to the tuned extents. If --given allows fewer, the build names the results beyond.
cat > long.teg << 'K'
kernel long_rows(x: f32[N], y: i32[N]) tune B = 64 | 128 | 256 {
    parallel r in 1 {
        let n = cover(N);
        let s = sum(x[n, pad = 0]);
        for k in N by B { y[k] = B + ((s - s) as i32); }
    }
}
K
printf '{"tegula_tuned": 1, "entries": [{"kernel": "long_rows", "target": "x86-64-v3",
"device": "any", "shape": "N=8192", "config": "B=256"}]}' > tuned.json
build_long() {
    "$tegula" build long.teg -o long.o --export long_rows --levels v3 --tuned tuned.json "$@" \
        > log 2> notes
}
build_long -v
grep -q "'N' up to 8192 is covered in long_rows" notes
if ! grep -q 'N<=8192, contiguous rows: B=256' log; then cat log notes; exit 1; fi
build_long --given 'N<=4096'
if ! grep -q "'N=8192' is beyond the extents of long_rows in this object" notes; then
    cat notes
    exit 1
fi
