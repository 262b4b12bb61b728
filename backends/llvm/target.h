// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an LLVM module to machine code.
#ifndef BACKENDS_LLVM_TARGET_H
#define BACKENDS_LLVM_TARGET_H

#include "backends/backend.h"
#include "backends/llvm/llvm.h"

/// A target machine of the host's architecture, released with ctx.
LLVMTargetMachineRef target_machine(Ctx *ctx, const char *cpu, const char *features);
/// Verifies the module and reports what is wrong as a compiler bug.
void module_verify(Gen *g);
/// The short pipeline: no vectoriser, no unroller.
void module_optimize(Gen *g, LLVMTargetMachineRef machine);
/// Object code, and the texts that `texts` asks for, into `code`.
void module_emit(Gen *g, LLVMTargetMachineRef machine, int texts, Code *code);
/// Links the object into this process and finds `name`.
void code_load(Gen *g, Code *code, const char *name);
/// ctx_protect, in which a fatal error of LLVM is a compiler bug instead of the process's death.
CtxStatus llvm_protect(Ctx *ctx, void (*body)(Ctx *ctx, void *arg), void *arg);

#endif
