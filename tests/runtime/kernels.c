// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See kernels.h.
#include "tests/runtime/kernels.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define F32      (kDLFloat << 8 | 32)
#define F16      (kDLFloat << 8 | 16)

_Thread_local Seen seen = {.variant = -1};

void *shared_memory(size_t bytes) {
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* ---- attend -------------------------------------------------------------------------------- */

enum { Q, BIAS, O, CAUSAL, SCALE, K };

static int32_t saw(int variant, const tg_slot *args, int n) {
    seen.variant = variant;
    memcpy(seen.slots, args, sizeof *args * (size_t)n);
    for (int i = 0; i < 2; i++) {
        seen.shape[i] = args[0].tensor.shape[i];
        seen.strides[i] = args[0].tensor.strides[i];
    }
    return 0;
}

// Variants 0 .. 9 differ in the facts of their arguments, and only record their number.
#define ENTRY(i, n)                                                                                \
    static int32_t attend_##i(const tg_slot *args, const tg_env *env) {                            \
        (void)env;                                                                                 \
        return saw(i, args, n);                                                                    \
    }
ENTRY(0, 4)
ENTRY(1, 4)
ENTRY(2, 4)
ENTRY(3, 4)
ENTRY(4, 5)
ENTRY(5, 4)
ENTRY(6, 4)
ENTRY(7, 4)

#define COMMON(type, causal, d, null)                                                              \
    {TG_FACT_TYPE, 0, 0, 0, 0, type}, {TG_FACT_VALUE, CAUSAL, 0, 0, 0, causal},                    \
        {TG_FACT_EXTENT, Q, 1, 0, 0, d}, {                                                         \
        TG_FACT_NULL, BIAS, 0, 0, 0, null                                                          \
    }
#define DENSE                                                                                      \
    {TG_FACT_STRIDE, Q, 1, 0, 0, 1}, {                                                             \
        TG_FACT_STRIDE, O, 1, 0, 0, 1                                                              \
    }

static const tg_fact any_64[] = {COMMON(F32, 0, 64, 1)};
static const tg_fact dense_64[] = {COMMON(F32, 0, 64, 1), DENSE};
static const tg_fact dense_128[] = {COMMON(F32, 0, 128, 1), DENSE};
static const tg_fact with_bias[] = {COMMON(F32, 0, 64, 0), DENSE};
static const tg_fact half[] = {COMMON(F16, 1, 64, 1), DENSE};
static const tg_hint rows_16[] = {{Q, 0, {0}, 16}};
static const tg_hint rows_4096[] = {{Q, 0, {0}, 4096}};
static const uint8_t no_bias[] = {Q, O, SCALE, K};
static const uint8_t all_tensors[] = {Q, BIAS, O, SCALE, K};

#define VARIANT(fn, fact, hint, n_hint, param, cpu)                                                \
    {                                                                                              \
        .entry = fn, .facts = fact, .n_facts = COUNT(fact), .hints = hint, .n_hints = n_hint,      \
        .params = param, .n_params = COUNT(param), .config = "BM=16", .level = cpu                 \
    }
static const tg_variant attend_variants[] = {
    VARIANT(attend_0, any_64, NULL, 0, no_bias, TG_LEVEL_BASE),
    VARIANT(attend_1, dense_64, rows_16, 1, no_bias, TG_LEVEL_BASE),
    VARIANT(attend_2, dense_64, rows_4096, 1, no_bias, TG_LEVEL_BASE),
    VARIANT(attend_3, dense_128, NULL, 0, no_bias, TG_LEVEL_BASE),
    VARIANT(attend_4, with_bias, NULL, 0, all_tensors, TG_LEVEL_BASE),
    VARIANT(attend_5, half, NULL, 0, no_bias, TG_LEVEL_BASE),
    VARIANT(attend_6, dense_128, NULL, 0, no_bias, TG_LEVEL_V3),
    VARIANT(attend_7, dense_128, NULL, 0, no_bias, TG_LEVEL_AMX + 1), // for a future CPU
};

