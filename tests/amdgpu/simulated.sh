#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The library's kernels as code objects of a GPU that is not there: loaded and launched through HIP
# (tests/runtime/fake_hip.c), run instruction by instruction with checks by the library that AMDSIM
# names, and compared with NumPy. Each kernel of the library must have run; those of several ranks
# are of other targets. Without the library nothing is tested.
# Usage: simulated.sh PYTHON TEGULA FAKE_RUNTIME DEVICE CASES...
set -eu
python=$1 tegula=$2
export TG_HIP_LIBRARY="$3" FAKE_HIP_DEVICES="$4" FAKE_STRICT=1
shift 4
if [ -z "${AMDSIM:-}" ]; then
    echo "AMDSIM names no simulator of code objects: nothing is tested"
    exit 77
fi
run=$(dirname "$0")/../run
for case in "$@"; do
    set -- "$@" "$run/$case.py"
    shift
done
exec "$python" "$run/run.py" --tegula "$tegula" --target hip --each 1 --limit 120 "$@" \
    --lacks v_maxmin_f32:map_clamp,cross_entropy,exponentials,activations,pairs,exp_f32 \
    --covers "$run"/../../stdlib/*.teg
