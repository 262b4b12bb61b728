"""Recipes for loops as kernels have them: windows with strides, dilation and padding; loops over parts;
products of picked rows. Each has elements, operands and shapes at random, as gen/ops.py has for single ops.
"""

from gen.data import MOST_SMALL
from gen.program import Node, Stmt, size


def state(g, elem, shape, mag):
    """(name, contexts) of a variable that a loop folds into; it may begin with a loop's state."""
    focus = g.focus
    name, _ = g.variable(elem, shape, g.val(elem, shape, mag))
    return name, {g.focus_mark} if focus is not None and g.focus is None else set()


def folded(name, elem, shape, op, marks, **known):
    n = Node(name, [], elem, shape, op, **known)
    n.marks |= marks
    return n


# ---- windows


class Window:
    """A read of x[b * stride - pad + tap * dilation, ...], one tap in each iteration of a nest of loops."""

    def __init__(self, g, elem, shape, kind):
        self.g, self.elem, self.shape = g, elem, shape
        self.taps = [(g.name("j"), g.r.choice([1, 2, 3, 3])) for _ in shape]
        if size([n for _, n in self.taps]) > 12:
            self.taps = [(name, min(n, 2)) for name, n in self.taps]
        steps = [self.axis(e, i, j) for i, (e, (j, _)) in enumerate(zip(shape, self.taps))]
        self.subs, self.places, dims, sizes = zip(*steps)
        self.dims = dims
        self.lead = g.chance(0.3) and len(shape) < 3  # another dimension, of which one is read
        if self.lead:
            sub, dim, n, _ = g.scalar_sub()
            dims, sizes, self.subs = (dim, *dims), (n, *sizes), (sub, *self.subs)
        self.name = g.tensor(elem, list(dims), list(sizes), kind, fresh=True)

    def axis(self, extent, i, j):
        """(subscript, the position as a block, dimension, size) of an axis."""
        g = self.g
        stride, dilation, pad = g.r.choice([1, 1, 2, 3]), g.r.choice([1, 1, 2, 3]), g.r.choice([0, 0, 1, 2, 4])
        dim, n = g.own_dim(extent * stride)
        frame = [x for x, (e, _) in g.ranges.items() if e == extent and x in "mn"]
        if frame and g.chance(0.7):
            base = g.r.choice(frame)
        else:
            base = g.name("v")
            g.emit(Stmt(f"let {base} = range({g.r.choice(['0', '0', '1', '-1'])}, {dim}, {extent});"))
        tap = j if dilation == 1 and g.chance(0.7) else f"{j} * {dilation}"
        shift = g.r.choice([f" - {pad} + {tap}", f" + {tap} - {pad}", f" - {tap} + {pad}"])
        along = ", ".join(":" if k == i else "None" for k in range(len(self.shape)))
        place = f"(index({base}) * {stride}{shift})" + (f"[{along}]" if len(self.shape) > 1 else "")
        return f"{base} * {stride}{shift}", place, dim, n

    def read(self, pad):
        subs = ", ".join(self.subs) + (f", pad = {pad}" if pad else "")
        return Node(f"{self.name}[{subs}]", [], self.elem, self.shape, "load pad" if pad else "load")

    def inside(self):
        """The text of a condition: the tap's position is in the tensor."""
        return " && ".join(f"{p} >= 0 && {p} < {d}" for p, d in zip(self.places, self.dims[-len(self.places):]))

    def loops(self, body):
        """One loop over all taps, or nested loops. Some bounds are unknown at compile time."""
        r = self.g.r
        heads = [f"{j} in {r.choice([n, n, n, f'min({n}, M + 1)'])}" for j, n in self.taps]
        if self.g.chance(0.6):
            return Stmt(f"for {', '.join(heads)}", [], [("loop", body)])
        for head in reversed(heads):
            body = [Stmt(f"for {head}", [], [("loop", body)])]
        return body[0]


FOLDS = {"sum": ("{} + {}", "0"), "max": ("max({}, {})", "-inf"), "min": ("min({}, {})", "inf"),
         "any": ("({} || {})", "false"), "last": ("{1}", "0")}  # fmt: skip


