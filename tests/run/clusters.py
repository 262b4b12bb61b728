"""Rows over the CTAs of a cluster, with every kind of exchange between CTAs, compared with one CTA a row."""

from harness import *

FILE = "clusters.teg"
SHAPES = [{"cluster": 2, "warps": 2}, {"cluster": 4, "warps": 1}, {"cluster": 8, "warps": 4}]
ALONE = [{}]


def settle(x, most, **_):
    turns = np.zeros(len(x))
    v = x.astype(np.float64)
    for i in range(len(v)):
        for _ in range(most):
            if (v[i] > 0).sum() > v.shape[1] // 2:
                v[i] -= 2
            else:
                v[i] -= v[i].min()
                turns[i] += 1
    return {"y": v, "turns": turns}


def runs(x, **_):
    a, b = np.zeros((2, len(x)), np.int64)
    for i, row in enumerate(x.astype(np.int64)):
        p, q = 0, 1
        for v in row:  # whole numbers modulo 2^32
            p, q = (p * 3 + int(v)) % 2**32, q * 3 % 2**32
        a[i], b[i] = p, q
    return {"y": x.cumsum(1), "a": a.astype(np.int32), "b": b.astype(np.int32)}


def turned(x, **_):
    y = x - x.max(1, keepdims=True)
    return {"y": y, "z": y[:, ::-1]}


def flipped(x, **_):
    return {"y": x[:, ::-1] + x.sum(1, keepdims=True)}


def counted(x, **_):
    return {"y": x.sum(), "above": (x > 0).sum(0)}


def ordered(x, t, **_):
    return {"y": np.sort(t, axis=1) + x.sum(1, keepdims=True)}


for n in (1000, 2049):
    whole = integers((3, n), 1, -9, 10)
    exact = whole.astype(np.float32)
    room = np.zeros_like(exact)
    tune = ALONE + SHAPES
    case(FILE, "settle", {"x": exact, "most": 5}, settle, tune=tune, name=f"settle-{n}")
    case(FILE, "runs", {"x": whole}, runs, tune=tune, name=f"runs-{n}")
    case(FILE, "turned", {"x": exact}, turned, tune=tune, name=f"turned-{n}")
    case(FILE, "turned", {"x": exact, "y": "same(x)", "z": room}, turned, tune=tune)
    case(FILE, "flipped", {"x": exact}, flipped, tune=tune, name=f"flipped-{n}")
    sums = {"y": np.zeros((), np.float32), "above": np.zeros(n, np.int32)}
    case(FILE, "counted", {"x": exact} | sums, counted, tune=tune, name=f"counted-{n}")
    few = {"x": exact, "t": integers((3, 300), 2, -99, 99).astype(np.float32)}
    case(FILE, "ordered", few, ordered, tune=tune, name=f"ordered-{n}")
late = np.ones((2, 3000), np.float32)
late[1, [1100, 2500, 2990]] = 5, 7, 3
case(
    FILE,
    "bounded",
    {"x": late},
    tune=ALONE + SHAPES,
    fails="row 1 holds 7",
    flags=["--check"],
    name="bounded",
)


# ---- the library's rows --------------------------------------------------------------------------

EPS = 2.0**-16


def softmax(x, **_):
    e = np.exp(x - x.max(-1, keepdims=True))
    return {"y": e / e.sum(-1, keepdims=True)}


def layer_norm(x, g, h, eps, **_):
    u, s = x.mean(1, keepdims=True), 1 / np.sqrt(x.var(1, keepdims=True) + eps)
    return {"y": (x - u) * s * g + h, "mean": u[:, 0], "rstd": s[:, 0]}


def rms_norm(x, g, eps, rstd=None, **_):
    s = 1 / np.sqrt((x * x).mean(1, keepdims=True) + eps)
    return {"y": x * s * g} | ({} if rstd is None else {"rstd": s[:, 0]})


def norm_backward(x, dy, g, rstd, **_):
    z = x * rstd[:, None]
    u = dy * g
    c = (u * z).mean(1, keepdims=True)
    return {"dx": (u - z * c) * rstd[:, None], "dg": (dy * z).sum(0)}


def cross_entropy(x, label, **_):
    lse = np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1)
    loss = (lse - x[np.arange(len(x)), label]).mean()
    return {"loss": loss, "count": len(x), "lse": lse}


def rows(shape, seed, t):
    x = normal(shape, seed, np.float64)
    return bf16(x) if t == "bf16" else x.astype(t)


for k, (n, t) in enumerate([(1000, "bf16"), (3000, "float32"), (1536, "float16")]):
    out = {"y": "bf16"} if t == "bf16" else {}
    more = {"out_types": out, "length": n, "ulps": 32, "tune": [{"BR": 1} | s for s in SHAPES]}
    x, g, h = rows((3, n), k, t), rows((n,), 7, t), rows((n,), 8, t)
    case("../../stdlib/softmax.teg", "softmax", {"x": x}, softmax, name=f"softmax-{n}", **more)
    more["tune"] = more["tune"] + [{"BR": 4} | SHAPES[0]]
    norm = "../../stdlib/norm.teg"
    kept = {s: np.zeros(3, np.float32) for s in ("mean", "rstd")}
    more["scale"] = {"y": 8.0, "mean": 4.0, "rstd": 2.0}
    args = {"x": x, "g": g, "h": h, "eps": EPS} | kept
    case(norm, "layer_norm", args, layer_norm, name=f"layer_norm-{n}", **more)
    args = {"x": x, "g": g, "eps": EPS, "rstd": None}
    case(norm, "rms_norm", args, rms_norm, name=f"rms_norm-{n}", **more)
    sums = {s: np.zeros((), np.float32) for s in ("loss", "count")}
    args = {"x": x, "label": integers((3,), 8, 0, n), "ignore": -1} | sums
    more |= {"out_types": {}, "scale": {"loss": 20.0, "lse": 20.0}}
    loss = "../../stdlib/loss.teg"
    args["lse"] = np.zeros(3, np.float32)
    case(loss, "cross_entropy", args, cross_entropy, name=f"cross_entropy-{n}", **more)
for r in (70, 100):  # the largest clusters
    x, g = rows((r, 1100), 4, "float32"), rows((1100,), 7, "float32")
    more = {"length": 1100, "ulps": 32, "tune": [{"BR": 1, "cluster": 16, "warps": 2}]}
    case("../../stdlib/softmax.teg", "softmax", {"x": x}, softmax, name=f"softmax-{r}x1100", **more)
    args = {"x": x, "g": g, "eps": EPS, "rstd": np.zeros(r, np.float32)}
    more["scale"] = {"y": 8.0, "rstd": 2.0}
    case(norm, "rms_norm", args, rms_norm, name=f"rms_norm-{r}x1100", **more)
# The longer rows do not fit shared memory at once.
for r, n, tune in (5, 700, SHAPES), (4, 16384, [{"cluster": 4}]):
    x, dy, g = normal((r, n), 1), normal((r, n), 2), normal((n,), 3)
    case(
        "../../stdlib/norm.teg",
        "rms_norm_backward",
        {"x": x, "dy": dy, "g": g, "rstd": np.ones(r, np.float32), "dg": np.zeros(n, np.float32)},
        norm_backward,
        tune=[{"BR": 4} | s for s in tune],
        length=n,
        ulps=32,
        scale={"dx": 20.0, "dg": 20.0},
        name=f"rms_norm_backward-{n}",
    )
