// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packing: evaluates operands of a contraction, of any kind, into panels of the arena.
//
// Casts to the type of the products happen here, once an element, and edges get one common shape.
// Vectors always run along the axis that is contiguous in memory. If the panel needs the other
// axis, squares are transposed in registers.
#include "backends/cpu/contract.h"
#include "backends/cpu/emit.h"

/* ---- the contiguous axis ------------------------------------------------------------------- */

/// Returns the last axis of extent above 1.
static int last_axis(const Type *t) {
    for (int d = t->rank - 1; d >= 0; d--)
        if (t->extents[d] > 1) return d;
    return -1;
}

/// Returns the axis of `to` that corresponds to `axis`, counting axes of extent above 1.
static int same_axis(const Type *from, int axis, const Type *to) {
    int nth = 0;
    for (int d = 0; d < axis; d++) nth += from->extents[d] > 1;
    for (int d = 0; d < to->rank; d++)
        if (to->extents[d] > 1 && nth-- == 0) return d;
    return -1;
}

static int load_axis(const Op *op, const Type *t) {
    for (int d = t->rank - 1; d >= 0; d--)
        if (t->extents[d] > 1 && access_stride(op, d) == 1) return d;
    return picked_axis(op);
}

/// Returns the contiguous axis of v, or -1 if no axis is better than another. `seen` holds the
/// values visited so far, which get -1.
static int axis_of(Emit *e, Value *v, PtrMap *seen) {
    Op *op = v->def;
    if (map_get(seen, v)) return -1;
    map_set(e->ctx, seen, v, e);
    if (!op || bound_buffer(e, v) || !op_is_lazy(op)) return last_axis(v->type);
    if (op->code == OP_LOAD) return load_axis(op, v->type);
    for (int i = 0; i < op->n_operands; i++) {
        const Type *from = operand(op, i)->type;
        if (!ty_is_block(from) || from->rank == 0) continue;
        int axis = axis_of(e, operand(op, i), seen);
        if (axis < 0) continue;
        if (op->code == OP_RESHAPE) return same_axis(from, axis, v->type);
        if (op->code != OP_PERMUTE) return axis;
        const Attr *perm = op_ints(op, A_PERM);
        for (int d = 0; d < v->type->rank; d++)
            if (perm->ints[d] == axis) return d;
    }
    return -1;
}

static int inner_axis(Emit *e, Value *v) {
    PtrMap seen = {0};
    return axis_of(e, v, &seen);
}

int contiguous_axis(Emit *e, Value *v) {
    int axis = inner_axis(e, v);
    return axis < 0 ? v->type->rank - 1 : axis;
}

bool operand_is_scattered(Emit *e, const Operand *x) {
    return inner_axis(e, x->v) < 0;
}

/* ---- panels -------------------------------------------------------------------------------- */

static int unit_bytes(const DotKind *k) {
    return elem_bytes(unit_elem(k));
}
static int64_t outer_extent(const Operand *x) {
    return x->v->type->extents[x->outer];
}
static int64_t depth_extent(const Operand *x) {
    return x->v->type->extents[x->depth];
}

static Panel panel_place(Emit *e, Panel p, int64_t kept) {
    p.kept = kept > 0;
    p.base = kept ? arena_keep(e, p.bytes * kept, &p.arena) : arena_bytes(e, p.bytes, &p.arena);
    return p;
}

/// Rounds bytes up to whole vectors, and avoids the powers of two that share a cache set.
static int64_t row_bytes(const Emit *e, int64_t bytes) {
    int64_t vector = e->cpu->target.vector_bytes;
    bytes = ceil_div(bytes, vector) * vector;
    return bytes % 512 ? bytes : bytes + vector;
}

