"""Phases, programs and control: sections 5 to 7 and 12 of the specification."""
from harness import *
from math import ceil

TILES = (1, 4, 16)


def numbers(*shape, first=1):
    return np.arange(first, first + int(np.prod(shape)), dtype=np.int32).reshape(shape)


def ticks(x, y, S, b):
    y, n = y.copy(), len(x)
    tile = np.arange(n) // b
    sums = np.array([x[t * b:(t + 1) * b].sum() + t for t in range(ceil(n / b))])
    for t in range(S):
        y = y + sums[tile] * (t + 1) + sums[tile] if t % 2 else y - sums[0]
    return {"y": y}


for n, s in [(5, 1), (9, 4), (16, 3), (1, 0)]:
    for b in TILES:
        case("language.teg", "ticks", {"x": numbers(n), "y": numbers(n, first=-3), "S": s},
             lambda x, y, S, b=b: ticks(x, y, S, b), tune=[{"B": b}])
for n, s in [(1, 3), (7, 5), (40, 4)]:
    case("language.teg", "rotate", {"x": numbers(n), "S": s},
         lambda x, S: {"x": np.roll(x, S * (S + 1) // 2)}, tune=[{"B": b} for b in TILES])


def host(y, k, s, flag):
    y = y.copy()
    a = sum(i if i % 2 == 0 else -1 for i in range(k))
    d = 2 * s
    if flag:
        d = -d if s > 1 else 0
    y[:4] = a, 2 * a, max(a, k), int(d + 15)
    a += 100
    if a > 105:
        y[4] = a
    y[5:] = np.arange(5, 8) * a
    return {"y": y}


for k, s, flag in [(0, 0.5, True), (5, 1.5, True), (6, 1.5, False), (9, 1.0, False)]:
    case("language.teg", "host", {"y": np.full(8, -1, np.int64), "k": k, "s": s, "flag": flag}, host)
case("language.teg", "one", {}, {"y": [1, 2, 30, 32]})


def early(x, y, off, total):
    y, off = y.copy(), off.copy()
    for n, k in enumerate(x):
        if k < 0:
            continue
        y[n] = 1
        total = total + 1
        if k % 2 == 0:
            y[n] = 2
            if k > 10:
                off[n] = 5
                continue
            y[n] = 3
        else:
            if k > 10:
                continue
            y[n] += 10
        y[n] += 100 * k
        off[n] += y[n]
    return {"y": y, "off": off, "total": total}


case("language.teg", "early", {"x": integers((40,), 1, -4, 20), "y": numbers(40), "off": numbers(40, first=7),
     "total": np.array(3, np.int32)},
     early)


def collatz(x):
    steps, top = [], []
    for v in x:
        seen = [v]
        while seen[-1] != 1:
            seen.append(seen[-1] // 2 if seen[-1] % 2 == 0 else 3 * seen[-1] + 1)
        steps.append(len(seen) - 1)
        top.append(max(seen))
    return {"steps": steps, "top": top}


case("language.teg", "collatz", {"x": np.array([1, 2, 3, 27, 97, 871], np.int64)}, collatz)


def nest(x, y, bk):
    r, s, c = x.shape
    w = np.array([[x[i, j, 0] if j >= i else 0 for j in range(s)] for i in range(r)])
    weights = np.arange(1, r * s + 1).reshape(r, s, 1)
    k = 0
    for i in range(-2, 2):
        k = k * 10 + i
    total = (x * weights).sum()
    return {"y": [[total, total, r * s], [k, 13, 21]], "w": w}


for shape in [(2, 3, 5), (3, 1, 4), (1, 1, 17)]:
    case("language.teg", "nest", {"x": integers(shape, 2, -9, 9), "w": f"zeros({shape[0]},{shape[1]}):i32"},
         lambda x, y=None, **_: nest(x, y, 0), tune=[{"BK": 1}, {"BK": 4}, {"BK": 16}])
for n in (1, 7, 8, 13):
    for bm in (1, 4):
        for bn in (2, 8):
            i = np.arange(n)
            end = np.minimum((i // bm + 1) * bm, n)
            case("language.teg", "triangle", {"y": np.full((n, n), -1, np.int32)},
                 {"y": np.where(i[None] < end[:, None], i[:, None] * 10 + i[None], -1)}, tune=[{"BM": bm, "BN": bn}])
for off in ([0, 3, 3, 9, 10], [2, 2, 2], [0, 40, 41], [5, 3, 7, 20]):
    for b in TILES:
        for skip in (0, 1):
            def ragged(x, off, y, b=b, skip=skip, **_):
                y, sizes = y.copy(), np.diff(off)
                for e in range(skip, len(off) - 1):
                    for m in range(off[e], min(off[e + 1], len(x))):
                        y[m] = x[m] + 1000 * e + (m - off[e]) // b * 100
                return {"y": y, "groups": np.stack([sizes, np.maximum(sizes, 0)], 1)}
            if off[1] < off[0] and skip == 0:
                continue  # rows of two groups overlap: no reference
            case("language.teg", "ragged", {"x": numbers(41), "y": numbers(41, first=-99), "off": np.array(off, np.int32),
                 "skip": skip,
                                            "groups": f"zeros({len(off) - 1},2):i32"}, ragged, tune=[{"B": b}])


def pyramid(count, **_):
    y = np.zeros((len(count), 8, 8))
    for n, c in enumerate(count):
        for i in range(c):
            y[n, i, i:min(c, n + i)] = 1
    return {"y": y}


case("language.teg", "pyramid", {"count": np.array([3, 0, 5, -2, 8, 1], np.int64), "y": "zeros(6,8,8):i32"}, pyramid)
case("language.teg", "nothing", {"x": numbers(0), "y": numbers(5)}, {"y": [5] * 5, "z": np.zeros((5, 0))}, tune=[{"B": 1},
     {"B": 8}])
case("language.teg", "nothing", {"x": numbers(3), "y": numbers(0)}, {"y": [], "z": np.zeros((0, 3))}, tune=[{"B": 1},
     {"B": 8}])
case("language.teg", "nothing", {"x": numbers(0), "y": numbers(0)}, {"y": [], "z": np.zeros((0, 0))}, tune=[{"B": 1},
     {"B": 8}])
for d in (1, 3):
    for k in (0, 2, 4):
        case("language.teg", "caller", {"x": numbers(5, d), "z": numbers(9), "w": normal((5, d), 4), "k": k},
             lambda x, z, w, k: {"y": 3 * x.sum(0), "v": -2 * w.sum(0),
                  "z": z + 1 + sum(range(k)) + (1000 if k > 2 else 0)}, length=5)
for b in (1, 8):
    case("language.teg", "in_place", {"x": numbers(13)}, lambda x: {"x": 3 * x})


def own_writes(y):
    n = len(y)
    cols = [np.arange(n)]
    for k in range(1, 4):
        cols.append(cols[-1] * 2 + k)
    cols[0] = cols[0] + 100
    cols[1] = cols[0] + cols[1]
    return {"y": np.stack(cols, 1)}


for n in (1, 8, 11):
    case("language.teg", "own_writes", {"y": numbers(n, 4)}, own_writes, tune=[{"B": 1}, {"B": 3}, {"B": 8}])
for c in (True, False):
    for d in (1, 2, 3):
        def uniform(x, c, d):
            v = (x + 1 if c else x - 1) * {1: 1, 2: 5, 3: 10}[d]
            m = np.repeat(np.pad(v, (0, -len(v) % 4)).reshape(-1, 4).max(1), 4)[:len(v)]
            edge = ((0 + 1 if c else -1) * {1: 1, 2: 5, 3: 10}[d]) > 20
            return {"y": np.where((m > 20) | edge, -v, v)}
        case("language.teg", "uniform", {"x": integers((21,), 5, -9, 9), "c": c, "d": d}, uniform)
