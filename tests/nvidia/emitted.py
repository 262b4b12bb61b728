# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles many kernels by few processes, each of which compiles a batch. Starting a process takes as long as
compiling a small kernel."""

import re
import shlex
import subprocess
import tempfile

BATCH = 24  # jobs of one process
LIMIT = 300  # seconds for each level of a job


def words(target, level, path, kernel, options, codegen=None):
    """The words after `tegula run`."""
    generator = ["--codegen", codegen] if codegen else []
    return ["--target", target, "--emit", level, *generator, path, "-k", kernel, *options]


def batches(jobs, workers):
    """Splits the jobs into batches, at least one for each worker."""
    size = max(1, min(BATCH, -(-len(jobs) // max(workers, 1))))
    return [jobs[i:i + size] for i in range(0, len(jobs), size)]


def alone(tegula, command):
    """(bytes, None) or (None, the problem) for a job that failed in a batch, or ended it."""
    done = subprocess.run([tegula, "run", *command], capture_output=True, timeout=LIMIT)
    if done.returncode == 0:
        return None, "fails only behind other kernels in one process"
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return None, f"exit {done.returncode}: " + (lines[0] if lines else "")


def split(output):
    """(bytes, exit code) of each completed line; `@@ NUMBER CODE` follows its output."""
    at, found = 0, []
    while end := re.compile(rb"@@ %d (\d+)\n" % (len(found) + 1)).search(output, at):
        found.append((output[at:end.start()], int(end[1])))
        at = end.end()
    return found


def run_batch(tegula, commands):
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as lines:
        lines.write("\n".join(map(shlex.join, commands)) + "\n")
        lines.flush()
        done = subprocess.run([tegula, "run", "--batch", lines.name], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=LIMIT * len(commands))
    return split(done.stdout)


def emitted(tegula, commands):
    """(bytes, None) or (None, the problem) for each command, which is a list of words after `tegula run`."""
    results = []
    while len(results) < len(commands):
        rest = commands[len(results):]
        ended = run_batch(tegula, rest)
        for command, (data, code) in zip(rest, ended):
            results.append((data, None) if code == 0 else alone(tegula, command))
        if len(ended) < len(rest):
            results.append(alone(tegula, rest[len(ended)]))
    return results
