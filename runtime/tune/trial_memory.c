// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The buffers of trials on the host or a GPU: fills, guard zones, caches, clocks.
//
// A fill is a stencil repeated to the end of the buffer. On a GPU the stencil is copied once a
// fill, and then the filled part is doubled.
#include "runtime/tune/trial.h"

#include <string.h>

enum { GUARD = 64 << 10, GUARD_BYTE = 0xc3, GRAIN = 256, NON_BLOCKING = 1 };
enum { NEAR = 4096 }; // the distance in bytes up to which one copy fetches two samples
enum { LOOKS = 8 << 20, PIECES = 128, LEAST_PIECE = 16 }; // for a buffer of at least two LOOKS

static const double EVENT_TICK = 5e-7; // shorter intervals may measure as 0

static tg_status fail_place_memory(void) {
    return tg_fail(TG_ERROR_MEMORY, "out of memory");
}

static tg_status device_failed(const rt_place *p, const char *call, cu_result error) {
    return rt_cuda_fail(call, error, "in a trial on device %d (%s)", p->device->number,
                        p->device->name);
}

/// Makes a call in the device's context and returns a status.
#define CALL(p, name, call)                                                                        \
    do {                                                                                           \
        rt_entered entered;                                                                        \
        tg_status status_ = rt_enter((p)->device, &entered);                                       \
        if (status_) return status_;                                                               \
        cu_result error_ = rt_cuda_driver()->call;                                                 \
        rt_leave(entered);                                                                         \
        if (error_) return device_failed(p, name, error_);                                         \
    } while (0)

/* ---- places ---------------------------------------------------------------------------------- */

tg_status rt_place_open(rt_place *p, const tg_options *hooks, int device, size_t flush_bytes,
                        size_t looks) {
    *p = (rt_place){.hooks = *hooks, .flush_bytes = flush_bytes, .looks = looks ? looks : LOOKS};
    if (device < 0) {
        if (!flush_bytes) return TG_OK;
        p->scratch = rt_allocate(hooks, flush_bytes);
        p->scratch_bytes = flush_bytes;
        return p->scratch ? TG_OK : fail_place_memory();
    }
    tg_status status = rt_device_get(device, &p->device);
    if (status) return status;
    // More than twice the cache, and long enough for the host to run ahead of the device.
    size_t l2 = (size_t)p->device->l2_bytes;
    p->flush_bytes = l2 > (32 << 20) ? 4 * l2 : 128 << 20;
    CALL(p, "cuStreamCreate", stream_create(&p->stream, NON_BLOCKING));
    for (int i = 0; i < 2; i++) CALL(p, "cuEventCreate", event_create(&p->events[i], 0));
    CALL(p, "cuMemAlloc", allocate(&p->flush, p->flush_bytes));
    return TG_OK;
}

static void release_scratch(rt_place *p) {
    rt_entered entered;
    if (p->pinned && rt_enter(p->device, &entered) == TG_OK) {
        rt_cuda_driver()->unpin(p->scratch);
        rt_leave(entered);
    }
    rt_release(&p->hooks, p->scratch, p->scratch_bytes);
    p->scratch = NULL;
    p->pinned = false;
}

/// Without pinned memory copies are slower.
static void pin_scratch(rt_place *p) {
    const rt_cuda *cu = p->device ? rt_cuda_driver() : NULL;
    rt_entered entered;
    if (!p->scratch || !cu || !cu->pin || !cu->unpin || rt_enter(p->device, &entered)) return;
    p->pinned = cu->pin(p->scratch, p->scratch_bytes, 0) == 0;
    rt_leave(entered);
}

void rt_place_close(rt_place *p) {
    const rt_cuda *cu = p->device ? rt_cuda_driver() : NULL;
    rt_entered entered;
    release_scratch(p);
    if (!cu || rt_enter(p->device, &entered)) return;
    for (int i = 0; i < 2; i++)
        if (p->events[i]) cu->event_destroy(p->events[i]);
    if (p->stream) cu->stream_destroy(p->stream);
    if (p->flush) cu->release(p->flush);
    rt_leave(entered);
}

