// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The helpers of the verifier's rules. Each checks one property and reports its violation.
#include "ir/verify/verify.h"

const char *number_text(Verifier *v, int64_t n) {
    return ctx_format(v->ctx, "%lld", (long long)n);
}

/// Rules that build a type from extents accept any layout of the block.
bool want_type(Verifier *v, const Op *op, const char *what, int i, const Type *found,
               const Type *expected) {
    bool ok = found == expected || (!expected->layout && ty_plain(v->ir, found) == expected);
    if (!ok)
        verify_fail(v, op, type_text(v->ctx, found), "%s %d to be %s", what, i + 1,
                    type_text(v->ctx, expected));
    return ok;
}

bool want_operand(Verifier *v, const Op *op, int i, const Type *expected) {
    return want_type(v, op, "operand", i, operand(op, i)->type, expected);
}

bool want_result(Verifier *v, const Op *op, int i, const Type *expected) {
    return want_type(v, op, "result", i, result(op, i)->type, expected);
}

bool want_index(Verifier *v, const Op *op, int i) {
    return want_operand(v, op, i, ty_scalar(v->ir, EL_I64));
}

bool want_kind(Verifier *v, const Op *op, int i, TypeKind kind) {
    static const char *const names[] = {"block", "tensor", "buf", "ring", "pending block", "desc"};
    const Type *t = operand(op, i)->type;
    if (t->kind != kind)
        verify_fail(v, op, type_text(v->ctx, t), "operand %d to be a %s", i + 1, names[kind]);
    return t->kind == kind;
}

bool want_block_result(Verifier *v, const Op *op) {
    const Type *t = result(op, 0)->type;
    if (!ty_is_block(t)) verify_fail(v, op, type_text(v->ctx, t), "a block result");
    return ty_is_block(t);
}

bool want_operands(Verifier *v, const Op *op, int n) {
    if (op->n_operands < n)
        verify_fail(v, op, number_text(v, op->n_operands), "at least %d operand%s", n,
                    n == 1 ? "" : "s");
    return op->n_operands >= n;
}

bool want_count(Verifier *v, const Op *op, const char *what, int64_t found, int64_t expected) {
    if (found != expected)
        verify_fail(v, op, number_text(v, found), "the number of %s to be %lld", what,
                    (long long)expected);
    return found == expected;
}

/// lo <= n < hi.
bool want_range(Verifier *v, const Op *op, const char *what, int64_t n, int64_t lo, int64_t hi) {
    bool ok = n >= lo && n < hi;
    if (!ok && hi == INT64_MAX)
        verify_fail(v, op, number_text(v, n), "%s of at least %lld", what, (long long)lo);
    else if (!ok)
        verify_fail(v, op, number_text(v, n), "%s from %lld to %lld", what, (long long)lo,
                    (long long)hi - 1);
    return ok;
}

bool want_axis(Verifier *v, const Op *op, const Type *t) {
    return want_range(v, op, "axis", op_int(op, A_AXIS, 0), 0, t->rank);
}

bool want_word(Verifier *v, const Op *op, AttrId id, unsigned allowed) {
    const Attr *a = op_attr(op, id);
    const AttrInfo *info = &attr_info[id];
    int value = a ? attr_value_of(id, a->str) : 0;
    if (!a || (value && allowed >> value & 1)) return true;
    Text all = {.ctx = v->ctx};
    for (int i = 0; info->words[i]; i++)
        if (allowed >> (i + 1) & 1) text_add(&all, "%s%s", all.n ? ", " : "", info->words[i]);
    verify_fail(v, op, a->str, "%s to be one of %s", info->name, all.data);
    return false;
}

/// Checks the arguments of region r.
bool want_args(Verifier *v, const Op *op, int r, int n, const Type *const *types) {
    const Region *region = op->regions[r];
    bool ok = want_count(v, op, "region arguments", region->n_args, n);
    for (int i = 0; ok && i < n; i++)
        ok = want_type(v, op, "region argument", i, region->args[i]->type, types[i]);
    return ok;
}

/// Checks the values that region r yields. Another check reports a missing terminator.
bool want_yields(Verifier *v, const Op *op, int r, int n, const Type *const *types) {
    const Op *end = terminator(op->regions[r]);
    if (!end || end->code != OP_YIELD) return false;
    bool ok = want_count(v, op, "yielded values", end->n_operands, n);
    for (int i = 0; ok && i < n; i++)
        ok = want_type(v, op, "yielded value", i, operand(end, i)->type, types[i]);
    return ok;
}

bool want_no_yields(Verifier *v, const Op *op) {
    return want_yields(v, op, 0, 0, NULL);
}

bool want_index_arg(Verifier *v, const Op *op) {
    return want_args(v, op, 0, 1, (const Type *[]){ty_scalar(v->ir, EL_I64)});
}

const Type **result_types(Verifier *v, const Op *op, int room) {
    const Type **types = ctx_array(v->ctx, const Type *, op->n_results + room);
    for (int i = 0; i < op->n_results; i++) types[i] = result(op, i)->type;
    return types;
}

/// Returns the n types twice in a row: the arguments of a function that joins two states.
const Type **types_twice(Verifier *v, int n, const Type *const *types) {
    const Type **both = ctx_array(v->ctx, const Type *, 2 * n);
    for (int i = 0; i < 2 * n; i++) both[i] = types[i % n];
    return both;
}

typedef struct Seek {
    Verifier *v;
    const Op *outer;
} Seek;

static void refuse_effects(Op *op, void *arg) {
    Seek *s = arg;
    bool plain = op->n_regions > 0 || op_has(op, PURE) || op_has(op, TERMINATOR);
    if (!plain) verify_fail(s->v, s->outer, op_info[op->code].name, "pure ops in its region");
}

void want_pure_region(Verifier *v, const Op *op) {
    Seek s = {v, op};
    for_each_op(inner, op->regions[0]) op_walk_pre(inner, refuse_effects, &s);
}
