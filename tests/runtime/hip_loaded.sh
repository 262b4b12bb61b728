#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Usage: hip_loaded.sh CC HIP_LOADED FAKE_HIP Two releases of HIP. The loader finds one of them
# under each possible name, while the process has loaded the other one before.
set -eu
cc=$1 program=$2 fake=$3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir "$out/app" "$out/system"
release() { # FOLDER NUMBER
    echo 'int hip_release = '"$2;" > "$out/release.c"
    "$cc" -shared -fPIC "$out/release.c" -o "$out/$1/libamdhip64.so.$2" \
        -Wl,-soname,"libamdhip64.so.$2" -Wl,--no-as-needed "$fake" -Wl,-rpath,"$(dirname "$fake")"
}
export FAKE_HIP_DEVICES=gfx942 TG_GPUS=hip
unset TG_HIP_LIBRARY TG_CUDA_LIBRARY
for pair in "7 6" "6 7"; do
    set -- $pair
    rm -f "$out"/app/* "$out"/system/*
    release app "$1"
    release system "$2"
    for name in libamdhip64.so "libamdhip64.so.$2"; do
        [ -e "$out/system/$name" ] || ln -s "libamdhip64.so.$2" "$out/system/$name"
        LD_LIBRARY_PATH="$out/system" "$program" "$out/app/libamdhip64.so.$1" "libamdhip64.so.$1"
    done
done
