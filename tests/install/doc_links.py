#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every page that an installed page links to is installed.

    tests/install/doc_links.py FOLDER        the folder with README.md and docs/
"""
import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
FENCE = re.compile(r"(?ms)^```.*?^```$")


def missing_links(folder):
    pages = sorted(folder.rglob("*.md"))
    for page in pages:
        for target in LINK.findall(FENCE.sub("", page.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            if not (page.parent / target).exists():
                yield f"{page.relative_to(folder)} links to {target}, which is not installed"
    if len(pages) < 20:
        yield f"{folder} holds {len(pages)} pages"


def main():
    missing = list(missing_links(pathlib.Path(sys.argv[1])))
    print("\n".join(missing) or "all links lead to installed files")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
