#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a wheel of Tegula.

    tools/release/check_wheel.py FILE.whl --glibc 2.28

Its tag, size and files; that no file depends on Python's ABI; the glibc, the libraries and the run paths that
programs and libraries ask for; their hardening; and the verdict of `auditwheel show`.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

MOST_BYTES = 100_000_000  # PyPI's limit for a file
FILES = (
    "tegula/__init__.py", "tegula/py.typed", "tegula/bin/tegula", "tegula/lib/libtegula.so.0",
    "tegula/lib/libtegula.so", "tegula/lib/libtegula_llvm.so.0", "tegula/lib/libtegula_rt.so.0",
    "tegula/lib/libtegula_rt.so", "tegula/lib/libtegula_rt.a", "tegula/lib/pkgconfig/tegula.pc",
    "tegula/lib/pkgconfig/tegula_rt.pc", "tegula/lib/cmake/tegula/tegula-config.cmake",
    "tegula/include/tegula.h", "tegula/include/tegula/dlpack.h", "tegula/include/tegula/abi.h",
    "tegula/share/tegula/std/softmax.teg",
)
SYSTEM = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux.*")


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def number(version):
    return tuple(int(part) for part in version.split("."))


def file_faults(names, tag):
    yield from (f"{name} is missing" for name in FILES if name not in names)
    scripts = [n for n in names if re.fullmatch(r"tegula-[^/]+\.data/scripts/tegula", n)]
    if len(scripts) != 1:
        yield "the command is missing"
    yield from (f"{name} is for one Python" for name in names if re.search(r"\.(cpython|abi3)[^/]*\.so$", name))
    if not re.fullmatch(r"py3-none-manylinux_\d+_\d+_\w+", tag):
        yield f"the tag is {tag}"


def elf_faults(path, glibc, own):
    headers, dynamic = run("readelf", "-Wlh", path), run("readelf", "-Wd", path)
    symbols = run("readelf", "-W", "--dyn-syms", path)
    versions = {number(v) for v in re.findall(r"GLIBC_([0-9.]+)", symbols)}
    if versions and max(versions) > glibc:
        late = re.findall(r"(\w+)@GLIBC_([0-9.]+)", symbols)
        yield f"asks for {sorted({name for name, v in late if number(v) > glibc})}"
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not SYSTEM.fullmatch(needed) and needed not in own:
            yield f"asks for the library {needed}"
    for entries in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
        yield from (f"has the run path {e}" for e in entries.split(":") if not e.startswith("$ORIGIN"))
    if re.search(r" UND _?Py[A-Z_]\w*", symbols):
        yield "calls Python"
    if "GNU_RELRO" not in headers or not re.search(r"BIND_NOW|\bNOW\b", dynamic):
        yield "has tables that stay writable"
    if not re.search(r"GNU_STACK.* RW ", headers):
        yield "has an executable stack"
    if re.search(r"\.(debug_info|symtab)\b", run("readelf", "-WS", path)):
        yield "is not stripped"


def unpacked_faults(folder, glibc):
    files = [f for f in folder.rglob("*") if f.is_file()]
    own = {f.name for f in files}
    for f in files:
        with open(f, "rb") as opened:
            head = opened.read(18)
        if head[:4] == b"\x7fELF" and head[16] in (2, 3):
            yield from (f"{f.relative_to(folder)} {fault}" for fault in elf_faults(f, glibc, own))


def verdict(wheel):
    return run(sys.executable, "-m", "auditwheel", "show", wheel)


def faults(wheel, glibc):
    tag = "-".join(wheel.stem.split("-")[2:])
    if wheel.stat().st_size > MOST_BYTES:
        yield f"it has {wheel.stat().st_size} bytes"
    with zipfile.ZipFile(wheel) as z, tempfile.TemporaryDirectory() as folder:
        yield from file_faults(set(z.namelist()), tag)
        program = next((i for i in z.infolist() if i.filename == "tegula/bin/tegula"), None)
        if program and not program.external_attr >> 16 & 0o100:
            yield "the program cannot be executed"
        z.extractall(folder)
        yield from unpacked_faults(pathlib.Path(folder), glibc)
    said = " ".join(verdict(wheel).split())
    print(said)
    platform = tag.rsplit("-", 1)[-1]
    if f'consistent with the following platform tag: "{platform}"' not in said:
        yield f"auditwheel does not find it consistent with {platform}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("--glibc", type=number, required=True)
    options = parser.parse_args()
    found = list(faults(options.wheel, options.glibc))
    print("\n".join(f"{options.wheel.name}: {fault}" for fault in found) or f"{options.wheel.name} is sound")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
