"""Tensors, parameters, constants, functions and names: sections 2, 4, 5, 13 and 17 of the specification."""
from harness import *


def numbers(*shape, first=1):
    return np.arange(first, first + int(np.prod(shape)), dtype=np.int32).reshape(shape)


def both(x, f, y=None, s=None):
    return {"y": x + f[..., None], "s": [f.size, x.shape[-1], x.size]}


for shape in [(), (3,), (2, 3), (2, 1, 3), (2, 0), (1, 1)]:
    case("language_tensors.teg", "packed", {"x": numbers(*shape, 5), "f": numbers(*shape, first=100)}, both,
         tune=[{"B": 1}, {"B": 4}])
x = numbers(4, 6, 5)
VIEWS = [sliced(x, "[::2, ::3]"), sliced(x, "[::-1, 1::2]"), sliced(x, "[:, ::-1, ::-2]"), permuted(x, 1, 0, 2),
     permuted(x, 2, 1, 0),
         expanded(numbers(6, 5), 3), expanded(numbers(3, 5), 4, 1), fortran(x), sliced(x, "[1:2, 1:]"), sliced(x,
              "[:, 2:3]"), sliced(x, "[0:0]")]
for k, view in enumerate(VIEWS):
    shape = view.value.shape[:2]
    case("language_tensors.teg", "packed", {"x": view, "f": numbers(*shape, first=100)}, both, tune=[{"B": 1}, {"B": 4}],
         name=f"packed_view-{k}")
    case("language_tensors.teg", "packed", {"x": view, "f": permuted(numbers(*shape[::-1], first=100), 1, 0)}, both,
         tune=[{"B": 4}], name=f"packed_views-{k}")


def pack_tiles(x, t, **_):
    flat = x.reshape(len(x), -1)
    n = flat.shape[1]
    up = np.append(flat[0, 1:], -1) + np.append(-2, flat[-1, :-1]) * 1000
    shape = x.shape[1:]
    return {"y": x * 2, "t": flat, "p": x.sum(0), "at": np.arange(n).reshape(shape), "up": up.reshape(shape)}


for k, view in enumerate([numbers(2, 3, 4), numbers(2, 7), numbers(3), sliced(numbers(2, 6, 8), "[:, ::2, 1:5]"),
     sliced(numbers(2, 3, 9), "[:, ::-1, ::-2]"),
                          permuted(numbers(4, 3, 2), 2, 1, 0), sliced(numbers(2, 3, 8, 5),
                               "[:, ::2, ::3, :4]"), expanded(numbers(2, 5), 3, 1)]):
    v = as_data(view).value
    case("language_tensors.teg", "pack_tiles", {"x": view, "t": f"zeros({v.shape[0]},{v[0].size}):i32"}, pack_tiles,
         tune=[{"B": 1}, {"B": 4}, {"B": 16}], name=f"pack_tiles-{k}")
for k, view in enumerate([np.array(7, np.int32), numbers(5), numbers(2, 3), numbers(2, 3, 4), sliced(numbers(4, 6),
     "[::2, ::2]"), numbers(0), numbers(2, 0, 3),
                          sliced(numbers(4, 5, 6), "[::-1, ::2, ::3]")]):
    case("language_tensors.teg", "pack_ends", {"x": view}, lambda x: {"y": x + 1, "z": np.stack([0 * x, x], -1)},
         tune=[{"B": 1}, {"B": 4}, {"B": 16}], name=f"pack_ends-{k}")
for k, view in enumerate([numbers(3, 4), numbers(3, 2, 4), numbers(2, 3, 2, 3), sliced(numbers(3, 6, 4), "[:, ::2]"),
     sliced(numbers(2, 4, 6, 5), "[:, ::2, ::-3, ::2]")]):
    case("language_tensors.teg", "middle", {"x": view}, lambda x: {"y": np.moveaxis(x.sum(0), -1, 0), "z": x.sum(-1)},
         tune=[{"B": 1}, {"B": 4}], name=f"middle-{k}")
