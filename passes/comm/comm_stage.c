// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remote adds: contributions of ranks to each other's shards are staged, and the owner folds them.
//
//   parallel r, m, n { combine %c[r, m, n], %v }
//   ->
//   parallel r', m, n { r = (r' + rank + 1) % W; store %stage[r, rank, m, n], %v
//                       signal_set %flags[r, rank, tile] }
//   parallel m, n { for s in W { signal_wait %flags[rank, s, tile] }
//                   for s in W { sum = f(sum, %stage[rank, s, m, n]) }; store %c[rank, m, n], sum }
//
// Each rank has a slot for each source, so no rank waits for permission to send, and the owner
// folds the slots in the order of the ranks. Each program has a flag, and its part is folded as
// soon as all ranks have sent it. This is legal if each element gets one contribution from each
// rank: different programs contribute to different elements, and every program contributes exactly
// once. The plan `before` overlaps nothing: it keeps all parts here until the phase has ended, and
// then copy engines send them.
//
// The plan `push` launches the phase rank by rank, with the own rank last. Copy engines send one
// rank's parts while programs compute those of the next:
//
//   for r' { r = (r' + rank + 1) % W; parallel m, n { store %local[r, m, n], %v }
//            comm_scatter %local, %stage, r, %flags [plan="behind"] }
//   parallel m, n { for s in W { signal_wait %flags[rank, s, 0] }; ... }
//
// The plan `add` moves fewer bytes, but the order of the sum is not fixed, and each addition
// rounds:
//
//   parallel own m, n { store %c[rank, m, n], 0 }; comm_barrier
//   parallel r', m, n { atomic add %c[r, m, n], %v [system=true] }
#include "passes/combine.h"
#include "passes/comm/comm.h"

#include "lang/diag.h"

#include <string.h>

enum { MAX_ADDED = 8, PART_ELEMENTS = 4096 };

/// A combine under transformation.
typedef struct Stage {
    Comm *c;
    Op *add, *phase;
    Access a;
    int n, n_levels, rank_level; // tensors; dimensions of the phase; the dimension of the rank
    Level level[MAX_LEVELS];
    Value *ranks, *tiles;
    Value *stage[MAX_ADDED], *local[MAX_ADDED], *flags;
    int adds;    // contributions in the phase
    bool whole;  // not overlapped
    bool pushed; // copy engines send, rank by rank
    int split;   // the dimension that the owner's programs divide, or -1
    int64_t parts;
} Stage;

bool comm_is_add(const Op *op) {
    Access a = access_of(op);
    return value_is_sym(operand(op, 0)) &&
           (a.subs[0].kind != DIM_AT || !comm_is_own(sub_operand(op, &a, 0, 0)));
}

static void count_adds(Op *op, void *arg) {
    if (op->code == OP_COMBINE && comm_is_add(op)) ++*(int *)arg;
}

/* ---- legality ------------------------------------------------------------------------------ */

typedef struct Others {
    const Op *add;
    bool found;
} Others;

static void find_other(Op *op, void *arg) {
    Others *o = arg;
    if (op == o->add || !op_is_access(op) || op->code == OP_LIVE) return;
    for (int i = 0; i < (int)op_int(o->add, A_N_TENSORS, 1); i++)
        o->found |= operand(op, 0) == operand(o->add, i);
}

/// Whether the bounds of level i follow from the rank alone.
static bool bounds_are_known(const Stage *s, int i) {
    PtrMap known = {0};
    Value *rank = level_arg(&s->level[s->rank_level]);
    map_set(s->c->ctx, &known, rank, rank);
    return slice_is_movable(s->level[i].lo, s->phase, &known) &&
           slice_is_movable(s->level[i].hi, s->phase, &known);
}

