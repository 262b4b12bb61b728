#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sends every kernel of the standard library in its default configuration through the code generators and
ptxas. It must assemble, spill nothing, draw no advice of the C75xx kind (serialised wgmma), and call no
function.

    assemble.py --tegula PATH [--targets sm_80,sm_90a] [--codegens nvptx,nvvm] [--types f32,f16]
                [--kernels REGEX] [--set NAME=VALUE] [--jobs N] [--part I/N] [--table]
                [--rotate [--turn N]] [--large | --widths]

Six architectures, two generators and all elements of each kernel take an hour. The tests take all elements
for the main target. Of the rest, --rotate sends each kernel once through every architecture, with
generators and elements in turn. Neighbours in a file start at different turns. Another turn (--turn,
TG_TURN) begins with another pair of element and generator. A turn says nothing about the combinations that
it left out, so before a release all run, without --rotate.

Without arguments the cost model takes the smallest tiles. --large gives kernels arguments of bench/gpu's
sizes, for every generator and architecture. --widths gives norms and softmax rows of usual widths.
(--widths --rotate: each width of a kernel with one element, generator and architecture, in turn.)
"""

import argparse
import concurrent.futures
import glob
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../run"))
from emitted import batches, emitted, words  # noqa: E402
import turns  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(ROOT, "lang", "gpus.def"), encoding="utf-8") as gpus_def:
    GPUS = re.findall(r'^GPU\("(\w+)"', gpus_def.read(), re.M)
KERNEL = re.compile(r"^kernel (\w+)(?:<([^>]*)>)?", re.M)
CLASSES = {
    "float": ["f32", "f16", "bf16", "f64", "f8e4m3", "f8e5m2"],
    "int": ["i32"],
    "any": ["f32", "f16", "bf16", "i32", "f64", "i64", "u8", "f8e4m3", "f8e5m2"],
}
# Arguments as large as in bench/gpu, for which the cost model takes other tiles: file, kernel, arguments,
# types. An array without an element type has the kernel's. Rows of 32768 fill the registers.
SQUARE = {"a": "zeros(4096,4096)", "b": "zeros(4096,4096)"}
# Rows that begin only at multiples of 8 bytes, or of 4.
ODD = {"a": "zeros(4096,4004)", "b": "zeros(4004,4096)"}
ODDER = {"a": "zeros(4096,4002)", "b": "zeros(4096,4002)"}
ROWS = {"x": "zeros(8192,8192)"}
FULL = {n: "zeros(64,32768)" for n in ("x", "y", "dy", "dx")}
HEADS = {n: "zeros(4,32,4096,128)" for n in "qkv"}
ATTENTION = HEADS | {"mask": "none", "lse": "none", "scale": "0.1"}
WIDE_HEADS = ATTENTION | {n: "zeros(2,16,4096,256)" for n in "qkv"} | {"causal": "true"}
# A producer warp, which only the main target has.
ROLES = {"-s roles": "1"}
ROLES_ATTENTION = ATTENTION | ROLES | {"-s BM": "128", "-s BN": "128"}
NORM = ROWS | {"g": "zeros(8192)", "eps": "1e-5"}
FULL_NORM = {"x": FULL["x"], "g": "zeros(32768)", "rstd": "none"}
BACKWARD = {"mask": "none", "lse": "zeros(4,32,4096):f32", "scale": "0.1", "causal": "true"}
LOSS = {"x": "zeros(8192,32000)", "label": "zeros(8192):i64", "ignore": "-100", "lse": "none"}
WIDE = {"a": "zeros(16,8192)", "b": "zeros(8192,8192)"}
MLP = {"a": "zeros(128,4096)", "b": "zeros(4096,14336)"}
SCALED = SQUARE | {"sa": "none", "sb": "none", "c": "zeros(4096,4096):bf16"}
LINEAR = {n: "zeros(4096,4096)" for n in ("x", "w", "residual")} | {"bias": "zeros(4096)", "scale": "1"}
GATED = {n: "zeros(4096,4096)" for n in ("x", "g", "u")}
IMAGES = {"sy": "1", "sx": "1", "py": "1", "px": "1", "dy": "1", "dx": "1", "act": "0", "bias": "none"}
CONV2D = IMAGES | {n: "zeros(32,256,56,56)" for n in "xy"} | {"w": "zeros(256,256,3,3)"}
POINTS = CONV2D | {"w": "zeros(256,256,1,1)", "py": "0", "px": "0"}
CONV3D = IMAGES | {"sz": "1", "pz": "1", "dz": "1", "w": "zeros(64,64,3,3,3)"}
CONV3D |= {n: "zeros(8,64,16,56,56)" for n in "xy"}
# A chain so small that the passes count fewer registers than its instructions need.
SMALL_DECODE = {"q": "zeros(1,2,16)", "k": "zeros(1,2,40,16)", "v": "zeros(1,2,40,16)", "len": "zeros(1):i32"}
SMALL_DECODE |= {"scale": "0.1"}
# Sequences of several lengths.
PACKED = {n: "zeros(16384,32,128)" for n in "qkvo"} | {f"starts_{n}": "zeros(9):i32" for n in "qk"}
PACKED |= {"lse": "none", "scale": "0.1", "left": "512", "right": "0"}
HALVES, BOTH = ("bf16", "f16"), ("bf16", "f32")


def backward(heads):
    """Arguments of attention's gradients."""
    return BACKWARD | {n: f"zeros({heads})" for n in ("q", "k", "v", "o", "dout")}


