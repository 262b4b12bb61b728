"""House rules that a machine can check: include arrows, sizes, headers, leftovers, pages.

Usage: lint.py ROOT [--stats]. Prints one line a finding, exits 1 when there is one. Function
lengths need universal-ctags; without it they are left out, with a line that says so.
"""
import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys

import circles

# folder -> the folders it may include; the same arrows as in CMakeLists.txt.
ARROWS = {
    "lang": {"lang"},
    "ir": {"ir", "lang"},
    "frontend": {"frontend", "ir", "lang", "stdlib"},
    "passes": {"passes", "ir", "lang"},
    "backends": {"backends", "passes", "ir", "lang", "runtime"},
    "runtime": {"runtime", "tegula"},
    "cache": {"cache"},
    "driver": {"driver", "frontend", "backends", "passes", "ir", "lang", "runtime", "stdlib", "cache"},
    "examples": {"runtime"},
}
CODE = {".c", ".h", ".def", ".l", ".y"}
MAX_FILE, MAX_FUNCTION = 800, 100
# Tables and the one-line references of the run tests may be wider.
MAX_WIDTH = {".def": 10000, ".py": 130, ".teg": 130}
MEDIAN_FUNCTION, P95_FUNCTION = 15, 60
LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK|not implemented|unimplemented)\b")
# In a program with raised privileges the environment belongs to the user; secure_getenv returns nothing
# there.
GETENV = re.compile(r"(?<!secure_)\bgetenv\s*\(")
SHIPPED = {*ARROWS, "tools"} - {"examples"}
# Pages of docs that a file names. tools/docs/links.py follows the links of pages.
PAGE_PATH = re.compile(r"(?<![\w/.-])(?:docs|bench)/[\w./-]*\w\.(?:md|png)\b")
# Source files that comments and pages name: their paths, or the last parts of them.
FILE_NAME = re.compile(r"(?<![\w/.$}%<>\"+-])((?:[a-z_0-9]+/)+[a-z0-9][a-z_0-9]*\*?\.(?:py|sh|cmake)"
                       r"|(?:[a-z_0-9]+/)*[a-z0-9][a-z_0-9]{2,}\*?\.(?:c|h|def))\b(?![(\w*])")
COMMENT = {**dict.fromkeys([*CODE, ".teg"], re.compile(r"(?:^|\s)//(?! (?:RUN|CHECK)\b)(.*)")),
           **dict.fromkeys([".py", ".sh", ".cmake", ".txt"], re.compile(r"(?:^|\s)#(.*)"))}
# Files that the build makes, or that belong to other projects.
OTHER_FILES = {"embedded.c", "identity.c", "parser.h", "stdlib/embedded.h", "include/host/nvshmemx_api.h"}
MAX_PROSE = 110
GENERATED = {"docs/inside/model.md", "docs/use/ops.md", "docs/use/c-api.md"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
# A new message rebuilds every file that includes lang/diag.h. Of the headers only the elaborator's may do so.
MESSAGES = "lang/diag.h"
MESSAGE_HEADERS = {"frontend/elab/elab.h"}
MODELS = {"passes/cost/cost.c", "passes/cost/cost_gpu.c", "passes/cost/cost_grid.c", "passes/comm/comm_cost.c", "passes/gpu/warps.c",
          "passes/split.c", "passes/tile_grid.c", "passes/longest_first.c", "backends/nvidia/register_pressure.c",
          "driver/rank_settings.c", "driver/tune/tune_expect.c", "driver/tune/tune_space.c", "driver/tune/tune_search.c"}
MODEL_CONSTANT = re.compile(r"\s*#\s*define\s+\w+\s+\(?[\d.]|\s*static const (double|float) \w+ = [\d.]")
# Facts that one file has: (pattern, folders, the file, its function).
DOORS = [
    (re.compile(r"\((?:Build|Inst)\)\s*\{"), {"driver", "tools"}, "driver/request.c", "request_instance"),
    (re.compile(r"clock_gettime\(CLOCK_MONOTONIC"), {"runtime", "driver", "tools"}, "runtime/base/clock.c",
     "rt_seconds"),
]
MESSAGE_USE = re.compile(r"\bD_[A-Z]|\bdiag\(")


def sources(root):
    """Files under version control or about to be, without build folders."""
    out = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
                         capture_output=True, text=True)
    names = out.stdout.split("\n") if out.returncode == 0 else []
    if not any(names):
        names = [str(p.relative_to(root)) for p in root.rglob("*")
                 if not p.relative_to(root).parts[0].startswith(("build", "."))]
    return sorted(n for n in names if n and (root / n).is_file())


