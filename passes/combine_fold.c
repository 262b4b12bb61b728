// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// combine: builds the phases around a phase of contributions. The phase before clears flags; the
// phase after folds the partial results of the groups.
#include "passes/combine.h"
#include "passes/partial_folds.h"

enum { TILE = 256, PIECE_GPU = 8192 };

/// Opens a phase over all elements of a tensor, with tiles of TILE along its last axis, and returns
/// the place of a tile. clipped: the tile is an axis with a count; else it is a block of
/// coordinates, which allows a mask.
static Place open_tiles(Builder *b, Value *tensor, int first, bool clipped) {
    Place p = {0};
    int rank = tensor->type->rank;
    Value *zero = build_index(b, 0);
    Value *hi[MAX_RANK];
    for (int d = first; d < rank; d++) {
        Op *dim = build_op(b, OP_DIM, 1, &tensor, 1, &(const Type *){zero->type}, 0);
        op_set_int(b->ir, dim, A_AXIS, d);
        hi[d] = result(dim, 0);
    }
    if (first == rank) open_parallel(b, zero, zero, 0, NULL); // a tensor of one element
    for (int d = first; d < rank; d++) {
        int64_t step = d == rank - 1 ? TILE : 1;
        Value *i = open_parallel(b, zero, hi[d], step, NULL);
        if (d < rank - 1) {
            place_add_at(&p, i);
        } else if (clipped) {
            Value *left = ix_sub(b, hi[d], i);
            place_add_axis(&p, i, ix_min(b, left, build_index(b, TILE)), TILE);
        } else {
            const Type *lanes = ty_block(b->ir, EL_I64, 1, &(int64_t){TILE});
            Value *lane = result(build_op(b, OP_IOTA, 0, NULL, 1, &lanes, 0), 0);
            place_add_pick(&p, build_binary(b, OP_ADD, build_broadcast(b, i, lanes), lane));
        }
    }
    return p;
}

void combine_clear_flags(Builder *b, const Target *t) {
    Builder in = *b;
    Place p = open_tiles(&in, t->flags, 0, true);
    Value *no = build_bool(&in, place_type(in.ir, EL_BOOL, &p), false);
    store_at(&in, t->flags, no, &p, NULL);
    close_regions(&in, b->region);
}

/// Returns the place of group g within the scratches.
static Place in_group(const Place *p, Value *g) {
    Place all = {0};
    place_add_at(&all, g);
    place_append(&all, p);
    return all;
}

/// Folds the states of all groups at once, if the target is a GPU.
static bool fold_at_once(Combining *c, Builder *b, const Target *t, const Place *p, Value *from,
                         Value **state) {
    Parts parts = {.n = t->n,
                   .tensors = t->partial,
                   .at = in_group(p, from),
                   .along = 0,
                   .most = c->most,
                   .join = t->op->regions[0]};
    return c->env->gpu && fold_parts(b, &parts, from, c->groups, state);
}

/// Builds state = f(state, part[g, place]) for g = from .. groups. `seen` (NULL: all true) is
/// carried, too.
static Op *fold_loop(Combining *c, Builder *b, const Target *t, const Place *p, Value *from,
                     Value *const *state, Value *seen) {
    int n = t->n, slots = n + (seen != NULL);
    Value **inits = ctx_array(c->ctx, Value *, slots);
    for (int i = 0; i < n; i++) inits[i] = state[i];
    if (seen) inits[n] = seen;
    // The minimum tells later passes that the loop is short.
    Value *end = ix_min(b, c->groups, build_index(b, c->most));
    Op *loop = build_for(b, from, end, 1, slots, inits);
    Region *r = loop->regions[0];
    Value *g = region_add_arg(b->ir, r, from->type, "group");
    for (int i = 0; i < slots; i++) region_add_arg(b->ir, r, inits[i]->type, NULL);
    Builder in = build_at_end(b->ir, r, b->loc);
    Place at = in_group(p, g);
    Value **old = r->args + 1, **part = ctx_array(c->ctx, Value *, n);
    Value **next = ctx_array(c->ctx, Value *, slots);
    for (int i = 0; i < n; i++) part[i] = load_at(&in, t->partial[i], &at);
    if (seen) {
        Value *has = load_at(&in, t->flags, &at), *had = old[n];
        combine_fold(&in, t->op, old, part, build_unary(&in, OP_NOT, had), next);
        for (int i = 0; i < n; i++) next[i] = build_select(&in, has, next[i], old[i]);
        next[n] = build_binary(&in, OP_OR, had, has);
    } else {
        combine_fold(&in, t->op, old, part, NULL, next);
    }
    build_yield(&in, slots, next);
    return loop;
}

