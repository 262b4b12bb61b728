// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of `tegula explain` about ranks: the transfers that comm-overlap made of a kernel, and
// the modelled times of transfers and programs.
//
//   link      |111111112222222.........|
//   programs  |000000000000111111111111|       0: the own shard, 1: that of the next rank, ...
//
// All ranks do the same, each from its own position. Programs that read received data begin when it
// has arrived. Data that programs send is in flight while later programs run, and is added last
// (passes/comm/comm_cost.c).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "passes/comm/comm_cost.h"
#include "tools/tegula/job.h"
#include "tools/tegula/measure.h"

enum { WIDTH = 60 };

static const Op *job_kernel(const Job *job) {
    return find_kernel(job->build.code->module, job->build.code->name);
}

void explain_ranks(const Job *job) {
    const Op *kernel = job_kernel(job);
    const Attr *lines = kernel ? op_strs(kernel, A_COMM_NOTES) : NULL;
    if (lines) printf("ranks\n");
    for (int i = 0; lines && i < lines->n; i++) printf("  %s\n", lines->strs[i]);
}

/* ---- the picture --------------------------------------------------------------------------- */

static char letter_of(int shard) {
    return (char)(shard == COMM_ALL ? '*' : shard < 10 ? '0' + shard : '+');
}

static void print_comm_row(const char *name, const CommRow *r, double end) {
    char line[WIDTH + 1];
    if (!r->n) return;
    memset(line, '.', WIDTH);
    line[WIDTH] = 0;
    for (int i = 0; i < r->n; i++) {
        const CommPiece *p = &r->pieces[i];
        int from = (int)(p->from / end * WIDTH + 0.5), to = (int)(p->to / end * WIDTH + 0.5);
        for (int k = from; k < to || k == from; k++)
            if (k < WIDTH) line[k] = letter_of(p->shard);
    }
    printf("  %-9s|%s|\n", name, line);
}

/// Names one phase, or several by the lines of their `parallel`.
static void print_phases(Ctx *ctx, const CommTimeline *t, const CommLaunch *l) {
    for (int i = 0; i < l->n_phases; i++) {
        const char *name = ctx_format(ctx, "line %u", l->phases[i].line);
        print_comm_row(l->n_phases == 1 ? "programs" : name, &t->programs[i], t->end);
    }
}

static void print_timeline(Ctx *ctx, const CommTimeline *t, const CommLaunch *l) {
    printf("timeline of a launch, by shards, 0 the own one, * all (a model: %.0f GB/s a %s)\n",
           l->link->copy * 1e-9, l->beside ? "link" : "core");
    print_comm_row("link", &t->link, t->end);
    print_comm_row("put", &t->put, t->end);
    print_comm_row("clear", &t->clear, t->end);
    print_phases(ctx, t, l);
    print_comm_row("fold", &t->fold, t->end);
    printf("  %s; one after the other %s, at best %s\n", time_text(ctx, t->end),
           time_text(ctx, t->sequence), time_text(ctx, t->best));
}

static void print_prices(Ctx *ctx, const CommLaunch *l) {
    CommPrice prices[COMM_PRICES];
    int n = comm_prices(l, PLAN_CHOSEN, 0, prices);
    printf("plans\n");
    for (int i = 0; i < n; i++) {
        const CommPrice *p = &prices[i];
        printf("  %s", plan_name(p->plan));
        if (p->chunks) printf(" in %d chunk%s", p->chunks, p->chunks > 1 ? "s" : "");
        printf(": %s\n",
               p->why ? ctx_format(ctx, "no price, %s", p->why) : time_text(ctx, p->seconds));
    }
}

/// The setting of a schedule axis, or 0.
static int config_value(const Job *job, const char *name) {
    const Elaborated *code = job->build.code;
    const NamedValue *v = value_of_name(code->n_config, code->config, name);
    return v ? (int)v->value : 0;
}

void explain_timeline(const Job *job, const CommLaunch *l) {
    PlanId plan = (PlanId)config_value(job, axis_names[AXIS_PLAN]);
    CommPrice sums[COMM_PRICES];
    if (l->why) {
        printf("plans and timeline\n  none: %s\n", l->why);
        return;
    }
    print_prices(job->ctx, l);
    if (plan == PLAN_ADD && comm_prices(l, plan, 0, sums) && sums->why) {
        printf("timeline\n  none of this plan: %s\n", sums->why);
        return;
    }
    CommTimeline *t = ctx_new(job->ctx, CommTimeline);
    comm_lay(t, l, plan, config_value(job, axis_names[AXIS_CHUNKS]));
    print_timeline(job->ctx, t, l);
}
