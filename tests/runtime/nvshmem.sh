#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# nvshmem.sh COMM_GPU FAKE_NVSHMEM: ranks with GPUs and NVSHMEM's heap, with stand-ins for the
# driver and the library, near and far from each other; ranks that fail; and the messages if the
# library is missing or unusable.
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

export FAKE_NVSHMEM_TAG=$$
leftovers() {
    ls /dev/shm | grep -c "^fake-nvshmem-$FAKE_NVSHMEM_TAG-" || true
}
# runs WHAT [NAME=VALUE...] [-- OPTION...]: the ranks must succeed.
runs() {
    what=$1
    shift
    set -- "$@" --
    given=
    while [ "$1" != -- ]; do
        given="$given $1"
        shift
    done
    shift
    while [ $# -gt 0 ]; do
        [ "$1" = -- ] || options="$options $1"
        shift
    done
    # shellcheck disable=SC2086
    env $given "$comm_gpu" --nvshmem $options >"$out" 2>&1 || die "$what fail"
    options=
    [ "$(leftovers)" = 0 ] || die "$what: memory of the stand-in is left in /dev/shm"
    grep -q fake_nvshmem "$out" && die "$what: the library was asked for what is wrong"
    return 0
}
options=
two=FAKE_CUDA_DEVICES=90,90
four=FAKE_CUDA_DEVICES=90,90,80,90
runs "ranks with a heap of NVSHMEM's"
runs "two ranks whose memory is not mapped" FAKE_NVSHMEM=far $two
runs "four ranks whose memory is not mapped" FAKE_NVSHMEM=far $four
runs "ranks that take memory for not mapped" TG_COMM_MAP=0 $two
runs "ranks that meet at a port" -- --tcp
runs "far ranks that meet at a port" FAKE_NVSHMEM=far $four -- --tcp
runs "two ranks of two hosts" FAKE_NVSHMEM_HOSTS=1 $two -- --hosts
runs "four ranks of four hosts" FAKE_NVSHMEM_HOSTS=1 $four -- --hosts
for misuse in unlike odd even absent dead late; do
    runs "near ranks of which one is $misuse" -- --misuse $misuse
    runs "far ranks of which one is $misuse" FAKE_NVSHMEM=far -- --misuse $misuse
    runs "ranks of hosts of which one is $misuse" FAKE_NVSHMEM_HOSTS=1 -- --hosts --misuse $misuse
done

# refuses TEXT [NAME=VALUE...]: the ranks must fail with that message.
refuses() {
    text=$1
    shift
    env "$@" "$comm_gpu" --nvshmem >"$out" 2>&1 && die "$*: nothing is said"
    grep -q "$text" "$out" || die "$*: no word of: $text"
}

refuses 'NVSHMEM cannot be loaded: .*TG_NVSHMEM_LIBRARY names its file' TG_NVSHMEM_LIBRARY=/none.so
refuses 'has no nvshmem[a-z_]*: version 3 is needed' TG_NVSHMEM_LIBRARY="$TG_CUDA_LIBRARY"
refuses 'NVSHMEM gives no identity' FAKE_NVSHMEM=nameless
refuses 'NVSHMEM does not start: error 7' FAKE_NVSHMEM=late
refuses 'NVSHMEM has no [0-9]* bytes; NVSHMEM_SYMMETRIC_SIZE' FAKE_NVSHMEM=full
refuses 'network adapters write .* in their order' FAKE_NVSHMEM=far FAKE_CUDA_NO_ORDER=1
refuses 'has [0-9]* bytes in one piece, and [0-9]* are needed: ask for less' FAKE_NVSHMEM=pieces
