"""Differential fuzzing: random valid kernels, on the interpreter and on other executors.

Usage: kernels.py --tegula PROGRAM [--count N] [--seed S] [--target cpu] [--keep]

Each program is a random kernel that is valid by construction, with random data and two tile settings.
Floats hold small integers, and the generator keeps every intermediate below the precision of its type.
Sums and products are then exact in any order, and results must agree bit for bit. Only results of a
transcendental function or a division are compared within a bound. A failure prints the seed of its
program, the source and the command lines.
"""

import argparse
import pathlib
import random
import shlex
import shutil
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "run"))
sys.dont_write_bytecode = True
import harness  # noqa: E402
from batch import run_lines  # noqa: E402

# All integers up to this one are values of the type.
EXACT = {"f64": 2**50, "f32": 2**23, "f16": 2**11, "bf16": 2**8}
INTS = {
    "i8": (-128, 127),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u8": (0, 255),
    "u16": (0, 2**16 - 1),
    "u32": (0, 2**32 - 1),
}
NUMPY = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
}
FLOATS = list(EXACT)
TOO_LARGE = "bytes of shared memory of a CTA"  # a kernel that exceeds a GPU's resources has not failed
BOTH = """fn both(a, b) {
    let (p, q) = a;
    let (r, s) = b;
    return (p + r, max(q, s));
}
fn second(t) {
    let (p, q) = t;
    return p + q;
}
"""


