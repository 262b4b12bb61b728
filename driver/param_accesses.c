// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the parameters that a kernel may write, and those that it may read, in any instance. This
// is a property of the source, like `const` in a C prototype. If a called fn writes or reads its
// parameter, so does the caller with the tensor passed for it.
//
//     y[n] = v;  y[n] += v;           the place of an assignment
//     combine(y[n], v, f);            the first argument of a builtin that takes a place
//     f(y, x);                        if f writes its first parameter
//     let t = y; t[n] = v;            y by another name
//
//     y[n] += v;  combine(y[n], v, f);  f(y[n]);    read y
//
// An instance may write less, because it lacks a branch. The runtime then refuses some overlaps
// that would be harmless. An instance never writes or reads more.
#include "driver/driver_private.h"

#include "frontend/builtins/builtins.h"
#include "frontend/program.h"

typedef struct AccessSearch {
    const Program *p;
    const FnDef *f;
    ParamAccess *access; // one for each parameter
    PtrMap *known;       // FnDef -> its `access`; for fns done or in progress
    VEC(Name) aliases;   // pairs of names, of let t = x
} AccessSearch;

/// Returns the parameter that an expression names, through aliases, or -1.
static int named_param(const AccessSearch *w, const Expr *x) {
    if (!x || x->kind != EX_NAME) return -1;
    const char *name = x->name;
    for (int i = w->aliases.n - 2; i >= 0; i -= 2)
        if (w->aliases.data[i].text == name) name = w->aliases.data[i + 1].text;
    return fn_param(w->f, name);
}

static void expr_accesses(AccessSearch *w, const Expr *x);

static void subs_accesses(AccessSearch *w, const Expr *x) {
    for (int i = 0; i < x->subscript.subs.n; i++) {
        expr_accesses(w, x->subscript.subs.at[i].lo);
        expr_accesses(w, x->subscript.subs.at[i].hi);
    }
}

/// Handles the places y[...], (y[...], z[...]), and y of rank 0. read: the old elements count.
static void note_written_place(AccessSearch *w, const Expr *x, bool read) {
    for (int i = 0; x->kind == EX_TUPLE && i < x->tuple.n; i++)
        note_written_place(w, x->tuple.at[i], read);
    while (x->kind == EX_SUBSCRIPT || x->kind == EX_MEMBER) {
        if (x->kind == EX_SUBSCRIPT) subs_accesses(w, x);
        x = x->kind == EX_SUBSCRIPT ? x->subscript.base : x->member.base;
    }
    int i = named_param(w, x);
    if (i < 0) return;
    w->access[i].written = true;
    w->access[i].read |= read;
}

static const ParamAccess *fn_accesses(const Program *p, const FnDef *f, PtrMap *known);

/// For a tensor that is passed whole, a fn decides how it is accessed. A builtin reads it.
static void note_callee(AccessSearch *w, const Expr *x) {
    const Args *args = &x->call.args;
    const Expr *callee = x->call.callee;
    const Builtin *b = callee->kind == EX_NAME ? builtin_by_name(callee->name) : NULL;
    const Item *item =
        callee->kind == EX_NAME ? program_find(w->p, callee->name, x->loc.file) : NULL;
    const FnDef *f = item && item->kind == IT_FN ? item->fn : NULL;
    if (b && (b->flags & BF_PLACE) && args->n > 0) note_written_place(w, args->at[0].value, true);
    const ParamAccess *inner = f ? fn_accesses(w->p, f, w->known) : NULL;
    for (int i = 0; i < args->n; i++) {
        const char *name = args->at[i].name.text;
        int at = name && f ? fn_param(f, name) : i;
        int own = named_param(w, args->at[i].value);
        if (own < 0) continue;
        bool known = f && at >= 0 && at < f->params.n;
        w->access[own].read |= known ? inner[at].read : !f;
        w->access[own].written |= known && inner[at].written;
    }
}

/// Only calls write inside an expression, and they may be anywhere in it.
static void expr_accesses(AccessSearch *w, const Expr *x) {
    if (!x) return;
    for (; x->kind == EX_BINARY; x = x->binary.a) expr_accesses(w, x->binary.b);
    switch (x->kind) {
    case EX_TUPLE:
        for (int i = 0; i < x->tuple.n; i++) expr_accesses(w, x->tuple.at[i]);
        return;
    case EX_UNARY: expr_accesses(w, x->unary.x); return;
    case EX_TERNARY:
        expr_accesses(w, x->ternary.cond);
        expr_accesses(w, x->ternary.yes);
        expr_accesses(w, x->ternary.no);
        return;
    case EX_CAST: expr_accesses(w, x->cast.x); return;
    case EX_CALL:
        note_callee(w, x);
        for (int i = 0; i < x->call.args.n; i++) expr_accesses(w, x->call.args.at[i].value);
        return;
    case EX_SUBSCRIPT:
        if (named_param(w, x->subscript.base) >= 0)
            w->access[named_param(w, x->subscript.base)].read = true;
        expr_accesses(w, x->subscript.base);
        subs_accesses(w, x);
        return;
    case EX_MEMBER: expr_accesses(w, x->member.base); return;
    default: return;
    }
}

static void stmt_accesses(AccessSearch *w, const Stmt *s);

static void grid_accesses(AccessSearch *w, const Stmt *s) {
    for (int i = 0; i < s->grid.loops.n; i++) {
        const Loop *l = &s->grid.loops.at[i];
        expr_accesses(w, l->lo);
        expr_accesses(w, l->hi);
        expr_accesses(w, l->step);
    }
    stmt_accesses(w, s->grid.body);
}

static void stmt_accesses(AccessSearch *w, const Stmt *s) {
    if (!s) return;
    switch (s->kind) {
    case ST_LET:
    case ST_VAR:
        expr_accesses(w, s->bind.value);
        if (named_param(w, s->bind.value) >= 0 && !s->bind.pattern) {
            Name source = {s->bind.value->name, s->loc};
            vec_push(w->p->ctx, &w->aliases, s->bind.names.at[0]);
            vec_push(w->p->ctx, &w->aliases, source);
        }
        return;
    case ST_ASSIGN:
        note_written_place(w, s->assign.place, s->assign.op != BI_NONE);
        expr_accesses(w, s->assign.value);
        return;
    case ST_EXPR:
    case ST_RETURN: expr_accesses(w, s->expr); return;
    case ST_IF:
        expr_accesses(w, s->branch.cond);
        stmt_accesses(w, s->branch.then);
        stmt_accesses(w, s->branch.otherwise);
        return;
    case ST_WHILE:
        expr_accesses(w, s->loop.cond);
        stmt_accesses(w, s->loop.body);
        return;
    case ST_FOR:
    case ST_PARALLEL: grid_accesses(w, s); return;
    case ST_BLOCK:
        for (int i = 0; i < s->block.stmts.n; i++) stmt_accesses(w, s->block.stmts.at[i]);
        return;
    default: return;
    }
}

/// Calls form no cycle in a program that compiles. In other programs, a cycle adds no parameters.
static const ParamAccess *fn_accesses(const Program *p, const FnDef *f, PtrMap *known) {
    ParamAccess *access = map_get(known, f);
    if (access) return access;
    access = ctx_array(p->ctx, ParamAccess, f->params.n + 1);
    map_set(p->ctx, known, f, access);
    AccessSearch w = {.p = p, .f = f, .access = access, .known = known};
    stmt_accesses(&w, f->body);
    return access;
}

const ParamAccess *param_accesses(const Program *p, const FnDef *kernel) {
    PtrMap known = {0};
    return fn_accesses(p, kernel, &known);
}
