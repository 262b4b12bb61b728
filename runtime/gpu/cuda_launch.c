// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The services for the host code of a GPU kernel (launches, tensor maps, workspaces), and the
// records that asserts and prints of its device code have written.
#include "runtime/runtime.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static rt_launcher *gpu_launcher(const tg_env *env) {
    return ((rt_worker *)env->user)->launcher;
}

/* ---- before and after ---------------------------------------------------------------------- */

static tg_status find_loaded(tg_image *image, int device, rt_loaded *at, rt_entered *entered) {
    rt_device *d;
    tg_status status = rt_device_get(device, &d);
    if (!status) status = rt_enter(d, entered);
    if (!status) status = rt_program_get(image, d, &at->program);
    at->device = d;
    return status;
}

tg_status rt_gpu_begin(rt_launcher *l, tg_image *image, int device, rt_loaded *at, void *stream,
                       rt_entered *entered) {
    rt_gpu *g = &l->gpu;
    *entered = (rt_entered){.mode = -1};
    g->image = image;
    g->device = NULL;
    g->program = NULL;
    g->stream = stream;
    g->space = NULL;
    g->status = TG_OK;
    g->faults = g->follows = false;
    g->comm = NULL;
    if (image->fresh) image->fresh(image, &l->workers[0].env, NULL, 0);
    if (image->kind == TG_IMAGE_CALL) return TG_OK;
    tg_status status =
        at->program ? rt_enter(at->device, entered) : find_loaded(image, device, at, entered);
    g->device = at->device;
    g->program = at->program;
    return status;
}

void rt_gpu_end(rt_launcher *l, rt_entered entered) {
    rt_gpu *g = &l->gpu;
    if (g->space) rt_workspace_give_back(g->space);
    g->space = NULL;
    if (g->comm) (void)g->observer->release(g->comm); // the launch began and failed
    g->comm = NULL;
    g->image = NULL;
    g->device = NULL;
    if (entered.pushed) rt_leave(entered);
}

static rt_space *claim_space(rt_gpu *g) {
    if (!g->space) {
        tg_status status = rt_workspace_claim(g->device, g->stream, &g->space);
        if (status) rt_gpu_failed(g, status);
    }
    return g->space;
}

void *rt_gpu_workspace(rt_launcher *l, int64_t bytes) {
    rt_gpu *g = &l->gpu;
    if (bytes < 0 || !claim_space(g)) return NULL;
    g->follows = false; // an allocation may go to the stream
    cu_pointer at = rt_workspace_take(g->space, (size_t)bytes);
    if (!at) rt_gpu_failed(g, TG_ERROR_MEMORY);
    return (void *)(uintptr_t)at;
}

uint32_t *rt_gpu_counter(rt_launcher *l) {
    rt_gpu *g = &l->gpu;
    cu_pointer at;
    if (!claim_space(g)) return NULL;
    g->follows = false;
    if (g->comm && !rt_workspace_has_counter(g->space)) g->observer->other(g->comm);
    tg_status status = rt_workspace_counter(g->space, &at);
    if (status) rt_gpu_failed(g, status);
    return status ? NULL : (uint32_t *)(uintptr_t)at;
}

/* ---- launches ------------------------------------------------------------------------------ */

/// The buffer of the hidden parameter; 0: failed. It is zeroed once for each launch of a kernel, in
/// stream order.
static cu_pointer faults_of(rt_gpu *g) {
    rt_space *s = claim_space(g);
    cu_pointer at = s ? rt_workspace_faults(s) : 0;
    if (!at) {
        if (!g->status) rt_gpu_failed(g, TG_ERROR_UNSUPPORTED);
        return 0;
    }
    if (g->faults) return at;
    tg_faults head = {.capacity = RT_FAULT_WORDS};
    if (g->comm) g->observer->other(g->comm);
    g->follows = false;
    cu_result error = rt_cuda_driver()->to_device(at, &head, sizeof head, g->stream);
    if (error) {
        rt_gpu_failed(g, rt_cuda_fail("cuMemcpyHtoDAsync", error, "preparing asserts and prints"));
        return 0;
    }
    g->faults = true;
    return at;
}

static tg_faults *called_faults_of(rt_gpu *g) {
    if (!g->called_faults) g->called_faults = malloc(RT_FAULT_BYTES);
    if (!g->called_faults) {
        rt_gpu_failed(g, tg_fail(TG_ERROR_MEMORY, "out of memory"));
        return NULL;
    }
    if (!g->faults) *g->called_faults = (tg_faults){.capacity = RT_FAULT_WORDS};
    g->faults = true;
    return g->called_faults;
}

