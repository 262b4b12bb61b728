// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shape of a nest: the axis and lanes of its vectors, the order of its loops, and the places
// unrolled into one register tile.
#include "backends/cpu/emit.h"

enum { STRIDED = 16, TILE = 4, LONG_BODY = 150, VERY_LONG_BODY = 400 };

const Type *root_space(const Root *r) {
    switch (r->kind) {
    case ROOT_STORE:
    case ROOT_ATOMIC: return access_of(r->op).value->type;
    case ROOT_BUFFER: return r->value->type;
    case ROOT_LOOP:
        for (int i = 0; i < r->op->n_results; i++)
            if (result(r->op, i)->type->rank) return result(r->op, i)->type;
        return NULL;
    default: return operand(r->op, 0)->type;
    }
}

/* ---- the vector axis ----------------------------------------------------------------------- */

typedef struct ShapeSurvey {
    Emit *e;
    int64_t cost; // of the memory accesses for one vector
    int widest;   // bytes of an element
} ShapeSurvey;

static int64_t stride_cost(int64_t stride) {
    return stride == 0 || stride == 1 ? 1 : STRIDED;
}

/// Index arithmetic in i64 does not narrow the vectors. It is split over several registers.
static int lane_bytes(const Value *v) {
    Elem elem = v->type->elem;
    if (elem == EL_I64 || elem == EL_U64) return 4;
    if (elem == EL_BOOL) return 1;
    return v->def && op_has(v->def, ELEMENTWISE) ? elem_bytes(elem_computes_in(elem))
                                                 : elem_bytes(elem);
}

static void survey_value(void *arg, Value *v, int axis, bool identity) {
    ShapeSurvey *s = arg;
    (void)identity;
    if (v->type->rank == 0) return;
    if (lane_bytes(v) > s->widest) s->widest = lane_bytes(v);
    const Buffer *b = bound_buffer(s->e, v);
    if (b)
        s->cost += axis < 0 ? 1 : stride_cost(b->strides[axis]);
    else if (v->def && v->def->code == OP_LOAD)
        s->cost += axis < 0 ? 1 : stride_cost(access_stride(v->def, axis));
}

/// A scatter takes longer than a gather. Coordinates picked along the axis of memory are nearly
/// always adjacent (access.c).
static int64_t store_cost(const Op *op, int axis) {
    int64_t cost = stride_cost(access_stride(op, axis));
    return cost == 1 || picked_axis(op) == axis ? 1 : 2 * cost;
}

static int64_t root_cost(const Root *r, int axis) {
    switch (r->kind) {
    case ROOT_STORE: return store_cost(r->op, axis);
    case ROOT_BUFFER: return stride_cost(r->out->strides[axis]);
    case ROOT_REDUCE: // across lanes at the end; in order if the region is no known monoid
        if (op_int(r->op, A_AXIS, 0) != axis) return 0;
        return region_monoid(r->op->regions[0]) == OP_COUNT ? 12 : 1;
    default: return 0;
    }
}

static const Value *root_value(const Root *r) {
    switch (r->kind) {
    case ROOT_BUFFER: return r->value;
    case ROOT_LOOP: return result(r->op, 0);
    case ROOT_STORE:
    case ROOT_ATOMIC: return access_of(r->op).value;
    default: return operand(r->op, 0);
    }
}

static int root_bytes(const Root *r) {
    const Value *v = root_value(r);
    return v->type->rank ? elem_bytes(v->type->elem) : 1;
}

/// Returns the cost of all accesses for one vector of elements along this axis. Lanes outside the
/// block count as well.
static double axis_cost(Emit *e, const Nest *n, int axis, int *widest) {
    ShapeSurvey s = {e, 1, 1};
    for (int i = 0; i < n->roots.n; i++) {
        const Root *r = &n->roots.data[i];
        if (root_bytes(r) > s.widest) s.widest = root_bytes(r);
        s.cost += root_cost(r, axis);
        walk_nest_reads(e, r, axis, survey_value, &s);
    }
    *widest = s.widest;
    int64_t lanes = e->cpu->target.vector_bytes / s.widest, extent = n->space->extents[axis];
    int64_t used = ceil_div(extent, lanes) * lanes;
    return (double)s.cost * (double)used / (double)extent;
}

static bool is_scalar_nest(const Nest *n) {
    for (int i = 0; i < n->roots.n; i++)
        if (n->roots.data[i].kind == ROOT_ATOMIC) return true;
    return false;
}

/// Chooses the cheapest axis; on ties the last one, which is contiguous in every buffer.
static void choose_vector(Emit *e, Nest *n) {
    n->vector = -1;
    n->lanes = 0;
    if (is_scalar_nest(n)) return;
    double best = 0;
    for (int d = n->space->rank - 1; d >= 0; d--) {
        if (n->space->extents[d] == 1) continue;
        int widest;
        double cost = axis_cost(e, n, d, &widest);
        if (n->vector >= 0 && cost >= best) continue;
        best = cost;
        n->vector = d;
        n->lanes = e->cpu->target.vector_bytes / widest;
        while (n->lanes / 2 >= n->space->extents[d]) n->lanes /= 2;
    }
}

/* ---- squares ------------------------------------------------------------------------------- */

typedef struct Strided {
    Emit *e;
    int found; // values that gain from the candidate
} Strided;

/// Counts values that are contiguous along the candidate, so strided along the vectors.
static void seek_contiguous(void *arg, Value *v, int axis, bool identity) {
    Strided *s = arg;
    (void)identity;
    if (v->type->rank && axis >= 0 && memory_stride(s->e, v, axis) == 1) s->found++;
}

