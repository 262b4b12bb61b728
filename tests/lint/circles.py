"""Checks that no circle of files goes through two folders inside a folder.

Read by lint.py. A file uses another one if it names an exported function of that file.
"""
import collections
import pathlib
import re
import subprocess

# Folders inside a folder, from the bottom up: each may use those before it. All may use the folder's own
# headers. Its own sources come last.
ORDER = {
    "runtime": ["base", "gpu", "comm", "launch", "tune"],
}
# These recurse over the language through the whole folder.
RECURSIVE = {"frontend"}
CHECKED = ("ir", "frontend", "passes", "backends", "runtime", "driver")
PASS_ROW = re.compile(r'^PASS\(\w+, "([\w-]+)", (\w+),', re.M)


def folder_of(name):
    return str(pathlib.PurePath(name).parent)


def rank(name):
    """(top folder, position of the file's folder in its order), or None."""
    parts = name.split("/")
    order = ORDER.get(parts[0])
    if not order:
        return None
    if len(parts) == 2:
        return parts[0], len(order)
    return (parts[0], order.index(parts[1])) if parts[1] in order else None


def check_include(name, line, path, say):
    """Whether an include breaks the order, such as runtime/tune/ from runtime/gpu/."""
    own, other = rank(name), rank(path)
    if own and other and own[0] == other[0] and path.count("/") > 1 and other[1] > own[1]:
        say(name, line, f"{folder_of(name)}/ may not include {folder_of(path)}/: {path}")


def code_of(path):
    """The text without comments and strings."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", path.read_text(errors="replace"), flags=re.S)


def functions_named(text):
    """Called names, and names of several words, as tables have them."""
    return set(re.findall(r"\b([A-Za-z_]\w+)\(", text)) | set(re.findall(r"\b[a-z]\w*_\w+", text))


def uses(root, names):
    """file -> {file: names of exported functions}, within each folder of CHECKED."""
    sources = [n for n in names if n.endswith(".c") and n.startswith(tuple(f + "/" for f in CHECKED))]
    out = subprocess.run(["ctags", "--kinds-C=f", "-f", "-", "-L", "-"], cwd=root, input="\n".join(sources),
                         capture_output=True, text=True).stdout
    declared = set()
    for n in names:
        if n.endswith(".h"):
            declared |= functions_named(code_of(root / n))
    owner, statics = {}, collections.defaultdict(set)
    for row in out.splitlines():
        cells = row.split("\t")
        if "file:" in cells[3:]:
            statics[cells[1]].add(cells[0])
        elif cells[0] in declared:
            owner[cells[0]] = cells[1]
    found = {}
    for n in sources:
        found[n] = collections.defaultdict(set)
        for word in (functions_named(code_of(root / n)) & owner.keys()) - statics[n]:
            if owner[word] != n and owner[word].split("/")[0] == n.split("/")[0]:
                found[n][owner[word]].add(word)
    return found


def circles(graph):
    """Strongly connected components of more than one file (Tarjan, without recursion)."""
    index, low, stack, on_stack, count = {}, {}, [], set(), 0
    for start in graph:
        if start in index:
            continue
        work = [(start, iter(graph[start]))]
        index[start] = low[start] = count
        count += 1
        stack.append(start)
        on_stack.add(start)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = count
                    count += 1
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(graph[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    part = stack[at:]
                    del stack[at:]
                    on_stack -= set(part)
                    if len(part) > 1:
                        yield sorted(part)


def check_calls(root, names, say):
    graph = uses(root, names)
    for name, targets in graph.items():
        own = rank(name)
        for other, functions in targets.items():
            theirs = rank(other)
            if own and theirs and own[0] == theirs[0] and theirs[1] > own[1]:
                say(name, 1, f"uses {', '.join(sorted(functions))} of {other}: {folder_of(name)}/ comes before it")
    for files in circles(graph):
        folders = {folder_of(f) for f in files}
        if len(folders) > 1 and not {f.split("/")[0] for f in files} <= RECURSIVE:
            say(files[0], 1, f"a circle of files through {', '.join(sorted(folders))}: {' '.join(files)}")


def check_passes(root, say):
    """Pass x must be pass_x in x.c; a variant such as alias-kept may be in alias.c."""
    table = root / "passes/passes.def"
    if not table.exists():
        return
    sources = {p.stem: p for p in (root / "passes").rglob("*.c")}
    for name, function in PASS_ROW.findall(table.read_text()):
        stem = name.replace("-", "_")
        homes = [s for s in sources if (stem == s or stem.startswith(s + "_"))
                 and re.search(rf"^void {function}\(", sources[s].read_text(), re.M)]
        if function != f"pass_{stem}" or not homes:
            say("passes/passes.def", 1, f"pass {name}: pass_{stem} is to stand in {stem}.c")
