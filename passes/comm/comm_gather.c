// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remote reads: all ranks' shards of a tensor are transferred here, whole or chunk by chunk, and
// programs read the gathered view.
//
// This is legal if no rank writes the tensor in this kernel (all ranks run the same one). A
// transfer chunk by chunk also requires that each program knows at its start which rank's rows it
// reads: they follow from its indices. The program waits once for each chunk of these rows, at its
// start, and never in a loop. A chunk is a multiple of the rows that a program reads, so most
// programs need one wait.
#include "passes/comm/comm.h"
#include "passes/passes.h"

/* ---- chunks -------------------------------------------------------------------------------- */

/// Returns the level whose index is the first row that a program reads, if the program reads no
/// more rows than the level's step. NULL: no level is.
static const Level *rows_level(const Op *load, const Access *a, const Level *level, int n) {
    const SubDim *sub = &a->subs[1];
    int64_t reach = sub->kind == DIM_AT ? 1 : (sub->size - 1) * sub->mul + 1;
    for (int i = 0; i < n && sub->kind != DIM_PICK; i++)
        if (sub_operand(load, a, 1, 0) == level_arg(&level[i]) && is_const_int(level[i].lo, 0) &&
            reach <= level[i].step)
            return &level[i];
    return NULL;
}

/// Returns the least common multiple, or MORE_ROWS if it is larger. With MORE_ROWS, a shard is one
/// chunk.
static int64_t common_multiple(int64_t a, int64_t b) {
    const int64_t MORE_ROWS = (int64_t)1 << 40;
    int64_t x = a, y = b, product;
    for (int64_t rest; y; x = y, y = rest) rest = x % y;
    bool large = __builtin_mul_overflow(a / x, b, &product) || product > MORE_ROWS;
    return large ? MORE_ROWS : product;
}

/// Returns the least number of rows of a chunk for which each reading program waits for a single
/// chunk: tiles of 24 and of 16 rows both end with a chunk of 48. It is also a multiple of the rows
/// that one program sends.
static int64_t row_unit(Comm *c, const CommReads *r, PlanId plan) {
    int64_t unit = plan == PLAN_PUT ? comm_put_rows(r->tensor) : 1;
    for (int i = 0; i < r->loads.n; i++) {
        const Op *load = r->loads.data[i];
        Level level[MAX_LEVELS];
        Access a = access_of(load);
        int n = read_levels(c->ctx, comm_phase(load), level);
        const Level *l = rows_level(load, &a, level, n);
        if (l) unit = common_multiple(unit, l->step);
    }
    return unit;
}

// A chunk costs 3.5 us beside its bytes, and the link moves about 370 bytes a ns. The bytes should
// take longer than these 3.5 us.
enum { MOST_CHUNKS = 8, CHUNK_BYTES = 6 << 20 };

int64_t comm_chunks(int64_t bytes) {
    int64_t n = bytes / CHUNK_BYTES;
    return n < 1 ? 1 : n > MOST_CHUNKS ? MOST_CHUNKS : n;
}

/// Returns the rows that justify a chunk.
static Value *worthwhile_rows(Builder *b, Value *tensor) {
    Value *bytes = build_index(b, (elem_info[tensor->type->elem].bits + 7) / 8);
    for (int d = 2; d < tensor->type->rank; d++)
        bytes = ix_mul(b, bytes, ix_max(b, comm_dim(b, tensor, d), build_index(b, 1)));
    return ix_ceildiv(b, build_index(b, CHUNK_BYTES), bytes);
}

/// Returns the rows of a chunk. A chunk that programs send costs next to nothing, so it may be
/// small.
static Value *chunk_rows(Comm *c, Builder *b, const CommReads *r, PlanId plan, bool whole) {
    Value *one = build_index(b, 1), *rows = ix_max(b, comm_dim(b, r->tensor, 1), one);
    if (whole) return rows;
    Value *unit = build_index(b, row_unit(c, r, plan));
    Value *each = ix_ceildiv(b, rows, build_index(b, c->chunks ? c->chunks : MOST_CHUNKS));
    if (!c->chunks && plan != PLAN_PUT) each = ix_max(b, each, worthwhile_rows(b, r->tensor));
    return ix_mul(b, ix_ceildiv(b, each, unit), unit);
}

/* ---- waits --------------------------------------------------------------------------------- */

/// A gathered tensor under construction.
typedef struct Gathered {
    Comm *c;
    const CommReads *r;
    Value *view, *flags, *chunk;
    CommPut put;
    bool whole; // one chunk for each shard
    const char *text;
} Gathered;

/// Whether the rows of the load are known before its loop.
static bool rows_are_known(Comm *c, const Op *load, const Access *a) {
    const Op *phase = comm_phase(load);
    PtrMap known = {0};
    comm_know_levels(c->ctx, phase, &known);
    return a->subs[1].kind != DIM_PICK &&
           slice_is_movable(sub_operand(load, a, 1, 0), phase, &known);
}

