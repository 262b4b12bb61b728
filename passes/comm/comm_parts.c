// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Phases that read shards which other ranks wrote a phase earlier: a signal for each part of a
// shard replaces the meeting of all ranks between the two.
//
//   parallel m { store %t[rank, m], %v }
//   comm_barrier
//   parallel r, m { load %t[r, m] }
//   ->
//   parallel m { store %t[rank, m], %v; for other ranks q { signal_set %words[q, rank, part] } }
//   parallel r', m { r = (r' + rank) % W
//                    for parts that hold m { signal_wait %words[rank, r, part] }
//                    load %t[r, m] }
//
// A part is the output of one program of the owner; its number follows from its start. Along a
// dimension of the shard the programs of rank q begin at
//
//   first(q), first(q) + unit, first(q) + 2 unit, ...      count(q) of them
//
// and write at most a unit each. So a program that knows q and its rows knows the parts that hold
// them. Rows outside of all parts are not written in the phase, so no program waits for them. This
// is legal if the meeting orders nothing else: if every access to another rank's shard, on either
// side, is a read after the meeting of data that the owner wrote before it. The owner's phase may
// be of any kind: programs that store, or programs that fold the contributions of ranks.
#include "passes/comm/comm.h"
#include "passes/passes.h"
#include "passes/range/range.h"

enum { MOST_TENSORS = 8, DEEP = 32 };

/// The layout of a shard's parts along one of its dimensions.
typedef struct PartSpan {
    int n, level[2]; // the indices that move the parts, the outer one first
    int64_t unit;    // distance between the starts of parts; 0: a single part
} PartSpan;

/// The phase that writes the own shard of a tensor.
typedef struct ShardParts {
    Ir *ir;
    Ctx *ctx;
    Op *kernel, *phase;
    Value *tensor, *owner; // owner: an index of the phase that is the owner, or NULL
    VEC(Op *) stores;
    VEC(Value *) ranks; // values of the own rank
    Access a;           // of the first store
    int n_levels;
    Level level[MAX_LEVELS];
    PartSpan span[MAX_RANK];
    Value *words;
} ShardParts;

/* ---- the two sides of a meeting ------------------------------------------------------------ */

/// Accesses to a tensor by the phases on one side of a meeting.
enum { OWN_READ = 1, OWN_WRITTEN = 2, OTHER_READ = 4, OTHER_WRITTEN = 8 };

typedef struct MeetingSide {
    Ctx *ctx;
    const Comm *c; // NULL: before any rewriting
    VEC(Value *) tensors;
    PtrMap how;
    VEC(Op *) accesses;
    const char *why; // another reason for a meeting, or NULL
} MeetingSide;

static int touch_kind(const MeetingSide *s, const Value *v) {
    return (int)(intptr_t)map_get(&s->how, v);
}

static void touch_tensor(MeetingSide *s, Value *v, int how) {
    int before = touch_kind(s, v);
    if (!before) vec_push(s->ctx, &s->tensors, v);
    map_set(s->ctx, &s->how, v, (void *)(intptr_t)(before | how));
}

/// Notes the writes of a combine. The owner of a shard writes it, since it folds the contributions
/// of ranks; with atomic additions, other ranks write it.
static void touch_combine(MeetingSide *s, const Op *op) {
    bool stays = !comm_is_add(op), sum = s->c && s->c->sums && comm_is_sum(op);
    int n = (int)op_int(op, A_N_TENSORS, 1), keep = op_flag(op, A_ACCUMULATE) ? OWN_READ : 0;
    for (int i = 0; i < n; i++)
        if (value_is_sym(operand(op, i)))
            touch_tensor(s, operand(op, i), keep | (stays || !sum ? OWN_WRITTEN : OTHER_WRITTEN));
}

/// Whether the compiler made the words. Waits for such words already order the accesses to the data
/// that the words announce.
static bool is_own_word(const Value *words) {
    return def_of(words, OP_COMM_SIGNALS) || def_of(words, OP_COMM_GATHER);
}

/// Whether other waits already order the accesses to the tensor: the plan `put` sends it, or it
/// holds words that the compiler made.
static bool is_sent(const MeetingSide *s, const Value *tensor) {
    for (int i = 0; s->c && i < s->c->sent.n; i++)
        if (s->c->sent.data[i] == tensor) return true;
    return is_own_word(tensor);
}

