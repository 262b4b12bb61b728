#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies the pages of the site into a folder, in the layout of the repository.

    tools/docs/stage.py ROOT FOLDER

The site has README.md, all of docs/, and each file of the repository that one of its pages links to. A
source file becomes a page that shows it. First words of fences are turned into names of lexers.
"""
import os
import pathlib
import re
import shutil
import sys

import links

PICTURES = {".png", ".svg"}
FENCE = re.compile(r"^```(\S*)[ \t]*([^\n]*)$", re.M)
LEXERS = {"": "text", "emit": "text", "sh": "bash", "picture": "bash", "toml": "toml"}


def fence(match):
    """The opening line of a fence with the name of a lexer and a title."""
    kind, rest = match[1], match[2].strip()
    lexer = "teg" if kind.startswith("teg") else LEXERS.get(kind, kind)
    title = {"teg-error": f"the compiler refuses it: {rest}", "teg-warning": f"the compiler warns: {rest}",
             "emit": f"tegula emit {rest}"}.get(kind, rest)
    return f"```{lexer}" + (' title="' + title.replace('"', "'") + '"' if title else "")


def fences(text):
    """Only opening lines change: a fence closes at the next line of backticks alone."""
    out, inside = [], False
    for line in text.split("\n"):
        if line.startswith("```"):
            line = line if inside else FENCE.sub(fence, line)
            inside = not inside
        out.append(line)
    return "\n".join(out)


def cells(text):
    """GitHub wants `\\|` for a bar in a cell, MkDocs a plain one inside code."""
    def row(m):
        return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), m[0])

    return re.sub(r"^\|.*$", row, text, flags=re.M)


def is_page(path):
    return path.suffix == ".md"


def source_page(path, root):
    lexer = "teg" if path.suffix == ".teg" else path.suffix.lstrip(".") or "text"
    return f"# {path.relative_to(root)}\n\n````{lexer}\n{path.read_text(encoding='utf-8')}````\n"


def targets(path, text):
    for _, target in links.page_links(text):
        if not re.match(r"[a-z]+:|#", target):
            yield pathlib.Path(os.path.normpath(path.parent / target.partition("#")[0]))


def renamed(path, text):
    """Links to source files are links to their pages."""
    def link(m):
        to = path.parent / m[2].partition("#")[0]
        is_source = not re.match(r"[a-z]+:|#", m[2]) and not is_page(to) and to.is_file() and \
            to.suffix not in PICTURES
        return m[1] + m[2] + (".md" if is_source else "") + m[3]

    return re.sub(r"(\]\()([^)\s]+)(\))", link, text)


def main():
    root, out = (pathlib.Path(os.path.abspath(a)) for a in sys.argv[1:3])
    shutil.rmtree(out, ignore_errors=True)
    todo = [root / "README.md", *sorted(p for p in (root / "docs").rglob("*") if p.is_file())]
    done = set()
    while todo:
        path = todo.pop()
        if path in done:
            continue
        done.add(path)
        to = out / path.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix in PICTURES:
            shutil.copy(path, to)
        elif is_page(path):
            text = path.read_text(encoding="utf-8")
            todo += [to for to in targets(path, text) if to.is_file()]
            to.write_text(cells(fences(renamed(path, text))), encoding="utf-8")
        else:
            to.with_name(to.name + ".md").write_text(source_page(path, root), encoding="utf-8")
    shutil.copy(root / "tools/docs/site.css", out / "site.css")


if __name__ == "__main__":
    main()
