// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// combine: turns contributions of many programs to one element into partial results, and adds a
// phase that folds these in order.
//
//   parallel c, b { combine s[c], %v }                            // fold over b for each c
//   ->
//   parallel c, g in groups { for b in group g { %p = f(%p, %v) }; part[g, c] = %p }
//   parallel c { for g in groups { %p = f(%p, part[g, c]) }; s[c] = %p }
//
// The indices of the phase are of two kinds. *Kept* ones tell elements apart (c: different values,
// different elements), so programs that differ in them never collide. The others are *folded*:
// their iterations, in order, are cut into groups of consecutive ones. The number of groups depends
// only on the dims, so the grouping, and thus the rounding, is the same in every run.
//
// If every program reaches a combine once, at a place that the folded indices do not move, the loop
// carries its partial result (above). Any other combine keeps its partial result in the scratch,
// element by element, with a flag for whether a contribution exists; the fold skips elements
// without one.
#include "passes/combine.h"
#include "ir/eval.h"
#include "lang/diag.h"
#include "passes/alias.h"
#include "passes/grid.h"
#include "passes/passes.h"

enum { PROGRAMS = 512, MAX_GROUPS_IN_MEMORY = 8 };

/* ---- kept indices -------------------------------------------------------------------------- */

static bool depends_on(const Value *v, const Value *index) {
    if (v == index) return true;
    if (!v->def || !value_is_inside(v, index->region->parent)) return false;
    for (int i = 0; i < v->def->n_operands; i++)
        if (depends_on(operand(v->def, i), index)) return true;
    return v->def->n_regions > 0;
}

static bool depends_on_folded(const Combining *c, const Value *v) {
    for (int i = 0; i < c->n_levels; i++)
        if (!c->level[i].kept && depends_on(v, level_arg(&c->level[i]))) return true;
    return false;
}

// Checks that one dimension of the place moves with the index, by at least its own size, and does
// not depend on folded indices.
bool combine_tells_apart(const Combining *c, const Op *op, const Level *l) {
    Access a = access_of(op);
    if (l->step == 0) return true; // there is only one index
    for (int d = 0; d < a.n_subs; d++) {
        Value *base = sub_operand(op, &a, d, 0);
        const SubDim *sub = &a.subs[d];
        if (sub->kind == DIM_PICK || !index_moves(base, level_arg(l)) || depends_on_folded(c, base))
            continue;
        if (sub->kind == DIM_AT || (sub->size - 1) * sub->mul < l->step) return true;
    }
    return false;
}

/// Keeps a level if each combine of the phase tells its indices apart. The level's bounds must be
/// known before the phase. Dropping a level may invalidate others, so the loop repeats.
static void choose_kept(Combining *c) {
    for (int i = 0; i < c->n_levels; i++) c->level[i].kept = c->level[i].free;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < c->n_levels; i++)
            for (int k = 0; k < c->ops.n && c->level[i].kept; k++)
                if (!combine_tells_apart(c, c->ops.data[k], &c->level[i])) {
                    c->level[i].kept = false;
                    changed = true;
                }
    }
}

/* ---- targets ------------------------------------------------------------------------------- */

/// Whether both combines have the same tensors and the same fold. Combines of one phase that differ
/// in these have no element in common.
static bool same_target(const Combining *c, const Op *a, const Op *b) {
    int n = (int)op_int(a, A_N_TENSORS, 1);
    if (op_int(b, A_N_TENSORS, 1) != n || op_flag(a, A_ACCUMULATE) != op_flag(b, A_ACCUMULATE))
        return false;
    for (int i = 0; i < n; i++)
        if (operand(a, i) != operand(b, i)) return false;
    return regions_equal(c->ctx, a->regions[0], b->regions[0]);
}

