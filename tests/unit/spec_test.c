// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments of the command line: sources, views, and error messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/tegula/tensors.h"

#include <stdio.h>
#include <string.h>

typedef struct Case {
    const char *spec;
    bool scalar;
    Elem elem;
    const char *text; // result of text_of; NULL: an error
} Case;

/// "f32[2, 3] 0 1 2 3 4 5".
static const char *text_of(Ctx *ctx, const Argument *a) {
    if (a->kind == ARG_NULL) return "none";
    if (a->kind == ARG_SCALAR) return "scalar";
    const Tensor *t = &a->tensor;
    Text out = {.ctx = ctx};
    text_add(&out, "%s[", elem_info[t->elem].name);
    for (int i = 0; i < t->rank; i++)
        text_add(&out, "%s%lld", i ? ", " : "", (long long)t->extents[i]);
    text_add(&out, "]");
    Walk w = {0};
    int64_t n = tensor_count(t);
    for (int64_t i = 0; i < n; i++, walk_next(t, &w))
        text_add(&out, " %s", cell_text(ctx, t->elem, cell_load(t->elem, t->data, w.offset)));
    return out.data;
}

static const Case cases[] = {
    {"zeros(2,2)", false, EL_COUNT, "f32[2, 2] 0 0 0 0"},
    {"iota(2,3):i32", false, EL_COUNT, "i32[2, 3] 0 1 2 3 4 5"},
    {"iota(2,3):i32[::-1, 1:]", false, EL_COUNT, "i32[2, 2] 4 5 1 2"},
    {"iota(2,3):i32[1]", false, EL_COUNT, "i32[3] 3 4 5"},
    {"iota(2,3):i32[:, -1]", false, EL_COUNT, "i32[2] 2 5"},
    {"iota(6):i32[::-2]", false, EL_COUNT, "i32[3] 5 3 1"},
    {"iota(6):i32[4:1:-1]", false, EL_COUNT, "i32[3] 4 3 2"},
    {"iota(6):i32[4:1]", false, EL_COUNT, "i32[0]"},
    {"iota(6):i32[-100:100:5]", false, EL_COUNT, "i32[2] 0 5"},
    {"iota(2,3):i32:transpose", false, EL_COUNT, "i32[3, 2] 0 3 1 4 2 5"},
    {"iota(1,2,3):i32:permute(2,0,1)", false, EL_COUNT, "i32[3, 1, 2] 0 3 1 4 2 5"},
    {"iota(2):i32:expand(3,0)", false, EL_COUNT, "i32[3, 2] 0 1 0 1 0 1"},
    {"iota(2):i32:expand(3,1)", false, EL_COUNT, "i32[2, 3] 0 0 0 1 1 1"},
    {"iota(2,3):i32:fortran", false, EL_COUNT, "i32[2, 3] 0 1 2 3 4 5"},
    {"iota(2,3):i32:spread(0,3000000000)", false, EL_COUNT, "i32[2, 3] 0 1 2 3 4 5"},
    {"full(2,value=-1.5):f16", false, EL_COUNT, "f16[2] -1.5 -1.5"},
    {"ones(3)", false, EL_BF16, "bf16[3] 1 1 1"},
    {"iota(4):u4[2:]", false, EL_COUNT, "u4[2] 2 3"},
    {"zeros(0,5)", false, EL_COUNT, "f32[0, 5]"},
    {"none", false, EL_COUNT, "none"},
    {"3", true, EL_I32, "scalar"},
    {"-inf", true, EL_F32, "scalar"},
    {"true", true, EL_BOOL, "scalar"},
    {"7", false, EL_I32, "i32[] 7"},
    {"iota(4):u4[1:]", false, EL_COUNT, NULL},
    {"300", true, EL_U8, NULL},
    {"-1", true, EL_U32, NULL},
    {"1.5", true, EL_I32, NULL},
    {"rand(3)", true, EL_F32, NULL},
    {"sevens(3)", false, EL_COUNT, NULL},
    {"rand", false, EL_COUNT, NULL},
    {"rand(3", false, EL_COUNT, NULL},
    {"rand(-3)", false, EL_COUNT, NULL},
    {"rand(3,sed=1)", false, EL_COUNT, NULL},
    {"iota(3)[5]", false, EL_COUNT, NULL},
    {"iota(3)[::0]", false, EL_COUNT, NULL},
    {"iota(3)[:,:]", false, EL_COUNT, NULL},
    {"iota(3):permute(1)", false, EL_COUNT, NULL},
    {"iota(3):turn", false, EL_COUNT, NULL},
    {"iota(3,3):spread(0,2)", false, EL_COUNT, NULL},
    {"zeros(1,1,1,1,1,1,1,1,1)", false, EL_COUNT, NULL},
    {"zeros(9223372036854775807,9223372036854775807)", false, EL_COUNT, NULL},
    {"@/no/such/file.npy", false, EL_COUNT, NULL},
};

static void check_case(Ctx *ctx, void *arg) {
    const Case *c = arg;
    Argument a;
    Wanted wanted = {.name = "x", .scalar = c->scalar, .elem = c->elem, .fallback = EL_F32};
    for (int guard = 0; guard < 2; guard++) {
        wanted.guard = guard;
        bool ok = spec_make(ctx, c->spec, &wanted, &a);
        if (ok != (c->text != NULL)) fail_msg("%s: %s", c->spec, ok ? "was taken" : "was refused");
        if (ok && strcmp(text_of(ctx, &a), c->text) != 0)
            fail_msg("%s: %s, not %s", c->spec, text_of(ctx, &a), c->text);
    }
}

static void specs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Ctx *ctx = ctx_create(NULL);
        assert_int_equal(ctx_protect(ctx, check_case, (void *)&cases[i]), CTX_OK);
        ctx_destroy(ctx);
    }
}

static void make_random(Ctx *ctx, void *arg) {
    (void)arg;
    Argument a, b, c;
    Wanted x = {.name = "x", .elem = EL_COUNT, .fallback = EL_F64}, y = x;
    y.name = "y";
    assert_true(spec_make(ctx, "rand(1000)", &x, &a));
    assert_true(spec_make(ctx, "rand(1000)", &x, &b));
    assert_true(spec_make(ctx, "rand(1000)", &y, &c));
    const double *p = a.tensor.data;
    assert_memory_equal(p, b.tensor.data, 8000);
    assert_int_not_equal(memcmp(p, c.tensor.data, 8000), 0);
    double sum = 0;
    for (int i = 0; i < 1000; i++) {
        assert_true(p[i] >= 0 && p[i] < 1);
        sum += p[i];
    }
    assert_true(sum > 450 && sum < 550);
}

static void random_data(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    assert_int_equal(ctx_protect(ctx, make_random, NULL), CTX_OK);
    ctx_destroy(ctx);
}

static void lines(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    char **w;
    assert_int_equal(args_split(ctx, "  a 'b c'  \"d\\\" e\" f\\ g ''\t", &w), 5);
    assert_string_equal(w[0], "a");
    assert_string_equal(w[1], "b c");
    assert_string_equal(w[2], "d\" e");
    assert_string_equal(w[3], "f g");
    assert_string_equal(w[4], "");
    assert_int_equal(args_split(ctx, "a 'b", &w), -1);
    assert_int_equal(args_split(ctx, "", &w), 0);
    ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specs),
        cmocka_unit_test(random_data),
        cmocka_unit_test(lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
