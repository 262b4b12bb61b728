// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Internals of the range analysis, shared by range.c, range_interval.c and range_proof.c.
#ifndef PASSES_RANGE_RANGE_PRIVATE_H
#define PASSES_RANGE_RANGE_PRIVATE_H

#include "passes/range/range.h"

enum { RANGE_DEPTH = 7 }; // of definitions to look through

/// The maximum extent of an axis.
#define MAX_EXTENT ((int64_t)1 << 48)

typedef struct Extent {
    const Value *tensor, *atom;
    int axis;
} Extent;

/// A form that a proof reached and failed to prove.
typedef struct Failure {
    Linear form;
    int depth, steps; // steps: of the failed search
    int proof;        // number of the proof
} Failure;
enum { FAILURES = 128 };

struct Ranges {
    Ir *ir;
    Ctx *ctx;
    VEC(Extent) extents;
    VEC(Linear) facts;  // each form is >= 0
    int n_kernel_facts; // these hold everywhere in the kernel
    PtrMap equal;       // atom -> the Linear it equals
    PtrMap forms;       // value -> its Linear, until `equal` changes
    PtrMap divisors;    // atom -> a number that divides it
    PtrMap intervals;   // atom -> its Interval, if known
    PtrMap fits;        // value -> itself, if its form never wraps
    int steps;          // left for the current proof
    int proof;          // number of the current proof
    Failure failed[FAILURES];
    int place;                  // changes with the facts that hold besides those of the kernel
    Failure unproved[FAILURES]; // forms that no proof was found for; `proof` is the place
};

/// lo <= x <= hi. Intervals of values lie within their type.
typedef struct Interval {
    Wide lo, hi;
} Interval;
#define ANY_I64 ((Interval){INT64_MIN, INT64_MAX})

/// A rule for the bounds of an op's integer result, for operands within x[], before it wraps to its
/// type.
typedef struct IntervalRule {
    OpCode op;
    Interval (*of)(const Op *op, const Interval *x);
    const char *algebra;
} IntervalRule;

/* ---- range.c ------------------------------------------------------------------------------- */

Linear linear_bad(void);
/// Returns the form without term i.
Linear linear_without(Linear a, int i);
Linear linear_scaled(Linear a, int64_t factor);
/// Whether v is the index of a for, parallel or contract.
bool is_loop_index(const Value *v);
/// Whether v is an extent that no op of the kernel names.
static inline bool is_own_extent(const Value *v) {
    return v->index < 0;
}
int64_t linear_divisor(Ranges *r, Linear form, int depth);

/// Is linear_exact within a proof; depth: that of the proof.
Linear linear_exact_at(Ranges *r, const Value *v, int depth);

/* ---- range_interval.c ---------------------------------------------------------------------- */

/// Finds bounds of a form as an integer. Returns false if they do not fit.
bool linear_bounds(Ranges *r, const Linear *form, int depth, Interval *out);
/// Returns the interval of all values of an element type.
Interval type_interval(Elem e);
/// Returns the bounds by the op's rule, else those of its type.
Interval interval_by_rule(const Op *op, const Interval *x);

/* ---- range_proof.c ------------------------------------------------------------------------- */

/// Proves form >= 0 as a part of a proof.
bool proved(Ranges *r, Linear form, int depth);

extern const RuleTable interval_table, proof_table, divisor_table, fact_table;

#endif
