// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula-opt reads IR text, runs passes and prints IR text, for the tests of the IR and its passes.
#include "frontend/frontend.h"
#include "lang/diag.h"
#include "passes/gpu/gpu.h"
#include "passes/passes.h"
#include "tools/tegula-opt/opt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct OptOptions {
    const char *passes, *dump_after, *file;
    const char *threads, *vector, *l1, *l2, *gpu, *library;
    const char *axes[AXIS_COUNT];
    bool verify_each, time, locs, split, check, ops, axis_page, gpus, model, tables, list_passes,
        help;
} OptOptions;

static const struct {
    const char *name, *value; // value: NULL for flags
    size_t offset;
    const char *doc;
} option_table[] = {
#define FLAG(name, field, doc)                                                                     \
    { name, NULL, offsetof(OptOptions, field), doc }
#define VALUE(name, value, field, doc)                                                             \
    { name, value, offsetof(OptOptions, field), doc }
    VALUE("--pass", "A,B,C", passes,
          "run these passes in this order; `cpu` and `gpu` are the pipelines"),
    FLAG("--verify-each", verify_each, "verify after each pass"),
    VALUE("--dump-after", "A,B|all", dump_after, "print the IR after these passes to stderr"),
    FLAG("--time-passes", time, "print the seconds of each pass to stderr"),
    FLAG("--locs", locs, "print source positions"),
    FLAG("--split", split, "the input is several modules with lines `// -----` between them"),
    VALUE("--threads", "N", threads, "threads of the target (4)"),
    VALUE("--vector-bytes", "N", vector, "bytes of a vector of the target (32)"),
    VALUE("--l1", "BYTES", l1, "first-level cache of the target (32768)"),
    VALUE("--l2", "BYTES", l2, "second-level cache of the target (1048576)"),
    VALUE("--split-loops", "N", axes[AXIS_SPLIT], "the axis `split`"),
    VALUE("--gpu", "NAME", gpu, "the target is this GPU (sm_80, sm_90a ...)"),
    FLAG("--check", check, "compile with checks"),
    FLAG("--list-passes", list_passes, "list the passes and exit"),
    FLAG("--ops", ops, "print the reference page of ops (docs/use/ops.md) and exit"),
    FLAG("--axes", axis_page, "print the table of axes of docs/use/tuning.md and exit"),
    FLAG("--gpus", gpus, "print the table of GPUs of docs/status.md and exit"),
    FLAG("--model", model,
         "print the page of the models' constants (docs/inside/model.md) and exit"),
    FLAG("--tables", tables,
         "print elements, ops and builtins, a row a line, for programs, and exit"),
    VALUE("--library", "FOLDER", library,
          "check the folder's files as the standard library, as a build does, and exit"),
    FLAG("--help", help, "print this and exit"),
#undef FLAG
#undef VALUE
};
enum { N_OPTIONS = sizeof option_table / sizeof *option_table };

/* ---- command line -------------------------------------------------------------------------- */

static void print_help(void) {
    puts("usage: tegula-opt [options] FILE|-\n");
    for (int i = 0; i < N_OPTIONS; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", option_table[i].name,
                 option_table[i].value ? option_table[i].value : "");
        printf("  %-24s %s\n", left, option_table[i].doc);
    }
    puts("  --AXIS VALUE             an axis of the schedule (lang/axes.def); 0: the passes' "
         "choice");
}

/// The rows of lang/axes.def as they are in docs/use/tuning.md.
static void print_axes(void) {
    puts("| axis | where | meaning |\n|---|---|---|");
    for (int i = 0; i < AXIS_COUNT; i++)
        printf("| `%s` | %s | %s |\n", axis_info[i].name, axis_info[i].where, axis_info[i].doc);
}

static void list_passes(void) {
    for (int i = 0; i < PASS_COUNT; i++)
        printf("%-16s %s\n", pass_table[i].name, pass_table[i].doc);
}

static bool usage_error(const char *what, const char *name) {
    fprintf(stderr, "tegula-opt: %s %s\n", what, name);
    return false;
}

