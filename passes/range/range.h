// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts about integers: bounds, divisors, and inequalities between symbolic values.
//
// An i64 value is a linear form c + k1 * v1 + k2 * v2 + ... over *atoms*: values whose definition
// is no sum (dims, loop indices, min, max, divisions, ...). Facts are inequalities between linear
// forms. They come from the definition of atoms (0 <= dim, lo <= i < hi, min(x, y) <= x, ...), from
// the kernel's `require` ops, and from enclosing branches. A query replaces atoms by their bounds
// until a number is left.
//
// Forms are over the integers, but values wrap in + - *. So the form of a value equals it modulo 2
// ** 64 (linear_of). A proof that it lies between 0 and an extent still holds for the value. If
// only one bound matters, or the value is divided or compared, the form must equal the value itself
// (linear_exact). A form that cannot be proved to stay within int64_t is an atom.
#ifndef PASSES_RANGE_RANGE_H
#define PASSES_RANGE_RANGE_H

#include "ir/ir.h"

enum { MAX_TERMS = 8 };

typedef struct Term {
    const Value *atom;
    int64_t factor; // not 0
} Term;

/// Wide enough for sums and products of values.
__extension__ typedef __int128 Wide;

/// constant + the sum of factor * atom. bad: it does not fit, and nothing is known.
typedef struct Linear {
    Wide constant;
    int n;
    bool bad;
    Term terms[MAX_TERMS];
} Linear;

typedef struct Ranges Ranges;

/// Collects the facts of a kernel. They are valid until the kernel changes.
Ranges *ranges_of(Ir *ir, Op *kernel);
/// Makes later queries assume the conditions of the branches around op.
void ranges_at(Ranges *r, const Op *op);

Linear linear_constant(int64_t c);
/// Returns the form of an i64 scalar, or of every lane of an i64 block, modulo 2 ** 64.
Linear linear_of(Ranges *r, const Value *v);
/// Returns the form that equals the value of v, not only modulo 2 ** 64.
Linear linear_exact(Ranges *r, const Value *v);
/// Returns the extent of axis d of a tensor.
Linear linear_extent(Ranges *r, const Value *tensor, int d);
/// Returns a + factor * b.
Linear linear_add(Linear a, Linear b, int64_t factor);

/// Whether the form is proved to be >= 0 in every execution and lane.
bool prove_nonnegative(Ranges *r, Linear form);
static inline bool prove_le(Ranges *r, Linear a, Linear b) {
    return prove_nonnegative(r, linear_add(b, a, -1));
}
/// Finds bounds lo <= v <= hi for every execution and lane; INT64_MIN and INT64_MAX if unknown.
void range_bounds(Ranges *r, const Value *v, int64_t *lo, int64_t *hi);
/// Returns a number >= 1 that divides v in every lane; 0 if v is always 0.
int64_t range_divisor(Ranges *r, const Value *v);

#endif
