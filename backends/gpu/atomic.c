// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomics on global memory, one element at a time. They use an instruction if it exists. 16-bit
// additions use an instruction on the two halves of a word. Everything else compares and swaps the
// 32-bit or 64-bit word that contains the element.
#include <string.h>

#include "backends/gpu/access.h"
#include "backends/gpu/ops.h"

// The families of portable.def for signed and for unsigned integers.
static const struct AtomicRow {
    const char *sint, *uint;
} atomic_rows[] = {
    [UPDATE_ADD] = {"add.i", "add.i"},    [UPDATE_MAX] = {"max.i", "max.u"},
    [UPDATE_MIN] = {"min.i", "min.u"},    [UPDATE_AND] = {"and.i", "and.i"},
    [UPDATE_OR] = {"or.i", "or.i"},       [UPDATE_XOR] = {"xor.i", "xor.i"},
    [UPDATE_XCHG] = {"xchg.i", "xchg.i"}, [UPDATE_CAS] = {NULL, NULL},
};

typedef struct GpuAtomic {
    GpuFn *f;
    Update update;
    OpCode by; // OP_COUNT: the new value replaces the old one
    Elem elem;
    const char *scope;            // "gpu" or "sys"
    LLVMValueRef at, on;          // of the element
    LLVMValueRef value, expected; // expected: for cas
} GpuAtomic;

static LLVMValueRef atomic_bits(const GpuAtomic *a, LLVMValueRef x) {
    return gpu_to_bits(a->f, a->elem, x);
}

static LLVMValueRef call_row(const GpuAtomic *a, const char *form, LLVMValueRef at,
                             LLVMValueRef x) {
    const char *name = ctx_format(a->f->ctx, "tg.atomic.global.%s.%s", form, a->scope);
    return gpu_call(a->f, name, 3, at, a->on, x);
}

/* ---- by instruction ------------------------------------------------------------------------ */

/// Returns the row's name without space and scope, or NULL.
static const char *atomic_row(const GpuAtomic *a) {
    int bits = elem_bytes(a->elem) * 8;
    bool integer = elem_is(a->elem, EC_INT), swap = a->by == OP_COUNT;
    if (a->elem == EL_F32 && a->by == OP_ADD) return "add.f32";
    if (bits < 32 || !atomic_rows[a->update].sint || (!integer && !swap)) return NULL;
    const char *row =
        elem_is(a->elem, EC_SINT) ? atomic_rows[a->update].sint : atomic_rows[a->update].uint;
    return ctx_format(a->f->ctx, "%s%d", row, bits);
}

static LLVMValueRef by_instruction(const GpuAtomic *a, const char *row) {
    if (strcmp(row, "add.f32") == 0) return call_row(a, row, a->at, a->value);
    return gpu_from_bits(a->f, a->elem, call_row(a, row, a->at, atomic_bits(a, a->value)));
}

/* ---- by compare and swap ------------------------------------------------------------------- */

/// The word that contains the element, and the position in it.
typedef struct AtomicWord {
    LLVMValueRef at, shift; // shift NULL: the element fills the word
    LLVMTypeRef type;
    int bits;
} AtomicWord;

static AtomicWord atomic_word(const GpuAtomic *a) {
    GpuFn *f = a->f;
    Gen *g = f->g;
    int bytes = elem_bytes(a->elem);
    if (bytes >= 4)
        return (AtomicWord){.at = a->at, .type = bytes == 4 ? g->i32 : g->i64, .bits = bytes * 8};
    LLVMValueRef low = LLVMBuildTrunc(g->b, gpu_call(f, "tg.global.addr", 1, a->at), g->i32, "");
    low = LLVMBuildAnd(g->b, low, gpu_i32(f, 3), "");
    return (AtomicWord){.at = gpu_offset(f, a->at, LLVMBuildNeg(g->b, low, "")),
                        .shift = LLVMBuildShl(g->b, low, gpu_i32(f, 3), ""),
                        .type = g->i32,
                        .bits = 32};
}

