// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tile-grid: turns each phase, a nest of `parallel`, into a launch of tasks.
//
//   parallel m = 0 .. M by 64 { parallel n = 0 .. N by 64 { body } }
//   ->
//   %cm = ceildiv(M, 64); %cn = ceildiv(N, 64)
//   launch %cm * %cn { (%task) %m = ...; %n = ...; body }
//
// - Dimensions with bounds that the host knows span the tasks. The others (bounds that depend on
//   earlier indices or on tensor elements) become loops inside. If that leaves too few tasks, the
//   first of these loops is dealt out in `ways` consecutive parts.
// - Programs are numbered in source order, the last index fastest, so neighbours share rows. If
//   programs multiply matrices, the last two dimensions go in super-rows of some tiles, so that the
//   operands of a super-row are reused from the cache. The axis `order` sets their height (1: row
//   by row) or, below 0, the width of super-columns; it also applies without products. Rows whose
//   programs have longer loops begin first (longest_first.c).
// - With pairs of programs (`cluster=2`, multicast.c), 2i and 2i + 1 have neighbouring rows of
//   tiles in the same columns.
// - A task is a run of consecutive programs. It has GRID_MIN_TASK to GRID_MAX_TASK seconds of work,
//   or as many programs as the axis `grain` says.
//
// On a GPU a task is a CTA and runs one program. If only the device knows some bounds, as many CTAs
// as it holds at once walk the dimensions on which those bounds depend. Of the tiles found on the
// way, each CTA takes every G-th:
//
//   launch G { (%task) for %e (%skip = %task) { %tiles = ...
//     for %i in 0 .. ceildiv(%tiles - %skip, G) { tile %skip + %i G of %e }
//     yield %skip + ... - %tiles } }
#include "passes/gpu/gpu.h"
#include "passes/grid.h"
#include "passes/model.h"
#include "passes/passes.h"
#include "passes/util.h"

#include <limits.h>

enum { MAX_WAYS = 64 };

typedef struct ParallelNest {
    PassEnv *env;
    Op *phase;
    int n;
    Level level[MAX_LEVELS];
    Value *programs, *run, *ways; // run, ways: NULL for 1
    int64_t order;                // of tiles; 0: the grid has no two dimensions
    Value *together; // number of last heads whose rows are numbered together, longest first; or
                     // NULL
    Level *paired;   // the level whose neighbours are pairs (its count is that of pairs), or NULL
} ParallelNest;

/// Scalar host arithmetic may stand between the levels of the nest. Moves it before the nest, so
/// that bounds of inner levels do not depend on outer levels.
void hoist_bounds(Op *phase) {
    for (Op *p = phase; p; p = inner_parallel(p)) for_each_op_safe(op, p->regions[0]) {
            bool fixed = op_has(op, PURE) && op->n_regions == 0 && op->n_results == 1 &&
                         ty_is_scalar(result(op, 0)->type);
            for (int i = 0; i < op->n_operands; i++)
                fixed &= !value_is_inside(operand(op, i), phase);
            if (fixed) op_move_before(op, phase);
        }
}

int read_levels(Ctx *ctx, Op *phase, Level *level) {
    int n = 0;
    for (Op *p = phase; p; p = inner_parallel(p)) {
        if (n == MAX_LEVELS) ice(ctx, p->loc, "a grid of more than %d dimensions", MAX_LEVELS);
        Level *l = &level[n++];
        *l = (Level){
            .op = p, .step = op_int(p, A_STEP, 1), .lo = operand(p, 0), .hi = operand(p, 1)};
        l->free = !value_is_inside(l->lo, phase) && !value_is_inside(l->hi, phase);
    }
    return n;
}

static Region *program_body(const ParallelNest *nest) {
    return nest->level[nest->n - 1].op->regions[0];
}

bool multiplies(const Region *r) {
    for_each_op(op, r) {
        if (op->code == OP_DOT || op->code == OP_CONTRACT) return true;
        for (int i = 0; i < op->n_regions; i++)
            if (multiplies(op->regions[i])) return true;
    }
    return false;
}

