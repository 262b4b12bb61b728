// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symmetric memory of GPUs, and the messages when a rank fails. Each rank allocates a piece on its
// device, passes a file descriptor of it to the other ranks, and maps the pieces of all ranks side
// by side.
//
//            rank 0             rank 1
//  flat -> | heap ... | words | heap ... | words | ...
//            <------ stride ------>
//
// If the memory of other ranks cannot be mapped, only the own piece is mapped. The addresses of the
// others are then names, which only NVSHMEM's copies translate.
#include "runtime/comm/comm_cuda.h"

#include "runtime/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
static rt_cuda_comm *all; // of the process, under `listing`

/* ---- memory ---------------------------------------------------------------------------------- */

static tg_status fail_memory(const rt_cuda_comm *g, const char *call, cu_result error) {
    return rt_cuda_fail(call, error, "symmetric memory of %zu MiB a rank on device %d (%s)",
                        g->stride >> 20, g->device->number, g->device->name);
}

/// Fails if the driver lacks functions, as older drivers and AMD's do.
static tg_status check_driver(const rt_cuda *cu, int device) {
    if (cu->maker->hip)
        return tg_fail(TG_ERROR_UNSUPPORTED, "ranks with AMD GPUs are not supported yet");
    if (cu->memory_create && cu->memory_export && cu->memory_import && cu->reserve && cu->map &&
        cu->set_access && cu->memory_grain && cu->rows && cu->host_allocate &&
        cu->stream_create_first && cu->stream_priorities && cu->stream_wait &&
        cu->stream_wait_value && cu->device_uuid)
        return TG_OK;
    return tg_fail(TG_ERROR_UNSUPPORTED,
                   "device %d: the driver is too old for symmetric memory; %s or later is needed",
                   device, cu->maker->oldest);
}

static cu_memory memory_of(const rt_cuda_comm *g) {
    return (cu_memory){.type = CU_PINNED,
                       .handles = CU_FILE_DESCRIPTOR,
                       .place = {CU_ON_DEVICE, g->device->number}};
}

/// Finds the allocation that contains NVSHMEM's heap. It must hold the whole heap and the words in
/// one piece.
static tg_status find_piece(rt_cuda_comm *g, size_t bytes) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_pointer at = (uintptr_t)g->library_heap, from = 0;
    size_t size = 0;
    if (!cu->memory_of || !cu->memory_range)
        return tg_fail(TG_ERROR_UNSUPPORTED, "the driver is too old for NVSHMEM's memory");
    cu_result error = cu->memory_range(&from, &size, at);
    if (!error) error = cu->memory_of(&g->handles[g->comm->rank], g->library_heap);
    if (error)
        return rt_cuda_fail("cuMemRetainAllocationHandle", error,
                            "NVSHMEM's heap cannot be mapped (is NVSHMEM_DISABLE_CUDA_VMM set?)");
    g->offset = at - from;
    g->stride = size;
    if (g->offset + bytes <= size) return TG_OK;
    return tg_fail(TG_ERROR_UNSUPPORTED,
                   "NVSHMEM's heap has %zu bytes in one piece, and %zu are needed: ask for less "
                   "symmetric memory (NVSHMEM_CUMEM_GRANULARITY is what its pieces should have)",
                   size - g->offset, bytes);
}

/// Creates the own piece: its handle, and a descriptor to pass. bytes: of the heap and the words.
static tg_status make_piece(rt_cuda_comm *g, size_t bytes, int *fd) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_memory memory = memory_of(g);
    cu_handle *own = &g->handles[g->comm->rank];
    if (g->library_heap) {
        tg_status status = find_piece(g, bytes);
        if (status) return status;
    } else {
        cu_result error = cu->memory_create(own, g->stride, &memory, 0);
        if (error) return fail_memory(g, "cuMemCreate", error);
    }
    if (g->far) return TG_OK;
    cu_result error = cu->memory_export(fd, *own, CU_FILE_DESCRIPTOR, 0);
    return error ? fail_memory(g, "cuMemExportToShareableHandle", error) : TG_OK;
}

