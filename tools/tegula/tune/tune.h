// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports of tuning: lines on the terminal, a page, a JSON line for each trial.
#ifndef TOOLS_TEGULA_TUNE_TUNE_H
#define TOOLS_TEGULA_TUNE_TUNE_H

#include "driver/tune/tune.h"

/// One search of a command.
typedef struct Tuning {
    const char *title; // "matmul<f16> M=512 N=512 K=512"
    TuneResult result;
    bool known; // found by an earlier search
} Tuning;

struct Job;
/// Makes the request of a launch of the job, and its tensors, one for each parameter. Programs make
/// equal requests, so each finds the other's stored results. False: shapes are unknown.
bool job_request(struct Job *job, Request *out, const DLTensor ***tensors);

/// Whether the target is a machine that runs code, rather than prints or simulates it.
bool job_measures(const struct Job *job);
typedef enum Decision { NOT_ASKED, BY_MODEL, BY_TUNING, UNKNOWN } Decision;
/// Runs job_elaborate with the setting that a launch would use, and returns its origin. TG_TUNE=off
/// ignores stored results. With `launches`, TG_TUNE=block or exhaustive searches if no setting is
/// stored, and strict makes this an error. False (reported) after errors.
bool job_elaborate_tuned(struct Job *job, bool launches, Decision *choice, TuneResult *out);

/* ---- tune_now.c ------------------------------------------------------------------------------ */

/// The progress of a search: a line on the terminal of standard error, if it is one.
typedef struct TuneLine {
    Ctx *ctx;
    const char *title;
} TuneLine;
void tune_line_show(void *line, const TuneProgress *p);
void tune_line_end(void);
/// Returns the ranks' GPUs, in order. If there are fewer, ranks share them.
const int *job_rank_devices(struct Job *job);
/// Searches as a launch would. False, with a warning: no setting was found.
bool job_tune_now(struct Job *job, TuneMode mode, const Request *r, const DLTensor **tensors,
                  TuneResult *out);

/// Counts the trials' results: "2 as fast, 31 slower, 1 wrong result, 480 pruned".
const char *tune_counts(Ctx *ctx, const TuneResult *r);
/// Sorts the trials: measured ones with the fastest first, then the others in their order.
const TuneTrial **tune_sorted(Ctx *ctx, const TuneResult *r, int *n_measured);
/// "1.27 times as fast as the default", "the default is best"
const char *tune_gain(Ctx *ctx, const TuneResult *r);
/// " (sibling: it won on NVIDIA H100)"; "" for a candidate of this machine's model.
const char *tune_origin(Ctx *ctx, const TuneTrial *t);

/// Adds the report of one search: the winner, a table of the `most` best trials, and the trials
/// that ended badly.
void tune_text(Text *t, const Tuning *tuning, int most);
/// Adds the report with all trials: measured ones, then the others with the reason.
void tune_text_all(Text *t, const Tuning *tuning);
/// Adds a line of JSON for each trial.
void tune_lines(Text *t, const Tuning *tuning);
/// Makes an HTML page that needs no other file and no script.
const char *tune_page(Ctx *ctx, int n, const Tuning *tunings);

#endif
