// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The greedy rewriter: folds, deletes unused ops and applies rules until nothing changes. It works
// off a list of ops; each change puts the ops that it may have improved back on the list. The
// number of steps is bounded, so a pair of rules that undo each other cannot hang it.
#include "ir/ir_private.h"

#include <string.h>

enum { STEPS_AN_OP = 64 };

typedef struct Worklist {
    VEC(Op *) ops;  // a stack
    PtrMap waiting; // op -> itself while it is in the stack
    const Rule *rules;
    int first[OP_COUNT]; // index of the first rule of each root + 1, or 0
    int *next;           // index of the next rule of the same root + 1, or 0
    Op *root;
    bool changed;
} Worklist;

/* ---- the list ------------------------------------------------------------------------------ */

void rewrite_touch(Rewriter *rw, Op *op) {
    Worklist *l = rw->list;
    if (map_get(&l->waiting, op)) return;
    map_set(rw->ir->ctx, &l->waiting, op, op);
    vec_push(rw->ir->ctx, &l->ops, op);
}

static void touch_visitor(Op *op, void *rw) {
    rewrite_touch(rw, op);
}

/// Pops the top of the stack.
static Op *take_from_worklist(Rewriter *rw) {
    Worklist *l = rw->list;
    Op *op = l->ops.data[--l->ops.n];
    map_set(rw->ir->ctx, &l->waiting, op, NULL);
    return op;
}

/// Whether the op still exists: an erased op may still be on the list.
static bool is_alive(const Rewriter *rw, const Op *op) {
    return op == rw->list->root || op_is_inside(op, rw->list->root);
}

static void touch_users(Rewriter *rw, const Value *v) {
    for_each_use(u, v) rewrite_touch(rw, u->user);
}

/// Puts the ops that compute the operands on the list: they may be unused after op is erased.
static void touch_operands(Rewriter *rw, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (operand(op, i)->def) rewrite_touch(rw, operand(op, i)->def);
}

static void touch_operands_of(Op *op, void *rw) {
    touch_operands(rw, op);
}

/* ---- changes ------------------------------------------------------------------------------- */

void rewrite_erase(Rewriter *rw, Op *op) {
    op_walk_pre(op, touch_operands_of, rw);
    op_erase(op);
    rw->list->changed = true;
}

void rewrite_to(Rewriter *rw, Op *op, Value *with) {
    if (with->type != result(op, 0)->type)
        ice(rw->ir->ctx, op->loc, "`%s` of type %s rewritten to %s", op_info[op->code].name,
            type_text(rw->ir->ctx, result(op, 0)->type), type_text(rw->ir->ctx, with->type));
    touch_users(rw, result(op, 0));
    value_replace(result(op, 0), with);
    rewrite_erase(rw, op);
}

/// Whether the op is pure and its results have no uses.
static bool is_unused(const Op *op) {
    for (int i = 0; i < op->n_results; i++)
        if (value_has_uses(result(op, i))) return false;
    return op_has(op, PURE);
}

/// Puts the ops that a rule has built on the list: those between `before` and `after` in r.
static void touch_new_ops(Rewriter *rw, Region *r, Op *before, const Op *after) {
    Op *first = before && before->parent == r ? before->next : r->first;
    for (Op *op = first; op && op != after; op = op->next) op_walk_pre(op, touch_visitor, rw);
}

/// Tries the rules of op in order, up to the first that applies. Then puts all ops that may profit
/// back on the list: new ops, op itself, its users, and the ops that it no longer uses.
static bool apply_rules(Rewriter *rw, Op *op) {
    Worklist *l = rw->list;
    Region *home = op->parent;
    Op *before = op->prev, *after = op->next;
    bool applied = false;
    for (int i = l->first[op->code]; i && !applied; i = l->next[i - 1]) {
        applied = l->rules[i - 1].apply(rw, op);
        if (applied) rule_applied(rw->ir, op, l->rules[i - 1].algebra);
    }
    if (!applied) return false;
    if (home) touch_new_ops(rw, home, before, after);
    if (!is_alive(rw, op)) return true;
    rewrite_touch(rw, op);
    touch_operands(rw, op);
    for (int i = 0; i < op->n_results; i++) touch_users(rw, result(op, i));
    return true;
}

/// Tries the cheapest change first: deleting, then folding, then rules.
static void rewrite_op(Rewriter *rw, Op *op) {
    ctx_count(rw->ir->ctx, 1);
    if (op != rw->list->root && is_unused(op)) {
        rewrite_erase(rw, op);
        return;
    }
    rw->at = build_before(rw->ir, op);
    Value *v = op_has(op, PURE) && op->n_results == 1 ? op_fold(&rw->at, op) : NULL;
    if (v)
        rewrite_to(rw, op, v);
    else
        rw->list->changed |= apply_rules(rw, op);
}

/* ---- driver -------------------------------------------------------------------------------- */

/// Chains the rules of each root, in the order of the table.
static void index_rules(Ctx *ctx, Worklist *l, int n) {
    l->next = ctx_array(ctx, int, n);
    for (int i = n - 1; i >= 0; i--) {
        l->next[i] = l->first[l->rules[i].root];
        l->first[l->rules[i].root] = i + 1;
    }
}

bool rewrite_all(Ir *ir, Op *root, const Rule *rules, int n_rules) {
    Worklist *l = ctx_new(ir->ctx, Worklist);
    *l = (Worklist){.rules = rules, .root = root};
    index_rules(ir->ctx, l, n_rules);
    Rewriter rw = {.ir = ir, .list = l};
    op_walk_pre(root, touch_visitor, &rw);
    // The stack is reversed, so that operands are processed before their users.
    for (int i = 0, j = l->ops.n - 1; i < j; i++, j--) {
        Op *op = l->ops.data[i];
        l->ops.data[i] = l->ops.data[j];
        l->ops.data[j] = op;
    }
    for (int64_t steps = (int64_t)STEPS_AN_OP * l->ops.n; l->ops.n && steps > 0; steps--) {
        Op *op = take_from_worklist(&rw);
        if (is_alive(&rw, op)) rewrite_op(&rw, op);
    }
    return l->changed;
}