static void wait_for_chunk(const Gathered *g, Builder *b, Value *epoch, Value *peer, Value *chunk) {
    Value *at[2] = {peer, chunk};
    if (g->put.sent)
        comm_put_wait(g->c, &g->put, b, epoch, peer, chunk, g->text);
    else
        comm_wait(g->c, b, g->flags, epoch, peer, 2, at, g->text);
}

/// Builds the waits for the chunks of rank `peer` with rows from..to.
static void wait_for_rows(const Gathered *g, Builder *b, Value *peer, Value *from, Value *to) {
    Value *first = ix_div(b, from, g->chunk);
    Value *end = ix_add(b, ix_div(b, to, g->chunk), build_index(b, 1)),
          *epoch = comm_first_epoch(g->c, b);
    Op *loop = build_for(b, first, end, 1, 0, NULL);
    Builder in = build_at_end(b->ir, loop->regions[0], b->loc);
    wait_for_chunk(g, &in, epoch, peer, region_add_arg(b->ir, in.region, first->type, "chunk"));
    build_yield(&in, 0, NULL);
}

static void wait_for_one(const Gathered *g, Builder *b, Value *peer, Value *row) {
    Value *chunk = row ? ix_div(b, row, g->chunk) : build_index(b, 0);
    wait_for_chunk(g, b, comm_first_epoch(g->c, b), peer, chunk);
}

/// Builds the waits of a load at b, the start of its program.
static void wait_for_load(const Gathered *g, Builder *b, const Op *load, const Level *level,
                          int n) {
    Access a = access_of(load);
    const Op *phase = level[0].op;
    PtrMap map = {0};
    comm_know_levels(g->c->ctx, phase, &map);
    Value *peer = clone_slice(b, sub_operand(load, &a, 0, 0), phase, &map);
    Value *last =
        ix_sub(b, ix_max(b, comm_dim(b, g->view, 1), build_index(b, 1)), build_index(b, 1));
    if (g->whole) {
        wait_for_one(g, b, peer, NULL);
    } else if (!rows_are_known(g->c, load, &a)) {
        wait_for_rows(g, b, peer, build_index(b, 0), last);
    } else {
        Value *row = clone_slice(b, sub_operand(load, &a, 1, 0), phase, &map);
        const SubDim *sub = &a.subs[1];
        if (rows_level(load, &a, level, n)) {
            wait_for_one(g, b, peer, row);
            return;
        }
        int64_t reach = sub->kind == DIM_AT ? 0 : (sub->size - 1) * sub->mul;
        Value *from = ix_max(b, row, build_index(b, 0));
        Value *to = ix_min(b, ix_add(b, row, build_index(b, reach)), last);
        wait_for_rows(g, b, peer, from, to);
    }
}

static bool same_wait(const Op *x, const Op *y) {
    Access a = access_of(x), b = access_of(y);
    if (sub_operand(x, &a, 0, 0) != sub_operand(y, &b, 0, 0) || a.subs[1].kind != b.subs[1].kind)
        return false;
    return a.subs[1].size == b.subs[1].size && a.subs[1].mul == b.subs[1].mul &&
           sub_operand(x, &a, 1, 0) == sub_operand(y, &b, 1, 0);
}

/// Whether load i needs a wait. The own shard needs none, and equal loads share one.
static bool needs_wait(const Gathered *g, int i) {
    const Op *load = g->r->loads.data[i];
    Access a = access_of(load);
    if (load->code != OP_LOAD || comm_is_own(sub_operand(load, &a, 0, 0))) return false;
    for (int k = 0; k < i; k++) {
        const Op *other = g->r->loads.data[k];
        if (other->code == OP_LOAD && comm_phase(other) == comm_phase(load) &&
            same_wait(other, load))
            return false;
    }
    return true;
}

static void wait_in_program(const Gathered *g, const Op *load) {
    Level level[MAX_LEVELS];
    int n = read_levels(g->c->ctx, comm_phase(load), level);
    Region *body = level[n - 1].op->regions[0];
    Builder b = build_before(g->c->ir, body->first);
    wait_for_load(g, &b, load, level, n);
}

static void find_dot(Op *op, void *arg) {
    if (op->code == OP_DOT) *(bool *)arg = true;
}

/// Rotates the ranks: programs of the own shard go first, others follow as their shards arrive.
static void rotate_programs(Comm *c, const Op *load) {
    Level level[MAX_LEVELS];
    Access a = access_of(load);
    int n = read_levels(c->ctx, comm_phase(load), level);
    const Level *l = comm_rank_level(c, level, n, sub_operand(load, &a, 0, 0));
    if (l) comm_rotate(c, l, 0);
}

