// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sorts numbers in shared memory by their digits: digit_sort.h.
//
// Digits have two bits, and the lowest comes first. Each pass is stable. Every thread holds as many
// consecutive numbers as the others, and counts its digits in the four fields of one word. The sum
// of the words of all earlier threads, and of all lower digits, is where its first number with each
// digit goes.
//
// Source: Satish, Harris and Garland, Designing efficient sorting algorithms for manycore GPUs,
// 2009.
#include "backends/gpu/digit_sort.h"

enum {
    DIGIT_BITS = 2,
    FIELD = 16,          // bits of a field of a sum over threads
    OWN_FIELD = 8,       // bits of a field of a thread's own count
    MOST_OF_THREAD = 32, // numbers; they are held in registers
    BANK_LOG = 4         // 2^4 places, then a hole
};

LLVMValueRef gpu_digit_place(GpuFn *f, LLVMValueRef at) {
    const Gen *g = f->g;
    return gen_add(g, at, LLVMBuildLShr(g->b, at, gpu_i32(f, BANK_LOG), ""));
}

int64_t gpu_digit_places(int64_t length) {
    return length + (length >> BANK_LOG);
}

bool gpu_sorts_by_digits(const GpuFn *f, int log, int key_bits, int64_t bytes) {
    int64_t length = INT64_C(1) << log, each = length / f->threads;
    int passes = (key_bits + DIGIT_BITS - 1) / DIGIT_BITS, steps = log * (log + 1) / 2;
    if (log >= FIELD || length % f->threads || each > MOST_OF_THREAD) return false;
    int64_t sums = f->warps * elem_bytes(EL_I64), room = gpu_digit_places(length) * bytes + sums;
    if (f->warps > f->target->lanes || room > gpu_shared_room(f)) return false;
    return 2 * steps > 5 * passes; // a pass costs as much as 2.5 steps
}

/// A thread's numbers in a pass.
typedef struct OwnNumbers {
    LLVMValueRef part[2][MOST_OF_THREAD];
    LLVMValueRef counts; // i32 of four fields
} OwnNumbers;

static LLVMValueRef scaled(GpuFn *f, LLVMValueRef digit, int bits) {
    return gen_mul(f->g, digit, gpu_i32(f, bits));
}

static LLVMValueRef digit_of(GpuFn *f, LLVMValueRef number, LLVMValueRef shift) {
    const Gen *g = f->g;
    if (LLVMTypeOf(number) != g->i32) shift = LLVMBuildZExt(g->b, shift, g->i64, "");
    LLVMValueRef d = LLVMBuildLShr(g->b, number, shift, "");
    if (LLVMTypeOf(d) != g->i32) d = LLVMBuildTrunc(g->b, d, g->i32, "");
    return LLVMBuildAnd(g->b, d, gpu_i32(f, (1 << DIGIT_BITS) - 1), "");
}

/// shift: the lowest bit of the digit.
static void load_and_count(GpuFn *f, const GpuDigitSort *s, LLVMValueRef shift, OwnNumbers *own) {
    const Gen *g = f->g;
    int64_t each = s->length / f->threads;
    LLVMValueRef first = gen_mul(g, f->thread, gpu_i32(f, each));
    own->counts = gpu_i32(f, 0);
    for (int j = 0; j < each; j++) {
        LLVMValueRef at = gpu_digit_place(f, gen_add(g, first, gpu_i32(f, j)));
        for (int k = 0; k < s->parts; k++) own->part[k][j] = gpu_elements_load(f, &s->flat[k], at);
        LLVMValueRef field = scaled(f, digit_of(f, own->part[0][j], shift), OWN_FIELD);
        own->counts = gen_add(g, own->counts, LLVMBuildShl(g->b, gpu_i32(f, 1), field, ""));
    }
}

static LLVMValueRef shifted_left(const Gen *g, LLVMValueRef x, int bits) {
    return LLVMBuildShl(g->b, x, gen_i64(g, bits), "");
}

/// Spreads four fields of 8 bits to 16 bits each (i64).
static LLVMValueRef widened_counts(const Gen *g, LLVMValueRef counts) {
    LLVMValueRef x = LLVMBuildZExt(g->b, counts, g->i64, "");
    x = LLVMBuildOr(g->b, x, shifted_left(g, x, 16), "");
    x = LLVMBuildAnd(g->b, x, gen_i64(g, 0x0000ffff0000ffff), "");
    x = LLVMBuildOr(g->b, x, shifted_left(g, x, 8), "");
    return LLVMBuildAnd(g->b, x, gen_i64(g, 0x00ff00ff00ff00ff), "");
}

