# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measured cases: a function for each that makes its Problem, and the table of all of them.

Shapes of products are M x N x K. `Env.shrink` divides extents for a trial on small machines.
"""

import dataclasses
import math

import torch
import torch.nn.functional as F

from measure import Contender, LIMITS, Problem

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@dataclasses.dataclass
class Env:
    """The environment of cases: the device, the peers, and Tegula."""

    device: object
    peers: set
    tegula: object  # the module, or None
    settings: list  # pinned tune values, a contender for each; [{}] is the library's choice
    shrink: int = 1
    tutorials: object = None

    def size(self, n):
        return max(n // self.shrink, min(n, 128)) if self.shrink > 1 else n

    def randn(self, shape, seed, dtype, scale=1.0):
        g = torch.Generator(device=self.device).manual_seed(seed)
        x = torch.randn(shape, generator=g, device=self.device, dtype=torch.float32)
        return (x * scale).to(dtype)

    def ours(self, file, kernel, arguments, name="tegula", **more):
        """Adds a contender for each setting. arguments(inputs, outputs) are the kernel's, by name; `more`
        goes to Contender."""
        if self.tegula is None or "tegula" not in self.peers:
            return []
        out = []
        for setting in self.settings:
            text = " ".join(f"{k}={v}" for k, v in setting.items())
            try:
                module = self.tegula.load(f"std/{file}.teg", settings=setting or None)
                run = caller(module[kernel], arguments)
            except Exception as error:
                run = failing(error)
            label = f"{name}[{text}]" if text else name
            out.append(Contender(label, run, ours=True, **more))
        return out

    def peer(self, name, run, note="", makes=()):
        """Adds a contender if its kind (the first word of its name) was asked for."""
        asked = name.split()[0] in self.peers
        return [Contender(name, run, note=note, makes=makes)] if asked else []

    def compiled(self, run, makes=()):
        """Adds torch.compile of run(inputs)."""
        if "compile" not in self.peers:
            return []
        state = []

        def call(i, o):
            if not state:
                torch._dynamo.reset()
                state.append(torch.compile(run, dynamic=False))
            return state[0](i)

        return [Contender("compile", call, makes=makes)]


def caller(kernel, arguments):
    def run(i, o):
        kernel(**arguments(i, o))

    return run


def failing(error):
    def run(i, o):
        raise error

    return run


# ---- products ------------------------------------------------------------------------------------


def matmul(env, dtype, m, n, k, form="nn"):
    """c = a b. form: how a and b lie in memory (n: as they are multiplied, t: transposed)."""
    t = TYPES[dtype]
    m, n, k = env.size(m), env.size(n), env.size(k)

    def inputs(seed):
        a, b = ((m, k), (k, n))
        a, b = (a[::-1] if form[0] == "t" else a), (b[::-1] if form[1] == "t" else b)
        return {"a": env.randn(a, seed, t), "b": env.randn(b, seed + 100, t)}

    def a_of(i):
        return i["a"].t() if form[0] == "t" else i["a"]

    def b_of(i):
        return i["b"].t() if form[1] == "t" else i["b"]

    def triton(i, o):
        import triton_peers

        triton_peers.matmul(i["a"], i["b"], o["c"], form[1] == "t")

    def cublas(i, o):
        torch.matmul(a_of(i), b_of(i), out=o["c"])

    return Problem(
        key=f"matmul {dtype} {m}x{n}x{k} {form}",
        inputs=inputs,
        outputs=lambda i: {"c": ((m, n), t)},
        reference=lambda i: {"c": a_of(i).double() @ b_of(i).double()},
        contenders=env.ours(
            "matmul",
            "matmul" if form == "nn" else f"matmul_{form}",
            lambda i, o: {"a": i["a"], "b": i["b"], "c": o["c"]},
        )
        + env.peer("cublas", cublas)
        + (env.peer("triton", triton) if dtype != "f32" else []),
        plain=cublas,
        limit=LIMITS[dtype],
        flops=2 * m * n * k,
        bytes=t.itemsize * (m * n + m * k + n * k),
    )


def tf32(env, m, n, k):
    m, n, k = env.size(m), env.size(n), env.size(k)

    def inputs(seed):
        f = torch.float32
        return {"a": env.randn((m, k), seed, f), "b": env.randn((n, k), seed + 100, f)}

    def cublas(i, o):
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.matmul(i["a"], i["b"].t(), out=o["c"])
        torch.backends.cuda.matmul.allow_tf32 = before

    return Problem(
        key=f"matmul tf32 {m}x{n}x{k} nt",
        inputs=inputs,
        outputs=lambda i: {"c": ((m, n), torch.float32)},
        reference=lambda i: {"c": i["a"].double() @ i["b"].t().double()},
        contenders=env.ours(
            "matmul",
            "matmul_tf32_nt",
            lambda i, o: {"a": i["a"], "b": i["b"], "c": o["c"], "terms": 1},
        )
        + env.peer("cublas", cublas),
        plain=cublas,
        limit=LIMITS["tf32"],
        flops=2 * m * n * k,
        bytes=4 * (m * n + m * k + n * k),
    )


def fp8(env, m, n, k):
    """c = a b^T sa sb in bf16, with a scale for each operand that changes the result."""
    m, n, k = env.size(m), env.size(n), env.size(k)
    t = torch.float8_e4m3fn

    def inputs(seed):
        f = torch.float32
        out = {"a": env.randn((m, k), seed, f).to(t), "b": env.randn((n, k), seed + 100, f).to(t)}
        return out | {
            "sa": torch.full((1,), 0.75, device=env.device),
            "sb": torch.full((1,), 0.375, device=env.device),
        }

    def narrow(x):
        return env.tegula.float8_e4m3(x.view(torch.uint8))

    def arguments(i, o):
        scales = {"sa": i["sa"].expand(m), "sb": i["sb"].expand(n)}
        return {"a": narrow(i["a"]), "b": narrow(i["b"]), "c": o["c"]} | scales

    def cublas(fast):
        def run(i, o):
            c = torch._scaled_mm(
                i["a"], i["b"].t(), i["sa"], i["sb"], out_dtype=torch.bfloat16, use_fast_accum=fast
            )
            return {"c": c}

        return run

    return Problem(
        key=f"matmul fp8 {m}x{n}x{k} nt",
        inputs=inputs,
        outputs=lambda i: {"c": ((m, n), torch.bfloat16)},
        reference=lambda i: {"c": i["a"].double() @ i["b"].double().t() * (i["sa"] * i["sb"]).double()},
        contenders=env.ours("matmul", "scaled_matmul_nt", arguments)
        + env.peer("cublas", cublas(False), "accumulates in f32")
        + env.peer("cublas fast", cublas(True), "accumulates in fewer bits"),
        plain=cublas(False),
        limit=LIMITS["fp8"],
        flops=2 * m * n * k,
        bytes=2 * m * n + m * k + n * k,
    )


# ---- attention -----------------------------------------------------------------------------------


def f64_attention(q, k, v, scale, causal):
    """The result and log-sum-exp in f64, a few heads at a time."""
    b, h, s, d = q.shape
    k, v = (t.repeat_interleave(h // t.shape[1], 1) for t in (k, v))
    o = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    lse = torch.empty((b, h, s), dtype=torch.float64, device=q.device)
    flat = [t.reshape(b * h, s, d) for t in (q, k, v)]
    step = max(1, (1 << 28) // (s * s))
    hidden = torch.ones(s, s, dtype=torch.bool, device=q.device).triu(1) if causal else None
    for i in range(0, b * h, step):
        x, y, z = (t[i : i + step].double() for t in flat)
        p = x @ y.transpose(1, 2) * scale
        if causal:
            p.masked_fill_(hidden, -math.inf)
        lse.view(b * h, s)[i : i + step] = p.logsumexp(-1)
        o.view(b * h, s, d)[i : i + step] = torch.softmax(p, -1) @ z
    return o, lse


def f64_gradients(q, k, v, dout, scale, causal):
    b, h, s, d = q.shape
    flat = [t.reshape(b * h, s, d) for t in (q, k, v, dout)]
    out = [torch.empty((b * h, s, d), dtype=torch.float64, device=q.device) for _ in range(3)]
    step = max(1, (1 << 27) // (s * s))
    hidden = torch.ones(s, s, dtype=torch.bool, device=q.device).triu(1) if causal else None
    for i in range(0, b * h, step):
        x, y, z, g = (t[i : i + step].double() for t in flat)
        p = x @ y.transpose(1, 2) * scale
        if causal:
            p.masked_fill_(hidden, -math.inf)
        p = torch.softmax(p, -1)
        ds = g @ z.transpose(1, 2)
        ds = p * (ds - (p * ds).sum(-1, keepdim=True)) * scale
        out[0][i : i + step] = ds @ y
        out[1][i : i + step] = ds.transpose(1, 2) @ x
        out[2][i : i + step] = p.transpose(1, 2) @ g
    return {n: t.view(b, h, s, d) for n, t in zip(("dq", "dk", "dv"), out)}


def flash(q, k, v, causal):
    """torch's FlashAttention with the log-sum-exp that its gradients need."""
    aten = torch.ops.aten
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    if q.device.type == "cpu":
        o, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)
    else:
        o, lse = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[:2]
    return {"o": o, "lse": lse}