static const tg_param_info attend_params[] = {
    {"q", TG_PARAM_TENSOR, 0, 0, 0, 0, 2, -1, 0},
    {"bias", TG_PARAM_TENSOR, TG_PARAM_OPTIONAL, 0, 0, 0, 1, -1, 0},
    {"o", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, 0, 0, 0, 2, -1, 0},
    {"causal", TG_PARAM_CONST, TG_PARAM_BOOL, kDLBool, 8, -1, 0, -1, 0},
    {"scale", TG_PARAM_SCALAR, 0, 0, 0, 0, 0, -1, 0},
    {"k", TG_PARAM_SCALAR, 0, kDLInt, 8, -1, 0, -1, 0},
};
#define ATTEND_SIGNATURE                                                                           \
    "kernel attend<T: f16 | f32>(q: T[N, D], bias?: T[D], o: T[N, D], causal: const bool, "        \
    "scale: T, k: i8)"
static const tg_kernel_info attend_object = {"attend",
                                             ATTEND_SIGNATURE,
                                             attend_params,
                                             attend_variants,
                                             COUNT(attend_params),
                                             1,
                                             COUNT(attend_variants),
                                             0};
tg_kernel attend = {.abi = TG_ABI, .info = &attend_object};
const tg_kernel_info attend_info = {
    "attend", ATTEND_SIGNATURE, attend_params, NULL, COUNT(attend_params), 1, 0, 0};

/* ---- copy ---------------------------------------------------------------------------------- */

static const tg_site copy_fails = {.kind = TG_SITE_REQUIRE,
                                   .line = 3,
                                   .column = 9,
                                   .n_values = 1,
                                   .file = "copy.teg",
                                   .text = "x[0] is {}",
                                   .types = "d"};
static const tg_site copy_prints = {.kind = TG_SITE_PRINT, .text = "copy\n"};

static float *at(const tg_slot *s, int64_t i, int rank) {
    int64_t inner = rank == 1 ? i : i % s->tensor.shape[1];
    int64_t offset = inner * s->tensor.strides[rank - 1];
    if (rank == 2) offset += i / s->tensor.shape[1] * s->tensor.strides[0];
    return (float *)s->tensor.data + offset;
}

typedef struct Copy {
    const tg_slot *args;
    int64_t n;
    int rank;
} Copy;

static int32_t copy_task(const tg_env *env, void *context, int64_t task, void *arena) {
    const Copy *c = context;
    (void)arena;
    for (int64_t i = task * 16; i < c->n && i < (task + 1) * 16; i++) {
        float x = *at(&c->args[0], i, c->rank);
        *at(&c->args[1], i, c->rank) = x;
        if (x == 42) env->print(env, &copy_prints, NULL);
        if (x == -1) return env->fail(env, &copy_fails, (uint64_t[]){(uint64_t)-1});
    }
    return 0;
}

static int32_t run_copy(const tg_slot *args, const tg_env *env, int rank) {
    Copy c = {args, 1, rank};
    for (int i = 0; i < rank; i++) c.n *= args[0].tensor.shape[i];
    seen.variant = rank;
    return env->parallel_for(env, (c.n + 15) / 16, 0, copy_task, &c);
}

static int32_t copy_1(const tg_slot *args, const tg_env *env) {
    return run_copy(args, env, 1);
}

static int32_t copy_2(const tg_slot *args, const tg_env *env) {
    return run_copy(args, env, 2);
}

static const tg_fact one_axis[] = {{TG_FACT_PACK, 0, 0, 0, 0, 1}};
static const tg_fact two_axes[] = {{TG_FACT_PACK, 0, 0, 0, 0, 2}};
static const uint8_t both[] = {0, 1};
static const tg_variant copy_variants[] = {
    {.entry = copy_1,
     .facts = one_axis,
     .n_facts = 1,
     .params = both,
     .n_params = 2,
     .inplace = both,
     .n_inplace = 1},
    {.entry = copy_2, .facts = two_axes, .n_facts = 1, .params = both, .n_params = 2},
};
static const tg_param_info copy_params[] = {
    {"x", TG_PARAM_TENSOR, 0, kDLFloat, 32, -1, 0, 0, 0},
    {"y", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLFloat, 32, -1, 0, 0, 0},
};
static const tg_kernel_info copy_info = {
    "copy", "kernel copy(x: f32[..R], y: f32[..R])", copy_params, copy_variants, 2, 0, 2, 0};
tg_kernel copy = {.abi = TG_ABI, .info = &copy_info};

