// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions: acc + the sum over k of A(k) B(k), and the dot, which is one step of it.
//
//   C = acc
//   for each strip of k steps:              as many as keep a tile's column of B in L1
//       for each step of the strip: evaluate A and B into panels        (pack.c)
//       for each column of tiles, for each row of tiles:
//           C tile += A panel x B panel, all of the strip               (micro.c)
//
// C is a buffer of the arena, read and written once a strip. Tiles share rows and vectors evenly,
// so that no row is padded and at most four tile shapes occur.
#include "backends/cpu/dot.h"
#include "backends/cpu/private.h"

/// The extent cut into parts as equal as possible: first `n[0]` of `size[0]`, then `n[1]` smaller.
typedef struct Split {
    int64_t n[2], size[2];
} Split;

static Split split_evenly(int64_t extent, int64_t most) {
    int64_t parts = ceil_div(extent, most), size = extent / parts, larger = extent % parts;
    return (Split){{larger, parts - larger}, {size + 1, size}};
}

typedef struct Contraction {
    Emit *e;
    const DotKind *kind;
    Operand a, b;
    Panel pa, pb;
    int64_t rows, columns, step; // step: elements of k a step
    int row_axis, column_axis;   // of the result
    int lanes;
    Split tile_rows, tile_vectors;
    Buffer *c;
    LLVMValueRef units; // in this strip
} Contraction;

static Contraction contraction_of(Emit *e, Op *op, Value *a, Value *b) {
    const Type *type = result(op, 0)->type;
    bool swap = type->extents[1] == 1 && type->extents[0] > 1;
    Contraction c = {.e = e, .kind = dot_kind(result(op, 0))};
    if (!c.kind) ice(e->ctx, op->loc, "no dot of this type");
    c.a = swap ? (Operand){b, 1, 0} : (Operand){a, 0, 1};
    c.b = swap ? (Operand){a, 0, 1} : (Operand){b, 1, 0};
    c.row_axis = swap ? 1 : 0;
    c.column_axis = 1 - c.row_axis;
    c.rows = type->extents[c.row_axis];
    c.columns = type->extents[c.column_axis];
    c.step = a->type->extents[1];
    c.lanes = cpu_lanes(e->cpu, c.kind->result);
    int r = 1, v = 1;
    int64_t vectors = ceil_div(c.columns, c.lanes);
    micro_choose(&e->cpu->target, c.kind, c.rows, vectors, &r, &v);
    c.tile_rows = split_evenly(c.rows, r);
    c.tile_vectors = split_evenly(vectors, v);
    return c;
}

/* ---- C ------------------------------------------------------------------------------------- */

typedef struct Init {
    const Contraction *c;
    Value *from; // or NULL: zero
    LLVMValueRef row;
} Init;

static void init_vector(Emit *e, void *arg, LLVMValueRef at, int live) {
    const Init *i = arg;
    const Contraction *c = i->c;
    Place p = {.rank = 2, .axis = c->column_axis, .lanes = c->lanes, .live = live};
    p.at[c->row_axis] = i->row;
    p.at[c->column_axis] = at;
    LLVMValueRef x =
        i->from ? emit_full(e, i->from, &p) : gen_zero(e->g, c->kind->result, c->lanes);
    buffer_store(e, c->c, &p, x);
}

static void init_result(Emit *e, Contraction *c, Op *op, Value *from) {
    c->c = result_buffer(e, result(op, 0));
    if (from && bound_buffer(e, from) == c->c) return;
    Init init = {c, from, NULL};
    Loop *l = loop_begin(e, gen_i64(e->g, 0), gen_i64(e->g, c->rows), 1, "row");
    init.row = l->iv;
    for_vectors(e, c->columns, c->lanes, init_vector, &init);
    loop_end(e, l, NULL);
}

/* ---- tiles --------------------------------------------------------------------------------- */

static Micro micro_of(const Contraction *c, int row_class, int vector_class) {
    int bytes = elem_bytes(c->kind->result);
    return (Micro){
        .kind = c->kind,
        .rows = (int)c->tile_rows.size[row_class],
        .vectors = (int)c->tile_vectors.size[vector_class],
        .lanes = c->lanes,
        .a_row = c->pa.lanes ? elem_bytes(unit_elem(c->kind)) : c->pa.row_step,
        .a_unit = c->pa.unit_step,
        .b_vector = c->pb.row_step,
        .b_unit = c->pb.unit_step,
        .c_row = c->c->strides[c->row_axis] * bytes,
    };
}

/// start + i * size for the i-th tile of a class; only a class of several needs a loop.
static Loop *tile_loop(Emit *e, const Split *s, int which, LLVMValueRef *at) {
    const Gen *g = e->g;
    int64_t from = which ? s->n[0] * s->size[0] : 0;
    *at = gen_i64(g, from);
    if (s->n[which] == 1) return NULL;
    int64_t to = from + s->n[which] * s->size[which];
    Loop *l = loop_begin(e, *at, gen_i64(g, to), s->size[which], "tile");
    *at = l->iv;
    return l;
}

static LLVMValueRef step_from(const Gen *g, LLVMValueRef base, LLVMValueRef n, int64_t bytes) {
    return gen_offset(g, base, gen_mul(g, n, gen_i64(g, bytes)));
}

