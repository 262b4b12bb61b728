"""Checks that the races and waits that the compiler reports are real.

Usage: misuse.py --tegula PROGRAM [--count N] [--seed S]

Random kernels of several ranks access shards, raise words and wait for them, depending on expressions of
the rank. If `tegula check` reports a race of two ranks or an endless wait, the same kernel is rewritten so
that the compiler cannot know (`rank + o`, where o is an argument). The interpreter runs it with the number
of ranks in the message. It has to find that race, or that no rank can continue.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

# `@` becomes nothing if the compiler is to see the expression, and ` + o` otherwise.
SHARDS = [
    "(rank@ + 1) % W", "(rank@ + 2) % W", "(rank@ + 4) % W", "(rank@ + W - 1) % W", "(rank@) / 2",
    "W - 1 - (rank@)", "rank@", "0@", "1@", "(rank@) * 2 % W", "min(rank@ + 1, W - 1)",
    "max(rank@ - 1, 0)", "rank@ < 2 ? 0 : rank@",
]  # fmt: skip
CONDITIONS = [
    "rank@ == 0", "rank@ > 0", "rank@ < W - 1", "rank@ < 2", "(rank@) % 2 == 0", "W@ > 3",
]  # fmt: skip
OWN = ["m.start@ == 0", "m.start > 0 && rank@ == 1", "rank@ > 0 || m.start == 0", "m.end > 2"]
SUBSCRIPTS = ["0, m", "0, m", "1, m", "rank@, m", "(rank@ + 1) % W, m"]
MEETS = "signal_op(s[(rank + 1) % W][0], 1, op = add); signal_wait_until(s[rank][0], ge, 1);"
HEAD = "kernel k(x: f32[M], t: sym f32[W][W, M], s: sym i64[W][2], y: f32[40, M], o: i64)"


class Misuse:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def around(self, conditions, inner):
        """The statement itself, in a choice, or in a loop."""
        k = self.r.random()
        if k < 0.3:
            return f"if {self.r.choice(conditions)} {{ {inner()} }}"
        if k < 0.4:
            return f"if {self.r.choice(conditions)} {{ {inner()} }} else {{ {inner()} }}"
        if k < 0.5:
            return f"for i in {self.r.choice(['2', 'rank@', 'W', 'o + 1'])} {{ {inner()} }}"
        return inner()

    def touch(self):
        place = f"t[{self.r.choice(SHARDS)}][{self.r.choice(SUBSCRIPTS)}]"
        if self.r.random() < 0.6:
            return f"{place} = {self.r.randint(1, 9)};"
        return f"y[{self.r.randint(0, 38)}, m] = {place};"

    def races(self):
        # The interpreter runs the programs of a rank one after another, so a wait in one orders the next,
        # too. Kernels with waits therefore have one program.
        meets = self.r.random() < 0.3
        conditions, step = (CONDITIONS, 4) if meets else (CONDITIONS + OWN, 2)
        lines = [self.around(conditions, self.touch) for _ in range(self.r.randint(1, 3))]
        if meets:
            lines.insert(self.r.randint(0, len(lines)), MEETS)
        return [f"parallel m in M by {step} {{", "y[39, m] = x[m] + (o + s[rank][1]) as f32;", *lines, "}"]

    def signal(self):
        word = self.r.choice(["0@", "0@", "1@", "(rank@) % 2"])
        value = self.r.choice(["0@", "1@", "1@", "2@", "W@ - 1", "rank@"])
        if self.r.random() < 0.5:
            compare = self.r.choice(["ge", "ge", "ge", "eq", "ne", "gt"])
            return f"signal_wait_until(s[rank][{word}], {compare}, {value});"
        how = self.r.choice(["", "", ", op = add"])
        return f"signal_op(s[{self.r.choice(SHARDS)}][{word}], {value}{how});"

    def waits(self):
        lines = [self.around(CONDITIONS, self.signal) for _ in range(self.r.randint(2, 6))]
        at = self.r.randint(0, len(lines))
        if self.r.random() < 0.3:
            lines[at:at] = ["}", "parallel {"]
        first = "parallel m in M { y[39, m] = x[m] + (o as f32) + t[rank][0, m]; }"
        return [first, "parallel {", *lines, "}"]

    def source(self):
        lines = self.races() if self.r.random() < 0.5 else self.waits()
        return HEAD + " {\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def tegula(args, *words):
    p = subprocess.run([args.tegula, *words], capture_output=True, text=True)
    return p.stdout + p.stderr


def runs_into(args, path, ranks):
    """The interpreter's output for a run with this number of ranks."""
    data = {"x": "iota(4)", "t": f"zeros({ranks},{ranks},4)", "s": f"zeros({ranks},2):i64", "o": "0"}
    data["y"] = f"zeros({ranks},40,4)"
    words = [w for k, v in data.items() for w in ("-a", f"{k}={v}")]
    return tegula(args, "run", path, "--target", "interp", "--check", "--ranks", str(ranks), *words)


def check(args, seed, path):
    """None: the compiler reports nothing. Otherwise whether the report is real, and the output."""
    text = Misuse(seed).source()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("@", ""))
    said = [line for line in tegula(args, "check", path).split("\n") if " error: " in line]
    if not said or "raises a signal of" in said[0] or "only a later phase" in said[0]:
        return None
    found = re.search("with (\\d) ranks", said[0])
    waits = re.search("waited for here|waits for here|waits here for ever", said[0])
    expect = "no rank can go on" if waits else "nothing orders the two"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace("@", " + o"))
    outputs = [runs_into(args, path, n) for n in ([int(found[1])] if found else [4, 3])]
    return any(expect in x for x in outputs), f"{said[0]}\n{outputs[0]}\n{text}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tegula", required=True)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    reported = failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seed, args.seed + args.count):
            result = check(args, seed, os.path.join(folder, "k.teg"))
            reported += result is not None
            if result is not None and not result[0]:
                failures += 1
                print(f"seed {seed}: not found by a run: {result[1]}")
    print(f"{args.count} programs, {reported} reported, {failures} of these wrongly")
    return failures > 0 or reported < args.count / 4


if __name__ == "__main__":
    sys.exit(main())