static void see_side_op(Op *op, void *arg) {
    MeetingSide *s = arg;
    bool word = op->code == OP_SIGNAL_SET || op->code == OP_SIGNAL_WAIT;
    if (op->code == OP_COMM_FENCE || (word && !is_own_word(operand(op, 0))))
        s->why = "programs signal each other";
    if (!op_is_access(op) || op->code == OP_LIVE || !value_is_sym(operand(op, 0))) return;
    if (is_sent(s, operand(op, 0))) return;
    Access a = access_of(op);
    bool own = a.subs[0].kind == DIM_AT && comm_is_own(sub_operand(op, &a, 0, 0));
    vec_push(s->ctx, &s->accesses, op);
    if (op->code == OP_COMBINE)
        touch_combine(s, op);
    else if (op->code == OP_LOAD)
        touch_tensor(s, operand(op, 0), own ? OWN_READ : OTHER_READ);
    else if (op->code == OP_STORE)
        touch_tensor(s, operand(op, 0), own ? OWN_WRITTEN : OTHER_WRITTEN);
    else
        touch_tensor(s, operand(op, 0), OTHER_READ | OTHER_WRITTEN);
}

static void see_host(MeetingSide *s, Op *op) {
    bool copies = op->code == OP_COMM_SCATTER;
    if (op->code == OP_PARALLEL)
        op_walk_pre(op, see_side_op, s);
    else if (copies || op->code == OP_CALL || (op->n_regions && !tree_is_pure(op)))
        s->why = copies ? "copies follow it" : "the host decides what runs beside it";
    else if (op_is_access(op) && value_is_sym(operand(op, 0)))
        s->why = "host code reads a shard";
}

static bool is_meeting(const Op *op) {
    return op->code == OP_COMM_BARRIER || op->code == OP_COMM_BEGIN || op->code == OP_COMM_END;
}

static void see_sides(const Op *barrier, MeetingSide *before, MeetingSide *behind) {
    for (Op *op = barrier->prev; op && !is_meeting(op); op = op->prev) see_host(before, op);
    for (Op *op = barrier->next; op && !is_meeting(op); op = op->next) see_host(behind, op);
}

/// Returns why the tensor needs a meeting. NULL: the other ranks only read data that its owner has
/// written, or nothing.
static const char *reason_to_meet(int before, int behind) {
    const int written = OWN_WRITTEN | OTHER_WRITTEN;
    if (!before || !behind) return NULL;
    if (before & OTHER_WRITTEN) return "ranks have written each other's shards";
    if (before & OTHER_READ && behind & written)
        return "others read before it the data that is written after it";
    if (behind & OTHER_WRITTEN) return "ranks write each other's shards then";
    return NULL;
}

/* ---- the parts ----------------------------------------------------------------------------- */

static void find_rank(Op *op, void *arg) {
    ShardParts *p = arg;
    if (op->code == OP_RANK) vec_push(p->ctx, &p->ranks, result(op, 0));
}

/// Whether v may depend on an op with this code.
static bool may_rest_on_op(const Value *v, OpCode code, int budget) {
    const Op *op = v->def;
    if (!op) return false;
    if (op->code == code || op->n_regions || budget == 0) return true;
    for (int i = 0; i < op->n_operands; i++)
        if (may_rest_on_op(operand(op, i), code, budget - 1)) return true;
    return false;
}

/// Keeps values of v's slice that are equal on all ranks.
static void keep_common(const ShardParts *p, PtrMap *map, Value *v) {
    if (map_get(map, v)) return;
    if (!value_is_inside(v, p->phase) && !may_rest_on_op(v, OP_RANK, DEEP)) {
        map_set(p->ctx, map, v, v);
        return;
    }
    for (int i = 0; v->def && i < v->def->n_operands; i++) keep_common(p, map, operand(v->def, i));
}

/// Whether v can be computed for another owner, given the indices in `map`.
static bool follows_owner(const ShardParts *p, Value *v, PtrMap map) {
    keep_common(p, &map, v);
    for (int i = 0; i < p->ranks.n; i++) map_set(p->ctx, &map, p->ranks.data[i], p->ranks.data[i]);
    if (p->owner) map_set(p->ctx, &map, p->owner, p->owner);
    return slice_is_movable(v, p->kernel, &map);
}

