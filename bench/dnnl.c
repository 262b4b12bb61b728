// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// oneDNN 2.x as a peer. Products and normalisations use the same plain arrays. Convolutions use
// oneDNN's blocked layouts, and the reordering is not timed: the peer at its best.
#include "bench/bench.h"
#include "bench/rows_softmax.h"

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <stdlib.h>
#include <string.h>

// From GNU's OpenMP, which oneDNN uses. The header needs the compiler's OpenMP mode.
extern void omp_set_num_threads(int n);

enum { MAX_MEMORIES = 6 };

typedef struct State {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_primitive_attr_t attr;
    dnnl_exec_arg_t args[MAX_MEMORIES];
    int n_args;
    dnnl_memory_t result, plain_result; // they differ if the result is blocked
} State;

static void release(Case *c) {
    State *s = c->peer_state;
    c->peer_state = NULL;
    if (!s) return;
    if (s->plain_result != s->result) dnnl_memory_destroy(s->plain_result);
    for (int i = 0; i < s->n_args; i++) dnnl_memory_destroy(s->args[i].memory);
    if (s->primitive) dnnl_primitive_destroy(s->primitive);
    if (s->desc) dnnl_primitive_desc_destroy(s->desc);
    if (s->attr) dnnl_primitive_attr_destroy(s->attr);
    if (s->stream) dnnl_stream_destroy(s->stream);
    if (s->engine) dnnl_engine_destroy(s->engine);
    free(s);
}

static State *begin(Case *c, int threads) {
    State *s = c->peer_state = calloc(1, sizeof *s);
    if (!s) return NULL;
    omp_set_num_threads(threads);
    bool ok = dnnl_engine_create(&s->engine, dnnl_cpu, 0) == dnnl_success &&
              dnnl_stream_create(&s->stream, s->engine, dnnl_stream_default_flags) == dnnl_success;
    return ok ? s : NULL;
}

/// Creates the primitive of an operation's descriptor.
static bool make(State *s, const void *op) {
    return dnnl_primitive_desc_create(&s->desc, op, s->attr, s->engine, NULL) == dnnl_success &&
           dnnl_primitive_create(&s->primitive, s->desc) == dnnl_success;
}

static const dnnl_data_type_t types[TYPES] = {dnnl_f32, dnnl_bf16, dnnl_s8, dnnl_s32};

/// Describes an array: plain row-major, or with a layout that oneDNN chooses.
static dnnl_memory_desc_t describe(const Array *a, bool any) {
    dnnl_memory_desc_t m;
    dnnl_dims_t dims = {0};
    memcpy(dims, a->shape, sizeof a->shape);
    dnnl_format_tag_t plain[MAX_AXES] = {dnnl_a,    dnnl_ab,    dnnl_abc,
                                         dnnl_abcd, dnnl_abcde, dnnl_abcdef};
    dnnl_memory_desc_init_by_tag(&m, a->rank, dims, types[a->type],
                                 any ? dnnl_format_tag_any : plain[a->rank - 1]);
    return m;
}

static dnnl_memory_t plain_memory(State *s, const Array *a) {
    dnnl_memory_t m = NULL;
    dnnl_memory_desc_t d = describe(a, false);
    dnnl_memory_create(&m, &d, s->engine, a->data);
    return m;
}

static bool reorder(State *s, dnnl_memory_t from, dnnl_memory_t to) {
    const dnnl_memory_desc_t *a, *b;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_get_memory_desc(from, &a);
    dnnl_memory_get_memory_desc(to, &b);
    bool ok = dnnl_reorder_primitive_desc_create(&desc, a, s->engine, b, s->engine, NULL) ==
                  dnnl_success &&
              dnnl_primitive_create(&primitive, desc) == dnnl_success;
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    ok = ok && dnnl_primitive_execute(primitive, s->stream, 2, args) == dnnl_success;
    dnnl_stream_wait(s->stream);
    if (primitive) dnnl_primitive_destroy(primitive);
    if (desc) dnnl_primitive_desc_destroy(desc);
    return ok;
}

/// Adds an array in the layout that the primitive chose. Inputs are reordered now.
static bool add(State *s, int arg, const Array *a, dnnl_query_t query, bool output) {
    const dnnl_memory_desc_t *want = dnnl_primitive_desc_query_md(s->desc, query, 0);
    dnnl_memory_desc_t plain = describe(a, false);
    dnnl_memory_t m = plain_memory(s, a), kept = m;
    if (want && !dnnl_memory_desc_equal(want, &plain)) {
        if (dnnl_memory_create(&kept, want, s->engine, DNNL_MEMORY_ALLOCATE)) return false;
        if (!output) {
            if (!reorder(s, m, kept)) return false;
            dnnl_memory_destroy(m);
        }
    }
    if (output) s->result = kept, s->plain_result = m;
    s->args[s->n_args++] = (dnnl_exec_arg_t){arg, kept};
    return true;
}

static void run(Case *c) {
    State *s = c->peer_state;
    dnnl_primitive_execute(s->primitive, s->stream, s->n_args, s->args);
    dnnl_stream_wait(s->stream);
}

/// Reorders a blocked result into c->expected for the comparison.
static void unblock(Case *c) {
    State *s = c->peer_state;
    if (s->result != s->plain_result) reorder(s, s->result, s->plain_result);
}

