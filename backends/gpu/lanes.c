// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moves values between the lanes of a warp. Shuffles move 32-bit words.
#include "backends/gpu/lower.h"

LLVMValueRef gpu_to_bits(GpuFn *f, Elem elem, LLVMValueRef x) {
    Gen *g = f->g;
    if (elem == EL_BOOL) return gen_to_memory(g, elem, x);
    LLVMTypeRef type = LLVMIntTypeInContext(g->llvm, (unsigned)elem_bytes(elem) * 8);
    return LLVMTypeOf(x) == type ? x : LLVMBuildBitCast(g->b, x, type, "");
}

LLVMValueRef gpu_from_bits(GpuFn *f, Elem elem, LLVMValueRef bits) {
    Gen *g = f->g;
    if (elem == EL_BOOL) return gen_from_memory(g, elem, bits);
    LLVMTypeRef type = gen_elem(g, elem);
    return LLVMTypeOf(bits) == type ? bits : LLVMBuildBitCast(g->b, bits, type, "");
}

static void split_wide(GpuFn *f, LLVMValueRef bits, LLVMValueRef *words) {
    Gen *g = f->g;
    words[0] = LLVMBuildTrunc(g->b, bits, g->i32, "");
    bits = LLVMBuildLShr(g->b, bits, gen_i64(g, 32), "");
    words[1] = LLVMBuildTrunc(g->b, bits, g->i32, "");
}

static LLVMValueRef join_wide(GpuFn *f, LLVMValueRef *const words) {
    Gen *g = f->g;
    LLVMValueRef low = LLVMBuildZExt(g->b, words[0], g->i64, "");
    LLVMValueRef high = LLVMBuildZExt(g->b, words[1], g->i64, "");
    return LLVMBuildOr(g->b, LLVMBuildShl(g->b, high, gen_i64(g, 32), ""), low, "");
}

static LLVMValueRef pack_lane_word(GpuFn *f, Elem elem, int n, LLVMValueRef *const x) {
    Gen *g = f->g;
    int bits = elem_bytes(elem) * 8;
    LLVMValueRef word = NULL;
    for (int j = 0; j < n; j++) {
        LLVMValueRef part = gpu_to_bits(f, elem, x[j]);
        if (bits < 32) part = LLVMBuildZExt(g->b, part, g->i32, "");
        if (j) part = LLVMBuildShl(g->b, part, gpu_i32(f, bits * j), "");
        word = word ? LLVMBuildOr(g->b, word, part, "") : part;
    }
    return word;
}

int gpu_to_words(GpuFn *f, Elem elem, int n, LLVMValueRef *const x, LLVMValueRef *words) {
    int each = 4 / elem_bytes(elem), n_words = 0;
    for (int i = 0; i < n && !each; i++) split_wide(f, gpu_to_bits(f, elem, x[i]), words + 2 * i);
    if (!each) return 2 * n;
    for (int i = 0; i < n; i += each)
        words[n_words++] = pack_lane_word(f, elem, n - i < each ? n - i : each, x + i);
    return n_words;
}

void gpu_from_words(GpuFn *f, Elem elem, int n, LLVMValueRef *const words, LLVMValueRef *out) {
    Gen *g = f->g;
    int bits = elem_bytes(elem) * 8, each = 32 / bits;
    LLVMTypeRef type = LLVMIntTypeInContext(g->llvm, (unsigned)bits);
    for (int i = 0; i < n; i++) {
        LLVMValueRef x = each ? words[i / each] : join_wide(f, words + 2 * i);
        if (each && i % each) x = LLVMBuildLShr(g->b, x, gpu_i32(f, bits * (i % each)), "");
        if (bits < 32) x = LLVMBuildTrunc(g->b, x, type, "");
        out[i] = gpu_from_bits(f, elem, x);
    }
}

void gpu_shuffle(GpuFn *f, const char *mode, LLVMValueRef by, Elem elem, int n,
                 LLVMValueRef *const x, LLVMValueRef *out) {
    LLVMValueRef *words = ctx_array(f->ctx, LLVMValueRef, 2 * n);
    const char *name = ctx_format(f->ctx, "tg.shuffle.%s", mode);
    int n_words = gpu_to_words(f, elem, n, x, words);
    for (int i = 0; i < n_words; i++) words[i] = gpu_call(f, name, 2, words[i], by);
    gpu_from_words(f, elem, n, words, out);
}

/* ---- opaque words -------------------------------------------------------------------------- */

static bool is_opcode(LLVMValueRef v, LLVMOpcode code) {
    return LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == code;
}

/// Returns the word whose part from bit `at` on is x, or NULL if unknown.
static LLVMValueRef word_around(LLVMValueRef x, unsigned at) {
    if (is_opcode(x, LLVMBitCast)) x = LLVMGetOperand(x, 0);
    if (!is_opcode(x, LLVMTrunc)) return NULL;
    LLVMValueRef word = LLVMGetOperand(x, 0);
    if (!at) return word;
    LLVMValueRef by = is_opcode(word, LLVMLShr) ? LLVMGetOperand(word, 1) : NULL;
    bool there = by && LLVMIsAConstantInt(by) && LLVMConstIntGetZExtValue(by) == at;
    return there ? LLVMGetOperand(word, 0) : NULL;
}

/// Whether the n elements form one word.
static bool is_whole_word(Elem elem, int n, LLVMValueRef *const x) {
    int bits = elem_bytes(elem) * 8;
    LLVMValueRef word = word_around(x[0], 0);
    for (int i = 1; i < n; i++)
        if (!word || word_around(x[i], (unsigned)(i * bits)) != word) return false;
    return n * bits == 32;
}

void gpu_lower_renew(GpuFn *f, Op *op) {
    const Value *v = result(op, 0);
    Elem elem = v->type->elem;
    LLVMValueRef *x = gpu_block(f, operand(op, 0)), *out = gpu_new_block(f, v);
    int n = (int)gpu_registers(v->type), each = 4 / elem_bytes(elem);
    if (!each) each = 1;
    for (int r = 0; r < n; r += each) {
        LLVMValueRef words[2];
        int m = n - r < each ? n - r : each, n_words = gpu_to_words(f, elem, m, x + r, words);
        bool known = op_flag(op, A_PACK_WORDS) && is_whole_word(elem, m, x + r);
        for (int i = 0; i < n_words && !known; i++) words[i] = gpu_call(f, "tg.renew", 1, words[i]);
        gpu_from_words(f, elem, m, words, out + r);
    }
}
