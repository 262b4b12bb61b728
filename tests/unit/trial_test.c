// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trials of compiled kernels: they must accept every correct setting and no miscompile. The test
// injects miscompiles: a wrapper runs the real code and then corrupts the result as wrong code
// would.
#include "runtime/tune/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_ARGS = 12, MOST_SETTINGS = 8, INJECTIONS = 1800, LOOKS = 2048 };

/* ---- cases ---------------------------------------------------------------------------------- */

/// T: the case's type; PADDED: with rows 3 elements longer than needed; S: f32; I: i64.
typedef enum Kind { NONE, T, PADDED, S, I, INT, FLOAT, SAME } Kind;
typedef struct Arg {
    Kind kind;
    int rank;
    int64_t dims[4];
    double value; // value of a number; for SAME the argument that it views
} Arg;

typedef struct Case {
    const char *file, *kernel;
    int n;
    Arg args[MOST_ARGS];
    const char *settings[MOST_SETTINGS];
    int shortened[2][2]; // slot and axis of the sum that is shortened, or slot -1
    bool exact;
    int way_bits;
} Case;

#define NO_SUM                                                                                     \
    {                                                                                              \
        {-1, 0}, {                                                                                 \
            -1, 0                                                                                  \
        }                                                                                          \
    }

static const Case cases[] = {
    {"std/matmul.teg",
     "matmul",
     3,
     {{T, 2, {65, 130}, 0}, {T, 2, {130, 70}, 0}, {PADDED, 2, {65, 70}, 0}},
     {"BM=64 BN=64 BK=32", "BM=128 BN=64 BK=64", "BM=16 BN=16 BK=128", "BM=8 BN=112 BK=128",
      "BM=256 BN=64 BK=32"},
     {{0, 1}, {1, 0}},
     false,
     24},
    {"std/softmax.teg",
     "softmax",
     2,
     {{T, 2, {37, 300}, 0}, {PADDED, 2, {37, 300}, 0}},
     {"BR=1", "BR=4"},
     NO_SUM,
     false,
     24},
    {"std/softmax.teg",
     "softmax_long",
     2,
     {{T, 2, {5, 5000}, 0}, {T, 2, {5, 5000}, 0}},
     {"BN=1024", "BN=4096"},
     NO_SUM,
     false,
     24},
    {"std/norm.teg",
     "layer_norm_long",
     5,
     {{T, 2, {9, 1500}, 0},
      {T, 1, {1500}, 0},
      {T, 1, {1500}, 0},
      {PADDED, 2, {9, 1500}, 0},
      {FLOAT, 0, {0}, 1e-5}},
     {"BN=1024", "BN=4096"},
     NO_SUM,
     false,
     24},
    {"std/norm.teg",
     "layer_norm",
     7,
     {{T, 2, {33, 200}, 0},
      {T, 1, {200}, 0},
      {NONE, 0, {0}, 0},
      {T, 2, {33, 200}, 0},
      {S, 1, {33}, 0},
      {S, 1, {33}, 0},
      {FLOAT, 0, {0}, 1e-5}},
     {"BR=1", "BR=4"},
     NO_SUM,
     false,
     24},
    {"std/attention.teg",
     "attention",
     8,
     {{T, 4, {1, 2, 70, 32}, 0},
      {T, 4, {1, 2, 90, 32}, 0},
      {T, 4, {1, 2, 90, 32}, 0},
      {NONE, 0, {0}, 0},
      {T, 4, {1, 2, 70, 32}, 0},
      {S, 3, {1, 2, 70}, 0},
      {FLOAT, 0, {0}, 0.17},
      {INT, 0, {0}, 0}},
     {"BM=64 BN=64", "BM=128 BN=32", "BM=16 BN=128"},
     {{1, 2}, {2, 2}},
     false,
     0},
    {"std/conv.teg",
     "conv2d",
     11,
     {{T, 4, {1, 6, 12, 13}, 0},
      {T, 4, {10, 6, 3, 3}, 0},
      {T, 1, {10}, 0},
      {T, 4, {1, 10, 12, 13}, 0},
      {INT, 0, {0}, 1},
      {INT, 0, {0}, 1},
      {INT, 0, {0}, 1},
      {INT, 0, {0}, 1},
      {INT, 0, {0}, 1},
      {INT, 0, {0}, 1},
      {INT, 0, {0}, 0}},
     {"BF=64 BM=64 BK=8", "BF=16 BM=128 BK=16", "BF=128 BM=64 BK=64"},
     NO_SUM,
     false,
     24},
    {"std/reduce.teg",
     "sum_last",
     2,
     {{T, 2, {50, 4100}, 0}, {T, 1, {50}, 0}},
     {"BR=1 BN=64", "BR=8 BN=16", "BR=1 BN=4096"},
     {{0, 1}, {-1, 0}},
     false,
     24},
    {"std/scan.teg",
     "cumsum_last",
     2,
     {{T, 2, {6, 700}, 0}, {T, 2, {6, 700}, 0}},
     {"BR=1 BN=64", "BR=4 BN=256", "BR=1 BN=1024"},
     NO_SUM,
     false,
     24},
    {"std/elementwise.teg",
     "map_relu",
     2,
     {{T, 1, {9000}, 0}, {SAME, 0, {0}, 0}},
     {"B=2048", "B=8192"},
     NO_SUM,
     true,
     0}, // in place
    {"std/reduce.teg",
     "argmax_last",
     2,
     {{T, 2, {70, 333}, 0}, {I, 1, {70}, 0}},
     {"BR=1 BN=16", "BR=8 BN=64", "BR=1 BN=2048"},
     NO_SUM,
     true,
     0},
    {"std/embedding.teg",
     "embedding",
     3,
     {{I, 1, {40}, 0}, {T, 2, {64, 100}, 0}, {PADDED, 2, {40, 100}, 0}},
     {"BN=4 BD=64", "BN=16 BD=512"},
     NO_SUM,
     true,
     0},
};
enum { CASES = sizeof cases / sizeof *cases };

