// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning: which setting of a kernel is fastest on this machine for the arguments at hand. See
// docs/inside/tuning.md.
//
//     tune_request      candidates (tune_space) are compiled by helper processes (child_process.h),
//     checked
//                       and timed in one worker process, raced (runtime/tune/tournament.h); the
//                       winner is kept
//     tune_find         what the store has of it
//
// Nothing of a candidate runs in the caller's process, nor on the caller's memory.
#ifndef DRIVER_TUNE_TUNE_H
#define DRIVER_TUNE_TUNE_H

#include "driver/jit.h"

#include <stdatomic.h>

typedef enum TuneMode {
    TUNE_OFF,
    TUNE_STRICT, // what is not known is an error
    TUNE_BLOCK,
    TUNE_BACKGROUND,
    TUNE_EXHAUSTIVE,
    TUNE_SAMPLE
} TuneMode;
/// "off", "strict", "block", "background", "exhaustive", "sample". False: none of them.
bool tune_mode_of(const char *text, TuneMode *out);
const char *tune_mode_name(TuneMode mode);

typedef enum TuneVerdict {
    TUNE_PRUNED,      // the model, or the resources of the target, ruled it out
    TUNE_NOT_REACHED, // the budget ended before
    TUNE_REFUSED,     // it does not compile
    TUNE_CRASHED,     // the compiler's process or the worker ended
    TUNE_HUNG,        // likewise, after its time
    TUNE_FAILED,      // the launch failed
    TUNE_WRONG,       // the result is wrong
    TUNE_SLOWER,
    TUNE_TIE, // as fast as the winner, as far as can be measured
    TUNE_WON,
    TUNE_VERDICTS
} TuneVerdict;
const char *tune_verdict_name(TuneVerdict v);

/// One candidate's story, as reports tell it.
typedef struct TuneTrial {
    const char *config; // "BM=64 BN=128 warps=8", as --set takes it
    const char *why;    // of the verdict, one line: "shared memory: 262144 of 232448 bytes"
    TuneVerdict verdict;
    bool standard;             // the configuration without tuning
    double predicted;          // seconds by the model; negative: none
    double compiled;           // seconds it took; negative: it was not
    double seconds, low, high; // median of a launch as deployed and its 95 % interval; negative:
                               // not measured
    int launches, registers, spills, shared_bytes; // -1: not known
    uint64_t code;                                 // hash of the code; 0: there is none
    bool earlier; // an earlier search measured it, in which the default was as fast as in this one
    const char *sibling; // the machine on which it won, so that it came first; NULL: the model's
} TuneTrial;

typedef struct TuneResult {
    const char *kernel, *target, *device;
    const char *shape;  // "M=4096 N=4096 K=4096"
    const char *config; // the winner
    double seconds;     // of the winner
    double standard;    // of the configuration without tuning
    double roof;        // modelled
    double spent, budget;
    double flops, bytes;
    const char *judged;    // whether the interpreter was asked what is right, and why not
    bool known;            // it was found before, or by another process meanwhile
    bool interrupted;      // by `stop`: the best of what was measured till then
    bool near;             // it is of another shape: `config` is what that one's times say of this
    bool busy;             // others search for it; of BACKGROUND, which does not wait for them
    uint64_t source;       // hash of the sources, and of all that makes code of them
    int n_trials, n_space; // space: settings that there are, pruned ones included
    const TuneTrial *trials;
} TuneResult;

/// Where a search stands.
typedef struct TuneProgress {
    bool waits; // for another process that tunes the same; all but spent and budget is 0
    int compiled, measured, candidates;
    double best, standard, spent, budget; // seconds; best, standard 0: not yet
    const char *config;                   // of the best
} TuneProgress;

