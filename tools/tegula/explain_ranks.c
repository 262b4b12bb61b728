// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `tegula explain` says of ranks: which transfers comm-overlap made of a kernel, and when they
// and the programs run, by a model.
//
//   link      |111111112222222.........|
//   programs  |000000000000111111111111|       0: the own shard, 1: that of the next rank, ...
//
// Rank by rank, all do the same. A transfer takes its bytes over the link and a little for each
// chunk; programs take what the cost model says, an equal part for each shard, in the plan's order.
// Programs that read what comes begin when it is there; what programs send is on its way while the
// next ones run, and at last folded.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "passes/gpu/gpu.h"
#include "passes/passes.h"
#include "tools/tegula/job.h"
#include "tools/tegula/measure.h"

// As measured between two H200s (bench/NOTES.md): bytes a second, and seconds for each chunk.
#define LINK_BANDWIDTH 370e9
#define CHUNK_SECONDS  3.5e-6
enum { WIDTH = 60, MAX_PIECES = 1024 };

typedef struct Piece {
    double from, to;
    int shard; // as far from the own rank
} Piece;

typedef struct Row {
    int n;
    Piece pieces[MAX_PIECES];
} Row;

typedef struct Timeline {
    Row link, programs, fold;
    double moved, worked; // seconds of each alone
} Timeline;

static const Op *kernel_of(const Job *job) {
    return find_kernel(job->build.code->module, job->build.code->name);
}

void explain_ranks(const Job *job) {
    const Op *kernel = kernel_of(job);
    const Attr *lines = kernel ? op_attr(kernel, "comm") : NULL;
    if (lines) printf("ranks\n");
    for (int i = 0; lines && i < lines->n; i++) printf("  %s\n", lines->strs[i]);
}

/// When it ends.
static double add_piece(Row *r, double from, double seconds, int shard) {
    if (r->n < MAX_PIECES) r->pieces[r->n++] = (Piece){from, from + seconds, shard};
    return from + seconds;
}

static double end_of(const Row *r) {
    double end = 0;
    for (int i = 0; i < r->n; i++) end = fmax(end, r->pieces[i].to);
    return end;
}

/* ---- the model ----------------------------------------------------------------------------- */

/// Elements of a shard times their bytes; 0 where a dim is open. *ranks: how many shards.
static double shard_bytes(const Job *job, int argument, int64_t *ranks) {
    int param;
    const ParamUse *use = build_argument(&job->build, argument, &param);
    double bytes = elem_info[job->inst->params[param].elem].bits / 8.0;
    *ranks = build_extent(&job->build, param, 0);
    for (int i = 1; i < use->rank; i++) bytes *= (double)build_extent(&job->build, param, i);
    for (int i = 0; i < use->rank; i++)
        if (build_extent(&job->build, param, i) < 1) return 0;
    return bytes;
}

/// Shards come, or their chunks; programs of a shard follow its chunks.
static void lay_reads(Timeline *t, const int64_t *move, double bytes, int64_t ranks) {
    bool whole = move[MOVE_PLAN] == PLAN_BEFORE;
    int64_t wanted = move[MOVE_CHUNKS] ? move[MOVE_CHUNKS] : comm_chunks((int64_t)bytes);
    int64_t chunks = whole ? 1 : wanted;
    double each = bytes / (double)chunks / LINK_BANDWIDTH + CHUNK_SECONDS, link = 0, now = 0;
    double work = t->worked / (double)(ranks * chunks);
    t->moved = each * (double)(chunks * (ranks - 1));
    for (int64_t i = 0; i < ranks * chunks; i++) {
        int shard = (int)(i / chunks);
        if (shard > 0) link = add_piece(&t->link, link, each, shard);
        if (!whole) now = add_piece(&t->programs, fmax(now, shard ? link : 0), work, shard);
    }
    for (int64_t i = 0; i < ranks && whole; i++)
        now = add_piece(&t->programs, fmax(now, link), work, (int)i);
}

/// What is for other ranks is made first, and sent while it is, or at the end; then all is folded.
static void lay_adds(Timeline *t, const int64_t *move, double bytes, int64_t ranks,
                     const GpuTarget *gpu) {
    bool whole = move[MOVE_PLAN] == PLAN_BEFORE;
    double each = bytes / LINK_BANDWIDTH + (whole ? CHUNK_SECONDS : 0), link = 0, now = 0;
    double work = t->worked / (double)ranks;
    t->moved = each * (double)(ranks - 1);
    for (int64_t i = 1; i <= ranks; i++) {
        int shard = (int)(i % ranks);
        double began = now;
        now = add_piece(&t->programs, began, work, shard);
        if (shard && !whole) link = add_piece(&t->link, fmax(link, began), fmax(each, work), shard);
    }
    for (int64_t i = 1; i < ranks && whole; i++)
        link = add_piece(&t->link, fmax(link, now), each, (int)i);
    double fold = bytes * (double)(ranks + 1) / gpu->bandwidth;
    t->worked += fold;
    add_piece(&t->fold, fmax(now, link), fold, 0);
}

/* ---- the picture --------------------------------------------------------------------------- */

static void print_row(const char *name, const Row *r, double end) {
    char line[WIDTH + 1];
    if (!r->n) return;
    memset(line, '.', WIDTH);
    line[WIDTH] = 0;
    for (int i = 0; i < r->n; i++) {
        const Piece *p = &r->pieces[i];
        int from = (int)(p->from / end * WIDTH + 0.5), to = (int)(p->to / end * WIDTH + 0.5);
        for (int k = from; k < to || k == from; k++)
            if (k < WIDTH) line[k] = (char)(p->shard < 10 ? '0' + p->shard : '+');
    }
    printf("  %-9s|%s|\n", name, line);
}

static void print_timeline(Ctx *ctx, const Timeline *t) {
    double end = fmax(fmax(end_of(&t->link), end_of(&t->programs)), end_of(&t->fold));
    printf("timeline of a launch, by shards, 0 the own one (a model: %.0f GB/s a link)\n",
           LINK_BANDWIDTH * 1e-9);
    print_row("link", &t->link, end);
    print_row("programs", &t->programs, end);
    print_row("fold", &t->fold, end);
    printf("  %s; one after the other %s, at best %s\n", time_text(ctx, end),
           time_text(ctx, t->moved + t->worked), time_text(ctx, fmax(t->moved, t->worked)));
}

void explain_timeline(const Job *job, double seconds) {
    const Op *kernel = kernel_of(job);
    const Attr *moves = kernel ? op_attr(kernel, "moves") : NULL;
    for (int i = 0; moves && seconds > 0 && i < moves->n; i += MOVE_FIELDS) {
        const int64_t *move = moves->ints + i;
        int64_t ranks;
        double bytes = shard_bytes(job, (int)move[MOVE_ARGUMENT], &ranks);
        Timeline *t = ctx_new(job->ctx, Timeline);
        *t = (Timeline){.worked = seconds};
        if (bytes <= 0 || ranks < 2) continue;
        if (move[MOVE_ADDS])
            lay_adds(t, move, bytes, ranks, job->build.gpu);
        else
            lay_reads(t, move, bytes, ranks);
        print_timeline(job->ctx, t);
    }
}
