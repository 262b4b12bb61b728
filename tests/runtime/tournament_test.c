// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tournaments on simulated machines, which define the clock, the noise, and the speed of each
// candidate.
#include "runtime/tune/tournament.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 500, SEEDS = 100, HICCUP = 30 };

/* ---- machines ------------------------------------------------------------------------------ */

typedef struct Machine {
    double noise;      // standard deviation of a launch over its time
    double outliers;   // share of launches that take up to three times as long
    double drift;      // slowdown after a second
    double step, when; // slowdown from the time `when` on
    double neighbour;  // slowdown for 30 ms, now and then
    double overhead;   // seconds of a turn beside the launches
    double hiccups;    // share of turns in which each launch takes 30 times as long
    bool of_default;   // only the default has hiccups
    double moments;    // slowdown of the default alone, for 0.3 s of each 1.2 s
} Machine;

typedef struct World {
    const Machine *machine;
    uint64_t seed;
    double now;
    int n;
    double truth[MOST];   // seconds; negative: drops out when measured
    double arrival[MOST]; // time from which it can be measured
    double deadline, doubt;
    bool honest_guess; // whether predictions are right; otherwise they are noise
} World;

typedef struct Outcome {
    int winner, turns;
    double spent;
} Outcome;

static double uniform(World *w) {
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(w->seed >> 11) / (double)(1ull << 53);
}

static double normal(World *w) {
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform(w);
    return sum;
}

static double launch(World *w, int id) {
    const Machine *m = w->machine;
    double t = w->truth[id] * (1 + m->noise * normal(w));
    if (uniform(w) < m->outliers) t *= 1 + 2 * uniform(w);
    t *= 1 + m->drift * w->now;
    if (m->when > 0 && w->now > m->when) t *= 1 + m->step;
    if (id == 0 && (long)(w->now / 0.3) % 4 == 1) t *= 1 + m->moments;
    if ((long)(w->now / 0.03) % 7 == 3) t *= 1 + m->neighbour;
    w->now += t;
    return t;
}

static bool has_hiccup(World *w, int id) {
    const Machine *m = w->machine;
    if (m->hiccups <= 0 || (m->of_default && id)) return false;
    return uniform(w) < m->hiccups;
}

static void arrive(World *w, rt_tournament *race, bool *closed) {
    bool all = true;
    for (int i = 0; i < w->n; i++) {
        if (w->arrival[i] < 0) continue;
        if (w->arrival[i] > w->now) {
            all = false;
            continue;
        }
        double t = w->truth[i] > 0 ? w->truth[i] : 1e-3;
        rt_tournament_add(race, i, w->honest_guess ? t : t * (0.5 + uniform(w)));
        w->arrival[i] = -1;
    }
    if (all && !*closed) rt_tournament_close(race);
    *closed = all;
}

static double next_arrival(const World *w) {
    double next = 1e9;
    for (int i = 0; i < w->n; i++)
        if (w->arrival[i] >= 0 && w->arrival[i] < next) next = w->arrival[i];
    return next;
}

/// Runs a tournament to its end.
static rt_tournament *race_of(World *w, int *turns) {
    rt_tournament *race = rt_tournament_start(
        malloc(rt_tournament_bytes(MOST)),
        &(rt_tournament_options){.capacity = MOST, .deadline = w->deadline, .doubt = w->doubt});
    bool closed = false;
    for (int n = 0;; n++) {
        arrive(w, race, &closed);
        rt_tournament_turn turn = rt_tournament_step(race, w->now);
        if (turns) *turns = n;
        if (turn.kind == RT_TOURNAMENT_OVER) return race;
        if (turn.kind == RT_TOURNAMENT_WAIT) {
            assert_false(closed);
            double next = next_arrival(w);
            w->now = turn.until > 0 && next > turn.until ? turn.until : next;
            continue;
        }
        double samples[64];
        w->now += w->machine->overhead;
        assert_in_range(turn.launches, 1, 64);
        if (w->truth[turn.id] < 0) {
            rt_tournament_drop(race, turn.id);
            continue;
        }
        double slow = has_hiccup(w, turn.id) ? HICCUP : 1;
        for (int i = 0; i < turn.launches; i++) {
            double t = launch(w, turn.id);
            samples[i] = t * slow;
            w->now += t * (slow - 1);
        }
        rt_tournament_report(race, turn.id, samples, turn.launches, w->now);
        assert_true(n < 1000000);
    }
}

