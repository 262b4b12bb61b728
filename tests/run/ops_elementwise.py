"""Every elementwise op on every element type it takes: awkward extents, special values."""

import atexit
import math
import pathlib
import re
import shutil
import tempfile

from harness import *

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="tegula-ops-"))
atexit.register(shutil.rmtree, FOLDER)
N = 103  # no multiple of any vector
FLOATS = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": None,
    "f8e4m3": None,
    "f8e5m2": None,
}
INTS = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
}
NARROW = {"bf16": bf16, "f8e4m3": f8e4m3, "f8e5m2": f8e5m2}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan]


def kernel(name, arguments, result, body, t):
    file = FOLDER / f"{name}_{t}.teg"
    params = ", ".join(f"{a}: {t}[N]" for a in arguments)
    file.write_text(
        f"kernel k({params}, y: {result}[N]) tune B = 16 | 40 {{\n"
        f"    parallel n in N by B {{ y[n] = {body}; }}\n}}\n"
    )
    return file


def float_data(t, seed, lo=-8.0, hi=8.0, special=True):
    v = np.random.default_rng(seed).uniform(lo, hi, N)
    if special:
        v[seed % 7 : seed % 7 + len(SPECIAL)] = np.roll(SPECIAL, seed)
    return NARROW[t](v) if t in NARROW else v.astype(FLOATS[t])


def int_data(t, seed):
    info = np.iinfo(INTS[t])
    r = np.random.default_rng(seed)
    v = r.integers(info.min, info.max, N, dtype=INTS[t], endpoint=True)
    v[::3] = r.integers(0 if info.min == 0 else -9, 10, len(v[::3]))
    v[:6] = [info.min, info.max, 0, 1, info.max, info.min]
    return v


def stored(t, v):
    """The value in an element type that saturates, overflows or underflows."""
    with np.errstate(all="ignore"):
        return (
            NARROW[t](v).value
            if t in NARROW
            else np.asarray(v).astype(np.float16) if t == "f16" else v
        )


def add(name, arguments, body, t, args, exact, result=None, **options):
    result = result or t

    def expect(**k):
        return {"y": stored(result, exact(**k)["y"])}

    file = kernel(name, arguments, result, body, t)
    types = {"y": result} if result in NARROW else {}
    case(
        str(file),
        "k",
        args,
        expect,
        name=f"{name}-{t}",
        out_types=types,
        tune=[{"B": 16}, {"B": 40}],
        **options,
    )


# ---- floats: rows FUNCTIONS of the table give the operands of the library's functions


TABLE = (pathlib.Path(__file__).resolve().parents[2] / "lang" / "elementwise.def").read_text()
ROWS = {
    name: (int(operands), meaning)
    for name, operands, meaning in re.findall(
        r'^EW\(\w+, "(\w+)", (\d), .*, ([^"]*), "[^"]*"\)$', TABLE, re.M
    )
}
RANGES = {
    name: (float(lo), float(hi))
    for name, lo, hi in re.findall(
        r"^FUNCTIONS\(\w+, (\w+), [\d.]+, [\d.]+, ([-\d.]+), ([-\d.]+), ", TABLE, re.M
    )
}


def each(f):
    """A function of Python's numbers on arrays; NaN where it fails."""

    def one(*x):
        try:
            return f(*x)
        except (ValueError, OverflowError):
            return np.nan

    return np.vectorize(one, otypes=[float])


# References of ops that NumPy lacks under this name. Each is another formula than the table's.
REFERENCES = {
    "neg": np.negative,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp10": lambda x: 10.0**x,
    "log2p1": lambda x: np.log1p(x) / np.log(2),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": each(math.erf),
    "erfc": lambda x: 1 - each(math.erf)(x),
    "tgamma": each(math.gamma),
    "lgamma": each(math.lgamma),
    "logb": lambda x: np.floor(np.log2(np.abs(x))),
}
NUMPY_OF_C = {"fabs": np.abs, "pow": np.power, "isfinite": np.isfinite}


def reference(name):
    """The function of NumPy or Python. An op unknown to both is compared with its meaning in the table."""
    if name in REFERENCES or hasattr(np, name):
        return REFERENCES.get(name) or getattr(np, name)
    if hasattr(math, name):
        return each(getattr(math, name))
    operands, meaning = ROWS[name]
    code = compile(re.sub(r"(?<=\d)L\b", "", meaning), name, "eval")
    names = {**vars(np), **REFERENCES, **NUMPY_OF_C}
    return lambda *x: eval(code, names, dict(zip("abc", x)))


