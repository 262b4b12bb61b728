// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Answers a request to tune. It takes a known result if there is one. Otherwise, of all processes
// with the same request, one searches (tune_search.c) and stores the result.
#include "driver/tune/tune.h"

#include "driver/code_cache.h"
#include "driver/tune/tune_search.h"
#include "driver/tune/tune_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CLAIM_WAIT = 20000000,  // nanoseconds between two attempts to claim
    CANDIDATES = 120,       // candidates to compile
    CANDIDATES_SECOND = 30, // candidates for each second of the budget, if that gives more
    MOST_CANDIDATES = 500,  // limit for any budget
};
#define DEFAULT_BUDGET 10.0

/// Keeps only the standard candidate and the requested ones, even if they were not listed. False: a
/// requested one is not allowed.
static bool keep_among(Search *s) {
    for (int i = 1; i < s->space.n; i++)
        if (s->o.n_among && !s->space.at[i].why) s->space.at[i].why = "not asked for";
    for (int k = 0; k < s->o.n_among; k++) {
        int i = 0;
        while (i < s->space.n && strcmp(s->space.at[i].config, s->o.among[k]) != 0) i++;
        if (i == s->space.n && !tune_space_add(s->ctx, &s->space, s->o.among[k])) {
            s->lost = ctx_format(s->ctx, "'%s' is not a candidate", s->o.among[k]);
            return false;
        }
        s->space.at[i].why = NULL;
    }
    return true;
}

static void list_runners(Search *s) {
    s->runners = ctx_array(s->ctx, Runner, s->space.n + 1);
    for (int i = 0; i < s->space.n; i++) {
        const TuneCandidate *c = &s->space.at[i];
        Runner *u = &s->runners[i];
        *u = (Runner){.trial = {.config = c->config,
                                .why = c->why,
                                .standard = c->standard,
                                .predicted = c->predicted,
                                .sibling = c->sibling,
                                .compiled = -1,
                                .seconds = -1,
                                .low = -1,
                                .high = -1,
                                .registers = -1,
                                .spills = -1,
                                .shared_bytes = -1}};
        u->trial.verdict = c->why ? TUNE_PRUNED : TUNE_NOT_REACHED;
        if (c->why) u->state = DONE;
    }
    history_list(s);
}

static int most_candidates(const TuneOptions *o) {
    if (o->candidates > 0) return o->candidates;
    if (o->mode >= TUNE_EXHAUSTIVE) return MOST_CANDIDATES;
    return (int)fmin(fmax(CANDIDATES, CANDIDATES_SECOND * o->budget), MOST_CANDIDATES);
}

static bool prepare_search(Search *s) {
    int cores = machine_threads();
    const char *level;
    const Backend *b = backend_of(s->r->target, &level);
    s->exclusive = !b || !b->device;
    s->worker.turn = s->checks.next = -1;
    if (s->exclusive) s->o.device = -1;
    if (s->o.helpers <= 0) s->o.helpers = cores < 16 ? cores : 16;
    s->processes = processes_create(s->ctx, s->o.helpers, s->r->ranks.n ? s->r->ranks.n : 1);
    if (s->o.mode == TUNE_BACKGROUND) s->lost = tune_too_large(s->ctx, s->r, s->o.device);
    if (s->lost) return false;
    workers_prepare(s);
    search_open(s); // the worker starts while the space is made
    if (s->phase == PHASE_OVER) return false;
    if (!(s->o.mode == TUNE_SAMPLE ? tune_sample(s->ctx, s->r, s->o.seed, &s->space)
                                   : tune_space(s->ctx, s->r, &s->space)))
        return false;
    if (!keep_among(s)) return false;
    sibling_list(s);
    s->feed.most = most_candidates(&s->o);
    if (s->feed.most > s->space.n) s->feed.most = s->space.n;
    list_runners(s);
    expect_prepare(s);
    s->race.memory = ctx_alloc(s->ctx, rt_tournament_bytes(s->space.n));
    return true;
}

/// Converts the time of a glance to seconds of the tournament, since the machine's speed may have
/// changed between them. The glance is known as a multiple of the time of the candidate that was
/// best then, and that candidate's tournament time is known.
static double glance_seconds(const Search *s, const Runner *u) {
    double beside = u->beside >= 0 ? rt_tournament_seconds(s->race.tournament, u->beside) : 0;
    return beside > 0 ? u->times * beside : u->glance;
}

