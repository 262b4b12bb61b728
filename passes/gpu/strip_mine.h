// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows in strips: helpers that the passes `strip-mine` and `columns` share.
#ifndef PASSES_GPU_STRIP_MINE_H
#define PASSES_GPU_STRIP_MINE_H

#include "passes/gpu/block_part.h"

enum {
    STRIP = 8192, // maximum words of a block
    MOST_SINKS = 16,
};

typedef struct Strip {
    Ir *ir;
    Ctx *ctx;
    Region *body;       // of a device or a program
    int64_t row, strip; // elements along the dimension that is split
    int n_reductions, n_stores;
    Op *reductions[MOST_SINKS], *stores[MOST_SINKS];
} Strip;

bool strip_has_rows(const Strip *s, const Op *op);
bool strip_is_write(const Op *op);
/// Collects the uses of whole rows. Returns false if an op cannot work by strips.
bool strip_find_sinks(Strip *s);
/// Whether loads and stores are the only effects, and splitting keeps their order where it matters.
bool strip_keeps_order(const Strip *s);
Parts strip_at(const Strip *s, Value *start);
/// Rewrites reduction `first`, and later ones whose operands are known before it. A loop joins the
/// strips element by element, and one reduction of the joined strip follows.
void join_strips(Strip *s, Op *first);
/// Builds the stores of a strip. All loads of the strip precede them.
void write_strips(Strip *s, Parts *p, Builder *b);
/// Chooses the strip of a row: at most `most` elements, and at most `block` words for all rows.
/// Returns false if less than `least` is left, or if the row fits.
bool choose_strip(Strip *s, int64_t most, int64_t least, int64_t block);

#endif
