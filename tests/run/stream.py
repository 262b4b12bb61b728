"""Results larger than the caches, written with streaming stores: at every alignment, with the memory around
them checked."""

from harness import *

N = 3_300_000  # 12.6 MiB of f32


def twice(x, **_):
    return {"y": 2 * x}


for offset in (0, 1, 4, 8, 15):
    x = normal((N,), seed=offset)
    y = f"zeros({N + 32}):f32[{offset}:{N + offset}]"
    case("stream.teg", "twice", {"x": x, "y": y}, twice)
x = normal((2 * N,), seed=20).astype("float16")
for offset in (0, 8, 9):
    y = f"zeros({2 * N + 32}):f16[{offset}:{2 * N + offset}]"
    case("stream.teg", "twice", {"x": x, "y": y}, twice)
# Rows whose distance is no multiple of a line, or of a part of a vector.
for width in (4128, 4132, 4133):
    x = normal((801, 4123), seed=width)
    case("stream.teg", "twice_rows", {"x": x, "y": f"zeros(801,{width}):f32[:, :4123]"}, twice)
