// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The checker of portable modules: accepts the constructs of its tables, and reports the first
// other one.
#include <llvm-c/DebugInfo.h>
#include <string.h>

#include "backends/llvm/portable.h"

typedef struct Checker {
    Ctx *ctx;
    LLVMModuleRef module;
    LLVMValueRef fn, inst; // the current position; inst is NULL outside code
} Checker;

/// Leaves with the name of the construct, the function and the instruction.
static _Noreturn void foreign(const Checker *c, const char *what) {
    const char *where = c->fn ? LLVMGetValueName2(c->fn, &(size_t){0}) : "the module";
    const char *text = "";
    if (c->inst) {
        char *printed = LLVMPrintValueToString(c->inst);
        text = ctx_format(c->ctx, ":%s", printed);
        LLVMDisposeMessage(printed);
    }
    ice(c->ctx, (Loc){0}, "not in a portable module: %s, in %s%s", what, where, text);
}

/// Returns if `good`. Otherwise `what` is the foreign construct.
static void need(const Checker *c, bool good, const char *what) {
    if (!good) foreign(c, what);
}

/* ---- types and constants ------------------------------------------------------------------- */

/// bf16 and the f8 types are integers here, because LLVM 7 lacks them. Rows do their arithmetic.
static bool is_scalar(LLVMTypeRef t) {
    switch (LLVMGetTypeKind(t)) {
    case LLVMHalfTypeKind:
    case LLVMFloatTypeKind:
    case LLVMDoubleTypeKind: return true;
    case LLVMIntegerTypeKind: {
        unsigned w = LLVMGetIntTypeWidth(t);
        return w == 1 || w == 8 || w == 16 || w == 32 || w == 64;
    }
    default: return false;
    }
}

/// Generic, global, shared, constant: the spaces that LLVM 7 and the other targets number alike.
static bool is_pointer(LLVMTypeRef t) {
    if (LLVMGetTypeKind(t) != LLVMPointerTypeKind) return false;
    unsigned space = LLVMGetPointerAddressSpace(t);
    return space == 0 || space == 1 || space == 3 || space == 4;
}

// The longest vector of the lowering: 16 bytes of i8. NVPTX splits longer ones.
enum { MAX_VECTOR = 16 };

static bool is_vector(LLVMTypeRef t) {
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind && LLVMGetVectorSize(t) <= MAX_VECTOR &&
           is_scalar(LLVMGetElementType(t));
}

/// The result of target functions: several scalars.
static bool is_struct(LLVMTypeRef t) {
    if (LLVMGetTypeKind(t) != LLVMStructTypeKind || LLVMGetStructName(t)) return false;
    for (unsigned i = 0; i < LLVMCountStructElementTypes(t); i++)
        if (!is_scalar(LLVMStructGetTypeAtIndex(t, i))) return false;
    return LLVMCountStructElementTypes(t) > 0 && !LLVMIsPackedStruct(t);
}

static bool is_value_type(LLVMTypeRef t) {
    return is_scalar(t) || is_pointer(t) || is_vector(t) || is_struct(t);
}

/// Returns 0 for a type that is not a scalar.
static int scalar_bits(LLVMTypeRef t) {
    switch (LLVMGetTypeKind(t)) {
    case LLVMHalfTypeKind: return 16;
    case LLVMFloatTypeKind: return 32;
    case LLVMDoubleTypeKind: return 64;
    case LLVMIntegerTypeKind: return (int)LLVMGetIntTypeWidth(t);
    default: return 0;
    }
}

/// Scalars of whole bytes and vectors of them up to 16 bytes.
static bool is_memory_type(LLVMTypeRef t) {
    if (is_scalar(t)) return scalar_bits(t) >= 8;
    if (!is_vector(t)) return false;
    int bits = scalar_bits(LLVMGetElementType(t));
    return bits >= 8 && bits * (int)LLVMGetVectorSize(t) <= 128;
}