def sdpa(env, name, backend, causal):
    """torch's attention by one of its back ends."""

    def run(i, o):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with torch.no_grad(), sdpa_kernel(getattr(SDPBackend, backend)):
            q, k, v = (i[n] for n in "qkv")
            more = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
            return {"o": F.scaled_dot_product_attention(q, k, v, is_causal=causal, **more)}

    return env.peer(name, run, makes=("o",))


def attention_inputs(env, b, h, s, d, heads=None, dtype="f16"):
    """heads: the number of heads of keys and values; default h."""

    def inputs(seed):
        counts = {"q": h, "k": heads or h, "v": heads or h}
        return {
            n: env.randn((b, count, s, d), 7 * seed + j, TYPES[dtype])
            for j, (n, count) in enumerate(counts.items())
        }

    return inputs


def attention(env, b, h, s, d, causal, heads=None, dtype="f16"):
    s = env.size(s)
    h = max(1, h // env.shrink)
    heads = max(1, heads // env.shrink) if heads else h
    shared = f"/{heads}" if heads != h else ""
    scale = d**-0.5

    def triton(i, o):
        import triton_peers

        triton_peers.attention(i["q"], i["k"], i["v"], o["o"], scale, causal)

    def tutorial(i, o):
        with torch.no_grad():
            return {"o": env.tutorials.attention(i["q"], i["k"], i["v"], causal, scale, False)}

    def arguments(i, o):
        more = {"mask": None, "scale": scale, "causal": causal}
        return {n: i[n] for n in "qkv"} | more | {"o": o["o"], "lse": None}

    def with_lse(i, o):
        return arguments(i, o) | {"lse": o["lse"]}

    def reference(i):
        return dict(zip(("o", "lse"), f64_attention(i["q"], i["k"], i["v"], scale, causal)))

    contenders = env.ours("attention", "attention", arguments, makes=("o",))
    contenders += env.ours("attention", "attention", with_lse, "tegula lse", timed=False)
    contenders += sdpa(env, "cudnn", "CUDNN_ATTENTION", causal)
    contenders += sdpa(env, "flash", "FLASH_ATTENTION", causal)
    contenders += sdpa(env, "math", "MATH", causal) if env.device.type == "cpu" else []
    contenders += env.peer("triton", triton, makes=("o",))
    contenders += env.peer("triton tutorial", tutorial, makes=("o",)) if env.tutorials else []
    return Problem(
        key=f"attention {dtype} B{b} H{h}{shared} S{s} D{d} {'causal' if causal else 'full'}",
        inputs=attention_inputs(env, b, h, s, d, heads, dtype),
        outputs=lambda i: {"o": ((b, h, s, d), TYPES[dtype]), "lse": ((b, h, s), torch.float32)},
        reference=reference,
        contenders=contenders,
        plain=lambda i, o: flash(i["q"], i["k"], i["v"], causal),
        limit={"o": LIMITS[dtype], "lse": LIMITS["f32"]},
        flops=4 * b * h * s * s * d * (0.5 if causal else 1),
        bytes=4 * b * (h + heads) * s * d,
    )


def attention_backward(env, b, h, s, d, causal):
    s = env.size(s)
    h = max(1, h // env.shrink)
    scale = d**-0.5
    plain = attention_inputs(env, b, h, s, d)

    def inputs(seed):
        i = plain(seed)
        i["dout"] = env.randn((b, h, s, d), 7 * seed + 3, torch.float16)
        o, lse = f64_attention(i["q"], i["k"], i["v"], scale, causal)
        return i | {"o": o.half(), "lse": lse.float()}

    def arguments(i, o):
        return i | o | {"mask": None, "scale": scale, "causal": causal}

    def torch_backward(backend):
        kept = {}

        def run(i, o):
            from torch.nn.attention import SDPBackend, sdpa_kernel

            if id(i) not in kept:  # the forward pass is not timed
                with sdpa_kernel(getattr(SDPBackend, backend)):
                    q, k, v = (i[n].detach().requires_grad_() for n in "qkv")
                    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                kept[id(i)] = out, (q, k, v)
            out, leaves = kept[id(i)]
            grads = torch.autograd.grad(out, leaves, i["dout"], retain_graph=True)
            return dict(zip(("dq", "dk", "dv"), grads))

        return run

    shape = ((b, h, s, d), torch.float16)
    by_flash = torch_backward("FLASH_ATTENTION")
    return Problem(
        key=f"attention backward f16 B{b} H{h} S{s} D{d} {'causal' if causal else 'full'}",
        inputs=inputs,
        outputs=lambda i: {"dq": shape, "dk": shape, "dv": shape},
        reference=lambda i: f64_gradients(i["q"], i["k"], i["v"], i["dout"], scale, causal),
        contenders=env.ours("attention", "attention_backward", arguments)
        + env.peer("cudnn", torch_backward("CUDNN_ATTENTION"))
        + env.peer("flash", by_flash),
        plain=by_flash,
        limit=2 * LIMITS["f16"],
        flops=10 * b * h * s * s * d * (0.5 if causal else 1),
        bytes=18 * b * h * s * d,
    )


def linear(env, m, n, k):
    """y = gelu(x w^T + bias) + residual."""
    t = torch.bfloat16
    m, n, k = env.size(m), env.size(n), env.size(k)

    def inputs(seed):
        return {
            "x": env.randn((m, k), seed, t),
            "w": env.randn((n, k), seed + 100, t, k**-0.5),
            "bias": env.randn((n,), seed + 200, t),
            "residual": env.randn((m, n), seed + 300, t),
        }

    def run(i):
        return {"y": F.gelu(F.linear(i["x"], i["w"], i["bias"])) + i["residual"]}

    def arguments(i, o):
        return i | o | {"scale": 1.0, "act": 2}

    return Problem(
        key=f"linear bf16 {m}x{n}x{k} bias gelu residual",
        inputs=inputs,
        outputs=lambda i: {"y": ((m, n), t)},
        reference=lambda i: run(double(i)),
        contenders=env.ours("matmul", "linear", arguments)
        + env.peer("eager", lambda i, o: run(i))
        + env.compiled(run),
        plain=lambda i, o: run(i),
        limit=LIMITS["bf16"],
        flops=2 * m * n * k,
        bytes=t.itemsize * (m * k + n * k + 2 * m * n),
    )


def conv2d(env, b, c, h, w, f):
    """3 x 3, with channels last in all of our operands. cuDNN tries its algorithms. Its row `cudnn
    contiguous` also has operands with channels first."""
    t = torch.bfloat16
    b = max(1, b // env.shrink)
    torch.backends.cudnn.benchmark = True

    def inputs(seed):
        x, k = env.randn((b, h, w, c), seed, t), env.randn((f, 3, 3, c), seed + 100, t, (9 * c) ** -0.5)
        last = {"x": x.permute(0, 3, 1, 2), "w": k.permute(0, 3, 1, 2)}
        return last | {name + "_first": value.contiguous() for name, value in last.items()}

    def run(i, order=""):
        y = F.conv2d(i["x" + order], i["w" + order], padding=1)
        return {"y": y.permute(0, 2, 3, 1)}

    def arguments(i, o):
        steps = {"sy": 1, "sx": 1, "py": 1, "px": 1, "dy": 1, "dx": 1}
        own = {"x": i["x"], "w": i["w"], "y": o["y"].permute(0, 3, 1, 2), "bias": None, "act": 0}
        return own | steps

    return Problem(
        key=f"conv2d bf16 {b}x{c}x{h}x{w} to {f}, 3x3",
        inputs=inputs,
        outputs=lambda i: {"y": ((b, h, w, f), t)},
        reference=lambda i: run(double(i)),
        contenders=env.ours("conv", "conv2d", arguments)
        + env.peer("cudnn", lambda i, o: run(i))
        + env.peer("cudnn contiguous", lambda i, o: run(i, "_first"))
        + env.compiled(run),
        plain=lambda i, o: run(i),
        limit=LIMITS["bf16"],
        flops=2 * 9 * b * h * w * c * f,
        bytes=t.itemsize * (b * h * w * (c + f) + 9 * c * f),
    )


# ---- rows ----------------------------------------------------------------------------------------


def row_problem(env, op, dtype, m, n, outputs, reference, run, ours, passes, weights=0):
    """An op on x [m, n]. passes: how often m n elements cross memory; weights: number of weight vectors, w
    and h."""
    t = TYPES[dtype]
    m, n = env.size(m), env.size(n)

    def inputs(seed):
        names = ("w", "h")[:weights]
        more = {v: env.randn((n,), seed + 50 + j, t) for j, v in enumerate(names)}
        return {"x": env.randn((m, n), seed, t)} | more

    return Problem(
        key=f"{op} {dtype} {m}x{n}",
        inputs=inputs,
        outputs=lambda i: outputs(m, n, t),
        reference=reference,
        contenders=ours + env.peer("eager", lambda i, o: run(i)) + env.compiled(run),
        plain=lambda i, o: run(i),
        limit=LIMITS[dtype],
        bytes=passes * m * n * t.itemsize,
    )


def same_shape(m, n, t):
    return {"y": ((m, n), t)}


def double(i):
    return {k: x.double() for k, x in i.items()}


def softmax(env, dtype, m, n):
    def run(i):
        return {"y": torch.softmax(i["x"], -1)}

    def arguments(i, o):
        return {"x": i["x"], "y": o["y"]}

    ours = env.ours("softmax", "softmax", arguments)
    ours += env.ours("softmax", "softmax_long", arguments, "tegula_long")
    return row_problem(
        env, "softmax", dtype, m, n, same_shape, lambda i: run(double(i)), run, ours, 2
    )


def layer_norm(env, dtype, m, n):
    def run(i):
        return {"y": F.layer_norm(i["x"], (i["x"].shape[1],), i["w"], i["h"], 1e-5)}

    def arguments(i, o):
        return {"x": i["x"], "g": i["w"], "h": i["h"], "y": o["y"], "eps": 1e-5}

    ours = env.ours(
        "norm", "layer_norm", lambda i, o: arguments(i, o) | {"mean": None, "rstd": None}
    )
    ours += env.ours("norm", "layer_norm_long", arguments, "tegula_long")
    return row_problem(
        env, "layernorm", dtype, m, n, same_shape, lambda i: run(double(i)), run, ours, 2, 2
    )


def rms_norm(env, dtype, m, n):
    def run(i):
        return {"y": F.rms_norm(i["x"], (i["x"].shape[1],), i["w"], 1e-5)}

    def arguments(i, o):
        return {"x": i["x"], "g": i["w"], "y": o["y"], "eps": 1e-5}

    ours = env.ours("norm", "rms_norm", lambda i, o: arguments(i, o) | {"rstd": None})
    ours += env.ours("norm", "rms_norm_long", arguments, "tegula_long")
    return row_problem(
        env, "rmsnorm", dtype, m, n, same_shape, lambda i: run(double(i)), run, ours, 2, 1
    )


def sum_last(env, dtype, m, n):
    def run(i):
        return {"y": i["x"].sum(-1)}

    ours = env.ours("reduce", "sum_last", lambda i, o: {"x": i["x"], "y": o["y"]})
    shape = lambda m, n, t: {"y": ((m,), t)}
    return row_problem(env, "sum-1", dtype, m, n, shape, lambda i: run(double(i)), run, ours, 1)


def sum_first(env, dtype, m, n):
    def run(i):
        return {"y": i["x"].sum(0)}

    ours = env.ours("reduce", "sum_axis", lambda i, o: {"x": i["x"][None], "y": o["y"][None]})
    shape = lambda m, n, t: {"y": ((n,), t)}
    return row_problem(env, "sum-0", dtype, m, n, shape, lambda i: run(double(i)), run, ours, 1)


def cumsum(env, dtype, m, n):
    def run(i):
        return {"y": i["x"].cumsum(-1)}

    ours = env.ours("scan", "cumsum_last", lambda i, o: {"x": i["x"], "y": o["y"]})
    return row_problem(
        env, "cumsum", dtype, m, n, same_shape, lambda i: run(double(i)), run, ours, 2
    )


def argmax(env, dtype, m, n):
    """Compared by the found value, since a peer may choose any of equal ones."""

    def run(i):
        return {"at": i["x"].argmax(-1)}

    ours = env.ours("reduce", "argmax_last", lambda i, o: {"x": i["x"], "y": o["at"]})
    shape = lambda m, n, t: {"at": ((m,), torch.int64)}
    p = row_problem(env, "argmax", dtype, m, n, shape, None, run, ours, 1)
    p.limit = 0
    p.reference = lambda i: {"greatest": i["x"].double().amax(-1)}
    p.view = lambda i, out: {
        "greatest": i["x"]
        .gather(1, out["at"].clamp(0, i["x"].shape[1] - 1)[:, None])[:, 0]
        .where((out["at"] >= 0) & (out["at"] < i["x"].shape[1]), math.nan)
    }
    return p


def cross_entropy(env, m, n):
    t = torch.bfloat16
    m, n = env.size(m), env.size(n)

    def inputs(seed):
        g = torch.Generator(device=env.device).manual_seed(seed)
        label = torch.randint(0, n, (m,), generator=g, device=env.device)
        return {"x": env.randn((m, n), seed, t, 3.0), "label": label}

    def run(i):
        return {"loss": F.cross_entropy(i["x"], i["label"])}

    def all_of(x, label):
        """The loss is one number whose error may be small by chance, so its terms are compared."""
        terms = F.cross_entropy(x, label, reduction="none")
        count = (label != -100).sum().to(x.dtype)
        return {"loss": terms.mean(), "count": count, "terms": terms}

    def arguments(i, o):
        return i | o | {"lse": None, "ignore": -100}

    eager = env.peer("eager", lambda i, o: run(i), makes=("loss",))
    return Problem(
        key=f"cross_entropy bf16 {m}x{n}",
        inputs=inputs,
        outputs=lambda i: {"loss": ((), torch.float32), "count": ((), torch.float32)},
        reference=lambda i: all_of(i["x"].double(), i["label"]),
        contenders=env.ours("loss", "cross_entropy_long", arguments)
        + env.ours("loss", "cross_entropy", arguments, "tegula_row")
        + eager
        + env.compiled(run, makes=("loss",)),
        plain=lambda i, o: all_of(i["x"].float(), i["label"]),
        limit={"loss": LIMITS["f32"], "count": 0},
        bytes=m * n * 2,
        measured_by={"loss": "terms"},
    )


def norm_backward(env, name, dtype, m, n):
    """Gradients of layer_norm or rms_norm, from the values that the forward pass kept."""
    t = TYPES[dtype]
    m, n = env.size(m), env.size(n)
    centred = name == "layer_norm"
    outputs = {"dx": ((m, n), t)} | {v: ((n,), torch.float32) for v in ("dg", "dh")[: 1 + centred]}

    def inputs(seed):
        i = {"x": env.randn((m, n), seed, t), "dy": env.randn((m, n), seed + 50, t)}
        x = i["x"].float()
        mean = x.mean(1) if centred else torch.zeros(m, device=env.device)
        rstd = ((x - mean[:, None]).square().mean(1) + 1e-5).rsqrt()
        i |= {"g": env.randn((n,), seed + 99, t), "rstd": rstd}
        return i | ({"mean": mean} if centred else {})

    def run(i):
        x, w, rstd = i["x"].to(i["rstd"].dtype), i["dy"].to(i["rstd"].dtype), i["rstd"][:, None]
        z = (x - i["mean"][:, None] if centred else x) * rstd
        u = w * i["g"]
        d = u - z * (u * z).mean(1, keepdim=True) - (u.mean(1, keepdim=True) if centred else 0)
        out = {"dx": (d * rstd).to(i["x"].dtype), "dg": (w * z).sum(0)}
        return out | ({"dh": w.sum(0)} if centred else {})

    def eager(i, o):
        mean, rstd = i["mean"][:, None], i["rstd"][:, None]
        back = torch.ops.aten.native_layer_norm_backward
        grads = back(i["dy"], i["x"], [n], mean, rstd, i["g"], i["g"], [True] * 3)
        return dict(zip(("dx", "dg", "dh"), grads))

    return Problem(
        key=f"{name} backward {dtype} {m}x{n}",
        inputs=inputs,
        outputs=lambda i: outputs,
        reference=lambda i: run(double(i)),
        contenders=env.ours("norm", f"{name}_backward", lambda i, o: i | o)
        + (env.peer("eager", eager) if centred and env.device.type == "cuda" else [])
        + env.compiled(run),
        plain=lambda i, o: run(i),
        limit={v: LIMITS[dtype if v == "dx" else "f32"] for v in outputs},
        bytes=3 * m * n * t.itemsize,
    )


# ---- peaks of the machine ------------------------------------------------------------------------


def copy_roof(env):
    n = (1 << 28) // env.shrink**2

    def run(i, o):
        o["y"].copy_(i["x"])

    return Problem(
        key="roof copy f32",
        inputs=lambda seed: {"x": env.randn((n,), seed, torch.float32)},
        outputs=lambda i: {"y": ((n,), torch.float32)},
        reference=lambda i: {"y": i["x"].double()},
        contenders=[Contender("copy", run)],
        plain=run,
        limit=0,
        bytes=8 * n,
    )


# ---- the table -----------------------------------------------------------------------------------

LARGE = [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 8192, 1024), (8192, 28672, 4096)]
THIN = [(128, 14336, 4096), (16, 8192, 8192)]
UNEVEN = [(3000, 3000, 3000), (512, 10240, 8192)]  # rows that do not begin at cache lines; one wave of tiles
NARROW = [(4096, 4096, 4004), (4096, 4096, 4002)]  # rows of a begin at multiples of 8 and of 4 bytes
# Layers of Llama-3-8B as N x K (queries with keys and values, down, gate with up), and how many tokens they have.
LLAMA = [(6144, 4096), (4096, 14336), (28672, 4096)]
LONG = [(32, 32, 262144), (256, 256, 524288), (64, 128, 65536), (512, 512, 32768)]  # few tiles, long sums
TOKENS = (1, 16, 64, 128, 256, 1024, 2048, 4096, 8192)
ATTENTION = [
    (4, 32, 4096, 128, False),
    (4, 32, 4096, 128, True),
    (4, 32, 4096, 64, True),
    (1, 32, 16384, 128, True),
    (16, 32, 1024, 128, True),
]
# More of the forward pass: long rows, wide heads, groups of heads, lengths that no block divides. Then all in bf16.
FORWARD = [
    (1, 32, 16384, 128, False),
    (4, 16, 4096, 256, False),
    (4, 16, 4096, 256, True),
    (4, 32, 2048, 128, True, 8),
    (2, 32, 8192, 128, True, 8),
    (4, 32, 4250, 128, False),
    (32, 32, 197, 128, False),
]
FORWARD += [(*a[:5], *(a[5:] or a[1:2]), "bf16") for a in ATTENTION + FORWARD]
ROWS = [(8192, 8192), (32768, 4096), (4096, 32768), (2048, 131072)]


def groups():
    """group -> [(name, function of Env that makes the Problem)]"""

    def of(f, *args):
        return lambda env: f(env, *args)

    def named(f, *args):
        return " ".join([f.__name__, *map(str, args)]), of(f, *args)

    both = ("nn", "nt")
    products = [(t, *s, b) for s in LARGE for t in ("bf16", "f16") for b in both]
    products += [("bf16", *s, b) for s in THIN + UNEVEN + NARROW for b in both]
    norms = [(t, *s) for s in ROWS for t in ("bf16", "f32")]
    square = [(t, 8192, 8192) for t in ("bf16", "f32")]
    return {
        "roof": [named(copy_roof)],
        "matmul": [named(matmul, *p) for p in products],
        "llama": [named(matmul, "bf16", m, *nk, "nt") for nk in LLAMA for m in TOKENS],
        "long": [named(matmul, "bf16", *s, b) for s in LONG for b in both],
        "fp8": [named(fp8, 8192, 8192, 8192)],
        "f32": [named(tf32, 4096, 4096, 4096)]
        + [named(matmul, "f32", 4096, 4096, 4096, f) for f in ("nn", "nt", "tn", "tt")]
        + [named(matmul, "f32", *s) for s in ((2048, 4096, 8192), (8205, 5921, 2949), (1000, 1000, 1000))],
        "layers": [named(linear, 8192, 8192, 4096), named(linear, 4096, 4096, 4096)]
        + [named(conv2d, *c) for c in ((32, 64, 56, 56, 64), (8, 256, 28, 28, 256))],
        "attention": [named(attention, *a) for a in ATTENTION],
        "forward": [named(attention, *a) for a in FORWARD],
        "backward": [named(attention_backward, *a) for a in ATTENTION],
        "rows": [named(f, *a) for a in norms for f in (softmax, layer_norm, rms_norm)],
        "norms": [
            named(norm_backward, f, *a) for f in ("layer_norm", "rms_norm") for a in square
        ],
        "reduce": [named(f, *a) for f in (sum_last, sum_first, cumsum, argmax) for a in square],
        "loss": [named(cross_entropy, 8192, 32000), named(cross_entropy, 4096, 128256)],
    }


# One or two shapes of each kind, for a first look or for short device time.
QUICK = (
    "copy_roof",
    "matmul bf16 4096 4096 4096",
    "matmul f16 8192 8192 8192 False",
    "matmul bf16 16 8192 8192 True",
    "matmul bf16 128 14336 4096 False",
    "fp8",
    "attention 4 32 4096 128",
    "attention 4 32 4096 64",
    "attention_backward 4 32 4096 64",
    "softmax bf16 8192",
    "softmax f32 2048",
    "layer_norm bf16 8192",
    "rms_norm f32 4096",
    "rms_norm bf16 2048",
    "sum_last bf16",
    "sum_first bf16",
    "cumsum bf16",
    "argmax bf16",
    "cross_entropy 8192",
)
