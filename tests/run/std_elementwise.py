"""std/elementwise.teg: activations, arithmetic of tensors, dropout."""

import math

from harness import *

FILE = "../../stdlib/elementwise.teg"
erf = np.vectorize(math.erf, otypes=[float])


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(x, 0)


def elu(x, a=1.0):
    return np.where(x < 0, a * np.expm1(x), x)


def gelu_tanh(x):
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


UNARY = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": gelu_tanh,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "softplus": softplus,
    "selu": lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "mish": lambda x: x * np.tanh(softplus(x)),
}
UNARY |= {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "erf": erf,
    "abs": np.abs,
}
ACTS = [lambda x: x] + [
    UNARY[n] for n in "relu gelu gelu_tanh silu sigmoid tanh hardswish mish".split()
]
TYPES = ("float32", "float16", "bf16", "float64")


def views(t):
    """Shapes that no block divides, empty shapes, single elements, and views that do not merge to one
    dimension."""
    yield "row", typed(uniform((8195,), 1, -6, 6, np.float64), t)
    yield "none", typed(np.zeros((3, 0, 2)), t)
    yield "point", typed(uniform((), 2, -6, 6, np.float64), t)
    yield "view", sliced(typed(uniform((9, 7, 34), 3, -6, 6, np.float64), t), "[::2,::-1,3::2]")


def out_of(t):
    return {"y": "bf16"} if t == "bf16" else {}


for name, f in UNARY.items():
    for t in TYPES:
        for view, x in views(t):
            if view == "row" or name == "silu" or (name == "gelu" and t != "float16"):
                case(
                    FILE,
                    "map_" + name,
                    {"x": x},
                    lambda x, f=f, **_: {"y": f(x)},
                    out_types=out_of(t),
                    ulps=8,
                    scale={"y": 6.0} if name != "exp" else {},  # 1 + erf cancels where x is low
                    name=f"{name}-{t}-{view}",
                    tune=[{"B": 2048}] if view == "row" else [{}],
                )
case(
    FILE,
    "map_relu",
    {"x": np.array([np.nan, -np.inf, np.inf, -1], np.float32)},
    {"y": np.array([np.nan, 0, np.inf, 0])},
)
x = uniform((37, 111), 5, -3, 3)
for t in TYPES:
    a = {"x": typed(x, t)}
    more = {"out_types": out_of(t)}
    case(
        FILE,
        "map_leaky_relu",
        a | {"slope": 0.125},
        lambda x, slope, **_: {"y": np.where(x < 0, x * slope, x)},
        **more,
    )
    case(FILE, "map_elu", a | {"a": 0.75}, lambda x, a, **_: {"y": elu(x, a)}, **more)
    case(FILE, "map_scale", a | {"s": -0.75}, lambda x, s, **_: {"y": s * x}, **more)
    for kernel in ("map_clamp", "map_hardtanh"):
        case(
            FILE,
            kernel,
            a | {"low": -1.0, "high": 0.5},
            lambda x, low, high, **_: {"y": np.clip(x, low, high)},
            **more,
        )
case(
    FILE,
    "map_convert",
    {"x": x * 100, "y": "zeros(37,111):i8"},
    lambda x, **_: {"y": np.clip(np.trunc(x), -128, 127)},
)
case(
    FILE,
    "map_convert",
    {"x": x, "y": "zeros(37,111):bf16"},
    lambda x, **_: {"y": x},
    out_types={"y": "bf16"},
)

