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

static const char *cpu_text(Ctx *ctx, const Request *r) {
    char name[TG_CPU_NAME];
    const char *level = "CPU";
    TargetInfo info = {.name = level};
    const Backend *b = backend_of(r->target, &level);
    const TargetInfo *host = cpu_level(cpu_host_arch(), (int)tg_cpu_level());
    tg_cpu_name(name);
    if (b && r->target) b->info(level, &info);
    if (!r->target && host) info.name = host->name;
    return ctx_format(ctx, "%s, %s, %d threads", name, info.name, r->threads);
}

const char *tune_device(Ctx *ctx, const Request *r, int device) {
    if (is_simulated(r)) return ctx_format(ctx, "simulated %s", r->target);
    if (!is_gpu(r)) return cpu_text(ctx, r);
    const rt_device *d = rt_device_at(device);
    if (!d) return "no device";
    return ctx_format(ctx, "%s, %s, %d SMs, %d MHz, L2 %d KiB, memory %d MHz x %d bits", d->name,
                      d->arch, d->processors, d->clock_khz / 1000, d->l2_bytes >> 10,
                      d->memory_khz / 1000, d->bus_bits);
}

static bool copy_from(const DLTensor *t, const void *from, size_t bytes, void *to) {
    if (t->device.device_type == kDLCPU) return memcpy(to, from, bytes), true;
    const rt_device *d = rt_device_at(t->device.device_id);
    rt_entered e;
    if (!d) return false;
    if (rt_enter(d, &e)) return rt_leave(e), false;
    const rt_cuda *cu = rt_cuda_driver();
    bool ok =
        !cu->to_host(to, (cu_pointer)(uintptr_t)from, bytes, NULL) && !cu->stream_synchronize(NULL);
    rt_leave(e);
    return ok;
}

bool tune_contents(Ctx *ctx, const DLTensor *t, const tg_actual *a, size_t most, Bytes *out,
                   int64_t *address, int64_t *first) {
    int64_t least = 0, last = 0;
    char *data = (char *)t->data + t->byte_offset;
    bool wanted = a->code == kDLInt || a->code == kDLUInt || a->code == kDLBool;
    *address = (int64_t)(uintptr_t)data;
    *out = (Bytes){0};
    for (int i = 0; i < a->rank; i++) {
        if (a->shape[i] == 0) return true;
        int64_t way = (a->shape[i] - 1) * a->strides[i];
        *(way < 0 ? &least : &last) += way;
    }
    if (!wanted || !data) return true;
    *first = least * a->bits / 8;
    out->n = (size_t)((last * a->bits + a->bits + 7) / 8 - *first);
    if (out->n > most) return false;
    out->data = ctx_alloc(ctx, out->n + 1);
    return copy_from(t, data + *first, out->n, out->data);
}
