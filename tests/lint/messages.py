#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each message of the sources has a test that quotes it, or a line in untested_messages.txt.

    messages.py ROOT            one line a finding; exits 1 when there is one
    messages.py ROOT --write    writes the list anew; only to drop lines from it

A message is the text of a call in CALLS. A test quotes it if the test's text, without the comments of
.c, .h, .py and .sh, has some words of it, three in a row, that at most two messages have. A message without such words is quoted if a text of a
test matches all of it, with something in place of each %d and %s. A text with formats alone, such as
"%s: %s", passes on other messages and is no message. (tests/diag/check.py runs the rows of
lang/diag.def; this covers hints and the messages of programs and of the runtime.) The list shrinks:
a line whose message is tested by now, or is gone, is a finding, too.
"""
import pathlib
import re
import sys

CALLS = ("tg_fail", "cli_error", "cli_warning", "cli_hint", "diag_hint", "aot_fail", "fail_meeting", "refuse_binding")
FOLDERS = ("lang", "frontend", "ir", "passes", "driver", "backends", "runtime", "cache", "tools")
TESTS = {".py", ".c", ".h", ".teg", ".tir", ".sh", ".txt"}
CALL = re.compile(r"\b(?:%s)\(" % "|".join(CALLS))
TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"(?:\s*"((?:[^"\\\n]|\\.)*)")*')
PIECE = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
FORMAT = re.compile(r"%(?:[-+ #0]*[\d.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]|%)")
ROW = 3  # words in a row that tell one message from others
NEAR = 250  # characters of a text around its longest piece
WORDS = re.compile(r"[A-Za-z]{2,}")
# A comment, or as the group `text` a text in quotes, in which no comment begins.
QUOTED = r'''(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')'''
C_COMMENT = re.compile(QUOTED + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
LINE_COMMENT = re.compile(r"(?P<text>\"{3}.*?\"{3}|'{3}.*?'{3}|" + QUOTED[len("(?P<text>"):] +
                          r"|(?:^|(?<=\s))#[^\n]*", re.DOTALL | re.MULTILINE)
COMMENT = {".c": C_COMMENT, ".h": C_COMMENT, ".py": LINE_COMMENT, ".sh": LINE_COMMENT}
LIST = "tests/lint/untested_messages.txt"


def call_end(text, start):
    """The end of the call whose parenthesis opens before `start`; texts may have parentheses."""
    depth, at = 1, start
    while at < len(text) and depth:
        if text[at] == '"':
            at = PIECE.match(text, at).end() if PIECE.match(text, at) else at + 1
            continue
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    return at


def messages_of(text):
    """The texts in a source's calls, with the pieces of each put together."""
    for call in CALL.finditer(text):
        body = text[call.end():call_end(text, call.end())]
        for literal in TEXT.finditer(re.sub(r'"\s*PRI\w+\s*"', "d", body)):
            joined = "".join(PIECE.findall(literal[0])).replace('\\"', '"').replace("\\\\", "\\")
            if len(joined.split()) >= 2 and WORDS.search(FORMAT.sub("", joined)):
                yield joined.replace("\\n", " ")


def word_rows(text):
    """Rows of words of a message, without its %d and %s."""
    rows = set()
    for piece in FORMAT.split(text):
        words = piece.split()
        for i in range(max(1, len(words) - ROW + 1)):
            row = " ".join(words[i:i + ROW]).strip(" ':;,.()")
            if len(row) >= 8:
                rows.add(row)
    return rows


def whole(text):
    """A pattern of the message with values in place of its formats."""
    pieces = [re.escape(" ".join(p.split(" "))) for p in FORMAT.split(text)]
    fills = [r"(?:[-\d.]+|%\w+|\{\{[^\n]{1,60}?\}\})" if f[-1] in "dugf" else r"[^\n\"]{1,80}?"
             for f in FORMAT.findall(text)]
    return re.compile("".join(a + b for a, b in zip(pieces, fills + [""])))


def without_comments(text, suffix):
    """A test's text without the comments of its language; the texts in quotes stay."""
    comment = COMMENT.get(suffix)
    return comment.sub(lambda found: found["text"] or " ", text) if comment else text


def is_quoted(text, counts, tests):
    rows = [row for row in word_rows(text) if counts[row] <= 2]
    if rows:
        return any(row in tests for row in rows)
    anchor, pattern, at = max(FORMAT.split(text), key=len).strip(), whole(text), -1
    while (at := tests.find(anchor, at + 1)) >= 0:
        if pattern.search(tests, max(0, at - NEAR), at + NEAR):
            return True
    return False


def main():
    root = pathlib.Path(sys.argv[1])
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.c")):
            for text in messages_of(path.read_text(encoding="latin-1")):
                found.setdefault(text, str(path.relative_to(root)))
    counts = {}
    for text in found:
        for row in word_rows(text):
            counts[row] = counts.get(row, 0) + 1
    tests = []
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix in TESTS and path.is_file() and path.name != "untested_messages.txt":
            text = without_comments(path.read_text(encoding="latin-1"), path.suffix)
            text = re.sub(r'"\s*\n\s*f?"', "", text)
            tests.append(" ".join(text.replace('\\"', '"').split()))
    tests = "\n".join(tests)
    untested = {text for text in found if not is_quoted(text, counts, tests)}
    listed = root / LIST
    lines = [f"{found[text]}: {text}" for text in sorted(untested, key=lambda t: (found[t], t))]
    if sys.argv[2:] == ["--write"]:
        listed.write_text("".join(line + "\n" for line in lines))
        return 0
    known = listed.read_text().splitlines()
    new = [line for line in lines if line not in known]
    old = [line for line in known if line not in lines]
    for line in new:
        print(f"no test quotes this message: {line}")
    for line in old:
        print(f"{LIST}: this message is tested, or gone: {line}")
    print(f"{len(found)} messages, {len(untested)} without a test, {len(new) + len(old)} findings")
    return 1 if new or old else 0


if __name__ == "__main__":
    sys.exit(main())
