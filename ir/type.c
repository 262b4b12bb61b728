// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types: one object for each type, so that equality is pointer equality.
//
// A type is encoded as a row of integers, and the row is interned. The interned bytes are the key
// of the object, so no hash or comparison of types is needed.
#include "ir/ir_private.h"
#include "ir/layout/layout.h"

Ir *ir_create(Ctx *ctx) {
    Ir *ir = ctx_new(ctx, Ir);
    ir->ctx = ctx;
    return ir;
}

Ctx *ir_ctx(const Ir *ir) {
    return ir->ctx;
}

/// Returns a number that identifies the list of parts.
static int64_t parts_key(Ir *ir, const Type *t) {
    size_t bytes = (size_t)t->n_parts * sizeof *t->parts;
    return bytes ? (intptr_t)ctx_intern(ir->ctx, (const char *)t->parts, bytes) : 0;
}

/// Returns the one Type equal to t, found by its encoding as integers.
static const Type *unique_type(Ir *ir, const Type *t) {
    int64_t key[11 + 2 * MAX_RANK] = {t->kind,          t->elem,  t->rank, (intptr_t)t->layout,
                                      t->swizzle,       t->inner, t->pad,  t->slots,
                                      parts_key(ir, t), t->align, t->near};
    int n = 11;
    for (int i = 0; i < t->rank; i++) key[n++] = t->extents[i];
    for (int i = 0; t->kind == TK_TENSOR && i < t->rank; i++) key[n++] = t->strides[i];
    const char *bytes = ctx_intern(ir->ctx, (const char *)key, (size_t)n * sizeof *key);
    Type *known = map_get(&ir->types, bytes);
    if (!known) {
        known = ctx_copy(ir->ctx, t, sizeof *t);
        map_set(ir->ctx, &ir->types, bytes, known);
    }
    return known;
}

/// The limit on the rank is checked only here; all other code relies on it.
static Type make_type(Ir *ir, TypeKind kind, Elem elem, int rank) {
    if (rank < 0 || rank > MAX_RANK)
        ice(ir->ctx, (Loc){0}, "a type of rank %d, the limit is %d", rank, MAX_RANK);
    return (Type){.kind = kind, .elem = elem, .rank = rank};
}

const Type *ty_block(Ir *ir, Elem elem, int rank, const int64_t *extents) {
    Type t = make_type(ir, TK_BLOCK, elem, rank);
    for (int i = 0; i < rank; i++) t.extents[i] = extents[i];
    return unique_type(ir, &t);
}

const Type *ty_laid(Ir *ir, Elem elem, const Layout *layout) {
    Type t = make_type(ir, TK_BLOCK, elem, layout->rank);
    for (int i = 0; i < layout->rank; i++) t.extents[i] = layout->extents[i];
    t.layout = layout;
    return unique_type(ir, &t);
}

const Type *ty_aligned(Ir *ir, const Type *tensor, int bytes) {
    Type t = *tensor;
    t.align = bytes;
    return unique_type(ir, &t);
}

const Type *ty_scratch(Ir *ir, const Type *tensor) {
    int64_t bits = elem_info[tensor->elem].bits;
    for (int d = tensor->rank - 1; d > 0; d--) {
        if (tensor->extents[d] != DYNAMIC) bits *= tensor->extents[d];
        if (bits % (SCRATCH_ALIGN * 8)) return tensor;
    }
    return ty_aligned(ir, tensor, SCRATCH_ALIGN);
}

const Type *ty_near(Ir *ir, const Type *tensor) {
    Type t = *tensor;
    t.near = true;
    return unique_type(ir, &t);
}

const Type *ty_plain(Ir *ir, const Type *t) {
    return t->layout ? ty_block(ir, t->elem, t->rank, t->extents) : t;
}

const Type *ty_scalar(Ir *ir, Elem elem) {
    return ty_block(ir, elem, 0, NULL);
}

