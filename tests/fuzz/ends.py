"""Random blocks whose ranges end inside of them. A run in Python tells which elements exist.

Usage: ends.py --tegula PROGRAM [--count N] [--seed S] [--target T]

Statements change two variables of 8 lanes by reads along ranges, shapes, choices, sorts and loops. Python
runs the same statements with a truth value for each element. `present` has to agree exactly, or to be true
for all with a warning.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

import numpy as np

LANES = 8
LANE = np.arange(LANES)
WARNING = "cannot be told from others"
HEAD = "kernel k(x: f32[N], y: bool[8], z: i64[2], f: i32, g: i32, t: i64, q: i64) {\n    parallel {\n"
START = "let n = range(0, N, 8);\nlet m = range(0, q, 8);\n"
END = "y[:] = present(a);\nz[0] = argmin(a);\nz[1] = argmax(a) + 0 * (f + g + t);\n    }\n}\n"


def read(x, lo, count):
    """Values and presence of a range's lanes."""
    inside = (LANE < count) & (lo + LANE < len(x))
    return np.where(inside, x[np.minimum(lo + LANE, len(x) - 1)], 0), LANE < count


def gathered(a, at):
    inside = at < LANES
    at = np.where(inside, at, 0)
    return np.where(inside, a[0][at], 0), ~inside | a[1][at]


def moved(a, change):
    return change(a[0]), change(a[1])


# Spelling, number of operands, and meaning on blocks (values, presence); e: the arguments.
OPS = [
    ("a", 0, lambda e: e["a"]),
    ("b", 0, lambda e: e["b"]),
    ("x[n]", 0, lambda e: read(e["x"], 0, min(LANES, len(e["x"])))),
    ("x[m]", 0, lambda e: read(e["x"], 0, e["q"])),
    ("x[range(0, min(q, 2), 8)]", 0, lambda e: read(e["x"], 0, min(e["q"], 2))),
    ("(iota(8) as f32 * -1 - 3)", 0, lambda e: (-3.0 - LANE, LANE >= 0)),
    ("flip({}, axis = 0)", 1, lambda e, a: moved(a, lambda v: v[::-1])),
    ("concat({0}[3 .. 8], {0}[0 .. 3], axis = 0)", 1, lambda e, a: moved(a, lambda v: np.roll(v, -3))),
    ("reshape(trans(reshape({}, 2, 4)), 8)", 1, lambda e, a: moved(a, lambda v: v.reshape(2, 4).T.reshape(8))),
    ("broadcast({}[4 .. 5], 8)", 1, lambda e, a: moved(a, lambda v: np.repeat(v[4], LANES))),
    ("sort({})", 1, lambda e, a: moved(a, lambda v, order=np.argsort(a[0], kind="stable"): v[order])),
    ("gather({}, iota(8) * q % 9)", 1, lambda e, a: gathered(a, LANE * e["q"] % 9)),
    ("({} + {})", 2, lambda e, a, b: (a[0] + b[0], a[1] & b[1])),
    ("max({}, {})", 2, lambda e, a, b: (np.maximum(a[0], b[0]), a[1] & b[1])),
    ("(f > 0 ? {} : {})", 2, lambda e, a, b: a if e["f"] else b),
    ("({} > 0 ? {} : {})", 3,
     lambda e, c, a, b: (np.where(c[0] > 0, a[0], b[0]), c[1] & np.where(c[0] > 0, a[1], b[1]))),
]  # fmt: skip
IN_CHUNKS = ("x[i]", 0, lambda e: read(e["x"], e["i"], min(LANES, len(e["x"]) - e["i"])))


