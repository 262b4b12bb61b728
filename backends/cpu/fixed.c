// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions whose tree depends on the extent alone (order = fixed): neighbours are joined pair by
// pair, level by level, until one is left; an odd last one goes through to the next level.
//
// The levels work in place on a copy of the operands: element i of the next level overwrites what
// has been read, since it is made of elements 2i and 2i + 1.
#include "backends/cpu/lines.h"
#include "backends/cpu/private.h"

enum { MAX_VALUES = 16 };

typedef struct Tree {
    Op *op;
    const Type *type;
    int n, axis, vector, lanes; // vector: the axis that vectors run along
    Buffer *copy[MAX_VALUES];
    int64_t half; // pairs of this level
    bool odd;
    LLVMValueRef pair; // number of the pair at hand
    Place line;
} Tree;

static void join(Emit *e, const Tree *t, const LLVMValueRef *a, const LLVMValueRef *b,
                 LLVMValueRef *out) {
    LLVMValueRef args[2 * MAX_VALUES];
    for (int i = 0; i < t->n; i++) {
        args[i] = a[i];
        args[t->n + i] = b[i];
    }
    emit_region_lanes(e, t->op->regions[0], args, out);
}

static void load_all(Emit *e, const Tree *t, const Place *p, LLVMValueRef *v) {
    for (int i = 0; i < t->n; i++) v[i] = buffer_load(e, t->copy[i], p);
}

static void store_all(Emit *e, const Tree *t, const Place *p, const LLVMValueRef *v) {
    for (int i = 0; i < t->n; i++) buffer_store(e, t->copy[i], p, v[i]);
}

static Place at_axis(const Place *p, int axis, LLVMValueRef at) {
    Place q = *p;
    q.at[axis] = at;
    return q;
}

/* ---- along the lanes ----------------------------------------------------------------------- */

/// Pairs at .. at + lanes: two vectors of neighbours, taken apart into firsts and seconds.
static void lane_pairs(Emit *e, void *arg, LLVMValueRef at, int live) {
    Tree *t = arg;
    const Gen *g = e->g;
    int evens[MAX_LANES], odds[MAX_LANES];
    LLVMValueRef x[MAX_VALUES], y[MAX_VALUES], a[MAX_VALUES], b[MAX_VALUES];
    (void)live; // what dead lanes leave behind lies past what is still to be read
    LLVMValueRef from = gen_mul(g, at, gen_i64(g, 2));
    Place p = line_place(&t->line, t->vector, t->lanes, from, t->lanes);
    load_all(e, t, &p, x);
    p.at[t->vector] = gen_add(g, from, gen_i64(g, t->lanes));
    load_all(e, t, &p, y);
    for (int i = 0; i < t->lanes; i++) {
        evens[i] = 2 * i;
        odds[i] = 2 * i + 1;
    }
    for (int i = 0; i < t->n; i++) {
        a[i] = gen_shuffle(g, x[i], y[i], t->lanes, evens);
        b[i] = gen_shuffle(g, x[i], y[i], t->lanes, odds);
    }
    join(e, t, a, b, x);
    p.at[t->vector] = at;
    store_all(e, t, &p, x);
}

static void lane_level(Emit *e, void *arg, Place *p) {
    Tree *t = arg;
    LLVMValueRef last[MAX_VALUES];
    Place single = at_axis(p, t->axis, gen_i64(e->g, 2 * t->half));
    if (t->odd) load_all(e, t, &single, last);
    t->line = *p;
    for_vectors(e, t->half, t->lanes, lane_pairs, t);
    single.at[t->axis] = gen_i64(e->g, t->half);
    if (t->odd) store_all(e, t, &single, last);
}

/* ---- along another axis -------------------------------------------------------------------- */

