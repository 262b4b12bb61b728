// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attributes: constant data of ops, with one object for each value.
//
// As for types, the key of an object is an interned byte string with its content. Each kind has its
// own map, so the integer 1, true and the float with the same bits stay distinct.
#include "ir/ir_private.h"

#include <string.h>

/// The single attribute of a's kind with the content of these bytes.
static const Attr *unique_attr(Ir *ir, Attr a, const void *bytes, size_t size) {
    const char *key = ctx_intern(ir->ctx, bytes, size);
    PtrMap *map = &ir->attrs[a.kind];
    Attr *known = map_get(map, key);
    if (!known) {
        known = ctx_copy(ir->ctx, &a, sizeof a);
        map_set(ir->ctx, map, key, known);
    }
    return known;
}

const Attr *at_int(Ir *ir, int64_t v) {
    return unique_attr(ir, (Attr){.kind = AT_INT, .i = v}, &v, sizeof v);
}

const Attr *at_float(Ir *ir, double v) {
    return unique_attr(ir, (Attr){.kind = AT_FLOAT, .f = v}, &v, sizeof v);
}

const Attr *at_bool(Ir *ir, bool v) {
    return unique_attr(ir, (Attr){.kind = AT_BOOL, .i = v}, &v, sizeof v);
}

const Attr *at_str(Ir *ir, const char *s) {
    size_t n = strlen(s);
    Attr a = {.kind = AT_STR, .n = (int)n, .str = ctx_intern(ir->ctx, s, n)};
    return unique_attr(ir, a, s, n);
}

const Attr *at_type(Ir *ir, const Type *t) {
    return unique_attr(ir, (Attr){.kind = AT_TYPE, .type = t}, &t, sizeof t);
}

const Attr *at_ints(Ir *ir, const int64_t *v, int n) {
    size_t size = (size_t)n * sizeof *v;
    const int64_t *copy = ctx_copy(ir->ctx, v, size);
    return unique_attr(ir, (Attr){.kind = AT_INTS, .n = n, .ints = copy}, copy, size);
}

/// The strings are interned first, so the array of their addresses is the key.
const Attr *at_strs(Ir *ir, const char *const *v, int n) {
    const char **copy = ctx_array(ir->ctx, const char *, n);
    for (int i = 0; i < n; i++) copy[i] = ctx_name(ir->ctx, v[i]);
    Attr a = {.kind = AT_STRS, .n = n, .strs = copy};
    return unique_attr(ir, a, copy, (size_t)n * sizeof *copy);
}

/// Sizes are meaningful for axes only. They are zeroed elsewhere, so that equal subscripts are
/// equal.
const Attr *at_subs(Ir *ir, const SubDim *v, int n) {
    SubDim *copy = ctx_array(ir->ctx, SubDim, n);
    int64_t *key = ctx_array(ir->ctx, int64_t, 3 * n);
    for (int i = 0; i < n; i++) {
        bool axis = v[i].kind == DIM_AXIS;
        copy[i] = (SubDim){v[i].kind, axis ? v[i].size : 0, axis ? v[i].mul : 0};
        memcpy(key + 3 * i, (int64_t[]){copy[i].kind, copy[i].size, copy[i].mul}, 3 * sizeof *key);
    }
    Attr a = {.kind = AT_SUBS, .n = n, .subs = copy};
    return unique_attr(ir, a, key, 3 * (size_t)n * sizeof *key);
}