static void finish_trial(Search *s, int i, int winner) {
    Runner *u = &s->runners[i];
    TuneTrial *t = &u->trial;
    rt_tournament_figures f = rt_tournament_figures_of(s->race.tournament, i);
    if (f.seconds > 0) { // from a finished heat
        t->launches = f.launches;
        t->seconds = f.seconds;
        t->low = f.low;
        t->high = f.high;
    } else if (u->glance > 0) {
        t->seconds = t->low = t->high = glance_seconds(s, u);
    } else if (u->before > 0) {
        double scale = history_seconds(s, i) / u->before;
        t->seconds *= scale;
        t->low *= scale;
        t->high *= scale;
    }
    t->earlier = t->earlier && f.seconds <= 0 && u->glance <= 0;
    if (u->state == COMPILED) t->why = "the time was up before it was measured";
    if (i == winner) t->verdict = TUNE_WON;
    if (i == winner || u->state != RACING || t->why) return;
    rt_tournament_figures best = rt_tournament_figures_of(s->race.tournament, winner);
    bool slower = f.beaten || f.low > best.high;
    t->verdict = f.seconds <= 0 ? TUNE_NOT_REACHED : slower ? TUNE_SLOWER : TUNE_TIE;
    // The candidate lost its heats, but its seconds are fewer than the winner's, because the
    // machine became slower later. So its multiple of the standard setting's time is reported.
    double multiple = f.multiple * rt_tournament_seconds(s->race.tournament, 0);
    if (t->verdict == TUNE_SLOWER && f.seconds < best.seconds && f.seconds < multiple)
        t->seconds = t->low = t->high = multiple;
}

/// The base may be in the middle of a repeated check, so `timed` decides and not `checked`.
static bool default_works(const Search *s) {
    return s->runners && s->checks.base == 0 && s->race.timed && !s->runners[0].refuted;
}

/// Returns the best candidate whose result is confirmed; -1: not even the standard one works.
static int right_winner(const Search *s) {
    int winner = s->race.tournament ? rt_tournament_winner(s->race.tournament) : -1;
    for (; winner >= 0 && !search_is_fit(s, winner);
         winner = rt_tournament_winner(s->race.tournament)) {
        s->runners[winner].trial.why = "the time was up before it was checked";
        rt_tournament_drop(s->race.tournament, winner);
    }
    return winner < 0 && default_works(s) ? 0 : winner;
}

static void finish_search(Search *s, TuneResult *out) {
    int winner = right_winner(s);
    bool works = winner >= 0 && default_works(s) && expect_known(s, 0) > 0;
    TuneTrial *trials = ctx_array(s->ctx, TuneTrial, s->space.n + 1);
    for (int i = 0; s->runners && i < s->space.n; i++) {
        finish_trial(s, i, winner);
        trials[i] = s->runners[i].trial;
    }
    out->trials = trials;
    out->n_trials = s->runners ? s->space.n : 0;
    out->n_space = s->space.n_all;
    out->shape = s->space.shape ? s->space.shape : "";
    out->roof = s->space.roof;
    out->flops = s->space.flops;
    out->bytes = s->space.bytes;
    out->spent = search_seconds(s);
    out->interrupted = search_is_stopped(s) && s->phase != PHASE_OVER;
    out->config = winner >= 0 ? trials[winner].config : "";
    out->seconds = winner >= 0 ? expect_known(s, winner) : -1;
    out->standard = works ? expect_known(s, 0) : -1;
    out->judged = s->oracle.judged ? s->oracle.judged
                  : s->r->ranks.n  ? "only with each other: the interpreter has no such ranks"
                                   : "only with each other: the interpreter was not done";
}

/// False, with tg_last_error(): the environment variable is invalid.
static bool read_budget(const TuneOptions *o, double *out) {
    const char *set = secure_getenv("TG_TUNE_BUDGET_MS");
    char *end = NULL;
    double ms = set && *set ? strtod(set, &end) : 0;
    *out = o->budget > 0                ? o->budget
           : ms > 0                     ? ms / 1e3
           : o->mode == TUNE_EXHAUSTIVE ? 1e9
                                        : DEFAULT_BUDGET;
    if (o->budget > 0 || !end || (end > set && !*end && ms >= 0)) return true;
    tg_fail(TG_ERROR_ARGUMENT, "TG_TUNE_BUDGET_MS: '%s' is not a time in milliseconds", set);
    return false;
}

/// False, with tg_last_error(): the environment variable is invalid.
static bool read_share(const TuneOptions *o, double *out) {
    if (rt_busy_share(out) || o->mode != TUNE_BACKGROUND) return true;
    tg_fail(TG_ERROR_ARGUMENT, "TG_TUNE_SHARE: '%s' is not a percentage",
            secure_getenv("TG_TUNE_SHARE"));
    return false;
}

static bool has_found(const TuneResult *r) {
    return r->standard > 0 || (tune_wrong_default(r) && r->seconds > 0);
}

/// Stores measurements so far. A search in the background takes long; if its process ends early,
/// the next search continues from these.
static void keep_found(const Search *s, const TuneResult *found) {
    bool left = false;
    if (s->o.forget || !has_found(found)) return;
    for (int i = 0; i < found->n_trials; i++) left |= found->trials[i].verdict == TUNE_NOT_REACHED;
    if (!search_is_stopped(s))
        tune_keep(s->ctx, s->r, s->o.device, found);
    else if (s->o.mode == TUNE_BACKGROUND && left)
        tune_keep_part(s->ctx, s->r, s->o.device, found);
}

