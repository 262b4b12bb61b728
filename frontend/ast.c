// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The syntax tree's constructors and names.
#include "frontend/syntax.h"

#include "lang/diag.h"

#include <string.h>

const char *const expr_kind_name[] = {
#define X(id, name) [EX_##id] = name,
    AST_EXPRS(X)
#undef X
};
const char *const stmt_kind_name[] = {
#define X(id, name) [ST_##id] = name,
    AST_STMTS(X)
#undef X
};
const char *const unary_spelling[] = {
#define X(id, spelling) [UN_##id] = spelling,
    AST_UNARIES(X)
#undef X
};
const char *const binary_spelling[] = {
#define X(id, spelling) [BI_##id] = spelling,
    AST_BINARIES(X)
#undef X
};

/// Makes room for one more element after n. Lists store no capacity: it is the next power of two.
void *list_grow(Ctx *ctx, void *at, int n, size_t size) {
    if (n & (n - 1)) return at;
    void *bigger = ctx_alloc(ctx, (n ? 2 * (size_t)n : 1) * size);
    return n ? memcpy(bigger, at, (size_t)n * size) : bigger;
}

/* ---- depth --------------------------------------------------------------------------------- */

/// Raises the depth of a node at `loc` for a child of depth `child`.
static void raise_depth(Parser *p, uint16_t *depth, Loc loc, int child) {
    if (child >= AST_MAX_DEPTH) {
        diag(p->ctx, loc, D_TOO_DEEP, AST_MAX_DEPTH);
        ctx_give_up(p->ctx);
    }
    if (*depth <= child) *depth = (uint16_t)(child + 1);
}

static void over_expr(Parser *p, uint16_t *depth, Loc loc, const Expr *child) {
    if (child) raise_depth(p, depth, loc, child->depth);
}

static void over_exprs(Parser *p, uint16_t *depth, Loc loc, Exprs list) {
    for (int i = 0; i < list.n; i++) over_expr(p, depth, loc, list.at[i]);
}

static void over_type(Parser *p, uint16_t *depth, Loc loc, const TypeExpr *child) {
    if (child) raise_depth(p, depth, loc, child->depth);
}

static void over_stmt(Parser *p, uint16_t *depth, Loc loc, const Stmt *child) {
    if (child) raise_depth(p, depth, loc, child->depth);
}

/* ---- expressions --------------------------------------------------------------------------- */

Expr *new_expr(Parser *p, ExprKind kind, Loc loc) {
    Expr *e = ctx_new(p->ctx, Expr);
    e->kind = kind;
    e->loc = loc;
    e->depth = 1;
    return e;
}

Expr *new_name(Parser *p, Name name) {
    Expr *e = new_expr(p, EX_NAME, name.loc);
    e->name = name.text;
    return e;
}

Expr *new_bool(Parser *p, Loc loc, bool value) {
    Expr *e = new_expr(p, EX_BOOL, loc);
    e->boolean = value;
    return e;
}

Expr *new_tuple(Parser *p, Loc loc, Exprs parts) {
    Expr *e = new_expr(p, EX_TUPLE, loc);
    e->tuple = parts;
    over_exprs(p, &e->depth, loc, parts);
    return e;
}

Expr *new_unary(Parser *p, Loc loc, UnaryOp op, Expr *x) {
    Expr *e = new_expr(p, EX_UNARY, loc);
    e->unary.op = op;
    e->unary.x = x;
    over_expr(p, &e->depth, loc, x);
    return e;
}

Expr *new_binary(Parser *p, Loc loc, BinaryOp op, Loc op_loc, Expr *a, Expr *b) {
    Expr *e = new_expr(p, EX_BINARY, loc);
    e->binary.op = op;
    e->binary.op_loc = op_loc;
    e->binary.a = a;
    e->binary.b = b;
    if (a->kind == EX_BINARY) {
        a->binary.outer = e;
        e->depth = a->depth;
    } else {
        over_expr(p, &e->depth, loc, a);
    }
    over_expr(p, &e->depth, loc, b);
    return e;
}

