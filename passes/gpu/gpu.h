// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPUs as passes see them: targets, matrix units, and the passes from the grid to device functions
// whose blocks have layouts.
#ifndef PASSES_GPU_GPU_H
#define PASSES_GPU_GPU_H

#include "ir/ir.h"
#include "ir/layout/layout.h"

/* ---- targets (gpu_target.c) ----------------------------------------------------------------- */

enum GpuFeatureIndex {
#define FEATURE(name, meaning) GPU_FEATURE_##name,
#include "lang/gpus.def"
};
/// The features of lang/gpus.def, a bit each.
enum GpuFeature {
#define FEATURE(name, meaning) GPU_##name = 1 << GPU_FEATURE_##name,
#include "lang/gpus.def"
};

enum { GPU_AMD = GPU_MFMA | GPU_WMMA };

/// A row of lang/gpus.def. Copy it to change what depends on the device at hand.
typedef struct GpuTarget {
    const char *name; // "sm_90a"
    int arch;         // 90; 0x90a of gfx90a
    int lanes;        // of a warp
    int sms;
    int threads_sm, ctas_sm, registers_sm; // of an SM
    int registers_thread;                  // the most of a thread
    int shared_sm, shared_cta;             // bytes
    int64_t l2_bytes;
    double bandwidth, clock;      // bytes, cycles a second
    double fma_cycle, unit_cycle; // multiply-adds a cycle and SM: of f32, of 16-bit matrices
    int features;
    int ptx; // 84: the PTX version 8.4; 0 of AMD's
} GpuTarget;

enum {
    GPU_MAX_THREADS = 1024,   // of a CTA
    GPU_MAX_CLUSTER = 16,     // CTAs
    GPU_PORTABLE_CLUSTER = 8, // that every device with clusters runs
};

/// NULL where there is none of that name.
const GpuTarget *gpu_target(const char *name);
/// The rows, ended by one whose name is NULL.
extern const GpuTarget gpu_targets[];
/// Whether the target is "80" or later, "90a" or a later one with an a, "=90a" exactly, or has any
/// of the features "CDNA3|CDNA4": the column `needs` of portable.def. AMD's GPUs meet "80" alone.
bool gpu_meets(const GpuTarget *t, const char *needs);

static inline bool gpu_has(const GpuTarget *t, int features) {
    return (t->features & features) == features;
}
static inline bool gpu_has_any(const GpuTarget *t, int features) {
    return t->features & features;
}
static inline SharedBanks gpu_banks(const GpuTarget *t) {
    if (!gpu_has(t, GPU_MFMA)) return BANKS_IN_ORDER;
    return gpu_has(t, GPU_READS_256) ? BANKS_GFX950 : BANKS_GFX9;
}
static inline int gpu_max_warps(const GpuTarget *t) {
    return GPU_MAX_THREADS / t->lanes;
}
static inline int gpu_lane_bits(const GpuTarget *t) {
    return __builtin_ctz((unsigned)t->lanes);
}

/* ---- matrix units (matrix_unit.c) ----------------------------------------------------------- */

/// A row of units.def.
typedef struct GpuUnit {
    const char *name;   // "mma.m16n8k16.f16"; its fragments are those of "mma.m16n8k16"
    int m, n, k, steps; // k is that of all steps, an instruction each
    Elem a, b, sum;
    const char *precision; // of a dot of f32; "" for all others
    int features;          // that it needs
    int generations;       // any of these features, or 0
    double rate;           // share of GpuTarget.unit_cycle
    int chain;             // gpu_chain, where no target has better sums
} GpuUnit;

/// Of k, whose products a narrow unit adds up.
enum { GPU_CHAIN = 128 };

/// Of k, so many products the unit may add up: its sums of more are too inexact; 0: of any number.
int gpu_chain(const GpuTarget *t, const GpuUnit *u);
/// The row named by attribute `unit` of a dot; NULL: it is multiplied by fma.
const GpuUnit *gpu_unit_of(const Op *dot);
/// The precision is that of three products, whose operands are computed in registers.
bool gpu_in_three(const char *precision);
/// The row for a product of these elements, extents and precision (NULL: ieee), or NULL. AMD's may
/// fit the transposed product instead.
const GpuUnit *gpu_unit_for(const GpuTarget *t, const Type *a, const Type *b,
                            const char *precision);
/// Likewise for a product in a chain of them, of AMD's units if there is one: whose tiles have at
/// most so many rows, and (takes) which takes the result of another one as it is in registers.
const GpuUnit *gpu_unit_in_chain(Ctx *ctx, const GpuTarget *t, const Type *a, const Type *b,
                                 const char *precision, int64_t rows, bool takes);
/// The unit's operands as they are fit the instruction.
bool gpu_unit_fits(const GpuUnit *unit, int64_t m, int64_t n, int64_t k);
/// The first two parts of its name: "mfma.32x32x8", which rows of portable.def begin with.
const char *gpu_unit_base(Ctx *ctx, const GpuUnit *unit);
/// The layout of one operand of all steps of the unit.
const Layout *gpu_fragment(Ctx *ctx, const GpuUnit *unit, FragmentRole role);

/* ---- describe_devices.c --------------------------------------------------------------------- */

/// In notes of tensors whose strides or address stand against copies of so many bytes, which
/// follow.
#define GPU_NOT_ALIGNED "its rows are not known to be aligned to"
/// What is known besides of a note that `async` made of a tensor ("a: through registers: ..."), or
/// NULL.
typedef const char *GpuMore(void *arg, const char *note);
/// Lines about each device of a module that has gone through gpu_pipeline.
void gpu_describe(Text *out, const Op *module, GpuMore *more, void *arg);

