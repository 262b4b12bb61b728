// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trials run the variants of a kernel on arguments made for them, check and time them.
//
// A trial never writes the caller's memory, and reads only its integers. Tensors have the shapes,
// strides, types and alignment of the launch. Floats are random. Integers and bools are copies,
// since they may be indices. Tensors that are one view in the launch share a buffer. Each buffer
// lies between guard zones.
//
// The first checked variant is the reference. A caller that knows some right elements passes them
// (rt_trial_expect). The reference must agree with them too; otherwise the next variant takes its
// place. Each variant runs on two fills of the written tensors that differ in every element, so an
// element that it fails to write is noticed. Its results are compared with the reference's within a
// bound for other orders of rounding, the guard zones with their contents, and two runs with each
// other, bit by bit.
//
// Of large tensors a check compares pieces, including both ends: copying and comparing everything
// would dominate the search. The winner is confirmed on all elements.
//
// For a kernel of ranks each rank has a trial in a context with the group, and all do the same.
// Symmetric tensors are those of the options' arguments. A failure on one rank is a failure on all.
// A time is the longest over all ranks, from their meeting on.
//
// Small GPU kernels of a few clock ticks are timed by several launches: the first with cold caches,
// the others with the caches of the launch before.
#ifndef RUNTIME_TUNE_TRIAL_H
#define RUNTIME_TUNE_TRIAL_H

#include "runtime/runtime.h"

typedef struct rt_trial rt_trial;

typedef struct rt_trial_options {
    const tg_kernel_info *info;
    /// The arguments of a launch. Addresses give the alignment and shared views; the memory is not
    /// read.
    const tg_arg *args;
    int n;
    /// For each integer or bool tensor, its bytes from the lowest to the highest element, in host
    /// memory; NULL (all or one): zeros. content_bytes: the available bytes of each, repeated to
    /// the end; NULL: all.
    const void *const *contents;
    const size_t *content_bytes;
    uint64_t seed;
    /// The bound for two right results. way_bits and sum_bits are the narrowest significands, with
    /// the hidden bit (f16: 11), of intermediate values and of sums; then the largest number of
    /// terms. 0: the narrowest parameter, f32, the largest extent.
    int way_bits, sum_bits;
    int64_t terms;
    bool exact;   // no float arithmetic: results must agree in every bit
    size_t flush; // bytes to write before each timed launch on the CPU; 0: warm caches
    size_t looks; // bytes of a tensor that a check compares; 0: 8 MiB
    /// On a GPU, the time limit of the first launch in seconds. Later ones may take RT_PATIENCE
    /// plus ten times the reference. 0: no limit.
    double patience;
} rt_trial_options;

/// Fails through tg_last_error().
tg_status rt_trial_open(const rt_trial_options *options, rt_trial **out);
void rt_trial_close(rt_trial *trial);

static const double RT_PATIENCE = 0.5;
/// The share of time for trials of background searches: TG_TUNE_SHARE per cent, or one per cent.
/// Returns false, with that value in *out, if the variable is invalid (background.c).
bool rt_busy_share(double *out);
/// The seconds of rest after so much work.
static inline double rt_rest(double busy, double share) {
    return busy * (1 / share - 1);
}

typedef enum rt_verdict {
    RT_RIGHT,
    RT_WRONG,
    RT_FAILED,
    // Only from sandboxes (sandbox.h).
    RT_CRASHED, // its process ended
    RT_HUNG,    // it took too long to be useful
    RT_CUT,     // unknown: the time ran out
} rt_verdict;

/// Elements of results that are known independently of compiled code.
typedef struct rt_sample {
    int64_t param, at; // the lowest parameter of the view; bytes from the lowest element
    uint64_t bits;     // as in memory, on fill 0
} rt_sample;

