# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tegula's kernels on arrays.

    import numpy as np, tegula
    softmax = tegula.load("softmax.teg").softmax
    y = softmax(x)          # allocated and returned
    softmax(x, y)           # or written to an array of the caller

A kernel is compiled at its first call with arrays of a new kind. Calls release Python's lock, and may be
made from any thread. With arrays of an NVIDIA GPU (PyTorch, CuPy, ...) the kernel runs there, on the
current stream of the library that made them, and the call does not wait for the GPU.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Optional

from . import _library as c
from ._arrays import bfloat16, float8_e4m3, float8_e5m2, int4, uint4
from ._comm import Comm
from ._contexts import Context
from ._kernels import Kernel, stream_number
from ._library import Error
from ._modules import Module, load, source
from ._warnings import Warning

__version__ = "0.1.0"
__all__ = [
    "Comm",
    "Context",
    "Error",
    "Kernel",
    "Module",
    "Warning",
    "bfloat16",
    "devices",
    "float8_e4m3",
    "float8_e5m2",
    "int4",
    "library_path",
    "load",
    "prefix",
    "set_workspace_limit",
    "source",
    "synchronize",
    "uint4",
    "version",
    "workspace_limit",
]

library_path: str = c.path
# The folder with bin/, include/ and lib/ of an installed wheel; None if the package holds no headers.
_folder = os.path.dirname(os.path.abspath(__file__))
prefix: Optional[str] = _folder if os.path.isfile(os.path.join(_folder, "include", "tegula.h")) else None


def version() -> str:
    """The library's version: "0.1.0"."""
    text: str = c.version().decode()
    return text


def devices() -> list[dict[str, Any]]:
    """The GPUs that the process can use: a dict {name, capability, processors, ...} for each."""
    out = []
    for i in range(c.device_count()):
        info = c.DeviceInfo(size=ctypes.sizeof(c.DeviceInfo))
        c.check(c.device_describe(i, ctypes.byref(info)))
        values = {field[0]: getattr(info, field[0]) for field in c.DeviceInfo._fields_[1:]}
        out.append({**values, "name": info.name.decode("utf-8", "replace")})
    return out


def synchronize(device: int = 0, stream: Any = None) -> None:
    """Waits for a stream (an integer, or an object of PyTorch or CuPy). Raises errors of its work."""
    c.check(c.device_synchronize(device, stream_number(stream)))


def workspace_limit() -> int:
    """The bytes of workspace that a launch of the current context may use to be faster."""
    return int(c.context_workspace_limit(None))


def set_workspace_limit(bytes: int) -> None:
    """Sets how many bytes of workspace a launch of the current context may use to be faster: for copies of
    operands into aligned rows, and for the partial sums of split products. Without room, it runs slower code.
    The limit holds for each phase of a kernel. Raises an Error if bytes is negative, and a ValueError if it
    does not fit 64 bits."""
    if not -(2**63) <= bytes < 2**63:
        raise ValueError(f"a limit of {bytes} bytes does not fit 64 bits")
    c.check(c.context_set_workspace_limit(None, bytes))


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext tegula` adds the cell magic %%tegula to a notebook."""
    from . import notebook

    notebook.register(shell)
