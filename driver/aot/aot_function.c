// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes the C function of a kernel: its arguments, and the computation of its tensors' dims from
// them.
//
//     kernel k<T: float>(x: T[..R, E + 1], s: T)     k_f32(const float *x, float s,
//                                                          int64_t R, int64_t E)
#include <string.h>

#include "driver/aot/aot.h"
#include "frontend/program.h"

/* ---- dims ---------------------------------------------------------------------------------- */

static const Item *constant_of(const Program *p, const Expr *e) {
    const Item *item = program_find(p, e->name, e->loc.file);
    return item && item->kind == IT_CONST ? item : NULL;
}

static bool constant_value(const Program *p, const Expr *name, int64_t *out) {
    const Item *item = constant_of(p, name);
    return item && program_constant(p, item, out);
}

typedef struct NameWalk {
    Aot *a;
    const FnDef *f;
    AotNames *out;
} NameWalk;

static void add_dim_names(NameWalk *n, const Expr *e) {
    if (e->kind == EX_BINARY) {
        const Expr *at = chain_first(e);
        add_dim_names(n, at->binary.a);
        for (;; at = at->binary.outer) {
            add_dim_names(n, at->binary.b);
            if (at == e) return;
        }
    } else if (e->kind == EX_CALL) {
        for (int i = 0; i < e->call.args.n; i++) add_dim_names(n, e->call.args.at[i].value);
    } else if (e->kind == EX_NAME) {
        if (fn_param(n->f, e->name) >= 0 || constant_of(n->a->program, e)) return;
        for (int i = 0; i < n->out->n; i++)
            if (n->out->data[i] == e->name) return;
        vec_push(n->a->ctx, n->out, e->name);
    }
}

void aot_dims(Aot *a, const FnDef *f, AotNames *out) {
    NameWalk n = {a, f, out};
    for (int i = 0; i < f->params.n; i++)
        for (int d = 0; param_is_tensor(&f->params.at[i]) && d < f->params.at[i].type->dims.n; d++)
            add_dim_names(&n, f->params.at[i].type->dims.at[d].expr);
}

/* ---- expressions --------------------------------------------------------------------------- */

static const struct {
    BinaryOp op;
    enum CExprKind kind;
} binaries[] = {
    {BI_ADD, CX_ADD}, {BI_SUB, CX_SUB}, {BI_MUL, CX_MUL}, {BI_DIV, CX_DIV}, {BI_REM, CX_REM}};

static const struct {
    const char *name;
    enum CExprKind kind;
} calls[] = {{"min", CX_MIN}, {"max", CX_MAX}};

typedef struct ExprReader {
    Ctx *ctx;
    const Program *program;
    /// Returns the argument for a name, or -1.
    int (*find)(void *user, const char *name);
    void *user;
    int depth; // of the current expression; a chain of operators is as deep as it is long
} ExprReader;

static const CExpr *make_c_expr(const ExprReader *r, enum CExprKind kind, int64_t value,
                                const CExpr *a, const CExpr *b) {
    CExpr e = {kind, value, a, b};
    return ctx_copy(r->ctx, &e, sizeof e);
}

static const CExpr *read_expr(ExprReader *r, const Expr *e);

static const CExpr *read_two(ExprReader *r, enum CExprKind kind, const Expr *x, const Expr *y) {
    const CExpr *a = read_expr(r, x), *b = read_expr(r, y);
    return a && b ? make_c_expr(r, kind, 0, a, b) : NULL;
}

static const CExpr *read_dim_name(ExprReader *r, const Expr *e) {
    int arg = r->find(r->user, e->name);
    if (arg >= 0) return make_c_expr(r, CX_ARG, arg, NULL, NULL);
    int64_t value;
    return constant_value(r->program, e, &value) ? make_c_expr(r, CX_CONST, value, NULL, NULL)
                                                 : NULL;
}

/// Makes (a + b - 1) / b, the language's ceildiv for positive b.
static const CExpr *read_ceildiv(ExprReader *r, const Args *args) {
    const CExpr *a = read_expr(r, args->at[0].value), *b = read_expr(r, args->at[1].value);
    if (!a || !b) return NULL;
    const CExpr *one = make_c_expr(r, CX_CONST, 1, NULL, NULL);
    return make_c_expr(r, CX_DIV, 0,
                       make_c_expr(r, CX_SUB, 0, make_c_expr(r, CX_ADD, 0, a, b), one), b);
}

static const CExpr *read_call(ExprReader *r, const Expr *e) {
    const Expr *callee = e->call.callee;
    const Args *args = &e->call.args;
    if (callee->kind != EX_NAME || args->n != 2) return NULL;
    if (strcmp(callee->name, "ceildiv") == 0) return read_ceildiv(r, args);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, callee->name) == 0)
            return read_two(r, calls[i].kind, args->at[0].value, args->at[1].value);
    return NULL;
}

static const CExpr *read_negative(ExprReader *r, const Expr *e) {
    const CExpr *x = read_expr(r, e);
    return x ? make_c_expr(r, CX_SUB, 0, make_c_expr(r, CX_CONST, 0, NULL, NULL), x) : NULL;
}

