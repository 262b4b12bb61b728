"""Mistakes in the tables of ops and attributes, and in their use, do not compile.

Usage: rows.py --cc CC ROOT. Compiles ir/op.c with copies of the tables: as they are, and with one row
of each without COST(...), with a number in its place, with one number of COST too few, and with a
misspelt attribute. Then compiles uses of attributes: right ones, misspelt ones, and getters and setters
of another kind.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import tempfile

COST = re.compile(r"COST\((\d+), (\d+), (\d+)\)")
TABLES = {"elementwise.def": '^EW\\(SQRT, ', "ops.def": '^OP\\(GATHER, '}
BREAKS = {"left out": lambda row: COST.sub("", row, 1).replace(", ,", ",", 1),
          "a number": lambda row: COST.sub("1", row, 1),
          "too few": lambda row: COST.sub(r"COST(\1, \2)", row, 1)}  # fmt: skip
MISSPELT = {"ops.def": lambda row: row.replace("NEEDS(AXIS)", "NEEDS(AXLE)")}

# Uses of attributes of each kind: the right one, and then wrong ones.
USES = {"op_int(op, A_AXIS, 0)": ["op_int(op, A_AXLE, 0)", "op_int(op, A_NAME, 0)", "op_int(op, ATTR_AXIS, 0)"],
        "op_flag(op, A_SYSTEM)": ["op_flag(op, A_AXIS)", 'op_flag(op, "system")'],
        "op_str(op, A_NAME)": ["op_str(op, A_PARAMS)", "op_str(op, A_SYSTEM)"],
        "op_ints(op, A_PERM)": ["op_ints(op, A_PARAMS)", "op_ints(op, A_AXIS)"],
        "op_strs(op, A_PARAMS)": ["op_strs(op, A_PERM)"],
        "op_subs(op, A_SUBS)": ["op_subs(op, A_PERM)"],
        "op_const(op, A_VALUE)": ["op_const(op, A_AXIS)"],
        "op_attr(op, ATTR_PERM)": ["op_attr(op, A_PERM)", "op_attr(op, ATTR_PERMUTATION)"],
        "op_set_int(ir, op, A_AXIS, 1)": ["op_set_int(ir, op, A_SYSTEM, 1)"],
        "op_set_flag(ir, op, A_SYSTEM, 1)": ["op_set_flag(ir, op, A_AXIS, 1)"],
        'op_set_str(ir, op, A_NAME, "x")': ['op_set_str(ir, op, A_AXIS, "x")'],
        "op_set_ints(ir, op, A_PERM, v, 1)": ["op_set_ints(ir, op, A_AXIS, v, 1)"],
        "op_copy_attr(ir, op, op, ATTR_AXIS)": ["op_copy_attr(ir, op, op, A_AXIS)"]}  # fmt: skip
USE = '#include "ir/ir.h"\nvoid use(Ir *ir, Op *op, const int64_t *v);\n' \
      "void use(Ir *ir, Op *op, const int64_t *v) {\n    (void)ir, (void)v;\n    (void)%s;\n}\n"


def compiles(args, folder, source=None):
    """Whether a source, or ir/op.c, compiles with the tables in a folder and the build's check of enums."""
    command = [args.cc, "-std=gnu17", "-fsyntax-only", "-Werror=enum-conversion", f"-I{folder}", f"-I{args.root}"]
    command += ["-x", "c", "-"] if source else [args.root / "ir/op.c"]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def wrong_uses(args):
    """Yields a line for each right use that does not compile, and for each wrong one that does."""
    if "-Werror=enum-conversion" not in (args.root / "cmake/TegulaCompiler.cmake").read_text():
        yield "the build does not check conversions of enums"
    for right, wrong in USES.items():
        ok, errors = compiles(args, args.root, USE % right)
        if not ok:
            yield f"{right} does not compile:\n{errors}"
        yield from (f"{use} compiles" for use in wrong if compiles(args, args.root, USE % use)[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True)
    parser.add_argument("root", type=pathlib.Path)
    args = parser.parse_args()
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        copy = pathlib.Path(temporary) / "lang"
        shutil.copytree(args.root / "lang", copy)
        ok, errors = compiles(args, temporary)
        if not ok:
            failures.append(f"the tables as they are do not compile:\n{errors}")
        for table, start in TABLES.items():
            text = (args.root / "lang" / table).read_text()
            row = re.search(start + ".*$", text, re.M).group(0)
            breaks = BREAKS | ({"misspelt attribute": MISSPELT[table]} if table in MISSPELT else {})
            for name, broken in breaks.items():
                assert broken(row) != row, row
                (copy / table).write_text(text.replace(row, broken(row)))
                if compiles(args, temporary)[0]:
                    failures.append(f"{table}: a row compiles with its cost or attribute {name}")
            (copy / table).write_text(text)
    failures += wrong_uses(args)
    print("\n".join(failures) or f"rows: {len(TABLES) * len(BREAKS) + len(MISSPELT)} broken rows and "
          f"{sum(map(len, USES.values()))} wrong uses do not compile")
    return 1 if failures else 0


raise SystemExit(main())
