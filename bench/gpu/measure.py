# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times and checks contenders that do the same work on a device.

Before every checked run and every block of timed ones, outputs are poisoned and fenced. They are compared
with a reference in f64, and checked again after the timing: the result of the last timed run, and a run on
other data. Times are of device events around one run with a flushed L2. Contenders alternate, and inputs
rotate.
"""

import ctypes
import dataclasses
import functools
import math
import random
import statistics
import time

import torch

SETS = 3  # sets of inputs, which rotate
MOST_BYTES = 8e9  # bytes of all sets of a case; larger cases have fewer sets
RUNS = 30  # least number of runs of a contender
PIECE = 1 << 27  # elements that are compared at once
GUARD = 1024  # elements before and after an output that must not be written
FLUSH_BYTES = 512 << 20  # several times the L2 of any GPU, so that the host runs ahead

# Limits of ||out - reference|| / ||reference|| for correct arithmetic, by type.
LIMITS = {"f32": 1e-5, "tf32": 5e-4, "f16": 1e-3, "bf16": 1e-2, "fp8": 1e-2}
NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


@dataclasses.dataclass
class Contender:
    """run(inputs, outputs) enqueues one run. Returned tensors (name -> tensor) replace outputs."""

    name: str
    run: object
    ours: bool = False
    note: str = ""
    makes: tuple = ()  # the outputs that it computes, if not all
    timed: bool = True
    limit: object = None  # of the relative error, instead of the problem's: arithmetic of fewer bits


@dataclasses.dataclass
class Problem:
    """The work that all contenders of a case do."""

    key: str
    inputs: object  # seed -> name -> tensor
    outputs: object  # inputs -> name -> (shape, dtype)
    reference: object  # inputs -> name -> f64 or integer tensor
    contenders: list
    plain: object  # like Contender.run: its greatest error is the yardstick for ours
    limit: object  # limit of the relative error: a number, or output -> number
    flops: float = 0
    bytes: float = 0
    measured_by: dict = dataclasses.field(default_factory=dict)  # output -> the output of `plain` that is its yardstick
    view: object = None  # inputs, results -> the compared values, if not the results
    by_element: bool = True  # whether elements of ours have a limit, too; not where the result is one number
    least_yardstick: float = 0.0  # the error of an element that plain arithmetic may always have

    def compared(self, want):
        """Names of the reference's outputs that a contender must compute correctly."""
        return [n for n in want if n not in self.measured_by.values()]


# ---- outputs -------------------------------------------------------------------------------------


def poison(tensor):
    if tensor.is_floating_point():
        tensor.fill_(math.nan)
    else:
        tensor.fill_(-0x5A5A5A5B if tensor.element_size() > 1 else 0x5A)


class Fenced:
    """Outputs inside larger buffers whose ends are checked."""

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
        """The name of an output beyond whose ends something was written, or ''."""
        for name, whole in self.whole.items():
            ends = torch.cat((whole[:GUARD], whole[-GUARD:]))
            clean = torch.empty_like(ends)
            poison(clean)
            same = torch.isnan(ends).all() if ends.is_floating_point() else (ends == clean).all()
            if not bool(same):
                return name
        return ""


# ---- correctness ---------------------------------------------------------------------------------


def errors(got, want):
    """(relative error of the whole, greatest error of an element, faults other than numbers)"""
    if got.shape != want.shape:
        return math.inf, math.inf, f"shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if not want.is_floating_point():
        bad = int((got.to(want.dtype) != want).sum())
        return float(bad > 0), float(bad), f"{bad} of {want.numel()} differ" if bad else ""
    odd = 0
    difference = size = greatest = 0.0
    for g, w in zip(pieces(got), pieces(want)):
        g = g.to(torch.float64)
        odd += int((g.isfinite() != w.isfinite()).sum())
        d = (g - w).nan_to_num_()
        difference = math.hypot(difference, float(d.norm()))
        size = math.hypot(size, float(w.nan_to_num().norm()))
        greatest = max(greatest, float(d.abs().max()))
    if odd:
        return math.inf, math.inf, f"{odd} of {want.numel()} are NaN, inf or unwritten"
    return difference / size if size else difference, greatest, ""


def pieces(tensor):
    """All elements, a part at a time, so that copies in f64 need little memory."""
    return tensor.reshape(-1).split(PIECE) if tensor.numel() else ()


def results(problem, inputs, fenced, returned):
    """The compared values, by name."""
    out = {**fenced.tensors, **(returned or {})}
    return problem.view(inputs, out) if problem.view else out


def run_checked(problem, run, inputs, fenced):
    """Poisons, runs and waits. Returns the results by name."""
    fenced.poison()
    returned = run(inputs, fenced.tensors)
    synchronize(next(iter(inputs.values())).device)
    return results(problem, inputs, fenced, returned)


