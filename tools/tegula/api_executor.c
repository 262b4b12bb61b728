// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The executor that works like a C program: it makes a module of the source, and calls tg_launch
// with DLPack tensors. Tests use it to cover binding, facts and variants as well.
#include "tools/tegula/executors.h"

#include "runtime/tegula.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// Prints warnings, and the progress of a search that a launch waits for.
static void print_log(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "tegula: %s\n", line);
}

static void print_api_text(void *user, const char *text) {
    (void)user;
    puts(text);
}

static void release_api_module(void *module) {
    tg_module_destroy(module);
}

/// The context is kept over the runs of a batch, as the other executor's threads are.
static bool use_context(const Options *o) {
    static tg_context *context;
    static int64_t threads = -1;
    if (threads == o->threads) return true;
    tg_context_use(NULL);
    tg_context_destroy(context);
    threads = o->threads;
    tg_options options = {.size = sizeof options,
                          .threads = (int)o->threads,
                          .log = isatty(STDERR_FILENO) ? print_log : NULL,
                          .print = print_api_text};
    if (tg_context_create(&options, &context)) return false;
    tg_context_use(context);
    return true;
}

static const char *join_list(Ctx *ctx, const List *list, const char *separator) {
    Text t = {.ctx = ctx};
    for (int i = 0; i < list->n; i++) text_add(&t, "%s%s", i ? separator : "", list->at[i]);
    return t.data;
}

static bool api_failed(void) {
    cli_error("%s", tg_last_error());
    return false;
}

bool api_compile(Job *job) {
    size_t length;
    const char *text = ctx_source_text(job->ctx, job->file, &length);
    tg_module_options options = {.size = sizeof options,
                                 .paths = join_list(job->ctx, &job->o->paths, ":"),
                                 .settings = join_list(job->ctx, &job->o->sets, " "),
                                 .check = job->o->check,
                                 .debug = job->o->debug};
    tg_module *module;
    tg_kernel *kernel;
    if (!use_context(job->o) ||
        tg_module_from_source(text, length, ctx_source_path(job->ctx, job->file), &options,
                              &module))
        return api_failed();
    ctx_defer(job->ctx, release_api_module, module);
    if (tg_module_kernel(module, job->kernel->name.text, &kernel)) return api_failed();
    job->compiled = kernel;
    return true;
}

static tg_arg pass_argument(Job *job, int i) {
    Argument *a = &job->args[i];
    const ParamUse *use = &job->build.code->params[i];
    if (a->kind == ARG_NULL) return tg_none();
    if (a->kind == ARG_SCALAR)
        return use->elem < EL_COUNT && elem_is(use->elem, EC_FLOAT) ? tg_float(a->scalar.f)
                                                                    : tg_int(a->scalar.i);
    DLTensor *t = ctx_new(job->ctx, DLTensor);
    uint8_t code, bits;
    elem_dlpack(a->tensor.elem, &code, &bits);
    *t = tg_dense(a->tensor.data, (DLDataTypeCode)code, bits, a->tensor.rank, a->tensor.extents);
    t->strides = a->tensor.strides;
    return tg_tensor(t);
}

bool api_launch(Job *job) {
    int n = job->kernel->params.n;
    tg_arg *args = ctx_array(job->ctx, tg_arg, n + 1);
    for (int i = 0; i < n; i++) args[i] = pass_argument(job, i);
    return tg_launch(job->compiled, args, n) ? api_failed() : true;
}
