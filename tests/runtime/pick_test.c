// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the choice of a launch's variant: facts, levels, hints, and a compiler behind it.
#include "tests/runtime/kernels.h"

#include "runtime/compiler.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static float memory[2][1 << 20];

/// Launches attend on q, o: type[n, d].
static tg_status run(tg_kernel *kernel, int bits, int64_t n, int64_t d, int causal,
                     const int64_t *strides) {
    int64_t shape[2] = {n, d};
    DLTensor q = tg_dense(memory[0], kDLFloat, bits, 2, shape);
    DLTensor o = tg_dense(memory[1], kDLFloat, bits, 2, shape);
    q.strides = (int64_t *)(uintptr_t)strides;
    tg_arg args[6] = {tg_tensor(&q),  tg_none(),     tg_tensor(&o),
                      tg_int(causal), tg_float(1.0), tg_int(1)};
    seen.variant = -1;
    return tg_launch(kernel, args, 6);
}

static void expect(int64_t n, int64_t d, const int64_t *strides, int variant) {
    assert_int_equal(run(&attend, 32, n, d, 0, strides), TG_OK);
    assert_int_equal(seen.variant, variant);
}

static void nearest_hints(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) { // also when the memo has it
        expect(1, 64, NULL, 1);
        expect(16, 64, NULL, 1);
        expect(255, 64, NULL, 1);
        expect(257, 64, NULL, 2);
        expect(16384, 64, NULL, 2);
    }
}

static void most_facts(void **state) {
    (void)state;
    int64_t wide[2] = {128, 1}, transposed[2] = {1, 64};
    expect(64, 64, wide, 1);
    expect(64, 64, transposed, 0);
    assert_int_equal(run(&attend, 16, 64, 64, 1, NULL), TG_OK);
    assert_int_equal(seen.variant, 5);
}

static void not_found(void **state) {
    (void)state;
    assert_int_equal(run(&attend, 32, 16, 96, 1, NULL), TG_ERROR_NOT_FOUND);
    assert_int_equal(seen.variant, -1);
    assert_string_equal(
        tg_last_error(),
        "attend: no code for q f32[16, 96], bias none, o f32[16, 96], causal = 1, scale a number, "
        "k = 1; compiled for T = f32 | f16, causal = 0 | 1, D = 64 | 128, bias = none | a tensor, "
        "stride of D in 'q' = 1, stride of D in 'o' = 1 (tegula build --export and --given compile "
        "for more)");
}

/// All of a kernel's code is for CPUs with more than this one has.
static void no_code_for_this_cpu(void **state) {
    (void)state;
    static const uint8_t both[] = {0, 1};
    static const tg_variant above[] = {
        {.entry = tiny_entry, .params = both, .n_params = 2, .config = "", .level = TG_LEVELS}};
    tg_kernel_info info = *tiny.info;
    tg_kernel kernel;
    int64_t n = 4;
    DLTensor x = row(memory[0], &n), y = row(memory[1], &n);
    info.variants = above;
    info.n_variants = 1;
    assert_int_equal(tg_kernel_open(&kernel, &info, NULL, NULL), TG_OK);
    tg_arg args[2] = {tg_tensor(&x), tg_tensor(&y)};
    assert_int_equal(tg_launch(&kernel, args, 2), TG_ERROR_NOT_FOUND);
    assert_string_equal(tg_last_error(),
                        "tiny: no code for x f32[4], y f32[4]; compiled for no arguments at all on "
                        "this CPU (tegula build --export and --given compile for more)");
    tg_kernel_close(&kernel);
}

static tg_status run_ranged(int64_t n, int64_t stride, int from, int to, tg_arg a) {
    DLTensor x = tg_dense((char *)memory[0] + from, kDLInt, 4, 1, &n);
    DLTensor y = tg_dense((char *)memory[0] + to, kDLInt, 4, 1, &n);
    x.strides = &stride;
    tg_arg args[3] = {tg_tensor(&x), a, tg_tensor(&y)};
    seen.variant = -1;
    return tg_launch(&ranged, args, 3);
}

