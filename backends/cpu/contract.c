// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions: acc + the sum over k of A(k) B(k), and the dot, which is one step of it.
//
//   C = acc
//   for each strip of k steps:              as many as keep a tile's column of B in L1
//       for each step of the strip: evaluate A and B into panels        (pack.c)
//       for each column of tiles, for each row of tiles:
//           C tile += A panel x B panel, all of the strip               (microkernel.c)
//
// If the next program of the task uses the same columns, B is not packed again (panel_cache.c). C
// is a buffer of the arena, read and written once a strip. Tiles share rows and vectors evenly, so
// no row is padded and at most four tile shapes occur.
#include <math.h>

#include "backends/cpu/contract.h"
#include "backends/cpu/emit.h"

/// An extent cut into nearly equal parts: `n[0]` parts of `size[0]`, then `n[1]` smaller ones.
typedef struct TileSplit {
    int64_t n[2], size[2];
} TileSplit;

static TileSplit split_evenly(int64_t extent, int64_t most) {
    int64_t parts = ceil_div(extent, most), size = extent / parts, larger = extent % parts;
    return (TileSplit){{larger, parts - larger}, {size + 1, size}};
}

/// Cuts an extent into parts of `size` and a rest.
static TileSplit split_rest(int64_t extent, int64_t size) {
    return (TileSplit){{extent / size, extent % size != 0}, {size, extent % size}};
}

typedef struct Contraction {
    Emit *e;
    const DotKind *kind;
    Operand a, b;
    Panel pa, pb;
    int64_t rows, columns, step; // step: elements of k in a step
    int row_axis, column_axis;   // of the result
    int lanes;
    TileSplit tile_rows, tile_vectors;
    Buffer *c;
    LLVMValueRef units;          // in this strip
    bool from_zero;              // C is not filled: it starts as zeros
    LLVMValueRef fresh;          // i1: this strip is the first
    Direct direct;               // source of A instead of its panel; holds NULL: never used
    LLVMValueRef skip_a, skip_b; // i1: no panel is packed; NULL: always packed
} Contraction;

static Contraction contraction_of(Emit *e, Op *op, Value *a, Value *b) {
    const Type *type = result(op, 0)->type;
    bool swap = type->extents[1] == 1 && type->extents[0] > 1;
    Contraction c = {.e = e};
    c.a = swap ? (Operand){b, 1, 0} : (Operand){a, 0, 1};
    c.b = swap ? (Operand){a, 0, 1} : (Operand){b, 1, 0};
    c.row_axis = swap ? 1 : 0;
    c.column_axis = 1 - c.row_axis;
    c.rows = type->extents[c.row_axis];
    c.columns = type->extents[c.column_axis];
    c.step = a->type->extents[1];
    CpuTarget t = e->cpu->target;
    if (operand_is_picked(e, &c.a)) t.features = 0; // units would be gathered one by one
    c.kind = dot_kind(&t, c.a.v, c.b.v, result(op, 0), c.rows, c.columns);
    if (!c.kind) ice(e->ctx, op->loc, "no dot of this type");
    c.lanes = cpu_lanes(e->cpu, c.kind->result);
    int64_t vectors = ceil_div(c.columns, c.lanes);
    if (c.kind->engine == DOT_TILES) {
        c.tile_rows = split_rest(c.rows, 2 * TILE_SIDE);
        c.tile_vectors = split_rest(vectors, 2);
        return c;
    }
    int r = 1, v = 1;
    micro_choose(&e->cpu->target, c.kind, c.rows, vectors, &r, &v);
    c.tile_rows = split_evenly(c.rows, r);
    c.tile_vectors = split_evenly(vectors, v);
    return c;
}

/* ---- C ------------------------------------------------------------------------------------- */

typedef struct Init {
    const Contraction *c;
    Value *from; // or NULL for zero
    LLVMValueRef row;
} Init;

static void init_vector(Emit *e, void *arg, LLVMValueRef at, int live) {
    const Init *i = arg;
    const Contraction *c = i->c;
    Place p = {.rank = 2, .axis = c->column_axis, .lanes = c->lanes, .live = live};
    p.at[c->row_axis] = i->row;
    p.at[c->column_axis] = at;
    LLVMValueRef x =
        i->from ? emit_unmasked(e, i->from, &p) : gen_zero(e->g, c->kind->result, c->lanes);
    buffer_store(e, c->c, &p, x);
}

