// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps loads in their places. ptxas moves loads from memory that nothing writes across barriers,
// as early as its bound on registers seems to permit, and then may lack a register and spill.
// Lowering has placed loads that all programs share as late as possible, because other values need
// the registers until then. A load that is not marked read-only stays after its barrier.
#include <string.h>

#include "backends/nvidia/nvidia.h"

/// Returns the same assembly without the ".nc" at `at` in its text.
static LLVMValueRef plain_load_asm(Ctx *ctx, LLVMValueRef code, const char *text, size_t n,
                                   const char *at) {
    size_t head = (size_t)(at - text), skip = strlen(".nc"), n_constraints;
    const char *constraints = LLVMGetInlineAsmConstraintString(code, &n_constraints);
    char *s = ctx_copy(ctx, text, n + 1);
    memmove(s + head, text + head + skip, n - head - skip);
    return LLVMGetInlineAsm(LLVMGetInlineAsmFunctionType(code), s, n - skip, (char *)constraints,
                            n_constraints, LLVMGetInlineAsmHasSideEffects(code),
                            LLVMGetInlineAsmNeedsAlignedStack(code), LLVMGetInlineAsmDialect(code),
                            LLVMGetInlineAsmCanUnwind(code));
}

bool nv_is_vector(const char *ptx) {
    return strstr(ptx, ".v2.") || strstr(ptx, ".v4.");
}

int nv_read_words(LLVMBasicBlockRef block) {
    int words = 0;
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
        const char *text = nv_assembly_of(i);
        if (strstr(text, "ld.global.nc") && nv_is_vector(text))
            words += (int)LLVMCountStructElementTypes(LLVMTypeOf(i));
    }
    return words;
}

/// Single elements have a register each. Vectors are kept only if `vectors`.
static void keep_call(Ctx *ctx, LLVMValueRef call, bool vectors) {
    size_t n;
    LLVMValueRef code = LLVMGetCalledValue(call);
    if (!LLVMIsAInlineAsm(code)) return;
    const char *text = LLVMGetInlineAsmAsmString(code, &n), *load = strstr(text, "ld.global.nc");
    if (!load || (nv_is_vector(text) && !vectors)) return;
    LLVMValueRef made = plain_load_asm(ctx, code, text, n, load + strlen("ld.global"));
    LLVMSetOperand(call, (unsigned)LLVMGetNumOperands(call) - 1, made);
}

/// Returns whether the load was read-only.
static bool keep_load(LLVMValueRef load) {
    LLVMContextRef llvm = LLVMGetTypeContext(LLVMTypeOf(load));
    unsigned kind = LLVMGetMDKindIDInContext(llvm, "invariant.load", strlen("invariant.load"));
    bool was = LLVMGetMetadata(load, kind) != NULL;
    LLVMSetMetadata(load, kind, NULL);
    return was;
}

bool nv_pin_loads(Ctx *ctx, LLVMBasicBlockRef block, bool vectors) {
    bool kept = false;
    for (LLVMValueRef i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i)) {
        if (LLVMIsACallInst(i)) keep_call(ctx, i, vectors);
        if (LLVMIsALoadInst(i) && vectors) kept |= keep_load(i);
    }
    return kept;
}

void nv_pin_parameters(LLVMValueRef fn) {
    unsigned kind = LLVMGetEnumAttributeKindForName("readonly", strlen("readonly"));
    for (unsigned i = 1; i <= LLVMCountParams(fn); i++) LLVMRemoveEnumAttributeAtIndex(fn, i, kind);
}
