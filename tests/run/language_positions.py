"""Subscripts, ranges and live elements: sections 7 to 9 of the specification."""
from harness import *


def at(x, i, pad=0):
    """x[i], or pad if i is outside."""
    i = np.asarray(i)
    ok = (i >= 0) & (i < len(x))
    return np.where(ok, x[np.where(ok, i, 0)], pad)


def numbers(*shape, first=1):
    return np.arange(first, first + int(np.prod(shape)), dtype=np.int32).reshape(shape)


for w, m in [(3, 5), (2, 16), (4, 1), (5, 17)]:
    case("language.teg", "shards", {"x": numbers(w * m), "M": m, "sums": f"zeros({w}):i32"},
         lambda x, w=w, **_: {"y": x + 1, "sums": x.reshape(w, -1).sum(1)}, tune=[{"B": 1}, {"B": 4}, {"B": 16}])
for n in (1, 5, 8, 33):
    i = np.arange(n)
    case("language.teg", "shifted", {"x": numbers(n)},
         lambda x, i=i, n=n: {"left": at(x, i - 2, -9), "right": at(x, i + 1, 7), "twice": at(x, i * 2),
                              "thrice": at(x, 3 * (i - 1) + 1, 5), "far": 0 * x, "back": x + 1},
         tune=[{"B": 1}, {"B": 4}, {"B": 7}, {"B": 32}], types={})
for lo, hi in [(0, 9), (3, 7), (2, 2), (5, 3), (-4, 2), (8, 30)]:
    i = np.arange(lo, hi)
    case("language.teg", "window", {"x": numbers(12), "lo": lo, "hi": hi},
         lambda x, i=i, **_: {"total": [at(x, k).sum() for k in (i, i + 1, 2 * i - 3, 2 * i - 3)]},
         tune=[{"B": 1}, {"B": 3}, {"B": 8}])


def scattered(x, y, at, st=3):
    y = y.copy()
    for i, v in enumerate(x):
        if 0 <= i * st + at < len(y):
            y[i * st + at] = v
    return {"y": y}


for st in (2, 1, -1, -3):
    for first in (-2, 0, 9):
        case("language.teg", "scattered", {"x": numbers(9), "y": numbers(20, first=100), "st": st, "at": first},
             lambda x, y, st, at, **_: scattered(x, y, at, st), tune=[{"B": 1}, {"B": 4}, {"B": 16}])
for first in (-4, 0, 5):
    case("language.teg", "strided", {"x": numbers(9), "y": numbers(20, first=100), "at": first},
         lambda x, y, at, **_: scattered(x, y, at), tune=[{"B": 1}, {"B": 4}, {"B": 16}])


def picks(a, i, j, **_):
    def get(p, q, r):
        p, q, r = np.broadcast_arrays(p, q, r)
        ok = (p >= 0) & (p < a.shape[0]) & (q >= 0) & (q < a.shape[1]) & (r >= 0) & (r < a.shape[2])
        return np.where(ok, a[np.where(ok, p, 0), np.where(ok, q, 0), np.where(ok, r, 0)], 0)
    y, z = np.arange(a.shape[1]), np.arange(a.shape[2])
    s = get(i[:, None], y[None], j[:, None])
    return {"p": get(i[:, None], j[:, None], z[None]), "q": s.T, "s": s,
            "t": get(i[:, None, None], y[None, None], j[None, :, None]), "u": s[None, :, None, :], "d": get(i, 1, j)}


for k in (1, 5, 9):
    case("language.teg", "picks", {"a": numbers(3, 4, 6), "i": integers((k,), 1, -1, 4), "j": integers((k,), 2, -1, 7)},
         picks, tune=[{"BK": 2}, {"BK": 5}, {"BK": 8}])
for n in (1, 6, 9):
    def tiles(a, n=n, **_):
        return {"t": a.T, "d": np.diag(a)}
    args = {"a": numbers(n, n), "e": np.zeros((n, n), np.int32)}
    for b in (1, 4, 8):
        near = np.arange(n)[:, None] // b == np.arange(n)[None] // b
        case("language.teg", "tiles", args, lambda a, near=near, **_: {
            "t": a.T, "d": np.diag(a), "e": np.where(near, a, 0), "c": np.where(near, a, 0).sum(1)}, tune=[{"B": b}])
    case("language.teg", "diagonal_write", {"x": numbers(n), "y": np.full((n, n), 7, np.int32)},
         lambda x, **_: {"y": np.where(np.eye(len(x), dtype=bool), np.diag(x), 7)}, tune=[{"B": 1}, {"B": 4}, {"B": 8}])
