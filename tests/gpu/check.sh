#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Unpacks a bundle and checks it on this machine's GPU.
#
#   tests/gpu/check.sh BUNDLE.tar.zst OUT [options of check.py]
#
# BUNDLE may be a folder, too. Needs python3 with NumPy, and to unpack zstd one of: tar with zstd,
# zstd, pyarrow.
set -eu
bundle=$1
out=$2
shift 2
mkdir -p "$out"
if [ -d "$bundle" ]; then
    root=$bundle
else
    root=$(mktemp -d /tmp/tegula-bundle.XXXXXX)
    tar -C "$root" --zstd -xf "$bundle" 2>/dev/null ||
        { zstd -dcq "$bundle" 2>/dev/null | tar -C "$root" -xf - 2>/dev/null; } ||
        python3 -c '
import sys, tarfile
import pyarrow
with pyarrow.CompressedInputStream(pyarrow.OSFile(sys.argv[1]), "zstd") as stream:
    tarfile.open(fileobj=stream, mode="r|").extractall(sys.argv[2], filter="data")
' "$bundle" "$root"
fi
# The bundle may hold one folder with everything in it.
if [ ! -e "$root/tests/gpu/check.py" ]; then
    for inner in "$root"/*/; do
        [ -e "$inner/tests/gpu/check.py" ] && root=${inner%/}
    done
fi
exec python3 "$root/tests/gpu/check.py" --root "$root" --out "$out" "$@"
