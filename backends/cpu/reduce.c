// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions along one axis of a nest.
//
// A known monoid (add, max, ...) commutes: every place of the tile has its own accumulator, and a
// tree joins them at the end. Any other region only associates, so its elements are combined in
// order: along the lanes pairwise, elsewhere one after another. The order depends only on shapes
// and the target, so every run gives the same bits.
#include "backends/cpu/emit.h"

typedef struct Reduction {
    Op *op;
    Region *region;
    OpCode monoid; // OP_COUNT: the region is not a known monoid
    int n;         // values
    int n_out, units;
    LLVMValueRef *acc; // [n_out][units][n]; NULL before the first element
} Reduction;

static LLVMValueRef *acc_of(const Reduction *r, int out, int unit) {
    return &r->acc[(out * r->units + unit) * r->n];
}

/// Computes min and max of floats by the single AVX-512 instruction that returns the number if the
/// other operand is NaN. Returns NULL if the target has no such instruction.
static LLVMValueRef range_of(Emit *e, const Reduction *r, LLVMValueRef x, LLVMValueRef y) {
    Gen *g = e->g;
    Elem elem = operand(r->op, 0)->type->elem;
    int lanes = gen_lanes(x), wide = e->cpu->target.vector_bytes / elem_bytes(elem);
    bool floats = elem == EL_F32 || elem == EL_F64;
    if ((r->monoid != OP_MAX && r->monoid != OP_MIN) || !floats || lanes != wide) return NULL;
    if (!e->cpu->target.x86 || e->cpu->target.vector_bytes != 64) return NULL;
    enum { SIGN_OF_RESULT = 4, GREATER = 1, CURRENT_ROUNDING = 4 };
    int choice = SIGN_OF_RESULT | (r->monoid == OP_MAX ? GREATER : 0);
    LLVMValueRef args[6] = {x,
                            y,
                            LLVMConstInt(g->i32, (unsigned)choice, false),
                            LLVMConstNull(LLVMTypeOf(x)),
                            LLVMConstAllOnes(LLVMIntTypeInContext(g->llvm, (unsigned)lanes)),
                            LLVMConstInt(g->i32, CURRENT_ROUNDING, false)};
    return gen_intrinsic(g,
                         elem == EL_F32 ? "llvm.x86.avx512.mask.range.ps.512"
                                        : "llvm.x86.avx512.mask.range.pd.512",
                         0, NULL, 6, args);
}

/// into = f(into, x), or x if `into` is empty.
static void combine_elements(Emit *e, const Reduction *r, LLVMValueRef *into,
                             const LLVMValueRef *x) {
    LLVMValueRef args[2 * MAX_RANK * 4];
    LLVMValueRef range = into[0] && r->n == 1 ? range_of(e, r, into[0], x[0]) : NULL;
    if (range) {
        into[0] = range;
        return;
    }
    for (int i = 0; i < r->n; i++) {
        args[i] = into[i];
        args[r->n + i] = x[i];
    }
    if (into[0])
        emit_region_lanes(e, r->region, args, into);
    else
        for (int i = 0; i < r->n; i++) into[i] = x[i];
}

/* ---- across the lanes ---------------------------------------------------------------------- */

static LLVMValueRef pick_lanes(Emit *e, LLVMValueRef x, int n, int first, int step) {
    int pick[MAX_LANES];
    for (int i = 0; i < n; i++) pick[i] = first + i * step;
    return gen_shuffle(e->g, x, NULL, n, pick);
}

static void extract_first(Emit *e, const Reduction *r, LLVMValueRef *v) {
    for (int i = 0; i < r->n; i++)
        v[i] = LLVMBuildExtractElement(e->g->b, v[i], gen_i64(e->g, 0), "");
}

/// Folds halves: lane i with lane i + h.
static void fold_halves(Emit *e, const Reduction *r, LLVMValueRef *v) {
    for (int h = gen_lanes(v[0]) / 2; h >= 1; h /= 2) {
        LLVMValueRef lo[32], hi[32];
        for (int i = 0; i < r->n; i++) {
            lo[i] = pick_lanes(e, v[i], h, 0, 1);
            hi[i] = pick_lanes(e, v[i], h, h, 1);
        }
        combine_elements(e, r, lo, hi);
        for (int i = 0; i < r->n; i++) v[i] = lo[i];
    }
    extract_first(e, r, v);
}