Expr *new_ternary(Parser *p, Loc loc, Expr *cond, Expr *yes, Expr *no) {
    Expr *e = new_expr(p, EX_TERNARY, loc);
    e->ternary.cond = cond;
    e->ternary.yes = yes;
    e->ternary.no = no;
    over_expr(p, &e->depth, loc, cond);
    over_expr(p, &e->depth, loc, yes);
    over_expr(p, &e->depth, loc, no);
    return e;
}

Expr *new_cast(Parser *p, Loc loc, Expr *x, Name elem) {
    Expr *e = new_expr(p, EX_CAST, loc);
    e->cast.x = x;
    e->cast.elem = elem;
    over_expr(p, &e->depth, loc, x);
    return e;
}

/// Checks the order and names of arguments: `a = 1` may follow `x`, but not the other way round,
/// and no name may repeat. `named` holds the named ones so far; a positional argument has the name
/// text NULL.
static void check_named(Parser *p, Name name, Names *named) {
    if (!name.text && named->n) diag(p->ctx, name.loc, D_POSITIONAL_AFTER_NAMED, named->at[0].text);
    if (!name.text) return;
    for (int i = 0; i < named->n; i++)
        if (name.text == named->at[i].text) {
            diag(p->ctx, name.loc, D_NAMED_TWICE, name.text);
            diag_note(p->ctx, named->at[i].loc, "the first one is here");
            return;
        }
    list_push(p, named, name);
}

/// Some checks compare each argument with each other one; this bound limits their time.
static bool has_too_many_arguments(Parser *p, Loc loc, int n) {
    if (n > MAX_ARGUMENTS) diag(p->ctx, loc, D_TOO_MANY_ARGUMENTS, MAX_ARGUMENTS);
    return n > MAX_ARGUMENTS;
}

Expr *new_call(Parser *p, Loc loc, Expr *callee, Args args) {
    Expr *e = new_expr(p, EX_CALL, loc);
    e->call.callee = callee;
    e->call.args = args;
    over_expr(p, &e->depth, loc, callee);
    Names named = {0};
    for (int i = 0; !has_too_many_arguments(p, loc, args.n) && i < args.n; i++) {
        Arg a = args.at[i];
        over_expr(p, &e->depth, loc, a.value);
        check_named(p, a.name.text ? a.name : (Name){NULL, a.value->loc}, &named);
    }
    return e;
}

Expr *new_subscript(Parser *p, Loc loc, Expr *base, Subs subs) {
    Expr *e = new_expr(p, EX_SUBSCRIPT, loc);
    e->subscript.base = base;
    e->subscript.subs = subs;
    over_expr(p, &e->depth, loc, base);
    Names named = {0};
    for (int i = 0; !has_too_many_arguments(p, loc, subs.n) && i < subs.n; i++) {
        Sub s = subs.at[i];
        over_expr(p, &e->depth, loc, s.lo);
        over_expr(p, &e->depth, loc, s.hi);
        check_named(p, s.name.text ? s.name : (Name){NULL, s.loc}, &named);
    }
    return e;
}

Expr *new_member(Parser *p, Loc loc, Expr *base, Name field) {
    Expr *e = new_expr(p, EX_MEMBER, loc);
    e->member.base = base;
    e->member.field = field;
    over_expr(p, &e->depth, loc, base);
    return e;
}

/* ---- types --------------------------------------------------------------------------------- */

TypeExpr *new_type(Parser *p, enum TypeExprKind kind, Loc loc, Name elem) {
    TypeExpr *t = ctx_new(p->ctx, TypeExpr);
    t->kind = kind;
    t->loc = loc;
    t->elem = elem;
    t->depth = 1;
    return t;
}

TypeExpr *new_block_type(Parser *p, Loc loc, Name elem, Exprs extents) {
    TypeExpr *t = new_type(p, TY_BLOCK, loc, elem);
    t->extents = extents;
    over_exprs(p, &t->depth, loc, extents);
    return t;
}

