// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of rules for single ops, and the rules for structure and effects.
#include "ir/verify/verify.h"

#include <string.h>

/* ---- structure ----------------------------------------------------------------------------- */

/// Checks that kernels, funcs and devices have unique names, since they are found by name.
static void verify_module(Verifier *v, const Op *op) {
    PtrMap seen[3] = {{0}};
    for_each_op(inner, op->regions[0]) {
        const char *name = op_str(inner, A_NAME);
        PtrMap *names = &seen[inner->code == OP_FUNC ? 1 : inner->code == OP_DEVICE ? 2 : 0];
        if (!name) continue;
        if (map_get(names, name)) verify_fail(v, inner, name, "a name of its own");
        map_set(v->ctx, names, name, inner);
    }
}

/// Checks that the parameters can come from the host: memory and scalars.
static void want_memory_args(Verifier *v, const Op *op) {
    const Region *r = op->regions[0];
    for (int i = 0; i < r->n_args; i++)
        if (ty_is_block(r->args[i]->type) && r->args[i]->type->rank)
            verify_fail(v, op, type_text(v->ctx, r->args[i]->type),
                        "parameter %d to be a tensor or a scalar", i + 1);
}

/// Checks that `symmetric_params` is in ascending order, and that each entry is a tensor with a
/// dimension for the rank.
static void want_sym_args(Verifier *v, const Op *op) {
    const Attr *sym = op_ints(op, A_SYMMETRIC_PARAMS);
    const Region *r = op->regions[0];
    int64_t least = 0;
    for (int i = 0; sym && i < sym->n; i++) {
        int64_t at = sym->ints[i];
        if (!want_range(v, op, "symmetric parameter", at, least, r->n_args)) return;
        const Type *t = r->args[at]->type;
        if (t->kind != TK_TENSOR || t->rank == 0)
            verify_fail(v, op, type_text(v->ctx, t),
                        "symmetric parameter %lld to be a tensor with a dimension for the rank",
                        (long long)at);
        least = at + 1;
    }
}

static void verify_kernel(Verifier *v, const Op *op) {
    want_memory_args(v, op);
    want_sym_args(v, op);
    want_no_yields(v, op);
}

/// Checks that a func takes scalars, returns one scalar and touches nothing else, so it can be
/// inlined on blocks of any shape.
static void verify_func(Verifier *v, const Op *op) {
    const Region *r = op->regions[0];
    for (int i = 0; i < r->n_args; i++)
        if (!ty_is_scalar(r->args[i]->type))
            verify_fail(v, op, type_text(v->ctx, r->args[i]->type), "argument %d to be a scalar",
                        i + 1);
    const Op *end = terminator(r);
    if (end && want_count(v, op, "yielded values", end->n_operands, 1) &&
        !ty_is_scalar(operand(end, 0)->type))
        verify_fail(v, op, type_text(v->ctx, operand(end, 0)->type), "to yield a scalar");
    want_pure_region(v, op);
}

/// Whether an argument may be passed to a parameter. Either side may know more extents and strides;
/// `require` compares them at launch.
static bool may_pass(const Type *arg, const Type *param) {
    if (arg->kind == TK_TENSOR && param->kind == TK_TENSOR)
        return arg->elem == param->elem && arg->rank == param->rank;
    return arg == param;
}

static void verify_call(Verifier *v, const Op *op) {
    const Op *module = op_enclosing(op, OP_MODULE);
    if (!module) return;
    const Op *callee = find_kernel(module, op_str(op, A_CALLEE));
    if (!callee) {
        verify_fail(v, op, op_str(op, A_CALLEE), "a kernel of this module");
        return;
    }
    const Region *r = callee->regions[0];
    if (!want_count(v, op, "arguments", op->n_operands, r->n_args)) return;
    for (int i = 0; i < r->n_args; i++)
        if (!may_pass(operand(op, i)->type, r->args[i]->type))
            verify_fail(v, op, type_text(v->ctx, operand(op, i)->type), "argument %d to be %s",
                        i + 1, type_text(v->ctx, r->args[i]->type));
}

/// A nested grid must end the op directly around it; the ops in front of it compute its bounds.
static bool nests_perfectly(Verifier *v, const Op *op) {
    const Op *outer = op->parent ? op->parent->parent : NULL;
    if (op_enclosing(op, OP_LAUNCH)) {
        verify_fail(v, op, "launch", "no program around it");
        return false;
    }
    if (!op_enclosing(op, OP_PARALLEL)) return true;
    if (outer->code != OP_PARALLEL)
        verify_fail(v, op, op_info[outer->code].name, "the outer parallel directly around it");
    else if (op->next && !op_has(op->next, TERMINATOR))
        verify_fail(v, op, op_info[op->next->code].name, "yield after it in the outer parallel");
    else
        return true;
    return false;
}