/// Returns 0 for a type without elements.
static unsigned element_count(LLVMTypeRef t) {
    switch (LLVMGetTypeKind(t)) {
    case LLVMVectorTypeKind: return LLVMGetVectorSize(t);
    case LLVMStructTypeKind: return LLVMCountStructElementTypes(t);
    default: return 0;
    }
}

/// Checks a constant made of numbers and null pointers.
static void check_constant(const Checker *c, LLVMValueRef v) {
    need(c, !LLVMIsPoison(v), "poison");
    need(c, !LLVMIsUndef(v), "undef that is not the base of an insert");
    need(c, !LLVMIsAConstantExpr(v), "a constant expression");
    need(c, !LLVMIsAGlobalValue(v), "the address of a global");
    unsigned n = element_count(LLVMTypeOf(v));
    for (unsigned i = 0; i < n; i++) check_constant(c, LLVMGetAggregateElement(v, i));
}

/* ---- calls --------------------------------------------------------------------------------- */

// The allowed intrinsics of LLVM, for scalars and vectors of numbers. The type of the result is
// checked like any other.
static const char *const intrinsics[] = {
    "fma",    "sqrt",     "fabs",  "floor", "ceil",  "trunc", "rint",       "minnum",
    "maxnum", "copysign", "ctpop", "ctlz",  "bswap", "fshl",  "bitreverse", "assume",
};

static bool has_attribute(LLVMValueRef thing, const char *name,
                          LLVMAttributeRef (*get)(LLVMValueRef, LLVMAttributeIndex, unsigned)) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    return get(thing, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, kind) != NULL;
}

/// "llvm.NAME" or "llvm.NAME.TYPE".
static void check_intrinsic(const Checker *c, const char *name) {
    size_t len = strcspn(name + 5, ".");
    for (size_t i = 0; i < sizeof intrinsics / sizeof *intrinsics; i++)
        if (strncmp(intrinsics[i], name + 5, len) == 0 && !intrinsics[i][len]) return;
    foreign(c, "the intrinsic");
}

/// The declaration must agree with the row, so that no earlier pass has moved a collective out of
/// uniform control flow, or an access over an effect.
static void check_function(const Checker *c, LLVMValueRef callee, const char *name) {
    Fn fn;
    need(c, fn_find(name, &fn), "a function without a row");
    need(c, LLVMGlobalGetValueType(callee) == fn_type(LLVMGetModuleContext(c->module), &fn),
         "a target function of another type");
    need(c, has_attribute(callee, "nounwind", LLVMGetEnumAttributeAtIndex),
         "a target function that is not nounwind");
    need(c,
         fn.row->scope == FN_LANE ||
             (has_attribute(callee, "convergent", LLVMGetEnumAttributeAtIndex) &&
              has_attribute(c->inst, "convergent", LLVMGetCallSiteEnumAttribute)),
         "a function of several lanes whose declaration or call is not convergent");
    need(c,
         fn.row->effect == FN_NONE ||
             (!has_attribute(callee, "memory", LLVMGetEnumAttributeAtIndex) &&
              !has_attribute(c->inst, "memory", LLVMGetCallSiteEnumAttribute)),
         "a memory attribute on a function with effects");
}

/// Calls of definitions are foreign as well, since everything is inlined into the kernel.
static void check_call(const Checker *c) {
    LLVMValueRef callee = LLVMGetCalledValue(c->inst);
    need(c, LLVMIsAFunction(callee) && LLVMIsDeclaration(callee), "a call that is not of a row");
    need(c, LLVMGetNumOperandBundles(c->inst) == 0, "an operand bundle");
    const char *name = LLVMGetValueName2(callee, &(size_t){0});
    if (strncmp(name, "llvm.", 5) == 0)
        check_intrinsic(c, name);
    else
        check_function(c, callee, name);
}

/* ---- instructions -------------------------------------------------------------------------- */

