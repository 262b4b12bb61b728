# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tegula's kernels on arrays.

    import numpy as np, tegula
    softmax = tegula.load("softmax.teg").softmax
    y = np.empty_like(x)
    softmax(x, y)

A kernel is compiled at its first call with arrays of a new kind. Calls release Python's lock, and may be
made from any thread. With arrays of an NVIDIA GPU (PyTorch, CuPy, ...) the kernel runs there, on the
current stream of the library that made them, and the call does not wait for the GPU.
"""

import ctypes
import os
import threading
import weakref

from . import _calls
from . import _library as c
from ._arrays import (
    BOOL,
    CUDA,
    CUDA_MANAGED,
    INT,
    UINT,
    bfloat16,
    current_stream,
    float8_e4m3,
    float8_e5m2,
    int4,
    tensor,
    uint4,
)
from ._comm import Comm
from ._library import Error

__version__ = "0.1.0"
__all__ = [
    "Comm",
    "Context",
    "Error",
    "Kernel",
    "Module",
    "bfloat16",
    "devices",
    "float8_e4m3",
    "float8_e5m2",
    "int4",
    "library_path",
    "load",
    "source",
    "synchronize",
    "uint4",
    "version",
]

library_path = c.path


def version():
    """The library's version: "0.1.0"."""
    return c.version().decode()


# ---- GPUs ------------------------------------------------------------------------------------------


def devices():
    """The NVIDIA GPUs that the process can use: a dict {name, capability, processors, ...} for each."""
    out = []
    for i in range(c.device_count()):
        info = c.DeviceInfo(size=ctypes.sizeof(c.DeviceInfo))
        c.check(c.device_describe(i, ctypes.byref(info)))
        values = {name: getattr(info, name) for name, _ in c.DeviceInfo._fields_[1:]}
        out.append({**values, "name": info.name.decode("utf-8", "replace")})
    return out


def synchronize(device=0, stream=None):
    """Waits for a stream (an integer, or an object of PyTorch or CuPy). Raises errors of its work."""
    c.check(c.device_synchronize(device, _stream_number(stream)))


def _stream_number(stream):
    for name in ("cuda_stream", "ptr", "__cuda_stream__"):
        if hasattr(stream, name):
            stream = getattr(stream, name)
            break
    if callable(stream):
        stream = stream()[1]  # (version, handle)
    return int(stream) if stream is not None else None


# ---- contexts --------------------------------------------------------------------------------------

_current = threading.local()  # .stack: contexts that this thread has entered


def _stack():
    if not hasattr(_current, "stack"):
        _current.stack = []
    return _current.stack


def _end_context(handle, _hooks):
    c.context_destroy(handle)


