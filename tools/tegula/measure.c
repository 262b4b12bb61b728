// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts and times of a job, for the reports of `run` and `bench`.
#include "tools/tegula/measure.h"

#include <stdlib.h>
#include <string.h>

int64_t job_bytes(const Job *job) {
    int64_t bytes = 0;
    for (int i = 0; i < job->kernel->params.n; i++) {
        const Argument *a = &job->args[i];
        if (a->kind == ARG_TENSOR)
            bytes += tensor_count(&a->tensor) * elem_info[a->tensor.elem].bits / 8;
    }
    return bytes;
}

/// Parses the expression as the only constant of a source of its own.
bool job_flops(Job *job, double *out) {
    *out = 0;
    if (!job->o->flops) return true;
    const char *source = ctx_format(job->ctx, "const flops = %s;", job->o->flops), *unknown;
    uint16_t file = ctx_add_source(job->ctx, "--flops", source, strlen(source));
    const Module *m = fe_parse(job->ctx, file);
    if (diag_errors(job->ctx) || m->items.n != 1 || m->items.at[0].kind != IT_CONST) return false;
    Dimensions dims = job_dims(job);
    int64_t n;
    if (!dims_eval(&dims, m->items.at[0].constant.value, &n, &unknown)) {
        cli_error("--flops: %s is not known", unknown);
        return false;
    }
    *out = (double)n;
    return true;
}

const char *time_text(Ctx *ctx, double s) {
    return s < 1e-3  ? ctx_format(ctx, "%.3g us", s * 1e6)
           : s < 1.0 ? ctx_format(ctx, "%.3g ms", s * 1e3)
                     : ctx_format(ctx, "%.3g s", s);
}

/// The saved time as a share of the possible saving, which is the shorter of transfers and
/// programs. The share has no meaning if the shorter one is negligible, or below the spread of
/// launches.
const char *overlap_text(Ctx *ctx, const Times *launch, const Times *transfers,
                         const Times *programs) {
    enum { NOTHING = 100 }; // a part below 1/NOTHING of a launch is negligible
    bool fewer = transfers->median < programs->median;
    const Times *shorter = fewer ? transfers : programs;
    double least = shorter->median;
    double saved = transfers->median + programs->median - launch->median;
    if (shorter->least * NOTHING < launch->median)
        return ctx_format(ctx, "nothing to hide: %s take less than 1 %% of a launch",
                          fewer ? "transfers" : "programs");
    if (least < launch->spread)
        return ctx_format(ctx, "overlap not to be told: launches differ by %s",
                          time_text(ctx, launch->spread));
    return ctx_format(ctx, "overlap %.0f %% (+-%.0f)", 100 * saved / least,
                      50 * launch->spread / least);
}
