// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words that other ranks write, on the simulator: the rank and word of each wait, the record of a
// late wait in the control block, and the order of a signal after its program's writes.
#include "sim_kernel.h"

#include "runtime/abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 64, WORDS = 4, SITE = 3, PEER = 5, NUMBER = 7 };

/// All threads wait for words[0]. Then lane numbers go to words[1] (set by the last lane) and
/// words[2] (added by all).
static void build_wait(SimKernel *k, const void *compare) {
    const Gen *g = k->g;
    char name[32] = "tg.wait.";
    strcat(name, compare);
    LLVMValueRef yes = LLVMConstInt(g->i1, 1, false), word = k->params[0];
    LLVMValueRef wait[7] = {word,
                            yes,
                            gen_i64(g, 9),
                            k->params[1],
                            gen_i64(g, SITE),
                            gen_i64(g, PEER),
                            gen_i64(g, NUMBER)};
    sim_call(k, name, 7, wait);
    LLVMValueRef wide = LLVMBuildZExt(g->b, k->thread, g->i64, "");
    LLVMValueRef last = LLVMBuildICmp(g->b, LLVMIntEQ, k->thread, sim_i32(k, THREADS - 1), "");
    LLVMValueRef set[3] = {gen_offset(g, word, gen_i64(g, 8)), last, wide};
    sim_call(k, "tg.signal.set", 3, set);
    LLVMValueRef add[3] = {gen_offset(g, word, gen_i64(g, 16)), yes, wide};
    sim_call(k, "tg.signal.add", 3, add);
}

static void run_wait(const char *target, const char *compare, int64_t *words, int64_t *control) {
    SimCase c = {.target = target, .threads = THREADS, .n_buffers = 2};
    SimFailure f;
    c.buffers[0] = sim_buffer(words, WORDS * 8, true);
    c.buffers[1] = sim_buffer(control, TG_CONTROL_WORDS * 8, true);
    c.build = build_wait;
    c.arg = compare;
    if (!sim_case_run(&c, &f)) fail_msg("%s", f.text);
}

static const char *const targets[] = {"sm_80", "sm_90a", "gfx942"};

static void goes_on(void **state) {
    static const struct {
        const char *compare;
        int64_t word;
    } cases[] = {{"eq", 9}, {"ne", 8}, {"gt", 10}, {"ge", 9}, {"lt", -1}, {"le", 9}};
    (void)state;
    for (size_t i = 0; i < 18; i++) {
        int64_t words[WORDS] = {cases[i % 6].word, -1, 100}, control[TG_CONTROL_WORDS] = {0};
        run_wait(targets[i / 6], cases[i % 6].compare, words, control);
        assert_int_equal(control[TG_CONTROL_FAILED], 0);
        assert_int_equal(words[1], THREADS - 1);
        assert_int_equal(words[2], 100 + THREADS * (THREADS - 1)); // it runs twice
    }
}

static void lasts_too_long(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        int64_t words[WORDS] = {8}, control[TG_CONTROL_WORDS] = {0, 1000000};
        run_wait(targets[i], "ge", words, control);
        assert_int_equal(control[TG_CONTROL_FAILED], 1);
        assert_int_equal(control[TG_CONTROL_SITE], SITE);
        assert_int_equal(control[TG_CONTROL_PEER], PEER);
        assert_int_equal(control[TG_CONTROL_NUMBER], NUMBER);
        assert_int_equal(control[TG_CONTROL_GIVE_UP], 0);
    }
}

/// Waits end if another rank has failed.
static void gives_up(void **state) {
    int64_t words[WORDS] = {8}, control[TG_CONTROL_WORDS] = {0, INT64_MAX, 2};
    (void)state;
    run_wait("sm_90a", "ge", words, control);
    assert_int_equal(control[TG_CONTROL_FAILED], 0);
}

/* ---- order after the program's writes ------------------------------------------------------- */

typedef struct Told {
    const char *target;
    bool fence, barrier; // between the lanes' writes and the first lane's signal
    const char *wrong;
} Told;

static void build_told(SimKernel *k, const void *arg) {
    const Told *how = arg;
    LLVMValueRef first = LLVMBuildICmp(k->g->b, LLVMIntEQ, k->thread, sim_i32(k, 0), "");
    LLVMValueRef set[3] = {k->params[0], first, gen_i64(k->g, 1)};
    sim_store(k, k->thread, k->params[1], sim_mul(k, k->thread, 4));
    if (how->fence) sim_call(k, "tg.fence.acq_rel.sys", 0, NULL);
    if (how->barrier) sim_call(k, "tg.barrier", 0, NULL);
    sim_call(k, "tg.signal.set", 3, set);
    sim_store(k, sim_i32(k, 0), k->params[1], sim_mul(k, k->thread, 4)); // the next part
}

static void tells_what_is_there(void **state) {
    static const Told cases[] = {
        {"sm_90a", false, true, NULL},
        {"sm_90a", false, false, "after the writes of thread"},
        {"gfx942", true, true, NULL},
        {"gfx942", true, false, "after the writes of thread"},
        {"gfx942", false, true, "no fence: tg.signal.set"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t words[WORDS] = {0};
        int32_t written[THREADS * 2] = {0}; // for two waves of AMD's
        SimCase c = {.target = cases[i].target, .threads = 2 * THREADS, .n_buffers = 2};
        SimFailure f;
        c.check = true;
        c.buffers[0] = sim_buffer(words, sizeof words, true);
        c.buffers[1] = sim_buffer(written, sizeof written, true);
        c.build = build_told;
        c.arg = &cases[i];
        bool good = sim_case_run(&c, &f);
        if (good != !cases[i].wrong || (!good && !strstr(f.text, cases[i].wrong)))
            fail_msg("case %zu: %s", i, good ? "nothing is found" : f.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on),
        cmocka_unit_test(lasts_too_long),
        cmocka_unit_test(gives_up),
        cmocka_unit_test(tells_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
