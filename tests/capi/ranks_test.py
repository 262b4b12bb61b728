# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled kernels on several ranks of CPUs, many times:

    ranks_test.py threads | death | openshmem | chosen | oshrun-death OSHRUN.SH

gemm_rs (which combines) and ag_gemm, with rows that no tile divides, in every plan. Inputs change from
launch to launch and are poisoned after it; results are poisoned before it. A rank is late now and then.
Sums of small integers are exact, so these results are compared bit by bit. Results of other numbers must
have equal bits in all launches and plans. openshmem: this process is one that oshrun started. death: a
process ends in the middle. chosen: as openshmem, with the default plan. oshrun-death: a process of
oshrun's ends in the middle, both where this ends the others and where it does not.
"""
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import tegula

M, N, K, INPUTS = 37, 20, 24, 7
PLANS = "direct", "before", "pull", "push", "put"
EACH, AGAIN, LATE, NAP = 250, 25, 40, 0.003  # launches of a plan; with equal inputs; one late rank in so many; seconds late


def inputs(rank, ranks, number):
    """Inputs of launch `number` on a rank: a of gemm_rs, b, a of ag_gemm."""
    random = np.random.default_rng(1000 * rank + number)
    return [random.integers(-8, 9, shape).astype("f4") for shape in ((ranks * M, K), (K, N), (M, K))]


def expected(rank, ranks, number):
    """The expected results of gemm_rs and ag_gemm on a rank."""
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


def until_death(comm, ranks, plan="pull"):
    """Returns the faults in the other ranks' reports that rank 1 has died; an empty text if there are none."""
    rank, r = comm.rank, Rank(comm, ranks)
    for i in range(5):
        r.launch(plan, inputs(rank, ranks, i))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    wrong = []
    for i in 5, 6:  # the group cannot be used any more
        try:
            r.launch(plan, inputs(rank, ranks, i))
            wrong += ["a launch without rank 1 has succeeded"]
        except tegula.Error as e:
            wrong += [] if "process of rank 1 has ended" in str(e) else [str(e)]  # it must not be a time-out
    return "\n".join(wrong)


def process_until_death(rank, ranks, meet, queue):
    queue.put(until_death(tegula.Comm("processes", meet=meet, rank=rank, ranks=ranks, timeout_ms=120000), ranks))


def death(ranks):
    queue, meet = multiprocessing.Queue(), f"/tmp/tegula-ranks-test-{os.getpid()}"
    processes = [multiprocessing.Process(target=process_until_death, args=(r, ranks, meet, queue)) for r in range(ranks)]
    for p in processes:
        p.start()
    said = [queue.get(timeout=600) for _ in range(ranks - 1)]
    for p in processes:
        p.join()
    if any(said) or processes[1].exitcode != -signal.SIGKILL:
        sys.exit("\n".join(filter(None, said)) or "rank 1 was not killed")


def oshrun_rank_until_death(folder):
    comm = tegula.Comm("openshmem", timeout_ms=120000)
    rank = comm.rank
    said = until_death(comm, comm.ranks, "chosen" if "TG_OPENSHMEM_PUTS" in os.environ else "pull")
    comm.close()
    pathlib.Path(folder, str(rank)).write_text(said or "good")


def oshrun_death(script, ranks, **environment):
    """Faults of the job, or nothing. It has to end within ten minutes. None: oshrun is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        job = subprocess.Popen([script, str(ranks), sys.executable, __file__, "oshrun-rank", folder], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ | environment,
                               start_new_session=True)  # fmt: skip
        try:
            said = job.communicate(timeout=600)[0]
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            return "the job has not ended in ten minutes: " + job.communicate()[0]
        if job.returncode == 77:
            return None
        if not environment:  # oshrun may end the others before they print anything
            return "" if job.returncode and "rank 1" in said else f"status {job.returncode}: {said}"
        files = {r: pathlib.Path(folder, str(r)) for r in range(ranks) if r != 1}
        wrong = [f"rank {r}: {f.read_text() if f.exists() else 'it has not come to its end'}" for r, f in files.items()]
        return "" if all(w.endswith(": good") for w in wrong) else "\n".join([*wrong, said])


def oshrun_deaths(script):
    alone = {"OMPI_MCA_orte_enable_recovery": "1"}  # makes oshrun leave the others alone
    wrong = []
    for environment in {}, alone, alone | {"TG_OPENSHMEM_PUTS": "1"}:
        said = oshrun_death(script, 3, **environment)
        if said is None:
            sys.exit(77)
        wrong += [f"{environment}: {said}"] if said else []
    if wrong:
        sys.exit("\n".join(wrong))


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
    elif what == "oshrun-rank":
        oshrun_rank_until_death(sys.argv[2])
    elif what == "oshrun-death":
        oshrun_deaths(sys.argv[2])
    else:
        death(3)


main()