/// Folds neighbours: lane 2i with lane 2i + 1, which keeps the order. With an odd number of live
/// lanes the last one is unchanged.
static void fold_neighbours(Emit *e, const Reduction *r, LLVMValueRef *v, int live) {
    for (int lanes = gen_lanes(v[0]); live > 1; live = (live + 1) / 2) {
        LLVMValueRef even[32], odd[32], joined[32];
        lanes /= 2;
        for (int i = 0; i < r->n; i++) {
            even[i] = joined[i] = pick_lanes(e, v[i], lanes, 0, 2);
            odd[i] = pick_lanes(e, v[i], lanes, 1, 2);
        }
        combine_elements(e, r, joined, odd);
        LLVMValueRef paired = gen_first_lanes(e->g, live / 2, lanes);
        for (int i = 0; i < r->n; i++)
            v[i] = live % 2 ? LLVMBuildSelect(e->g->b, paired, joined[i], even[i], "") : joined[i];
    }
    extract_first(e, r, v);
}

/* ---- steps --------------------------------------------------------------------------------- */

static void read_values(Emit *e, const Nest *n, const Reduction *r, const Place *p,
                        LLVMValueRef *v) {
    bool partial = n->reduced == n->vector && p->live < p->lanes && r->monoid != OP_COUNT;
    for (int i = 0; i < r->n; i++) {
        Value *x = operand(r->op, i);
        v[i] = emit_unmasked(e, x, p);
        if (!partial) continue;
        LLVMValueRef none = gen_splat(e->g, gen_identity(e->g, r->monoid, x->type->elem), p->lanes);
        v[i] = LLVMBuildSelect(e->g->b, gen_first_lanes(e->g, p->live, p->lanes), v[i], none, "");
    }
}

void reduce_step(Emit *e, Nest *n, struct Reduction *r, int n_places, const Place *places) {
    int units = n->axes[n->n_axes - 1].count;
    for (int i = 0; i < n_places; i++) {
        LLVMValueRef v[32];
        e->ahead = i + 1;
        read_values(e, n, r, &places[i], v);
        e->ahead = 0;
        if (r->monoid == OP_COUNT && n->reduced == n->vector)
            fold_neighbours(e, r, v, places[i].live);
        combine_elements(e, r, acc_of(r, i / units, r->units == 1 ? 0 : i % units), v);
    }
}

static Reduction *reduction_new(Emit *e, const Nest *n, Op *op, int n_out, int units) {
    Reduction *r = ctx_new(e->ctx, Reduction);
    r->op = op;
    r->region = op->regions[0];
    r->monoid = region_monoid(r->region);
    r->n = op->n_results;
    r->n_out = n_out;
    r->units = r->monoid == OP_COUNT ? 1 : units;
    if (r->n > 16) ice(e->ctx, op->loc, "a reduction of more than 16 values");
    r->acc = ctx_array(e->ctx, LLVMValueRef, n_out * r->units * r->n);
    for (int i = 0; r->monoid != OP_COUNT && i < n_out * r->units * r->n; i++)
        r->acc[i] = gen_splat(
            e->g, gen_identity(e->g, r->monoid, operand(op, i % r->n)->type->elem), n->lanes);
    return r;
}

/// Joins the accumulators of an output place and writes the result.
static void finish_reduction(Emit *e, const Nest *n, Reduction *r, int out, const Place *p) {
    for (int live = r->units; live > 1; live = (live + 1) / 2)
        for (int i = 0; i < live / 2; i++)
            combine_elements(e, r, acc_of(r, out, i), acc_of(r, out, i + (live + 1) / 2));
    LLVMValueRef *v = acc_of(r, out, 0);
    if (r->monoid != OP_COUNT && n->reduced == n->vector && n->lanes) fold_halves(e, r, v);
    Place q = place_drop(p, n->reduced);
    for (int i = 0; i < r->n; i++) {
        Value *y = result(r->op, i);
        if (y->type->rank == 0)
            bind_scalar(e, y, v[i]);
        else if (bound_buffer(e, y))
            buffer_store(e, bound_buffer(e, y), &q, v[i]);
    }
}

