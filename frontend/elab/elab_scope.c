// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names in scope, and the meaning of a name: a local, then a definition of the program, then a
// builtin, then an element type. name_check.c reports names that hide a local; here an inner name
// simply wins.
#include "frontend/elab/elab.h"

#include <string.h>

void scope_push(Elab *e) {
    Scope *s = ctx_new(e->ctx, Scope);
    s->outer = e->scope;
    e->scope = s;
}

void scope_pop(Elab *e) {
    e->scope = e->scope->outer;
}

enum { FEW = 8 }; // up to this number, names are searched linearly

static Binding *find_here(const Elab *e, const Scope *s, const char *name) {
    ctx_count(e->ctx, 1);
    if (s->n > FEW) return map_get(&s->named, name);
    Binding *b = s->first;
    while (b && b->name != name) b = b->next;
    return b;
}

Binding *scope_find(const Elab *e, const char *name) {
    Binding *b = NULL;
    for (const Scope *s = e->scope; s && !b; s = s->outer) b = find_here(e, s, name);
    return b;
}

/// The list is newest first: of two bindings of one name, the last one wins.
static void index_all(Elab *e, Scope *s) {
    for (Binding *b = s->first; b; b = b->next)
        if (!map_get(&s->named, b->name)) map_set(e->ctx, &s->named, b->name, b);
}

/// The source's name appears in the IR, unless the value already has a name. The count of a range
/// has its own name, so that a debugger does not take it for the begin (passes/pads/pads_warn.c
/// knows it).
static void name_value(Ctx *ctx, Val v, const char *name) {
    if (v.kind == V_IR && v.ir.v->def && !v.ir.v->name) v.ir.v->name = name;
    if (v.kind == V_RANGE && !v.range->count->name)
        v.range->count->name = ctx_format(ctx, "%s" LIVE_COUNT, name);
}

Binding *scope_bind(Elab *e, Name name, BindKind kind, Val v) {
    Binding *b = ctx_new(e->ctx, Binding);
    *b = (Binding){name.text, kind, name.loc, v, e->declared++, e->scope->first};
    e->scope->first = b;
    if (++e->scope->n == FEW + 1)
        index_all(e, e->scope);
    else if (e->scope->n > FEW)
        map_set(e->ctx, &e->scope->named, b->name, b);
    name_value(e->ctx, v, name.text);
    if (e->program->names) el_note_type(e, name.loc, NULL, v);
    return b;
}

/* ---- the meaning of a name ----------------------------------------------------------------- */

static Val unknown_name(Elab *e, const char *name, Loc loc) {
    const char *locals[64], *close = NULL;
    int n = 0;
    for (const Scope *s = e->scope; s; s = s->outer)
        for (const Binding *b = s->first; b && n < 64; b = b->next) locals[n++] = b->name;
    close = closest_name(name, locals, n);
    if (!close) close = program_closest(e->program, name);
    el_fail(e, loc, D_UNKNOWN_NAME, name);
    if (close) diag_fix(e->ctx, loc, close, "did you mean '%s'?", close);
    return val_error();
}

Val el_name(Elab *e, const char *name, Loc loc) {
    const Binding *b = scope_find(e, name);
    if (b) return b->val;
    const Item *item = program_find(e->program, name, loc.file);
    if (!item && el_rank(e) && strcmp(name, "rank") == 0) return val_ir(el_rank(e));
    if (item && item->kind == IT_CONST) return el_constant(e, item);
    if (item) return (Val){.kind = V_FN, .fn = {.def = item->fn}};
    const Builtin *builtin = builtin_by_name(name);
    if (builtin) return (Val){.kind = V_FN, .fn = {.builtin = builtin}};
    Elem elem = elem_by_name(name);
    return elem == EL_COUNT ? unknown_name(e, name, loc) : val_elem(elem);
}

Elem el_elem_name(Elab *e, const char *name) {
    const Binding *b = scope_find(e, name);
    if (b) return b->val.kind == V_ELEM ? b->val.elem : EL_COUNT;
    return elem_by_name(name);
}

Elem el_elem(Elab *e, Name name) {
    Elem elem = el_elem_name(e, name.text);
    if (elem != EL_COUNT) return elem;
    const Binding *b = scope_find(e, name.text);
    if (b && b->val.kind == V_ERROR) return EL_COUNT;
    el_fail(e, name.loc, D_NOT_AN_ELEM, name.text);
    hint_elem(e->ctx, name);
    return EL_COUNT;
}
