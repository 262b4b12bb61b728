# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The implementation of an operator of PyTorch by the library."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Optional, Sequence

from .. import _library as c

if TYPE_CHECKING:
    from ._operator import Plan


class Native:
    """The implementation by the library: a call does not enter Python."""

    def __init__(self, plan: Plan, name: str) -> None:
        def numbers(places: Sequence[int]) -> Any:
            return (ctypes.c_int * max(len(places), 1))(*places)

        handle = ctypes.c_void_p()
        kernel, inputs, results = plan.kernel, plan.inputs, plan.results
        given = numbers(inputs), len(inputs), numbers(results), len(results)
        c.check(
            c.torch_operator_create(kernel._handle, name.encode(), *given, ctypes.byref(handle))
        )
        self.handle = handle

    def destroy(self) -> None:
        c.torch_operator_destroy(self.handle)

    @staticmethod
    def of(plan: Plan, name: str) -> Optional[Native]:
        """None: the library cannot implement it, and Python does."""
        try:
            return Native(plan, name)
        except c.Error as error:
            if error.status != "TG_ERROR_UNSUPPORTED":
                raise
            return None
