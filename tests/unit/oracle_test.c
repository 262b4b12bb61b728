// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter as judge of results: it accepts every correct setting, and rejects an error that
// all settings share, including the first one, with which the other checks only compare.
#include "driver/remote/oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_ARGS = 4, MOST_SETTINGS = 3 };
#define SECONDS 20.0

static const char source[] =
    "kernel product<T: float>(a: T[M, K], b: T[K, N], c: T[M, N]) tune BM = 32 | 64 | 8 {\n"
    "    parallel m in M by BM, n in N by 32 {\n"
    "        var s: f32<BM, 32> = 0;\n"
    "        for k in K by 64 { s += dot(a[m, k], b[k, n]); }\n"
    "        c[m, n] = s as T;\n"
    "    }\n"
    "}\n"
    "kernel rough<T: float>(a: T[M, K], b: T[K, N], c: T[M, N]) tune BM = 32 | 64 | 8 {\n"
    "    parallel m in M by BM, n in N by 32 {\n"
    "        var s: f32<BM, 32> = 0;\n"
    "        for k in K by 64 { s += dot(a[m, k], b[k, n]); }\n"
    "        c[m, n] = sin(2000 * s) as T;\n"
    "    }\n"
    "}\n"
    "kernel softmax<T: float>(x: T[R, N], y: T[R, N]) tune BR = 4 | 1 | 16 {\n"
    "    parallel r in R by BR {\n"
    "        let v = x[r, :] as f32;\n"
    "        let e = exp(v - max(v, axis = 1)[:, None]);\n"
    "        y[r, :] = (e / sum(e, axis = 1)[:, None]) as T;\n"
    "    }\n"
    "}\n"
    "kernel twice<T: float>(x: T[R, N], y: T[R, N]) tune BR = 4 | 1 | 16 {\n"
    "    parallel r in R by BR { y[r, :] = x[r, :] * 2; }\n"
    "    parallel r in R by BR { y[r, :] = y[r, :] + x[r, :]; }\n"
    "}\n"
    "kernel onto<T: float>(x: T[R, N], y: T[R, N]) tune BR = 4 | 1 | 16 {\n"
    "    parallel r in R by BR { y[r, :] = y[r, :] + x[r, :]; }\n"
    "}\n"
    "kernel totals<T: float>(x: T[R, N], t: f32[N]) tune BR = 4 | 1 | 16 {\n"
    "    parallel r in R by BR { combine(t[:], sum(x[r, :] as f32, axis = 0), add); }\n"
    "}\n"
    "kernel pick<T: float>(i: i64[R], x: T[S, N], y: T[R, N]) tune BR = 4 | 1 | 16 {\n"
    "    parallel r in R by BR { y[r, :] = x[i[r], :]; }\n"
    "}\n"
    "kernel greatest<T: float>(x: T[R, N], i: i64[R]) tune BR = 4 | 1 | 16 {\n"
    "    parallel r in R by BR { i[r] = argmax(x[r, :], axis = 1); }\n"
    "}\n"
    "kernel whole<T: float>(x: T[R, N], i: i32[R, N]) tune BR = 4 | 1 | 16 {\n"
    "    parallel r in R by BR { i[r, :] = (x[r, :] * 3 as T) as i32; }\n"
    "}\n";

/// An argument: a type (T: the case's, S: f32, I: i64, J: i32), dims, and for a view the argument
/// that it views.
typedef enum Kind { NONE, T, S, I, J } Kind;
typedef struct Case {
    const char *kernel;
    int n;
    struct {
        Kind kind;
        int rank;
        int64_t dims[2];
    } args[MOST_ARGS];
    const char *settings[MOST_SETTINGS];
    int view_of[MOST_ARGS]; // 1 + the argument; 0: memory of its own
    bool silent;            // no result has to be reproducible
} Case;

#define ROW_SETTINGS                                                                               \
    { "BR=4", "BR=1", "BR=16" }
#define TILES                                                                                      \
    { "BM=32", "BM=64", "BM=8" }

