// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folds partial results by reductions.
//
//   for %g = from .. end { %s = f(%s, part[%g]) }
//   ->
//   %x = load part[from .. end] : <C x ...>;  %v = whether the part exists
//   %r = reduce %v, %x [axis=0] { (va, a, vb, b) -> va, vb ? f(a, b) : a };  %s = f(%s, %r)
//
// More than C parts are folded C at a time. A reduction keeps the order, so f need not commute.
#include "passes/partial_folds.h"

// Limits on the lanes of a chunk, over all tensors. If there are several chunks, a thread holds its
// lanes of one chunk and of the next. Threads of the largest CTA have the fewest registers, so
// chunks sized for that CTA would spill. Fewer than FEWEST parts are folded faster one by one.
enum { LANES = 8192, FEWEST = 32, LANES_FEWEST = 16384 };

typedef struct PartFold {
    Builder *b;
    const Parts *p;
    Ctx *ctx;
    int64_t chunk;
    const Type *shape; // of one part
} PartFold;

/* ---- the join of scalars ------------------------------------------------------------------- */

/// Whether the op maps lanes: its scalar form computes each lane of a block.
static bool is_lane_op(const Op *op) {
    return op_has(op, ELEMENTWISE) || op->code == OP_CONST || op->code == OP_CAST ||
           op->code == OP_BITCAST || op->code == OP_SELECT ||
           (op->code == OP_BROADCAST && ty_is_scalar(operand(op, 0)->type));
}

static bool maps_lanes(const Region *r) {
    for_each_op(op, r) {
        if (op_has(op, TERMINATOR)) continue;
        if (!is_lane_op(op)) return false;
        for (int i = 0; i < op->n_operands;
             i++) // blocks from outside would need lanes of their own
            if (!value_is_inside(operand(op, i), r->parent) && operand(op, i)->type->rank)
                return false;
    }
    return true;
}

static Value *mapped_value(const PtrMap *map, Value *v) {
    Value *copy = map_get(map, v);
    return copy ? copy : v;
}

/// Clones a region that maps lanes, for a single lane.
static void clone_lane(Builder *b, const Region *r, PtrMap *map, Value **out) {
    Ctx *ctx = ir_ctx(b->ir);
    for_each_op(op, r) {
        if (op_has(op, TERMINATOR)) break;
        Value **in = ctx_array(ctx, Value *, op->n_operands + 1);
        for (int i = 0; i < op->n_operands; i++) in[i] = mapped_value(map, operand(op, i));
        const Type *type = ty_scalar(b->ir, result(op, 0)->type->elem);
        Value *v = in[0];
        if (op->code != OP_BROADCAST) {
            Op *copy = build_op(b, op->code, op->n_operands, in, 1, &type, 0);
            for (int i = 0; i < op->n_attrs; i++)
                op_set_attr(b->ir, copy, op->attrs[i].id, op->attrs[i].value);
            v = result(copy, 0);
        }
        map_set(ctx, map, result(op, 0), v);
    }
    const Op *end = terminator(r);
    for (int i = 0; i < end->n_operands; i++) out[i] = mapped_value(map, operand(end, i));
}

static void join_scalars(PartFold *f, Builder *b, Value *const *x, Value *const *y, Value **out) {
    int n = f->p->n;
    PtrMap map = {0};
    for (int i = 0; i < n && f->p->monoids; i++)
        out[i] = build_binary(b, f->p->monoids[i], x[i], y[i]);
    if (f->p->monoids) return;
    for (int i = 0; i < n; i++) {
        map_set(f->ctx, &map, f->p->join->args[i], x[i]);
        map_set(f->ctx, &map, f->p->join->args[n + i], y[i]);
    }
    clone_lane(b, f->p->join, &map, out);
}

/// Builds (va, a..., vb, b...) -> the join of the parts that exist. Existing parts precede missing
/// ones.
static void fill_region(PartFold *f, Region *r, Value *const *parts) {
    Ir *ir = f->b->ir;
    int n = f->p->n;
    for (int side = 0; side < 2; side++) {
        region_add_arg(ir, r, ty_scalar(ir, EL_BOOL), NULL);
        for (int i = 0; i < n; i++)
            region_add_arg(ir, r, ty_scalar(ir, parts[i]->type->elem), NULL);
    }
    Builder in = build_at_end(ir, r, f->b->loc);
    Value **a = r->args, **b = r->args + n + 1;
    Value **both = ctx_array(f->ctx, Value *, n), **out = ctx_array(f->ctx, Value *, n + 1);
    join_scalars(f, &in, a + 1, b + 1, both);
    out[0] = a[0];
    for (int i = 0; i < n; i++) out[i + 1] = build_select(&in, b[0], both[i], a[i + 1]);
    build_yield(&in, n + 1, out);
}

/* ---- parts --------------------------------------------------------------------------------- */

/// Returns the place of `count` parts from number `from` on.
static Place place_of_parts(const PartFold *f, Value *from, Value *count) {
    const Place *at = &f->p->at;
    Place all = {0};
    for (int d = 0, next = 0; d < at->n; d++) {
        int used = at->dims[d].kind == DIM_AXIS ? 2 : 1;
        if (d == f->p->along) {
            place_add_axis(&all, from, count, f->chunk);
        } else {
            all.dims[all.n++] = at->dims[d];
            for (int i = 0; i < used; i++) all.operands[all.n_operands++] = at->operands[next + i];
        }
        next += used;
    }
    return all;
}

