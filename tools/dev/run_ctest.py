#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs ctest. Before ctest's summary it prints why tests were skipped, what tests left out until another
turn (tests/run/turns.py), and the slowest tests.

    tools/dev/run_ctest.py BUILD [options of ctest]

The exit code is ctest's, and its summary stays the end of the output.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import time

SLOWEST = 20
SUMMARY = re.compile(r"^\d+% tests passed")
SKIPPED = re.compile(r"Test +#\d+: (\S+) \.*\**Skipped")
TIMED = re.compile(r"Test +#\d+: (\S+) \.*.*?([\d.]+) sec$")
LEFT_OUT = re.compile(r"^left out: (\d+) of (\d+) in turn (\d+)", re.M)
RECORD = re.compile(r"^\d+/\d+ Test: (\S+)\n.*?^Output:\n-+\n(.*?)^<end of output>", re.M | re.S)


def outputs_of(build):
    """Returns the output of each test of the last run."""
    log = build / "Testing/Temporary/LastTest.log"
    return dict(RECORD.findall(log.read_text(errors="replace"))) if log.exists() else {}


def reason(output):
    """Returns the last line."""
    return (output.strip().splitlines() or ["no reason given"])[-1]


def left_out(outputs):
    """Returns lines that sum up the work left to other turns, by the first words of the tests' names."""
    sums, turns = collections.defaultdict(lambda: [0, 0]), set()
    for test, output in outputs.items():
        for few, all_, turn in LEFT_OUT.findall(output):
            kind = re.match(r"(run-[^-]+|[^-]+)", test)[0]
            sums[kind][0] += int(few)
            sums[kind][1] += int(all_)
            turns.add(turn)
    if not sums:
        return []
    turn = ", ".join(sorted(turns))
    return [f"Left out in turn {turn} (TG_TESTS=all runs everything, TG_TESTS={turn} this turn):"] + [
        f"    {kind}: {few} of {all_}" for kind, (few, all_) in sorted(sums.items())]


def main():
    build = pathlib.Path(sys.argv[1])
    command = ["ctest", "--test-dir", str(build), "--output-on-failure"] + sys.argv[2:]
    # All tests have one turn, also when the day ends.
    os.environ.setdefault("TG_TESTS", str(int(time.time() // 86400)))
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
    outputs = outputs_of(build)
    if skipped:
        print("Skipped, and why:")
        for name in skipped:
            print(f"    {name:28} {reason(outputs.get(name, ''))}")
    for line in left_out(outputs):
        print(line)
    if len(times) > SLOWEST:
        print(f"The slowest {SLOWEST}, in seconds:")
        for seconds, name in sorted(times, reverse=True)[:SLOWEST]:
            print(f"    {name:28} {seconds:8.1f}")
    print()
    print("".join(summary), end="", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
