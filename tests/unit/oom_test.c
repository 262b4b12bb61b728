// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The n-th allocation fails, for every n: the IR is read, verified, copied, rewritten and printed.
// Each run ends with CTX_NO_MEMORY and all memory freed, or with success.
#include "ir/ir.h"
#include "tests/unit/meter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/// All of the work fits the arena's first chunk of 64 KiB. Padding before it moves the point at
/// which the chunk is full. A hostile build needs no padding, since each block is an allocation.
enum { PIECE = 1024 };
#ifdef TEGULA_HOSTILE
enum { CHUNK = PIECE };
#else
enum { CHUNK = 64 * 1024 };
#endif

typedef struct Work {
    int padding;
    size_t length; // length of the printed text
} Work;

static const char text[] =
    "module { kernel [name=\"k\"] {(%x: tensor<f32, ?x64, [?, 1]>, %n: i64)\n"
    "  %p = const [value=0.0] : f32\n"
    "  %s = for %n, %n, %p [step=1, name=\"k\"] : f32 {(%i: i64, %a: f32)\n"
    "    %v = load %x, %p, %i, %i, %n [subs=(at, axis 64)] : f32<64>\n"
    "    %r = reduce %v [axis=0] : f32 {(%b: f32, %c: f32) %d = add %b, %c : f32 yield %d }\n"
    "    %t = add %a, %r : f32\n"
    "    %u = mul %t, %t : f32\n"
    "    yield %t }\n"
    "  print %s [text=\"sum {}\"]\n"
    "  yield } }";

static void work(Ctx *ctx, void *arg) {
    Work *w = arg;
    for (int i = 0; i < w->padding; i += PIECE) ctx_alloc(ctx, PIECE);
    Ir *ir = ir_create(ctx);
    Op *module = ir_parse(ir, ctx_add_source(ctx, "oom.tir", text, strlen(text)));
    if (!module || !ir_verify(ir, module)) ctx_give_up(ctx);
    PtrMap map = {0};
    Builder nowhere = {.ir = ir};
    Op *copy = op_clone(&nowhere, module, &map);
    rewrite_all(ir, copy, NULL, 0);
    w->length = strlen(ir_to_text(ctx, copy));
}

/// Runs once with allocation number n failing.
static CtxStatus run(int padding, long n) {
    Meter meter = {.left = n};
    Allocator allocator = {metered, &meter};
    Work w = {.padding = padding};
    Ctx *ctx = ctx_create(&allocator);
    CtxStatus status = ctx ? ctx_protect(ctx, work, &w) : CTX_NO_MEMORY;
    assert_int_equal(w.length > 0, status == CTX_OK);
    ctx_destroy(ctx);
    assert_int_equal(meter.alive, 0);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int padding = 0; padding < CHUNK; padding += PIECE) {
        long n = 0;
        CtxStatus status;
        while ((status = run(padding, n)) == CTX_NO_MEMORY) {
            assert_true(n < 1000);
            n++;
        }
        assert_int_equal(status, CTX_OK);
        assert_true(n >= 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
