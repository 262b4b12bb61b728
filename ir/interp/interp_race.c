// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Races between ranks, under --check: two ranks access an element of a shard, one of them writes,
// and nothing orders the accesses.
//
// The check uses vector clocks. A rank increments its count when it publishes its progress: at a
// meeting, a signal or a fence. It also keeps the counts that it has heard from the others. An
// access carries its rank's count. It precedes an access of another rank that has heard of that
// count. A put word, or an atomic, publishes only accesses before the program's last fence, or
// before the phase. A count found by an atomic is heard at the next fence.
//
// The check sees only the accesses of this run, in whatever order they happened. The programs of a
// rank in one phase count as one, except for their puts without a fence of their own.
#include "ir/interp/interp_private.h"

#include <string.h>

/// The last access to an element: the rank and its count.
typedef struct TouchedPlace {
    int writer, written;
    int *read; // by each rank
} TouchedPlace;

/// An element written by signals, puts or atomics.
typedef struct SignalWord {
    int *told; // for each rank
    int writes;
    int *seen; // for each rank: how many of the writes it has seen
} SignalWord;

struct Races {
    int n;
    int *heard;      // [rank][of]: the counts heard by each rank
    int *arrived[2]; // the same on arrival at a meeting of even and odd number
    int *begun;      // at the start of the phase
    int *fenced;     // at the last fence of the program
    int *found;      // found by atomics, heard at the next fence
    PtrMap places, words;
};

Races *races_create(Ctx *ctx, int ranks) {
    size_t all = (size_t)ranks * (size_t)ranks;
    Races *r = ctx_new(ctx, Races);
    r->n = ranks;
    r->heard = ctx_array(ctx, int, all);
    int **rest[] = {&r->arrived[0], &r->arrived[1], &r->begun, &r->fenced, &r->found};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) *rest[i] = ctx_array(ctx, int, all);
    for (int i = 0; i < ranks; i++) r->heard[i * ranks + i] = 1;
    return r;
}

static int *clock_row(const Races *r, int *of, int rank) {
    return of + rank * r->n;
}

