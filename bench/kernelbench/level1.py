# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The 100 problems of KernelBench, level 1: a row each, with PyTorch's way and calls of Tegula's library.

This file needs no PyTorch: references get the module `torch` as an argument, and inputs are descriptions
(`Data`). Shapes, constants and operations are those of KernelBench's problems.
"""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Data:
    """An input: its shape, and how its elements are drawn (`draw` of problem.py has the kinds)."""

    shape: tuple
    kind: str = "normal"
    scale: float = 1.0  # of normal numbers
    below: int = 0  # the end of labels


@dataclasses.dataclass(frozen=True)
class Call:
    """A launch of a kernel of the library. arguments(inputs, output, scratch) are the kernel's, by name."""

    file: str
    kernel: str
    arguments: object


@dataclasses.dataclass
class Row:
    number: int
    name: str
    family: str
    extents: tuple  # the problem's
    least: tuple  # extents of a shrunk trial are not below these
    inputs: object  # extents -> name -> Data
    output: object  # extents -> shape
    reference: object  # the module torch, inputs -> tensor
    calls: tuple  # ours, in their order
    batch: dict = dataclasses.field(default_factory=dict)  # input -> axis along which results are independent
    axis: int = 0  # that axis of the result
    scratch: object = None  # extents -> name -> shape, of f32
    flops: object = None  # extents -> number
    tf32: tuple = ()  # calls in TF32, for --tf32
    found: str = ""  # "amax" or "amin": the result has positions along axis 1 of those elements of x
    one_number: bool = False  # the result is a number: it has the limit of a whole result, not of an element
    limit: float = 1e-5
    yardstick: object = None  # extents -> the error that an element of f32 in plain order may always have

    @property
    def convolves(self):
        return "convolution" in self.family

    def shrunk(self, by):
        """Extents of a trial: divided, but not below `least` (or the problem's own)."""
        if by <= 1:
            return self.extents
        return tuple(max(n // by, min(n, least)) for n, least in zip(self.extents, self.least))


ROWS = {}


def row(number, name, family, extents, least, inputs, output, reference, *calls, **more):
    assert number not in ROWS and len(extents) == len(least)
    ROWS[number] = Row(number, name, family, extents, least, inputs, output, reference, calls, **more)


def product(shape):
    return math.prod(shape)


def sum_in_order(terms, results):
    """The expected greatest error of sums of `terms` normal numbers that f32 adds up one after the other. A
    partial sum of k terms has the deviation sqrt(k), and its rounding is uniform within 2^-24 of it."""
    return 2.0**-24 * terms / math.sqrt(6) * math.sqrt(2 * math.log(max(2, results)))


def product_in_order(factors, rows):
    """The same for products of e^(z / 100), z normal, near the greatest of them."""
    rounding = 2.0**-24 * math.sqrt(factors / 3)
    normal = math.sqrt(2 * math.log(max(2, rows)))
    return rounding * normal * math.exp(0.01 * math.sqrt(factors) * normal)


# ---- products ------------------------------------------------------------------------------------


def matmul(number, name, m, k, n, letters="nn", kind="normal", half="", least=(37, 45, 53), **more):
    """c = a b. letters: which operands are stored transposed; half: triangles, "u" or "l"."""
    ta, tb = letters[0] == "t", letters[1] == "t"
    kernel = {"": "matmul" if letters == "nn" else "matmul_" + letters, "u": "matmul_upper", "l": "matmul_lower"}[half]

    def inputs(m, k, n):
        return {"a": Data((k, m) if ta else (m, k), kind), "b": Data((n, k) if tb else (k, n), kind)}

    def reference(t, i):
        c = t.matmul(i["a"].T if ta else i["a"], i["b"].T if tb else i["b"])
        return t.triu(c) if half == "u" else t.tril(c) if half == "l" else c

    def tf32(i, o, s):
        a = i["a"].T if ta else i["a"]
        return {"a": a, "b": i["b"] if tb else i["b"].T, "c": o, "terms": 1}

    row(
        number, name, "products", (m, k, n), least, inputs, lambda m, k, n: (m, n), reference,
        Call("matmul", kernel, lambda i, o, s: {"a": i["a"], "b": i["b"], "c": o}),
        batch={} if half else {"a": 1 if ta else 0},
        flops=lambda m, k, n: 2 * m * k * n / (6 if half else 1),
        tf32=() if half else (Call("matmul", "matmul_tf32_nt", tf32),), **more,
    )


matmul(1, "square matmul", 4096, 4096, 4096)
matmul(2, "matmul", 2048, 8192, 4096)
matmul(6, "matmul, large K", 256, 524288, 256, limit=1e-4, yardstick=lambda m, k, n: sum_in_order(k, m * n))
matmul(7, "matmul, small K", 32768, 64, 32768)
matmul(8, "matmul, odd shapes", 8205, 2949, 5921)
matmul(9, "matmul, tall and thin", 32768, 32, 32768, least=(37, 32, 53))
matmul(13, "matmul, symmetric", 4096, 4096, 4096, kind="symmetric", least=(75, 75, 75))
matmul(14, "matmul, upper triangular", 4096, 4096, 4096, kind="upper", half="u", least=(141, 141, 141))
matmul(15, "matmul, lower triangular", 4096, 4096, 4096, kind="lower", half="l", least=(141, 141, 141))
matmul(16, "matmul, A transposed", 2048, 8192, 4096, "tn")
matmul(17, "matmul, B transposed", 2048, 8192, 4096, "nt")
matmul(18, "matmul, both transposed", 2048, 8192, 4096, "tt")

row(
    3, "batched matmul", "products", (128, 512, 1024, 2048), (3, 21, 45, 53),
    lambda b, m, k, n: {"a": Data((b, m, k)), "b": Data((b, k, n))},
    lambda b, m, k, n: (b, m, n),
    lambda t, i: t.bmm(i["a"], i["b"]),
    Call("matmul", "batch_matmul", lambda i, o, s: {"a": i["a"], "b": i["b"], "c": o}),
    batch={"a": 0, "b": 0}, flops=lambda b, m, k, n: 2 * b * m * k * n,
)
row(
    4, "matrix times vector", "products", (2048, 1048576), (37, 5000),
    lambda m, k: {"a": Data((m, k)), "b": Data((k, 1))},
    lambda m, k: (m, 1),
    lambda t, i: t.matmul(i["a"], i["b"]),
    Call("matmul", "matvec", lambda i, o, s: {"a": i["a"], "x": i["b"][:, 0], "y": o[:, 0]}),
    batch={"a": 0}, limit=1e-4,
)
row(
    5, "matrix times scalar", "products", (65536, 16384), (50, 701),
    lambda m, n: {"a": Data((m, n))},
    lambda m, n: (m, n),
    lambda t, i: i["a"] * 3.14,
    Call("elementwise", "map_scale", lambda i, o, s: {"x": i["a"], "y": o, "s": 3.14}),
    batch={"a": 0},
)


def flat(name):
    """A product with all dims of a but the last one merged."""
    def arguments(i, o, s):
        a, b = i["a"].view(-1, i["a"].shape[-1]), i["b"]
        c = o.view(-1, o.shape[-1])
        return {"a": a, "b": b, "c": c} if name == "matmul" else {"a": a, "b": b.T, "c": c, "terms": 1}

    return Call("matmul", name, arguments)


row(
    10, "3D tensor times matrix", "products", (16, 1024, 2048, 768), (3, 21, 45, 53),
    lambda b, m, k, n: {"a": Data((b, m, k)), "b": Data((k, n))},
    lambda b, m, k, n: (b, m, n),
    lambda t, i: t.matmul(i["a"], i["b"]),
    flat("matmul"), tf32=(flat("matmul_tf32_nt"),),
    batch={"a": 0}, flops=lambda b, m, k, n: 2 * b * m * k * n,
)
row(
    11, "4D tensor times matrix", "products", (8, 256, 512, 256, 768), (2, 5, 21, 64, 53),
    lambda b, x, y, k, n: {"a": Data((b, x, y, k)), "b": Data((k, n))},
    lambda b, x, y, k, n: (b, x, y, n),
    lambda t, i: t.einsum("bijl,lk->bijk", i["a"], i["b"]),
    flat("matmul"), tf32=(flat("matmul_tf32_nt"),),
    batch={"a": 0}, flops=lambda b, x, y, k, n: 2 * b * x * y * k * n,
)
row(
    12, "diagonal times matrix", "products", (4096, 4096), (70, 301),
    lambda n, m: {"a": Data((n,)), "b": Data((n, m))},
    lambda n, m: (n, m),
    lambda t, i: i["a"].unsqueeze(1) * i["b"],
    Call("elementwise", "zip_mul", lambda i, o, s: {"a": i["a"][:, None].expand(o.shape), "b": i["b"], "y": o}),
    batch={"a": 0, "b": 0},
)

# ---- activations, softmax ------------------------------------------------------------------------


def unary(number, name, kernel, reference, shape=(4096, 393216), file="elementwise", family="activations", **constants):
    row(
        number, name, family, shape, (5, 1037) if file == "elementwise" else (5, 9001),
        lambda *e: {"x": Data(e)},
        lambda *e: e,
        lambda t, i: reference(t, i["x"]),
        Call(file, kernel, lambda i, o, s: {"x": i["x"], "y": o} | constants),
        batch={"x": 0},
    )


def gelu_tanh(t, x):
    return 0.5 * x * (1 + t.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * t.pow(x, 3))))


