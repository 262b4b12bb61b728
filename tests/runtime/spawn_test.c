// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Usage: spawn_test [LIBRARY [TEXT]]: objects of this program, or of a library that it opens, are
// tuned on a GPU in separate processes, in which `main` never runs. TEXT: the reason for which none
// is started.
#include "tests/runtime/spawned.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char ran[] = "/tmp/spawn_test.XXXXXX"; // grows if main ran in a trial

static int failures(const char *library, const char *text) {
    int (*tests)(void) = spawned_tests, (*refusal)(const char *) = spawned_refusal;
    void *opened = library ? dlopen(library, RTLD_NOW) : NULL;
    if (library && !opened) return fprintf(stderr, "%s\n", dlerror()), 1;
    if (library) *(void **)&tests = dlsym(opened, "spawned_tests");
    if (library) *(void **)&refusal = dlsym(opened, "spawned_refusal");
    if (!tests || !refusal) return 1;
    return text ? refusal(text) : tests();
}

int main(int argc, char **argv) {
    struct stat st;
    if (getenv("TG_TRIALS_OF")) return truncate(getenv("SPAWN_TEST_RAN"), 1);
    int file = mkstemp(ran);
    if (file < 0) return 1;
    setenv("SPAWN_TEST_RAN", ran, 1);
    int failed = failures(argc > 1 ? argv[1] : NULL, argc > 2 ? argv[2] : NULL);
    if (fstat(file, &st) || st.st_size) failed = 1, fprintf(stderr, "main ran for trials\n");
    unlink(ran);
    return failed;
}
