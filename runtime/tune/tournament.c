// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tournaments. A *time* here is one number for a candidate in a heat: the median of its launches,
// divided by the *level* of the heat. The level is the slowdown of the default relative to its
// first heats, and the default is in each heat for that purpose. The leader would be a biased
// reference: a leader was lucky and regresses to the mean, so new candidates would look too fast in
// every heat. Only medians and counts are used, so no normal distribution is assumed.
//
// A *hiccup* is a turn in which all launches are slow, for example because a core was taken away.
// If the default has one, candidates with earlier measurements give the level of the heat. A single
// heat neither removes a candidate nor makes it win over the default.
#include "runtime/tune/tournament.h"

#include <stdint.h>
#include <string.h>

enum {
    HEAT = 16,      // the most candidates of a heat
    WINDOW = 128,   // kept times of a candidate; heats of a runoff
    FIRST_RUNG = 3, // times before the first halving
    LAST_RUNG = 24, // the most times that a halving waits for
    FINALISTS = 4,  // beside the default
    SOUND = 10,     // times from which an interval is meaningful
    SAMPLES = 64,   // of one turn
    RANKS = 1024,   // the largest sum
};

static const double TIE = 0.003, TURN_SECONDS = 0.002;
static const double MARGIN = 1.3; // safety factor on the predicted need of time
static const double FAR = 1.0;    // a default slower by this part is useless
static const double RUNOFF_SHARE = 0.1, RESTLESS = 1.2;
static const double HICCUP = 2; // a turn this many times slower than usual

typedef struct RaceRunner {
    bool there, alive, beaten;
    int n, launches;        // valid times; all launches
    double least, most;     // the shortest and longest launch, seconds
    double predicted;       // seconds of a launch
    double cost, last_cost; // of a turn on the caller's clock: the lesser of two; the last one
    double middle;          // the median of the times
    double times[WINDOW];   // time i is at i % WINDOW
    uint32_t heats[WINDOW]; // the heat of each time
} RaceRunner;

struct rt_tournament {
    rt_tournament_options options;
    bool begun, closed, runoff, over, turned; // turned: a turn is in progress
    int rung;                                 // times that each candidate needs before half of them
                                              // leave
    uint32_t heat, runoff_from;               // the current heat; the first heat of the runoff
    int n_members, at;                        // members of the heat; the member whose turn it is
    int pivot;                                // the leader at the start of the heat, or -1
    double unit;             // the unit of times: the least seconds of the default's first
                             // heats, or 0
    int n_defaults;          // heats of the default
    double usual;            // the median of its seconds there
    double defaults[WINDOW]; // its seconds; heat i is at i % WINDOW
    int members[HEAT];
    double seconds[HEAT]; // 0: not measured
    double began, turn_began, runoff_began;
    RaceRunner runners[];
};

size_t rt_tournament_bytes(int capacity) {
    return sizeof(rt_tournament) + sizeof(RaceRunner) * (size_t)capacity;
}

rt_tournament *rt_tournament_start(void *memory, const rt_tournament_options *options) {
    rt_tournament *r = memory;
    memset(r, 0, rt_tournament_bytes(options->capacity));
    r->options = *options;
    if (!(r->options.close > 0)) r->options.close = RT_TOURNAMENT_CLOSE;
    r->rung = FIRST_RUNG;
    r->pivot = -1;
    return r;
}

static bool is_id(const rt_tournament *r, int id) {
    return id >= 0 && id < r->options.capacity;
}

bool rt_tournament_add(rt_tournament *r, int id, double predicted) {
    if (!is_id(r, id) || r->runners[id].there || r->runoff || r->over) return false;
    r->runners[id] = (RaceRunner){.there = true, .alive = true, .predicted = predicted};
    return true;
}

void rt_tournament_close(rt_tournament *r) {
    r->closed = true;
}

/* ---- statistics ---------------------------------------------------------------------------- */

static void sort_doubles(double *x, int n) {
    for (int i = 1; i < n; i++) {
        double v = x[i];
        int j = i;
        for (; j > 0 && x[j - 1] > v; j--) x[j] = x[j - 1];
        x[j] = v;
    }
}

