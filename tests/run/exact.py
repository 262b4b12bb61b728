"""Arithmetic with one correct result, bit for bit: special values, subnormal numbers, and every pair of them."""

import math
from fractions import Fraction

from harness import *

FORMATS_ALL = {**FORMATS, "f16": Format(5, 10, 15, 65504.0, True),
               "f32": Format(8, 23, 127, float.fromhex("0x1.fffffep127"), True),
               "f64": Format(11, 52, 1023, float.fromhex("0x1.fffffffffffffp1023"), True)}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def rounded(x, t, sign=1.0):
    """Rounds an exact number (a Fraction, or a float that may be infinite) to the type: nearest, ties to
    even. Overflow gives infinity, or the greatest value of f8. `sign` is that of 0."""
    f = FORMATS_ALL[t]
    if isinstance(x, float):
        if x == 0 or math.isnan(x):
            return x
        if math.isinf(x):
            return math.copysign(f.greatest if t.startswith("f8") else math.inf, x)
        x = Fraction(x)
    if x == 0:
        return math.copysign(0.0, sign)
    size = abs(x)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    e = max(e - (size < Fraction(2) ** e), 1 - f.bias)
    step = Fraction(2) ** (e - f.mantissa)
    n = size / step
    whole = n.numerator // n.denominator
    whole += n - whole > Fraction(1, 2) or (n - whole == Fraction(1, 2) and whole % 2 == 1)
    value = whole * step
    if value > Fraction(f.greatest):
        value = f.greatest if t.startswith("f8") else math.inf
    return math.copysign(float(value), -1 if x < 0 else 1)


def special(t):
    f = FORMATS_ALL[t]
    low, eps, tiny = 2.0 ** (1 - f.bias), 2.0 ** -f.mantissa, 2.0 ** (1 - f.bias - f.mantissa)
    v = [0.0, 1.0, 1 + eps, 1 - eps / 2, 0.5, 1.5, 2.5, 3.0, 1 / 3, 7.0, f.greatest, f.greatest / 2, low, low - tiny, tiny,
         3 * tiny, math.sqrt(f.greatest), math.inf]
    v = [rounded(x, t) if math.isfinite(x) else x for x in v]
    if t.startswith("f8"):  # conversions to f8 give no infinities
        v.remove(math.inf)
    return np.array([s * x for x in v for s in (1, -1)] + [math.nan])


def stored(t, v):
    return {"bf16": bf16, "f8e4m3": f8e4m3}.get(t, f8e5m2)(v) if t not in NUMPY else v.astype(NUMPY[t])


def codes(t, v):
    """The bits; 1 for every NaN."""
    v = np.asarray(v, np.float64)
    with np.errstate(all="ignore"):
        bits = v.astype(NUMPY[t]).view(UNSIGNED[NUMPY[t]().itemsize]) if t in NUMPY else encode(v, t)
    return np.where(np.isnan(v), 1, bits).astype(bits.dtype)