UNARY = ["abs", "neg", "sqrt", "floor", "ceil", "trunc", "rint"]
UNARY += [name for name in RANGES if name in ROWS and ROWS[name][0] == 1]
# special values are checked where the reference and C99 agree on them
NOT_SPECIAL = ("tgamma", "lgamma", "erf", "erfc", "logb", "round")
for name in UNARY:
    for t in FLOATS:
        lo, hi = RANGES.get(name, (-1, 90) if name == "sqrt" else (-8, 8))
        add(
            name,
            ["a"],
            f"(-a[n])" if name == "neg" else f"{name}(a[n])",
            t,
            {"a": float_data(t, len(name), lo, hi, name not in NOT_SPECIAL)},
            lambda a, f=reference(name), **_: {"y": f(a)},
            ulps=8,
            scale={} if name in ("exp10", "tgamma", "lgamma") else {"y": 1.0},
        )

BINARY = [
    ("add", "a[n] + b[n]", np.add),
    ("sub", "a[n] - b[n]", np.subtract),
    ("mul", "a[n] * b[n]", np.multiply),
    ("div", "a[n] / b[n]", np.divide),
    ("min", "min(a[n], b[n])", np.fmin),
    ("max", "max(a[n], b[n])", np.fmax),
    ("copysign", "copysign(a[n], b[n])", np.copysign),
    ("atan2", "atan2(a[n], b[n])", np.arctan2),
    ("hypot", "hypot(a[n], b[n])", np.hypot),
    ("fmod", "fmod(a[n], b[n])", np.fmod),
    ("rem", "a[n] % b[n]", np.fmod),
    (
        "remainder",
        "remainder(a[n], b[n])",
        lambda a, b: np.vectorize(
            lambda x, y: np.nan if y == 0 or np.isinf(x) else math.remainder(x, y), otypes=[float]
        )(a, b),
    ),
    ("pow", "pow(abs(a[n]), b[n])", lambda a, b: np.abs(a) ** b),
    (
        "fdim",
        "fdim(a[n], b[n])",
        lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(a > b, a - b, 0)),
    ),
    (
        "ldexp",
        "ldexp(a[n], trunc(b[n]))",
        lambda a, b: np.ldexp(a, np.nan_to_num(np.trunc(b), nan=0, posinf=0, neginf=0).astype(int)),
    ),
]
BINARY += [
    (name, f"{name}(a[n], b[n])", reference(name))
    for name in RANGES
    if name in ROWS and ROWS[name][0] == 2 and name not in [row[0] for row in BINARY]
]
for name, body, f in BINARY:
    for t in FLOATS:
        special = name not in ("ldexp", "pow")
        lo, hi = RANGES.get(name, (-4, 4))
        add(
            name,
            "ab",
            body,
            t,
            {"a": float_data(t, 3, lo, hi, special), "b": float_data(t, 5, lo, hi, special)},
            lambda a, b, f=f, **_: {"y": f(a, b)},
            ulps=8,
            scale={"y": 1.0},
        )
for t in ("f32", "f64"):
    add(
        "fma",
        "abc",
        "fma(a[n], b[n], c[n])",
        t,
        {k: float_data(t, s, special=False) for k, s in zip("abc", (1, 2, 3))},
        lambda a, b, c, **_: {"y": a * b + c},
        scale={"y": 64.0},
    )
    one = FLOATS[t]
    add(
        "nextafter",
        "ab",
        "nextafter(a[n], b[n])",
        t,
        {"a": float_data(t, 3), "b": float_data(t, 5)},
        lambda a, b, one=one, **_: {"y": np.nextafter(a.astype(one), b.astype(one))},
        ulps=0,
    )

COMPARE = [
    ("==", np.equal),
    ("!=", np.not_equal),
    ("<", np.less),
    ("<=", np.less_equal),
    (">", np.greater),
    (">=", np.greater_equal),
]
for k, (op, f) in enumerate(COMPARE):
    for t in list(FLOATS) + list(INTS):
        data = (lambda s: float_data(t, s)) if t in FLOATS else (lambda s: int_data(t, s))
        b = data(5)
        add(
            f"compare{k}",
            "ab",
            f"(a[n] {op} b[n] ? 1 : 0) as i32",
            t,
            {"a": data(3), "b": b},
            lambda a, b, f=f, t=t, **_: {
                "y": f(a.astype(np.uint64), b.astype(np.uint64)) if t == "u64" else f(a, b)
            },
            "i32",
        )
for name, f in [
    ("isnan", np.isnan),
    ("isinf", np.isinf),
    ("isfinite", np.isfinite),
    ("signbit", np.signbit),
]:
    for t in ("f32", "f64", "f16", "bf16"):
        add(
            name,
            "a",
            f"{name}(a[n]) as i32",
            t,
            {"a": float_data(t, 3)},
            lambda a, f=f, **_: {"y": f(a)},
            "i32",
        )