/* ---- twice, tiny --------------------------------------------------------------------------- */

typedef struct Twice {
    const float *x;
    float *half; // workspace
    float *y;
} Twice;

static int32_t twice_task(const tg_env *env, void *context, int64_t i, void *arena) {
    const Twice *t = context;
    float *own = arena;
    (void)env;
    for (int k = 0; k < 64; k++) own[k] = t->x[i];
    t->y[i] = t->half[i] + own[i % 64];
    return 0;
}

static int32_t twice_entry(const tg_slot *args, const tg_env *env) {
    int64_t n = args[0].tensor.shape[0];
    Twice t = {args[0].tensor.data, env->workspace(env, n * 4), args[1].tensor.data};
    if (!t.half || !env->arena(env, 100)) return env->fail(env, NULL, NULL);
    memcpy(t.half, t.x, (size_t)n * 4);
    return env->parallel_for(env, n, 256, twice_task, &t);
}

static int32_t tiny_task(const tg_env *env, void *context, int64_t i, void *arena) {
    const tg_slot *args = context;
    (void)env, (void)i, (void)arena;
    *(float *)args[1].tensor.data = *(const float *)args[0].tensor.data;
    return 0;
}

int32_t tiny_entry(const tg_slot *args, const tg_env *env) {
    return env->parallel_for(env, 1, 64, tiny_task, (void *)(uintptr_t)args);
}

static const tg_fact dense_rows[] = {{TG_FACT_STRIDE, 0, 0, 0, 0, 1},
                                     {TG_FACT_STRIDE, 1, 0, 0, 0, 1}};
static const tg_param_info row_params[] = {
    {"x", TG_PARAM_TENSOR, 0, kDLFloat, 32, -1, 1, -1, 0},
    {"y", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLFloat, 32, -1, 1, -1, 0},
};
#define ROW_KERNEL(kernel, fn)                                                                     \
    static const tg_variant kernel##_variant = {                                                   \
        .entry = fn, .facts = dense_rows, .n_facts = 2, .params = both, .n_params = 2};            \
    static const tg_kernel_info kernel##_info = {#kernel,                                          \
                                                 "kernel " #kernel "(x: f32[N], y: f32[N])",       \
                                                 row_params,                                       \
                                                 &kernel##_variant,                                \
                                                 2,                                                \
                                                 0,                                                \
                                                 1,                                                \
                                                 0};                                               \
    tg_kernel kernel = {.abi = TG_ABI, .info = &kernel##_info};
/* ---- ranged, nibbles ----------------------------------------------------------------------- */

static int32_t ranged_0(const tg_slot *args, const tg_env *env) {
    (void)env;
    seen.variant = 0;
    seen.slots[0] = args[1];
    return 0;
}

static int32_t ranged_1(const tg_slot *args, const tg_env *env) {
    ranged_0(args, env);
    seen.variant = 1;
    return 0;
}

static const tg_fact from_10_to_20[] = {{TG_FACT_LEAST, 0, 0, 0, 0, 10},
                                        {TG_FACT_MOST, 0, 0, 0, 0, 20}};
static const tg_fact strided[] = {{TG_FACT_STRIDED, 0, 0, 0, 0, 0}};
static const tg_variant ranged_variants[] = {
    {.entry = ranged_0, .facts = from_10_to_20, .n_facts = 2, .params = both, .n_params = 2},
    {.entry = ranged_1, .facts = strided, .n_facts = 1, .params = both, .n_params = 2},
};
static const tg_param_info ranged_params[] = {
    {"x", TG_PARAM_TENSOR, 0, kDLInt, 4, -1, 1, -1, 0},
    {"a", TG_PARAM_SCALAR, 0, 0, 0, 0, 0, -1, 0},
    {"y", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLInt, 4, -1, 1, -1, 0},
};
static const tg_kernel_info ranged_info = {
    "ranged", "kernel ranged<A>(x: i4[N], a: A, y: i4[N])", ranged_params, ranged_variants, 3, 1, 2,
    0};
tg_kernel ranged = {.abi = TG_ABI, .info = &ranged_info};

/* ---- twice and tiny, described -------------------------------------------------------------- */

ROW_KERNEL(twice, twice_entry)
ROW_KERNEL(tiny, tiny_entry)
