// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tunes objects whose variants fail in every way. The program must see no effect except for time.
// Variants of y[i] += x[i] crash, hang, end the process, and write out of bounds.
#include "tests/runtime/kernels.h"
#include "tests/said.h"

#include "runtime/compiler.h"
#include "runtime/tune/trial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 4096 };
enum { USUAL, FAST, WRONG, FAILS, CRASHES, HANGS, EXITS, SCRIBBLES, STARVES, VARIANTS };
static const char *const configs[VARIANTS] = {"B=usual", "B=fast",      "B=wrong",
                                              "B=fails", "B=crash",     "B=hangs",
                                              "B=exits", "B=scribbles", "B=starves"};

/// Memory shared with the children.
typedef struct Shared {
    _Atomic int runs[VARIANTS];
    _Atomic int hung; // pid of the process that hangs
    _Atomic int handled, opened, hooked;
} Shared;

static Shared *shared;
static pid_t program; // this process
static float x[N], y[N];
static volatile float *volatile nowhere; // memory without access
static bool usual_crashes;               // in a child, the usual variant crashes
static int marker = -1;                  // a file of the program
static int slow_ms;                      // least duration of a launch

static void wait_ms(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static int32_t add(const tg_slot *args, int variant, int times) {
    const float *from = args[0].tensor.data;
    float *to = args[1].tensor.data;
    int64_t n = args[0].tensor.shape[0];
    volatile float sink = 0;
    for (int t = 1; t < times; t++)
        for (int64_t i = 0; i < n; i++) sink = sink + from[i];
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
    seen.variant = variant;
    shared->runs[variant]++;
    if (getpid() != program && marker >= 0 && fcntl(marker, F_GETFD) >= 0) shared->opened++;
    return 0;
}

static int32_t usual(const tg_slot *args, const tg_env *env) {
    (void)env;
    if (slow_ms) wait_ms(2 * slow_ms);
    if (usual_crashes && getpid() != program) abort();
    return add(args, USUAL, 4);
}
static int32_t fast(const tg_slot *args, const tg_env *env) {
    (void)env;
    if (slow_ms) wait_ms(slow_ms);
    return add(args, FAST, 1);
}
static int32_t wrong(const tg_slot *args, const tg_env *env) {
    (void)env;
    float *to = args[1].tensor.data;
    to[args[0].tensor.shape[0] - 1] += 1;
    return add(args, WRONG, 1);
}
static int32_t fails(const tg_slot *args, const tg_env *env) {
    static const tg_site site = {.kind = TG_SITE_ASSERT, .text = "no", .types = ""};
    (void)args;
    shared->runs[FAILS]++;
    return (env->fail)(env, &site, NULL);
}
static int32_t crashes(const tg_slot *args, const tg_env *env) {
    (void)env;
    shared->runs[CRASHES]++;
    *nowhere = 1;
    return add(args, CRASHES, 1);
}
static int32_t hangs(const tg_slot *args, const tg_env *env) {
    (void)env, (void)args;
    shared->runs[HANGS]++;
    shared->hung = getpid();
    for (volatile bool for_ever = true; for_ever;) {
    }
    return 0;
}
static int32_t exits(const tg_slot *args, const tg_env *env) {
    (void)env, (void)args;
    shared->runs[EXITS]++;
    _exit(0);
}
/// Correct and fast, but overwrites the program's memory.
static int32_t scribbles(const tg_slot *args, const tg_env *env) {
    static pid_t
        scribbled; // once in a process: under sanitizers it takes as long as the usual variant
    (void)env;
    if (getpid() != program && scribbled != getpid())
        memset(x, 0xff, sizeof x), memset(y, 0xff, sizeof y);
    scribbled = getpid();
    return add(args, SCRIBBLES, 2);
}

static void compute_for(clockid_t clock, double seconds) {
    struct timespec t;
    double now, end = 0;
    do {
        clock_gettime(clock, &t);
        now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
        if (end <= 0) end = now + seconds;
    } while (now < end);
}

/// Another process takes this one's core, so a moment's work takes seconds.
static void starve(void) {
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(sched_getcpu(), &core);
    sched_setaffinity(0, sizeof core, &core);
    pid_t other = fork();
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) compute_for(CLOCK_MONOTONIC, 1);
    }
    setpriority(PRIO_PROCESS, 0, 19);
    compute_for(CLOCK_THREAD_CPUTIME_ID, 0.03);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
}