static bool place_is_known(const Stage *s) {
    PtrMap known = {0};
    for (int i = 0; i < s->n_levels; i++) {
        Value *index = level_arg(&s->level[i]);
        map_set(s->c->ctx, &known, index, index);
    }
    Place p = place_of(s->add);
    for (int i = 0; i < p.n_operands; i++)
        if (!slice_is_movable(p.operands[i], s->phase, &known)) return false;
    return true;
}

/// Returns a level of which two iterations may contribute to the same element, or NULL.
static const Level *loose_level(Stage *s) {
    Combining *all = ctx_new(s->c->ctx, Combining);
    all->n_levels = s->n_levels;
    memcpy(all->level, s->level, sizeof *s->level * (size_t)s->n_levels);
    for (int i = 0; i < s->n_levels; i++) all->level[i].kept = true;
    for (int i = 0; i < s->n_levels; i++)
        if (i != s->rank_level && !combine_tells_apart(all, s->add, &s->level[i]))
            return &s->level[i];
    return NULL;
}

/// Returns why the contributions cannot be staged, or NULL.
static const char *reason_against_staging(Stage *s) {
    Others others = {.add = s->add};
    if (s->n > MAX_ADDED) return "it folds too many tensors at once";
    if (s->a.subs[0].kind != DIM_AT || s->rank_level < 0)
        return "the rank it goes to is not an index of 'parallel' over all ranks";
    if (s->add->parent != s->level[s->n_levels - 1].op->regions[0])
        return "it is in a loop or a branch, so programs may contribute twice or not at all";
    if (s->a.pick_at >= 0) return "its elements are picked one by one";
    for (int i = 0; i < s->n_levels; i++)
        if (!s->level[i].free && !bounds_are_known(s, i))
            return "the bounds of its indices rest on more than the rank";
    if (!place_is_known(s)) return "its place does not follow from the indices of 'parallel'";
    const Level *loose = loose_level(s);
    if (loose) {
        const char *name = op_str(loose->op, A_NAME);
        return ctx_format(s->c->ctx, "programs that differ in '%s' contribute to the same elements",
                          name ? name : "an index");
    }
    op_walk_pre(s->phase, find_other, &others);
    return others.found ? "the phase reads or writes it otherwise, too" : NULL;
}

/* ---- host side ----------------------------------------------------------------------------- */

/// Whether parts stay here until copy engines send them.
static bool keeps_parts_here(const Stage *s) {
    return s->whole || s->pushed;
}

/// Makes memory for shards of tensor i, in the type on the wire.
static Value *new_shard_room(Stage *s, Builder *b, int i, int n, Value *const *first,
                             const char *name) {
    Elem wire = operand(s->add, s->n + i)->type->elem;
    return comm_room(b, operand(s->add, i), wire, n, first, name);
}

static Value *new_words(Stage *s, Builder *b, Value *each) {
    Value *words = comm_words(s->c, b, operand(s->add, 0), s->ranks, each);
    words->name = "flags";
    return words;
}

/// Computes the bounds of level i at b, for programs whose parts go to rank `to`.
static void bounds_for(const Stage *s, Builder *b, int i, Value *to, Value **lo, Value **hi) {
    const Level *l = &s->level[i];
    PtrMap map = {0};
    map_set(s->c->ctx, &map, level_arg(&s->level[s->rank_level]), to);
    *lo = clone_slice(b, l->lo, s->phase, &map);
    *hi = clone_slice(b, l->hi, s->phase, &map);
}

static Value *count_for(const Stage *s, Builder *b, int i, Value *to) {
    Value *lo, *hi;
    bounds_for(s, b, i, to, &lo, &hi);
    return trip_count(b, lo, hi, s->level[i].step);
}

static Value *tiles_for(const Stage *s, Builder *b, Value *to) {
    Value *tiles = build_index(b, 1);
    for (int i = 0; i < s->n_levels; i++)
        if (i != s->rank_level) tiles = ix_mul(b, tiles, count_for(s, b, i, to));
    return tiles;
}

