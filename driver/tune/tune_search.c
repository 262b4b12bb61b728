// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search: helpers compile candidates, a worker checks and times them, and a tournament
// (runtime/tune/tournament.h) compares their times.
// The phases of the search are those of SearchPhase (tune_search.h). The states of a candidate:
//
//     waiting --compile--> compiled --glance--> racing --> won, tie, slower
//        |                    |                   |  ^
//        not reached          refused, crashed,   check: wrong
//                             hung, failed
//
// A glance is a few launches, enough to drop most candidates. A check compares results, which takes
// longer than many launches, so only possible winners are checked: before a candidate that looks as
// fast as the best one enters the tournament, and before a runoff uses its times. A check compares
// pieces of large results. At the end the winner's results are compared whole.
//
// On a GPU all of this happens at once. On a CPU the helpers pause during timing, because they
// would take cores from the kernel.
//
// In the background the worker rests after each piece of work, so that it is busy for TG_TUNE_SHARE
// of the time. Only the worker's time counts for the budget, since a helper at low priority may
// take long without using much of the machine.
//
// The first candidates are the winners on other machines (tune_sibling.c). Each next one is the
// candidate with the best prediction (tune_expect.c). Early in the search any promising candidate
// is compiled. Towards the end, only candidates that are predicted close to the best one, or differ
// from it in one value, are compiled.
#include "driver/tune/tune_search.h"
#include "passes/model.h"
#include "runtime/tune/trial.h"

#include <math.h>
#include <string.h>

enum {
    BATCH = 6,      // candidates for each helper that a CPU compiles before timing
    ENOUGH = 12,    // measured candidates before the search may end early
    CHECK_RUNS = 6, // limit of launches of a check
    GLANCE = 3,     // launches; an odd number
    FINALISTS = 4,  // candidates that may need a check at the end
    PATIENCE = 60,  // on a GPU: candidates without an improvement after which none is expected
};

double search_seconds(const Search *s) {
    return s->o.mode == TUNE_BACKGROUND ? s->clock.worked : rt_seconds() - s->clock.start;
}

/// Returns the seconds left of a rest; <= 0: none.
static double rest_left(const Search *s) {
    return s->clock.rests_until - rt_seconds();
}

/// Begins a rest after the worker was busy. On a shared CPU, the processor time that it used counts
/// instead, if it is less.
static void begin_rest(Search *s, double busy, const WorkReport *report) {
    if (report && s->exclusive) busy = fmin(busy, report->computed / fmax(1, s->r->threads));
    s->clock.worked += busy;
    if (s->o.mode != TUNE_BACKGROUND) return;
    s->clock.rests_until = rt_seconds() + rt_rest(busy, s->clock.share);
}

bool search_is_fit(const Search *s, int id) {
    const Runner *u = &s->runners[id];
    return u->checked && (id == s->checks.base || (u->confirmed && (u->warm || s->exclusive)));
}

/* ---- phases -------------------------------------------------------------------------------- */

#define AFTER(phase) (1u << PHASE_##phase)

/// The phases that may follow each phase.
static const unsigned next_phases[] = {
    [PHASE_STARTING] = AFTER(OPENING) | AFTER(OVER),
    [PHASE_OPENING] = AFTER(REFERENCE) | AFTER(OVER),
    [PHASE_REFERENCE] = AFTER(REFERENCE) | AFTER(MEASURING) | AFTER(OPENING) | AFTER(OVER),
    [PHASE_MEASURING] =
        AFTER(MEASURING) | AFTER(SETTLING) | AFTER(OPENING) | AFTER(REFERENCE) | AFTER(OVER),
    [PHASE_SETTLING] =
        AFTER(SETTLING) | AFTER(MEASURING) | AFTER(OPENING) | AFTER(REFERENCE) | AFTER(OVER),
};

static bool is_over(const Search *s) {
    return s->phase == PHASE_OVER;
}

void search_enter(Search *s, SearchPhase to) {
    if (is_over(s)) return;
    if (!(next_phases[s->phase] & 1u << to))
        ice(s->ctx, (Loc){0}, "a search goes from phase %d to %d", s->phase, to);
    s->phase = to;
}

static void end_search(Search *s, const char *why) {
    s->lost = why;
    search_enter(s, PHASE_OVER);
}

/* ---- verdicts ------------------------------------------------------------------------------ */

