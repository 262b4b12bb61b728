// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits the ops of a region in order: scalars directly, lazy blocks by preparing them, roots by
// gathering them into nests or by their lowering.
#include "backends/cpu/emit.h"

/* ---- scalars and lazy blocks --------------------------------------------------------------- */

/// Emits a dim or stride: from the tensor's type, or from the caller's arrays for `as_passed`.
static LLVMValueRef emit_extent(Emit *e, const Op *op) {
    const TensorRef *t = emit_tensor(e, operand(op, 0));
    int64_t axis = op_int(op, A_AXIS, 0);
    bool dim = op->code == OP_DIM;
    LLVMValueRef memory = op_flag(op, A_AS_PASSED) ? dim ? t->shape : t->steps : NULL;
    if (!memory) return dim ? t->dims[axis] : t->strides[axis];
    LLVMValueRef at = gen_offset(e->g, memory, gen_i64(e->g, 8 * axis));
    return LLVMBuildLoad2(e->g->b, e->g->i64, at, "");
}

void emit_simple(Emit *e, Op *op) {
    Value *v = result(op, 0);
    if (op->code == OP_LOAD || op->code == OP_LIVE) prepare_access(e, op);
    if (v->type->rank) return;
    Place p = place_scalar();
    bool extent = op->code == OP_DIM || op->code == OP_STRIDE;
    if (e->cpu->check) check_division(e, op);
    bind_scalar(e, v, extent ? emit_extent(e, op) : emit_lazy(e, op, &p));
}

static void lower_lazy(Emit *e, Op *op) {
    Value *v = result(op, 0);
    if (v->type->rank == 0 && op->code == OP_LOAD && nest_writes(e, operand(op, 0))) nest_flush(e);
    emit_simple(e, op);
    if (v->type->rank && plan_is_cut(e, v)) nest_add(e, (Root){.kind = ROOT_BUFFER, .value = v});
    if (debug_shows(e, v)) nest_flush(e);
}

/// Computes the greatest power of two that divides the address.
static void lower_align(Emit *e, Op *op) {
    Gen *g = e->g;
    LLVMValueRef at = emit_tensor(e, operand(op, 0))->data;
    LLVMValueRef bits = LLVMBuildPtrToInt(g->b, at, g->i64, "");
    LLVMValueRef low = LLVMBuildAnd(g->b, bits, LLVMBuildNeg(g->b, bits, ""), "");
    LLVMValueRef null = LLVMBuildICmp(g->b, LLVMIntEQ, bits, gen_i64(g, 0), "");
    bind_scalar(e, result(op, 0),
                LLVMBuildSelect(g->b, null, gen_i64(g, INT64_C(1) << 62), low, ""));
}

/* ---- roots --------------------------------------------------------------------------------- */

/// An access without lanes needs no nest.
static void lower_store(Emit *e, Op *op) {
    prepare_access(e, op);
    if (root_space(&(Root){.kind = ROOT_STORE, .op = op})->rank) {
        nest_add(e, (Root){.kind = ROOT_STORE, .op = op});
        return;
    }
    nest_flush(e);
    Place p = place_scalar();
    emit_store(e, op, &p, emit_scalar(e, operand(op, 1)));
}

static void lower_atomic(Emit *e, Op *op) {
    prepare_access(e, op);
    nest_flush(e);
    Value *v = result(op, 0);
    if (v->type->rank) {
        nest_add(e, (Root){.kind = ROOT_ATOMIC, .op = op});
        nest_flush(e);
        return;
    }
    Place p = place_scalar();
    bind_scalar(e, v, emit_atomic(e, op, &p));
}

static void lower_reduce(Emit *e, Op *op) {
    if (op_fold_order(op)) ice(e->ctx, op->loc, "fixed-order has not run");
    nest_add(e, (Root){.kind = ROOT_REDUCE, .op = op});
}

/// Lowerings that flush the gathered nest first.
static Lower *const alone[OP_COUNT] = {
    [OP_WHILE] = lower_while,
    [OP_IF] = lower_if,
    [OP_CONCAT] = lower_concat,
    [OP_DOT] = lower_dot,
    [OP_CONTRACT] = lower_contract,
    [OP_SORT] = lower_sort,
    [OP_SCAN] = lower_scan,
    [OP_HISTOGRAM] = lower_histogram,
    [OP_GATHER] = lower_gather,
    [OP_PRINT] = lower_print,
    [OP_ASSERT] = lower_assert,
    [OP_REQUIRE] = lower_require,
    [OP_SCRATCH] = lower_scratch,
    [OP_WORKSPACE_LIMIT] = lower_workspace_limit,
    [OP_LAUNCH] = lower_launch,
    [OP_DISPATCH] = lower_dispatch,
    [OP_RANK] = lower_rank,
    [OP_COMM_BEGIN] = lower_comm_launch,
    [OP_COMM_BARRIER] = lower_comm_launch,
    [OP_COMM_END] = lower_comm_launch,
    [OP_COMM_GATHER] = lower_comm_gather,
    [OP_COMM_SCATTER] = lower_comm_scatter,
    [OP_COMM_SIGNALS] = lower_comm_signals,
    [OP_COMM_CONTROL] = lower_comm_control,
    [OP_COMM_FENCE] = lower_comm_fence,
    [OP_SIGNAL_WAIT] = lower_signal_wait,
    [OP_SIGNAL_SET] = lower_signal_set,
    [OP_DESC] = lower_desc,
};

/// Lowerings that handle the gathered nest themselves.
static Lower *const joining[OP_COUNT] = {
    [OP_STORE] = lower_store,   [OP_ATOMIC] = lower_atomic, [OP_FOR] = lower_for,
    [OP_REDUCE] = lower_reduce, [OP_ALIGN] = lower_align,   [OP_DIM] = emit_simple,
    [OP_STRIDE] = emit_simple,
};

/// Whether the op needs a result of the gathered nest now: a scalar, or an element of a block.
static bool wants_pending(Emit *e, const Op *op) {
    bool scalar = op_is_lazy(op) && result(op, 0)->type->rank == 0;
    for (int i = 0; i < op->n_operands; i++) {
        const Value *v = operand(op, i);
        if (!ty_is_block(v->type)) continue;
        if (v->type->rank ? scalar : nest_defines(e, v)) return true;
    }
    return false;
}

/// Whether the op is one loop, or a few, that make a block. Some lowerings have own marks, after
/// the loops that keep their operands.
static bool makes_block(const Op *op) {
    switch (op->code) {
    case OP_SORT:
    case OP_SCAN:
    case OP_HISTOGRAM:
    case OP_GATHER: return false;
    default: break;
    }
    if (op->n_regions || !op->n_results) return false;
    const Type *t = result(op, 0)->type;
    return ty_is_block(t) && t->rank > 0;
}

static void emit_op(Emit *e, Op *op) {
    debug_at(e, op);
    if (wants_pending(e, op)) nest_flush(e);
    if (op_is_lazy(op)) {
        lower_lazy(e, op);
    } else if (joining[op->code]) {
        joining[op->code](e, op);
    } else if (alone[op->code]) {
        nest_flush(e);
        debug_at(e, op);
        if (makes_block(op)) code_mark(e, op, op_info[op->code].name);
        alone[op->code](e, op);
    } else {
        ice(e->ctx, op->loc, "the CPU back end has no %s", op_info[op->code].name);
    }
}

void emit_ops(Emit *e, Region *r) {
    for (Op *op = r->first; op && op->code != OP_YIELD; op = op->next) emit_op(e, op);
    nest_flush(e);
}
