#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kernel of the library as PTX, through ptxas: no spills, no serialised products, no calls.

    tests/gpu/ptx.py --tegula build/bin/tegula [--archs sm_80,sm_90a] [--codegens nvptx,nvvm] [-k TEXT]

Each kernel is compiled in its default setting for the largest of its run tests, and those that matter
most for the shapes of bench/gpu as well. No GPU is needed; exit code 77 where there is no ptxas.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/run"))
sys.dont_write_bytecode = True
import harness  # noqa: E402

NAMES = {"float16": "f16", "float32": "f32", "float64": "f64", "bool": "bool"}
NAMES |= {f"{k}int{n}": f"{k or 'i'}{n}" for k in ("", "u") for n in (8, 16, 32, 64)}

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


@dataclasses.dataclass
class Item:
    title: str
    words: list  # of `tegula emit`


# ---- what is compiled ----------------------------------------------------------------------------


def specification(value):
    """An argument of `tegula emit` that stands for the value: zeros of its shape, type and view."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, float, np.integer, np.floating)):
        return repr(value)
    d = harness.as_data(value)
    stored = np.asarray(d.stored)
    if stored.ndim == 0:
        return "0" if d.suffix in ("", ":bf16") else f"zeros(){d.suffix}"
    packed = re.match(r":[iu]4", d.suffix)
    shape = stored.shape[:-1] + (2 * stored.shape[-1],) if packed else stored.shape
    kind = "" if re.match(r":(bf16|f8|[iu]4)", d.suffix) else ":" + NAMES[stored.dtype.name]
    return f"zeros({','.join(map(str, shape))}){kind}{d.suffix}"


def tested():
    """A run test a kernel: the one with the most elements."""
    for path in sorted((ROOT / "tests/run").glob("std_*.py")):
        exec(compile(path.read_text(), path, "exec"), {"__name__": "case", "__file__": str(path)})
    best = {}
    for c in harness.CASES:
        if c.fails is not None:
            continue
        arrays = [v for v in c.args.values() if isinstance(v, (np.ndarray, harness.Data))]
        size = sum(np.asarray(harness.as_data(a).value).size for a in arrays)
        key = c.file.stem, c.kernel
        if key not in best or size > best[key][0]:
            best[key] = size, c
    for (file, kernel), (_, c) in sorted(best.items()):
        words = [str(c.file), "-k", kernel]
        for name, value in c.args.items():
            words += ["--arg", f"{name}={specification(value)}"]
        for name, value in c.types.items():
            words += ["--type", f"{name}={value}"]
        yield Item(f"{file}.{kernel}", words)


def large():
    for file, kernel, arguments, types in LARGE:
        for t in types:
            words = [str(ROOT / f"stdlib/{file}.teg"), "-k", kernel]
            for name, value in arguments.items():
                # Arrays without a type of their own have that of the kernel.
                typed = value.startswith("zeros") and not re.search(r"\):", value)
                words += ["--arg", f"{name}={value}" + (f":{t}" if typed else "")]
            if kernel == "scaled_matmul_nt":
                words += ["--arg", "c=zeros(4096,4096):bf16"]
            yield Item(
                f"{file}.{kernel} {t} {arguments.get('x') or arguments.get('a') or ''}", words
            )


# ---- compiling -----------------------------------------------------------------------------------


def assemble(o, item, arch, codegen, folder):
    """(what is wrong or '', registers, bytes of spills)"""
    name = re.sub(r"\W+", "-", f"{item.title}-{arch}-{codegen}")
    ptx = pathlib.Path(folder, name + ".ptx")
    command = [
        o.tegula,
        "emit",
        *item.words,
        "--target",
        arch,
        "--codegen",
        codegen,
        "--level",
        "ptx",
    ]
    try:
        r = subprocess.run(command, capture_output=True, text=True, timeout=o.limit)
    except subprocess.TimeoutExpired:
        return "emit took too long", 0, 0
    if r.returncode:
        return "emit: " + " ".join(r.stderr.strip().split("\n")[:2])[:200], 0, 0
    ptx.write_text(r.stdout)
    if ".extern .func" in r.stdout:
        return "calls " + re.search(r"\.extern \.func.*?(\w+)\s*\(", r.stdout, re.S)[1], 0, 0
    return ptxas(o, ptx, arch)


def ptxas(o, ptx, arch):
    command = [o.ptxas, "-v", "--gpu-name", arch, str(ptx), "-o", "/dev/null"]
    try:
        r = subprocess.run(command, capture_output=True, text=True, timeout=o.limit)
    except subprocess.TimeoutExpired:
        return "ptxas took too long", 0, 0
    text = r.stdout + r.stderr
    spills = sum(map(int, re.findall(r"(\d+) bytes spill stores", text)))
    registers = max(map(int, re.findall(r"Used (\d+) registers", text)), default=0)
    notes = re.findall(r"\(C7\d+\)[^\n]*", text)
    if r.returncode:
        return "ptxas: " + text.strip().split("\n")[0][:200], registers, spills
    if notes:
        return notes[0][:200], registers, spills
    return (f"{spills} bytes spilled" if spills else ""), registers, spills


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--tegula", required=True)
    p.add_argument("--archs", default="sm_80,sm_90a")
    p.add_argument("--codegens", default="nvptx")
    p.add_argument("--ptxas", default=shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    p.add_argument("--sets", default="tested,large")
    p.add_argument("--limit", type=float, default=120)
    p.add_argument("-k", default="", help="only items whose title holds this text")
    p.add_argument("-v", action="store_true", help="also what is right, with registers")
    o = p.parse_args()
    if not os.path.exists(o.ptxas):
        print("there is no ptxas")
        return 77
    items = [i for s, make in (("tested", tested), ("large", large)) if s in o.sets for i in make()]
    items = [i for i in items if o.k in i.title]
    bad = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(
        os.cpu_count()
    ) as pool:
        jobs = [
            (i, a, c, pool.submit(assemble, o, i, a, c, folder))
            for a in o.archs.split(",")
            for c in o.codegens.split(",")
            for i in items
        ]
        for item, arch, codegen, job in jobs:
            wrong, registers, _ = job.result()
            bad += bool(wrong)
            if wrong or o.v:
                print(
                    f"{'FAIL' if wrong else 'ok  '} {arch} {codegen} {item.title}: "
                    f"{registers} registers {wrong}",
                    flush=True,
                )
    print(f"{len(jobs) - bad} of {len(jobs)} kernels are as they should be")
    return 1 if bad else 0


sys.exit(main())