/// The arguments followed by the hidden one; NULL: failed.
static void *const *with_faults(rt_gpu *g, const tg_device_function *f, void *const *args,
                                void **hidden) {
    if (g->device)
        *hidden = (void *)(uintptr_t)faults_of(g);
    else
        *hidden = called_faults_of(g);
    if (!*hidden) return NULL;
    memcpy(g->args, args, sizeof *args * (size_t)f->n_args);
    g->args[f->n_args] = hidden;
    return g->args;
}

RT_SELDOM int32_t rt_gpu_launch_failed(rt_gpu *g, const tg_device_function *f, const cu_launch *how,
                                       cu_result error) {
    const char *call = rt_cuda_driver()->launch_ex ? "cuLaunchKernelEx" : "cuLaunchKernel";
    return rt_gpu_failed(g, rt_cuda_fail(call, error,
                                         "launching '%s' (%" PRIu32
                                         " CTAs of %d threads, %d bytes of shared memory) "
                                         "on device %d (%s)",
                                         f->name, how->grid[0], f->threads, f->shared_bytes,
                                         g->device->number, g->device->name));
}

cu_launch rt_gpu_how(const rt_gpu *g, const tg_device_function *f, uint32_t ctas,
                     cu_attribute *cluster) {
    *cluster = (cu_attribute){.id = CU_ATTRIBUTE_CLUSTER,
                              .value.cluster = {(uint32_t)tg_cluster_of(f), 1, 1}};
    return (cu_launch){.grid = {ctas, 1, 1},
                       .block = {(uint32_t)f->threads, 1, 1},
                       .shared_bytes = (uint32_t)f->shared_bytes,
                       .stream = g->stream,
                       .attributes = cluster,
                       .n_attributes = tg_cluster_of(f) > 1};
}

/// Whether the driver refused an early launch of a phase.
static _Atomic bool refuses_early;

/// Whether the function may start before the preceding work ends: a step of ranks, or the phase
/// before it in the same launch. Captures keep plain launches.
static bool may_be_early(const rt_gpu *g, const tg_device_function *f) {
    if (!(f->flags & TG_DEVICE_EARLY)) return false;
    if (g->comm) return g->observer->may_be_early(g->comm);
    return g->follows && g->space && !rt_workspace_is_captured(g->space) &&
           rt_cuda_driver()->launch_ex && !atomic_load(&refuses_early);
}

/// Launches programs before the preceding work has ended. Returns false if that is impossible. A
/// driver that refuses it is not asked again.
static bool is_launched_early(rt_gpu *g, const cu_launch *how, cu_function function,
                              void *const *args) {
    cu_attribute both[2] = {how->attributes[0]};
    cu_launch early = *how;
    both[early.n_attributes++] = (cu_attribute){.id = CU_ATTRIBUTE_EARLY, .value.early = 1};
    early.attributes = both;
    bool taken = !rt_cuda_driver()->launch_ex(&early, function, (void **)(uintptr_t)args, NULL);
    if (g->comm)
        g->observer->were_early(g->comm, taken);
    else if (!taken)
        atomic_store(&refuses_early, true);
    return taken;
}

int32_t rt_gpu_launch(rt_gpu *g, const tg_device_function *f, cu_function function,
                      const cu_launch *how, void *const *args) {
    cu_result error = rt_gpu_ask(rt_cuda_driver(), how, function, args);
    return error ? rt_gpu_launch_failed(g, f, how, error) : TG_RUN_OK;
}

/// Performs a launch requested by host code.
static int32_t launch_function(rt_gpu *g, const tg_device_function *f, cu_function function,
                               uint32_t ctas, void *const *args) {
    cu_attribute cluster;
    cu_launch how = rt_gpu_how(g, f, ctas, &cluster);
    bool early = may_be_early(g, f);
    g->follows = true;
    if (early && is_launched_early(g, &how, function, args)) return TG_RUN_OK;
    return rt_gpu_launch(g, f, function, &how, args);
}

/// HIP counts the threads of a launch in 32 bits.
static bool is_too_many(const rt_gpu *g, const tg_device_function *f, int64_t programs) {
    bool hip = g->device && rt_cuda_driver()->maker->hip;
    return programs > INT_MAX || programs * f->cluster > INT_MAX ||
           (hip && programs * f->threads > UINT32_MAX);
}

