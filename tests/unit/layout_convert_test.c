// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Executes conversions between layouts: each register of each thread starts with the number of its
// element, and after the plan it must hold the number for the target layout.
#include "layout_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* ---- machine --------------------------------------------------------------------------------- */

enum { UNKNOWN = -1 };

typedef struct Registers {
    int64_t threads, n;
    int64_t *value; // [thread][register]
} Registers;

static Registers registers_of(const Layout *l) {
    Registers r = {(int64_t)1 << layout_thread_bits(l), layout_registers(l), NULL};
    r.value = malloc((size_t)(r.threads * r.n) * sizeof *r.value);
    for (int64_t i = 0; i < r.threads * r.n; i++) r.value[i] = UNKNOWN;
    return r;
}

static int64_t element_number(const Layout *l, const int64_t *x) {
    int64_t at = 0;
    for (int d = 0; d < l->rank; d++) at = at * l->extents[d] + x[d];
    return at;
}

static void fill(Registers *r, const Layout *l) {
    for (int64_t t = 0; t < r->threads; t++)
        for (int64_t i = 0; i < r->n; i++) {
            int64_t x[MAX_RANK];
            layout_at(l, i, t, x);
            if (!layout_is_hole(l, x)) r->value[t * r->n + i] = element_number(l, x);
        }
}

static void check_filled(const Registers *r, const Layout *l, const char *what) {
    for (int64_t t = 0; t < r->threads; t++)
        for (int64_t i = 0; i < r->n; i++) {
            int64_t x[MAX_RANK];
            layout_at(l, i, t, x);
            if (!layout_is_hole(l, x) && r->value[t * r->n + i] != element_number(l, x))
                fail_msg("%s: thread %d, register %d", what, (int)t, (int)i);
        }
}

/// Swaps within each repeat of 2^bits registers.
static void run_swaps(Registers *r, const ConvertSwap *swaps, int n) {
    int64_t *old = malloc((size_t)r->n * sizeof *old);
    for (int k = 0; k < n; k++)
        for (int64_t t = 0; t < r->threads; t++) {
            int64_t *v = r->value + t * r->n;
            memcpy(old, v, (size_t)r->n * sizeof *old);
            if (parity((Bits)t & swaps[k].mask))
                for (int64_t i = 0; i < r->n; i++) v[i] = old[i ^ (int64_t)swaps[k].reg];
        }
    free(old);
}

static void run_exchange(const Conversion *c, const Layout *a, const Layout *b, Registers *from,
                         Registers *to) {
    int64_t lanes = (int64_t)1 << a->bits[LEVEL_LANE];
    run_swaps(from, c->before, c->n_before);
    int64_t extra = (int64_t)1 << c->n_extra, rounds = (int64_t)1 << c->round_bits;
    for (int64_t i = 0; i < layout_repeats(b) * rounds * extra; i++)
        for (int64_t t = 0; t < to->threads; t++) {
            int64_t e = i % extra, n = i / extra % rounds, repeat = i / extra / rounds;
            int64_t lane =
                (int64_t)(f2_apply(&c->from_round, (Bits)n) ^ f2_apply(&c->from_thread, (Bits)t));
            int64_t sender = (t & ~(lanes - 1)) | lane;
            Bits s = f2_apply(&c->send, (Bits)n), mine = 0;
            for (int k = 0; k < c->n_extra; k++) {
                s ^= e >> k & 1 ? c->extra[k].reg : 0;
                mine |= (Bits)parity((Bits)t & c->extra[k].mask) << k;
            }
            assert_true(lane < lanes);
            if (convert_stays(c, b, n)) assert_int_equal(sender, t);
            if (mine == (Bits)e)
                to->value[t * to->n + (repeat << b->bits[0] | n)] =
                    from->value[sender * from->n + (repeat << a->bits[0] | (int64_t)s)];
        }
    run_swaps(to, c->after, c->n_after);
}

/* ---- shared memory --------------------------------------------------------------------------- */

typedef struct Memory {
    int64_t *value;
    int64_t *writer;
    int64_t n;
} Memory;

/// Visits every vector. Its elements must be adjacent and aligned.
static void run_access(const Layout *l, const SharedLayout *s, const SharedAccess *a, Registers *r,
                       Memory *m, Bits owner, bool write, LayoutLevel scope) {
    int64_t group = 1; // number of synchronised threads
    for (int level = LEVEL_LANE; level <= (int)scope; level++) group <<= l->bits[level];
    int64_t vector = (int64_t)s->elem_bytes << a->vec_bits;
    for (int64_t t = 0; t < r->threads; t++) {
        if (write && ((Bits)t & owner)) continue;
        for (int64_t i = 0; i < r->n >> a->vec_bits; i++) {
            int64_t reg = i >> a->n_base << l->bits[LEVEL_REG], x[MAX_RANK];
            for (int j = 0; j < a->n_base; j++)
                if (i >> j & 1) reg ^= (int64_t)a->base[j];
            layout_at(l, reg, t, x);
            int64_t start = shared_offset(s, x);
            assert_int_equal(start % vector, 0);
            for (int64_t e = 0; e < (int64_t)1 << a->vec_bits; e++) {
                int64_t q = reg;
                for (int j = 0; j < a->vec_bits; j++)
                    if (e >> j & 1) q ^= (int64_t)a->vec[j];
                layout_at(l, q, t, x);
                if (layout_is_hole(l, x)) continue;
                int64_t at = shared_offset(s, x);
                assert_int_equal(at, start + e * s->elem_bytes);
                assert_in_range(at, 0, s->bytes - s->elem_bytes);
                int64_t *v = &r->value[t * r->n + q];
                if (write) {
                    assert_int_equal(m->value[at], UNKNOWN); // each element has one writer
                    m->value[at] = *v;
                    m->writer[at] = t / group;
                } else {
                    *v = m->value[at];
                    assert_int_equal(m->writer[at], t / group);
                }
            }
        }
    }
}

