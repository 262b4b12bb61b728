// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// canonicalize: brings every op to its simplest form, by folding (ir/fold.c), by the rules of
// canonical_arithmetic.c and canonical_shapes.c, and by the rules on control flow in this file:
//
//   for with 0 or 1 iterations, if of a constant, carried values that never change -> straight code
//   add(dot(a, b), c) -> dot(a, b, c)
#include "passes/canonical.h"
#include "passes/passes.h"
#include "passes/util.h"

#include <string.h>

/* ---- helpers ------------------------------------------------------------------------------- */

void replace_result(Rewriter *rw, Value *old, Value *with) {
    for_each_use(u, old) rewrite_touch(rw, u->user);
    value_replace(old, with);
}

/// Replaces the results by `values` and erases op, whose regions may be empty by now.
static bool replace_op(Rewriter *rw, Op *op, Value *const *values) {
    for (int i = 0; i < op->n_results; i++) replace_result(rw, result(op, i), values[i]);
    rewrite_erase(rw, op);
    return true;
}

/// Replaces op by the body of its region r.
static bool inline_region(Rewriter *rw, Op *op, int r, Value *const *args) {
    Region *region = op->regions[r];
    Value **yields = ctx_array(ir_ctx(rw->ir), Value *, op->n_results + 1);
    for (int i = 0; i < region->n_args; i++)
        for_each_use(u, region->args[i]) rewrite_touch(rw, u->user);
    splice_before(op, region, args, yields);
    return replace_op(rw, op, yields);
}

/* ---- loops --------------------------------------------------------------------------------- */

/// Whether yield i passes its value on unchanged: the argument, or the initial value itself. Then
/// the carried value is always the initial one.
static bool carries_nothing_new(const Op *loop, int i) {
    Value *init = operand(loop, loop_first_init(loop) + i);
    Value *arg = loop_arg(loop, loop->n_regions > 1 && loop->code == OP_WHILE, i);
    Value *next = operand(terminator(arg->region), i);
    if (next == arg || next == init) return true;
    const Attr *a = const_of(init), *b = const_of(next);
    return a && a == b && init->type == next->type;
}

// for (x = a) { yield x } = a
static bool invariant_carried(Rewriter *rw, Op *op) {
    bool changed = false;
    int first = loop_first_init(op);
    for (int i = 0; i < op->n_results; i++) {
        Value *init = operand(op, first + i);
        if (!carries_nothing_new(op, i)) continue;
        Value *seen[] = {result(op, i), loop_arg(op, 0, i),
                         op->code == OP_WHILE ? loop_arg(op, 1, i) : NULL};
        for (int s = 0; s < 3; s++)
            if (seen[s] && value_has_uses(seen[s])) {
                // If the yield is the argument's only use, it gets the initial value as well.
                replace_result(rw, seen[s], init);
                changed = true;
            }
    }
    return changed;
}

// for i in lo .. hi with hi <= lo: its initial values; with hi <= lo + step: its body
static bool few_trips(Rewriter *rw, Op *op) {
    int64_t lo, hi, step = op_int(op, A_STEP, 1);
    Ctx *ctx = ir_ctx(rw->ir);
    bool known = const_int(operand(op, 0), &lo) && const_int(operand(op, 1), &hi);
    bool empty = operand(op, 0) == operand(op, 1) || (known && lo >= hi);
    if (!empty && !(known && (uint64_t)hi - (uint64_t)lo <= (uint64_t)step)) return false;
    Value **in = ctx_array(ctx, Value *, op->n_results + 1);
    in[0] = operand(op, 0);
    for (int i = 0; i < op->n_results; i++) in[i + 1] = operand(op, i + 2);
    return empty ? replace_op(rw, op, in + 1) : inline_region(rw, op, 0, in);
}

// while false = its initial values
static bool while_false(Rewriter *rw, Op *op) {
    Value *go = operand(terminator(op->regions[0]), 0);
    if (!is_false(go)) return false;
    Ctx *ctx = ir_ctx(rw->ir);
    Value **inits = ctx_array(ctx, Value *, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) inits[i] = operand(op, i);
    // The condition may have effects; they happen once.
    for (int i = 0; i < op->n_results; i++) replace_result(rw, loop_arg(op, 0, i), inits[i]);
    Op *end = terminator(op->regions[0]);
    for_each_op_safe(inner, op->regions[0]) {
        if (inner != end) op_move_before(inner, op);
    }
    return replace_op(rw, op, inits);
}

/* ---- if ------------------------------------------------------------------------------------ */

// if true { a } else { b } = a
static bool constant_if(Rewriter *rw, Op *op) {
    if (is_true(operand(op, 0))) return inline_region(rw, op, 0, NULL);
    return is_false(operand(op, 0)) && inline_region(rw, op, 1, NULL);
}

static bool is_outside_op(const Value *v, const Op *op) {
    return !value_is_inside(v, op);
}