static int32_t fail_too_many(rt_gpu *g, const tg_device_function *f, int64_t programs) {
    int64_t most = INT_MAX / f->cluster;
    if (is_too_many(g, f, most)) most = UINT32_MAX / f->threads;
    return rt_gpu_failed(g, tg_fail(TG_ERROR_UNSUPPORTED,
                                    "'%s': %" PRId64 " programs are more than a launch can have "
                                    "(%" PRId64 "); choose larger tiles",
                                    f->name, programs, most));
}

/// Calls a function of an image that is no driver's. It has ended on return, so it is a phase.
static int32_t call_image(const tg_env *env, int32_t function, int64_t programs,
                          void *const *args) {
    rt_launcher *l = gpu_launcher(env);
    const tg_image *image = l->gpu.image;
    int phase = l->record ? rt_record_phase(l, programs) : 0;
    int32_t status = image->dispatch(image, env, function, programs, args);
    if (l->record) rt_record_phase_end(l, phase);
    return status;
}

int32_t rt_env_dispatch(const tg_env *env, int32_t function, int64_t programs, void *const *args) {
    rt_gpu *g = &gpu_launcher(env)->gpu;
    void *hidden;
    if (!g->image || function < 0 || function >= g->image->n_functions)
        return rt_gpu_failed(
            g, tg_fail(TG_ERROR_INTERNAL, "there is no device function %d", function));
    if (programs <= 0) return TG_RUN_OK;
    const tg_device_function *f = &g->image->functions[function];
    if (is_too_many(g, f, programs)) return fail_too_many(g, f, programs);
    if (f->flags & TG_DEVICE_FAULTS && !(args = with_faults(g, f, args, &hidden)))
        return TG_RUN_DEVICE;
    if (!g->device && env->comm) return g->call(env, g->image, function, programs, args);
    if (!g->device) return call_image(env, function, programs, args);
    bool runs = true;
    if (g->comm && g->observer->before(g->comm, g, &runs)) return TG_RUN_DEVICE;
    if (!runs) return TG_RUN_OK;
    uint32_t ctas = (uint32_t)(programs * f->cluster);
    int32_t status = launch_function(g, f, g->program->functions[function], ctas, args);
    if (g->replay)
        rt_replay_add_launch(g->replay, g, f, g->program->functions[function], ctas, args);
    bool launched = status == TG_RUN_OK;
    int32_t after = g->comm ? g->observer->after(g->comm, g, function, launched) : TG_RUN_OK;
    return status ? status : after;
}

/* ---- tensor maps --------------------------------------------------------------------------- */

/// The RT_MAP_WAYS places that may hold the map of these arguments.
static rt_map *map_places(rt_gpu *g, const tg_tensormap *how, const void *data,
                          const int64_t *dims) {
    uint64_t key = (uintptr_t)data >> 4 ^ (uintptr_t)how << 20 ^ (uint64_t)dims[how->axes[0]] << 40;
    return &g->maps[(key * 0x9e3779b97f4a7c15u >> 60) * RT_MAP_WAYS];
}
_Static_assert(RT_MAPS / RT_MAP_WAYS == 16, "60 bits are shifted out");

static bool is_same_how(const tg_tensormap *x, const tg_tensormap *y) {
    uint64_t a[4], b[4];
    _Static_assert(sizeof a == sizeof *x, "all of it");
    memcpy(a, x, sizeof a);
    memcpy(b, y, sizeof b);
    return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}

static bool is_of(const rt_map *m, const tg_tensormap *how, void *data, const int64_t *dims,
                  const int64_t *strides) {
    if (m->data != data || !is_same_how(&m->how, how)) return false;
    for (int i = 0; i < how->rank; i++)
        if (m->dims[i] != dims[how->axes[i]] || m->strides[i] != strides[how->axes[i]])
            return false;
    return true;
}

static const uint8_t type_bytes[] = {
    [TG_MAP_U8] = 1,       [TG_MAP_U16] = 2,  [TG_MAP_U32] = 4,     [TG_MAP_I32] = 4,
    [TG_MAP_U64] = 8,      [TG_MAP_I64] = 8,  [TG_MAP_F16] = 2,     [TG_MAP_F32] = 4,
    [TG_MAP_F64] = 8,      [TG_MAP_BF16] = 2, [TG_MAP_F32_FTZ] = 4, [TG_MAP_TF32] = 4,
    [TG_MAP_TF32_FTZ] = 4,
};

/// The stride of dimension i in bytes. The driver checks it even for an extent of 1, where it is
/// never used.
static uint64_t map_stride(const rt_map *m, int i, uint64_t bytes) {
    uint64_t row = ((uint64_t)m->dims[0] * bytes + 15) / 16 * 16;
    return m->dims[i] == 1 ? row : (uint64_t)m->strides[i] * bytes;
}

