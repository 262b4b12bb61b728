// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes kernels with symmetric tensors collective launches: marks their begin and end, and inserts
// barriers.
//
// A phase touches a symmetric tensor in up to four ways: it reads or writes the own shard, and it
// reads or writes shards of other ranks. Two phases need a barrier of all ranks between them if an
// access of one rank in the first and an access of another rank in the second may reach the same
// place, and one of them writes. At least one of the two then touches another rank's shard.
// `touched` holds the accesses since the last barrier. The body of a loop is walked twice; the
// second walk starts with the accesses that the first one leaves behind.
//
//     parallel { t[rank][m] = x[m]; }        own, written
//     comm_barrier                           <- another rank reads what this one wrote
//     parallel { y[m] = t[r][m]; }           other, read
//     parallel { t[rank][m] = y[m]; }        own, written: again a barrier
#include "frontend/elab/elab_kernel.h"

bool el_has_ranks(Elab *e, Loc loc, const char *what) {
    if (el_rank(e)) return true;
    el_fail(e, loc, D_NO_RANKS, what);
    diag_hint(e->ctx, "a parameter is symmetric where its type says so: a: sym f32[W][M, K]");
    return false;
}

Value *el_rank(const Elab *e) {
    return e->kernel ? e->kernel->rank : NULL;
}

Value *el_ranks(const Elab *e) {
    return e->kernel ? e->kernel->ranks : NULL;
}

/// The control block, read once when the launch has begun.
Value *el_control(Elab *e) {
    Kernel *k = e->kernel;
    if (k->control) return k->control;
    const Type *words = ty_tensor(e->ir, EL_I64, 1, (int64_t[]){8}, (int64_t[]){1});
    Builder b = build_after(e->ir, k->mark);
    k->control = result(build_op(&b, OP_COMM_CONTROL, 0, NULL, 1, &words, 0), 0);
    k->control->name = "control";
    return k->control;
}

/* ---- accesses of a phase ------------------------------------------------------------------- */

enum { OWN_READ = 1, OWN_WRITTEN = 2, OTHER_READ = 4, OTHER_WRITTEN = 8, COMBINED = 16 };

/// The kinds of access to each tensor; sets join by `or`.
typedef struct Touched {
    Ctx *ctx;
    VEC(Value *) tensors;
    PtrMap how;
} Touched;

static int touched_how(const Touched *t, const Value *v) {
    return (int)(intptr_t)map_get(&t->how, v);
}

/// Whether the phase combines into shards. All ranks then meet at its end.
static bool combines_shards(const Touched *t) {
    for (int i = 0; i < t->tensors.n; i++)
        if (touched_how(t, t->tensors.data[i]) & COMBINED) return true;
    return false;
}

static void touch_symmetric(Touched *t, Value *v, int how) {
    int before = touched_how(t, v);
    if (!how) return;
    if (!before) vec_push(t->ctx, &t->tensors, v);
    map_set(t->ctx, &t->how, v, (void *)(intptr_t)(before | how));
}

static void touch_all(Touched *to, const Touched *from) {
    for (int i = 0; i < from->tensors.n; i++)
        touch_symmetric(to, from->tensors.data[i], touched_how(from, from->tensors.data[i]));
}

static Touched copy_touched(const Touched *t) {
    Touched copy = {.ctx = t->ctx};
    touch_all(&copy, t);
    return copy;
}

/// Records an access. `rank` is its first coordinate.
static void touch_place(Touched *t, Value *tensor, const Value *rank, bool read, bool write) {
    if (!value_is_sym(tensor)) return;
    bool own = def_of(rank, OP_RANK) != NULL;
    touch_symmetric(t, tensor,
                    (read ? (own ? OWN_READ : OTHER_READ) : 0) |
                        (write ? (own ? OWN_WRITTEN : OTHER_WRITTEN) : 0));
}

/// Records an op's accesses. The owner writes the contributions of ranks, after they have arrived.
static void touch_access(Op *op, void *arg) {
    Touched *t = arg;
    if (!op_is_access(op) || op->code == OP_LIVE) return;
    Access a = access_of(op);
    bool atomic = op->code == OP_ATOMIC, combine = op->code == OP_COMBINE;
    int n = combine ? (int)op_int(op, A_N_TENSORS, 1) : 1;
    for (int i = 0; i < n; i++) {
        Value *tensor = operand(op, i);
        if (combine && value_is_sym(tensor))
            touch_symmetric(t, tensor,
                            COMBINED | OTHER_WRITTEN | (op_flag(op, A_ACCUMULATE) ? OWN_READ : 0));
        else if (a.n_subs)
            touch_place(t, tensor, sub_operand(op, &a, 0, 0), op->code == OP_LOAD || atomic,
                        op->code != OP_LOAD);
    }
}

static void touch_tree(Touched *t, const Op *op);

/// Records a call. The callee has its own names for the tensors.
static void touch_call(Op *op, void *arg) {
    Touched *t = arg, inner = {.ctx = t->ctx};
    const Op *module = op->code == OP_CALL ? op_enclosing(op, OP_MODULE) : NULL;
    const Op *callee = module ? find_kernel(module, op_str(op, A_CALLEE)) : NULL;
    if (!callee) return;
    touch_tree(&inner, callee);
    for (int i = 0; i < inner.tensors.n; i++) {
        Value *v = inner.tensors.data[i];
        if (!v->def) touch_symmetric(t, operand(op, v->index), touched_how(&inner, v));
    }
}

