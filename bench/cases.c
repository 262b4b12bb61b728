// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compared cases, a row each. Each family has a constructor that makes random arrays, the
// arguments of our kernel, and the counts for rates.
#include "bench/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arrays -------------------------------------------------------------------------------- */

static const struct {
    uint8_t code, bits;
    const char *name;
} type_info[TYPES] = {
    {kDLFloat, 32, "f32"}, {kDLBfloat, 16, "bf16"}, {kDLInt, 8, "i8"}, {kDLInt, 32, "i32"}};

size_t type_bytes(Type type) {
    return type_info[type].bits / 8U;
}

static double bf16_value(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return (double)f;
}

/// Rounds to nearest, ties to even.
static uint16_t bf16_bits(double x) {
    float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

double array_get(const Array *a, int64_t i) {
    switch (a->type) {
    case TYPE_F32: return (double)((const float *)a->data)[i];
    case TYPE_BF16: return bf16_value(((const uint16_t *)a->data)[i]);
    case TYPE_I8: return ((const int8_t *)a->data)[i];
    default: return ((const int32_t *)a->data)[i];
    }
}

void array_set(Array *a, int64_t i, double x) {
    switch (a->type) {
    case TYPE_F32: ((float *)a->data)[i] = (float)x; return;
    case TYPE_BF16: ((uint16_t *)a->data)[i] = bf16_bits(x); return;
    case TYPE_I8: ((int8_t *)a->data)[i] = (int8_t)x; return;
    default: ((int32_t *)a->data)[i] = (int32_t)x;
    }
}

static bool array_make(Array *a, Type type, int rank, const int64_t *shape) {
    *a = (Array){.type = type, .rank = rank, .count = 1};
    for (int i = 0; i < rank; i++) {
        a->shape[i] = shape[i];
        a->count *= shape[i];
    }
    size_t bytes = ((size_t)a->count * type_bytes(type) + 63) / 64 * 64;
    a->data = aligned_alloc(64, bytes ? bytes : 64);
    if (!a->data) return false;
    memset(a->data, 0, bytes);
    return true;
}

/// xorshift64*, with the same numbers in every run.
static double random_unit(void) {
    static uint64_t s = 0x9e3779b97f4a7c15U;
    s ^= s >> 12, s ^= s << 25, s ^= s >> 27;
    return (double)(s * 0x2545f4914f6cdd1dU >> 11) * 0x1p-53;
}

/// Uniform in [-1, 1); integers in [-100, 100].
static void array_random(Array *a) {
    bool integer = a->type == TYPE_I8 || a->type == TYPE_I32;
    for (int64_t i = 0; i < a->count; i++) {
        double x = 2 * random_unit() - 1;
        array_set(a, i, integer ? floor(x * 100) : x);
    }
}

/* ---- cases --------------------------------------------------------------------------------- */

static void add_arg(Case *c, tg_arg a) {
    c->args[c->n_args++] = a;
}

static void add_tensor(Case *c, Array *a) {
    a->view = tg_dense(a->data, (DLDataTypeCode)type_info[a->type].code, type_info[a->type].bits,
                       a->rank, a->shape);
    add_arg(c, tg_tensor(&a->view));
}

/// Adds an input with random elements.
static bool input(Case *c, Type type, int rank, const int64_t *shape) {
    Array *a = &c->in[c->n_in++];
    if (!array_make(a, type, rank, shape)) return false;
    array_random(a);
    add_tensor(c, a);
    return true;
}

/// Adds the output, for us and for the peer.
static bool output(Case *c, Type type, int rank, const int64_t *shape) {
    if (!array_make(&c->out, type, rank, shape) || !array_make(&c->expected, type, rank, shape))
        return false;
    add_tensor(c, &c->out);
    return true;
}

static double bytes_of(const Case *c) {
    double n = (double)c->out.count * (double)type_bytes(c->out.type);
    for (int i = 0; i < c->n_in; i++)
        n += (double)c->in[i].count * (double)type_bytes(c->in[i].type);
    return n;
}

typedef struct Row {
    const char *name, *source, *kernel;
    Type type;
    int64_t dims[8];
    const Peer *peer;
    bool (*make)(Case *c, const struct Row *row);
} Row;

/// oneDNN multiplies bf16 only on CPUs with AVX-512 (its developer guide, "Data Types").
static const Peer *peer_of(const Row *r) {
    bool can = r->type != TYPE_BF16 || r->peer != &peer_dnnl_matmul;
#ifdef __x86_64__
    can |= __builtin_cpu_supports("avx512bw");
#endif
    return can ? r->peer : NULL;
}

static void set_shape(Case *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->shape, sizeof c->shape, format, args);
    va_end(args);
}

