"""A block that one part of the control flow uses, used again by another part.

A kernel has one operation E, and a phase for each kind of control flow between two uses of a block: arms,
loops, loop conditions, loop-carried states. The second use U is another operation in each phase. Every
program has a flag of its own, so programs with different paths run one after the other on the same memory.
The operations come from the IR's table. An operation without a row here and without a reason is an error.
"""

import atexit
import pathlib
import re
import shutil
import tempfile

from harness import *

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="tegula-regions-"))
atexit.register(shutil.rmtree, FOLDER)
FLAGS = np.array([1, 0, 2, 3, 0, 1], np.int32)
FLAT, TALL = (24,), (4, 6)
TYPES = {"f32": np.float32, "i32": np.int32, "f64": np.float64, "u8": np.uint8, "f16": np.float16, "i64": np.int64}

# ---- operations -----------------------------------------------------------------------------------
# The statements of a block v, with A an axis, and their results; for FLAT, then for TALL. A block of the same
# shape, or a scalar.


def turned(v):
    """Swaps the halves of the last axis."""
    return np.roll(v, v.shape[-1] // 2, -1)


def top(v):
    return np.concatenate([-np.sort(-v)[..., :3], v[..., 3:]], -1)


def picked(v, a):
    """The element after number v; 0 outside."""
    at = np.minimum(v + 1, v.shape[a] - 1)
    return np.where(v + 1 < v.shape[a], np.take_along_axis(v, at, a), 0)


def both(text, value):
    return {FLAT: (text, value), TALL: (text, value)}


def along(text, value):
    return {FLAT: (text.replace("A", "0"), lambda v: value(v, 0)), TALL: (text.replace("A", "1"), lambda v: value(v, 1))}


def down(text, value):
    return {FLAT: (text.replace("A", "0"), lambda v: value(v, 0)), TALL: (text.replace("A", "0"), lambda v: value(v, 0))}


USES = {
    "gather": [along("flip(v, axis = A)", np.flip), down("flip(v, axis = A)", np.flip),
               along("roll(v, 2, axis = A)", lambda v, a: np.roll(v, 2, a)),
               along("gather(v, (v as i64) + 1, axis = A)", picked)],
    "sort": [along("sort(v, axis = A)", np.sort), down("sort(v, axis = A, descending = true)", lambda v, a: -np.sort(-v, a)),
             {FLAT: ("concat(best(v), v[3 .. 24], axis = 0)", top),
              TALL: ("concat(best(v), v[:, 3 .. 6], axis = 1)", top)}],
    "scan": [along("cumsum(v, axis = A)", np.cumsum), down("cummax(v, axis = A)", np.maximum.accumulate)],
    "reduce": [both("sum(v)", np.sum),
               {FLAT: ("argmax(v)", np.argmax), TALL: ("argmax(v, axis = 1)[:, None]", lambda v: np.argmax(v, 1)[:, None])}],
    "histogram": [{FLAT: ("histogram(v as i32, 24)", lambda v: np.bincount(v, minlength=24)),
                   TALL: ("sum(histogram(v as i32, 3))", lambda v: np.sum(v < 3))}],
    "dot": [{FLAT: ("sum(dot(v[:, None] as f32, v[None, :] as f32)[1, 3 .. 6])", lambda v: v[1] * np.sum(v[3:6])),
             TALL: ("dot(dot(v as f32, trans(v) as f32), v as f32) % 4", lambda v: v @ v.T @ v % 4)}],
    "concat": [{FLAT: ("concat(v[12 .. 24], v[0 .. 12], axis = 0)", turned),
                TALL: ("concat(v[:, 3 .. 6], v[:, 0 .. 3], axis = 1)", turned)}],
    "slice": [{FLAT: ("v[5]", lambda v: v[5]), TALL: ("v[1, :][None, :]", lambda v: v[1])}],
    "reshape": [{FLAT: ("reshape(trans(reshape(v, 6, 4)), 24)", lambda v: v.reshape(6, 4).T.reshape(24)),
                 TALL: ("reshape(reshape(v, 24) * 2, 4, 6)", lambda v: v * 2)}],
    "permute": [{FLAT: ("v", lambda v: v), TALL: ("sum(trans(v), axis = 1)[None, :]", lambda v: np.sum(v, 0))}],
    "broadcast": [{FLAT: ("broadcast(v[3], 24)", lambda v: v[3]),
                   TALL: ("broadcast(v[:, 2][:, None], 4, 6)", lambda v: v[:, 2:3])}],
    "select": [both("(v > 1 ? v : 1)", lambda v: np.maximum(v, 1))],
    "cast": [both("(v as i16) + 1", lambda v: v + 1)],
    "load": [{FLAT: ("z[v as i64]", lambda v: v * 2), TALL: ("z[v[:, 1] as i64][:, None]", lambda v: v[:, 1:2] * 2)}],
}
OTHERS = {"iota": "takes no block", "const": "takes no block", "rank": "takes no block", "workspace_limit": "takes no block",
          "dim": "of a tensor", "stride": "of a tensor", "align": "of a tensor", "live": "of a tensor",
          "bitcast": "lane by lane, as cast"}
TABLE = pathlib.Path(__file__).resolve().parents[2] / "lang" / "ops.def"
PASSES = TABLE.read_text().index('"launch"')  # ops of passes come after these


def missing():
    pure = re.findall(r'^OP\(\w+, "(\w+)", [^"]*\bPURE\b', TABLE.read_text()[:PASSES], re.M)
    return sorted({*pure, "load"} - {*USES} - {*OTHERS})


assert not missing(), f"operations without a use in {__file__}: {missing()}"
LIST = [use for uses in USES.values() for use in uses]

# ---- control flow ---------------------------------------------------------------------------------
# The value s of a program, before U(v) + s is stored. The block v and the state m hold small numbers, so all
# is exact.


def state(v, n, step):
    for j in range(n):
        v = step(v, j)
    return v


def armed_state(E, U, v, f):
    s, m = 0, v
    for j in range(f):
        s, m = s + (E(m) if j > 0 else 0), (m + U(m)) % 5
    return s + m


def until(E, v, f):
    s, k = v * 0, f
    while k > 0 and np.max(s + E(v)) < 40:
        s, k = s + 9, k - 1
    return s


FLOWS = {
    "arm": ("if f > 0 { s += E(v); }", lambda E, U, v, f: E(v) if f > 0 else 0),
    "other arm": ("if f > 0 { s += 1; } else { s += E(v); }", lambda E, U, v, f: 1 if f > 0 else E(v)),
    "both arms": ("if f > 0 { s += E(v); } else { s += U(v) + E(v) * 2; }",
                  lambda E, U, v, f: E(v) if f > 0 else U(v) + E(v) * 2),
    "arm in an arm": ("if f > 0 { if f > 1 { s += E(v); } s += U(v); }",
                      lambda E, U, v, f: (E(v) if f > 1 else 0) + (U(v) if f > 0 else 0)),
    "two ifs": ("if f > 0 { s += E(v); } if f > 1 { s += E(v) * 2; }",
                lambda E, U, v, f: E(v) * ((f > 0) + 2 * (f > 1))),
    "scalar of an arm": ("var t: T = 0; if f > 0 { t = max(s + E(v)); } s += t;",
                         lambda E, U, v, f: np.max(v * 0 + E(v)) if f > 0 else 0),
    "the block itself": ("var t = v; if f > 0 { t = s + E(v); } s = t;",
                         lambda E, U, v, f: E(v) if f > 0 else v),
    "arm in a loop": ("for j in f { if j > 0 { s += E(v); } s += U(v); }",
                      lambda E, U, v, f: max(f - 1, 0) * E(v) + f * U(v)),
    "loop": ("for j in f { s += E(v) * ((j + 1) as T); }", lambda E, U, v, f: E(v) * (f * (f + 1) // 2)),
    "loop in an arm": ("if f > 1 { for j in f { s += E(v) * (j as T); } }",
                       lambda E, U, v, f: E(v) * (f * (f - 1) // 2) if f > 1 else 0),
    "block of an iteration": ("for j in f { let w = (v + (j as T)) % 5; if j != 1 { s += E(w); } s += U(w); }",
                              lambda E, U, v, f: sum(((E((v + j) % 5) if j != 1 else 0) + U((v + j) % 5)
                                                      for j in range(f)), v * 0)),
    "state": ("var m = v; for j in f { m = (m + E(m)) % 5; } s = m;",
              lambda E, U, v, f: state(v, f, lambda m, j: (m + E(m)) % 5)),
    "state and arm": ("var m = v; for j in f { if j > 0 { s += E(m); } m = (m + U(m)) % 5; } s += m;", armed_state),
    "state of an inner loop": ("var m = v; for j in f { for l in 3 { m = (m + v) % 7; } m = (m + E(m)) % 5; } s = m;",
                               lambda E, U, v, f: state(v, f, lambda m, j: (lambda t: (t + E(t)) % 5)(
                                   state(m, 3, lambda t, l: (t + v) % 7)))),
    "while": ("var k = f; while k > 0 { s += E(v); k -= 1; }", lambda E, U, v, f: E(v) * f),
    "test": ("var k = f; while k > 0 && max(s + E(v)) < 40 { s += 9; k -= 1; }",
             lambda E, U, v, f: until(E, v, f)),
}

VARIABLE = r"\bv\b"

# ---- blocks ---------------------------------------------------------------------------------------

BLOCKS = [  # v from a row of x, for which S stands; all of it below 4
    ("S", lambda x: x),
    ("(S * 3 + 1) % 4", lambda x: (x * 3 + 1) % 4),
    ("broadcast(max(S), SHAPE)", lambda x: np.max(x) + x * 0),
    ("sort(S, axis = 0)", lambda x: np.sort(x, 0)),
    ("max(S, 1)", lambda x: np.maximum(x, 1)),
]


def expanded(text, E, U, shape):
    """`text` with the statements of E and U for the requested blocks."""
    for name, use in (("E", E), ("U", U)):
        text = re.sub(name + r"\((\w+)\)", lambda m: f"(({re.sub(VARIABLE, m[1], use[shape][0])}) as T)", text)
    return text


def phase(c, E, U, block, shape):
    flow = expanded(list(FLOWS.values())[c][0], E, U, shape)
    axes = ", ".join(":" * len(shape))
    extents = ", ".join(map(str, shape))
    v = block[0].replace("SHAPE", extents).replace("S", f"x[p, {axes}]")
    end = expanded("U(v)", E, U, shape)
    return (f"    parallel p in P {{\n        let f = flags[p];\n        let v = {v};\n        var s: T<{extents}> = 0;\n"
            f"        {flow}\n        y[p, {c}, {axes}] = {end} + s;\n    }}\n")


def uses_of(number):
    """(E, U) of each kind of control flow."""
    return [(LIST[number], LIST[(number + 3 * c + 1) % len(LIST)]) for c in range(len(FLOWS))]


def kernel(number, shape):
    body = "".join(phase(c, E, U, BLOCKS[(number + c) % len(BLOCKS)], shape) for c, (E, U) in enumerate(uses_of(number)))
    dims = ", ".join(map(str, shape))
    file = FOLDER / f"{number}_{len(shape)}.teg"
    best = "fn best(v) { let (top, at) = topk(v, 3); return top; }\n"
    parameters = f"x: T[P, {dims}], z: T[8], flags: i32[P], y: T[P, {len(FLOWS)}, {dims}]"
    file.write_text(f"{best}kernel k<T: any>({parameters}) {{\n{body}}}\n")
    return file


def reference(number, shape):
    def run(x, flags, **_):
        x = x.astype(np.int64)
        y = np.zeros((len(x), len(FLOWS), *shape), np.int64)
        for p, f in enumerate(flags):
            for c, (flow, (E, U)) in enumerate(zip(FLOWS.values(), uses_of(number))):
                v = BLOCKS[(number + c) % len(BLOCKS)][1](x[p])
                y[p, c] = U[shape][1](v) + flow[1](E[shape][1], U[shape][1], v, int(f))
        return {"y": y}
    return run


for number in range(len(LIST)):
    other = list(TYPES)[1:][number % (len(TYPES) - 1)]
    shapes = (FLAT, TALL) if number % 2 else (TALL, FLAT)
    few = ("interp", "cpu")  # other targets run a third of the kernels, in which each operation is the one
                             # called U once
    for shape, t, targets in ((shapes[0], "f32", few if number % 3 else None), (shapes[1], other, few)):
        case(kernel(number, shape), "k",
             {"x": integers((len(FLAGS), *shape), number, 0, 4, TYPES[t]), "z": np.arange(0, 16, 2).astype(TYPES[t]),
              "flags": FLAGS},
             lambda want=reference(number, shape), t=t, **a: {"y": want(**a)["y"].astype(TYPES[t])},
             types={"T": t}, name=f"{number}-{len(shape)}-{t}", targets=targets)
