// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a portable module to PTX, in two ways that share the first step:
//
//     nv_compile          all of it:
//     portable_check      backends/llvm/portable.h
//     nv_expand           calls of tg.* become inline PTX
//     nvvm_write          the text that libNVVM takes;   nvvm_compile  that text to PTX
//     nvptx_emit          the same module to PTX through LLVM
//
// What compiles (nvvm_compile, nv_ptxas) is a function from bytes to bytes: it keeps nothing and
// may run in a helper process.
#ifndef BACKENDS_NVIDIA_NVIDIA_H
#define BACKENDS_NVIDIA_NVIDIA_H

#include "backends/external_tool.h"
#include "backends/gpu/gpu.h"
#include "backends/llvm/portable.h"
#include "passes/gpu/gpu.h"

/// The row of lang/gpus.def of one of NVIDIA's GPUs, or NULL.
const GpuTarget *nv_arch(const char *name);

/* ---- expand.c ------------------------------------------------------------------------------ */

/// Replaces every target function by inline PTX and shared.base by an external array tg_shared.
/// Kernels without "tg.minctasm" get 1. A function that the architecture lacks is a compiler bug.
void nv_expand(Gen *g, const GpuTarget *arch);

/* ---- nvvm_writer.c ------------------------------------------------------------------------- */

/// The expanded module in the LLVM 7 dialect, or what differs from it for a later architecture.
/// Gives names to values that have none.
const char *nvvm_write(Ctx *ctx, LLVMModuleRef module, const GpuTarget *arch);

/* ---- nvptx.c ------------------------------------------------------------------------------- */

/// PTX of the expanded module by LLVM, in the arena; changes the module.
const char *nvptx_emit(Gen *g, const GpuTarget *arch);
/// nv_bound_ctas for another generator, by a copy that is optimised as nvptx_emit does.
void nvptx_bound_ctas(Gen *g, const GpuTarget *arch);
/// Halves of words are joined by one instruction, where LLVM would take three (pack_halves.c).
/// LLVM's instruction combining must have run.
void nvptx_pack_halves(Gen *g);
/// Whether a kernel has a "tg.minctasm" above 1, or so many threads that each has fewer registers.
bool nv_is_bounded(const Gen *g, const GpuTarget *arch);
/// Lowers "tg.minctasm" of kernels that would spill for its sake, and keeps their loads in place as
/// far as registers are few. `measured` has the same kernels, optimised.
void nv_bound_ctas(Gen *g, const GpuTarget *arch, LLVMModuleRef measured);
/// Loads of single elements in the block stay behind the barriers they are behind, and those of
/// vectors if `vectors` (pin_loads.c). True: nv_pin_parameters has to keep the latter, too.
bool nv_pin_loads(Ctx *ctx, LLVMBasicBlockRef block, bool vectors);
/// Words that a block loads as vectors, of what nobody writes.
int nv_read_words(LLVMBasicBlockRef block);
/// The text of inline assembly that x calls; "" where it is something else.
const char *nv_assembly_of(LLVMValueRef x);
/// Whether a load or store moves several words.
bool nv_is_vector(const char *ptx);
/// Pointers no longer say that nothing writes there.
void nv_pin_parameters(LLVMValueRef fn);
/// What the phis of a block carry. A loop that carries more than a few words is thought to have
/// accumulators (pin_counters.c).
int nv_carried_words(LLVMBasicBlockRef block);
enum { NV_FEW_WORDS = 16 };
/// A phi that comes back as itself and something more.
bool nv_is_counter(const Gen *g, LLVMValueRef phi);
/// Loops that carry blocks keep their addresses as sums of a counter (pin_counters.c).
void nvptx_pin_counters(Gen *g);
/// ... and make addresses where they use them: libNVVM finds nothing to move out of them
/// (pin_invariants.c).
void nvvm_pin_invariants(Gen *g);

/* ---- nvvm.c, ptxas.c ----------------------------------------------------------------------- */

typedef enum NvStatus { NV_OK, NV_ABSENT, NV_FAILED, NV_NO_MEMORY } NvStatus;

/// What a compiler made, and what it said: release with nv_output_free.
typedef struct NvOutput {
    char *data; // PTX or cubin; a NUL byte follows
    size_t bytes;
    char *log; // NULL where there is nothing to say
} NvOutput;

void nv_output_free(NvOutput *out);
/// Whether libNVVM is here.
bool nvvm_available(void);
/// Its file, where it is here.
const char *nvvm_path(void);
/// libNVVM: text of nvvm_write to PTX. `optimize` is 0 to 3.
NvStatus nvvm_compile(const char *text, size_t bytes, const GpuTarget *arch, int optimize,
                      NvOutput *out);
/// Where ptxas is: in $CUDA_HOME, PATH or the usual place; TOOL_PATH bytes. False: nowhere.
bool nv_ptxas_path(char *out);
/// The release of CUDA that a ptxas is of (13000); 0 where it does not say.
int nv_ptxas_release(const char *program);
/// ptxas: PTX to a cubin; the log has registers, spills and advice. NV_ABSENT: it is not here, or
/// cannot run.
NvStatus nv_ptxas(const char *ptx, size_t bytes, const GpuTarget *arch, NvOutput *out);
/// The same in two steps, between which there is time for other work, by the ptxas at a path.
NvStatus nv_ptxas_start(const char *program, const char *ptx, size_t bytes, const char *machine,
                        ToolRun **run);
NvStatus nv_ptxas_finish(ToolRun *run, NvOutput *out);

/* ---- compile.c ----------------------------------------------------------------------------- */

typedef enum NvCodegen {
    NV_AUTO,        // LLVM: it takes milliseconds
    NV_PREFER_NVVM, // libNVVM where it is and the driver reads its PTX, else LLVM
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
    const char *log; // why there is no text, for the user
    double expand_seconds, generate_seconds;
} NvPtx;

/// PTX of a portable module, which it changes. NV_ABSENT and NV_FAILED with out->log; all that is
/// wrong with the module is a compiler bug.
NvStatus nv_compile(Gen *g, const GpuTarget *arch, const NvOptions *options, NvPtx *out);
/// The PTX version of a text, and the last that a driver of CUDA 12.4 (12040) reads: 84.
int nv_ptx_version(const char *ptx);
/// What libNVVM 13 writes, whatever it is asked for; the least that LLVM writes for us.
enum { NVVM_PTX = 90, LLVM_PTX = 80 };
int nv_ptx_of_driver(int cuda);

/// What a kernel takes of an SM, and what it keeps in memory for want of registers.
typedef struct NvUse {
    const char *kernel;
    int registers, spill_bytes, stack_bytes, shared_bytes, barriers;
} NvUse;

typedef struct NvUses {
    NvUse *data; // as VEC
    int n, cap;
    const char *notes; // warnings and advice (C75xx: wgmma made serial), or NULL
} NvUses;

/// The log of nv_ptxas as numbers, in the arena.
void nv_read_log(Ctx *ctx, const char *log, NvUses *out);

/* ---- ptx_image.c ---------------------------------------------------------------------------- */

typedef struct NvDeviceOptions {
    GpuOptions gpu;
    NvOptions compile;
    bool keep_llvm;    // the text of the portable module, too
    const char *strip; // a folder that paths in debug information leave out, or NULL
} NvDeviceOptions;

typedef struct NvDevice {
    tg_image image; // of kind PTX; what it points to is in the arena
    NvPtx ptx;
    const char *llvm;
} NvDevice;

/// The `device` ops of a module as an image. The status is nv_compile's.
NvStatus nv_device(Ir *ir, const Op *module, const NvDeviceOptions *options, NvDevice *out);

#endif