/// Imports the pieces of the other ranks from their descriptors.
static tg_status import_pieces(rt_cuda_comm *g, const int *fds) {
    const rt_cuda *cu = rt_cuda_driver();
    for (int r = 0; r < g->comm->size; r++) {
        if (r == g->comm->rank) continue;
        void *fd = (void *)(intptr_t)fds[r];
        cu_result error = cu->memory_import(&g->handles[r], fd, CU_FILE_DESCRIPTOR);
        if (error)
            return rt_cuda_fail("cuMemImportFromShareableHandle", error,
                                "rank %d: memory of rank %d (every rank must see all the devices: "
                                "CUDA_VISIBLE_DEVICES)",
                                g->comm->rank, r);
    }
    return TG_OK;
}

/// Maps all pieces, or if ranks are far only the own one, and gives the own device access.
static tg_status map_pieces(rt_cuda_comm *g) {
    const rt_cuda *cu = rt_cuda_driver();
    size_t size = (size_t)g->comm->size, own = (size_t)g->comm->rank;
    cu_access access = {.place = {CU_ON_DEVICE, g->device->number}, .flags = CU_READ_WRITE};
    cu_result error = cu->reserve(&g->reserved, g->stride * size, 0, 0, 0);
    if (error) return fail_memory(g, "cuMemAddressReserve", error);
    for (size_t r = 0; r < size; r++) {
        if (g->far && r != own) continue;
        error = cu->map(g->reserved + g->stride * r, g->stride, 0, g->handles[r], 0);
        if (error) return fail_memory(g, "cuMemMap", error);
        g->mapped[r] = true;
    }
    error = g->far ? cu->set_access(g->reserved + g->stride * own, g->stride, &access, 1)
                   : cu->set_access(g->reserved, g->stride * size, &access, 1);
    g->flat = g->reserved + g->offset;
    if (!error) return TG_OK;
    return rt_cuda_fail("cuMemSetAccess", error,
                        "device %d (%s) and those of the other ranks: can it reach their memory "
                        "(nvidia-smi topo -p2p r)?",
                        g->device->number, g->device->name);
}

/// The description of a rank's piece for the other ranks.
typedef struct PieceInfo {
    uint64_t stride;
    cu_uuid device;
} PieceInfo;

static cu_result identify(int number, cu_uuid *out) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_device device;
    cu_result error = cu->device(&device, number);
    return error ? error : cu->device_uuid(out, device);
}

/// Finds the ranks whose copies are kernels (g->beside). Fails if two ranks that are threads share
/// a GPU: they share a context, and kernels of one context that wait for each other might never run
/// at the same time.
static tg_status find_neighbours(rt_cuda_comm *g, const PieceInfo *pieces) {
    const tg_comm *c = g->comm;
    for (int r = 0; r < c->size; r++) g->beside[r] = g->far && r != c->rank;
    for (int r = 0; r < c->size; r++)
        for (int q = 0; q < r; q++) {
            if (memcmp(&pieces[r].device, &pieces[q].device, sizeof(cu_uuid)) != 0) continue;
            if (c->engine == &rt_engine_threads)
                return tg_fail(TG_ERROR_UNSUPPORTED,
                               "ranks %d and %d are threads of one process and share a GPU, where "
                               "kernels of one would wait for ever for those of the other; give "
                               "each a GPU, or a process",
                               q, r);
            if (r == c->rank) g->beside[q] = true;
            if (q == c->rank) g->beside[r] = true;
        }
    return TG_OK;
}

/// Collective: creates the own piece, imports the others, and maps all of them. The stride is the
/// largest of all ranks', since their devices may differ in granularity.
static tg_status share_pieces(rt_cuda_comm *g, size_t bytes) {
    static const char what[] = "symmetric memory of GPUs";
    tg_comm *c = g->comm;
    const rt_cuda *cu = rt_cuda_driver();
    PieceInfo mine = {0}, pieces[RT_COMM_RANKS];
    int fd = -1, fds[RT_COMM_RANKS];
    size_t grain = 0;
    cu_memory memory = memory_of(g);
    tg_status status = TG_OK;
    g->stride = bytes + sizeof(rt_cuda_words); // at least
    cu_result error = cu->memory_grain(&grain, &memory, 0);
    if (error) status = fail_memory(g, "cuMemGetAllocationGranularity", error);
    error = identify(g->device->number, &mine.device);
    if (error) status = fail_memory(g, "cuDeviceGetUuid", error);
    if (!status && !c->engine->pass && !g->far)
        status = tg_fail(TG_ERROR_UNSUPPORTED,
                         "ranks of '%s' cannot pass memory of GPUs to each other", c->engine->name);
    mine.stride = rt_round_up(g->stride, grain ? grain : 1);
    status = rt_comm_agree_that(c, what, status);
    if (!status) status = rt_comm_allgather(c, what, &mine, sizeof mine, pieces);
    if (!status) status = find_neighbours(g, pieces);
    if (status) return status;
    for (int r = 0; r < c->size; r++)
        if (pieces[r].stride > g->stride) g->stride = pieces[r].stride;
    status = rt_comm_agree_that(c, what, make_piece(g, bytes + sizeof(rt_cuda_words), &fd));
    if (g->far) return status ? status : rt_comm_agree_that(c, what, map_pieces(g));
    if (!status) status = c->engine->pass(c, fd, fds);
    if (fd >= 0) close(fd);
    if (status) return status;
    status = import_pieces(g, fds);
    for (int r = 0; r < c->size; r++) close(fds[r]);
    if (!status) status = map_pieces(g);
    return rt_comm_agree_that(c, what, status);
}

