"""Attention: full, causal, grouped heads; paged decoding."""

from harness import *


def attention(q, k, v, scale, causal, **_):
    b, h, s, d = q.shape
    g, l = k.shape[1], k.shape[2]
    k, v = (np.repeat(t, h // g, 1) for t in (k, v))
    z = q @ k.transpose(0, 1, 3, 2) * scale
    if causal:
        z = np.where(np.arange(s)[:, None] >= np.arange(l)[None, :], z, -np.inf)
    p = np.exp(z - z.max(-1, keepdims=True))
    return {"o": p / p.sum(-1, keepdims=True) @ v}


for causal in (False, True):
    for b, h, g, s, l, d, dtype in [
        (1, 2, 1, 70, 70, 64, np.float32),
        (2, 2, 2, 33, 130, 64, np.float32),
        (1, 1, 1, 5, 3, 16, np.float32),
        (1, 4, 2, 65, 65, 64, np.float16),
    ]:
        args = {
            "q": normal((b, h, s, d), 1, dtype),
            "k": normal((b, g, l, d), 2, dtype),
            "v": normal((b, g, l, d), 3, dtype),
            "scale": 0.125,
            "causal": causal,
        }
        rounding = 64 if dtype == np.float32 else 2**13  # probabilities are rounded to dtype
        case(
            "samples.teg",
            "attention",
            args,
            attention,
            length=l + d,
            ulps=rounding,
            scale={"o": 4.0},
            tune=[{"BM": 64, "BN": 64}],
            name=f"attention-{s}x{l}-causal-{causal}-{dtype.__name__}",
        )


def paged(q, kc, vc, table, len, scale, **_):
    b, h, d = q.shape
    ps, g = kc.shape[1], kc.shape[2]
    o = np.zeros_like(q)
    for i in range(b):
        at = np.arange(len[i])
        page = table[i, at // ps]
        for j in range(h):
            kk, vv = kc[page, at % ps, j * g // h], vc[page, at % ps, j * g // h]
            z = kk @ q[i, j] * scale * np.log(2)
            p = np.exp(z - z.max())
            o[i, j] = p / p.sum() @ vv
    return {"o": o}


for kernel, h, g in [("paged_decode", 4, 2), ("paged_decode2", 2, 2)]:
    args = {
        "q": normal((3, h, 64), 1),
        "kc": normal((12, 16, g, 64), 2),
        "vc": normal((12, 16, g, 64), 3),
        "table": integers((3, 6), 4, 0, 12),
        "len": np.array([1, 90, 37], np.int32),
        "scale": 0.18,
    }
    case(
        "paged_decode.teg",
        kernel,
        args,
        paged,
        length=160,
        ulps=64,
        scale={"o": 4.0},
        tune=[{"BN": 32}, {"BN": 64}],
    )
