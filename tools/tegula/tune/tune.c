// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula tune: finds the fastest settings of a kernel by measurement, for one shape or a list.
#include "tools/tegula/tune/tune.h"

#include "driver/tune/tuned_file.h"
#include "runtime/tegula.h"
#include "tools/roofline.h"
#include "tools/tegula/executors.h"
#include "tools/tegula/measure.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SHAPES = 10000, ROWS = 8, ROOF_TRIES = 3 }; // ROWS: rows of a table on the terminal

typedef VEC(List) Shapes; // each shape is a list of "M=512"

typedef struct Tune {
    Ctx *ctx;
    const Options *o;
    TuneMode mode;
    double budget;
    VEC(Tuning) done;
    Tuned tuned;
    int whole; // shapes with a completed search
    bool failed;
} Tune;

/// Set by an interrupt: the search ends with the best setting so far, and no other one begins.
static atomic_bool stop;

static void stop_on_interrupt(int signal) {
    (void)signal;
    atomic_store(&stop, true);
}

/* ---- shapes -------------------------------------------------------------------------------- */

static void add_shape(Tune *c, Shapes *all, const List *dims, int n_more, const NamedValue *more) {
    const char **texts = ctx_array(c->ctx, const char *, dims->n + n_more + 1);
    if (dims->n) memcpy(texts, dims->at, sizeof *texts * (size_t)dims->n);
    for (int i = 0; i < n_more; i++)
        texts[dims->n + i] = ctx_format(c->ctx, "%s=%lld", more[i].name, (long long)more[i].value);
    List shape = {texts, dims->n + n_more};
    vec_push(c->ctx, all, shape);
}

/// Combines each value of a --dim with each of the others: "M=512|4096" doubles the list.
static bool multiply_shapes(Tune *c, Shapes *all, const char *option) {
    size_t name = strcspn(option, "=");
    Shapes before = *all;
    *all = (Shapes){0};
    for (int i = 0; i < before.n; i++)
        for (const char *at = option + name + (option[name] == '=');;) {
            size_t n = strcspn(at, "|");
            const char *text = ctx_format(c->ctx, "%.*s=%.*s", (int)name, option, (int)n, at);
            NamedValue *value;
            int n_values;
            if (!option[name] || values_read(c->ctx, text, &n_values, &value) || n_values != 1 ||
                value->value < 0) {
                cli_error("--dim %s: expected NAME=EXTENT or NAME=A|B", option);
                return false;
            }
            add_shape(c, all, &before.data[i], 1, value);
            if (all->n > MOST_SHAPES) {
                cli_error("--dim: more than %d shapes", MOST_SHAPES);
                return false;
            }
            if (!at[n]) break;
            at += n + 1;
        }
    return true;
}

/// Reads one shape a line. Blank lines, and text after a '#', are ignored.
static bool read_shapes(Tune *c, const char *path, Shapes *all) {
    uint16_t file = source_read(c->ctx, path);
    if (!file) return false;
    size_t length;
    const char *text = ctx_source_text(c->ctx, file, &length), *const end = text + length;
    int line = 1;
    for (const char *next; text < end; text = next, line++) {
        const char *stop_at = memchr(text, '\n', (size_t)(end - text));
        next = stop_at ? stop_at + 1 : end;
        const char *own = ctx_intern(c->ctx, text, (size_t)(next - text)), *bad;
        own = ctx_intern(c->ctx, own, strcspn(own, "#\r\n"));
        NamedValue *values;
        int n;
        if ((bad = values_read(c->ctx, own, &n, &values))) {
            cli_error("%s:%d: '%s' is not of the form NAME=EXTENT", path, line, bad);
            return false;
        }
        if (n) add_shape(c, all, &(List){0}, n, values);
    }
    if (all->n) return true;
    cli_error("%s: no shape is in it", path);
    return false;
}