# ---- integers: everything wraps, nothing traps


def wrapped(t, f):
    """f on Python integers, reduced to the type."""
    info = np.iinfo(INTS[t])
    bits = info.bits

    def one(*v):
        r = f(bits, *v) & (2**bits - 1)
        return r - 2**bits if r > info.max else r

    def run(a, b=None, **_):
        back = (
            (lambda x: [int(i) % 2**64 for i in x])
            if t == "u64"
            else (lambda x: [int(i) for i in x])
        )
        columns = [back(a)] + ([back(b)] if b is not None else [])
        return {"y": np.array([one(*v) for v in zip(*columns)], dtype=object).astype(INTS[t])}

    return run


def quotient(bits, a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER = [
    ("add", "a[n] + b[n]", lambda w, a, b: a + b),
    ("sub", "a[n] - b[n]", lambda w, a, b: a - b),
    ("mul", "a[n] * b[n]", lambda w, a, b: a * b),
    ("div", "a[n] / b[n]", quotient),
    ("rem", "a[n] % b[n]", lambda w, a, b: 0 if b == 0 else a - b * quotient(w, a, b)),
    ("min", "min(a[n], b[n])", lambda w, a, b: min(a, b)),
    ("max", "max(a[n], b[n])", lambda w, a, b: max(a, b)),
    ("and", "a[n] & b[n]", lambda w, a, b: a & b),
    ("or", "a[n] | b[n]", lambda w, a, b: a | b),
    ("xor", "a[n] ^ b[n]", lambda w, a, b: a ^ b),
    ("shl", "a[n] << b[n]", lambda w, a, b: a << b if 0 <= b < w else 0),
    ("shr", "a[n] >> b[n]", lambda w, a, b: a >> (b if 0 <= b < w else w)),
    ("mulhi", "mulhi(a[n], b[n])", lambda w, a, b: a * b >> w),
]
for name, body, f in INTEGER:
    for t in INTS:
        add(name, "ab", body, t, {"a": int_data(t, 3), "b": int_data(t, 5)}, wrapped(t, f))
for name, body, f in [
    ("neg", "(-a[n])", lambda w, a: -a),
    ("not", "(~a[n])", lambda w, a: ~a),
    ("abs", "abs(a[n])", lambda w, a: abs(a)),
    ("popcount", "popcount(a[n])", lambda w, a: bin(a & 2**w - 1).count("1")),
    ("clz", "clz(a[n])", lambda w, a: w - (a & 2**w - 1).bit_length()),
    ("ctz", "ctz(a[n])", lambda w, a: w if a == 0 else ((a & -a).bit_length() - 1)),
]:
    for t in INTS:
        add(name, "a", body, t, {"a": int_data(t, 3)}, wrapped(t, f))


# ---- casts


def cast(source, target):
    def run(a, **_):
        if target not in INTS:
            return {
                "y": (
                    a.astype(np.uint64).astype(np.float64)
                    if source == "u64"
                    else a.astype(np.float64)
                )
            }
        info = np.iinfo(INTS[target])
        if source in INTS:
            return {"y": a.astype(INTS[source]).astype(INTS[target])}
        out = [
            (
                0
                if np.isnan(x)
                else info.max if x >= info.max else info.min if x <= info.min else int(x)
            )
            for x in a
        ]
        return {"y": np.array(out, dtype=INTS[target])}

    return run


for source in list(FLOATS) + list(INTS):
    for target in list(FLOATS) + list(INTS):
        if source == target:
            continue
        if source in INTS:
            x = int_data(source, 3)
            if target in ("f16", "f8e4m3", "f8e5m2"):
                x = (x % 16).astype(INTS[source])
        else:
            x = float_data(
                source,
                3,
                -300 if source in ("f32", "f64", "f16", "bf16") else -8,
                300 if target not in FLOATS else 8,
                special=target in INTS or target == "f64",
            )
        add(
            f"cast_{target}",
            "a",
            f"a[n] as {target}",
            source,
            {"a": x},
            cast(source, target),
            target,
            ulps=2,
            scale={"y": 300.0} if target in NARROW else {},
        )


# ---- all rows: the names of the cases above


def has_case(name):
    return any(c.name.startswith(name + "-") for c in CASES)


COMPARES = dict(zip(("eq", "ne", "lt", "le", "gt", "ge"), (f"compare{k}" for k in range(6))))
MISSING = [r for r in ROWS if not has_case(COMPARES.get(r, r))]
if MISSING or len(ROWS) < 60:
    raise SystemExit(f"rows of elementwise.def without a case: {MISSING}")
