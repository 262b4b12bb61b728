// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The default setting of a kernel's tune values: the one that the cost model expects to be fastest
// for the arguments at hand.
#include <string.h>

#include "driver/driver.h"
#include "passes/gpu/gpu.h"

// Elaborating a setting costs a fraction of a millisecond. Of more than MAX_TRIED settings those
// are tried that differ from the best one so far in one value, for so many rounds.
enum { MAX_SETTINGS = 1024, MAX_TRIED = 128, ROUNDS = 4 };

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

void build_describe_cost(Build *b, Text *out) {
    const Op *kernel = find_kernel(b->code->module, b->code->name);
    if (b->gpu) gpu_cost_describe(out, kernel, b->gpu, dim_of, b);
}

static void estimate(Ctx *ctx, void *arg) {
    Trial *t = arg;
    Build *b = t->build;
    b->ir = ir_create(ctx);
    b->code = fe_elaborate(b->ir, b->program, b->inst);
    if (!b->code || !b->code->module) return;
    const Op *kernel = find_kernel(b->code->module, b->code->name);
    if (b->gpu) {
        t->seconds = gpu_cost_estimate(kernel, b->gpu, dim_of, b);
        return;
    }
    Machine machine = {b->threads ? b->threads : machine_threads(), b->info.l1_bytes,
                       b->info.l2_bytes, b->info.vector_bytes};
    t->seconds = cost_estimate(kernel, &machine, dim_of, b);
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

typedef struct Search {
    Build *build;
    int n_set;
    const NamedValue *set; // pinned
    Configs open;
    bool *tried;
    const Config *best;
    double least;
} Search;

static void try_setting(Search *s, int i) {
    Build *b = s->build;
    Trial t = {.build = b, .seconds = -1};
    if (s->tried[i]) return;
    s->tried[i] = true;
    DiagMark mark = diag_mark(b->ctx);
    take(b, s->n_set, s->set, &s->open.data[i]);
    CtxStatus status = ctx_protect(b->ctx, estimate, &t);
    if (status == CTX_NO_MEMORY || status == CTX_BUG) ctx_leave(b->ctx, status);
    diag_rewind(b->ctx, mark);
    if (t.seconds < 0 || (s->least >= 0 && t.seconds >= s->least)) return;
    s->least = t.seconds;
    s->best = &s->open.data[i];
}

/// In how many values two settings differ.
static int distance(const Config *a, const Config *b) {
    int n = 0;
    for (int i = 0; i < a->n; i++) {
        const NamedValue *v = value_of_name(b->n, b->values, a->values[i].name);
        n += !v || v->value != a->values[i].value;
    }
    return n;
}

void build_choose(Build *b) {
    Configs all = {0};
    Search s = {.build = b, .n_set = b->inst->n_set, .set = b->inst->set, .least = -1};
    fe_configs(b->ctx, b->program, b->inst, MAX_SETTINGS, &all);
    for (int i = 0; i < all.n; i++)
        if (is_allowed(&all.data[i], s.n_set, s.set)) vec_push(b->ctx, &s.open, all.data[i]);
    b->n_settings = s.open.n;
    if (s.open.n < 2) return;
    s.tried = ctx_array(b->ctx, bool, s.open.n);
    s.best = &s.open.data[0];
    for (int round = 0; round < ROUNDS; round++) {
        const Config from = *s.best;
        for (int i = 0; i < s.open.n; i++)
            if (s.open.n <= MAX_TRIED || distance(&from, &s.open.data[i]) <= 1) try_setting(&s, i);
    }
    b->code = NULL;
    take(b, s.n_set, s.set, s.best);
}

double build_products(Build *b) {
    return cost_products(find_kernel(b->code->module, b->code->name), dim_of, b);
}
