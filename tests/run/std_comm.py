"""std/comm.teg: collectives, products over ranks, experts, decoding over ranks; 1 to 4 ranks."""
from harness import *

FILE = "../../stdlib/comm.teg"
TARGETS = ["interp", "cpu", "sim:sm_80", "sim:sm_90a", "sim:gfx90a", "sim:gfx942", "sim:gfx1100"]
WORLDS = (1, 2, 3, 4)


def ranks(kernel, w, args, expect, only=TARGETS, **how):
    case(FILE, kernel, args, expect, ranks=w, targets=only, name=f"{kernel}-{w}-{len(CASES)}", **how)


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def narrow(t, *names):
    return {n: "bf16" for n in names} if t == "bf16" else {}


TYPES = ("float32", "float16", "bf16", "float64")
SMALL = ("float16", "bf16")

# ---- collectives

for w in WORLDS:
    t = TYPES[w - 1]
    small = [{"BN": 256}]
    for shape in (1300,), (3, 5, 41), (1,), (0,), ():
        a = typed(normal((w, *shape), 1, np.float64), t)
        ranks("all_gather", w, {"a": a}, lambda a: {"c": np.stack([a] * len(a))}, out_types=narrow(t, "c"),
              tune=small)
        ranks("all_reduce", w, {"a": a}, lambda a: {"c": np.stack([a.sum(0)] * len(a))},
              out_types=narrow(t, "c"), length=w, tune=small)
        ranks("all_reduce_two_shot", w, {"a": a}, lambda a: {"c": np.stack([a.sum(0)] * len(a))},
              out_types=narrow(t, "c"), length=w, tune=small)
        a = typed(normal((w, w, *shape), 2, np.float64), t)
        ranks("reduce_scatter", w, {"a": a}, lambda a: {"c": a.sum(0)}, out_types=narrow(t, "c"), length=w,
              tune=small)
        ranks("all_to_all", w, {"a": a}, lambda a: {"c": np.swapaxes(a, 0, 1)}, out_types=narrow(t, "c"),
              tune=small)
ranks("all_gather", 3, {"a": integers((3, 77), 1, -100, 100, np.int8)}, lambda a: {"c": np.stack([a] * 3)})
ranks("all_gather", 2, {"a": sliced(normal((2, 9, 40), 1), "[:, ::-1, ::2]")},
      lambda a: {"c": np.stack([a] * 2)})


def uneven(a, counts, c, **_):
    w = len(counts)
    out, off = np.zeros_like(c), np.zeros((w, w + 1), np.int64)
    for d in range(w):
        off[d, 1:] = np.cumsum(counts[:, d])
        for s in range(w):
            begin = counts[s, :d].sum()
            rows = a[s, begin : begin + counts[s, d]]
            out[d, off[d, s] : off[d, s + 1]] = rows
    return {"c": out, "off": off}


for w in WORLDS:
    counts = integers((w, w), w, 0, 40)
    counts[0, 0] = 0
    m, rows = counts.sum(1).max() + 1, counts.sum(0).max() + 2
    for t in "float32", SMALL[w % 2]:
        ranks("all_to_all_uneven", w,
              {"a": typed(normal((w, m, 130), 1), t), "counts": counts.astype(np.int32),
               "c": typed(np.zeros((w, rows, 130)), t)},
              uneven, out_types=narrow(t, "c"), tune=[{"BM": 8, "BK": 128}], flags=["--check"] if w == 3 else ())

# ---- products

