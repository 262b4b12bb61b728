# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles nothing. Puts Tegula's files into the package: bin/tegula, include/, lib/ and share/.

TEGULA_PREFIX names a folder with these files, as tools/release/wheel.sh makes it. Without it, the library
that TEGULA_LIBRARY names, or that ../build holds, is taken with the program beside it. Without any of them,
the package asks the loader for libtegula.so when it is imported.

A wheel with the library is for one platform and every Python 3, since the package has no extension module.
"""

import os
import pathlib
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent


def built_files():
    """The files for the package of a build that is not installed."""
    named = os.environ.get("TEGULA_LIBRARY")
    library = pathlib.Path(named) if named else ROOT / "build" / "libtegula.so"
    if not library.is_file():
        return
    yield library, pathlib.Path("lib/libtegula.so")
    program = library.parent / "bin" / "tegula"
    if program.is_file():
        yield program, pathlib.Path("bin/tegula")


def package_files():
    """(file, its path in the package) of each file."""
    named = os.environ.get("TEGULA_PREFIX")
    if not named:
        return list(built_files())
    prefix = pathlib.Path(named)
    return [(path, path.relative_to(prefix)) for path in sorted(prefix.rglob("*")) if path.is_file()]


class WithLibrary(build_py):
    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "tegula"
        for source, name in package_files():
            target = package / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


class AnyPython(bdist_wheel):
    def get_tag(self):
        _, _, platform = super().get_tag()
        return "py3", "none", platform


class Binary(Distribution):
    def has_ext_modules(self):
        return bool(package_files())


setup(cmdclass={"build_py": WithLibrary, "bdist_wheel": AnyPython}, distclass=Binary)
