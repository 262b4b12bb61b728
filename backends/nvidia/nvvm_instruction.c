// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The instructions of the NVVM writer.
#include <string.h>

#include "backends/nvidia/nvvm_writer.h"

/// Writes the indentation, and "%name = " for an instruction with a value.
static void write_result(Writer *w, LLVMValueRef inst) {
    text_add(&w->out, "  ");
    if (LLVMGetTypeKind(LLVMTypeOf(inst)) == LLVMVoidTypeKind) return;
    write_value(w, inst);
    text_add(&w->out, " = ");
}

static void write_label_operand(Writer *w, LLVMBasicBlockRef b) {
    text_add(&w->out, "label ");
    write_name(w, '%', LLVMGetBasicBlockName(b));
}

/// Writes operands from..n, each with its type, separated by commas.
static void write_operands(Writer *w, LLVMValueRef inst, int from, int n) {
    for (int i = from; i < n; i++) {
        text_add(&w->out, i > from ? ", " : "");
        write_typed(w, LLVMGetOperand(inst, (unsigned)i));
    }
}

/* ---- flags --------------------------------------------------------------------------------- */

static const struct {
    LLVMFastMathFlags flag;
    const char *name;
} fast_flags[] = {
    {LLVMFastMathAllowReassoc, "reassoc"}, {LLVMFastMathNoNaNs, "nnan"},
    {LLVMFastMathNoInfs, "ninf"},          {LLVMFastMathNoSignedZeros, "nsz"},
    {LLVMFastMathAllowReciprocal, "arcp"}, {LLVMFastMathAllowContract, "contract"},
    {LLVMFastMathApproxFunc, "afn"},
};

/// Flags follow the name of the instruction in both dialects. portable.c rejects newer ones.
static void write_flags(Writer *w, LLVMValueRef inst) {
    LLVMFastMathFlags fast =
        LLVMCanValueUseFastMathFlags(inst) ? LLVMGetFastMathFlags(inst) : LLVMFastMathNone;
    for (size_t i = 0; i < sizeof fast_flags / sizeof *fast_flags; i++)
        if (fast & fast_flags[i].flag) text_add(&w->out, " %s", fast_flags[i].name);
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMAdd:
    case LLVMSub:
    case LLVMMul:
    case LLVMShl:
        if (LLVMGetNUW(inst)) text_add(&w->out, " nuw");
        if (LLVMGetNSW(inst)) text_add(&w->out, " nsw");
        break;
    case LLVMUDiv:
    case LLVMSDiv:
    case LLVMLShr:
    case LLVMAShr:
        if (LLVMGetExact(inst)) text_add(&w->out, " exact");
        break;
    default: break;
    }
}

/* ---- arithmetic ---------------------------------------------------------------------------- */

static void write_binary(Writer *w, LLVMValueRef inst, const char *name) {
    text_add(&w->out, "%s", name);
    write_flags(w, inst);
    text_add(&w->out, " ");
    write_typed(w, LLVMGetOperand(inst, 0));
    text_add(&w->out, ", ");
    write_value(w, LLVMGetOperand(inst, 1));
}

/// -x = -0.0 - x, in every lane.
static void write_fneg(Writer *w, LLVMValueRef inst, const char *name) {
    LLVMTypeRef t = LLVMTypeOf(inst);
    bool vector = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
    LLVMValueRef zero = LLVMConstReal(vector ? LLVMGetElementType(t) : t, -0.0), lanes[16];
    unsigned n = vector ? LLVMGetVectorSize(t) : 0;
    for (unsigned i = 0; i < n; i++) lanes[i] = zero;
    text_add(&w->out, "%s", name);
    write_flags(w, inst);
    text_add(&w->out, " ");
    write_typed(w, vector ? LLVMConstVector(lanes, n) : zero);
    text_add(&w->out, ", ");
    write_value(w, LLVMGetOperand(inst, 0));
}

