// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a candidate is expected to take, from the model and from what was measured:
//
//     the model's seconds for its setting
//     x how wrong the model was about the nearest setting that was measured
//     x for each value of an axis, what that value did where it was measured with and without
#include "driver/tune/tune_search.h"

#include "passes/model.h"

#include <math.h>
#include <string.h>

/// In how many values two settings differ, axes apart.
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
    double seconds = rt_tournament_seconds(s->tournament, id);
    const Runner *u = &s->runners[id];
    return seconds > 0 ? seconds : u->glance > 0 ? u->glance : history_seconds(s, id);
}

/// How wrong the model was about the nearest settings; of equally near ones the least wrong counts.
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

/// What a value of an axis did at its best: the least factor of all that were measured; `untried`
/// where none was.
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
    bool unknown =
        strcmp(value->name, "grain") == 0 || (s->exclusive && strcmp(value->name, "split") == 0);
    return least > 0 ? least : unknown ? TUNE_UNKNOWN : untried;
}

/// What the model says of each value of an axis that a candidate has.
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
