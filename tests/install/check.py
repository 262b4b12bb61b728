"""Programs outside of the source tree, built against an installed Tegula.

Usage: check.py --build DIR --source DIR. Installs into a fresh prefix, then builds and runs: a C program
with an object (pkg-config), the Makefile example, a CMake project in C++ with tegula_add_kernels, a C
program that compiles at run time, and README.md and guides, whose blocks are files and commands (C,
Python, the command line). The prefix is moved once in between, since an installed tree must not depend on
its place.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


class Failed(Exception):
    pass


def run(command, cwd, env=None):
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


class Tree:
    """An installed tree, and a folder to build in."""

    def __init__(self, build, source, temporary):
        self.source, self.work = pathlib.Path(source).resolve(), pathlib.Path(temporary)
        first = self.work / "first prefix"
        run(["cmake", "--install", pathlib.Path(build).resolve(), "--prefix", first], self.work)
        self.prefix = self.work / "prefix"
        first.rename(self.prefix)
        found = list(self.prefix.rglob("tegula_rt.pc"))
        if len(found) != 1:
            raise Failed(f"tegula_rt.pc is installed {len(found)} times")
        self.lib = found[0].parent.parent
        self.env = {
            "PKG_CONFIG_PATH": str(found[0].parent),
            "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(self.lib),
        }

    def run(self, command, cwd):
        return run(command, cwd, self.env)

    def copy(self, name):
        to = self.work / name.replace("/", "-")
        shutil.copytree(self.source / name, to)
        return to

    def flags(self, package, static=False):
        more = ["--static"] if static else []
        return self.run(["pkg-config", *more, "--cflags", "--libs", package], self.work).split()


def check_files(t):
    for name in ("include/tegula.h", "include/tegula/dlpack.h", "share/tegula/std/softmax.teg",
                 "share/man/man1/tegula.1", "share/bash-completion/completions/tegula",
                 "share/zsh/site-functions/_tegula", "share/fish/vendor_completions.d/tegula.fish"):
        path = t.prefix / name
        if not path.is_file() or not path.stat().st_size:
            raise Failed(f"{name} is not installed")
    t.run([sys.executable, t.source / "tests/install/doc_links.py", t.prefix / "share/doc/tegula"], t.work)


def check_makefile(t):
    """Programs of the runtime alone, which must not need LLVM."""
    folder = t.copy("examples/aot")
    t.run(["make"], folder)
    t.run(["make", "run"], folder)
    programs = [p for p in folder.iterdir() if p.is_file() and os.access(p, os.X_OK)]
    for p in programs:
        needed = subprocess.run(["ldd", p], capture_output=True, text=True).stdout
        if "LLVM" in needed or "stdc++" in needed:
            raise Failed(f"{p.name} needs more than the runtime:\n{needed}")


def check_cmake(t):
    folder = t.copy("examples/cmake")
    t.run(["cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={t.prefix}"], folder)
    t.run(["cmake", "--build", "build"], folder)
    t.run(["build/blend"], folder)
    # A changed kernel must be compiled again.
    kernel = folder / "blend.teg"
    kernel.write_text(
        kernel.read_text().replace("out[y, x, :] = (a *", "out[y, x, :] = (2.0 * a *")
    )
    t.run(["cmake", "--build", "build"], folder)
    try:
        t.run(["build/blend"], folder)
    except Failed:
        return
    raise Failed("the program did not change with its kernel")


def check_cmake_mistakes(t):
    for files, message in (("a/k.teg b/k.teg", "called k"), ("a/k.teg nope.teg", "there is no")):
        folder = t.work / f"mistake-{len(message)}"
        for name in ("a", "b"):
            (folder / name).mkdir(parents=True)
            shutil.copy(t.source / "examples/cmake/blend.teg", folder / name / "k.teg")
        (folder / "main.c").write_text("int main(void) { return 0; }\n")
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(mistake LANGUAGES C)\n"
            "find_package(tegula REQUIRED)\nadd_executable(main main.c)\n"
            f"tegula_add_kernels(main {files})\n"
        )
        try:
            t.run(["cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={t.prefix}"], folder)
        except Failed as e:
            if message in " ".join(str(e).split()):
                continue
            raise
        raise Failed(f"tegula_add_kernels took {files}")


def check_jit(t):
    folder = t.copy("examples/jit")
    t.run(["cc", "-std=c11", "main.c", "-o", "jit", *t.flags("tegula"), "-lm"], folder)
    out = t.run(["./jit", str(t.prefix / "share/tegula/std/softmax.teg")], folder)
    if "TG_ERROR_CONTRACT" not in out or "64 rows: BR=" not in out or "tuned" in out:
        raise Failed(out)
    line = "tegula: tuned softmax R=1 N=1000: BR="  # longer searches print progress in between
    for budget in 1500, 12000, 96000:  # a busy machine needs more
        searches = ["env", "TG_TUNE=block", f"TG_TUNE_BUDGET_MS={budget}", "TG_CACHE=off"]
        out = t.run([*searches, "./jit", str(t.prefix / "share/tegula/std/softmax.teg")], folder)
        if line in out:
            return
    raise Failed(f"'{line}' is not said: {out}")


def check_ranks(t):
    folder = t.copy("examples/ranks")
    t.run(["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "main.c", "-o", "ranks", *t.flags("tegula")], folder)
    out = t.run(["./ranks", "gather.teg", "3"], folder)
    if out.count("0 of 3000 elements are wrong") != 3:
        raise Failed(out)


def check_static(t):
    """A program of one file, an object and the static runtime."""
    folder = t.work / "static"
    folder.mkdir()
    kernel = t.prefix / "share/tegula/std/elementwise.teg"
    t.run(
        ["tegula", "build", kernel, "-o", "k.o", "--header", "k.h", "--export", "zip_add<f32>"],
        folder,
    )
    (folder / "main.c").write_text(
        '#include "k.h"\n'
        "int main(void) {\n"
        "    float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, y[3];\n"
        "    return zip_add_f32(a, b, y, 3) || y[0] != 11 || y[1] != 22 || y[2] != 33;\n"
        "}\n"
    )
    archive = t.lib / "libtegula_rt.a"
    flags = [f for f in t.flags("tegula_rt") if f.startswith("-I")]
    t.run(["cc", "main.c", "k.o", archive, *flags, "-lpthread", "-lm", "-o", "main"], folder)
    t.run(["./main"], folder)


def blocks_of(page):
    """(info string, text) of each fenced block."""
    info, text = None, []
    for line in page.read_text().splitlines(keepends=True):
        if line.startswith("```"):
            if info is not None:
                yield info, "".join(text)
                info = None
            else:
                info, text = line[3:].strip(), []
        elif info is not None:
            text.append(line)


def check_docs(t):
    """Pages whose blocks are files (```c main.c) and commands (```sh), which run in order."""
    tools = t.work / "tools"
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    t.env["PATH"] = f"{tools}:{t.env['PATH']}"
    t.env["PYTHONPATH"] = str(t.source / "python")
    for name in ("README", "docs/use/ahead-of-time", "docs/use/just-in-time"):
        folder = t.work / pathlib.Path(name).name
        folder.mkdir()
        for info, text in blocks_of(t.source / f"{name}.md"):
            words = info.split()
            if len(words) == 2:
                (folder / words[1]).write_text(text)
            elif words == ["sh"]:
                t.run(["sh", "-euc", text], folder)


CHECKS = [
    check_files,
    check_static,
    check_docs,
    check_ranks,
    check_makefile,
    check_cmake,
    check_cmake_mistakes,
    check_jit,
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--source", required=True)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tegula-install-") as temporary:
        tree = Tree(options.build, options.source, temporary)
        for check in CHECKS:
            name = check.__name__.removeprefix("check_")
            try:
                check(tree)
                print(f"ok {name}")
            except Failed as e:
                failed += 1
                print(f"FAIL {name}: {e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