static void ranges(void **state) {
    (void)state;
    static const struct {
        int64_t n, stride;
        int variant;
    } cases[] = {{9, 1, -1}, {10, 1, 0},  {20, 1, 0},  {21, 1, -1}, {9, 0, -1},
                 {9, 2, 1},  {9, -1, 1},  {1, 1, 1},   {1, 0, 1},   {10, 2, 0},
                 {0, 2, 1},  {21, -3, 1}, {20, -3, 0}, {20, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool right = cases[i].variant >= 0;
        tg_status status = run_ranged(cases[i].n, cases[i].stride, 1000, 2000, tg_int(1));
        assert_int_equal(status, right ? TG_OK : TG_ERROR_NOT_FOUND);
        assert_int_equal(seen.variant, cases[i].variant);
    }
    assert_string_equal(tg_kernel_name(&ranged), "ranged");
    assert_int_equal(run_ranged(9, 1, 0, 100, tg_int(1)), TG_ERROR_NOT_FOUND);
    assert_string_equal(tg_last_error(), "ranged: no code for x i4[9], a = 1, y i4[9]; compiled "
                                         "for N >= 10, N <= 20, stride of N in 'x' = other (tegula "
                                         "build --export and --given compile for more)");
}

/// 11 elements of 4 bits are 6 bytes.
static void half_bytes(void **state) {
    (void)state;
    assert_int_equal(run_ranged(11, 1, 0, 6, tg_int(1)), TG_OK);
    assert_int_equal(run_ranged(11, 1, 0, 5, tg_int(1)), TG_ERROR_CONTRACT);
    assert_int_equal(run_ranged(11, 1, 6, 0, tg_int(1)), TG_OK);
    assert_int_equal(run_ranged(11, 1, 5, 0, tg_int(1)), TG_ERROR_CONTRACT);
    assert_int_equal(run_ranged(11, -1, 10, 0, tg_int(1)), TG_ERROR_CONTRACT); // 5 bytes below
    assert_int_equal(run_ranged(11, -1, 11, 0, tg_int(1)), TG_OK);
}

/// No tensor determines A, but the number does.
static void open_types(void **state) {
    (void)state;
    double d = 0;
    float f = 2.5f;
    assert_int_equal(run_ranged(10, 1, 0, 10, tg_int(-5)), TG_OK);
    assert_int_equal((int64_t)seen.slots[0].bits, -5);
    assert_int_equal(run_ranged(10, 1, 0, 10, tg_float(2.5)), TG_OK);
    memcpy(&d, &f, sizeof f);
    assert_memory_equal(&seen.slots[0].bits, &d, sizeof d);
}

/* ---- levels -------------------------------------------------------------------------------- */

/// The variant for D = 128 in a process with TG_LEVEL=level.
static int variant_at(const char *level) {
    char command[4096 + 64], self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    snprintf(command, sizeof command, "TG_LEVEL=%s '%s' variant", level, self);
    return WEXITSTATUS(system(command));
}

static int exit_with_variant(void) {
    return run(&attend, 32, 16, 128, 0, NULL) == TG_OK ? seen.variant : 99;
}

static void levels(void **state) {
    (void)state;
    int best = tg_cpu_level() >= TG_LEVEL_V3 ? 6 : 3;
    expect(16, 128, NULL, best);
    assert_int_equal(variant_at("base"), 3);
    assert_int_equal(variant_at("v3"), best);
    assert_int_equal(variant_at("amx"), best);
    assert_int_equal(variant_at("nonsense"), best);
}

/* ---- a compiler ---------------------------------------------------------------------------- */

enum { MADE = 40 };

typedef struct Compiler {
    int calls;
    tg_status status;
    bool wrong;
    tg_variant made[MADE];
    tg_fact facts[MADE][2];
    tg_hint hints[MADE];
    tg_actual actuals[6]; // of the last call
} Compiler;

static int32_t compiled(const tg_slot *args, const tg_env *env) {
    (void)args, (void)env;
    seen.variant = 0;
    return 0;
}

/// Makes code for one type, one D, and hints for N.
static tg_status compile(void *user, const tg_wanted *wanted, const tg_variant **out) {
    const tg_actual *args = wanted->args;
    assert_int_equal(wanted->capability, 0);
    assert_false(wanted->captured);
    Compiler *c = user;
    int i = c->calls++;
    memcpy(c->actuals, args, sizeof *args * (size_t)wanted->n);
    if (c->status) return tg_fail(c->status, "does not compile");
    c->facts[i][0] = (tg_fact){TG_FACT_TYPE, 0, 0, 0, 0, args[0].code << 8 | args[0].bits};
    c->facts[i][1] = (tg_fact){TG_FACT_EXTENT, 0, 1, 0, 0, args[0].shape[1] + c->wrong};
    c->hints[i] = (tg_hint){0, 0, {0}, args[0].shape[0]};
    c->made[i] = (tg_variant){.entry = compiled,
                              .facts = c->facts[i],
                              .hints = &c->hints[i],
                              .config = "BM=8",
                              .n_facts = 2,
                              .n_hints = 1};
    *out = &c->made[i];
    return TG_OK;
}

static const tg_compiler compiler = {.compile = compile};

static void compiles_once(void **state) {
    (void)state;
    Compiler c = {0};
    tg_kernel kernel;
    assert_int_equal(tg_kernel_open(&kernel, &attend_info, &compiler, &c), TG_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(&kernel, 32, 16, 64, 0, NULL), TG_OK);
        assert_int_equal(run(&kernel, 16, 16, 64, 0, NULL), TG_OK);
        assert_int_equal(run(&kernel, 32, 16, 65, 0, NULL), TG_OK);
    }
    assert_int_equal(c.calls, 3);
    assert_int_equal(c.actuals[0].rank, 2);
    assert_int_equal(c.actuals[0].shape[1], 65);
    assert_int_equal(c.actuals[0].strides[0], 65);
    assert_int_equal(c.actuals[1].null, 1);
    assert_int_equal(c.actuals[3].value, 0);
    assert_int_equal(c.actuals[4].code << 8 | c.actuals[4].bits, kDLFloat << 8 | 32);
    for (int i = 0; i < 30; i++) // the list of variants grows
        assert_int_equal(run(&kernel, 32, 16, 100 + i, 0, NULL), TG_OK);
    assert_int_equal(c.calls, 33);
    assert_int_equal(run(&kernel, 32, 16, 64, 0, NULL), TG_OK);
    assert_int_equal(c.calls, 33);
    tg_kernel_close(&kernel);
}

