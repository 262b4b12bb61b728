// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies of integer and bool tensors at a launch, for a later search (trial.h). The values may be
// indices, so a search cannot invent them, and the launch does not wait. On a device the stream
// copies them ahead of the launch, and an event marks the end.
//
// Of a large tensor it copies pieces from all over. Each piece consists of whole rows, so columns
// stay aligned when pieces are joined.
#include "runtime/comm/comm.h"
#include "runtime/tune/trial.h"

#include <string.h>

enum { PIECES = 16, PIECE = RT_SAMPLE / PIECES, ELEMENT = 8, ALIGN = 64 };

struct rt_samples {
    tg_options hooks;
    rt_device *device; // NULL: the CPU
    cu_event event;    // after the copies; NULL: no copies
    bool pinned;
    int n;
    size_t at[TG_MAX_PARAMS], bytes[TG_MAX_PARAMS];
    size_t room;
    char *memory;
};

/// The largest unit of pieces. In dense tensors it is a multiple of all smaller strides.
size_t rt_held_row(int rank, const int64_t *shape, const int64_t *strides, int bits) {
    size_t row = 0;
    for (int i = 0; i < rank; i++) {
        size_t stride = (size_t)(strides[i] < 0 ? -strides[i] : strides[i]);
        if (stride > SIZE_MAX / 64 || stride * (size_t)bits % 8) continue;
        size_t step = stride * (size_t)bits / 8;
        if (shape[i] > 1 && step <= PIECE && step > row) row = step;
    }
    return row;
}

static size_t sample_unit(const rt_held *h) {
    return h->row && h->row <= PIECE ? h->row : ELEMENT;
}

/// The bytes of a piece: the whole tensor, or whole rows.
static size_t sample_piece_bytes(const rt_held *h) {
    return h->bytes <= RT_SAMPLE ? h->bytes : PIECE / sample_unit(h) * sample_unit(h);
}

static int count_sample_pieces(const rt_held *h) {
    return h->bytes <= RT_SAMPLE ? h->bytes > 0 : PIECES;
}

/// The start of piece i. Pieces are spaced evenly.
static size_t begin_of(const rt_held *h, int i) {
    size_t room = (h->bytes - sample_piece_bytes(h)) / (PIECES - 1);
    return i ? room * (size_t)i / sample_unit(h) * sample_unit(h) : 0;
}

static void lay_out_samples(rt_samples *s, const rt_held *held, int n) {
    s->n = n;
    for (int i = 0; i < n; i++) {
        s->at[i] = s->room;
        s->bytes[i] = sample_piece_bytes(&held[i]) * (size_t)count_sample_pieces(&held[i]);
        s->room += rt_round_up(s->bytes[i], ALIGN);
    }
}

static bool copy_sample(const rt_samples *s, cu_stream stream, const rt_held *h, char *to) {
    size_t n = sample_piece_bytes(h);
    for (int i = 0; i < count_sample_pieces(h); i++, to += n) {
        uintptr_t from = h->from + begin_of(h, i);
        if (!s->device)
            memcpy(to, (const void *)from, n);
        else if (rt_cuda_driver()->to_host(to, from, n, stream))
            return false;
    }
    return true;
}

/// Pins the host memory. A copy to unpinned memory would wait for all work in the stream.
static bool pin_samples(rt_samples *s) {
    const rt_cuda *cu = rt_cuda_driver();
    s->pinned = cu->pin && cu->unpin && !cu->pin(s->memory, s->room, 0);
    return s->pinned && !cu->event_create(&s->event, CU_NO_TIMING);
}

static bool copy_all_samples(rt_samples *s, cu_stream stream, const rt_held *held) {
    bool ok = true;
    for (int i = 0; i < s->n && ok; i++)
        ok = copy_sample(s, stream, &held[i], s->memory + s->at[i]);
    return ok;
}

/// A stream of this thread may be capturing. The copy must not become part of it.
static bool copy_from_device(rt_samples *s, cu_stream stream, const rt_held *held) {
    rt_entered e;
    if (rt_enter(s->device, &e)) return rt_leave(e), false;
    rt_relax(&e);
    bool ok = pin_samples(s) && copy_all_samples(s, stream, held);
    if (s->event && rt_cuda_driver()->event_record(s->event, stream)) ok = false;
    rt_strict(&e);
    rt_leave(e);
    return ok;
}

rt_samples *rt_samples_take(int device, cu_stream stream, const rt_held *held, int n) {
    tg_options hooks = rt_default_hooks(); // the launch's context may be destroyed
    rt_samples *s = rt_allocate(&hooks, sizeof *s);
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    s->hooks = hooks;
    lay_out_samples(s, held, n);
    if (!s->room) return s;
    s->memory = rt_allocate(&hooks, s->room);
    if (s->memory && device >= 0) s->device = rt_device_at(device);
    bool ok = s->memory && (device < 0 || s->device);
    if (ok) ok = s->device ? copy_from_device(s, stream, held) : copy_all_samples(s, stream, held);
    if (ok) return s;
    rt_samples_close(s);
    return NULL;
}

bool rt_samples_wait(rt_samples *s) {
    rt_entered e;
    if (!s->event) return true;
    if (rt_enter(s->device, &e)) return rt_leave(e), false;
    cu_result error = rt_cuda_driver()->event_synchronize(s->event);
    rt_leave(e);
    return !error;
}

const void *rt_samples_of(const rt_samples *s, int i, size_t *bytes) {
    *bytes = s->bytes[i];
    return *bytes ? s->memory + s->at[i] : NULL;
}

void rt_samples_close(rt_samples *s) {
    rt_entered e;
    if (!s) return;
    rt_samples_wait(s);
    if (s->device && rt_enter(s->device, &e) == TG_OK) {
        rt_relax(&e);
        if (s->event) rt_cuda_driver()->event_destroy(s->event);
        if (s->pinned) rt_cuda_driver()->unpin(s->memory);
        rt_strict(&e);
        rt_leave(e);
    }
    tg_options hooks = s->hooks;
    rt_release(&hooks, s->memory, s->room);
    rt_release(&hooks, s, sizeof *s);
}
