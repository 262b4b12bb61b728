// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transposed reads: vectors along one axis, from memory that is contiguous along another.
//
// A nest with this kind of read works on squares (shape.c): as many rows as a vector has lanes. The
// first vector of a square loads the whole square along the rows, transposes it in registers, and
// memoises the vectors of the other rows.
#include "backends/cpu/emit.h"

int64_t memory_stride(Emit *e, const Value *v, int axis) {
    const Buffer *b = bound_buffer(e, v);
    if (b) return b->strides[axis];
    return v->def && v->def->code == OP_LOAD ? access_stride(v->def, axis) : -1;
}

static LLVMValueRef read_memory(Emit *e, Value *v, const Place *p) {
    Buffer *b = bound_buffer(e, v);
    return b ? buffer_load(e, b, p) : emit_load(e, v->def, p);
}

/// Returns the axis of v, contiguous in memory, that runs along the rows of the square, if p is in
/// it.
static int square_row_axis(Emit *e, const Square *s, const Value *v, const Place *p, int *row) {
    for (int d = 0; d < p->rank; d++) {
        if (d == p->axis || v->type->extents[d] < s->n || memory_stride(e, v, d) != 1) continue;
        for (int i = 0; i < s->n; i++) {
            *row = i;
            if (p->at[d] == s->rows[i]) return d;
        }
    }
    return -1;
}

LLVMValueRef emit_square(Emit *e, Value *v, const Place *p) {
    const Square *s = e->square;
    if (!s || p->lanes != s->n) return NULL;
    int64_t stride = memory_stride(e, v, p->axis);
    if (stride == -1 || stride == 0 || stride == 1 || value_elem(v) == EL_BOOL) return NULL;
    int row, axis = square_row_axis(e, s, v, p, &row);
    if (axis < 0) return NULL;
    LLVMValueRef x[MAX_PLACES];
    Place across = *p;
    across.axis = axis;
    across.live = s->n;
    across.at[axis] = s->rows[0];
    for (int i = 0; i < s->n; i++) {
        across.at[p->axis] = gen_add(e->g, p->at[p->axis], gen_i64(e->g, i));
        x[i] = i < p->live ? gen_splat(e->g, read_memory(e, v, &across), s->n)
                           : gen_zero(e->g, value_elem(v), s->n);
    }
    emit_transpose(e->g, s->n, x);
    for (int i = 0; i < s->n; i++) {
        Place at = *p;
        at.at[axis] = s->rows[i];
        memo_set(e, v, &at, x[i]);
    }
    return x[row];
}
