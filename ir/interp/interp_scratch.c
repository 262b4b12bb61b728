// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scratch tensors and, under --check, their written elements.
#include "ir/interp/interp_private.h"

#include <string.h>

/// The interpreter has no limit.
void do_workspace_limit(Interp *it, Op *op) {
    (void)it;
    out(op, 0)->cells[0].i = INT64_MAX;
}

void do_scratch(Interp *it, Op *op) {
    enum { UNDEFINED = 0xA5 }; // a visible value
    Tensor *t = &out(op, 0)->tensor;
    t->elem = out(op, 0)->type->elem;
    t->rank = op->n_operands;
    int64_t n = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        t->extents[d] = in_int(op, d) > 0 ? in_int(op, d) : 0;
        t->strides[d] = n;
        if (__builtin_mul_overflow(n, t->extents[d], &n) || n > INT64_C(1) << 40)
            run_error(it, op, "scratch of dimension %d x %lld is too large", d,
                      (long long)t->extents[d]);
    }
    size_t bytes = (size_t)n * 8;
    if (op_flag(op, A_SYMMETRIC)) {
        t->data = shared_memory(it, op, (int64_t)bytes, UNDEFINED);
        return;
    }
    t->data = ctx_alloc(it->ctx, bytes);
    memset(t->data, op_flag(op, A_COUNTER) ? 0 : UNDEFINED, bytes);
    if (op_flag(op, A_COUNTER)) vec_push(it->ctx, &it->counters, op);
    // Tensors that passes made have gaps and flags.
    if (!it->options.check || !op->results[0].name || elem_info[t->elem].bits < 8) return;
    Scratch s = {t->data, n, elem_info[t->elem].bits / 8, ctx_array(it->ctx, bool, n + 1)};
    vec_push(it->ctx, &it->scratches, s);
}

void check_counters(Interp *it) {
    for (int i = 0; i < it->counters.n; i++) {
        const Op *op = it->counters.data[i];
        int64_t left = load_element(it, &out(op, 0)->tensor, 0).i;
        if (left) run_error(it, op, "the launch leaves %lld in its counter", (long long)left);
    }
}

/// The flag of an element, if it is in a watched scratch tensor.
static bool *written_flag(Interp *it, const Tensor *t, int64_t offset) {
    const char *p = (const char *)t->data + offset * (elem_info[t->elem].bits / 8);
    for (int i = 0; i < it->scratches.n; i++) {
        const Scratch *s = &it->scratches.data[i];
        if (p >= s->data && p < s->data + s->n * s->size)
            return &s->written[(p - s->data) / s->size];
    }
    return NULL;
}

void note_write(Interp *it, const Tensor *t, int64_t offset) {
    bool *w = written_flag(it, t, offset);
    if (w) *w = true;
}

bool was_written(Interp *it, const Tensor *t, int64_t offset) {
    const bool *w = written_flag(it, t, offset);
    return !w || *w;
}
