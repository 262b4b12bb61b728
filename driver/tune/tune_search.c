// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search: candidates are compiled by helpers, checked and timed by a worker, raced here.
//
//     waiting --compile--> compiled --glance--> racing --> won, tie, slower
//        |                    |                   |  ^
//        not reached          refused, crashed,   check: wrong
//                             hung, failed
//
// A glance is a few launches, which tell most candidates from those that matter. A check compares
// results, which takes longer than many launches; it is for those that may win: before a candidate
// that looks as fast as the best one is in the tournament, and before a runoff has its times. A
// check looks at pieces of large results; at the end the winner's are looked at whole.
//
// On a GPU all of that goes on at once. On a CPU the helpers rest while something is timed: they
// would take the cores that the kernel is to have.
//
// In the background the worker is at work for TG_TUNE_SHARE of the time: after each thing that it
// did it rests. What it did is all that counts of the budget: a helper at low priority may take
// long for what takes little of the machine.
//
// Which candidate is next: what won on other machines (tune_sibling.c), which may be all that is
// needed, then the one of which most is expected (tune_expect.c). At first whatever may
// be of use is compiled, towards the end only what is expected to be close to the best one, and
// what differs from that in one value.
#include "driver/tune/tune_search.h"
#include "passes/model.h"
#include "runtime/tune/trial.h"

#include <math.h>
#include <string.h>

enum {
    BATCH = 6,      // candidates that a CPU compiles before it times them, for each helper
    ENOUGH = 12,    // measured, before the search may end by itself
    CHECK_RUNS = 6, // launches of a check, at most
    GLANCE = 3,     // launches; an odd number
    FINALISTS = 4,  // that may have to be checked at the end
    PATIENCE = 60,  // measured on a GPU without a better one: the search is decided
};

double search_seconds(const Search *s) {
    return s->o.mode == TUNE_BACKGROUND ? s->worked : child_seconds() - s->start;
}

/// Seconds that are left of a rest, or none.
static double rest_left(const Search *s) {
    return s->rests_until - child_seconds();
}

