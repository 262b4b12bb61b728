// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops, `merge`, and the grids of programs.
//
//     for r in R, k in K by BK { acc += f(r, k); }
//
// is a `for` op in a `for` op, each with acc as its carried value. A loop with `by` binds a range,
// a loop without it an integer. `parallel` becomes one op for each header entry, nested. If a bound
// needs earlier indices, its computation is between the levels.
#include "frontend/elab/elab.h"

/* ---- headers ------------------------------------------------------------------------------- */

/// Bounds and step of one loop; step 0: no `by`, the index is an integer.
typedef struct LoopHeader {
    Value *lo, *hi;
    int64_t step;
} LoopHeader;

/// Reads a header, and reports all of its errors before giving up.
static bool read_loop_header(Elab *e, const Loop *loop, LoopHeader *h) {
    e->b.loc = el_loc(e, loop->loc);
    *h = (LoopHeader){.lo = NULL};
    h->lo = loop->lo ? el_index(e, loop->lo->loc, el_expr(e, loop->lo), "the start of a loop")
                     : build_index(&e->b, 0);
    Val hi = el_expr(e, loop->hi);
    h->hi = el_index(e, loop->hi->loc, hi, "the end of a loop");
    if (hi.kind == V_RANGE)
        diag_hint(e->ctx, "a loop over 0 .. N in blocks is `for %s in N by 64`", loop->index.text);
    bool ok = h->lo && h->hi;
    if (!loop->step) return ok;
    Val step = el_expr(e, loop->step);
    return el_extent(e, loop->step->loc, step, "the step of a loop", &h->step) && ok;
}

/// A step always makes the index a range: `by 1` is a range of one.
static void bind_index(Elab *e, const Loop *loop, const LoopHeader *h, Value *iv) {
    Val v = h->step ? el_loop_range(e, iv, h->lo, h->hi, h->step) : val_ir(iv);
    scope_bind(e, loop->index, BIND_INDEX, v);
}

/// The name serves people and messages; `parallel { }` has none.
static void set_header_attrs(Elab *e, Op *op, const Loop *loop, int64_t step) {
    op_set_int(e->ir, op, A_STEP, step);
    if (loop) op_set_str(e->ir, op, A_NAME, loop->index.text);
}

/* ---- for ----------------------------------------------------------------------------------- */

/// Returns the variables' state in the form of `merge`: one value, or a tuple.
static Val loop_state(Elab *e, const Bindings *vars) {
    Val *at = ctx_array(e->ctx, Val, vars->n);
    for (int i = 0; i < vars->n; i++) at[i] = vars->data[i]->val;
    return vars->n == 1 ? at[0] : val_tuple(e, vars->n, at);
}

/// Copies the state to new region arguments.
static Val state_args(Elab *e, Region *r, Val state, const Values *like) {
    Value **args = ctx_array(e->ctx, Value *, like->n);
    for (int i = 0; i < like->n; i++)
        args[i] = region_add_arg(e->ir, r, like->data[i]->type, like->data[i]->name);
    Value *const *next = args;
    return el_unflatten(e, state, true, &next);
}

/// Builds the second region of a loop: the fn named by `merge`, on two states.
static void merge_region(Elab *e, const Stmt *s, Region *r, const Bindings *vars,
                         const Values *before) {
    Loc loc = s->grid.merge.loc;
    Val f = el_name(e, s->grid.merge.text, loc), state = loop_state(e, vars);
    Val a = state_args(e, r, state, before), b = state_args(e, r, state, before);
    Builder old = el_enter(e, r);
    OpCode op = el_monoid(f);
    Val joined = op != OP_COUNT ? el_elementwise(e, loc, op, op_info[op].name, 2, (Val[]){a, b})
                                : el_call(e, loc, f, 2, (Val[]){a, b});
    Values out = {0};
    el_flatten(e, loc, el_assign(e, loc, state, joined, "the result of the merge function"), true,
               &out);
    build_yield(&e->b, out.n, out.data);
    el_leave(e, old);
}

