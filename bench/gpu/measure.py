# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times and correctness of contenders that do the same work on a device.

Outputs are poisoned and fenced before every checked run, compared with a reference in f64, checked
again on other data after the timing. Times are of device events around one run behind a flushed L2,
contenders alternate, inputs rotate.
"""

import dataclasses
import math
import statistics
import time

import torch

GUARD = 1024  # elements before and behind an output that nobody may write
FLUSH_BYTES = 512 << 20  # several times the L2 of any GPU; long enough for the host to be ahead

# ||out - reference|| / ||reference|| of honest arithmetic, by what it computes in.
LIMITS = {"f32": 1e-5, "tf32": 5e-4, "f16": 1e-3, "bf16": 1e-2, "fp8": 1e-2}


@dataclasses.dataclass
class Contender:
    """run(inputs, outputs) enqueues one run. What it returns (name -> tensor) stands for outputs."""

    name: str
    run: object
    ours: bool = False
    note: str = ""


@dataclasses.dataclass
class Problem:
    """The same work for all contenders of a case."""

    key: str
    inputs: object  # seed -> name -> tensor
    outputs: object  # inputs -> name -> (shape, dtype)
    reference: object  # inputs -> name -> f64 or integer tensor
    contenders: list
    limit: float
    flops: float = 0
    bytes: float = 0
    plain: str = ""  # the contender whose greatest error is the measure of the others'
    view: object = None  # inputs, results -> what is compared, where that is not the results


# ---- outputs -------------------------------------------------------------------------------------


def poison(tensor):
    if tensor.is_floating_point():
        tensor.fill_(math.nan)
    else:
        tensor.fill_(-0x5A5A5A5B if tensor.element_size() > 1 else 0x5A)


class Fenced:
    """Outputs inside larger buffers whose ends are watched."""

    def __init__(self, wanted, device):
        self.whole, self.tensors = {}, {}
        for name, (shape, dtype) in wanted.items():
            n = math.prod(shape)
            whole = torch.empty(n + 2 * GUARD, dtype=dtype, device=device)
            self.whole[name] = whole
            self.tensors[name] = whole[GUARD : GUARD + n].view(shape)

    def poison(self):
        for whole in self.whole.values():
            poison(whole)

    def trespassed(self):
        """The name of an output beside which something was written, or ''."""
        for name, whole in self.whole.items():
            ends = torch.cat((whole[:GUARD], whole[-GUARD:]))
            clean = torch.empty_like(ends)
            poison(clean)
            same = torch.isnan(ends).all() if ends.is_floating_point() else (ends == clean).all()
            if not bool(same):
                return name
        return ""


# ---- correctness ---------------------------------------------------------------------------------


def wide(tensor):
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


def errors(got, want):
    """(relative error of the whole, greatest error of an element, what is wrong beyond numbers)"""
    if got.shape != want.shape:
        return math.inf, math.inf, f"shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if not want.is_floating_point():
        bad = int((got.to(want.dtype) != want).sum())
        return float(bad > 0), float(bad), f"{bad} of {want.numel()} differ" if bad else ""
    got = wide(got)
    odd = got.isfinite() != want.isfinite()
    if bool(odd.any()):
        return math.inf, math.inf, f"{int(odd.sum())} of {want.numel()} are NaN, inf or unwritten"
    d = (got - want).nan_to_num_()
    size = want.nan_to_num().norm()
    return float(d.norm() / size) if float(size) else float(d.norm()), float(d.abs().max()), ""


def run_checked(problem, contender, inputs, fenced):
    """Poisons, runs, waits; the results by name."""
    fenced.poison()
    out = contender.run(inputs, fenced.tensors)
    synchronize(next(iter(inputs.values())).device)
    out = {**fenced.tensors, **(out or {})}
    return problem.view(inputs, out) if problem.view else out


def check(problem, contender, inputs, fenced, want, plain):
    """(text of what is wrong or '', relative error); plain: greatest errors that are excused."""
    got = run_checked(problem, contender, inputs, fenced)
    worst = 0.0
    for name, w in want.items():
        relative, greatest, text = errors(got[name], w)
        worst = max(worst, relative)
        if not text and not relative <= problem.limit:
            text = f"relative error {relative:.1e}, limit {problem.limit:.1e}"
        allowed = 3 * plain.get(name, math.inf) + 1e-30
        if not text and contender.ours and greatest > allowed:
            text = f"an element is off by {greatest:.1e}, plain arithmetic by {plain[name]:.1e}"
        if text:
            return f"{name}: {text}", worst
    where = fenced.trespassed()
    return (f"wrote beside {where}" if where else ""), worst


def greatest_errors(problem, inputs, fenced, want):
    """The greatest error of each output of the plain contender, rounding of the result included."""
    for c in problem.contenders:
        if c.name == problem.plain:
            got = run_checked(problem, c, inputs, fenced)
            return {n: errors(got[n], w)[1] + rounding(got[n], w) for n, w in want.items()}
    return {}


def rounding(tensor, want):
    if not tensor.is_floating_point() or not want.numel():
        return 0.0
    return torch.finfo(tensor.dtype).eps * float(want.nan_to_num().abs().max()) / 2


# ---- time ----------------------------------------------------------------------------------------


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Clock:
    """Device time of one run behind a flushed L2, in ms; the host's clock where there is no GPU."""

    def __init__(self, device):
        self.device = device
        self.buffer = torch.empty(
            FLUSH_BYTES if device.type == "cuda" else 1 << 20, dtype=torch.uint8, device=device
        )

    def start(self, run):
        """Enqueues a run; what `finish` makes a time of, and the host's time for it in us."""
        self.buffer.fill_(1)
        if self.device.type != "cuda":
            t = time.perf_counter()
            run()
            t = time.perf_counter() - t
            return t * 1e3, t * 1e6
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        t = time.perf_counter()
        run()
        host = time.perf_counter() - t
        b.record()
        return (a, b), host * 1e6

    def finish(self, pending):
        synchronize(self.device)
        return [p if isinstance(p, float) else p[0].elapsed_time(p[1]) for p in pending]