const Type *ty_tensor(Ir *ir, Elem elem, int rank, const int64_t *extents, const int64_t *strides) {
    Type t = make_type(ir, TK_TENSOR, elem, rank);
    for (int i = 0; i < rank; i++) {
        t.extents[i] = extents ? extents[i] : DYNAMIC;
        t.strides[i] = strides ? strides[i] : DYNAMIC;
    }
    return unique_type(ir, &t);
}

static const Type *unique_placed(Ir *ir, Type t, const int64_t *extents, int swizzle, int inner) {
    for (int i = 0; i < t.rank; i++) t.extents[i] = extents[i];
    t.swizzle = swizzle;
    t.inner = inner;
    return unique_type(ir, &t);
}

const Type *ty_buf(Ir *ir, Elem elem, int rank, const int64_t *extents, int swizzle, int inner,
                   int pad) {
    Type t = make_type(ir, TK_BUF, elem, rank);
    t.pad = pad;
    return unique_placed(ir, t, extents, swizzle, inner);
}

const Type *ty_buf_laid(Ir *ir, Elem elem, const Layout *layout, int inner) {
    Type t = make_type(ir, TK_BUF, elem, layout->rank);
    t.layout = layout;
    return unique_placed(ir, t, layout->extents, 0, inner);
}

const Type *ty_buf_permuted(Ir *ir, const Type *t, const int64_t *perm) {
    int64_t extents[MAX_RANK];
    int inner = t->inner, order[MAX_RANK];
    for (int i = 0; i < t->rank; i++) {
        extents[i] = t->extents[perm[i]];
        order[i] = (int)perm[i];
        if (perm[i] == t->inner) inner = i;
    }
    if (t->layout)
        return ty_buf_laid(ir, t->elem, layout_permute(ir->ctx, t->layout, order), inner);
    return ty_buf(ir, t->elem, t->rank, extents, t->swizzle, inner, t->pad);
}

const Type *ty_desc(Ir *ir, Elem elem, int rank, const int64_t *box, int swizzle, int inner) {
    return unique_placed(ir, make_type(ir, TK_DESC, elem, rank), box, swizzle, inner);
}

static const Type *of_parts(Ir *ir, TypeKind kind, int slots, int n, const Type *const *parts) {
    Type t = make_type(ir, kind, n ? parts[0]->elem : EL_BOOL, 0);
    t.slots = slots;
    t.n_parts = n;
    t.parts = n ? ctx_copy(ir->ctx, parts, (size_t)n * sizeof *parts) : NULL;
    return unique_type(ir, &t);
}

const Type *ty_ring(Ir *ir, int slots, int n, const Type *const *bufs) {
    return of_parts(ir, TK_RING, slots, n, bufs);
}

const Type *ty_pending(Ir *ir, const Type *block) {
    return of_parts(ir, TK_PENDING, 0, block != NULL, &block);
}

/// Strides of a tensor count elements, so they do not change.
const Type *ty_with_elem(Ir *ir, const Type *shape, Elem elem) {
    Type t = *shape;
    t.elem = elem;
    return unique_type(ir, &t);
}

const Type *ty_with_shape(Ir *ir, const Type *elem, const Type *shape) {
    return ty_with_elem(ir, shape, elem->elem);
}

int64_t extents_product(const int64_t *extents, int n) {
    int64_t product = 1;
    for (int i = 0; i < n; i++)
        if (extents[i] == 0) return 0;
    for (int i = 0; i < n; i++)
        if (__builtin_mul_overflow(product, extents[i], &product)) return INT64_MAX;
    return product;
}

bool ty_same_shape(const Type *a, const Type *b) {
    if (a->kind != b->kind || a->rank != b->rank || a->layout != b->layout) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->extents[i] != b->extents[i] || a->strides[i] != b->strides[i]) return false;
    return true;
}

int64_t ty_count(const Type *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->extents[i];
    return n;
}
