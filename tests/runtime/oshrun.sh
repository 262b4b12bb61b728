#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# oshrun.sh N PROGRAM...: runs N ranks of OpenSHMEM; 77 if it is not installed.
if ! command -v oshrun >/dev/null; then
    echo "oshrun is not there: tools/dev/setup.sh installs openmpi-bin, libopenmpi-dev"
    exit 77
fi
ranks=$1
shift
root=
[ "$(id -u)" = 0 ] && root=--allow-run-as-root
exec oshrun $root --oversubscribe -n "$ranks" "$@"