static bool bounds_follow(const ShardParts *p) {
    for (int i = 0; i < p->n_levels; i++)
        if (!follows_owner(p, p->level[i].lo, (PtrMap){0}) ||
            !follows_owner(p, p->level[i].hi, (PtrMap){0}))
            return false;
    return true;
}

static bool place_follows(const ShardParts *p, const Op *store, int d) {
    PtrMap known = {0};
    comm_know_levels(p->ctx, p->phase, &known);
    Access a = access_of(store);
    return follows_owner(p, sub_operand(store, &a, d, 0), known);
}

/// Returns the iterations of a level, or 0 if they are not constant.
static int64_t turns_of(const Level *l) {
    int64_t lo, hi;
    if (!const_int(l->lo, &lo) || !const_int(l->hi, &hi) || hi <= lo) return 0;
    return (hi - lo + l->step - 1) / l->step;
}

static int level_of_atom(const ShardParts *p, const Value *atom) {
    for (int i = 0; i < p->n_levels; i++)
        if (level_arg(&p->level[i]) == atom) return i;
    return -1;
}

/// Whether the span's indices nest: if there are two, the range of the inner one covers one step of
/// the outer one. Puts the outer one first.
static bool nest_units(const ShardParts *p, PartSpan *s, const int64_t *unit) {
    int outer = unit[1] > unit[0];
    int64_t turns = turns_of(&p->level[s->level[!outer]]);
    if (s->n == 1) return true;
    if (outer) {
        int first = s->level[0];
        s->level[0] = s->level[1];
        s->level[1] = first;
    }
    s->unit = unit[!outer];
    return turns > 0 && unit[outer] == turns * s->unit;
}

/// Finds how the places along a dimension depend on the indices. used: levels on which other
/// dimensions depend.
static bool read_span(const ShardParts *p, const Linear *at, bool *used, PartSpan *s) {
    int64_t unit[2] = {0};
    if (at->bad) return false;
    for (int i = 0; i < at->n; i++) {
        int l = level_of_atom(p, at->terms[i].atom);
        PtrMap none = {0};
        Value *atom = (Value *)(uintptr_t)at->terms[i].atom; // index < 0: an extent
        if (l < 0 && atom->index >= 0 && !follows_owner(p, atom, none)) return false;
        if (l < 0 || p->level[l].step == 0) continue;
        if (used[l] || s->n == 2 || at->terms[i].factor <= 0) return false;
        used[l] = true;
        s->level[s->n] = l;
        unit[s->n++] = at->terms[i].factor * p->level[l].step;
    }
    s->unit = unit[0];
    return s->n == 0 || nest_units(p, s, unit);
}

static bool fits_unit(const SubDim *sub, const PartSpan *s) {
    return s->n == 0 || sub->kind == DIM_AT || (sub->size - 1) * sub->mul < s->unit;
}

/// Whether the store begins at the same place as the first one, in all dimensions that move.
static bool begin_alike(const ShardParts *p, Ranges *r, const Op *store) {
    Access a = access_of(store);
    for (int d = 1; d < a.n_subs; d++) {
        Linear x = linear_of(r, sub_operand(store, &a, d, 0));
        Linear y = linear_of(r, sub_operand(p->stores.data[0], &p->a, d, 0));
        Linear apart = linear_add(x, y, -1);
        bool same = !apart.bad && apart.n == 0 && apart.constant == 0;
        if (p->span[d].n && (a.subs[d].kind == DIM_PICK || !same)) return false;
        if (!fits_unit(&a.subs[d], &p->span[d])) return false;
    }
    return true;
}

/// Returns why the start of a part does not identify it, or NULL.
static const char *read_spans(ShardParts *p) {
    Ranges *r = ranges_of(p->ir, p->kernel);
    bool used[MAX_LEVELS] = {false};
    const Op *store = p->stores.data[0];
    for (int d = 1; d < p->a.n_subs; d++) {
        if (p->a.subs[d].kind == DIM_PICK) return "elements are picked one by one";
        Linear at = linear_of(r, sub_operand(store, &p->a, d, 0));
        if (!place_follows(p, store, d) || !read_span(p, &at, used, &p->span[d]) ||
            !fits_unit(&p->a.subs[d], &p->span[d]))
            return "the place of a program's writes is not a multiple of its indices";
    }
    for (int i = 0; i < p->n_levels; i++)
        if (!used[i] && p->level[i].step && level_arg(&p->level[i]) != p->owner)
            return "several programs write one part";
    for (int i = 1; i < p->stores.n; i++)
        if (!begin_alike(p, r, p->stores.data[i])) return "a program writes it at several places";
    return NULL;
}

