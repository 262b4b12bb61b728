// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of i4 and u4: element n is half of byte n / 2, low half first.
#include "backends/gpu/access.h"

/// Returns the half at the shift, extended to i8.
static LLVMValueRef extend_half(GpuFn *f, Elem elem, LLVMValueRef byte, LLVMValueRef shift) {
    LLVMBuilderRef b = f->g->b;
    LLVMValueRef four = LLVMConstInt(f->g->i8, 4, false);
    LLVMValueRef top = LLVMBuildShl(b, byte, LLVMBuildSub(b, four, shift, ""), "");
    return elem == EL_I4 ? LLVMBuildAShr(b, top, four, "") : LLVMBuildLShr(b, top, four, "");
}

/// Returns 0 or 4, as i8.
static LLVMValueRef half_shift(GpuFn *f, LLVMValueRef offset) {
    LLVMBuilderRef b = f->g->b;
    LLVMValueRef odd = LLVMBuildAnd(b, LLVMBuildTrunc(b, offset, f->g->i8, ""),
                                    LLVMConstInt(f->g->i8, 1, false), "");
    return LLVMBuildShl(b, odd, LLVMConstInt(f->g->i8, 2, false), "");
}

static LLVMValueRef byte_address(GpuAccess *p, LLVMValueRef offset) {
    LLVMValueRef byte = LLVMBuildAShr(p->f->g->b, offset, gen_i64(p->f->g, 1), "");
    return gpu_offset(p->f, p->tensor->data, byte);
}

/// Loads one element from either half of its byte.
static LLVMValueRef load_half(GpuAccess *p, int64_t reg, LLVMValueRef on, LLVMValueRef pad) {
    GpuFn *f = p->f;
    LLVMValueRef offset = gpu_access_offset(p, reg), word;
    gpu_access_read(p, byte_address(p, offset), 1, on, gpu_i32(f, 0), &word);
    LLVMValueRef byte = LLVMBuildTrunc(f->g->b, word, f->g->i8, "");
    LLVMValueRef x = extend_half(f, p->elem, byte, half_shift(f, offset));
    return on ? LLVMBuildSelect(f->g->b, on, x, pad, "") : x;
}

/// Loads a vector of 2^bits elements that starts at a whole byte, in words of eight halves.
static void load_halves(GpuAccess *p, int64_t first, int bits, LLVMValueRef on, LLVMValueRef pad,
                        LLVMValueRef *out) {
    GpuFn *f = p->f;
    Gen *g = f->g;
    LLVMValueRef words[MAX_VECTOR / 8], at = byte_address(p, gpu_access_offset(p, first));
    LLVMValueRef half = LLVMBuildAnd(g->b, pad, LLVMConstInt(g->i8, 15, false), "");
    half = gen_mul(g, LLVMBuildZExt(g->b, half, g->i32, ""), gpu_i32(f, 0x11111111));
    gpu_access_read(p, at, 1 << bits >> 1, on, half, words);
    for (int j = 0; j < 1 << bits; j++) {
        LLVMValueRef up = gpu_i32(f, 28 - j % 8 * 4), down = gpu_i32(f, 28);
        LLVMValueRef x = LLVMBuildShl(g->b, words[j / 8], up, "");
        x = p->elem == EL_I4 ? LLVMBuildAShr(g->b, x, down, "") : LLVMBuildLShr(g->b, x, down, "");
        out[gpu_access_vector(p, first, j)] = LLVMBuildTrunc(g->b, x, g->i8, "");
    }
}

static void load_registers(GpuAccess *p, int bits, void *data, LLVMValueRef *out) {
    LLVMValueRef pad = data;
    for (int r = 0; r < gpu_access_registers(p); r++) {
        if (!gpu_access_starts(p, bits, r)) continue;
        if (gpu_access_never(p, r)) {
            for (int j = 0; j < 1 << bits; j++) out[gpu_access_vector(p, r, j)] = pad;
            continue;
        }
        LLVMValueRef on = gpu_access_live(p, r);
        if (bits)
            load_halves(p, r, bits, on, pad, out);
        else
            out[r] = load_half(p, r, on, pad);
    }
}

