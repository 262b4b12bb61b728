#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks std/comm.teg over the GPUs of one host, with a process for each, against NumPy in f64.

    tests/gpu/ranks.py [--ranks 2] [--plans ',plan=3 chunks=4'] [--launches 1000] [--only ag_gemm]
    tests/gpu/ranks.py --target sim:sm_90a            ranks of the simulator, smaller, without graphs
    tests/gpu/ranks.py --skip                         77 if each rank would not have a GPU of its own
    TG_COMM_MAP=0 tests/gpu/ranks.py --comm nvshmem --plans ',plan=3 chunks=4'
                                                      as on several hosts: some kernels are refused

Every kernel runs with every plan, with ragged extents and outputs poisoned before each run; experts and a
cache are spread over ranks. Then come many launches on changing data, with late ranks, whose results must
have equal bits each time; a graph that is replayed; a rank that dies; a trace of all ranks. Needs NumPy,
and PyTorch on GPUs. If there are fewer GPUs than ranks, ranks share them: their kernels take turns, which
is correct but slow.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

import ranks_memory
import ranks_trace

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FAR = os.environ.get("TG_COMM_MAP") == "0"
REFUSED = "access other ranks' memory in place"  # without mapped memory
LIMITS = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3}


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--plans", default=None,
                   help="settings, with commas; default: what is chosen, and each plan (two without GPUs)")
    p.add_argument("--launches", type=int, default=0, help="of a stress test (1000; 100 without GPUs)")
    p.add_argument("--only", default="", help="checks whose name holds this text")
    p.add_argument("--seconds", type=float, default=120, help="after which no check is begun")
    p.add_argument("--comm", default="processes", help="the engine, of which ranks are processes: or nvshmem")
    p.add_argument("--target", default="", help="without GPUs: cpu, sim:sm_90a, ...")
    p.add_argument("--skip", action="store_true", help="end with 77 where there are fewer GPUs than ranks, or no PyTorch")
    p.add_argument("--times", action="store_true", help="print what each check took")
    o = p.parse_args()
    o.launches = o.launches or (100 if o.target else 1000)
    if o.plans is None:
        every = ",plan=1,plan=2,plan=3 chunks=4,plan=4 chunks=4,plan=5,plan=6,plan=7"
        o.plans = ",plan=4 chunks=4,plan=7" if o.target else every
    return o


class Rank:
    def __init__(self, rank, o, meet, timeout_ms=20000):
        sys.path.insert(0, str(ROOT / "python"))
        import tegula

        self.tegula, self.o, self.rank, self.ranks = tegula, o, rank, o.ranks
        self.memory = (ranks_memory.Host if o.target else ranks_memory.Gpu)(tegula, rank)
        heap = 64 << 20 if o.target else 1 << 30
        self.comm = tegula.Comm(o.comm, meet, rank, o.ranks, self.memory.device, heap=heap, timeout_ms=timeout_ms)
        self.target = None if o.target in ("", "cpu") else o.target
        self.modules, self.failures, self.runs, self.held = {}, [], 0, []
        self.bars = {}  # promised launches: [number, wrong ones]

    def kernel(self, name, plan=""):
        file = "std/comm.teg" if name in STANDARD else ROOT / "tests/run/comm.teg"
        if (file, plan) not in self.modules:
            self.modules[file, plan] = self.tegula.load(file, settings=plan or None, target=self.target)
        return self.modules[file, plan][name]

    def everywhere(self, shape, seed, dtype="f32", scale=1.0):
        """The data of all ranks, [W, ...], rounded to dtype. Every rank makes all of it."""
        x = np.random.default_rng(seed).standard_normal((self.ranks, *shape)) * scale
        return ranks_memory.decode(ranks_memory.encode(x, dtype), dtype)

    def put(self, values, dtype="f32"):
        return Array(self.memory, self.memory.put(values, dtype), dtype)

    def empty(self, shape, dtype="f32"):
        x = self.put(np.zeros(shape), dtype)
        return x.poison()

    def symmetric(self, shape, dtype="f32", values=None):
        """A symmetric tensor that is freed after the check."""
        s = self.comm.empty(shape, dtype)
        self.held.append(s)
        x = Array(self.memory, self.memory.shard(s, dtype), dtype)
        return x.poison() if values is None else x.fill(self.put(values, dtype))

    def launch(self, name, plan, *arguments):
        self.kernel(name, plan)(*(a.argument if isinstance(a, Array) else a for a in arguments))

    def free(self):
        self.memory.settle()
        for s in self.held:
            s.free()
        self.held = []

    def expect(self, what, got, want):
        """Compares an array with the expectation, within the rounding of its type."""
        found = got.read()
        error = np.linalg.norm(found - want) / max(np.linalg.norm(want), 1e-30)
        self.note(bool(np.isfinite(found).all()) and error <= LIMITS[got.dtype], f"{what}: relative error {error:.1e}")

    def expect_same(self, what, got, want):
        wrong = int((got.read() != want).sum())
        self.note(wrong == 0, f"{what}: {wrong} of {np.size(want)} differ")

    def bar(self, name, launches, wrong):
        row = self.bars.setdefault(name, [0, 0])
        row[0] += launches
        row[1] += wrong

    def note(self, good, text):
        self.runs += 1
        if not good:
            self.failures.append(text)
            print(f"FAIL rank {self.rank}: {text}", flush=True)


