"""Joint writes of programs, monoids, loops that may be split: sections 13 to 16 of the specification."""
from harness import *


def numbers(*shape, first=1):
    return np.arange(first, first + int(np.prod(shape)), dtype=np.int32).reshape(shape)


def digits(rows):
    v = 0
    for r in rows:
        v = v * 10 + r
    return v


for r, s, n in [(3, 4, 5), (1, 1, 1), (6, 3, 9)]:
    case("language.teg", "in_order", {"x": integers((r, s, n), 1, 0, 10, np.int64)},
         lambda x: {"v": digits(x.reshape(-1, x.shape[2])), "p": np.full(x.shape[2], 10 ** (x.shape[0] * x.shape[1])),
              "last": x[:, -1],
                    "first": x[0, 0], "all_": digits(x[:, :, 0].ravel()), "one": np.array(10 ** (x.shape[0] * x.shape[1]))},
         tune=[{"BN": 1}, {"BN": 4}, {"BN": 16}])
for n in (1, 6, 9):
    for b in (1, 4):
        for times in (0, 1, 2):
            def sparse(x, y, kept, big, times, b=b):
                even = np.arange(len(x)) // b % 2 == 0
                if not times:
                    return {"y": y, "kept": kept, "big": big}
                return {"y": np.where(even, 4 * x, y), "kept": kept + np.where(even, 2 * x * times, 0),
                     "big": np.maximum(big, abs(x))}
            case("language.teg", "sparse", {"x": integers((n,), 2, -9, 9), "y": numbers(n, first=50), "kept": numbers(n),
                 "big": numbers(n, first=-3),
                                            "times": times}, sparse, tune=[{"B": b}])
for t, make in [("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("i32", np.int32), ("i64", np.int64), ("u8",
     np.uint8), ("i8", np.int8),
                ("bf16", bf16)]:
    for r in (1, 5):
        v = integers((r, 13), 3, 0 if t == "u8" else -2, 3)
        wrap = lambda a, make=make, t=t: a if t == "bf16" else np.asarray(a).astype(make)
        case("language.teg", "folded", {"x": make(v.astype(np.float64)) if t == "bf16" else v.astype(make)},
             lambda x, wrap=wrap: {"sum_": wrap(x.sum(0)), "prod_": wrap(x.prod(0)), "most": x.max(0), "least": x.min(0),
                  "line": wrap(x[:, :6].sum(0))},
             out_types={k: t for k in ("sum_", "prod_", "most", "least",
                  "line")} if t == "bf16" else {}, ulps=0, name=f"folded-{t}-{r}")
for t, make in [("f16", lambda v: v.astype(np.float16)), ("bf16", bf16)]:
    case("language.teg", "half_sums", {"x": make(np.ones(5000))},
         {"y": np.array(5000), "z": np.array(5000), "w": np.array(5000),
              "v": np.array(1)}, out_types={k: t for k in "yzwv"} if t == "bf16" else {}, ulps=0, name=f"half_sums-{t}")
case("language.teg", "bits_of", {"x": integers((9, 11), 4, -999, 999)},
     lambda x: {"a": np.bitwise_and.reduce(x), "o": np.bitwise_or.reduce(x),
          "x_": np.bitwise_xor.reduce(x)}, tune=[{"B": 1}, {"B": 8}])


def edges(x, y):
    y = y.copy()
    m, n = x.shape
    y[0, 1:, :max(n - 2, 0)] = x[:-1, 2:]
    y[1] += x + 1
    return {"y": y}


for m, n in [(5, 9), (1, 1), (6, 4)]:
    case("language.teg", "edges", {"x": numbers(m, n), "y": numbers(2, m, n, first=100)}, edges, tune=[{"BM": 1}, {"BM": 3}])


def old_values(at, c, sums, x, seen, **_):
    alive = (at >= 0) & (at < len(c))
    counts = np.bincount(at[alive], minlength=len(c))
    firsts = [c[k] + i for k in range(len(c)) for i in range(counts[k])]
    seen = seen.copy()
    for o in firsts:
        if 0 <= o < len(seen):
            seen[o] += 1
    return {"ok": alive, "c": c + counts + x, "x": x * 0 - 1, "seen": seen}


for n in (1, 16, 37):
    case("language.teg", "old_values", {"at": integers((n,), 5, -2, 8), "c": numbers(7, first=0), "x": numbers(7),
         "seen": numbers(7, first=0) * 0,
                                        "sums": "zeros(3):i32"}, old_values, tune=[{"B": 4}, {"B": 16}])
