#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the compilation of a kernel from source to PTX, by each code generator, and on a GPU to loaded code.

    bench/gpu/compile.py --tegula build/bin/tegula [--archs sm_90a] [--runs 9] [--target cuda]

Prints the best and the median of fresh processes in ms: the front end with the choice of tile sizes, the
passes, lowering to LLVM, the code generator, the driver's linking (--target cuda), and all code. The last
includes the three before it and LLVM's start, and for a run the host's launch plan. `to PTX` is all except
linking. Without --target no GPU is needed.
"""

import argparse
import re
import statistics
import subprocess
import sys

PRODUCT = ["--arg", "a=zeros(4096,4096):bf16", "--arg", "b=zeros(4096,4096):bf16"]
ROWS = ["--arg", "x=zeros(8192,8192):bf16"]
CASES = [("matmul", "matmul", "matmul", PRODUCT), ("softmax", "softmax", "softmax", ROWS)]
HEADS = [w for n in "qkvo" for w in ("--arg", f"{n}=zeros(4,32,4096,128):f16")]
HEADS += [w for t in ("mask=none", "lse=none", "scale=0.088") for w in ("--arg", t)]
for c in ("true", "false"):
    CASES.append((f"attention causal={c}", "attention", "attention", [*HEADS, "--arg", f"causal={c}"]))
LINE = re.compile(r"^ *([\d.]+) ms  (.*)$", re.M)


def times(text):
    """part -> ms, from the output of --time-passes."""
    out = {
        "front end": 0.0,
        "passes": 0.0,
        "lowering": 0.0,
        "generator": 0.0,
        "linking": 0.0,
        "code": 0.0,
    }
    for ms, what in LINE.findall(text):
        known = {"front end": "front end", "code": "code", "device code": "lowering"}
        known |= {"device code, nvptx": "generator", "device code, libNVVM": "generator"}
        other = "linking" if what.startswith("device code") else "passes"
        out[known.get(what, other)] += float(ms)
    out["to PTX"] = out["front end"] + out["passes"] + out["code"] - out["linking"]
    return out


def measure(o, file, kernel, arguments, arch, codegen):
    """part -> (best, median) over several processes."""
    words = ["emit", "--level", "ptx", "--target", arch]
    if o.target:
        words = ["run", "--quiet", "--target", o.target]
    command = [o.tegula, *words, f"std/{file}.teg", "-k", kernel, *arguments]
    command += ["--codegen", codegen, "--time-passes"]
    runs = []
    for _ in range(o.runs):
        r = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if r.returncode:
            sys.exit(f"{' '.join(command)}\n{r.stderr}")
        runs.append(times(r.stderr))
    return {k: (min(r[k] for r in runs), statistics.median(r[k] for r in runs)) for k in runs[0]}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--tegula", required=True)
    p.add_argument("--archs", default="sm_90a")
    p.add_argument("--codegens", default="nvptx,nvvm")
    p.add_argument("--target", help="cuda: compile for and load on the GPU")
    p.add_argument("--runs", type=int, default=9)
    o = p.parse_args()
    for arch in o.archs.split(","):
        for codegen in o.codegens.split(","):
            for name, *case in CASES:
                found = measure(o, *case, arch, codegen)
                parts = ", ".join(f"{k} {a:.1f} ({b:.1f})" for k, (a, b) in found.items())
                print(f"{name} {o.target or arch} {codegen}: {parts}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
