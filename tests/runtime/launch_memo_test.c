// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches that resemble an earlier one: for any difference from the last launch, a context that
// remembers it behaves like one that has never launched.
#include "tests/runtime/wide.h"

#include "runtime/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 30000, MOST = 140, ATTEND = 6, COPY = 2, WIDE = 32 };

static float memory[4][4096], wide_memory[MOST][2 * WIDE];
static uint64_t seed = 1;

static int draw(int n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

/* ---- launched kernels ------------------------------------------------------------------------ */

/// Arguments and the data that they point to.
typedef struct Call {
    int n;
    DLTensor tensors[MOST];
    int64_t shapes[MOST][3], strides[MOST][3];
    bool strided[MOST], there[MOST], number[MOST];
    tg_arg args[MOST];
} Call;

/// Resets the pointers into the call, after a copy.
static void link_args(Call *c) {
    for (int i = 0; i < c->n; i++) {
        if (c->number[i]) continue;
        c->tensors[i].shape = c->shapes[i];
        c->tensors[i].strides = c->strided[i] ? c->strides[i] : NULL;
        c->args[i] = c->there[i] ? tg_tensor(&c->tensors[i]) : tg_none();
    }
}

static void set_tensor(Call *c, int i, int rank) {
    c->there[i] = true;
    c->tensors[i] = tg_dense(memory[i % 4], kDLFloat, 32, rank, NULL);
}

/// attend(q: T[N, D], bias?: T[D], o: T[N, D], causal: const bool, scale: T, k: i8)
static void begin_attend(Call *c) {
    *c = (Call){.n = ATTEND};
    set_tensor(c, 0, 2);
    set_tensor(c, 1, 1);
    set_tensor(c, 2, 2);
    for (int i = 0; i < 3; i++) {
        c->shapes[i][0] = i == 1 ? 64 : 16;
        c->shapes[i][1] = 64;
        c->strides[i][0] = i == 1 ? 1 : 64;
        c->strides[i][1] = 1;
    }
    for (int i = 3; i < 6; i++) c->number[i] = true;
    c->args[3] = tg_int(0);
    c->args[4] = tg_float(0.5);
    c->args[5] = tg_int(3);
    c->there[1] = false;
}

/// copy(x: f32[..R], y: f32[..R])
static void begin_copy(Call *c) {
    *c = (Call){.n = COPY};
    for (int i = 0; i < 2; i++) {
        set_tensor(c, i, 2);
        c->shapes[i][0] = 4;
        c->shapes[i][1] = c->strides[i][0] = 8;
        c->strides[i][1] = 1;
    }
}

/// Begins a call of the kernel of wide.h, which has more parameters than a word has bits, and more
/// than a signed byte can count.
static void begin_wide(Call *c) {
    memset(c, 0, sizeof *c);
    c->n = MOST;
    bool optional = draw(2);
    for (int i = 0; i < MOST; i++) {
        WideKind kind = wide_kind(MOST, i);
        c->number[i] = kind == WIDE_NUMBER;
        c->args[i] = tg_int(i);
        if (c->number[i]) continue;
        set_tensor(c, i, kind == WIDE_PACK ? 2 : 1);
        c->there[i] = kind != WIDE_OPTIONAL || optional;
        c->tensors[i].data = wide_memory[i];
        c->shapes[i][0] = kind == WIDE_PACK ? 4 : WIDE;
        c->shapes[i][1] = c->strides[i][0] = kind == WIDE_PACK ? WIDE / 4 : 1;
        c->strides[i][1] = 1;
    }
}

static void change_tensor(Call *c, int i) {
    static const int64_t extents[] = {16, 64, 128, 1, 0, 15, -1}, steps[] = {1, 64, 128, 0, 70, -1};
    DLTensor *t = &c->tensors[i];
    switch (draw(12)) {
    case 0: c->shapes[i][draw(2)] = extents[draw(7)]; break;
    case 1: c->strides[i][draw(2)] = steps[draw(6)]; break;
    case 2: c->strided[i] = !c->strided[i]; break;
    case 3: c->there[i] = !c->there[i]; break;
    case 4: t->dtype.bits = draw(2) ? 16 : 32; break;
    case 5: t->dtype.code = draw(3) ? kDLFloat : kDLInt; break;
    case 6: t->dtype.lanes = (uint16_t)(1 + draw(8) / 7); break;
    case 7: t->ndim = 1 + draw(3); break;
    case 8: t->data = draw(4) ? memory[draw(4)] : NULL; break;
    case 9: t->byte_offset = (uint64_t)(4 * draw(6)); break;
    case 10: t->device.device_type = draw(4) ? kDLCPU : kDLCUDA; break;
    default: t->device.device_id = draw(8) / 7;
    }
}

static void change(Call *c) {
    int i = draw(c->n);
    if (!c->number[i])
        change_tensor(c, i);
    else if (draw(2))
        c->args[i] = tg_int(draw(600) - 300);
    else if (draw(2))
        c->args[i] = tg_int(draw(2));
    else
        c->args[i] = tg_float(draw(100) / 8.0);
}

/// Moves few tensors, which mostly do not overlap an output. Now and then two tensors are one, or
/// nearly.
static void move_wide(Call *c) {
    for (int k = 0; k < 8; k++) {
        int i = draw(c->n);
        if (c->number[i])
            c->args[i] = tg_int(draw(100));
        else if (c->tensors[i].data)
            c->tensors[i].data = wide_memory[i] + 16 * draw(3);
    }
    int i = draw(c->n), j = draw(3) ? c->n - 1 : draw(c->n);
    if (draw(4) == 0 && !c->number[i] && !c->number[j])
        c->tensors[i].data = (float *)c->tensors[j].data + 16 * (draw(4) / 3);
}

/// Changes the call within the kind of the previous launch.
static void move(Call *c) {
    if (c->n == MOST) {
        move_wide(c);
        return;
    }
    for (int i = 0; i < c->n; i++)
        if (!c->number[i] && c->tensors[i].data && draw(2))
            c->tensors[i].data = memory[i % 4] + 16 * draw(8);
    if (c->n == ATTEND) c->args[5] = tg_int(draw(100));
    // In place, or nearly so.
    if (c->n == COPY && c->tensors[0].data && draw(3) == 0)
        c->tensors[1].data = (float *)c->tensors[0].data + 16 * (draw(4) / 3);
}

/* ---- results --------------------------------------------------------------------------------- */

typedef struct Outcome {
    tg_status status;
    char text[400];
    Seen seen;
    WideSeen wide; // for a wide kernel
} Outcome;

static void launch(tg_kernel *k, Call *c, Outcome *o) {
    memset(o, 0, offsetof(Outcome, wide));
    memset(&seen, 0, sizeof seen);
    if (c->n == MOST) memset(&wide_seen, 0, sizeof wide_seen);
    seen.variant = -1;
    link_args(c);
    o->status = tg_launch(k, c->args, c->n);
    if (o->status) snprintf(o->text, sizeof o->text, "%s", tg_last_error());
    if (c->n == MOST) o->wide = wide_seen;
    o->seen = seen;
    // Of a slot only the address or the number is compared. Its pointer to the shape may differ.
    memset(o->seen.slots, 0, sizeof o->seen.slots);
    for (int i = 0; i < 8; i++) o->seen.slots[i].bits = seen.slots[i].bits;
}

static void compare(const Outcome *a, const Outcome *b, int round) {
    if (a->status != b->status || strcmp(a->text, b->text) != 0)
        fail_msg("round %d: '%s' and, the first time, '%s'", round, a->text, b->text);
    assert_int_equal(a->seen.variant, b->seen.variant);
    assert_memory_equal(&a->seen, &b->seen, sizeof a->seen);
}

static void as_the_first_time(void **state) {
    (void)state;
    static Wide wide;
    static tg_kernel *const kernels[] = {&attend, &copy, &wide.kernel};
    static void (*const begin[])(Call * c) = {begin_attend, begin_copy, begin_wide};
    static Call calls[3], before;
    static Outcome warm, cold;
    tg_options options = {.size = sizeof options, .threads = 1};
    int fine = 0, bad = 0, wide_fine = 0;
    tg_context *own; // with one thread, since random strides let elements of an output overlap
    assert_int_equal(tg_context_create(&options, &own), TG_OK);
    tg_context_use(own);
    wide_make(&wide, MOST);
    wide_launched = &wide;
    for (int which = 0; which < 3; which++) begin[which](&calls[which]);
    for (int round = 0; round < ROUNDS; round++) {
        int which = draw(24) ? draw(2) : 2;
        Call *c = &calls[which];
        tg_context *context;
        before = *c;
        if (draw(5) < 2)
            change(c);
        else
            move(c);
        launch(kernels[which], c, &warm);
        assert_int_equal(tg_context_create(&options, &context), TG_OK);
        tg_context_use(context);
        launch(kernels[which], c, &cold);
        tg_context_use(own);
        tg_context_destroy(context);
        compare(&warm, &cold, round);
        if (which == 2) assert_memory_equal(&warm.wide, &cold.wide, sizeof warm.wide);
        *(warm.status ? &bad : &fine) += 1;
        wide_fine += !warm.status && which == 2;
        // Most changes are refused. Then the call is restored.
        if (warm.status && draw(which == 2 ? 20 : 3)) *c = before;
        if (draw(50) == 0) begin[which](c);
    }
    tg_context_use(NULL);
    tg_context_destroy(own);
    print_message("%d launches, %d of them wide, %d refused\n", fine, wide_fine, bad);
    assert_true(wide_fine > ROUNDS / 60 && fine > ROUNDS / 4 && bad > ROUNDS / 20);
}

/* ---- entries --------------------------------------------------------------------------------- */

static int32_t first_entry(const tg_slot *args, const tg_env *env) {
    (void)args, (void)env;
    seen.variant = 1;
    return 0;
}
static int32_t second_entry(const tg_slot *args, const tg_env *env) {
    (void)args, (void)env;
    seen.variant = 2;
    return 0;
}

/// Another kernel at the same address, and an adopted variant.
static void other_kernels(void **state) {
    (void)state;
    float x[8] = {1}, y[8];
    int64_t n = 8;
    DLTensor tx = row(x, &n), ty = row(y, &n);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    tg_variant variants[2] = {tiny.info->variants[0], tiny.info->variants[0]};
    tg_kernel_info info = *tiny.info;
    tg_kernel kernel;
    info.n_variants = 1;
    for (int i = 0; i < 6; i++) {
        variants[0].entry = i % 2 ? first_entry : second_entry;
        info.variants = variants;
        kernel = (tg_kernel){.abi = TG_ABI, .info = &info};
        for (int k = 0; k < 3; k++) {
            seen.variant = 0;
            assert_int_equal(tg_launch(&kernel, args, 2), TG_OK);
            assert_int_equal(seen.variant, i % 2 ? 1 : 2);
        }
        variants[1].entry = i % 2 ? second_entry : first_entry;
        variants[1].tuned = 1;
        assert_int_equal(tg_kernel_adopt(&kernel, &variants[1]), TG_OK);
        assert_int_equal(tg_launch(&kernel, args, 2), TG_OK);
        assert_int_equal(seen.variant, i % 2 ? 2 : 1);
        tg_kernel_close(&kernel);
    }
}

/// A kernel with two variants, the first of them for launches with the fact.
typedef struct Choice {
    tg_variant variants[2];
    tg_kernel_info info;
    tg_kernel kernel;
} Choice;

static void choose_by(Choice *c, const tg_fact *fact) {
    *c = (Choice){.variants = {tiny.info->variants[0], tiny.info->variants[0]}, .info = *tiny.info};
    c->kernel = (tg_kernel){.abi = TG_ABI, .info = &c->info};
    c->variants[0].facts = fact;
    c->variants[0].n_facts = 1;
    c->variants[0].entry = first_entry;
    c->variants[1].n_facts = 0;
    c->variants[1].entry = second_entry;
    c->info.variants = c->variants;
    c->info.n_variants = 2;
}

/// Facts also depend on addresses: alignment to 16 bytes, to exactly 8, to 8 or more, or to
/// elements.
static void alignment(void **state) {
    (void)state;
    static const struct {
        tg_fact fact;
        int right[4]; // offset in elements from a multiple of 16 bytes
    } rows[] = {{{TG_FACT_ALIGN, 0, 0, 0, 0, 1}, {1, 0, 0, 0}},
                {{TG_FACT_ALIGN, 0, 0, 0, 0, 2}, {0, 0, 1, 0}},
                {{TG_FACT_ALIGN, 0, 0, 0, 0, 3}, {1, 0, 1, 0}},
                {{TG_FACT_ALIGN, 0, 0, 0, 0, 16}, {0, 1, 0, 1}}};
    _Alignas(64) float x[16] = {1}, y[16];
    int64_t n = 8;
    DLTensor tx = row(x, &n), ty = row(y, &n);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        Choice c;
        choose_by(&c, &rows[k].fact);
        for (int i = 0; i < 24; i++) {
            tx.data = x + i / 3 % 8;
            assert_int_equal(tg_launch(&c.kernel, args, 2), TG_OK);
            assert_int_equal(seen.variant, rows[k].right[i / 3 % 4] ? 1 : 2);
        }
        tg_kernel_close(&c.kernel);
    }
}

