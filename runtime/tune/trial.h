// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trials: variants of one kernel run on arguments that are made for it, checked and timed.
//
// Nothing of the caller's is written, and only integers of it are read. Tensors have the shapes,
// strides, types and the alignment of a launch's; floats are random, integers and bools copies,
// since they may be indices. Tensors that are one view in the launch are one buffer here. Each
// buffer lies between guard zones.
//
// The first variant that is checked is the reference. Who knows some elements of the right result
// by other means says so (rt_trial_expect): the reference, too, has to agree with those, and where
// it does not, the next variant takes its place. Each variant runs on two fills of what it writes,
// in which no element is equal, so that what it leaves out is found whatever was there before. Its
// results are compared with the reference's within a bound for other orders of rounding, guard
// zones with what they held, and two runs with each other, bit by bit.
//
// Of large tensors a check looks at pieces, ends included: what all of them take to come back from
// a device and to be compared would be most of a search. What wins is confirmed: all of it is
// looked at.
//
// Of a kernel of ranks each rank has a trial, in a context with the group, and all of them do the
// same: its symmetric tensors lie where the options' arguments do. What is wrong on one rank is so
// on all, and each time is the longest of all ranks', from where they have met.
//
// GPU kernels of few bytes that take a few ticks of the device's clock are timed by several
// launches, the first one on cold caches and the others on what the one before left there.
#ifndef RUNTIME_TUNE_TRIAL_H
#define RUNTIME_TUNE_TRIAL_H

#include "runtime/runtime.h"

typedef struct rt_trial rt_trial;

typedef struct rt_trial_options {
    const tg_kernel_info *info;
    /// Those of a launch. Addresses say how they are aligned and which are one view; nothing is
    /// read there.
    const tg_arg *args;
    int n;
    /// Of each tensor of integers or bools the bytes from its lowest element to its highest, in
    /// the host's memory; NULL, all or one: zeros. content_bytes: of each how many there are, which
    /// are repeated to its end; NULL: all.
    const void *const *contents;
    const size_t *content_bytes;
    uint64_t seed;
    /// What bounds the difference of two right results. Of significands, the hidden bit included
    /// (f16: 11): the narrowest that values on the way are rounded to, and that of sums; how many
    /// values a sum has at most. 0: the narrowest of the parameters, f32, the largest extent.
    int way_bits, sum_bits;
    int64_t terms;
    bool exact;   // no arithmetic on floats: results must have the same bits
    size_t flush; // bytes to write before each timed launch on the CPU; 0: caches stay warm
    size_t looks; // bytes of a tensor that a check looks at; 0: 8 MiB
    /// Of a GPU, seconds: what the first launch may take. Later ones may take RT_PATIENCE and ten
    /// times as long as the reference. 0: as long as it takes.
    double patience;
} rt_trial_options;

/// Fails through tg_last_error().
tg_status rt_trial_open(const rt_trial_options *options, rt_trial **out);
void rt_trial_close(rt_trial *trial);

static const double RT_PATIENCE = 0.5;
/// The share of the time that searches in the background may have trials at work: TG_TUNE_SHARE of
/// a hundred, or one. False, with *out so: what that says is no such number (background.c).
bool rt_busy_share(double *out);
/// Seconds of rest that so much work needs.
static inline double rt_rest(double busy, double share) {
    return busy * (1 / share - 1);
}

typedef enum rt_verdict {
    RT_RIGHT,
    RT_WRONG,
    RT_FAILED,
    // Of sandboxes alone (sandbox.h).
    RT_CRASHED, // it ended its process
    RT_HUNG,    // it took longer than any of use would
    RT_CUT,     // nothing is known: there was no more time
} rt_verdict;

/// Elements of results that are known by other means than compiled code.
typedef struct rt_sample {
    int64_t param, at; // the least parameter of the view; bytes from the lowest element
    uint64_t bits;     // as they stand in memory, on fill 0
} rt_sample;