def gradient(rows, columns, **more):
    """Arguments of norms' gradients."""
    x, one = f"zeros({rows},{columns})", f"zeros({rows}):f32"
    return {"x": x, "dy": x, "g": f"zeros({columns})", "rstd": one} | {n: one for n in more}


LARGE = [
    ("matmul", "matmul", SQUARE, ("bf16", "f16", "f32", "f8e4m3", "f8e5m2")),
    ("matmul", "matmul_nt", SQUARE, ("bf16", "f16", "f32")),
    ("matmul", "matmul", ODD, ("bf16", "f16")),
    ("matmul", "matmul_nt", ODDER, ("bf16",)),
    ("matmul", "matmul", WIDE, ("bf16",)),
    ("matmul", "matmul", MLP, ("bf16",)),
    ("matmul", "matmul_tf32_nt", SQUARE | {"terms": "1"}, ("f32",)),
    ("matmul", "matmul_tf32_nt", SQUARE | {"terms": "3"}, ("f32",)),
    ("matmul", "scaled_matmul_nt", SCALED, ("f8e4m3", "f8e5m2")),
    ("matmul", "matmul_i8_nt", SQUARE, ("i8", "u8")),
    ("matmul", "scaled_matmul_i8_nt", SCALED, ("i8",)),
    ("matmul", "linear", LINEAR | {"act": "2"}, HALVES),
    ("matmul", "linear_glu", GATED | {"act": "2"}, HALVES),
    ("conv", "conv2d", CONV2D, ("f16", "f32")),
    ("conv", "conv2d", POINTS, ("f16",)),
    ("conv", "conv3d", CONV3D, ("f16",)),
    ("attention", "attention", ATTENTION | {"causal": "true"}, HALVES),
    ("attention", "attention", ATTENTION | {"causal": "false"}, ("f16",)),
    ("attention", "attention", WIDE_HEADS, ("f16", "f32")),
    ("attention", "attention_decode", SMALL_DECODE, HALVES),
    ("attention", "attention_backward", backward("4,32,4096,128"), ("f16",)),
    ("attention", "attention_backward", backward("4,32,4096,64"), ("f16", "f32")),
    ("attention", "attention", ROLES_ATTENTION | {"causal": "true"}, HALVES),
    ("attention", "attention", ROLES_ATTENTION | {"causal": "false", "-s skew": "1"}, ("f16",)),
    ("attention", "attention_varlen", PACKED, HALVES),
    ("attention", "attention_varlen", PACKED | ROLES | {"-s BM": "128", "-s BN": "128", "-s skew": "1"}, ("f16",)),
    ("matmul", "matmul_nt", SQUARE | ROLES | {"-s BM": "128", "-s BN": "256"}, ("bf16",)),
    ("softmax", "softmax", ROWS, BOTH),
    ("softmax", "softmax", {"x": "zeros(2048,131072)"}, BOTH),
    ("softmax", "softmax_long", {"x": "zeros(2048,131072)"}, BOTH),
    ("norm", "layer_norm", NORM | {"h": "zeros(8192)", "mean": "none", "rstd": "none"}, BOTH),
    ("norm", "rms_norm", NORM | {"rstd": "none"}, BOTH),
    ("norm", "add_rms_norm", NORM | {"residual": ROWS["x"]}, ("bf16", "f16", "f32")),
    ("reduce", "sum_last", ROWS, BOTH),
    ("reduce", "sum_axis", {"x": "zeros(1,8192,8192)"}, BOTH),
    ("scan", "cumsum_last", ROWS, BOTH),
    ("reduce", "argmax_last", ROWS, BOTH),
    ("loss", "cross_entropy", LOSS, BOTH),
    ("loss", "cross_entropy_long", LOSS, ("bf16",)),
    ("softmax", "softmax", {"x": FULL["x"]}, ("bf16", "f16", "f32")),
    ("softmax", "softmax_backward", {n: FULL[n] for n in ("y", "dy", "dx")}, ("bf16", "f16", "f32")),
    ("norm", "rms_norm", FULL_NORM, ("bf16", "f16", "f32")),
    ("norm", "layer_norm", FULL_NORM | {"h": "zeros(32768)", "mean": "none"}, ("bf16", "f16", "f32")),
] + [
    ("norm", kernel, gradient(rows, columns, **more), BOTH)
    for kernel, more in (("layer_norm_backward", {"mean": 1}), ("rms_norm_backward", {}))
    for rows, columns in ((4096, 4096), (4096, 8192), (4096, 16384), (1024, 32768))
]
# Rows of usual widths, for which the cost model uses each of its layouts: file, kernel, arguments; N is the
# width.
WIDTHS = (64, 128, 256, 512, 768, 1000, 1024, 1280, 1536, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 11008)
WIDTHS += (12288, 14336)
WIDE_NORM = {"x": "zeros(4096,N)", "g": "zeros(N)", "eps": "1e-5"}
WIDTH_KERNELS = [
    ("norm", "rms_norm", WIDE_NORM | {"rstd": "none"}),
    ("norm", "layer_norm", WIDE_NORM | {"h": "zeros(N)", "mean": "none", "rstd": "none"}),
    ("norm", "add_rms_norm", WIDE_NORM | {"residual": "zeros(4096,N)"}),
    ("softmax", "softmax", {"x": "zeros(4096,N)"}),
    ("softmax", "log_softmax", {"x": "zeros(4096,N)"}),
    ("softmax", "softmax_backward", {"y": "zeros(4096,N)", "dy": "zeros(4096,N)"}),
]
TURN = 1067  # the tests' turn; any number is possible
# Known spills, by words of the name (the parts between bars are alternatives), and their greatest number of
# bytes. Ideally empty. A match that spills nothing fails as well.
KNOWN = {
    "nvvm layer_norm x=zeros(64,32768):f32": 24,
    "sm_80 nvvm softmax_backward y=zeros(64,32768):f32": 20,
    "sm_90a nvvm attention_varlen roles=1 skew=1": 208,
    "sm_90a nvptx bce_with_logits T=f16|T=f8e4m3|T=f8e5m2": 40,
    "sm_86|sm_89 nvvm log_softmax x=zeros(4096,512):f32": 16,
}
MAIN = "sm_90a"  # the target for which all combinations are assembled
SKIP = 77


