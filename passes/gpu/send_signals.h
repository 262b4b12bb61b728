// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Part of sync: checks that a signal follows each part that a program sends to other ranks
// (send_signals.c).
#ifndef PASSES_GPU_SEND_SIGNALS_H
#define PASSES_GPU_SEND_SIGNALS_H

#include "passes/util.h"

typedef struct Sending {
    Ctx *ctx;
    const Op *dispatch;         // of the device
    PtrMap origin;              // carried value -> the value that was yielded for it
    const Op *sent;             // the last store without a signal after it, or NULL
    const Value *to, *from;     // the ranks of that store
    int tile, sent_tile;        // number of started tiles; the same at `sent`
    bool signals, not_in_order; // signals: some are raised; not_in_order: one may not belong to the
                                // last store
    const Op *lost;             // a store that precedes the signal of the previous tile's part
} Sending;

void send_signals_begin(Sending *s, Ctx *ctx, Op *module, const Op *device);
/// Records that value `to` is `from` of an earlier iteration or outer region.
void send_signals_pass(Sending *s, const Value *from, const Value *to);
/// Visits the next op of the walk.
void send_signals_visit(Sending *s, const Op *op);

#endif
