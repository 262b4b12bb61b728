// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions, and calls with their arguments.
//
// A constant condition selects its side before the other side is elaborated: `bias ? x + bias[n] :
// x` is valid with an absent bias.
#include "frontend/elab/elab.h"

#include <math.h>
#include <string.h>

/* ---- simple expressions -------------------------------------------------------------------- */

/// A literal above INT64_MAX is a u64.
static Val int_literal(const Expr *x) {
    Val v = val_int((int64_t)x->integer.value);
    v.c.wide = x->integer.value > INT64_MAX;
    return v;
}

static Val tuple_expr(Elab *e, const Expr *x) {
    Val *at = ctx_array(e->ctx, Val, x->tuple.n);
    for (int i = 0; i < x->tuple.n; i++) at[i] = el_expr(e, x->tuple.at[i]);
    return val_tuple(e, x->tuple.n, at);
}

/// In a condition, an optional tensor is true if it is present. Inside fns this holds for all
/// tensors, since a fn takes optional tensors and others.
Val el_condition(Elab *e, Val v) {
    if (v.kind == V_ABSENT) return val_bool(false);
    bool asks = e->frame || (v.kind == V_TENSOR && v.tensor->use && v.tensor->use->optional);
    if (v.kind == V_TENSOR && asks) return val_bool(true);
    return v;
}

/// Applies the operator x to its computed left operand.
static Val apply_binary(Elab *e, const Expr *x, Val a) {
    BinaryOp op = x->binary.op;
    Val b;
    e->b.loc = el_loc(e, x->loc);
    if (op != BI_AND && op != BI_OR) return el_binary(e, x->loc, op, a, el_expr(e, x->binary.b));
    a = el_condition(e, a);
    // A constant left side decides alone; the right side may then be invalid.
    if (a.kind == V_CONST && a.c.type == CK_BOOL && (a.c.i != 0) == (op == BI_OR)) return a;
    b = el_condition(e, el_expr(e, x->binary.b));
    return el_binary(e, x->loc, op, a, b);
}

static Val binary_expr(Elab *e, const Expr *x) {
    const Expr *at = chain_first(x);
    Val v = el_expr(e, at->binary.a);
    for (;; at = at->binary.outer) {
        v = apply_binary(e, at, v);
        if (at == x) return v;
    }
}

/// With a constant condition, `causal ? min(L, m.end) : L` has one side only.
static Val ternary_expr(Elab *e, const Expr *x) {
    Val cond = el_condition(e, el_expr(e, x->ternary.cond));
    if (cond.kind == V_CONST && cond.c.type == CK_BOOL)
        return el_expr(e, cond.c.i ? x->ternary.yes : x->ternary.no);
    Val yes = el_expr(e, x->ternary.yes);
    return el_select(e, x->loc, cond, yes, el_expr(e, x->ternary.no));
}

static void transposed_hint(Elab *e, const Expr *x) {
    diag_hint(e->ctx, "a block is transposed by `trans(x)`");
    el_offer_call(e, x->loc, "trans", x->member.base->loc);
}

static Val member_expr(Elab *e, const Expr *x) {
    Val v = el_expr(e, x->member.base);
    if (v.kind == V_ERROR) return v;
    if (v.kind == V_RANGE) return el_range_member(e, x->loc, v.range, x->member.field.text);
    el_fail(e, x->member.field.loc, D_NO_MEMBER, val_text(e, v), x->member.field.text);
    if (v.kind == V_TENSOR)
        diag_hint(e->ctx, "its dimensions are the names in its type, as N in `x: f32[N]`");
    else if (v.kind == V_IR && strcmp(x->member.field.text, "T") == 0)
        transposed_hint(e, x);
    else if (v.kind == V_IR)
        diag_hint(e->ctx, "functions are called: `%s(x)`", x->member.field.text);
    return val_error();
}

/// A subscript of a tensor is a read; any other base must be a block.
static Val subscript_expr(Elab *e, const Expr *x) {
    Val base = el_expr(e, x->subscript.base);
    if (base.kind != V_TENSOR && base.kind != V_ABSENT) return el_block_subscript(e, x, base);
    if (base.kind == V_TENSOR && base.tensor->sym) return el_shard(e, x, base.tensor);
    Place p;
    return el_place_of(e, x, base, "a subscript", &p) ? el_load(e, x->loc, &p) : val_error();
}

