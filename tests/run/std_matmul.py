"""std/matmul.teg: transpositions, batches, vectors, fused epilogues."""

import math

from harness import *

FILE = "../../stdlib/matmul.teg"
TYPES = ("float32", "float16", "bf16", "float64")
erf = np.vectorize(math.erf, otypes=[float])


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def narrow(t, *names):
    return {n: "bf16" for n in names} if t == "bf16" else {}


def matrix(shape, seed, t):
    return typed(normal(shape, seed, np.float64), t)


SMALL = [{"BM": 64, "BN": 64, "BK": 64}]
ROWS = {"nn": [{}, {"BM": 1, "BN": 64, "BK": 32}], "nt": [{}, {"BM": 1, "BN": 16, "BK": 64}]}
SHAPES = [(100, 77, 130), (1, 1, 1), (65, 300, 3), (5, 0, 7), (0, 4, 4), (1, 129, 200)]


def product(letters, m, k, c, t, name, tune):
    """The kernel with these letters, on matrices in that memory layout."""
    a = matrix((m, k) if letters[0] == "n" else (k, m), 1, t)
    b = matrix((k, c) if letters[1] == "n" else (c, k), 2, t)
    case(
        FILE,
        "matmul" + ("" if letters == "nn" else "_" + letters),
        {"a": a, "b": b},
        lambda a, b, **_: {
            "c": (a if letters[0] == "n" else a.T) @ (b if letters[1] == "n" else b.T)
        },
        out_types=narrow(t, "c"),
        length=k,
        scale={"c": 4.0},
        tune=tune,
        name=f"{name}-{letters}-{m}x{k}x{c}-{t}",
    )


for n, (m, k, c) in enumerate(SHAPES):
    for t in TYPES if n == 0 else (TYPES[n % 4], TYPES[(n + 1) % 4]):
        for letters in ("nn", "nt", "tn", "tt"):
            settings = SMALL if n == 0 else ROWS.get(letters, [{}]) if m < 8 else [{}]
            product(letters, m, k, c, t, "matmul", settings)
# Pairs of programs: even and odd numbers of rows of tiles, a single row, more tiles than SMs, and row counts
# that no box divides. A negative `order` makes no pairs.
PAIRS = {"BK": 64, "cluster": 2}
for m, k, c, tune in (
    (256, 200, 264, [{"BM": 64, "BN": 64}, {"BM": 128, "BN": 128, "order": -4}]),
    (330, 136, 264, [{"BM": 64, "BN": 64, "order": 1}, {"BM": 128, "BN": 112, "persistent": 1}]),
    (40, 72, 200, [{"BM": 64, "BN": 192}, {"BM": 128, "BN": 64, "order": -2}]),
    (1090, 64, 1096, [{"BM": 64, "BN": 64, "persistent": 1}, {"BM": 128, "BN": 64, "warps": 8, "persistent": 1, "roles": 1}]),
    (300, 264, 840, [{"BM": 128, "BN": 320}, {"BM": 256, "BN": 160}]),
):
    for letters in ("nn", "nt") if m in (1090, 300) else ("nn", "nt", "tn", "tt"):
        product(letters, m, k, c, "bf16", "pairs", [x | PAIRS for x in tune])
for t in TYPES:
    a, b = matrix((140, 90), 1, t), matrix((180, 90), 2, t)
    views = {"a": sliced(permuted(a, 1, 0), "[::-1,::2]"), "b": sliced(b, "[::2,::-1]")}
    case(
        FILE,
        "matmul",
        {"a": sliced(a, "[::-2,:]"), "b": permuted(b, 1, 0)},
        lambda a, b, **_: {"c": a @ b},
        out_types=narrow(t, "c"),
        length=90,
        scale={"c": 4.0},
        tune=SMALL,
        name=f"matmul-views-{t}",
    )
    case(
        FILE,
        "matmul_tt",
        {"a": views["a"], "b": views["b"]},
        lambda a, b, **_: {"c": a.T @ b.T},
        out_types=narrow(t, "c"),
        length=90,
        scale={"c": 4.0},
        tune=SMALL,
        name=f"matmul_tt-views-{t}",
    )

