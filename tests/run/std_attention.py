"""std/attention.teg: full, causal, grouped heads, masks, decoding."""

from harness import *

FILE = "../../stdlib/attention.teg"
TYPES = ("float32", "float16", "bf16", "float64")
ROUNDING = {"float32": 64, "float64": 64, "float16": 2**13, "bf16": 2**16}  # rounding of the probabilities


def typed(x, t):
    return bf16(x) if t == "bf16" else np.asarray(x).astype(t)


def data(shape, seed, t):
    return typed(normal(shape, seed, np.float64), t)


def attend(q, k, v, z):
    """The result and log-sum-exp of scores z; 0 and -inf if no key is seen."""
    top = z.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(z - np.where(np.isinf(top), 0, top))
    den = p.sum(-1, keepdims=True)
    o = np.where(den == 0, 0, p / np.where(den == 0, 1, den) @ v)
    return o, (np.log(den) + np.where(np.isinf(top), 0, top))[..., 0]


def attention(q, k, v, scale, causal, mask=None, lse=None, **_):
    h, s = q.shape[1:3]
    g, l = k.shape[1:3]
    k, v = (np.repeat(t, h // g, 1) for t in (k, v))
    z = q @ k.transpose(0, 1, 3, 2) * scale
    z = z if mask is None else z + mask
    if causal:
        z = np.where(np.arange(s)[:, None] + l - s >= np.arange(l)[None, :], z, -np.inf)
    o, sums = attend(q, k, v, z)
    return {"o": o} | ({} if lse is None else {"lse": sums})


def check(args, t, name, **more):
    a = {"scale": 0.125, "causal": False, "mask": None, "lse": None} | args
    wide = np.float64 if t == "float64" else np.float32
    keep = a.pop("lse")
    a["lse"] = None
    if keep:
        a["lse"] = np.zeros(as_data(a["q"]).value.shape[:3], wide)
    case(
        FILE,
        "attention",
        a,
        attention,
        out_types={"o": "bf16"} if t == "bf16" else {},
        length=as_data(a["k"]).value.shape[2] + 64,
        ulps=ROUNDING[t],
        scale={"o": 4.0, "lse": 16.0},
        name=f"attention-{name}-{t}",
        **more,
    )


SIZES = [  # batch, heads, key heads, queries, keys, features, features of values
    (1, 2, 1, 70, 70, 64, 64),
    (2, 2, 2, 33, 130, 16, 24),
    (1, 1, 1, 5, 3, 16, 16),
    (1, 4, 2, 1, 65, 40, 8),
    (1, 2, 2, 130, 65, 5, 5),
    (0, 2, 2, 4, 4, 8, 8),
    (1, 1, 1, 3, 0, 8, 8),
]
for n, (b, h, g, s, l, d, e) in enumerate(SIZES):
    for causal in (False, True):
        for t in TYPES if n == 0 else [TYPES[(n + causal) % 4]]:
            args = {"q": data((b, h, s, d), 1, t), "k": data((b, g, l, d), 2, t)}
            args |= {"v": data((b, g, l, e), 3, t), "causal": causal}
            args["lse"] = b > 0 and n % 2 == 0
            tune = [{"BM": 64, "BN": 64}, {"BM": 16, "BN": 128}] if n < 2 else [{}]
            check(args, t, f"{b}-{h}-{g}-{s}x{l}-{d}-{causal}", tune=tune)
for n, t in enumerate(TYPES):
    # sequences before heads, reversed keys, one row of mask for all queries
    q, k, v = (permuted(data((2, 37, 4, 32), i, t), 0, 2, 1, 3) for i in (1, 2, 3))
    k, v = (sliced(x, "[:,::2,::-1]") for x in (k, v))
    hidden = np.where(integers((2, 37), 4, 0, 3) == 0, -np.inf, normal((2, 37), 5))
    mask = expanded(expanded(typed(hidden, t), 37, 1), 4, 1)
    check({"q": q, "k": k, "v": v, "mask": mask, "causal": n % 2 == 1, "lse": True}, t, "views")
for causal in (False, True):  # skew: scores of the next block of keys before the last product of this one
    args = {"q": data((1, 4, 100, 64), 1, "float16"), "causal": causal, "lse": True}
    args |= {n: data((1, 2, 330, 64), 2 + i, "float16") for i, n in enumerate("kv")}
    tune = [{"BM": 64, "BN": 64, "skew": 1}, {"BM": 128, "BN": 128, "skew": 1, "split": 1}]
    check(args, "float16", f"skew-{causal}", tune=tune)
none = np.full((1, 1, 5, 9), -np.inf, np.float32)  # no key is seen by query 2
none[0, 0, [0, 1, 3, 4]] = normal((4, 9), 1)
check(
    {s: data((1, 1, 5 if s == "q" else 9, 8), 1, "float32") for s in "qkv"}
    | {"mask": none, "lse": True},
    "float32",
    "unseen",
)
for scale in (-0.5, 0.0):  # the least score first, and equal scores
    args = {s: data((1, 2, 70, 32), n, "float16") for n, s in enumerate("qkv")}
    check(args | {"scale": scale, "causal": True, "lse": True}, "float16", f"scale{scale}")
for t in TYPES:  # tests the promise of `merge`, with probabilities as rounded
    q, k, v = data((1, 2, 20, 48), 1, t), data((1, 1, 130, 48), 2, t), data((1, 1, 130, 40), 3, t)
    small = [{"BM": 16, "BN": 64}]
    check({"q": q, "k": k, "v": v, "scale": 0.3125}, t, "joined", tune=small, flags=("--check",), targets=["interp"])
case(
    FILE,
    "attention",
    {s: data((1, 3 if s == "q" else 2, 4, 8), 1, "float32") for s in "qkv"}
    | {"mask": None, "lse": None, "scale": 1.0, "causal": False},
    fails="H",
)


def decode(q, k, v, len, scale, **_):
    b, h, _ = q.shape
    g, l = k.shape[1:3]
    k, v = (np.repeat(t, h // g, 1) for t in (k, v))
    z = np.einsum("bhd,bhld->bhl", q, k) * scale
    z = np.where(np.arange(l) < np.asarray(len)[:, None, None], z, -np.inf)
    return {"o": attend(q, k, v, z[:, :, None])[0][:, :, 0]}


for n, t in enumerate(TYPES):
    b, h, g, l, d, e = [
        (3, 8, 2, 200, 64, 64),
        (1, 2, 2, 65, 16, 8),
        (2, 6, 2, 300, 32, 40),
        (3, 3, 1, 9, 8, 8),
    ][n]
    cache = {s: data((b, g, l, d if s == "k" else e), i, t) for i, s in enumerate("kv")}
    case(
        FILE,
        "attention_decode",
        cache
        | {"q": data((b, h, d), 5, t), "len": np.array([l, 0, 7], np.int32)[:b], "scale": 0.25},
        decode,
        out_types={"o": "bf16"} if t == "bf16" else {},
        length=l + d,
        ulps=ROUNDING[t],
        scale={"o": 4.0},
        tune=[{"BN": 64}, {"BN": 128}],
        name=f"decode-{t}",
    )
case(
    FILE,
    "attention_decode",
    {s: data((1, 2, 40, 16), n, "float16") for n, s in enumerate("kv")}
    | {"q": data((1, 2, 16), 5, "float16"), "len": np.array([33], np.int32), "scale": -0.25},
    decode,
    length=56,
    ulps=ROUNDING["float16"],
    scale={"o": 4.0},
    name="decode-negative",
)


def spread_heads(x, h):
    return np.repeat(x, h // x.shape[1], 1)


def forward(q, k, v, scale, causal, mask=None):
    """The arguments o and lse of the gradients: results in f64, 0 and -inf if no key is seen."""
    a = {n: np.asarray(as_data(x).value, np.float64) for n, x in zip("qkv", (q, k, v))}
    m = None if mask is None else np.asarray(as_data(mask).value, np.float64)
    with np.errstate(divide="ignore"):
        out = attention(**a, scale=scale, causal=causal, mask=m, lse=0)
    return out["o"], out["lse"]


def attention_backward(q, k, v, dout, scale, causal, mask=None, **_):
    """By the Jacobian of softmax, without o and lse."""
    h, s = q.shape[1:3]
    g, l = k.shape[1:3]
    kh, vh = spread_heads(k, h), spread_heads(v, h)
    z = q @ kh.transpose(0, 1, 3, 2) * scale
    z = z if mask is None else z + mask
    if causal:
        z = np.where(np.arange(s)[:, None] + l - s >= np.arange(l)[None, :], z, -np.inf)
    top = z.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(z - np.where(np.isinf(top), 0, top))
    den = p.sum(-1, keepdims=True)
    p = p / np.where(den == 0, 1, den)
    dp = dout @ vh.transpose(0, 1, 3, 2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    grouped = lambda x: x.reshape(x.shape[0], g, h // g, *x.shape[2:]).sum(2)
    return {
        "dq": ds @ kh,
        "dk": grouped(ds.transpose(0, 1, 3, 2) @ q),
        "dv": grouped(p.transpose(0, 1, 3, 2) @ dout),
    }


def check_backward(q, k, v, dout, t, name, causal=False, mask=None, **more):
    o, lse = forward(q, k, v, 0.125, causal, mask)
    a = {"q": q, "k": k, "v": v, "mask": mask, "o": typed(o, t), "dout": dout}
    a |= {"lse": lse.astype(np.float64 if t == "float64" else np.float32)}
    case(
        FILE,
        "attention_backward",
        a | {"scale": 0.125, "causal": causal},
        attention_backward,
        out_types={"dq": "bf16", "dk": "bf16", "dv": "bf16"} if t == "bf16" else {},
        length=q.value.shape[2] + 64 if isinstance(q, Data) else q.shape[2] + 64,
        ulps=ROUNDING[t],
        scale={"dq": 4.0, "dk": 4.0, "dv": 8.0},
        name=f"attention-backward-{name}-{t}",
        **more,
    )


for n, (b, h, g, s, l, d, e) in enumerate(SIZES):
    for causal in (False, True):
        for t in TYPES if n == 0 else [TYPES[(n + causal) % 4]]:
            q, dout = data((b, h, s, d), 1, t), data((b, h, s, e), 4, t)
            k, v = data((b, g, l, d), 2, t), data((b, g, l, e), 3, t)
            tune = [{"BM": 64, "BN": 64}, {"BM": 16, "BN": 128}] if n < 2 else [{}]
            name = f"{b}-{h}-{g}-{s}x{l}-{d}-{causal}"
            check_backward(q, k, v, dout, t, name, causal=causal, tune=tune)
TILES = [{"BM": m, "BN": n} for m in (64, 128, 16) for n in (64, 128, 32)]
ROLES = [{"BM": 128, "BN": 64, "roles": 1, "skew": k, "persistent": p} for k, p in ((0, -1), (1, -1), (1, 1))]
q, k, v = (data((2, 2, 150, 64), i, "float16") for i in range(3))
for causal in (False, True):
    check({"q": q, "k": k, "v": v, "causal": causal, "lse": True}, "float16", f"roles-{causal}", tune=ROLES)
for d, causal, tune in ((64, True, TILES), (128, False, TILES[:5:2])):
    q, k, v, dout = (data((1, 2, 150, d), i, "float16") for i in (1, 2, 3, 4))
    k, v = (sliced(x, "[:,:1]") for x in (k, v))
    check_backward(q, k, v, dout, "float16", f"tiles-{d}", causal=causal, tune=tune)
    check({"q": q, "k": k, "v": v, "causal": causal}, "float16", f"tiles-{d}", tune=tune)
for n, t in enumerate(TYPES):
    q, k, v, dout = (permuted(data((2, 37, 4, 32), i, t), 0, 2, 1, 3) for i in (1, 2, 3, 4))
    k, v = (sliced(x, "[:,::2,::-1]") for x in (k, v))
    hidden = np.where(integers((2, 37), 4, 0, 3) == 0, -np.inf, normal((2, 37), 5))
    mask = expanded(expanded(typed(hidden, t), 37, 1), 4, 1)
    check_backward(q, k, v, dout, t, "views", causal=n % 2 == 1, mask=mask)
q, dout = data((1, 1, 5, 8), 1, "float32"), data((1, 1, 5, 8), 4, "float32")
k, v = data((1, 1, 9, 8), 2, "float32"), data((1, 1, 9, 8), 3, "float32")
check_backward(q, k, v, dout, "float32", "unseen", mask=none)


def attention_varlen(q, k, v, starts_q, starts_k, scale, left, right, lse=None, **_):
    h, g = q.shape[1], k.shape[1]
    o, sums = np.zeros((*q.shape[:2], v.shape[2])), np.zeros(q.shape[:2])
    for q0, q1, k0, k1 in zip(starts_q, starts_q[1:], starts_k, starts_k[1:]):
        kh, vh = (np.repeat(x[k0:k1].transpose(1, 0, 2), h // g, 0) for x in (k, v))
        z = q[q0:q1].transpose(1, 0, 2) @ np.nan_to_num(kh).transpose(0, 2, 1) * scale
        far = np.arange(k1 - k0) - (np.arange(q1 - q0)[:, None] + (k1 - k0) - (q1 - q0))
        z = np.where((far >= -left) & (far <= right), z, -np.inf)
        with np.errstate(divide="ignore"):
            out, one = attend(None, None, np.nan_to_num(vh), z)
        o[q0:q1], sums[q0:q1] = out.transpose(1, 0, 2), one.T
    return {"o": o} | ({} if lse is None else {"lse": sums})


def check_varlen(t, name, queries, keys, left, right, d=64, heads=(2, 1), unseen=(), **more):
    """Lengths of the sequences' queries and keys; NaN in the keys and values `unseen`."""
    starts = [np.cumsum([0, *n]).astype(np.int32) for n in (queries, keys)]
    q = data((starts[0][-1], heads[0], d), 1, t)
    k, v = (normal((starts[1][-1], heads[1], d), i, np.float64) for i in (2, 3))
    k[list(unseen)] = v[list(unseen)] = np.nan
    a = {"q": q, "k": typed(k, t), "v": typed(v, t), "starts_q": starts[0], "starts_k": starts[1]}
    wide = np.float64 if t == "float64" else np.float32
    a["lse"] = np.zeros((starts[0][-1], heads[0]), wide)
    case(
        FILE,
        "attention_varlen",
        a | {"scale": 0.125, "left": left, "right": right},
        attention_varlen,
        out_types={"o": "bf16"} if t == "bf16" else {},
        length=max(keys) + 64,
        ulps=ROUNDING[t],
        scale={"o": 4.0, "lse": 16.0},
        name=f"varlen-{name}-{t}",
        **more,
    )


ALL = 2**30  # a window that hides nothing
LENGTHS = (70, 0, 5, 130, 1), (70, 9, 3, 200, 300)
WINDOWS = {"full": (ALL, ALL), "causal": (ALL, 0), "left": (40, 0), "both": (16, 20), "before": (200, -3)}
for n, (name, window) in enumerate(WINDOWS.items()):
    tune = [{"BM": 64, "BN": 32}, ROLES[n % 3]] if n % 4 != 0 else [{}]
    check_varlen(TYPES[(0, 1, 1, 2, 3)[n]], name, *LENGTHS, *window, tune=tune if n < 4 else [{}])
# Keys that no query sees are not read: those before the windows of the last 150, and those of no sequence.
check_varlen("float16", "unread", (0, 150), (20, 700), 100, -2, unseen=[*range(20 + 450), 718, 719], tune=ROLES)
