"""Tensors that a program both reads and stores, with the same lanes or others. Program order decides which values
a read sees, so each read of such a tensor is a test of the order of loads and stores.

While a program has such tensors, its operands come from them as well, in any context: arms, loops, functions,
phases. Each program of the grid has a part of its own, so the order of programs is free.
"""

from gen.program import Node, Out, Param, Stmt
from gen.values import RANGES, Values

MARK = "stored"
# Larger than the tiles of generated code, so that stores of one tile come before loads of the next.
LARGE = [(16, 32), (32, 16), (24, 24), (32, 32), (16, 64), (64,), (96,), (200,)]


class Plane:
    """A tensor whose part [m.tile, n.tile, ...] belongs to one program, or whose tile [m, n] does."""

    def __init__(self, name, elem, extents, dims, tiled):
        self.name, self.elem, self.extents, self.dims, self.tiled = name, elem, extents, dims, tiled
        self.last = None  # shape, subscripts and body of the last read


class InPlace(Values):
    planes = ()  # the tensors of the program
    stores = True  # False in loops that may be split, which must not store

    # ---- the tensors

    def plane(self, elem):
        """A new tensor, or one that the program has already."""
        have = [p for p in self.planes if p.elem == elem]
        if have and self.chance(0.5):
            return self.r.choice(have)
        tiles = [-(-self.dims[RANGES[x]] // self.ranges[x][0]) for x in "mn"]
        tiled = self.chance(0.35)
        if tiled:
            extents, dims, sizes = [self.bm, self.bn], ["M", "N"], [self.dims["M"], self.dims["N"]]
        else:
            extents = list(self.r.choice(LARGE) if self.chance(0.5) else self.shape((1, 2)))
            own = [(str(e), e) if self.chance(0.4) else self.own_dim(e) for e in extents]
            dims = [self.name("D"), self.name("D"), *[d for d, _ in own]]
            sizes = [*tiles, *[n for _, n in own]]
        view, whole = "", False
        if self.chance(0.2):
            steps = [self.r.choice([1, 2, -1]) for _ in sizes]
            sizes, whole = [n * abs(s) for n, s in zip(sizes, steps)], True
            view = "[" + ",".join(f"::{s}" for s in steps) + "]"
        name = self.name("o")
        argument = self.pool.argument(elem, sizes, "wild", self.r.randrange(3)) + view
        q = Param(name, f"{elem.name}[{', '.join(dims)}]", argument)
        q.kind = "plane"
        self.p.params[name] = q
        self.p.outs[name] = Out(name, elem, signless=True, whole=whole)
        p = Plane(name, elem, extents, dims if tiled else dims[2:], tiled)
        self.planes = [*self.planes, p]
        return p

    # ---- places in them

    def along(self, dim, extent, e, store, joint):
        """(subscript, is joint) of e lanes along an axis. A store names no element twice."""
        if joint and self.chance(0.3):
            last = f"{dim} - 1 - " if self.chance(0.5) else f"{e - 1} - "
            forms = [f"{last}iota({e})"] * 2 + [f"iota({e}) * 2 - 1", f"iota({e}) + {self.shift()}"]
            if not store:
                forms += [f"(iota({e}) + {self.shift()}) % {dim}", f"iota({e}) / 2"]
            return self.r.choice(forms), True
        if dim == str(e) and self.chance(0.4):
            return ":", False
        if self.chance(0.5):
            return f"range({self.r.choice([0, 0, 0, 1, 2, -1])}, {dim}, {e})", False
        base = self.name("v")
        self.emit(Stmt(f"let {base} = range(0, {dim}, {e});"))
        return self.r.choice([f"{base} {self.r.choice('+-')} {self.shift()}"] * 2 + [f"{base} * 2", base]), False

    def shift(self):
        return self.r.choice([*self.loops * 2, "1", "1", "2", f"{self.r.choice('mn')}.tile"])

    def lane_of(self, dim):
        near = [*self.loops * 2, "0", "1", f"{dim} - 1"]
        return self.r.choice(near)

    def places(self, p, shape, store):
        """The subscripts of a block of that shape, of p's rank at most."""
        if p.tiled:
            if shape == (self.bn,):
                return self.r.choice(["m.start, n", "m.end - 1, n"])
            return self.r.choice(["m, n"] * 4 + ["index(m), n", "m, index(n)"])
        lead = len(p.dims) - len(shape)
        subs = ["m.tile", "n.tile", *[self.lane_of(d) for d in p.dims[:lead]]]
        joint = False
        for d, extent, e in zip(p.dims[lead:], p.extents[lead:], shape):
            sub, block = self.along(d, extent, e, store, not joint)
            joint |= block
            subs.append(sub)
        return ", ".join(subs)

    def fits(self, p, shape):
        if p.tiled:
            return shape in ((self.bm, self.bn), (self.bn,))
        return 0 < len(shape) <= len(p.dims)

    def read(self, p, shape):
        """A read of the tensor, which sees the program's stores before it."""
        if not self.fits(p, shape):
            return self.coerced(self.read(p, tuple(p.extents)), p.elem, shape)
        pad = ""
        if self.chance(0.2):
            pad = f", pad = {self.pad(p.elem, 'wild')}"
        subs = self.places(p, shape, self.chance(0.6))
        p.last = shape, subs, self.body
        n = Node(f"{p.name}[{subs}{pad}]", [], p.elem, shape, mag=None, nan=True)
        n.zs = n.prod = p.elem.kind == "f"
        return n

    def own_shape(self, ranks):
        """The shape of such a tensor, or None."""
        near = [tuple(p.extents) for p in self.planes if len(p.extents) in ranks]
        return self.r.choice(near) if near and self.focus is None and self.chance(0.7) else None

    # ---- statements

    def store_place(self, p, n):
        """Stores an exact value to some lanes of the tensor."""
        shapes = [tuple(p.extents)] + ([n.shape] * 3 if self.fits(p, n.shape) else [])
        shape = self.r.choice(shapes)
        n = self.coerced(n, p.elem, shape)
        subs = self.places(p, shape, True)
        if p.last and self.chance(0.6):  # the place of the last read
            last, place, body = p.last
            subs = place if last == shape and body is self.body and " % " not in place and "/" not in place else subs
        self.emit(Stmt(f"{p.name}[{subs}] = {{}};", [n], op="store", of=p.elem))

    def in_place(self, make, elem, shape):
        """Makes an expression whose operand is such a tensor, and stores to it afterwards."""
        p = self.r.choice([p for p in self.planes if p.elem == elem] or self.planes)
        r = self.coerced(self.read(p, shape), elem, shape)
        r = self.let(r) if self.chance(0.5) else r
        self.focus, self.focus_mark = r, MARK
        n = make()
        self.focus = None
        if any(k is r for k in n.walk()):
            n.marks.add(MARK)
        if n.tol or not self.stores:
            return n
        if self.chance(0.5):  # the store is the last use of the operand
            self.store_place(p, n)
            return self.read(p, tuple(p.extents))
        n = self.let(n) if self.chance(0.5) else n
        value = self.read(self.r.choice(self.planes), tuple(p.extents)) if self.chance(0.25) else n
        self.store_place(p, value)
        if self.chance(0.3):
            self.store_place(self.r.choice(self.planes), self.r.choice([r, n]))
        return n

    def leaf(self, elem, shape, kind="wild"):
        near = [p for p in self.planes if p.elem == elem]
        if near and kind == "wild" and self.chance(0.35):
            return self.read(self.r.choice(near), shape)
        return super().leaf(elem, shape, kind)
