// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of `tegula` with searches that compile and launch nothing. A file provides the
// times of settings, and the clock is simulated. It shows the choices of a search without the
// influence of the machine (bench/tune.py --replay).
//
//     TG_REPLAY          lines "SECONDS COMPILE-SECONDS CONFIG"; other settings do not compile.
//                        Without a file all settings compile and are equally fast.
//     TG_REPLAY_HOST     level of the processor that the model estimates for (this machine's)
//     TG_REPLAY_NOISE    standard deviation of a launch over its time (0.02); a twentieth of the
//                        launches take up to twice as long
//     TG_REPLAY_SEED     seed of the noise
//     TG_REPLAY_FIRST    slowdown of the default in the first worker
//     TG_REPLAY_LATER    slowdown of all launches from the second second on
//     TG_REPLAY_HELPERS  number of processes that compile, for recordings of another machine
//     TG_REPLAY_BACKGROUND  search in the background; the last line of standard error is the
//                        worker's part of the time: "SECONDS of SECONDS, SECONDS at most"
#include "backends/backend.h"
#include "driver/remote/oracle.h"
#include "driver/tune/tune_processes.h"
#include "tools/roofline.h"
#include "tools/tegula/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START   0.05   // seconds to start a process
#define MESSAGE 2e-4   // seconds of a message to a process and back
#define FILL    1.5e-4 // seconds to fill a launch's arguments
#define CHECK   5e-3

enum { LINES = 2000 };

double __wrap_rt_seconds(void);

typedef struct Line {
    double seconds, compile;
    char config[200];
} Line;

static struct {
    double now, noise, first, later;
    int workers;
    uint64_t seed;
    bool any; // every setting compiles
    int n;
    Line lines[LINES];
    double done[PROCESSES_MAX + 1]; // times of the processes' answers; the last one is the worker's
    bool started[PROCESSES_MAX + 1];
    Bytes bodies[PROCESSES_MAX + 1];
    int line_of[LINES];           // line of a candidate, by the worker's id for it
    double busy, longest, opened; // busy seconds of the worker; time at which it could be used
} world = {.noise = 0.02, .first = 1, .later = 1, .seed = 1};

double __wrap_rt_seconds(void) {
    return world.now;
}

/// The model's estimates are those for the machine of the recordings, whatever the host is.
bool __real_cpu_info(const char *level, TargetInfo *out);
bool __wrap_cpu_info(const char *level, TargetInfo *out);
bool __wrap_cpu_info(const char *level, TargetInfo *out) {
    const char *other = getenv("TG_REPLAY_HOST");
    bool host = !level || strcmp(level, "host") == 0;
    return __real_cpu_info(host && other ? other : level, out);
}

/// The roofs of this machine do not apply to a simulated world.
Roofs __wrap_roofs_arithmetic(int threads, bool bf16);
Roofs __wrap_roofs_arithmetic(int threads, bool bf16) {
    (void)bf16;
    return (Roofs){.threads = threads};
}

double __wrap_roofs_copy(int threads, int64_t bytes);
double __wrap_roofs_copy(int threads, int64_t bytes) {
    (void)threads, (void)bytes;
    return 0;
}

static double uniform(void) {
    world.seed = world.seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(world.seed >> 11) / (double)(1ull << 53);
}

static double launch(int line) {
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform();
    double t = world.lines[line].seconds * (1 + world.noise * sum);
    if (world.now > 1) t *= world.later;
    return uniform() < 0.05 ? t * (1 + uniform()) : t;
}

static int line_of(const char *config) {
    for (int i = 0; i < world.n; i++)
        if (strcmp(world.lines[i].config, config) == 0) return i;
    if (!world.any || world.n == LINES) return -1;
    Line *l = &world.lines[world.n];
    *l = (Line){.seconds = 1e-3, .compile = 0.05};
    snprintf(l->config, sizeof l->config, "%s", config);
    return world.n++;
}

static Bytes body_of(Bytes message) {
    return (Bytes){message.data + WIRE_HEADER, message.n - WIRE_HEADER};
}

