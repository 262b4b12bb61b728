"""The library's results for NaN and infinities, a row for each kernel. Activations, losses, norms and
averages keep NaN, and masked, ignored or padding elements do not affect a result. A kernel of these files
without a row fails."""

import math
import re

from harness import *

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent / "stdlib"
NAN, INF = np.nan, np.inf
COVERED = {}


def row(file, kernel, args, expect, types=("float32", "float64"), **more):
    """A case for each type. Arrays of float64 in args become that type; those of `of_sum` become the type of
    sums."""
    COVERED.setdefault(file, set()).add(kernel)
    for t in types:
        wide = "float64" if t == "float64" else "float32"
        typed = {k: v.values(wide) if isinstance(v, Sum) else
                 np.asarray(v).astype(t) if isinstance(v, np.ndarray) and v.dtype == np.float64 else v
                 for k, v in args.items()}
        case(f"../../stdlib/{file}.teg", kernel, typed, expect, name=f"{kernel}-{len(CASES)}-{t}", **({"ulps": 64} | more))


class Sum:
    """A tensor of the type of sums."""

    def __init__(self, v):
        self.v = v

    def values(self, t):
        return np.asarray(self.v).astype(t)


# ---- elements: NaN, both infinities, zeros and a large number, in a block that is not full

X = np.array([NAN, INF, -INF, 0.0, -0.0, 1.5, -1.5, 4e4, -4e4])
erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.where(x > 0, x, 0) + np.log1p(np.exp(-np.abs(x))) + 0 * np.where(np.isnan(x), x, 0)


def elu(x, a=1.0):
    return np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x)


UNARY = {
    "relu": lambda x: np.where(x < 0, 0, x),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * sigmoid(x * (1.5957691216057308 + 0.07135481627260025 * x * x)),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "softplus": softplus,
    "selu": lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "softsign": lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos,
    "erf": erf, "abs": np.abs,
}
ACTS = [lambda x: x] + [UNARY[n] for n in "relu gelu gelu_tanh silu sigmoid tanh hardswish mish".split()]
for name, f in UNARY.items():
    x = X[:7] if name in ("sin", "cos") else X  # their error bound holds for small arguments only
    row("elementwise", "map_" + name, {"x": x}, lambda x, f=f, **_: {"y": f(x)},
        scale={"y": 8.0})
row("elementwise", "map_leaky_relu", {"x": X, "slope": 0.5}, lambda x, **_: {"y": np.where(x < 0, x * 0.5, x)})
row("elementwise", "map_elu", {"x": X, "a": 2.0}, lambda x, **_: {"y": elu(x, 2)})
row("elementwise", "map_hardtanh", {"x": X, "low": -1.0, "high": 2.0}, lambda x, **_: {"y": np.clip(x, -1, 2)})
row("elementwise", "map_scale", {"x": X, "s": -0.5}, lambda x, **_: {"y": -0.5 * x})
row("elementwise", "map_clamp", {"x": X, "low": -1.0, "high": 2.0},
    lambda x, **_: {"y": np.where(np.isnan(x), -1, np.clip(x, -1, 2))})
row("elementwise", "map_convert", {"x": X, "y": "zeros(9):i32"},
    lambda x, **_: {"y": np.clip(np.trunc(np.nan_to_num(x, nan=0)), -2 ** 31, 2 ** 31 - 1)})
A, B = (v.ravel() for v in np.meshgrid(X[:7], X[:7]))
for name, f in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.fmin, "max": np.fmax,
                "pow": np.power}.items():
    row("elementwise", "zip_" + name, {"a": A, "b": B}, lambda a, b, f=f, **_: {"y": f(a, b)}, ("float32",))
row("elementwise", "zip_where", {"c": A > 0, "a": A, "b": B}, lambda c, a, b, **_: {"y": np.where(c, a, b)})
row("elementwise", "zip_fma", {"a": A, "b": B, "c": A[::-1]}, lambda a, b, c, **_: {"y": a * b + c})
row("elementwise", "zip_axpby", {"a": A, "b": B, "alpha": 2.0, "beta": 0.5}, lambda a, b, **_: {"y": 2 * a + 0.5 * b})
for n, f in enumerate(ACTS):
    row("elementwise", "bias_act", {"x": X[None, :], "bias": np.zeros(9), "act": n}, lambda x, f=f, **_: {"y": f(x)},
        ("float32",), scale={"y": 8.0})
    row("elementwise", "zip_glu", {"a": A, "b": B, "act": n}, lambda a, b, f=f, **_: {"y": f(a) * b}, ("float32",),
        scale={"y": 8.0})
