// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier's rules for several ranks: launches, transfers, signals.
#include "ir/verify/verify.h"

/// Checks that the kernel has symmetric parameters, which make its launch collective.
static bool in_sym_kernel(Verifier *v, const Op *op) {
    const Op *kernel = op_enclosing(op, OP_KERNEL);
    bool ok = !kernel || op_ints(kernel, A_SYMMETRIC_PARAMS);
    if (!ok) verify_fail(v, op, "none", "a kernel with symmetric parameters around it");
    return ok;
}

void verify_comm(Verifier *v, const Op *op) {
    in_sym_kernel(v, op);
}

void verify_rank(Verifier *v, const Op *op) {
    if (in_sym_kernel(v, op)) want_result(v, op, 0, ty_scalar(v->ir, EL_I64));
}

/// Checks for a tensor of i64 of that rank; rank < 0: any rank from 1 on.
static bool are_words(Verifier *v, const Op *op, const char *what, const Type *t, int rank) {
    bool ok =
        t->kind == TK_TENSOR && t->elem == EL_I64 && (rank < 0 ? t->rank > 0 : t->rank == rank);
    if (!ok && rank < 0)
        verify_fail(v, op, type_text(v->ctx, t), "%s to be a tensor of i64", what);
    else if (!ok)
        verify_fail(v, op, type_text(v->ctx, t), "%s to be a tensor of i64 of rank %d", what, rank);
    return ok;
}

static bool says_how(Verifier *v, const Op *op, bool pulls) {
    unsigned pushes = 1u << TRANSFER_BEFORE | 1u << TRANSFER_PUSH | 1u << TRANSFER_BEHIND;
    return want_word(v, op, ATTR_PLAN, pulls ? ~(1u << TRANSFER_BEHIND) : pushes);
}

/// The gathered view is the same tensor at another address, so strides may differ.
void verify_comm_gather(Verifier *v, const Op *op) {
    if (!in_sym_kernel(v, op) || !says_how(v, op, true) || !want_kind(v, op, 0, TK_TENSOR) ||
        !want_index(v, op, 1))
        return;
    const Type *t = operand(op, 0)->type, *view = result(op, 0)->type;
    if (t->rank < 2)
        verify_fail(v, op, type_text(v->ctx, t), "a symmetric tensor with rows");
    else if (view->kind != TK_TENSOR || view->elem != t->elem || view->rank != t->rank)
        verify_fail(v, op, type_text(v->ctx, view), "a view like %s", type_text(v->ctx, t));
    else
        are_words(v, op, "the flags", result(op, 1)->type, 2);
}

void verify_comm_scatter(Verifier *v, const Op *op) {
    if (!in_sym_kernel(v, op) || !says_how(v, op, false) || !want_kind(v, op, 0, TK_TENSOR) ||
        !want_kind(v, op, 1, TK_TENSOR))
        return;
    bool behind = op_transfer(op) == TRANSFER_BEHIND;
    if (!(behind ? want_index(v, op, 2)
                 : are_words(v, op, "what is done", operand(op, 2)->type, 2)) ||
        !are_words(v, op, "the flags", operand(op, 3)->type, 3) || !want_index(v, op, 4))
        return;
    const Type *local = operand(op, 0)->type, *stage = operand(op, 1)->type;
    if (local->rank < 2 || stage->elem != local->elem || stage->rank != local->rank + 1)
        verify_fail(v, op, type_text(v->ctx, stage),
                    "a stage of one dimension more than %s, which has rows",
                    type_text(v->ctx, local));
}

void verify_comm_signals(Verifier *v, const Op *op) {
    if (!in_sym_kernel(v, op) ||
        !are_words(v, op, "the result", result(op, 0)->type, op->n_operands + 1))
        return;
    for (int i = 0; i < op->n_operands; i++) want_index(v, op, i);
}

void verify_comm_control(Verifier *v, const Op *op) {
    if (in_sym_kernel(v, op)) are_words(v, op, "the result", result(op, 0)->type, 1);
}

/// Checks that operand 0 holds words. From `first` on, the operands are one coordinate for each of
/// its dimensions; from `numbers` on, all are indices.
static bool names_word(Verifier *v, const Op *op, int numbers, int first) {
    if (!want_operands(v, op, first) || !are_words(v, op, "operand 1", operand(op, 0)->type, -1) ||
        !want_count(v, op, "coordinates", op->n_operands - first, operand(op, 0)->type->rank))
        return false;
    for (int i = numbers; i < op->n_operands; i++)
        if (!want_index(v, op, i)) return false;
    return true;
}

void verify_signal_wait(Verifier *v, const Op *op) {
    if (names_word(v, op, 2, 4)) are_words(v, op, "the control block", operand(op, 1)->type, 1);
}

void verify_signal_set(Verifier *v, const Op *op) {
    if (names_word(v, op, 1, 2)) want_word(v, op, ATTR_OP, 1u << UPDATE_SET | 1u << UPDATE_ADD);
}