static Outcome run(World *w) {
    Outcome o = {0};
    rt_tournament *race = race_of(w, &o.turns);
    o.winner = rt_tournament_winner(race);
    o.spent = w->now;
    free(race);
    return o;
}

/* ---- requests ------------------------------------------------------------------------------ */

static const Machine quiet = {.noise = 0.003, .overhead = 1e-4};
static const Machine usual = {
    .noise = 0.02, .outliers = 0.05, .drift = 0.02, .neighbour = 0.1, .overhead = 1e-4};
static const Machine throttled = {
    .noise = 0.01, .outliers = 0.02, .step = 0.25, .when = 0.15, .overhead = 1e-4};
static const Machine busy = {
    .noise = 0.06, .outliers = 0.1, .drift = 0.05, .neighbour = 0.5, .overhead = 1e-4};

typedef struct Tally {
    int good, kept; // winners within 1 % of the best, defaults that won
    double worst;   // winner over default
    double mean, most;
    double turns;
} Tally;

/// Runs SEEDS worlds; setup makes the candidates.
static Tally tally(const Machine *machine, const char *name, void setup(World *)) {
    Tally t = {0};
    for (int seed = 1; seed <= SEEDS; seed++) {
        World w = {.machine = machine, .seed = (uint64_t)seed * 7919, .deadline = 60};
        for (int i = 0; i < 8; i++) uniform(&w);
        setup(&w);
        Outcome o = run(&w);
        double best = 1e9, longest = 0;
        for (int i = 0; i < w.n; i++)
            if (w.truth[i] > 0 && w.truth[i] < best) best = w.truth[i];
        for (int i = 0; i < w.n; i++)
            if (w.truth[i] > longest) longest = w.truth[i];
        assert_in_range(o.winner, 0, w.n - 1);
        double turn = 3 * longest; // the turn of an unknown candidate
        if (machine->hiccups > 0) turn *= 5 * HICCUP;
        assert_true(o.spent <= w.deadline * 1.05 + turn);
        t.good += w.truth[o.winner] <= best * 1.01;
        t.kept += o.winner == 0;
        double over = w.truth[0] > 0 ? w.truth[o.winner] / w.truth[0] : 0;
        if (over > t.worst) t.worst = over;
        t.mean += o.spent / SEEDS;
        t.turns += (double)o.turns / SEEDS;
        if (o.spent > t.most) t.most = o.spent;
    }
    print_message("%-28s within 1 %%: %3d, default: %3d, over it at most %.4f, %.2f s, at most "
                  "%.2f s, %.0f turns\n",
                  name, t.good, t.kept, t.worst, t.mean, t.most, t.turns);
    return t;
}

/// A busy machine cannot meet a bar of 1 %, so three in twenty tournaments fewer have to meet it
/// there.
static void all_machines(const char *name, void setup(World *), int least_good, int least_kept) {
    static const struct {
        const Machine *machine;
        const char *name;
    } machines[] = {
        {&quiet, "quiet"}, {&usual, "usual"}, {&throttled, "throttled"}, {&busy, "busy"}};
    for (int i = 0; i < 4; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s, %s", name, machines[i].name);
        Tally t = tally(machines[i].machine, text, setup);
        int allowance = machines[i].machine == &busy ? SEEDS * 3 / 20 : 0;
        assert_true(t.good >= least_good - allowance);
        assert_true(t.kept >= least_kept - 2 * allowance);
        assert_true(t.worst <= (allowance ? 1.01 : 1.003));
    }
}

static void spread_setup(World *w) {
    w->n = 40;
    for (int i = 0; i < w->n; i++) w->truth[i] = 1e-4 * (1 + 4 * uniform(w) * uniform(w));
}
static void spread(void **state) {
    (void)state;
    all_machines("spread", spread_setup, 99, 0);
}

static void crowd_setup(World *w) {
    w->n = 200;
    for (int i = 0; i < w->n; i++) w->truth[i] = 5e-5 * (1 + 0.1 * uniform(w));
}
static void crowd(void **state) {
    (void)state;
    all_machines("within 10 %", crowd_setup, 99, 0);
}

