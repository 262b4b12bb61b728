// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula explain: shows the compiler's decisions for a kernel.
#include "driver/rank_settings.h"
#include "passes/gpu/gpu.h"
#include "tools/tegula/executors.h"
#include "tools/tegula/measure.h"
#include "tools/tegula/tune/tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIGS = 4096 };

static void print_values(Ctx *ctx, const char *title, int n, const NamedValue *values) {
    if (n) printf("%s %s\n", title, settings_text(ctx, n, values));
}

static const char *access_text(const ParamUse *use) {
    return use->null                   ? "null"
           : use->read                 ? (use->written ? "read and written" : "read")
           : use->written              ? "written"
           : use->kind == PARAM_TENSOR ? "not touched"
                                       : "scalar";
}

/// Explains why a GPU's code has no accesses and no copies of `unit` bytes for argument i. NULL: it
/// may have them, or the reason is unknown.
static const char *explain_misalignment(const Job *job, int i, int unit) {
    Ctx *ctx = job->ctx;
    const Tensor *t = &job->args[i].tensor;
    if (!job->build.gpu || job->args[i].kind != ARG_TENSOR) return NULL;
    int axis;
    tg_misaligned why = tensor_misalignment(t, unit, &axis);
    int64_t bits = elem_info[t->elem].bits;
    int64_t bytes = why == TG_OFF_STRIDE || why == TG_BACKWARDS ? t->strides[axis] * bits / 8 : 0;
    int at = (int)((uintptr_t)t->data % (uintptr_t)unit);
    switch (why) {
    case TG_OFF_START: return ctx_format(ctx, "starts %d bytes after a multiple of %d", at, unit);
    case TG_OFF_STRIDE:
        return ctx_format(ctx, "axis %d goes by %" PRId64 " bytes, no multiple of %d", axis, bytes,
                          unit);
    case TG_BACKWARDS:
        return ctx_format(ctx, "axis %d runs backwards (%" PRId64 " bytes)", axis, bytes);
    default: return NULL;
    }
}

/// The accesses that an alignment allows. 0 and 1 mean the alignment of elements.
static const char *vectors_text(Ctx *ctx, int align) {
    return align > 1 ? ctx_format(ctx, "by %d bytes at most", align) : "by single elements";
}

/// The same after a note that a tensor's rows are not aligned.
static const char *misalignment_noted(void *arg, const char *note) {
    const Job *job = arg;
    size_t name = strcspn(note, ":");
    const char *end = strstr(note, GPU_NOT_ALIGNED);
    int unit = end ? atoi(end + strlen(GPU_NOT_ALIGNED)) : 0;
    if (unit <= 0) return NULL;
    for (int i = 0; i < job->kernel->params.n; i++) {
        const char *param = job->kernel->params.at[i].name.text;
        if (strlen(param) == name && strncmp(param, note, name) == 0)
            return explain_misalignment(job, i, unit);
    }
    return NULL;
}

/// Describes the kernel's use of each parameter, and how packs were merged for these strides.
static void print_params(const Job *job) {
    Ctx *ctx = job->ctx;
    printf("parameters\n");
    for (int i = 0; i < job->build.code->n_params; i++) {
        const ParamUse *use = &job->build.code->params[i];
        printf("  %-12s %-7s", use->name,
               use->kind == PARAM_CONST || use->elem >= EL_COUNT ? "const"
                                                                 : elem_info[use->elem].name);
        if (use->kind == PARAM_TENSOR) printf(" rank %d", use->rank);
        printf(" %s", access_text(use));
        if (use->pack_at >= 0)
            printf(", ..pack of %d axes merged to %d", use->pack_given, use->pack_rank);
        const char *why = explain_misalignment(job, i, TENSOR_ALIGN);
        if (why) printf(", %s: %s", why, vectors_text(ctx, tensor_alignment(&job->args[i].tensor)));
        printf("\n");
    }
}

typedef struct Count {
    int n[OP_COUNT];
} Count;

static void count_op(Op *op, void *arg) {
    ((Count *)arg)->n[op->code]++;
}

