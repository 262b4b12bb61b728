// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a portable module to a code object of an AMD GPU:
//
//     amd_compile         all of it:
//     portable_check      backends/llvm/portable.h
//     amd_expand          calls of tg.* become LLVM's, accesses get addresses the GPU likes
//     amd_emit            the same module to assembly and a relocatable object, by LLVM
//     amd_link            that object to a code object, which HIP loads
#ifndef BACKENDS_AMDGPU_AMDGPU_H
#define BACKENDS_AMDGPU_AMDGPU_H

#include "backends/external_tool.h"
#include "backends/gpu/gpu.h"
#include "backends/llvm/portable.h"
#include "passes/gpu/gpu.h"

/// Returns the row of lang/gpus.def of an AMD GPU, or NULL.
const GpuTarget *amd_target(const char *name);
/// Compiles a portable module except for the link. Changes the module.
struct AmdObject;
void amd_compile(Gen *g, const GpuTarget *gpu, bool assembly, struct AmdObject *out);

/* ---- expand.c ------------------------------------------------------------------------------ */

/// A vector of accumulators, by `count` insertelement instructions.
typedef struct AmdSum {
    LLVMValueRef vector;
    int count;
} AmdSum;
enum { AMD_SUMS = 16 };

/// A call under replacement: in[] and out[] are its operands and results.
typedef struct Expand {
    const Gen *g;
    const GpuTarget *gpu;
    LLVMValueRef function, call;
    const Fn *fn;
    unsigned n_in;
    LLVMValueRef in[FN_OPERANDS], out[FN_OPERANDS];
    VEC(AmdSum) sums;           // of the function's products
    LLVMBasicBlockRef products; // block of the last product
    LLVMBasicBlockRef loads;    // block of the last masked load
    int together;               // number of loads since LLVM's last stop
} Expand;

/// The function named by the column `amdgcn` of portable.def.
typedef void AmdEmit(Expand *x);
AmdEmit amd_thread_count, amd_cta_count, amd_lane_id, amd_warp_id, amd_shared_base, amd_address;
AmdEmit amd_load, amd_store, amd_barrier, amd_warp_sync, amd_fence, amd_trap, amd_clock, amd_atomic,
    amd_atomic_cas;                                   // memory.c
AmdEmit amd_signal, amd_wait_word;                    // signals.c
AmdEmit amd_load_buffer, amd_store_buffer;            // buffer_access.c
AmdEmit amd_shuffle, amd_vote, amd_ballot, amd_redux; // lanes.c
AmdEmit amd_approx, amd_narrow, amd_widen_bf16, amd_cvt_tf32, amd_cvt_int, amd_fma_bf16,
    amd_minmax_x2, amd_mulhi, amd_ctz; // arithmetic.c

/// Splits the block before the call. Lanes that are on pass through a new block, where emission
/// continues. Returns the block that ends before it (memory.c).
LLVMBasicBlockRef amd_guard(Expand *x, LLVMValueRef on);
void amd_end_guard(Expand *x);
/// Emits a product by the intrinsic: matrix.c.
void amd_matrix(Expand *x, const char *name);
/// Makes loops carry accumulators as one value instead of one for each register.
void amd_join_accumulators(Expand *x);

/// Replaces every target function. One that the GPU lacks is a compiler bug. Kernels have
/// "tg.maxntid", and "tg.shared" with their bytes of shared memory.
void amd_expand(Gen *g, const GpuTarget *gpu);
/// Returns the threads of a CTA of the kernel.
int amd_threads(LLVMValueRef function);
/// Notes the bytes of shared memory of a kernel.
void amd_set_shared(const Gen *g, LLVMValueRef function, int64_t bytes);
/// Returns the number of an attribute, or `otherwise` if the kernel lacks it.
int amd_attribute(LLVMValueRef function, const char *name, int otherwise);
LLVMValueRef amd_i32(const Gen *g, int64_t n);
/// Attaches metadata whose presence is the information.
void amd_set_flag(const Gen *g, LLVMValueRef inst, const char *name);
/// Calls an intrinsic that is not overloaded.
LLVMValueRef amd_intrinsic(const Gen *g, const char *name, int n, ...);

/* ---- uniform.c ----------------------------------------------------------------------------- */

/// Makes branches scalar if LLVM would consider their conditions different between lanes. For a
/// portable module.
void amd_make_uniform(Gen *g, LLVMValueRef function);
/// Gives branches conditions without other uses. The last change before code generation.
void amd_part_branches(Gen *g, LLVMValueRef function);

/* ---- rejoin_words.c ------------------------------------------------------------------------- */

/// Replaces words that are reassembled from their own parts. For a portable module.
void amd_join_words(const Gen *g, LLVMValueRef function);

/* ---- emit.c -------------------------------------------------------------------------------- */

typedef struct AmdObject {
    const char *assembly; // if requested, in the arena
    const char *bytes;    // a relocatable object, in the arena
    size_t size;
} AmdObject;

/// Generates code of the expanded module, which it changes.
void amd_emit(Gen *g, const GpuTarget *gpu, bool assembly, AmdObject *out);

/* ---- scratch_use.c -------------------------------------------------------------------------- */

/// Whether the kernel spills registers to memory.
bool amd_has_scratch(Ctx *ctx, const AmdObject *object, const char *kernel);

/* ---- hsaco_link.c --------------------------------------------------------------------------- */

typedef enum AmdStatus { AMD_OK, AMD_ABSENT, AMD_FAILED } AmdStatus;

/// A code object, in the arena.
typedef struct AmdCode {
    const char *bytes;
    size_t size;
    const char *linker; // "comgr", "lld"
    const char *log;    // the reason for a missing object, for the user
} AmdCode;

AmdStatus amd_link(Ctx *ctx, const AmdObject *object, const GpuTarget *gpu, AmdCode *out);

enum { AMD_TOOLS = 4 };
/// Lists the files of comgr, in search order, and of lld. Returns their number. Loads none.
int amd_tools(char paths[AMD_TOOLS][TOOL_PATH]);
/// Loads comgr, or finds lld. False: there is none. `out` has TOOL_PATH bytes.
bool amd_comgr_path(char *out);
bool amd_lld_path(char *out);

/* ---- kernel_metadata.c ---------------------------------------------------------------------- */

/// A kernel's use of a compute unit, and its spills to memory.
typedef struct AmdUse {
    const char *kernel;
    int vector, accumulators, scalar; // registers; `vector` includes accumulators
    int scratch_bytes, shared_bytes, kernarg_bytes, lanes;
} AmdUse;

typedef struct AmdUses {
    AmdUse *data; // as VEC
    int n, cap;
} AmdUses;

/// Reads the metadata of an assembly text.
void amd_read_uses(Ctx *ctx, const char *assembly, AmdUses *out);
/// Adds lines about each kernel: threads, registers, shared memory, resident waves.
void amd_describe(Ctx *ctx, Text *out, const GpuTarget *gpu, const GpuCode *code,
                  const char *assembly);

#endif