static const CExpr *read_kind(ExprReader *r, const Expr *e) {
    switch (e->kind) {
    case EX_INT: return make_c_expr(r, CX_CONST, (int64_t)e->integer.value, NULL, NULL);
    case EX_BOOL: return make_c_expr(r, CX_CONST, e->boolean, NULL, NULL);
    case EX_NAME: return read_dim_name(r, e);
    case EX_CALL: return read_call(r, e);
    case EX_UNARY:
        if (e->unary.op != UN_NEG) return NULL;
        return read_negative(r, e->unary.x);
    case EX_BINARY:
        for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
            if (binaries[i].op == e->binary.op)
                return read_two(r, binaries[i].kind, e->binary.a, e->binary.b);
        return NULL;
    default: return NULL;
    }
}

/// NULL: C does not compute it.
static const CExpr *read_expr(ExprReader *r, const Expr *e) {
    if (r->depth == AST_MAX_DEPTH) return NULL;
    r->depth++;
    const CExpr *out = read_kind(r, e);
    r->depth--;
    return out;
}

/* ---- values -------------------------------------------------------------------------------- */

typedef struct Lookup {
    const Program *program;
    AotLookup *lookup;
    void *user;
} Lookup;

static bool find_value(void *user, const Expr *e, int64_t *out) {
    Lookup *l = user;
    if (l->lookup(l->user, e->name, out)) return true;
    return constant_value(l->program, e, out);
}

bool aot_eval(const Program *p, const Expr *e, AotLookup *lookup, void *user, int64_t *out) {
    Lookup l = {.program = p, .lookup = lookup, .user = user};
    return expr_value(e, find_value, &l, out, NULL);
}

/* ---- the function -------------------------------------------------------------------------- */

Elem aot_elem(const AotExport *x, int i) {
    const Param *p = &x->kernel->params.at[i];
    const char *name = p->type ? p->type->elem.text : NULL;
    int g = name ? fn_generic(x->kernel, name) : -1;
    if (g >= 0) return x->types[g];
    Elem e = name ? elem_by_name(name) : EL_COUNT;
    return e == EL_COUNT && p->constant ? EL_I64 : e;
}

typedef struct FunctionBuilder {
    AotExport *x;
    VEC(CArg) args;
    VEC(CParam) params;
} FunctionBuilder;

static int find_scalar_argument(void *user, const char *name) {
    const FunctionBuilder *b = user;
    for (int i = 0; i < b->args.n; i++)
        if (strcmp(b->args.data[i].name, name) == 0 && b->args.data[i].kind != CARG_TENSOR)
            return i;
    return -1;
}

/// Small floats are passed to C as float; the runtime rounds them.
static Elem scalar_in_c(Elem e) {
    return elem_is(e, EC_FLOAT) && e != EL_F64 ? EL_F32 : e;
}

static void add_param_args(Aot *a, FunctionBuilder *b) {
    const FnDef *f = b->x->kernel;
    for (int i = 0; i < f->params.n; i++) {
        const Param *p = &f->params.at[i];
        Elem e = aot_elem(b->x, i);
        bool tensor = param_is_tensor(p);
        CArg arg = {.name = p->name.text, .kind = tensor ? CARG_TENSOR : CARG_SCALAR};
        arg.elem = tensor ? e : scalar_in_c(e);
        elem_dlpack(e, &arg.code, &arg.bits);
        vec_push(a->ctx, &b->args, arg);
    }
}

enum { MAX_TEXT = 1000 };

/// Counts the terms of the expression as C text, in which `?:` duplicates its parts. Stops counting
/// near MAX_TEXT.
static int text_terms(const CExpr *e) {
    if (e->kind == CX_CONST || e->kind == CX_ARG) return 1;
    int n = text_terms(e->a) + text_terms(e->b);
    bool twice = e->kind != CX_ADD && e->kind != CX_SUB && e->kind != CX_MUL;
    return n > MAX_TEXT ? MAX_TEXT : twice ? 2 * n : n;
}

static bool add_tensor_params(Aot *a, FunctionBuilder *b, int i) {
    const Param *p = &b->x->kernel->params.at[i];
    if (param_is_tensor(p) && p->type->sym) {
        b->x->why = ctx_format(a->ctx, "'%s' is symmetric memory", p->name.text);
        return false;
    }
    ExprReader r = {.ctx = a->ctx, .program = a->program, .find = find_scalar_argument, .user = b};
    CParam out = {
        .arg = i, .optional = p->optional, .rank = param_is_tensor(p) ? p->type->dims.n : 0};
    for (int d = 0; d < out.rank && d < MAX_RANK; d++) {
        const Expr *e = p->type->dims.at[d].expr;
        out.dims[d] = read_expr(&r, e);
        if (out.dims[d] && text_terms(out.dims[d]) < MAX_TEXT) continue;
        Text t = {.ctx = a->ctx};
        ast_print_expr(&t, e);
        b->x->why = ctx_format(a->ctx, "the dim '%s' of '%s' cannot be computed in C", t.data,
                               p->name.text);
        return false;
    }
    vec_push(a->ctx, &b->params, out);
    return true;
}

void aot_function(Aot *a, AotExport *x) {
    FunctionBuilder b = {.x = x};
    AotNames dims = {0};
    add_param_args(a, &b);
    aot_dims(a, x->kernel, &dims);
    for (int i = 0; i < dims.n; i++) {
        CArg arg = {.name = dims.data[i], .kind = CARG_DIM, .elem = EL_I64};
        vec_push(a->ctx, &b.args, arg);
    }
    for (int i = 0; i < x->kernel->params.n; i++)
        if (!add_tensor_params(a, &b, i)) return;
    x->function = ctx_new(a->ctx, CFunction);
    *x->function = (CFunction){b.args.n, b.params.n, b.args.data, b.params.data};
}
