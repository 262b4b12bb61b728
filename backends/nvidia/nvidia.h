// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a portable module to PTX, in two ways with a common first step:
//
//     nv_compile          all of it:
//     portable_check      backends/llvm/portable.h
//     nv_expand           calls of tg.* become inline PTX
//     nvvm_write          the text that libNVVM takes;   nvvm_compile  that text to PTX
//     nvptx_emit          the same module to PTX through LLVM
//
// The compilers (nvvm_compile, nv_ptxas) are functions from bytes to bytes: they keep no state and
// may run in a helper process.
#ifndef BACKENDS_NVIDIA_NVIDIA_H
#define BACKENDS_NVIDIA_NVIDIA_H

#include "backends/external_tool.h"
#include "backends/gpu/gpu.h"
#include "backends/llvm/portable.h"
#include "passes/gpu/gpu.h"

/// Returns the row of lang/gpus.def of an NVIDIA GPU, or NULL.
const GpuTarget *nv_arch(const char *name);

/* ---- expand.c ------------------------------------------------------------------------------ */

/// Replaces every target function by inline PTX, and shared.base by an external array tg_shared.
/// Kernels without "tg.minctasm" get 1. A function that the architecture lacks is a compiler bug.
void nv_expand(Gen *g, const GpuTarget *arch);

/* ---- nvvm_writer.c ------------------------------------------------------------------------- */

/// Returns the expanded module in the LLVM 7 dialect, or its variant for a later architecture.
/// Names the unnamed values.
const char *nvvm_write(Ctx *ctx, LLVMModuleRef module, const GpuTarget *arch);

/* ---- nvptx.c ------------------------------------------------------------------------------- */

/// Returns PTX of the expanded module by LLVM, in the arena. Changes the module.
const char *nvptx_emit(Gen *g, const GpuTarget *arch);
/// Applies nv_bound_ctas for another generator, to a copy that is optimised like nvptx_emit's.
void nvptx_bound_ctas(Gen *g, const GpuTarget *arch);
/// Joins halves of words by one instruction; LLVM would use three (pack_halves.c). LLVM's
/// instruction combining must have run.
void nvptx_pack_halves(Gen *g);
/// Whether a kernel has a "tg.minctasm" above 1, or so many threads that each has fewer registers.
bool nv_is_bounded(const Gen *g, const GpuTarget *arch);
/// Lowers the number in "tg.minctasm" of each kernel that would spill registers to reach it, and
/// keeps the kernel's loads in place if registers are few. `measured` has the same kernels,
/// optimised.
void nv_bound_ctas(Gen *g, const GpuTarget *arch, LLVMModuleRef measured);
/// Keeps loads of single elements in the block after their barriers, and also loads of vectors if
/// `vectors` (pin_loads.c). Returns true if nv_pin_parameters must keep the vectors as well.
bool nv_pin_loads(Ctx *ctx, LLVMBasicBlockRef block, bool vectors);
/// Returns the words that a block loads as vectors from memory that nothing writes.
int nv_read_words(LLVMBasicBlockRef block);
/// Returns the text of the inline assembly that x calls; "" for other values.
const char *nv_assembly_of(LLVMValueRef x);
/// Whether a load or store moves several words.
bool nv_is_vector(const char *ptx);
/// Removes the promise of pointers that nothing writes their memory.
void nv_pin_parameters(LLVMValueRef fn);
/// Returns the words in the phis of a block. A loop that carries more than a few words is assumed
/// to have accumulators (pin_counters.c).
int nv_carried_words(LLVMBasicBlockRef block);
enum { NV_FEW_WORDS = 16 };
/// Whether a phi is increased by some amount in every iteration.
bool nv_is_counter(const Gen *g, LLVMValueRef phi);
/// Makes loops that carry blocks keep their addresses as sums of a counter (pin_counters.c).
void nvptx_pin_counters(Gen *g);
/// Makes them compute addresses at the use, so that libNVVM has nothing to hoist
/// (pin_invariants.c).
void nvvm_pin_invariants(Gen *g);

/* ---- wrap_abs.c ---------------------------------------------------------------------------- */

/// Returns the PTX with other instructions for `abs` of integers, of which ptxas assumes too much.
const char *nv_wrap_abs(Ctx *ctx, const char *ptx);

/* ---- nvvm.c, ptxas.c ----------------------------------------------------------------------- */

