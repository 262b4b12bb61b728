// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Races between ranks, under --check: two ranks touch an element of a shard, one of them writes it,
// and nothing orders the two.
//
// Vector clocks: each rank counts the times that it let others know how far it is, by coming to a
// meeting, raising a signal or an atomic, and knows how far it has heard of the others. An access
// has its rank's count; it is ordered before what another rank does that has heard of that count.
// Only what a run does is looked at, in whatever order it was done.
#include "ir/interp_private.h"

#include <string.h>

/// Who touched an element last: rank, and its count then.
typedef struct Place {
    int writer, written;
    int *read; // by each rank
} Place;

struct Races {
    int n;
    int *heard;      // [rank][of]: by each rank of each
    int *arrived[2]; // the same when it came to a meeting of even and odd number
    PtrMap places, words;
};

Races *races_create(Ctx *ctx, int ranks) {
    size_t all = (size_t)ranks * (size_t)ranks;
    Races *r = ctx_new(ctx, Races);
    r->n = ranks;
    r->heard = ctx_array(ctx, int, all);
    for (int i = 0; i < 2; i++) r->arrived[i] = ctx_array(ctx, int, all);
    for (int i = 0; i < ranks; i++) r->heard[i * ranks + i] = 1;
    return r;
}

static int *row(const Races *r, int *of, int rank) {
    return of + rank * r->n;
}

static void join(const Races *r, int *to, const int *from) {
    for (int i = 0; i < r->n; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

/* ---- what orders ----------------------------------------------------------------------------- */

void race_arrive(Interp *it) {
    Races *r = it->races;
    if (!r) return;
    int *own = row(r, r->heard, it->rank);
    memcpy(row(r, r->arrived[it->meetings & 1], it->rank), own, sizeof *own * (size_t)r->n);
    own[it->rank]++;
}

/// Nobody can come to the meeting after the next one before all have left this one.
void race_meet(Interp *it) {
    Races *r = it->races;
    for (int i = 0; r && i < r->n; i++)
        join(r, row(r, r->heard, it->rank), row(r, r->arrived[it->meetings & 1], i));
}

void race_raise(Interp *it, const void *word) {
    Races *r = it->races;
    if (!r) return;
    int *told = map_get(&r->words, word), *own = row(r, r->heard, it->rank);
    if (!told) map_set(it->ctx, &r->words, word, told = ctx_array(it->ctx, int, r->n));
    join(r, told, own);
    own[it->rank]++;
}

void race_see(Interp *it, const void *word) {
    Races *r = it->races;
    const int *told = r ? map_get(&r->words, word) : NULL;
    if (told) join(r, row(r, r->heard, it->rank), told);
}

/* ---- accesses -------------------------------------------------------------------------------- */

static _Noreturn void race(Interp *it, const Op *op, int other, const char *did) {
    const char *name = operand(op, 0)->name;
    run_error(it, op,
              "rank %d has %s the same element of `%s`, and nothing orders the two: phases that "
              "follow each other are, and what a signal is waited for",
              other, did, name ? name : "a tensor");
}

static Place *place_of(Interp *it, const void *element) {
    Races *r = it->races;
    Place *p = map_get(&r->places, element);
    if (p) return p;
    p = ctx_new(it->ctx, Place);
    p->read = ctx_array(it->ctx, int, r->n);
    map_set(it->ctx, &r->places, element, p);
    return p;
}

void race_read(Interp *it, const Op *op, const void *element) {
    Races *r = it->races;
    if (!r) return;
    Place *p = place_of(it, element);
    const int *own = row(r, r->heard, it->rank);
    if (p->written > own[p->writer]) race(it, op, p->writer, "written");
    p->read[it->rank] = own[it->rank];
}

void race_write(Interp *it, const Op *op, const void *element) {
    Races *r = it->races;
    if (!r) return;
    Place *p = place_of(it, element);
    const int *own = row(r, r->heard, it->rank);
    if (p->written > own[p->writer]) race(it, op, p->writer, "written");
    for (int i = 0; i < r->n; i++)
        if (p->read[i] > own[i]) race(it, op, i, "read");
    p->writer = it->rank;
    p->written = own[it->rank];
}