static void run_shared(const Conversion *c, const Layout *a, const Layout *b, Registers *from,
                       Registers *to) {
    Memory m = {.n = c->shared.bytes};
    m.value = malloc((size_t)m.n * sizeof *m.value);
    m.writer = malloc((size_t)m.n * sizeof *m.writer);
    for (int64_t i = 0; i < m.n; i++) m.value[i] = m.writer[i] = UNKNOWN;
    run_access(a, &c->shared, &c->write, from, &m, c->owner, true, c->scope);
    run_access(b, &c->shared, &c->read, to, &m, 0, false, c->scope);
    assert_int_equal(c->write_conflicts,
                     shared_conflicts_counted(a, &c->shared, &c->write, BANKS_IN_ORDER, true));
    assert_int_equal(c->read_conflicts,
                     shared_conflicts_counted(b, &c->shared, &c->read, BANKS_IN_ORDER, true));
    free(m.value);
    free(m.writer);
}

static void check_plan(const Conversion *c, const Layout *a, const Layout *b) {
    static const char *const names[] = {"none", "rename", "select", "shuffle", "shared", "address"};
    Registers from = registers_of(a), to = registers_of(b);
    fill(&from, a);
    if (c->kind == CONVERT_NONE)
        fill(&to, a);
    else if (c->kind < CONVERT_SHARED)
        run_exchange(c, a, b, &from, &to);
    else
        run_shared(c, a, b, &from, &to);
    check_filled(&to, b, names[c->kind]);
    free(from.value);
    free(to.value);
}

static ConvertKind check_conversion(const Layout *a, const Layout *b, int elem_bits) {
    Conversion c = layout_convert(a, b, elem_bits), s = layout_convert_shared(a, b, elem_bits);
    Conversion near;
    check_plan(&c, a, b);
    check_plan(&s, a, b);
    bool inside = layout_convert_near(a, b, elem_bits, &near);
    if (inside) check_plan(&near, a, b);
    if (s.kind == CONVERT_SHARED && s.scope <= LEVEL_LANE) assert_true(inside);
    if (s.kind == CONVERT_SHARED && a->bits[LEVEL_LANE] == 5) {
        assert_int_equal(s.write_conflicts, 1);
        assert_int_equal(s.read_conflicts, 1);
    }
    return c.kind;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static int random_element(Random *rnd) {
    return 8 << random_below(rnd, 4);
}

static void random_pairs(void **state) {
    (void)state;
    Random rnd = {11};
    int n[6] = {0};
    for (int trial = 0; trial < 1500; trial++) {
        Ctx *ctx = ctx_create(NULL);
        Shape s = random_shape(&rnd);
        if (trial % 2) s.box.bits[LEVEL_LANE] = 5;
        const Layout *a = random_layout(ctx, &rnd, s);
        if (trial % 7 == 0) s.box.bits[LEVEL_WARP] = (uint8_t)random_below(&rnd, 3);
        const Layout *b = random_layout(ctx, &rnd, s);
        n[check_conversion(a, b, random_element(&rnd))]++;
        ctx_destroy(ctx);
    }
    for (int k = CONVERT_SHUFFLE; k <= CONVERT_SHARED; k++) assert_true(n[k] > 100);
}

/// b is a with a random change of registers and lanes only. The conversion must stay in the warp,
/// and without copies always has a plan without shared memory.
static void random_exchanges(void **state) {
    (void)state;
    Random rnd = {12};
    int n[6] = {0};
    for (int trial = 0; trial < 1000; trial++) {
        Ctx *ctx = ctx_create(NULL);
        const Layout *a = random_layout(ctx, &rnd, random_shape(&rnd));
        Layout l = *a;
        int bits = a->bits[LEVEL_REG] + (trial % 3 ? a->bits[LEVEL_LANE] : 0);
        for (int k = random_below(&rnd, 12); k >= 0 && bits > 1; k--) {
            int i = random_below(&rnd, bits), j = random_below(&rnd, bits);
            Bits t = l.col[i];
            if (i == j) continue;
            l.col[i] = random_below(&rnd, 2) ? l.col[j] : l.col[i] ^ l.col[j];
            if (l.col[i] == l.col[j]) l.col[j] = t;
        }
        const Layout *b = layout_unique(ctx, &l);
        Conversion c = layout_convert_shared(a, b, 32);
        if (layout_registers(a) == layout_registers(b)) {
            assert_true(c.kind == CONVERT_NONE || c.scope <= LEVEL_LANE || layout_owner(a));
            n[check_conversion(a, b, random_element(&rnd))]++;
        }
        ctx_destroy(ctx);
    }
    for (int k = CONVERT_NONE; k <= CONVERT_SHUFFLE; k++) assert_true(n[k] > 10);
}

static void different_boxes(void **state) {
    (void)state;
    Random rnd = {13};
    static const int64_t extents[] = {1, 7, 48, 96, 112, 160, 192};
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++) {
            Ctx *ctx = ctx_create(NULL);
            int64_t e[] = {extents[i], extents[j]};
            if (e[0] * e[1] > 8000) e[0] = 7;
            BlockAccess row = {.rank = 2,
                               .elem_bits = 16,
                               .extents = e,
                               .contiguous = 1,
                               .align_bytes = 16,
                               .lane_bits = 5,
                               .warp_bits = 2,
                               .max_bytes = 16};
            BlockAccess column = row;
            column.elem_bits = 32, column.contiguous = 0, column.align_bytes = 4;
            const Layout *mma = layout_of(ctx, "[16x8; reg (0,1) (8,0); lane (0,2) (0,4) (1,0) "
                                               "(2,0) (4,0)]");
            const Layout *l[] = {layout_blocked(ctx, &row), layout_blocked(ctx, &column),
                                 layout_tile(ctx, mma, e, (int[]){2, 2})};
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++) check_conversion(l[a], l[b], random_element(&rnd));
            ctx_destroy(ctx);
        }
}