static void for_level(Elab *e, const Stmt *s, int level, const Bindings *vars);

/// Builds the region of one level: its index, the carried variables, then the next level or the
/// body.
static void for_body(Elab *e, const Stmt *s, int level, const Bindings *vars, const LoopHeader *h,
                     Op *op, const Values *before) {
    const Loop *loop = &s->grid.loops.at[level];
    Region *r = op->regions[0];
    Value *iv = region_add_arg(e->ir, r, ty_scalar(e->ir, EL_I64), loop->index.text);
    Value **args = ctx_array(e->ctx, Value *, before->n);
    for (int i = 0; i < before->n; i++)
        args[i] = region_add_arg(e->ir, r, before->data[i]->type, NULL);
    Builder old = el_enter(e, r);
    el_restore(e, vars, args);
    scope_push(e);
    bind_index(e, loop, h, iv);
    if (level + 1 < s->grid.loops.n)
        for_level(e, s, level + 1, vars);
    else
        el_block(e, s->grid.body);
    scope_pop(e);
    Values after = {0};
    el_save(e, vars, &after);
    build_yield(&e->b, after.n, after.data);
    el_leave(e, old);
}

/// Builds one of the nested loops of a header, around the next one or the body.
static void for_level(Elab *e, const Stmt *s, int level, const Bindings *vars) {
    const Loop *loop = &s->grid.loops.at[level];
    LoopHeader h;
    if (!read_loop_header(e, loop, &h)) return;
    e->b.loc = el_loc(e, loop->loc);
    // Only the outermost loop starts from merge's identity.
    bool merges = s->grid.merge.text && level == 0;
    Values before = {0}, operands = {0};
    vec_push(e->ctx, &operands, h.lo);
    vec_push(e->ctx, &operands, h.hi);
    el_save(e, vars, &before);
    for (int i = 0; i < before.n; i++) vec_push(e->ctx, &operands, before.data[i]);
    Op *op = build_op(&e->b, OP_FOR, operands.n, operands.data, before.n, el_types(e, &before),
                      merges ? 2 : 1);
    set_header_attrs(e, op, loop, h.step ? h.step : 1);
    for_body(e, s, level, vars, &h, op, &before);
    if (merges) {
        el_restore(e, vars, before.data);
        merge_region(e, s, op->regions[1], vars, &before);
    }
    Value **results = ctx_array(e->ctx, Value *, before.n);
    for (int i = 0; i < before.n; i++) results[i] = result(op, i);
    el_restore(e, vars, results);
}

/// All levels of a header carry the same variables.
void el_for(Elab *e, const Stmt *s) {
    Bindings vars = {0};
    el_assigned(e, s->grid.body, &vars);
    if (s->grid.merge.text && vars.n == 0) {
        el_fail(e, s->grid.merge.loc, D_MERGE_NOTHING);
        return;
    }
    e->loop_depth++;
    for_level(e, s, 0, &vars);
    e->loop_depth--;
}

/* ---- while --------------------------------------------------------------------------------- */

/// Adds the variables to a region as its arguments, and sets the variables to them.
static void carry_variables(Elab *e, Region *r, const Bindings *vars, const Values *before) {
    Value **args = ctx_array(e->ctx, Value *, before->n);
    for (int i = 0; i < before->n; i++)
        args[i] = region_add_arg(e->ir, r, before->data[i]->type, NULL);
    el_restore(e, vars, args);
}