static void judge_candidate(Search *s, int id, TuneVerdict verdict, const char *why) {
    Runner *u = &s->runners[id];
    u->state = DONE;
    if (s->checks.next == id) s->checks.next = -1;
    if (s->race.kept && s->race.heat.id == id) s->race.kept = false;
    u->trial.verdict = verdict;
    u->trial.why = why;
    if (s->race.tournament) rt_tournament_drop(s->race.tournament, id);
    if (id == 0 && verdict != TUNE_SLOWER && !u->refuted) end_search(s, why);
}

static void report_progress(Search *s) {
    if (!s->o.progress) return;
    TuneProgress p = {
        .candidates = s->feed.most, .spent = search_seconds(s), .budget = s->o.budget};
    for (int i = 0; i < s->space.n; i++) {
        p.compiled += s->runners[i].trial.compiled >= 0;
        p.measured += s->runners[i].glance > 0;
    }
    int best = s->race.tournament ? rt_tournament_winner(s->race.tournament) : -1;
    p.best = best >= 0 ? rt_tournament_seconds(s->race.tournament, best) : 0;
    p.standard = s->race.tournament ? rt_tournament_seconds(s->race.tournament, 0) : 0;
    p.config = best >= 0 ? s->runners[best].trial.config : "";
    s->o.progress(s->o.user, &p);
}

/* ---- the next candidate to compile --------------------------------------------------------- */

/// Returns the time until which compilations may begin. Later ones would leave no time to measure.
static double feed_end(const Search *s) {
    if (s->o.mode >= TUNE_EXHAUSTIVE) return 0.9 * s->race.deadline;
    double mean = s->feed.compiled ? s->feed.seconds / s->feed.compiled : s->race.deadline;
    return fmax(SEARCH_FEED_SHARE * s->race.deadline,
                (1 - SEARCH_RACE_SHARE) * s->race.deadline - 2 * mean);
}

/// Returns a factor: a candidate is worth compiling if its prediction is below this multiple of the
/// best time. The factor falls over time. On a GPU, where many candidates are compiled, it also
/// falls while none is better than the best. In the background it starts low, so that the program
/// keeps more of the time.
static double hoped_ratio(const Search *s) {
    double patience = s->exclusive ? 1 : fmax(0, 1 - (double)s->best.stale / PATIENCE);
    double early = fmax(0, 1 - search_seconds(s) / feed_end(s));
    double most = s->o.mode == TUNE_BACKGROUND
                      ? SEARCH_HOPE
                      : SEARCH_HOPE + (SEARCH_EARLY_HOPE - SEARCH_HOPE) * early;
    return SEARCH_NO_HOPE + (most - SEARCH_NO_HOPE) * patience;
}

static bool is_waiting(const Search *s, int id) {
    return s->runners[id].state == WAITING;
}

/// Finds a candidate that differs from the best one in one value; -1: all of them were tried.
static int next_neighbour(const Search *s) {
    int best = rt_tournament_winner(s->race.tournament);
    for (int i = 0; i < s->space.n && best >= 0; i++)
        if (is_waiting(s, i) && count_differences(&s->space.at[i], &s->space.at[best]) == 1)
            return i;
    return -1;
}

/// Candidates are compiled in ascending order of this number: the standard one, then winners on
/// other machines, then others.
static double candidate_order(const Search *s, int id) {
    if (id == 0) return -2;
    if (s->runners[id].trial.sibling) return -1;
    return s->o.mode >= TUNE_EXHAUSTIVE ? id : expect_seconds(s, id);
}

/// -1: no candidate is worth compiling, or the time is over.
static int next_candidate(const Search *s) {
    int best = -1;
    double least = 0;
    bool exhaustive = s->o.mode >= TUNE_EXHAUSTIVE;
    if (s->race.closed || s->feed.begun >= s->feed.most) return -1;
    if (s->feed.begun > 0 && search_seconds(s) > feed_end(s)) return -1;
    for (int i = 0; i < s->space.n; i++) {
        if (!is_waiting(s, i)) continue;
        double e = candidate_order(s, i);
        if (best >= 0 && e >= least) continue;
        best = i;
        least = e;
    }
    if (exhaustive || s->best.measured < ENOUGH || s->best.seconds <= 0 ||
        least <= hoped_ratio(s) * s->best.seconds)
        return best;
    return next_neighbour(s);
}

