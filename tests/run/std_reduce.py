"""std/reduce.teg: sums, means, products, extremes, norms, variances, positions, along any axis."""

from harness import *

FILE = "../../stdlib/reduce.teg"
TYPES = ("float32", "float16", "bf16", "float64")


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def narrow(t, *names):
    return {n: "bf16" for n in names} if t == "bf16" else {}


def greatest(x, axis):
    return np.nanmax(x, axis, initial=-np.inf)


def least(x, axis):
    return np.nanmin(x, axis, initial=np.inf)


FOLDS = {
    "sum": np.sum,
    "mean": lambda x, axis: x.sum(axis) / np.float64(x.size if axis is None else x.shape[axis]),
    "prod": np.prod,
    "max": greatest,
    "min": least,
    "norm1": lambda x, axis: np.abs(x).sum(axis),
    "norm": lambda x, axis: np.sqrt((x * x).sum(axis)),
}


def values(name, shape, seed):
    """Normal numbers. For products their magnitudes are near 1."""
    x = normal(shape, seed, np.float64)
    return np.exp(x * 0.01) * np.where(x < 0, -1, 1) if name == "prod" else x


def bounds(name, n):
    return {"length": n, "scale": {"y": {"sum": 4.0 * 30, "norm1": 4.0 * 30}.get(name, 4.0)}}


def axis_case(kernel, x, t, f, name, **more):
    case(
        FILE,
        kernel,
        {"x": x},
        lambda x, **_: {"y": f(x)},
        out_types=narrow(t, "y"),
        name=name,
        **more,
    )


LAST = [(37, 1000), (9, 17), (2, 3, 64), (0, 9), (5, 0), (3000,), (100, 1)]
MIDDLE = [(1, 37, 100), (3, 70, 17), (4, 5, 1), (2, 0, 3), (0, 2, 3), (2, 9, 300)]
for k, (fold, f) in enumerate(FOLDS.items()):
    for n, shape in enumerate(LAST):
        t = TYPES[(n + k) % 4]
        x = typed(values(fold, shape, n), t)
        axis_case(
            f"{fold}_last",
            x,
            t,
            lambda x, f=f: f(x, -1),
            f"{fold}_last-{shape}-{t}",
            tune=[{"BR": 1, "BN": 64}, {"BR": 8, "BN": 16}] if n < 3 else [{}],
            **bounds(fold, shape[-1]),
        )
    for n, shape in enumerate(MIDDLE):
        t = TYPES[(n + k) % 4]
        x = typed(values(fold, shape, n), t)
        axis_case(
            f"{fold}_axis",
            x,
            t,
            lambda x, f=f: f(x, 1),
            f"{fold}_axis-{shape}-{t}",
            **bounds(fold, shape[1]),
        )
    for n, t in list(enumerate(TYPES))[k % 2 :: 2]:
        x = typed(values(fold, (2, 30, 130), n), t)
        views = [("sliced", sliced(x, "[::-1,::-3,::2]")), ("permuted", permuted(x, 0, 2, 1))]
        views += [("repeated", expanded(sliced(x, "[0]"), 3))]
        for name, v in views:
            axis_case(
                f"{fold}_last",
                v,
                t,
                lambda x, f=f: f(x, -1),
                f"{fold}_last-{name}-{t}",
                **bounds(fold, 130),
            )
            axis_case(
                f"{fold}_axis",
                v,
                t,
                lambda x, f=f: f(x, 1),
                f"{fold}_axis-{name}-{t}",
                **bounds(fold, 130),
            )
        for name, v in views[:2] + [("whole", x)]:
            axis_case(
                f"{fold}_all",
                v,
                t,
                lambda x, f=f: f(x, None),
                f"{fold}_all-{name}-{t}",
                **bounds(fold, 7800),
            )
    axis_case(
        f"{fold}_all",
        np.zeros((3, 0), np.float32),
        "",
        lambda x, f=f: f(x, None),
        f"{fold}_all-none",
    )
    x = values(fold, (300_000,), 7)  # split over programs
    axis_case(f"{fold}_all", x, "", lambda x, f=f: f(x, None), f"{fold}_all-long", length=300_000)
