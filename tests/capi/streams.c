// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs examples/streams on the stand-in driver, with a C function as the kernel. Checks the
// operations of streams, events and the graph, in order, and that all objects are destroyed.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

int example_main(int argc, char **argv);

static struct {
#define X(result, name, parameters) result(*name) parameters;
    FAKE_ENTRIES(X)
#undef X
} fake;

/// x = a x
static void grow(const FakeLaunch *launch, void **args) {
    float *x = *(float **)args[0], a = *(float *)args[2];
    int64_t n = *(int64_t *)args[1];
    if (!launch->stream) abort();
    for (int64_t i = 0; i < n; i++) x[i] *= a;
}

static int times(const char *text, const char *word) {
    int n = 0;
    for (; (text = strstr(text, word)); text++) n++;
    return n;
}

static int expect(const char *what, int have, int want) {
    if (have != want) fprintf(stderr, "%s: %d, expected %d\n", what, have, want);
    return have != want;
}

int main(int argc, char **argv) {
    void *library = dlopen(getenv("TG_CUDA_LIBRARY"), RTLD_NOW), *f;
    if (!library) return 1;
#define X(result, name, parameters)                                                                \
    f = dlsym(library, #name);                                                                     \
    memcpy(&fake.name, &f, sizeof f);
    FAKE_ENTRIES(X)
#undef X
    fake.fake_kernel("grow", grow, 3, (const size_t[]){8, 8, 4});
    int bad = example_main(argc, argv);
    const char *journal = fake.fake_journal(0), *mistake = fake.fake_mistake();
    bad |= expect("launches", times(journal, ": grow\n"), 4 + 2 * 3);
    bad |= expect("launches by themselves", fake.fake_calls("cuLaunchKernelEx"), 4 + 2);
    bad |= expect("replays", fake.fake_calls("cuGraphLaunch"), 3);
    bad |= expect("records", fake.fake_calls("cuEventRecord"), 2);
    bad |= expect("pieces of memory left", fake.fake_allocated(), 0);
    bad |= expect("modules left", fake.fake_modules(), 0);
    if (mistake) fprintf(stderr, "%s\n", mistake);
    if (bad) fprintf(stderr, "%s", journal);
    return bad || mistake;
}
