"""Rows: softmax, losses, arg-reductions, scans, layer norm."""

from harness import *


def softmax(x, **_):
    if x.size == 0:
        return {"y": x}
    e = np.exp(x - x.max(-1, keepdims=True))
    return {"y": e / e.sum(-1, keepdims=True)}


SHAPES = [(37, 1000), (1, 1), (5, 17), (2, 3, 64), (0, 9), (700,)]
for shape in SHAPES:
    x = normal(shape, 1) * 5
    case(
        "softmax.teg",
        "softmax",
        {"x": x},
        softmax,
        length=shape[-1],
        ulps=64,
        name=f"softmax-{shape}",
        tune=[{"BR": 1}, {"BR": 4}],
    )
    case(
        "softmax.teg",
        "softmax_long",
        {"x": x},
        softmax,
        length=shape[-1],
        ulps=64,
        name=f"softmax_long-{shape}",
        tune=[{"BN": 1024}],
    )
    case(
        "softmax.teg",
        "softmax3",
        {"x": x},
        softmax,
        length=shape[-1],
        ulps=64,
        name=f"softmax3-{shape}",
    )
for kernel in ("softmax", "softmax_long", "softmax3"):
    case(
        "softmax.teg",
        kernel,
        {"x": bf16(normal((5, 130), 2))},
        softmax,
        out_types={"y": "bf16"},
        length=130,
        ulps=64,
        name=f"{kernel}-bf16",
    )
    case(
        "softmax.teg",
        kernel,
        {"x": sliced(normal((10, 260), 2), "[::-2, ::2]")},
        softmax,
        length=130,
        ulps=64,
        name=f"{kernel}-strided",
    )
    case(
        "softmax.teg",
        kernel,
        {"x": normal((5, 3000), 3, np.float64)},
        softmax,
        length=3000,
        ulps=64,
        name=f"{kernel}-f64",
        computes="float32",
    )


def layernorm_bwd(x, dy, g, mean, rstd, **_):
    h = (x - mean[:, None]) * rstd[:, None]
    u = dy * g
    dx = (u - u.mean(1, keepdims=True) - h * (u * h).mean(1, keepdims=True)) * rstd[:, None]
    return {"dx": dx, "dg": (dy * h).sum(0), "db": dy.sum(0)}


def norm_args(r, n):
    x = normal((r, n), 1)
    return {"x": x, "dy": normal((r, n), 2), "mean": x.mean(1), "rstd": 1 / x.std(1)}


for r, n in [(70, 100), (1, 8), (300, 33)]:
    args = norm_args(r, n) | {"g": normal((n,), 3)}
    case(
        "layernorm_bwd.teg",
        "layernorm_bwd",
        args,
        layernorm_bwd,
        length=r + n,
        ulps=32,
        scale={"dx": 8.0, "dg": 8.0, "db": 8.0},
        tune=[{"BR": 4}, {"BR": 16}],
    )
    case(
        "layernorm_bwd.teg",
        "layernorm_bwd2",
        norm_args(r, n),
        lambda x, dy, mean, rstd, **_: {"dg": (dy * (x - mean[:, None]) * rstd[:, None]).sum(0)},
        length=r,
        ulps=32,
        scale={"dg": 8.0},
        tune=[{"BR": 4, "BN": 128, "S": 64}],
    )

for r, n in [(7, 3000), (1, 1), (9, 1024)]:
    case(
        "scan_argmax.teg",
        "cumsum_rows",
        {"x": normal((r, n), 4)},
        lambda x, **_: {"y": np.cumsum(x, -1)},
        length=n,
        scale={"y": 4.0},
        tune=[{"BR": 1, "BN": 1024}, {"BR": 4, "BN": 1024}],
    )
    x = integers((r, n), 5, 0, 50).astype(np.float32)  # with ties: the first of equals wins
    case(
        "scan_argmax.teg",
        "argmax",
        {"x": x},
        lambda x, **_: {"y": np.argmax(x, -1)},
        tune=[{"BN": 1024}, {"BN": 4096}],
    )
for n in (1, 5000, 20000):
    case(
        "scan_argmax.teg",
        "cumsum_long",
        {"x": normal((n,), 6)},
        lambda x, **_: {"y": np.cumsum(x)},
        length=n,
        scale={"y": 4.0},
        tune=[{"B": 4096}],
    )


def cross_entropy(x, label, lse=None, **_):
    l = np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1)
    out = {"loss": np.mean(l - x[np.arange(len(x)), label])}
    return out | ({} if lse is None else {"lse": l})


for r, n in [(37, 500), (1, 3), (130, 64)]:
    for lse in (None, np.zeros(r, np.float32)):
        case(
            "loss.teg",
            "cross_entropy",
            {"x": normal((r, n), 7), "label": integers((r,), 8, 0, n, np.int64), "lse": lse},
            cross_entropy,
            length=r + n,
            ulps=64,
            tune=[{"BR": 1}, {"BR": 4}],
        )
for shape in [(3000,), (7, 11, 5), (1,)]:
    case(
        "loss.teg",
        "mse",
        {"x": normal(shape, 9), "y": normal(shape, 10)},
        lambda x, y, **_: {"loss": np.mean((x - y) ** 2)},
        length=int(np.prod(shape)),
        scale={"loss": 2.0},
    )


def batch_norm(x, g, h, eps, **_):
    axes = tuple(a for a in range(x.ndim) if a != 1)
    shape = [1, -1] + [1] * (x.ndim - 2)
    mean, var = x.mean(axes), x.var(axes)
    y = (x - mean.reshape(shape)) / np.sqrt(var + eps).reshape(shape) * g.reshape(
        shape
    ) + h.reshape(shape)
    return {"y": y, "mean": mean, "m2": var * x.size / x.shape[1]}


for shape in [(3, 5, 40, 30), (2, 3, 7), (4, 6)]:
    c = shape[1]
    case(
        "batchnorm.teg",
        "batch_norm_train",
        {"x": normal(shape, 1), "g": normal((c,), 2), "h": normal((c,), 3), "eps": 1e-5},
        batch_norm,
        length=x.size,
        ulps=64,
        tune=[{"BP": 1024}],
    )