def window(fold):
    """The fold of each window over all its taps or over the taps inside the tensor, perhaps with weights."""

    def make(g, elem, shape):
        sums = fold == "sum" and elem.kind == "f"
        w = Window(g, elem, shape, "unit" if sums else "wild")
        count = size([n for _, n in w.taps])
        if sums and 2 * count + 1 > elem.exact:  # these sums round
            return window("max")(g, elem, shape)
        acc, marks = state(g, elem, shape, 1 if sums else None)
        fmt, unit = FOLDS[fold]
        whole = fold == "last"
        unit = "false" if elem.kind == "b" else unit
        pad = g.r.choice(["", unit, unit, "0" if elem.kind != "b" else "false", "1" if elem.kind != "b" else "true"])
        v = w.read(pad)
        if fold == "sum" and g.chance(0.5):
            v = weighted(g, elem, w, v)
        new = Node(fmt.format(acc, "{}") if not whole else "{}", [v], elem, shape)
        chosen = whole or g.chance(0.4)
        text = f"{acc} = ({w.inside()}) ? {{}} : {acc};" if chosen else f"{acc} = {{}};"
        body = [Stmt(text, [new])]
        if g.chance(0.2):
            body = [Stmt(f"if {w.taps[0][0]} != {g.r.choice(['1', 'm.tile'])}", [], [("then", body)])]
        g.emit(w.loops(body))
        name = f"window {fold}"
        return folded(acc, elem, shape, name, marks, mag=elem.exact if sums else None, zs=True, nan=not sums)

    return make


def weighted(g, elem, w, v):
    """Times a scalar of a tensor of weights, one for each tap."""
    dims = [g.name("D") for _ in w.taps]
    t = g.tensor(elem, dims, [n for _, n in w.taps], "unit", fresh=True)
    n = v.like(f"{{}} * {t}[{', '.join(j for j, _ in w.taps)}]", shape=v.shape)
    n.mag = 1 if elem.kind == "f" else None
    return n


def window_place(g, elem, shape):
    """The position of the greatest element of each window, as pooling finds it for its backward pass."""
    w = Window(g, elem, shape, "wild")
    least = "false" if elem.kind == "b" else "-inf"
    best = g.name("v")
    g.emit(Stmt(f"var {best}: {g.declared(elem, shape)} = {least};"))
    i64 = g.e("i64")
    at = g.name("v")
    g.emit(Stmt(f"var {at}: {g.declared(i64, shape)} = -1;"))
    value, take = g.name("v"), g.name("v")
    more = f"({value} && !{best})" if elem.kind == "b" else f"({value} > {best} || {value} != {value})"
    flat = w.places[0]
    for p, d in zip(w.places[1:], w.dims[-len(w.places) + 1:] if len(w.places) > 1 else ()):
        flat = f"({flat} * {d} + {p})"
    g.emit(w.loops([
        Stmt(f"let {value} = {{}};", [w.read(least)]),
        Stmt(f"let {take} = ({w.inside()}) && {more};"),
        Stmt(f"{at} = {take} ? {flat} : {at};"),
        Stmt(f"{best} = {take} ? {value} : {best};"),
    ]))
    if elem.kind != "b" and g.chance(0.3):
        g.held(best, Node(best, [], elem, shape, zs=True))
    return Node(at, [], i64, shape, "window place", of=elem)


# ---- loops over parts


def parts(fold):
    """A long loop in parts, each with a state of its own that joins the whole at its end. The parts are of equal
    length, or go from one offset in a tensor to the next."""

    def make(g, elem, shape):
        sums = fold == "sum" and elem.kind == "f"
        k, z, j = g.r.choice([2, 3, 4, 8]), g.name("j"), g.name("j")
        count = g.r.choice([1, 2, 3])
        dim, total = g.own_dim(3 * k)
        if sums and total + k + 1 > elem.exact:
            return parts("max")(g, elem, shape)
        t = g.tensor(elem, [dim], [total], "unit" if sums else "wild", fresh=True)
        low, high = bounds(g, z, dim, k, count)
        saved = dict(g.ranges), dict(g.dims)
        acc, marks = state(g, elem, shape, 1 if sums else None)
        fmt, unit = FOLDS[fold]
        part = g.name("v")
        lone = f"{'sum' if fold == 'sum' else fold}({t}[{j}{'' if fold == 'sum' else f', pad = {unit}'}])"
        if elem.kind == "b":
            lone = f"any({t}[{j}])"
        typed = g.declared(elem, shape)
        body = [Stmt(f"{part} = {fmt.format(part, lone)};")]
        if g.chance(0.3):
            body = [Stmt(f"if {j}.tile != 1", [], [("then", body)])]
        loop = Stmt(f"for {j} in {low} .. {high} by {k}", [], [("loop", body)])
        join = Stmt(f"{acc} = {fmt.format(acc, part)};")
        if g.chance(0.3):
            join = Stmt(f"if {low} < {high}", [], [("then", [join])])
        start = unit if fold != "sum" else "0"
        g.emit(Stmt(f"for {z} in {count}", [],
                    [("loop", [Stmt(f"var {part}: {typed} = {start};"), loop, join])]))  # fmt: skip
        g.ranges, g.dims = saved
        return folded(acc, elem, shape, f"parts {fold}", marks, mag=elem.exact if sums else None, zs=True, nan=not sums)

    return make


