"""A matmul over ranks on CPUs, overlapped and not: launches of each plan in turn, in one job, so that what
else the machine does meets all of them alike.

Usage: cpu.py [--ranks N] [--rounds N] [--size M,N,K] [--late MS] [--set 'plan=pull chunks=4']...

--late: one rank after the other comes so much later than the others. Needs NumPy and oshrun. Each rank has one
thread. Before each launch the ranks meet; a launch takes as long as on its slowest rank. Beside the ratio of
times, round by round, is that of the processor time that the ranks used: it does not change with what else the
machine does, but has no time in it that a rank slept.
"""
import argparse
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST = "plan=before"  # what the others are compared with
PLANS = ["plan=direct", "plan=pull chunks=4", "plan=push chunks=4"]
THREADS = {"TG_TUNE": "off", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--size", type=lambda s: [int(x) for x in s.split(",")], default=[1024, 1024, 1024])
    p.add_argument("--late", type=float, default=0)
    p.add_argument("--set", action="append", dest="plans", help="the plan of an arm")
    return p.parse_args()


class Bench:
    def __init__(self, o):
        sys.path.insert(0, str(ROOT / "python"))
        import numpy as np
        import tegula

        m, n, k = o.size
        self.comm = tegula.Comm("openshmem")
        random = np.random.default_rng(self.comm.rank)
        self.held = self.comm.empty((m, k), "f32")
        self.a = np.asarray(self.held)
        self.a[:] = random.random((m, k), np.float32)
        self.b = random.random((k, n), np.float32)
        self.c = np.empty((self.comm.ranks, m, n), np.float32)
        self.kernels = [tegula.load("std/comm.teg", settings=x).ag_gemm for x in [FIRST, *o.plans]]
        self.all_gather = tegula.load("std/comm.teg").all_gather
        self.np = np

    def launch(self, kernel, late=0):
        """Seconds of this launch from the meeting before it on, and of this thread in it."""
        self.comm.barrier()
        begin, used = time.perf_counter(), time.thread_time()
        if late:
            time.sleep(late)
        kernel(self.held, self.b, self.c)
        return time.perf_counter() - begin, time.thread_time() - used

    def check(self):
        """All plans give the same bits, and those are right here and there."""
        results = []
        for kernel in self.kernels:
            self.c[:] = self.np.nan
            self.launch(kernel)
            results.append(self.c.copy())
        rank = self.comm.rank
        right = self.np.allclose(results[0][rank, :8], self.a[:8] @ self.b, rtol=1e-4)
        return right and all(self.np.array_equal(results[0], x) for x in results)

    def gathered(self, times):
        """[ranks, ...]: what each rank measured."""
        mine = self.comm.empty(times.shape, "f64")
        self.np.asarray(mine)[:] = times
        out = self.np.empty((self.comm.ranks, *times.shape))
        self.all_gather(mine, out)
        return out

    def rounds(self, n, late):
        """[rounds, arms, 2]: seconds of the slowest rank, processor seconds of all of them."""
        times = self.np.empty((n, len(self.kernels), 2))
        for i in range(n):
            for k in range(len(self.kernels)):  # who begins changes
                at = (i + k) % len(self.kernels)
                times[i, at] = self.launch(self.kernels[at], late if i % self.comm.ranks == self.comm.rank else 0)
        each = self.gathered(times)
        return self.np.stack([each[..., 0].max(0), each[..., 1].sum(0)], -1)


def report(o, times):
    for k, plan in enumerate([FIRST, *o.plans]):
        wall, used = times[:, k, 0], times[:, k, 1]
        ratios = [statistics.median(times[:, k, x] / times[:, 0, x]) for x in (0, 1)]
        print(f"{plan:20s} median {statistics.median(wall) * 1e3:8.2f} ms, least {wall.min() * 1e3:8.2f}; of "
              f"{FIRST}: time {ratios[0]:.3f} (least {wall.min() / times[:, 0, 0].min():.3f}), "
              f"processor time {ratios[1]:.3f} (least {used.min() / times[:, 0, 1].min():.3f})", flush=True)


def main():
    o = arguments()
    o.plans = o.plans or PLANS
    if "OMPI_COMM_WORLD_SIZE" not in os.environ:
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        os.environ.update(THREADS)
        os.execvp("oshrun", ["oshrun", *root, "--oversubscribe", "-n", str(o.ranks), sys.executable, *sys.argv])
    bench = Bench(o)
    if not bench.check():
        sys.exit("the plans do not give the same result, or not the right one")
    times = bench.rounds(o.rounds, o.late * 1e-3)
    if bench.comm.rank == 0:
        report(o, times)
    bench.comm.close()


main()
