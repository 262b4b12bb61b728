#!/usr/bin/env python3
"""Reports the lines and branches that the tests run, by folder. It builds with gcc's counters in a folder of
its own, runs tests and calls gcov.

    cmake --build build --target coverage                          # the whole suite: over an hour on two cores
    tools/dev/coverage.py --tests '^(unit|lit)-'                    # these tests alone
    tools/dev/coverage.py --tests '^unit-ir$' --missed backends/cpu # also the lines of that folder that no test ran

Counters add up over all processes of a run, except killed ones. Failing tests are listed and still count.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST = 20  # files listed for a folder
LEFT_OUT = ("build/", "tests/", "bench/", "examples/", "..")


class Lines:
    """Counts of one source: line -> executions; (line, number) -> times that the branch was taken."""

    def __init__(self):
        self.lines = collections.Counter()
        self.branches = collections.Counter()

    def add(self, lines):
        for line in lines:
            at = line["line_number"]
            self.lines[at] += line["count"]
            for n, branch in enumerate(line["branches"]):
                if not branch["throw"]:
                    self.branches[at, n] += branch["count"]


def share(counts):
    """Returns (executed, total)."""
    return sum(1 for n in counts.values() if n), len(counts)


def build(folder, jobs):
    configure = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DTEGULA_COVERAGE=ON", "-DTEGULA_WERROR=OFF"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "-j", str(jobs)], check=True)
    for counts in folder.rglob("*.gcda"):
        counts.unlink()


def test(folder, tests, jobs):
    """Runs the tests and lists failed ones, whose lines count too."""
    command = ["ctest", "--test-dir", folder, "-j", str(jobs), "--output-on-failure", *(["-R", tests] if tests else [])]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace")
    for line in run.stdout:
        if re.search(r"\*\*\*|% tests passed|Total Test time", line):
            print(line.rstrip(), flush=True)
    run.wait()


def gcov_of(compiler):
    """Returns the gcov of the compiler's version."""
    version = subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True).stdout.split(".")[0]
    return shutil.which(f"gcov-{version}") or shutil.which("gcov") or sys.exit("coverage: there is no gcov")


def compiler_of(folder):
    cache = (folder / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_C_COMPILER:\w+=(.*)$", cache, re.M)[1]


def read(gcov, note):
    """Returns gcov's output for an object: [(source, its lines)]."""
    out = subprocess.run([gcov, "--json-format", "--stdout", "--branch-probabilities", note.name], cwd=note.parent,
                         capture_output=True, text=True, errors="replace").stdout  # counters may be damaged
    return [(f["file"], f["lines"]) for text in out.splitlines() if text.startswith("{")
            for f in json.loads(text)["files"]]


def collect(folder, jobs):
    """Returns source path -> Lines."""
    gcov, found = gcov_of(compiler_of(folder)), collections.defaultdict(Lines)
    notes = [n for n in folder.rglob("*.gcno") if "/tests/" not in str(n.relative_to(folder))]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for sources in pool.map(lambda n: read(gcov, n), notes):
            for source, lines in sources:
                name = os.path.relpath(source, ROOT) if os.path.isabs(source) else source
                if (ROOT / name).is_file() and not name.startswith(LEFT_OUT):
                    found[name].add(lines)
    return found


def row(name, lines, branches):
    def percent(part):
        return f"{100 * part[0] / part[1]:6.1f} %" if part[1] else " " * 8

    print(f"{name:32} {percent(lines)} of {lines[1]:6} lines {percent(branches)} of {branches[1]:6} branches")


def added(parts):
    return sum(p[0] for p in parts), sum(p[1] for p in parts)


def report(found, only):
    folders = collections.defaultdict(list)
    for name in found:
        folders[os.path.dirname(name)].append(name)
    for folder, names in sorted(folders.items()):
        row(folder, added([share(found[n].lines) for n in names]), added([share(found[n].branches) for n in names]))
    row("all", added([share(f.lines) for f in found.values()]), added([share(f.branches) for f in found.values()]))
    for folder in only:
        missed(found, folder)


def missed(found, folder):
    """Lists the files of a folder with the most lines that no test ran, and those lines."""
    print(f"\nnever run in {folder}:")
    of = {n: sorted(k for k, c in f.lines.items() if not c) for n, f in found.items() if n.startswith(folder + "/")}
    for name, lines in sorted(of.items(), key=lambda x: -len(x[1]))[:MOST]:
        if lines:
            print(f"  {name}: {ranges(lines)}")


def ranges(lines):
    runs = []
    for n in lines:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return " ".join(f"{a}-{b}" if b > a else str(a) for a, b in runs)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "coverage")
    p.add_argument("--tests", default="", help="a regular expression of ctest; default: all")
    p.add_argument("--missed", action="append", default=[], metavar="FOLDER", help="lists what nothing runs")
    p.add_argument("--no-run", action="store_true", help="reports on the counters of the last run")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    o = p.parse_args()
    folder = o.build.resolve()
    if not o.no_run:
        build(folder, o.jobs)
        test(folder, o.tests, o.jobs)
    report(collect(folder, o.jobs), o.missed)


main()