/// The condition is a region of its own, since it sees the carried values of each iteration.
void el_while(Elab *e, const Stmt *s) {
    Bindings vars = {0};
    Values before = {0}, after = {0};
    el_assigned(e, s->loop.body, &vars);
    el_save(e, &vars, &before);
    Op *op = build_op(&e->b, OP_WHILE, before.n, before.data, before.n, el_types(e, &before), 2);
    Builder old = el_enter(e, op->regions[0]);
    carry_variables(e, op->regions[0], &vars, &before);
    Value *cond = el_loop_condition(e, s->loop.cond);
    if (!cond) cond = build_bool(&e->b, ty_scalar(e->ir, EL_BOOL), false);
    build_yield(&e->b, 1, &cond);
    el_leave(e, old);
    old = el_enter(e, op->regions[1]);
    carry_variables(e, op->regions[1], &vars, &before);
    e->loop_depth++;
    el_block(e, s->loop.body);
    e->loop_depth--;
    el_save(e, &vars, &after);
    build_yield(&e->b, after.n, after.data);
    el_leave(e, old);
    Value **results = ctx_array(e->ctx, Value *, before.n);
    for (int i = 0; i < before.n; i++) results[i] = result(op, i);
    el_restore(e, &vars, results);
}

/* ---- parallel ------------------------------------------------------------------------------ */

/// Step 0 marks a grid of single programs.
static Op *grid_op(Elab *e, const Loop *loop, const LoopHeader *h, Value **iv) {
    Op *op = build_op(&e->b, OP_PARALLEL, 2, (Value *[]){h->lo, h->hi}, 0, NULL, 1);
    set_header_attrs(e, op, loop, loop ? (h->step ? h->step : 1) : 0);
    *iv = region_add_arg(e->ir, op->regions[0], ty_scalar(e->ir, EL_I64),
                         loop ? loop->index.text : NULL);
    return op;
}

/// Builds the grid from a level on: an op around the next level, or the program.
static Op *grid_level(Elab *e, const Stmt *s, int level) {
    const Loop *loop = level < s->grid.loops.n ? &s->grid.loops.at[level] : NULL;
    LoopHeader h = {.step = 0};
    Value *iv;
    if (loop && !read_loop_header(e, loop, &h)) return NULL;
    if (!loop) h.lo = h.hi = build_index(&e->b, 0);
    e->b.loc = el_loc(e, s->loc);
    Op *op = grid_op(e, loop, &h, &iv);
    Builder old = el_enter(e, op->regions[0]);
    scope_push(e);
    if (loop) bind_index(e, loop, &h, iv);
    if (level + 1 < s->grid.loops.n)
        grid_level(e, s, level + 1);
    else
        el_block(e, s->grid.body);
    scope_pop(e);
    build_yield(&e->b, 0, NULL);
    el_leave(e, old);
    return op;
}

/// Reports an assignment to a variable of the kernel: programs run in no order and cannot share
/// one.
static bool assigns_outside(Elab *e, const Stmt *s) {
    Bindings vars = {0};
    el_assigned(e, s->grid.body, &vars);
    if (vars.n == 0) return false;
    el_fail(e, s->loc, D_ASSIGN_OUTSIDE, vars.data[0]->name);
    diag_note(e->ctx, vars.data[0]->loc, "it is declared here, outside the programs");
    diag_hint(e->ctx, "let programs write to a tensor, or join their values with 'combine'");
    return true;
}

/// Builds a phase. Races are checked only in IR without errors, since it would be incomplete.
void el_parallel(Elab *e, const Stmt *s) {
    if (e->in_program || e->frame || !e->kernel) {
        el_fail(e, s->loc, D_PARALLEL_INSIDE);
        if (e->in_program)
            diag_hint(e->ctx, "one header takes all indices, `parallel i in M, j in N { ... }`; "
                              "`for` makes a loop of a program");
        return;
    }
    if (assigns_outside(e, s)) return;
    int loop_depth = e->loop_depth;
    e->loop_depth = 0;
    e->in_program = true;
    Op *phase = grid_level(e, s, 0);
    e->in_program = false;
    e->loop_depth = loop_depth;
    if (phase && !el_failed(e)) el_check_races(e, phase);
}
