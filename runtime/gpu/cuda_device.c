// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GPUs of the machine, each with the context that all libraries of a process share.
#include "runtime/gpu/hip.h"
#include "runtime/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Atomic(rt_device_check *) rt_ranks_check;

static _Atomic(rt_device *) devices[RT_DEVICES];
static tg_lock opening = TG_LOCK_INIT;

/* ---- opening ------------------------------------------------------------------------------- */

/// The attribute's number for both vendors; 0: it does not exist.
static const struct {
    int cuda, hip;
    size_t at;
} attributes[] = {
    {CU_MAJOR, 0, offsetof(rt_device, major)},
    {CU_MINOR, 0, offsetof(rt_device, minor)},
    {CU_PROCESSORS, HIP_PROCESSORS, offsetof(rt_device, processors)},
    {CU_SHARED_OPTIN, HIP_SHARED, offsetof(rt_device, shared_bytes)},
    {CU_L2_BYTES, HIP_L2_BYTES, offsetof(rt_device, l2_bytes)},
    {CU_CLOCK_RATE, HIP_CLOCK_RATE, offsetof(rt_device, clock_khz)},
    {CU_MEMORY_CLOCK, HIP_MEMORY_CLOCK, offsetof(rt_device, memory_khz)},
    {CU_MEMORY_BUS, HIP_MEMORY_BUS, offsetof(rt_device, bus_bits)},
};

static tg_status describe_cuda(const rt_cuda *cu, rt_device *d, cu_device device) {
    if (cu->device_name(d->name, sizeof d->name, device)) strcpy(d->name, "unknown GPU");
    d->capability = 10 * d->major + d->minor;
    snprintf(d->arch, sizeof d->arch, "sm_%d", d->capability & 0xffff);
    cu_result error = cu->retain(&d->context, device);
    if (!error) return TG_OK;
    return rt_cuda_fail("cuDevicePrimaryCtxRetain", error, "opening device %d (%s)", d->number,
                        d->name);
}

/// "gfx942:sramecc+:xnack-" names the architecture. Its number is hexadecimal.
static tg_status describe_hip(const rt_cuda *cu, rt_device *d) {
    rt_hip_properties properties = {.name = ""};
    cu_result error = cu->device_properties(&properties, d->number);
    if (error) return rt_cuda_fail("hipGetDeviceProperties", error, "opening device %d", d->number);
    snprintf(d->name, sizeof d->name, "%.*s", (int)sizeof d->name - 1, properties.name);
    snprintf(d->arch, sizeof d->arch, "%.*s", (int)strcspn(properties.arch, ":"), properties.arch);
    bool named = strncmp(d->arch, "gfx", 3) == 0;
    d->capability = named ? (int)strtol(d->arch + 3, NULL, 16) : 0;
    return TG_OK;
}

/// An attribute that a driver does not know counts as 0.
static tg_status describe_device(const rt_cuda *cu, rt_device *d) {
    cu_device device;
    bool hip = cu->maker->hip;
    cu_result error = cu->device(&device, d->number);
    if (error) return rt_cuda_fail("cuDeviceGet", error, "opening device %d", d->number);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        int id = hip ? attributes[i].hip : attributes[i].cuda;
        if (id) cu->device_attribute((int *)((char *)d + attributes[i].at), id, device);
    }
    return hip ? describe_hip(cu, d) : describe_cuda(cu, d, device);
}

static tg_status open_device(const rt_cuda *cu, int number, rt_device **out) {
    rt_device *d = calloc(1, sizeof *d);
    if (!d) return tg_fail(TG_ERROR_MEMORY, "out of memory");
    d->number = number;
    tg_status status = describe_device(cu, d);
    if (status) {
        free(d);
        return status;
    }
    tg_lock_init(&d->lock);
    *out = d;
    return TG_OK;
}

static tg_status no_device(const rt_cuda *cu, int number) {
    if (cu->n_devices == 0)
        return tg_fail(TG_ERROR_UNSUPPORTED, "the driver finds no %s GPU; %s may hide them",
                       cu->maker->name, cu->maker->visible);
    return tg_fail(TG_ERROR_ARGUMENT, "there is no device %d: this machine has %d GPU%s", number,
                   cu->n_devices, cu->n_devices == 1 ? ", number 0" : "s, from number 0 on");
}

tg_status rt_device_get(int number, rt_device **out) {
    rt_device *d = number >= 0 && number < RT_DEVICES
                       ? atomic_load_explicit(&devices[number], memory_order_acquire)
                       : NULL;
    *out = d;
    if (d) return TG_OK;
    const rt_cuda *cu = rt_cuda_driver();
    if (!cu) return TG_ERROR_UNSUPPORTED;
    if (number < 0 || number >= cu->n_devices || number >= RT_DEVICES) return no_device(cu, number);
    tg_lock_take(&opening);
    d = atomic_load(&devices[number]);
    tg_status status = d ? TG_OK : open_device(cu, number, &d);
    if (d) atomic_store_explicit(&devices[number], d, memory_order_release);
    tg_lock_give(&opening);
    *out = d;
    return status;
}

