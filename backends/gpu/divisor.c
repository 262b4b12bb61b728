// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds powers of two that divide integers, from the ops that compute them. They also hold for
// wrapped values.
#include "backends/gpu/divisor.h"

enum { MAX_DEPTH = 16, MAX_TWOS = 32 };

static int64_t capped_power_of_two(int n) {
    return (int64_t)1 << (n < MAX_TWOS ? n : MAX_TWOS);
}

static int64_t of_constant(int64_t n) {
    return n ? capped_power_of_two(__builtin_ctzll((uint64_t)n)) : 0;
}

/// Returns the greatest common divisor of two powers of two. Everything divides 0.
static int64_t common_divisor(int64_t a, int64_t b) {
    if (!a || !b) return a ? a : b;
    return a < b ? a : b;
}

static int64_t find_divisor(const Value *v, int depth);

static int64_t of_operands(const Op *op, int first, int depth) {
    return common_divisor(find_divisor(operand(op, first), depth),
                          find_divisor(operand(op, first + 1), depth));
}

static int64_t divisor_of_mul(const Op *op, int depth) {
    int64_t a = find_divisor(operand(op, 0), depth), b = find_divisor(operand(op, 1), depth);
    return a && b ? capped_power_of_two(__builtin_ctzll((uint64_t)a) + __builtin_ctzll((uint64_t)b))
                  : 0;
}

/// x << n: only a constant n counts.
static int64_t of_shift(const Op *op, int depth) {
    int64_t n, a = find_divisor(operand(op, 0), depth);
    if (!const_int(operand(op, 1), &n) || n < 0 || n > MAX_TWOS) return a;
    return a ? capped_power_of_two(__builtin_ctzll((uint64_t)a) + (int)n) : 0;
}

static int64_t divisor_of_dim(const Op *op) {
    const Type *t = operand(op, 0)->type;
    int axis = (int)op_int(op, A_AXIS, 0);
    int64_t apart = (int64_t)t->align * 8 / elem_info[t->elem].bits;
    if (op->code == OP_STRIDE && t->strides[axis] == DYNAMIC && apart) return of_constant(apart);
    int64_t n = op->code == OP_DIM ? t->extents[axis] : t->strides[axis];
    return n == DYNAMIC ? 1 : of_constant(n);
}

/// The index of a loop.
static int64_t of_argument(const Value *v, int depth) {
    const Op *op = v->region ? v->region->parent : NULL;
    if (!op || op->code != OP_FOR || v->index != 0 || v->region != op->regions[0]) return 1;
    return common_divisor(find_divisor(operand(op, 0), depth), of_constant(op_int(op, A_STEP, 1)));
}

static int64_t of_if(const Op *op, int index, int depth) {
    return common_divisor(find_divisor(operand(op->regions[0]->last, index), depth),
                          find_divisor(operand(op->regions[1]->last, index), depth));
}

static int64_t find_divisor(const Value *v, int depth) {
    const Op *op = v->def;
    int64_t n;
    if (depth-- == 0) return 1;
    if (!op) return of_argument(v, depth);
    switch (op->code) {
    case OP_CONST: return const_int(v, &n) ? of_constant(n) : 1;
    case OP_ADD:
    case OP_SUB:
    case OP_MIN:
    case OP_MAX:
    case OP_REM: return of_operands(op, 0, depth);
    case OP_SELECT: return of_operands(op, 1, depth);
    case OP_MUL: return divisor_of_mul(op, depth);
    case OP_SHL: return of_shift(op, depth);
    case OP_NEG: return find_divisor(operand(op, 0), depth);
    case OP_CAST:
        return elem_is(operand(op, 0)->type->elem, EC_INT) ? find_divisor(operand(op, 0), depth)
                                                           : 1;
    case OP_DIM:
    case OP_STRIDE: return divisor_of_dim(op);
    case OP_IF: return of_if(op, v->index, depth);
    default: return 1;
    }
}

int64_t gpu_divisor(const Value *v) {
    return find_divisor(v, MAX_DEPTH);
}
