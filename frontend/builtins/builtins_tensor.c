// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builtins on positions and tensors, and those with an effect: combine, atomics, assert, print.
#include "frontend/builtins/builtins_private.h"

#include <string.h>

/* ---- positions ----------------------------------------------------------------------------- */

Val bi_index(Elab *e, const Call *call) {
    Val v = call->args[0];
    if (val_is(v, V_RANGE)) return el_range_index(e, v.range);
    if (val_is(v, V_ERROR)) return v;
    if (v.kind == V_IR && elem_is(v.ir.v->type->elem, EC_INT))
        return v; // the index of a loop without `by` is one already
    return bad_argument(e, call, 0, "a range");
}

Val bi_valid(Elab *e, const Call *call) {
    Val v = call->args[0];
    if (val_is(v, V_RANGE)) return val_ir(el_range_valid(e, v.range));
    if (val_is(v, V_ERROR)) return v;
    if (v.kind == V_CONST) return val_bool(true);
    if (v.kind != V_IR) return bad_argument(e, call, 0, "a range or a block of positions");
    return val_ir(el_valid_of(e, v));
}

Val bi_present(Elab *e, const Call *call) {
    Value *x = arg_block(e, call, 0, 0, EC_ANY, "a scalar or a block");
    return x ? val_ir(el_present(e, x)) : val_error();
}

Val bi_range(Elab *e, const Call *call) {
    Value *lo = el_index(e, call->locs[0], call->args[0], "the start of `range`");
    Value *hi = el_index(e, call->locs[1], call->args[1], "the end of `range`");
    int64_t size;
    if (!lo || !hi || !el_extent(e, call->locs[2], call->args[2], "the size of `range`", &size))
        return val_error();
    return el_range(e, lo, hi, size);
}

Val bi_cover(Elab *e, const Call *call) {
    return el_cover(e, call->locs[0], call->args[0]);
}

/// (a + b - 1) / b, for positive b.
Val bi_ceildiv(Elab *e, const Call *call) {
    Val a = call->args[0], b = call->args[1];
    Val top = el_binary(e, call->loc, BI_SUB, el_binary(e, call->loc, BI_ADD, a, b), val_int(1));
    return el_binary(e, call->loc, BI_DIV, top, b);
}

static const Tensor *arg_tensor(Elab *e, const Call *call) {
    if (val_is(call->args[0], V_TENSOR)) return call->args[0].tensor;
    if (!val_is(call->args[0], V_ERROR)) bad_argument(e, call, 0, "a tensor");
    return NULL;
}

Val bi_stride(Elab *e, const Call *call) {
    const Tensor *t = arg_tensor(e, call);
    int64_t dim;
    if (!t || !el_axis(e, call->locs[1], call->args[1], t->n_dims, &dim)) return val_error();
    const Type *type = ty_scalar(e->ir, EL_I64);
    Op *op = build_op(&e->b, OP_STRIDE, 1, &(Value *){t->v}, 1, &type, 0);
    // a pack counts by its last axis
    int axis = t->dims[dim].first + t->dims[dim].axes - 1;
    if (t->dims[dim].axes == 0) return val_int(1);
    op_set_int(e->ir, op, A_AXIS, axis);
    return val_ir(result(op, 0));
}

Val bi_align(Elab *e, const Call *call) {
    const Tensor *t = arg_tensor(e, call);
    if (!t) return val_error();
    const Type *type = ty_scalar(e->ir, EL_I64);
    return val_ir(result(build_op(&e->b, OP_ALIGN, 1, &(Value *){t->v}, 1, &type, 0), 0));
}

/* ---- combine ------------------------------------------------------------------------------- */

static bool same_subscripts(const Place *a, const Place *b) {
    if (a->n_subs != b->n_subs || a->n_operands != b->n_operands) return false;
    for (int i = 0; i < a->n_subs; i++)
        if (a->subs[i].kind != b->subs[i].kind || a->subs[i].size != b->subs[i].size ||
            a->subs[i].mul != b->subs[i].mul)
            return false;
    for (int i = 0; i < a->n_operands; i++) {
        const Attr *x = const_of(a->operands[i]), *y = const_of(b->operands[i]);
        if (a->operands[i] != b->operands[i] && (!x || x != y)) return false;
    }
    return true;
}

/// Reads the places of combine: one, or the entries of a tuple. Returns 0 after an error.
static int combine_places(Elab *e, const Call *call, Place **out) {
    const Expr *x = call->exprs[0];
    bool tuple = x->kind == EX_TUPLE;
    int n = tuple ? x->tuple.n : 1;
    Place *places = ctx_array(e->ctx, Place, n);
    for (int i = 0; i < n; i++) {
        const Expr *one = tuple ? x->tuple.at[i] : x;
        if (!el_place(e, one, "combine", &places[i])) return 0;
        if (places[i].has_picks) {
            el_fail(e, one->loc, D_COMBINE_PICKS);
            diag_hint(e->ctx, "use atomic_add and its like, which take any subscript");
            return 0;
        }
        if (!same_subscripts(&places[0], &places[i])) {
            el_fail(e, one->loc, D_COMBINE_SUBSCRIPTS);
            return 0;
        }
    }
    *out = places;
    return n;
}