class X:
    """An expression: text, element, shape (a tuple of extent names), bound of |value|."""

    def __init__(self, text, elem, shape, bound=0):
        self.text, self.elem, self.shape, self.bound = text, elem, shape, bound


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines, self.params, self.names = [], [], {}
        self.scope = []  # let-bound X
        self.ranges = {}  # extent name -> range name
        self.dims = {}  # dim name -> value
        self.arrays = {}  # tensor -> numpy or Data
        self.outs = {}  # tensor -> (elem, exact)
        self.count = 0
        self.indent = 2
        self.flags = []  # of the command line
        self.uses_both = False

    # ---- pieces

    def begin(self):
        """Makes the ranges of a phase."""
        self.lines, self.scope = [], []
        self.ranges = {"BM": "m", "BN": "n", "16": "whole"}
        self.emit("let whole = range(0, K, 16);")

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def emit(self, text):
        self.lines.append("    " * self.indent + text)

    def tensor(self, elem, dims, lo=-4, hi=5):
        """A new input tensor with small integers."""
        for t, (e, d, b) in self.names.items():
            if e == elem and d == dims and b == max(abs(lo), hi) and self.r.random() < 0.6:
                return t
        t = self.name("t")
        if elem.startswith("u"):
            lo = 0
        shape = [self.dims[d] for d in dims]
        data = np.random.default_rng(self.r.getrandbits(32)).integers(lo, hi, shape)
        self.arrays[t] = (
            harness.bf16(data.astype(np.float64)) if elem == "bf16" else data.astype(NUMPY[elem])
        )
        if elem != "bf16" and len(shape) == 2 and self.r.random() < 0.2:
            self.arrays[t] = harness.fortran(self.arrays[t])
        self.names[t] = (elem, dims, max(abs(lo), hi))
        self.params.append(f"{t}: {elem}[{', '.join(dims)}]")
        return t

    def dim_of(self, extent):
        return {"BM": "M", "BN": "N", "BK": "K", "16": "K"}[extent]

    def sub(self, extent):
        """A subscript along the range of an extent: shifted, strided or gathered."""
        m, d = self.ranges[extent], self.dim_of(extent)
        return self.r.choice(
            [
                m,
                m,
                m,
                m,
                f"{m} + 1",
                f"{m} - 2",
                f"{m} * 2",
                f"2 + {m}",
                f"index({m})",
                f"index({m}) * 3 % {d}",
                f"{d} - 1 - index({m})",
            ]
        )

    def subs(self, shape):
        """A subscript for each extent. Integer blocks are joint: they broadcast to the wanted shape."""
        subs = [self.sub(e) for e in shape]
        blocks = [i for i, s in enumerate(subs) if "index" in s]
        if len(blocks) > 2 or blocks == [0, 2]:
            return [self.ranges[e] for e in shape]
        if len(blocks) == 2:
            subs[blocks[0]] = f"({subs[blocks[0]]})[:, None]"
            subs[blocks[1]] = f"({subs[blocks[1]]})[None, :]"
        return subs

    def load(self, shape, elem):
        dims = tuple(self.dim_of(e) for e in shape)
        subs = self.subs(shape)
        if not shape or self.r.random() < 0.25:  # adds a dimension that a scalar subscript drops
            extra = self.r.choice(["M", "N"])
            dims += (extra,)
            near = self.r.choice(list(self.ranges.values()))
            subs.append(self.r.choice(["0", f"{extra} - 1", f"{extra}", "1", f"{near}.start"]))
        t = self.tensor(elem, dims)
        pad = self.r.choice(["", "", ", pad = 1", ", pad = 2"]) if subs else ""
        return X(f"{t}[{', '.join(subs)}{pad}]", elem, shape, 5)

    def known(self, shape, elem):
        return [x for x in self.scope if x.shape == shape and x.elem == elem]

    # ---- expressions

    def leaf(self, shape, elem):
        near = self.known(shape, elem)
        if near and self.r.random() < 0.5:
            return self.r.choice(near)
        if not shape:
            if elem in INTS and elem == "i64" and self.r.random() < 0.5:
                near = self.r.choice(list(self.ranges.values()))
                return X(self.r.choice([f"{near}.start", f"{near}.end", "M"]), "i64", (), 300)
            if self.r.random() < 0.3:
                return self.load(shape, elem)
            v = self.r.randint(0, 4)
            return X(f"({v} as {elem})", elem, (), v)
        if elem == "i64" and len(shape) == 1 and self.r.random() < 0.4:
            return X(f"index({self.ranges[shape[0]]})", elem, shape, 300)
        return self.load(shape, elem)

    def clamp(self, x):
        """Limits floats to the range in which their type is exact."""
        limit = EXACT.get(x.elem)
        if limit is None or x.bound <= limit:
            return x
        return X(f"min(max({x.text}, -7 as {x.elem}), 7 as {x.elem})", x.elem, x.shape, 7)

    def condition(self, shape, depth):
        e = self.r.choice(["i32", "f32", "i64"])
        a, b = self.expr(shape, e, depth - 1), self.expr(shape, e, depth - 1)
        text = f"({a.text} {self.r.choice(['<', '<=', '>', '>=', '==', '!='])} {b.text})"
        if len(shape) == 1 and self.r.random() < 0.3:
            text = f"({text} && valid({self.ranges[shape[0]]}))"
        return text

    def binary(self, shape, elem, depth):
        a, b = self.expr(shape, elem, depth - 1), self.expr(shape, elem, depth - 1)
        ops = ["+", "-", "*", "min", "max"]
        if elem in INTS:
            ops += ["/", "%", "&", "|", "^", "<<", ">>"]
        op = self.r.choice(ops)
        bound = a.bound * b.bound if op == "*" else a.bound + b.bound
        if elem in EXACT and bound > EXACT[elem]:
            op, bound = "max", max(a.bound, b.bound)
        text = f"{op}({a.text}, {b.text})" if op in ("min", "max") else f"({a.text} {op} {b.text})"
        return X(text, elem, shape, bound)

    def unary(self, shape, elem, depth):
        x = self.expr(shape, elem, depth - 1)
        forms = ["abs({})", "(-{})"] + (
            ["(~{})", "popcount({})", "clz({})"]
            if elem in INTS
            else ["floor({})", "trunc({})", "copysign({0}, -{0})"]
        )
        return X(self.r.choice(forms).format(x.text), elem, shape, x.bound)

    def select(self, shape, elem, depth):
        a, b = self.expr(shape, elem, depth - 1), self.expr(shape, elem, depth - 1)
        return X(
            f"({self.condition(shape, depth)} ? {a.text} : {b.text})",
            elem,
            shape,
            max(a.bound, b.bound),
        )

    def cast(self, shape, elem, depth):
        source = self.r.choice(list(INTS) + FLOATS)
        x = self.expr(shape, source, depth - 1)
        if elem in EXACT and (source in INTS or x.bound > EXACT[elem]):
            low = "0" if source.startswith("u") else f"-6 as {source}"
            x = X(f"min(max({x.text}, {low}), 6 as {source})", source, shape, 6)
        return X(f"({x.text} as {elem})", elem, shape, x.bound)

    def small(self, shape, elem, depth):
        """Converts through an 8-bit float, which holds the integers up to 8."""
        if elem not in EXACT:
            return self.leaf(shape, elem)
        x, f8 = self.expr(shape, elem, depth - 1), self.r.choice(["f8e4m3", "f8e5m2"])
        low = f"min(max({x.text}, -7 as {elem}), 7 as {elem})"
        return X(f"(({low} as {f8}) as {elem})", elem, shape, 8)

    def expand(self, shape, elem, depth):
        """A block without one axis, broadcast along it."""
        axis = self.r.randrange(len(shape))
        x = self.expr(shape[:axis] + shape[axis + 1 :], elem, depth - 1)
        subs = ", ".join("None" if i == axis else ":" for i in range(len(shape)))
        return X(f"broadcast(({x.text})[{subs}], {', '.join(shape)})", elem, shape, x.bound)

    def permuted(self, shape, elem, depth):
        if len(shape) == 2 and self.r.random() < 0.7:
            x = self.expr(shape[::-1], elem, depth - 1)
            return X(f"trans({x.text})", elem, shape, x.bound)
        order = self.r.sample(range(len(shape)), len(shape))  # axis i of the result is order[i] of x
        inner = [None] * len(shape)
        for i, a in enumerate(order):
            inner[a] = shape[i]
        x = self.expr(tuple(inner), elem, depth - 1)
        return X(f"permute({x.text}, {', '.join(map(str, order))})", elem, shape, x.bound)

    def reshaped(self, shape, elem, depth):
        """Reshapes to one axis, flips or joins there, and reshapes back."""
        x, n = self.expr(shape, elem, depth - 1), " * ".join(shape)
        flat = f"reshape(broadcast({x.text}, {', '.join(shape)}), {n})"
        how = self.r.choice(["flip", "roll", "plain", "slice"])
        if how == "flip":
            flat = f"flip({flat}, 0)"
        elif how == "roll":
            flat = f"roll({flat}, {self.r.randint(0, 5)}, 0)"
        elif how == "slice":
            flat = f"concat({flat}, {flat}, axis = 0)[1 .. {n} + 1]"
        return X(f"reshape({flat}, {', '.join(shape)})", elem, shape, x.bound)

    def reduced(self, shape, elem, depth):
        """A reduction of a block with one more axis."""
        extra = self.r.choice([e for e in self.ranges if e not in shape] or [None])
        if extra is None or (extra == "16" and len(shape) == 2):
            return self.leaf(shape, elem)
        axis = self.r.randrange(len(shape) + 1)
        whole = shape[:axis] + (extra,) + shape[axis:]
        x = self.expr(whole, elem, depth - 1)
        kind = self.r.choice(["sum", "min", "max", "argmax", "both"])
        if kind == "both" and (elem in INTS or x.bound * 64 <= EXACT[elem]):
            y = self.expr(whole, elem, depth - 1)
            pair = f"({x.text}, {y.text})"
            self.uses_both = True
            return X(f"second(reduce({pair}, both, axis = {axis}))", elem, shape, y.bound + x.bound * 64)
        if kind == "sum" and (elem in INTS or x.bound * 64 <= EXACT[elem]):
            return X(f"sum({x.text}, axis = {axis})", elem, shape, x.bound * 64)
        if kind == "argmax" and elem == "i64":
            return X(f"argmax({x.text}, axis = {axis})", elem, shape, 64)
        return X(f"{self.r.choice(['min', 'max'])}({x.text}, axis = {axis})", elem, shape, x.bound)

    def scanned(self, shape, elem, depth):
        x = self.expr(shape, elem, depth - 1)
        axis = self.r.randrange(len(shape))
        if (elem in INTS or x.bound * 64 <= EXACT[elem]) and self.r.random() < 0.6:
            extra = self.r.choice(["", ", reverse = true", ", exclusive = true"])
            return X(f"scan({x.text}, add, axis = {axis}{extra})", elem, shape, x.bound * 64)
        if self.r.random() < 0.5:
            return X(f"scan({x.text}, max, axis = {axis})", elem, shape, x.bound)
        return X(
            f"sort({x.text}, axis = {axis}{self.r.choice(['', ', descending = true'])})",
            elem,
            shape,
            x.bound,
        )

    def operand(self, shape, elem):
        """An operand of a product: direct, transposed or computed."""
        if self.r.random() < 0.3:
            x = self.load(shape[::-1], elem)
            return f"trans({x.text})"
        x = self.load(shape, elem)
        if self.r.random() < 0.25:
            return f"max({x.text}, {self.r.choice([0, 1])} as {elem})"
        if self.r.random() < 0.15 and elem in EXACT:
            return f"({self.load(shape, 'i8').text} as {elem})"
        return x.text

    def dotted(self, shape, elem, depth):
        k = "BK" if "BK" in self.ranges else "16"
        source = {
            "f32": self.r.choice(["f32", "f16", "bf16", "f16", "bf16"]),
            "f64": "f64",
            "i32": self.r.choice(["i8", "u8"]),
        }.get(elem)
        if source is None or "BK" in shape or shape[0] == shape[1]:
            return self.leaf(shape, elem)
        a, b = self.operand((shape[0], k), source), self.operand((k, shape[1]), source)
        x = X(f"dot({a}, {b})", elem, shape, 25 * 64)
        if depth > 1 and elem == "f32" and self.r.random() < 0.3:  # the rounded result of a product
            low = f"(min(max({x.text}, -7.0), 7.0) as {source})"
            far = self.operand((shape[1], shape[1]), source)
            return X(f"dot({low}, {far})", elem, shape, 35 * 64)
        return x

    def gathered(self, shape, elem, depth):
        x, i = self.expr(shape, elem, depth - 1), self.expr(shape, "i64", depth - 1)
        axis, full = self.r.randrange(len(shape)), ", ".join(shape)
        whole = f"broadcast({x.text}, {full}), broadcast({i.text} % 9, {full})"
        return X(f"gather({whole}, axis = {axis})", elem, shape, x.bound)

    def expr(self, shape, elem, depth):
        if depth <= 0:
            return self.leaf(shape, elem)
        forms = [self.leaf, self.binary, self.binary, self.unary, self.select, self.cast]
        if len(shape) == 2:
            forms += [self.expand, self.expand, self.permuted, self.dotted, self.dotted]
        if len(shape) == 3:
            forms += [self.expand, self.permuted]
        if shape:
            forms += [self.scanned, self.gathered, self.small]
        if shape and len(shape) < 3:
            forms += [self.reshaped]
        if len(shape) < 2 or (len(shape) == 2 and "BK" in self.ranges):
            forms += [self.reduced]
        f = self.r.choice(forms)
        return self.clamp(f(shape, elem) if f == self.leaf else f(shape, elem, depth))

    # ---- statements

    def elem(self):
        return self.r.choice(
            ["f32"] * 6
            + ["i32"] * 3
            + ["i64"] * 2
            + ["f64", "f16", "bf16", "i8", "u8", "i16", "u32"]
        )

    def shape(self):
        return self.r.choice([("BM", "BN")] * 5 + [("BN", "BM"), ("BM",), ("BN",), ()])

    def let(self):
        x = self.expr(self.shape(), self.elem(), self.r.randint(1, 3))
        v = self.name("v")
        self.emit(f"let {v} = {x.text};")
        self.scope.append(X(v, x.elem, x.shape, x.bound))

    def loop(self):
        """A `for` that carries one or two variables."""
        shape, elem = self.shape(), self.r.choice(["f32", "i32", "i64", "f64"])
        v, k = self.name("s"), self.name("k")
        start = self.expr(shape, elem, 0)
        declared = f"{elem}<{', '.join(shape)}>" if shape else elem
        self.emit(f"var {v}: {declared} = {start.text};")
        by = self.r.random() < 0.7
        if by:
            span = self.r.choice(["K", "K", "K", "1 .. K", "0 .. min(K, m.end)", "data", "data"])
            if span == "data":
                span = f"{self.load((), 'i32').text}{self.r.choice(['', ' * 4', ' .. K'])}"
            self.emit(f"for {k} in {span} by BK {{")
            self.ranges["BK"] = k
        else:
            self.emit(f"for {k} in {self.r.choice(['3', 'K / 8', '2 .. 5'])} {{")
        self.indent += 1
        saved = list(self.scope)
        if not by:
            self.scope.append(X(k, "i64", (), 300))
        if self.r.random() < 0.3:
            self.let()
        if elem in ("f32", "i32", "f64") and len(shape) == 2 and by and self.r.random() < 0.7:
            x = self.dotted(shape, elem, 1)
        else:
            x = self.expr(shape, elem, self.r.randint(1, 2))
        if elem in INTS or (start.bound + x.bound * 40) <= EXACT[elem]:
            self.emit(f"{v} += {x.text};")
            bound = start.bound + x.bound * 40
        else:
            self.emit(f"{v} = {self.r.choice(['min', 'max'])}({v}, {x.text});")
            bound = max(start.bound, x.bound)
        self.scope = saved
        self.indent -= 1
        self.emit("}")
        self.ranges.pop("BK", None)
        self.scope.append(X(v, elem, shape, bound))

    def merged(self):
        """A loop that may be split. A function of the file joins its states."""
        elem = self.r.choice(["f32", "f64", "i32", "i64"])
        shape = self.r.choice([("BM",), ("BN",), ("BM", "BN"), ()])
        p, q, k = self.name("p"), self.name("q"), self.name("k")
        declared = f"{elem}<{', '.join(shape)}>" if shape else elem
        self.emit(f"var {p}: {declared} = 0; var {q}: {declared} = -inf;")
        self.emit(f"for {k} in {self.r.choice(['K', 'K', '2 .. K'])} by BK merge both {{")
        self.ranges["BK"] = k
        self.indent += 1
        x, y = self.load((*shape, "BK"), elem), self.load((*shape, "BK"), elem)
        lanes = ", ".join(["None"] * len(shape) + [":"])
        v = f"(valid({k})[{lanes}] ? {y.text} : -inf)" if shape else f"(valid({k}) ? {y.text} : -inf)"
        axis = len(shape)
        self.emit(f"({p}, {q}) = both(({p}, {q}), (sum({x.text}, axis = {axis}), max({v}, axis = {axis})));")
        self.indent -= 1
        self.emit("}")
        self.ranges.pop("BK")
        self.uses_both = True
        self.scope.append(X(p, elem, shape, 1000))
        self.emit(f"let {p}m = max({q}, -9 as {elem});")
        self.scope.append(X(f"{p}m", elem, shape, 9))

    def branch(self):
        shape, elem = self.shape(), self.elem()
        v = self.name("w")
        a, b = self.expr(shape, elem, 1), self.expr(shape, elem, 1)
        declared = f"{elem}<{', '.join(shape)}>" if shape else elem
        self.emit(f"var {v}: {declared} = {a.text};")
        self.emit(f"if {self.condition((), 1)} {{ {v} = {b.text}; }}")
        self.scope.append(X(v, elem, shape, max(a.bound, b.bound)))

    def spin(self):
        v, i = self.name("spin"), self.name("step")
        x = self.expr((), "i32", 1)
        self.emit(f"var {v}: i32 = {x.text}; var {i}: i32 = 0;")
        self.emit(f"while {i} < 5 && {v} != 3 {{ {v} = {v} * 3 + {i}; {i} += 1; }}")
        self.scope.append(X(v, "i32", (), 2**31))

    def out(self, elem, dims, exact=True):
        o = self.name("o")
        self.params.append(f"{o}: {elem}[{', '.join(dims)}]")
        shape = [self.dims[d] for d in dims]
        self.outs[o] = (elem, exact)
        self.arrays[o] = (
            f"zeros({','.join(map(str, shape))}):{elem}" if shape else f"zeros():{elem}"
        )
        return o

    def store(self):
        shape, elem = self.r.choice([("BM", "BN"), ("BM", "BN"), ("BN", "BM")]), self.elem()
        x = self.expr(shape, elem, self.r.randint(0, 2))
        subs = ", ".join(self.ranges[e] for e in shape)
        if self.r.random() < 0.25 and elem in ("f32", "f64"):
            o = self.out(elem, tuple(self.dim_of(e) for e in shape), exact=False)
            f = self.r.choice(
                [
                    "exp({} / 64)",
                    "tanh({})",
                    "log(abs({}) + 1)",
                    "sin({} / 8)",
                    "({} / 3)",
                    "sqrt(abs({}))",
                    "erf({})",
                    "rsqrt(abs({}) + 1)",
                ]
            )
            self.emit(f"{o}[{subs}] = {f.format(self.clamp(x).text)};")
            return
        o = self.out(elem, tuple(self.dim_of(e) for e in shape))
        self.emit(f"{o}[{subs}] = {x.text};")

    def contribute(self):
        e = self.r.choice(["BM", "BN"])
        kind = self.r.choice(["combine", "atomic", "max"])
        elem = "i32" if kind == "atomic" else self.r.choice(["i32", "i64", "f32"])
        x = self.expr((e,), elem, 1)
        o = self.out(elem, (self.dim_of(e),))
        if kind == "atomic":
            self.emit(f"atomic_add({o}[{self.sub(e)}], {x.text});")
        elif kind == "max" or x.bound * 4096 > EXACT.get(elem, 2**60):
            self.emit(f"combine({o}[{self.ranges[e]}], {x.text}, {self.r.choice(['max', 'min'])});")
        else:
            self.emit(f"combine({o}[{self.ranges[e]}], {x.text}, add);")

    def scratch(self):
        """An earlier phase that fills a scratch tensor, and a store that reads it."""
        elem, lines = self.r.choice(["f32", "i32", "f16"]), self.lines
        self.begin()
        x = self.expr(("BM", "BN"), elem, self.r.randint(0, 2))
        self.emit(f"s[m, n] = {x.text};")
        before, self.lines = self.lines, lines
        o, subs = self.out(elem, ("M", "N")), ", ".join(self.subs(("BM", "BN")))
        self.emit(f"{o}[m, n] = s[{subs}];")
        return "\n".join(
            [f"    scratch s: {elem}[M, N];", "    parallel m in M by BM, n in N by BN {", *before, "    }\n"]
        )

    def source(self):
        r = self.r
        self.dims = {
            "M": r.choice([1, 3, 8, 17, 24, 33]),
            "N": r.choice([1, 2, 8, 19, 32, 45]),
            "K": r.choice([1, 7, 16, 20]),
        }
        tunes = {
            "BM": r.sample([1, 2, 3, 4, 8, 12, 16], 2),
            "BN": r.sample([1, 4, 5, 8, 16, 24, 32], 2),
            "BK": r.sample([1, 4, 8, 16], 2),
        }
        if r.random() < 0.4:  # products of tiles that matrix units take
            self.dims = {"M": r.randint(1, 150), "N": r.randint(1, 100), "K": r.randint(1, 80)}
            tunes = {
                "BM": r.sample([16, 32, 64, 128], 2),
                "BN": r.sample([8, 16, 32, 64], 2),
                "BK": r.sample([8, 16, 32, 64], 2),
            }
        self.begin()
        anchor = self.tensor("f32", ("M", "N", "K"))
        self.emit(f"let first = {anchor}[m, n, 0];")
        self.scope.append(X("first", "f32", ("BM", "BN"), 5))
        for _ in range(r.randint(1, 5)):
            r.choice([self.let, self.let, self.loop, self.loop, self.merged, self.branch, self.spin])()
        for _ in range(r.randint(1, 2)):
            self.store()
        if r.random() < 0.4:
            self.contribute()
        head = self.scratch() if r.random() < 0.3 else ""
        body = "\n".join(self.lines)
        clauses = ", ".join(f"{k} = {' | '.join(map(str, v))}" for k, v in tunes.items())
        text = (
            f"{BOTH * self.uses_both}kernel fuzz({', '.join(self.params)})\ntune {clauses}\n{{\n"
            f"{head}    parallel m in M by BM, n in N by BN {{\n{body}\n    }}\n}}\n"
        )
        settings = [{k: v[i] for k, v in tunes.items()} for i in (0, 1)]
        return text, settings


