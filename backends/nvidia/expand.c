// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns calls of target functions into inline PTX: one statement for each call, with tied
// accumulators.
#include <llvm-c/DebugInfo.h>
#include <stdlib.h>
#include <string.h>

#include "backends/nvidia/nvidia.h"

const GpuTarget *nv_arch(const char *name) {
    const GpuTarget *t = gpu_target(name);
    return t && t->ptx ? t : NULL;
}

/* ---- PTX text ------------------------------------------------------------------------------ */

/// The register numbers of a call in inline assembly: results, then operands.
typedef struct AsmExpansion {
    const Fn *fn;
    Text *out;
    int first[FN_GROUPS]; // of each group
    int turn, turns;      // of the repetition being written
} AsmExpansion;

static void write_registers(const AsmExpansion *x, int first, int count) {
    for (int i = 0; i < count; i++) text_add(x->out, i ? ", $%d" : "$%d", first + i);
}

/// Writes "$r", "$3" or "$3#" at s. Returns the text after it. A tied group uses the numbers of
/// its results.
static const char *write_reference(const AsmExpansion *x, const char *s) {
    if (s[1] == 'r') {
        write_registers(x, 0, x->fn->result.count);
        return s + 2;
    }
    int k = s[1] - '0', count = x->fn->groups[k].count, first = x->first[k];
    if (s[2] != '#') {
        write_registers(x, first, count);
        return s + 2;
    }
    write_registers(x, first + x->turn * (count / x->turns), count / x->turns);
    return s + 3;
}

static void write_ptx(AsmExpansion *x, const char *s, const char *end);

/// Writes "[*k text *]" at s.
static const char *write_repeated(AsmExpansion *x, const char *s) {
    const char *end = strstr(s, "*]");
    x->turns = atoi(fn_capture(x->fn, s[2]));
    for (x->turn = 0; x->turn < x->turns; x->turn++) write_ptx(x, s + 3, end);
    return end + 2;
}

/// Writes the template up to `end`. Text that is no reference, capture or repetition is PTX.
static void write_ptx(AsmExpansion *x, const char *s, const char *end) {
    while (s < end) {
        if (*s == '$') {
            s = write_reference(x, s);
        } else if (*s == '<') {
            text_add(x->out, "%s", fn_capture(x->fn, s[1]));
            s += 3;
        } else if (s[0] == '[' && s[1] == '*') {
            s = write_repeated(x, s);
        } else {
            text_bytes(x->out, s++, 1);
        }
    }
}

/// A pointer is passed as a 64-bit number.
static char constraint_of_letter(char letter) {
    switch (letter) {
    case 'i': return 'r';
    case 'g':
    case 's':
    case 'p': return 'l';
    default: return letter;
    }
}

/// Writes results, operands in order, memory. A tied operand names its result by number.
static void write_constraints(const Fn *fn, Text *out) {
    for (int i = 0; i < fn->result.count; i++)
        text_add(out, "%s=%c", out->n ? "," : "", constraint_of_letter(fn->result.letter));
    for (int i = 0; i < fn->n_groups; i++)
        for (int k = 0; k < fn->groups[i].count; k++) {
            text_add(out, out->n ? "," : "");
            if (fn->groups[i].tied)
                text_add(out, "%d", k);
            else
                text_add(out, "%c", constraint_of_letter(fn->groups[i].letter));
        }
    if (fn->row->effect != FN_NONE) text_add(out, "%s~{memory}", out->n ? "," : "");
}

/// Registers are numbered through all results and operands, including tied ones.
static void write_statement(const Fn *fn, Text *out) {
    AsmExpansion x = {.fn = fn, .out = out};
    int next = fn->result.count;
    for (int i = 0; i < fn->n_groups; i++) {
        x.first[i] = next;
        next += fn->groups[i].count;
    }
    write_ptx(&x, fn->row->ptx, fn->row->ptx + strlen(fn->row->ptx));
}

/* ---- calls --------------------------------------------------------------------------------- */

static void call_attribute(const Gen *g, LLVMValueRef call, const char *name) {
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(g->llvm, kind, 0));
}

// nomerge keeps LLVM from merging equal collectives of two arms. LLVM 7 does not know it, so the
// writer omits it. memory(none) is the attribute's value 0.
static void call_attributes(const Gen *g, LLVMValueRef call, const FnRow *row) {
    call_attribute(g, call, "nounwind");
    if (row->scope != FN_LANE) {
        call_attribute(g, call, "convergent");
        call_attribute(g, call, "nomerge");
    }
    if (row->effect == FN_NONE) call_attribute(g, call, "memory");
}

