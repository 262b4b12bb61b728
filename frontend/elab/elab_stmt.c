// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements: bindings, assignments, choices and the early end of a program.
//
// Variables become SSA values as they are assigned: a Binding holds the current value. For a choice
// or a loop, the tree is searched first for the outer variables that its body assigns; they become
// results of the op. Each side starts from the values before the op and yields those after it. A
// block of i32 or i64 takes two IR values: its lanes and their validity.
//
// `return` ends a program, and the IR has no jumps. The statements after a choice that may end the
// program move into the side that continues; if several ways continue, a flag guards them.
#include "frontend/elab/elab.h"

#include <string.h>

/* ---- types of variables -------------------------------------------------------------------- */

/// Returns the type of a non-tensor `let`, `var` or `scratch`, or NULL after an error.
static const Type *value_type(Elab *e, const TypeExpr *type) {
    if (type->kind != TY_SCALAR && type->kind != TY_BLOCK) {
        el_fail(e, type->loc, D_NOT_A_VALUE_TYPE);
        if (type->kind == TY_TENSOR) diag_hint(e->ctx, "a block is written `f32<16, 32>`");
        return NULL;
    }
    Elem elem = el_elem(e, type->elem);
    int64_t extents[MAX_RANK];
    int rank = type->kind == TY_BLOCK ? type->extents.n : 0;
    if (rank > MAX_RANK) {
        el_fail(e, type->loc, D_RANK, MAX_RANK);
        return NULL;
    }
    for (int i = 0; i < rank; i++) {
        const Expr *x = type->extents.at[i];
        if (!el_extent(e, x->loc, el_expr(e, x), "the extent of a block", &extents[i])) return NULL;
    }
    return elem == EL_COUNT ? NULL : ty_block(e->ir, elem, rank, extents);
}

/* ---- let and var --------------------------------------------------------------------------- */

/// Gives a variable's value its types; a literal takes its default.
static Val variable_value(Elab *e, Loc loc, Val v) {
    if (v.kind == V_TUPLE) {
        Val *at = ctx_array(e->ctx, Val, v.tuple.n);
        for (int i = 0; i < v.tuple.n; i++) at[i] = variable_value(e, loc, v.tuple.at[i]);
        return val_tuple(e, v.tuple.n, at);
    }
    v = el_value(e, loc, v);
    return v.kind == V_CONST ? val_ir(el_typed(e, loc, v, EL_COUNT)) : v;
}

/// Binds a name. A variable that starts as a literal gets an op of its own, which carries the
/// variable's name into the IR. `var x = y` shares the value of y.
static void bind_stmt_name(Elab *e, const Stmt *s, Name name, Val v) {
    if (s->kind == ST_VAR) v = variable_value(e, s->bind.value->loc, v);
    if (v.kind == V_VOID) {
        el_fail(e, s->bind.value->loc, D_NOT_A_VALUE, val_text(e, v));
        v = val_error();
    }
    scope_bind(e, name, s->kind == ST_VAR ? BIND_VAR : BIND_LET, v);
}

/// Binds all names even if the value does not fit, to avoid errors at their uses.
static void bind_pattern(Elab *e, const Stmt *s, Val v) {
    const Names *names = &s->bind.names;
    bool fits = v.kind == V_TUPLE && v.tuple.n == names->n;
    if (!fits && v.kind != V_ERROR) el_fail(e, s->loc, D_PATTERN, names->n, val_text(e, v));
    for (int i = 0; i < names->n; i++)
        bind_stmt_name(e, s, names->at[i], fits ? v.tuple.at[i] : val_error());
}

/// A written type is a conversion: it sets the element of literals and the shape of scalars.
static void bind_stmt(Elab *e, const Stmt *s) {
    Val v = el_effect_expr(e, s->bind.value);
    if (s->bind.type) {
        const Type *t = value_type(e, s->bind.type);
        const char *what = ctx_format(e->ctx, "'%s'", s->bind.names.at[0].text);
        e->value_at = s->bind.value->loc;
        v = t ? el_convert_val(e, s->bind.value->loc, v, t, what) : val_error();
        e->value_at = (Loc){0};
    }
    if (s->bind.pattern)
        bind_pattern(e, s, v);
    else
        bind_stmt_name(e, s, s->bind.names.at[0], v);
}

