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


def transposed(x, w, y, sx, px, dx, **_):
    b, c, l = x.shape
    f, k = w.shape[1:]
    o = np.asarray(y).shape[2]
    full = np.zeros((b, f, max((l - 1) * sx + dx * (k - 1) + 1, px + o)))
    for i, j in itertools.product(range(l), range(k)):
        full[:, :, i * sx + j * dx] += np.einsum("bc,cf->bf", x[:, :, i], w[:, :, j])
    return {"y": full[:, :, px : px + o]}


for n, (l, k, s, p, d, more) in enumerate(
    [
        (11, 3, 2, 1, 1, 0),
        (7, 4, 3, 0, 2, 1),
        (5, 1, 1, 0, 1, 0),
        (70, 5, 4, 2, 1, 2),
        (1, 1, 5, 0, 1, 0),
        (72, 5, 4, 2, 1, 2),
    ]
):
    t = TYPES[n % 4]
    o = (l - 1) * s + d * (k - 1) + 1 - 2 * p + more
    out = np.zeros((2, 6, o))
    case(
        FILE,
        "conv_transpose1d",
        {"x": data((2, 20, l), 1, t), "w": data((20, 6, k), 2, t), "y": typed(out, t)}
        | {"sx": s, "px": p, "dx": d},
        transposed,
        out_types={"y": "bf16"} if t == "bf16" else {},
        length=20 * k,
        scale={"y": 8.0},
        name=f"conv_transpose1d-{l}-{k}-{t}",
    )
