# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libtegula.so through ctypes: structures of tegula.h, dlpack.h and abi.h, and the functions."""

from __future__ import annotations

import ctypes
import os
import pathlib
from typing import Any
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint8
from ctypes import c_int8, c_uint16, c_uint32, c_uint64, c_void_p

MAX_RANK = 8
ABI = 5

# Kinds and flags of parameters, runtime/abi.h.
TENSOR, SCALAR, CONST = range(3)
OPTIONAL, WRITTEN, BOOL, READ = 1, 2, 4, 32

STATUS = (
    "TG_OK",
    "TG_ERROR_ARGUMENT",
    "TG_ERROR_CONTRACT",
    "TG_ERROR_SOURCE",
    "TG_ERROR_NOT_FOUND",
    "TG_ERROR_MEMORY",
    "TG_ERROR_UNSUPPORTED",
    "TG_ERROR_INTERNAL",
    "TG_ERROR_RANK",
)
NOT_FOUND = STATUS.index("TG_ERROR_NOT_FOUND")


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class ArgValue(ctypes.Union):
    _fields_ = [("tensor", c_void_p), ("i", c_int64), ("f", c_double)]  # address of a DLTensor


class Arg(ctypes.Structure):
    _fields_ = [("kind", c_int), ("value", ArgValue)]


ARG_TENSOR, ARG_INT, ARG_FLOAT = range(3)


class ModuleOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("paths", c_char_p),
        ("settings", c_char_p),
        ("check", c_int),
        ("debug", c_int),
        ("target", c_char_p),
        ("codegen", c_char_p),
        ("tune", c_char_p),
        ("tune_budget_ms", c_int),
    ]


KNOWN = 8  # a flag of Inferred: type, rank and shape are known


class Inferred(ctypes.Structure):
    _fields_ = [
        ("flags", c_int),
        ("type", DLDataType),
        ("rank", c_int),
        ("shape", c_int64 * MAX_RANK),
    ]


class DeviceInfo(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("capability", c_int),
        ("processors", c_int),
        ("l2_bytes", c_int),
        ("shared_bytes", c_int),
        ("driver", c_int),
    ]


class CommOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("engine", c_char_p),
        ("meet", c_char_p),
        ("rank", c_int),
        ("ranks", c_int),
        ("device", c_int),
        ("heap", c_size_t),
        ("timeout_ms", c_int),
    ]


SYM_LEAN = 1

ALLOCATE = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t)
RELEASE = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)
TEXT = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("threads", c_int),
        ("user", c_void_p),
        ("allocate", ALLOCATE),
        ("release", RELEASE),
        ("log", TEXT),
        ("print", TEXT),
        ("parallel", c_void_p),
    ]


class ParamInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("kind", c_uint8),
        ("flags", c_uint8),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("type", c_int8),
        ("rank", c_int8),
        ("pack_at", c_int8),
        ("pack", c_int8),
    ]


class KernelInfo(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("signature", c_char_p),
        ("params", POINTER(ParamInfo)),
        ("variants", c_void_p),
        ("n_params", c_int32),
        ("n_types", c_int32),
        ("n_variants", c_int32),
        ("reserved", c_int32),
    ]


class KernelStruct(ctypes.Structure):
    _fields_ = [
        ("abi", c_uint32),
        ("reserved", c_uint32),
        ("info", POINTER(KernelInfo)),
        ("state", c_void_p),
    ]


KernelPointer = POINTER(KernelStruct)


def _candidates() -> list[str]:
    """Places of the library, the most specific first."""
    named = os.environ.get("TEGULA_LIBRARY")
    if named:
        return [named]
    here = pathlib.Path(__file__).resolve().parent
    tree = here.parent.parent / "build" / "libtegula.so"
    places = (here / "lib" / "libtegula.so.0", here / "lib" / "libtegula.so", tree)
    files = [str(p) for p in places if p.is_file()]
    return files + ["libtegula.so.0", "libtegula.so"]


def _open() -> tuple[ctypes.CDLL, str]:
    reasons: list[str] = []
    for name in _candidates():
        try:
            return ctypes.CDLL(name), name
        except OSError as error:
            reasons.append(str(error))
    raise ImportError(
        "libtegula.so was not found. In a clone, build it: cmake --build build --target tegula_shared. "
        "Elsewhere, set TEGULA_LIBRARY to its path.\n" + "\n".join(reasons)
    )