/// Ops get the location of this expression, including ops that follow its parts.
static Val expr_val(Elab *e, const Expr *x) {
    Loc loc = el_loc(e, x->loc);
    e->b.loc = loc;
    el_steps(e, x->loc, 1);
    switch (x->kind) {
    case EX_INT: return int_literal(x);
    case EX_FLOAT: return val_float(x->floating.value);
    case EX_STRING: return val_word(x->string.text);
    case EX_BOOL: return val_bool(x->boolean);
    case EX_INF: return val_float(INFINITY);
    case EX_NAN: return val_float(NAN);
    case EX_NAME: return el_name(e, x->name, x->loc);
    case EX_TUPLE: return tuple_expr(e, x);
    case EX_UNARY: {
        Val v = el_expr(e, x->unary.x);
        e->b.loc = loc;
        return el_unary(e, x->loc, x->unary.op, x->unary.op == UN_NOT ? el_condition(e, v) : v);
    }
    case EX_BINARY: return binary_expr(e, x);
    case EX_TERNARY: return ternary_expr(e, x);
    case EX_CAST: {
        Val v = el_expr(e, x->cast.x);
        return el_cast(e, x->loc, v, el_elem(e, x->cast.elem));
    }
    case EX_CALL: return el_call_expr(e, x, false);
    case EX_SUBSCRIPT: return subscript_expr(e, x);
    case EX_MEMBER: return member_expr(e, x);
    }
    return val_error();
}

Val el_expr(Elab *e, const Expr *x) {
    Val v = expr_val(e, x);
    if (e->program->names) el_note_type(e, x->loc, x, v);
    return v;
}

Val el_effect_expr(Elab *e, const Expr *x) {
    if (x->kind != EX_CALL) return el_expr(e, x);
    Val v = el_call_expr(e, x, true);
    if (e->program->names) el_note_type(e, x->loc, x, v);
    return v;
}

/* ---- calls of builtins --------------------------------------------------------------------- */

enum { MAX_NAMED = 8 };

/// Whether `word` is in "ieee|tf32|tf32x3" (of length n).
static bool has_option_word(const char *words, size_t n, const char *word) {
    size_t len = strlen(word);
    for (size_t i = 0; i < n;) {
        size_t k = 0;
        while (i + k < n && words[i + k] != '|') k++;
        if (k == len && memcmp(words + i, word, k) == 0) return true;
        i += k + 1;
    }
    return false;
}

/// Returns the value of a named argument: one of its words, or an expression.
static Val named_arg_value(Elab *e, const Arg *arg, const char *words, size_t n) {
    const Expr *x = arg->value;
    if (x->kind == EX_NAME && has_option_word(words, n, x->name)) return val_word(x->name);
    Val v = el_expr(e, x);
    if (n == 0 || v.kind == V_ERROR || v.kind == V_ABSENT || v.kind == V_WORD) return v;
    return el_fail(e, x->loc, D_OPTION_WORD, arg->name.text, ctx_intern(e->ctx, words, n));
}

/// NumPy and PyTorch keep a folded axis by an argument.
static void hint_kept_axis(Elab *e, const char *name) {
    if (strncmp(name, "keepdim", strlen("keepdim")) == 0)
        diag_hint(e->ctx, "`None` keeps an axis of extent 1: sum(x, axis = 1)[:, None]");
}

/// Finds a named argument in the row's list of names. Returns its index, or -1 after an error.
static int find_named_arg(Elab *e, const Builtin *f, const Arg *arg, const char **words,
                          size_t *n) {
    const char *s = f->named;
    for (int i = 0; *s; i++) {
        size_t len = strcspn(s, " "), name = strcspn(s, " =");
        if (strlen(arg->name.text) == name && memcmp(s, arg->name.text, name) == 0) {
            *words = s + name + (name < len);
            *n = name < len ? len - name - 1 : 0;
            return i;
        }
        s += len + (s[len] == ' ');
    }
    el_fail(e, arg->name.loc, D_NO_NAMED_ARGUMENT, f->name, arg->name.text);
    if (*f->named) diag_hint(e->ctx, "it has: %s", f->named);
    hint_kept_axis(e, arg->name.text);
    return -1;
}

