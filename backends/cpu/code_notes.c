// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Notes for `tegula explain`: a line for each loop nest and each loop of products. Marks for
// `tegula profile`: a call of the runtime where each of them begins.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "backends/cpu/emit.h"

/// Starts a line: "  30:9    ...".
static void begin_note(Emit *e, const Op *op) {
    char place[32] = "";
    if (op && op->loc.line) snprintf(place, sizeof place, "%u:%u", op->loc.line, op->loc.col);
    text_add(e->cpu->notes, "  %-8s", place);
}

void note(Emit *e, const Op *op, const char *fmt, ...) {
    char text[512];
    va_list args;
    if (!e->cpu->notes) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    begin_note(e, op);
    text_add(e->cpu->notes, "%s\n", text);
}

static void add_type_extents(Text *t, const Type *type) {
    for (int i = 0; i < type->rank; i++)
        text_add(t, "%s%" PRId64, i ? " x " : "", type->extents[i]);
}

static const Op *op_of(const Root *r) {
    return r->op ? r->op : r->value->def;
}

/// Adds the result that a root leaves in memory or registers.
static void add_root(Text *t, const Root *r) {
    const Op *op = op_of(r);
    if (r->kind == ROOT_STORE || r->kind == ROOT_ATOMIC) {
        const Value *tensor = access_of(r->op).tensor;
        text_add(t, "%s '%s'", r->kind == ROOT_STORE ? "stores" : "updates",
                 tensor->name ? tensor->name : "scratch");
    } else if (r->kind == ROOT_BUFFER) {
        text_add(t, "keeps %s", op ? op_info[op->code].name : "a block");
        if (op && op->loc.line) text_add(t, " of line %u", op->loc.line);
        text_add(t, " (%" PRId64 " KiB)", (r->out->bytes + 1023) / 1024);
    } else {
        text_add(t, "%s", op ? op_info[op->code].name : "a loop");
        if (op && op->loc.line) text_add(t, " of line %u", op->loc.line);
    }
}

void code_mark(Emit *e, const Op *op, const char *text) {
    if (!e->cpu->marks) return;
    if (!op) op = e->cpu->kernel;
    LLVMValueRef args[2] = {e->env, make_site(e, op, TG_SITE_MARK, text, "", 0)};
    env_call(e, ENV_MARK, 2, args);
}

void code_note_nest(Emit *e, const Nest *n) {
    if (!e->cpu->notes && !e->cpu->marks) return;
    Text t = {.ctx = e->ctx};
    text_add(&t, "loops over ");
    if (n->space->rank == 0) text_add(&t, "one element");
    add_type_extents(&t, n->space);
    if (n->lanes) text_add(&t, ", vectors of %d along axis %d", n->lanes, n->vector);
    int places = 1;
    for (int i = 0; i < n->n_axes; i++) places *= n->axes[i].tile;
    if (places > 1) text_add(&t, ", %d at once", places);
    text_add(&t, ": ");
    for (int i = 0; i < n->roots.n; i++) {
        if (i) text_add(&t, ", ");
        add_root(&t, &n->roots.data[i]);
    }
    const Op *op = op_of(&n->roots.data[0]);
    note(e, op, "%s", t.data);
    code_mark(e, op, t.data);
}