class Program:
    """Statements as (lines of Tegula, function of the arguments)."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.names = 0

    def block(self, depth, chunks):
        ops = OPS + [IN_CHUNKS] * chunks
        text, n, run = self.r.choice(ops if depth else [op for op in ops if not op[1]])
        parts = [self.block(depth - 1, chunks) for _ in range(n)]
        return text.format(*[p[0] for p in parts]), lambda e: run(e, *[p[1](e) for p in parts])

    def assignment(self, chunks):
        name = self.r.choice("ab")
        text, run = self.block(2, chunks)
        return f"{name} = {text};\n", lambda e: e.update({name: run(e)})

    def several(self, depth, chunks):
        parts = [self.statement(depth, chunks) for _ in range(self.r.randint(1, 3))]
        return "".join(p[0] for p in parts), lambda e: [p[1](e) for p in parts]

    def statement(self, depth, chunks):
        kind = self.r.choice(["set", "set", "if", "for", "while", "chunks"]) if depth else "set"
        if kind == "set":
            return self.assignment(chunks)
        text, run = self.several(depth - 1, chunks or kind == "chunks")
        self.names += 1
        name = f"k{self.names}"
        if kind == "if":
            no, run_no = self.several(depth - 1, chunks)
            return f"if g > 0 {{\n{text}}} else {{\n{no}}}\n", lambda e: (run if e["g"] else run_no)(e)
        if kind == "chunks" and not chunks:
            return f"for i in N by 8 {{\n{text}}}\n", lambda e: chunked(run, e)
        if kind == "while":
            text = f"var {name}: i64 = 0;\nwhile {name} < t {{\n{name} += 1;\n{text}}}\n"
        else:
            text = f"for {name} in t {{\n{text}}}\n"
        return text, lambda e: [run(e) for _ in range(e["t"])]


def chunked(run, e):
    for e["i"] in range(0, len(e["x"]), LANES):
        run(e)


def expected(x, run, args, told):
    e = dict(args, x=x)
    e["a"] = e["b"] = read(x, 0, args["q"])
    run(e)
    values, there = e["a"]
    at = np.flatnonzero(there | (not told))
    ends = [at[values[at].argmin()], at[values[at].argmax()]] if len(at) else [-1, -1]
    return [int(i in at) for i in LANE], [int(i) for i in ends]


def numbers(output, name):
    words = re.search(rf"^{name}: \S+ = (.*)$", output, re.M)[1].split()
    return [int(word == "true") if word in ("true", "false") else int(word) for word in words]


def wrong(options, path, program, run):
    """The difference in a run of the program, or None; and whether the compiler warned."""
    r = program.r
    n = r.choice([3, 5, 8, 11])
    args = {"f": r.randrange(2), "g": r.randrange(2), "t": r.randrange(4), "q": min(n, r.choice([1, 2, 4, 6]))}
    words = [f"x=iota({n})", "y=zeros(8):bool", "z=zeros(2):i64"] + [f"{k}={v}" for k, v in args.items()]
    command = [options.tegula, "run", path, "--target", options.target]
    done = subprocess.run(command + [w for word in words for w in ("--arg", word)], capture_output=True, text=True)
    if done.returncode:
        return done.stderr, False
    told = WARNING not in done.stderr
    want = expected(np.arange(n, dtype=np.float64), run, args, told)
    got = numbers(done.stdout, "y"), numbers(done.stdout, "z")
    return None if list(got) == list(want) else f"{' '.join(words)}: {got}, not {want}", told


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tegula", required=True)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--target", default="interp")
    options = p.parse_args()
    known = 0
    with tempfile.TemporaryDirectory(prefix="tegula-ends-") as folder:
        path = os.path.join(folder, "k.teg")
        for seed in range(options.seed, options.seed + options.count):
            program = Program(seed)
            text, run = program.several(2, False)
            source = HEAD + START + "var a = x[m];\nvar b = x[m];\n" + text + END
            with open(path, "w") as f:
                f.write(source)
            for _ in range(2):
                problem, told = wrong(options, path, program, run)
                known += told
                if problem:
                    sys.exit(f"seed {seed}: {problem}\n{source}")
    print(f"{options.count} programs, in {known} of {2 * options.count} runs it is known which elements are there")
    if known < options.count // 4:
        sys.exit("too few are known")


if __name__ == "__main__":
    main()