/* ---- compiling ----------------------------------------------------------------------------- */

static double compile_seconds(const Search *s) {
    if (s->feed.longest <= 0) return SEARCH_UNKNOWN_COMPILE;
    return fmax(SEARCH_COMPILE_LEAST, SEARCH_COMPILE_FACTOR * s->feed.longest);
}

static bool begin_compile(Search *s, Hand *h, int id) {
    const TuneCandidate *c = &s->space.at[id];
    Request r = *s->r;
    r.n_set = c->n_set;
    r.set = c->set;
    r.n_known = 0;
    int error = processes_ask(s->processes, h, id, wire_write_request(s->ctx, &r), WIRE_ANSWER,
                              compile_seconds(s));
    s->feed.begun++;
    s->feed.batch--;
    s->runners[id].state = COMPILING;
    if (error)
        judge_candidate(s, id, TUNE_CRASHED,
                        ctx_format(s->ctx,
                                   "a helper cannot be started: %s; set TG_SERVER to the program "
                                   "'tegula'",
                                   strerror(error)));
    return !error;
}

/// Whether helpers may begin work. On a CPU they may only before the worker's turn, as long as the
/// batch is not full or the interpreter still runs.
static bool may_compile(const Search *s) {
    return !s->exclusive ||
           (!s->feed.paused && (s->feed.batch > 0 || s->oracle.state == ORACLE_BUSY));
}

/// Gives idle helpers the most promising candidates. The standard one comes first, since the others
/// are checked against it. Then a helper asks the interpreter.
static void feed_helpers(Search *s) {
    if (is_over(s) || !may_compile(s)) return;
    for (int i = 0; i < s->processes->n; i++) {
        Hand *h = &s->processes->helpers[i];
        if (h->busy || !may_compile(s)) continue;
        if (s->feed.begun && oracle_is_wanted(s)) {
            oracle_begin(s, h);
            continue;
        }
        int id = next_candidate(s);
        if (id < 0 || !begin_compile(s, h, id)) return;
    }
}

/// Finds another candidate with the same code, byte for byte, that represents both; -1: none.
static int same_code(const Search *s, int id) {
    for (int i = 0; i < s->space.n; i++)
        if (i != id && s->runners[i].answer.n && !s->runners[i].same &&
            memcmp(&s->runners[i].code, &s->runners[id].code, sizeof(StoreKey)) == 0)
            return i;
    return -1;
}

/// Of two candidates with equal code, one represents both: the one that was measured already, or
/// else the first one.
static void join_same_code(Search *s, int late, int early) {
    const Runner *known = &s->runners[early];
    bool looked_at = known->state == RACING || known->state == DONE;
    int stays = looked_at || early < late ? early : late, goes = stays == late ? early : late;
    bool bad = known->state == DONE && known->trial.verdict < TUNE_SLOWER;
    const char *why = ctx_format(s->ctx, "the same code as %s%s%s", s->runners[stays].trial.config,
                                 bad ? ": " : "", bad ? known->trial.why : "");
    s->runners[goes].same = true;
    judge_candidate(s, goes, bad ? known->trial.verdict : TUNE_TIE, why);
}

static StoreKey hash_object_code(Ctx *ctx, const Code *c) {
    Text t = {.ctx = ctx};
    text_bytes(&t, c->object, c->object_bytes);
    if (c->image) text_bytes(&t, c->image->bytes, c->image->size);
    return store_hash(t.data, t.n);
}

static void take_candidate_code(Search *s, int id, const ProcessEvent *e) {
    Runner *u = &s->runners[id];
    Answer a;
    u->trial.compiled = e->seconds;
    s->feed.seconds += e->seconds;
    s->feed.compiled++;
    s->feed.longest = fmax(s->feed.longest, e->seconds);
    if (!wire_read_answer(s->ctx, e->body, &a) || !answer_is_sound(s->r, &a)) {
        judge_candidate(s, id, TUNE_CRASHED, "the compiler's process is not of this version");
        return;
    }
    if (a.status) {
        judge_candidate(s, id, TUNE_REFUSED,
                        ctx_format(s->ctx, "%.*s", (int)strcspn(a.message, "\n"), a.message));
        return;
    }
    u->code = hash_object_code(s->ctx, a.code);
    memcpy(&u->trial.code, u->code.bytes, sizeof u->trial.code);
    if (history_has_code(s, id)) return;
    int same = same_code(s, id);
    u->answer = e->body;
    u->state = COMPILED;
    if (same >= 0) join_same_code(s, id, same);
}

