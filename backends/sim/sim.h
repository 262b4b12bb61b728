// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulator: runs a portable module on the CPU as a GPU would. Lanes are fibers, target
// functions are checked collectives, and asynchronous work is late. docs/inside/simulator.md.
#ifndef BACKENDS_SIM_SIM_H
#define BACKENDS_SIM_SIM_H

#include "backends/llvm/portable.h"
#include "runtime/abi.h"

/// A compiled module. Not in the arena: it outlives the context that made it. Several threads may
/// run it at the same time.
typedef struct SimImage SimImage;

/// Compiles the module, which it changes. The module must not have been optimised by LLVM. `target`
/// is an architecture of NVIDIA or AMD. `check` instruments the code, so that runs find races and
/// bad accesses. A function that the target lacks, or a wrong module, is a compiler bug.
SimImage *sim_compile(Gen *g, const char *target, bool check);
void sim_image_free(SimImage *image);
int sim_function_count(const SimImage *image);
const char *sim_function_name(const SimImage *image, int function);
/// Returns the number of the function, or -1.
int sim_find(const SimImage *image, const char *name);

/* ---- runs ---------------------------------------------------------------------------------- */

/// Memory that code may access. Under `check` accesses outside all buffers fail. Without buffers,
/// addresses are not checked.
typedef struct SimBuffer {
    const void *base;
    int64_t bytes;
    bool initialised; // otherwise reading an unwritten byte fails
    bool *written;    // nonzero for bytes that earlier runs wrote; updated; may be NULL
    const char *name; // name in the source; may be NULL
} SimBuffer;

static inline SimBuffer sim_buffer(const void *base, int64_t bytes, bool initialised) {
    return (SimBuffer){.base = base, .bytes = bytes, .initialised = initialised};
}

typedef struct SimRun {
    int32_t grid[3];      // number of CTAs; 0 counts as 1
    void *const *args;    // a pointer to each parameter's value, as for cuLaunchKernel
    int64_t shared_bytes; // shared memory of a CTA
    uint64_t seed; // seed of all random choices: the order of warps, the times of asynchronous work
    const SimBuffer *buffers;
    int n_buffers;
    int skip_site;        // 1 + the number of a disabled site (sim_site); 0: none
    int64_t *skipped;     // receives the number of times that site was reached; may be NULL
    bool *met;            // set at 1 + the number of each reached site; may be NULL
    int threads, cluster; // threads of a CTA, CTAs of a cluster; 0: from the kernel's attributes
    /// Waits for a word of other ranks (tg_comm_calls.wait). A nonzero status ends the run. NULL:
    /// the control block limits the wait.
    int32_t (*wait)(void *user, int64_t site, const int64_t *word, int compare, int64_t value,
                    int64_t peer, int64_t number);
    void *user;
    /// the number of times that a lane which has raised a word lets other ranks run, before the
    /// slower lanes of its own program
    int pauses;
} SimRun;

typedef enum SimFailureKind {
    SIM_OK,
    SIM_BAD_LAUNCH,
    SIM_DIVERGENT, // lanes of a collective at different places, or with different operands
    SIM_DEADLOCK,
    SIM_RACE,
    SIM_BOUNDS,
    SIM_UNINITIALISED,
    SIM_MISALIGNED,
    SIM_PROXY,   // bytes written through one proxy and used through the other without a fence
    SIM_PENDING, // a result of asynchronous work used before its wait
    SIM_MISUSE,  // a violation of the target's manual: descriptors, counts, states
    SIM_TRAP,
    SIM_NO_MEMORY,
} SimFailureKind;

/// The first failure.
typedef struct SimFailure {
    SimFailureKind kind;
    const char *file; // "" if the module has no positions
    int line, column;
    char text[2048];
} SimFailure;

/// Runs all CTAs of the grid. False: `failure` has the reason.
bool sim_run(const SimImage *image, int function, const SimRun *run, SimFailure *failure);
/// Returns the seed of TG_SIM_SEED, or 1.
uint64_t sim_seed(void);

/* ---- sites --------------------------------------------------------------------------------- */

/// A barrier, fence, wait or signal in the code, which a mutation test may remove.
typedef struct SimSiteInfo {
    int number; // the number for SimRun.skip_site
    const char *function, *name, *file;
    int line, column;
} SimSiteInfo;

/// Returns the i-th site; false beyond the last.
bool sim_site(const SimImage *image, int i, SimSiteInfo *out);

/// Disables each barrier, fence and wait of the function in turn, and appends a line for each to
/// the file `path`: noticed (a failure, or other results), unnoticed, or not reached. Sites that
/// the file lists as noticed for this version of the function are skipped. The buffers of `run`
/// must be all relevant memory. At the end they, and `failure`, are as after an unmutated run.
bool sim_mutate(const SimImage *image, int function, const SimRun *run, const char *path,
                SimFailure *failure);

/// Appends a line "site" to the file `path` for each site of the function. The mutation test of
/// several ranks starts a run of all ranks for each of them.
void sim_list_sites(const SimImage *image, int function, const char *path);
/// Returns SimRun.skip_site of the function by TG_SIM_SKIP=FUNCTION:NUMBER, with the numbers of
/// that list.
int sim_skipped_site(const SimImage *image, int function);

/* ---- tensor maps --------------------------------------------------------------------------- */

/// Writes a tensor map of 128 bytes. The arguments are those of cuTensorMapEncodeTiled: innermost
/// dimension first, strides in bytes from dimension 1 on. Returns NULL, or the error.
const char *sim_tensor_map(void *map, int type, int rank, void *base, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box,
                           const uint32_t *element_strides, int interleave, int swizzle, int fill);

/* ---- images for the runtime ------------------------------------------------------------------ */

/// Describes a parameter of a function, so that a checked launch knows its memory. Extents and
/// strides (in elements) are constants, or arguments by number.
typedef struct SimParam {
    const char *name; // name in the source; NULL: made by passes
    int arg;          // number of the pointer, or of the tensor map
    int rank, bits;   // bits of an element; 0: a tensor map; -1: a tg_faults
    int64_t extents[8], strides[8];
    int extent_arg[8], stride_arg[8]; // -1: a constant
} SimParam;
/// Copies the descriptions. Without memory the compilation leaves with NO_MEMORY.
void sim_describe(Ctx *ctx, SimImage *image, int function, const SimParam *params, int n);

/// Makes `out` an image of kind CALL: target, dispatch, tensormap and user. The caller describes
/// its functions.
void sim_image_fill(SimImage *image, tg_image *out);

#endif
