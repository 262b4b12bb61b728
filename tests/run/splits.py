"""Loops that are split over programs: partial sums, and the phase that joins them."""

from harness import *


def small(shape, seed, type=np.float16):
    """Small integers, whose sums are exact in any order."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(type)


def joined(a, b, bias, r, **_):
    v = a @ b.T + bias + r + np.arange(a.shape[0])[:, None]
    return {"y": np.maximum(v, 0), "yt": v.T}


def columns(a, b, **_):
    y = a @ b.T
    rows = range(0, a.shape[0], 64)
    return {"y": y, "s": np.stack([y[i : i + 64].sum(0) for i in rows])}


# Parts of different lengths, empty parts, a loop with fewer iterations than parts, and an empty loop.
for m, n, k, tune in [
    (100, 72, 200, {"split": 3}),
    (70, 136, 30, {"split": 4, "BM": 128}),
    (70, 136, 0, {"split": 2}),
    (130, 200, 808, {"split": 12, "BM": 128, "BN": 128}),
    (16, 64, 1000, {"split": 40, "BM": 16}),
]:
    case(
        "splits.teg",
        "joined",
        {"a": small((m, k), 1), "b": small((n, k), 2), "bias": small((n,), 3, np.float32),
         "r": small((m, n), 4), "yt": f"zeros({n},{m}):f32"},
        joined,
        tune=[{"BM": 64, "BN": 64, "BK": 64} | tune],
        name=f"splits-joined-{m}x{n}x{k}",
    )
case(
    "splits.teg",
    "joined",
    {"a": small((100, 200), 1), "b": small((72, 200), 2), "bias": small((72,), 3, np.float32),
     "r": small((100, 72), 4), "y": "same(r)", "yt": "zeros(72,100):f32"},
    joined,
    tune=[{"BM": 64, "BN": 64, "BK": 64, "split": 3}],
    name="splits-joined-in-place",
)
case(
    "splits.teg",
    "columns",
    {"a": small((100, 200), 1), "b": small((72, 200), 2), "s": "zeros(2,72):f32"},
    columns,
    tune=[{"split": 3}],
    name="splits-columns",
)
for split in (3, 40):
    case(
        "splits.teg",
        "rows",
        {"x": small((50, 1000), 1, np.float32), "greatest": "zeros(50):f32", "total": "zeros(50):f32"},
        lambda x, **_: {"total": x.sum(1), "greatest": x.max(1)},
        tune=[{"BM": 32, "BK": 64, "split": split}, {"BM": 4, "BK": 64, "split": split}],
        name=f"splits-rows-{split}",
    )
case(
    "splits.teg",
    "twice",
    {"a": small((100, 200), 1), "b": small((72, 200), 2), "c": small((72, 200), 3), "y": "zeros(100,72):f32"},
    lambda a, b, c, **_: {"y": (a @ b.T) * (a @ c.T)},
    tune=[{"split": 3}],
    name="splits-twice",
)
# More parts than a block of them has.
case(
    "splits.teg",
    "joined",
    {"a": small((40, 6000), 1), "b": small((48, 6000), 2), "bias": small((48,), 3, np.float32),
     "r": small((40, 48), 4), "yt": "zeros(48,40):f32"},
    joined,
    tune=[{"BM": 64, "BN": 64, "BK": 32, "split": 90}, {"BM": 16, "BN": 64, "BK": 64, "split": 66}],
    name="splits-many-parts",
)
# More programs than the workspace takes parts of: the launch does not split.
case(
    "splits.teg",
    "twice",
    {"a": small((64 * 64, 72), 1), "b": small((40, 72), 2), "c": small((40, 72), 3),
     "y": f"zeros({64 * 64},40):f32"},
    lambda a, b, c, **_: {"y": (a @ b.T) * (a @ c.T)},
    tune=[{"split": 100}],
    name="splits-too-many",
)
# Rows of a tile that are joined by programs of their own must not see the stores of other rows.
for split in (1, 2, 8):
    square = {"a": small((128, 256), 1), "b": small((128, 256), 2)}
    case(
        "splits.teg",
        "two_results",
        square | {"bias": small((128,), 3, np.float32)},
        lambda a, b, bias, **_: {"y": a @ b.T, "z": a @ b.T + bias},
        tune=[{"split": split}],
        name=f"splits-two-results-{split}",
    )
    case(
        "splits.teg",
        "read_back",
        square | {"y": small((128, 128), 4, np.float32)},
        lambda a, b, y, **_: {"y": a @ b.T + y.T},
        tune=[{"split": split}],
        name=f"splits-read-back-{split}",
    )
    case(
        "splits.teg",
        "stored_twice",
        square,
        lambda a, b, **_: {"y": (a @ b.T).T + 1},
        tune=[{"split": split}],
        name=f"splits-stored-twice-{split}",
    )
case(
    "splits.teg",
    "turned_in_place",
    {"x": small((128, 128), 5, np.float32), "y": small((128, 128), 6, np.float32)},
    lambda x, y, **_: {"y": x + 2 * y.T},
    name="splits-turned-in-place",
)


def rows_with_nan(rows, n, type):
    """Rows of NaN alone, in one half, in the first element, everywhere but there, and rows of one infinity."""
    x = np.random.default_rng(5).standard_normal((rows, n)).astype(type)
    x[0], x[1, : n // 2], x[2, 0], x[3, 1:] = np.nan, np.nan, np.nan, np.nan
    x[4], x[5] = -np.inf, np.inf
    return x


def extremes(x, **_):
    return {"least": np.fmin.reduce(x, axis=1), "greatest": np.fmax.reduce(x, axis=1)}


# A part of NaNs alone, or an empty one, must not turn a row's NaN into an infinity.
for (rows, n), type in (((6, 3), np.float32), ((7, 130), np.float16), ((6, 1000), np.float64)):
    case(
        "splits.teg",
        "extremes",
        {"x": rows_with_nan(rows, n, type), "least": np.zeros(rows, type), "greatest": np.zeros(rows, type)},
        extremes,
        tune=[{"BN": 8, "split": 2}, {"BN": 8, "split": 5}, {"BN": 64, "split": 3}],
        name=f"splits-extremes-{rows}x{n}",
    )