static const struct {
    const char *name;
    DLDataTypeCode code;
    int bits;
} types[] = {{"f32", kDLFloat, 32}, {"f16", kDLFloat, 16}, {"bf16", kDLBfloat, 16}};
enum { TYPES = 3 };

/// A case's arguments, and its variants, which modules own.
typedef struct Bench {
    const Case *c;
    int type;
    DLTensor tensors[MOST_ARGS];
    int64_t strides[MOST_ARGS][4];
    tg_arg args[MOST_ARGS];
    void *contents[MOST_ARGS];
    int n;
    tg_module *modules[MOST_SETTINGS];
    const tg_variant *variants[MOST_SETTINGS];
    const tg_kernel_info *info;
} Bench;

/// Gives each tensor an address of its own.
static void make_tensor(Bench *b, int i) {
    const Arg *a = &b->c->args[i];
    int bits = a->kind == I ? 64 : a->kind == S ? 32 : types[b->type].bits;
    DLDataTypeCode code = a->kind == I ? kDLInt : a->kind == S ? kDLFloat : types[b->type].code;
    uintptr_t where = 0x10000000u * (uintptr_t)(i + 1);
    b->tensors[i] = tg_dense((void *)where, code, bits, a->rank, a->dims);
    b->tensors[i].strides = b->strides[i];
    int64_t stride = 1, n = 1;
    for (int d = a->rank - 1; d >= 0; d--) {
        b->strides[i][d] = stride;
        stride *= a->dims[d] + (a->kind == PADDED && d == a->rank - 1 ? 3 : 0);
        n *= a->dims[d];
    }
    b->args[i] = tg_tensor(&b->tensors[i]);
    if (a->kind != I) return;
    int64_t *ids = calloc((size_t)n, sizeof *ids);
    for (int64_t k = 0; k < n; k++) ids[k] = k * 37 % 63;
    b->contents[i] = ids;
}