for b in (True, False):
    case("language_tensors.teg", "scalars", {"a": np.array(1.5, np.float32), "k": np.array(-1, np.int64), "s": 4.0, "b": b,
         "c": -7, "u": 200},
         {"y": np.array(-1.0 + 200 * b), "k": np.array(0)})
case("language_tensors.teg", "scalars", {"a": 1.5, "k": np.array(2 ** 40, np.int64), "s": 4.0, "b": False, "c": 2 ** 50,
     "u": 0},
     {"y": np.array(np.float32(2.0 ** 50)), "k": np.array(2 ** 40 + 1)})
for view in (numbers(1, 2, 1, 2, 1, 2, 3, 2), permuted(numbers(2, 3, 1, 2, 1, 2, 1, 2), 7, 6, 5, 4, 3, 2, 1, 0)):
    case("language_tensors.teg", "eight", {"x": view}, lambda x: {"y": 2 * x}, tune=[{"T": 1}, {"T": 2}])
for a in (None, numbers(6, first=10)):
    for b in (None, numbers(6, 3, first=20)):
        v = numbers(6) + (a if a is not None else -1)
        v = v * 2 if a is not None and b is not None else v
        v = v + 1000 if b is None or a is not None else v
        v = v + b.sum(1) if b is not None else v
        v = v + 10 * numbers(6) + (10 * a if a is not None else 0)
        has = [a is not None, b is not None, a is not None or b is not None]
        case("language_tensors.teg", "optional", {"x": numbers(6), "a": a, "b": b}, {"y": v, "has": has})
args = {"a": numbers(6), "b": numbers(5), "d": numbers(3, 2), "e": numbers(4, 5)}
case("language_tensors.teg", "sized", {**args, "c": numbers(4)}, {"s": [2, 3, 4]})
case("language_tensors.teg", "sized", {**args, "c": numbers(5)}, fails="'c'")
case("language_tensors.teg", "sized", {**args, "a": numbers(7), "c": numbers(4)}, fails="'a'")
case("language_tensors.teg", "sized", {**args, "b": numbers(0), "c": numbers(4)}, fails="E + 1 is 5 here and 0 in 'b'")
case("language_tensors.teg", "sized", {**args, "e": numbers(4, 6), "c": numbers(4)}, fails="'e'")
args = {"a": normal((2, 64), 1), "b": normal((64, 3), 2), "k": 5}
case("language_tensors.teg", "requires", args, {"a": np.zeros((2, 64))}, tune=[{"BK": 4}, {"BK": 8}])
case("language_tensors.teg", "requires", {**args, "b": normal((32, 3), 2)}, fails="K is 64 in 'a' and 32 in 'b'")
case("language_tensors.teg", "requires", {**args, "k": 2}, fails="k > M does not hold")
case("language_tensors.teg", "requires", {**args, "a": sliced(normal((2, 128), 1), "[:, ::2]")},
     fails="stride(a, 1) == 1 does not hold")
case("language_tensors.teg", "requires", {**args, "b": normal((64, 100), 2)}, fails="N < 100 does not hold")
case("language_tensors.teg", "requires", {**args, "a": normal((2, 12), 1), "b": normal((12, 3), 2)}, tune=[{"BK": 8}],
     fails="K % BK == 0 does not hold")
case("language_tensors.teg", "requires", {**args, "a": normal((2, 64, 1), 1)},
     fails="'a' has 2 dimensions, the argument has 3")
