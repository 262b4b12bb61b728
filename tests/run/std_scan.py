"""std/scan.teg: running sums and products along any axis, and of one long row."""

from harness import *

FILE = "../../stdlib/scan.teg"
TYPES = ("float32", "float16", "bf16", "float64")


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def values(name, shape, seed):
    x = normal(shape, seed, np.float64)
    return np.exp(x * 0.01) * np.where(x < 0, -1, 1) if name == "cumprod" else x


def check(f, kernel, x, axis, t, **more):
    n = as_data(x).value.shape[axis]
    case(
        FILE,
        f"{f.__name__}_{kernel}",
        {"x": x},
        lambda x, **_: {"y": f(x, axis)},
        out_types={"y": "bf16"} if t == "bf16" else {},
        length=n,
        scale={"y": 4.0},
        name=f"{f.__name__}_{kernel}-{as_data(x).value.shape}-{t}-{len(CASES)}",
        **more,
    )


for f in (np.cumsum, np.cumprod):
    name = f.__name__
    for n, shape in enumerate([(7, 3000), (1, 1), (5, 17), (2, 3, 64), (0, 9), (4, 0), (700,)]):
        for t in TYPES[n % 2 :: 2]:
            tune = [{"BR": 1, "BN": 16}, {"BR": 4, "BN": 256}, {}]
            check(f, "last", typed(values(name, shape, 1), t), -1, t, tune=tune)
    for n, shape in enumerate(
        [(1, 37, 100), (3, 70, 17), (4, 5, 1), (2, 0, 3), (0, 2, 3), (2, 9, 300)]
    ):
        for t in TYPES[n % 2 :: 2]:
            check(f, "axis", typed(values(name, shape, 2), t), 1, t)
    for t in TYPES:
        x = typed(values(name, (2, 30, 130), 3), t)
        check(f, "last", sliced(x, "[::-1,::-3,::-2]"), -1, t)
        check(f, "last", permuted(x, 0, 2, 1), -1, t)
        check(f, "axis", sliced(x, "[:,::-1,::2]"), 1, t)
        check(f, "axis", permuted(x, 1, 2, 0), 1, t)
    for n, size in enumerate((1, 0, 5000, 20000)):
        t = TYPES[n]
        check(f, "long", typed(values(name, (size,), 4), t), 0, t)
check(np.cumsum, "long", normal((1_200_000,), 5, np.float64), 0, "float64", targets=["cpu"])
check(np.cumsum, "long", sliced(normal((20000,), 5), "[::-2]"), 0, "float32")
x = normal((9, 300), 6)  # from the end: both are views
case(
    FILE,
    "cumsum_last",
    {"x": sliced(x, "[:,::-1]"), "y": sliced(np.zeros_like(x), "[:,::-1]")},
    lambda x, **_: {"y": np.cumsum(x, -1)},
    length=300,
    scale={"y": 4.0},
)
