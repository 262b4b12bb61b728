#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the language server answers to each request, and to malformed messages.

    tests/lsp/server.py --tegula build/bin/tegula [TEST...]

In the texts, `<1>` to `<9>` mark positions; they are removed before the text is opened.
"""
import argparse
import inspect
import os
import pathlib
import re
import shutil
import sys
import tempfile
import traceback

from client import Client, Failure

KERNELS = '''import "part.teg";

/// The sum of rows, scaled.
fn scaled(<1>x, by_what) { return <2>x * by_what; }

/// Multiplies.
kernel gemm(a: f32[M, K], b: f32[K, N], c: f32[M, N]) tune BM = 32 | 64 {
    parallel m in M by BM, n in N by 64 {
        var <3>acc: f32<BM, 64> = 0;
        for k in K by 32 { acc += <4>dot(a[m, k], b[k, n], <5>precision = ieee); }
        let <6>twice = <7>scaled(acc, by_what = TWO);
        c[m, n] = <8>max(twice, acc<9>);
    }
}
'''
PART = "/// Two.\nconst TWO = 2;\nfn unused_one(x) { return x; }\n"
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def marked(text):
    """The text without marks, and {mark: (line, character)} in UTF-16."""
    places, out = {}, ""
    for part in re.split(r"(<[1-9]>)", text):
        if re.fullmatch(r"<[1-9]>", part):
            line = out.rpartition("\n")[2]
            places[int(part[1])] = (out.count("\n"), len(line.encode("utf-16-le")) // 2)
        else:
            out += part
    return out, places


def applied(text, edits):
    """The text after edits of a response."""
    lines = text.split("\n")

    def offset(place):
        line = lines[place["line"]].encode("utf-16-le")[:2 * place["character"]].decode("utf-16-le")
        return sum(len(x) + 1 for x in lines[:place["line"]]) + len(line)

    for edit in sorted(edits, key=lambda e: -offset(e["range"]["start"])):
        text = text[:offset(edit["range"]["start"])] + edit["newText"] + text[offset(edit["range"]["end"]):]
    return text


class Session:
    """A server with the two files above; the second is open as well as on disk."""

    def __init__(self, tegula, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "part.teg").write_text(PART, encoding="utf-8")
        self.client = Client([tegula, "lsp"], root=folder)
        self.text, self.at = marked(KERNELS)
        (self.folder / "main.teg").write_text(self.text, encoding="utf-8")
        self.uri = self.client.open(self.folder / "main.teg", self.text)

    def open(self, name, text):
        text, at = marked(text)
        return self.client.open(self.folder / name, text), at, text

    def ask(self, method, mark, **more):
        return self.client.at(method, self.uri, *self.at[mark], **more)


def refused(call, pattern):
    try:
        call()
    except Failure as failure:
        assert re.search(pattern, str(failure)), failure
    else:
        raise AssertionError(f"nothing refused: {pattern}")


@test
def diagnostics(s):
    assert s.client.diagnostics(s.uri) == []
    uri, at, _ = s.open("bad.teg", 'kernel k(x: f32[N]) {\n    let t = "😀"; parallel i in N { x[i] = <1>sqrtt(1)<2>; }\n}\n')
    unused, unknown = sorted(s.client.diagnostics(uri), key=lambda d: d["severity"], reverse=True)
    assert (unknown["code"], unknown["severity"], unknown["source"]) == ("unknown-name", 1, "tegula"), unknown
    # The emoji before it is one character, four bytes and two UTF-16 units.
    begin, end = ({"line": at[i][0], "character": at[i][1]} for i in (1, 2))
    assert unknown["range"] == {"start": begin, "end": dict(end, character=end["character"] - 3)}, unknown
    assert begin["character"] == len('    let t = "xx"; parallel i in N { x[i] = '), begin
    assert "did you mean 'sqrt'" in unknown["message"], unknown
    assert unused["code"] == "unused" and unused["tags"] == [1], unused


@test
def other_types(s):
    """What only another element type of a constraint shows comes after the first messages."""
    uri, _, _ = s.open("types.teg", "kernel k<T: any>(x: T[N]) { parallel i in N { x[i] = sqrt(x[i]); } }\n")
    found = s.client.diagnostics(uri)
    while not found:
        found = s.client.diagnostics(uri)
    assert found[0]["code"] == "type-fails", found
    actions = s.client.of("codeAction", uri, range=found[0]["range"], context={"diagnostics": []})
    assert [a["edit"]["changes"][uri][0]["newText"] for a in actions] == ["f8e4m3 | f8e5m2 | f16 | bf16 | f32 | f64"]


@test
def changes(s):
    """Incremental edits, counted in UTF-16, and texts with all three ends of lines."""
    uri, _, _ = s.open("edit.teg", "// é😀 x\r\nconst A = 1;\n")
    place = {"start": {"line": 0, "character": 5}, "end": {"line": 0, "character": 7}}
    s.client.change(uri, 2, {"range": place, "text": ""})
    assert s.client.diagnostics(uri, 2) == []
    first = {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}
    s.client.change(uri, 3, {"range": first, "text": "// a\nconst B = 2;\rconst C = B;\n"},
                    {"range": {"start": {"line": 99, "character": 9}, "end": {"line": 99, "character": 9}}, "text": "?"})
    message, = s.client.diagnostics(uri, 3)[:1]
    assert message["range"]["start"]["line"] == 4, message
    symbols = s.client.of("documentSymbol", uri)
    assert [(x["name"], x["range"]["start"]["line"]) for x in symbols][:2] == [("B", 1), ("C", 2)], symbols


@test
def imports(s):
    """An open buffer comes before its file, and its users are told."""
    assert s.client.diagnostics(s.uri) == []
    part = s.client.open(s.folder / "part.teg", PART.replace("TWO", "THREE"))
    found = s.client.diagnostics(s.uri)
    assert [d["code"] for d in found] == ["unknown-name"], found
    s.client.notify("textDocument/didClose", {"textDocument": {"uri": part}})
    assert s.client.diagnostics(s.uri) == []
    s.open("broken.teg", "const C = ;\n")
    uri, _, _ = s.open("user.teg", 'import "broken.teg";\nconst D = 1;\n')
    found = s.client.diagnostics(uri)
    assert found[0]["range"]["start"] == {"line": 0, "character": 7} and "broken.teg:1" in found[0]["message"], found


@test
def other_paths(s):
    """A file that imports an open one sees the buffer, by whatever path the editor has opened it."""
    (s.folder / "deep").mkdir()
    (s.folder / "a b").mkdir()
    (s.folder / "link").symlink_to("a b")
    (s.folder / "a b" / "x%.teg").write_text("const X = 1;\n", encoding="utf-8")
    (s.folder / "y.teg").symlink_to("a b/x%.teg")
    root = s.folder.as_uri()
    for n, uri in enumerate((f"{root}/a%20b/x%25.teg", f"{root}/%61%20b/x%25%2Eteg", f"{root}/deep/../a%20b/x%25.teg",
                             f"{root}/link/x%25.teg", f"{root}/y.teg", f"file://localhost{root[7:]}/link/x%25.teg")):
        for k, path in enumerate(("a b/x%.teg", "link/x%.teg", "deep/../y.teg")):
            user, _, _ = s.open(f"user{n}{k}.teg", f'import "{path}";\nconst B = X;\n')
            assert s.client.diagnostics(user) == [], path
            s.client.open(uri, "const X = 1;\nconst Y = 2;\n")
            s.client.change(user, 2, {"text": f'import "{path}";\nconst B = Y;\n'})
            assert s.client.diagnostics(user, 2) == [], (uri, path)
            assert s.client.at("definition", user, 1, 10) == {
                "uri": uri, "range": {"start": {"line": 1, "character": 6}, "end": {"line": 1, "character": 7}}}, uri
            s.client.change(uri, 2, {"text": "const Z = 2;\n"})
            assert [d["code"] for d in s.client.diagnostics(user)] == ["unknown-name"], (uri, path)
            s.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
            s.client.change(user, 3, {"text": f'import "{path}";\nconst B = X;\n'})
            assert s.client.diagnostics(user, 3) == [], (uri, path)
            s.client.notify("textDocument/didClose", {"textDocument": {"uri": user}})


@test
def unsaved(s):
    """A new buffer is found where its file would be, also in a folder of -I, and by a `..` behind a link."""
    far = s.folder / "far"
    (far / "inner").mkdir(parents=True)
    (s.folder / "inner").symlink_to("far/inner")
    (s.folder / "lib").mkdir()
    (s.folder / "lib" / "new.teg").write_text("const OLD = 1;\n", encoding="utf-8")
    client = Client(s.client.process.args + ["-I", "lib"], root=s.folder)
    uri = client.open(s.folder / "user.teg", 'import "new.teg";\nconst A = NEW;\n')
    assert [d["code"] for d in client.diagnostics(uri)] == ["unknown-name"]
    client.open(s.folder / "lib" / "new.teg", "const NEW = 1;\n")
    assert client.diagnostics(uri) == []
    # A file beside comes before the folders of -I.
    beside = client.open(s.folder / "new.teg", "const NEWER = 1;\n")
    assert [d["code"] for d in client.diagnostics(uri)] == ["unknown-name"]
    client.notify("textDocument/didClose", {"textDocument": {"uri": beside}})
    assert client.diagnostics(uri) == []
    assert client.at("definition", uri, 0, 10)["uri"].endswith("/lib/new.teg")
    # `inner/..` is far.
    client.open(far / "up.teg", "const UP = 1;\nconst UP = ;\n")
    uri = client.open(s.folder / "inner" / "user.teg", 'const A = 1;\nimport "../up.teg";\n')
    found = client.diagnostics(uri)
    assert found[0]["range"]["start"] == {"line": 1, "character": 7} and "far/up.teg:2" in found[0]["message"], found
    assert client.close() == 0


@test
def messages_of_far_imports(s):
    """A message about a file that an import imports stands at that import, whatever the path is."""
    (s.folder / "deep").mkdir()
    (s.folder / "deep" / "one.teg").write_text('import "../two.teg";\n', encoding="utf-8")
    (s.folder / "two.teg").write_text("const A = ;\n", encoding="utf-8")
    uri, _, _ = s.open("user.teg", '// first\nimport "part.teg";\nimport "deep/../deep/one.teg";\nconst D = 1;\n')
    found = s.client.diagnostics(uri)
    assert found[0]["range"]["start"] == {"line": 2, "character": 7} and "two.teg:1" in found[0]["message"], found


@test
def workspace_folders(s):
    """Definitions, renames and relative folders of imports work in all folders of the workspace."""
    roots = [s.folder / name for name in ("one", "two", "three")]
    text = 'import "part.teg";\nimport "common.teg";\nconst B = TWO + COMMON;\n'
    for n, root in enumerate(roots):
        (root / "lib").mkdir(parents=True)
        (root / "part.teg").write_text("const TWO = 2;\n", encoding="utf-8")
        (root / "lib" / "common.teg").write_text(f"const COMMON = {n};\n", encoding="utf-8")
        (root / "user.teg").write_text(text, encoding="utf-8")
        (root / "far.teg").write_text('import "../one/part.teg";\nconst C = TWO;\n', encoding="utf-8")
    folders = [{"uri": root.as_uri(), "name": root.name} for root in roots]
    client = Client(s.client.process.args, start=False)
    server = client.request("initialize", {"capabilities": {}, "rootUri": roots[0].as_uri(), "workspaceFolders": folders[:2],
                                           "initializationOptions": {"paths": ["lib"]}})
    assert server["capabilities"]["workspace"]["workspaceFolders"] == {"supported": True, "changeNotifications": True}

    def check(root):
        uri = client.open(root / "user.teg", text)
        assert client.diagnostics(uri) == []
        assert client.at("definition", uri, 2, 11)["uri"] == (root / "part.teg").as_uri()
        for line, column in ((2, 17), (1, 10)):
            assert client.at("definition", uri, line, column)["uri"] == (root / "lib" / "common.teg").as_uri()

    def renamed():
        changes = client.at("rename", part, 0, 7, newName="PAIR")["changes"]
        return {str(pathlib.Path(uri[len("file://"):]).relative_to(s.folder)) for uri in changes}

    check(roots[0])
    check(roots[1])
    part = client.open(roots[0] / "part.teg", "const TWO = 2;\n")
    assert renamed() == {"one/part.teg", "one/user.teg", "one/far.teg", "two/far.teg"}, renamed()
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": folders[2:], "removed": folders[1:2]}})
    check(roots[2])
    assert renamed() == {"one/part.teg", "one/user.teg", "one/far.teg", "three/far.teg"}, renamed()
    for event in (None, 5, {}, {"added": 5, "removed": [5, {}, {"uri": 5}, {"uri": "other:x"}]}):
        client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
    assert "three/far.teg" in renamed()
    client.request("shutdown", None)
    client.notify("exit", None)
    assert client.process.wait() == 0
    client.end()


@test
def paths(s):
    """Folders of -I and of the initialization options."""
    for name in ("one", "two"):
        (s.folder / name).mkdir()
        (s.folder / name / f"{name}.teg").write_text(f"const {name.upper()} = 1;\n", encoding="utf-8")
    command = s.client.process.args + ["-I", str(s.folder / "one")]
    text = 'import "one.teg";\nimport "two.teg";\nconst A = ONE + TWO;\n'
    for options, missing in (({}, ["two.teg"]), ({"paths": [str(s.folder / "two")]}, [])):
        client = Client(command, options=options)
        uri = client.open(s.folder / "paths.teg", text)
        found = [d["message"] for d in client.diagnostics(uri) if d["code"] == "no-import"]
        assert len(found) == len(missing) and all(m in f for m, f in zip(missing, found)), found
        assert client.close() == 0


@test
def hover(s):
    def text(mark):
        answer = s.ask("hover", mark)
        return answer["contents"]["value"] if answer else None

    assert "var acc: f32<BM, 64>" in text(3) and "`f32<32, 64>`" in text(3), text(3)
    assert "let twice: f32<32, 64>" in text(6), text(6)
    assert "fn scaled(x, by_what)" in text(7) and "The sum of rows" in text(7) and "here: `f32<32, 64>`" in text(7)
    assert "dot(a, b, precision = ieee" in text(4) and "matrix product" in text(4), text(4)
    assert "in the call at line 11" in text(1), text(1)
    line = s.text.split("\n").index("/// Multiplies.") + 1
    kernel = s.client.at("hover", s.uri, line, 8)["contents"]["value"]
    assert "tune BM = 32 | 64" in kernel and "Multiplies." in kernel, kernel
    assert "reads `a`, `b`" in kernel and "writes `c`" in kernel and "BM=32" in kernel, kernel
    assert text(9) is None or "acc" in text(9)
    assert s.client.at("hover", s.uri, 1, 0) is None


@test
def hover_of_functions(s):
    """Builtins and functions of the library have a signature and a text, also in a statement with errors."""
    text = 'import "std/softmax.teg";\nfn f(x: f32<8>, add) {\n    let _a = exp(x)\n    return reduce(x, add) + sum(x); }\n' \
        "fn g(x, add) { return sort(scan(x, add)) + ; }\n// exp(x)\n"
    uri, _, _ = s.open("functions.teg", text)
    assert s.client.diagnostics(uri)
    for call, head, words in (("exp", "exp(a)", "e ** a"), ("reduce", "reduce(x, f, axis, order = fixed)", "folds a block"),
                              ("sum", "fn sum(x, axis)", "The sum, in the element of x"),
                              ("sort", "sort(x, axis, descending)", "sorts along an axis"),
                              ("scan", "scan(x, f, axis, reverse, exclusive)", "running folds")):
        line = text[:text.index(call + "(")].count("\n")
        column = text.split("\n")[line].index(call + "(")
        answer = s.client.at("hover", uri, line, column + 1)
        value = answer["contents"]["value"]
        assert value.startswith(f"```tegula\n{head}\n```\n\n{words}"), value
        assert answer["range"] == {"start": {"line": line, "character": column},
                                   "end": {"line": line, "character": column + len(call)}}, answer
    assert s.client.at("hover", uri, 5, 4) is None, "a comment"


@test
def builtins_have_texts(s):
    """No builtin is without a text, and formulas of the text have the operands of the signature."""
    items = s.client.at("completion", s.uri, *s.at[9])["items"]
    builtins = [i for i in items if i.get("detail", "").startswith(i["label"] + "(")]
    assert len(builtins) > 100, len(builtins)
    for item in builtins:
        meaning = item.get("documentation", {}).get("value", "")
        assert len(meaning) > 3, item
        for operand in re.findall(r"(?:[*/+(|-] ?|above |below )([abc])\b", meaning):
            assert re.search(rf"\b{operand}\b", item["detail"][len(item["label"]):]), item


@test
def hover_with_errors(s):
    """A kernel keeps its types while another one is incomplete."""
    text = s.text + "kernel second(x: f32[N]) { parallel i in N { x[i] = y }\n"
    s.client.change(s.uri, 2, {"text": text})
    assert s.client.diagnostics(s.uri, 2)
    assert "let twice: f32<32, 64>" in s.ask("hover", 6)["contents"]["value"]


@test
def definition(s):
    here = s.ask("definition", 2)
    assert here["uri"] == s.uri and here["range"]["start"] == dict(zip(("line", "character"), s.at[1])), here
    library = s.client.at("definition", s.uri, *s.at[4])
    assert library is None, library  # a builtin has no source
    line = s.text[:s.text.index("TWO")].count("\n")
    column = s.text.split("\n")[line].index("TWO")
    part = s.client.at("definition", s.uri, line, column)
    assert part["uri"].endswith("/part.teg") and part["range"]["start"] == {"line": 1, "character": 6}, part
    option = s.client.at("definition", s.uri, line, s.text.split("\n")[line].index("by_what"))
    assert option["range"]["start"]["line"] == s.at[1][0], option
    imported = s.client.at("definition", s.uri, 0, 9)
    assert imported["uri"] == part["uri"], imported
    assert len(s.ask("references", 7, context={"includeDeclaration": True})) == 2
    assert len(s.ask("documentHighlight", 3)) == 4


@test
def library(s):
    """Definitions of the library open as files, which are analysed as a part of it."""
    uri, at, _ = s.open("uses.teg", "kernel k(x: f32[N], y: f32[N]) { parallel i in N by 8 { y[i] = <1>sigmoid(x[i]); } }\n")
    place = s.client.at("definition", uri, *at[1])
    path = pathlib.Path(place["uri"][len("file://"):])
    text = path.read_text(encoding="utf-8")
    assert text.split("\n")[place["range"]["start"]["line"]].startswith("fn sigmoid("), place
    copy = s.client.open(path, text)
    assert s.client.diagnostics(copy) == []
    refused(lambda: s.client.at("rename", uri, *at[1], newName="other"), "library")


@test
def completion(s):
    def labels(mark_uri, mark, **more):
        return {i["label"]: i for i in s.client.at("completion", mark_uri, *mark, **more)["items"]}

    found = labels(s.uri, s.at[9])
    for name in ("acc", "twice", "BM", "M", "a", "scaled", "TWO", "exp", "sum", "dot", "f32", "parallel"):
        assert name in found, name
    assert "k" not in found, "the index of a loop that has ended"
    assert found["scaled"]["detail"] == "fn scaled(x, by_what)" and "sum of rows" in found["scaled"]["documentation"]["value"]
    assert found["acc"]["detail"] == "f32<BM, 64>" and found["twice"]["detail"] == "f32<32, 64>", found["twice"]
    text = "\n".join(("kernel k(x: f32[N]) {", "parallel i in N by 8 {", "let one = x[i];", "let two = one + o<1>",
                      "}", "}", "import \"std/so<2>", "kernel q(x: <3>f32[N]) schedule <4>plan = direct { }"))
    uri, at, _ = s.open("part2.teg", text + "\n")
    assert {"one", "exp"} <= set(labels(uri, at[1]))
    assert {"std/softmax.teg", "main.teg"} <= set(labels(uri, at[2]))
    assert "f32" in labels(uri, at[3]) and "let" not in labels(uri, at[3])
    assert {"plan", "split"} <= set(labels(uri, at[4]))
    uri, at, _ = s.open("member.teg", "kernel k(x: f32[N]) { parallel i in N by 8 { let s = i.<1> } }\n")
    assert set(labels(uri, at[1])) == {"start", "end", "size", "tile"}
    uri, at, _ = s.open("comment.teg", "// wor<1>d\n")
    assert labels(uri, at[1]) == {}


@test
def completion_of_paths(s):
    """The edit of a path replaces the whole string, so blanks, slashes and quotes come out as they must."""
    (s.folder / "my files" / "in ner").mkdir(parents=True)
    (s.folder / "lib").mkdir()
    names = ["two words.teg", "my files/a b.teg", "my files/in ner/c.teg", 'quo"te\\.teg', "lib/of lib.teg", "é😀 x.teg"]
    for name in names:
        (s.folder / name).write_text("const Q = 1;\n", encoding="utf-8")
    client = Client(s.client.process.args + ["-I", "lib"], root=s.folder)
    client.open(s.folder / "not saved.teg", "const Q = 1;\n")

    def inserted(typed, label):
        """The text after the completion `label` of `import "typed`, and its diagnostics."""
        text, at = marked(typed)
        uri = client.open(s.folder / "user.teg", text)
        item, = [i for i in client.at("completion", uri, *at[1])["items"] if i["label"] == label]
        assert item["filterText"] == item["textEdit"]["newText"], item
        new = applied(text, [item["textEdit"]])
        client.change(uri, 2, {"text": new + ("" if '";' in new else '";\n') + "const B = Q;\n"})
        return new, [d["code"] for d in client.diagnostics(uri, 2)]

    for typed, label, wanted in (
            ('import "two wo<1>', "two words.teg", 'import "two words.teg'),
            ('import "two wo<1>rds of.teg";\n', "two words.teg", 'import "two words.teg";\n'),
            ('import "<1>";\n', "my files/", 'import "my files/";\n'),
            ('import "my files/a<1>";\n', "my files/a b.teg", 'import "my files/a b.teg";\n'),
            ('import "my files/in ner/<1>";\n', "my files/in ner/c.teg", 'import "my files/in ner/c.teg";\n'),
            ('import "q<1>";\n', 'quo"te\\.teg', 'import "quo\\"te\\\\.teg";\n'),
            ('import "quo\\"te<1>";\n', 'quo"te\\.teg', 'import "quo\\"te\\\\.teg";\n'),
            ('import "é😀 <1>";\n', "é😀 x.teg", 'import "é😀 x.teg";\n'),
            ('import "of<1>";\n', "of lib.teg", 'import "of lib.teg";\n'),
            ('import "no<1>";\n', "not saved.teg", 'import "not saved.teg";\n'),
            (f'import "{s.folder}/two <1>";\n', f"{s.folder}/two words.teg", f'import "{s.folder}/two words.teg";\n'),
            ('import "std/soft<1>\nimport "part.teg";\n', "std/softmax.teg", 'import "std/softmax.teg\nimport "part.teg";\n')):
        new, codes = inserted(typed, label)
        assert new == wanted, (typed, new)
        assert not codes or label.endswith("/") or "std" in label, (typed, codes)
    assert client.close() == 0


@test
def signature(s):
    def active(mark):
        answer = s.ask("signatureHelp", mark)
        return answer["signatures"][0]["label"], answer["activeParameter"]

    assert active(5) == ("dot(a, b, precision = ieee|tf32|tf32x3|fast)", 2)
    assert active(9) == ("max(a, b, axis)", 1)
    uri, at, _ = s.open("call.teg", s.text + "fn f(a) { return scaled(a, by_what = <1>")
    answer = s.client.at("signatureHelp", uri, *at[1])
    assert answer["activeParameter"] == 1 and answer["signatures"][0]["label"] == "scaled(x, by_what)", answer


@test
def rename(s):
    edits = s.ask("rename", 2, newName="value")["changes"]
    assert list(edits) == [s.uri] and len(edits[s.uri]) == 2
    renamed = applied(s.text, edits[s.uri])
    assert "fn scaled(value, by_what) { return value * by_what; }" in renamed, renamed
    line, column = s.at[1][0], s.text.split("\n")[s.at[1][0]].index("by_what")
    edits = s.client.at("rename", s.uri, line, column, newName="factor")["changes"][s.uri]
    assert "scaled(acc, factor = TWO)" in applied(s.text, edits), edits
    for name, why in (("let", "reserved"), ("2x", "not a name"), ("acc", "hides"), ("m", "hides"), ("", "not a name")):
        refused(lambda name=name: s.ask("rename", 6, newName=name), why)
    refused(lambda: s.ask("rename", 4, newName="product"), "language")
    refused(lambda: s.ask("rename", 7, newName="gemm"), "defined twice")
    # A fn of this name would capture the builtin of the same file.
    refused(lambda: s.ask("rename", 7, newName="dot"), "something else|change its meaning|expected|line")
    assert s.ask("prepareRename", 6)["placeholder"] == "twice"


@test
def rename_of_dims(s):
    """Each place of a dim has one edit, also where `..R` defines it."""
    text = "kernel k<T: float>(x: T[..<1>R, <2>N], y: T[..<3>R, N]) {\n" \
        "    parallel r in <4>R { for n in N by 8 { y[r, n] = x[r, n]; } }\n}\n"
    uri, at, text = s.open("dims.teg", text)
    assert s.client.diagnostics(uri) == []
    for mark, old, count in ((1, "R", 3), (3, "R", 3), (4, "R", 3), (2, "N", 3)):
        found = s.client.at("references", uri, *at[mark], context={"includeDeclaration": True})
        assert len({str(f["range"]) for f in found}) == len(found) == count, (mark, found)
        edits = s.client.at("rename", uri, *at[mark], newName="longer")["changes"][uri]
        assert applied(text, edits) == re.sub(rf"\b{old}\b", "longer", text), edits


@test
def rename_in_importers(s):
    """A definition is renamed in the files of the workspace that import it, open or not."""
    part = s.client.open(s.folder / "part.teg", PART)
    (s.folder / "deep").mkdir()
    (s.folder / "deep" / "far.teg").write_text('import "../part.teg";\nconst FOUR = TWO * 2;\n', encoding="utf-8")
    changes = s.client.at("rename", part, 1, 7, newName="PAIR")["changes"]
    assert {os.path.basename(uri): len(edits) for uri, edits in changes.items()} == \
        {"part.teg": 1, "main.teg": 1, "far.teg": 1}, changes
    beside = s.folder.with_name(s.folder.name + "-beside")  # not in the workspace, but open
    beside.mkdir()
    try:
        s.client.open(beside / "near.teg", f'import "../{s.folder.name}/part.teg";\nconst SIX = TWO * 3;\n')
        changes = s.client.at("rename", part, 1, 7, newName="PAIR")["changes"]
    finally:
        shutil.rmtree(beside)
    assert "near.teg" in {os.path.basename(uri) for uri in changes}, changes
    (s.folder / "deep" / "clash.teg").write_text('import "../part.teg";\nconst PAIR = TWO;\n', encoding="utf-8")
    refused(lambda: s.client.at("rename", part, 1, 7, newName="PAIR"), "clash.teg.*defined twice")


@test
def code_actions(s):
    cases = (  # text, the text after the first correction
        ("kernel k(x: f32[N]) { parallel i in N { x[i] = sqrtt(1); } }\n", "sqrt(1)"),
        ("kernel k(x: f32[N]) {\n    parallel i in N { x[i] = 1 }\n    }\n", None),
        ("kernel k(x: f32[N]) {\n    parallel i in N {\n        let a = 1\n        x[i] = a;\n    }\n}\n", "let a = 1;"),
        ("kernel k(x: f32[N], y: i32[N]) { parallel i in N by 8 { y[i] = x[i]; } }\n", "y[i] = x[i] as i32;"),
        ("kernel k(x: f32[N], y: i32[N]) { parallel i in N by 8 { y[i] = x[i] + 1; } }\n", "y[i] = (x[i] + 1) as i32;"),
        ("kernel k(x: f32[N]) { parallel i in N { let a = 1; a = 2; x[i] = a; } }\n", "var a = 1;"),
        ("kernel k(x: f32[N]) { parallel i in N { x[i] = 2.0f; } }\n", "x[i] = 2.0;"),
        ('import "std/sofmax.teg";\n', 'import "std/softmax.teg";'),
        ("kernel k(x: f32[N], y: f32[]) { parallel { let n = cover(N); y[] = max(x[n]); } }\n", "max(x[n, pad = -inf])"),
        ("kernel k(x: f32[M, N], y: f32[N, M]) { parallel m in M by 8, n in N by 8 { y[n, m] = x[m, n]; } }\n", None),
        ("kernel k(x: f32[N]) { parallel i in N { let un = 1; x[i] = 2; } }\n", "let _un = 1;"),
        ("kernal k(x: f32[N]) { }\n", "kernel k("),
    )
    for n, (text, wanted) in enumerate(cases):
        uri, _, _ = s.open(f"fix{n}.teg", text)
        found = s.client.diagnostics(uri)
        assert found, text
        everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        actions = s.client.of("codeAction", uri, range=everywhere, context={"diagnostics": []})
        if wanted:
            texts = [applied(text, a["edit"]["changes"][uri]) for a in actions]
            assert any(wanted in t for t in texts), (wanted, texts)
        assert all(a["kind"] == "quickfix" and a["title"] for a in actions)


@test
def formatting(s):
    odd = "kernel k(x:f32[N]){parallel i in N{x[i]=1;}}\n// last\n"
    uri, _, _ = s.open("odd.teg", odd)
    edits = s.client.of("formatting", uri, options={"tabSize": 4, "insertSpaces": True})
    assert applied(odd, edits) == "kernel k(x: f32[N]) { parallel i in N { x[i] = 1; } }\n// last\n", edits
    assert s.client.of("formatting", s.uri, options={}) == []
    uri, _, _ = s.open("broken.teg", "kernel {")
    assert s.client.of("formatting", uri, options={}) is None


@test
def hints(s):
    everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
    found = {(h["position"]["line"], h["label"]) for h in s.client.of("inlayHint", s.uri, range=everywhere)}
    assert (s.at[6][0], ": f32<32, 64>") in found and (s.at[4][0], ": range<32>") in found, found
    assert not any(line == s.at[3][0] for line, _ in found), "a written type"
    assert s.client.of("inlayHint", s.uri, range={"start": {"line": 0, "character": 0},
                                                  "end": {"line": 1, "character": 0}}) == []


@test
def tokens(s):
    legend = s.client.capabilities["semanticTokensProvider"]["legend"]["tokenTypes"]
    data, line, column, found = s.client.of("semanticTokens/full", s.uri)["data"], 0, 0, {}
    for i in range(0, len(data), 5):
        line, column = line + data[i], data[i + 1] + (0 if data[i] else column)
        found[s.text.split("\n")[line][column:column + data[i + 2]]] = legend[data[i + 3]]
    for name, kind in (("x", "parameter"), ("acc", "variable"), ("scaled", "function"), ("dot", "function"),
                       ("f32", "type"), ("precision", "property")):
        assert found.get(name) == kind, (name, found.get(name))


@test
def malformed(s):
    """Each of these gets an error with a code, and the server goes on."""
    c = s.client
    for body, code in ((b"{", -32700), (b"", -32700), (b"[]", -32600), (b"17", -32600), (b"{}", -32600),
                       (b'{"jsonrpc":"2.0","id":{},"method":"x"}', -32600), (b"\xff\xfe", -32700),
                       (b"[" * 100000, -32700), (b'{"id": 1e999}', -32700),
                       (b'{"jsonrpc":"2.0","id":5,"method":"no/such"}', -32601),
                       (b'{"jsonrpc":"2.0","id":5,"method":"textDocument/hover"}', -32602),
                       (b'{"jsonrpc":"2.0","id":5,"method":"textDocument/hover","params":[1]}', -32602)):
        c.send_bytes(body)
        assert c.read_error()["code"] == code, body[:40]
    c.send_bytes(b"", b"Content-Type: x\r\n\r\n")
    assert c.read_error()["code"] == -32700
    c.send_bytes(b"", b"Content-Length: -5\r\n\r\n")
    assert c.read_error()["code"] == -32700
    c.send_bytes(b" " * ((64 << 20) + 1))
    assert c.read_error()["code"] == -32600
    for params in ({}, {"textDocument": 5}, {"textDocument": {"uri": 5}}, {"textDocument": {"uri": s.uri}, "position": []},
                   {"textDocument": {"uri": s.uri}, "position": {"line": "x"}}):
        refused(lambda params=params: c.request("textDocument/hover", params), "open|position")
    for line, character in ((-1, -1), (1 << 40, 1 << 40), (3, 1 << 62), (0, -(1 << 62))):
        c.at("hover", s.uri, line, character)
        c.at("completion", s.uri, line, character)
    for params in ({}, {"textDocument": {}}, {"textDocument": {"uri": s.uri}, "contentChanges": [5, {}, {"text": 5}, {
            "range": {"start": {"line": 5, "character": 0}, "end": {"line": 1, "character": 0}}, "text": ""}]}):
        c.notify("textDocument/didChange", params)
        c.notify("textDocument/didOpen", params)
    uri, _, _ = s.open("nul.teg", "const A = 1;\0const B = 2;\n")
    assert c.diagnostics(uri)[0]["code"] == "not-text"
    assert "twice" in s.ask("hover", 6)["contents"]["value"]


@test
def lifecycle(s):
    c = Client(s.client.process.args, start=False)
    try:
        c.request("textDocument/hover", {})
        raise AssertionError("answered before initialize")
    except Failure as failure:
        assert failure.code == -32002
    c.request("initialize", {"capabilities": {}})
    refused(lambda: c.request("initialize", {}), "already")
    c.request("shutdown", None)
    refused(lambda: c.request("textDocument/hover", {}), "shut down")
    c.notify("exit", None)
    assert c.process.wait() == 0
    c.end()
    c = Client(s.client.process.args)
    c.process.stdin.close()  # the editor is gone
    assert c.process.wait() == 1
    c.process.stdout.close()


def cache_fault(home):
    """The folders of copies are private to the user, whatever the umask: otherwise the cache is refused."""
    folders = [os.path.join(at, name) for at, names, _ in os.walk(home) for name in names]
    if not folders:
        return "no library file was copied"
    open_ones = [f for f in folders if os.stat(f).st_mode & 0o777 != 0o700]
    return f"others can use {open_ones}" if open_ones else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tegula", required=True)
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args()
    bad = 0
    os.umask(0o002)
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(XDG_CACHE_HOME=home, TG_CACHE=home + "/cache")
        for function in TESTS:
            if args.tests and function.__name__ not in args.tests:
                continue
            with tempfile.TemporaryDirectory() as folder:
                session = Session(os.path.abspath(args.tegula), os.path.realpath(folder))
                try:
                    function(session)
                    code = session.client.close()
                    assert code == 0, f"exit code {code}"
                except Exception:
                    traceback.print_exc()
                    print(f"FAILED {function.__name__}: {inspect.getdoc(function) or ''}")
                    session.client.end()
                    bad += 1
        if not args.tests and (fault := cache_fault(home)):
            print(f"FAILED: {fault}")
            bad += 1
    print(f"{len(TESTS)} tests, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
