#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KernelBench by Tegula's library, beside PyTorch: checked, then timed, a row for each problem.

    bench/kernelbench/run.py --out DIR                          all 100 problems of level 1
    bench/kernelbench/run.py --only 1,14-18,47 --rounds 3 --out DIR
    bench/kernelbench/run.py --device cpu --shrink 64 --peers eager --seconds 0 --out DIR     correctness alone

Writes DIR/kernelbench.json after each problem and DIR/kernelbench.md at the end. A problem that crashes,
hangs or fails is a row with the reason. See README.md beside this file.
"""

import argparse
import importlib.util
import json
import math
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
GPU = HERE.parent / "gpu"
LEVELS = (1,)


def gpu_run():
    """bench/gpu/run.py as a module: the worker, rounds, and the file of results."""
    if "gpu_run" not in sys.modules:
        spec = importlib.util.spec_from_file_location("gpu_run", GPU / "run.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["gpu_run"] = module
        spec.loader.exec_module(module)
    return sys.modules["gpu_run"]


def options():
    p = argparse.ArgumentParser(formatter_class=argparse.RawTextHelpFormatter, description=__doc__)
    p.add_argument("--level", type=int, choices=LEVELS, default=1)
    p.add_argument("--only", default="", help="numbers of problems and ranges of them: 1,14-18")
    p.add_argument("--peers", default="eager,compile", help="whom to measure beside Tegula: eager, compile")
    p.add_argument("--tf32", action="store_true", help="products and convolutions in TF32, too, as contenders of their own")
    p.add_argument("--tune-ms", type=int, default=0, help="search for settings so long before a kernel's first run")
    p.add_argument("--rounds", type=int, default=1, help="measure all problems so often, in orders that are drawn; medians count")
    p.add_argument("--seconds", type=float, default=1.0, help="time spent measuring a problem; 0: correctness alone")
    p.add_argument("--runs", type=int, default=30, help="least number of timed runs of a contender")
    p.add_argument("--limit", type=float, default=120, help="seconds after which a problem is given up")
    p.add_argument("--total", type=float, default=0, help="seconds after which no problem is begun")
    p.add_argument("--flush", choices=("full", "plain"), default="full", help="as in bench/gpu/run.py")
    p.add_argument("--out", default=".", help="folder of the results")
    p.add_argument("--resume", action="store_true", help="keep the rows that DIR/kernelbench.json has, and measure the others")
    p.add_argument("--device", default="cuda", help="cuda, or cpu for a trial")
    p.add_argument("--shrink", type=int, default=1, help="divide extents: for a trial")
    p.add_argument("--list", action="store_true", help="the problems, their inputs and our kernels")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    p.set_defaults(script=HERE / "run.py", file="kernelbench.json", settings=[], tutorials=None)
    return p


def rows_of(level):
    sys.path.insert(0, str(HERE))
    return __import__(f"level{level}").ROWS


def numbers_of(text, rows):
    """The numbers that --only names, all without it. ValueError names a number that has no problem."""
    out = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        out += range(int(first), int(last or first) + 1)
    unknown = [n for n in out if n not in rows]
    if unknown:
        raise ValueError(f"there is no problem {unknown[0]}")
    return list(dict.fromkeys(out)) or sorted(rows)


def described(row, shrink):
    """A line of --list."""
    extents = row.shrunk(shrink)
    shapes = ", ".join(f"{n} {'x'.join(map(str, d.shape)) or 'scalar'}" for n, d in row.inputs(*extents).items())
    result = "x".join(map(str, row.output(*extents))) or "scalar"
    kernels = ", ".join(f"{c.file}/{c.kernel}" for c in row.calls)
    return f"{row.number:3} {row.name} [{row.family}]: {shapes} -> {result}; {kernels}"


# ---- the worker ----------------------------------------------------------------------------------


def work(o):
    """Measures the problems whose numbers come in, by bench/gpu's worker."""
    sys.path.insert(0, str(GPU))
    sys.path.insert(0, str(HERE))
    gpu = gpu_run()
    out = gpu.answers()
    if o.tune_ms:
        os.environ |= {"TG_TUNE": "block", "TG_TUNE_BUDGET_MS": str(o.tune_ms)}
    import torch

    import measure
    import problem

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    measure.RUNS = o.runs
    o.peers = "tegula," + o.peers
    gpu.answer_all(o, out, gpu.environment(o), problem.makers(rows_of(o.level), o.tf32))


# ---- the table -----------------------------------------------------------------------------------

GROUPS = {
    "all": lambda row: True,
    "without convolutions": lambda row: not row.convolves,
    "products": lambda row: row.family == "products",
    "convolutions": lambda row: row.convolves,
    "the rest": lambda row: not row.convolves and row.family != "products",
}


