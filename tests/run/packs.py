"""Packs of dims, merged and not: section 11 of the specification."""
from harness import *


def numbers(*shape):
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def blocks(x, m):
    return {"y": x * 2 + m[..., None]}


# No two axes of the first tensor merge; the second merges completely; the third has no axis in its pack.
for x, m in [(sliced(numbers(4, 6, 10), "[::2, ::3, :5]"), numbers(2, 2)),
             (numbers(3, 1, 5, 9), numbers(3, 1, 5)),
             (numbers(9), np.array(3, np.float32)),
             (sliced(numbers(3, 4, 5, 6), "[:, ::2, :, :]"), numbers(3, 2, 5)),
             (numbers(2, 0, 4), numbers(2, 0))]:
    case("packs.teg", "blocks", {"x": x, "m": m}, blocks, tune=[{"BR": 4}, {"BR": 1}])

strided = sliced(numbers(4, 6, 10), "[::2, ::3, ::-2]")
for x in [strided, numbers(7), numbers(2, 3, 4)]:
    case("packs.teg", "programs", {"x": x}, lambda x: {"y": x + x.size})
    case("packs.teg", "reversed", {"x": x}, lambda x: {"y": x.ravel()[::-1].reshape(x.shape)},
         tune=[{"B": 8}, {"B": 3}])

at = np.array([2, 0, 1, 1, 3], np.int32)
for x in [sliced(numbers(4, 6, 4, 3), "[::2, ::3, :, :]"), numbers(5, 4, 2)]:
    case("packs.teg", "joint", {"x": x, "at": at}, lambda x, at: {"y": x[..., at.astype(int), :]})

for x in [sliced(numbers(3, 4, 5, 6), "[:, ::2, ::2, :]"), numbers(3, 4, 5, 6), numbers(2, 7)]:
    case("packs.teg", "regrouped", {"x": x}, lambda x: {"y": x.reshape(len(x), -1).sum(1)}, length=120)
    case("packs.teg", "all", {"x": x}, lambda x: {"y": x.sum()}, length=400)

case("packs.teg", "calls", {"x": numbers(5, 70)}, lambda x: {"y": x * 6})
case("packs.teg", "blocks", {"x": numbers(2, 3, 4), "m": numbers(6)},
     fails="'..R' of 'm' has 1 dimensions, that of another argument 2")
