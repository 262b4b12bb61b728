# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shapes of results where extents are symbols. tg_kernel_infer has the same rules for numbers."""

from __future__ import annotations

import ast
import operator
import re
from typing import Any, Callable, Optional, Sequence

from .._kernels import Kernel, Param, split_list

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "min": min,
    "max": max,
    "ceildiv": lambda a, b: (a + b - 1) // b,
}


def dims_of(p: Param) -> list[str]:
    """The dims as written: ["..R", "2 * N"]."""
    text = p.text
    return list(split_list(text[text.index("[") + 1 : text.rindex("]")])) if "[" in text else []


def _value(node: ast.AST, names: dict[str, Any]) -> Any:
    """None: the value does not follow from the names."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.BinOp):
        a, b = _value(node.left, names), _value(node.right, names)
        known = a is not None and b is not None and type(node.op) in _BINARY
        return _BINARY[type(node.op)](a, b) if known else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
        a, b = (_value(x, names) for x in node.args)
        known = a is not None and b is not None and node.func.id in _CALLS
        return _CALLS[node.func.id](a, b) if known else None
    return None


def _bind(p: Param, shape: Sequence[Any], names: dict[str, Any], packs: dict[str, Any]) -> None:
    """Binds the names of a given tensor. A pack takes the axes that the plain dims leave."""
    dims = dims_of(p)
    taken = len(shape) - sum(not d.startswith("..") for d in dims)
    axis = 0
    for d in dims:
        if d.startswith(".."):
            packs.setdefault(d[2:], tuple(shape[axis : axis + taken]))
            axis += taken
            continue
        sum_ = re.fullmatch(r"(\w+) ([+-]) (\d+)", d)
        if d.isidentifier():
            names[d] = names[d] if d in names else shape[axis]
        elif sum_ and sum_[1] not in names:
            n = int(sum_[3]) if sum_[2] == "-" else -int(sum_[3])
            names.setdefault(sum_[1], shape[axis] + n)
        axis += 1


def symbolic_shapes(
    kernel: Kernel, values: Sequence[Any], wanted: Sequence[int]
) -> Optional[list[tuple[Any, ...]]]:
    """The shapes of the wanted parameters. None: one of them needs more than the dims of tensors."""
    names: dict[str, Any] = {}
    packs: dict[str, Any] = {}
    for p, value in zip(kernel._params, values):
        if not p.is_tensor and isinstance(value, int):
            names[p.name] = value
    for p, value in zip(kernel._params, values):
        if p.is_tensor and hasattr(value, "shape"):
            _bind(p, value.shape, names, packs)
    shapes = []
    for i in wanted:
        shape: list[Any] = []
        for d in dims_of(kernel._params[i]):
            if d.startswith(".."):
                if d[2:] not in packs:
                    return None
                shape += packs[d[2:]]
                continue
            extent = _value(ast.parse(d, mode="eval").body, names)
            if extent is None:
                return None
            shape.append(extent)
        shapes.append(tuple(shape))
    return shapes