static void verify_parallel(Verifier *v, const Op *op) {
    if (nests_perfectly(v, op) && want_index(v, op, 0) && want_index(v, op, 1) &&
        want_range(v, op, "step", op_int(op, A_STEP, 0), 0, INT64_MAX) && want_index_arg(v, op))
        want_no_yields(v, op);
}

static void verify_launch(Verifier *v, const Op *op) {
    if (want_index(v, op, 0) && want_index_arg(v, op)) want_no_yields(v, op);
}

/// The arguments are the program's number, then the host's arguments.
static void verify_device(Verifier *v, const Op *op) {
    const Region *r = op->regions[0];
    if (!want_range(v, op, "warps", op_int(op, A_WARPS, 0), 1, 33) ||
        !want_range(v, op, "region arguments", r->n_args, 1, INT64_MAX) ||
        !want_type(v, op, "region argument", 0, r->args[0]->type, ty_scalar(v->ir, EL_I64)))
        return;
    want_memory_args(v, op);
    want_no_yields(v, op);
}

static void verify_dispatch(Verifier *v, const Op *op) {
    const Op *module = op_enclosing(op, OP_MODULE);
    if (!want_operands(v, op, 1) || !want_index(v, op, 0) || !module) return;
    const Op *device = find_device(module, op_str(op, A_DEVICE));
    if (!device) {
        verify_fail(v, op, op_str(op, A_DEVICE), "a device of this module");
        return;
    }
    const Region *r = device->regions[0];
    if (want_count(v, op, "arguments", op->n_operands, r->n_args))
        for (int i = 1; i < r->n_args; i++) want_operand(v, op, i, r->args[i]->type);
}

/// Checks that the values carried between iterations are blocks, ready or pending.
static bool carries_blocks(Verifier *v, const Op *op) {
    for (int i = 0; i < op->n_results; i++)
        if (!ty_is_block(result(op, i)->type) && !ty_promised(result(op, i)->type)) {
            verify_fail(v, op, type_text(v->ctx, result(op, i)->type), "result %d to be a block",
                        i + 1);
            return false;
        }
    return true;
}

/// Checks that operands from `first` on have the types of the results.
static bool inits_match(Verifier *v, const Op *op, int first) {
    if (!want_count(v, op, "initial values", op->n_operands - first, op->n_results)) return false;
    for (int i = 0; i < op->n_results; i++)
        if (!want_operand(v, op, first + i, result(op, i)->type)) return false;
    return carries_blocks(v, op);
}

/// The region takes the induction variable and the carried values, and yields the carried values.
static void verify_for(Verifier *v, const Op *op) {
    if (!want_range(v, op, "regions", op->n_regions, 1, 3) || !want_operands(v, op, 2) ||
        !want_index(v, op, 0) || !want_index(v, op, 1) || !inits_match(v, op, 2) ||
        !want_range(v, op, "step", op_int(op, A_STEP, 0), 1, INT64_MAX))
        return;
    int n = op->n_results;
    const Type **types = result_types(v, op, 1);
    memmove(types + 1, types, (size_t)n * sizeof *types);
    types[0] = ty_scalar(v->ir, EL_I64);
    if (!want_args(v, op, 0, n + 1, types) || !want_yields(v, op, 0, n, types + 1) ||
        op->n_regions == 1)
        return;
    if (want_args(v, op, 1, 2 * n, types_twice(v, n, types + 1)))
        want_yields(v, op, 1, n, types + 1);
}

static void verify_while(Verifier *v, const Op *op) {
    int n = op->n_results;
    const Type **types = result_types(v, op, 0);
    if (inits_match(v, op, 0) && want_args(v, op, 0, n, types) &&
        want_yields(v, op, 0, 1, (const Type *[]){ty_scalar(v->ir, EL_BOOL)}) &&
        want_args(v, op, 1, n, types))
        want_yields(v, op, 1, n, types);
}

static void verify_if(Verifier *v, const Op *op) {
    const Type **types = result_types(v, op, 0);
    if (!want_operand(v, op, 0, ty_scalar(v->ir, EL_BOOL)) || !carries_blocks(v, op)) return;
    for (int r = 0; r < 2; r++)
        if (!want_args(v, op, r, 0, NULL) || !want_yields(v, op, r, op->n_results, types)) return;
}

/* ---- effects ------------------------------------------------------------------------------- */

/// Checks that the text has a {} for each operand from `first` on, so that every value is shown.
static void shows_values(Verifier *v, const Op *op, int first) {
    int places = 0;
    for (const char *s = op_str(op, A_TEXT); (s = strstr(s, "{}")); s += 2) places++;
    if (places < op->n_operands - first)
        verify_fail(v, op, number_text(v, places), "%d {} in text", op->n_operands - first);
    for (int i = first; i < op->n_operands; i++) want_kind(v, op, i, TK_BLOCK);
}

