// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A search that a command waits for, with a progress line on the terminal.
#include "runtime/tegula.h"
#include "tools/tegula/executors.h"
#include "tools/tegula/measure.h"
#include "tools/tegula/tune/tune.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NO_BUDGET 1e6 // seconds; longer times count as unlimited

/// Returns the columns of the terminal of standard error.
static int terminal_columns(void) {
    struct winsize w;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col : 80;
}

/// Rewrites one line in place. It is cut to the terminal's width, because a wrapped line would be
/// two.
void tune_line_show(void *user, const TuneProgress *p) {
    const TuneLine *line = user;
    Text t = {.ctx = line->ctx};
    double left = p->budget - p->spent;
    if (!isatty(STDERR_FILENO)) return;
    if (p->waits)
        text_add(&t, "another process tunes the same");
    else
        text_add(&t, "%d of %d candidates", p->measured, p->candidates);
    if (p->budget < NO_BUDGET) text_add(&t, ", %.0f s left", left > 0 ? left : 0);
    if (p->best > 0) text_add(&t, ", best %s", time_text(line->ctx, p->best));
    if (p->best > 0 && p->standard > 0)
        text_add(&t, " (%.2f times as fast as the default)", p->standard / p->best);
    text_add(&t, " %s", line->title);
    fprintf(stderr, "\r\033[K%.*s", terminal_columns() - 1, t.data);
    fflush(stderr);
}

void tune_line_end(void) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
}

const int *job_rank_devices(Job *job) {
    int *devices = ctx_array(job->ctx, int, job->ranks + 1);
    int gpus = job->device < 0 ? 1 : tg_device_count();
    for (int r = 0; r < (int)job->ranks; r++) devices[r] = (job->device + r) % gpus;
    return devices;
}

typedef struct JobSearch {
    Job *job;
    const char *title;
    TuneMode mode;
    const Request *r;
    const DLTensor **tensors;
    TuneResult result;
    tg_status status;
} JobSearch;

static void search_job(Ctx *ctx, void *arg) {
    JobSearch *s = arg;
    TuneLine line = {ctx, s->title};
    TuneOptions options = {.mode = s->mode,
                           .device = s->job->device,
                           .devices = job_rank_devices(s->job),
                           .tensors = s->tensors,
                           .progress = tune_line_show,
                           .user = &line};
    s->status = tune_request(ctx, s->r, &options, &s->result);
    if (s->status && diag_errors(ctx)) tg_fail(s->status, "%s", messages_text(ctx));
}

static void release_job_context(void *child) {
    ctx_destroy(child);
}

/// Errors of candidates are not errors of the command. They are in a context of their own, which
/// lives as long as the result.
bool job_tune_now(Job *job, TuneMode mode, const Request *r, const DLTensor **tensors,
                  TuneResult *out) {
    JobSearch s = {.job = job,
                   .title = job_title(job),
                   .mode = mode,
                   .r = r,
                   .tensors = tensors,
                   .status = TG_ERROR_MEMORY};
    Ctx *child = ctx_create(NULL);
    if (!child) ctx_leave(job->ctx, CTX_NO_MEMORY);
    ctx_defer(job->ctx, release_job_context, child);
    CtxStatus status = ctx_protect(child, search_job, &s);
    tune_line_end();
    if (status == CTX_NO_MEMORY || status == CTX_BUG) ctx_leave(job->ctx, status);
    *out = s.result;
    if (!s.status && *out->config) {
        if (tune_wrong_default(out))
            cli_warning("%s: the default, %s, is not taken: %s; " WRONG_DEFAULT, s.title,
                        out->trials[0].config, tune_wrong_default(out));
        return true;
    }
    if (s.status) cli_warning("not tuned: %s", tg_last_error());
    return false;
}