/// Whether kept indices determine the place, and each program reaches the combine exactly once.
static bool may_carry_combine(const Combining *c, const Op *op) {
    const Region *body = c->level[c->n_levels - 1].op->regions[0];
    if (op->parent != body) return false;
    for (int i = 0; i < c->n_levels; i++)
        if (!c->level[i].kept && !c->level[i].free) return false;
    PtrMap known = {0};
    for (int i = 0; i < c->n_levels; i++)
        if (c->level[i].kept)
            map_set(c->ctx, &known, level_arg(&c->level[i]), level_arg(&c->level[i]));
    Place p = place_of(op);
    for (int i = 0; i < p.n_operands; i++)
        if (!slice_is_movable(p.operands[i], c->phase, &known)) return false;
    return true;
}

static void find_targets(Combining *c) {
    for (int k = 0; k < c->ops.n; k++) {
        Op *op = c->ops.data[k];
        int t = 0;
        while (t < c->n_targets && !same_target(c, c->target[t].op, op)) t++;
        if (t == MAX_TARGETS) ice(c->ctx, op->loc, "more than %d tensors combined", MAX_TARGETS);
        if (t < c->n_targets) {
            c->target[t].carried = false; // several ops share its partial results
            continue;
        }
        Target *target = &c->target[c->n_targets++];
        *target = (Target){
            .op = op, .n = (int)op_int(op, A_N_TENSORS, 1), .carried = may_carry_combine(c, op)};
        target->partial = ctx_array(c->ctx, Value *, target->n);
    }
}

/* ---- host side ----------------------------------------------------------------------------- */

/// Makes the scratch [groups, the tensor's extents].
static Value *new_group_scratch(Combining *c, Builder *b, Elem elem, Value *tensor) {
    int rank = tensor->type->rank;
    int64_t extents[MAX_RANK], strides[MAX_RANK];
    Value *dims[MAX_RANK] = {c->groups};
    extents[0] = strides[0] = DYNAMIC;
    for (int d = 0; d < rank; d++) {
        Op *dim = build_op(b, OP_DIM, 1, &tensor, 1, (const Type *[]){c->groups->type}, 0);
        op_set_int(b->ir, dim, A_AXIS, d);
        int64_t known = tensor->type->extents[d];
        dims[d + 1] = known == DYNAMIC ? result(dim, 0) : build_index(b, known);
        extents[d + 1] = known;
        strides[d + 1] = DYNAMIC;
    }
    strides[rank] = 1;
    const Type *type = ty_scratch(b->ir, ty_tensor(b->ir, elem, rank + 1, extents, strides));
    return result(build_op(b, OP_SCRATCH, rank + 1, dims, 1, &type, 0), 0);
}

int64_t combine_programs_gpu(const Op *combine) {
    const Region *join = combine->regions[0];
    bool wide = operand(combine, 0)->type->rank > 0;
    for (int i = 0; i < join->n_args; i++) wide |= elem_info[join->args[i]->type->elem].bits > 32;
    return wide ? MAX_GROUPS_GPU : MAX_NUMBERS_GPU;
}

/// Computes the iterations of a group and the number of groups. With the kept indices there are
/// enough programs, and no group is empty.
static void cut_groups(Combining *c, Builder *b) {
    Value *one = build_index(b, 1), *kept = one;
    c->line = one;
    for (int i = 0; i < c->n_levels; i++) {
        Level *l = &c->level[i];
        if (!l->free) continue;
        l->count = trip_count(b, l->lo, l->hi, l->step);
        if (l->kept)
            kept = ix_mul(b, kept, l->count);
        else if (l->in_line)
            c->line = ix_mul(b, c->line, l->count);
    }
    int64_t programs = c->env->gpu ? MAX_NUMBERS_GPU : PROGRAMS;
    c->most = c->env->gpu ? MAX_NUMBERS_GPU : MAX_GROUPS;
    for (int t = 0; t < c->n_targets; t++) {
        int64_t own = combine_programs_gpu(c->target[t].op);
        if (c->env->gpu && own < programs) programs = c->most = own;
    }
    for (int t = 0; t < c->n_targets; t++)
        if (!c->target[t].carried) c->most = MAX_GROUPS_IN_MEMORY;
    Value *wanted = ix_ceildiv(b, build_index(b, programs), ix_max(b, kept, one));
    wanted = ix_min(b, wanted, build_index(b, c->most));
    c->group_size = ix_max(b, ix_ceildiv(b, c->line, wanted), one);
    c->groups = ix_ceildiv(b, c->line, c->group_size);
}

