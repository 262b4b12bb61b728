"""The compiler's own tables: elements, elementwise ops, builtins, axes of the schedule, the prelude."""

import dataclasses
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]

# Bits of the significand: all integers up to 2 ** bits are values of the type.
SIGNIFICAND = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8e4m3": 4, "f8e5m2": 3}


@dataclasses.dataclass(frozen=True)
class Elem:
    name: str
    bits: int
    kind: str  # b bool, s signed, u unsigned, f float

    @property
    def storage_only(self):
        return self.bits < 8

    @property
    def least(self):
        return -(1 << self.bits - 1) if self.kind == "s" else 0

    @property
    def greatest(self):
        return (1 << self.bits - (self.kind == "s")) - 1

    @property
    def exact(self):
        """All integers up to this magnitude are values of the float."""
        return 1 << SIGNIFICAND[self.name]

    @property
    def carried(self):
        """Sums of integers are exact up to this value."""
        return 1 << (53 if self.name == "f64" else 24)


@dataclasses.dataclass(frozen=True)
class Op:
    """An elementwise op."""

    name: str
    operands: int
    classes: str
    approximate: bool  # a function of the library errs by more than a rounding


@dataclasses.dataclass(frozen=True)
class Builtin:
    name: str
    least: int
    most: int
    named: tuple
    effect: bool


class Tables:
    def __init__(self, opt):
        self.elems, self.elementwise, self.builtins, self.ir_ops = {}, {}, {}, []
        self.axes = {}  # name -> values that programs may pin
        out = subprocess.run([opt, "--tables"], stdout=subprocess.PIPE, check=True, text=True).stdout
        for line in out.splitlines():
            kind, *row = line.split("\t")
            getattr(self, "_" + kind)(*row)
        text = (ROOT / "stdlib" / "prelude.teg").read_text()
        self.prelude = re.findall(r"^fn (\w+)\(|^fn (\w+)<", text, re.M)
        self.prelude = [a or b for a, b in self.prelude]
        self.computed = [e for e in self.elems.values() if not e.storage_only]

    def _axis(self, name, least, most, kind):
        """Plans are for programs of ranks, which these are not."""
        if kind != "plan":
            allowed = range(max(int(least), -8), min(int(most), 8) + 1)
            self.axes[name] = [v for v in allowed if kind == "any" or v & v - 1 == 0]

    def _elem(self, name, bits, kind):
        self.elems[name] = Elem(name, int(bits), kind)

    def _op(self, name, operands, _results, _regions, classes, kind):
        if kind == "other":
            self.ir_ops.append(name)
        else:
            self.elementwise[name] = Op(name, int(operands), classes, kind == "approximate")

    def _builtin(self, name, least, most, named, effect, _place):
        words = () if named == "-" else tuple(named.split())
        if name not in self.elementwise:
            self.builtins[name] = Builtin(name, int(least), int(most), words, effect == "effect")

    def of(self, classes):
        """Elements of these classes that have arithmetic."""
        return [e for e in self.computed if e.kind in classes]
