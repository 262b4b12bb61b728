// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measures how long a child has worked, independent of the load of the machine.
#ifndef RUNTIME_TUNE_CHILD_CLOCK_H
#define RUNTIME_TUNE_CHILD_CLOCK_H

#include <sys/types.h>

/// A clock of a child's work. It stands still while the child is ready and other processes occupy
/// all cores, while the child waits for a disk, and while this process is stopped. On a busy
/// machine it falls behind the wall clock. A limit on it thus distinguishes a hung child from a
/// starved one.
typedef struct rt_child_clock {
    pid_t child;
    double seconds;     // since the start
    double seen;        // the time of the last reading
    double first, last; // the child's processor seconds at the start and at the last reading
} rt_child_clock;

void rt_child_clock_start(rt_child_clock *c, pid_t child);
/// The seconds since the start. Call it at least ten times a second.
double rt_child_clock_read(rt_child_clock *c);
/// Likewise, as of a reading at most 50 ms ago. A reading takes about 50 us, and more for many
/// threads.
double rt_child_clock_look(rt_child_clock *c);
/// The processor seconds of all threads of the child from the start to the last reading. If the
/// system does not report them, the clock's seconds.
double rt_child_clock_computed(const rt_child_clock *c);

#endif
