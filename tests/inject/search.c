// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A search for the fastest of a few settings: helpers compile, a worker measures.
#include "tests/inject/scenario.h"
#include "tests/tune/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void ready(void) {
    setenv("TG_CACHE", "off", 1);
}

static void ready_cache(void) {
    setenv("TG_CACHE", in_scratch("tuned"), 1);
}

/// Seconds, far more than the search of these few candidates takes on a busy machine. A search ends
/// when it has measured them. Only the number of looks at the children's clocks depends on the
/// time.
static const double ENOUGH = 64;
/// Seconds for a search with a fault, which may wait for a lost process until its time is up.
static const double HURRIED = 4;
static double budget;

static void hurry(bool is_short) {
    budget = is_short ? HURRIED : ENOUGH;
}

static void search(Ctx *ctx, void *arg) {
    Outcome *out = arg;
    Request r = softmax_request(ctx, NULL, 16, 64);
    TuneOptions o = {.mode = TUNE_BLOCK,
                     .budget = budget,
                     .candidates = 2,
                     .seed = 1,
                     .device = -1,
                     .helpers = 1,
                     .again = true};
    TuneResult result;
    tg_status status = tune_request(ctx, &r, &o, &result);
    const Diagnostic *d = diag_first(ctx);
    out->ok = !status && result.seconds > 0 && result.config;
    snprintf(out->text, sizeof out->text, "%s: %s %s", tg_status_name(status), tg_last_error(),
             d ? d->text : "");
}

static void work(Outcome *out) {
    out->ok = false;
    strcpy(out->text, "out of memory");
    Ctx *ctx = ctx_create(NULL);
    if (!ctx) return;
    CtxStatus status = ctx_protect(ctx, search, out);
    if (status == CTX_NO_MEMORY) out->ok = false, strcpy(out->text, "out of memory");
    if (status == CTX_BUG) out->ok = false, strcpy(out->text, "a bug");
    ctx_destroy(ctx);
}

const Scenario search_scenarios[] = {
    {"search", true, OTHERS, hurry, ready, work, NULL, NULL},
    {"search-kept", false, NOBODY, hurry, ready_cache, work, NULL, NULL},
    {.name = NULL},
};
