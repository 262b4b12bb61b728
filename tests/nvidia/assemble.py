#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kernel of the standard library in its default configuration through the code generators and
ptxas: it must assemble, spill nothing, draw no advice of the C75xx kind (wgmma made serial), call
no function.

    assemble.py --tegula PATH [--targets sm_80,sm_90a] [--codegens nvptx,nvvm] [--types f32,f16]
                [--kernels REGEX] [--jobs N] [--part I/N] [--table] [--rotate]

Six architectures, two generators and two elements of each kernel are ten minutes of work. With
--rotate each kernel goes through every architecture once, by generators and with elements in
turn, so that in all of them it has met every pair of these; neighbours in a file start at different
ones, so that each architecture sees all pairs, too. One generator's weakness shows on each
architecture it serves, as all of them share the passes and most of the rows.
"""

import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNEL = re.compile(r"^kernel (\w+)(?:<([^>]*)>)?", re.M)
CLASSES = {
    "float": ["f32", "f16", "bf16", "f64"],
    "int": ["i32"],
    "any": ["f32", "f16", "bf16", "i32", "f64", "i64", "u8"],
}
# Kernels of rows that fill registers, and their arguments: X a tensor of rows, W of one row.
ROWS = {
    ("softmax", "softmax"): ["x=X"],
    ("softmax", "softmax_backward"): ["y=X", "dy=X", "dx=X"],
    ("norm", "rms_norm"): ["x=X", "g=W", "rstd=none"],
    ("norm", "layer_norm"): ["x=X", "g=W", "h=W", "mean=none", "rstd=none"],
}
# Kernels that spill, an argument of theirs, and how many bytes at most: none belongs here.
KNOWN = {
    ("layer_norm", "x=zeros(64,32768):bf16"): 40,
    ("layer_norm", "x=zeros(64,32768):f16"): 40,
    ("layer_norm", "x=zeros(64,32768):f32"): 16,
    ("argmax_axis", "T=f64"): 264,
    ("argmin_axis", "T=f64"): 264,
    ("attention_decode", "T=f64"): 24,
}
SKIP = 77


def find_ptxas():
    home = os.environ.get("CUDA_HOME")
    usual = sorted(glob.glob("/usr/local/cuda*/bin/ptxas"))
    for path in [os.path.join(home, "bin/ptxas")] if home else []:
        if os.access(path, os.X_OK):
            return path
    return shutil.which("ptxas") or (usual[-1] if usual else None)


def choices(parameters, wanted):
    """The elements that stand for `T: f32 | f64, U: any` when `wanted` is asked for, as options;
    None where the first of them cannot be it."""
    options = []
    for i, parameter in enumerate(parameters.split(",") if parameters else []):
        name, classes = [s.strip() for s in parameter.split(":")]
        all_ = [e for c in classes.split("|") for e in CLASSES.get(c.strip(), [c.strip()])]
        if wanted in all_:
            options += ["-t", f"{name}={wanted}"]
        elif i == 0:
            return None
        else:
            options += ["-t", f"{name}={all_[0]}"]
    return options


def instances(pattern, types):
    """(file, kernel, type options): each type that the first type parameter can be."""
    for path in sorted(glob.glob(os.path.join(ROOT, "stdlib", "*.teg"))):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for name, parameters in KERNEL.findall(text):
            if not re.search(pattern, name):
                continue
            found = [c for c in (choices(parameters, t) for t in types) if c is not None]
            for options in ([[]] if not parameters else found):
                yield path, name, options


def long_rows():
    """(file, kernel, options) of rows of 32768."""
    for (file, kernel), arguments in ROWS.items():
        for t in ("bf16", "f16", "f32"):
            shapes = {"X": f"zeros(64,32768):{t}", "W": f"zeros(32768):{t}"}
            given = [a.split("=") for a in arguments]
            options = [o for n, v in given for o in ("--arg", f"{n}={shapes.get(v, v)}")]
            options += ["-t", "S=f32"] if file == "norm" else []
            yield os.path.join(ROOT, "stdlib", file + ".teg"), kernel, options


def rotated(targets, codegens, pattern, types):
    """(target, codegen, instance): one of each kernel for each target."""
    kernels = {}
    for path, name, options in instances(pattern, types):
        kernels.setdefault((path, name), []).append(options)
    for k, ((path, name), choices_) in enumerate(kernels.items()):
        for t, target in enumerate(targets):
            turn = k + t
            codegen = codegens[turn % len(codegens)]
            options = choices_[turn // len(codegens) % len(choices_)]
            yield target, codegen, (path, name, options)


def compile_ptx(tegula, target, codegen, path, kernel, options):
    command = [tegula, "emit", "--target", target, "--codegen", codegen, "--level", "ptx"]
    done = subprocess.run(
        command + [path, "-k", kernel] + options, capture_output=True, text=True, timeout=300
    )
    if done.returncode == 0 and ".version" in done.stdout:
        return done.stdout, None
    lines = (done.stderr or done.stdout).strip().splitlines()
    return None, f"exit {done.returncode}: " + (lines[0] if lines else "")


def assemble(ptxas, target, room, ptx):
    """What ptxas says: (problem or None, registers)."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "k.ptx")
        with open(source, "w", encoding="utf-8") as f:
            f.write(ptx)
        command = [ptxas, "-v", f"-arch={target}", source, "-o", os.path.join(folder, "k.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    log = done.stdout + done.stderr
    registers = max([int(n) for n in re.findall(r"Used (\d+) registers", log)] or [0])
    spills = [int(a) + int(b) for a, b in re.findall(r"(\d+) bytes spill stores, (\d+)", log)]
    if done.returncode:
        return "ptxas: " + (log.strip().splitlines() or [""])[0], registers
    if max(spills, default=0) > room:
        return f"{max(spills)} bytes spilled of {registers} registers", registers
    advice = re.search(r"\(?C75\d\d\)?[^\n]*", log)
    return (advice.group(0) if advice else None), registers


def check(arguments):
    args, target, codegen, (path, kernel, options) = arguments
    name = " ".join([target, codegen, kernel] + [o for o in options if o[0] != "-"])
    ptx, problem = compile_ptx(args.tegula, target, codegen, path, kernel, options)
    registers = 0
    if ptx and ".extern .func" in ptx:
        problem = "calls a function"
    elif ptx:
        room = max(KNOWN.get((kernel, o), 0) for o in options + [None])
        problem, registers = assemble(args.ptxas, target, room, ptx)
    return name, problem, f"{registers} registers"


def report(check_one, work, args, what):
    """Prints the name and the problem of each job that has one (--table: what is said of the others,
    too). The exit code."""
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name, problem, line in pool.map(check_one, work):
            bad += problem is not None
            if problem or args.table:
                print(f"{name}: {problem or line}", flush=True)
    print(f"{len(work)} {what}, {bad} bad")
    return 1 if bad or not work else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tegula", required=True)
    parser.add_argument("--targets", default="sm_80,sm_90a")
    parser.add_argument("--codegens", default="nvptx")
    parser.add_argument("--types", default="f32,f16")
    parser.add_argument("--kernels", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every Nth kernel, from the Ith on")
    parser.add_argument("--rotate", action="store_true", help="each kernel once a target")
    parser.add_argument("--rows", action="store_true", help="kernels of long rows, with these rows")
    parser.add_argument("--table", action="store_true", help="print all, not the bad ones alone")
    args = parser.parse_args()
    args.ptxas = find_ptxas()
    if not args.ptxas:
        print("ptxas was not found: nothing is tested")
        return SKIP
    targets, codegens, types = (
        o.split(",") for o in (args.targets, args.codegens, args.types)
    )
    if args.rows:
        work = [(args, t, c, i) for t in targets for c in codegens for i in long_rows()]
    elif args.rotate:
        work = [(args, *job) for job in rotated(targets, codegens, args.kernels, types)]
    else:
        work = [
            (args, target, codegen, instance)
            for target in targets
            for codegen in codegens
            for instance in instances(args.kernels, types)
        ]
    part, parts = map(int, args.part.split("/"))
    return report(check, work[part - 1 :: parts], args, "kernels")


if __name__ == "__main__":
    sys.exit(main())
