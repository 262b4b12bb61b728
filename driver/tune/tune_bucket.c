// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Infers a setting for one shape from the result of another shape in its bucket.
//
// The other shape was measured; this shape is new. The winner of the other shape is not simply
// copied, because it may waste most of its last tiles in this shape. The expected time of a setting
// for this shape is the model's time for this shape, times the model's error for the other shape.
// If the setting was not measured for the other shape, the mean error of the most similar measured
// settings is used. The candidates are the fastest settings of the other shape that beat its
// standard setting. The one with the least expected time is taken, or the standard setting if no
// candidate gains enough.
#include "driver/tune/tune_search.h"
#include "driver/tune/tune_store.h"
#include "driver/tune/tuned_file.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#define GAIN 0.95 // fraction of the standard setting's seconds

typedef struct Near {
    const Request *r;
    const TuneResult *there;
    int taken;            // index of its trial; -1: the standard setting
    const char *standard; // in its own context
} Near;

/// Returns the model's error as a factor; 0: unknown.
static double error_of(const TuneTrial *t) {
    return t->seconds > 0 && t->predicted > 0 ? t->seconds / t->predicted : 0;
}

/// Returns the model's error for the candidate if it was measured for the other shape, or else the
/// mean error of the measured settings that differ from it in the fewest values.
static double error_near(Ctx *ctx, const TuneResult *there, const TuneCandidate *c) {
    double sum = 0;
    int n = 0, least = INT_MAX;
    for (int i = 0; i < there->n_trials; i++) {
        TuneCandidate t = {0};
        NamedValue *set;
        double e = error_of(&there->trials[i]);
        if (e <= 0 || values_read(ctx, there->trials[i].config, &t.n_set, &set)) continue;
        t.set = set;
        int differences = count_differences(c, &t);
        if (differences < least) sum = n = 0;
        if (differences > least) continue;
        least = differences;
        sum += log(e);
        n++;
    }
    return n ? exp(sum / n) : 0;
}

/// Finds the candidate's trial if it was among the fastest for the other shape, and faster than the
/// standard setting; -1: it was not.
static int winning_trial(const TuneResult *there, const char *config) {
    for (int i = 0; i < there->n_trials; i++) {
        const TuneTrial *t = &there->trials[i];
        bool won = t->verdict == TUNE_WON || t->verdict == TUNE_TIE;
        bool gains = there->standard <= 0 || t->seconds < there->standard;
        if (won && gains && error_of(t) > 0 && strcmp(t->config, config) == 0) return i;
    }
    return -1;
}

static void choose_near_setting(Ctx *ctx, void *arg) {
    Near *n = arg;
    TuneSpace space;
    if (!tune_space(ctx, n->r, &space) || !space.n) return;
    const TuneCandidate *standard = &space.at[0];
    double least = GAIN * standard->predicted * error_near(ctx, n->there, standard);
    n->standard = standard->config;
    for (int i = 1; i < space.n; i++) {
        const TuneCandidate *c = &space.at[i];
        int t = c->why || c->predicted <= 0 ? -1 : winning_trial(n->there, c->config);
        double seconds = t < 0 ? least : c->predicted * error_of(&n->there->trials[t]);
        if (seconds >= least) continue;
        n->taken = t;
        least = seconds;
    }
}

bool tune_bucket(Ctx *ctx, const Request *r, TuneResult *result) {
    Near n = {.r = r, .there = result, .taken = -1};
    result->near = true;
    if (!result->n_trials) return true; // only the winner is known
    Ctx *own = ctx_create(NULL);
    bool chosen = own && ctx_protect(own, choose_near_setting, &n) == CTX_OK && n.standard;
    if (chosen && n.taken >= 0) {
        result->config = result->trials[n.taken].config;
        result->seconds = result->trials[n.taken].seconds;
    } else if (chosen) {
        result->config = ctx_format(ctx, "%s", n.standard);
        result->seconds = result->standard;
    }
    if (own) ctx_destroy(own);
    return chosen;
}