def find_ptxas():
    home = os.environ.get("CUDA_HOME")
    usual = sorted(glob.glob("/usr/local/cuda*/bin/ptxas"))
    for path in [os.path.join(home, "bin/ptxas")] if home else []:
        if os.access(path, os.X_OK):
            return path
    return shutil.which("ptxas") or (usual[-1] if usual else None)


def choices(parameters, wanted):
    """Options with the elements for `T: f32 | f64, U: any` when `wanted` is requested; None if the first
    parameter cannot have it."""
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
    """(file, kernel, type options): each type that the first type parameter may have."""
    for path in sorted(glob.glob(os.path.join(ROOT, "stdlib", "*.teg"))):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for name, parameters in KERNEL.findall(text):
            if not re.search(pattern, name):
                continue
            found = [c for c in (choices(parameters, t) for t in types) if c is not None]
            for options in ([[]] if not parameters else found):
                yield path, name, options


def with_arguments(file, kernel, arguments, t):
    """(file, kernel, options): arrays without an element type get t."""
    options = ["-t", "S=f32"] if file == "norm" and kernel != "add_rms_norm" else []
    for name, value in arguments.items():
        if name.startswith("-s "):
            options += ["-s", f"{name[3:]}={value}"]
            continue
        typed = value.startswith("zeros") and ":" not in value
        options += ["--arg", f"{name}={value}" + (f":{t}" if typed else "")]
    return os.path.join(ROOT, "stdlib", file + ".teg"), kernel, options


def large(pattern):
    """(file, kernel, options) of the kernels with large arguments."""
    for file, kernel, arguments, types in LARGE:
        for t in types if re.search(pattern, kernel) else ():
            yield with_arguments(file, kernel, arguments, t)


def large_jobs(targets, codegens, pattern, turn):
    """(target, codegen, instance) of the kernels with large arguments. With a turn, each kernel is compiled
    for the main target in every way, and in one of the other ways."""
    every = [(target, codegen) for target in targets for codegen in codegens]
    others = [way for way in every if way[0] != MAIN]
    for k, instance in enumerate(large(pattern)):
        left_out = others[:] if turn is not None else []
        if left_out:
            left_out.remove(others[(turn + k) % len(others)])
        for target, codegen in every:
            if target != MAIN and "roles=1" in instance[2]:
                continue
            if (target, codegen) not in left_out:
                yield target, codegen, instance