typedef enum NvStatus { NV_OK, NV_ABSENT, NV_FAILED, NV_NO_MEMORY } NvStatus;

/// The product and messages of a compiler. nv_output_free releases it.
typedef struct NvOutput {
    char *data; // PTX or cubin; a NUL byte follows
    size_t bytes;
    char *log; // NULL if there are no messages
} NvOutput;

void nv_output_free(NvOutput *out);
/// Whether libNVVM is available.
bool nvvm_available(void);
/// Returns the file of libNVVM, if it is available.
const char *nvvm_path(void);
/// Compiles text of nvvm_write to PTX by libNVVM. `optimize` is 0 to 3.
NvStatus nvvm_compile(const char *text, size_t bytes, const GpuTarget *arch, int optimize,
                      NvOutput *out);
/// Finds ptxas in $CUDA_HOME, PATH or the usual place; out has TOOL_PATH bytes. Returns false if it
/// is absent.
bool nv_ptxas_path(char *out);
/// Returns the CUDA release of a ptxas (13000); 0 if unknown.
int nv_ptxas_release(const char *program);
/// Assembles PTX to a cubin by ptxas. The log has registers, spills and advice. NV_ABSENT: ptxas is
/// absent, or cannot run.
NvStatus nv_ptxas(const char *ptx, size_t bytes, const GpuTarget *arch, NvOutput *out);
/// The same in two steps, with time for other work in between. program: the path of ptxas. split:
/// ptxas may compile several kernels in parallel; its log then does not tell which kernel a line is
/// about.
NvStatus nv_ptxas_start(const char *program, const char *ptx, size_t bytes, const char *machine,
                        bool split, ToolRun **run);
NvStatus nv_ptxas_finish(ToolRun *run, NvOutput *out);

/* ---- compile.c ----------------------------------------------------------------------------- */

typedef enum NvCodegen {
    NV_AUTO,        // LLVM, which takes milliseconds
    NV_PREFER_NVVM, // libNVVM if it is available and the driver reads its PTX, else LLVM
    NV_NVPTX,       // LLVM
    NV_NVVM,        // libNVVM
} NvCodegen;

typedef struct NvOptions {
    NvCodegen codegen;
    bool quick; // libNVVM without optimisation
    int driver; // the CUDA version that reads the PTX, as 12040; 0: any
} NvOptions;

typedef struct NvPtx {
    const char *text; // in the arena
    size_t bytes;
    int version;     // 84
    bool nvvm;       // by libNVVM
    const char *log; // the reason for a missing text, for the user
    double expand_seconds, generate_seconds;
} NvPtx;

/// Compiles a portable module to PTX, and changes it. NV_ABSENT and NV_FAILED come with out->log.
/// Any fault of the module is a compiler bug.
NvStatus nv_compile(Gen *g, const GpuTarget *arch, const NvOptions *options, NvPtx *out);
/// Returns the PTX version of a text; the latest that a driver of CUDA 12.4 (12040) reads: 84.
int nv_ptx_version(const char *ptx);
/// The version that libNVVM 13 always writes; the lowest that LLVM writes for us.
enum { NVVM_PTX = 90, LLVM_PTX = 80 };
int nv_ptx_of_driver(int cuda);

/// A kernel's use of an SM, and its spills to memory.
typedef struct NvUse {
    const char *kernel;
    int registers, spill_bytes, stack_bytes, shared_bytes, barriers;
} NvUse;

typedef struct NvUses {
    NvUse *data; // as VEC
    int n, cap;
    const char *notes; // warnings and advice (C75xx: serialised wgmma), or NULL
} NvUses;

/// Parses the log of nv_ptxas, in the arena.
void nv_read_log(Ctx *ctx, const char *log, NvUses *out);

/* ---- ptx_image.c ---------------------------------------------------------------------------- */

typedef struct NvDeviceOptions {
    GpuOptions gpu;
    NvOptions compile;
    bool keep_llvm;    // also keeps the text of the portable module
    const char *strip; // a folder that paths in debug information omit, or NULL
} NvDeviceOptions;

typedef struct NvDevice {
    tg_image image; // of kind PTX; its data is in the arena
    NvPtx ptx;
    const char *llvm;
} NvDevice;

/// Compiles the `device` ops of a module to an image. The status is nv_compile's.
NvStatus nv_device(Ir *ir, const Op *module, const NvDeviceOptions *options, NvDevice *out);

#endif
