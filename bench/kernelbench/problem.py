# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A row of a level's table as a Problem of bench/gpu/measure.py: inputs, the reference in f64, contenders."""

import contextlib
import functools
import math

import torch

import cases
from measure import Contender, LIMITS, Problem

PIECE_BYTES = 1 << 30  # of the inputs that one step of the reference converts to f64
TF32_FAMILIES = ("products", "convolutions", "depthwise convolutions", "transposed convolutions")


def draw(env, data, seed):
    """The tensor of a level's `Data`, on the device."""
    g = torch.Generator(device=env.device).manual_seed(seed)

    def uniform():
        return torch.rand(data.shape, generator=g, device=env.device)

    if data.kind == "label":
        return torch.randint(data.below, data.shape, generator=g, device=env.device)
    if data.kind == "mask":
        return uniform() < 0.5
    if data.kind == "sign":
        return (uniform() < 0.5).float().mul_(2).sub_(1)
    x = torch.randn(data.shape, generator=g, device=env.device).mul_(data.scale)
    change = {
        "normal": lambda: x,
        "near one": lambda: x.mul_(0.01).exp_(),  # products of thousands of them stay in range
        "probabilities": lambda: torch.softmax(x, -1),
        "symmetric": lambda: (x + x.T).mul_(0.5),
        "upper": lambda: x.triu_(),
        "lower": lambda: x.tril_(),
    }
    return change[data.kind]()


def doubled(inputs):
    return {n: t.double() if t.is_floating_point() else t for n, t in inputs.items()}


def reference64(row, inputs, shape):
    """The result of torch in f64, in pieces along the axis of independent results."""
    if not row.batch:
        return row.reference(torch, doubled(inputs))
    out = torch.empty(shape, dtype=torch.float64, device=next(iter(inputs.values())).device)
    n = shape[row.axis]
    size = sum(inputs[m].numel() * inputs[m].element_size() for m in row.batch)
    step = max(1, min(n, n * PIECE_BYTES // max(1, size)))
    for at in range(0, n, step):
        count = min(step, n - at)
        part = {
            name: t.narrow(row.batch[name], at, count) if name in row.batch else t
            for name, t in inputs.items()
        }
        out.narrow(row.axis, at, count).copy_(row.reference(torch, doubled(part)))
    return out


@contextlib.contextmanager
def allowing_tf32():
    """TF32 in torch's products and convolutions, which are strict otherwise."""
    flags = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [f.allow_tf32 for f in flags]
    for f in flags:
        f.allow_tf32 = True
    try:
        yield
    finally:
        for f, b in zip(flags, before):
            f.allow_tf32 = b


def ours(env, row, calls, shapes):
    """run(inputs, outputs) launches the calls in their order. Scratch memory is kept between runs."""
    kernels = []
    scratch = {}

    def run(i, o):
        if not kernels:
            kernels.extend(env.tegula.load(f"std/{c.file}.teg")[c.kernel] for c in calls)
            scratch.update({n: torch.empty(s, device=env.device) for n, s in shapes.items()})
        for kernel, call in zip(kernels, calls):
            kernel(**call.arguments(i, o["y"], scratch))

    return run


def positions(row):
    """The compared values of a result of positions: the elements of x there. Places outside of x stand for
    the first one, which is not the wanted element, or is as good."""

    def view(inputs, results):
        x, at = inputs["x"], results["y"]
        return {"y": x.gather(1, at.clamp(0, x.shape[1] - 1)[:, None])[:, 0]}

    return view if row.found else None


def contenders(env, row, extents, tf32):
    def eager(i, o):
        return {"y": row.reference(torch, i)}

    def eager_tf32(i, o):
        with allowing_tf32():
            return eager(i, o)

    shapes = row.scratch(*extents) if row.scratch else {}
    out = [Contender("tegula", ours(env, row, row.calls, shapes), ours=True)] if env.tegula else []
    out += env.peer("eager", eager)
    compiled = env.compiled(lambda i: {"y": row.reference(torch, i)})
    out += compiled
    if tf32 and row.flops and row.family in TF32_FAMILIES:
        more = {"limit": LIMITS["tf32"]}
        if row.tf32 and env.tegula:
            out.append(Contender("tegula tf32", ours(env, row, row.tf32, {}), ours=True, **more))
        if "eager" in env.peers:
            out.append(Contender("eager tf32", eager_tf32, **more))
    return out, eager


def problem(row, env, tf32=False):
    """The Problem of a row, with extents that env.shrink divides."""
    extents = row.shrunk(env.shrink)
    data = row.inputs(*extents)
    shape = tuple(row.output(*extents))
    dtype = torch.int64 if row.found else torch.float32

    def inputs(seed):
        return {n: draw(env, d, 100 * seed + k) for k, (n, d) in enumerate(data.items())}

    def reference(i):
        if row.found:
            return {"y": getattr(i["x"], row.found)(1).double()}
        return {"y": reference64(row, i, shape)}

    made, plain = contenders(env, row, extents, tf32)
    sizes = [(d.shape, 8 if d.kind == "label" else 1 if d.kind == "mask" else 4) for d in data.values()]
    return Problem(
        key=f"{row.number} {row.name}",
        inputs=inputs,
        outputs=lambda i: {"y": (shape, dtype)},
        reference=reference,
        contenders=made,
        plain=plain,
        limit=0.0 if row.found else row.limit,
        flops=row.flops(*extents) if row.flops else 0,
        bytes=sum(math.prod(s) * b for s, b in sizes) + math.prod(shape) * (8 if row.found else 4),
        view=positions(row),
        by_element=not row.one_number,
        least_yardstick=row.yardstick(*extents) if row.yardstick else 0.0,
    )


def makers(rows, tf32):
    """number as text -> env -> Problem, for bench/gpu/run.py."""
    return {str(r.number): functools.partial(problem, r, tf32=tf32) for r in rows.values()}
