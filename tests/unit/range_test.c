// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The range analysis must not state anything that is false for any value.
//
// Rules of intervals: each op of the table runs over all small intervals of i8 and u8 and those
// with ends at their limits; the bounds must contain every result. Bounds, divisors and
// inequalities of i64: expressions of two ops over arguments, extents, loop indices and constants,
// under several contracts, are evaluated on boundary values. Each row of the tables must have been
// used.
#include "ir/eval.h"
#include "passes/range/range_private.h"
#include "passes/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int64_t n_checked, n_facts, n_expressions;
static int failures;

/* ---- rules that were used ------------------------------------------------------------------ */

enum { MAX_USED = 100 };
static const char *used[MAX_USED];
static int n_used;

static void note_rule(void *user, const Op *op, const char *algebra) {
    (void)user, (void)op;
    for (int i = 0; i < n_used; i++)
        if (used[i] == algebra) return;
    assert_true(n_used < MAX_USED);
    used[n_used++] = algebra;
}

static void all_used(void **state) {
    (void)state;
    int missing = 0, n = 0;
    const RuleTable *t;
    for (int i = 0; (t = rule_table(i)); i++)
        for (int row = 0; row < t->n && strcmp(t->pass, "range") == 0; row++, n++) {
            bool found = false;
            for (int k = 0; k < n_used; k++) found |= used[k] == rule_algebra(t, row);
            missing += !found;
            if (!found) print_error("never used: %s\n", rule_algebra(t, row));
        }
    print_message("%d rules, %lld expressions, %lld bounds, divisors and proofs, %lld values\n", n,
                  (long long)n_expressions, (long long)n_facts, (long long)n_checked);
    assert_int_equal(missing, 0);
    assert_int_equal(failures, 0);
}

/* ---- rules of intervals -------------------------------------------------------------------- */

// Ascending ends of intervals. The values between two ends form a cell.
enum { MAX_ENDS = 20, MAX_CELLS = 2 * MAX_ENDS };
typedef struct Cells {
    int n; // number of ends; cell 2 i is end i, cell 2 i + 1 the values between it and the next
    int end[MAX_ENDS];
} Cells;

static Cells small_ends(Elem e) {
    Cells c = {0};
    int from = elem_is(e, EC_SINT) ? -8 : 0;
    for (int v = from; v < from + 16; v++) c.end[c.n++] = v;
    return c;
}

static Cells wide_ends(Elem e) {
    static const int is_signed[] = {-128, -127, -65, -64, -9, -2, -1,  0,
                                    1,    2,    3,   10,  63, 64, 126, 127};
    static const int is_unsigned[] = {0,  1,  2,   3,   9,   15,  16,  17,
                                      63, 64, 127, 128, 129, 200, 254, 255};
    Cells c = {.n = 16};
    memcpy(c.end, elem_is(e, EC_SINT) ? is_signed : is_unsigned, sizeof is_signed);
    return c;
}

static Cell cell_of(Elem e, int v) {
    return elem_is(e, EC_SINT) ? (Cell){.i = v} : (Cell){.u = (uint64_t)v};
}

static Wide number_of(Elem e, Cell c) {
    return elem_is(e, EC_SINT) ? (Wide)c.i : (Wide)c.u;
}

/// The results of op for x in cell i and y in cell k; lo > hi: none.
static Interval results_of(const Op *op, const Cells *c, int i, int k) {
    Elem e = operand(op, op->n_operands - 1)->type->elem, to = result(op, 0)->type->elem;
    Interval all = {(Wide)1 << 80, -((Wide)1 << 80)};
    int x0 = c->end[i / 2] + i % 2, x1 = i % 2 ? c->end[i / 2 + 1] - 1 : x0;
    int y0 = c->end[k / 2] + k % 2, y1 = k % 2 ? c->end[k / 2 + 1] - 1 : y0;
    for (int x = x0; x <= x1; x++)
        for (int y = y0; y <= y1; y++) {
            Cell in[] = {cell_of(e, x), cell_of(e, y)};
            Cell r = op->code == OP_CAST       ? cell_cast(e, to, in[0])
                     : op->code == OP_SELECT   ? in[(x ^ y) & 1] // either
                     : op_has(op, ELEMENTWISE) ? eval_elementwise(op->code, e, in)
                                               : in[0];
            Wide v = number_of(to, r);
            if (v < all.lo) all.lo = v;
            if (v > all.hi) all.hi = v;
            if (op->code == OP_SELECT && x < all.lo) all.lo = x;
            if (op->code == OP_SELECT && x > all.hi) all.hi = x;
            n_checked++;
        }
    return all;
}