/// Atomics are rows: libNVVM silently drops the ordering and scope of LLVM's atomics.
static void check_memory(const Checker *c, LLVMTypeRef t) {
    need(c, is_memory_type(t), "access to memory of this type");
    need(c, !LLVMGetVolatile(c->inst), "volatile access");
    need(c, LLVMGetOrdering(c->inst) == LLVMAtomicOrderingNotAtomic, "an atomic access");
}

/// Addresses are in bytes, because the other dialect has a single pointer type.
static void check_gep(const Checker *c) {
    LLVMTypeRef t = LLVMGetGEPSourceElementType(c->inst);
    unsigned flags = LLVMGEPGetNoWrapFlags(c->inst);
    need(c, LLVMGetNumIndices(c->inst) == 1 && scalar_bits(t) == 8, "getelementptr but of i8");
    need(c, !(flags & LLVMGEPFlagNUW), "getelementptr nuw");
    need(c, (flags & LLVMGEPFlagInBounds) || !(flags & LLVMGEPFlagNUSW), "getelementptr nusw");
    need(c,
         LLVMIsAConstantInt(LLVMGetOperand(c->inst, 1)) ||
             scalar_bits(LLVMTypeOf(LLVMGetOperand(c->inst, 1))) >= 32,
         "an index of fewer than 32 bits");
}

/// A pointer may be cast to its own type. This is useless, but not a cast of numbers.
static void check_bitcast(const Checker *c) {
    need(c, !is_pointer(LLVMTypeOf(c->inst)), "a cast of pointers");
}

static void check_shuffle(const Checker *c) {
    for (unsigned i = 0; i < LLVMGetNumMaskElements(c->inst); i++)
        need(c, LLVMGetMaskValue(c->inst, i) >= 0, "poison in a mask");
}

static void check_load(const Checker *c) {
    check_memory(c, LLVMTypeOf(c->inst));
}
static void check_store(const Checker *c) {
    check_memory(c, LLVMTypeOf(LLVMGetOperand(c->inst, 0)));
}
static void check_trunc(const Checker *c) {
    need(c, !LLVMGetNUW(c->inst) && !LLVMGetNSW(c->inst), "trunc nuw or nsw");
}
// LLVM 7 cannot parse these flags, and ptxas gives them no meaning.
static void check_nneg(const Checker *c) {
    need(c, !LLVMGetNNeg(c->inst), "nneg");
}
static void check_or(const Checker *c) {
    need(c, !LLVMGetIsDisjoint(c->inst), "or disjoint");
}
static void check_icmp(const Checker *c) {
    need(c, !LLVMGetICmpSameSign(c->inst), "icmp samesign");
    need(c, LLVMGetTypeKind(LLVMTypeOf(LLVMGetOperand(c->inst, 0))) != LLVMPointerTypeKind,
         "a comparison of pointers");
}

// The table of instructions: further checks, and whether fast-math flags are permitted.
static const struct Instruction {
    LLVMOpcode code;
    bool fast;
    void (*check)(const Checker *c);
} instructions[] = {
    {LLVMRet, 0, 0},
    {LLVMBr, 0, 0},
    {LLVMSwitch, 0, 0},
    {LLVMAdd, 0, 0},
    {LLVMSub, 0, 0},
    {LLVMMul, 0, 0},
    {LLVMUDiv, 0, 0},
    {LLVMSDiv, 0, 0},
    {LLVMURem, 0, 0},
    {LLVMSRem, 0, 0},
    {LLVMShl, 0, 0},
    {LLVMLShr, 0, 0},
    {LLVMAShr, 0, 0},
    {LLVMAnd, 0, 0},
    {LLVMOr, 0, check_or},
    {LLVMXor, 0, 0},
    {LLVMFAdd, 1, 0},
    {LLVMFSub, 1, 0},
    {LLVMFMul, 1, 0},
    {LLVMFDiv, 1, 0},
    {LLVMFRem, 1, 0},
    {LLVMFNeg, 1, 0},
    {LLVMICmp, 0, check_icmp},
    {LLVMFCmp, 1, 0},
    {LLVMSelect, 0, 0},
    {LLVMPHI, 0, 0},
    {LLVMTrunc, 0, check_trunc},
    {LLVMZExt, 0, check_nneg},
    {LLVMSExt, 0, 0},
    {LLVMFPTrunc, 0, 0},
    {LLVMFPExt, 0, 0},
    {LLVMFPToUI, 0, 0},
    {LLVMFPToSI, 0, 0},
    {LLVMUIToFP, 0, check_nneg},
    {LLVMSIToFP, 0, 0},
    {LLVMBitCast, 0, check_bitcast},
    {LLVMGetElementPtr, 0, check_gep},
    {LLVMLoad, 0, check_load},
    {LLVMStore, 0, check_store},
    {LLVMExtractElement, 0, 0},
    {LLVMInsertElement, 0, 0},
    {LLVMShuffleVector, 0, check_shuffle},
    {LLVMExtractValue, 0, 0},
    {LLVMInsertValue, 0, 0},
    {LLVMCall, 0, check_call},
};