/* ---- assignment ---------------------------------------------------------------------------- */

Val el_assign(Elab *e, Loc loc, Val old, Val v, const char *name) {
    if (v.kind == V_ERROR || old.kind == V_ERROR) return old;
    if (old.kind == V_TUPLE) {
        if (v.kind != V_TUPLE || v.tuple.n != old.tuple.n) {
            el_fail(e, loc, D_TYPE_MISMATCH, name, val_text(e, old), val_text(e, v));
            return old;
        }
        Val *at = ctx_array(e->ctx, Val, v.tuple.n);
        for (int i = 0; i < v.tuple.n; i++)
            at[i] = el_assign(e, loc, old.tuple.at[i], v.tuple.at[i], name);
        return val_tuple(e, v.tuple.n, at);
    }
    Val new = el_convert_val(e, loc, v, old.ir.v->type, name);
    if (new.kind != V_ERROR) return new;
    // `var a = 0;` is an i64, probably a mistake if a float follows.
    const Type *t = val_type(v);
    if (t && elem_is(t->elem, EC_FLOAT) && elem_is(old.ir.v->type->elem, EC_INT))
        diag_hint(e->ctx, "say its type where it begins: 'var a: %s = 0;'", type_words(e, t));
    return old;
}

/// Offers `var` for the `let` in front of a name, if it stands there.
static void offer_var(Elab *e, Loc name) {
    enum { WORD = 3, BEFORE = WORD + 1 };
    Loc let = {.file = name.file, .line = name.line, .len = WORD};
    let.col = (uint16_t)(name.col > BEFORE ? name.col - BEFORE : 0);
    const char *text = diag_text_at(e->ctx, let);
    if (text && strcmp(text, "let") == 0) diag_offer(e->ctx, let, "var");
}

/// Returns the variable of a name on the left side, and reports targets that cannot be assigned.
static Binding *variable_of_place(Elab *e, const Expr *place) {
    Binding *b = scope_find(e, place->name);
    if (b && b->kind == BIND_VAR) return b;
    if (!b) {
        Val v = el_name(e, place->name, place->loc); // reports unknown names
        if (v.kind == V_ERROR) return NULL;
    }
    el_fail(e, place->loc, D_NOT_A_VARIABLE, place->name);
    if (b && b->kind == BIND_LET) {
        diag_note(e->ctx, b->loc, "declare it with 'var' to change it");
        offer_var(e, b->loc);
    }
    if (b && b->kind == BIND_PARAM)
        diag_hint(e->ctx, "a result is a tensor: '%s: f32[]' is one number, written '%s[] = ...'",
                  place->name, place->name);
    return NULL;
}

static void assign_name(Elab *e, const Expr *place, BinaryOp op, Val v) {
    Binding *b = variable_of_place(e, place);
    if (!b) return;
    if (op != BI_NONE) v = el_binary(e, place->loc, op, b->val, v);
    b->val = el_assign(e, place->loc, b->val, v, ctx_format(e->ctx, "'%s'", place->name));
    if (b->val.kind == V_IR && b->val.ir.v->def && !b->val.ir.v->name) b->val.ir.v->name = b->name;
}

/// Whether v is read from memory, possibly through casts and arithmetic.
static bool from_data(const Value *v, int budget) {
    if (!v->def || !budget) return false;
    if (v->def->code == OP_LOAD) return true;
    for (int i = 0; op_has(v->def, PURE) && i < v->def->n_operands; i++)
        if (from_data(operand(v->def, i), budget - 1)) return true;
    return false;
}

