// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs each scenario once for every call that may fail, each time in a process of its own:
//
//     inject [-s SCENARIO,...] [-k KIND,...] [-w WAY,...] [-n NUMBER] [-m MOST] [-r SEED] [-c] [-p]
//            [-v]
//
// MOST: the number of places of a kind, the first ones and a sample of the others; 0, the default,
// means all. -c: lists the number of calls of each function; each call is a place of a fault. -p:
// prints the progress every few seconds. After a fault the run must end with a status and its
// reason, or with the correct result. The same work must then succeed without the fault, and must
// leave nothing: files, processes, memory (with a leak checker).
#include "driver/remote/child_process.h"
#include "runtime/base/process.h"
#include "tests/inject/scenario.h"
#include "tests/open_files.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
int __lsan_do_recoverable_leak_check(void);
#endif

/// Seconds, far more than a run takes on a busy machine, or than its processes need to end by
/// themselves.
enum { HANGS = 300 };

char scratch[256];

const char *in_scratch(const char *name) {
    static char paths[8][320];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

static const Scenario *const groups[] = {jit_scenarios,  store_scenarios,  program_scenarios,
                                         rank_scenarios, search_scenarios, device_scenarios};

static struct {
    const char *scenarios, *kinds, *ways;
    long number, most;
    unsigned seed;
    bool counts, progress, verbose;
} options;

/// The ways of failing, with their errno.
static const struct Variant {
    Kind kind;
    Way way;
    int error;
} variants[] = {
    {MEMORY, ONCE, ENOMEM},
    {MEMORY, FROM_ON, ENOMEM},
    {SQLITE, ONCE, ENOMEM},
    {SQLITE, FROM_ON, ENOMEM},
    {MAP, ONCE, ENOMEM},
    {MAP, FROM_ON, ENOMEM},
    {OPEN, ONCE, EMFILE},
    {OPEN, FROM_ON, EMFILE},
    {OPEN, ONCE, EACCES},
    {READ, ONCE, EIO},
    {READ, FROM_ON, EIO},
    {READ, ONCE, EINTR},
    {READ, SHORT, 0},
    {WRITE, ONCE, ENOSPC},
    {WRITE, FROM_ON, ENOSPC},
    {WRITE, ONCE, EINTR},
    {WRITE, SHORT, 0},
    {WRITE, ONCE, EIO},
    {SYNC, ONCE, EIO},
    {SYNC, FROM_ON, EIO},
    {SIZE, ONCE, ENOSPC},
    {SIZE, FROM_ON, ENOSPC},
    {NAME, ONCE, EACCES},
    {NAME, FROM_ON, EACCES},
    {LOOK, ONCE, EIO},
    {LOOK, FROM_ON, EIO},
    {LOCK, ONCE, ENOLCK},
    {LOCK, FROM_ON, ENOLCK},
    {PROCESS, ONCE, EAGAIN},
    {PROCESS, FROM_ON, EAGAIN},
    {THREAD, ONCE, EAGAIN},
    {THREAD, FROM_ON, EAGAIN},
    {WAIT, ONCE, EINTR},
    {SOCKET, ONCE, ENOBUFS},
    {SOCKET, FROM_ON, ENOBUFS},
    {READ, ABORT, 0},
    {READ, KILL, 0},
    {READ, EXIT, 0},
    {READ, HANG, 0},
    {WRITE, ABORT, 0},
    {WRITE, CUT, 0},
    {WRITE, EXIT, 0},
    {WRITE, HANG, 0},
    {MEMORY, ABORT, 0},
    {MEMORY, KILL, 0},
    {LIBRARY, ABORT, 0},
    {LIBRARY, KILL, 0},
    {LIBRARY, HANG, 0},
    {TOOL, ABORT, 0},
    {TOOL, KILL, 0},
    {TOOL, HANG, 0},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/// A child's report to its parent, in shared memory.
typedef struct Report {
    bool ended;
    int files, processes;
    long failed;
    long calls[PLACES][KINDS];
    long by_function[PLACES][FUNCTIONS];
    char wrong[OUTCOME_TEXT + 256];
} Report;

static Plan *plan;
static Report *report;

/* ---- one run, in a child --------------------------------------------------------------------- */

/// Counts child processes that ended and were not waited for.
static int count_processes(void) {
    int n = 0;
    while (real_waitpid(-1, NULL, WNOHANG) > 0) n++;
    return n;
}

static void wrong(const char *what, const char *text) {
    if (!report->wrong[0])
        snprintf(report->wrong, sizeof report->wrong, "%s%s%.*s", what, *text ? ": " : "",
                 OUTCOME_TEXT, text);
}

/// Whether a text tells how the compiler ended, or a program that the compiler had started.
static bool tells_end(const char *text, Way way) {
    const char *end = way == ABORT  ? "signal 6"
                      : way == KILL ? "signal 9"
                                    : "did not answer in 2 s";
    return strstr(text, end);
}

/// Whether a text tells why something failed.
static bool tells(const char *text, const Fault *f) {
    static const char *const others[] = {"memory",
                                         "process",
                                         "ended",
                                         "did not come",
                                         "no space",
                                         "cannot be",
                                         "unable to open",
                                         "readonly database",
                                         "gave up",
                                         "cannot write",
                                         "has died",
                                         "cut short",
                                         "rank",
                                         "of another version",
                                         "cannot read",
                                         "hold it",
                                         "is locked",
                                         "locking protocol",
                                         "the time was up",
                                         "lost its connection",
                                         "it cannot be written or read",
                                         "was not found",
                                         "no linker for",
                                         "did not answer"};
    if (f->error && strstr(text, strerror(f->error))) return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(text, others[i])) return true;
    return false;
}

/// Whether a short time limit ended it, which may happen on a busy machine without a fault.
static bool is_late(const Outcome *out) {
    static const char *const texts[] = {"waited", "did not come", "did not answer", "time was up"};
    bool late = false;
    for (int i = 0; i < 4; i++) late |= strstr(out->text, texts[i]) != NULL;
    return late;
}

static void judge(const Scenario *s, const Outcome *out, const Fault *f) {
    bool late = f && s->hurry && is_late(out);
    if (!out->ok && !report->failed && !late) wrong("it fails though no call did", out->text);
    bool compiler = f && (f->kind == LIBRARY || f->kind == TOOL) && s->dies == COMPILER;
    if (!out->ok && !(compiler ? tells_end(out->text, f->way) : tells(out->text, f)))
        wrong("the text does not tell why", out->text);
    if (out->ok && compiler && f->kind == LIBRARY && report->failed)
        wrong("no status tells of it", "");
    if (!out->ok && strstr(out->text, "mistake in Tegula") && f->way < ABORT)
        wrong("blamed on Tegula", out->text);
    const char *what = s->check ? s->check(out) : NULL;
    if (what) wrong(what, out->ok ? "" : out->text);
}

static void hurry(const Scenario *s, bool is_short) {
    if (s->hurry) s->hurry(is_short);
}

/// A helper that hangs after its answer shows in the next request.
static void work_again(const Scenario *s, const Fault *f) {
    static Outcome out;
    bool hangs = f && f->way == HANG;
    hurry(s, hangs);
    s->work(&out);
    hurry(s, false);
    if (!out.ok && hangs) s->work(&out);
    if (!out.ok) wrong("it does not work afterwards", out.text);
    const char *what = s->check ? s->check(&out) : NULL;
    if (what) wrong("afterwards", what);
}

static void run_child(const Scenario *s, const Fault *f) {
    static Outcome out;
    if (s->ready) s->ready();
    hurry(s, f && f->n && (f->way == HANG || s->dies != COMPILER));
    plan_begin(f);
    s->work(&out);
    plan_end();
    report->failed = atomic_load(&plan->failed);
    for (int i = 0; i < PLACES * KINDS; i++)
        report->calls[i / KINDS][i % KINDS] = atomic_load(&plan->calls[i / KINDS][i % KINDS]);
    for (int i = 0; i < PLACES * FUNCTIONS; i++)
        report->by_function[i / FUNCTIONS][i % FUNCTIONS] =
            atomic_load(&plan->by_function[i / FUNCTIONS][i % FUNCTIONS]);
    if (options.verbose) printf("  %s %s\n", out.ok ? "right" : "failed", out.ok ? "" : out.text);
    judge(s, &out, f);
    work_again(s, f);
    if (s->end) s->end();
    report->processes = count_processes();
    report->files = count_files();
#if defined(__SANITIZE_ADDRESS__)
    if (__lsan_do_recoverable_leak_check()) wrong("memory is lost", "");
#endif
    report->ended = true;
    fflush(stdout);
    _exit(0);
}

/* ---- children -------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at) {
    (void)s, (void)kind, (void)at;
    return remove(path);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/// Sleeps for a part of the time waited so far.
static void nap(double since) {
    double us = (seconds() - since) * 1e6 / 20;
    usleep(us < 200 ? 200 : us > 20000 ? 20000 : (unsigned)us);
}

/// The status of the child; -1: it hangs.
static int wait_for(pid_t child) {
    int status = 0;
    double start = seconds();
    while (real_waitpid(child, &status, WNOHANG) == 0) {
        if (seconds() > start + HANGS) {
            kill(-child, SIGABRT);
            kill(-child, SIGKILL);
            real_waitpid(child, &status, 0);
            return -1;
        }
        nap(start);
    }
    return status;
}

/// Ends the processes that a run left, which are children of this one now.
static void end_rest(void) {
    char path[64];
    long pid;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%ld", &pid) == 1) end_child((pid_t)pid, 0);
    if (f) fclose(f);
}

/// Whether all processes of a run have ended by themselves.
static bool all_ended(void) {
    double start = seconds();
    pid_t pid;
    while ((pid = real_waitpid(-1, NULL, WNOHANG)) != -1) {
        if (pid == 0 && seconds() > start + HANGS) return false;
        if (pid == 0) nap(start);
    }
    return true;
}

static bool is_empty(const char *path) {
    int n = 0;
    DIR *d = opendir(path);
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n <= 2;
}

static void make_folders(void) {
    if (mkdir(scratch, 0700) || mkdir(in_scratch("temporary"), 0700)) perror(scratch), exit(2);
}

static void run(const Scenario *s, const Fault *f) {
    memset(report, 0, sizeof *report);
    make_folders();
    fflush(NULL);
    pid_t child = real_fork();
    if (child == 0) {
        setpgid(0, 0);
        run_child(s, f);
    }
    setpgid(child, child);
    int status = wait_for(child);
    plan_end();
    bool all = status == -1 || all_ended();
    end_rest();
    char text[64];
    snprintf(text, sizeof text, "status %x", (unsigned)status);
    if (status == -1)
        wrong("it hangs", "");
    else if (!report->ended)
        wrong("the process ended", text);
    if (!all) wrong("a process does not end", "");
    if (!is_empty(in_scratch("temporary")) && !plan_refused(NAME))
        wrong("temporary files are left", "");
    nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- all runs
 * ------------------------------------------------------------------------------------ */

static bool is_among(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && strncmp(at, name, n) == 0) return true;
    return !list;
}

