// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Linear algebra over F2 on matrices of at most 64 x 64, one word for each column.
//
// All functions use a reduced echelon basis that records the columns that make each vector. Rank,
// solutions, inverses, kernels and intersections follow from it.
#include "ir/layout/layout.h"

Bits f2_apply(const F2 *m, Bits x) {
    Bits y = 0;
    for (; x; x &= x - 1) {
        int j = __builtin_ctzll(x);
        if (j < m->n) y ^= m->col[j];
    }
    return y;
}

F2 f2_compose(const F2 *a, const F2 *b) {
    F2 r = {.n = b->n};
    for (int j = 0; j < b->n; j++) r.col[j] = f2_apply(a, b->col[j]);
    return r;
}

F2 f2_identity(int n) {
    F2 r = {.n = n};
    for (int j = 0; j < n; j++) r.col[j] = bit(j);
    return r;
}

F2 f2_join(const F2 *a, const F2 *b, int shift) {
    F2 r = *a;
    for (int j = 0; j < b->n; j++) r.col[r.n++] = b->col[j] << shift;
    return r;
}

Bits f2_row(const F2 *m, int i) {
    Bits row = 0;
    for (int j = 0; j < m->n; j++) row |= (m->col[j] >> i & 1) << j;
    return row;
}

F2 f2_transpose(const F2 *m, int rows) {
    F2 r = {.n = rows};
    for (int i = 0; i < rows; i++) r.col[i] = f2_row(m, i);
    return r;
}

bool f2_equal(const F2 *a, const F2 *b) {
    bool same = a->n == b->n;
    for (int j = 0; same && j < a->n; j++) same = a->col[j] == b->col[j];
    return same;
}

Bits f2_reduce(const F2Span *s, Bits v, Bits *from) {
    Bits used = 0;
    for (int i = 0; i < s->n; i++)
        if (v >> top_bit(s->vec[i]) & 1) {
            v ^= s->vec[i];
            used ^= s->from[i];
        }
    if (from) *from = used;
    return v;
}

bool f2_add(F2Span *s, Bits v, Bits from) {
    Bits used;
    v = f2_reduce(s, v, &used);
    if (!v) return false;
    from ^= used;
    int at = s->n++;
    for (; at > 0 && s->vec[at - 1] < v; at--) {
        s->vec[at] = s->vec[at - 1];
        s->from[at] = s->from[at - 1];
    }
    s->vec[at] = v;
    s->from[at] = from;
    for (int i = 0; i < at; i++)
        if (s->vec[i] >> top_bit(v) & 1) {
            s->vec[i] ^= v;
            s->from[i] ^= from;
        }
    return true;
}

F2Span f2_span(const F2 *m) {
    F2Span s = {0};
    for (int j = 0; j < m->n; j++) f2_add(&s, m->col[j], bit(j));
    return s;
}

int f2_rank(const F2 *m) {
    return f2_span(m).n;
}

bool f2_solve(const F2 *m, Bits y, Bits *x) {
    F2Span s = f2_span(m);
    return f2_reduce(&s, y, x) == 0;
}

bool f2_right_inverse(const F2 *m, int rows, F2 *r) {
    F2Span s = f2_span(m);
    *r = (F2){.n = rows};
    for (int i = 0; i < rows; i++)
        if (f2_reduce(&s, bit(i), &r->col[i])) return false;
    return true;
}

F2 f2_kernel(const F2 *m) {
    F2Span s = {0}, kernel = {0};
    for (int j = 0; j < m->n; j++) {
        Bits from;
        if (f2_reduce(&s, m->col[j], &from))
            f2_add(&s, m->col[j], bit(j));
        else
            f2_add(&kernel, from | bit(j), 0);
    }
    F2 r = {.n = kernel.n};
    for (int i = 0; i < kernel.n; i++) r.col[i] = kernel.vec[i];
    return r;
}

bool f2_quotient(const F2 *m, const F2 *unit, Bits bits, Bits rows, F2 *rest) {
    *rest = (F2){0};
    for (int j = 0, k = 0; j < m->n; j++)
        if (bits >> j & 1) {
            if (m->col[j] != unit->col[k++]) return false;
        } else {
            if (m->col[j] & rows) return false;
            rest->col[rest->n++] = m->col[j];
        }
    return true;
}

/// For x in both spans, x = a u = b v, so (u, v) is in the kernel of [a b].
F2 f2_intersection(const F2 *a, const F2 *b) {
    F2 both = f2_join(a, b, 0), kernel = f2_kernel(&both), r = {0};
    F2Span s = {0};
    for (int i = 0; i < kernel.n; i++) {
        Bits v = f2_apply(a, kernel.col[i] & low_bits(a->n));
        if (f2_add(&s, v, 0)) r.col[r.n++] = v;
    }
    return r;
}

/// Let p and q extend a basis of the intersection to bases of span a and span b. The sums p_i + q_i
/// lie in neither span, and neither do sums of them, nor a complement of span a + span b.
F2 f2_avoiding(const F2 *a, const F2 *b, int rows) {
    F2 common = f2_intersection(a, b), p = {0}, q = {0}, r = {0};
    F2Span s = f2_span(&common);
    for (int j = 0; j < a->n; j++)
        if (f2_add(&s, a->col[j], 0)) p.col[p.n++] = a->col[j];
    for (int j = 0; j < b->n; j++)
        if (f2_add(&s, b->col[j], 0)) q.col[q.n++] = b->col[j];
    for (int i = 0; i < rows; i++)
        if (f2_add(&s, bit(i), 0)) r.col[r.n++] = bit(i);
    for (int i = 0; i < p.n && i < q.n; i++) r.col[r.n++] = p.col[i] ^ q.col[i];
    return r;
}
