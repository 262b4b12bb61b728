#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles every kernel of the standard library in its default configuration to a code object and reads it
back. Metadata and descriptors must agree with each other and with the kernel's parameters. The code must
fit the GPU and must not spill.

    objects.py --tegula PATH [--targets gfx90a,gfx942] [--types f32,f16] [--kernels REGEX] [--table]
               [--rotate]

With --rotate each element of a kernel is compiled for one GPU of CDNA and one of RDNA. The GPUs change
from element to element and from kernel to kernel. Without it, all are compiled for all targets.
"""

import argparse
import os
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / d) for d in ("nvidia", "amdgpu")]
from assemble import GPUS, instances, report, turns  # noqa: E402
from emitted import emitted, words  # noqa: E402
from hsaco import Hsaco  # noqa: E402

FAMILIES = [[g for g in GPUS if g.startswith(prefix)] for prefix in ("gfx9", "gfx1")]
LANES = {g: lanes for family, lanes in zip(FAMILIES, (64, 32)) for g in family}
SHARED = {"gfx950": 160 << 10}
# Registers of a SIMD that its waves share, by number of lanes, and the size of an allocation.
REGISTERS = {64: (512, 8), 32: (1536, 24)}
BYTES = {"ptr addrspace(1)": 8, "i64": 8, "double": 8, "i32": 4, "float": 4, "half": 2, "i16": 2, "i8": 1, "i1": 1}
SIMDS = {64: 4, 32: 2}
SCALARS = 112

# Types to try, in order; some kernels have no f16.
TYPES = "f16,f32,bf16,f64,i32,i64,i8,u8,f8e4m3,f8e5m2"


def parameters(module):
    """Kernel -> the types of its parameters, from the portable module."""
    out = {}
    for name, list_ in re.findall(r"^define void @([\w.]+)\((.*?)\) #", module, re.M):
        out[name] = [re.sub(r" %\w+$", "", p.strip()) for p in list_.split(",")]
    return out


def check_arguments(kernel, types):
    """Checks that each argument lies where C would put it."""
    at = 0
    for argument, type_ in zip(kernel[".args"], types):
        size = BYTES[type_]
        at = (at + size - 1) // size * size
        if (argument[".offset"], argument[".size"]) != (at, size):
            return f"an argument at {argument['.offset']} of {argument['.size']} bytes, not {at} of {size}"
        kind = "global_buffer" if "ptr" in type_ else "by_value"
        if argument[".value_kind"] != kind:
            return f"an argument is {argument['.value_kind']}, not {kind}"
        at += size
    if len(kernel[".args"]) != len(types):
        return f"{len(kernel['.args'])} arguments, not {len(types)}"
    if kernel[".kernarg_segment_size"] < at:
        return f"{kernel['.kernarg_segment_size']} bytes of arguments, not {at}"
    return None


def check_fit(kernel, target):
    lanes = LANES[target]
    most, unit = REGISTERS[lanes]
    if kernel[".wavefront_size"] != lanes:
        return f"waves of {kernel['.wavefront_size']} lanes"
    if kernel[".group_segment_fixed_size"] > SHARED.get(target, 64 << 10):
        return f"{kernel['.group_segment_fixed_size']} bytes of shared memory"
    waves = -(-kernel[".max_flat_workgroup_size"] // lanes)
    held = -(-max(kernel[".vgpr_count"], 1) // unit) * unit * -(-waves // SIMDS[lanes])
    if held > most:
        return f"{kernel['.vgpr_count']} registers in {waves} waves"
    if kernel[".sgpr_count"] > SCALARS:
        return f"{kernel['.sgpr_count']} scalar registers"
    spilled = max(kernel[".private_segment_fixed_size"], 4 * kernel[".vgpr_spill_count"])
    if spilled or kernel[".uses_dynamic_stack"]:
        return f"{spilled} bytes of scratch"
    return None


def check_descriptor(code, kernel):
    d = code.descriptor(kernel)
    entry = code.symbols[kernel[".name"]][0]
    wanted = {
        "size": 64,
        "shared": kernel[".group_segment_fixed_size"],
        "scratch": kernel[".private_segment_fixed_size"],
        "kernarg": kernel[".kernarg_segment_size"],
        "entry": entry,
        "uses_scratch": int(kernel[".private_segment_fixed_size"] > 0),
        "wave32": int(kernel[".wavefront_size"] == 32),
    }
    for key, value in wanted.items():
        if d[key] != value:
            return f"the descriptor has {key} {d[key]}, not {value}"
    if entry % 256:
        return f"the code is at {entry:#x}"
    if 8 * (d["vgpr_blocks"] + 1) < kernel[".vgpr_count"]:
        return f"the descriptor has registers for {8 * (d['vgpr_blocks'] + 1)} of {kernel['.vgpr_count']}"
    if kernel.get(".agpr_count") and kernel[".vgpr_count"] < d["accumulators_at"]:
        return "accumulators are beyond the registers"
    return None


def check_object(data, module, target):
    """(problem or None, a description)."""
    code = Hsaco(data)
    declared = parameters(module)
    if code.gpu != target or code.metadata["amdhsa.target"] != f"amdgcn-amd-amdhsa--{target}":
        return f"code for {code.gpu}", ""
    if set(declared) != {k[".name"] for k in code.kernels}:
        return f"kernels {[k['.name'] for k in code.kernels]}, not {list(declared)}", ""
    for k in code.kernels:
        problem = (
            check_arguments(k, declared[k[".name"]]) or check_fit(k, target) or check_descriptor(code, k)
        )
        if problem:
            return f"{k['.name']}: {problem}", ""
    uses = ((k[".vgpr_count"], k[".sgpr_count"], k[".group_segment_fixed_size"]) for k in code.kernels)
    return None, "registers, scalars, shared: " + " ".join(str(u) for u in uses)


def rotated(targets, pattern, types):
    """(target, instance): every instance of a kernel on one GPU of each family, and one instance on every
    GPU."""
    kernels = {}
    for instance in instances(pattern, types):
        kernels.setdefault(instance[:2], []).append(instance)
    for k, versions in enumerate(kernels.values()):
        for family in FAMILIES:
            for turn in range(max(len(versions), len(family))):
                target = family[(k + turn) % len(family)]
                if target in targets:
                    yield target, versions[turn % len(versions)]


def check(jobs):
    """(name, problem or None, a description) of each job. One process compiles them all."""
    commands = [words(target, level, *instance) for _, target, instance in jobs for level in ("llvm", "hsaco")]
    results = iter(emitted(jobs[0][0].tegula, commands))
    for _, target, (_, kernel, options) in jobs:
        name = " ".join([target, kernel] + [o for o in options if o != "-t"])
        (module, problem), (data, other) = next(results), next(results)
        problem = problem or other
        yield (name, problem, "") if problem else (name, *check_object(data, module.decode(), target))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tegula", required=True)
    parser.add_argument("--targets", default=",".join(LANES))
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--kernels", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--daily", type=int, default=1, metavar="N", help="every Nth, in turns of a day (turns.py)")
    parser.add_argument("--rotate", action="store_true", help="each element for two of the GPUs, each kernel for all")
    parser.add_argument("--table", action="store_true", help="print all, not the bad ones alone")
    args = parser.parse_args()
    types, targets = args.types.split(","), args.targets.split(",")
    if args.rotate:
        work = [(args, *job) for job in rotated(targets, args.kernels, types)]
    else:
        work = [(args, t, i) for t in targets for i in instances(args.kernels, types)]
    return report(check, turns.share(work, args.daily), args, "code objects")


if __name__ == "__main__":
    sys.exit(main())
