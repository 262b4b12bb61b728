// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Provokes failures of LLVM: TG_FAULT in the environment names a fault during code generation.
// Tests check that each one ends in a status.
//
//     llvm-fatal, oom     a fatal error of LLVM, no memory: a status, in process too
//     abort, segv, hang   end or block the process: a status with TG_COMPILE=process
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backends/llvm/target.h"

/// Calls an intrinsic that no CPU has, so LLVM finds no instruction for it.
static void fault_llvm(Gen *g) {
    static const char name[] = "llvm.amdgcn.workitem.id.x";
    LLVMTypeRef type = LLVMFunctionType(g->i32, NULL, 0, false);
    LLVMValueRef intrinsic = LLVMAddFunction(g->module, name, type);
    LLVMValueRef fn = LLVMAddFunction(g->module, "fault", type);
    LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, fn, ""));
    LLVMBuildRet(g->b, LLVMBuildCall2(g->b, type, intrinsic, NULL, 0, ""));
}

static void fault_abort(Gen *g) {
    (void)g;
    abort();
}

static void fault_segv(Gen *g) {
    (void)g;
    raise(SIGSEGV);
}

static void fault_hang(Gen *g) {
    (void)g;
    for (pid_t parent = getppid(); getppid() == parent;) sleep(1); // ends with the waiting parent
}

/// Uses up the memory, so that LLVM's own allocations fail.
static void fault_oom(Gen *g) {
    (void)g;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_AS, &none);
    setrlimit(RLIMIT_DATA, &none);
    while (malloc(1 << 10)) continue; // NOLINT(clang-analyzer-unix.Malloc): the fault itself
}

static const struct {
    const char *name;
    void (*happen)(Gen *g);
} faults[] = {
    {"llvm-fatal", fault_llvm}, {"abort", fault_abort}, {"segv", fault_segv},
    {"hang", fault_hang},       {"oom", fault_oom},
};

void fault_inject(Gen *g) {
    const char *name = secure_getenv("TG_FAULT");
    for (size_t i = 0; name && i < sizeof faults / sizeof *faults; i++)
        if (strcmp(faults[i].name, name) == 0) faults[i].happen(g);
}
