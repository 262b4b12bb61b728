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
# A fake ptxas whose output looks like machine code. The test checks which device gets it.
printf '#!/bin/sh\nprintf "\\177ELF%%s" "$2" > "$5"\n' > ptxas
chmod +x ptxas
export TG_NVJITLINK=/nowhere

# make PTXAS GPUS: scale.o and a program that launches it
make() {
    TG_PTXAS=$1 "$tegula" build scale.teg -o scale.o --header scale.h --export 'scale<f32>' \
        --levels base --gpus "$2" -v > log 2> notes
    cc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -I "$root/runtime" -I "$root/tests/runtime" \
        -I . "$here/gpu_check.c" scale.o "$runtime" -lpthread -ldl -lm -o check
}

make "$out/ptxas" sm_80,sm_90a
grep -q 'sm_90a .* contiguous rows of 16 bytes' log
grep -q 'sm_80 .* contiguous rows: .*; machine code and PTX' log
if grep -q 'no machine code' notes; then exit 1; fi
FAKE_CUDA_DEVICES=90,80,86,120 ./check 'machine code' 'machine code' 'machine code' PTX
# If an older driver refuses machine code, PTX is loaded instead. Without PTX the launch fails with
# the driver's message. A lack of memory does not switch to PTX.
FAKE_CUDA_OLD=1 FAKE_CUDA_DEVICES=90,80,86,120 ./check PTX PTX PTX PTX
if REFUSE=2 FAKE_CUDA_DEVICES=80 ./check 'machine code' 2> log; then exit 1; fi
grep -q 'scale: .*cuModuleLoadDataEx' log
make "$out/ptxas" sm_90a
if FAKE_CUDA_OLD=1 FAKE_CUDA_DEVICES=90 ./check 'machine code' 2> log; then exit 1; fi
grep -q 'scale: .*cuModuleLoadDataEx.*not for this device' log
# PTX of an architecture is left out if a later one of its generation replaces it.
make "$out/ptxas" sm_80,sm_86
grep -q 'sm_86 .*; machine code and PTX' log
if grep -q 'sm_80 .*PTX' log; then exit 1; fi
FAKE_CUDA_DEVICES=80,86,89,90 ./check 'machine code' 'machine code' 'machine code' PTX

make /nowhere/ptxas sm_80,sm_90a
grep -q 'no machine code was made for sm_80, since neither nvJitLink nor ptxas' notes
FAKE_CUDA_DEVICES=90,80,120 ./check PTX PTX PTX

if "$tegula" build scale.teg -o none.o --gpus sm_91 2> log; then exit 1; fi
grep -q "there is no architecture 'sm_91'" log