/* ---- simulated processes --------------------------------------------------------------------- */

/// Makes code whose bytes are the setting's number. Products were recorded with `cluster=1`.
static Bytes compile(Ctx *ctx, Bytes message, double *seconds) {
    Request r;
    Text t = {.ctx = ctx};
    wire_read_request(ctx, body_of(message), &r);
    for (int i = 0; i < r.n_set; i++)
        if (strcmp(r.set[i].name, "cluster") != 0)
            text_add(&t, "%s%s=%lld", t.n ? " " : "", r.set[i].name, (long long)r.set[i].value);
    int line = line_of(t.data ? t.data : "");
    tg_variant v = {.config = t.data ? t.data : ""};
    Code code = {.object = &line, .object_bytes = sizeof line};
    Answer a = {.same = -1, .variant = &v, .code = &code, .key = {"k", 1}};
    if (line < 0) a = (Answer){.status = TG_ERROR_UNSUPPORTED, .message = "not in the file"};
    *seconds = line < 0 ? 1e-3 : world.lines[line].compile;
    return wire_write_answer(ctx, &a);
}

/// The interpreter uses its whole time limit and finds nothing.
static Bytes interpret(Ctx *ctx, Bytes message, double *seconds) {
    OracleAsk ask;
    double none = 0;
    Oracle o = {.why = "", .n_params = 1, .expected = {.noise = &none}};
    oracle_read_ask(ctx, body_of(message), &ask);
    *seconds = ask.seconds;
    return oracle_write(ctx, &o);
}

static Bytes help(Ctx *ctx, Bytes message, WireKind wants, double *seconds) {
    return wants == WIRE_EXPECTED ? interpret(ctx, message, seconds)
                                  : compile(ctx, message, seconds);
}

static int line_in(Ctx *ctx, Bytes answer) {
    Answer a;
    int line = 0;
    wire_read_answer(ctx, answer, &a);
    memcpy(&line, a.code->object, sizeof line);
    return line;
}

static Bytes work(Ctx *ctx, Bytes message, bool opens, double *seconds) {
    WorkTry t = {0};
    double x[64];
    WorkReport r = {.ok = true, .registers = -1, .spills = -1, .shared_bytes = -1, .seconds = x};
    *seconds = START;
    if (!opens) {
        work_read_try(ctx, body_of(message), &t);
        if (t.answer.n) world.line_of[t.id] = line_in(ctx, t.answer);
        r.n = t.launches > 0 ? t.launches : 1;
        *seconds = t.launches > 0 ? 0 : CHECK + 5 * world.lines[world.line_of[t.id]].seconds;
    }
    world.workers += opens;
    if (opens && world.workers == 1) world.opened = world.now;
    double slow = t.id == 0 && world.workers == 1 ? world.first : 1;
    for (int i = 0; i < r.n; i++) *seconds += FILL + (x[i] = slow * launch(world.line_of[t.id]));
    r.computed = 1e3; // processor seconds of all threads, on an idle machine
    if (!opens) world.busy += *seconds;
    if (!opens && *seconds > world.longest) world.longest = *seconds;
    return work_write_report(ctx, &r);
}

/* ---- the crew -------------------------------------------------------------------------------- */

SearchProcesses *processes_create(Ctx *ctx, int helpers, int workers) {
    const char *set = getenv("TG_REPLAY_HELPERS");
    SearchProcesses *c = ctx_new(ctx, SearchProcesses);
    if (set) helpers = atoi(set);
    *c = (SearchProcesses){
        .ctx = ctx, .n = helpers < PROCESSES_MAX ? helpers : PROCESSES_MAX, .ranks = workers};
    return c;
}

void processes_dismiss(Hand *h) {
    h->busy = false;
}

void processes_dismiss_workers(SearchProcesses *c) {
    processes_dismiss(c->workers);
}

void processes_stop(SearchProcesses *c) {
    for (int i = 0; i < c->n; i++) processes_dismiss(&c->helpers[i]);
    processes_dismiss_workers(c);
}

