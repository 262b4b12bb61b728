"""Runs the cases of tests/run/NAME.py on every executor and compares with their references.

Usage: run.py --tegula PROGRAM [--target T]... [--keep] [-k TEXT] CASES.py... One process (`tegula run
--batch`) makes all runs of a case file. If it dies, the current run has failed and a new process continues
with the next.
"""
import argparse
import math
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import harness  # noqa: E402
import turns as days  # noqa: E402
from batch import LIMIT, run_lines  # noqa: E402

# Half a unit in the last place of 1, by element.
EPS = {"f8e5m2": 2.0 ** -3, "f8e4m3": 2.0 ** -4, "bf16": 2.0 ** -9, "float16": 2.0 ** -12,
       "float32": 2.0 ** -24, "float64": 2.0 ** -53}


# Half of the least positive value; and the greatest finite value, beyond which a result is inf or (f8)
# saturates.
TINY = {"f8e5m2": 2.0 ** -17, "f8e4m3": 2.0 ** -10, "bf16": 2.0 ** -134, "float16": 2.0 ** -25,
        "float32": 2.0 ** -150, "float64": 0.0}
GREATEST = {"f8e5m2": 57344.0, "f8e4m3": 448.0, "bf16": float.fromhex("0x1.fep127"), "float16": 65504.0,
            "float32": float.fromhex("0x1.fffffep127"), "float64": math.inf}


# Targets whose units sum some or all f8 products in few bits. A device may be one.
FEW_BITS = re.compile("cuda|sim:sm_(89|9|1)")


class Run:
    """One case with one setting on one executor."""

    def __init__(self, case, setting, target):
        self.case, self.setting, self.target = case, setting, target
        sets = " ".join(f"{k}={v}" for k, v in setting.items())
        self.title = f"{case.name} {sets + ' ' if sets else ''}[{target}]"


def argument(name, value, folder, prefix):
    """The text after --arg. Writes a file for an array."""
    if isinstance(value, str):
        return f"{name}={value}"
    if value is None:
        return f"{name}=none"
    if isinstance(value, (bool, np.bool_)):
        return f"{name}={'true' if value else 'false'}"
    if isinstance(value, (int, float, np.integer, np.floating)):
        return f"{name}={value!r}"
    data = harness.as_data(value)
    path = folder / f"{prefix}-{name}.npy"
    if not path.exists():
        np.save(path, data.stored)
    return f"{name}=@{path}{data.suffix}"


def reference_values(case):
    """The arguments as the reference sees them: f64 or int64."""
    out = {}
    for name, value in case.args.items():
        if isinstance(value, (harness.Data, np.ndarray)):
            v = np.asarray(harness.as_data(value).value)
            out[name] = v.astype(np.float64 if v.dtype.kind == "f" else np.int64)
        else:
            out[name] = value
    return out


def expected(case):
    if callable(case.expect):
        with np.errstate(all="ignore"):
            return case.expect(**reference_values(case))
    return case.expect or {}


def command(run, number, folder, outputs):
    c = run.case
    words = [str(c.file), "--kernel", c.kernel, "--target", run.target, "--quiet"]
    for name, value in c.args.items():
        words += ["--arg", argument(name, value, folder, f"{harness.CASES.index(c)}")]
    for name in outputs:
        words += ["--out", f"{name}={folder}/out-{number}-{name}.npy"]
    for name, value in run.setting.items():
        words += ["--set", f"{name}={value}"]
    for name, value in c.types.items():
        words += ["--type", f"{name}={value}"]
    return shlex.join(words + list(c.flags))


def cut(case, target):
    """Output -> the error that the target's matrix units may add."""
    return case.cut(**reference_values(case)) if case.cut and FEW_BITS.match(target) else {}


def bound(case, name, want, kind, cut=0.0):
    """The allowed distance of a result from its reference: rounding of the result, and of `length` + `ulps`
    operations on terms of the size `scale`, and the cut of a unit."""
    finite = np.abs(want[np.isfinite(want)])
    scale = case.scale.get(name, float(finite.max()) if finite.size else 0.0)
    accumulate = EPS[case.computes or ("float64" if kind == "float64" else "float32")]
    return TINY[kind] + EPS[kind] * 2 * np.abs(np.nan_to_num(want, posinf=0, neginf=0)) + \
        accumulate * (case.length + case.ulps) * scale + cut


def compare(case, name, want, path, cut):
    """The fault of an output, or ''."""
    got = np.load(path)
    kind = case.out_types.get(name, got.dtype.name)
    if kind in harness.TABLES:
        got = harness.TABLES[kind][got]
    want = np.asarray(want)
    if got.shape != want.shape:
        return f"{name}: shape {got.shape}, expected {want.shape}"
    if kind == "bool":
        got = got.view(np.uint8)  # a result must have the bytes 0 and 1
    if kind not in EPS:
        bad = got.astype(np.int64) != want.astype(np.int64)
        return describe(name, got, want, bad)
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        over = np.abs(want) > GREATEST[kind] * (1 + EPS[kind])
        limit = GREATEST[kind] if kind.startswith("f8") else np.inf
        want = np.where(over, np.copysign(limit, want), want)
        close = np.abs(got - want) <= bound(case, name, want, kind, cut.get(name, 0.0))
    bad = ~(close | (got == want) | (np.isnan(got) & np.isnan(want)))
    return describe(name, got, want, bad)


def describe(name, got, want, bad):
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    where = ", ".join(map(str, at))
    return f"{name}: {int(bad.sum())} of {bad.size} differ, first [{where}]: " \
           f"{got[at]!r}, expected {want[at]!r}"


def is_large(run, text):
    """Whether a setting needs more shared memory than the GPU has. The emulator of machine code runs all
    settings."""
    return run.target == "hip" and bool(run.setting) and "choose smaller tiles" in text


