// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks the interpreter in a search whether results are right (oracle.h). A helper runs the
// interpreter while others compile. When its result arrives, all earlier checks are repeated. If
// the interpreter refutes the standard setting, the next candidate that it does not refute becomes
// the base. All candidates that were compared with the old base are then measured and checked anew.
#include "driver/remote/oracle.h"
#include "driver/tune/tune_search.h"

#define HOST_SHARE   0.05 // share of the budget; on a CPU the worker times nothing meanwhile
#define DEVICE_SHARE 0.15
#define MORE_SECONDS 0.3 // extra time until the helper counts as late

static double oracle_seconds(const Search *s) {
    double budget = s->o.budget < 60 ? s->o.budget : 60;
    return budget * (s->exclusive ? HOST_SHARE : DEVICE_SHARE);
}

bool oracle_is_wanted(const Search *s) {
    return s->oracle.state == ORACLE_TODO && !s->r->ranks.n;
}

static void know_nothing(Search *s, const char *why) {
    s->oracle.state = ORACLE_DONE;
    s->oracle.judged = ctx_format(s->ctx, "only with each other: %s", why);
}

void oracle_begin(Search *s, Hand *helper) {
    Bytes open = s->worker.opens[0];
    OracleAsk ask = {.open = {open.data + WIRE_HEADER, open.n - WIRE_HEADER},
                     .mild = s->oracle.mild,
                     .seconds = oracle_seconds(s)};
    s->oracle.state = ORACLE_BUSY;
    if (processes_ask(s->processes, helper, ORACLE_ID, oracle_write_ask(s->ctx, &ask),
                      WIRE_EXPECTED, ask.seconds + MORE_SECONDS))
        know_nothing(s, "no helper could be started for the interpreter");
}

void oracle_take(Search *s, const ProcessEvent *e) {
    Oracle o;
    s->oracle.state = ORACLE_DONE;
    if (e->talk == TALK_LATE) {
        know_nothing(s, "the interpreter takes too long");
    } else if (e->talk != TALK_OK || !oracle_read(s->ctx, e->body, &o)) {
        know_nothing(s, "the interpreter's process ended");
    } else if (o.expected.mild != s->oracle.mild) {
        s->oracle.state = ORACLE_TODO;
    } else if (!o.expected.n) {
        know_nothing(s, o.why ? o.why : "");
    } else {
        const char *of =
            o.programs ? ctx_format(s->ctx, "%d programs", o.programs) : "all programs";
        s->oracle.judged =
            ctx_format(s->ctx, "with %d elements of %s, by the interpreter", o.expected.n, of);
        s->oracle.expected = e->body;
        s->oracle.told = 0;
        for (int i = 0; i < s->space.n; i++) s->runners[i].checked = false;
    }
}

void oracle_note_mild(Search *s, bool mild) {
    if (mild == s->oracle.mild) return;
    s->oracle.mild = mild;
    s->oracle.expected = (Bytes){0};
    if (s->oracle.state == ORACLE_DONE) s->oracle.state = ORACLE_TODO;
}

int oracle_base(const Search *s) {
    RunnerState base = s->runners[s->checks.base].state;
    if (base == COMPILED || base == RACING) return s->checks.base;
    for (int i = 0; i < s->space.n && s->runners[0].refuted; i++)
        if (s->runners[i].state == COMPILED) return i;
    return -1;
}

/// Tries candidates again that were slower than a wrong base, or whose results differed from it.
static bool is_open_again(const Runner *u) {
    bool lost = u->trial.verdict == TUNE_WRONG || u->trial.verdict == TUNE_SLOWER;
    if (u->state == COMPILED || u->state == RACING) return true;
    return u->state == DONE && lost && !u->refuted && !u->same && u->answer.n;
}

void oracle_replace_base(Search *s) {
    for (int i = 0; i < s->space.n; i++) {
        Runner *u = &s->runners[i];
        if (!is_open_again(u)) continue;
        u->state = COMPILED;
        u->checked = u->confirmed = u->warm = false;
        u->glance = 0;
        u->trial.why = NULL;
        u->trial.verdict = TUNE_NOT_REACHED;
    }
    search_enter(s, PHASE_REFERENCE);
    s->race.timed = s->race.kept = s->race.closed = false;
    s->checks.next = -1;
    s->best.seconds = s->best.better = 0;
    s->best.stale = 0;
}