/// Whether the op is scalar arithmetic of a level's body, which may move further inside.
static bool is_arithmetic(const Op *op) {
    return op->code == OP_PARALLEL || op_has(op, TERMINATOR) ||
           (op_has(op, PURE) && !op->n_regions);
}

/// Whether level `at` can become the innermost: no bound depends on an index, and all ops between
/// the levels can move inside.
static bool can_sink(const Level *level, int n, int at) {
    for (int i = 0; i < n; i++)
        if (!level[i].free) return false;
    for (int i = at; i < n - 1; i++) for_each_op(op, level[i].op->regions[0]) {
            if (!is_arithmetic(op)) return false;
        }
    return at < n - 1;
}

/// Makes the index of level `at` the fastest one.
static void sink_level(const Level *level, int n, int at) {
    Op *ranks = level[at].op, *last = level[n - 1].op;
    Region *body = ranks->regions[0];
    for (int i = at; i < n; i++) for_each_op_safe(op, level[i].op->regions[0]) {
            if (op == level[i + 1 < n ? i + 1 : i].op || op_has(op, TERMINATOR)) continue;
            if (i == at && op->parent == body) continue;
            op_move_before(op, terminator(body));
        }
    op_move_before(level[at + 1].op, ranks);
    op_move_before(ranks, terminator(last->regions[0]));
}

/// Places programs that differ only in the rank side by side, so that each link has its share at
/// all times.
static void spread_rank_level(Comm *c, const Op *load) {
    Level level[MAX_LEVELS];
    Access a = access_of(load);
    Op *phase = comm_phase(load);
    bool multiplies = false;
    if (!phase || a.subs[0].kind != DIM_AT) return;
    op_walk_pre(phase, find_dot, &multiplies);
    hoist_bounds(phase);
    int n = read_levels(c->ctx, phase, level);
    const Level *l = comm_rank_level(c, level, n, sub_operand(load, &a, 0, 0));
    if (!l) return;
    comm_rotate(c, l, 0);
    if (!multiplies && can_sink(level, n, (int)(l - level))) sink_level(level, n, (int)(l - level));
}

/// Orders programs that read data of the plan `put`, which arrives early and all at once. Rows of
/// all shards that are multiplied with the same columns go side by side, so memory delivers these
/// columns once.
static void gather_rows(Comm *c, const Op *load) {
    for (int rows = 0; rows < 2; rows++) {
        Level level[MAX_LEVELS];
        Access a = access_of(load);
        Op *phase = comm_phase(load);
        hoist_bounds(phase);
        int n = read_levels(c->ctx, phase, level);
        const Level *l = rows ? rows_level(load, &a, level, n)
                              : comm_rank_level(c, level, n, sub_operand(load, &a, 0, 0));
        if (!l || !can_sink(level, n, (int)(l - level))) return;
        if (!rows) comm_rotate(c, l, 0);
        sink_level(level, n, (int)(l - level));
    }
}

void comm_read_in_turn(Comm *c, const CommReads *r) {
    for (int i = 0; i < r->loads.n; i++) spread_rank_level(c, r->loads.data[i]);
}

/* ---- the transfer -------------------------------------------------------------------------- */

static TransferPlan transfer_of_plan(PlanId plan) {
    switch (plan) {
    case PLAN_PULL: return TRANSFER_PULL;
    case PLAN_PUSH: return TRANSFER_PUSH;
    case PLAN_DIRECT: return TRANSFER_DIRECT;
    default: return TRANSFER_BEFORE;
    }
}

static Op *build_gather(Comm *c, Builder *b, const CommReads *r, PlanId plan, Value *chunk) {
    const Type *flags = ty_tensor(c->ir, EL_I64, 2, NULL, (int64_t[]){DYNAMIC, 1});
    const Type *types[2] = {r->tensor->type, flags};
    Op *op = build_op(b, OP_COMM_GATHER, 2, (Value *[]){r->tensor, chunk}, 2, types, 0);
    op_set_transfer(c->ir, op, transfer_of_plan(plan));
    op_set_str(c->ir, op, A_NAME, comm_name(r->tensor));
    result(op, 0)->name = r->tensor->name;
    result(op, 1)->name = "flags";
    return op;
}

/// Notes the plan of the tensor for the report.
static void note_gather(Comm *c, const CommReads *r, PlanId plan) {
    const char *name = comm_name(r->tensor);
    if (plan == PLAN_BEFORE)
        comm_note(c, "%s: all shards are copied before programs start%s%s", name,
                  r->chunked ? ": " : "", r->chunked ? r->chunked : "");
    else if (plan == PLAN_DIRECT)
        comm_note(c, "%s: read in place, programs wait for their rank to come", name);
    else if (plan == PLAN_PUT)
        comm_note(c, "%s: programs send it to all ranks first, readers wait for their parts", name);
    else
        comm_note(c, "%s: copy engines %s it in %s, programs wait for theirs", name,
                  plan_name(plan),
                  c->chunks ? ctx_format(c->ctx, "%d chunk%s", c->chunks, c->chunks > 1 ? "s" : "")
                            : "up to 8 chunks of 6 MiB or more");
}