static struct Count {
    long calls[PLACES][KINDS];
    int runs[KINDS], hit[KINDS], faults[KINDS];
} count;
static int all_runs, all_faults;

static void say_fault(const Scenario *s, const Fault *f) {
    printf("%s: call %ld of %s %s, %s (errno %d): %s\n", s->name, f->n, kind_names[f->kind],
           f->place ? "there" : "here", way_names[f->way], f->error, report->wrong);
    fflush(stdout);
}

/// Prints the progress now and then.
static void say_progress(const Scenario *s, const Fault *f, long i, long n) {
    static double began, last;
    double now = seconds();
    if (!began) began = last = now;
    if (!options.progress || now < last + 10) return;
    last = now;
    fprintf(stderr, "%s: %s %s %s, %ld of %ld; %d runs, %d faults, %.0f s\n", s->name,
            kind_names[f->kind], f->place ? "there" : "here", way_names[f->way], i + 1, n, all_runs,
            all_faults, now - began);
}

/// files: the number of open files after a run without a fault.
static void try(const Scenario *s, const Fault *f, int files) {
    if (options.verbose) say_fault(s, f);
    run(s, f);
    if (report->files > files) wrong("files are left open", "");
    if (report->processes) wrong("a process is left", "");
    count.runs[f->kind]++, all_runs++;
    count.hit[f->kind] += report->failed > 0;
    if (!report->wrong[0]) return;
    count.faults[f->kind]++, all_faults++;
    say_fault(s, f);
}

