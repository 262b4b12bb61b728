// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: tensors in memory, atomics, combine, and the checks on them.
#include "ir/interp/interp_private.h"

#include <string.h>

void do_dim(Interp *it, Op *op) {
    (void)it;
    out(op, 0)->cells[0].i = in(op, 0)->tensor.extents[op_int(op, A_AXIS, 0)];
}

void do_stride(Interp *it, Op *op) {
    (void)it;
    out(op, 0)->cells[0].i = in(op, 0)->tensor.strides[op_int(op, A_AXIS, 0)];
}

void do_align(Interp *it, Op *op) {
    (void)it;
    uintptr_t p = (uintptr_t)in(op, 0)->tensor.data;
    out(op, 0)->cells[0].i = p ? (int64_t)(p & (0 - p)) : INT64_C(1) << 62;
}

/* ---- lanes of an access -------------------------------------------------------------------- */

/// The memory place of one lane of a load, store and so on.
typedef struct AccessLane {
    const Op *op;
    const Access *a;
    const Tensor *tensor;
    int64_t lane, count;     // number in the block, and of the block
    int64_t index[MAX_RANK]; // in the block
    int64_t at[MAX_RANK];    // coordinate in the tensor
    bool live;
    int64_t offset; // in elements, where live
} AccessLane;

static int64_t pick_lane(const AccessLane *l) {
    int64_t n = 0;
    for (int i = 0; i < l->a->pick_rank; i++)
        n = n * l->a->pick_extents[i] + l->index[l->a->pick_at + i];
    return n;
}

/// Computes at[], and whether the lane's own entries are valid.
static bool locate_lane(AccessLane *l) {
    const Access *a = l->a;
    bool valid = true;
    int64_t pick = a->pick_at >= 0 ? pick_lane(l) : 0;
    for (int d = 0; d < a->n_subs; d++) {
        const Cell *first = in(l->op, a->first[d])->cells;
        switch (a->subs[d].kind) {
        case DIM_AT: l->at[d] = first[0].i; break;
        case DIM_AXIS: {
            int64_t j = l->index[a->axis_of[d]];
            valid &= j < in(l->op, a->first[d] + 1)->cells[0].i;
            l->at[d] = (int64_t)((uint64_t)first[0].i + (uint64_t)j * (uint64_t)a->subs[d].mul);
            break;
        }
        case DIM_PICK: l->at[d] = first[pick].i; break;
        }
    }
    if (a->mask) valid &= in(l->op, l->op->n_operands - 1)->cells[pick].u != 0;
    return valid;
}

static void check_lane(Interp *it, const AccessLane *l, int d) {
    if (it->options.check && op_flag(l->op, A_CHECKED) && l->at[d] != -1) {
        const char *name = l->a->tensor->name;
        run_error(it, l->op, "index %lld is outside dimension %d of `%s`, which is %lld",
                  (long long)l->at[d], d, name ? name : "a tensor",
                  (long long)l->tensor->extents[d]);
    }
}

static void settle_lane(Interp *it, AccessLane *l) {
    l->live = locate_lane(l);
    l->offset = 0;
    for (int d = 0; l->live && d < l->a->n_subs; d++) {
        if (l->at[d] < 0 || l->at[d] >= l->tensor->extents[d]) {
            check_lane(it, l, d);
            l->live = false;
        }
        l->offset += l->at[d] * l->tensor->strides[d];
    }
}

/// `for (AccessLane l = first_access_lane(it, op); has_lane(it, &l); l.lane++)` visits the lanes in
/// order.
static AccessLane first_access_lane(const Op *op) {
    AccessLane l = {.op = op, .a = plan_of(op)->access, .count = 1};
    for (int i = 0; i < op->n_operands; i++)
        if (operand(op, i) == l.a->tensor) l.tensor = &in(op, i)->tensor;
    for (int d = 0; d < l.a->rank; d++) l.count *= l.a->extents[d];
    return l;
}

static bool has_lane(Interp *it, AccessLane *l) {
    if (l->lane == l->count) return false;
    int64_t rest = l->lane;
    for (int d = l->a->rank - 1; d >= 0; d--) {
        l->index[d] = rest % l->a->extents[d];
        rest /= l->a->extents[d];
    }
    settle_lane(it, l);
    return true;
}

