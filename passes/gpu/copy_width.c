// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds how wide copies of a block's rows to shared memory may be. A copy of n bytes must start at
// a multiple of n. TMA needs 16; cp.async also takes 8 and 4. Threads load all other blocks.
#include "passes/gpu/gpu.h"
#include "passes/util.h"

enum { MAX_DEPTH = 8 };

/// Whether n, a power of two, provably divides v.
static bool is_multiple(const Value *v, int64_t n, int depth) {
    int64_t c;
    if (n == 1) return true;
    if (const_int(v, &c)) return c % n == 0;
    if (!depth) return false;
    if (!v->def) {
        const Op *loop = v->region->parent;
        return (loop->code == OP_FOR || loop->code == OP_PARALLEL) && v->index == 0 &&
               op_int(loop, A_STEP, 1) % n == 0 && is_multiple(operand(loop, 0), n, depth - 1);
    }
    bool x = v->def->n_operands == 2 && is_multiple(operand(v->def, 0), n, depth - 1);
    bool y = v->def->n_operands == 2 && is_multiple(operand(v->def, 1), n, depth - 1);
    switch (v->def->code) {
    case OP_MUL:
    case OP_AND: return x || y;
    case OP_ADD:
    case OP_SUB:
    case OP_MIN:
    case OP_MAX: return x && y;
    default: return false;
    }
}

/// Whether rows along dimension c are a multiple of `bytes` apart. `align` covers the unknown
/// strides; known strides, in elements, are checked here.
static bool rows_fit(const Type *t, int c, int64_t bytes) {
    int64_t bits = elem_info[t->elem].bits;
    if (t->align < bytes && bits < 8 * bytes) return false;
    for (int d = 0; d < t->rank; d++)
        if (d != c && t->strides[d] != DYNAMIC &&
            (t->strides[d] <= 0 || t->strides[d] * bits % (8 * bytes) != 0))
            return false;
    return true;
}

static bool starts_fit(const Value *start, Elem elem, int64_t bytes) {
    return is_multiple(start, 8 * bytes / elem_info[elem].bits, MAX_DEPTH);
}

bool gpu_start_fits(const Op *op, const Access *a, int along, int64_t bytes) {
    return starts_fit(sub_operand(op, a, along, 0), a->tensor->type->elem, bytes);
}

GpuWidth gpu_copy_width(const Op *op, const Access *a, int along) {
    const Type *t = a->tensor->type;
    const Value *start = sub_operand(op, a, along, 0);
    GpuWidth w = {0};
    for (int bytes = GPU_COPY_MOST; bytes >= GPU_COPY_LEAST && 8 * bytes >= elem_info[t->elem].bits;
         bytes /= 2) {
        bool rows = rows_fit(t, along, bytes);
        w.bytes = bytes;
        if (rows && starts_fit(start, t->elem, bytes)) return w;
        w = (GpuWidth){.wider = bytes, .rows = rows};
    }
    return w;
}
