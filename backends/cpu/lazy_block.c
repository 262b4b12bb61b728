// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lazy blocks: computes any vector of a block from its operands at the use.
//
// Shape ops cost nothing here: they map the place to a place of the operand. A value that does not
// vary along the lanes is computed as a scalar. Its user splats it if it needs a vector.
#include "backends/cpu/emit.h"

/* ---- places -------------------------------------------------------------------------------- */

Place place_scalar(void) {
    return (Place){.axis = -1};
}

Place place_drop(const Place *p, int axis) {
    Place q = *p;
    for (int i = axis; i + 1 < p->rank; i++) q.at[i] = p->at[i + 1];
    q.rank--;
    if (q.axis == axis) {
        q.axis = -1;
        q.lanes = q.live = 0;
    } else if (q.axis > axis) {
        q.axis--;
    }
    return q;
}

Place place_insert(const Place *p, int axis, LLVMValueRef at) {
    Place q = *p;
    for (int i = p->rank; i > axis; i--) q.at[i] = p->at[i - 1];
    q.at[axis] = at;
    q.rank++;
    if (q.axis >= axis) q.axis++;
    return q;
}

/// Along an axis of extent 1 every coordinate means 0 and lanes do not vary.
static Place settle_place(const Emit *e, const Type *t, const Place *p) {
    Place q = *p;
    for (int d = 0; d < q.rank; d++) {
        if (t->extents[d] != 1) continue;
        q.at[d] = gen_i64(e->g, 0);
        if (q.axis == d) {
            q.axis = -1;
            q.lanes = q.live = 0;
        }
    }
    return q;
}

/* ---- shape ops ----------------------------------------------------------------------------- */

bool reshape_is_trivial(const Op *op) {
    const Type *x = operand(op, 0)->type, *y = result(op, 0)->type;
    int j = 0;
    for (int i = 0; i < x->rank; i++) {
        if (x->extents[i] == 1) continue;
        while (j < y->rank && y->extents[j] == 1) j++;
        if (j == y->rank || y->extents[j++] != x->extents[i]) return false;
    }
    return true;
}

/// Maps a place through a reshape whose axes of extent above 1 correspond in order.
static LLVMValueRef reshape_axes(Emit *e, Op *op, const Place *p) {
    const Type *x = operand(op, 0)->type, *y = result(op, 0)->type;
    Place q = {.rank = x->rank, .axis = -1};
    int j = 0;
    for (int i = 0; i < x->rank; i++) {
        q.at[i] = gen_i64(e->g, 0);
        if (x->extents[i] == 1) continue;
        while (y->extents[j] == 1) j++;
        q.at[i] = p->at[j];
        if (p->axis == j) {
            q.axis = i;
            q.lanes = p->lanes;
            q.live = p->live;
        }
        j++;
    }
    return emit_vec(e, operand(op, 0), &q);
}

/// Returns the row-major number of the first lane, and the distance between lanes.
static LLVMValueRef linear_index(Emit *e, const Type *t, const Place *p, int64_t *apart) {
    LLVMValueRef n = gen_i64(e->g, 0);
    int64_t weight = 1;
    *apart = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        n = gen_add(e->g, n, gen_mul(e->g, p->at[d], gen_i64(e->g, weight)));
        if (d == p->axis) *apart = weight;
        weight *= t->extents[d];
    }
    return n;
}

/// Computes a nontrivial reshape. It reads the operand's buffer by element number: as one vector if
/// the rows of the buffer follow each other without a gap, else element by element.
static LLVMValueRef reshape_memory(Emit *e, Op *op, const Place *p) {
    Gen *g = e->g;
    Buffer *b = bound_buffer(e, operand(op, 0));
    if (!b) ice(e->ctx, op->loc, "the operand of a reshape has no buffer");
    int64_t apart;
    LLVMValueRef n = linear_index(e, result(op, 0)->type, p, &apart);
    if (apart == 1 && buffer_is_dense(b)) return buffer_run(e, b, n, p->lanes);
    if (p->lanes)
        n = LLVMBuildAdd(
            g->b, gen_splat(g, n, p->lanes),
            LLVMBuildMul(g->b, gen_iota(g, p->lanes), gen_same(gen_i64(g, apart), p->lanes), ""),
            "");
    return buffer_pick(e, b, n, p->live);
}

static LLVMValueRef lazy_reshape(Emit *e, Op *op, const Place *p) {
    return reshape_is_trivial(op) ? reshape_axes(e, op, p) : reshape_memory(e, op, p);
}

static LLVMValueRef lazy_broadcast(Emit *e, Op *op, const Place *p) {
    return emit_vec(e, operand(op, 0), p);
}