static void unmap_pieces(rt_cuda_comm *g) {
    const rt_cuda *cu = rt_cuda_driver();
    for (int r = 0; r < g->comm->size; r++)
        if (g->mapped[r]) cu->unmap(g->reserved + g->stride * (size_t)r, g->stride);
    if (g->reserved) cu->unreserve(g->reserved, g->stride * (size_t)g->comm->size);
    for (int r = 0; r < g->comm->size; r++)
        if (g->handles[r]) cu->memory_release(g->handles[r]);
}

/* ---- streams, events, the kernel ------------------------------------------------------------- */

static tg_status prepare_streams(rt_cuda_comm *g) {
    const rt_cuda *cu = rt_cuda_driver();
    int least = 0, most = 0;
    const char *call = "cuStreamCreateWithPriority";
    tg_status status = rt_step_load(g->device, g->far, &g->module, &g->step);
    if (status) return status;
    g->early = !g->far && g->device->capability >= RT_STEP_EARLY && cu->launch_ex &&
               cu->driver_version >= CU_EARLY_DRIVER;
    cu->stream_priorities(&least, &most);
    cu_result error = cu->stream_create_first(&g->own, CU_NON_BLOCKING, most);
    for (int r = 0; r < g->comm->size && !error; r++)
        if (r != g->comm->rank)
            error = cu->stream_create_first(&g->sides[r], CU_NON_BLOCKING, most);
    if (!error) {
        call = "cuEventCreate";
        error = cu->event_create(&g->forked, CU_NO_TIMING);
    }
    for (int r = 0; r < g->comm->size && !error; r++)
        if (g->sides[r]) error = cu->event_create(&g->joined[r], CU_NO_TIMING);
    if (!error) error = cu->event_create(&g->ended, CU_NO_TIMING);
    if (!error) {
        call = "cuMemHostAlloc";
        error = cu->host_allocate((void **)&g->record, 8 * TG_CONTROL_WORDS,
                                  CU_HOST_PORTABLE | CU_HOST_MAPPED);
    }
    if (error) return rt_cuda_fail(call, error, "ranks with GPUs");
    memset(g->record, 0, 8 * TG_CONTROL_WORDS);
    return TG_OK;
}

static void release_streams(rt_cuda_comm *g) {
    const rt_cuda *cu = rt_cuda_driver();
    if (g->module) cu->module_unload(g->module);
    if (g->own) cu->stream_destroy(g->own);
    for (int r = 0; r < g->comm->size; r++) {
        if (g->sides[r]) cu->stream_destroy(g->sides[r]);
        if (g->joined[r]) cu->event_destroy(g->joined[r]);
    }
    if (g->forked) cu->event_destroy(g->forked);
    if (g->ended) cu->event_destroy(g->ended);
    if (g->record) cu->host_release(g->record);
}

/// Zeroes own memory on the communicator's stream, not on one of the caller's.
static tg_status clear_at(rt_cuda_comm *g, cu_pointer at, size_t bytes) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_result error = cu->set_words(at, 0, (bytes + 3) / 4, g->own);
    if (!error) error = cu->stream_synchronize(g->own);
    return error ? fail_memory(g, "cuMemsetD32Async", error) : TG_OK;
}

static tg_status clear_device_heap(tg_comm *c, void *own, size_t bytes) {
    rt_cuda_comm *g = c->memory_state;
    rt_entered e;
    tg_status status = rt_enter(g->device, &e);
    if (status) return status;
    rt_relax(&e);
    status = clear_at(g, (uintptr_t)own, bytes);
    rt_strict(&e);
    rt_leave(e);
    return status;
}

