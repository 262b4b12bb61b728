// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches on GPUs without their host code.
//
// Host code of most kernels computes a grid, makes tensor maps and launches one function: for equal
// extents, strides and numbers the same each time, but for addresses (TG_DEVICE_AGAIN). So a launch
// like one before (again.c) need not run it. What it asked for is written down once: arguments that
// are addresses point into the slots of the call, which hold those of the next launch; others are
// copied; a tensor map is made again where the address that it has is another one now.
#include "runtime/runtime.h"

#include <string.h>

void rt_replay_begin(rt_replay *r, const tg_slot *slots, int n) {
    r->refused = false;
    r->numbers = true;
    r->n = r->n_args = r->n_maps = 0;
    r->slots = slots;
    r->n_slots = n;
}

static bool is_slot(const rt_replay *r, const void *p) {
    return (uintptr_t)p - (uintptr_t)r->slots < (uintptr_t)r->n_slots * sizeof *r->slots;
}

/// Where the argument at p is to be found from now on.
static void *kept(rt_replay *r, void *p) {
    if (is_slot(r, p)) return p;
    for (int i = 0; i < r->n_maps; i++)
        if (r->maps[i].out == p) return r->maps[i].bytes;
    uint64_t *value = &r->values[r->n_args];
    memcpy(value, p, sizeof *value);
    return value;
}

void rt_replay_add_launch(rt_replay *r, const tg_device_function *f, cu_function function,
                          uint32_t ctas, void *const *args) {
    r->refused |= !(f->flags & TG_DEVICE_AGAIN) || f->flags & TG_DEVICE_FAULTS ||
                  r->n == RT_REPLAY_LAUNCHES || r->n_args + f->n_args > RT_REPLAY_ARGS;
    if (r->refused) return;
    r->numbers &= (f->flags & TG_DEVICE_NUMBERS) != 0;
    r->launches[r->n].f = f;
    r->launches[r->n].function = function;
    r->launches[r->n].ctas = ctas;
    r->launches[r->n++].args = r->args + r->n_args;
    for (int i = 0; i < f->n_args; i++) {
        void *at = kept(r, args[i]);
        r->args[r->n_args++] = at;
    }
}

/// The only slot with this bit pattern; -1: there is none, or another one.
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

RT_SELDOM static int32_t move_map(rt_gpu *g, rt_replay_map *m, void *data) {
    int32_t status = rt_gpu_map(g, m->how, data, m->dims, m->strides, m->bytes);
    m->data = status ? NULL : data;
    return status;
}

RT_WARM int32_t rt_replay_run(rt_gpu *g, rt_replay *r, rt_loaded at, void *stream) {
    rt_entered entered;
    g->device = at.device;
    g->stream = stream;
    g->status = rt_enter(at.device, &entered);
    int32_t status = g->status ? TG_RUN_DEVICE : TG_RUN_OK;
    for (int i = 0; i < r->n_maps && !status; i++) {
        void *data = r->slots[r->maps[i].slot].tensor.data;
        if (r->maps[i].data != data) status = move_map(g, &r->maps[i], data);
    }
    for (int i = 0; i < r->n && !status; i++)
        status = rt_gpu_launch(g, r->launches[i].f, r->launches[i].function, r->launches[i].ctas,
                               r->launches[i].args);
    g->device = NULL;
    if (entered.pushed) rt_leave(entered);
    return status;
}