static const Case cases[] = {
    {"product", 3, {{T, 2, {70, 4096}}, {T, 2, {4096, 90}}, {T, 2, {70, 90}}}, TILES, {0}, false},
    {"rough", 3, {{T, 2, {70, 200}}, {T, 2, {200, 90}}, {T, 2, {70, 90}}}, TILES, {0}, false},
    {"softmax", 2, {{T, 2, {37, 300}}, {T, 2, {37, 300}}}, ROW_SETTINGS, {0}, false},
    {"softmax", 2, {{T, 2, {37, 300}}, {T, 2, {37, 300}}}, ROW_SETTINGS, {0, 1}, false},
    {"twice", 2, {{T, 2, {37, 300}}, {T, 2, {37, 300}}}, ROW_SETTINGS, {0}, false},
    {"onto", 2, {{T, 2, {37, 300}}, {T, 2, {37, 300}}}, ROW_SETTINGS, {0}, false},
    {"totals", 2, {{T, 2, {137, 100}}, {S, 1, {100}}}, ROW_SETTINGS, {0}, false},
    {"pick", 3, {{I, 1, {40}}, {T, 2, {64, 100}}, {T, 2, {40, 100}}}, ROW_SETTINGS, {0}, false},
    {"greatest", 2, {{T, 2, {70, 333}}, {I, 1, {70}}}, ROW_SETTINGS, {0}, false},
    {"whole", 2, {{T, 2, {70, 333}}, {J, 2, {70, 333}}}, ROW_SETTINGS, {0}, true},
};
enum { CASES = sizeof cases / sizeof *cases };

static const struct {
    const char *name;
    DLDataTypeCode code;
    int bits;
} types[] = {{"f32", kDLFloat, 32}, {"f16", kDLFloat, 16}, {"bf16", kDLBfloat, 16}};
enum { TYPES = 3, BF16 = 2 };

/// A case with its arguments, code and expected results.
typedef struct Bench {
    const Case *c;
    int type;
    Ctx *ctx;
    DLTensor tensors[MOST_ARGS];
    int64_t strides[MOST_ARGS][2];
    tg_arg args[MOST_ARGS];
    void *contents[MOST_ARGS];
    tg_module *modules[MOST_SETTINGS];
    const tg_variant *variants[MOST_SETTINGS];
    const tg_kernel_info *info;
    Oracle oracle;
    Precision precision;
} Bench;

static DLDataType type_of(const Bench *b, int i) {
    Kind k = b->c->args[i].kind;
    if (k == I || k == J) return (DLDataType){kDLInt, k == I ? 64 : 32, 1};
    if (k == S) return (DLDataType){kDLFloat, 32, 1};
    return (DLDataType){(uint8_t)types[b->type].code, (uint8_t)types[b->type].bits, 1};
}

static void make_tensor(Bench *b, int i) {
    int rank = b->c->args[i].rank;
    const int64_t *dims = b->c->args[i].dims;
    int at = b->c->view_of[i] ? b->c->view_of[i] - 1 : i;
    uintptr_t where = 0x10000000u * (uintptr_t)(at + 1);
    DLDataType type = type_of(b, i);
    b->tensors[i] = tg_dense((void *)where, (DLDataTypeCode)type.code, type.bits, rank, dims);
    b->tensors[i].strides = b->strides[i];
    b->strides[i][rank - 1] = 1;
    if (rank > 1) b->strides[i][0] = dims[1];
    b->args[i] = tg_tensor(&b->tensors[i]);
    if (b->c->args[i].kind != I && b->c->args[i].kind != J) return;
    size_t n = (size_t)(dims[0] * (rank > 1 ? dims[1] : 1));
    uint64_t *ids = b->contents[i] = calloc(n, 8);
    for (size_t k = 0; k < n; k++) ids[k] = k * 37 % 63;
}

