// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.h"

#include <stdio.h>
#include <string.h>

void check_failure(tg_status got, tg_status want, const char *part, const char *file, int line) {
    if (got != want || !strstr(tg_last_error(), part)) {
        print_error("got %s: %s\nwanted %s with '%s'\n", tg_status_name(got), tg_last_error(),
                    tg_status_name(want), part);
        _fail(file, line);
    }
}

tg_module *module_of(const char *source) {
    tg_module *m = NULL;
    OK(tg_module_from_source(source, strlen(source), "test.teg", NULL, &m));
    return m;
}

tg_kernel *kernel_of(tg_module *m, const char *name) {
    tg_kernel *k = NULL;
    OK(tg_module_kernel(m, name, &k));
    return k;
}

const Type types[N_TYPES] = {
    {"f64", kDLFloat, 64, 11, 52},
    {"f32", kDLFloat, 32, 8, 23},
    {"f16", kDLFloat, 16, 5, 10},
    {"bf16", kDLBfloat, 16, 8, 7},
    {"f8e4m3", kDLFloat8_e4m3fn, 8, 4, 3},
    {"f8e5m2", kDLFloat8_e5m2, 8, 5, 2},
    {"i64", kDLInt, 64, 0, 0},
    {"i32", kDLInt, 32, 0, 0},
    {"i16", kDLInt, 16, 0, 0},
    {"i8", kDLInt, 8, 0, 0},
    {"u64", kDLUInt, 64, 0, 0},
    {"u32", kDLUInt, 32, 0, 0},
    {"u16", kDLUInt, 16, 0, 0},
    {"u8", kDLUInt, 8, 0, 0},
};

/// The bits of an integer in a binary float format: 1.mantissa * 2^e.
static uint64_t float_bits(const Type *t, int v) {
    uint64_t sign = v < 0, size = (uint64_t)(v < 0 ? -v : v);
    int e = 0;
    if (v == 0) return 0;
    while (size >> (e + 1)) e++;
    uint64_t fraction = (size - ((uint64_t)1 << e)) << t->mantissa >> e;
    uint64_t biased = (uint64_t)(e + (1 << (t->exponent - 1)) - 1);
    return sign << (t->bits - 1) | biased << t->mantissa | fraction;
}

void put(const Type *t, void *data, int64_t i, int v) {
    uint64_t bits = t->exponent ? float_bits(t, v) : (uint64_t)(int64_t)v;
    memcpy((char *)data + i * t->bits / 8, &bits, (size_t)t->bits / 8);
}

/// Returns the small integer that equals the element; 9999: none does.
int get(const Type *t, const void *data, int64_t i) {
    uint64_t bits = 0, one = 0;
    memcpy(&bits, (const char *)data + i * t->bits / 8, (size_t)t->bits / 8);
    for (int v = -64; v <= 64; v++) {
        one = 0;
        put(t, &one, 0, v);
        if (one == bits) return v;
    }
    return 9999;
}

void view(View *v, const Type *t, void *data, int rank, const int64_t *shape,
          const int64_t *strides) {
    if (rank) memcpy(v->shape, shape, sizeof *shape * (size_t)rank);
    v->t = tg_dense(data, t->code, t->bits, rank, v->shape);
    if (!strides) return;
    memcpy(v->strides, strides, sizeof *strides * (size_t)rank);
    v->t.strides = v->strides;
}