class Context:
    """Threads and hooks: `with Context(threads=1, print=print): kernel(x, y)`.

    threads: 0 for one on each core. print receives the text that kernels print, log receives warnings.
    Both are called with a string, from any thread.
    """

    def __init__(self, threads=0, print=None, log=None):
        def hook(call):
            return (
                c.TEXT(lambda _, text: call(text.decode("utf-8", "replace"))) if call else c.TEXT()
            )

        # The library calls the hooks as long as the context lives.
        self._hooks = hook(log), hook(print)
        options = c.Options(size=ctypes.sizeof(c.Options), threads=threads)
        options.log, options.print = self._hooks
        handle = ctypes.c_void_p()
        c.check(c.context_create(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value
        weakref.finalize(self, _end_context, self._handle, self._hooks)

    @property
    def threads(self):
        return c.context_threads(self._handle)

    def __enter__(self):
        _stack().append((self, c.context_use(self._handle)))
        return self

    def __exit__(self, *_):
        _, before = _stack().pop()
        c.context_use(before)


# ---- kernels ---------------------------------------------------------------------------------------


class _Param:
    __slots__ = ("name", "kind", "optional", "written", "element", "type")

    def __init__(self, info):
        self.name = info.name.decode()
        self.kind = info.kind
        self.optional = bool(info.flags & c.OPTIONAL)
        self.written = bool(info.flags & c.WRITTEN)
        self.element = (info.code, info.bits) if info.bits else None
        self.type = info.type  # number of its type parameter, or -1


def _is_float(element):
    return element[0] not in (INT, UINT, BOOL)


def _number(p, value, params, values):
    """Scalars of NumPy and of other libraries become Python's by item()."""
    name = p.name
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, (bool, int, float)):
        if hasattr(value, "__index__"):
            value = value.__index__()
        elif hasattr(value, "__float__"):
            value = float(value)
        else:
            raise TypeError(f"'{name}' must be a number, not {type(value).__name__}")
    arg = c.Arg()
    if isinstance(value, float):
        arg.kind, arg.value.f = c.ARG_FLOAT, value
        return arg
    if not 0 <= value < 1 << 63:
        # The library takes 64 bits, whatever they mean.
        element = _calls.element_of(p, params, values)
        if _is_float(element):
            arg.kind, arg.value.f = c.ARG_FLOAT, float(value)
            return arg
        low = 0 if element == (UINT, 64) else -(1 << 63)
        if not low <= value < low + (1 << 64):
            text = "64 bits" if low else "u64"
            raise OverflowError(f"'{name}': {value} does not fit into {text}")
    arg.kind, arg.value.i = c.ARG_INT, value if value < 1 << 63 else value - (1 << 64)
    return arg


class _Handle:
    """A module of the library, kept alive by its kernels. Its context must outlive it."""

    def __init__(self, value):
        self.value = value
        context = _stack()[-1][0] if _stack() else None
        weakref.finalize(self, _destroy, value, context)


def _destroy(module, _context):
    c.module_destroy(module)


class Kernel:
    """Call it with one argument for each parameter, in order or by name. Results go to the arrays that are
    passed for them."""

    def __init__(self, module, handle):
        self._module = module  # keeps the code alive
        self._handle = handle
        if handle.contents.abi != c.ABI:
            raise ImportError(f"{c.path} is not of this package's version")
        info = handle.contents.info.contents
        self.name = info.name.decode()
        self.signature = info.signature.decode()
        self._params = [_Param(info.params[i]) for i in range(info.n_params)]
        self._made = threading.local()  # .calls: earlier calls, ready to repeat

    @property
    def params(self):
        """The names of the parameters."""
        return [p.name for p in self._params]

    def __repr__(self):
        return f"<{self.signature}>"

    def _ordered(self, args, named):
        if len(args) > len(self._params):
            raise TypeError(
                f"{self.name} takes {len(self._params)} arguments ({', '.join(self.params)}), "
                f"found {len(args)}"
            )
        values = list(args)
        for p in self._params[len(args) :]:
            if p.name in named:
                values.append(named.pop(p.name))
            elif p.optional:
                values.append(None)
            else:
                raise TypeError(f"{self.name}: the argument '{p.name}' is missing")
        for name in named:
            twice = name in self.params
            raise TypeError(
                f"{self.name}: '{name}' is {'given twice' if twice else 'no parameter'}"
            )
        return values

    def _launched(self, values, stream):
        """Launches by an earlier call of this kind, or prepares one. False if neither is possible."""
        try:
            calls = self._made.calls
        except AttributeError:
            calls = self._made.calls = {}
        call = _calls.find(calls, self._params, values, _number)
        if call is None:
            return False
        c.check(call.launch(self._handle, stream))
        return True

    def _run(self, args, named, stream=None, instead=None):
        """Launches, or calls `instead` with the arguments of the launch."""
        whole = not named and len(args) == len(self._params)
        values = args if whole else self._ordered(args, named)
        if not instead and self._launched(values, stream):
            return None
        given = (c.Arg * max(len(values), 1))()
        held = []
        for i, (p, value) in enumerate(zip(self._params, values)):
            if p.kind != c.TENSOR:
                given[i] = _number(p, value, self._params, values)
                continue
            given[i].kind = c.ARG_TENSOR
            if value is None:
                continue  # the library says whether that is allowed
            held.append(tensor(p.name, value, p.written))
            given[i].value.tensor = ctypes.addressof(held[-1].tensor)
            device = held[-1].tensor.device
            if stream is None and device.device_type in (CUDA, CUDA_MANAGED):
                stream = current_stream(value, device.device_id)
        if instead:
            return instead(self._handle, given, len(values))
        return c.check(c.launch_on(self._handle, given, len(values), stream))

    def __call__(self, *args, **named):
        self._run(args, named)

    def on(self, stream):
        """The kernel on another stream than the current one: kernel.on(stream)(x, y). A stream is an object
        of PyTorch or CuPy, or an integer."""
        number = _stream_number(stream)
        return lambda *args, **named: self._run(args, named, stream=number or 0)

    def prepare(self, *args, **named):
        """Compiles the code that such a call needs, without running it."""
        self._run(args, named, instead=lambda *given: c.check(c.prepare(*given)))

    def decision(self, *args, **named):
        """The setting that such a call runs now, and its reason, as text: "BM=64 BN=128; tuned for these
        extents: 12.1 us where the default takes 14 us". None: it would have to be compiled first."""
        text = ctypes.create_string_buffer(1024)
        status = self._run(
            args, named, instead=lambda *given: c.kernel_decision(*given, text, len(text))
        )
        if status == c.NOT_FOUND:
            return None
        c.check(status)
        return text.value.decode()


class Module:
    """The kernels of a source, as attributes and by name: module.softmax, module["softmax"]."""

    def __init__(self, handle, name):
        owner = _Handle(handle)
        self.name = name
        self.kernels = {}
        for i in range(c.module_kernels(handle)):
            kernel = Kernel(owner, c.module_kernel_at(handle, i))
            self.kernels[kernel.name] = kernel

    def __getitem__(self, name):
        if name in self.kernels:
            return self.kernels[name]
        raise KeyError(
            f"{self.name} has no kernel '{name}'; it has {', '.join(self.kernels) or 'none'}"
        )

    def __getattr__(self, name):
        try:
            return self.__dict__["kernels"][name]
        except KeyError:
            has = ", ".join(self.__dict__.get("kernels", ())) or "none"
            raise AttributeError(
                f"{self.__dict__.get('name')} has no kernel '{name}'; it has {has}"
            ) from None

    def __dir__(self):
        return [*super().__dir__(), *self.kernels]

    def __repr__(self):
        return f"<tegula module {self.name}: {', '.join(self.kernels)}>"


def _options(paths, settings, check, debug, target, codegen):
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    joined = ":".join(os.fspath(p) for p in paths) if paths else None
    if isinstance(settings, dict):
        values = {name: v if isinstance(v, str) else int(v) for name, v in settings.items()}
        settings = " ".join(f"{name}={value}" for name, value in values.items())
    return c.ModuleOptions(
        ctypes.sizeof(c.ModuleOptions),
        os.fsencode(joined) if joined else None,
        settings.encode() if settings else None,
        bool(check),
        bool(debug),
        target.encode() if target else None,
        codegen.encode() if codegen else None,
    )


def load(path, paths=None, settings=None, check=False, debug=False, target=None, codegen=None):
    """Loads the module of a file. "std/NAME.teg" is a file of the library.

    paths: folders for imports, after the file's own. settings: tune values to pin, {"BM": 64, "plan":
    "pull"}. check: each launch checks indices, asserts and divisions. target: "sim:sm_90a" simulates a
    GPU; by default code is compiled for the device of the arrays. codegen: for NVIDIA code, "nvvm",
    "nvptx" or "auto".
    """
    options = _options(paths, settings, check, debug, target, codegen)
    handle = ctypes.c_void_p()
    name = os.fspath(path)
    c.check(c.module_from_file(os.fsencode(name), ctypes.byref(options), ctypes.byref(handle)))
    return Module(handle.value, name)


def source(
    text,
    name="<source>",
    paths=None,
    settings=None,
    check=False,
    debug=False,
    target=None,
    codegen=None,
):
    """Makes the module of a source text; name appears in messages."""
    options = _options(paths, settings, check, debug, target, codegen)
    handle = ctypes.c_void_p()
    data = text.encode() if isinstance(text, str) else bytes(text)
    c.check(
        c.module_from_source(
            data, len(data), os.fsencode(name), ctypes.byref(options), ctypes.byref(handle)
        )
    )
    return Module(handle.value, name)
