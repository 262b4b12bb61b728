// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels with symmetric tensors as collective launches: where they begin, end, and where ranks
// have to meet.
//
// A phase touches a symmetric tensor in up to four ways: it reads or writes the own shard, it reads
// or writes those of others. Two phases need a barrier of all ranks between them if what one rank
// does in the first and another does in the second may be the same place, one of them writing: so
// one of them touches a shard that is not its own. `touched` is what was done since the last
// barrier. Of a loop the body is walked twice, the second time with what it leaves behind.
//
//     parallel { t[rank][m] = x[m]; }        own, written
//     comm_barrier                           <- another rank reads what this one wrote
//     parallel { y[m] = t[r][m]; }           other, read
//     parallel { t[rank][m] = y[m]; }        own, written: again a barrier
#include "frontend/elab_kernel.h"

#include <string.h>

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

/// Read once, when the launch has begun.
Value *el_control(Elab *e) {
    Kernel *k = e->kernel;
    if (k->control) return k->control;
    const Type *words = ty_tensor(e->ir, EL_I64, 1, (int64_t[]){8}, (int64_t[]){1});
    Builder b = build_after(e->ir, k->mark);
    k->control = result(build_op(&b, OP_COMM_CONTROL, 0, NULL, 1, &words, 0), 0);
    k->control->name = "control";
    return k->control;
}

/* ---- what a phase touches ------------------------------------------------------------------ */

enum { OWN_READ = 1, OWN_WRITTEN = 2, OTHER_READ = 4, OTHER_WRITTEN = 8, COMBINED = 16 };

/// Touches of tensors: how, by tensor; sets are joined by `or`.
typedef struct Touched {
    Ctx *ctx;
    VEC(Value *) tensors;
    PtrMap how;
} Touched;

static int how_of(const Touched *t, const Value *v) {
    return (int)(intptr_t)map_get(&t->how, v);
}

/// At the end of a phase that combines into shards all ranks meet.
static bool combines_shards(const Touched *t) {
    for (int i = 0; i < t->tensors.n; i++)
        if (how_of(t, t->tensors.data[i]) & COMBINED) return true;
    return false;
}

static void touch(Touched *t, Value *v, int how) {
    int before = how_of(t, v);
    if (!how) return;
    if (!before) vec_push(t->ctx, &t->tensors, v);
    map_set(t->ctx, &t->how, v, (void *)(intptr_t)(before | how));
}

static void touch_all(Touched *to, const Touched *from) {
    for (int i = 0; i < from->tensors.n; i++)
        touch(to, from->tensors.data[i], how_of(from, from->tensors.data[i]));
}

static Touched copy_of(const Touched *t) {
    Touched copy = {.ctx = t->ctx};
    touch_all(&copy, t);
    return copy;
}

/// Of one access at the rank that its first coordinate names.
static void touch_place(Touched *t, Value *tensor, const Value *rank, bool read, bool write) {
    if (!value_is_sym(tensor)) return;
    bool own = def_of(rank, OP_RANK) != NULL;
    touch(t, tensor,
          (read ? (own ? OWN_READ : OTHER_READ) : 0) |
              (write ? (own ? OWN_WRITTEN : OTHER_WRITTEN) : 0));
}

/// What ranks contribute is written by the owner, when it has come.
static void touch_access(Op *op, void *arg) {
    Touched *t = arg;
    if (!op_is_access(op) || op->code == OP_LIVE) return;
    Access a = access_of(op);
    bool atomic = op->code == OP_ATOMIC, combine = op->code == OP_COMBINE;
    int n = combine ? (int)op_int(op, "n", 1) : 1;
    for (int i = 0; i < n; i++) {
        Value *tensor = operand(op, i);
        if (combine && value_is_sym(tensor))
            touch(t, tensor, COMBINED | OTHER_WRITTEN | (op_flag(op, "keep") ? OWN_READ : 0));
        else if (a.n_subs)
            touch_place(t, tensor, sub_operand(op, &a, 0, 0), op->code == OP_LOAD || atomic,
                        op->code != OP_LOAD);
    }
}

static void touch_tree(Touched *t, const Op *op);

