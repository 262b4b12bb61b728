"""std/softmax.teg: softmax, log_softmax, long rows, gradients."""

from harness import *

FILE = "../../stdlib/softmax.teg"
TYPES = ("float32", "float16", "bf16", "float64")


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def softmax(x, **_):
    if x.size == 0:
        return {"y": x}
    e = np.exp(x - x.max(-1, keepdims=True))
    return {"y": e / e.sum(-1, keepdims=True)}


def log_softmax(x, **_):
    if x.size == 0:
        return {"y": x}
    z = x - x.max(-1, keepdims=True)
    return {"y": z - np.log(np.exp(z).sum(-1, keepdims=True))}


def softmax_backward(y, dy, **_):
    return {"dx": y * (dy - (y * dy).sum(-1, keepdims=True))}


def log_softmax_backward(y, dy, **_):
    return {"dx": dy - np.exp(y) * dy.sum(-1, keepdims=True)}


def check(kernel, f, args, t, out="y", **more):
    n = harness_extent(args)
    case(
        FILE,
        kernel,
        args,
        f,
        out_types={out: "bf16"} if t == "bf16" else {},
        length=n,
        ulps=32,
        **more,
    )


def harness_extent(args):
    return as_data(next(iter(args.values()))).value.shape[-1]


SHAPES = [(37, 1000), (1, 1), (5, 17), (2, 3, 64), (0, 9), (4, 0), (700,)]
for kernel, f in (("softmax", softmax), ("log_softmax", log_softmax)):
    for n, shape in enumerate(SHAPES):
        t = TYPES[n % 4]
        x = typed(normal(shape, 1, np.float64) * 5, t)
        check(kernel, f, {"x": x}, t, tune=[{"BR": 1}, {"BR": 4}], name=f"{kernel}-{shape}-{t}")
        check(kernel + "_long", f, {"x": x}, t, name=f"{kernel}_long-{shape}-{t}")
    for n, t in enumerate(TYPES):
        x = normal((2, 10, 260), 2, np.float64)
        views = [sliced(typed(x, t), "[::-1,::-2,::2]"), permuted(typed(x, t), 1, 2, 0)]
        for name, v in zip(("sliced", "permuted"), views):
            check(kernel, f, {"x": v}, t, name=f"{kernel}-{name}-{t}")
            if n % 2 == 0:
                check(kernel + "_long", f, {"x": v}, t, name=f"{kernel}_long-{name}-{t}")
    long_row = normal((3, 9000), 3, np.float64) * 9
    check(kernel, f, {"x": long_row}, "float64", name=f"{kernel}-9000")
    check(kernel + "_long", f, {"x": long_row}, "float64", name=f"{kernel}_long-9000")
    for length, t in ((32760, "bf16"), (32001, "float16")):  # packed during the barriers
        x = typed(normal((2, length), 4, np.float64) * 5, t)
        check(kernel, f, {"x": x}, t, name=f"{kernel}-{length}-{t}")
    masked = normal((4, 50), 4)
    masked[:, 10:] = -np.inf  # and a row of -inf only
    masked[3] = -np.inf
    with np.errstate(invalid="ignore"):
        for k in (kernel, kernel + "_long"):
            check(k, f, {"x": masked}, "float32", name=f"{k}-masked")

    for k in (kernel, kernel + "_long"):
        x = normal((5, 300), 6)
        check(k, f, {"x": x, "y": "same(x)"}, "float32", name=f"{k}-inplace")

for kernel, f in (("softmax", softmax), ("log_softmax_long", log_softmax)):
    x = f8e5m2(normal((9, 70), 7) * 3)
    case(FILE, kernel, {"x": x}, f, out_types={"y": "f8e5m2"}, length=70, name=f"{kernel}-f8e5m2")
for n, t in enumerate(TYPES):
    x = normal((6, 5, 130), 5 + n, np.float64)
    dy = typed(normal((6, 5, 130), 9 + n, np.float64), t)
    y, z = typed(softmax(x)["y"], t), typed(log_softmax(x)["y"], t)
    check("softmax_backward", softmax_backward, {"y": y, "dy": dy}, t, "dx")
    check("log_softmax_backward", log_softmax_backward, {"y": z, "dy": dy}, t, "dx")
    check("softmax_backward", softmax_backward, {"y": y, "dy": sliced(dy, "[::-1]")}, t, "dx")