row("elementwise", "dropout", {"x": np.full(40, NAN), "p": 0.0, "seed": 3}, lambda x, **_: {"y": x})


def functions(x, z, **_):
    hard, top = np.clip(x + 3, 0, 6) / 6, np.fmax(x, z)
    both = np.where(x == z, x + math.log(2), top + np.log1p(np.exp(-np.abs(x - z))))
    sign = np.where(np.isnan(x) | (x == 0), x, np.sign(x))
    clamped = np.where(np.isnan(x), -1, np.clip(x, -1, 2))
    return {"y": np.array([hard, x * hard, np.where(x < 0, 0, x), softplus(x), sign, clamped, both, x * x, x + 0.5 * (z - x),
                           x == z, x - np.floor(x), x * hard])}


for t in ("float32", "float64"):
    case("special.teg", "functions", {"x": A.astype(t), "z": B.astype(t)}, functions, scale={"y": 8.0}, name=f"functions-{t}")


# ---- losses. One special element among ordinary ones: the mean is its loss, NaN or infinite

ZERO = Sum(np.float64(0))


def limited(x):
    return np.where(x < -100, -100, x)


def bce(p, t, **_):
    return {"loss": np.mean(-(t * limited(np.log(p)) + (1 - t) * limited(np.log1p(-p))))}


def bce_with_logits(x, t, **_):
    w = np.where(x > 0, 1, 0) - t
    return {"loss": np.mean(np.where(w == 0, 0, x * w) + np.log1p(np.exp(-np.abs(x))))}


def smooth_l1(x, t, **_):
    d = np.abs(x - t)
    return {"loss": np.mean(np.where(d < 0.5, d * d, d - 0.25))}


def kl_div(x, t, logs, **_):
    e = np.where(t == 0, np.where(np.isnan(x), NAN, 0), t * (np.log(t) - (x if logs else np.log(x))))
    return {"loss": np.sum(e)}


def triplet(a, p, n, margin, **_):
    v = np.sqrt(np.sum((a - p) ** 2)) - np.sqrt(np.sum((a - n) ** 2)) + margin
    return {"loss": np.where(v < 0, 0, v)}


for x, t in [(NAN, 0.5), (0.5, NAN), (INF, 1.0), (INF, 0.0), (-INF, 0.0), (-INF, 1.0), (0.25, 0.0), (1.0, 1.0), (0.0, 0.0)]:
    one = lambda v: np.array([0.5] * 20 + [v] + [0.25] * 4)
    row("loss", "mse", {"x": one(x), "t": one(t), "loss": ZERO}, lambda x, t, **_: {"loss": np.mean((x - t) ** 2)}, ("float32",))
    row("loss", "smooth_l1", {"x": one(x), "t": one(t), "loss": ZERO, "beta": 0.5}, smooth_l1, ("float32",))
    row("loss", "huber", {"x": one(x), "t": one(t), "loss": ZERO, "delta": 0.5},
        lambda x, t, **_: {"loss": smooth_l1(x, t)["loss"] / 2}, ("float32",))
    pair = {"x": one(x)[None], "t": one(t)[None], "loss": ZERO}
    row("loss", "hinge", pair, lambda x, t, **_: {"loss": np.mean(np.where(x * t > 1, 0, 1 - x * t))}, ("float32",))
    for logs in (False, True):
        row("loss", "kl_div", pair | {"logs": logs}, kl_div, ("float32",))
    few = {"a": one(x)[None], "p": one(t)[None], "n": one(0.5)[None], "loss": ZERO, "margin": 0.25, "eps": 0.0}
    row("loss", "triplet", few, triplet, ("float32",))
    row("loss", "bce", {"p": one(x), "t": one(t), "loss": ZERO}, bce, scale={"loss": 120.0})
    row("loss", "bce_with_logits", {"x": one(x), "t": one(t), "loss": ZERO}, bce_with_logits)

LABEL = np.array([1, -100, 2, 0, -100, -100, 3], np.int32)
ROWS = np.random.default_rng(1).standard_normal((7, 20))
IGNORED = ROWS.copy()  # ignored rows hold values that no other row may have
IGNORED[1], IGNORED[4], IGNORED[5, ::2] = NAN, -INF, 6e4


def cross_entropy(x, label, ignore, lse=None, **_):
    top = x.max(1)
    keep, sums = label != ignore, np.log(np.exp(x - top[:, None]).sum(1)) + top
    hit = x[np.arange(len(x)), np.where(keep, label, 0)]
    return {"loss": np.where(keep, sums - hit, 0).sum() / np.float64(keep.sum()), "count": keep.sum()}


