# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Repeated calls with arrays of NumPy or tensors of PyTorch. The parts that depend only on types and shapes
are made once, and a call fills in addresses and numbers. Other arrays, and new kinds of calls, take the
general path."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

from . import _library as c
from ._arrays import (
    CUDA,
    CUDA_MANAGED,
    INT,
    RESULT,
    UINT,
    As,
    copy_of,
    first_array,
    maker_of,
    tensor,
)

if TYPE_CHECKING:
    from ._kernels import Kernel, Param

_NUMBERS = (int, float, bool)
_KEPT = 64  # calls kept for a kernel and thread


class _None:
    """Stands for the arrays of a library that is not loaded."""


_known: Any = (None, None, _None, _None)  # modules of PyTorch and NumPy, and the types of their arrays


def _array_types() -> tuple[Any, Any]:
    """The types of PyTorch's tensors and NumPy's arrays."""
    global _known
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    known = _known
    if known[0] is not torch or known[1] is not numpy:
        known = torch, numpy, getattr(torch, "Tensor", _None), getattr(numpy, "ndarray", _None)
        if known[2] is not _None or torch is None:  # a module that is being imported lacks its types
            _known = known
    return known[2], known[3]


def _address_of(array: Any) -> Any:
    return array.__array_interface__["data"][0]


def address_function(array: Any) -> Callable[[Any], Any]:
    """A function that returns the address of element 0 of arrays of this kind."""
    return type(array).data_ptr if hasattr(array, "data_ptr") else _address_of


def key_of(Tensor: Any, Array: Any, values: Sequence[Any]) -> Optional[tuple[Any, ...]]:
    """Everything that a call depends on, except addresses and numbers; None if unknown. Integers count
    where they may determine the shape of a result."""
    parts: list[Any] = []
    made = False
    for value in values:
        made |= value is RESULT
    for value in values:
        kind = type(value)
        if isinstance(value, Tensor):
            parts += (
                kind,
                value.dtype,
                value.shape,
                value.stride(),
                value.device,
                value.requires_grad,
                value.is_neg(),
            )
        elif kind is Array:
            parts += (value.dtype, value.shape, value.strides, value.flags.writeable)
        elif value is None or value is RESULT:
            parts.append(value)
        elif kind in _NUMBERS:
            parts.append((kind, value) if made and kind is not float else kind)
        elif kind is As and (isinstance(value.array, Tensor) or type(value.array) is Array):
            inner = key_of(Tensor, Array, (value.array,))
            parts.append((value.code, value.bits, value.last, inner))
        else:
            return None
    return tuple(parts)


def _stream_of() -> Callable[[int], int]:
    """The number of the current stream of a device of PyTorch."""
    torch = sys.modules["torch"]
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None) if hasattr(torch, "_C") else None
    return raw or (lambda index: int(torch.cuda.current_stream(index).cuda_stream))


def element_of(p: Param, params: Sequence[Param], values: Sequence[Any]) -> tuple[int, int]:
    """The element type of a number. A type parameter has the type of its first tensor."""
    if p.element or p.type < 0:
        return p.element or (INT, 64)
    for q, value in zip(params, values):
        if q.kind == c.TENSOR and q.type == p.type and value is not None and value is not RESULT:
            t = tensor(q.name, value, False).tensor
            return t.dtype.code, t.dtype.bits
    return INT, 64


class Call:
    """The arguments of one kind of call, ready to be filled in."""

    def __init__(self, kernel: Kernel, values: Sequence[Any]) -> None:
        from ._kernels import Arguments, number

        params = kernel._params
        self.given = (c.Arg * max(len(values), 1))()
        self.address = ctypes.addressof(self.given)
        self.n = len(values)
        self.tensors: list[Any] = []  # place of the value, description, function for the address
        self.wrapped: list[Any] = []
        self.numbers: list[tuple[int, Any, bool, int]] = []
        self.results: list[Any] = []  # description, function that makes it, function for the address
        self.keep: list[Any] = []
        self.device: Optional[int] = None
        self.stream_of: Any = None
        self.returned: Any = None
        self.usable = True
        for i, (p, value) in enumerate(zip(params, values)):
            if not p.is_tensor:
                self.given[i] = number(p, value, params, values)
                self.usable &= type(value) in _NUMBERS
                is_float = self.given[i].kind == c.ARG_FLOAT
                low = 0 if element_of(p, params, values) == (UINT, 64) else -(1 << 63)
                self.numbers.append((i, self.given[i].value, is_float, low))
                continue
            self.given[i].kind = c.ARG_TENSOR
            if value is not None and value is not RESULT:
                self._add_tensor(i, p, value)
        if any(value is RESULT for value in values):
            self._add_results(kernel, values, Arguments(params, values))

    def _add_tensor(self, i: int, p: Param, value: Any) -> None:
        held = tensor(p.name, value, p.written)
        own = copy_of(held.tensor)
        wrapped = type(value) is As
        whole = value.array if wrapped else value
        # If an address differs from the one that the tensor reports, each call takes the general path.
        # So does a written tensor that requires grad, which is refused unless grad mode is off.
        self.usable &= (held.tensor.data or 0) + held.tensor.byte_offset == address_function(whole)(whole)
        self.usable &= not (p.written and getattr(whole, "requires_grad", False))
        self._describe(i, own)
        (self.wrapped if wrapped else self.tensors).append((i, own.tensor, address_function(whole)))

    def _describe(self, i: int, own: Any) -> None:
        self.keep.append(own)
        self.given[i].value.tensor = ctypes.addressof(own.tensor)
        device = own.tensor.device
        if self.device is None and device.device_type in (CUDA, CUDA_MANAGED):
            self.device, self.stream_of = device.device_id, _stream_of()

    def _add_results(self, kernel: Kernel, values: Sequence[Any], arguments: Any) -> None:
        """Results are made like the first array. Types that its library lacks take the general path."""
        found = kernel._inferred(arguments)
        like = first_array(kernel._params, values)
        for i, (p, value) in enumerate(zip(kernel._params, values)):
            if value is not RESULT:
                continue
            make = maker_of(p.name, like, found[i], p.read)
            if make is None:
                self.usable = False
                return
            first = make()
            own = copy_of(tensor(p.name, first, True).tensor)
            self._describe(i, own)
            self.results.append((own.tensor, make, address_function(first)))

    def fill(self, values: Sequence[Any]) -> bool:
        """False if a number needs the general path."""
        for i, own, address in self.tensors:
            own.data = address(values[i])
        for i, own, address in self.wrapped:
            own.data = address(values[i].array)
        for i, place, is_float, low in self.numbers:
            value = values[i]
            if is_float:
                place.f = value
            elif low <= value < 1 << 63:
                place.i = value
            else:
                return False
        if self.results:
            made = []
            for own, make, address in self.results:
                array = make()
                own.data = address(array)
                made.append(array)
            self.returned = made[0] if len(made) == 1 else tuple(made)
        return True

    def launch(self, handle: int, stream: Optional[int]) -> int:
        """The status; 0 is success."""
        if stream is None and self.device is not None:
            stream = self.stream_of(self.device)
        status: int = c.launch_at(handle, self.address, self.n, stream)
        return status


def find(calls: dict[Any, Call], kernel: Kernel, values: Sequence[Any]) -> Optional[Call]:
    """The call of these arguments, filled in; None if they need the general path."""
    key = key_of(*_array_types(), values)
    if key is None:
        return None
    call = calls.get(key)
    if call is None:
        call = Call(kernel, values)
        if len(calls) >= _KEPT:
            calls.clear()
        calls[key] = call
    return call if call.usable and call.fill(values) else None