/// Whether the positions of a block's lanes are read from memory, so that they may repeat.
static bool place_from_data(const Place *p) {
    enum { DEPTH = 8 };
    for (int i = 0; p->has_picks && i < p->n_operands; i++)
        if (ty_is_block(p->operands[i]->type) && from_data(p->operands[i], DEPTH)) return true;
    return false;
}

/// For `c[i] += v` the subscript is evaluated once: the same place is read and written.
static void assign_element(Elab *e, const Expr *place, BinaryOp op, const Expr *value, Val v) {
    Val base = el_expr(e, place->subscript.base);
    if (base.kind == V_IR || base.kind == V_CONST) {
        el_fail(e, place->loc, D_BLOCK_ELEMENT);
        diag_hint(e->ctx, "choose with '?:' on index blocks, and assign the whole block");
        return;
    }
    Place p;
    if (!el_place_of(e, place, base, "the left side", &p)) return;
    if (value) v = el_effect_expr(e, value);
    if ((op == BI_ADD || op == BI_SUB) && place_from_data(&p)) {
        diag(e->ctx, el_loc(e, place->loc), D_LOST_SUMS, p.tensor->name);
        diag_hint(e->ctx, "atomic_add(%s[...], v) adds all; if none repeat, write x = x + v",
                  p.tensor->name);
    }
    if (op != BI_NONE) v = el_binary(e, place->loc, op, el_load(e, place->loc, &p), v);
    if (value && op == BI_NONE) e->value_at = value->loc;
    if (v.kind != V_ERROR) el_store(e, place->loc, &p, v);
    e->value_at = (Loc){0};
}

/// `value` is the unevaluated right side, or NULL if v is its value.
static void assign_place(Elab *e, const Expr *place, BinaryOp op, const Expr *value, Val v) {
    if (place->kind == EX_SUBSCRIPT) {
        assign_element(e, place, op, value, v);
        return;
    }
    if (value) v = el_effect_expr(e, value);
    if (place->kind == EX_NAME) {
        if (value && op == BI_NONE) e->value_at = value->loc;
        assign_name(e, place, op, v);
        e->value_at = (Loc){0};
        return;
    }
    bool fits = v.kind == V_TUPLE && place->kind == EX_TUPLE && v.tuple.n == place->tuple.n;
    if (place->kind != EX_TUPLE)
        el_fail(e, place->loc, D_NOT_A_PLACE);
    else if (!fits && v.kind != V_ERROR)
        el_fail(e, place->loc, D_PATTERN, place->tuple.n, val_text(e, v));
    for (int i = 0; fits && i < place->tuple.n; i++)
        assign_place(e, place->tuple.at[i], op, NULL, v.tuple.at[i]);
}

/* ---- variables that a body assigns --------------------------------------------------------- */

/// Adds a variable to a list that is in order of declaration.
static void note_variable(Elab *e, Binding *b, Bindings *out) {
    int at = 0, end = out->n;
    while (at < end) {
        int middle = (at + end) / 2;
        if (out->data[middle]->order < b->order)
            at = middle + 1;
        else
            end = middle;
    }
    if (at < out->n && out->data[at] == b) return;
    vec_push(e->ctx, out, b);
    memmove(out->data + at + 1, out->data + at, sizeof *out->data * (size_t)(out->n - 1 - at));
    out->data[at] = b;
}

static void note_assigned_place(Elab *e, const Expr *place, Bindings *out) {
    if (place->kind == EX_TUPLE)
        for (int i = 0; i < place->tuple.n; i++) note_assigned_place(e, place->tuple.at[i], out);
    Binding *b = place->kind == EX_NAME ? scope_find(e, place->name) : NULL;
    if (b && b->kind == BIND_VAR) note_variable(e, b, out);
}

void el_assigned(Elab *e, const Stmt *s, Bindings *out) {
    if (!s) return;
    switch (s->kind) {
    case ST_ASSIGN: note_assigned_place(e, s->assign.place, out); break;
    case ST_RETURN:
        if (e->done) note_variable(e, e->done, out);
        break;
    case ST_IF:
        el_assigned(e, s->branch.then, out);
        el_assigned(e, s->branch.otherwise, out);
        break;
    case ST_WHILE: el_assigned(e, s->loop.body, out); break;
    case ST_FOR:
    case ST_PARALLEL: el_assigned(e, s->grid.body, out); break;
    case ST_BLOCK:
        for (int i = 0; i < s->block.stmts.n; i++) el_assigned(e, s->block.stmts.at[i], out);
        break;
    default: break;
    }
}