/// Returns result i of an `if` without a branch, or NULL.
static Value *if_result(Rewriter *rw, Op *op, int i) {
    Value *x = operand(terminator(op->regions[0]), i), *y = operand(terminator(op->regions[1]), i);
    const Attr *a = const_of(x), *b = const_of(y);
    if (x == y && is_outside_op(x, op)) return x;
    if (a && a == b) return build_const(&rw->at, x->type, a);
    if (is_true(x) && is_false(y)) return build_broadcast(&rw->at, operand(op, 0), x->type);
    // Values from outside are selected without a branch; blocks only if the branch is empty, too.
    bool empty = op->regions[0]->first == terminator(op->regions[0]) &&
                 op->regions[1]->first == terminator(op->regions[1]);
    bool ready = (is_outside_op(x, op) || a) && (is_outside_op(y, op) || b);
    if (!ready || x->type->kind != TK_BLOCK || (!empty && !ty_is_scalar(x->type))) return NULL;
    Value *c = operand(op, 0);
    Value *wide = build_broadcast(&rw->at, c, ty_with_elem(rw->ir, x->type, EL_BOOL));
    x = a ? build_const(&rw->at, x->type, a) : x;
    y = b ? build_const(&rw->at, y->type, b) : y;
    return build_select(&rw->at, wide, x, y);
}

// if c { yield x } else { yield y } = select(c, x, y), for values from outside
static bool simple_if_results(Rewriter *rw, Op *op) {
    bool changed = false;
    for (int i = 0; i < op->n_results; i++) {
        Value *v = value_has_uses(result(op, i)) ? if_result(rw, op, i) : NULL;
        if (v) replace_result(rw, result(op, i), v);
        changed |= v != NULL;
    }
    return changed;
}

/// After a change of a yielded value, the parent op may simplify.
static bool parent_of_yield(Rewriter *rw, Op *yield) {
    Op *op = yield->parent->parent;
    rw->at = build_before(rw->ir, op);
    return op_is_loop(op) ? invariant_carried(rw, op)
                          : op->code == OP_IF && simple_if_results(rw, op);
}

/* ---- programs ------------------------------------------------------------------------------ */

// parallel i in lo .. hi with hi <= lo = nothing
static bool empty_parallel(Rewriter *rw, Op *op) {
    int64_t lo, hi;
    if (op_int(op, A_STEP, 1) == 0 || !const_int(operand(op, 0), &lo) ||
        !const_int(operand(op, 1), &hi) || lo < hi)
        return false;
    rewrite_erase(rw, op);
    return true;
}

/* ---- dot ----------------------------------------------------------------------------------- */

// dot(a, b) + c = dot(a, b, c)
static bool add_to_dot(Rewriter *rw, Op *op) {
    for (int side = 0; side < 2; side++) {
        Op *dot = def_of(operand(op, side), OP_DOT);
        Value *c = operand(op, !side);
        if (!dot || dot->n_operands != 2 || !value_has_one_use(result(dot, 0)) ||
            dot->parent != op->parent)
            continue;
        Value *in[] = {operand(dot, 0), operand(dot, 1), c};
        Op *sum = build_op(&rw->at, OP_DOT, 3, in, 1, &c->type, 0);
        op_copy_attr(rw->ir, sum, dot, ATTR_PRECISION);
        sum->loc = dot->loc;
        rewrite_to(rw, op, result(sum, 0));
        return true;
    }
    return false;
}

// dot(a, b, 0) = dot(a, b)
static bool dot_of_zero(Rewriter *rw, Op *op) {
    const Attr *c = op->n_operands == 3 ? const_of(operand(op, 2)) : NULL;
    // -0 + x is x for every x. 0 + x differs only for x = -0, which a sum that starts at 0 never
    // is.
    if (!c || (c->kind == AT_FLOAT ? c->f != 0 : c->i != 0)) return false;
    op_set_operands(rw->ir, op, 2, (Value *[]){operand(op, 0), operand(op, 1)});
    return true;
}

/* ---- the pass ------------------------------------------------------------------------------ */

static const Rule rules[] = {
    {OP_FOR, few_trips, "for i in lo .. lo + step { f(i) } = f(lo)"},
    {OP_FOR, invariant_carried, "for (x = a) { yield x } = a"},
    {OP_WHILE, while_false, "while false { } = nothing"},
    {OP_WHILE, invariant_carried, "while (x = a) { yield x } = a"},
    {OP_IF, constant_if, "if true { a } else { b } = a"},
    {OP_IF, simple_if_results, "if c { yield x } else { yield y } = select(c, x, y)"},
    {OP_YIELD, parent_of_yield, "the rules of for, while and if results"},
    {OP_PARALLEL, empty_parallel, "parallel i in lo .. lo { } = nothing"},
    {OP_ADD, add_to_dot, "dot(a, b) + c = dot(a, b, c)"},
    {OP_DOT, dot_of_zero, "dot(a, b, 0) = dot(a, b)"},
};
const RuleTable control_rules = RULE_TABLE("canonicalize", Rule, rules);

void pass_canonicalize(PassEnv *env, Op *module) {
    const RuleTable *tables[] = {&control_rules, &shape_rules, &arithmetic_rules};
    Rule *all =
        ctx_array(ir_ctx(env->ir), Rule, control_rules.n + shape_rules.n + arithmetic_rules.n);
    int n = 0;
    for (int t = 0; t < 3; t++) {
        memcpy(all + n, tables[t]->rows, (size_t)tables[t]->n * sizeof *all);
        n += tables[t]->n;
    }
    rewrite_all(env->ir, module, all, n);
    pass_dce(env, module);
}