/// The tiles of one class of rows in the column of tiles at `vector`.
static void tiles_down(Contraction *c, int row_class, int vector_class, LLVMValueRef vector) {
    Emit *e = c->e;
    const Gen *g = e->g;
    LLVMValueRef row;
    Loop *l = tile_loop(e, &c->tile_rows, row_class, &row);
    Micro m = micro_of(c, row_class, vector_class);
    LLVMValueRef to = step_from(g, c->c->base, row, m.c_row);
    to = step_from(g, to, vector, (int64_t)c->lanes * elem_bytes(c->kind->result));
    micro_call(e, &m, step_from(g, c->pa.base, row, m.a_row),
               step_from(g, c->pb.base, vector, m.b_vector), to, c->units);
    if (l) loop_end(e, l, NULL);
}

// Columns outside: a tile's column of B stays in L1 while A streams from L2.
static void all_tiles(Contraction *c) {
    for (int v = 0; v < 2; v++) {
        if (!c->tile_vectors.n[v]) continue;
        LLVMValueRef vector;
        Loop *l = tile_loop(c->e, &c->tile_vectors, v, &vector);
        for (int r = 0; r < 2; r++)
            if (c->tile_rows.n[r]) tiles_down(c, r, v, vector);
        if (l) loop_end(c->e, l, NULL);
    }
}

/* ---- strips -------------------------------------------------------------------------------- */

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/// Steps whose column of B takes two thirds of L1 and whose panels take half of L2.
static int64_t steps_of_strip(const Contraction *c) {
    const CpuTarget *t = &c->e->cpu->target;
    int bytes = elem_bytes(unit_elem(c->kind));
    int64_t widest = c->tile_vectors.n[0] ? c->tile_vectors.size[0] : c->tile_vectors.size[1];
    int64_t l1 = t->l1_bytes * 2 / 3 / (widest * t->vector_bytes);
    int64_t l2 = t->l2_bytes / 2 / ((c->rows + c->columns) * bytes);
    int64_t steps = min_i64(l1, l2) / units_of(c->kind, c->step);
    return steps < 1 ? 1 : steps;
}

static void panels_free(const Contraction *c) {
    panel_free(c->e, &c->pb);
    panel_free(c->e, &c->pa);
}

static void pack_both(Contraction *c, LLVMValueRef first) {
    pack(c->e, &c->a, &c->pa, first);
    pack(c->e, &c->b, &c->pb, first);
}

void lower_dot(Emit *e, Op *op) {
    Contraction c = contraction_of(e, op, operand(op, 0), operand(op, 1));
    init_result(e, &c, op, op->n_operands > 2 ? operand(op, 2) : NULL);
    int64_t units = units_of(c.kind, c.step);
    if (!panel_in_place(e, &c.a, c.kind, false, &c.pa)) c.pa = panel_for_a(e, &c.a, c.kind, units);
    if (!panel_in_place(e, &c.b, c.kind, true, &c.pb)) c.pb = panel_for_b(e, &c.b, c.kind, units);
    pack_both(&c, gen_i64(e->g, 0));
    c.units = gen_i64(e->g, units);
    all_tiles(&c);
    panels_free(&c);
}

/// The steps from `from` on, packed one after another.
static void pack_strip(Contraction *c, Region *r, LLVMValueRef from, LLVMValueRef to) {
    Emit *e = c->e;
    const Gen *g = e->g;
    Loop *l = loop_begin(e, from, to, c->step, "k");
    bind_scalar(e, r->args[0], l->iv);
    arena_enter(e);
    emit_ops(e, r);
    LLVMValueRef done = LLVMBuildSub(g->b, l->iv, from, "");
    LLVMValueRef steps = LLVMBuildExactSDiv(g->b, done, gen_i64(g, c->step), "");
    pack_both(c, gen_mul(g, steps, gen_i64(g, units_of(c->kind, c->step))));
    arena_leave(e);
    loop_end(e, l, NULL);
}

void lower_contract(Emit *e, Op *op) {
    const Gen *g = e->g;
    Region *r = op->regions[0];
    Contraction c = contraction_of(e, op, operand(terminator(r), 0), operand(terminator(r), 1));
    init_result(e, &c, op, operand(op, 2));
    LLVMValueRef lo = emit_scalar(e, operand(op, 0)), hi = emit_scalar(e, operand(op, 1));
    int64_t steps = steps_of_strip(&c), first, last;
    if (const_int(operand(op, 0), &first) && const_int(operand(op, 1), &last) && last > first)
        steps = min_i64(steps, ceil_div(last - first, c.step));
    int64_t units = steps * units_of(c.kind, c.step);
    c.pa = panel_for_a(e, &c.a, c.kind, units);
    c.pb = panel_for_b(e, &c.b, c.kind, units);

    Loop *l = loop_begin(e, lo, hi, steps * c.step, "strip");
    LLVMValueRef end = gen_min(g, gen_add(g, l->iv, gen_i64(g, steps * c.step)), hi);
    pack_strip(&c, r, l->iv, end);
    // The last step may end beyond hi: its dead elements are pads, which take part.
    LLVMValueRef length = LLVMBuildSub(g->b, end, l->iv, "");
    LLVMValueRef done = LLVMBuildAdd(g->b, length, gen_i64(g, c.step - 1), "");
    done = LLVMBuildSDiv(g->b, done, gen_i64(g, c.step), "");
    c.units = gen_mul(g, done, gen_i64(g, units_of(c.kind, c.step)));
    all_tiles(&c);
    loop_end(e, l, NULL);
    panels_free(&c);
}