c, e = numbers(11).astype(np.int64), np.where(np.arange(11) % 3 == 0, np.arange(11) + 1, 0).astype(np.int64)
case("language.teg", "swaps", {"c": c, "e": e}, lambda c, e: {"old": c, "c": np.where(c == e, 100 + np.arange(11), c)},
     tune=[{"B": 1}, {"B": 8}])
for m, n in [(3, 29), (1, 1), (2, 16)]:
    for flags in ((), ("--check",)):
        case("language.teg", "merged", {"x": normal((m, n), 6)},
             lambda x: {"top": x.max(1), "total": x.sum(1), "signs": np.where((x < 0).sum(1) % 2, -1, 1),
                        "sums": np.pad(x, ((0, 0), (0, -x.shape[1] % 4))).reshape(len(x), -1, 4).sum(1)},
             tune=[{"B": 1}, {"B": 4}, {"B": 16}], length=n, flags=flags)
case("language.teg", "wrong_merge", {"x": normal((29,), 7)}, flags=("--check",), targets=["interp"],
     fails="the merge function does not join groups of iterations")


def reductions(x, **_):
    m, n = x.shape
    nz = np.zeros_like(x)
    for i in range(m):
        v = 0
        for j in reversed(range(n)):
            v = x[i, j] if x[i, j] != 0 else v if j < n - 1 else 0
            nz[i, j] = v
    least = np.vstack([np.full((1, n), 2 ** 31 - 1), np.minimum.accumulate(x, 0)[:-1]])
    h = np.stack([digits3(x[:, :j + 1]) for j in range(n)], 1)
    ok = (x == 3).any()
    return {"val": x.max(1), "pos": x.argmax(1), "both_": [x.max(), x.argmax()], "cols": x.sum(0),
            "s": [np.cumsum(x[:, ::-1], 1)[:, ::-1] - x, least, np.cumprod(x, 1).astype(np.int32), nz], "h": h,
            "deep": [x.min(1).max(), x.sum() + x[:, 0].sum(), (x > 0).sum() if ok else -1]}


def digits3(x):
    v = x[:, 0]
    for j in range(1, x.shape[1]):
        v = v * 3 + x[:, j]
    return v


for m, n in [(1, 1), (4, 7), (4, 16), (1, 16)]:
    case("language.teg", "reductions", {"x": integers((m, n), 8, -2, 4)}, reductions)

# Run-time checks: a coordinate outside is an error under --check; -1 and `pad =` are not.
i = np.array([0, -1, 2, 5, 1, 1], np.int64)


def looked(x, i, pad):
    return np.where((i >= 0) & (i < 5), x[np.clip(i, 0, 4)], pad)


args = {"x": numbers(5), "i": i, "d": 0, "y": "zeros(6):i32"}
ONLY = {"targets": ["interp"]}
case("language.teg", "checked", {**args, "what": 0}, lambda x, i, **_: {"y": looked(x, i, 0)})
case("language.teg", "checked", {**args, "what": 0}, flags=("--check",), fails="5", **ONLY)
case("language.teg", "checked", {**args, "i": np.minimum(i, 2), "what": 0}, lambda x, i, **_: {"y": looked(x, i, 0)},
     flags=("--check",), **ONLY)
case("language.teg", "checked", {**args, "what": 1}, lambda x, i, **_: {"y": looked(x, i, 5)}, flags=("--check",), **ONLY)
case("language.teg", "checked", {**args, "what": 2}, lambda **_: {"y": np.zeros(6)})
case("language.teg", "checked", {**args, "what": 2}, flags=("--check",), fails="division of 7 by 0", **ONLY)
case("language.teg", "checked", {**args, "what": 3}, lambda **_: {"y": np.zeros(6)})
case("language.teg", "checked", {**args, "what": 3}, flags=("--check",), fails="too large at [3]", **ONLY)
case("language.teg", "checked", {**args, "i": i + 4, "what": 4}, flags=("--check",), fails="9", **ONLY)
case("language.teg", "checked", {**args, "what": 5}, flags=("--check",),
     fails="two programs of one phase write the same element", **ONLY)

for values in ([-5, -2, -9], [-5, 900, 4], [0, 0, 0]):
    case("language.teg", "carried_sign", {"x": np.array(values, np.int64), "y": "zeros(2):i64"},
         lambda x, **_: {"y": np.array([3 if x.max() <= 0 else 1, 5 if x.max() < 3 else 2])})
