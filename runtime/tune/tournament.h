// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tournaments find the fastest of several candidates from noisy times.
//
// A tournament is a state machine. It names the next measurement; the caller measures, here or in
// another process, and reports. It has no clock, allocates nothing and cannot fail. Candidates may
// arrive and drop out at any time.
//
// Times are compared only within *heats*: a few candidates measured one after another. A
// disturbance of all of them (a lower clock, a busy neighbour) cancels out. At first a candidate
// leaves if it was slower than the best one in each of its heats; with more heats, a smaller
// difference suffices. The better half of the rest stays, again and again, for more heats. The last
// few and the default meet in a *runoff*. Only its heats count, so a lucky early measurement does
// not win. The tournament ends when the winner is shown to be as good as the best of them.
#ifndef RUNTIME_TUNE_TOURNAMENT_H
#define RUNTIME_TUNE_TOURNAMENT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rt_tournament rt_tournament;

typedef struct rt_tournament_options {
    int capacity;    // upper bound of ids
    double close;    // times that differ by at most this part are equal; 0: RT_TOURNAMENT_CLOSE
    double deadline; // on the caller's clock, in seconds; 0: none
    double doubt;    // seconds of a runoff before the default may lose, as a guard against a
                     // passing state of the machine
} rt_tournament_options;

/// Returns the size of the memory for a tournament of `capacity` candidates, aligned as malloc
/// does.
size_t rt_tournament_bytes(int capacity);
rt_tournament *rt_tournament_start(void *memory, const rt_tournament_options *options);

/// Adds a candidate. Id 0 is the default, which wins unless it is shown to be slower; among other
/// equals the lowest id wins. predicted: the seconds of a launch, for example of its check; 0:
/// unknown. Returns false if the runoff has begun or the id exists.
bool rt_tournament_add(rt_tournament *tournament, int id, double predicted);
/// No more candidates will arrive.
void rt_tournament_close(rt_tournament *tournament);

/// The default of `close`.
#define RT_TOURNAMENT_CLOSE 0.01

typedef enum rt_tournament_kind {
    RT_TOURNAMENT_MEASURE, // measure turn.launches times of turn.id, then call rt_tournament_report
                           // or rt_tournament_drop
    RT_TOURNAMENT_WAIT,    // wait for a candidate, or for rt_tournament_close
    RT_TOURNAMENT_OVER,
} rt_tournament_kind;

typedef struct rt_tournament_turn {
    rt_tournament_kind kind;
    int id, launches;
    bool runoff;
    double until; // for WAIT: call again by then; 0: no deadline
} rt_tournament_turn;

/// The next action. now: on the caller's clock.
rt_tournament_turn rt_tournament_step(rt_tournament *tournament, double now);
/// Reports the seconds of each launch of the last turn. Without times, or with an invalid one, the
/// candidate drops out.
void rt_tournament_report(rt_tournament *tournament, int id, const double *seconds, int n,
                          double now);
/// Removes a candidate that crashed, hung or was wrong.
void rt_tournament_drop(rt_tournament *tournament, int id);

/// A new process measures from now on, and earlier times may be specific to the old one. The
/// default may lose only after `doubt` more seconds.
void rt_tournament_doubt(rt_tournament *tournament, double now);

/// The best candidate so far, at the end the winner; -1: none.
int rt_tournament_winner(const rt_tournament *tournament);

typedef struct rt_tournament_figures {
    double seconds;   // of a launch: the median; 0: not measured
    double low, high; // the 95 % interval of the median
    double multiple;  // relative to the default, in their common heats
    int launches;     // in all
    bool beaten;      // shown to be slower than another one
} rt_tournament_figures;

/// The figures of a candidate. All times refer to the same conditions.
rt_tournament_figures rt_tournament_figures_of(const rt_tournament *tournament, int id);
/// Only the seconds of these figures, without sorting all times.
double rt_tournament_seconds(const rt_tournament *tournament, int id);

#endif