static void row_pair(Emit *e, void *arg, LLVMValueRef at, int live) {
    Tree *t = arg;
    const Gen *g = e->g;
    LLVMValueRef a[MAX_VALUES], b[MAX_VALUES], c[MAX_VALUES];
    LLVMValueRef first = gen_mul(g, t->pair, gen_i64(g, 2));
    Place p = line_place(&t->line, t->vector, t->lanes, at, live);
    p.at[t->axis] = first;
    load_all(e, t, &p, a);
    p.at[t->axis] = gen_add(g, first, gen_i64(g, 1));
    load_all(e, t, &p, b);
    join(e, t, a, b, c);
    p.at[t->axis] = t->pair;
    store_all(e, t, &p, c);
}

static void row_through(Emit *e, void *arg, LLVMValueRef at, int live) {
    Tree *t = arg;
    LLVMValueRef v[MAX_VALUES];
    Place p = line_place(&t->line, t->vector, t->lanes, at, live);
    p.at[t->axis] = gen_i64(e->g, 2 * t->half);
    load_all(e, t, &p, v);
    p.at[t->axis] = gen_i64(e->g, t->half);
    store_all(e, t, &p, v);
}

static void row_level(Emit *e, void *arg, Place *p) {
    Tree *t = arg;
    int64_t extent = t->type->extents[t->vector];
    t->line = *p;
    Loop *l = loop_begin(e, gen_i64(e->g, 0), gen_i64(e->g, t->half), 1, "pair");
    t->pair = l->iv;
    for_vectors(e, extent, t->lanes, row_pair, t);
    loop_end(e, l, NULL);
    if (t->odd) for_vectors(e, extent, t->lanes, row_through, t);
}

/* ---- the op -------------------------------------------------------------------------------- */

static void write_vector(Emit *e, void *arg, LLVMValueRef at, int live) {
    Tree *t = arg;
    Place p = line_place(&t->line, t->vector, t->lanes, at, live);
    Place q = place_drop(&p, t->axis);
    for (int i = 0; i < t->n; i++)
        buffer_store(e, bound_buffer(e, result(t->op, i)), &q, buffer_load(e, t->copy[i], &p));
}

/// The first element along the axis is the result.
static void write_line(Emit *e, void *arg, Place *p) {
    Tree *t = arg;
    t->line = *p;
    if (t->axis != t->vector) {
        for_vectors(e, t->type->extents[t->vector], t->lanes, write_vector, t);
        return;
    }
    Place q = place_drop(p, t->axis);
    for (int i = 0; i < t->n; i++) {
        LLVMValueRef x = buffer_load(e, t->copy[i], p);
        if (t->type->rank == 1)
            bind_scalar(e, result(t->op, i), x);
        else
            buffer_store(e, bound_buffer(e, result(t->op, i)), &q, x);
    }
}

void lower_reduce_fixed(Emit *e, Op *op) {
    Tree t = {.op = op, .type = operand(op, 0)->type, .n = op->n_results};
    if (t.n > MAX_VALUES) ice(e->ctx, op->loc, "a reduction of more than %d values", MAX_VALUES);
    t.axis = (int)op_int(op, "axis", 0);
    t.vector = line_axis(t.type);
    int bytes = 1;
    for (int i = 0; i < t.n; i++) {
        Value *x = operand(op, i);
        if (elem_bytes(x->type->elem) > bytes) bytes = elem_bytes(x->type->elem);
        t.copy[i] = buffer_new(e, x->type->elem, t.type->rank, t.type->extents);
        nest_add(e, (Root){.kind = ROOT_BUFFER, .value = x, .out = t.copy[i], .keep = true});
    }
    nest_flush(e);
    t.lanes = line_lanes(e, bytes, t.type->extents[t.vector]);
    unsigned both = 1u << t.axis | 1u << t.vector;
    for (int64_t count = t.type->extents[t.axis]; count > 1; count = (count + 1) / 2) {
        t.half = count / 2;
        t.odd = count % 2;
        for_lines(e, t.type, both, t.axis == t.vector ? lane_level : row_level, &t);
    }
    for (int i = 0; i < t.n; i++)
        if (t.type->rank > 1) result_buffer(e, result(op, i));
    for_lines(e, t.type, both, write_line, &t);
    for (int i = 0; i < t.n; i++) buffer_free(e, t.copy[i]);
}
