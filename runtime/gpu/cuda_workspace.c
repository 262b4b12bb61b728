// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device memory of launches: workspaces of streams and of captures.
//
// The launches of a stream run in order. One workspace serves them all, and a warm launch allocates
// nothing. Its key is the stream's number, which is never reused.
//
// A captured launch may run at any time, also beside later launches on the captured stream. Its
// workspace belongs to the graph, which holds it as a user object. It is freed when everything made
// from the graph is destroyed.
//
// A workspace has one counter, a word that holds 0 between launches (runtime/abi.h). It is set to 0
// when a launch first asks for it, and again after a launch that failed. A failed launch leaves
// another number only if device code ended early: an assert that failed or a limit of time does not
// end it, and a trap or an illegal access ends the context, too. A launch that the driver refused
// has not counted.
#include "runtime/gpu/gpu_launch.h"

#include <stdlib.h>
#include <string.h>

/// The memory of the n-th call of a launch.
typedef struct SpacePiece {
    struct SpacePiece *next;
    cu_pointer at;
    size_t bytes;
} SpacePiece;

struct rt_space {
    rt_device *device;
    cu_stream stream;
    uint64_t stream_id, capture; // unique numbers; capture 0: none
    SpacePiece *pieces, **next;  // the pieces from `next` on are unused by this launch
    SpacePiece *outgrown;        // replaced pieces of captures, which recorded launches still use
    cu_pointer faults, counter;
    bool counter_is_zero; // or will be, in stream order
    rt_space *next_captured;
    bool claimed;     // for captures; under the device's lock
    _Atomic int held; // 1: a graph holds it
};

/// Must not be called for a capturing stream: drivers from 580 on end the capture.
static uint64_t stream_number(cu_stream stream) {
    unsigned long long id;
    const rt_cuda *cu = rt_cuda_driver();
    if (cu->stream_id && cu->stream_id(stream, &id) == 0) return id;
    return (uintptr_t)stream;
}

/* ---- memory -------------------------------------------------------------------------------- */

enum { GRAIN = 512 };

/// Waits for the device, since its work may still use the memory.
static void release_device_memory(cu_pointer at) {
    rt_entered e = {.mode = -1};
    if (!at) return;
    rt_relax(&e);
    rt_cuda_driver()->release(at);
    rt_strict(&e);
}

/// Frees in stream order where possible, so that other streams need not wait.
static void release_piece(const rt_space *s, cu_pointer at) {
    const rt_cuda *cu = rt_cuda_driver();
    if (at && cu->release_async && cu->allocate_async && cu->release_async(at, s->stream) == 0)
        return;
    release_device_memory(at);
}

static cu_pointer allocate_space(const rt_space *s, size_t bytes) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_pointer at = 0;
    rt_entered e = {.mode = -1};
    bool async = !s->capture && cu->allocate_async && cu->release_async;
    rt_relax(&e);
    cu_result error = async ? cu->allocate_async(&at, bytes, s->stream) : cu->allocate(&at, bytes);
    if (error && async) error = cu->allocate(&at, bytes); // the pool may be smaller than the memory
    rt_strict(&e);
    if (!error) return at;
    size_t left = 0, all = 0;
    if (cu->memory_info(&left, &all)) left = all = 0;
    rt_cuda_fail("cuMemAlloc", error,
                 "a workspace of %zu bytes on device %d (%s), which has %zu of %zu MiB left", bytes,
                 s->device->number, s->device->name, left >> 20, all >> 20);
    return 0;
}

cu_pointer rt_workspace_take(rt_space *s, size_t bytes) {
    SpacePiece *p = *s->next;
    size_t room = (bytes + GRAIN - 1) / GRAIN * GRAIN;
    if (room < bytes) {
        tg_fail(TG_ERROR_MEMORY, "a workspace of %zu bytes is larger than memory", bytes);
        return 0;
    }
    if (!p || p->bytes < room) {
        SpacePiece *grown = malloc(sizeof *grown);
        cu_pointer at = grown ? allocate_space(s, room ? room : GRAIN) : 0;
        if (!at) {
            if (!grown) tg_fail(TG_ERROR_MEMORY, "out of memory");
            free(grown);
            return 0;
        }
        *grown = (SpacePiece){p ? p->next : NULL, at, room};
        *s->next = grown;
        if (p && s->capture) {
            p->next = s->outgrown;
            s->outgrown = p;
        } else if (p) {
            release_piece(s, p->at);
            free(p);
        }
        p = grown;
    }
    s->next = &p->next;
    return p->at;
}

