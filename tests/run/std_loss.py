"""std/loss.teg: cross entropy and its gradient, squared and absolute errors, binary cross entropy."""

from harness import *

FILE = "../../stdlib/loss.teg"
TYPES = ("float32", "float16", "bf16", "float64")


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def sums(t):
    """The type of the loss."""
    return np.float64 if t == "float64" else np.float32


def log_sums(x):
    top = x.max(1)
    return np.log(np.exp(x - top[:, None]).sum(1)) + top


def cross_entropy(x, label, ignore, lse=None, **_):
    keep = label != ignore
    l = log_sums(x) if x.size else np.zeros(0)
    term = l - x[np.arange(len(x)), np.where(keep, label, 0)] if x.size else np.zeros(0)
    loss = np.where(keep, term, 0).sum() / np.float64(keep.sum())
    return {"loss": loss, "count": keep.sum()} | ({} if lse is None else {"lse": l})


def cross_entropy_backward(x, label, count, lse, dloss, ignore, **_):
    hit = label[:, None] == np.arange(x.shape[1])[None, :]
    f = np.where(label != ignore, dloss / count, 0)
    return {"dx": (np.exp(x - lse[:, None]) - hit) * f[:, None]}


for kernel in ("cross_entropy", "cross_entropy_long"):  # nothing counts
    zero = np.zeros((), np.float32)
    args = {"x": normal((9, 7), 1), "label": np.full(9, 3), "ignore": 3, "lse": None}
    case(FILE, kernel, args | {"loss": zero, "count": zero}, cross_entropy, name=kernel + "-0")
for n, (r, c) in enumerate([(37, 500), (1, 3), (130, 64), (9, 3000), (4, 1), (0, 5)]):
    for t in (TYPES[n % 4], TYPES[(n + 2) % 4]):
        label = integers((r,), 8, 0, c, np.int64 if n % 2 else np.int32)
        label[::3] = -100 if n != 1 else 2
        x = typed(normal((r, c), 7, np.float64) * 4, t)
        zero = np.zeros((), sums(t))
        args = {"x": sliced(x, "[:,::-1]") if n == 2 else x, "label": label, "ignore": -100}
        outs = {"loss": zero, "count": zero, "lse": np.zeros(r, sums(t)) if n % 2 == 0 else None}
        if r == 0:
            outs["lse"] = None
        case(
            FILE,
            "cross_entropy",
            args | outs,
            cross_entropy,
            length=r + c,
            ulps=64,
            scale={"loss": 20.0, "lse": 20.0},
            tune=[{"BR": 1}, {"BR": 4}] if r > 1 else [{}],
            name=f"cross_entropy-{r}x{c}-{t}",
        )
        case(
            FILE,
            "cross_entropy_long",
            args | outs,
            cross_entropy,
            length=r + c,
            ulps=64,
            scale={"loss": 20.0, "lse": 20.0},
            tune=[{"BN": 1024}, {"BN": 4096}] if n == 3 else [{}],
            name=f"cross_entropy_long-{r}x{c}-{t}",
        )
        if r:
            v = as_data(args["x"]).value.astype(np.float64)
            more = {
                "count": np.asarray((label != -100).sum(), sums(t)),
                "lse": log_sums(v).astype(sums(t)),
            }
            case(
                FILE,
                "cross_entropy_backward",
                args | more | {"dloss": np.asarray(0.5, sums(t))},
                cross_entropy_backward,
                out_types={"dx": "bf16"} if t == "bf16" else {},
                ulps=64,
                tune=[{"BR": 1, "BN": 64}, {"BR": 8, "BN": 512}] if r > 1 else [{}],
                name=f"cross_entropy_backward-{r}x{c}-{t}",
            )
case(
    FILE,
    "cross_entropy",
    {"x": normal((3, 4), 1), "label": np.array([0, 4, 1], np.int32), "ignore": -100, "lse": None},
    fails="outside",
    flags=("--check",),
)


def smooth_l1(x, t, beta, **_):
    d = abs(x - t)
    return {"loss": np.mean(np.where(d < beta, d * d / (2 * beta), d - beta / 2))}


def huber(x, t, delta, **_):
    d = abs(x - t)
    return {"loss": np.mean(np.where(d < delta, d * d / 2, delta * (d - delta / 2)))}