/// Reads the named arguments of a builtin by the row's list; omitted ones are absent.
static bool named_args(Elab *e, const Builtin *f, const Args *args, Val *named, Loc *locs) {
    bool ok = true;
    for (int i = 0; i < MAX_NAMED; i++) named[i] = val_absent();
    for (int i = 0; i < args->n; i++) {
        if (!args->at[i].name.text) continue;
        const char *words;
        size_t n;
        int k = find_named_arg(e, f, &args->at[i], &words, &n);
        if (k >= 0) {
            named[k] = named_arg_value(e, &args->at[i], words, n);
            locs[k] = args->at[i].value->loc;
        }
        ok &= k >= 0 && named[k].kind != V_ERROR;
    }
    return ok;
}

static void bad_count(Elab *e, Loc loc, const Builtin *f, int n) {
    el_fail(e, loc, D_ARGUMENT_COUNT, f->name, f->min_args, n);
    if (*f->args) diag_hint(e->ctx, "%s(%s)", f->name, f->args);
}

/// Whether a builtin may be called here. Statements order effects, so a call with an effect must be
/// a whole statement.
static bool builtin_allowed(Elab *e, Loc loc, const Builtin *f, int n, bool effect_ok) {
    if ((f->flags & BF_EFFECT) && !effect_ok)
        el_fail(e, loc, D_EFFECT_INSIDE, f->name);
    else if ((f->flags & BF_PROGRAM) && !e->in_program)
        el_fail(e, loc, D_NEEDS_PROGRAM, f->name);
    else if ((f->flags & BF_HOST) && e->in_program)
        el_fail(e, loc, D_NEEDS_HOST, f->name);
    else if (n < f->min_args || (f->max_args >= 0 && n > f->max_args))
        bad_count(e, loc, f, n);
    else
        return true;
    return false;
}

/// Evaluates all arguments, even after an error in one, so that each gets its own message.
static Val call_builtin(Elab *e, const Expr *x, const Builtin *f, bool effect_ok) {
    const Args *args = &x->call.args;
    Val *values = ctx_array(e->ctx, Val, args->n), named[MAX_NAMED];
    const Expr **exprs = ctx_array(e->ctx, const Expr *, args->n);
    Loc *locs = ctx_array(e->ctx, Loc, args->n), named_locs[MAX_NAMED] = {0};
    int n = 0;
    while (n < args->n && !args->at[n].name.text) {
        exprs[n] = args->at[n].value;
        locs[n] = exprs[n]->loc;
        n++;
    }
    if (!builtin_allowed(e, x->loc, f, n, effect_ok)) return val_error();
    bool ok = named_args(e, f, args, named, named_locs);
    for (int i = 0; i < n; i++) {
        bool place = (i == 0 && (f->flags & BF_PLACE)) || (i == 2 && (f->flags & BF_SIGNAL));
        values[i] = place ? val_void() : el_expr(e, exprs[i]);
        ok &= values[i].kind != V_ERROR;
    }
    e->b.loc = el_loc(e, x->loc);
    Call call = {x->loc, f, n, values, exprs, locs, named, named_locs};
    return ok ? f->apply(e, &call) : val_error();
}

/// Calls f on values for reductions and `merge`. The values have no place in the source.
Val el_call(Elab *e, Loc loc, Val fn, int n, const Val *args) {
    if (fn.kind == V_FN && fn.fn.def) return el_inline(e, loc, fn.fn.def, n, args);
    if (fn.kind != V_FN)
        return fn.kind == V_ERROR ? fn : el_fail(e, loc, D_NOT_A_FUNCTION, val_text(e, fn));
    const Builtin *f = fn.fn.builtin;
    if (f->flags || !builtin_allowed(e, loc, f, n, false))
        return f->flags ? el_fail(e, loc, D_EFFECT_INSIDE, f->name) : val_error();
    Loc *locs = ctx_array(e->ctx, Loc, n);
    Val named[MAX_NAMED];
    for (int i = 0; i < n; i++) locs[i] = loc;
    for (int i = 0; i < MAX_NAMED; i++) named[i] = val_absent();
    Call call = {loc, f, n, args, NULL, locs, named, locs};
    return f->apply(e, &call);
}

