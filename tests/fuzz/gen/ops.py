"""Recipes for calls of each op. Elementwise ops follow from their rows; builtins and the prelude have
recipes.

A recipe makes an expression of the op with operands of an element and a shape. An op of the tables that
has neither a recipe nor a reason to be left out is an error, so every new op is tested or listed here.
"""

from gen import forms
from gen.data import MOST_SMALL
from gen.program import Node, Stmt, size

# The error that approximate functions of f32 and f64 may have, in units in the last place.
LIBRARY_ULPS = 8
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^",
             "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}  # fmt: skip
PREFIX = {"neg": "-", "not": "~"}
# Ops whose result depends on the sign of a zero, or of a NaN, in these operands.
SIGN_OF_ZERO = {"signbit": (0,), "copysign": (1,), "div": (1,), "atan2": (0, 1), "rsqrt": (0,), "pow": (0,),
                "tgamma": (0,)}  # fmt: skip
SIGN_OF_NAN = {"signbit": (0,), "copysign": (1,)}
SIGNLESS = {"min", "max", "fdim"}

LEFT_OUT = {
    **dict.fromkeys("my_pe n_pes put put_nbi get get_nbi put_signal put_signal_nbi signal_op "
                    "signal_wait_until atomic_set atomic_fetch atomic_swap atomic_compare_swap atomic_inc "
                    "atomic_fetch_inc atomic_fetch_add atomic_fetch_and atomic_fetch_or atomic_fetch_xor "
                    "fence quiet barrier_all".split(), "of several ranks: ranks.py"),
    **dict.fromkeys(["stride", "align"], "of the host's contracts, not of programs"),
    "print": "writes text in an order that threads choose",
    **dict.fromkeys("greater_place lesser_place places ordered found philox_round philox_two_rounds philox".split(),
                    "tuples inside of argmax, argmin, rand"),
    "as_element": "inside of wide",
    **dict.fromkeys(["range", "cover", "ceildiv", "extent", "isfloat", "isint", "bitsize"],
                    "constants and ranges, used by all programs"),
}  # fmt: skip


def elementwise(row):
    """The recipe of a row of lang/elementwise.def."""

    def make(g, elem, shape):
        name = row.name
        xs = [operand(g, name, i, elem, shape) for i in range(row.operands)]
        if name in OPERATORS:
            fmt = f"({{}} {spelt(g, name, elem)} {{}})"
        elif name in PREFIX:
            fmt = ("(!{})" if elem.kind == "b" else f"({PREFIX[name]}{{}})")
        else:
            fmt = f"{name}({', '.join(['{}'] * row.operands)})"
        if compares(name):
            return Node(fmt, xs, g.e("bool"), shape, name, of=elem)
        return Node(fmt, xs, elem, shape, name, **result(row, elem, xs))

    return make


def spelt(g, name, elem):
    logic = {"and": "&&", "or": "||"}
    return logic[name] if elem.kind == "b" and name in logic and g.chance(0.5) else OPERATORS[name]


