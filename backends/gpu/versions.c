// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two versions of a body. Whether vectors of an access are live or dead as a whole often depends on
// whether some extents are multiples of a vector. That is looked at once, in the function's head;
// where they are, no access has to look again.
#include <string.h>

#include "backends/gpu/access.h"
#include "backends/gpu/divisor.h"

enum { MAX_DEPTH = 16, MAX_OPS = 160 };

/* ---- what must be a multiple --------------------------------------------------------------- */

static bool divides(GpuFn *f, const Value *v, int64_t n, GpuLeaves *leaves, int depth);

static bool both(GpuFn *f, const Op *op, int first, int64_t n, GpuLeaves *leaves, int depth) {
    return divides(f, operand(op, first), n, leaves, depth) &&
           divides(f, operand(op, first + 1), n, leaves, depth);
}

static bool take_leaf(GpuFn *f, LLVMValueRef x, GpuLeaves *leaves) {
    if (!leaves) return false;
    for (int i = 0; i < leaves->n; i++)
        if (leaves->data[i] == x) return true;
    vec_push(f->ctx, leaves, x);
    return true;
}

static bool argument_divides(GpuFn *f, const Value *v, int64_t n, GpuLeaves *leaves, int depth) {
    const Op *op = v->region ? v->region->parent : NULL;
    if (op == f->device && v->index > 0 && elem_is(v->type->elem, EC_INT))
        return take_leaf(f, gpu_scalar(f, v), leaves);
    if (!op || op->code != OP_FOR || v->index != 0 || v->region != op->regions[0]) return false;
    return op_int(op, "step", 1) % n == 0 && divides(f, operand(op, 0), n, leaves, depth);
}

static bool divides(GpuFn *f, const Value *v, int64_t n, GpuLeaves *leaves, int depth) {
    const Op *op = v->def;
    if (gpu_divisor(v) % n == 0) return true;
    if (depth-- == 0) return false;
    if (!op) return argument_divides(f, v, n, leaves, depth);
    switch (op->code) {
    case OP_ADD:
    case OP_SUB:
    case OP_MIN:
    case OP_MAX:
    case OP_REM: return both(f, op, 0, n, leaves, depth);
    case OP_SELECT: return both(f, op, 1, n, leaves, depth);
    case OP_CAST:
        return elem_is(operand(op, 0)->type->elem, EC_INT) &&
               divides(f, operand(op, 0), n, leaves, depth);
    case OP_SHL: return divides(f, operand(op, 0), n, leaves, depth);
    case OP_DIM:
        return take_leaf(f, gpu_tensor(f, operand(op, 0))->dims[op_int(op, "axis", 0)], leaves);
    default: return false;
    }
}

bool gpu_bounds_divide(GpuAccess *p, GpuLeaves *leaves) {
    const SubDim *s = &p->a.subs[p->vec_dim];
    int64_t n = (int64_t)1 << p->vec_bits, size;
    int inside = p->dims[p->vec_dim].inside;
    const Value *count = sub_operand(p->op, &p->a, p->vec_dim, 1);
    bool all = inside == 2 || (const_int(count, &size) && size >= s->size);
    if (!all && !divides(p->f, count, n, leaves, MAX_DEPTH)) return false;
    if (inside) return true;
    int64_t extent = p->tensor->value->type->extents[p->vec_dim];
    if (extent != DYNAMIC) return extent % n == 0;
    return take_leaf(p->f, p->tensor->dims[p->vec_dim], leaves);
}

/* ---- the function -------------------------------------------------------------------------- */

typedef struct Survey {
    GpuFn *f;
    GpuLeaves leaves;
    int ops;
    int64_t vector; // elements of the longest
    bool heavy;     // too large, or not to be made twice
} Survey;

static void see_op(Op *op, void *arg) {
    Survey *s = arg;
    s->ops++;
    s->heavy |= op->code == OP_DOT || op->code == OP_SORT;
    for (int i = 0; i < op->n_results; i++) s->heavy |= result(op, i)->type->kind != TK_BLOCK;
    if (op->code != OP_LOAD && op->code != OP_STORE) return;
    GpuAccess p = gpu_access_plan(s->f, op);
    GpuLeaves found = {0};
    if (!p.vec_bits || gpu_bounds_divide(&p, NULL) || !gpu_bounds_divide(&p, &found)) return;
    for (int i = 0; i < found.n; i++) take_leaf(s->f, found.data[i], &s->leaves);
    int64_t vector = (int64_t)1 << p.vec_bits;
    if (vector > s->vector) s->vector = vector;
}

/// i1: all leaves are multiples of the longest vector.
static LLVMValueRef all_divide(GpuFn *f, const Survey *s) {
    LLVMBuilderRef b = f->g->b;
    LLVMValueRef rest = gpu_i32(f, 0);
    for (int i = 0; i < s->leaves.n; i++) {
        LLVMValueRef x = LLVMBuildIntCast2(b, s->leaves.data[i], f->g->i32, true, "");
        rest = LLVMBuildOr(b, rest, x, "");
    }
    rest = LLVMBuildAnd(b, rest, gpu_i32(f, s->vector - 1), "");
    return LLVMBuildICmp(b, LLVMIntEQ, rest, gpu_i32(f, 0), "");
}

static PtrMap copy_map(Ctx *ctx, const PtrMap *m) {
    PtrMap c = *m;
    c.slots = ctx_copy(ctx, m->slots, (size_t)m->cap * sizeof *m->slots);
    return c;
}

void gpu_versions(GpuFn *f) {
    Survey s = {.f = f};
    op_walk_pre((Op *)f->device, see_op, &s);
    if (!s.leaves.n || s.heavy || s.ops > MAX_OPS || f->kernel->faults) {
        gpu_region(f, f->device->regions[0]);
        return;
    }
    GpuShared before = gpu_shared_state(f);
    PtrMap values = copy_map(f->ctx, &f->values);
    GpuIf branch = gpu_if(f, all_divide(f, &s));
    f->assume_divides = true;
    gpu_region(f, f->device->regions[0]);
    gpu_else(f, &branch);
    f->assume_divides = false;
    f->values = values;
    gpu_shared_restore(f, &before);
    gpu_region(f, f->device->regions[0]);
    gpu_end_if(f, &branch);
}