class Array:
    """The tensor of one element type, where the kernels run."""

    def __init__(self, memory, x, dtype):
        self.memory, self.x, self.dtype = memory, x, dtype

    @property
    def argument(self):
        return self.memory.argument(self.x, self.dtype)

    def read(self):
        self.memory.settle()
        return self.memory.get(self.x, self.dtype)

    def fill(self, other):
        self.memory.fill(self.x, other.x)
        return self

    def poison(self):
        self.memory.poison(self.x, self.dtype)
        return self

    def copy(self):
        return Array(self.memory, self.memory.copy(self.x), self.dtype)


# ---- collectives and products --------------------------------------------------------------------
# Each: (rank, plan, dtype, extents) -> launches the kernel on poisoned results, and compares.


def all_gather(r, plan, dtype, n, k):
    every = r.everywhere((n, k), 1, dtype)
    c = r.empty((r.ranks, n, k), dtype)
    r.launch("all_gather", plan, r.symmetric((n, k), dtype, every[r.rank]), c)
    r.expect_same(f"all_gather {plan} {dtype} {n}x{k}", c, every)


def in_order(parts, dtype):
    """A sum in the order of ranks, in f32, rounded once: bits must be equal."""
    sum_ = parts[0].astype(np.float32)
    for part in parts[1:]:
        sum_ = sum_ + part.astype(np.float32)
    return ranks_memory.decode(ranks_memory.encode(sum_, dtype), dtype)


def summed(name):
    def check(r, plan, dtype, n, k):
        part = name == "reduce_scatter"
        every = r.everywhere((r.ranks, n, k) if part else (n, k), 2, dtype)
        c = r.empty((n, k), dtype)
        r.launch(name, plan, r.symmetric(every.shape[1:], dtype, every[r.rank]), c)
        want = in_order(every[:, r.rank] if part else every, dtype)
        expect = r.expect if "plan=5" in plan else r.expect_same  # atomics add in any order
        expect(f"{name} {plan} {dtype} {n}x{k}", c, want)

    return check


def all_to_all(r, plan, dtype, n, k):
    every = r.everywhere((r.ranks, n, k), 3, dtype)
    c = r.empty((r.ranks, n, k), dtype)
    r.launch("all_to_all", plan, r.symmetric(every.shape[1:], dtype, every[r.rank]), c)
    r.expect_same(f"all_to_all {plan} {dtype} {n}x{k}", c, every[:, r.rank])


def ag_gemm(r, plan, dtype, m, n, k):
    every = r.everywhere((m, k), 4, dtype)
    b = r.everywhere((k, n), 5, dtype, k**-0.5)[r.rank]
    c = r.empty((r.ranks, m, n), dtype)
    r.launch("ag_gemm", plan, r.symmetric((m, k), dtype, every[r.rank]), r.put(b, dtype), c)
    r.expect(f"ag_gemm {plan} {dtype} {m}x{n}x{k}", c, every @ b)


def product_sum(name):
    def check(r, plan, dtype, m, n, k):
        a = r.everywhere((m if name == "gemm_ar" else r.ranks * m, k), 6, dtype)
        b = r.everywhere((k, n), 7, dtype, k**-0.5)
        c = r.symmetric((m, n), dtype)
        r.comm.barrier()
        r.launch(name, plan, r.put(a[r.rank], dtype), r.put(b[r.rank], dtype), c)
        want = (a @ b).sum(0)
        if name == "gemm_rs":
            want = want[r.rank * m : (r.rank + 1) * m]
        r.expect(f"{name} {plan} {dtype} {m}x{n}x{k}", c, want)

    return check