typedef struct rt_expected {
    int n;
    const rt_sample *samples; // by param, then by `at`
    /// Of each parameter: by which part of its own size, or of what elements are like, rounding
    /// elsewhere on the way moves a right element more than the bound below says.
    const double *noise;
    bool mild; // of which random numbers
} rt_expected;
/// From now on what is checked is compared with these, too, within the same bound; they stay the
/// caller's until the trial is closed.
void rt_trial_expect(rt_trial *trial, const rt_expected *expected);
/// What the variant that was checked last differs from is not the reference, but these.
bool rt_trial_is_refuted(const rt_trial *trial);
/// The numbers are mild: those of the first kind led to infinities, or to a failed assert.
bool rt_trial_is_mild(const rt_trial *trial);

/// Runs a variant and judges it; tg_last_error() says why it is not right. seconds: the least that
/// a run took, by the clock of the host. FAILED: its launch did not succeed, or it is not for such
/// arguments.
rt_verdict rt_trial_check(rt_trial *trial, const tg_variant *variant, double *seconds);

/// Runs the reference and a variant that was right, looks at all of what checks look at pieces of,
/// and judges it likewise. Right at once where checks look at everything.
rt_verdict rt_trial_confirm(rt_trial *trial, const tg_variant *variant);

/// The device is of no use any more to this process: a launch did something that it may not, or
/// does not end.
bool rt_trial_is_lost(rt_trial *trial);
/// A launch does not end: nothing can be tried any more, and what it may still write to is kept for
/// good.
bool rt_trial_is_stuck(const rt_trial *trial);

/// The seconds of each of n launches, caches flushed, what it reads and writes restored before
/// each; on a GPU by its own clock.
tg_status rt_trial_time(rt_trial *trial, const tg_variant *variant, int n, double *seconds);

/// How many times as long as the reference's a variant's launches take with caches as launches one
/// after another leave them: more than rt_trial_time says of some. 1 on the CPU, where all times
/// are such.
tg_status rt_trial_warm(rt_trial *trial, const tg_variant *variant, double *times);

/* ---- integer_sample.c: integers of a launch ------------------------------------------------- */

/// A tensor in the memory of a device, or the CPU's: where its lowest element is, bytes to the end
/// of the highest one, bytes of a row: a stride of which each piece of it is to be a multiple.
typedef struct rt_held {
    uintptr_t from;
    size_t bytes, row; // bytes 0: nothing is wanted of it
} rt_held;

enum { RT_SAMPLE = 1 << 20 }; // bytes that are taken of a tensor at most
typedef struct rt_samples rt_samples;
/// Takes what n tensors hold when what the stream was given so far is done: of large ones pieces.
/// Waits for nothing. device: -1, the CPU. NULL: it cannot be had.
rt_samples *rt_samples_take(int device, cu_stream stream, const rt_held *held, int n);
/// Of a view whose elements have `bits`; strides in elements.
size_t rt_held_row(int rank, const int64_t *shape, const int64_t *strides, int bits);
/// Waits until they are there. False: they are not.
bool rt_samples_wait(rt_samples *s);
/// Those of tensor i; NULL: none.
const void *rt_samples_of(const rt_samples *s, int i, size_t *bytes);
void rt_samples_close(rt_samples *s); // or NULL

/* ---- trial_data.c: values -------------------------------------------------------------------- */

bool rt_is_float(int code);

/// What a view holds before a launch: a few numbers over and over. Floats are random, normal or
/// (mild) of [0.25, 1). Others are copies and, as the second fill, those with their lowest bit
/// turned: an index then is off by one, which guard zones have room for.
typedef struct rt_pattern {
    int param; // the least one that has the view
    int code, bits;
    size_t n;           // elements of the view; of 4 bits a byte counts as one
    const void *given;  // of such; NULL: zeros
    size_t given_bytes; // there are of these, over and over; 0: all
    uint64_t seed;      // of the trial
    bool mild;
} rt_pattern;
/// Bytes until it begins again; 0: the view is empty.
size_t rt_pattern_period(const rt_pattern *p);
void rt_pattern_make(const rt_pattern *p, int fill, void *out);

/// How far from the reference a right result may be: relative * |reference| + absolute.
typedef struct rt_bound {
    double relative, absolute;
} rt_bound;

typedef struct rt_difference {
    size_t count, first; // elements beyond the bound; the first of them
    double got, want, most;
} rt_difference;

/// The root of the mean square of n floats.
double rt_size(const void *x, size_t n, int code, int bits);
rt_difference rt_compare(const void *x, const void *reference, size_t n, int code, int bits,
                         rt_bound bound);
