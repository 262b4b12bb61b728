// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predicts the time of a candidate from the model and the measurements:
//
//     the model's seconds for its setting
//     x the model's error for the nearest measured setting
//     x for each value of an axis, its measured effect (time with it / time without it)
#include "driver/tune/tune_search.h"

#include "passes/model.h"

#include <math.h>
#include <string.h>

/// Returns the number of values in which two settings differ, without axes.
static int candidate_distance(const Search *s, int a, int b) {
    const TuneCandidate *x = &s->space.at[a], *y = &s->space.at[b];
    int n = x->n_set - x->n_axes, m = y->n_set - y->n_axes, least = n < m ? n : m;
    int differ = n + m - 2 * least;
    for (int i = 0; i < least; i++) differ += x->set[i].value != y->set[i].value;
    return differ;
}

void expect_prepare(Search *s) {
    for (int i = 0; i < s->space.n; i++) {
        s->runners[i].base = -1;
        for (int k = 0; k < s->space.n && s->runners[i].base < 0; k++)
            if (!s->space.at[k].n_axes && s->space.at[k].setting == s->space.at[i].setting)
                s->runners[i].base = k;
    }
}

double expect_known(const Search *s, int id) {
    double seconds = rt_tournament_seconds(s->race.tournament, id);
    const Runner *u = &s->runners[id];
    return seconds > 0 ? seconds : u->glance > 0 ? u->glance : history_seconds(s, id);
}

/// Returns the model's error as a factor, for the nearest measured setting; on ties, the smallest
/// factor.
static double setting_ratio(const Search *s, int id) {
    int nearest = INT32_MAX;
    double ratio = 1;
    for (int i = 0; i < s->space.n; i++) {
        double seconds = expect_known(s, i), predicted = s->space.at[i].predicted;
        if (s->space.at[i].n_axes || seconds <= 0 || predicted <= 0) continue;
        int d = candidate_distance(s, id, i);
        if (d > nearest || (d == nearest && seconds / predicted >= ratio)) continue;
        nearest = d;
        ratio = seconds / predicted;
    }
    return nearest == s->space.at[0].n_set && nearest > 1 ? ratio * TUNE_UNRELATED : ratio;
}

static bool is_bad(const Search *s, int id) {
    const Runner *u = &s->runners[id];
    return u->state == DONE && u->trial.verdict >= TUNE_REFUSED && u->trial.verdict <= TUNE_WRONG;
}

/// Returns the best measured factor of an axis value, or `untried` if it was never measured.
static double axis_factor(const Search *s, const NamedValue *value, double untried) {
    double least = 0;
    for (int i = 0; i < s->space.n; i++) {
        const TuneCandidate *c = &s->space.at[i];
        int base = s->runners[i].base;
        if (c->n_axes != 1 || base < 0) continue;
        const NamedValue *own = &c->set[c->n_set - 1];
        if (own->value != value->value || strcmp(own->name, value->name) != 0) continue;
        double with = expect_known(s, i), without = expect_known(s, base);
        double factor = s->runners[i].same ? TUNE_IDLE
                        : is_bad(s, i)     ? TUNE_BAD
                        : without > 0      ? with / without
                                           : 0;
        if (factor > 0 && (least <= 0 || factor < least)) least = factor;
    }
    AxisId axis = axis_by_name(value->name);
    bool unknown = axis == AXIS_GRAIN || (s->exclusive && axis == AXIS_SPLIT);
    return least > 0 ? least : unknown ? TUNE_UNKNOWN : untried;
}

/// Returns the model's mean factor for each axis value of a candidate.
static double untried_factor(const Search *s, int id) {
    const TuneCandidate *c = &s->space.at[id];
    int base = s->runners[id].base;
    double without = base >= 0 ? s->space.at[base].predicted : 0;
    if (c->predicted <= 0 || without <= 0 || !c->n_axes) return TUNE_UNTRIED;
    return pow(c->predicted / without, 1.0 / c->n_axes);
}

double expect_seconds(const Search *s, int id) {
    const TuneCandidate *c = &s->space.at[id];
    int base = s->runners[id].base;
    if (s->runners[id].before > 0) return history_seconds(s, id);
    double predicted = base >= 0 ? s->space.at[base].predicted : c->predicted;
    double known = base >= 0 ? expect_known(s, base) : 0;
    double seconds = known > 0 ? known : predicted * setting_ratio(s, id);
    double untried = untried_factor(s, id);
    if (seconds <= 0) return 0;
    for (int i = c->n_set - c->n_axes; i < c->n_set; i++)
        seconds *= axis_factor(s, &c->set[i], untried);
    return seconds;
}