static void on_compile_event(Search *s, const ProcessEvent *e) {
    int id = e->hand->id;
    if (id == ORACLE_ID) {
        oracle_take(s, e);
    } else if (e->talk == TALK_OK) {
        take_candidate_code(s, id, e);
    } else if (e->talk == TALK_LATE) {
        judge_candidate(s, id, TUNE_HUNG,
                        ctx_format(s->ctx, "the compiler took more than %.2g s", e->seconds));
    } else {
        judge_candidate(s, id, TUNE_CRASHED, ctx_format(s->ctx, "the compiler %s", e->why));
    }
}

/* ---- the worker ---------------------------------------------------------------------------- */

/// Returns the time limit for a number of launches.
static double launch_seconds(const Search *s, int launches) {
    if (s->best.seconds <= 0) return fmax(10, s->o.budget);
    return launches * fmax(SEARCH_LAUNCH_LEAST, SEARCH_LAUNCH_FACTOR * s->best.seconds) + 1;
}

static void worker_failed(Search *s, int error) {
    end_search(s, ctx_format(s->ctx,
                             "the worker cannot be started: %s; set TG_SERVER to the program "
                             "'tegula'",
                             strerror(error)));
}

static void open_worker(Search *s) {
    s->worker.number++;
    search_enter(s, PHASE_OPENING);
    s->worker.turn = -1;
    int error = workers_open(s, SEARCH_START_SECONDS + 2 * s->space.bytes / SEARCH_CHECK_RATE);
    if (error) worker_failed(s, error);
}

/// launches: a number, or WORK_CHECK, WORK_CONFIRM, WORK_WARM.
static void try_code(Search *s, int id, int launches) {
    Runner *u = &s->runners[id];
    WorkTry t = {.id = id, .launches = launches};
    if (u->loaded != s->worker.number) t.answer = u->answer;
    if (s->oracle.told != s->worker.number) t.expected = s->oracle.expected;
    s->oracle.told = s->worker.number;
    u->loaded = s->worker.number;
    s->worker.asked = launches;
    double more = 1 + s->space.bytes / SEARCH_CHECK_RATE;
    s->worker.turn = id;
    int error = workers_ask(s, id, work_write_try(s->ctx, &t),
                            launch_seconds(s, launches > 0 ? launches : CHECK_RUNS) + more);
    if (error) worker_failed(s, error);
}

/// Finds a compiled candidate without a glance; -1: none.
static int find_unseen(const Search *s) {
    for (int i = 0; i < s->space.n; i++)
        if (s->runners[i].state == COMPILED && s->runners[i].glance <= 0) return i;
    return -1;
}

/// Whether a helper compiles a candidate that is worth waiting for: it has not taken too long.
static bool is_compiling(const Search *s) {
    double least = fmax(SEARCH_STUCK_LEAST, SEARCH_STUCK_FACTOR * s->feed.longest);
    for (int i = 0; i < s->processes->n; i++) {
        const Hand *h = &s->processes->helpers[i];
        if (!h->busy) continue;
        if (h->id == ORACLE_ID || s->feed.longest <= 0 || h->clock.seconds < least) return true;
    }
    return false;
}

/// Closes the tournament if no more candidates will come.
static void close_tournament(Search *s) {
    if (s->race.closed) return;
    if (is_compiling(s) || find_unseen(s) >= 0 || next_candidate(s) >= 0) return;
    s->race.closed = true;
    rt_tournament_close(s->race.tournament);
}

/// After the tournament, confirms the winner's whole result and times it against the default on
/// warm caches. If it fails, the next one follows.
static bool settle_winner(Search *s) {
    int winner = rt_tournament_winner(s->race.tournament);
    Runner *u = winner < 0 ? NULL : &s->runners[winner];
    if (!u || search_is_fit(s, winner))
        search_enter(s, PHASE_OVER);
    else
        try_code(s, winner, !u->checked ? WORK_CHECK : !u->confirmed ? WORK_CONFIRM : WORK_WARM);
    return true;
}

