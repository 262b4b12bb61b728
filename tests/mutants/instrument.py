"""Makes copies of sources with faults that a number selects at run time.

Usage: instrument.py --source ROOT --out FOLDER --seed S [--places N] [--strict]

Half of the faults are those of by_hand.py. The seed draws the places of N more: a negated condition, a
bound off by one (of a loop, or of a comparison in generated code), a dropped statement. Rules below
exclude places on which no result depends. A place's rank is a hash of the seed and its text, so a change
of the sources leaves most faults where they are. Each fault is guarded by `mutant_is(number)`, which reads
the environment variable TG_MUTANT. --strict fails if the sources no longer contain a text of by_hand.py.
FOLDER gets the changed files under their paths, `mutant.h`, and `mutants.tsv`: number, file, line, kind,
fault. CMake builds the copies instead of the sources (-DTEGULA_MUTANTS=ON). Other builds contain none of
this.
"""

import argparse
import hashlib
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from by_hand import BY_HAND  # noqa: E402

# Files in which faults give wrong results. Code that chooses between correct ways (costs, layouts, order) is
# left out. So are the interpreter and the simulator, which check results.
PLACES = """
passes/alias.c passes/bounds.c passes/canonical_arithmetic.c passes/canonical_shapes.c passes/combine.c
passes/combine_fold.c passes/contract.c passes/cse.c passes/dce.c passes/expand_math.c passes/fixed_order.c
passes/partial_folds.c passes/inline.c passes/licm.c passes/peel.c passes/range/range.c passes/range/range_interval.c
passes/range/range_proof.c passes/split.c passes/tile_grid.c passes/util.c passes/gpu/alloc.c passes/gpu/async/async.c
passes/gpu/async/async_registers.c passes/gpu/clip.c passes/gpu/async/async_copy.c passes/gpu/async/async_count.c
passes/gpu/async/settle.c passes/gpu/async/async_store.c passes/gpu/masks.c passes/gpu/narrow.c
passes/gpu/narrow_divide.c passes/gpu/outline.c passes/gpu/split_epilogue.c passes/gpu/rematerialize.c
passes/gpu/strip_mine.c backends/cpu/access.c backends/cpu/arena.c backends/cpu/atomic.c backends/cpu/register_loop.c
backends/cpu/contract.c backends/cpu/amx_direct.c backends/cpu/flow.c backends/cpu/unmasked.c
backends/cpu/operand_bounds.c backends/cpu/panel_cache.c backends/cpu/memory.c backends/cpu/microkernel.c
backends/cpu/nest.c backends/cpu/nibbles.c backends/cpu/pack.c backends/cpu/pack_gather.c backends/cpu/reduce.c
backends/cpu/region.c backends/cpu/scan.c backends/cpu/shape.c backends/cpu/sort.c backends/cpu/square_reads.c
backends/cpu/transpose.c backends/cpu/lazy_block.c backends/llvm/convert.c backends/llvm/elementwise.c
backends/llvm/load_code.c backends/llvm/soft_arithmetic.c backends/gpu/access.c backends/gpu/atomic.c
backends/gpu/convert.c backends/gpu/coords.c backends/gpu/copy.c backends/gpu/divisor.c backends/gpu/dot.c
backends/gpu/elementwise.c backends/gpu/block_elements.c backends/gpu/flow.c backends/gpu/lanes.c
backends/gpu/axis_join.c backends/gpu/load.c backends/gpu/matrix.c backends/gpu/nibbles.c backends/gpu/reduce.c
backends/gpu/ring.c backends/gpu/scan.c backends/gpu/shape.c backends/gpu/shared_memory.c backends/gpu/sort.c
backends/gpu/wgmma.c
""".split()

# Functions that choose between correct ways, or describe the choice.
WEIGHS = re.compile(r"^(\w+_cost|weigh|is_worth_it|is_awkward|places_wanted|order_of|order_text|group_of|grows|growing_rows|"
                    r"choose_run|note_(made|copy|store|contract|soft|nest)|async_note|op_note)$")  # fmt: skip