/// After the worker was at work for so long. On a CPU that others have, too, it is less that it
/// took of it.
static void begin_rest(Search *s, double busy, const WorkReport *report) {
    if (report && s->exclusive) busy = fmin(busy, report->computed / fmax(1, s->r->threads));
    s->worked += busy;
    if (s->o.mode != TUNE_BACKGROUND) return;
    s->rests_until = child_seconds() + rt_rest(busy, s->share);
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

/// When the last candidates are begun: those that are compiled after it are of no use.
static double feed_end(const Search *s) {
    if (s->o.mode >= TUNE_EXHAUSTIVE) return 0.9 * s->deadline;
    double mean = s->n_compiled ? s->compile_sum / s->n_compiled : s->deadline;
    return fmax(SEARCH_FEED_SHARE * s->deadline, (1 - SEARCH_RACE_SHARE) * s->deadline - 2 * mean);
}

/// Times the best one's time: what is expected to take longer is not worth it now. It falls with
/// the time, and on a GPU, where many are compiled, as nothing better is found. Searches in the
/// background leave the rest of their time to the program.
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

/// What differs from the best one in one value; -1: all of that was tried.
static int next_neighbour(const Search *s) {
    int best = rt_tournament_winner(s->tournament);
    for (int i = 0; i < s->space.n && best >= 0; i++)
        if (is_waiting(s, i) && count_differences(&s->space.at[i], &s->space.at[best]) == 1)
            return i;
    return -1;
}

/// The least is the next one: the standard one, those of siblings, then others.
static double candidate_order(const Search *s, int id) {
    if (id == 0) return -2;
    if (s->runners[id].trial.sibling) return -1;
    return s->o.mode >= TUNE_EXHAUSTIVE ? id : expect_seconds(s, id);
}

/// -1: none is worth it, or the time is up.
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

/// On a CPU, until something is timed, which waits for the interpreter, too.
static bool may_compile(const Search *s) {
    return !s->exclusive || (!s->measuring && (s->batch > 0 || s->oracle == ORACLE_BUSY));
}

/// Gives idle helpers the most promising candidates. The standard one goes first: without it there
/// is nothing to check others against. Then the interpreter is asked.
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

/// Another candidate with the same code, byte for byte, that stands for both; -1: none.
static int same_code(const Search *s, int id) {
    for (int i = 0; i < s->space.n; i++)
        if (i != id && s->runners[i].answer.n && !s->runners[i].same &&
            memcmp(&s->runners[i].code, &s->runners[id].code, sizeof(StoreKey)) == 0)
            return i;
    return -1;
}

/// Of two that are the same the first one stays, or the one that was looked at already: what is
/// known of that is known of both.
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

/// How long so many launches may take.
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

/// launches: or WORK_CHECK, WORK_CONFIRM, WORK_WARM.
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

/// A compiled candidate that nobody has looked at yet; -1: none.
static int find_unseen(const Search *s) {
    for (int i = 0; i < s->space.n; i++)
        if (s->runners[i].state == COMPILED && s->runners[i].glance <= 0) return i;
    return -1;
}

/// A helper is at work, and not for so long that nobody should wait for it.
static bool is_compiling(const Search *s) {
    double least = fmax(SEARCH_STUCK_LEAST, SEARCH_STUCK_FACTOR * s->longest);
    for (int i = 0; i < s->processes->n; i++) {
        const Hand *h = &s->processes->helpers[i];
        if (!h->busy) continue;
        if (h->id == ORACLE_ID || s->longest <= 0 || h->clock.seconds < least) return true;
    }
    return false;
}

/// No more will come: the tournament may end.
static void close_tournament(Search *s) {
    if (s->closed) return;
    if (is_compiling(s) || find_unseen(s) >= 0 || next_candidate(s) >= 0) return;
    s->closed = true;
    rt_tournament_close(s->tournament);
}

/// The tournament is over: its winner is looked at whole, and raced by caches are warm; where it
/// fails the next one is.
static bool settle_winner(Search *s) {
    int winner = rt_tournament_winner(s->tournament);
    Runner *u = winner < 0 ? NULL : &s->runners[winner];
    s->over = !u || search_is_fit(s, winner);
    if (!s->over)
        try_code(s, winner, !u->checked ? WORK_CHECK : !u->confirmed ? WORK_CONFIRM : WORK_WARM);
    return true;
}

/// Where a CPU's threads and arguments came to lie can make the default slow for as long as the
/// process lives: who is about to win over it has to do so in a second one, too.
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

/// The next step of the tournament; false: it waits for candidates. Nobody who was not checked has
/// times in the runoff: the turn is kept until the check is done.
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

/// Candidates that a CPU compiles before it times them. Of those that take long so many that there
/// is time for a few batches: what one teaches is to choose the next one.
static int batch_size(const Search *s) {
    double mean = s->n_compiled ? s->compile_sum / s->n_compiled : 0;
    double fit = mean > 0 ? SEARCH_BATCH_SHARE * s->deadline * s->processes->n / mean : BATCH;
    return (int)fmin(fmax(fit, s->processes->n), BATCH * s->processes->n);
}

/// The result that all others are checked against.
static void make_base(Search *s) {
    int id = oracle_base(s);
    if (id >= 0) s->base = id;
    if (id >= 0) try_code(s, id, WORK_CHECK);
    // The standard one is wrong, and so is all that there was.
    s->over |= id < 0 && s->runners[0].refuted && !is_compiling(s) && next_candidate(s) < 0;
}

/// Something to do for the worker, if there is something. The standard result comes first: all
/// others are checked against it. It is checked again when the interpreter has said what is right.
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

/// The worker ended, or had to: the next one has to have the arguments and the standard result.
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

/// The tournament has to end early enough for its finalists to be checked.
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

/// The base is checked before it is glanced at, others after it. Its first check, in which it runs
/// twice as often, tells how long others take; nobody is in the tournament by then.
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

/// Who leads is checked, or others would be compared with something that is perhaps wrong.
static void take_times(Search *s, int id, const WorkReport *report) {
    rt_tournament_report(s->tournament, id, report->seconds, report->n, search_seconds(s));
    int leader = rt_tournament_winner(s->tournament);
    double seconds = rt_tournament_seconds(s->tournament, id);
    if (leader >= 0 && !s->runners[leader].checked) s->check = leader;
    if (s->runners[id].checked && seconds > 0) note_best(s, id, seconds);
}

/// Times of the tournament are those behind empty caches, which few programs have.
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

/// Seconds that a helper has been at it, by its clock.
static double compiled_for(const Search *s, int id) {
    for (int i = 0; i < s->processes->n; i++)
        if (s->processes->helpers[i].busy && s->processes->helpers[i].id == id)
            return s->processes->helpers[i].clock.seconds;
    return 0;
}

/// What is still compiled when the search ends.
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

/// Until there may be something to do for others than the crew.
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
        ProcessEvent e = processes_wait(s->processes, child_seconds() + wait_seconds(s));
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