static bool matmul_setup(Case *c, int threads) {
    State *s = begin(c, threads);
    if (!s) return false;
    dnnl_matmul_desc_t op;
    dnnl_memory_desc_t a = describe(&c->in[0], false), b = describe(&c->in[1], false);
    dnnl_memory_desc_t d = describe(&c->expected, false);
    bool ok = dnnl_matmul_desc_init(&op, &a, &b, NULL, &d) == dnnl_success && make(s, &op);
    return ok && add(s, DNNL_ARG_SRC, &c->in[0], dnnl_query_src_md, false) &&
           add(s, DNNL_ARG_WEIGHTS, &c->in[1], dnnl_query_weights_md, false) &&
           add(s, DNNL_ARG_DST, &c->expected, dnnl_query_dst_md, true);
}

static bool softmax_setup(Case *c, int threads) {
    State *s = begin(c, threads);
    if (!s) return false;
    dnnl_softmax_v2_desc_t op;
    dnnl_memory_desc_t x = describe(&c->in[0], false);
    bool ok = dnnl_softmax_v2_forward_desc_init(&op, dnnl_forward_inference, dnnl_softmax_accurate,
                                                &x, &x, c->in[0].rank - 1) == dnnl_success &&
              make(s, &op);
    return ok && add(s, DNNL_ARG_SRC, &c->in[0], dnnl_query_src_md, false) &&
           add(s, DNNL_ARG_DST, &c->expected, dnnl_query_dst_md, true);
}

/* ---- softmax as a part --------------------------------------------------------------------- */

/// Makes a case whose input and result are one matrix.
void *rows_softmax_new(int64_t rows, int64_t n, int threads) {
    Case *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    size_t bytes = ((size_t)(rows * n) * sizeof(float) + 63) / 64 * 64;
    c->in[0] = (Array){.type = TYPE_F32, .rank = 2, .shape = {rows, n}, .count = rows * n};
    c->in[0].data = aligned_alloc(64, bytes);
    c->expected = c->in[0];
    if (c->in[0].data && softmax_setup(c, threads)) return c;
    rows_softmax_free(c);
    return NULL;
}

float *rows_softmax_data(void *state) {
    return ((Case *)state)->in[0].data;
}

void rows_softmax_run(void *state) {
    run(state);
}

void rows_softmax_free(void *state) {
    Case *c = state;
    if (!c) return;
    release(c);
    free(c->in[0].data);
    free(c);
}

/* ---- other primitives ---------------------------------------------------------------------- */

/// in: x, scale, shift; dims: R, N, and 1e6 times epsilon.
static bool layernorm_setup(Case *c, int threads) {
    State *s = begin(c, threads);
    if (!s) return false;
    dnnl_layer_normalization_desc_t op;
    dnnl_memory_desc_t x = describe(&c->in[0], false), stat;
    dnnl_dims_t rows = {c->dims[0]};
    dnnl_memory_desc_init_by_tag(&stat, 1, rows, dnnl_f32, dnnl_a);
    unsigned flags = dnnl_use_scale | dnnl_use_shift;
    bool ok = dnnl_layer_normalization_forward_desc_init(&op, dnnl_forward_inference, &x, &stat,
                                                         (float)c->dims[2] * 1e-6F,
                                                         flags) == dnnl_success &&
              make(s, &op);
    return ok && add(s, DNNL_ARG_SRC, &c->in[0], dnnl_query_src_md, false) &&
           add(s, DNNL_ARG_SCALE, &c->in[1], dnnl_query_undef, false) &&
           add(s, DNNL_ARG_SHIFT, &c->in[2], dnnl_query_undef, false) &&
           add(s, DNNL_ARG_DST, &c->expected, dnnl_query_dst_md, true);
}

/// in: x [B, C, H, W], w [F, C, R, S]; dims: stride, padding.
static bool conv_setup(Case *c, int threads) {
    State *s = begin(c, threads);
    if (!s) return false;
    dnnl_convolution_desc_t op;
    dnnl_memory_desc_t x = describe(&c->in[0], true), w = describe(&c->in[1], true);
    dnnl_memory_desc_t y = describe(&c->expected, true);
    dnnl_dims_t stride = {c->dims[0], c->dims[0]}, pad = {c->dims[1], c->dims[1]};
    bool ok =
        dnnl_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct, &x,
                                           &w, NULL, &y, stride, pad, pad) == dnnl_success &&
        make(s, &op);
    return ok && add(s, DNNL_ARG_SRC, &c->in[0], dnnl_query_src_md, false) &&
           add(s, DNNL_ARG_WEIGHTS, &c->in[1], dnnl_query_weights_md, false) &&
           add(s, DNNL_ARG_DST, &c->expected, dnnl_query_dst_md, true);
}

const Peer peer_dnnl_matmul = {"oneDNN", matmul_setup, run, NULL, release};
const Peer peer_dnnl_softmax = {"oneDNN", softmax_setup, run, NULL, release};
const Peer peer_dnnl_layernorm = {"oneDNN", layernorm_setup, run, NULL, release};
const Peer peer_dnnl_conv = {"oneDNN, blocked", conv_setup, run, unblock, release};