/// The first half of the places in order, the others at random.
static long place_of(long i, long most, long calls) {
    if (!options.most || calls <= most) return i + 1;
    if (i < most / 2) return i + 1;
    return most / 2 + 1 + (long)((unsigned)rand() % (unsigned long)(calls - most / 2));
}

/// The process under test may neither end nor hang. A program that it started may end.
static bool can_happen(const Scenario *s, Place place, const struct Variant *v) {
    if (v->way < ABORT) return true;
    return place == HERE ? v->kind == TOOL && v->way != HANG : s->dies != NOBODY;
}

static void try_kind(const Scenario *s, Place place, const struct Variant *v, int files) {
    long calls = count.calls[place][v->kind], most = options.most;
    if (!can_happen(s, place, v)) return;
    if (v->way == HANG && most > 4) most = 4;
    if (v->kind == LOCK && v->way == FROM_ON && most > 2) most = 2; // SQLite waits for seconds
    long n = options.most && calls > most ? most : calls;
    for (long i = 0; i < n; i++) {
        Fault f = {place, v->kind, v->way, v->error, place_of(i, most, calls)};
        if (options.number && options.number != f.n) continue;
        try(s, &f, files);
        say_progress(s, &f, i, n);
    }
}

static void print_counts(const Scenario *s) {
    printf("%-13s", s->name);
    for (int k = 0; k < KINDS; k++)
        if (count.calls[HERE][k] || count.calls[THERE][k])
            printf(" %s %ld+%ld/%d/%d/%d", kind_names[k], count.calls[HERE][k],
                   count.calls[THERE][k], count.runs[k], count.hit[k], count.faults[k]);
    printf("\n");
    fflush(stdout);
}

