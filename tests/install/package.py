#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel that python/setup.py makes of a folder of files: its tag, its files, its command; and the check of
wheels (tools/release/check_wheel.py), which must refuse wheels with faults.

    tests/install/package.py --source . --cc cc        exits 77 without setuptools
"""
import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

PLATFORM = "manylinux_2_28_x86_64"


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


def load_checker(source):
    spec = importlib.util.spec_from_file_location("check_wheel", source / "tools/release/check_wheel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_prefix(folder, checker, program):
    """A folder with the files of a wheel, most of them empty."""
    for name in checker.FILES:
        path = folder / pathlib.Path(name).relative_to("tegula")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not name.endswith((".py", "py.typed")):
            path.write_text("")
    for name in ("__init__.py", "py.typed"):
        (folder / name).unlink(missing_ok=True)
    (folder / "bin/tegula").write_text(program)
    (folder / "bin/tegula").chmod(0o755)


def make_wheel(source, prefix, work):
    package = work / "package"
    shutil.copytree(source / "python", package, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    env = {**os.environ, "TEGULA_PREFIX": str(prefix)}
    r = run(sys.executable, "setup.py", "-q", "bdist_wheel", "--plat-name", PLATFORM, "--dist-dir", work / "dist",
            cwd=package, env=env)
    wheels = list((work / "dist").glob("*.whl"))
    if r.returncode or len(wheels) != 1:
        sys.exit(r.stdout + r.stderr)
    return wheels[0]


def wheel_faults(wheel, checker, source):
    tag = wheel.stem.split("-", 2)[2]
    if tag != f"py3-none-{PLATFORM}":
        yield f"the tag is {tag}"
    with zipfile.ZipFile(wheel) as z:
        names = {i.filename: i for i in z.infolist()}
        yield from checker.file_faults(set(names), tag)
        for path in (source / "python/tegula").rglob("*.py"):
            name = path.relative_to(source / "python").as_posix()
            if name not in names:
                yield f"{name} is not in the wheel"
        if not names["tegula/bin/tegula"].external_attr >> 16 & 0o100:
            yield "the program cannot be executed"


def command_faults(wheel, work):
    """The command runs the program of the package, with its arguments, and imports no library."""
    site = work / "site"
    with zipfile.ZipFile(wheel) as z:
        z.extractall(site)
        script = next(site.glob("tegula-*.data/scripts/tegula"))
    env = {**os.environ, "PYTHONPATH": str(site)}
    program = site / "tegula/bin/tegula"
    r = run(sys.executable, script, "run", "a b", env=env)
    if "cannot" in r.stderr or "no compiler" not in r.stderr:  # a zip's modes were not restored
        yield f"without a program: {r.returncode} {r.stdout}{r.stderr}"
    program.chmod(0o755)
    r = run(sys.executable, script, "run", "a b", env=env)
    if (r.returncode, r.stdout) != (3, "2 run a b\n"):
        yield f"the command: {r.returncode} {r.stdout}{r.stderr}"


# Libraries that the check must refuse: C source, flags, message.
REFUSED = (
    ("int f(void) { return 0; }", ("-Wl,-z,norelro",), "tables that stay writable"),
    ("int f(void) { return 0; }", ("-Wl,-z,relro,-z,now", "-Wl,-rpath,/opt"), "has the run path /opt"),
    ("int PyList_New(int); int f(void) { return PyList_New(0); }", ("-Wl,-z,relro,-z,now",), "calls Python"),
    ("int f(void) { return 0; }", ("-Wl,-z,relro,-z,now", "-Wl,-z,execstack"), "executable stack"),
    ("int f(void) { return 0; }", ("-Wl,-z,relro,-z,now", "-g"), "is not stripped"),
    ("double sin(double); double f(double x) { return sin(x); }", ("-Wl,-z,relro,-z,now", "-lm", "-s"), None),
    ("int puts(const char *); int f(void) { return puts(\"\"); }", ("-Wl,-z,relro,-z,now", "-s", "-lc"), None),
    ("int f(void) { return 0; }", ("-Wl,-z,relro,-z,now", "-s", "-Wl,--no-as-needed", "-lz"), "asks for the library libz"),
    ("int pidfd_spawn(void); int f(void) { return pidfd_spawn(); }", ("-Wl,-z,relro,-z,now", "-s", "LATE"), "pidfd_spawn"),
)
LATE = ('__asm__(".symver late, pidfd_spawn@@GLIBC_2.39"); int late(void); int late(void) { return 0; }')


def check_faults(checker, cc, work):
    """The check of programs and libraries."""
    late = work / "libc.so.6"
    (work / "late.c").write_text(LATE)
    (work / "late.map").write_text("GLIBC_2.39 { global: pidfd_spawn; local: *; };\n")
    run(cc, "-shared", "-fPIC", "-nostdlib", f"-Wl,--version-script={work / 'late.map'}", "-Wl,-soname,libc.so.6",
        work / "late.c", "-o", late, check=True)
    for i, (text, flags, says) in enumerate(REFUSED):
        source, library = work / f"{i}.c", work / f"{i}.so"
        source.write_text(text + "\n")
        flags = [late if f == "LATE" else f for f in flags]
        r = run(cc, "-shared", "-fPIC", "-fno-builtin", source, "-o", library, *flags)
        if "-lz" in flags and r.returncode:
            continue  # there is no zlib to link with
        found = list(checker.elf_faults(library, (2, 28), set()))
        if says is None and found:
            yield f"{text}: {found}"
        if says and not any(says in f for f in found):
            yield f"{text} {flags}: '{says}' is not in {found} {r.stderr}"


def version_faults(source):
    """The version stands in three files."""
    places = (("CMakeLists.txt", r"VERSION ([0-9.]+) LANGUAGES"), ("python/pyproject.toml", r'(?m)^version = "(.*)"'),
              ("python/tegula/__init__.py", r'__version__ = "(.*)"'))
    found = {name: re.search(pattern, (source / name).read_text())[1] for name, pattern in places}
    if len(set(found.values())) != 1:
        yield f"the versions differ: {found}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--cc", required=True)
    options = parser.parse_args()
    source = options.source.resolve()
    try:
        import setuptools  # noqa: F401
        import wheel  # noqa: F401
    except ImportError:
        print("left out: this Python has no setuptools with wheel")
        return 77
    checker, bad = load_checker(source), list(version_faults(source))
    with tempfile.TemporaryDirectory(prefix="tegula-package-") as folder:
        work = pathlib.Path(folder)
        make_prefix(work / "prefix", checker, '#!/bin/sh\necho "$# $*"\nexit 3\n')
        wheel = make_wheel(source, work / "prefix", work)
        bad += list(wheel_faults(wheel, checker, source))
        bad += command_faults(wheel, work)
        bad += check_faults(checker, options.cc, work)
    print("\n".join(bad) or "the wheel and its check are as they should be")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