static LLVMValueRef lazy_permute(Emit *e, Op *op, const Place *p) {
    const int64_t *perm = op_ints(op, A_PERM)->ints;
    Place q = *p;
    for (int i = 0; i < p->rank; i++) {
        q.at[perm[i]] = p->at[i];
        if (p->axis == i) q.axis = (int)perm[i];
    }
    return emit_vec(e, operand(op, 0), &q);
}

static LLVMValueRef lazy_slice(Emit *e, Op *op, const Place *p) {
    const int64_t *start = op_ints(op, A_START)->ints;
    Place q = *p;
    for (int i = 0; i < p->rank; i++) q.at[i] = gen_add(e->g, p->at[i], gen_i64(e->g, start[i]));
    return emit_vec(e, operand(op, 0), &q);
}

/* ---- values -------------------------------------------------------------------------------- */

static LLVMValueRef lazy_const(Emit *e, Op *op, const Place *p) {
    (void)p;
    return gen_const(e->g, result(op, 0)->type->elem, op_const(op, A_VALUE));
}

static LLVMValueRef lazy_iota(Emit *e, Op *op, const Place *p) {
    Elem elem = result(op, 0)->type->elem;
    LLVMValueRef v = p->at[0];
    if (p->lanes)
        v = LLVMBuildAdd(e->g->b, gen_splat(e->g, v, p->lanes), gen_iota(e->g, p->lanes), "");
    return gen_cast(e->g, EL_I64, elem, v);
}

static LLVMValueRef lazy_cast(Emit *e, Op *op, const Place *p) {
    Value *x = operand(op, 0);
    return gen_cast(e->g, x->type->elem, result(op, 0)->type->elem, emit_vec(e, x, p));
}

static LLVMValueRef lazy_bitcast(Emit *e, Op *op, const Place *p) {
    Value *x = operand(op, 0);
    return gen_bitcast(e->g, x->type->elem, result(op, 0)->type->elem, emit_vec(e, x, p));
}

static void lazy_operands(Emit *e, Op *op, const Place *p, LLVMValueRef *args) {
    for (int i = 0; i < op->n_operands; i++) args[i] = emit_vec(e, operand(op, i), p);
    gen_unify(e->g, op->n_operands, args);
}

static LLVMValueRef lazy_select(Emit *e, Op *op, const Place *p) {
    LLVMValueRef c = emit_vec(e, operand(op, 0), p), args[2];
    args[0] = emit_vec(e, operand(op, 1), p);
    args[1] = emit_vec(e, operand(op, 2), p);
    int lanes = gen_lanes(c); // not the lanes of p: a monoid's region is emitted for whole vectors
    if (lanes) {
        args[0] = gen_splat(e->g, args[0], lanes);
        args[1] = gen_splat(e->g, args[1], lanes);
    } else {
        gen_unify(e->g, 2, args);
    }
    return gen_select(e->g, c, args[0], args[1]);
}

/// Computes iota < n without 64-bit lanes.
static LLVMValueRef lazy_below(Emit *e, const Op *op, const Place *p) {
    if (unmasked_covers(e, op, 0, p->at[0])) return LLVMConstInt(e->g->i1, 1, false);
    if (unmasked_kills(e, op, 0, p->at[0])) return LLVMConstInt(e->g->i1, 0, false);
    LLVMValueRef n = emit_scalar(e, unmasked_below(op));
    if (p->lanes) return lanes_below(e, p->at[0], n, p->lanes);
    return LLVMBuildICmp(e->g->b, LLVMIntSLT, p->at[0], n, "");
}

static LLVMValueRef lazy_elementwise(Emit *e, Op *op, const Place *p) {
    if (p->rank == 1 && unmasked_below(op)) return lazy_below(e, op, p);
    LLVMValueRef args[3];
    lazy_operands(e, op, p, args);
    return gen_elementwise(e->g, op->code, operand(op, 0)->type->elem, args);
}

static LLVMValueRef lazy_load(Emit *e, Op *op, const Place *p) {
    return emit_load(e, op, p);
}
static LLVMValueRef lazy_live(Emit *e, Op *op, const Place *p) {
    return emit_live(e, op, p);
}

/* ---- dispatch ------------------------------------------------------------------------------ */

