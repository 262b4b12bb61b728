// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the temporary shared memory that lowering takes besides buffers and rings.
#include "passes/gpu/async/async.h"

static int64_t temporary_block_bytes(const Value *v) {
    return ty_is_block(v->type) ? ty_count(v->type) * ((elem_info[v->type->elem].bits + 7) / 8) : 0;
}

static int64_t convert_bytes(const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    if (!from->layout || !to->layout) return 0;
    Conversion c = layout_convert(from->layout, to->layout, elem_info[to->elem].bits);
    return c.kind >= CONVERT_SHARED ? c.shared.bytes : 0;
}

/// Whether the result is a subset of each thread's registers.
static bool is_cut(Ctx *ctx, const Op *op) {
    const Layout *from = operand(op, 0)->type->layout, *to = result(op, 0)->type->layout;
    if (!from || !to) return false;
    int64_t *regs = ctx_array(ctx, int64_t, layout_registers(to));
    return layout_registers_from(from, to, op_ints(op, A_START)->ints, regs);
}

/// Whether every thread keeps its own elements.
static bool is_renamed(Ctx *ctx, const Op *op) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    if (!ty_is_block(from) || !ty_is_block(to) || !from->layout || !to->layout) return false;
    return ty_count(from) > 1 &&
           layout_reshape(ctx, from->layout, to->rank, to->extents) == to->layout;
}

typedef struct Most {
    Ctx *ctx;
    const PtrMap *copied;
    int64_t bytes;
} Most;

static bool comes_from_buffer(const Most *m, const Op *convert) {
    bool swapped;
    const Op *load = m->copied ? load_behind(result(convert, 0), &swapped) : NULL;
    return load && map_get(m->copied, load);
}

/// Raises `bytes` to the temporary shared memory of the op. Ops that go through it element by
/// element work in pieces.
static void most_temporary(Op *op, void *arg) {
    enum { PIECE = 40 << 10 };
    Most *m = arg;
    int64_t bytes = 0;
    switch (op->code) {
    case OP_CONVERT:
        if (!comes_from_buffer(m, op)) bytes = convert_bytes(op);
        break;
    case OP_DOT:
        if (!gpu_unit_of(op))
            bytes = temporary_block_bytes(operand(op, 0)) + temporary_block_bytes(operand(op, 1));
        break;
    case OP_SLICE:
        if (is_cut(m->ctx, op)) break; // fallthrough
    case OP_RESHAPE:
        if (op->code == OP_RESHAPE && is_renamed(m->ctx, op)) break; // fallthrough
    case OP_CONCAT:
        for (int i = 0; i < op->n_operands; i++) bytes += temporary_block_bytes(operand(op, i));
        break;
    case OP_SCAN:
    case OP_SORT:
    case OP_GATHER:
    case OP_HISTOGRAM:
        for (int i = 0; i < op->n_operands; i++) bytes += temporary_block_bytes(operand(op, i));
        bytes = bytes < PIECE ? bytes : PIECE;
        break;
    default: return;
    }
    if (bytes > m->bytes) m->bytes = bytes;
}

int64_t lowering_bytes(Ctx *ctx, Op *root, const PtrMap *copied) {
    Most m = {.ctx = ctx, .copied = copied};
    op_walk_pre(root, most_temporary, &m);
    return m.bytes;
}