// LLVM's numbers of predicates are the same in both dialects: integers from 32, floats from 0.
static void write_compare(Writer *w, LLVMValueRef inst, const char *name) {
    static const char *const floats[] = {"false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
                                         "uno",   "ueq", "ugt", "uge", "ult", "ule", "une", "true"};
    static const char *const integers[] = {"eq",  "ne",  "ugt", "uge", "ult",
                                           "ule", "sgt", "sge", "slt", "sle"};
    bool ints = LLVMGetInstructionOpcode(inst) == LLVMICmp;
    text_add(&w->out, "%s", name);
    write_flags(w, inst);
    text_add(&w->out, " %s ",
             ints ? integers[LLVMGetICmpPredicate(inst) - LLVMIntEQ]
                  : floats[LLVMGetFCmpPredicate(inst)]);
    write_typed(w, LLVMGetOperand(inst, 0));
    text_add(&w->out, ", ");
    write_value(w, LLVMGetOperand(inst, 1));
}

static void write_cast(Writer *w, LLVMValueRef inst, const char *name) {
    text_add(&w->out, "%s ", name);
    write_typed(w, LLVMGetOperand(inst, 0));
    text_add(&w->out, " to ");
    write_type(w, LLVMTypeOf(inst));
}

/// Writes all operands with their types.
static void write_plain_inst(Writer *w, LLVMValueRef inst, const char *name) {
    text_add(&w->out, "%s ", name);
    write_operands(w, inst, 0, LLVMGetNumOperands(inst));
}

static void write_shuffle(Writer *w, LLVMValueRef inst, const char *name) {
    unsigned n = LLVMGetNumMaskElements(inst);
    write_plain_inst(w, inst, name);
    text_add(&w->out, ", <%u x i32> <", n);
    for (unsigned i = 0; i < n; i++)
        text_add(&w->out, "%si32 %d", i ? ", " : "", LLVMGetMaskValue(inst, i));
    text_add(&w->out, ">");
}

static void write_indexed(Writer *w, LLVMValueRef inst, const char *name) {
    const unsigned *indices = LLVMGetIndices(inst);
    write_plain_inst(w, inst, name);
    for (unsigned i = 0; i < LLVMGetNumIndices(inst); i++) text_add(&w->out, ", %u", indices[i]);
}

/* ---- control ------------------------------------------------------------------------------- */

static void write_ret(Writer *w, LLVMValueRef inst, const char *name) {
    (void)inst;
    text_add(&w->out, "%s void", name);
}

static void write_br(Writer *w, LLVMValueRef inst, const char *name) {
    text_add(&w->out, "%s ", name);
    if (LLVMIsConditional(inst)) {
        write_typed(w, LLVMGetCondition(inst));
        text_add(&w->out, ", ");
    }
    for (unsigned i = 0; i < LLVMGetNumSuccessors(inst); i++) {
        text_add(&w->out, i ? ", " : "");
        write_label_operand(w, LLVMGetSuccessor(inst, i));
    }
}

/// Successor 0 is the default; case i belongs to successor i.
static void write_switch(Writer *w, LLVMValueRef inst, const char *name) {
    text_add(&w->out, "%s ", name);
    write_typed(w, LLVMGetOperand(inst, 0));
    text_add(&w->out, ", ");
    write_label_operand(w, LLVMGetSwitchDefaultDest(inst));
    text_add(&w->out, " [");
    for (unsigned i = 1; i < LLVMGetNumSuccessors(inst); i++) {
        text_add(&w->out, " ");
        write_typed(w, LLVMGetSwitchCaseValue(inst, i));
        text_add(&w->out, ", ");
        write_label_operand(w, LLVMGetSuccessor(inst, i));
    }
    text_add(&w->out, " ]");
}

