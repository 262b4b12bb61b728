// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `tegula explain` says of ranks: which transfers comm-overlap made of a kernel, and when they
// and the programs run, by a model.
//
//   link      |111111112222222.........|
//   programs  |000000000000111111111111|       0: the own shard, 1: that of the next rank, ...
//
// Rank by rank, all do the same. Programs that read what comes begin when it is there; what
// programs send is on its way while the next ones run, and at last folded (passes/comm_cost.c).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "passes/comm_cost.h"
#include "tools/tegula/job.h"
#include "tools/tegula/measure.h"

enum { WIDTH = 60 };

static const Op *kernel_of(const Job *job) {
    return find_kernel(job->build.code->module, job->build.code->name);
}

void explain_ranks(const Job *job) {
    const Op *kernel = kernel_of(job);
    const Attr *lines = kernel ? op_attr(kernel, "comm") : NULL;
    if (lines) printf("ranks\n");
    for (int i = 0; lines && i < lines->n; i++) printf("  %s\n", lines->strs[i]);
}

/* ---- the picture --------------------------------------------------------------------------- */

static void print_row(const char *name, const CommRow *r, double end) {
    char line[WIDTH + 1];
    if (!r->n) return;
    memset(line, '.', WIDTH);
    line[WIDTH] = 0;
    for (int i = 0; i < r->n; i++) {
        const CommPiece *p = &r->pieces[i];
        int from = (int)(p->from / end * WIDTH + 0.5), to = (int)(p->to / end * WIDTH + 0.5);
        for (int k = from; k < to || k == from; k++)
            if (k < WIDTH) line[k] = (char)(p->shard < 10 ? '0' + p->shard : '+');
    }
    printf("  %-9s|%s|\n", name, line);
}

static void print_timeline(Ctx *ctx, const CommTimeline *t, const CommLink *link) {
    printf("timeline of a launch, by shards, 0 the own one (a model: %.0f GB/s a link)\n",
           link->copy * 1e-9);
    print_row("link", &t->link, t->end);
    print_row("programs", &t->programs, t->end);
    print_row("fold", &t->fold, t->end);
    printf("  %s; one after the other %s, at best %s\n", time_text(ctx, t->end),
           time_text(ctx, t->moved + t->worked), time_text(ctx, fmax(t->moved, t->worked)));
}

static void print_prices(Ctx *ctx, const CommWork *works, int n) {
    CommPrice prices[COMM_PRICES];
    int n_prices = comm_prices(works, n, PLAN_CHOSEN, 0, prices);
    printf("plans\n");
    for (int i = 0; i < n_prices; i++) {
        const CommPrice *p = &prices[i];
        printf("  %s", plan_name(p->plan));
        if (p->chunks) printf(" in %d chunk%s", p->chunks, p->chunks > 1 ? "s" : "");
        printf(": %s\n", time_text(ctx, p->seconds));
    }
}

void explain_timeline(const Job *job, const CommWork *works, int n) {
    const Op *kernel = kernel_of(job);
    const Attr *moves = kernel ? op_attr(kernel, "moves") : NULL;
    if (n) print_prices(job->ctx, works, n);
    for (int i = 0; moves && i < moves->n; i += MOVE_FIELDS) {
        const int64_t *move = moves->ints + i;
        for (int k = 0; k < n; k++) {
            if (works[k].argument != move[MOVE_ARGUMENT]) continue;
            CommTimeline *t = ctx_new(job->ctx, CommTimeline);
            comm_lay(t, &works[k], (PlanId)move[MOVE_PLAN], move[MOVE_CHUNKS]);
            print_timeline(job->ctx, t, works[k].link);
        }
    }
}