def bounds(g, z, dim, k, count):
    """(low, high) of part z."""
    if g.chance(0.5):
        each = g.r.choice([k, 2 * k, k + 1, f"ceildiv({dim}, {count})"])
        return f"{z} * {each}", f"min(({z} + 1) * {each}, {dim})"
    own = g.name("D")
    off = g.tensor(g.e("i32"), [own], [count + 1], "wild", fresh=True)
    return f"abs({off}[{z}]) % ({dim} + 1)", f"abs({off}[{z} + 1]) % ({dim} + 1)"


# ---- products of picked rows


def picked_rows(g, dim, count):
    """A block of positions along a dimension, from data; some may be outside."""
    own = g.name("D")
    t = g.tensor(g.e(g.r.choice(["i32", "i64"])), [own], [count], "wild", fresh=True)
    name, form = g.name("v"), g.r.choice(["abs({}) % {}", "abs({}) % {}", "abs({}) % ({} + 1) - 1"])
    g.emit(Stmt(f"let {name} = {form.format(f'{t}[range(0, {own}, {count})]', dim)};"))
    return name


def picked_products(g, elem, shape):
    """Two or more products of rows that data picks. The second product takes the result of the first. They run
    once, or in a loop over tiles of the picked rows."""
    to = g.e("f32" if elem.kind == "f" and elem.name != "f64" else "f64" if elem.kind == "f" else "i32")
    m = g.r.choice([shape[0], 4, 16]) if size(shape) < 64 else shape[0]
    k, n, d = (g.r.choice([8, 16, 5]) for _ in range(3))
    kdim, ddim = g.own_dim(2 * n)[0], g.name("D")
    rows = g.r.choice([n, 2 * n, n + 3])
    q = g.load(elem, (m, k), "small")
    keys = g.tensor(elem, [kdim, str(k)], [rows, k], "small", fresh=True)
    values = g.tensor(elem, [kdim, ddim], [rows, g.r.choice([d, d + 2, 1])], "small", fresh=True)
    acc, _ = g.variable(to, (m, d), g.leaf(to, (m, d), "small"))

    def turn():
        pick = picked_rows(g, kdim, n)
        a = Node(f"dot({{}}, trans({keys}[{pick}, :]))", [q], to, (m, n), "dot", of=elem)
        low = squeezed(g, elem, a)
        if g.chance(0.4):
            pick = picked_rows(g, kdim, n)
        wide = f"range(0, {ddim}, {d})"
        return Node(f"dot({{}}, {values}[{pick}, {wide}])", [low], to, (m, d), "dot", of=elem)

    body, x = g.inside(turn)
    body.append(Stmt(f"{acc} += {{}};", [x]))
    if g.chance(0.3):
        other, y = g.inside(turn)
        body += [*other, Stmt(f"{acc} += {{}};", [y])]
    if g.chance(0.3):
        body = [Stmt("if {}", [g.condition()], [("then", body)])]
    j = g.name("j")
    g.emit(Stmt(f"for {j} in {g.trips()}", [], [("loop", body)]))
    return Node(acc, [], to, (m, d), "picked products", mag=1 << 20 if to.kind == "f" else None, zs=True, of=elem)


def squeezed(g, elem, n):
    """A product's result as an operand of the next: small integers of the element."""
    if elem.kind != "f":
        return Node(f"({{}} as {elem.name})", [n], elem, n.shape)
    e, most = n.elem.name, MOST_SMALL
    return Node(f"(min(max({{}}, -{most} as {e}), {most} as {e}) as {elem.name})", [n], elem, n.shape)


def register(registry, tables):
    numbers, every = tables.of("suf"), tables.of("sufb")
    for fold in ("sum", "max", "min"):
        registry.add(f"window {fold}", numbers, window(fold), (1, 2, 3))
        registry.add(f"parts {fold}", numbers, parts(fold), (0, 1, 2))
    registry.add("window any", tables.of("b"), window("any"), (1, 2, 3))
    registry.add("parts any", tables.of("b"), parts("any"), (0, 1, 2))
    registry.add("window last", every, window("last"), (1, 2, 3))
    registry.add("window place", every, window_place, (1, 2, 3))
    names = "i8 u8 f8e4m3 f8e5m2 f16 bf16 f32 f64".split()
    registry.add("picked products", [tables.elems[e] for e in names], picked_products, (2,))