/// Loads the old values of the target as states. Returns false if the combine does not keep them.
static bool load_old(Builder *b, const Target *t, const Place *p, Value **state) {
    for (int i = 0; i < t->n && op_flag(t->op, A_ACCUMULATE); i++)
        state[i] = build_cast(b, load_at(b, operand(t->op, i), p), t->partial[i]->type->elem);
    return op_flag(t->op, A_ACCUMULATE);
}

static void store_target(Builder *b, const Target *t, const Place *p, Value *const *state,
                         Value *mask) {
    for (int i = 0; i < t->n; i++) {
        Value *tensor = operand(t->op, i);
        store_at(b, tensor, build_cast(b, state[i], tensor->type->elem), p, mask);
    }
}

static void take_results(const Target *t, Op *loop, Value **state) {
    for (int i = 0; i < t->n; i++) state[i] = result(loop, i);
}

/// Splits a long row over several programs of a GPU: opens a phase over pieces, and narrows the
/// place to one piece.
static bool open_pieces(Combining *c, Builder *b, Place *p) {
    SubDim *last = p->n ? &p->dims[p->n - 1] : NULL;
    if (!c->env->gpu || !last || last->kind != DIM_AXIS || last->mul != 1 ||
        last->size <= PIECE_GPU || last->size % PIECE_GPU)
        return false;
    Value **of = &p->operands[p->n_operands - 2]; // start and number of elements
    Value *count = of[1];
    Value *first = open_parallel(b, build_index(b, 0), count, PIECE_GPU, "piece");
    of[0] = ix_add(b, of[0], first);
    of[1] = ix_min(b, ix_sub(b, count, first), build_index(b, PIECE_GPU));
    last->size = PIECE_GPU;
    return true;
}

/// Folds over the kept indices. Every element there has a contribution from each group.
static void fold_by_program(Combining *c, Builder *b, const Target *t) {
    PtrMap map = {0};
    for (int i = 0; i < c->n_levels; i++) {
        const Level *l = &c->level[i];
        if (!l->kept) continue;
        Value *index = open_parallel(b, l->lo, l->hi, l->step, op_str(l->op, A_NAME));
        map_set(c->ctx, &map, level_arg(l), index);
    }
    Place p = place_of(t->op);
    for (int i = 0; i < p.n_operands; i++)
        p.operands[i] = clone_slice(b, p.operands[i], c->phase, &map);
    if (!map.n && !open_pieces(c, b, &p))
        open_parallel(b, build_index(b, 0), build_index(b, 0), 0, NULL);
    Value **state = ctx_array(c->ctx, Value *, t->n), *zero = build_index(b, 0);
    Place first = in_group(&p, zero);
    bool keep = load_old(b, t, &p, state);
    for (int i = 0; i < t->n && !keep; i++) state[i] = load_at(b, t->partial[i], &first);
    Value *from = keep ? zero : build_index(b, 1);
    if (!fold_at_once(c, b, t, &p, from, state))
        take_results(t, fold_loop(c, b, t, &p, from, state, NULL), state);
    store_target(b, t, &p, state, NULL);
}

