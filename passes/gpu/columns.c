// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// columns: splits programs that combine long rows and carry the results from row to row in
// registers. If the results exceed the registers, a first phase reduces the rows, and a second
// phase processes them in strips of columns:
//
//   parallel %r { %a = reduce add %x(r); store %y, %r, %n, mul %x(r), %a; combine %s, %n, %x(r) }
//   ->
//   parallel %r { part[r] = reduce add %x(r) }
//   parallel %i by 1024 { parallel %r { store .. mul %x(r, i), part[r]; combine .. %x(r, i) } }
#include "passes/gpu/layouts.h"
#include "passes/gpu/strip_mine.h"
#include "passes/grid.h"
#include "passes/passes.h"
#include "passes/util.h"

#include <math.h>

enum {
    COLUMNS = 1024, // maximum columns of a program
    COLUMNS_LEAST = 128,
    COLUMNS_BLOCK = 2048, // maximum words of its block
};

/// Whether the body writes only rows. Then the second phase does all writes, and the phase that
/// only reduces does none.
static bool writes_rows_alone(const Strip *s) {
    for_each_op(op, s->body) {
        if (strip_is_write(op) && (!strip_has_rows(s, op) || op_int(op, A_N_TENSORS, 1) > 1))
            return false;
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

/// Makes the scratch tensor [programs, extents...].
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
    const Type *type = ty_scratch(b->ir, ty_tensor(b->ir, t->elem, t->rank + 1, extents, strides));
    return result(build_op(b, OP_SCRATCH, t->rank + 1, dims, 1, &type, 0), 0);
}

static Place place_of_sums(Builder *b, Value *number, const Type *t) {
    Place p = {0};
    place_add_at(&p, number);
    for (int d = 0; d < t->rank; d++)
        place_add_axis(&p, build_index(b, 0), build_index(b, t->extents[d]), t->extents[d]);
    return p;
}

/// Makes the cloned reductions in `body` process a row strip by strip.
static void reduce_strips(const Strip *s, Region *body, const PtrMap *map) {
    Strip r = {.ir = s->ir, .ctx = s->ctx, .body = body, .n_reductions = s->n_reductions};
    for (int i = 0; i < s->n_reductions; i++)
        r.reductions[i] = ((Value *)map_get(map, result(s->reductions[i], 0)))->def;
    if (!choose_strip(&r, STRIP, COLUMNS_LEAST, STRIP)) return;
    for (int i = 0; i < r.n_reductions; i++)
        if (r.reductions[i]) join_strips(&r, r.reductions[i]);
}

/// Builds the phase that reduces rows. The second phase loads its results from memory.
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
    for_each_op_safe(op, reducing) if (strip_is_write(op)) op_erase(op);
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
    if (!choose_strip(s, COLUMNS, COLUMNS_LEAST, COLUMNS_BLOCK) || !strip_find_sinks(s) ||
        !writes_rows_alone(s) || !strip_keeps_order(s))
        return;
    reduce_before(s, phase);
    go_by_columns(s, phase);
}

void pass_columns(PassEnv *env, Op *module) {
    if (env->gpu) op_walk_post(module, columns_of, env);
}
