// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See child_clock.h. The system reports the processor time of a process, and whether each of its
// threads is running, ready, or waiting for a disk.
#include "runtime/tune/child_clock.h"

#include "runtime/tune/trial.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double STEP = 0.1;   // seconds; a longer time between two readings counts as this
static const double FRESH = 0.05; // seconds in which a look takes the last reading

/// Processor seconds of all threads; negative: unknown.
static double cpu_seconds(pid_t child) {
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(child, &clock) || clock_gettime(clock, &t)) return -1;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/// Reads a thread's state from /proc: 'R' runs or is ready, 'D' waits for a disk, 'S' sleeps. The
/// state follows the thread's name, which may contain any character. 0: the thread is gone.
static char thread_state(pid_t child, const char *thread) {
    char path[80], text[256];
    snprintf(path, sizeof path, "/proc/%ld/task/%.20s/stat", (long)child, thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    if (n <= 0) return 0;
    text[n] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

/// The numbers of threads that run or are ready, and of those that wait for a disk.
typedef struct ThreadStates {
    int ready, disk;
} ThreadStates;

static ThreadStates thread_states(pid_t child) {
    char path[64];
    ThreadStates n = {0};
    snprintf(path, sizeof path, "/proc/%ld/task", (long)child);
    DIR *d = opendir(path);
    if (!d) return n;
    for (struct dirent *e; (e = readdir(d));) {
        char state = e->d_name[0] == '.' ? 0 : thread_state(child, e->d_name);
        n.ready += state == 'R';
        n.disk += state == 'D';
    }
    closedir(d);
    return n;
}

void rt_child_clock_start(rt_child_clock *c, pid_t child) {
    double cpu = cpu_seconds(child);
    *c = (rt_child_clock){.child = child, .seen = rt_seconds(), .first = cpu, .last = cpu};
}

/// Returns the number of threads of the child that share the processor time of a step. The clock
/// then advances by that time, divided by their number. Ready threads beyond the number of cores
/// wait for threads of the child itself, not for other processes. 0: no thread is ready, and the
/// wall clock counts.
static int sharing_threads(pid_t child) {
    ThreadStates n = thread_states(child);
    int cores = rt_cores();
    if (!n.ready) return n.disk > 0;
    return n.ready < cores ? n.ready : cores;
}

/// A child that sleeps waits for another process or for a time, so its clock follows the wall
/// clock. If a thread is ready, or waits for a disk or a page of memory, the machine's load decides
/// how long that takes, and the processor time of its threads counts.
double rt_child_clock_read(rt_child_clock *c) {
    double now = rt_seconds(), step = rt_lesser(now - c->seen, STEP);
    double cpu = cpu_seconds(c->child);
    int sharing = cpu < 0 || c->last < 0 ? 0 : sharing_threads(c->child);
    double got = sharing ? (cpu - c->last) / sharing : step;
    c->seconds += rt_lesser(got, step);
    c->seen = now;
    if (cpu >= 0) c->last = cpu;
    return c->seconds;
}

double rt_child_clock_look(rt_child_clock *c) {
    return rt_seconds() - c->seen < FRESH ? c->seconds : rt_child_clock_read(c);
}

double rt_child_clock_computed(const rt_child_clock *c) {
    return c->first < 0 ? c->seconds : c->last - c->first;
}
