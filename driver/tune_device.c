// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine that a search is for.
#include "driver/tune_store.h"
#include "runtime/gpu.h"

#include <string.h>

static bool is_simulated(const Request *r) {
    return r->target && strncmp(r->target, "sim:", 4) == 0;
}

static bool is_gpu(const Request *r) {
    const char *level;
    const Backend *b = backend_of(r->target, &level);
    return b && b->device && !is_simulated(r);
}

const char *tune_device(Ctx *ctx, const Request *r, int device) {
    if (!is_gpu(r)) {
        const Backend *b;
        const char *level;
        TargetInfo info = {.name = "CPU"};
        if ((b = backend_of(r->target, &level))) b->info(level, &info);
        return ctx_format(ctx, "%s%s, %d threads", is_simulated(r) ? "simulated " : "", info.name,
                          r->threads);
    }
    const rt_device *d = rt_device_at(device);
    if (!d) return "no device";
    return ctx_format(ctx, "%s, %s, %d SMs, %d MHz, L2 %d KiB, memory %d MHz x %d bits", d->name,
                      d->arch, d->processors, d->clock_khz / 1000, d->l2_bytes >> 10,
                      d->memory_khz / 1000, d->bus_bits);
}

bool tune_copy(const DLTensor *t, const void *from, size_t bytes, void *to) {
    const rt_device *d = rt_device_at(t->device.device_id);
    rt_entered e;
    if (!d || rt_enter(d, &e)) return false;
    const rt_cuda *cu = rt_cuda_driver();
    rt_relax(&e);
    bool ok =
        !cu->to_host(to, (cu_pointer)(uintptr_t)from, bytes, NULL) && !cu->stream_synchronize(NULL);
    rt_strict(&e);
    rt_leave(e);
    return ok;
}