OpCode el_monoid(Val fn) {
    static const OpCode monoids[] = {OP_ADD, OP_MUL, OP_MIN, OP_MAX, OP_AND, OP_OR, OP_XOR};
    if (fn.kind != V_FN || fn.fn.def) return OP_COUNT;
    for (size_t i = 0; i < sizeof monoids / sizeof *monoids; i++)
        if (strcmp(op_info[monoids[i]].name, fn.fn.builtin->name) == 0) return monoids[i];
    return OP_COUNT;
}

/* ---- calls of fns -------------------------------------------------------------------------- */

static int param_index(const FnDef *f, const char *name) {
    for (int i = 0; i < f->params.n; i++)
        if (f->params.at[i].name.text == name) return i;
    return -1;
}

/// Checks that all arguments are given. Fns of the library may be called with fewer: the rest is
/// absent.
static bool all_given(Elab *e, Loc loc, const FnDef *f, const bool *given) {
    if (program_is_library(e->program, f->loc.file)) return true;
    for (int i = 0; i < f->params.n; i++) {
        if (given[i] || f->params.at[i].optional) continue;
        el_fail(e, loc, D_MISSING_ARGUMENT, f->name.text, f->params.at[i].name.text);
        return false;
    }
    return true;
}

static void no_parameter(Elab *e, const FnDef *f, Name name) {
    el_fail(e, name.loc, D_NO_NAMED_ARGUMENT, f->name.text, name.text);
    Text all = {.ctx = e->ctx};
    for (int i = 0; i < f->params.n; i++)
        text_add(&all, "%s%s", i ? ", " : "", f->params.at[i].name.text);
    if (f->params.n) diag_hint(e->ctx, "it has: %s", all.data);
    hint_kept_axis(e, name.text);
}

/// Puts the arguments in the order of the parameters; an omitted one is V_ABSENT.
static bool order_args(Elab *e, const Expr *x, const FnDef *f, Val *out) {
    const Args *args = &x->call.args;
    bool ok = true, *given = ctx_array(e->ctx, bool, f->params.n);
    for (int i = 0; i < f->params.n; i++) out[i] = val_absent();
    for (int i = 0; i < args->n; i++) {
        const Arg *arg = &args->at[i];
        int k = arg->name.text ? param_index(f, arg->name.text) : i;
        if (k < 0) no_parameter(e, f, arg->name);
        if (k >= f->params.n) {
            el_fail(e, arg->value->loc, D_ARGUMENT_COUNT, f->name.text, f->params.n, args->n);
            return false;
        }
        if (k >= 0 && given[k])
            el_fail(e, arg->value->loc, D_NAMED_TWICE, f->params.at[k].name.text);
        if (k < 0 || given[k]) return false;
        given[k] = true;
        out[k] = el_expr(e, arg->value);
        ok &= out[k].kind != V_ERROR;
    }
    return all_given(e, x->loc, f, given) && ok;
}

/// `f32(x)` is the form of other languages and gets its own hint.
Val el_call_expr(Elab *e, const Expr *x, bool effect_ok) {
    Val fn = el_expr(e, x->call.callee);
    if (fn.kind == V_ERROR) return fn;
    if (fn.kind == V_ELEM) {
        el_fail(e, x->loc, D_NOT_A_FUNCTION, val_text(e, fn));
        diag_hint(e->ctx, "to convert write 'x as %s'", elem_info[fn.elem].name);
        return val_error();
    }
    if (fn.kind != V_FN) return el_fail(e, x->loc, D_NOT_A_FUNCTION, val_text(e, fn));
    if (fn.fn.builtin) return call_builtin(e, x, fn.fn.builtin, effect_ok);
    const FnDef *f = fn.fn.def;
    Val *args = ctx_array(e->ctx, Val, f->params.n);
    if (!order_args(e, x, f, args)) return val_error();
    e->b.loc = el_loc(e, x->loc);
    if (!f->is_kernel) return el_inline(e, x->loc, f, f->params.n, args);
    if (!effect_ok) return el_fail(e, x->loc, D_EFFECT_INSIDE, f->name.text);
    return el_call_kernel(e, x->loc, f, args);
}