#define for_each_lane(it, l, op)                                                                   \
    for (AccessLane l = first_access_lane(op); has_lane((it), &l); l.lane++)

/* ---- plain accesses ------------------------------------------------------------------------ */

static void check_scratch_written(Interp *it, const AccessLane *l) {
    const char *name = l->a->tensor->name;
    if (!was_written(it, l->tensor, l->offset))
        run_error(it, l->op, "an element of `%s` is read that has not been written yet",
                  name ? name : "a scratch tensor");
}

Cell load_element(Interp *it, const Tensor *t, int64_t offset) {
    const InterpMemory *m = it->options.memory;
    return t->away ? m->load(m->user, t, offset) : cell_load(t->elem, t->data, offset);
}

void store_element(Interp *it, const Tensor *t, int64_t offset, Cell c) {
    const InterpMemory *m = it->options.memory;
    if (t->away)
        m->store(m->user, t, offset, c);
    else
        cell_store(t->elem, t->data, offset, c);
}

static const void *element_address(const Tensor *t, int64_t offset) {
    return (const char *)t->data + offset * (elem_info[t->elem].bits / 8);
}

/// Halves of bytes have no address of their own.
static void check_rank_read(Interp *it, const AccessLane *l) {
    if (it->races && value_is_sym(l->a->tensor) && elem_info[l->tensor->elem].bits >= 8)
        race_read(it, l->op, element_address(l->tensor, l->offset));
}

void read_lanes(Interp *it, Op *op, Reg *to, Cell pad) {
    for_each_lane(it, l, op) {
        if (l.live) check_scratch_written(it, &l);
        if (l.live) check_rank_read(it, &l);
        to->cells[l.lane] = l.live ? load_element(it, l.tensor, l.offset) : pad;
    }
}

void do_load(Interp *it, Op *op) {
    read_lanes(it, op, out(op, 0), in(op, 1)->cells[0]);
}

void do_live(Interp *it, Op *op) {
    Reg *r = out(op, 0);
    for_each_lane(it, l, op) r->cells[l.lane].u = l.live;
}

/// Reports a race: two programs of a phase store to one element.
static void check_race(Interp *it, const AccessLane *l) {
    if (!it->options.check || !it->in_phase || elem_info[l->tensor->elem].bits < 8) return;
    const void *key = element_address(l->tensor, l->offset);
    if (value_is_sym(l->a->tensor)) race_write(it, l->op, key);
    if (value_is_sym(l->a->tensor) && l->tensor->elem == EL_I64) race_put(it, key);
    int64_t before = (int64_t)(intptr_t)map_get(&it->writers, key);
    if (before && before != it->program + 1)
        run_error(it, l->op,
                  "two programs of one phase write the same element of `%s`: use combine or "
                  "an atomic, or let one program own it",
                  l->a->tensor->name ? l->a->tensor->name : "a tensor");
    map_set(it->ctx, &it->writers, key, (void *)(intptr_t)(it->program + 1));
}

void do_store(Interp *it, Op *op) {
    const Reg *v = in(op, 1);
    for_each_lane(it, l, op) {
        if (!l.live) continue;
        check_race(it, &l);
        note_write(it, l.tensor, l.offset);
        store_element(it, l.tensor, l.offset, v->cells[l.lane]);
    }
}

/* ---- atomics ------------------------------------------------------------------------------- */

static Cell atomic_value(Update update, Elem e, Cell old, Cell v, Cell desired) {
    OpCode op = op_of_update(update);
    if (op != OP_COUNT) return eval_elementwise(op, e, (Cell[]){old, v, {0}});
    if (update == UPDATE_CAS) return cell_bits(e, old) == cell_bits(e, v) ? desired : old;
    return v; // xchg
}

void do_atomic(Interp *it, Op *op) {
    Update update = op_update(op);
    bool cas = update == UPDATE_CAS;
    const Reg *v = in(op, 1), *expected = cas ? in(op, 2) : NULL;
    Elem e = v->type->elem;
    for_each_lane(it, l, op) {
        Cell old = {0};
        if (l.live) {
            check_scratch_written(it, &l);
            old = load_element(it, l.tensor, l.offset);
            Cell first = cas ? expected->cells[l.lane] : v->cells[l.lane];
            race_atomic(it, element_address(l.tensor, l.offset),
                        !cas || cell_bits(e, old) == cell_bits(e, first));
            store_element(it, l.tensor, l.offset,
                          atomic_value(update, e, old, first, v->cells[l.lane]));
        }
        out(op, 0)->cells[l.lane] = old;
    }
}

