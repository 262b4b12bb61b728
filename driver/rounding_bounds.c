// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bounds the difference between two right results (runtime/tune/trial.h): finds the places that
// round, and their significant bits. Operands of dot products are not rounded, whatever their type,
// because their products are exact.
#include "driver/remote/oracle.h"

enum {
    F64_BITS = 53,
    F32_BITS = 24, // the least that sums have, whatever their type
    UNIT_SUM = 22, // of matrix units, which truncate their sums
    TF32 = 11,
    TF32X3 = 20,
    F8_SUM = 13, // docs/use/kernels-on-gpus.md: sums of 128 products lose 2^-11 of |a| |b|
    F8_FAST = 4, // for all products; its loss grows with their number
};

static int significand_bits(Elem e) {
    uint8_t code, bits;
    elem_dlpack(e, &code, &bits);
    return rt_significand(code, bits);
}

static bool is_float_block(const Type *t) {
    return ty_is_block(t) && elem_is(t->elem, EC_FLOAT);
}

static void narrow_bits(int *bits, int to) {
    if (to < *bits) *bits = to;
}

/// The last rounding of a result belongs to the result's own type, which is counted apart.
static bool is_only_stored(const Value *v) {
    for_each_use(u, v) if (u->user->code != OP_STORE) return false;
    return true;
}

static void note_cast(const Op *op, Precision *p) {
    const Type *from = operand(op, 0)->type, *to = result(op, 0)->type;
    if (!is_float_block(to) || is_only_stored(result(op, 0))) return;
    if (is_float_block(from) && significand_bits(to->elem) >= significand_bits(from->elem)) return;
    narrow_bits(&p->way, significand_bits(to->elem));
    p->rounds = true;
}

/// Applies to CPUs as well; they are at least as exact as the sum's type.
static void note_dot(const Op *op, Precision *p) {
    Elem e = operand(op, 0)->type->elem;
    DotPrecision precision = op_precision(op);
    if (!elem_is(e, EC_FLOAT)) return;
    if (e != EL_F64) narrow_bits(&p->sum, UNIT_SUM);
    if (precision == PRECISION_TF32) narrow_bits(&p->way, TF32);
    if (precision == PRECISION_TF32X3) narrow_bits(&p->way, TF32X3);
    if (elem_info[e].bits == 8) narrow_bits(&p->sum, F8_SUM);
    if (elem_info[e].bits == 8 && precision == PRECISION_FAST) narrow_bits(&p->way, F8_FAST);
}

static bool rounds_result(const Op *op) {
    switch (op->code) {
    case OP_MIN:
    case OP_MAX:
    case OP_NEG:
    case OP_ABS:
    case OP_SELECT: return false;
    case OP_DOT:
    case OP_ATOMIC: return true;
    default: return op_has(op, ELEMENTWISE) && !op_has(op, COMPARES);
    }
}

/// Ops in the regions of reductions are visited, too.
static void note_rounding_op(Op *op, void *arg) {
    Precision *p = arg;
    bool computes = op_has(op, ELEMENTWISE) || op->code == OP_DOT || op->code == OP_REDUCE ||
                    op->code == OP_SCAN || op->code == OP_ATOMIC || op->code == OP_COMBINE;
    if (op->code == OP_CAST) note_cast(op, p);
    if (!computes || op->code == OP_SELECT || op->code == OP_CAST) return;
    for (int i = 0; i < op->n_operands; i++) p->arithmetic |= is_float_block(operand(op, i)->type);
    if (op->code == OP_DOT) note_dot(op, p);
    for (int i = 0; i < op->n_results; i++) {
        const Type *t = result(op, i)->type;
        if (!is_float_block(t) || !rounds_result(op)) continue;
        int bits = significand_bits(t->elem);
        narrow_bits(&p->way, bits);
        narrow_bits(&p->sum, bits > F32_BITS ? bits : F32_BITS);
        p->rounds = true;
    }
}

Precision rounding_bounds_of(Op *module) {
    Precision p = {.way = F64_BITS, .sum = F64_BITS};
    op_walk_pre(module, note_rounding_op, &p);
    return p;
}