static const struct Instruction *find_instruction(LLVMOpcode code) {
    for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++)
        if (instructions[i].code == code) return &instructions[i];
    return NULL;
}

/// The callee is the last operand of a call and is checked elsewhere.
static void check_operands(const Checker *c, LLVMOpcode code) {
    int n = code == LLVMCall ? (int)LLVMGetNumArgOperands(c->inst) : LLVMGetNumOperands(c->inst);
    bool insert = code == LLVMInsertElement || code == LLVMInsertValue;
    for (int i = 0; i < n; i++) {
        LLVMValueRef v = LLVMGetOperand(c->inst, (unsigned)i);
        bool base = insert && i == 0 && LLVMIsUndef(v) && !LLVMIsPoison(v);
        if (LLVMIsConstant(v) && !base) check_constant(c, v);
    }
}

const char *const portable_metadata[] = {"range",   "invariant.load", "alias.scope",
                                         "noalias", "llvm.loop",      NULL};

static unsigned kind_of(const Checker *c, const char *name) {
    return LLVMGetMDKindIDInContext(LLVMGetModuleContext(c->module), name, (unsigned)strlen(name));
}

static void check_metadata(const Checker *c) {
    size_t n;
    LLVMValueMetadataEntry *all = LLVMInstructionGetAllMetadataOtherThanDebugLoc(c->inst, &n);
    bool good = true;
    for (size_t i = 0; i < n; i++) {
        unsigned kind = LLVMValueMetadataEntriesGetKind(all, (unsigned)i);
        bool found = kind == kind_of(c, "dbg");
        for (const char *const *s = portable_metadata; *s; s++) found |= kind == kind_of(c, *s);
        good &= found;
    }
    LLVMDisposeValueMetadataEntries(all);
    need(c, good, "metadata");
}

/// LLVM's verifier has run, so the module is well-formed.
static void check_instruction(const Checker *c) {
    LLVMOpcode code = LLVMGetInstructionOpcode(c->inst);
    const struct Instruction *row = find_instruction(code);
    need(c, row, "the instruction");
    LLVMTypeRef t = LLVMTypeOf(c->inst);
    need(c, LLVMGetTypeKind(t) == LLVMVoidTypeKind || is_value_type(t), "the type");
    if (LLVMCanValueUseFastMathFlags(c->inst))
        need(c, row->fast || !LLVMGetFastMathFlags(c->inst), "fast flags here");
    if (row->check) row->check(c);
    check_operands(c, code);
    check_metadata(c);
    need(c, !LLVMGetFirstDbgRecord(c->inst), "a debug record");
}

/* ---- functions and module ------------------------------------------------------------------ */