/// Returns the sum over the lanes up to this one; lanes from n on have 0.
static LLVMValueRef sum_of_lanes(GpuFn *f, LLVMValueRef x, int n) {
    const Gen *g = f->g;
    for (int d = 1; d < n; d *= 2) {
        LLVMValueRef from;
        gpu_shuffle(f, "up", gpu_i32(f, d), EL_I64, 1, &x, &from);
        LLVMValueRef has = LLVMBuildICmp(g->b, LLVMIntUGE, f->lane, gpu_i32(f, d), "");
        x = gen_add(g, x, LLVMBuildSelect(g->b, has, from, gen_i64(g, 0), ""));
    }
    return x;
}

static LLVMValueRef from_lane(GpuFn *f, LLVMValueRef x, LLVMValueRef lane) {
    gpu_shuffle(f, "idx", lane, EL_I64, 1, &x, &x);
    return x;
}

/// Returns the sum over this warp and the earlier ones from the sum of each; *all: over all warps.
/// The threads meet.
static LLVMValueRef sum_of_warps(GpuFn *f, const GpuFlat *sums, LLVMValueRef sum,
                                 LLVMValueRef *all) {
    const Gen *g = f->g;
    LLVMValueRef end = gpu_i32(f, f->target->lanes - 1), n = gpu_i32(f, f->warps);
    gpu_elements_store(f, sums, f->warp, LLVMBuildICmp(g->b, LLVMIntEQ, f->lane, end, ""), sum);
    gpu_barrier(f);
    LLVMValueRef has = LLVMBuildICmp(g->b, LLVMIntULT, f->lane, n, "");
    LLVMValueRef at = LLVMBuildSelect(g->b, has, f->lane, gpu_i32(f, 0), "");
    LLVMValueRef x = gpu_elements_load(f, sums, at);
    x = sum_of_lanes(f, LLVMBuildSelect(g->b, has, x, gen_i64(g, 0), ""), f->warps);
    *all = from_lane(f, x, gpu_i32(f, f->warps - 1));
    return from_lane(f, x, f->warp);
}

/// Returns where this thread's first number with each digit goes, in four fields. The threads meet.
static LLVMValueRef first_places(GpuFn *f, const GpuFlat *sums, LLVMValueRef counts) {
    const Gen *g = f->g;
    LLVMValueRef own = widened_counts(g, counts), sum = sum_of_lanes(f, own, f->target->lanes);
    LLVMValueRef warp = from_lane(f, sum, gpu_i32(f, f->target->lanes - 1)), all;
    LLVMValueRef earlier = LLVMBuildSub(g->b, sum_of_warps(f, sums, sum, &all), warp, "");
    LLVMValueRef first = gen_add(g, earlier, LLVMBuildSub(g->b, sum, own, ""));
    for (int field = 1; field < 1 << DIGIT_BITS; field++)
        first = gen_add(g, first, shifted_left(g, all, field * FIELD));
    return first;
}

/// Digits are computed again from a copy of the shift that the compiler does not know to be equal,
/// since they would take a register each.
static void store_in_order(GpuFn *f, const GpuDigitSort *s, LLVMValueRef shift,
                           const OwnNumbers *own, LLVMValueRef next) {
    const Gen *g = f->g;
    shift = gpu_call(f, "tg.shuffle.idx", 2, shift, gpu_i32(f, 0));
    for (int j = 0; j < s->length / f->threads; j++) {
        LLVMValueRef field = scaled(f, digit_of(f, own->part[0][j], shift), FIELD);
        field = LLVMBuildZExt(g->b, field, g->i64, "");
        LLVMValueRef to = LLVMBuildTrunc(g->b, LLVMBuildLShr(g->b, next, field, ""), g->i32, "");
        to = LLVMBuildAnd(g->b, to, gpu_i32(f, (1 << FIELD) - 1), "");
        to = gpu_digit_place(f, to);
        for (int k = 0; k < s->parts; k++)
            gpu_elements_store(f, &s->flat[k], to, NULL, own->part[k][j]);
        next = gen_add(g, next, LLVMBuildShl(g->b, gen_i64(g, 1), field, ""));
    }
}

void gpu_sort_by_digits(GpuFn *f, const GpuDigitSort *s) {
    GpuFlat sums = {gpu_shared_alloc(f, f->warps * elem_bytes(EL_I64), 16), EL_I64, f->warps};
    OwnNumbers *own = ctx_new(f->ctx, OwnNumbers);
    GpuLoop pass =
        gpu_loop(f, gpu_i32(f, s->first_bit), gpu_i32(f, s->end_bit), DIGIT_BITS, 0, NULL);
    load_and_count(f, s, pass.index, own);
    store_in_order(f, s, pass.index, own, first_places(f, &sums, own->counts));
    gpu_barrier(f);
    gpu_loop_end(f, &pass, NULL);
}
