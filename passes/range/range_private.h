// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The insides of the range analysis, shared by range.c, range_interval.c and range_proof.c.
#ifndef PASSES_RANGE_RANGE_PRIVATE_H
#define PASSES_RANGE_RANGE_PRIVATE_H

#include "passes/range/range.h"

enum { RANGE_DEPTH = 7 }; // of definitions looked through

/// No tensor has more elements along an axis.
#define MAX_EXTENT ((int64_t)1 << 48)

typedef struct Extent {
    const Value *tensor, *atom;
    int axis;
} Extent;

/// A form that a proof came to and could not prove.
typedef struct Failure {
    Linear form;
    int depth, steps; // steps: that the search took
    int proof;        // number of the proof
} Failure;
enum { FAILURES = 128 };

struct Ranges {
    Ir *ir;
    Ctx *ctx;
    VEC(Extent) extents;
    VEC(Linear) facts;  // each is >= 0
    int n_kernel_facts; // the first ones hold everywhere
    PtrMap equal;       // atom -> the Linear it equals
    PtrMap forms;       // value -> its Linear, until `equal` changes
    PtrMap divisors;    // atom -> a number that divides it
    PtrMap intervals;   // atom -> its Interval, once known
    PtrMap fits;        // value -> itself where its form cannot wrap anywhere
    int steps;          // left for the proof at hand
    int proof;          // its number
    Failure failed[FAILURES];
};

/// lo <= x <= hi. Of values: within their type.
typedef struct Interval {
    Wide lo, hi;
} Interval;
#define ANY_I64 ((Interval){INT64_MIN, INT64_MAX})

/// The bounds of the integer that op computes of operands within x[], before it wraps to the type
/// of the result.
typedef struct IntervalRule {
    OpCode op;
    Interval (*of)(const Op *op, const Interval *x);
    const char *algebra;
} IntervalRule;

/* ---- range.c ------------------------------------------------------------------------------- */

Linear linear_bad(void);
/// The form without term i.
Linear linear_without(Linear a, int i);
Linear linear_scaled(Linear a, int64_t factor);
/// The index of a for, parallel or contract.
bool is_loop_index(const Value *v);
/// An extent that no op of the kernel names.
static inline bool is_own_extent(const Value *v) {
    return v->index < 0;
}
int64_t linear_divisor(Ranges *r, Linear form, int depth);

/// linear_exact within a proof; depth: of the proof.
Linear linear_exact_at(Ranges *r, const Value *v, int depth);

/* ---- range_interval.c ---------------------------------------------------------------------- */

/// Bounds of a form as an integer; false where they do not fit.
bool linear_bounds(Ranges *r, const Linear *form, int depth, Interval *out);
/// Every value that an element type has.
Interval type_interval(Elem e);
/// What rules say of op, else what its type says.
Interval interval_by_rule(const Op *op, const Interval *x);

/* ---- range_proof.c ------------------------------------------------------------------------- */

/// form >= 0, as a part of a proof.
bool proved(Ranges *r, Linear form, int depth);

extern const RuleTable interval_table, proof_table, divisor_table, fact_table;

#endif
