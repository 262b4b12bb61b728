"""Prints docs/use/c-api.md from the comments of runtime/tegula.h, so that the page cannot drift.

Usage: api_page.py runtime/tegula.h. A `/* ---- title */` line begins a section; `///` lines belong to
the declaration below them.
"""

import re
import sys
import textwrap

HEAD = """# C API

Made from `runtime/tegula.h` by `tools/dev/api_page.py`. `ahead-of-time.md` and `just-in-time.md` show
the functions at work.
"""
TAIL = """## Environment

| variable | meaning |
|---|---|
| `TG_LEVEL` | highest level of the CPU to use: `base`, `v3`, `v4` or `amx` |
| `TG_COMPILE` | `process`: modules are compiled by a helper process; `inprocess` (default) |
| `TG_RANK_KEY` | a secret of all ranks that meet at a port; [communication.md](communication.md) |
| `TG_SERVER` | the helper program; default: `tegula` beside the library, then in `PATH` |
| `TG_COMPILE_TIMEOUT` | seconds that the helper may take for one kernel, without waits for a core; 120 |
| `TG_CUDA_LIBRARY` | the driver of NVIDIA GPUs, in place of `libcuda.so.1`; `cuda.md` has more |
| `TG_CODEGEN` | code generator of NVIDIA code: `nvptx`, `nvvm` or `auto` |
| `TG_CACHE` | folder where compiled kernels are kept, or `off`; [cache.md](cache.md) |
| `TG_CACHE_SIZE` | bytes that they may take: `512M`; 1G |
| `TG_TUNE` | `off`, `strict`, `block`, `background` (the default) or `exhaustive`; [tuning.md](tuning.md) |
| `TG_TUNE_BUDGET_MS` | of one search, in milliseconds; 10000; of objects 2000 ([ahead-of-time.md](ahead-of-time.md)) |
| `TG_TUNE_SHARE` | of the time, in percent, that trials of a search in the background take; 1 |
| `TG_TUNE_FORK` | `off`: objects make no child processes, and are not tuned on CPUs, on GPUs in the process itself |
| `TG_FAULT` | for tests: `llvm-fatal`, `abort`, `segv`, `hang` or `oom` where code is generated |"""
SECTION = re.compile(r"/\* ---- (.*?) -+ \*/")
SKIP = re.compile(r"^(#|extern \"C\"|__attribute__|}$)")


def declarations(lines):
    """Returns (comment, text) of each declaration. A section's title is (title, None)."""
    comment, text, depth = [], [], 0
    for line in lines:
        section = SECTION.match(line)
        if section and not text:
            yield section.group(1), None
            comment = []
        elif line.startswith("///") and not text:
            comment.append(line[3:].strip())
        elif text or (line.strip() and not line.startswith("//") and not SKIP.match(line)):
            text.append(line)
            depth += line.count("{") - line.count("}")
            if depth == 0 and line.rstrip().endswith((";", "}")):
                yield " ".join(comment), shorten(text)
                comment, text = [], []
        elif not line.strip():
            if comment and not text:
                yield " ".join(comment), ""
            comment = []


def shorten(text):
    """Returns an inline function without its body."""
    if text[0].startswith("static inline"):
        return "\n".join(text).split("{")[0].rstrip() + ";"
    return "\n".join(text)


def main():
    lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
    print(HEAD)
    for comment, text in declarations(lines):
        if text is None:
            print(f"## {comment[0].upper()}{comment[1:]}\n")
            continue
        if text:
            print(f"```c\n{text}\n```\n")
        if comment:
            print(textwrap.fill(comment, 99, break_on_hyphens=False) + "\n")
    print(TAIL)


if __name__ == "__main__":
    main()