static void make_partials(Combining *c, Builder *b) {
    for (int t = 0; t < c->n_targets; t++) {
        Target *target = &c->target[t];
        for (int i = 0; i < target->n; i++) {
            Elem elem = target->op->regions[0]->args[i]->type->elem;
            target->partial[i] = new_group_scratch(c, b, elem, operand(target->op, i));
        }
        if (target->carried) continue;
        target->flags = new_group_scratch(c, b, EL_BOOL, operand(target->op, 0));
        combine_clear_flags(b, target);
    }
}

/* ---- the programs -------------------------------------------------------------------------- */

/// Returns the initial state of a carried target: the identity of its fold (*exact), else an
/// arbitrary value.
static Value *initial_state(Builder *b, const Target *t, int i, bool *exact) {
    const Value *arg = t->op->regions[0]->args[i];
    OpCode monoid = region_monoid(t->op->regions[0]);
    bool real = elem_is(arg->type->elem, EC_FLOAT);
    // A fold of NaNs alone is NaN, but max(-inf, NaN) is not.
    bool nan_safe = !real || monoid == OP_ADD || monoid == OP_MUL;
    // A single infinity of f8e5m2 folds to itself, but saturates with anything else.
    bool same = nan_safe && elem_wraps_to_itself(arg->type->elem);
    const Attr *a = same ? monoid_identity(b->ir, monoid, arg->type->elem) : NULL;
    const Type *type = ty_with_elem(b->ir, operand(t->op, t->n + i)->type, arg->type->elem);
    *exact = a != NULL;
    return a ? build_const(b, type, a) : build_zero(b, type);
}

/// Builds f(state, value), or value where `fresh` (NULL: never; a scalar or a block of bool).
void combine_fold(Builder *b, const Op *op, Value *const *state, Value *const *values, Value *fresh,
                  Value **out) {
    int n = (int)op_int(op, A_N_TENSORS, 1);
    Value **in = ctx_array(ir_ctx(b->ir), Value *, 2 * n);
    for (int i = 0; i < n; i++) {
        in[i] = state[i];
        in[n + i] = build_cast(b, values[i], state[i]->type->elem);
    }
    apply_lanes(b, op->regions[0], in, state[0]->type, out);
    for (int i = 0; i < n && fresh; i++) {
        Value *wide = build_broadcast(b, fresh, ty_with_elem(b->ir, out[i]->type, EL_BOOL));
        out[i] = build_select(b, wide, in[n + i], out[i]);
    }
}

/// Replaces a combine whose state the loop carries.
static void fold_in_loop(Combining *c, Target *t, Value *at, Value *from) {
    Op *op = t->op;
    Builder b = build_before(c->env->ir, op);
    Value **state = ctx_array(c->ctx, Value *, t->n), **values = ctx_array(c->ctx, Value *, t->n);
    for (int i = 0; i < t->n; i++) {
        state[i] = t->args[i];
        values[i] = operand(op, t->n + i);
    }
    Value *first = t->exact ? NULL : build_binary(&b, OP_EQ, at, from);
    combine_fold(&b, op, state, values, first, t->next);
}