typedef struct rt_expected {
    int n;
    const rt_sample *samples; // sorted by param, then by `at`
    /// For each parameter, how far rounding moves a right element beyond the bound below, as a part
    /// of the element's own size or of a typical one.
    const double *noise;
    bool mild; // for which kind of random numbers
} rt_expected;
/// From now on checks also compare these samples, within the same bound. The caller keeps them
/// until the trial is closed.
void rt_trial_expect(rt_trial *trial, const rt_expected *expected);
/// The last checked variant differs from the expected samples, not from the reference.
bool rt_trial_is_refuted(const rt_trial *trial);
/// The random numbers are mild, because the first kind led to infinities or a failed assert.
bool rt_trial_is_mild(const rt_trial *trial);

/// Runs a variant and judges it; tg_last_error() has the reason. seconds: the shortest run by the
/// host's clock. FAILED: its launch failed, or the variant is not for these arguments.
rt_verdict rt_trial_check(rt_trial *trial, const tg_variant *variant, double *seconds);

/// Runs the reference and a right variant, and compares all elements. Right at once if checks
/// compare everything.
rt_verdict rt_trial_confirm(rt_trial *trial, const tg_variant *variant);

/// The device is unusable for this process: a launch made an invalid access or does not end.
bool rt_trial_is_lost(rt_trial *trial);
/// A launch does not end. No further trial is possible, and the memory that it may write is never
/// freed.
bool rt_trial_is_stuck(const rt_trial *trial);

/// The seconds of each of n launches with flushed caches and restored contents; on a GPU by its own
/// clock.
tg_status rt_trial_time(rt_trial *trial, const tg_variant *variant, int n, double *seconds);

/// The time of a variant relative to the reference, in a sequence of launches with warm caches. For
/// some kernels it tells more than rt_trial_time. 1 on the CPU, where all times are warm.
tg_status rt_trial_warm(rt_trial *trial, const tg_variant *variant, double *times);

/* ---- integer_sample.c: integers of a launch ------------------------------------------------- */

/// A tensor in device or host memory: its lowest element, the bytes to the end of the highest one,
/// and the bytes of a row. Each piece is a multiple of a row.
typedef struct rt_held {
    uintptr_t from;
    size_t bytes, row; // bytes 0: not wanted
} rt_held;

enum { RT_SAMPLE = 1 << 20 }; // the most bytes copied of a tensor
typedef struct rt_samples rt_samples;
/// Copies the contents of n tensors in stream order, in pieces if they are large. It does not wait.
/// device: -1 is the CPU. NULL: failed.
rt_samples *rt_samples_take(int device, cu_stream stream, const rt_held *held, int n);
/// For a view with elements of `bits`; strides in elements.
size_t rt_held_row(int rank, const int64_t *shape, const int64_t *strides, int bits);
/// Waits for the copies. Returns false if they failed.
bool rt_samples_wait(rt_samples *s);
/// The copy of tensor i; NULL: none.
const void *rt_samples_of(const rt_samples *s, int i, size_t *bytes);
void rt_samples_close(rt_samples *s); // s may be NULL

/* ---- trial_data.c: values -------------------------------------------------------------------- */

bool rt_is_float(int code);

/// The contents of a view before a launch: a few numbers, repeated. Floats are random, normal or
/// (mild) in [0.25, 1). Others are copies; the second fill flips their lowest bit. An index is then
/// off by one, for which the guard zones have room.
typedef struct rt_pattern {
    int param; // the lowest parameter with the view
    int code, bits;
    size_t n;           // elements of the view; two 4-bit elements count as one
    const void *given;  // integer contents; NULL: zeros
    size_t given_bytes; // bytes of `given`, repeated; 0: all
    uint64_t seed;      // of the trial
    bool mild;
} rt_pattern;
/// The bytes after which the pattern repeats; 0: an empty view.
size_t rt_pattern_period(const rt_pattern *p);
void rt_pattern_make(const rt_pattern *p, int fill, void *out);

/// The allowed distance from the reference: relative * |reference| + absolute.
typedef struct rt_bound {
    double relative, absolute;
} rt_bound;

typedef struct rt_difference {
    size_t count, first; // elements beyond the bound; the first of them
    double got, want, most;
} rt_difference;

/// The root mean square of n floats.
double rt_size(const void *x, size_t n, int code, int bits);
rt_difference rt_compare(const void *x, const void *reference, size_t n, int code, int bits,
                         rt_bound bound);
