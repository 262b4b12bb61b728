"""Products of matrices whose rows begin at multiples of 8, 4 or fewer bytes, not of 16.

Each operand is a view of a larger array of NaNs. A read beside it, or a value other than 0 past its end,
shows in the result.
"""

from harness import *

STD = "../../stdlib/matmul.teg"


def inside(shape, seed, make, at, row):
    """Integers with exact sums, from column `at` of rows of `row` elements on."""
    rows, columns = shape
    whole = np.full((rows + 3, row), np.nan)
    whole[1:-2, at:at + columns] = np.random.default_rng(seed).integers(-4, 5, shape)
    return sliced(make(whole), f"[1:{rows + 1}, {at}:{at + columns}]")


def product(a, b, **_):
    return {"c": a @ b}


def f16(x):
    return np.asarray(x, np.float16)


# First column and row length in 2-byte elements: all multiples of 8 bytes, of 4, or only of 2; and rows of 16
# bytes that begin 8 or 4 bytes after a multiple.
ROWS = {"8": (4, 84), "4": (2, 82), "2": (1, 81), "16+8": (4, 88), "16+4": (2, 88)}
TILES = [{"BM": 64, "BN": 64, "BK": 64}, {"BM": 128, "BN": 64, "BK": 64}, {"BM": 16, "BN": 8, "BK": 16}]
for bytes, (at, row) in ROWS.items():
    for make in (f16, bf16):
        for k in (68, 66, 67):
            case(
                "products.teg",
                "nn",
                {"a": inside((140, k), 1, make, at, row), "b": inside((k, 74), 2, make, at, row)},
                product,
                tune=TILES,
                name=f"narrow-nn-{bytes}-{k}-{make.__name__}",
            )
        case(
            "products.teg",
            "tt",
            {"a": inside((132, 76), 1, make, at, row), "b": inside((74, 132), 2, make, at, row + 64)},
            lambda a, b, **_: product(a.T, b.T),
            tune=[{"BM": 64, "BN": 64, "BK": 64}, {"BM": 128, "BN": 96, "BK": 64}],
            name=f"narrow-tt-{bytes}-{make.__name__}",
        )
# Operands of different widths in one ring, or in two, with up to the most slots.
for left, right in [("8", "16+8"), ("16+4", "8"), ("2", "4"), ("4", "2")]:
    for stages in (1, 2, 4):
        a, b = ROWS[left], ROWS[right]
        case(
            "products.teg",
            "nn",
            {"a": inside((72, 76), 1, f16, *a), "b": inside((76, 70), 2, f16, *b)},
            product,
            tune=[{"BM": 64, "BN": 64, "BK": 16, "stages": stages}],
            name=f"narrow-mixed-{left}-{right}-{stages}",
        )
# One aligned operand, which TMA copies where it exists.
case(
    "products.teg",
    "nn",
    {"a": inside((140, 136), 1, f16, 8, 152), "b": inside((136, 74), 2, f16, 2, 78)},
    product,
    tune=TILES,
    name="narrow-beside-aligned",
)
# Elements of one byte, and of four: the latter are as wide as the narrowest copies.
for at, row in [(8, 168), (4, 172), (4, 164), (1, 161)]:
    case(
        STD,
        "scaled_matmul_nt",
        {
            "a": inside((72, 140), 1, f8e4m3, at, row),
            "b": inside((76, 140), 2, f8e4m3, at, row),
            "sa": None,
            "sb": None,
            "c": "zeros(72,76):f32",
        },
        lambda a, b, **_: product(a, b.T),
        tune=[{"BM": 64, "BN": 64, "BK": 64}],
        name=f"narrow-f8-{at}-{row}",
    )
for at, row in [(4, 84), (2, 82), (1, 81)]:
    case(
        STD,
        "matmul_tf32_nt",
        {"a": inside((72, 78), 1, np.float32, at, row), "b": inside((70, 78), 2, np.float32, at, row), "terms": 1},
        lambda a, b, **_: product(a, b.T),
        name=f"narrow-tf32-{at}-{row}",
    )
# The last rows end with their memory, and nothing after it may be read.
for k in (66, 68):
    case(
        "products.teg",
        "nn",
        {"a": f16(inside((64, k), 1, np.asarray, 0, k).value), "b": f16(inside((k, k), 2, np.asarray, 0, k).value)},
        product,
        tune=[{"BM": 64, "BN": 64, "BK": 64}],
        flags=("--guard",),
        name=f"narrow-guard-{k}",
    )
