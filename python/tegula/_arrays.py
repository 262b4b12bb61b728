# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays as DLTensors, without a copy: by NumPy's array interface or by DLPack."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, Iterable, Optional, Sequence

from . import _library as c

INT, UINT, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6
E4M3, E5M2 = 10, 12

# The array interface's name of a type -> DLPack's code and bits.
_TYPES = {"|b1": (BOOL, 8), "|i1": (INT, 8), "|u1": (UINT, 8)}
_TYPES.update({f"<i{n}": (INT, 8 * n) for n in (2, 4, 8)})
_TYPES.update({f"<u{n}": (UINT, 8 * n) for n in (2, 4, 8)})
_TYPES.update({f"<f{n}": (FLOAT, 8 * n) for n in (2, 4, 8)})
# Types that NumPy has only with ml_dtypes, by name.
_NAMED = {
    "bfloat16": (BFLOAT, 16),
    "float8_e4m3fn": (E4M3, 8),
    "float8_e5m2": (E5M2, 8),
}


class _Result:
    """In place of an argument: the call allocates it."""

    def __repr__(self) -> str:
        return "RESULT"


RESULT = _Result()


class As:
    """An array whose elements are the bits of another type."""

    def __init__(self, array: Any, code: int, bits: int, last: Optional[int] = None) -> None:
        self.array, self.code, self.bits, self.last = array, code, bits, last


def bfloat16(array: Any) -> As:
    """The bits of bf16 in an array of 16-bit integers."""
    return As(array, BFLOAT, 16)


def float8_e4m3(array: Any) -> As:
    """The bits of f8e4m3 in an array of 8-bit integers."""
    return As(array, E4M3, 8)


def float8_e5m2(array: Any) -> As:
    """The bits of f8e5m2 in an array of 8-bit integers."""
    return As(array, E5M2, 8)


def int4(array: Any, n: Optional[int] = None) -> As:
    """Two i4 a byte, the low half first; n of them along the last axis (all by default)."""
    return As(array, INT, 4, n)


def uint4(array: Any, n: Optional[int] = None) -> As:
    """An array of u4, two a byte, the low half first. n: the number along the last axis (default: all)."""
    return As(array, UINT, 4, n)


class Held:
    """A tensor, and the objects that must live as long as it."""

    __slots__ = ("tensor", "keep")

    def __init__(self, tensor: Any, *keep: Any) -> None:
        self.tensor, self.keep = tensor, keep


def _element(name: str, array: Any, typestr: str) -> tuple[int, int]:
    """DLPack's code and bits of an array's elements."""
    if typestr in _TYPES:
        return _TYPES[typestr]
    dtype = str(getattr(getattr(array, "dtype", None), "name", typestr))
    if dtype in _NAMED:
        return _NAMED[dtype]
    if typestr[0] == ">":
        raise TypeError(f"'{name}': the bytes of {dtype} are swapped; convert the array")
    raise TypeError(f"'{name}': arrays of {dtype} cannot be passed")


_HOST = c.DLDevice(1, 0)


def integers(values: Iterable[Any], text: str) -> Any:
    """An array of 64-bit integers. ctypes would drop bits."""
    values = [v.__index__() for v in values]
    for v in values:
        if not -(1 << 63) <= v < 1 << 63:
            raise OverflowError(f"{text} {v} does not fit into 64 bits")
    return (ctypes.c_int64 * (len(values) or 1))(*values)


def _make(
    data: Optional[int], code: int, bits: int, shape: Sequence[int], strides: Optional[Sequence[int]]
) -> Held:
    """strides count elements; None: dense. The structure keeps its arrays."""
    steps = integers(strides, "a stride of") if strides is not None else None
    dtype, extents = c.DLDataType(code, bits, 1), integers(shape, "an extent of")
    return Held(c.DLTensor(data, _HOST, len(shape), dtype, extents, steps, 0))


def description(code: int, bits: int, shape: Sequence[int], strides: Sequence[int]) -> Held:
    """A tensor of the CPU without elements, for questions about types and shapes."""
    return _make(64, code, bits, shape, strides)


def copy_of(t: Any) -> Held:
    """A tensor's description without its address."""
    shape = t.shape[: t.ndim]
    strides = t.strides[: t.ndim] if t.strides else None
    own = _make(None, t.dtype.code, t.dtype.bits, shape, strides)
    own.tensor.device = t.device
    return own


