// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How long a child has been at work, however busy the machine is.
#ifndef RUNTIME_TUNE_CHILD_CLOCK_H
#define RUNTIME_TUNE_CHILD_CLOCK_H

#include <sys/types.h>

/// A clock that says how long a child has been at it: it stands still while the child is ready to
/// run and other processes have all cores, and while this process is stopped. On a busy machine it
/// falls behind the wall clock, so that limits on it tell a child that hangs from one that starves.
typedef struct rt_child_clock {
    pid_t child;
    double seconds;     // since the start
    double seen;        // when it was looked at last
    double first, last; // seconds of cores that the child had taken, at the start and then
} rt_child_clock;

void rt_child_clock_start(rt_child_clock *c, pid_t child);
/// The seconds since the start. To be asked ten times a second or more often.
double rt_child_clock_read(rt_child_clock *c);
/// Seconds of cores that all threads of the child took from the start to the last reading; where
/// the system does not say so, those of the clock.
double rt_child_clock_computed(const rt_child_clock *c);

#endif
