// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Properties of the machine for a search: its identity, the contents of tensors, and its free
// memory.
#include "driver/tune/tune_store.h"
#include "runtime/tune/trial.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_gpu_request(const Request *r) {
    const char *level;
    const Backend *b = backend_of(r->target, &level);
    return b && b->device && !is_simulated(r->target);
}

/// Returns the CPU level of the request's code.
static const char *request_level(const Request *r) {
    const char *level;
    TargetInfo info = {.label = "CPU"};
    const Backend *b = backend_of(r->target, &level);
    if (b && r->target) b->info(level, &info);
    return r->target ? info.label : tg_level_name(tg_cpu_level());
}

const char *tune_device(Ctx *ctx, const Request *r, int device) {
    char text[TG_DEVICE_TEXT];
    if (is_simulated(r->target)) return ctx_format(ctx, "simulated %s", r->target);
    tg_device_text(is_gpu_request(r) ? device : -1, r->threads, text);
    return is_gpu_request(r) ? ctx_format(ctx, "%s", text)
                             : ctx_format(ctx, "%s, %s", text, request_level(r));
}

uint32_t tune_device_hash(Ctx *ctx, const char *text, bool cpu) {
    const char *comma = cpu ? strrchr(text, ',') : NULL;
    if (strcmp(text, "any") == 0) return 0;
    return tg_device_hash(comma ? ctx_format(ctx, "%.*s", (int)(comma - text), text) : text);
}

rt_held tune_held(const DLTensor *t, const tg_actual *a) {
    int64_t least = 0, last = 0;
    rt_held held = {0};
    bool wanted = a->code == kDLInt || a->code == kDLUInt || a->code == kDLBool;
    if (!wanted || !t->data) return held;
    for (int i = 0; i < a->rank; i++) {
        if (a->shape[i] == 0) return held;
        int64_t way = (a->shape[i] - 1) * a->strides[i];
        *(way < 0 ? &least : &last) += way;
    }
    int64_t first = least * a->bits / 8;
    held.from = (uintptr_t)t->data + (uintptr_t)t->byte_offset + (uintptr_t)first;
    held.bytes = (size_t)((last * a->bits + a->bits + 7) / 8 - first);
    held.row = rt_held_row(a->rank, a->shape, a->strides, a->bits);
    return held;
}

static bool copy_from(const DLTensor *t, void *stream, rt_held held, void *to) {
    if (t->device.device_type == kDLCPU)
        return memcpy(to, (const void *)held.from, held.bytes), true;
    return rt_copy_from_device(t->device.device_id, stream, held.from, held.bytes, to);
}

bool tune_contents(Ctx *ctx, const DLTensor *t, const tg_actual *a, void *stream, Bytes *out,
                   int64_t *address) {
    rt_held held = tune_held(t, a);
    *address = (int64_t)(uintptr_t)((char *)t->data + t->byte_offset);
    *out = (Bytes){.n = held.bytes};
    if (!held.bytes) return true;
    out->data = ctx_alloc(ctx, out->n + 1);
    return copy_from(t, stream, held, out->data);
}

/* ---- free memory and cores ------------------------------------------------------------------ */

/// Returns the number after a word in a file; negative: none.
static double number_in_file(const char *path, const char *word) {
    char line[256];
    double found = -1;
    FILE *f = fopen(path, "r");
    size_t n = strlen(word);
    while (f && found < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, word, n) == 0 && sscanf(line + n, "%lf", &found) != 1) found = -1;
    if (f) fclose(f);
    return found;
}

/// Returns the memory that is left below the container's limit, beyond which processes are killed.
/// Inactive pages of files count as free.
static double free_in_group(void) {
    static const char folder[] = "/sys/fs/cgroup/memory.";
    char path[64];
    snprintf(path, sizeof path, "%smax", folder);
    double most = number_in_file(path, "");
    snprintf(path, sizeof path, "%scurrent", folder);
    double now = number_in_file(path, "");
    snprintf(path, sizeof path, "%sstat", folder);
    double idle = number_in_file(path, "inactive_file ");
    return most < 0 || now < 0 ? -1 : fmax(most - now + fmax(idle, 0), 0);
}

double tune_free_bytes(int device) {
    size_t left = 0;
    if (device >= 0) return rt_device_memory(device, &left) ? (double)left : -1;
    double machine = number_in_file("/proc/meminfo", "MemAvailable:") * 1024;
    double group = free_in_group();
    return machine < 0 ? group : group < 0 ? machine : fmin(machine, group);
}
