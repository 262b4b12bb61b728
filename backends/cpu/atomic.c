// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomics, one element at a time. Integers use an atomic instruction, all other types compare and
// swap.
#include "backends/cpu/emit.h"

// The instruction for signed and for unsigned integers.
static const struct CpuAtomic {
    LLVMAtomicRMWBinOp s, u;
} atomics[] = {
    [UPDATE_ADD] = {LLVMAtomicRMWBinOpAdd, LLVMAtomicRMWBinOpAdd},
    [UPDATE_MAX] = {LLVMAtomicRMWBinOpMax, LLVMAtomicRMWBinOpUMax},
    [UPDATE_MIN] = {LLVMAtomicRMWBinOpMin, LLVMAtomicRMWBinOpUMin},
    [UPDATE_AND] = {LLVMAtomicRMWBinOpAnd, LLVMAtomicRMWBinOpAnd},
    [UPDATE_OR] = {LLVMAtomicRMWBinOpOr, LLVMAtomicRMWBinOpOr},
    [UPDATE_XOR] = {LLVMAtomicRMWBinOpXor, LLVMAtomicRMWBinOpXor},
    [UPDATE_XCHG] = {LLVMAtomicRMWBinOpXchg, LLVMAtomicRMWBinOpXchg},
};

/// Returns the integer type of an element in memory.
static LLVMTypeRef bits_type(Emit *e, Elem elem) {
    return LLVMIntTypeInContext(e->g->llvm, (unsigned)elem_bytes(elem) * 8);
}
static LLVMValueRef to_bits(Emit *e, Elem elem, LLVMValueRef x) {
    x = gen_to_memory(e->g, elem, x);
    return LLVMBuildBitCast(e->g->b, x, bits_type(e, elem), "");
}
static LLVMValueRef from_bits(Emit *e, Elem elem, LLVMValueRef x) {
    x = LLVMBuildBitCast(e->g->b, x, gen_mem_elem(e->g, elem), "");
    return gen_from_memory(e->g, elem, x);
}

static LLVMValueRef exchange_if(Emit *e, LLVMValueRef at, LLVMValueRef expected,
                                LLVMValueRef desired) {
    return LLVMBuildAtomicCmpXchg(e->g->b, at, expected, desired, LLVMAtomicOrderingMonotonic,
                                  LLVMAtomicOrderingMonotonic, false);
}

/// old = *at; while (!(*at == old ? (*at = by(old, x), true) : (old = *at, false))) {}
static LLVMValueRef swap_loop(Emit *e, OpCode by, Elem elem, LLVMValueRef at, LLVMValueRef x) {
    LLVMBuilderRef b = e->g->b;
    LLVMTypeRef bits = bits_type(e, elem);
    LLVMValueRef first = LLVMBuildLoad2(b, bits, at, "");
    LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
    LLVMSetAlignment(first, (unsigned)elem_bytes(elem));
    LLVMBasicBlockRef before = emit_here(e), again = emit_block(e, "swap");
    LLVMBasicBlockRef done = emit_block(e, "swapped");
    LLVMBuildBr(b, again);
    LLVMPositionBuilderAtEnd(b, again);
    LLVMValueRef old = LLVMBuildPhi(b, bits, "");
    LLVMAddIncoming(old, &first, &before, 1);
    LLVMValueRef args[2] = {from_bits(e, elem, old), x};
    LLVMValueRef desired = to_bits(e, elem, gen_elementwise(e->g, by, elem, args));
    LLVMValueRef pair = exchange_if(e, at, old, desired);
    LLVMValueRef seen = LLVMBuildExtractValue(b, pair, 0, "");
    LLVMBasicBlockRef here = emit_here(e);
    LLVMBuildCondBr(b, LLVMBuildExtractValue(b, pair, 1, ""), done, again);
    LLVMAddIncoming(old, &seen, &here, 1);
    LLVMPositionBuilderAtEnd(b, done);
    return seen;
}

static LLVMValueRef apply_cpu_atomic(Emit *e, const Op *op, Elem elem, LLVMValueRef at,
                                     const Place *p) {
    LLVMBuilderRef b = e->g->b;
    LLVMValueRef x = emit_vec(e, operand(op, 1), p);
    Update update = op_update(op);
    if (update == UPDATE_CAS) {
        LLVMValueRef expected = to_bits(e, elem, emit_vec(e, operand(op, 2), p));
        return LLVMBuildExtractValue(b, exchange_if(e, at, expected, to_bits(e, elem, x)), 0, "");
    }
    OpCode by = op_of_update(update);
    if (!elem_is(elem, EC_INT) && by != OP_COUNT) return swap_loop(e, by, elem, at, x);
    LLVMAtomicRMWBinOp code = elem_is(elem, EC_SINT) ? atomics[update].s : atomics[update].u;
    return LLVMBuildAtomicRMW(b, code, at, to_bits(e, elem, x), LLVMAtomicOrderingMonotonic, false);
}

LLVMValueRef emit_atomic(Emit *e, const Op *op, const Place *p) {
    Gen *g = e->g;
    const Prepared *prepared = prepared_of(e, op);
    Elem elem = result(op, 0)->type->elem;
    Lanes l = access_lanes(e, prepared, p);
    if (e->cpu->check) check_access(e, prepared, p);
    If i = {0};
    if (l.live) i = if_begin(e, l.live, "atomic");
    LLVMValueRef at =
        LLVMBuildGEP2(g->b, gen_mem_elem(g, elem), prepared->tensor->data, &l.offset, 1, "");
    LLVMValueRef old = apply_cpu_atomic(e, op, elem, at, p);
    if (l.live) {
        if_else(e, &i);
        if_end(e, &i);
        old = if_phi(e, &i, old, LLVMConstNull(LLVMTypeOf(old)));
    }
    return from_bits(e, elem, old);
}

void atomic_element(Emit *e, Op *op, const Place *p) {
    LLVMValueRef old = emit_atomic(e, op, p);
    Buffer *b = bound_buffer(e, result(op, 0));
    if (b) buffer_store(e, b, p, old);
}