/* ---- the loop over the axis ---------------------------------------------------------------- */

#define for_each_acc(r, n_, i, k)                                                                  \
    for (int i = 0; i < (n_)->roots.n; i++)                                                        \
        for (Reduction *r = (n_)->reductions[i]; r; r = NULL)                                      \
            for (int k = 0; k < r->n_out * r->units * r->n; k++)

static void loop_steps(Emit *e, Nest *n, NestAxis *x, LLVMValueRef from, LLVMValueRef to) {
    Loop *l = loop_begin(e, from, to, (int64_t)x->tile * x->unit, "reduce");
    x->count = x->tile;
    for_each_acc(r, n, i, k) r->acc[k] = loop_carry(e, l, r->acc[k]);
    x->origin = l->iv;
    nest_body(e, n);
    LLVMValueRef next[MAX_CARRIED];
    int m = 0;
    for_each_acc(r, n, i, k) next[m++] = r->acc[k];
    loop_end(e, l, next);
    m = 0;
    for_each_acc(r, n, i, k) r->acc[k] = l->carried[m++];
}

// cost of a step with masks; short steps are unrolled to avoid stalls
enum { MASKED_COST = 24 };

/// Emits the steps without masks, then the rest, then the steps of pure padding.
static void split_steps(Emit *e, Nest *n, int level) {
    NestAxis *x = &n->axes[level];
    int tile = x->tile;
    LLVMValueRef bound = unmasked_bound(e, n, level);
    LLVMValueRef all = gen_i64(e->g, x->full / tile * tile * x->unit);
    e->full = n->full;
    loop_steps(e, n, x, gen_i64(e->g, 0), bound);
    e->full = NULL;
    while (x->tile > 1 && (tile % x->tile || n->cost * x->tile > MASKED_COST)) x->tile--;
    LLVMValueRef end = gen_min(e->g, unmasked_end(e, n, level), all);
    loop_steps(e, n, x, bound, end);
    x->tile = 1;
    e->dead = n->full;
    loop_steps(e, n, x, end, all);
    e->dead = NULL;
    x->tile = tile;
}

static void straight_steps(Emit *e, Nest *n, NestAxis *x, int64_t from, int count) {
    int mark = memo_mark(e);
    x->origin = gen_i64(e->g, from * x->unit);
    x->count = count;
    nest_body(e, n);
    memo_forget(e, mark);
}

/// A region without identity starts from its first elements, which are a step of their own.
static bool needs_start(const Nest *n) {
    for (int i = 0; i < n->roots.n; i++)
        if (n->reductions[i] && n->reductions[i]->monoid == OP_COUNT) return true;
    return false;
}

void reduce_level(Emit *e, Nest *n, int level) {
    NestAxis *x = &n->axes[level];
    Place out[MAX_PLACES];
    x->origin = gen_i64(e->g, 0);
    x->count = 1;
    x->partial = false;
    int n_out = nest_places(e, n, out);
    for (int i = 0; i < n->roots.n; i++)
        n->reductions[i] = n->roots.data[i].kind == ROOT_REDUCE
                               ? reduction_new(e, n, n->roots.data[i].op, n_out, x->tile)
                               : NULL;
    int64_t tiles = x->full / x->tile, from = 0, done = tiles * x->tile;
    if (tiles > 0 && (needs_start(n) || tiles == 1)) {
        straight_steps(e, n, x, 0, x->tile);
        from = x->tile;
    }
    if (n->full && x->axis == n->vector && tiles > 1 && from == 0) {
        split_steps(e, n, level);
    } else if (from < done) {
        loop_steps(e, n, x, gen_i64(e->g, from * x->unit), gen_i64(e->g, done * x->unit));
    }
    int rest = (int)(x->full - done) + (x->tail ? 1 : 0);
    x->partial = x->tail != 0;
    if (rest) straight_steps(e, n, x, done, rest);
    for (int i = 0; i < n->roots.n; i++)
        for (int k = 0; n->reductions[i] && k < n_out; k++)
            finish_reduction(e, n, n->reductions[i], k, &out[k]);
}