def _refuse_mask(name: str, array: Any, interface: Any) -> None:
    """Kernels see all elements, also masked ones."""
    numpy = sys.modules.get("numpy")
    masked = numpy is not None and isinstance(array, numpy.ma.MaskedArray)
    if masked or interface.get("mask") is not None:
        raise TypeError(
            f"'{name}' is a masked array, and kernels see no masks: pass its data, or filled()"
        )


def _from_interface(name: str, array: Any, interface: Any, written: bool) -> Held:
    _refuse_mask(name, array, interface)
    data, read_only = interface["data"]
    if written and read_only:
        raise ValueError(f"'{name}' is written, but the array is read-only")
    code, bits = _element(name, array, interface["typestr"])
    shape, strides = interface["shape"], interface.get("strides")
    if strides is not None:
        size = bits // 8
        if any(s % size for s in strides):
            raise TypeError(f"'{name}': its strides are not multiples of an element; copy the array")
        strides = [s // size for s in strides]
    held = _make(data, code, bits, shape, strides)
    held.keep += (array, interface)  # only the interface of a NumPy scalar holds its memory
    return held


CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13


def current_stream(array: Any, device: int) -> int:
    """The current stream of the library that made the array, as an integer; 0 is the default stream."""
    while isinstance(array, As):
        array = array.array
    library = type(array).__module__.partition(".")[0]
    if library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)
    if library == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream(device).ptr)
    return 0


def _without_gradient(name: str, array: Any, written: bool) -> Any:
    """PyTorch refuses to export a tensor that requires grad. Kernels read its elements; the caller's
    autograd function knows the gradient."""
    if not getattr(array, "requires_grad", False):
        return array
    if written and sys.modules["torch"].is_grad_enabled():
        raise TypeError(
            f"'{name}' is written, and it requires grad: pass {name}.detach(), or call the kernel "
            f"under torch.no_grad()"
        )
    return array.detach()


def _from_dlpack(name: str, array: Any) -> Held:
    """Makes a tensor of the array's DLPack capsule. The capsule stays the producer's: it is not consumed, and
    frees itself after the launch. A GPU's producer need not wait, since the launch goes to its current
    stream."""
    kind = array.__dlpack_device__()[0] if hasattr(array, "__dlpack_device__") else CPU
    capsule = array.__dlpack__(stream=-1) if kind in (CUDA, CUDA_MANAGED) else array.__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    pointer = get(capsule, b"dltensor")
    tensor = ctypes.cast(pointer, ctypes.POINTER(c.DLTensor)).contents
    if tensor.ndim > c.MAX_RANK:
        raise TypeError(f"'{name}' has {tensor.ndim} dimensions, {c.MAX_RANK} are the most")
    return Held(tensor, capsule, array)


def _dense(shape: Sequence[int]) -> list[int]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= max(extent, 1)
    return strides


def _nibbles(
    name: str, shape: list[int], strides: list[int], last: Optional[int]
) -> tuple[list[int], list[int]]:
    """Shape and strides in 4-bit elements, from those of the bytes."""
    if not shape or (shape[-1] > 1 and strides[-1] != 1):
        raise TypeError(f"'{name}': the bytes of a row of 4-bit elements must be contiguous")
    n = 2 * shape[-1] if last is None else last
    if not 0 <= n <= 2 * shape[-1]:
        raise ValueError(f"'{name}': {n} elements do not fit into {shape[-1]} bytes")
    return shape[:-1] + [n], [2 * s for s in strides[:-1]] + [1]


def _reinterpret(name: str, view: As, written: bool) -> Held:
    held = tensor(name, view.array, written)
    t = held.tensor
    whole = max(view.bits, 8)
    if t.dtype.bits != whole or t.dtype.code not in (INT, UINT):
        raise TypeError(f"'{name}': its bits must be in integers of {whole} bits")
    shape = t.shape[: t.ndim]
    strides = t.strides[: t.ndim] if t.strides else _dense(shape)
    if view.bits == 4:
        shape, strides = _nibbles(name, shape, strides, view.last)
    again = _make(t.data, view.code, view.bits, shape, strides)
    again.tensor.byte_offset = t.byte_offset
    again.tensor.device = t.device
    again.keep += (held,)
    return again