static void write_phi(Writer *w, LLVMValueRef inst, const char *name) {
    text_add(&w->out, "%s ", name);
    write_type(w, LLVMTypeOf(inst));
    for (unsigned i = 0; i < LLVMCountIncoming(inst); i++) {
        text_add(&w->out, i ? ", [ " : " [ ");
        write_value(w, LLVMGetIncomingValue(inst, i));
        text_add(&w->out, ", ");
        write_name(w, '%', LLVMGetBasicBlockName(LLVMGetIncomingBlock(inst, i)));
        text_add(&w->out, " ]");
    }
}

/* ---- memory -------------------------------------------------------------------------------- */

/// Writes a line that casts the pointer to a pointer to `t`. Returns the number of its name.
static int cast_pointer(Writer *w, LLVMValueRef p, LLVMTypeRef t) {
    unsigned space = LLVMGetPointerAddressSpace(LLVMTypeOf(p));
    text_add(&w->out, "  %%.p%d = bitcast ", w->casts);
    write_typed(w, p);
    text_add(&w->out, " to ");
    write_type(w, t);
    text_add(&w->out, space ? " addrspace(%u)*\n" : "*\n", space);
    return w->casts++;
}

/// Writes the pointer from cast_pointer, with its type.
static void write_cast_pointer(Writer *w, LLVMValueRef p, LLVMTypeRef t, int cast) {
    unsigned space = LLVMGetPointerAddressSpace(LLVMTypeOf(p));
    write_type(w, t);
    text_add(&w->out, space ? " addrspace(%u)*" : "*", space);
    text_add(&w->out, " %%.p%d", cast);
}

static void write_load(Writer *w, LLVMValueRef inst) {
    LLVMValueRef p = LLVMGetOperand(inst, 0);
    LLVMTypeRef t = LLVMTypeOf(inst);
    int cast = cast_pointer(w, p, t);
    write_result(w, inst);
    text_add(&w->out, "load ");
    write_type(w, t);
    text_add(&w->out, ", ");
    write_cast_pointer(w, p, t, cast);
    text_add(&w->out, ", align %u", LLVMGetAlignment(inst));
}

static void write_store_inst(Writer *w, LLVMValueRef inst) {
    LLVMValueRef v = LLVMGetOperand(inst, 0), p = LLVMGetOperand(inst, 1);
    int cast = cast_pointer(w, p, LLVMTypeOf(v));
    text_add(&w->out, "  store ");
    write_typed(w, v);
    text_add(&w->out, ", ");
    write_cast_pointer(w, p, LLVMTypeOf(v), cast);
    text_add(&w->out, ", align %u", LLVMGetAlignment(inst));
}

static void write_gep(Writer *w, LLVMValueRef inst, const char *name) {
    text_add(&w->out, "%s ", name);
    if (LLVMGEPGetNoWrapFlags(inst) & LLVMGEPFlagInBounds) text_add(&w->out, "inbounds ");
    text_add(&w->out, "i8, ");
    write_operands(w, inst, 0, 2);
}

/* ---- calls --------------------------------------------------------------------------------- */

/// nv_expand puts attributes on the call, not on the callee.
static bool call_is(LLVMValueRef call, const char *attribute) {
    return LLVMGetCallSiteEnumAttribute(
               call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
               LLVMGetEnumAttributeKindForName(attribute, strlen(attribute))) != NULL;
}

/// The text is the same for both generators: $0 counts alike, and neither dialect has another
/// escape.
static void write_asm(Writer *w, LLVMValueRef code) {
    size_t n;
    text_add(&w->out, "asm %s\"", LLVMGetInlineAsmHasSideEffects(code) ? "sideeffect " : "");
    const char *text = LLVMGetInlineAsmAsmString(code, &n);
    write_escaped(w, text, n);
    text_add(&w->out, "\", \"");
    text = LLVMGetInlineAsmConstraintString(code, &n);
    write_escaped(w, text, n);
    text_add(&w->out, "\"");
}