static tg_status search_and_keep(Search *s, TuneResult *out) {
    const char *kernel = s->r->kernel;
    if (prepare_search(s)) search_run(s);
    processes_stop(s->processes);
    workers_end(s);
    finish_search(s, out);
    if (diag_errors(s->ctx)) return messages_status(s->ctx, CTX_OK);
    bool found = has_found(out);
    if (!found && tune_wrong_default(out))
        return tg_fail(TG_ERROR_UNSUPPORTED, "tuning '%s': nothing that was tried is right: %s",
                       kernel, tune_wrong_default(out));
    if (!found && !search_is_stopped(s))
        return tg_fail(TG_ERROR_UNSUPPORTED, "tuning '%s': %s", kernel,
                       s->lost ? s->lost : "the time was up before the first result");
    keep_found(s, out);
    return TG_OK;
}

/* ---- one search at a time ------------------------------------------------------------------ */

typedef enum SearchTurn { TURN_OURS, TURN_FOUND, TURN_STOPPED, TURN_OVER, TURN_BUSY } SearchTurn;

static void release_claim(void *at) {
    int *claim = at;
    cache_release(*claim);
    *claim = -1;
}

/// Claims a search in the background. It uses a key of its own, so launches that wait for a search
/// do not wait for this one. If another process has the claim, this search does not wait either; it
/// is retried later.
static bool claim_later(const Search *s, StoreKey theirs, int *claim) {
    StoreKey key;
    int blocking;
    if (!cache_claim(theirs, &blocking)) return false;
    cache_release(blocking);
    return tune_claim_key(s->ctx, s->r, s->o.device, true, &key) && cache_claim(key, claim);
}

/// Waits for other processes with the same search. FOUND: one has a result. OVER: the time is over.
/// BUSY: retry later.
static SearchTurn take_turn(Search *s, int *claim, TuneResult *out) {
    TuneProgress p = {.waits = true, .budget = s->o.budget};
    StoreKey key;
    if (s->o.again || s->o.forget || !tune_claim_key(s->ctx, s->r, s->o.device, false, &key))
        return TURN_OURS;
    if (s->o.mode == TUNE_BACKGROUND && !claim_later(s, key, claim)) return TURN_BUSY;
    for (; *claim < 0 && !cache_claim(key, claim); p.spent = search_seconds(s)) {
        if (search_is_stopped(s)) return TURN_STOPPED;
        if (p.spent > s->o.budget) return TURN_OVER;
        if (s->o.progress) s->o.progress(s->o.user, &p);
        nanosleep(&(struct timespec){.tv_nsec = CLAIM_WAIT}, NULL);
    }
    history_load(s);
    return history_knows(s, out) ? TURN_FOUND : TURN_OURS;
}

tg_status tune_request(Ctx *ctx, const Request *r, const TuneOptions *options, TuneResult *out) {
    Search s = {.ctx = ctx, .r = r, .o = *options, .clock.start = rt_seconds()};
    int *claim = ctx_new(ctx, int);
    tg_status status = TG_OK;
    if (!read_budget(options, &s.o.budget) || !read_share(options, &s.clock.share))
        return TG_ERROR_ARGUMENT;
    if (options->mode == TUNE_SAMPLE)
        s.o.again = s.o.forget = true; // a sample's budget has another purpose
    history_load(&s);
    if (history_knows(&s, out)) return TG_OK;
    *out = (TuneResult){.kernel = r->kernel,
                        .target = r->machine  ? r->machine
                                  : r->target ? r->target
                                              : "cpu",
                        .device = tune_device(ctx, r, s.o.device),
                        .shape = "",
                        .config = "",
                        .seconds = -1,
                        .standard = -1,
                        .budget = s.o.budget};
    *claim = -1;
    ctx_defer(ctx, release_claim, claim);
    SearchTurn turn = take_turn(&s, claim, out);
    if (turn == TURN_OURS) status = search_and_keep(&s, out);
    release_claim(claim);
    out->busy = turn == TURN_BUSY;
    if (turn == TURN_OVER)
        return tg_fail(TG_ERROR_UNSUPPORTED, "another process tunes '%s', for more than %.3g s",
                       r->kernel, s.o.budget);
    return status;
}

/* ---- names --------------------------------------------------------------------------------- */

static const char *const modes[] = {"off", "strict", "block", "background", "exhaustive", "sample"};

const char *tune_mode_name(TuneMode mode) {
    return modes[mode];
}

bool tune_mode_of(const char *text, TuneMode *out) {
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(text, modes[i]) == 0) return *out = (TuneMode)i, true;
    return false;
}

const char *tune_wrong_default(const TuneResult *r) {
    bool wrong = r->n_trials && r->trials[0].standard && r->trials[0].verdict == TUNE_WRONG;
    return wrong ? r->trials[0].why : NULL;
}

const char *tune_verdict_name(TuneVerdict v) {
    static const char *const names[TUNE_VERDICTS] = {"pruned", "not reached", "refused", "crashed",
                                                     "hung",   "failed",      "wrong",   "slower",
                                                     "tie",    "won"};
    return names[v];
}
