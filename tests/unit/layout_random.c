// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random layouts from a seed, for the tests of the layout algebra.
#include "layout_random.h"

uint64_t random_bits(Random *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int random_below(Random *r, int n) {
    return (int)(random_bits(r) % (uint64_t)n);
}

Shape random_shape(Random *r) {
    static const int odd[] = {1, 1, 1, 3, 5, 7};
    Shape s = {0};
    s.box.rank = (uint8_t)(1 + random_below(r, 3));
    int bits = 0, repeats = 0;
    for (int d = 0; d < s.box.rank; d++) {
        int v = random_below(r, 5), o = repeats < 2 ? odd[random_below(r, 6)] : 1;
        if (bits + v > 8) v = 0;
        bits += v;
        repeats += o > 1;
        s.box.log2[d] = (uint8_t)v;
        s.box.odd[d] = o;
        int box = o << v;
        s.box.extents[d] = random_below(r, 3) ? box : 1 + random_below(r, box);
    }
    s.box.bits[LEVEL_LANE] = (uint8_t)(2 + random_below(r, 2));
    s.box.bits[LEVEL_WARP] = (uint8_t)random_below(r, 3);
    s.box.bits[LEVEL_CTA] = random_below(r, 4) == 0;
    return s;
}

/// Thread bits take unit vectors, 0 or any vector. Registers then add the missing vectors.
const Layout *random_layout(Ctx *ctx, Random *r, Shape shape) {
    Layout l = shape.box;
    int rows = layout_rows(&l), threads = layout_thread_bits(&l), strange = random_below(r, 3);
    Bits thread[LAYOUT_MAX_BITS];
    F2Span s = {0};
    for (int j = 0; j < threads; j++) {
        Bits unit = rows ? bit(random_below(r, rows)) : 0;
        int kind = random_below(r, strange == 2 ? 3 : 6);
        thread[j] = kind == 0 ? 0 : kind == 1 && strange ? random_bits(r) & low_bits(rows) : unit;
        f2_add(&s, thread[j], 0);
    }
    int n = 0;
    for (int tries = 0; n < 8 && tries < 200; tries++) {
        Bits x = !rows ? 0 : strange ? random_bits(r) & low_bits(rows) : bit(random_below(r, rows));
        bool copy = random_below(r, 40) == 0; // a copy of another thread's register
        if (f2_add(&s, x, 0) || (copy && x)) l.col[n++] = x;
        if (s.n == rows) break;
    }
    for (int i = 0; i < rows; i++)
        if (f2_add(&s, bit(i), 0)) l.col[n++] = bit(i);
    for (int j = 0; j < threads; j++) l.col[n + j] = thread[j];
    l.bits[LEVEL_REG] = (uint8_t)n;
    return layout_unique(ctx, &l);
}

const Layout *layout_of(Ctx *ctx, const char *text) {
    const char *at = text, *error = NULL;
    const Layout *l = layout_parse(ctx, &at, &error);
    if (!l) ice(ctx, (Loc){0}, "%s: %s", text, error);
    return l;
}