/// Returns the programs whose parts go to one rank: the maximum over all ranks.
static Value *most_tiles(const Stage *s, Builder *b) {
    bool free = true;
    for (int i = 0; i < s->n_levels; i++) free &= s->level[i].free;
    if (free) return tiles_for(s, b, s->c->rank);
    Value *none = build_index(b, 0);
    Op *loop = build_for(b, none, s->ranks, 1, 1, &none);
    Builder in = build_at_end(b->ir, loop->regions[0], b->loc);
    Value *to = region_add_arg(b->ir, in.region, none->type, "to");
    Value *most = region_add_arg(b->ir, in.region, none->type, "most");
    most = ix_max(&in, most, tiles_for(s, &in, to));
    build_yield(&in, 1, &most);
    return result(loop, 0);
}

/// Returns the place of the memory for parts: before the host's loops, whose iterations reuse it.
/// The barrier before the phase ensures that all ranks have folded the old contents.
static Op *before_loops(const Stage *s) {
    Op *at = s->phase;
    for (int i = 0; i < s->n; i++)
        if (operand(s->add, i)->def) return at; // memory of the launch, perhaps made in the loop
    for (Op *up = at->parent->parent; up->code != OP_KERNEL; up = up->parent->parent)
        if (up->code == OP_FOR || up->code == OP_WHILE) at = up;
    return at;
}

/// Words are raised to the epoch. The barrier before the phase has changed the epoch, so words of
/// earlier launches have no effect.
static void make_memory(Stage *s) {
    Builder b = build_before(s->c->ir, before_loops(s));
    Value *ranks = comm_dim(&b, operand(s->add, 0), 0), *both[2] = {ranks, ranks};
    for (int i = 0; i < s->n; i++) {
        s->stage[i] = new_shard_room(s, &b, i, 2, both, "stage");
        if (keeps_parts_here(s)) s->local[i] = new_shard_room(s, &b, i, 1, both, "local");
    }
    b = build_before(s->c->ir, s->phase);
    s->ranks = s->level[s->rank_level].hi;
    s->tiles = most_tiles(s, &b);
    s->flags = new_words(s, &b, keeps_parts_here(s) ? build_index(&b, 1) : s->tiles);
}

/* ---- contributing programs ----------------------------------------------------------------- */

/// Computes the number of the program among those whose parts go to rank `to`, from its indices.
static Value *tile_number(const Stage *s, Builder *b, Value *const *index, Value *to) {
    Value *number = NULL;
    for (int i = 0; i < s->n_levels; i++) {
        const Level *l = &s->level[i];
        if (i == s->rank_level) continue;
        Value *lo, *hi;
        bounds_for(s, b, i, to, &lo, &hi);
        Value *at = l->step ? ix_div(b, ix_sub(b, index[i], lo), build_index(b, l->step))
                            : build_index(b, 0);
        number = number ? ix_add(b, ix_mul(b, number, count_for(s, b, i, to)), at) : at;
    }
    return number ? number : build_index(b, 0);
}

/// Replaces the first coordinate of `at`, the rank, by the coordinates `first`. Returns the new
/// place.
static Place shard_behind(int n, Value *const *first, const Place *at) {
    Place shard = *at;
    shard.n--;
    shard.n_operands--;
    memmove(shard.dims, at->dims + 1, sizeof *at->dims * (size_t)shard.n);
    memmove(shard.operands, at->operands + 1, sizeof *at->operands * (size_t)shard.n_operands);
    return place_behind(n, first, &shard);
}