/// On a CPU, an unlucky placement of threads and arguments can make the default slow in one process
/// for its whole life. So a candidate wins only if it also beats the default in a second worker.
static bool renew_worker(Search *s) {
    if (!s->exclusive || !s->race.heat.runoff || s->race.renewed) return false;
    if (s->race.runoff <= 0) s->race.runoff = search_seconds(s);
    if (search_seconds(s) - s->race.runoff < SEARCH_DOUBT_SHARE / 2 * s->race.deadline ||
        rt_tournament_winner(s->race.tournament) == 0)
        return false;
    s->race.renewed = s->race.kept = true;
    rt_tournament_doubt(s->race.tournament, search_seconds(s));
    processes_dismiss_workers(s->processes);
    open_worker(s);
    return true;
}

/// Makes the next step of the tournament. False: it waits for candidates. In the runoff, a
/// candidate is timed only after its check, so its turn waits for the check.
static bool step_tournament(Search *s) {
    close_tournament(s);
    if (!s->race.kept) s->race.heat = rt_tournament_step(s->race.tournament, search_seconds(s));
    s->race.kept = false;
    bool ended = s->race.heat.kind == RT_TOURNAMENT_OVER;
    search_enter(s, ended ? PHASE_SETTLING : PHASE_MEASURING);
    if (ended) return settle_winner(s);
    if (s->race.heat.kind != RT_TOURNAMENT_MEASURE) return false;
    if (renew_worker(s)) return true;
    s->race.kept = s->race.heat.runoff && !s->runners[s->race.heat.id].checked;
    try_code(s, s->race.heat.id, s->race.kept ? WORK_CHECK : s->race.heat.launches);
    return true;
}

/// Returns the number of candidates that a CPU compiles before timing. If compilations take long,
/// batches are small enough for several of them, because each batch's results guide the next one.
static int batch_size(const Search *s) {
    double mean = s->feed.compiled ? s->feed.seconds / s->feed.compiled : 0;
    double fit = mean > 0 ? SEARCH_BATCH_SHARE * s->race.deadline * s->processes->n / mean : BATCH;
    return (int)fmin(fmax(fit, s->processes->n), BATCH * s->processes->n);
}

/// Makes the result with which all others are compared.
static void make_base(Search *s) {
    int id = oracle_base(s);
    if (id >= 0) s->checks.base = id;
    if (id >= 0) try_code(s, id, WORK_CHECK);
    // The interpreter has refuted the standard candidate and all others.
    if (id < 0 && s->runners[0].refuted && !is_compiling(s) && next_candidate(s) < 0)
        search_enter(s, PHASE_OVER);
}

/// Gives the worker its next check, glance or turn of the tournament. The base comes first; it is
/// checked again once the interpreter has answered. On a CPU the worker first waits for helpers,
/// and pauses them.
static void measure(Search *s) {
    if (s->exclusive && is_compiling(s)) return;
    if (s->exclusive && !s->feed.paused && s->feed.batch > 0 && next_candidate(s) >= 0) return;
    s->feed.paused = s->exclusive;
    int id = find_unseen(s);
    if (!s->runners[s->checks.base].checked || s->checks.next >= 0) {
        try_code(s, s->runners[s->checks.base].checked ? s->checks.next : s->checks.base,
                 WORK_CHECK);
    } else if (id >= 0) {
        try_code(s, id, GLANCE);
    } else if (!step_tournament(s) && s->exclusive && !is_over(s)) {
        s->feed.paused = false;
        s->feed.batch = batch_size(s);
    }
}

/// Gives an idle worker the work of the phase.
static void drive_worker(Search *s) {
    if (processes_works(s->processes) || rest_left(s) > 0) return;
    switch (s->phase) {
    case PHASE_STARTING: open_worker(s); return;
    case PHASE_REFERENCE: make_base(s); return;
    case PHASE_MEASURING:
    case PHASE_SETTLING: measure(s); return;
    case PHASE_OPENING:
    case PHASE_OVER: return;
    }
}

/// The worker has ended or was killed. The next one needs the arguments and the base's result
/// again.
static void lost_worker(Search *s, const ProcessEvent *e) {
    bool late = e->talk == TALK_LATE;
    if (s->worker.turn < 0) {
        end_search(s,
                   late ? "the worker did not start" : ctx_format(s->ctx, "the worker %s", e->why));
        return;
    }
    judge_candidate(
        s, s->worker.turn, late ? TUNE_HUNG : TUNE_CRASHED,
        late ? ctx_format(s->ctx, "no result after %.2g s", e->seconds)
             : ctx_format(s->ctx, "the launch's process%s %s", workers_whose(s, e), e->why));
    if (!is_over(s)) open_worker(s);
}

