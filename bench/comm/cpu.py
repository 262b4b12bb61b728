"""Times products over ranks on CPUs, with and without overlap. One job launches each plan in turn, so that
other load on the machine affects all plans alike.

Usage: cpu.py [--ranks N] [--rounds N] [--size M,N,K] [--late MS] [--only gemm_rs] [--set 'plan=pull
chunks=4']...

M is a rank's part of the rows: of a in ag_gemm, of the result in gemm_rs, of both in gemm_ar. K is a
rank's part of the sum.

--late: each rank in turn starts this much later than the others. Needs NumPy and oshrun. Each rank has one thread.
The ranks meet before each launch, and a launch takes as long as on its slowest rank. The table has ratios
of times, round by round, and of the processor time that the ranks used. Processor time does not depend on
other load, but it excludes the time that a rank slept.
"""
import argparse
import os
import pathlib
import shutil
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST = "plan=before"  # the plan with which others are compared
PLANS = {
    "ag_gemm": ["plan=direct", "plan=pull chunks=4", "plan=push chunks=4"],
    "gemm_rs": ["plan=direct", "plan=add"],
    "gemm_ar": ["plan=direct", "plan=add"],
}
THREADS = {"TG_TUNE": "off", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--size", type=lambda s: [int(x) for x in s.split(",")], default=[1024, 1024, 1024])
    p.add_argument("--late", type=float, default=0)
    p.add_argument("--only", choices=PLANS, help="one of the products")
    p.add_argument("--set", action="append", dest="plans", help="the plan of an arm")
    return p.parse_args()


class Bench:
    """One product. a, b, c are the kernel's arguments; symmetric ones come from the group's empty()."""

    def __init__(self, comm, o, name):
        import numpy as np
        import tegula

        m, n, k = o.size
        self.comm, self.name, self.np = comm, name, np
        random = np.random.default_rng(comm.rank)
        rows = m if name == "ag_gemm" else m * comm.ranks
        self.plans = [FIRST, *(o.plans or PLANS[name])]
        self.kernels = [getattr(tegula.load("std/comm.teg", settings=x), name) for x in self.plans]
        self.all_gather = tegula.load("std/comm.teg").all_gather
        self.a, self.b = random.random((rows, k), np.float32), random.random((k, n), np.float32)
        if name == "ag_gemm":
            shard, self.c = comm.empty((m, k), "f32"), np.empty((comm.ranks, m, n), np.float32)
            np.asarray(shard)[:] = self.a
            self.arguments = shard, self.b, self.c
        else:
            shard = comm.empty((m if name == "gemm_rs" else rows, n), "f32")
            self.c = np.asarray(shard)
            self.arguments = self.a, self.b, shard

    def launch(self, kernel, late=0):
        """Seconds of this launch since the meeting before it, and of this thread in it."""
        self.comm.barrier()
        begin, used = time.perf_counter(), time.thread_time()
        if late:
            time.sleep(late)
        kernel(*self.arguments)
        return time.perf_counter() - begin, time.thread_time() - used

    def expected(self, rows):
        """The first rows of the result, in f64."""
        np, rank = self.np, self.comm.rank
        a, b = self.a.astype(np.float64), self.b.astype(np.float64)
        if self.name == "ag_gemm":
            return a[:rows] @ b
        parts = [a[at : at + rows] @ b for at in range(0, len(a), len(self.c))]
        added = self.gathered(np.stack(parts))  # [ranks, parts, rows, n]: by contributor and shard
        return added[:, rank if self.name == "gemm_rs" else 0].sum(0)

    def check(self):
        """Checks that all plans that keep the order of sums give equal bits, and that each is right on every
        rank."""
        np, rows, results = self.np, 8, []
        for kernel in self.kernels:
            self.c[:] = np.nan
            self.launch(kernel)
            results.append(self.c.copy())
        expected = self.expected(rows)
        parts = [(x[self.comm.rank] if self.name == "ag_gemm" else x)[:rows] for x in results]
        same = [np.array_equal(results[0], x) for p, x in zip(self.plans, results) if "add" not in p]
        return all(np.allclose(x, expected, rtol=1e-4) for x in parts) and all(same)

    def gathered(self, times):
        """[ranks, ...]: the measurements of each rank."""
        mine = self.comm.empty(times.shape, "f64")
        self.np.asarray(mine)[:] = times
        out = self.np.empty((self.comm.ranks, *times.shape))
        self.all_gather(mine, out)
        return out

    def rounds(self, n, late):
        """[rounds, arms, 2]: seconds of the slowest rank, processor seconds of all of them."""
        times = self.np.empty((n, len(self.kernels), 2))
        for i in range(n):
            for k in range(len(self.kernels)):  # the first plan changes from round to round
                at = (i + k) % len(self.kernels)
                times[i, at] = self.launch(self.kernels[at], late if i % self.comm.ranks == self.comm.rank else 0)
        each = self.gathered(times)
        return self.np.stack([each[..., 0].max(0), each[..., 1].sum(0)], -1)


def report(name, plans, times):
    for k, plan in enumerate(plans):
        wall, used = times[:, k, 0], times[:, k, 1]
        ratios = [statistics.median(times[:, k, x] / times[:, 0, x]) for x in (0, 1)]
        print(f"{name} {plan:18s} median {statistics.median(wall) * 1e3:8.2f} ms, least {wall.min() * 1e3:8.2f}; of "
              f"{FIRST}: time {ratios[0]:.3f} (least {wall.min() / times[:, 0, 0].min():.3f}), "
              f"processor time {ratios[1]:.3f} (least {used.min() / times[:, 0, 1].min():.3f})", flush=True)


def main():
    o = arguments()
    if "OMPI_COMM_WORLD_SIZE" not in os.environ and not shutil.which("oshrun"):
        print("skipped: oshrun is not there")
        sys.exit(77)
    if "OMPI_COMM_WORLD_SIZE" not in os.environ:
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        os.environ.update(THREADS)
        os.execvp("oshrun", ["oshrun", *root, "--oversubscribe", "-n", str(o.ranks), sys.executable, *sys.argv])
    sys.path.insert(0, str(ROOT / "python"))
    import tegula

    comm = tegula.Comm("openshmem")
    for name in [o.only] if o.only else PLANS:
        bench = Bench(comm, o, name)
        if not bench.check():
            sys.exit(f"{name}: the plans do not give the same result, or not the right one")
        times = bench.rounds(o.rounds, o.late * 1e-3)
        if comm.rank == 0:
            report(name, bench.plans, times)
    del bench
    comm.close()


main()