/* ---- host side ----------------------------------------------------------------------------- */

/// Chooses the programs of a task: enough for GRID_MIN_TASK, at most GRID_MAX_TASK. In between, the
/// number of tasks decides.
static void choose_run(ParallelNest *nest, Builder *b) {
    if (nest->env->grain > 0) {
        nest->run = nest->env->grain > 1 ? build_index(b, nest->env->grain) : NULL;
        return;
    }
    double weight = program_seconds(program_body(nest), nest->env);
    int64_t least = (int64_t)(GRID_MIN_TASK / weight) + 1,
            most = (int64_t)(GRID_MAX_TASK / weight) + 1;
    // Neighbours that multiply share an operand, which the target may keep packed.
    if (multiplies(program_body(nest)) && most < 2 * GRID_GROUP) most = 2 * GRID_GROUP;
    if (most == 1 || is_const_int(nest->programs, 1)) return;
    Value *wanted =
        build_index(b, GRID_TASKS_A_THREAD * (nest->env->threads > 0 ? nest->env->threads : 1));
    Value *fair = ix_ceildiv(b, nest->programs, wanted);
    nest->run = ix_min(b, ix_max(b, fair, build_index(b, least)), build_index(b, most));
    if (is_const_int(nest->run, 1)) nest->run = NULL;
}

/// Splits the first dependent dimension into parts, so that all threads have work.
static void choose_level_ways(ParallelNest *nest, Builder *b) {
    int threads = nest->env->threads > 0 ? nest->env->threads : 1;
    bool dependent = false;
    for (int i = 0; i < nest->n; i++) dependent |= !nest->level[i].free && nest->level[i].step;
    if (!dependent || threads == 1) return;
    Value *wanted = build_index(b, 4 * threads);
    Value *atleast1 = ix_max(b, nest->programs, build_index(b, 1));
    nest->ways = ix_min(b, ix_ceildiv(b, wanted, atleast1), build_index(b, MAX_WAYS));
    if (is_const_int(nest->ways, 1)) nest->ways = NULL;
}

static int spread_levels(ParallelNest *nest, Level **out);
static int64_t tile_order(const ParallelNest *nest, Level *const *spread, int n);
static void choose_together(ParallelNest *nest, Builder *b);

/// Numbers rows of tiles in pairs, if they go in super-rows or one after the other. Their number is
/// even.
static void pair_up(ParallelNest *nest, Builder *b) {
    Level *spread[MAX_LEVELS] = {NULL};
    int n = spread_levels(nest, spread);
    if (n < 2 || !op_flag(spread[1]->op, A_MULTICAST) || tile_order(nest, spread, n) < 0) return;
    if (inner_parallel(spread[1]->op) != spread[0]->op) return;
    nest->paired = spread[1];
    nest->paired->count = ix_div(b, nest->paired->count, build_index(b, GPU_PAIR));
}

static Value *count_tasks(ParallelNest *nest, Builder *b) {
    for (int i = 0; i < nest->n; i++) {
        Level *l = &nest->level[i];
        if (l->free) l->count = trip_count(b, l->lo, l->hi, l->step);
    }
    pair_up(nest, b);
    choose_together(nest, b);
    nest->programs = build_index(b, nest->paired ? GPU_PAIR : 1);
    for (int i = 0; i < nest->n; i++)
        if (nest->level[i].free) nest->programs = ix_mul(b, nest->programs, nest->level[i].count);
    if (nest->env->gpu) return nest->programs;
    choose_level_ways(nest, b);
    if (nest->ways) return ix_mul(b, nest->programs, nest->ways);
    choose_run(nest, b);
    return nest->run ? ix_ceildiv(b, nest->programs, nest->run) : nest->programs;
}

/* ---- task side ----------------------------------------------------------------------------- */

/// Collects the levels that the program's number decides and that have more than one index, last
/// first. Returns their number.
static int spread_levels(ParallelNest *nest, Level **out) {
    int n = 0;
    for (int i = nest->n - 1; i >= 0; i--)
        if (nest->level[i].count && !is_const_int(nest->level[i].count, 1))
            out[n++] = &nest->level[i];
    return n;
}