static void verify_require(Verifier *v, const Op *op) {
    if (want_operands(v, op, 1) && want_operand(v, op, 0, ty_scalar(v->ir, EL_BOOL)))
        shows_values(v, op, 1);
}

static void verify_assert(Verifier *v, const Op *op) {
    if (!want_operands(v, op, 1) || !want_kind(v, op, 0, TK_BLOCK)) return;
    const Type *t = operand(op, 0)->type;
    if (want_operand(v, op, 0, ty_with_elem(v->ir, t, EL_BOOL))) shows_values(v, op, 1);
}

static void verify_print(Verifier *v, const Op *op) {
    shows_values(v, op, 0);
}

/* ---- all ---------------------------------------------------------------------------------- */

// Elementwise ops and yield have no rule: their rows cover them.
VerifyRule *const verify_rules[OP_COUNT] = {
    [OP_MODULE] = verify_module,
    [OP_KERNEL] = verify_kernel,
    [OP_FUNC] = verify_func,
    [OP_CALL] = verify_call,
    [OP_PARALLEL] = verify_parallel,
    [OP_FOR] = verify_for,
    [OP_WHILE] = verify_while,
    [OP_IF] = verify_if,
    [OP_CONST] = verify_const,
    [OP_IOTA] = verify_iota,
    [OP_BROADCAST] = verify_broadcast,
    [OP_RESHAPE] = verify_reshape,
    [OP_PERMUTE] = verify_permute,
    [OP_SLICE] = verify_slice,
    [OP_CONCAT] = verify_concat,
    [OP_CAST] = verify_cast,
    [OP_BITCAST] = verify_bitcast,
    [OP_SELECT] = verify_select,
    [OP_DOT] = verify_dot,
    [OP_REDUCE] = verify_reduce,
    [OP_SCAN] = verify_scan,
    [OP_SORT] = verify_sort,
    [OP_HISTOGRAM] = verify_histogram,
    [OP_GATHER] = verify_gather,
    [OP_DIM] = verify_dim,
    [OP_STRIDE] = verify_dim,
    [OP_ALIGN] = verify_align,
    [OP_LOAD] = verify_load,
    [OP_LIVE] = verify_live,
    [OP_STORE] = verify_store,
    [OP_ATOMIC] = verify_atomic,
    [OP_COMBINE] = verify_combine,
    [OP_SCRATCH] = verify_scratch,
    [OP_WORKSPACE_LIMIT] = verify_workspace_limit,
    [OP_REQUIRE] = verify_require,
    [OP_ASSERT] = verify_assert,
    [OP_PRINT] = verify_print,
    [OP_RANK] = verify_rank,
    [OP_COMM_BEGIN] = verify_comm,
    [OP_COMM_BARRIER] = verify_comm,
    [OP_COMM_END] = verify_comm,
    [OP_COMM_GATHER] = verify_comm_gather,
    [OP_COMM_SCATTER] = verify_comm_scatter,
    [OP_COMM_SIGNALS] = verify_comm_signals,
    [OP_COMM_CONTROL] = verify_comm_control,
    [OP_SIGNAL_WAIT] = verify_signal_wait,
    [OP_SIGNAL_SET] = verify_signal_set,
    [OP_LAUNCH] = verify_launch,
    [OP_DEVICE] = verify_device,
    [OP_DISPATCH] = verify_dispatch,
    [OP_CONVERT] = verify_convert,
    [OP_RENEW] = verify_renew,
    [OP_CONTRACT] = verify_contract,
    [OP_DESC] = verify_desc,
    [OP_BUF_ALLOC] = verify_buf_alloc,
    [OP_BUF_VIEW] = verify_buf_view,
    [OP_BUF_LOAD] = verify_buf_load,
    [OP_BUF_STORE] = verify_buf_store,
    [OP_BUF_PAD] = verify_buf_pad,
    [OP_COPY_ASYNC] = verify_copy_async,
    [OP_COPY_TMA] = verify_copy_tma,
    [OP_COPYOUT_TMA] = verify_copyout_tma,
    [OP_MMA_START] = verify_mma_start,
    [OP_SETTLED] = verify_settled,
    [OP_BLANK] = verify_blank,
    [OP_AWAIT] = verify_await,
    [OP_RING_MAKE] = verify_ring_make,
    [OP_RING_ACQUIRE] = verify_ring_acquire,
    [OP_RING_COMMIT] = verify_ring_commit,
    [OP_TAKE_TILE] = verify_take_tile,
    [OP_RING_WAIT] = verify_ring_wait,
    [OP_RING_RELEASE] = verify_ring_release,
    [OP_ROLES] = verify_roles,
};