def check_includes(name, lines, say):
    folder = name.split("/")[0]
    for n, line in enumerate(lines, 1):
        m = INCLUDE.match(line)
        if not m:
            continue
        quoted, path = m.group(1) == '"', m.group(2)
        top = path.split("/")[0]
        if path.startswith(("llvm-c/", "llvm/")) and folder not in ("backends", "tests") \
                and not name.startswith("tools/amdsim/"):
            say(name, n, f"LLVM header outside backends/: {path}")
        if quoted and folder in ARROWS and top in {*ARROWS, "tools", "tests", "stdlib"} \
                and "/" in path and not ARROWS[folder] & {top, path}:
            say(name, n, f"{folder}/ may not include {top}/: {path}")
        if quoted:
            circles.check_include(name, n, path, say)


def check_messages(name, lines, say):
    """Sources that report no message must not include them, since every new message would rebuild them."""
    for n, line in enumerate(lines, 1):
        m = INCLUDE.match(line)
        if m and m.group(2) == "lang/diag.def" and name not in (MESSAGES, "lang/diag.c"):
            say(name, n, f"messages are included by {MESSAGES}")
        if m and m.group(2) == MESSAGES and name not in MESSAGE_HEADERS and \
                (name.endswith(".h") or not any(map(MESSAGE_USE.search, lines))):
            say(name, n, f"{MESSAGES} in a file that reports nothing: each new message rebuilds it")


def check_models(name, lines, say):
    """Fitted constants must be rows with a unit, a device and a date."""
    for n, line in enumerate(lines, 1):
        if name in MODELS and MODEL_CONSTANT.match(line):
            say(name, n, "a constant of a model is a row of passes/model.def")


def check_doors(name, lines, say):
    """An instance is made, and the clock is read, in one file each. A second way would diverge from it."""
    for pattern, folders, file, function in DOORS:
        if name == file or name.split("/")[0] not in folders:
            continue
        for i, line in enumerate(lines, 1):
            if pattern.search(line):
                say(name, i, f"{pattern.search(line)[0]} stands in {file} alone: call {function}")


def backend_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "backends" else None


def check_backends(name, lines, say):
    """Back ends never include each other; llvm/ and gpu/ are shared, sim/ may read target tables."""
    own = backend_of(name)
    for n, line in enumerate(lines, 1):
        m = INCLUDE.match(line)
        other = backend_of(m.group(2)) if m else None
        if own and other and other not in (own, "llvm", "gpu") and own != "sim":
            say(name, n, f"back end {own} may not include back end {other}")


def check_text(name, lines, say):
    suffix = pathlib.PurePath(name).suffix
    if suffix in CODE and "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" not in \
            "\n".join(lines[:3]):
        say(name, 1, "no SPDX line")
    if len(lines) > MAX_FILE and suffix != ".def":
        say(name, 1, f"{len(lines)} lines, the limit is {MAX_FILE}")
    for n, line in enumerate(lines, 1):
        # A list of words that tools/dev/editor_words.py writes.
        words = n > 1 and re.match(r"# words:\w+$", lines[n - 2])
        if len(line) > MAX_WIDTH.get(suffix, 100) and not words:
            say(name, n, f"{len(line)} columns, the limit is {MAX_WIDTH.get(suffix, 100)}")
        if line != line.rstrip():
            say(name, n, "white space at the end of the line")
        if suffix in CODE and name.split("/")[0] in SHIPPED and GETENV.search(line):
            say(name, n, "getenv: secure_getenv is what asks the environment")
        if LEFTOVER.search(line):
            say(name, n, "leftover: " + line.strip())


def check_paths(root, name, lines, say):
    """Every page that a file names must exist."""
    for n, line in enumerate(lines, 1):
        for path in PAGE_PATH.findall(line):
            if not (root / path).exists():
                say(name, n, f"there is no {path}")


def ends_of_paths(names):
    """Every file by its path and by the last parts of it."""
    return {"/".join(parts[i:]) for parts in (name.split("/") for name in names) for i in range(len(parts))}


def texts_naming_files(name, lines):
    """(line, text): comments of code, and text in ` ` in the prose of a page."""
    comment = COMMENT.get(pathlib.PurePath(name).suffix)
    if name.endswith(".md"):
        prose, _ = prose_and_tables(lines)
        rows = [n for n, line in enumerate(lines, 1) if line.lstrip().startswith("|")]
        return [(n, part) for n in sorted({*prose, *rows}) for part in re.findall(r"`([^`]*)`", lines[n - 1])]
    found = [(n, comment.search(line)) for n, line in enumerate(lines, 1)] if comment else []
    return [(n, m[1]) for n, m in found if m]


def check_file_names(name, lines, ends, say):
    """Every file that comments and pages name must exist. Pages of the lab may name older files."""
    if name.startswith(("docs/lab/", "tests/diag/", "tests/fuzz/seeds/")):
        return
    for n, text in texts_naming_files(name, lines):
        for file in FILE_NAME.findall(text):
            known = fnmatch.filter(ends, file) if "*" in file else file in ends or file in OTHER_FILES
            if not known:
                say(name, n, f"there is no file {file}")


