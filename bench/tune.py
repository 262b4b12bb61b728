# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the quality and the speed of tuning: searches of 2 s and 10 s, and the setting without tuning,
beside the best of an exhaustive search.

    python3 bench/tune.py [--target cpu|cuda] [--only TEXT] [--repeats N] [--exhaustive S] [--sample S] [--out FILE]

All chosen settings are measured again in turns, in a tournament among them, because searches measured them at
different times. `spread` is the spread of the choices of repeated searches. With --triton, Triton also
tunes a product of 48 settings, with an empty cache. --trials keeps the reports of the exhaustive searches.

    python3 bench/tune.py --record FOLDER     one exhaustive search of each case that FOLDER lacks
    python3 bench/tune.py --replay FOLDER     searches in a world where settings take the recorded times

An exhaustive search tries all settings that the cost model lists. With --sample S the reference also
includes S seconds of a random sample of all settings that the kernel allows, whatever the model says, with
several axes at once. Sampled settings that are faster and missing from the list are named with the reason,
and three of them race. To measure only the loss by the model's judgement, with two budgets a case and a
short race:

    python3 bench/tune.py --budgets '' --exhaustive 10 --sample 20 [--seed N]

A replay needs no quiet machine: it compiles and launches nothing, and its clock is simulated
(tests/tune/replay.c). It measures the decisions of a search; its `spread` is that of 20 searches.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HEATS = 30  # launches of ten heats
RACED = 3  # found settings that race again
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

PRODUCTS = {
    "cpu": [
        (128, 128, 128),
        (256, 256, 256),
        (512, 512, 512),
        (1024, 1024, 1024),
        (1000, 333, 777),
        (300, 300, 300),
        (1, 2048, 2048),
        (8, 1024, 4096),
        (1024, 64, 1024),
        (64, 1024, 1024),
        (2048, 128, 256),
        (96, 96, 2048),
    ],
    "cuda": [
        (4096, 4096, 4096),
        (8192, 8192, 8192),
        (8192, 8192, 1024),
        (1024, 1024, 1024),
        (16, 8192, 8192),
        (128, 14336, 4096),
        (512, 512, 8192),
        (2048, 2048, 2048),
        (4096, 256, 4096),
        (256, 256, 256),
        (3000, 3000, 3000),
        (64, 28672, 4096),
    ],
}


def cases(target):
    """Name and arguments of `tegula tune` for each case."""
    real = "f32" if target == "cpu" else "f16"
    out = []
    for m, n, k in PRODUCTS[target]:
        dims = ["-d", f"M={m}", "-d", f"N={n}", "-d", f"K={k}"]
        out.append((f"matmul {m}x{n}x{k}", ["matmul.teg", "-k", "matmul", "-t", f"T={real}"] + dims))
    def add(name, file, kernel, arguments):
        out.append((name, [file, "-k", kernel] + [x for a in arguments for x in ("-a", a)]))

    rows = [(1024, 1024), (333, 1000)] if target == "cpu" else [(8192, 1024), (4096, 8192)]
    for r, n in rows:
        x, none = f"x=zeros({r},{n}):{real}", ["mean=none", "rstd=none", "eps=0.00001"]
        add(f"softmax {r}x{n}", "softmax.teg", "softmax", [x])
        scale = [f"{name}=zeros({n}):{real}" for name in "gh"]
        add(f"layer_norm {r}x{n}", "norm.teg", "layer_norm", [x, *scale, *none])
        out[-1][1].extend(["-t", "S=f32"])
    b, h, s, d = (1, 2, 512, 64) if target == "cpu" else (4, 32, 4096, 128)
    qkv = [f"{name}=zeros({b},{h},{s},{d}):{real}" for name in "qkv"]
    add(f"attention {b}x{h}x{s}x{d}", "attention.teg", "attention",
        [*qkv, "mask=none", "lse=none", "scale=0.125", "causal=0"])
    out[-1][1].extend(["-t", "U=f32"])
    b = 1 if target == "cpu" else 32
    image = [f"x=zeros({b},64,56,56):{real}", f"w=zeros(64,64,3,3):{real}", "bias=none",
             f"y=zeros({b},64,56,56):{real}"]
    ones = [f"{name}=1" for name in ("sy", "sx", "py", "px", "dy", "dx")]
    add(f"conv2d {b}x64x56x56 3x3", "conv.teg", "conv2d", [*image, *ones, "act=0"])
    return out