static void far_extents(void **state) {
    (void)state;
    Compiler c = {0};
    tg_kernel kernel;
    assert_int_equal(tg_kernel_open(&kernel, &attend_info, &compiler, &c), TG_OK);
    assert_int_equal(run(&kernel, 32, 16, 64, 0, NULL), TG_OK);
    assert_int_equal(run(&kernel, 32, 128, 64, 0, NULL), TG_OK); // a factor of 8 is near enough
    assert_int_equal(c.calls, 1);
    assert_int_equal(run(&kernel, 32, 129, 64, 0, NULL), TG_OK);
    assert_int_equal(c.calls, 2);
    c.status = TG_ERROR_UNSUPPORTED; // existing variants serve
    for (int i = 0; i < 3; i++) assert_int_equal(run(&kernel, 32, 8192, 64, 0, NULL), TG_OK);
    assert_int_equal(c.calls, 3);
    tg_kernel_close(&kernel);
}

static void compiler_fails(void **state) {
    (void)state;
    Compiler c = {.status = TG_ERROR_SOURCE};
    tg_kernel kernel;
    assert_int_equal(tg_kernel_open(&kernel, &attend_info, &compiler, &c), TG_OK);
    assert_int_equal(run(&kernel, 32, 16, 64, 0, NULL), TG_ERROR_SOURCE);
    assert_string_equal(tg_last_error(), "does not compile");
    c.status = TG_OK;
    c.wrong = true;
    assert_int_equal(run(&kernel, 32, 16, 64, 0, NULL), TG_ERROR_INTERNAL);
    c.wrong = false;
    assert_int_equal(run(&kernel, 32, 16, 64, 0, NULL), TG_OK);
    tg_kernel_close(&kernel);
}

/* ---- tuned variants ------------------------------------------------------------------------ */

