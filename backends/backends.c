// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of back ends, and the meaning of target names.
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"

const Backend *const backends[] = {&cpu_backend, &nvidia_backend, &amdgpu_backend, &sim_backend,
                                   NULL};

/// "sim:sm_90a": the name of the back end comes first. A level alone means the first back end that
/// has it. A simulator always needs its name, and a GPU always needs a level.
const Backend *backend_of(const char *target, const char **level) {
    TargetInfo info;
    *level = NULL;
    if (!target) return &cpu_backend;
    size_t n = strcspn(target, ":");
    for (int i = 0; backends[i]; i++) {
        const Backend *b = backends[i];
        bool named = strlen(b->name) == n && memcmp(b->name, target, n) == 0;
        const char *rest = named ? target + n + (target[n] == ':') : target;
        if (named && !*rest && b != &cpu_backend) continue;
        if (!named && strcmp(b->name, "sim") == 0) continue;
        *level = *rest ? rest : NULL;
        if (b->info(*level, &info)) return b;
    }
    *level = NULL;
    return NULL;
}

const char *device_target(int capability, char machine[16]) {
    enum { FIRST_OF_AMD = 0x900 };
    return capability < FIRST_OF_AMD ? nvidia_target(capability, machine)
                                     : amdgpu_target(capability, machine);
}

static void settle_device_code(Ctx *ctx, void *arg) {
    DeviceCode *code = arg;
    code->settle(ctx, code);
}

bool device_settle(Ir *ir, DeviceCode *code) {
    Ctx *ctx = ir_ctx(ir);
    CtxStatus status = code->settle ? ctx_protect(ctx, settle_device_code, code) : CTX_OK;
    bool good = ctx_pass_on(ctx, status);
    code->settle = NULL;
    return good;
}

bool is_simulated(const char *target) {
    return target && strncmp(target, "sim:", 4) == 0;
}

bool backend_fills(void) {
    const char *fill = secure_getenv("TG_FILL");
    return fill && strcmp(fill, "nan") == 0;
}