/// Starts the tournament with a deadline that leaves time to check its finalists.
static void start_tournament(Search *s, double check_seconds) {
    double all = SEARCH_RACE_END * s->o.budget,
           confirmed = all - s->space.bytes / SEARCH_CONFIRM_RATE;
    if (!s->exclusive) confirmed -= SEARCH_WARM_SHARE * s->o.budget;
    s->race.deadline = fmax(0.5 * all, confirmed - FINALISTS * check_seconds);
    rt_tournament_options tournament = {.capacity = s->space.n, .deadline = s->race.deadline};
    if (s->exclusive) tournament.doubt = SEARCH_DOUBT_SHARE * s->race.deadline;
    s->race.tournament = rt_tournament_start(s->race.memory, &tournament);
}

static void note_best(Search *s, int id, double seconds) {
    if (s->best.seconds > 0 && seconds >= s->best.seconds) return;
    s->best.seconds = seconds;
    s->best.id = id;
    if (s->best.better > 0 && seconds >= SEARCH_BETTER * s->best.better) return;
    s->best.better = seconds;
    s->best.stale = 0;
}

static void enter_tournament(Search *s, int id) {
    Runner *u = &s->runners[id];
    if (u->checked) note_best(s, id, u->glance);
    u->state = RACING;
    if (!rt_tournament_add(s->race.tournament, id, u->glance))
        judge_candidate(s, id, TUNE_NOT_REACHED, "the finalists were chosen");
}

/// The base is checked before its glance, other candidates after theirs. The base's first check
/// runs twice as many launches; it tells how long other checks take. The tournament is still empty
/// then.
static void take_check(Search *s, int id, const WorkReport *report, double seconds) {
    Runner *u = &s->runners[id];
    if (id == s->checks.base && !s->race.timed) start_tournament(s, seconds / 2);
    s->race.timed |= id == s->checks.base;
    s->checks.next = -1;
    if (id == s->checks.base && s->phase == PHASE_REFERENCE) search_enter(s, PHASE_MEASURING);
    u->checked = true;
    oracle_note_mild(s, report->mild);
    u->trial.registers = report->registers;
    u->trial.spills = report->spills;
    u->trial.shared_bytes = report->shared_bytes;
    if (u->state == COMPILED && u->glance > 0) enter_tournament(s, id);
}

static void take_glance(Search *s, int id, const WorkReport *report) {
    Runner *u = &s->runners[id];
    double least = report->n ? report->seconds[0] : 0;
    for (int i = 1; i < report->n; i++) least = fmin(least, report->seconds[i]);
    u->glance = least;
    u->beside = s->best.seconds > 0 ? s->best.id : -1;
    u->times = s->best.seconds > 0 ? least / s->best.seconds : 1;
    s->best.measured++;
    s->best.stale++;
    if (id > 0 && s->best.seconds > 0 &&
        least > SEARCH_FAR_SLOWER * s->best.seconds + (s->exclusive ? SEARCH_HOST_NOISE : 0)) {
        u->trial.launches = report->n;
        judge_candidate(
            s, id, TUNE_SLOWER,
            ctx_format(s->ctx, "%.3g times as long as the best one had taken", u->times));
    } else if (!u->checked && least < SEARCH_PROMISING * s->best.seconds) {
        s->checks.next = id;
    } else {
        enter_tournament(s, id);
    }
}

/// Checks a new leader, because the times of other candidates are compared with its times.
static void take_times(Search *s, int id, const WorkReport *report) {
    rt_tournament_report(s->race.tournament, id, report->seconds, report->n, search_seconds(s));
    int leader = rt_tournament_winner(s->race.tournament);
    double seconds = rt_tournament_seconds(s->race.tournament, id);
    if (leader >= 0 && !s->runners[leader].checked) s->checks.next = leader;
    if (s->runners[id].checked && seconds > 0) note_best(s, id, seconds);
}