/// Sorts x in place.
static double sorted_median(double *x, int n) {
    sort_doubles(x, n);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

static int kept_times(const RaceRunner *c) {
    return c->n < WINDOW ? c->n : WINDOW;
}

/// The ratios of a's times to b's in their common heats, in ascending order.
static int heat_ratios(const RaceRunner *a, const RaceRunner *b, double out[WINDOW]) {
    int n = 0;
    for (int i = a->n - kept_times(a), j = b->n - kept_times(b); i < a->n && j < b->n;) {
        int64_t way = (int64_t)a->heats[i % WINDOW] - (int64_t)b->heats[j % WINDOW];
        if (!way) out[n++] = a->times[i % WINDOW] / b->times[j % WINDOW];
        i += way <= 0;
        j += way >= 0;
    }
    sort_doubles(out, n);
    return n;
}

/// The most numbers, of n, that may lie outside an interval of the median at each end, so that the
/// median is below it (or above it) with probability `tail`: a sum of binomials. 0: no such
/// interval exists.
static int count_outside(int n, double tail) {
    double term = 1, sum = 0;
    for (int i = 0; i < n; i++) term /= 2;
    for (int k = 0; k < n; k++) {
        sum += term;
        if (sum > tail) return k;
        term *= (double)(n - k) / (k + 1);
    }
    return 0;
}

/// The distance of a ratio from 1, symmetric in both directions.
static double distance_from_one(double ratio) {
    return ratio < 1 ? 1 / ratio - 1 : ratio - 1;
}

/// Suppose that each of n ratios is above or below 1 with equal chance. Returns the probability
/// that they lie below 1 no more than these do (Wilcoxon, Individual comparisons by ranking
/// methods, 1945). The test uses the ranks of distances from 1, so hiccups have little weight. x is
/// in ascending order.
static double chance_of_ranks(const double *x, int n) {
    double chances[RANKS + 1], sum = 0;
    int below = 0;
    for (; n > 0 && x[n - 1] > HICCUP; n--) continue;
    for (; n > 0 && x[0] < 1 / HICCUP; n--) x++;
    for (int i = 0; i < n && x[i] < 1; i++)
        for (int k = 0; k < n; k++) below += distance_from_one(x[k]) <= distance_from_one(x[i]);
    if (below > RANKS) return 1; // with so many ratios a sign test suffices
    memset(chances, 0, sizeof *chances * (size_t)(below + 1));
    chances[0] = 1;
    for (int rank = 1; rank <= n; rank++)
        for (int w = below; w >= 0; w--)
            chances[w] = (chances[w] + (w >= rank ? chances[w - rank] : 0)) / 2;
    for (int w = 0; w <= below; w++) sum += chances[w];
    return sum;
}

static const double ONE_IN_1000 = 0.001, ONE_IN_400 = 0.0025, ONE_IN_200 = 0.005, ONE_IN_40 = 0.025;

/// The least part by which a is slower than b, beyond chance; negative: it is not shown. With few
/// heats, a must have been slower in each, by more than the noise of a quiet machine. At the end
/// all heats but one suffice, since b may have had a hiccup, or the rank test decides.
static double surely_slower(const RaceRunner *a, const RaceRunner *b, bool at_the_end) {
    static const double early[SOUND] = {0, 1e9, 0.3, 0.12, 0.06, 0.03, 0.02, 0.01, 0.01, 0.01};
    static const double late[SOUND] = {0, 1e9, 0.15, 0.05, 0.03, 0.02, 0.015, 0.01, 0.005, 0.005};
    static const double but_one[SOUND + 1] = {0,   1e9,  1e9,  1e9,  0.15, 0.12,
                                              0.1, 0.05, 0.03, 0.02, 0.02};
    double x[WINDOW];
    int n = heat_ratios(a, b, x);
    if (n < 2) return -1;
    double all = n < SOUND ? x[0] - (at_the_end ? late : early)[n]
                           : x[count_outside(n, at_the_end ? ONE_IN_400 : ONE_IN_1000) - 1];
    double most = x[1] - but_one[n < SOUND ? n : SOUND];
    if (at_the_end && most > all) all = most;
    bool ranks = at_the_end && n >= SOUND && all <= 1 && chance_of_ranks(x, n) <= ONE_IN_400;
    return (ranks ? x[n / 2] : all) - 1;
}

/// The largest part by which a may be slower than b.
static double perhaps_slower(const RaceRunner *a, const RaceRunner *b) {
    double x[WINDOW];
    int n = heat_ratios(a, b, x);
    return n < SOUND ? 1 : x[n - count_outside(n, ONE_IN_200)] - 1;
}

/// The factor from a time to seconds on a usual day.
static double usual_day_scale(const rt_tournament *r) {
    return r->n_defaults ? r->usual / r->unit : 1;
}

/* ---- the order ----------------------------------------------------------------------------- */

static int find_leader(const rt_tournament *r) {
    int best = -1;
    for (int i = 0; i < r->options.capacity; i++) {
        const RaceRunner *c = &r->runners[i];
        if (!c->alive || !c->n) continue;
        if (best < 0 || c->middle < r->runners[best].middle) best = i;
    }
    return best;
}

static int count_alive(const rt_tournament *r) {
    int n = 0;
    for (int i = 0; i < r->options.capacity; i++) n += r->runners[i].alive;
    return n;
}

/// The first candidate as good as the leader: the default unless it is shown to be slower. The
/// default returns if the candidates that beat it have dropped out.
int rt_tournament_winner(const rt_tournament *r) {
    int best = find_leader(r);
    if (best < 0) return r->options.capacity && r->runners[0].alive ? 0 : -1;
    const RaceRunner *l = &r->runners[best];
    if (r->runners[0].beaten && r->unit < l->middle) return 0;
    for (int i = 0; i < best; i++) {
        const RaceRunner *c = &r->runners[i];
        if (!c->alive || !c->n) continue;
        if (i == 0 && surely_slower(c, l, true) <= 0) return i;
        if (c->middle <= l->middle * (1 + TIE)) return i;
    }
    return best;
}

/// With few heats the levels are unreliable, so the measured seconds are used.
static double as_measured(const RaceRunner *c, double seconds) {
    return seconds < c->least ? c->least : seconds > c->most ? c->most : seconds;
}

double rt_tournament_seconds(const rt_tournament *r, int id) {
    if (!is_id(r, id) || !r->runners[id].there) return 0;
    const RaceRunner *c = &r->runners[id];
    if (id == 0 && r->n_defaults > 0) return as_measured(c, r->usual);
    return c->n ? as_measured(c, c->middle * usual_day_scale(r)) : 0;
}

rt_tournament_figures rt_tournament_figures_of(const rt_tournament *r, int id) {
    if (!is_id(r, id) || !r->runners[id].there) return (rt_tournament_figures){0};
    const RaceRunner *c = &r->runners[id];
    double x[WINDOW];
    rt_tournament_figures f = {.launches = c->launches, .beaten = c->beaten};
    // The default's times are 1 by definition of the unit.
    bool unit = id == 0 && r->n_defaults > 0;
    int all = unit ? r->n_defaults : c->n, n = all < WINDOW ? all : WINDOW;
    if (!n) return f;
    double scale = unit ? 1 : usual_day_scale(r);
    memcpy(x, unit ? r->defaults : c->times, sizeof *x * (size_t)n);
    sort_doubles(x, n);
    f.seconds = rt_tournament_seconds(r, id);
    f.multiple = unit ? 1 : r->unit > 0 ? c->middle / r->unit : 0;
    int k = count_outside(n, ONE_IN_40);
    f.low = as_measured(c, x[k ? k - 1 : 0] * scale);
    f.high = as_measured(c, x[k ? n - k : n - 1] * scale);
    return f;
}

/* ---- heats --------------------------------------------------------------------------------- */

/// The order of measurement: candidates with fewer times first, then more promising ones.
static bool comes_before(const rt_tournament *r, int a, int b) {
    const RaceRunner *x = &r->runners[a], *y = &r->runners[b];
    if (x->n != y->n) return x->n < y->n;
    double p = x->n ? x->middle : x->predicted, q = y->n ? y->middle : y->predicted;
    return p != q ? p < q : a < b;
}

/// Inserts a member in that order, at place `from` or later.
static void enter_member(rt_tournament *r, int id, int from) {
    int at = r->n_members;
    if (at < HEAT)
        r->n_members++;
    else if (!comes_before(r, id, r->members[--at]))
        return;
    for (; at > from && comes_before(r, id, r->members[at - 1]); at--)
        r->members[at] = r->members[at - 1];
    r->members[at] = id;
}

/// A leader alone would not show the speed of the machine.
static void add_companion(rt_tournament *r, int alone) {
    int best = -1;
    for (int i = 0; i < r->options.capacity; i++) {
        const RaceRunner *c = &r->runners[i];
        if (i == alone || !c->alive || !c->n) continue;
        if (best < 0 || c->middle < r->runners[best].middle) best = i;
    }
    if (best >= 0) r->members[r->n_members++] = best;
}

/// Draws a heat: the candidates with fewer than `wanted` times, the leader and the default. Every
/// other heat runs in reverse, which cancels a linear drift.
static void draw_heat(rt_tournament *r, int wanted) {
    int fixed = 0;
    r->pivot = find_leader(r);
    if (r->pivot >= 0) r->members[fixed++] = r->pivot;
    if (r->pivot != 0 && r->options.capacity && r->runners[0].alive) r->members[fixed++] = 0;
    r->n_members = fixed;
    r->at = 0;
    for (int i = 1; i < r->options.capacity; i++)
        if (i != r->pivot && r->runners[i].alive && r->runners[i].n < wanted)
            enter_member(r, i, fixed);
    if (r->n_members == 1) add_companion(r, r->members[0]);
    memset(r->seconds, 0, sizeof r->seconds);
    if (++r->heat % 2) return;
    for (int i = 0, j = r->n_members - 1; i < j; i++, j--) {
        int id = r->members[i];
        r->members[i] = r->members[j];
        r->members[j] = id;
    }
}

/// Notes the default's seconds. The least of its first heats is the unit of all times.
static void note_default(rt_tournament *r, double seconds) {
    double x[WINDOW];
    if (!r->n_defaults || (r->n_defaults < FIRST_RUNG && seconds < r->unit)) r->unit = seconds;
    r->defaults[r->n_defaults++ % WINDOW] = seconds;
    int n = r->n_defaults < WINDOW ? r->n_defaults : WINDOW;
    memcpy(x, r->defaults, sizeof *x * (size_t)n);
    r->usual = sorted_median(x, n);
}

/// The slowdown of the default in this heat relative to its first heats. Without a default, or
/// after its hiccup, the slowdown of candidates with earlier times. A candidate alone gives no
/// level.
static double heat_level(rt_tournament *r) {
    double x[HEAT], own = 0;
    int n = 0;
    for (int i = 0; i < r->n_members; i++) {
        const RaceRunner *c = &r->runners[r->members[i]];
        if (!(r->seconds[i] > 0)) continue;
        if (r->members[i] == 0) {
            note_default(r, r->seconds[i]);
            own = r->seconds[i] / r->unit;
        } else if (c->n) {
            x[n++] = r->seconds[i] / c->middle;
        }
    }
    double others = n ? sorted_median(x, n) : 0;
    if (own > 0) return n && own > HICCUP * others ? others : own;
    return r->n_members > 1 && n ? others : 1;
}

static void note_time(RaceRunner *c, double time, uint32_t heat) {
    double x[WINDOW];
    c->times[c->n % WINDOW] = time;
    c->heats[c->n % WINDOW] = heat;
    c->n++;
    memcpy(x, c->times, sizeof *x * (size_t)kept_times(c));
    c->middle = sorted_median(x, kept_times(c));
}

/// Drops the times of earlier heats.
static void forget_heats(RaceRunner *c, uint32_t before) {
    int first = c->n - kept_times(c), n = 0;
    double times[WINDOW];
    uint32_t heats[WINDOW];
    for (int i = first; i < c->n; i++) {
        if (c->heats[i % WINDOW] < before) continue;
        times[n] = c->times[i % WINDOW];
        heats[n++] = c->heats[i % WINDOW];
    }
    memcpy(c->times, times, sizeof *times * (size_t)n);
    memcpy(c->heats, heats, sizeof *heats * (size_t)n);
    c->n = n;
}

/// The default is the final reference. It leaves only if it is useless even with a few hiccups.
static bool has_lost(const rt_tournament *r, int id, int pivot) {
    double x[WINDOW];
    const RaceRunner *c = &r->runners[id], *best = &r->runners[pivot];
    if (id == pivot) return false;
    if (id == 0 && heat_ratios(c, best, x) < 2 * FIRST_RUNG) return false;
    return surely_slower(c, best, false) > (id == 0 ? FAR : 0);
}

/// Removes the candidates that are slower than the leader at the start of the heat. That leader was
/// not chosen by this heat.
static void end_heat(rt_tournament *r) {
    double level = heat_level(r);
    if (r->runoff && r->heat + 1 == r->runoff_from + FIRST_RUNG)
        for (int i = 0; i < r->options.capacity; i++)
            if (r->runners[i].alive) forget_heats(&r->runners[i], r->runoff_from);
    for (int i = 0; i < r->n_members; i++)
        if (r->seconds[i] > 0)
            note_time(&r->runners[r->members[i]], r->seconds[i] / level, r->heat);
    int pivot = r->pivot >= 0 && r->runners[r->pivot].alive ? r->pivot : find_leader(r);
    for (int i = 0; i < r->n_members && pivot >= 0; i++) {
        if (!has_lost(r, r->members[i], pivot)) continue;
        r->runners[r->members[i]].alive = false;
        r->runners[r->members[i]].beaten = true;
    }
    r->n_members = r->at = 0;
}

/* ---- phases -------------------------------------------------------------------------------- */

/// Keeps the n best candidates and the default.
static void keep_best(rt_tournament *r, int n) {
    for (int alive = count_alive(r) - r->runners[0].alive; alive > n; alive--) {
        int worst = -1;
        for (int i = 1; i < r->options.capacity; i++) {
            const RaceRunner *c = &r->runners[i], *w = worst < 0 ? NULL : &r->runners[worst];
            if (!c->alive) continue;
            if (!w || (w->n && (!c->n || c->middle >= w->middle))) worst = i;
        }
        r->runners[worst].alive = false;
    }
}

/// Earlier times count until a few newer heats exist, since there may be no time for these.
static void begin_runoff(rt_tournament *r, double now) {
    keep_best(r, FINALISTS);
    r->runoff_began = now;
    r->runoff = true;
    r->runoff_from = r->heat + 1;
    r->n_members = r->at = 0;
}

/// The winner is shown to be as good as any candidate.
static bool is_settled(const rt_tournament *r) {
    int winner = rt_tournament_winner(r);
    for (int i = 0; i < r->options.capacity; i++)
        if (i != winner && r->runners[i].alive &&
            perhaps_slower(&r->runners[winner], &r->runners[i]) > r->options.close)
            return false;
    return true;
}

/// The cost of a heat of all remaining candidates.
static double heat_cost(const rt_tournament *r) {
    double sum = 0;
    int best = find_leader(r);
    for (int i = 0; i < r->options.capacity; i++) {
        const RaceRunner *c = &r->runners[i];
        if (c->alive) sum += c->cost > 0 ? c->cost : best >= 0 ? r->runners[best].cost : 0;
    }
    return sum;
}

/// The latest start of the runoff. It leaves time for enough heats of its members, if they are as
/// fast as the leader.
static double last_call(const rt_tournament *r) {
    int best = find_leader(r), n = count_alive(r);
    int finalists = n < FINALISTS + 1 ? n : FINALISTS + 1;
    double cost = best >= 0 ? r->runners[best].cost : 0;
    double needs = SOUND * finalists * cost * MARGIN;
    return r->options.deadline - (needs > r->options.doubt ? needs : r->options.doubt);
}

static bool is_late(const rt_tournament *r, double now) {
    return r->options.deadline > 0 && now >= last_call(r);
}

static bool has_all(const rt_tournament *r, int wanted) {
    for (int i = 0; i < r->options.capacity; i++)
        if (r->runners[i].alive && r->runners[i].n < wanted) return false;
    return true;
}

/// Draws the next heat of the first phase or begins the runoff. Returns false if the tournament has
/// to wait for more candidates.
static bool advance_heat(rt_tournament *r, double now) {
    while (has_all(r, r->rung)) {
        if (!r->closed) return false;
        int alive = count_alive(r);
        if (alive <= FINALISTS + 1) {
            begin_runoff(r, now);
            r->over = alive <= 1;
            return true;
        }
        keep_best(r, alive / 2);
        if (r->rung < LAST_RUNG) r->rung *= 2;
    }
    draw_heat(r, r->rung);
    return true;
}

/// The default was at times much slower than at others, so a few consecutive heats may not be
/// representative.
static bool is_restless(const rt_tournament *r) {
    double x[WINDOW];
    int n = r->n_defaults < WINDOW ? r->n_defaults : WINDOW;
    memcpy(x, r->defaults, sizeof *x * (size_t)n);
    sort_doubles(x, n);
    return n >= SOUND && x[n * 9 / 10] > RESTLESS * x[n / 10];
}

/// On such a machine no candidate wins over the default quickly; on others not before the caller's
/// time.
static bool is_brief(const rt_tournament *r, double now) {
    double least = is_restless(r) ? RUNOFF_SHARE * (r->options.deadline - r->began) : 0;
    if (least < r->options.doubt) least = r->options.doubt;
    return now - r->runoff_began < least && rt_tournament_winner(r) != 0;
}

static void advance_runoff(rt_tournament *r, double now) {
    int alive = count_alive(r), n = (int)(r->heat + 1 - r->runoff_from);
    bool late = r->options.deadline > 0 && now + heat_cost(r) * MARGIN >= r->options.deadline;
    bool told = n >= WINDOW || (n >= SOUND && is_settled(r));
    r->over = alive <= 1 || late || (told && !is_brief(r, now));
    if (!r->over) draw_heat(r, INT32_MAX);
}

/* ---- turns --------------------------------------------------------------------------------- */

/// An odd number, so that the median is a measured value. Launches of long kernels are exact by
/// themselves.
static int launches_of(const RaceRunner *c) {
    double t = c->middle > 0 ? c->middle : c->predicted;
    if (t > 10 * TURN_SECONDS) return 1;
    int n = c->middle > 0 && t * 15 < TURN_SECONDS ? 15 : t > 0 ? (int)(TURN_SECONDS / t) | 1 : 3;
    return n < 3 || c->middle <= 0 ? 3 : n;
}

/// Skips members that dropped out. At the end of the heat it draws the next one.
static bool find_turn(rt_tournament *r, double now) {
    for (;;) {
        while (r->at < r->n_members && !r->runners[r->members[r->at]].alive) r->at++;
        if (!r->runoff && is_late(r, now)) {
            end_heat(r);
            begin_runoff(r, now);
        } else if (r->at < r->n_members) {
            return true;
        } else if (r->n_members) {
            end_heat(r);
        }
        if (r->runoff)
            advance_runoff(r, now);
        else if (!advance_heat(r, now))
            return false;
        if (r->over) return true;
    }
}

/// A hiccup does not predict the cost of the next turn.
static void note_cost(RaceRunner *c, double cost) {
    double least = cost < c->last_cost ? cost : c->last_cost;
    c->cost = cost <= 0 ? 0 : c->last_cost > 0 ? least : cost;
    c->last_cost = cost;
}

rt_tournament_turn rt_tournament_step(rt_tournament *r, double now) {
    if (!r->begun) r->began = now;
    r->begun = true;
    if (!r->over && !find_turn(r, now))
        return (rt_tournament_turn){.kind = RT_TOURNAMENT_WAIT,
                                    .id = -1,
                                    .until = r->options.deadline > 0 ? last_call(r) : 0};
    if (r->over) return (rt_tournament_turn){.kind = RT_TOURNAMENT_OVER, .id = -1};
    int id = r->members[r->at];
    r->turned = true;
    r->turn_began = now;
    return (rt_tournament_turn){.kind = RT_TOURNAMENT_MEASURE,
                                .id = id,
                                .launches = launches_of(&r->runners[id]),
                                .runoff = r->runoff};
}

void rt_tournament_doubt(rt_tournament *r, double now) {
    r->runoff_began = now;
}

void rt_tournament_report(rt_tournament *r, int id, const double *seconds, int n, double now) {
    double x[SAMPLES];
    if (!r->turned || r->at >= r->n_members || r->members[r->at] != id) return;
    r->turned = false;
    bool fine = n > 0;
    if (n > SAMPLES) n = SAMPLES;
    for (int i = 0; i < n; i++) {
        x[i] = seconds[i];
        fine = fine && x[i] > 0 && x[i] < 1e9;
    }
    if (!fine) {
        rt_tournament_drop(r, id);
        return;
    }
    RaceRunner *c = &r->runners[id];
    double time = sorted_median(x, n);
    if (!c->launches || time < c->least) c->least = time;
    if (time > c->most) c->most = time;
    c->launches += n;
    note_cost(c, now - r->turn_began);
    r->seconds[r->at++] = time;
}

void rt_tournament_drop(rt_tournament *r, int id) {
    if (!is_id(r, id) || !r->runners[id].alive) return;
    r->runners[id].alive = false;
    r->turned = false;
}
