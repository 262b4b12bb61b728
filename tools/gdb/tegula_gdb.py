# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shows Tegula's blocks and small floats in gdb.

    (gdb) source share/tegula/gdb/tegula_gdb.py
    (gdb) print v
    $1 = f32<2, 3> = {{1, 2, 3}, {4, 5, 6}}

Code with `--debug` describes a block as a structure named by its type, whose member `data` has the rows
with their padding. `set print elements N` limits what is shown; `print v.data[0][1]` is one element.
"""
import re
import struct

import gdb
import gdb.printing

BLOCK = re.compile(r"^(\w+)<(\d+(?:, \d+)*)>$")
FLOATS = {"bf16": (8, 7), "f8e4m3": (4, 3), "f8e5m2": (5, 2)}


def small_float(bits, name):
    """The float with these bits of a type of FLOATS. f8e4m3 has no infinities."""
    exponent_bits, fraction_bits = FLOATS[name]
    bias, top = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    sign = -1.0 if bits >> (exponent_bits + fraction_bits) & 1 else 1.0
    exponent = bits >> fraction_bits & top
    fraction = bits & ((1 << fraction_bits) - 1)
    if exponent == top and name == "f8e4m3":
        if fraction == (1 << fraction_bits) - 1:
            return float("nan")
    elif exponent == top:
        return float("nan") if fraction else sign * float("inf")
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / (1 << fraction_bits)) * 2.0 ** (exponent - bias)


def element(raw, name):
    """The text of an element with these bytes."""
    if name in FLOATS:
        return f"{small_float(int.from_bytes(raw, 'little'), name):g}"
    if name in ("f16", "f32", "f64"):
        return f"{struct.unpack({'f16': '<e', 'f32': '<f', 'f64': '<d'}[name], raw)[0]:g}"
    if name == "bool":
        return "true" if raw[0] else "false"
    return str(int.from_bytes(raw, "little", signed=name.startswith("i")))


class Block:
    """A block: its type, then its elements, row by row."""

    def __init__(self, value):
        self.value = value
        found = BLOCK.match(value.type.strip_typedefs().name)
        self.name, self.extents = found[1], [int(n) for n in found[2].split(",")]

    def rows(self, data, at, axis, left):
        """The text of the elements from the byte `at` on. left: [elements that may be shown]."""
        kind = self.kinds[axis]
        if axis == len(self.extents):
            left[0] -= 1
            return element(data[at:at + kind.sizeof], self.name)
        shown = []
        for i in range(self.extents[axis]):
            if left[0] <= 0:
                shown.append("...")
                break
            shown.append(self.rows(data, at + i * self.kinds[axis + 1].sizeof, axis + 1, left))
        return "{" + ", ".join(shown) + "}"

    def to_string(self):
        name = self.value.type.strip_typedefs().name
        if not self.value.address:
            return f"{name} = <not computed yet>"
        self.kinds = [self.value["data"].type]
        for _ in self.extents:
            self.kinds.append(self.kinds[-1].target())
        try:
            data = gdb.selected_inferior().read_memory(self.value.address, self.value.type.sizeof).tobytes()
        except gdb.MemoryError:
            return f"{name} = <not computed yet>"
        limit = gdb.parameter("print elements") or float("inf")
        return f"{name} = {self.rows(data, 0, 0, [limit])}"


class SmallFloat:
    """A scalar of a float type that gdb does not know."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"{small_float(int(self.value), self.value.type.strip_typedefs().name):g}"


def printer(value):
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_STRUCT and kind.name and BLOCK.match(kind.name):
        return Block(value)
    if kind.code == gdb.TYPE_CODE_INT and kind.name in FLOATS:
        return SmallFloat(value)
    return None


printer.name, printer.enabled = "tegula", True
gdb.printing.register_pretty_printer(None, printer, replace=True)
