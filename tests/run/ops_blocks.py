"""Block ops, joint writes and atomics over element types, shapes and tile sizes."""

from harness import *

NARROW = {"bf16": bf16, "f8e4m3": f8e4m3}
TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": None,
    "i8": np.int8,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u32": np.uint32,
}


def data(t, shape, seed, lo=-3, hi=4):
    """Small integers: exact in every type, with many equal ones."""
    v = np.random.default_rng(seed).integers(0 if t[0] == "u" else lo, hi, shape)
    return NARROW[t](v.astype(np.float64)) if t in NARROW else v.astype(TYPES[t])


def outs(t, *names):
    return {n: t for n in names} if t in NARROW else {}


def wrap(t, v):
    return (
        v
        if t not in TYPES or TYPES[t] is None or t[0] == "f"
        else np.asarray(v).astype(np.int64).astype(TYPES[t])
    )


def rows(t):
    def f(x, **_):
        p = np.prod(x, 1)
        return {
            "add_": wrap(t, x.sum(1)),
            "prod_": wrap(t, p),
            "min_": x.min(1),
            "max_": x.max(1),
            "at": x.argmax(1),
            "least": x.argmin(1),
        }

    return f


for t in TYPES:
    for m, n in [(5, 17), (1, 1), (9, 64), (3, 2)]:
        hi = 2 if n > 20 else 3
        case(
            "blocks.teg",
            "reduce_rows",
            {"x": data(t, (m, n), 1, -1, hi)},
            rows(t),
            name=f"reduce_rows-{t}-{m}x{n}",
            tune=[{"BM": 1}, {"BM": 4}, {"BM": 7}] if t in ("f32", "i32") else [{"BM": 4}],
            out_types=outs(t, "add_", "prod_", "min_", "max_"),
            length=n,
            ulps=0,
        )
    for m, n in [(5, 50), (1, 3), (33, 40)]:
        case(
            "blocks.teg",
            "reduce_columns",
            {"x": data(t, (m, n), 2)},
            lambda x, t=t, **_: {
                "add_": wrap(t, x.sum(0)),
                "min_": x.min(0),
                "max_": x.max(0),
                "at": x.argmax(0),
            },
            tune=[{"BN": 4}, {"BN": 40}],
            out_types=outs(t, "add_", "min_", "max_"),
            ulps=0,
            name=f"reduce_columns-{t}-{m}x{n}",
        )
    for a, b, c in [(3, 3, 5), (2, 6, 20)]:
        case(
            "blocks.teg",
            "reduce_middle",
            {"x": data(t, (a, b, c), 3)},
            lambda x, t=t, **_: {"y": wrap(t, x.sum(1)), "all_": wrap(t, x.sum((1, 2)))},
            tune=[{"BA": 1}, {"BA": 2}],
            out_types=outs(t, "y", "all_"),
            ulps=0,
            name=f"reduce_middle-{t}-{a}x{b}x{c}",
        )
    for m, n in [(1, 1), (9, 33)]:
        case(
            "blocks.teg",
            "reduce_all",
            {"x": data(t, (m, n), 4)},
            lambda x, t=t, **_: {"y": wrap(t, x.sum())},
            out_types=outs(t, "y"),
            ulps=0,
            name=f"reduce_all-{t}-{m}x{n}",
        )

