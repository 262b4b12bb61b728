// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an LLVM module to machine code: optimisation, code generation, linking into the process.
#include "backends/llvm/target.h"

#include "lang/fork_lock.h"

#include <dlfcn.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/LLJITUtils.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors of LLVM ------------------------------------------------------------------------ */

// LLVM's fatal error handler must not return. The handler is one for the process, but the context
// that it leaves is one for each thread. Without a context on this thread, LLVM ends the process as
// usual.
static _Thread_local Ctx *guarded;

static void on_fatal(const char *reason) {
    if (guarded) ice(guarded, (Loc){0}, "LLVM: %s", reason);
}

// llvm::install_bad_alloc_error_handler, which the C API lacks.
extern void install_bad_alloc_handler(
    void (*handler)(void *user, const char *reason, bool trace),
    void *user) __asm__("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");

static void on_bad_alloc(void *user, const char *reason, bool trace) {
    (void)user, (void)reason, (void)trace;
    if (guarded) ctx_leave(guarded, CTX_NO_MEMORY);
}

static const char new_handler[] = "_ZSt15set_new_handlerPFvvE";

// LLVM catches no exceptions, so a failing `new` would end the process. During compilations, `new`
// calls this handler instead. All other threads get the program's own handler, if it has one.
typedef void NewHandler(void);
static struct {
    Lock lock;
    int inside; // compiling threads; in the child of a fork also those of the parent
    bool started;
    NewHandler *(*set)(NewHandler *handler); // std::set_new_handler, or NULL
    NewHandler *before;
} memory = {.lock = LOCK_INIT};

static void on_no_memory(void) {
    if (guarded) ctx_leave(guarded, CTX_NO_MEMORY);
    if (memory.before)
        memory.before();
    else
        memory.set(NULL); // `new` tries once more, and throws
}

static void initialize_llvm(Ctx *ctx, void *arg) {
    (void)ctx, (void)arg;
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMInstallFatalErrorHandler(on_fatal);
    install_bad_alloc_handler(on_bad_alloc, NULL);
}

/// If a fork came between two of these stores, the handler is set already.
static void watch_memory(void) {
    if (!memory.set) *(void **)&memory.set = dlsym(RTLD_DEFAULT, new_handler);
    NewHandler *was = memory.set ? memory.set(on_no_memory) : NULL;
    if (was != on_no_memory) memory.before = was;
}

static void enter_llvm(void) {
    lock_take(&memory.lock);
    watch_memory();
    memory.inside++;
    lock_give(&memory.lock);
}

static void leave_llvm(void) {
    lock_take(&memory.lock);
    if (--memory.inside == 0 && memory.set) memory.set(memory.before);
    lock_give(&memory.lock);
}

/// Starts the host's back end. LLVM takes locks of its own here, so only compilations call it. A
/// child forked in the middle of it does not compile.
static CtxStatus start_native_target(Ctx *ctx) {
    lock_take(&memory.lock);
    CtxStatus status = memory.started ? CTX_OK : ctx_protect(ctx, initialize_llvm, NULL);
    memory.started = status == CTX_OK;
    lock_give(&memory.lock);
    return status;
}

static CtxStatus protect_llvm(Ctx *ctx, bool starts, void (*body)(Ctx *ctx, void *arg), void *arg) {
    Ctx *outer = guarded;
    guarded = ctx;
    enter_llvm();
    CtxStatus status = starts ? start_native_target(ctx) : CTX_OK;
    if (status == CTX_OK) status = ctx_protect(ctx, body, arg);
    leave_llvm();
    guarded = outer;
    return status;
}

CtxStatus llvm_protect(Ctx *ctx, void (*body)(Ctx *ctx, void *arg), void *arg) {
    return protect_llvm(ctx, true, body, arg);
}

/* ---- the host ------------------------------------------------------------------------------ */

typedef struct Host {
    char cpu[64], features[4096];
} Host;

// Constant once known; until then every writer stores the same values.
static struct {
    Lock lock;
    atomic_bool known;
    Host is;
} host = {.lock = LOCK_INIT};

static void find_host(Ctx *ctx, void *arg) {
    (void)ctx, (void)arg;
    char *name = LLVMGetHostCPUName(), *list = LLVMGetHostCPUFeatures();
    snprintf(host.is.features, sizeof host.is.features, "%s", list ? list : "");
    snprintf(host.is.cpu, sizeof host.is.cpu, "%s", name ? name : "");
    LLVMDisposeMessage(name);
    LLVMDisposeMessage(list);
}

/// LLVM asks the processor without a lock and before it is started, so any child of a fork can call
/// this.
static void know_host(void) {
    lock_take(&host.lock);
    Ctx *ctx = atomic_load(&host.known) ? NULL : ctx_create(NULL);
    if (ctx && protect_llvm(ctx, false, find_host, NULL) == CTX_OK) atomic_store(&host.known, true);
    ctx_destroy(ctx);
    lock_give(&host.lock);
}

