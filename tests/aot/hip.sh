#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Usage: hip.sh TEGULA LIBTEGULA_RT.a FAKE_HIP SOURCE_ROOT The object of `build` holds a code object
# for each GPU, and kernels are launched from there.
set -eu
tegula=$1 runtime=$2 root=$4
export TG_HIP_LIBRARY="$3" TG_GPUS=hip TG_CACHE=off
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
cat > scale.teg << 'K'
kernel scale<T: float>(x: T[N], y: T[N], a: f32) tune B = 256 {
    parallel n in N by B {
        y[n] = (a * (x[n] as f32)) as T;
    }
}
K
build() {
    "$tegula" build scale.teg -o scale.o --header scale.h --export 'scale<f32>' \
        --levels base "$@"
}
link() {
    cc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -I "$root/runtime" -I . \
        "$root/tests/aot/hip_check.c" scale.o "$runtime" -lpthread -ldl -lm -o check
}
# Code for another GPU must not be loaded, nor code for another maker's GPU with the same number.
for gpus in gfx942,gfx1100 sm_80,sm_90a,gfx942,gfx1100; do
    build --gpus "$gpus"
    link
    FAKE_HIP_DEVICES=gfx942 ./check
    FAKE_HIP_DEVICES=gfx1100 ./check
    for other in gfx90a gfx1101; do
        if FAKE_HIP_DEVICES="$other" ./check 2> log; then exit 1; fi
        grep -q "no code for .* on an AMD GPU ($other); compiled for target = .*gfx942" log
    done
done

# Without a linker there is no code object, and the build fails.
rm scale.o
export TG_COMGR= TG_LLD=
if PATH=/nowhere "$tegula" build scale.teg -o scale.o --gpus gfx942 2> log; then exit 1; fi
grep -q lld log
test ! -e scale.o
