"""std/norm.teg: layer, rms, batch, group, instance normalisation and gradients."""

from harness import *

FILE = "../../stdlib/norm.teg"
TYPES = ("float32", "float16", "bf16", "float64")
EPS = 2.0**-16  # exact in every format


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def narrow(t, *names):
    return {n: "bf16" for n in names} if t == "bf16" else {}


def stats(t):
    """The type that statistics are kept in."""
    return "float64" if t == "float64" else "float32"


def affine(y, g=None, h=None):
    y = y if g is None else y * g
    return y if h is None else y + h


def layer_norm(x, g=None, h=None, mean=None, rstd=None, eps=0, **_):
    u = x.mean(-1, keepdims=True)
    s = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    out = {"y": affine((x - u) * s, g, h)}
    out |= {} if mean is None else {"mean": u[..., 0]}
    return out | ({} if rstd is None else {"rstd": s[..., 0]})


def rms_norm(x, g=None, rstd=None, eps=0, **_):
    s = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return {"y": affine(x * s, g)} | ({} if rstd is None else {"rstd": s[..., 0]})


def add_rms_norm(x, residual, g, eps, **_):
    return {"total": x + residual} | rms_norm(x + residual, g, eps=eps)


SHAPES = [(37, 1000), (2, 1), (5, 17), (2, 3, 64), (0, 9), (700,), (3, 2500)]
for n, shape in enumerate(SHAPES):
    t = TYPES[n % 4]
    x = typed(normal(shape, 1, np.float64) + 2, t)
    g, h = (typed(normal(shape[-1:], s, np.float64), t) for s in (2, 3))
    size = {"scale": {"y": 8.0, "rstd": 2.0, "mean": 4.0}, "length": shape[-1], "ulps": 16}
    if n % 2:
        g, h = (None, h) if n % 4 == 1 else (g, None)
    kept = {} if shape[0] == 0 else {s: np.zeros(shape[:-1], stats(t)) for s in ("mean", "rstd")}
    kept = kept or {"mean": None, "rstd": None}
    case(
        FILE,
        "layer_norm",
        {"x": x, "g": g, "h": h, "eps": EPS} | kept,
        layer_norm,
        out_types=narrow(t, "y"),
        tune=[{"BR": 1}, {"BR": 4}],
        name=f"layer_norm-{shape}-{t}",
        **size,
    )
    case(
        FILE,
        "layer_norm_long",
        {"x": x, "g": g, "h": h, "eps": EPS},
        layer_norm,
        out_types=narrow(t, "y"),
        name=f"layer_norm_long-{shape}-{t}",
        **size,
    )
    case(
        FILE,
        "rms_norm",
        {"x": x, "g": g, "eps": EPS, "rstd": kept["rstd"]},
        rms_norm,
        out_types=narrow(t, "y"),
        tune=[{"BR": 1}, {"BR": 4}],
        name=f"rms_norm-{shape}-{t}",
        **size,
    )
    case(
        FILE,
        "rms_norm_long",
        {"x": x, "g": g, "eps": EPS},
        rms_norm,
        out_types=narrow(t, "y"),
        name=f"rms_norm_long-{shape}-{t}",
        **size,
    )
for t in TYPES:
    x = normal((2, 10, 260), 2, np.float64)
    g = typed(normal((130,), 3, np.float64), t)
    for name, v in (
        ("sliced", sliced(typed(x, t), "[::-1,::-2,::2]")),
        ("permuted", permuted(typed(x[:, :, :130], t), 1, 0, 2)),
    ):
        more = {"out_types": narrow(t, "y", "total"), "length": 130, "scale": {"y": 8.0}}
        a = {"x": v, "g": g, "eps": EPS}
        none = {"mean": None, "rstd": None}
        case(FILE, "layer_norm", a | none | {"h": g}, layer_norm, name=f"ln-{name}-{t}", **more)
        case(FILE, "rms_norm", a | {"rstd": None}, rms_norm, name=f"rms-{name}-{t}", **more)
        r = typed(normal(v.value.shape, 4, np.float64), t)
        if t in ("float32", "float64"):  # otherwise the normalised sum has been rounded to T
            case(FILE, "add_rms_norm", a | {"residual": r}, add_rms_norm, **more)