/// The driver numbers the swizzles 0, 32, 64, 128 from 0. Its strides are in bytes and start at
/// dimension 1.
static cu_result encode_tensor_map(const rt_cuda *cu, rt_map *m) {
    static const uint32_t ones[5] = {1, 1, 1, 1, 1};
    uint64_t dims[5], strides[5];
    uint32_t box[5];
    uint64_t bytes = m->how.type < sizeof type_bytes ? type_bytes[m->how.type] : 0;
    for (int i = 0; i < m->how.rank; i++) {
        dims[i] = (uint64_t)m->dims[i];
        box[i] = (uint32_t)m->how.box[i];
        if (i) strides[i - 1] = map_stride(m, i, bytes);
    }
    int swizzle = m->how.swizzle >= 32 ? __builtin_ctz(m->how.swizzle) - 4 : 0;
    return cu->encode_tiled(m->bytes, m->how.type, m->how.rank, m->data, dims, strides, box, ones,
                            0, swizzle, CU_MAP_PROMOTION, m->how.fill);
}

/// Reports all values passed to the driver, which only says that something was invalid.
static int32_t map_failed(rt_gpu *g, const rt_map *m, cu_result error) {
    rt_text t = {.n = 0};
    for (int i = 0; i < m->how.rank; i++)
        rt_add(&t, "%s%" PRId64 " (stride %" PRId64 ", box %d)", i ? ", " : "", m->dims[i],
               m->strides[i], m->how.box[i]);
    return rt_gpu_failed(
        g, rt_cuda_fail("cuTensorMapEncodeTiled", error,
                        "a map of a tensor at %p, type %d, swizzle %d, dimensions from "
                        "the innermost one: %s",
                        m->data, m->how.type, m->how.swizzle, t.data));
}

/// Puts the map into a free place of the set, or replaces the next one in turn. NULL: failed.
static rt_map *make_map(rt_gpu *g, rt_map *places, const tg_tensormap *how, void *data,
                        const int64_t *dims, const int64_t *strides) {
    const rt_cuda *cu = g->device ? rt_cuda_driver() : NULL;
    if (!cu || !cu->encode_tiled || how->rank < 1 || how->rank > 5) {
        rt_gpu_failed(g, tg_fail(TG_ERROR_UNSUPPORTED, "this driver makes no such tensor maps"));
        return NULL;
    }
    rt_map *m = places;
    while (m < places + RT_MAP_WAYS && m->data) m++;
    if (m == places + RT_MAP_WAYS) m = places + g->maps_replaced++ % RT_MAP_WAYS;
    *m = (rt_map){.how = *how, .data = data};
    for (int i = 0; i < how->rank; i++) {
        m->dims[i] = dims[how->axes[i]];
        m->strides[i] = strides[how->axes[i]];
    }
    cu_result error = encode_tensor_map(cu, m);
    if (!error) return m;
    m->data = NULL;
    map_failed(g, m, error);
    return NULL;
}

int32_t rt_gpu_map(rt_gpu *g, const tg_tensormap *how, void *data, const int64_t *dims,
                   const int64_t *strides, void *out) {
    rt_map *places = map_places(g, how, data, dims), *m = places;
    while (m < places + RT_MAP_WAYS && !is_of(m, how, data, dims, strides)) m++;
    if (m == places + RT_MAP_WAYS) {
        // A tensor without elements is never copied, and the driver refuses its map.
        for (int i = 0; i < how->rank; i++)
            if (dims[how->axes[i]] <= 0) return memset(out, 0, TG_TENSORMAP_BYTES), TG_RUN_OK;
        m = make_map(g, places, how, data, dims, strides);
        if (!m) return TG_RUN_DEVICE;
    }
    memcpy(out, m->bytes, sizeof m->bytes);
    return TG_RUN_OK;
}

int32_t rt_env_tensormap(const tg_env *env, const tg_tensormap *how, void *data,
                         const int64_t *dims, const int64_t *strides, void *out) {
    rt_gpu *g = &gpu_launcher(env)->gpu;
    if (g->image && g->image->tensormap)
        return g->image->tensormap(g->image, env, how, data, dims, strides, out);
    int32_t status = rt_gpu_map(g, how, data, dims, strides, out);
    if (g->replay && !status) rt_replay_add_map(g->replay, how, data, dims, strides, out);
    return status;
}

/* ---- asserts and prints -------------------------------------------------------------------- */

