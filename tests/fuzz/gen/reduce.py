"""Makes a failing program smaller: removes statements and operands while it still fails in the same way."""

import copy

from gen.program import Node

BATCH = 12


def bodies_of(program):
    """All lists of statements, outermost first."""
    out, todo = [], [f.body for f in program.fns] + [p.body for p in program.phases]
    while todo:
        body = todo.pop(0)
        out.append(body)
        for s in body:
            todo += [b for _, b in s.bodies]
    return out


def statements(program):
    return [(body, i) for body in bodies_of(program) for i in range(len(body))]


def roots(program):
    """Places of expressions: (list, index)."""
    for body in bodies_of(program):
        for s in body:
            for i in range(len(s.kids)):
                yield s.kids, i


def places(program):
    todo = list(roots(program))
    for holder, i in todo:
        yield holder, i
        todo += [(holder[i].kids, k) for k in range(len(holder[i].kids))]


def plain(n):
    """A constant that replaces an expression."""
    one = "true" if n.elem.kind == "b" else "1"
    text = one if n.elem.kind == "b" else f"({one} as {n.elem.name})"
    if n.shape:
        text = f"broadcast({text}, {', '.join(map(str, n.shape))})"
    return Node(text, [], n.elem, n.shape)


class Edits:
    """The n-th smaller version of a program. Numbers start anew for each program."""

    def __init__(self, program):
        self.program = program
        self.edits = []
        for k in range(len(program.phases) - 1, -1, -1):
            if len(program.phases) > 1:
                self.edits.append(("phase", k, 0))
        for k in range(len(statements(program)) - 1, -1, -1):
            self.edits.append(("drop", k, 0))
        for k, (body, i) in enumerate(statements(program)):
            for b in range(len(body[i].bodies)):
                self.edits.append(("unwrap", k, b))
        for k, (holder, i) in enumerate(places(program)):
            for c, kid in enumerate(holder[i].kids):
                if (kid.elem, kid.shape) == (holder[i].elem, holder[i].shape):
                    self.edits.append(("hoist", k, c))
            if holder[i].kids or "[" in holder[i].fmt:
                self.edits.append(("plain", k, 0))

    def apply(self, edit):
        kind, k, c = edit
        p = copy.deepcopy(self.program, {id(e): e for e in elems_of(self.program)})
        if kind == "phase":
            del p.phases[k]
        elif kind in ("drop", "unwrap"):
            body, i = statements(p)[k]
            body[i : i + 1] = body[i].bodies[c][1] if kind == "unwrap" else []
        else:
            holder, i = list(places(p))[k]
            holder[i] = holder[i].kids[c] if kind == "hoist" else plain(holder[i])
        return p


def elems_of(program):
    for holder, i in places(program):
        yield holder[i].elem
        yield holder[i].of


def reduced(program, failure, runner, budget=60):
    """The smallest version found in `budget` batches."""
    spent, at = 0, 0
    edits = Edits(program)
    while at < len(edits.edits) and spent < budget:
        some = edits.edits[at : at + BATCH]
        tries = []
        for e in some:
            q = edits.apply(e)
            q.source()
            if q.written():
                tries.append((e, q))
        at += BATCH
        spent += 1
        if not tries:
            continue
        keys = [f"r{i}" for i in range(len(tries))]
        results = runner.check([q for _, q in tries], [failure.target], keys)
        for (_, q), (_, failures) in zip(tries, results):
            same = [f for f in failures if (f.target, f.kind) == (failure.target, failure.kind)]
            if same:
                program, failure, edits = q, same[0], Edits(q)
                at = max(0, at - BATCH)
                break
    return program, failure