def widths(targets, codegens, pattern, types, turn):
    """(target, codegen, instance) of each width of each kernel: every way, or with a turn one of them."""
    every = [(target, codegen, t) for target in targets for codegen in codegens for t in types]
    for k, (file, kernel, arguments) in enumerate(WIDTH_KERNELS):
        for w, width in enumerate(WIDTHS if re.search(pattern, kernel) else ()):
            own = {n: v.replace("N", str(width)) for n, v in arguments.items()}
            now = every if turn is None else [every[(turn + w + 5 * k) % len(every)]]
            for target, codegen, t in now:
                yield target, codegen, with_arguments(file, kernel, own, t)


def rotated(targets, codegens, pattern, types, first):
    """(target, codegen, instance): one instance of each kernel for each target, from a turn on."""
    kernels = {}
    for path, name, options in instances(pattern, types):
        kernels.setdefault((path, name), []).append(options)
    for k, ((path, name), choices_) in enumerate(kernels.items()):
        for t, target in enumerate(targets):
            turn = first + k + t
            codegen = codegens[turn % len(codegens)]
            options = choices_[turn // len(codegens) % len(choices_)]
            yield target, codegen, (path, name, options)


def known_bytes(name):
    """The entry of KNOWN for it; None: no entry."""
    words = set(name.split())
    found = [n for key, n in KNOWN.items() if all(words & set(w.split("|")) for w in key.split())]
    return max(found, default=None)


def assemble(ptxas, target, known, ptx):
    """The output of ptxas: (problem or None, registers)."""
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
    if max(spills, default=0) > (known or 0):
        return f"{max(spills)} bytes spilled of {registers} registers", registers
    if known and not any(spills):
        return "spills nothing, but KNOWN has it", registers
    advice = re.search(r"\(?C75\d\d\)?[^\n]*", log)
    return (advice.group(0) if advice else None), registers


def check(jobs):
    """(name, problem or None, registers) of each job. One process compiles them all."""
    args = jobs[0][0]
    settings = [word for one in args.set for word in ("-s", one)]
    commands = [words(target, "ptx", path, kernel, options + settings, codegen)
                for _, target, codegen, (path, kernel, options) in jobs]
    for job, (ptx, problem) in zip(jobs, emitted(args.tegula, commands)):
        _, target, codegen, (path, kernel, options) = job
        name = " ".join([target, codegen, kernel] + [o for o in options if o[0] != "-"])
        registers = 0
        if ptx and b".version" not in ptx:
            problem = "no PTX"
        elif ptx and b".extern .func" in ptx:
            problem = "calls a function"
        elif ptx:
            problem, registers = assemble(args.ptxas, target, known_bytes(name), ptx.decode())
        yield name, problem, f"{registers} registers"


def report(check_some, work, args, what):
    """Prints the name and the problem of each job with a problem (--table: also the registers of the others).
    Returns the exit code."""
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        checked = pool.map(lambda jobs: list(check_some(jobs)), batches(work, args.jobs))
        for name, problem, line in itertools.chain.from_iterable(checked):
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
    parser.add_argument("--rotate", action="store_true", help="each kernel once a target, in turn")
    parser.add_argument("--daily", type=int, default=1, metavar="N", help="every Nth, in turns of a day (turns.py)")
    parser.add_argument("--turn", type=int, help="of --rotate; default: TG_TURN, or the tests' one")
    parser.add_argument("--large", action="store_true", help="kernels with large arguments")
    parser.add_argument("--widths", action="store_true", help="norms and softmax of usual widths")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="settings of all")
    parser.add_argument("--table", action="store_true", help="print all, not the bad ones alone")
    args = parser.parse_args()
    args.ptxas = find_ptxas()
    if not args.ptxas:
        print("ptxas was not found: nothing is tested")
        return SKIP
    targets, codegens, types = (
        o.split(",") for o in (args.targets, args.codegens, args.types)
    )
    turn = None
    if args.rotate:
        turn = int(os.environ.get("TG_TURN") or TURN) if args.turn is None else args.turn
        print(f"turn {turn}")
    if args.widths:
        found = widths(targets, codegens, args.kernels, types, turn)
        work = [(args, *job) for job in found]
    elif args.large:
        work = [(args, *job) for job in large_jobs(targets, codegens, args.kernels, turn)]
    elif args.rotate:
        work = [(args, *job) for job in rotated(targets, codegens, args.kernels, types, turn)]
    else:
        work = [
            (args, target, codegen, instance)
            for target in targets
            for codegen in codegens
            for instance in instances(args.kernels, types)
        ]
    part, parts = map(int, args.part.split("/"))
    return report(check, turns.share(work[part - 1 :: parts], args.daily), args, "kernels")


if __name__ == "__main__":
    sys.exit(main())
