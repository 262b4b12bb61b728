// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the places of a buffer type's elements.
#include "ir/layout/layout.h"

enum { LINE = 256 }; // bytes of all banks, at most

static void swap_dims(SharedLayout *s) {
    int64_t extent = s->extents[0], stride = s->stride[0];
    uint8_t log2 = s->log2[0];
    int32_t count = s->count[0];
    s->extents[0] = s->extents[1], s->extents[1] = extent;
    s->stride[0] = s->stride[1], s->stride[1] = stride;
    s->count[0] = s->count[1], s->count[1] = count;
    s->log2[0] = s->log2[1], s->log2[1] = log2;
}

/// The matrix is the inverse of the registers' matrix.
static SharedLayout of_registers(const Type *buf, int bytes) {
    const Layout *l = buf->layout;
    SharedLayout s = {.rank = l->rank, .elem_bytes = bytes, .align = LINE};
    F2 m = layout_level(l, LEVEL_REG);
    f2_right_inverse(&m, layout_rows(l), &s.map);
    for (int j = 0; j < s.map.n; j++) s.map.col[j] *= (Bits)bytes;
    s.bytes = (int64_t)bytes << m.n;
    for (int i = 0; i < l->rank; i++) { // from the inner dimension on
        int d = (buf->inner + l->rank - i) % l->rank;
        s.extents[d] = l->extents[d];
        s.log2[d] = l->log2[d];
        s.count[d] = l->odd[d];
        s.stride[d] = s.bytes;
        s.bytes *= l->odd[d];
    }
    return s;
}

const Layout *shared_registers(Ctx *ctx, const SharedLayout *s) {
    Layout l = {.rank = (uint8_t)s->rank};
    F2 map = s->map, inverse;
    int twos[MAX_RANK], elem = top_bit((Bits)s->elem_bytes), at = 0;
    for (int j = 0; j < map.n; j++) map.col[j] >>= elem;
    f2_right_inverse(&map, map.n, &inverse);
    for (int d = 0; d < s->rank; d++) {
        twos[d] = __builtin_ctz((unsigned)s->count[d]);
        l.extents[d] = s->extents[d];
        l.odd[d] = s->count[d] >> twos[d];
        l.log2[d] = (uint8_t)(s->log2[d] + twos[d]);
    }
    for (; at < map.n; at++) {
        Bits low = inverse.col[at];
        for (int d = s->rank - 1; d >= 0; d--) {
            l.col[at] |= (low & low_bits(s->log2[d])) << layout_base(&l, d);
            low >>= s->log2[d];
        }
    }
    for (int d = s->rank - 1; d >= 0; d--)
        for (int i = 0; i < twos[d]; i++) l.col[at++] = bit(layout_base(&l, d) + s->log2[d] + i);
    l.bits[LEVEL_REG] = (uint8_t)at;
    return layout_unique(ctx, &l);
}

/// Plain buffers of two dimensions with the first one contiguous are transposed; each column of
/// their map has bits of one dimension only.
SharedLayout shared_of(const Type *buf) {
    int bytes = elem_info[buf->elem].bits / 8;
    if (buf->layout) return of_registers(buf, bytes);
    if (buf->swizzle)
        return shared_swizzled(bytes, buf->rank, buf->extents, buf->inner, buf->inner == 0,
                               buf->swizzle);
    if (buf->inner == buf->rank - 1) return shared_plain(bytes, buf->rank, buf->extents, buf->pad);
    int64_t extents[] = {buf->extents[1], buf->extents[0]};
    SharedLayout s = shared_plain(bytes, 2, extents, buf->pad);
    swap_dims(&s);
    return s;
}
