"""Blocks whose ranges end inside of them: no position is past the end, nothing there is counted."""
from harness import *

WAYS = 13


def places(x, ids, s, steps, **_):
    lo, hi, n = x.argmin(), x.argmax(), len(x)
    y = np.empty((2, WAYS), np.int64)
    y[0], y[1] = lo, hi
    y[1, 4] = 2 * hi + 1  # of the transposed block
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