/// A kernel that is called has its own names for the tensors.
static void touch_call(Op *op, void *arg) {
    Touched *t = arg, inner = {.ctx = t->ctx};
    const Op *module = op->code == OP_CALL ? op_enclosing(op, OP_MODULE) : NULL;
    const Op *callee = module ? find_kernel(module, op_str(op, "callee")) : NULL;
    if (!callee) return;
    touch_tree(&inner, callee);
    for (int i = 0; i < inner.tensors.n; i++) {
        Value *v = inner.tensors.data[i];
        if (!v->def) touch(t, operand(op, v->index), how_of(&inner, v));
    }
}

static void touch_tree(Touched *t, const Op *op) {
    op_walk_pre((Op *)op, touch_access, t);
    op_walk_pre((Op *)op, touch_call, t);
}

/// Whether what ranks did needs a barrier before what they do now.
static bool conflict(const Touched *before, const Touched *now) {
    for (int i = 0; i < now->tensors.n; i++) {
        int a = how_of(before, now->tensors.data[i]), b = how_of(now, now->tensors.data[i]);
        bool wrote = a & OTHER_WRITTEN || (a & OTHER_READ && b & (OWN_WRITTEN | OTHER_WRITTEN)) ||
                     (a & OWN_WRITTEN && b & (OTHER_READ | OTHER_WRITTEN)) ||
                     (a & OWN_READ && b & OTHER_WRITTEN);
        if (a && b && wrote) return true;
    }
    return false;
}

/* ---- barriers ------------------------------------------------------------------------------ */

typedef struct Meeting {
    Elab *e;
    bool all_come; // every rank gets here
    bool told;
} Meeting;

/// Whether ranks may differ in v. Scalars that are passed are taken to be the same on all.
static bool by_rank(const Value *v, int budget) {
    if (!v->def || budget == 0) return false;
    if (v->def->code == OP_RANK) return true;
    for (int i = 0; i < v->def->n_operands; i++)
        if (by_rank(operand(v->def, i), budget - 1)) return true;
    return false;
}

enum { DEPTH = 24 };

static bool decided_by_rank(const Op *op) {
    int n = op->code == OP_IF ? 1 : op->code == OP_FOR ? 2 : 0;
    for (int i = 0; i < n; i++)
        if (by_rank(operand(op, i), DEPTH)) return true;
    const Op *end = op->code == OP_WHILE ? terminator(op->regions[0]) : NULL;
    return end && by_rank(operand(end, 0), DEPTH);
}

static void want_all(Meeting *m, const Op *op) {
    if (m->all_come || m->told) return;
    diag(m->e->ctx, op->loc, D_NOT_COLLECTIVE);
    diag_hint(m->e->ctx, "let programs decide by their rank, inside of 'parallel'");
    m->told = true;
}

static void meet_before(Meeting *m, Op *op, Touched *t) {
    want_all(m, op);
    Builder b = build_before(m->e->ir, op);
    if (!(op->prev && op->prev->code == OP_COMM_BARRIER))
        build_op(&b, OP_COMM_BARRIER, 0, NULL, 0, NULL, 0);
    *t = (Touched){.ctx = t->ctx};
}

static void meet_in(Meeting *m, Region *r, Touched *t);

/// Either side may have run; of a loop the body not at all, once, or again.
static void meet_inside(Meeting *m, Op *op, Touched *t) {
    Touched before = copy_of(t);
    for (int r = 0; r < op->n_regions; r++) {
        Touched side = copy_of(&before);
        meet_in(m, op->regions[r], &side);
        if (op->code != OP_IF) meet_in(m, op->regions[r], &side);
        touch_all(t, &side);
    }
}

static void meet_op(Meeting *m, Op *op, Touched *t) {
    if (op->code == OP_COMM_BARRIER) {
        want_all(m, op);
        *t = (Touched){.ctx = t->ctx};
        return;
    }
    bool phase = op->code == OP_PARALLEL || op->code == OP_CALL;
    bool choice = !phase && op->n_regions > 0, split = choice && decided_by_rank(op);
    if (phase || split) {
        Touched now = {.ctx = t->ctx};
        touch_tree(&now, op);
        if (conflict(t, &now)) meet_before(m, op, t);
        if (phase && combines_shards(&now)) want_all(m, op);
        if (phase) touch_all(t, &now);
    }
    if (!choice) return;
    bool all_come = m->all_come;
    m->all_come &= !split;
    meet_inside(m, op, t);
    m->all_come = all_come;
}

