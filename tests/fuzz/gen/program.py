"""The tree of a random program: expressions, statements, kernels; its text; the cells that it reaches."""

import dataclasses
import re

import numpy as np


class Node:
    """An expression: a format, its operands, and the known properties of its value.

    mag:   for floats: an integer of at most this magnitude, so that sums are exact in any order; else None
    nan:   it may be NaN, whose sign and payload are free zs:    the sign of a zero is free (min, max,
    sums) prod:  a product that a following sum may be fused with tol:   (ulps, absolute): an
    approximation, which must not flow into exact ops; None if exact
    """

    __slots__ = ("fmt", "kids", "elem", "shape", "op", "mag", "nan", "zs", "prod", "tol", "marks", "of")

    def __init__(self, fmt, kids, elem, shape, op=None, mag=None, nan=None, zs=None, prod=False,
                 tol=None, of=None):
        self.fmt, self.kids, self.elem, self.shape, self.op = fmt, list(kids), elem, tuple(shape), op
        is_float = elem.kind == "f"
        self.mag = mag if is_float else None
        self.nan = is_float and mag is None if nan is None else nan and is_float
        self.zs = is_float and any(k.zs for k in self.kids) if zs is None else zs and is_float
        self.prod = prod and is_float and self.mag is None
        self.tol = tol
        self.marks = set()
        self.of = of or elem  # the element under which the op counts

    def text(self):
        return self.fmt.format(*[k.text() for k in self.kids])

    def like(self, fmt, kids=None, **change):
        """Another expression with the same properties."""
        n = Node(fmt, [self] if kids is None else kids, self.elem, self.shape, None, self.mag, self.nan,
                 self.zs, self.prod, self.tol)
        for k, v in change.items():
            setattr(n, k, v)
        return n

    def walk(self):
        yield self
        for k in self.kids:
            yield from k.walk()


class Stmt:
    """A statement: a format, its expressions, and bodies, each with the context that it makes."""

    def __init__(self, fmt, kids=(), bodies=(), op=None, of=None):
        self.fmt, self.kids, self.bodies, self.op, self.of = fmt, list(kids), list(bodies), op, of
        self.marks = set()

    def lines(self, indent):
        text = "    " * indent + self.fmt.format(*[k.text() for k in self.kids])
        if not self.bodies:
            yield text
            return
        for i, (_, body) in enumerate(self.bodies):
            yield (text if i == 0 else "    " * indent + "} else") + " {"
            for s in body:
                yield from s.lines(indent + 1)
        yield "    " * indent + "}"


@dataclasses.dataclass
class Param:
    name: str
    type: str
    argument: str
    facts: list = dataclasses.field(default_factory=list)  # contracts that hold


@dataclasses.dataclass
class Out:
    name: str
    elem: object
    ulps: float = 0
    absolute: float = 0
    signless: bool = False
    whole: bool = False  # also compare the memory behind the view


@dataclasses.dataclass
class Fn:
    """A function of the file. Names of its surroundings that it uses are parameters of the same name:
    `@name`."""

    name: str
    body: list
    result: Node = None

    def text(self):
        lines = [f"fn {self.name}(@{self.name}) {{"]
        for s in self.body:
            lines += s.lines(1)
        if self.result:
            lines.append(f"    return {self.result.text()};")
        return "\n".join(lines + ["}", ""])

    def passed(self, text):
        """The names that the text takes from outside."""
        own = set(re.findall(r"\b(?:let|var|for) \(?(\w+)", text)) | set(re.findall(r"\blet \(\w+, (\w+)\)", text))
        for head in re.findall(r"\bfor (.*) \{", text):
            own |= set(re.findall(r"(\w+) in ", head))
        return sorted(set(re.findall(r"\b(?:[atopDjsvZ]\d+|[mnMN])\b", text)) - own)


@dataclasses.dataclass
class Phase:
    head: str
    body: list
    before: str = ""  # statements of the host
    called: str = ""  # name of a kernel of its own, or ""
    repeated: bool = False  # whether it is in a loop of the host
    inner: str = ""  # head of a loop around the whole program

    def text(self):
        lines = [f"    {self.head} {{"] + ([f"        {self.inner} {{"] if self.inner else [])
        for s in self.body:
            lines += s.lines(3 if self.inner else 2)
        return "\n".join(lines + (["        }"] if self.inner else []) + ["    }"])


