// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports of tuning for people: lines on the terminal, a page, a JSON line for each trial.
#ifndef TOOLS_TEGULA_TUNE_TUNE_H
#define TOOLS_TEGULA_TUNE_TUNE_H

#include "driver/tune/tune.h"

/// One search of a command.
typedef struct Tuning {
    const char *title; // "matmul<f16> M=512 N=512 K=512"
    TuneResult result;
    bool known; // from a search before
} Tuning;

struct Job;
/// What a launch of the job asks for, and its tensors, one a parameter: the same words as those of
/// a program, so that either finds what was kept for the other. False where shapes are not known.
bool job_request(struct Job *job, Request *out, const DLTensor ***tensors);

/// It runs code on a machine, and does not print or simulate it.
bool job_measures(const struct Job *job);
typedef enum Decision { NOT_ASKED, BY_MODEL, BY_TUNING, UNKNOWN } Decision;
/// job_elaborate with the setting that a launch would take, and where that comes from. With
/// TG_TUNE=off nothing is looked at; `launches`: with TG_TUNE=block or exhaustive what is not known
/// is searched for; with strict it is an error. False, reported, where that says something else, or
/// after errors.
bool job_elaborate_tuned(struct Job *job, bool launches, Decision *choice, TuneResult *out);

/* ---- tune_now.c ------------------------------------------------------------------------------ */

/// How far a search is: a line on the terminal that errors go to, where they go to one.
typedef struct TuneLine {
    Ctx *ctx;
    const char *title;
} TuneLine;
void tune_line_show(void *line, const TuneProgress *p);
void tune_line_end(void);
/// GPUs of ranks, one after the other; where there are fewer, they share them.
const int *job_rank_devices(struct Job *job);
/// Searches as a launch would. False, with a warning: nothing was found.
bool job_tune_now(struct Job *job, TuneMode mode, const Request *r, const DLTensor **tensors,
                  TuneResult *out);

/// How the trials ended: "2 as fast, 31 slower, 1 wrong result, 480 pruned".
const char *tune_counts(Ctx *ctx, const TuneResult *r);
/// Trials that were measured, the fastest first, then the others in their order.
const TuneTrial **tune_sorted(Ctx *ctx, const TuneResult *r, int *n_measured);
/// "1.27 times as fast as the default", "the default is best"
const char *tune_gain(Ctx *ctx, const TuneResult *r);
/// " (sibling: it won on NVIDIA H100)"; "" of a candidate of this machine's model.
const char *tune_origin(Ctx *ctx, const TuneTrial *t);

/// Adds the report of one search: the winner, then the `most` best trials as a table, then those
/// that ended badly.
void tune_text(Text *t, const Tuning *tuning, int most);
/// Likewise with all trials: the measured ones, then the others with the reason.
void tune_text_all(Text *t, const Tuning *tuning);
/// Adds a line of JSON for each trial.
void tune_lines(Text *t, const Tuning *tuning);
/// A page of HTML that needs no other file and no script.
const char *tune_page(Ctx *ctx, int n, const Tuning *tunings);

#endif