# ---- running -------------------------------------------------------------------------------------


def write_program(make, seed, folder):
    g = make(seed)
    text, settings = g.source()
    file = folder / f"{seed}.teg"
    file.write_text(text)
    args = list(g.flags)
    for name, a in g.arrays.items():
        if isinstance(a, str):
            args += ["--arg", f"{name}={a}"]
            continue
        d = harness.as_data(a)
        path = folder / f"{seed}-{name}.npy"
        np.save(path, d.stored)
        args += ["--arg", f"{name}=@{path}{d.suffix}"]
    return g, file, args, settings


def line(seed, folder, file, args, setting, number, target, outs):
    words = [str(file), "--target", target, "--quiet"] + args
    for k, v in setting.items():
        words += ["--set", f"{k}={v}"]
    for o in outs:
        words += ["--out", f"{o}={folder}/{seed}-{number}-{target}-{o}.npy"]
    return shlex.join(words)


def differ(a, b, elem, exact):
    if elem == "bf16":
        a, b = harness.TABLES["bf16"][a], harness.TABLES["bf16"][b]
    if exact:
        same = (a == b) | ((a != a) & (b != b))
    else:
        with np.errstate(all="ignore"):
            same = np.abs(a - b) <= (1e-5 if elem == "f32" else 1e-13) * (1 + np.abs(a))
        same |= (a == b) | ((a != a) & (b != b))
    if same.all():
        return ""
    at = tuple(np.argwhere(~same)[0]) if a.ndim else ()
    return f"{int((~same).sum())} of {same.size} differ, first {list(map(int, at))}: {a[at]!r} and {b[at]!r}"


