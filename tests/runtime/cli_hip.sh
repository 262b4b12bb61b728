#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The command line on a runtime of AMD GPUs (fake_hip.c) that checks its calls and runs code objects
# on the emulator of tools/amdsim.
# Usage: cli_hip.sh TEGULA FAKE_RUNTIME EMULATOR
set -eu
tegula=$1
export TG_HIP_LIBRARY="$2" AMDSIM="$3"
. "$(dirname "$0")/cli_gpu.sh"

expect 'ranks with AMD GPUs are not supported yet' \
    "$tegula" run "$out/ranks.teg" --target hip --ranks 2 --arg 'a=ones(2,10)'

run="$tegula run $out/k.teg --arg x=ones(1000)"
expect 'hip:1 *Fake GPU 1, gfx1100, 304 compute units' "$tegula" targets
expect 'ran .* on hip' $run --target hip --arg 'y=full(1000,value=3)'
expect 'ran .* on hip' $run --target hip:1 --arg 'y=full(1000,value=3)' --repeat 5
expect 'there is no device 2: this machine has 2 GPUs' $run --target hip:2 --arg 'y=zeros(1000)'
expect 'there is no code for Fake GPU 0 (gfx906)' \
    env FAKE_HIP_DEVICES=gfx906 $run --target hip --arg 'y=zeros(1000)'
expect 'this machine shows no AMD GPU; see HIP_VISIBLE_DEVICES' \
    env FAKE_HIP_DEVICES= $run --target hip --arg 'y=zeros(1000)'
expect 'the driver is too old; ROCm 6 or later is needed' \
    env TG_HIP_LIBRARY=libm.so.6 $run --target hip --arg 'y=zeros(1000)'
expect '--target hip runs on the GPU of this machine, --target sim:gfx942 on a simulated one' \
    $run --target gfx942 --arg 'y=zeros(1000)'
expect 'hip:x: expected hip or hip:NUMBER' $run --target hip:x --arg 'y=zeros(1000)'
expect 'TG_HIP_LIBRARY=/nowhere/libamdhip64.so cannot be loaded' \
    env TG_HIP_LIBRARY=/nowhere/libamdhip64.so $run --target hip --arg 'y=zeros(1000)'
# HIP counts the threads of a launch in 32 bits.
cat > "$out/many.teg" << 'K'
kernel total(x: f32[N], y: f32[1]) {
    parallel n in N { atomic_add(y[0], x[n]); }
}
K
expect '268435456 programs are more than a launch can have ([0-9]*); choose larger tiles' \
    "$tegula" run "$out/many.teg" --target hip --arg 'x=ones(1)[0]:expand(268435456,0)' \
    --arg 'y=zeros(1)'
expect 'hip: .* of a copy' "$tegula" bench "$out/k.teg" --target hip --seconds 0.01
for device in gfx90a gfx942 gfx950 gfx1100; do
    expect 'y: f32\[1000\] = 4 4 4 4' env "FAKE_HIP_DEVICES=$device" $run --target hip \
        --arg 'y=full(1000,value=3)'
done
expect 'hipModuleLaunchKernel: code of the GPU number 0x4e, which is not emulated' \
    env FAKE_HIP_DEVICES=gfx1201 $run --target hip --arg 'y=zeros(1000)'
expect 'AMDSIM: /nowhere.so: cannot open shared object file' \
    env AMDSIM=/nowhere.so $run --target hip --arg 'y=zeros(1000)'

# A search: arguments on the device, checks and times of all candidates, one worker at a time.
cat > "$out/tune.teg" << 'K'
kernel twice(x: f32[R, N], y: f32[R, N]) tune BR = 1 | 4, BN = 64 | 256 {
    parallel r in R by BR, n in N by BN { y[r, n] = 2 * x[r, n]; }
}
K
export TG_CACHE=off FAKE_CUDA_CLOCK=1
tune="$tegula tune $out/tune.teg --target hip --dim R=8 --dim N=300 --budget 20"
expect 'twice R=8 N=300 on Fake GPU 0, gfx942, 304 SMs' $tune --jsonl "$out/trials"
for verdict in refused crashed hung failed wrong 'not reached'; do
    if grep "\"verdict\": \"$verdict\"" "$out/trials"; then exit 1; fi
done
[ "$(grep -c '"seconds": [0-9]' "$out/trials")" -ge 4 ]
grep -q '"verdict": "won"' "$out/trials"
