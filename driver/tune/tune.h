// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning: finds the fastest setting of a kernel on this machine for given arguments. See
// docs/inside/tuning.md.
//
//     tune_request      helper processes (child_process.h) compile candidates (tune_space); one
//                       worker process checks them and times them in a tournament
//                       (runtime/tune/tournament.h); the winner is stored
//     tune_find         the stored result
//
// Candidates never run in the caller's process or on the caller's memory.
#ifndef DRIVER_TUNE_TUNE_H
#define DRIVER_TUNE_TUNE_H

#include "driver/jit.h"

#include <stdatomic.h>

typedef enum TuneMode {
    TUNE_OFF,
    TUNE_STRICT, // fail if no result is known
    TUNE_BLOCK,
    TUNE_BACKGROUND,
    TUNE_EXHAUSTIVE,
    TUNE_SAMPLE
} TuneMode;
/// Parses "off", "strict", "block", "background", "exhaustive", "sample". False: another text.
bool tune_mode_of(const char *text, TuneMode *out);
const char *tune_mode_name(TuneMode mode);

typedef enum TuneVerdict {
    TUNE_PRUNED,      // ruled out by the model, or by the resources of the target
    TUNE_NOT_REACHED, // the budget ended first
    TUNE_REFUSED,     // it does not compile
    TUNE_CRASHED,     // the compiler's process or the worker ended
    TUNE_HUNG,        // the compiler's process or the worker exceeded its time
    TUNE_FAILED,      // the launch failed
    TUNE_WRONG,       // the result is wrong
    TUNE_SLOWER,
    TUNE_TIE, // as fast as the winner, within the accuracy of measurement
    TUNE_WON,
    TUNE_VERDICTS
} TuneVerdict;
const char *tune_verdict_name(TuneVerdict v);

/// One candidate's outcome, for reports.
typedef struct TuneTrial {
    const char *config; // "BM=64 BN=128 warps=8", in the form of --set
    const char *why;    // reason of the verdict, one line: "shared memory: 262144 of 232448 bytes"
    TuneVerdict verdict;
    bool standard;             // the setting without tuning
    double predicted;          // seconds by the model; negative: none
    double compiled;           // seconds of compilation; negative: not compiled
    double seconds, low, high; // median as deployed and 95 % interval; negative: unknown
    int launches, registers, spills, shared_bytes; // -1: not known
    uint64_t code;                                 // hash of the code; 0: none
    bool earlier; // measured by an earlier search, scaled by the ratio of the default's times
    const char *sibling; // the other machine whose winner it was, so it was tried early; NULL: none
} TuneTrial;

typedef struct TuneResult {
    const char *kernel, *target, *device;
    const char *shape;  // "M=4096 N=4096 K=4096"
    const char *config; // the winner
    double seconds;     // of the winner
    double standard;    // of the setting without tuning
    double roof;        // lower bound by the model
    double spent, budget;
    double flops, bytes;
    const char *judged;    // how the interpreter took part in the checks, or why not
    bool known;            // found before, or by another process meanwhile
    bool interrupted;      // ended by `stop`: the best measured so far
    bool near;             // `config` is inferred from another shape's times
    bool busy;             // another process searches; BACKGROUND does not wait for it
    uint64_t source;       // hash of the sources and of all other inputs of code
    int n_trials, n_space; // n_space: number of settings, with pruned ones
    const TuneTrial *trials;
} TuneResult;

/// The progress of a search.
typedef struct TuneProgress {
    bool waits; // for another process with the same search; then only spent and budget are set
    int compiled, measured, candidates;
    double best, standard, spent, budget; // seconds; best and standard 0: not yet known
    const char *config;                   // of the best
} TuneProgress;

