"""std/conv.teg: convolutions in one to three dimensions, depthwise, transposed."""

import itertools

from harness import *

FILE = "../../stdlib/conv.teg"
TYPES = ("float32", "float16", "bf16", "float64")
AXES = {1: "x", 2: "yx", 3: "zyx"}


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def data(shape, seed, t):
    return typed(normal(shape, seed, np.float64), t)


def extents(x, w, s, p, d):
    return [(n + 2 * p[a] - d[a] * (w[a] - 1) - 1) // s[a] + 1 for a, n in enumerate(x)]


def convolve(x, w, bias, s, p, d, act=0):
    """x [B, C, ...], w [F, C / groups, ...]: one tap after another."""
    out = extents(x.shape[2:], w.shape[2:], s, p, d)
    groups = x.shape[1] // w.shape[1]
    xp = np.pad(x, [(0, 0), (0, 0)] + [(n, n) for n in p])
    xp = xp.reshape((x.shape[0], groups, w.shape[1]) + xp.shape[2:])
    wg = w.reshape((groups, w.shape[0] // groups) + w.shape[1:])
    y = np.zeros((x.shape[0], groups, wg.shape[1]) + tuple(out))
    for tap in itertools.product(*map(range, w.shape[2:])):
        window = tuple(
            slice(t * d[a], t * d[a] + s[a] * (out[a] - 1) + 1, s[a]) for a, t in enumerate(tap)
        )
        y += np.einsum("bgc...,gfc->bgf...", xp[(Ellipsis,) + window], wg[(Ellipsis,) + tap])
    y = y.reshape((x.shape[0], w.shape[0]) + tuple(out))
    if bias is not None:
        y = y + bias.reshape((-1,) + (1,) * len(out))
    return {"y": np.maximum(y, 0) if act == 1 else y}


def named(s, p, d):
    names = AXES[len(s)]
    return {k + n: v for k, vs in (("s", s), ("p", p), ("d", d)) for n, v in zip(names, vs)}


def element(t):
    return t.replace("float", "f")


def conv_case(kernel, x, w, bias, t, s, p, d, act=0, f=None, **more):
    xs, ws = as_data(x).value.shape, as_data(w).value.shape
    out = extents(xs[2:], ws[-len(s) :], s, p, d)
    shape = ",".join(map(str, [xs[0], ws[0]] + out))
    args = {"x": x, "w": w, "bias": bias, "y": f"zeros({shape}):{element(t)}", "act": act}
    f = f or (lambda x, w, bias, **_: convolve(x, w, bias, s, p, d, act))
    case(
        FILE,
        kernel,
        args | named(s, p, d),
        f,
        out_types={"y": "bf16"} if t == "bf16" else {},
        length=int(np.prod(ws[1:])) + 1,
        scale={"y": 8.0},
        name=f"{kernel}-{xs}-{ws}-{s}{p}{d}-{t}",
        **more,
    )


# channels, filters, groups, extents, taps, strides, padding, dilation
CONFIGS = [
    (3, 5, 1, (13, 17, 6), (3, 3, 2), (1, 1, 1), (1, 1, 0), (1, 1, 1)),
    (4, 6, 2, (12, 9, 7), (3, 2, 3), (2, 1, 2), (0, 2, 1), (1, 2, 1)),
    (70, 20, 1, (7, 6, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
    (6, 6, 6, (9, 10, 5), (3, 5, 3), (1, 3, 1), (2, 2, 2), (2, 1, 2)),
    (2, 130, 1, (5, 5, 5), (5, 3, 1), (3, 2, 1), (2, 4, 1), (1, 1, 3)),
]
for n, (c, f, groups, size, taps, s, p, d) in enumerate(CONFIGS):
    for rank in (1, 2, 3):
        t = TYPES[(n + rank) % 4]
        x = data((2, c) + size[:rank], 1, t)
        w = data((f, c // groups) + taps[:rank], 2, t)
        bias = data((f,), 3, t) if (n + rank) % 2 else None
        tune = [{}, {"BF": 16, "BM": 64, "BK": 8}] if rank == 2 else [{}]
        sizes = (s[:rank], p[:rank], d[:rank])
        conv_case(f"conv{rank}d", x, w, bias, t, *sizes, act=n % 2, tune=tune)
for t in TYPES:  # channels last in memory, a reversed axis, a filter in another order
    x = sliced(permuted(data((2, 11, 14, 6), 1, t), 0, 3, 1, 2), "[:,:,::-1,::2]")
    w = permuted(data((3, 2, 6, 9), 2, t), 3, 2, 0, 1)
    conv_case("conv2d", x, w, None, t, (1, 1), (1, 1), (1, 1))
conv_case(
    "conv2d",
    data((0, 3, 5, 5), 1, "float32"),
    data((4, 3, 3, 3), 2, "float32"),
    None,
    "float32",
    (1, 1),
    (1, 1),
    (1, 1),
)
case(
    FILE,
    "conv1d",
    {"x": data((1, 3, 9), 1, "float32"), "w": data((4, 2, 3), 2, "float32"), "bias": None, "act": 0}
    | {"y": "zeros(1,4,7):f32"}
    | named((1,), (0,), (1,)),
    fails="C % CG",
)


def depthwise(s, p, d, act):
    return lambda x, w, bias, **_: convolve(x, w[:, None], bias, s, p, d, act)


for n, (size, taps, s, p, d) in enumerate(
    [
        ((11, 150), (3, 2), (1, 1), (0, 0), (1, 1)),
        ((14, 15), (3, 3), (2, 2), (1, 1), (1, 1)),
        ((9, 40), (3, 5), (1, 3), (2, 4), (2, 2)),
        ((1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    ]
):
    t = TYPES[n]
    bias = data((3,), 3, t) if n % 2 else None
    conv_case(
        "depthwise_conv2d",
        data((2, 3) + size, 1, t),
        data((3,) + taps, 2, t),
        bias,
        t,
        s,
        p,
        d,
        act=n % 2,
        f=depthwise(s, p, d, n % 2),
        tune=[{"BI": 4, "BJ": 64}, {"BI": 8, "BJ": 16}],
    )


def transposed(x, w, bias, out, s, p, d, act):
    """x [B, C, ...], w [C, F / groups, ...]: each element of x adds its taps."""
    groups = (bias.size if bias is not None else out[0]) // w.shape[1]
    wg = w.reshape((groups, -1) + w.shape[1:])
    xg = x.reshape((x.shape[0], groups, -1) + x.shape[2:])
    spans = [
        max((x.shape[2 + a] - 1) * s[a] + d[a] * (w.shape[2 + a] - 1) + 1, p[a] + n)
        for a, n in enumerate(out[1:])
    ]
    full = np.zeros((x.shape[0], groups, w.shape[1]) + tuple(spans))
    for tap in itertools.product(*map(range, w.shape[2:])):
        window = tuple(
            slice(k * d[a], k * d[a] + s[a] * (x.shape[2 + a] - 1) + 1, s[a]) for a, k in enumerate(tap)
        )
        add = np.einsum("bgc...,gcf->bgf...", xg, wg[(Ellipsis,) + tap])
        full[(Ellipsis,) + window] += add
    full = full.reshape((x.shape[0], -1) + tuple(spans))
    y = full[(slice(None), slice(None)) + tuple(slice(a, a + n) for a, n in zip(p, out[1:]))]
    if bias is not None:
        y = y + bias.reshape((-1,) + (1,) * (y.ndim - 2))
    return {"y": np.maximum(y, 0) if act == 1 else y}


# channels, filters, groups, extents, taps, strides, padding, dilation, longer by
TRANSPOSED = [
    (20, 6, 1, (11, 5, 4), (3, 3, 2), (2, 2, 2), (1, 1, 0), (1, 1, 1), (0, 1, 1)),
    (8, 12, 4, (7, 6, 5), (4, 3, 3), (3, 2, 1), (0, 1, 1), (2, 1, 2), (1, 0, 0)),
    (3, 5, 1, (5, 1, 7), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), (0, 0, 0)),
    (20, 6, 2, (70, 40, 3), (5, 3, 2), (4, 1, 3), (2, 1, 1), (1, 2, 1), (2, 0, 2)),
    (1, 70, 1, (1, 9, 3), (1, 5, 3), (5, 3, 1), (0, 2, 0), (1, 1, 1), (0, 2, 0)),
]
for n, (c, f, groups, size, taps, s, p, d, more) in enumerate(TRANSPOSED):
    for rank in (1, 2, 3):
        t = TYPES[(n + rank) % 4]
        sizes = tuple(v[:rank] for v in (s, p, d))
        out = [
            (size[a] - 1) * s[a] + d[a] * (taps[a] - 1) + 1 - 2 * p[a] + more[a] for a in range(rank)
        ]
        bias = data((f,), 3, t) if (n + rank) % 2 else None
        act = n % 2
        shape = ",".join(map(str, [2, f] + out))
        case(
            FILE,
            f"conv_transpose{rank}d",
            {"x": data((2, c) + size[:rank], 1, t), "w": data((c, f // groups) + taps[:rank], 2, t)}
            | {"bias": bias, "act": act, "y": f"zeros({shape}):{element(t)}"}
            | named(*sizes),
            lambda x, w, bias, f=f, out=out, sizes=sizes, act=act, **_: transposed(
                x, w, bias, [f] + out, *sizes, act
            ),
            out_types={"y": "bf16"} if t == "bf16" else {},
            length=c * int(np.prod(taps[:rank])) + 1,
            scale={"y": 8.0},
            tune=[{}, {"BF": 16, "BM": 64, "BK": 16}] if n == 1 else [{}],
            name=f"conv_transpose{rank}d-{n}-{t}",
        )
x = sliced(permuted(data((2, 6, 7, 4), 1, "float32"), 0, 3, 1, 2), "[:,:,::-1,::2]")
case(
    FILE,
    "conv_transpose2d",
    {"x": x, "w": data((4, 3, 3, 3), 2, "float32"), "bias": None, "act": 0, "y": "zeros(2,3,11,7):f32"}
    | named((2, 2), (1, 1), (1, 1)),
    lambda x, w, bias, **_: transposed(x, w, bias, [3, 11, 7], (2, 2), (1, 1), (1, 1), 0),
    length=36,
    scale={"y": 8.0},
    name="conv_transpose2d-views",
)
case(
    FILE,
    "conv_transpose1d",
    {"x": data((1, 4, 9), 1, "float32"), "w": data((4, 3, 3), 2, "float32"), "bias": None, "act": 0}
    | {"y": "zeros(1,4,11):f32"}
    | named((1,), (0,), (1,)),
    fails="F % FG",
)
