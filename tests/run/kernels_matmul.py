"""Matrix products: dense, fused, quantised, grouped, triangular."""

from harness import *
from math import erf


def mm(a, b, **_):
    return {"c": a @ b}


for m, k, n in [(1, 1, 1), (70, 33, 90), (64, 64, 64), (130, 257, 65), (3, 500, 2)]:
    case(
        "samples.teg",
        "matmul",
        {"a": normal((m, k), m), "b": normal((k, n), n)},
        mm,
        length=k,
        scale={"c": 6.0},
        tune=[{}, {"BM": 64, "BN": 160, "BK": 32}],
        name=f"matmul-{m}x{k}x{n}",
    )
for m, k, n in [(0, 5, 7), (5, 0, 7), (5, 7, 0)]:
    case(
        "samples.teg",
        "matmul",
        {"a": normal((m, k), 1), "b": normal((k, n), 2)},
        mm,
        name=f"matmul-empty-{m}x{k}x{n}",
    )
case(
    "samples.teg",
    "matmul",
    {"a": bf16(normal((65, 40), 3)), "b": bf16(normal((40, 70), 4))},
    mm,
    length=40,
    scale={"c": 6.0},
    out_types={"c": "bf16"},
    name="matmul-bf16",
)
case(
    "samples.teg",
    "matmul",
    {"a": normal((65, 40), 3, np.float16), "b": normal((40, 70), 4, np.float16)},
    mm,
    length=40,
    scale={"c": 6.0},
    name="matmul-f16",
)
case(
    "samples.teg",
    "matmul",
    {"a": fortran(normal((65, 40), 3)), "b": permuted(normal((70, 40), 4), 1, 0)},
    mm,
    length=40,
    scale={"c": 6.0},
    name="matmul-transposed-views",
)
case(
    "samples.teg",
    "matmul",
    {"a": sliced(normal((130, 80), 3), "[::-2, ::2]"), "b": expanded(normal((70,), 4), 40)},
    mm,
    length=40,
    scale={"c": 6.0},
    name="matmul-negative-and-zero-strides",
)
case(
    "samples.teg",
    "matmul",
    {"a": spread(normal((5, 40), 3), 0, 3_000_000_000), "b": normal((40, 9), 4)},
    mm,
    length=40,
    scale={"c": 6.0},
    targets=["cpu", "interp"],  # 48 GB would be copied to a GPU and back
    name="matmul-offsets-beyond-32-bits",
)
case(
    "samples.teg",
    "matmul",
    {"a": spread(normal((2, 40), 3), 0, 2_200_000_000), "b": normal((40, 9), 4)},
    mm,
    length=40,
    scale={"c": 6.0},
    name="matmul-offsets-beyond-31-bits",
)


def linear(a, b, bias=None, **_):
    x = a @ b + (0 if bias is None else bias)
    return {"c": x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))}


for bias in (normal((70,), 7, np.float16), None):
    case(
        "samples.teg",
        "linear_gelu",
        {"a": normal((65, 48), 5, np.float16), "b": normal((48, 70), 6, np.float16), "bias": bias},
        linear,
        length=48,
        scale={"c": 6.0},
        name=f"linear_gelu-bias-{bias is not None}",
    )
case(
    "samples.teg",
    "linear_gelu",
    {"a": normal((65, 40), 5, np.float16), "b": normal((40, 70), 6, np.float16), "bias": None},
    fails="K % 16 == 0",
    name="linear_gelu-require",
)


def grouped(x, w, off, perm, **_):
    y = np.zeros((len(perm), w.shape[2]))
    for e in range(len(w)):
        r = slice(off[e], off[e + 1])
        y[r] = x[perm[r]] @ w[e]
    return {"y": y}


off = np.array([0, 70, 70, 73, 141], np.int32)
case(
    "moe.teg",
    "moe_gemm",
    {
        "x": normal((90, 50), 1),
        "w": normal((4, 50, 33), 2),
        "off": off,
        "perm": integers((141,), 3, 0, 90),
    },
    grouped,
    length=50,
    scale={"y": 6.0},
    tune=[{"BM": 64, "BN": 128}, {"BM": 128, "BN": 256}],
)


def align(expert, **_):
    count = np.bincount(expert, minlength=7)
    return {"off": np.concatenate([[0], np.cumsum(count)])}


case(
    "moe.teg",
    "moe_align",
    {"expert": integers((3000,), 4, 0, 7), "off": "zeros(8):i32", "perm": "zeros(3000):i32"},
    align,
)


def w4(x, q, s, z=None, GS=0, **_):
    z = 8 if z is None else np.repeat(z, GS, 0)
    w = ((q - z) * np.repeat(s, GS, 0)).astype(np.float16).astype(np.float64)
    return {"y": x @ w}


for zero in (u4(integers((2, 40), 8, 0, 16)), None):
    case(
        "w4a16.teg",
        "w4a16",
        {
            "x": normal((20, 128), 5, np.float16),
            "q": u4(integers((128, 40), 6, 0, 16)),
            "s": uniform((2, 40), 7, 0.01, 0.1, np.float16),
            "z": zero,
            "GS": 64,
        },
        w4,
        length=128,
        scale={"y": 8.0},
        tune=[{"BM": 16, "BN": 128, "BK": 64}, {"BM": 64, "BN": 128, "BK": 32}],
    )


def tril(a, b, **_):
    n = len(a)
    c = np.zeros((n, n))
    for i0 in range(0, n, 64):
        for j0 in range(0, n, 64):
            k = slice(j0, min(i0 + 64, n))
            if j0 < k.stop:
                c[i0 : i0 + 64, j0 : j0 + 64] = a[i0 : i0 + 64, k] @ b[k, j0 : j0 + 64]
    return {"c": c}


case(
    "misc.teg",
    "tril_matmul",
    {"a": np.tril(normal((150, 150), 1)), "b": np.tril(normal((150, 150), 2))},
    tril,
    length=150,
    scale={"c": 8.0},
    tune=[{"BM": 64, "BN": 64, "BK": 32}],
)
case(
    "misc.teg",
    "syrk",
    {"a": normal((150, 70), 1)},
    lambda a, **_: {"c": a @ a.T},
    length=70,
    scale={"c": 8.0},
)