static void widen(Interval *x, Interval by) {
    if (by.lo < x->lo) x->lo = by.lo;
    if (by.hi > x->hi) x->hi = by.hi;
}

static void check_box(const Op *op, const Cells *c, Interval cell[MAX_CELLS][MAX_CELLS],
                      const int *end) {
    Interval want = {(Wide)1 << 80, -((Wide)1 << 80)};
    Interval x = {c->end[end[0]], c->end[end[1]]}, y = {c->end[end[2]], c->end[end[3]]};
    for (int i = 2 * end[0]; i <= 2 * end[1]; i++)
        for (int k = 2 * end[2]; k <= 2 * end[3]; k++) widen(&want, cell[i][k]);
    Interval in[3] = {x, y, y};
    if (op->code == OP_SELECT) in[1] = x;
    Interval got = interval_by_rule(op, in);
    n_facts++;
    if (got.lo <= want.lo && got.hi >= want.hi) return;
    if (failures++ < 10)
        print_error("%s of %s: x in %d .. %d, y in %d .. %d gives %d .. %d, not within %d .. %d\n",
                    op_info[op->code].name,
                    elem_info[operand(op, op->n_operands - 1)->type->elem].name, (int)x.lo,
                    (int)x.hi, (int)y.lo, (int)y.hi, (int)want.lo, (int)want.hi, (int)got.lo,
                    (int)got.hi);
}

static void check_intervals(const Op *op, Cells c) {
    static Interval cell[MAX_CELLS][MAX_CELLS];
    bool binary = op->n_operands > 1;
    for (int i = 0; i < 2 * c.n - 1; i++)
        for (int k = 0; k < (binary ? 2 * c.n - 1 : 1); k++) cell[i][k] = results_of(op, &c, i, k);
    for (int a = 0; a < c.n; a++)
        for (int b = a; b < c.n; b++)
            for (int d = 0; d < (binary ? c.n : 1); d++)
                for (int e = d; e < (binary ? c.n : 1); e++)
                    check_box(op, &c, cell, (int[]){a, b, d, e});
}

/// Makes an op with that code on values of e, with results of element `to`; NULL: not possible.
static Op *interval_op(Builder *b, Region *r, OpCode code, Elem e, Elem to) {
    const Type *t = ty_scalar(b->ir, e), *type = ty_scalar(b->ir, to);
    Value *x = region_add_arg(b->ir, r, t, NULL), *y = region_add_arg(b->ir, r, t, NULL);
    Value *in[] = {x, y, y};
    const OpInfo *info = &op_info[code];
    bool lanes = info->traits & ELEMENTWISE && info->n_operands == 2 && elem_is(e, info->classes);
    if (code == OP_CAST) return build_op(b, code, 1, in, 1, &type, 0);
    if (e != to) return NULL;
    if (code == OP_SELECT) {
        in[0] = region_add_arg(b->ir, r, ty_scalar(b->ir, EL_BOOL), NULL);
        in[1] = x;
        return build_op(b, code, 3, in, 1, &type, 0);
    }
    if (lanes) return build_op(b, code, 2, in, 1, &type, 0);
    return info->n_operands == 1 && !(info->traits & ELEMENTWISE) && code != OP_DIM
               ? build_op(b, code, 1, in, 1, &type, 0)
               : NULL;
}

