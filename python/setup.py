# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles nothing. Puts the library that TEGULA_LIBRARY names, or that ../build holds, beside the package,
with the program that TG_COMPILE=process runs. Without either, the package asks the loader for libtegula.so
when it is imported."""

import os
import pathlib
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution


def built_library():
    named = os.environ.get("TEGULA_LIBRARY")
    tree = pathlib.Path(__file__).resolve().parent.parent / "build" / "libtegula.so"
    path = pathlib.Path(named) if named else tree
    return path if path.is_file() else None


class WithLibrary(build_py):
    def run(self):
        super().run()
        library = built_library()
        if not library:
            return
        package = pathlib.Path(self.build_lib) / "tegula"
        shutil.copy(library, package / "libtegula.so")
        program = library.parent / "bin" / "tegula"
        if program.is_file():
            (package / "bin").mkdir(exist_ok=True)
            shutil.copy(program, package / "bin" / "tegula")


class Binary(Distribution):
    """A wheel that contains the library is for one platform."""

    def has_ext_modules(self):
        return built_library() is not None


setup(cmdclass={"build_py": WithLibrary}, distclass=Binary)
