// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits a body in two versions. If certain extents are multiples of a vector's elements, each
// vector of an access is live or dead as a whole. The function's head tests these extents once. In
// the version for multiples, no access tests again.
#include <string.h>

#include "backends/gpu/access.h"
#include "backends/gpu/divisor.h"

enum { MAX_DEPTH = 16, MAX_OPS = 160 };

/* ---- conditions on multiples --------------------------------------------------------------- */

static bool value_divides(GpuFn *f, const Value *v, int64_t n, GpuLeaves *leaves, int depth);

static bool both_divide(GpuFn *f, const Op *op, int first, int64_t n, GpuLeaves *leaves,
                        int depth) {
    return value_divides(f, operand(op, first), n, leaves, depth) &&
           value_divides(f, operand(op, first + 1), n, leaves, depth);
}

/// Whether x is a multiple of n: this version knows it, or x can be added to the required leaves.
static bool take_leaf(GpuFn *f, LLVMValueRef x, int64_t n, GpuLeaves *leaves) {
    const GpuMultiples *m = f->multiples;
    for (int i = 0; m && i < m->n && m->of % n == 0; i++)
        if (m->values[i] == x) return true;
    for (int i = 0; leaves && i < leaves->n; i++)
        if (leaves->data[i] == x) return true;
    if (leaves) vec_push(f->ctx, leaves, x);
    return leaves != NULL;
}

static bool argument_divides(GpuFn *f, const Value *v, int64_t n, GpuLeaves *leaves, int depth) {
    const Op *op = v->region ? v->region->parent : NULL;
    if (op == f->device && v->index > 0 && elem_is(v->type->elem, EC_INT))
        return take_leaf(f, gpu_scalar(f, v), n, leaves);
    if (!op || op->code != OP_FOR || v->index != 0 || v->region != op->regions[0]) return false;
    return op_int(op, A_STEP, 1) % n == 0 && value_divides(f, operand(op, 0), n, leaves, depth);
}

static bool value_divides(GpuFn *f, const Value *v, int64_t n, GpuLeaves *leaves, int depth) {
    const Op *op = v->def;
    if (gpu_divisor(v) % n == 0) return true;
    if (depth-- == 0) return false;
    if (!op) return argument_divides(f, v, n, leaves, depth);
    switch (op->code) {
    case OP_ADD:
    case OP_SUB:
    case OP_MIN:
    case OP_MAX:
    case OP_REM: return both_divide(f, op, 0, n, leaves, depth);
    case OP_SELECT: return both_divide(f, op, 1, n, leaves, depth);
    case OP_CAST:
        return elem_is(operand(op, 0)->type->elem, EC_INT) &&
               value_divides(f, operand(op, 0), n, leaves, depth);
    case OP_SHL: return value_divides(f, operand(op, 0), n, leaves, depth);
    case OP_DIM:
        return take_leaf(f, gpu_tensor(f, operand(op, 0))->dims[op_int(op, A_AXIS, 0)], n, leaves);
    default: return false;
    }
}

bool gpu_bounds_divide(GpuAccess *p, GpuLeaves *leaves) {
    const SubDim *s = &p->a.subs[p->vec_dim];
    int64_t n = (int64_t)1 << p->vec_bits, size;
    int inside = p->dims[p->vec_dim].inside;
    const Value *count = sub_operand(p->op, &p->a, p->vec_dim, 1);
    bool all = inside == 2 || (const_int(count, &size) && size >= s->size);
    if (!all && !value_divides(p->f, count, n, leaves, MAX_DEPTH)) return false;
    if (inside) return true;
    int64_t extent = p->tensor->value->type->extents[p->vec_dim];
    if (extent != DYNAMIC) return extent % n == 0;
    return take_leaf(p->f, p->tensor->dims[p->vec_dim], n, leaves);
}

/* ---- positions below a bound --------------------------------------------------------------- */

