#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps docs/use/stdlib.md in step with the `///` comments of stdlib/*.teg.

tests/doc/stdlib.py            fails if the page differs, or a kernel lacks a text or a test
tests/doc/stdlib.py --write    rewrites the page below its marker
"""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/use/stdlib.md"
COLUMNS = 110  # of prose
MARKER = "<!-- below: written by tests/doc/stdlib.py -->\n"
FILES = (
    "activation elementwise softmax norm reduce scan matmul attention conv pool loss embedding "
    "layout sort comm"
).split()
ITEM = re.compile(
    r"((?:^///[^\n]*\n)*)^(kernel|fn) (\w+)(<.*?>(?=\())?\((.*?)\)(?::[^{]*)?\s", re.M | re.S
)


def plain(comment, sign):
    """The text of a comment as one paragraph."""
    return " ".join(line.removeprefix(sign).strip() for line in comment.strip().split("\n"))


def header(text):
    """The title of a file, and the paragraphs of its first comment."""
    lines = re.match(r"(?://[^\n]*\n)+", text)[0].strip().split("\n")[1:]
    paragraphs = "\n".join(line.removeprefix("//").strip() for line in lines).split("\n\n")
    return [" ".join(p.split()) for p in paragraphs]


def items(text):
    """(kind, name, signature, text, source) of each kernel, and of each fn with a text."""
    for doc, kind, name, generics, parameters in ITEM.findall(text):
        what, _, source = plain(doc, "///").partition("Source: ")
        signature = re.sub(r"\s+", " ", f"{name}{generics}({parameters})")
        if kind == "kernel" or what:
            yield kind, name, signature, what.strip(), source.strip().rstrip(".")


def cell(text):
    return re.sub(r"(?<=\w)_(?=\W|$)|[|*<>_]", lambda m: "\\" + m[0], text)


def code(text):
    return "`" + text.replace("|", "\\|") + "`"


def table(title, rows):
    out = [f"| {title} | what | source |", "|---|---|---|"]
    return (
        out
        + [f"| {code(sig)} | {cell(what)} | {cell(source)} |" for sig, what, source in rows]
        + [""]
    )


def section(name, text):
    title, *rest = header(text)
    out = [f"## std/{name}.teg", ""]
    for p in [title, *rest]:
        out += [textwrap.fill(cell(p), COLUMNS, break_long_words=False, break_on_hyphens=False), ""]
    for kind, head in (("kernel", "kernel"), ("fn", "fn")):
        rows = [i[2:] for i in items(text) if i[0] == kind]
        out += table(head, rows) if rows else []
    return out


def tested():
    """The kernels that the cases of tests/run/std_*.py run."""
    sys.path.insert(0, str(ROOT / "tests/run"))
    sys.dont_write_bytecode = True
    import harness

    for path in sorted((ROOT / "tests/run").glob("std_*.py")):
        exec(compile(path.read_text(), path, "exec"), {"__name__": "case", "__file__": str(path)})
    return {c.kernel for c in harness.CASES}


def problems(texts):
    run = tested()
    for file, text in texts.items():
        for kind, name, _, what, _ in items(text):
            if kind == "kernel" and not (what and name in run):
                yield f"stdlib/{file}.teg: kernel {name} has no {'test' if what else 'text'}"
    for path in (ROOT / "stdlib").glob("*.teg"):
        if "kernel " in path.read_text() and path.stem not in FILES:
            yield f"stdlib/{path.name} is not listed in tests/doc/stdlib.py"


def main():
    texts = {name: (ROOT / f"stdlib/{name}.teg").read_text() for name in FILES}
    top, _, old = PAGE.read_text().partition(MARKER)
    new = "\n".join(line for name in FILES for line in section(name, texts[name]))
    if "--write" in sys.argv:
        PAGE.write_text(top + MARKER + "\n" + new)
        return 0
    bad = list(problems(texts))
    if old.strip() != new.strip():
        bad.append("docs/use/stdlib.md is not what stdlib/*.teg says: run tests/doc/stdlib.py --write")
    print("\n".join(bad) or f"{sum(len(list(items(t))) for t in texts.values())} rows")
    return 1 if bad else 0


sys.exit(main())
