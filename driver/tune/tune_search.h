// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of a search, shared by its files: the phase, and a struct for each subject (compiling,
// the worker, time, checks, the tournament, the best candidate, the interpreter, earlier results).
#ifndef DRIVER_TUNE_TUNE_SEARCH_H
#define DRIVER_TUNE_TUNE_SEARCH_H

#include "cache/store.h"
#include "driver/tune/tune_processes.h"
#include "runtime/tune/tournament.h"

/// The state of one candidate. COMPILED: waits for a glance or a check.
typedef enum RunnerState { WAITING, COMPILING, COMPILED, RACING, DONE } RunnerState;

typedef struct Runner {
    RunnerState state;
    Bytes answer;   // body of the compiler's answer
    StoreKey code;  // hash of the code
    int loaded;     // number of the worker that has the code
    bool same;      // has the same code as another one
    double glance;  // least seconds of the first launches; 0: none yet
    int beside;     // the best candidate at that time; -1: none
    double times;   // glance / the best one's seconds at that time
    double before;  // seconds in an earlier search; 0: not measured
    bool checked;   // its result is right
    bool refuted;   // the interpreter contradicts its result
    bool confirmed; // its whole result is right
    bool warm;      // not slower than the standard one on warm caches
    int base;       // the candidate of the same setting without axes
    TuneTrial trial;
} Runner;

/// The phase of a search. search_enter makes every change.
///
///     phase        work of the worker                        the next phase
///     STARTING     there is none yet                         OPENING, at once
///     OPENING      starts and takes the arguments            REFERENCE, when it has them
///     REFERENCE    makes the base's result                   MEASURING, when it is right
///     MEASURING    glances, checks, the tournament's turns   SETTLING, after the tournament
///     SETTLING     the winner: whole result, warm caches     MEASURING, if the winner fails
///     OVER         none: the search ends                     none
///
/// From any phase, OVER follows if the search cannot go on. From a phase with a ready worker,
/// OPENING follows if the worker is lost or renewed, and REFERENCE if the base is refuted. Helpers
/// compile in all phases but OVER; on a CPU, SearchFeed says whose turn it is.
typedef enum SearchPhase {
    PHASE_STARTING,
    PHASE_OPENING,
    PHASE_REFERENCE,
    PHASE_MEASURING,
    PHASE_SETTLING,
    PHASE_OVER,
} SearchPhase;

/// The compilations by helpers.
typedef struct SearchFeed {
    int begun, most; // so far, and their limit
    int batch;       // left in this turn
    bool paused;     // on a CPU: it is the worker's turn, so helpers start no work
    int compiled;    // compilations that ended, the sum of their seconds, and the longest
    double seconds, longest;
} SearchFeed;

/// The worker, or the workers of all ranks, taken as one.
typedef struct SearchWorker {
    int number;            // of those so far; 0: none yet
    int turn;              // its work: a candidate; -1: opening
    int asked;             // launches of that work, or WORK_CHECK, WORK_CONFIRM, WORK_WARM
    Bytes *opens, *bodies; // opening message and answer of each rank's
    const char *meet;      // meeting place of ranks' workers
} SearchWorker;

/// The time that counts for the budget.
typedef struct SearchClock {
    double start;
    double share;               // of the time, for the worker in the background
    double worked, rests_until; // busy seconds of the worker; end of its rest
} SearchClock;

/// Results of candidates are compared with the base's.
typedef struct SearchChecks {
    int base; // 0, the standard candidate, unless it is refuted
    int next; // candidate to check; -1: none
} SearchChecks;

typedef struct SearchRace {
    rt_tournament *tournament;
    void *memory;            // of the tournament
    double deadline;         // in seconds from the start
    bool timed;              // the base was checked, which decides the deadline
    bool closed;             // no candidate will join any more
    rt_tournament_turn heat; // the heat's turn of the candidate that the worker times
    bool kept;               // this turn waits for a check or a process
    double runoff;           // start of the runoff; 0: not yet
    bool renewed;            // a second worker was started for the runoff
} SearchRace;

/// The fastest right candidate so far.
typedef struct SearchBest {
    int id;
    double seconds; // 0: none yet
    double better;  // seconds when it last improved beyond noise
    int measured;   // candidates with a glance
    int stale;      // of these, since then
} SearchBest;

/// The request to the interpreter: not made, in progress, done.
typedef enum OracleState { ORACLE_TODO, ORACLE_BUSY, ORACLE_DONE } OracleState;