/// Elements of `size` bytes that are equal or not; of different ones d.got has the first byte.
rt_difference rt_compare_bytes(const void *x, const void *reference, size_t n, size_t size);

/* ---- trial_memory.c: buffers ----------------------------------------------------------------- */

enum { RT_FILLS = 2 };

/// The memory of one tensor, or of several that are one view, between guard zones.
typedef struct rt_buffer {
    int param; // the first one; of those that are written the first such
    int least; // the first one of all
    uint8_t code, bits;
    bool written;
    size_t n, bytes;   // elements and bytes of the span; of 4 bits a byte counts as one element
    char *base, *span; // what was taken; the lowest element
    size_t room;       // of base
    bool adopted;      // it is somebody else's
    char *stencils[RT_FILLS]; // of the host: what a fill repeats; those that are read have one
    size_t period;            // bytes of a stencil
    size_t piece, pieces;     // what is looked at: so many bytes, so often; pieces 1: all of it
} rt_buffer;

/// Where the buffers are.
typedef struct rt_place {
    tg_options hooks;
    rt_device *device; // NULL: the host
    cu_stream stream;
    cu_event events[2];
    cu_pointer flush; // memory of the device
    char *scratch;    // of the host
    bool pinned;      // scratch is: copies of it are several times as fast
    size_t scratch_bytes, flush_bytes;
    size_t looks;    // bytes of a buffer that are looked at, about
    double began;    // the time of the host
    double patience; // rt_wait's
    bool stuck;      // a launch there did not end
} rt_place;

/// device: -1, the host. rt_place_close also after a failure.
tg_status rt_place_open(rt_place *p, const tg_options *hooks, int device, size_t flush_bytes,
                        size_t looks);
void rt_place_close(rt_place *p);
/// Takes memory for b->bytes, whose lowest address is as far from multiples of 256 as `like` is.
tg_status rt_buffer_open(rt_place *p, rt_buffer *b, uintptr_t like);
/// Uses `room` bytes at base, which stay the caller's, with the lowest element at span.
tg_status rt_buffer_adopt(rt_place *p, rt_buffer *b, char *base, size_t room, char *span);
void rt_buffer_close(rt_place *p, rt_buffer *b);
/// Sets all of it, guard zones included, to what those hold.
tg_status rt_buffer_clear(rt_place *p, const rt_buffer *b);
tg_status rt_buffer_fill(rt_place *p, const rt_buffer *b, int fill);
/// Bytes of all pieces; where a piece begins, from the span. The first and the last byte of the
/// span are of pieces, the others lie anywhere between.
size_t rt_buffer_looked(const rt_buffer *b);
size_t rt_buffer_piece(const rt_buffer *b, size_t i);
/// The same buffer, all of which is looked at.
rt_buffer rt_buffer_whole(const rt_buffer *b);
/// The pieces as they are now, one behind the other: in place, or a copy that lasts until the next
/// call. So are the elements that the functions below are given.
tg_status rt_buffer_fetch(rt_place *p, const rt_buffer *b, const char **out);
/// The elements of the samples of one view, `size` bytes each, one behind the other.
tg_status rt_buffer_gather(rt_place *p, const rt_buffer *b, const rt_sample *samples, int n,
                           size_t size, char *out);
/// 0: the guard zones are as they were; else the byte, before (negative) or behind the span.
tg_status rt_buffer_guards(rt_place *p, const rt_buffer *b, int64_t *out);
/// Whether x is what the fill made of it.
bool rt_buffer_is_fill(const rt_buffer *b, const char *x, int fill);
/// Some element of x and y differs, and not because nothing was written there.
bool rt_buffer_differs(const rt_buffer *b, const char *x, const char *y, int fill_x, int fill_y);
/// Of floats: the root of the mean square of those finite elements of x that are not those of fill
/// 0, and how many elements are not finite.
double rt_scale(const rt_buffer *b, const char *x, size_t *unfinite);
/// Empties caches, before a launch that is timed.
tg_status rt_place_flush(rt_place *p);
tg_status rt_place_wait(rt_place *p);
/// Of a clock that never goes back.
double rt_seconds(void);
tg_status rt_place_begin(rt_place *p);                // the time of what follows
tg_status rt_place_end(rt_place *p, double *seconds); // waits

#endif
