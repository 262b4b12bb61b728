// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What editors show of an elaboration: the types of a file's values, and corrections of its text.
#include "frontend/elab/elab.h"

#include <string.h>

/* ---- types --------------------------------------------------------------------------------- */

static void add_type_words(Elab *e, Text *out, Val v);

/// Prints f32[?, 64]: extents that the instance does not hold as constants are `?`.
static void add_tensor_words(Elab *e, Text *out, const Tensor *t) {
    text_add(out, "%s%s", t->sym ? "sym " : "", t->elem < EL_COUNT ? elem_info[t->elem].name : "?");
    for (int i = 0; i < t->n_dims; i++) {
        Val extent = t->dims[i].extent;
        const char *between = i == 0 ? "[" : t->sym && i == 1 ? "][" : ", ";
        bool known = extent.kind == V_CONST && extent.c.type == CK_INT;
        text_add(out, "%s%s", between, known ? val_const_text(e, extent) : "?");
    }
    text_add(out, t->n_dims ? "]" : "[]");
}

static void add_tuple_words(Elab *e, Text *out, Val v) {
    for (int i = 0; i < v.tuple.n; i++) {
        text_add(out, i ? ", " : "(");
        add_type_words(e, out, v.tuple.at[i]);
    }
    text_add(out, ")");
}

static void add_type_words(Elab *e, Text *out, Val v) {
    switch (v.kind) {
    case V_CONST: text_add(out, "%s", val_const_text(e, v)); break;
    case V_IR: text_add(out, "%s", type_words(e, v.ir.v->type)); break;
    case V_RANGE: text_add(out, "range<%lld>", (long long)v.range->size); break;
    case V_TENSOR: add_tensor_words(e, out, v.tensor); break;
    case V_TUPLE: add_tuple_words(e, out, v); break;
    case V_ELEM: text_add(out, "%s", elem_info[v.elem].name); break;
    case V_ABSENT: text_add(out, "absent"); break;
    default: text_add(out, "?"); break;
    }
}

void el_note_type(Elab *e, Loc loc, const Expr *x, Val v) {
    NameTable *names = e->program->names;
    if (!names->keeps_types || loc.file != names->types_of) return;
    if (v.kind == V_ERROR || v.kind == V_VOID || v.kind == V_FN || v.kind == V_WORD) return;
    Text text = {.ctx = e->ctx};
    add_type_words(e, &text, v);
    TypeNote note = {.loc = loc, .expr = x, .text = ctx_name(e->ctx, text.data)};
    if (e->frame) note.call = e->frame->call;
    names_type(e->ctx, names, note);
}

/* ---- corrections --------------------------------------------------------------------------- */

/// Returns the number of bytes of the bracket group at s, or 0 if it is not closed.
static size_t group_length(const char *s) {
    int depth = 0;
    for (size_t i = 0; s[i]; i++) {
        depth += strchr("([", s[i]) != NULL;
        depth -= strchr(")]", s[i]) != NULL;
        if (depth == 0) return i + 1;
    }
    return 0;
}

/// Whether the text is a name, a literal, or these with calls and subscripts behind. *whole: its
/// brackets are balanced; else the place is only the first line of the expression.
static bool is_postfix(const char *text, bool *whole) {
    bool postfix = true;
    *whole = true;
    for (const char *s = text; *s;) {
        if (strchr(")]", *s)) return *whole = false;
        size_t n = strchr("([", *s) ? group_length(s) : 1;
        if (!n) return *whole = false;
        bool word = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_' ||
                    (*s >= '0' && *s <= '9') || *s == '.';
        postfix &= word || (n > 1 && s > text);
        s += n;
    }
    return postfix;
}

void el_offer_cast(Elab *e, Loc loc, Elem elem) {
    const char *text = e->frame ? NULL : diag_text_at(e->ctx, loc);
    bool whole = false, postfix = text && *text && is_postfix(text, &whole);
    if (!whole) return;
    diag_offer(e->ctx, loc,
               ctx_format(e->ctx, postfix ? "%s as %s" : "(%s) as %s", text, elem_info[elem].name));
}

void el_offer_call(Elab *e, Loc loc, const char *function, Loc argument) {
    const char *text = e->frame ? NULL : diag_text_at(e->ctx, argument);
    bool whole = false;
    if (text) is_postfix(text, &whole);
    if (whole) diag_offer(e->ctx, loc, ctx_format(e->ctx, "%s(%s)", function, text));
}
