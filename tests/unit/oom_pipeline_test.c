// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The n-th allocation fails, from the command line to the results. Each run ends with CTX_NO_MEMORY
// and a freed context, or like a run with plenty of memory. A leak checker finds other leaks
// (files, mappings, objects of LLVM); with TEGULA_HOSTILE every block is a separate allocation.
#include "tests/unit/meter.h"
#include "tools/tegula/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_WORDS = 24 };

typedef struct Call {
    char *words[MAX_WORDS];
    int n;
    int code;
} Call;

static void invoke(Ctx *ctx, void *arg) {
    static int (*const commands[])(Ctx *, const Options *) = {
        [RUN_BIT] = cmd_run, [CHECK_BIT] = cmd_check, [FMT_BIT] = cmd_fmt, [EMIT_BIT] = cmd_emit};
    Call *call = arg;
    Options *o = ctx_new(ctx, Options);
    call->code = args_parse(ctx, call->n, call->words, o);
    if (call->code < 0) call->code = commands[o->command](ctx, o);
}

/// Runs once with allocation number n failing. Returns the number of allocations.
static long run(Call *call, long n, CtxStatus *status) {
    Meter meter = {.left = n};
    Allocator allocator = {metered, &meter};
    call->code = EXIT_BUG;
    Ctx *ctx = ctx_create(&allocator);
    *status = ctx ? ctx_protect(ctx, invoke, call) : CTX_NO_MEMORY;
    ctx_destroy(ctx);
    assert_int_equal(meter.alive, 0);
    return n - meter.left;
}

/// Tries the first and the last allocations, and evenly spread ones between them.
enum { ENDS = 10, SPREAD = 25 };

static long point(int i, long total) {
    if (i < ENDS) return i;
    if (i >= ENDS + SPREAD) return total - (i - ENDS - SPREAD) - 1;
    return total * (i - ENDS + 1) / (SPREAD + 1);
}

static void fail_everywhere(const char *line, CtxStatus expected) {
    char copy[512];
    Call call = {.n = 0};
    strncpy(copy, line, sizeof copy - 1)[sizeof copy - 1] = 0;
    for (char *w = strtok(copy, " "); w && call.n < MAX_WORDS; w = strtok(NULL, " "))
        call.words[call.n++] = w;
    CtxStatus status;
    long total = run(&call, INT32_MAX, &status);
    assert_int_equal(status, expected);
    if (status == CTX_OK) assert_int_equal(call.code, EXIT_OK);
    for (int i = 0; i < 2 * ENDS + SPREAD; i++) {
        long n = point(i, total);
        if (n < 0 || n >= total) continue;
        run(&call, n, &status);
        if (status != CTX_NO_MEMORY) fail_msg("%s: allocation %ld of %ld", line, n, total);
    }
}

#define KERNELS         TEST_DIR "/kernels/"
#define SOFTMAX(kernel) " " KERNELS "softmax.teg -q -j 1 -k " kernel " -a x=rand(5,20)"
#define ATTENTION                                                                                  \
    " " KERNELS "samples.teg -q -j 1 -k attention -a q=rand(1,2,4,8) -a k=rand(1,1,6,8)"           \
    " -a v=rand(1,1,6,8) -a scale=0.125 -a causal=true"

static void interpreter(void **state) {
    (void)state;
    fail_everywhere("run --target interp --check" SOFTMAX("softmax"), CTX_OK);
}

static void machine_code(void **state) {
    (void)state;
    fail_everywhere("run --target cpu --debug --check" SOFTMAX("softmax"), CTX_OK);
    fail_everywhere("run --target cpu" ATTENTION, CTX_OK);
}

static void messages(void **state) {
    (void)state;
    fail_everywhere("check " TEST_DIR "/unit/errors.teg", CTX_ERRORS);
    fail_everywhere("fmt --check " KERNELS "softmax.teg", CTX_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(interpreter),
                                       cmocka_unit_test(machine_code), cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