static void touch_tree(Touched *t, const Op *op) {
    op_walk_pre((Op *)op, touch_access, t);
    op_walk_pre((Op *)op, touch_call, t);
}

/// Whether the new accesses need a barrier after the previous ones of other ranks.
static bool needs_barrier(const Touched *before, const Touched *now) {
    for (int i = 0; i < now->tensors.n; i++) {
        int a = touched_how(before, now->tensors.data[i]),
            b = touched_how(now, now->tensors.data[i]);
        bool wrote = a & OTHER_WRITTEN || (a & OTHER_READ && b & (OWN_WRITTEN | OTHER_WRITTEN)) ||
                     (a & OWN_WRITTEN && b & (OTHER_READ | OTHER_WRITTEN)) ||
                     (a & OWN_READ && b & OTHER_WRITTEN);
        if (a && b && wrote) return true;
    }
    return false;
}

/* ---- barriers ------------------------------------------------------------------------------ */

typedef struct BarrierMeeting {
    Elab *e;
    bool all_come; // every rank reaches this place
    bool told;
} BarrierMeeting;

/// Whether v may differ between ranks. Scalar arguments count as equal on all ranks.
static bool differs_by_rank(const Value *v, int budget) {
    if (!v->def || budget == 0) return false;
    if (v->def->code == OP_RANK) return true;
    for (int i = 0; i < v->def->n_operands; i++)
        if (differs_by_rank(operand(v->def, i), budget - 1)) return true;
    return false;
}

enum { DEPTH = 24 };

bool el_decided_by_rank(const Op *op) {
    int n = op->code == OP_IF ? 1 : op->code == OP_FOR ? 2 : 0;
    for (int i = 0; i < n; i++)
        if (differs_by_rank(operand(op, i), DEPTH)) return true;
    const Op *end = op->code == OP_WHILE ? terminator(op->regions[0]) : NULL;
    return end && differs_by_rank(operand(end, 0), DEPTH);
}

static void want_all(BarrierMeeting *m, const Op *op) {
    if (m->all_come || m->told) return;
    diag(m->e->ctx, op->loc, D_NOT_COLLECTIVE);
    diag_hint(m->e->ctx, "let programs decide by their rank, inside of 'parallel'");
    m->told = true;
}

static void meet_before(BarrierMeeting *m, Op *op, Touched *t) {
    want_all(m, op);
    Builder b = build_before(m->e->ir, op);
    if (!(op->prev && op->prev->code == OP_COMM_BARRIER)) {
        Op *barrier = build_op(&b, OP_COMM_BARRIER, 0, NULL, 0, NULL, 0);
        op_set_flag(m->e->ir, barrier, A_PHASES_ONLY, true);
    }
    *t = (Touched){.ctx = t->ctx};
}

static void meet_in(BarrierMeeting *m, Region *r, Touched *t);

/// Joins the branches: either side of a choice may have run; the body of a loop may have run never,
/// once or repeatedly.
static void meet_inside(BarrierMeeting *m, Op *op, Touched *t) {
    Touched before = copy_touched(t);
    for (int r = 0; r < op->n_regions; r++) {
        Touched side = copy_touched(&before);
        meet_in(m, op->regions[r], &side);
        if (op->code != OP_IF) meet_in(m, op->regions[r], &side);
        touch_all(t, &side);
    }
}

static void meet_op(BarrierMeeting *m, Op *op, Touched *t) {
    if (op->code == OP_COMM_BARRIER) {
        want_all(m, op);
        *t = (Touched){.ctx = t->ctx};
        return;
    }
    bool phase = op->code == OP_PARALLEL || op->code == OP_CALL;
    bool choice = !phase && op->n_regions > 0, split = choice && el_decided_by_rank(op);
    if (phase || split) {
        Touched now = {.ctx = t->ctx};
        touch_tree(&now, op);
        if (needs_barrier(t, &now)) meet_before(m, op, t);
        if (phase && combines_shards(&now)) want_all(m, op);
        if (phase) touch_all(t, &now);
    }
    if (!choice) return;
    bool all_come = m->all_come;
    m->all_come &= !split;
    meet_inside(m, op, t);
    m->all_come = all_come;
}

static void meet_in(BarrierMeeting *m, Region *r, Touched *t) {
    for_each_op(op, r) meet_op(m, op, t);
}

/* ---- the launch ---------------------------------------------------------------------------- */

/// A called kernel is part of its caller's launch.
void el_collective(Elab *e, Op *kernel) {
    Region *body = kernel->regions[0];
    BarrierMeeting m = {.e = e, .all_come = true};
    Touched t = {.ctx = e->ctx};
    meet_in(&m, body, &t);
    if (e->kernel->called) return;
    el_check_waits(e, kernel);
    Builder b = build_after(e->ir, e->kernel->mark);
    Op *begin = build_op(&b, OP_COMM_BEGIN, 0, NULL, 0, NULL, 0);
    op_set_flag(e->ir, begin, A_WAIT_ALL, true);
    b = build_before(e->ir, terminator(body));
    build_op(&b, OP_COMM_END, 0, NULL, 0, NULL, 0);
}
