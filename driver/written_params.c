// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the parameters that a kernel may write in any instance. This is a property of the source,
// like `const` in a C prototype. If a called fn writes its parameter, the tensor passed for it is
// written.
//
//     y[n] = v;  y[n] += v;           the place of an assignment
//     combine(y[n], v, f);            the first argument of a builtin that takes a place
//     f(y, x);                        if f writes its first parameter
//     let t = y; t[n] = v;            y by another name
//
// An instance may write less, because it lacks a branch. The runtime then refuses some overlaps
// that would be harmless. An instance never writes more.
#include "driver/driver_private.h"

#include "frontend/builtins/builtins.h"
#include "frontend/program.h"

typedef struct WriteSearch {
    const Program *p;
    const FnDef *f;
    bool *written;     // one for each parameter
    PtrMap *known;     // FnDef -> its `written`; for fns done or in progress
    VEC(Name) aliases; // pairs of names, of let t = x
} WriteSearch;

/// Returns the parameter that an expression names, through aliases, or -1.
static int named_param(const WriteSearch *w, const Expr *x) {
    if (!x || x->kind != EX_NAME) return -1;
    const char *name = x->name;
    for (int i = w->aliases.n - 2; i >= 0; i -= 2)
        if (w->aliases.data[i].text == name) name = w->aliases.data[i + 1].text;
    return fn_param(w->f, name);
}

/// Handles the places y[...], (y[...], z[...]), and y of rank 0.
static void note_written_place(WriteSearch *w, const Expr *x) {
    for (int i = 0; x->kind == EX_TUPLE && i < x->tuple.n; i++)
        note_written_place(w, x->tuple.at[i]);
    while (x->kind == EX_SUBSCRIPT || x->kind == EX_MEMBER)
        x = x->kind == EX_SUBSCRIPT ? x->subscript.base : x->member.base;
    int i = named_param(w, x);
    if (i >= 0) w->written[i] = true;
}

static const bool *fn_writes(const Program *p, const FnDef *f, PtrMap *known);

/// For a tensor that is passed whole, the callee decides if it is written.
static void note_callee(WriteSearch *w, const Expr *x) {
    const Args *args = &x->call.args;
    const Expr *callee = x->call.callee;
    const Builtin *b = callee->kind == EX_NAME ? builtin_by_name(callee->name) : NULL;
    const Item *item =
        callee->kind == EX_NAME ? program_find(w->p, callee->name, x->loc.file) : NULL;
    if (b && (b->flags & BF_PLACE) && args->n > 0) note_written_place(w, args->at[0].value);
    if (!item || item->kind != IT_FN) return;
    const FnDef *f = item->fn;
    const bool *inner = fn_writes(w->p, f, w->known);
    for (int i = 0; i < args->n; i++) {
        int at = args->at[i].name.text ? fn_param(f, args->at[i].name.text) : i;
        int own = named_param(w, args->at[i].value);
        if (own >= 0 && at >= 0 && at < f->params.n && inner[at]) w->written[own] = true;
    }
}

/// Only calls write inside an expression, and they may be anywhere in it.
static void expr_writes(WriteSearch *w, const Expr *x) {
    if (!x) return;
    for (; x->kind == EX_BINARY; x = x->binary.a) expr_writes(w, x->binary.b);
    switch (x->kind) {
    case EX_TUPLE:
        for (int i = 0; i < x->tuple.n; i++) expr_writes(w, x->tuple.at[i]);
        return;
    case EX_UNARY: expr_writes(w, x->unary.x); return;
    case EX_TERNARY:
        expr_writes(w, x->ternary.cond);
        expr_writes(w, x->ternary.yes);
        expr_writes(w, x->ternary.no);
        return;
    case EX_CAST: expr_writes(w, x->cast.x); return;
    case EX_CALL:
        note_callee(w, x);
        for (int i = 0; i < x->call.args.n; i++) expr_writes(w, x->call.args.at[i].value);
        return;
    case EX_SUBSCRIPT:
        expr_writes(w, x->subscript.base);
        for (int i = 0; i < x->subscript.subs.n; i++) expr_writes(w, x->subscript.subs.at[i].lo);
        return;
    case EX_MEMBER: expr_writes(w, x->member.base); return;
    default: return;
    }
}

static void stmt_writes(WriteSearch *w, const Stmt *s) {
    if (!s) return;
    switch (s->kind) {
    case ST_LET:
    case ST_VAR:
        expr_writes(w, s->bind.value);
        if (named_param(w, s->bind.value) >= 0 && !s->bind.pattern) {
            Name source = {s->bind.value->name, s->loc};
            vec_push(w->p->ctx, &w->aliases, s->bind.names.at[0]);
            vec_push(w->p->ctx, &w->aliases, source);
        }
        return;
    case ST_ASSIGN:
        note_written_place(w, s->assign.place);
        expr_writes(w, s->assign.value);
        return;
    case ST_EXPR:
    case ST_RETURN: expr_writes(w, s->expr); return;
    case ST_IF:
        stmt_writes(w, s->branch.then);
        stmt_writes(w, s->branch.otherwise);
        return;
    case ST_WHILE: stmt_writes(w, s->loop.body); return;
    case ST_FOR:
    case ST_PARALLEL: stmt_writes(w, s->grid.body); return;
    case ST_BLOCK:
        for (int i = 0; i < s->block.stmts.n; i++) stmt_writes(w, s->block.stmts.at[i]);
        return;
    default: return;
    }
}

/// Calls form no cycle in a program that compiles. In other programs, a cycle adds no parameters.
static const bool *fn_writes(const Program *p, const FnDef *f, PtrMap *known) {
    bool *written = map_get(known, f);
    if (written) return written;
    written = ctx_array(p->ctx, bool, f->params.n + 1);
    map_set(p->ctx, known, f, written);
    WriteSearch w = {.p = p, .f = f, .written = written, .known = known};
    stmt_writes(&w, f->body);
    return written;
}

const bool *written_params(const Program *p, const FnDef *kernel) {
    PtrMap known = {0};
    return fn_writes(p, kernel, &known);
}