/// Returns true if all attributes at `at` are strings "tg.*" or in the NULL-terminated list.
static bool only_attributes(LLVMValueRef fn, LLVMAttributeIndex at, const char *const *names) {
    LLVMAttributeRef all[32];
    unsigned n = LLVMGetAttributeCountAtIndex(fn, at);
    if (n > 32) return false;
    LLVMGetAttributesAtIndex(fn, at, all);
    for (unsigned i = 0; i < n; i++) {
        unsigned len;
        bool good = LLVMIsStringAttribute(all[i]) &&
                    strncmp(LLVMGetStringAttributeKind(all[i], &len), "tg.", 3) == 0;
        for (const char *const *s = names; *s && !LLVMIsStringAttribute(all[i]); s++)
            good |=
                LLVMGetEnumAttributeKind(all[i]) == LLVMGetEnumAttributeKindForName(*s, strlen(*s));
        if (!good) return false;
    }
    return true;
}

/// Whether assemblers accept the name unchanged.
static bool is_symbol(const char *name) {
    static const char all[] = "_$abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    return *name && (*name < '0' || *name > '9') && !name[strspn(name, all)];
}

/// A tensor map has a fixed number of bytes.
static void check_byval(const Checker *c, unsigned param) {
    unsigned kind = LLVMGetEnumAttributeKindForName("byval", 5);
    LLVMAttributeRef a = LLVMGetEnumAttributeAtIndex(c->fn, param + 1, kind);
    LLVMTypeRef t = a ? LLVMGetTypeAttributeValue(a) : NULL;
    need(c,
         !t || (LLVMGetTypeKind(t) == LLVMArrayTypeKind && scalar_bits(LLVMGetElementType(t)) == 8),
         "byval but of bytes");
}

/// LLVM 7 does not parse most attributes of LLVM 22. Ours are strings, which the writer reads.
static void check_kernel(const Checker *c) {
    static const char *const of_function[] = {"nounwind", "convergent", NULL};
    static const char *const of_param[] = {"noalias", "readonly",        "align", "nonnull",
                                           "byval",   "dereferenceable", NULL};
    LLVMTypeRef type = LLVMGlobalGetValueType(c->fn);
    need(c, is_symbol(LLVMGetValueName2(c->fn, &(size_t){0})), "the name of a kernel");
    need(c,
         LLVMGetTypeKind(LLVMGetReturnType(type)) == LLVMVoidTypeKind &&
             !LLVMIsFunctionVarArg(type),
         "a kernel with a result or variable arguments");
    need(c, LLVMGetFunctionCallConv(c->fn) == LLVMCCallConv, "a calling convention");
    need(c, only_attributes(c->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, of_function),
         "an attribute of the function");
    for (unsigned i = 0; i < LLVMCountParams(c->fn); i++) {
        LLVMTypeRef t = LLVMTypeOf(LLVMGetParam(c->fn, i));
        need(c, is_scalar(t) || is_pointer(t), "the type of a parameter");
        need(c, only_attributes(c->fn, i + 1, of_param), "an attribute of a parameter");
        check_byval(c, i);
    }
}

static void check_body(Checker *c) {
    check_kernel(c);
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(c->fn); b; b = LLVMGetNextBasicBlock(b))
        for (c->inst = LLVMGetFirstInstruction(b); c->inst;
             c->inst = LLVMGetNextInstruction(c->inst))
            check_instruction(c);
    c->inst = NULL;
}

void portable_check(Ctx *ctx, LLVMModuleRef module) {
    Checker c = {.ctx = ctx, .module = module};
    size_t n;
    need(&c, !LLVMGetFirstGlobal(module), "a global variable");
    need(&c, !LLVMGetFirstGlobalAlias(module), "an alias");
    need(&c, !LLVMGetFirstGlobalIFunc(module), "an ifunc");
    LLVMGetModuleInlineAsm(module, &n);
    need(&c, n == 0, "module assembly");
    for (c.fn = LLVMGetFirstFunction(module); c.fn; c.fn = LLVMGetNextFunction(c.fn))
        if (!LLVMIsDeclaration(c.fn)) check_body(&c);
}
