// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// split: splits the reduction loop of too few programs into a phase of partial loops and a phase
// that joins the parts.
//
//   parallel b { %s = for n in 0 .. N (%s0) { ... } merge f; use(%s) }
//   ->
//   parallel b, way in W { %p = for n in part `way` (%s0) { ... }
//                          if W == 1 { use(%p) } else { part[b, way] = %p } }
//   if W > 1 { parallel b { %s = fold by f of part[b, 0 .. W]; use(%s) } }
//
// A loop qualifies if it has a merge function, or if all carried values change by x += e, max, min,
// *=, and, or, xor. It may only read, and its operands must be cheap to compute twice. The number
// of parts depends on the number of programs, so the grouping, and thus the rounding, is the same
// in every run. Only where the model splits a product, the number of SMs counts, too.
//
// If the number of programs is known only to the launch, loops with a merge function get the form
// above. Other loops stay as they are unless PassEnv.split asks for it. Then a GPU stores parts
// only if they take at most SPLIT_WORKSPACE bytes, and at most the limit of the launch. A launch
// with more programs does not split.
//
// On GPUs the programs that join parts are cut by rows where possible (join_rows.h).
#include "passes/gpu/join_rows.h"
#include "passes/grid.h"
#include "passes/model.h"
#include "passes/partial_folds.h"
#include "passes/passes.h"
#include "passes/range/range.h"
#include "passes/util.h"

enum { MAX_PARTS = 64, MAX_PARTS_GPU = 1024 };

typedef struct LoopSplit {
    PassEnv *env;
    Ctx *ctx;
    Op *phase, *loop;
    Op *fold; // joins the parts of the last split loop
    int n_levels;
    Level level[MAX_LEVELS];
    OpCode *monoids; // of each carried value; NULL: the loop has a merge function
    Value *programs, *ways;
    Value *joined; // the ways of a phase that joins parts: `ways`, or what it is if it is not 1
    Value *single; // whether ways is 1 at run time; NULL: it never is
    Value **part;  // scratches [programs, ways, extents...], one for each carried value
} LoopSplit;

/* ---- loops that may be split --------------------------------------------------------------- */

static bool names_in(const Op *op, const Value *v) {
    for (int i = 0; i < op->n_operands; i++)
        if (operand(op, i) == v) return true;
    return false;
}

/// Returns the op of x op e, where x is carried value i and e does not depend on carried values;
/// OP_COUNT if the value changes in another way.
static OpCode monoid_of(const Op *loop, int i) {
    Value *arg = loop_arg(loop, 0, i), *next = operand(terminator(loop->regions[0]), i);
    const Op *op = next->def;
    if (!op || op->parent != loop->regions[0] || !value_has_one_use(arg) ||
        !value_has_one_use(next) || !names_in(op, arg))
        return OP_COUNT;
    if (op->code == OP_DOT) return op->n_operands == 3 && operand(op, 2) == arg ? OP_ADD : OP_COUNT;
    return op_has(op, ELEMENTWISE | ASSOCIATES) ? op->code : OP_COUNT;
}

/// Whether every value of the phase that the loop uses can be computed elsewhere.
static bool captures_are_movable(const LoopSplit *s, const Op *op, const PtrMap *known) {
    for (int i = 0; i < op->n_operands; i++) {
        const Value *v = operand(op, i);
        if (!value_is_inside(v, s->loop) && !slice_is_movable(v, s->phase, known)) return false;
    }
    for (int r = 0; r < op->n_regions && r < 1 + (op->code == OP_IF || op->code == OP_WHILE); r++)
        for_each_op(inner, op->regions[r]) {
            if (op_is_load(inner) && tree_writes(s->phase, operand(inner, 0))) return false;
            if (!captures_are_movable(s, inner, known)) return false;
        }
    return true;
}

/// Whether the loop has few iterations, or too little work for a second phase to pay.
static bool is_too_short(const LoopSplit *s) {
    const Op *loop = s->loop;
    int64_t lo, hi, end, unused, step = op_int(loop, A_STEP, 1);
    Ranges *r = ranges_of(s->env->ir, op_enclosing(loop, OP_KERNEL));
    range_bounds(r, operand(loop, 0), &lo, &unused);
    range_bounds(r, operand(loop, 1), &unused, &hi);
    if (lo == INT64_MIN || hi == INT64_MAX || __builtin_sub_overflow(hi, lo, &end)) return false;
    double trips = (double)end / (double)step;
    return trips < SPLIT_MIN_TRIPS ||
           trips * program_seconds(loop->regions[0], s->env) < SPLIT_MIN_SECONDS;
}