# ---- two and three tensors: equal shapes, and an operand that is repeated

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": lambda a, b: a / b if a.dtype.kind == "f" else np.trunc(a / b),
    "min": np.minimum,
    "max": np.maximum,
}
for name, f in BINARY.items():
    for t in TYPES + ("int32", "int8"):
        whole = t.startswith("int")
        lo, hi = (1, 11) if whole else (0.5, 3)
        a = uniform((13, 70), 1, lo, hi, np.float64)
        pairs = [("same", typed(a, t), typed(uniform((13, 70), 2, lo, hi, np.float64), t))]
        pairs.append(("row", typed(a, t), expanded(typed(a[0], t), 13)))
        pairs.append(("column", permuted(typed(a, t), 1, 0), expanded(typed(a[:, 3], t), 70)))
        for view, p, q in pairs:
            if view == "same" or name == "add":
                case(
                    FILE,
                    "zip_" + name,
                    {"a": p, "b": q},
                    lambda a, b, f=f, **_: {"y": f(a, b)},
                    out_types=out_of(t),
                    name=f"{name}-{t}-{view}",
                )
a, b, c = (uniform((5, 3, 77), s, 0.5, 3, np.float64) for s in (1, 2, 3))
for t in TYPES:
    p, q, r = (typed(v, t) for v in (a, b, c))
    more = {"out_types": out_of(t)}
    case(FILE, "zip_pow", {"a": p, "b": q}, lambda a, b, **_: {"y": a**b}, **more)
    case(
        FILE,
        "zip_fma",
        {"a": p, "b": sliced(q, "[::-1]"), "c": r},
        lambda a, b, c, **_: {"y": a * b + c},
        **more,
    )
    case(
        FILE,
        "zip_axpby",
        {"a": p, "b": q, "alpha": 0.5, "beta": -2.0},
        lambda a, b, alpha, beta, **_: {"y": alpha * a + beta * b},
        scale={"y": 8.0},
        **more,
    )
    case(
        FILE,
        "zip_where",
        {"c": a > b, "a": p, "b": q},
        lambda c, a, b, **_: {"y": np.where(c, a, b)},
        **more,
    )
for act, f in enumerate(ACTS):
    t = TYPES[act % 4]
    args = {
        "x": typed(uniform((37, 130), 1, -3, 3), t),
        "bias": typed(uniform((130,), 2, -3, 3), t),
    }
    case(
        FILE,
        "bias_act",
        args | {"act": act},
        lambda x, bias, f=f, **_: {"y": f(x + bias)},
        out_types=out_of(t),
        ulps=8,
        name=f"bias_act-{act}",
    )
    case(
        FILE,
        "zip_glu",
        {"a": args["x"], "b": typed(uniform((37, 130), 4), t), "act": act},
        lambda a, b, f=f, **_: {"y": f(a) * b},
        out_types=out_of(t),
        ulps=8,
        name=f"glu-{act}",
    )

for t in TYPES:  # in place
    x = typed(uniform((37, 130), 1, -3, 3), t)
    more = {"out_types": out_of(t), "ulps": 8}
    case(FILE, "map_silu", {"x": x, "y": "same(x)"}, lambda x, **_: {"y": ACTS[4](x)}, **more)
    case(FILE, "zip_add", {"a": x, "b": x, "y": "same(a)"}, lambda a, b, **_: {"y": a + b}, **more)

for t, make in (("f8e4m3", f8e4m3), ("f8e5m2", f8e5m2)):
    x = make(uniform((37, 130), 1, -3, 3))
    case(FILE, "map_silu", {"x": x}, lambda x, **_: {"y": ACTS[4](x)}, out_types={"y": t}, ulps=8)
    case(FILE, "zip_mul", {"a": x, "b": x}, lambda a, b, **_: {"y": a * b}, out_types={"y": t})

# ---- dropout


for t in TYPES:
    x = typed(normal((50, 131), 1), t)
    args = {"x": permuted(x, 1, 0) if t == "float16" else x, "p": 0.25, "seed": 12345678901}
    scale = {"y": 8.0 * 2.0**29} if t == "float64" else {}  # p and 1 / (1 - p) are f32
    case(
        FILE,
        "dropout",
        args,
        dropout,
        out_types=out_of(t),
        scale=scale,
        tune=[{"B": 2048}, {"B": 8192}],
    )
