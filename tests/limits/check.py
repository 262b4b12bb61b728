#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that nasty inputs (nasty.py) end soon: `check` counts its steps and the bytes of its arena
(meter.c).

    tests/limits/check.py --meter build/tests/meter --tegula build/bin/tegula [KIND...]

An input of 100 KB may take at most MOST_STEPS and MOST_BYTES. Twice the input may take at most GROWTH
times as many steps, unless a limit ends both. The programs of `deep` also run: executors must handle
chains as long as their source without using the stack.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import nasty

MOST_STEPS, MOST_BYTES, GROWTH = 2_100_000, 500_000_000, 2.6
SIZES = (50_000, 100_000)
SMALL = 50_000  # fixed steps that are not part of the growth


def measure(meter, path):
    r = subprocess.run([meter, path], capture_output=True, timeout=600)
    if r.returncode:
        return None
    status, steps, size, formatted = map(int, r.stdout.split(b"\n")[0].split())
    return status, steps, max(size, formatted)


def problems_of(meter, folder, name):
    out, before = [], None
    for size in SIZES:
        path = os.path.join(folder, f"{name}-{size}.teg")
        with open(path, "w") as f:
            f.write(nasty.KINDS[name](size))
        found = measure(meter, path)
        if found is None or found[0] > 1:
            return [f"{name}, {size} bytes: status {found and found[0]}, a crash or a compiler's bug"]
        _, steps, used = found
        if steps > MOST_STEPS or used > MOST_BYTES:
            out.append(f"{name}, {size} bytes: {steps} steps, {used >> 20} MiB")
        if before and steps > SMALL + GROWTH * before:
            out.append(f"{name}, {size} bytes: {steps} steps, {before} of half the input")
        before = steps
    return out


def run_deep(tegula, folder):
    """Each executor computes a long chain: n terms of ones give n."""
    out = []
    for name, (text, args, want) in nasty.DEEP.items():
        path = os.path.join(folder, f"deep-{name}.teg")
        with open(path, "w") as f:
            f.write(text)
        for target in ("interp", "cpu", "sim:sm_80", "sim:sm_90a", "sim:gfx942"):
            r = subprocess.run([tegula, "run", path, "--target", target] + args, capture_output=True, timeout=600)
            if r.returncode or want.encode() not in r.stdout:
                out.append(f"{name} on {target}: exit status {r.returncode}\n{r.stdout[:200]}{r.stderr[:400]}")
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--meter", required=True)
    ap.add_argument("--tegula", required=True)
    ap.add_argument("kinds", nargs="*")
    o = ap.parse_args()
    kinds = o.kinds or list(nasty.KINDS)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        bad = sum(pool.map(lambda k: problems_of(o.meter, folder, k), kinds), [])
        if not o.kinds:
            bad += run_deep(o.tegula, folder)
    for line in bad:
        print(line)
    print(f"{len(kinds)} kinds, {len(bad)} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
