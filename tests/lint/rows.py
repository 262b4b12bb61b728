"""Checks that a row of an op table without a cost does not compile.

Usage: rows.py --cc CC ROOT. Compiles ir/op.c with copies of the tables: unchanged, and with one row of
each without COST(...), with a number instead, and with one number of COST missing.
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


def compiles(args, folder):
    command = [args.cc, "-std=gnu17", "-fsyntax-only", f"-I{folder}", f"-I{args.root}", args.root / "ir/op.c"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0, done.stderr


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
            for name, broken in BREAKS.items():
                assert broken(row) != row, row
                (copy / table).write_text(text.replace(row, broken(row)))
                if compiles(args, temporary)[0]:
                    failures.append(f"{table}: a row compiles with its cost {name}")
            (copy / table).write_text(text)
    print("\n".join(failures) or f"rows: {len(TABLES) * len(BREAKS)} broken rows do not compile")
    return 1 if failures else 0


raise SystemExit(main())
