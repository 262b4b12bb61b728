#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the loader flags of the build's programs and libraries: no run path that depends on the current
folder, read-only tables, no executable stack, and the marks of the hardening flags.

    tests/install/hardened.py --build build [--flags]      --flags: built with TEGULA_HARDEN
"""

import argparse
import pathlib
import re
import subprocess
import sys

SHIPPED = ["bin/tegula", "bin/tegula-opt", "libtegula.so", "libtegula_rt.so"]
STATIC = ["libtegula.a", "libtegula_rt.a"]


def readelf(path, *options):
    command = ["readelf", "-W", *options, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def is_elf(path):
    with open(path, "rb") as f:
        head = f.read(18)
    return head[:4] == b"\x7fELF" and head[16] in (2, 3)  # a program or a shared library


def run_paths(path):
    """Faults in its run paths: an entry that is empty, or that begins with neither a root nor $ORIGIN."""
    for entries in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", readelf(path, "-d")):
        for entry in entries.split(":"):
            if not entry.startswith(("/", "$ORIGIN")):
                yield f"{path}: the run path '{entries}' has the entry '{entry}'"


def marks(path):
    """Missing marks."""
    headers, dynamic = readelf(path, "-lh"), readelf(path, "-d")
    if "GNU_RELRO" not in headers or not re.search(r"BIND_NOW|\bNOW\b", dynamic):
        yield f"{path}: its tables stay writable"
    if re.search(r"GNU_STACK.*RWE", headers):
        yield f"{path}: its stack is executable"
    if not re.search(r"__stack_chk_(fail|guard)", readelf(path, "--dyn-syms")):
        yield f"{path}: no stack protector"


def branch_targets(archive):
    """On x86, checks the object marks that a linker needs to mark a program. If the system's start files lack
    them, programs have no mark, so the archive is checked."""
    if "X86-64" in readelf(archive, "-h") and "IBT" not in readelf(archive, "-n"):
        yield f"{archive}: no mark of indirect branch targets"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--flags", action="store_true")
    o = parser.parse_args()
    files = [f for f in o.build.rglob("*") if f.is_file() and not f.is_symlink()]
    files = [f for f in files if (f.stat().st_mode & 0o100 or ".so" in f.name) and is_elf(f)]
    wrong = [text for f in files for text in run_paths(f)]
    if o.flags:
        wrong += [text for name in SHIPPED for text in marks(o.build / name)]
        wrong += [text for name in STATIC for text in branch_targets(o.build / name)]
    print("\n".join(wrong) if wrong else f"{len(files)} files are as they should be")
    return bool(wrong) or not files


if __name__ == "__main__":
    sys.exit(main())