# ---- experts, caches, rows that differ in number -------------------------------------------------


def all_to_all_uneven(r, plan, dtype, most, k):
    w = r.ranks
    counts = np.random.default_rng(8).integers(0, most, (w, w))
    counts[0, 0] = 0
    every = r.everywhere((counts.sum(1).max() + 1, k), 9, dtype)
    rows = counts[:, r.rank]
    c, off = r.empty((rows.sum() + 2, k), dtype), r.empty((w + 1,), "i32")
    r.launch("all_to_all_uneven", plan, r.symmetric(every.shape[1:], dtype, every[r.rank]),
             r.symmetric((w,), "i32", counts[r.rank]), c, off)  # fmt: skip
    want = [every[s, counts[s, : r.rank].sum() :][: rows[s]] for s in range(w)]
    r.expect_same(f"off of all_to_all_uneven {plan} {dtype}", off, np.concatenate([[0], rows.cumsum()]))
    wrong = (c.read()[: rows.sum()] != np.concatenate(want)).sum()
    r.note(wrong == 0, f"all_to_all_uneven {plan} {dtype} {most}x{k}: {wrong} differ")


def moe(r, plan, dtype, m, choices, each, k):
    """Dispatch, experts that multiply by their number, combine: each row comes back, weighted."""
    w = r.ranks
    g = np.random.default_rng(10)
    experts = g.integers(-1, w * each, (w, m, choices))
    weights = g.uniform(size=(w, m, choices)).astype(np.float32).astype(np.float64)
    x = r.everywhere((m, k), 11, dtype)
    recv, counts = r.symmetric((w * m * choices, k), dtype), r.symmetric((w * each,), "i32")
    place, off = r.empty((m, choices), "i32"), r.empty((each + 1,), "i32")
    which = r.put(experts[r.rank], "i32")
    r.comm.barrier()
    r.launch("moe_dispatch", plan, r.put(x[r.rank], dtype), which, counts, recv, place, off)
    begin, rows = off.read(), recv.read()
    mine = [(e, q, i) for e in range(r.rank * each, (r.rank + 1) * each) for q in range(w)
            for i in range(m) for c in range(choices) if experts[q, i, c] == e]  # fmt: skip
    want = np.array([x[q, i] for _, q, i in mine]).reshape(-1, k)
    good = begin[-1] == len(mine) and (rows[: len(mine)] == want).all()
    r.note(bool(good), f"moe_dispatch {plan} {dtype} {m}x{choices}: rows differ")
    done = np.zeros(rows.shape)
    for l in range(each):
        done[begin[l] : begin[l + 1]] = rows[begin[l] : begin[l + 1]] * (r.rank * each + l + 1)
    y, c = r.symmetric(rows.shape, dtype, done), r.empty((m, k), dtype)
    r.comm.barrier()
    r.launch("moe_combine", plan, y, which, place, r.put(weights[r.rank]), c, each)
    factor = (weights * (experts + 1) * (experts >= 0)).sum(2)[r.rank]
    r.expect(f"moe_combine {plan} {dtype} {m}x{choices}", c, factor[:, None] * x[r.rank])


def flash_decode(r, plan, dtype, b, h, g, n, d):
    w = r.ranks
    q = r.everywhere((b, h, d), 12, dtype)[0]
    k, v = (r.everywhere((b, g, n, d), seed, dtype) for seed in (13, 14))
    lens = np.random.default_rng(15).integers(0, n + 1, (w, b))
    lens[-1, 0], lens[0] = 0, n
    part, stat, o = r.symmetric((b, h, d)), r.symmetric((b, h, 2)), r.empty((b, h, d), dtype)
    r.launch("flash_decode", plan, r.put(q, dtype), r.put(k[r.rank], dtype), r.put(v[r.rank], dtype),
             r.put(lens[r.rank], "i32"), part, stat, o, 0.25)  # fmt: skip
    want = np.zeros((b, h, d))
    for i in range(b):
        for j in range(h):
            at = j // (h // g)
            keys, values = (np.concatenate([t[s, i, at, : lens[s, i]] for s in range(w)]) for t in (k, v))
            p = keys @ q[i, j] * 0.25
            p = np.exp(p - p.max())
            want[i, j] = p @ values / p.sum()
    r.expect(f"flash_decode {plan} {dtype} {b}x{h}x{n}", o, want)