static bool may_split(LoopSplit *s) {
    Op *loop = s->loop;
    if (loop->code != OP_FOR || loop->n_results == 0 || !tree_only_reads(loop) || is_too_short(s))
        return false;
    s->monoids = loop->n_regions > 1 ? NULL : ctx_array(s->ctx, OpCode, loop->n_results);
    for (int i = 0; i < loop->n_results; i++) {
        if (result(loop, i)->type->rank + 2 > MAX_RANK) return false;
        if (s->monoids && (s->monoids[i] = monoid_of(loop, i)) == OP_COUNT) return false;
    }
    for (const Op *op = loop->prev; op; op = op->prev)
        if (!tree_only_reads(op)) return false;
    PtrMap known = {0};
    for (int i = 0; i < s->n_levels; i++)
        map_set(s->ctx, &known, level_arg(&s->level[i]), level_arg(&s->level[i]));
    return captures_are_movable(s, loop, &known);
}

/* ---- both phases --------------------------------------------------------------------------- */

static void count_split_programs(LoopSplit *s, Builder *b) {
    s->programs = build_index(b, 1);
    for (int i = 0; i < s->n_levels; i++) {
        Level *l = &s->level[i];
        l->count = trip_count(b, l->lo, l->hi, l->step);
        s->programs = ix_mul(b, s->programs, l->count);
    }
}

/// Limits the parts by the iterations: a part is stored and loaded, so a short one costs more than
/// it saves. At least two parts remain, so that the code has one form.
static void limit_ways(LoopSplit *s, Builder *b) {
    const Op *loop = s->loop;
    Value *lo = operand(loop, 0), *hi = operand(loop, 1);
    if (value_is_inside(lo, s->phase) || value_is_inside(hi, s->phase)) return;
    Value *trips = trip_count(b, lo, hi, op_int(loop, A_STEP, 1));
    Value *parts = ix_ceildiv(b, trips, build_index(b, SPLIT_PART_TRIPS));
    s->ways = ix_min(b, s->ways, ix_max(b, parts, build_index(b, 2)));
}

int64_t split_enough_programs(bool gpu) {
    return gpu ? SPLIT_FEW_PROGRAMS_GPU : FEW_PROGRAMS;
}

/// Returns the maximum parts of a loop. On GPUs, large states are joined one by one.
static int64_t max_parts(const LoopSplit *s) {
    int64_t lanes = 0;
    for (int i = 0; i < s->loop->n_results; i++) lanes += ty_count(result(s->loop, i)->type);
    if (!s->env->gpu) return MAX_PARTS;
    return lanes <= MAX_PARTS_GPU ? MAX_PARTS_GPU : SPLIT_JOINED;
}

/// Takes the wanted number of parts, on a GPU only if the parts fit the workspace.
static void take_wanted_ways(LoopSplit *s, Builder *b) {
    int64_t bytes = 0;
    s->ways = s->joined = build_index(b, s->env->split);
    for (int i = 0; i < s->loop->n_results; i++) {
        const Type *t = result(s->loop, i)->type;
        bytes += (ty_count(t) * elem_info[t->elem].bits + 7) / 8;
    }
    if (!s->env->gpu) return;
    Value *room = ix_min(b, build_workspace_limit(b), build_index(b, SPLIT_WORKSPACE));
    Value *most = ix_div(b, room, build_index(b, bytes * s->env->split));
    s->single = build_binary(b, OP_GT, s->programs, most);
    s->ways = build_select(b, s->single, build_index(b, 1), s->joined);
}

