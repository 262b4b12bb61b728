"""Random programs from the compiler's tables: every op in every context on every element type.

Usage: programs.py --tegula PROGRAM [--seed S] [--seconds T] [--programs N] [--targets cpu,sim:sm_80]
                   [--jobs J] [--first I] [--most F] [--table] [--keep FOLDER] [--reached FILE] [--count-only]

A program reaches some goals, triples of an op, a context and an element. The interpreter and each target
run it. Goals are drawn from the cells that some target has not reached. Integers, bools and exact floats
have to agree in every bit, approximations within their bound. A failing program is reduced, and printed
with its command lines and with the options that repeat it: a seed, a number and goals determine a program.
A table at the end shows the reached cells. `--reached FILE` adds it up over runs, `--count-only` shows it
without running programs. docs/inside/testing.md has more.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from gen import draw, reach, reduce, run  # noqa: E402
from gen.data import Pool  # noqa: E402
from gen.generate import Generator, legal  # noqa: E402
from gen.ops import Registry  # noqa: E402
from gen.tables import Tables  # noqa: E402

CHUNK = 24  # programs a process


class Worker:
    """Makes and runs chunks of programs, in a process of its own."""

    def __init__(self, o):
        self.o = o
        self.tables = Tables(o.opt)
        self.registry = Registry(self.tables)
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=o.folder))
        self.pool = Pool(self.folder)
        self.runner = run.Runner(o.tegula, o.targets, self.folder)
        Generator.plain_bools = o.plain_bools

    def program(self, number, goals):
        return Generator(self.tables, self.registry, self.pool, self.o.seed, number, goals).make()

    def chunk(self, first, goals):
        """(cells reached by target, failures as texts, (programs, their kernels)) of the programs with these goals."""
        programs = [self.program(first + i, g) for i, g in enumerate(goals)]
        reached = {t: set() for t in self.o.targets}
        texts = []
        results = [(self.o.targets, [])] * len(programs) if self.o.count_only else self.runner.check(programs)
        for p, g, (ran, failures) in zip(programs, goals, results):
            for t in ran:
                reached[t] |= p.reached()
            if failures:
                texts.append((", ".join(f.target for f in failures), failures[0].kind, self.report(p, g, failures)))
        return reached, texts, (len(programs), sum(p.kernels() for p in programs))

    def report(self, program, goals, failures):
        f = failures[0]
        text = f"FAIL seed {self.o.seed} program {program.number} on {', '.join(x.target for x in failures)}\n"
        text += f"again: --seed {self.o.seed} --first {program.number} --goals {shlex.quote(draw.spelt(goals))}\n"
        if self.o.small:
            program, f = reduce.reduced(program, f, self.runner)
        text += f"{program.source()}{f.text}\n  tegula run {f.line}\n"
        if self.o.keep:
            keep = pathlib.Path(self.o.keep)
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{self.o.seed}-{program.number}.teg").write_text(program.source())
            line = f.line
            for p in program.used:
                if p.argument.startswith("@"):
                    path = p.argument[1:].split(".npy")[0] + ".npy"
                    shutil.copy(path, keep)
                    line = line.replace(path, str(keep / pathlib.Path(path).name))
            (keep / f"{self.o.seed}-{program.number}.line").write_text(line + "\n" + f.text + "\n")
        return text


worker = None


def start(o):
    global worker
    worker = Worker(o)


def chunk(first, goals):
    return worker.chunk(first, goals)


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--tegula", required=True)
    p.add_argument("--opt", help="tegula-opt, for its tables; default: beside tegula")
    p.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    p.add_argument("--seconds", type=float, help="stop after these")
    p.add_argument("--programs", type=int, help="stop after so many")
    p.add_argument("--first", type=int, default=0, help="number of the first program")
    p.add_argument("--targets", default="cpu")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--most", type=int, default=3, help="stop after so many failures")
    p.add_argument("--as-they-are", dest="small", action="store_false", help="failing programs are not made smaller")
    p.add_argument("--table", action="store_true", help="list the ops that are not reached everywhere")
    p.add_argument("--plain-bools", action="store_true", help="bytes of bools are 0 and 1 alone")
    p.add_argument("--keep", help="a folder for failing programs and their arguments")
    p.add_argument("--least", type=float, default=0, help="per cent of the cells that each target has to reach")
    p.add_argument("--goals", help="of one program: OP/CONTEXT/ELEMENT,...")
    p.add_argument("--ops", help="goals of ops alone whose names begin so: window,parts")
    p.add_argument("--reached", help="a file of the cells that earlier runs reached, which this run adds to")
    p.add_argument("--count-only", action="store_true", help="programs are made and not run: cells that they would reach")
    o = p.parse_args()
    o.targets = o.targets.split(",")
    o.opt = o.opt or str(pathlib.Path(o.tegula).parent / "tegula-opt")
    o.goals = o.goals and draw.read(o.goals)
    if o.goals:
        o.programs = 1
    elif o.seconds is None and o.programs is None:
        o.programs = 200
    return o


def main():
    o = options()
    cells = [c for c in legal(Registry(Tables(o.opt))) if not o.ops or c[0].startswith(tuple(o.ops.split(",")))]
    print(f"seed {o.seed}", flush=True)
    begin = time.monotonic()
    shm = pathlib.Path("/dev/shm")
    o.folder = tempfile.mkdtemp(prefix="tegula-fuzz-", dir=shm if os.access(shm, os.W_OK) else None)
    tally = reach.Tally(o)
    drawn = draw.Draw(cells, o.seed)
    end = o.first + o.programs if o.programs else None
    at = o.first
    try:
        with concurrent.futures.ProcessPoolExecutor(o.jobs, initializer=start, initargs=(o,)) as pool:
            running = set()
            while True:
                late = o.seconds is not None and time.monotonic() - begin > o.seconds
                while not late and len(running) < o.jobs and (end is None or at < end) and tally.failed < o.most:
                    n = min(CHUNK, end - at) if end else CHUNK
                    goals = [o.goals or drawn.goals(at + i, tally.everywhere()) for i in range(n)]
                    running.add(pool.submit(chunk, at, goals))
                    at += n
                if not running:
                    break
                done, running = concurrent.futures.wait(running, return_when="FIRST_COMPLETED")
                for d in done:
                    tally.add(*d.result())
        tally.save()
    finally:
        shutil.rmtree(o.folder, ignore_errors=True)
    return tally.close(cells, time.monotonic() - begin)


if __name__ == "__main__":
    sys.exit(main())