holes = normal((20, 70), 1)
holes[integers((300,), 1, 0, 20), integers((300,), 2, 0, 70)] = np.nan
holes[7] = np.nan
for fold in ("max", "min"):
    f = FOLDS[fold]
    axis_case(f"{fold}_last", holes, "", lambda x, f=f: f(x, -1), f"{fold}-nan")


def var(x, correction, axis, mean=None, **_):
    n = x.shape[axis]
    y = ((x - x.mean(axis, keepdims=True)) ** 2).sum(axis) / np.float64(n - correction)
    return {"y": y} | ({} if mean is None else {"mean": x.mean(axis)})


for n, shape in enumerate([(37, 1000), (9, 17), (2, 3, 64), (3000,), (100, 2), (0, 5)]):
    t = TYPES[n % 4]
    x = typed(normal(shape, 1, np.float64) + 3, t)
    mean = {"mean": typed(np.zeros(shape[:-1]), t) if n % 2 == 0 else None, "correction": n % 2}
    more = {
        "out_types": narrow(t, "y", "mean"),
        "length": shape[-1],
        "scale": {"y": 8.0, "mean": 8.0},
    }
    f = lambda x, correction, mean=None, **_: var(x, correction, -1, mean)
    case(FILE, "var_last", {"x": x} | mean, f, tune=[{"BR": 1}, {"BR": 8, "BN": 16}], **more)
for n, shape in enumerate([(1, 37, 100), (3, 70, 17), (4, 5, 1), (2, 2, 300)]):
    t = TYPES[n % 4]
    x = (
        permuted(typed(normal(shape, 1, np.float64) + 3, t), 2, 1, 0)
        if n < 2
        else typed(normal(shape, 1), t)
    )
    a, _, b = as_data(x).value.shape
    mean = {"mean": typed(np.zeros((a, b)), t) if n % 2 == 0 else None, "correction": n % 2}
    more = {
        "out_types": narrow(t, "y", "mean"),
        "length": shape[1],
        "scale": {"y": 8.0, "mean": 8.0},
    }
    f = lambda x, correction, mean=None, **_: var(x, correction, 1, mean)
    case(FILE, "var_axis", {"x": x} | mean, f, name=f"var_axis-{shape}", **more)


def place(f, axis):
    """The first of equals, ignoring NaN; 0 if there is no number."""
    bad = {"argmax": -np.inf, "argmin": np.inf}[f.__name__]
    return lambda x, **_: {"y": f(np.where(np.isnan(x), bad, x), axis)}


for f in (np.argmax, np.argmin):
    for n, shape in enumerate(
        [(37, 1000), (9, 17), (2, 3, 64), (3000,), (100, 1), (0, 5), (2, 100_000)]
    ):
        t = TYPES[n % 4]
        x = integers(shape, 5, 0, 50).astype(np.float64)  # with ties
        x[1 : 1 + n % 2] = np.nan
        case(
            FILE,
            f"{f.__name__}_last",
            {"x": typed(x, t)},
            place(f, -1),
            tune=[{"BR": 1, "BN": 64}, {"BR": 8, "BN": 16}] if n < 3 else [{}],
            name=f"{f.__name__}_last-{shape}-{t}",
        )
    for n, shape in enumerate([(1, 37, 100), (3, 70, 17), (4, 5, 1), (0, 2, 3)]):
        t = TYPES[n % 4]
        x = sliced(typed(integers(shape, 5, 0, 9).astype(np.float64), t), "[:,::-1]")
        case(
            FILE, f"{f.__name__}_axis", {"x": x}, place(f, 1), name=f"{f.__name__}_axis-{shape}-{t}"
        )
    x = holes.copy()
    x[3] = {"argmax": -np.inf, "argmin": np.inf}[f.__name__]
    case(FILE, f"{f.__name__}_last", {"x": x}, place(f, -1), name=f"{f.__name__}-nan")
    case(FILE, f"{f.__name__}_axis", {"x": x[None]}, place(f, 1), name=f"{f.__name__}_axis-nan")