/// Reads option argv[*i], moving *i on to its value.
static bool parse_option(OptOptions *o, int argc, char **argv, int *i) {
    for (int k = 0; k < N_OPTIONS; k++) {
        void *field = (char *)o + option_table[k].offset;
        if (strcmp(argv[*i], option_table[k].name) != 0) continue;
        if (!option_table[k].value) {
            *(bool *)field = true;
            return true;
        }
        if (++*i >= argc) return usage_error("no value for", option_table[k].name);
        *(const char **)field = argv[*i];
        return true;
    }
    AxisId axis = strncmp(argv[*i], "--", 2) == 0 ? axis_by_name(argv[*i] + 2) : AXIS_COUNT;
    if (axis == AXIS_COUNT) return usage_error("unknown option", argv[*i]);
    if (++*i >= argc) return usage_error("no value for", argv[*i - 1]);
    o->axes[axis] = argv[*i];
    return true;
}

static bool parse_opt_args(OptOptions *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            if (!parse_option(o, argc, argv, &i)) return false;
        } else if (o->file) {
            return usage_error("more than one input:", argv[i]);
        } else {
            o->file = argv[i];
        }
    }
    return o->file || o->ops || o->axis_page || o->gpus || o->model || o->tables ||
           o->list_passes || o->library || o->help || usage_error("no input", "file");
}

static int64_t number_or(const char *text, int64_t otherwise) {
    return text ? strtoll(text, NULL, 10) : otherwise;
}

/* ---- one module ---------------------------------------------------------------------------- */

typedef struct OptJob {
    const OptOptions *options;
    const char *text;
    size_t len;
    const char *output; // set after success
} OptJob;

static void dump_opt_pass(void *user, const char *pass, const char *text) {
    (void)user;
    fprintf(stderr, "// ---- after %s\n%s", pass, text);
}

static int add_pipeline(const Pass **out, const Pass *const *pipeline, int n) {
    for (int i = 0; i < n; i++) out[i] = pipeline[i];
    return n;
}

/// Appends the passes of a comma-separated list; `cpu` and `gpu` stand for their pipelines.
static int find_passes(Ctx *ctx, const char *list, const Pass **out) {
    int n = 0;
    for (const char *s = list; s && *s; s += strspn(s, ",")) {
        size_t len = strcspn(s, ",");
        const char *name = ctx_intern(ctx, s, len);
        s += len;
        if (strcmp(name, "cpu") == 0)
            n += add_pipeline(out + n, cpu_pipeline, cpu_pipeline_length);
        else if (strcmp(name, "gpu") == 0)
            n += add_pipeline(out + n, gpu_pipeline, gpu_pipeline_length);
        else if ((out[n] = pass_by_name(name)))
            n++;
        else
            diag(ctx, (Loc){0}, D_IR_UNKNOWN, "pass", name);
    }
    return n;
}

static int count_passes(const char *list) {
    int n = 1;
    for (const char *s = list; s && *s; s++) n += *s == ',';
    return n * (cpu_pipeline_length + gpu_pipeline_length);
}

/// If the text is no value of the axis, the passes choose.
static void set_opt_axis(PassEnv *env, AxisId id, const char *text) {
    int64_t value;
    if (text && setting_value(axis_names[id], text, strlen(text), &value))
        env_set_axis(env, id, (int)value);
}

static bool optimize_module(Ir *ir, Op *module, const OptOptions *o) {
    Ctx *ctx = ir_ctx(ir);
    const Pass **passes = ctx_array(ctx, const Pass *, count_passes(o->passes));
    int n = find_passes(ctx, o->passes, passes);
    PassEnv env = {.ir = ir,
                   .threads = (int)number_or(o->threads, 4),
                   .vector_bytes = (int)number_or(o->vector, 32),
                   .l1_bytes = number_or(o->l1, 32768),
                   .l2_bytes = number_or(o->l2, 1048576),
                   .gpu = o->gpu ? gpu_target(o->gpu) : NULL,
                   .check = o->check};
    for (int i = 0; i < AXIS_COUNT; i++) set_opt_axis(&env, (AxisId)i, o->axes[i]);
    if (o->gpu && !env.gpu) diag(ctx, (Loc){0}, D_IR_UNKNOWN, "GPU", o->gpu);
    for (int i = 0; i < n; i++)
        if (strcmp(passes[i]->name, "expand-math") == 0 && !env.library)
            env.library = fe_math_library(ir, module);
    PassOptions options = {.verify_each = o->verify_each,
                           .time = o->time,
                           .dump_after = o->dump_after,
                           .dump = dump_opt_pass,
                           .seconds = ctx_array(ctx, double, n)};
    if (diag_errors(ctx) || !run_passes(&env, module, passes, n, &options)) return false;
    for (int i = 0; o->time && i < n; i++)
        fprintf(stderr, "%10.6f s  %s\n", options.seconds[i], passes[i]->name);
    return true;
}