def turns(r, plan, dtype, n, steps):
    """A sum over ranks in each iteration of a host loop, with a growing number of programs (f32 only)."""
    every = r.everywhere((n,), 16)
    c, y = r.symmetric((n,)), r.empty((n,))
    r.comm.barrier()
    r.launch("grows", plan, r.put(every[r.rank]), c, y, steps)
    want, sums = every.copy(), np.zeros(n)
    for i in range(steps):
        m = 16 * (i + 1)
        sums[:m] = (want[:, :m] + i % 3).sum(0)
        want[:, :m] = sums[:m] / r.ranks
    r.expect(f"turns {plan} {n}x{steps}", c, sums)
    r.expect(f"turns {plan} {n}x{steps}", y, want[r.rank])


TRANSFERS = [(1, 8), (77, 130), (512, 1024)]
PRODUCTS = [(1, 64, 64), (77, 192, 128), (512, 512, 1024), (1023, 256, 512)]
KERNELS = {
    "all_gather": (all_gather, TRANSFERS),
    "reduce_scatter": (summed("reduce_scatter"), TRANSFERS),
    "all_reduce": (summed("all_reduce"), TRANSFERS),
    "all_reduce_two_shot": (summed("all_reduce_two_shot"), TRANSFERS),
    "all_to_all": (all_to_all, TRANSFERS),
    "all_to_all_uneven": (all_to_all_uneven, [(40, 130), (300, 512)]),
    "ag_gemm": (ag_gemm, PRODUCTS),
    "gemm_rs": (product_sum("gemm_rs"), PRODUCTS),
    "gemm_ar": (product_sum("gemm_ar"), PRODUCTS),
    "moe": (moe, [(37, 2, 3, 300), (512, 4, 8, 1024)]),
    "flash_decode": (flash_decode, [(2, 4, 2, 150, 16), (4, 8, 2, 2048, 128)]),
    "turns": (turns, [(90, 6), (1500, 100)]),
}
SUMS = ("reduce_scatter", "all_reduce", "all_reduce_two_shot", "gemm_rs", "gemm_ar")
STANDARD = {*KERNELS, "moe_dispatch", "moe_combine"} - {"turns"}


def kernels(r, plan, name):
    """bf16 with all extents, f32 with two. Without a GPU the extents are small."""
    check, extents = KERNELS[name]
    extents = [e for e in extents if not r.o.target or max(e) <= 300]
    for dtype, some in ("bf16", extents), ("f32", extents[:2]):
        for e in some:
            check(r, plan, dtype, *e)
            r.free()


# ---- many launches -------------------------------------------------------------------------------


def problem(r, name, sets):
    """(the output of a run, the inputs of each set, arguments, result)."""
    m, n, k = (70, 96, 64) if r.o.target else (383, 512, 512)
    b = r.put(r.everywhere((k, n), 5, "bf16")[r.rank], "bf16")
    rows = r.ranks * m if name == "gemm_rs" else m
    data = [r.put(r.everywhere((rows, k), 10 + i, "bf16")[r.rank], "bf16") for i in range(sets)]
    if name == "ag_gemm":
        a, c = r.symmetric((m, k), "bf16"), r.empty((r.ranks, m, n), "bf16")
    else:
        a, c = r.empty((rows, k), "bf16"), r.symmetric((m, n), "bf16")
    return a, data, (a, b, c), c


def stress(r, plan, name):
    """Inputs change from launch to launch, results are poisoned, ranks come late. The bits of a set must
    equal those of its first launch."""
    sets = 4
    a, data, arguments, c = problem(r, name, sets)
    first, wrong = [], r.memory.counter()
    for i in range(r.o.launches):
        a.fill(data[i % sets])
        c.poison()
        if (i * 7 + r.rank * 5) % 11 == 0:
            r.memory.late(i % 50)
        r.launch(name, plan, *arguments)
        if i < sets:
            first.append(c.copy())
        r.memory.count(wrong, c.x, first[i % sets].x)
    r.memory.settle()
    r.note(int(wrong) == 0, f"stress {name} {plan}: {int(wrong)} of {r.o.launches} differ")
    r.bar("changing inputs, poisoned results, ranks late: the bits of each input's first launch", r.o.launches, int(wrong))
    if r.memory.graphs:
        replay(r, plan, name, a, data, arguments, c, first)
    r.free()


