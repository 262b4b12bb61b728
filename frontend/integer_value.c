// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes integer expressions over names (dims, bounds, constants) before elaboration.
#include <string.h>

#include "frontend/program.h"

typedef struct Evaluation {
    ExprLookup *lookup;
    void *user;
    const char *unknown;
} Evaluation;

static bool eval_value(Evaluation *v, const Expr *e, int64_t *out);

/// Division is total, as in the language; overflow makes the value unknown instead of wrong.
static bool eval_binary(BinaryOp op, int64_t a, int64_t b, int64_t *out) {
    switch (op) {
    case BI_ADD: return !__builtin_add_overflow(a, b, out);
    case BI_SUB: return !__builtin_sub_overflow(a, b, out);
    case BI_MUL: return !__builtin_mul_overflow(a, b, out);
    case BI_DIV: return b == -1 ? !__builtin_sub_overflow(0, a, out) : (*out = b ? a / b : 0, true);
    case BI_REM: *out = b == 0 || b == -1 ? 0 : a % b; return true;
    default: return false;
    }
}

static bool eval_call(Evaluation *v, const Expr *e, int64_t *out) {
    const Expr *callee = e->call.callee;
    int64_t a, b;
    if (callee->kind != EX_NAME || e->call.args.n != 2) return false;
    if (!eval_value(v, e->call.args.at[0].value, &a) ||
        !eval_value(v, e->call.args.at[1].value, &b))
        return false;
    v->unknown = callee->name;
    if (strcmp(callee->name, "min") == 0)
        *out = a < b ? a : b;
    else if (strcmp(callee->name, "max") == 0)
        *out = a > b ? a : b;
    else if (strcmp(callee->name, "ceildiv") == 0 && b > 0)
        *out = ceil_div(a, b);
    else
        return false;
    return true;
}

static bool eval_chain(Evaluation *v, const Expr *e, int64_t *out) {
    const Expr *at = chain_first(e);
    int64_t b;
    if (!eval_value(v, at->binary.a, out)) return false;
    for (;; at = at->binary.outer) {
        if (!eval_value(v, at->binary.b, &b) || !eval_binary(at->binary.op, *out, b, out))
            return false;
        if (at == e) return true;
    }
}

static bool eval_value(Evaluation *v, const Expr *e, int64_t *out) {
    int64_t a;
    v->unknown = "an expression";
    switch (e->kind) {
    case EX_INT: *out = (int64_t)e->integer.value; return true;
    case EX_BOOL: *out = e->boolean; return true;
    case EX_NAME: v->unknown = e->name; return v->lookup(v->user, e, out);
    case EX_UNARY:
        return e->unary.op == UN_NEG && eval_value(v, e->unary.x, &a) &&
               eval_binary(BI_SUB, 0, a, out);
    case EX_BINARY: return eval_chain(v, e, out);
    case EX_CALL: return eval_call(v, e, out);
    default: return false;
    }
}

bool expr_value(const Expr *e, ExprLookup *lookup, void *user, int64_t *out, const char **unknown) {
    Evaluation v = {lookup, user, NULL};
    bool known = eval_value(&v, e, out);
    if (unknown) *unknown = v.unknown;
    return known;
}
