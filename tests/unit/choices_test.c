// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The chosen tune values: for any instance, the elaborator takes the first combination of
// fe_configs, which is the first one that satisfies every `where`.
#include "frontend/frontend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct Case {
    const char *clauses;
    const char *set;  // "B=8", or NULL
    const char *want; // of the kernel `k`; NULL: no combination exists
    int n;            // number of combinations
} Case;

// x is f32[64, ..P, N] with P of two axes, N = 32.
static const Case cases[] = {
    {"tune A = 4 | 8, B = 32 | 64", NULL, "A=4 B=32", 4},
    {"tune A = 4 | 8, B = 32 | 64 where A * B >= 512", NULL, "A=8 B=64", 1},
    {"tune A = 4 | 8, B = 32 | 64 where A * B >= 256", NULL, "A=4 B=64", 3},
    {"tune A = 4 | 8 where A > 4 tune B = 1 | 2 where B > 1", NULL, "A=8 B=2", 1},
    {"tune A = 4 | 8, B = A | 2 * A where B == 16", NULL, "A=8 B=16", 1},
    {"tune A = 4 | 8, B = 32 | 64 where A * B >= 512", "A=16", "A=16 B=32", 2},
    {"tune A = 4 | 8, B = 32 | 64 where A * B >= 512", "B=32", NULL, 0},
    {"tune A = false | true, B = 1 | 2 where A && B > 1", NULL, "A=1 B=2", 1},
    {"tune A = 16 | 32 | 64 where A == N", NULL, "A=32", 1},
    {"tune A = 16 | 64 | 32 where A == M", NULL, "A=64", 1},
    {"tune A = 4 | 8 where A > LIMIT", NULL, "A=8", 1},
    {"tune A = 4 | 8 where more(A, LIMIT)", NULL, "A=8", 1},
    {"tune A = 4 | 8, B = 1 | 2 where (A > 4 ? B : -B) > 1", NULL, "A=8 B=2", 1},
    {"tune A = 4 | 8 schedule warps = 4 | 8", NULL, "A=4 warps=4", 4},
    {"tune A = 4 | 8 where A > 4 schedule warps = 8 | 4", "warps=4", "A=8 warps=4", 1},
    {"tune A = 4 | 8 where A > 8", NULL, NULL, 0},
};

static const char plain[] = "const LIMIT = 7;\n"
                            "fn more(a, b) { return a > b; }\n"
                            "kernel k(x: f32[M, ..P, N], y: f32[M]) %s {\n"
                            "    parallel m in M { y[m] = 1; }\n"
                            "}\n";

typedef struct Run {
    const Case *c;
    const char *taken; // taken by the elaborator
    const char *first; // first of the list
    int n;
} Run;

static NamedValue read_set(Ctx *ctx, const char *set) {
    const char *is = strchr(set, '=');
    NamedValue v = {ctx_intern(ctx, set, (size_t)(is - set)), 0};
    setting_value(v.name, is + 1, strlen(is + 1), &v.value);
    return v;
}

static void run(Ctx *ctx, void *arg) {
    Run *r = arg;
    const char *text = ctx_format(ctx, plain, r->c->clauses);
    Program *p = fe_load(ctx, ctx_add_source(ctx, "k.teg", text, strlen(text)), NULL);
    Inst *inst = fe_default_inst(ctx, p, fe_kernel(p, 0));
    ParamInst *x = &inst->params[0], *y = &inst->params[1];
    *x = (ParamInst){.elem = EL_F32, .known_shape = true, .rank = 4, .extents = {64, 5, 3, 32}};
    *y = (ParamInst){.elem = EL_F32, .known_shape = true, .rank = 1, .extents = {64}};
    inst->tentative = false;
    inst->n_dims = 0;
    NamedValue set = r->c->set ? read_set(ctx, r->c->set) : (NamedValue){0};
    if (r->c->set) inst->set = &set, inst->n_set = 1;
    Configs all = {0};
    fe_configs(ctx, p, inst, 100, &all);
    r->n = all.n;
    if (all.n) r->first = settings_text(ctx, all.data[0].n, all.data[0].values);
    Elaborated *code = fe_elaborate(ir_create(ctx), p, inst);
    if (code->module) r->taken = settings_text(ctx, code->n_config, code->config);
}

static void takes_the_first(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Ctx *ctx = ctx_create(NULL);
        Run r = {.c = &cases[i]};
        CtxStatus status = ctx_protect(ctx, run, &r);
        Text said = {.ctx = ctx};
        for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
            diag_render(&said, ctx, d, false);
        if (cases[i].want && status != CTX_OK) fail_msg("%s:\n%s", cases[i].clauses, said.data);
        assert_int_equal(r.n, cases[i].n);
        if (cases[i].want) {
            assert_non_null(r.taken);
            assert_string_equal(r.taken, cases[i].want);
            if (!strstr(cases[i].clauses, "warps") || !cases[i].set)
                assert_string_equal(r.first, cases[i].want);
        } else {
            assert_null(r.taken);
        }
        ctx_destroy(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_the_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