/// Returns the element in a word, as an integer.
static LLVMValueRef take_from_word(const GpuAtomic *a, const AtomicWord *w, LLVMValueRef word) {
    Gen *g = a->f->g;
    if (!w->shift) return word;
    LLVMTypeRef type = LLVMIntTypeInContext(g->llvm, (unsigned)elem_bytes(a->elem) * 8);
    return LLVMBuildTrunc(g->b, LLVMBuildLShr(g->b, word, w->shift, ""), type, "");
}

static LLVMValueRef put_into_word(const GpuAtomic *a, const AtomicWord *w, LLVMValueRef word,
                                  LLVMValueRef x) {
    GpuFn *f = a->f;
    Gen *g = f->g;
    if (!w->shift) return x;
    int64_t ones = ((int64_t)1 << (elem_bytes(a->elem) * 8)) - 1;
    LLVMValueRef mask = LLVMBuildShl(g->b, gpu_i32(f, ones), w->shift, "");
    x = LLVMBuildShl(g->b, LLVMBuildZExt(g->b, x, g->i32, ""), w->shift, "");
    word = LLVMBuildAnd(g->b, word, LLVMBuildNot(g->b, mask, ""), "");
    return LLVMBuildOr(g->b, word, x, "");
}

/// Returns the bits of the element's new value.
static LLVMValueRef next_bits(const GpuAtomic *a, LLVMValueRef old) {
    Gen *g = a->f->g;
    if (a->expected) {
        LLVMValueRef same = LLVMBuildICmp(g->b, LLVMIntEQ, old, atomic_bits(a, a->expected), "");
        return LLVMBuildSelect(g->b, same, atomic_bits(a, a->value), old, "");
    }
    if (a->by == OP_COUNT) return atomic_bits(a, a->value);
    LLVMValueRef args[2] = {gpu_from_bits(a->f, a->elem, old), a->value};
    return atomic_bits(a, gen_elementwise(g, a->by, a->elem, args));
}

static LLVMValueRef phi_of(GpuFn *f, LLVMValueRef x, LLVMBasicBlockRef from) {
    LLVMValueRef phi = LLVMBuildPhi(f->g->b, LLVMTypeOf(x), "");
    LLVMAddIncoming(phi, &x, &from, 1);
    return phi;
}

/// All lanes of a warp loop until the last of them has swapped, so the branch is uniform.
static LLVMValueRef by_swapping(const GpuAtomic *a) {
    GpuFn *f = a->f;
    Gen *g = f->g;
    AtomicWord w = atomic_word(a);
    const char *swap = ctx_format(f->ctx, "tg.atomic.global.cas.i%d.%s", w.bits, a->scope);
    LLVMValueRef first =
        call_row(a, w.bits == 64 ? "or.i64" : "or.i32", w.at, LLVMConstNull(w.type));
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef again = LLVMAppendBasicBlockInContext(g->llvm, f->fn, "swap");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(g->llvm, f->fn, "swapped");
    LLVMBuildBr(g->b, again);
    LLVMPositionBuilderAtEnd(g->b, again);
    LLVMValueRef old = phi_of(f, first, from), on = phi_of(f, a->on, from);
    LLVMValueRef wanted = put_into_word(a, &w, old, next_bits(a, take_from_word(a, &w, old)));
    LLVMValueRef seen = gpu_call(f, swap, 4, w.at, on, old, wanted);
    LLVMValueRef failed = LLVMBuildICmp(g->b, LLVMIntNE, seen, old, "");
    failed = LLVMBuildAnd(g->b, failed, on, "");
    LLVMValueRef next = LLVMBuildSelect(g->b, failed, seen, old, "");
    LLVMBasicBlockRef block = LLVMGetInsertBlock(g->b);
    LLVMAddIncoming(old, &next, &block, 1);
    LLVMAddIncoming(on, &failed, &block, 1);
    LLVMBuildCondBr(g->b, gpu_call(f, "tg.vote.any", 1, failed), again, done);
    LLVMPositionBuilderAtEnd(g->b, done);
    return gpu_from_bits(f, a->elem, take_from_word(a, &w, old));
}