case("language.teg", "diagonal_write", {"x": numbers(5), "y": np.full((3, 9), 7, np.int32)},
     lambda x, **_: {"y": np.where(np.eye(3, 9, dtype=bool), np.diag(np.pad(x, (0, 4)))[:3], 7)}, tune=[{"B": 1}, {"B": 4}])
case("language.teg", "nones", {"x": numbers(5, 9)}, lambda x: {"y": x, "z": x}, tune=[{"BM": 1}, {"BM": 3}])


def chained(x, p, q, **_):
    i = np.arange(len(p))
    pq = at(p, q, 2)
    z = np.where((q >= 0) & (q < len(p)), at(x, pq, -5), -5)  # a dead read yields no position, whatever its pad
    chosen = np.where(p > 3, p - 3, i)
    return {"y": at(x, p, -5), "z": z,
            "lost": [at(x, k).sum() for k in (p, p + 1, 2 * p, chosen, p, p + 3)]}


for m in (1, 6, 16, 21):
    case("language.teg", "chained", {"x": numbers(9, first=1000), "p": integers((m,), 3, -2, 11), "lost": "zeros(6):i32",
                                     "q": integers((m,), 4, -1, m + 1, np.int64)}, chained,
         tune=[{"B": 1}, {"B": 4}, {"B": 16}])
for m, s in [(5, 8), (8, 8), (11, 24), (0, 8)]:
    for b in (1, 4, 8):
        def validity(p, m=m, s=s, b=b, **_):
            i, ok = np.arange(s), (np.arange(s) < m).astype(int)
            one, later = 1 + 0 * ok, np.where(i // b > 0, ok, 1)
            return {"y": [ok, ok, ok, ok, one, ok, ok, ok, ok + 2, later, later, 7 * ok]}
        case("language.teg", "validity", {"p": numbers(m), "y": f"zeros(12,{s}):i32"}, validity, tune=[{"B": b}])
for lo, hi in [(0, 10), (3, 12), (-5, 6), (4, 5)]:
    for b in (1, 4, 10):
        starts = np.arange(lo, hi, b)
        ends = np.minimum(starts + b, hi)
        rows = [[s, e, b, s + 5, e + 5, t, 3 * s - 1, 3 * (e - 1), sum(3 * k - 1 for k in range(s, e)), 11 * b]
                for t, (s, e) in enumerate(zip(starts, ends))]
        case("language.teg", "fields", {"y": f"zeros({len(rows)},10):i64", "lo": lo, "hi": hi}, {"y": rows}, tune=[{"B": b}])
for lo, hi in [(0, 20), (2, 7), (9, 2), (17, 40), (-3, 5), (4, 4)]:
    n = min(max(hi - lo, 0), 8)
    case("language.teg", "one_range", {"x": numbers(20), "lo": lo, "hi": hi},
         lambda x, lo=lo, n=n, **_: {"y": [at(x, np.arange(lo, lo + n)).sum(), n, n]})
for m, size in [(1, 16), (16, 16), (17, 24), (33, 48), (5, 16)]:
    for b in (1, 2):
        case("language.teg", "covers", {"x": numbers(m, 7)},
             lambda x, m=m, size=size, b=b: {"y": x, "rows": x.sum(0), "size": [size, 7 * b, 7, m]}, tune=[{"B": b}])
for d in (2, 5):
    case("language.teg", "whole", {"x": numbers(6, d)},
         lambda x: {"y": x[:, :, None] * np.arange(3), "z": x.sum(1)}, tune=[{"B": 1}, {"B": 4}])
for first in (-2, 0, 3, 5, 100):
    case("language.teg", "offset_cover", {"x": numbers(6), "y": "zeros(3):i32", "at": first},
         lambda x, at_=first, **_: {"y": at(x, np.arange(at_, at_ + 3), -1)})
case("language.teg", "collisions", {"at": integers((50,), 5, -3, 9), "y": "zeros(8):i32"},
     lambda at, **_: {"y": [10 * k if k in at else 0 for k in range(8)]}, tune=[{"B": 4}, {"B": 16}])
for n, first in [(5, 3), (5, -3), (8, 8), (17, -16)]:
    case("language.teg", "dead_writes", {"x": numbers(n), "y": numbers(n, first=50), "at": first},
         lambda x, y, at, **_: scattered(x, y, at, 1), tune=[{"B": 1}, {"B": 4}, {"B": 16}])
case("language.teg", "dead_scalars", {"x": numbers(6), "at": 2},
     lambda x, **_: {"y": at(x, np.arange(6) + 2) + 10 * at(x, np.arange(6) - 2, 3)})
