# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Warnings of the compiler as Python's. The library reports them line by line to a hook, from inside a call.
The hook collects them, and the call raises them when the library has returned."""

from __future__ import annotations

import re
import threading
import warnings

_HEAD = re.compile(r"(?:.*: )?warning: ")
_texts: list[list[str]] = []  # warnings that no call has raised yet
_open: dict[int, list[str]] = {}  # by thread: the warning whose lines are coming
_lock = threading.Lock()


class Warning(UserWarning):
    """A warning of the compiler: the text has file, line and hint."""


Warning.__module__ = "tegula"


def collect(line: str) -> None:
    """The hook. Lines before a warning's first one are progress, and are dropped."""
    thread = threading.get_ident()
    with _lock:
        if _HEAD.match(line):
            _open[thread] = [line]
            _texts.append(_open[thread])
        elif thread in _open:
            _open[thread].append(line)


def pending() -> bool:
    return bool(_texts)


def emit(level: int) -> None:
    """Raises the collected warnings at the caller's place, `level` frames above this function. Python writes
    the category before the text, so a text without a place loses its own "warning:"."""
    with _lock:
        texts = ["\n".join(lines).removeprefix("warning: ") for lines in _texts]
        _texts.clear()
        _open.clear()
    for text in texts:
        warnings.warn(text, Warning, stacklevel=level + 1)