/// Returns the rows of a super-row. On a GPU the concurrent CTAs should cover as many rows as
/// columns of the result, since they read least then. If a dimension is no tile of a matrix (a
/// batch, heads), programs that differ in it share nothing, and the last index is the fastest.
static int64_t group_of(const ParallelNest *nest, const Level *rows, const Level *cols) {
    const GpuTarget *gpu = nest->env->gpu;
    if (!gpu) return GRID_GROUP;
    if (rows->step <= 1 || cols->step <= 1) return 1;
    int64_t group = 1, area = gpu->sms * cols->step / rows->step;
    while ((group + 1) * (group + 1) <= area) group++;
    return group < GRID_GROUP / 2   ? GRID_GROUP / 2
           : group > GRID_MAX_GROUP ? GRID_MAX_GROUP
                                    : group;
}

/// Returns the rows of a super-row, or, below 0, the columns of a super-column.
static int64_t tile_order(const ParallelNest *nest, Level *const *spread, int n) {
    if (n < 2) return 1;
    if (nest->env->order) return nest->env->order;
    return multiplies(program_body(nest)) ? group_of(nest, spread[1], spread[0]) : 1;
}

/// Splits q, a number within rows x cols tiles, into super-rows of `group` rows, each walked column
/// by column: row = first + q' % h, col = q' / h, with h = the rows of this super-row.
static void decode_group(Builder *b, Value *q, int64_t group, Level *rows, Level *cols) {
    Value *size = ix_mul(b, cols->count, build_index(b, group));
    Value *first = ix_mul(b, ix_div(b, q, size), build_index(b, group));
    Value *h = ix_min(b, ix_sub(b, rows->count, first), build_index(b, group));
    Value *within = ix_rem(b, q, size);
    rows->index = ix_add(b, first, ix_rem(b, within, h));
    cols->index = ix_div(b, within, h);
}

/// Whether programs of high indices have longer loops. They should begin first, so that short ones
/// fill up the last round.
static bool grows_with_index(const ParallelNest *nest, const Level *l) {
    return nest->env->gpu && level_grows(program_body(nest), l);
}

/// Returns the index, among the spread levels, of the one with which loops of products grow, unless
/// another order is requested; else -1.
static int growing_rows(const ParallelNest *nest, Level *const *spread, int n) {
    if (nest->env->order || nest->paired || !multiplies(program_body(nest))) return -1;
    for (int i = 0; i + 1 < n; i++)
        if (spread[i]->step > 1 && grows_with_index(nest, spread[i])) return i;
    return -1;
}

/// Chooses the number of last heads that are numbered together, if loops grow with rows.
static void choose_together(ParallelNest *nest, Builder *b) {
    Level *spread[MAX_LEVELS] = {NULL};
    int n = spread_levels(nest, spread), rows = growing_rows(nest, spread, n);
    if (rows >= 0)
        nest->together =
            heads_together(nest->env->gpu, b, nest->phase, program_body(nest), spread, rows);
}

/// Clamps v, which is at most a program's number, so that divisions know that it is small
/// (narrow_divide.c).
static Value *small_number(Builder *b, Value *v) {
    return ix_min(b, ix_max(b, v, build_index(b, 0)), build_index(b, INT_MAX - 1));
}

/// Decodes the row of a program, and returns the number of its head. Heads follow each other,
/// except for the last ones, whose rows of one number come together.
static Value *longest_last(ParallelNest *nest, Builder *b, Value *program, Level *const *spread,
                           int n, int rows) {
    Value *heads = build_index(b, 1), *length = spread[rows]->count, *zero = build_index(b, 0);
    for (int i = rows + 1; i < n; i++) heads = ix_mul(b, heads, spread[i]->count);
    Value *last = ix_min(b, nest->together, heads), *first = ix_sub(b, heads, last);
    Value *before = ix_mul(b, first, length);
    Value *in_last = build_binary(b, OP_GE, program, before);
    Value *from = build_select(b, in_last, before, zero);
    Value *by = build_select(b, in_last, last, length);
    Value *number = small_number(b, ix_sub(b, program, from));
    Value *major = ix_div(b, number, by), *minor = ix_rem(b, number, by);
    spread[rows]->index = build_select(b, in_last, major, minor);
    Value *head = build_select(b, in_last, ix_add(b, first, minor), major);
    return small_number(b, head);
}

