# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Repeated calls with tensors of PyTorch. The parts that depend only on types and shapes are made once, and a
call fills in addresses and numbers. Other arrays, and new kinds of calls, take the general path."""

import ctypes
import sys

from . import _library as c
from ._arrays import CUDA, CUDA_MANAGED, INT, UINT, As, copy_of, tensor

_NUMBERS = (int, float, bool)
_KEPT = 64  # calls kept for a kernel and thread


def _tensor_key(t):
    """Everything that determines a tensor's description, except its address."""
    return t.dtype, t.shape, t.stride(), t.device, t.requires_grad, t.is_neg()


def key_of(torch, values):
    """Everything that a call depends on, except addresses and numbers; None if unknown."""
    Tensor, parts = torch.Tensor, []
    for value in values:
        kind = type(value)
        if isinstance(value, Tensor):
            parts.append(_tensor_key(value))
        elif kind is As and isinstance(value.array, Tensor):
            parts.append((value.code, value.bits, value.last, _tensor_key(value.array)))
        elif value is None or kind in _NUMBERS:
            parts.append(kind)
        else:
            return None
    return tuple(parts)


def _stream_of(torch):
    """The number of the current stream of a device."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None) if hasattr(torch, "_C") else None
    return raw or (lambda index: torch.cuda.current_stream(index).cuda_stream)


def element_of(p, params, values):
    """The element type of a number. A type parameter has the type of its first tensor."""
    if p.element or p.type < 0:
        return p.element or (INT, 64)
    for q, value in zip(params, values):
        if q.kind == c.TENSOR and q.type == p.type and value is not None:
            t = tensor(q.name, value, False).tensor
            return t.dtype.code, t.dtype.bits
    return INT, 64


class Call:
    """The arguments of one kind of call, ready to be filled in."""

    def __init__(self, torch, params, values, number):
        self.given = (c.Arg * max(len(values), 1))()
        self.n = len(values)
        self.tensors, self.numbers = [], []
        self.device = self.stream_of = None
        self.usable = True
        for i, (p, value) in enumerate(zip(params, values)):
            if p.kind != c.TENSOR:
                self.given[i] = number(p, value, params, values)
                self.usable &= type(value) in _NUMBERS
                is_float = self.given[i].kind == c.ARG_FLOAT
                low = 0 if element_of(p, params, values) == (UINT, 64) else -(1 << 63)
                self.numbers.append((i, self.given[i].value, is_float, low))
                continue
            self.given[i].kind = c.ARG_TENSOR
            if value is not None:
                self._add_tensor(torch, i, p, value)

    def _add_tensor(self, torch, i, p, value):
        held = tensor(p.name, value, p.written)
        own = copy_of(held.tensor)
        wrapped = type(value) is As
        address = (value.array if wrapped else value).data_ptr()
        # If an address differs from the one that the tensor reports, each call takes the general path.
        self.usable &= (held.tensor.data or 0) + held.tensor.byte_offset == address
        self.given[i].value.tensor = ctypes.addressof(own.tensor)
        self.tensors.append((i, own.tensor, wrapped, own))
        device = own.tensor.device
        if self.device is None and device.device_type in (CUDA, CUDA_MANAGED):
            self.device, self.stream_of = device.device_id, _stream_of(torch)

    def fill(self, values):
        """False if a number needs the general path."""
        for i, own, wrapped, _ in self.tensors:
            value = values[i]
            own.data = (value.array if wrapped else value).data_ptr()
        for i, place, is_float, low in self.numbers:
            value = values[i]
            if is_float:
                place.f = value
            elif low <= value < 1 << 63:
                place.i = value
            else:
                return False
        return True

    def launch(self, handle, stream):
        if stream is None and self.device is not None:
            stream = self.stream_of(self.device)
        return c.launch_on(handle, self.given, self.n, stream)


def find(calls, params, values, number):
    """The call of these arguments, filled in; None if they need the general path."""
    torch = sys.modules.get("torch")
    key = key_of(torch, values) if torch is not None and hasattr(torch, "Tensor") else None
    if key is None:
        return None
    call = calls.get(key)
    if call is None:
        call = Call(torch, params, values, number)
        if len(calls) >= _KEPT:
            calls.clear()
        calls[key] = call
    return call if call.usable and call.fill(values) else None