def strict(rows):
    """The contenders of full precision."""
    return {n: r for n, r in rows.items() if "tf32" not in n}


def ratios(record):
    """peer -> its time over ours, of contenders of full precision; with "fastest" for the fastest peer. A
    problem that failed has none, not even if it failed in one round of several."""
    if "failed" in record:
        return {}
    found = {n: v for n, (v, _) in gpu_run().ratios(record | {"rows": strict(record["rows"])}).items()}
    return found | ({"fastest": min(found.values())} if found else {})


def time_cell(row):
    """Milliseconds; for a trial without times whether the result is correct."""
    if not row:
        return "-"
    return "failed" if "failed" in row else f"{row['ms']:.3f}" if "ms" in row else "correct"


def remarks(record):
    out = [record["failed"]] if "failed" in record else []
    out += [f"{n}: {r['failed']}" for n, r in record["rows"].items() if "failed" in r]
    return "; ".join(out).replace("|", "\\|").replace("\n", " ")


def table(records, rows):
    """A line a problem, in the order of their numbers."""
    names = ["tegula", *dict.fromkeys(n for r in records for n in r["rows"] if n != "tegula")]
    lines = [f"| # | problem | {' | '.join(names)} | fastest peer / ours | rate | remarks |"]
    lines.append("|---|---" + "|---" * len(names) + "|---|---|---|")
    for record in sorted(records, key=lambda r: int(r["name"])):
        row, found = rows[int(record["name"])], ratios(record)
        own = record["rows"].get("tegula", {})
        rate = ""
        if "ms" in own and "failed" not in own:
            rate = f"{own['tflops']:.1f} TFLOP/s" if record.get("flops") else f"{own['gbs']:.0f} GB/s"
        cells = [time_cell(record["rows"].get(n)) for n in names]
        ratio = f"{found['fastest']:.2f}" if found else "-"
        lines.append(f"| {row.number} | {row.name} | {' | '.join(cells)} | {ratio} | {rate} | {remarks(record)} |")
    return lines


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def means(records, rows):
    """Geometric means of the peers' times over ours, by group of problems, and how often ours is the fastest."""
    by_record = [(rows[int(r["name"])], ratios(r)) for r in records]
    peers = list(dict.fromkeys(p for _, found in by_record for p in found if p != "fastest")) + ["fastest"]
    lines = [f"| problems | measured | {' | '.join(p + ' / ours' for p in peers)} | ours is the fastest |"]
    lines.append("|---|---" + "|---" * len(peers) + "|---|")
    for name, member in GROUPS.items():
        all_ = [found for row, found in by_record if member(row)]
        good = [found for found in all_ if found]
        cells = []
        for p in peers:
            values = [found[p] for found in good if p in found]
            cells.append(f"{geomean(values):.3f} ({len(values)})" if values else "-")
        wins = sum(found["fastest"] > 1 for found in good)
        lines.append(f"| {name} | {len(good)} of {len(all_)} | {' | '.join(cells)} | {wins} |")
    return lines


def correct(records):
    """The numbers of the problems that our kernels solved correctly, and of the others."""
    good = [r["name"] for r in records if "failed" not in r and "failed" not in r["rows"].get("tegula", {"failed": ""})]
    return good, [r["name"] for r in records if r["name"] not in good]


def kept(o):
    """The records of an earlier run that --resume keeps: those whose problem was measured."""
    path = pathlib.Path(o.out, o.file)
    if not o.resume or not path.is_file():
        return []
    return [r for r in json.loads(path.read_text())["cases"] if "failed" not in r]


def main():
    o = options().parse_args()
    if o.worker:
        return work(o)
    rows = rows_of(o.level)
    try:
        numbers = numbers_of(o.only, rows)
    except ValueError as error:
        sys.exit(f"--only {o.only}: {error}")
    if o.list:
        print("\n".join(described(rows[n], o.shrink) for n in numbers))
        return 0
    gpu, old = gpu_run(), kept(o)
    have = {r["name"] for r in old}
    names = [str(n) for n in numbers if str(n) not in have]
    about, records = gpu.measure_all(o, gpu.turns(names, o.rounds), sys.argv[1:], old)
    about["clocks after"] = gpu.clocks() if o.device == "cuda" else ""
    gpu.save(o, about, records)
    good, bad = correct(records)
    lines = gpu.header(about) + ["", *table(records, rows), "", *means(records, rows), ""]
    lines.append(f"{len(good)} of {len(records)} problems are correct" + (f"; not: {', '.join(bad)}" if bad else ""))
    pathlib.Path(o.out, "kernelbench.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
