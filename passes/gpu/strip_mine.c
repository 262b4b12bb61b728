// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// strip: rows that a CTA has no registers for are read in strips, again for each use of all of
// them.
//
//   %x = load %t, 0, %n : f32[131072];  %m = reduce max %x;  store %u, 0, %n, sub %x, %m
//   ->
//   %x0 = load %t, 0, min(%n, 8192)
//   %a = for %i = 8192 .. 131072 by 8192 (%s = %x0) { max %s, load %t, %i, min(%n - %i, 8192) }
//   %m = reduce max %a;  for %i = 0 .. 131072 by 8192 { store %u, %i, .., sub (load ..), %m }
//
// Reductions of known functions alone, since sums of strips join elements in another order. Stores
// move to the last one of them, so that nothing is read again that has been written: what may be
// one tensor is read and written at the same places, strip by strip, and by whole strips alone.
//
// columns: what programs combine of such rows would be carried from one to the next in registers.
// Where these do not hold it, a phase reduces the rows, and a second one goes by strips of columns:
//
//   parallel %r { %a = reduce add %x(r); store %y, %r, %n, mul %x(r), %a; combine %s, %n, %x(r) }
//   ->
//   parallel %r { part[r] = reduce add %x(r) }
//   parallel %i by 1024 { parallel %r { store .. mul %x(r, i), part[r]; combine .. %x(r, i) } }
#include "passes/gpu/block_part.h"
#include "passes/gpu/layouts.h"
#include "passes/grid.h"

#include "passes/passes.h"
#include "passes/util.h"

#include <math.h>

enum {
    STRIP = 8192,       // words of a block, at most
    STRIP_LEAST = 1024, // of a row, to be worth a turn
    COLUMNS = 1024,     // that a program of them has, at most
    COLUMNS_LEAST = 128,
    COLUMNS_BLOCK = 2048, // words of its block
    MOST_SINKS = 16,
};

typedef struct Strip {
    Ir *ir;
    Ctx *ctx;
    Region *body;       // of a device or of a program
    int64_t row, strip; // elements along the dimension that is taken apart
    int n_reductions, n_stores;
    Op *reductions[MOST_SINKS], *stores[MOST_SINKS];
} Strip;

/* ---- what is a row ------------------------------------------------------------------------- */

/// The axis of a row; -1: there is none, -2: several.
static int row_axis(const Strip *s, const Type *t) {
    int found = -1;
    for (int d = 0; ty_is_block(t) && d < t->rank; d++)
        if (t->extents[d] == s->row) found = found == -1 ? d : -2;
    return found;
}

static bool is_row(const Strip *s, const Value *v) {
    return row_axis(s, v->type) != -1;
}

static bool has_rows(const Strip *s, const Op *op) {
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
    r->found |= op != r->outer && has_rows(r->s, op);
}

/* ---- what can be taken apart --------------------------------------------------------------- */

/// All of the row becomes one element.
static bool joins_row(const Strip *s, const Op *op) {
    return op->code == OP_REDUCE && !is_row(s, result(op, 0));
}