def compares(name):
    return name in ("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "signbit")


def operand(g, name, i, elem, shape):
    fuses = name in ("add", "sub") or (name == "fma" and i == 2)
    mag = None
    if elem.kind == "f" and g.reassociates:
        mag = {"add": MOST_SMALL, "sub": MOST_SMALL, "mul": 1}.get(name)
    return g.val(elem, shape, mag, const=i > 0, prod=not fuses, zs=i not in SIGN_OF_ZERO.get(name, ()),
                 nan=i not in SIGN_OF_NAN.get(name, ()))  # fmt: skip


def result(row, elem, xs):
    """The known properties of the value."""
    if elem.kind != "f":
        return {}
    name = row.name
    mags = [x.mag for x in xs]
    mag = None
    if None not in mags:
        mag = {"add": sum(mags), "sub": sum(mags), "min": max(mags), "max": max(mags), "neg": mags[0],
               "abs": mags[0], "floor": mags[0], "ceil": mags[0], "trunc": mags[0], "rint": mags[0],
               "round": mags[0], "copysign": mags[0]}.get(name)  # fmt: skip
        if name == "mul":
            mag = mags[0] * mags[1]
        if mag is not None and mag > elem.exact:
            mag = None
    known = {"mag": mag, "prod": name == "mul" or (name == "neg" and xs[0].prod)}
    if name in SIGNLESS:
        known["zs"] = True
    if row.approximate:
        wide = elem.name in ("f32", "f64")
        eps = {"f64": 1e-14, "f32": 1e-6}.get(elem.name, 2e-6)
        known["tol"] = (LIBRARY_ULPS if wide else 1.01, eps if name == "lgamma" else 0)
    return known


# ---- reductions, scans, orders


def folds(g, elem, n, unit=False):
    """The magnitude that n operands of an exact sum may have."""
    if elem.kind != "f":
        return None
    return 1 if unit else max(1, min(MOST_SMALL, elem.carried // max(n, 1)))


def axis_of(g, shape):
    return g.r.randrange(len(shape))


def dropped(shape, axis):
    return shape[:axis] + shape[axis + 1 :]


def reduced(name, *, unit=False, bools=False, to=None, extra=""):
    def make(g, elem, shape):
        axis = axis_of(g, shape)
        whole = g.chance(0.15)
        n = size(shape) if whole else shape[axis]
        adds = name in ("sum", "prod")
        x = g.val(elem, shape, folds(g, elem, n, unit) if adds else None)
        mag = x.mag
        if name == "sum" and mag is not None:
            mag = mag * n if mag * n <= elem.exact else None
        e = g.e(to) if to else elem
        how = "" if whole else f", axis = {axis}"
        return Node(f"{name}({{}}{how}{extra})", [x], e, () if whole else dropped(shape, axis), name,
                    mag=mag if not to else None, nan=x.nan if not adds else False, zs=elem.kind == "f",
                    of=elem)  # fmt: skip

    return make


def monoid(fn):
    """reduce and scan by a named function of the language, with all options."""

    def reduce(g, elem, shape):
        axis = axis_of(g, shape)
        x = g.val(elem, shape, exact_for(g, fn, elem, shape[axis]))
        fixed = g.r.choice(["", ", order = fixed"])
        mag = x.mag
        if fn == "add" and mag is not None:
            mag = mag * shape[axis] if mag * shape[axis] <= elem.exact else None
        return Node(f"reduce({{}}, {fn}, axis = {axis}{fixed})", [x], elem, dropped(shape, axis), f"reduce {fn}",
                    mag=mag, nan=x.nan, zs=elem.kind == "f")  # fmt: skip

    return reduce


def exact_for(g, fn, elem, n):
    if elem.kind != "f" or fn not in ("add", "mul"):
        return None
    return folds(g, elem, n, unit=fn == "mul")


def scanned(name, fn):
    def make(g, elem, shape):
        axis = axis_of(g, shape)
        x = g.val(elem, shape, exact_for(g, fn, elem, shape[axis]))
        extra = ""
        if g.chance(0.5):
            extra += ", reverse = true"
        if g.chance(0.4):
            extra += ", exclusive = true"
        text = f"{name}({{}}" if name != "scan" else f"scan({{}}, {fn}"
        mag = x.mag
        if fn == "add" and mag is not None:
            mag = mag * shape[axis] if mag * shape[axis] <= elem.exact else None
        if "exclusive" in extra and fn in ("min", "max"):
            mag = None
        return Node(f"{text}, axis = {axis}{extra})", [x], elem, shape, name if name != "scan" else f"scan {fn}",
                    mag=mag, nan=x.nan, zs=elem.kind == "f")  # fmt: skip

    return make


def placed(name):
    def make(g, elem, shape):
        axis = axis_of(g, shape)
        whole = g.chance(0.15)
        x = g.val(elem, shape)
        return Node(f"{name}({{}}{'' if whole else f', axis = {axis}'})", [x], g.e("i64"),
                    () if whole else dropped(shape, axis), name, of=elem)  # fmt: skip

    return make


BOTH = """fn both(a, b) {
    let (p, q) = a;
    let (r, s) = b;
    return (p + r, max(q, s));
}
"""
SECOND = """fn second(t) {
    let (p, q) = t;
    return q;
}
"""
FIRST = """fn first(t) {
    let (p, q) = t;
    return p;
}
"""


AFFINE = """fn affine(a, b) {
    let (p, q) = a;
    let (r, s) = b;
    return (p * r, q * r + s);
}
"""
LAST = """fn last(a, b) {
    let (p, q) = a;
    let (r, s) = b;
    let later = r >= p || p != p;
    return (later ? r : p, later ? s : q);
}
"""


def ordered_fold(kind):
    """A fold of tuples whose operands must not be swapped."""

    def make(g, elem, shape):
        g.p.head_fns.update(affine=AFFINE, last=LAST, second=SECOND, first=FIRST)
        axis = axis_of(g, shape)
        fn = g.r.choice(["affine", "last"]) if elem.kind != "f" else "last"
        x, y = g.val(elem, shape, nan=False, zs=False), g.val(elem, shape)
        part = g.r.choice(["first", "second"])
        n = x if part == "first" else y
        how = g.r.choice(["", ", reverse = true"]) if kind == "scan" and fn == "affine" else ""
        rest = dropped(shape, axis) if kind == "reduce" else shape
        return Node(f"{part}({kind}(({{}}, {{}}), {fn}, axis = {axis}{how}))", [x, y], elem, rest, f"{kind} in order",
                    nan=n.nan, zs=elem.kind == "f")  # fmt: skip

    return make


def pair_fold(kind):
    """A fold of tuples by a function of the file."""

    def make(g, elem, shape):
        axis = axis_of(g, shape)
        most = elem.exact // shape[axis] if elem.kind == "f" else None
        if most == 0:  # sums round
            return ordered_fold(kind)(g, elem, shape)
        g.p.head_fns.update(both=BOTH, second=SECOND, first=FIRST)
        x = g.val(elem, shape, None if most is None else min(MOST_SMALL, most))
        y = g.val(elem, shape)
        part = g.r.choice(["first", "second"])
        call = f"{kind}(({{}}, {{}}), both, axis = {axis})"
        rest = dropped(shape, axis) if kind == "reduce" else shape
        n = x if part == "first" else y
        return Node(f"{part}({call})", [x, y], elem, rest, f"{kind} tuple", nan=y.nan and part == "second",
                    zs=elem.kind == "f", mag=None if part == "second" else (n.mag or 0) * shape[axis])  # fmt: skip

    return make


def sorted_(g, elem, shape):
    axis = axis_of(g, shape)
    down = g.r.choice(["", ", descending = true"])
    x = g.val(elem, shape)
    if g.chance(0.3):
        g.p.head_fns.update(second=SECOND)
        other = g.elem("suf")
        y = g.val(other, shape)
        n = Node(f"second(sort(({{}}, {{}}), axis = {axis}{down}))", [x, y], other, shape, "sort", mag=y.mag,
                 nan=y.nan, zs=y.zs, of=elem)  # fmt: skip
        return n
    return Node(f"sort({{}}, axis = {axis}{down})", [x], elem, shape, "sort", mag=x.mag, nan=x.nan, zs=x.zs)


def topk(g, elem, shape):
    axis = axis_of(g, shape)
    k = g.r.randint(1, shape[axis])
    x = g.val(elem, shape)
    cut = shape[:axis] + (k,) + shape[axis + 1 :]
    g.p.head_fns.update(first=FIRST, second=SECOND)
    call = f"(topk({{}}, {k}, axis = {axis}))"
    if g.chance(0.5):
        return Node(f"first{call}", [x], elem, cut, "topk", mag=x.mag, nan=x.nan, zs=x.zs)
    return Node(f"second{call}", [x], g.e("i64"), cut, "topk", of=elem)


def histogram(g, elem, shape):
    n = g.r.choice([1, 3, 8, 17])
    x = g.val(elem, shape)
    return Node(f"histogram({{}}, {n})", [x], g.e("i32"), (n,), "histogram", of=elem)


def gathered(g, elem, shape):
    axis = axis_of(g, shape)
    x = g.val(elem, shape)
    i = g.val(g.e("i64"), shape)
    i = Node(g.r.choice([f"({{}} % {shape[axis] + 1})", "{}", f"(abs({{}}) % {shape[axis]})"]), [i], i.elem, shape)
    return Node(f"gather({{}}, {{}}, axis = {axis})", [x, i], elem, shape, "gather", mag=x.mag, nan=x.nan,
                zs=x.zs)  # fmt: skip


def moved(name):
    def make(g, elem, shape):
        axis = axis_of(g, shape)
        x = g.val(elem, shape)
        how = f"flip({{}}, {axis})" if name == "flip" else f"roll({{}}, {g.r.randint(0, 5)}, {axis})"
        return x.like(how, op=name, shape=shape)

    return make


# ---- shapes


def transposed(g, elem, shape):
    x = g.val(elem, shape)
    return x.like("trans({})", op="trans", shape=shape[:-2] + (shape[-1], shape[-2]))


def permuted(g, elem, shape):
    order = g.r.sample(range(len(shape)), len(shape))
    x = g.val(elem, shape)
    return x.like(f"permute({{}}, {', '.join(map(str, order))})", op="permute", shape=tuple(shape[i] for i in order))


def reshaped(g, elem, shape):
    x, n = g.val(elem, shape), size(shape)
    forms = [(n,), (1, n), (n, 1)] + [(a, n // a) for a in (2, 3, 4, 8) if n % a == 0]
    to = g.r.choice(forms)
    return x.like(f"reshape({{}}, {', '.join(map(str, to))})", op="reshape", shape=to)


def broadcasted(g, elem, shape):
    axis = axis_of(g, shape)
    x = g.val(elem, dropped(shape, axis))
    subs = ", ".join("None" if i == axis else ":" for i in range(len(shape)))
    inner = f"({{}})[{subs}]" if len(shape) > 1 else "{}"
    return x.like(f"broadcast({inner}, {', '.join(map(str, shape))})", op="broadcast", shape=shape)


def concatenated(g, elem, shape):
    axis = axis_of(g, shape)
    x = g.val(elem, shape)
    other = shape[:axis] + (g.r.choice([1, 2, shape[axis]]),) + shape[axis + 1 :]
    y = g.val(elem, other)
    to = shape[:axis] + (shape[axis] + other[axis],) + shape[axis + 1 :]
    mag = max(x.mag, y.mag) if x.mag is not None and y.mag is not None else None
    order = [x, y] if g.chance(0.5) else [y, x]
    n = Node(f"concat({{}}, {{}}, axis = {axis})", order, elem, to, "concat", mag=mag, nan=x.nan or y.nan)
    n.prod = elem.kind == "f" and (x.prod or y.prod)
    return n


def sliced(g, elem, shape):
    axis = axis_of(g, shape)
    x = g.val(elem, shape)
    low = g.r.randrange(shape[axis])
    high = g.r.randint(low + 1, shape[axis])
    subs = ", ".join(f"{low} .. {high}" if i == axis else ":" for i in range(len(shape)))
    return x.like(f"({{}})[{subs}]", op="slice", shape=shape[:axis] + (high - low,) + shape[axis + 1 :])


def lane(g, elem, shape):
    x = g.val(elem, shape)
    subs = [str(g.r.randrange(e)) for e in shape]
    keep = g.r.randrange(len(shape) + 1)
    rest = tuple(e for i, e in enumerate(shape) if i == keep)
    subs = ", ".join(":" if i == keep else s for i, s in enumerate(subs))
    return x.like(f"({{}})[{subs}]", op="lane", shape=rest)


def bitcast(g, elem, shape):
    x = g.val(elem, shape, zs=False, nan=False)
    to = g.r.choice([e for e in g.t.computed if e.bits == elem.bits and e != elem and e.kind != "b"] or [elem])
    if x.zs:
        x = x.like("abs({})", zs=False)
    return Node(f"bitcast({{}}, {to.name})", [x], to, shape, "bitcast", of=elem)


def as_bits(g, elem, shape):
    """elem: the unsigned integer that results."""
    x = g.val(g.r.choice([e for e in g.t.computed if e.bits == elem.bits and e.kind != "b"]), shape, zs=False, nan=False)
    if x.zs:
        x = x.like("abs({})", zs=False)
    return Node("bits({})", [x], elem, shape, "bits")


def selected(g, elem, shape):
    c = g.val(g.e("bool"), shape if g.chance(0.7) else ())
    x = g.val(elem, shape)
    y = g.val(elem, shape, const=True)
    mag = max(x.mag, y.mag) if x.mag is not None and y.mag is not None else None
    return Node("({} ? {} : {})", [c, x, y], elem, shape, "select", mag=mag, nan=x.nan or y.nan,
                prod=x.prod or y.prod)  # fmt: skip


def valid(g, elem, shape):
    x = g.val(elem, shape)
    return Node("valid({})", [x], g.e("bool"), shape, "valid", of=elem)


def present(g, elem, shape):
    x = g.val(elem, shape)
    return Node("present({})", [x], g.e("bool"), shape, "present", of=elem)


def dot(g, elem, shape):
    k = g.r.choice([shape[1], 16, 3, 32])
    n = g.r.choice([shape[0], 8, 5, 16])
    x, y = turned(g, elem, (shape[0], k)), turned(g, elem, (k, n))
    to = "f32" if elem.kind == "f" and elem.name != "f64" else "f64" if elem.kind == "f" else "i32"
    how = g.r.choice(["", "", ", precision = tf32x3", ", precision = tf32", ", precision = fast"])
    if elem.name != "f32" and how != ", precision = fast":
        how = ""
    if elem.kind != "f":
        how = ""
    mag = x.mag * y.mag * k if elem.kind == "f" else None
    return Node(f"dot({{}}, {{}}{how})", [x, y], g.e(to), (shape[0], n), "dot", mag=mag, nan=False, zs=True,
                of=elem)  # fmt: skip


def turned(g, elem, shape):
    """An operand of a product, directly or transposed."""
    mag = MOST_SMALL if elem.kind == "f" else None
    if g.chance(0.7):
        return g.val(elem, shape, mag)
    x = g.val(elem, shape[::-1], mag)
    return x.like("trans({})", op="trans", shape=shape)


def product(g, elem, shape):
    """A loop of products over tiles, in the form that `contract` and the matrix units of GPUs take."""
    m, n = g.r.choice([shape, (16, 8), (32, 16), (16, 32), (64, 16)])
    k, j = g.r.choice([8, 16, 32, 5]), g.name("j")
    dim, total = g.own_dim(2 * k)
    to = g.e("f32" if elem.kind == "f" and elem.name != "f64" else "f64" if elem.kind == "f" else "i32")
    anchor = g.tensor(g.e("i32"), [dim], [total], "wild", fresh=True)
    acc, init = g.variable(to, (m, n), g.leaf(to, (m, n), "small"))

    def turn():
        saved = dict(g.ranges)
        g.ranges[j], g.dims[dim] = (k, dim), total
        x, y = turned(g, elem, (m, k)), turned(g, elem, (k, n))
        g.ranges = saved
        return Node("dot({}, {})", [x, y], to, (m, n), "dot", of=elem)

    body, x = g.inside(turn)
    body.append(Stmt(f"{acc} += {{}};", [x]))
    hi = g.r.choice([dim, dim, f"min({dim}, M * 4)", f"{anchor}[0] % 9 .. {dim}"])
    g.emit(Stmt(f"for {j} in {hi} by {k}", [], [("loop", body)]))
    return Node(acc, [], to, (m, n), "product", mag=1 << 20 if to.kind == "f" else None, zs=True, of=elem)


def cast_to(to):
    def make(g, elem, shape):
        if elem.storage_only:
            x = g.load(elem, shape)
        elif g.chance(0.4):  # a chain that may be folded to one product
            x = g.cast(g.val(g.elem(), shape), g.elem()) if g.chance(0.4) else g.val(g.elem(), shape)
            x = g.cast(x, elem)
        else:
            x = g.val(elem, shape)
        return g.cast(x, to)

    return make


def loaded(kind):
    def make(g, elem, shape):
        n = g.load(elem, shape, pads=kind == "load pad")
        return g.cast(n, g.elem("suf"), op=False) if elem.storage_only else n

    return make


# ---- the prelude, elementwise: operands are small integers where an approximation cancels


def prelude(name, params, **known):
    def make(g, elem, shape):
        tol = known.get("tol")
        mag = known.get("mag", MOST_SMALL if tol else None)
        x = g.val(elem, shape, mag, prod=name not in ("fract", "lerp"))
        if not x.kids and x.fmt.startswith("("):  # a choice between constants has no type in the prelude
            x = g.load(elem, shape, "small")
        rest = [g.val(elem, () if p == "s" else shape, mag if mag is not None else known.get("rest"), prod=False)
                for p in params]  # fmt: skip
        text = f"{name}({', '.join(['{}'] * (1 + len(rest)))})"
        if known.get("to"):
            return Node(text, [x, *rest], g.e(known["to"]), shape, name, of=elem)
        n = Node(text, [x, *rest], elem, shape, name, nan=x.nan or any(y.nan for y in rest), zs=elem.kind == "f",
                 prod=known.get("prod", False))  # fmt: skip
        if tol and elem.kind == "f":
            eps = 1 / elem.exact
            n.tol = (tol, tol * eps * 16)
        return n

    return make


def random_(name):
    def make(g, elem, shape):
        i = g.val(elem, shape)
        seed = g.literal(g.e("u64"), "small")
        extra, to = {"rand": ("", "f32"), "randn": ("", "f32"), "rand_u32": ("", "u32"),
                     "randint": (", -5, 1000", "i64")}[name]  # fmt: skip
        tol = (64, 1e-4) if name == "randn" else None
        return Node(f"{name}({{}}, {{}}{extra})", [seed, i], g.e(to), shape, name, nan=False, tol=tol, of=elem)

    return make


def widened(g, elem, shape):
    x = g.val(elem, shape)
    to = elem if elem.name == "f64" else g.e("f32")
    return Node("wide({})", [x], to, shape, "wide", mag=x.mag, nan=x.nan, zs=x.zs, of=elem)


def widened_like(g, elem, shape):
    like, x = g.val(elem, ()), g.val(g.elem("suf"), shape)
    to = elem if elem.name == "f64" else g.e("f32")
    return Node("wide_like({}, {})", [x, like], to, shape, "wide_like", of=elem)


# ---- effects: statements


def combined(fn):
    def make(g, elem, shape):
        unit, adds = fn == "mul", fn in ("add", "mul")
        x = g.val(elem, shape, exact_for(g, fn, elem, 64) if adds else None)
        if unit and elem.kind in "su":
            x = g.val(elem, shape)
        o, place = g.common(elem, shape)
        keep = g.r.choice(["", ", keep = true"])
        o.signless = True
        g.emit(Stmt(f"combine({place}, {{}}, {fn}{keep});", [x], op=f"combine {fn}", of=elem))

    return make


def combined_pair(g, elem, shape):
    """A combine at two places at once, by a function of the file."""
    g.p.head_fns.update(both=BOTH)
    x, y = g.val(elem, shape, 1 if elem.kind == "f" else None), g.val(elem, shape)
    o, _ = g.common(elem, shape)
    dims, sizes, subs = g.place_of
    q = g.out(elem, dims, sizes)
    o.signless = q.signless = True
    keep = g.r.choice(["", ", keep = true"])
    g.emit(Stmt(f"combine(({o.name}[{subs}], {q.name}[{subs}]), ({{}}, {{}}), both{keep});", [x, y],
                op="combine tuple", of=elem))  # fmt: skip


def scattered(g, elem, shape):
    """A store to computed positions, some of which are outside."""
    e, rest = shape[-1], list(shape[:-1])
    x, c = g.val(elem, shape), g.r.choice([-1, 0, 0, 1])
    pick = g.r.choice([f"{e - 1 + c} - iota({e})", f"iota({e}) * 2 + {c}", f"(iota({e}) + {c}) * -1 + {e}", f"iota({e}) + {c}"])
    tiles = [-(-g.dims[d] // g.ranges[r][0]) for r, d in (("m", "M"), ("n", "N"))]
    sizes = tiles + rest + [max(1, e + g.r.choice([-2, 0, 0, 3, e]))]
    dims = [g.name("D"), g.name("D"), *map(str, rest), g.name("D")]
    o = g.out(elem, dims, sizes)
    o.signless = x.zs
    subs = ", ".join(["m.tile", "n.tile"] + [":"] * len(rest) + [pick])
    g.emit(Stmt(f"{o.name}[{subs}] = {{}};", [x], op="scatter", of=elem))


def tuned(g, elem, shape):
    """A loop over tiles of a size that the compiler chooses, and that it may split."""
    z, j, dim, total = g.name("Z"), g.name("j"), *g.own_dim(g.r.choice([3, 9, 20]))
    values = g.r.sample([1, 2, 4, 5, 8, 16], g.r.randint(1, 3))
    g.p.tunes[z] = f"{z} = {' | '.join(map(str, values))}", f"{z} <= {g.r.choice(values)}"
    fold = g.r.choice(["sum", "max"]) if elem.kind != "f" or elem.exact > 500 else "max"
    x = g.load(elem, shape, "small", pads=False)
    t = g.tensor(elem, [dim], [total], "small", fresh=True)
    acc, init = g.variable(elem, shape, g.val(elem, shape, 4))
    term = f"sum({t}[{j}])" if fold == "sum" else f"max({t}[{j}, pad = -inf])"
    new = f"{acc} + {{}} * {term}" if fold == "sum" else f"max({acc}, min({{}}, {term}))"
    body = [Stmt(f"{acc} = {new};", [x])]
    g.emit(Stmt(f"for {j} in {dim} by {z}", [], [("loop", body)]))
    mag = None if fold == "sum" else MOST_SMALL
    return Node(acc, [], elem, shape, "tuned", mag=mag, nan=False, zs=True)


def atomic(name):
    def make(g, elem, shape):
        fn = name.removeprefix("atomic_")
        x = g.val(elem, shape, 1 if elem.kind == "f" else None)
        o, place = g.common(elem, shape, gathered=fn not in ("xchg", "cas"))
        o.signless = True
        if fn == "xchg":
            g.emit(Stmt(f"atomic_xchg({place}, (2 as {elem.name}));", [], op=name, of=elem))
            return
        if fn == "cas":
            g.emit(Stmt(f"atomic_cas({place}, 0, (3 as {elem.name}));", [], op=name, of=elem))
            return
        g.emit(Stmt(f"{name}({place}, {{}});", [x], op=name, of=elem))

    return make


def stored(g, elem, shape):
    if elem.storage_only:
        shape = shape[:-1] + (shape[-1] + (shape[-1] & 1),)
        x = Node(f"({{}} as {elem.name})", [g.val(g.elem("suf"), shape)], elem, shape)
    else:
        x = g.val(elem, shape)
    g.store(x, op="store")


def optional(g, elem, shape):
    """A tensor that the caller may leave out, read if it is present."""
    v, init = g.variable(elem, shape)
    n = g.load(elem, shape, fresh=True)
    name = n.fmt.split("[")[0]
    q = g.p.params[name]
    dims = q.type[q.type.index("[") + 1 : -1].split(", ")
    if dims != [""]:  # another tensor names its dims, since a tensor that may be null binds no names
        g.tensor(g.e("u8"), dims, q.sizes, "wild", fresh=True)
    q.type += "?"
    q.argument = q.argument if g.chance(0.5) else "none"
    g.emit(Stmt(f"if {name}", [], [("", [Stmt(f"{v} = {{}};", [n])])]))
    r = g.ref(v, init, n)
    r.op = "optional"
    return r


def in_place(g, elem, shape):
    """An input and an output that are one view."""
    x = g.tensor(elem, ["M", "N"], [g.dims["M"], g.dims["N"]], "wild", fresh=True, plain=True)
    o = g.out(elem, ["M", "N"], [g.dims["M"], g.dims["N"]], strided=False)
    g.p.params[o.name].argument = f"same({x})"
    n = Node(f"{x}[m, n]", [], elem, (g.bm, g.bn))
    g.focus = n
    y = g.coerced(g.apply(g.r.choice(["select", "neg", "max"]) if elem.kind != "b" else "not", elem, n.shape), elem, n.shape)
    g.focus = None
    if not any(k is n for k in y.walk()):
        y = n
    o.signless = y.zs
    g.emit(Stmt(f"{o.name}[m, n] = {{}};", [y], op="in place", of=elem))


def asserted(g, elem, shape):
    x = g.val(elem, shape)
    g.emit(Stmt('assert(({} == {} || true), "never");', [x, x], op="assert", of=elem))


# ---- the registry


class Registry:
    """name -> (elements, recipe, ranks, whether it is an effect)."""

    def __init__(self, tables):
        self.t, self.ops = tables, {}
        num, floats, ints = tables.of("suf"), tables.of("f"), tables.of("su")
        every, bools = tables.of("sufb"), tables.of("b")
        for row in tables.elementwise.values():
            if row.name not in ("min", "max") or True:
                self.add(row.name, tables.of(row.classes), elementwise(row), (0, 1, 2, 3))
        for to in tables.elems.values():
            if not to.storage_only:
                self.add(f"as {to.name}", [e for e in tables.elems.values() if e != to], cast_to(to), (0, 1, 2, 3))
        for name in ("sum", "prod", "min", "max"):
            self.add("reduce to " + name if name in ("min", "max") else name, num, self.renamed(name), (1, 2, 3))
        for name in ("any", "all"):
            self.add(name, bools, reduced(name), (1, 2, 3))
        self.add("count", bools, reduced("count", to="i64"), (1, 2, 3))
        for name in ("argmax", "argmin"):
            self.add(name, every, placed(name), (1, 2, 3))
        for fn in ("add", "mul", "min", "max", "and", "or", "xor"):
            elems = num if fn in ("add", "mul", "min", "max") else ints + bools
            self.add(f"reduce {fn}", elems, monoid(fn), (1, 2, 3))
            self.add(f"scan {fn}", elems, scanned("scan", fn), (1, 2))
            self.add(f"combine {fn}", [e for e in elems if e.kind != "b"], combined(fn), (1, 2), True)
        for name, fn in (("cumsum", "add"), ("cumprod", "mul"), ("cummax", "max"), ("cummin", "min")):
            self.add(name, num, scanned(name, fn), (1, 2))
        for kind in ("reduce", "scan"):
            self.add(f"{kind} tuple", num, pair_fold(kind), (1, 2))
            self.add(f"{kind} in order", num, ordered_fold(kind), (1, 2))
        self.add("sort", num, sorted_, (1, 2))
        self.add("topk", num, topk, (1, 2))
        self.add("histogram", ints, histogram, (1,))
        self.add("gather", every, gathered, (1, 2))
        for name in ("flip", "roll"):
            self.add(name, every, moved(name), (1, 2))
        self.add("trans", every, transposed, (2,))
        self.add("permute", every, permuted, (2, 3))
        self.add("reshape", every, reshaped, (1, 2))
        self.add("broadcast", every, broadcasted, (1, 2, 3))
        self.add("concat", every, concatenated, (1, 2))
        self.add("slice", every, sliced, (1, 2))
        self.add("lane", every, lane, (1, 2))
        self.add("bitcast", [e for e in every if e.kind != "b"], bitcast, (0, 1, 2))
        self.add("bits", [tables.elems[e] for e in "u8 u16 u32 u64".split()], as_bits, (0, 1, 2))
        self.add("select", every, selected, (0, 1, 2))
        self.add("valid", [tables.elems["i32"], tables.elems["i64"]], valid, (1, 2))
        if "present" in tables.builtins:
            self.add("present", every, present, (1, 2))
        self.add("dot", [tables.elems[e] for e in "i8 u8 f8e4m3 f8e5m2 f16 bf16 f32 f64".split()], dot, (2,))
        self.add("product", self.ops["dot"][0], product, (2,))
        for name in ("load", "load pad"):
            self.add(name, list(tables.elems.values()), loaded(name), (1, 2))
        for name in ("index", "iota"):
            self.add(name, [tables.elems["i64"]], lambda g, elem, shape: g.position(shape), (1, 2))
        self.prelude(floats)
        for name in ("rand", "randn", "rand_u32", "randint"):
            self.add(name, [tables.elems[e] for e in "i32 i64 u32 u64".split()], random_(name), (0, 1, 2))
        self.add("wide", floats, widened, (1, 2))
        self.add("wide_like", floats, widened_like, (0, 1, 2))
        for fn in "add max min and or xor xchg cas".split():
            elems = num if fn in ("add", "max", "min", "xchg", "cas") else ints
            if fn == "add":  # sums of 8-bit floats round, in a free order
                elems = [e for e in elems if e.kind != "f" or e.bits > 8]
            self.add(f"atomic_{fn}", elems, atomic(f"atomic_{fn}"), (0, 1), True)
        wide = [e for e in num if e.kind != "f" or e.bits > 8]  # sums of the other floats round
        self.add("combine tuple", wide, combined_pair, (1, 2), True)
        self.add("scatter", every, scattered, (1, 2), True)
        forms.register(self, tables)
        self.add("tuned", num, tuned, (0, 1, 2))
        self.add("store", list(tables.elems.values()), stored, (1, 2), True)
        self.add("optional", every, optional, (0, 1, 2))
        self.add("in place", every, in_place, (2,), True)
        self.add("assert", num, asserted, (0, 1, 2), True)
        self.complete()

    def renamed(self, name):
        make = reduced(name, unit=name == "prod")

        def again(g, elem, shape):
            n = make(g, elem, shape)
            n.op = "reduce to " + name if name in ("min", "max") else name
            return n

        return again

    def prelude(self, floats):
        rows = {
            "sq": ("", {"prod": True}), "clamp": ("bb", {}), "lerp": ("bb", {}), "sign": ("", {}), "fract": ("", {}),
            "radians": ("", {"prod": True}), "degrees": ("", {"prod": True}),
            "isclose": ("bss", {"to": "bool", "mag": 2}), "logaddexp": ("b", {"tol": 32}), "relu": ("", {}),
            "leaky_relu": ("s", {"prod": True}), "elu": ("s", {"tol": 32}), "sigmoid": ("", {"tol": 32}),
            "silu": ("", {"tol": 32}), "softplus": ("", {"tol": 32}), "mish": ("", {"tol": 64}),
            "gelu": ("", {"tol": 64}), "gelu_tanh": ("", {"tol": 64}),
        }  # fmt: skip
        for name, (params, known) in rows.items():
            self.add(name, floats, prelude(name, params, **known), (0, 1, 2))

    def add(self, name, elems, recipe, ranks, effect=False):
        self.ops[name] = (elems, recipe, ranks, effect)

    def complete(self):
        """Every builtin and prelude function must have a recipe, or a reason to be left out."""
        known = {n.split()[-1] for n in self.ops} | {n.split()[0] for n in self.ops}
        missing = [n for n in [*self.t.builtins, *self.t.prelude, *self.t.elementwise]
                   if n not in known and n not in LEFT_OUT]  # fmt: skip
        if missing:
            raise SystemExit(f"no recipe in tests/fuzz/gen/ops.py, nor a reason to leave out: {' '.join(missing)}")
