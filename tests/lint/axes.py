"""Rows of lang/axes.def say which files of passes/ read an axis.

Usage: axes.py ROOT. An axis is read as `env->NAME`, or as the field NAME of another PassEnv pointer.
"""
import pathlib
import re
import sys

ROW = re.compile(r"^AXIS\((\w+), (\w+),.*?READ_BY\(\"([^\"]*)\"\)", re.M | re.S)


def rows(root):
    """name -> the files that its row lists."""
    text = (root / "lang" / "axes.def").read_text()
    found = {name: set(files.split()) for _, name, files in ROW.findall(text)}
    assert len(found) == len(re.findall(r"^AXIS\(", text, re.M)), "a row has no READ_BY"
    return found


def readers(root, name):
    read = re.compile(rf"\benv->{name}\b")
    return {p.stem for p in (root / "passes").rglob("*.c") if read.search(p.read_text())}


def main():
    root = pathlib.Path(sys.argv[1])
    axes = rows(root)
    wrong = [f"lang/axes.def: {name} is read by: {' '.join(sorted(readers(root, name))) or 'no pass'}"
             for name, files in axes.items() if files != readers(root, name)]  # fmt: skip
    print("\n".join(wrong) or f"axes: {len(axes)} rows name the passes that read them")
    return 1 if wrong else 0


raise SystemExit(main())