/// Converts a contribution to the element type of its place, which is sent to the owner.
static Value *combine_contribution(Elab *e, const Call *call, const Place *p, Val v) {
    v = el_value(e, call->locs[1], v);
    if (val_is(v, V_ERROR)) return NULL;
    Elem elem = v.kind == V_IR ? v.ir.v->type->elem : p->tensor->elem;
    if (elem_info[elem].cls != elem_info[p->tensor->elem].cls) {
        el_fail(e, call->locs[1], D_COMBINE_ELEM, val_text(e, v), p->tensor->name,
                elem_info[p->tensor->elem].name);
        diag_hint(e->ctx, "write `as %s`", elem_info[p->tensor->elem].name);
        el_offer_cast(e, call->locs[1], p->tensor->elem);
        return NULL;
    }
    Value *x = el_convert(e, call->locs[1], v, ty_with_elem(e->ir, p->type, elem),
                          "the value of `combine`");
    return x ? build_reshape(&e->b, x, ty_with_elem(e->ir, p->plain, elem)) : NULL;
}

static void mark_place(const Place *p, bool read) {
    if (!p->tensor->use) return;
    p->tensor->use->written = true;
    p->tensor->use->read |= read;
}

Val bi_combine(Elab *e, const Call *call) {
    Place *places = NULL;
    bool keep;
    int n = combine_places(e, call, &places);
    if (!n || !arg_flag(e, call, 0, &keep) || val_is(call->args[1], V_ERROR)) return val_error();
    Val v = call->args[1];
    if ((val_is(v, V_TUPLE) ? v.tuple.n : 1) != n)
        return el_fail(e, call->loc, D_COMBINE_COUNT, n, val_text(e, v));
    Values operands = {0};
    Elem *parts = ctx_array(e->ctx, Elem, n);
    for (int i = 0; i < n; i++) vec_push(e->ctx, &operands, places[i].tensor->v);
    for (int i = 0; i < n; i++) {
        Value *x =
            combine_contribution(e, call, &places[i], val_is(v, V_TUPLE) ? v.tuple.at[i] : v);
        if (!x) return val_error();
        parts[i] = wide_elem(x->type->elem);
        vec_push(e->ctx, &operands, x);
        mark_place(&places[i], keep);
    }
    for (int i = 0; i < places[0].n_operands; i++)
        vec_push(e->ctx, &operands, places[0].operands[i]);
    Op *op = build_op(&e->b, OP_COMBINE, operands.n, operands.data, 0, NULL, 1);
    op_set_int(e->ir, op, A_N_TENSORS, n);
    op_set_subs(e->ir, op, A_SUBS, places[0].subs, places[0].n_subs);
    if (keep) op_set_flag(e->ir, op, A_ACCUMULATE, true);
    el_monoid_region(e, call->loc, call->args[2], n, parts, op->regions[0]);
    return val_void();
}

/* ---- atomics ------------------------------------------------------------------------------- */

/// OpenSHMEM's names for atomics: the op, and the `n` omitted values, each of them `value`.
static const struct Alias {
    const char *name;
    Update op;
    int n, value;
    bool silent; // has no result
} aliases[] = {
    {"set", UPDATE_XCHG, 0, 0, true},          {"inc", UPDATE_ADD, 1, 1, true},
    {"fetch", UPDATE_CAS, 2, 0, false}, // swaps 0 for 0
    {"fetch_inc", UPDATE_ADD, 1, 1, false},    {"fetch_add", UPDATE_ADD, 0, 0, false},
    {"fetch_and", UPDATE_AND, 0, 0, false},    {"fetch_or", UPDATE_OR, 0, 0, false},
    {"fetch_xor", UPDATE_XOR, 0, 0, false},    {"swap", UPDATE_XCHG, 0, 0, false},
    {"compare_swap", UPDATE_CAS, 0, 0, false},
};

static struct Alias meaning_of(const Builtin *b) {
    const char *kind = b->name + strlen("atomic_");
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i].name, kind) == 0) return aliases[i];
    return (struct Alias){.op = update_of_word(kind)};
}

/// Collects the values of an atomic in the op's order: the stored value, then the value that cas
/// expects. False after an error.
static bool atomic_values(Elab *e, const Call *call, const struct Alias *a, const Place *p,
                          Values *out) {
    const Type *type = ty_with_elem(e->ir, p->type, p->tensor->elem),
               *plain = ty_with_elem(e->ir, p->plain, p->tensor->elem);
    for (int i = call->n + a->n - 1; i >= 1; i--) {
        bool given = i < call->n;
        Val v = given ? call->args[i] : val_int(a->value);
        Value *x =
            el_convert(e, given ? call->locs[i] : call->loc, v, type, "the value of the atomic");
        if (!x) return false;
        vec_push(e->ctx, out, build_reshape(&e->b, x, plain));
    }
    return true;
}