/// dims: M, N, K. The result is i32 for integers, f32 for f32, and otherwise of the inputs' type.
static bool make_matmul(Case *c, const Row *r) {
    const int64_t *d = r->dims;
    set_shape(c, "%dx%dx%d", (int)d[0], (int)d[1], (int)d[2]);
    c->flops = 2.0 * (double)d[0] * (double)d[1] * (double)d[2];
    c->tolerance = r->type == TYPE_F32 ? 1e-5 : r->type == TYPE_I8 ? 0 : 1e-2;
    return input(c, r->type, 2, (int64_t[]){d[0], d[2]}) &&
           input(c, r->type, 2, (int64_t[]){d[2], d[1]}) &&
           output(c, r->type == TYPE_I8 ? TYPE_I32 : r->type, 2, d);
}

/// dims: R, N.
static bool make_softmax(Case *c, const Row *r) {
    set_shape(c, "%dx%d", (int)r->dims[0], (int)r->dims[1]);
    c->tolerance = 1e-5;
    return input(c, r->type, 2, r->dims) && output(c, r->type, 2, r->dims);
}

/// dims: R, N, and 1e6 times epsilon.
static bool make_layernorm(Case *c, const Row *r) {
    set_shape(c, "%dx%d", (int)r->dims[0], (int)r->dims[1]);
    c->tolerance = 1e-5;
    if (!input(c, r->type, 2, r->dims) || !input(c, r->type, 1, &r->dims[1]) ||
        !input(c, r->type, 1, &r->dims[1]) || !output(c, r->type, 2, r->dims))
        return false;
    add_arg(c, tg_none()); // mean
    add_arg(c, tg_none()); // rstd
    add_arg(c, tg_float((double)r->dims[2] * 1e-6));
    return true;
}

/// dims: R, N, 1e6 times epsilon; no peer in oneDNN 2.
static bool make_rmsnorm(Case *c, const Row *r) {
    set_shape(c, "%dx%d", (int)r->dims[0], (int)r->dims[1]);
    if (!input(c, r->type, 2, r->dims) || !input(c, r->type, 1, &r->dims[1]) ||
        !output(c, r->type, 2, r->dims))
        return false;
    add_arg(c, tg_none()); // rstd
    add_arg(c, tg_float((double)r->dims[2] * 1e-6));
    return true;
}

/// dims: N.
static bool make_chain(Case *c, const Row *r) {
    set_shape(c, "%d", (int)r->dims[0]);
    if (!input(c, r->type, 1, r->dims) || !output(c, r->type, 1, r->dims)) return false;
    add_arg(c, tg_float(1.5));
    add_arg(c, tg_float(0.25));
    add_arg(c, tg_float(-1));
    return true;
}

/// dims: N; two inputs.
static bool make_zip(Case *c, const Row *r) {
    set_shape(c, "%d", (int)r->dims[0]);
    for (int i = 0; i < 2; i++)
        if (!input(c, r->type, 1, r->dims)) return false;
    return output(c, r->type, 1, r->dims);
}

/// dims: R, N -> R.
static bool make_reduce_last(Case *c, const Row *r) {
    set_shape(c, "%dx%d", (int)r->dims[0], (int)r->dims[1]);
    return input(c, r->type, 2, r->dims) && output(c, r->type, 1, r->dims);
}

/// dims: A, N, B -> A, B.
static bool make_reduce_axis(Case *c, const Row *r) {
    set_shape(c, "%dx%dx%d", (int)r->dims[0], (int)r->dims[1], (int)r->dims[2]);
    return input(c, r->type, 3, r->dims) &&
           output(c, r->type, 2, (int64_t[]){r->dims[0], r->dims[2]});
}

