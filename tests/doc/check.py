#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the examples of the documentation through `tegula check`.

    tests/doc/check.py --tegula build/bin/tegula [-v] [FILE.md...]

A fenced block is an example where its first word is one of

    teg               a file that has no errors and no warnings
    teg-body          statements in the frame of the page (its block `teg-frame`)
    teg-error TEXT    a file with an error or hint that holds TEXT
    teg-warning TEXT  a file with a warning or hint that holds TEXT and without errors
    teg-parse         a file that parses, whatever `check` says
    teg-skip          not an example to run
    emit ARGUMENTS    lines that `tegula emit ARGUMENTS` prints, in that order. `...` stands for any
                      text within a line, and as a line for any number of lines.

Without files: lang/grammar.md, README.md and all pages of docs/.
"""
import argparse
import difflib
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FENCE = re.compile(r"^```(teg\S*|emit)[ \t]*([^\n]*)\n(.*?)^```", re.M | re.S)


def examples(path):
    """[(path, line, kind, text of the info string, code)]"""
    with open(path, encoding="utf-8") as f:
        page = f.read()
    found = [(page.count("\n", 0, m.start()) + 1, m[1], m[2].strip(), m[3])
             for m in FENCE.finditer(page)]
    frame = next((code for _, kind, _, code in found if kind == "teg-frame"), "")
    for line, kind, info, code in found:
        if kind == "teg-body":
            body = "".join("        " + s + "\n" for s in code.rstrip("\n").split("\n"))
            code = re.sub(r"^ *BODY\n", lambda _: body, frame, flags=re.M)
        if kind not in ("teg-frame", "teg-skip"):
            yield path, line, kind, info, code


def line_matches(pattern, line):
    parts = [re.escape(part) for part in pattern.split("...")]
    return re.fullmatch(".*".join(parts), line) is not None


def find_lines(wanted, printed, start):
    """The index from `start` on at which the lines `wanted` occur consecutively in `printed`; or None."""
    for at in range(start, len(printed) - len(wanted) + 1):
        if all(line_matches(w, p) for w, p in zip(wanted, printed[at:])):
            return at
    return None


def excerpt_problem(shown, printed):
    """The problem with an excerpt of a printed text, or None."""
    groups = [[]]
    for line in shown:
        if line.strip() == "...":
            groups.append([])
        else:
            groups[-1].append(line.rstrip())
    start = 0
    for group in groups:
        at = find_lines(group, printed, start)
        if at is None:
            near = difflib.get_close_matches(group[0], printed[start:], 1, 0.0)
            first = start + printed[start:].index(near[0]) if near else start
            is_now = printed[first:first + len(group)]
            return "\n".join(difflib.unified_diff(group, is_now, "the page", "printed", lineterm=""))
        start = at + len(group)
    return None


def run_emit(tegula, info, code):
    """The problem with an excerpt of `tegula emit INFO`, or None."""
    r = subprocess.run([tegula, "emit", *shlex.split(info)], capture_output=True, text=True,
                       timeout=600, cwd=ROOT, env=dict(os.environ, NO_COLOR="1"))
    if r.returncode != 0:
        return f"status {r.returncode}\n{r.stderr}"
    return excerpt_problem(code.rstrip("\n").split("\n"), [s.rstrip() for s in r.stdout.split("\n")])


def run(tegula, example):
    """The problem with an example, or None."""
    _, _, kind, info, code = example
    if kind == "emit":
        return run_emit(tegula, info, code)
    with tempfile.NamedTemporaryFile("w", suffix=".teg", delete=False, encoding="utf-8") as f:
        f.write(code)
    try:
        command = "fmt" if kind == "teg-parse" else "check"
        r = subprocess.run([tegula, command, f.name], capture_output=True, text=True, timeout=600,
                           env=dict(os.environ, NO_COLOR="1"))
    finally:
        os.unlink(f.name)
    messages = re.findall(r"^(?:.*?: )?(error|warning|hint): (.*)$", r.stderr, re.M)
    if kind in ("teg-error", "teg-warning"):
        status = 1 if kind == "teg-error" else 0
        if r.returncode == status and any(info in text for _, text in messages):
            return None
        return f"no message with '{info}'\n{r.stderr}"
    if kind not in ("teg", "teg-body", "teg-parse"):
        return f"unknown kind of example '{kind}'"
    return None if r.returncode == 0 and not messages else f"status {r.returncode}\n{r.stderr}"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tegula", required=True)
    ap.add_argument("-v", action="store_true", help="list every example")
    ap.add_argument("files", nargs="*")
    o = ap.parse_args()
    o.tegula = os.path.abspath(o.tegula)
    files = o.files or [os.path.join(ROOT, "lang/grammar.md"), os.path.join(ROOT, "README.md"),
                        *sorted(glob.glob(os.path.join(ROOT, "docs/**/*.md"), recursive=True))]
    todo = [e for path in files if os.path.exists(path) for e in examples(path)]
    bad = 0
    with ThreadPoolExecutor(2) as pool:
        for example, problem in zip(todo, pool.map(lambda e: run(o.tegula, e), todo)):
            path, line, kind = example[:3]
            if problem or o.v:
                print(f"{os.path.relpath(path)}:{line}: {kind}: {problem or 'ok'}")
            bad += bool(problem)
    print(f"{len(todo)} examples, {bad} with problems")
    return 1 if bad or not todo else 0


if __name__ == "__main__":
    sys.exit(main())