static const char *find_stores(ShardParts *p, const MeetingSide *before) {
    for (int i = 0; i < before->accesses.n; i++) {
        Op *op = before->accesses.data[i];
        bool here = false;
        int n = op->code == OP_COMBINE ? (int)op_int(op, A_N_TENSORS, 1) : op->code == OP_STORE;
        for (int k = 0; k < n; k++) here |= operand(op, k) == p->tensor;
        if (!here) continue;
        if (p->phase && p->phase != comm_phase(op)) return "several phases write it";
        p->phase = comm_phase(op);
        vec_push(p->ctx, &p->stores, op);
    }
    return NULL;
}

/// Fills in p with the parts of the tensor that programs before the meeting write. Returns why it
/// cannot, or NULL.
static const char *find_shard_parts(ShardParts *p, const MeetingSide *before) {
    const char *why = find_stores(p, before);
    if (why) return why;
    op_walk_pre(p->kernel, find_rank, p);
    const Op *store = p->stores.data[0];
    p->a = access_of(store);
    p->n_levels = read_levels(p->ctx, p->phase, p->level);
    if (store->code == OP_COMBINE && comm_is_add(store)) p->owner = sub_operand(store, &p->a, 0, 0);
    if (!bounds_follow(p)) return "which programs write it does not follow from the rank";
    return read_spans(p);
}

/* ---- readers that wait --------------------------------------------------------------------- */

/// Whether v, which a program reads, is known at its start.
static bool is_known_at_start(const ShardParts *p, const Op *load, const Value *v) {
    PtrMap known = {0};
    const Op *phase = comm_phase(load);
    comm_know_levels(p->ctx, phase, &known);
    return slice_is_movable(v, phase, &known);
}

static bool is_span_known(const ShardParts *p, const Op *load, const Access *a, int d) {
    return a->subs[d].kind != DIM_PICK && is_known_at_start(p, load, sub_operand(load, a, d, 0));
}

/// Whether the load knows at its start some of the coordinates that tell parts apart.
static bool is_part_known(const ShardParts *p, const Op *load) {
    Access a = access_of(load);
    int known = 0, spans = 0;
    for (int d = 1; d < a.n_subs; d++) {
        spans += p->span[d].n > 0;
        known += p->span[d].n > 0 && is_span_known(p, load, &a, d);
    }
    return known > 0 || spans == 0;
}

static bool waits_for(const ShardParts *p, const Op *load) {
    if (load->code != OP_LOAD || operand(load, 0) != p->tensor) return false;
    Access a = access_of(load);
    return a.subs[0].kind != DIM_AT || !comm_is_own(sub_operand(load, &a, 0, 0));
}

static const char *judge_tensor(ShardParts *p, const MeetingSide *before,
                                const MeetingSide *behind) {
    const char *why = find_shard_parts(p, before);
    for (int i = 0; i < behind->accesses.n && !why; i++)
        if (waits_for(p, behind->accesses.data[i]) && !is_part_known(p, behind->accesses.data[i]))
            why = "the part that is read is known only inside a loop";
    return why;
}

/// Both sides of a meeting, and each tensor that may need it.
typedef struct Judged {
    MeetingSide before, behind;
    int n;
    ShardParts *parts[MOST_TENSORS];
    const Value *tensor; // the tensor that `why` is about
} Judged;