static void equals_setup(World *w) {
    w->n = 30;
    for (int i = 0; i < w->n; i++) w->truth[i] = 2e-4;
}
static void equals(void **state) {
    (void)state;
    all_machines("equal", equals_setup, 100, 95);
}

/// The default is the best, and others come close.
static void best_default_setup(World *w) {
    w->n = 30;
    for (int i = 0; i < w->n; i++) w->truth[i] = 2e-4 * (1 + 0.003 * i);
}
static void best_default(void **state) {
    (void)state;
    all_machines("default is best", best_default_setup, 100, 97);
}

/// One candidate among many is faster than the default by 2 %.
static void one_better_setup(World *w) {
    w->n = 60;
    for (int i = 0; i < w->n; i++) w->truth[i] = 2e-4 * (1 + 0.2 * uniform(w));
    w->truth[0] = 2e-4;
    w->truth[1 + (int)(uniform(w) * 59)] = 2e-4 / 1.02;
}
static void one_better(void **state) {
    (void)state;
    all_machines("one is 2 % better", one_better_setup, 99, 0);
}

static void late_setup(World *w) {
    spread_setup(w);
    for (int i = 1; i < w->n; i++) w->arrival[i] = 0.05 + 0.1 * i * uniform(w);
    w->arrival[w->n - 1] = 3;
    w->truth[w->n - 1] = 0.9e-4;
}
static void late(void **state) {
    (void)state;
    all_machines("late arrivals", late_setup, 99, 0);
}

static void dropouts_setup(World *w) {
    spread_setup(w);
    for (int i = 1; i < w->n; i += 3) w->truth[i] = -1;
    if (w->seed % 2) w->truth[0] = -1;
}
static void dropouts(void **state) {
    (void)state;
    all_machines("dropouts", dropouts_setup, 99, 0);
}

static void scales_setup(World *w) {
    static const double scales[] = {1e-6, 1e-5, 1e-3, 1e-2};
    double scale = scales[w->seed / 11 % 4];
    w->n = 24;
    for (int i = 0; i < w->n; i++) w->truth[i] = scale * (1 + uniform(w));
}
static void scales(void **state) {
    (void)state;
    all_machines("1 us to 10 ms", scales_setup, 99, 0);
}

/* ---- figures ------------------------------------------------------------------------------- */

/// Returns the median error of a tournament's figures when candidates arrive one by one, and the
/// largest underestimate.
static double bias_of(const Machine *machine, uint64_t seed, double *shortest) {
    World w = {.machine = machine, .seed = seed * 7919, .n = 150, .deadline = 60};
    for (int i = 0; i < w.n; i++) {
        w.truth[i] = 5e-5 * (1 + 0.2 * uniform(&w));
        w.arrival[i] = 0.01 * i;
    }
    rt_tournament *race = race_of(&w, NULL);
    double ratios[MOST];
    int n = 0;
    for (int i = 0; i < w.n; i++) {
        rt_tournament_figures f = rt_tournament_figures_of(race, i);
        double x = f.seconds / w.truth[i];
        assert_true(f.low <= f.seconds && f.seconds <= f.high);
        assert_true(f.seconds == rt_tournament_seconds(race, i));
        if (i == 0 || x < *shortest) *shortest = x;
        int at = n++;
        for (; at > 0 && ratios[at - 1] > x; at--) ratios[at] = ratios[at - 1];
        ratios[at] = x;
    }
    free(race);
    return ratios[n / 2] - 1;
}

/// Reported times of candidates without a common heat are comparable and correct, also if the
/// default, their reference, has hiccups.
static void figures(void **state) {
    (void)state;
    static const Machine shaky = {.noise = 0.08, .outliers = 0.1, .overhead = 1e-4};
    static const Machine hiccups = {
        .noise = 0.01, .overhead = 1e-4, .hiccups = 0.2, .of_default = true};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        double shortest;
        double quiet_bias = bias_of(&quiet, seed, &shortest),
               shaky_bias = bias_of(&shaky, seed, &shortest),
               hiccup_bias = bias_of(&hiccups, seed, &shortest);
        print_message("figures are off by %.2f %%, %.2f %% and %.2f %%\n", 100 * quiet_bias,
                      100 * shaky_bias, 100 * hiccup_bias);
        assert_true(quiet_bias > -0.01 && quiet_bias < 0.01);
        assert_true(shaky_bias > -0.05 && shaky_bias < 0.05);
        assert_true(hiccup_bias > -0.01 && hiccup_bias < 0.01);
        assert_true(shortest > 0.95);
    }
}