static const tg_variant *variant_of(Bench *b, const char *setting, tg_module **module) {
    tg_module_options options = {.size = sizeof options, .settings = setting};
    tg_kernel *k;
    const tg_variant *v = NULL;
    if (tg_module_from_file(b->c->file, &options, module) ||
        tg_module_kernel(*module, b->c->kernel, &k))
        fail_msg("%s", tg_last_error());
    rt_launcher *l = rt_claim(rt_context());
    if (rt_bind(l, k->info, b->args, b->c->n) || rt_pick(k, l, &v, NULL))
        fail_msg("%s %s: %s", b->c->kernel, setting, tg_last_error());
    rt_give_back(l);
    b->info = k->info;
    return v;
}

static void bench_open(Bench *b, const Case *c, int type) {
    *b = (Bench){.c = c, .type = type};
    for (int i = 0; i < c->n; i++) {
        const Arg *a = &c->args[i];
        if (a->kind == NONE)
            b->args[i] = tg_none();
        else if (a->kind == INT)
            b->args[i] = tg_int((int64_t)a->value);
        else if (a->kind == FLOAT)
            b->args[i] = tg_float(a->value);
        else if (a->kind == SAME)
            b->args[i] = b->args[(int)a->value];
        else
            make_tensor(b, i);
    }
    for (; b->n < MOST_SETTINGS && c->settings[b->n]; b->n++)
        b->variants[b->n] = variant_of(b, c->settings[b->n], &b->modules[b->n]);
}

static Bench benches[CASES][TYPES];

/// Made once for all tests, because compiling takes longer than testing.
static const Bench *bench_of(int i, int type) {
    Bench *b = &benches[i][type];
    if (!b->c) bench_open(b, &cases[i], type);
    return b;
}

static int close_benches(void **state) {
    (void)state;
    for (int k = 0; k < CASES * TYPES; k++) {
        Bench *b = &benches[k / TYPES][k % TYPES];
        for (int i = 0; i < b->n; i++) tg_module_destroy(b->modules[i]);
        for (int i = 0; b->c && i < b->c->n; i++) free(b->contents[i]);
    }
    return 0;
}

/// looks: bytes of a tensor that checks read
static rt_trial *trial_of(const Bench *b, uint64_t seed, size_t looks) {
    rt_trial *t = NULL;
    rt_trial_options o = {.info = b->info,
                          .args = b->args,
                          .n = b->c->n,
                          .contents = (const void *const *)b->contents,
                          .seed = seed,
                          .way_bits = b->c->way_bits,
                          .exact = b->c->exact,
                          .looks = looks};
    if (rt_trial_open(&o, &t)) fail_msg("%s", tg_last_error());
    return t;
}

/* ---- honest ones ---------------------------------------------------------------------------- */

static void honest_are_admitted(void **state) {
    (void)state;
    int n = 0;
    for (int i = 0; i < CASES; i++)
        for (int type = 0; type < TYPES; type++) {
            const Bench *b = bench_of(i, type);
            for (int first = 0; first < b->n; first++) {
                rt_trial *t = trial_of(b, (uint64_t)(first + 1), first % 2 ? LOOKS : 0);
                for (int k = 0; k < b->n; k++, n++) {
                    double seconds, times[3];
                    const tg_variant *v = b->variants[(first + k) % b->n];
                    if (rt_trial_check(t, v, &seconds) != RT_RIGHT)
                        fail_msg("%s %s %s: %s", b->c->kernel, types[type].name, v->config,
                                 tg_last_error());
                    assert_true(seconds > 0);
                    if (rt_trial_confirm(t, v) != RT_RIGHT)
                        fail_msg("%s %s %s: %s", b->c->kernel, types[type].name, v->config,
                                 tg_last_error());
                    assert_int_equal(rt_trial_time(t, v, 3, times), TG_OK);
                    for (int s = 0; s < 3; s++) assert_true(times[s] > 0 && times[s] < 10);
                }
                rt_trial_close(t);
            }
        }
    print_message("%d checks of honest variants\n", n);
}

