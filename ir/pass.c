// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a pipeline of passes; verifies, times and dumps after each.
#include "ir/ir.h"

#include <string.h>
#include <time.h>

static double utc_seconds(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/// Whether the comma-separated list contains name, or is "all".
static bool is_pass_listed(const char *list, const char *name) {
    size_t n = strlen(name);
    if (list && strcmp(list, "all") == 0) return true;
    for (const char *s = list; s && *s; s += strspn(s, ",")) {
        size_t len = strcspn(s, ",");
        if (len == n && memcmp(s, name, n) == 0) return true;
        s += len;
    }
    return false;
}

/// Returns false if the pass left invalid IR.
static bool run_pass(PassEnv *env, Op *module, const Pass *pass, const PassOptions *options) {
    pass->run(env, module);
    if (options->dump && is_pass_listed(options->dump_after, pass->name))
        options->dump(options->user, pass->name, ir_to_text(ir_ctx(env->ir), module));
    if (!options->verify_each || ir_verify(env->ir, module)) return true;
    diag_note(ir_ctx(env->ir), (Loc){0}, "the IR is wrong after pass %s", pass->name);
    return false;
}

bool run_passes(PassEnv *env, Op *module, const Pass *const *pipeline, int n,
                const PassOptions *options) {
    static const PassOptions none = {0};
    options = options ? options : &none;
    for (int i = 0; i < n; i++) {
        double start = options->time ? utc_seconds() : 0;
        if (!run_pass(env, module, pipeline[i], options)) return false;
        if (options->time && options->seconds) options->seconds[i] = utc_seconds() - start;
    }
    return true;
}

void env_set_axis(PassEnv *env, AxisId id, int value) {
    switch (id) {
#define AXIS(ID, axis, ...)                                                                        \
    case AXIS_##ID:                                                                                \
        env->axis = value;                                                                         \
        return;
#include "lang/axes.def"
    case AXIS_COUNT: return;
    }
}
