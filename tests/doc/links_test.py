#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the links and anchors of all pages, that the site lists each page, and that the checker finds faults."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {
    "good.md": "# A `b_c` & d\n\n## Twice\n\n## Twice\n\n[a](#a-b_c--d) [b](#twice-1) [c](sub/page.md#on-x)\n"
               "`[d](none.md)`\n```\n[e](none.md)\n```\n",
    "sub/page.md": "# On *x*\n\n[a](../good.md#twice)\n[b](../none.md)\n[c](../good.md#thrice) [d](#)\n",
}
FAULTS = ["sub/page.md:4: no file ../none.md", "sub/page.md:5: ../good.md has no anchor #thrice",
          "2 pages, 7 links, 2 dead"]
SITE = {
    "index.html": '<h1 id="top">x</h1><a href="a/b.html#here">1</a><a href="/a/b.html">2</a><img src="no.png">',
    "a/b.html": '<p id="here"><a href="../index.html#top">3</a><a href="../index.html#no">4</a></p>',
}
SITE_FAULTS = ["a/b.html:1: ../index.html has no anchor #no", "index.html:1: no file no.png",
               "2 pages, 5 links, 2 dead"]


def check(*arguments):
    r = subprocess.run([sys.executable, ROOT / "tools/docs/links.py", *arguments], capture_output=True, text=True)
    return r.returncode, r.stdout.splitlines() + r.stderr.splitlines()


def faults_of(pages, *options):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in pages.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return check(*options, folder)


def main():
    bad = []
    for pages, options, wanted in ((PAGES, (), FAULTS), (SITE, ("--site",), SITE_FAULTS)):
        found = faults_of(pages, *options)
        if found != (1, wanted):
            bad.append(f"the checker says {found}, not {wanted}")
    status, lines = check(ROOT)
    bad += lines if status else []
    nav = (ROOT / "tools/docs/mkdocs.yml").read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        if f": {name}\n" not in nav:
            bad.append(f"tools/docs/mkdocs.yml does not list {name}")
    print("\n".join(bad) or lines[-1])
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
