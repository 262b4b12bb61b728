#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check.py with tools of the sanitizer that find something, find nothing, are cut short, write no log or
are not there: its exit code and its summary say which. Runs on the CPU.

    tests/gpu/sanitizer.py --tegula BIN
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

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

# what the tool says, or None where there is none -> exit code, text of the summary
EXPECTED = [
    (SUMMARY.format(n=0), 0, "racecheck: 0 errors in"),
    (SUMMARY.format(n=2), 1, "memcheck: 2 errors in 1 logs: memcheck-"),
    (BANNER, 1, "synccheck: 0 errors in 1 logs; FAILED: 1 without a summary: synccheck-"),
    ("", 1, "memcheck: FAILED: it wrote no log"),
    (None, 77, "sanitize: skipped: no compute-sanitizer"),
]


def run(program, folder, say):
    """(exit code, summary) of check.py."""
    tool = folder / "tool"
    stages = ["--stages", "run,sanitize", "--sanitizer", ""]
    if say is not None:
        tool.write_text(TOOL.format(say=say))
        tool.chmod(0o755)
        stages = ["--stages", "sanitize", "--sanitizer", str(tool)]
    command = [sys.executable, str(HERE / "check.py"), "--root", str(HERE.parent.parent)]
    command += ["--tegula", program, "--target", "cpu", "--codegens", "nvptx", "--files", "std_sort"]
    command += ["--each", "1", "--jobs", "2", "--out", str(folder / "out"), *stages]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tegula", required=True)
    o = parser.parse_args()
    wrong = 0
    for say, code, text in EXPECTED:
        with tempfile.TemporaryDirectory(prefix="tegula-sanitizer-") as folder:
            got, said = run(o.tegula, pathlib.Path(folder), say)
        if got != code or text not in said:
            wrong += 1
            print(f"expected exit code {code} and '{text}', got {got}:\n{said}")
    print(f"{len(EXPECTED) - wrong} of {len(EXPECTED)} passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