static void intervals(void **state) {
    (void)state;
    static const Elem from[] = {EL_I8, EL_U8}, to[] = {EL_I8, EL_U8, EL_I16, EL_U4, EL_I64};
    Ctx *ctx = ctx_create(NULL);
    Ir *ir = ir_create(ctx);
    const IntervalRule *rules = interval_table.rows;
    Region *r = build_module(ir)->regions[0];
    Builder b = build_at_end(ir, r, (Loc){0});
    for (int i = 0; i < interval_table.n; i++)
        for (int k = 0; k < 2; k++)
            for (int j = 0; j < 5; j++) {
                Op *op = interval_op(&b, r, rules[i].op, from[k], to[j]);
                if (!op) continue;
                check_intervals(op, small_ends(from[k]));
                check_intervals(op, wide_ends(from[k]));
                note_rule(NULL, op, rules[i].algebra);
            }
    ctx_destroy(ctx);
}

/* ---- values of expressions ----------------------------------------------------------------- */

enum { N_LEAVES = 3 };
typedef struct World {
    Ctx *ctx;
    Ir *ir;
    Op *kernel;
    Value *arg[N_LEAVES];        // two arguments and an extent
    Value *fact[2];              // contract between them
    Value *index;                // index of the current loop
    int64_t value[N_LEAVES], at; // current values of the arguments and of the index
    int lane;
} World;

static bool evaluate(const World *w, const Value *v, int64_t *out);

static bool evaluate_op(const World *w, const Op *op, int64_t *out) {
    int64_t x[3] = {0};
    if (op->code == OP_CONST) return const_int(result(op, 0), out);
    if (op->code == OP_IOTA) return *out = w->lane, true;
    for (int i = 0; i < op->n_operands; i++)
        if (!evaluate(w, operand(op, i), &x[i])) return false;
    Cell in[] = {{.i = x[0]}, {.i = x[1]}, {.i = x[2]}};
    Elem e = operand(op, 0)->type->elem;
    if (op->code == OP_SELECT)
        *out = x[0] ? x[1] : x[2];
    else if (op->code == OP_CAST)
        *out = cell_cast(e, result(op, 0)->type->elem, in[0]).i;
    else if (op_has(op, ELEMENTWISE))
        *out = eval_elementwise(op->code, e, in).i;
    else // the op moves lanes, but the observed ones stay
        *out = x[0];
    return true;
}

static bool evaluate(const World *w, const Value *v, int64_t *out) {
    for (int i = 0; i < N_LEAVES; i++)
        if (v == w->arg[i]) return *out = w->value[i], true;
    if (v == w->index) return *out = w->at, true;
    return v->def && evaluate_op(w, v->def, out);
}

static const int64_t values[] = {
    INT64_MIN,
    INT64_MIN + 1,
    INT64_MIN + 64,
    -((int64_t)1 << 62),
    -65,
    -64,
    -3,
    -1,
    0,
    1,
    2,
    3,
    4,
    12,
    63,
    64,
    100,
    (int64_t)1 << 48,
    (int64_t)1 << 62,
    INT64_MAX - 63,
    INT64_MAX - 1,
    INT64_MAX,
};
enum { N_VALUES = sizeof values / sizeof *values };

/// Whether the contract holds for the current arguments.
static bool is_allowed(const World *w) {
    if (w->value[2] < 0 || w->value[2] > MAX_EXTENT) return false;
    for (int i = 0; i < 2; i++) {
        int64_t holds;
        if (w->fact[i] && (!evaluate(w, w->fact[i], &holds) || !holds)) return false;
    }
    return true;
}

typedef void Visit(World *w, void *arg);

static void each_index(World *w, Visit *visit, void *arg) {
    int64_t lo, hi;
    if (!w->index) {
        visit(w, arg);
        return;
    }
    const Op *loop = w->index->region->parent;
    if (loop->code == OP_LAUNCH) {
        if (!evaluate(w, operand(loop, 0), &hi)) return;
        for (w->at = 0; w->at < hi && w->at < 3; w->at++) visit(w, arg);
        if (w->at < hi) w->at = hi - 1, visit(w, arg);
        return;
    }
    if (!evaluate(w, operand(loop, 0), &lo) || !evaluate(w, operand(loop, 1), &hi)) return;
    Wide step = op_int(loop, A_STEP, 1), trips = lo < hi ? ((Wide)hi - lo + step - 1) / step : 0;
    for (Wide t = 0; t < trips; t = t == 2 && trips > 4 ? trips - 1 : t + 1) {
        w->at = (int64_t)(lo + t * step);
        visit(w, arg);
    }
}

