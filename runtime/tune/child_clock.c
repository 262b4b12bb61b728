// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See child_clock.h. The system reports the processor time of a process, and whether each of its
// threads is running or ready.
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

/// Reads a file of /proc. The state follows the thread's name, which may contain any character.
static bool is_ready(pid_t child, const char *thread) {
    char path[80], text[256];
    snprintf(path, sizeof path, "/proc/%ld/task/%.20s/stat", (long)child, thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    if (n <= 0) return false;
    text[n] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] == 'R';
}

/// The number of threads that run or are ready.
static int ready_threads(pid_t child) {
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%ld/task", (long)child);
    DIR *d = opendir(path);
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') n += is_ready(child, e->d_name);
    closedir(d);
    return n;
}

void rt_child_clock_start(rt_child_clock *c, pid_t child) {
    double cpu = cpu_seconds(child);
    *c = (rt_child_clock){.child = child, .seen = rt_seconds(), .first = cpu, .last = cpu};
}

/// Threads that could run at the same time: other ready threads wait for the child's own.
static int parallel_threads(pid_t child) {
    int ready = ready_threads(child), cores = rt_cores();
    return ready < cores ? ready : cores;
}

/// A sleeping child waits for something other than a core, so its clock follows the wall clock. For
/// a ready child, the processor time of its threads counts.
double rt_child_clock_read(rt_child_clock *c) {
    double now = rt_seconds(), step = rt_lesser(now - c->seen, STEP);
    double cpu = cpu_seconds(c->child);
    int ready = cpu < 0 || c->last < 0 ? 0 : parallel_threads(c->child);
    double got = ready ? (cpu - c->last) / ready : step;
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
