#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs kernels as code objects without a GPU. tests/runtime/fake_hip.c takes the calls of HIP, the
# emulator (tools/amdsim) runs and checks each instruction, and results are compared with NumPy.
# Kernels of several ranks are left out. Usage: simulated.sh BUILD DEVICE SELECTION [options of
# run.py]
#   first, second  a case of each kernel of the library in one of two settings, and arithmetic; the
#                  two selections complement each other
#   part           products, reductions, atomics, types
#   all            a case of each kernel in both settings, all arithmetic: two minutes of CPU time
set -eu
build=$1 device=$2 selection=$3
shift 3
folder=$(cd "$(dirname "$0")/.." && pwd)
run=$folder/run
export TG_HIP_LIBRARY="${FAKE_HIP:-$build/tests/runtime/libfake_hip.so}"
export FAKE_HIP_DEVICES="$device" FAKE_STRICT=1
export AMDSIM="${AMDSIM:-$build/tests/amdgpu/libamdsim.so}" TG_CACHE=off TG_TUNE=off
case $selection in
first) turn=1/2 part=1/24 ;;
second) turn=2/2 part=13/24 ;;
part) turn=1/2 part=7/24 ;;
all) turn=1/1 part=1/1 ;;
*) echo "unknown selection $selection"; exit 2 ;;
esac

cases() { # options, and names of files in tests/run
    for case in "$@"; do
        case $case in -*|*/*) set -- "$@" "$case" ;; *) set -- "$@" "$run/$case.py" ;; esac
        shift
    done
    "${PYTHON:-/usr/bin/python3}" "$run/run.py" --tegula "$build/bin/tegula" --target hip \
        --limit 600 "$@"
}

library=$(cd "$run" && echo std_*.py | sed 's/[.]py//g')
arithmetic="eights exact maths language_types ops_blocks prelude products"
failed=0
if [ "$selection" = part ]; then
    cases --each=1 --turn="$turn" "$@" \
        std_reduce std_scan eights language_types products || failed=1
else
    # shellcheck disable=SC2086 # lists of names
    cases --each=1 --turn="$turn" "$@" \
        $library $arithmetic --covers "$run"/../../stdlib/*.teg || failed=1
fi
cases --part="$part" "$@" ops_elementwise || failed=1
exit $failed
