#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the cost of a background search to the program that it tunes.

    bench/gpu/background.py [--seconds 40] [--budget-ms 150] [--share 1] [--device cpu]

A product and a softmax run in one process with TG_TUNE=off, then in another one with TG_TUNE=background
and a store of its own. Each alternates between a second at a steady rate, with a wait for each launch, and
a second without a pause. The script prints the time of a launch with its wait (us), the launches a second
without a pause, and the share of them that the search costs: before, during and after the search. It also
prints when the found setting was taken. A whole search takes minutes: --budget-ms is TG_TUNE_BUDGET_MS of
each kernel.

Needs PyTorch with CUDA, and libtegula.so where the package in python/ finds it. --device cpu needs only
NumPy and tries the script.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

PHASES = ("before", "during", "behind")
QUEUE = 2  # batches that the device has queued


# ---- launched kernels ----------------------------------------------------------------------------


class Gpu:
    def __init__(self):
        import torch

        self.torch, self.batch = torch, 16

    def tensor(self, *shape):
        return self.torch.randn(*shape, device="cuda").half()

    def wait(self):
        self.torch.cuda.synchronize()

    def mark(self):
        event = self.torch.cuda.Event()
        event.record()
        return event.synchronize


class Cpu:
    batch = 1

    def tensor(self, *shape):
        import numpy

        return numpy.random.rand(*(max(64, n // 8) for n in shape)).astype("f4")

    def wait(self):
        pass

    def mark(self):
        return lambda: None


class Launch:
    def __init__(self, name, kernel, args):
        self.name, self.kernel, self.args = name, kernel, args
        self.took = {p: [] for p in PHASES}  # us
        self.rates = {p: [] for p in PHASES}  # a second
        self.decision = self.decided = None

    def __call__(self):
        self.kernel(*self.args)


def make_launches(tegula, device):
    product, rows = tegula.load("std/matmul.teg"), tegula.load("std/softmax.teg")
    a, b, c = device.tensor(512, 8192), device.tensor(8192, 512), device.tensor(512, 512)
    x, y = device.tensor(4096, 8192), device.tensor(4096, 8192)
    return [Launch("matmul 512x512x8192", product.matmul, (a, b, c)), Launch("softmax 4096x8192", rows.softmax, (x, y))]


# ---- the searching processes ---------------------------------------------------------------------


class Children:
    """Child processes of this one, and the processor time that they used."""

    def __init__(self):
        self.seconds, self.first, self.last = {}, None, None

    def look(self, now):
        tick, own, found = os.sysconf("SC_CLK_TCK"), os.getpid(), False
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                    words = f.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[1]) == own and words[0] != "Z":
                found = True
                self.seconds[pid] = (int(words[11]) + int(words[12])) / tick
        if found:
            self.first = self.first or now
            self.last = now
        return found


# ---- one process ---------------------------------------------------------------------------------


def steady(launches, device, seconds, period, phase):
    end = time.perf_counter() + seconds
    while (now := time.perf_counter()) < end:
        for one in launches:
            start = time.perf_counter_ns()
            one()
            device.wait()
            took = (time.perf_counter_ns() - start) / 1e3
            one.took[phase(one)].append(took)
        time.sleep(max(0, period - (time.perf_counter() - now)))


def without_a_pause(one, device, seconds, phase):
    device.wait()
    start, n, queue = time.perf_counter(), 0, []
    while time.perf_counter() < start + seconds:
        for _ in range(device.batch):
            one()
        n += device.batch
        queue.append(device.mark())
        if len(queue) > QUEUE:
            queue.pop(0)()
    device.wait()
    one.rates[phase].append(n / (time.perf_counter() - start))


def child(o):
    import tegula

    device, said = Cpu() if o.device == "cpu" else Gpu(), []
    start = time.perf_counter()
    with tegula.Context(log=lambda line: said.append((time.perf_counter() - start, line))):
        launches = make_launches(tegula, device)
        for one in launches:
            one()
            device.wait()
            one.decision = one.kernel.decision(*one.args)
        children, searching = Children(), False
        gc.disable()

        def phase(one):
            if one.decided or (children.first and not searching):
                return "behind"
            return "during" if searching else "before"

        def look():
            nonlocal searching
            now = time.perf_counter() - start
            searching = children.look(now) or bool(children.last and now - children.last < 1.5)
            for one in launches:
                if not one.decided and one.kernel.decision(*one.args) != one.decision:
                    one.decided = now

        while time.perf_counter() - start < o.seconds:
            look()
            steady(launches, device, 1, o.period, phase)
            for one in launches:
                look()
                was = phase(one)
                without_a_pause(one, device, 0.5, was)
        print(
            json.dumps(
                {
                    "launches": {
                        x.name: {"took": x.took, "rates": x.rates, "decided": x.decided, "now": x.kernel.decision(*x.args)}
                        for x in launches
                    },
                    "first": children.first,
                    "last": children.last,
                    "cpu": sum(children.seconds.values()),
                    "said": said,
                }
            )
        )


# ---- both ----------------------------------------------------------------------------------------


def run(o, mode, cache):
    env = dict(os.environ, TG_TUNE=mode, TG_CACHE=cache, TG_TUNE_BUDGET_MS=str(o.budget_ms))
    if o.share:
        env["TG_TUNE_SHARE"] = o.share
    seconds = o.seconds if mode == "background" else o.seconds / 4
    command = [sys.executable, os.path.abspath(__file__), "--child", "--seconds", str(seconds)]
    command += ["--device", o.device, "--period", str(o.period)]
    r = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(r.stdout.splitlines()[-1])


def at(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def show(name, off, on):
    """The first row is of the process without a search. The share compares runs of the same code."""
    print(f"{name}\n  {'':7} {'launches':>8} {'p50':>9} {'p99':>9} {'max':>9} us   {'a second':>9} {'+-':>6}   share")
    base = off["rates"]["before"] + on["rates"]["before"] + ([] if on["decided"] else on["rates"]["behind"])
    rows = [("off", off["took"]["before"], off["rates"]["before"])]
    rows += [(p, on["took"][p], on["rates"][p]) for p in PHASES]
    for what, took, rates in rows:
        if not took or not rates:
            print(f"  {what:7} nothing")
            continue
        spread = statistics.stdev(rates) / len(rates) ** 0.5 / statistics.mean(rates) if len(rates) > 1 else 0
        share = f"{100 * (1 - statistics.mean(rates) / statistics.mean(base)):6.2f} %" if what == "during" else ""
        print(
            f"  {what:7} {len(took):8} {at(took, 0.5):9.1f} {at(took, 0.99):9.1f} {max(took):9.1f}      "
            f"{statistics.mean(rates):9.0f} {100 * spread:5.2f}%  {share}"
        )


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=40)
    p.add_argument("--budget-ms", type=int, default=150)
    p.add_argument("--share", help="TG_TUNE_SHARE")
    p.add_argument("--period", type=float, default=0.002, help="seconds from launch to launch at the steady rate")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.child:
        return child(o)
    with tempfile.TemporaryDirectory() as cache:
        off, on = run(o, "off", os.path.join(cache, "off")), run(o, "background", os.path.join(cache, "on"))
    for name, one in on["launches"].items():
        show(name, off["launches"][name], one)
        when = f"taken at {one['decided']:.1f} s" if one["decided"] else "nothing else was taken"
        print(f"  {when}: {one['now']}")
    if not on["first"]:
        print("no search was seen")
        return 1
    print(
        f"searches from {on['first']:.1f} s to {on['last']:.1f} s of {o.seconds:.0f}; of a processor they took "
        f"{100 * on['cpu'] / max(on['last'] - on['first'], 1e-3):.0f} %"
    )
    for seconds, line in on["said"]:
        print(f"  {seconds:6.1f} s: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