class Program:
    def __init__(self, seed, number):
        self.seed, self.number = seed, number
        self.fns, self.params, self.outs, self.phases = [], {}, {}, []
        self.head_fns = {}
        self.scratches = {}  # name -> type
        self.tunes = {}  # name -> (values, a condition)
        self.schedule = ""
        self.typed = ""  # the element that is a type parameter
        self.flags = []  # options of the command line

    def source(self):
        phases, fns, names = [p.text() for p in self.phases], "", {}

        def spelt(text):
            return re.sub(r"@(g\d+)\b", lambda m: names.get(m[1], m[0]), text)

        for f in self.fns:  # each may call earlier ones
            text = spelt(f.text())
            names[f.name] = ", ".join(f.passed(text)) or "m"
            fns += spelt(text)
        phases = [spelt(p) for p in phases]
        fns = self.called(fns, "".join(phases))
        kernels, phases = self.parted(phases)
        body = "\n".join(phases)
        heads = "".join(t for n, t in self.head_fns.items() if re.search(rf"\b{n}\b", fns + kernels + body))
        self.used = self.params_of(body)
        generic, typed = "", self.typed
        if any(p.type.startswith(typed + "[") and not p.type.endswith("?") for p in self.used if typed):
            generic = "<T: any>"
        head = ", ".join(f"{p.name}: {self.type_of(p, generic)}" for p in self.used)
        facts = [f for p in self.used if not p.type.endswith("?") for f in p.facts]
        clauses = self.schedule + (f" require {', '.join(facts)}" if facts else "") + self.tuned(fns + body)
        return f"{heads}{fns}{kernels}kernel k{generic}({head}){clauses} {{\n{body}\n}}\n"

    def type_of(self, p, generic):
        return "T" + p.type[len(self.typed):] if generic and p.type.startswith(self.typed + "[") else p.type

    def tuned(self, text):
        found = [c for name, c in self.tunes.items() if re.search(rf"\b{name}\b", text)]
        where = f" where {' && '.join(c for _, c in found)}" if self.schedule else ""
        return f" tune {', '.join(c for c, _ in found)}{where}" if found else ""

    def params_of(self, text):
        words = set(re.findall(r"\w+", text))
        params = [p for p in self.params.values() if p.name in words]
        bound = {d for p in params if not p.type.endswith("?") for d in re.findall(r"\w+", p.type)}
        left = {d for p in params for d in re.findall(r"\b(?:D\d+|[MN])\b", p.type)}
        for p in self.params.values():  # each named dimension needs a tensor
            dims = {d for d in re.findall(r"\w+", p.type) if re.fullmatch(r"D\d+|M|N", d)}
            if dims & (words | left) - bound and not p.type.endswith("?"):
                params += [p] if p not in params else []
                bound |= dims
        return params

    def parted(self, texts):
        """The texts of called kernels, and the phases of the main one."""
        kernels, out = "", []
        for p, text in zip(self.phases, texts):
            if p.called:
                params = {q.name: q.type for q in self.params_of(text)}
                params.update({s: t for s, t in self.scratches.items() if re.search(rf"\b{s}\b", text)})
                head = ", ".join(f"{n}: {t}" for n, t in params.items())
                kernels += f"kernel {p.called}({head}){self.tuned(text)} {{\n{text}\n}}\n"
                text = f"    {p.called}({', '.join(params)});"
            elif p.repeated:
                text = f"    for turn in 2 {{\n{text}\n    }}"
            out.append(p.before + text)
        return kernels, out

    def kernels(self):
        return 1 + sum(bool(p.called) for p in self.phases)

    def called(self, fns, body):
        """The functions that are called."""
        parts = re.split(r"(?=^fn )", fns, flags=re.M)
        keep = []
        for part in reversed(parts):
            name = re.match(r"fn (\w+)", part)
            if name and re.search(rf"\b{name[1]}\b", body + "".join(keep)):
                keep.insert(0, part)
        return "".join(keep)

    def words(self):
        """The arguments on the command line. Call it after source()."""
        return [w for p in self.used for w in ("--arg", f"{p.name}={p.argument}")]

    def written(self):
        return [o for o in self.outs.values() if any(p.name == o.name for p in self.used)]

    def reached(self):
        """All (op, context, element) of the program."""
        out = set()
        for f in self.fns:
            reach_body(f.body, {"fn"}, out)
            if f.result:
                reach_node(f.result, {"fn"}, out)
        base = {"phases"} if len(self.phases) > 1 else set()
        for p in self.phases:
            reach_body(p.body, base | ({"loop"} if p.inner else set()), out)
        return out


def reach_node(node, contexts, out):
    for n in node.walk():
        if n.op:
            for c in (contexts or {"straight"}) | n.marks:
                out.add((n.op, c, n.of.name))


def reach_body(body, contexts, out):
    for s in body:
        if s.op:
            for c in (contexts or {"straight"}) | s.marks:
                out.add((s.op, c, s.of.name))
        for k in s.kids:
            reach_node(k, contexts, out)
        for c, inner in s.bodies:
            inside = set(contexts)
            if c == "loop" and contexts & {"loop", "nested", "while", "merge"}:
                inside.add("nested")
            if c:
                inside.add(c)
            reach_body(inner, inside, out)


def size(shape):
    return int(np.prod(shape, dtype=np.int64))
