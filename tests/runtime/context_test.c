// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contexts: hooks, memory, threads that launch at once, the last error of each thread.
#include "tests/runtime/kernels.h"

#include "runtime/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- hooks that count ---------------------------------------------------------------------- */

typedef struct Meter {
    _Atomic long left, calls, bytes; // allocation number `left` fails
    char text[256];
    long parallel;
} Meter;

static void *allocate(void *user, size_t bytes) {
    Meter *m = user;
    atomic_fetch_add(&m->calls, 1);
    if (atomic_fetch_sub(&m->left, 1) <= 0) return NULL;
    atomic_fetch_add(&m->bytes, (long)bytes);
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void release(void *user, void *memory, size_t bytes) {
    Meter *m = user;
    atomic_fetch_sub(&m->bytes, (long)bytes);
    free(memory);
}

static void collect(void *user, const char *text) {
    Meter *m = user;
    strncat(m->text, text, sizeof m->text - strlen(m->text) - 1);
}

/// Runs tasks in reverse, since a host may use any order.
static void parallel(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg) {
    Meter *m = user;
    m->parallel++;
    while (n--) task(arg, n);
}

static tg_options options(Meter *m, int threads) {
    *m = (Meter){.left = 1L << 40};
    return (tg_options){.size = sizeof(tg_options),
                        .threads = threads,
                        .user = m,
                        .allocate = allocate,
                        .release = release,
                        .log = collect,
                        .print = collect};
}

enum { N = 300 };

static tg_status run(tg_kernel *kernel, const float *x, float *y) {
    int64_t n = N;
    DLTensor tx = row(x, &n), ty = row(y, &n);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    return tg_launch(kernel, args, 2);
}

/// Fills x, launches twice, checks the results.
static void run_twice(float seed) {
    float x[N], y[N] = {0};
    for (int i = 0; i < N; i++) x[i] = seed + (float)i;
    assert_int_equal(run(&twice, x, y), TG_OK);
    for (int i = 0; i < N; i++) assert_true(y[i] == 2 * x[i]);
}

static void warm_launches(void **state) {
    (void)state;
    for (int threads = 1; threads < 5; threads++) {
        Meter m;
        tg_options o = options(&m, threads);
        tg_context *c;
        assert_int_equal(tg_context_create(&o, &c), TG_OK);
        assert_int_equal(tg_context_threads(c), threads);
        assert_null(tg_context_use(c));
        run_twice(1);
        long calls = m.calls;
        for (int i = 0; i < 100; i++) run_twice((float)i);
        assert_int_equal(m.calls, calls);
        assert_ptr_equal(tg_context_use(NULL), c);
        tg_context_destroy(c);
        assert_int_equal(m.bytes, 0);
    }
}

static tg_status out_of_memory(Meter *m, long left) {
    tg_options o = options(m, 3);
    tg_context *c;
    m->left = left;
    tg_status status = tg_context_create(&o, &c);
    if (status) {
        assert_null(c);
        return status;
    }
    float x[N] = {1}, y[N];
    tg_kernel kernel;
    tg_context_use(c);
    status = tg_kernel_open(&kernel, twice.info, NULL, NULL);
    if (status == TG_OK) {
        status = run(&kernel, x, y);
        tg_kernel_close(&kernel);
    }
    tg_context_destroy(c);
    return status;
}

static void nth_allocation_fails(void **state) {
    (void)state;
    Meter m;
    tg_status status = TG_ERROR_MEMORY;
    for (long n = 0; status != TG_OK; n++) {
        assert_true(n < 20);
        status = out_of_memory(&m, n);
        assert_int_equal(m.bytes, 0);
        assert_true(status == TG_OK || status == TG_ERROR_MEMORY);
        if (status) assert_non_null(strstr(tg_last_error(), "out of memory"));
    }
}

static void hooks(void **state) {
    (void)state;
    Meter m;
    tg_options o = options(&m, 4);
    o.parallel = parallel;
    tg_context *c;
    assert_int_equal(tg_context_create(&o, &c), TG_OK);
    tg_context_use(c);
    run_twice(3);
    assert_int_equal(m.parallel, 1);
    float x[N] = {42}, y[N];
    assert_int_equal(run(&tiny, x, y), TG_OK);
    assert_int_equal(m.parallel, 1); // one task is a call
    assert_int_equal(run(&copy, x, y), TG_OK);
    tg_log("a line");
    assert_string_equal(m.text, "copy\na line");
    void *memory = tg_allocate(1000);
    assert_int_equal((uintptr_t)memory % 64, 0);
    tg_release(memory, 1000);
    tg_release(NULL, 0);
    tg_context_destroy(c); // the current context: the shared one replaces it
    assert_int_equal(m.bytes, 0);
    run_twice(4);
}

static void bad_options(void **state) {
    (void)state;
    Meter m;
    tg_context *c;
    tg_options o = options(&m, -1);
    assert_int_equal(tg_context_create(&o, &c), TG_ERROR_ARGUMENT);
    assert_int_equal(tg_context_create(NULL, NULL), TG_ERROR_ARGUMENT);
    o = options(&m, 1);
    o.size = 0;
    assert_int_equal(tg_context_create(&o, &c), TG_ERROR_ARGUMENT);
    o = options(&m, 1);
    o.release = NULL;
    assert_int_equal(tg_context_create(&o, &c), TG_ERROR_ARGUMENT);
    assert_string_equal(tg_last_error(), "options: allocate and release go together");
    o = options(&m, 2);
    o.size =
        offsetof(tg_options, allocate); // the size of an older version without the later fields
    assert_int_equal(tg_context_create(&o, &c), TG_OK);
    assert_int_equal(m.calls, 0);
    tg_context_destroy(c);
    tg_context_destroy(NULL);
    assert_true(tg_context_threads(NULL) >= 1);
}

/* ---- threads ------------------------------------------------------------------------------- */

enum { THREADS = 16, LAUNCHES = 200 };
static char failed; // its address is the result of threads that fail

static void *launch_often(void *context) {
    tg_context_use(context);
    for (int i = 0; i < LAUNCHES; i++) {
        float x[N] = {(float)i}, y[N] = {0};
        run_twice((float)i);
        if (run(&tiny, x, y) != TG_OK || y[0] != x[0]) return &failed;
        x[N / 2] = -1;
        if (run(&copy, x, y) != TG_ERROR_CONTRACT) return &failed;
        if (strcmp(tg_last_error(), "copy.teg:3:9: x[0] is -1") != 0) return &failed;
    }
    return NULL;
}

static void on_threads(tg_context *const *contexts, int n) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_often, contexts[i % n]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result = &failed;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
}