def verdict(run, number, code, text, outputs, folder):
    """The fault of a run; '' if it is correct, None if it is excused."""
    if run.case.fails is not None:
        if code == 1 and run.case.fails in text:
            return ""
        return f"expected failure with '{run.case.fails}', got code {code}:\n{text}"
    if code == 1 and is_large(run, text):
        print(f"SKIP {run.title}: {text.strip().splitlines()[0][:300]}")
        return None
    if code != 0:
        return f"exit code {code}:\n{text}"
    few = cut(run.case, run.target)
    problems = [compare(run.case, name, want, folder / f"out-{number}-{name}.npy", few)
                for name, want in outputs.items()]
    return "\n".join(p for p in problems if p)


def each_settings(case):
    """The compiler's own choice, and the first listed one: small tiles, so that loops iterate."""
    return [{}] + [s for s in case.tune[:1] if s]


def uncovered(files, targets, passed):
    """Kernels of the files without a passing run, and kernels whose cases are all for other targets."""
    names = {(p.resolve(), n) for p in map(pathlib.Path, files)
             for n in re.findall(r"^kernel (\w+)", p.read_text(), re.M)}
    names -= {(r.case.file.resolve(), r.case.kernel) for r in passed if r.case.fails is None}
    here = {(c.file.resolve(), c.kernel) for c in harness.CASES if not c.targets or {*c.targets} & {*targets}}
    other = {(c.file.resolve(), c.kernel) for c in harness.CASES} - here
    return sorted(names - other), sorted(names & other)


def report_uncovered(files, targets, passed):
    """Whether each kernel has passed somewhere. Prints those that have not."""
    missing, other = ([f"{p.stem}.{n}" for p, n in k] for k in uncovered(files, targets, passed))
    if other:
        print(f"not of {', '.join(targets)}, but of other targets: {', '.join(other)}")
    if missing:
        print(f"FAIL no run that passed: {', '.join(missing)}")
    return not missing


def chosen(o, targets):
    """The runs that the options leave."""
    cases = harness.CASES
    if o.each:
        kernels = {}
        for c in cases:
            kernels.setdefault((c.file, c.kernel), []).append(c)
        cases = [c for k in kernels.values() for c in k[:: -(-len(k) // o.each)]]
    turn, turns = map(int, o.turn.split("/"))
    if o.settings > 1 and days.today() is not None:
        turn, turns = days.today(), o.settings
    runs, left_out = [], 0
    for number, c in enumerate(cases):
        first = (turn - 1 + number) % turns
        settings = each_settings(c) if o.each else c.tune
        taken = settings[first % len(settings)::turns]
        on = [t for t in targets if not c.targets or t in c.targets]
        runs += [Run(c, s, t) for t in on for s in taken]
        left_out += (len(settings) - len(taken)) * len(on)
    if o.settings > 1:
        days.say_left_out(left_out, left_out + len(runs))
    part, parts = map(int, o.part.split("/"))
    first, days_ = map(int, o.daily.split("/"))
    return days.share([r for r in runs if o.k in r.title][part - 1 :: parts], days_, first)


def targets_of(program, wanted):
    out = subprocess.run([program, "targets", "--names"], capture_output=True, text=True)
    return wanted or out.stdout.split()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tegula", required=True)
    p.add_argument("--target", action="append")
    p.add_argument("--keep", action="store_true", help="keep the scratch folder and name it")
    p.add_argument("-k", default="", help="only cases whose title holds this text")
    p.add_argument("--limit", type=float, default=LIMIT,
                   help="seconds after which a run hangs: many, since machines are busy")
    p.add_argument("--part", default="1/1", metavar="I/N", help="every Nth run, from the Ith on")
    p.add_argument("--turn", default="1/1", metavar="I/N",
                   help="of each case every Nth setting, one at least; the Ith turn of N that take all")
    p.add_argument("--settings", type=int, default=1, metavar="N",
                   help="of each case every Nth setting, one at least, in turns of a day (turns.py)")
    p.add_argument("--daily", default="1/1", metavar="I/N",
                   help="of the remaining runs every Nth, in turns of a day (turns.py); I shifts the turns")
    p.add_argument("--each", type=int,
                   help="so many cases of each kernel, spread over its list, with the default and the first setting")
    p.add_argument("--covers", nargs="*", default=[], metavar="K.teg", help="each of its kernels must have a run")
    p.add_argument("files", nargs="+")
    o = p.parse_args()

    for file in o.files:
        code = compile(pathlib.Path(file).read_text(), file, "exec")
        exec(code, {"__name__": "case", "__file__": file})
    targets = targets_of(o.tegula, o.target)
    runs = chosen(o, targets)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tegula-run-"))
    references = {id(r.case): expected(r.case) for r in runs}
    lines = [command(r, n, folder, references[id(r.case)]) for n, r in enumerate(runs)]
    failed, passed = 0, []
    for n, (code, text) in enumerate(run_lines(o.tegula, lines, folder, o.limit)):
        wrong = verdict(runs[n], n, code, text, references[id(runs[n].case)], folder)
        if wrong == "":
            passed.append(runs[n])
        elif wrong:
            failed += 1
            print(f"FAIL {runs[n].title}\n  tegula run {lines[n]}\n  " + wrong.replace("\n", "\n  "))
    if o.keep:
        print(f"kept {folder}")
    else:
        shutil.rmtree(folder)
    print(f"{len(passed)} of {len(runs)} runs passed on {', '.join(targets) or 'no target'}")
    covered = report_uncovered(o.covers, targets, passed)
    meant = o.k or o.each or any(not c.targets for c in harness.CASES)  # some cases are only for other targets
    return 1 if failed or not covered or (meant and not runs) else 0


sys.exit(main())