/// Puts the rank in front, as the first dimension of a symmetric tensor.
static Dims behind_rank(Parser *p, Expr *ranks, Dims dims) {
    Dim *at = ctx_array(p->ctx, Dim, dims.n + 1);
    at[0] = (Dim){.expr = ranks};
    if (dims.n) memcpy(at + 1, dims.at, sizeof *at * (size_t)dims.n);
    return (Dims){.n = dims.n + 1, .at = at};
}

TypeExpr *new_tensor_type(Parser *p, Loc loc, Name elem, Expr *ranks, Dims dims) {
    TypeExpr *t = new_type(p, TY_TENSOR, loc, elem);
    t->sym = ranks != NULL;
    t->dims = ranks ? behind_rank(p, ranks, dims) : dims;
    dims = t->dims;
    int packs = 0;
    for (int i = 0; i < dims.n; i++) {
        over_expr(p, &t->depth, loc, dims.at[i].expr);
        packs += dims.at[i].pack;
        if (dims.at[i].pack && packs == 2) diag(p->ctx, dims.at[i].expr->loc, D_TWO_PACKS);
    }
    return t;
}

TypeExpr *new_tuple_type(Parser *p, Loc loc, TypeExprs parts) {
    TypeExpr *t = new_type(p, TY_TUPLE, loc, (Name){NULL, loc});
    t->parts = parts;
    for (int i = 0; i < parts.n; i++) over_type(p, &t->depth, loc, parts.at[i]);
    return t;
}

/* ---- statements ---------------------------------------------------------------------------- */

static Stmt *new_stmt(Parser *p, StmtKind kind, Loc loc) {
    Stmt *s = ctx_new(p->ctx, Stmt);
    s->kind = kind;
    s->loc = loc;
    s->depth = 1;
    return s;
}

Stmt *new_bind(Parser *p, StmtKind kind, Loc loc, Names names, TypeExpr *type, Expr *value) {
    Stmt *s = new_stmt(p, kind, loc);
    s->bind.names = names;
    s->bind.pattern = names.n > 1;
    s->bind.type = type;
    s->bind.value = value;
    over_type(p, &s->depth, loc, type);
    over_expr(p, &s->depth, loc, value);
    return s;
}

static bool is_place(const Expr *e) {
    if (e->kind != EX_TUPLE) return e->kind == EX_NAME || e->kind == EX_SUBSCRIPT;
    for (int i = 0; i < e->tuple.n; i++)
        if (e->tuple.at[i]->kind != EX_NAME && e->tuple.at[i]->kind != EX_SUBSCRIPT) return false;
    return true;
}

Stmt *new_assign(Parser *p, Loc loc, BinaryOp op, Expr *place, Expr *value) {
    Stmt *s = new_stmt(p, ST_ASSIGN, loc);
    s->assign.op = op;
    s->assign.place = place;
    s->assign.value = value;
    over_expr(p, &s->depth, loc, place);
    over_expr(p, &s->depth, loc, value);
    if (!is_place(place))
        diag(p->ctx, place->loc, D_NOT_A_PLACE);
    else if (place->kind == EX_TUPLE && op != BI_NONE)
        diag(p->ctx, place->loc, D_TUPLE_UPDATE, binary_spelling[op]);
    return s;
}

Stmt *new_expr_stmt(Parser *p, StmtKind kind, Loc loc, Expr *e) {
    Stmt *s = new_stmt(p, kind, loc);
    s->expr = e;
    over_expr(p, &s->depth, loc, e);
    if (kind == ST_EXPR && e->kind != EX_CALL) useless_statement(p, e);
    return s;
}

Stmt *new_if(Parser *p, Loc loc, Expr *cond, Stmt *then, Stmt *otherwise) {
    Stmt *s = new_stmt(p, ST_IF, loc);
    s->branch.cond = cond;
    s->branch.then = then;
    s->branch.otherwise = otherwise;
    over_expr(p, &s->depth, loc, cond);
    over_stmt(p, &s->depth, loc, then);
    over_stmt(p, &s->depth, loc, otherwise);
    return s;
}