class Search:
    """One run of `tegula tune`: its trials, its winner, its time."""

    def __init__(self, options, arguments, mode, budget, among=(), seed=0):
        with tempfile.TemporaryDirectory() as folder:
            lines = os.path.join(folder, "trials.jsonl")
            file = os.path.join(options.library, arguments[0])
            command = [options.tegula, "tune", file, *arguments[1:], "--mode", mode, "--again",
                       "--budget", str(budget), "--seed", str(seed), "--jsonl", lines]
            command += [x for config in among for x in ("--among", config)]
            if options.target != "cpu":
                command += ["--target", options.target]
            start = time.monotonic()
            run = subprocess.run(command, env=os.environ | {"TG_CACHE": "off"}, text=True,
                                 capture_output=True, check=False)
            self.wall = time.monotonic() - start
            self.text = run.stdout + run.stderr
            if run.returncode:
                raise RuntimeError(f"{' '.join(command)}\n{self.text}")
            with open(lines, encoding="utf-8") as f:
                self.trials = [json.loads(line) for line in f]
        self.winner = next(t for t in self.trials if t["verdict"] == "won")
        self.standard = next(t for t in self.trials if t["default"])

    def seconds(self, config):
        """The time of a setting; if another setting has the same code, the time of that one."""
        for t in self.trials:
            if t["config"] != config:
                continue
            if t["seconds"]:
                return t["seconds"]
            if t["why"].startswith("the same code as "):
                return self.seconds(t["why"][len("the same code as "):])
        return None

    def low(self, config):
        return self.bound(config, "low")

    def high(self, config):
        return self.bound(config, "high")

    def bound(self, config, which):
        """The width of its time's interval."""
        of = next(t for t in self.trials if t["config"] == config)
        return of[which] or self.seconds(config)

    def fate(self, config):
        """This search's trial of a setting, whatever the order of its values."""
        for t in self.trials:
            if sorted(t["config"].split()) == sorted(config.split()):
                return f"{t['verdict']}{': ' if t['why'] else ''}{t['why']}"
        return "not listed"

    def fastest(self, n):
        """Settings whose own code was measured, the winner first."""
        seen = [t for t in self.trials if t["seconds"] and t["verdict"] in ("slower", "tie")]
        seen.sort(key=lambda t: t["seconds"])
        return [t["config"] for t in [self.winner, *seen]][:n]

    def count(self, verdict):
        return sum(t["verdict"] == verdict for t in self.trials)


def judge(options, arguments, best, drawn, row):
    """Ratios from times of one race."""
    found = [row[f"{b:g}s"] for b in options.budgets]
    listed = {*best.fastest(RACED), *(c for r in found for c in r["configs"])}
    configs = listed | {*(drawn.fastest(RACED) if drawn else ())}
    race = Search(options, arguments, "exhaustive", options.exhaustive, sorted(configs))
    seconds = {c: race.seconds(c) for c in configs | {race.standard["config"]}}
    fastest = min(seconds.values())
    row["us"], row["default"] = fastest * 1e6, fastest / race.standard["seconds"]
    row["best"] = min(seconds, key=seconds.get)
    if drawn:
        listed.add(race.standard["config"])
        of_list = min(seconds[c] for c in listed)
        best_drawn = min(drawn.fastest(RACED), key=seconds.get)
        row["sample"] = {
            "measured": sum(bool(t["seconds"]) for t in drawn.trials),
            "wall": drawn.wall,
            "best": best_drawn,
            "gain": of_list / seconds[best_drawn],
            "shown": race.high(best_drawn) < min(race.low(c) for c in listed),
            "listed_as": best.fate(best_drawn),
            "bad": [f"{t['config']}: {t['verdict']}: {t['why']}" for t in drawn.trials
                    if t["verdict"] in ("crashed", "hung", "failed", "wrong")][:8],
        }
    for r in found:
        ratios = [fastest / seconds[c] for c in r["configs"]]
        r["least"], r["spread"] = min(ratios), max(ratios) / min(ratios) - 1