def check_chunk(o, make, seeds, folder):
    programs, lines = [], []
    for seed in seeds:
        g, file, args, settings = write_program(make, seed, folder)
        programs.append((seed, g, file, len(lines), settings))
        for n, s in enumerate(settings):
            for target in ["interp"] + o.target:
                lines.append(line(seed, folder, file, args, s, n, target, g.outs))
    results = run_lines(o.tegula, lines, folder)
    bad = 0
    for seed, g, file, first, settings in programs:
        problems = []
        width = 1 + len(o.target)
        for n in range(len(settings)):
            for k, target in enumerate(["interp"] + o.target):
                at = first + n * width + k
                code, text = results[at]
                if code and TOO_LARGE in text:
                    continue
                if code:
                    problems.append(
                        f"{target} {settings[n]}: exit code {code}\n{text}\n  tegula run {lines[at]}"
                    )
                    continue
                if k == 0 or results[first + n * width][0]:
                    continue
                for out, (elem, exact) in g.outs.items():
                    a, b = (
                        np.load(f"{folder}/{seed}-{n}-{t}-{out}.npy") for t in ("interp", target)
                    )
                    d = differ(a, b, elem, exact)
                    if d:
                        problems.append(
                            f"{target} {settings[n]}: {out}: {d}\n  tegula run {lines[at]}"
                        )
        if problems:
            bad += 1
            print(f"FAIL seed {seed}\n{file.read_text()}" + "\n".join(problems[:3]), flush=True)
        elif not o.keep:
            for f in folder.glob(f"{seed}[.-]*"):
                f.unlink()
    return bad


def main(make=Generator):
    p = argparse.ArgumentParser()
    p.add_argument("--tegula", required=True)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--target", action="append")
    p.add_argument("--keep", action="store_true")
    p.add_argument("--stop", type=int, default=5, help="stop after that many failures")
    o = p.parse_args()
    o.target = o.target or ["cpu"]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tegula-fuzz-"))
    bad = done = 0
    while done < o.count and bad < o.stop:
        n = min(25, o.count - done)
        bad += check_chunk(o, make, range(o.seed + done, o.seed + done + n), folder)
        done += n
        if sys.stderr.isatty():
            print(f"\r{done} programs, {bad} failures", end="", file=sys.stderr, flush=True)
    if not o.keep and not bad:
        shutil.rmtree(folder)
    print(f"{done} programs, {bad} failures" + (f"; files in {folder}" if bad or o.keep else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
