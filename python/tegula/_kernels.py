# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels: calls, results, descriptions."""

from __future__ import annotations

import ctypes
import difflib
import html
import inspect
import sys
import threading
from typing import Any, Callable, Iterator, Optional, Sequence

from . import _calls, _warnings
from . import _library as c
from ._arrays import (
    BOOL,
    CUDA,
    CUDA_MANAGED,
    INT,
    RESULT,
    UINT,
    current_stream,
    first_array,
    make_result,
    tensor,
)


class Param:
    """A parameter as the source declares it."""

    __slots__ = ("name", "kind", "optional", "written", "read", "element", "type", "text")

    def __init__(self, info: Any, text: str) -> None:
        self.name: str = info.name.decode()
        self.kind: int = info.kind
        self.optional = bool(info.flags & c.OPTIONAL)
        self.written = bool(info.flags & c.WRITTEN)
        self.read = bool(info.flags & c.READ)  # a written tensor whose old elements may matter
        self.element: Optional[tuple[int, int]] = (info.code, info.bits) if info.bits else None
        self.type: int = info.type  # number of its type parameter, or -1
        self.text = text  # "T[R, N]"

    @property
    def is_tensor(self) -> bool:
        return self.kind == c.TENSOR


def split_list(text: str) -> Iterator[str]:
    """The items of a list between brackets: "x: T[R, N], y: T[R]" -> two."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


def _types_of(signature: str) -> list[str]:
    """The types of the parameters, as written in "kernel f<T: float>(x: T[N], n: const i64)"."""
    inside = signature[signature.index("(") + 1 : signature.rindex(")")]
    return [item.partition(":")[2].strip() for item in split_list(inside)]


def _is_float(element: tuple[int, int]) -> bool:
    return element[0] not in (INT, UINT, BOOL)


def number(p: Param, value: Any, params: Sequence[Param], values: Sequence[Any]) -> Any:
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


def stream_number(stream: Any) -> Optional[int]:
    """A stream of PyTorch or CuPy, or an integer, as an integer."""
    for name in ("cuda_stream", "ptr", "__cuda_stream__"):
        if hasattr(stream, name):
            stream = getattr(stream, name)
            break
    if callable(stream):
        protocol: Any = stream()  # (version, handle)
        stream = protocol[1]
    return int(stream) if stream is not None else None


class Arguments:
    """The arguments of one launch, for the library."""

    def __init__(self, params: Sequence[Param], values: Sequence[Any]) -> None:
        self.given = (c.Arg * max(len(values), 1))()
        self.n = len(values)
        self.held: list[Any] = []
        self.stream: Optional[int] = None
        for i, (p, value) in enumerate(zip(params, values)):
            if not p.is_tensor:
                self.given[i] = number(p, value, params, values)
                continue
            self.given[i].kind = c.ARG_TENSOR
            if value is not None and value is not RESULT:  # the library says whether None is allowed
                self.put(i, p, value)

    def put(self, i: int, p: Param, value: Any) -> None:
        own = tensor(p.name, value, p.written)
        self.held.append(own)
        self.given[i].value.tensor = ctypes.addressof(own.tensor)
        device = own.tensor.device
        if self.stream is None and device.device_type in (CUDA, CUDA_MANAGED):
            self.stream = current_stream(value, device.device_id)


def _hide_from_dynamo(function: Any) -> None:
    """torch.compile breaks its graph at a direct call, and runs the call as it is. Without this it would trace
    into the package, where it fails."""
    function._torchdynamo_disable = True
    torch = sys.modules.get("torch")
    frames = getattr(getattr(getattr(torch, "_C", None), "_dynamo", None), "eval_frame", None)
    if frames is not None and hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))


class Kernel:
    """Call it with one argument for each parameter, in order or by name. Results that are left out are
    allocated and returned; parameters after them are given by name. An optional result is returned if it is
    given as True."""

    name: str
    signature: str  # the header in the source

    def __init__(
        self, module: Any, handle: Any, origin: Optional[tuple[Callable[..., Any], tuple[Any, ...]]]
    ) -> None:
        self._module = module  # keeps the code alive
        self._handle = handle
        self._address = ctypes.addressof(handle.contents)
        self._origin = origin
        if handle.contents.abi != c.ABI:
            raise ImportError(f"{c.path} is not of this package's version")
        info = handle.contents.info.contents
        self.name = self.__name__ = self.__qualname__ = info.name.decode()
        self.signature = info.signature.decode()
        types = _types_of(self.signature)
        self._params = [Param(info.params[i], types[i]) for i in range(info.n_params)]
        self._n = info.n_params
        self._asks = any(p.optional and p.written for p in self._params)
        _hide_from_dynamo(Kernel.__call__)
        self._made = threading.local()  # .calls: earlier calls, ready to repeat
        text = c.kernel_doc(handle).decode("utf-8", "replace")
        self.__doc__ = f"{text}\n\n{self.signature}" if text else self.signature

    @property
    def params(self) -> list[str]:
        """The names of the parameters."""
        return [p.name for p in self._params]

    @property
    def doc(self) -> str:
        """The text of the `///` lines above the kernel."""
        return str(c.kernel_doc(self._handle).decode("utf-8", "replace"))

    @property
    def __signature__(self) -> inspect.Signature:
        """Parameters after an optional one or a result are named, unless all before them are given."""
        made: list[inspect.Parameter] = []
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        for p in self._params:
            free = p.is_tensor and (p.optional or p.written)
            behind = bool(made) and made[-1].default is None
            if behind and not free:
                kind = inspect.Parameter.KEYWORD_ONLY
            default = None if free else inspect.Parameter.empty
            made.append(inspect.Parameter(p.name, kind, default=default, annotation=p.text))
        return inspect.Signature(made)

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {p.name: p.text for p in self._params}

    def __repr__(self) -> str:
        return f"<{self.signature}>"

    def _repr_html_(self) -> str:
        def cell(text: str) -> str:
            return f"<td><code>{html.escape(text)}</code></td>"

        rows = "".join(
            f"<tr>{cell(p.name)}{cell(p.text)}<td>"
            f"{'result' if p.written else ''}{' optional' if p.optional else ''}</td></tr>"
            for p in self._params
        )
        return f"<b>{html.escape(self.name)}</b><p>{html.escape(self.doc)}</p><table>{rows}</table>"

    def __reduce__(self) -> Any:
        if self._origin is None:
            raise TypeError(f"{self.name}: this kernel cannot be pickled")
        return _restore, (*self._origin, self.name)

    # ---- arguments -------------------------------------------------------------------------------

    def _no_parameter(self, name: str) -> TypeError:
        if name in self.params:
            return TypeError(f"{self.name}: '{name}' is given twice")
        close = difflib.get_close_matches(name, self.params, 1)
        hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(self.params)}"
        return TypeError(f"{self.name}: there is no parameter '{name}'; {hint}")

    def _ordered(self, args: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        """A value for each parameter: RESULT for one that the call allocates."""
        if len(args) > self._n:
            raise TypeError(
                f"{self.name} takes {self._n} arguments ({', '.join(self.params)}), "
                f"found {len(args)}"
            )
        values, missing = list(args), ""
        left = dict(named)
        for p in self._params[len(args) :]:
            if p.name in left:
                values.append(left.pop(p.name))
            elif p.optional:
                values.append(None)
            else:
                values.append(RESULT)
                missing = missing if p.is_tensor and p.written else missing or p.name
        for name in left:
            raise self._no_parameter(name)
        if missing:
            raise TypeError(f"{self.name}: the argument '{missing}' is missing")
        for i, p in enumerate(self._params):
            if values[i] is True and p.is_tensor and p.optional and p.written:
                values[i] = RESULT
        return values

    def _values(self, args: Sequence[Any], named: dict[str, Any]) -> Sequence[Any]:
        if named or len(args) != self._n or (self._asks and any(a is True for a in args)):
            return self._ordered(args, named)
        return args

    def infer(self, *args: Any, **named: Any) -> dict[str, tuple[tuple[int, ...], tuple[int, int]]]:
        """The results that such a call would return: shape, and DLPack's code and bits of the type."""
        values = self._values(args, named)
        found = self._inferred(Arguments(self._params, values))
        return {
            p.name: (tuple(t.shape[: t.rank]), (t.type.code, t.type.bits))
            for p, value, t in zip(self._params, values, found)
            if value is RESULT
        }

    def _inferred(self, arguments: Arguments) -> Any:
        found = (c.Inferred * max(arguments.n, 1))()
        c.check(c.kernel_infer(self._handle, arguments.given, arguments.n, found))
        return found

    def _allocate(self, arguments: Arguments, values: list[Any]) -> list[Any]:
        """Puts a new array in place of each RESULT. Returns the arrays for the caller."""
        found = self._inferred(arguments)
        like = first_array(self._params, values)
        made = []
        for i, p in enumerate(self._params):
            if values[i] is not RESULT:
                continue
            if not found[i].flags & c.KNOWN:
                raise TypeError(
                    f"{self.name}: the shape {p.text} of '{p.name}' does not follow from the other "
                    f"arguments; pass an array for it"
                )
            returned, values[i] = make_result(p.name, like, found[i], p.read)
            arguments.put(i, p, values[i])
            made.append(returned)
        return made

    # ---- launches --------------------------------------------------------------------------------

    def _repeat(self, values: Sequence[Any], stream: Optional[int]) -> Any:
        """Launches by an earlier call of this kind, or prepares one. RESULT: neither is possible."""
        try:
            calls = self._made.calls
        except AttributeError:
            calls = self._made.calls = {}
        call = _calls.find(calls, self, values)
        if call is None:
            return RESULT
        status = call.launch(self._address, stream)
        returned, call.returned = call.returned, None
        if status:
            c.check(status)
        return returned

    def _launch(
        self, args: Sequence[Any], named: dict[str, Any], stream: Optional[int], level: int
    ) -> Any:
        """level: the frames between the caller and this function, for warnings."""
        values = self._values(args, named)
        returned = self._repeat(values, stream)
        if returned is RESULT:
            returned = self._launch_new(list(values), stream)
        if _warnings._texts:
            _warnings.emit(level + 1)
        return returned

    def _run_values(self, values: list[Any]) -> Any:
        """Launches with a value for each parameter, and returns the results that are RESULT."""
        returned = self._repeat(values, None)
        return self._launch_new(values, None) if returned is RESULT else returned

    def _launch_new(self, values: list[Any], stream: Optional[int]) -> Any:
        arguments = Arguments(self._params, values)
        made = self._allocate(arguments, values) if _has_result(values) else []
        stream = arguments.stream if stream is None else stream
        c.check(c.launch_on(self._handle, arguments.given, arguments.n, stream))
        return tuple(made) if len(made) > 1 else made[0] if made else None

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._launch(args, named, None, 2)

    def on(self, stream: Any) -> Callable[..., Any]:
        """The kernel on another stream than the current one: kernel.on(stream)(x, y). A stream is an object
        of PyTorch or CuPy, or an integer."""
        chosen = stream_number(stream) or 0
        return lambda *args, **named: self._launch(args, named, chosen, 2)

    def _complete(self, args: Sequence[Any], named: dict[str, Any]) -> Arguments:
        values = list(self._values(args, named))
        arguments = Arguments(self._params, values)
        if _has_result(values):
            self._allocate(arguments, values)
        return arguments

    def prepare(self, *args: Any, **named: Any) -> None:
        """Compiles the code that such a call needs, without running it."""
        arguments = self._complete(args, named)
        c.check(c.prepare(self._handle, arguments.given, arguments.n))
        if _warnings.pending():
            _warnings.emit(2)

    def decision(self, *args: Any, **named: Any) -> Optional[str]:
        """The setting that such a call runs now, and its reason, as text: "BM=64 BN=128; tuned for these
        extents: 12.1 us where the default takes 14 us". None: it would have to be compiled first."""
        text = ctypes.create_string_buffer(1024)
        arguments = self._complete(args, named)
        status = c.kernel_decision(self._handle, arguments.given, arguments.n, text, len(text))
        if status == c.NOT_FOUND:
            return None
        c.check(status)
        return text.value.decode()


def _has_result(values: Sequence[Any]) -> bool:
    return any(v is RESULT for v in values)


def _restore(load: Callable[..., Any], args: tuple[Any, ...], name: str) -> Kernel:
    kernel: Kernel = load(*args)[name]
    return kernel
