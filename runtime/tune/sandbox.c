// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See sandbox.h. The processes exchange datagrams over a socket pair, since writing to a broken
// pipe would raise SIGPIPE in the program.
//
// A child is timed by its own clock (child_clock.h): a variant that waits for a core on a busy
// machine does not count as hung. The deadline of all trials is the user's and uses the wall clock.
#include "runtime/base/process.h"
#include "runtime/tune/child_clock.h"
#include "runtime/tune/trial_process.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WHY = 200, TICK_MS = 20 };
/// Limits in seconds. A trial may take TIMES as long as the reference plus RT_PATIENCE. The
/// reference, and trials without a known reference time, may take FIRST. RESTART is allowed after
/// the deadline for another child.
static const double FIRST = 60, TIMES = 10, RESTART = 3;

typedef enum TrialWish { CHECK, CONFIRM, TIME } TrialWish;

typedef struct TrialRequest {
    TrialWish wish;
    int id, n;
} TrialRequest;

typedef struct Reply {
    rt_verdict verdict;
    double seconds[RT_SANDBOX_LAUNCHES];
    char why[WHY];
} Reply;

struct rt_sandbox {
    rt_sandbox_options options;
    tg_options hooks;
    rt_trial *trial; // in this process; NULL: in children
    pid_t child;     // 0: none is running
    int fd;
    double reference; // the seconds of its check; 0: not checked yet
    double timed;     // the longest of its timed launches, likewise
    double worked;    // in all trials
    bool lost;
    char why[WHY];
};

static rt_verdict attempt_trial(rt_trial *t, const rt_sandbox_options *o, const TrialRequest *r,
                                double *seconds) {
    const tg_variant *v = o->variants[r->id];
    if (r->wish == CHECK) return rt_trial_check(t, v, seconds);
    rt_verdict verdict = r->wish == CONFIRM ? rt_trial_confirm(t, v) : RT_RIGHT;
    if (verdict != RT_RIGHT) return verdict;
    if (r->wish == CONFIRM) return rt_trial_warm(t, v, seconds) ? RT_FAILED : RT_RIGHT;
    return rt_trial_time(t, v, r->n, seconds) ? RT_FAILED : RT_RIGHT;
}

/* ---- the child ------------------------------------------------------------------------------- */

