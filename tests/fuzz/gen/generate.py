"""Random programs. Each reaches some goals: triples of an op, a context and an element."""

from gen.in_place import MARK, InPlace
from gen.ops import BOTH
from gen.program import Fn, Node, Out, Param, Phase, Stmt
from gen.values import RANGES

VALUE_CONTEXTS = ("straight", "then", "else", "loop", "nested", "while", "carried", "after", "lane", "fn", "merge",
                  "phases", MARK)  # fmt: skip
EFFECT_CONTEXTS = ("straight", "then", "else", "loop", "nested", "while", "fn", "phases")
# These have no operands to carry into them.
NO_OPERANDS = ("index", "iota", "load", "load pad", "optional", "product",
               "window place", "picked products")  # fmt: skip


def legal(registry):
    """All possible goals."""
    cells = []
    for name, (elems, _, ranks, effect) in registry.ops.items():
        for e in elems:
            for c in EFFECT_CONTEXTS if effect else VALUE_CONTEXTS:
                stuck = c in ("carried", MARK) and (name in NO_OPERANDS or e.storage_only)
                again = name == "in place" and c in ("loop", "nested", "while")  # it would read its own writes
                if not stuck and not again:
                    cells.append((name, c, e.name))
    return cells


class Generator(InPlace):
    def __init__(self, tables, registry, pool, seed, number, goals):
        super().__init__(tables, pool, seed, number)
        self.ops, self.goals = registry.ops, goals
        self.value_ops = [n for n, row in registry.ops.items() if not row[3]]

    # ---- expressions

    def any_op(self, elem, shape):
        """A random op, converted to that element and shape."""
        name = self.r.choice(self.value_ops)
        elems, recipe, ranks, _ = self.ops[name]
        if len(shape) not in ranks:
            return None
        fit = [e for e in elems if e == elem] or elems
        saved, self.reassociates = self.reassociates, False
        n = recipe(self, self.r.choice(fit), self.fitting(name, shape, self.r.choice(fit)))
        self.reassociates = saved
        if n is None or n.tol:
            return None
        return self.coerced(n, elem, shape)

    def fitting(self, name, shape, elem):
        """Packs have even extents along the last axis."""
        if elem.storage_only and shape:
            return shape[:-1] + (shape[-1] + (shape[-1] & 1),)
        return shape

    def apply(self, name, elem, shape=None):
        """Applies the op to operands of the element."""
        elems, recipe, ranks, effect = self.ops[name]
        if shape is None:
            shape = self.own_shape(ranks) or self.shape(ranks)
        shape = self.fitting(name, shape, elem)
        if not self.planes or self.focus is not None or effect:
            return recipe(self, elem, shape)
        return self.in_place(lambda: recipe(self, elem, shape), elem, shape)

    # ---- results

    def out(self, elem, dims, sizes, strided=True):
        name = self.name("o")
        view, whole = "", False
        if strided and sizes and not elem.storage_only and self.chance(0.2):
            steps = [self.r.choice([1, 2, -1]) for _ in sizes]
            sizes = [n * abs(s) for n, s in zip(sizes, steps)]
            view, whole = "[" + ",".join(f"::{s}" for s in steps) + "]", True
        arg = f"zeros({','.join(map(str, sizes))}):{elem.name}{view}"
        q = Param(name, f"{elem.name}[{', '.join(dims)}]", arg)
        q.kind = "out"
        self.p.params[name] = q
        self.p.outs[name] = Out(name, elem, whole=whole)
        return self.p.outs[name]

    def store(self, n, op=None):
        """Stores to a program's own part of an output."""
        if n.shape == (self.bm, self.bn) and self.chance(0.6) and not n.elem.storage_only:
            o = self.out(n.elem, ["M", "N"], [self.dims["M"], self.dims["N"]])
            place = "m, n"
        else:
            tiles = [-(-self.dims[RANGES[x]] // self.ranges[x][0]) for x in "mn"]
            extents = list(n.shape) or ([2] if n.elem.storage_only else [])
            dims = [self.name("D"), self.name("D")] + [str(e) for e in extents]
            o = self.out(n.elem, dims, tiles + extents)
            place = ", ".join(["m.tile", "n.tile"] + [":"] * len(n.shape))
        o.signless = n.zs
        if n.tol:
            o.ulps, o.absolute = n.tol
        self.emit(Stmt(f"{o.name}[{place}] = {{}};", [n], op=op, of=n.elem))

    def common(self, elem, shape, gathered=False):
        """An output that all programs contribute to, and the element in it."""
        subs, dims, sizes = [], [], []
        for e in shape:
            near = [x for x, (n, _) in self.ranges.items() if n == e]
            if near and self.chance(0.6):
                x = self.r.choice(near)
                d = self.ranges[x][1]
                subs.append(f"index({x}) % 3" if gathered and self.chance(0.3) and not any("index" in s for s in subs) else x)
                dims.append(d)
                sizes.append(self.dims[d])
            else:
                subs.append(":")
                dims.append(str(e))
                sizes.append(e)
        if not shape and gathered:
            subs, dims, sizes = ["m.tile % 2"], [self.name("D")], [2]
        o = self.out(elem, dims, sizes)
        self.place_of = dims, sizes, ", ".join(subs)
        return o, f"{o.name}[{self.place_of[2]}]"

    # ---- bodies

    def inside(self, make):
        """The statements that make() emits, in a list of their own. Names from it are out of scope
        afterwards."""
        saved, scope, loops = self.body, list(self.scope), list(self.loops)
        self.body = []
        result = make()
        body, self.body, self.scope, self.loops = self.body, saved, scope, loops
        return body, result

    def declared(self, elem, shape):
        return f"{elem.name}<{', '.join(map(str, shape))}>" if shape else elem.name

    def variable(self, elem, shape, init=None):
        init = self.leaf(elem, shape) if init is None else init
        name = self.name("v")
        self.emit(Stmt(f"var {name}: {self.declared(elem, shape)} = {{}};", [init]))
        return name, init

    def ref(self, name, *nodes):
        """A reference to a variable that holds one of these values at random."""
        n = nodes[0]
        mags = [x.mag for x in nodes]
        r = Node(name, [], n.elem, n.shape, mag=None if None in mags else max(mags), nan=any(x.nan for x in nodes))
        r.zs, r.prod = any(x.zs for x in nodes), any(x.prod for x in nodes)
        tols = [x.tol for x in nodes if x.tol]
        r.tol = max(tols) if tols else None
        return r

    def held(self, name, *nodes):
        r = self.ref(name, *nodes)
        self.scope.append(r)
        self.store(r)
        return r

    def some(self):
        """An unrelated statement, perhaps with an arm or a loop."""
        if self.inner < 2 and self.chance(0.12):
            self.inner += 1
            name = self.r.choice(self.value_ops)
            self.place(name, self.r.choice(["straight", "then", "else", "loop", "while", "fn"]),
                       self.r.choice(self.ops[name][0]))  # fmt: skip
            self.inner -= 1
        elif self.chance(0.4):
            self.let(self.leaf(self.elem("suf"), self.shape((1, 2))))

    # ---- contexts of values

    def place(self, name, context, elem):
        effect = self.ops[name][3]
        getattr(self, ("effect_" if effect else "value_") + context)(name, elem)

    def value_straight(self, name, elem):
        self.store(self.let(self.apply(name, elem)))

    value_phases = value_straight

    def arms(self, name, elem, first):
        """An `if` with the op in one of its arms."""

        def make():
            self.some()
            return self.apply(name, elem)

        body, n = self.inside(make)
        v, init = self.variable(n.elem, n.shape)
        body.append(Stmt(f"{v} = {{}};", [n]))
        other, m = self.inside(lambda: self.leaf(n.elem, n.shape))
        other = [*other, Stmt(f"{v} = {{}};", [m])] if first is False or self.chance(0.5) else []
        bodies = [("then", body)] + ([("else", other)] if other else [])
        if not first:
            bodies = [("then", other), ("else", body)]
        self.emit(Stmt("if {}", [self.condition()], bodies))
        self.held(v, init, n, *([m] if other else []))

    def value_then(self, name, elem):
        self.arms(name, elem, True)

    def value_else(self, name, elem):
        self.arms(name, elem, False)

    def trips(self):
        return self.r.choice(["2", "3", "1 .. 3", "min(M, 2)", "m.tile + 1", "max(0, 2 - n.tile)"])

    def value_loop(self, name, elem, nest=False):
        i = self.name("j")
        j = self.name("j")

        def make():
            self.loops.append(i)
            if nest:
                self.loops.append(j)
            self.some()
            n = self.apply(name, elem)
            c = self.condition()
            return n, c

        body, (n, c) = self.inside(make)
        v, init = self.variable(n.elem, n.shape)
        if self.chance(0.5):
            body.append(Stmt("if {}", [c], [("", [Stmt(f"{v} = {{}};", [n])])]))
        else:
            body.append(Stmt(f"{v} = ({{}} ? {{}} : {v});", [c, n]))
        loop = Stmt(f"for {i} in {self.trips()}", [], [("loop", body)])
        if nest:
            inner = Stmt(f"for {j} in {self.trips()}", [], [("loop", body)])
            loop.bodies = [("loop", [inner])]
        self.emit(loop)
        self.held(v, init, n)

    def value_nested(self, name, elem):
        self.value_loop(name, elem, nest=True)

    def value_while(self, name, elem):
        i = self.name("j")
        self.emit(Stmt(f"var {i}: i64 = 0;"))

        def make():
            self.loops.append(i)
            self.some()
            return self.apply(name, elem)

        body, n = self.inside(make)
        v, init = self.variable(n.elem, n.shape)
        self.loops.append(i)
        c = self.condition()  # the data of each iteration decide
        self.loops.remove(i)
        body.append(Stmt(f"{v} = {{}};", [n]))
        body.append(Stmt(f"{i} = {i} + 1;"))
        self.emit(Stmt(f"while {i} < 3 && {{}}", [c], [("while", body)]))
        self.held(v, init, n)

    def state(self, elem, shape, reassociates):
        """A reference to a value that a loop carries, about which nothing is known."""
        s = self.name("v")
        mag = None
        r = Node(s, [], elem, shape, mag=mag, nan=True)
        r.zs = r.prod = elem.kind == "f"
        return s, r

    def value_carried(self, name, elem):
        """The op on a loop's state. An approximate result goes to a second variable, so that errors do not
        grow."""
        ranks = self.ops[name][2]
        shape = self.shape(ranks)
        s, r = self.state(elem, shape, False)
        i = self.name("j")
        init = self.leaf(elem, shape)

        def make():
            self.loops.append(i)
            self.focus, self.focus_mark = r, "carried"
            self.reassociates = True
            n = self.apply(name, elem, shape)
            self.reassociates = False
            self.focus = None
            if any(k is r for k in n.walk()):
                n.marks.add("carried")
            back = self.step(n, r, name)
            return n, back

        body, (n, back) = self.inside(make)
        self.emit(Stmt(f"var {s}: {self.declared(elem, shape)} = {{}};", [init]))
        second = back is None or self.chance(0.2)
        if second:
            q, first = self.variable(n.elem, n.shape)
            body.append(Stmt(f"{q} = {{}};", [n]))
            back = Node("({0} == {0} ? {0} : {1})", [r, self.filled(self.literal(elem, "small"), shape)], elem, shape)
            back.marks.add("carried")
        body.append(Stmt(f"{s} = {{}};", [back]))
        self.emit(Stmt(f"for {i} in {self.trips()}", [], [("loop", body)]))
        self.held(s, init, back)
        if second:
            self.held(q, first, n)

    def step(self, n, r, name):
        """The next state from the op's value; None if it may not enter the state."""
        if n.tol:
            return None
        if (n.elem, n.shape) == (r.elem, r.shape):
            # Parts of a split loop are summed and multiplied in another order. This is no sum and no product.
            if r.elem.kind == "f" and (n.prod or name in ("add", "sub", "mul")):
                return n.like("min({}, inf)", prod=False, zs=True)
            return n
        return self.coerced(n, r.elem, r.shape)

    def value_after(self, name, elem):
        """Uses the block again after an `if` whose arm needed it."""
        n = self.apply(name, elem)
        n.marks.add("after")
        if not n.shape:
            n = self.filled(n, self.shape((1, 2)))
        v = self.let(n)

        def arm():
            return self.coerced_to(self.use(v), s_elem, s_shape)

        s_elem, s_shape = v.elem, self.r.choice([(), v.shape])
        body, x = self.inside(arm)
        s, init = self.variable(s_elem, s_shape)
        bodies = [("then", body + [Stmt(f"{s} = {{}};", [x])])]
        nodes = [init, x]
        if self.chance(0.4):
            other, y = self.inside(arm)
            bodies.append(("else", other + [Stmt(f"{s} = {{}};", [y])]))
            nodes.append(y)
        self.emit(Stmt("if {}", [self.condition()], bodies))
        self.held(s, *nodes)
        self.store(v if self.chance(0.5) else self.use(v))

    def coerced_to(self, n, elem, shape):
        if n.tol and n.shape != shape:
            n = self.reshaped(n, shape)
        return n if n.elem == elem and n.shape == shape else self.coerced(n, elem, shape)

    def use(self, v):
        """A use that may need all of the block v in memory."""
        axis = self.r.randrange(len(v.shape))
        forms = [f"flip({{}}, {axis})", f"roll({{}}, 1, {axis})", "{}"]
        if v.elem.kind != "b":
            forms += [f"sort({{}}, axis = {axis})"] if len(v.shape) < 3 else []
            forms += [f"cummax({{}}, axis = {axis})"]
        n = v.like(self.r.choice(forms), shape=v.shape)
        n.zs = v.elem.kind == "f"
        return n

    def value_lane(self, name, elem):
        n = self.apply(name, elem)
        n.marks.add("lane")
        if not n.shape:
            n = self.filled(n, self.shape((1, 2)))
        if n.tol or self.chance(0.5):
            v = self.let(n)
            lane = ", ".join(str(self.r.randrange(e)) for e in v.shape)
            self.store(v.like(f"{{}}[{lane}]", shape=(), op="lane"))
            if self.chance(0.5):
                self.store(v)
            return
        self.lane_of_inner(n)

    def lane_of_inner(self, n):
        """A lane of a value that an inner loop carries, used in the outer loop."""
        s, r = self.state(n.elem, n.shape, False)
        i, j = self.name("j"), self.name("j")
        lane = ", ".join(str(self.r.randrange(e)) for e in n.shape)
        if n.elem.kind == "b":
            inner = r.like("({} != {})", [r, n])
            outer = r.like(f"({{0}} != {{0}}[{lane}])")
        else:
            inner = r.like("max({}, {})", [r, n])
            op = self.r.choice(["min", "max"])
            outer = r.like(f"{op}({{0}}, {self.r.choice(['{0}', '-{0}'])}[{lane}])")
        self.emit(Stmt(f"var {s}: {self.declared(n.elem, n.shape)} = {{}};", [self.leaf(n.elem, n.shape)]))
        body = [Stmt(f"for {j} in {self.trips()}", [], [("loop", [Stmt(f"{s} = {{}};", [inner])])])]
        body.append(Stmt(f"{s} = {{}};", [outer]))
        self.emit(Stmt(f"for {i} in {self.trips()}", [], [("loop", body)]))
        self.held(s, r)

    def value_fn(self, name, elem):
        def make():
            self.some()
            return self.apply(name, elem)

        body, n = self.inside(make)
        f = Fn(self.name("g"), body, n)
        self.p.fns.append(f)
        if self.chance(0.3):
            self.two_results(f, n)
            return
        call = n.like(f"{f.name}(@{f.name})", [], shape=n.shape)
        self.held(self.name_of(call), n)

    def two_results(self, f, n):
        saved, self.body = self.body, f.body
        m = self.leaf(self.elem("suf"), self.shape((0, 1, 2)))
        self.body = saved
        f.result = Node("({}, {})", [n, m], n.elem, n.shape)
        v, w = self.name("v"), self.name("v")
        self.emit(Stmt(f"let ({v}, {w}) = {f.name}(@{f.name});"))
        self.held(v, n)
        self.held(w, m)

    def name_of(self, n):
        name = self.name("v")
        self.emit(Stmt(f"let {name} = {{}};", [n]))
        return name

    def value_merge(self, name, elem):
        """A loop that can be split and adds to its state a value in which the op stands."""
        i = self.name("j")
        k = self.r.choice([3, 8])
        dim, total = self.own_dim(2 * k)
        anchor = self.tensor(self.e("i32"), [dim], [total], "wild")

        def make():
            self.loops.append(f"{i}.start")
            saved = self.stores, dict(self.ranges)
            self.ranges[i], self.dims[dim] = (k, dim), total
            self.stores = False
            n = self.apply(name, elem)
            self.stores, self.ranges = saved
            return n

        body, n = self.inside(make)
        if n.elem.kind == "b":
            n = self.cast(n, self.e("i32"))
        shape = n.shape
        p, q = self.name("v"), self.name("v")
        typed = self.declared(n.elem, shape)
        count = self.declared(self.e("i64"), ())
        self.p.head_fns["both"] = BOTH
        self.emit(Stmt(f"var {p}: {count} = 0;"))
        self.emit(Stmt(f"var {q}: {typed} = -inf;"))
        body.append(Stmt(f"({p}, {q}) = both(({p}, {q}), (sum({anchor}[{i}] as i64), {{}}));", [n]))
        self.emit(Stmt(f"for {i} in {dim} by {k} merge both", [], [("merge", body)]))
        r = n.like(q, [], shape=shape)
        r.zs, r.nan = n.elem.kind == "f", n.nan
        self.held(q, r)
        self.held(p, Node(p, [], self.e("i64"), ()))

    def value_stored(self, name, elem):
        """The op on a tensor that the program stores to, in another context."""
        self.plane(elem)
        contexts = ["straight", "straight", "then", "else", "loop", "loop", "nested", "while", "after", "lane", "fn", "merge"]
        self.place(name, self.r.choice(contexts), elem)

    # ---- contexts of effects

    def effect_straight(self, name, elem):
        self.apply(name, elem)

    effect_phases = effect_straight

    def effect_then(self, name, elem):
        body, _ = self.inside(lambda: self.apply(name, elem))
        self.emit(Stmt("if {}", [self.condition()], [("then", body)]))

    def effect_else(self, name, elem):
        body, _ = self.inside(lambda: self.apply(name, elem))
        other, _ = self.inside(self.some)
        self.emit(Stmt("if {}", [self.condition()], [("then", other), ("else", body)]))

    def effect_loop(self, name, elem, nest=False):
        i, j = self.name("j"), self.name("j")

        def make():
            self.loops.extend([i, j] if nest else [i])
            self.apply(name, elem)

        body, _ = self.inside(make)
        inner = [Stmt(f"for {j} in {self.trips()}", [], [("loop", body)])] if nest else body
        self.emit(Stmt(f"for {i} in {self.trips()}", [], [("loop", inner)]))

    def effect_nested(self, name, elem):
        self.effect_loop(name, elem, nest=True)

    def effect_while(self, name, elem):
        i = self.name("j")

        def make():
            self.loops.append(i)
            self.apply(name, elem)

        body, _ = self.inside(make)
        self.emit(Stmt(f"var {i}: i64 = 0;"))
        self.emit(Stmt(f"while {i} < 2", [], [("while", body + [Stmt(f"{i} = {i} + 1;")])]))

    def effect_fn(self, name, elem):
        body, _ = self.inside(lambda: self.apply(name, elem))
        f = Fn(self.name("g"), body)
        self.p.fns.append(f)
        self.emit(Stmt(f"{f.name}(@{f.name});"))

    # ---- the whole

    def frame(self):
        """The grid: tiles that do not divide the dimensions, and some that do."""
        r = self.r
        self.bm, self.bn = r.choice([1, 1, 2, 3, 4]), r.choice([1, 3, 4, 5, 8, 8, 16, 17])
        if r.random() < 0.06:
            self.bm, self.bn = r.choice([(16, 16), (16, 32), (32, 16)])
        self.dims = {"M": r.choice([1, self.bm, self.bm + 1, 2 * self.bm, 3]),
                     "N": r.choice([1, self.bn, self.bn + 2, 2 * self.bn, 7])}  # fmt: skip
        if r.random() < 0.05:  # more programs than threads, or than groups of programs
            self.bm, self.dims["M"], self.dims["N"] = 1, r.choice([70, 131, 200]), self.bn
        q = Param("a0", "f32[M, N]", self.pool.argument(self.e("f32"), [self.dims["M"], self.dims["N"]], "small", 0))
        q.kind = "small"
        self.p.params["a0"] = q
        self.settings()

    def settings(self):
        """Options that must not change results: compiler settings, threads, guarded memory, repeated
        launches."""
        r = self.r
        axes = self.t.axes
        if r.random() < 0.25:
            pinned = r.sample(sorted(axes), r.randint(1, 3))
            self.p.schedule = " schedule " + ", ".join(f"{a} = {r.choice(axes[a])}" for a in pinned)
        if r.random() < 0.15:
            self.p.typed = r.choice(self.t.computed).name
        if r.random() < 0.15 and self.dims["M"] < 60:
            self.p.flags.append(("", "-r", "1"))
        if r.random() < 0.3:
            self.p.flags.append(("cpu", "--guard"))
        if r.random() < 0.8:
            self.p.flags.append(("cpu", "-j", str(r.choice([1, 1, 2, 3, 7]))))

    def phase(self, goals, before=""):
        self.body, self.scope, self.loops = [], [], []
        self.ranges = {"m": (self.bm, "M"), "n": (self.bn, "N")}
        for name, context, elem in goals:
            self.place(name, context, self.t.elems[elem])
        whole = any(g[0] == "in place" or g[0].startswith("combine") for g in goals)
        head, inner = self.heads(whole)
        self.p.phases.append(Phase(head, self.body, before, inner=inner))

    def heads(self, whole):
        """(head, inner loop) of a phase: two indices, or a host loop with a bound from data and an inner
        loop."""
        m, n = f"m in M by {self.bm}", f"n in N by {self.bn}"
        kind = self.r.random()
        if whole or kind < 0.7:
            return f"parallel {m}, {n}", ""
        if kind < 0.78:
            return f"parallel {n}, {m}", ""
        if kind < 0.9:
            return f"parallel {m}", f"for {n}"
        low = self.r.choice(["1", f"{self.tensor(self.e('i32'), ['2'], [2], 'unit', fresh=True)}[1]"])
        return f"parallel m in {low} .. M by {self.bm}, {n}", ""

    def scratch(self):
        """A scratch tensor that one phase fills and the next reads."""
        elem, s = self.elem(), self.name("s")
        self.body, self.scope, self.loops = [], [], []
        self.ranges = {"m": (self.bm, "M"), "n": (self.bn, "N")}
        self.emit(Stmt(f"{s}[m, n] = {{}};", [self.val(elem, (self.bm, self.bn))]))
        head = f"parallel m in M by {self.bm}, n in N by {self.bn}"
        self.p.phases.append(Phase(head, self.body, f"    scratch {s}: {elem.name}[M, N];\n"))
        self.p.scratches[s] = f"{elem.name}[M, N]"
        self.scratches = [(s, elem)]

    def read_scratch(self):
        s, elem = self.scratches[0]
        sub = self.r.choice(["m, n", "m, n", "m + 1, n - 1", "m, n + 2", "M - 1 - index(m), n"])
        n = Node(f"{s}[{sub}]", [], elem, (self.bm, self.bn))
        n.nan = n.zs = n.prod = elem.kind == "f"
        return n

    def make(self):
        self.frame()
        parted = [g for g in self.goals if g[1] == "phases"]
        rest = [g for g in self.goals if g[1] != "phases"]
        if parted:
            self.scratch()
        self.phase(rest or parted[:1])
        in_place = any(g[0] == "in place" for g in self.goals)  # a phase of the main kernel itself
        if self.chance(0.15) and not in_place:
            self.p.phases[-1].called = self.name("call")
        elif self.chance(0.1) and not in_place:
            self.p.phases[-1].repeated = True
        if parted:
            self.body, self.scope, self.loops = [], [], []
            self.scope = [self.read_scratch()]
            for name, _, elem in parted:
                self.place(name, "phases", self.t.elems[elem])
            head = f"parallel m in M by {self.bm}, n in N by {self.bn}"
            self.p.phases.append(Phase(head, self.body))
        return self.p


