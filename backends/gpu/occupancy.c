// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many CTAs shall run side by side on an SM: "tg.minctasm", which bounds the registers that the
// assembler takes for a thread. Left alone it takes more than it needs, and kernels that wait for
// memory have fewer accesses under way.
//
// What a thread needs at least are the blocks that live across ops on which threads wait: loads,
// reductions, conversions. Between those, elementwise code goes register by register.
#include "backends/gpu/access.h"

// Addresses, masks and what a few registers of an elementwise chain take: more, where there are
// more to go through. Threads with many words have enough accesses under way.
enum {
    OTHER_REGISTERS = 16,
    WORDS_A_REGISTER = 8,
    LEAST_REGISTERS = 32,
    MANY_WORDS = 40,
    MANY_FOLDED = 8
};

typedef struct Pressure {
    int next;   // number of the next op
    bool heavy; // products, asynchronous work, loops, scans, large folds: the assembler decides
    bool meets; // threads wait for each other
} Pressure;

static void number_op(Op *op, void *arg) {
    Pressure *p = arg;
    op->mark = p->next++;
    p->heavy |= op->code == OP_DOT || op->code == OP_SORT;
    p->heavy |= op->code == OP_FOR || op->code == OP_WHILE || op->code == OP_SCAN;
    p->meets |= op->code == OP_REDUCE || op->code == OP_CONVERT;
    bool folds = op->code == OP_REDUCE && op->n_operands > 1;
    p->heavy |= folds && gpu_registers(operand(op, 0)->type) > MANY_FOLDED;
    for (int i = 0; i < op->n_results; i++) p->heavy |= result(op, i)->type->kind != TK_BLOCK;
}

/// Its result is its operand's registers, or made of nothing.
static bool is_alias(const Op *op) {
    switch (op->code) {
    case OP_CONST:
    case OP_IOTA:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_SLICE:
    case OP_CONCAT: return true;
    default: return false;
    }
}

/// The op of region r that u stands in, or is.
static const Op *within(const Op *u, const Region *r) {
    while (u && u->parent != r) u = u->parent ? u->parent->parent : NULL;
    return u;
}

/// The number of the last op of r that needs v.
static int last_use(const Value *v, const Region *r) {
    int last = -1;
    for_each_use(u, v) {
        const Op *op = within(u->user, r);
        if (!op) continue;
        int at = op->mark;
        if (op == u->user && is_alias(op) && op->n_results) {
            int through = last_use(result(op, 0), r);
            at = through > at ? through : at;
        }
        if (at > last) last = at;
    }
    return last;
}

static int words_of(const Value *v) {
    if (!v->type->rank || (v->def && is_alias(v->def))) return 0;
    return (gpu_registers(v->type) * elem_bytes(v->type->elem) + 3) / 4;
}

static bool waits(const Op *op) {
    return !op_has(op, ELEMENTWISE) && !is_alias(op) && op->code != OP_CAST &&
           op->code != OP_SELECT && op->code != OP_BITCAST && op->code != OP_LIVE;
}

/// Words of what stands before op in its region and is needed behind it.
static int live_across(const Op *op) {
    const Region *r = op->parent;
    int words = 0;
    for (int i = 0; i < r->n_args; i++)
        if (ty_is_block(r->args[i]->type) && last_use(r->args[i], r) > op->mark)
            words += words_of(r->args[i]);
    for (const Op *before = r->first; before != op; before = before->next)
        for (int i = 0; i < before->n_results; i++)
            if (last_use(result(before, i), r) > op->mark) words += words_of(result(before, i));
    return words;
}

static int most_words(const Region *r) {
    int most = 0;
    for_each_op(op, r) {
        if (!waits(op)) continue;
        int words = live_across(op), inside = 0;
        if (op->code == OP_LOAD) words += gpu_words_ahead(op);
        for (int i = 0; i < op->n_results; i++) words += words_of(result(op, i));
        for (int i = 0; i < op->n_regions && op->code != OP_REDUCE && op->code != OP_SCAN; i++) {
            int n = most_words(op->regions[i]);
            inside = n > inside ? n : inside;
        }
        most = words + inside > most ? words + inside : most;
    }
    return most;
}

static int least(int a, int64_t b) {
    return a < b ? a : (int)b;
}

int gpu_occupancy(GpuFn *f) {
    const GpuTarget *t = f->target;
    Pressure p = {.next = 0};
    op_walk_pre((Op *)f->device, number_op, &p);
    if (p.heavy || !p.meets || f->kernel->faults) return 1;
    int words = most_words(f->device->regions[0]);
    if (words > MANY_WORDS) return 1;
    int registers = words + OTHER_REGISTERS + words / WORDS_A_REGISTER;
    if (registers < LEAST_REGISTERS) registers = LEAST_REGISTERS;
    int ctas = t->registers_sm / (registers * f->threads);
    ctas = least(ctas, t->threads_sm / f->threads);
    ctas = least(ctas, t->ctas_sm);
    if (f->shared_bytes) ctas = least(ctas, t->shared_sm / f->shared_bytes);
    return ctas > 1 ? ctas : 1;
}
