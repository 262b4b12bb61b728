// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Repeats GPU launches without running their host code.
//
// The host code of most kernels computes a grid, makes tensor maps and launches one function. For
// equal extents, strides and numbers its requests differ only in addresses (TG_DEVICE_REPLAYS). A
// launch like an earlier one (launch_memo.c) therefore repeats the recorded requests. Arguments
// that are addresses point into the slots of the call, which hold the addresses of the next launch.
// Other arguments are copied. A tensor map is made again if its address has changed.
#include "runtime/runtime.h"

#include <string.h>

/// The driver requires the stream's context to be current.
static _Atomic bool refuses;

void rt_replay_begin(rt_replay *r, const tg_slot *slots, int n) {
    r->refused = false;
    r->numbers = true;
    r->enters = false;
    r->n = r->n_maps = 0;
    r->n_args = 0;
    r->slots = slots;
    r->n_slots = n;
}

static bool is_slot(const rt_replay *r, const void *p) {
    return (uintptr_t)p - (uintptr_t)r->slots < (uintptr_t)r->n_slots * sizeof *r->slots;
}

/// Returns the address of a copy of the argument that lives as long as the replay. A slot of the
/// replay is its own copy.
static void *kept_argument(rt_replay *r, void *p) {
    if (is_slot(r, p)) return p;
    for (int i = 0; i < r->n_maps; i++)
        if (r->maps[i].out == p) return r->maps[i].bytes;
    uint64_t *value = &r->values[r->n_args];
    memcpy(value, p, sizeof *value);
    return value;
}

void rt_replay_add_launch(rt_replay *r, const rt_gpu *g, const tg_device_function *f,
                          cu_function function, uint32_t ctas, void *const *args) {
    r->refused |= !(f->flags & TG_DEVICE_REPLAYS) || f->flags & TG_DEVICE_FAULTS ||
                  r->n == RT_REPLAY_LAUNCHES || r->n_args + f->n_args > RT_REPLAY_ARGS;
    if (r->refused) return;
    r->numbers &= (f->flags & TG_DEVICE_NUMBERS) != 0;
    // HIP launches on the thread's current device.
    r->enters |= rt_cuda_driver()->maker->hip || atomic_load(&refuses);
    r->context = g->device->context;
    rt_replay_launch *l = &r->launches[r->n];
    l->how = rt_gpu_how(g, f, ctas, &l->cluster);
    l->function = function;
    r->first[r->n++] = (uint8_t)r->n_args;
    l->f = f;
    for (int i = 0; i < f->n_args; i++) {
        void *at = kept_argument(r, args[i]);
        r->args[r->n_args++] = at;
    }
}

/// The only slot with this bit pattern; -1: none, or several.
static int slot_with(const rt_replay *r, const void *data) {
    int found = -1;
    for (int i = 0; i < r->n_slots; i++) {
        if (r->slots[i].tensor.data != data) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

void rt_replay_add_map(rt_replay *r, const tg_tensormap *how, void *data, const int64_t *dims,
                       const int64_t *strides, const void *out) {
    int slot = slot_with(r, data);
    r->refused |= slot < 0 || r->n_maps == RT_REPLAY_MAPS;
    if (r->refused) return;
    rt_replay_map *m = &r->maps[r->n_maps++];
    m->out = out;
    m->how = how;
    m->slot = slot;
    m->data = data;
    for (int i = 0; i < how->rank; i++) {
        m->dims[how->axes[i]] = dims[how->axes[i]];
        m->strides[how->axes[i]] = strides[how->axes[i]];
    }
    memcpy(m->bytes, out, sizeof m->bytes);
}

static int32_t move_maps(rt_gpu *g, rt_replay *r) {
    for (int i = 0; i < r->n_maps; i++) {
        rt_replay_map *m = &r->maps[i];
        void *data = r->slots[m->slot].tensor.data;
        int32_t status = m->data == data
                             ? TG_RUN_OK
                             : rt_gpu_map(g, m->how, data, m->dims, m->strides, m->bytes);
        m->data = status ? NULL : data;
        if (status) return status;
    }
    return TG_RUN_OK;
}

static bool maps_moved(const rt_replay *r) {
    bool moved = false;
    for (int i = 0; i < r->n_maps; i++)
        moved |= r->maps[i].data != r->slots[r->maps[i].slot].tensor.data;
    return moved;
}

static int32_t enter_replay(rt_gpu *g, rt_device *device, void *stream, rt_entered *entered) {
    g->device = device;
    g->stream = stream;
    g->status = rt_enter(device, entered);
    return g->status ? TG_RUN_DEVICE : TG_RUN_OK;
}

static void leave_replay(rt_gpu *g, rt_entered entered) {
    g->device = NULL;
    rt_leave(entered);
}

/// Repeats the launches from i on in the device's context.
static int32_t launch_inside(rt_gpu *g, rt_replay *r, int i) {
    int32_t status = move_maps(g, r);
    for (; i < r->n && !status; i++) {
        rt_replay_launch *l = &r->launches[i];
        l->how.stream = g->stream;
        status = rt_gpu_launch(g, l->f, l->function, &l->how, r->args + r->first[i]);
    }
    return status;
}

static int32_t enter_and_launch(rt_gpu *g, rt_replay *r, rt_device *device, void *stream) {
    rt_entered entered;
    int32_t status = enter_replay(g, device, stream, &entered);
    if (!status) status = launch_inside(g, r, 0);
    leave_replay(g, entered);
    return status;
}

/// Handles a failed launch i. If another context was current, it is retried in the device's
/// context. The first failure is reported, since it may have ended a capture.
RT_SELDOM static int32_t retry_refused_launch(rt_gpu *g, rt_replay *r, int i, rt_device *device,
                                              void *stream, cu_result error) {
    rt_entered entered;
    int32_t status = enter_replay(g, device, stream, &entered);
    if (!status && entered.pushed && !launch_inside(g, r, i))
        atomic_store(&refuses, r->enters = true);
    else if (!status)
        status = rt_gpu_launch_failed(g, r->launches[i].f, &r->launches[i].how, error);
    leave_replay(g, entered);
    return status;
}

/// A stream belongs to a context. NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD belong to the
/// current one. Returns whether that context is not the device's.
static bool is_other_context(const rt_cuda *cu, const rt_replay *r, const void *stream) {
    cu_context now = NULL;
    return (uintptr_t)stream <= 2 && (cu->current(&now) || now != r->context);
}

/// For a stream of the device the current context does not matter, so no query is needed.
RT_WARM int32_t rt_replay_run(rt_gpu *g, rt_replay *r, rt_device *device, void *stream) {
    const rt_cuda *cu = rt_cuda_driver();
    if (r->enters || maps_moved(r) || is_other_context(cu, r, stream))
        return enter_and_launch(g, r, device, stream);
    for (int i = 0; i < r->n; i++) {
        rt_replay_launch *l = &r->launches[i];
        l->how.stream = stream;
        cu_result error = rt_gpu_ask(cu, &l->how, l->function, r->args + r->first[i]);
        if (error) return retry_refused_launch(g, r, i, device, stream, error);
    }
    return TG_RUN_OK;
}