static void join_clocks(const Races *r, int *to, const int *from) {
    for (int i = 0; i < r->n; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

/* ---- order between ranks --------------------------------------------------------------------- */

void race_arrive(Interp *it) {
    Races *r = it->races;
    if (!r) return;
    int *own = clock_row(r, r->heard, it->rank);
    memcpy(clock_row(r, r->arrived[it->meetings & 1], it->rank), own, sizeof *own * (size_t)r->n);
    own[it->rank]++;
}

/// No rank can arrive two meetings later before all ranks have left this one.
void race_meet(Interp *it) {
    Races *r = it->races;
    for (int i = 0; r && i < r->n; i++)
        join_clocks(r, clock_row(r, r->heard, it->rank),
                    clock_row(r, r->arrived[it->meetings & 1], i));
}

/// Copies the heard counts and increments the own one, so later accesses are not in the copy.
static void tell_clock(Interp *it, int *of) {
    const Races *r = it->races;
    int *own = clock_row(r, r->heard, it->rank);
    memcpy(clock_row(r, of, it->rank), own, sizeof *own * (size_t)r->n);
    own[it->rank]++;
}

void race_fence(Interp *it) {
    const Races *r = it->races;
    if (!r) return;
    join_clocks(r, clock_row(r, r->heard, it->rank), clock_row(r, r->found, it->rank));
    tell_clock(it, r->fenced);
}

/// All earlier accesses of the rank precede the phase.
void race_phase(Interp *it) {
    race_fence(it);
    if (it->races) tell_clock(it, it->races->begun);
}

void race_program(Interp *it) {
    const Races *r = it->races;
    if (!r) return;
    memcpy(clock_row(r, r->fenced, it->rank), clock_row(r, r->begun, it->rank),
           sizeof(int) * (size_t)r->n);
}

static SignalWord *touched_word(Interp *it, const void *word) {
    Races *r = it->races;
    SignalWord *w = map_get(&r->words, word);
    if (w) return w;
    w = ctx_new(it->ctx, SignalWord);
    w->told = ctx_array(it->ctx, int, r->n);
    w->seen = ctx_array(it->ctx, int, r->n);
    map_set(it->ctx, &r->words, word, w);
    return w;
}

/// `adds`: the word keeps its earlier announcements.
static void write_word(Interp *it, SignalWord *w, const int *told, bool adds) {
    Races *r = it->races;
    if (!adds) memset(w->told, 0, sizeof *w->told * (size_t)r->n);
    join_clocks(r, w->told, told);
    w->writes++;
    w->seen[it->rank] = w->writes;
}

void race_raise(Interp *it, const void *word, bool adds) {
    Races *r = it->races;
    if (!r) return;
    int *own = clock_row(r, r->heard, it->rank);
    write_word(it, touched_word(it, word), own, adds);
    own[it->rank]++;
}

static void see_word(Interp *it, const void *word, int *into) {
    const Races *r = it->races;
    SignalWord *w = map_get(&r->words, word);
    if (!w) return;
    join_clocks(r, clock_row(r, into, it->rank), w->told);
    w->seen[it->rank] = w->writes;
}

void race_see(Interp *it, const void *word) {
    if (it->races) see_word(it, word, it->races->heard);
}

void race_put(Interp *it, const void *word) {
    const Races *r = it->races;
    if (r) write_word(it, touched_word(it, word), clock_row(r, r->fenced, it->rank), false);
}

void race_atomic(Interp *it, const void *word, bool writes) {
    const Races *r = it->races;
    if (!r) return;
    see_word(it, word, r->found);
    if (writes) write_word(it, touched_word(it, word), clock_row(r, r->fenced, it->rank), true);
}

/* ---- accesses -------------------------------------------------------------------------------- */

static _Noreturn void fail_race(Interp *it, const Op *op, int other, const char *did) {
    const char *name = operand(op, 0)->name;
    run_error(it, op,
              "rank %d has %s the same element of `%s`, and nothing orders the two: successive "
              "phases are ordered, and so is a wait after the signal that it waits for",
              other, did, name ? name : "a tensor");
}

static TouchedPlace *touched_place(Interp *it, const void *element) {
    Races *r = it->races;
    TouchedPlace *p = map_get(&r->places, element);
    if (p) return p;
    p = ctx_new(it->ctx, TouchedPlace);
    p->read = ctx_array(it->ctx, int, r->n);
    map_set(it->ctx, &r->places, element, p);
    return p;
}

/// Whether this rank has not heard of the last write. A rank that has seen a word has seen the
/// accesses that wrote it.
static bool is_unordered(const Interp *it, const TouchedPlace *p, const void *element) {
    const Races *r = it->races;
    const SignalWord *w = map_get(&r->words, element);
    return p->written > clock_row(r, r->heard, it->rank)[p->writer] &&
           !(w && w->seen[it->rank] == w->writes);
}

void race_read(Interp *it, const Op *op, const void *element) {
    Races *r = it->races;
    if (!r) return;
    TouchedPlace *p = touched_place(it, element);
    const int *own = clock_row(r, r->heard, it->rank);
    if (is_unordered(it, p, element)) fail_race(it, op, p->writer, "written");
    p->read[it->rank] = own[it->rank];
}

void race_write(Interp *it, const Op *op, const void *element) {
    Races *r = it->races;
    if (!r) return;
    TouchedPlace *p = touched_place(it, element);
    const int *own = clock_row(r, r->heard, it->rank);
    if (is_unordered(it, p, element)) fail_race(it, op, p->writer, "written");
    for (int i = 0; i < r->n; i++)
        if (p->read[i] > own[i]) fail_race(it, op, i, "read");
    p->writer = it->rank;
    p->written = own[it->rank];
}
