"""Bytes other than 0 and 1 in bool tensors: every byte except 0 is true. Results have the bytes 0 and 1,
which run.py checks."""
from harness import *

BYTES = np.array([0, 1, 2, 255, 128, 3, 0, 254, 16, 0, 64, 127], np.uint8)


def bools(shape, seed, of=BYTES):
    """Bytes as view(bool) of NumPy and PyTorch makes them. The reference sees 0 and 1."""
    b = np.random.default_rng(seed).choice(np.array(of, np.uint8), shape)
    return Data(b.view(np.bool_), b != 0)


def blocks(x, z, **_):
    return {"y": np.array([np.where(x, 1, 2), 1 - x, x & z, x | z, x ^ z, 1 - (x ^ z), x + z, (x & z) ^ x | z]),
            "copy": x, "at": x}


SETS = [{"B": 8}, {"B": 64}, {"B": 256}]
case("bools.teg", "blocks", {"x": bools(1000, 1), "z": bools(1000, 2)}, blocks, tune=SETS)
case("bools.teg", "blocks", {"x": bools(77, 3), "z": sliced(bools(154, 4), "[::-2]")}, blocks, tune=SETS, name="blocks-views")
case("bools.teg", "blocks", {"x": sliced(bools(130, 5), "[1:]"), "z": expanded(bools((), 6, [2]), 129)}, blocks, tune=SETS,
     name="blocks-shifted")

x = bools(150, 7)
x.stored[:5], x.value[:5] = np.array([2, 1, 255, 4, 0], np.uint8).view(np.bool_), [1, 1, 1, 1, 0]
case("bools.teg", "scalars", {"x": x},
     lambda x, **_: {"y": np.where(x, 1, np.where(np.roll(x, -1), 2, 3)), "first": np.argmin(x)})


def rows(x, **_):
    return {"y": x.sum(1), "some": x.any(1), "every": x.all(1), "odd": x.sum(1) % 2, "sorted": np.sort(x, 1),
            "flipped": x[:, ::-1], "turned": x.T, "running": np.maximum.accumulate(x, 1), "at": x.argmax(1),
            "below": x.sum(0)}


case("bools.teg", "rows", {"x": bools((8, 32), 8)}, rows, tune=[{"BM": 1}, {"BM": 4}])
case("bools.teg", "rows", {"x": bools((8, 32), 9, [0, 2])}, rows, tune=[{"BM": 1}, {"BM": 4}], name="rows-even")
case("bools.teg", "rows", {"x": sliced(bools((8, 64), 10), "[::-1, ::2]")}, rows, tune=[{"BM": 4}], name="rows-views")


def picks(x, i, j, **_):
    inside = (i >= 0) & (i < len(x)) & (j >= 0) & (j < 32)
    one = np.where(inside, x[np.clip(i, 0, len(x) - 1), np.clip(j, 0, 31)], 1)
    line = np.where((i >= 0)[:, None] & (i < len(x))[:, None], x[np.clip(i, 0, len(x) - 1)], 0)
    put = np.zeros_like(x)
    put[i[i >= 0]] = x[i[i >= 0]]
    at = np.where(line[:, 0] != 0, j % 4, -1)
    return {"one": one, "line": line, "put": put, "often": np.bincount(at[at >= 0], minlength=4)}


i, j = integers(16, 11, 0, 9), integers(16, 12, 0, 32)
i[3] = -1
case("bools.teg", "picks", {"x": bools((9, 32), 13), "i": i, "j": j, "put": "zeros(9,32):bool"}, picks,
     tune=[{"B": 4}, {"B": 16}])


def joined(x, kept, **_):
    return {"any_": x.any(1), "all_": x.all(0), "kept": (kept + x.sum(0)) % 2, "runs": np.abs(np.diff(x)).sum(1)}


x = bools((5, 100), 14)
x.stored[2], x.value[2] = False, 0
x.stored.view(np.uint8)[:, :9], x.value[:, :9] = 8, 1
case("bools.teg", "joined", {"x": x, "kept": bools(100, 15)}, joined, tune=[{"B": 16}, {"B": 64}])


def masked(x, a, b, **_):
    return {"y": (x * a) @ b, "z": x @ (b > 0).astype(np.int64)}


case("bools.teg", "masked", {"x": bools((40, 64), 16), "a": normal((40, 64), 17), "b": normal((64, 24), 18)}, masked,
     length=64, tune=[{"BK": 16}, {"BK": 32}])