rt_device *rt_device_at(int number) {
    rt_device *d;
    return rt_device_get(number, &d) ? NULL : d;
}

/* ---- the current context ------------------------------------------------------------------- */

/// For HIP, which has no contexts.
RT_SELDOM static tg_status enter_device(const rt_cuda *cu, const rt_device *d, rt_entered *e) {
    if (cu->device_current(&e->before) == 0 && e->before == d->number) return TG_OK;
    cu_result error = cu->device_set(d->number);
    if (error) return rt_cuda_fail("hipSetDevice", error, "device %d (%s)", d->number, d->name);
    e->pushed = true;
    return TG_OK;
}

RT_WARM tg_status rt_enter(const rt_device *d, rt_entered *e) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_context now = NULL;
    *e = (rt_entered){.mode = -1};
    if (cu->device_current) return enter_device(cu, d, e);
    if (cu->current(&now) == 0 && now == d->context) return TG_OK;
    cu_result error = cu->push(d->context);
    if (error) return rt_cuda_fail("cuCtxPushCurrent", error, "device %d (%s)", d->number, d->name);
    e->pushed = true;
    return TG_OK;
}

void rt_leave(rt_entered e) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_context popped;
    if (e.pushed && cu->maker->hip) cu->device_set(e.before);
    if (e.pushed && !cu->maker->hip) cu->pop(&popped);
}

void rt_relax(rt_entered *e) {
    const rt_cuda *cu = rt_cuda_driver();
    int mode = CU_CAPTURE_RELAXED;
    if (cu->capture_mode && cu->capture_mode(&mode) == 0) e->mode = mode;
}

void rt_strict(rt_entered *e) {
    if (e->mode >= 0) rt_cuda_driver()->capture_mode(&e->mode);
    e->mode = -1;
}

/* ---- the C API ----------------------------------------------------------------------------- */

int tg_device_count(void) {
    const rt_cuda *cu = rt_cuda_driver();
    return cu ? cu->n_devices : 0;
}

tg_status tg_device_describe(int number, tg_device_info *out) {
    if (!out || out->size < offsetof(tg_device_info, name))
        return tg_fail(TG_ERROR_ARGUMENT, "out->size must be sizeof(tg_device_info)");
    rt_device *d;
    tg_status status = rt_device_get(number, &d);
    if (status) return status;
    tg_device_info info = {.size = out->size,
                           .name = d->name,
                           .capability = d->capability,
                           .processors = d->processors,
                           .l2_bytes = d->l2_bytes,
                           .shared_bytes = d->shared_bytes,
                           .driver = rt_cuda_driver()->driver_version};
    memcpy(out, &info, out->size < sizeof info ? out->size : sizeof info);
    return TG_OK;
}

tg_status tg_device_synchronize(int number, void *stream) {
    rt_device *d;
    rt_entered e;
    tg_status status = rt_device_get(number, &d);
    if (!status) status = rt_enter(d, &e);
    if (status) return status;
    cu_result error = rt_cuda_driver()->stream_synchronize(stream);
    if (error)
        status = rt_cuda_fail("cuStreamSynchronize", error, "waiting for device %d (%s)", d->number,
                              d->name);
    rt_leave(e);
    rt_device_check *check = atomic_load(&rt_ranks_check);
    return status || !check ? status : check(number);
}

cu_result rt_wait(cu_stream stream, double patience) {
    const rt_cuda *cu = rt_cuda_driver();
    if (patience <= 0 || !cu->stream_query) return cu->stream_synchronize(stream);
    int64_t began = rt_now_ns(), end = began + (int64_t)(patience * 1e9);
    for (;;) {
        // The last query follows the deadline, however long this thread was not scheduled.
        int64_t now = rt_now_ns();
        cu_result error = cu->stream_query(stream);
        if (error != CU_NOT_READY || now >= end) return error;
        // For a short launch, sleeping costs more than another query.
        struct timespec t = {0, 50000};
        if (now - began > 2000000) nanosleep(&t, NULL);
    }
}

tg_status rt_does_not_end(double patience) {
    return tg_fail(TG_ERROR_CONTRACT, "it did not end within %.2g seconds, and still runs",
                   patience);
}

tg_status rt_copy_from_device(int number, cu_stream stream, cu_pointer from, size_t bytes,
                              void *to) {
    rt_device *d;
    rt_entered e;
    tg_status status = rt_device_get(number, &d);
    if (!status) status = rt_enter(d, &e);
    if (status) return status;
    const rt_cuda *cu = rt_cuda_driver();
    cu_result error = cu->to_host(to, from, bytes, stream);
    if (!error) error = cu->stream_synchronize(stream);
    rt_leave(e);
    if (!error) return TG_OK;
    return rt_cuda_fail("cuMemcpyDtoH", error, "copying %zu bytes from device %d (%s)", bytes,
                        d->number, d->name);
}

bool rt_device_memory(int number, size_t *left) {
    const rt_device *d = rt_device_at(number);
    rt_entered e;
    size_t all;
    if (!d) return false;
    if (rt_enter(d, &e)) return rt_leave(e), false;
    bool ok = !rt_cuda_driver()->memory_info(left, &all);
    rt_leave(e);
    return ok;
}