typedef struct TuneOptions {
    TuneMode mode;      // BLOCK, EXHAUSTIVE, SAMPLE; BACKGROUND runs at low priority
    double budget;      // seconds; 0: TG_TUNE_BUDGET_MS, or the mode's default
    int helpers;        // number of compiling processes; 0: by the number of cores
    int candidates;     // limit of compiled candidates; 0: by the mode
    int device;         // number of a GPU
    const int *devices; // of all ranks; NULL: the CPU, or no ranks
    uint64_t seed;      // for random data, and for a sample
    bool again;         // ignore stored results and measure everything
    bool further;       // accept a stored result only for this shape and from at least this budget
    int n_among;        // 0: try all candidates; else these and the default
    const char *const *among; // in the form of a candidate's `config`
    bool forget;              // do not store the result
    /// The tensors of the launch, one for each parameter, or NULL. They are in the memory of
    /// `device`. Tensors of integers and bools are copied, since they may be indices. Tensors that
    /// are one view share a buffer in the worker. Other tensors are used only to find such views.
    const DLTensor *const *tensors;
    void *stream;          // orders the copies
    const Bytes *contents; // of integers and bools, whole or in samples; NULL: read them
    void (*progress)(void *user, const TuneProgress *p); // called on the calling thread; or NULL
    void *user;
    const atomic_bool *stop; // when set, the search ends soon with the best so far; or NULL
} TuneOptions;

/// Tunes one kernel for the arguments of a request, whose `set` pins values. If several processes
/// with one store want the same search, one of them searches. The others wait within their budgets
/// and take its result. Results are in the arena of ctx. Returns TG_OK with the best so far when
/// the budget ends. Fails if not even the standard setting works: *out then has the known part, and
/// the message is in ctx's diagnostics or tg_last_error().
tg_status tune_request(Ctx *ctx, const Request *r, const TuneOptions *options, TuneResult *out);

/// Describes the difference between the standard setting's result and the interpreter's, after a
/// search. NULL: none was found.
const char *tune_wrong_default(const TuneResult *r);
/// The end of that description. The interpreter runs with the smallest tiles, so either the kernel
/// or Tegula may be wrong.
#define WRONG_DEFAULT                                                                              \
    "either the kernel's result depends on its tune values, which is a mistake in the kernel, or " \
    "it is one in Tegula: `tegula run --target interp --set ...` tells which"

/// Returns why a search in the background must not run: it would take more than a quarter of the
/// free memory. NULL: it may run.
const char *tune_too_large(Ctx *ctx, const Request *r, int device);
/// Returns the free bytes on a device, or for processes (-1). Negative: unknown.
double tune_free_bytes(int device);

/// Finds the stored result for this request's shape; or else infers one from the times of another
/// shape in its bucket and the model. False: none. n_trials 0: only the winner is known.
bool tune_find(Ctx *ctx, const Request *r, int device, TuneResult *out);

/// Gets a tensor's address and, for integers and bools, copies the bytes from its lowest element to
/// its highest. False: the copy failed.
bool tune_contents(Ctx *ctx, const DLTensor *t, const tg_actual *a, void *stream, Bytes *out,
                   int64_t *address);
/// Sets a request's values from a result. False: it has none, or they are invalid.
bool tune_set(Ctx *ctx, const char *config, Request *r);

/* ---- tune_space.c: candidates ---------------------------------------------------------------- */

typedef struct TuneCandidate {
    const char *config; // of all values: those of `set` and of schedule axes
    int n_set;
    const NamedValue *set; // values of the setting, then n_axes values of axes
    int n_axes, setting;   // setting: an index in TuneSpace.settings
    double predicted;      // seconds; negative: none
    const char *why;       // the reason for pruning; NULL: it is a candidate
    const char *sibling;   // TuneTrial.sibling
    bool standard;
} TuneCandidate;

typedef struct TuneSpace {
    int n, n_all;      // listed candidates, with pruned ones; size of the whole space
    TuneCandidate *at; // the standard one first, then by the model's prediction
    int n_settings;    // settings of the kernel's own values
    const struct RankedSetting *settings;
    const char *shape;
    double roof, flops, bytes;
} TuneSpace;

/// Lists the settings that a request leaves open, combined with axes of its target's schedule.
/// False: errors were diagnosed.
bool tune_space(Ctx *ctx, const Request *r, TuneSpace *out);
/// Draws a random sample of all allowed settings, whatever the model predicts. Each setting gets
/// values of some axes. The standard setting comes first, the others are unordered. The seed
/// decides the sample.
bool tune_sample(Ctx *ctx, const Request *r, uint64_t seed, TuneSpace *out);
/// Adds a candidate by its text from a report. False: the kernel does not allow it.
bool tune_space_add(Ctx *ctx, TuneSpace *space, const char *config);
/// Returns the kernel's dims for the arguments: "M=4096 N=4096". Needs build_elaborate.
const char *tune_shape(const Build *b);
/// Lists only the candidates, for an instance whose `set` pins values. Needs build_target.
void tune_candidates(Build *b, TuneSpace *out);

#endif
