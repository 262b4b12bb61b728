#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the words of the language into the grammars of editors/, from the compiler's own tables.

    tools/dev/editor_words.py            rewrite the grammars
    tools/dev/editor_words.py --check    name the grammars that lack a word or have one too many (exit 1)

The template of a word list is a line with `words:KIND` in the grammar; the list is on the line after it.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DECLARATION = {"kernel", "fn", "import", "const", "let", "var", "scratch", "sym"}
CONSTANT = {"true", "false", "inf", "nan", "None"}
GRAMMARS = ["editors/vscode/syntaxes/tegula.tmLanguage.json", "editors/vim/syntax/tegula.vim",
            "editors/emacs/tegula-mode.el", "editors/pygments/tegula_lexer.py"]
LIST = re.compile(r"(words:(\w+)\b[^\n]*\n)([^\n]*)")


def rows(path, pattern):
    return re.findall(pattern, (ROOT / path).read_text(encoding="utf-8"), re.M)


def words():
    keywords = rows("lang/keywords.def", r'^KEYWORD\(\w+, "(\w+)"\)')
    table = (ROOT / "frontend/builtins/builtins.c").read_text(encoding="utf-8")
    table = table[table.index("builtins[] = {"):table.index("#define EW(")]
    functions = re.findall(r'^ *\{"(\w+)",', table, re.M) + rows("lang/elementwise.def", r'^EW\(\w+, "(\w+)"')
    prelude = rows("stdlib/prelude.teg", r"^fn (\w+)\(")
    return {
        "declaration": sorted(DECLARATION & set(keywords)),
        "constant": sorted(CONSTANT & set(keywords)),
        "control": sorted(set(keywords) - DECLARATION - CONSTANT),
        "type": sorted([*rows("lang/types.def", r'^ELEM\(\w+, "(\w+)"'), "range"]),
        "function": sorted({*functions, *prelude} - {"range"}),
    }


def filled(text, lists):
    def line(match):
        old, found = match[3], lists[match[2]]
        separator = "|" if "\\\\b(" in old else " "
        begin, end = (old.index("\\\\b(") + 4, old.index(")\\\\b")) if separator == "|" else \
            (old.index("[") + 1, old.index("]")) if "[" in old else (re.match(r"syn keyword \w+ ", old).end(), len(old))
        return match[1] + old[:begin] + separator.join(found) + old[end:]

    return LIST.sub(line, text)


def main():
    check, bad, lists = "--check" in sys.argv, 0, words()
    for name in GRAMMARS:
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        if set(kind for _, kind, _ in LIST.findall(old)) != set(lists):
            print(f"{name}: not every list of words has its place")
            bad = 1
            continue
        new = filled(old, lists)
        if new != old and check:
            print(f"{name}: its words are not the compiler's; run tools/dev/editor_words.py")
            bad = 1
        elif new != old:
            path.write_text(new, encoding="utf-8")
    return bad


if __name__ == "__main__":
    sys.exit(main())