def rms_norm_axis(x, g, eps, **_):
    s = 1 / np.sqrt((x * x).mean(1, keepdims=True) + eps)
    return {"y": affine(x * s, None if g is None else g[:, None])}


def by_norm(order, axis):
    """y = s x / max(norm, eps)"""

    def run(x, s, eps, **_):
        size = np.abs(x).sum(axis, keepdims=True) if order == 1 else np.sqrt((x * x).sum(axis, keepdims=True))
        return {"y": s * x / np.maximum(size, eps)}

    return run


for n, shape in enumerate([(3, 64, 100), (1, 1, 1), (2, 37, 300), (0, 4, 5), (5, 200, 1), (2, 9, 65)]):
    t = TYPES[n % 4]
    x = typed(normal(shape, 1, np.float64), t)
    g = typed(normal(shape[1:2], 2, np.float64), t) if n % 2 else None
    more = {"out_types": narrow(t, "y"), "length": shape[1], "ulps": 16, "scale": {"y": 8.0}}
    for kernel in ("rms_norm_axis", "rms_norm_axis_long"):
        a = {"x": x, "g": g, "eps": EPS}
        case(FILE, kernel, a, rms_norm_axis, name=f"{kernel}-{shape}-{t}", **more)
        if n in (0, 5):
            a |= {"x": permuted(sliced(x, "[:,::-1]"), 2, 1, 0)}
            case(FILE, kernel, a, rms_norm_axis, name=f"{kernel}-permuted-{shape}-{t}", **more)
for n, shape in enumerate([(37, 1000), (2, 1), (5, 17), (2, 3, 64), (0, 9), (700,), (3, 5000)]):
    t = TYPES[n % 4]
    x = normal(shape, 1, np.float64)
    x[-1:] *= 2.0**-14  # a norm below eps, where the row is short
    view = (lambda v: sliced(v, "[::-1,::-1]")) if n == 2 else lambda v: v
    for kernel, order, axis in (("l1_normalise", 1, -1), ("l2_normalise", 2, -1), ("frobenius_normalise", 2, None)):
        a = {"x": view(typed(x, t)), "s": 3.0, "eps": 2.0**-10}
        more = {"out_types": narrow(t, "y"), "length": x.size if axis is None else shape[-1], "scale": {"y": 4.0}}
        case(FILE, kernel, a, by_norm(order, axis), name=f"{kernel}-{shape}-{t}", **more)
        if n == 3:
            case(FILE, kernel, a | {"y": "same(x)"}, by_norm(order, axis), name=f"{kernel}-inplace", **more)
half = typed(integers((5, 70), 1, -8, 9), "float16")  # sums of these are exact
case(
    FILE,
    "add_rms_norm",
    {"x": half, "residual": half, "g": None, "eps": EPS},
    add_rms_norm,
    length=70,
)


for kernel, f in (
    ("layer_norm", layer_norm),
    ("layer_norm_long", layer_norm),
    ("rms_norm", rms_norm),
    ("rms_norm_long", rms_norm),
):
    args = {"x": normal((5, 300), 6), "y": "same(x)", "g": None, "eps": EPS}
    args |= {"h": None} if "layer" in kernel else {}
    args |= {} if "long" in kernel else {"rstd": None}
    args |= {"mean": None} if kernel == "layer_norm" else {}
    case(FILE, kernel, args, f, length=300, scale={"y": 8.0}, name=f"{kernel}-inplace")


def layer_norm_backward(x, dy, g, mean, rstd, **_):
    z = (x - mean[:, None]) * rstd[:, None]
    u = affine(dy, g)
    dx = (u - u.mean(1, keepdims=True) - z * (u * z).mean(1, keepdims=True)) * rstd[:, None]
    return {"dx": dx, "dg": (dy * z).sum(0), "dh": dy.sum(0)}


def rms_norm_backward(x, dy, g, rstd, **_):
    z = x * rstd[:, None]
    u = affine(dy, g)
    dx = (u - z * (u * z).mean(1, keepdims=True)) * rstd[:, None]
    return {"dx": dx, "dg": (dy * z).sum(0)}