/// Returns why ranks must meet here, or NULL.
static const char *judge_meeting(Ir *ir, Op *kernel, const Op *barrier, const Comm *c, Judged *j) {
    Ctx *ctx = ir_ctx(ir);
    *j = (Judged){.before = {.ctx = ctx, .c = c}, .behind = {.ctx = ctx, .c = c}};
    if (barrier->parent->parent != kernel) return "it is in a loop of the host";
    see_sides(barrier, &j->before, &j->behind);
    if (j->before.why || j->behind.why) return j->before.why ? j->before.why : j->behind.why;
    for (int i = 0; i < j->behind.tensors.n; i++) {
        Value *tensor = j->behind.tensors.data[i];
        int before = touch_kind(&j->before, tensor), behind = touch_kind(&j->behind, tensor);
        const char *why = reason_to_meet(before, behind);
        j->tensor = tensor;
        if (why) return why;
        if (!(before & OWN_WRITTEN && behind & OTHER_READ)) continue;
        if (j->n == MOST_TENSORS) return "too many tensors are written before it";
        ShardParts *p = j->parts[j->n++] = ctx_new(ctx, ShardParts);
        *p = (ShardParts){.ir = ir, .ctx = ctx, .kernel = kernel, .tensor = tensor};
        why = judge_tensor(p, &j->before, &j->behind);
        if (why) return why;
    }
    return NULL;
}

bool comm_needs_meeting(Ir *ir, Op *kernel, const Op *barrier) {
    Judged j;
    return !op_flag(barrier, A_PHASES_ONLY) || judge_meeting(ir, kernel, barrier, NULL, &j) != NULL;
}

/* ---- numbers of parts ---------------------------------------------------------------------- */

/// Returns the values that determine the parts of one owner: its rank and its first indices.
static PtrMap map_of(const ShardParts *p, Builder *b, Value *owner) {
    PtrMap map = {0};
    for (int i = 0; i < p->ranks.n; i++) map_set(p->ctx, &map, p->ranks.data[i], owner);
    for (int i = 0; i < p->n_levels; i++) {
        keep_common(p, &map, p->level[i].lo);
        keep_common(p, &map, p->level[i].hi);
    }
    for (int i = 0; i < p->n_levels; i++) {
        Value *lo = clone_slice(b, p->level[i].lo, p->kernel, &map);
        map_set(p->ctx, &map, level_arg(&p->level[i]), lo);
    }
    return map;
}

static Value *copy_for(const ShardParts *p, Builder *b, Value *v, PtrMap *map) {
    keep_common(p, map, v);
    return clone_slice(b, v, p->kernel, map);
}

static Value *count_span_parts(const ShardParts *p, Builder *b, const PartSpan *s, PtrMap *map) {
    Value *count = build_index(b, 1);
    for (int i = 0; i < s->n; i++) {
        const Level *l = &p->level[s->level[i]];
        Value *lo = copy_for(p, b, l->lo, map), *hi = copy_for(p, b, l->hi, map);
        count = ix_mul(b, count, trip_count(b, lo, hi, l->step));
    }
    return count;
}

/// Returns the start of its first part.
static Value *first_of(const ShardParts *p, Builder *b, int d, PtrMap *map) {
    return copy_for(p, b, sub_operand(p->stores.data[0], &p->a, d, 0), map);
}

static Value *all_parts(const ShardParts *p, Builder *b, Value *owner) {
    PtrMap map = map_of(p, b, owner);
    Value *all = build_index(b, 1);
    for (int d = 1; d < p->a.n_subs; d++)
        all = ix_mul(b, all, count_span_parts(p, b, &p->span[d], &map));
    return all;
}

/// Returns the maximum over all ranks.
static Value *most_parts(const ShardParts *p, Builder *b, Value *ranks) {
    Value *none = build_index(b, 0);
    Op *loop = build_for(b, none, ranks, 1, 1, &none);
    Builder in = build_at_end(b->ir, loop->regions[0], b->loc);
    Value *owner = region_add_arg(b->ir, in.region, none->type, "owner");
    Value *most = region_add_arg(b->ir, in.region, none->type, "most");
    most = ix_max(&in, most, all_parts(p, &in, owner));
    build_yield(&in, 1, &most);
    return result(loop, 0);
}

/* ---- signals ------------------------------------------------------------------------------- */

static void make_words(Comm *c, ShardParts *p, Value *ranks) {
    Builder b = build_before(c->ir, p->phase);
    p->words = comm_words(c, &b, p->tensor, ranks, most_parts(p, &b, ranks));
    p->words->name = "parts";
}

