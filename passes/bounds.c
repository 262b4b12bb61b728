// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// bounds: proves that accesses stay inside their tensors, and records it.
//
//   for %k = 0 .. %K by 16 { %n = min(%K - %k, 16); load %x ..., %k, %n }
//   -> %n = 16; load %x ..., %k, 16 [inside = [..., 2]]      (if K = dim %x and K % 16 = 0)
//
// inside[d] = 1: in dimension d no live lane leaves the extent, so no lane needs a test. Value 2
// adds that the count is the whole size, so all lanes are live. Comparisons, min and max with a
// certain outcome become constants or operands, so masks of full tiles fold away.
#include "passes/passes.h"
#include "passes/range/range.h"
#include "passes/util.h"

typedef struct BoundsPass {
    PassEnv *env;
    Ranges *ranges;
} BoundsPass;

/* ---- certain outcomes ---------------------------------------------------------------------- */

/// Proves or refutes x < y. Returns false if neither succeeds.
static bool decide_less(Ranges *r, Linear x, Linear y, bool *out) {
    *out = prove_le(r, linear_add(x, linear_constant(1), 1), y);
    return *out || prove_le(r, y, x);
}

static bool decide_comparison(Ranges *r, const Op *op, bool *out) {
    Linear x = linear_exact(r, operand(op, 0)), y = linear_exact(r, operand(op, 1));
    bool known;
    switch (op->code) {
    case OP_LT: return decide_less(r, x, y, out);
    case OP_GT: return decide_less(r, y, x, out);
    case OP_GE: known = decide_less(r, x, y, out); break;
    case OP_LE: known = decide_less(r, y, x, out); break;
    case OP_EQ:
    case OP_NE:
        // Equal if each is at most the other; different if one is less.
        known = (decide_less(r, x, y, out) && *out) || (decide_less(r, y, x, out) && *out);
        *out = known == (op->code == OP_NE);
        return known || (prove_le(r, x, y) && prove_le(r, y, x));
    default: return false;
    }
    *out = !*out;
    return known;
}

/// Returns x if op is min(x, y) and x <= y is proved, likewise for max; else NULL.
static Value *certain_operand(Ranges *r, const Op *op) {
    Linear x = linear_exact(r, operand(op, 0)), y = linear_exact(r, operand(op, 1));
    bool min = op->code == OP_MIN;
    if (prove_le(r, x, y)) return operand(op, !min);
    return prove_le(r, y, x) ? operand(op, min) : NULL;
}

static void simplify_op(BoundsPass *b, Op *op) {
    Builder at = build_before(b->env->ir, op);
    bool truth;
    if (op->code == OP_MIN || op->code == OP_MAX) {
        Value *v = certain_operand(b->ranges, op);
        if (v) value_replace(result(op, 0), v);
    } else if (decide_comparison(b->ranges, op, &truth)) {
        value_replace(result(op, 0), build_bool(&at, result(op, 0)->type, truth));
    }
}

/* ---- accesses ------------------------------------------------------------------------------ */

/// Returns 0, 1 or 2 for dimension d, as in the attribute `in_bounds`. known: live lanes are
/// inside.
static int proved_inside(Ranges *r, const Op *op, const Access *a, int d, bool known) {
    const SubDim *sub = &a->subs[d];
    Linear zero = linear_constant(0), at = linear_of(r, sub_operand(op, a, d, 0));
    Linear end = linear_extent(r, a->tensor, d);
    if (sub->kind != DIM_AXIS) {
        Linear next = linear_add(at, linear_constant(1), 1);
        return prove_le(r, zero, at) && prove_le(r, next, end) ? 2 : 0;
    }
    // The last live lane, base + (count - 1) mul, must lie below the extent.
    Linear count = linear_exact(r, sub_operand(op, a, d, 1));
    Linear last = linear_add(linear_add(at, count, sub->mul), linear_constant(1 - sub->mul), 1);
    bool inside = known || (prove_le(r, zero, at) && prove_le(r, last, end));
    return !inside ? 0 : prove_le(r, linear_constant(sub->size), count) ? 2 : 1;
}

static void annotate_inside(BoundsPass *b, Op *op) {
    Access a = access_of(op);
    const Attr *before =
        op_ints(op, A_IN_BOUNDS); // earlier proofs stay true, even if ops have moved
    int64_t inside[MAX_RANK];
    bool any = false, all = true;
    for (int d = 0; d < a.n_subs; d++) {
        inside[d] = before ? (int)before->ints[d] : 0;
        if (inside[d] < 2) inside[d] = proved_inside(b->ranges, op, &a, d, inside[d] > 0);
        any |= inside[d] != 0;
        all &= inside[d] == 2;
    }
    if (op->code != OP_LIVE) {
        op_set_ints(b->env->ir, op, A_IN_BOUNDS, any ? inside : NULL, a.n_subs);
    } else if (all && !a.mask) {
        Builder at = build_before(b->env->ir, op);
        value_replace(result(op, 0), build_bool(&at, result(op, 0)->type, true));
    }
}

static bool is_comparison(const Op *op) {
    return op_has(op, COMPARES) && op->n_operands == 2 && operand(op, 0)->type->elem == EL_I64;
}

static void visit_bounded_op(BoundsPass *b, Op *op, bool accesses) {
    bool choice = (op->code == OP_MIN || op->code == OP_MAX) && result(op, 0)->type->elem == EL_I64;
    bool access = op->code == OP_LOAD || op->code == OP_STORE || op->code == OP_LIVE;
    if (!(accesses ? access : choice || is_comparison(op))) return;
    ranges_at(b->ranges, op);
    if (access)
        annotate_inside(b, op);
    else if (value_has_uses(result(op, 0)))
        simplify_op(b, op);
}

/// Visits programs only: the conditions of `require` stand on the host, and must not be judged by
/// the facts that they state. accesses: annotates accesses; else simplifies the values that they
/// use.
static void visit_bounded_region(BoundsPass *b, Region *region, bool in_program, bool accesses) {
    for_each_op_safe(op, region) {
        if (in_program) visit_bounded_op(b, op, accesses);
        bool inner = in_program || op->code == OP_PARALLEL || op->code == OP_LAUNCH;
        for (int i = 0; i < op->n_regions && !op_has(op, PURE); i++)
            visit_bounded_region(b, op->regions[i], inner, accesses);
    }
}

void pass_bounds(PassEnv *env, Op *module) {
    for_each_kernel(k, module) {
        BoundsPass b = {env, ranges_of(env->ir, k)};
        visit_bounded_region(&b, k->regions[0], false, false);
        visit_bounded_region(&b, k->regions[0], false, true);
    }
    pass_dce(env, module);
}
