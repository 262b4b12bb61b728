// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PTX through LLVM's NVPTX target.
#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <string.h>

#include "backends/llvm/target.h"
#include "backends/nvidia/nvidia.h"

static void start(void) {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

static void release_machine(void *thing) {
    LLVMDisposeTargetMachine(thing);
}

/// Ends the compilation with a message of LLVM's.
static void check_text(Ctx *ctx, bool failed, char *text) {
    const char *copy = text ? ctx_format(ctx, "%s", text) : "";
    LLVMDisposeMessage(text);
    if (failed) ice(ctx, (Loc){0}, "LLVM NVPTX: %s", copy);
}

static LLVMTargetMachineRef machine_of(Ctx *ctx, const NvArch *arch) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    char *error = NULL;
    LLVMTargetRef target;
    bool failed = LLVMGetTargetFromTriple("nvptx64-nvidia-cuda", &target, &error);
    check_text(ctx, failed, error);
    LLVMTargetMachineRef m =
        LLVMCreateTargetMachine(target, "nvptx64-nvidia-cuda", arch->name, arch->ptx,
                                LLVMCodeGenLevelDefault, LLVMRelocDefault, LLVMCodeModelDefault);
    if (!m) ice(ctx, (Loc){0}, "LLVM has no machine %s", arch->name);
    ctx_defer(ctx, release_machine, m);
    return m;
}

/// Our attributes and LLVM's for the same.
static const struct {
    const char *ours, *llvm;
} attributes[] = {
    {"tg.maxntid", "nvvm.maxntid"},
    {"tg.minctasm", "nvvm.minctasm"},
    {"tg.cluster", "nvvm.cluster_dim"},
};

static void string_attribute(const Gen *g, LLVMValueRef fn, LLVMAttributeIndex at, const char *name,
                             const char *value) {
    LLVMAddAttributeAtIndex(fn, at,
                            LLVMCreateStringAttribute(g->llvm, name, (unsigned)strlen(name), value,
                                                      (unsigned)strlen(value)));
}

/// A tensor map must stay where the launch put it: copies of it have no meaning to the copy engine.
static void mark_kernel(const Gen *g, LLVMValueRef fn) {
    LLVMAttributeIndex self = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
    LLVMSetFunctionCallConv(fn, LLVMPTXKernelCallConv);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        const char *ours = attributes[i].ours;
        LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(fn, self, ours, (unsigned)strlen(ours));
        unsigned n;
        if (a)
            string_attribute(g, fn, self, attributes[i].llvm, LLVMGetStringAttributeValue(a, &n));
    }
    for (unsigned i = 1; i <= LLVMCountParams(fn); i++)
        if (LLVMGetEnumAttributeAtIndex(fn, i, byval))
            string_attribute(g, fn, i, "nvvm.grid_constant", "");
}

// Short on purpose: ptxas optimises once more and is where the time goes. No pass here copies the
// body of a loop, and code generation reduces the strength of addresses itself. Addresses are not
// hoisted out of loops: ptxas does that where it has registers left, and does not undo it.
static const char pipeline[] =
    "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,early-cse<memssa>)";

static void optimize(const Gen *g, LLVMModuleRef module, LLVMTargetMachineRef machine) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, pipeline, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error) return;
    char *text = LLVMGetErrorMessage(error);
    const char *copy = ctx_format(g->ctx, "%s", text);
    LLVMDisposeErrorMessage(text);
    ice(g->ctx, (Loc){0}, "LLVM passes: %s", copy);
}

static void release_module(void *thing) {
    LLVMDisposeModule(thing);
}

void nvptx_bound_ctas(Gen *g, const NvArch *arch) {
    if (!nv_wants_ctas(g)) return;
    LLVMModuleRef copy = LLVMCloneModule(g->module);
    ctx_defer(g->ctx, release_module, copy);
    optimize(g, copy, machine_of(g->ctx, arch));
    nv_bound_ctas(g, copy);
}

const char *nvptx_emit(Gen *g, const NvArch *arch) {
    LLVMTargetMachineRef machine = machine_of(g->ctx, arch);
    module_target(g, machine);
    module_verify(g);
    optimize(g, g->module, machine);
    nvptx_pack(g);
    nvptx_hide_counters(g);
    nv_bound_ctas(g, g->module);
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn))
        if (!LLVMIsDeclaration(fn)) mark_kernel(g, fn);
    LLVMMemoryBufferRef buffer = NULL;
    char *error = NULL;
    bool failed =
        LLVMTargetMachineEmitToMemoryBuffer(machine, g->module, LLVMAssemblyFile, &error, &buffer);
    check_text(g->ctx, failed, error);
    size_t n = LLVMGetBufferSize(buffer);
    char *text = ctx_alloc(g->ctx, n + 1);
    memcpy(text, LLVMGetBufferStart(buffer), n);
    LLVMDisposeMemoryBuffer(buffer);
    return text;
}