def measure(options, name, arguments):
    best = Search(options, arguments, "exhaustive", options.exhaustive)
    drawn = Search(options, arguments, "sample", options.sample, seed=options.seed) if options.sample else None
    if options.trials:
        with open(options.trials, "a", encoding="utf-8") as f:
            for search, mode in (best, "exhaustive"), (drawn, "sample"):
                f.writelines(json.dumps(t | {"case": name, "mode": mode}) + "\n"
                             for t in (search.trials if search else ()))
    row = {
        "case": name,
        "candidates": len(best.trials),
        "measured": sum(bool(t["seconds"]) for t in best.trials),
        "exhaustive_s": best.wall,
        "bad": {v: best.count(v) for v in ("refused", "crashed", "hung", "failed", "wrong")},
        "why": [f"{t['config']}: {t['why']}" for t in best.trials
                if t["verdict"] in ("refused", "crashed", "hung", "failed", "wrong")][:8],
    }
    for budget in options.budgets:
        found = []
        for _ in range(options.repeats):
            s = Search(options, arguments, "block", budget)
            found.append(s)
        row[f"{budget:g}s"] = {
            "wall": max(s.wall for s in found),
            "measured": [sum(bool(t["seconds"]) for t in s.trials) for s in found],
            "configs": [s.winner["config"] for s in found],
        }
    judge(options, arguments, best, drawn, row)
    return row


def show(row, budgets):
    bad = ", ".join(f"{n} {v}" for v, n in row["bad"].items() if n)
    print(f"{row['case']}: {row['us']:.1f} us ({row['best']}), {row['measured']} of "
          f"{row['candidates']} in {row['exhaustive_s']:.1f} s{'; ' + bad if bad else ''}; default "
          f"{row['default']:.3f}", flush=True)
    for line in row["why"]:
        print(f"    {line}")
    if "sample" in row:
        r = row["sample"]
        doubt = "" if r["shown"] else ", as far as can be told"
        print(f"    sample: {r['measured']} in {r['wall']:.1f} s, the best one {r['gain']:.3f} times as fast as "
              f"the best of the list{doubt} ({r['best']}; there: {r['listed_as']})", flush=True)
        for line in r["bad"]:
            print(f"        {line}")
    for b in budgets:
        r = row[f"{b:g}s"]
        print(f"    {b:g} s: {r['least']:.3f}, spread {100 * r['spread']:.1f} %, wall "
              f"{r['wall']:.2f} s, {r['measured']} measured: {r['configs']}", flush=True)


def name_of(options, name, end):
    return os.path.join(options.record or options.replay, name.replace(" ", "_") + end)


def record(options, name, arguments):
    """Trials of an exhaustive search, with the compile time of each in seconds."""
    if os.path.exists(name_of(options, name, ".jsonl")):
        return
    best = Search(options, arguments, "exhaustive", options.exhaustive)
    with open(name_of(options, name, ".jsonl"), "w", encoding="utf-8") as f:
        f.writelines(json.dumps(t) + "\n" for t in best.trials)
    print(f"{name}: {sum(bool(t['seconds']) for t in best.trials)} of {len(best.trials)}", flush=True)


def replay(options, name, arguments):
    """The least quality of searches with different noise, and the spread of their choices."""
    recorded = Search.__new__(Search)
    with open(name_of(options, name, ".jsonl"), encoding="utf-8") as f:
        recorded.trials = [json.loads(line) for line in f]
    seconds = {t["config"]: recorded.seconds(t["config"]) for t in recorded.trials}
    seconds = {c: s for c, s in seconds.items() if s}
    # A setting that was in only one or two heats may have been lucky: the recorded tournament did not show
    # that it is faster than the winner.
    won = next(t["seconds"] for t in recorded.trials if t["verdict"] == "won")
    for t in recorded.trials:
        if t["config"] in seconds and (t["launches"] or 0) < HEATS:
            seconds[t["config"]] = max(seconds[t["config"]], won)
    times = name_of(options, name, ".times")
    with open(times, "w", encoding="utf-8") as f:
        for t in recorded.trials:
            if t["config"] in seconds:
                compiled = (t["compiled"] or 0.1) * options.compile
                f.write(f"{seconds[t['config']]} {compiled} {t['config']}\n")
    line = f"{name}:"
    for budget in options.budgets:
        found = []
        for seed in range(1, 21):
            os.environ |= {"TG_REPLAY": times, "TG_REPLAY_SEED": str(seed)}
            s = Search(options, arguments, "block", budget)
            best = min(seconds[t["config"]] for t in s.trials if t["config"] in seconds)
            found.append(best / seconds[s.winner["config"]])
        seen = sum(bool(t["seconds"]) for t in s.trials)
        line += (f" {budget:g} s: {min(found):.3f}, spread {100 * (max(found) / min(found) - 1):.1f} %,"
                 f" {seen} measured;")
    print(line, f"default {best / seconds[s.standard['config']]:.3f}", flush=True)


