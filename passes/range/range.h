// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts about integers: bounds, divisors, and inequalities between symbolic values.
//
// An i64 value is seen as a linear form c + k1 * v1 + k2 * v2 + ... over *atoms*: values that the
// analysis does not look into (dims, loop indices, min, max, divisions, ...). What is known of
// atoms are inequalities between linear forms: from their definition (0 <= dim, lo <= i < hi,
// min(x, y) <= x, ...), from the kernel's `require` ops, and from enclosing branches. A query is
// answered by replacing atoms by their bounds until a number is left.
//
// Forms are over the integers, values are not: + - * wrap. The form of a value is the value modulo
// 2 ** 64 (linear_of), so a proof that it lies between 0 and an extent holds for the value. Where
// one bound alone counts, or the value is divided or compared, the form must be the value itself
// (linear_exact): one that cannot be shown to stay within int64_t is an atom.
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

/// constant + the sum of factor * atom. `bad`: does not fit; nothing is known of it.
typedef struct Linear {
    Wide constant;
    int n;
    bool bad;
    Term terms[MAX_TERMS];
} Linear;

typedef struct Ranges Ranges;

/// Collects the facts of a kernel. They hold until the kernel is changed.
Ranges *ranges_of(Ir *ir, Op *kernel);
/// Queries from here on are about the place of op: conditions of the branches around it hold.
void ranges_at(Ranges *r, const Op *op);

Linear linear_constant(int64_t c);
/// The form of an i64 scalar, or of every lane of an i64 block, modulo 2 ** 64.
Linear linear_of(Ranges *r, const Value *v);
/// The form that is the value of v, and no other number that is the same modulo 2 ** 64.
Linear linear_exact(Ranges *r, const Value *v);
/// The extent of axis d of a tensor.
Linear linear_extent(Ranges *r, const Value *tensor, int d);
/// a + factor * b.
Linear linear_add(Linear a, Linear b, int64_t factor);

/// The form is >= 0 in every execution (and lane). False: not proved.
bool prove_nonnegative(Ranges *r, Linear form);
static inline bool prove_le(Ranges *r, Linear a, Linear b) {
    return prove_nonnegative(r, linear_add(b, a, -1));
}
/// lo <= v <= hi in every execution and lane; INT64_MIN and INT64_MAX where nothing is known.
void range_bounds(Ranges *r, const Value *v, int64_t *lo, int64_t *hi);
/// A number >= 1 that divides v in every lane; 0 where v is always 0.
int64_t range_divisor(Ranges *r, const Value *v);

#endif
