#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the machine code of inner loops of products and attention on AMD GPUs with that of others. Nothing
runs: the script counts the instructions of one turn, and computes the least time that each unit needs.

    static.py --tegula PATH [--targets gfx942,gfx1100] [--cases REGEX] [--set 'BM=128 BN=128']
              [--json FILE]                        ours, and the counted peers (peers.json)
    static.py --count FILE [--kernel NAME] --target gfx942      an assembly text or a code object
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "amdgpu")]
import loops  # noqa: E402
from hsaco import Hsaco  # noqa: E402
from objects import LANES, REGISTERS, SIMDS  # noqa: E402

TARGETS = list(LANES)
MATRIX = "{0}=zeros({1}):f16"


def arguments(**shapes):
    return [o for name, dims in shapes.items() for o in ("-a", MATRIX.format(name, dims))]


HEADS = "2,16,4096,128"
CASES = {
    "matmul": ["matmul.teg", "-k", "matmul", "-t", "T=f16", *arguments(a="4096,4096", b="4096,4096")],
    "matmul_nt": ["matmul.teg", "-k", "matmul_nt", "-t", "T=f16", *arguments(a="4096,4096", b="4096,4096")],
    "attention": ["attention.teg", "-k", "attention", "-t", "T=f16", "-t", "U=f32"]
    + arguments(q=HEADS, k=HEADS, v=HEADS)
    + ["-a", "mask=none", "-a", "lse=none", "-a", "scale=0.09", "-a", "causal=false"],
}
# Assumptions about cycles, for all GPUs.
SHARED_CYCLE = 128  # bytes a cycle and compute unit from shared memory
CACHE_CYCLE = 64  # bytes a cycle and compute unit from the caches beyond
NARROW = 4  # other vector instructions in the time of a transcendental one
RATES = {"f16": 1, "bf16": 1, "fp8": 2, "bf8": 2, "i8": 2}
ASSUMED = (
    f"a compute unit moves {SHARED_CYCLE} bytes a cycle through shared memory without conflicts of banks and "
    f"{CACHE_CYCLE} through its cache; an instruction of vectors takes 4 cycles of a SIMD on CDNA, 1 on RDNA, "
    f"where it also keeps the matrix unit waiting; a transcendental one {NARROW} times as many; matrix "
    "instructions run at the peak of gpus.def; barriers, waits and latencies cost nothing"
)