/// Builds the transfer of shards at b: a gathered view, or a phase of programs that send.
static void bring_shards(Gathered *g, Builder *b, PlanId plan) {
    g->view = g->r->tensor;
    if (plan == PLAN_PUT) {
        comm_put(g->c, b, g->r->tensor, g->chunk, &g->put);
        return;
    }
    Op *op = build_gather(g->c, b, g->r, plan, g->chunk);
    g->view = result(op, 0);
    g->flags = result(op, 1);
}

/// Redirects an access to the transferred shards. The own shard may be read in place.
static void redirect_access(const Gathered *g, Op *access) {
    Access a = access_of(access);
    if (!g->put.sent)
        op_set_operand(access, 0, g->view);
    else if (!comm_is_own(sub_operand(access, &a, 0, 0)))
        comm_put_read(g->c, &g->put, access);
}

void comm_gather(Comm *c, CommReads *r, PlanId plan) {
    bool whole = plan == PLAN_BEFORE || plan == PLAN_DIRECT || c->chunks == 1;
    Builder b = comm_host(c);
    Gathered g = {.c = c, .r = r, .whole = whole};
    g.chunk = chunk_rows(c, &b, r, plan, whole);
    bring_shards(&g, &b, plan);
    g.text = ctx_format(
        c->ctx, plan == PLAN_DIRECT ? "rank {} to come with '%s'" : "rank {}'s chunk {} of '%s'",
        comm_name(r->tensor));
    note_gather(c, r, plan);
    if (plan != PLAN_BEFORE) comm_control(c);
    for (int i = 0; i < r->loads.n && plan != PLAN_BEFORE; i++)
        if (needs_wait(&g, i)) {
            if (plan == PLAN_PUT) gather_rows(c, r->loads.data[i]);
            rotate_programs(c, r->loads.data[i]);
            wait_in_program(&g, r->loads.data[i]);
        }
    for (int i = 0; i < r->loads.n; i++) redirect_access(&g, r->loads.data[i]);
}

/* ---- before a phase -------------------------------------------------------------------------- */

/// The accesses of a phase to a tensor.
typedef struct Uses {
    Comm *c;
    const Value *tensor;
    bool reads, writes, mixes; // reads: other ranks' shards; writes: any shard; mixes: reads may
                               // see own writes
} Uses;

/// Visits an access in the order of a program. A store must not stand in a loop.
static void see_use(Op *op, void *arg) {
    Uses *u = arg;
    if (!op_is_access(op) || operand(op, 0) != u->tensor) return;
    Access a = access_of(op);
    bool own = a.subs[0].kind == DIM_AT && comm_is_own(sub_operand(op, &a, 0, 0));
    bool reads = op->code == OP_LOAD || op->code == OP_LIVE;
    u->reads |= reads && !own;
    u->writes |= !reads;
    u->mixes |= reads ? u->writes : !own || op_enclosing(op, OP_FOR) || op_enclosing(op, OP_WHILE);
}

/// Collects the phases that read other ranks' shards. Returns false if shards cannot be copied
/// before one of them.
static bool find_phases(Comm *c, const CommReads *r, PtrMap *phases) {
    for (int i = 0; i < r->loads.n; i++) {
        Op *phase = comm_phase(r->loads.data[i]);
        Uses u = {.c = c, .tensor = r->tensor};
        if (!phase) return false;
        op_walk_pre(phase, see_use, &u);
        if (!u.reads) continue;
        if (u.mixes || phase->parent->parent != c->kernel) return false;
        map_set(c->ctx, phases, phase, phase);
    }
    return true;
}

/// In a phase that writes, no two ranks access the same place, so data that it reads does not
/// change. The own shard is read in place.
bool comm_gather_phases(Comm *c, CommReads *r) {
    PtrMap phases = {0};
    if (!r->written || !find_phases(c, r, &phases)) return false;
    for (int i = 0; i < r->loads.n; i++) {
        Op *phase = comm_phase(r->loads.data[i]), *done = map_get(&phases, phase);
        if (!done) continue;
        if (done == phase) {
            Builder b = build_before(c->ir, phase);
            done = build_gather(c, &b, r, PLAN_BEFORE, chunk_rows(c, &b, r, PLAN_BEFORE, true));
            map_set(c->ctx, &phases, phase, done);
        }
        op_set_operand(r->loads.data[i], 0, result(done, 0));
    }
    comm_note(c, "%s: all shards are copied before a phase that reads them", comm_name(r->tensor));
    return true;
}