def prose_and_tables(lines):
    """(numbers of the lines of prose, tables as lists of lines) of a page, without code blocks."""
    prose, tables, fenced, in_table = [], [], False, False
    for n, line in enumerate(lines, 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        row = not fenced and line.lstrip().startswith("|")
        if row and not in_table:
            tables.append([])
        if row:
            tables[-1].append(line)
        elif not fenced and not fence:
            prose.append(n)
        in_table = row
    return prose, tables


def has_figures(table):
    """A table of measurements: at least three columns after the first, and numbers in most cells."""
    if table[0].count("|") < 5:
        return False
    cells = [c.strip() for row in table[2:] for c in row.strip().strip("|").split("|")[1:]]
    return 2 * sum(1 for c in cells if re.match(r"[\d.]*\d", c)) > len(cells)


def check_page(name, lines, say):
    prose, tables = prose_and_tables(lines)
    for n in prose:
        # A single long word, such as the target of a link, cannot be wrapped.
        words = lines[n - 1].split()
        if len(lines[n - 1]) > MAX_PROSE and len(words) > 1 and name not in GENERATED:
            say(name, n, f"{len(lines[n - 1])} columns, the limit for prose is {MAX_PROSE}")
    figures = sum(1 for table in tables if has_figures(table))
    if figures > 1:
        say(name, 1, f"{figures} tables of figures: a page has one")


def is_table(lines):
    """A flat switch or table: most lines are cases, rows or single statements of cases."""
    rows = sum(1 for l in lines if re.match(r"\s*(case\b|default:|\{.*\},?$|\[.*\] =|X\()", l))
    return rows * 3 >= len(lines)


def functions(root, names):
    """(name, first line, length, function) of every C function, by ctags."""
    files = [n for n in names if n.endswith(".c")]
    if not files:
        return
    out = subprocess.run(["ctags", "--fields=+ne", "--kinds-C=f", "-f", "-", "-L", "-"], cwd=root,
                         input="\n".join(files), capture_output=True, text=True).stdout
    for row in out.splitlines():
        cells = row.split("\t")
        extra = dict(c.split(":", 1) for c in cells[3:] if ":" in c)
        if "end" in extra:
            first, last = int(extra["line"]), int(extra["end"])
            yield cells[1], first, last - first + 1, cells[0]


def check_functions(root, names, say):
    lengths = []
    for name, first, length, function in functions(root, names):
        if not name.startswith("tests/"):
            lengths.append(length)
        if length > MAX_FUNCTION:
            body = (root / name).read_text().splitlines()[first - 1:first - 1 + length]
            if not is_table(body):
                say(name, first, f"{function} has {length} lines, the limit is {MAX_FUNCTION}")
    lengths.sort()
    if len(lengths) >= 100:
        median, p95 = lengths[len(lengths) // 2], lengths[len(lengths) * 95 // 100]
        if median > MEDIAN_FUNCTION:
            say("functions", 0, f"median length {median}, the limit is {MEDIAN_FUNCTION}")
        if p95 > P95_FUNCTION:
            say("functions", 0, f"95 % length {p95}, the limit is {P95_FUNCTION}")
    return lengths


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = []

    def say(name, line, text):
        found.append(f"{name}:{line}: {text}")

    names = [n for n in sources(root)
             if pathlib.PurePath(n).suffix in CODE | {".teg", ".py", ".sh", ".cmake"}]
    for name in names:
        lines = (root / name).read_text(errors="replace").splitlines()
        is_code = pathlib.PurePath(name).suffix in CODE
        # Inputs of message and fuzz tests are bad on purpose.
        if not name.startswith(("tests/diag/", "tests/fuzz/seeds/", "tests/lint/")):
            check_text(name, lines, say)
        if is_code:
            check_includes(name, lines, say)
            check_messages(name, lines, say)
            check_models(name, lines, say)
            check_doors(name, lines, say)
            check_backends(name, lines, say)
    ends = ends_of_paths(sources(root))
    for name in sources(root):
        if name.endswith(".png") or name.startswith("tests/lint/"):
            continue
        lines = (root / name).read_text(errors="replace").splitlines()
        check_paths(root, name, lines, say)
        check_file_names(name, lines, ends, say)
        if name.endswith(".md"):
            check_page(name, lines, say)
    circles.check_passes(root, say)
    lengths = []
    if shutil.which("ctags"):
        lengths = check_functions(root, names, say)
        circles.check_calls(root, names, say)
    else:
        print("lint: no ctags, lengths of functions and circles of files are not checked")
    print("\n".join(found))
    print(f"lint: {len(names)} files, {len(lengths)} functions, {len(found)} findings")
    return 1 if found else 0


sys.exit(main())