/// Builds one statement with the operands of the call. The PTX ISA requires addresses as numbers.
static LLVMValueRef build_asm(const Gen *g, LLVMValueRef call, const Fn *fn) {
    LLVMValueRef args[FN_OPERANDS];
    LLVMTypeRef types[FN_OPERANDS];
    Text statement = {.ctx = g->ctx}, constraints = {.ctx = g->ctx};
    unsigned n = LLVMGetNumArgOperands(call);
    for (unsigned i = 0; i < n; i++) {
        args[i] = LLVMGetOperand(call, i);
        if (LLVMGetTypeKind(LLVMTypeOf(args[i])) == LLVMPointerTypeKind)
            args[i] = LLVMBuildPtrToInt(g->b, args[i], g->i64, "");
        types[i] = LLVMTypeOf(args[i]);
    }
    write_statement(fn, &statement);
    write_constraints(fn, &constraints);
    LLVMTypeRef type = LLVMFunctionType(LLVMTypeOf(call), types, n, false);
    LLVMValueRef code = LLVMGetInlineAsm(
        type, statement.data, statement.n, constraints.data ? constraints.data : "", constraints.n,
        fn->row->effect != FN_NONE, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef made = LLVMBuildCall2(g->b, type, code, args, n, "");
    call_attributes(g, made, fn->row);
    return made;
}

/// The dynamic shared memory of the launch.
static LLVMValueRef shared_array(const Gen *g) {
    LLVMValueRef array = LLVMGetNamedGlobal(g->module, "tg_shared");
    if (array) return array;
    array = LLVMAddGlobalInAddressSpace(g->module, LLVMArrayType2(g->i8, 0), "tg_shared", 3);
    LLVMSetAlignment(array, 1024);
    return array;
}

/// Rows without PTX: both dialects can express the address of shared memory.
static LLVMValueRef build_known(const Gen *g, LLVMValueRef call, const Fn *fn) {
    if (strcmp(fn->row->name, "shared.base") == 0) return shared_array(g);
    if (strcmp(fn->row->name, "shared.addr") == 0)
        return LLVMBuildPtrToInt(g->b, LLVMGetOperand(call, 0), g->i32, "");
    ice(g->ctx, (Loc){0}, "no PTX for tg.%s", fn->row->name);
}

static void expand_nv_call(const Gen *g, const GpuTarget *arch, LLVMValueRef call) {
    Fn fn;
    const char *name = LLVMGetValueName2(LLVMGetCalledValue(call), &(size_t){0});
    if (!fn_find(name, &fn)) return;
    if (!fn_has(fn.row, arch))
        ice(g->ctx, (Loc){0}, "%s needs %s, not %s", name, fn_needs(g->ctx, fn.row), arch->name);
    LLVMPositionBuilderBefore(g->b, call);
    LLVMSetCurrentDebugLocation2(g->b, LLVMInstructionGetDebugLoc(call));
    LLVMValueRef made = *fn.row->ptx ? build_asm(g, call, &fn) : build_known(g, call, &fn);
    size_t n;
    const char *label = LLVMGetValueName2(call, &n);
    label = ctx_copy(g->ctx, label, n);
    LLVMReplaceAllUsesWith(call, made);
    LLVMInstructionEraseFromParent(call);
    if (n && LLVMIsAInstruction(made)) LLVMSetValueName2(made, label, n);
}

static void expand_nv_body(const Gen *g, const GpuTarget *arch, LLVMValueRef fn) {
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
            next = LLVMGetNextInstruction(i);
            if (LLVMGetInstructionOpcode(i) == LLVMCall) expand_nv_call(g, arch, i);
        }
}

/// Sets "tg.minctasm" to 1 for a kernel with "tg.maxntid" and no value. Otherwise ptxas spills in
/// order to fit more CTAs side by side.
static void default_occupancy(const Gen *g, LLVMValueRef fn) {
    static const char threads[] = "tg.maxntid", ctas[] = "tg.minctasm";
    LLVMAttributeIndex at = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
    if (LLVMIsDeclaration(fn) || LLVMGetStringAttributeAtIndex(fn, at, ctas, sizeof ctas - 1) ||
        !LLVMGetStringAttributeAtIndex(fn, at, threads, sizeof threads - 1))
        return;
    LLVMAddAttributeAtIndex(fn, at,
                            LLVMCreateStringAttribute(g->llvm, ctas, sizeof ctas - 1, "1", 1));
}

void nv_expand(Gen *g, const GpuTarget *arch) {
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module), next; fn; fn = next) {
        next = LLVMGetNextFunction(fn);
        default_occupancy(g, fn);
        expand_nv_body(g, arch, fn);
    }
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module), next; fn; fn = next) {
        next = LLVMGetNextFunction(fn);
        const char *name = LLVMGetValueName2(fn, &(size_t){0});
        if (strncmp(name, "tg.", 3) == 0 && LLVMIsDeclaration(fn)) LLVMDeleteFunction(fn);
    }
}
