"""Definitions for the case files of tests/run/: data, views, element types that NumPy lacks, and case().

See README.md beside this file.
"""
import dataclasses
import pathlib

import numpy as np

CASES = []


# ---- element types that NumPy does not have ------------------------------------------------------

@dataclasses.dataclass
class Format:
    """A small binary float: exponent and mantissa bits, bias, greatest finite value."""
    exponent: int
    mantissa: int
    bias: int
    greatest: float
    inf: bool  # whether it has infinities (otherwise the top codes are numbers, and one is NaN)


FORMATS = {
    "bf16": Format(8, 7, 127, float.fromhex("0x1.fep127"), True),
    "f8e4m3": Format(4, 3, 7, 448.0, False),
    "f8e5m2": Format(5, 2, 15, 57344.0, True),
}


def decode_table(name):
    """The value of every code of a format, as f64."""
    f = FORMATS[name]
    bits = 1 + f.exponent + f.mantissa
    code = np.arange(1 << bits)
    e = (code >> f.mantissa) & ((1 << f.exponent) - 1)
    m = code & ((1 << f.mantissa) - 1)
    normal = np.ldexp(1 + m / 2.0 ** f.mantissa, e - f.bias)
    small = np.ldexp(m / 2.0 ** f.mantissa, 1 - f.bias)
    v = np.where(e == 0, small, normal)
    top = e == (1 << f.exponent) - 1
    if f.inf:
        v = np.where(top, np.where(m == 0, np.inf, np.nan), v)
    else:
        v = np.where(top & (m == (1 << f.mantissa) - 1), np.nan, v)
    return np.where(code >> (bits - 1), -v, v)


TABLES = {name: decode_table(name) for name in FORMATS}


def encode(values, name):
    """f64 to codes: nearest, ties to even codes; f8 saturates, as `as` does."""
    table = TABLES[name]
    half = len(table) // 2
    positive = table[:half]
    finite = positive[np.isfinite(positive)]
    values = np.asarray(values, np.float64)
    a = np.abs(values)
    hi = np.clip(np.searchsorted(finite, a), 1, len(finite) - 1)
    lo = hi - 1
    down, up = a - finite[lo], finite[hi] - a
    code = np.where((down < up) | ((down == up) & (lo % 2 == 0)), lo, hi)
    if name == "bf16":
        over = a >= FORMATS[name].greatest * (1 + 2.0 ** -9)
        code = np.where(over, int(np.argmax(np.isinf(positive))), code)
    code = np.where(np.isnan(a), half - 1, code)
    code = np.where(np.signbit(values), code + half, code)
    return code.astype(np.uint16 if name == "bf16" else np.uint8)


class Data:
    """An argument: the array in the .npy file, its view, and its values."""

    def __init__(self, stored, value, suffix=""):
        self.stored, self.value, self.suffix = stored, value, suffix


def as_data(a):
    return a if isinstance(a, Data) else Data(np.asarray(a), np.asarray(a))


def _small_float(values, name):
    code = encode(values, name)
    return Data(code, TABLES[name][code], ":" + name)


def bf16(values):
    return _small_float(values, "bf16")


def f8e4m3(values):
    return _small_float(values, "f8e4m3")


def f8e5m2(values):
    return _small_float(values, "f8e5m2")


def _packed(values, name):
    """Two elements a byte along the last dimension, the low half first; its extent is even."""
    v = np.asarray(values, np.int64)
    nibble = (v & 15).astype(np.uint8)
    return Data(nibble[..., 0::2] | nibble[..., 1::2] << 4, v, ":" + name)


def i4(values):
    return _packed(values, "i4")


def u4(values):
    return _packed(values, "u4")


# ---- views ---------------------------------------------------------------------------------------

def sliced(a, text):
    """sliced(x, "[::2, ::-1]"): the kernel sees this view of the array in the file."""
    d = as_data(a)
    return Data(d.stored, eval("v" + text, {"v": d.value}), d.suffix + text.replace(" ", ""))


def permuted(a, *axes):
    d = as_data(a)
    return Data(d.stored, np.transpose(d.value, axes),
                d.suffix + ":permute(%s)" % ",".join(map(str, axes)))


def expanded(a, extent, axis=0):
    """A new axis with stride 0."""
    d = as_data(a)
    value = np.repeat(np.expand_dims(d.value, axis), extent, axis)
    return Data(d.stored, value, d.suffix + f":expand({extent},{axis})")


def spread(a, axis, stride):
    """The same elements, `stride` elements apart along axis, in sparse virtual memory."""
    d = as_data(a)
    return Data(d.stored, d.value, d.suffix + f":spread({axis},{stride})")


def fortran(a):
    """Column-major in memory."""
    d = as_data(a)
    return Data(np.asfortranarray(d.stored), d.value, d.suffix)


# ---- random data ---------------------------------------------------------------------------------