/// Visits all possible values of arguments and indices.
static void each_value(World *w, bool extent, Visit *visit, void *arg) {
    int step = w->index ? 2 : 1; // indices multiply the number of values
    for (int a = 0; a < N_VALUES; a += step)
        for (int b = N_VALUES - 1; b >= 0; b -= step)
            for (int d = 9; d < (extent ? N_VALUES - 4 : 10); d += step) {
                w->value[0] = values[a];
                w->value[1] = values[b];
                w->value[2] = values[d];
                if (is_allowed(w)) each_index(w, visit, arg);
            }
}

/* ---- claims about an expression ------------------------------------------------------------ */

typedef struct Said {
    const Value *v, *other; // a statement on v; with `at_most`: v <= other
    int64_t lo, hi, divisor;
    bool at_most, wrong;
} Said;

static void complain(const World *w, const Said *s, int64_t v) {
    if (failures++ >= 10) return;
    fprintf(stderr, "%s", ir_to_text(w->ctx, w->kernel));
    fprintf(stderr, "%%%s is %lld for %lld %lld %lld, index %lld: not in %lld .. %lld, by %lld%s\n",
            s->v->name, (long long)v, (long long)w->value[0], (long long)w->value[1],
            (long long)w->value[2], (long long)w->at, (long long)s->lo, (long long)s->hi,
            (long long)s->divisor, s->at_most ? ", or not <= the other" : "");
}

static void check_value(World *w, void *arg) {
    Said *s = arg;
    int64_t v, other = INT64_MAX;
    for (w->lane = 0; w->lane < (s->v->type->rank ? 2 : 1) && !s->wrong; w->lane++) {
        if (!evaluate(w, s->v, &v)) return;
        if (s->at_most && !evaluate(w, s->other, &other)) return;
        n_checked++;
        bool divides = s->divisor ? v % s->divisor == 0 : v == 0;
        s->wrong = v < s->lo || v > s->hi || !divides || v > other;
        if (s->wrong) complain(w, s, v);
    }
}

static void check(World *w, Ranges *r, Value *v, Value *other, const Op *place, bool extent) {
    Said s = {.v = v, .other = other};
    v->name = "v";
    n_expressions++;
    ranges_at(r, place);
    range_bounds(r, v, &s.lo, &s.hi);
    s.divisor = range_divisor(r, v);
    s.at_most = prove_le(r, linear_exact(r, v), linear_exact(r, other));
    bool open = s.lo == INT64_MIN && s.hi == INT64_MAX;
    if (open && s.divisor == 1 && !s.at_most) return; // the analysis states nothing
    n_facts += 2 - open + s.at_most;
    each_value(w, extent, check_value, &s);
}

/* ---- expressions --------------------------------------------------------------------------- */

static const OpCode codes[] = {OP_ADD, OP_SUB, OP_MUL, OP_MIN, OP_MAX, OP_DIV, OP_REM, OP_AND};
enum { N_CODES = sizeof codes / sizeof *codes, N_CONSTS = 6 };

static Value *constant(Builder *b, int i) {
    static const int64_t consts[N_CONSTS] = {0, 1, -1, 12, 64, INT64_MAX};
    return build_index(b, consts[i]);
}