cu_pointer rt_workspace_faults(rt_space *s) {
    if (s->capture) {
        tg_fail(TG_ERROR_UNSUPPORTED,
                "code that asserts or prints cannot be captured: the launch waits for it");
        return 0;
    }
    if (!s->faults) s->faults = allocate_space(s, RT_FAULT_BYTES);
    return s->faults;
}

/// Sets the counter to 0 in stream order. A captured stream would record this, and each run of the
/// graph would repeat it. There, another stream does it now.
static cu_result clear_counter(const rt_space *s) {
    const rt_cuda *cu = rt_cuda_driver();
    rt_entered e = {.mode = -1};
    cu_stream own;
    if (!s->capture) return cu->set_words(s->counter, 0, 1, s->stream);
    rt_relax(&e);
    cu_result error = cu->stream_create(&own, CU_NON_BLOCKING), ended = 0;
    if (!error) {
        error = cu->set_words(s->counter, 0, 1, own);
        ended = cu->stream_synchronize(own);
        cu->stream_destroy(own);
    }
    rt_strict(&e);
    return error ? error : ended;
}

bool rt_workspace_has_counter(const rt_space *s) {
    return s->counter_is_zero;
}

tg_status rt_workspace_counter(rt_space *s, cu_pointer *out) {
    if (!s->counter) s->counter = allocate_space(s, GRAIN);
    *out = s->counter;
    if (!s->counter) return TG_ERROR_MEMORY;
    cu_result error = s->counter_is_zero ? 0 : clear_counter(s);
    s->counter_is_zero = !error;
    if (!error) return TG_OK;
    return rt_cuda_fail("cuMemsetD32Async", error, "setting a counter to 0 on device %d (%s)",
                        s->device->number, s->device->name);
}

bool rt_workspace_is_captured(const rt_space *s) {
    return s->capture != 0;
}

void rt_workspace_doubt_counter(rt_space *s) {
    s->counter_is_zero = false;
}

/* ---- spaces -------------------------------------------------------------------------------- */