typedef struct TuneOptions {
    TuneMode mode;            // BLOCK, EXHAUSTIVE, SAMPLE; BACKGROUND: at low priority
    double budget;            // seconds; 0: TG_TUNE_BUDGET_MS or a default by the mode
    int helpers;              // processes that compile; 0: by the cores there are
    int candidates;           // the most that are compiled; 0: by the mode
    int device;               // of a GPU
    const int *devices;       // of all ranks; NULL: of the CPU, or there are none
    uint64_t seed;            // of random data, and of a sample
    bool again;               // tune even if the store has a result, and measure all of it
    bool further;             // only this shape's result is one, and of no smaller budget
    int n_among;              // 0: all candidates are tried, else these beside the default
    const char *const *among; // as `config` of candidates
    bool forget;              // do not keep the result
    /// The tensors of the launch, one a parameter, or NULL: those of integers and bools are copied,
    /// since they may be indices; those that are one view here are one buffer there. Others are
    /// only looked at for that. In the memory of `device`.
    const DLTensor *const *tensors;
    void *stream;          // in whose order they are copied
    const Bytes *contents; // of those integers and bools, or of pieces of them; NULL: they are read
    void (*progress)(void *user, const TuneProgress *p); // from the calling thread, or NULL
    void *user;
    const atomic_bool *stop; // set: end soon, with the best so far; or NULL
} TuneOptions;

/// Tunes one kernel for the arguments of a request, whose `set` pins what is not to be tuned. Of
/// processes that share a store one does so at a time: others wait, and take what it finds, as far
/// as their budgets go. In the arena of ctx. TG_OK with the best so far when the budget ends; a
/// failure, with *out as far as it is known and a message in ctx's diagnostics or tg_last_error(),
/// where not even the standard configuration works.
tg_status tune_request(Ctx *ctx, const Request *r, const TuneOptions *options, TuneResult *out);

/// Of a search in which the standard configuration computed something else than the interpreter:
/// what. NULL: it did not.
const char *tune_wrong_default(const TuneResult *r);
/// How such a message ends: the interpreter took the smallest tiles, so it may be either's.
#define WRONG_DEFAULT                                                                              \
    "either the kernel's result depends on its tune values, which is a mistake in the kernel, or " \
    "it is one in Tegula: `tegula run --target interp --set ...` tells which"

/// Why there is no room for a search in the background: it takes no more than a quarter of the
/// memory that is free. NULL: there is.
const char *tune_too_large(Ctx *ctx, const Request *r, int device);
/// Bytes that are free on a device, or for processes (-1). Negative: nobody says.
double tune_free_bytes(int device);

/// What the store says for this request: what was found for its shape, or else what the times of
/// another shape of its bucket and the model say; false: nothing. n_trials is 0 where only the
/// winner is known.
bool tune_find(Ctx *ctx, const Request *r, int device, TuneResult *out);

/// What a search needs of a tensor: its address and, of integers and bools, the bytes from its
/// lowest element to its highest. False: they cannot be copied.
bool tune_contents(Ctx *ctx, const DLTensor *t, const tg_actual *a, void *stream, Bytes *out,
                   int64_t *address);
/// Makes the values of a result those of a request. False: there are none, or they are no values.
bool tune_set(Ctx *ctx, const char *config, Request *r);

/* ---- tune_space.c: candidates ---------------------------------------------------------------- */

typedef struct TuneCandidate {
    const char *config; // of all values, those of `set` and schedule axes
    int n_set;
    const NamedValue *set; // its setting's, then those of axes
    int n_axes, setting;   // of these; candidates of one setting have one number
    double predicted;      // seconds; negative: none
    const char *why;       // it is pruned; NULL: it is a candidate
    const char *sibling;   // TuneTrial.sibling
    bool standard;
} TuneCandidate;

typedef struct TuneSpace {
    int n, n_all;      // candidates and pruned ones that are listed; all that there are
    TuneCandidate *at; // the standard one first, then by what the model predicts
    int n_settings;    // of the kernel's values alone, as it allows them
    const struct RankedSetting *settings;
    const char *shape;
    double roof, flops, bytes;
} TuneSpace;

/// The settings that a request leaves open, times the axes of its target's schedule. False, after
/// errors, diagnosed.
bool tune_space(Ctx *ctx, const Request *r, TuneSpace *out);
/// A random sample of all that is allowed, whatever the model says of it: settings, each with
/// values of some axes, in no order but for the standard one, which comes first. The seed decides
/// which.
bool tune_sample(Ctx *ctx, const Request *r, uint64_t seed, TuneSpace *out);
/// One more candidate, of which a report has the text. False: it is none that the kernel allows.
bool tune_space_add(Ctx *ctx, TuneSpace *space, const char *config);
/// "M=4096 N=4096": the dims of the kernel, as the arguments have them; after build_elaborate.
const char *tune_shape(const Build *b);
/// The candidates alone, of an instance whose `set` pins values, after build_target.
void tune_candidates(Build *b, TuneSpace *out);

#endif
