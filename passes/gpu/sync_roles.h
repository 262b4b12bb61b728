// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What roles do with rings, each by itself and all together.
#ifndef PASSES_GPU_SYNC_ROLES_H
#define PASSES_GPU_SYNC_ROLES_H

#include "ir/ir.h"

typedef struct Meeting Meeting;

Meeting *meeting_begin(Ctx *ctx, Op *roles);
/// Events that follow are of role i.
void meeting_enter(Meeting *m, int i);
/// The role comes to this op of a ring, for item n.
void meeting_event(Meeting *m, Op *op, int64_t n);

/// Role i that is walked first goes on as if scalar v, such as a bound that nobody knows, were n;
/// what roles behind it compute in the same way is so, too.
void meeting_assume(Meeting *m, const Value *v, int64_t n);
bool meeting_knows(const Meeting *m, const Value *v, int64_t *n);

/// Role i comes to a loop that goes on by condition. False: not as long as in the roles before.
bool meeting_goes_on(Meeting *m, const Op *loop);

/// An op at which a role stops for ever, or that does not fit the others; NULL: there is none.
typedef struct Blocked {
    Op *op;
    const char *why;
} Blocked;

/// Runs what was noted: whether all roles come to their ends, and have filled what others have
/// waited for, in whatever trips of their loops.
Blocked meeting_run(Meeting *m);
/// A line of the proof.
const char *meeting_line(const Meeting *m);

#endif