/// The gathered parts of a reduction reach every thread.
static void gathered_parts(void **state) {
    (void)state;
    Random rnd = {14};
    int n = 0;
    for (int trial = 0; trial < 300; trial++) {
        Ctx *ctx = ctx_create(NULL);
        const Layout *l = random_layout(ctx, &rnd, random_shape(&rnd));
        LayoutReduction r = layout_reduce(ctx, l, random_below(&rnd, l->rank));
        if (r.partial) check_conversion(r.partial, r.gathered, 32);
        if (r.in_cta) check_conversion(r.partial, r.in_cta, 32);
        if (r.by_cta) check_conversion(r.by_cta, r.of_ctas, 32);
        assert_int_equal(r.n_level[LEVEL_CTA] > 0, r.by_cta != NULL);
        if (r.by_cta && !r.in_cta) assert_ptr_equal(r.by_cta, r.partial);
        n += r.partial != NULL;
        ctx_destroy(ctx);
    }
    assert_true(n > 50);
}

/// Each warp has all elements and keeps some: two lanes read from one, which sends twice.
static void copies_in_warps(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    const Layout *all = layout_of(ctx, "[4; reg 1; lane 2; warp -]");
    const Layout *some = layout_of(ctx, "[4; lane 1; warp 2]");
    Conversion c = layout_convert(all, some, 32);
    assert_int_equal(c.kind, CONVERT_SHUFFLE);
    assert_int_equal(c.n_extra, 1);
    assert_int_equal(c.shuffles, 2);
    check_plan(&c, all, some);
    ctx_destroy(ctx);
}

/// A transposition within a warp, in which one of four rounds stays in the thread.
static void known_plans(void **state) {
    (void)state;
    Ctx *ctx = ctx_create(NULL);
    const Layout *rows = layout_of(ctx, "[4x4; reg (0,1) (0,2); lane (1,0) (2,0)]");
    const Layout *columns = layout_of(ctx, "[4x4; reg (1,0) (2,0); lane (0,1) (0,2)]");
    Conversion c = layout_convert(rows, columns, 32);
    assert_int_equal(c.kind, CONVERT_SHUFFLE);
    assert_int_equal(c.shuffles, 3);
    layout_convert_near(rows, columns, 64, &c);
    assert_int_equal(c.shuffles, 6);
    const Layout *renamed = layout_of(ctx, "[4x4; reg (0,2) (0,1); lane (1,0) (2,0)]");
    assert_int_equal(layout_convert(rows, renamed, 32).kind, CONVERT_RENAME);
    const Layout *turned = layout_of(ctx, "[4x4; reg (0,1) (0,2); lane (1,1) (2,0)]");
    // Both columns of a pair go to the same lane: a shuffle carries two 16-bit elements.
    const Layout *pairs = layout_of(ctx, "[4x4; reg (0,1) (1,0); lane (0,2) (2,0)]");
    layout_convert_near(rows, pairs, 16, &c);
    assert_true(c.pack == 1);
    assert_int_equal(c.shuffles, 1);
    c = layout_convert(rows, turned, 32);
    assert_int_equal(c.kind, CONVERT_SELECT);
    assert_int_equal(c.shuffles, 0);
    ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_pairs),    cmocka_unit_test(random_exchanges),
        cmocka_unit_test(different_boxes), cmocka_unit_test(gathered_parts),
        cmocka_unit_test(copies_in_warps), cmocka_unit_test(known_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
