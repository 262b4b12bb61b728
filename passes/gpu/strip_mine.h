// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows in strips: the parts that the passes `strip-mine` and `columns` share.
#ifndef PASSES_GPU_STRIP_MINE_H
#define PASSES_GPU_STRIP_MINE_H

#include "passes/gpu/block_part.h"

enum {
    STRIP = 8192, // words of a block, at most
    MOST_SINKS = 16,
};

typedef struct Strip {
    Ir *ir;
    Ctx *ctx;
    Region *body;       // of a device or of a program
    int64_t row, strip; // elements along the dimension that is taken apart
    int n_reductions, n_stores;
    Op *reductions[MOST_SINKS], *stores[MOST_SINKS];
} Strip;

bool strip_has_rows(const Strip *s, const Op *op);
bool strip_is_write(const Op *op);
/// Collects what uses whole rows; false: something cannot be done by strips.
bool strip_find_sinks(Strip *s);
/// Nothing but loads and stores has an effect, and those keep their order as far as it counts.
bool strip_keeps_order(const Strip *s);
Parts strip_at(const Strip *s, Value *start);
/// A reduction, and those behind it that need none of its results: elements at the same places of
/// all strips are joined first.
void join_strips(Strip *s, Op *first);
/// All that is read for a strip stands before what is written of it.
void write_strips(Strip *s, Parts *p, Builder *b);
/// How much of a row is a strip: `most` at most, and `block` words of all rows. False: too little;
/// rows of loops stay as they are.
bool choose_strip(Strip *s, int64_t most, int64_t least, int64_t block);

#endif