/// dims: B, C, H, W, F, R, stride, padding.
static bool make_conv(Case *c, const Row *r) {
    const int64_t *d = r->dims;
    int64_t p = (d[2] + 2 * d[7] - d[5]) / d[6] + 1, q = (d[3] + 2 * d[7] - d[5]) / d[6] + 1;
    set_shape(c, "%dx%dx%dx%d %dx%d", (int)d[0], (int)d[1], (int)d[2], (int)d[3], (int)d[5],
              (int)d[5]);
    c->flops = 2.0 * (double)(d[0] * d[4] * p * q) * (double)(d[1] * d[5] * d[5]);
    c->tolerance = 1e-5;
    c->dims[0] = d[6], c->dims[1] = d[7];
    if (!input(c, r->type, 4, d) || !input(c, r->type, 4, (int64_t[]){d[4], d[1], d[5], d[5]}))
        return false;
    add_arg(c, tg_none()); // bias
    if (!output(c, r->type, 4, (int64_t[]){d[0], d[4], p, q})) return false;
    for (int i = 0; i < 2; i++) add_arg(c, tg_int(d[6]));
    for (int i = 0; i < 2; i++) add_arg(c, tg_int(d[7]));
    for (int i = 0; i < 2; i++) add_arg(c, tg_int(1));
    add_arg(c, tg_int(0)); // no activation
    return true;
}

/// dims: B, H, S, D.
static bool make_attention(Case *c, const Row *r) {
    const int64_t *d = r->dims;
    set_shape(c, "%dx%dx%dx%d", (int)d[0], (int)d[1], (int)d[2], (int)d[3]);
    c->flops = 4.0 * (double)(d[0] * d[1] * d[2] * d[2] * d[3]);
    c->tolerance = 1e-5;
    for (int i = 0; i < 3; i++)
        if (!input(c, r->type, 4, d)) return false;
    add_arg(c, tg_none()); // mask
    if (!output(c, r->type, 4, d)) return false;
    add_arg(c, tg_none()); // lse
    add_arg(c, tg_float(1 / sqrt((double)d[3])));
    add_arg(c, tg_int(0)); // causal
    return true;
}

#define MATMUL    "examples/matmul.teg", "matmul"
#define SOFTMAX   "stdlib/softmax.teg", "softmax"
#define LAYERNORM "stdlib/norm.teg", "layer_norm"
#define RMSNORM   "stdlib/norm.teg", "rms_norm"