unary(19, "ReLU", "map_relu", lambda t, x: t.relu(x))
unary(20, "leaky ReLU", "map_leaky_relu", lambda t, x: t.nn.functional.leaky_relu(x, 0.01), slope=0.01)
unary(21, "sigmoid", "map_sigmoid", lambda t, x: t.sigmoid(x))
unary(22, "tanh", "map_tanh", lambda t, x: t.tanh(x))
unary(25, "swish", "map_silu", lambda t, x: x * t.sigmoid(x))
unary(26, "GELU", "map_gelu", lambda t, x: t.nn.functional.gelu(x))
unary(27, "SELU", "map_selu", lambda t, x: t.selu(x))
unary(28, "hard sigmoid", "map_hardsigmoid", lambda t, x: t.nn.functional.hardsigmoid(x))
unary(29, "softplus", "map_softplus", lambda t, x: t.nn.functional.softplus(x))
unary(30, "softsign", "map_softsign", lambda t, x: x / (1 + t.abs(x)))
unary(31, "ELU", "map_elu", lambda t, x: t.nn.functional.elu(x, alpha=1.0), a=1.0)
unary(32, "hard tanh", "map_hardtanh", lambda t, x: t.nn.functional.hardtanh(x, min_val=-1.0, max_val=1.0), low=-1.0, high=1.0)
unary(88, "GELU by tanh", "map_gelu_tanh", gelu_tanh, (8192, 8192))
unary(23, "softmax", "softmax_long", lambda t, x: t.softmax(x, dim=1), file="softmax", family="softmax")
unary(24, "log softmax", "log_softmax_long", lambda t, x: t.log_softmax(x, dim=1), file="softmax", family="softmax")

