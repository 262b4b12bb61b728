// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warnings of the pass `pads`. A hint is tested first: it names a pad only if reading with it
// silences this warning and causes no other.
#include "passes/pads/pads.h"

#include "lang/diag.h"

#include <math.h>
#include <string.h>

static const char *tensor_name(const Op *load) {
    const char *name = operand(load, 0)->name;
    return name ? name : "a tensor";
}

/// Returns the source's name of the range, or an ellipsis.
static const char *range_name(const Pads *p, const Value *count) {
    if (!count || !count->name || !*count->name) return "...";
    size_t n = strlen(count->name), tail = strlen(LIVE_COUNT);
    bool is_count = n > tail && strcmp(count->name + n - tail, LIVE_COUNT) == 0;
    return is_count ? ctx_format(p->ctx, "%.*s", (int)(n - tail), count->name) : count->name;
}

/* ---- pads for hints ------------------------------------------------------------------------ */

// Each trial analyses the whole kernel, so their number and the kernel's length are limited.
enum { MAX_TRIED = 16, MAX_FACTS = 1000 };

/// Returns the number of warnings if the read had this pad (changed NULL: unchanged), and that of
/// op in *of_op.
static int try_pad(const Pads *p, const Op *op, const Op *read, Cell pad, int *of_op) {
    Pads q = {.ir = p->ir, .ctx = p->ctx, .kernel = p->kernel, .quiet = true, .target = op};
    q.changed = read;
    q.pad = pad;
    pads_run(&q);
    if (of_op) *of_op = q.n_said_of_target;
    return q.n_said;
}

/// Returns the source text of a pad that silences the warning of op and adds no other, or NULL.
static const char *helpful_pad(Pads *p, const Op *op, const Fact *f, const char *identity) {
    static const char *const numbers[] = {"0", "-inf", "inf", "1"}, *const bools[] = {"false",
                                                                                      "true"};
    static const double values[] = {0, -HUGE_VAL, HUGE_VAL, 1};
    Elem e = result(f->read, 0)->type->elem;
    if (f->read->code != OP_LOAD || p->n_facts > MAX_FACTS || p->n_tried++ >= MAX_TRIED)
        return NULL;
    int n = e == EL_BOOL ? 2 : 4, now = try_pad(p, op, NULL, (Cell){0}, NULL);
    const char *found = NULL;
    for (int i = 0; i < n; i++) {
        const char *text = e == EL_BOOL ? bools[i] : numbers[i];
        int of_op,
            all = try_pad(p, op, f->read,
                          cell_cast(EL_F64, e, (Cell){.f = e == EL_BOOL ? i : values[i]}), &of_op);
        if (of_op || all >= now) continue;
        if (!found || strcmp(text, identity) == 0) found = text;
    }
    return found;
}

/// Returns "valid(n)", with axes of 1 so that it lies along this axis of a block.
static const char *valid_choice(const Pads *p, const Type *t, int axis, const Fact *f) {
    Text out = {.ctx = p->ctx};
    text_add(&out, "valid(%s)", range_name(p, f->count));
    for (int d = 0; d < t->rank && t->rank > 1; d++)
        text_add(&out, "%s%s", d ? ", " : "[", d == axis ? ":" : "None");
    if (t->rank > 1) text_add(&out, "]");
    return out.data;
}

/* ---- messages ------------------------------------------------------------------------------ */

static const char *identity_text(const Pads *p, OpCode code, Elem e) {
    if (code == OP_ADD) return "0";
    if (code == OP_MAX) return "-inf";
    if (code == OP_MIN) return "inf";
    if (code == OP_COUNT) return "";
    return cell_text(p->ctx, e, cell_of_attr(e, monoid_identity(p->ir, code, e)));
}

/// Returns the source's name of the op.
static const char *op_words(const Op *op, OpCode code) {
    bool fold = op->code == OP_REDUCE && code != OP_COUNT;
    return op_info[fold ? code : op->code].name;
}

static bool is_warning_counted(Pads *p, const Op *op) {
    p->n_said++;
    p->n_said_of_target += op == p->target;
    return p->quiet;
}

/// The text of the subscript at loc with a pad; NULL if it has one, or is on several lines.
static const char *text_with_pad(const Pads *p, Loc loc, const char *pad) {
    const char *text = diag_text_at(p->ctx, loc);
    size_t n = text ? strlen(text) : 0;
    if (!n || text[n - 1] != ']' || strstr(text, "pad")) return NULL;
    return ctx_format(p->ctx, "%.*s, pad = %s]", (int)n - 1, text, pad);
}

void pads_warn(Pads *p, const Op *op, int i, int axis, const Fact *f, OpCode code) {
    if (!f->read || is_warning_counted(p, op)) return;
    const Type *t = operand(op, i)->type;
    bool known = f->holds == CONSTANT;
    const char *pad = known ? cell_text(p->ctx, t->elem, f->value) : "the pad";
    const char *how = known ? "as" : "computed from", *wanted = identity_text(p, code, t->elem);
    const char *helps = helpful_pad(p, op, f, wanted);
    if (code == OP_COUNT)
        diag(p->ctx, f->read->loc, D_PAD_CHANGES, tensor_name(f->read), op_words(op, code), how,
             pad);
    else
        diag(p->ctx, f->read->loc, D_PAD_REACHES, tensor_name(f->read), op_words(op, code), how,
             pad, wanted);
    diag_note(p->ctx, op->loc, "here");
    const char *valid = valid_choice(p, t, axis, f), *otherwise = *wanted ? wanted : "...";
    const char *read = helps ? text_with_pad(p, f->read->loc, helps) : NULL;
    if (helps)
        diag_fix(p->ctx, read ? f->read->loc : (Loc){0}, read ? read : "",
                 "read with `pad = %s`, or choose with `%s ? ... : %s`", helps, valid, otherwise);
    else
        diag_hint(p->ctx, "replace the lanes beyond the end first: `%s ? ... : %s`", valid,
                  otherwise);
}

void pads_warn_crossed(Pads *p, const Op *store, const Op *load) {
    if (is_warning_counted(p, store)) return;
    diag(p->ctx, store->loc, D_CROSSED_STORE, tensor_name(load), tensor_name(store));
    diag_note(p->ctx, load->loc, "read here");
    const char *text = diag_text_at(p->ctx, load->loc);
    bool whole = text && *text && text[strlen(text) - 1] == ']';
    diag_fix(p->ctx, whole ? load->loc : (Loc){0},
             whole ? ctx_format(p->ctx, "trans(%s)", text) : "",
             "write trans(%s[...]) for a transposition", tensor_name(load));
}