/// The alignment for copies of a tensor follows from its address and from the strides of axes with
/// more than one element. It counts only if it exceeds an element.
static void widths(void **state) {
    (void)state;
    static const struct {
        int bits, offset;
        int64_t shape[2], strides[2];
        int wanted;
    } rows[] = {{16, 0, {9, 9}, {4008, 1}, 16}, {16, 0, {9, 9}, {4004, 1}, 8},
                {16, 0, {9, 9}, {4002, 1}, 4},  {16, 0, {9, 9}, {4001, 1}, 1},
                {16, 8, {9, 9}, {4008, 1}, 8},  {16, 4, {9, 9}, {4004, 1}, 4},
                {16, 2, {9, 9}, {4008, 1}, 1},  {16, 0, {1, 9}, {4001, 1}, 16},
                {16, 0, {9, 9}, {0, 1}, 16},    {16, 0, {9, 9}, {-4008, 1}, 1},
                {16, 0, {9, 9}, {1, 4004}, 8},  {32, 0, {9, 9}, {4002, 1}, 8},
                {32, 0, {9, 9}, {4001, 1}, 1},  {64, 0, {9, 9}, {4002, 1}, 16},
                {64, 0, {9, 9}, {4001, 1}, 1},  {8, 0, {9, 9}, {4004, 1}, 4},
                {8, 0, {9, 9}, {4002, 1}, 1},   {4, 0, {9, 9}, {4008, 1}, 4}};
    _Alignas(64) char data[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(
            tg_alignment(data + rows[i].offset, 2, rows[i].shape, rows[i].strides, rows[i].bits),
            rows[i].wanted);
}

/// Whether a tensor is near follows from the end of its last element. A remembered launch of
/// another tensor must not hide that.
static void span(void **state) {
    (void)state;
    static const tg_fact near = {TG_FACT_NEAR, 0, 0, 0, 0, 1};
    // Seven strides and an element end at byte 2^31 - 12 in the second row, and at byte 2^31 + 16
    // in the third.
    static const struct {
        int64_t stride;
        int variant;
    } rows[] = {{1, 1}, {76695844, 1}, {76695845, 2}, {1 << 30, 2}, {0, 1}, {1 << 20, 1}};
    float both[32] = {1}, *y = both, *x = both + 16; // nothing follows x
    int64_t n = 8, stride;
    DLTensor tx = row(x, &n), ty = row(y, &n);
    tg_arg args[2] = {tg_tensor(&tx), tg_tensor(&ty)};
    Choice c;
    choose_by(&c, &near);
    tx.strides = &stride;
    for (size_t i = 0; i < 3 * sizeof rows / sizeof *rows; i++) {
        stride = rows[i / 3].stride;
        assert_int_equal(tg_launch(&c.kernel, args, 2), TG_OK);
        assert_int_equal(seen.variant, rows[i / 3].variant);
    }
    tg_kernel_close(&c.kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_first_time),
                                       cmocka_unit_test(other_kernels), cmocka_unit_test(alignment),
                                       cmocka_unit_test(widths), cmocka_unit_test(span)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
