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


def of_any(f, axis):
    """The reference of the kernels with options."""

    def run(x, mask, reverse, exclusive, **_):
        none = 1 if f is np.cumprod else 0
        v = x if mask is None else np.where(mask, x, none)
        v = np.flip(v, axis) if reverse else v
        y = f(v, axis)
        if exclusive:
            y = np.roll(y, 1, axis)
            y.swapaxes(0, axis)[:1] = none
        return {"y": np.flip(y, axis) if reverse else y}

    return run


def check_any(f, kernel, shape, t, options, masked=True, view=lambda v: v, **more):
    axis = -1 if kernel == "last" else 1
    reverse, exclusive = options
    x = values(f.__name__, shape, 5)
    mask = integers(shape, 6, 0, 2).astype(bool) if masked else None
    if masked:
        x = np.where(mask, x, np.nan)  # what the mask leaves out changes nothing
    args = {"x": view(typed(x, t)), "mask": mask if mask is None else view(mask)}
    case(
        FILE,
        f"{f.__name__}_any_{kernel}",
        args | {"reverse": reverse, "exclusive": exclusive},
        of_any(f, axis),
        out_types={"y": "bf16"} if t == "bf16" else {},
        length=shape[axis],
        scale={"y": 4.0},
        name=f"{f.__name__}_any_{kernel}-{shape}-{t}-{options}-{len(CASES)}",
        **more,
    )


OPTIONS = [(False, True), (True, False), (True, True), (False, False)]
for f in (np.cumsum, np.cumprod):
    for n, shape in enumerate([(7, 3000), (1, 1), (5, 17), (2, 3, 64), (0, 9), (4, 0), (700,)]):
        for k, options in list(enumerate(OPTIONS))[n % 2 :: 2]:
            tune = [{"BR": 1, "BN": 16}, {"BR": 4, "BN": 256}] if n in (2, 3) else [{}]
            check_any(f, "last", shape, TYPES[(n // 2 + k) % 4], options, (n // 2 + k // 2) % 2, tune=tune)
    for n, shape in enumerate([(1, 37, 100), (3, 70, 17), (4, 5, 1), (2, 0, 3), (0, 2, 3)]):
        for k, options in list(enumerate(OPTIONS))[n % 2 :: 2]:
            check_any(f, "axis", shape, TYPES[(n // 2 + k) % 4], options, (n // 2 + k // 2) % 2)
    for t, options in zip(TYPES, OPTIONS):
        back = lambda v: sliced(v, "[::-1,:,::-1]")
        check_any(f, "last", (3, 5, 70), t, options, view=back)
        check_any(f, "axis", (3, 5, 70), t, options, view=back)

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
