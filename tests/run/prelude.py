"""The prelude and std/merge.teg: activations, places, random numbers, statistics."""
import math

from harness import *

N = 103
erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(x, 0)


def activations(x, **_):
    with np.errstate(all="ignore"):
        rows = [np.where(x < 0, 0, x), np.where(x < 0, x * 0.125, x),
                np.where(x < 0, 0.5 * np.expm1(x), x), sigmoid(x), x * sigmoid(x),
                softplus(x), x * np.tanh(softplus(x)), x * (1 + erf(x / math.sqrt(2))) / 2,
                x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))) / 2,
                np.sign(x), x - np.floor(x), np.clip(x, -1, 2), x, x + (x * x - x) * 0.25]
    return {"y": np.stack(rows)}


for t in (np.float32, np.float64):
    x = uniform((N,), 1, -6, 6, t)
    x[:3] = [0, 1, -1]
    case("prelude.teg", "activations", {"x": x, "y": f"zeros(14,{N}):f{8 * t().itemsize}"},
         activations, tune=[{"B": 16}, {"B": 40}], ulps=6, name=f"activations-{t.__name__}")

x = uniform((50,), 2, -30, 30)
y = np.where(np.arange(50) % 3 == 0, x + 0.25, uniform((50,), 3, -30, 30))
y = y.astype(np.float32)
y[1] = x[1]
case("prelude.teg", "pairs", {"x": x, "y": y},
     lambda x, y, **_: {"sums": np.logaddexp(x, y),
                        "near": (np.abs(x - y) <= 0.5).astype(np.int32)})


def places(x, **_):
    return {"reversed_": x[:, ::-1], "columns": x[::-1], "rolled": np.roll(x, 3, 1), "flat":
            np.array([x.argmax(), x.argmin()]), "at": np.arange(x.size).reshape(x.shape)}


for t in (np.float32, np.int32, np.uint8):
    for m, n in [(5, 9), (1, 1), (5, 16), (1, 16)]:
        case("prelude.teg", "places", {"x": integers((m, n), m * n, 0, 50, t)}, places,
             name=f"places-{t.__name__}-{m}x{n}")


def greatest(k):
    def f(x, **_):
        order = np.argsort(-x.astype(np.float64), kind="stable")[:k]
        return {"v": x[order], "at": order}
    return f


for n, k in [(16, 5), (33, 1), (33, 5), (16, 1)]:
    case("prelude.teg", "greatest",
         {"x": integers((n,), n, 0, 9, np.float32), "v": f"zeros({k}):f32",
          "at": f"zeros({k}):i64"}, greatest(k), name=f"greatest-{n}-{k}")

for n in (1, 20):
    case("prelude.teg", "counts", {"x": integers((7, n), n, -1, 9)},
         lambda x, **_: {"some": (x > 0).any(1).astype(np.int32), "how_many": (x > 0).sum(1),
                         "every": (x > 0).all(1).astype(np.int32)}, name=f"counts-{n}")


# ---- random numbers

def philox(seed, at):
    """Philox4x32-10 (Random123): key = seed, counter = (low word, high word, 0, 0)."""
    mask = (1 << 32) - 1
    rows = []
    for i in at:
        i, seed = int(i) & (1 << 64) - 1, int(seed) & (1 << 64) - 1
        c, k = [i & mask, i >> 32, 0, 0], [seed & mask, seed >> 32]
        for _ in range(10):
            a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        rows.append(c)
    return np.array(rows, np.int64).T


# the first vector that is published with the generator
assert list(philox(0, [0])[:, 0]) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]

at = np.concatenate([np.arange(40), [-1, 1 << 40, (1 << 63) - 1]]).astype(np.int64)
for seed in (0, 1, -7, 0x123456789ABCDEF):
    case("prelude.teg", "random_bits", {"seed": seed, "at": at, "y": f"zeros(4,{len(at)}):u32"},
         lambda seed, at, **_: {"y": philox(seed, at)}, tune=[{"B": 16}, {"B": 24}],
         name=f"random_bits-{seed}")


def random_values(seed, **_):
    b = philox(seed, range(N))
    radius = np.sqrt(-2 * np.log(((b[0] >> 8) + 1) / 2 ** 24))
    return {"u": (b[0] >> 8) / 2 ** 24, "g": radius * np.cos((b[1] >> 8) * 2 * math.pi / 2 ** 24),
            "k": np.array([-3 + ((int(h) << 32 | int(l)) * 1003 >> 64) for h, l in zip(*b[:2])])}


case("prelude.teg", "random_values",
     {"seed": 42, "u": f"zeros({N}):f32", "g": f"zeros({N}):f32", "k": f"zeros({N}):i64"},
     random_values, tune=[{"B": 16}, {"B": 40}])

# ---- monoids

for n in (1, 8, 100, 1000):
    x = (normal((3, n), n) * 3 + 10).astype(np.float32)
    case("prelude.teg", "statistics", {"x": x},
         lambda x, **_: {"mean": x.mean(1), "total": x.sum(1),
                         "deviations": ((x - x.mean(1, keepdims=True)) ** 2).sum(1)},
         tune=[{"B": 8}, {"B": 64}], length=n, ulps=40, name=f"statistics-{n}",
         scale={"deviations": max(9.0 * n, 1)})
    case("prelude.teg", "log_sums", {"x": np.round(normal((3, n), n + 1) * 4)},
         lambda x, **_: {"y": np.log(np.exp(x).sum(1)), "best": x.argmax(1)},
         tune=[{"B": 8}, {"B": 64}], ulps=6, name=f"log_sums-{n}")

for t, x in (("f16", normal((5, 100), 8, np.float16)), ("f32", normal((5, 100), 8)),
             ("f64", normal((5, 100), 8, np.float64)), ("bf16", bf16(normal((5, 100), 8)))):
    case("prelude.teg", "wide_sums", {"x": x}, name=f"wide-{t}", length=100,
         expect=lambda x, t=t, **_: {"y": (x * x).sum(1), "s": np.float64(0.1 if t == "f64" else np.float32(0.1))},
         computes="float64" if t == "f64" else "float32")


def own_names(x, **_):
    e = np.exp(x - x.max(1, keepdims=True))
    return {"total": x.sum(1), "mine": x + 1, "y": e / e.sum(1, keepdims=True)}


case(
    "own_names.teg",
    "uses",
    {"x": normal((5, 37), 3).astype(np.float32), "total": "zeros(5)", "mine": "zeros(5,37)", "y": "zeros(5,37)"},
    own_names,
    ulps=8,
)
case("own_names.teg", "add",
     {"x": normal((50,), 1).astype(np.float32), "y": normal((50,), 2).astype(np.float32), "z": "zeros(50)"},
     lambda x, y, **_: {"z": x + y})