def tensor(name: str, array: Any, written: bool) -> Held:
    """The DLTensor of an argument. A Held stands for itself."""
    if isinstance(array, Held):
        return array
    if isinstance(array, As):
        return _reinterpret(name, array, written)
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        return _from_interface(name, array, interface, written)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(name, _without_gradient(name, array, written))
    raise TypeError(
        f"'{name}' must be an array (NumPy, or with __dlpack__), not {type(array).__name__}"
    )


# ---- results ---------------------------------------------------------------------------------------

_NUMPY = {(BOOL, 8): "?", (FLOAT, 16): "f2", (FLOAT, 32): "f4", (FLOAT, 64): "f8"}
_NUMPY.update({(INT, n): f"i{n // 8}" for n in (8, 16, 32, 64)})
_NUMPY.update({(UINT, n): f"u{n // 8}" for n in (8, 16, 32, 64)})
TORCH = {(BOOL, 8): "bool", (FLOAT, 16): "float16", (FLOAT, 32): "float32", (FLOAT, 64): "float64"}
TORCH.update({(INT, n): f"int{n}" for n in (8, 16, 32, 64)})
TORCH.update({(UINT, n): f"uint{n}" for n in (8, 16, 32, 64)})
TORCH.update({(BFLOAT, 16): "bfloat16", (E4M3, 8): "float8_e4m3fn", (E5M2, 8): "float8_e5m2"})


def _numpy_type(element: tuple[int, int]) -> Any:
    """A type of NumPy, or of ml_dtypes; None if it has none."""
    if element in _NUMPY:
        return _NUMPY[element]
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    names = {(code, bits): name for name, (code, bits) in _NAMED.items()}
    return getattr(ml_dtypes, names[element], None) if element in names else None


def first_array(params: Sequence[Any], values: Sequence[Any]) -> Any:
    """Returns the first array among the arguments. Results get its library and device."""
    for p, value in zip(params, values):
        if p.is_tensor and value is not None and value is not RESULT:
            while isinstance(value, As):
                value = value.array
            return value
    return None


def _maker(name: str, like: Any, shape: Any, element: Any, zero: bool) -> Any:
    """A function that makes an array of the library and on the device of `like`. None: the library lacks
    the type."""
    library = type(like).__module__.partition(".")[0]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        dtype, device = getattr(torch, TORCH.get(element, ""), None), like.device
        how = {"dtype": dtype, "device": device}
        if zero:
            return dtype and functools.partial(torch.zeros, shape, **how)
        # Its arguments are read in half of the time of those of torch.empty.
        return dtype and functools.partial(torch.empty_strided, shape, _dense(shape), **how)
    arrays: Any
    if hasattr(like, "__array_interface__"):
        import numpy as arrays
    elif library == "cupy":
        arrays = sys.modules["cupy"]
    else:
        raise TypeError(
            f"'{name}' is missing, and arrays of {library} are not allocated here: pass an array for it"
        )
    dtype, make = _numpy_type(element), arrays.zeros if zero else arrays.empty
    return dtype and (lambda: make(shape, dtype))


def maker_of(name: str, like: Any, found: Any, zero: bool) -> Any:
    """A function that makes such a result. None: the library of `like` lacks its type."""
    element = found.type.code, found.type.bits
    if like is None or not found.flags & c.KNOWN or element[1] < 8:
        return None
    return _maker(name, like, tuple(found.shape[: found.rank]), element, zero)


def make_result(name: str, like: Any, found: Any, zero: bool) -> tuple[Any, Any]:
    """A result of this type and shape, as the caller gets it and as the kernel takes it. Types that the
    library lacks are integers with their bits."""
    if like is None:
        raise TypeError(f"'{name}' is missing, and no other array says of which kind it must be")
    make = maker_of(name, like, found, zero)
    if make:
        array = make()
        return array, array
    code, bits = found.type.code, found.type.bits
    shape = tuple(found.shape[: found.rank])
    last = shape[-1] if shape and bits < 8 else None
    if last is not None:
        shape = shape[:-1] + ((last + 1) // 2,)
    array = _maker(name, like, shape, (UINT, max(bits, 8)), zero)()
    return array, As(array, code, bits, last)
