#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# all.sh [--shared] FOLDER [RANKS...]: runs everything that needs several GPUs: tests of ranks,
# figures beside NCCL, cuBLAS and PyTorch's async-TP, and the runtime alone. It takes 2 and 4 ranks,
# or the given numbers, for 5 minutes each. On one GPU it is a trial: ranks share the GPU, one rank
# runs every arm of the benchmark, and times mean nothing. --shared tests correctness without times,
# with ranks that share the available GPUs and with each plan, in nine minutes.
#
# FOLDER/STEP.txt has each step's output; w2 and w4 have figures. Ends with 0 if all passed.
set -u
shared=
[ "$1" = --shared ] && shared=1 && shift
out=$(mkdir -p "$1" && cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
failed=0
plans='plan=1,plan=2,plan=3 chunks=4,plan=4 chunks=4,plan=5,plan=6,plan=7'
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

# bars NAME RANKS LAUNCHES PLANS: tests of ranks, then the promised number of launches. The limit is
# twice the time of ranks that share a GPU: 20 to 40 s a plan, 4 ms a launch and rank.
bars() {
    n=$(echo "$4" | tr , '\n' | wc -l)
    limit=$((60 + n * (20 + 10 * $2) + n * 2 * $3 * $2 * 8 / 1000))
    step "$1" $limit "$python" "$root/tests/gpu/ranks.py" --ranks "$2" --launches "$3" \
        --plans "$4" --seconds $((limit - 30)) --times
    grep -E '^ *[0-9]+ launches|^FAIL|overlap|clocks' "$out/$1.txt" | cut -c1-150 | sed 's/^/    /'
}

if [ "$shared" ]; then
    bars bars2 2 1000 ''
    bars bars4 4 1000 ''
    bars plans2 2 20 "$plans"
    bars plans4 4 10 "$plans"
    step runtime 20 "$comm_gpu" --share 2 --launches 2
    step nvshmem 20 "$comm_gpu" --nvshmem --share 2 --launches 2
    step far 20 env TG_COMM_MAP=0 "$comm_gpu" --nvshmem --share 2 --launches 2
    exit $failed
fi

if [ "$gpus" -lt 2 ]; then
    step runtime 20 "$comm_gpu" --share 2 --launches 2
    step nvshmem 20 "$comm_gpu" --nvshmem --share 2 --launches 2
    bars tests2 2 20 ',plan=4 chunks=4'
    bars tests4 4 5 ''
    step bench1 40 "$python" "$root/bench/comm/run.py" --ranks 1 --runs 3 --only 'M512 N6144' \
        --only 'RS M512 N4096' --only ' 1 MiB' --total 30 --out "$out/w1"
    exit $failed
fi

step runtime 60 "$comm_gpu" --time
step nvshmem 40 "$comm_gpu" --nvshmem
# As on several hosts: without mapped memory, then with hosts that connect to each other.
step far 40 env TG_COMM_MAP=0 "$comm_gpu" --nvshmem
step hosts 40 env NVSHMEM_REMOTE_TRANSPORT=none NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo \
    "$comm_gpu" --nvshmem --hosts
step far2 90 env TG_COMM_MAP=0 "$python" "$root/tests/gpu/ranks.py" --comm nvshmem --launches 50 \
    --plans ',plan=3 chunks=4' --seconds 60
for ranks in $wanted; do
    [ "$gpus" -ge $ranks ] || continue
    bars tests$ranks $ranks 1000 ",$plans"
    step bench$ranks 300 "$python" "$root/bench/comm/run.py" --ranks $ranks --total 270 \
        --out "$out/w$ranks"
done
exit $failed
