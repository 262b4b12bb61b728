// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The processes that run candidates: one worker, or one for each rank of a kernel of ranks. Workers
// of ranks meet at a socket and launch together. All of them report an error of one rank, and the
// same times. The search can therefore treat them as one worker. If one rank ends, all are
// dismissed.
#include "driver/tune/tune_search.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/// Returns a rank's part of a symmetric tensor, without the dimension of ranks.
static tg_actual rank_part(const tg_actual *a) {
    tg_actual part = *a;
    if (!a->symmetric || a->rank == 0) return part;
    part.rank--;
    part.shape++;
    part.strides++;
    return part;
}

/// Describes the launch's data for workers. Without tensors, all addresses have the requested
/// alignment, and no tensor is a view of another.
static WorkData *describe_data(Search *s) {
    const Request *r = s->r;
    WorkData *data = ctx_array(s->ctx, WorkData, r->n_args + 1);
    int64_t apart = 1;
    for (int i = 0; i < r->n_args; i++) {
        tg_actual a = rank_part(&r->args[i]);
        const DLTensor *t = s->o.tensors ? s->o.tensors[i] : NULL;
        data[i].address = (apart++ << 44) + (a.align > 1 ? a.align : (a.bits + 7) / 8);
        if (t && !a.null && s->o.contents) {
            data[i].address = (int64_t)(uintptr_t)t->data;
            data[i].contents = s->o.contents[i];
        } else if (t && !a.null)
            tune_contents(s->ctx, t, &a, s->o.stream, &data[i].contents, &data[i].address);
    }
    return data;
}

static const char *meeting_place(Ctx *ctx) {
    static _Atomic int number;
    const char *folder = secure_getenv("TMPDIR");
    return ctx_format(ctx, "%s/tegula-tune-%d-%d", folder && *folder ? folder : "/tmp",
                      (int)getpid(), atomic_fetch_add(&number, 1));
}

void workers_prepare(Search *s) {
    const Ranks *ranks = &s->r->ranks;
    int n = s->processes->ranks;
    WorkOpen open = {.request = *s->r,
                     .device = s->o.device,
                     .ranks = ranks->n,
                     .seed = s->o.seed,
                     .n = s->r->n_args,
                     .data = describe_data(s)};
    open.request.n_known = 0;
    if (ranks->n) open.request.threads = ranks->threads;
    if (ranks->n) open.meet = s->worker.meet = meeting_place(s->ctx);
    s->worker.opens = ctx_array(s->ctx, Bytes, n);
    s->worker.bodies = ctx_array(s->ctx, Bytes, n);
    for (int i = 0; i < n; i++) {
        open.rank = i;
        if (s->o.device >= 0 && s->o.devices) open.device = s->o.devices[i];
        s->worker.opens[i] = work_write_open(s->ctx, &open);
    }
}

static int ask_workers(Search *s, int id, const Bytes *messages, bool each, double seconds) {
    int error = 0;
    for (int i = 0; i < s->processes->ranks && !error; i++)
        error = processes_ask(s->processes, &s->processes->workers[i], id, messages[each ? i : 0],
                              WIRE_REPORT, seconds);
    return error;
}

int workers_open(Search *s, double seconds) {
    return ask_workers(s, -1, s->worker.opens, true, seconds);
}

int workers_ask(Search *s, int id, Bytes message, double seconds) {
    return ask_workers(s, id, &message, false, seconds);
}

const char *workers_whose(const Search *s, const ProcessEvent *e) {
    return s->r->ranks.n ? ctx_format(s->ctx, " of rank %d", processes_rank(s->processes, e->hand))
                         : "";
}

/// Returns the answer of the first worker with the worst status; rank 0's if all are good.
static Bytes choose_body(const Search *s) {
    int worst = 0, most = 0;
    for (int i = 0; i < s->processes->ranks; i++) {
        WorkReport report;
        bool read = work_read_report(s->ctx, s->worker.bodies[i], &report);
        int bad = !read ? 3 : report.ok ? 0 : report.lost ? 2 : 1;
        if (bad <= most) continue;
        worst = i;
        most = bad;
    }
    return s->worker.bodies[worst];
}

bool workers_answer(Search *s, ProcessEvent *e) {
    WorkReport report;
    int rank = processes_rank(s->processes, e->hand);
    bool gone = e->talk != TALK_OK;
    if (!gone) s->worker.bodies[rank] = e->body;
    // The other ranks would wait for a rank that cannot be opened.
    if (!gone && s->worker.turn < 0)
        gone = work_read_report(s->ctx, e->body, &report) && !report.ok;
    if (gone) processes_dismiss_workers(s->processes);
    if (gone) return true;
    if (processes_works(s->processes)) return false;
    e->body = choose_body(s);
    return true;
}

void workers_end(const Search *s) {
    if (s->worker.meet) unlink(s->worker.meet);
}
