// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The way from arguments to an instance (driver/request.h). The arguments of a launch, and a
// caller's description of the same tensors, make the same instance. Settings reach the kernels that
// they are for.
#include "tests/tune/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void in_context(void (*test)(Ctx *ctx, void *arg)) {
    Ctx *ctx = ctx_create(NULL);
    assert_int_equal(ctx_protect(ctx, test, NULL), CTX_OK);
    assert_int_equal(diag_errors(ctx), 0);
    ctx_destroy(ctx);
}

/// The same request, as the command line makes it: of tensors instead of a launch's arguments.
static Request described(Ctx *ctx, const Request *r) {
    Request out = *r;
    ParamInst *params = ctx_array(ctx, ParamInst, r->n_args + 1);
    for (int i = 0; i < r->n_args; i++) {
        const tg_actual *a = &r->args[i];
        Tensor t = {.elem = elem_of_dlpack(a->code, a->bits), .rank = a->rank};
        for (int d = 0; d < a->rank; d++) {
            t.extents[d] = a->shape[d];
            t.strides[d] = a->strides[d];
        }
        request_describe_tensor(&params[i], &t, a->align);
    }
    out.args = NULL;
    out.params = params;
    return out;
}

static tg_variant *variant_of(Ctx *ctx, const Request *r) {
    Build b;
    assert_true(request_build(ctx, r, &b) && build_elaborate(&b));
    return build_variant(&b, TG_LEVEL_BASE, FACTS_EXACT);
}

static void check_alike(Ctx *ctx, const Request *r) {
    Request other = described(ctx, r);
    const tg_variant *a = variant_of(ctx, r), *b = variant_of(ctx, &other);
    assert_string_equal(a->config, b->config);
    assert_int_equal(a->n_facts, b->n_facts);
    assert_memory_equal(a->facts, b->facts, sizeof *a->facts * (size_t)a->n_facts);
    assert_int_equal(a->n_hints, b->n_hints);
    assert_memory_equal(a->hints, b->hints, sizeof *a->hints * (size_t)a->n_hints);
}

static void descriptions_agree(Ctx *ctx, void *arg) {
    (void)arg;
    static const char *const targets[] = {"v3", "sm_90a", "gfx942"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        Request all[] = {matmul_request(ctx, targets[i], 512, 512, 512),
                         half_request(ctx, targets[i], 96, 80, 72),
                         softmax_request(ctx, targets[i], 48, 100)};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) check_alike(ctx, &all[k]);
        tg_actual *args = (tg_actual *)(uintptr_t)all[0].args;
        for (int a = 0; a < all[0].n_args; a++) args[a].align = 4;
        check_alike(ctx, &all[0]);
    }
}

static const Inst *instance_of(Ctx *ctx, const Request *r) {
    Build b;
    assert_true(request_build(ctx, r, &b));
    return b.inst;
}

/// A tune value that only softmax has does not reach a product. An axis of the schedule reaches
/// every kernel.
static void settings_reach_their_kernels(Ctx *ctx, void *arg) {
    (void)arg;
    const NamedValue set[] = {{"BR", 4}, {"BM", 32}, {"warps", 8}};
    Request r = matmul_request(ctx, "sm_90a", 512, 512, 512);
    r.set = set;
    r.n_set = 3;
    const Inst *inst = instance_of(ctx, &r);
    assert_int_equal(inst->n_set, 2);
    assert_string_equal(inst->set[0].name, "BM");
    assert_string_equal(inst->set[1].name, "warps");
    r.own_set = true;
    assert_int_equal(instance_of(ctx, &r)->n_set, 3);
}

static void values_are_pinned(Ctx *ctx, void *arg) {
    (void)arg;
    const NamedValue given[] = {{"K", 512}};
    Request r = matmul_request(ctx, "v3", 512, 512, 512);
    request_pin(ctx, &r, "BM", 32);
    request_pin(ctx, &r, "BN", 64);
    request_pin(ctx, &r, "BM", 16);
    assert_int_equal(r.n_set, 2);
    assert_int_equal(value_of_name(r.n_set, r.set, "BM")->value, 16);
    r.given = given;
    r.n_given = 1;
    r.check = r.tentative = true;
    const Inst *inst = instance_of(ctx, &r);
    assert_true(inst->check && inst->tentative);
    assert_int_equal(inst->n_dims, 1);
    assert_int_equal(inst->dims[0].value, 512);
}

static void test_descriptions(void **state) {
    (void)state;
    in_context(descriptions_agree);
}

static void test_settings(void **state) {
    (void)state;
    in_context(settings_reach_their_kernels);
}

static void test_pins(void **state) {
    (void)state;
    in_context(values_are_pinned);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_pins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
