"""std/sort.teg: sorting, top k, one-hot vectors, histograms."""

from harness import *

FILE = "../../stdlib/sort.teg"
TYPES = ("float32", "float16", "bf16", "float64")
CODES = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64", "int32": "i32", "uint8": "u8"}
LITTLE = {"bf16": bf16, "f8e4m3": f8e4m3, "f8e5m2": f8e5m2}  # NumPy lacks them


def typed(x, t):
    return LITTLE[t](x) if t in LITTLE else np.asarray(x).astype(t)


def narrow(t, *names):
    return {n: t for n in names} if t in LITTLE else {}


def order(x, descending, nan_greatest=False):
    """The positions of each row's elements in order. Stable; NaN last, or greater than inf."""
    if x.dtype.kind != "f":
        return np.argsort(~x if descending else x, -1, kind="stable")
    nan = np.isnan(x)
    number = np.where(nan, 0, -x if descending else x) + 0.0  # no -0
    return np.lexsort((number, np.where(nan, -1 if descending and nan_greatest else 1, 0)), axis=-1)


def numbers(shape, seed, t):
    """Elements with equals, zeros of both signs, infinities and NaN, or integers with the outermost."""
    if np.dtype(t if t not in LITTLE else "float32").kind in "iu":
        x = integers(shape, seed, 0, 30, t)
        x[..., 3:4], x[..., 7:8] = np.iinfo(t).min, np.iinfo(t).max
        return x
    x = integers(shape, seed, -60, 60).astype(np.float64) / 4
    x[..., 1::5] *= -0.0
    x[..., 3:5], x[..., 30:33] = np.nan, np.nan
    x[..., 8:9], x[..., 9:10] = np.inf, -np.inf
    return typed(x, t)


def sort_case(shape, t, descending, nan_greatest, positions, view=None, tune=({"BR": 1},)):
    x = numbers(shape, len(shape) + shape[-1], t)
    at = np.zeros(shape, np.int64) if positions else None

    def expect(x, at=None, **_):
        i = order(x, descending, nan_greatest)
        return {"y": np.take_along_axis(x, i, -1)} | ({} if at is None else {"at": i})

    case(
        FILE,
        "sort_last",
        {
            "x": sliced(x, view) if view else x,
            "at": at,
            "descending": descending,
            "nan_greatest": nan_greatest,
        },
        expect,
        ulps=0,
        out_types=narrow(t, "y"),
        tune=tune,
        name=f"sort_last-{shape}-{t}-{'down' if descending else 'up'}-{'nan' if nan_greatest else 'number'}",
    )


def topk_case(shape, k, t, largest, nan_greatest, tune=({"BR": 1},)):
    x = numbers(shape, len(shape) + shape[-1], t)
    text = ",".join(map(str, shape[:-1] + (k,)))

    def expect(x, **_):
        i = order(x, largest, nan_greatest)[..., :k]
        return {"y": np.take_along_axis(x, i, -1), "at": i}

    case(
        FILE,
        "topk_last",
        {
            "x": x,
            "y": f"zeros({text}):{CODES.get(t, t)}",
            "at": f"zeros({text}):i64",
            "largest": largest,
            "nan_greatest": nan_greatest,
        },
        expect,
        ulps=0,
        out_types=narrow(t, "y"),
        tune=tune,
        name=f"topk_last-{shape}-{k}-{t}-{'down' if largest else 'up'}-{'nan' if nan_greatest else 'number'}",
    )


# ---- rows of one block
sort_case((9, 100), "float32", False, False, True, tune=[{"BR": 1}, {"BR": 4}])
sort_case((5, 17), "bf16", False, True, False, view="[::-1]", tune=[{"BR": 4}])
sort_case((2, 3, 64), "float16", True, False, True)
sort_case((700,), "float64", True, True, True)
sort_case((3, 90), "f8e5m2", True, False, False)
sort_case((3, 90), "f8e5m2", False, False, False)
sort_case((3, 90), "int64", True, False, True)
sort_case((1, 1), "uint8", False, False, False)
sort_case((0, 9), "float32", True, False, False)
sort_case((4, 0), "float16", False, False, False)
topk_case((9, 100), 5, "float32", True, False, tune=[{"BR": 1}, {"BR": 4}])
topk_case((5, 17), 17, "float16", False, False)
topk_case((2, 3, 64), 1, "bf16", True, True)
topk_case((1,), 1, "uint8", True, False)
topk_case((0, 9), 3, "float64", True, False)
topk_case((3, 90), 12, "f8e5m2", True, False)
topk_case((3, 700), 50, "float64", True, True)
topk_case((3, 64), 7, "int64", False, False)
# ---- longer rows
sort_case((2, 4097), "float32", True, True, True, tune=[{"BN": 4096, "BT": 64}, {"BN": 2048, "BT": 2048}])
sort_case((5001,), "float16", False, False, False, view="[::-1]", tune=[{"BN": 2048, "BT": 64}])
sort_case((1, 4200), "int64", True, False, True, tune=[{"BN": 4096, "BT": 64}])
sort_case((2, 4300), "f8e4m3", True, False, True, tune=[{"BN": 4096, "BT": 64}])
topk_case((3, 1025), 50, "float32", True, False, tune=[{"BN": 128, "BM": 128, "S": 1}])
topk_case((2, 9000), 50, "float32", True, True, tune=[{"BN": 2048, "BM": 512, "S": 4}])
topk_case((2, 3, 4100), 7, "bf16", True, True, tune=[{"BN": 128, "BM": 128, "S": 16}])
topk_case((2, 1300), 1300, "float64", False, True, tune=[{"BN": 2048, "BM": 512, "S": 1}])
topk_case((5000,), 4096, "int32", True, False, tune=[{"BN": 4096, "BM": 128, "S": 1}])
# Each tile of this row replaces the elements found before.
rising = np.arange(6000).astype(np.float32)
case(
    FILE,
    "topk_last",
    {"x": rising, "y": "zeros(9):f32", "at": "zeros(9):i64", "largest": True, "nan_greatest": False},
    {"y": rising[:-10:-1], "at": np.arange(5999, 5990, -1)},
    ulps=0,
    tune=[{"BN": 2048, "BM": 128, "S": 1}, {"BN": 128, "BM": 128, "S": 4}],
    name="topk_last-rising",
)
case(
    FILE,
    "topk_last",
    {
        "x": normal((2, 3), 1),
        "y": "zeros(2,4):f32",
        "at": "zeros(2,4):i64",
        "largest": True,
        "nan_greatest": False,
    },
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

# Infinities of f8e5m2 beside its greatest numbers, to which arithmetic rounds them.
CODES_8 = np.array([[0x7B, 0x7C, 0x00, 0xFB, 0xFC, 0x3C, 0x80, 0xBC], [0x7C, 0x7B, 0xFC, 0xFB, 0xFC, 0x7C, 0x7B, 0]], np.uint8)
NUMBERS_8 = TABLES["f8e5m2"][CODES_8]
for descending in (False, True):
    i = order(NUMBERS_8, descending)
    case(
        FILE,
        "sort_last",
        {"x": Data(CODES_8, NUMBERS_8, ":f8e5m2"), "at": np.zeros(CODES_8.shape, np.int64), "descending": descending,
         "nan_greatest": False},
        lambda i=i, **_: {"y": np.take_along_axis(CODES_8, i, -1), "at": i},
        name=f"sort_last-infinities-{'down' if descending else 'up'}",
    )
