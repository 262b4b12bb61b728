// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeping packed panels from one run of a contract to the next.
//
// Neighbouring programs of a task often multiply with the same columns: their panels of B are the
// same, and packing them reads B through the slowest memory there is. So what B is computed from is
// written beside the panels: where a contract runs again in the same task with the same values, it
// packs A alone. That is exact where B is made by lazy ops from
//   - scalars defined outside the contract: they are the key, and
//   - tensors that the launch does not write.
#include "backends/cpu/dot.h"
#include "backends/cpu/private.h"

typedef struct Search {
    Emit *e;
    const Op *contract, *launch;
    Kept *kept;
    PtrMap seen;
    bool fails;
} Search;

/* ---- what B is computed from --------------------------------------------------------------- */

static void seek_store(Op *op, void *arg) {
    Search *s = arg;
    if (op->code != OP_STORE && op->code != OP_ATOMIC) return;
    const Value *written = access_of(op).tensor;
    for (int i = 0; i < s->kept->n_tensors; i++)
        if (tensors_may_meet(written, s->kept->tensors[i])) s->fails = true;
}

static void add_scalar(Search *s, const Value *v) {
    Kept *k = s->kept;
    if (v->def && v->def->code == OP_CONST) return;
    if (k->n == MAX_KEYS || elem_info[v->type->elem].bits > 64)
        s->fails = true;
    else
        k->values[k->n++] = v;
}

static void add_value(Search *s, Value *v) {
    if (map_get(&s->seen, v)) return;
    map_set(s->e->ctx, &s->seen, v, s);
    bool inside = value_is_inside(v, s->contract);
    if (v->type->kind == TK_TENSOR) {
        if (s->kept->n_tensors == MAX_KEYS)
            s->fails = true;
        else
            s->kept->tensors[s->kept->n_tensors++] = v;
        return;
    }
    if (!inside && v->type->rank == 0) {
        add_scalar(s, v);
        return;
    }
    if (!v->def) { // the contract's own index, or a block that a loop carries
        if (!inside) s->fails = true;
        return;
    }
    bool scalar = v->type->rank == 0 && (v->def->code == OP_DIM || v->def->code == OP_STRIDE);
    if (!scalar && (!op_is_lazy(v->def) || plan_is_cut(s->e, v))) s->fails = true;
    for (int i = 0; i < v->def->n_operands; i++) add_value(s, operand(v->def, i));
}

/// A contract that can run twice in a task.
static bool runs_again(const Op *op, const Op *launch) {
    const Op *loop = op_enclosing(op, OP_FOR);
    return launch && loop && op_is_inside(loop, launch);
}

bool keep_find(Emit *e, Op *op, Value *b, Kept *k) {
    Op *launch = op_enclosing(op, OP_LAUNCH);
    *k = (Kept){0};
    if (!runs_again(op, launch)) return false;
    Search s = {.e = e, .contract = op, .launch = launch, .kept = k};
    add_value(&s, operand(op, 0));
    add_value(&s, operand(op, 1));
    add_value(&s, b);
    if (!s.fails) op_walk_pre(launch, seek_store, &s);
    return !s.fails;
}

/* ---- keys ---------------------------------------------------------------------------------- */

/// Any scalar as 64 bits.
static LLVMValueRef bits_of(Emit *e, const Value *v) {
    const Gen *g = e->g;
    LLVMValueRef x = emit_scalar(e, v);
    unsigned bits = elem_is(v->type->elem, EC_BOOL) ? 1 : (unsigned)elem_info[v->type->elem].bits;
    if (elem_is(v->type->elem, EC_FLOAT))
        x = LLVMBuildBitCast(g->b, x, LLVMIntTypeInContext(g->llvm, bits), "");
    return LLVMTypeOf(x) == g->i64 ? x : LLVMBuildZExt(g->b, x, g->i64, "");
}

static LLVMValueRef key_at(Emit *e, const Kept *k, int i) {
    return gen_offset(e->g, k->memory, gen_i64(e->g, 8 * (i + 1)));
}

/// At the start of the task nothing is kept.
static void forget(Emit *e, const Kept *k) {
    const Gen *g = e->g;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef start = LLVMGetEntryBasicBlock(e->fn);
    LLVMPositionBuilder(g->b, start, LLVMGetFirstInstruction(start));
    memory_store(e, TENSOR_ARENA, gen_i64(g, 0), gen_offset(g, e->arena, gen_i64(g, k->offset)), 8);
    LLVMPositionBuilderAtEnd(g->b, here);
}

LLVMValueRef keep_begin(Emit *e, Kept *k) {
    const Gen *g = e->g;
    k->memory = arena_keep(e, 8 * (MAX_KEYS + 1), &k->offset);
    forget(e, k);
    LLVMValueRef valid = memory_load(e, TENSOR_ARENA, g->i64, k->memory, 8);
    LLVMValueRef same = LLVMBuildICmp(g->b, LLVMIntNE, valid, gen_i64(g, 0), "");
    for (int i = 0; i < k->n; i++) {
        LLVMValueRef old = memory_load(e, TENSOR_ARENA, g->i64, key_at(e, k, i), 8);
        LLVMValueRef equal = LLVMBuildICmp(g->b, LLVMIntEQ, old, bits_of(e, k->values[i]), "");
        same = LLVMBuildAnd(g->b, same, equal, "");
    }
    return same;
}

void keep_end(Emit *e, const Kept *k) {
    for (int i = 0; i < k->n; i++)
        memory_store(e, TENSOR_ARENA, bits_of(e, k->values[i]), key_at(e, k, i), 8);
    memory_store(e, TENSOR_ARENA, gen_i64(e->g, 1), k->memory, 8);
}
