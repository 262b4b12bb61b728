// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code for GPUs, on stand-in drivers. Another process compiles, with libNVVM and ptxas, AMD's code
// object manager, or lld.
#include "runtime/tegula.h"
#include "tests/inject/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char source[] = "kernel scale(x: f32[N], y: f32[N]) {\n"
                             "    parallel n in N by 64 { y[n] = 2 * x[n]; }\n"
                             "}\n";
enum { N = 256 };
static float x[N], y[N];
static DLDevice device;

static void fill(void) {
    setenv("TG_CACHE", "off", 1);
    setenv("TG_COMPILE", "process", 1);
    for (int i = 0; i < N; i++) x[i] = (float)i;
}

static void ready_nvidia(void) {
    fill();
    setenv("TG_CUDA_LIBRARY", FAKE_CUDA, 1);
    setenv("FAKE_CUDA_DEVICES", "90", 1);
    setenv("TG_CODEGEN", "nvvm", 1);
    device = (DLDevice){kDLCUDA, 0};
}

static void ready_amd(void) {
    fill();
    setenv("TG_HIP_LIBRARY", FAKE_HIP, 1);
    setenv("FAKE_HIP_DEVICES", "gfx90a", 1);
    device = (DLDevice){kDLROCM, 0};
}

/// Without AMD's library, LLVM's linker.
static void ready_lld(void) {
    ready_amd();
    setenv("TG_COMGR", "", 1);
}

static void hurry(bool is_short) {
    setenv("TG_COMPILE_TIMEOUT", is_short ? "2" : "200", 1);
}

static tg_status launch(const tg_module *module) {
    int64_t shape[1] = {N};
    tg_kernel *kernel = NULL;
    DLTensor from = tg_dense(x, kDLFloat, 32, 1, shape), to = tg_dense(y, kDLFloat, 32, 1, shape);
    from.device = to.device = device;
    tg_status status = tg_module_kernel((tg_module *)module, NULL, &kernel);
    return status ? status : tg_launch(kernel, (tg_arg[]){tg_tensor(&from), tg_tensor(&to)}, 2);
}

/// The stand-ins run nothing: a launch shows that they took the code.
static void work(Outcome *out) {
    tg_context *context = NULL;
    tg_module *module = NULL;
    tg_status status = tg_context_create(NULL, &context);
    tg_context_use(context);
    if (!status) status = tg_module_from_source(source, strlen(source), "scale.teg", NULL, &module);
    if (!status) status = launch(module);
    out->ok = !status;
    snprintf(out->text, sizeof out->text, "%s: %s", tg_status_name(status), tg_last_error());
    tg_module_destroy(module);
    tg_context_use(NULL);
    tg_context_destroy(context);
}

/// Kills the program while its compiler, or an assembler of the compiler, hangs: no process may be
/// left. A program that is not killed ends normally.
static void work_until_killed(Outcome *out) {
    pid_t child = real_fork();
    if (child == 0) {
        work(out);
        _exit(0);
    }
    pid_t ended = 0;
    while (!plan_happened() && (ended = real_waitpid(child, NULL, WNOHANG)) == 0) usleep(2000);
    if (ended == 0) end_child(child, 0);
    out->ok = !plan_awaits(HANG);
    if (!out->ok) snprintf(out->text, sizeof out->text, "its planned fault did not happen");
}

const Scenario device_scenarios[] = {
    {"nvidia", true, COMPILER, hurry, ready_nvidia, work, NULL, NULL},
    {"amd", true, COMPILER, hurry, ready_amd, work, NULL, NULL},
    {"amd-lld", true, COMPILER, hurry, ready_lld, work, NULL, NULL},
    {"nvidia-left", true, OTHERS, NULL, ready_nvidia, work_until_killed, NULL, NULL},
    {.name = NULL},
};
