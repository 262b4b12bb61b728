#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs check.py with sanitizer tools that find something, find nothing, are cut short, write no log or do not
exist, and with files that have no runs. Its exit code and summary must tell these apart. Runs on the CPU.

    tests/gpu/sanitizer.py --tegula BIN
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# As compute-sanitizer is called: --tool T --log-file F-%p.log --error-exitcode 0 PROGRAM ARGUMENTS
TOOL = """#!/bin/sh
log=$(echo "$4" | sed "s/%p/$$/")
{say}
shift 6
exec "$@"
"""
BANNER = 'echo "========= COMPUTE-SANITIZER" > "$log"\n'
SUMMARY = BANNER + """case $2 in
racecheck) echo "========= RACECHECK SUMMARY: {n} hazards displayed ({n} errors, 0 warnings)" ;;
*) echo "========= ERROR SUMMARY: {n} errors" ;;
esac >> "$log"
"""

# the tool's output, or None if there is no tool; case files -> exit code, text of the summary
EXPECTED = [
    (SUMMARY.format(n=0), "std_sort", 0, "racecheck: 0 errors in"),
    (SUMMARY.format(n=2), "std_sort", 1, "memcheck: 2 errors in 1 logs: memcheck-"),
    (BANNER, "std_sort", 1, "synccheck: 0 errors in 1 logs; FAILED: 1 without a summary: synccheck-"),
    ("", "std_sort", 1, "memcheck: FAILED: it wrote no log"),
    (None, "std_sort", 77, "sanitize: skipped: no compute-sanitizer"),
    (SUMMARY.format(n=0), "std_", 0, "memcheck-std_none: no runs"),
    (SUMMARY.format(n=0), "std_none", 1, "memcheck-std_none: no runs"),
]
# All of its cases are for another target.
NONE = 'from harness import *\ncase("none.teg", "none", {}, None, targets=["cuda"])\n'


def tree(folder):
    """A root for check.py with two case files."""
    cases = folder / "tests/run"
    cases.mkdir(parents=True)
    (folder / "stdlib").symlink_to(ROOT / "stdlib")
    for name in ("run.py", "harness.py", "std_sort.py"):
        (cases / name).symlink_to(ROOT / "tests/run" / name)
    (cases / "std_none.py").write_text(NONE)
    return folder


def run(program, folder, say, files):
    """(exit code, summary) of check.py."""
    tool = folder / "tool"
    stages = ["--stages", "run,sanitize", "--sanitizer", ""]
    if say is not None:
        tool.write_text(TOOL.format(say=say))
        tool.chmod(0o755)
        stages = ["--stages", "sanitize", "--sanitizer", str(tool)]
    command = [sys.executable, str(HERE / "check.py"), "--root", str(tree(folder / "root"))]
    command += ["--tegula", program, "--target", "cpu", "--codegens", "nvptx", "--files", files]
    command += ["--each", "1", "--jobs", "2", "--out", str(folder / "out"), *stages]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tegula", required=True)
    o = parser.parse_args()
    wrong = 0
    for say, files, code, text in EXPECTED:
        with tempfile.TemporaryDirectory(prefix="tegula-sanitizer-") as folder:
            got, said = run(o.tegula, pathlib.Path(folder), say, files)
        if got != code or text not in said:
            wrong += 1
            print(f"expected exit code {code} and '{text}', got {got}:\n{said}")
    print(f"{len(EXPECTED) - wrong} of {len(EXPECTED)} passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