/// Decodes the number of a program, or of a pair, to the step of each free level.
static void decode_levels(ParallelNest *nest, Builder *b, Value *program) {
    Level *spread[MAX_LEVELS] = {NULL};
    int n = spread_levels(nest, spread), i = 0;
    int rows = nest->together ? growing_rows(nest, spread, n) : -1;
    int64_t order = nest->together ? 1 : tile_order(nest, spread, n);
    nest->order = n >= 2 ? order : 0;
    if (nest->paired && order / GPU_PAIR) order /= GPU_PAIR;
    if (order != 1) {
        Value *tiles = ix_mul(b, spread[0]->count, spread[1]->count);
        Value *tile = n > 2 ? ix_rem(b, program, tiles) : program;
        decode_group(b, tile, order < 0 ? -order : order, spread[order > 0], spread[order < 0]);
        program = n > 2 ? ix_div(b, program, tiles) : program;
        i = 2;
    }
    for (; i < n; i++) {
        if (i == rows) {
            program = longest_last(nest, b, program, spread, n, rows);
            continue;
        }
        spread[i]->index = i + 1 < n ? ix_rem(b, program, spread[i]->count) : program;
        program = i + 1 < n ? ix_div(b, program, spread[i]->count) : program;
    }
    for (i = 0; i < n; i++) {
        if (!grows_with_index(nest, spread[i])) continue;
        Value *last = ix_sub(b, spread[i]->count, build_index(b, 1));
        spread[i]->index = ix_sub(b, last, spread[i]->index);
    }
}

/// Decodes the number of a program to the step of each free level.
static void decode_program(ParallelNest *nest, Builder *b, Value *program) {
    Level *l = nest->paired;
    if (!l) {
        decode_levels(nest, b, program);
        return;
    }
    Value *two = build_index(b, GPU_PAIR);
    decode_levels(nest, b, ix_div(b, program, two));
    Value *pair = l->index ? l->index : build_index(b, 0);
    l->index = ix_add(b, ix_mul(b, pair, two), ix_rem(b, program, two));
}

/// Builds a loop over a dependent level at the end of b, which goes on inside. way: the part of the
/// iterations, or NULL for all. Returns the index.
static Value *loop_over(ParallelNest *nest, Builder *b, const Level *l, Value *way) {
    Value *lo = l->lo, *hi = l->hi;
    if (!way) {
        Op *loop = build_programs(b, lo, hi, l->step, 0, NULL);
        b->region = loop->regions[0];
        return region_add_arg(b->ir, loop->regions[0], lo->type, level_arg(l)->name);
    }
    Value *trips = trip_count(b, lo, hi, l->step);
    Value *part = ix_ceildiv(b, trips, nest->ways);
    Value *from = ix_mul(b, way, part);
    Value *to = ix_min(b, ix_add(b, from, part), trips);
    Op *loop = build_programs(b, from, to, 1, 0, NULL);
    b->region = loop->regions[0];
    Value *t = region_add_arg(b->ir, loop->regions[0], lo->type, NULL);
    return ix_add(b, lo, ix_mul(b, t, build_index(b, l->step)));
}

/// Moves the nest's ops, level by level, to the end of b, with each index computed.
static void emit_program(ParallelNest *nest, Builder *b, Value *way) {
    Region *home = b->region;
    for (int i = 0; i < nest->n; i++) {
        Level *l = &nest->level[i];
        level_reread(l);
        Value *index = l->walked ? l->walked : l->lo;
        if (l->count && l->index)
            index = ix_add(b, l->lo, ix_mul(b, l->index, build_index(b, l->step)));
        else if (!l->count && !l->walked && l->step) {
            index = loop_over(nest, b, l, way);
            way = NULL;
        }
        value_replace(level_arg(l), index);
        for_each_op_safe(op, l->op->regions[0]) {
            if (op->code != OP_PARALLEL && !op_has(op, TERMINATOR)) op_move_to_end(op, b->region);
        }
    }
    for (Region *r = b->region; r != home; r = r->parent->parent) {
        Builder end = build_at_end(b->ir, r, nest->phase->loc);
        build_yield(&end, 0, NULL);
    }
    b->region = home;
}

