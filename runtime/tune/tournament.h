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

typedef struct rt_race rt_race;

typedef struct rt_race_options {
    int capacity;    // ids are below it
    double close;    // times of which one is at most this part longer are equal; 0: RT_RACE_CLOSE
    double deadline; // on the caller's clock, in seconds; 0: none
    double doubt;    // seconds of a runoff, at least, in which the default loses: what is true of a
                     // moment may not be later
} rt_race_options;

/// The memory that a race of so many candidates needs, aligned as malloc does it.
size_t rt_race_bytes(int capacity);
rt_race *rt_race_start(void *memory, const rt_race_options *options);

/// A candidate can be measured from now on. Id 0 is the default, which wins where it is not shown
/// to be slower; of others that are equal the least id wins. predicted: seconds of a launch, say of
/// the one that checked its result; 0: unknown. False: the runoff has begun, or it was there.
bool rt_race_add(rt_race *race, int id, double predicted);
/// No more will come.
void rt_race_close(rt_race *race);

/// Times of which one is at most this part longer are equal, where nobody says otherwise.
#define RT_RACE_CLOSE 0.01

typedef enum rt_race_kind {
    RT_RACE_MEASURE, // turn.id, turn.launches times; rt_race_report or rt_race_drop follows
    RT_RACE_WAIT,    // for a candidate, or the end of them
    RT_RACE_OVER,
} rt_race_kind;

typedef struct rt_race_turn {
    rt_race_kind kind;
    int id, launches;
    bool runoff;
    double until; // of WAIT: when to ask again at the latest; 0: there is no deadline
} rt_race_turn;

/// What to do next. now: on the caller's clock.
rt_race_turn rt_race_step(rt_race *race, double now);
/// The seconds of each launch of the last turn. None, or one that is no time: it drops out.
void rt_race_report(rt_race *race, int id, const double *seconds, int n, double now);
/// It crashed, hung or was wrong.
void rt_race_drop(rt_race *race, int id);

/// What was seen so far may be true of the process alone that measured it, which another one now
/// does: the default has to lose for `doubt` seconds from now on.
void rt_race_doubt(rt_race *race, double now);

/// The best one so far: at the end the winner. -1: there is none.
int rt_race_winner(const rt_race *race);

typedef struct rt_race_figures {
    double seconds;   // a launch: the median; 0: not measured
    double low, high; // 95 % of such medians
    double multiple;  // that many times as long as the default's, in the heats of both
    int launches;     // in all
    bool beaten;      // shown to be slower than another one
} rt_race_figures;

/// What is known of a candidate. Times are those of the same conditions for all.
rt_race_figures rt_race_figures_of(const rt_race *race, int id);

#endif
