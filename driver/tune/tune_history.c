// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reuses the measurements of an earlier search of the same shape. A setting is not measured again
// if the sources are the same, or if they have changed but its code is the same, byte for byte. The
// exception: settings that were as fast as the best one are measured again, and first.
#include "driver/tune/tune_search.h"
#include "driver/tune/tune_store.h"

#include <string.h>

#define LARGER 1.05 // a budget larger by this factor makes a further search worthwhile

void history_load(Search *s) {
    uint64_t source;
    if (s->o.again || s->o.forget) return;
    s->earlier.known = tune_earlier(s->ctx, s->r, s->o.device, &s->earlier.result, &source) &&
                       s->earlier.result.standard > 0;
    s->earlier.same_source = s->earlier.known && s->earlier.result.source == source;
}

bool history_knows(const Search *s, TuneResult *out) {
    bool left = false;
    if (s->o.again) return false;
    if (!s->o.further)
        return tune_find(s->ctx, s->r, s->o.device, out) &&
               !(out->near && s->o.mode == TUNE_BACKGROUND);
    for (int i = 0; i < s->earlier.result.n_trials; i++)
        left |= s->earlier.result.trials[i].verdict == TUNE_NOT_REACHED;
    if (!s->earlier.same_source || (left && s->o.budget > LARGER * s->earlier.result.budget))
        return false;
    *out = s->earlier.result;
    return out->known = true;
}

static const TuneTrial *earlier_trial(const Search *s, const char *config) {
    for (int i = 0; i < s->earlier.result.n_trials; i++)
        if (strcmp(s->earlier.result.trials[i].config, config) == 0)
            return &s->earlier.result.trials[i];
    return NULL;
}

/// Takes over a setting's earlier verdict. False: it must be measured again, or for the first time.
static bool take_earlier_trial(Search *s, int id, const TuneTrial *trial) {
    static const char same[] = "the same code as ";
    Runner *u = &s->runners[id];
    bool close = trial->verdict == TUNE_TIE || trial->verdict == TUNE_WON;
    bool joined = trial->why && strncmp(trial->why, same, sizeof same - 1) == 0;
    if (id == 0 || trial->verdict <= TUNE_NOT_REACHED || (joined && !s->earlier.same_source))
        return false;
    TuneTrial own = u->trial;
    u->trial = *trial;
    u->trial.config = own.config;
    u->trial.predicted = own.predicted;
    u->trial.sibling = own.sibling;
    u->trial.earlier = true;
    u->before = trial->seconds > 0 ? trial->seconds : 0;
    u->same = joined;
    s->best.measured += u->before > 0;
    if (close && !joined) {
        u->trial.verdict = TUNE_TIE;
        return false;
    }
    u->state = DONE;
    return true;
}

void history_list(Search *s) {
    for (int i = 1; i < s->space.n && s->earlier.same_source; i++) {
        const TuneTrial *trial = earlier_trial(s, s->space.at[i].config);
        if (trial && s->runners[i].state == WAITING) take_earlier_trial(s, i, trial);
    }
}

bool history_has_code(Search *s, int id) {
    const TuneTrial *trial = s->earlier.known && !s->earlier.same_source
                                 ? earlier_trial(s, s->space.at[id].config)
                                 : NULL;
    return trial && trial->code && trial->code == s->runners[id].trial.code &&
           take_earlier_trial(s, id, trial);
}

double history_seconds(const Search *s, int id) {
    double now = s->runners[id].before > 0 ? expect_known(s, 0) : 0;
    return now > 0 ? s->runners[id].before * now / s->earlier.result.standard
                   : s->runners[id].before;
}
