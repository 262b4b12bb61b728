#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""std/comm.teg over the GPUs of one host, a process each, against PyTorch in f64.

    tests/gpu/ranks.py [--ranks 2] [--plans ',plan=3 chunks=4'] [--launches 1000] [--only ag_gemm]

Every kernel with every plan: ragged extents, outputs poisoned before each run; then many launches on
changing data, with ranks that come late, whose results must have the same bits each time; a graph that
is replayed; a rank that dies. Needs PyTorch.
"""

import argparse
import math
import os
import pathlib
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMITS = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3}


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--plans", default=",plan=1,plan=2,plan=3 chunks=4,plan=4 chunks=4", help="settings, with commas")
    p.add_argument("--launches", type=int, default=1000)
    p.add_argument("--only", default="", help="checks whose name holds this text")
    p.add_argument("--seconds", type=float, default=120, help="after which no check is begun")
    return p.parse_args()


class Rank:
    def __init__(self, rank, o, meet, timeout_ms=20000):
        import torch

        sys.path.insert(0, str(ROOT / "python"))
        import tegula

        self.torch, self.tegula, self.o, self.rank, self.ranks = torch, tegula, o, rank, o.ranks
        torch.cuda.set_device(rank)
        self.device = torch.device("cuda", rank)
        self.comm = tegula.Comm(
            "processes", meet, rank, o.ranks, rank, heap=1 << 30, timeout_ms=timeout_ms
        )
        self.types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
        self.modules, self.failures, self.runs = {}, [], 0

    def kernel(self, name, plan):
        if plan not in self.modules:
            self.modules[plan] = self.tegula.load("std/comm.teg", settings=plan or None)
        return self.modules[plan][name]

    def everywhere(self, shape, seed, dtype="f32"):
        """What all ranks have, [W, ...]: every rank makes all of it."""
        g = self.torch.Generator(device="cpu").manual_seed(seed)
        x = self.torch.randn((self.ranks, *shape), generator=g)
        return x.to(self.types[dtype]).to(self.device)

    def empty(self, shape, dtype="f32"):
        x = self.torch.empty(shape, dtype=self.types[dtype], device=self.device)
        return x.fill_(math.nan)

    def symmetric(self, shape, dtype="f32"):
        """(what frees it, PyTorch's view)."""
        s = self.comm.empty(shape, dtype)
        return s, self.torch.as_tensor(s, device=self.device).view(self.types[dtype])

    def expect(self, what, got, want, dtype):
        error = (got.double() - want.double()).norm() / want.double().norm().clamp(min=1e-30)
        good = bool(got.isfinite().all()) and error.item() <= LIMITS[dtype]
        self.note(good, f"{what}: relative error {error.item():.1e}")

    def note(self, good, text):
        self.runs += 1
        if not good:
            self.failures.append(text)
            print(f"FAIL rank {self.rank}: {text}", flush=True)


# ---- kernels -------------------------------------------------------------------------------------
# Each: (rank, plan, dtype, extents) -> launches the kernel on poisoned results, and compares.


def all_gather(r, plan, dtype, n, k):
    every = r.everywhere((n, k), 1, dtype)
    s, a = r.symmetric((n, k), dtype)
    a.copy_(every[r.rank])
    c = r.empty((r.ranks, n, k), dtype)
    r.kernel("all_gather", plan)(a, c)
    r.expect(f"all_gather {plan} {dtype} {n}x{k}", c, every, dtype)
    return s


def summed(name):
    def check(r, plan, dtype, n, k):
        part = name == "reduce_scatter"
        shape = (r.ranks, n, k) if part else (n, k)
        every = r.everywhere(shape, 2, dtype)
        s, a = r.symmetric(shape, dtype)
        a.copy_(every[r.rank])
        c = r.empty((n, k), dtype)
        r.kernel(name, plan)(a, c)
        # Ranks in order, in f32, rounded once: the same bits.
        want = every[0].float()
        for q in range(1, r.ranks):
            want = want + every[q].float()
        want = (want[r.rank] if part else want).to(r.types[dtype])
        r.torch.cuda.synchronize()
        good = r.torch.equal(c, want)
        r.note(good, f"{name} {plan} {dtype} {n}x{k}: not the bits of a sum in order")
        return s

    return check


def all_to_all(r, plan, dtype, n, k):
    every = r.everywhere((r.ranks, n, k), 3, dtype)
    s, a = r.symmetric((r.ranks, n, k), dtype)
    a.copy_(every[r.rank])
    c = r.empty((r.ranks, n, k), dtype)
    r.kernel("all_to_all", plan)(a, c)
    r.expect(f"all_to_all {plan} {dtype} {n}x{k}", c, every[:, r.rank], dtype)
    return s


def ag_gemm(r, plan, dtype, m, n, k):
    every = r.everywhere((m, k), 4, dtype)
    b = r.everywhere((k, n), 5, dtype)[r.rank] * k**-0.5
    s, a = r.symmetric((m, k), dtype)
    a.copy_(every[r.rank])
    c = r.empty((r.ranks * m, n), dtype)
    r.kernel("ag_gemm", plan)(a, b, c.view(r.ranks, m, n))
    want = every.reshape(-1, k).double() @ b.double()
    r.expect(f"ag_gemm {plan} {dtype} {m}x{n}x{k}", c, want, dtype)
    return s


def product_sum(name):
    def check(r, plan, dtype, m, n, k):
        rows = m if name == "gemm_ar" else r.ranks * m
        a = r.everywhere((rows, k), 6, dtype)
        b = r.everywhere((k, n), 7, dtype) * k**-0.5
        s, c = r.symmetric((m, n), dtype)
        c.fill_(math.nan)
        r.torch.cuda.synchronize()
        r.comm.barrier()
        r.kernel(name, plan)(a[r.rank], b[r.rank], c)
        want = (a.double() @ b.double()).sum(0)
        if name == "gemm_rs":
            want = want[r.rank * m : (r.rank + 1) * m]
        r.expect(f"{name} {plan} {dtype} {m}x{n}x{k}", c, want, dtype)
        return s

    return check


TRANSFERS = [(1, 8), (77, 130), (512, 1024)]
PRODUCTS = [(1, 64, 64), (77, 192, 128), (512, 512, 1024), (1023, 256, 512)]
KERNELS = {
    "all_gather": (all_gather, TRANSFERS),
    "reduce_scatter": (summed("reduce_scatter"), TRANSFERS),
    "all_reduce": (summed("all_reduce"), TRANSFERS),
    "all_reduce_two_shot": (summed("all_reduce_two_shot"), TRANSFERS),
    "all_to_all": (all_to_all, TRANSFERS),
    "ag_gemm": (ag_gemm, PRODUCTS),
    "gemm_rs": (product_sum("gemm_rs"), PRODUCTS),
    "gemm_ar": (product_sum("gemm_ar"), PRODUCTS),
}


def kernels(r, plan, name):
    check, extents = KERNELS[name]
    for dtype in ("f32", "bf16"):
        for e in extents:
            s = check(r, plan, dtype, *e)
            r.torch.cuda.synchronize()
            s.free()


# ---- many launches -------------------------------------------------------------------------------


def problem(r, name, sets):
    """(run of set i, its result): inputs of several sets, of which the symmetric one is filled by
    the run itself."""
    m, n, k = 384, 512, 512
    if name == "ag_gemm":
        s, a = r.symmetric((m, k), "bf16")
        data = [r.everywhere((m, k), 10 + i, "bf16")[r.rank] for i in range(sets)]
        b = r.everywhere((k, n), 5, "bf16")[r.rank]
        c = r.empty((r.ranks, m, n), "bf16")
        return s, a, data, (a, b, c), c
    s, c = r.symmetric((m, n), "bf16")
    a = r.empty((r.ranks * m, k), "bf16")
    data = [r.everywhere(a.shape, 10 + i, "bf16")[r.rank] for i in range(sets)]
    b = r.everywhere((k, n), 5, "bf16")[r.rank]
    return s, a, data, (a, b, c), c


def stress(r, plan, name):
    """Inputs change from launch to launch, results are poisoned, ranks come late: the bits of a set
    are those of its first launch."""
    torch, sets = r.torch, 4
    s, a, data, arguments, c = problem(r, name, sets)
    kernel = r.kernel(name, plan)
    first, wrong = [], torch.zeros((), dtype=torch.int64, device=r.device)
    for i in range(r.o.launches):
        a.copy_(data[i % sets])
        c.fill_(math.nan)
        if (i * 7 + r.rank * 5) % 11 == 0:
            torch.cuda._sleep(2000 * (i % 50))
        kernel(*arguments)
        if i < sets:
            first.append(c.clone())
        wrong += (c != first[i % sets]).any()
    torch.cuda.synchronize()
    r.note(wrong.item() == 0, f"stress {name} {plan}: {wrong.item()} of {r.o.launches} differ")
    replay(r, plan, name, kernel, a, data, arguments, c, first)
    s.free()


def replay(r, plan, name, kernel, a, data, arguments, c, first):
    """Two launches on different data in a graph."""
    torch = r.torch
    results = [torch.empty_like(c) for _ in range(2)]
    torch.cuda.synchronize()
    r.comm.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for i in range(2):
            a.copy_(data[i])
            c.fill_(math.nan)
            kernel(*arguments)
            results[i].copy_(c)
    wrong = torch.zeros((), dtype=torch.int64, device=r.device)
    for _ in range(100):
        graph.replay()
        for i in range(2):
            wrong += (results[i] != first[i]).any()
    torch.cuda.synchronize()
    r.note(wrong.item() == 0, f"graph {name} {plan}: {wrong.item()} of 200 results differ")


# ---- a rank that dies ----------------------------------------------------------------------------


def dying(rank, o, meet):
    """The last rank is killed while others wait for it: they say so within two seconds."""
    r = Rank(rank, o, meet, timeout_ms=30000)
    s, a = r.symmetric((64, 64), "f32")
    b, c = r.empty((64, 64)), r.empty((o.ranks, 64, 64))
    r.kernel("ag_gemm", "")(a, b, c)
    r.torch.cuda.synchronize()
    r.comm.barrier()
    if rank == o.ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started, text = time.monotonic(), ""
    try:
        r.kernel("ag_gemm", "")(a, b, c)
        r.tegula.synchronize(rank, r.torch.cuda.current_stream())
    except r.tegula.Error as error:
        text = str(error)
    took = time.monotonic() - started
    good = took < 4 and f"rank {o.ranks - 1}" in text
    if not good:
        print(f"FAIL rank {rank}: a rank died; after {took:.1f} s: {text or 'nothing'}", flush=True)
    os._exit(0 if good else 1)


# ---- all of it -----------------------------------------------------------------------------------


def work(rank, o, meet):
    r = Rank(rank, o, meet)
    started = time.monotonic()
    late = r.torch.zeros(1, device=r.device)
    checks = [(kernels, n) for n in KERNELS] + [(stress, n) for n in ("ag_gemm", "gemm_rs")]
    s, vote = r.symmetric((1,), "f32")
    for plan in o.plans.split(","):
        for check, name in checks:
            if o.only not in f"{check.__name__} {name}":
                continue
            vote.fill_(time.monotonic() - started)
            r.kernel("all_reduce", "")(vote, late)
            if late.item() > o.seconds * o.ranks:
                r.note(False, "out of time")
                break
            try:
                check(r, plan, name)
            except Exception as error:
                r.note(False, f"{check.__name__} {name} {plan}: {type(error).__name__}: {error}"[:500])
    s.free()
    r.comm.close()
    if rank == 0:
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


def main():
    o = options()
    os.environ.setdefault("TG_TUNE", "off")
    bundled = ROOT / "lib/libtegula.so"
    if bundled.is_file():
        os.environ.setdefault("TEGULA_LIBRARY", str(bundled))
    meet = f"/tmp/tegula-ranks-{os.getpid()}"
    codes = together(work, o, meet)
    if not o.only or "dying" in o.only:
        codes += together(dying, o, meet + "-dying")[:-1]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    main()