# More of these functions, by file. Faults there only keep masks, or turn a transposed read into a gather.
WEIGHS_IN = {
    "backends/cpu/full.c": {"add", "add_access", "add_whole", "see", "stands_at"},
    "backends/cpu/square.c": {"row_axis"},
    "passes/peel.c": {"fill_counts"},  # the default for a count is the same value
}
# Statements that only report, pass a hint to later code, or release memory.
SAYS = re.compile(r"^(async_note|note|note_(made|copy|store|contract|soft|nest)|rule_applied|mark_invariant|"
                  r"LLVMMoveBasicBlock\w+|(panel|buffer)_free)\(|^\*?(\w+(->|\.))?why = |^e->ahead = ")  # fmt: skip
# At a limit on work or memory, the code takes another correct way.
LIMIT = re.compile(r"\b(\w*_)?(MAX|MIN|MOST|LEAST|DEPTH|ROUNDS)(_\w+)?\b|\b(depth|budget)\b")
CHECK = re.compile(r"^\s*(return )?(ice|diag)\(")
FUNCTION = re.compile(r"^[a-zA-Z].*?\b(\w+)\([^;]*$")

HEADER = """// Which fault is on: -1 for none.
#ifndef MUTANT_H
#define MUTANT_H
#include <stdbool.h>
#include <stdlib.h>
static inline bool mutant_is(int n) {
    static int chosen = -2;
    if (chosen == -2) {
        const char *text = getenv("TG_MUTANT");
        chosen = text ? atoi(text) : -1;
    }
    return chosen == n;
}
#endif
"""
IF = re.compile(r"^(\s+)((?:\} else )?if) \((.*)\)( \{| [^{].*;|)$")
STATEMENT = re.compile(r"^(    +)((?:\w+\(.*\)|[\w\->.\[\]*]+ [|&+\-*]?= .*);)$")
LOOP = re.compile(r"^( +for \([^;]*; )([^;<>]*?) (<=? [^;]*;.*)$")  # loses its last iteration
PREDICATE = re.compile(r"\b(LLVMInt[SU])(LT|LE|GT|GE)(?=, )")
OTHER = {"LT": "LE", "LE": "LT", "GT": "GE", "GE": "GT"}
WORDS = re.compile(r"^(return|break|continue|goto|else|case|default|ice|diag|vec_push|build_yield)\b")


def balanced(text):
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return False
    return depth == 0


def changes_of(line):
    """All faults of a line: (kind, the line with `@` for the number)."""
    m = IF.match(line)
    if m and balanced(m[3]) and balanced(m[4] or "") and not LIMIT.search(m[3]):
        space, word, cond, rest = m.groups()
        yield "negated", f"{space}{word} (mutant_is(@) ? !({cond}) : ({cond})){rest}"
    m = LOOP.match(line)
    if m:
        yield "bound", f"{m[1]}{m[2]} + mutant_is(@) {m[3]}"
    m = PREDICATE.search(line)
    if m:
        yield "bound", f"{line[: m.start()]}(mutant_is(@) ? {m[1]}{OTHER[m[2]]} : {m[0]}){line[m.end() :]}"
    m = STATEMENT.match(line)
    if m and balanced(m[2]) and not WORDS.match(m[2]) and not SAYS.match(m[2]):
        yield "dropped", f"{m[1]}do {{ if (!mutant_is(@)) {m[2]} }} while (0);"


def is_check(lines, i):
    """Whether an `if` reports an error: of the compiler, or of the program."""
    m = IF.match(lines[i])
    return bool(m) and bool(CHECK.match(m[4] if m[4] not in (" {", "") else lines[i + 1]))


def places(root):
    """(file, line number, kind, changed line), for lines in top-level functions."""
    out = []
    for name in PLACES:
        lines = (root / name).read_text().split("\n")
        function = ""
        for i, line in enumerate(lines):
            m = FUNCTION.match(line)
            function = m[1] if m else function
            if WEIGHS.match(function) or function in WEIGHS_IN.get(name, ()) or is_check(lines, i):
                continue
            before = lines[i - 1].rstrip() if i else ""
            whole = before.endswith((";", "{", "}", ":")) or not before or before.lstrip().startswith("//")
            if whole and line.startswith("    ") and not before.endswith("\\") and not line.endswith("\\"):
                out += [(name, i, kind, text) for kind, text in changes_of(line)]
    return out


