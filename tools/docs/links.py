#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds dead links and anchors.

    tools/docs/links.py ROOT           in README.md, CHANGELOG.md, docs/ and the other pages of the sources
    tools/docs/links.py --site FOLDER  in the pages of a built site

Links to other hosts are not followed. Exits with 1 if a link is dead.
"""
import html.parser
import os
import pathlib
import re
import sys
import urllib.parse

FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[^\n]*$", re.M | re.S)
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*$", re.M)
NAMED = re.compile(r"""<[^>]*\s(?:id|name)=["']([^"']+)["']""")
HIDDEN = {"build", "out"}


def blank(match):
    """Spaces in place of the match; lines stay."""
    return re.sub(r"[^\n]", " ", match[0])


def slug(heading):
    """The anchor of a heading, as GitHub and the site make it."""
    text = re.sub(r"!?\[((?:[^\]\[]|\[[^\]]*\])*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"</?\w[^>]*>", "", text.replace("`", "\0").replace("*", "")).replace("\0", "")
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def page_anchors(text):
    found, seen = set(NAMED.findall(text)), {}
    for heading in HEADING.findall(FENCE.sub(blank, text)):
        name = slug(heading)
        seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
    return found


def page_links(text):
    """(line, target) of each link of a page of Markdown."""
    plain = CODE.sub(blank, FENCE.sub(blank, text))
    for m in LINK.finditer(plain):
        yield plain.count("\n", 0, m.start()) + 1, m[1]


class Html(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {v for k, v in attrs if k == "id" or (k == "name" and tag == "a")} - {None}
        for name in ("href", "src"):
            if values.get(name):
                self.links.append((self.getpos()[0], values[name]))


def pages_of_sources(root):
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if not any(p.startswith((".", "build")) or p in HIDDEN for p in parts[:-1]):
            text = path.read_text(encoding="utf-8")
            yield path, page_anchors(text), list(page_links(text))


def pages_of_site(folder):
    for path in sorted(folder.rglob("*.html")):
        page = Html(path.read_text(encoding="utf-8"))
        yield path, page.anchors, page.links


def problem(path, target, anchors, root):
    """The text of what is wrong with a link of the page `path`, or None."""
    parts = urllib.parse.urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    to = path
    if parts.path:
        name = urllib.parse.unquote(parts.path)
        base, name = (root, name.lstrip("/")) if name.startswith("/") else (path.parent, name)
        to = pathlib.Path(os.path.normpath(base / name))
        if not to.exists():
            return f"no file {parts.path}"
    anchor = urllib.parse.unquote(parts.fragment)
    if anchor and to in anchors and anchor not in anchors[to]:
        return f"{parts.path or path.name} has no anchor #{anchor}"
    return None


def main():
    site = sys.argv[1:2] == ["--site"]
    root = pathlib.Path(sys.argv[-1]).resolve()
    pages = list((pages_of_site if site else pages_of_sources)(root))
    anchors = {path: found for path, found, _ in pages}
    links = bad = 0
    for path, _, targets in pages:
        for line, target in targets:
            links += 1
            text = problem(path, target, anchors, root)
            if text:
                bad += 1
                print(f"{path.relative_to(root)}:{line}: {text}")
    print(f"{len(pages)} pages, {links} links, {bad} dead")
    return 1 if bad or not links else 0


if __name__ == "__main__":
    sys.exit(main())