static const tg_variant *variant_of(Bench *b, const char *setting, tg_module **module) {
    tg_module_options options = {.size = sizeof options, .settings = setting};
    tg_kernel *k;
    const tg_variant *v = NULL;
    if (tg_module_from_source(source, strlen(source), "oracle.teg", &options, module) ||
        tg_module_kernel(*module, b->c->kernel, &k))
        fail_msg("%s", tg_last_error());
    rt_launcher *l = rt_claim(rt_context());
    if (rt_bind(l, k->info, b->args, b->c->n) || rt_pick(k, l, &v, NULL))
        fail_msg("%s %s: %s", b->c->kernel, setting, tg_last_error());
    rt_give_back(l);
    b->info = k->info;
    return v;
}

static Request request_of(Bench *b) {
    SourceText *text = ctx_new(b->ctx, SourceText);
    tg_actual *args = ctx_array(b->ctx, tg_actual, b->c->n);
    *text = (SourceText){"oracle.teg", source, strlen(source)};
    for (int i = 0; i < b->c->n; i++)
        args[i] = (tg_actual){.code = b->tensors[i].dtype.code,
                              .bits = b->tensors[i].dtype.bits,
                              .rank = (int8_t)b->tensors[i].ndim,
                              .shape = b->tensors[i].shape,
                              .strides = b->tensors[i].strides,
                              .align = 16};
    return (Request){.path = text->path,
                     .n_texts = 1,
                     .texts = text,
                     .kernel = b->c->kernel,
                     .threads = 2,
                     .n_args = b->c->n,
                     .args = args};
}

static Bytes body_of(Bytes message) {
    return (Bytes){message.data + WIRE_HEADER, message.n - WIRE_HEADER};
}

/// Asks as a search does; a helper answers.
static void ask(Bench *b, double seconds) {
    WorkOpen open = {.request = request_of(b), .device = -1, .seed = 1, .n = b->c->n};
    WorkData *data = ctx_array(b->ctx, WorkData, b->c->n);
    Build build;
    Bytes out;
    for (int i = 0; i < b->c->n; i++) {
        data[i].address = (int64_t)(uintptr_t)b->tensors[i].data;
        size_t bytes = (size_t)b->tensors[i].dtype.bits / 8;
        for (int d = 0; d < b->tensors[i].ndim; d++) bytes *= (size_t)b->tensors[i].shape[d];
        if (b->contents[i]) data[i].contents = (Bytes){b->contents[i], bytes};
    }
    open.data = data;
    OracleAsk asked = {.open = body_of(work_write_open(b->ctx, &open)), .seconds = seconds};
    assert_true(oracle_answer(b->ctx, body_of(oracle_write_ask(b->ctx, &asked)), &out));
    assert_true(oracle_read(b->ctx, body_of(out), &b->oracle));
    assert_true(request_build(b->ctx, &open.request, &build) && build_elaborate(&build));
    b->precision = rounding_bounds_of(build.code->module);
}

static void bench_open(Ctx *ctx, Bench *b, const Case *c, int type) {
    *b = (Bench){.c = c, .type = type, .ctx = ctx};
    for (int i = 0; i < c->n; i++) make_tensor(b, i);
    for (int i = 0; i < MOST_SETTINGS; i++)
        b->variants[i] = variant_of(b, c->settings[i], &b->modules[i]);
    ask(b, SECONDS);
}

static void bench_close(Bench *b) {
    for (int i = 0; i < MOST_SETTINGS; i++) tg_module_destroy(b->modules[i]);
    for (int i = 0; i < b->c->n; i++) free(b->contents[i]);
}

/// Makes a trial as a worker does.
static rt_trial *trial_of(const Bench *b, bool expects) {
    rt_trial *t = NULL;
    rt_trial_options o = {.info = b->info,
                          .args = b->args,
                          .n = b->c->n,
                          .contents = (const void *const *)b->contents,
                          .seed = 1,
                          .way_bits = b->precision.way,
                          .sum_bits = b->precision.sum,
                          .exact = !b->precision.arithmetic};
    if (rt_trial_open(&o, &t)) fail_msg("%s", tg_last_error());
    if (expects && b->oracle.expected.n) rt_trial_expect(t, &b->oracle.expected);
    return t;
}

