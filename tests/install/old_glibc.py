"""Checks that programs linked for an older glibc (cmake/glibc/old.py) depend on no later one, and run here,
too.

Usage: old_glibc.py --source DIR --cc CC --cxx CXX. Exits 77 without glibc.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FLOOR = (2, 28)
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"}

# Cases that are linked differently: functions that moved between libraries, with several versions, without an
# old version, data that a program copies, and code that runs before main.
C = r"""
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) return printf("not %s\n", #x), 1; } while (0)
extern char **environ;
static int started, constructed, arguments;
static void start(void) { started++; }
__attribute__((section(".preinit_array"), used)) static void (*const before)(void) = start;
__attribute__((constructor)) static void construct(int n, char **argv, char **environment) {
    constructed += started;
    arguments = n == 2 && !strcmp(argv[1], "x") && environment == environ;
}
static void *thread(void *p) { return p; }
static int has(const char *text) {
    for (char **e = environ; *e; e++) if (!strcmp(*e, text)) return 1;
    return 0;
}
static int same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mode == b->st_mode && a->st_mtime == b->st_mtime && a->st_nlink == b->st_nlink;
}
int main(int argc, char **argv) {
    struct stat a, b, c, d;
    pthread_t t;
    void *got = NULL;
    CHECK(started == 1 && constructed == 1 && arguments);
    CHECK(pthread_create(&t, NULL, thread, &t) == 0 && pthread_join(t, &got) == 0 && got == &t);
    CHECK(setenv("OLD_GLIBC", "yes", 1) == 0 && has("OLD_GLIBC=yes"));
    FILE *f = fopen(argv[0], "r");
    CHECK(f && stat(argv[0], &a) == 0 && lstat(argv[0], &b) == 0 && fstat(fileno(f), &c) == 0);
    fseek(f, 0, SEEK_END);
    CHECK(same(&a, &b) && same(&a, &c) && S_ISREG(a.st_mode) && a.st_size == ftell(f));
    CHECK(symlink(argv[0], "link") == 0 && lstat("link", &d) == 0 && S_ISLNK(d.st_mode));
    CHECK(stat("link", &d) == 0 && same(&a, &d));
    errno = 0;
    CHECK(stat("none", &d) == -1 && errno == ENOENT);
    CHECK(mknod("fifo", S_IFIFO | 0600, 0) == 0 && stat("fifo", &d) == 0 && S_ISFIFO(d.st_mode));
    void *volatile p = malloc(1 << 16);
    CHECK(p && mallinfo2().uordblks >= 1 << 16);
    CHECK(pow(argc, 10) == 1024 && hypot(argc + 1, 4) == 5 && exp2(argc) == 4 && log2(argc) == 1);
    void *m = dlopen("libm.so.6", RTLD_NOW);
    double (*cosine)(double) = m ? (double (*)(double))dlsym(m, "cos") : NULL;
    CHECK(cosine && cosine(0) == 1);
    return fputs("all right\n", stdout) < 0;
}
"""
CXX = r"""
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
static const std::string text = "all right"; // by a constructor
static bool caught;
static void fail() { throw std::runtime_error(text); }
int main() {
    std::random_device device;
    device();
    std::thread t([] { try { fail(); } catch (const std::exception &e) { caught = e.what() == text; } });
    t.join();
    if (caught) std::cout << text << "\n";
}
"""
# As glibc does before 2.34: the program's own function runs its constructors.
START = r"""
#include <stdlib.h>
extern char **environ;
typedef int Main(int, char **, char **);
int __libc_start_main(Main *program, int argc, char **argv, void (*init)(int, char **, char **)) {
    if (init) init(argc, argv, environ);
    exit(program(argc, argv, environ));
}
"""
LATE = "int pthread_cond_clockwait(void); int f(void); int f(void) { return pthread_cond_clockwait(); }\n"


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


class Test:
    def __init__(self, options, folder):
        self.options, self.folder, self.failed = options, folder, 0
        made = run(sys.executable, options.source / "cmake/glibc/old.py", "--cc", options.cc,
                   "--version", ".".join(map(str, FLOOR)), "--out", folder / "glibc")
        if made.returncode:
            sys.exit(made.stderr)
        self.flags = made.stdout.split()
        for name, text in (("c.c", C), ("cxx.cc", CXX), ("start.c", START), ("late.c", LATE)):
            (folder / name).write_text(text)
        self.start = folder / "start.so"
        run(options.cc, "-shared", "-fPIC", folder / "start.c", "-o", self.start, check=True)

    def expect(self, good, what):
        self.failed += not good
        print(f"{'ok' if good else 'FAIL'} {what}")

    def link(self, compiler, source, *flags):
        """The program or shared library, and the linker's output if it failed."""
        out = self.folder / f"{source}.out"
        out.unlink(missing_ok=True)
        done = run(compiler, "-O1", *flags, *self.flags, self.folder / source, "-o", out,
                   "-lm", "-lpthread", "-ldl")
        return out, done.stdout + done.stderr

    def check_program(self, compiler, source, *flags):
        what = " ".join((source, *flags))
        out, said = self.link(compiler, source, *flags)
        if not out.exists():
            self.expect(False, f"{what}: {said}")
            return
        headers = run("objdump", "-p", out).stdout
        versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", headers)}
        needed = {n for n in re.findall(r"NEEDED +(\S+)", headers) if not n.startswith("ld-linux")}
        self.expect(versions and max(versions) <= FLOOR, f"{what} asks for {max(versions, default=None)}")
        self.expect(needed == LIBRARIES, f"{what} asks for {sorted(needed)}")
        self.check_run(what, out, {})
        self.check_run(f"{what}, as before 2.34,", out, {"LD_PRELOAD": self.start})

    def check_run(self, what, program, variables):
        with tempfile.TemporaryDirectory(dir=self.folder) as work:
            done = run(program, "x", cwd=work, env={**os.environ, **variables})
        self.expect((done.returncode, done.stdout) == (0, "all right\n"),
                    f"{what} runs: {done.returncode} {done.stdout.strip()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cxx", required=True)
    options = parser.parse_args()
    if "glibc" not in run("getconf", "GNU_LIBC_VERSION").stdout:
        print("left out: the C library is not glibc")
        return 77
    with tempfile.TemporaryDirectory(prefix="tegula-glibc-") as folder:
        t = Test(options, pathlib.Path(folder))
        for linker in ("bfd", "gold"):
            if run(f"ld.{linker}", "--version").returncode:
                continue
            flags = f"-fuse-ld={linker}",
            t.check_program(options.cc, "c.c", *flags)
            t.check_program(options.cc, "c.c", "-no-pie", *flags)
            t.check_program(options.cxx, "cxx.cc", "-static-libstdc++", *flags)
            out, said = t.link(options.cc, "late.c", "-shared", "-fPIC", *flags)
            t.expect(not out.exists() and "pthread_cond_clockwait" in said,
                     f"no library asks for what is too late {' '.join(flags)}")
    return 1 if t.failed else 0


if __name__ == "__main__":
    sys.exit(main())
