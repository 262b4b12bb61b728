// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints an expanded portable module in the dialect of LLVM 7, the only one that libNVVM takes
// before sm_100. Every pointer is i8 addrspace(n)*, cast at its use, and fneg is a subtraction.
// portable.c excludes all constructs unknown to LLVM 7.
#include <string.h>

#include "backends/nvidia/nvvm_writer.h"

/* ---- types --------------------------------------------------------------------------------- */

void write_type(Writer *w, LLVMTypeRef t) {
    unsigned n;
    switch (LLVMGetTypeKind(t)) {
    case LLVMVoidTypeKind: text_add(&w->out, "void"); break;
    case LLVMHalfTypeKind: text_add(&w->out, "half"); break;
    case LLVMFloatTypeKind: text_add(&w->out, "float"); break;
    case LLVMDoubleTypeKind: text_add(&w->out, "double"); break;
    case LLVMIntegerTypeKind: text_add(&w->out, "i%u", LLVMGetIntTypeWidth(t)); break;
    case LLVMPointerTypeKind:
        n = LLVMGetPointerAddressSpace(t);
        text_add(&w->out, n ? "i8 addrspace(%u)*" : "i8*", n);
        break;
    case LLVMVectorTypeKind:
        text_add(&w->out, "<%u x ", LLVMGetVectorSize(t));
        write_type(w, LLVMGetElementType(t));
        text_add(&w->out, ">");
        break;
    case LLVMStructTypeKind:
        n = LLVMCountStructElementTypes(t);
        for (unsigned i = 0; i < n; i++) {
            text_add(&w->out, i ? ", " : "{ ");
            write_type(w, LLVMStructGetTypeAtIndex(t, i));
        }
        text_add(&w->out, " }");
        break;
    default: ice(w->ctx, (Loc){0}, "NVVM has no such type");
    }
}

/* ---- values -------------------------------------------------------------------------------- */

/// Writes '%' or '@' and the name, in quotes if it has characters beyond LLVM's bare ones.
void write_name(Writer *w, char sigil, const char *name) {
    static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._$-";
    if (name[strspn(name, bare)] == 0 && (*name < '0' || *name > '9')) {
        text_add(&w->out, "%c%s", sigil, name);
        return;
    }
    text_add(&w->out, "%c\"", sigil);
    write_escaped(w, name, strlen(name));
    text_add(&w->out, "\"");
}

void write_escaped(Writer *w, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (s[i] >= ' ' && s[i] < 127 && s[i] != '"' && s[i] != '\\')
            text_bytes(&w->out, s + i, 1);
        else
            text_add(&w->out, "\\%02X", (unsigned char)s[i]);
}

/// Writes numbers as LLVM prints them: type, blank, number.
static void write_number(Writer *w, LLVMValueRef v) {
    char *text = LLVMPrintValueToString(v);
    text_add(&w->out, "%s", strchr(text, ' ') + 1);
    LLVMDisposeMessage(text);
}

/// Element by element: LLVM 7 has no splat.
static void write_elements(Writer *w, LLVMValueRef v, unsigned n, const char *open,
                           const char *close) {
    for (unsigned i = 0; i < n; i++) {
        text_add(&w->out, "%s", i ? ", " : open);
        write_typed(w, LLVMGetAggregateElement(v, i));
    }
    text_add(&w->out, "%s", close);
}

/// Zeros of vectors and structs are spelled out as well, so that all constants take one path.
static void write_constant(Writer *w, LLVMValueRef v) {
    LLVMTypeRef t = LLVMTypeOf(v);
    if (LLVMIsUndef(v))
        text_add(&w->out, "undef");
    else if (LLVMIsAConstantPointerNull(v))
        text_add(&w->out, "null");
    else if (LLVMGetTypeKind(t) == LLVMVectorTypeKind)
        write_elements(w, v, LLVMGetVectorSize(t), "<", ">");
    else if (LLVMGetTypeKind(t) == LLVMStructTypeKind)
        write_elements(w, v, LLVMCountStructElementTypes(t), "{ ", " }");
    else
        write_number(w, v);
}

/// Writes the address of tg_shared, which nv_expand made and LLVM folded to a constant.
static void write_address(Writer *w, LLVMValueRef v) {
    if (LLVMGetConstOpcode(v) != LLVMPtrToInt) ice(w->ctx, (Loc){0}, "NVVM has no such constant");
    text_add(&w->out, "ptrtoint (");
    write_typed(w, LLVMGetOperand(v, 0));
    text_add(&w->out, " to ");
    write_type(w, LLVMTypeOf(v));
    text_add(&w->out, ")");
}

