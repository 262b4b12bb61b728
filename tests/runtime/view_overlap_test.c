// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the overlaps of views with a count of their bytes, for random views of small memory.
#include "runtime/base/view_overlap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 1024, MIDDLE = BYTES / 2, RANK = 4, PAIRS = 1000000 };

static uint64_t state = 88172645463325252u;

static int64_t draw(int64_t n) { // Returns a number below n.
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int64_t)(state % (uint64_t)n);
}

typedef struct Drawn {
    int64_t shape[RANK], strides[RANK];
    rt_view view;
} Drawn;

/// Makes strides of every kind: any, multiples of one number, those of dense rows with gaps.
static void draw_view(Drawn *x, char *memory) {
    static const int bits[] = {4, 8, 16, 32, 64};
    int kind = (int)draw(3);
    int64_t step = 1 + draw(3);
    x->view = (rt_view){.data = memory + MIDDLE + draw(17) - 8,
                        .shape = x->shape,
                        .strides = x->strides,
                        .rank = (int)draw(RANK + 1),
                        .bits = bits[draw(5)]};
    for (int d = x->view.rank - 1; d >= 0; d--) {
        x->shape[d] = draw(40) ? 1 + draw(4) : 0;
        x->strides[d] = kind == 0 ? draw(9) - 4 : kind == 1 ? step * (draw(5) - 2) : step;
        if (kind == 2) step *= x->shape[d] + draw(2);
        if (kind == 2 && draw(4) == 0) x->strides[d] = -x->strides[d];
        if (x->strides[d] > 5 || x->strides[d] < -5) x->strides[d] %= 6;
    }
}

/// The 4-bit halves of memory, a bit each.
typedef struct Halves {
    uint64_t words[2 * BYTES / 64];
} Halves;

/// False: the element was there.
static bool add_element(Halves *h, int64_t first, int64_t width) {
    uint64_t bits = (((uint64_t)1 << width) - 1) << first % 64, *at = &h->words[first / 64];
    bool more = first % 64 + width > 64, fresh = !(*at >> first % 64 & 1);
    assert_true(first >= 0 && first + width <= 2 * BYTES);
    *at |= bits;
    if (more) at[1] |= (((uint64_t)1 << width) - 1) >> (64 - first % 64);
    return fresh;
}

/// False: two elements overlap.
static bool mark(const Drawn *x, const char *memory, Halves *halves) {
    int64_t at[RANK] = {0}, element = 0, width = x->view.bits / 4;
    int64_t start = 2 * ((const char *)x->view.data - memory);
    bool once = true;
    memset(halves, 0, sizeof *halves);
    for (int d = 0; d < x->view.rank; d++)
        if (x->shape[d] == 0) return true;
    for (int d = 0; d >= 0;) {
        once &= add_element(halves, start + element * width, width);
        for (d = x->view.rank - 1; d >= 0; d--) {
            element += x->strides[d];
            if (++at[d] < x->shape[d]) break;
            element -= at[d] * x->strides[d];
            at[d] = 0;
        }
    }
    return once;
}

static bool share(const Halves *x, const Halves *y) {
    const uint64_t low = 0x5555555555555555u;
    uint64_t both = 0;
    for (int i = 0; i < 2 * BYTES / 64; i++) {
        uint64_t a = x->words[i], b = y->words[i];
        both |= (a | a >> 1) & (b | b >> 1) & low;
    }
    return both;
}

static void agrees_with_counting(void **unused) {
    (void)unused;
    static char memory[BYTES];
    Halves halves[2];
    int counts[2][2] = {{0}};
    for (int i = 0; i < PAIRS; i++) {
        Drawn x, y;
        draw_view(&x, memory);
        draw_view(&y, memory);
        bool once = mark(&x, memory, &halves[0]);
        (void)mark(&y, memory, &halves[1]);
        bool meet = share(&halves[0], &halves[1]);
        assert_int_equal(rt_view_meets_itself(&x.view), once ? RT_APART : RT_MEET);
        assert_int_equal(rt_views_meet(&x.view, &y.view), meet ? RT_MEET : RT_APART);
        counts[0][once]++;
        counts[1][meet]++;
    }
    printf("%d pairs of views: %d meet, %d do not; of %d views %d meet themselves\n", PAIRS,
           counts[1][1], counts[1][0], PAIRS, counts[0][0]);
    assert_true(counts[0][0] > PAIRS / 20 && counts[0][1] > PAIRS / 20);
    assert_true(counts[1][0] > PAIRS / 20 && counts[1][1] > PAIRS / 20);
}

static rt_meeting meet(const void *x, const void *y, int rank, const int64_t *shape,
                       const int64_t *strides) {
    rt_view a = {x, shape, strides, rank, 32}, b = {y, shape, strides, rank, 32};
    return rt_views_meet(&a, &b);
}

/// Views of fused projections, caches and complex numbers, too large to count.
static void large_views(void **unused) {
    (void)unused;
    const char *at = (const char *)(uintptr_t)0x10000;
    int64_t big = INT64_C(1) << 26;
    int64_t rows[2] = {big, 128}, apart[2] = {384, 1}, pairs[1] = {big}, two[1] = {2};
    assert_int_equal(meet(at, at + 4 * 128, 2, rows, apart), RT_APART);
    assert_int_equal(meet(at, at + 4 * 127, 2, rows, apart), RT_MEET);
    assert_int_equal(meet(at, at + 4 * (256 + 384 * 1000), 2, rows, apart), RT_APART);
    assert_int_equal(meet(at, at + 4, 1, pairs, two), RT_APART);
    assert_int_equal(meet(at, at + 8 * (big - 1), 1, pairs, two), RT_MEET);
    int64_t heads[4] = {64, 32, 4096, 64}, of[4] = {64 * 32 * 8192, 64 * 8192, 64, 1};
    assert_int_equal(meet(at, at + INT64_C(4) * 4096 * 64, 4, heads, of), RT_APART);
    assert_int_equal(meet(at, at + INT64_C(4) * 4095 * 64, 4, heads, of), RT_MEET);
}

/// Any strides give an answer. If the search ends early, the answer says so.
static void search_is_limited(void **unused) {
    (void)unused;
    int undecided = 0, n = 200;
    for (int i = 0; i < n; i++) {
        int64_t shape[2][8], strides[2][8];
        for (int v = 0; v < 2; v++)
            for (int d = 0; d < 8; d++) {
                shape[v][d] = 2 + draw(1000);
                strides[v][d] = 8 * (1000000 + draw(1000000));
            }
        rt_view x = {(void *)(uintptr_t)0x10000, shape[0], strides[0], 8, i % 2 ? 4 : 32};
        rt_view y = {(void *)(uintptr_t)(0x10004 + draw(1000)), shape[1], strides[1], 8, 32};
        undecided += rt_views_meet(&x, &y) == RT_UNDECIDED;
    }
    assert_true(undecided > 0);
    printf("%d of %d pairs with eight strides of seven digits: undecided\n", undecided, n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_counting),
        cmocka_unit_test(large_views),
        cmocka_unit_test(search_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