TILES = [{"BM": 16, "BN": 16, "BK": 32}]
for w in WORLDS:
    for m, k, n in (33, 50, 20), (16, 32, 16), (1, 7, 3):
        t = TYPES[(w + m) % 4]
        a, b = normal((w, m, k), 1, np.float64), normal((w, k, n), 2, np.float64)
        ranks("ag_gemm", w, {"a": typed(a, t), "b": typed(b, t)},
              lambda a, b: {"c": a[None] @ b[:, None]}, out_types=narrow(t, "c"), length=k,
              scale={"c": 4.0}, tune=TILES)
        # Transfers are rounded to T, each rank's part separately.
        for t in "float32" if w % 2 else "float64", SMALL[(w + m) % 2]:
            rounds = {"length": w, "computes": t} if t in SMALL else {"length": k * w, "scale": {"c": 4.0}}
            a = normal((w, w * m, k), 3, np.float64)
            ranks("gemm_rs", w, {"a": typed(a, t), "b": typed(b, t), "c": typed(np.zeros((w, m, n)), t)},
                  lambda a, b, c: {"c": (a @ b).sum(0).reshape(len(a), -1, b.shape[2])},
                  out_types=narrow(t, "c"), tune=TILES, **rounds)
            a = normal((w, m, k), 4, np.float64)
            ranks("gemm_ar", w, {"a": typed(a, t), "b": typed(b, t)},
                  lambda a, b: {"c": np.stack([(a @ b).sum(0)] * len(a))}, out_types=narrow(t, "c"), tune=TILES,
                  **rounds)

# Each plan of transfers, with several numbers of chunks.
PLANS = [dict(TILES[0], plan=p, chunks=n) for p, n in ((1, 1), (2, 1), (3, 2), (3, 5), (4, 1), (4, 3), (5, 1), (7, 1), (7, 3))]
for w, m, k, n in (2, 70, 48, 40), (3, 33, 64, 24):
    a, b = normal((w, m, k), 1), normal((w, k, n), 2)
    ranks("ag_gemm", w, {"a": a, "b": b}, lambda a, b: {"c": a[None] @ b[:, None]}, length=k, scale={"c": 4.0},
          tune=PLANS)
    ranks("ag_gemm", w, {"a": a[:, :, :0], "b": b[:, :0]}, lambda a, b: {"c": a[None] @ b[:, None]}, tune=PLANS)
    for t in "float32", SMALL[w % 2]:
        rounds = {"length": w, "computes": t} if t in SMALL else {"length": k * w, "scale": {"c": 4.0}}
        ranks("gemm_rs", w, {"a": typed(normal((w, w * m, k), 3), t), "b": typed(b, t),
                             "c": typed(np.zeros((w, m, n)), t)},
              lambda a, b, c: {"c": (a @ b).sum(0).reshape(len(a), -1, b.shape[2])}, out_types=narrow(t, "c"),
              tune=PLANS, **rounds)

# 16-bit sums by atomics on words of two elements, of one row or of two.
for t in "float16", "bf16":
    whole = np.random.default_rng(5)
    a, b = whole.integers(-2, 3, (2, 66, 16)), whole.integers(-2, 3, (2, 16, 37))
    ranks("gemm_rs", 2, {"a": typed(a, t), "b": typed(b, t), "c": typed(np.zeros((2, 33, 37)), t)},
          lambda a, b, c: {"c": (a @ b).sum(0).reshape(len(a), -1, b.shape[2])}, length=1, out_types=narrow(t, "c"),
          tune=[dict(TILES[0], plan=5)])

# The same by TMA's additions, into ragged shards.
ADDS = [{"BM": bm, "BN": bn, "BK": 64, "plan": 5, "persistent": p} for bm, bn, p in ((64, 64, 0), (128, 128, 1), (64, 128, 1))]
for t in "float16", "bf16":
    for w, m, k, n in (2, 150, 40, 200), (3, 70, 64, 328):
        whole = np.random.default_rng(w)
        a, b = whole.integers(-2, 3, (w, w * m, k)), whole.integers(-2, 3, (w, k, n))
        ranks("gemm_rs", w, {"a": typed(a, t), "b": typed(b, t), "c": typed(np.zeros((w, m, n)), t)},
              lambda a, b, c: {"c": (a @ b).sum(0).reshape(len(a), -1, b.shape[2])}, length=1, out_types=narrow(t, "c"),
              tune=ADDS, only=["sim:sm_90a"])

