"""Arguments of random kernels: values that are difficult for arithmetic, in files and views of them."""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "run"))
import harness  # noqa: E402

NUMPY = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32,
    "f64": np.float64,
}  # fmt: skip
UNITS = {"bf16": np.uint16, "f8e4m3": np.uint8, "f8e5m2": np.uint8}
MOST_SMALL = 4  # greatest magnitude of the integers in small data
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5]
EDGES = [2.0**k for k in (-149, -130, -24, -14, 3, 7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64, 100)]


def floats(r, count):
    """Values at which casts and roundings may go wrong, as f64."""
    edges = r.choice(EDGES, count) * r.choice([1, -1], count) + r.integers(-1, 2, count)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = r.normal(size=count) * np.exp2(r.integers(-20, 21, count))
    halves = r.integers(-9, 10, count) / 2
    # Values half way between two values of a narrower type, and next to these.
    bits = r.choice([3, 4, 8, 11, 24], count)
    ties = (np.exp2(bits + 1) + 2 * r.integers(-1, 4, count) + 1) * np.exp2(r.integers(-12, 6, count) - bits)
    beside = np.choose(r.integers(0, 4, count), [0, 0, 1, -1])
    ties += beside * np.where(r.integers(0, 2, count), np.spacing(ties.astype(np.float32)), ties * 2.0**-35)
    kinds = [edges, spread, halves, r.choice(SPECIAL, count), r.normal(size=count), ties]
    return np.choose(r.integers(0, len(kinds), count), kinds)


def integers(r, elem, count):
    low, high = elem.least, elem.greatest
    any_of = np.array([int(x) for x in r.integers(0, 2**63, count)], dtype=object)
    wild = [low + (int(x) * 2 + 1) % (high - low + 1) for x in any_of]
    edges = [low, high, low + 1, high - 1, 0, 1, 2, 3, 7, 8, 31, 32, 63, 64, high // 2, high // 3]
    edges += [low, high, 0, 1, max(low, -1)] * 3  # least / -1 needs both in one lane
    near = [int(r.integers(max(low, -9), min(high, 9) + 1)) for _ in range(count)]
    kind = r.integers(0, 3, count)
    picks = [edges[int(i)] for i in r.integers(0, len(edges), count)]
    values = [(w, e, n)[k] for w, e, n, k in zip(wild, picks, near, kind)]
    return np.array([min(max(v, low), high) for v in values], dtype=object)


def values(elem, kind, count, r):
    if elem.kind == "b":
        return r.choice(np.array([0, 0, 1, 1, 2, 128, 255], np.uint8) if kind == "wild" else [0, 1], count)
    if kind == "unit":
        return r.choice([1, 1] if elem.kind == "u" else [-1, 1], count)
    if kind == "small":
        return r.integers(0 if elem.kind == "u" else -MOST_SMALL, MOST_SMALL + 1, count)
    return floats(r, count) if elem.kind == "f" else integers(r, elem, count)


def stored(elem, shape, kind, r):
    """The array for a file, and the suffix that names the type of its codes."""
    count = int(np.prod(shape, dtype=np.int64))
    v = values(elem, kind, count, r)
    if elem.kind == "b":
        return v.astype(np.uint8).view(np.bool_).reshape(shape), ""
    if elem.storage_only:
        nibble = (v.astype(np.int64) & 15).astype(np.uint8).reshape(shape)
        return nibble[..., 0::2] | nibble[..., 1::2] << 4, ":" + elem.name
    if elem.name in UNITS:
        code = harness.encode(v.astype(np.float64), elem.name).astype(UNITS[elem.name])
        return code.reshape(shape), ":" + elem.name
    with np.errstate(over="ignore"):
        return v.astype(NUMPY[elem.name]).reshape(shape), ""


class Pool:
    """Files of data that many programs share. The contents follow from the name."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def argument(self, elem, shape, kind, variant):
        name = f"{elem.name}-{kind}-{'x'.join(map(str, shape))}-{variant}"
        if name not in self.made:
            seed = list(name.encode())
            array, suffix = stored(elem, shape, kind, np.random.default_rng(seed))
            path = self.folder / f"{name}.npy"
            np.save(path, array)
            self.made[name] = f"@{path}{suffix}"
        return self.made[name]


def decoded(a, elem):
    """An output's file as comparable numbers."""
    return harness.TABLES[elem.name][a] if elem.name in UNITS else a


def ulp(a, elem):
    """The distance of neighbours at |a| in the element, as f64."""
    from gen.tables import SIGNIFICAND

    least = {"f64": -1022, "f32": -126, "bf16": -126, "f16": -14, "f8e4m3": -6, "f8e5m2": -14}
    with np.errstate(all="ignore"):
        _, e = np.frexp(np.abs(np.where(np.isfinite(a), a, 0)))
    return np.ldexp(1.0, np.maximum(e - 1, least[elem.name]) - (SIGNIFICAND[elem.name] - 1))


GREATEST = {"f64": np.finfo(np.float64).max, "f32": np.finfo(np.float32).max, "f16": 65504.0}


def difference(a, b, out):
    """"", or the difference between an output's file and the interpreter's `a`."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{b.dtype}{list(b.shape)} in place of {a.dtype}{list(a.shape)}"
    elem = out.elem
    if elem.kind != "f":
        if elem.kind == "b":
            a, b = a.view(np.uint8), b.view(np.uint8)
        same = a == b
    else:
        a, b = decoded(a, elem), decoded(b, elem)
        same = (a == b) | ((a != a) & (b != b))
        if not out.signless:
            same &= (np.signbit(a) == np.signbit(b)) | (a != a)
        if out.ulps:
            same |= near(a, b, out)
    if same.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0]) if a.ndim else ()
    return f"{int((~same).sum())} of {same.size} differ, first {list(at)}: {a[at]!r} expected, {b[at]!r} found"


def near(a, b, out):
    top = GREATEST.get(out.elem.name)
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        if top:  # a value that rounds to infinity may round to the greatest number
            x, y = np.clip(x, -top, top), np.clip(y, -top, top)
        bound = out.ulps * ulp(x, out.elem) + out.absolute
        return np.abs(x - y) <= bound