for n, (batch, m, k, c) in enumerate(
    [((3,), 40, 70, 90), ((), 5, 6, 7), ((2, 3), 33, 1, 65), ((0,), 4, 4, 4), ((2, 0, 2), 1, 1, 1)]
):
    t = TYPES[n % 4]
    case(
        FILE,
        "batch_matmul",
        {"a": matrix(batch + (m, k), 1, t), "b": matrix(batch + (k, c), 2, t)},
        lambda a, b, **_: {"c": a @ b},
        out_types=narrow(t, "c"),
        length=k,
        scale={"c": 4.0},
        tune=[{}, {"BM": 32, "BN": 64, "BK": 64}],
        name=f"batch_matmul-{batch}-{t}",
    )
for t in TYPES:  # heads inside, one b for all, b reversed
    a = permuted(matrix((2, 30, 5, 40), 1, t), 0, 2, 1, 3)
    b = expanded(expanded(sliced(matrix((40, 50), 2, t), "[::-1]"), 5), 2)
    case(
        FILE,
        "batch_matmul",
        {"a": a, "b": b},
        lambda a, b, **_: {"c": a @ b},
        out_types=narrow(t, "c"),
        length=40,
        scale={"c": 4.0},
        name=f"batch_matmul-views-{t}",
    )
for n, size in enumerate([200, 1, 65, 0, 333, 130]):
    for half, f in (("upper", np.triu), ("lower", np.tril)):
        t = TYPES[(n + (half == "lower")) % 4]
        a, b = (typed(f(normal((size, size), s, np.float64)), t) for s in (1, 2))
        case(
            FILE,
            "matmul_" + half,
            {"a": a, "b": permuted(typed(f(normal((size, size), 2, np.float64)).T, t), 1, 0) if n == 4 else b},
            lambda a, b, **_: {"c": a @ b},
            out_types=narrow(t, "c"),
            length=size,
            scale={"c": 4.0},
            tune=[{"BM": 64, "BN": 128, "BK": 32}, {"BM": 128, "BN": 64, "BK": 64}] if n in (0, 4) else [{}],
            name=f"matmul_{half}-{size}-{t}",
        )
for n, (m, k) in enumerate([(100, 300), (1, 1), (7, 0), (13, 2000), (0, 3)]):
    t = TYPES[n % 4]
    case(
        FILE,
        "matvec",
        {"a": sliced(matrix((m, k), 1, t), "[:,::-1]"), "x": matrix((k,), 2, t)},
        lambda a, x, **_: {"y": a @ x},
        out_types=narrow(t, "y"),
        length=k,
        scale={"y": 4.0},
        tune=[{"BM": 1}, {"BM": 8, "BK": 64}],
        name=f"matvec-{m}x{k}-{t}",
    )

for name, make in (("f8e4m3", f8e4m3), ("f8e5m2", f8e5m2)):
    case(
        FILE,
        "matmul_nt",
        {"a": make(normal((50, 70), 1)), "b": make(normal((40, 70), 2))},
        lambda a, b, **_: {"c": a @ b.T},
        out_types={"c": name},
        length=70,
        scale={"c": 4.0},
        name=f"matmul_nt-{name}",
    )


# Tiles of every kind of matrix unit, and extents that no tile divides.
TILES = [(128, 256, 64), (256, 128, 64), (128, 128, 32), (64, 112, 64), (128, 160, 128)]
TILES += [(16, 64, 128), (8, 128, 128), (64, 16, 128), (256, 64, 32)]
for n, (t, letters) in enumerate([("float16", "nn"), ("bf16", "nt"), ("float32", "tn")]):
    a = matrix((330, 200) if letters[0] == "n" else (200, 330), 1, t)
    b = matrix((200, 290) if letters[1] == "n" else (290, 200), 2, t)
    case(
        FILE,
        "matmul" + ("" if letters == "nn" else "_" + letters),
        {"a": a, "b": b},
        lambda a, b, l=letters, **_: {
            "c": (a if l[0] == "n" else a.T) @ (b if l[1] == "n" else b.T)
        },
        out_types=narrow(t, "c"),
        length=200,
        scale={"c": 4.0},
        tune=[dict(zip(("BM", "BN", "BK"), s)) for s in (TILES if n < 2 else TILES[2:])],
        name=f"matmul-{letters}-tiles-{t}",
    )