/* ---- if ------------------------------------------------------------------------------------ */

void el_save(Elab *e, const Bindings *vars, Values *out) {
    for (int i = 0; i < vars->n; i++)
        el_flatten(e, vars->data[i]->loc, vars->data[i]->val, true, out);
}

/// Sets variables to values. Values without a name take the variable's, for readable IR.
void el_restore(Elab *e, const Bindings *vars, Value *const *values) {
    for (int i = 0; i < vars->n; i++) {
        Binding *b = vars->data[i];
        Value *const *first = values;
        b->val = el_unflatten(e, b->val, true, &values);
        for (; first < values; first++)
            if (!(*first)->name) ((Value *)*first)->name = b->name;
    }
}

const Type **el_types(Elab *e, const Values *values) {
    const Type **types = ctx_array(e->ctx, const Type *, values->n);
    for (int i = 0; i < values->n; i++) types[i] = values->data[i]->type;
    return types;
}

/// Elaborates the statements of one side of a choice from the variables' values `before`, and
/// yields the values after it.
static void choice_side(Elab *e, Region *r, Stmt *const *stmts, int n, const Bindings *vars,
                        const Values *before) {
    Builder old = el_enter(e, r);
    el_restore(e, vars, before->data);
    scope_push(e);
    el_stmts(e, stmts, n);
    scope_pop(e);
    Values after = {0};
    el_save(e, vars, &after);
    build_yield(&e->b, after.n, after.data);
    el_leave(e, old);
}

/// Elaborates `if cond { then } else { otherwise }` on statement lists.
static void elab_choice(Elab *e, Value *cond, const Bindings *vars, Stmt *const *then, int n_then,
                        Stmt *const *otherwise, int n_otherwise) {
    Values before = {0};
    el_save(e, vars, &before);
    Op *op = build_op(&e->b, OP_IF, 1, &cond, before.n, el_types(e, &before), 2);
    choice_side(e, op->regions[0], then, n_then, vars, &before);
    choice_side(e, op->regions[1], otherwise, n_otherwise, vars, &before);
    Value **results = ctx_array(e->ctx, Value *, before.n);
    for (int i = 0; i < before.n; i++) results[i] = result(op, i);
    el_restore(e, vars, results);
}

/// Evaluates a condition: a constant in *known, or a bool scalar. False after an error.
static bool elab_condition(Elab *e, const Expr *x, Value **cond, bool *known) {
    Val v = el_condition(e, el_expr(e, x));
    *cond = NULL;
    if (v.kind == V_CONST && v.c.type == CK_BOOL) {
        *known = v.c.i != 0;
        return true;
    }
    v = el_value(e, x->loc, v);
    if (val_is_scalar(v) && v.ir.v->type->elem == EL_BOOL) {
        *cond = v.ir.v;
        return true;
    }
    if (v.kind == V_ERROR) return false;
    el_fail(e, x->loc, D_CONDITION, val_text(e, v));
    if (val_is_block(v)) diag_hint(e->ctx, "choose lane by lane with '?:', or use any() or all()");
    return false;
}

Value *el_loop_condition(Elab *e, const Expr *x) {
    Value *cond;
    bool known;
    if (!elab_condition(e, x, &cond, &known)) return NULL;
    return cond ? cond : build_bool(&e->b, ty_scalar(e->ir, EL_BOOL), known);
}

/// Elaborates the taken side of a constant choice. Its names are local; its assignments are not.
static void elab_nested(Elab *e, const Stmt *s) {
    if (!s) return;
    scope_push(e);
    el_stmts(e, (Stmt *[]){(Stmt *)s}, 1);
    scope_pop(e);
}

