// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations shared by the files of the verifier: its state, the helpers of rules, the rules.
#ifndef IR_VERIFY_VERIFY_H
#define IR_VERIFY_VERIFY_H

#include "ir/ir_private.h"

typedef struct Verifier {
    Ir *ir;
    Ctx *ctx;
    const Op *root;
    const Op *scope; // the innermost enclosing ISOLATED op, or root
    PtrMap visible;  // Value -> the scope where it is currently visible
    int failures;
} Verifier;

/// Reports that op is not as `expected` says; `found` describes the actual state.
void verify_fail(Verifier *v, const Op *op, const char *found, const char *expected, ...)
    __attribute__((format(printf, 4, 5)));

/// Checks the properties of op that its row cannot express. Counts, attributes and operands have
/// been checked already; the ops inside it have not.
typedef void VerifyRule(Verifier *v, const Op *op);
extern VerifyRule *const verify_rules[OP_COUNT];

/* ---- verify_words.c ------------------------------------------------------------------------ */
// Each helper checks one property, reports at most one violation, and returns whether the property
// holds. A rule is a chain of helpers that stops at the first failure. Messages count from 1,
// arguments from 0.

const char *number_text(Verifier *v, int64_t n);
/// Checks that the i-th `what` ("operand", "result" ...) has exactly this type.
bool want_type(Verifier *v, const Op *op, const char *what, int i, const Type *found,
               const Type *expected);
bool want_operand(Verifier *v, const Op *op, int i, const Type *expected);
bool want_result(Verifier *v, const Op *op, int i, const Type *expected);
/// Checks that operand i is an i64 scalar.
bool want_index(Verifier *v, const Op *op, int i);
/// Checks the kind of operand i: a block or a tensor.
bool want_kind(Verifier *v, const Op *op, int i, TypeKind kind);
bool want_block_result(Verifier *v, const Op *op);
/// Checks for at least n operands.
bool want_operands(Verifier *v, const Op *op, int n);
bool want_count(Verifier *v, const Op *op, const char *what, int64_t found, int64_t expected);
/// Checks lo <= n < hi; hi = INT64_MAX: no upper bound.
bool want_range(Verifier *v, const Op *op, const char *what, int64_t n, int64_t lo, int64_t hi);
/// Checks that the attribute `axis` is an axis of t.
bool want_axis(Verifier *v, const Op *op, const Type *t);
/// Checks that the attribute of an enum, if present, has one of the allowed values (bits 1 <<
/// value).
bool want_word(Verifier *v, const Op *op, AttrId id, unsigned allowed);
/// Checks the arguments of region r.
bool want_args(Verifier *v, const Op *op, int r, int n, const Type *const *types);
/// Checks that region 0 takes an i64.
bool want_index_arg(Verifier *v, const Op *op);
/// Checks the values that region r yields. Returns false without a message if the terminator is
/// missing.
bool want_yields(Verifier *v, const Op *op, int r, int n, const Type *const *types);
/// Checks that region 0 yields no values.
bool want_no_yields(Verifier *v, const Op *op);
/// Checks that region 0 touches no memory and has no effect, so that it may run for any lanes in
/// any order.
void want_pure_region(Verifier *v, const Op *op);

/// Returns the types of the results, with room for more at the end.
const Type **result_types(Verifier *v, const Op *op, int room);
/// Returns the n types twice in a row: the arguments of a function that joins two states.
const Type **types_twice(Verifier *v, int n, const Type *const *types);

/* ---- verify_blocks.c, verify_async.c, verify_tensors.c, verify_comm.c ---------------------- */

VerifyRule verify_const, verify_iota, verify_broadcast, verify_reshape, verify_permute,
    verify_slice, verify_concat, verify_cast, verify_bitcast, verify_select, verify_convert,
    verify_renew, verify_dot, verify_contract, verify_reduce, verify_scan, verify_sort,
    verify_histogram, verify_gather;
VerifyRule verify_desc, verify_buf_alloc, verify_buf_view, verify_buf_load, verify_buf_store,
    verify_buf_pad, verify_copy_async, verify_copy_tma, verify_copyout_tma, verify_mma_start,
    verify_settled, verify_blank, verify_await, verify_ring_make, verify_ring_acquire,
    verify_ring_commit, verify_take_tile, verify_ring_wait, verify_ring_release, verify_roles;
VerifyRule verify_workspace_limit, verify_align, verify_dim, verify_load, verify_live, verify_store,
    verify_atomic, verify_combine, verify_scratch;
VerifyRule verify_rank, verify_comm, verify_comm_gather, verify_comm_scatter, verify_comm_signals,
    verify_comm_control, verify_signal_wait, verify_signal_set;

#endif