/// Correct and fast, on a machine that is busy at first.
static int32_t starves(const tg_slot *args, const tg_env *env) {
    static bool starved;
    (void)env;
    if (getpid() != program && !starved) starve();
    starved = true;
    return add(args, STARVES, 1);
}

static const tg_fact dense[] = {{TG_FACT_STRIDE, 0, 0, 0, 0, 1}, {TG_FACT_STRIDE, 1, 0, 0, 0, 1}};
static const tg_hint hints[] = {{0, 0, {0}, 4096}, {0, 0, {0}, 65536}};
static const uint8_t two[] = {0, 1};
static const tg_param_info params[] = {
    {"x", TG_PARAM_TENSOR, 0, kDLFloat, 32, -1, 1, -1, 0},
    {"y", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLFloat, 32, -1, 1, -1, 0},
};

/// An object of the usual variant and the listed ones, as in a new process.
typedef struct Object {
    tg_variant variants[VARIANTS];
    tg_kernel_info info;
    tg_kernel kernel;
} Object;

static Object *object(Object *o, int n, const int *others) {
    static tg_entry *const entries[VARIANTS] = {usual, fast,  wrong,     fails,  crashes,
                                                hangs, exits, scribbles, starves};
    for (int i = 0; i <= n; i++) {
        int which = i ? others[i - 1] : USUAL;
        o->variants[i] = (tg_variant){.entry = entries[which],
                                      .facts = dense,
                                      .n_facts = 2,
                                      .hints = i ? hints + 1 : hints,
                                      .n_hints = 1,
                                      .params = two,
                                      .n_params = 2,
                                      .config = configs[which]};
    }
    o->info = (tg_kernel_info){
        "add", "kernel add(x: f32[N], y: f32[N])", params, o->variants, 2, 0, n + 1, 0};
    o->kernel = (tg_kernel){.abi = TG_ABI, .info = &o->info};
    return o;
}
#define OBJECT(o, ...)                                                                             \
    object(o, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)), (int[]){__VA_ARGS__})

/// Launches, checks the result, and returns the variant that ran.
static int launch(tg_kernel *k, int64_t n) {
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 1;
    DLTensor tx = row(x, &n), ty = row(y, &n);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    seen.variant = -1;
    if (tg_launch(k, args, 2)) fail_msg("%s", tg_last_error());
    for (int i = 0; i < N; i++) {
        assert_true(x[i] == (float)i);
        assert_true(y[i] == (i < n ? (float)i + 1 : 1));
    }
    return seen.variant;
}

/* ---- surroundings ---------------------------------------------------------------------------- */

static char folder[] = "/tmp/tegula-sandbox-XXXXXX";
static tg_context *context;

static void expect_logged(const char *text) {
    if (!strstr(said.text, text)) fail_msg("'%s' is not in:\n%s", text, said.text);
}

static void empty_folder(void) {
    char path[600];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    if (d) closedir(d);
}

/// Searches end when they know the fastest variant, however little of the machine they get.
static int begin(void **state) {
    (void)state;
    tg_options options = {.size = sizeof options, .threads = 2, .log = note};
    empty_folder();
    setenv("TG_TUNE", "exhaustive", 1);
    setenv("TG_CACHE", folder, 1);
    unsetenv("TG_TUNE_FORK");
    memset(shared, 0, sizeof *shared);
    said.text[0] = 0;
    usual_crashes = false;
    slow_ms = 0;
    if (tg_context_create(&options, &context)) return -1;
    tg_context_use(context);
    return 0;
}

