// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Races: which of several candidates is the fastest, by times that are noisy.
//
// A state machine: it says what to measure next, the caller measures, here or in another process,
// and reports. It has no clock, takes no memory and does nothing that could fail. Candidates may
// arrive while it runs, and may drop out at any time.
//
// Times are compared within *heats* alone: a few candidates measured one after another. What is
// slow for all of them (a clock that drops, a busy neighbour) is then in no comparison. First,
// candidates that are slower than the best in each of their heats leave, the more heats the less
// slower; of those that remain the better half stays, in ever more heats. The last few and the
// default meet in a *runoff*, whose heats alone count, so that nobody wins by the luck of being
// looked at when it was quiet. It ends when the winner is shown to be as good as the best of them.
#ifndef RUNTIME_TUNE_TOURNAMENT_H
#define RUNTIME_TUNE_TOURNAMENT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rt_tournament rt_tournament;

typedef struct rt_tournament_options {
    int capacity; // ids are below it
    double
        close; // times of which one is at most this part longer are equal; 0: RT_TOURNAMENT_CLOSE
    double deadline; // on the caller's clock, in seconds; 0: none
    double doubt;    // seconds of a runoff, at least, in which the default loses: what is true of a
                     // moment may not be later
} rt_tournament_options;

/// The memory that a tournament of so many candidates needs, aligned as malloc does it.
size_t rt_tournament_bytes(int capacity);
rt_tournament *rt_tournament_start(void *memory, const rt_tournament_options *options);

/// A candidate can be measured from now on. Id 0 is the default, which wins where it is not shown
/// to be slower; of others that are equal the least id wins. predicted: seconds of a launch, say of
/// the one that checked its result; 0: unknown. False: the runoff has begun, or it was there.
bool rt_tournament_add(rt_tournament *tournament, int id, double predicted);
/// No more will come.
void rt_tournament_close(rt_tournament *tournament);

/// Times of which one is at most this part longer are equal, where nobody says otherwise.
#define RT_TOURNAMENT_CLOSE 0.01

typedef enum rt_tournament_kind {
    RT_TOURNAMENT_MEASURE, // turn.id, turn.launches times; rt_tournament_report or
                           // rt_tournament_drop follows
    RT_TOURNAMENT_WAIT,    // for a candidate, or the end of them
    RT_TOURNAMENT_OVER,
} rt_tournament_kind;

typedef struct rt_tournament_turn {
    rt_tournament_kind kind;
    int id, launches;
    bool runoff;
    double until; // of WAIT: when to ask again at the latest; 0: there is no deadline
} rt_tournament_turn;

/// What to do next. now: on the caller's clock.
rt_tournament_turn rt_tournament_step(rt_tournament *tournament, double now);
/// The seconds of each launch of the last turn. None, or one that is no time: it drops out.
void rt_tournament_report(rt_tournament *tournament, int id, const double *seconds, int n,
                          double now);
/// It crashed, hung or was wrong.
void rt_tournament_drop(rt_tournament *tournament, int id);

/// What was seen so far may be true of the process alone that measured it, which another one now
/// does: the default has to lose for `doubt` seconds from now on.
void rt_tournament_doubt(rt_tournament *tournament, double now);

/// The best one so far: at the end the winner. -1: there is none.
int rt_tournament_winner(const rt_tournament *tournament);

typedef struct rt_tournament_figures {
    double seconds;   // a launch: the median; 0: not measured
    double low, high; // 95 % of such medians
    double multiple;  // that many times as long as the default's, in the heats of both
    int launches;     // in all
    bool beaten;      // shown to be slower than another one
} rt_tournament_figures;

/// What is known of a candidate. Times are those of the same conditions for all.
rt_tournament_figures rt_tournament_figures_of(const rt_tournament *tournament, int id);
/// The seconds of these figures alone, at once: figures sort all times.
double rt_tournament_seconds(const rt_tournament *tournament, int id);

#endif