/// Computes the number of the program's part, at its end.
static Value *own_number(const ShardParts *p, Builder *b, Value *rank) {
    PtrMap map = map_of(p, b, rank), known = {0};
    const Op *store = p->stores.data[0];
    Value *number = build_index(b, 0);
    comm_know_levels(p->ctx, p->phase, &known);
    for (int d = 1; d < p->a.n_subs; d++) {
        const PartSpan *s = &p->span[d];
        if (!s->n) continue;
        Value *at = clone_slice(b, sub_operand(store, &p->a, d, 0), p->phase, &known);
        Value *past = ix_sub(b, at, first_of(p, b, d, &map));
        number = ix_mul(b, number, count_span_parts(p, b, s, &map));
        number = ix_add(b, number, ix_div(b, past, build_index(b, s->unit)));
    }
    return number;
}

/// At its end, a program signals all other ranks. Each waits for a word in its own memory.
static void raise_parts(Comm *c, const ShardParts *p, Value *ranks) {
    const Region *body = p->level[p->n_levels - 1].op->regions[0];
    Builder b = build_before(c->ir, terminator(body));
    Value *number = own_number(p, &b, c->rank), *epoch = comm_epoch(c, &b);
    Op *loop = build_for(&b, build_index(&b, 1), ranks, 1, 0, NULL);
    Builder in = build_at_end(b.ir, loop->regions[0], b.loc);
    Value *next = region_add_arg(b.ir, in.region, ranks->type, "next");
    Value *to = ix_rem(&in, ix_add(&in, c->rank, next), ranks);
    Value *set[5] = {p->words, epoch, to, c->rank, number};
    Op *op = build_op(&in, OP_SIGNAL_SET, 5, set, 0, NULL, 0);
    op_set_update(b.ir, op, UPDATE_SET);
    build_yield(&in, 0, NULL);
}

/* ---- waits --------------------------------------------------------------------------------- */

/// A load and the state of its wait, at the start of its program.
typedef struct PartReader {
    Comm *c;
    const ShardParts *p;
    const Op *load;
    Access a;
    PtrMap known, map; // known: the program's indices; map: the values that determine the owner's
                       // parts
    Value *owner, *word, *epoch;
} PartReader;

/// Computes the parts of one dimension that hold the load's elements.
static void wanted_parts(PartReader *w, Builder *b, int d, Value **from, Value **end) {
    const PartSpan *s = &w->p->span[d];
    Value *count = count_span_parts(w->p, b, s, &w->map), *zero = build_index(b, 0);
    *from = zero;
    *end = count;
    if (!is_span_known(w->p, w->load, &w->a, d)) return;
    const SubDim *sub = &w->a.subs[d];
    int64_t reach = sub->kind == DIM_AT ? 1 : (sub->size - 1) * sub->mul + 1;
    Value *unit = build_index(b, s->unit), *first = first_of(w->p, b, d, &w->map);
    Value *at = clone_slice(b, sub_operand(w->load, &w->a, d, 0), comm_phase(w->load), &w->known);
    Value *past = ix_sub(b, at, first), *last = ix_add(b, past, build_index(b, reach));
    *from = ix_div(b, ix_max(b, past, zero), unit);
    *end = ix_min(b, count, ix_ceildiv(b, ix_max(b, last, zero), unit));
}

static void wait_from(PartReader *w, Builder *b, int d, Value *number) {
    while (d < w->p->a.n_subs && !w->p->span[d].n) d++;
    if (d == w->p->a.n_subs) {
        const char *text =
            ctx_format(w->c->ctx, "rank {}'s part {} of '%s'", comm_name(w->p->tensor));
        Value *at[3] = {w->c->rank, w->word, number};
        comm_wait(w->c, b, w->p->words, w->epoch, w->owner, 3, at, text);
        return;
    }
    Value *from, *end;
    wanted_parts(w, b, d, &from, &end);
    number = ix_mul(b, number, count_span_parts(w->p, b, &w->p->span[d], &w->map));
    Op *loop = build_for(b, from, end, 1, 0, NULL);
    Builder in = build_at_end(b->ir, loop->regions[0], b->loc);
    Value *k = region_add_arg(b->ir, in.region, from->type, "part");
    wait_from(w, &in, d + 1, ix_add(&in, number, k));
    build_yield(&in, 0, NULL);
}