/// Returns a panel without memory.
static Panel shape_of_a(Emit *e, const Operand *a, const DotKind *k, int64_t units) {
    int lanes = e->cpu->target.vector_bytes / unit_bytes(k);
    Panel p = {.kind = k};
    bool tiles = k->engine == DOT_TILES;
    units = padded_units(k, units);
    p.transpose = tiles && contiguous_axis(e, a->v) == a->outer && outer_extent(a) > 1;
    if (!tiles && contiguous_axis(e, a->v) == a->outer) {
        p.lanes = lanes;
        p.row_step = e->cpu->target.vector_bytes;
        p.unit_step = row_bytes(e, outer_extent(a) * unit_bytes(k));
        p.bytes = p.unit_step * units;
        return p;
    }
    // The last vector of a row may end beyond the row.
    p.unit_step = unit_bytes(k);
    p.row_step = row_bytes(e, units * p.unit_step + e->cpu->target.vector_bytes);
    p.bytes = p.row_step * outer_extent(a);
    return p;
}

static Panel shape_of_b(Emit *e, const Operand *b, const DotKind *k, int64_t units) {
    int lanes = e->cpu->target.vector_bytes / unit_bytes(k);
    Panel p = {.kind = k, .lanes = lanes};
    p.unit_step = e->cpu->target.vector_bytes;
    units = padded_units(k, units);
    p.row_step = (units + 1) * p.unit_step;
    // A square needs two rows; a single unit is already a row.
    p.transpose = contiguous_axis(e, b->v) == b->depth && units_of(k, depth_extent(b)) > 1;
    p.bytes = p.row_step * ceil_div(outer_extent(b), lanes);
    return p;
}

Panel panel_for_a(Emit *e, const Operand *a, const DotKind *k, int64_t units, int64_t kept) {
    return panel_place(e, shape_of_a(e, a, k, units), kept);
}

Panel panel_for_b(Emit *e, const Operand *b, const DotKind *k, int64_t units, int64_t kept) {
    return panel_place(e, shape_of_b(e, b, k, units), kept);
}

int64_t panel_bytes(Emit *e, const Operand *x, const DotKind *k, int64_t units, bool is_b) {
    return (is_b ? shape_of_b(e, x, k, units) : shape_of_a(e, x, k, units)).bytes;
}

/// Whether A can stay in its buffer: its rows are in a buffer, k is contiguous and consists of
/// whole tiles or units.
static bool rows_in_place(Emit *e, const Buffer *b, const Operand *x, const DotKind *k, Panel *p) {
    int64_t whole = k->unit * (k->engine == DOT_TILES ? TILE_SIDE : 1);
    if (b->strides[x->depth] != 1 || depth_extent(x) % whole) return false;
    *p = (Panel){.kind = k, .base = buffer_base(e, b), .in_place = true};
    p->unit_step = unit_bytes(k);
    p->row_step = b->strides[x->outer] * elem_bytes(b->elem);
    return true;
}

// B needs whole aligned vectors along its columns. A may have any constant steps.
bool panel_in_place(Emit *e, const Operand *x, const DotKind *k, bool is_b, Panel *p) {
    const Buffer *b = bound_buffer(e, x->v);
    if (!b || b->elem != k->packed) return false;
    if (k->unit != 1) return !is_b && rows_in_place(e, b, x, k, p);
    int64_t outer = b->strides[x->outer], depth = b->strides[x->depth];
    int lanes = e->cpu->target.vector_bytes / unit_bytes(k);
    if (is_b && (outer != 1 || depth % lanes != 0 || outer_extent(x) < 2)) return false;
    *p = (Panel){.kind = k, .base = buffer_base(e, b), .in_place = true};
    p->unit_step = depth * unit_bytes(k);
    p->row_step = outer * unit_bytes(k) * (is_b ? lanes : 1);
    return true;
}

void panel_free(Emit *e, const Panel *p) {
    if (!p->in_place && !p->kept) arena_release(e, p->arena);
}

/* ---- vectors ------------------------------------------------------------------------------- */

/// The packing of one operand into its panel.
typedef struct PanelPacking {
    const Operand *x;
    const Panel *p;
    LLVMValueRef first; // the panel's unit of the operand's first unit
    LLVMValueRef row;   // if vectors run along k: the row; else the unit within the operand
    int elements;       // elements of a unit inside the operand
} PanelPacking;

