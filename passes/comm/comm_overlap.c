// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// comm-overlap: turns reads of other ranks' shards, and contributions to them, into transfers that
// run beside the programs.
//
//   comm_begin [wait_all=true]
//   parallel r, m, n { ... load %a[r, m, k] ... }
//   ->
//   comm_begin; %view, %flags = comm_gather %a, %chunk
//   parallel r', m, n { r = (r' + rank) % W; signal_wait %flags[r, m / chunk] >= epoch;
//                       ... load %view[r, m, k] ... }
//
// Analysis finds the legal plans (comm_reads.c, comm_stage.c). PassEnv.plan and .chunks choose one
// of them. If a plan is not legal for a tensor, `direct` replaces it: programs access the other
// ranks' memory over the link.
#include "passes/comm/comm.h"
#include "passes/passes.h"

#include <string.h>

/* ---- common helpers ------------------------------------------------------------------------ */

const char *comm_name(const Value *tensor) {
    return tensor->name ? tensor->name : "a tensor";
}

Builder comm_host(Comm *c) {
    Op *at = c->begin->next;
    while (at->code == OP_COMM_CONTROL || at->code == OP_COMM_GATHER || op_has(at, PURE))
        at = at->next;
    return build_before(c->ir, at);
}

Value *comm_dim(Builder *b, Value *tensor, int axis) {
    const Type *type = ty_scalar(b->ir, EL_I64);
    if (tensor->type->extents[axis] != DYNAMIC) return build_index(b, tensor->type->extents[axis]);
    Op *dim = build_op(b, OP_DIM, 1, &tensor, 1, &type, 0);
    op_set_int(b->ir, dim, A_AXIS, axis);
    return result(dim, 0);
}

Value *comm_control(Comm *c) {
    if (c->control) return c->control;
    const Type *words = ty_tensor(c->ir, EL_I64, 1, (int64_t[]){8}, (int64_t[]){1});
    Builder b = build_after(c->ir, c->begin);
    c->control = result(build_op(&b, OP_COMM_CONTROL, 0, NULL, 1, &words, 0), 0);
    c->control->name = "control";
    return c->control;
}

Value *comm_of_other(const Comm *c, Builder *b, Value *rank) {
    Value *own = build_binary(b, OP_EQ, rank, c->rank);
    return build_select(b, own, build_index(b, -1), rank);
}

Value *comm_epoch(Comm *c, Builder *b) {
    Place p = {0};
    place_add_at(&p, build_index(b, 0));
    return load_at(b, comm_control(c), &p);
}

Value *comm_first_epoch(Comm *c, Builder *b) {
    Value *barriers = build_index(b, -((int64_t)1 << EPOCH_BITS));
    return build_binary(b, OP_AND, comm_epoch(c, b), barriers);
}

bool comm_is_own(const Value *rank) {
    return def_of(rank, OP_RANK) != NULL;
}

static bool is_rank_extent(const Value *v) {
    const Op *dim = def_of(v, OP_DIM);
    return dim && op_int(dim, A_AXIS, -1) == 0 && value_is_sym(operand(dim, 0));
}

/// Whether the launch requires that v equals an extent of the dimension of ranks.
static bool is_required(const Value *v) {
    for_each_use(u, v) {
        const Op *eq = u->user;
        if (eq->code != OP_EQ || !is_rank_extent(operand(eq, !u->index))) continue;
        for_each_use(r, result(eq, 0)) {
            if (r->user->code == OP_REQUIRE && r->index == 0) return true;
        }
    }
    return false;
}

/// Whether v is the number of ranks.
static bool counts_ranks(const Comm *c, const Value *v) {
    int64_t n;
    const Attr *sym = op_ints(c->kernel, A_SYMMETRIC_PARAMS);
    for (int i = 0; const_int(v, &n) && i < sym->n; i++)
        if (c->kernel->regions[0]->args[sym->ints[i]]->type->extents[0] == n) return true;
    return is_rank_extent(v) || is_required(v);
}

Level *comm_rank_level(const Comm *c, Level *level, int n, const Value *v) {
    for (int i = 0; i < n; i++)
        if (level_arg(&level[i]) == v && level[i].step == 1 && is_const_int(level[i].lo, 0) &&
            counts_ranks(c, level[i].hi))
            return &level[i];
    return NULL;
}

void comm_rotate(Comm *c, const Level *l, int first) {
    Builder b = build_before(c->ir, l->op->regions[0]->first);
    Value *i = level_arg(l), *from = c->rank;
    if (first) from = ix_add(&b, from, build_index(&b, first));
    Value *sum = ix_add(&b, i, from), *r = ix_rem(&b, sum, l->hi);
    r->name = i->name;
    value_replace(i, r);
    op_set_operand(sum->def, 0, i);
}

