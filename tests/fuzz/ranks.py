"""Differential fuzzing of several ranks: random kernels with symmetric tensors, all plans.

Usage: ranks.py --tegula PROGRAM [--count N] [--seed S] [--target cpu] [--keep]

As kernels.py, with one to four phases. Each phase fills a tensor of its own (the own shard, a part of all
shards, sums over ranks, atomics, puts followed by signals) or an output, from the shards of all ranks after
earlier phases. Some phases are in a loop. Tiles of two phases may differ in height. Settings alternate
among the plans of transfers.
"""

import re
import sys

import kernels
import numpy as np
from kernels import EXACT, INTS, NUMPY, X, Generator, harness


class Ranks(Generator):
    def __init__(self, seed):
        super().__init__(seed)
        self.grid = False  # whether the phase has an index `r` over all ranks
        self.shards = []  # readable symmetric tensors: X with the name as its text

    # ---- tensors

    def data(self, elem, shape, lo, hi):
        values = np.random.default_rng(self.r.getrandbits(32)).integers(lo, hi, shape)
        return harness.bf16(values.astype(np.float64)) if elem == "bf16" else values.astype(NUMPY[elem])

    def tensor(self, elem, dims, lo=-4, hi=5):
        """An ordinary input, equal on all ranks or different."""
        lo = 0 if elem.startswith("u") else lo
        t, shape = self.name("t"), [self.dims[d] for d in dims]
        if self.r.random() < 0.5:
            shape = [self.dims["W"]] + shape
        self.arrays[t] = self.data(elem, shape, lo, hi)
        self.params.append(f"{t}: {elem}[{', '.join(dims)}]")
        return t

    def sym(self, stem, elem, dims, filled=False):
        """A symmetric tensor: an input, or one that a phase fills."""
        t, shape = self.name(stem), [self.dims[d] for d in ("W",) + dims]
        self.params.append(f"{t}: sym {elem}[W][{', '.join(dims)}]")
        if filled:
            self.arrays[t] = f"zeros({','.join(map(str, shape))}):{elem}"
            self.outs[t] = (elem, True)
        else:
            lo, axis = 0 if elem.startswith("u") else -4, self.r.randrange(2 * len(shape))
            if 0 < axis < len(shape) and elem != "bf16":  # shards with gaps, or transposed
                how = self.r.choice(["::2", "::-1"])
                shape[axis] *= 2 if how == "::2" else 1
                spec = [":"] * axis + [how]
                self.arrays[t] = harness.sliced(self.data(elem, shape, lo, 5), f"[{', '.join(spec)}]")
            else:
                self.arrays[t] = self.data(elem, shape, lo, 5)
        return t

    def some_rank(self):
        near = ["r", "r", "r", "(r + rank) % W"] if self.grid else []
        return self.r.choice(near + ["rank", "(rank + 1) % W", "W - 1 - rank", "0", "W - 1", "W"])

    def load(self, shape, elem):
        if self.r.random() < 0.4:
            return super().load(shape, elem)
        dims = tuple(self.dim_of(e) for e in shape)
        known = [x for x in self.shards if x.elem == elem and x.shape == dims]
        if known and self.r.random() < 0.7:
            x = self.r.choice(known)
        else:
            x = X(self.sym("a", elem, dims), elem, dims, 5)
            self.shards.append(x)
        subs = self.subs(shape)
        pad = self.r.choice(["", "", ", pad = 1"]) if subs else ""
        return X(f"{x.text}[{self.some_rank()}][{', '.join(subs)}{pad}]", elem, shape, max(x.bound, 1))

    def leaf(self, shape, elem):
        if not shape and self.r.random() < 0.3:
            return X(f"(({self.some_rank()}) as {elem})", elem, (), 4)
        return super().leaf(shape, elem)

    # ---- phases

    def own(self):
        """Each rank fills its shard."""
        x = self.value(False)
        t = self.sym("own", x.elem, ("M", "N"), True)
        self.emit(f"{t}[rank][m, n] = {x.text};")
        return [X(t, x.elem, ("M", "N"), x.bound)]

    def part(self):
        """Each rank fills a part of all shards."""
        x = self.value(True)
        t = self.sym("part", x.elem, ("W", "M", "N"), True)
        put = self.r.random() < 0.3
        place = f"{t}[r][rank, m, n]"
        self.emit(f"put({place}, {x.text});" if put else f"{place} = {x.text};")
        return []

    def sums(self):
        """All ranks contribute to all shards."""
        elem = self.r.choice(["f32", "f32", "i32", "f64"])
        x = self.value(True, elem)
        ops = ["max", "min"] + ["add"] * 3 * (elem in INTS or x.bound * 4 <= EXACT[elem])
        op, keep = self.r.choice(ops), self.r.choice(["", "", ", keep = true"])
        t = self.sym("sum", elem, ("M", "N"), True)
        self.emit(f"combine({t}[r][m, n], {x.text}, {op}{keep});")
        return [X(t, elem, ("M", "N"), x.bound * (4 if op == "add" else 1))]

    def counts(self):
        """Atomics on any shard."""
        self.grid = self.r.random() < 0.5
        e = self.r.choice(["BM", "BN"])
        x = self.expr((e,), "i32", 1)
        t = self.sym("count", "i32", (self.dim_of(e),), True)
        self.emit(f"atomic_add({t}[{self.some_rank()}][{self.sub(e)}], {x.text});")
        return [X(t, "i32", (self.dim_of(e),), 2**31)]

    def output(self):
        x = self.value(self.r.random() < 0.7)
        dims = ("W",) * self.grid + ("M", "N")
        o = self.out(x.elem, dims)
        self.emit(f"{o}[{'r, ' * self.grid}m, n] = {x.text};")
        return []

    def value(self, grid, elem=None):
        """The value that the programs of a phase compute, after some statements."""
        self.grid = grid
        for _ in range(self.r.randint(0, 2)):
            self.r.choice([self.let, self.let, self.loop, self.branch])()
        return self.clamp(self.expr(("BM", "BN"), elem or self.elem(), self.r.randint(0, 2)))

    def phase(self, fill):
        """A phase. Later phases may read the tensor that it fills, but it may not."""
        self.begin()
        filled = fill()
        loops = ["m in M by BM", "n in N by BN"]
        if self.grid:
            loops.insert(self.r.randint(0, 2), "r in W")
        self.shards += filled
        lines = [f"    parallel {', '.join(loops)} {{", *self.lines, "    }"]
        # Tiles of this phase may have another height than those of other phases.
        if self.r.random() < 0.4:
            lines = [re.sub(r"\bBM\b", "BH", x) for x in lines]
        # A phase that does not add to its tensor may be repeated.
        again = fill in (self.own, self.part, self.sums) and "keep" not in lines[-2]
        if again and self.r.random() < 0.3:
            lines = [f"    for turn in {self.r.randint(1, 4)} {{", *lines, "    }"]
        return lines

    def swap(self):
        """One program sends a row to another rank, raises its signal and waits for its own."""
        self.grid, self.lines, self.scope, self.ranges = False, [], [], {"BN": "n"}
        s, t = self.sym("signal", "i64", ("One",), True), self.sym("row", "f32", ("N",), True)
        o, by = self.out("f32", ("N",)), self.r.randint(0, 3)
        x = self.expr(("BN",), "f32", 1)
        if self.r.random() < 0.5:
            send = f"put_signal({t}[to][n], {x.text}, {s}[to][0], 1, op = add);"
            after, count = "", "ceildiv(N, BN)"
        else:
            send, count = f"{t}[to][n] = {x.text};", "5"
            after = self.r.choice([
                f"{self.r.choice(['', 'fence();', 'quiet();'])} signal_op({s}[to][0], 5);",
                f"{self.r.choice(['fence();', 'quiet();'])} put({s}[to][0], 5);",
                f"fence(); {s}[to][range(0, One, 4)] = 5;",
                f"quiet(); atomic_add({s}[to][0], 5);",
            ])
        peer = self.r.choice(["", f", peer = (rank + 3 * W - {by}) % W"])
        return [
            "    parallel {",
            f"        let to = (rank + {by}) % W;",
            f"        for n in N by BN {{ {send} }}",
            f"        {after}",
            f"        signal_wait_until({s}[rank][0], ge, {count}{peer});",
            f"        for n in N by BN {{ {o}[n] = {t}[rank][n] + 1.0; }}",
            "    }",
        ]

    def source(self):
        r = self.r
        self.dims = {"M": r.choice([1, 3, 8, 17, 33]), "N": r.choice([1, 2, 8, 19, 32])}
        self.dims |= {"K": r.choice([1, 7, 16]), "W": r.choice([1, 2, 2, 3, 4]), "One": 1}
        tunes = {"BM": r.sample([1, 2, 3, 4, 8, 16], 2), "BN": r.sample([1, 4, 5, 8, 16, 32], 2)}
        tunes |= {"BK": r.sample([1, 4, 8, 16], 2), "BH": r.sample([1, 2, 3, 4, 6, 8, 16], 2)}
        self.sym("first", "f32", ("M", "N", "K"))  # this tensor names all dims
        self.tensor("f32", ("One",))
        kinds = [self.own, self.part, self.sums, self.sums, self.counts]
        lines = sum((self.phase(r.choice(kinds)) for _ in range(r.randint(0, 3))), [])
        if r.random() < 0.2:
            lines += self.swap()
        lines += self.phase(self.output)
        clauses = ", ".join(f"{k} = {' | '.join(map(str, v))}" for k, v in tunes.items())
        body = "\n".join(lines)
        text = (
            f"{kernels.BOTH * self.uses_both}kernel fuzz({', '.join(self.params)})\n"
            f"tune {clauses}\n{{\n{body}\n}}\n"
        )
        settings = [{k: v[i] for k, v in tunes.items()} for i in (0, 1)]
        for s in settings:
            if r.random() < 0.8:
                s["plan"] = r.choice(["direct", "before", "pull", "push", "copies", "put"])
            if r.random() < 0.5:
                s["chunks"] = r.randint(1, 3)
        self.flags = ["--ranks", str(self.dims["W"])]
        return text, settings


if __name__ == "__main__":
    sys.exit(kernels.main(Ranks))