/// Returns `lanes` elements along `axis` from (outer, depth) on, in the panel's element type.
static LLVMValueRef operand_vector(Emit *e, const PanelPacking *k, int axis, int lanes, int live,
                                   LLVMValueRef outer, LLVMValueRef depth) {
    const Operand *x = k->x;
    Place p = {.rank = 2, .axis = axis, .lanes = lanes, .live = live};
    p.at[x->outer] = outer;
    p.at[x->depth] = depth;
    return gen_cast(e->g, value_elem(x->v), k->p->kind->packed, emit_unmasked(e, x->v, &p));
}

static LLVMValueRef clear_from(const Gen *g, LLVMValueRef v, int live) {
    int lanes = gen_lanes(v);
    if (live >= lanes) return v;
    return LLVMBuildSelect(g->b, gen_first_lanes(g, live, lanes), v, LLVMConstNull(LLVMTypeOf(v)),
                           "");
}

/// Returns the address of unit `unit` of the operand at outer index `outer`, a multiple of the
/// lanes.
static LLVMValueRef panel_address(Emit *e, const PanelPacking *k, LLVMValueRef unit,
                                  LLVMValueRef outer) {
    const Gen *g = e->g;
    const Panel *p = k->p;
    LLVMValueRef u = gen_mul(g, gen_add(g, k->first, unit), gen_i64(g, p->unit_step));
    int64_t step = p->lanes ? p->row_step / p->lanes : p->row_step;
    return gen_offset(g, gen_offset(g, p->base, u), gen_mul(g, outer, gen_i64(g, step)));
}

/* ---- along k ------------------------------------------------------------------------------- */

static int next_power_of_2(int64_t n) {
    int p = 1;
    while (p < n) p *= 2;
    return p;
}
static int min_int(int a, int b) {
    return a < b ? a : b;
}

static int row_lanes(const Emit *e, const PanelPacking *k) {
    int all = e->cpu->target.vector_bytes / elem_bytes(k->p->kind->packed);
    int lanes = min_int(all, next_power_of_2(depth_extent(k->x)));
    return lanes < 2 ? 2 : lanes;
}

static void row_vector(Emit *e, void *arg, LLVMValueRef at, int live) {
    const PanelPacking *k = arg;
    const DotKind *kind = k->p->kind;
    const Gen *g = e->g;
    int bytes = elem_bytes(k->p->kind->packed);
    LLVMValueRef v = operand_vector(e, k, k->x->depth, row_lanes(e, k), live, k->row, at);
    if (live % kind->unit) v = clear_from(g, v, live);
    LLVMValueRef p = panel_address(e, k, gen_i64(g, 0), k->row);
    memory_store(e, TENSOR_ARENA, v, gen_offset(g, p, gen_mul(g, at, gen_i64(g, bytes))),
                 (unsigned)bytes);
}

// A vector may write beyond the step. The next step overwrites that part, or it belongs to the
// padding.
static void pack_panel_rows(Emit *e, PanelPacking *k) {
    Loop *l = loop_begin(e, gen_i64(e->g, 0), gen_i64(e->g, outer_extent(k->x)), 1, "row");
    k->row = l->iv;
    for_vectors(e, depth_extent(k->x), row_lanes(e, k), row_vector, k);
    loop_end(e, l, NULL);
}

/* ---- along the rows or columns ------------------------------------------------------------- */

/// Interleaves the elements of units in 32-bit lanes: v[0] of each, then v[1], ...
static LLVMValueRef join_elements(const Gen *g, int n, LLVMValueRef *v) {
    int lanes = gen_lanes(v[0]), bits = 32 / n;
    if (n == 1) return v[0];
    LLVMTypeRef wide = gen_vec(g->i32, lanes),
                narrow = gen_vec(LLVMIntTypeInContext(g->llvm, (unsigned)bits), lanes);
    LLVMValueRef all = NULL;
    for (int i = 0; i < n && v[i]; i++) {
        LLVMValueRef x = LLVMBuildZExt(g->b, LLVMBuildBitCast(g->b, v[i], narrow, ""), wide, "");
        LLVMValueRef shift = gen_same(LLVMConstInt(g->i32, (unsigned)(i * bits), false), lanes);
        x = i ? LLVMBuildShl(g->b, x, shift, "") : x;
        all = all ? LLVMBuildOr(g->b, all, x, "") : x;
    }
    return all;
}