/// Replaces a combine whose state lies in the scratch by flag ? f(old, v) : v.
static void fold_in_memory(Combining *c, const Target *t, Op *op, Value *group) {
    Builder b = build_before(c->env->ir, op);
    Place rest = place_of(op), p = {0};
    place_add_at(&p, group);
    place_append(&p, &rest);
    Value **state = ctx_array(c->ctx, Value *, t->n), **values = ctx_array(c->ctx, Value *, t->n);
    Value **next = ctx_array(c->ctx, Value *, t->n);
    Value *seen = load_at(&b, t->flags, &p);
    for (int i = 0; i < t->n; i++) {
        state[i] = load_at(&b, t->partial[i], &p);
        values[i] = operand(op, t->n + i);
    }
    combine_fold(&b, op, state, values, build_unary(&b, OP_NOT, seen), next);
    for (int i = 0; i < t->n; i++) store_at(&b, t->partial[i], next[i], &p, NULL);
    store_at(&b, t->flags, build_bool(&b, seen->type, true), &p, NULL);
}

/// Stores the states after the loop of a group: part[g, place] = state.
static void store_states(Builder *b, const Target *t, Op *loop, Value *group) {
    PtrMap map = {0};
    Place rest = place_of(t->op), p = {0};
    place_add_at(&p, group);
    for (int i = 0; i < rest.n_operands; i++)
        rest.operands[i] = clone_slice(b, rest.operands[i], loop, &map);
    place_append(&p, &rest);
    for (int i = 0; i < t->n; i++)
        store_at(b, t->partial[i], result(loop, t->first_slot + i), &p, NULL);
}

/// Builds the loop over the iterations of a group, which carries the states of all carried targets.
static Op *group_loop(Combining *c, Builder *b, Value *from, Value *to) {
    VEC(Value *) inits = {0};
    for (int t = 0; t < c->n_targets; t++) {
        Target *target = &c->target[t];
        target->first_slot = inits.n;
        target->exact = true;
        for (int i = 0; i < target->n && target->carried; i++) {
            bool exact;
            vec_push(c->ctx, &inits, initial_state(b, target, i, &exact));
            target->exact &= exact;
        }
    }
    Op *loop = build_for(b, from, to, 1, inits.n, inits.data);
    region_add_arg(b->ir, loop->regions[0], from->type, "at");
    for (int i = 0; i < inits.n; i++)
        region_add_arg(b->ir, loop->regions[0], inits.data[i]->type, "state");
    for (int t = 0; t < c->n_targets; t++) {
        c->target[t].args = loop->regions[0]->args + 1 + c->target[t].first_slot;
        c->target[t].next = ctx_array(c->ctx, Value *, c->target[t].n);
    }
    return loop;
}

/// Moves the phase's ops to b. The indices of levels in the line follow from the number `at`; other
/// folded levels become loops.
static void move_programs(Combining *c, Builder *b, Value *at) {
    Region *home = b->region;
    Value *index[MAX_LEVELS];
    int left = 0;
    for (int i = 0; i < c->n_levels; i++) left += c->level[i].in_line;
    for (int i = c->n_levels - 1; i >= 0; i--) { // the last index runs fastest
        Level *l = &c->level[i];
        if (!l->in_line) continue;
        Value *t = --left ? ix_rem(b, at, l->count) : at;
        at = left ? ix_div(b, at, l->count) : at;
        index[i] = ix_add(b, l->lo, ix_mul(b, t, build_index(b, l->step)));
    }
    for (int i = 0; i < c->n_levels; i++) {
        Level *l = &c->level[i];
        level_reread(l);
        if (!l->kept && !l->in_line && l->step) {
            Op *loop = build_for(b, l->lo, l->hi, l->step, 0, NULL);
            b->region = loop->regions[0];
            index[i] = region_add_arg(b->ir, b->region, l->lo->type, level_arg(l)->name);
        } else if (!l->kept && !l->in_line) {
            index[i] = l->lo;
        }
        value_replace(level_arg(l), l->kept ? l->index : index[i]);
        for_each_op_safe(op, l->op->regions[0]) {
            if (op->code != OP_PARALLEL && !op_has(op, TERMINATOR)) op_move_to_end(op, b->region);
        }
    }
    for (Region *r = b->region; r != home; r = r->parent->parent) {
        Builder end = build_at_end(b->ir, r, c->phase->loc);
        build_yield(&end, 0, NULL);
    }
    b->region = home;
}

