// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Part of sync: what a program sends to other ranks is signalled behind it (send_signals.c).
#ifndef PASSES_GPU_SEND_SIGNALS_H
#define PASSES_GPU_SEND_SIGNALS_H

#include "passes/util.h"

typedef struct Sending {
    Ctx *ctx;
    const Op *dispatch;         // of the device
    PtrMap origin;              // what a carried value was when it was yielded
    const Op *sent;             // the last store that no signal is behind, or NULL
    const Value *to, *from;     // its ranks
    int tile, sent_tile;        // of a loop over tiles: how many were begun; when `sent` was
    bool signals, not_in_order; // there are some; one is not behind what it is for, as far as shows
    const Op *lost;             // what is sent though the part of the tile before is not signalled
} Sending;

void send_signals_begin(Sending *s, Ctx *ctx, Op *module, const Op *device);
/// Value `to` becomes what `from` is.
void send_signals_pass(Sending *s, const Value *from, const Value *to);
/// The next op of the walk.
void send_signals_visit(Sending *s, const Op *op);

#endif
