// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The ring operations of roles, each by itself and all together.
#ifndef PASSES_GPU_SYNC_ROLES_H
#define PASSES_GPU_SYNC_ROLES_H

#include "ir/ir.h"

typedef struct Meeting Meeting;

Meeting *meeting_begin(Ctx *ctx, Op *roles);
/// Starts role i. The events that follow belong to it.
void meeting_enter(Meeting *m, int i);
/// Records that the role reaches this ring op, for item n.
void meeting_event(Meeting *m, Op *op, int64_t n);

/// Assumes scalar v = n in the first role. Later roles that compute it in the same way get the same
/// number. turn: the iterations of the loops around v.
void meeting_assume(Meeting *m, const Value *v, uint64_t turn, int64_t n);
bool meeting_knows(const Meeting *m, const Value *v, uint64_t turn, int64_t *n);

/// Records that the current role reaches a loop by condition. Returns false if the previous roles
/// do not run it for the same tiles.
bool meeting_goes_on(Meeting *m, const Op *loop);

/// An op at which a role stops for ever, or that contradicts the other roles; op NULL: none.
typedef struct Blocked {
    Op *op;
    const char *why;
} Blocked;

/// Runs the recorded events. Checks that all roles reach their ends, and that they fill the items
/// that others wait for.
Blocked meeting_run(Meeting *m);
/// Returns a line for the proof.
const char *meeting_line(const Meeting *m);

#endif