def limit_of(problem, name, got, fenced):
    """The limit of an output's relative error. A peer may return a narrower type than the output's."""
    limit = problem.limit[name] if isinstance(problem.limit, dict) else problem.limit
    asked = fenced.tensors.get(name)
    narrower = asked is not None and got.element_size() < asked.element_size()
    return max(limit, LIMITS[NAMES[got.dtype]]) if narrower else limit


def compare(problem, contender, got, fenced, expected):
    """(text of the fault or '', relative error) of results; expected: Expected.of."""
    want, excused = expected
    worst = 0.0
    for name in contender.makes or problem.compared(want):
        relative, greatest, text = errors(got[name], want[name])
        worst = max(worst, relative)
        limit = contender.limit or limit_of(problem, name, got[name], fenced)
        if not text and not relative <= limit:
            text = f"relative error {relative:.1e}, limit {limit:.1e}"
        plain = max(excused[problem.measured_by.get(name, name)], problem.least_yardstick)
        ruled = contender.ours and problem.by_element and contender.limit is None
        if not text and ruled and not greatest <= 3 * plain + 1e-30:
            text = f"an element is off by {greatest:.1e}, plain arithmetic by {plain:.1e}"
        if text:
            return f"{name}: {text}", worst
    where = fenced.trespassed()
    return (f"wrote beside {where}" if where else ""), worst


class Expected:
    """For a set of inputs: the reference, and the greatest error of each output by plain arithmetic."""

    def __init__(self, problem, sets, device):
        self.problem, self.sets, self.device = problem, sets, device
        self.known = {}

    def of(self, k):
        if k not in self.known:
            inputs = self.sets[k]
            want = self.problem.reference(inputs)
            fenced = Fenced(self.problem.outputs(inputs), self.device)
            got = run_checked(self.problem, self.problem.plain, inputs, fenced)
            self.known[k] = want, {n: self.greatest(n, got[n], w) for n, w in want.items()}
        return self.known[k]

    @staticmethod
    def greatest(name, got, want):
        """The greatest error includes the rounding of the result."""
        _, greatest, text = errors(got, want)
        if text:
            raise ArithmeticError(f"plain arithmetic has no right {name}: {text}")
        return greatest + rounding(got, want)


def rounding(tensor, want):
    if not tensor.is_floating_point() or not want.numel():
        return 0.0
    most = max(float(w.nan_to_num().abs().max()) for w in pieces(want))
    return torch.finfo(tensor.dtype).eps * most / 2


# ---- time ----------------------------------------------------------------------------------------


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@functools.cache
def driver():
    return ctypes.CDLL("libcuda.so.1")


def reset_persisting():
    """Waits for the device, then releases lines that kernels kept in the L2 (evict_last), which a write of
    other memory might not evict. RuntimeError if the driver cannot."""
    torch.cuda.synchronize()  # the context stays current in this thread
    code = driver().cuCtxResetPersistingL2Cache()
    if code:
        raise RuntimeError(f"cuCtxResetPersistingL2Cache: error {code}; --flush plain does without")


class Clock:
    """Device time of one run with a flushed L2, in ms; by the host's clock without a GPU.

    plain: a write of FLUSH_BYTES empties the L2, and all contenders of a round read the same inputs.
    Otherwise kept lines are released first, and each run reads other inputs than the last.
    """

    def __init__(self, device, plain=False):
        self.device, self.plain = device, plain
        self.buffer = torch.empty(
            FLUSH_BYTES if device.type == "cuda" else 1 << 20, dtype=torch.uint8, device=device
        )

    def turn(self, round, place, contenders):
        """The number of the inputs for a run at a place of a round, modulo the number of sets."""
        return round if self.plain else round * contenders + place

    def flush(self):
        if self.device.type == "cuda" and not self.plain:
            reset_persisting()
            self.buffer.fill_(2)  # gives the host time to run ahead
        self.buffer.fill_(1)

    def start(self, run):
        """Enqueues a run. Returns the handle that `finish` turns into a time, the host's time in us, and its
        result."""
        self.flush()
        if self.device.type != "cuda":
            t = time.perf_counter()
            result = run()
            t = time.perf_counter() - t
            return t * 1e3, t * 1e6, result
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        t = time.perf_counter()
        result = run()
        host = time.perf_counter() - t
        b.record()
        return (a, b), host * 1e6, result

    def finish(self, pending):
        synchronize(self.device)
        return [p if isinstance(p, float) else p[0].elapsed_time(p[1]) for p in pending]


@dataclasses.dataclass
class Block:
    """Runs of contenders in turn. `left`: the last run of each, name -> (number of inputs, returned tensors)."""

    pending: dict
    host: dict
    left: dict


