// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// OpenBLAS as a peer: products, and attention as two products with a softmax between.
#include "bench/bench.h"
#include "bench/rows_softmax.h"

#include <cblas.h>
#include <math.h>

static bool use_threads(Case *c, int threads) {
    (void)c;
    openblas_set_num_threads(threads);
    return true;
}

static void nothing(Case *c) {
    (void)c;
}

/// dims: M, N, K.
static void sgemm(Case *c) {
    const int64_t *d = c->dims;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)d[0], (int)d[1], (int)d[2], 1.0F,
                c->in[0].data, (int)d[2], c->in[1].data, (int)d[1], 0.0F, c->expected.data,
                (int)d[1]);
}

const Peer peer_sgemm = {"OpenBLAS", use_threads, sgemm, NULL, nothing};

/* ---- attention ----------------------------------------------------------------------------- */

/// dims: B, H, S, D. Makes the scores of one head, and oneDNN's softmax of their rows.
static bool attention_setup(Case *c, int threads) {
    int64_t s = c->dims[2];
    openblas_set_num_threads(threads);
    c->peer_state = rows_softmax_new(s, s, threads);
    return c->peer_state != NULL;
}

/// Computes a head at a time: S = Q K^T / sqrt(D), P = softmax(S), O = P V.
static void attention(Case *c) {
    int64_t heads = c->dims[0] * c->dims[1], s = c->dims[2], d = c->dims[3];
    float *p = rows_softmax_data(c->peer_state), scale = 1.0F / sqrtf((float)d);
    for (int64_t h = 0; h < heads; h++) {
        const float *q = (const float *)c->in[0].data + h * s * d;
        const float *k = (const float *)c->in[1].data + h * s * d;
        const float *v = (const float *)c->in[2].data + h * s * d;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)s, (int)s, (int)d, scale, q,
                    (int)d, k, (int)d, 0.0F, p, (int)s);
        rows_softmax_run(c->peer_state);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)s, (int)d, (int)s, 1.0F, p,
                    (int)s, v, (int)d, 0.0F, (float *)c->expected.data + h * s * d, (int)d);
    }
}

static void attention_release(Case *c) {
    rows_softmax_free(c->peer_state);
    c->peer_state = NULL;
}

const Peer peer_attention_blas = {"OpenBLAS, oneDNN softmax", attention_setup, attention, NULL,
                                  attention_release};
