// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/tune/request.h"

#include <string.h>

const char source[] =
    "kernel matmul(a: f32[M, K], b: f32[K, N], c: f32[M, N])\n"
    "tune BM = 64 | 32 | 128, BN = 64 | 32 | 128, BK = 32 | 64 where BM * BN <= 8192\n"
    "{\n"
    "    parallel m in M by BM, n in N by BN {\n"
    "        var s: f32<BM, BN> = 0;\n"
    "        for k in K by BK { s += dot(a[m, k], b[k, n]); }\n"
    "        c[m, n] = s;\n"
    "    }\n"
    "}\n"
    "kernel narrowed(a: f32[M, K], b: f32[K, N], c: f32[M, N])\n"
    "tune BM = 64 | 128, BN = 64 schedule warps = 8 | 4, order = 4, split = 1, stages = BM / 32 | "
    "3\n"
    "{\n"
    "    parallel m in M by BM, n in N by BN {\n"
    "        var s: f32<BM, BN> = 0;\n"
    "        for k in K by 32 { s += dot(a[m, k], b[k, n]); }\n"
    "        c[m, n] = s;\n"
    "    }\n"
    "}\n"
    "kernel half(a: f16[M, K], b: f16[K, N], c: f16[M, N])\n"
    "tune BM = 128 | 64, BN = 256 | 128 | 64\n"
    "{\n"
    "    parallel m in M by BM, n in N by BN {\n"
    "        var s: f32<BM, BN> = 0;\n"
    "        for k in K by 64 { s += dot(a[m, k], b[k, n]); }\n"
    "        c[m, n] = s as f16;\n"
    "    }\n"
    "}\n"
    "kernel softmax(x: f32[R, N], y: f32[R, N]) tune BR = 1 | 4 | 16\n"
    "{\n"
    "    parallel r in R by BR {\n"
    "        let v = x[r, :];\n"
    "        let e = exp(v - max(v, axis = 1)[:, None]);\n"
    "        y[r, :] = e / sum(e, axis = 1)[:, None];\n"
    "    }\n"
    "}\n"
    "kernel lower(a: f32[M, K], b: f32[K, N], c: f32[M, N]) tune BM = 64 | 32 | 128\n"
    "{\n"
    "    parallel m in M by BM, n in N by 64 {\n"
    "        var s: f32<BM, 64> = 0;\n"
    "        for k in 0 .. min(K, m.end) by 32 { s += dot(a[m, k], b[k, n]); }\n"
    "        c[m, n] = s;\n"
    "    }\n"
    "}\n"
    "kernel exact(x: f32[N], y: f32[N]) schedule specialise = 1 {\n"
    "    parallel n in N by 64 { y[n] = x[n]; }\n"
    "}\n"
    "kernel greatest(x: f32[R, N], y: f32[R]) {\n"
    "    parallel r in R {\n"
    "        var t: f32 = -inf;\n"
    "        for n in N by 1024 merge max { t = max(t, max(x[r, n, pad = -inf])); }\n"
    "        y[r] = t;\n"
    "    }\n"
    "}\n"
    "kernel plain(x: f32[N], y: f32[N]) { parallel n in N by 64 { y[n] = 2 * x[n]; } }\n";

static const int64_t *dense(Ctx *ctx, int rank, const int64_t *shape) {
    int64_t *strides = ctx_array(ctx, int64_t, rank + 1), step = 1;
    for (int i = rank; i-- > 0; step *= shape[i]) strides[i] = step;
    return strides;
}

Request request_for(Ctx *ctx, const char *kernel, const char *target, int n, const int *ranks,
                    const int64_t (*shapes)[4]) {
    SourceText *text = ctx_new(ctx, SourceText);
    tg_actual *args = ctx_array(ctx, tg_actual, n + 1);
    *text = (SourceText){"test.teg", source, strlen(source)};
    for (int i = 0; i < n; i++) {
        const int64_t *shape = ctx_copy(ctx, shapes[i], sizeof shapes[i]);
        args[i] = (tg_actual){.code = kDLFloat,
                              .bits = 32,
                              .rank = (int8_t)ranks[i],
                              .shape = shape,
                              .strides = dense(ctx, ranks[i], shape),
                              .align = 16};
    }
    return (Request){.path = text->path,
                     .n_texts = 1,
                     .texts = text,
                     .kernel = kernel,
                     .threads = 2,
                     .target = target,
                     .n_args = n,
                     .args = args};
}

Request matmul_request(Ctx *ctx, const char *target, int64_t m, int64_t n, int64_t k) {
    const int64_t shapes[3][4] = {{m, k}, {k, n}, {m, n}};
    return request_for(ctx, "matmul", target, 3, (const int[]){2, 2, 2}, shapes);
}

Request half_request(Ctx *ctx, const char *target, int64_t m, int64_t n, int64_t k) {
    Request r = matmul_request(ctx, target, m, n, k);
    tg_actual *args = ctx_copy(ctx, r.args, sizeof *r.args * (size_t)r.n_args);
    for (int i = 0; i < r.n_args; i++) args[i].bits = 16;
    r.kernel = "half";
    r.args = args;
    return r;
}

Request softmax_request(Ctx *ctx, const char *target, int64_t rows, int64_t row) {
    const int64_t shapes[2][4] = {{rows, row}, {rows, row}};
    return request_for(ctx, "softmax", target, 2, (const int[]){2, 2}, shapes);
}

int64_t value_in(const TuneCandidate *c, const char *name) {
    const NamedValue *v = value_of_name(c->n_set, c->set, name);
    return v ? v->value : -1;
}