def triton():
    """Times the first launch of a product that Triton tunes, and its result: the persistent kernel of
    tutorial 09 with its 48 settings. Caches are flushed between launches, as ours are."""
    import torch
    import triton as t
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()

    def boxes(args):
        bm, bn, bk = args["BM"], args["BN"], args["BK"]
        args["a"].block_shape = [bm, bk]
        args["b"].block_shape = [bn, bk]
        args["c"].block_shape = [bm, bn // 2 if args["HALVES"] else bn]

    settings = [t.Config({"BM": 128, "BN": bn, "BK": bk, "HALVES": halves}, num_warps=w,
                         num_stages=s, pre_hook=boxes)
                for bn in (128, 256) for bk in (64, 128) for s in (2, 3, 4) for w in (4, 8)
                for halves in (True, False)]

    @t.jit
    def tile(i, rows, columns):
        group = 8 * columns
        first = i // group * 8
        high = min(rows - first, 8)
        return first + i % high, i % group // high

    @t.autotune(configs=settings, key=["M", "N", "K"])
    @t.jit
    def product(a, b, c, M, N, K, SMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                BK: tl.constexpr, HALVES: tl.constexpr):
        rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
        stored = tl.program_id(0) - SMS
        for at in tl.range(tl.program_id(0), rows * columns, SMS, flatten=True):
            m, n = tile(at, rows, columns)
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(tl.cdiv(K, BK)):
                x = a.load([m * BM, k * BK])
                acc = tl.dot(x, b.load([n * BN, k * BK]).T, acc)
            stored += SMS
            m, n = tile(stored, rows, columns)
            if HALVES:
                left, right = tl.split(tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1)))
                c.store([m * BM, n * BN], left.to(tl.float16))
                c.store([m * BM, n * BN + BN // 2], right.to(tl.float16))
            else:
                c.store([m * BM, n * BN], acc.to(tl.float16))

    n = 4096
    a = torch.randn(n, n, device="cuda", dtype=torch.float16)
    b = torch.randn(n, n, device="cuda", dtype=torch.float16)
    c = torch.empty_like(a)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    x, y, z = (TensorDescriptor.from_tensor(v, [1, 16]) for v in (a, b, c))

    def launch():
        product[lambda m: (min(sms, (n // m["BM"]) * (n // m["BN"])),)](x, y, z, n, n, n, sms)

    start = time.monotonic()
    launch()
    torch.cuda.synchronize()
    wall = time.monotonic() - start
    error = (c.float() - a.float() @ b.float().T).abs().max().item()
    best = t.testing.do_bench(launch, return_mode="median") * 1e3
    return (f"{len(settings)} settings of {n}x{n}x{n}: {wall:.1f} s, {best:.1f} us of "
            f"{product.best_config}, off by {error:.2g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="cpu")
    places = [os.path.join(ROOT, *p, "tegula") for p in (["build", "bin"], ["bin"])]
    parser.add_argument("--tegula", default=next(filter(os.path.exists, places), "tegula"))
    parser.add_argument("--library", default=os.path.join(ROOT, "stdlib"))
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--budgets", type=lambda s: [float(x) for x in s.split(",") if x],
                        default=[2.0, 10.0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--exhaustive", type=float, default=120)
    parser.add_argument("--sample", type=float, default=0, help="seconds of a random sample of each case's space")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--total", type=float, default=1e9, help="seconds after which no case begins")
    parser.add_argument("--triton", action="store_true")
    parser.add_argument("--trials", help="adds a line of JSON for each candidate to this file")
    parser.add_argument("--record", metavar="FOLDER")
    parser.add_argument("--replay", metavar="FOLDER")
    parser.add_argument("--compile", type=float, default=1, help="of recorded seconds, in replays")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.replay:
        options.tegula = os.path.join(ROOT, "build", "tests", "tune", "tune_replay")
    rows, start = [], time.monotonic()
    if options.triton:
        print(f"Triton, {triton()}", flush=True)
    for name, arguments in cases(options.target.split(":")[0]):
        if options.only and not any(o in name for o in options.only):
            continue
        if time.monotonic() - start > options.total:
            print(f"{name}: not reached", flush=True)
            continue
        if options.record or options.replay:
            (record if options.record else replay)(options, name, arguments)
            rows.append(name)
            continue
        try:
            rows.append(measure(options, name, arguments))
            show(rows[-1], options.budgets)
        except (RuntimeError, StopIteration) as error:
            print(f"{name}: {error}", flush=True)
        if options.out:
            with open(options.out, "w", encoding="utf-8") as f:
                json.dump(rows, f, indent=1)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
