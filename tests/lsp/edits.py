#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random edits and requests: the server answers all of them, and its memory stays flat.

    tests/lsp/edits.py --tegula build/bin/tegula [--edits N] [--seed S] [--seconds S]

An edit inserts, deletes, or repeats a piece of a kernel of the library or of the examples, within tokens and across
them. Some are undone, so that correct texts are analysed as often as broken ones. Every fifth edit is followed by a
request at a random position. Prints the seed, and the server's memory after a tenth of the edits and at the end.
"""
import argparse
import pathlib
import random
import sys
import time

from client import Client, Failure

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECES = ["{", "}", "(", ")", "[", "]", ";", ",", "..", "/*", "*/", "//", '"', "\\", "<", ">", " by 8 ", " as T", "😀", "é",
          "\r", "\0", "\n", "1e999", "0x", "99999999999999999999",
          "let ", "var ", "for k in K by 32 { ", "parallel ", "sym ", "kernel ",
          "fn f(x) { return f(x); }\n", 'import "std/matmul.teg";\n', "x[i, pad = 0]", "None", ":", "::", " : f32", "?", "@",
          " tune B = 1 | 2 ", " given N = 8 ", "-", "!", "T", "f32<1000000, 1000000>", "dot(", "reduce(x, add)", "_" * 300]
POSITIONED = ["hover", "definition", "completion", "signatureHelp", "prepareRename", "documentHighlight", "rename"]
WHOLE = ["documentSymbol", "semanticTokens/full", "formatting", "inlayHint", "codeAction"]
MAX_LINES = 120


def sources():
    """The kernels of the library and of the examples, one after another."""
    texts = []
    for path in [*sorted(ROOT.glob("stdlib/*.teg")), *sorted(ROOT.glob("examples/**/*.teg"))]:
        for part in path.read_text(encoding="utf-8").split("\n\n"):
            if 2 < part.count("\n") < MAX_LINES / 3:
                texts.append(part + "\n")
    return texts


class Text:
    """The text of the document as the server has it."""

    def __init__(self, text):
        self.text, self.before = text, text

    def place(self, offset):
        line = self.text[:offset].replace("\r\n", "\n").replace("\r", "\n").rpartition("\n")
        return {"line": line[0].count("\n") + bool(line[1]), "character": len(line[2].encode("utf-16-le")) // 2}

    def edit(self, rng, parts):
        """The changes of a random edit. A fresh text replaces one that is too long, or undoes the last edits."""
        kind = rng.random()
        if kind < 0.05 or self.text.count("\n") > MAX_LINES:
            self.text = self.before = "".join(rng.sample(parts, 2))
            return [{"text": self.text}]
        if kind < 0.25:
            self.text = self.before
            return [{"text": self.text}]
        begin = rng.randrange(len(self.text) + 1)
        end = min(len(self.text), begin + rng.choice([0, 0, 0, 1, 1, 3, 20]))
        new = rng.choice(PIECES) if rng.random() < 0.5 else rng.choice("abxyzTMN012 +*()[];{}")
        if rng.random() < 0.1:
            copied = rng.randrange(len(self.text) + 1)
            new = self.text[copied:copied + 30]
        if "\r" in self.text + new:  # a change between \r and \n has no position of its own
            self.text = self.text[:begin] + new + self.text[end:]
            return [{"text": self.text}]
        change = {"range": {"start": self.place(begin), "end": self.place(end)}, "text": new}
        self.text = self.text[:begin] + new + self.text[end:]
        return [change]


def request(client, uri, text, rng):
    offset = rng.randrange(len(text.text) + 1)
    everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 9999, "character": 0}}
    try:
        if rng.random() < 0.7:
            client.at(rng.choice(POSITIONED), uri, **text.place(offset), newName=rng.choice(["x", "fresh", "let", "é"]))
        else:
            client.of(rng.choice(WHOLE), uri, range=everywhere, options={}, context={"diagnostics": []})
    except Failure as failure:
        if "out of memory" in str(failure) and "bug" in str(failure):
            raise


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tegula", required=True)
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    rng, parts, start = random.Random(args.seed), sources(), time.monotonic()
    command = args.tegula.split() if " " in args.tegula else [args.tegula, "lsp"]
    client = Client(command, limit_s=1e6)
    text = Text("".join(rng.sample(parts, 2)))
    uri, version, early = client.open("/nowhere/edits.teg", text.text), 1, 0
    while version < args.edits and time.monotonic() - start < args.seconds:
        version += 1
        client.change(uri, version, *text.edit(rng, parts))
        if version % 5 == 0:
            request(client, uri, text, rng)
        if version % 10 == 0:
            found = client.diagnostics(uri, version)
            assert not any(d["code"] == "internal" for d in found), found
        client.notes = client.notes[-1:]
        if version == max(10, args.edits // 10):
            early = client.memory_kib()
    hover = client.of("documentSymbol", uri)
    assert isinstance(hover, list)
    print(f"{version} edits in {time.monotonic() - start:.0f} s; memory {early} KiB after a tenth, {client.memory_kib()} KiB "
          "at the end")
    code = client.close()
    if code:
        print(f"exit code {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