typedef struct SearchOracle {
    OracleState state;
    bool mild;          // kind of the random numbers
    Bytes expected;     // the answer, if it has one
    int told;           // number of the worker that has the answer
    const char *judged; // TuneResult.judged
} SearchOracle;

/// The result of an earlier search of the same shape.
typedef struct SearchEarlier {
    TuneResult result;
    bool known, same_source;
} SearchEarlier;

typedef struct Search {
    Ctx *ctx;
    const Request *r;
    TuneOptions o;
    TuneSpace space;
    Runner *runners; // one for each candidate of the space
    SearchProcesses *processes;
    bool exclusive; // on a CPU, compiling and timing take turns
    SearchPhase phase;
    const char *lost; // the reason for a missing result
    SearchFeed feed;
    SearchWorker worker;
    SearchClock clock;
    SearchChecks checks;
    SearchRace race;
    SearchBest best;
    SearchOracle oracle;
    SearchEarlier earlier;
} Search;

/* ---- tune_search.c -------------------------------------------------------------------------- */

/// Returns the seconds since the start; in the background, the busy seconds of the worker.
double search_seconds(const Search *s);
bool search_is_stopped(const Search *s);
/// Whether a candidate may win: its whole result is right, and it is not slower than the standard
/// one in any measurement. For the standard one, or the base in its place, it is enough to be
/// right.
bool search_is_fit(const Search *s, int id);
/// Changes the phase, except from OVER.
void search_enter(Search *s, SearchPhase to);
/// Starts the worker.
void search_open(Search *s);
/// Searches until the tournament or the time is over. Candidates must be listed.
void search_run(Search *s);

/* ---- tune_workers.c: the workers of all ranks, taken as one ---------------------------------- */

/// Prepares the messages. Must precede workers_open.
void workers_prepare(Search *s);
/// Opens all workers. Returns 0 or an errno, like processes_ask.
int workers_open(Search *s, double seconds);
int workers_ask(Search *s, int id, Bytes message, double seconds);
/// Merges the answers of all workers into one. False: some are still busy. If one is gone or cannot
/// be opened, all are dismissed.
bool workers_answer(Search *s, ProcessEvent *e);
/// Returns " of rank 1" if there are several ranks.
const char *workers_whose(const Search *s, const ProcessEvent *e);
/// Call when no worker runs any more.
void workers_end(const Search *s);

/* ---- tune_oracle.c: the interpreter's opinion ------------------------------------------------ */

enum { ORACLE_ID = -2 }; // id of a helper's request to the interpreter
/// Whether the request was not made yet and is of use.
bool oracle_is_wanted(const Search *s);
/// Lets an idle helper ask the interpreter; takes its answer.
void oracle_begin(Search *s, Hand *helper);
void oracle_take(Search *s, const ProcessEvent *e);
/// Notes the kind of random numbers with which the base ran.
void oracle_note_mild(Search *s, bool mild);
/// Replaces a wrong base: all candidates compared with it are checked anew, against another base.
void oracle_replace_base(Search *s);
/// Returns the base: the standard candidate, or if that is refuted the first one available; -1:
/// none yet.
int oracle_base(const Search *s);

/* ---- tune_space.c ---------------------------------------------------------------------------- */

/// Counts the names whose values differ between two candidates, or exist in only one.
int count_differences(const TuneCandidate *a, const TuneCandidate *b);

/* ---- tune_history.c -------------------------------------------------------------------------- */

void history_load(Search *s);
/// Whether a known result makes the search unnecessary. For launches, a result for a similar shape
/// is enough. `tegula tune` wants a result for the very shape, from at least the requested budget.
bool history_knows(const Search *s, TuneResult *out);
/// Settles candidates that need no compilation, if the sources are the same.
void history_list(Search *s);
/// Settles a compiled candidate whose code has not changed, if the sources have.
bool history_has_code(Search *s, int id);
/// Estimates the seconds of a launch now from an earlier measurement; 0: none.
double history_seconds(const Search *s, int id);

/* ---- tune_sibling.c -------------------------------------------------------------------------- */

/// Puts the winners of other machines first among the candidates. Must precede the listing of
/// runners.
void sibling_list(Search *s);

/* ---- tune_expect.c -------------------------------------------------------------------------- */

/// Finds the base of each candidate.
void expect_prepare(Search *s);
/// Returns the measured seconds of a launch; 0: none.
double expect_known(const Search *s, int id);
/// Predicts the seconds of a candidate; 0: the model has no prediction.
double expect_seconds(const Search *s, int id);

#endif