static int finish(void **state) {
    (void)state;
    tg_context_destroy(context);
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/// Each bad variant is named, the fastest correct one wins, and a later process does not try the
/// bad ones again.
static void each_is_survived(void **state) {
    (void)state;
    Object o, later;
    OBJECT(&o, CRASHES, HANGS, EXITS, WRONG, FAILS, FAST);
    assert_int_equal(launch(&o.kernel, N), FAST);
    for (int i = 0; i < VARIANTS; i++)
        assert_true((shared->runs[i] > 0) == (i < SCRIBBLES)); // all were tried
    expect_logged("tuning 'add': B=crash is left out: it crashed by signal 11 (Segmentation");
    expect_logged("tuning 'add': B=hangs is left out: it did not end within ");
    expect_logged("tuning 'add': B=exits is left out: it ended its process");
    expect_logged("tuned 'add': B=fast");
    int before[] = {shared->runs[CRASHES], shared->runs[HANGS], shared->runs[EXITS]};
    assert_int_equal(launch(&o.kernel, 100), FAST); // gets a search of its own
    OBJECT(&later, CRASHES, HANGS, EXITS, WRONG, FAILS, FAST);
    assert_int_equal(launch(&later.kernel, N), FAST);
    assert_int_equal(launch(&later.kernel, 1000), FAST);
    int after[] = {shared->runs[CRASHES], shared->runs[HANGS], shared->runs[EXITS]};
    assert_memory_equal(before, after, sizeof before);
    tg_kernel_close(&o.kernel);
    tg_kernel_close(&later.kernel);
}

static void note_signal(int signal) {
    (void)signal;
    shared->handled++;
}

/// Children do not affect the program's memory, files and signal handlers.
static void nothing_is_shared(void **state) {
    (void)state;
    struct sigaction own = {.sa_handler = note_signal}, before;
    Object o;
    marker = open("/dev/null", O_RDONLY);
    assert_true(marker > 2);
    own.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGSEGV, &own, &before);
    OBJECT(&o, CRASHES, SCRIBBLES);
    assert_int_equal(launch(&o.kernel, N), SCRIBBLES);
    sigaction(SIGSEGV, &before, NULL);
    close(marker);
    marker = -1;
    assert_true(shared->runs[CRASHES] > 0);
    assert_int_equal(shared->handled, 0);
    assert_int_equal(shared->opened, 0);
    tg_kernel_close(&o.kernel);
}

/// In a child nothing works: the launch runs as without tuning, and the log has the reason.
static void default_is_kept(void **state) {
    (void)state;
    Object o;
    usual_crashes = true;
    assert_int_equal(launch(&OBJECT(&o, FAST)->kernel, N), USUAL);
    expect_logged("'add' is not tuned: without tuning it fails: it crashed by signal 6 (Aborted)");
    assert_int_equal(shared->runs[FAST], 0);
    int runs = shared->runs[USUAL];
    assert_int_equal(launch(&o.kernel, 100), USUAL);
    assert_int_equal(shared->runs[USUAL], runs + 1);
    tg_kernel_close(&o.kernel);
}

static void not_wanted(void **state) {
    (void)state;
    Object o;
    setenv("TG_TUNE_FORK", "off", 1);
    assert_int_equal(launch(&OBJECT(&o, FAST, CRASHES)->kernel, N), USUAL);
    assert_int_equal(shared->runs[USUAL], 1);
    expect_logged("'add' is not tuned: TG_TUNE_FORK=off: no process may be forked");
    tg_kernel_close(&o.kernel);
}

/// The system refuses new processes.
static void not_to_be_had(void **state) {
    (void)state;
    struct rlimit before, none;
    Object o;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 1;
    setenv("TG_CACHE", "off", 1);
    setrlimit(RLIMIT_NOFILE, &none);
    int variant = launch(&OBJECT(&o, FAST)->kernel, N);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(variant, USUAL);
    expect_logged("'add' is not tuned: no pair of sockets: Too many open files");
    tg_kernel_close(&o.kernel);
}

/// The budget ends a variant that hangs. That does not prove a hang, so a search with more time
/// tries it again.
static void keeps_to_the_budget(void **state) {
    (void)state;
    Object o, later;
    slow_ms = 30; // so that others may exceed the budget
    setenv("TG_CACHE", "off", 1);
    setenv("TG_TUNE", "block", 1);
    setenv("TG_TUNE_BUDGET_MS", "1000", 1);
    assert_int_equal(launch(&OBJECT(&o, HANGS)->kernel, N), USUAL);
    assert_null(strstr(said.text, "B=hangs is left out"));
    slow_ms = 0;
    setenv("TG_TUNE", "exhaustive", 1);
    assert_int_equal(launch(&OBJECT(&later, HANGS, FAST)->kernel, N), FAST);
    expect_logged("tuning 'add': B=hangs is left out: it did not end within ");
    tg_kernel_close(&o.kernel);
    tg_kernel_close(&later.kernel);
}

/// A variant that got no core is not hung.
static void may_starve(void **state) {
    (void)state;
    Object o;
    assert_int_equal(launch(&OBJECT(&o, STARVES)->kernel, N), STARVES);
    if (strstr(said.text, "left out")) fail_msg("%s", said.text);
    tg_kernel_close(&o.kernel);
}

