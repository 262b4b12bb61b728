// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The n-th allocation through a context's hooks fails. The operation must end in a status and free
// its memory, and the same operation must succeed afterwards.
#include "support.h"

#include <stdlib.h>
#include <string.h>

static const char source[] =
    "import \"std/softmax.teg\";\n"
    "kernel rows<T: float>(x: T[M, N], y: T[M, N]) tune B = 1 | 4 {\n"
    "    parallel m in M by B { let n = cover(N); y[m, n] = exp(x[m, n]); }\n"
    "}\n";

typedef struct Meter {
    long left, taken, alive;
    size_t bytes;
} Meter;

static void *take(void *user, size_t bytes) {
    Meter *m = user;
    m->taken++;
    if (m->left-- <= 0) return NULL;
    m->alive++;
    m->bytes += bytes;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void give(void *user, void *memory, size_t bytes) {
    Meter *m = user;
    m->alive--;
    m->bytes -= bytes;
    free(memory);
}

static tg_status launch(tg_module *m, int64_t n) {
    static float x[4 * 100], y[4 * 100];
    View vx, vy;
    tg_kernel *k;
    view(&vx, &types[1], x, 2, (int64_t[]){4, n}, NULL);
    view(&vy, &types[1], y, 2, (int64_t[]){4, n}, NULL);
    tg_status status = tg_module_kernel(m, "rows", &k);
    return status ? status : tg_launch(k, (tg_arg[]){tg_tensor(&vx.t), tg_tensor(&vy.t)}, 2);
}

/// Performs every operation. The first failure ends it.
static tg_status use_all(Meter *meter, bool recovers) {
    tg_options o = {
        .size = sizeof o, .threads = 2, .user = meter, .allocate = take, .release = give};
    tg_context *c;
    tg_module *m = NULL;
    tg_status status = tg_context_create(&o, &c);
    if (status) return status;
    tg_context *before = tg_context_use(c);
    status = tg_module_from_source(source, sizeof source - 1, "rows.teg", NULL, &m);
    if (!status) status = launch(m, 20);
    if (!status) status = launch(m, 100);
    if (m && recovers) {
        meter->left = 1000000;
        OK(launch(m, 20)); // the module works as before
    }
    tg_module_destroy(m);
    tg_context_use(before);
    tg_context_destroy(c);
    return status;
}

/// The places of a module that report the lack of memory.
static const char *const places[] = {"module 'rows.teg': out of memory",
                                     "module 'rows.teg': compiling 'rows': out of memory"};

static void test_every_allocation(void **state) {
    (void)state;
    Meter m = {.left = 1000000};
    int seen[2] = {0};
    OK(use_all(&m, false));
    long all = m.taken;
    assert_true(all > 10);
    assert_int_equal(m.alive, 0);
    assert_int_equal(m.bytes, 0);
    // Under sanitizers each block comes from the hooks. A few hundred of these allocations are
    // tried.
    for (long n = 0; n < all; n += 1 + all / 300) {
        m = (Meter){.left = n};
        FAILS(use_all(&m, n % 3 == 0), TG_ERROR_MEMORY, "out of memory");
        for (int i = 0; i < 2; i++) seen[i] += strstr(tg_last_error(), places[i]) != NULL;
        assert_int_equal(m.alive, 0);
        assert_int_equal(m.bytes, 0);
    }
    if (all <= 300) // each one failed
        for (int i = 0; i < 2; i++)
            if (!seen[i]) fail_msg("no failure says: %s", places[i]);
    print_message("%ld allocations\n", all);
}

/// The compiler's memory belongs to the module's context. A warm launch allocates none.
static void test_warm(void **state) {
    (void)state;
    Meter meter = {.left = 1000000};
    tg_options o = {
        .size = sizeof o, .threads = 1, .user = &meter, .allocate = take, .release = give};
    tg_context *c;
    tg_module *m;
    OK(tg_context_create(&o, &c));
    tg_context_use(c);
    OK(tg_module_from_source(source, sizeof source - 1, "rows.teg", NULL, &m));
    OK(launch(m, 20));
    long taken = meter.taken;
    for (int i = 0; i < 100; i++) OK(launch(m, 20));
    assert_int_equal(meter.taken, taken);
    OK(launch(m, 21)); // another extent of the same step needs no code
    assert_int_equal(meter.taken, taken);
    tg_module_destroy(m);
    tg_context_use(NULL);
    tg_context_destroy(c);
    assert_int_equal(meter.alive, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation),
        cmocka_unit_test(test_warm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
