// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From an LLVM module to machine code.
#ifndef BACKENDS_LLVM_TARGET_H
#define BACKENDS_LLVM_TARGET_H

#include "backends/backend.h"
#include "backends/llvm/llvm.h"

/// A target machine of an architecture, released with ctx.
LLVMTargetMachineRef target_machine(Ctx *ctx, const char *arch, const char *cpu,
                                    const char *features);
/// The same with fast code generation, for slower code.
LLVMTargetMachineRef target_machine_quick(Ctx *ctx, const char *arch, const char *cpu,
                                          const char *features);
/// The same for any triple.
LLVMTargetMachineRef target_machine_of(Ctx *ctx, const char *triple, const char *cpu,
                                       const char *features, LLVMCodeGenOptLevel level);
/// Gives the module the machine's triple and data layout.
void module_target(Gen *g, LLVMTargetMachineRef machine);
/// Marks the targets of indirect branches, in the form of the module's CPU: CET of x86; BTI of
/// 64-bit Arm, for the functions present so far. A linker marks a program as protected only if all
/// of its objects are.
void module_mark_branches(Gen *g);
/// Verifies the module and reports errors as a compiler bug.
void module_verify(Gen *g);
/// Runs passes, in LLVM's syntax.
void module_run(Ctx *ctx, LLVMModuleRef module, LLVMTargetMachineRef machine, const char *passes);
/// Replaces masked stores of one lane, for which LLVM generates wrong code (masked_stores.c). Part
/// of code generation.
void module_settle_masks(LLVMModuleRef module);
/// Returns the module as assembly or an object, in the arena, with a NUL byte at the end. It
/// changes the module.
const char *module_file(Ctx *ctx, LLVMModuleRef module, LLVMTargetMachineRef machine,
                        LLVMCodeGenFileType type, size_t *bytes);
/// The short pipeline: no vectoriser, no unroller.
void module_optimize(Gen *g, LLVMTargetMachineRef machine);
/// Writes object code, and the texts that `texts` requests, into `code`.
void module_emit(Gen *g, LLVMTargetMachineRef machine, int texts, Code *code);
/// Removes duplicates: equal functions, equal constants.
void module_merge(Gen *g, LLVMTargetMachineRef machine);
/// Links the object into this process and finds `name`.
void code_load(Gen *g, Code *code, const char *name);
/// The same without LLVM (place_object.c); code_unplace undoes it. Returns false if the object
/// needs LLVM's linker.
bool code_place(Ctx *ctx, Code *code, const char *name);
void code_unplace(Code *code);
/// Provokes the fault that TG_FAULT names (llvm_fault.c).
void fault_inject(Gen *g);
/// Returns LLVM's names of the host's CPU and of its features, valid for the life of the process;
/// "" and "" if memory is exhausted.
const void *llvm_address(void);
void llvm_host(const char **cpu, const char **features);
/// Returns an address inside LLVM.
const void *llvm_address(void);
/// Same as ctx_protect, but a fatal error of LLVM becomes a compiler bug and does not end the
/// process.
CtxStatus llvm_protect(Ctx *ctx, void (*body)(Ctx *ctx, void *arg), void *arg);

/* ---- objects (object.c) -------------------------------------------------------------------- */

LLVMContextRef object_llvm(const Object *o);
/// Takes over g's module. `entry` and the names that begin with it and a dot become internal.
void object_take(Object *o, Gen *g, const char *entry);

#endif