static void choose_split_ways(LoopSplit *s, Builder *b) {
    Value *one = build_index(b, 1);
    int64_t programs, wanted = s->env->gpu ? SPLIT_PROGRAMS_GPU : MAX_PARTS;
    s->ways = ix_ceildiv(b, build_index(b, wanted), ix_max(b, s->programs, one));
    s->ways = ix_max(b, ix_min(b, s->ways, build_index(b, max_parts(s))),
                     one); // guards against wrap-around
    if (s->env->split > 1) {
        take_wanted_ways(s, b);
        return;
    }
    limit_ways(s, b);
    s->joined = s->ways;
    if (!const_int(s->programs, &programs)) {
        Value *few =
            build_binary(b, OP_LT, s->programs, build_index(b, split_enough_programs(s->env->gpu)));
        s->ways = build_select(b, few, s->ways, one);
        s->joined = s->ways;
        s->single = build_binary(b, OP_EQ, s->ways, one);
    }
}

static void make_part_scratches(LoopSplit *s, Builder *b) {
    int n = s->loop->n_results;
    Value *programs = s->programs; // that store parts
    if (s->single) programs = build_select(b, s->single, build_index(b, 0), programs);
    s->part = ctx_array(s->ctx, Value *, n);
    for (int i = 0; i < n; i++) {
        const Type *t = result(s->loop, i)->type;
        int64_t extents[MAX_RANK] = {DYNAMIC, DYNAMIC}, strides[MAX_RANK];
        Value *dims[MAX_RANK] = {programs, s->joined};
        int64_t stride = 1;
        for (int d = t->rank - 1; d >= 0; d--) {
            extents[d + 2] = t->extents[d];
            strides[d + 2] = stride;
            dims[d + 2] = build_index(b, t->extents[d]);
            stride *= t->extents[d];
        }
        strides[1] = stride;
        strides[0] = DYNAMIC;
        const Type *type =
            ty_scratch(b->ir, ty_tensor(b->ir, t->elem, t->rank + 2, extents, strides));
        s->part[i] = result(build_op(b, OP_SCRATCH, t->rank + 2, dims, 1, &type, 0), 0);
    }
}

/// The place part[program, way, first .., :, ...] of a block of type t. first: NULL: 0.
static Place part_place(Builder *b, Value *program, Value *way, Value *first, const Type *t) {
    Place p = {0};
    place_add_at(&p, program);
    place_add_at(&p, way);
    for (int d = 0; d < t->rank; d++) {
        Value *from = d == 0 && first ? first : build_index(b, 0);
        place_add_axis(&p, from, build_index(b, t->extents[d]), t->extents[d]);
    }
    return p;
}

/// Computes the number of the program with the indices index[].
static Value *split_program_number(LoopSplit *s, Builder *b, Value *const *index) {
    Value *number = build_index(b, 0);
    for (int i = 0; i < s->n_levels; i++) {
        const Level *l = &s->level[i];
        if (!l->step) continue;
        Value *t = ix_div(b, ix_sub(b, index[i], l->lo), build_index(b, l->step));
        number = ix_add(b, ix_mul(b, number, l->count), t);
    }
    return number;
}

/// Returns the loop without its merge function, which is no longer needed.
static Op *without_merge(Ir *ir, Op *loop) {
    if (loop->n_regions == 1) return loop;
    Builder b = build_before(ir, loop);
    int n = loop->n_results;
    Value **inits = ctx_array(ir_ctx(ir), Value *, n);
    for (int i = 0; i < n; i++) inits[i] = operand(loop, i + 2);
    Op *plain =
        build_for(&b, operand(loop, 0), operand(loop, 1), op_int(loop, A_STEP, 1), n, inits);
    op_copy_attr(ir, plain, loop, ATTR_NAME);
    Region *from = loop->regions[0], *to = plain->regions[0];
    for (int i = 0; i < from->n_args; i++) {
        Value *arg = from->args[i];
        value_replace(arg, region_add_arg(ir, to, arg->type, arg->name));
    }
    move_ops(from, to);
    for (int i = 0; i < n; i++) value_replace(result(loop, i), result(plain, i));
    op_erase(loop);
    return plain;
}

