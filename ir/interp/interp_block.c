// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: ops on whole blocks.
#include "ir/interp/interp_private.h"

#include <string.h>

/// Float ops that do not round.
static bool is_exact_op(OpCode op) {
    static const bool exact[OP_COUNT] = {
        [OP_MIN] = true,      [OP_MAX] = true,   [OP_NEG] = true,   [OP_ABS] = true,
        [OP_FLOOR] = true,    [OP_CEIL] = true,  [OP_TRUNC] = true, [OP_RINT] = true,
        [OP_ROUND] = true,    [OP_REM] = true,   [OP_FMOD] = true,  [OP_LOGB] = true,
        [OP_COPYSIGN] = true, [OP_LDEXP] = true,
    };
    return exact[op];
}

void do_elementwise(Interp *it, Op *op) {
    static Cell zero;
    const Cell *x[3] = {&zero, &zero, &zero};
    for (int i = 0; i < op->n_operands; i++) x[i] = in(op, i)->cells;
    Elem e = in(op, 0)->type->elem;
    Reg *r = out(op, 0);
    EvalFn *f = eval_function(op->code, elem_info[e].cls);
    int units = is_exact_op(op->code) ? 0 : 1;
    bool unary = op->n_operands < 2, binary = op->n_operands < 3, compares = op_has(op, COMPARES);
    for (int64_t i = 0; i < r->n; i++) {
        Cell c = f(e, x[0][i], unary ? zero : x[1][i], binary ? zero : x[2][i]);
        r->cells[i] = compares ? c : round_result(it, e, c, units);
    }
    // In a block, lanes that are never used may divide by 0.
    if (it->options.check && (op->code == OP_DIV || op->code == OP_REM) && r->type->rank == 0 &&
        !elem_is(e, EC_FLOAT) && x[1][0].u == 0)
        run_error(it, op, "division of %s by 0", cell_text(it->ctx, e, x[0][0]));
}

void do_const(Interp *it, Op *op) {
    (void)it;
    Reg *r = out(op, 0);
    Cell c = cell_of_attr(r->type->elem, op_const(op, A_VALUE));
    for (int64_t i = 0; i < r->n; i++) r->cells[i] = c;
}

void do_iota(Interp *it, Op *op) {
    (void)it;
    Reg *r = out(op, 0);
    for (int64_t i = 0; i < r->n; i++) r->cells[i] = cell_wrap(r->type->elem, (Cell){.i = i});
}

/* ---- shapes -------------------------------------------------------------------------------- */

/// Coordinates of a lane of a row-major block.
static void unravel_lane(const Type *t, int64_t lane, int64_t *index) {
    for (int d = t->rank - 1; d >= 0; d--) {
        index[d] = lane % t->extents[d];
        lane /= t->extents[d];
    }
}

static int64_t ravel_index(const Type *t, const int64_t *index) {
    int64_t lane = 0;
    for (int d = 0; d < t->rank; d++) lane = lane * t->extents[d] + index[d];
    return lane;
}

void do_broadcast(Interp *it, Op *op) {
    (void)it;
    const Reg *x = in(op, 0);
    Reg *r = out(op, 0);
    int64_t index[MAX_RANK];
    for (int64_t i = 0; i < r->n; i++) {
        unravel_lane(r->type, i, index);
        for (int d = 0; d < x->type->rank; d++)
            if (x->type->extents[d] == 1) index[d] = 0;
        r->cells[i] = x->cells[ravel_index(x->type, index)];
    }
}

void do_reshape(Interp *it, Op *op) {
    (void)it;
    memcpy(out(op, 0)->cells, in(op, 0)->cells, (size_t)in(op, 0)->n * sizeof(Cell));
}

void do_permute(Interp *it, Op *op) {
    (void)it;
    const Reg *x = in(op, 0);
    Reg *r = out(op, 0);
    const int64_t *perm = op_ints(op, A_PERM)->ints;
    int64_t to[MAX_RANK], from[MAX_RANK];
    for (int64_t i = 0; i < r->n; i++) {
        unravel_lane(r->type, i, to);
        for (int d = 0; d < r->type->rank; d++) from[perm[d]] = to[d];
        r->cells[i] = x->cells[ravel_index(x->type, from)];
    }
}

void do_slice(Interp *it, Op *op) {
    (void)it;
    const Reg *x = in(op, 0);
    Reg *r = out(op, 0);
    const int64_t *start = op_ints(op, A_START)->ints;
    int64_t index[MAX_RANK];
    for (int64_t i = 0; i < r->n; i++) {
        unravel_lane(r->type, i, index);
        for (int d = 0; d < r->type->rank; d++) index[d] += start[d];
        r->cells[i] = x->cells[ravel_index(x->type, index)];
    }
}