/// The tournament times launches with empty caches, but in most programs caches are warm. So the
/// winner must not be slower with warm caches.
static void take_warm(Search *s, int id, double times) {
    s->runners[id].warm = times <= 1 + RT_TOURNAMENT_CLOSE;
    if (!s->runners[id].warm)
        judge_candidate(s, id, TUNE_SLOWER,
                        ctx_format(s->ctx,
                                   "with warm caches it takes %.3g times as long as the default",
                                   times));
}

static void take_opening(Search *s, const WorkReport *report) {
    if (!report->ok) {
        end_search(s, report->why);
        return;
    }
    s->lost = NULL;
    search_enter(s, PHASE_REFERENCE);
}

static void on_work_event(Search *s, const ProcessEvent *e) {
    WorkReport report;
    if (e->talk != TALK_OK) {
        begin_rest(s, e->seconds, NULL);
        lost_worker(s, e);
        return;
    }
    bool read = work_read_report(s->ctx, e->body, &report);
    if (s->worker.turn >= 0 && read) begin_rest(s, e->seconds, &report);
    if (!read) {
        end_search(s, "the worker is not of this version");
    } else if (s->worker.turn < 0) {
        take_opening(s, &report);
    } else if (!report.ok) {
        s->runners[s->worker.turn].refuted = report.refuted;
        judge_candidate(s, s->worker.turn, report.verdict, report.why);
        if (report.refuted && s->worker.turn == s->checks.base) oracle_replace_base(s);
        if (report.lost) processes_dismiss_workers(s->processes);
        if (report.lost && !is_over(s)) open_worker(s);
    } else if (s->worker.asked == WORK_CONFIRM) {
        s->runners[s->worker.turn].confirmed = true;
    } else if (s->worker.asked == WORK_WARM) {
        take_warm(s, s->worker.turn, report.n ? report.seconds[0] : 1);
    } else if (s->worker.asked > 0 && s->runners[s->worker.turn].state == COMPILED) {
        take_glance(s, s->worker.turn, &report);
    } else if (s->worker.asked > 0) {
        take_times(s, s->worker.turn, &report);
    } else {
        take_check(s, s->worker.turn, &report, e->seconds);
    }
}

bool search_is_stopped(const Search *s) {
    return s->o.stop && atomic_load(s->o.stop);
}

static bool is_confirming(const Search *s) {
    return processes_works(s->processes) && s->worker.turn >= 0 && s->worker.asked < WORK_CHECK;
}

/// Returns the seconds that a helper has compiled the candidate, on its own clock.
static double compiled_for(const Search *s, int id) {
    for (int i = 0; i < s->processes->n; i++)
        if (s->processes->helpers[i].busy && s->processes->helpers[i].id == id)
            return s->processes->helpers[i].clock.seconds;
    return 0;
}

/// Ends the compilations that still run at the end of the search.
static void end_compilations(Search *s) {
    for (int i = 0; i < s->space.n; i++) {
        Runner *u = &s->runners[i];
        if (u->state != COMPILING) continue;
        if (compiled_for(s, i) > fmax(SEARCH_COMPILE_LEAST, 4 * s->feed.longest))
            u->trial.verdict = TUNE_HUNG;
        u->trial.why = "the time was up while it was compiled";
    }
}

void search_open(Search *s) {
    s->feed.batch = batch_size(s);
    drive_worker(s);
}

/// Returns the seconds until new work is possible without an event of a process.
static double wait_seconds(const Search *s) {
    double rest = rest_left(s), left = (is_confirming(s) ? SEARCH_LATE : 1) * s->o.budget;
    return fmin(SEARCH_TICK, rest > 0 ? rest : fmax(left - search_seconds(s), 0));
}

void search_run(Search *s) {
    start_tournament(s, 0);
    while (!is_over(s) && !search_is_stopped(s) &&
           search_seconds(s) < (is_confirming(s) ? SEARCH_LATE : 1) * s->o.budget) {
        feed_helpers(s);
        drive_worker(s);
        if (is_over(s)) break;
        ProcessEvent e = processes_wait(s->processes, rt_seconds() + wait_seconds(s));
        if (e.talk == TALK_OTHER) {
            end_search(s, e.why);
        } else if (processes_rank(s->processes, e.hand) < 0) {
            if (e.hand) on_compile_event(s, &e);
        } else if (workers_answer(s, &e)) {
            on_work_event(s, &e);
        }
        report_progress(s);
    }
    end_compilations(s);
    processes_stop(s->processes);
}