/// Returns `lanes` units along the outer axis from `at` on. The first k->elements elements of each
/// exist.
static LLVMValueRef unit_vector(Emit *e, const PanelPacking *k, LLVMValueRef at, LLVMValueRef unit,
                                int lanes, int live) {
    const Gen *g = e->g;
    int n = k->p->kind->unit;
    LLVMValueRef depth = gen_mul(g, unit, gen_i64(g, n)), v[MAX_UNIT] = {NULL};
    for (int i = 0; i < (n == 1 ? 1 : k->elements); i++)
        v[i] = operand_vector(e, k, k->x->outer, lanes, live, at, gen_add(g, depth, gen_i64(g, i)));
    return join_elements(g, n, v);
}

static void store_picked(Emit *e, void *arg, LLVMValueRef outer, LLVMValueRef unit,
                         LLVMValueRef *v) {
    const PanelPacking *k = arg;
    const DotKind *kind = k->p->kind;
    for (int i = 0; i < kind->unit; i++)
        v[i] = gen_cast(e->g, value_elem(k->x->v), kind->packed, v[i]);
    memory_store(e, TENSOR_ARENA, join_elements(e->g, kind->unit, v),
                 panel_address(e, k, unit, outer), (unsigned)e->cpu->target.vector_bytes);
}

static void pack_picked(Emit *e, PanelPacking *k) {
    const Gen *g = e->g;
    int lanes = k->p->lanes, unit = k->p->kind->unit;
    int64_t extent = outer_extent(k->x), whole = extent / lanes * lanes;
    if (whole) {
        Loop *l = loop_begin(e, gen_i64(g, 0), gen_i64(g, whole), lanes, "picked");
        for_picked(e, k->x, l->iv, lanes, lanes, unit, store_picked, k);
        loop_end(e, l, NULL);
    }
    if (extent > whole)
        for_picked(e, k->x, gen_i64(g, whole), lanes, (int)(extent - whole), unit, store_picked, k);
}

static void column_vector(Emit *e, void *arg, LLVMValueRef at, int live) {
    const PanelPacking *k = arg;
    LLVMValueRef v = unit_vector(e, k, at, k->row, k->p->lanes, live);
    memory_store(e, TENSOR_ARENA, v, panel_address(e, k, k->row, at),
                 (unsigned)e->cpu->target.vector_bytes);
}

static void pack_columns(Emit *e, PanelPacking *k) {
    const Gen *g = e->g;
    int lanes = k->p->lanes, unit = k->p->kind->unit;
    int64_t depth = depth_extent(k->x), whole = depth / unit;
    k->elements = unit;
    if (whole) {
        Loop *l = loop_begin(e, gen_i64(g, 0), gen_i64(g, whole), 1, "unit");
        k->row = l->iv;
        for_vectors(e, outer_extent(k->x), lanes, column_vector, k);
        loop_end(e, l, NULL);
    }
    if (depth % unit == 0) return;
    k->elements = (int)(depth % unit);
    k->row = gen_i64(g, whole);
    for_vectors(e, outer_extent(k->x), lanes, column_vector, k);
}

/* ---- rows of A from columns ---------------------------------------------------------------- */

/// Packs `units` units from k->row on, of TILE_SIDE rows from `at` on. `live` rows exist.
static void turned_rows(Emit *e, const PanelPacking *k, LLVMValueRef at, int live, int units,
                        int rest) {
    const Gen *g = e->g;
    LLVMValueRef v[TILE_SIDE];
    for (int i = 0; i < TILE_SIDE; i++) {
        PanelPacking one = *k;
        one.elements = i == units - 1 && rest ? rest : k->p->kind->unit;
        LLVMValueRef unit = gen_add(g, k->row, gen_i64(g, i));
        v[i] = i < units ? unit_vector(e, &one, at, unit, TILE_SIDE, live)
                         : gen_zero(g, EL_I32, TILE_SIDE);
    }
    emit_transpose(g, TILE_SIDE, v);
    for (int i = 0; i < live; i++)
        memory_store(e, TENSOR_ARENA, v[i],
                     panel_address(e, k, k->row, gen_add(g, at, gen_i64(g, i))), 4);
}