for n, (r, c) in enumerate([(70, 100), (1, 8), (300, 33), (33, 257), (0, 9), (3, 17000)]):
    t = TYPES[n % 4]
    x = normal((r, c), 1, np.float64)
    a = {
        "x": typed(x, t),
        "dy": typed(normal((r, c), 2, np.float64), t),
        "g": typed(normal((c,), 3, np.float64), t) if n % 2 == 0 else None,
        "rstd": (1 / x.std(1)).astype(stats(t)),
    }
    mean = {"mean": x.mean(1).astype(stats(t))}
    for kernel, args, f in (
        ("layer_norm_backward", a | mean, layer_norm_backward),
        ("rms_norm_backward", a, rms_norm_backward),
    ):
        case(
            FILE,
            kernel,
            args,
            f,
            out_types=narrow(t, "dx"),
            length=r + c,
            ulps=32,
            scale={"dx": 8.0, "dg": 8.0, "dh": 8.0},
            name=f"{kernel}-{r}x{c}-{t}",
        )


def channels(v, x):
    return np.reshape(v, [1, -1] + [1] * (x.ndim - 2))


def batch_norm(x, g, h, eps, mean=None, var_=None, **_):
    axes = tuple(a for a in range(x.ndim) if a != 1)
    given = mean is not None
    u, v = (mean, var_) if given else (x.mean(axes), x.var(axes))
    y = (x - channels(u, x)) / np.sqrt(channels(v, x) + eps)
    y = affine(y, None if g is None else channels(g, x), None if h is None else channels(h, x))
    return {"y": y} | ({} if given else {"mean": u, "var_": v})


def group_norm(x, g, h, eps, groups=None, **_):
    b, c = x.shape[:2]
    w = x.reshape(b, groups or c, -1)
    y = (w - w.mean(2, keepdims=True)) / np.sqrt(w.var(2, keepdims=True) + eps)
    y = y.reshape(x.shape)
    return {
        "y": affine(y, None if g is None else channels(g, x), None if h is None else channels(h, x))
    }


for n, shape in enumerate([(3, 6, 40, 30), (2, 4, 7), (4, 6), (2, 8, 3, 5, 7)]):
    for t in (TYPES[n], TYPES[(n + 2) % 4]):
        c = shape[1]
        x = typed(normal(shape, 1, np.float64) + 1, t)
        a = {"x": x, "eps": EPS}
        a["g"] = typed(normal((c,), 2, np.float64), t) if n % 2 == 0 else None
        a["h"] = typed(normal((c,), 3, np.float64), t) if n < 2 else None
        more = {"out_types": narrow(t, "y"), "length": as_data(x).value.size // c, "ulps": 16}
        more["scale"] = {"y": 8.0, "mean": 4.0, "var_": 4.0}
        kept = {s: np.zeros(c, stats(t)) for s in ("mean", "var_")}
        case(
            FILE,
            "batch_norm_train",
            a | {k: f"zeros({c}):{v.dtype.name.replace('float', 'f')}" for k, v in kept.items()},
            lambda x, g, h, eps, **_: batch_norm(x, g, h, eps),
            tune=[{"BP": 64}, {"BP": 1024}],
            name=f"batch_norm_train-{shape}-{t}",
            **more,
        )
        kept = {
            "mean": normal((c,), 5).astype(stats(t)),
            "var_": uniform((c,), 6, 0.5, 2).astype(stats(t)),
        }
        case(FILE, "batch_norm", a | kept, batch_norm, name=f"batch_norm-{shape}-{t}", **more)
        case(FILE, "instance_norm", a, group_norm, name=f"instance_norm-{shape}-{t}", **more)
        for groups in (1, 2):
            case(
                FILE,
                "group_norm",
                a | {"groups": groups},
                group_norm,
                tune=[{"BP": 16}, {"BP": 64}],
                name=f"group_norm-{shape}-{groups}-{t}",
                **more,
            )
case(
    FILE,
    "group_norm",
    {"x": normal((1, 5, 3), 1), "g": None, "h": None, "eps": EPS, "groups": 2},
    fails="groups",
)