static void meet_in(Meeting *m, Region *r, Touched *t) {
    for_each_op(op, r) meet_op(m, op, t);
}

/* ---- signals ------------------------------------------------------------------------------- */

typedef struct Raised {
    const Value *words;
    const Op *phase; // of the wait; NULL: it is not known whether that waits
    const Op *late;  // in a later one
    bool found;
} Raised;

/// The op of the host code that an op is, or is in.
static const Op *host_op(const Op *op) {
    while (op->parent->parent->code != OP_KERNEL) op = op->parent->parent;
    return op;
}

static bool is_behind(const Op *op, const Op *other) {
    while (other && other != op) other = other->next;
    return other != NULL;
}

static void seek_raise(Op *op, void *arg) {
    Raised *r = arg;
    bool writes = op->code == OP_SIGNAL_SET || op->code == OP_STORE || op->code == OP_ATOMIC ||
                  op->code == OP_CALL,
         raises = false;
    for (int i = 0; writes && i < op->n_operands; i++)
        raises |= operand(op, i) == r->words && (i == 0 || op->code == OP_CALL);
    if (!raises) return;
    const Op *at = host_op(op);
    bool late = r->phase && at != r->phase && is_behind(at, r->phase);
    if (late && !r->late) r->late = op;
    r->found |= !late;
}

/// Words are 0 at first. True where it cannot be told.
static bool holds_at_first(const Op *wait) {
    const char *compare = op_str(wait, "compare");
    int64_t v;
    if (!const_int(operand(wait, 2), &v)) return true;
    if (strcmp(compare, "eq") == 0) return v == 0;
    if (strcmp(compare, "ne") == 0) return v != 0;
    if (strcmp(compare, "gt") == 0) return v < 0;
    if (strcmp(compare, "ge") == 0) return v <= 0;
    return strcmp(compare, "lt") == 0 ? v > 0 : v >= 0;
}

/// The phase whose programs all wait there; NULL: some may not, or there are several rounds of it.
static const Op *waiting_phase(const Op *wait) {
    const Op *phase = host_op(wait);
    for (const Op *at = wait; at != phase; at = at->parent->parent)
        if (at->parent->parent->code == OP_IF || at->parent->parent->code == OP_WHILE) return NULL;
    return phase->code == OP_PARALLEL && !holds_at_first(wait) ? phase : NULL;
}

/// A wait for what no program raises never ends, nor does one for what programs raise that are
/// not started before it has ended.
static void check_wait(Op *op, void *arg) {
    Elab *e = arg;
    if (op->code != OP_SIGNAL_WAIT) return;
    Raised r = {.words = operand(op, 0), .phase = waiting_phase(op)};
    const char *name = r.words->name ? r.words->name : "?";
    op_walk_pre(op_enclosing(op, OP_KERNEL), seek_raise, &r);
    if (r.found) return;
    diag(e->ctx, op->loc, r.late ? D_LATE_SIGNAL : D_NO_SIGNAL, name);
    if (r.late)
        diag_note(e->ctx, r.late->loc, "it is raised here, when all of this phase has ended");
    diag_hint(e->ctx,
              r.late ? "raise signals of '%s' in this phase, or in one before it"
                     : "signal_op(%s[r][...], x) raises one at rank r",
              name);
}

/* ---- the launch ---------------------------------------------------------------------------- */

/// A kernel that is called is part of its caller's launch.
void el_collective(Elab *e, Op *kernel) {
    Region *body = kernel->regions[0];
    Meeting m = {.e = e, .all_come = true};
    Touched t = {.ctx = e->ctx};
    meet_in(&m, body, &t);
    if (e->kernel->called) return;
    op_walk_pre(kernel, check_wait, e);
    Builder b = build_after(e->ir, e->kernel->mark);
    Op *begin = build_op(&b, OP_COMM_BEGIN, 0, NULL, 0, NULL, 0);
    op_set_attr(e->ir, begin, "wait", at_bool(e->ir, true));
    b = build_before(e->ir, terminator(body));
    build_op(&b, OP_COMM_END, 0, NULL, 0, NULL, 0);
}
