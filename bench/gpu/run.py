#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tegula beside its peers on one GPU: checked, then timed, in one process a case.

    bench/gpu/run.py --out DIR                              everything (about 14 minutes)
    bench/gpu/run.py --cases matmul,attention --quick --out DIR
    bench/gpu/run.py --cases llama --peers tegula,cublas --rounds 3 --seconds 1 --out DIR
    bench/gpu/run.py --only 'matmul bf16 4096' --set 'BM=128 BN=256 BK=64' --set 'BM=128 BN=128 BK=64'

Writes DIR/gpu.json and prints a table of ratios (peer's time / ours), the worst first. Cases run in a
worker process. A case that crashes, hangs or fails is reported, and a new worker continues with the next.
See README.md beside this file.
"""

import argparse
import json
import math
import os
import pathlib
import queue
import random
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOST_AHEAD_US = 200  # least time for which the device empties the L2
PEERS = "tegula,cublas,cudnn,flash,eager,compile,triton"


def options():
    p = argparse.ArgumentParser(formatter_class=argparse.RawTextHelpFormatter, description=__doc__)
    p.add_argument("--cases", default="", help="groups of cases, with commas; all by default")
    p.add_argument("--only", action="append", default=[], help="cases whose name holds this text")
    p.add_argument("--quick", action="store_true", help="a shape or two of each kind")
    p.add_argument("--peers", default=PEERS, help=f"whom to measure: {PEERS}")
    p.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="'BM=128 BN=64'",
        help="tune values of Tegula's kernels; each one more contender",
    )
    p.add_argument("--seconds", type=float, default=None, help="time spent measuring a case")
    p.add_argument(
        "--rounds",
        type=int,
        default=1,
        help="measure all cases so often, each time in another order that is drawn; medians count",
    )
    p.add_argument("--limit", type=float, default=90, help="seconds after which a case is given up")
    p.add_argument("--total", type=float, default=0, help="seconds after which no case is begun")
    p.add_argument(
        "--flush",
        choices=("full", "plain"),
        default="full",
        help="what empties the L2: a write with lines that kernels keep released before it and other\n"
        "inputs for each run (full), or the write alone",
    )
    p.add_argument("--out", default=".", help="folder of the results")
    p.add_argument(
        "--tutorials",
        default=os.environ.get("TRITON_TUTORIALS"),
        help="Triton's python/tutorials: its attention becomes a peer",
    )
    p.add_argument("--device", default="cuda", help="cuda, or cpu for a trial")
    p.add_argument("--shrink", type=int, default=1, help="divide extents: for a trial")
    p.add_argument("--list", action="store_true", help="names of the cases")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    p.set_defaults(script=HERE / "run.py", file="gpu.json")
    return p


# ---- the worker ----------------------------------------------------------------------------------


def tutorial(folder):
    """The module of Triton's attention tutorial, or None."""
    path = pathlib.Path(folder or "", "06-fused-attention.py")
    if not folder or not path.is_file():
        return None
    import importlib.util

    spec = importlib.util.spec_from_file_location("tutorial_attention", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def environment(o):
    os.environ.setdefault("TG_TUNE", "off")  # otherwise a background search would be measured too
    import torch

    import cases

    device = torch.device(o.device)
    if device.type == "cuda":
        torch.cuda.init()
    tegula = None
    if "tegula" in o.peers.split(","):
        sys.path.insert(0, str(ROOT / "python"))
        bundled = ROOT / "lib/libtegula.so"
        if bundled.is_file():
            os.environ.setdefault("TEGULA_LIBRARY", str(bundled))
        import tegula
    settings = [dict(pair.split("=") for pair in s.split()) for s in o.settings] or [{}]
    return cases.Env(
        device, set(o.peers.split(",")), tegula, settings, o.shrink, tutorial(o.tutorials)
    )


def answers():
    """The file of the worker's answers. Output of libraries goes elsewhere."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def work(o):
    out = answers()
    sys.path.insert(0, str(HERE))
    import cases

    env = environment(o)
    makers = {name: make for group in cases.groups().values() for name, make in group}
    answer_all(o, out, env, makers)


def answer_all(o, out, env, makers):
    """Reads names of cases, and answers each with a line of JSON. makers: name -> env -> Problem."""
    import torch

    import measure

    print(json.dumps({"ready": machine(o, torch, measure)}), file=out, flush=True)
    for line in sys.stdin:
        name = line.strip()
        t = time.perf_counter()
        try:
            with torch.no_grad() if "backward" not in name else torch.enable_grad():
                plain = o.flush == "plain"
                record = measure.run_problem(makers[name](env), env.device, o.seconds, plain)
        except Exception as error:
            record = {"key": name, "failed": measure.text_of(error), "rows": {}}
        record |= {"name": name, "took_s": time.perf_counter() - t, "dead": not usable(env, torch)}
        print(json.dumps(record), file=out, flush=True)


def usable(env, torch):
    """Returns False after an error that stays with the process. Frees the memory of the case."""
    try:
        if env.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        return True
    except Exception:
        return False


def machine(o, torch, measure):
    """The conditions of the figures. Raises if the L2 cannot be emptied as asked."""
    about = {"torch": torch.__version__, "device": o.device, "flush": "none: not a GPU"}
    if o.device == "cuda":
        p = torch.cuda.get_device_properties(0)
        about |= {"device": p.name, "sms": p.multi_processor_count, "l2": p.L2_cache_size}
        about["clocks"] = clocks()
        about["flush"] = f"{measure.FLUSH_BYTES >> 20} MiB written before each run"
        if o.flush == "full":
            measure.reset_persisting()
            about["flush"] += (
                "; lines kept in the L2 (evict_last) released before it; "
                f"each run reads another of {measure.SETS} sets of inputs than the last"
            )
        else:
            about["flush"] += "; kept lines are not released, contenders of a round share inputs"
    return about


def clocks():
    """SM and memory clock, power and temperature, which may explain differences between runs."""
    query = "clocks.sm,clocks.mem,power.draw,temperature.gpu,driver_version"
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


# ---- the parent ----------------------------------------------------------------------------------


class Worker:
    def __init__(self, script, arguments):
        command = [sys.executable, str(script), "--worker", *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def answer(self, limit):
        """A record, or the text of a fault."""
        try:
            line = self.lines.get(timeout=limit)
        except queue.Empty:
            return f"took more than {limit:.0f} s"
        if not line:
            return f"the process ended with code {self.process.wait()}"
        return json.loads(line)

    def ask(self, name, limit):
        try:
            print(name, file=self.process.stdin, flush=True)
        except OSError:
            pass  # the worker is dead, and the answer will say so
        return self.answer(limit)

    def stop(self):
        self.process.kill()
        self.process.wait()


def chosen(o):
    sys.path.insert(0, str(HERE))
    try:
        import cases
    except ImportError as error:
        sys.exit(f"{error}: the cases and their peers need PyTorch 2.1 or later (python3 -m pip install torch)")
    groups = cases.groups()
    unknown = set(filter(None, o.cases.split(","))) - set(groups)
    if unknown:
        sys.exit(f"no group {', '.join(unknown)}; there are {', '.join(groups)}")
    wanted = o.cases.split(",") if o.cases else list(groups)
    names = [name for g in groups if g in wanted or g == "roof" for name, _ in groups[g]]
    if o.only:
        names = [n for n in names if any(text in n for text in o.only)]
    elif o.quick:
        names = [n for n in names if n.startswith(cases.QUICK)]
    return list(dict.fromkeys(names))


def turns(names, rounds):
    """The cases of each round. One round keeps the listed order; several rounds have random orders."""
    if rounds == 1:
        return names
    return [n for r in range(rounds) for n in random.Random(r).sample(names, len(names))]


def merged_row(by_round):
    """Merges a contender's rows (round -> row): the medians, or the row of a round that failed."""
    rows = list(by_round.values())
    failed = [r for r in rows if "failed" in r]
    if failed or len(rows) == 1 or "ms" not in rows[0]:
        return (failed or rows)[0] | ({"rounds": list(by_round)} if list(by_round) != [0] else {})
    times = [r["ms"] for r in rows]
    medians = {k: statistics.median(r[k] for r in rows) for k in ("ms", "tflops", "gbs", "host_us")}
    spread = (max(times) - min(times)) / medians["ms"]
    return rows[0] | medians | {"rounds": list(by_round), "rounds_ms": times, "spread": spread}


def merged(records):
    """Merges the records of each case over the rounds. A case that failed once has failed."""
    by_name = {}
    for r in records:
        by_name.setdefault(r["name"], []).append(r)
    out = []
    for rounds in by_name.values():
        names = dict.fromkeys(n for r in rounds for n in r["rows"])
        rows = {n: merged_row({i: r["rows"][n] for i, r in enumerate(rounds) if n in r["rows"]}) for n in names}
        good = [r for r in rounds if "failed" not in r]
        failed = [{"failed": r["failed"]} for r in rounds if "failed" in r]
        out.append((good or rounds)[0] | (failed or [{}])[0] | {"rows": rows})
    return out


def measure_all(o, names, arguments, old=()):
    """(the machine, a record for each case), saved after each case. old: records of an earlier run."""
    records, about, worker = list(old), {}, None
    started = time.monotonic()
    for number, name in enumerate(names):
        if o.total and time.monotonic() - started > o.total:
            records.append({"name": name, "key": name, "failed": "no time left", "rows": {}})
            continue
        if worker is None:
            worker = Worker(o.script, arguments)
            ready = worker.answer(120)
            if isinstance(ready, str):
                sys.exit(f"the worker did not start: {ready}")
            if not about:
                about = ready["ready"]
                print("\n".join(header(about)), flush=True)
        record = worker.ask(name, o.limit)
        if isinstance(record, str):
            record = {"name": name, "key": name, "failed": record, "rows": {}}
        if "failed" in record or record.pop("dead"):
            worker.stop()
            worker = None
        records.append(record)
        print(f"[{number + 1}/{len(names)}] {one_line(record)}", flush=True)
        save(o, about, merged(records))
    if worker:
        worker.stop()
    return about, merged(records)


def save(o, about, records):
    path = pathlib.Path(o.out, o.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": about, "cases": records}, indent=1) + "\n")


# ---- the table -----------------------------------------------------------------------------------


def header(about):
    """The device, and the way in which the L2 was emptied."""
    return [f"{about['device']}, torch {about['torch']}", f"flush: {about['flush']}"]


def one_line(record):
    parts = []
    for name, row in record["rows"].items():
        if "ms" in row:
            rate = f"{row['tflops']:.0f}TF" if record.get("flops") else f"{row['gbs']:.0f}GB/s"
            parts.append(f"{name} {row['ms']:.4f} {rate} +-{100 * row['spread']:.1f}%")
        if "failed" in row:
            parts.append(f"{name} FAILED {row['failed']}")
        elif "ms" not in row:
            parts.append(f"{name} is correct, error {row.get('error', 0):.1e}")
    took = f" ({record['took_s']:.1f} s)" if "took_s" in record else ""
    return f"{record['key']}: " + ("; ".join(parts) or record.get("failed", "nothing ran")) + took


def best(rows, ours):
    """(name, ms) of the fastest correct contender, of ours or of the peers."""
    timed = [
        (r["ms"], n)
        for n, r in rows.items()
        if r["ours"] == ours and "failed" not in r and "ms" in r
    ]
    return min(timed)[::-1] if timed else (None, None)


def rounds_of(row):
    """round -> time"""
    return dict(zip(row.get("rounds", [0]), row.get("rounds_ms", [row["ms"]])))


def ratio_of_rounds(peer, own):
    """The median ratio over the rounds that have both; if none has both, the ratio of the medians."""
    theirs, ours = rounds_of(peer), rounds_of(own)
    both = [theirs[r] / ours[r] for r in theirs if r in ours]
    return statistics.median(both) if both else peer["ms"] / own["ms"]


def ratios(record):
    """peer -> (its time / ours, the median of the rounds; spread of both)."""
    name, _ = best(record["rows"], True)
    if name is None:
        return {}
    own = record["rows"][name]
    return {
        n: (
            ratio_of_rounds(r, own),
            own["spread"] + r["spread"],
        )
        for n, r in record["rows"].items()
        if not r["ours"] and "ms" in r and "failed" not in r
    }


def roof_of(records):
    """GB/s of the copy; 0 if not measured."""
    for r in records:
        if r["key"].startswith("roof"):
            return r["rows"].get("copy", {}).get("gbs", 0)
    return 0


def table(records):
    """A line for each case with our time, the peers' ratios, and remarks; the worst first."""
    roof = roof_of(records)
    lines = []
    for record in records:
        if record["key"].startswith("roof"):
            continue
        name, ms = best(record["rows"], True)
        found = ratios(record)
        worst = min((v for v, _ in found.values()), default=0.0)
        cells = [f"{peer} {v:.2f} (+-{100 * s:.0f} %)" for peer, (v, s) in sorted(found.items())]
        row = record["rows"].get(name, {})
        ours = f"{name} {ms:.4f} ms {rate(record, row, roof)}" if name else "-"
        remarks = remarks_of(record, row, found, roof)
        lines.append((worst, f"| {record['key']} | {ours} | {', '.join(cells)} | {remarks} |"))
    lines.sort(key=lambda line: line[0])
    head = ["| case | ours | peer's time / ours | remarks |", "|---|---|---|---|"]
    return head + [text for _, text in lines]


def rate(record, row, roof):
    if record["flops"]:
        return f"{row['tflops']:.0f} TFLOP/s"
    share = f", {100 * row['gbs'] / roof:.0f} % of the copy" if roof else ""
    return f"{row['gbs']:.0f} GB/s{share}"


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def groups_by_name():
    import cases

    out = {}
    for group, named in cases.groups().items():
        for name, _ in named:
            out.setdefault(name, []).append(group)
    return out


def geomeans(records, groups_of):
    """A line for each group: the geometric means of its ratios, the fastest peers first."""
    roof, groups = roof_of(records), {}
    for r in records:
        for group in groups_of[r["name"]]:
            groups.setdefault(group, []).append(r)
    lines = ["| group | cases | peer's time / ours, geometric mean | of the copy |", "|---|---|---|---|"]
    for group, members in groups.items():
        peers, shares = {}, []
        for r in members:
            found = {peer: v for peer, (v, _) in ratios(r).items()}
            for peer, v in found.items() | ({("fastest", min(found.values()))} if found else set()):
                peers.setdefault(peer, []).append(v)
            name, _ = best(r["rows"], True)
            if name and roof and not r["flops"]:
                shares.append(r["rows"][name]["gbs"] / roof)
        if not peers:
            continue
        order = sorted(peers, key=lambda p: (p != "fastest", p))
        cells = ", ".join(f"{p} {geomean(peers[p]):.3f} ({len(peers[p])})" for p in order)
        share = f"{100 * geomean(shares):.0f} %" if shares else ""
        lines.append(f"| {group} | {len(members)} | {cells} | {share} |")
    return lines


def remarks_of(record, row, found, roof):
    out = [record["failed"]] if "failed" in record else []
    out += [f"{n}: {r['failed']}" for n, r in record["rows"].items() if "failed" in r]
    if roof and row.get("gbs", 0) > 1.02 * roof and not record["flops"]:
        out.append("faster than a copy: wrong?")
    if any(v > 1.5 and p.startswith(("cublas", "cudnn")) for p, (v, _) in found.items()):
        out.append("far above a library: check it")
    for n, r in record["rows"].items():
        if r.get("host_us", 0) > HOST_AHEAD_US:
            out.append(f"{n}: the host took {r['host_us']:.0f} us")
    return "; ".join(out).replace("|", "\\|")


def failures(records):
    """Keys of the cases that failed, or in which a contender of ours failed."""
    return [
        r["key"]
        for r in records
        if "failed" in r or any("failed" in row for row in r["rows"].values() if row["ours"])
    ]


def summary(records):
    failed = failures(records)
    measured = [r for r in records if ratios(r)]
    return f"{len(measured)} cases compared, {len(failed)} failed" + (
        ": " + ", ".join(failed) if failed else ""
    )


def main():
    parser = options()
    o = parser.parse_args()
    if o.seconds is None:
        o.seconds = 1.0 if o.quick else 3.0
    if o.worker:
        return work(o)
    names = chosen(o)
    if o.list:
        print("\n".join(names))
        return 0
    about, records = measure_all(o, turns(names, o.rounds), sys.argv[1:])
    about["clocks after"] = clocks() if o.device == "cuda" else ""
    save(o, about, records)
    lines = header(about) + ["", *table(records), "", *geomeans(records, groups_by_name())]
    pathlib.Path(o.out, "gpu.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    print(summary(records))
    return 1 if failures(records) else 0


if __name__ == "__main__":
    sys.exit(main())