def root(x, t):
    """The square root, rounded once: it is computed to more bits than the type has, and than a tie can have."""
    if not x > 0 or math.isinf(x):
        return math.nan if x < 0 or math.isnan(x) else x
    scaled = Fraction(x) * 4**1200
    n = math.isqrt(scaled.numerator // scaled.denominator)
    inexact = n * n != scaled
    return Fraction(2 * n + inexact, 2 ** 1201)


def half_away(x):
    return math.copysign(math.floor(abs(x) + 0.5) if abs(x) < 2.0**52 else abs(x), x)


def whole_numbers(f):
    return lambda x, t: x if not math.isfinite(x) else rounded(math.copysign(float(f(x)), x), t)


ONE = [lambda x, t: rounded(root(x, t), t), *map(whole_numbers, (math.floor, math.ceil, math.trunc, round, half_away)),
       lambda x, t: abs(x), lambda x, t: -x]


def sum_of_product(a, b, c, t):
    """Exact for numbers. Other values, and the sign of 0, are computed in floats."""
    with np.errstate(all="ignore"):
        rough = float(np.float64(a) * np.float64(b) + np.float64(c))
    if all(map(math.isfinite, (a, b, c))):
        return rounded(Fraction(a) * Fraction(b) + Fraction(c), t, rough)
    return rounded(rough, t)


def natively(f):
    """Computed by NumPy, which rounds correctly; in f64 for types that it lacks, which is exact enough to
    round again."""
    def run(a, b, t):
        with np.errstate(all="ignore"):
            return f(*(v.astype(NUMPY.get(t, np.float64)) for v in (a, b)))
    return run


def after(a, b, t):
    if math.isnan(a) or math.isnan(b) or a == b:
        return math.nan if math.isnan(a) or math.isnan(b) else b
    if t in NUMPY:
        with np.errstate(all="ignore"):
            return float(np.nextafter(NUMPY[t](a), NUMPY[t](b)))
    table = np.unique(TABLES[t][~np.isnan(TABLES[t])])
    if a == 0:
        return math.copysign(table[table > 0][0], b)
    at = int(np.searchsorted(table, a)) + (1 if b > a else -1)
    return table[at] if table[at] != 0 else math.copysign(0.0, a)


def nearly_ties(t):
    """(a, b, c) whose a b + c is so close to the middle between two numbers of the type that an intermediate
    rounding would lose the difference; and triples whose product alone overflows the type."""
    f = FORMATS_ALL[t]
    low, tiny = 2.0 ** (1 - f.bias), 2.0 ** (1 - f.bias - f.mantissa)
    half = 2.0 ** -(f.mantissa + 1)
    out = []
    for j in range(1, f.mantissa + 1):
        up, down = 1 + 2.0**-j, 1 - 2.0**-j
        # The product is a tie except for its sum with a small number.
        for c in (tiny, low, 2.0 ** (-f.bias // 2), 2.0 ** -(f.mantissa + 4)):
            out += [(up, 1 + half / 2.0**-j, c), (up, 1 + half / 2.0**-j, -c)]
        # Half of the sum's last place, less the last bit of the product.
        for c in (1.0, 1 + 2 * half, 1.5, 2 - 2 * half):
            out += [(up, down * half, c), (up, -down * half, c)]
        out += [(low * up, down * half, c) for c in (tiny, 3 * tiny, -tiny, 0.0, low)]
        out += [(low * up, down, c) for c in (1.0, half, low, -low)]
    h = (f.bias + 1) // 2
    out += [(2.0**h, 2.0 ** (f.bias + 1 - h), c) for c in (-f.greatest, f.greatest, -f.greatest / 2)]
    v = np.array(out)
    return np.concatenate([v, v * (1, -1, -1)]).T


TWO = [natively(f) for f in (np.add, np.subtract, np.multiply, np.fmod)]
DIVIDE = natively(np.divide)
# A code object rounds a subnormal quotient twice, by the manual's description of v_div_fmas.
BUT_CODE_OBJECTS = ["interp", "cpu", "sim:sm_80", "sim:sm_90a", "sim:gfx90a", "sim:gfx942", "sim:gfx1100"]


def of_one(t, v):
    return {"y": np.stack([codes(t, [f(x, t) for x in v]) for f in ONE]),
            "is": np.stack([np.isnan(v), np.isinf(v), np.isfinite(v), np.signbit(v)])}


def of_two(t, a, b, c):
    rows = [codes(t, f(a, b, t)) for f in TWO]
    rows.append(codes(t, [sum_of_product(x, y, z, t) for x, y, z in zip(a, b, c)]))
    rows.append(codes(t, [after(x, y, t) for x, y in zip(a, b)]))
    rows += [codes(t, np.fmin(a, b) + 0), codes(t, np.fmax(a, b) + 0), codes(t, np.copysign(a, b))]
    return {"y": np.stack(rows)}


for t in FORMATS_ALL:
    bits = UNSIGNED[(1 + FORMATS_ALL[t].exponent + FORMATS_ALL[t].mantissa) // 8]
    name = np.dtype(bits).name.replace("uint", "u")
    s = special(t)
    with np.errstate(all="ignore"):
        more = np.array([rounded(float(x), t) for x in np.random.default_rng(1).normal(0, 3, 60)])
    v = np.concatenate([s, more])
    case("exact.teg", "of_one", {"x": stored(t, v), "y": f"zeros(8,{len(v)}):{name}"}, of_one(t, v), name=f"of_one-{t}",
         tune=[{"B": 16}, {"B": 256}])
    a, b = (x.ravel() for x in np.meshgrid(s, s))
    a, b = np.concatenate([a, more]), np.concatenate([b, np.roll(more, 1)])
    c = np.resize(np.roll(s, 5), len(a))
    case("exact.teg", "of_two", {"x": stored(t, a), "z": stored(t, b), "w": stored(t, c), "y": f"zeros(9,{len(a)}):{name}"},
         of_two(t, a, b, c), name=f"of_two-{t}", tune=[{"B": 256}, {"B": 16}])
    near = [np.array([rounded(float(x), t) for x in v]) for v in nearly_ties(t)]
    case("exact.teg", "fused", dict(zip("xzw", (stored(t, v) for v in near)), y=f"zeros({len(near[0])}):{name}"),
         {"y": codes(t, [sum_of_product(*v, t) for v in zip(*near)])}, name=f"fused-{t}", tune=[{"B": 256}, {"B": 16}])
    q = DIVIDE(a, b, t)
    subnormal = (q != 0) & (np.abs(q) <= 2.0 ** (1 - FORMATS_ALL[t].bias))
    for which, targets in ((~subnormal, None), (subnormal, BUT_CODE_OBJECTS)):
        n = int(which.sum())
        args = {"x": stored(t, a[which]), "z": stored(t, b[which]), "y": f"zeros({n}):{name}"}
        case("exact.teg", "quotients", args, {"y": codes(t, q[which])}, name=f"quotients-{t}-{n}", targets=targets,
             tune=[{"B": 256}, {"B": 16}])
x, z = np.array([0, 0, 1, 1] * 9, np.bool_), np.array([0, 1, 0, 1] * 9, np.bool_)
case("exact.teg", "of_bools", {"x": x, "z": z}, {"y": np.stack([x & z, x | z, x ^ z, ~x, x == z, x != z])},
     tune=[{"B": 16}, {"B": 256}])
# NaNs whose payload lies in the bits that tf32 lacks.
a, b = np.ones((16, 64), np.float32), np.ones((32, 64), np.float32)
a.view(np.uint32)[3, 5], a.view(np.uint32)[7, 0], a[4, 0] = 0x7F800001, 0xFF801FFF, np.inf
want = np.full((16, 32), 64.0)
want[[3, 7]], want[4] = np.nan, np.inf
case("exact.teg", "products", {"a": a, "b": b}, {"c": want}, tune=[{"BN": 16}, {"BN": 32}])