/// Sets bounds and initial values for part `way`. With a single part they stay the original ones.
static void limit_loop(LoopSplit *s, Builder *b, Value *way) {
    Op *loop = s->loop;
    Value *lo = operand(loop, 0), *hi = operand(loop, 1);
    Value *step = build_index(b, op_int(loop, A_STEP, 1));
    Value *trips = ix_ceildiv(b, trip_count(b, lo, hi, op_int(loop, A_STEP, 1)), s->ways);
    Value *length = ix_mul(b, trips, step);
    // `range` cannot prove that the product does not wrap. The max states that `from` is not below
    // lo.
    Value *from = ix_max(b, ix_add(b, lo, ix_mul(b, way, length)), lo);
    op_set_operand(loop, 0, from);
    op_set_operand(loop, 1, ix_min(b, ix_add(b, from, length), hi));
    for (int i = 0; i < loop->n_results && s->monoids; i++) {
        Value *init = operand(loop, i + 2);
        const Attr *a = part_identity(b->ir, s->monoids[i], init->type->elem);
        Value *nothing = build_const(b, init->type, a);
        if (s->single) {
            const Type *wide = ty_with_elem(b->ir, init->type, EL_BOOL);
            nothing = build_select(b, build_broadcast(b, s->single, wide), init, nothing);
        }
        op_set_operand(loop, i + 2, nothing);
    }
}

static void store_parts(LoopSplit *s, Builder *b, Value *way) {
    Value *index[MAX_LEVELS];
    for (int i = 0; i < s->n_levels; i++) index[i] = level_arg(&s->level[i]);
    Value *program = split_program_number(s, b, index);
    for (int i = 0; i < s->loop->n_results; i++) {
        Place p = part_place(b, program, way, NULL, result(s->loop, i)->type);
        store_at(b, s->part[i], result(s->loop, i), &p, NULL);
    }
}

/// Replaces the ops after the loop by stores of the parts. If there may be a single part, a branch
/// keeps these ops.
static void end_partial_program(LoopSplit *s, Value *way) {
    Ir *ir = s->env->ir;
    Region *body = s->loop->parent;
    Op *end = terminator(body);
    if (!s->single) {
        while (end->prev != s->loop) op_erase(end->prev);
        Builder b = build_before(ir, end);
        store_parts(s, &b, way);
        return;
    }
    Builder b = build_after(ir, s->loop);
    Op *branch = build_op(&b, OP_IF, 1, &s->single, 0, NULL, 2);
    while (branch->next != end) op_move_to_end(branch->next, branch->regions[0]);
    Builder then = build_at_end(ir, branch->regions[0], s->loop->loc);
    Builder otherwise = build_at_end(ir, branch->regions[1], s->loop->loc);
    build_yield(&then, 0, NULL);
    store_parts(s, &otherwise, way);
    build_yield(&otherwise, 0, NULL);
}

/// Turns the phase into that of partial loops, with one more dimension.
static void make_partial(LoopSplit *s) {
    Ir *ir = s->env->ir;
    Region *body = s->loop->parent;
    Builder b = build_before(ir, body->first);
    Value *way = open_parallel(&b, build_index(&b, 0), s->ways, 1, "way");
    Op *inner = b.region->parent, *end = terminator(body);
    while (inner->next != end) op_move_to_end(inner->next, b.region);
    build_yield(&b, 0, NULL);
    b = build_before(ir, s->loop);
    limit_loop(s, &b, way);
    s->loop = without_merge(ir, s->loop);
    end_partial_program(s, way);
}

/// Joins state and part, in a region of a `for`.
static void join_states(LoopSplit *s, Builder *b, Value *const *state, Value *const *part,
                        Value **out) {
    int n = s->loop->n_results;
    if (s->monoids) {
        for (int i = 0; i < n; i++) out[i] = build_binary(b, s->monoids[i], state[i], part[i]);
        return;
    }
    Region *merge = s->loop->regions[1];
    PtrMap map = {0};
    for (int i = 0; i < n; i++) {
        map_set(s->ctx, &map, merge->args[i], state[i]);
        map_set(s->ctx, &map, merge->args[n + i], part[i]);
    }
    region_clone_body(b, merge, &map);
    for (int i = 0; i < n; i++) {
        Value *v = operand(terminator(merge), i), *copy = map_get(&map, v);
        out[i] = copy ? copy : v;
    }
}

/// The state of a program that joins parts.
typedef struct Join {
    Value *program;
    Value *first; // of its rows, if it has some of the rows; else NULL
    Value **state;
} Join;

static Value *load_part(LoopSplit *s, Builder *b, const Join *j, Value *way, int i) {
    Place p = part_place(b, j->program, way, j->first, j->state[i]->type);
    return load_at(b, s->part[i], &p);
}

