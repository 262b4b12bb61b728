# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package and a user's program pass mypy --strict and pyright. Skips, with status 77, a checker
that is not installed. The part for PyTorch is left out: its check reads all of PyTorch, which takes minutes.

Environment: PYTHONPATH (python/, checkers). Usage: types_test.py
"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
USER = '''
import numpy as np
import tegula

module: tegula.Module = tegula.load("std/softmax.teg", tune="off", budget_ms=10)
kernel: tegula.Kernel = module.softmax
x = np.ones((2, 3), "f4")
y = kernel(x)
kernel(x, y)
kernel.on(0)(x=x, y=y)
text: str = kernel.name + kernel.signature + (kernel.decision(x, y) or "")
names: list[str] = kernel.params
with tegula.Context(threads=1, print=print, log=lambda line: None) as context:
    threads: int = context.threads
try:
    tegula.source("kernel", name="x.teg", settings={"BM": 64})
except tegula.Error as error:
    status: str = error.status
'''
WRONG = 'import tegula\ntegula.load(3)\ntegula.Context(threads="2")\n'


def run(checker, *arguments):
    cache = f"--cache-dir={pathlib.Path(arguments[-1]).parent}"
    how = {"mypy": ["mypy", "--strict", cache], "pyright": ["pyright"]}[checker]
    command = [sys.executable, "-m", *how, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "python")
    return done.returncode, done.stdout + done.stderr


def check(checker, folder):
    """The failures, as text."""
    package = sorted((ROOT / "python/tegula").glob("*.py"))
    user, wrong = folder / "user.py", folder / "wrong.py"
    user.write_text(USER)
    wrong.write_text(WRONG)
    status, text = run(checker, *package, user)
    if status:
        return text
    status, text = run(checker, wrong)
    missed = not status or text.count("wrong.py:") < 2
    return f"{checker} accepts a wrong program:\n{text}" if missed else ""


def main():
    checkers = [c for c in ("mypy", "pyright") if importlib.util.find_spec(c)]
    if not checkers:
        print("skipped: neither mypy nor pyright is installed")
        return 77
    failures = ""
    with tempfile.TemporaryDirectory() as folder:
        for checker in checkers:
            failures += check(checker, pathlib.Path(folder))
    print(failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
