#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the pictures of docs/use/gallery.md by the commands on that page.

    tests/doc/pictures.py --tegula build/bin/tegula            fails if a picture differs by more than 1
    tests/doc/pictures.py --tegula build/bin/tegula --write    rewrites docs/pictures/

A block `picture` has commands, and a backslash continues a line; a block `teg NAME.teg` is a file for them.
"""
import argparse
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, PICTURES = ROOT / "docs/use/gallery.md", ROOT / "docs/pictures"
BLOCK = re.compile(r"^```(teg|picture)[ \t]*(\S*)\n(.*?)^```", re.M | re.S)
COMPARE = """kernel compare(a: u8[..N], b: u8[..N], limit: i32) tune B = 4096 {
    parallel n in N by B { assert(all(abs(a[n] as i32 - b[n] as i32) <= limit), "a pixel differs"); }
}
"""


def run(tegula, words, folder):
    """The text of what went wrong, or None."""
    r = subprocess.run([tegula, *words], cwd=folder, capture_output=True, text=True, timeout=300)
    return f"{shlex.join(words)}\n{r.stderr}" if r.returncode else None


def made(tegula, folder):
    """Runs the page's commands in the folder. Yields what went wrong."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    for name in ("photo.png", "edges.teg"):
        shutil.copy(ROOT / "examples" / name, folder)
    for kind, name, text in blocks:
        if kind == "teg":
            (folder / name).write_text(text, encoding="utf-8")
    for kind, _, text in blocks:
        for line in text.replace("\\\n", " ").splitlines() if kind == "picture" else ():
            problem = run(tegula, shlex.split(line)[1:], folder)
            if problem:
                yield problem


def differences(tegula, folder):
    (folder / "compare.teg").write_text(COMPARE, encoding="utf-8")
    names = {p.name for p in folder.glob("*.png")} - {"photo.png"}
    if names != {p.name for p in PICTURES.glob("*.png")}:
        yield f"docs/pictures/ does not have the pictures of {PAGE.name}: {sorted(names)}"
        return
    for name in sorted(names):
        problem = run(tegula, ["run", "compare.teg", "--arg", f"a=@{name}", "--arg", f"b=@{PICTURES / name}",
                               "--arg", "limit=1", "--check"], folder)
        if problem:
            yield f"docs/pictures/{name} is not what the page's commands make: {problem}"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tegula", required=True)
    ap.add_argument("--write", action="store_true")
    o = ap.parse_args()
    tegula = str(pathlib.Path(o.tegula).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        problems = list(made(tegula, folder))
        if o.write and not problems:
            for path in folder.glob("*.png"):
                if path.name != "photo.png":
                    shutil.copy(path, PICTURES)
        problems += [] if problems else differences(tegula, folder)
    print("\n".join(problems) or "the pictures are the page's")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