# ---- norms ---------------------------------------------------------------------------------------

PLANES = (112, 64, 512, 512)


def norm(number, name, extents, least, weights, reference, *calls, **more):
    """weights: the shape of g and h, of extents, or None."""
    def inputs(*e):
        both = {} if weights is None else {n: Data(weights(*e)) for n in "gh"}
        return {"x": Data(e)} | both

    more = {"batch": {"x": 0}} | more
    row(number, name, "norms", extents, least, inputs, lambda *e: e, reference, *calls, **more)


norm(
    33, "batch norm, training", (64, 64, 512, 512), (4, 8, 13, 14), lambda b, c, *_: (c,),
    lambda t, i: t.nn.functional.batch_norm(i["x"], None, None, i["g"], i["h"], training=True, eps=1e-5),
    Call("norm", "batch_norm_train", lambda i, o, s: {
        "x": i["x"], "g": i["g"], "h": i["h"], "y": o, "mean": s["mean"], "var_": s["var"], "eps": 1e-5}),
    batch={"x": 1, "g": 0, "h": 0}, axis=1, scratch=lambda b, c, h, w: {"mean": (c,), "var": (c,)},
)
norm(
    34, "instance norm", PLANES, (3, 8, 13, 14), None,
    lambda t, i: t.nn.functional.instance_norm(i["x"], eps=1e-5),
    Call("norm", "layer_norm_long", lambda i, o, s: {
        "x": i["x"].flatten(2), "g": None, "h": None, "y": o.flatten(2), "eps": 1e-5}),
)
norm(
    35, "group norm", PLANES, (3, 16, 13, 14), lambda b, c, *_: (c,),
    lambda t, i: t.nn.functional.group_norm(i["x"], 8, i["g"], i["h"], eps=1e-5),
    Call("norm", "group_norm", lambda i, o, s: {
        "x": i["x"], "g": i["g"], "h": i["h"], "y": o, "groups": 8, "eps": 1e-5}),
)
norm(
    36, "RMS norm of channels", PLANES, (3, 24, 13, 14), None,
    lambda t, i: i["x"] / t.sqrt(t.mean(i["x"] ** 2, dim=1, keepdim=True) + 1e-5),
    Call("norm", "rms_norm_axis", lambda i, o, s: {
        "x": i["x"].flatten(2), "g": None, "y": o.flatten(2), "eps": 1e-5}),
)
norm(
    37, "Frobenius norm", PLANES, (3, 8, 13, 14), None,
    lambda t, i: i["x"] / t.norm(i["x"], p="fro"),
    Call("norm", "frobenius_normalise", lambda i, o, s: {"x": i["x"], "y": o, "s": 1.0, "eps": 0.0}),
    batch={},
)
norm(
    38, "by the mean magnitude", (32768, 65535), (9, 4999), None,
    lambda t, i: i["x"] / t.mean(t.abs(i["x"]), dim=1, keepdim=True),
    Call("norm", "l1_normalise", lambda i, o, s: {"x": i["x"], "y": o, "s": float(o.shape[1]), "eps": 0.0}),
)
norm(
    39, "by the Euclidean norm", (32768, 65535), (9, 4999), None,
    lambda t, i: i["x"] / t.norm(i["x"], p=2, dim=1, keepdim=True),
    Call("norm", "l2_normalise", lambda i, o, s: {"x": i["x"], "y": o, "s": 1.0, "eps": 0.0}),
)
norm(
    40, "layer norm of three dims", (16, 64, 256, 256), (3, 8, 15, 17), lambda b, *e: e,
    lambda t, i: t.nn.functional.layer_norm(i["x"], i["g"].shape, i["g"], i["h"], eps=1e-5),
    Call("norm", "layer_norm_long", lambda i, o, s: {
        "x": i["x"].flatten(1), "g": i["g"].flatten(), "h": i["h"].flatten(), "y": o.flatten(1), "eps": 1e-5}),
)

