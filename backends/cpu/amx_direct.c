// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lets tile engines read rows of A in place.
//
// A tile of A is 16 rows of 64 bytes, and the distance of its rows is free. If k is contiguous in
// memory, and a strip consists of whole tiles inside the tensor, a panel would be a plain copy.
// Only run time knows whether the strip is inside, so the micro-kernel takes the address and the
// distance of rows as arguments.
#include "backends/cpu/contract.h"
#include "backends/cpu/emit.h"

/// Returns the dimension of the load that runs along the axis.
static int dimension_of(const Access *a, int axis) {
    for (int d = 0; d < a->n_subs; d++)
        if (a->subs[d].kind == DIM_AXIS && a->axis_of[d] == axis) return d;
    return -1;
}

static bool is_simple(const Region *r) {
    for_each_op(op, r) {
        if (op->code != OP_YIELD && op->code != OP_DIM && op->code != OP_STRIDE && !op_is_lazy(op))
            return false;
    }
    return true;
}

/// Whether k changes only the load's depth coordinate.
static bool changes_with_depth_alone(const Op *contract, const Op *load, int depth) {
    Access a = access_of(load);
    for (int d = 0; d < a.n_subs; d++) {
        const Value *at = sub_operand(load, &a, d, 0);
        if (d == depth ? at != contract->regions[0]->args[0] : value_is_inside(at, contract))
            return false;
        if (d != depth && a.subs[d].kind == DIM_AXIS &&
            value_is_inside(sub_operand(load, &a, d, 1), contract))
            return false;
    }
    return true;
}

bool amx_direct_possible(Emit *e, const Op *contract, const Operand *x, const DotKind *k) {
    const Value *v = x->v;
    const Op *load = v->def;
    if (k->engine != DOT_TILES || !load || load->code != OP_LOAD || value_elem(v) != k->packed)
        return false;
    Access a = access_of(load);
    int outer = dimension_of(&a, x->outer), depth = dimension_of(&a, x->depth);
    return !bound_buffer(e, v) && !e->cpu->check && load->parent == contract->regions[0] &&
           a.pick_at < 0 && !a.mask && outer >= 0 && depth >= 0 &&
           access_stride(load, x->depth) == 1 && zero_beyond(contract, v, x->depth) &&
           changes_with_depth_alone(contract, load, depth) && is_simple(contract->regions[0]);
}

static LLVMValueRef build_at_least(const Gen *g, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildICmp(g->b, LLVMIntSGE, x, y, "");
}

/// Returns an i1: all rows of the strip are live, and it has whole tiles (whole steps if `part`
/// says so).
static LLVMValueRef strip_is_inside(Emit *e, const Operand *x, const Prepared *p, int64_t part,
                                    LLVMValueRef from, LLVMValueRef to) {
    const Gen *g = e->g;
    int outer = dimension_of(&p->a, x->outer), depth = dimension_of(&p->a, x->depth);
    LLVMValueRef zero = gen_i64(g, 0), all = p->live;
    LLVMValueRef rest = LLVMBuildSRem(g->b, LLVMBuildSub(g->b, to, from, ""), gen_i64(g, part), "");
    all = gen_and(g, all, LLVMBuildICmp(g->b, LLVMIntEQ, rest, zero, ""));
    all = gen_and(g, all, build_at_least(g, p->tensor->dims[depth], to));
    all = gen_and(g, all, build_at_least(g, from, zero));
    if (p->lo[outer]) all = gen_and(g, all, build_at_least(g, zero, p->lo[outer]));
    if (p->hi[outer])
        all = gen_and(g, all, build_at_least(g, p->hi[outer], gen_i64(g, p->a.subs[outer].size)));
    return all;
}

Direct amx_direct_strip(Emit *e, const Op *contract, const Operand *x, int64_t part,
                        LLVMValueRef from, LLVMValueRef to) {
    const Gen *g = e->g;
    Region *r = contract->regions[0];
    scope_enter(e); // packing emits the ops of the region again
    bind_scalar(e, r->args[0], from);
    emit_ops(e, r);
    const Prepared *p = prepared_of(e, x->v->def);
    int64_t bytes = elem_bytes(value_elem(x->v));
    Place first = {.rank = 2, .axis = -1};
    first.at[0] = first.at[1] = gen_i64(g, 0);
    LLVMValueRef offset = access_lanes(e, p, &first).offset;
    int outer = dimension_of(&p->a, x->outer);
    LLVMValueRef step = gen_mul(g, p->tensor->strides[outer], gen_i64(g, p->a.subs[outer].mul));
    Direct d = {.holds = strip_is_inside(e, x, p, part, from, to),
                .base = gen_offset(g, p->tensor->data, gen_mul(g, offset, gen_i64(g, bytes))),
                .step = gen_mul(g, step, gen_i64(g, bytes))};
    scope_leave(e);
    return d;
}
