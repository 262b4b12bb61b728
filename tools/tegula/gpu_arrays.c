// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See gpu_arrays.h. Device memory is released with the job's context.
#include "tools/tegula/gpu_arrays.h"

#include "runtime/gpu/gpu_launch.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool gpu_failed(const Job *job) {
    cli_error("--target %s: %s", job->o->target ? job->o->target : "cuda", tg_last_error());
    return false;
}

static bool cuda_failed(const Job *job, const char *call, cu_result error) {
    rt_cuda_fail(call, error, "device %d", job->device);
    return gpu_failed(job);
}

/* ---- targets ------------------------------------------------------------------------------- */

bool gpu_device_named(const char *name) {
    static const char *const makers[] = {"cuda", "hip"};
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(makers[i]);
        if (strncmp(name, makers[i], n) == 0 && (!name[n] || name[n] == ':')) return true;
    }
    return false;
}

bool gpu_target_is(const char *name) {
    const char *level;
    const Backend *b = gpu_device_named(name) ? NULL : backend_of(name, &level);
    return gpu_device_named(name) || (b && b->device);
}

static const GpuTarget *oldest_of_nvidia(void) {
    const GpuTarget *oldest = NULL;
    for (const GpuTarget *t = gpu_targets; t->name; t++)
        if (strncmp(t->name, "sm_", 3) == 0 && (!oldest || t->arch < oldest->arch)) oldest = t;
    return oldest;
}

/// Returns the name that differs only in the last letter, or the nearest spelling; NULL: none.
static const char *nearest_target(const char *name) {
    enum { GPU_TARGETS = 32 };
    const char *names[GPU_TARGETS];
    int n = 0;
    for (const GpuTarget *t = gpu_targets; t->name && n < GPU_TARGETS; t++) {
        size_t length = strlen(t->name);
        if (strlen(name) == length && strncmp(t->name, name, length - 1) == 0) return t->name;
        names[n++] = t->name;
    }
    return closest_name(name, names, n);
}

const char *gpu_target_hint(Ctx *ctx, const char *name) {
    const char *colon = strchr(name, ':'), *level = colon ? colon + 1 : name;
    int maker = (int)(level - name); // length of "sim:"
    const char *best = NULL;
    if (strncmp(level, "sm_", 3) == 0 && level[3] >= '0' && level[3] <= '9') {
        char machine[16];
        long number = strtol(level + 3, NULL, 10);
        if (number < oldest_of_nvidia()->arch)
            return ctx_format(ctx, "the oldest GPU of NVIDIA that there is code for is '%.*s%s'",
                              maker, name, oldest_of_nvidia()->name);
        if (number <= INT_MAX) best = nvidia_target((int)number, machine);
        if (best && gpu_target(best)->arch != number)
            return ctx_format(ctx, "such a GPU runs code of '%.*s%s'", maker, name, best);
    } else {
        best = nearest_target(level);
    }
    return best ? ctx_format(ctx, "did you mean '%.*s%s'?", maker, name, best) : NULL;
}

/// Finds the current device and the best code for it.
static bool read_device(Job *job, const char *name) {
    char *end = NULL, machine[16];
    const char *colon = strchr(name, ':');
    long number = colon ? strtol(colon + 1, &end, 10) : 0;
    tg_device_info info = {.size = sizeof info};
    if (end && (end == colon + 1 || *end || number < 0 || number >= RT_DEVICES)) {
        int n = (int)strcspn(name, ":");
        cli_error("--target %s: expected %.*s or %.*s:NUMBER", name, n, name, n, name);
        return false;
    }
    setenv("TG_GPUS", *name == 'h' ? "hip" : "cuda", 1);
    job->device = (int)number;
    if (tg_device_describe(job->device, &info)) return gpu_failed(job);
    job->target = device_target(info.capability, machine);
    job->machine = ctx_format(job->ctx, "%s", machine);
    job->driver = info.driver;
    if (job->target) return true;
    cli_error("--target %s: there is no code for %s (%s)", name, info.name,
              rt_device_at(job->device)->arch);
    cli_hint("'tegula targets' lists the architectures that there is code for");
    return false;
}

bool gpu_target_read(Job *job, const char *name) {
    job->device = -1;
    if (gpu_device_named(name)) return read_device(job, name);
    job->target = name;
    return true;
}

/* ---- arrays -------------------------------------------------------------------------------- */

/// A range of host memory and its copy. Arrays that share memory on the host share it in the copy.
typedef struct Mirror {
    uintptr_t from, to; // range on the host
    cu_pointer at;
} Mirror;

struct Mirrors {
    Job *job;
    const rt_device *device;
    VEC(Tensor) tensors;
    VEC(Mirror) list;
};

static void release_mirrors(void *thing) {
    const Mirrors *m = thing;
    rt_entered e;
    if (rt_enter(m->device, &e)) return;
    for (int i = 0; i < m->list.n; i++)
        if (m->list.data[i].at) rt_cuda_driver()->release(m->list.data[i].at);
    rt_leave(e);
}

