// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of a search, as its files share it.
#ifndef DRIVER_TUNE_TUNE_SEARCH_H
#define DRIVER_TUNE_TUNE_SEARCH_H

#include "cache/store.h"
#include "driver/tune/tune_processes.h"
#include "runtime/tune/tournament.h"

/// COMPILED: to be glanced at, or to be checked.
typedef enum State { WAITING, COMPILING, COMPILED, RACING, DONE } State;

typedef struct Runner {
    State state;
    Bytes answer;   // the body of the compiler's
    StoreKey code;  // a hash of the code
    int loaded;     // of which worker, by its number
    bool same;      // as another one
    double glance;  // the least seconds of the first launches; 0: none yet
    int beside;     // the best one at that time; -1: there was none
    double times;   // its seconds then that the glance is
    double before;  // seconds by an earlier search, 0: it did not measure it
    bool checked;   // its result is right
    bool refuted;   // the interpreter says that it is not
    bool confirmed; // all of it
    bool warm;      // on warm caches it is not slower than the standard one
    int base;       // the candidate of the same setting without values of axes
    TuneTrial trial;
} Runner;

/// A helper is to ask the interpreter, does so, has done so.
typedef enum OracleState { ORACLE_TODO, ORACLE_BUSY, ORACLE_DONE } OracleState;

typedef struct Search {
    Ctx *ctx;
    const Request *r;
    TuneOptions o;
    TuneSpace space;
    Runner *runners;
    SearchProcesses *processes;
    rt_tournament *tournament;
    void *tournament_memory;
    bool exclusive;  // compiling and timing take turns
    bool measuring;  // then: whose turn it is
    int batch;       // compilations left of this turn
    int begun, most; // compilations, the most
    int measured;    // glanced at
    int stale;       // of these, since the best one was last found to be better, by more than noise
    int best_id;     // the fastest right one so far, whose seconds are `best`
    double better;   // its seconds then
    int n_compiled;  // and how long that took
    double compile_sum;
    int check;       // to be checked next; -1: none
    int worker;      // its number; 0: none yet
    bool ready;      // the worker has the arguments
    bool referenced; // and the result that others are compared with
    int base;        // whose: 0, the standard one, unless that is refuted
    bool timed;      // the base was checked, so that the tournament knows its deadline
    OracleState oracle;
    bool mild;               // the numbers that it is asked about
    Bytes expected;          // what it said, unless that is nothing
    int told;                // the worker that was told so, by its number
    const char *judged;      // TuneResult.judged
    int turn;                // what the worker does: a candidate, -1 opening
    rt_tournament_turn heat; // of that candidate, when it is timed
    int asked;               // of the worker: launches, or WORK_CHECK, WORK_CONFIRM, WORK_WARM
    bool kept;               // the turn of the tournament waits for a check, or a process
    double runoff;           // when the runoff began; 0: it did not
    bool renewed;            // the worker is a second one, since then
    double deadline;         // of the tournament, in seconds from the start
    bool closed, over;
    TuneResult earlier; // of a search before
    bool has_earlier, same_source;
    Bytes *opens, *bodies;       // of each worker: what opens it, what it answered
    const char *meet;            // where workers of ranks do
    double start, longest, best; // best: seconds of the fastest right one so far, 0: none
    double share;                // of the time, that the worker may be at work in the background
    double worked, rests_until;  // seconds that the worker was at work; when it is again
    const char *lost;            // why there is no result
} Search;

/* ---- tune_search.c -------------------------------------------------------------------------- */

/// Seconds since it began; in the background those in which the worker was at work.
double search_seconds(const Search *s);
bool search_is_stopped(const Search *s);
/// It may win: its result was seen to be right, all of it, and it is not slower than the standard
/// one in any way that was looked at. That one, or what stands for it, is what others are compared
/// with.
bool search_is_fit(const Search *s, int id);
/// Starts the worker.
void search_open(Search *s);
/// Until the tournament is over, or the time; after the candidates are listed.
void search_run(Search *s);

/* ---- tune_workers.c: the workers of all ranks, taken as one ---------------------------------- */

/// Before the first of them is opened.
void workers_prepare(Search *s);
/// 0 or an errno, like processes_ask, for all of them.
int workers_open(Search *s, double seconds);
int workers_ask(Search *s, int id, Bytes message, double seconds);
/// What one of them answered becomes what all did; false: others are at it. Where one is gone, or
/// cannot be opened, all are dismissed.
bool workers_answer(Search *s, ProcessEvent *e);
/// " of rank 1", where there are several.
const char *workers_whose(const Search *s, const ProcessEvent *e);
/// When none runs any more.
void workers_end(const Search *s);

/* ---- tune_oracle.c: the interpreter's opinion ------------------------------------------------ */

enum { ORACLE_ID = -2 }; // what a helper works on
/// Nobody has asked for it yet, and it is of use.
bool oracle_is_wanted(const Search *s);
/// Has a helper that is idle ask; what comes of that.
void oracle_begin(Search *s, Hand *helper);
void oracle_take(Search *s, const ProcessEvent *e);
/// The reference has run: on which numbers.
void oracle_note_mild(Search *s, bool mild);
/// The base is wrong: all that was compared with it is checked anew, against another one.
void oracle_replace_base(Search *s);
/// Who is to be the base: the standard one, or where that is refuted the first one that there is;
/// -1: none yet.
int oracle_base(const Search *s);

/* ---- tune_space.c ---------------------------------------------------------------------------- */

/// Names of which two candidates have different values, or only one has a value.
int count_differences(const TuneCandidate *a, const TuneCandidate *b);

/* ---- tune_history.c -------------------------------------------------------------------------- */

void history_load(Search *s);
/// What is known already, so that there is nothing to search for. Launches take what was found for
/// shapes near theirs, too; the command has each searched for as long as it was asked to.
bool history_knows(const Search *s, TuneResult *out);
/// Of the same sources: what need not be compiled again is done.
void history_list(Search *s);
/// Of changed ones: a candidate that was compiled is what it was, and need not be measured again.
bool history_has_code(Search *s, int id);
/// Seconds of a launch now, by what was measured before; 0: nothing was.
double history_seconds(const Search *s, int id);

/* ---- tune_sibling.c -------------------------------------------------------------------------- */

/// What won on other machines is a candidate here, and comes first. Before runners are listed.
void sibling_list(Search *s);

/* ---- tune_expect.c -------------------------------------------------------------------------- */

/// Finds the base of each candidate.
void expect_prepare(Search *s);
/// Seconds of a launch as far as they are known; 0: not at all.
double expect_known(const Search *s, int id);
/// Seconds that a candidate is expected to take; 0 where the model has none for it.
double expect_seconds(const Search *s, int id);

#endif
