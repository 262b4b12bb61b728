#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Communication overlapped with work, on the GPUs of one host: Tegula beside NCCL and cuBLAS.

    bench/comm/run.py --out DIR                               everything
    bench/comm/run.py --only 'AG M8192' --arms tegula,sequential --out DIR
    bench/comm/run.py --only 'AG M8192' --set 'plan=3 chunks=4' --set 'plan=4' --out DIR
    TG_COMM_MAP=0 bench/comm/run.py --comm nvshmem --heap 0.9 --out DIR   as if each rank had a host of its own

Each GPU has a process. Arms: cublas and product (the product alone, theirs and ours), nccl (the transfer
alone), sequential (the two, one after the other), async-tp (PyTorch's), tegula. Arms that can be captured
are timed as CUDA graphs. Before each run the L2 is flushed and all ranks meet. A run takes as long as on
its slowest rank, and the median of the runs counts. Every arm is checked against f64 before and after, on
other data. Writes DIR/comm.json and prints a table. NVLink multicast is off for all.
"""

import argparse
import json
import math
import os
import pathlib
import socket
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ARMS = "cublas,nccl,product,sequential,async-tp,tegula"
FLUSH_BYTES = 256 << 20
QUIET = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


def options():
    p = argparse.ArgumentParser(formatter_class=argparse.RawTextHelpFormatter, description=__doc__)
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--only", action="append", default=[], help="cases whose name holds this text")
    p.add_argument("--arms", default=ARMS, help=f"whom to measure: {ARMS}")
    p.add_argument("--set", action="append", default=[], dest="settings", help="of Tegula's kernels")
    p.add_argument("--comm", default="processes", help="Tegula's engine: processes or nvshmem")
    p.add_argument("--heap", type=float, default=4, help="symmetric memory of a rank, GiB")
    p.add_argument("--file", default="std/comm.teg", help="where Tegula's kernels are")
    p.add_argument("--runs", type=int, default=50)
    p.add_argument("--total", type=float, default=0, help="seconds after which no case is begun")
    p.add_argument("--tune", default="off", help="Tegula's tuning: off, block, exhaustive")
    p.add_argument("--out", default=".", help="folder of the results")
    p.add_argument("--list", action="store_true", help="names of the cases")
    return p


# ---- cases ---------------------------------------------------------------------------------------


# (N, K) of the products, by number of ranks: models of 8 to 70 billion parameters, sharded among them.
SHAPES = {
    2: (((2048, 8192), (6144, 4096), (14336, 4096)), ((8192, 2048), (4096, 4096), (4096, 7168))),
    4: (((6144, 4096), (10240, 8192), (11008, 4096), (7168, 8192)), ((8192, 8192), (4096, 4096), (8192, 7168))),
}


def cases(ranks):
    """(kind, name, M, N, K). AG deals out the rows of A, RS the columns. For transfers alone, M is their size
    in MiB."""
    out = []
    gathers, scatters = SHAPES.get(ranks, SHAPES[4])
    for m in (8192, 2048, 512, 16384):
        out += [("AG", f"AG M{m} N{n} K{k}", m, n, k) for n, k in gathers]
        out += [("RS", f"RS M{m} N{n} K{k}", m, n, k) for n, k in scatters]
    for mib in (1, 16, 64, 256):
        out.append(("gather", f"all_gather {mib} MiB", mib, 0, 0))
        out.append(("scatter", f"reduce_scatter {mib} MiB", mib, 0, 0))
    return out


def chosen(o):
    return [c for c in cases(o.ranks) if not o.only or any(text in c[1] for text in o.only)]


# ---- a rank --------------------------------------------------------------------------------------


class Rank:
    """The state that all cases of a process share."""

    def __init__(self, rank, o, port, meet):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.o = torch, dist, o
        self.rank, self.ranks = rank, o.ranks
        torch.cuda.set_device(rank)
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        self.device = torch.device("cuda", rank)
        dist.init_process_group("nccl", rank=rank, world_size=o.ranks, device_id=self.device)
        self.flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device=self.device)
        self.one = torch.zeros(1, device=self.device)
        self.stream = torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.arms = o.arms.split(",")
        self.tegula = self.comm = None
        if "tegula" in self.arms:
            self.start_tegula(meet)

    def start_tegula(self, meet):
        sys.path.insert(0, str(ROOT / "python"))
        bundled = ROOT / "lib/libtegula.so"
        if bundled.is_file():
            os.environ.setdefault("TEGULA_LIBRARY", str(bundled))
        os.environ["TG_TUNE"] = self.o.tune
        import tegula

        self.tegula = tegula
        self.comm = tegula.Comm(
            self.o.comm, meet, self.rank, self.ranks, self.rank, heap=int(self.o.heap * 2**30), timeout_ms=20000
        )

    def say(self, *text):
        if self.rank == 0:
            print(*text, flush=True)

    def random(self, shape, seed, scale=1.0):
        """Random data that differ on every rank."""
        g = self.torch.Generator(device=self.device).manual_seed(seed * 1000 + self.rank)
        x = self.torch.randn(shape, generator=g, device=self.device) * scale
        return x.to(self.torch.bfloat16)

    def symmetric(self, shape):
        """A symmetric tensor of bf16: (handle that frees it, PyTorch's tensor)."""
        s = self.comm.empty(shape, "bf16")
        return s, self.torch.as_tensor(s, device=self.device).view(self.torch.bfloat16)

    # ---- times

    def captured(self, run):
        """The run as a graph, or directly if it cannot be captured."""
        torch = self.torch
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        self.dist.barrier()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            run()
        torch.cuda.synchronize()
        self.dist.barrier()
        return graph.replay

    def time(self, run):
        """Median over the runs of the slowest rank's milliseconds."""
        torch, dist = self.torch, self.dist
        pairs = []
        for _ in range(self.o.runs + 5):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.flush.zero_()
            dist.all_reduce(self.one)  # in stream order: all ranks have arrived
            begin.record()
            run()
            end.record()
            pairs.append((begin, end))
        torch.cuda.synchronize()
        times = torch.tensor([b.elapsed_time(e) for b, e in pairs[5:]], device=self.device)
        dist.all_reduce(times, op=dist.ReduceOp.MAX)
        return times.median().item()

    def worst(self, value):
        t = self.torch.tensor([value], dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(t, op=self.dist.ReduceOp.MAX)
        return t.item()


# ---- problems ------------------------------------------------------------------------------------


class Problem:
    """Inputs of a seed, the result in f64, and arms: name -> (run, the tensor it fills)."""

    def __init__(self, r, case):
        self.r, self.kind, self.name = r, case[0], case[1]
        self.held, self.arms, self.parts = [], {}, {}
        getattr(self, "make_" + self.kind.lower())(*case[2:])

    def empty(self, *shape):
        return self.r.torch.empty(shape, dtype=self.r.torch.bfloat16, device=self.r.device)

    def shard(self, shape):
        """An empty tensor, symmetric if Tegula takes part."""
        if not self.r.comm:
            return self.empty(*shape)
        s, t = self.r.symmetric(shape)
        self.held.append(s)
        return t

    def kernels(self, name):
        """Tegula's kernel with each of the settings."""
        for text in self.r.o.settings or [""]:
            module = self.r.tegula.load(self.r.o.file, settings=text or None)
            yield text, getattr(module, name)

    def product(self, a, b, c):
        """Our own product alone."""
        if "product" in self.r.arms and self.r.tegula:
            kernel = self.r.tegula.load("std/matmul.teg").matmul
            self.parts["product"] = lambda: kernel(a, b, c)

    def make_ag(self, m, n, k):
        self.make_product("ag_gemm", m, n, k)

    def make_rs(self, m, n, k):
        self.make_product("gemm_rs", m, n, k)

    def make_product(self, name, m, n, k):
        """ag_gemm: gathers the rows of A, then multiplies. Else gemm_rs: adds up products, and spreads their rows."""
        r, torch, dist = self.r, self.r.torch, self.r.dist
        gathers, own = name == "ag_gemm", m // r.ranks
        a = self.shard((own, k)) if gathers else self.empty(m, k)
        b = self.empty(k, n)
        c = self.empty(m, n) if gathers else self.shard((own, n))
        full = self.empty(m, k if gathers else n)  # the result or the input of the transfer alone
        left, out = (full, c) if gathers else (a, full)
        group = dist.group.WORLD.group_name
        self.result = c

        def transfer():
            if gathers:
                dist.all_gather_into_tensor(full, a)
            else:
                dist.reduce_scatter_tensor(c, full)

        def product():
            torch.mm(left, b, out=out)

        def sequential():
            for step in (transfer, product) if gathers else (product, transfer):
                step()

        def async_tp():
            if gathers:
                return torch.ops.symm_mem.fused_all_gather_matmul(a, [b], 0, group)[1][0]
            return torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, group)

        def fill(seed):
            a.copy_(r.random(a.shape, seed))
            b.copy_(r.random(b.shape, seed + 7, k**-0.5))
            if gathers:
                transfer()
            c.fill_(math.nan)

        def reference():
            want = left.double() @ b.double()
            if gathers:
                return want
            part = torch.empty((own, n), dtype=torch.float64, device=r.device)
            dist.reduce_scatter_tensor(part, want)
            return part

        self.fill, self.reference = fill, reference
        self.parts = {"nccl": transfer, "cublas": product}
        self.product(left, b, out)
        self.arms = {"sequential": sequential, "async-tp": lambda: c.copy_(async_tp())}
        self.timed = {"async-tp": async_tp}
        if r.comm:
            result = c.view(r.ranks, -1, n) if gathers else c
            for text, kernel in self.kernels(name):
                self.arms[f"tegula {text}".strip()] = lambda k=kernel: k(a, b, result)

    def make_gather(self, mib, *_):
        r, dist = self.r, self.r.dist
        rows = mib * 1024 * 1024 // 4096 // r.ranks  # rows of 4 KiB
        a, full = self.shard((rows, 2048)), self.empty(r.ranks * rows, 2048)
        want = self.empty(r.ranks * rows, 2048)
        parts = full.view(r.ranks, rows, 2048)
        self.result = full

        def fill(seed):
            a.copy_(r.random(a.shape, seed))
            dist.all_gather_into_tensor(want, a)
            full.fill_(math.nan)

        self.fill, self.reference = fill, lambda: want.double()
        self.parts, self.timed = {}, {}
        self.arms["nccl"] = lambda: dist.all_gather_into_tensor(full, a)
        if r.comm:
            for text, kernel in self.kernels("all_gather"):
                self.arms[f"tegula {text}".strip()] = lambda k=kernel: k(a, parts)

    def make_scatter(self, mib, *_):
        r, torch, dist = self.r, self.r.torch, self.r.dist
        rows = mib * 1024 * 1024 // 4096 // r.ranks
        a, c = self.shard((r.ranks * rows, 2048)), self.empty(rows, 2048)
        parts = a.view(r.ranks, rows, 2048)
        self.result = c

        def fill(seed):
            a.copy_(r.random(a.shape, seed))
            c.fill_(math.nan)

        def reduced():
            out = torch.empty(c.shape, dtype=torch.float64, device=r.device)
            dist.reduce_scatter_tensor(out, a.double())
            return out

        self.fill, self.reference = fill, reduced
        self.parts, self.timed = {}, {}
        self.arms["nccl"] = lambda: dist.reduce_scatter_tensor(c, a)
        if r.comm:
            for text, kernel in self.kernels("reduce_scatter"):
                self.arms[f"tegula {text}".strip()] = lambda k=kernel: k(parts, c)

    def error(self, run, seed):
        """The error relative to the size of the result, on the worst rank."""
        self.fill(seed)
        run()
        self.r.torch.cuda.synchronize()
        want, got = self.reference(), self.result.double()
        error = (got - want).norm() / want.norm()
        return self.r.worst(error.item() if error.isfinite() else math.inf)

    def free(self):
        for s in self.held:
            s.free()


def wanted(r, arm):
    return arm.split()[0] in r.arms or (arm == "nccl" and "sequential" in r.arms)


def measure_arm(r, problem, arm, run, checks):
    row = {"arm": arm}
    if checks:
        row["error"] = problem.error(run, 1)
        row["error"] = max(row["error"], problem.error(run, 2))
    run = problem.timed.get(arm, run)
    try:
        timed, row["graph"] = r.captured(run), True
    except Exception as error:  # this arm cannot be captured
        if arm.startswith("tegula"):
            raise
        timed, row["graph"] = run, False
        row["why"] = str(error)[:80]
        r.torch.cuda.synchronize()
    row["ms"] = r.time(timed)
    if checks and arm not in problem.timed:  # otherwise the timed run left its result in another tensor
        problem.fill(3)
        row["error"] = max(row["error"], problem.error(lambda: timed(), 4))
    return row


def measure(r, case):
    """Runs all arms of a case. An arm that fails, fails on all ranks."""
    problem = Problem(r, case)
    rows = []
    arms = [(a, f, False) for a, f in problem.parts.items()]
    arms += [(a, f, True) for a, f in problem.arms.items()]
    for arm, run, checks in arms:
        if not wanted(r, arm):
            continue
        try:
            row = measure_arm(r, problem, arm, run, checks)
        except Exception as error:
            row = {"arm": arm, "failed": f"{type(error).__name__}: {error}"[:300]}
        rows.append(row)
        shown = row.get("failed") or f"{row['ms']:.4f} ms  error {row.get('error', 0):.1e}"
        r.say(f"{case[1]:26} {arm:32} {shown}" + ("" if row.get("graph", 1) else "  (no graph)"))
    problem.free()
    return {"name": case[1], "rows": rows}


def work(rank, o, port, meet):
    start = time.monotonic()
    r = Rank(rank, o, port, meet)
    if "async-tp" in r.arms:
        import torch.distributed._symmetric_memory as symmetric

        symmetric.enable_symm_mem_for_group(r.dist.group.WORLD.group_name)
    records = []
    for case in chosen(o):
        late = r.worst(time.monotonic() - start) > o.total > 0
        if late:
            break
        records.append(measure(r, case))
        if rank == 0:
            path = pathlib.Path(o.out, "comm.json")
            path.write_text(json.dumps({"ranks": o.ranks, "cases": records}, indent=1))
    if rank == 0:
        table(records)
    if r.comm:
        r.comm.close()
    r.dist.destroy_process_group()
    if rank == 0 and report_wrong(records):
        sys.exit(1)


# ---- wrong results --------------------------------------------------------------------------------

WORSE = 1.25  # allowed error, relative to the baseline's, which rounds as often


def wrong_rows(record):
    """Tegula's arms that failed, or that are further from f64 than their baseline."""
    rows = {row["arm"]: row for row in record["rows"]}
    baseline = rows.get("sequential") or rows.get("nccl") or {}
    for arm, row in rows.items():
        limit = WORSE * baseline.get("error", 0) or 1e-2
        if "failed" in row:
            yield f"{record['name']} {arm}: {row['failed']}"
        elif arm.startswith("tegula") and not row["error"] <= limit:
            yield f"{record['name']} {arm}: error {row['error']:.1e}, that of the baseline is {baseline.get('error')}"


def report_wrong(records):
    wrong = [text for record in records for text in wrong_rows(record)]
    ours = [text for text in wrong if "async-tp" not in text]
    print("\n".join(f"WRONG {text}" for text in wrong) or "nothing is wrong", flush=True)
    return ours or not records


# ---- the table -----------------------------------------------------------------------------------


def table(records):
    met = {}
    print(f"\n{'case':26}{'nccl':>9}{'cublas':>9}{'product':>9}{'seq.':>9}{'async':>9}{'ours':>9}"
          f"{'gain':>7}{'ideal':>7}{'of it':>7}  plan")  # fmt: skip
    for record in records:
        ms = {row["arm"]: row["ms"] for row in record["rows"] if "ms" in row}
        ours = [(t, arm) for arm, t in ms.items() if arm.startswith("tegula")]
        best, arm = min(ours) if ours else (math.nan, "")
        comm, work_, seq = (ms.get(k, math.nan) for k in ("nccl", "cublas", "sequential"))
        ideal = (comm + work_) / max(comm, work_) if work_ == work_ else math.nan
        seq = seq if seq == seq else comm
        gain = seq / best
        own, theirs = (ms.get(k, math.nan) for k in ("product", "async-tp"))
        columns = (comm, work_, own, seq, theirs, best)
        print(f"{record['name']:26}" + "".join(f"{x:9.4f}" for x in columns)
              + f"{gain:7.2f}{ideal:7.2f}{gain / ideal:7.2f}  {arm[7:]}{judge(met, ideal, gain)}")  # fmt: skip
    for bar, (good, of) in met.items():
        print(f"{good} of {of}: {bar}")


def judge(met, ideal, gain):
    """Counts the bars that apply to a case, and marks the one it misses."""
    alone = ideal != ideal
    bar = 1.0 if alone else 1.15 if ideal >= 1.3 else 0.98
    name = ("a collective alone, not slower than NCCL" if alone else
            f"gain of {bar} or more over one after the other, ideal {'of' if ideal >= 1.3 else 'below'} 1.3")
    good, of = met.get(name, (0, 0))
    met[name] = good + (gain >= bar), of + 1
    return "" if gain >= bar else f"  misses {bar}"


def main():
    o = options().parse_args()
    if o.list:
        print("\n".join(c[1] for c in chosen(o)))
        return
    os.environ.update(QUIET)
    pathlib.Path(o.out).mkdir(parents=True, exist_ok=True)
    import torch.multiprocessing

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    meet = f"/tmp/tegula-bench-comm-{os.getpid()}"
    torch.multiprocessing.spawn(work, args=(o, port, meet), nprocs=o.ranks)


if __name__ == "__main__":
    main()