/// Builds the wait for an owner's parts. For the own part it uses a coordinate outside of the
/// words, where no wait happens.
static void wait_for_owner(PartReader *w, Builder *b, Value *owner) {
    Value *own = build_binary(b, OP_EQ, owner, w->c->rank);
    w->owner = owner;
    w->word = build_select(b, own, build_index(b, -1), owner);
    w->map = map_of(w->p, b, owner);
    wait_from(w, b, 1, build_index(b, 0));
}

static void wait_for_parts(Comm *c, const ShardParts *p, Op *load, Value *ranks) {
    Level level[MAX_LEVELS];
    Op *phase = comm_phase(load);
    PartReader w = {.c = c, .p = p, .load = load, .a = access_of(load)};
    bool one = w.a.subs[0].kind == DIM_AT;
    Value *owner = one ? sub_operand(load, &w.a, 0, 0) : NULL;
    int n = read_levels(c->ctx, phase, level);
    const Level *turn = one ? comm_rank_level(c, level, n, owner) : NULL;
    if (turn) comm_rotate(c, turn, 0);
    if (turn) owner = sub_operand(load, &w.a, 0, 0);
    Builder b = build_before(c->ir, level[n - 1].op->regions[0]->first);
    comm_know_levels(c->ctx, phase, &w.known);
    w.epoch = comm_epoch(c, &b);
    if (one && is_known_at_start(p, load, owner) && !may_rest_on_op(owner, OP_LOAD, DEEP)) {
        wait_for_owner(&w, &b, clone_slice(&b, owner, phase, &w.known));
        return;
    }
    Op *loop = build_for(&b, build_index(&b, 0), ranks, 1, 0, NULL);
    Builder in = build_at_end(b.ir, loop->regions[0], b.loc);
    wait_for_owner(&w, &in, region_add_arg(b.ir, in.region, ranks->type, "owner"));
    build_yield(&in, 0, NULL);
}

/// Whether both loads have the same subscripts, so that one wait serves both.
static bool is_same_place_load(const Op *x, const Op *y) {
    Access a = access_of(x), b = access_of(y);
    if (operand(x, 0) != operand(y, 0) || comm_phase(x) != comm_phase(y)) return false;
    for (int d = 0; d < a.n_subs; d++)
        if (a.subs[d].kind != b.subs[d].kind || a.subs[d].size != b.subs[d].size ||
            a.subs[d].mul != b.subs[d].mul || sub_operand(x, &a, d, 0) != sub_operand(y, &b, d, 0))
            return false;
    return true;
}

static void signal_parts(Comm *c, Judged *j, ShardParts *p) {
    Builder b = build_before(c->ir, p->phase);
    Value *ranks = comm_dim(&b, p->tensor, 0);
    comm_control(c);
    make_words(c, p, ranks);
    raise_parts(c, p, ranks);
    for (int i = 0; i < j->behind.accesses.n; i++) {
        Op *load = j->behind.accesses.data[i];
        bool done = !waits_for(p, load);
        for (int k = 0; k < i && !done; k++)
            done = is_same_place_load(j->behind.accesses.data[k], load);
        if (!done) wait_for_parts(c, p, load, ranks);
    }
    comm_note(c, "%s: readers of a part of it wait for that part, not for all ranks",
              comm_name(p->tensor));
}

/* ---- meetings ------------------------------------------------------------------------------ */

typedef struct MeetingList {
    Ctx *ctx;
    VEC(Op *) ops;
} MeetingList;

static void find_meeting(Op *op, void *arg) {
    MeetingList *m = arg;
    if (op->code == OP_COMM_BARRIER && op_flag(op, A_PHASES_ONLY)) vec_push(m->ctx, &m->ops, op);
}

/// Visits meetings in order, since the erasure of one may leave its accesses to the next one.
void comm_parts(Comm *c) {
    MeetingList m = {.ctx = c->ctx};
    op_walk_pre(c->kernel, find_meeting, &m);
    for (int i = 0; i < m.ops.n; i++) {
        Op *barrier = m.ops.data[i];
        Judged *j = ctx_new(c->ctx, Judged);
        const char *why = judge_meeting(c->ir, c->kernel, barrier, c, j);
        if (why) {
            comm_note(c, "%s: all ranks meet before others' parts are read: %s",
                      j->tensor ? comm_name(j->tensor) : "between phases", why);
            continue;
        }
        for (int k = 0; k < j->n; k++) signal_parts(c, j, j->parts[k]);
        op_erase(barrier);
    }
}