def uniform(shape, seed, lo=-1.0, hi=1.0, dtype=np.float32):
    return np.random.default_rng(seed).uniform(lo, hi, shape).astype(dtype)


def normal(shape, seed, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def integers(shape, seed, lo, hi, dtype=np.int32):
    """lo <= value < hi."""
    return np.random.default_rng(seed).integers(lo, hi, shape).astype(dtype)


# ---- cases ---------------------------------------------------------------------------------------

KERNELS = pathlib.Path(__file__).resolve().parent.parent / "kernels"


@dataclasses.dataclass
class Case:
    name: str
    file: pathlib.Path
    kernel: str
    args: dict
    expect: object
    length: float
    ulps: float
    scale: object
    tune: list
    types: dict
    targets: object
    fails: str
    flags: tuple
    out_types: dict
    computes: str
    cut: object


def case(file, kernel, args, expect=None, *, name=None, length=1, ulps=4, scale=None, tune=({},),
         types=None, targets=None, fails=None, flags=(), out_types=None, computes=None, ranks=None, cut=None):
    """Registers a run of `kernel` of `file` on every executor, once for each setting in tune.

    args       parameter -> array, Data (bf16(...), sliced(...), ...), number, None or "spec" expect
    output -> reference, or a function of the argument values (f64) that returns it length     number of
    terms in a result's sum: the error bound grows with it ulps       slack for other arithmetic, in units
    of the accumulator's rounding error scale      output -> magnitude of the summed terms (default: the
    largest |reference|) out_types  output -> "bf16" ...: the type of an output that NumPy lacks ranks
    number of ranks; arguments and results have the rank as first dimension computes   the type of the
    arithmetic: "float32", "float16" (default: float32, in f64 float64) cut        a function of the
    argument values: output -> the error of each element that units of 13 bits
               (KEPT) may add, for targets with such units
    fails      the run must end with this text in its message
    """
    import sys
    caller = pathlib.Path(sys._getframe(1).f_code.co_filename).parent
    path = next((d / file for d in (caller, KERNELS) if (d / file).exists()), caller / file)
    flags = [*flags, "--ranks", str(ranks)] if ranks else flags
    CASES.append(Case(name or f"{kernel}-{len(CASES)}", path, kernel, args, expect, length, ulps,
                      scale or {}, list(tune), types or {}, targets, fails, tuple(flags),
                      out_types or {}, computes, cut))


# ---- matrix units for f8 -------------------------------------------------------------------------

KEPT, CHAIN, STEP = 13, 128, 32  # bits after the leading one, products in a chain, products of an instruction


def cut_of_chain(p):
    """The greatest error of sums of the products p along the last axis. Each product, and each sum of an
    instruction, is cut to 13 bits after the leading bit of the greatest term. A term is a product or a
    sum of consecutive products."""
    sums = np.concatenate([np.zeros(p.shape[:-1] + (1,)), np.cumsum(p, -1)], -1)
    most = np.maximum(sums.max(-1) - sums.min(-1), np.abs(p).max(-1))
    grid = np.exp2(np.floor(np.log2(np.maximum(most, 1e-300))) - KEPT)[..., None]
    return np.mod(np.abs(p), grid).sum(-1) + grid[..., 0] * 2 * -(-p.shape[-1] // STEP)


def cut_of_product(a, b, chain=CHAIN):
    """The greatest error of each element of a b^T if the unit sums `chain` products at a time, and f32 adds
    these sums (docs/use/kernels-on-gpus.md)."""
    out = np.zeros((len(a), len(b)))
    for k in range(0, a.shape[1], chain):
        out += cut_of_chain(a[:, None, k : k + chain] * b[None, :, k : k + chain])
    return out


# ---- random numbers -------------------------------------------------------------------------------

def philox(seed, n):
    """The first word of Philox4x32-10 on counters 0 .. n - 1 (Salmon et al. 2011), as a number in [0, 1)."""
    i = np.arange(n, dtype=np.uint64)
    m32 = np.uint64(0xFFFFFFFF)
    x = [i & m32, i >> np.uint64(32), np.zeros(n, np.uint64), np.zeros(n, np.uint64)]
    k = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * x[0], np.uint64(0xCD9E8D57) * x[2]
        x = [
            (b >> np.uint64(32)) ^ x[1] ^ k[0],
            b & m32,
            (a >> np.uint64(32)) ^ x[3] ^ k[1],
            a & m32,
        ]
        k = [(k[0] + np.uint64(0x9E3779B9)) & m32, (k[1] + np.uint64(0xBB67AE85)) & m32]
    return (x[0] >> np.uint64(8)).astype(np.float64) * 2.0**-24


def dropout(x, p, seed, **_):
    keep = philox(seed, x.size).reshape(x.shape) >= np.float32(p)
    return {"y": np.where(keep, x / (1 - p), 0)}