def cross_entropy_backward(x, label, count, lse, dloss, ignore, **_):
    hit = label[:, None] == np.arange(x.shape[1])
    return {"dx": np.where((label != ignore)[:, None], (np.exp(x - lse[:, None]) - hit) * (dloss / count), 0)}


for kernel in ("cross_entropy", "cross_entropy_long"):
    more = {"label": LABEL, "loss": ZERO, "count": ZERO, "lse": None, "ignore": -100}
    row("loss", kernel, {"x": IGNORED} | more, cross_entropy, scale={"loss": 20.0})
    for v in (NAN, INF):  # in a row that is not ignored
        bad = IGNORED.copy()
        bad[2, 19] = v
        row("loss", kernel, {"x": bad} | more, {"loss": NAN, "count": 4})
for count, lse, dloss in [(4, 3.0, 0.5), (0, NAN, 0.5), (4, NAN, 0.5), (4, -INF, INF), (4, 3.0, NAN)]:
    sums = np.full(7, 3.0)
    sums[[1, 4, 5]] = lse
    row("loss", "cross_entropy_backward",
        {"x": IGNORED, "label": LABEL, "count": Sum(float(count)), "lse": Sum(sums), "dloss": Sum(dloss), "ignore": -100},
        cross_entropy_backward, ("float32", "float16", "float64"))


# ---- norms: one NaN makes the values normalised with it NaN, and no others

POISON = np.random.default_rng(2).standard_normal((5, 20))
POISON[1, 7], POISON[3, 0] = NAN, 0
STEP = np.linspace(-1, 1, 100).reshape(5, 20)
CLOSE = {"length": 20, "scale": {"y": 8.0, "dx": 8.0, "dg": 8.0, "dh": 8.0}}


def standard(x, axes=-1):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 0.25)


def by_squares(x, **_):
    return {"y": x / np.sqrt((x * x).mean(1, keepdims=True) + 0.25)}


def layer_norm_backward(x, dy, mean, rstd, **_):
    z = (x - mean[:, None]) * rstd[:, None]
    dx = (dy - dy.mean(1, keepdims=True) - z * (dy * z).mean(1, keepdims=True)) * rstd[:, None]
    return {"dx": dx, "dg": (dy * z).sum(0), "dh": dy.sum(0)}


def rms_norm_backward(x, dy, rstd, **_):
    z = x * rstd[:, None]
    return {"dx": (dy - z * (dy * z).mean(1, keepdims=True)) * rstd[:, None], "dg": (dy * z).sum(0)}


ONE = {"x": POISON, "g": None, "eps": 0.25}
row("norm", "layer_norm", ONE | {"h": None, "mean": None, "rstd": None}, lambda x, **_: {"y": standard(x)}, **CLOSE)
row("norm", "layer_norm_long", ONE | {"h": None}, lambda x, **_: {"y": standard(x)}, **CLOSE)
row("norm", "rms_norm", ONE | {"rstd": None}, by_squares, **CLOSE)
row("norm", "rms_norm_long", ONE, by_squares, **CLOSE)
for kernel in ("rms_norm_axis", "rms_norm_axis_long"):
    row("norm", kernel, ONE | {"x": POISON.reshape(5, 4, 5)}, by_squares, **CLOSE)
for eps in (0.25, 1e6):  # below and above the norms
    for kernel, size in {"l1_normalise": lambda x: np.abs(x).sum(1, keepdims=True),
                         "l2_normalise": lambda x: np.sqrt((x * x).sum(1, keepdims=True)),
                         "frobenius_normalise": lambda x: np.sqrt((x * x).sum())}.items():
        row("norm", kernel, {"x": POISON, "s": 1.0, "eps": eps},
            lambda x, eps, size=size, **_: {"y": x / np.maximum(size(x), eps)}, **CLOSE)