Mirrors *gpu_mirrors(Job *job, int device) {
    const rt_device *d = rt_device_at(device);
    Mirrors *m = ctx_new(job->ctx, Mirrors);
    *m = (Mirrors){.job = job, .device = d};
    if (!d) return gpu_failed(job), NULL;
    ctx_defer(job->ctx, release_mirrors, m);
    return m;
}

/// Adds the bytes of a tensor to a mirror, which absorbs the mirrors that they overlap.
static void add_mirror(Mirrors *m, const Tensor *t) {
    Ctx *ctx = m->job->ctx;
    Mirror own = {0};
    if (!tensor_span(t, &own.from, &own.to)) return;
    for (int i = 0; i < m->list.n; i++) {
        Mirror *old = &m->list.data[i];
        if (own.from >= old->to || old->from >= own.to) continue;
        if (old->from < own.from) own.from = old->from;
        if (old->to > own.to) own.to = old->to;
        *old = m->list.data[--m->list.n];
        i = -1; // it may now overlap others
    }
    vec_push(ctx, &m->list, own);
}

void gpu_mirror(Mirrors *m, const Tensor *t) {
    vec_push(m->job->ctx, &m->tensors, *t);
    add_mirror(m, t);
}

/// Copies start at host page boundaries, so that alignment is equal on both sides.
enum { PAGE = 4096 };

/// Copies bytes in either direction.
static cu_result copy_mirror_bytes(const Mirror *m, uintptr_t from, size_t bytes, bool there) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_pointer at = m->at + (from - m->from);
    if (there) return cu->to_device(at, (void *)from, bytes, NULL);
    cu_result error = cu->to_host((void *)from, at, bytes, NULL);
    return error ? error : cu->stream_synchronize(NULL);
}

/// Copies the elements of a tensor, a row at a time if the last axis is contiguous.
static cu_result copy_elements(const Mirror *m, const Tensor *t, bool there) {
    Tensor rows = *t;
    int64_t run = 1, bits = elem_info[t->elem].bits;
    if (t->rank && t->strides[t->rank - 1] == 1) {
        run = t->extents[t->rank - 1];
        rows.extents[t->rank - 1] = 1;
    }
    Walk w = {0};
    cu_result error = 0;
    for (int64_t n = run ? tensor_count(&rows) : 0; n > 0 && !error; n--, walk_next(&rows, &w))
        error = copy_mirror_bytes(m, (uintptr_t)t->data + (uintptr_t)(w.offset * bits / 8),
                                  (size_t)(run * bits / 8), there);
    return error;
}

/// If an array with gaps exceeds this size, its gaps are not copied, since they are never accessed.
enum { SPARSE = 1 << 30 };

static bool is_sparse(const Mirrors *all, const Mirror *m) {
    for (int i = 0; i < all->tensors.n; i++)
        if (elem_info[all->tensors.data[i].elem].bits < 8) return false;
    return m->to - m->from > SPARSE;
}

static cu_result copy_mirror(const Mirrors *all, const Mirror *m, bool there) {
    cu_result error = 0;
    if (!is_sparse(all, m)) return copy_mirror_bytes(m, m->from, m->to - m->from, there);
    for (int i = 0; i < all->tensors.n && !error; i++) {
        const Tensor *t = &all->tensors.data[i];
        uintptr_t at = (uintptr_t)t->data;
        if (at >= m->from && at < m->to) error = copy_elements(m, t, there);
    }
    return error;
}

static bool copy_there(const Mirrors *all, Mirror *m) {
    const Job *job = all->job;
    m->from = m->from / PAGE * PAGE;
    size_t bytes = m->to - m->from;
    cu_result error = rt_cuda_driver()->allocate(&m->at, bytes);
    if (error) {
        rt_cuda_fail("cuMemAlloc", error, "%zu bytes for arrays on device %d", bytes,
                     all->device->number);
        return gpu_failed(job);
    }
    error = copy_mirror(all, m, true);
    if (!error) error = rt_cuda_driver()->stream_synchronize(NULL);
    return error ? cuda_failed(job, "cuMemcpyHtoD", error) : true;
}

bool gpu_copy_there(Mirrors *m) {
    rt_entered e;
    bool ok = rt_enter(m->device, &e) == TG_OK;
    if (!ok) return gpu_failed(m->job);
    for (int i = 0; i < m->list.n && ok; i++) ok = copy_there(m, &m->list.data[i]);
    rt_leave(e);
    return ok;
}

bool gpu_copy_back(const Mirrors *m) {
    rt_entered e;
    cu_result error = 0;
    if (rt_enter(m->device, &e)) return gpu_failed(m->job);
    for (int i = 0; i < m->list.n && !error; i++) error = copy_mirror(m, &m->list.data[i], false);
    rt_leave(e);
    return error ? cuda_failed(m->job, "cuMemcpyDtoH", error) : true;
}

void *gpu_address(const Mirrors *m, const void *host) {
    uintptr_t at = (uintptr_t)host;
    for (int i = 0; i < m->list.n; i++) {
        const Mirror *one = &m->list.data[i];
        if (at >= one->from && at < one->to) return (void *)(uintptr_t)(one->at + (at - one->from));
    }
    return NULL;
}