static tg_status copy_device_heap(tg_comm *c, void *to, const void *from, size_t bytes, bool out) {
    rt_cuda_comm *g = c->memory_state;
    const rt_cuda *cu = rt_cuda_driver();
    rt_entered e;
    tg_status status = rt_enter(g->device, &e);
    if (status) return status;
    cu_result error = out ? cu->to_host(to, (uintptr_t)from, bytes, g->own)
                          : cu->to_device((uintptr_t)to, from, bytes, g->own);
    if (!error) error = cu->stream_synchronize(g->own);
    rt_leave(e);
    return error ? fail_memory(g, out ? "cuMemcpyDtoH" : "cuMemcpyHtoD", error) : TG_OK;
}

static tg_status fetch_from_gpu(tg_comm *c, int rank, const void *from, void *to, size_t bytes) {
    rt_cuda_comm *g = c->memory_state;
    rt_entered e;
    tg_status status = rt_enter(g->device, &e);
    if (status) return status;
    status = rt_nvshmem_fetch(g, rank, (uintptr_t)from, to, bytes);
    rt_leave(e);
    return status;
}

static tg_status settle_device(tg_comm *c) {
    rt_cuda_comm *g = c->memory_state;
    rt_entered e;
    tg_status status = rt_enter(g->device, &e);
    if (status) return status;
    rt_relax(&e);
    cu_result error = rt_cuda_driver()->synchronize();
    rt_strict(&e);
    rt_leave(e);
    if (error)
        return rt_cuda_fail("cuCtxSynchronize", error, "waiting for device %d (%s)",
                            g->device->number, g->device->name);
    return rt_cuda_comm_check(g);
}

/* ---- failures -------------------------------------------------------------------------------- */

static int64_t record_word(const rt_cuda_comm *g, int i) {
    return __atomic_load_n(&g->record[i], __ATOMIC_ACQUIRE);
}

/// Fails because ranks met in different launches. The ranks' lines tell the difference, unless a
/// rank has started another launch.
static tg_status fail_unlike_device(const rt_cuda_comm *g, const char *name, int peer) {
    tg_status status = rt_comm_compare(g->comm, peer);
    if (status) return tg_fail(status, "%s: %s", name, tg_last_error());
    return tg_fail(
        TG_ERROR_CONTRACT,
        "%s: ranks %d and %d have met in different launches: of other kernels, with other "
        "settings, or with other symmetric tensors, parts or shapes of them",
        name, g->comm->rank, peer);
}

/// Fails with the rank and event that the device waited for, from the site of compiled code or of
/// the runtime's step.
static tg_status fail_wait(const rt_cuda_comm *g) {
    int64_t launch = record_word(g, TG_CONTROL_LAUNCH), site = record_word(g, TG_CONTROL_SITE);
    uint64_t values[2] = {(uint64_t)record_word(g, TG_CONTROL_PEER),
                          (uint64_t)record_word(g, TG_CONTROL_NUMBER)};
    const tg_image *image = launch >= 0 && launch < g->n_kernels ? g->kernels[launch] : NULL;
    const char *name = image && image->n_functions ? image->functions[0].name : "a kernel";
    double seconds = (double)g->comm->timeout_ns * 1e-9;
    char text[RT_COMM_TEXT];
    if (site == RT_STEP_UNLIKE) return fail_unlike_device(g, name, (int)values[0]);
    if (image && site >= 0 && site < image->n_sites)
        tg_site_text(text, sizeof text, image->sites[site], values);
    else
        snprintf(text, sizeof text, "rank %d to come to the same launch", (int)values[0]);
    return tg_fail(TG_ERROR_RANK, "%s: rank %d waited %g s for %s", name, g->comm->rank, seconds,
                   text);
}

tg_status rt_cuda_comm_check(rt_cuda_comm *g) {
    int64_t by = record_word(g, TG_CONTROL_GIVE_UP);
    if (by == 0) return TG_OK;
    if (record_word(g, TG_CONTROL_FAILED)) return fail_wait(g);
    if (rt_comm_is_lost(g->comm))
        return tg_fail(TG_ERROR_RANK, "rank %d has died", atomic_load(&g->comm->lost) - 1);
    const rt_from *from = &g->comm->control->from[by - 1];
    if (!atomic_load(&from->failed))
        return tg_fail(TG_ERROR_RANK, "rank %d has failed; its message says why", (int)by - 1);
    return tg_fail(TG_ERROR_RANK, "rank %d has failed: %.*s", (int)by - 1, RT_COMM_TEXT,
                   from->text);
}