/// On GPUs, loads all parts as a block and joins them by a reduction.
static bool join_at_once(LoopSplit *s, Builder *b, const Join *j, Value *from) {
    int64_t most;
    if (!const_int(s->joined, &most)) most = max_parts(s);
    Parts parts = {.n = s->loop->n_results,
                   .tensors = s->part,
                   .at = part_place(b, j->program, from, j->first, j->state[0]->type),
                   .along = 1,
                   .most = most,
                   .join = s->monoids ? NULL : s->loop->regions[1],
                   .monoids = s->monoids};
    return s->env->gpu && fold_parts(b, &parts, from, s->joined, j->state);
}

/// On GPUs, joins a few parts one by one, with all loads in front, if registers hold them.
static bool join_few(LoopSplit *s, Builder *b, const Join *j, Value *from) {
    int64_t ways, first, numbers = 0;
    int n = s->loop->n_results;
    for (int i = 0; i < n; i++) numbers += ty_count(j->state[i]->type);
    if (!s->env->gpu || !const_int(s->joined, &ways) || ways > SPLIT_AT_ONCE ||
        numbers > SPLIT_JOIN_NUMBERS / ways || !const_int(from, &first))
        return false;
    Value **parts = ctx_array(s->ctx, Value *, ways * n);
    for (int64_t way = first; way < ways; way++)
        for (int i = 0; i < n; i++) parts[way * n + i] = load_part(s, b, j, build_index(b, way), i);
    for (int64_t way = first; way < ways; way++)
        join_states(s, b, j->state, parts + way * n, j->state);
    return true;
}

/// Joins parts in a loop.
static void join_in_loop(LoopSplit *s, Builder *b, const Join *j, Value *from) {
    int n = s->loop->n_results;
    Op *fold = build_for(b, from, s->joined, 1, n, j->state);
    Region *r = fold->regions[0];
    Value *way = region_add_arg(b->ir, r, from->type, "way");
    Value **part = ctx_array(s->ctx, Value *, n), **next = ctx_array(s->ctx, Value *, n);
    for (int i = 0; i < n; i++) region_add_arg(b->ir, r, j->state[i]->type, NULL);
    Builder in = build_at_end(b->ir, r, b->loc);
    for (int i = 0; i < n; i++) part[i] = load_part(s, &in, j, way, i);
    join_states(s, &in, r->args + 1, part, next);
    build_yield(&in, n, next);
    for (int i = 0; i < n; i++) j->state[i] = result(fold, i);
}

/// Moves the programs of the second phase into one more dimension, along the rows. Returns the
/// first row.
static Value *open_rows(LoopSplit *s, int64_t rows) {
    Region *body = s->loop->parent;
    Builder b = build_before(s->env->ir, body->first);
    Value *end = build_index(&b, result(s->loop, 0)->type->extents[0]);
    Value *first = open_parallel(&b, build_index(&b, 0), end, rows, "row");
    Op *inner = b.region->parent, *last = terminator(body);
    while (inner->next != last) op_move_to_end(inner->next, b.region);
    build_yield(&b, 0, NULL);
    return first;
}

/// Replaces the loop in the second phase by the join of its parts. With a merge function, the
/// initial values are in the first part already, and the join begins with that part. Otherwise the
/// join begins with the initial values.
static void replace_loop(LoopSplit *s) {
    Ir *ir = s->env->ir;
    Op *loop = s->loop;
    int64_t ways, rows = 0;
    int n = loop->n_results;
    if (!const_int(s->joined, &ways)) ways = max_parts(s);
    if (s->env->gpu && s->monoids) rows = rows_of_join(ir, loop, ways);
    Join j = {.first = rows ? open_rows(s, rows) : NULL, .state = ctx_array(s->ctx, Value *, n)};
    Builder b = build_before(ir, loop);
    Value *index[MAX_LEVELS], *zero = build_index(&b, 0);
    for (int i = 0; i < s->n_levels; i++) index[i] = level_arg(&s->level[i]);
    j.program = split_program_number(s, &b, index);
    for (int i = 0; i < n; i++) {
        j.state[i] = operand(loop, i + 2);
        if (rows) j.state[i] = rows_of_value(&b, j.state[i], j.first, rows);
        if (!s->monoids) {
            Place p = part_place(&b, j.program, zero, NULL, result(loop, i)->type);
            j.state[i] = load_at(&b, s->part[i], &p);
        }
    }
    Value *from = s->monoids ? zero : build_index(&b, 1);
    if (!join_few(s, &b, &j, from) && !join_at_once(s, &b, &j, from)) join_in_loop(s, &b, &j, from);
    s->fold = loop->prev;
    if (rows) {
        store_rows(ir, loop, j.state, j.first, rows);
        return;
    }
    for (int i = 0; i < n; i++) value_replace(result(loop, i), j.state[i]);
    op_erase(loop);
}

