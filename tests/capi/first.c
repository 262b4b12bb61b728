// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures the time until a kernel of the store can be launched, in a process that has used another
// one: looking up tuning results, finding the code, reading it and putting it into memory.
#include "../runtime/ruler.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tegula.h>

enum { KERNELS = 8, PROCESSES = 50, N = 1024 };

static char folder[] = "/tmp/tegula-first-XXXXXX";

static bool fails(tg_status status, const char *what) {
    if (status) fprintf(stderr, "%s: %s\n", what, tg_last_error());
    return status != TG_OK;
}

/// Kernels that divide rows by sums of powers, each with a different power.
static void write_source(char *out, size_t room) {
    size_t n = 0;
    for (int i = 0; i < KERNELS; i++)
        n += (size_t)snprintf(
            out + n, room - n,
            "kernel k%d<T: float>(x: T[M, N], y: T[M, N]) tune B = 1 | 4 {\n"
            "    parallel m in M by B { let n = cover(N); let e = exp(x[m, n] * %d);\n"
            "        y[m, n] = e / sum(e, axis = 1)[:, None]; }\n}\n",
            i, i + 1);
}

/// Returns the least microseconds until a kernel is ready, without the first one; negative: failed.
static double use_all(void) {
    static float memory[2][4 * N];
    char source[KERNELS * 300];
    int64_t shape[2] = {4, N};
    DLTensor x = tg_dense(memory[0], kDLFloat, 32, 2, shape), y = x;
    y.data = memory[1];
    tg_arg args[2] = {tg_tensor(&x), tg_tensor(&y)};
    tg_module *m;
    double best = 1e30;
    write_source(source, sizeof source);
    if (fails(tg_module_from_source(source, strlen(source), "first.teg", NULL, &m), "module"))
        return -1;
    for (int i = 0; i < KERNELS; i++) {
        double start = ruler_now();
        if (fails(tg_prepare(tg_module_kernel_at(m, i), args, 2), "prepare")) return -1;
        double us = (ruler_now() - start) * 1e-3;
        if (i && us < best) best = us;
        if (fails(tg_launch(tg_module_kernel_at(m, i), args, 2), "launch")) return -1;
    }
    tg_module_destroy(m);
    return best;
}

/// Runs use_all in a new process.
static double use_all_anew(void) {
    int ends[2];
    double us = -1;
    if (pipe(ends)) return -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        us = use_all();
        _exit(write(ends[1], &us, sizeof us) != sizeof us);
    }
    close(ends[1]);
    if (read(ends[0], &us, sizeof us) != sizeof us) us = -1;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return us;
}

static int remove_folder(int failed) {
    char command[sizeof folder + 20];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}

int main(void) {
    if (!mkdtemp(folder) || setenv("TG_CACHE", folder, 1) || unsetenv("TG_TUNE")) return 1;
    double cold = use_all_anew(), best = 1e300, unit = 1e30;
    if (cold < 0) return remove_folder(1);
    for (int i = ruler_rounds(PROCESSES); i > 0; i--) {
        double us = use_all_anew(), u = ruler_unit();
        if (us < 0) return remove_folder(1);
        if (us < best) best = us;
        if (u < unit) unit = u;
    }
    char beside[64];
    snprintf(beside, sizeof beside, "(compiled: %.0f us)", cold);
    ruler_report("first launch of a stored kernel", best / unit, "us", beside);
    return remove_folder(0);
}