/* ---- integers ------------------------------------------------------------------------------- */

enum { GIVEN = 8 };
static struct {
    const tg_variant *real;
    int seen, wrong;
} indices;

static int32_t look_at_indices(const tg_slot *args, const tg_env *env) {
    const int64_t *ids = args[0].tensor.data;
    indices.seen++;
    for (int64_t i = 0; i < args[0].tensor.shape[0]; i++)
        indices.wrong += ids[i] != i % GIVEN * 37 % 63;
    return indices.real->entry(args, env);
}

/// If the launch's integers are too many, a sample is repeated.
static void integers_are_repeated(void **state) {
    (void)state;
    const Bench *b = bench_of(CASES - 1, 0);
    size_t bytes[MOST_ARGS] = {GIVEN * sizeof(int64_t)};
    double seconds;
    rt_trial *t;
    rt_trial_options o = {.info = b->info,
                          .args = b->args,
                          .n = b->c->n,
                          .contents = (const void *const *)b->contents,
                          .content_bytes = bytes,
                          .seed = 1,
                          .exact = true};
    tg_variant looks = *b->variants[0];
    indices.real = b->variants[0];
    looks.entry = look_at_indices;
    if (rt_trial_open(&o, &t)) fail_msg("%s", tg_last_error());
    assert_int_equal(rt_trial_check(t, &looks, &seconds), RT_RIGHT);
    assert_int_equal(rt_trial_check(t, b->variants[1], &seconds), RT_RIGHT);
    assert_true(indices.seen > 1);
    assert_int_equal(indices.wrong, 0);
    rt_trial_close(t);
}

/* ---- miscompiles ---------------------------------------------------------------------------- */

typedef enum BugKind {
    WRONG_ELEMENT, // an element has another's value
    SHIFTED_TILE,  // a tile is one element off
    SHORT_SUM,     // a sum lacks its last terms
    STALE_TILE,    // a tile was not written
    BEYOND,        // one element outside of the tensor was written
    OTHER_TENSOR,  // an element of a read-only tensor was written
    WAVERS,        // the last bit differs from run to run
    BUGS,
} BugKind;

static const char *const bug_names[BUGS] = {"wrong element", "shifted tile",   "short sum",
                                            "stale tile",    "written beyond", "another tensor",
                                            "wavers"};

static struct Bug {
    BugKind kind;
    const tg_variant *real;
    const Case *c;
    int out, in; // slots of a written and of a read tensor, or -1
    int code, bits;
    uint64_t seed, runs;
    bool happened;
} bug;

static uint64_t draw(uint64_t n) {
    bug.seed = bug.seed * 6364136223846793005u + 1442695040888963407u;
    return (bug.seed >> 33) % n;
}

static int64_t elements(const tg_slot *s, int rank) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= s->tensor.shape[d];
    return n;
}

static char *address(const tg_slot *s, int rank, int64_t i) {
    int64_t offset = 0;
    for (int d = rank - 1; d >= 0; i /= s->tensor.shape[d--])
        offset += i % s->tensor.shape[d] * s->tensor.strides[d];
    return (char *)s->tensor.data + offset * bug.bits / 8;
}

static int rank_of_slot(int slot) {
    const Arg *a = &bug.c->args[bug.real->params[slot]];
    int rank = a->kind == SAME ? bug.c->args[(int)a->value].rank : a->rank;
    return strcmp(bug.c->kernel, "attention") && strcmp(bug.c->kernel, "conv2d") && rank > 2 ? 2
                                                                                             : rank;
}