/* ---- combine ------------------------------------------------------------------------------- */

static Elem fold_elem(const Op *op, int i) {
    return op->regions[0]->args[i]->type->elem;
}

void fold_in(Interp *it, Op *op, Cell *acc, const Cell *v) {
    int n = (int)op_int(op, A_N_TENSORS, 1);
    Reg **args = plan_of(op)->args[0];
    for (int i = 0; i < n; i++) {
        args[i]->cells[0] = acc[i];
        args[n + i]->cells[0] = v[i];
    }
    run_region(it, op->regions[0]);
    for (int i = 0; i < n; i++) acc[i] = yielded(op->regions[0], i)->cells[0];
}

static Fold *new_fold(Interp *it, Op *op, const AccessLane *l, const void *key, bool shard) {
    Fold *f = ctx_new(it->ctx, Fold);
    f->op = op;
    f->key = key;
    f->program = it->program;
    memcpy(f->at, l->at, sizeof f->at);
    f->value = ctx_array(it->ctx, Cell, op_int(op, A_N_TENSORS, 1));
    map_set(it->ctx, shard ? &it->shard_fold_of : &it->fold_of, key, f);
    if (shard)
        vec_push(it->ctx, &it->shard_folds, f);
    else
        vec_push(it->ctx, &it->folds, f);
    return f;
}

/// The targets of a tuple share coordinates but not strides.
static int64_t target_offset(const Fold *f, const Tensor *t) {
    int64_t offset = 0;
    for (int d = 0; d < t->rank; d++) offset += f->at[d] * t->strides[d];
    return offset;
}

void start_from_old(Interp *it, Fold *f) {
    for (int i = 0; i < (int)op_int(f->op, A_N_TENSORS, 1); i++) {
        const Tensor *t = &in(f->op, i)->tensor;
        Cell old = load_element(it, t, target_offset(f, t));
        f->value[i] = cell_cast(t->elem, fold_elem(f->op, i), old);
    }
}

/// Checks that a rank contributes one value to an element of a shard.
static void check_share(Interp *it, const Op *op, const Fold *f, bool shard) {
    const char *name = operand(op, 0)->name;
    if (shard && it->options.check && f->program != it->program)
        run_error(it, op, "two programs of a rank contribute to the same element of `%s`",
                  name ? name : "a tensor");
}

void do_combine(Interp *it, Op *op) {
    int n = (int)op_int(op, A_N_TENSORS, 1);
    Cell *v = ctx_array(it->ctx, Cell, n);
    bool shard = value_is_sym(operand(op, 0));
    for_each_lane(it, l, op) {
        if (!l.live) continue;
        for (int i = 0; i < n; i++) {
            const Reg *x = in(op, n + i);
            v[i] = cell_cast(x->type->elem, fold_elem(op, i), x->cells[l.lane]);
        }
        const void *key = element_address(l.tensor, l.offset);
        Fold *f = map_get(shard ? &it->shard_fold_of : &it->fold_of, key);
        if (f) {
            check_share(it, op, f, shard);
            fold_in(it, op, f->value, v);
            continue;
        }
        f = new_fold(it, op, &l, key, shard);
        if (op_flag(op, A_ACCUMULATE) && !shard) {
            check_scratch_written(it, &l);
            start_from_old(it, f);
            fold_in(it, op, f->value, v);
        } else {
            memcpy(f->value, v, (size_t)n * sizeof(Cell));
        }
    }
}

void store_fold(Interp *it, const Fold *f) {
    for (int i = 0; i < (int)op_int(f->op, A_N_TENSORS, 1); i++) {
        const Tensor *t = &in(f->op, i)->tensor;
        note_write(it, t, target_offset(f, t));
        store_element(it, t, target_offset(f, t),
                      cell_cast(fold_elem(f->op, i), t->elem, f->value[i]));
    }
}

void finish_folds(Interp *it) {
    for (int k = 0; k < it->folds.n; k++) store_fold(it, it->folds.data[k]);
    it->folds.n = 0;
    memset(&it->fold_of, 0, sizeof it->fold_of);
}
