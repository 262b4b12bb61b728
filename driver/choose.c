// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The default setting of a kernel's tune values: the one that the cost model expects to be fastest
// for the arguments at hand.
#include <string.h>

#include "driver/driver.h"

// Elaborating a setting costs a fraction of a millisecond; beyond this many the first ones do.
enum { MAX_TRIED = 64 };

/// What one setting is expected to cost; elaborated inside ctx_protect, since one that does not
/// elaborate is no candidate rather than an error.
typedef struct Trial {
    Build *build;
    double seconds; // negative: not a candidate
} Trial;

static int64_t dim_of(void *user, int argument, int axis) {
    const Build *b = user;
    int param;
    if (argument >= build_arguments(b)) return -1;
    build_argument(b, argument, &param);
    return build_extent(b, param, axis);
}

static void estimate(Ctx *ctx, void *arg) {
    Trial *t = arg;
    Build *b = t->build;
    b->ir = ir_create(ctx);
    b->code = fe_elaborate(b->ir, b->program, b->inst);
    if (!b->code || !b->code->module) return;
    Machine machine = {b->threads ? b->threads : machine_threads(), b->info.l1_bytes,
                       b->info.l2_bytes, b->info.vector_bytes};
    t->seconds = cost_estimate(find_kernel(b->code->module, b->code->name), &machine, dim_of, b);
}

/// The setting agrees with every pinned value.
static bool is_allowed(const Config *c, int n, const NamedValue *set) {
    for (int i = 0; i < n; i++) {
        const NamedValue *v = value_of_name(c->n, c->values, set[i].name);
        if (v && v->value != set[i].value) return false;
    }
    return true;
}

/// The pinned values, then those of the setting that they leave open.
static void take(Build *b, int n, const NamedValue *set, const Config *c) {
    Inst *inst = b->inst;
    inst->set = ctx_array(b->ctx, NamedValue, n + c->n + 1);
    inst->n_set = n;
    if (n) memcpy(inst->set, set, sizeof *set * (size_t)n);
    for (int i = 0; i < c->n; i++)
        if (!value_of_name(n, set, c->values[i].name)) inst->set[inst->n_set++] = c->values[i];
}

void build_choose(Build *b) {
    Configs all = {0}, open = {0};
    int n = b->inst->n_set;
    const NamedValue *set = b->inst->set;
    fe_configs(b->ctx, b->program, b->inst, MAX_TRIED, &all);
    for (int i = 0; i < all.n; i++)
        if (is_allowed(&all.data[i], n, set)) vec_push(b->ctx, &open, all.data[i]);
    b->n_settings = open.n;
    if (open.n < 2) return;
    const Config *best = &open.data[0];
    double least = -1;
    DiagMark mark = diag_mark(b->ctx);
    for (int i = 0; i < open.n; i++) {
        Trial t = {.build = b, .seconds = -1};
        take(b, n, set, &open.data[i]);
        CtxStatus status = ctx_protect(b->ctx, estimate, &t);
        if (status == CTX_NO_MEMORY || status == CTX_BUG) ctx_leave(b->ctx, status);
        diag_rewind(b->ctx, mark);
        if (t.seconds < 0 || (least >= 0 && t.seconds >= least)) continue;
        least = t.seconds;
        best = &open.data[i];
    }
    b->code = NULL;
    take(b, n, set, best);
}

double build_products(Build *b) {
    return cost_products(find_kernel(b->code->module, b->code->name), dim_of, b);
}
