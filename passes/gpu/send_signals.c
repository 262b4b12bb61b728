// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the signals of sums that a program sends to stages of other ranks
// (passes/comm/comm_stage.c), while `sync` walks the schedule. After the store of a part, its
// `deferrable` signal must be raised before the next part is stored and before the program ends.
// The signal may be raised one iteration later, so the check traces carried values to the yielded
// ones. Before the first part, the coordinate is -1 and no signal is raised.
#include "passes/gpu/send_signals.h"

#include "passes/gpu/async/async.h"

#include <string.h>

enum { SIGNAL_TO = 2, SIGNAL_FROM = 3 }; // positions of operands

void send_signals_begin(Sending *s, Ctx *ctx, Op *module, const Op *device) {
    *s = (Sending){.ctx = ctx, .dispatch = dispatch_of(module, device)};
}

static const Value *passed_origin(const Sending *s, const Value *v) {
    const Value *origin = map_get(&s->origin, v);
    return origin ? origin : v;
}

void send_signals_pass(Sending *s, const Value *from, const Value *to) {
    map_set(s->ctx, &s->origin, to, (void *)(uintptr_t)passed_origin(s, from));
}

/// Whether v is a device parameter that is a stage, directly or as a tensor map.
static bool is_stage(const Sending *s, const Value *v) {
    if (v->def || !s->dispatch || v->index >= s->dispatch->n_operands) return false;
    const Value *host = operand(s->dispatch, v->index);
    const Op *map = def_of((Value *)(uintptr_t)host, OP_DESC);
    const Op *made = def_of(map ? operand(map, 0) : (Value *)(uintptr_t)host, OP_SCRATCH);
    const char *name = made ? op_str(made, A_NAME) : NULL;
    return name && op_flag(made, A_SYMMETRIC) && strcmp(name, "stage") == 0;
}

static void note_part_sent(Sending *s, const Op *op, const Value *to, const Value *from) {
    to = passed_origin(s, to);
    from = passed_origin(s, from);
    if (s->sent && s->sent_tile != s->tile) s->lost = op;
    if (s->sent && (to != s->to || from != s->from)) s->not_in_order = true;
    s->sent_tile = s->tile;
    s->sent = op;
    s->to = to;
    s->from = from;
}

static void note_signal_raised(Sending *s, const Op *op) {
    const Value *to = passed_origin(s, operand(op, SIGNAL_TO));
    const Value *from = passed_origin(s, operand(op, SIGNAL_FROM));
    bool first = !s->sent && is_const_int(to, -1);
    s->signals = true;
    if (!first && (!s->sent || to != s->to || from != s->from)) s->not_in_order = true;
    s->sent = NULL;
}

void send_signals_visit(Sending *s, const Op *op) {
    enum { COPY_FIRST = 3 };
    if (op->code == OP_SIGNAL_SET && op_flag(op, A_DEFERRABLE)) {
        note_signal_raised(s, op);
    } else if (op->code == OP_COPYOUT_TMA && is_stage(s, operand(op, 0))) {
        note_part_sent(s, op, operand(op, COPY_FIRST), operand(op, COPY_FIRST + 1));
    } else if (op->code == OP_STORE && is_stage(s, operand(op, 0))) {
        Access a = access_of(op);
        note_part_sent(s, op, sub_operand(op, &a, 0, 0), sub_operand(op, &a, 1, 0));
    }
}