def one_block(clock, contenders, sets, fenced, rounds, first):
    """name -> (times in ms, host times in us) of `rounds` runs each, in an order that rotates."""
    pending = {c.name: [] for c in contenders}
    host = {c.name: [] for c in contenders}
    for r in range(rounds):
        k = (r + first) % len(contenders)
        for c in contenders[k:] + contenders[:k]:
            inputs = sets[r % len(sets)]
            p, h = clock.start(lambda: c.run(inputs, fenced.tensors))
            pending[c.name].append(p)
            host[c.name].append(h)
        if r % 8 == 7:
            synchronize(clock.device)
    return {n: (clock.finish(pending[n]), host[n]) for n in pending}


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p * len(values)))]


def time_all(clock, contenders, sets, fenced, seconds, blocks=3):
    """name -> figures. As many rounds as `seconds` allow, 5 to 100 a block."""
    t = time.perf_counter()
    for _ in range(2):
        one_block(clock, contenders, sets, fenced, 1, 0)
    round_s = (time.perf_counter() - t) / 2
    rounds = max(5, min(100, int(seconds / blocks / max(round_s, 1e-6))))
    parts = [one_block(clock, contenders, sets, fenced, rounds, b) for b in range(blocks)]
    out = {}
    for c in contenders:
        medians = [statistics.median(p[c.name][0]) for p in parts]
        times = [t for p in parts for t in p[c.name][0]]
        ms = statistics.median(times)
        out[c.name] = {
            "ms": ms,
            "blocks_ms": medians,
            "spread": (max(medians) - min(medians)) / ms if ms else 0.0,
            "p10_ms": percentile(times, 0.1),
            "p90_ms": percentile(times, 0.9),
            "runs": len(times),
            "host_us": statistics.median(h for p in parts for h in p[c.name][1]),
        }
    return out


# ---- a case --------------------------------------------------------------------------------------


def text_of(error):
    lines = str(error).strip().split("\n")
    return f"{type(error).__name__}: " + " | ".join(lines[:3])[:300]


def usable(problem, sets, fenced, want, plain):
    """The contenders that compute what they should, and rows that say why others do not."""
    good, rows = [], {}
    for c in problem.contenders:
        row = rows[c.name] = {"ours": c.ours, "note": c.note}
        t = time.perf_counter()
        try:
            wrong, row["error"] = check(problem, c, sets[0], fenced, want, plain)
        except Exception as error:  # a contender that is missing or broken stops no other
            wrong = text_of(error)
        row["first_s"] = time.perf_counter() - t
        if wrong:
            row["failed"] = wrong
        else:
            good.append(c)
    return good, rows


def run_problem(problem, device, seconds, n_sets=3):
    """The record of a case: its key, what was asked, a row a contender."""
    sets = [problem.inputs(seed) for seed in range(n_sets)]
    fenced = Fenced(problem.outputs(sets[0]), device)
    want = problem.reference(sets[0])
    plain = {}
    try:
        plain = greatest_errors(problem, sets[0], fenced, want)
    except Exception:  # its own row will say so
        pass
    good, rows = usable(problem, sets, fenced, want, plain)
    if good and seconds > 0:
        clock = Clock(device)
        for name, figures in time_all(clock, good, sets, fenced, seconds).items():
            rows[name].update(figures)
            rows[name]["tflops"] = problem.flops / figures["ms"] / 1e9
            rows[name]["gbs"] = problem.bytes / figures["ms"] / 1e6
        last = sets[-1]
        want = problem.reference(last)
        for c in good:
            wrong, _ = check(problem, c, last, fenced, want, {})
            if wrong:
                rows[c.name]["failed"] = "after timing: " + wrong
    return {"key": problem.key, "flops": problem.flops, "bytes": problem.bytes, "rows": rows}
