// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See injected_fault.h. A process can hold only one variant for each kind of fault at launch.
#include "driver/injected_fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/// Whether TG_FAULT has `kind` with a text that matches the tune values.
static bool is_fault_wanted(const char *kind, const char *config) {
    const char *at = secure_getenv("TG_FAULT");
    size_t n = strlen(kind);
    for (; at && *at; at += strcspn(at, ","), at += *at == ',') {
        char text[64];
        if (strncmp(at, kind, n) != 0 || at[n] != '@') continue;
        size_t length = strcspn(at + n + 1, ",");
        snprintf(text, sizeof text, "%.*s", (int)(length < 63 ? length : 63), at + n + 1);
        bool lacks = *text == '!';
        if (!strstr(config, text + lacks) == lacks) return true;
    }
    return false;
}

static void wait_for_ever(void) {
    for (;;) sleep(1);
}

bool fault_compile(const Request *r) {
    char config[512] = " ";
    if (!secure_getenv("TG_FAULT")) return true;
    for (int i = 0; i < r->n_set; i++) {
        size_t n = strlen(config);
        snprintf(config + n, sizeof config - n, "%s=%lld ", r->set[i].name,
                 (long long)r->set[i].value);
    }
    if (is_fault_wanted("compile-crash", config)) raise(SIGSEGV);
    if (is_fault_wanted("compile-hang", config)) wait_for_ever();
    return !is_fault_wanted("compile-error", config);
}

bool fault_oracle(void) {
    return !is_fault_wanted("oracle", "");
}

/* ---- launches ------------------------------------------------------------------------------ */

typedef enum Fault { CRASH, HANG, LAUNCH, WRONG, INSIDE, SLOW, FLAKY, FAULTS } Fault;

/// The original code behind each fault.
static struct Real {
    tg_entry *entry;
    int last, calls; // number of the last argument
} reals[FAULTS];

static int32_t crash_launch(const tg_slot *args, const tg_env *env) {
    (void)args;
    (void)env;
    raise(SIGSEGV);
    return 1;
}

static int32_t hang_launch(const tg_slot *args, const tg_env *env) {
    (void)args;
    (void)env;
    wait_for_ever();
    return 1;
}

static int32_t fail_launch(const tg_slot *args, const tg_env *env) {
    (void)args;
    return env->fail(env, NULL, NULL);
}

/// Flips bits in one byte of the last argument, which the tests' kernels write.
static int32_t spoil_result(const struct Real *real, size_t at, const tg_slot *args,
                            const tg_env *env) {
    int32_t status = real->entry(args, env);
    ((uint8_t *)args[real->last].tensor.data)[at] ^= 0x41;
    return status;
}

static int32_t spoil_first_bytes(const tg_slot *args, const tg_env *env) {
    return spoil_result(&reals[WRONG], 3, args, env);
}

/// Spoils an element far from both ends of a matrix of four-byte elements.
static int32_t spoil_inside(const tg_slot *args, const tg_env *env) {
    const struct Real *real = &reals[INSIDE];
    const int64_t *shape = args[real->last].tensor.shape;
    return spoil_result(real, (size_t)(shape[0] * shape[1]) / 3 * 4 + 3, args, env);
}

/// Adds 25 ms.
static int32_t slow_launch(const tg_slot *args, const tg_env *env) {
    struct timespec t = {0, 25000000};
    nanosleep(&t, NULL);
    return reals[SLOW].entry(args, env);
}

/// Spoils the results from the second run on.
static int32_t spoil_later_runs(const tg_slot *args, const tg_env *env) {
    struct Real *real = &reals[FLAKY];
    return real->calls++ ? spoil_result(real, 3, args, env) : real->entry(args, env);
}

void fault_run(tg_variant *v, int rank) {
    static const struct {
        const char *name;
        tg_entry *entry;
    } faults[FAULTS] = {
        [CRASH] = {"crash", crash_launch},    [HANG] = {"hang", hang_launch},
        [LAUNCH] = {"launch", fail_launch},   [WRONG] = {"wrong", spoil_first_bytes},
        [INSIDE] = {"inside", spoil_inside},  [SLOW] = {"slow", slow_launch},
        [FLAKY] = {"flaky", spoil_later_runs}};
    const char *only = secure_getenv("TG_FAULT_RANK");
    for (int i = 0; i < FAULTS; i++) {
        if (!is_fault_wanted(faults[i].name, v->config) || (only && atoi(only) != rank)) continue;
        reals[i] = (struct Real){.entry = v->entry, .last = v->n_params - 1};
        v->entry = faults[i].entry;
    }
}