/// Matches `iota < broadcast(n)`. Returns n, and the block of positions.
static const Value *position_bound(const Op *op, const Value **positions) {
    const Value *x = operand(op, 0);
    const Op *n = def_of(operand(op, 1), OP_BROADCAST);
    if (def_of(x, OP_CAST)) x = operand(x->def, 0);
    if (!def_of(x, OP_IOTA) || !n || operand(n, 0)->type->rank || !x->type->layout) return NULL;
    *positions = x;
    return operand(n, 0);
}

/// Returns the position bits whose values all lie in one thread, if they divide the bound.
static int bound_bits(GpuFn *f, const Op *op, GpuLeaves *leaves, int *x) {
    const Value *positions, *n = position_bound(op, &positions);
    if (!n) return 0;
    int bits = layout_vector(positions->type->layout, 0, x);
    if (bits > MAX_VECTOR_BITS) bits = MAX_VECTOR_BITS;
    while (bits && !value_divides(f, n, (int64_t)1 << bits, leaves, MAX_DEPTH)) bits--;
    return bits;
}

/// Returns an i32: the number of positions from the thread's own position up to the bound; 0 or
/// less if there is none.
static LLVMValueRef left_below(GpuFn *f, const Value *n, LLVMValueRef thread) {
    Gen *g = f->g;
    LLVMValueRef x = gpu_scalar(f, n);
    if (n->type->elem == EL_I64) {
        x = gen_max(g, gen_min(g, x, gen_i64(g, INT32_MAX)), gen_i64(g, 0));
        x = LLVMBuildTrunc(g->b, x, g->i32, "");
    } else {
        LLVMValueRef args[] = {x, gpu_i32(f, 0)};
        x = gen_elementwise(g, OP_MAX, EL_I32, args);
    }
    return thread ? LLVMBuildSub(g->b, x, thread, "") : x;
}

/// Each register compares the result of left_below with a constant. If registers differ only in the
/// bits of a vector, either all of them are below the bound or none is.
static bool lower_bound(GpuFn *f, Op *op) {
    const Value *positions, *n = position_bound(op, &positions);
    int x[LAYOUT_MAX_BITS], bits = bound_bits(f, op, NULL, x);
    if (!n || (n->type->elem != EL_I32 && n->type->elem != EL_I64)) return false;
    const Layout *l = positions->type->layout;
    LLVMValueRef thread, left = NULL, *out;
    int64_t number;
    Bits within = 0;
    for (int i = 0; i < bits; i++) within |= bit(x[i]);
    for (int r = 0; r < gpu_registers(positions->type); r++)
        if (!gpu_coord_parts(f, l, r, 0, &thread, &number)) return false;
    out = gpu_new_block(f, result(op, 0));
    for (int r = 0; r < gpu_registers(positions->type); r++) {
        gpu_coord_parts(f, l, r, 0, &thread, &number);
        if (!left) left = left_below(f, n, thread);
        out[r] = (Bits)r & within
                     ? out[(Bits)r & ~within]
                     : LLVMBuildICmp(f->g->b, LLVMIntSGT, left, gpu_i32(f, number), "");
    }
    return true;
}

void gpu_lower_lt(GpuFn *f, Op *op) {
    if (!lower_bound(f, op)) gpu_lower_elementwise(f, op);
}

/* ---- the function -------------------------------------------------------------------------- */

enum { MAX_SEEN = 16 };

typedef struct VersionSurvey {
    GpuFn *f;
    GpuLeaves leaves;
    int ops;
    int64_t vector; // elements of the longest vector
    bool heavy;     // too large, or not to be duplicated
    // The extents along which the longest vectors lie, and the comparisons with a bound.
    int n_extents, n_bounds;
    int64_t extents[MAX_SEEN];
    const Op *bounds[MAX_SEEN];
} VersionSurvey;

static void add_leaves(VersionSurvey *s, const GpuLeaves *found, int64_t vector) {
    for (int i = 0; i < found->n; i++) take_leaf(s->f, found->data[i], vector, &s->leaves);
    if (found->n && vector > s->vector) s->vector = vector;
}

