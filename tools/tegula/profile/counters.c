// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A counter counts the user code of this thread and of the threads that it starts later. Groups
// cannot be inherited, so each counter is open on its own and may run for a part of the time.
#include "tools/tegula/profile/counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_counter(uint64_t what) {
    struct perf_event_attr a = {.type = PERF_TYPE_HARDWARE,
                                .size = sizeof a,
                                .config = what,
                                .read_format =
                                    PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
                                .disabled = 1,
                                .inherit = 1,
                                .exclude_kernel = 1,
                                .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, (unsigned long)PERF_FLAG_FD_CLOEXEC);
}

bool counters_open(Counters *out) {
    static const uint64_t what[COUNTERS] = {PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
                                            PERF_COUNT_HW_CACHE_MISSES,
                                            PERF_COUNT_HW_BRANCH_MISSES};
    bool any = false;
    int error = 0;
    for (int i = 0; i < COUNTERS; i++) {
        out->fd[i] = open_counter(what[i]);
        any |= out->fd[i] >= 0;
        if (out->fd[i] < 0 && !error) error = errno;
    }
    if (!any) errno = error;
    return any;
}

void counters_close(Counters *c) {
    for (int i = 0; i < COUNTERS; i++)
        if (c->fd[i] >= 0) close(c->fd[i]);
}

void counters_start(const Counters *c) {
    for (int i = 0; i < COUNTERS; i++) {
        if (c->fd[i] < 0) continue;
        ioctl(c->fd[i], PERF_EVENT_IOC_RESET, 0);
        ioctl(c->fd[i], PERF_EVENT_IOC_ENABLE, 0);
    }
}

void counters_stop(const Counters *c, CounterReading out[COUNTERS]) {
    for (int i = 0; i < COUNTERS; i++)
        if (c->fd[i] >= 0) ioctl(c->fd[i], PERF_EVENT_IOC_DISABLE, 0);
    for (int i = 0; i < COUNTERS; i++) {
        out[i] = (CounterReading){0};
        bool all = c->fd[i] >= 0 && read(c->fd[i], &out[i], sizeof out[i]) == sizeof out[i];
        if (!all) out[i] = (CounterReading){0};
    }
}

double counter_value(const CounterReading *r) {
    if (!r->running) return -1;
    return (double)r->value * ((double)r->enabled / (double)r->running);
}

const char *counters_text(Ctx *ctx, const CounterReading r[COUNTERS], int launches, double bytes) {
    enum { LINE = 64 }; // bytes that a miss of the last level brings
    double cycles = counter_value(&r[COUNT_CYCLES]), work = counter_value(&r[COUNT_INSTRUCTIONS]);
    double misses = counter_value(&r[COUNT_CACHE_MISSES]);
    double branches = counter_value(&r[COUNT_BRANCH_MISSES]);
    Text t = {.ctx = ctx};
    text_add(&t, "a launch");
    if (cycles >= 0) text_add(&t, ", %.4g cycles", cycles / launches);
    if (work >= 0) text_add(&t, ", %.4g instructions", work / launches);
    if (cycles > 0 && work >= 0) text_add(&t, " (%.2f a cycle)", work / cycles);
    if (misses >= 0) text_add(&t, ", %.4g misses of the last cache", misses / launches);
    if (misses >= 0 && bytes > 0)
        text_add(&t, " (%.2f times the arguments)", misses * LINE / launches / bytes);
    if (branches >= 0) text_add(&t, ", %.4g mispredicted branches", branches / launches);
    if (branches >= 0 && work > 0)
        text_add(&t, " (%.3g of 1000 instructions)", 1000 * branches / work);
    return t.data;
}

const char *counters_missing(Ctx *ctx, int error, const char **help) {
    *help = NULL;
    if (error == EACCES || error == EPERM) {
        *help = "a value of 2 or less in /proc/sys/kernel/perf_event_paranoid allows them; "
                "containers also need the capability PERFMON";
        return "this process may not use hardware counters";
    }
    if (error == ENOENT || error == EOPNOTSUPP || error == ENODEV)
        return "this machine has no hardware counters; virtual machines often have none";
    return ctx_format(ctx, "no hardware counters: %s", strerror(error));
}