/// Elaborates both sides, unless the condition is constant: the other side may then be invalid.
static void if_stmt(Elab *e, const Stmt *s) {
    Value *cond;
    bool known;
    if (!elab_condition(e, s->branch.cond, &cond, &known)) return;
    if (!cond) {
        elab_nested(e, known ? s->branch.then : s->branch.otherwise);
        return;
    }
    Bindings vars = {0};
    el_assigned(e, s, &vars);
    Stmt *then = s->branch.then, *otherwise = s->branch.otherwise;
    elab_choice(e, cond, &vars, &then, 1, &otherwise, otherwise ? 1 : 0);
}

/* ---- return -------------------------------------------------------------------------------- */

/// Whether s contains a `return`. In loops, `return` is an error.
static bool has_return(const Stmt *s) {
    if (!s) return false;
    if (s->kind == ST_RETURN) return true;
    if (s->kind == ST_IF) return has_return(s->branch.then) || has_return(s->branch.otherwise);
    for (int i = 0; s->kind == ST_BLOCK && i < s->block.stmts.n; i++)
        if (has_return(s->block.stmts.at[i])) return true;
    return false;
}

/// Joins the statement s and the rest of its list to one list, for the side of a choice that
/// continues.
static void join_stmts(Elab *e, Stmt *s, Stmt *const *rest, int n, Stmt ***out, int *n_out) {
    *out = ctx_array(e->ctx, Stmt *, n + 1);
    *n_out = 0;
    if (s) (*out)[(*n_out)++] = s;
    for (int i = 0; i < n; i++) (*out)[(*n_out)++] = rest[i];
}

/// Returns the number of places where control leaves the end of s: 0, 1, or 2 for more.
static int ways_out(const Stmt *s) {
    int n = 1;
    if (s->kind == ST_RETURN) return 0;
    if (s->kind == ST_IF)
        n = ways_out(s->branch.then) + (s->branch.otherwise ? ways_out(s->branch.otherwise) : 1);
    for (int i = 0; s->kind == ST_BLOCK && i < s->block.stmts.n; i++)
        n *= ways_out(s->block.stmts.at[i]);
    return n > 2 ? 2 : n;
}

static Val build_flag(Elab *e, bool v) {
    return val_ir(build_bool(&e->b, ty_scalar(e->ir, EL_BOOL), v));
}

/// Handles an `if` with several ways out: each `return` sets a flag, and the flag guards the
/// following statements.
static void if_with_flag(Elab *e, const Stmt *s, Stmt *const *rest, int n) {
    Binding *outer = e->done;
    if (!outer) {
        e->done = ctx_new(e->ctx, Binding);
        *e->done = (Binding){"done", BIND_VAR, s->loc, build_flag(e, false), e->declared++, NULL};
    }
    if_stmt(e, s);
    Bindings vars = {0};
    for (int i = 0; i < n; i++) el_assigned(e, rest[i], &vars);
    if (n) elab_choice(e, build_unary(&e->b, OP_NOT, e->done->val.ir.v), &vars, rest, n, NULL, 0);
    e->done = outer;
}

/// Handles an `if` with at most one way out: the following statements move there. `if c { return; }
/// rest` becomes `if c { } else { rest }`.
static void if_with_return(Elab *e, const Stmt *s, Stmt *const *rest, int n) {
    Value *cond;
    bool known;
    if (e->done || ways_out(s) > 1) {
        if_with_flag(e, s, rest, n);
        return;
    }
    if (!elab_condition(e, s->branch.cond, &cond, &known)) return;
    Stmt **then, **otherwise;
    int n_then, n_otherwise;
    join_stmts(e, s->branch.then, rest, n, &then, &n_then);
    join_stmts(e, s->branch.otherwise, rest, n, &otherwise, &n_otherwise);
    if (!cond) {
        el_stmts(e, known ? then : otherwise, known ? n_then : n_otherwise);
        return;
    }
    Bindings vars = {0};
    for (int i = 0; i < n_then; i++) el_assigned(e, then[i], &vars);
    for (int i = 0; i < n_otherwise; i++) el_assigned(e, otherwise[i], &vars);
    elab_choice(e, cond, &vars, then, n_then, otherwise, n_otherwise);
}