/// Makes a world with contract number `which` between its arguments; false beyond the last.
static bool begin_world(World *w, int which) {
    *w = (World){.ctx = ctx_create(NULL)};
    w->ir = ir_create(w->ctx);
    ir_watch_rules(w->ir, note_rule, NULL);
    Builder m = build_at_end(w->ir, build_module(w->ir)->regions[0], (Loc){0});
    w->kernel = build_op(&m, OP_KERNEL, 0, NULL, 0, NULL, 1);
    Region *r = w->kernel->regions[0];
    for (int i = 0; i < 2; i++)
        w->arg[i] = region_add_arg(w->ir, r, ty_scalar(w->ir, EL_I64), i ? "b" : "a");
    Value *t = region_add_arg(w->ir, r, ty_tensor(w->ir, EL_I8, 1, NULL, NULL), "t");
    Builder b = build_at_end(w->ir, r, (Loc){0});
    Op *dim = build_op(&b, OP_DIM, 1, &t, 1, &w->arg[0]->type, 0);
    op_set_int(w->ir, dim, A_AXIS, 0);
    w->arg[2] = result(dim, 0);
    Value *x = w->arg[0], *y = w->arg[1], *zero = build_index(&b, 0);
    Value *sum = build_binary(&b, OP_ADD, x, y),
          *rest = build_binary(&b, OP_REM, x, build_index(&b, 12));
    Value *facts[][2] = {
        {NULL, NULL},
        {build_binary(&b, OP_GE, x, zero), build_binary(&b, OP_GT, y, zero)},
        {build_binary(&b, OP_LE, zero, x), build_binary(&b, OP_LT, x, y)},
        {build_binary(&b, OP_LE, sum, w->arg[2]), build_binary(&b, OP_GE, y, zero)},
        {build_binary(&b, OP_EQ, rest, zero), build_binary(&b, OP_LE, y, w->arg[2])},
        {build_binary(&b, OP_EQ, y, build_binary(&b, OP_MUL, x, build_index(&b, 4))), NULL}};
    if (which >= (int)(sizeof facts / sizeof *facts)) {
        ctx_destroy(w->ctx);
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (facts[which][i]) {
            Op *op = build_op(&b, OP_REQUIRE, 1, &facts[which][i], 0, NULL, 0);
            op_set_str(w->ir, op, A_TEXT, "");
            w->fact[i] = facts[which][i];
        }
    return true;
}

/// op(op(x, y), z), and op(z, op(x, y)), for all leaves.
static void check_expressions(World *w) {
    Builder b = build_at_end(w->ir, w->kernel->regions[0], (Loc){0});
    Value *leaf[N_LEAVES + N_CONSTS];
    int n = 0;
    for (; n < N_LEAVES; n++) leaf[n] = w->arg[n];
    for (int i = 0; i < N_CONSTS; i++) leaf[n++] = constant(&b, i);
    Ranges *r = ranges_of(w->ir, w->kernel);
    for (int k = 0; k < N_CODES * n * N_LEAVES; k++) {
        int x = k % N_LEAVES, y = k / N_LEAVES % n;
        Value *in = build_binary(&b, codes[k / N_LEAVES / n], leaf[x], leaf[y]);
        if (y < N_LEAVES && x == y) continue;
        for (int j = 0; j < N_CODES * n; j++) {
            int z = j % n;
            OpCode code = codes[j / n];
            Value *v = build_binary(&b, code, in, leaf[z]);
            check(w, r, v, leaf[k % n], v->def, x == 2 || y == 2 || z == 2 || k % n == 2);
            v = build_binary(&b, code, leaf[z], in);
            if (!op_has(v->def, COMMUTES))
                check(w, r, v, leaf[k % n], v->def, x == 2 || y == 2 || z == 2 || k % n == 2);
        }
    }
}

static void expressions(void **state) {
    (void)state;
    World w;
    for (int i = 0; begin_world(&w, i); i++) {
        check_expressions(&w);
        ctx_destroy(w.ctx);
    }
}

/* ---- loops --------------------------------------------------------------------------------- */

static Op *build_loop(World *w, Builder *b, OpCode code, Value *lo, Value *hi, int64_t step) {
    Value *bounds[] = {lo, hi, lo};
    Op *loop = build_op(b, code,
                        code == OP_LAUNCH     ? 1
                        : code == OP_CONTRACT ? 3
                                              : 2,
                        code == OP_LAUNCH ? &hi : bounds, 0, NULL, 1);
    if (code != OP_LAUNCH) op_set_int(w->ir, loop, A_STEP, step);
    w->index = region_add_arg(w->ir, loop->regions[0], lo->type, "i");
    return loop;
}

/// Expressions of the index: sums, remainders, and their use in blocks.
static void check_index(World *w, Ranges *r, Op *loop, Value *hi) {
    int64_t four[] = {4, 1}, wide[] = {1, 4};
    Builder b = build_at_end(w->ir, loop->regions[0], (Loc){0});
    Value *i = w->index, *left = build_binary(&b, OP_SUB, hi, i);
    for (int k = 0; k < N_CODES * N_CONSTS; k++) {
        Value *c = constant(&b, k % N_CONSTS);
        Value *v = build_binary(&b, codes[k / N_CONSTS], i, c);
        check(w, r, v, hi, v->def, true);
        v = build_binary(&b, codes[k / N_CONSTS], left, c);
        check(w, r, v, hi, v->def, true);
        check(w, r, build_binary(&b, OP_ADD, i, v), hi, v->def, true);
    }
    const Type *line = ty_block(w->ir, EL_I64, 1, four), *column = ty_block(w->ir, EL_I64, 2, four);
    Value *lane = result(build_op(&b, OP_IOTA, 0, NULL, 1, &line, 0), 0);
    Value *at = build_binary(&b, OP_ADD, build_broadcast(&b, i, line), lane);
    Value *his = build_broadcast(&b, hi, line);
    check(w, r, at, his, at->def, true);
    Value *m = build_binary(
        &b, OP_MIN, build_binary(&b, OP_MUL, build_broadcast(&b, i, line), build_int(&b, line, 12)),
        build_int(&b, line, 36));
    Value *tall = build_reshape(&b, m, column);
    const Type *row = ty_block(w->ir, EL_I64, 2, wide),
               *two = ty_block(w->ir, EL_I64, 1, (int64_t[]){2});
    Value *flat = result(build_op(&b, OP_PERMUTE, 1, &tall, 1, &row, 0), 0);
    Value *part = result(build_op(&b, OP_SLICE, 1, &m, 1, &two, 0), 0);
    op_set_ints(w->ir, flat->def, A_PERM, (int64_t[]){1, 0}, 2);
    op_set_ints(w->ir, part->def, A_START, (int64_t[]){0}, 1);
    const Type *again = ty_block(w->ir, EL_I64, 2, (int64_t[]){2, 4});
    Value *more = build_broadcast(&b, flat, again);
    check(w, r, tall, tall, tall->def, true);
    check(w, r, flat, flat, flat->def, true);
    check(w, r, part, part, part->def, true);
    check(w, r, more, more, more->def, true);
    Value *c = build_binary(&b, OP_LT, i, build_index(&b, 24));
    Value *choice = build_select(&b, c, i, build_index(&b, 12));
    Value *most = build_binary(&b, OP_MAX, i, build_index(&b, 12));
    check(w, r, choice, most, choice->def, true);
}

static void loops(void **state) {
    (void)state;
    static const OpCode kinds[] = {OP_FOR, OP_PARALLEL, OP_CONTRACT, OP_LAUNCH};
    static const int64_t steps[] = {1, 12, 64};
    World w;
    for (int which = 0; begin_world(&w, which); which++) {
        Builder b = build_at_end(w.ir, w.kernel->regions[0], (Loc){0});
        Value *x = w.arg[0], *y = w.arg[1], *d = w.arg[2], *zero = build_index(&b, 0);
        Value *bounds[][2] = {{zero, d},
                              {zero, x},
                              {x, y},
                              {y, d},
                              {zero, build_binary(&b, OP_SUB, x, build_index(&b, 64))},
                              {zero, build_binary(&b, OP_ADD, x, y)},
                              {build_binary(&b, OP_MAX, x, zero), build_binary(&b, OP_MIN, y, d)},
                              {zero, build_binary(&b, OP_MUL, d, build_index(&b, 12))}};
        Ranges *r = ranges_of(w.ir, w.kernel);
        for (int k = 0; k < 8 * 3; k++) {
            OpCode kind = kinds[(k + which) % 4];
            Op *loop = build_loop(&w, &b, kind, bounds[k / 3][0], bounds[k / 3][1], steps[k % 3]);
            check_index(&w, r, loop, bounds[k / 3][1]);
        }
        ctx_destroy(w.ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals),
        cmocka_unit_test(expressions),
        cmocka_unit_test(loops),
        cmocka_unit_test(all_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
