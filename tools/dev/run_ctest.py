#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs ctest. Before ctest's summary it prints why tests were skipped, and the slowest tests.

    tools/dev/run_ctest.py BUILD [options of ctest]

The exit code is ctest's, and its summary stays the end of the output.
"""

import pathlib
import re
import subprocess
import sys

SLOWEST = 20
SUMMARY = re.compile(r"^\d+% tests passed")
SKIPPED = re.compile(r"Test +#\d+: (\S+) \.*\**Skipped")
TIMED = re.compile(r"Test +#\d+: (\S+) \.*.*?([\d.]+) sec$")
RECORD = re.compile(r"^\d+/\d+ Test: (\S+)\n.*?^Output:\n-+\n(.*?)^<end of output>", re.M | re.S)


def reasons(build):
    """Returns the last output line of each test of the last run."""
    log = build / "Testing/Temporary/LastTest.log"
    if not log.exists():
        return {}
    text = log.read_text(errors="replace")
    return {name: (output.strip().splitlines() or ["no reason given"])[-1] for name, output in RECORD.findall(text)}


def main():
    build = pathlib.Path(sys.argv[1])
    command = ["ctest", "--test-dir", str(build), "--output-on-failure"] + sys.argv[2:]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    skipped, times, summary = [], [], []
    for line in job.stdout:
        if summary or SUMMARY.match(line):
            summary.append(line)
            continue
        print(line, end="", flush=True)
        skipped += SKIPPED.findall(line)
        times += [(float(seconds), name) for name, seconds in TIMED.findall(line)]
    code = job.wait()
    if skipped:
        why = reasons(build)
        print("Skipped, and why:")
        for name in skipped:
            print(f"    {name:28} {why.get(name, 'no reason given')}")
    if len(times) > SLOWEST:
        print(f"The slowest {SLOWEST}, in seconds:")
        for seconds, name in sorted(times, reverse=True)[:SLOWEST]:
            print(f"    {name:28} {seconds:8.1f}")
    print()
    print("".join(summary), end="", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