/// Describes how the programs of each launch became tasks, and the fate of the loops.
static void print_structure(Job *job) {
    Count count = {0};
    op_walk_pre(job->build.code->module, count_op, &count);
    static const struct {
        OpCode code;
        const char *text;
    } rows[] = {
        {OP_LAUNCH, "launches of tasks"},
        {OP_DEVICE, "device functions"},
        {OP_DISPATCH, "launches of them"},
        {OP_CONVERT, "changes of layout"},
        {OP_CONTRACT, "loops of products raised to contractions"},
        {OP_DOT, "products of single blocks"},
        {OP_REDUCE, "reductions"},
        {OP_SCRATCH, "scratch tensors"},
        {OP_LOAD, "loads"},
        {OP_STORE, "stores"},
        {OP_REQUIRE, "checks at launch"},
    };
    printf("after the passes\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (count.n[rows[i].code]) printf("  %4d %s\n", count.n[rows[i].code], rows[i].text);
}

/// Prints one access: the guard of each dimension, and the walk of memory along the last axis.
static void print_access(Op *op, void *arg) {
    const Job *job = arg;
    if (op->code != OP_LOAD && op->code != OP_STORE) return;
    static const char *const proofs[] = {"checked lane by lane", "inside, the last tile masked",
                                         "inside"};
    Access a = access_of(op);
    const Attr *inside = op_ints(op, A_IN_BOUNDS);
    const Type *t = a.tensor->type;
    printf("  %s of '%s' at %u:%u:", op->code == OP_LOAD ? "load" : "store",
           a.tensor->name ? a.tensor->name : "scratch", op->loc.line, op->loc.col);
    for (int d = 0; d < a.n_subs; d++) {
        int64_t proof = inside ? inside->ints[d] : 0;
        printf("%s dim %d %s", d ? "," : "", d, proofs[proof < 0 || proof > 2 ? 0 : proof]);
    }
    bool whole = !job->build.gpu || t->align >= TENSOR_ALIGN;
    int last = a.n_subs - 1;
    if (last < 0 || a.subs[last].kind == DIM_AT)
        printf("\n");
    else if (a.subs[last].kind == DIM_PICK)
        printf("; gathered by index blocks\n");
    else if (t->strides[last] == 1 && a.subs[last].mul == 1)
        printf("; contiguous%s%s\n", whole ? " vectors" : ", not aligned: ",
               whole ? "" : vectors_text(job->ctx, t->align));
    else
        printf("; strided: elements are loaded one by one\n");
}

static void print_tasks(Op *op, void *arg) {
    (void)arg;
    const char *programs = op->code == OP_LAUNCH ? op_str(op, A_LOOP_NAMES) : NULL;
    const char *order = programs ? op_str(op, A_PROGRAM_ORDER) : NULL;
    if (programs)
        printf("  launch at line %u: %s%s%s\n", op->loc.line, programs, order ? ", " : "",
               order ? order : "");
}

/// Lists loop nests and products in the order of the code. One line is one pass over memory.
static bool print_code(Job *job) {
    Text notes = {.ctx = job->ctx};
    job->build.notes = &notes;
    Code *code = build_code(&job->build, NULL, 0, false);
    if (!code) return false;
    code_release(code);
    explain_ranks(job);
    if (job->build.gpu) {
        Text devices = {.ctx = job->ctx};
        gpu_describe(&devices, job->build.code->module, misalignment_noted, job);
        printf("devices\n%scode for %s\n", devices.data ? devices.data : "", job->target);
    } else
        printf("code, in vectors of %d bytes\n", job->build.info.vector_bytes);
    printf("%s", notes.data ? notes.data : "");
    return true;
}

/* ---- the setting --------------------------------------------------------------------------- */

static int by_ascending_seconds(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/// Prints the spread of the search's measurements: the slowest and the median setting.
static void print_spread(Ctx *ctx, const TuneResult *tuned) {
    double *times = ctx_array(ctx, double, tuned->n_trials + 1), best = tuned->seconds;
    int n = 0;
    for (int i = 0; i < tuned->n_trials; i++)
        if (tuned->trials[i].seconds > 0) times[n++] = tuned->trials[i].seconds;
    if (n < 2 || !(best > 0)) return;
    qsort(times, (size_t)n, sizeof *times, by_ascending_seconds);
    printf("  of %d settings that were measured the slowest takes %.3g times as long, the median "
           "%.3g times\n",
           n, times[n - 1] / best, times[n / 2] / best);
    if (tuned->judged) printf("  results were compared %s\n", tuned->judged);
}

static void print_choice(Job *job, Decision choice, const TuneResult *tuned, int n_settings) {
    Ctx *ctx = job->ctx;
    if (choice == BY_TUNING) {
        bool same = strcmp(tuned->shape, tune_shape(&job->build)) == 0;
        printf("  tuned on %s for %s: %s, %s\n", tuned->device, same ? "this shape" : tuned->shape,
               time_text(ctx, tuned->seconds), tune_gain(ctx, tuned));
        print_spread(ctx, tuned);
    } else if (choice == BY_MODEL && n_settings > 1) {
        printf("  by the cost model: nothing near this shape was tuned here\n");
    }
}

/// Must run before elaboration, which pins one of the settings.
static void list_configs(const Job *job, Configs *out) {
    Build b;
    request_instance(job->ctx, &job->request, job->program, job->kernel, &b);
    fe_configs(job->ctx, job->program, b.inst, MAX_CONFIGS, out);
}

/// Arguments may be left out: defaults stand in, as in `emit`.
int cmd_explain(Ctx *ctx, const Options *o) {
    Job *job = job_create(ctx, o);
    TuneResult result;
    if (job && !job->target && !args_refuse(o, "a CPU", "picture")) return EXIT_USAGE;
    bool ok = job && job_load(job) && job_instance(job, true);
    Configs configs = {0};
    if (ok) list_configs(job, &configs);
    Decision choice;
    if (!ok || !job_elaborate_tuned(job, false, &choice, &result)) return EXIT_USER;
    printf("%s on %s\n", job_title(job), job->target ? job->target : job->executor->name);
    print_params(job);
    print_values(ctx, "tuning:", job->build.code->n_config, job->build.code->config);
    if (configs.n > 1) printf("  one of %d settings that the kernel allows\n", configs.n);
    print_choice(job, choice, &result, configs.n);
    print_values(ctx, "dims compiled in as constants:", job->build.code->n_specialised,
                 job->build.code->specialised);
    Text cost = {.ctx = ctx};
    build_describe_cost(&job->build, &cost);
    CommLaunch launch;
    bool ranks = build_launch(&job->build, &launch);
    if (!job_passes(job)) return EXIT_USER;
    print_structure(job);
    op_walk_pre(job->build.code->module, print_tasks, NULL);
    printf("accesses\n");
    op_walk_pre(job->build.code->module, print_access, job);
    if (!print_code(job)) return EXIT_USER;
    if (cost.n) printf("the cost model for these dims (no measurement)\n%s", cost.data);
    if (ranks) explain_timeline(job, &launch);
    if (o->picture) explain_picture(job);
    return EXIT_OK;
}