static double value_at(const char *at) {
    double x = 0;
    if (bug.code == kDLInt) return (double)*(const int64_t *)(const void *)at;
    if (bug.bits == 32) return (double)*(const float *)(const void *)at;
    uint16_t h = *(const uint16_t *)(const void *)at;
    uint32_t wide = (uint32_t)h << 16;
    float f;
    if (bug.code == kDLFloat) wide = (h & 0x8000u) << 16 | (((h & 0x7fffu) << 13) + (112u << 23));
    memcpy(&f, &wide, sizeof f);
    x = (double)f;
    return x;
}

static double mean_square(const tg_slot *s, int rank) {
    double sum = 0;
    int64_t n = elements(s, rank);
    for (int64_t i = 0; i < n; i++)
        sum += value_at(address(s, rank, i)) * value_at(address(s, rank, i));
    return sum / (double)n;
}

/// A relevant difference: a fifth of typical results.
static void put(char *to, const char *from, double square) {
    double way = value_at(to) - value_at(from);
    if (way * way > 0.04 * square) bug.happened = true;
    memcpy(to, from, (size_t)bug.bits / 8);
}

static void corrupt(const tg_slot *args, const char *before) {
    const tg_slot *out = &args[bug.out];
    int rank = rank_of_slot(bug.out);
    int64_t n = elements(out, rank);
    int64_t i = (int64_t)draw((uint64_t)n), run = 1 + (int64_t)draw(24);
    double square = mean_square(out, rank);
    char *at = address(out, rank, i);
    switch (bug.kind) {
    case WRONG_ELEMENT:
        for (int tries = 0; tries < 200 && !bug.happened; tries++) {
            const char *from = address(out, rank, (int64_t)draw((uint64_t)n));
            double way = value_at(at) - value_at(from);
            if (way * way > 0.04 * square) put(at, from, square);
        }
        break;
    case SHIFTED_TILE:
        for (; i + 1 < n && run-- > 0; i++)
            put(address(out, rank, i), address(out, rank, i + 1), square);
        break;
    case STALE_TILE:
        for (; i < n && run-- > 0; i++) {
            at = address(out, rank, i);
            put(at, before + (at - (char *)out->tensor.data), square);
        }
        break;
    case BEYOND:
        at = draw(2) ? address(out, rank, n - 1) + bug.bits / 8 * (1 + (int64_t)draw(40))
                     : address(out, rank, 0) - bug.bits / 8 * (1 + (int64_t)draw(40));
        memcpy(at, address(out, rank, i), (size_t)bug.bits / 8);
        bug.happened = true;
        break;
    case OTHER_TENSOR: {
        rank = rank_of_slot(bug.in);
        n = elements(&args[bug.in], rank);
        *address(&args[bug.in], rank, (int64_t)draw((uint64_t)n)) ^= 4;
        bug.happened = true;
        break;
    }
    default:
        if (bug.runs++ % 2) *at ^= 1;
        bug.happened = true;
    }
}

static int32_t run_buggy(const tg_slot *args, const tg_env *env) {
    tg_slot own[MOST_ARGS];
    int64_t dims[2][4];
    int n = bug.real->n_params;
    memcpy(own, args, sizeof *args * (size_t)n);
    if (bug.kind == SHORT_SUM) {
        int64_t less = 1 + (int64_t)draw(16);
        for (int i = 0; i < 2 && bug.c->shortened[i][0] >= 0; i++) {
            const int *what = bug.c->shortened[i];
            memcpy(dims[i], args[what[0]].tensor.shape,
                   sizeof(int64_t) * (size_t)rank_of_slot(what[0]));
            dims[i][what[1]] -= less;
            own[what[0]].tensor.shape = dims[i];
        }
        bug.happened = true;
        return bug.real->entry(own, env);
    }
    const tg_slot *out = &args[bug.out];
    int rank = rank_of_slot(bug.out);
    size_t bytes =
        (size_t)(address(out, rank, elements(out, rank) - 1) - (char *)out->tensor.data) + 8;
    char *before = malloc(bytes);
    memcpy(before, out->tensor.data, bytes);
    int32_t status = bug.real->entry(args, env);
    if (!status) corrupt(args, before);
    free(before);
    return status;
}