def one_block(clock, contenders, sets, fenced, rounds, first):
    """Makes `rounds` runs of each contender, in a random order, into poisoned outputs."""
    block = Block({c.name: [] for c in contenders}, {c.name: [] for c in contenders}, {})
    for c in contenders:
        fenced[c.name].poison()
    draw = random.Random(first)
    for r in range(rounds):
        for place, c in enumerate(draw.sample(contenders, len(contenders))):
            k = clock.turn(r, place, len(contenders)) % len(sets)
            p, h, result = clock.start(lambda: c.run(sets[k], fenced[c.name].tensors))
            block.pending[c.name].append(p)
            block.host[c.name].append(h)
            if r == rounds - 1:
                block.left[c.name] = k, result
            del result
        if r % 8 == 7:
            synchronize(clock.device)
    for name, pending in block.pending.items():
        block.pending[name] = clock.finish(pending)
    return block


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p * len(values)))]


def time_all(clock, contenders, sets, fenced, seconds, blocks=3):
    """(name -> figures, results of the last runs). Makes as many rounds as `seconds` allow, from RUNS to 300."""
    for inputs in sets:
        for c in contenders:
            c.run(inputs, fenced[c.name].tensors)
    synchronize(clock.device)
    t = time.perf_counter()
    one_block(clock, contenders, sets, fenced, 1, 0)
    round_s = time.perf_counter() - t
    least = -(-RUNS // blocks)
    rounds = max(least, min(100, int(seconds / blocks / max(round_s, 1e-6))))
    parts = []
    for b in range(blocks):
        if parts:
            parts[-1].left.clear()  # frees the results
        parts.append(one_block(clock, contenders, sets, fenced, rounds, b))
    return {c.name: figures(c.name, parts) for c in contenders}, parts[-1].left


def figures(name, parts):
    medians = [statistics.median(p.pending[name]) for p in parts]
    times = [t for p in parts for t in p.pending[name]]
    ms = statistics.median(times)
    return {
        "ms": ms,
        "blocks_ms": medians,
        "spread": (max(medians) - min(medians)) / ms if ms else 0.0,
        "p10_ms": percentile(times, 0.1),
        "p90_ms": percentile(times, 0.9),
        "runs": len(times),
        "host_us": statistics.median(h for p in parts for h in p.host[name]),
    }


# ---- a case --------------------------------------------------------------------------------------


def text_of(error):
    lines = str(error).strip().split("\n")
    return f"{type(error).__name__}: " + " | ".join(lines[:3])[:300]


def usable(problem, sets, fenced, expected):
    """The contenders that compute correct results, and rows with the faults of the others."""
    good, rows = [], {}
    for c in problem.contenders:
        row = rows[c.name] = {"ours": c.ours, "note": c.note}
        t = time.perf_counter()
        try:
            got = run_checked(problem, c.run, sets[0], fenced[c.name])
            wrong, row["error"] = compare(problem, c, got, fenced[c.name], expected.of(0))
        except Exception as error:  # a missing or broken contender must not stop the others
            wrong = text_of(error)
        row["first_s"] = time.perf_counter() - t
        if wrong:
            row["failed"] = wrong
        else:
            good.append(c)
    return good, rows


def check_left(problem, contenders, sets, fenced, expected, left):
    """name -> the fault in the results of the last timed run, if any."""
    found = {}
    for c in contenders:
        k, returned = left[c.name]
        got = results(problem, sets[k], fenced[c.name], returned)
        wrong, _ = compare(problem, c, got, fenced[c.name], expected.of(k))
        if wrong:
            found[c.name] = "the last timed run: " + wrong
    return found


def sets_of(problem):
    first = problem.inputs(0)
    size = sum(t.element_size() * t.numel() for t in first.values())
    return [first] + [problem.inputs(k) for k in range(1, max(2, min(SETS, int(MOST_BYTES // size))))]


def run_problem(problem, device, seconds, plain_flush=False):
    """The record of a case: its key, the request, a row for each contender. Raises if there is no reference
    or no plain arithmetic."""
    sets = sets_of(problem)
    fenced = {c.name: Fenced(problem.outputs(sets[0]), device) for c in problem.contenders}
    expected = Expected(problem, sets, device)
    expected.of(0)
    good, rows = usable(problem, sets, fenced, expected)
    timed = [c for c in good if c.timed]
    if timed and seconds > 0:
        clock = Clock(device, plain_flush)
        times, left = time_all(clock, timed, sets, fenced, seconds)
        for name, row in times.items():
            rows[name].update(row)
            rows[name]["tflops"] = problem.flops / row["ms"] / 1e9
            rows[name]["gbs"] = problem.bytes / row["ms"] / 1e6
        found = check_left(problem, timed, sets, fenced, expected, left)
        for c in timed:
            got = run_checked(problem, c.run, sets[-1], fenced[c.name])
            wrong, _ = compare(problem, c, got, fenced[c.name], expected.of(len(sets) - 1))
            if wrong:
                found.setdefault(c.name, "after timing: " + wrong)
        for name, wrong in found.items():
            rows[name]["failed"] = wrong
    return {
        "key": problem.key,
        "flops": problem.flops,
        "bytes": problem.bytes,
        "sets": len(sets),
        "rows": rows,
    }
