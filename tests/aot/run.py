#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds kernels.teg ahead of time in one form, links check.c with it and runs the program.

  run.py FORM --tegula PROGRAM --rt LIBRARY [--lib LIBRARY] --out FOLDER

Exit code 77: this machine lacks a tool that the form needs.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KERNELS = os.path.join(HERE, "kernels.teg")
CHECK = os.path.join(HERE, "check.c")
OVERHEAD = os.path.join(HERE, "overhead.c")
ALONE = os.path.join(HERE, "alone.c")
INCLUDE = os.path.join(ROOT, "runtime")
WARNINGS = ["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SYSTEM = ["-lm", "-lpthread"]
SKIPPED = 77


class Failure(Exception):
    pass


def run(words, env=None, cwd=None):
    done = subprocess.run(
        words,
        env=dict(os.environ, **(env or {})),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
    )
    if done.returncode != 0:
        raise Failure(
            "%s\nexit code %d\n%s%s" % (" ".join(words), done.returncode, done.stdout, done.stderr)
        )
    return done.stdout


def tool(*names):
    """The first of these programs that exists. Without one the test is skipped."""
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    print("skipped: there is no %s" % " or ".join(names))
    sys.exit(SKIPPED)


class Test:
    def __init__(self, args):
        self.tegula, self.rt, self.lib = args.tegula, args.rt, args.lib
        self.out = os.path.join(args.out, args.form)
        shutil.rmtree(self.out, ignore_errors=True)
        os.makedirs(self.out)

    def path(self, name):
        return os.path.join(self.out, name)

    def build(self, name, *options, header=True):
        """tegula build -> the path of the output."""
        words = [self.tegula, "build", KERNELS, "-o", self.path(name)]
        if header:
            words += ["--header", self.path("kernels.h")]
        run(words + list(options))
        return self.path(name)

    def link(self, compiler, *words):
        program = self.path("check")
        flags = WARNINGS + ["-I" + self.out, "-I" + INCLUDE]
        run([compiler] + flags + list(words) + SYSTEM + ["-o", program])
        return program

    def link_c(self, *objects):
        return self.link("cc", "-std=c11", CHECK, *objects, self.rt)

    def check_mark(self, name, mark):
        """Checks a mark of branch targets, which a program keeps only if all of its objects have it."""
        if mark not in run(["readelf", "-nW", self.path(name)]):
            raise Failure("the object has no mark '%s'" % mark)

    # ---- forms ----------------------------------------------------------------------------------

    def form_c(self):
        """Runs the object alone at every level that this CPU has. Higher levels fall back."""
        program = self.link_c(self.build("kernels.o"))
        for level in ["base", "v3", "v4", "amx"]:
            run([program], {"TG_LEVEL": level})
        run([program])
        shown = [line.split() for line in run(["nm", "-g", "--defined-only", self.rt]).splitlines()]
        shown = [words[2] for words in shown if len(words) == 3 and words[2][:3] != "tg_"]
        if shown:
            raise Failure("the runtime shows names of its own: %s" % shown)
        undefined = run(["nm", "-u", self.path("kernels.o")]).split()
        if set(undefined) - {"U", "tg_launch", "fma"}:
            raise Failure("the object needs more than the runtime: %s" % undefined)
        self.check_mark("kernels.o", "IBT, SHSTK")

    def form_cxx(self):
        cxx = tool("c++", "g++", "clang++")
        objects = [self.build("kernels.o", "--levels", "v3"), self.rt]
        run([self.link(cxx, "-std=c++17", "-x", "c++", CHECK, "-x", "none", *objects)])

    def form_a(self):
        run([self.link_c(self.build("libkernels.a", "--levels", "base,v3"))])
        members = run(["ar", "t", self.path("libkernels.a")]).split()
        if members != ["kernels.o"]:
            raise Failure("members of the library: %s" % members)

    def form_so(self):
        self.build("libkernels.so", "--levels", "v3")
        rpath = "-Wl,-rpath," + self.out
        # With a static runtime, the program exports the symbols that the library needs.
        words = ["-std=c11", CHECK, "-L" + self.out, "-lkernels", rpath, "-rdynamic", self.rt]
        run([self.link("cc", *words)])

    def form_s(self):
        text = self.build("kernels.s", "--levels", "v3,v4")
        run(["cc", "-c", text, "-o", self.path("kernels.o")])
        run([self.link_c(self.path("kernels.o"))])

    def form_ll(self):
        llc = tool("llc-22", "/usr/lib/llvm-22/bin/llc")
        text = self.build("kernels.ll", "--levels", "v3")
        run([llc, "-filetype=obj", "-relocation-model=pic", text, "-o", self.path("kernels.o")])
        run([self.link_c(self.path("kernels.o"))])

    def form_debug(self):
        options = ["--levels", "v3", "--debug", "--check"]
        run([self.link_c(self.build("kernels.o", *options))])

    def form_alone(self):
        """Code for CPUs and GPUs in one object. It runs without a compiler on the machine or in PATH. The
        program maps only itself and the C library."""
        gpus = ["--gpus", "sm_80,sm_90a,gfx942", "--export", "softmax<f32>,matmul<f32>"]
        program = self.link("cc", "-std=c11", ALONE, self.build("kernels.o", *gpus), self.rt, "-ldl")
        empty = self.path("empty")
        os.makedirs(empty)
        for level in ["base", "v3", "v4", "amx"]:
            env = {"PATH": empty, "TG_LEVEL": level, "TG_CUDA_LIBRARY": empty + "/libcuda.so.1"}
            done = subprocess.run([program], env=env, cwd=empty, capture_output=True, text=True)
            if done.returncode:
                raise Failure("alone, at %s: %s" % (level, done.stderr))
            allowed = ("ld-linux", "ld-musl", "libc.", "libm.", "libpthread.", "libdl.", "libc-")
            for path in set(done.stdout.split()) - {os.path.realpath(program)}:
                if not os.path.basename(path).startswith(allowed):
                    raise Failure("the program maps %s" % path)
        print("%d bytes of object" % os.path.getsize(self.path("kernels.o")))

    def form_overhead(self):
        """Prints the time of a call of a tiny kernel."""
        kernels = "nothing,add_bias,seeded"
        options = ["--levels", "base,v3", "--variants", "4", "--export", kernels]
        object_ = self.build("kernels.o", *options)
        print(run([self.link("cc", "-std=c11", "-D_GNU_SOURCE", "-O2", OVERHEAD, object_, self.rt)]).strip())

    def form_tunes(self):
        """The program tunes itself while it checks every result. The next process finds the results."""
        options = ["--levels", "base,v3", "--variants", "3"]
        program = self.link_c(self.build("kernels.o", *options))
        cache = self.path("cache")
        for budget in 30, 300, 3000:  # ms; a busy machine needs more
            env = {"TG_TUNE": "block", "TG_TUNE_BUDGET_MS": str(budget), "TG_CACHE": cache}
            for _ in range(2):
                run([program], env)
            files = os.listdir(cache) if os.path.exists(cache) else []
            if files:
                break
        print("%d kernels tuned with %d ms each" % (len(files), budget))
        if not files or any(not name.startswith("tuned-") for name in files):
            raise Failure("files of the cache: %s" % files)

    def form_prefix(self):
        """Symbols with a prefix, and a single export. The rest of the program is unchanged."""
        self.build("k.o", "--prefix", "acme_", "--export", "softmax<f32>", "--levels", "v3")
        defined = [
            line.split()[-1]
            for line in run(["nm", "-g", "--defined-only", self.path("k.o")]).splitlines()
        ]
        if sorted(defined) != ["acme_softmax_f32", "acme_softmax_f32_kernel"]:
            raise Failure("global symbols: %s" % defined)

    def form_same(self):
        """Two builds from copies in different folders must be equal, byte for byte."""
        outputs = []
        for folder in ["one", "two/deeper"]:
            folder = self.path(folder)
            os.makedirs(folder)
            shutil.copy(KERNELS, folder)
            words = ["--header", "k.h", "--levels", "base,v3", "--debug"]
            words += ["--export", "add_bias,row_sums,matmul<f32>"]
            for kind in ["o", "a"]:
                source = os.path.join(folder, "kernels.teg")
                run([self.tegula, "build", source, "-o", "k." + kind] + words, cwd=folder)
            names = [os.path.join(folder, "k." + kind) for kind in ["o", "a", "h"]]
            outputs.append([open(name, "rb").read() for name in names])
        if outputs[0] != outputs[1]:
            raise Failure("two builds differ")

    def form_aarch64(self):
        self.build("kernels.o", "--target", "aarch64")
        with open(self.path("kernels.o"), "rb") as f:
            head = f.read(20)
        if head[:5] != b"\x7fELF\x02" or head[18:20] != b"\xb7\x00":
            raise Failure("this is no object for aarch64: %s" % head)
        self.check_mark("kernels.o", "BTI")
        cc = tool("aarch64-linux-gnu-gcc")
        qemu = tool("qemu-aarch64", "qemu-aarch64-static")
        runtime = sorted(str(p) for p in pathlib.Path(INCLUDE).rglob("*.c"))
        words = [cc, "-O1", "-std=c17", "-D_GNU_SOURCE", "-static", "-I" + self.out, "-I" + INCLUDE]
        words += ["-I" + ROOT, CHECK, self.path("kernels.o")] + runtime + SYSTEM
        run(words + ["-o", self.path("check")])
        run([qemu, self.path("check")])

    def form_jit(self):
        """A header of typed functions around kernels of a module, in C. It must also compile as C++."""
        header = self.path("kernels.h")
        run([self.tegula, "build", KERNELS, "--jit", "--header", header])
        for language in ["c", "c++"]:
            std = "-std=c11" if language == "c" else "-std=c++17"
            flags = WARNINGS + ["-I" + INCLUDE, std, "-fsyntax-only", "-x", language]
            source = self.path("use.c")
            with open(source, "w") as f:
                f.write('#include "kernels.h"\n#include "kernels.h"\n')
            run(["cc"] + flags + [source])
        if not self.lib:
            return
        folder = os.path.dirname(self.lib)
        words = ["-std=c11", '-DJIT="%s"' % KERNELS, CHECK, self.lib, "-Wl,-rpath," + folder]
        run([self.link("cc", *words)])


def main():
    forms = [name[5:] for name in dir(Test) if name.startswith("form_")]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("form", choices=forms)
    parser.add_argument("--tegula", required=True)
    parser.add_argument("--rt", required=True)
    parser.add_argument("--lib", help="libtegula.so, for the form jit")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    try:
        getattr(Test(args), "form_" + args.form)()
    except Failure as failure:
        print(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