static void send_staged(Stage *s) {
    Builder b = build_before(s->c->ir, s->add);
    Place rest = place_of(s->add);
    Value *to = rest.operands[0], *first[2] = {to, s->c->rank}, *index[MAX_LEVELS];
    Place p = shard_behind(keeps_parts_here(s) ? 1 : 2, first, &rest);
    for (int i = 0; i < s->n; i++)
        store_at(&b, keeps_parts_here(s) ? s->local[i] : s->stage[i], operand(s->add, s->n + i), &p,
                 NULL);
    if (keeps_parts_here(s)) return;
    for (int i = 0; i < s->n_levels; i++) index[i] = level_arg(&s->level[i]);
    Value *epoch = comm_epoch(s->c, &b);
    Value *in[5] = {s->flags, epoch, to, s->c->rank, tile_number(s, &b, index, to)};
    Op *set = build_op(&b, OP_SIGNAL_SET, 5, in, 0, NULL, 0);
    op_set_update(s->c->ir, set, UPDATE_SET);
    // If a tile has several signals, none may be deferred.
    if (s->adds == 1) op_set_flag(s->c->ir, set, A_DEFERRABLE, true);
}

/// Builds the transfers by copy engines after the phase: the parts for `peer`, or for all other
/// ranks. The tensors go one after the other, so the flags of the last one signal that all have
/// arrived.
static void scatter_staged(Stage *s, Builder *b, Value *peer) {
    Ir *ir = s->c->ir;
    const Type *words = ty_tensor(ir, EL_I64, 2, NULL, (int64_t[]){DYNAMIC, 1});
    Value *dims[2] = {s->ranks, build_index(b, 1)};
    for (int i = 0; i < s->n; i++) {
        Value *which = peer ? peer : result(build_op(b, OP_SCRATCH, 2, dims, 1, &words, 0), 0);
        Value *up = i < s->n - 1 ? new_words(s, b, dims[1]) : s->flags;
        Value *rows = ix_max(b, comm_dim(b, s->local[i], 1), build_index(b, 1));
        Value *in[5] = {s->local[i], s->stage[i], which, up, rows};
        Op *op = build_op(b, OP_COMM_SCATTER, 5, in, 0, NULL, 0);
        op_set_transfer(ir, op, peer ? TRANSFER_BEHIND : TRANSFER_BEFORE);
        op_set_str(ir, op, A_NAME, comm_name(operand(s->add, i)));
    }
}

/* ---- the owner's programs ------------------------------------------------------------------ */

/// Splits the owner's programs: each reads all slots and computes almost nothing, so it should be
/// small. The parts divide the first axis that is large enough.
static void choose_parts(Stage *s) {
    int64_t elements = 1;
    s->split = -1;
    s->parts = 1;
    for (int d = 0; d < s->a.rank; d++) elements *= s->a.extents[d];
    for (int d = 1; d < s->a.n_subs && s->split < 0 && s->c->env->gpu; d++)
        if (s->a.subs[d].kind == DIM_AXIS && s->a.subs[d].size > 1) s->split = d;
    while (s->split >= 0 && elements / s->parts > PART_ELEMENTS &&
           s->a.subs[s->split].size % (2 * s->parts) == 0)
        s->parts *= 2;
}

/// Returns the place that an owner's program reads and writes: that of the contribution, or a part
/// of it.
static Place owned_place(const Stage *s, Builder *b, Value *const *index, Value *part) {
    PtrMap map = {0};
    for (int i = 0; i < s->n_levels; i++)
        map_set(s->c->ctx, &map, level_arg(&s->level[i]), index[i]);
    Place p = place_of(s->add);
    for (int i = 0; i < p.n_operands; i++)
        p.operands[i] = clone_slice(b, p.operands[i], s->phase, &map);
    if (!part) return p;
    SubDim *sub = &p.dims[s->split];
    int at = 0;
    for (int d = 0; d < s->split; d++) at += p.dims[d].kind == DIM_AXIS ? 2 : 1;
    sub->size /= s->parts;
    Value *size = build_index(b, sub->size), *skipped = ix_mul(b, part, size);
    p.operands[at] = ix_add(b, p.operands[at], ix_mul(b, skipped, build_index(b, sub->mul)));
    Value *left = ix_max(b, ix_sub(b, p.operands[at + 1], skipped), build_index(b, 0));
    p.operands[at + 1] = ix_min(b, left, size);
    return p;
}

