// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of i4 and u4: element n is half of byte n / 2, low half first.
#include "backends/cpu/emit.h"

static LLVMValueRef splat_number(LLVMValueRef like, const Gen *g, int64_t n) {
    return gen_same(gen_i64(g, n), gen_lanes(like));
}

/// Returns the half at an element's place, extended to i8. `bytes` and `offsets` are both scalars
/// or both vectors.
static LLVMValueRef nibble_at(Emit *e, Elem elem, LLVMValueRef bytes, LLVMValueRef offsets) {
    Gen *g = e->g;
    LLVMTypeRef type = LLVMTypeOf(bytes);
    LLVMValueRef odd = LLVMBuildAnd(g->b, offsets, splat_number(offsets, g, 1), "");
    LLVMValueRef shift =
        LLVMBuildShl(g->b, LLVMBuildTrunc(g->b, odd, type, ""),
                     gen_same(LLVMConstInt(g->i8, 2, false), gen_lanes(bytes)), "");
    // The wanted half moves to the top, then down again with or without sign.
    LLVMValueRef four = gen_same(LLVMConstInt(g->i8, 4, false), gen_lanes(bytes));
    LLVMValueRef top = LLVMBuildShl(g->b, bytes, LLVMBuildSub(g->b, four, shift, ""), "");
    return elem == EL_I4 ? LLVMBuildAShr(g->b, top, four, "") : LLVMBuildLShr(g->b, top, four, "");
}

static LLVMValueRef byte_pointer(Emit *e, const TensorRef *t, LLVMValueRef offset) {
    LLVMValueRef byte = LLVMBuildAShr(e->g->b, offset, splat_number(offset, e->g, 1), "");
    return LLVMBuildGEP2(e->g->b, e->g->i8, t->data, &byte, 1, "");
}

/// Loads neighbouring elements from an even one on: half as many bytes, each split in two.
static LLVMValueRef load_pairs(Emit *e, const TensorRef *t, LLVMValueRef offset, int lanes,
                               Elem elem) {
    Gen *g = e->g;
    LLVMValueRef bytes =
        memory_load(e, t->id, gen_vec(g->i8, lanes / 2), byte_pointer(e, t, offset), 1);
    int pick[MAX_LANES];
    for (int i = 0; i < lanes; i++) pick[i] = i / 2;
    LLVMValueRef twice = gen_shuffle(g, bytes, NULL, lanes, pick);
    return nibble_at(e, elem, twice, gen_iota(g, lanes));
}

static LLVMValueRef load_each(Emit *e, const TensorRef *t, LLVMValueRef offsets, LLVMValueRef live,
                              int lanes, Elem elem) {
    LLVMValueRef all = gen_same(LLVMConstInt(e->g->i1, 1, false), lanes);
    LLVMValueRef mask = live ? gen_splat(e->g, live, lanes) : all;
    LLVMValueRef bytes = memory_gather(e, t->id, e->g->i8, byte_pointer(e, t, offsets), mask,
                                       LLVMConstNull(gen_vec(e->g->i8, lanes)));
    return nibble_at(e, elem, bytes, offsets);
}

static LLVMValueRef load_one(Emit *e, const TensorRef *t, const Lanes *l, Elem elem) {
    LLVMValueRef at = byte_pointer(e, t, l->offset);
    if (l->live) at = LLVMBuildSelect(e->g->b, l->live, at, e->arena, "");
    return nibble_at(e, elem, memory_load(e, -1, e->g->i8, at, 1), l->offset);
}

LLVMValueRef nibbles_load(Emit *e, const TensorRef *t, const Lanes *l, int lanes, Elem elem,
                          LLVMValueRef pad) {
    Gen *g = e->g;
    LLVMValueRef x;
    if (!lanes) {
        x = load_one(e, t, l, elem);
    } else if (l->step == 1 && !l->live && lanes % 2 == 0) {
        LLVMValueRef odd = LLVMBuildTrunc(g->b, l->offset, g->i1, "");
        If i = if_begin(e, odd, "odd");
        LLVMValueRef each = load_each(e, t, access_offsets(e, l, lanes), NULL, lanes, elem);
        if_else(e, &i);
        LLVMValueRef pairs = load_pairs(e, t, l->offset, lanes, elem);
        if_end(e, &i);
        x = if_phi(e, &i, each, pairs);
    } else {
        x = load_each(e, t, access_offsets(e, l, lanes), l->live, lanes, elem);
    }
    if (!l->live) return x;
    LLVMValueRef live = gen_splat(g, l->live, lanes);
    return LLVMBuildSelect(g->b, live, x, gen_splat(g, pad, lanes), "");
}

/// Reads the byte, replaces the half, writes the byte.
static void store_nibble(Emit *e, const void *arg, LLVMValueRef offset, LLVMValueRef live,
                         LLVMValueRef x) {
    const TensorRef *t = arg;
    Gen *g = e->g;
    If i = {0};
    if (live) i = if_begin(e, live, "nibble");
    LLVMValueRef at = byte_pointer(e, t, offset);
    LLVMValueRef odd = LLVMBuildTrunc(g->b, offset, g->i1, "");
    LLVMValueRef low = LLVMConstInt(g->i8, 15, false), high = LLVMConstInt(g->i8, 240, false);
    LLVMValueRef keep = LLVMBuildSelect(g->b, odd, low, high, "");
    LLVMValueRef shift = LLVMBuildSelect(g->b, odd, LLVMConstInt(g->i8, 4, false),
                                         LLVMConstInt(g->i8, 0, false), "");
    LLVMValueRef old = memory_load(e, t->id, g->i8, at, 1);
    LLVMValueRef half = LLVMBuildShl(g->b, LLVMBuildAnd(g->b, x, low, ""), shift, "");
    half = LLVMBuildOr(g->b, LLVMBuildAnd(g->b, old, keep, ""), half, "");
    memory_store(e, t->id, half, at, 1);
    if (!live) return;
    if_else(e, &i);
    if_end(e, &i);
}

void nibbles_store(Emit *e, const TensorRef *t, const Lanes *l, int lanes, LLVMValueRef x) {
    if (lanes)
        store_each_lane(e, l, lanes, x, store_nibble, t);
    else
        store_nibble(e, t, l->offset, l->live, x);
}
