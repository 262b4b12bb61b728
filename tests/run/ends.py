"""Blocks whose ranges end inside of them: no position may be past the end, and elements there are not
counted."""
from harness import *

WAYS = 13


def places(x, ids, s, steps, **_):
    lo, hi, n = x.argmin(), x.argmax(), len(x)
    y = np.empty((2, WAYS), np.int64)
    y[0], y[1] = lo, hi
    y[1, 4] = 2 * hi + 1  # in the transposed block
    last = n - 1 - x[::-1].argmin(), n - 1 - x[::-1].argmax()
    y[:, 5] = last
    y[:, 6] = x[ids].argmin(), x[ids].argmax()
    carried = np.maximum(0, x) if steps > 1 else 0 * x
    y[:, 8] = carried.argmin(), carried.argmax()
    y[:, 10] = 0, n - 1
    y[:, 12] = -1
    return {"y": y}


X = {"high": np.arange(5, 25), "low": np.arange(-25, -5), "equal": np.full(20, 5), "none": np.full(20, -5), "one": np.array([3]),
     "full": np.arange(3, 27)}
for name, x in X.items():
    for t in ("float32", "int32", "int8", "float16"):
        ids = np.arange(len(x))[::-1].astype(np.int32)
        case("ends.teg", "places", {"x": x.astype(t), "y": f"full(2,{WAYS},value=99):i64", "ids": ids,
                                    "s": np.zeros((), t), "steps": 3}, places, name=f"places-{name}-{t}")


def planes(x, w, **_):
    return {"rows": x.argmin(1), "columns": x.argmax(0), "all": x.argmin() // x.shape[1] * 32 + x.argmin() % x.shape[1],
            "sums": x.sum(1).argmin(), "products": (x @ w).argmax(1)}


for name, m, n, k in (("part", 20, 27, 11), ("full", 32, 32, 16)):
    x, w = uniform((m, n), 1, 1, 2), uniform((n, k), 2, -2, -1)
    for b in (16, 32):
        first = np.array([x[0, i:i + b].argmax() for i in range(0, n, b)]).repeat(b)[:n]
        case("ends.teg", "planes", {"x": x, "w": w}, lambda x, w, first=first: planes(x, w) | {"chunks": first},
             tune=[{"B": b}], name=f"planes-{name}-{b}")
for t in ("int32", "uint8", "int8", "int64"):
    for n, k in ((20, 22), (3, 5), (48, 9)):
        x = integers((n,), 3, 1, 8, t)
        order = np.argsort(-x.astype(int), kind="stable")
        least = np.iinfo(t).min
        v = np.array([x[order[i]] if i < n else least for i in range(k)])
        at = np.array([order[i] if i < n else -1 for i in range(k)])
        zeros = {"v": f"zeros({k}):{t.replace('int', 'i').replace('ui', 'u')}"}
        case("ends.teg", "counts", {"x": x} | zeros, {"c": np.bincount(x, minlength=8), "v": v, "at": at},
             tune=[{"B": 16}, {"B": 64}], name=f"counts-{t}-{n}")
for n in (20, 32, 0):
    lane = np.arange(32)
    case("ends.teg", "there", {"x": np.ones(n, np.float32)},
         {"y": [lane < n, lane < n, 31 - lane < n, lane < 32], "z": np.ones(24)}, name=f"there-{n}")


def report(v, there):
    """Expected values for a block and its existing elements, as in ends.teg."""
    at = np.flatnonzero(there)
    v = np.asarray(v, np.float64)[at]
    return [at[v.argmin()] if len(at) else -1, at[v.argmax()] if len(at) else -1, len(at)]


def chosen(x, f, t, q, c):
    lane = np.arange(8)
    v = np.zeros(8)
    v[:min(8, len(x))] = x[:8]
    own = np.full(8, c)
    n, m, less, two, all8 = lane < len(x), lane < q, lane < len(x) - 1, lane < 2, lane < 8
    turns = own if t < 2 else np.where(m, v, 0)
    ways = [(v, n if f else m), (v, n if f else m), (v, n if t else m),
            (v * less if f else own, less if f else all8), (v * two if f else own, two if f else all8),
            (v[::-1], n[::-1]) if f else (v, n), (v[::-1], n[::-1]) if f else (v, n),
            (v, np.where(lane % 2 == 0, n, m)), (own + t * v, n if t else all8), (turns, m if t > 1 else all8)]
    order = np.argsort(v, kind="stable")
    ways += [(v[order], n[order]), (v * 2 if f else v + 1, n)]
    y = np.array([report(*way) for way in ways]).T
    if not t:
        y[:, 9] = 0
    return {"y": y}


for name, x, c in (("high", np.arange(5, 10), 30), ("low", np.arange(-9, -4), -30), ("full", np.arange(3, 11), 5)):
    for f, t in ((0, 0), (1, 1), (0, 3)):
        case("ends.teg", "chosen", {"x": x.astype(np.float32), "y": "zeros(3,12):i64", "c": c, "f": f, "t": t, "q": 3},
             chosen(x, f, t, 3, c), name=f"chosen-{name}-{t}")
for m in (0, 1):
    x = np.arange(15, dtype=np.float32).reshape(3, 5) % 4 + 1
    there = np.arange(8) < 5
    padded = np.where(there, np.pad(x[0], (0, 3)), 0)
    nowhere = [-1, -1, 0]
    y = np.array([nowhere, nowhere, report(np.full(8, x[0, 4]), there | True), report(padded, there & (m > 0)),
                  report(np.where(there & (m > 0), 0, -1), there),
                  report([*np.pad(x[0], (0, 3))[3:], 0, 0, 0], (np.arange(8) < 2) | ~there)]).T
    case("ends.teg", "lines", {"x": x, "u": np.zeros(5, np.uint8), "m": m},
         {"y": y, "h": np.bincount(x[2].astype(int), minlength=5)[:4] * 100, "at": [[3, 4, 5, 6], [0, 4, 5, 6]]},
         name=f"lines-{m}")