/// Loads slot `source` of tensor i. If copy engines send, the own part is still in the local
/// memory.
static Value *read_slot(const Stage *s, Builder *b, int i, const Place *at, Value *source) {
    Value *first[2] = {s->c->rank, source};
    Place slot = shard_behind(2, first, at), own = shard_behind(1, first, at);
    if (!keeps_parts_here(s)) return load_at(b, s->stage[i], &slot);
    Value *is_own = build_binary(b, OP_EQ, source, s->c->rank);
    const Type *type = place_type(b->ir, s->stage[i]->type->elem, &slot);
    Op *choice = build_op(b, OP_IF, 1, &is_own, 1, &type, 2);
    for (int k = 0; k < 2; k++) {
        Builder in = build_at_end(b->ir, choice->regions[k], b->loc);
        Value *v = k ? load_at(&in, s->stage[i], &slot) : load_at(&in, s->local[i], &own);
        build_yield(&in, 1, &v);
    }
    return result(choice, 0);
}

static void read_stage_slots(const Stage *s, Builder *b, const Place *at, Value *source,
                             Value **out) {
    for (int i = 0; i < s->n; i++) {
        Elem elem = s->add->regions[0]->args[i]->type->elem;
        out[i] = build_cast(b, read_slot(s, b, i, at, source), elem);
    }
}

static void wait_for_slots(const Stage *s, Builder *b, Value *number) {
    const char *text =
        ctx_format(s->c->ctx, "rank {}'s part {} of '%s'", comm_name(operand(s->add, 0)));
    Value *epoch = comm_epoch(s->c, b);
    Op *loop = build_for(b, build_index(b, 0), s->ranks, 1, 0, NULL);
    Builder in = build_at_end(b->ir, loop->regions[0], b->loc);
    Value *source = region_add_arg(b->ir, in.region, s->ranks->type, "source");
    Value *word = keeps_parts_here(s) ? comm_of_other(s->c, &in, source) : source;
    Value *at[3] = {s->c->rank, word, number};
    comm_wait(s->c, &in, s->flags, epoch, source, 3, at, text);
    build_yield(&in, 0, NULL);
}

/// Folds in the order of the ranks. With `accumulate`, the old value comes first.
static void fold_slots(const Stage *s, Builder *b, const Place *at) {
    Value *state[MAX_ADDED], *values[MAX_ADDED];
    Place owned = shard_behind(1, &s->c->rank, at);
    read_stage_slots(s, b, at, build_index(b, 0), state);
    for (int i = 0; i < s->n && op_flag(s->add, A_ACCUMULATE); i++) values[i] = state[i];
    if (op_flag(s->add, A_ACCUMULATE)) {
        for (int i = 0; i < s->n; i++)
            state[i] = build_cast(b, load_at(b, operand(s->add, i), &owned), state[i]->type->elem);
        combine_fold(b, s->add, state, values, NULL, state);
    }
    Op *loop = build_for(b, build_index(b, 1), s->ranks, 1, s->n, state);
    Builder in = build_at_end(b->ir, loop->regions[0], b->loc);
    Value *source = region_add_arg(b->ir, in.region, s->ranks->type, "source");
    for (int i = 0; i < s->n; i++)
        state[i] = region_add_arg(b->ir, in.region, result(loop, i)->type, "sum");
    read_stage_slots(s, &in, at, source, values);
    combine_fold(&in, s->add, state, values, NULL, state);
    build_yield(&in, s->n, state);
    for (int i = 0; i < s->n; i++) {
        Value *v = build_cast(b, result(loop, i), operand(s->add, i)->type->elem);
        store_at(b, operand(s->add, i), v, &owned, NULL);
    }
}