/// Chooses the written and the read tensor that the injected bug affects.
static void aim(const Bench *b, const tg_variant *v, uint64_t seed) {
    bug = (struct Bug){.real = v, .c = b->c, .out = -1, .in = -1, .seed = seed * 2654435761u};
    for (int i = 0; i < v->n_params; i++) {
        const tg_param_info *p = &b->info->params[v->params[i]];
        if (p->kind != TG_PARAM_TENSOR) continue;
        const DLTensor *t = b->args[v->params[i]].as.tensor;
        if (p->flags & TG_PARAM_WRITTEN && (bug.out < 0 || draw(3) == 0)) {
            bug.out = i;
            bug.code = t->dtype.code;
            bug.bits = t->dtype.bits;
        }
    }
    for (int i = 0; i < v->n_params; i++) {
        const tg_param_info *p = &b->info->params[v->params[i]];
        const Arg *a = &b->c->args[v->params[i]];
        if (p->kind == TG_PARAM_TENSOR && !(p->flags & TG_PARAM_WRITTEN) && a->kind == T &&
            bug.bits == types[b->type].bits && b->c->args[v->params[bug.out]].kind != SAME)
            bug.in = i;
    }
}

static bool is_possible(BugKind kind) {
    if (kind == SHORT_SUM) return bug.c->shortened[0][0] >= 0;
    return kind != OTHER_TENSOR || bug.in >= 0;
}

static void no_bug_is_admitted(void **state) {
    (void)state;
    int count[BUGS] = {0}, all = 0, late = 0, named = 0;
    uint64_t seed = 1;
    for (int round = 0; all < INJECTIONS; round++)
        for (int i = 0; i < CASES; i++) {
            const Bench *b = bench_of(i, round % TYPES);
            double seconds;
            size_t looks = round % 2 ? LOOKS : 0;
            rt_trial *t = trial_of(b, seed, looks);
            assert_int_equal(rt_trial_check(t, b->variants[0], &seconds), RT_RIGHT);
            for (int k = 0; k < 6 * BUGS; k++, seed++) {
                const tg_variant *v = b->variants[k % b->n];
                aim(b, v, seed);
                bug.kind = (BugKind)(k % BUGS);
                if (!is_possible(bug.kind)) continue;
                tg_variant wrong = *v;
                wrong.entry = run_buggy;
                rt_verdict verdict = rt_trial_check(t, &wrong, &seconds);
                bool missed = looks && verdict == RT_RIGHT;
                if (missed) {
                    bug.happened = false;
                    verdict = rt_trial_confirm(t, &wrong);
                    late += bug.happened && verdict == RT_WRONG;
                }
                if (!bug.happened) continue;
                if (verdict != RT_WRONG)
                    fail_msg("%s %s %s: '%s' was admitted (%d)", b->c->kernel, types[b->type].name,
                             v->config, bug_names[bug.kind], verdict);
                named += !!strstr(tg_last_error(), "' is only read, and was written");
                count[bug.kind]++;
                all++;
                // It must not affect later trials.
                if (rt_trial_check(t, v, &seconds) != RT_RIGHT)
                    fail_msg("%s after '%s': %s", b->c->kernel, bug_names[bug.kind],
                             tg_last_error());
            }
            rt_trial_close(t);
        }
    print_message("%d injected, %d of which where checks do not look:", all, late);
    for (int i = 0; i < BUGS; i++) print_message(" %d %s,", count[i], bug_names[i]);
    print_message(" none admitted\n");
    for (int i = 0; i < BUGS; i++) assert_true(count[i] >= 50);
    assert_true(late >= 20);
    assert_true(named >= 20);
}

int main(void) {
    setenv("TG_CACHE", "off", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_are_admitted),
        cmocka_unit_test(integers_are_repeated),
        cmocka_unit_test(no_bug_is_admitted),
    };
    return cmocka_run_group_tests(tests, NULL, close_benches);
}