/* ---- budgets ------------------------------------------------------------------------------- */

/// Half a second for 40 candidates, some of which come too late.
static void hurried_setup(World *w) {
    late_setup(w);
    for (int i = 20; i < w->n; i++) w->truth[i] = 5e-4;
    for (int i = 1; i < 20; i++) w->arrival[i] = 0.01 * i;
    w->deadline = 0.5;
}
static void hurried(void **state) {
    (void)state;
    all_machines("0.5 s", hurried_setup, 97, 0);
}

/// Time for some 30 launches and 20 candidates: the winner is no worse than the default.
static void starved_setup(World *w) {
    w->n = 20;
    for (int i = 0; i < w->n; i++) w->truth[i] = 0.03 * (1 + 0.5 * uniform(w));
    w->truth[0] = 0.03 * 1.3;
    w->deadline = 1.5;
}
static void starved(void **state) {
    (void)state;
    all_machines("30 launches", starved_setup, 0, 0);
}

static void frugal_setup(World *w) {
    starved_setup(w);
    w->truth[0] = 0.03;
}
static void frugal(void **state) {
    (void)state;
    all_machines("30 launches, default is best", frugal_setup, 0, 0);
}

/// Now and then a core disappears for a whole turn. That must not change the winner, whichever
/// candidate is hit, nor make a slower one than the default win.
static void hiccups(void **state) {
    (void)state;
    static const Machine of_default = {
        .noise = 0.01, .overhead = 1e-4, .hiccups = 0.2, .of_default = true};
    static const Machine of_all = {.noise = 0.01, .overhead = 1e-4, .hiccups = 0.1};
    static const struct {
        const char *name;
        void (*setup)(World *);
        int good, kept; // at least
    } cases[] = {{"spread", spread_setup, 95, 0},
                 {"within 10 %", crowd_setup, 97, 0},
                 {"equal", equals_setup, 100, 95},
                 {"default is best", best_default_setup, 100, 97},
                 {"late arrivals", late_setup, 90, 0},
                 {"0.5 s", hurried_setup, 40, 0},
                 {"30 launches", starved_setup, 0, 0},
                 {"30 launches, default is best", frugal_setup, 0, 97}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int all = 0; all < 2; all++) {
            char text[64];
            snprintf(text, sizeof text, "%s, hiccups of %s", cases[i].name,
                     all ? "all" : "the default");
            Tally t = tally(all ? &of_all : &of_default, text, cases[i].setup);
            assert_true(t.good >= cases[i].good);
            assert_true(t.kept >= cases[i].kept);
            assert_true(t.worst <= 1.003);
        }
}

/// A neighbour takes a core for a while, which slows only the default. A candidate that wins then
/// would be slower the rest of the time.
static void moments_setup(World *w) {
    w->n = 12;
    for (int i = 1; i < w->n; i++) w->truth[i] = 1e-3 * (1.05 + 0.1 * uniform(w));
    w->truth[0] = 1e-3;
    w->now = 1.2 * uniform(w);
    w->deadline = 10;
    w->doubt = 1;
}
static void moments(void **state) {
    (void)state;
    static const Machine machine = {.noise = 0.01, .overhead = 1e-4, .moments = 0.5};
    Tally t = tally(&machine, "moments of the default", moments_setup);
    assert_true(t.kept >= 98);
}

/* ---- edges --------------------------------------------------------------------------------- */

static rt_tournament *fresh(int capacity, double deadline) {
    return rt_tournament_start(
        malloc(rt_tournament_bytes(capacity)),
        &(rt_tournament_options){.capacity = capacity, .deadline = deadline});
}

