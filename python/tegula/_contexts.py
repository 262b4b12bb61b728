# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Contexts: threads and hooks. Modules of the shared context report warnings of the compiler to Python."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any, Callable, Optional

from . import _library as c
from . import _warnings

_current = threading.local()  # .stack: contexts that this thread has entered


def stack() -> list[tuple["Context", Any]]:
    """The contexts that this thread has entered, each with the handle before it."""
    if not hasattr(_current, "stack"):
        _current.stack = []
    entered: list[tuple[Context, Any]] = _current.stack
    return entered


def current() -> Optional["Context"]:
    entered = stack()
    return entered[-1][0] if entered else None


def _end_context(handle: int, _hooks: Any) -> None:
    c.context_destroy(handle)


class Context:
    """Threads and hooks: `with Context(threads=1, print=print): kernel(x, y)`.

    threads: 0 for one on each core. print receives the text that kernels print. log receives warnings and
    progress; without it, warnings are Python's (tegula.Warning). Both are called with a string, from any
    thread.
    """

    def __init__(
        self,
        threads: int = 0,
        print: Optional[Callable[[str], object]] = None,
        log: Optional[Callable[[str], object]] = None,
    ) -> None:
        def hook(call: Optional[Callable[[str], object]]) -> Any:
            if call is None:
                return c.TEXT()
            receive = call
            return c.TEXT(lambda _, text: receive(text.decode("utf-8", "replace")) and None)

        # The library calls the hooks as long as the context lives.
        self._hooks = hook(log or _warnings.collect), hook(print)
        options = c.Options(size=ctypes.sizeof(c.Options), threads=threads)
        options.log, options.print = self._hooks
        handle = ctypes.c_void_p()
        c.check(c.context_create(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle.value or 0
        self.loaded: dict[Any, Any] = {}  # modules of tegula.load
        weakref.finalize(self, _end_context, self._handle, self._hooks)

    @property
    def threads(self) -> int:
        return int(c.context_threads(self._handle))

    def __enter__(self) -> "Context":
        stack().append((self, c.context_use(self._handle)))
        return self

    def __exit__(self, *_: object) -> None:
        before = stack().pop()[1]
        c.context_use(before)
        self.loaded.clear()  # these modules keep the context alive


_shared: Optional[Context] = None
_making = threading.Lock()


def shared() -> Context:
    """The context of modules that are loaded outside of every `with Context()`. Launches still run on the
    threads of the library's own shared context."""
    global _shared
    with _making:
        if _shared is None:
            _shared = Context()
        return _shared