/// A record in the buffer. Records are ordered by program, and within a program by the time of
/// writing.
typedef struct FaultRecord {
    int64_t program;
    uint32_t at;
} FaultRecord;

static int compare_records(const void *a, const void *b) {
    const FaultRecord *x = a, *y = b;
    if (x->program != y->program) return x->program < y->program ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/// Returns the number of complete records. Each record names an existing site.
static int find_records(const tg_image *image, const tg_faults *f, const uint64_t *words,
                        FaultRecord *out) {
    uint32_t end = f->used < RT_FAULT_WORDS ? f->used : RT_FAULT_WORDS;
    int n = 0;
    for (uint32_t at = 0; at + 2 <= end;) {
        uint32_t site = (uint32_t)words[at], values = (uint32_t)(words[at] >> 32);
        if (site >= (uint32_t)image->n_sites || values > end - at - 2 ||
            values != (uint32_t)image->sites[site]->n_values)
            break;
        out[n++] = (FaultRecord){(int64_t)words[at + 1], at};
        at += 2 + values;
    }
    return n;
}

/// Prints the records up to the first failure, which becomes the launch's.
static int32_t report_faults(rt_launcher *l, const tg_faults *f) {
    const tg_image *image = l->gpu.image;
    const uint64_t *words = (const uint64_t *)(f + 1);
    const tg_env *env = &l->workers[0].env;
    int32_t status = TG_RUN_OK;
    FaultRecord *records = malloc(sizeof *records * (RT_FAULT_WORDS / 2));
    if (!records) return env->fail(env, NULL, NULL);
    int n = find_records(image, f, words, records);
    qsort(records, (size_t)n, sizeof *records, compare_records);
    for (int i = 0; i < n; i++) {
        const tg_site *site = image->sites[(uint32_t)words[records[i].at]];
        const uint64_t *values = words + records[i].at + 2;
        if (site->kind == TG_SITE_MARK)
            rt_record_device_mark(l, site, records[i].program, values[0]);
        else if (site->kind == TG_SITE_PRINT)
            env->print(env, site, values);
        else if (!status)
            status = env->fail(env, site, values);
    }
    free(records);
    const tg_options *hooks = &l->context->hooks;
    if (f->used > RT_FAULT_WORDS && l->record) l->record->marks_lost = true;
    if (f->used > RT_FAULT_WORDS && !l->record && hooks->log)
        hooks->log(hooks->user, "the launch printed more than its buffer holds");
    if (f->failed && !status)
        status =
            rt_gpu_failed(&l->gpu, tg_fail(TG_ERROR_CONTRACT,
                                           "an assert failed, behind more prints than are kept"));
    return status;
}

/// Waits for the device, since prints and failures belong to this launch.
static int32_t read_faults(rt_launcher *l, tg_faults *to) {
    rt_gpu *g = &l->gpu;
    const rt_cuda *cu = rt_cuda_driver();
    cu_pointer at = rt_workspace_faults(g->space);
    cu_result error = g->patience > 0 ? rt_wait(g->stream, g->patience) : 0;
    if (!error) error = cu->to_host(to, at, sizeof *to, g->stream);
    if (!error) error = cu->stream_synchronize(g->stream);
    if (!error && to->used) {
        uint32_t words = to->used < RT_FAULT_WORDS ? to->used : RT_FAULT_WORDS;
        error = cu->to_host(to + 1, at + sizeof *to, 8 * (size_t)words, g->stream);
        if (!error) error = cu->stream_synchronize(g->stream);
    }
    if (!error) return TG_RUN_OK;
    g->stuck = error == CU_NOT_READY;
    if (g->stuck) return rt_gpu_failed(g, rt_does_not_end(g->patience));
    return rt_gpu_failed(g, rt_cuda_fail("cuMemcpyDtoHAsync", error,
                                         "reading the asserts and prints of device %d (%s)",
                                         g->device->number, g->device->name));
}

int32_t rt_gpu_faults(rt_launcher *l) {
    rt_gpu *g = &l->gpu;
    if (!g->faults) return TG_RUN_OK;
    if (!g->device) return g->called_faults->used ? report_faults(l, g->called_faults) : TG_RUN_OK;
    tg_faults *copy = malloc(RT_FAULT_BYTES);
    if (!copy) return rt_gpu_failed(g, tg_fail(TG_ERROR_MEMORY, "out of memory"));
    int32_t status = read_faults(l, copy);
    if (!status && copy->used) status = report_faults(l, copy);
    free(copy);
    return status;
}