class Target:
    """A row of lang/gpus.def."""

    def __init__(self, name):
        rows = (ROOT / "lang/gpus.def").read_text(encoding="utf-8")
        row = re.search(rf'^GPU\("{name}",(.*),$', rows, re.M)
        if not row:
            raise SystemExit(f"{name} is no target of lang/gpus.def")
        f = [float(int(s, 16)) if "x" in s else float(s) for s in row[1].split(",")]
        self.name, self.lanes, self.units, self.threads = name, int(f[1]), int(f[2]), int(f[3])
        self.shared, self.clock, self.macs = int(f[7]) * 1024, f[11], f[13]
        self.cdna, self.simds = self.lanes == 64, SIMDS[self.lanes]
        self.registers, self.granule = REGISTERS[self.lanes]
        self.peak = 2e-3 * self.macs * self.units * self.clock  # TFLOP/s of 16-bit products

    def waves(self, r):
        """(waves of a SIMD, the limit) for a kernel's resources. A CTA's waves spread evenly."""
        waves = -(-r["threads"] // self.lanes)
        given = -(-max(r["vector"], 1) // self.granule) * self.granule

        def ctas(held):  # number of CTAs if a SIMD holds so many waves
            return held // -(-waves // self.simds) if waves > self.simds else held * self.simds // waves

        bounds = {
            "waves": ctas(self.threads // self.lanes // self.simds),
            "registers": ctas(self.registers // given),
            "shared memory": self.shared // r["shared"] if r["shared"] else 1 << 20,
        }
        by = min(bounds, key=bounds.get)
        return bounds[by] * waves / self.simds, by


def cycles(target, c):
    """Busy cycles of each unit in a wave's turn, as cycles of its SIMD. A unit that SIMDs share counts in
    part."""
    rate = RATES.get(c["type"])
    if rate is None:
        raise SystemExit(f"no rate is known of products of {c['type']}")
    vector = c.get("vector", 0) + c.get("crossbar", 0) + NARROW * c.get("transcendental", 0)
    moved = c.get("global_read_bytes", 0) + c.get("global_write_bytes", 0)
    lanes = target.lanes * target.simds
    return {
        "matrix": c["macs"] * target.simds / (target.macs * rate),
        "vector": vector * (4 if target.cdna else 1),
        "shared": c["shared_bytes"] * lanes / SHARED_CYCLE,
        "memory": moved * lanes / CACHE_CYCLE,
    }


def shares(target, c):
    """The share of the peak of products: with full overlap, and with none."""
    busy = cycles(target, c)
    together = dict(busy)
    if not target.cdna:
        together["matrix"] += together.pop("vector")
    return busy["matrix"] / max(together.values()), busy["matrix"] / sum(busy.values())


def ratio(a, b):
    """None for a division by 0."""
    return a / b if b else None


def figures(target, counted, resources):
    """Formats the columns of a row."""
    c = counted
    lds = c.get("lds_read", 0) + c.get("lds_write", 0)
    lds_bytes = c.get("lds_read_bytes", 0) + c.get("lds_write_bytes", 0)
    memory = c.get("global_read", 0) + c.get("global_write", 0)
    waves, bound = target.waves(resources)
    best, worst = shares(target, c)
    return {
        "target": target.name,
        "matrix": c["matrix"],
        "matrix_ops": c["matrix_ops"],
        "instructions": c["instructions"],
        "matrix_per_lds": ratio(c["matrix"], lds),
        "macs_per_lds_byte": ratio(c["macs"], target.lanes * lds_bytes),
        "lds_read": c.get("lds_read", 0),
        "lds_write": c.get("lds_write", 0),
        "bytes_per_read": ratio(c.get("lds_read_bytes", 0), c.get("lds_read", 0)),
        "bytes_per_write": ratio(c.get("lds_write_bytes", 0), c.get("lds_write", 0)),
        "matrix_per_vmem": ratio(c["matrix"], memory),
        "ahead": c["ahead"],
        "direct_to_lds": c.get("direct", 0),
        "vector_per_matrix": (c.get("vector", 0) + c.get("transcendental", 0)) / c["matrix"],
        "other_per_matrix": (c["instructions"] - c["matrix"]) / c["matrix"],
        "scratch_ops": c.get("scratch", 0),
        "barriers": c.get("barrier", 0),
        "resources": resources,
        "waves": waves,
        "bound": bound,
        "cycles": cycles(target, c),
        "at_best": best,
        "in_turn": worst,
    }


# ---- ours


def emit(args, target, case, level):
    command = [args.tegula, level[0], *level[1:], str(ROOT / "stdlib" / case[0]), *case[1:], "--target", target]
    command += [o for s in args.set.split() for o in ("--set", s)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def explained(text, entry):
    """Parses `tegula explain` for the kernel: its settings, waves and the model's share."""
    waves = re.search(rf"^  {entry}: .*: (\d+) of \d+ waves, by", text, re.M)
    return {
        "tile": re.search(r"^tuning: (.*)", text, re.M)[1].replace("=", ""),
        "explained_waves": int(waves[1]),
        "model": int(re.search(r"\((\d+)%\)", text)[1]) / 100,
    }


def ours(args, name, target):
    case = CASES[name]
    assembly = emit(args, target.name, case, ["emit", "--level", "asm"])
    codes = loops.read(assembly)
    entry = case[case.index("-k") + 1]
    counted = loops.count(codes[entry]) if entry in codes else None
    if not counted:
        raise SystemExit(f"{entry} on {target.name} has no loop with matrix instructions")
    row = {"case": name, "who": "Tegula", "element": "f16"}
    row |= figures(target, counted, loops.resources(assembly, entry))
    return row | explained(emit(args, target.name, case, ["explain"]), entry)


# ---- others


def disassembler():
    for name in ("llvm-objdump-22", "llvm-objdump", "/usr/lib/llvm-22/bin/llvm-objdump"):
        if shutil.which(name):
            return name
    raise SystemExit("llvm-objdump is needed to read a code object")


def object_resources(kernel):
    return {
        "vector": kernel[".vgpr_count"] + (kernel.get(".agpr_count", 0) if kernel[".vgpr_count"] <= 256 else 0),
        "accumulators": kernel.get(".agpr_count", 0),
        "scalar": kernel[".sgpr_count"],
        "shared": kernel[".group_segment_fixed_size"],
        "scratch": kernel[".private_segment_fixed_size"],
        "threads": kernel[".max_flat_workgroup_size"],
    }


def count_file(path, name, target):
    """Rows of the kernels of a file."""
    data = pathlib.Path(path).read_bytes()
    held = None
    if data[:4] == b"\x7fELF":
        held = {k[".name"]: object_resources(k) for k in Hsaco(data).kernels}
        command = [disassembler(), "-d", path]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    else:
        text = data.decode()
    for kernel, code in loops.read(text).items():
        counted = loops.count(code)
        if counted and (not name or name == kernel):
            yield kernel, figures(target, counted, held[kernel] if held else loops.resources(text, kernel))


# ---- the table

def number(key, form="{:.2g}"):
    return lambda r: "-" if r[key] is None else form.format(r[key])


def share(key):
    return lambda r: f"{100 * r[key]:.0f}%" if key in r else "-"


COLUMNS = {
    "kernel": lambda r: f"{r['case']} {r['element']}",
    "of": lambda r: r["who"],
    "tile": lambda r: r["tile"],
    "waves": lambda r: -(-r["resources"]["threads"] // LANES[r["target"]]),
    "matrix": lambda r: r["matrix"],
    "/LDS": number("matrix_per_lds"),
    "B read": number("bytes_per_read", "{:.3g}"),
    "B write": number("bytes_per_write", "{:.3g}"),
    "/VMEM": number("matrix_per_vmem"),
    "ahead": number("ahead", "{}"),
    "vector": number("vector_per_matrix"),
    "VGPR (AGPR)": lambda r: f"{r['resources']['vector']} ({r['resources']['accumulators']})",
    "SGPR": lambda r: r["resources"]["scalar"],
    "LDS": lambda r: f"{r['resources']['shared'] / 1024:.3g}",
    "SIMD": lambda r: f"{r['waves']:.3g} {r['bound'][0]}",
    "at best": share("at_best"),
    "in turn": share("in_turn"),
    "model": share("model"),
    "measured": lambda r: r.get("measured", {}).get("share", "-"),
}
LEGEND = """\
waves: the waves of a CTA. matrix: the matrix instructions of a wave in one iteration of the inner loop with the most
of them; /LDS, /VMEM: their number for each access to shared memory and to memory. B read, B write: bytes of an access
to shared memory, for each lane. ahead: the least number of matrix instructions between a load and its wait. vector:
other vector instructions for each matrix instruction. VGPR: all registers, accumulators in brackets. LDS: KiB of a CTA.
SIMD: waves that a SIMD holds, limited by (r)egisters, (s)hared memory or (w)aves. Shares of the peak: at best, with
all possible overlap; in turn, without overlap; model, by `tegula explain`; measured, by others (peers.json has the
source, the device and the case)."""


def table(rows):
    out = []
    for target in dict.fromkeys(r["target"] for r in rows):
        t = Target(target)
        out.append(f"\n**{target}**, peak {t.peak:.0f} TFLOP/s\n")
        out.append("| " + " | ".join(COLUMNS) + " |")
        out.append("|" + "---|" * len(COLUMNS))
        for r in (r for r in rows if r["target"] == target):
            out.append("| " + " | ".join(str(c(r)) for c in COLUMNS.values()) + " |")
    return "\n".join(out).lstrip("\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tegula")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--cases", default="")
    parser.add_argument("--set", default="", help="tune values and axes of ours")
    parser.add_argument("--json")
    parser.add_argument("--count", help="a file to count")
    parser.add_argument("--kernel")
    parser.add_argument("--target")
    args = parser.parse_args()
    if args.count:
        rows = [dict(kernel=k, **r) for k, r in count_file(args.count, args.kernel, Target(args.target))]
        print(json.dumps(rows, indent=1))
        return 0 if rows else 1
    peers = json.loads((HERE / "peers.json").read_text(encoding="utf-8"))
    rows = []
    for name in args.targets.split(","):
        target = Target(name)
        for case in (c for c in CASES if re.search(args.cases, c)):
            rows.append(ours(args, case, target))
            rows += [p for p in peers if p["target"] == name and p["case"] == case]
    print(table(rows))
    print(f"\n{LEGEND}\n\n{textwrap.fill('Predicted, not measured: ' + ASSUMED + '.', 118)}")
    if args.json:
        document = {"assumed": ASSUMED, "rows": rows}
        pathlib.Path(args.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