// The numbers of attributes are those that nvvm_write prints.
static void write_call(Writer *w, LLVMValueRef inst, const char *name) {
    LLVMValueRef callee = LLVMGetCalledValue(inst);
    int kind = (call_is(inst, "convergent") ? 1 : 0) + (call_is(inst, "memory") ? 2 : 0);
    text_add(&w->out, "%s ", name);
    write_type(w, LLVMTypeOf(inst));
    text_add(&w->out, " ");
    if (LLVMIsAInlineAsm(callee))
        write_asm(w, callee);
    else
        write_value(w, callee);
    text_add(&w->out, "(");
    write_operands(w, inst, 0, (int)LLVMGetNumArgOperands(inst));
    text_add(&w->out, ") #%d", kind);
}

/* ---- the table ----------------------------------------------------------------------------- */

static const struct Spelling {
    LLVMOpcode code;
    const char *name;
    void (*write)(Writer *w, LLVMValueRef inst, const char *name);
} spellings[] = {
    {LLVMRet, "ret", write_ret},
    {LLVMBr, "br", write_br},
    {LLVMSwitch, "switch", write_switch},
    {LLVMAdd, "add", write_binary},
    {LLVMSub, "sub", write_binary},
    {LLVMMul, "mul", write_binary},
    {LLVMUDiv, "udiv", write_binary},
    {LLVMSDiv, "sdiv", write_binary},
    {LLVMURem, "urem", write_binary},
    {LLVMSRem, "srem", write_binary},
    {LLVMShl, "shl", write_binary},
    {LLVMLShr, "lshr", write_binary},
    {LLVMAShr, "ashr", write_binary},
    {LLVMAnd, "and", write_binary},
    {LLVMOr, "or", write_binary},
    {LLVMXor, "xor", write_binary},
    {LLVMFAdd, "fadd", write_binary},
    {LLVMFSub, "fsub", write_binary},
    {LLVMFMul, "fmul", write_binary},
    {LLVMFDiv, "fdiv", write_binary},
    {LLVMFRem, "frem", write_binary},
    {LLVMFNeg, "fsub", write_fneg},
    {LLVMICmp, "icmp", write_compare},
    {LLVMFCmp, "fcmp", write_compare},
    {LLVMSelect, "select", write_plain_inst},
    {LLVMPHI, "phi", write_phi},
    {LLVMTrunc, "trunc", write_cast},
    {LLVMZExt, "zext", write_cast},
    {LLVMSExt, "sext", write_cast},
    {LLVMFPTrunc, "fptrunc", write_cast},
    {LLVMFPExt, "fpext", write_cast},
    {LLVMFPToUI, "fptoui", write_cast},
    {LLVMFPToSI, "fptosi", write_cast},
    {LLVMUIToFP, "uitofp", write_cast},
    {LLVMSIToFP, "sitofp", write_cast},
    {LLVMBitCast, "bitcast", write_cast},
    {LLVMPtrToInt, "ptrtoint", write_cast}, // made by nv_expand
    {LLVMGetElementPtr, "getelementptr", write_gep},
    {LLVMExtractElement, "extractelement", write_plain_inst},
    {LLVMInsertElement, "insertelement", write_plain_inst},
    {LLVMShuffleVector, "shufflevector", write_shuffle},
    {LLVMExtractValue, "extractvalue", write_indexed},
    {LLVMInsertValue, "insertvalue", write_indexed},
    {LLVMCall, "call", write_call},
};

static void write_spelled(Writer *w, LLVMValueRef inst) {
    LLVMOpcode code = LLVMGetInstructionOpcode(inst);
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        if (spellings[i].code != code) continue;
        write_result(w, inst);
        spellings[i].write(w, inst, spellings[i].name);
        return;
    }
    ice(w->ctx, (Loc){0}, "NVVM has no instruction %d", (int)code);
}

void write_instruction(Writer *w, LLVMValueRef inst) {
    switch (LLVMGetInstructionOpcode(inst)) {
    case LLVMLoad: write_load(w, inst); break;
    case LLVMStore: write_store_inst(w, inst); break;
    default: write_spelled(w, inst);
    }
    write_attached(w, inst);
    text_add(&w->out, "\n");
}
