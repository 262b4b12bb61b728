// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the pass `pads` share: facts about lanes past the ends of ranges.
#ifndef PASSES_PADS_PADS_H
#define PASSES_PADS_PADS_H

#include "ir/eval.h"
#include "passes/util.h"

/// What lanes past the end of one axis hold: nothing is known, or there are none; one constant;
/// what some lane before the end holds, too; anything else.
typedef enum Holds { CLEAN, CONSTANT, REPEATED, OTHER } Holds;

typedef struct Fact {
    Holds holds;
    Cell value;         // CONSTANT
    const void *lanes;  // which these are: the same pointer, the same lanes
    const Value *count; // they are those from here on; NULL where they lie otherwise
    const Op *read;     // where they come from; NULL for comparisons with the count
    bool chosen;        // by the program, with `valid(n) ? ... : ...`
} Fact;

typedef struct Facts {
    Fact axis[MAX_RANK];
} Facts;

typedef struct Pads {
    Ir *ir;
    Ctx *ctx;
    Op *kernel;
    PtrMap facts; // block value -> Facts
    bool quiet;   // counts what it would say
    int n_said, n_said_of_target;
    int n_facts, n_tried;
    const Op *target;  // counted by itself
    const Op *changed; // a read that is taken to have the pad `pad`
    Cell pad;
} Pads;

const Facts *facts_of(const Pads *p, const Value *v);
void set_facts(Pads *p, const Value *v, const Facts *f);
/// The lanes from a count on: equal constants are equal counts.
const void *lanes_from(const Pads *p, const Value *count);
/// Runs the analysis over the kernel.
void pads_run(Pads *p);

/* ---- lane by lane (pads_lanes.c) ----------------------------------------------------------- */

/// An operand in such lanes of one axis: a known constant, one unknown value for all lanes
/// (UNIFORM), something from the pad (FOREIGN), lanes of its own that are all there (OWN), or of
/// another range or carried by control flow (OTHERS), which then are no one else's business.
typedef enum Lane { KNOWN, UNIFORM, FOREIGN, OWN, OTHERS } Lane;
typedef struct Operand {
    Lane lane;
    Cell value;
} Operand;
Operand operand_in(const Pads *p, const Value *v, int axis, const Fact *dead);
void lane_facts(Pads *p, const Op *op);
double cell_number(Elem e, Cell c);
bool cell_is(Elem e, Cell c, double v);

/// v has lane numbers, from wherever.
bool is_number(const Value *v);

/* ---- folds (pads_folds.c) ------------------------------------------------------------------ */

/// Whether lanes past the end that hold this leave a max, sum ... of others as it is.
bool is_identity(Ir *ir, OpCode code, Elem e, const Fact *f);
/// The same of the fold of an op's region, tried on values, for lanes past the end of an axis.
bool fold_ignores(const Pads *p, const Op *op, int axis, const Fact *f);
/// No lane of v before the end is below c (above, where up); NaN may be.
bool is_bounded(const Value *v, double c, bool up);
/// All that is made of v is a maximum (minimum, where up) with something that is not below c.
bool only_raised(const Value *v, double c, bool up);

/* ---- messages (pads_warn.c) ---------------------------------------------------------------- */

/// Lanes past the end of axis `axis` of operand i of op reach it. code: the fold that they change,
/// or OP_COUNT.
void pads_warn(Pads *p, const Op *op, int i, int axis, const Fact *f, OpCode code);
void pads_warn_crossed(Pads *p, const Op *store, const Op *load);

#endif
