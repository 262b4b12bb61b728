#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that the flags of a distribution's build are kept: its level of checked functions and its run paths.
Only configures, in a scratch folder.

    tests/install/packager.py --source . --compiler cc
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

PATHS = ["/opt/first/lib", "/opt/second/lib"]


def configure(o, flags):
    """The text of the build's rules."""
    with tempfile.TemporaryDirectory(prefix="tegula-packager.") as folder:
        command = ["cmake", "-S", o.source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                   f"-DCMAKE_C_COMPILER={o.compiler}", f"-DCMAKE_C_FLAGS={flags}",
                   f"-DCMAKE_INSTALL_RPATH={';'.join(PATHS)}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(done.stdout)
        return (pathlib.Path(folder) / "build.ninja").read_text()


def wrong_in(text, level):
    said = set(re.findall(r"-[UD]_FORTIFY_SOURCE\S*", text))
    if said != {f"-D_FORTIFY_SOURCE={level}"}:
        yield f"checked functions are of {sorted(said)}, not of level {level}"
    if not re.search("rpath," + ":".join(PATHS), text):
        yield "CMAKE_INSTALL_RPATH is lost"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--compiler", required=True)
    o = parser.parse_args()
    wrong = [text for level in (3, 1) for text in wrong_in(configure(o, f"-D_FORTIFY_SOURCE={level}"), level)]
    print("\n".join(wrong) if wrong else "they are kept")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
