# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several ranks: symmetric arrays for kernels with `sym` parameters (docs/inside/communication.md).

    comm = tegula.Comm("processes", meet="/tmp/here", rank=rank, ranks=2, device=rank)
    a = comm.empty((1024, 4096), "f16")   # every rank, with the same shape
    ag_gemm(a, b, c)
"""

from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence

from . import _library as c
from ._arrays import BFLOAT, BOOL, E4M3, E5M2, FLOAT, INT, UINT, integers

# Names of element types -> DLPack's code and bits, and the array interface's name.
_TYPES = {"bool": (BOOL, 8, "|b1"), "i8": (INT, 8, "|i1"), "u8": (UINT, 8, "|u1")}
_TYPES.update({f"i{n}": (INT, n, f"<i{n // 8}") for n in (16, 32, 64)})
_TYPES.update({f"u{n}": (UINT, n, f"<u{n // 8}") for n in (16, 32, 64)})
_TYPES.update({f"f{n}": (FLOAT, n, f"<f{n // 8}") for n in (16, 32, 64)})
_TYPES.update({"bf16": (BFLOAT, 16, "<i2"), "f8e4m3": (E4M3, 8, "|i1"), "f8e5m2": (E5M2, 8, "|i1")})


class Symmetric:
    """The own shard. PyTorch, CuPy and NumPy make arrays of it without a copy (torch.as_tensor, cupy.asarray,
    numpy.asarray). For bf16 and f8 these have integers of the same size, which a view can reinterpret."""

    def __init__(self, comm: Comm, shape: Sequence[int], dtype: str, lean: bool) -> None:
        if dtype not in _TYPES:
            raise TypeError(f"no element type '{dtype}'; there are {', '.join(_TYPES)}")
        code, bits, typestr = _TYPES[dtype]
        self.comm, self.shape, self.dtype = comm, tuple(shape), dtype
        extents = integers(self.shape, "an extent of")
        kind = c.DLDataType(code, bits, 1)
        self._tensor = c.DLTensor()
        flags = c.SYM_LEAN if lean else 0
        out = ctypes.byref(self._tensor)
        c.check(c.sym_alloc(comm._handle, kind, len(self.shape), extents, flags, out))
        interface = {
            "data": (self._tensor.data + self._tensor.byte_offset, False),
            "shape": self.shape,
            "strides": None,
            "typestr": typestr,
            "version": 3,
        }
        name = "__cuda_array_interface__" if comm.device >= 0 else "__array_interface__"
        setattr(self, name, interface)

    def free(self) -> None:
        """Frees the array. Collective. Arrays made of it must not be used any more."""
        c.check(c.sym_free(self.comm._handle, ctypes.byref(self._tensor)))


class Comm:
    """A rank's end of a group. Launches on the current context become launches of this rank.

    engine, meet, rank and ranks default to TG_COMM, TG_MEET, TG_RANK and TG_RANKS. device: the GPU whose
    memory is shared; -1: the CPU's. Collective.
    """

    def __init__(
        self,
        engine: Optional[str] = None,
        meet: Optional[str] = None,
        rank: int = -1,
        ranks: int = 0,
        device: int = -1,
        heap: int = 0,
        timeout_ms: int = 0,
    ) -> None:
        options = c.CommOptions(
            ctypes.sizeof(c.CommOptions),
            engine.encode() if engine else None,
            meet.encode() if meet else None,
            rank,
            ranks,
            device,
            heap,
            timeout_ms,
        )
        handle = ctypes.c_void_p()
        c.check(c.comm_create(ctypes.byref(options), ctypes.byref(handle)))
        self._handle: Any = handle.value
        self.device = device
        c.check(c.context_set_comm(None, self._handle))

    @property
    def rank(self) -> int:
        return int(c.comm_rank(self._handle))

    @property
    def ranks(self) -> int:
        return int(c.comm_ranks(self._handle))

    def empty(self, shape: Sequence[int], dtype: str, lean: bool = False) -> Symmetric:
        """A symmetric array, filled with zeros. Collective."""
        return Symmetric(self, shape, dtype, lean)

    def barrier(self) -> None:
        """Waits until all ranks have come and all earlier launches have ended."""
        c.check(c.comm_barrier(self._handle))

    def close(self) -> None:
        """Destroys this end. Collective."""
        if self._handle:
            c.check(c.context_set_comm(None, None))
            c.comm_destroy(self._handle)
        self._handle = None