Val bi_atomic(Elab *e, const Call *call) {
    Place p;
    struct Alias as = meaning_of(call->builtin);
    if (!el_place(e, call->exprs[0], call->builtin->name, &p)) return val_error();
    Elem elem = p.tensor->elem;
    if (!elem_is(elem, call->builtin->arg) || elem_info[elem].bits < 8)
        return el_fail(e, call->loc, D_ATOMIC_ELEM, call->builtin->name, elem_info[elem].name);
    const Type *type = ty_with_elem(e->ir, p.type, elem),
               *plain = ty_with_elem(e->ir, p.plain, elem);
    Values operands = {0};
    vec_push(e->ctx, &operands, p.tensor->v);
    if (!atomic_values(e, call, &as, &p, &operands)) return val_error();
    for (int i = 0; i < p.n_operands; i++) vec_push(e->ctx, &operands, p.operands[i]);
    if (p.mask) vec_push(e->ctx, &operands, p.mask);
    Value *live = el_live(e, &p);
    Op *op = build_op(&e->b, OP_ATOMIC, operands.n, operands.data, 1, &plain, 0);
    op_set_update(e->ir, op, as.op);
    op_set_subs(e->ir, op, A_SUBS, p.subs, p.n_subs);
    if (val_is(p.pad, V_ABSENT)) op_set_flag(e->ir, op, A_CHECKED, true);
    mark_place(&p, true);
    return as.silent ? val_void() : val_ir_valid(build_reshape(&e->b, result(op, 0), type), live);
}

/* ---- assert, print ------------------------------------------------------------------------- */

static bool is_text_arg(const Call *call, int i) {
    return call->exprs && call->exprs[i]->kind == EX_STRING;
}

/// Appends a text in quotes and returns the number of its {}.
static int add_text_places(const Expr *x, Text *text) {
    int places = 0;
    for (size_t i = 0; i + 1 < x->string.len; i++)
        if (x->string.text[i] == '{' && x->string.text[i + 1] == '}') places++;
    text_bytes(text, x->string.text, x->string.len);
    return places;
}

/// Returns the end of a printf format such as %d or %5.2f, or NULL. `%%` and `100 %` are not
/// formats.
static const char *c_format(const char *at) {
    if (*at++ != '%') return NULL;
    at += strspn(at, "-+#0");
    at += strspn(at, "0123456789.");
    at += strspn(at, "hlzjt");
    return *at && strchr("diufFeEgGxXcsp", *at) ? at + 1 : NULL;
}

/// Warns of a printf format, which takes no value.
static void check_format(Elab *e, const Call *call, int i) {
    const Expr *x = call->exprs[i];
    for (const char *at = x->string.text; at < x->string.text + x->string.len; at++) {
        const char *end = c_format(at);
        if (!end) continue;
        diag(e->ctx, call->locs[i], D_TEXT_FORMAT, (int)(end - at), at);
        diag_hint(e->ctx, "a value goes to the next {}, or to the end of the text");
        return;
    }
}

/// Joins arguments from..n to one text; the values go to `out`. A value fills the first free {}
/// before it, or else is appended.
static bool add_texts(Elab *e, const Call *call, int from, Text *text, Values *out) {
    int places = 0, last = -1; // the number of free places; the last text
    for (int i = from; i < call->n; i++) {
        if (is_text_arg(call, i)) {
            if (i > from) text_add(text, " ");
            places += add_text_places(call->exprs[i], text);
            check_format(e, call, i);
            last = i;
            continue;
        }
        Val v = el_value(e, call->locs[i], call->args[i]);
        Value *x = val_is(v, V_ERROR) ? NULL : el_typed(e, call->locs[i], v, EL_COUNT);
        if (!x) return false;
        if (places)
            places--;
        else
            text_add(text, i > from ? " {}" : "{}");
        vec_push(e->ctx, out, x);
    }
    if (places) diag(e->ctx, call->locs[last], D_TEXT_PLACE);
    return true;
}

static void emit_effect(Elab *e, OpCode code, const Values *v, const Text *text) {
    Op *op = build_op(&e->b, code, v->n, v->data, 0, NULL, 0);
    op_set_str(e->ir, op, A_TEXT, text->data);
}

Val bi_assert(Elab *e, const Call *call) {
    Text text = {.ctx = e->ctx};
    Values v = {0};
    text_bytes(&text, "", 0);
    Value *c = arg_block(e, call, 0, 0, EC_BOOL, "a bool or a block of bools");
    if (!c) return val_error();
    if (!is_text_arg(call, 1)) return bad_argument(e, call, 1, "a text in quotes");
    vec_push(e->ctx, &v, c);
    if (!add_texts(e, call, 1, &text, &v)) return val_error();
    if (e->check) emit_effect(e, OP_ASSERT, &v, &text);
    return val_void();
}

Val bi_print(Elab *e, const Call *call) {
    Text text = {.ctx = e->ctx};
    Values v = {0};
    text_bytes(&text, "", 0);
    if (!add_texts(e, call, 0, &text, &v)) return val_error();
    emit_effect(e, OP_PRINT, &v, &text);
    return val_void();
}