/// Lists the lines of --shapes, or one shape without dims, times the values of --dim. Returns the
/// exit code.
static int list_shapes(Tune *c, Shapes *all) {
    if (!c->o->shapes)
        add_shape(c, all, &(List){0}, 0, NULL);
    else if (!read_shapes(c, c->o->shapes, all))
        return EXIT_USER;
    for (int i = 0; i < c->o->dims.n; i++)
        if (!multiply_shapes(c, all, c->o->dims.at[i])) return EXIT_USAGE;
    return EXIT_OK;
}

/* ---- one shape ----------------------------------------------------------------------------- */

typedef struct ShapeSearch {
    Tune *c;
    List shape;
    const char *title;
    Tuning tuning;
    TunedEntry entry;
    bool ok;
} ShapeSearch;

/// Rounds to the number of digits that a measurement has.
static double round_seconds(double seconds) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.4g", seconds);
    return strtod(digits, NULL);
}

static const char *job_level(const Job *job) {
    const TargetInfo *level = cpu_level(cpu_host_arch(), (int)tg_cpu_level());
    return job->target ? job->target : level ? level->name : cpu_host_arch();
}

static TunedEntry entry_of(Job *job, const TuneResult *r) {
    Elem *types = ctx_array(job->ctx, Elem, job->kernel->generics.n + 1);
    for (int i = job->kernel->params.n - 1; i >= 0; i--) {
        const TypeExpr *t = job->kernel->params.at[i].type;
        int g = t ? fn_generic(job->kernel, t->elem.text) : -1;
        if (g >= 0) types[g] = job->params[i].elem;
    }
    for (int i = 0; i < job->request.n_given; i++) { // types that no parameter has
        int g = fn_generic(job->kernel, job->request.given[i].name);
        if (g >= 0) types[g] = (Elem)job->request.given[i].value;
    }
    return (TunedEntry){.kernel = tuned_kernel(job->ctx, job->kernel, types),
                        .target = job_level(job),
                        .device = r->device,
                        .shape = r->shape,
                        .config = r->config,
                        .seconds = round_seconds(r->seconds),
                        .standard = round_seconds(r->standard),
                        .interrupted = r->interrupted};
}

static bool can_measure(const Job *job) {
    if (job_measures(job)) return true;
    cli_error("--target %s: times are those of cpu, cuda or hip", job->o->target);
    return false;
}

static bool has_tensor(const Request *r, uint8_t code, uint8_t bits) {
    for (int i = 0; i < r->n_args; i++) {
        const tg_actual *a = &r->args[i];
        if (a->rank && a->code == code && a->bits == bits) return true;
    }
    return false;
}

/// Whether the rate of the units for its types is measured; the rate for 8-bit types is not.
static bool has_rate(const Request *r) {
    return !has_tensor(r, kDLInt, 8) && !has_tensor(r, kDLUInt, 8);
}

/// Returns the operations a second of the unit for the narrowest measured types; 0: none was
/// measured.
static double rate_of(const Roofs *roofs) {
    return fmax(fmax(roofs->amx_bf16, roofs->dot_bf16), roofs->fma_f32);
}

/// Returns a lower bound of a launch's seconds on this CPU: the bytes at the speed of a copy, and
/// the operations at the speed of its units.
static double roof_of(const Request *r, const Roofs *roofs, const TuneResult *result) {
    double rate = has_rate(r) ? rate_of(roofs) : 0;
    double copy = result->bytes >= 2 ? roofs_copy(r->threads, (int64_t)(result->bytes / 2)) : 0;
    return fmax(copy > 0 ? result->bytes / copy : 0, rate > 0 ? result->flops / rate : 0);
}

/// Measures roofs once for each kind of unit, and again if a launch beat them, because the machine
/// was busy then. Returns 0 if the launch beats the new roof, too.
static double cpu_roof(const Request *r, const TuneResult *result) {
    static Roofs kinds[2];
    bool bf16 = has_tensor(r, kDLBfloat, 16);
    Roofs *roofs = &kinds[bf16];
    for (int tries = 0; tries < ROOF_TRIES; tries++) {
        if (has_rate(r) && (tries || roofs->threads != r->threads))
            *roofs = roofs_arithmetic(r->threads, bf16);
        double roof = roof_of(r, roofs, result);
        if (roof <= result->seconds) return roof;
    }
    return 0;
}