/// Packs all rows of `units` units from k->row on. The last unit has `rest` elements (0: all).
static void turned_units(Emit *e, const PanelPacking *k, int units, int rest) {
    const Gen *g = e->g;
    int64_t rows = outer_extent(k->x), whole = rows / TILE_SIDE * TILE_SIDE;
    if (whole) {
        Loop *l = loop_begin(e, gen_i64(g, 0), gen_i64(g, whole), TILE_SIDE, "turned");
        turned_rows(e, k, l->iv, TILE_SIDE, units, rest);
        loop_end(e, l, NULL);
    }
    if (rows > whole) turned_rows(e, k, gen_i64(g, whole), (int)(rows - whole), units, rest);
}

/// A row writes zeros beyond the step, under the rule of pack_panel_rows.
static void pack_turned(Emit *e, PanelPacking *k) {
    const Gen *g = e->g;
    int unit = k->p->kind->unit;
    int64_t depth = depth_extent(k->x), side = TILE_SIDE * unit, whole = depth / side;
    if (whole) {
        Loop *l = loop_begin(e, gen_i64(g, 0), gen_i64(g, whole * TILE_SIDE), TILE_SIDE, "turned");
        k->row = l->iv;
        turned_units(e, k, TILE_SIDE, 0);
        loop_end(e, l, NULL);
    }
    if (depth % side == 0) return;
    k->row = gen_i64(g, whole * TILE_SIDE);
    turned_units(e, k, (int)ceil_div(depth % side, unit), (int)(depth % unit));
}

/* ---- squares ------------------------------------------------------------------------------- */

/// Squares of `size` units by `size` columns, from unit packing->row on.
typedef struct PackSquares {
    PanelPacking *packing;
    int size;
    int live; // elements along k inside the operand
} PackSquares;

/// Packs columns at + skip .. at + skip + size, with `columns` of them inside. `at` is a multiple
/// of the lanes.
static void pack_square(Emit *e, const PackSquares *s, LLVMValueRef at, int skip, int columns) {
    const Gen *g = e->g;
    const PanelPacking *k = s->packing;
    const DotKind *kind = k->p->kind;
    int lanes = s->size * kind->unit;
    LLVMTypeRef type = gen_vec(gen_elem(g, unit_elem(kind)), s->size);
    LLVMValueRef depth = gen_mul(g, k->row, gen_i64(g, kind->unit)), v[MAX_LANES];
    for (int i = 0; i < s->size; i++) {
        v[i] = LLVMConstNull(type);
        if (i >= columns) continue;
        LLVMValueRef column = gen_add(g, at, gen_i64(g, skip + i));
        v[i] = operand_vector(e, k, k->x->depth, lanes, s->live, column, depth);
        if (s->live % kind->unit) v[i] = clear_from(g, v[i], s->live);
        v[i] = LLVMBuildBitCast(g->b, v[i], type, "");
    }
    emit_transpose(g, s->size, v);
    LLVMValueRef to = panel_address(e, k, k->row, at);
    for (int i = 0; i < units_of(kind, s->live); i++) {
        int64_t offset = i * k->p->unit_step + skip * unit_bytes(kind);
        memory_store(e, TENSOR_ARENA, v[i], gen_offset(g, to, gen_i64(g, offset)),
                     (unsigned)(s->size * unit_bytes(kind)));
    }
}

static void square_block(Emit *e, const PackSquares *s, LLVMValueRef at, int live) {
    for (int i = 0; i < live; i += s->size) pack_square(e, s, at, i, min_int(s->size, live - i));
}

/// A square is straight code of 2 n log n instructions, so it handles one block of columns at a
/// time.
static void square_columns(Emit *e, const PackSquares *s) {
    const Gen *g = e->g;
    int lanes = s->packing->p->lanes;
    int64_t columns = outer_extent(s->packing->x), whole = columns / lanes * lanes;
    if (whole) {
        Loop *l = loop_begin(e, gen_i64(g, 0), gen_i64(g, whole), lanes, "block");
        square_block(e, s, l->iv, lanes);
        loop_end(e, l, NULL);
    }
    if (columns > whole) square_block(e, s, gen_i64(g, whole), (int)(columns - whole));
}

