#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the messages of `tegula check` against comments in the source.

    tests/diag/check.py --tegula build/bin/tegula [FILE...]      all of tests/diag/ without FILE

A comment names a message by kind and by a part of its text:

    let a = b < c < d; // expected-error {{expected ';'}}
    // expected-error@+1 {{unknown name}}
    // expected-hint {{did you mean}}

`@+1`, `@-2` count lines from the comment, `@7` is line 7. Errors and warnings must be exactly those
expected. Notes and hints must be there where they are expected, after the message on the same
line (hints) or on the line they point to (notes); others do not matter.

A comment `// command: run --arg n=3` runs that instead of `check`; the file comes after its first
word. Without FILE, every row of lang/diag.def must have been seen in some output.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

EXPECT = re.compile(r"expected-(error|warning|note|hint)(?:@([+-]?\d+))?\s*\{\{(.*?)\}\}")
MESSAGE = re.compile(r"^(?:(.*?):(\d+):(\d+): )?(error|warning|note|hint): (.*)$")
# Rows without a small source file that causes them. parse_test.c tests FILE_TOO_LARGE. CONST_UNKNOWN is for
# callers of the library that leave a constant open. lit/gpu-async tests SHARED_MEMORY and BLOCK_REGISTERS.
UNTESTED = {"INTERNAL", "RUN_FAILED", "FILE_TOO_LARGE", "CONST_UNKNOWN", "SHARED_MEMORY", "BLOCK_REGISTERS"}


def expected(text):
    """[(kind, line, text)] from the comments; a hint has its target's line."""
    found = []
    for n, line in enumerate(text.split("\n"), 1):
        for kind, at, what in EXPECT.findall(line):
            target = n if not at else n + int(at) if at[0] in "+-" else int(at)
            found.append((kind, target, what))
    return found


def reported(output, path):
    """[(kind, line, text)] from the output; a hint has the line of the message before it."""
    found, last = [], 0
    for line in output.split("\n"):
        m = MESSAGE.match(line)
        if not m:
            continue
        where, n, _, kind, text = m.groups()
        own = where is not None and os.path.basename(where) == os.path.basename(path)
        at = int(n) if own else last if kind == "hint" else 0
        if kind in ("error", "warning"):
            last = at
        found.append((kind, at, text))
    return found


def compare(want, got):
    """Lines that name missing and unexpected messages."""
    problems, left = [], list(got)
    for kind, line, text in want:
        hit = next((g for g in left if g[0] == kind and g[1] == line and text in g[2]), None)
        if hit:
            left.remove(hit)
        else:
            problems.append(f"{line}: no {kind} with '{text}'")
    for kind, line, text in left:
        if kind in ("error", "warning"):
            problems.append(f"{line}: unexpected {kind}: {text}")
    return problems


def check(tegula, path):
    with open(path, "rb") as f:
        text = f.read().decode("latin-1")
    m = re.search(r"// command: (\S+)(.*)", text)
    words = [m[1], path] + m[2].split() if m else ["check", path]
    r = subprocess.run([tegula] + words, capture_output=True, timeout=600,
                       env=dict(os.environ, NO_COLOR="1"))
    output = r.stderr.decode("latin-1")
    want, got = expected(text), reported(output, path)
    problems = compare(want, got)
    fails = any(kind == "error" for kind, _, _ in want)
    if r.returncode != (1 if fails else 0):
        problems.append(f"exit status {r.returncode}")
    return problems, output


def rows(path):
    """The rows of diag.def: (ID, a pattern for its text)."""
    with open(path) as f:
        text = re.sub(r'"\s*\n\s*"', "", f.read())
    for name, fmt in re.findall(r'^DIAG\((\w+),\s*\w+,\s*"((?:[^"\\]|\\.)*)"\)', text, re.M):
        fmt = fmt.replace('\\"', '"').replace("\\\\", "\\")
        parts = re.split(r"%(?:[-+ #0]*[\d.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]|%)", fmt)
        yield name, re.compile("(?:error|warning): " + ".*".join(map(re.escape, parts)))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    ap = argparse.ArgumentParser()
    ap.add_argument("--tegula", required=True)
    ap.add_argument("files", nargs="*")
    o = ap.parse_args()
    files = o.files or sorted(glob.glob(os.path.join(here, "*.teg")))
    bad, outputs = 0, []
    with ThreadPoolExecutor(2) as pool:
        for path, (problems, output) in zip(files, pool.map(lambda f: check(o.tegula, f), files)):
            outputs.append(output)
            for p in problems:
                print(f"{os.path.relpath(path)}:{p}")
            bad += bool(problems)
    if not o.files:
        seen = "\n".join(outputs)
        for name, pattern in rows(os.path.join(here, "../../lang/diag.def")):
            if name not in UNTESTED and not pattern.search(seen):
                print(f"lang/diag.def: {name} has no test in tests/diag/")
                bad += 1
    print(f"{len(files)} files, {bad} with problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