/// Handles a nested block with a `return`: its statements, then the rest. Its names stay in scope,
/// with the only effect that hiding them is an error.
static void block_with_return(Elab *e, const Stmt *s, Stmt *const *rest, int n) {
    int m = s->block.stmts.n;
    Stmt **all = ctx_array(e->ctx, Stmt *, m + n);
    for (int i = 0; i < m; i++) all[i] = s->block.stmts.at[i];
    for (int i = 0; i < n; i++) all[m + i] = rest[i];
    el_stmts(e, all, m + n);
}

/// Ends a program early. A `return` in a fn is an error here; fn_body takes the last one of a fn.
static void return_stmt(Elab *e, const Stmt *s) {
    if (e->frame) {
        el_fail(e, s->loc, D_RETURN_NOT_LAST);
        diag_hint(e->ctx, "choose the value with `c ? a : b`, or set a `var` and return that");
    } else if (!e->in_program || e->loop_depth)
        el_fail(e, s->loc, D_RETURN_PLACE);
    else if (s->expr)
        el_fail(e, s->loc, D_RETURN_VALUE);
    else if (e->done)
        e->done->val = build_flag(e, true);
}

/* ---- statements ---------------------------------------------------------------------------- */

/// The expression is evaluated, for its own errors, before it is reported as useless.
static void expr_stmt(Elab *e, const Stmt *s) {
    if (s->expr->kind != EX_CALL) {
        el_expr(e, s->expr);
        el_fail(e, s->loc, D_USELESS_STATEMENT);
        return;
    }
    el_effect_expr(e, s->expr);
}

static void elab_one_stmt(Elab *e, const Stmt *s) {
    e->b.loc = el_loc(e, s->loc);
    switch (s->kind) {
    case ST_LET:
    case ST_VAR: bind_stmt(e, s); break;
    case ST_SCRATCH: el_scratch(e, s); break;
    case ST_ASSIGN:
        assign_place(e, s->assign.place, s->assign.op, s->assign.value, val_void());
        break;
    case ST_EXPR: expr_stmt(e, s); break;
    case ST_IF: if_stmt(e, s); break;
    case ST_WHILE: el_while(e, s); break;
    case ST_FOR: el_for(e, s); break;
    case ST_PARALLEL: el_parallel(e, s); break;
    case ST_RETURN: break;
    case ST_BLOCK:
        scope_push(e);
        el_stmts(e, s->block.stmts.at, s->block.stmts.n);
        scope_pop(e);
        break;
    }
}

/// Elaborates a statement with a `return`, and inside of it the following statements.
static void stmt_with_return(Elab *e, const Stmt *s, Stmt *const *rest, int n) {
    enum { LEVELS = 2 };
    if (!el_deeper(e, s->loc, LEVELS)) return;
    (s->kind == ST_IF ? if_with_return : block_with_return)(e, s, rest, n);
    e->depth -= LEVELS;
}

/// Stops early if the rest has moved into a choice, or is unreachable.
void el_stmts(Elab *e, Stmt *const *stmts, int n) {
    for (int i = 0; i < n; i++) {
        const Stmt *s = stmts[i];
        bool leaves = e->in_program && !e->frame && !e->loop_depth && has_return(s);
        if (s->kind == ST_RETURN) {
            return_stmt(e, s);
            return;
        }
        if (leaves && (s->kind == ST_IF || s->kind == ST_BLOCK)) {
            stmt_with_return(e, s, stmts + i + 1, n - i - 1);
            return;
        }
        elab_one_stmt(e, s);
    }
}

void el_block(Elab *e, const Stmt *block) {
    scope_push(e);
    el_stmts(e, block->block.stmts.at, block->block.stmts.n);
    scope_pop(e);
}