void llvm_host(const char **cpu, const char **features) {
    static const Host none;
    if (!atomic_load(&host.known)) know_host();
    const Host *found = atomic_load(&host.known) ? &host.is : &none;
    *cpu = found->cpu;
    *features = found->features;
}

const void *llvm_address(void) {
    void (*function)(unsigned *, unsigned *, unsigned *) = LLVMGetVersion;
    const void *address;
    memcpy(&address, &function, sizeof address);
    return address;
}

/* ---- objects of LLVM that go with a context ------------------------------------------------- */

static void release_error(void *text) {
    LLVMDisposeErrorMessage(text);
}
static void release_message(void *text) {
    LLVMDisposeMessage(text);
}

/// Ends the compilation with an error object of LLVM.
static void check_llvm_error(Ctx *ctx, LLVMErrorRef error, const char *what) {
    if (!error) return;
    char *text = LLVMGetErrorMessage(error);
    ctx_defer(ctx, release_error, text);
    ice(ctx, (Loc){0}, "%s: %s", what, text);
}

/// The same with a message of LLVM's C API.
static void check_text(Ctx *ctx, bool failed, char *text, const char *what) {
    if (text) ctx_defer(ctx, release_message, text);
    if (failed) ice(ctx, (Loc){0}, "%s: %s", what, text ? text : "");
}

/* ---- target machine ------------------------------------------------------------------------ */

static void release_target_machine(void *thing) {
    LLVMDisposeTargetMachine(thing);
}

static void start_aarch64(void) {
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
}

static void start_x86(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

// Triples for objects of other machines. The host uses LLVM's default triple.
static const struct Arch {
    const char *name, *triple;
    void (*start)(void);
} archs[] = {
    {"x86-64", "x86_64-unknown-linux-gnu", start_x86},
    {"aarch64", "aarch64-unknown-linux-gnu", start_aarch64},
};

static void start_archs(void) {
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) archs[i].start();
}

static const char *triple_of(Ctx *ctx, const char *arch) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (strcmp(arch, cpu_host_arch()) == 0) {
        char *triple = LLVMGetDefaultTargetTriple();
        ctx_defer(ctx, release_message, triple);
        return triple;
    }
    pthread_once(&once, start_archs);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strcmp(archs[i].name, arch) == 0) return archs[i].triple;
    ice(ctx, (Loc){0}, "no architecture %s", arch);
}

LLVMTargetMachineRef target_machine_of(Ctx *ctx, const char *triple, const char *cpu,
                                       const char *features, LLVMCodeGenOptLevel level) {
    char *error = NULL;
    LLVMTargetRef target;
    check_text(ctx, LLVMGetTargetFromTriple(triple, &target, &error), error, "LLVM target");
    LLVMTargetMachineRef m = LLVMCreateTargetMachine(target, triple, cpu, features, level,
                                                     LLVMRelocPIC, LLVMCodeModelDefault);
    if (!m) ice(ctx, (Loc){0}, "LLVM has no machine %s", cpu);
    ctx_defer(ctx, release_target_machine, m);
    return m;
}

LLVMTargetMachineRef target_machine(Ctx *ctx, const char *arch, const char *cpu,
                                    const char *features) {
    return target_machine_of(ctx, triple_of(ctx, arch), cpu, features, LLVMCodeGenLevelAggressive);
}

LLVMTargetMachineRef target_machine_quick(Ctx *ctx, const char *arch, const char *cpu,
                                          const char *features) {
    return target_machine_of(ctx, triple_of(ctx, arch), cpu, features, LLVMCodeGenLevelNone);
}

