"""Enables faults one by one, and finds whether tests and random programs notice.

Usage: run.py --build FOLDER [--only 1,2,...] [--sample N --seed S] [--tests] [--fuzz SECONDS] [--jobs J]

FOLDER is a build with -DTEGULA_MUTANTS=ON (`cmake --preset mutants && cmake --build build/mutants`). For
each fault of FOLDER/mutants/mutants.tsv it runs random programs. If they notice nothing, it runs the short
list of tests for the fault's folder (--tests-first: the other way round). A crash and a hang count as
noticed. explained.py lists faults without an effect on results. It prints a line for each fault, and the shares
at the end.
"""

import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import time

from explained import EXPLAINED

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The first matching folder: targets of random programs, a regular expression of tests.
FOLDERS = [
    ("passes/gpu", "sim:sm_90a,sim:sm_80,sim:gfx942",
     "lit-gpu$|lit-gpu-async|run-sm_90a-(contract-1|products|language_positions|narrow_copies)|run-gfx942-(ops_blocks|packs)|"
     "run-sm_80-strips"),
    ("passes", "cpu,sim:sm_80",
     "lit-passes|unit-(passes|range)|run-(contract|language_.*|carried|packs|kernels_rows|std_reduce)"),
    ("backends/cpu", "cpu",
     "lit-cpu|unit-(cpu|axis_ops|transpose|contract)|run-(ops_blocks|contract|language_.*|carried|packs|std_sort|comm)"),
    ("backends/llvm", "cpu,sim:sm_80",
     "lit-cpu|unit-cpu|run-(exact|carried|ops_elementwise|language_types)|run-base-exact|run-sm_80-exact"),
    ("backends/gpu", "sim:sm_80,sim:sm_90a,sim:gfx942",
     "lit-gpu-lower.*|unit-gpu_.*|run-sm_90a-(clusters|contract-1|ops_blocks|packs|language_positions)|run-sm_80-std_reduce|"
     "run-gfx942-(ops_blocks|std_sort)"),
]  # fmt: skip


def folder_of(name):
    return next(f for f in FOLDERS if name.startswith(f[0] + "/"))


def reason(name, line, what):
    """Why the fault changes no result; None where it does."""
    before = (ROOT / name).read_text().splitlines()[: line - 1]
    return EXPLAINED.get((name, what, sum(text.strip() == what for text in before)))


def run(command, env, seconds):
    """(whether it failed, its output)."""
    try:
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                           timeout=seconds, start_new_session=True)  # fmt: skip
        return p.returncode != 0, p.stdout
    except subprocess.TimeoutExpired as e:
        return True, (e.stdout or b"").decode(errors="replace") + "\nran too long"


def fuzzed(o, number, targets, env):
    begin = time.monotonic()
    extent = ["--programs", str(o.programs)] if o.programs else ["--seconds", str(o.fuzz)]
    bad, text = run([sys.executable, str(ROOT / "tests/fuzz/programs.py"), "--tegula", str(o.build / "bin/tegula"),
                     *extent, "--targets", targets, "--most", "1", "--as-they-are",
                     "--jobs", str(o.jobs), "--seed", str(o.seed * 1000 + number)],
                    env, 600 if o.programs else o.fuzz + 120)  # fmt: skip
    found = re.search(r"^  \d+ x (.*)$", text, re.M)
    if bad and found and found[1].startswith("interp") and "TG_MUTANT" in env:  # the program itself may be at fault
        bad = not fuzzed(o, number, targets, {k: v for k, v in env.items() if k != "TG_MUTANT"})[0]
    last = text.strip().splitlines()[-1][:60] if text.strip() else "?"
    return bad, f"{time.monotonic() - begin:.0f} s: {found[1] if found else last if bad else 'nothing'}"


def tested(o, tests, env):
    bad, text = run(["ctest", "--test-dir", str(o.build), "-R", f"^({tests})$", "--stop-on-failure", "-j", str(o.jobs)],
                    env, 900)  # fmt: skip
    found = re.search(r"\d+ - (\S+) \((Failed|Timeout|.*)\)", text)
    return bad, found[1] if found else "nothing" if not bad else "failed"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--only", help="numbers of faults")
    p.add_argument("--sample", type=int, help="so many, drawn by the seed")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--fuzz", type=int, default=60, help="seconds of random programs a fault")
    p.add_argument("--programs", type=int, help="so many in place of seconds, on a machine that others use")
    p.add_argument("--no-tests", action="store_true", help="random programs alone")
    p.add_argument("--tests-first", action="store_true", help="programs for what the tests miss, not the other way round")
    p.add_argument("--no-programs", action="store_true", help="tests alone, with --tests-first")
    p.add_argument("--jobs", type=int, default=1)
    o = p.parse_args()
    o.build = o.build.resolve()
    rows = [line.split("\t") for line in (o.build / "mutants/mutants.tsv").read_text().splitlines()]
    if o.only:
        rows = [r for r in rows if int(r[0]) in {int(n) for n in o.only.split(",")}]
    if o.sample:
        rows = sorted(random.Random(o.seed).sample(rows, min(o.sample, len(rows))), key=lambda r: int(r[0]))
    noticed = explained = 0
    for number, name, line, kind, what in rows:
        _, targets, tests = folder_of(name)
        env = {**os.environ, "TG_MUTANT": number}
        by_tests, test = tested(o, tests, env) if o.tests_first else (False, "not run")
        by_programs, how = (False, "not run") if by_tests or o.no_programs else fuzzed(o, int(number), targets, env)
        if not (by_programs or by_tests or o.no_tests or o.tests_first):
            by_tests, test = tested(o, tests, env)
        noticed += by_programs or by_tests
        why = None if by_programs or by_tests else reason(name, int(line), what)
        explained += why is not None
        verdict = "noticed" if by_programs or by_tests else "same" if why else "MISSED"
        print(f"{number:>3} {verdict:8} {name}:{line} {kind}: {what[:90]}\n      programs {how}; tests {test}", flush=True)
        if why:
            print(f"      {why}", flush=True)
    print(f"{noticed} of {len(rows)} noticed, {100 * noticed / max(1, len(rows)):.0f} %; {explained} explained")
    return 0


if __name__ == "__main__":
    sys.exit(main())
