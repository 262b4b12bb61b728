// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search: helpers compile candidates, a worker checks and times them, and this file races them.
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
// In the background the worker is busy for TG_TUNE_SHARE of the time: it rests after each piece of
// work. Only the worker's time counts for the budget, since a helper at low priority may take long
// without using much of the machine.
//
// The next candidates are the winners on other machines (tune_sibling.c), which may suffice, and
// then the one with the best prediction (tune_expect.c). Early in the search any promising
// candidate is compiled. Towards the end only two kinds are: candidates predicted close to the best
// one, and candidates that differ from it in one value.
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
    PATIENCE = 60,  // candidates on a GPU without a better one that decide the search
};

double search_seconds(const Search *s) {
    return s->o.mode == TUNE_BACKGROUND ? s->worked : rt_seconds() - s->start;
}

/// Returns the seconds left of a rest; <= 0: none.
static double rest_left(const Search *s) {
    return s->rests_until - rt_seconds();
}

/// Begins a rest after the worker was busy. On a shared CPU, the processor time that it used counts
/// instead, if it is less.
static void begin_rest(Search *s, double busy, const WorkReport *report) {
    if (report && s->exclusive) busy = fmin(busy, report->computed / fmax(1, s->r->threads));
    s->worked += busy;
    if (s->o.mode != TUNE_BACKGROUND) return;
    s->rests_until = rt_seconds() + rt_rest(busy, s->share);
}

bool search_is_fit(const Search *s, int id) {
    const Runner *u = &s->runners[id];
    return u->checked && (id == s->base || (u->confirmed && (u->warm || s->exclusive)));
}

/* ---- verdicts ------------------------------------------------------------------------------ */

static void judge_candidate(Search *s, int id, TuneVerdict verdict, const char *why) {
    Runner *u = &s->runners[id];
    u->state = DONE;
    if (s->check == id) s->check = -1;
    if (s->kept && s->heat.id == id) s->kept = false;
    u->trial.verdict = verdict;
    u->trial.why = why;
    if (s->tournament) rt_tournament_drop(s->tournament, id);
    if (id == 0 && verdict != TUNE_SLOWER && !u->refuted) {
        s->lost = why;
        s->over = true;
    }
}

static void report_progress(Search *s) {
    if (!s->o.progress) return;
    TuneProgress p = {.candidates = s->most, .spent = search_seconds(s), .budget = s->o.budget};
    for (int i = 0; i < s->space.n; i++) {
        p.compiled += s->runners[i].trial.compiled >= 0;
        p.measured += s->runners[i].glance > 0;
    }
    int best = s->tournament ? rt_tournament_winner(s->tournament) : -1;
    p.best = best >= 0 ? rt_tournament_seconds(s->tournament, best) : 0;
    p.standard = s->tournament ? rt_tournament_seconds(s->tournament, 0) : 0;
    p.config = best >= 0 ? s->runners[best].trial.config : "";
    s->o.progress(s->o.user, &p);
}

/* ---- what to compile next ------------------------------------------------------------------ */

/// Returns the time at which the last compilations may begin. Later ones would not be of use.
static double feed_end(const Search *s) {
    if (s->o.mode >= TUNE_EXHAUSTIVE) return 0.9 * s->deadline;
    double mean = s->n_compiled ? s->compile_sum / s->n_compiled : s->deadline;
    return fmax(SEARCH_FEED_SHARE * s->deadline, (1 - SEARCH_RACE_SHARE) * s->deadline - 2 * mean);
}

/// Returns the factor on the best time up to which a prediction is worth compiling. It falls over
/// time. On a GPU, where many are compiled, it also falls while no better one is found. In the
/// background it starts low, so that the rest of the time stays with the program.
static double hoped_ratio(const Search *s) {
    double patience = s->exclusive ? 1 : fmax(0, 1 - (double)s->stale / PATIENCE);
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
    int best = rt_tournament_winner(s->tournament);
    for (int i = 0; i < s->space.n && best >= 0; i++)
        if (is_waiting(s, i) && count_differences(&s->space.at[i], &s->space.at[best]) == 1)
            return i;
    return -1;
}