static void *map_trial_memory(void *user, size_t bytes) {
    (void)user;
    void *p =
        mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void unmap_memory(void *user, void *memory, size_t bytes) {
    (void)user;
    munmap(memory, bytes ? bytes : 1);
}

/// Keeps only the memory of the program: no files and no signal handlers. A crash leaves no core
/// dump.
static void isolate_child(int fd, pid_t parent) {
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0);
    if (getppid() != parent) _exit(1);
    for (int s = 1; s < NSIG; s++) sigaction(s, &usual, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (fd > 3) rt_close_files(3, (unsigned)fd - 1);
    rt_close_files((unsigned)(fd > 2 ? fd : 2) + 1, ~0U);
}

/// After a launch that breaks the device or does not end, the process can run no other.
static rt_verdict verdict_of(rt_trial *t, rt_verdict v) {
    if (v != RT_FAILED || !rt_trial_is_lost(t)) return v;
    return rt_trial_is_stuck(t) ? RT_HUNG : RT_CRASHED;
}

static rt_trial *open_trial(const rt_sandbox_options *o) {
    tg_options own = {.size = sizeof own,
                      .threads = o->threads,
                      .allocate = map_trial_memory,
                      .release = unmap_memory};
    tg_context *c;
    rt_trial *trial = NULL;
    if (tg_context_create(&own, &c) != TG_OK) return NULL;
    tg_context_use(c);
    rt_trial_open(&o->trial, &trial);
    return trial;
}

_Noreturn void rt_sandbox_serve(const rt_sandbox_options *o, int fd) {
    rt_trial *trial = o ? open_trial(o) : NULL;
    TrialRequest r;
    while (recv(fd, &r, sizeof r, 0) == (ssize_t)sizeof r) {
        Reply reply = {.verdict = RT_FAILED};
        if (trial) reply.verdict = attempt_trial(trial, o, &r, reply.seconds);
        if (reply.verdict != RT_RIGHT) snprintf(reply.why, WHY, "%s", tg_last_error());
        if (trial) reply.verdict = verdict_of(trial, reply.verdict);
        if (send(fd, &reply, sizeof reply, MSG_NOSIGNAL) != (ssize_t)sizeof reply) break;
    }
    _exit(0);
}

/// Blocks signals, because the program's handlers must not run in the child.
static tg_status fork_child(rt_sandbox *box, int fd) {
    sigset_t all, before;
    pid_t parent = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    int error = errno;
    if (pid == 0) {
        isolate_child(fd, parent);
        rt_sandbox_serve(&box->options, fd);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return tg_fail(TG_ERROR_UNSUPPORTED, "no process can be forked: %s", strerror(error));
    box->child = pid;
    return TG_OK;
}

static tg_status start_child(rt_sandbox *box) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return tg_fail(TG_ERROR_UNSUPPORTED, "no pair of sockets: %s", strerror(errno));
    tg_status status = box->options.device < 0 ? fork_child(box, pair[1])
                                               : rt_spawn(&box->options, pair[1], &box->child);
    close(pair[1]);
    if (status)
        close(pair[0]);
    else
        box->fd = pair[0];
    return status;
}

/// Reports the end of a child that ended by itself. The program may have reaped it already.
static void end_sandbox_child(rt_sandbox *box, bool by_itself) {
    int status = 0;
    if (!box->child) return;
    close(box->fd);
    pid_t got = waitpid(box->child, &status, WNOHANG);
    if (got == 0) {
        kill(box->child, SIGKILL); // an ending child keeps its own reason
        do got = waitpid(box->child, &status, 0);
        while (got < 0 && errno == EINTR);
    }
    box->child = 0;
    if (!by_itself) return;
    int signal = got > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (signal)
        snprintf(box->why, WHY, "it crashed by signal %d (%s)", signal, strsignal(signal));
    else
        snprintf(box->why, WHY, "it ended its process");
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool is_sandbox_stopped(const rt_sandbox *box) {
    return box->options.stop && atomic_load(box->options.stop);
}

/// Returns the state of the child after at most `ms` milliseconds. RT_RIGHT: a reply; RT_CRASHED;
/// RT_CUT: nothing yet. A process that the program forked meanwhile may keep the other end of the
/// socket open.
static rt_verdict watch_child(rt_sandbox *box, int ms, Reply *out) {
    struct pollfd at = {.fd = box->fd, .events = POLLIN};
    siginfo_t info = {.si_pid = 0};
    if (poll(&at, 1, ms) > 0)
        return recv(box->fd, out, sizeof *out, MSG_DONTWAIT) == (ssize_t)sizeof *out ? RT_RIGHT
                                                                                     : RT_CRASHED;
    int error = waitid(P_PID, (id_t)box->child, &info, WEXITED | WNOHANG | WNOWAIT);
    return (error && errno == ECHILD) || info.si_pid ? RT_CRASHED : RT_CUT;
}

/// The limits of a request in seconds: by the child's clock (then it hangs) and by the wall clock.
typedef struct Limits {
    double own, wall;
} Limits;

/// Adds the work of a trial. On a CPU, which is shared, only the processor time counts.
static void note_work(rt_sandbox *box, rt_child_clock *clock) {
    double own = rt_child_clock_read(clock), computed = rt_child_clock_computed(clock);
    box->worked += box->options.device < 0 ? rt_lesser(own, computed) : own;
}

/// Returns the child's answer. Ends the child if it crashed, was late, or should stop. own: the
/// seconds by its clock.
static rt_verdict ask_child(rt_sandbox *box, const TrialRequest *r, Limits limits, Reply *out,
                            double *own) {
    double end_of_all = rt_seconds() + limits.wall;
    rt_child_clock clock;
    rt_verdict v = RT_CUT;
    rt_child_clock_start(&clock, box->child);
    if (send(box->fd, r, sizeof *r, MSG_NOSIGNAL) != (ssize_t)sizeof *r) v = RT_CRASHED;
    while (v == RT_CUT && !is_sandbox_stopped(box) && rt_child_clock_look(&clock) < limits.own &&
           rt_seconds() < end_of_all)
        v = watch_child(box, TICK_MS, out);
    // This process may not have had a core when the reply came.
    if (v == RT_CUT && !is_sandbox_stopped(box)) v = watch_child(box, 0, out);
    bool hangs = clock.seconds >= limits.own && !is_sandbox_stopped(box);
    note_work(box, &clock);
    *own = clock.seconds;
    if (v == RT_RIGHT) {
        if (out->verdict != RT_RIGHT) memcpy(box->why, out->why, WHY);
        if (out->verdict >= RT_CRASHED) end_sandbox_child(box, false);
        return out->verdict;
    }
    end_sandbox_child(box, v == RT_CRASHED);
    if (v == RT_CRASHED) return v;
    snprintf(box->why, WHY, "it did not end within %.2g seconds", hangs ? limits.own : limits.wall);
    return hangs ? RT_HUNG : RT_CUT;
}

/// The time left for all trials; INFINITY: no deadline.
static double time_left(const rt_sandbox *box) {
    if (box->options.deadline <= 0) return INFINITY;
    return rt_greater(0, box->options.deadline - rt_seconds());
}

/// The seconds of the same request for the reference; 0: unknown.
static double usual(const rt_sandbox *box, const TrialRequest *r) {
    if (r->wish == CHECK) return box->reference;
    return r->wish == TIME && box->timed > 0 ? rt_greater(box->reference, box->timed * r->n) : 0;
}

/// A request hangs after its limit, unless the deadline comes first.
static rt_verdict ask_within_reason(rt_sandbox *box, const TrialRequest *r, Reply *out) {
    double known = r->id > 0 ? usual(box, r) : 0, own;
    Limits limits = {.own = RT_PATIENCE + (known > 0 ? TIMES * known : FIRST),
                     .wall = RT_PATIENCE + box->reference + time_left(box)};
    rt_verdict v = ask_child(box, r, limits, out, &own);
    if (v == RT_RIGHT && r->wish == TIME && r->id == 0)
        box->timed = rt_greater(box->timed, own / r->n);
    return v;
}

/// Starts a child and checks the reference, to which others are compared. A slow start on a busy
/// machine does not count against a candidate.
static rt_verdict prepare_child(rt_sandbox *box, Reply *out) {
    if (box->child) return RT_RIGHT;
    TrialRequest r = {.wish = CHECK};
    bool first = box->reference <= 0;
    if (start_child(box)) {
        snprintf(box->why, WHY, "%s", tg_last_error());
        box->lost = true;
        return RT_FAILED;
    }
    double again = first ? 0 : RESTART + RT_PATIENCE + box->reference, own;
    Limits limits = {.own = FIRST, .wall = time_left(box) + again};
    rt_verdict v = ask_child(box, &r, limits, out, &own);
    if (first) box->reference = own;
    if (v == RT_RIGHT) return v;
    char why[WHY];
    memcpy(why, box->why, WHY);
    if (v == RT_CUT)
        snprintf(box->why, WHY, "the time was over before anything was known");
    else
        snprintf(box->why, WHY, "without tuning it fails: %.*s", WHY - 30, why);
    box->lost = true;
    return v;
}

/// Tries a variant on a GPU without a child. A launch that breaks the device or does not end is the
/// last one.
static rt_verdict attempt_here(rt_sandbox *box, const TrialRequest *r, double *seconds) {
    double began = rt_seconds();
    rt_verdict v = attempt_trial(box->trial, &box->options, r, seconds);
    box->worked += rt_seconds() - began;
    if (v == RT_RIGHT) return v;
    snprintf(box->why, WHY, "%s", tg_last_error());
    v = verdict_of(box->trial, v);
    box->lost = v >= RT_CRASHED;
    return v;
}

static rt_verdict request_trial(rt_sandbox *box, TrialRequest r, double *seconds) {
    Reply reply = {.verdict = RT_FAILED};
    if (box->lost || is_sandbox_stopped(box)) return RT_CUT;
    if (box->trial) {
        reply.verdict = attempt_here(box, &r, reply.seconds);
    } else {
        bool done = !box->child && r.wish == CHECK && r.id == 0;
        reply.verdict = prepare_child(box, &reply);
        if (reply.verdict == RT_RIGHT && !done) reply.verdict = ask_within_reason(box, &r, &reply);
    }
    if (reply.verdict == RT_RIGHT)
        memcpy(seconds, reply.seconds, sizeof *seconds * (size_t)(r.n ? r.n : 1));
    return reply.verdict;
}

rt_verdict rt_sandbox_check(rt_sandbox *box, int id, double *seconds) {
    return request_trial(box, (TrialRequest){.wish = CHECK, .id = id}, seconds);
}

rt_verdict rt_sandbox_confirm(rt_sandbox *box, int id, double *times) {
    return request_trial(box, (TrialRequest){.wish = CONFIRM, .id = id}, times);
}

rt_verdict rt_sandbox_time(rt_sandbox *box, int id, int n, double *seconds) {
    if (n > RT_SANDBOX_LAUNCHES) n = RT_SANDBOX_LAUNCHES;
    return request_trial(box, (TrialRequest){.wish = TIME, .id = id, .n = n}, seconds);
}

const char *rt_sandbox_why(const rt_sandbox *box) {
    return box->why;
}

double rt_sandbox_worked(const rt_sandbox *box) {
    return box->worked;
}

bool rt_sandbox_is_lost(const rt_sandbox *box) {
    return box->lost;
}

/* ---- from the beginning to the end ----------------------------------------------------------- */

static bool forks_are_wanted(void) {
    const char *set = secure_getenv("TG_TUNE_FORK");
    return !set || strcmp(set, "off") != 0;
}

tg_status rt_sandbox_open(const rt_sandbox_options *options, rt_sandbox **out) {
    *out = NULL;
    if (options->device < 0 && !forks_are_wanted())
        return tg_fail(TG_ERROR_UNSUPPORTED, "TG_TUNE_FORK=off: no process may be forked");
    tg_context *c = rt_context();
    rt_sandbox *box = c ? rt_allocate(&c->hooks, sizeof *box) : NULL;
    if (!box) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    *box = (rt_sandbox){.options = *options, .hooks = c->hooks};
    tg_status status = TG_OK;
    box->options.trial.patience = rt_lesser(FIRST, time_left(box));
    if (!forks_are_wanted()) status = rt_trial_open(&box->options.trial, &box->trial);
    if (status)
        rt_sandbox_close(box);
    else
        *out = box;
    return status;
}

void rt_sandbox_close(rt_sandbox *box) {
    if (!box) return;
    end_sandbox_child(box, false);
    rt_trial_close(box->trial);
    tg_options hooks = box->hooks;
    rt_release(&hooks, box, sizeof *box);
}
