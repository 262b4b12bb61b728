"""Every code of the 8-bit elements: exact conversions from and to all types, and products."""

from harness import *

EIGHTS = {"f8e4m3": f8e4m3, "f8e5m2": f8e5m2}


def of_codes(t, codes, shape=None):
    codes = np.asarray(codes, np.uint8).reshape(shape or -1)
    return Data(codes, TABLES[t][codes], ":" + t)


def bits(v, dtype, unsigned):
    """NaNs have several codes, so they are compared separately."""
    with np.errstate(all="ignore"):
        return v.astype(dtype).view(unsigned)


def widened(t, codes):
    v = TABLES[t][codes]
    with np.errstate(all="ignore"):
        integers = np.where(np.isnan(v), 0, np.clip(np.trunc(v), -(2**31), 2**31 - 1))
    return {
        "h": bits(v, np.float16, np.uint16),
        "b": encode(v, "bf16"),
        "s": bits(v, np.float32, np.uint32),
        "d": bits(v, np.float64, np.uint64),
        "i": integers.astype(np.int32),
        "odd": np.isnan(v),
    }


for t in EIGHTS:
    numbers = np.flatnonzero(~np.isnan(TABLES[t]))
    case("eights.teg", "widen", {"x": of_codes(t, numbers)}, widened(t, numbers), tune=[{"B": 16}, {"B": 256}],
         name=f"widen-{t}")
    nans = np.flatnonzero(np.isnan(TABLES[t]))
    case("eights.teg", "widen", {"x": of_codes(t, nans)}, {"odd": np.ones(len(nans), bool), "i": np.zeros(len(nans), int)},
         name=f"widen-{t}-nan")


def near(t, dtype):
    """Each value, the middles between neighbours, values next to these, and values beyond the range."""
    v = np.unique(TABLES[t][np.isfinite(TABLES[t])])
    middles = (v[1:] + v[:-1]) / 2
    step = v[-1] - v[-2]
    over = np.array([v[-1] + step / 2, v[-1] + step, 2 * v[-1], 65504.0, np.inf])
    tiny = np.array([v[v > 0][0] / 2, v[v > 0][0] / 4, 1e-30])
    with np.errstate(all="ignore"):
        x = np.concatenate([v, middles, over, -over, tiny, -tiny, [0.0, -0.0]]).astype(dtype)
        x = np.concatenate([x, np.nextafter(x, dtype(np.inf)), np.nextafter(x, dtype(-np.inf))])
    return x[~np.isnan(x)]


def narrowed(t, v):
    return {"y": TABLES[t][encode(v, t)], "code": encode(v, t), "odd": np.zeros(len(v), bool)}


def narrow(t, s, x, v):
    case("eights.teg", "narrow", {"x": x}, narrowed(t, v), types={"T": t}, out_types={"y": t},
         tune=[{"B": 16}, {"B": 256}], name=f"narrow-{t}-{s}")


for t in EIGHTS:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    narrow(t, "f16", halves, halves.astype(np.float64))
    for s, dtype in (("f32", np.float32), ("f64", np.float64)):
        x = near(t, dtype)
        narrow(t, s, x, x.astype(np.float64))
    wide = TABLES["bf16"][np.isfinite(TABLES["bf16"])]
    narrow(t, "bf16", bf16(wide), wide)
    for s, dtype in (("i8", np.int8), ("i32", np.int32), ("u64", np.uint64)):
        x = np.concatenate([np.arange(128), 2 ** np.arange(31), 3 * 2 ** np.arange(29)]).astype(dtype)
        narrow(t, s, x, x.astype(np.float64))
    other = next(o for o in EIGHTS if o != t)
    codes = np.flatnonzero(~np.isnan(TABLES[other]))
    narrow(t, other, of_codes(other, codes), TABLES[other][codes])
    for s, dtype in (("f16", np.float16), ("f32", np.float32), ("f64", np.float64)):
        case("eights.teg", "narrow", {"x": np.array([np.nan, -np.nan], dtype)}, {"odd": [True, True]}, types={"T": t},
             name=f"narrow-{t}-{s}-nan")

# ---- products of all pairs of codes, with NaNs and infinities; sums that are exact

for t in EIGHTS:
    pairs = {"a": of_codes(t, np.arange(256), (256, 1)), "b": of_codes(t, np.arange(256), (1, 256))}
    case("eights.teg", "product", pairs, lambda a, b: {"c": a * b}, ulps=-1, scale={"c": 0.0},
         tune=[{"BM": 64, "BN": 64, "BK": 32}, {"BM": 16, "BN": 16, "BK": 32}, {"BM": 64, "BN": 64, "BK": 64}],
         name=f"pairs-{t}")
    r = np.random.default_rng(1)
    x, y = (EIGHTS[t](r.integers(-3, 4, s).astype(np.float64)) for s in ((40, 100), (100, 50)))
    case("eights.teg", "product", {"a": x, "b": y}, lambda a, b: {"c": a @ b}, ulps=0,
         tune=[{"BM": 16, "BN": 64, "BK": 32}, {"BM": 64, "BN": 16, "BK": 64}], name=f"sums-{t}")

# ---- the bits of elements, of eight bits and more
for t in ("int8", "float16", "float32", "float64", "uint16", "int64"):
    x = (np.arange(-20, 21) * 1.5).astype(t)
    word = x.view(f"u{x.itemsize}").astype(np.uint64)
    case("eights.teg", "bits_of", {"x": x}, {"y": word, "size": 8 * x.itemsize}, name=f"bits_of-{t}")
