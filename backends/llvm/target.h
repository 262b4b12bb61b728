// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an LLVM module to machine code.
#ifndef BACKENDS_LLVM_TARGET_H
#define BACKENDS_LLVM_TARGET_H

#include "backends/backend.h"
#include "backends/llvm/llvm.h"

/// A target machine of an architecture, released with ctx.
LLVMTargetMachineRef target_machine(Ctx *ctx, const char *arch, const char *cpu,
                                    const char *features);
/// One whose code is made in little time, not to be fast.
LLVMTargetMachineRef target_machine_quick(Ctx *ctx, const char *arch, const char *cpu,
                                          const char *features);
/// One of any triple.
LLVMTargetMachineRef target_machine_of(Ctx *ctx, const char *triple, const char *cpu,
                                       const char *features, LLVMCodeGenOptLevel level);
/// Gives the module the machine's triple and data layout.
void module_target(Gen *g, LLVMTargetMachineRef machine);
/// Marks where indirect branches may go, in the form of the module's CPU: CET of x86; BTI of 64-bit
/// Arm, for the functions that the module has by now. A linker marks a program as protected only
/// where all of its objects are.
void module_mark_branches(Gen *g);
/// Verifies the module and reports what is wrong as a compiler bug.
void module_verify(Gen *g);
/// Runs passes in LLVM's words.
void module_run(Ctx *ctx, LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes);
/// Stores of one lane in place of masked ones, of which LLVM makes wrong code (masked_stores.c).
/// Part of what makes code.
void module_settle_masks(LLVMModuleRef module);
/// The module as assembly or an object, in the arena; a NUL byte follows. It changes the module.
const char *module_file(Ctx *ctx, LLVMModuleRef module, LLVMTargetMachineRef machine,
                        LLVMCodeGenFileType type, size_t *bytes);
/// The short pipeline: no vectoriser, no unroller.
void module_optimize(Gen *g, LLVMTargetMachineRef machine);
/// Object code, and the texts that `texts` asks for, into `code`.
void module_emit(Gen *g, LLVMTargetMachineRef machine, int texts, Code *code);
/// Drops what is there twice: equal functions, equal constants.
void module_merge(Gen *g, LLVMTargetMachineRef machine);
/// Links the object into this process and finds `name`.
void code_load(Gen *g, Code *code, const char *name);
/// The same without LLVM (place_object.c), until code_unplace; false: the object needs LLVM's
/// linker.
bool code_place(Ctx *ctx, Code *code, const char *name);
void code_unplace(Code *code);
/// The fault that TG_FAULT asks for (llvm_fault.c).
void fault_inject(Gen *g);
/// LLVM's names of the CPU this runs on and of its features; they last as long as the process. ""
/// and
/// "" where there is no memory.
/// An address inside of LLVM.
const void *llvm_address(void);
void llvm_host(const char **cpu, const char **features);
/// An address inside of LLVM.
const void *llvm_address(void);
/// ctx_protect, in which a fatal error of LLVM is a compiler bug instead of the process's death.
CtxStatus llvm_protect(Ctx *ctx, void (*body)(Ctx *ctx, void *arg), void *arg);

/* ---- objects (object.c) -------------------------------------------------------------------- */

LLVMContextRef object_llvm(const Object *o);
/// Takes all of g's module; `entry` and what has its name before a dot become internal.
void object_take(Object *o, Gen *g, const char *entry);

#endif