/// Opens a phase over the own shard, moves b inside, and returns the place in the shard for a
/// program.
static Place open_owned(Stage *s, Builder *b, Value **index) {
    Value *lo[MAX_LEVELS], *hi[MAX_LEVELS], *part = NULL;
    choose_parts(s);
    for (int i = 0; i < s->n_levels; i++) bounds_for(s, b, i, s->c->rank, &lo[i], &hi[i]);
    for (int i = 0; i < s->n_levels; i++) {
        const Level *l = &s->level[i];
        index[i] = s->c->rank;
        if (i != s->rank_level)
            index[i] = open_parallel(b, lo[i], hi[i], l->step, op_str(l->op, A_NAME));
    }
    if (s->parts > 1)
        part = open_parallel(b, build_index(b, 0), build_index(b, s->parts), 1, "part");
    return owned_place(s, b, index, part);
}

static void fold_staged(Stage *s) {
    Builder b = build_after(s->c->ir, s->phase);
    Region *home = b.region;
    Value *index[MAX_LEVELS];
    if (s->whole) scatter_staged(s, &b, NULL);
    Place at = open_owned(s, &b, index);
    Value *number =
        keeps_parts_here(s) ? build_index(&b, 0) : tile_number(s, &b, index, s->c->rank);
    wait_for_slots(s, &b, number);
    fold_slots(s, &b, &at);
    close_regions(&b, home);
}

/// Notes the level for comm_turn, which rotates it once: several tensors may use the same level.
static void turn_later(Stage *s) {
    Op *level = s->level[s->rank_level].op;
    for (int i = 0; i < s->c->turns.n; i++)
        if (s->c->turns.data[i] == level) return;
    vec_push(s->c->ctx, &s->c->turns, level);
}

void comm_turn(Comm *c) {
    for (int i = 0; i < c->turns.n; i++) {
        Level l = {.op = c->turns.data[i]};
        level_reread(&l);
        comm_rotate(c, &l, 1);
    }
}

/* ---- sums in no order ---------------------------------------------------------------------- */

bool comm_is_sum(const Op *combine) {
    const Region *r = combine->regions[0];
    const Op *add = def_of(operand(terminator(r), 0), OP_ADD);
    return op_int(combine, A_N_TENSORS, 1) == 1 && add && r->first == add &&
           operand(add, 0)->region == r && operand(add, 1)->region == r &&
           operand(add, 0) != operand(add, 1);
}

/// Clears the own shard before any rank adds to it.
static void clear_owned(Stage *s) {
    Builder b = build_before(s->c->ir, s->phase);
    Region *home = b.region;
    Value *index[MAX_LEVELS], *tensor = operand(s->add, 0);
    Place at = open_owned(s, &b, index), owned = shard_behind(1, &s->c->rank, &at);
    Value *zero = build_zero(&b, place_type(b.ir, tensor->type->elem, &owned));
    store_at(&b, tensor, zero, &owned, NULL);
    close_regions(&b, home);
    b = build_before(s->c->ir, s->phase);
    build_op(&b, OP_COMM_BARRIER, 0, NULL, 0, NULL, 0);
}

static void add_in_place(Stage *s) {
    Value *tensor = operand(s->add, 0);
    Builder b = build_before(s->c->ir, s->add);
    Place p = place_of(s->add);
    if (!op_flag(s->add, A_ACCUMULATE)) clear_owned(s);
    s->c->remote |= op_flag(s->add, A_ACCUMULATE);
    Value *v = build_cast(&b, operand(s->add, 1), tensor->type->elem);
    Op *op = atomic_at(&b, UPDATE_ADD, tensor, v, &p);
    op_set_flag(s->c->ir, op, A_SYSTEM, true);
    turn_later(s);
    op_erase(s->add);
    comm_note(s->c, "%s: programs add to the owner's shard, in no order", comm_name(tensor));
}

/* ---- pushes -------------------------------------------------------------------------------- */

