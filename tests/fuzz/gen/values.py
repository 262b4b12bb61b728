"""Operands of random kernels: loads, constants, names in scope, and changes of type and shape."""

import random
import re

from gen.data import MOST_SMALL
from gen.program import Node, Param, Program, size

RANGES = {"m": "M", "n": "N"}  # ranges of the programs: index, dimension
MOST_LANES = 512
COVERS = {16: (1, 16), 24: (17, 24)}  # extents of `cover`, and their dimensions


class Values:
    """The state of one program during its construction; makes operands of its expressions."""

    plain_bools = False  # bytes of bools are 0 and 1

    def __init__(self, tables, pool, seed, number):
        self.t, self.pool = tables, pool
        self.r = random.Random(f"{seed}/{number}")
        self.p = Program(seed, number)
        self.count = 0
        self.scope = []  # references to let-bound values
        self.loops = []  # names of i64 scalars of loops
        self.ranges = {}  # name -> (extent, dimension)
        self.focus = None  # an operand that the next expression has to use
        self.focus_mark = ""  # the context that its use reaches
        self.depth = 0
        self.reassociates = False  # a loop's state changes by this op alone, so its order is free
        self.body = []  # the list that receives statements
        self.inner = 0  # nesting depth of unrelated statements

    # ---- pieces

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def emit(self, stmt):
        self.body.append(stmt)
        return stmt

    def chance(self, p):
        return self.r.random() < p

    def elem(self, classes="sufb"):
        return self.r.choice(self.t.of(classes))

    def e(self, name):
        return self.t.elems[name]

    def shape(self, rank=None):
        """The shape of a value; usually a tile of the programs' ranges."""
        near = [(self.bm, self.bn)] * 4 + [(self.bm,), (self.bn,), (self.bn,), (self.bn, self.bm), ()]
        near += [(self.r.choice([2, 3, 4]), self.bm, self.bn), (self.r.choice([1, 2, 5, 8, 16, 17, 24]),)]
        near = [s for s in near if (rank is None or len(s) in rank) and size(s) <= MOST_LANES]
        return self.r.choice(near) if near else tuple(self.r.choice([2, 4, 3]) for _ in range(min(rank)))

    # ---- tensors

    def tensor(self, elem, dims, sizes, kind, fresh=False, plain=False):
        """A parameter of this type: an existing one, or a new one with any strides."""
        want = f"{elem.name}[{', '.join(dims)}]"
        have = [q.name for q in self.p.params.values() if q.type == want and q.kind == kind]
        if have and not fresh and self.chance(0.5):
            return self.r.choice(have)
        name = self.name("t")
        q = Param(name, want, self.argument(elem, sizes, kind, plain))
        q.kind, q.sizes = "own" if fresh else kind, sizes
        q.facts = self.facts(q, dims)
        self.p.params[name] = q
        return name

    def facts(self, q, dims):
        """True contracts, which the compiler may use."""
        if not dims or not self.chance(0.12):
            return []
        d, n = self.r.choice(list(zip(dims, q.sizes)))
        true = [f"{d} % {k} == 0" for k in (2, 3, 4, 8, 16) if n % k == 0] + [f"{d} >= {max(0, n - 1)}", f"{d} <= {n + 2}"]
        if q.argument.endswith(".npy"):
            true += [f"stride({q.name}, {len(dims) - 1}) == 1"] * 2
        return [self.r.choice(true)] if re.fullmatch(r"D\d+|M|N", d) else []

    def argument(self, elem, sizes, kind, plain=False):
        """A file and a view of it: steps, also negative ones, stride 0, an offset, permuted axes."""
        steps = [self.r.choice([1, 1, 1, 1, 1, -1, 2, -2, 3, 0]) for _ in sizes]
        if plain or elem.storage_only or self.chance(0.5):
            steps = [1] * len(sizes)
        first = 1 if any(s > 1 for s in steps) and self.chance(0.5) else 0
        base = [n * abs(s) + (first if s > 1 else 0) for n, s in zip(sizes, steps) if s]
        turn = len(base) == 2 and not plain and not elem.storage_only and self.chance(0.2)
        text = self.pool.argument(elem, base[::-1] if turn else base, kind, self.r.randrange(3))
        text += ":transpose" if turn else ""
        if any(s not in (0, 1) for s in steps):
            text += "[" + ",".join(f"{first if s > 1 else ''}::{s}" for s in steps if s) + "]"
        for axis, s in enumerate(steps):
            text += f":expand({sizes[axis]},{axis})" if s == 0 else ""
        return text

    def own_dim(self, extent, even=False):
        """A dimension for a tensor of its own: its name, and a size near the extent."""
        n = max(0 if self.chance(0.05) else 1, extent + self.r.choice([-2, -1, 0, 0, 0, 1, 3, 6]))
        return self.name("D"), n + (n & 1 if even else 0)

    def axis(self, extent, even):
        """(subscript, dimension, size, joint or its block): a subscript entry with that extent."""
        if not even and self.depth < 2 and self.chance(0.08):
            return self.picked(extent)
        if extent in COVERS and not even and "specialise" not in self.p.schedule and self.chance(0.3):
            dim, n = self.name("D"), self.r.randint(*COVERS[extent])
            return f"cover({dim})", dim, n, False
        frame = [x for x, (e, _) in self.ranges.items() if e == extent and not even]
        if frame and self.chance(0.7):
            x = self.r.choice(frame)
            d = self.ranges[x][1]
            forms = [x] * 6 + [f"{x} + 1", f"{x} - 2", f"{x} * 2", f"index({x})", f"{d} - 1 - index({x})"]
            own = self.chance(0.3)
            dim, n = self.own_dim(extent + self.dims[d] // 2) if own else (d, self.dims[d])
            sub = self.r.choice(forms)
            return sub, dim, n, "index" in sub
        if self.chance(0.2):
            return ":", str(extent), extent + (extent & 1 if even else 0), False
        dim, n = self.own_dim(extent, even)
        c = self.r.choice([0, 0, 0, 1, -1])
        forms = [f"range({c}, {dim}, {extent})"] * 3 + [f"iota({extent}) * {self.r.choice([1, 2, -1])} + {c}"]
        sub = self.r.choice(forms)
        return sub, dim, n, "iota" in sub

    def picked(self, extent):
        """Positions from data, some of them outside."""
        dim, n = self.own_dim(extent)
        self.depth += 1
        block = self.val(self.e(self.r.choice(["i32", "i64"])), (extent,))
        self.depth -= 1
        form = self.r.choice([f"abs({{}}) % {dim}", f"abs({{}}) % {dim}", "{} % 5", "{}", f"min(max({{}}, 0), {dim} - 1)"])
        return form, dim, n, block

    def subscript(self, shape, even):
        while True:
            axes = [self.axis(e, even and i == len(shape) - 1) for i, e in enumerate(shape)]
            if any(sub == ":" and n != e for (sub, _, n, _), e in zip(axes, shape)):
                continue
            if sum(bool(a[3]) for a in axes) <= 1:
                return [list(a) for a in axes]

    def scalar_sub(self):
        d, n = self.own_dim(3)
        near = self.loops + [f"{x}.start" for x in self.ranges] + [f"{x}.tile" for x in self.ranges]
        return [self.r.choice(near + ["0", "1", f"{d} - 1"]), d, n, False]

    def load(self, elem, shape, kind="wild", pads=None, fresh=False):
        even = elem.storage_only
        if elem.kind == "b" and self.plain_bools:
            kind = "small"
        axes = self.subscript(shape, even)
        picks = [block for *_, block in axes if isinstance(block, Node)]
        loop = bool(self.loops) and self.chance(0.8)
        if (loop or self.chance(0.15) or not axes) and len(axes) < 4 and not (even and not axes):
            axes.insert(0, self.scalar_sub())
            if loop:
                axes[0][0] = self.r.choice(self.loops)
        if even and not shape:
            axes.append([self.r.choice(["0", "1"]), "4", 4, False])
        t = self.tensor(elem, [a[1] for a in axes], [a[2] for a in axes], kind, fresh)
        subs, nan, mag = ", ".join(a[0] for a in axes), False, 1 if kind == "unit" else MOST_SMALL
        pad = ""
        if self.chance(0.3) if pads is None else pads:
            pad = self.pad(elem, kind)
            nan, mag = pad == "nan", None if pad in ("inf", "-inf", "nan") else mag
            subs += f", pad = {pad}"
        if self.chance(0.05):
            subs += f", cache = {self.r.choice(['all', 'last', 'first', 'none'])}"
        op = "load pad" if pad else "load"
        return Node(f"{t}[{subs}]", picks, elem, shape, op, mag=None if kind == "wild" else mag,
                    nan=nan or kind == "wild", zs=False)  # fmt: skip

    def pad(self, elem, kind):
        if elem.kind == "b":
            return self.r.choice(["true", "false"])
        if kind != "wild":
            return self.r.choice(["0", "1"])
        pads = ["0", "1", "2", "inf", "-inf"]
        return self.r.choice(pads + (["nan", "0.5", "-1"] if elem.kind == "f" else []))

    def packed(self, shape):
        """4-bit integers, converted."""
        e = self.r.choice([self.e("i4"), self.e("u4")])
        return self.load(e, shape)

    # ---- leaves

    def literal(self, elem, kind="wild"):
        """A scalar constant of the element."""
        if elem.kind == "b":
            return Node(self.r.choice(["true", "false"]), [], elem, ())
        if kind == "unit":
            return Node(f"(1 as {elem.name})", [], elem, (), mag=1, nan=False)
        if kind == "small" or self.chance(0.5):
            v = self.r.randint(0, 4)
            return Node(f"({v} as {elem.name})", [], elem, (), mag=v, nan=False)
        if elem.kind == "f":
            v = self.r.choice(["0.5", "-1.5", "inf", "-inf", "nan", "3.5", "-0.0", "100.0"])
            return Node(f"({v} as {elem.name})", [], elem, ())
        v = self.r.choice([elem.greatest, elem.greatest // 2 + 1, elem.bits - 1, 7, 16, elem.greatest - 1])
        if elem.kind == "s" and self.chance(0.5):
            v = -v
        return Node(f"({v} as {elem.name})", [], elem, ())

    def scalar_param(self, elem):
        name = self.name("p")
        value = {"b": ["true", "false"], "f": ["0", "1.5", "-2", "inf"]}.get(
            elem.kind, [str(elem.least), str(elem.greatest), "1", "3"]
        )
        q = Param(name, elem.name, self.r.choice(value))
        q.kind = "wild"
        self.p.params[name] = q
        return Node(name, [], elem, ())

    def position(self, shape):
        """An i64 that depends on the lane's position."""
        e = self.e("i64")
        if not shape:
            near = self.loops * 3 + [f"{x}.start" for x in self.ranges] + [f"{x}.end" for x in self.ranges]
            return Node(self.r.choice(near + ["M", "5"]), [], e, ()) if near else None
        axis = self.r.randrange(len(shape))
        near = [x for x, (n, _) in self.ranges.items() if n == shape[axis]]
        one = self.r.choice([f"index({x})" for x in near] + [f"iota({shape[axis]})"])
        subs = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
        text = f"({one})[{subs}]" if len(shape) > 1 else one
        full = f"broadcast({text}, {', '.join(map(str, shape))})" if len(shape) > 1 else one
        return Node(full, [], e, shape, "index" if "index" in one else "iota")

    def leaf(self, elem, shape, kind="wild"):
        if elem.name == "i64" and kind == "wild" and self.chance(0.25):
            n = self.position(shape)
            if n:
                return n
        if elem.kind in "su" and kind == "wild" and shape and self.chance(0.08):
            return self.cast(self.packed(shape), elem)
        if not shape:
            if self.chance(0.25):
                return self.literal(elem, kind)
            if kind == "wild" and self.chance(0.1):
                return self.scalar_param(elem)
        return self.load(elem, shape, kind)

    def filled(self, scalar, shape):
        if not shape:
            return scalar
        return scalar.like(f"broadcast({{}}, {', '.join(map(str, shape))})", shape=shape)

    # ---- operands

    def val(self, elem, shape, mag=None, nan=True, zs=True, prod=True, const=False):
        """An exact operand. mag: integers up to that; nan, zs, prod: whether such a value is allowed."""
        n = self.pick(elem, tuple(shape), mag, const)
        if mag is not None:
            n = self.small(n, mag)
        if not prod and n.prod:
            n = n.like(self.r.choice(["abs({})", "min({}, inf)"]), prod=False)
            n.zs = True
        if not nan and n.nan:
            n = Node(f"(isnan({{0}}) ? (1 as {elem.name}) : {{0}})", [n], elem, shape, nan=False)
            n.zs = n.kids[0].zs
        if not zs and n.zs and n.prod:
            n = n.like("abs({})", prod=False)
        if not zs and n.zs:
            n = Node("({} + 0)", [n], elem, shape, mag=n.mag, nan=n.nan, zs=False)
        return n

    def pick(self, elem, shape, mag, const):
        f = self.focus
        if f is not None and (f.elem, f.shape) == (elem, shape):
            self.focus = None
            return f
        near = [x for x in self.scope if x.elem == elem and x.shape == shape and x.tol is None]
        if near and self.chance(0.45):
            return self.r.choice(near)
        if const and self.chance(0.2):
            return self.filled(self.literal(elem), shape) if shape else self.literal(elem)
        kind = "wild" if mag is None else "unit" if mag < MOST_SMALL else "small"
        if mag is None and self.depth < 2 and self.chance(0.3):
            self.depth += 1
            n = self.any_op(elem, shape)
            self.depth -= 1
            if n is not None:
                return n
        others = [x for x in self.scope if x.tol is None and x.elem.kind + elem.kind != "ff"]
        if others and mag is None and self.chance(0.25):
            return self.coerced(self.r.choice(others), elem, shape)
        return self.leaf(elem, shape, kind)

    def small(self, n, mag):
        """Reduces to integers up to mag, so that sums are exact."""
        if n.elem.kind != "f" or (n.mag is not None and n.mag <= mag):
            return n
        e = n.elem.name
        return Node(f"rint(min(max({{}}, -{mag} as {e}), {mag} as {e}))", [n], n.elem, n.shape, mag=mag,
                    nan=False, zs=True)  # fmt: skip

    # ---- changes

    def cast(self, n, elem, op=True):
        if elem == n.elem:
            return n
        mag = n.mag
        if n.elem.kind in "bsu":
            mag = {"b": 1, "s": 8, "u": 15}[n.elem.kind] if n.elem.bits == 4 or n.elem.kind == "b" else None
        if elem.kind == "f" and (mag is not None and mag > elem.exact):
            mag = None
        nan = n.nan if n.elem.kind == "f" else False
        c = Node(f"({{}} as {elem.name})", [n], elem, n.shape, f"as {elem.name}" if op else None, mag=mag,
                 nan=nan and mag is None, of=n.elem)  # fmt: skip
        return c

    def coerced(self, n, elem, shape):
        """Converts n to that element and shape."""
        n = self.reshaped(n, tuple(shape))
        if n.elem == elem:
            return n
        if elem.kind == "b":
            return Node("({} != 0)", [n], elem, n.shape, "ne", of=n.elem)
        return self.cast(n, elem)

    def reshaped(self, n, shape):
        if n.shape == shape:
            return n
        text = ", ".join(map(str, shape))
        if not n.shape:
            return n.like(f"broadcast({{}}, {text})", shape=shape, op="broadcast")
        if n.shape == shape[len(shape) - len(n.shape) :] and n.elem.storage_only is False:
            subs = ", ".join(["None"] * (len(shape) - len(n.shape)) + [":"] * len(n.shape))
            return n.like(f"broadcast(({{}})[{subs}], {text})", shape=shape, op="broadcast")
        if size(n.shape) == size(shape) and shape and n.shape != shape:
            if self.chance(0.7):
                return n.like(f"reshape({{}}, {text})", shape=shape, op="reshape")
        if len(n.shape) == len(shape) and all(a >= b for a, b in zip(n.shape, shape)):
            cuts = ", ".join(f"{a - b} .. {a}" for a, b in zip(n.shape, shape))
            return n.like(f"({{}})[{cuts}]", shape=shape, op="slice")
        lane = ", ".join(str(self.r.randrange(e)) for e in n.shape)
        one = n.like(f"({{}})[{lane}]", shape=(), op="lane")
        one.marks.add("lane")
        return one if not shape else one.like(f"broadcast({{}}, {text})", shape=shape, op="broadcast")

    def condition(self):
        """A scalar bool from data."""
        e = self.r.choice([self.e("i32"), self.e("f32"), self.e("i64"), self.e("u8")])
        if self.loops and self.chance(0.5):
            return Node(f"({self.r.choice(self.loops)} {self.r.choice(['==', '!=', '<', '>'])} {self.r.randint(0, 2)})",
                        [], self.e("bool"), ())  # fmt: skip
        a = self.val(e, ()) if self.chance(0.7) else self.coerced(self.val(e, (self.bn,)), e, ())
        b = self.literal(e, "small")
        op, name = self.r.choice([("<", "lt"), ("<=", "le"), (">", "gt"), ("!=", "ne"), ("==", "eq")])
        return Node(f"({{}} {op} {{}})", [a, b], self.e("bool"), (), name, of=e)

    def let(self, n, var=False):
        """Binds a value to a name. Returns a reference to it."""
        from gen.program import Stmt

        name = self.name("v")
        self.emit(Stmt(f"{'var' if var else 'let'} {name} = {{}};", [n]))
        ref = Node(name, [], n.elem, n.shape)
        ref.mag, ref.nan, ref.zs, ref.prod, ref.tol = n.mag, n.nan, n.zs, n.prod, n.tol
        self.scope.append(ref)
        return ref