# ---- pooling -------------------------------------------------------------------------------------

AXES = {1: "x", 2: "yx", 3: "zyx"}
TAPS = {1: "S", 2: "RS", 3: "QRS"}


def named(letter, values):
    """sy, sx and so on."""
    return {letter + a: v for a, v in zip(AXES[len(values)], values)}


def extents_of(size, window, s, p, d):
    return tuple((n + 2 * q - e * (k - 1) - 1) // r + 1 for n, k, r, q, e in zip(size, window, s, p, d))


def pool(number, name, kind, extents, least, window, s, p, d=1):
    """kind: "max" or "avg"."""
    rank = len(extents) - 2
    window, s, p, d = ((v,) * rank for v in (window, s, p, d))
    constants = dict(zip(TAPS[rank], window)) | named("s", s) | named("p", p)
    constants |= named("d", d) | {"at": None} if kind == "max" else {"padded": True}

    def reference(t, i):
        f = getattr(t.nn.functional, f"{kind}_pool{rank}d")
        return f(i["x"], window, s, p, d) if kind == "max" else f(i["x"], window, s, p)

    row(
        number, name, "pooling", extents, least,
        lambda *e: {"x": Data(e)},
        lambda b, c, *size: (b, c, *extents_of(size, window, s, p, d)),
        reference,
        Call("pool", f"{kind}_pool{rank}d", lambda i, o, s: {"x": i["x"], "y": o} | constants),
        batch={"x": 0},
    )


pool(41, "max pool 1D", "max", (64, 192, 65536), (3, 5, 203), 8, 1, 4, 3)
pool(42, "max pool 2D", "max", (32, 64, 512, 512), (2, 3, 20, 23), 4, 1, 1)
pool(43, "max pool 3D", "max", (16, 32, 128, 128, 128), (2, 2, 14, 15, 16), 3, 2, 1, 3)
pool(44, "average pool 1D", "avg", (64, 128, 65536), (2, 5, 103), 8, 1, 4)
pool(45, "average pool 2D", "avg", (16, 64, 2048, 2048), (2, 3, 36, 47), 11, 11, 0)
pool(46, "average pool 3D", "avg", (16, 32, 128, 128, 256), (2, 2, 9, 10, 13), 3, 2, 1)

# ---- reductions over the middle dimension --------------------------------------------------------


def middle(number, name, kernel, reference, keep=False, **more):
    row(
        number, name, "reductions", (128, 4096, 4095), (3, 101, 61),
        lambda a, n, b: {"x": Data((a, n, b))},
        lambda a, n, b: (a, 1, b) if keep else (a, b),
        lambda t, i: reference(t, i["x"]),
        Call("reduce", kernel, lambda i, o, s: {"x": i["x"], "y": o.view(o.shape[0], -1)}),
        batch={"x": 0}, **more,
    )


middle(47, "sum", "sum_axis", lambda t, x: t.sum(x, dim=1, keepdim=True), keep=True)
middle(48, "mean", "mean_axis", lambda t, x: t.mean(x, dim=1))
middle(49, "max", "max_axis", lambda t, x: t.max(x, dim=1)[0])
middle(51, "argmax", "argmax_axis", lambda t, x: t.argmax(x, dim=1), found="amax")
middle(52, "argmin", "argmin_axis", lambda t, x: t.argmin(x, dim=1), found="amin")
middle(53, "min", "min_axis", lambda t, x: t.min(x, dim=1)[0])

# ---- convolutions --------------------------------------------------------------------------------


def tuple_of(v, rank):
    return tuple(v) if isinstance(v, tuple) else (v,) * rank


def small(size, taps, s, p, d):
    """Least pixels: a few windows, an odd number more along each axis."""
    base = {1: 90, 2: 13, 3: 6}[len(size)]
    need = [e * (k - 1) + 3 * r - 2 * q for k, r, q, e in zip(taps, s, p, d)]
    return tuple(max(base + j, n + j, 2) for j, n in enumerate(need))


def conv(number, name, b, c, f, size, taps, s=1, p=0, d=1, bias=False, depthwise=False):
    rank = len(size)
    taps, s, p, d = (tuple_of(v, rank) for v in (taps, s, p, d))
    constants = named("s", s) | named("p", p) | named("d", d) | {"act": 0}
    groups = lambda c: c if depthwise else 1
    if depthwise:
        f = c

    def inputs(b, c, f, *size):
        f, each = (c, 1) if depthwise else (f, c)
        w = Data((f, each, *taps), scale=(each * product(taps)) ** -0.5)
        return {"x": Data((b, c, *size)), "w": w} | ({"bias": Data((f,))} if bias else {})

    def reference(t, i):
        g = i["x"].shape[1] // i["w"].shape[1]
        f = getattr(t.nn.functional, f"conv{rank}d")
        return f(i["x"], i["w"], i.get("bias"), stride=s, padding=p, dilation=d, groups=g)

    def arguments(i, o, s):
        w = i["w"][:, 0] if depthwise else i["w"]
        return {"x": i["x"], "w": w, "bias": i.get("bias"), "y": o} | constants

    row(
        number, name, "depthwise convolutions" if depthwise else "convolutions", (b, c, f, *size),
        (2, min(c, 9), min(f, 21), *small(size, taps, s, p, d)),
        inputs, lambda b, c, f, *e: (b, c if depthwise else f, *extents_of(e, taps, s, p, d)), reference,
        Call("conv", "depthwise_conv2d" if depthwise else f"conv{rank}d", arguments),
        batch={"x": 0},
        flops=lambda b, c, f, *e: 2 * b * f * product(extents_of(e, taps, s, p, d)) * c // groups(c) * product(taps),
    )


conv(50, "conv2d 11x11, stride 4", 256, 3, 96, (224, 224), 11, 4, 2, bias=True)
conv(54, "conv3d 3x3x3", 16, 3, 64, (64, 64, 64), 3)
conv(55, "conv2d 3x3, wide image", 8, 64, 128, (512, 1024), 3)
conv(56, "conv2d 5x7", 8, 64, 128, (512, 256), (5, 7))
conv(59, "conv3d 3x3x1", 16, 3, 64, (256, 256, 10), (3, 3, 1))
conv(60, "conv3d 3x5x7", 16, 3, 64, (64, 64, 64), (3, 5, 7))
conv(62, "conv2d 5x9", 8, 32, 64, (512, 512), (5, 9))
conv(63, "conv2d 3x3, large image", 16, 16, 128, (1024, 1024), 3)
conv(66, "conv3d 3x5x7, flat", 8, 3, 64, (16, 128, 128), (3, 5, 7))
conv(67, "conv1d 3", 32, 64, 128, (131072,), 3)
conv(76, "conv1d 3, stride 3, dilation 4", 64, 64, 128, (524280,), 3, 3, 0, 4)
conv(80, "conv2d 5x9, padded, dilated", 8, 32, 64, (512, 512), (5, 9), 1, (2, 4), (2, 3))
conv(82, "depthwise 3x3", 16, 64, 64, (512, 512), 3, depthwise=True)
conv(83, "depthwise 3x1", 64, 8, 8, (512, 512), (3, 1), depthwise=True)
conv(84, "depthwise 3x3, wide image", 64, 128, 128, (256, 512), 3, depthwise=True)
conv(85, "depthwise 3x7", 32, 128, 128, (128, 256), (3, 7), depthwise=True)
conv(87, "pointwise", 16, 64, 128, (1024, 1024), 1)
ONES2 = named("s", (1, 1)) | named("d", (1, 1)) | {"act": 0, "bias": None}
row(
    86, "depthwise, then pointwise", "depthwise convolutions", (16, 64, 128, 512, 512), (2, 9, 21, 13, 14),
    lambda b, c, f, h, w: {
        "x": Data((b, c, h, w)), "d": Data((c, 1, 3, 3), scale=1 / 3), "w": Data((f, c, 1, 1), scale=c**-0.5)},
    lambda b, c, f, h, w: (b, f, h, w),
    lambda t, i: t.nn.functional.conv2d(
        t.nn.functional.conv2d(i["x"], i["d"], padding=1, groups=i["x"].shape[1]), i["w"]),
    Call("conv", "depthwise_conv2d", lambda i, o, s: {
        "x": i["x"], "w": i["d"][:, 0], "y": s["t"]} | named("p", (1, 1)) | ONES2),
    Call("conv", "conv2d", lambda i, o, s: {"x": s["t"], "w": i["w"], "y": o} | named("p", (0, 0)) | ONES2),
    batch={"x": 0}, scratch=lambda b, c, f, h, w: {"t": (b, c, h, w)},
    flops=lambda b, c, f, h, w: 2 * b * c * h * w * (f + 9),
)


def conv_transpose(number, name, b, c, f, size, taps, s=1, p=0, d=1, groups=1, more=0):
    """more: torch's output_padding."""
    rank = len(size)
    taps, s, p, d, more = (tuple_of(v, rank) for v in (taps, s, p, d, more))
    constants = named("s", s) | named("p", p) | named("d", d) | {"act": 0, "bias": None}

    def whole(n):
        """A number of channels that the groups share evenly."""
        return n - n % groups

    def inputs(b, c, f, *size):
        c, f = whole(c), whole(f)
        w = Data((c, f // groups, *taps), scale=(c // groups * product(taps)) ** -0.5)
        return {"x": Data((b, c, *size)), "w": w}

    def output(b, c, f, *size):
        ends = zip(size, taps, s, p, d, more)
        return (b, whole(f), *((n - 1) * r + e * (k - 1) + 1 - 2 * q + m for n, k, r, q, e, m in ends))

    def reference(t, i):
        f = getattr(t.nn.functional, f"conv_transpose{rank}d")
        return f(i["x"], i["w"], None, stride=s, padding=p, output_padding=more, groups=groups, dilation=d)

    row(
        number, name, "transposed convolutions", (b, c, f, *size),
        (2, 12, 20, *({1: 41, 2: 9, 3: 5}[rank] + j for j in range(rank))),
        inputs, output, reference,
        Call("conv", f"conv_transpose{rank}d", lambda i, o, s: {"x": i["x"], "w": i["w"], "y": o} | constants),
        batch={"x": 0},
        flops=lambda b, c, f, *e: 2 * b * c * product(e) * f // groups * product(taps),
    )


conv_transpose(57, "transposed 2D 3x3", 8, 64, 64, (1024, 1024), 3)
conv_transpose(58, "transposed 3D 3x5x7", 16, 32, 16, (16, 32, 64), (3, 5, 7))
conv_transpose(61, "transposed 3D 3x3x3", 8, 48, 48, (64, 64, 64), 3)
conv_transpose(64, "transposed 1D 3", 64, 128, 128, (65536,), 3)
conv_transpose(65, "transposed 2D 3x7", 8, 64, 64, (512, 512), (3, 7))
conv_transpose(68, "transposed 3D 3x5x5", 16, 32, 64, (64, 64, 64), (3, 5, 5))
conv_transpose(69, "transposed 2D 3x5", 64, 64, 128, (128, 256), (3, 5))
conv_transpose(70, "transposed 3D 3x3x3, few filters", 8, 48, 24, (96, 96, 96), 3)
conv_transpose(71, "transposed 2D 3x3, wide image", 8, 32, 32, (512, 1024), 3)
conv_transpose(72, "transposed 3D 3x5x7, stride 2, groups", 8, 32, 32, (12, 24, 48), (3, 5, 7), 2, (1, 2, 3), 1, 4, 1)
conv_transpose(73, "transposed 3D 3x3x3, stride 2, groups", 4, 32, 32, (32, 64, 128), 3, 2, 1, 1, 4)
conv_transpose(74, "transposed 1D 5, dilation 3", 32, 32, 64, (131072,), 5, 1, 0, 3)
conv_transpose(75, "transposed 2D 3x5, strides, groups", 16, 32, 64, (128, 256), (3, 5), (2, 3), (1, 2), (2, 1), 4)
conv_transpose(77, "transposed 3D 3x3x3, stride 2, dilation 2", 16, 32, 64, (16, 32, 32), 3, 2, 1, 2)
conv_transpose(78, "transposed 2D 3x7, padded", 8, 32, 32, (512, 1024), (3, 7), 1, (1, 3))
conv_transpose(79, "transposed 1D 3, stride 2, dilation 2", 16, 32, 64, (131072,), 3, 2, 1, 2)
conv_transpose(81, "transposed 2D 3x3, stride 5, dilation 2", 16, 32, 64, (64, 128), 3, 5, 1, 2)

# ---- scans ---------------------------------------------------------------------------------------


def scan(number, name, kernel, reference, kind="normal", masked=False, options=None, **more):
    options = {} if options is None else {"mask": None} | dict(zip(("reverse", "exclusive"), options))

    def arguments(i, o, s):
        return {"x": i["x"], "y": o} | options | ({"mask": i["mask"]} if masked else {})

    row(
        number, name, "scans", (32768, 32768), (5, 3001),
        lambda *e: {"x": Data(e, kind)} | ({"mask": Data(e, "mask")} if masked else {}),
        lambda *e: e, reference, Call("scan", kernel, arguments),
        batch={"x": 0, "mask": 0} if masked else {"x": 0},
        yardstick=lambda r, n: product_in_order(n, r) if kind == "near one" else sum_in_order(n, r), **more,
    )


def exclusive(t, i):
    """KernelBench's way: a zero before all sums but the last."""
    x = i["x"]
    return t.cat((t.zeros_like(x[:, :1]), t.cumsum(x[:, :-1], 1)), 1)


scan(89, "running sum", "cumsum_last", lambda t, i: t.cumsum(i["x"], 1))
scan(90, "running product", "cumprod_last", lambda t, i: t.cumprod(i["x"], 1), "near one")
scan(91, "running sum from the end", "cumsum_any_last", lambda t, i: t.cumsum(i["x"].flip(1), 1).flip(1),
     options=(True, False))
scan(92, "running sum, exclusive", "cumsum_any_last", exclusive, options=(False, True))
scan(93, "running sum, masked", "cumsum_any_last", lambda t, i: t.cumsum(i["x"] * i["mask"], 1), masked=True,
     options=(False, False))

# ---- losses, attention ---------------------------------------------------------------------------


def loss(number, name, extents, inputs, reference, kernel, arguments, least=(61, 701), **more):
    row(
        number, name, "losses", extents, least, inputs, lambda *e: (), reference,
        Call("loss", kernel, lambda i, o, s: {"loss": o} | arguments(i, s)), one_number=True, **more,
    )


def pair(*e):
    return {"x": Data(e), "t": Data(e)}


SQUARE = (32768, 32768)
loss(94, "mean squared error", SQUARE, pair, lambda t, i: t.mean((i["x"] - i["t"]) ** 2), "mse",
     lambda i, s: {"x": i["x"], "t": i["t"]})
loss(95, "cross entropy", (32768, 4096), lambda r, n: {"x": Data((r, n)), "label": Data((r,), "label", below=n)},
     lambda t, i: t.nn.functional.cross_entropy(i["x"], i["label"]), "cross_entropy",
     lambda i, s: {"x": i["x"], "label": i["label"], "count": s["count"], "lse": None, "ignore": -100},
     scratch=lambda r, n: {"count": ()})
loss(96, "smooth L1", SQUARE, pair, lambda t, i: t.nn.functional.smooth_l1_loss(i["x"], i["t"]), "smooth_l1",
     lambda i, s: {"x": i["x"], "t": i["t"], "beta": 1.0})
loss(98, "Kullback-Leibler divergence", (16384, 16384),
     lambda r, n: {"x": Data((r, n), "probabilities"), "t": Data((r, n), "probabilities")},
     lambda t, i: t.nn.functional.kl_div(t.log(i["x"]), i["t"], reduction="batchmean"), "kl_div",
     lambda i, s: {"x": i["x"], "t": i["t"], "logs": False})
loss(99, "triplet margin", (32768, 8192), lambda *e: {n: Data(e) for n in "apn"},
     lambda t, i: t.nn.functional.triplet_margin_loss(i["a"], i["p"], i["n"], margin=1.0), "triplet",
     lambda i, s: {n: i[n] for n in "apn"} | {"margin": 1.0, "eps": 1e-6})
loss(100, "hinge", SQUARE, lambda r, n: {"x": Data((r, n)), "t": Data((n,), "sign")},
     lambda t, i: t.mean(t.clamp(1 - i["x"] * i["t"], min=0)), "hinge",
     lambda i, s: {"x": i["x"], "t": i["t"].expand(i["x"].shape)})

row(
    97, "attention with wide heads", "attention", (32, 32, 512, 1024), (2, 2, 37, 64),
    lambda *e: {n: Data(e) for n in "qkv"},
    lambda *e: e,
    lambda t, i: t.nn.functional.scaled_dot_product_attention(i["q"], i["k"], i["v"]),
    Call("matmul", "batch_matmul", lambda i, o, s: {"a": i["q"], "b": i["k"].transpose(2, 3), "c": s["p"]}),
    Call("elementwise", "map_scale", lambda i, o, s: {"x": s["p"], "y": s["p"], "s": i["q"].shape[3] ** -0.5}),
    Call("softmax", "softmax", lambda i, o, s: {"x": s["p"], "y": s["p"]}),
    Call("matmul", "batch_matmul", lambda i, o, s: {"a": s["p"], "b": i["v"], "c": o}),
    batch={n: 0 for n in "qkv"}, scratch=lambda b, h, n, d: {"p": (b, h, n, n)},
    flops=lambda b, h, n, d: 4 * b * h * n * n * d,
)
