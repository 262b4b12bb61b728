"""std/embedding.teg: rows by number, bags of rows, rotary positions."""

from harness import *

FILE = "../../stdlib/embedding.teg"
TYPES = ("float32", "float16", "bf16", "float64")


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def data(shape, seed, t):
    return typed(normal(shape, seed, np.float64), t)


def narrow(t, *names):
    return {n: "bf16" for n in names} if t == "bf16" else {}


def embedding(ids, w, **_):
    return {"y": np.where((ids >= 0)[..., None], w[np.maximum(ids, 0)], 0)}


def embedding_backward(ids, dy, dw, **_):
    out = dw.copy()
    np.add.at(out, ids[ids >= 0], dy[ids >= 0])
    return {"dw": out}


for n, (shape, v, d) in enumerate(
    [((90,), 20, 130), ((3, 7), 5, 1), ((), 4, 600), ((0,), 4, 8), ((40,), 9, 64)]
):
    t = TYPES[n % 4]
    ids = np.asarray(integers(shape, 1, -1, v, np.int32 if n % 2 else np.int64))
    w = permuted(data((d, v), 2, t), 1, 0) if n == 4 else sliced(data((v, d), 2, t), "[::-1]")
    case(
        FILE,
        "embedding",
        {"ids": ids, "w": w},
        embedding,
        ulps=0,
        out_types=narrow(t, "y"),
        tune=[{"BN": 4, "BD": 64}, {"BN": 16, "BD": 512}] if n == 0 else [{}],
        name=f"embedding-{shape}-{t}",
    )
    dw = normal((v, d), 3, np.float64 if t == "float64" else np.float32)
    case(
        FILE,
        "embedding_backward",
        {"ids": ids, "dy": data(shape + (d,), 4, t), "dw": dw},
        embedding_backward,
        length=ids.size,
        scale={"dw": 8.0},
        name=f"embedding_backward-{shape}-{t}",
    )
case(
    FILE,
    "embedding",
    {"ids": integers((5,), 1, 0, 4), "w": integers((4, 9), 2, -9, 9, np.int8)},
    embedding,
)


def bag(ids, off, w, mean, **_):
    rows = embedding(ids, w)["y"]
    sums = [rows[a:b].sum(0) / (max(b - a, 1) if mean else 1) for a, b in zip(off, off[1:])]
    return {"y": np.stack(sums) if sums else np.zeros((0, w.shape[1]))}


for n, off in enumerate([[0, 3, 3, 90, 200], [5, 6], [0], [0, 0, 100]]):
    for mean in (False, True):
        t = TYPES[(n + mean) % 4]
        case(
            FILE,
            "embedding_bag",
            {
                "ids": integers((200,), 1, -1, 30),
                "off": np.array(off, np.int32 if n % 2 else np.int32),
            }
            | {"w": data((30, 130), 2, t), "mean": mean},
            bag,
            out_types=narrow(t, "y"),
            length=110,
            scale={"y": 16.0},
            tune=[{"BN": 8, "BD": 64}, {"BN": 32, "BD": 512}] if n == 0 else [{}],
            name=f"embedding_bag-{n}-{mean}-{t}",
        )

# ---- rotary positions


def table(s, e, base=10000.0, start=0):
    angle = (start + np.arange(s))[:, None] * base ** (-np.arange(e) / e)
    return np.cos(angle), np.sin(angle)


for n, (s, e, t) in enumerate(
    [(70, 32, "float32"), (5, 33, "float64"), (9, 1, "float16"), (3, 64, "bf16")]
):
    code = {"float32": "f32", "float64": "f64", "float16": "f16", "bf16": "bf16"}[t]
    case(
        FILE,
        "rope_table",
        {
            "base": 10000.0,
            "start": 5 * n,
            "cos_": f"zeros({s},{e}):{code}",
            "sin_": f"zeros({s},{e}):{code}",
        },
        lambda base, start, s=s, e=e, **_: dict(zip(("cos_", "sin_"), table(s, e, base, start))),
        out_types=narrow(t, "cos_", "sin_"),
        ulps=1024,  # the f64 rounding of base^x times the position
        scale={"cos_": 1.0, "sin_": 1.0},
        computes="float64",
        name=f"rope_table-{s}x{e}-{t}",
    )


def rope_half(x, cos_, sin_, **_):
    c, d = cos_[:, None], sin_[:, None]
    p, q = np.split(x, 2, -1)
    return {"y": np.concatenate([p * c - q * d, q * c + p * d], -1)}


def rope_pairs(x, cos_, sin_, **_):
    c, d = cos_[:, None], sin_[:, None]
    p, q = x[..., 0::2], x[..., 1::2]
    return {"y": np.stack([p * c - q * d, q * c + p * d], -1).reshape(x.shape)}


for n, (b, s, h, e) in enumerate(
    [(2, 17, 3, 32), (1, 5, 9, 33), (3, 2, 4, 1), (0, 3, 2, 8), (2, 3, 5, 64)]
):
    for t in (TYPES[n % 4], TYPES[(n + 1) % 4]):
        c, d = (typed(v, "float64" if t == "float64" else "float32") for v in table(s, e, 100.0))
        x = data((b, s, h, 2 * e), 1, t)
        if n == 4:
            x = permuted(data((b, h, s, 2 * e), 1, t), 0, 2, 1, 3)
        for kernel, f in (("rope_half", rope_half), ("rope_pairs", rope_pairs)):
            args = {"x": x, "cos_": c, "sin_": d}
            case(
                FILE,
                kernel,
                args,
                f,
                out_types=narrow(t, "y"),
                scale={"y": 8.0},
                name=f"{kernel}-{b}-{s}-{h}-{e}-{t}",
            )
