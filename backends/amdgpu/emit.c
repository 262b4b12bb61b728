// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Assembly and relocatable objects through LLVM's AMDGPU target.
#include <inttypes.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <string.h>

#include "backends/amdgpu/amdgpu.h"
#include "backends/llvm/target.h"

static const char triple[] = "amdgcn-amd-amdhsa";
static const char waves_per_simd[] = "amdgpu-waves-per-eu";
static const char scheduler[] = "amdgpu-sched-strategy";

static void init_amdgpu_target(void) {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    // Vectors of accumulators pass through loops as one value (matrix.c).
    static const char *const options[] = {"tegula", "-amdgpu-codegenprepare-break-large-phis=0"};
    LLVMParseCommandLineOptions(2, options, NULL);
}

/// RDNA has two modes for a work-group. In the mode of one compute unit its barriers need not wait
/// for memory.
static LLVMTargetMachineRef amd_target_machine(Ctx *ctx, const GpuTarget *gpu) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_amdgpu_target);
    const char *features = gpu->lanes == 32 ? "+wavefrontsize32,+cumode" : "";
    return target_machine_of(ctx, triple, gpu->name, features, LLVMCodeGenLevelAggressive);
}

/* ---- kernels ------------------------------------------------------------------------------- */

static void add_amd_attribute(const Gen *g, LLVMValueRef fn, const char *name, const char *value) {
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(g->llvm, name, (unsigned)strlen(name), value,
                                                      (unsigned)strlen(value)));
}

void amd_set_shared(const Gen *g, LLVMValueRef fn, int64_t bytes) {
    add_amd_attribute(g, fn, "tg.shared", ctx_format(g->ctx, "%" PRId64, bytes));
}

/// Inputs that a kernel does not request cost no registers. Launches pass no hidden arguments.
static const char *const unused[] = {
    "amdgpu-no-workgroup-id-y",    "amdgpu-no-workgroup-id-z",     "amdgpu-no-workitem-id-y",
    "amdgpu-no-workitem-id-z",     "amdgpu-no-dispatch-ptr",       "amdgpu-no-queue-ptr",
    "amdgpu-no-dispatch-id",       "amdgpu-no-hostcall-ptr",       "amdgpu-no-heap-ptr",
    "amdgpu-no-lds-kernel-id",     "amdgpu-no-multigrid-sync-arg", "amdgpu-no-default-queue",
    "amdgpu-no-completion-action", "amdgpu-no-flat-scratch-init",
};

static bool calls_function(const Gen *g, const char *name) {
    LLVMValueRef fn = LLVMGetNamedFunction(g->module, name);
    return fn && LLVMGetFirstUse(fn);
}

/// Returns the waves of a SIMD if `ctas` CTAs run side by side. A compute unit has four or two
/// SIMDs.
static int waves_of(const GpuTarget *gpu, int threads, int ctas) {
    int simds = gpu->lanes == 64 ? 4 : 2;
    int waves = ctas * ((threads + gpu->lanes - 1) / gpu->lanes) / simds;
    return waves < 1 ? 1 : waves;
}

/// Minima and maxima need no handling of signalling NaNs: "amdgpu-ieee".
static void mark_amd_kernel(const Gen *g, const GpuTarget *gpu, LLVMValueRef fn) {
    enum { AMDGPU_KERNEL = 91 };
    int threads = amd_threads(fn);
    LLVMSetFunctionCallConv(fn, AMDGPU_KERNEL);
    const char *size = ctx_format(g->ctx, "%d,%d", threads, threads);
    int waves = waves_of(gpu, threads, amd_attribute(fn, "tg.minctasm", 1));
    add_amd_attribute(g, fn, "amdgpu-flat-work-group-size", size);
    add_amd_attribute(g, fn, "uniform-work-group-size", "true");
    add_amd_attribute(g, fn, waves_per_simd, ctx_format(g->ctx, "%d", waves));
    add_amd_attribute(g, fn, "amdgpu-ieee", "false");
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        add_amd_attribute(g, fn, unused[i], "");
    if (!calls_function(g, "llvm.amdgcn.implicitarg.ptr"))
        add_amd_attribute(g, fn, "amdgpu-no-implicitarg-ptr", "");
}

/// The linkers, and current drivers, read version 5 of code objects.
static void set_version(const Gen *g) {
    static const char name[] = "amdhsa_code_object_version";
    LLVMAddModuleFlag(g->module, LLVMModuleFlagBehaviorError, name, sizeof name - 1,
                      LLVMValueAsMetadata(amd_i32(g, 500)));
}

/* ---- code ---------------------------------------------------------------------------------- */

// No pass here duplicates the body of a loop.
static const char pipeline[] =
    "function(early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate),"
    "early-cse<memssa>)";

static void release_amd_module(void *thing) {
    LLVMDisposeModule(thing);
}

/// Code generation changes the module, so it works on a copy.
static const char *generate_amd_code(Gen *g, LLVMTargetMachineRef machine, LLVMCodeGenFileType type,
                                     size_t *size) {
    LLVMModuleRef copy = LLVMCloneModule(g->module);
    ctx_defer(g->ctx, release_amd_module, copy);
    return module_file(g->ctx, copy, machine, type, size);
}

static bool is_scheduled(LLVMValueRef fn, const char *how) {
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(
        fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, scheduler, sizeof scheduler - 1);
    return a && strcmp(LLVMGetStringAttributeValue(a, &(unsigned){0}), how) == 0;
}

/// Selects another setting for a kernel with scratch. First it drops the request for waves side by
/// side. Then it tries two other schedulers of LLVM, and at last the default one (max-occupancy):
/// LLVM also reserves scratch for scalars that need none in the end, and the schedulers differ in
/// that. Returns false if no setting is left.
static bool other_way(const Gen *g, LLVMValueRef fn) {
    static const char *const others[] = {"max-ilp", "iterative-minreg", "max-occupancy"};
    enum { OTHERS = sizeof others / sizeof *others };
    if (amd_attribute(fn, waves_per_simd, 1) > 1) {
        add_amd_attribute(g, fn, waves_per_simd, "1");
        return true;
    }
    int tried = OTHERS;
    while (tried > 0 && !is_scheduled(fn, others[tried - 1])) tried--;
    if (tried < OTHERS) add_amd_attribute(g, fn, scheduler, others[tried]);
    return tried < OTHERS;
}

/// Whether some kernel has scratch and is to be compiled with another setting.
static bool avoid_scratch(const Gen *g, const AmdObject *object) {
    bool any = false;
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn))
        if (!LLVMIsDeclaration(fn) &&
            amd_has_scratch(g->ctx, object, LLVMGetValueName2(fn, &(size_t){0})))
            any |= other_way(g, fn);
    return any;
}

void amd_emit(Gen *g, const GpuTarget *gpu, bool assembly, AmdObject *out) {
    LLVMTargetMachineRef machine = amd_target_machine(g->ctx, gpu);
    *out = (AmdObject){0};
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn))
        if (!LLVMIsDeclaration(fn)) mark_amd_kernel(g, gpu, fn);
    set_version(g);
    module_target(g, machine);
    module_verify(g);
    module_run(g->ctx, g->module, machine, pipeline);
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn))
        if (!LLVMIsDeclaration(fn)) amd_part_branches(g, fn);
    do out->bytes = generate_amd_code(g, machine, LLVMObjectFile, &out->size);
    while (avoid_scratch(g, out));
    size_t n;
    if (assembly) out->assembly = generate_amd_code(g, machine, LLVMAssemblyFile, &n);
}