def scaled(a, b, sa=None, sb=None, **_):
    c = a @ b.T
    c = c if sa is None else c * sa[:, None]
    return {"c": c if sb is None else c * sb}


NARROW = {
    "f8e4m3": f8e4m3,
    "f8e5m2": f8e5m2,
    "float16": lambda x: x.astype(np.float16),
    "bf16": bf16,
}


def cut_scaled(chain):
    """The error that units of few bits may add to scaled()."""

    def of(a, b, sa=None, sb=None, **_):
        c = cut_of_product(a, b, chain)
        c = c if sa is None else c * sa[:, None]
        return {"c": c if sb is None else c * sb}

    return of


for n, (t, make) in enumerate(NARROW.items()):
    for out in ("float32", "float16", "bf16"):
        rows, columns = uniform((50,), 3, 0.5, 2), expanded(np.array(1.5, np.float32), 40)
        case(
            FILE,
            "scaled_matmul_nt",
            {
                "a": make(normal((50, 190), 1)),
                "b": make(normal((40, 190), 2)),
                "sa": rows if n % 2 == 0 else None,
                "sb": columns if n < 3 else None,
                "c": typed(np.zeros((50, 40)), out),
            },
            scaled,
            out_types=narrow(out, "c"),
            length=190,
            cut=cut_scaled(CHAIN) if n < 2 else None,
            scale={"c": 12.0},
            tune=[*SMALL, {}] if n < 2 else [{}],
            name=f"scaled_matmul_nt-{t}-{out}",
        )
# Units that keep 13 bits lose 1 % of 2048 terms of one sign; a chain of 128 loses 2^-11.
for kernel, chain in ("scaled_matmul_nt", CHAIN), ("scaled_matmul_fast_nt", 2048):
    for t in ("f8e4m3", "f8e5m2"):
        case(
            FILE,
            kernel,
            {
                "a": NARROW[t](uniform((64, 2048), 1, 0.3, 1)),
                "b": NARROW[t](uniform((72, 2048), 2, 0.3, 1)),
                "sa": None,
                "sb": None,
                "c": "zeros(64,72):f32",
            },
            scaled,
            length=2048,
            cut=cut_scaled(chain),
            tune=[*SMALL, {}],
            name=f"{kernel}-{t}-one sign",
        )
# Bytes: sums are exact. With scales they are in f32.
BYTES = {"i8": (-128, 128, np.int8), "u8": (0, 256, np.uint8)}
for t, what in BYTES.items():
    for n, (m, k, c) in enumerate([(70, 190, 90), (5, 64, 33), (130, 1, 3), (3, 0, 4)]):
        a, b = integers((m, k), 1, *what), integers((c, k), 2, *what)
        case(
            FILE,
            "matmul_i8_nt",
            {"a": a, "b": b},
            lambda a, b, **_: {"c": a @ b.T},
            tune=[*SMALL, {"BM": 128, "BN": 112, "BK": 128}, {}] if m == 70 else [{}],
            name=f"matmul_i8_nt-{t}-{m}x{k}x{c}",
        )
        out = ("float32", "float16", "bf16")[n % 3]
        case(
            FILE,
            "scaled_matmul_i8_nt",
            {
                "a": a,
                "b": b,
                "sa": uniform((m,), 3, 2e-4, 1e-3) if n < 3 else None,
                "sb": uniform((c,), 4, 0.5, 2) if n % 2 == 0 else None,
                "c": typed(np.zeros((m, c)), out),
            },
            lambda a, b, sa=None, sb=None, **_: scaled(
                a.astype(np.float64), b.astype(np.float64), sa, sb
            ),
            out_types=narrow(out, "c"),
            tune=[*SMALL, {}] if m == 70 else [{}],
            name=f"scaled_matmul_i8_nt-{t}-{m}x{k}x{c}-{out}",
        )