static rt_space *space_new(rt_device *d, cu_stream stream, uint64_t id, uint64_t capture) {
    rt_space *s = calloc(1, sizeof *s);
    if (!s) {
        tg_fail(TG_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    *s = (rt_space){.device = d, .stream = stream, .stream_id = id, .capture = capture};
    return s;
}

/// The stream may be destroyed already, so the memory is freed without it.
static void space_free(rt_space *s) {
    for (SpacePiece *p = s->pieces, *next; p; p = next) {
        next = p->next;
        release_device_memory(p->at);
        free(p);
    }
    release_device_memory(s->faults);
    release_device_memory(s->counter);
    free(s);
}

/* ---- of captures --------------------------------------------------------------------------- */

/// Called when the last graph is destroyed, by a driver thread that must not call the driver.
static void let_go(void *space) {
    atomic_store(&((rt_space *)space)->held, 0);
}

/// Makes the graph being recorded hold the space.
static tg_status hold_for_graph(rt_space *s, cu_graph graph) {
    const rt_cuda *cu = rt_cuda_driver();
    cu_object object;
    atomic_store(&s->held, 1);
    if (!cu->object_create || !cu->graph_retain) return TG_OK; // never freed
    cu_result error = cu->object_create(&object, s, let_go, 1, CU_NO_DESTRUCTOR_SYNC);
    if (error) return rt_cuda_fail("cuUserObjectCreate", error, "capturing a launch");
    error = cu->graph_retain(graph, object, 1, CU_MOVE);
    if (error) return rt_cuda_fail("cuGraphRetainUserObject", error, "capturing a launch");
    return TG_OK;
}

/// The caller holds the lock. Finds the space of this capture, or one that no graph holds any more.
static rt_space *find_captured(rt_device *d, uint64_t id, uint64_t capture) {
    rt_space *unused = NULL;
    for (rt_space *s = d->captured; s; s = s->next_captured) {
        if (s->claimed) continue;
        if (atomic_load(&s->held) == 0)
            unused = s;
        else if (s->stream_id == id && s->capture == capture)
            return s;
    }
    return unused;
}

static tg_status claim_captured(rt_device *d, cu_stream stream, uint64_t capture, cu_graph graph,
                                rt_space **out) {
    uint64_t id = (uintptr_t)stream; // the stream outlives its capture
    tg_status status = TG_OK;
    tg_lock_take(&d->lock);
    rt_space *s = find_captured(d, id, capture);
    if (!s && (s = space_new(d, stream, id, capture)) != NULL) {
        s->next_captured = d->captured;
        d->captured = s;
    }
    if (s && !atomic_load(&s->held)) {
        s->stream = stream;
        s->stream_id = id;
        s->capture = capture;
        status = hold_for_graph(s, graph);
    }
    if (s && !status) s->claimed = true;
    tg_lock_give(&d->lock);
    if (!s) return TG_ERROR_MEMORY;
    *out = s;
    return status;
}

/* ---- of streams ---------------------------------------------------------------------------- */

/// The place at which the search for a stream's space starts, usually a hit.
static unsigned first_place(uint64_t id) {
    return (unsigned)(id * 0x9e3779b97f4a7c15u >> 58);
}
_Static_assert(RT_SPACES == 64, "58 bits are shifted out");

/// Returns a space to a free place. A space of another stream that the search took goes back too,
/// unless its place was taken meanwhile.
static void put_away(rt_space *s) {
    unsigned place = first_place(s->stream_id);
    for (unsigned i = 0; i < RT_SPACES; i++) {
        rt_space *none = NULL;
        if (atomic_compare_exchange_strong(&s->device->idle[(place + i) % RT_SPACES], &none, s))
            return;
    }
    space_free(s);
}

static rt_space *claim_idle(rt_device *d, uint64_t id) {
    unsigned place = first_place(id);
    for (unsigned i = 0; i < RT_SPACES; i++) {
        _Atomic(rt_space *) *idle = &d->idle[(place + i) % RT_SPACES];
        if (!atomic_load_explicit(idle, memory_order_relaxed)) continue;
        rt_space *s = atomic_exchange(idle, NULL), *none = NULL;
        if (!s || s->stream_id == id) return s;
        if (!atomic_compare_exchange_strong(idle, &none, s)) put_away(s);
    }
    return NULL;
}

/// *capture is 0 if the stream is not capturing. Headers replaced the second version by the third;
/// drivers have both.
static cu_result capture_of(cu_stream stream, unsigned long long *capture, cu_graph *graph) {
    const rt_cuda *cu = rt_cuda_driver();
    int state = CU_CAPTURE_NONE;
    cu_result error = 0;
    if (cu->stream_capture)
        error = cu->stream_capture(stream, &state, capture, graph, NULL, NULL);
    else if (cu->stream_capture3)
        error = cu->stream_capture3(stream, &state, capture, graph, NULL, NULL, NULL);
    if (state == CU_CAPTURE_NONE) *capture = 0;
    return error;
}

/// If the driver cannot tell, the answer is true.
bool rt_is_captured(int device, void *stream) {
    const rt_device *d = device < 0 ? NULL : rt_device_at(device);
    unsigned long long capture = 1;
    cu_graph graph;
    rt_entered entered;
    if (!d) return false;
    if (rt_enter(d, &entered) == TG_OK && capture_of(stream, &capture, &graph)) capture = 1;
    rt_leave(entered);
    return capture != 0;
}

tg_status rt_workspace_claim(rt_device *d, cu_stream stream, rt_space **out) {
    unsigned long long capture = 0;
    cu_graph graph = NULL;
    cu_result error = capture_of(stream, &capture, &graph);
    if (error)
        return rt_cuda_fail("cuStreamGetCaptureInfo", error, "device %d (%s)", d->number, d->name);
    rt_space *s = NULL;
    tg_status status = TG_OK;
    if (capture) {
        status = claim_captured(d, stream, capture, graph, &s);
    } else {
        uint64_t id = stream_number(stream);
        s = claim_idle(d, id);
        if (!s) s = space_new(d, stream, id, 0);
        if (!s) status = TG_ERROR_MEMORY;
    }
    if (status) return status;
    s->next = &s->pieces;
    *out = s;
    return TG_OK;
}

void rt_workspace_give_back(rt_space *s) {
    if (!s->capture) {
        put_away(s);
        return;
    }
    tg_lock_take(&s->device->lock);
    s->claimed = false;
    tg_lock_give(&s->device->lock);
}