/* ---- the pass ------------------------------------------------------------------------------ */

/// Fills s for the first loop after op `after` in the phase's programs that may be split. Returns
/// false if there is none.
static bool find_loop(PassEnv *env, Op *phase, Op *after, LoopSplit *s) {
    *s = (LoopSplit){.env = env, .ctx = ir_ctx(env->ir), .phase = phase};
    s->n_levels = read_levels(s->ctx, phase, s->level);
    for (int i = 0; i < s->n_levels; i++)
        if (!s->level[i].free) return false;
    Region *body = s->level[s->n_levels - 1].op->regions[0];
    for (s->loop = after ? after->next : body->first; s->loop; s->loop = s->loop->next)
        if (may_split(s)) return true;
    return false;
}

/// Builds the phase that joins the parts, as a clone of the phase.
static Op *make_joining(LoopSplit *s, Builder *b) {
    PtrMap map = {0};
    Op *phase = op_clone(b, s->phase, &map);
    LoopSplit copy = *s;
    Value *first = map_get(&map, result(s->loop, 0));
    copy.phase = phase;
    copy.loop = first->def;
    read_levels(s->ctx, phase, copy.level);
    for (int i = 0; i < s->n_levels; i++) copy.level[i].count = s->level[i].count;
    replace_loop(&copy);
    s->fold = copy.fold;
    return phase;
}

/// Returns the second phase.
static Op *split_phase(LoopSplit *s) {
    Ir *ir = s->env->ir;
    Builder b = build_before(ir, s->phase);
    count_split_programs(s, &b);
    choose_split_ways(s, &b);
    make_part_scratches(s, &b);
    b = build_after(ir, s->phase);
    if (s->single) {
        Value *more = build_unary(&b, OP_NOT, s->single);
        Op *branch = build_op(&b, OP_IF, 1, &more, 0, NULL, 2);
        Builder otherwise = build_at_end(ir, branch->regions[1], s->phase->loc);
        build_yield(&otherwise, 0, NULL);
        b = build_at_end(ir, branch->regions[0], s->phase->loc);
    }
    Op *joining = make_joining(s, &b);
    if (s->single) build_yield(&b, 0, NULL);
    make_partial(s);
    return joining;
}

/// Whether to split the loop, given the number of programs and PassEnv.split.
static bool is_split_wanted(const LoopSplit *s) {
    int64_t programs = 1;
    bool known = true;
    for (int i = 0; i < s->n_levels; i++) {
        const Level *l = &s->level[i];
        int64_t lo, hi;
        if (!l->step) continue;
        known &= const_int(l->lo, &lo) && const_int(l->hi, &hi);
        programs = known ? programs * (hi > lo ? ceil_div(hi - lo, l->step) : 0) : 0;
    }
    return s->env->split > 1 ||
           (known ? programs < split_enough_programs(s->env->gpu) : !s->monoids);
}

static void split_loops(Op *phase, void *arg) {
    PassEnv *env = arg;
    LoopSplit s;
    if (phase->code != OP_PARALLEL || op_enclosing(phase, OP_PARALLEL) || env->split == 1) return;
    hoist_bounds(phase);
    Op *after = NULL;
    while (find_loop(env, phase, after, &s) && is_split_wanted(&s)) {
        phase = split_phase(&s);
        after = s.fold;
        if (s.single && env->split <= 1) return; // one branch a phase is enough
    }
}

void pass_split(PassEnv *env, Op *module) {
    op_walk_post(module, split_loops, env);
    pass_dce(env, module);
}
