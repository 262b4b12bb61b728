// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers the runs of a region: all enclosing loops carry a value that counts them.
//
//   for ... { for ... { R } }    ->    for ... (%a) { for ... (%n from %a) { R; yield %n + 1 } }
//
// The number identifies an item of a ring, in whichever loops the item is made.
#include "passes/gpu/async/async.h"

static Op *with_one_more(Async *s, Op *op) {
    const Type *index = ty_scalar(s->ir, EL_I64);
    if (op->n_results >= 63) ice(s->ctx, op->loc, "too many carried values");
    return op_add_results(s->ir, op, 1, &index);
}

static void yield_more(Async *s, Region *r, Value *v) {
    op_add_operand(s->ir, terminator(r), v);
}

/// Passes the number `before` through the op of region r, as one more value. Returns it as seen in
/// r, whose terminator yields it unchanged for now, and sets *after to the op's result.
static Value *pass_through(Async *s, Region *r, Value *before, Value **after) {
    Op *op = with_one_more(s, r->parent);
    const Type *type = ty_scalar(s->ir, EL_I64);
    Value *inside = before;
    if (op_is_loop(op)) {
        op_add_operand(s->ir, op, before);
        for (int i = 0; i < op->n_regions; i++) {
            Value *arg = region_add_arg(s->ir, op->regions[i], type, "run");
            if (op->regions[i] == r) inside = arg;
            if (op->code == OP_FOR || i == 1) yield_more(s, op->regions[i], arg);
        }
    } else {
        for (int i = 0; i < op->n_regions; i++) yield_more(s, op->regions[i], before);
    }
    *after = result(op, op->n_results - 1);
    return inside;
}

static void set_last_yield(Region *r, Value *v) {
    Op *end = terminator(r);
    op_set_operand(end, end->n_operands - 1, v);
}

/// Returns the number at the start of r. *yields: the last operand of r's terminator is the number,
/// and the caller sets it to the number after r.
static Value *enter_region(Async *s, Region *r, bool *yields) {
    *yields = r->parent != s->device;
    if (!*yields) {
        Builder b = r->first ? build_before(s->ir, r->first) : build_at_end(s->ir, r, (Loc){0});
        return build_index(&b, 0);
    }
    bool outer_yields;
    Region *outer = r->parent->parent;
    Value *before = enter_region(s, outer, &outer_yields), *after;
    Value *inside = pass_through(s, r, before, &after);
    if (outer_yields) set_last_yield(outer, after);
    return inside;
}

Value *run_number(Async *s, Region *r) {
    Value *n = map_get(&s->counters, r);
    if (n) return n;
    bool yields;
    n = enter_region(s, r, &yields);
    if (yields) {
        Builder b = build_before(s->ir, terminator(r));
        set_last_yield(r, ix_add(&b, n, build_index(&b, 1)));
    }
    map_set(s->ctx, &s->counters, r, n);
    return n;
}