Stmt *new_while(Parser *p, Loc loc, Expr *cond, Stmt *body) {
    Stmt *s = new_stmt(p, ST_WHILE, loc);
    s->loop.cond = cond;
    s->loop.body = body;
    over_expr(p, &s->depth, loc, cond);
    over_stmt(p, &s->depth, loc, body);
    return s;
}

Stmt *new_grid(Parser *p, StmtKind kind, Loc loc, Loops loops, Name merge, Stmt *body) {
    Stmt *s = new_stmt(p, kind, loc);
    s->grid.loops = loops;
    s->grid.merge = merge;
    s->grid.body = body;
    for (int i = 0; i < loops.n; i++) {
        over_expr(p, &s->depth, loc, loops.at[i].lo);
        over_expr(p, &s->depth, loc, loops.at[i].hi);
        over_expr(p, &s->depth, loc, loops.at[i].step);
    }
    // Each loop of the header becomes one level of nesting when it is lowered.
    over_stmt(p, &s->depth, loc, body);
    if (loops.n > 1) raise_depth(p, &s->depth, loc, body->depth + loops.n - 1);
    return s;
}

Stmt *new_block(Parser *p, Loc loc, Stmts stmts, Loc end) {
    Stmt *s = new_stmt(p, ST_BLOCK, loc);
    s->block.stmts = stmts;
    s->block.end = end;
    for (int i = 0; i < stmts.n; i++) over_stmt(p, &s->depth, loc, stmts.at[i]);
    return s;
}

/* ---- walking ------------------------------------------------------------------------------- */

const Expr *chain_first(const Expr *x) {
    while (x->binary.a->kind == EX_BINARY) x = x->binary.a;
    return x;
}

static bool any_in_list(Exprs list, NameTest *test, void *user) {
    for (int i = 0; i < list.n; i++)
        if (expr_any_name(list.at[i], test, user)) return true;
    return false;
}

static bool any_in_call(const Expr *x, NameTest *test, void *user) {
    for (int i = 0; i < x->call.args.n; i++)
        if (expr_any_name(x->call.args.at[i].value, test, user)) return true;
    return expr_any_name(x->call.callee, test, user);
}

static bool any_in_subscript(const Expr *x, NameTest *test, void *user) {
    for (int i = 0; i < x->subscript.subs.n; i++) {
        const Sub *s = &x->subscript.subs.at[i];
        if (s->lo && expr_any_name(s->lo, test, user)) return true;
        if (s->hi && expr_any_name(s->hi, test, user)) return true;
    }
    return expr_any_name(x->subscript.base, test, user);
}

bool expr_any_name(const Expr *x, NameTest *test, void *user) {
    for (; x->kind == EX_BINARY; x = x->binary.a)
        if (expr_any_name(x->binary.b, test, user)) return true;
    switch (x->kind) {
    case EX_NAME: return test(user, x);
    case EX_TUPLE: return any_in_list(x->tuple, test, user);
    case EX_UNARY: return expr_any_name(x->unary.x, test, user);
    case EX_TERNARY:
        return any_in_list((Exprs){(Expr *[]){x->ternary.cond, x->ternary.yes, x->ternary.no}, 3},
                           test, user);
    case EX_CAST: return expr_any_name(x->cast.x, test, user);
    case EX_CALL: return any_in_call(x, test, user);
    case EX_SUBSCRIPT: return any_in_subscript(x, test, user);
    case EX_MEMBER: return expr_any_name(x->member.base, test, user);
    default: return false;
    }
}

/* ---- looking up ---------------------------------------------------------------------------- */

int fn_param(const FnDef *f, const char *name) {
    for (int i = 0; i < f->params.n; i++)
        if (strcmp(f->params.at[i].name.text, name) == 0) return i;
    return -1;
}

int fn_generic(const FnDef *f, const char *name) {
    for (int i = 0; i < f->generics.n; i++)
        if (strcmp(f->generics.at[i].name.text, name) == 0) return i;
    return -1;
}
