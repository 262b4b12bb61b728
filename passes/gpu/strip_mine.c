// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// strip-mine: reads a row that exceeds the registers of a CTA in strips, once for each use of the
// whole row.
//
//   %x = load %t, 0, %n : f32[131072];  %m = reduce max %x;  store %u, 0, %n, sub %x, %m
//   ->
//   %x0 = load %t, 0, min(%n, 8192)
//   %a = for %i = 8192 .. 131072 by 8192 (%s = %x0) { max %s, load %t, %i, min(%n - %i, 8192) }
//   %m = reduce max %a;  for %i = 0 .. 131072 by 8192 { store %u, %i, .., sub (load ..), %m }
//
// Only reductions of known functions qualify, since strips join elements in another order. All
// stores move to the last one, so that no strip is read after it has been written. Accesses that
// may refer to one tensor must access the same places, in whole strips.
#include "passes/gpu/strip_mine.h"
#include "passes/gpu/layouts.h"
#include "passes/grid.h"
#include "passes/passes.h"
#include "passes/util.h"

enum {
    STRIP_LEAST = 1024, // least elements of a row for which a loop pays
};

/* ---- rows ---------------------------------------------------------------------------------- */

/// Returns the axis of a row. -1: none, -2: several.
static int axis_of_row(const Strip *s, const Type *t) {
    int found = -1;
    for (int d = 0; ty_is_block(t) && d < t->rank; d++)
        if (t->extents[d] == s->row) found = found == -1 ? d : -2;
    return found;
}

static bool is_row(const Strip *s, const Value *v) {
    return axis_of_row(s, v->type) != -1;
}

bool strip_has_rows(const Strip *s, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (is_row(s, operand(op, i))) return true;
    for (int i = 0; i < op->n_results; i++)
        if (is_row(s, result(op, i))) return true;
    return false;
}

typedef struct RowsInside {
    const Strip *s;
    const Op *outer;
    bool found;
} RowsInside;

static void look_inside(Op *op, void *arg) {
    RowsInside *r = arg;
    r->found |= op != r->outer && strip_has_rows(r->s, op);
}

/* ---- ops by strips ------------------------------------------------------------------------- */

/// Whether the op reduces the whole row to one element.
static bool joins_row(const Strip *s, const Op *op) {
    return op->code == OP_REDUCE && !is_row(s, result(op, 0));
}

/// Whether the op on rows can work strip by strip.
static bool goes_by_strips(const Strip *s, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (axis_of_row(s, operand(op, i)->type) == -2) return false;
    for (int i = 0; i < op->n_results; i++)
        if (axis_of_row(s, result(op, i)->type) == -2) return false;
    Access a;
    const Value *v;
    switch (op->code) {
    case OP_LOAD:
    case OP_STORE:
    case OP_COMBINE:
        a = access_of(op);
        v = op->code == OP_LOAD ? result(op, 0) : a.value;
        return !a.mask && a.pick_at < 0 && part_dim(&a, axis_of_row(s, v->type)) >= 0;
    case OP_REDUCE:
        return !joins_row(s, op) ||
               (region_monoid(op->regions[0]) != OP_COUNT && !op_fold_order(op));
    case OP_RESHAPE:
        return is_row(s, operand(op, 0)) && is_row(s, result(op, 0)) &&
               part_axis(op, 0, axis_of_row(s, result(op, 0)->type)) >= 0;
    case OP_CONST:
    case OP_IOTA:
    case OP_CAST:
    case OP_BITCAST:
    case OP_SELECT:
    case OP_BROADCAST:
    case OP_PERMUTE: return true;
    default: return op_has(op, ELEMENTWISE);
    }
}

bool strip_is_write(const Op *op) {
    return op->code == OP_STORE || op->code == OP_COMBINE;
}

static bool add_sink(Op **sinks, int *n, Op *op) {
    if (*n == MOST_SINKS) return false;
    sinks[(*n)++] = op;
    return true;
}

bool strip_find_sinks(Strip *s) {
    for_each_op(op, s->body) {
        if (!strip_has_rows(s, op)) {
            RowsInside r = {s, op, false};
            op_walk_pre(op, look_inside, &r);
            if (r.found) return false;
        } else if (!goes_by_strips(s, op)) {
            return false;
        } else if ((strip_is_write(op) && !add_sink(s->stores, &s->n_stores, op)) ||
                   (joins_row(s, op) && !add_sink(s->reductions, &s->n_reductions, op))) {
            return false;
        }
    }
    return s->n_reductions > 0;
}

/* ---- the order of accesses ----------------------------------------------------------------- */

/// Whether the store may move after the op, and the op may be repeated before the store.
static bool is_in_order(const Strip *s, const Op *op, const Op *store) {
    if (op == store || !may_be_one(operand(op, 0), operand(store, 0))) return true;
    bool load = op->code == OP_LOAD;
    return strip_has_rows(s, op) ? same_places(op, store) && (!load || op_before(op, store))
                                 : load && op_before(op, store);
}

static bool reads_row(const Strip *s, const Op *op, const Value *tensor) {
    return op->code == OP_LOAD && strip_has_rows(s, op) && may_be_one(operand(op, 0), tensor);
}

/// Whether strips are read again after the op.
static bool is_read_behind(const Strip *s, const Op *op) {
    for (int i = 0; i < s->n_reductions; i++)
        if (op_before(op, s->reductions[i])) return true;
    return s->n_stores && op_before(op, s->stores[s->n_stores - 1]);
}

