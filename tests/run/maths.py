"""Elementary functions: all exponents, special values, results near overflow."""
from harness import *

SPECIAL = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2, -2, 3, 2.5, 1e-45, 2e-308,
           1.1754944e-38, 88.72283, 88.72284, -103.97, 709.78, 709.79, -745.2, 128, -149, -150,
           16777217, 3.4028235e38]


def bits(dtype, n, seed):
    """Special values, random bit patterns, and moderate numbers."""
    r = np.random.default_rng(seed)
    unsigned = {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    wild = r.integers(0, np.iinfo(unsigned).max, n // 2, unsigned, endpoint=True).view(dtype)
    near = r.uniform(-30, 30, n - len(wild) - len(SPECIAL))
    with np.errstate(all="ignore"):
        return np.concatenate([np.array(SPECIAL).astype(dtype), wild, near.astype(dtype)])


def rows(functions, *args):
    with np.errstate(all="ignore"):
        args = [a.astype(np.longdouble) for a in args]
        return np.stack([np.asarray(f(*args), np.float64) for f in functions])


def add(kernel, dtype, functions, *names):
    """Each value's bound is relative to the value."""
    n = 403
    args = {name: bits(dtype, n, 7 * i + 1) for i, name in enumerate(names)}
    if len(names) > 1:
        args["z"] = np.roll(args["z"], 5)
    want = rows(functions, *args.values())
    size = np.where(np.isfinite(want), np.abs(want), 0)
    args["y"] = f"zeros({len(functions)},{n}):f{8 * dtype().itemsize}"
    case("maths.teg", kernel, args, {"y": want}, tune=[{"B": 16}, {"B": 40}], ulps=3,
         scale={"y": size}, name=f"{kernel}-{dtype.__name__}")


def ldexp(x, y):
    n = np.clip(np.nan_to_num(np.trunc(y)), -5000, 5000).astype(int)
    return np.where(np.isnan(y), y, np.ldexp(x, n))


for t in (np.float32, np.float64):
    add("exponentials", t,
        [np.exp, np.exp2, lambda x: np.power(np.longdouble(10), x), np.expm1, np.log, np.log2,
         np.log10, np.log1p, np.cbrt, lambda x: 1 / np.sqrt(x)], "x")
    add("angles", t,
        [np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh,
         np.arcsinh, np.arccosh, np.arctanh], "x")
    add("of_two", t,
        [np.arctan2, np.power, np.hypot, np.fmod, lambda x, y: np.where(x <= y, 0, x - y), ldexp,
         lambda x, y, t=t: np.nextafter(x.astype(t), y.astype(t))], "x", "z")
