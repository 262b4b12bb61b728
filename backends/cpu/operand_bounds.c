// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts about the live lanes of contraction operands.
//
// Packing without masks: most steps lie inside their tensors, but often only run time knows, and
// then each vector needs a mask. So packing is emitted twice, and one comparison for each axis of
// each load decides for the whole step.
//
// The last step of the loop: elements beyond the loop's end are padding. If they are 0 in both
// operands, their products are 0 and are skipped.
#include "backends/cpu/contract.h"
#include "backends/cpu/emit.h"

static void add_load(Inside *s, Prepared *p) {
    bool partial = p->live != NULL;
    for (int d = 0; d < p->a.n_subs; d++) partial |= p->lo[d] || p->hi[d];
    for (int i = 0; i < s->n; i++) partial &= s->loads[i] != p;
    if (!partial) return;
    if (s->n == MAX_INSIDE)
        s->fails = true;
    else
        s->loads[s->n++] = p;
}

/// Adds the loads below v. Stops at buffers, which hold loaded values.
static void add_value_loads(Emit *e, Inside *s, Value *v, PtrMap *seen) {
    Op *op = v->def;
    if (map_get(seen, v)) return;
    map_set(e->ctx, seen, v, e);
    if (v->type->kind != TK_BLOCK || v->type->rank == 0 || bound_buffer(e, v)) return;
    if (!op || !op_is_lazy(op)) return;
    if (op->code == OP_LOAD || op->code == OP_LIVE) {
        add_load(s, bound_access(e, op));
        return;
    }
    for (int i = 0; i < op->n_operands; i++) add_value_loads(e, s, operand(op, i), seen);
}

static LLVMValueRef whole_inside(const Gen *g, const Prepared *p) {
    LLVMValueRef all = p->live;
    for (int d = 0; d < p->a.n_subs; d++) {
        LLVMValueRef size = gen_i64(g, p->a.subs[d].size), lo = p->lo[d], hi = p->hi[d];
        if (lo) all = gen_and(g, all, LLVMBuildICmp(g->b, LLVMIntSLE, lo, gen_i64(g, 0), ""));
        if (hi) all = gen_and(g, all, LLVMBuildICmp(g->b, LLVMIntSGE, hi, size, ""));
    }
    return all;
}

LLVMValueRef operand_bounds_find(Emit *e, Value *v, Inside *s) {
    LLVMValueRef all = NULL;
    s->n = 0;
    s->fails = e->cpu->check; // the loads contain the checks
    PtrMap seen = {0};
    if (!s->fails) add_value_loads(e, s, v, &seen);
    for (int i = 0; i < s->n && !s->fails; i++)
        all = gen_and(e->g, all, whole_inside(e->g, s->loads[i]));
    return all;
}

void operand_bounds_begin(Emit *e, Inside *s) {
    s->saved = ctx_array(e->ctx, Prepared, s->n);
    for (int i = 0; i < s->n; i++) {
        Prepared *p = s->loads[i];
        s->saved[i] = *p;
        p->live = NULL;
        for (int d = 0; d < MAX_RANK; d++) p->lo[d] = p->hi[d] = NULL;
    }
}

void operand_bounds_end(Inside *s) {
    for (int i = 0; i < s->n; i++) *s->loads[i] = s->saved[i];
}

/* ---- beyond the end of the loop ------------------------------------------------------------ */

/// Whether count = min(hi - k, ...), the count at the end of `for k in lo .. hi by n`.
static bool counts_to_end(const Op *contract, const Value *count) {
    Op *min = def_of(count, OP_MIN);
    if (min)
        return counts_to_end(contract, operand(min, 0)) || counts_to_end(contract, operand(min, 1));
    Op *sub = def_of(count, OP_SUB);
    return sub && operand(sub, 0) == operand(contract, 1) &&
           operand(sub, 1) == contract->regions[0]->args[0];
}

static bool is_zero_value(const Value *v) {
    const Attr *a = const_of(v);
    return a && (a->kind == AT_FLOAT ? a->f == 0 : a->kind == AT_INT && a->i == 0);
}

bool zero_beyond(const Op *contract, const Value *v, int axis) {
    Op *op = v->def;
    if (!op) return false;
    if (op->code == OP_CAST) return zero_beyond(contract, operand(op, 0), axis);
    if (op->code == OP_PERMUTE)
        return zero_beyond(contract, operand(op, 0), (int)op_ints(op, A_PERM)->ints[axis]);
    if (op->code != OP_LOAD) return false;
    Access a = access_of(op);
    for (int d = 0; d < a.n_subs; d++)
        if (a.subs[d].kind == DIM_AXIS && a.axis_of[d] == axis)
            return is_zero_value(a.pad) && counts_to_end(contract, sub_operand(op, &a, d, 1));
    return false;
}