typedef LLVMValueRef Lazy(Emit *e, Op *op, const Place *p);
static Lazy *const lazy_table[OP_COUNT] = {
    [OP_CONST] = lazy_const,         [OP_IOTA] = lazy_iota,       [OP_CAST] = lazy_cast,
    [OP_BROADCAST] = lazy_broadcast, [OP_RESHAPE] = lazy_reshape, [OP_PERMUTE] = lazy_permute,
    [OP_SLICE] = lazy_slice,         [OP_SELECT] = lazy_select,   [OP_BITCAST] = lazy_bitcast,
    [OP_LOAD] = lazy_load,           [OP_LIVE] = lazy_live,
#define EW(id, ...) [OP_##id] = lazy_elementwise,
#include "lang/elementwise.def"
};

bool op_is_lazy(const Op *op) {
    return lazy_table[op->code] != NULL;
}

LLVMValueRef emit_lazy(Emit *e, Op *op, const Place *p) {
    Lazy *lazy = lazy_table[op->code];
    if (!lazy) ice(e->ctx, op->loc, "%s is not computed lane by lane", op_info[op->code].name);
    return lazy(e, op, p);
}

/// Emits an op with its own source line, not the line of its user.
static LLVMValueRef emit_located(Emit *e, Op *op, const Place *p) {
    if (!e->scope) return emit_lazy(e, op, p);
    LLVMMetadataRef outer = LLVMGetCurrentDebugLocation2(e->g->b);
    debug_at(e, op);
    LLVMValueRef x = emit_lazy(e, op, p);
    LLVMSetCurrentDebugLocation2(e->g->b, outer);
    return x;
}

// Sources may contain long chains of ops, and the stack is limited. From this level on, operands
// are computed before their users. The code is the same, so usual kernels stay below this level.
enum { MAX_LEVELS = 64 };

/// Whether an op computes the value and uses its operands at its own place.
static bool is_link(Emit *e, Value *v, const Place *p) {
    const Op *op = v->def;
    if (!op || v->type->rank == 0 || bound_buffer(e, v)) return false;
    Place q = settle_place(e, v->type, p);
    return op_is_lanewise(op) && !memo_get(e, v, &q);
}

/// Computes all links below v, operands first.
static void emit_links(Emit *e, Value *v, const Place *p) {
    VEC(Value *) stack = {0};
    PtrMap opened = {0};
    vec_push(e->ctx, &stack, v);
    while (stack.n) {
        Value *top = stack.data[stack.n - 1];
        const Op *op = top->def;
        if (map_get(&opened, top)) {
            stack.n--;
            if (top != v) emit_vec(e, top, p);
            continue;
        }
        map_set(e->ctx, &opened, top, top);
        for (int i = op->n_operands - 1; i >= 0; i--)
            if (is_link(e, operand(op, i), p)) vec_push(e->ctx, &stack, operand(op, i));
    }
}

/// Computes a vector that no memo holds yet.
static LLVMValueRef compute_vec(Emit *e, Value *v, const Place *p) {
    LLVMValueRef x = emit_square(e, v, p);
    if (x) return x;
    Buffer *b = bound_buffer(e, v);
    if (b)
        x = buffer_load(e, b, p);
    else if (v->def)
        x = emit_located(e, v->def, p);
    else
        ice(e->ctx, (Loc){0}, "block %s has no value here", v->name ? v->name : "argument");
    memo_set(e, v, p, x);
    return x;
}

LLVMValueRef emit_vec(Emit *e, Value *v, const Place *p) {
    if (v->type->rank == 0) return emit_scalar(e, v);
    Place q = settle_place(e, v->type, p);
    LLVMValueRef x = memo_get(e, v, &q);
    if (x) return x;
    e->level++;
    if (e->level > MAX_LEVELS && is_link(e, v, &q)) emit_links(e, v, &q);
    x = compute_vec(e, v, &q);
    e->level--;
    return x;
}

LLVMValueRef emit_unmasked(Emit *e, Value *v, const Place *p) {
    return gen_splat(e->g, emit_vec(e, v, p), p->lanes);
}

/* ---- regions of scalar code ---------------------------------------------------------------- */

// Binds the region's scalars to vectors for one application. Every op of the region is elementwise,
// so it emits vectors as well as scalars.
void emit_region_lanes(Emit *e, Region *r, const LLVMValueRef *args, LLVMValueRef *out) {
    Place p = place_scalar();
    for (int i = 0; i < r->n_args; i++) bind_lanes(e, r->args[i], args[i]);
    for_each_op(op, r) {
        if (op->code == OP_YIELD) break;
        bind_lanes(e, result(op, 0), emit_lazy(e, op, &p));
    }
    int lanes = 0;
    for (int i = 0; i < r->n_args; i++)
        if (gen_lanes(args[i])) lanes = gen_lanes(args[i]);
    for (int i = 0; i < r->last->n_operands; i++)
        out[i] = gen_splat(e->g, emit_scalar(e, operand(r->last, i)), lanes);
}