/// Fails if any group with this device has failed.
static tg_status check_groups(int device) {
    tg_status status = TG_OK;
    pthread_mutex_lock(&listing);
    for (rt_cuda_comm *g = all; g && !status; g = g->next)
        if (g->device->number == device) status = rt_cuda_comm_check(g);
    pthread_mutex_unlock(&listing);
    return status;
}

/// Ends waits on the device. It uses a copy, which needs no free multiprocessor.
static void end_device_waits(rt_cuda_comm *g, int by) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_pointer own = (cu_pointer)(uintptr_t)g->words + g->stride * (size_t)g->comm->rank;
    int64_t value = by + 1;
    rt_entered e;
    if (rt_enter(g->device, &e)) return;
    rt_relax(&e);
    cu->to_device(own + 8 * TG_CONTROL_GIVE_UP, &value, sizeof value, g->own);
    cu->stream_synchronize(g->own);
    rt_strict(&e);
    rt_leave(e);
    if (!record_word(g, TG_CONTROL_GIVE_UP))
        __atomic_store_n(&g->record[TG_CONTROL_GIVE_UP], value, __ATOMIC_RELEASE);
}

/// Reports a failure of this device to the other ranks. Near devices write it into each other's
/// memory; for far ranks the host does it.
static void tell_stopped(rt_cuda_comm *g) {
    tg_comm *c = g->comm;
    if (!g->far || !record_word(g, TG_CONTROL_FAILED)) return;
    for (int r = 0; r < c->size; r++)
        if (r != c->rank) rt_comm_set(c, r, &c->control->from[c->rank].stopped, 1);
}

/// Returns a rank whose host has refused a launch in which this device waits, or whose device has
/// failed; or -1.
static int who_refused(const rt_cuda_comm *g) {
    const tg_comm *c = g->comm;
    for (int r = 0; r < c->size; r++) {
        int64_t failed = atomic_load(&c->control->from[r].failed);
        if (r != c->rank && atomic_load(&c->control->from[r].stopped)) return r;
        if (r != c->rank && failed > atomic_load(&c->failed) && failed <= atomic_load(&g->begun))
            return r;
    }
    return -1;
}

/// The thread that looks for dead and failed ranks. A host thread that waits for the device cannot
/// do this.
static void *watch_ranks(void *state) {
    enum { LOOK_NS = 250000000 };
    rt_cuda_comm *g = state;
    pthread_mutex_lock(&g->watching);
    while (!g->ends) {
        (void)rt_comm_wait_until(&g->over, &g->watching, rt_now_ns() + LOOK_NS);
        if (g->ends) break;
        int by = rt_comm_is_lost(g->comm) ? atomic_load(&g->comm->lost) - 1 : who_refused(g);
        if (by < 0 && record_word(g, TG_CONTROL_GIVE_UP) && g->far) {
            tell_stopped(g);
            break;
        }
        if (by < 0) continue;
        end_device_waits(g, by);
        break;
    }
    pthread_mutex_unlock(&g->watching);
    return NULL;
}

static void end_watch(rt_cuda_comm *g) {
    pthread_mutex_lock(&g->watching);
    g->ends = true;
    pthread_cond_signal(&g->over);
    pthread_mutex_unlock(&g->watching);
    if (g->watched) pthread_join(g->watch, NULL);
    pthread_cond_destroy(&g->over);
    pthread_mutex_destroy(&g->watching);
}

/* ---- of a communicator ----------------------------------------------------------------------- */

static void enlist_comm(rt_cuda_comm *g) {
    atomic_store(&rt_ranks_check, check_groups);
    pthread_mutex_lock(&listing);
    g->next = all;
    all = g;
    pthread_mutex_unlock(&listing);
}

static void delist_comm(rt_cuda_comm *g) {
    pthread_mutex_lock(&listing);
    for (rt_cuda_comm **p = &all; *p; p = &(*p)->next)
        if (*p == g) {
            *p = g->next;
            break;
        }
    pthread_mutex_unlock(&listing);
}

static void free_all(rt_cuda_comm *g) {
    rt_entered e;
    if (rt_enter(g->device, &e) == TG_OK) {
        rt_relax(&e);
        rt_cuda_profile_free(g);
        release_streams(g);
        unmap_pieces(g);
        if (g->library_heap) rt_nvshmem_end(g);
        rt_strict(&e);
        rt_leave(e);
    }
    free(g);
}

