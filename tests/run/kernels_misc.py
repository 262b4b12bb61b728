"""Recurrence, sampling, histograms, scatter."""

from harness import *


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(gx, w, h, c, **_):
    h, c = h.copy(), c.copy()
    for t in range(len(gx)):
        i, f, g, o = (gx[t, :, j] + h[t] @ w[j] for j in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h[t + 1] = sigmoid(o) * np.tanh(c)
    return {"h": h, "c": c}


for s, b, u in [(4, 5, 40), (1, 1, 1), (3, 33, 70)]:
    h = np.zeros((s + 1, b, u), np.float32)
    h[0] = normal((b, u), 3)
    case(
        "lstm.teg",
        "lstm",
        {
            "gx": normal((s, b, 4, u), 1),
            "w": normal((4, u, u), 2) * 0.2,
            "h": h,
            "c": normal((b, u), 4),
        },
        lstm,
        length=u * s,
        ulps=64,
        scale={"h": 2.0, "c": 4.0},
        tune=[{"BB": 16, "BU": 16, "BK": 64}],
    )


def topk(x, k, **_):
    """At temperature 1e-4 the best token of a row has all of the weight."""
    return {"out": np.argmax(x, 1)}


case(
    "topk_sample.teg",
    "topk_sample",
    {"x": normal((4, 3000), 1), "k": 5, "temperature": 1e-4, "seed": 7},
    topk,
    tune=[{"BV": 2048}],
)

for shape in [(5000,), (30, 7, 5), (1,)]:
    case(
        "misc.teg",
        "histogram256",
        {"x": integers(shape, 1, 0, 256, np.uint8), "h": "zeros(256):i32"},
        lambda x, **_: {"h": np.bincount(x.ravel(), minlength=256)},
        tune=[{"B": 4096}],
    )


case(
    "misc.teg",
    "dropout",
    {"x": normal((50, 31), 1), "p": 0.25, "seed": 12345678901},
    dropout,
    tune=[{"B": 1024}, {"B": 4096}],
)


def embedding_grad(ids, dy, dw, **_):
    out = dw.copy()
    np.add.at(out, ids, dy)
    return {"dw": out}


ids = integers((90,), 1, 0, 20)
ids[5] = -1  # nowhere
case(
    "misc.teg",
    "embedding_grad",
    {"ids": ids, "dy": normal((90, 130), 2), "dw": normal((20, 130), 3)},
    lambda ids, dy, dw, **_: embedding_grad(ids[ids >= 0], dy[ids >= 0], dw),
    length=90,
    scale={"dw": 4.0},
    tune=[{"BN": 16, "BD": 128}],
)


def ragged(x, off, **_):
    with np.errstate(all="ignore"):
        return {
            "y": np.stack(
                [x[a:b].mean(0) if b > a else np.zeros(x.shape[1]) for a, b in zip(off, off[1:])]
            )
        }


case(
    "misc.teg",
    "ragged_rows",
    {"x": normal((200, 130), 1), "off": np.array([0, 3, 3, 90, 200], np.int32)},
    ragged,
    length=110,
    scale={"y": 4.0},
)