static Hand *hand_at(SearchProcesses *c, int i) {
    return i < c->n ? &c->helpers[i] : c->workers;
}

int processes_ask(SearchProcesses *c, Hand *h, int id, Bytes message, WireKind wants,
                  double seconds) {
    int i = h == c->workers ? c->n : (int)(h - c->helpers);
    double takes;
    h->busy = true;
    h->id = id;
    h->clock = (rt_child_clock){.seen = world.now};
    h->limit = seconds;
    h->wants = wants;
    world.bodies[i] =
        i < c->n ? help(c->ctx, message, wants, &takes) : work(c->ctx, message, id < 0, &takes);
    world.done[i] = world.now + takes + MESSAGE + (world.started[i] ? 0 : START);
    world.started[i] = true;
    return 0;
}

bool processes_works(const SearchProcesses *c) {
    return c->workers[0].busy;
}

/// In this world no process has to wait for a core.
static void turn_clocks(SearchProcesses *c) {
    for (int i = 0; i <= c->n; i++) {
        rt_child_clock *own = &hand_at(c, i)->clock;
        own->seconds += world.now - own->seen;
        own->seen = world.now;
    }
}

static ProcessEvent wait_in_world(SearchProcesses *c, double end) {
    int first = -1;
    for (int i = 0; i <= c->n; i++)
        if (hand_at(c, i)->busy && (first < 0 || world.done[i] < world.done[first])) first = i;
    if (first < 0 || world.done[first] > end) {
        world.now = end > world.now ? end : world.now + 1e-3;
        return (ProcessEvent){0};
    }
    Hand *h = hand_at(c, first);
    if (world.done[first] > world.now) world.now = world.done[first];
    h->busy = false;
    return (ProcessEvent){.hand = h, .body = body_of(world.bodies[first])};
}

ProcessEvent processes_wait(SearchProcesses *c, double end) {
    ProcessEvent e = wait_in_world(c, end);
    turn_clocks(c);
    if (e.hand) e.seconds = e.hand->clock.seconds;
    return e;
}

/* ---- in the background ----------------------------------------------------------------------- */

tg_status __real_tune_request(Ctx *ctx, const Request *r, const TuneOptions *o, TuneResult *out);
tg_status __wrap_tune_request(Ctx *ctx, const Request *r, const TuneOptions *o, TuneResult *out);
tg_status __wrap_tune_request(Ctx *ctx, const Request *r, const TuneOptions *o, TuneResult *out) {
    TuneOptions later = *o;
    later.mode = TUNE_BACKGROUND;
    later.helpers = 1;
    if (!getenv("TG_REPLAY_BACKGROUND")) return __real_tune_request(ctx, r, o, out);
    tg_status status = __real_tune_request(ctx, r, &later, out);
    fprintf(stderr, "%.6f of %.6f, %.6f at most\n", world.busy, world.now - world.opened,
            world.longest);
    return status;
}

/* ---- the program ----------------------------------------------------------------------------- */

static bool read_lines(const char *path) {
    FILE *f = path ? fopen(path, "r") : NULL;
    world.any = !path;
    if (world.any) return true;
    if (!f) return false;
    for (Line *l = world.lines; world.n < LINES; l++, world.n++)
        if (fscanf(f, "%lf %lf %199[^\n]", &l->seconds, &l->compile, l->config) != 3) break;
    fclose(f);
    return world.n > 0;
}

int main(int argc, char **argv) {
    const char *noise = getenv("TG_REPLAY_NOISE"), *seed = getenv("TG_REPLAY_SEED");
    const char *first = getenv("TG_REPLAY_FIRST");
    const char *later = getenv("TG_REPLAY_LATER");
    if (first) world.first = strtod(first, NULL);
    if (later) world.later = strtod(later, NULL);
    if (noise) world.noise = strtod(noise, NULL);
    if (seed) world.seed = strtoull(seed, NULL, 10) * 7919;
    if (!read_lines(getenv("TG_REPLAY"))) {
        fprintf(stderr, "TG_REPLAY: not a file of times\n");
        return 2;
    }
    return cli_main(argc - 1, argv + 1);
}