def spot(text, entry):
    """The position of an entry of by_hand.py; None unless its text occurs once."""
    found = list(re.finditer(r"\s+".join(re.escape(w) for w in entry[1].split()), text))
    return found[0] if len(found) == 1 else None


def taken(root):
    """Lines with a fault of by_hand.py."""
    out = set()
    for entry in BY_HAND:
        text = (root / entry[0]).read_text()
        m = spot(text, entry)
        if m:
            first, last = (text[:at].count("\n") for at in m.span())
            out |= {(entry[0], i) for i in range(first, last + 1)}
    return out


def by_hand(texts, number, entry):
    """Inserts a fault of by_hand.py into its file. Returns its line, or None if the text does not occur once."""
    name, old, new, _ = entry
    text = texts[name]
    at = spot(text, entry)
    if not at:
        return None
    old, line = at[0], text[: at.start()].count("\n") + 1
    if old.endswith("{"):  # the head of an `if`
        head, cond = old[:-1].strip(), new[:-1].strip()
        inner, other = head[head.index("(") :], cond[cond.index("(") :]
        change = f"if (mutant_is({number}) ? {other} : {inner}) {{"
    elif re.match(r"\w[\w ]* \**\w+ = ", old) and old.endswith(";"):  # a declaration
        start = old.index("= ") + 2
        value, rest = new[new.index("= ") + 2 :].split(";", 1)
        change = f"{old[:start]}mutant_is({number}) ? ({value}) : ({old[start:-1]});{rest}"
    elif old.endswith(";"):
        # A `do ... while (0)` would catch a `break` of the text that is meant for an outer loop.
        change = f"{{ if (mutant_is({number})) {{ {new} }} else {{ {old} }} }}"
    else:
        change = f"(mutant_is({number}) ? ({new}) : ({old}))"
    texts[name] = text[: at.start()] + change + text[at.end() :]
    return line


def rank(seed, place):
    name, _, kind, text = place
    return hashlib.sha256(f"{seed} {name} {kind} {text}".encode()).hexdigest()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--source", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--seed", type=int, required=True)
    p.add_argument("--places", type=int, default=50)
    p.add_argument("--strict", action="store_true")
    o = p.parse_args()
    all_places = places(o.source)
    drawn, lines = [], taken(o.source)
    for kind in ("negated", "bound", "dropped"):
        of = [x for x in all_places if x[2] == kind]
        share = -(-o.places // 3)
        for x in sorted(of, key=lambda x: rank(o.seed, x)):
            if share and (x[0], x[1]) not in lines:
                lines.add((x[0], x[1]))
                drawn.append(x)
                share -= 1
    drawn = sorted(drawn[: o.places])
    texts = {n: (o.source / n).read_text() for n in {e[0] for e in BY_HAND} | {x[0] for x in drawn}}
    rows, lost = [], []
    for k, (name, i, kind, text) in enumerate(drawn):
        number = len(BY_HAND) + k + 1
        rows.append((number, name, i + 1, kind, texts[name].split("\n")[i].strip()))
    for k, (name, i, kind, text) in enumerate(drawn):
        parts = texts[name].split("\n")
        parts[i] = text.replace("@", str(len(BY_HAND) + k + 1))
        texts[name] = "\n".join(parts)
    for k, entry in enumerate(BY_HAND):
        line = by_hand(texts, k + 1, entry)
        if line is None:
            lost.append(entry)
        else:
            rows.append((k + 1, entry[0], line, "by hand", entry[3]))
    for file in o.out.glob("**/*.c"):  # left by another seed
        if str(file.relative_to(o.out)) not in texts:
            file.unlink()
    for name, text in texts.items():
        file = o.out / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    (o.out / "mutant.h").write_text(HEADER)
    (o.out / "mutants.tsv").write_text("\n".join("\t".join(map(str, x)) for x in sorted(rows)) + "\n")
    print(f"mutants: {len(rows)}, of them {len(drawn)} at places drawn by seed {o.seed} from {len(all_places)}")
    for name, old, _, what in lost:
        print(f"{name}: does not stand there once: {old}  ({what})")
    return 1 if lost and o.strict else 0


if __name__ == "__main__":
    sys.exit(main())
