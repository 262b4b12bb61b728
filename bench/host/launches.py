#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the host's cost of a launch beside a direct call of the same work.

    bench/host/launches.py [--build build]

Runs test programs with TEGULA_MEASURE set: many rounds, of which the best counts, in nanoseconds of a core
of 3 GHz (tests/runtime/ruler.h). Prints each figure beside its bar. Exit code 0: all bars hold; 1: one
does not, or a program failed. No test asserts these figures, since they depend on the machine.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

# The bar of each figure, in its unit. docs/inside/architecture.md promises 100 ns over a direct call of a
# kernel. Functions of an object have their time of November 2026 and half as much again.
BARS = {
    "warm launch of 3 arguments": 100,
    "warm launch of 8 arguments": 100,
    "warm launch of 8 arguments on a GPU": 100,
    "first launch of a stored kernel": 200,
    "object's function of one tensor": 100,
    "object's function of three tensors and a grid": 150,
    "object's function with a new seed each time": 110,
}
LINE = re.compile(r"^measured: (.*): ([-\d.]+) (\w+) (.*)$", re.M)


def programs(build):
    """Command lines and their variables. A program that was not built is left out."""
    tests = build / "tests"
    fake = {"TG_CUDA_LIBRARY": str(tests / "runtime/libfake_cuda.so")}
    yield [tests / "capi/capi_bench"], {}
    yield [tests / "capi/capi_first"], {}
    yield [tests / "runtime/rt_gpu"], fake
    source = pathlib.Path(__file__).resolve().parents[2]
    runtime = [str(build / "bin/tegula"), "--rt", str(build / "libtegula_rt.a")]
    overhead = [sys.executable, str(source / "tests/aot/run.py"), "overhead", "--tegula"] + runtime
    yield overhead + ["--out", str(tests / "aot")], {}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    build = parser.parse_args().build.resolve()
    figures, broken = {}, 0
    for command, variables in programs(build):
        environment = dict(os.environ, TEGULA_MEASURE="1", TG_CACHE="off", TG_TUNE="off", **variables)
        job = subprocess.run(command, env=environment, capture_output=True, text=True)
        if job.returncode:
            print(f"{command[0]} failed with {job.returncode}\n{job.stdout}{job.stderr}")
            broken += 1
        figures.update((what, (float(value), unit, beside)) for what, value, unit, beside in LINE.findall(job.stdout))
    for what, bar in BARS.items():
        if what not in figures:
            print(f"{what}: not measured")
            broken += 1
            continue
        value, unit, beside = figures[what]
        broken += value > bar
        print(f"{what:46} {value:8.1f} {unit} {beside}; bar {bar}{'' if value <= bar else ': missed'}")
    return broken > 0


if __name__ == "__main__":
    sys.exit(main())