bool strip_keeps_order(const Strip *s) {
    for_each_op(op, s->body) {
        if (op_has(op, PURE) || op == terminator(s->body)) continue;
        if (op->code != OP_LOAD && !strip_is_write(op)) return false;
        for (int i = 0; i < s->n_stores; i++)
            if (!is_in_order(s, op, s->stores[i])) return false;
        if (op->code == OP_LOAD || strip_has_rows(s, op) || !is_read_behind(s, op)) continue;
        for_each_op(load, s->body) {
            if (reads_row(s, load, operand(op, 0))) return false;
        }
    }
    return true;
}

/* ---- strips -------------------------------------------------------------------------------- */

Parts strip_at(const Strip *s, Value *start) {
    return (Parts){.ir = s->ir, .ctx = s->ctx, .start = start, .width = s->strip};
}

/// The strip of a value that a sink uses.
static Value *strip_of(const Strip *s, Parts *p, Builder *b, Value *v) {
    return part_of(p, b, v, axis_of_row(s, v->type));
}

/// Whether all ops that compute strips of v stand before op.
static bool is_known_before(const Strip *s, const Value *v, const Op *op) {
    if (!is_row(s, v)) return !v->def || v->def->parent != op->parent || op_before(v->def, op);
    for (int i = 0; i < v->def->n_operands; i++)
        if (!is_known_before(s, operand(v->def, i), op)) return false;
    return true;
}

void join_strips(Strip *s, Op *first) {
    int n = 0;
    Op *group[MOST_SINKS];
    Value *sums[MOST_SINKS];
    for (int i = 0; i < s->n_reductions; i++) {
        Op *op = s->reductions[i];
        if (op && (op == first || op_before(first, op)) &&
            is_known_before(s, operand(op, 0), first)) {
            group[n++] = op;
            s->reductions[i] = NULL;
        }
    }
    Builder b = build_before(s->ir, first);
    Parts begin = strip_at(s, build_index(&b, 0));
    for (int i = 0; i < n; i++) sums[i] = strip_of(s, &begin, &b, operand(group[i], 0));
    Value *lo = build_index(&b, s->strip), *hi = build_index(&b, s->row);
    Op *loop = build_for(&b, lo, hi, s->strip, n, sums);
    Value *at = region_add_arg(s->ir, loop->regions[0], lo->type, "strip");
    for (int i = 0; i < n; i++) region_add_arg(s->ir, loop->regions[0], sums[i]->type, NULL);
    Builder body = build_at_end(s->ir, loop->regions[0], first->loc);
    Parts turn = strip_at(s, at);
    for (int i = 0; i < n; i++) {
        Value *x = strip_of(s, &turn, &body, operand(group[i], 0));
        OpCode code = region_monoid(group[i]->regions[0]);
        sums[i] = build_binary(&body, code, loop_arg(loop, 0, i), x);
    }
    build_yield(&body, n, sums);
    for (int i = 0; i < n; i++) {
        PtrMap map = {0};
        map_set(s->ctx, &map, operand(group[i], 0), result(loop, i));
        value_replace(result(group[i], 0), result(op_clone(&b, group[i], &map), 0));
    }
    for (int i = 0; i < n; i++) op_erase(group[i]);
}

void write_strips(Strip *s, Parts *p, Builder *b) {
    for (int i = 0; i < s->n_stores; i++) strip_of(s, p, b, access_of(s->stores[i]).value);
    for (int i = 0; i < s->n_stores; i++)
        part_of_store(p, b, s->stores[i], axis_of_row(s, access_of(s->stores[i]).value->type));
    for (int i = 0; i < s->n_stores; i++) op_erase(s->stores[i]);
}

static void store_strips(Strip *s) {
    Op *last = s->stores[s->n_stores - 1];
    Builder b = build_before(s->ir, last);
    Value *zero = build_index(&b, 0);
    Op *loop = build_for(&b, zero, build_index(&b, s->row), s->strip, 0, NULL);
    Value *at = region_add_arg(s->ir, loop->regions[0], zero->type, "strip");
    Builder body = build_at_end(s->ir, loop->regions[0], last->loc);
    Parts p = strip_at(s, at);
    write_strips(s, &p, &body);
    build_yield(&body, 0, NULL);
}

/* ---- the pass ------------------------------------------------------------------------------ */

/// Finds the longest row that is reduced. Returns the registers of one column of such a block: its
/// number of rows, twice for 64-bit elements.
static int64_t measure_row(Strip *s) {
    int64_t block = 0, each = 1;
    for_each_op(op, s->body) {
        if (op->code != OP_REDUCE) continue;
        const Type *t = operand(op, 0)->type;
        int64_t row = t->extents[op_int(op, A_AXIS, 0)];
        if (row < s->row) continue;
        s->row = row;
        block = ty_count(t) > block ? ty_count(t) : block;
        if (elem_info[t->elem].bits > 32) each = 2;
    }
    return s->row ? block / s->row * each : 1;
}

bool choose_strip(Strip *s, int64_t most, int64_t least, int64_t block) {
    int64_t rows = measure_row(s);
    s->strip = most;
    while (s->strip >= least && (s->row % s->strip || rows * s->strip > block)) s->strip /= 2;
    return s->row && s->strip >= least && s->strip < s->row;
}

void pass_strip_mine(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        if (op->code != OP_DEVICE || gpu_holds_rows(env, op)) continue;
        Strip *s = ctx_new(ir_ctx(env->ir), Strip);
        *s = (Strip){.ir = env->ir, .ctx = ir_ctx(env->ir), .body = op->regions[0]};
        if (!choose_strip(s, STRIP, STRIP_LEAST, STRIP) || !strip_find_sinks(s) ||
            !strip_keeps_order(s))
            continue;
        for (int i = 0; i < s->n_reductions; i++)
            if (s->reductions[i]) join_strips(s, s->reductions[i]);
        if (s->n_stores) store_strips(s);
        op_set_int(s->ir, op, A_STRIP_MINE, s->strip);
    }
}
