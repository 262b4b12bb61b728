// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A warm launch of a module's kernel allocates no memory, takes no lock and makes no system call.
// Also measures its overhead over a direct call: kernels of one task against the same work in C,
// alternately, with three arguments, and with eight whose addresses and numbers change from launch
// to launch.
#include "../runtime/ruler.h"

#include <dlfcn.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tegula.h>

enum { N = 16, CALLS = 2000, TENSORS = 5 };

static const char source[] =
    "kernel scale(x: f32[N], y: f32[N], c: f32) {\n"
    "    parallel { let n = cover(N); y[n] = x[n] * c; }\n"
    "}\n"
    "kernel mix(a: f32[M, N], b: f32[M, N], c: f32[M, N], d: f32[M, N]?, y: f32[M, N], p: f32, q: "
    "f32, "
    "n: i64) {\n"
    "    parallel { y[0, 0] = a[0, 0] * p + b[0, 0] * q + c[0, 0] * (n as f32); }\n"
    "}\n";

static float memory[TENSORS][4 * N];
static tg_kernel *kernel;
static DLTensor tensors[TENSORS];
static tg_arg args[8];

/* ---- the two ways, of i ---------------------------------------------------------------------- */

__attribute__((noinline)) static int scale(const float *x, float *y, int64_t n, float c) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * c;
    return 0;
}
static int (*volatile direct_scale)(const float *, float *, int64_t, float) = scale;

__attribute__((noinline)) static int mix(const float *a, const float *b, const float *c,
                                         const float *d, float *y, float p, float q, int64_t n) {
    (void)d;
    *y = *a * p + *b * q + *c * (float)n;
    return 0;
}
static int (*volatile direct_mix)(const float *, const float *, const float *, const float *,
                                  float *, float, float, int64_t) = mix;

static int call_scale(int i) {
    (void)i;
    return direct_scale(memory[0], memory[1], N, 3);
}

static int launch_scale(int i) {
    (void)i;
    return (int)tg_launch(kernel, args, 3);
}

static int call_mix(int i) {
    const float *m = memory[0];
    int at = i % 2 * 2 * N;
    return direct_mix(m + at, m + 4 * N, m + 8 * N, NULL, memory[4] + at, (float)i, 2, i);
}

static int launch_mix(int i) {
    tensors[0].data = memory[0] + i % 2 * 2 * N;
    tensors[4].data = memory[4] + i % 2 * 2 * N;
    args[5] = tg_float(i);
    args[7] = tg_int(i);
    return (int)tg_launch(kernel, args, 8);
}

/* ---- requests of a launch -------------------------------------------------------------------- */

static _Atomic long asked;

// These definitions precede the C library's, for libtegula as well. A sanitizer has its own.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#pragma GCC visibility push(default)
#define COUNTED(type, name, parameters, arguments)                                                 \
    type name parameters {                                                                         \
        static type(*_Atomic next) parameters;                                                     \
        asked++;                                                                                   \
        if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name);                                      \
        return next arguments;                                                                     \
    }
extern void *__libc_malloc(size_t n), *__libc_calloc(size_t n, size_t m);
extern void *__libc_realloc(void *p, size_t n), *__libc_memalign(size_t a, size_t n);
void *malloc(size_t n) {
    asked++;
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    asked++;
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    asked++;
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t alignment, size_t n) {
    asked++;
    return __libc_memalign(alignment, n);
}
int posix_memalign(void **out, size_t alignment, size_t n) {
    asked++;
    *out = __libc_memalign(alignment, n);
    return *out ? 0 : 12;
}
COUNTED(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
COUNTED(int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
COUNTED(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
COUNTED(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
#pragma GCC visibility pop
#define COUNTS true
#else
#define COUNTS false
#endif

/// Returns 0 if warm launches allocate nothing and take no lock.
static int asks(const char *what, int launch(int)) {
    for (int i = 0; i < 4; i++)
        if (launch(i)) return 1;
    asked = 0;
    for (int i = 0; i < 1000; i++)
        if (launch(i)) return 1;
    if (asked) fprintf(stderr, "%s: %ld allocations and locks\n", what, (long)asked);
    return asked != 0;
}

/// Launches in a process that any system call except a write and an exit ends.
static void launch_alone(int launch(int), int to) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) _exit(2);
    char fine = 1;
    for (int i = 0; i < 1000; i++) fine &= launch(i) == 0;
    if (write(to, &fine, 1) == 1) syscall(SYS_exit, 0);
}

static int calls_system(const char *what, int launch(int)) {
    int ends[2], status = 0;
    char fine = 0;
    if (!COUNTS || pipe(ends)) return 0;
    pid_t child = fork();
    if (child == 0) launch_alone(launch, ends[1]);
    close(ends[1]);
    bool done = read(ends[0], &fine, 1) == 1;
    close(ends[0]);
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return 0; // the system cannot forbid calls
    if (!done || !fine) fprintf(stderr, "%s: the system was called\n", what);
    return !done || !fine;
}

/// Returns the number of broken promises.
static int measure(const char *what, int call(int), int launch(int)) {
    if (launch(0)) return fprintf(stderr, "%s\n", tg_last_error()), 1;
    bool fine = ruler_over(what, call, launch, CALLS);
    if (!fine) fprintf(stderr, "%s: %s\n", what, tg_last_error());
    return !fine + asks(what, launch) + calls_system(what, launch);
}

int main(void) {
    static int64_t one[1] = {N}, two[2] = {2, N};
    tg_module *m;
    if (tg_module_from_source(source, sizeof source - 1, "bench.teg", NULL, &m) ||
        tg_module_kernel(m, "scale", &kernel))
        return fprintf(stderr, "%s\n", tg_last_error()), 1;
    for (int i = 0; i < 2; i++) {
        tensors[i] = tg_dense(memory[i], kDLFloat, 32, 1, one);
        args[i] = tg_tensor(&tensors[i]);
    }
    args[2] = tg_float(3);
    int broken = measure("warm launch of 3 arguments", call_scale, launch_scale);
    if (tg_module_kernel(m, "mix", &kernel)) return fprintf(stderr, "%s\n", tg_last_error()), 1;
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = tg_dense(memory[i], kDLFloat, 32, 2, two);
        args[i] = tg_tensor(&tensors[i]);
    }
    args[6] = tg_float(2);
    broken += measure("warm launch of 8 arguments", call_mix, launch_mix);
    tg_module_destroy(m);
    return broken;
}