/// Returns the axis along which the nest's reads are contiguous while its vectors run along
/// another: rows of squares. -1 if there are fewer rows than lanes, or if another rule sets the
/// tile.
static int square_axis(Emit *e, const Nest *n) {
    if (n->lanes < 4 || n->lanes > MAX_PLACES || n->reduced >= 0) return -1;
    for (int i = 0; i < n->roots.n; i++)
        if (n->roots.data[i].kind == ROOT_LOOP) return -1;
    for (int d = 0; d < n->space->rank; d++) {
        if (d == n->vector || n->space->extents[d] < n->lanes) continue;
        Strided s = {.e = e};
        for (int i = 0; i < n->roots.n; i++)
            walk_nest_reads(e, &n->roots.data[i], d, seek_contiguous, &s);
        if (s.found) return d;
    }
    return -1;
}

/* ---- tiles --------------------------------------------------------------------------------- */

/// Returns the long-lived vectors of a nest's body at one place: carried and accumulated ones.
static int register_pressure(const Nest *n) {
    int live = 0;
    for (int i = 0; i < n->roots.n; i++) {
        const Root *r = &n->roots.data[i];
        if (r->kind == ROOT_LOOP || r->kind == ROOT_REDUCE) live += r->op->n_results;
    }
    return live;
}

static int body_cost(Emit *e, const Nest *n) {
    int cost = 0;
    for (int i = 0; i < n->roots.n; i++) {
        const Root *r = &n->roots.data[i];
        if (r->kind == ROOT_BUFFER) cost += plan_cost(e, r->value);
        if (r->kind == ROOT_STORE) cost += plan_cost(e, access_of(r->op).value);
        for (int k = 0; r->kind == ROOT_REDUCE && k < r->op->n_results; k++)
            cost += plan_cost(e, operand(r->op, k));
    }
    return cost;
}

static int places_wanted(Emit *e, const Nest *n) {
    int live = register_pressure(n), cost = n->cost, places = TILE;
    if (is_scalar_nest(n)) return 1;
    if (live) {
        places = e->cpu->target.vector_registers * 3 / 4 / live;
        if (places > 2 * TILE) places = 2 * TILE;
    }
    if (cost > LONG_BODY && places > 2) places = 2;
    if (cost > VERY_LONG_BODY) places = 1;
    while (places > 1 && places * live * 2 > MAX_CARRIED) places /= 2;
    return places > 0 ? places : 1;
}

/// Returns a number of places up to `want` that divides n, or `want` itself if the divisor is
/// small.
static int tile_divisor(int64_t n, int want) {
    if (n <= want) return (int)n;
    for (int t = want; 2 * t > want; t--)
        if (n % t == 0) return t;
    return want;
}

/// Orders the axes: the others from the outside in, then the rows of squares, the vector axis, and
/// the reduced axis innermost.
static void order_axes(Nest *n) {
    int order[MAX_RANK], k = 0, last[3] = {n->square, n->vector, n->reduced};
    if (n->vector == n->reduced) last[1] = -1;
    for (int d = 0; d < n->space->rank; d++)
        if (d != n->vector && d != n->reduced && d != n->square) order[k++] = d;
    for (int i = 0; i < 3; i++)
        if (last[i] >= 0) order[k++] = last[i];
    n->n_axes = k;
    for (int i = 0; i < k; i++) {
        int64_t extent = n->space->extents[order[i]];
        int unit = order[i] == n->vector ? n->lanes : 1;
        n->axes[i] = (NestAxis){.axis = order[i],
                                .unit = unit,
                                .tile = 1,
                                .full = extent / unit,
                                .tail = (int)(extent % unit)};
    }
}

static NestAxis *axis_at(Nest *n, int axis) {
    for (int i = 0; i < n->n_axes; i++)
        if (n->axes[i].axis == axis) return &n->axes[i];
    return NULL;
}

/// Unrolls vectors along their axis first. If that axis is short, it adds rows of the next outer
/// axis. If those are few, it adds several steps of the reduction, each with its own accumulator.
static void choose_tiles(Emit *e, Nest *n) {
    if (n->square >= 0) {
        axis_at(n, n->square)->tile = n->lanes;
        return;
    }
    int want = places_wanted(e, n);
    NestAxis *v = axis_at(n, n->vector), *red = axis_at(n, n->reduced), *row = NULL;
    for (int i = 0; i < n->n_axes; i++)
        if (&n->axes[i] != v && &n->axes[i] != red) row = &n->axes[i];
    if (v) {
        v->tile = tile_divisor(v->full, want);
        if (v->tile < 1) v->tile = 1;
        want /= v->full <= v->tile ? v->tile + (v->tail ? 1 : 0) : v->tile;
    }
    if (row && want > 1) {
        row->tile = tile_divisor(row->full, want);
        want /= row->tile;
    }
    if (red && red != v && want > 1) red->tile = tile_divisor(red->full, want);
}

void nest_shape(Emit *e, Nest *n) {
    n->reduced = -1;
    for (int i = 0; i < n->roots.n; i++)
        if (n->roots.data[i].kind == ROOT_REDUCE)
            n->reduced = (int)op_int(n->roots.data[i].op, A_AXIS, 0);
    choose_vector(e, n);
    n->cost = body_cost(e, n);
    n->square = square_axis(e, n);
    order_axes(n);
    choose_tiles(e, n);
}