/// Prints the counts of the run without a fault.
static void print_functions(void) {
    for (int place = HERE; place < PLACES; place++) {
        printf("    %s:", place ? "there" : "here");
        for (int f = 0; f < FUNCTIONS; f++)
            if (report->by_function[place][f])
                printf(" %s %ld", function_names[f], report->by_function[place][f]);
        printf("\n");
    }
}

/// Whether this machine lacks a program that a scenario needs.
static bool is_absent(void) {
    return strstr(report->wrong, "no linker for") || strstr(report->wrong, "libNVVM was not found");
}

static void try_scenario(const Scenario *s) {
    count = (struct Count){.runs = {0}};
    run(s, NULL);
    if (is_absent()) {
        printf("%s: skipped: %s\n", s->name, report->wrong);
        return;
    }
    if (report->wrong[0]) {
        printf("%s: without a fault: %s\n", s->name, report->wrong);
        all_faults++;
        return;
    }
    memcpy(count.calls, report->calls, sizeof count.calls);
    int files = report->files;
    if (options.counts) print_functions();
    for (int place = HERE; place <= (s->there ? THERE : HERE); place++)
        for (int i = 0; i < VARIANTS; i++)
            if (is_among(options.kinds, kind_names[variants[i].kind]) &&
                is_among(options.ways, way_names[variants[i].way]))
                try_kind(s, (Place)place, &variants[i], files);
    print_counts(s);
}

/* ---- the program
 * --------------------------------------------------------------------------------- */

static void read_options(int argc, char **argv) {
    int c;
    options.seed = (unsigned)time(NULL);
    while ((c = getopt(argc, argv, "s:k:w:n:m:r:cpv")) != -1) {
        if (c == 's') options.scenarios = optarg;
        if (c == 'k') options.kinds = optarg;
        if (c == 'w') options.ways = optarg;
        if (c == 'n') options.number = atol(optarg);
        if (c == 'm') options.most = atol(optarg);
        if (c == 'r') options.seed = (unsigned)atol(optarg);
        if (c == 'c') options.counts = true;
        if (c == 'p') options.progress = true;
        if (c == 'v') options.verbose = true;
        if (c == '?') exit(2);
    }
    if (options.number) options.most = 0;
}

/// A helper process of the one under test, whose calls may fail, too.
static int serve_for(const char *path) {
    plan_open(path, false, THERE);
    rt_close_files(STDERR_FILENO + 1, ~0U);
    return (int)serve(STDIN_FILENO, STDOUT_FILENO);
}

static bool prepare(const char *program) {
    char path[128], real[512];
    ssize_t n = readlink("/proc/self/exe", real, sizeof real - 1);
    (void)program;
    if (n < 0) return false;
    real[n] = 0;
    snprintf(path, sizeof path, "/dev/shm/tegula-inject-plan-%d", (int)getpid());
    snprintf(scratch, sizeof scratch, "/dev/shm/tegula-inject-%d", (int)getpid());
    setenv("TG_SERVER", real, 1);
    setenv("TG_INJECT_PLAN", path, 1);
    setenv("TG_TUNE", "off", 1);
    setenv("TMPDIR", in_scratch("temporary"), 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1); // processes without a parent become its children
    wrap_sqlite();
    plan = plan_open(path, true, HERE);
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return plan && report != MAP_FAILED;
}

int main(int argc, char **argv) {
    const char *path = getenv("TG_INJECT_PLAN");
    if (argc == 2 && strcmp(argv[1], "--serve") == 0 && path) return serve_for(path);
    read_options(argc, argv);
    if (!prepare(argv[0])) return 2;
    srand(options.seed);
    printf("seed %u; calls here + there / runs / failed calls / faults\n", options.seed);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const Scenario *s = groups[g]; s->name; s++)
            if (is_among(options.scenarios, s->name)) try_scenario(s);
    unlink(getenv("TG_INJECT_PLAN"));
    printf("%d runs, %d faults\n", all_runs, all_faults);
    return all_faults ? 1 : 0;
}
