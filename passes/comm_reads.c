// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a kernel reads of a symmetric tensor: whether its shards may be brought here before programs
// read them, and whether chunk by chunk.
#include "passes/comm.h"
#include "passes/passes.h"

typedef struct Search {
    Ctx *ctx;
    CommReads *r;
} Search;

static void see_access(Op *op, void *arg) {
    Search *s = arg;
    if (!op_is_access(op) || operand(op, 0) != s->r->tensor) return;
    if (op->code == OP_LOAD || op->code == OP_LIVE)
        vec_push(s->ctx, &s->r->loads, op);
    else
        s->r->written = true;
}

void comm_know_levels(Ctx *ctx, const Op *phase, PtrMap *known) {
    for (const Op *p = phase; p; p = inner_parallel(p)) {
        Value *index = p->regions[0]->args[0];
        map_set(ctx, known, index, index);
    }
}

Op *comm_phase(const Op *op) {
    Op *phase = op_enclosing(op, OP_PARALLEL);
    for (Op *up = phase; up; up = op_enclosing(up, OP_PARALLEL)) phase = up;
    return phase;
}

/* ---- whose shards -------------------------------------------------------------------------- */

/// What a subscript rests on.
typedef struct Rests {
    Ctx *ctx;
    PtrMap seen;
    bool rank, data, index; // the own rank; what is loaded; an index of a loop or of programs
} Rests;

static void rest_on(Rests *r, const Value *v);

/// Of an op's results: what its operands and its body rest on.
static void rest_on_op(Rests *r, const Op *op) {
    r->rank |= op->code == OP_RANK;
    r->data |= op->code == OP_LOAD;
    for (int i = 0; i < op->n_operands && op->code != OP_LOAD; i++) rest_on(r, operand(op, i));
    for (int i = 0; i < op->n_regions; i++) {
        const Op *end = terminator(op->regions[i]);
        for (int k = 0; k < end->n_operands; k++) rest_on(r, operand(end, k));
    }
}

static void rest_on(Rests *r, const Value *v) {
    if (map_get(&r->seen, v)) return;
    map_set(r->ctx, &r->seen, v, r);
    const Op *loop = v->def ? v->def : v->region->parent;
    bool index = !v->def && v->index == 0;
    if (!v->def && loop->code != OP_FOR && loop->code != OP_PARALLEL) return;
    r->index |= index;
    if (!index) {
        rest_on_op(r, loop);
        return;
    }
    rest_on(r, operand(loop, 0));
    rest_on(r, operand(loop, 1));
}

static Rests rests_of(Ctx *ctx, const Op *access, const Access *a, int d) {
    Rests r = {.ctx = ctx};
    rest_on(&r, sub_operand(access, a, d, 0));
    return r;
}

CommWhose comm_whose(Ctx *ctx, const Op *access) {
    Access a = access_of(access);
    if (a.subs[0].kind != DIM_AT) return WHOSE_ANY;
    if (comm_is_own(sub_operand(access, &a, 0, 0))) return WHOSE_OWN;
    Rests r = rests_of(ctx, access, &a, 0);
    return r.rank && !r.data && !r.index ? WHOSE_OTHER : WHOSE_ANY;
}

/* ---- what may be done ---------------------------------------------------------------------- */

static void judge_load(Ctx *ctx, CommReads *r, const Op *load) {
    Access a = access_of(load);
    const Op *phase = comm_phase(load);
    if (!phase) {
        r->against = "host code reads it";
    } else if (a.subs[0].kind != DIM_AT) {
        r->chunked = "one access reads from several ranks";
    } else {
        PtrMap known = {0};
        comm_know_levels(ctx, phase, &known);
        if (!slice_is_movable(sub_operand(load, &a, 0, 0), phase, &known))
            r->chunked = "which rank is read is known inside of a loop only";
    }
    r->remote |= comm_whose(ctx, load) != WHOSE_OWN;
}

/// Rows lie one behind the other, each in one piece.
static const char *reason_against_rows(const Type *t) {
    if (t->rank < 2) return "a shard has no rows";
    if (t->strides[t->rank - 1] != 1) return "its rows are not known to be contiguous";
    return NULL;
}

void comm_find_reads(Ctx *ctx, const Op *kernel, CommReads *r) {
    Search s = {ctx, r};
    op_walk_pre((Op *)kernel, see_access, &s);
    for (int i = 0; i < r->loads.n; i++) judge_load(ctx, r, r->loads.data[i]);
    if (!r->against) r->against = reason_against_rows(r->tensor->type);
    if (!r->against && r->written) r->against = "the kernel writes it";
    r->written &= !reason_against_rows(r->tensor->type);
}

PlanId comm_reads_plan(const CommReads *r, PlanId asked) {
    if (r->against) return PLAN_DIRECT;
    PlanId plan = asked == PLAN_CHOSEN ? PLAN_PUSH : asked;
    return r->chunked && plan != PLAN_DIRECT ? PLAN_BEFORE : plan;
}