/// Folds over all elements of the tensor. Elements without a contribution keep their values.
static void fold_by_element(Combining *c, Builder *b, const Target *t) {
    Place p = open_tiles(b, operand(t->op, 0), 0, false);
    Value **state = ctx_array(c->ctx, Value *, t->n), *zero = build_index(b, 0);
    bool keep = load_old(b, t, &p, state);
    for (int i = 0; i < t->n && !keep; i++)
        state[i] = build_zero(b, place_type(b->ir, t->partial[i]->type->elem, &p));
    Value *seen = build_bool(b, ty_with_elem(b->ir, state[0]->type, EL_BOOL), keep);
    Op *loop = fold_loop(c, b, t, &p, zero, state, seen);
    Value *any = result(loop, t->n);
    take_results(t, loop, state);
    if (p.n) {
        store_target(b, t, &p, state, any);
        return;
    }
    Op *branch = build_op(b, OP_IF, 1, &any, 0, NULL, 2);
    Builder then = build_at_end(b->ir, branch->regions[0], b->loc);
    store_target(&then, t, &p, state, NULL);
    build_yield(&then, 0, NULL);
    Builder otherwise = build_at_end(b->ir, branch->regions[1], b->loc);
    build_yield(&otherwise, 0, NULL);
}

/* ---- results without contributions --------------------------------------------------------- */

static bool is_written_by(const Target *t, const Value *tensor) {
    for (int i = 0; i < t->n; i++)
        if (operand(t->op, i) == tensor) return true;
    return false;
}

/// Whether the phase is one program that only stores single elements which the fold writes.
static bool only_sets(const Op *phase, const Target *t) {
    if (phase->code != OP_PARALLEL || op_int(phase, A_STEP, 1) != 0) return false;
    for_each_op(op, phase->regions[0]) {
        if (op_has(op, TERMINATOR) || (op_has(op, PURE) && !op->n_regions)) continue;
        const Value *to = op->code == OP_STORE ? operand(op, 0) : NULL;
        if (!to || to->type->rank || !is_written_by(t, to)) return false;
    }
    return true;
}

/// Whether the programs access the tensor only by combines.
static bool is_apart(const Combining *c, const Value *tensor) {
    for_each_use(u, tensor) {
        if (op_is_inside(u->user, c->phase) && u->user->code != OP_COMBINE) return false;
    }
    return true;
}

Op *combine_find_otherwise(const Combining *c) {
    const Target *t = &c->target[0];
    if (c->n_targets != 1 || !t->carried || op_flag(t->op, A_ACCUMULATE)) return NULL;
    for (int i = 0; i < t->n; i++)
        if (!is_apart(c, operand(t->op, i))) return NULL;
    Op *before = c->phase->prev;
    while (before && op_has(before, PURE) && !before->n_regions) before = before->prev;
    return before && only_sets(before, t) ? before : NULL;
}

/// The way from the partial results of all groups to the result. The first matching row applies.
typedef struct FoldWay {
    bool carried, keep;
    void (*build)(Combining *c, Builder *b, const Target *t);
    const char *algebra;
} FoldWay;
static const FoldWay ways[] = {
    {true, true, fold_by_program, "keep: s = f(... f(f(old, part 0), part 1) ...)"},
    {true, false, fold_by_program, "s = f(... f(part 0, part 1) ...)"},
    {false, true, fold_by_element, "keep: s = f(... f(old, part i), ...) of parts that there are"},
    {false, false, fold_by_element, "s = f(... f(part i, part k), ...) of parts that there are"},
};
const RuleTable combine_ways = RULE_TABLE("combine", FoldWay, ways);

static void build_fold(Combining *c, Builder *b, const Target *t) {
    for (int i = 0; i < combine_ways.n; i++) {
        if (ways[i].carried != t->carried || ways[i].keep != op_flag(t->op, A_ACCUMULATE)) continue;
        rule_applied(b->ir, t->op, ways[i].algebra);
        ways[i].build(c, b, t);
    }
}

void combine_build_fold(Combining *c, Builder *b, const Target *t) {
    // Without programs no contribution exists, and no element is written.
    Value *some = build_binary(b, OP_GT, c->groups, build_index(b, 0));
    Op *branch = build_op(b, OP_IF, 1, &some, 0, NULL, 2);
    Builder then = build_at_end(b->ir, branch->regions[0], c->phase->loc);
    build_fold(c, &then, t);
    close_regions(&then, branch->regions[0]);
    build_yield(&then, 0, NULL);
    if (c->otherwise) op_move_to_end(c->otherwise, branch->regions[1]);
    Builder otherwise = build_at_end(b->ir, branch->regions[1], c->phase->loc);
    build_yield(&otherwise, 0, NULL);
}