static const Row rows[] = {
    {"matmul", MATMUL, TYPE_F32, {256, 256, 256}, &peer_sgemm, make_matmul},
    {"matmul", MATMUL, TYPE_F32, {512, 512, 512}, &peer_sgemm, make_matmul},
    {"matmul", MATMUL, TYPE_F32, {1024, 1024, 1024}, &peer_sgemm, make_matmul},
    {"matmul", MATMUL, TYPE_F32, {2048, 2048, 2048}, &peer_sgemm, make_matmul},
    {"matmul", MATMUL, TYPE_F32, {1000, 333, 777}, &peer_sgemm, make_matmul},
    {"matmul", MATMUL, TYPE_BF16, {256, 256, 256}, &peer_dnnl_matmul, make_matmul},
    {"matmul", MATMUL, TYPE_BF16, {512, 512, 512}, &peer_dnnl_matmul, make_matmul},
    {"matmul", MATMUL, TYPE_BF16, {1024, 1024, 1024}, &peer_dnnl_matmul, make_matmul},
    {"matmul", MATMUL, TYPE_BF16, {2048, 2048, 2048}, &peer_dnnl_matmul, make_matmul},
    {"matmul", MATMUL, TYPE_BF16, {1000, 333, 777}, &peer_dnnl_matmul, make_matmul},
    {"softmax", SOFTMAX, TYPE_F32, {8192, 1024}, &peer_dnnl_softmax, make_softmax},
    {"softmax", SOFTMAX, TYPE_F32, {1024, 8192}, &peer_dnnl_softmax, make_softmax},
    {"softmax", SOFTMAX, TYPE_F32, {333, 1000}, &peer_dnnl_softmax, make_softmax},
    {"layernorm", LAYERNORM, TYPE_F32, {8192, 1024, 10}, &peer_dnnl_layernorm, make_layernorm},
    {"layernorm", LAYERNORM, TYPE_F32, {1024, 8192, 10}, &peer_dnnl_layernorm, make_layernorm},
    {"layernorm", LAYERNORM, TYPE_F32, {333, 1000, 10}, &peer_dnnl_layernorm, make_layernorm},
    {"rmsnorm", RMSNORM, TYPE_F32, {8192, 1024, 10}, NULL, make_rmsnorm},
    {"rmsnorm", RMSNORM, TYPE_F32, {1024, 8192, 10}, NULL, make_rmsnorm},
    {"rmsnorm", RMSNORM, TYPE_F32, {333, 1000, 10}, NULL, make_rmsnorm},
    {"chain", "bench/chain.teg", "chain", TYPE_F32, {1 << 24}, NULL, make_chain},
    {"chain", "bench/chain.teg", "chain", TYPE_F32, {1 << 15}, NULL, make_chain},
    {"chain", "bench/chain.teg", "chain", TYPE_BF16, {1 << 24}, NULL, make_chain},
    {"add", "stdlib/elementwise.teg", "zip_add", TYPE_F32, {1 << 24}, NULL, make_zip},
    {"sum_last", "stdlib/reduce.teg", "sum_last", TYPE_F32, {8192, 4096}, NULL, make_reduce_last},
    {"max_last", "stdlib/reduce.teg", "max_last", TYPE_F32, {8192, 4096}, NULL, make_reduce_last},
    {"sum_axis",
     "stdlib/reduce.teg",
     "sum_axis",
     TYPE_F32,
     {1, 8192, 4096},
     NULL,
     make_reduce_axis},
    {"conv2d",
     "stdlib/conv.teg",
     "conv2d",
     TYPE_F32,
     {1, 64, 56, 56, 64, 3, 1, 1},
     &peer_dnnl_conv,
     make_conv},
    {"conv2d",
     "stdlib/conv.teg",
     "conv2d",
     TYPE_F32,
     {8, 64, 56, 56, 64, 3, 1, 1},
     &peer_dnnl_conv,
     make_conv},
    {"attention",
     "stdlib/attention.teg",
     "attention",
     TYPE_F32,
     {1, 8, 1024, 64},
     &peer_attention_blas,
     make_attention},
};

/// Names carry the type unless it is f32: "matmul-bf16".
static Case *make_case(const Row *r) {
    Case *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    const char *type = type_info[r->type].name;
    bool plain = r->type == TYPE_F32;
    snprintf(c->name, sizeof c->name, "%s%s%s", r->name, plain ? "" : "-", plain ? "" : type);
    snprintf(c->source, sizeof c->source, "%s/%s", BENCH_ROOT, r->source);
    c->kernel = r->kernel;
    c->peer = peer_of(r);
    memcpy(c->dims, r->dims, sizeof c->dims);
    if (r->make(c, r)) {
        c->bytes = bytes_of(c);
        return c;
    }
    case_free(c);
    return NULL;
}

static bool wanted(const char *name, const char *filter) {
    if (!*filter) return true;
    char words[1024];
    snprintf(words, sizeof words, "%s", filter);
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
        if (strstr(name, w)) return true;
    return false;
}

bool cases_make(CaseList *out, const char *filter) {
    enum { N_ROWS = sizeof rows / sizeof *rows };
    out->at = calloc(N_ROWS, sizeof *out->at);
    for (int i = 0; out->at && i < N_ROWS; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s-%s", rows[i].name, type_info[rows[i].type].name);
        if (!wanted(name, filter)) continue;
        Case *c = make_case(&rows[i]);
        if (!c) return false;
        out->at[out->n++] = c;
    }
    return out->at != NULL;
}

void case_free(Case *c) {
    if (!c) return;
    for (int i = 0; i < c->n_in; i++) free(c->in[i].data);
    free(c->out.data);
    free(c->expected.data);
    free(c);
}