void write_value(Writer *w, LLVMValueRef v) {
    const char *name = LLVMGetValueName2(v, &(size_t){0});
    if (LLVMIsAGlobalVariable(v)) // tg_shared, an array
        text_add(&w->out,
                 "getelementptr inbounds ([0 x i8], [0 x i8] addrspace(3)* @%s, i64 0, i64 0)",
                 name);
    else if (LLVMIsAFunction(v))
        write_name(w, '@', name);
    else if (LLVMIsAConstantExpr(v))
        write_address(w, v);
    else if (LLVMIsConstant(v))
        write_constant(w, v);
    else
        write_name(w, '%', name);
}

void write_typed(Writer *w, LLVMValueRef v) {
    write_type(w, LLVMTypeOf(v));
    text_add(&w->out, " ");
    write_value(w, v);
}

/* ---- functions ----------------------------------------------------------------------------- */

/// Unnamed values get a name that is unique in the text. Names that begin with a dot are the
/// writer's own casts.
static void give_name(LLVMValueRef v) {
    size_t n;
    const char *name = LLVMGetValueName2(v, &n);
    if (n == 0 || *name == '.') LLVMSetValueName2(v, "v", 1);
}

/// LLVM makes each name unique by a number.
static void give_names(LLVMValueRef fn) {
    for (unsigned i = 0; i < LLVMCountParams(fn); i++) give_name(LLVMGetParam(fn, i));
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
        give_name(LLVMBasicBlockAsValue(b));
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            if (LLVMGetTypeKind(LLVMTypeOf(i)) != LLVMVoidTypeKind) give_name(i);
    }
}

static LLVMAttributeRef param_attribute(LLVMValueRef fn, unsigned param, const char *name) {
    return LLVMGetEnumAttributeAtIndex(fn, param + 1,
                                       LLVMGetEnumAttributeKindForName(name, strlen(name)));
}

bool is_byval(LLVMValueRef fn, unsigned param) {
    return param_attribute(fn, param, "byval") != NULL;
}

static uint64_t byval_bytes(LLVMValueRef fn, unsigned param) {
    return LLVMGetArrayLength2(LLVMGetTypeAttributeValue(param_attribute(fn, param, "byval")));
}

// LLVM 7's spelling of parameter attributes. Those with a number print it.
static const struct {
    const char *name, *before, *after;
} param_attributes[] = {
    {"noalias", " noalias", NULL},
    {"readonly", " readonly", NULL},
    {"nonnull", " nonnull", NULL},
    {"align", " align ", ""},
    {"dereferenceable", " dereferenceable(", ")"},
};

/// The type of a byval parameter is that of the array; a cast follows in the body.
static void write_param(Writer *w, LLVMValueRef fn, unsigned i) {
    LLVMValueRef p = LLVMGetParam(fn, i);
    bool byval = is_byval(fn, i);
    unsigned long long bytes = byval ? byval_bytes(fn, i) : 0;
    if (byval)
        text_add(&w->out, w->typed_byval ? "[%llu x i8]* byval([%llu x i8])" : "[%llu x i8]* byval",
                 bytes, bytes);
    else
        write_type(w, LLVMTypeOf(p));
    for (size_t k = 0; k < sizeof param_attributes / sizeof *param_attributes; k++) {
        LLVMAttributeRef a = param_attribute(fn, i, param_attributes[k].name);
        if (!a) continue;
        text_add(&w->out, "%s", param_attributes[k].before);
        if (param_attributes[k].after)
            text_add(&w->out, "%llu%s", (unsigned long long)LLVMGetEnumAttributeValue(a),
                     param_attributes[k].after);
    }
    text_add(&w->out, " ");
    if (byval)
        text_add(&w->out, "%%.byval%u", i);
    else
        write_value(w, p);
}

static void write_byval_casts(Writer *w, LLVMValueRef fn) {
    for (unsigned i = 0; i < LLVMCountParams(fn); i++) {
        if (!is_byval(fn, i)) continue;
        text_add(&w->out, "  ");
        write_value(w, LLVMGetParam(fn, i));
        text_add(&w->out, " = bitcast [%llu x i8]* %%.byval%u to i8*\n",
                 (unsigned long long)byval_bytes(fn, i), i);
    }
}

/// Writes "name:", the start of a block.
static void write_label(Writer *w, LLVMBasicBlockRef b) {
    Text whole = w->out;
    w->out = (Text){.ctx = w->ctx};
    write_name(w, '%', LLVMGetBasicBlockName(b));
    text_add(&whole, "%s:\n", w->out.data + 1);
    w->out = whole;
}