static void see_versioned_op(Op *op, void *arg) {
    VersionSurvey *s = arg;
    s->ops++;
    // Without asynchronous copies, products depend on loads, so bodies with products qualify, too.
    bool copies = gpu_has(s->f->target, GPU_CP_ASYNC);
    s->heavy |= (op->code == OP_DOT && copies) || op->code == OP_SORT;
    for (int i = 0; i < op->n_results; i++) {
        TypeKind kind = result(op, i)->type->kind;
        s->heavy |= kind != TK_BLOCK && (copies || kind != TK_BUF);
    }
    if (op->code == OP_LT && s->n_bounds < MAX_SEEN) s->bounds[s->n_bounds++] = op;
    if (op->code != OP_LOAD && op->code != OP_STORE) return;
    GpuAccess p = gpu_access_plan(s->f, op);
    GpuLeaves found = {0};
    if (!p.vec_bits || gpu_bounds_divide(&p, NULL) || !gpu_bounds_divide(&p, &found)) return;
    add_leaves(s, &found, (int64_t)1 << p.vec_bits);
    if (s->n_extents < MAX_SEEN) s->extents[s->n_extents++] = p.a.subs[p.vec_dim].size;
}

/// Bounds of positions along the same extents are most likely equal.
static void see_bound(VersionSurvey *s, const Op *op) {
    const Value *positions;
    GpuLeaves found = {0};
    int x[LAYOUT_MAX_BITS], bits = bound_bits(s->f, op, &found, x);
    if (!bits || !position_bound(op, &positions)) return;
    for (int i = 0; i < s->n_extents; i++) {
        if (s->extents[i] != positions->type->extents[0]) continue;
        add_leaves(s, &found, (int64_t)1 << bits);
        return;
    }
}

/// Returns an i1: all values are multiples of the longest vector.
static LLVMValueRef all_divide(GpuFn *f, const GpuMultiples *m) {
    LLVMBuilderRef b = f->g->b;
    LLVMValueRef rest = gpu_i32(f, 0);
    for (int i = 0; i < m->n; i++) {
        LLVMValueRef x = LLVMBuildIntCast2(b, m->values[i], f->g->i32, true, "");
        rest = LLVMBuildOr(b, rest, x, "");
    }
    rest = LLVMBuildAnd(b, rest, gpu_i32(f, m->of - 1), "");
    return LLVMBuildICmp(b, LLVMIntEQ, rest, gpu_i32(f, 0), "");
}

static PtrMap copy_map(Ctx *ctx, const PtrMap *m) {
    PtrMap c = *m;
    c.slots = ctx_copy(ctx, m->slots, (size_t)m->cap * sizeof *m->slots);
    return c;
}

void gpu_versions(GpuFn *f) {
    VersionSurvey s = {.f = f};
    op_walk_pre((Op *)f->device, see_versioned_op, &s);
    if (!s.leaves.n || s.heavy || s.ops > MAX_OPS || f->kernel->faults) {
        gpu_region(f, f->device->regions[0]);
        gpu_cluster_end(f);
        return;
    }
    for (int i = 0; i < s.n_bounds; i++) see_bound(&s, s.bounds[i]);
    GpuMultiples m = {.n = s.leaves.n, .values = s.leaves.data, .of = s.vector};
    GpuShared before = gpu_shared_state(f);
    bool started = f->started;
    PtrMap values = copy_map(f->ctx, &f->values);
    GpuIf branch = gpu_if(f, all_divide(f, &m));
    f->multiples = &m;
    gpu_region(f, f->device->regions[0]);
    gpu_cluster_end(f);
    gpu_else(f, &branch);
    f->multiples = NULL;
    f->rest = true;
    f->values = values;
    f->started = started;
    gpu_shared_restore(f, &before);
    gpu_region(f, f->device->regions[0]);
    gpu_cluster_end(f);
    gpu_end_if(f, &branch);
}
