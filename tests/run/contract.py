"""Products of every type that the vector and tile engines support, in awkward shapes and layouts."""

from functools import partial

from harness import *

STEPS = [
    {"BM": 16, "BN": 16, "BK": 64},
    {"BM": 5, "BN": 7, "BK": 3},
    {"BM": 33, "BN": 40, "BK": 17},
    {"BM": 48, "BN": 40, "BK": 70},
]
HALF = {"bf16": bf16, "f16": lambda v: v.astype(np.float16), "f32": lambda v: v}
INTS = {"i8": (-128, 128, np.int8), "u8": (0, 256, np.uint8)}


def product(a, b, **_):
    return {"c": a @ b}


def layouts(a, b):
    """The same numbers in other memory layouts: transposed, reversed, strided, repeated rows."""
    m, k = a
    n = b[1]
    yield "plain", a, b, lambda x: x, lambda x: x
    yield "nt", a, (n, k), lambda x: x, lambda x: permuted(x, 1, 0)
    yield "tn", (k, m), b, lambda x: permuted(x, 1, 0), lambda x: x
    yield "tt", (k, m), (n, k), lambda x: permuted(x, 1, 0), lambda x: permuted(x, 1, 0)
    yield "reversed", a, b, lambda x: sliced(x, "[::-1, ::-1]"), lambda x: sliced(x, "[::-1, :]")
    yield "strided", (2 * m, 3 * k), (k, 2 * n), lambda x: sliced(
        x, "[::2, ::3]"
    ), lambda x: sliced(x, "[:, ::2]")


for m, k, n in [
    (1, 1, 1),
    (2, 65, 33),
    (3, 7, 17),
    (7, 2, 31),
    (17, 31, 3),
    (31, 33, 65),
    (33, 64, 16),
    (65, 17, 1),
    (64, 128, 48),
    (16, 3, 7),
]:
    for t, cast in HALF.items():
        args = {"a": cast(normal((m, k), m + 1)), "b": cast(normal((k, n), n + 2))}
        case(
            "contract.teg",
            "whole",
            args,
            product,
            length=k,
            scale={"c": 6.0},
            name=f"whole-{t}-{m}x{k}x{n}",
        )
    for t, (low, high, dtype) in INTS.items():
        args = {
            "a": integers((m, k), m, low, high, dtype),
            "b": integers((k, n), n, low, high, dtype),
        }
        case("contract.teg", "whole_ints", args, product, name=f"whole-{t}-{m}x{k}x{n}")

for m, k, n in [(70, 150, 90), (33, 0, 17), (0, 5, 7), (1, 300, 65), (96, 256, 80), (49, 1088, 33)]:
    for layout, a, b, view_a, view_b in layouts((m, k), (k, n)):
        if m * k < 4096 and layout != "plain":
            continue  # the large ones suffice to tell layouts apart
        for t, cast in HALF.items():
            args = {"a": view_a(cast(normal(a, 5))), "b": view_b(cast(normal(b, 6)))}
            case(
                "contract.teg",
                "steps",
                args,
                product,
                length=max(k, 1),
                scale={"c": 6.0},
                tune=STEPS,
                name=f"steps-{t}-{layout}-{m}x{k}x{n}",
            )
        args = {
            "a": view_a(integers(a, 7, -128, 128, np.int8)),
            "b": view_b(integers(b, 8, -128, 128, np.int8)),
        }
        steps = [dict(s, BK=128 if s["BK"] == 64 else s["BK"]) for s in STEPS]
        case(
            "contract.teg",
            "steps_ints",
            args,
            product,
            tune=steps,
            name=f"steps-ints-{layout}-{m}x{k}x{n}",
        )


def chain(a, b, d, **_):
    return {"c": (a @ b) * 0.125 @ d}


for t, cast in HALF.items():
    args = {
        "a": cast(normal((50, 70), 1)),
        "b": cast(normal((70, 60), 2)),
        "d": cast(normal((60, 40), 3)),
    }
    case(
        "contract.teg",
        "chain",
        args,
        chain,
        length=70 * 60,
        scale={"c": 8.0 if t == "f32" else 256.0},
        tune=[{"BM": 16, "BN": 32}, {"BM": 24, "BN": 12}, {"BM": 64, "BN": 32}],
        name=f"chain-{t}",
    )


def picked(p, q, w, x, **_):
    """y[m, i, j] = sum over k of w[m, k] x[k, i + 1, j - 1], 0 outside."""
    padded = np.pad(x, ((0, 0), (0, p), (1, q)))
    return {"y": np.einsum("mk,kij->mij", w, padded[:, 1 : p + 1, :q])}


for kernel in ("picked", "picked_rows"):
    for t, cast in HALF.items():
        for m, k, h, w, p, q in [
            (20, 64, 6, 20, 6, 20),
            (9, 33, 7, 13, 5, 11),
            (33, 70, 3, 40, 9, 9),
        ]:
            case(
                "contract.teg",
                kernel,
                {
                    "w": cast(normal((m, k), 1)),
                    "x": cast(normal((k, h, w), 2)),
                    "y": f"zeros({m},{p},{q}):f32",
                },
                partial(picked, p, q),
                length=k,
                scale={"y": 6.0},
                tune=[{"BM": 16, "BN": 32, "BK": 32}, {"BM": 5, "BN": 24, "BK": 7}],
                name=f"{kernel}-{t}-{m}x{k}-{h}x{w}-{p}x{q}",
            )

for t, cast in HALF.items():
    for p, m, k, n in [(3, 16, 4, 16), (5, 9, 32, 20)]:
        case(
            "contract.teg",
            "taps",
            {"a": cast(normal((p, m, k), 1)), "b": cast(normal((p, k, n), 2))},
            lambda a, b: {"c": np.einsum("pmk,pkn->mn", a, b)},
            length=p * k,
            scale={"c": 6.0},
            tune=[{"BM": 16, "BN": 16}, {"BM": 5, "BN": 7}],
            name=f"taps-{t}-{p}x{m}x{k}x{n}",
        )