def replay(r, plan, name, a, data, arguments, c, first):
    """Captures two launches on different data in a graph."""
    torch = r.memory.torch
    results = [c.copy() for _ in range(2)]
    r.memory.settle()
    r.comm.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for i in range(2):
            a.fill(data[i])
            c.poison()
            r.launch(name, plan, *arguments)
            results[i].fill(c)
    wrong = r.memory.counter()
    for _ in range(100):
        graph.replay()
        for i in range(2):
            r.memory.count(wrong, results[i].x, first[i].x)
    r.tegula.synchronize(r.memory.device, torch.cuda.current_stream())  # raises the error of a replay
    r.note(int(wrong) == 0, f"graph {name} {plan}: {int(wrong)} of 200 results differ")
    r.bar("graphs of two launches, replayed: the bits of launches", 200, int(wrong))


def sums(r, name):
    """(arguments, result) of a sum over ranks in bf16, with ragged extents."""
    n, k = (77, 130) if r.o.target else (383, 1000)
    own = (r.ranks, n, k) if name == "reduce_scatter" else (n, k)
    if name.startswith("gemm"):
        _, data, (a, b, c), _ = problem(r, name, 1)
        return (a.fill(data[0]), b, c), c
    c = r.empty((n, k), "bf16")
    return (r.symmetric(own, "bf16", r.everywhere(own, 20, "bf16")[r.rank]), c), c


def repeat(r, plan, name):
    """Repeats one launch, in some with one very late rank in turn: bits must be equal."""
    arguments, c = sums(r, name)
    runs, slow = (20, 4) if r.o.target else (100, 2 * r.ranks)
    wrong, after = r.memory.counter(), r.memory.counter()
    r.launch(name, plan, *arguments)
    first = c.copy()
    for i in range(runs + slow):
        c.poison()
        if i >= runs and i % r.ranks == r.rank:
            r.memory.late(2000)
        r.launch(name, plan, *arguments)
        r.memory.count(wrong if i < runs else after, c.x, first.x)
    r.memory.settle()
    r.note(int(wrong) == 0, f"repeat {name} {plan}: {int(wrong)} of {runs} differ")
    r.note(int(after) == 0, f"repeat {name} {plan}: {int(after)} of {slow} with a straggler differ")
    r.bar("sums, the same launch again: the same bits", runs, int(wrong))
    r.bar("sums, a rank 2 ms late: the same bits", slow, int(after))
    r.free()


# ---- a rank that dies ----------------------------------------------------------------------------


def dying(rank, o, meet):
    """The last rank is killed while others wait for it. They must report it within two seconds."""
    r = Rank(rank, o, meet, timeout_ms=30000)
    a, b, c = r.symmetric((64, 64)), r.empty((64, 64)), r.empty((o.ranks, 64, 64))
    r.launch("ag_gemm", "", a, b, c)
    r.memory.settle()
    r.comm.barrier()
    if rank == o.ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started, text = time.monotonic(), ""
    try:
        r.launch("ag_gemm", "", a, b, c)
        if r.memory.graphs:
            r.tegula.synchronize(r.memory.device, r.memory.torch.cuda.current_stream())
    except r.tegula.Error as error:
        text = str(error)
    took = time.monotonic() - started
    good = took < 4 and f"rank {o.ranks - 1}" in text
    if not good:
        print(f"FAIL rank {rank}: a rank died; after {took:.1f} s: {text or 'nothing'}", flush=True)
    os._exit(0 if good else 1)


# ---- a trace ---------------------------------------------------------------------------------------


