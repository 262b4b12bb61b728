"""std/layout.teg: copies, transpositions, concatenation, splitting."""

from harness import *

FILE = "../../stdlib/layout.teg"
TYPES = ("float32", "float16", "bf16", "float64", "int8", "int64", "bool")


def typed(x, t):
    return (
        bf16(x)
        if t == "bf16"
        else np.asarray(x > 0) if t == "bool" else np.asarray(x * 8).astype(t)
    )


def data(shape, seed, t):
    return typed(normal(shape, seed, np.float64), t)


def narrow(t, *names):
    return {n: "bf16" for n in names} if t == "bf16" else {}


for n, t in enumerate(TYPES):
    for name, x in (
        ("dense", data((3, 700), 1, t)),
        ("reversed", sliced(data((4, 9, 33), 1, t), "[::-1,::2,::-3]")),
        ("permuted", permuted(data((4, 9, 33), 1, t), 2, 0, 1)),
        ("repeated", expanded(data((70,), 1, t), 5)),
        ("none", data((0, 3), 1, t)),
        ("point", data((), 1, t)),
    ):
        case(
            FILE,
            "copy",
            {"x": x},
            lambda x, **_: {"y": x},
            ulps=0,
            out_types=narrow(t, "y"),
            name=f"copy-{name}-{t}",
        )
    for k, shape in enumerate([(100, 70), (1, 1), (2, 3, 33, 65), (0, 4), (5, 0, 3), (700, 3)]):
        x = sliced(data(shape, 2, t), "[...,::-1]".replace("...", ",".join(":" * (len(shape) - 1))))
        case(
            FILE,
            "transpose",
            {"x": x if k % 2 else data(shape, 2, t)},
            lambda x, **_: {"y": np.swapaxes(x, -1, -2)},
            ulps=0,
            out_types=narrow(t, "y"),
            tune=[{"BM": 32, "BN": 64}, {"BM": 64, "BN": 32}] if k == 0 else [{}],
            name=f"transpose-{shape}-{t}",
        )
    for shape in [(2, 9, 11, 70), (1, 1, 3, 1), (3, 0, 2, 4)]:
        case(
            FILE,
            "swap_middle",
            {"x": data(shape, 2, t)},
            lambda x, **_: {"y": x.transpose(0, 2, 1, 3)},
            ulps=0,
            out_types=narrow(t, "y"),
            name=f"swap_middle-{shape}-{t}",
        )
    for a, m, k, rest in [(3, 5, 9, (70,)), (1, 1, 300, ()), (2, 0, 3, (4, 5)), (40, 2, 3, (2,))]:
        p, q = data((a, m) + rest, 1, t), data((a, k) + rest, 2, t)
        x = data((a, m + k) + rest, 3, t)
        code = t.replace("float", "f").replace("int", "i")
        sizes = {
            s: ",".join(map(str, (a, e) + rest)) for s, e in (("p", m), ("q", k), ("y", m + k))
        }
        case(
            FILE,
            "concat_middle",
            {"p": sliced(p, "[::-1]"), "q": q, "y": f"zeros({sizes['y']}):{code}"},
            lambda p, q, **_: {"y": np.concatenate([p, q], 1)},
            ulps=0,
            out_types=narrow(t, "y"),
            name=f"concat_middle-{a}-{m}-{k}-{rest}-{t}",
        )
        case(
            FILE,
            "split_middle",
            {
                "x": sliced(x, "[:,::-1]"),
                "p": f"zeros({sizes['p']}):{code}",
                "q": f"zeros({sizes['q']}):{code}",
            },
            lambda x, m=m, **_: {"p": x[:, :m], "q": x[:, m:]},
            ulps=0,
            out_types=narrow(t, "p", "q"),
            name=f"split_middle-{a}-{m}-{k}-{rest}-{t}",
        )
for n, t in enumerate(TYPES):
    code = t.replace("float", "f").replace("int", "i")
    for lead, m, k in [
        ((40, 3), 70, 9),
        ((), 3, 4),
        ((0,), 2, 3),
        ((5,), 0, 33),
        ((9,), 1000, 1100),
    ]:
        p, q, x = (data(lead + (e,), i, t) for i, e in enumerate((m, k, m + k)))
        p, q = (sliced(v, "[::-1]") if lead else v for v in (p, q))
        sizes = [",".join(map(str, lead + (e,))) for e in (m, k, m + k)]
        case(
            FILE,
            "concat_last",
            {"p": p, "q": q, "y": f"zeros({sizes[2]}):{code}"},
            lambda p, q, **_: {"y": np.concatenate([p, q], -1)},
            ulps=0,
            out_types=narrow(t, "y"),
            name=f"concat_last-{lead}-{m}-{k}-{t}",
        )
        case(
            FILE,
            "split_last",
            {"x": x, "p": f"zeros({sizes[0]}):{code}", "q": f"zeros({sizes[1]}):{code}"},
            lambda x, m=m, **_: {"p": x[..., :m], "q": x[..., m:]},
            ulps=0,
            out_types=narrow(t, "p", "q"),
            name=f"split_last-{lead}-{m}-{k}-{t}",
        )
    for name, x in (
        ("transposed", permuted(data((100, 70), 1, t), 1, 0)),
        ("permuted", permuted(sliced(data((4, 9, 33, 3), 1, t), "[:,::-2]"), 2, 0, 3, 1)),
    ):
        case(
            FILE,
            "copy_permuted",
            {"x": x},
            lambda x, **_: {"y": x},
            ulps=0,
            out_types=narrow(t, "y"),
            name=f"copy_permuted-{name}-{t}",
        )
for code in ("f32", "bf16", "i32", "u8"):
    case(
        FILE,
        "fill",
        {"y": f"zeros(7,300):{code}", "value": 2.5},
        lambda y, code=code, **_: {"y": np.full((7, 300), 2.5 if "f" in code else 2)},
        out_types={"y": "bf16"} if code == "bf16" else {},
        name=f"fill-{code}",
    )
