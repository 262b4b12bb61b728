#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Usage: gpu.sh TEGULA LIBTEGULA_RT.a FAKE_DRIVER SOURCE_ROOT
set -eu
tegula=$1 runtime=$2 root=$4
export TG_CUDA_LIBRARY="$3"
here=$root/tests/aot
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cat > "$out/scale.teg" << 'K'
kernel scale<T: float>(x: T[N], y: T[N], a: f32) tune B = 256 {
    parallel n in N by B {
        y[n] = (a * (x[n] as f32)) as T;
    }
}
K
cd "$out"
"$tegula" build scale.teg -o scale.o --header scale.h --export 'scale<f32>' --levels base \
    --gpus sm_80,sm_90a -v > log
grep -q 'sm_90a .* contiguous rows' log
cc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -I "$root/runtime" -I "$root/tests/runtime" -I . \
    "$here/gpu_check.c" scale.o "$runtime" -lpthread -ldl -lm -o check
./check
if "$tegula" build scale.teg -o none.o --gpus sm_91 2> log; then exit 1; fi
grep -q "there is no architecture 'sm_91'" log
