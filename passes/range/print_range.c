// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// print-range: prints the facts of the range analysis, so that tests can check them.
//
//   %n = min %x, %y : i64   ->   the same, and print [text = "n: 0 .. 16, by 4"]
#include "passes/passes.h"
#include "passes/range/range.h"
#include "passes/util.h"

static void add_bound(Text *t, int64_t v) {
    if (v == INT64_MIN || v == INT64_MAX)
        text_add(t, "?");
    else
        text_add(t, "%lld", (long long)v);
}

static void print_fact(PassEnv *env, Ranges *r, Builder *b, const Value *v) {
    if (v->type->kind != TK_BLOCK || v->type->elem != EL_I64 || const_of(v)) return;
    int64_t lo, hi;
    Text t = {.ctx = ir_ctx(env->ir)};
    range_bounds(r, v, &lo, &hi);
    text_add(&t, "%s: ", v->name ? v->name : "value");
    add_bound(&t, lo);
    text_add(&t, " .. ");
    add_bound(&t, hi);
    text_add(&t, ", by %lld", (long long)range_divisor(r, v));
    Op *print = build_op(b, OP_PRINT, 0, NULL, 0, NULL, 0);
    op_set_str(env->ir, print, A_TEXT, t.data);
}

static void print_region_facts(PassEnv *env, Ranges *r, Region *region) {
    Builder b = {env->ir, region, region->first, (Loc){0}};
    for (int i = 0; i < region->n_args; i++) print_fact(env, r, &b, region->args[i]);
    for_each_op_safe(op, region) {
        ranges_at(r, op);
        for (int i = 0; i < op->n_regions && !op_has(op, PURE); i++)
            print_region_facts(env, r, op->regions[i]);
        b = build_after(env->ir, op);
        for (int i = 0; i < op->n_results; i++) print_fact(env, r, &b, result(op, i));
    }
}

void pass_print_range(PassEnv *env, Op *module) {
    for_each_kernel(k, module) print_region_facts(env, ranges_of(env->ir, k), k->regions[0]);
}