void gpu_load_nibbles(GpuAccess *p, LLVMValueRef pad, LLVMValueRef *out) {
    gpu_access_each(p, load_registers, pad, out);
}

/* ---- stores -------------------------------------------------------------------------------- */

/// The other half of the byte may belong to another thread, so two atomics on the word change the
/// half: the first clears its bits, the second sets those of x.
static void store_half(GpuAccess *p, LLVMValueRef offset, LLVMValueRef on, LLVMValueRef x) {
    GpuFn *f = p->f;
    Gen *g = f->g;
    LLVMValueRef all = on ? on : gpu_true(f), at = byte_address(p, offset);
    LLVMValueRef low = LLVMBuildTrunc(g->b, gpu_call(f, "tg.global.addr", 1, at), g->i32, "");
    low = LLVMBuildAnd(g->b, low, gpu_i32(f, 3), "");
    LLVMValueRef word = gpu_offset(f, at, LLVMBuildNeg(g->b, low, ""));
    LLVMValueRef shift = LLVMBuildShl(g->b, low, gpu_i32(f, 3), "");
    shift = LLVMBuildAdd(g->b, shift, LLVMBuildZExt(g->b, half_shift(f, offset), g->i32, ""), "");
    LLVMValueRef hole = LLVMBuildNot(g->b, LLVMBuildShl(g->b, gpu_i32(f, 15), shift, ""), "");
    LLVMValueRef bits = LLVMBuildAnd(g->b, LLVMBuildZExt(g->b, x, g->i32, ""), gpu_i32(f, 15), "");
    bits = LLVMBuildShl(g->b, bits, shift, "");
    gpu_call(f, "tg.atomic.global.and.i32.gpu", 3, word, all, hole);
    gpu_call(f, "tg.atomic.global.or.i32.gpu", 3, word, all, bits);
}

static void store_halves(GpuAccess *p, int64_t first, int bits, LLVMValueRef on, LLVMValueRef *x) {
    GpuFn *f = p->f;
    Gen *g = f->g;
    LLVMValueRef words[MAX_VECTOR / 8] = {NULL};
    for (int j = 0; j < 1 << bits; j++) {
        LLVMValueRef y = LLVMBuildZExt(g->b, x[gpu_access_vector(p, first, j)], g->i32, "");
        y = LLVMBuildAnd(g->b, y, gpu_i32(f, 15), "");
        if (j % 8) y = LLVMBuildShl(g->b, y, gpu_i32(f, j % 8 * 4), "");
        words[j / 8] = words[j / 8] ? LLVMBuildOr(g->b, words[j / 8], y, "") : y;
    }
    LLVMValueRef at = byte_address(p, gpu_access_offset(p, first));
    gpu_access_write(p, at, 1 << bits >> 1, on, words);
}

typedef struct NibbleStore {
    LLVMValueRef *x, owner;
} NibbleStore;

static void store_nibble_registers(GpuAccess *p, int bits, void *data, LLVMValueRef *out) {
    const NibbleStore *s = data;
    (void)out;
    for (int r = 0; r < gpu_access_registers(p); r++) {
        if (!gpu_access_starts(p, bits, r) || gpu_access_never(p, r)) continue;
        LLVMValueRef on = gen_and(p->f->g, gpu_access_live(p, r), s->owner);
        if (bits)
            store_halves(p, r, bits, on, s->x);
        else
            store_half(p, gpu_access_offset(p, r), on, s->x[r]);
    }
}

void gpu_store_nibbles(GpuAccess *p, LLVMValueRef *x, LLVMValueRef owner) {
    NibbleStore s = {x, owner};
    gpu_access_each(p, store_nibble_registers, &s, NULL);
}