/// Whether v is 0. -0 does not count.
static bool is_positive_zero(const Value *v) {
    const Attr *a = const_of(v);
    return a && (a->kind == AT_FLOAT ? a->f == 0 && !signbit(a->f) : a->kind == AT_INT && !a->i);
}

static void fill_result(Emit *e, const Contraction *c, Value *from) {
    Init init = {c, from, NULL};
    Loop *l = loop_begin(e, gen_i64(e->g, 0), gen_i64(e->g, c->rows), 1, "row");
    init.row = l->iv;
    for_vectors(e, c->columns, c->lanes, init_vector, &init);
    loop_end(e, l, NULL);
}

/// Sets C to `from`. The first strip produces zeros itself.
static void init_result(Emit *e, Contraction *c, Op *op, Value *from) {
    c->c = result_buffer(e, result(op, 0));
    if (from && bound_buffer(e, from) == c->c) return;
    c->from_zero = !from || is_positive_zero(from);
    if (c->from_zero) return;
    fill_result(e, c, from);
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
        .a_step = c->direct.holds ? c->direct.step : gen_i64(c->e->g, c->pa.row_step),
        .fresh = c->fresh ? c->fresh : LLVMConstInt(c->e->g->i1, 0, false),
    };
}

/// Yields start + i * size for the i-th tile of a class. A class of one tile needs no loop.
static Loop *open_tile_loop(Emit *e, const TileSplit *s, int which, LLVMValueRef *at) {
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

/// Emits the tiles of one class of rows in the column of tiles at `vector`.
static void tiles_down(Contraction *c, int row_class, int vector_class, LLVMValueRef vector) {
    Emit *e = c->e;
    const Gen *g = e->g;
    LLVMValueRef row;
    Loop *l = open_tile_loop(e, &c->tile_rows, row_class, &row);
    Micro m = micro_of(c, row_class, vector_class);
    LLVMValueRef to = step_from(g, buffer_base(e, c->c), row, m.c_row);
    to = step_from(g, to, vector, (int64_t)c->lanes * elem_bytes(c->kind->result));
    LLVMValueRef from = c->direct.holds
                            ? gen_offset(g, c->direct.base, gen_mul(g, row, c->direct.step))
                            : step_from(g, c->pa.base, row, m.a_row);
    micro_call(e, &m, from, step_from(g, c->pb.base, vector, m.b_vector), to, c->units);
    if (l) loop_end(e, l, NULL);
}

/// Emits all tiles of one shape. The tile registers are configured once for them.
static void tiles_of_class(Contraction *c, int row_class, int vector_class) {
    LLVMValueRef vector;
    if (!c->tile_rows.n[row_class] || !c->tile_vectors.n[vector_class]) return;
    tiles_configure(c->e, (int)c->tile_rows.size[row_class]);
    Loop *l = open_tile_loop(c->e, &c->tile_vectors, vector_class, &vector);
    tiles_down(c, row_class, vector_class, vector);
    if (l) loop_end(c->e, l, NULL);
}

static void all_amx_tiles(Contraction *c) {
    const Gen *g = c->e->g;
    LLVMValueRef up = LLVMBuildAdd(g->b, c->units, gen_i64(g, TILE_SIDE - 1), "");
    c->units = LLVMBuildUDiv(g->b, up, gen_i64(g, TILE_SIDE), "");
    for (int r = 0; r < 2; r++)
        for (int v = 0; v < 2; v++) tiles_of_class(c, r, v);
    tiles_release(c->e);
}

// Columns are the outer loop: a tile's column of B stays in L1 while A streams from L2.
static void emit_all_tiles(Contraction *c) {
    if (c->kind->engine == DOT_TILES) {
        all_amx_tiles(c);
        return;
    }
    for (int v = 0; v < 2; v++) {
        if (!c->tile_vectors.n[v]) continue;
        LLVMValueRef vector;
        Loop *l = open_tile_loop(c->e, &c->tile_vectors, v, &vector);
        for (int r = 0; r < 2; r++)
            if (c->tile_rows.n[r]) tiles_down(c, r, v, vector);
        if (l) loop_end(c->e, l, NULL);
    }
}

/* ---- strips -------------------------------------------------------------------------------- */

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/// Returns the steps of a strip: its column of B fills two thirds of L1, and its panels half of L2.
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

static void pad_panels(Contraction *c) {
    if (padded_units(c->kind, units_of(c->kind, c->step)) == units_of(c->kind, c->step)) return;
    pad_panel(c->e, &c->a, &c->pa, c->units);
    pad_panel(c->e, &c->b, &c->pb, c->units);
}

/// Returns the filled panel of an operand of a dot. It is the operand's own buffer, a kept panel
/// with the same contents, or a new one.
static Panel dot_panel(Contraction *c, Op *op, const Operand *x, bool is_b) {
    Emit *e = c->e;
    int64_t units = units_of(c->kind, c->step);
    Panel p;
    Kept keys;
    LLVMValueRef none = gen_i64(e->g, 0);
    if (panel_in_place(e, x, c->kind, is_b, &p)) return p;
    bool keep = panel_cache_find_dot(e, op, x->v, panel_bytes(e, x, c->kind, units, is_b), &keys);
    p = (is_b ? panel_for_b : panel_for_a)(e, x, c->kind, units, keep ? keys.slots : 0);
    if (!keep) {
        pack(e, x, &p, none);
        return p;
    }
    if (keys.slot) p.base = step_from(e->g, p.base, keys.slot, p.bytes);
    If i = if_begin(e, panel_cache_begin(e, &keys), "kept");
    if_else(e, &i);
    pack(e, x, &p, none);
    panel_cache_end(e, &keys);
    if_end(e, &i);
    return p;
}

void lower_dot(Emit *e, Op *op) {
    Contraction c = contraction_of(e, op, operand(op, 0), operand(op, 1));
    init_result(e, &c, op, op->n_operands > 2 ? operand(op, 2) : NULL);
    c.pa = dot_panel(&c, op, &c.a, false);
    c.pb = dot_panel(&c, op, &c.b, true);
    c.units = gen_i64(e->g, units_of(c.kind, c.step));
    c.fresh = LLVMConstInt(e->g->i1, c.from_zero, false);
    pad_panels(&c);
    emit_all_tiles(&c);
    panels_free(&c);
}

/// The panels of one operand. Those of the first `kept` strips live until the contract runs again.
/// All later strips share one more panel.
typedef struct Keeper {
    int64_t kept;
    LLVMValueRef base, hit;
    Kept keys;
} Keeper;

/// The loop over strips.
typedef struct Strips {
    LLVMValueRef lo, hi;
    int64_t length, count; // length: elements of k; count: strips, or 0 if unknown
    Keeper a, b;
} Strips;

static Strips strips_of(Emit *e, Contraction *c, Op *op) {
    Strips s = {.lo = emit_scalar(e, operand(op, 0)), .hi = emit_scalar(e, operand(op, 1))};
    int64_t steps = steps_of_strip(c), first, last;
    if (const_int(operand(op, 0), &first) && const_int(operand(op, 1), &last) && last > first) {
        int64_t all = ceil_div(last - first, c->step);
        steps = min_i64(steps, all);
        s.count = ceil_div(all, steps);
    }
    s.length = steps * c->step;
    return s;
}

/// Allocates the panel of a strip. Panels of B are kept, as far as they fit into a quarter of L2.
/// Panels of A are kept if they are slow to pack and fit into an eighth of L2.
static Panel panel_new(Contraction *c, Op *op, const Strips *s, bool is_b, Keeper *k) {
    Emit *e = c->e;
    const Operand *x = is_b ? &c->b : &c->a;
    int64_t units = s->length / c->step * units_of(c->kind, c->step);
    Panel (*make)(Emit *, const Operand *, const DotKind *, int64_t, int64_t) =
        is_b ? panel_for_b : panel_for_a;
    if ((!is_b && !operand_is_scattered(e, x)) || !panel_cache_find(e, op, x->v, &k->keys))
        return make(e, x, c->kind, units, 0);
    int64_t bytes = panel_bytes(e, x, c->kind, units, is_b);
    k->kept = e->cpu->target.l2_bytes / (is_b ? 4 : 8) / bytes;
    if (k->kept < 1) k->kept = 1;
    if (s->count) k->kept = min_i64(k->kept, s->count);
    bool more = k->kept != s->count;
    Panel p = make(e, x, c->kind, units, k->kept + more);
    k->base = p.base;
    k->hit = panel_cache_begin(e, &k->keys);
    return p;
}

/// Selects the panel for the strip that begins at k = `from`. Returns an i1: the panel is packed
/// already; NULL: never.
static LLVMValueRef choose_strip_panel(Emit *e, const Strips *s, const Keeper *k, LLVMValueRef from,
                                       Panel *p) {
    const Gen *g = e->g;
    if (!k->kept) return NULL;
    LLVMValueRef done = LLVMBuildSub(g->b, from, s->lo, "");
    LLVMValueRef strip = LLVMBuildExactSDiv(g->b, done, gen_i64(g, s->length), "");
    LLVMValueRef kept = gen_i64(g, k->kept);
    p->base = step_from(g, k->base, panel_cache_slot(e, &k->keys, strip, k->kept), p->bytes);
    return LLVMBuildAnd(g->b, k->hit, LLVMBuildICmp(g->b, LLVMIntSLT, strip, kept, ""), "");
}

/// Packs unless the condition holds. NULL: it never holds.
static void pack_unless(Emit *e, LLVMValueRef holds, const Operand *x, const Panel *p,
                        LLVMValueRef first) {
    if (!holds) {
        pack(e, x, p, first);
        return;
    }
    If i = if_begin(e, holds, "kept");
    if_else(e, &i);
    pack(e, x, p, first);
    if_end(e, &i);
}

static void pack_step(Contraction *c, LLVMValueRef first) {
    Emit *e = c->e;
    pack_unless(e, c->skip_a, &c->a, &c->pa, first);
    pack_unless(e, c->skip_b, &c->b, &c->pb, first);
}

/// Packs the steps from `from` on, one after another.
static void pack_strip(Contraction *c, Region *r, LLVMValueRef from, LLVMValueRef to) {
    Emit *e = c->e;
    const Gen *g = e->g;
    Loop *l = loop_begin(e, from, to, c->step, "k");
    bind_scalar(e, r->args[0], l->iv);
    emit_ops(e, r);
    LLVMValueRef done = LLVMBuildSub(g->b, l->iv, from, "");
    LLVMValueRef steps = LLVMBuildExactSDiv(g->b, done, gen_i64(g, c->step), "");
    pack_step(c, gen_mul(g, steps, gen_i64(g, units_of(c->kind, c->step))));
    loop_end(e, l, NULL);
}

static bool zeros_beyond(const Contraction *c, const Op *op) {
    return zero_beyond(op, c->a.v, c->a.depth) && zero_beyond(op, c->b.v, c->b.depth);
}

/// Returns the units of the elements from .. to. The last step may end beyond `to`. Its dead
/// elements are padding, and they take part unless they are zeros.
static LLVMValueRef units_between(const Contraction *c, const Op *op, LLVMValueRef from,
                                  LLVMValueRef to) {
    const Gen *g = c->e->g;
    int64_t part = zeros_beyond(c, op) && c->step % c->kind->unit == 0 ? c->kind->unit : c->step;
    LLVMValueRef length = LLVMBuildSub(g->b, to, from, "");
    LLVMValueRef parts = LLVMBuildAdd(g->b, length, gen_i64(g, part - 1), "");
    parts = LLVMBuildSDiv(g->b, parts, gen_i64(g, part), "");
    return gen_mul(g, parts, gen_i64(g, units_of(c->kind, part)));
}

/// Fills the result with zeros if the loop has no iterations.
static void fill_where_empty(const Contraction *c, const Strips *s) {
    Emit *e = c->e;
    If i = if_begin(e, LLVMBuildICmp(e->g->b, LLVMIntSGE, s->lo, s->hi, ""), "empty");
    fill_result(e, c, NULL);
    if_else(e, &i);
    if_end(e, &i);
}

/// Returns the number of elements that must divide a directly read strip: whole tiles, or whole
/// steps if dead elements take part. 0: a step does not consist of whole tiles.
static int64_t part_of_direct(const Contraction *c, const Op *op) {
    int64_t tile = TILE_SIDE * c->kind->unit;
    if (c->step % tile) return 0;
    return zeros_beyond(c, op) ? tile : c->step;
}

static const char *panel_text(const Panel *p, const Keeper *k, bool direct) {
    return p->in_place ? "where it stands in the arena"
           : direct    ? "where it stands, packed where that is not whole"
           : k->kept   ? "packed, and kept for the next program"
                       : "packed";
}

static const char *note_contract(const Contraction *c, const Op *op, const Strips *s, bool direct) {
    static const char *const engines[] = {"multiply-adds", "pairs of 16-bit products",
                                          "dot instructions", "AMX tiles"};
    const char *elem = elem_info[c->kind->packed].name;
    bool tiles = c->kind->engine == DOT_TILES;
    int64_t rows = tiles ? 2 * TILE_SIDE : c->tile_rows.size[0];
    int64_t columns = tiles ? 2 * TILE_SIDE : c->tile_vectors.size[0] * c->lanes;
    const char *text = ctx_format(
        c->e->ctx,
        "products %lld x %lld by steps of %lld: %s in %s, %lld x %lld in registers, %lld of k a "
        "strip; A %s; B %s",
        (long long)c->rows, (long long)c->columns, (long long)c->step, engines[c->kind->engine],
        elem, (long long)rows, (long long)columns, (long long)s->length,
        panel_text(&c->pa, &s->a, direct), panel_text(&c->pb, &s->b, false));
    note(c->e, op, "%s", text);
    return text;
}

/// Selects the rows of A: in place or in the panel.
static void choose_a_rows(Contraction *c) {
    const Gen *g = c->e->g;
    Direct *d = &c->direct;
    d->base = LLVMBuildSelect(g->b, d->holds, d->base, c->pa.base, "");
    d->step = LLVMBuildSelect(g->b, d->holds, d->step, gen_i64(g, c->pa.row_step), "");
}

void lower_contract(Emit *e, Op *op) {
    const Gen *g = e->g;
    Region *r = op->regions[0];
    Contraction c = contraction_of(e, op, operand(terminator(r), 0), operand(terminator(r), 1));
    init_result(e, &c, op, operand(op, 2));
    Strips s = strips_of(e, &c, op);
    c.pa = panel_new(&c, op, &s, false, &s.a);
    c.pb = panel_new(&c, op, &s, true, &s.b);

    bool direct = amx_direct_possible(e, op, &c.a, c.kind) && part_of_direct(&c, op);
    const char *products = note_contract(&c, op, &s, direct);
    if (c.from_zero && !s.count) fill_where_empty(&c, &s);
    Loop *l = loop_begin(e, s.lo, s.hi, s.length, "strip");
    if (c.from_zero) c.fresh = LLVMBuildICmp(g->b, LLVMIntEQ, l->iv, s.lo, "");
    LLVMValueRef end = gen_min(g, gen_add(g, l->iv, gen_i64(g, s.length)), s.hi);
    c.skip_a = choose_strip_panel(e, &s, &s.a, l->iv, &c.pa);
    c.skip_b = choose_strip_panel(e, &s, &s.b, l->iv, &c.pb);
    if (direct) c.direct = amx_direct_strip(e, op, &c.a, part_of_direct(&c, op), l->iv, end);
    if (direct) c.skip_a = c.direct.holds;
    code_mark(e, op, "packs the operands of products");
    pack_strip(&c, r, l->iv, end);
    if (direct) choose_a_rows(&c);
    c.units = units_between(&c, op, l->iv, end);
    pad_panels(&c);
    code_mark(e, op, products);
    emit_all_tiles(&c);
    loop_end(e, l, NULL);
    if (s.a.kept) panel_cache_end(e, &s.a.keys);
    if (s.b.kept) panel_cache_end(e, &s.b.keys);
    panels_free(&c);
}