row("norm", "add_rms_norm", ONE | {"residual": STEP * 0}, lambda x, **_: by_squares(x) | {"total": x}, **CLOSE)
kept = {"mean": Sum(STEP[:, 0]), "rstd": Sum(np.ones(5)), "dy": STEP, "x": POISON, "g": None}
row("norm", "layer_norm_backward", kept, layer_norm_backward, **CLOSE)
del kept["mean"]
row("norm", "rms_norm_backward", kept, rms_norm_backward, **CLOSE)
PLANES = POISON.reshape(5, 4, 5)
AFFINE = {"x": PLANES, "g": None, "h": None, "eps": 0.25}
GIVEN = {"mean": Sum(np.array([0, 1, NAN, 2.0])), "var_": Sum(np.array([1, NAN, 1, 4.0]))}
SUMS = {"mean": Sum(np.zeros(4)), "var_": Sum(np.zeros(4))}
row("norm", "batch_norm_train", AFFINE | SUMS,
    lambda x, **_: {"y": standard(x, (0, 2)), "mean": x.mean((0, 2)), "var_": x.var((0, 2))}, **CLOSE)
row("norm", "batch_norm", AFFINE | GIVEN,
    lambda x, mean, var_, **_: {"y": (x - mean[:, None]) / np.sqrt(var_[:, None] + 0.25)}, **CLOSE)
row("norm", "group_norm", AFFINE | {"groups": 2}, lambda x, **_: {"y": standard(x.reshape(5, 2, 10)).reshape(5, 4, 5)}, **CLOSE)
row("norm", "instance_norm", AFFINE, lambda x, **_: {"y": standard(x)}, **CLOSE)

# ---- reductions: rows with NaN, of NaN alone, with infinities; sums keep NaN, the maximum ignores it

MIXED = np.random.default_rng(3).standard_normal((7, 20))
MIXED[1, 7], MIXED[2], MIXED[3, 4], MIXED[4, 5], MIXED[5, 3:5] = NAN, NAN, INF, -INF, (INF, -INF)


def last(f):
    return lambda x, **_: {"y": f(x, 1)}


def middle(f):
    return lambda x, **_: {"y": f(x[:, :, None], 1)}


def of_numbers(f, none):
    return lambda x, axis: f(np.where(np.isnan(x), none, x), axis)


def variance(x, axis):
    d = x - x.mean(axis, keepdims=True)
    return (d * d).mean(axis)


FOLDS = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": of_numbers(np.max, -INF), "min": of_numbers(np.min, INF),
         "norm": lambda x, axis: np.sqrt(np.sum(x * x, axis)), "var": variance,
         "norm1": lambda x, axis: np.sum(np.abs(x), axis),
         "argmax": of_numbers(np.argmax, -INF), "argmin": of_numbers(np.argmin, INF)}
NUMBERS = MIXED.copy()  # with NaN and infinities, the first position is not tested here
NUMBERS[4], NUMBERS[5, 3:5] = NAN, (2, -2)
for name, f in FOLDS.items():
    x = NUMBERS if "arg" in name else MIXED
    more = {"mean": None, "correction": 0} if name == "var" else {}
    close = {"length": 20, "scale": {"y": 30.0}}
    sets = [{"BN": 16}] if name == "var" else [{"BN": 16}, {"BN": 0}]
    row("reduce", name + "_last", {"x": x} | more, last(f), tune=sets, **close)
    if name != "var":
        row("reduce", name + "_last", {"x": x[:, :16]}, last(f), ("float32",), tune=sets, **close)  # fills its block
    axis = lambda x, f=f, **_: {"y": f(x, 1)}
    row("reduce", name + "_axis", {"x": np.repeat(x[:, :, None], 3, 2)} | more, axis, **close)
    if name not in ("var", "argmax", "argmin"):
        for line in (0, 1, 2, 3):
            row("reduce", name + "_all", {"x": x[line]}, lambda x, f=f, **_: {"y": f(x, 0)}, ("float32",), **close)
FAR = np.full((2, 40), 3e25)  # the squares of the means overflow f32, those of the deviations do not
FAR[1] = -2e25
row("reduce", "var_last", {"x": FAR, "correction": 0, "mean": "zeros(2):f32"}, {"y": [0, 0], "mean": FAR[:, 0]}, ("float32",),
    tune=[{"BR": 1, "BN": 16}], scale={"y": 0.0})


# ---- softmax: a row with NaN or +inf, or of -inf alone, is NaN; other rows are not affected

def softmax(x, **_):
    e = np.exp(x - x.max(1, keepdims=True))
    return {"y": e / e.sum(1, keepdims=True)}


def log_softmax(x, **_):
    v = x - x.max(1, keepdims=True)
    return {"y": v - np.log(np.exp(v).sum(1, keepdims=True))}


SOFT = MIXED.copy()
SOFT[6] = -INF
for kernel, f in (("softmax", softmax), ("softmax_long", softmax), ("log_softmax", log_softmax),
                  ("log_softmax_long", log_softmax)):
    row("softmax", kernel, {"x": SOFT}, f, length=20, scale={"y": 8.0})
