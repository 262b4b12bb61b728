// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds a kernel's reads of a symmetric tensor. Decides whether its shards may be gathered before
// programs read them, whether chunk by chunk, and whether this pays for all extents.
//
//   a[r][m, k]            all of all shards, rank and rows known at the start: chunk by chunk
//   for r { a[r][n] }     all of all shards, as a whole
//   a[r][rank, n]         a part that depends on the rank
//   a[e[i]][p[i], n]      a part that depends on data
//
// If programs read only a part, copies would bring unused data.
#include "passes/comm/comm.h"
#include "passes/passes.h"

typedef struct ReadSearch {
    Ctx *ctx;
    CommReads *r;
} ReadSearch;

static void see_tensor_access(Op *op, void *arg) {
    ReadSearch *s = arg;
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

/* ---- parts of shards ----------------------------------------------------------------------- */

/// The sources that a subscript depends on.
typedef struct Rests {
    Ctx *ctx;
    PtrMap seen;
    bool rank, data, index; // the own rank; loaded data; an index of a loop or of programs
} Rests;

static void rest_on(Rests *r, const Value *v);

/// Adds the sources of an op's results: those of its operands and its body.
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

/// Returns why the load's programs together read only a part of the other shards. NULL: they read
/// all.
static const char *reason_for_part(Ctx *ctx, const Op *load) {
    Access a = access_of(load);
    if (rests_of(ctx, load, &a, 0).data) return "the rank that is read depends on data";
    if (comm_whose(ctx, load) == WHOSE_OTHER) return "programs read one other rank's shard";
    for (int d = 1; d < a.n_subs; d++) {
        Rests r = rests_of(ctx, load, &a, d);
        if (r.data) return "the part of a shard that is read depends on data";
        if (r.rank) return "the part of a shard that is read depends on the rank";
    }
    return NULL;
}

/* ---- legality ------------------------------------------------------------------------------ */

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
            r->chunked = "the rank that is read is known only inside a loop";
    }
    r->remote |= comm_whose(ctx, load) != WHOSE_OWN;
}

/// Returns why all loads of other ranks' shards read only parts, or NULL.
static const char *reason_against_parts(Ctx *ctx, const CommReads *r) {
    const char *why = NULL;
    for (int i = 0; i < r->loads.n; i++) {
        const Op *load = r->loads.data[i];
        if (load->code != OP_LOAD || comm_whose(ctx, load) == WHOSE_OWN) continue;
        why = reason_for_part(ctx, load);
        if (!why) return NULL;
    }
    return why;
}

/// Returns why rows are not contiguous pieces one after the other, or NULL.
static const char *reason_against_rows(const Type *t) {
    if (t->rank < 2) return "a shard has no rows";
    if (t->strides[t->rank - 1] != 1) return "its rows are not known to be contiguous";
    return NULL;
}

void comm_find_reads(Ctx *ctx, const Op *kernel, CommReads *r) {
    ReadSearch s = {ctx, r};
    op_walk_pre((Op *)kernel, see_tensor_access, &s);
    for (int i = 0; i < r->loads.n; i++) judge_load(ctx, r, r->loads.data[i]);
    if (!r->against) r->against = reason_against_rows(r->tensor->type);
    if (!r->against && r->written) r->against = "the kernel writes it";
    r->written &= !reason_against_rows(r->tensor->type);
    r->part = reason_against_parts(ctx, r);
}

PlanId comm_reads_plan(const CommReads *r, PlanId asked) {
    if (r->against || (asked == PLAN_CHOSEN && r->part)) return PLAN_DIRECT;
    PlanId plan = asked == PLAN_CHOSEN ? PLAN_PUSH : asked;
    if (plan == PLAN_PUT && !comm_put_fits(r->tensor)) plan = PLAN_PUSH;
    return r->chunked && plan != PLAN_DIRECT ? PLAN_BEFORE : plan;
}