/// Searches in a context of its own, so that messages about one shape do not mix with the next.
static void search_shape(Ctx *ctx, void *arg) {
    ShapeSearch *s = arg;
    Options *o = ctx_copy(ctx, s->c->o, sizeof *s->c->o);
    o->dims = s->shape;
    Job *job = job_create(ctx, o);
    // The tuner makes its own floats, so the values of these are never read.
    if (!job || !can_measure(job) || !job_load(job) || !job_complete(job, o, "zeros") ||
        !job_instance(job, false))
        return;
    const DLTensor **tensors;
    Request r;
    if (!job_request(job, &r, &tensors)) return;
    s->title = job_title(job);
    TuneLine line = {s->c->ctx, s->title};
    TuneOptions options = {.mode = s->c->mode,
                           .budget = s->c->budget,
                           .seed = (uint64_t)o->seed,
                           .device = job->device,
                           .devices = job_rank_devices(job),
                           .again = o->again || o->among.n,
                           .further = true,
                           .forget = o->among.n > 0,
                           .n_among = o->among.n,
                           .among = o->among.at,
                           .tensors = tensors,
                           .progress = tune_line_show,
                           .user = &line,
                           .stop = &stop};
    tg_status status = tune_request(ctx, &r, &options, &s->tuning.result);
    tune_line_end();
    s->tuning.title = s->title;
    s->tuning.known = s->tuning.result.known;
    if (status && !diag_errors(ctx)) cli_error("%s: %s", s->title, tg_last_error());
    if (!status && !(s->tuning.result.seconds > 0))
        cli_error("%s: stopped before the first result", s->title);
    if (status || !(s->tuning.result.seconds > 0)) return;
    if (job->device < 0) s->tuning.result.roof = cpu_roof(&r, &s->tuning.result);
    s->entry = entry_of(job, &s->tuning.result);
    s->ok = true;
}

static void release_shape_context(void *child) {
    ctx_destroy(child);
}

/// The context of the search lives until the reports are made.
static void tune_one(Tune *c, const List *shape) {
    ShapeSearch s = {.c = c, .shape = *shape};
    Ctx *child = ctx_create(NULL);
    if (!child) ctx_leave(c->ctx, CTX_NO_MEMORY);
    ctx_defer(c->ctx, release_shape_context, child);
    CtxStatus status = ctx_protect(child, search_shape, &s);
    cli_diagnostics(child);
    if (status == CTX_NO_MEMORY || status == CTX_BUG) ctx_leave(c->ctx, status);
    if (!s.ok) {
        c->failed = true;
        return;
    }
    Text t = {.ctx = c->ctx};
    tune_text(&t, &s.tuning, ROWS);
    fputs(t.data, stdout);
    fflush(stdout);
    vec_push(c->ctx, &c->done, s.tuning);
    tuned_add(c->ctx, &c->tuned, &s.entry);
    c->whole += !s.entry.interrupted;
}

/* ---- files --------------------------------------------------------------------------------- */

static bool read_tuned(Tune *c, const char *path, Tuned *all) {
    uint16_t file = source_read(c->ctx, path);
    size_t n;
    const char *text = file ? ctx_source_text(c->ctx, file, &n) : NULL, *error;
    if (!file || tuned_read(c->ctx, text, n, all, &error)) return file != 0;
    cli_error("%s: %s", path, error);
    return false;
}

/// Results already in the file stay, unless they were tuned again.
static bool write_tuned(Tune *c, const char *path) {
    Tuned all = {0};
    if (!c->o->merge && access(path, F_OK) == 0 && !read_tuned(c, path, &all)) return false;
    for (int i = 0; i < c->tuned.n; i++) tuned_add(c->ctx, &all, &c->tuned.data[i]);
    Text t = {.ctx = c->ctx};
    tuned_write(&t, &all);
    return file_write(c->ctx, path, t.data, t.n);
}

