// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PTX through LLVM's NVPTX target.
#include <llvm-c/Target.h>
#include <pthread.h>
#include <string.h>

#include "backends/llvm/target.h"
#include "backends/nvidia/nvidia.h"

static void init_nvptx_target(void) {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

static LLVMTargetMachineRef nvptx_target_machine(Ctx *ctx, const GpuTarget *arch) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_nvptx_target);
    return target_machine_of(ctx, "nvptx64-nvidia-cuda", arch->name,
                             ctx_format(ctx, "+ptx%d", arch->ptx), LLVMCodeGenLevelDefault);
}

/// Our attributes and LLVM's equivalents.
static const struct {
    const char *ours, *llvm;
} attributes[] = {
    {"tg.maxntid", "nvvm.maxntid"},
    {"tg.minctasm", "nvvm.minctasm"},
    {"tg.cluster", "nvvm.cluster_dim"},
};

static void add_nvptx_attribute(const Gen *g, LLVMValueRef fn, LLVMAttributeIndex at,
                                const char *name, const char *value) {
    LLVMAddAttributeAtIndex(fn, at,
                            LLVMCreateStringAttribute(g->llvm, name, (unsigned)strlen(name), value,
                                                      (unsigned)strlen(value)));
}

/// A tensor map must stay at its launch address. The copy engine cannot use copies of it.
static void mark_ptx_kernel(const Gen *g, LLVMValueRef fn) {
    LLVMAttributeIndex self = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
    LLVMSetFunctionCallConv(fn, LLVMPTXKernelCallConv);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        const char *ours = attributes[i].ours;
        LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(fn, self, ours, (unsigned)strlen(ours));
        unsigned n;
        if (a)
            add_nvptx_attribute(g, fn, self, attributes[i].llvm,
                                LLVMGetStringAttributeValue(a, &n));
    }
    for (unsigned i = 1; i <= LLVMCountParams(fn); i++)
        if (LLVMGetEnumAttributeAtIndex(fn, i, byval))
            add_nvptx_attribute(g, fn, i, "nvvm.grid_constant", "");
}

// Short, since ptxas optimises again and takes most of the time. No pass here duplicates the body
// of a loop, and code generation reduces the strength of addresses itself. Addresses are not
// hoisted out of loops: ptxas hoists them if registers are left, and does not undo a hoist.
static const char pipeline[] =
    "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,early-cse<memssa>)";

static void release_nvptx_module(void *thing) {
    LLVMDisposeModule(thing);
}

void nvptx_bound_ctas(Gen *g, const GpuTarget *arch) {
    if (!nv_is_bounded(g, arch)) return;
    LLVMModuleRef copy = LLVMCloneModule(g->module);
    ctx_defer(g->ctx, release_nvptx_module, copy);
    module_run(g->ctx, copy, nvptx_target_machine(g->ctx, arch), pipeline);
    nv_bound_ctas(g, arch, copy);
}

const char *nvptx_emit(Gen *g, const GpuTarget *arch) {
    LLVMTargetMachineRef machine = nvptx_target_machine(g->ctx, arch);
    module_target(g, machine);
    module_verify(g);
    module_run(g->ctx, g->module, machine, pipeline);
    nvptx_pack_halves(g);
    nvptx_pin_counters(g);
    nv_bound_ctas(g, arch, g->module);
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn))
        if (!LLVMIsDeclaration(fn)) mark_ptx_kernel(g, fn);
    size_t n;
    return module_file(g->ctx, g->module, machine, LLVMAssemblyFile, &n);
}