static void rebuild_phase(Combining *c) {
    Builder b = build_before(c->env->ir, c->phase);
    Region *home = b.region;
    for (int i = 0; i < c->n_levels; i++) {
        Level *l = &c->level[i];
        if (l->kept) l->index = open_parallel(&b, l->lo, l->hi, l->step, op_str(l->op, A_NAME));
    }
    Value *group = open_parallel(&b, build_index(&b, 0), c->groups, 1, "group");
    // `range` cannot prove that the product does not wrap. The max states that it is not negative.
    Value *from = ix_max(&b, ix_mul(&b, group, c->group_size), build_index(&b, 0));
    Value *to = ix_min(&b, ix_add(&b, from, c->group_size), c->line);
    Op *loop = group_loop(c, &b, from, to);
    Builder in = build_at_end(c->env->ir, loop->regions[0], c->phase->loc);
    Value *at = loop->regions[0]->args[0];
    move_programs(c, &in, at);
    VEC(Value *) next = {0};
    for (int t = 0; t < c->n_targets; t++)
        if (c->target[t].carried) {
            fold_in_loop(c, &c->target[t], at, from);
            for (int i = 0; i < c->target[t].n; i++) vec_push(c->ctx, &next, c->target[t].next[i]);
        }
    build_yield(&in, next.n, next.data);
    for (int t = 0; t < c->n_targets; t++)
        if (c->target[t].carried) store_states(&b, &c->target[t], loop, group);
    for (int k = 0; k < c->ops.n; k++) {
        Op *op = c->ops.data[k];
        for (int t = 0; t < c->n_targets; t++)
            if (same_target(c, c->target[t].op, op) && !c->target[t].carried)
                fold_in_memory(c, &c->target[t], op, group);
    }
    for (int k = 0; k < c->ops.n; k++) op_erase(c->ops.data[k]);
    close_regions(&b, home);
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void find_combines(Op *op, void *arg) {
    Combining *c = arg;
    if (op->code == OP_COMBINE) vec_push(c->ctx, &c->ops, op);
}

/// The folded levels before the first one with bounds inside the phase form the line that is cut
/// into groups.
static void choose_line(Combining *c) {
    for (int i = 0; i < c->n_levels; i++) {
        if (c->level[i].kept) continue;
        if (!c->level[i].free) break;
        c->level[i].in_line = true;
    }
}

static bool ranks_fit(Combining *c) {
    for (int k = 0; k < c->ops.n; k++) {
        Op *op = c->ops.data[k];
        if (operand(op, 0)->type->rank < MAX_RANK) continue;
        diag(c->ctx, op->loc, D_COMBINE_RANK, MAX_RANK, MAX_RANK - 1);
        return false;
    }
    return true;
}

static void lower_combining_phase(Op *phase, void *arg) {
    if (phase->code != OP_PARALLEL || op_enclosing(phase, OP_PARALLEL)) return;
    PassEnv *env = arg;
    Combining *c = ctx_new(ir_ctx(env->ir), Combining);
    *c = (Combining){.env = env, .ctx = ir_ctx(env->ir), .phase = phase};
    op_walk_pre(phase, find_combines, c);
    if (!c->ops.n || !ranks_fit(c)) return;
    hoist_bounds(phase);
    c->n_levels = read_levels(c->ctx, phase, c->level);
    choose_kept(c);
    choose_line(c);
    find_targets(c);
    c->otherwise = combine_find_otherwise(c);
    Builder b = build_before(env->ir, phase);
    cut_groups(c, &b);
    make_partials(c, &b);
    b = build_after(env->ir, phase);
    for (int t = 0; t < c->n_targets; t++) combine_build_fold(c, &b, &c->target[t]);
    rebuild_phase(c);
    op_erase(phase);
}

void pass_combine(PassEnv *env, Op *module) {
    op_walk_post(module, lower_combining_phase, env);
}
