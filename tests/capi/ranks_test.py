# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled kernels on several ranks of CPUs, again and again: ranks_test.py threads | death | openshmem | chosen.

gemm_rs (which combines) and ag_gemm, with rows that no tile divides, in every plan. Inputs change from launch to
launch and are poisoned after it, results before it; a rank is late now and then. Sums of small integers are exact,
so each result is compared bit by bit; those of other numbers must have the same bits in all launches and plans.
openshmem: this process is one of those that oshrun started. death: a process ends in the middle. chosen: as openshmem, with
the plan that is chosen where nobody names one.
"""
import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np
import tegula

M, N, K, INPUTS = 37, 20, 24, 7
PLANS = "direct", "before", "pull", "push"
EACH, AGAIN, LATE, NAP = 250, 25, 40, 0.003  # launches of a plan; with the same input; one of so many; seconds


def inputs(rank, ranks, number):
    """a of gemm_rs, b, a of ag_gemm, as rank has them in launch `number`."""
    random = np.random.default_rng(1000 * rank + number)
    return [random.integers(-8, 9, shape).astype("f4") for shape in ((ranks * M, K), (K, N), (M, K))]


def expected(rank, ranks, number):
    """What gemm_rs and ag_gemm give on a rank."""
    all_ = [inputs(r, ranks, number) for r in range(ranks)]
    scattered = sum(a[rank * M : (rank + 1) * M] @ b for a, b, _ in all_)
    return scattered, np.stack([shard @ all_[rank][1] for _, _, shard in all_])


class Rank:
    def __init__(self, comm, ranks):
        self.comm, self.rank, self.ranks = comm, comm.rank, ranks
        assert comm.ranks == ranks
        self.held = comm.empty((M, N), "f32"), comm.empty((M, K), "f32")
        self.c, self.shard = (np.asarray(x) for x in self.held)
        self.a, self.b = np.empty((ranks * M, K), "f4"), np.empty((K, N), "f4")
        self.out = np.empty((ranks, M, N), "f4")
        self.modules = {
            p: tegula.load("std/comm.teg", settings={"BM": 16, "BN": 16, "BK": 32, "plan": p, "chunks": 2}) for p in PLANS
        }
        self.modules["chosen"] = tegula.load("std/comm.teg", settings={"BM": 16, "BN": 16, "BK": 32})

    def launch(self, plan, values):
        self.a[:], self.b[:], self.shard[:] = values
        self.c[:] = self.out[:] = np.nan
        self.modules[plan].gemm_rs(self.a, self.b, self.held[0])
        self.modules[plan].ag_gemm(self.held[1], self.b, self.out)
        self.shard[:] = self.a[:] = self.b[:] = np.nan

    def changing(self, plan):
        right = [expected(self.rank, self.ranks, i) for i in range(INPUTS)]
        for i in range(EACH):
            if i % LATE == 3 and i // LATE % self.ranks == self.rank:
                time.sleep(NAP)
            self.launch(plan, inputs(self.rank, self.ranks, i % INPUTS))
            for what, got, want in zip(("gemm_rs", "ag_gemm"), (self.c, self.out), right[i % INPUTS]):
                assert np.array_equal(got, want), f"plan {plan}, launch {i}, rank {self.rank}: {what} is wrong"

    def same_bits(self):
        random = np.random.default_rng(self.rank)
        values = [random.normal(size=x.shape).astype("f4") for x in (self.a, self.b, self.shard)]
        first = None
        for plan in PLANS:
            for i in range(AGAIN):
                self.launch(plan, values)
                bits = self.c.tobytes() + self.out.tobytes()
                first = first or bits
                assert bits == first, f"plan {plan}, run {i}, rank {self.rank}: other bits"

    def all(self):
        for plan in PLANS:
            self.changing(plan)
        self.same_bits()


def on_threads(ranks):
    failures = []

    def body(rank):
        try:
            with tegula.Context(threads=1):
                comm = tegula.Comm("threads", meet="ranks_test", rank=rank, ranks=ranks, timeout_ms=120000)
                Rank(comm, ranks).all()
                comm.close()
        except BaseException as e:
            failures.append(f"rank {rank}: {e}")

    threads = [threading.Thread(target=body, args=(r,)) for r in range(ranks)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        sys.exit("\n".join(failures))


def until_death(rank, ranks, meet, queue):
    comm = tegula.Comm("processes", meet=meet, rank=rank, ranks=ranks, timeout_ms=120000)
    r = Rank(comm, ranks)
    for i in range(5):
        r.launch("pull", inputs(rank, ranks, i))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    try:
        r.launch("pull", inputs(rank, ranks, 5))
        queue.put("a launch without rank 1 has succeeded")
    except tegula.Error as e:
        late = time.monotonic() - start > 20
        queue.put("" if "process of rank 1 has ended" in str(e) and not late else f"late: {late}; {e}")


def death(ranks):
    queue, meet = multiprocessing.Queue(), f"/tmp/tegula-ranks-test-{os.getpid()}"
    processes = [multiprocessing.Process(target=until_death, args=(r, ranks, meet, queue)) for r in range(ranks)]
    for p in processes:
        p.start()
    said = [queue.get(timeout=100) for _ in range(ranks - 1)]
    for p in processes:
        p.join()
    if any(said) or processes[1].exitcode != -signal.SIGKILL:
        sys.exit("\n".join(filter(None, said)) or "rank 1 was not killed")


def main():
    what = sys.argv[1]
    if what in ("openshmem", "chosen"):
        comm = tegula.Comm("openshmem", timeout_ms=120000)
        rank = Rank(comm, comm.ranks)
        rank.changing("chosen") if what == "chosen" else rank.all()
        comm.close()
    elif what == "threads":
        for ranks in 2, 3:
            on_threads(ranks)
    else:
        death(3)


main()