/// Creates streams and the control block, all zero. The own memory must be mapped.
static tg_status begin_cuda_comm(rt_cuda_comm *g, size_t bytes) {
    tg_comm *c = g->comm;
    size_t own = g->stride * (size_t)c->rank;
    g->words = (rt_cuda_words *)(uintptr_t)(g->flat + bytes);
    tg_status status = prepare_streams(g);
    if (!status) status = clear_at(g, g->flat + own, bytes + sizeof(rt_cuda_words));
    cu_pointer limit = (cu_pointer)(uintptr_t)g->words + own + 8 * TG_CONTROL_LIMIT;
    if (status) return status;
    cu_result error =
        rt_cuda_driver()->to_device(limit, &c->timeout_ns, sizeof c->timeout_ns, g->own);
    if (!error) error = rt_cuda_driver()->stream_synchronize(g->own);
    return error ? fail_memory(g, "cuMemcpyHtoDAsync", error) : TG_OK;
}

static tg_status create_in(rt_cuda_comm *g, size_t bytes) {
    tg_comm *c = g->comm;
    tg_status status = TG_OK;
    if (c->memory == &rt_memory_nvshmem)
        status =
            rt_comm_agree_that(c, "NVSHMEM", rt_nvshmem_start(g, bytes + sizeof(rt_cuda_words)));
    if (!status) status = share_pieces(g, bytes);
    if (status) return status;
    status = rt_comm_agree_that(c, "symmetric memory of GPUs", begin_cuda_comm(g, bytes));
    if (status) return status;
    c->heap = (rt_heap){.flat = (char *)(uintptr_t)g->flat,
                        .own = (char *)(uintptr_t)(g->flat + g->stride * (size_t)c->rank),
                        .stride = g->stride,
                        .bytes = bytes,
                        .mapped = !g->far};
    return TG_OK;
}

static tg_status create_cuda_comm(tg_comm *c, size_t bytes) {
    rt_device *d;
    rt_entered e;
    rt_cuda_comm *g = NULL;
    tg_status status = rt_device_get(c->device, &d);
    if (!status) status = check_driver(rt_cuda_driver(), d->number);
    if (!status && !(g = calloc(1, sizeof *g))) status = tg_fail(TG_ERROR_MEMORY, "out of memory");
    if (!status) status = rt_enter(d, &e);
    bool entered = !status;
    status = rt_comm_agree_that(c, "ranks with GPUs", status);
    if (status) {
        if (entered) rt_leave(e);
        free(g);
        return status;
    }
    *g = (rt_cuda_comm){.comm = c, .device = d};
    bytes = rt_round_up(bytes, 256);
    rt_relax(&e);
    status = create_in(g, bytes);
    rt_strict(&e);
    rt_leave(e);
    if (status) {
        free_all(g);
        return status;
    }
    pthread_mutex_init(&g->watching, NULL);
    rt_comm_condition(&g->over);
    g->watched = pthread_create(&g->watch, NULL, watch_ranks, g) == 0;
    c->memory_state = g;
    enlist_comm(g);
    return TG_OK;
}

/// Memory that other ranks have mapped stays valid for them until they unmap it.
static void destroy_cuda_comm(tg_comm *c) {
    rt_cuda_comm *g = c->memory_state;
    if (!g) return;
    delist_comm(g);
    end_watch(g);
    free_all(g);
    c->memory_state = NULL;
}

const rt_memory rt_memory_cuda = {.create = create_cuda_comm,
                                  .destroy = destroy_cuda_comm,
                                  .clear = clear_device_heap,
                                  .settle = settle_device,
                                  .copy = copy_device_heap,
                                  .profile = rt_cuda_profile,
                                  .seconds = rt_cuda_seconds,
                                  .calls = &rt_cuda_comm_calls};

/// The same functions with NVSHMEM's heap.
const rt_memory rt_memory_nvshmem = {.create = create_cuda_comm,
                                     .destroy = destroy_cuda_comm,
                                     .clear = clear_device_heap,
                                     .settle = settle_device,
                                     .copy = copy_device_heap,
                                     .fetch = fetch_from_gpu,
                                     .profile = rt_cuda_profile,
                                     .seconds = rt_cuda_seconds,
                                     .calls = &rt_cuda_comm_calls};