static void find_barrier(Op *op, void *arg) {
    if (op->code == OP_COMM_BARRIER) *(bool *)arg = true;
}

bool comm_can_push(Ctx *ctx, Op *kernel, const Op *add) {
    Level *level = ctx_array(ctx, Level, MAX_LEVELS);
    bool meets = false;
    int adds = 0;
    Op *phase = comm_phase(add);
    if (!phase || phase->parent->parent != kernel) return false;
    op_walk_pre(kernel, find_barrier, &meets);
    op_walk_pre(phase, count_adds, &adds);
    return !meets && adds == 1 && read_levels(ctx, phase, level) > 1;
}

/// Turns the dimension of ranks into a host loop around the phase, with the transfer of a rank's
/// part after its programs.
static void launch_by_rank(Stage *s) {
    Op *ranks = s->level[s->rank_level].op;
    bool outermost = ranks == s->phase;
    Region *body = ranks->regions[0];
    Builder b = build_before(s->c->ir, s->phase);
    Op *loop = build_for(&b, build_index(&b, 0), s->ranks, 1, 0, NULL);
    Builder in = build_at_end(b.ir, loop->regions[0], b.loc);
    Value *i = region_add_arg(b.ir, in.region, s->ranks->type, "i");
    Value *from = ix_add(&in, s->c->rank, build_index(&in, 1));
    Value *r = ix_rem(&in, ix_add(&in, i, from), s->ranks);
    r->name = body->args[0]->name;
    value_replace(body->args[0], r);
    for_each_op_safe(op, body) {
        if (op_has(op, TERMINATOR)) continue;
        if (outermost)
            op_move_to_end(op, in.region);
        else
            op_move_before(op, ranks);
    }
    op_erase(ranks);
    if (!outermost) op_move_to_end(s->phase, in.region);
    scatter_staged(s, &in, r);
    build_yield(&in, 0, NULL);
}

/* ---- the op -------------------------------------------------------------------------------- */

static const char *how_it_goes(const Stage *s) {
    if (s->whole) return "parts are sent when all are there, then folded";
    if (s->pushed)
        return "copy engines push a rank's part while programs work for the next, the owner folds";
    return "programs store into the owner's stage, a flag each; the owner folds";
}

void comm_stage(Comm *c, Op *add) {
    Stage *s = ctx_new(c->ctx, Stage);
    *s = (Stage){.c = c, .add = add, .a = access_of(add), .n = (int)op_int(add, A_N_TENSORS, 1)};
    for (Op *up = op_enclosing(add, OP_PARALLEL); up; up = op_enclosing(up, OP_PARALLEL))
        s->phase = up;
    for (int i = 0; i < c->adding.n; i++) s->adds += c->adding.data[i] == s->phase;
    hoist_bounds(s->phase);
    s->n_levels = read_levels(c->ctx, s->phase, s->level);
    Level *ranks = comm_rank_level(c, s->level, s->n_levels, sub_operand(add, &s->a, 0, 0));
    s->rank_level = ranks ? (int)(ranks - s->level) : -1;
    const char *name = comm_name(operand(add, 0)), *why = reason_against_staging(s);
    if (why) {
        diag(c->ctx, add->loc, D_COMM_ADD, name, why);
        return;
    }
    if (c->sums && comm_is_sum(add)) {
        add_in_place(s);
        return;
    }
    s->whole = c->plan == PLAN_BEFORE || c->copies;
    s->pushed = c->plan == PLAN_PUSH && c->env->gpu && s->adds == 1 &&
                comm_can_push(c->ctx, c->kernel, add);
    comm_control(c);
    make_memory(s);
    fold_staged(s);
    send_staged(s);
    op_erase(add);
    if (s->pushed)
        launch_by_rank(s);
    else if (!s->whole)
        turn_later(s);
    comm_note(c, "%s: %s", name, how_it_goes(s));
}
