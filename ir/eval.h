// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The meaning of scalars: one lane of every elementwise op, casts, and element types in memory.
// Constant folding and the interpreter share it; it is the definition all executors agree with.
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include "ir/ir.h"

/// One lane in a register: signed integers in i, unsigned and bool in u, floats in f. Always
/// exactly representable in its element type.
typedef union Cell {
    int64_t i;
    uint64_t u;
    double f;
} Cell;

typedef Cell EvalFn(Elem e, Cell a, Cell b, Cell c);
/// The function of an elementwise op on operands of class `cls`, or NULL. Its result is not yet
/// wrapped: pass it through cell_wrap (COMPARES: it is 0 or 1).
EvalFn *eval_function(OpCode op, ElemClass cls);
/// a b + c of operands that are exact in f32, rounded to odd: rounding that to a format of at most
/// 51 bits is the same as rounding the exact sum (Boldo and Melquiond).
double fma_to_odd(double a, double b, double c);
/// One lane of an elementwise op on operands of element e; wrapped.
Cell eval_elementwise(OpCode op, Elem e, const Cell *args);

/// Integers wrap to the width, floats round to nearest even (f8 saturates).
Cell cell_wrap(Elem e, Cell c);
/// Whether cell_wrap leaves every value of e unchanged. An infinity of f8e5m2 exists only in
/// memory; an op, or a cast from another type, turns it into the largest number.
static inline bool elem_wraps_to_itself(Elem e) {
    return e != EL_F8E5M2;
}
/// Float to integer truncates and saturates, NaN gives 0; to bool is != 0. A cast to the own type
/// returns the value.
Cell cell_cast(Elem from, Elem to, Cell c);
/// The bits of a lane in memory, and the inverse.
uint64_t cell_bits(Elem e, Cell c);
Cell cell_from_bits(Elem e, uint64_t bits);

/// Element `offset` (counted in elements, may be negative) from base.
Cell cell_load(Elem e, const void *base, int64_t offset);
void cell_store(Elem e, void *base, int64_t offset, Cell c);

Cell cell_of_attr(Elem e, const Attr *a); // INT, FLOAT, BOOL
const Attr *attr_of_cell(Ir *ir, Elem e, Cell c);
bool cell_equal(Elem e, Cell a, Cell b); // NaN equals NaN
/// "3", "-0.5", "true": for messages.
char *cell_text(Ctx *ctx, Elem e, Cell c);

#endif