static bool is_page(const char *path) {
    size_t n = strlen(path);
    return n < 4 || strcmp(path + n - 4, ".txt") != 0;
}

/// Tests that outputs can be written, before any search.
static bool check_outputs(Tune *c) {
    const Options *o = c->o;
    const char *const paths[] = {o->output, o->report, o->jsonl};
    Tuned before = {0};
    for (int i = 0; i < 3; i++)
        if (paths[i] && !file_can_be_written(c->ctx, paths[i])) return false;
    return !o->output || access(o->output, F_OK) != 0 || read_tuned(c, o->output, &before);
}

static bool write_outputs(Tune *c) {
    const Options *o = c->o;
    if (!c->done.n) return true;
    bool ok = !o->output || write_tuned(c, o->output);
    if (o->report) {
        Text t = {.ctx = c->ctx};
        text_add(&t, "%s", is_page(o->report) ? tune_page(c->ctx, c->done.n, c->done.data) : "");
        for (int i = 0; i < c->done.n && !is_page(o->report); i++)
            tune_text_all(&t, &c->done.data[i]);
        ok &= file_write(c->ctx, o->report, t.data, t.n);
    }
    if (o->jsonl) {
        Text t = {.ctx = c->ctx};
        text_bytes(&t, "", 0);
        for (int i = 0; i < c->done.n; i++) tune_lines(&t, &c->done.data[i]);
        ok &= file_write(c->ctx, o->jsonl, t.data, t.n);
    }
    return ok;
}

static int merge_tuned_files(Tune *c) {
    if (!c->o->output) {
        cli_error("'tegula tune --merge' needs -o FILE.json");
        return EXIT_USAGE;
    }
    for (int i = 0; i < c->o->files.n; i++)
        if (!read_tuned(c, c->o->files.at[i], &c->tuned)) return EXIT_USER;
    return write_tuned(c, c->o->output) ? EXIT_OK : EXIT_USER;
}

/* ---- the command --------------------------------------------------------------------------- */

static bool take_options(Tune *c) {
    const Options *o = c->o;
    const char *rest = "";
    c->mode = TUNE_BLOCK;
    if (o->mode && (!tune_mode_of(o->mode, &c->mode) || c->mode <= TUNE_STRICT ||
                    c->mode == TUNE_BACKGROUND)) {
        cli_error("--mode %s: there are block, exhaustive and sample", o->mode);
        return false;
    }
    if (o->budget) {
        char *end;
        c->budget = strtod(o->budget, &end);
        rest = end;
    }
    if (*rest || (o->budget && !(c->budget > 0 && c->budget < 1e6))) {
        cli_error("--budget %s: expected seconds", o->budget);
        return false;
    }
    if (o->files.n == 1) return true;
    cli_error("'tegula tune' takes one file; --merge adds up those of --output");
    return false;
}

int cmd_tune(Ctx *ctx, const Options *o) {
    Tune *c = ctx_new(ctx, Tune);
    *c = (Tune){.ctx = ctx, .o = o};
    if (o->merge) return merge_tuned_files(c);
    Shapes shapes = {0};
    if (!take_options(c)) return EXIT_USAGE;
    int code = list_shapes(c, &shapes);
    if (code) return code;
    if (!check_outputs(c)) return EXIT_USER;
    struct sigaction action = {.sa_handler = stop_on_interrupt, .sa_flags = (int)SA_RESETHAND},
                     before;
    sigaction(SIGINT, &action, &before);
    for (int i = 0; i < shapes.n && !atomic_load(&stop); i++) tune_one(c, &shapes.data[i]);
    sigaction(SIGINT, &before, NULL);
    bool ok = write_outputs(c);
    if (atomic_load(&stop)) {
        cli_error("interrupted: %d of %d shapes were searched to the end", c->whole, shapes.n);
        c->failed = true;
    }
    return ok && !c->failed ? EXIT_OK : EXIT_USER;
}