/// Whether the function has asynchronous products.
static bool has_wgmma(LLVMValueRef fn) {
    size_t n;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
            LLVMValueRef callee = LLVMIsACallInst(i) ? LLVMGetCalledValue(i) : NULL;
            if (callee && LLVMIsAInlineAsm(callee) &&
                strstr(LLVMGetInlineAsmAsmString(callee, &n), "wgmma.mma_async"))
                return true;
        }
    return false;
}

/// Whether a branch back goes to the block.
static bool begins_loop(LLVMBasicBlockRef b) {
    for (LLVMUseRef u = LLVMGetFirstUse(LLVMBasicBlockAsValue(b)); u; u = LLVMGetNextUse(u)) {
        LLVMValueRef user = LLVMGetUser(u);
        unsigned loop = LLVMGetMDKindIDInContext(LLVMGetValueContext(user), "llvm.loop", 9);
        if (LLVMGetMetadata(user, loop)) return true;
    }
    return false;
}

// libNVVM would test a loop at its end and once before it. Accumulators would then be the loop's
// results or zeros, at a place where products are still in flight, and ptxas would serialise all
// products (C7515). With a head that must not be duplicated the loop keeps a single test.
static const char once[] = "  call void asm sideeffect \"\", \"\"() #4\n";

static void write_body(Writer *w, LLVMValueRef fn) {
    bool wgmma = has_wgmma(fn);
    text_add(&w->out, "\ndefine void ");
    write_value(w, fn);
    text_add(&w->out, "(");
    for (unsigned i = 0; i < LLVMCountParams(fn); i++) {
        text_add(&w->out, i ? ", " : "");
        write_param(w, fn, i);
    }
    text_add(&w->out, ") #0");
    write_subprogram(w, fn);
    text_add(&w->out, " {\n");
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
        write_label(w, b);
        if (b == LLVMGetFirstBasicBlock(fn)) write_byval_casts(w, fn);
        bool stays = wgmma && begins_loop(b);
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
            if (stays && LLVMIsATerminatorInst(i)) text_add(&w->out, "%s", once);
            write_instruction(w, i);
        }
    }
    text_add(&w->out, "}\n");
}

/// The remaining declarations are intrinsics on numbers, whose names both dialects share.
static void write_declaration(Writer *w, LLVMValueRef fn) {
    LLVMTypeRef t = LLVMGlobalGetValueType(fn), params[4];
    if (!LLVMGetFirstUse(fn)) return;
    LLVMGetParamTypes(t, params);
    text_add(&w->out, "declare ");
    write_type(w, LLVMGetReturnType(t));
    text_add(&w->out, " ");
    write_value(w, fn);
    for (unsigned i = 0; i < LLVMCountParamTypes(t); i++) {
        text_add(&w->out, i ? ", " : "(");
        write_type(w, params[i]);
    }
    text_add(&w->out, ")\n");
}

// NVIDIA's layout, which libNVVM compares with its own.
static const char header[] =
    "target datalayout = \"e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-"
    "f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64\"\n"
    "target triple = \"nvptx64-nvidia-cuda\"\n\n";

static const char attributes[] = "\nattributes #0 = { nounwind }\n"
                                 "attributes #1 = { convergent nounwind }\n"
                                 "attributes #2 = { nounwind readnone }\n"
                                 "attributes #3 = { convergent nounwind readnone }\n"
                                 "attributes #4 = { convergent noduplicate nounwind }\n";

const char *nvvm_write(Ctx *ctx, LLVMModuleRef module, const GpuTarget *arch) {
    Writer w = {.ctx = ctx,
                .module = module,
                .typed_byval = arch->arch >= 100,
                .out = {.ctx = ctx},
                .tail = {.ctx = ctx}};
    text_add(&w.out, "%s", header);
    if (LLVMGetNamedGlobal(module, "tg_shared"))
        text_add(&w.out, "@tg_shared = external addrspace(3) global [0 x i8], align 1024\n");
    for (LLVMValueRef fn = LLVMGetFirstFunction(module); fn; fn = LLVMGetNextFunction(fn))
        if (LLVMIsDeclaration(fn))
            write_declaration(&w, fn);
        else
            give_names(fn);
    for (LLVMValueRef fn = LLVMGetFirstFunction(module); fn; fn = LLVMGetNextFunction(fn))
        if (!LLVMIsDeclaration(fn)) write_body(&w, fn);
    text_add(&w.out, "%s", attributes);
    write_module_metadata(&w);
    return w.out.data;
}
