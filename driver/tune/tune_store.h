// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine of a search (tune_device.c), and stored results of searches (tune_store.c).
#ifndef DRIVER_TUNE_TUNE_STORE_H
#define DRIVER_TUNE_TUNE_STORE_H

#include "cache/store.h"
#include "driver/tune/tune.h"
#include "runtime/tune/trial.h"

/// Returns a text that identifies the machine of a request: the runtime's text, and for a CPU its
/// level.
const char *tune_device(Ctx *ctx, const Request *r, int device);
/// Returns the bytes of a tensor of integers or bools; none for floats.
rt_held tune_held(const DLTensor *t, const tg_actual *a);
/// Hashes such a text for tg_variant.device; "any" is 0.
uint32_t tune_device_hash(Ctx *ctx, const char *text, bool cpu);
/// Returns the key by which processes with the same store claim a search of this request. Searches
/// in the background have another key than those for which launches wait. False: results are not
/// stored.
bool tune_claim_key(Ctx *ctx, const Request *r, int device, bool background, StoreKey *out);
/// Finds the result of an earlier search of the same shape, with these or older sources. *source
/// becomes the request's own hash. False: none.
bool tune_earlier(Ctx *ctx, const Request *r, int device, TuneResult *out, uint64_t *source);
/// Turns the result of another shape in the bucket into one for this shape (tune_bucket.c). False:
/// nothing can be inferred.
bool tune_bucket(Ctx *ctx, const Request *r, TuneResult *result);
/// Stores the measurements of a stopped search, for tune_earlier only.
void tune_keep_part(Ctx *ctx, const Request *r, int device, const TuneResult *result);
/// The winner on another machine, or on this one with another driver or compiler.
typedef struct TuneSibling {
    uint64_t machine; // hash of all parts that distinguish machines
    const char *device, *config;
} TuneSibling;
enum { TUNE_SIBLINGS = 8 };
typedef struct TuneSiblings {
    int n;
    const TuneSibling *at; // the latest search first
} TuneSiblings;
/// Gets the winners for this kernel and bucket on other machines of the same maker, whatever their
/// sources. They tell what to try first, not what is fastest here.
void tune_siblings(Ctx *ctx, const Request *r, int device, TuneSiblings *out);
/// Write and read such a list. False: malformed.
Bytes tune_write_siblings(Ctx *ctx, const TuneSiblings *s);
bool tune_read_siblings(Ctx *ctx, Bytes in, TuneSiblings *out);
/// Stores a search's result, for tune_find, tune_earlier, and on other machines tune_siblings.
void tune_keep(Ctx *ctx, const Request *r, int device, const TuneResult *result);

#endif
