"""Values that loops carry, and stores in place."""

from harness import *

FILE = "carried.teg"


def numbers(*shape, first=1):
    return np.arange(first, first + int(np.prod(shape)), dtype=np.int32).reshape(shape)


for n in (1, 175, 1000):
    case(FILE, "odd_vectors", {"x": numbers(n)}, lambda x: {"x": 3 * x + 1})
    for m in (n // 2 + 1, n):
        def odd_sums(x, y, w):
            s = x + y + np.pad(w, (0, len(x) - len(w)))
            return {"y": s, "x": s - x}
        case(FILE, "odd_sums", {"x": numbers(n), "y": numbers(n, first=7), "w": numbers(m, first=-3)}, odd_sums)


def fibonacci(x, **_):
    a, b = x[:, 0], x[:, 1]
    for _i in range(7):
        a, b = b, a + b
    return {"y": a, "z": b}


def rolled(x, block, **_):
    a, b, c = (x[:, i].copy() for i in range(3))
    for i in range(x.shape[1]):
        s = b.copy()
        for k in range(0, len(s), block):  # lanes beyond the end hold 0
            part = np.zeros(block, s.dtype)
            part[: len(s[k : k + block])] = s[k : k + block]
            s[k : k + block] = np.sort(part)[: len(s[k : k + block])]
        a, b, c = b, c, a + np.maximum(x[:, i], s)
    return {"y": a + 10 * b + 100 * c, "z": b}


for n in (1, 96, 100):
    case(FILE, "fibonacci", {"x": numbers(n, 2)}, fibonacci)
for b in (1, 16, 48):
    case(FILE, "rolled", {"x": integers((96, 5), 3, -9, 10, np.int32)}, lambda x, b=b: rolled(x, b), tune=[{"B": b}])


def tallies(x, **_):
    n, m = x.shape
    return {"count": n * (n + 1) // 2, "triangle": sum(i * 100 + j for i in range(n) for j in range(i, m)),
            "most": x.max(0)}


x = normal((1000, 20), 4)
x[:, 3], x[:, 5], x[:, 7] = np.nan, -np.inf, np.arange(-2000, -1000)
for n in (1, 257, 1000):
    case(FILE, "tallies", {"x": x[:n]}, tallies)
for k in (1, 3, 5, 11, 19):
    case(FILE, "last_of", {"x": integers((9, k), 5, -9, 10, np.int32)}, lambda x: {"y": x[:, -1]})
case(FILE, "wrapped", {"x": numbers(100, first=-50)}, lambda x: {"s": (x + 8) % 16 - 8, "u": x % 16})
