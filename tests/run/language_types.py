"""Elements, conversions and arithmetic: sections 3 and 11 of the specification."""
from fractions import Fraction

from harness import *

INTS = {t: np.dtype({"i": "int", "u": "uint"}[t[0]] + t[1:]) for t in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")}


def wrap(v, t):
    """Python integers wrapped to t."""
    bits = INTS[t].itemsize * 8
    v = np.asarray(v, object) & ((1 << bits) - 1)
    if t[0] == "i":
        v = np.where(v >> (bits - 1) == 1, v - (1 << bits), v)
    return v.astype(INTS[t])


def truncated(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shifts(a, b, t, left):
    bits = INTS[t].itemsize * 8
    if not 0 <= b < bits:
        return -1 if a < 0 and not left else 0
    return a << b if left else a >> b


def total_ints(x, y, t):
    info = np.iinfo(INTS[t])
    rows = [[] for _ in range(15)]
    for a, b in zip(map(int, x), map(int, y)):
        one = lambda v: int(wrap([v], t)[0])
        sum_ = one(one(1 + one(a * 2)) - b)
        values = [a + b, a - b, a * b, truncated(a, b), a - b * truncated(a, b) if b else 0, shifts(a, b, t, True),
                  shifts(a, b, t, False), a & b | a ^ b, ~a, -a, a if a & 3 == 1 else b, one(shifts(sum_, 1, t, True)) & 63,
                  truncated(min(a, b), max(a, b)), info.max if a > b else info.min, int(a != b and a != 0 or b >= a)]
        for r, v in zip(rows, values):
            r.append(one(v))
    return {"r": np.array(rows, INTS[t])}


for t, dtype in INTS.items():
    info = np.iinfo(dtype)
    edge = [info.min, info.max, 0, 1, 3, 5, info.max - 1, info.min + 1, 7, 100, dtype.itemsize * 8, dtype.itemsize * 8 - 1]
    if t[0] == "i":
        edge += [-1, -3, -100]
    x, y = (v.ravel() for v in np.meshgrid(np.array(edge, dtype), np.array(edge, dtype)))
    want = total_ints(x, y, t)
    case("language.teg", "total_ints", {"x": x, "y": y}, want, tune=[{"B": 1}, {"B": 8}], name=f"total_ints-{t}")
def total_abs(x, t):
    a = [int(wrap([abs(int(v))], t)[0]) for v in x]
    ordered = [v for k in range(0, len(a), 8) for v in sorted(a[k:k + 8])]
    half = [truncated(v, 2) for v in a]
    return {"less": np.array(a) < 0, "wide": wrap([v - 3 for v in a], "i64"), "sorted": wrap(ordered, t),
            "half": wrap(half, t)}


for t, dtype in INTS.items():
    if t[0] == "i":
        info = np.iinfo(dtype)
        x = np.array([info.min, 5, info.max, -1, info.min + 1, 0, 2, info.min] * 3, dtype)
        case("language.teg", "total_abs", {"x": x}, total_abs(x, t), name=f"total_abs-{t}")
LEAST = -2 ** 63
case("language.teg", "total_consts", {},
     {"r": [LEAST, 0, 0, LEAST, 0, -1, -31, 1, 14, (0xffff ^ 16) | 256, 0, -1],
      "u": np.array([2 ** 64 - 1, 15, (2 ** 64 - 1) // 3, 2 ** 64 - 1], np.uint64), "q": [2 ** 31 - 1, -2 ** 31,
           2 ** 31 - 1, 0]})


def saturated(x, dtype):
    info = np.iinfo(dtype)
    exact = [0 if np.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v) for v in x]
    return np.array(exact, dtype)


def to_ints(x, **_):
    types = {"a": np.int8, "b": np.int32, "c": np.int64, "d": np.uint8, "e": np.uint32, "g": np.uint64}
    return dict({k: saturated(x, v) for k, v in types.items()}, f=(x != 0))


FLOATS = [0.0, -0.0, 0.4, -0.6, 1.5, -1.5, 127.9, 128, -128.9, -129, 255.5, 256, 300, -300, 65504, 3e4, np.inf, -np.inf,
     np.nan]
WIDE = FLOATS + [2.0 ** 31, -2.0 ** 31, 2.0 ** 32, 2.0 ** 63, -2.0 ** 63, 2.0 ** 64, 1e30, -1e30, 2147483520.0, 1e-40]
case("language.teg", "to_ints", {"x": np.array(WIDE, np.float32)}, to_ints, tune=[{"B": 1}, {"B": 8}], name="to_ints-f32")
case("language.teg", "to_ints", {"x": np.array(WIDE + [2147483647.5, 2.0 ** 53 + 1], np.float64)}, to_ints, tune=[{"B": 1},
     {"B": 8}], name="to_ints-f64")
case("language.teg", "to_ints", {"x": np.array(FLOATS, np.float16)}, to_ints, tune=[{"B": 1}, {"B": 8}], name="to_ints-f16")
case("language.teg", "to_ints", {"x": bf16(np.array(WIDE))}, to_ints, tune=[{"B": 1}, {"B": 8}], name="to_ints-bf16")
x = np.array([0, 1, -1, 127, 128, 255, 256, -129, 2 ** 31, -2 ** 31 - 1, 2 ** 40 + 7, 2 ** 63 - 1, -2 ** 63, 2 ** 24 + 1],
     np.int64)
case("language.teg", "between_ints", {"x": x},
     {"a": x.astype(np.int8), "b": x.astype(np.uint8), "c": x.astype(np.int32), "d": x.astype(np.uint32),
          "e": x.astype(np.uint64),
      "f": x.astype(np.float32), "g": x != 0, "h": x.astype(np.int16)}, ulps=-1)
n = 13
args = {"a": integers((n,), 1, -128, 128, np.int8), "b": integers((n,), 2, -2 ** 31, 2 ** 31, np.int32),
     "c": integers((n,), 3, 0, 256, np.uint8),
        "d": integers((n,), 4, 0, 2 ** 32, np.uint32), "e": integers((n,), 5, -2 ** 31, 2 ** 31, np.int64)}


def i32(v):
    return np.asarray(v).astype(np.int64).astype(np.int32)


case("language.teg", "widens", args,
     lambda a, b, c, d, e: {"w": [a + e, b * e, d + e, c - e * n, i32(b * e)], "v": i32(a * b + c),
          "s": i32(a[0] + b[0] + c[0])},
     tune=[{"B": 1}, {"B": 8}])


def adapts(x, h, i, u, d, b):
    f = lambda v: np.asarray(v, np.float32)
    n = len(x)
    x = f(x)
    return {"y": [f(f(x * 3) + f(0.5)), f(x / f(n)), np.where(x > 0, 1, -1), np.where(x > 0, x, np.inf), f(x * b) + 1,
         np.maximum(x, 0) + np.minimum(1, x)],
            "z": [np.where(i > 0, 1, -1), i, i * 3 - 16], "w": [d * 0.1, d + 1e300], "v": (u + 255) % 256,
            "g": (h.astype(np.float16) * np.float16(0.1)) + np.float16(3)}


args = {"x": normal((n,), 6), "h": normal((n,), 7, np.float16), "i": integers((n,), 8, -99, 99), "u": integers((n,), 9, 0,
     256, np.uint8),
        "d": normal((n,), 10, np.float64)}
for b in (1, 8):
    case("language.teg", "adapts", args, lambda b=b, **k: adapts(b=b, **k), tune=[{"B": b}], ulps=1)
for flag in (True, False):
    case("language.teg", "typed", {"s": 1.5, "k": -7, "flag": flag, "t": 200, "z": np.zeros(3, np.int64)},
         {"y": [4, (2 - 7) * (2 if flag else 3) + 200, 1.5 / 2 * -7, 1.5 if flag else -7], "z": [-42, -14, 0],
              "h": [np.float16(0.1)] * 2}, ulps=0)


def rounded(v, t):
    return v.astype(np.float16).astype(np.float64) if t == "f16" else TABLES["bf16"][encode(v, "bf16")]


for t, make in [("f16", lambda v: v.astype(np.float16)), ("bf16", bf16)]:
    for k in (8, 40):
        def rounds(x, t=t, **_):
            r = lambda v: rounded(v, t)
            a = x[:, 0]
            for _ in range(3):
                a = r(r(a + x[:, 1]) * x[:, 2])
            p = x[:, 0] * x[:, 1]
            return {"y": [x.sum(1), (x / 2).prod(1), x.sum(1), r(p) - x[:, 2], p - x[:, 2], a], "f": x.sum(1)}
        case("language.teg", "rounds", {"x": make(integers((9, k), 11, 4, 9).astype(np.float64) / 4)}, rounds,
             tune=[{"B": 1}, {"B": 4}],
             out_types={"y": "bf16"} if t == "bf16" else {}, name=f"rounds-{t}-{k}", length=k)
nan, inf = np.nan, np.inf
x, y = (v.ravel() for v in np.meshgrid(np.array([nan, inf, -inf, 0, 1, -2], np.float32), np.array([nan, inf, -inf, 0, 1,
     -2], np.float32)))
case("language.teg", "nans", {"x": x, "y": y},
     lambda x, y: {"r": [x < y, x <= y, x > y, x >= y, x == y, x != y, ~(x < y) & (x == x), x != 0],
                   "lo": np.fmin(x, y), "hi": np.fmax(x, y), "top": [inf, -inf], "at": [1, 2]})
case("language.teg", "nans", {"x": x[:1], "y": y[:1]}, lambda x, y: {"top": [nan, nan], "at": [0, 0], "lo": [nan]})
for t, make in [("f8e4m3", f8e4m3), ("f8e5m2", f8e5m2)]:
    x = np.array([0, -0.0, 1, 1.06, 1.0625, 1.1, 1.125, 1.3, 447, 464, 500, -1e9, 57344, 61440, 7e4, 2.0 ** -9, 2.0 ** -10,
         2.0 ** -17, 1e-3, inf, nan, -7.3], np.float32)
    v = make(x.astype(np.float64)).value
    w = v[:16].reshape(4, 4)
    case("language.teg", "eights", {"x": x, "d": "zeros(4,4):f32", "y": f"zeros({len(x)}):{t}"},
         {"y": v, "z": v, "w": -v, "d": w @ -w}, out_types={"y": t, "w": t}, tune=[{"B": 1}, {"B": 8}], ulps=0, length=4)
for m, k in [(1, 2), (5, 38), (8, 64)]:
    def small_ints(x, q, **_):
        return {"y": i4(-x).stored, "r": u4(q + x).stored, "f": q * 0.5 + x, "s": x.sum(1), "part": x[:, 1] * 10}
    case("language.teg", "small_ints", {"x": i4(integers((m, k), 12, -8, 8)), "q": u4(integers((m, k), 13, 0, 16)),
         "s": f"zeros({m}):i32"},
         small_ints, tune=[{"BM": 1, "BN": 2}, {"BM": 4, "BN": 16}, {"BM": 4, "BN": 64}], ulps=0)
for k in (1, 4, 9):
    def choices(x, f, c, k):
        row, n = (c != 0)[:, None], np.arange(x.shape[1])[None]
        cond = row & (x > 3) | ~row & (n < k)
        return {"y": np.where(row, f[None], x), "z": np.where(cond, 1 if k > 2 else 2, 3 if k > 5 else 0),
             "b": (x % 2 == 0) == row}
    case("language.teg", "choices", {"x": integers((7, 9), 14, -9, 9), "f": normal((9,), 15), "c": integers((7,), 16, 0, 2,
         np.bool_), "k": k}, choices,
         tune=[{"B": 1}, {"B": 4}])


def rounded_once(q, mantissa, least):
    """A rational number rounded to a float with `mantissa` bits, with the leading one, and exponents from
    `least` on."""
    if q == 0:
        return 0.0
    size, exponent = abs(q), abs(q).numerator.bit_length() - abs(q).denominator.bit_length()
    exponent = max(exponent - (Fraction(2) ** exponent > size), least)
    ulp = Fraction(2) ** (exponent - mantissa + 1)
    return float(round(size / ulp) * ulp) * (1 if q > 0 else -1)  # round() takes ties to even


def beside_ties(mantissa, rng):
    """Integers of up to 63 bits that are ties for floats with this number of bits, and their neighbours."""
    found = []
    for bits in range(mantissa + 2, 64):
        lead = int(rng.integers(1 << (mantissa - 1), 1 << mantissa))
        tie = (2 * lead + 1) << (bits - mantissa - 1)
        found += [sign * (tie + step) for step in (-1, 0, 1) for sign in (1, -1)]
    return found


for t, mantissa, least in [("f32", 24, -126), ("bf16", 8, -126), ("f16", 11, -14)]:
    rng = np.random.default_rng(21)
    top = 2 ** 16 - 2 ** 5 if t == "f16" else 2 ** 63
    x = [v for v in beside_ties(mantissa, rng) if abs(v) < top]
    u = [abs(v) * (1 if t == "f16" else 2) + (t != "f16" and i % 2) for i, v in enumerate(x)]
    d = [float(v) * (1 + step * 2.0 ** -52) for v, step in zip(x, [-1, 0, 1] * len(x))]
    want = np.array([[rounded_once(Fraction(v), mantissa, least) for v in row] for row in (x, u, d)])
    bits = encode(want, "bf16") if t == "bf16" else want.astype("f4" if t == "f32" else "f2").view("u4" if t == "f32" else "u2")
    args = {"like": f"zeros(1):{t}", "x": np.array(x, np.int64), "u": np.array(u, np.uint64), "d": np.array(d),
            "y": f"zeros(3,{len(x)}):u{8 * bits.itemsize}"}
    case("language.teg", "beside_ties", args, {"y": bits}, name=f"beside_ties-{t}")
