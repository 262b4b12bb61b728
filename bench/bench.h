// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares Tegula with its peers in one process, on the same arrays. Results are compared before
// anything is timed.
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/tegula.h"

enum { MAX_ARGS = 12, MAX_AXES = 6 };

typedef enum Type { TYPE_F32, TYPE_BF16, TYPE_I8, TYPE_I32, TYPES } Type;

/// A dense row-major array with 64-byte alignment.
typedef struct Array {
    Type type;
    int rank;
    int64_t shape[MAX_AXES], count;
    void *data;
    DLTensor view; // describes the fields above
} Array;

size_t type_bytes(Type type);
double array_get(const Array *a, int64_t i);
void array_set(Array *a, int64_t i, double x);

typedef struct Case Case;

/// A peer: another library's way to compute a case.
typedef struct Peer {
    const char *name;
    /// Prepares `threads` threads, and state that may be kept between runs (primitives, packed
    /// weights) in c->peer_state. False: the library cannot compute this case.
    bool (*setup)(Case *c, int threads);
    void (*run)(Case *c);    // reads c->in, writes c->expected
    void (*finish)(Case *c); // called after a run, before c->expected is read; may be NULL
    void (*release)(Case *c);
} Peer;

/// One comparison. ours and peer read the same inputs; ours writes c->out, the peer c->expected.
struct Case {
    char name[64], shape[64];
    char source[256]; // path of our source
    const char *kernel;
    int n_args;
    tg_arg args[MAX_ARGS];
    Array in[6], out, expected;
    int n_in;
    int64_t dims[8]; // in the order of the constructor and the peer
    double flops, bytes;
    double tolerance; // of |ours - peer|, relative to the largest |peer|
    const Peer *peer; // NULL: a memcpy of as many bytes
    void *peer_state;
    tg_module *module;
    tg_kernel *code;
};

typedef struct CaseList {
    int n;
    Case **at;
} CaseList;

/// Makes every case in cases.c's tables whose name contains a word of `filter`.
bool cases_make(CaseList *out, const char *filter);
void case_free(Case *c);

/// Peers from OpenBLAS and oneDNN.
extern const Peer peer_sgemm, peer_attention_blas;
extern const Peer peer_dnnl_matmul, peer_dnnl_softmax, peer_dnnl_layernorm, peer_dnnl_conv;

#endif
