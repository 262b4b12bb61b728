#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# all.sh FOLDER [RANKS...]: all that needs several GPUs, in one go: tests of ranks, figures beside
# NCCL and cuBLAS and PyTorch's async-TP, and the runtime alone, for 2 and for 4 of them or as
# asked, 5 minutes each. On one GPU a trial: ranks that share it, and one rank through every arm of
# the benchmark; its times mean nothing.
#
# What each step said is in FOLDER/STEP.txt, figures in FOLDER/w2 and w4. Ends with 0 if all passed.
set -u
out=$(mkdir -p "$1" && cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
failed=0
shift
wanted=${*:-2 4}

# step NAME SECONDS COMMAND...
step() {
    name=$1 seconds=$2 from=$(date +%s)
    shift 2
    timeout -k 5 "$seconds" "$@" >"$out/$name.txt" 2>&1
    code=$?
    if [ $code = 0 ]; then said=passed; else said="FAILED ($code)" failed=1; fi
    echo "$name: $said, $(($(date +%s) - from)) s; $(tail -1 "$out/$name.txt" | cut -c1-150)"
}

gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())')
comm_gpu=$root/tests/gpu/comm_gpu
[ -x "$comm_gpu" ] || comm_gpu=$root/build/tests/runtime/comm_gpu
nvshmem=$("$python" -c 'import nvidia.nvshmem as n; print(list(n.__path__)[0])' 2>/dev/null) &&
    export TG_NVSHMEM_LIBRARY="$nvshmem/lib/libnvshmem_host.so.3"

if [ "$gpus" -lt 2 ]; then
    step runtime 20 "$comm_gpu" --share 2 --launches 2
    step nvshmem 20 "$comm_gpu" --nvshmem --share 2 --launches 2
    step tests2 45 "$python" "$root/tests/gpu/ranks.py" --ranks 2 --launches 20 --seconds 35 \
        --plans ',plan=4 chunks=4' --times
    step tests4 40 "$python" "$root/tests/gpu/ranks.py" --ranks 4 --launches 5 --seconds 30 \
        --plans '' --times
    step bench1 40 "$python" "$root/bench/comm/run.py" --ranks 1 --runs 3 --only 'M512 N6144' \
        --only 'RS M512 N4096' --only ' 1 MiB' --total 30 --out "$out/w1"
    exit $failed
fi

step runtime 60 "$comm_gpu" --time
step nvshmem 40 "$comm_gpu" --nvshmem
for ranks in $wanted; do
    [ "$gpus" -ge $ranks ] || continue
    step tests$ranks 130 "$python" "$root/tests/gpu/ranks.py" --ranks $ranks --times
    step bench$ranks 300 "$python" "$root/bench/comm/run.py" --ranks $ranks --total 270 \
        --out "$out/w$ranks"
done
exit $failed
