#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# nvshmem.sh COMM_GPU FAKE_NVSHMEM: ranks with GPUs whose heap is NVSHMEM's, by stand-ins of the
# driver and of the library; then what is said where the library is missing or cannot do it.
set -eu
comm_gpu=$1
export TG_NVSHMEM_LIBRARY="$2"
out=$(mktemp)
trap 'rm -f "$out"' EXIT

die() {
    echo "$1" >&2
    cat "$out" >&2
    exit 1
}

leftovers() {
    ls /dev/shm | grep -c '^fake-nvshmem-' || true
}
before=$(leftovers)
"$comm_gpu" --nvshmem >"$out" 2>&1 || die "ranks with a heap of NVSHMEM's fail"
[ "$(leftovers)" -le "$before" ] || die "memory of the stand-in is left in /dev/shm"
grep -q fake_nvshmem "$out" && die "the library was asked for what is wrong"

# refuses TEXT [NAME=VALUE...]: ranks end with that message.
refuses() {
    text=$1
    shift
    env "$@" "$comm_gpu" --nvshmem >"$out" 2>&1 && die "$*: nothing is said"
    grep -q "$text" "$out" || die "$*: no word of: $text"
}

refuses 'NVSHMEM cannot be loaded: .*TG_NVSHMEM_LIBRARY names its file' TG_NVSHMEM_LIBRARY=/none.so
refuses 'has no nvshmem[a-z_]*: version 3 is needed' TG_NVSHMEM_LIBRARY="$TG_CUDA_LIBRARY"
refuses 'NVSHMEM does not start: error 7' FAKE_NVSHMEM=late
refuses 'NVSHMEM has no [0-9]* bytes; NVSHMEM_SYMMETRIC_SIZE' FAKE_NVSHMEM=full
refuses 'rank 0 cannot map memory of rank 1: ranks on several hosts' FAKE_NVSHMEM=far
refuses 'set NVSHMEM_CUMEM_GRANULARITY to a power of two' FAKE_NVSHMEM=pieces