row("softmax", "softmax_backward", {"y": POISON, "dy": STEP},
    lambda y, dy, **_: {"dx": y * (dy - (y * dy).sum(1, keepdims=True))}, **CLOSE)
row("softmax", "log_softmax_backward", {"y": POISON, "dy": STEP},
    lambda y, dy, **_: {"dx": dy - np.exp(y) * dy.sum(1, keepdims=True)}, **CLOSE)


# ---- pooling: the mean of padding alone is NaN, or 0 if padding counts; its maximum is -inf

def taps(n, window, stride, pad):
    """The positions inside of each window along one axis."""
    return [[p for p in range(i * stride - pad, i * stride - pad + window) if 0 <= p < n]
            for i in range((n + 2 * pad - window) // stride + 1)]


def mean_of(v, count):
    with np.errstate(all="ignore"):
        return v.sum() / np.float64(count if count else v.size)


def pool1(x, S, sx, px, of):
    return np.array([[[of(c[t]) for t in taps(x.shape[2], S, sx, px)] for c in b] for b in x])


def pool2(x, R, S, sy, sx, py, px, of):
    return np.array([[[[of(c[np.ix_(r, t)]) for t in taps(x.shape[3], S, sx, px)] for r in taps(x.shape[2], R, sy, py)]
                      for c in b] for b in x])


def greatest(v):
    return -INF if not v.size else NAN if np.isnan(v).any() else v.max()


def shape_of(a):
    return "zeros(%s)" % ",".join(map(str, a.shape))


for R, S, stride, py, px in [(1, 1, 1, 2, 2), (2, 3, 1, 4, 5), (3, 2, 2, 1, 3), (1, 2, 3, 3, 0)]:
    x = np.random.default_rng(4).standard_normal((2, 2, 5, 7))
    x[0, 0, 2, 3], x[1, 1, 0, 0], x[1, 1, 4, 6] = NAN, INF, -INF
    two = {"R": R, "S": S, "sy": stride, "sx": stride, "py": py, "px": px}
    one = {"S": S, "sx": stride, "px": px}
    for padded in (False, True):
        of = lambda v, n=R * S if padded else 0: mean_of(v, n)
        want = pool2(x, of=of, **two)
        row("pool", "avg_pool2d", {"x": x, "y": shape_of(want) + ":f32", "padded": padded} | two, {"y": want}, ("float32",))
        want = pool1(x[:, :, 2], of=lambda v, n=S if padded else 0: mean_of(v, n), **one)
        row("pool", "avg_pool1d", {"x": x[:, :, 2], "y": shape_of(want) + ":f32", "padded": padded} | one, {"y": want},
            ("float32",))
    want = pool2(x, of=greatest, **two)
    args = {"x": x, "y": shape_of(want) + ":f32", "at": None, "dy": 1, "dx": 1}
    row("pool", "max_pool2d", args | two, {"y": want}, ("float32",))
    want = pool1(x[:, :, 2], of=greatest, **one)
    args = {"x": x[:, :, 2], "y": shape_of(want) + ":f32", "at": None, "dx": 1}
    row("pool", "max_pool1d", args | one, {"y": want}, ("float32",))
    if R == S or stride == 3:  # two of the four are enough for three dimensions
        continue
    three = {"Q": 1, "sz": 1, "pz": 1} | two  # planes of padding alone around those of two dimensions
    for padded in (False, True):
        of = lambda v, n=R * S if padded else 0: mean_of(v, n)
        inner = pool2(x, of=of, **two)[:, :, None]
        ends = np.full_like(inner, 0 if padded else NAN)
        want = np.concatenate([ends, inner, ends], 2)
        args = {"x": x[:, :, None], "y": shape_of(want) + ":f32"}
        row("pool", "avg_pool3d", args | {"padded": padded} | three, {"y": want}, ("float32",))
    inner = pool2(x, of=greatest, **two)[:, :, None]
    want = np.concatenate([np.full_like(inner, -INF), inner, np.full_like(inner, -INF)], 2)
    row("pool", "max_pool3d", args | {"y": shape_of(want) + ":f32", "at": None, "dz": 1, "dy": 1, "dx": 1} | three,
        {"y": want}, ("float32",))

# ---- every kernel of these files has a row

for file, rows in COVERED.items():
    kernels = set(re.findall(r"^kernel (\w+)", (ROOT / f"{file}.teg").read_text(), re.M))
    assert kernels == rows, f"{file}.teg: no row of {sorted(kernels - rows)}"
