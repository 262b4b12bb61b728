"""Products in tiles of many shapes, on few and many warps."""

from harness import *


def small(shape, seed, type=np.float16):
    """Integers, of which all sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(type)


def product(a, b, **_):
    return {"c": a.astype(np.float64) @ b.astype(np.float64)}


for bm, bn, warps in [
    (8, 192, 8),
    (16, 192, 8),
    (192, 64, 8),
    (192, 128, 8),
    (64, 96, 8),
    (64, 112, 4),
    (64, 192, 8),
    (64, 384, 8),
    (128, 64, 8),
    (128, 160, 4),
    (128, 192, 8),
    (128, 256, 8),
]:
    case(
        "products.teg",
        "nn",
        {"a": small((144, 200), 1), "b": small((200, 408), 2)},
        product,
        tune=[{"BM": bm, "BN": bn, "BK": 64, "warps": warps}],
        name=f"products-nn-{bm}x{bn}",
    )
for bn, warps in [(64, 4), (96, 4), (192, 8)]:
    case(
        "products.teg",
        "tt",
        {"a": small((200, 144), 1), "b": small((208, 200), 2)},
        lambda a, b, **_: product(a.T, b.T),
        tune=[{"BM": 64, "BN": bn, "BK": 64, "warps": warps}],
        name=f"products-tt-{bn}",
    )
# Tiles smaller than an atom of shared memory, and tiles whose number of 16-byte pieces is not that of the
# threads, or is smaller.
TILES = [(4, 8, 4, 1), (8, 8, 8, 1), (8, 8, 16, 4), (8, 48, 16, 4), (24, 8, 16, 4), (24, 8, 48, 8),
         (40, 8, 16, 8), (40, 48, 48, 8)]
for bm, bn, bk, warps in TILES:
    tune = [{"BM": bm, "BN": bn, "BK": bk, "warps": warps}]
    a, b = small((56, 136), 1), small((136, 72), 2)
    case("products.teg", "nn", {"a": a, "b": b}, product, tune=tune, name=f"products-nn-{bm}x{bn}x{bk}")
    case(
        "products.teg",
        "tt",
        {"a": np.ascontiguousarray(a.T), "b": np.ascontiguousarray(b.T)},
        lambda a, b, **_: product(a.T, b.T),
        tune=tune,
        name=f"products-tt-{bm}x{bn}x{bk}",
    )
for persistent in [1, -1]:
    case(
        "products.teg",
        "nn",
        {"a": small((1300, 72), 1), "b": small((72, 1100), 2)},
        product,
        tune=[{"BM": 64, "BN": 64, "BK": 64, "persistent": persistent}],
        name=f"products-many-tiles-{persistent}",
    )
for stages in [1, 2, 3]:
    case(
        "products.teg",
        "nn",
        {"a": small((64, 520), 1), "b": small((520, 64), 2)},
        product,
        tune=[{"BM": 64, "BN": 64, "BK": 64, "stages": stages}],
        name=f"products-stages-{stages}",
    )
# Results that are copied out: tiles past both ends, of several panels and odd widths.
for bm, bn, persistent in [
    (64, 64, -1),
    (128, 256, 1),
    (256, 128, 1),
    (64, 112, -1),
    (128, 160, 1),
    (64, 192, -1),
    (128, 192, 1),
]:
    for t in [np.float16, np.float32]:
        case(
            "../../stdlib/matmul.teg",
            "matmul",
            {"a": small((312, 72), 1, t), "b": small((72, 328), 2, t)},
            product,
            tune=[{"BM": bm, "BN": bn, "BK": 64, "persistent": persistent}],
            name=f"products-out-{bm}x{bn}-{t.__name__}",
        )
for t in [np.int8, np.uint8]:
    case(
        "products.teg",
        "integers",
        {"a": small((72, 144), 1).astype(t) % 5, "b": small((104, 144), 2).astype(t) % 5},
        lambda a, b, **_: {"c": (a.astype(np.int64) + 1) @ b.T.astype(np.int64)},
        tune=[{"BM": 64, "BN": 64}, {"BM": 64, "BN": 96}],
        name=f"products-integers-{t.__name__}",
    )
for n in [0, 100, 200]:
    case(
        "products.teg",
        "two",
        {"a": small((72, 200), 1), "b": small((80, 200), 2), "len": n},
        lambda a, b, len, **_: {
            "c": a[:, :len].astype(np.float64) @ b[:, :len].T.astype(np.float64),
            "d": 2 * (a[:, :len].astype(np.float64) @ b[:, :len].T.astype(np.float64)),
        },
        name=f"products-two-{n}",
    )
# A block as stored and transposed; wgmma takes some elements in one order only.
BOTH_WAYS = {
    "right": (lambda k, q, w, **_: {"o": q @ k.T, "p": w @ k}, "64,208", [{"BN": 64}, {"BN": 32}]),
    "left": (lambda k, q, w, **_: {"o": k @ q.T, "p": k.T @ w.T}, "208,64", [{"BM": 64}, {"BM": 128}]),
}
for side, (expect, shape, tune) in BOTH_WAYS.items():
    for t, sums in [(f8e4m3, "f32"), (f8e5m2, "f32"), (np.int8, "i32"), (np.float16, "f32")]:
        case(
            "products.teg",
            f"{side}_both_ways",
            {
                "k": t(small((208, 64), 1)),
                "q": t(small((64, 64), 2)),
                "w": t(small((64, 208), 3)),
                "o": f"zeros({shape}):{sums}",
                "p": f"zeros(64,64):{sums}",
            },
            expect,
            tune=tune,
            name=f"products-{side}-both-ways-{t.__name__}",
        )
# Sums of two products that continue each other, and products that consist of several.
for t, sums in [(np.float16, "f32"), (f8e4m3, "f32"), (np.int8, "i32")]:
    case(
        "products.teg",
        "added",
        {n: t(small((3, 144, 64), i)) for i, n in enumerate("abcd")} | {"o": f"zeros(3,144,144):{sums}"},
        lambda a, b, c, d, **_: {"o": a @ b.transpose(0, 2, 1) + c @ d.transpose(0, 2, 1)},
        tune=[{"BM": 64, "BN": 64}, {"BM": 128, "BN": 32}],
        name=f"products-added-{t.__name__}",
    )
# Parts of sums that are added to the old values, by TMA where it exists.
for t, sums in [(np.float16, np.float32), (np.int8, np.int32)]:
    for m, n, k in [(144, 200, 400), (61, 120, 64)]:
        case(
            "products.teg",
            "parts",
            {"a": t(small((m, k), 1)), "b": t(small((n, k), 2)), "c": sums(small((m, n), 3))},
            lambda a, b, c: {"c": c + a @ b.T.astype(c.dtype)},
            tune=[{"BM": 64, "BN": 64, "PARTS": 3}, {"BM": 128, "BN": 128, "PARTS": 3}, {"persistent": 1}],
            name=f"products-parts-{t.__name__}-{m}",
        )
case(
    "products.teg",
    "chunks",
    {n: small((200, 64), i) for i, n in enumerate("qkvw")},
    lambda q, k, v, w, **_: {"o": np.tril(q @ k.T) @ v, "r": w.T @ w},
    tune=[{"C": 32}, {"C": 64}, {"C": 128}],
)
case(
    "products.teg",
    "chunks_again",
    {n: small((300, 64), i) for i, n in enumerate("qkv")},
    lambda q, k, v, **_: {"o": 3 * np.tril(q @ k.T) @ v},
    tune=[{"C": 32}, {"C": 64}],
)
# The buffer of the first copy out is free for the second one when it has been read, not when the copy was
# started.
case(
    "products.teg",
    "stored_before",
    {"a": small((16, 16), 1), "b": small((16, 32), 2), "x": permuted(bf16(small((35, 64), 3)), 1, 0),
     "from": np.array([1], np.int32), "o": "zeros(2,16,32):f32", "p": "zeros(2,64,16):f32"},  # fmt: skip
    lambda a, b, x, **k: {"o": np.stack([1 + a @ b] * 2), "p": np.stack([1 + x[:, 1:] @ np.ones((34, 16))] * 2)},
)