static void pack_squares(Emit *e, PanelPacking *k) {
    const Gen *g = e->g;
    int unit = k->p->kind->unit;
    int64_t depth = depth_extent(k->x);
    PackSquares s = {.packing = k};
    s.size = min_int(k->p->lanes, next_power_of_2(ceil_div(depth, unit)));
    int64_t side = s.size * unit, whole = depth / side * s.size;
    if (whole) {
        Loop *l = loop_begin(e, gen_i64(g, 0), gen_i64(g, whole), s.size, "square");
        k->row = l->iv;
        s.live = (int)side;
        square_columns(e, &s);
        loop_end(e, l, NULL);
    }
    if (depth % side == 0) return;
    k->row = gen_i64(g, whole);
    s.live = (int)(depth % side);
    square_columns(e, &s);
}

static void pack_elements(Emit *e, const Operand *x, const Panel *p, LLVMValueRef first) {
    PanelPacking k = {.x = x, .p = p, .first = first};
    if (!p->lanes && p->transpose)
        pack_turned(e, &k);
    else if (p->lanes && depth_extent(x) % p->kind->unit == 0 && operand_is_picked(e, x))
        pack_picked(e, &k);
    else if (!p->lanes)
        pack_panel_rows(e, &k);
    else if (p->transpose)
        pack_squares(e, &k);
    else
        pack_columns(e, &k);
}

void pack(Emit *e, const Operand *x, const Panel *p, LLVMValueRef first) {
    if (p->in_place) return;
    Inside inside;
    LLVMValueRef all = operand_bounds_find(e, x->v, &inside);
    if (!all) {
        pack_elements(e, x, p, first);
        return;
    }
    If i = if_begin(e, all, "inside");
    operand_bounds_begin(e, &inside);
    pack_elements(e, x, p, first);
    operand_bounds_end(&inside);
    if_else(e, &i);
    pack_elements(e, x, p, first);
    if_end(e, &i);
}

/* ---- zeros --------------------------------------------------------------------------------- */

/// Writes a whole zero vector after the last unit of each row.
static void pad_rows(Emit *e, const PanelPacking *k) {
    const Gen *g = e->g;
    Loop *l = loop_begin(e, gen_i64(g, 0), gen_i64(g, outer_extent(k->x)), 1, "row");
    memory_store(e, TENSOR_ARENA, gen_zero(g, EL_I32, TILE_SIDE),
                 panel_address(e, k, gen_i64(g, 0), l->iv), 4);
    loop_end(e, l, NULL);
}

static void pad_columns(Emit *e, const PanelPacking *k) {
    const Gen *g = e->g;
    int64_t columns = ceil_div(outer_extent(k->x), TILE_SIDE) * TILE_SIDE;
    LLVMValueRef side = gen_i64(g, TILE_SIDE), gone = LLVMBuildURem(g->b, k->first, side, "");
    LLVMValueRef missing = LLVMBuildURem(g->b, LLVMBuildSub(g->b, side, gone, ""), side, "");
    Loop *column = loop_begin(e, gen_i64(g, 0), gen_i64(g, columns), TILE_SIDE, "column");
    Loop *unit = loop_begin(e, gen_i64(g, 0), missing, 1, "unit");
    memory_store(e, TENSOR_ARENA, gen_zero(g, EL_I32, TILE_SIDE),
                 panel_address(e, k, unit->iv, column->iv), TILE_SIDE * 4);
    loop_end(e, unit, NULL);
    loop_end(e, column, NULL);
}

void pad_panel(Emit *e, const Operand *x, const Panel *p, LLVMValueRef units) {
    PanelPacking k = {.x = x, .p = p, .first = units};
    if (p->in_place) return;
    if (p->lanes)
        pad_columns(e, &k);
    else
        pad_rows(e, &k);
}
