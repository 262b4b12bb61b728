// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine of a search (tune_device.c), and results of searches on disk (tune_store.c).
#ifndef DRIVER_TUNE_TUNE_STORE_H
#define DRIVER_TUNE_TUNE_STORE_H

#include "cache/store.h"
#include "driver/tune/tune.h"
#include "runtime/tune/trial.h"

/// The machine that a request is for, in words that no other one has: those of the runtime and, of
/// a CPU, the level.
const char *tune_device(Ctx *ctx, const Request *r, int device);
/// Where the bytes of a tensor of integers or bools are; none of one of floats.
rt_held tune_held(const DLTensor *t, const tg_actual *a);
/// For tg_variant.device, of such words; "any": 0.
uint32_t tune_device_hash(Ctx *ctx, const char *text, bool cpu);
/// What a search of this request is claimed by, of all processes that share the store; one in the
/// background by something else than one that a launch waits for. False: its result is not kept.
bool tune_claim_key(Ctx *ctx, const Request *r, int device, bool background, StoreKey *out);
/// What an earlier search of this very shape found, of these sources or of older ones; `source` of
/// the request, too. False: nothing is known.
bool tune_earlier(Ctx *ctx, const Request *r, int device, TuneResult *out, uint64_t *source);
/// Makes the result of another shape of the bucket one of this shape (tune_bucket.c). False: it
/// says nothing of it.
bool tune_bucket(Ctx *ctx, const Request *r, TuneResult *result);
/// Keeps what a search measured before it was stopped, for tune_earlier: nothing was found.
void tune_keep_part(Ctx *ctx, const Request *r, int device, const TuneResult *result);
/// Who was fastest on another machine, or on this one with another driver or compiler.
typedef struct TuneSibling {
    uint64_t machine; // a hash of all that makes it another one
    const char *device, *config;
} TuneSibling;
enum { TUNE_SIBLINGS = 8 };
typedef struct TuneSiblings {
    int n;
    const TuneSibling *at; // the last searches' first
} TuneSiblings;
/// What won for this kernel and bucket of shapes on others of the same maker, whatever the sources
/// were. It says what to try first, and nothing of what is fastest here.
void tune_siblings(Ctx *ctx, const Request *r, int device, TuneSiblings *out);
/// The bytes of such a list; false: they are none.
Bytes tune_write_siblings(Ctx *ctx, const TuneSiblings *s);
bool tune_read_siblings(Ctx *ctx, Bytes in, TuneSiblings *out);
/// Keeps what a search found, for tune_find, tune_earlier and, of other machines, tune_siblings.
void tune_keep(Ctx *ctx, const Request *r, int device, const TuneResult *result);

#endif