void comm_wait(Comm *c, Builder *b, Value *words, Value *epoch, Value *peer, int n,
               Value *const *coordinates, const char *text) {
    Value *in[4 + MAX_RANK] = {words, comm_control(c), epoch, peer};
    memcpy(in + 4, coordinates, sizeof *in * (size_t)n);
    Op *wait = build_op(b, OP_SIGNAL_WAIT, 4 + n, in, 0, NULL, 0);
    op_set_compare(c->ir, wait, COMPARE_GE);
    op_set_str(c->ir, wait, A_TEXT, text);
    op_set_flag(c->ir, wait, A_SET_ONCE, true);
}

Value *comm_room(Builder *b, Value *tensor, Elem elem, int n, Value *const *first,
                 const char *name) {
    const Type *t = tensor->type;
    Value *dims[MAX_RANK];
    int64_t extents[MAX_RANK], strides[MAX_RANK];
    int rank = n + t->rank - 1;
    for (int d = 0; d < rank; d++) {
        int of = d - n + 1;
        dims[d] = d < n ? first[d] : comm_dim(b, tensor, of);
        extents[d] = d < n ? DYNAMIC : t->extents[of];
        strides[d] = d + 1 < rank ? DYNAMIC : 1;
    }
    const Type *type = ty_tensor(b->ir, elem, rank, extents, strides);
    if (elem_info[elem].bits >= elem_info[t->elem].bits && t->align)
        type = ty_aligned(b->ir, type, t->align);
    Op *op = build_op(b, OP_SCRATCH, rank, dims, 1, &type, 0);
    op_set_str(b->ir, op, A_NAME, name);
    if (n == 2) op_set_flag(b->ir, op, A_SYMMETRIC, true);
    result(op, 0)->name = name;
    return result(op, 0);
}

Value *comm_words(Comm *c, Builder *b, const Value *tensor, Value *ranks, Value *each) {
    const Type *type = ty_tensor(b->ir, EL_I64, 3, NULL, (int64_t[]){DYNAMIC, DYNAMIC, 1});
    Op *op = build_op(b, OP_COMM_SIGNALS, 2, (Value *[]){ranks, each}, 1, &type, 0);
    op_set_int(b->ir, op, A_SIGNAL_ID, c->signals++);
    op_set_str(b->ir, op, A_NAME, comm_name(tensor));
    return result(op, 0);
}

/* ---- finding ------------------------------------------------------------------------------- */

static void find_ops(Op *op, void *arg) {
    Comm *c = arg;
    if (op->code == OP_COMM_BEGIN) c->begin = op;
    if (op->code == OP_RANK) c->rank = result(op, 0);
    if (op->code == OP_COMM_CONTROL) c->control = result(op, 0);
}

/// Whether the access may refer to another rank's shard.
static bool is_remote_access(const Op *access) {
    if (!value_is_sym(operand(access, 0))) return false;
    Access a = access_of(access);
    return a.subs[0].kind != DIM_AT || !comm_is_own(sub_operand(access, &a, 0, 0));
}

/// Stores, atomics and signals to other ranks run in place, so those ranks must have arrived.
/// Atomics on tensors that all ranks may access are atomic across ranks.
static void find_remote(Op *op, void *arg) {
    Comm *c = arg;
    bool writes = op->code == OP_STORE || op->code == OP_ATOMIC;
    c->remote |= op->code == OP_SIGNAL_SET || (writes && is_remote_access(op));
    if (op->code == OP_ATOMIC && value_is_sym(operand(op, 0)))
        op_set_flag(c->ir, op, A_SYSTEM, true);
}

static void find_signal_wait(Op *op, void *arg) {
    Comm *c = arg;
    if (op->code == OP_SIGNAL_WAIT) vec_push(c->ctx, &c->words, operand(op, 0));
}

/// Marks stores to words for which programs wait. They must be visible at once, on whatever rank
/// the word lies.
static void mark_word(Op *op, void *arg) {
    Comm *c = arg;
    for (int i = 0; op->code == OP_STORE && i < c->words.n; i++)
        if (c->words.data[i] == operand(op, 0)) op_set_flag(c->ir, op, A_SYSTEM, true);
}

/// Finds accesses of the rewritten kernel by addresses in other ranks' memory. On CPUs the engine
/// raises signals; on GPUs they are stores.
static void find_reach(Op *op, void *arg) {
    Comm *c = arg;
    bool raises = c->env->gpu && op->code == OP_SIGNAL_SET && value_is_sym(operand(op, 0));
    c->reaches |= op_is_access(op) && op->code != OP_LIVE && is_remote_access(op);
    c->reaches |= raises && !comm_is_own(operand(op, 2));
}