/* ---- by two halves ------------------------------------------------------------------------- */

/// Returns the row that adds to both halves of a word, or NULL.
static const char *pair_row_of(const GpuAtomic *a) {
    const GpuTarget *t = a->f->target;
    if (a->by != OP_ADD || !gpu_has(t, GPU_MMA)) return NULL;
    if (a->elem == EL_F16) return "add.f16x2";
    return a->elem == EL_BF16 && gpu_has(t, GPU_TMA) ? "add.bf16x2" : NULL;
}

/// The other half adds -0, which does not change it.
static LLVMValueRef by_halves(const GpuAtomic *a, const char *row) {
    GpuFn *f = a->f;
    AtomicWord w = atomic_word(a);
    LLVMValueRef zero = gpu_i32(f, (int64_t)0x80008000); // two halves
    LLVMValueRef word =
        call_row(a, row, w.at, put_into_word(a, &w, zero, atomic_bits(a, a->value)));
    return gpu_from_bits(f, a->elem, take_from_word(a, &w, word));
}

/* ---- the op -------------------------------------------------------------------------------- */

static LLVMValueRef atomic_register(const GpuAtomic *a) {
    const char *row = atomic_row(a), *pair = pair_row_of(a);
    LLVMValueRef x = row ? by_instruction(a, row) : pair ? by_halves(a, pair) : by_swapping(a);
    return LLVMBuildSelect(a->f->g->b, a->on, x, LLVMConstNull(LLVMTypeOf(x)), "");
}

/// Gives threads with copies the result of the owner. For a scalar, all threads get the result of
/// thread 0.
static void share_results(GpuFn *f, const Value *v) {
    LLVMValueRef *regs = gpu_block(f, v);
    if (v->type->rank) {
        int64_t strides[MAX_RANK];
        LLVMValueRef base = gpu_spill(f, v, strides);
        gpu_get(f, v, base, strides, 0);
        return;
    }
    LLVMValueRef base = gpu_shared_alloc(f, 16, 16);
    LLVMValueRef first = gpu_is_first_thread(f);
    gpu_store_shared_if(f, v->type->elem, base, 1, regs, first);
    gpu_barrier(f);
    gpu_load_vector(f, v->type->elem, base, 1, regs);
}

void gpu_lower_atomic(GpuFn *f, Op *op) {
    gpu_order_access(f, op);
    if (f->options->check) gpu_check_access(f, op);
    GpuAccess *p = gpu_access(f, op);
    LLVMValueRef owner = gpu_access_owner(p), *values = gpu_block(f, p->a.value);
    LLVMValueRef *out = gpu_new_block(f, result(op, 0)), *expected = NULL;
    GpuAtomic a = {
        .f = f, .update = op_update(op), .by = op_of_update(op_update(op)), .elem = p->elem};
    a.scope = op_flag(op, A_SYSTEM) ? "sys" : "gpu";
    if (a.update == UPDATE_CAS) expected = gpu_block(f, operand(op, 2));
    for (int r = 0; r < gpu_access_registers(p); r++) {
        out[r] = LLVMConstNull(gen_elem(f->g, p->elem));
        if (gpu_access_never(p, r)) continue;
        LLVMValueRef on = gen_and(f->g, gpu_access_live(p, r), owner);
        a.on = on ? on : gpu_true(f);
        a.at = gpu_access_address(p, r);
        a.value = values[r];
        a.expected = expected ? expected[r] : NULL;
        out[r] = atomic_register(&a);
    }
    if (owner && value_has_uses(result(op, 0))) share_results(f, result(op, 0));
}