/// An op on rows that can be done strip by strip.
static bool goes_by_strips(const Strip *s, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (row_axis(s, operand(op, i)->type) == -2) return false;
    for (int i = 0; i < op->n_results; i++)
        if (row_axis(s, result(op, i)->type) == -2) return false;
    Access a;
    const Value *v;
    switch (op->code) {
    case OP_LOAD:
    case OP_STORE:
    case OP_COMBINE:
        a = access_of(op);
        v = op->code == OP_LOAD ? result(op, 0) : a.value;
        return !a.mask && a.pick_at < 0 && part_dim(&a, row_axis(s, v->type)) >= 0;
    case OP_REDUCE:
        return !joins_row(s, op) ||
               (region_monoid(op->regions[0]) != OP_COUNT && !op_str(op, "order"));
    case OP_RESHAPE:
        return is_row(s, operand(op, 0)) && is_row(s, result(op, 0)) &&
               part_axis(op, 0, row_axis(s, result(op, 0)->type)) >= 0;
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

static bool is_write(const Op *op) {
    return op->code == OP_STORE || op->code == OP_COMBINE;
}

static bool add_sink(Op **sinks, int *n, Op *op) {
    if (*n == MOST_SINKS) return false;
    sinks[(*n)++] = op;
    return true;
}

/// Collects what uses whole rows; false: something cannot be done by strips.
static bool find_sinks(Strip *s) {
    for_each_op(op, s->body) {
        if (!has_rows(s, op)) {
            RowsInside r = {s, op, false};
            op_walk_pre(op, look_inside, &r);
            if (r.found) return false;
        } else if (!goes_by_strips(s, op)) {
            return false;
        } else if ((is_write(op) && !add_sink(s->stores, &s->n_stores, op)) ||
                   (joins_row(s, op) && !add_sink(s->reductions, &s->n_reductions, op))) {
            return false;
        }
    }
    return s->n_reductions > 0;
}

/* ---- the order of accesses ----------------------------------------------------------------- */

/// The store may come after the op, which it stood before, and the op be done again before it.
static bool is_in_order(const Strip *s, const Op *op, const Op *store) {
    if (op == store || !may_be_one(operand(op, 0), operand(store, 0))) return true;
    bool load = op->code == OP_LOAD;
    return has_rows(s, op) ? same_places(op, store) && (!load || op_before(op, store))
                           : load && op_before(op, store);
}

static bool reads_row(const Strip *s, const Op *op, const Value *tensor) {
    return op->code == OP_LOAD && has_rows(s, op) && may_be_one(operand(op, 0), tensor);
}

/// Strips are read again behind the op.
static bool is_read_behind(const Strip *s, const Op *op) {
    for (int i = 0; i < s->n_reductions; i++)
        if (op_before(op, s->reductions[i])) return true;
    return s->n_stores && op_before(op, s->stores[s->n_stores - 1]);
}

/// Nothing but loads and stores has an effect, and those keep their order as far as it counts.
static bool keeps_order(const Strip *s) {
    for_each_op(op, s->body) {
        if (op_has(op, PURE) || op == terminator(s->body)) continue;
        if (op->code != OP_LOAD && !is_write(op)) return false;
        for (int i = 0; i < s->n_stores; i++)
            if (!is_in_order(s, op, s->stores[i])) return false;
        if (op->code == OP_LOAD || has_rows(s, op) || !is_read_behind(s, op)) continue;
        for_each_op(load, s->body) {
            if (reads_row(s, load, operand(op, 0))) return false;
        }
    }
    return true;
}

/* ---- strips -------------------------------------------------------------------------------- */

static Parts strip_at(const Strip *s, Value *start) {
    return (Parts){.ir = s->ir, .ctx = s->ctx, .start = start, .width = s->strip};
}

/// The strip of what a sink uses.
static Value *strip_of(const Strip *s, Parts *p, Builder *b, Value *v) {
    return part_of(p, b, v, row_axis(s, v->type));
}

/// What the strips of v are made of stands before op.
static bool is_known_before(const Strip *s, const Value *v, const Op *op) {
    if (!is_row(s, v)) return !v->def || v->def->parent != op->parent || op_before(v->def, op);
    for (int i = 0; i < v->def->n_operands; i++)
        if (!is_known_before(s, operand(v->def, i), op)) return false;
    return true;
}

/// A reduction, and those behind it that need none of its results: elements at the same places of
/// all strips are joined first.
static void join_strips(Strip *s, Op *first) {
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

/// All that is read for a strip stands before what is written of it.
static void write_strips(Strip *s, Parts *p, Builder *b) {
    for (int i = 0; i < s->n_stores; i++) strip_of(s, p, b, access_of(s->stores[i]).value);
    for (int i = 0; i < s->n_stores; i++)
        part_of_store(p, b, s->stores[i], row_axis(s, access_of(s->stores[i]).value->type));
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

/* ---- the passes ---------------------------------------------------------------------------- */

/// The longest row that is reduced; returns registers of as many elements as there are rows.
static int64_t measure_row(Strip *s) {
    int64_t block = 0, each = 1;
    for_each_op(op, s->body) {
        if (op->code != OP_REDUCE) continue;
        const Type *t = operand(op, 0)->type;
        int64_t row = t->extents[op_int(op, "axis", 0)];
        if (row < s->row) continue;
        s->row = row;
        block = ty_count(t) > block ? ty_count(t) : block;
        if (elem_info[t->elem].bits > 32) each = 2;
    }
    return s->row ? block / s->row * each : 1;
}

/// How much of a row is a strip: `most` at most, and `block` words of all rows. False: too little;
/// rows of loops stay as they are.
static bool choose_strip(Strip *s, int64_t most, int64_t least, int64_t block) {
    int64_t rows = measure_row(s);
    s->strip = most;
    while (s->strip >= least && (s->row % s->strip || rows * s->strip > block)) s->strip /= 2;
    return s->row && s->strip >= least && s->strip < s->row;
}

void pass_strip(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        if (op->code != OP_DEVICE || gpu_holds_rows(env, op)) continue;
        Strip *s = ctx_new(ir_ctx(env->ir), Strip);
        *s = (Strip){.ir = env->ir, .ctx = ir_ctx(env->ir), .body = op->regions[0]};
        if (!choose_strip(s, STRIP, STRIP_LEAST, STRIP) || !find_sinks(s) || !keeps_order(s))
            continue;
        for (int i = 0; i < s->n_reductions; i++)
            if (s->reductions[i]) join_strips(s, s->reductions[i]);
        if (s->n_stores) store_strips(s);
        op_set_attr(s->ir, op, "strip", at_int(s->ir, s->strip));
    }
}

/* ---- columns ------------------------------------------------------------------------------- */

/// All that has an effect is of rows, so that a program that only reduces them has none.
static bool writes_rows_alone(const Strip *s) {
    for_each_op(op, s->body) {
        if (is_write(op) && (!has_rows(s, op) || op_int(op, "n", 1) > 1)) return false;
    }
    return true;
}

static Value *count_programs(Builder *b, const Level *level, int n) {
    Value *all = build_index(b, 1);
    for (int i = 0; i < n; i++)
        all = ix_mul(b, all, trip_count(b, level[i].lo, level[i].hi, level[i].step));
    return all;
}

static Value *program_number(Builder *b, const Level *level, int n) {
    Value *number = build_index(b, 0);
    for (int i = 0; i < n; i++) {
        const Level *l = &level[i];
        if (!l->step) continue;
        Value *at = ix_div(b, ix_sub(b, level_arg(l), l->lo), build_index(b, l->step));
        number = ix_add(b, ix_mul(b, number, trip_count(b, l->lo, l->hi, l->step)), at);
    }
    return number;
}

/// scratch [programs, extents...]
static Value *new_sums(Builder *b, const Type *t, Value *programs) {
    Value *dims[MAX_RANK] = {programs};
    int64_t extents[MAX_RANK] = {DYNAMIC}, strides[MAX_RANK], stride = 1;
    for (int d = t->rank; d > 0; d--) {
        dims[d] = build_index(b, t->extents[d - 1]);
        extents[d] = t->extents[d - 1];
        strides[d] = stride;
        stride *= extents[d];
    }
    strides[0] = stride;
    const Type *type = ty_tensor(b->ir, t->elem, t->rank + 1, extents, strides);
    return result(build_op(b, OP_SCRATCH, t->rank + 1, dims, 1, &type, 0), 0);
}

static Place place_of_sums(Builder *b, Value *number, const Type *t) {
    Place p = {0};
    place_add_at(&p, number);
    for (int d = 0; d < t->rank; d++)
        place_add_axis(&p, build_index(b, 0), build_index(b, t->extents[d]), t->extents[d]);
    return p;
}

/// The copies of the reductions in `body` need no more of a row at once than a strip.
static void reduce_strips(const Strip *s, Region *body, const PtrMap *map) {
    Strip r = {.ir = s->ir, .ctx = s->ctx, .body = body, .n_reductions = s->n_reductions};
    for (int i = 0; i < s->n_reductions; i++)
        r.reductions[i] = ((Value *)map_get(map, result(s->reductions[i], 0)))->def;
    if (!choose_strip(&r, STRIP, COLUMNS_LEAST, STRIP)) return;
    for (int i = 0; i < r.n_reductions; i++)
        if (r.reductions[i]) join_strips(&r, r.reductions[i]);
}

/// Rows are reduced by a phase before this one, which finds the results in memory.
static void reduce_before(Strip *s, Op *phase) {
    Level level[MAX_LEVELS], before[MAX_LEVELS];
    PtrMap map = {0};
    Value *sums[MOST_SINKS];
    int n = read_levels(s->ctx, phase, level);
    Builder host = build_before(s->ir, phase);
    Value *programs = count_programs(&host, level, n);
    for (int i = 0; i < s->n_reductions; i++)
        sums[i] = new_sums(&host, result(s->reductions[i], 0)->type, programs);
    read_levels(s->ctx, op_clone(&host, phase, &map), before);
    Region *reducing = before[n - 1].op->regions[0];
    for_each_op_safe(op, reducing) if (is_write(op)) op_erase(op);
    Builder from = build_before(s->ir, terminator(reducing));
    Builder to = build_before(s->ir, s->body->first);
    Value *written = program_number(&from, before, n), *read = program_number(&to, level, n);
    for (int i = 0; i < s->n_reductions; i++) {
        Value *sum = result(s->reductions[i], 0);
        Place at = place_of_sums(&from, written, sum->type);
        store_at(&from, sums[i], map_get(&map, sum), &at, NULL);
        at = place_of_sums(&to, read, sum->type);
        value_replace(sum, load_at(&to, sums[i], &at));
    }
    reduce_strips(s, reducing, &map);
    for (int i = 0; i < s->n_reductions; i++) op_erase(s->reductions[i]);
}

static void go_by_columns(Strip *s, Op *phase) {
    Builder b = build_before(s->ir, phase);
    Region *home = b.region;
    Value *zero = build_index(&b, 0), *row = build_index(&b, s->row);
    Parts p = strip_at(s, open_parallel(&b, zero, row, s->strip, "columns"));
    op_move_to_end(phase, b.region);
    close_regions(&b, home);
    b = build_before(s->ir, terminator(s->body));
    write_strips(s, &p, &b);
}

static bool combines(const Region *body) {
    for_each_op(op, body) {
        if (op->code == OP_COMBINE && operand(op, 0)->type->rank) return true;
    }
    return false;
}

bool gpu_goes_by_columns(const GpuTarget *t, const GpuShape *shape, const Op *program) {
    double threads = shape->warps * (double)t->lanes;
    bool fits = shape->at_once <= fmin(t->registers_thread, t->registers_sm / threads);
    return !fits && combines(program->regions[0]);
}

static void columns_of(Op *phase, void *arg) {
    PassEnv *env = arg;
    Level level[MAX_LEVELS];
    if (phase->code != OP_PARALLEL || op_enclosing(phase, OP_PARALLEL)) return;
    hoist_bounds(phase);
    int n = read_levels(ir_ctx(env->ir), phase, level);
    const Op *program = level[n - 1].op;
    GpuShape shape = gpu_shape(env->gpu, program, env->cluster);
    if (!gpu_goes_by_columns(env->gpu, &shape, program)) return;
    for (int i = 0; i < n; i++)
        if (!level[i].free) return;
    Strip *s = ctx_new(ir_ctx(env->ir), Strip);
    *s = (Strip){.ir = env->ir, .ctx = ir_ctx(env->ir), .body = program->regions[0]};
    if (!choose_strip(s, COLUMNS, COLUMNS_LEAST, COLUMNS_BLOCK) || !find_sinks(s) ||
        !writes_rows_alone(s) || !keeps_order(s))
        return;
    reduce_before(s, phase);
    go_by_columns(s, phase);
}

void pass_columns(PassEnv *env, Op *module) {
    if (env->gpu) op_walk_post(module, columns_of, env);
}
