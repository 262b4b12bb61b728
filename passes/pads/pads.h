// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations shared by the files of the pass `pads`: facts about lanes past the ends of ranges.
#ifndef PASSES_PADS_PADS_H
#define PASSES_PADS_PADS_H

#include "ir/eval.h"
#include "passes/util.h"

/// The contents of lanes past the end of one axis. CLEAN: no such lanes, or unknown; CONSTANT: one
/// constant; REPEATED: the value of some lane before the end; OTHER: anything else.
typedef enum Holds { CLEAN, CONSTANT, REPEATED, OTHER } Holds;

typedef struct Fact {
    Holds holds;
    Cell value;         // for CONSTANT
    const void *lanes;  // identity of the lanes: equal pointers mean equal lanes
    const Value *count; // the lanes from here on; NULL: they lie elsewhere
    const Op *read;     // the read that they come from; NULL: a comparison with the count
    bool chosen;        // the program chose the value, with `valid(n) ? ... : ...`
} Fact;

typedef struct Facts {
    Fact axis[MAX_RANK];
} Facts;

typedef struct Pads {
    Ir *ir;
    Ctx *ctx;
    Op *kernel;
    PtrMap facts; // block value -> Facts
    bool quiet;   // counts warnings instead of printing them
    int n_said, n_said_of_target;
    int n_facts, n_tried;
    const Op *target;  // its warnings are counted separately
    const Op *changed; // a read that is assumed to have the pad `pad`
    Cell pad;
} Pads;

const Facts *facts_of(const Pads *p, const Value *v);
void set_facts(Pads *p, const Value *v, const Facts *f);
/// Returns the identity of the lanes from a count on. Equal constants are equal counts.
const void *lanes_from(const Pads *p, const Value *count);
/// Analyses the kernel, and warns.
void pads_run(Pads *p);

/* ---- lane by lane (pads_lanes.c) ----------------------------------------------------------- */

/// The contents of an operand in given lanes of one axis: a known constant (KNOWN), one unknown
/// value in all lanes (UNIFORM), a value from the pad (FOREIGN), valid lanes of its own (OWN), or
/// lanes of another range or of control flow (OTHERS), which are judged elsewhere.
typedef enum Lane { KNOWN, UNIFORM, FOREIGN, OWN, OTHERS } Lane;
typedef struct Operand {
    Lane lane;
    Cell value;
} Operand;
Operand operand_in(const Pads *p, const Value *v, int axis, const Fact *dead);
void lane_facts(Pads *p, const Op *op);
double cell_number(Elem e, Cell c);
bool cell_is(Elem e, Cell c, double v);

/// Whether v holds lane numbers.
bool is_number(const Value *v);

/* ---- folds (pads_folds.c) ------------------------------------------------------------------ */

/// Whether lanes past the end with this fact leave a max, sum etc. of the others unchanged.
bool is_identity(Ir *ir, OpCode code, Elem e, const Fact *f);
/// Likewise for the fold of an op's region, tested on samples, for lanes past the end of `axis`.
bool fold_ignores(const Pads *p, const Op *op, int axis, const Fact *f);
/// Whether no lane of v before the end is below c (up: above c). NaN may occur.
bool is_bounded(const Value *v, double c, bool up);
/// Whether all uses of v are maxima (up: minima) with values that are not below c (up: above c).
bool only_raised(const Value *v, double c, bool up);

/* ---- messages (pads_warn.c) ---------------------------------------------------------------- */

/// Warns that lanes past the end of axis `axis` of operand i reach op. code: the fold that they
/// change, or OP_COUNT.
void pads_warn(Pads *p, const Op *op, int i, int axis, const Fact *f, OpCode code);
void pads_warn_crossed(Pads *p, const Op *store, const Op *load);

#endif