lib, path = _open()


def _declare(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(lib, name)
    function.restype = result
    function.argtypes = arguments
    return function


last_error = _declare("tg_last_error", c_char_p)
version = _declare("tg_version", c_char_p)
context_create = _declare("tg_context_create", c_int, POINTER(Options), POINTER(c_void_p))
context_destroy = _declare("tg_context_destroy", None, c_void_p)
context_use = _declare("tg_context_use", c_void_p, c_void_p)
context_threads = _declare("tg_context_threads", c_int, c_void_p)
launch = _declare("tg_launch", c_int, KernelPointer, POINTER(Arg), c_int)
launch_on = _declare("tg_launch_on", c_int, KernelPointer, POINTER(Arg), c_int, c_void_p)
# The same by addresses, which ctypes passes faster.
launch_at: Any = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_void_p)(("tg_launch_on", lib))
device_count = _declare("tg_device_count", c_int)
device_describe = _declare("tg_device_describe", c_int, c_int, POINTER(DeviceInfo))
device_synchronize = _declare("tg_device_synchronize", c_int, c_int, c_void_p)
comm_create = _declare("tg_comm_create", c_int, POINTER(CommOptions), POINTER(c_void_p))
comm_destroy = _declare("tg_comm_destroy", None, c_void_p)
comm_rank = _declare("tg_comm_rank", c_int, c_void_p)
comm_ranks = _declare("tg_comm_ranks", c_int, c_void_p)
comm_barrier = _declare("tg_comm_barrier", c_int, c_void_p)
context_set_workspace_limit = _declare("tg_context_set_workspace_limit", c_int, c_void_p, c_int64)
context_workspace_limit = _declare("tg_context_workspace_limit", c_int64, c_void_p)
context_set_comm = _declare("tg_context_set_comm", c_int, c_void_p, c_void_p)
sym_alloc = _declare(
    "tg_sym_alloc", c_int, c_void_p, DLDataType, c_int, POINTER(c_int64), c_int, POINTER(DLTensor)
)
sym_free = _declare("tg_sym_free", c_int, c_void_p, POINTER(DLTensor))
torch_operator_create = _declare(
    "tg_torch_operator_create",
    c_int,
    KernelPointer,
    c_char_p,
    POINTER(c_int),
    c_int,
    POINTER(c_int),
    c_int,
    POINTER(c_void_p),
)
torch_operator_destroy = _declare("tg_torch_operator_destroy", None, c_void_p)
prepare = _declare("tg_prepare", c_int, KernelPointer, POINTER(Arg), c_int)
kernel_decision = _declare(
    "tg_kernel_decision", c_int, KernelPointer, POINTER(Arg), c_int, c_char_p, c_size_t
)
kernel_infer = _declare(
    "tg_kernel_infer", c_int, KernelPointer, POINTER(Arg), c_int, POINTER(Inferred)
)
kernel_doc = _declare("tg_kernel_doc", c_char_p, KernelPointer)
module_from_source = _declare(
    "tg_module_from_source",
    c_int,
    c_char_p,
    c_size_t,
    c_char_p,
    POINTER(ModuleOptions),
    POINTER(c_void_p),
)
module_from_file = _declare(
    "tg_module_from_file", c_int, c_char_p, POINTER(ModuleOptions), POINTER(c_void_p)
)
module_destroy = _declare("tg_module_destroy", None, c_void_p)
module_kernels = _declare("tg_module_kernels", c_int, c_void_p)
module_kernel_at = _declare("tg_module_kernel_at", KernelPointer, c_void_p, c_int)


class Error(Exception):
    """A failed call of the library. `status` is the status's name, the text gives the reason."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        return Error, (self.status, str(self))


Error.__module__ = "tegula"


def check(status: int) -> None:
    """Raises the error of a failed call, on the thread that made the call."""
    if status:
        name = STATUS[status] if 0 <= status < len(STATUS) else str(status)
        raise Error(name, last_error().decode("utf-8", "replace"))
