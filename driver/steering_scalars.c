// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the scalars that steer the host code of a kernel: those that decide how often, or whether,
// phases run.
//
//     for i in 0 .. n { parallel ... }        n
//     let m = n + 1; if m > k { softmax(x); }   n, k
//     repeat(x, n);                             n, if it steers the called kernel
//
// Ranks have to agree on steering scalars. A rank that runs another number of phases would wait for
// the others in vain. Names are followed through variables by their text, regardless of scopes. The
// result may therefore contain parameters that do not steer, but it misses none.
#include "driver/driver_private.h"

#include "frontend/program.h"

typedef struct Steers {
    const Program *p;
    PtrMap *known;           // FnDef -> a bool for each parameter; for kernels done or in progress
    VEC(const char *) names; // names that steer
    bool grew;
} Steers;

static bool is_steering_name(const Steers *s, const char *name) {
    for (int i = 0; i < s->names.n; i++)
        if (s->names.data[i] == name) return true;
    return false;
}

static void add_name(Steers *s, const char *name) {
    if (!name || is_steering_name(s, name)) return;
    vec_push(s->p->ctx, &s->names, name);
    s->grew = true;
}

/// Marks all names of an expression as steering.
static void add_steering_names(Steers *s, const Expr *x) {
    if (!x) return;
    switch (x->kind) {
    case EX_NAME: add_name(s, x->name); return;
    case EX_TUPLE:
        for (int i = 0; i < x->tuple.n; i++) add_steering_names(s, x->tuple.at[i]);
        return;
    case EX_UNARY: add_steering_names(s, x->unary.x); return;
    case EX_BINARY:
        add_steering_names(s, x->binary.a);
        add_steering_names(s, x->binary.b);
        return;
    case EX_TERNARY:
        add_steering_names(s, x->ternary.cond);
        add_steering_names(s, x->ternary.yes);
        add_steering_names(s, x->ternary.no);
        return;
    case EX_CAST: add_steering_names(s, x->cast.x); return;
    case EX_CALL:
        for (int i = 0; i < x->call.args.n; i++) add_steering_names(s, x->call.args.at[i].value);
        return;
    case EX_SUBSCRIPT:
        add_steering_names(s, x->subscript.base);
        for (int i = 0; i < x->subscript.subs.n; i++) {
            add_steering_names(s, x->subscript.subs.at[i].lo);
            add_steering_names(s, x->subscript.subs.at[i].hi);
        }
        return;
    case EX_MEMBER: add_steering_names(s, x->member.base); return;
    default: return;
    }
}

/// If a variable steers, so do all names in its value.
static void follow_names(Steers *s, const Names *names, const Expr *value) {
    for (int i = 0; i < names->n; i++)
        if (is_steering_name(s, names->at[i].text)) add_steering_names(s, value);
}

static void follow_place(Steers *s, const Expr *place, const Expr *value) {
    for (int i = 0; place->kind == EX_TUPLE && i < place->tuple.n; i++)
        follow_place(s, place->tuple.at[i], value);
    if (place->kind == EX_NAME && is_steering_name(s, place->name)) add_steering_names(s, value);
}

static const bool *fn_steers(const Program *p, const FnDef *f, PtrMap *known);

/// The host code of a called kernel runs as part of the caller's.
static void follow_call(Steers *s, const Expr *x) {
    const Expr *callee = x && x->kind == EX_CALL ? x->call.callee : NULL;
    const Item *item =
        callee && callee->kind == EX_NAME ? program_find(s->p, callee->name, x->loc.file) : NULL;
    if (!item || item->kind != IT_FN) return;
    const FnDef *f = item->fn;
    const bool *inner = fn_steers(s->p, f, s->known);
    for (int i = 0; i < x->call.args.n; i++) {
        const Arg *a = &x->call.args.at[i];
        int at = a->name.text ? fn_param(f, a->name.text) : i;
        if (at >= 0 && at < f->params.n && inner[at]) add_steering_names(s, a->value);
    }
}

/// Visits only host statements. Statements inside programs do not steer.
static void visit_host_stmt(Steers *s, const Stmt *t) {
    if (!t) return;
    switch (t->kind) {
    case ST_LET:
    case ST_VAR:
        follow_call(s, t->bind.value);
        follow_names(s, &t->bind.names, t->bind.value);
        return;
    case ST_ASSIGN:
        follow_call(s, t->assign.value);
        follow_place(s, t->assign.place, t->assign.value);
        return;
    case ST_EXPR:
    case ST_RETURN: follow_call(s, t->expr); return;
    case ST_IF:
        add_steering_names(s, t->branch.cond);
        visit_host_stmt(s, t->branch.then);
        visit_host_stmt(s, t->branch.otherwise);
        return;
    case ST_WHILE:
        add_steering_names(s, t->loop.cond);
        visit_host_stmt(s, t->loop.body);
        return;
    case ST_FOR:
        for (int i = 0; i < t->grid.loops.n; i++) {
            add_steering_names(s, t->grid.loops.at[i].lo);
            add_steering_names(s, t->grid.loops.at[i].hi);
            add_steering_names(s, t->grid.loops.at[i].step);
        }
        visit_host_stmt(s, t->grid.body);
        return;
    case ST_BLOCK:
        for (int i = 0; i < t->block.stmts.n; i++) visit_host_stmt(s, t->block.stmts.at[i]);
        return;
    default: return;
    }
}

/// Calls form no cycle in a program that compiles. In other programs, a cycle adds no names.
static const bool *fn_steers(const Program *p, const FnDef *f, PtrMap *known) {
    bool *out = map_get(known, f);
    if (out) return out;
    out = ctx_array(p->ctx, bool, f->params.n + 1);
    map_set(p->ctx, known, f, out);
    Steers s = {.p = p, .known = known};
    do {
        s.grew = false;
        visit_host_stmt(&s, f->body);
    } while (s.grew);
    for (int i = 0; i < f->params.n; i++) out[i] = is_steering_name(&s, f->params.at[i].name.text);
    return out;
}

const bool *steering_scalars(const Program *p, const FnDef *kernel) {
    PtrMap known = {0};
    return fn_steers(p, kernel, &known);
}
