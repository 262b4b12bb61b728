#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The command line with a driver that checks what it is asked for and runs nothing (fake_cuda.c):
# arrays go there and come back, code is loaded and launched.
# Usage: cli_cuda.sh TEGULA FAKE_DRIVER
set -eu
tegula=$1
export TG_CUDA_LIBRARY="$2"
. "$(dirname "$0")/cli_gpu.sh"

expect '--target cuda: a kernel of ranks is not launched on GPUs from the command line' \
    "$tegula" run "$out/ranks.teg" --target cuda --ranks 2 --arg 'a=ones(2,10)'

run="$tegula run $out/k.teg --arg x=rand(1000)"
expect 'cuda:1  Fake GPU 1, compute capability 8.0' "$tegula" targets
# Nothing runs, so y comes back as it went.
expect 'y: f32\[1000\] = 3 3 3 3' $run --target cuda --arg 'y=full(1000,value=3)'
expect 'ran .* on cuda' $run --target cuda:1 --arg 'y=full(1000,value=3)' --repeat 5
expect "there is no device 2: this machine has 2 GPUs" $run --target cuda:2 --arg 'y=zeros(1000)'
# Only elements are copied of an array that spans more than 1 GiB.
expect 'y: f32\[3\] = 3 3 3' $tegula run "$out/k.teg" --target cuda --arg 'x=rand(3)' \
    --arg 'y=full(3,value=3):spread(0,150000000)'
expect "overlaps" $run --target cuda --arg 'y=same(x)[::-1]'
expect 'cuda: .* of a copy' "$tegula" bench "$out/k.teg" --target cuda --seconds 0.01
expect 'device code, nvptx' $run --target cuda --arg 'y=zeros(1000)' --codegen nvptx --time-passes