static void many_threads(void **state) {
    (void)state;
    Meter m;
    tg_options o = options(&m, 3);
    tg_context *own, *shared = NULL;
    on_threads(&shared, 1);
    assert_int_equal(tg_context_create(&o, &own), TG_OK);
    on_threads(&own, 1);
    tg_context *two[2] = {own, NULL};
    on_threads(two, 2);
    tg_context_destroy(own);
    assert_int_equal(m.bytes, 0);
}

static tg_variant shared_variant;

static int32_t nothing(const tg_slot *args, const tg_env *env) {
    (void)args, (void)env;
    return 0;
}

/// Compiles one call at a time, and once for equal requests.
static tg_status compile(void *user, const tg_wanted *wanted, const tg_variant **out) {
    (void)wanted;
    ++*(int *)user;
    shared_variant = (tg_variant){.entry = nothing};
    *out = &shared_variant;
    return TG_OK;
}

static void *launch_first(void *kernel) {
    float x[N] = {0}, y[N];
    return run(kernel, x, y) == TG_OK ? NULL : &failed;
}

static void first_launches(void **state) {
    (void)state;
    static const tg_compiler compiler = {.compile = compile};
    for (int round = 0; round < 20; round++) {
        int calls = 0;
        tg_kernel kernel;
        tg_kernel_info info = *twice.info;
        info.n_variants = 0;
        assert_int_equal(tg_kernel_open(&kernel, &info, &compiler, &calls), TG_OK);
        tg_kernel object = {.abi = TG_ABI, .info = twice.info}; // a launch makes its state
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, launch_first, i % 2 ? &kernel : &object);
        for (int i = 0; i < THREADS; i++) {
            void *result = &failed;
            pthread_join(threads[i], &result);
            assert_null(result);
        }
        assert_int_equal(calls, 1);
        tg_kernel_close(&kernel);
        tg_kernel_close(&object);
    }
}

/// A forked child has no worker threads, and still launches and exits.
static void forks(void **state) {
    (void)state;
    Meter m;
    tg_options o = options(&m, 3);
    tg_context *c;
    assert_int_equal(tg_context_create(&o, &c), TG_OK);
    tg_context_use(c);
    run_twice(1);
    pid_t child = fork();
    if (child == 0) {
        float x[N] = {5}, y[N];
        bool right = run(&twice, x, y) == TG_OK && y[0] == 10;
        tg_context_destroy(c);
        _exit(right ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    run_twice(2);
    tg_context_destroy(c);
}

/* ---- errors -------------------------------------------------------------------------------- */

static void *fail_elsewhere(void *arg) {
    (void)arg;
    if (*tg_last_error()) return &failed;
    tg_fail(TG_ERROR_SOURCE, "elsewhere");
    return strcmp(tg_last_error(), "elsewhere") ? &failed : NULL;
}

static void errors(void **state) {
    (void)state;
    char longer[3000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(tg_fail(TG_ERROR_SOURCE, "%s", longer), TG_ERROR_SOURCE);
    assert_string_equal(tg_last_error(), longer);
    tg_fail(TG_ERROR_SOURCE, "(%.5s)", tg_last_error()); // may quote the previous message
    tg_fail(TG_ERROR_SOURCE, "in f.teg: %s", tg_last_error());
    assert_string_equal(tg_last_error(), "in f.teg: (xxxxx)");
    pthread_t thread;
    void *result = &failed;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, &result);
    assert_null(result);
    assert_string_equal(tg_last_error(), "in f.teg: (xxxxx)");
    assert_string_equal(tg_status_name(TG_OK), "TG_OK");
    assert_string_equal(tg_status_name(TG_ERROR_INTERNAL), "TG_ERROR_INTERNAL");
    assert_string_equal(tg_status_name((tg_status)99), "unknown status");
    assert_string_equal(tg_version(), "0.1.0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_launches), cmocka_unit_test(nth_allocation_fails),
        cmocka_unit_test(hooks),         cmocka_unit_test(bad_options),
        cmocka_unit_test(many_threads),  cmocka_unit_test(first_launches),
        cmocka_unit_test(forks),         cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