void do_concat(Interp *it, Op *op) {
    (void)it;
    Reg *r = out(op, 0);
    int axis = (int)op_int(op, A_AXIS, 0);
    int64_t index[MAX_RANK], before = 0;
    for (int k = 0; k < op->n_operands; k++) {
        const Reg *x = in(op, k);
        for (int64_t i = 0; i < x->n; i++) {
            unravel_lane(x->type, i, index);
            index[axis] += before;
            r->cells[ravel_index(r->type, index)] = x->cells[i];
        }
        before += x->type->extents[axis];
    }
}

void do_cast(Interp *it, Op *op) {
    (void)it;
    const Reg *x = in(op, 0);
    Reg *r = out(op, 0);
    for (int64_t i = 0; i < r->n; i++)
        r->cells[i] = cell_cast(x->type->elem, r->type->elem, x->cells[i]);
}

void do_bitcast(Interp *it, Op *op) {
    (void)it;
    const Reg *x = in(op, 0);
    Reg *r = out(op, 0);
    for (int64_t i = 0; i < r->n; i++)
        r->cells[i] = cell_from_bits(r->type->elem, cell_bits(x->type->elem, x->cells[i]));
}

void do_select(Interp *it, Op *op) {
    (void)it;
    const Reg *c = in(op, 0), *x = in(op, 1), *y = in(op, 2);
    Reg *r = out(op, 0);
    for (int64_t i = 0; i < r->n; i++) r->cells[i] = c->cells[i].u ? x->cells[i] : y->cells[i];
}

/* ---- contractions -------------------------------------------------------------------------- */

/// sum[i, j] += a[i, k] b[k, j]; floats use double, integers are modulo 2^64.
static void multiply_add_blocks(const Reg *a, const Reg *b, Cell *sum) {
    int64_t m = a->type->extents[0], kk = a->type->extents[1], n = b->type->extents[1];
    bool is_float = elem_is(a->type->elem, EC_FLOAT);
    for (int64_t i = 0; i < m; i++)
        for (int64_t k = 0; k < kk; k++) {
            Cell x = a->cells[i * kk + k];
            const Cell *y = b->cells + k * n;
            Cell *s = sum + i * n;
            for (int64_t j = 0; j < n; j++)
                if (is_float)
                    s[j].f += x.f * y[j].f;
                else
                    s[j].u += x.u * y[j].u;
        }
}

static void round_sum(Interp *it, Reg *r, const Cell *sum) {
    for (int64_t i = 0; i < r->n; i++)
        r->cells[i] = round_result(it, r->type->elem, sum[i], SUM_NOISE);
}

/// Room for the sum, as wide as the result, with the initial value or zeros.
static Cell *start_sum(Op *op, const Reg *initial) {
    Cell *sum = plan_of(op)->temp;
    size_t bytes = (size_t)out(op, 0)->n * sizeof(Cell);
    return initial ? memcpy(sum, initial->cells, bytes) : memset(sum, 0, bytes);
}

/// Also handles mma_start, which may overwrite instead of add.
void do_dot(Interp *it, Op *op) {
    bool fresh = op->n_operands < 3 || (op->n_operands > 3 && in_int(op, 3));
    Cell *sum = start_sum(op, fresh ? NULL : in(op, 2));
    multiply_add_blocks(in(op, 0), in(op, 1), sum);
    round_sum(it, out(op, 0), sum);
}

void do_contract(Interp *it, Op *op) {
    Cell *sum = start_sum(op, in(op, 2));
    int64_t hi = in_int(op, 1), step = op_int(op, A_STEP, 1);
    for (int64_t k = in_int(op, 0); k < hi; k += step) {
        plan_of(op)->args[0][0]->cells[0].i = k;
        run_region(it, op->regions[0]);
        multiply_add_blocks(yielded(op->regions[0], 0), yielded(op->regions[0], 1), sum);
    }
    round_sum(it, out(op, 0), sum);
}

/* ---- picking ------------------------------------------------------------------------------- */

void do_gather(Interp *it, Op *op) {
    (void)it;
    const Reg *x = in(op, 0), *at = in(op, 1);
    Reg *r = out(op, 0);
    int axis = (int)op_int(op, A_AXIS, 0);
    int64_t index[MAX_RANK];
    for (int64_t i = 0; i < r->n; i++) {
        unravel_lane(r->type, i, index);
        index[axis] = at->cells[i].i;
        bool inside = index[axis] >= 0 && index[axis] < x->type->extents[axis];
        r->cells[i] = inside ? x->cells[ravel_index(x->type, index)] : (Cell){0};
    }
}

void do_histogram(Interp *it, Op *op) {
    (void)it;
    const Reg *x = in(op, 0), *mask = op->n_operands > 1 ? in(op, 1) : NULL;
    Reg *r = out(op, 0);
    bool is_signed = elem_is(x->type->elem, EC_SINT);
    memset(r->cells, 0, (size_t)r->n * sizeof(Cell));
    for (int64_t i = 0; i < x->n; i++) {
        Cell c = x->cells[i];
        if ((!mask || mask->cells[i].u) && !(is_signed && c.i < 0) && c.u < (uint64_t)r->n)
            r->cells[c.u].i++;
    }
}