static void in_context(void (*test)(Ctx *ctx, void *arg)) {
    Ctx *ctx = ctx_create(NULL);
    assert_int_equal(ctx_protect(ctx, test, NULL), CTX_OK);
    ctx_destroy(ctx);
}

/* ---- honest ones ----------------------------------------------------------------------------- */

static void admit(Ctx *ctx, void *arg) {
    (void)arg;
    int all = 0;
    for (int k = 0; k < CASES * TYPES; k++) {
        Bench b;
        bench_open(ctx, &b, &cases[k / TYPES], k % TYPES);
        const char *type = types[b.type].name;
        if (!b.c->silent != (b.oracle.expected.n > 0))
            fail_msg("%s %s: %d samples: %s", b.c->kernel, type, b.oracle.expected.n, b.oracle.why);
        for (int first = 0; first < MOST_SETTINGS; first++) {
            rt_trial *t = trial_of(&b, true);
            for (int i = 0; i < MOST_SETTINGS; i++) {
                double seconds;
                const tg_variant *v = b.variants[(first + i) % MOST_SETTINGS];
                if (rt_trial_check(t, v, &seconds) != RT_RIGHT)
                    fail_msg("%s %s %s: %s", b.c->kernel, type, v->config, tg_last_error());
                assert_false(rt_trial_is_refuted(t));
            }
            rt_trial_close(t);
        }
        all += b.oracle.expected.n;
        bench_close(&b);
    }
    print_message("%d elements of the interpreter admit all settings\n", all);
}

/* ---- errors common to all variants ----------------------------------------------------------- */

static struct Bug {
    const tg_variant *real;
    int out, bits, ulps; // the changed result, and the change in units
    int short_by;        // missing terms of the sum
} bug;

/// The bits of elements are ordered by size, so adding one gives the next number.
static void move(const DLTensor *t, int ulps) {
    for (int64_t i = 0; i < t->shape[0] * (t->ndim > 1 ? t->shape[1] : 1); i++)
        if (bug.bits == 16)
            ((uint16_t *)t->data)[i] = (uint16_t)(((uint16_t *)t->data)[i] + ulps);
        else
            ((uint32_t *)t->data)[i] += (uint32_t)ulps;
}

static int32_t run_buggy(const tg_slot *args, const tg_env *env) {
    tg_slot own[MOST_ARGS];
    int64_t dims[2][2];
    memcpy(own, args, sizeof *args * (size_t)bug.real->n_params);
    for (int i = 0; i < 2 && bug.short_by; i++) {
        memcpy(dims[i], args[i].tensor.shape, sizeof dims[i]);
        dims[i][1 - i] -= bug.short_by;
        own[i].tensor.shape = dims[i];
    }
    int32_t status = bug.real->entry(own, env);
    const tg_slot *out = &args[bug.out];
    DLTensor t = {.data = (void *)(uintptr_t)out->tensor.data,
                  .ndim = 2,
                  .shape = (int64_t *)(uintptr_t)out->tensor.shape};
    if (!status && bug.ulps) move(&t, bug.ulps);
    return status;
}

static rt_verdict check(rt_trial *t, const tg_variant *v) {
    double seconds;
    return rt_trial_check(t, v, &seconds);
}

/// All settings have the bug, so only the interpreter finds it. With it, none of these is accepted,
/// and a setting without the bug is accepted in any order.
static void refute_one(const Bench *b, const char *what) {
    tg_variant wrong = *b->variants[0];
    bug.real = b->variants[0];
    wrong.entry = run_buggy;
    rt_trial *alone = trial_of(b, false), *told = trial_of(b, true);
    assert_int_equal(check(alone, &wrong), RT_RIGHT);
    if (check(told, &wrong) != RT_WRONG || !rt_trial_is_refuted(told))
        fail_msg("%s %s: %s was admitted", b->c->kernel, types[b->type].name, what);
    assert_non_null(strstr(tg_last_error(), "interpreter"));
    assert_int_equal(check(told, &wrong), RT_WRONG);
    assert_int_equal(check(told, b->variants[1]), RT_RIGHT);
    assert_int_equal(check(told, &wrong), RT_WRONG);
    assert_int_equal(check(told, b->variants[2]), RT_RIGHT);
    rt_trial_close(alone);
    rt_trial_close(told);
}