/// The device's context stays current in this thread; the program has no other one.
static Mirrors *make_mirrors(Job *job) {
    rt_entered e;
    Mirrors *m = gpu_mirrors(job, job->device);
    if (!m) return NULL;
    if (rt_enter(m->device, &e)) return gpu_failed(job), NULL;
    for (int i = 0; i < job->kernel->params.n; i++) {
        if (job->args[i].kind != ARG_TENSOR) continue;
        add_mirror(m, &job->args[i].whole);
        gpu_mirror(m, &job->args[i].tensor);
    }
    return gpu_copy_there(m) ? m : NULL;
}

bool gpu_upload(Job *job, int n, tg_slot *slots, const ParamUse *const *uses) {
    if (!job->mirrors) job->mirrors = make_mirrors(job);
    for (int i = 0; i < n && job->mirrors; i++)
        if (uses[i]->kind == PARAM_TENSOR)
            slots[i].tensor.data = gpu_address(job->mirrors, slots[i].tensor.data);
    return job->mirrors != NULL;
}

bool gpu_download(Job *job) {
    if (tg_device_synchronize(job->device, NULL)) return gpu_failed(job);
    return !job->mirrors || gpu_copy_back(job->mirrors);
}

/* ---- times --------------------------------------------------------------------------------- */

enum { MAX_SAMPLES = 1000, LEAST_SAMPLES = 11, WARM_UP = 3 };

/// Events around a launch, and memory larger than the L2 cache that is written before it.
typedef struct EventClock {
    cu_event from, to;
    cu_pointer flush;
    size_t flush_words;
} EventClock;

static cu_result clock_open(const Job *job, EventClock *c) {
    const rt_cuda *cu = rt_cuda_driver();
    const rt_device *d = rt_device_at(job->device);
    *c = (EventClock){.flush_words =
                          (size_t)d->l2_bytes / 2 + 1024}; // in words of 4 bytes: twice the cache
    cu_result error = cu->event_create(&c->from, 0);
    if (!error) error = cu->event_create(&c->to, 0);
    return error ? error : cu->allocate(&c->flush, 4 * c->flush_words);
}

static void clock_close(EventClock *c) {
    const rt_cuda *cu = rt_cuda_driver();
    if (c->from) cu->event_destroy(c->from);
    if (c->to) cu->event_destroy(c->to);
    if (c->flush) cu->release(c->flush);
}

/// An operation to time. It returns false after it reported a failure.
typedef struct Timed {
    Job *job;
    bool (*launch)(Job *job); // NULL: a copy of `bytes`
    cu_pointer to, from;
    size_t bytes;
} Timed;

static bool run_gpu_timed(const Timed *t) {
    if (t->launch) return t->launch(t->job);
    return rt_cuda_driver()->on_device(t->to, t->from, t->bytes, NULL) == 0;
}

static bool sample_launch(const Timed *t, const EventClock *c, double *seconds) {
    const rt_cuda *cu = rt_cuda_driver();
    float milliseconds = 0;
    cu_result error = cu->set_words(c->flush, 0x5a5a5a5a, c->flush_words, NULL);
    if (!error) error = cu->event_record(c->from, NULL);
    if (error) return cuda_failed(t->job, "cuEventRecord", error);
    if (!run_gpu_timed(t)) return false;
    error = cu->event_record(c->to, NULL);
    if (!error) error = cu->event_synchronize(c->to);
    if (!error) error = cu->event_elapsed(&milliseconds, c->from, c->to);
    *seconds = milliseconds * 1e-3;
    return error ? cuda_failed(t->job, "cuEventElapsedTime", error) : true;
}

static bool median_launch(const Timed *t, double budget, double *out) {
    static double samples[MAX_SAMPLES];
    EventClock c;
    cu_result error = clock_open(t->job, &c);
    bool ok = error ? cuda_failed(t->job, "cuEventCreate", error) : true;
    int n = -WARM_UP;
    for (double end = rt_seconds() + budget;
         ok && n < MAX_SAMPLES && (n < LEAST_SAMPLES || rt_seconds() < end); n++)
        ok = sample_launch(t, &c, &samples[n < 0 ? 0 : n]);
    clock_close(&c);
    if (ok) *out = median_of(samples, n);
    return ok;
}

bool gpu_time(Job *job, bool (*launch)(Job *job), double budget, double *out) {
    Timed t = {.job = job, .launch = launch};
    return run_gpu_timed(&t) && median_launch(&t, budget, out);
}

double gpu_copy_rate(Job *job, int64_t bytes) {
    const rt_cuda *cu = rt_cuda_driver();
    Timed t = {.job = job, .bytes = (size_t)bytes};
    double seconds = 0;
    bool ok = cu->on_device && bytes > 0 && cu->allocate(&t.to, t.bytes) == 0 &&
              cu->allocate(&t.from, t.bytes) == 0 && median_launch(&t, 0.05, &seconds);
    if (t.to) cu->release(t.to);
    if (t.from) cu->release(t.from);
    return ok && seconds > 0 ? 2 * (double)bytes / seconds : 0;
}
