#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The command line with a driver that checks its calls and runs nothing (fake_cuda.c): arrays are
# copied there and back, code is loaded and launched. Usage: cli_cuda.sh TEGULA FAKE_DRIVER
set -eu
tegula=$1
export TG_CUDA_LIBRARY="$2"
. "$(dirname "$0")/cli_gpu.sh"

expect '--target cuda: 3 ranks in one process need a GPU each, and there are 2' \
    "$tegula" run "$out/ranks.teg" --target cuda --arg 'a=ones(3,10)'
expect 'ran .* on cuda' "$tegula" run "$out/ranks.teg" --target cuda \
    --arg 'a=ones(2,10)'

# Ranks with a GPU each, as threads; and as processes, three of which share one: a trace on one
# clock.
profile="$tegula profile $out/ranks.teg --target cuda -r 3 --set plan=pull --set chunks=2"
here=$(cd "$(dirname "$0")" && pwd)
expect 'programs alone .*transfers alone ' env FAKE_CUDA_CLOCK=host $profile \
    -o "$out/threads.json" --arg 'a=rand(2,100)'
grep -q 'clocks of the GPUs agree within' "$out/log"
python3 "$here/../gpu/ranks_trace.py" "$out/threads.json" 2 2 --apart
grep -q '"name": "copies, rank 1"' "$out/threads.json"
export TG_RANKS=3 TG_MEET="$out/meet" FAKE_CUDA_DEVICES=90
for rank in 1 2; do
    TG_RANK=$rank FAKE_CUDA_CLOCK=host $profile --comm processes --arg 'a=rand(3,100)' \
        >"$out/log$rank" 2>&1 &
done
expect 'programs alone .*transfers alone ' env TG_RANK=0 FAKE_CUDA_CLOCK=host $profile \
    --comm processes -o "$out/processes.json" --arg 'a=rand(3,100)'
wait
unset TG_RANKS TG_MEET FAKE_CUDA_DEVICES
python3 "$here/../gpu/ranks_trace.py" "$out/processes.json" 3 2 --apart

# Far ranks copy, unless the requested plan accesses other ranks' memory.
TG_NVSHMEM_LIBRARY="$(dirname "$2")/libfake_nvshmem.so"
export TG_NVSHMEM_LIBRARY TG_RANKS=2 TG_MEET="$out/meet" TG_COMM_MAP=0
far() {
    text=$1
    shift
    TG_RANK=1 "$tegula" run "$here/../../stdlib/comm.teg" --target cuda --comm nvshmem "$@" \
        >"$out/log1" 2>&1 &
    expect "$text" env TG_RANK=0 "$tegula" run "$here/../../stdlib/comm.teg" --target cuda \
        --comm nvshmem "$@"
    wait
}
sums="-k all_reduce_two_shot --type T=f32 --arg a=rand(2,1000)"
far 'plan=copies .* on cuda' $sums
far 'plan=push .* on cuda' -k all_gather --type T=f32 --arg 'a=rand(2,1000)' --set plan=push
far "in place, which 'nvshmem' does not map here" $sums --set plan=direct
unset TG_RANKS TG_MEET TG_COMM_MAP

run="$tegula run $out/k.teg --arg x=rand(1000)"
expect 'cuda:1  Fake GPU 1, compute capability 8.0' "$tegula" targets
# Nothing runs, so y comes back unchanged.
expect 'y: f32\[1000\] = 3 3 3 3' $run --target cuda --arg 'y=full(1000,value=3)'
expect 'ran .* on cuda' $run --target cuda:1 --arg 'y=full(1000,value=3)' --repeat 5
expect "there is no device 2: this machine has 2 GPUs" $run --target cuda:2 --arg 'y=zeros(1000)'
# Only the elements of an array that spans more than 1 GiB are copied.
expect 'y: f32\[3\] = 3 3 3' $tegula run "$out/k.teg" --target cuda --arg 'x=rand(3)' \
    --arg 'y=full(3,value=3):spread(0,150000000)'
expect "overlaps" $run --target cuda --arg 'y=same(x)[::-1]'
expect 'cuda: .* of a copy' "$tegula" bench "$out/k.teg" --target cuda --seconds 0.01
expect 'device code, nvptx' $run --target cuda --arg 'y=zeros(1000)' --codegen nvptx --time-passes

# The source of the machine code: a ptxas that can read the PTX, and whose code the driver (CUDA 13)
# can load.
cat > "$out/ptxas" << 'K'
#!/bin/sh
case $* in
    --version) echo "Cuda compilation tools, release $RELEASE" ;;
    *) printf '\177ELF' > "$5" ;;
esac
K
chmod +x "$out/ptxas"
export TG_PTXAS="$out/ptxas" TG_NVJITLINK=/nowhere
for release in 12.4 13.0 unknown; do
    expect 'device code, ptxas' env RELEASE=$release $run --target cuda --arg 'y=zeros(1000)' \
        --time-passes
done
for release in 11.4 14.0; do
    expect 'ran .* on cuda' env RELEASE=$release $run --target cuda --arg 'y=zeros(1000)' \
        --time-passes
    if grep -q 'device code, ptxas' "$out/log"; then
        echo "code of ptxas $release was taken"
        exit 1
    fi
done
# A ptxas that cannot run has not refused the code: the driver compiles.
expect 'ran .* on cuda' env TG_PTXAS=/bin/false $run --target cuda --arg 'y=zeros(1000)'
expect 'ran .* on cuda' env RELEASE=13.0 TMPDIR=/nowhere $run --target cuda --arg 'y=zeros(1000)'
# A folder name without a release number does not reveal the release.
mkdir -p "$out/cuda-2/bin"
cp "$out/ptxas" "$out/cuda-2/bin/ptxas"
expect 'device code, ptxas' env RELEASE=13.0 TG_PTXAS="$out/cuda-2/bin/ptxas" $run --target cuda \
    --arg 'y=zeros(1000)' --time-passes
