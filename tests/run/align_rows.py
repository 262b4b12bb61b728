"""Operands of products that GPUs copy into aligned rows first (the axis align_rows)."""

from harness import *

STD = "../../stdlib/matmul.teg"
ONCE = [{"BM": 64, "BN": 64, "BK": 64, "align_rows": 1}]


def small(shape, seed, t="bf16"):
    """Integers, of which all sums are exact."""
    values = np.random.default_rng(seed).integers(-1, 2, shape)
    return bf16(values) if t == "bf16" else values.astype(t)


def of(t, *names):
    return {n: "bf16" for n in names} if t == "bf16" else {}


# Each transposition; edges of blocks in all dims, none in one, empty ones.
for n, (letters, t, shape) in enumerate([
    ("nn", "bf16", (67, 131, 73)),
    ("nt", "float16", (129, 65, 66)),
    ("tn", "bf16", (67, 131, 73)),
    ("tt", "float16", (66, 129, 129)),
    ("nn", "float32", (33, 70, 65)),
    ("nt", "float32", (33, 71, 66)),
    ("nn", "bf16", (5, 0, 7)),
    ("tt", "bf16", (0, 9, 7)),
]):
    m, k, c = shape
    a = small((m, k) if letters[0] == "n" else (k, m), 1, t)
    b = small((k, c) if letters[1] == "n" else (c, k), 2, t)
    case(
        STD,
        "matmul" + ("" if letters == "nn" else "_" + letters),
        {"a": a, "b": b},
        lambda a, b, letters=letters: {
            "c": (a if letters[0] == "n" else a.T) @ (b if letters[1] == "n" else b.T)
        },
        out_types=of(t, "c"),
        length=k,
        tune=ONCE,
        name=f"align_rows-{letters}-{t}-{m}x{k}x{c}",
    )

# Views: columns from an odd one on, rows in reverse, transposed, and the same memory twice.
case(STD, "matmul", {"a": sliced(small((70, 140), 1), "[::-1, 3:136]"), "b": small((133, 66), 2)},
     lambda a, b: {"c": a @ b}, out_types=of("bf16", "c"), length=133, tune=ONCE, name="align_rows-columns")
case(STD, "matmul", {"a": permuted(small((75, 70), 1), 1, 0), "b": permuted(small((67, 75), 2), 1, 0)},
     lambda a, b: {"c": a @ b}, out_types=of("bf16", "c"), length=75, tune=ONCE, name="align_rows-transposed")
case(STD, "matmul", {"a": small((67, 67), 1), "b": "same(a)"},
     lambda a, **_: {"c": a @ a}, out_types=of("bf16", "c"), length=67, tune=ONCE, name="align_rows-square")
case(STD, "batch_matmul", {"a": small((3, 33, 65), 1), "b": small((3, 65, 35), 2)},
     lambda a, b: {"c": a @ b}, out_types=of("bf16", "c"), length=65, tune=ONCE, name="align_rows-batch")
# Parts of a long sum, with copies and without.
case(STD, "matmul", {"a": small((33, 515), 1), "b": small((515, 35), 2)},
     lambda a, b: {"c": a @ b}, out_types=of("bf16", "c"), length=515,
     tune=[ONCE[0] | {"split": 4}, ONCE[0] | {"split": 4, "align_rows": -1}], name="align_rows-split")
case("align_rows.teg", "parts", {"x": small((67, 150), 1), "w": small((133, 65), 2)},
     lambda x, w: {"y": x[:, :133] @ w}, out_types=of("bf16", "y"), length=133, tune=ONCE,
     name="align_rows-parts")
case("align_rows.teg", "common",
     {"x": small((67, 70), 1, "float16"), "v": small((70, 65), 2, "float16"), "w": small((65, 70), 3, "float16")},
     lambda x, v, w: {"y": x @ v + 3 * (x @ w.T), "t": 2 * x}, length=210, tune=[{"align_rows": 1}],
     name="align_rows-common")
case("align_rows.teg", "in_place",
     {"x": small((67, 67), 1, "float16"), "w": small((67, 67), 2, "float16"), "y": "same(x)"},
     lambda x, w, **_: {"y": x @ w}, length=67, tune=[{"align_rows": 1}], name="align_rows-in-place")
case("align_rows.teg", "apart", {"x": small((67, 3, 75), 1), "w": small((65, 3, 67), 2)},
     lambda x, w: {"y": np.einsum("kbm,nbk->bmn", x, w)}, length=67, tune=ONCE, name="align_rows-apart")
case("align_rows.teg", "normed", {"x": small((67, 75), 1), "w": small((75, 65), 2)},
     lambda x, w: {"s": (x * x).sum(axis=1), "y": x @ w}, length=75, tune=ONCE, name="align_rows-normed")