static const char *dimension_names(const ParallelNest *nest) {
    Text t = {.ctx = ir_ctx(nest->env->ir)};
    for (int i = 0; i < nest->n; i++) {
        const char *name = op_str(nest->level[i].op, A_NAME);
        if (name) text_add(&t, "%s%s", t.n ? " " : "", name);
    }
    return t.data;
}

/// Builds the loop over a run of programs, and decodes the part of each.
static void emit_program_task(ParallelNest *nest, Builder *b, Value *task) {
    Region *body = b->region;
    Value *program = task, *way = NULL;
    if (nest->run) {
        Value *from = ix_mul(b, program, nest->run);
        Value *to = ix_min(b, ix_add(b, from, nest->run), nest->programs);
        Op *loop = build_programs(b, from, to, 1, 0, NULL);
        b->region = loop->regions[0];
        program = region_add_arg(b->ir, b->region, task->type, "program");
    }
    if (nest->ways) {
        way = ix_rem(b, program, nest->ways);
        program = ix_div(b, program, nest->ways);
    }
    decode_program(nest, b, program);
    emit_program(nest, b, way);
    if (b->region != body) build_yield(b, 0, NULL);
    b->region = body;
}

/* ---- resident grids ------------------------------------------------------------------------ */

/// Marks the levels whose index v depends on.
static void mark_walked(ParallelNest *nest, const Value *v, bool *walks) {
    if (!value_is_inside(v, nest->phase)) return;
    for (int i = 0; i < nest->n; i++) walks[i] |= v == level_arg(&nest->level[i]);
    for (int i = 0; v->def && i < v->def->n_operands; i++)
        mark_walked(nest, operand(v->def, i), walks);
}

/// Whether only the device knows some bounds. `walks`: the levels on which these depend.
static bool is_resident(ParallelNest *nest, bool *walks) {
    bool some = false;
    for (int i = 0; i < nest->n; i++) {
        const Level *l = &nest->level[i];
        if (l->free) continue;
        some |= l->step != 0;
        mark_walked(nest, l->lo, walks);
        mark_walked(nest, l->hi, walks);
    }
    return some && nest->env->gpu;
}

/// Computes the bounds of level l at b, for the indices walked so far.
static void bounds_here(ParallelNest *nest, Builder *b, Level *l, PtrMap *map) {
    l->lo = clone_slice(b, operand(l->op, 0), nest->phase, map);
    l->hi = clone_slice(b, operand(l->op, 1), nest->phase, map);
}

/// Builds a loop over a level at the end of b, which goes on inside. *skip, which the loop carries,
/// is the number of tiles up to the next one of this CTA.
static void walk_level(ParallelNest *nest, Builder *b, Level *l, Value **skip, PtrMap *map) {
    bounds_here(nest, b, l, map);
    l->walked = l->lo;
    if (l->step) {
        Op *loop = build_programs(b, l->lo, l->hi, l->step, 1, skip);
        b->region = loop->regions[0];
        l->walked = region_add_arg(b->ir, b->region, l->lo->type, level_arg(l)->name);
        *skip = region_add_arg(b->ir, b->region, l->lo->type, "skip");
    }
    map_set(ir_ctx(b->ir), map, level_arg(l), l->walked);
}

/// Returns the number of tiles of the levels that are not walked.
static Value *count_tiles(ParallelNest *nest, Builder *b, PtrMap *map) {
    Value *tiles = build_index(b, 1);
    for (int i = 0; i < nest->n; i++) {
        Level *l = &nest->level[i];
        if (l->walked) continue;
        if (!l->free) bounds_here(nest, b, l, map);
        l->count = trip_count(b, l->lo, l->hi, l->step);
        tiles = ix_mul(b, tiles, l->count);
    }
    return tiles;
}

