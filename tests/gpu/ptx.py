#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the cost model chooses for large arguments, through ptxas: no spills, no serialised products.

    tests/gpu/ptx.py --tegula build/bin/tegula [--archs sm_80,sm_90a] [--codegens nvptx,nvvm] [-k TEXT]

tests/nvidia/assemble.py takes every kernel of the library in its first setting, this those that
bench/gpu measures for shapes like its. No GPU is needed; exit code 77 where there is no ptxas.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/nvidia"))
sys.dont_write_bytecode = True
import assemble  # noqa: E402

# kernel of a file -> arguments, as large as in bench/gpu.
SQUARE = {"a": "zeros(4096,4096)", "b": "zeros(4096,4096)"}
ROWS = {"x": "zeros(8192,8192)"}
HEADS = {n: "zeros(4,32,4096,128)" for n in "qkv"}
NORM = ROWS | {"g": "zeros(8192)", "eps": "1e-5"}
LOSS = {"x": "zeros(8192,32000)", "label": "zeros(8192):i64", "ignore": "-100", "lse": "none"}
LARGE = [
    ("matmul", "matmul", SQUARE, ("bf16", "f16", "f32")),
    ("matmul", "matmul_nt", SQUARE, ("bf16", "f16")),
    ("matmul", "matmul", {"a": "zeros(16,8192)", "b": "zeros(8192,8192)"}, ("bf16",)),
    ("matmul", "matmul", {"a": "zeros(128,4096)", "b": "zeros(4096,14336)"}, ("bf16",)),
    ("matmul", "matmul_tf32_nt", SQUARE | {"terms": "1"}, ("f32",)),
    ("matmul", "scaled_matmul_nt", SQUARE | {"sa": "none", "sb": "none"}, ("f8e4m3",)),
    (
        "attention",
        "attention",
        HEADS | {"mask": "none", "lse": "none", "scale": "0.1", "causal": "true"},
        ("f16", "bf16"),
    ),
    (
        "attention",
        "attention",
        HEADS | {"mask": "none", "lse": "none", "scale": "0.1", "causal": "false"},
        ("f16",),
    ),
    (
        "attention",
        "attention_backward",
        HEADS
        | {
            "mask": "none",
            "o": HEADS["q"],
            "dout": HEADS["q"],
            "lse": "zeros(4,32,4096):f32",
            "scale": "0.1",
            "causal": "true",
        },
        ("f16",),
    ),
    ("softmax", "softmax", ROWS, ("bf16", "f32")),
    ("softmax", "softmax_long", {"x": "zeros(2048,131072)"}, ("bf16", "f32")),
    (
        "norm",
        "layer_norm",
        NORM | {"h": "zeros(8192)", "mean": "none", "rstd": "none"},
        ("bf16", "f32"),
    ),
    ("norm", "rms_norm", NORM | {"rstd": "none"}, ("bf16", "f32")),
    ("reduce", "sum_last", ROWS, ("bf16", "f32")),
    ("reduce", "sum_axis", {"x": "zeros(1,8192,8192)"}, ("bf16", "f32")),
    ("scan", "cumsum_last", ROWS, ("bf16", "f32")),
    ("reduce", "argmax_last", ROWS, ("bf16", "f32")),
    ("loss", "cross_entropy_long", LOSS, ("bf16",)),
]


def items(text):
    """(title, words of `tegula emit`)"""
    for file, kernel, arguments, types in LARGE:
        for t in types:
            words = [str(ROOT / f"stdlib/{file}.teg"), "-k", kernel]
            for name, value in arguments.items():
                # Arrays without a type of their own have that of the kernel.
                typed = value.startswith("zeros") and not re.search(r"\):", value)
                words += ["--arg", f"{name}={value}" + (f":{t}" if typed else "")]
            if kernel == "scaled_matmul_nt":
                words += ["--arg", "c=zeros(4096,4096):bf16"]
            shape = arguments.get("x") or arguments.get("a") or arguments["q"]
            title = f"{kernel} {t} {shape.removeprefix('zeros')}"
            title += " causal" if arguments.get("causal") == "true" else ""
            if text in title:
                yield title, words


def check(job):
    """(title, setting, what is wrong or None, registers)"""
    o, arch, codegen, (title, words) = job
    command = [o.tegula, "emit", *words, "--target", arch, "--codegen", codegen, "--level"]
    done = subprocess.run(command + ["ptx"], capture_output=True, text=True)
    title = f"{arch} {codegen} {title}"
    if done.returncode:
        return title, "", "emit: " + " ".join(done.stderr.split("\n")[:2])[:200], 0
    device = subprocess.run(command + ["gpu"], capture_output=True, text=True).stdout
    setting = re.search(r'config="([^"]*)"', device)
    wrong, registers = assemble.assemble(o.ptxas, arch, done.stdout)
    if ".extern .func" in done.stdout:
        wrong = "calls a function"
    return title, setting[1] if setting else "", wrong, registers


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--tegula", required=True)
    p.add_argument("--archs", default="sm_80,sm_90a")
    p.add_argument("--codegens", default="nvptx")
    p.add_argument("-k", default="", help="only kernels whose title holds this text")
    o = p.parse_args()
    o.ptxas = assemble.find_ptxas()
    if not o.ptxas:
        print("ptxas was not found: nothing is tested")
        return assemble.SKIP
    jobs = [
        (o, a, c, i) for a in o.archs.split(",") for c in o.codegens.split(",") for i in items(o.k)
    ]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for title, setting, wrong, registers in pool.map(check, jobs):
            bad += wrong is not None
            print(
                f"{'FAIL' if wrong else 'ok  '} {title} [{setting}]: {registers} registers"
                f"{'; ' + wrong if wrong else ''}",
                flush=True,
            )
    print(f"{len(jobs) - bad} of {len(jobs)} kernels are as they should be")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