/* ---- copy_width.c -------------------------------------------------------------------------- */

enum { GPU_COPY_MOST = 16, GPU_COPY_LEAST = 4 };
typedef struct GpuWidth {
    int bytes; // of the widest copies; 0: those of GPU_COPY_LEAST are too wide
    int wider; // what copies are too narrow for; 0: they could not be wider
    bool rows; // it is not for the rows' distance, but for where they start
} GpuWidth;
/// How wide copies of a load's or store's block may be; along: the dimension of stride 1.
GpuWidth gpu_copy_width(const Op *op, const Access *a, int along);

/// Bytes of the panels that rows of so many bytes are copied to: the widest that they fill, or
/// nearly fill. 160 elements of 16 bits are three of 128 bytes, with a sixth of them for nothing,
/// rather than five of 64, where TMA fills panels up; threads may leave an eighth.
int gpu_panel_bytes(int64_t row_bytes, bool by_tma);

/* ---- roles.c ------------------------------------------------------------------------------- */

/// The op that holds the roles of the device, or NULL: all of its warps run one code.
Op *device_roles(const Op *device);
/// The first warp of role i. Of i = the number of roles: how many warps there are in all.
int role_first_warp(const Op *roles, int i);

/* ---- warps.c, passes/cost/cost_gpu.c -------------------------------------------------------- */

/// How a program is spread over threads.
typedef struct GpuShape {
    int warps, cluster; // of a CTA, CTAs
    double registers;   // that a thread needs
    double at_once;     // ... and cannot do without
    bool chain;         // one product is made of another
    bool counted; // registers are so many: sums of warpgroups' products, and their next operand
} GpuShape;

/// What works best on what root holds; `cluster` CTAs, 0: as many as work best.
GpuShape gpu_shape(const GpuTarget *target, const Op *root, int cluster);
/// Likewise, of CTAs that have so many warps. 0: as many as work best.
GpuShape gpu_shape_of_warps(const GpuTarget *target, const Op *root, int cluster, int warps);
/// That of a device, which has its warps.
GpuShape gpu_shape_of(const GpuTarget *target, const Op *device);

/// Whether a phase whose programs are so, and combine rows, goes by columns (strip_mine.c).
bool gpu_goes_by_columns(const GpuTarget *t, const GpuShape *shape, const Op *program);

enum { GPU_RING_SLOTS = 4 }; // at most, where nobody says how many
/// Bytes for the rings of a CTA: its part of an SM's memory, if that is still enough to run ahead.
/// One slot of all rings takes `each`, anything else `other`; alone: it has the SM for itself.
int64_t gpu_ring_room(const GpuTarget *t, const GpuShape *shape, bool alone, int64_t each,
                      int64_t other);

/// Whether CTAs go from tile to tile (persist.c) of what root holds; `persistent` as the axis has
/// it, 0: nobody says.
bool gpu_persists(const GpuTarget *t, const Op *root, int persistent);

/* ---- chain.c ------------------------------------------------------------------------------- */

/// How a warp of its own may copy for a program, whose products are skewed then.
typedef enum GpuRolesFit {
    ROLES_NONE,
    ROLES_ONCE,   // for one tile a CTA: shared memory has no room for the next one's
    ROLES_PERSIST // going from tile to tile, too
} GpuRolesFit;

GpuRolesFit gpu_roles_fit(const GpuTarget *t, const Op *program, const GpuShape *shape);

/* ---- cost_gpu.c ---------------------------------------------------------------------------- */

/// What the hungriest phase of a kernel is expected to need, beside what there is.
typedef struct GpuNeeds {
    double registers, most_registers; // of a thread
    double stage_bytes, most_bytes;   // of shared memory: one stage of a pipeline, a CTA's
    int warps;                        // of a CTA, by themselves
    bool products, loops;             // there are such
    int slots;  // of its pipelines, where each CTA has an SM for itself; 0: as the passes have it
    bool once;  // programs that would go from tile to tile have one tile each
    bool lasts; // programs go from tile to tile
    bool pairs; // of programs may share copies
    bool roles; // all products are chains for which a warp of its own may copy
} GpuNeeds;

/// What the schedule says of axes that the cost model knows of; 0: what the passes would choose.
typedef struct GpuAxes {
    int warps, stages, persistent, cluster;
    bool roles;   // a warp of its own copies, and products are skewed
    double slack; // share of the registers that there are, by which a program may need more
} GpuAxes;

/// Seconds that one launch of a kernel in `tile` IR is expected to take; dim_of as for
/// cost_estimate (passes/passes.h). axes and needs may be NULL.
double gpu_cost_estimate(const Op *kernel, const GpuTarget *target,
                         int64_t (*dim_of)(void *user, int parameter, int axis), void *user,
                         const GpuAxes *axes, GpuNeeds *needs);
/// Of one phase of it.
struct CostDims;
/// *held, where given: programs of it that an SM has room for.
double gpu_cost_phase(const Op *phase, const GpuTarget *target, const struct CostDims *dims,
                      double *held);
enum { GPU_PAIR = 2 }; // programs of a cluster that share copies, a CTA each
/// Programs of the device, in pairs, bring what both read to both.
bool gpu_shares_copies(const Op *device);
/// A line about each phase: what it moves and multiplies, the roof, what the model expects.
void gpu_cost_describe(Text *out, const Op *kernel, const GpuTarget *target,
                       int64_t (*dim_of)(void *user, int parameter, int axis), void *user,
                       const GpuAxes *axes);

#endif