/// Errors near the bound: a sum of 4096 products that lacks one term, and numbers that are a few
/// units off.
static void refute(Ctx *ctx, void *arg) {
    (void)arg;
    static const int ulps[TYPES] = {16384, 4, 4};
    for (int type = 0; type < TYPES; type++) {
        Bench b;
        bench_open(ctx, &b, &cases[0], type);
        for (int short_by = 1; short_by <= 16; short_by *= 4) {
            bug = (struct Bug){.short_by = short_by, .bits = types[type].bits, .out = 2};
            refute_one(&b, "a short sum");
        }
        bug = (struct Bug){.ulps = ulps[type], .bits = types[type].bits, .out = 2};
        refute_one(&b, "an error of some units");
        bench_close(&b);
        bench_open(ctx, &b, &cases[2], type);
        bug = (struct Bug){.ulps = ulps[type] / 4 * 4, .bits = types[type].bits, .out = 1};
        refute_one(&b, "an error of some units");
        bench_close(&b);
    }
}

/// Allowed rounding is no error: one unit for a bound of 2.5 units, and another order for f32 sums.
static void bear(Ctx *ctx, void *arg) {
    (void)arg;
    Bench b;
    for (int type = 0; type < TYPES; type++) {
        bench_open(ctx, &b, &cases[2], type);
        bug = (struct Bug){.real = b.variants[0], .ulps = 1, .bits = types[type].bits, .out = 1};
        tg_variant other = *b.variants[0];
        other.entry = run_buggy;
        rt_trial *t = trial_of(&b, true);
        if (check(t, &other) != RT_RIGHT) fail_msg("%s: %s", types[type].name, tg_last_error());
        rt_trial_close(t);
        bench_close(&b);
    }
    bench_open(ctx, &b, &cases[1], 0);
    assert_true(b.oracle.expected.noise[2] > 1e-5); // a sine of large numbers
    bench_close(&b);
    bench_open(ctx, &b, &cases[0], 0);
    assert_true(b.oracle.expected.noise[2] < 1e-5);
    bench_close(&b);
}

/* ---- programs without time for a check ------------------------------------------------------- */

static void give_up(Ctx *ctx, void *arg) {
    (void)arg;
    static const Case large = {"twice",      2,   {{T, 2, {4000, 4000}}, {T, 2, {4000, 4000}}},
                               ROW_SETTINGS, {0}, false};
    static const Case many = {
        "product", 3,   {{T, 2, {20000, 2048}}, {T, 2, {2048, 20000}}, {T, 2, {20000, 20000}}},
        TILES,     {0}, false};
    Bench b = {.c = &large, .ctx = ctx};
    for (int i = 0; i < large.n; i++) make_tensor(&b, i);
    ask(&b, 0.3);
    assert_int_equal(b.oracle.expected.n, 0);
    assert_non_null(strstr(b.oracle.why, "too long"));
    // If programs are independent, a few suffice, however many exist.
    b = (Bench){.c = &many, .ctx = ctx};
    for (int i = 0; i < many.n; i++) make_tensor(&b, i);
    for (double seconds = 2; seconds < 100 && !b.oracle.expected.n; seconds *= 2) ask(&b, seconds);
    assert_true(b.oracle.programs > 1 && b.oracle.expected.n >= 256);
}

static void test_admits(void **state) {
    (void)state;
    in_context(admit);
}
static void test_refutes(void **state) {
    (void)state;
    in_context(refute);
}
static void test_bears(void **state) {
    (void)state;
    in_context(bear);
}
static void test_gives_up(void **state) {
    (void)state;
    in_context(give_up);
}

int main(void) {
    setenv("TG_CACHE", "off", 1);
    setenv("TG_TUNE", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admits),
        cmocka_unit_test(test_refutes),
        cmocka_unit_test(test_bears),
        cmocka_unit_test(test_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
