// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands: an object ahead of time, a kernel on arrays of files.
#include "tests/inject/scenario.h"
#include "tools/npy.h"
#include "tools/tegula/cli.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int cli_main(int argc, char **argv);
int __real_ftruncate(int fd, off_t n);

static const char source[] = "kernel add(x: f32[N], y: f32[N]) {\n"
                             "    parallel n in N by 64 { y[n] = x[n] + 1; }\n"
                             "}\n";
enum { N = 300, WORDS = 16 };
static int heard; // the printed text
static char old[] = "what was there before";

static void must_write(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f)) abort();
}

static void listen_to(void) {
    heard = memfd_create("heard", MFD_CLOEXEC);
    dup2(heard, STDERR_FILENO);
    if (open("/dev/null", O_WRONLY) < 0) abort();
}

static void ready(void) {
    float x[N];
    char error[NPY_ERROR_SIZE];
    setenv("TG_CACHE", "off", 1);
    for (int i = 0; i < N; i++) x[i] = (float)i;
    Npy a = {.kind = 'f', .size = 4, .rank = 1, .shape = {N}, .data = x, .bytes = sizeof x};
    if (!npy_write(in_scratch("x.npy"), &a, error)) abort();
    must_write(in_scratch("add.teg"), source, strlen(source));
    must_write(in_scratch("add.o"), old, sizeof old);
    must_write(in_scratch("add.h"), old, sizeof old);
    must_write(in_scratch("y.npy"), old, sizeof old);
    listen_to();
}

/// Runs a command, with SCRATCH/ for '%'.
static void invoke(const char *line, Outcome *out) {
    static char copy[2048];
    char *words[WORDS];
    int n = 0;
    size_t at = 0;
    for (const char *c = line; *c && at < sizeof copy - 600; c++)
        if (*c == '%')
            at += (size_t)snprintf(copy + at, sizeof copy - at, "%s/", scratch);
        else
            copy[at++] = *c;
    copy[at] = 0;
    for (char *w = strtok(copy, " "); w && n < WORDS; w = strtok(NULL, " ")) words[n++] = w;
    if (__real_ftruncate(heard, 0)) abort();
    lseek(heard, 0, SEEK_SET);
    int code = cli_main(n, words);
    out->ok = code == EXIT_OK;
    size_t used = (size_t)snprintf(out->text, sizeof out->text, "exit code %d: ", code);
    ssize_t got = pread(heard, out->text + used, sizeof out->text - used - 1, 0);
    out->text[used + (size_t)(got > 0 ? got : 0)] = 0;
}

/* ---- build ----------------------------------------------------------------------------------- */

static void build(Outcome *out) {
    invoke("build %add.teg -o %add.o --header %add.h --levels base", out);
}

static bool is_old(const char *name) {
    char data[sizeof old];
    FILE *f = fopen(in_scratch(name), "rb");
    bool same =
        f && fread(data, 1, sizeof data, f) == sizeof data && !memcmp(data, old, sizeof old);
    if (f) fclose(f);
    return same;
}

static const char *check_left_over(void) {
    static char command[700];
    snprintf(command, sizeof command, "ls %s | grep -q tmp", scratch);
    if (plan_refused(NAME)) return NULL; // it cannot be removed either
    return system(command) == 0 ? "a temporary file is left" : NULL;
}

static const char *check_built(const Outcome *out) {
    struct stat s;
    bool object = stat(in_scratch("add.o"), &s) == 0, was = is_old("add.o");
    if (out->ok && (!object || was || is_old("add.h"))) return "it said OK and wrote nothing";
    if (object && !was && s.st_size < 1000) return "the object is cut short";
    return check_left_over();
}

/* ---- run ------------------------------------------------------------------------------------- */

static void run(Outcome *out) {
    invoke("run %add.teg --arg x=@%x.npy --out y=%y.npy -q", out);
}

static const char *check_run(const Outcome *out) {
    char error[NPY_ERROR_SIZE];
    Npy y;
    bool whole = npy_read(in_scratch("y.npy"), &y, error);
    if (!whole)
        return is_old("y.npy") && !out->ok ? check_left_over() : "the result's file is cut short";
    bool right = y.bytes == N * sizeof(float);
    for (int i = 0; right && i < N; i++) right = ((float *)y.data)[i] == (float)(i + 1);
    free(y.data);
    return right ? check_left_over() : "the result is wrong";
}

const Scenario program_scenarios[] = {
    {"build", false, NOBODY, NULL, ready, build, check_built, NULL},
    {"run", false, NOBODY, NULL, ready, run, check_run, NULL},
    {.name = NULL},
};