/// The lowest order comes first: the standard candidate, then those of siblings, then others.
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
    if (s->closed || s->begun >= s->most) return -1;
    if (s->begun > 0 && search_seconds(s) > feed_end(s)) return -1;
    for (int i = 0; i < s->space.n; i++) {
        if (!is_waiting(s, i)) continue;
        double e = candidate_order(s, i);
        if (best >= 0 && e >= least) continue;
        best = i;
        least = e;
    }
    if (exhaustive || s->measured < ENOUGH || s->best <= 0 || least <= hoped_ratio(s) * s->best)
        return best;
    return next_neighbour(s);
}

/* ---- compiling ----------------------------------------------------------------------------- */

static double compile_seconds(const Search *s) {
    if (s->longest <= 0) return SEARCH_UNKNOWN_COMPILE;
    return fmax(SEARCH_COMPILE_LEAST, SEARCH_COMPILE_FACTOR * s->longest);
}

static bool begin_compile(Search *s, Hand *h, int id) {
    const TuneCandidate *c = &s->space.at[id];
    Request r = *s->r;
    r.n_set = c->n_set;
    r.set = c->set;
    r.n_known = 0;
    int error = processes_ask(s->processes, h, id, wire_write_request(s->ctx, &r), WIRE_ANSWER,
                              compile_seconds(s));
    s->begun++;
    s->batch--;
    s->runners[id].state = COMPILING;
    if (error)
        judge_candidate(s, id, TUNE_CRASHED,
                        ctx_format(s->ctx,
                                   "a helper cannot be started: %s; set TG_SERVER to the program "
                                   "'tegula'",
                                   strerror(error)));
    return !error;
}

/// On a CPU, compiling stops before timing starts. Timing also waits for the interpreter.
static bool may_compile(const Search *s) {
    return !s->exclusive || (!s->measuring && (s->batch > 0 || s->oracle == ORACLE_BUSY));
}

