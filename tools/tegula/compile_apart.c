// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code that the compiler's other process makes for a command (TG_COMPILE=process). This process
// elaborates the instance as well, since it needs it to bind arguments. Both processes must find
// the same facts of the code, so that the code's arguments have the order that this process
// expects.
#include "driver/jit.h"
#include "lang/diag.h"
#include "runtime/tegula.h"
#include "tools/tegula/executors.h"
#include "tools/tegula/tune/tune.h"

#include <stdio.h>
#include <string.h>

/// Code for a simulated GPU calls functions of this process, so it is made here. So is code whose
/// passes print, since this process prints their output, and code with marks, which no launch
/// keeps.
bool job_compiles_apart(const Job *job) {
    const Options *o = job->o;
    return server_wanted() && !is_simulated(job->build.target) && !o->dump_after &&
           !o->verify_each && !o->time_passes && !job->marks;
}

static bool same_bytes(const void *a, const void *b, size_t n) {
    return n == 0 || memcmp(a, b, n) == 0;
}

static bool is_same_instance(const tg_variant *a, const tg_variant *b) {
    return a->n_facts == b->n_facts && a->n_params == b->n_params &&
           same_bytes(a->facts, b->facts, sizeof *a->facts * (size_t)a->n_facts) &&
           same_bytes(a->params, b->params, (size_t)a->n_params) &&
           strcmp(a->config, b->config) == 0;
}

/// The argument of a parameter, or -1.
static int argument_of(const Build *b, int param) {
    for (int k = 0, i; k < build_arguments(b); k++)
        if (build_argument(b, k, &i), i == param) return k;
    return -1;
}

/// Copies the pairs of parameters that may be one view, which the passes in the other process have
/// found. Leaves out a pair with a parameter that is no argument of the kernel, for instance a
/// constant.
static void take_inplace(Job *job, const tg_variant *v) {
    const Elaborated *code = job->build.code;
    int n = 0;
    int64_t *pairs = ctx_array(job->ctx, int64_t, 2 * v->n_inplace + 1);
    for (int i = 0; i < v->n_inplace; i++) {
        int a = argument_of(&job->build, v->inplace[2 * i]);
        int b = argument_of(&job->build, v->inplace[2 * i + 1]);
        if (a < 0 || b < 0) continue;
        pairs[n++] = a;
        pairs[n++] = b;
    }
    if (n) op_set_ints(job->build.ir, find_kernel(code->module, code->name), A_IN_PLACE, pairs, n);
}

/// Reports the warnings that elaboration in this process has not already given.
static void print_other_warnings(Job *job, const Answer *a) {
    const char **own;
    int n = messages_warnings(job->ctx, &own);
    for (int i = 0; i < a->n_warnings; i++) {
        bool known = false;
        for (int k = 0; k < n; k++) known |= strcmp(own[k], a->warnings[i]) == 0;
        if (!known) fputs(a->warnings[i], stderr);
    }
}

/// Returns a list of messages without the warnings that elaboration has given here already.
static const char *other_messages(Job *job, const char *list) {
    const char **own;
    int n = messages_warnings(job->ctx, &own);
    char *rest = ctx_format(job->ctx, "%s", list);
    for (int i = 0; i < n; i++) {
        size_t length = strlen(own[i]);
        while (length && own[i][length - 1] == '\n') length--;
        char *at = strstr(rest, ctx_format(job->ctx, "%.*s", (int)length, own[i]));
        if (!at) continue;
        length += strspn(at + length, "\n");
        memmove(at, at + length, strlen(at + length) + 1);
    }
    for (size_t end = strlen(rest); end && rest[end - 1] == '\n';) rest[--end] = 0;
    return rest;
}

/// A message about the source has its own place. An internal error of the other process counts as
/// one of this program.
static Code *fail_apart(Job *job, const Answer *a) {
    bool is_list = strchr(a->message, '\n') || a->status < TG_ERROR_MEMORY;
    if (is_list) fprintf(stderr, "%s\n", other_messages(job, a->message));
    if (a->status == TG_ERROR_INTERNAL)
        diag(job->ctx, job->kernel->loc, D_INTERNAL,
             is_list ? "see above: the compiler's process says it" : a->message);
    else if (!is_list)
        cli_error("compiling '%s': %s", job->kernel->name.text, a->message);
    return NULL;
}

static void release_apart(void *code) {
    code_release(code);
}

Code *job_compile_apart(Job *job) {
    const DLTensor **tensors;
    Request r;
    Answer a;
    if (!job_request(job, &r, &tensors)) {
        cli_error("TG_COMPILE=process needs the shapes of all arguments");
        return NULL;
    }
    r.check = job->o->check;
    r.debug = job->o->debug;
    if (!server_compile(job->ctx, &r, &a)) {
        cli_error("TG_COMPILE=process: the other process has another compiler");
        cli_hint("TG_SERVER names the program; it must be of this build");
        return NULL;
    }
    if (a.status) return fail_apart(job, &a);
    if (!is_same_instance(a.variant, build_variant(&job->build, TG_LEVEL_BASE, FACTS_EXACT))) {
        cli_error("TG_COMPILE=process: the other process made code for other facts");
        cli_hint("unset TG_COMPILE; please report this");
        return NULL;
    }
    print_other_warnings(job, &a);
    take_inplace(job, a.variant);
    answer_load(job->ctx, &r, &a);
    if (a.status) return fail_apart(job, &a);
    ctx_defer(job->ctx, release_apart, a.code);
    return a.code;
}