typedef struct Adds {
    Ctx *ctx;
    VEC(Op *) ops;
} Adds;

typedef struct Scratches {
    Ctx *ctx;
    VEC(Op *) ops;
} Scratches;

static void find_add(Op *op, void *arg) {
    Adds *a = arg;
    if (op->code == OP_COMBINE && comm_is_add(op)) vec_push(a->ctx, &a->ops, op);
}

/// Collects the symmetric memory that the launch makes.
static void find_scratch(Op *op, void *arg) {
    Scratches *s = arg;
    if (op->code == OP_SCRATCH && value_is_sym(result(op, 0))) vec_push(s->ctx, &s->ops, op);
}

/* ---- deciding ------------------------------------------------------------------------------ */

/// Chooses the plan of contributions. On GPUs, if no plan for reads is requested, each tensor gets
/// its own (comm_reads_plan).
static void choose_plan(Comm *c) {
    bool open = c->env->plan == PLAN_CHOSEN;
    c->plan = open ? PLAN_DIRECT : (PlanId)c->env->plan;
    c->sums = c->plan == PLAN_ADD;
    if (c->sums) c->plan = PLAN_DIRECT;
    c->copies = c->plan == PLAN_COPIES;
    if (c->copies) c->plan = PLAN_PULL;
    c->reads = open && c->env->gpu ? PLAN_CHOSEN : c->plan;
    c->chunks = c->env->chunks > 0 ? c->env->chunks : 0;
}

static void move_reads(Comm *c, Value *tensor) {
    CommReads r = {.tensor = tensor};
    comm_find_reads(c->ctx, c->kernel, &r);
    if (!r.remote || (c->copies && comm_gather_phases(c, &r))) return;
    PlanId plan = comm_reads_plan(&r, c->reads);
    // With GPUs' copy engines, a program cannot wait for the arrival of a single rank.
    bool comes = !c->env->gpu && !r.against && !r.chunked;
    if (plan != PLAN_DIRECT || comes) {
        comm_gather(c, &r, plan);
        return;
    }
    const char *why = r.against ? r.against : c->reads == PLAN_CHOSEN ? r.part : NULL;
    c->remote = true;
    if (!r.written) comm_read_in_turn(c, &r);
    comm_note(c, "%s: read in place%s%s", comm_name(tensor), why ? ": " : "", why ? why : "");
}

static void move_scratch(Comm *c) {
    Scratches s = {.ctx = c->ctx};
    op_walk_pre(c->kernel, find_scratch, &s);
    for (int i = 0; i < s.ops.n; i++) {
        CommReads r = {.tensor = result(s.ops.data[i], 0)};
        comm_find_reads(c->ctx, c->kernel, &r);
        if (r.remote) comm_gather_phases(c, &r);
    }
}

static void overlap_kernel(PassEnv *env, Op *kernel) {
    const Attr *sym = op_ints(kernel, A_SYMMETRIC_PARAMS);
    Comm c = {.env = env, .ir = env->ir, .ctx = ir_ctx(env->ir), .kernel = kernel};
    Adds adds = {.ctx = c.ctx};
    op_walk_pre(kernel, find_ops, &c);
    if (!sym || !c.begin) return;
    if (!c.rank) {
        Builder b = build_before(c.ir, c.begin);
        const Type *type = ty_scalar(c.ir, EL_I64);
        c.rank = result(build_op(&b, OP_RANK, 0, NULL, 1, &type, 0), 0);
    }
    choose_plan(&c);
    op_walk_pre(kernel, find_remote, &c);
    op_walk_pre(kernel, find_signal_wait, &c);
    op_walk_pre(kernel, mark_word, &c);
    op_walk_pre(kernel, find_add, &adds);
    for (int i = 0; i < adds.ops.n; i++) vec_push(c.ctx, &c.adding, comm_phase(adds.ops.data[i]));
    for (int i = 0; i < adds.ops.n; i++) comm_stage(&c, adds.ops.data[i]);
    comm_turn(&c);
    for (int i = 0; i < sym->n; i++) move_reads(&c, kernel->regions[0]->args[sym->ints[i]]);
    if (c.copies) move_scratch(&c);
    if (!c.copies && c.plan != PLAN_BEFORE) comm_parts(&c);
    op_walk_pre(kernel, find_reach, &c);
    op_set_flag(c.ir, c.begin, A_WAIT_ALL, c.remote);
    op_set_flag(c.ir, c.begin, A_DIRECT_ACCESS, c.reaches);
    if (c.notes.n) op_set_strs(c.ir, kernel, A_COMM_NOTES, c.notes.data, c.notes.n);
}

void pass_comm_overlap(PassEnv *env, Op *module) {
    for_each_kernel(kernel, module) overlap_kernel(env, kernel);
}