static char *scratch_of(rt_place *p, size_t bytes) {
    if (p->scratch_bytes >= bytes) return p->scratch;
    release_scratch(p);
    p->scratch = rt_allocate(&p->hooks, bytes);
    p->scratch_bytes = p->scratch ? bytes : 0;
    pin_scratch(p);
    return p->scratch;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static cu_pointer on_device(const char *at) {
    return (cu_pointer)(uintptr_t)at;
}

static void choose_pieces(rt_buffer *b, size_t looks) {
    b->piece = b->bytes;
    b->pieces = 1;
    if (b->bytes / 2 < looks || looks / PIECES < LEAST_PIECE) return;
    b->pieces = PIECES;
    b->piece = looks / PIECES / LEAST_PIECE * LEAST_PIECE;
}

size_t rt_buffer_looked(const rt_buffer *b) {
    return b->piece * b->pieces;
}

/// Each piece lies at a random place of its part of the span, so no pattern of tiles is missed
/// every time.
size_t rt_buffer_piece(const rt_buffer *b, size_t i) {
    if (i == 0) return 0;
    if (i == b->pieces - 1) return b->bytes - b->piece;
    size_t part = b->bytes / b->pieces, room = part - b->piece + 1;
    uint64_t x = (i + b->bytes) * 0x9e3779b97f4a7c15u;
    return (i * part + (size_t)((x ^ x >> 31) % room)) / LEAST_PIECE * LEAST_PIECE;
}

rt_buffer rt_buffer_whole(const rt_buffer *b) {
    rt_buffer whole = *b;
    whole.piece = b->bytes;
    whole.pieces = 1;
    return whole;
}

tg_status rt_buffer_open(rt_place *p, rt_buffer *b, uintptr_t like) {
    size_t lead = like % GRAIN;
    if (b->bytes > SIZE_MAX / 2 - 3 * GUARD) return fail_place_memory();
    choose_pieces(b, p->looks);
    b->room = (GUARD + lead + b->bytes + GUARD + 3 * GRAIN) / GRAIN * GRAIN;
    if (p->device) {
        cu_pointer at = 0;
        CALL(p, "cuMemAlloc", allocate(&at, b->room));
        b->base = (char *)(uintptr_t)at;
        b->span = b->base + GUARD + lead;
        return rt_buffer_clear(p, b);
    }
    b->base = rt_allocate(&p->hooks, b->room);
    if (!b->base) return fail_place_memory();
    size_t off = (uintptr_t)b->base % GRAIN;
    b->span = b->base + GUARD + (lead + GRAIN - off) % GRAIN;
    return rt_buffer_clear(p, b);
}

tg_status rt_buffer_adopt(rt_place *p, rt_buffer *b, char *base, size_t room, char *span) {
    choose_pieces(b, p->looks);
    b->adopted = true;
    b->base = base;
    b->room = room;
    b->span = span;
    return rt_buffer_clear(p, b);
}

tg_status rt_buffer_clear(rt_place *p, const rt_buffer *b) {
    uint32_t word = GUARD_BYTE * 0x01010101u;
    if (p->device)
        CALL(p, "cuMemsetD32Async", set_words(on_device(b->base), word, b->room / 4, p->stream));
    else
        memset(b->base, GUARD_BYTE, b->room);
    return TG_OK;
}

void rt_buffer_close(rt_place *p, rt_buffer *b) {
    rt_entered entered;
    for (int i = 0; i < RT_FILLS; i++) rt_release(&p->hooks, b->stencils[i], b->period);
    if (b->adopted) {
        b->base = NULL;
    } else if (!p->device) {
        rt_release(&p->hooks, b->base, b->room);
    } else if (b->base && rt_enter(p->device, &entered) == TG_OK) {
        rt_cuda_driver()->release(on_device(b->base));
        rt_leave(entered);
    }
    b->base = NULL;
}

static size_t least_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/// Copies the filled part after itself, which doubles it each time.
tg_status rt_buffer_fill(rt_place *p, const rt_buffer *b, int fill) {
    const char *stencil = b->stencils[fill < RT_FILLS && b->stencils[fill] ? fill : 0];
    size_t done = least_size(b->period, b->bytes);
    if (!b->bytes) return TG_OK;
    if (p->device)
        CALL(p, "cuMemcpyHtoDAsync", to_device(on_device(b->span), stencil, done, p->stream));
    else
        memcpy(b->span, stencil, done);
    for (size_t m; done < b->bytes; done += m) {
        m = least_size(done, b->bytes - done);
        if (p->device)
            CALL(p, "cuMemcpyDtoDAsync",
                 on_device(on_device(b->span) + done, on_device(b->span), m, p->stream));
        else
            memcpy(b->span + done, b->span, m);
    }
    return TG_OK;
}

/// Copies to `to`, valid after rt_place_wait.
static tg_status copy_to_host(rt_place *p, const char *from, size_t bytes, char *to) {
    if (p->device)
        CALL(p, "cuMemcpyDtoHAsync", to_host(to, on_device(from), bytes, p->stream));
    else
        memcpy(to, from, bytes);
    return TG_OK;
}

static tg_status fetch_bytes(rt_place *p, const char *from, size_t bytes, const char **out) {
    *out = from;
    if (!p->device || !bytes) return TG_OK;
    char *to = scratch_of(p, bytes);
    if (!to) return fail_place_memory();
    *out = to;
    tg_status status = copy_to_host(p, from, bytes, to);
    return status ? status : rt_place_wait(p);
}

tg_status rt_buffer_fetch(rt_place *p, const rt_buffer *b, const char **out) {
    if (b->pieces == 1) return fetch_bytes(p, b->span, b->bytes, out);
    char *to = scratch_of(p, rt_buffer_looked(b));
    if (!to) return fail_place_memory();
    *out = to;
    for (size_t i = 0; i < b->pieces; i++, to += b->piece) {
        tg_status status = copy_to_host(p, b->span + rt_buffer_piece(b, i), b->piece, to);
        if (status) return status;
    }
    return rt_place_wait(p);
}

/// One copy fetches elements that are near each other.
static int count_near_samples(const rt_sample *samples, int n) {
    int i = 1;
    while (i < n && samples[i].at - samples[i - 1].at <= NEAR) i++;
    return i;
}

tg_status rt_buffer_gather(rt_place *p, const rt_buffer *b, const rt_sample *samples, int n,
                           size_t size, char *out) {
    size_t room = 0, done = 0;
    for (int i = 0, m; i < n; i += m) {
        m = count_near_samples(samples + i, n - i);
        room += (size_t)(samples[i + m - 1].at - samples[i].at) + size;
    }
    char *to = scratch_of(p, room);
    if (!to) return fail_place_memory();
    for (int i = 0, m; i < n; i += m) {
        m = count_near_samples(samples + i, n - i);
        size_t bytes = (size_t)(samples[i + m - 1].at - samples[i].at) + size;
        tg_status status = copy_to_host(p, b->span + samples[i].at, bytes, to + done);
        if (status) return status;
        done += bytes;
    }
    tg_status status = rt_place_wait(p);
    for (int i = 0, m; i < n && !status; i += m) {
        m = count_near_samples(samples + i, n - i);
        for (int k = i; k < i + m; k++, out += size)
            memcpy(out, to + (samples[k].at - samples[i].at), size);
        to += (size_t)(samples[i + m - 1].at - samples[i].at) + size;
    }
    return status;
}

/// The first of n bytes that differs from the guard value; n: none.
static size_t find_foreign(const char *x, size_t n) {
    size_t i = 0;
    while (i < n && (unsigned char)x[i] == GUARD_BYTE) i++;
    return i;
}

tg_status rt_buffer_guards(rt_place *p, const rt_buffer *b, int64_t *out) {
    const char *x;
    const char *behind = b->span + b->bytes;
    size_t before = (size_t)(b->span - b->base), after = b->room - before - b->bytes;
    *out = 0;
    tg_status status = fetch_bytes(p, b->base, before, &x);
    size_t at = status ? before : find_foreign(x, before);
    if (at < before) *out = (int64_t)at - (int64_t)before;
    if (status || *out) return status;
    status = fetch_bytes(p, behind, after, &x);
    at = status ? after : find_foreign(x, after);
    if (at < after) *out = (int64_t)at + 1;
    return status;
}

/// Whether the `m` bytes x of a piece hold fill `stencil`; the first is byte `at` of the span.
static bool is_stencil(const rt_buffer *b, const char *x, size_t at, size_t m,
                       const char *stencil) {
    for (size_t done = 0, n; done < m; done += n) {
        size_t in = (at + done) % b->period;
        n = least_size(b->period - in, m - done);
        if (memcmp(x + done, stencil + in, n) != 0) return false;
    }
    return true;
}

bool rt_buffer_is_fill(const rt_buffer *b, const char *x, int fill) {
    const char *stencil = b->stencils[fill] ? b->stencils[fill] : b->stencils[0];
    for (size_t i = 0; i < b->pieces; i++)
        if (!is_stencil(b, x + i * b->piece, rt_buffer_piece(b, i), b->piece, stencil))
            return false;
    return true;
}

static bool piece_differs(const rt_buffer *b, size_t begins, const char *x, const char *y,
                          int fill_x, int fill_y) {
    size_t size = b->bits < 8 ? 1 : b->bits / 8u;
    if (memcmp(x, y, b->piece) == 0) return false;
    for (size_t at = 0, in = begins % b->period; at < b->piece; at += size, in += size) {
        if (in >= b->period) in = 0;
        if (memcmp(x + at, y + at, size) == 0) continue;
        if (memcmp(x + at, b->stencils[fill_x] + in, size) != 0 ||
            memcmp(y + at, b->stencils[fill_y] + in, size) != 0)
            return true;
    }
    return false;
}

bool rt_buffer_differs(const rt_buffer *b, const char *x, const char *y, int fill_x, int fill_y) {
    for (size_t i = 0; i < b->pieces; i++, x += b->piece, y += b->piece)
        if (piece_differs(b, rt_buffer_piece(b, i), x, y, fill_x, fill_y)) return true;
    return false;
}

/* ---- caches and clocks ----------------------------------------------------------------------- */

tg_status rt_place_flush(rt_place *p) {
    static _Atomic unsigned char round;
    if (p->device)
        CALL(p, "cuMemsetD32Async", set_words(p->flush, 0, p->flush_bytes / 4, p->stream));
    else if (p->flush_bytes)
        memset(p->scratch, ++round, p->flush_bytes);
    return TG_OK;
}

tg_status rt_place_wait(rt_place *p) {
    if (p->device) CALL(p, "cuStreamSynchronize", stream_synchronize(p->stream));
    return TG_OK;
}

tg_status rt_place_begin(rt_place *p) {
    if (p->device)
        CALL(p, "cuEventRecord", event_record(p->events[0], p->stream));
    else
        p->began = rt_seconds();
    return TG_OK;
}

/// The stream holds only the timed work.
static tg_status wait_patiently(rt_place *p) {
    rt_entered entered;
    tg_status status = rt_enter(p->device, &entered);
    if (status) return status;
    cu_result error = rt_wait(p->stream, p->patience);
    rt_leave(entered);
    if (!error) return TG_OK;
    p->stuck = error == CU_NOT_READY;
    return p->stuck ? rt_does_not_end(p->patience) : device_failed(p, "cuStreamSynchronize", error);
}

tg_status rt_place_end(rt_place *p, double *seconds) {
    float milliseconds = 0;
    if (!p->device) {
        *seconds = rt_seconds() - p->began;
        return TG_OK;
    }
    CALL(p, "cuEventRecord", event_record(p->events[1], p->stream));
    tg_status status = wait_patiently(p);
    if (status) return status;
    CALL(p, "cuEventElapsedTime", event_elapsed(&milliseconds, p->events[0], p->events[1]));
    *seconds = milliseconds > 0 ? (double)milliseconds * 1e-3 : EVENT_TICK / 2;
    return TG_OK;
}