# Persistent CTAs raise the signal of a tile after the products of the next one.
MANY = [{"BM": 64, "BN": 16, "BK": 32, "persistent": 1, "stages": n} for n in (0, 4)]
for w, m, k, n in (2, 150, 40, 1000), (3, 70, 64, 1096):
    a, b, c = typed(normal((w, w * m, k), 3), "float16"), typed(normal((w, k, n), 2), "float16"), np.zeros((w, m, n), "float16")
    ranks("gemm_rs", w, {"a": a, "b": b, "c": c},
          lambda a, b, c: {"c": (a @ b).sum(0).reshape(len(a), -1, b.shape[2])}, length=w, computes="float16",
          tune=MANY, only=["sim:sm_90a"])

# ---- experts


def sent(x, experts, recv, w, each):
    """The rows that each rank receives, and their origins."""
    m, c = experts.shape[1:]
    got, place, off = np.zeros_like(recv), np.full(experts.shape, -1), np.zeros((w, each + 1), np.int64)
    for e in range(w * each):
        d, l = divmod(e, each)
        at = off[d, l]
        for r in range(w):
            for i in range(m * c):
                if experts[r, i // c, i % c] == e:
                    got[d, at], place[r, i // c, i % c] = x[r, i // c], at
                    at += 1
        off[d, l + 1] = at
    return got, place, off


def dispatch(x, experts, recv, off, **_):
    w, each = len(x), off.shape[1] - 1
    got, place, off = sent(x, experts, recv, w, each)
    counts = np.stack([[(experts[r] == e).sum() for e in range(w * each)] for r in range(w)])
    return {"recv": got, "place": place, "off": off, "counts": counts}


def combined(y, experts, place, weights, each):
    rows = y[np.maximum(experts, 0) // each, place] * (place >= 0)[..., None]
    return {"c": (weights[..., None] * rows).sum(2)}


for w in WORLDS:
    for m, c, each, k in (37, 2, 3, 300), (5, 1, 1, 8), (150, 3, 2, 20):
        experts = integers((w, m, c), w, -1, w * each)
        x = normal((w, m, k), 2)
        recv, off = np.zeros((w, w * m * c, k), np.float32), np.zeros((w, each + 1), np.int32)
        _, place, _ = sent(x, experts, recv, w, each)
        y, weights = normal(recv.shape, 3), uniform((w, m, c), 4)
        for t in "float32", SMALL[(w + m) % 2]:
            ranks("moe_dispatch", w, {"x": typed(x, t), "experts": experts, "recv": typed(recv, t), "off": off},
                  dispatch, out_types=narrow(t, "recv"), tune=[{"B": 16, "BK": 256}])
            ranks("moe_combine", w, {"y": typed(y, t), "experts": experts, "place": place.astype(np.int32),
                                     "weights": weights, "each": each}, combined, out_types=narrow(t, "c"),
                  length=c, tune=[{"BK": 256}])

# ---- attention


def decode(q, k, v, len, scale, **_):
    w, b, g, _, d = k.shape
    h = q.shape[1]
    o = np.zeros((b, h, v.shape[4]))
    for i in range(b):
        for j in range(h):
            ks = np.concatenate([k[r, i, j // (h // g), : len[r, i]] for r in range(w)])
            vs = np.concatenate([v[r, i, j // (h // g), : len[r, i]] for r in range(w)])
            s = ks @ q[i, j] * scale
            p = np.exp(s - s.max()) if s.size else s
            o[i, j] = p @ vs / p.sum() if s.size else 0
    return {"o": np.stack([o] * w)}


for w in WORLDS:
    for (b, h, g, n, d, e), t in ((2, 4, 2, 150, 16, 16), "float32"), ((1, 3, 1, 70, 32, 8), "float16"):
        lens = integers((w, b), w, 0, n + 1)
        lens[-1, 0] = 0
        q = typed(normal((b, h, d), 1), t)
        args = {"q": q, "k": typed(normal((w, b, g, n, d), 2), t), "v": typed(normal((w, b, g, n, e), 3), t),
                "len": lens.astype(np.int32), "scale": 0.25}
        ranks("flash_decode", w, args, decode, length=n * w if t == "float32" else 2.0**13, scale={"o": 2.0},
              tune=[{"BN": 64}])