/// Gives idle helpers the most promising candidates. The standard one comes first, since the others
/// are checked against it. Then a helper asks the interpreter.
static void feed_helpers(Search *s) {
    if (s->over || !may_compile(s)) return;
    for (int i = 0; i < s->processes->n; i++) {
        Hand *h = &s->processes->helpers[i];
        if (h->busy || !may_compile(s)) continue;
        if (s->begun && oracle_is_wanted(s)) {
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

/// Of two equal candidates, the one that was measured already represents both, or else the first
/// one. Its results count for both.
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
    s->compile_sum += e->seconds;
    s->n_compiled++;
    s->longest = fmax(s->longest, e->seconds);
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
    if (s->best <= 0) return fmax(10, s->o.budget);
    return launches * fmax(SEARCH_LAUNCH_LEAST, SEARCH_LAUNCH_FACTOR * s->best) + 1;
}

static void worker_failed(Search *s, int error) {
    s->lost = ctx_format(s->ctx,
                         "the worker cannot be started: %s; set TG_SERVER to the program "
                         "'tegula'",
                         strerror(error));
    s->over = true;
}

static void open_worker(Search *s) {
    s->worker++;
    s->ready = s->referenced = false;
    s->turn = -1;
    int error = workers_open(s, SEARCH_START_SECONDS + 2 * s->space.bytes / SEARCH_CHECK_RATE);
    if (error) worker_failed(s, error);
}

/// launches: a number, or WORK_CHECK, WORK_CONFIRM, WORK_WARM.
static void try_code(Search *s, int id, int launches) {
    Runner *u = &s->runners[id];
    WorkTry t = {.id = id, .launches = launches};
    if (u->loaded != s->worker) t.answer = u->answer;
    if (s->told != s->worker) t.expected = s->expected;
    s->told = s->worker;
    u->loaded = s->worker;
    s->asked = launches;
    double more = 1 + s->space.bytes / SEARCH_CHECK_RATE;
    s->turn = id;
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

/// Whether a helper is compiling, and has not taken so long that waiting is pointless.
static bool is_compiling(const Search *s) {
    double least = fmax(SEARCH_STUCK_LEAST, SEARCH_STUCK_FACTOR * s->longest);
    for (int i = 0; i < s->processes->n; i++) {
        const Hand *h = &s->processes->helpers[i];
        if (!h->busy) continue;
        if (h->id == ORACLE_ID || s->longest <= 0 || h->clock.seconds < least) return true;
    }
    return false;
}

/// Closes the tournament if no more candidates will come.
static void close_tournament(Search *s) {
    if (s->closed) return;
    if (is_compiling(s) || find_unseen(s) >= 0 || next_candidate(s) >= 0) return;
    s->closed = true;
    rt_tournament_close(s->tournament);
}

/// After the tournament, confirms the winner's whole result and races it on warm caches. If it
/// fails, the next one follows.
static bool settle_winner(Search *s) {
    int winner = rt_tournament_winner(s->tournament);
    Runner *u = winner < 0 ? NULL : &s->runners[winner];
    s->over = !u || search_is_fit(s, winner);
    if (!s->over)
        try_code(s, winner, !u->checked ? WORK_CHECK : !u->confirmed ? WORK_CONFIRM : WORK_WARM);
    return true;
}

/// The placement of a CPU's threads and arguments can make the default slow for a process's whole
/// life. So a candidate that is about to beat it has to do so in a second worker, too.
static bool renew_worker(Search *s) {
    if (!s->exclusive || !s->heat.runoff || s->renewed) return false;
    if (s->runoff <= 0) s->runoff = search_seconds(s);
    if (search_seconds(s) - s->runoff < SEARCH_DOUBT_SHARE / 2 * s->deadline ||
        rt_tournament_winner(s->tournament) == 0)
        return false;
    s->renewed = s->kept = true;
    rt_tournament_doubt(s->tournament, search_seconds(s));
    processes_dismiss_workers(s->processes);
    open_worker(s);
    return true;
}

/// Makes the next step of the tournament. False: it waits for candidates. In the runoff only
/// checked candidates may have times, so the turn is kept until the check is done.
static bool step_tournament(Search *s) {
    close_tournament(s);
    if (!s->kept) s->heat = rt_tournament_step(s->tournament, search_seconds(s));
    s->kept = false;
    if (s->heat.kind == RT_TOURNAMENT_OVER) return settle_winner(s);
    if (s->heat.kind != RT_TOURNAMENT_MEASURE) return false;
    if (renew_worker(s)) return true;
    s->kept = s->heat.runoff && !s->runners[s->heat.id].checked;
    try_code(s, s->heat.id, s->kept ? WORK_CHECK : s->heat.launches);
    return true;
}

/// Returns the number of candidates that a CPU compiles before timing. If compilations take long,
/// it leaves time for a few batches, because each batch's results guide the next one.
static int batch_size(const Search *s) {
    double mean = s->n_compiled ? s->compile_sum / s->n_compiled : 0;
    double fit = mean > 0 ? SEARCH_BATCH_SHARE * s->deadline * s->processes->n / mean : BATCH;
    return (int)fmin(fmax(fit, s->processes->n), BATCH * s->processes->n);
}

/// Makes the result with which all others are compared.
static void make_base(Search *s) {
    int id = oracle_base(s);
    if (id >= 0) s->base = id;
    if (id >= 0) try_code(s, id, WORK_CHECK);
    // The standard one is wrong, and so were all others.
    s->over |= id < 0 && s->runners[0].refuted && !is_compiling(s) && next_candidate(s) < 0;
}

/// Gives an idle worker its next work. The base's result comes first, since all others are compared
/// with it. It is checked again once the interpreter has answered.
static void drive_worker(Search *s) {
    if (s->over || processes_works(s->processes) || rest_left(s) > 0) return;
    if (!s->ready) {
        if (s->worker == 0) open_worker(s);
        return;
    }
    if (!s->referenced) {
        make_base(s);
        return;
    }
    if (s->exclusive && is_compiling(s)) return;
    if (s->exclusive && !s->measuring && s->batch > 0 && next_candidate(s) >= 0) return;
    s->measuring = s->exclusive;
    int id = find_unseen(s);
    if (!s->runners[s->base].checked || s->check >= 0) {
        try_code(s, s->runners[s->base].checked ? s->check : s->base, WORK_CHECK);
    } else if (id >= 0) {
        try_code(s, id, GLANCE);
    } else if (!step_tournament(s) && s->exclusive && !s->over) {
        s->measuring = false;
        s->batch = batch_size(s);
    }
}

/// The worker has ended or was killed. The next one needs the arguments and the base's result
/// again.
static void lost_worker(Search *s, const ProcessEvent *e) {
    bool late = e->talk == TALK_LATE;
    if (s->turn < 0) {
        s->lost = late ? "the worker did not start" : ctx_format(s->ctx, "the worker %s", e->why);
        s->over = true;
        return;
    }
    judge_candidate(
        s, s->turn, late ? TUNE_HUNG : TUNE_CRASHED,
        late ? ctx_format(s->ctx, "no result after %.2g s", e->seconds)
             : ctx_format(s->ctx, "the launch's process%s %s", workers_whose(s, e), e->why));
    if (!s->over) open_worker(s);
}

/// Starts the tournament with a deadline that leaves time to check its finalists.
static void start_tournament(Search *s, double check_seconds) {
    double all = SEARCH_RACE_END * s->o.budget,
           confirmed = all - s->space.bytes / SEARCH_CONFIRM_RATE;
    if (!s->exclusive) confirmed -= SEARCH_WARM_SHARE * s->o.budget;
    s->deadline = fmax(0.5 * all, confirmed - FINALISTS * check_seconds);
    rt_tournament_options tournament = {.capacity = s->space.n, .deadline = s->deadline};
    if (s->exclusive) tournament.doubt = SEARCH_DOUBT_SHARE * s->deadline;
    s->tournament = rt_tournament_start(s->tournament_memory, &tournament);
}

static void note_best(Search *s, int id, double seconds) {
    if (s->best > 0 && seconds >= s->best) return;
    s->best = seconds;
    s->best_id = id;
    if (s->better > 0 && seconds >= SEARCH_BETTER * s->better) return;
    s->better = seconds;
    s->stale = 0;
}

static void enter_tournament(Search *s, int id) {
    Runner *u = &s->runners[id];
    if (u->checked) note_best(s, id, u->glance);
    u->state = RACING;
    if (!rt_tournament_add(s->tournament, id, u->glance))
        judge_candidate(s, id, TUNE_NOT_REACHED, "the finalists were chosen");
}

/// The base is checked before its glance, other candidates after theirs. The base's first check
/// runs twice as many launches; it tells how long other checks take. The tournament is still empty
/// then.
static void take_check(Search *s, int id, const WorkReport *report, double seconds) {
    Runner *u = &s->runners[id];
    if (id == s->base && !s->timed) start_tournament(s, seconds / 2);
    s->timed |= id == s->base;
    s->check = -1;
    s->referenced |= id == s->base;
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
    u->beside = s->best > 0 ? s->best_id : -1;
    u->times = s->best > 0 ? least / s->best : 1;
    s->measured++;
    s->stale++;
    if (id > 0 && s->best > 0 &&
        least > SEARCH_FAR_SLOWER * s->best + (s->exclusive ? SEARCH_HOST_NOISE : 0)) {
        u->trial.launches = report->n;
        judge_candidate(
            s, id, TUNE_SLOWER,
            ctx_format(s->ctx, "%.3g times as long as the best one had taken", u->times));
    } else if (!u->checked && least < SEARCH_PROMISING * s->best) {
        s->check = id;
    } else {
        enter_tournament(s, id);
    }
}

/// A new leader is checked, since others would be compared with a possibly wrong one.
static void take_times(Search *s, int id, const WorkReport *report) {
    rt_tournament_report(s->tournament, id, report->seconds, report->n, search_seconds(s));
    int leader = rt_tournament_winner(s->tournament);
    double seconds = rt_tournament_seconds(s->tournament, id);
    if (leader >= 0 && !s->runners[leader].checked) s->check = leader;
    if (s->runners[id].checked && seconds > 0) note_best(s, id, seconds);
}

/// The tournament times launches with empty caches, which few programs have. So the winner must not
/// be slower with warm ones.
static void take_warm(Search *s, int id, double times) {
    s->runners[id].warm = times <= 1 + RT_TOURNAMENT_CLOSE;
    if (!s->runners[id].warm)
        judge_candidate(s, id, TUNE_SLOWER,
                        ctx_format(s->ctx,
                                   "with warm caches it takes %.3g times as long as the default",
                                   times));
}

static void on_work_event(Search *s, const ProcessEvent *e) {
    WorkReport report;
    if (e->talk != TALK_OK) {
        begin_rest(s, e->seconds, NULL);
        lost_worker(s, e);
        return;
    }
    bool read = work_read_report(s->ctx, e->body, &report);
    if (s->turn >= 0 && read) begin_rest(s, e->seconds, &report);
    if (!read) {
        s->lost = "the worker is not of this version";
        s->over = true;
    } else if (s->turn < 0) {
        s->ready = report.ok;
        s->lost = report.ok ? NULL : report.why;
        s->over |= !report.ok;
    } else if (!report.ok) {
        s->runners[s->turn].refuted = report.refuted;
        judge_candidate(s, s->turn, report.verdict, report.why);
        if (report.refuted && s->turn == s->base) oracle_replace_base(s);
        if (report.lost) processes_dismiss_workers(s->processes);
        if (report.lost && !s->over) open_worker(s);
    } else if (s->asked == WORK_CONFIRM) {
        s->runners[s->turn].confirmed = true;
    } else if (s->asked == WORK_WARM) {
        take_warm(s, s->turn, report.n ? report.seconds[0] : 1);
    } else if (s->asked > 0 && s->runners[s->turn].state == COMPILED) {
        take_glance(s, s->turn, &report);
    } else if (s->asked > 0) {
        take_times(s, s->turn, &report);
    } else {
        take_check(s, s->turn, &report, e->seconds);
    }
}

bool search_is_stopped(const Search *s) {
    return s->o.stop && atomic_load(s->o.stop);
}

static bool is_confirming(const Search *s) {
    return processes_works(s->processes) && s->turn >= 0 && s->asked < WORK_CHECK;
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
        if (compiled_for(s, i) > fmax(SEARCH_COMPILE_LEAST, 4 * s->longest))
            u->trial.verdict = TUNE_HUNG;
        u->trial.why = "the time was up while it was compiled";
    }
}

void search_open(Search *s) {
    s->batch = batch_size(s);
    drive_worker(s);
}

/// Returns the seconds until there may be work that does not come from an event of the processes.
static double wait_seconds(const Search *s) {
    double rest = rest_left(s), left = (is_confirming(s) ? SEARCH_LATE : 1) * s->o.budget;
    return fmin(SEARCH_TICK, rest > 0 ? rest : fmax(left - search_seconds(s), 0));
}

void search_run(Search *s) {
    start_tournament(s, 0);
    while (!s->over && !search_is_stopped(s) &&
           search_seconds(s) < (is_confirming(s) ? SEARCH_LATE : 1) * s->o.budget) {
        feed_helpers(s);
        drive_worker(s);
        if (s->over) break;
        ProcessEvent e = processes_wait(s->processes, rt_seconds() + wait_seconds(s));
        if (e.talk == TALK_OTHER) {
            s->lost = e.why;
            s->over = true;
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