static void process_module(Ctx *ctx, void *arg) {
    OptJob *job = arg;
    const OptOptions *o = job->options;
    Ir *ir = ir_create(ctx);
    const char *path = strcmp(o->file, "-") == 0 ? "<stdin>" : o->file;
    Op *module = ir_parse(ir, ctx_add_source(ctx, path, job->text, job->len));
    if (!module || !ir_verify(ir, module) || !optimize_module(ir, module, o)) return;
    Text out = {.ctx = ctx};
    ir_print(&out, module, o->locs);
    job->output = out.data;
}

static void print_opt_diagnostics(Ctx *ctx, void *arg) {
    bool colour = isatty(STDERR_FILENO) && !secure_getenv("NO_COLOR");
    (void)arg;
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) {
        Text text = {.ctx = ctx};
        diag_render(&text, ctx, d, colour);
        fputs(text.data, stderr);
    }
}

int run_in_context(void (*body)(Ctx *ctx, void *arg), void (*done)(void *arg), void *arg) {
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = ctx ? ctx_protect(ctx, body, arg) : CTX_NO_MEMORY;
    if (status == CTX_NO_MEMORY)
        fputs("tegula-opt: out of memory\n", stderr);
    else
        ctx_protect(ctx, print_opt_diagnostics, NULL);
    if (status == CTX_OK && done) done(arg);
    ctx_destroy(ctx);
    return status == CTX_OK ? 0 : status == CTX_ERRORS ? EXIT_USER : EXIT_BUG;
}

static void print_output(void *arg) {
    const OptJob *job = arg;
    if (job->output) fputs(job->output, stdout);
}

static int run_job(const OptOptions *o, const char *text, size_t len) {
    OptJob job = {.options = o, .text = text, .len = len};
    return run_in_context(process_module, print_output, &job);
}

/* ---- input --------------------------------------------------------------------------------- */

char *read_all(FILE *f, size_t *len) {
    size_t cap = 1 << 16, n = 0, got;
    char *data = malloc(cap + 1);
    while (data && (got = fread(data + n, 1, cap - n, f)) > 0) {
        n += got;
        char *bigger = n == cap ? realloc(data, 2 * cap + 1) : data;
        if (!bigger) free(data);
        cap = n == cap ? 2 * cap : cap;
        data = bigger;
    }
    if (data) data[n] = 0;
    *len = n;
    return data;
}

/// Runs each part between lines `// -----` as a module. The text before a part is blanked except
/// for its line ends, so that positions match the file.
static int run_split_parts(const OptOptions *o, char *text, size_t len) {
    int worst = 0;
    char *part = text, *end = text + len;
    while (part < end) {
        char *stop = strstr(part, "\n// -----");
        stop = stop ? stop + 1 : end;
        int status = run_job(o, text, (size_t)(stop - text));
        worst = status > worst ? status : worst;
        for (; part < stop; part++) *part = *part == '\n' ? '\n' : ' ';
        if (part < end) puts("// -----");
    }
    return worst;
}

int main(int argc, char **argv) {
    OptOptions o = {0};
    if (!parse_opt_args(&o, argc, argv)) return EXIT_USAGE;
    if (o.help) print_help();
    if (o.list_passes) list_passes();
    if (o.ops) print_ops_page();
    if (o.axis_page) print_axes();
    if (o.gpus) print_gpus();
    if (o.model) print_model_page();
    if (o.tables) print_tables();
    int checked = o.library ? check_library(o.library) : 0;
    if (!o.file || checked) return checked;
    FILE *f = strcmp(o.file, "-") == 0 ? stdin : fopen(o.file, "rb");
    size_t len = 0;
    char *text = f ? read_all(f, &len) : NULL;
    if (!text) {
        usage_error("cannot read", o.file);
        return EXIT_USAGE;
    }
    int status = o.split ? run_split_parts(&o, text, len) : run_job(&o, text, len);
    free(text);
    if (f != stdin) fclose(f);
    return status;
}
