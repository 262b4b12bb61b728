// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Modules: compiling, launching, code on disk, the compiler in another process.
#include "runtime/tegula.h"
#include "tests/inject/scenario.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "kernel twice(x: f32[R, N], y: f32[R, N]) {\n"
    "    parallel r in R by 4 { let v = x[r, :]; y[r, :] = 2 * (v - min(v, axis = 1)[:, None]); }\n"
    "}\n";

enum { ROWS = 4000, ROW = 40, CALLERS = 4 };
static float x[ROWS * ROW], results[CALLERS][ROWS * ROW];
static tg_context *context;
static tg_module *module;
static tg_kernel *kernel;

static void say(Outcome *out, tg_status status) {
    out->ok = !status;
    snprintf(out->text, sizeof out->text, "%s: %s", tg_status_name(status), tg_last_error());
}

static tg_status launch(int caller) {
    int64_t shape[2] = {ROWS, ROW};
    DLTensor from = tg_dense(x, kDLFloat, 32, 2, shape),
             to = tg_dense(results[caller], kDLFloat, 32, 2, shape);
    return tg_launch(kernel, (tg_arg[]){tg_tensor(&from), tg_tensor(&to)}, 2);
}

/// Row r is r, r + 1, ..., so its least element is r.
static const char *check_result(const float *y) {
    for (int i = 0; i < ROWS * ROW; i++)
        if (y[i] != (float)(2 * (i % ROW))) return "the result is wrong";
    return NULL;
}

static const char *check_one(const Outcome *out) {
    const char *wrong = out->ok ? check_result(results[0]) : NULL;
    memset(results, 0, sizeof results);
    return wrong;
}

static void fill(void) {
    setenv("TG_CACHE", "off", 1);
    for (int i = 0; i < ROWS * ROW; i++) x[i] = (float)(i / ROW + i % ROW);
}

static tg_status open_context(void) {
    tg_options options = {.size = sizeof options, .threads = CALLERS};
    tg_status status = tg_context_create(&options, &context);
    if (!status) tg_context_use(context);
    return status;
}

static tg_status open_module(void) {
    tg_status status = tg_module_from_source(source, strlen(source), "twice.teg", NULL, &module);
    return status ? status : tg_module_kernel(module, NULL, &kernel);
}

static void close_all(void) {
    tg_module_destroy(module);
    tg_context_use(NULL);
    tg_context_destroy(context);
    module = NULL, context = NULL, kernel = NULL;
}

/* ---- everything, from nothing ---------------------------------------------------------------- */

static void compile(Outcome *out) {
    tg_status status = open_context();
    if (!status) status = open_module();
    if (!status) status = launch(0);
    say(out, status);
    close_all();
}

static void fill_for_other_process(void) {
    fill();
    setenv("TG_COMPILE", "process", 1);
}

static void hurry_compiler(bool is_short) {
    setenv("TG_COMPILE_TIMEOUT", is_short ? "2" : "200", 1);
}

/* ---- launches -------------------------------------------------------------------------------- */

static void ready_module(void) {
    fill();
    if (open_context() || open_module()) abort();
}

static void ready_code(void) {
    ready_module();
    if (launch(0)) abort();
    memset(results, 0, sizeof results);
}

static void ready_launch(void) {
    int64_t shape[2] = {ROWS, ROW};
    ready_module();
    DLTensor t = tg_dense(x, kDLFloat, 32, 2, shape);
    if (tg_prepare(kernel, (tg_arg[]){tg_tensor(&t), tg_tensor(&t)}, 2)) abort();
}

static void launch_once(Outcome *out) {
    say(out, launch(0));
}

static Outcome outcomes[CALLERS];

static void *launch_some(void *arg) {
    Outcome *out = arg;
    tg_context_use(context);
    for (int i = 0; i < 3; i++) {
        say(out, launch((int)(out - outcomes)));
        if (!out->ok) break;
    }
    tg_context_use(NULL);
    return NULL;
}

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *p);

static void launch_from_threads(Outcome *out) {
    pthread_t ids[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        __real_pthread_create(&ids[i], NULL, launch_some, &outcomes[i]);
    for (int i = 0; i < CALLERS; i++) pthread_join(ids[i], NULL);
    out->ok = true;
    for (int i = 0; i < CALLERS; i++)
        if (!outcomes[i].ok) *out = outcomes[i];
}

static const char *check_each(const Outcome *out) {
    const char *wrong = NULL;
    (void)out;
    for (int i = 0; i < CALLERS && !wrong; i++)
        if (outcomes[i].ok) wrong = check_result(results[i]);
    memset(results, 0, sizeof results);
    return wrong;
}

/* ---- code on disk ---------------------------------------------------------------------------- */

static void ready_folder(void) {
    fill();
    setenv("TG_CACHE", in_scratch("cache"), 1);
}

/// Checks the code on disk after the run. Whatever the disk does, a launch must run.
static const char *check_kept(const Outcome *out) {
    static char text[OUTCOME_TEXT + 64];
    if (out->ok || strstr(out->text, "out of memory")) return check_one(out);
    snprintf(text, sizeof text, "a disk that fails ends a launch: %s", out->text);
    return text;
}

const Scenario jit_scenarios[] = {
    {"compile", false, NOBODY, NULL, fill, compile, check_one, NULL},
    {"process", true, COMPILER, hurry_compiler, fill_for_other_process, compile, check_one, NULL},
    {"cached", false, NOBODY, NULL, ready_folder, compile, check_kept, NULL},
    {"first-launch", false, NOBODY, NULL, ready_module, launch_once, check_one, close_all},
    {"cold", false, NOBODY, NULL, ready_launch, launch_once, check_one, close_all},
    {"warm", false, NOBODY, NULL, ready_code, launch_once, check_one, close_all},
    {"threads", false, NOBODY, NULL, ready_launch, launch_from_threads, check_each, close_all},
    {.name = NULL},
};
