// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared-memory layouts: offsets, the hardware's swizzles, vectors.
#include "ir/layout/layout.h"

#include <string.h>

enum { VECTOR_LOG2 = 4 };

static int floor_log2(int64_t x) {
    return top_bit((Bits)x);
}

/* ---- offsets --------------------------------------------------------------------------------- */

int64_t shared_offset(const SharedLayout *s, const int64_t *coords) {
    Bits low = 0;
    int64_t offset = 0;
    for (int d = 0; d < s->rank; d++) {
        low = low << s->log2[d] | ((Bits)coords[d] & low_bits(s->log2[d]));
        if (s->count[d] > 1) offset += (coords[d] >> s->log2[d]) * s->stride[d];
    }
    return offset + (int64_t)f2_apply(&s->map, low);
}

static SharedLayout start_shared(int elem_bytes, int rank, const int64_t *extents) {
    SharedLayout s = {.rank = rank, .elem_bytes = elem_bytes, .align = 1 << VECTOR_LOG2};
    memcpy(s.extents, extents, (size_t)rank * sizeof *extents);
    for (int d = 0; d < rank; d++) s.count[d] = (int32_t)extents[d];
    return s;
}

SharedLayout shared_plain(int elem_bytes, int rank, const int64_t *extents, int pad) {
    SharedLayout s = start_shared(elem_bytes, rank, extents);
    int64_t stride = elem_bytes;
    for (int d = rank - 1; d >= 0; d--) {
        if (d == rank - 1) { // the atom consists of whole vectors of a row
            int n = __builtin_ctzll((Bits)extents[d]), most = VECTOR_LOG2 - floor_log2(elem_bytes);
            s.log2[d] = (uint8_t)(n < most ? n : most);
            for (int i = 0; i < s.log2[d]; i++) s.map.col[s.map.n++] = (Bits)elem_bytes << i;
        }
        s.count[d] = (int32_t)(extents[d] >> s.log2[d]);
        s.stride[d] = stride << s.log2[d];
        stride = stride * extents[d] + (d == rank - 1 ? pad : 0);
    }
    s.bytes = stride;
    return s;
}

/// The row's number within 8 rows is added (xor) to the number of the 16-byte chunk.
SharedLayout shared_swizzled(int elem_bytes, int rank, const int64_t *extents, int inner, int outer,
                             int swizzle) {
    SharedLayout s = start_shared(elem_bytes, rank, extents);
    s.log2[inner] = (uint8_t)floor_log2(swizzle / elem_bytes);
    s.log2[outer] = 3;
    s.align = 8 * swizzle;
    Bits chunk = (Bits)(swizzle - 1) & ~(Bits)15;
    for (int d = rank - 1; d >= 0; d--)
        for (int i = 0; i < s.log2[d]; i++) {
            Bits linear = (Bits)(d == inner ? elem_bytes : swizzle) << i;
            s.map.col[s.map.n++] = linear ^ (linear >> 3 & chunk);
        }
    s.bytes = 8 * swizzle;
    int order[MAX_RANK] = {outer, inner}, n = 2;
    for (int d = rank - 1; d >= 0; d--)
        if (d != inner && d != outer) order[n++] = d;
    for (int i = 0; i < n; i++) {
        int d = order[i];
        s.stride[d] = s.bytes;
        s.count[d] = (int32_t)ceil_div(extents[d], (int64_t)1 << s.log2[d]);
        s.bytes *= s.count[d];
    }
    return s;
}

int shared_swizzle_for(int64_t row_bytes) {
    int swizzle = 128;
    while (swizzle > 16 && row_bytes % swizzle != 0) swizzle /= 2;
    return swizzle;
}

/* ---- vectors --------------------------------------------------------------------------------- */

SharedReach shared_image(const Layout *l, const SharedLayout *s, Bits image, Bits *offset) {
    SharedReach reach = REACH_ATOM;
    Bits low = 0;
    for (int d = 0; d < l->rank; d++) {
        Bits x = image >> layout_base(l, d) & low_bits(l->log2[d]);
        SharedReach out = s->count[d] == 1 ? REACH_HOLES : REACH_BEYOND;
        if (x >> s->log2[d] && reach < out) reach = out;
        low = low << s->log2[d] | (x & low_bits(s->log2[d]));
    }
    *offset = f2_apply(&s->map, low);
    return reach;
}

/// Returns log2 of the widest vectors that strides allow: each starts at a multiple of its size.
static int aligned_log2(const SharedLayout *s, int max_bytes) {
    int n = floor_log2(max_bytes);
    for (int d = 0; d < s->rank; d++)
        while (s->count[d] > 1 && n > 0 && s->stride[d] % ((int64_t)1 << n) != 0) n--;
    return n;
}

/// A vector of 2^n elements is a span of registers whose offsets are the lowest bits. No thread bit
/// may reach into them, or else the order within a vector would depend on the thread. A register
/// bit that leaves the atom gets an offset bit of its own, so it is in no vector.
void shared_access(const Layout *l, const SharedLayout *s, int max_bytes, SharedAccess *a) {
    *a = (SharedAccess){0};
    Bits of_threads = 0, offset;
    F2Span span = {0}, used = {0};
    for (int j = 0; j < layout_n_bits(l); j++) {
        bool inside = shared_image(l, s, l->col[j], &offset) == REACH_ATOM;
        if (j < l->bits[LEVEL_REG])
            f2_add(&span, inside ? offset : offset | bit(F2_MAX - 1 - j), bit(j));
        else
            of_threads |= offset;
    }
    int e = floor_log2(s->elem_bytes), most = aligned_log2(s, max_bytes);
    while (e + a->vec_bits < most) {
        Bits wanted = bit(e + a->vec_bits), x;
        if (of_threads & wanted || f2_reduce(&span, wanted, &x)) break;
        f2_add(&used, x, 0);
        a->vec[a->vec_bits++] = x;
    }
    for (int j = 0; j < l->bits[LEVEL_REG]; j++) {
        if (!f2_add(&used, bit(j), 0)) continue;
        Bits base = bit(j); // reduced to the start of its vector
        shared_image(l, s, l->col[j], &offset);
        for (int i = 0; i < a->vec_bits; i++)
            if (offset >> (e + i) & 1) base ^= a->vec[i];
        a->base[a->n_base++] = base;
    }
}