case("language_tensors.teg", "requires", {**args, "a": numbers(2, 64)}, fails="'a' is of f32 here, the argument is of i32")
for k in (1, 2, 3):
    for flag in (True, False):
        def consts(x, k, flag, q, b, y=None):
            n = len(x)
            w = np.pad(x, (0, k + b))[:k + b]
            step = k * b
            return {"y": [k * b, k + b, k * q - 1 if flag else -1, w[1:k].sum(), 1 if flag else 2, -(-n // step) * step]}
        for b in (2, 4):
            if k == 1:
                continue
            if b <= 2 * k:
                case("language_tensors.teg", "consts", {"x": numbers(9), "k": k, "flag": flag, "q": 3}, lambda b=b,
                     **a: consts(b=b, **a), tune=[{"B": b}])
case("language_tensors.teg", "consts", {"x": numbers(9), "k": 1, "flag": True, "q": 3}, tune=[{"B": 4}], fails="B <= k * 2")


def calls(a, b, m=None, **_):
    c = (a @ b) ** 4
    k = a.shape[1]
    d = np.pad(a, ((0, 0), (0, max(0, 4 - k))))[:, :4] * 2 + len(a) * 100
    return c, d


for t in (np.float32, np.float16):
    for m, k, n in [(5, 3, 9), (1, 4, 1), (8, 7, 8)]:
        for bm in (1, 4):
            a, b = integers((m, k), 3, -2, 3, t), integers((k, n), 4, -2, 3, t)
            case("language_tensors.teg", "calls", {"a": a, "b": b}, lambda a, b, bm=bm: {
                "c": calls(a, b)[0], "d": calls(a, b)[1] + bm,
                "y": [1, 10, 2.5, 3, 3 * (1 + 1 / 2 + 1 / 3 + 1 / 4), 5, 3 + 0 + 1, 2]}, tune=[{"BM": bm}])
for m in (1, 6):
    def names(x, **_):
        g = x[:, 0]
        near = np.arange(len(x))[:, None] // 4 == np.arange(len(x))[None] // 4
        return {"y": [g + 1000, g * 2, np.where(g > 0, g * 10, 0), x.sum(1) + 1], "z": np.where(near, x @ x.T, 0),
             "sum": [10, 4]}
    case("language_tensors.teg", "names", {"x": normal((m, 3), 5), "z": np.zeros((m, m), np.float32)}, names, length=3)
case("language_tensors.teg", "call_lib", {"x": numbers(9)}, lambda x: {"y": 10 * x})
case("language_lib.teg", "lib_scale", {"x": numbers(9)}, fails="unknown name 'SCALE'")
case("language_tensors.teg", "cached", {"x": normal((9,), 6)}, lambda x: {"y": 4 * x})
x = normal((6, 10), 7)
for k, (v, w, y) in enumerate([(x, normal((10,), 8), None), (sliced(x, "[::-1, ::-1]"), sliced(normal((20,), 8), "[::-2]"),
     None),
                               (fortran(x), normal((10,), 8), fortran(np.zeros((6, 10), np.float32))),
                               (expanded(normal((10,), 9), 6), expanded(np.array(2, np.float32), 10), sliced(np.zeros((12,
                                    30), np.float32), "[::-2, ::3]")),
                               (permuted(normal((10, 6), 9), 1, 0), normal((10,), 8), permuted(np.zeros((10, 6),
                                    np.float32), 1, 0)),
                               (sliced(normal((6, 40), 9), "[:, 7:37:3]"), normal((10,), 8), sliced(np.zeros((6, 11),
                                    np.float32), "[:, 1:]"))]):
    case("language_tensors.teg", "viewed", {"x": v, "w": w, **({} if y is None else {"y": y})}, lambda x, w,
         **_: {"y": x * w},
         tune=[{"BM": 1, "BN": 4}, {"BM": 4, "BN": 16}], name=f"viewed-{k}", ulps=1)
case("language_tensors.teg", "viewed", {"x": x, "w": normal((10,), 8), "y": expanded(np.zeros((10,), np.float32), 6)},
     fails="stride")
case("language_tensors.teg", "unit", {"x": numbers(1, 9, 1)}, lambda x: {"y": 3 * x[0, :, 0], "z": [x.sum()]})
case("language_tensors.teg", "unit", {"x": numbers(2, 9, 1)}, fails="'x'")