for n in (1, 7, 100):

    def tree(x, **_):
        v = x.astype(np.float32)
        while v.shape[1] > 1:
            odd = v[:, -1:] if v.shape[1] % 2 else v[:, :0]
            v = np.concatenate([v[:, 0 : v.shape[1] // 2 * 2 : 2] + v[:, 1::2], odd], 1)
        return {"y": v[:, 0]}

    case(
        "blocks.teg",
        "reduce_fixed",
        {"x": normal((6, n), 5)},
        tree,
        ulps=-1,
        length=1,
        name=f"reduce_fixed-{n}",
        tune=[{"BM": 1}, {"BM": 4}],
    )
for t in ("i8", "i32", "u32", "i64"):
    for n in (1, 30):
        case(
            "blocks.teg",
            "reduce_bits",
            {"x": data(t, (7, n), 6, -100, 100)},
            lambda x, **_: {
                "and_": np.bitwise_and.reduce(x, 1),
                "or_": np.bitwise_or.reduce(x, 1),
                "xor_": np.bitwise_xor.reduce(x, 1),
            },
            tune=[{"BM": 2}, {"BM": 5}],
            name=f"reduce_bits-{t}-{n}",
        )


def affine(x, y, **_):
    p, q = x.astype(np.int32), y.astype(np.int32)
    a, b = [p[:, 0]], [q[:, 0]]
    for i in range(1, x.shape[1]):
        b.append(b[-1] * p[:, i] + q[:, i])
        a.append(a[-1] * p[:, i])
    return np.stack(a, 1), np.stack(b, 1)


for n in (1, 18):
    args = {"x": data("i32", (7, n), 7), "y": data("i32", (7, n), 8)}
    case(
        "blocks.teg",
        "reduce_tuple",
        args,
        lambda **k: dict(zip("ab", (v[:, -1] for v in affine(**k)))),
        tune=[{"BM": 2}, {"BM": 5}],
    )
    case(
        "blocks.teg",
        "scan_tuple",
        args,
        lambda **k: dict(zip("ab", affine(**k))),
        tune=[{"BM": 2}, {"BM": 5}],
    )

for t in TYPES:
    for m, n in [(6, 45), (1, 1), (6, 16)]:
        case(
            "blocks.teg",
            "scans",
            {"x": data(t, (m, n), 9)},
            lambda x, t=t, **_: {
                "rows": wrap(t, np.cumsum(x, 1)),
                "back": wrap(t, np.cumsum(x[:, ::-1], 1)[:, ::-1]),
                "before": wrap(t, np.cumsum(x, 1) - x),
                "columns": wrap(t, np.cumsum(x, 0)),
                "most": np.maximum.accumulate(x, 1),
            },
            out_types=outs(t, "rows", "back", "before", "columns", "most"),
            ulps=0,
            name=f"scans-{t}-{m}x{n}",
        )
    for m, n in [(5, 37), (1, 1), (5, 16)]:
        case(
            "blocks.teg",
            "sorts",
            {"x": data(t, (m, n), 10)},
            lambda x, **_: {
                "up": np.sort(x, 1),
                "down": np.sort(x, 1)[:, ::-1],
                "order": np.argsort(x, 1, kind="stable"),
                "columns": np.sort(x, 0),
            },
            out_types=outs(t, "up", "down", "columns"),
            ulps=0,
            name=f"sorts-{t}-{m}x{n}",
        )
    case(
        "blocks.teg",
        "shapes",
        {"x": data(t, (5, 6), 11)} if t[0] != "u" else {"x": data(t, (8, 16), 11)},
        lambda x, t=t, **_: {
            "flat": x.ravel(),
            "turned": x.T,
            "both": np.concatenate([x, x + 1], 1),
            "stacked": wrap(t, np.concatenate([x, -x], 0)),
            "inner": x[1:4, 2:6],
            "line": x[2],
        },
        out_types=outs(t, "flat", "turned", "both", "stacked", "inner", "line"),
        ulps=0,
        name=f"shapes-{t}",
    )
    case(
        "blocks.teg",
        "turns",
        {"x": data(t, (3, 5, 17), 12)},
        lambda x, **_: {"y": x.transpose(2, 0, 1)},
        out_types=outs(t, "y"),
        ulps=0,
        name=f"turns-{t}",
    )

    def gathered(x, i, j, **_):
        pick = lambda a, at, axis: np.where(
            (at >= 0) & (at < a.shape[axis]),
            np.take_along_axis(a, np.clip(at, 0, a.shape[axis] - 1), axis),
            0,
        )
        return {"rows": pick(x, i, 1), "columns": pick(x, j, 0)}

    case(
        "blocks.teg",
        "gathers",
        {
            "x": data(t, (5, 20), 13),
            "i": integers((5, 20), 14, -2, 23),
            "j": integers((16, 20), 15, -1, 7, np.int64),
        },
        gathered,
        out_types=outs(t, "rows", "columns"),
        ulps=0,
        name=f"gathers-{t}",
    )

x = normal((4, 50), 16)
x[0, 3] = np.nan
case(
    "blocks.teg",
    "top3",
    {"x": x},
    lambda x, **_: {"y": -np.sort(-x, 1)[:, :3], "at": np.argsort(-x, 1, kind="stable")[:, :3]},
    tune=[{"BM": 1}, {"BM": 4}],
)
for t in ("i8", "i32", "u8", "i64"):
    case(
        "blocks.teg",
        "bins",
        {"x": data(t, (500,), 17, -5, 25)},
        lambda x, **_: {"y": np.bincount(x[(x >= 0) & (x < 20)].astype(int), minlength=20)},
        tune=[{"B": 16}, {"B": 100}],
        name=f"bins-{t}",
    )
x = normal((40,), 18)
case("blocks.teg", "casts_of_bits", {"x": x}, {"y": x.view(np.uint32), "z": -x})

for t in ("f32", "f16", "bf16", "f8e4m3"):
    for m, k, n in [(1, 1, 1), (3, 9, 5), (17, 40, 33), (1, 40, 33), (17, 9, 1)]:
        (
            case(
                "blocks.teg",
                "products",
                {"a": data(t, (m, k), 1), "b": data(t, (k, n), 2), "c": data(t, (n, k), 3)},
                lambda a, b, c, **_: {"y": a @ b, "z": a @ c.T},
                ulps=0,
                name=f"products-{t}-{m}x{k}x{n}",
            )
            if t in TYPES or t in NARROW
            else None
        )
for t in ("i8", "u8"):
    case(
        "blocks.teg",
        "products8",
        {
            "a": integers((21, 50), 1, *((-128, 128) if t == "i8" else (0, 256)), TYPES[t]),
            "b": integers((50, 35), 2, *((-128, 128) if t == "i8" else (0, 256)), TYPES[t]),
        },
        lambda a, b, **_: {"y": a @ b},
        tune=[{"BM": 4}, {"BM": 16}],
        name=f"products8-{t}",
    )
case(
    "blocks.teg",
    "products64",
    {"a": normal((21, 50), 1, np.float64), "b": normal((50, 35), 2, np.float64)},
    lambda a, b, **_: {"y": a @ b},
    length=50,
    tune=[{"BM": 4}, {"BM": 16}],
)
case(
    "blocks.teg",
    "nibbles",
    {"x": i4(integers((5, 38), 1, -8, 8)), "q": u4(integers((5, 38), 2, 0, 16))},
    lambda x, q, **_: {"z": x + q / 2},
    tune=[{"BM": 1}, {"BM": 3}],
)

at = np.random.default_rng(3).permutation(60)[:40].astype(np.int32)
at[7], at[8] = -1, 60  # not written


def scatter(at, x, **_):
    y, old = np.zeros(60), np.zeros(60, int)
    ok = (at >= 0) & (at < 60)
    y[at[ok]] = x[ok]
    old[at[ok]] = np.arange(len(at))[ok]
    return {"y": y, "old": old}


case(
    "blocks.teg",
    "scatters",
    {"at": at, "x": normal((40,), 4), "y": "zeros(60):f32", "old": "zeros(60):i32"},
    scatter,
)
for t in ("f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u32"):
    TYPES.setdefault("i16", np.int16)

    def added(at, x, sum_, most, least, t=t, **_):
        s, a, b = sum_.copy(), most.copy(), least.copy()
        np.add.at(s, at, x), np.maximum.at(a, at, x), np.minimum.at(b, at, x)
        return {"sum_": wrap(t, s), "most": a, "least": b}

    case(
        "blocks.teg",
        "adds",
        {
            "at": integers((200,), 5, 0, 11),
            "x": data(t, (200,), 6),
            "sum_": data(t, (11,), 7),
            "most": data(t, (11,), 8),
            "least": data(t, (11,), 9),
        },
        added,
        out_types=outs(t, "sum_", "most", "least"),
        ulps=0,
        tune=[{"B": 16}, {"B": 64}],
        name=f"atomics-{t}",
    )
for t in ("i8", "i32", "u32", "i64"):

    def anded(at, x, and_, or_, xor_, **_):
        a, b, c = and_.copy(), or_.copy(), xor_.copy()
        np.bitwise_and.at(a, at, x), np.bitwise_or.at(b, at, x), np.bitwise_xor.at(c, at, x)
        return {"and_": a, "or_": b, "xor_": c}

    case(
        "blocks.teg",
        "bits",
        {
            "at": integers((100,), 5, 0, 11),
            "x": data(t, (100,), 6, -100, 100),
            "and_": data(t, (11,), 7, -100, 100),
            "or_": data(t, (11,), 8),
            "xor_": data(t, (11,), 9),
        },
        anded,
        name=f"bits-{t}",
    )
for t in ("f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u32"):
    for r, n in [(13, 40), (1, 1), (70, 9)]:
        case(
            "blocks.teg",
            "folds",
            {"x": data(t, (r, n), 1, -1, 2), "kept": data(t, (n,), 2)},
            lambda x, kept, t=t, **_: {
                "sums": wrap(t, x.sum(0)),
                "most": x.max(0),
                "kept": wrap(t, kept + x.sum(0)),
                "total": wrap(t, x.sum()),
            },
            tune=[{"BR": 1, "BN": 8}, {"BR": 4, "BN": 16}],
            out_types=outs(t, "sums", "most", "kept", "total"),
            ulps=0,
            name=f"folds-{t}-{r}x{n}",
        )
case("blocks.teg", "last_one", {"x": data("i32", (300, 20), 1)}, lambda x, **_: {"y": x[-1]})
case(
    "blocks.teg",
    "counters",
    {"n_": "zeros():i32", "seen": "zeros(50):i32", "taken": "zeros(2):i32"},
    lambda **_: {"n_": np.array(7), "taken": np.array([7, 5])},
)
for n, w in [(16, 32), (5, 20)]:
    case(
        "blocks.teg",
        "sorts_of_two_sizes",
        {"x": data("i32", (3, n), 1), "z": data("i32", (3, w), 2)},
        lambda x, z, **_: {"y": np.sort(x, 1), "longer": np.sort(z, 1), "sums": np.cumsum(np.sort(x, 1), 1)},
        name=f"sorts_of_two_sizes-{n}-{w}",
    )