def profiled(o, meet):
    """Runs `tegula profile` over ranks that are processes. Returns the faults in its output and trace."""
    places = [ROOT / "bin/tegula", ROOT / "build/bin/tegula"]
    tegula = next((p for p in places if p.is_file()), None)
    if not tegula:
        return ["the command tegula is neither of " + ", ".join(map(str, places))]
    m = 128 if o.target else 8192
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace.json")
        command = [tegula, "profile", "std/comm.teg", "-k", "ag_gemm", "--comm", o.comm, "--type", "T=f16",
                   "--target", o.target or "cuda", "-r", "3", "-o", trace, "--set", "plan=pull", "--set", "chunks=2",
                   "-a", f"a=randn({o.ranks},{m},64)", "-a", "b=randn(64,256)"]  # fmt: skip
        ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=os.environ | {"TG_RANK": str(i), "TG_RANKS": str(o.ranks), "TG_MEET": meet})
                 for i in range(o.ranks)]  # fmt: skip
        said = [p.communicate()[0] for p in ranks]
        if any(p.returncode for p in ranks):
            return said
        print(said[0], end="", flush=True)
        wrong = [] if "transfers alone" in said[0] else ["no word of transfers alone"]
        with open(trace) as f:
            return wrong + ranks_trace.check([e for e in json.load(f)["traceEvents"] if e["ph"] == "X"], o.ranks, 2)


# ---- all of it -----------------------------------------------------------------------------------


def checks(r):
    """Runs all requested checks, until the ranks together have no time left."""
    o, started = r.o, time.monotonic()
    s, late = r.comm.empty((1,), "f32"), r.empty((1,))
    vote = Array(r.memory, r.memory.shard(s, "f32"), "f32")
    for plan in o.plans.split(","):
        some = [(kernels, n) for n in KERNELS] + [(stress, "ag_gemm")]
        if "plan=5" not in plan:  # this plan sums in any order
            some += [(stress, "gemm_rs")] + [(repeat, n) for n in SUMS]
        for check, name in some:
            if o.only not in f"{check.__name__} {name}":
                continue
            vote.fill(r.put([time.monotonic() - started]))
            r.launch("all_reduce", "", vote, late)
            if late.read()[0] > o.seconds * o.ranks:
                return r.note(False, "out of time")
            began = time.monotonic()
            try:
                check(r, plan, name)
            except Exception as error:
                if FAR and REFUSED in str(error):
                    if r.rank == 0:
                        print(f"refused: {check.__name__} {name} {plan}", flush=True)
                    r.free()
                    continue
                r.note(False, f"{check.__name__} {name} {plan}: {type(error).__name__}: {error}"[:500])
            if o.times and r.rank == 0:
                print(f"{time.monotonic() - began:6.2f} s  {check.__name__} {name} {plan}", flush=True)
    s.free()


def work(rank, o, meet):
    r = Rank(rank, o, meet)
    checks(r)
    r.comm.close()
    if rank == 0:
        for name, (launches, wrong) in r.bars.items():
            print(f"{launches:6} launches, {wrong} wrong: {name}")
        print(f"{r.runs - len(r.failures)} of {r.runs} runs passed", flush=True)
    sys.exit(1 if r.failures else 0)


def together(target, o, meet):
    """Exit codes of all ranks, each in a process of its own."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=target, args=(i, o, meet)) for i in range(o.ranks)]
    for p in ranks:
        p.start()
    for p in ranks:
        p.join()
    return [p.exitcode for p in ranks]


def count_gpus():
    """The number of GPUs, by the driver that the runtime would load."""
    try:
        driver, count = ctypes.CDLL(os.environ.get("TG_CUDA_LIBRARY") or "libcuda.so.1"), ctypes.c_int(0)
    except OSError:
        return 0
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def reason_to_skip(o):
    gpus = count_gpus()
    if gpus < o.ranks:
        return f"{gpus} GPU{'s' * (gpus != 1)}; {o.ranks} ranks need one each"
    return None if importlib.util.find_spec("torch") else "PyTorch is not there"


def main():
    o = options()
    why = reason_to_skip(o) if o.skip else None
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    os.environ.setdefault("TG_TUNE", "off")
    bundled = ROOT / "lib/libtegula.so"
    if bundled.is_file():
        os.environ.setdefault("TEGULA_LIBRARY", str(bundled))
    meet = f"/tmp/tegula-ranks-{os.getpid()}"
    codes = together(work, o, meet)
    if not o.only or "dying" in o.only:
        codes += together(dying, o, meet + "-dying")[:-1]
    if not o.only or "profile" in o.only:
        wrong = profiled(o, meet + "-profile")
        codes.append(1 if wrong else 0)
        print("\n".join(f"FAIL profile: {text}" for text in wrong), flush=True)
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    main()
