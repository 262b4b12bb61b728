"""std/sort.teg: sorting, top k, one-hot vectors, histograms."""

from harness import *

FILE = "../../stdlib/sort.teg"
TYPES = ("float32", "float16", "bf16", "float64")


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def narrow(t, *names):
    return {n: "bf16" for n in names} if t == "bf16" else {}


def order(x, descending):
    """Stable, NaN last."""
    return np.argsort(-x if descending else x, -1, kind="stable")


def sort_last(x, descending, at=None, **_):
    i = order(x, descending)
    return {"y": np.take_along_axis(x, i, -1)} | ({} if at is None else {"at": i})


for n, shape in enumerate([(9, 100), (1, 1), (5, 17), (2, 3, 64), (0, 9), (4, 0), (700,)]):
    for descending in (False, True):
        t = TYPES[(n + descending) % 4]
        x = integers(shape, n, -20, 20).astype(np.float64)  # with equals
        x[..., 3:5] = np.nan
        x[..., 8:9], x[..., 9:10] = np.inf, -np.inf
        x = typed(x, t)
        at = np.zeros(shape, np.int64) if n % 2 == 0 and x is not None and 0 not in shape else None
        case(
            FILE,
            "sort_last",
            {"x": sliced(x, "[::-1]") if n == 2 else x, "at": at, "descending": descending},
            sort_last,
            ulps=0,
            out_types=narrow(t, "y"),
            tune=[{"BR": 1}, {"BR": 4}],
            name=f"sort_last-{shape}-{descending}-{t}",
        )
for n, (shape, k) in enumerate(
    [((9, 100), 5), ((1,), 1), ((5, 17), 17), ((2, 3, 64), 1), ((0, 9), 3), ((3, 700), 50)]
):
    t = TYPES[n % 4]
    x = integers(shape, n, -20, 20).astype(np.float64)
    if n == 2:
        x[:, 3] = np.nan
    code = {"float32": "f32", "float64": "f64", "float16": "f16", "bf16": "bf16"}[t]
    text = ",".join(map(str, shape[:-1] + (k,)))
    case(
        FILE,
        "topk_last",
        {"x": typed(x, t), "y": f"zeros({text}):{code}", "at": f"zeros({text}):i64"},
        lambda x, k=k, **_: {
            "y": np.take_along_axis(x, order(x, True)[..., :k], -1),
            "at": order(x, True)[..., :k],
        },
        ulps=0,
        out_types=narrow(t, "y"),
        tune=[{"BR": 1}, {"BR": 4}],
        name=f"topk_last-{shape}-{k}-{t}",
    )
case(
    FILE,
    "topk_last",
    {"x": normal((2, 3), 1), "y": "zeros(2,4):f32", "at": "zeros(2,4):i64"},
    fails="K <= N",
)
for n, (shape, c) in enumerate([((40,), 70), ((3, 5), 1), ((), 10), ((0,), 4), ((7,), 1000)]):
    code = ("f32", "bf16", "i32", "u8", "f64")[n]
    text = ",".join(map(str, shape + (c,)))
    ids = np.asarray(integers(shape, 1, -1, c + 1, np.int32 if n % 2 else np.int64))
    case(
        FILE,
        "one_hot",
        {"ids": ids, "y": f"zeros({text}):{code}"},
        lambda ids, c=c, **_: {"y": (ids[..., None] == np.arange(c)).astype(np.float64)},
        out_types={"y": "bf16"} if code == "bf16" else {},
        tune=[{"BN": 1, "BC": 64}, {"BN": 16, "BC": 16}],
        name=f"one_hot-{shape}-{code}",
    )
for n, (shape, v, t) in enumerate(
    [
        ((5000,), 256, np.uint8),
        ((30, 7, 5), 10, np.int32),
        ((1,), 1, np.int64),
        ((0,), 7, np.int32),
        ((9000,), 3000, np.int64),
    ]
):
    x = integers(shape, 1, 0 if t == np.uint8 else -3, min(v + 3, 256), t)
    case(
        FILE,
        "bincount",
        {"x": x, "count": np.full(v, 7, np.int32)},
        lambda x, v=v, **_: {"count": np.bincount(x[(x >= 0) & (x < v)], minlength=v)},
        name=f"bincount-{shape}-{v}",
    )
for n, t in enumerate(TYPES):
    x = integers((40, 131), n, -40, 40).astype(np.float64) / 16  # also on the borders of bins
    x[3, :5] = [np.nan, np.inf, -np.inf, 2, -2]
    v = (16, 64, 1, 100)[n]
    case(
        FILE,
        "histogram_bins",
        {
            "x": permuted(typed(x, t), 1, 0),
            "count": np.zeros(v, np.int32),
            "low": -2.0,
            "high": 2.0,
        },
        lambda x, v=v, **_: {"count": np.histogram(x[np.isfinite(x)], v, (-2, 2))[0]},
        tune=[{"B": 4096}],
        name=f"histogram_bins-{v}-{t}",
    )
