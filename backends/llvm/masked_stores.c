// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns masked stores whose mask has one constant lane into stores of that lane.
//
//   masked.store(trunc x to <16 x i8>, p, <1, 0, 0 ...>)   ->   store (extract 0), p
//
// LLVM 22 folds the trunc into the first, and then stores the lane at its old width: it overwrites
// three bytes after it. This pass runs last, when no other pass turns masks into constants.
#include <string.h>

#include "backends/llvm/target.h"

/// Returns the only lane of a constant mask; -1: it has several lanes, or is not a constant.
static int only_lane(LLVMValueRef mask) {
    if (!LLVMIsConstant(mask)) return -1;
    int found = -1, n = (int)LLVMGetVectorSize(LLVMTypeOf(mask));
    for (int i = 0; i < n; i++) {
        LLVMValueRef bit = LLVMGetAggregateElement(mask, (unsigned)i);
        if (!bit) return -1;
        if (LLVMIsNull(bit)) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

static void copy_scopes(LLVMContextRef llvm, LLVMValueRef from, LLVMValueRef to) {
    static const char *const names[] = {"alias.scope", "noalias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unsigned kind = LLVMGetMDKindIDInContext(llvm, names[i], (unsigned)strlen(names[i]));
        LLVMValueRef scopes = LLVMGetMetadata(from, kind);
        if (scopes) LLVMSetMetadata(to, kind, scopes);
    }
}

static void store_lane(LLVMModuleRef module, LLVMBuilderRef b, LLVMValueRef call, int lane) {
    LLVMContextRef llvm = LLVMGetModuleContext(module);
    LLVMPositionBuilderBefore(b, call);
    LLVMValueRef x = LLVMGetOperand(call, 0), at = LLVMGetOperand(call, 1);
    LLVMTypeRef type = LLVMGetElementType(LLVMTypeOf(x));
    LLVMTypeRef i32 = LLVMInt32TypeInContext(llvm);
    LLVMValueRef index = LLVMConstInt(i32, (unsigned)lane, false);
    LLVMValueRef place = LLVMBuildGEP2(b, type, at, &index, 1, "");
    LLVMValueRef s = LLVMBuildStore(b, LLVMBuildExtractElement(b, x, index, ""), place);
    unsigned long long bits = LLVMSizeOfTypeInBits(LLVMGetModuleDataLayout(module), type);
    unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAttributeRef align = LLVMGetCallSiteEnumAttribute(call, 2, kind);
    unsigned long long known = align ? LLVMGetEnumAttributeValue(align) : 1;
    LLVMSetAlignment(s, (unsigned)(known * 8 < bits ? known : bits / 8));
    copy_scopes(llvm, call, s);
    LLVMInstructionEraseFromParent(call);
}

static void settle_masked_calls(LLVMModuleRef module, LLVMBuilderRef b, LLVMValueRef function) {
    for (LLVMUseRef use = LLVMGetFirstUse(function), next; use; use = next) {
        next = LLVMGetNextUse(use);
        LLVMValueRef call = LLVMGetUser(use);
        int lane = only_lane(LLVMGetOperand(call, 2));
        if (lane >= 0) store_lane(module, b, call, lane);
    }
}

void module_settle_masks(LLVMModuleRef module) {
    static const char name[] = "llvm.masked.store.";
    LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(module));
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        size_t n;
        if (strncmp(LLVMGetValueName2(f, &n), name, sizeof name - 1) == 0)
            settle_masked_calls(module, b, f);
    }
    LLVMDisposeBuilder(b);
}