static Value *emit_tiles(ParallelNest *nest, Builder *b, Value *tiles, Value *skip, Value *ctas) {
    Value *left = ix_max(b, ix_sub(b, tiles, skip), build_index(b, 0));
    Value *mine = ix_ceildiv(b, left, ctas);
    Op *loop = build_programs(b, build_index(b, 0), mine, 1, 0, NULL);
    Builder in = build_at_end(b->ir, loop->regions[0], b->loc);
    Value *i = region_add_arg(b->ir, in.region, skip->type, "tile");
    decode_program(nest, &in, ix_add(&in, skip, ix_mul(&in, i, ctas)));
    emit_program(nest, &in, NULL);
    build_yield(&in, 0, NULL);
    return ix_sub(b, ix_add(b, skip, ix_mul(b, mine, ctas)), tiles);
}

static void emit_resident(ParallelNest *nest, Builder *b, const bool *walks, Value *task,
                          Value *ctas) {
    Region *body = b->region;
    PtrMap map = {0};
    Value *skip = task;
    for (int i = 0; i < nest->n; i++) {
        nest->level[i].count = NULL;
        if (walks[i]) walk_level(nest, b, &nest->level[i], &skip, &map);
    }
    Value *tiles = count_tiles(nest, b, &map);
    skip = emit_tiles(nest, b, tiles, skip, ctas);
    while (b->region != body) {
        build_yield(b, 1, &skip);
        Op *loop = b->region->parent;
        skip = result(loop, 0);
        b->region = loop->parent;
    }
}

/// Describes how programs are numbered and dealt out, or returns NULL for the default.
static const char *order_text(const ParallelNest *nest) {
    Text t = {.ctx = ir_ctx(nest->env->ir)};
    int64_t order = nest->order;
    if (nest->together)
        text_add(&t, "longest rows first, together for the last heads");
    else if (order > 1)
        text_add(&t, "super-rows of %lld", (long long)order);
    else if (order < 0)
        text_add(&t, "super-columns of %lld", (long long)-order);
    if (nest->env->grain > 0 && !nest->env->gpu)
        text_add(&t, "%stasks of %d", t.n ? ", " : "", nest->env->grain);
    return t.data;
}

/* ---- phases -------------------------------------------------------------------------------- */

static void lower_to_launch(PassEnv *env, Op *phase) {
    ParallelNest nest = {.env = env, .phase = phase};
    bool walks[MAX_LEVELS] = {false};
    hoist_bounds(phase);
    nest.n = read_levels(ir_ctx(env->ir), phase, nest.level);
    Builder b = build_before(env->ir, phase);
    bool resident = is_resident(&nest, walks);
    int ctas = multiplies(program_body(&nest)) ? GRID_PRODUCT_CTAS_SM : GRID_CTAS_SM;
    Value *tasks = resident ? build_index(&b, env->gpu->sms * ctas) : count_tasks(&nest, &b);
    Op *launch = build_op(&b, OP_LAUNCH, 1, &tasks, 0, NULL, 1);
    const char *names = dimension_names(&nest);
    if (names) op_set_str(env->ir, launch, A_LOOP_NAMES, names);
    b = build_at_end(env->ir, launch->regions[0], phase->loc);
    Value *task = region_add_arg(env->ir, b.region, tasks->type, "task");
    if (resident)
        emit_resident(&nest, &b, walks, task, tasks);
    else
        emit_program_task(&nest, &b, task);
    build_yield(&b, 0, NULL);
    const char *order = order_text(&nest);
    if (order) op_set_str(env->ir, launch, A_PROGRAM_ORDER, order);
    if (nest.paired) op_set_flag(env->ir, launch, A_MULTICAST, true);
    op_erase(phase);
}

static void visit_outer_phase(Op *op, void *arg) {
    if (op->code == OP_PARALLEL && !op_enclosing(op, OP_PARALLEL)) lower_to_launch(arg, op);
}

void pass_tile_grid(PassEnv *env, Op *module) {
    op_walk_pre(module, visit_outer_phase, env);
}