/// A tuned variant replaces an equal one at its extents, also for remembered launches. The later of
/// two wins. It is not preferred at other extents, nor to a variant with more facts.
static void tuned_ones(void **state) {
    (void)state;
    static const tg_hint rows_64[] = {{0, 0, {0}, 64}};
    Compiler c = {0};
    tg_kernel kernel;
    const tg_variant *made = attend.info->variants;
    assert_int_equal(tg_kernel_open(&kernel, attend.info, &compiler, &c), TG_OK);
    tg_variant tuned[3] = {made[2], made[1], made[0]};
    for (int i = 0; i < 3; i++) {
        tuned[i].hints = rows_64;
        tuned[i].n_hints = 1;
        tuned[i].tuned = 1;
    }
    static const int wanted[4] = {1, 2, 1, 1};
    for (int k = 0; k < 4; k++) {
        for (int round = 0; round < 2; round++) {
            assert_int_equal(run(&kernel, 32, 64, 64, 0, NULL), TG_OK);
            assert_int_equal(seen.variant, wanted[k]);
            assert_int_equal(run(&kernel, 32, 16, 64, 0, NULL), TG_OK);
            assert_int_equal(seen.variant, 1);
            assert_int_equal(run(&kernel, 32, 4096, 64, 0, NULL), TG_OK);
            assert_int_equal(seen.variant, 2);
        }
        if (k < 3) assert_int_equal(tg_kernel_adopt(&kernel, &tuned[k]), TG_OK);
    }
    tg_kernel_close(&kernel);
}

/// A tuned variant serves extents within a factor of 1.4; for others the compiler is called.
static void near_tuned_extents(void **state) {
    (void)state;
    Compiler c = {0};
    tg_kernel kernel;
    assert_int_equal(tg_kernel_open(&kernel, &attend_info, &compiler, &c), TG_OK);
    assert_int_equal(run(&kernel, 32, 64, 64, 0, NULL), TG_OK);
    tg_variant tuned = c.made[0];
    tuned.tuned = 1;
    assert_int_equal(tg_kernel_adopt(&kernel, &tuned), TG_OK);
    assert_int_equal(run(&kernel, 32, 88, 64, 0, NULL), TG_OK);
    assert_int_equal(run(&kernel, 32, 50, 64, 0, NULL), TG_OK);
    assert_int_equal(c.calls, 1);
    assert_int_equal(run(&kernel, 32, 100, 64, 0, NULL), TG_OK);
    assert_int_equal(c.calls, 2);
    tg_kernel_close(&kernel);
}

enum { LAUNCHERS = 16, ADOPTIONS = 300 };
static tg_kernel swapped;
static _Atomic int adopted; // number of the last one; -1: all are adopted
static tg_variant adoptions[ADOPTIONS];

/// Launches until all variants were adopted.
static void *keep_launching(void *arg) {
    int64_t n = 16 + 16 * (int64_t)(uintptr_t)arg % 64;
    int bad = 0;
    for (bool last = false; !last;) {
        int before = adopted;
        last = before == ADOPTIONS;
        bad += run(&swapped, 32, n, 64, 0, NULL) != TG_OK;
        bad += seen.variant != 1 && seen.variant != 2;
        if (last) bad += seen.variant != 1 + ADOPTIONS % 2;
    }
    return (void *)(uintptr_t)bad;
}

/// Launches on many threads while variants are swapped in. Each runs one or the other, and after
/// the last swap all run the last.
static void swapped_while_launched(void **state) {
    (void)state;
    Compiler c = {0};
    pthread_t threads[LAUNCHERS];
    const tg_variant *made = attend.info->variants;
    assert_int_equal(tg_kernel_open(&swapped, attend.info, &compiler, &c), TG_OK);
    for (int i = 0; i < LAUNCHERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_launching, (void *)(uintptr_t)i),
                         0);
    for (int i = 0; i < ADOPTIONS; i++) {
        adoptions[i] = made[1 + (i + 1) % 2];
        adoptions[i].n_hints = 0; // as near as possible
        adoptions[i].tuned = 1;
        assert_int_equal(tg_kernel_adopt(&swapped, &adoptions[i]), TG_OK);
        adopted = i + 1;
        if (i % 16 == 0) sched_yield();
    }
    for (int i = 0; i < LAUNCHERS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    tg_kernel_close(&swapped);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return exit_with_variant();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_hints),
        cmocka_unit_test(near_tuned_extents),
        cmocka_unit_test(most_facts),
        cmocka_unit_test(ranges),
        cmocka_unit_test(half_bytes),
        cmocka_unit_test(open_types),
        cmocka_unit_test(not_found),
        cmocka_unit_test(levels),
        cmocka_unit_test(no_code_for_this_cpu),
        cmocka_unit_test(compiles_once),
        cmocka_unit_test(far_extents),
        cmocka_unit_test(compiler_fails),
        cmocka_unit_test(tuned_ones),
        cmocka_unit_test(swapped_while_launched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