static void nobody(void **state) {
    (void)state;
    rt_tournament *r = fresh(4, 0);
    assert_int_equal(rt_tournament_step(r, 0).kind, RT_TOURNAMENT_WAIT);
    assert_int_equal(rt_tournament_winner(r), -1);
    rt_tournament_close(r);
    assert_int_equal(rt_tournament_step(r, 0).kind, RT_TOURNAMENT_OVER);
    assert_int_equal(rt_tournament_winner(r), -1);
    free(r);
}

/// The default alone is measured, so that reports have its time, and wins.
static void alone(void **state) {
    (void)state;
    rt_tournament *r = fresh(4, 0);
    assert_true(rt_tournament_add(r, 0, 0));
    assert_false(rt_tournament_add(r, 0, 0));
    assert_false(rt_tournament_add(r, 4, 0));
    assert_false(rt_tournament_add(r, -1, 0));
    rt_tournament_close(r);
    double now = 0;
    for (rt_tournament_turn t; (t = rt_tournament_step(r, now)).kind != RT_TOURNAMENT_OVER;
         now += 1) {
        double x[64];
        assert_int_equal(t.kind, RT_TOURNAMENT_MEASURE);
        assert_int_equal(t.id, 0);
        for (int i = 0; i < t.launches; i++) x[i] = 1e-3 * (1 + 0.1 * (i == 0));
        rt_tournament_report(r, 0, x, t.launches, now);
        assert_true(now < 20);
    }
    assert_int_equal(rt_tournament_winner(r), 0);
    rt_tournament_figures f = rt_tournament_figures_of(r, 0);
    assert_true(f.seconds == 1e-3 && f.low == 1e-3 && f.high == 1e-3 && f.launches >= 9);
    assert_true(rt_tournament_figures_of(r, 1).seconds == 0);
    assert_true(rt_tournament_seconds(r, 0) == 1e-3 && rt_tournament_seconds(r, 9) == 0);
    assert_true(rt_tournament_figures_of(r, 9).seconds == 0);
    free(r);
}

/// Invalid reports, reports of others, and reports of unknown candidates.
static void odd_reports(void **state) {
    (void)state;
    rt_tournament *r = fresh(3, 0);
    static const double bad[][1] = {{-1}, {0}, {1e30}};
    double nan = 0;
    nan /= nan;
    rt_tournament_report(r, 0, bad[0], 1, 0); // has no turn
    rt_tournament_add(r, 0, 0);
    rt_tournament_add(r, 1, 0);
    rt_tournament_add(r, 2, 0);
    rt_tournament_close(r);
    int id = rt_tournament_step(r, 0).id;
    rt_tournament_report(r, (id + 1) % 3, bad[1], 1, 0);
    assert_int_equal(rt_tournament_step(r, 0).id, id); // still its turn
    rt_tournament_report(r, id, &nan, 1, 0);
    rt_tournament_report(r, id, &(double){1e-3}, 1, 0); // has left
    id = rt_tournament_step(r, 0).id;
    rt_tournament_report(r, id, bad[2], 1, 0);
    id = rt_tournament_step(r, 0).id;
    rt_tournament_report(r, id, NULL, 0, 0);
    assert_int_equal(rt_tournament_step(r, 0).kind, RT_TOURNAMENT_OVER);
    assert_int_equal(rt_tournament_winner(r), -1);
    free(r);
}

/// Without any time the default is taken unmeasured.
static void no_time(void **state) {
    (void)state;
    rt_tournament *r = fresh(3, 1);
    rt_tournament_add(r, 0, 0);
    rt_tournament_add(r, 1, 0);
    assert_int_equal(rt_tournament_step(r, 2).kind, RT_TOURNAMENT_OVER);
    assert_int_equal(rt_tournament_winner(r), 0);
    assert_false(rt_tournament_add(r, 2, 0));
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spread),     cmocka_unit_test(crowd),        cmocka_unit_test(equals),
        cmocka_unit_test(one_better), cmocka_unit_test(best_default), cmocka_unit_test(late),
        cmocka_unit_test(dropouts),   cmocka_unit_test(scales),       cmocka_unit_test(hurried),
        cmocka_unit_test(starved),    cmocka_unit_test(nobody),       cmocka_unit_test(alone),
        cmocka_unit_test(no_time),    cmocka_unit_test(odd_reports),  cmocka_unit_test(figures),
        cmocka_unit_test(frugal),     cmocka_unit_test(hiccups),      cmocka_unit_test(moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