extremes = np.full((16, 256), -128, np.int8)  # the greatest sums
case(FILE, "matmul_i8_nt", {"a": extremes, "b": extremes}, lambda a, b, **_: {"c": a @ b.T}, name="matmul_i8_nt-greatest")
for terms, error in ((1, 2**13), (3, 16)):  # error of a product, in units of f32's rounding
    for m, k, c in [(70, 130, 90), (70, 132, 136), (3, 1, 5), (1, 0, 1)]:
        case(
            FILE,
            "matmul_tf32_nt",
            {"a": matrix((m, k), 1, "float32"), "b": matrix((c, k), 2, "float32"), "terms": terms},
            lambda a, b, **_: {"c": a @ b.T},
            length=k,
            ulps=error * k,
            scale={"c": 1.0},
            tune=SMALL if m == 70 else [{}],
            name=f"matmul_tf32_nt-{terms}-{m}x{k}x{c}",
        )
case(
    FILE,
    "matmul_tf32_nt",
    {"a": matrix((4, 4), 1, "float32"), "b": matrix((4, 4), 2, "float32"), "terms": 2},
    fails="terms",
)

# ---- epilogues


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTS = [
    lambda x: x,
    lambda x: np.maximum(x, 0),
    lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    lambda x: x * sigmoid(x),
    sigmoid,
    np.tanh,
    lambda x: x * np.clip(x + 3, 0, 6) / 6,
    lambda x: x * np.tanh(np.logaddexp(x, 0)),
]


def linear(x, w, scale, act, bias=None, residual=None, **_):
    y = x @ w.T * scale
    y = ACTS[act](y if bias is None else y + bias)
    return {"y": y if residual is None else y + residual}


# Sums that fill the registers: the epilogue loads its operands in parts. y may be the residual.
for t, more in (("bf16", {}), ("float16", {"y": "same(residual)"})):
    args = {"x": matrix((150, 70), 1, t), "w": matrix((300, 70), 2, t), "bias": matrix((300,), 3, t)}
    case(
        FILE,
        "linear",
        args | {"residual": matrix((150, 300), 4, t), "scale": 0.125, "act": 2} | more,
        linear,
        out_types=narrow(t, "y"),
        length=70,
        scale={"y": 8.0},
        tune=[{"BM": 128, "BN": 256, "BK": 64}],
        name=f"linear-pieces-{t}",
    )
for act in range(9):
    t = TYPES[act % 4]
    lead = [(70,), (2, 35), (2, 5, 7), ()][act % 4 if act else 0]
    args = {
        "x": matrix(lead + (90,), 1, t),
        "w": matrix((130, 90), 2, t),
        "scale": 0.125,
        "act": act,
    }
    args["bias"] = matrix((130,), 3, t) if act % 2 == 0 else None
    args["residual"] = matrix(lead + (130,), 4, t) if act % 3 == 0 else None
    case(
        FILE,
        "linear",
        args,
        linear,
        out_types=narrow(t, "y"),
        length=90,
        scale={"y": 8.0},
        tune=SMALL,
        name=f"linear-{act}-{t}",
    )
    args = {"x": args["x"], "g": args["w"], "u": matrix((130, 90), 5, t), "act": act}
    case(
        FILE,
        "linear_glu",
        args,
        lambda x, g, u, act, **_: {"y": ACTS[act](x @ g.T) * (x @ u.T)},
        out_types=narrow(t, "y"),
        length=90,
        scale={"y": 400.0},
        tune=SMALL,
        name=f"linear_glu-{act}-{t}",
    )