def kl_div(x, t, logs, **_):
    with np.errstate(divide="ignore", invalid="ignore"):
        e = t * (np.log(t) - (x if logs else np.log(x)))
    return {"loss": np.where(t == 0, 0, e).sum() / np.float64(len(x))}


def triplet(a, p, n, margin, eps, **_):
    near, far = (np.sqrt(((a - b + eps) ** 2).sum(1)) for b in (p, n))
    return {"loss": np.mean(np.maximum(near - far + margin, 0))}


def hinge(x, t, **_):
    return {"loss": np.mean(np.maximum(1 - x * t, 0))}


def rows_case(kernel, args, f, t, terms, scale, tune):
    """A loss of rows."""
    case(
        FILE,
        kernel,
        args | {"loss": np.zeros((), sums(t))},
        f,
        length=terms,
        scale={"loss": scale},
        tune=tune,
        name=f"{kernel}-{len(CASES)}-{t}",
    )


for n, (r, c) in enumerate([(37, 500), (1, 3), (5, 3000), (0, 5), (9, 1), (4, 1030)]):
    t = TYPES[n % 4]
    tune = [{"BN": 1024}, {"BN": 4096}] if n in (2, 5) else [{}]
    x, y, z = (normal((r, c), s, np.float64) for s in (1, 2, 3))
    p, q = (np.exp(v) / np.exp(v).sum(1, keepdims=True) for v in (x, y))
    q[:, : c // 3] = 0
    x, y, z, p, q, l = (typed(v, t) for v in (x, y, z, p, q, np.log(p)))
    rows_case("kl_div", {"x": p, "t": q, "logs": False}, kl_div, t, r + c, 8.0, tune)
    rows_case("kl_div", {"x": sliced(l, "[::-1]"), "t": q, "logs": True}, kl_div, t, r + c, 8.0, tune)
    far = {"margin": 1.5, "eps": 2.0**-10}
    rows_case("triplet", {"a": x, "p": y, "n": sliced(z, "[:,::-1]")} | far, triplet, t, r + c, 2.0 * c**0.5 + 2, tune)
    signs = np.sign(normal((r, c), 4, np.float64))
    rows_case("hinge", {"x": x, "t": typed(signs, t)}, hinge, t, r * c, 4.0, tune)
    if r:
        rows_case("hinge", {"x": x, "t": expanded(typed(signs[0], t), r)}, hinge, t, r * c, 4.0, tune)
rows_case("hinge", {"x": normal((3, 4, 50), 1), "t": np.ones((3, 4, 50), np.float32)}, hinge, "float32", 600, 4.0, [{}])


def bce(p, t, **_):
    with np.errstate(divide="ignore"):
        return {
            "loss": -np.mean(
                t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log1p(-p), -100)
            )
        }


def bce_with_logits(x, t, **_):
    return {"loss": np.mean(np.logaddexp(x, 0) - x * t)}


for n, shape in enumerate([(3000,), (7, 11, 5), (1,), (), (20000,), (40, 130), (0,)]):
    t = TYPES[n % 4]
    x, y = (normal(shape, s, np.float64) for s in (9, 10))
    p, q = (np.asarray(uniform(shape, s, 0, 1, np.float64)) for s in (1, 2))
    if x.size > 1:
        p.flat[0], q.flat[0] = 1, 1  # log(1 - p) is -inf, and counts nothing
    view = (lambda a: sliced(permuted(a, 1, 0), "[::-1]")) if n == 5 else (lambda a: a)
    args = {"t": view(typed(q, t)), "loss": np.zeros((), sums(t))}
    for kernel, f, a in (
        ("mse", lambda x, t, **_: {"loss": np.mean((x - t) ** 2)}, {"x": view(typed(x, t))}),
        ("smooth_l1", smooth_l1, {"x": view(typed(x, t)), "beta": 0.75}),
        ("huber", huber, {"x": view(typed(x, t)), "delta": 0.75}),
        ("bce", bce, {"p": view(typed(p, t))}),
        ("bce_with_logits", bce_with_logits, {"x": view(typed(x * 30, t))}),
    ):
        size = 120.0 if "logits" in kernel else 4.0
        case(
            FILE,
            kernel,
            args | a,
            f,
            length=x.size,
            scale={"loss": size},
            tune=[{"B": 1024}, {"B": 4096}] if n == 0 else [{}],
            name=f"{kernel}-{shape}-{t}",
        )
