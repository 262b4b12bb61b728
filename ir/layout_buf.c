// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the elements of a buffer type are.
#include "ir/layout.h"

static void swap_dims(SharedLayout *s) {
    int64_t extent = s->extents[0], stride = s->stride[0];
    uint8_t log2 = s->log2[0];
    int32_t count = s->count[0];
    s->extents[0] = s->extents[1], s->extents[1] = extent;
    s->stride[0] = s->stride[1], s->stride[1] = stride;
    s->count[0] = s->count[1], s->count[1] = count;
    s->log2[0] = s->log2[1], s->log2[1] = log2;
}

/// Plain buffers of two dimensions of which the first is contiguous are transposed ones; their
/// map has bits of one dimension alone.
SharedLayout shared_of(const Type *buf) {
    int bytes = elem_info[buf->elem].bits / 8;
    if (buf->swizzle)
        return shared_swizzled(bytes, buf->rank, buf->extents, buf->inner, buf->inner == 0,
                               buf->swizzle);
    if (buf->inner == buf->rank - 1) return shared_plain(bytes, buf->rank, buf->extents, buf->pad);
    int64_t extents[] = {buf->extents[1], buf->extents[0]};
    SharedLayout s = shared_plain(bytes, 2, extents, buf->pad);
    swap_dims(&s);
    return s;
}