/// Compares elements of `size` bytes for equality. d.got has the first byte of a different one.
rt_difference rt_compare_bytes(const void *x, const void *reference, size_t n, size_t size);

/* ---- trial_memory.c: buffers ----------------------------------------------------------------- */

enum { RT_FILLS = 2 };

/// The memory of one tensor, or of several that are one view, between guard zones.
typedef struct rt_buffer {
    int param; // the first parameter; of written ones the first written
    int least; // the first of all
    uint8_t code, bits;
    bool written;
    size_t n, bytes;          // elements and bytes of the span; two 4-bit elements count as one
    char *base, *span;        // the allocation; the lowest element
    size_t room;              // bytes of base
    bool adopted;             // the memory belongs to the caller
    char *stencils[RT_FILLS]; // host copies of the repeated pattern, for buffers that are read
    size_t period;            // bytes of a stencil
    size_t piece, pieces;     // bytes and number of compared pieces; pieces 1: everything
} rt_buffer;

/// The location of the buffers.
typedef struct rt_place {
    tg_options hooks;
    rt_device *device; // NULL: the host
    cu_stream stream;
    cu_event events[2];
    cu_pointer flush; // device memory
    char *scratch;    // host memory
    bool pinned;      // scratch is pinned, which makes copies several times faster
    size_t scratch_bytes, flush_bytes;
    size_t looks;    // compared bytes of a buffer, about
    double began;    // host time
    double patience; // rt_wait's limit
    bool stuck;      // a launch there did not end
} rt_place;

/// device: -1 is the host. Call rt_place_close also after a failure.
tg_status rt_place_open(rt_place *p, const tg_options *hooks, int device, size_t flush_bytes,
                        size_t looks);
void rt_place_close(rt_place *p);
/// Allocates b->bytes. The lowest address has the same offset from multiples of 256 as `like`.
tg_status rt_buffer_open(rt_place *p, rt_buffer *b, uintptr_t like);
/// Uses `room` bytes at base, owned by the caller, with the lowest element at span.
tg_status rt_buffer_adopt(rt_place *p, rt_buffer *b, char *base, size_t room, char *span);
void rt_buffer_close(rt_place *p, rt_buffer *b);
/// Fills everything, including the guard zones, with the guard value.
tg_status rt_buffer_clear(rt_place *p, const rt_buffer *b);
tg_status rt_buffer_fill(rt_place *p, const rt_buffer *b, int fill);
/// The bytes of all pieces, and the start of a piece in the span. The pieces include the first and
/// the last byte; the others are at random places.
size_t rt_buffer_looked(const rt_buffer *b);
size_t rt_buffer_piece(const rt_buffer *b, size_t i);
/// The same buffer with all elements compared.
rt_buffer rt_buffer_whole(const rt_buffer *b);
/// The current pieces in order: in place, or a copy that is valid until the next call. The
/// functions below take elements of this form.
tg_status rt_buffer_fetch(rt_place *p, const rt_buffer *b, const char **out);
/// The elements of the samples of one view, `size` bytes each, in order.
tg_status rt_buffer_gather(rt_place *p, const rt_buffer *b, const rt_sample *samples, int n,
                           size_t size, char *out);
/// 0: the guard zones are intact; else the changed byte, before (negative) or after the span.
tg_status rt_buffer_guards(rt_place *p, const rt_buffer *b, int64_t *out);
/// Whether x still holds the fill.
bool rt_buffer_is_fill(const rt_buffer *b, const char *x, int fill);
/// Whether some element of x and y differs and was written.
bool rt_buffer_differs(const rt_buffer *b, const char *x, const char *y, int fill_x, int fill_y);
/// The root mean square of the finite floats of x that differ from fill 0, and the number of
/// elements that are not finite.
double rt_scale(const rt_buffer *b, const char *x, size_t *unfinite);
/// Flushes the caches before a timed launch.
tg_status rt_place_flush(rt_place *p);
tg_status rt_place_wait(rt_place *p);
tg_status rt_place_begin(rt_place *p);                // starts timing
tg_status rt_place_end(rt_place *p, double *seconds); // waits and stops timing

#endif