/// A program that is stopped for a while with its child takes no variant for hung. Other programs
/// may delay either variant, so either may win.
static void may_be_stopped(void **state) {
    (void)state;
    Object o;
    int status = -1;
    slow_ms = 10; // a trial may take some 2 seconds
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        program = getpid();
        int variant = launch(&OBJECT(&o, FAST)->kernel, N);
        bool fine = (variant == FAST || variant == USUAL) && strstr(said.text, "tuned 'add': ") &&
                    !strstr(said.text, "left out");
        if (!fine) fprintf(stderr, "variant %d: %s\n", variant, said.text);
        _exit(fine ? 0 : 1);
    }
    while (!shared->runs[FAST]) wait_ms(1);
    kill(-pid, SIGSTOP);
    wait_ms(4000);
    kill(-pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    slow_ms = 0;
    assert_int_equal(status, 0);
}

/* ---- programs with threads ------------------------------------------------------------------- */

static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool enough;

static void *locked_allocate(void *user, size_t bytes) {
    (void)user;
    pthread_mutex_lock(&heap);
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    pthread_mutex_unlock(&heap);
    return p;
}
static void locked_release(void *user, void *memory, size_t bytes) {
    (void)user, (void)bytes;
    pthread_mutex_lock(&heap);
    free(memory);
    pthread_mutex_unlock(&heap);
}
static void loop(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg) {
    (void)user;
    if (getpid() != program) shared->hooked++;
    for (size_t i = 0; i < n; i++) task(arg, i);
}

/// Holds locks most of the time: the program's own, and the C library's.
static void *hold_locks(void *arg) {
    (void)arg;
    while (!enough) {
        void *p = locked_allocate(NULL, 100000);
        pthread_mutex_lock(&heap);
        free(malloc(1000));
        fflush(stdout);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        pthread_mutex_unlock(&heap);
        locked_release(NULL, p, 0);
    }
    return NULL;
}

static void threads_and_locks(void **state) {
    (void)state;
    enum { THREADS = 4, ROUNDS = 8 };
    pthread_t threads[THREADS];
    tg_options options = {.size = sizeof options,
                          .threads = 2,
                          .log = note,
                          .allocate = locked_allocate,
                          .release = locked_release,
                          .parallel = loop};
    tg_context *c;
    Object o;
    setenv("TG_CACHE", "off", 1);
    enough = false;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hold_locks, NULL), 0);
    assert_int_equal(tg_context_create(&options, &c), TG_OK);
    tg_context_use(c);
    int found = 0;
    for (int i = 0; i < ROUNDS; i++) {
        found += launch(&OBJECT(&o, FAST, CRASHES)->kernel, N) == FAST;
        tg_kernel_close(&o.kernel);
    }
    enough = true;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    tg_context_use(context);
    tg_context_destroy(c);
    if (!found) fail_msg("none of %d searches found anything:\n%s", ROUNDS, said.text);
    assert_int_equal(shared->hooked, 0); // these threads do not exist in the child
}

/* ---- programs that end ----------------------------------------------------------------------- */

/// A hanging child ends with its program, however that ends.
static void goes_with_the_program(void **state) {
    (void)state;
    Object o;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        program = getpid();
        launch(&OBJECT(&o, HANGS)->kernel, N);
        _exit(0);
    }
    while (!shared->hung) wait_ms(1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (bool gone = false; !gone;) {
        char path[64], text[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", shared->hung);
        FILE *f = fopen(path, "r");
        size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
        if (f) fclose(f);
        text[n] = 0;
        gone = !n || strstr(text, ") Z ");
        wait_ms(1);
    }
}

/// A program that waits for all of its children, or lets the system do so, is tuned like any other.
static void children_are_ignored(void **state) {
    (void)state;
    Object o;
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    int variant = launch(&OBJECT(&o, CRASHES, HANGS, FAST)->kernel, N);
    signal(SIGCHLD, before);
    assert_int_equal(variant, FAST);
    expect_logged("B=crash is left out: it ended its process");
    tg_kernel_close(&o.kernel);
}

int main(void) {
    shared = shared_memory(sizeof *shared);
    nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    program = getpid();
    if (!mkdtemp(folder)) return 1;
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)
    const struct CMUnitTest tests[] = {
        TEST(each_is_survived),     TEST(nothing_is_shared),
        TEST(default_is_kept),      TEST(not_wanted),
        TEST(not_to_be_had),        TEST(keeps_to_the_budget),
        TEST(may_starve),           TEST(may_be_stopped),
        TEST(threads_and_locks),    TEST(goes_with_the_program),
        TEST(children_are_ignored),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    empty_folder();
    rmdir(folder);
    return failed;
}