/// Builds the mask of existing parts: the first `count` of the chunk.
static Value *valid_parts(PartFold *f, const Place *at, Value *count) {
    Builder *b = f->b;
    const Type *line = ty_block(b->ir, EL_I64, 1, &f->chunk), *all = place_type(b->ir, EL_BOOL, at);
    Value *lane = result(build_op(b, OP_IOTA, 0, NULL, 1, &line, 0), 0);
    Value *is = build_binary(b, OP_LT, lane, build_broadcast(b, count, line));
    int64_t extents[MAX_RANK] = {f->chunk};
    for (int d = 1; d < all->rank; d++) extents[d] = 1;
    is = build_reshape(b, is, ty_block(b->ir, EL_BOOL, all->rank, extents));
    return build_broadcast(b, is, all);
}

/// Builds state = f(state, the fold of parts from .. from + count - 1).
static void fold_chunk(PartFold *f, Value *from, Value *count, Value **state) {
    Builder *b = f->b;
    int n = f->p->n;
    Place at = place_of_parts(f, from, count);
    Value **parts = ctx_array(f->ctx, Value *, n + 1),
          **both = ctx_array(f->ctx, Value *, 2 * n + 2);
    const Type **types = ctx_array(f->ctx, const Type *, n + 1);
    parts[0] = valid_parts(f, &at, count);
    for (int i = 0; i < n; i++) parts[i + 1] = load_at(b, f->p->tensors[i], &at);
    for (int i = 0; i <= n; i++) types[i] = ty_with_elem(b->ir, f->shape, parts[i]->type->elem);
    Op *fold = build_op(b, OP_REDUCE, n + 1, parts, n + 1, types, 1);
    op_set_int(b->ir, fold, A_AXIS, 0);
    fill_region(f, fold->regions[0], parts + 1);
    both[0] = build_bool(b, types[0], true);
    for (int i = 0; i < n; i++) both[i + 1] = state[i];
    for (int i = 0; i <= n; i++) both[n + 1 + i] = result(fold, i);
    Value **out = ctx_array(f->ctx, Value *, n + 1);
    apply_lanes(b, fold->regions[0], both, f->shape, out);
    for (int i = 0; i < n; i++) state[i] = out[i + 1];
}

/// Folds one chunk after another.
static void fold_chunks(PartFold *f, Value *from, Value *end, Value **state) {
    Builder *home = f->b;
    int n = f->p->n;
    Op *loop = build_for(home, from, end, f->chunk, n, state);
    Region *r = loop->regions[0];
    Value *g = region_add_arg(home->ir, r, from->type, "part");
    for (int i = 0; i < n; i++) region_add_arg(home->ir, r, state[i]->type, NULL);
    Builder in = build_at_end(home->ir, r, home->loc);
    for (int i = 0; i < n; i++) state[i] = r->args[i + 1];
    f->b = &in;
    Value *left = ix_min(&in, ix_sub(&in, end, g), build_index(&in, f->chunk));
    fold_chunk(f, g, left, state);
    f->b = home;
    build_yield(&in, n, state);
    for (int i = 0; i < n; i++) state[i] = result(loop, i);
}

static void fold_whole(PartFold *f, Value *from, Value *end, Value **state) {
    fold_chunk(f, from, ix_sub(f->b, end, from), state);
}

// The first row handles a single chunk, the second several.
static const struct Chunking {
    void (*build)(PartFold *f, Value *from, Value *end, Value **state);
    const char *algebra;
} chunkings[] = {
    {fold_whole, "f(s, part 0, part 1, ...) = f(s, reduce(parts, f))"},
    {fold_chunks, "f(s, parts) = f(f(s, reduce(C parts, f)), reduce(C more, f)), ..."},
};
const RuleTable fold_chunkings = RULE_TABLE("combine", struct Chunking, chunkings);

static bool chunk_fits(const PartFold *f, int64_t chunk) {
    int64_t lanes = chunk * ty_count(f->shape), most = chunk < f->p->most ? LANES : 2 * LANES;
    return chunk > FEWEST ? lanes * f->p->n <= most : lanes <= LANES_FEWEST;
}

bool fold_parts(Builder *b, const Parts *p, Value *from, Value *end, Value **state) {
    PartFold f = {b, p, ir_ctx(b->ir), 1, state[0]->type};
    if (!p->monoids && !maps_lanes(p->join)) return false;
    for (int i = 1; i < p->n; i++)
        if (!ty_same_shape(state[i]->type, f.shape)) return false;
    if (f.shape->rank == MAX_RANK) return false;
    while (f.chunk < p->most && chunk_fits(&f, 2 * f.chunk)) f.chunk *= 2;
    if (f.chunk < FEWEST) return false;
    const struct Chunking *rule = &chunkings[f.chunk < p->most];
    rule_applied(b->ir, NULL, rule->algebra);
    rule->build(&f, from, end, state);
    return true;
}