void module_target(Gen *g, LLVMTargetMachineRef machine) {
    char *triple = LLVMGetTargetMachineTriple(machine);
    LLVMSetTarget(g->module, triple);
    LLVMDisposeMessage(triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(g->module, layout);
    LLVMDisposeTargetData(layout);
}

static void set_flag(Gen *g, const char *name) {
    LLVMAddModuleFlag(g->module, LLVMModuleFlagBehaviorOverride, name, strlen(name),
                      LLVMValueAsMetadata(LLVMConstInt(g->i32, 1, false)));
}

void module_mark_branches(Gen *g) {
    static const char bti[] = "branch-target-enforcement";
    if (strncmp(LLVMGetTarget(g->module), "x86_64", 6) == 0) {
        set_flag(g, "cf-protection-branch");
        set_flag(g, "cf-protection-return");
    }
    if (strncmp(LLVMGetTarget(g->module), "aarch64", 7) != 0) return;
    set_flag(g, bti);
    LLVMAttributeRef attribute = LLVMCreateStringAttribute(g->llvm, bti, sizeof bti - 1, "true", 4);
    for (LLVMValueRef f = LLVMGetFirstFunction(g->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attribute);
}

/* ---- passes -------------------------------------------------------------------------------- */

void module_verify(Gen *g) {
    char *text = NULL;
    bool bad = LLVMVerifyModule(g->module, LLVMReturnStatusAction, &text);
    check_text(g->ctx, bad, text, "bad LLVM module");
}

// Emission already gives code its final shape, with vectors and unrolled tiles. The pipeline folds,
// shares and hoists.
static const char pipeline[] =
    "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(loop-rotate,licm),early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "loop-mssa(licm),simplifycfg)";

void module_run(Ctx *ctx, LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes) {
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(module, passes, machine, options);
    LLVMDisposePassBuilderOptions(options);
    check_llvm_error(ctx, error, "LLVM passes");
}

void module_optimize(Gen *g, LLVMTargetMachineRef machine) {
    module_run(g->ctx, g->module, machine, pipeline);
}

void module_merge(Gen *g, LLVMTargetMachineRef machine) {
    module_run(g->ctx, g->module, machine, "constmerge,mergefunc,globaldce");
}

/* ---- code ---------------------------------------------------------------------------------- */

/// Returns NULL if memory is exhausted.
static void *copy_code_bytes(const void *data, size_t n) {
    char *copy = malloc(n + 1);
    if (!copy) return NULL;
    memcpy(copy, data, n);
    copy[n] = 0;
    return copy;
}

static LLVMMemoryBufferRef generate_buffer(Ctx *ctx, LLVMModuleRef module, LLVMTargetMachineRef m,
                                           LLVMCodeGenFileType type) {
    LLVMMemoryBufferRef buffer = NULL;
    char *error = NULL;
    module_settle_masks(module);
    check_text(ctx, LLVMTargetMachineEmitToMemoryBuffer(m, module, type, &error, &buffer), error,
               "LLVM code generation");
    return buffer;
}

const char *module_file(Ctx *ctx, LLVMModuleRef module, LLVMTargetMachineRef machine,
                        LLVMCodeGenFileType type, size_t *bytes) {
    LLVMMemoryBufferRef buffer = generate_buffer(ctx, module, machine, type);
    *bytes = LLVMGetBufferSize(buffer);
    char *copy = ctx_alloc(ctx, *bytes + 1);
    memcpy(copy, LLVMGetBufferStart(buffer), *bytes);
    LLVMDisposeMemoryBuffer(buffer);
    return copy;
}

static void *emit_file(Gen *g, LLVMTargetMachineRef m, LLVMCodeGenFileType type, size_t *bytes) {
    LLVMMemoryBufferRef buffer = generate_buffer(g->ctx, g->module, m, type);
    *bytes = LLVMGetBufferSize(buffer);
    void *copy = copy_code_bytes(LLVMGetBufferStart(buffer), *bytes);
    LLVMDisposeMemoryBuffer(buffer);
    if (!copy) ctx_leave(g->ctx, CTX_NO_MEMORY);
    return copy;
}

void module_emit(Gen *g, LLVMTargetMachineRef machine, int texts, Code *code) {
    size_t n;
    fault_inject(g);
    if (texts & TEXT_LLVM) {
        char *text = LLVMPrintModuleToString(g->module);
        code->llvm = copy_code_bytes(text, strlen(text));
        LLVMDisposeMessage(text);
        if (!code->llvm) ctx_leave(g->ctx, CTX_NO_MEMORY);
    }
    if (texts & TEXT_ASM) {
        // Code generation changes the module, so the text comes from a copy.
        LLVMModuleRef whole = g->module;
        g->module = LLVMCloneModule(whole);
        code->assembly = emit_file(g, machine, LLVMAssemblyFile, &n);
        LLVMDisposeModule(g->module);
        g->module = whole;
    }
    code->object = emit_file(g, machine, LLVMObjectFile, &code->object_bytes);
}

void code_load(Gen *g, Code *code, const char *name) {
    LLVMOrcLLJITRef jit = NULL;
    if (!g->debug && code_place(g->ctx, code, name)) return;
    check_llvm_error(g->ctx, LLVMOrcCreateLLJIT(&jit, NULL), "LLVM JIT");
    code->jit = jit;
    LLVMOrcJITDylibRef library = LLVMOrcLLJITGetMainJITDylib(jit);
    if (g->debug) check_llvm_error(g->ctx, LLVMOrcLLJITEnableDebugSupport(jit), "LLVM JIT");
    LLVMMemoryBufferRef object =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(code->object, code->object_bytes, "kernel");
    check_llvm_error(g->ctx, LLVMOrcLLJITAddObjectFile(jit, library, object), "LLVM JIT");
    LLVMOrcExecutorAddress at = 0;
    check_llvm_error(g->ctx, LLVMOrcLLJITLookup(jit, &at, name), "LLVM JIT");
    code->entry = (tg_entry *)(uintptr_t)at;
}

void code_release(Code *code) {
    if (!code) return;
    if (code->image && code->close) code->close(code->image);
    if (code->jit) LLVMConsumeError(LLVMOrcDisposeLLJIT(code->jit));
    code_unplace(code);
    free(code->image);
    free(code->llvm);
    free(code->assembly);
    free(code->object);
    free(code);
}

const char *cpu_host_arch(void) {
#if defined(__aarch64__)
    return "aarch64";
#else
    return "x86-64";
#endif
}
