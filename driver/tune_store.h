// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results of searches on disk (tune_store.c).
#ifndef DRIVER_TUNE_STORE_H
#define DRIVER_TUNE_STORE_H

#include "driver/tune.h"

/// The machine that a request is for, in words that no other one has.
const char *tune_device(Ctx *ctx, const Request *r, int device);
/// Keeps what a search found, for tune_find.
void tune_keep(Ctx *ctx, const Request *r, int device, const TuneResult *result);

#endif
