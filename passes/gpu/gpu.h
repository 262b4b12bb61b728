// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPUs as the passes see them: targets, matrix units, and the passes from the grid to device
// functions with layouts.
#ifndef PASSES_GPU_GPU_H
#define PASSES_GPU_GPU_H

#include "ir/ir.h"
#include "ir/layout/layout.h"

/* ---- targets (gpu_target.c) ----------------------------------------------------------------- */

enum GpuFeatureIndex {
#define FEATURE(name, meaning) GPU_FEATURE_##name,
#include "lang/gpu_features.def"
};
/// The features of lang/gpu_features.def, a bit each.
enum GpuFeature {
#define FEATURE(name, meaning) GPU_##name = 1 << GPU_FEATURE_##name,
#include "lang/gpu_features.def"
};

enum { GPU_AMD = GPU_MFMA | GPU_WMMA };

/// A row of lang/gpus.def. Copy it to change facts of the device at hand.
typedef struct GpuTarget {
    const char *name; // "sm_90a"
    int arch;         // 90; 0x90a of gfx90a
    int lanes;        // of a warp
    int sms;
    int threads_sm, ctas_sm, registers_sm; // of an SM
    int registers_thread;                  // maximum of a thread
    int shared_sm, shared_cta;             // bytes
    int64_t l2_bytes;
    double bandwidth, clock;      // bytes a second, cycles a second
    double fma_cycle, unit_cycle; // FMAs a cycle and SM: of f32, of 16-bit matrices
    int features;
    int ptx; // 84 is version 8.4; 0 on AMD
} GpuTarget;

enum {
    GPU_MAX_THREADS = 1024,      // of a CTA
    GPU_GROUP_WARPS = 4,         // of a warpgroup
    GPU_GROUP_REGISTERS = 240,   // of a thread: the maximum that a warpgroup may request
    GPU_REGISTER_UNIT = 8,       // warpgroups request multiples of it
    GPU_PRODUCER_REGISTERS = 24, // of a thread that only starts copies
    GPU_MAX_CLUSTER = 16,        // CTAs
    GPU_PORTABLE_CLUSTER = 8,    // the largest that every device with clusters supports
    SHARED_SLACK = 2048,         // bytes of a CTA reserved for mbarriers, gaps and temporaries
    SHARED_PIECE = 32 << 10,     // of a stored piece, while the next tile's copies are pending
};

/// Returns the row of this name, or NULL.
const GpuTarget *gpu_target(const char *name);
/// All rows, terminated by a row whose name is NULL.
extern const GpuTarget gpu_targets[];
/// Whether the target meets the column `needs` of portable.def: "80" (this version or later), "90a"
/// (or a later one with an a), "=90a" (exactly), or "CDNA3|CDNA4" (any of these features). AMD's
/// GPUs meet "80" and no other version.
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
    int m, n, k, steps; // k is that of all steps; each step is an instruction
    Elem a, b, sum;
    DotPrecision precision; // of a dot of f32; ABSENT for other elements
    int features;           // required features
    int generations;        // any of these features; 0: no condition
    double rate;            // share of GpuTarget.unit_cycle
    int chain;              // see gpu_chain, on targets without better sums
} GpuUnit;

/// Products along k that a narrow unit adds up.
enum { GPU_CHAIN = 128 };

/// Returns how many products along k the unit may add up, since longer sums are too inexact. 0: any
/// number.
int gpu_chain(const GpuTarget *t, const GpuUnit *u);
/// Returns the row of the dot's attribute `unit`. NULL: the dot uses FMAs.
const GpuUnit *gpu_unit_of(const Op *dot);
/// Whether the precision splits the product into three, whose operands are computed in registers.
bool gpu_in_three(DotPrecision precision);
/// Returns the row for a product of these elements, extents and precision, or NULL. A
/// row of AMD's may fit the transposed product instead.
const GpuUnit *gpu_unit_for(const GpuTarget *t, const Type *a, const Type *b,
                            DotPrecision precision);
/// Returns the row for a product in a chain, and prefers AMD's units. Its tiles have at most the
/// given rows. If `takes`, the unit must accept another product's result as an operand in the same
/// registers.
const GpuUnit *gpu_unit_in_chain(Ctx *ctx, const GpuTarget *t, const Type *a, const Type *b,
                                 DotPrecision precision, int64_t rows, bool takes);
/// Whether a product of these extents fits the unit.
bool gpu_unit_fits(const GpuUnit *unit, int64_t m, int64_t n, int64_t k);
/// Returns the first two parts of the name, "mfma.32x32x8". Rows of portable.def begin with them.
const char *gpu_unit_base(Ctx *ctx, const GpuUnit *unit);
/// Returns the layout of one operand over all steps of the unit.
const Layout *gpu_fragment(Ctx *ctx, const GpuUnit *unit, FragmentRole role);

/* ---- describe_devices.c --------------------------------------------------------------------- */

/// The beginning of a note about a tensor whose strides or address rule out copies of a certain
/// width. The width in bytes follows.
#define GPU_NOT_ALIGNED "its rows are not known to be aligned to"
/// Returns further facts about a note of `async` ("a: through registers: ..."), or NULL.
typedef const char *GpuMore(void *arg, const char *note);
/// Appends lines about each device of a module that has passed gpu_pipeline.
void gpu_describe(Text *out, const Op *module, GpuMore *more, void *arg);

/* ---- align_rows.c, clip.c ------------------------------------------------------------------ */

/// Returns the dimension of stride 1 of a load for products in source IR if the operand may be
/// copied into aligned rows before the phase, and its rows are not aligned; else -1. Each of the
/// products must have a matrix unit, and the load a shape that `async` copies.
int gpu_row_to_align(const GpuTarget *t, const Op *op);
/// Whether loaded numbers decide which part of the operand the phase reads. Copies of the whole may
/// then cost far more than they gain.
bool gpu_reads_loaded_part(const Op *op);
enum { ALIGN_ROWS_TENSORS = 8 }; // copies of a phase at most
/// Returns the elements of an aligned row of the copy.
double gpu_aligned_row(double extent, Elem elem);
struct Ranges;
/// Whether each lane of the access beyond the count of dimension d lies outside the tensor.
/// ranges: at the op (ranges_at).
bool gpu_count_repeats_extent(struct Ranges *ranges, const Op *op, const Access *a, int d);

/* ---- copy_width.c -------------------------------------------------------------------------- */

enum { GPU_COPY_MOST = 16, GPU_COPY_LEAST = 4 };
typedef struct GpuWidth {
    int bytes; // of the widest copies; 0: even GPU_COPY_LEAST is too wide
    int wider; // the next width, which is ruled out; 0: the copies have the maximum
    bool rows; // the distance of rows allows the next width, but their start does not
} GpuWidth;
/// Returns how wide copies of a load's or store's block may be. along: the dimension of stride 1.
GpuWidth gpu_copy_width(const Op *op, const Access *a, int along);
/// Whether the block starts at a multiple of `bytes` in its row.
bool gpu_start_fits(const Op *op, const Access *a, int along, int64_t bytes);

/// Returns the bytes of the panels for rows of `row_bytes`: the widest that rows fill, or nearly
/// fill. 160 elements of 16 bits take three panels of 128 bytes, a sixth of them unused, rather
/// than five of 64. TMA fills panels up, so it may leave a sixth unused; threads may leave an
/// eighth.
int gpu_panel_bytes(int64_t row_bytes, bool by_tma);

/* ---- roles.c ------------------------------------------------------------------------------- */

/// Returns the op with the roles of the device. NULL: all warps run the same code.
Op *device_roles(const Op *device);
/// Returns the first warp of role i. For i = the number of roles, returns the number of warps.
int role_first_warp(const Op *roles, int i);

/* ---- warps.c, passes/cost/cost_gpu.c -------------------------------------------------------- */

/// The threads of a program and their registers.
typedef struct GpuShape {
    int warps, cluster; // of a CTA, CTAs
    double registers;   // that a thread needs
    double at_once;     // minimum that a thread needs
    bool chain;         // one product feeds another
    bool counted; // registers are exact: the sums of warpgroups' products, and their next operand
} GpuShape;

/// Returns the best shape for the ops in root. cluster: the CTAs of a cluster; 0: the best number.
GpuShape gpu_shape(const GpuTarget *target, const Op *root, int cluster);
/// Likewise, for CTAs with the given warps. 0: the best number.
GpuShape gpu_shape_of_warps(const GpuTarget *target, const Op *root, int cluster, int warps);
/// Returns the shape of a device, whose warps are fixed.
GpuShape gpu_shape_of(const GpuTarget *target, const Op *device);

/// Whether to split a phase by columns (columns.c) if its programs have this shape and combine
/// rows.
bool gpu_goes_by_columns(const GpuTarget *t, const GpuShape *shape, const Op *program);

/// Shared memory for both operands of a product of FMAs. Larger ones pass in pieces along k.
enum { GPU_FMA_BYTES = 65536 };
enum { GPU_RING_SLOTS = 4 }; // default maximum
/// Returns the bytes for a CTA's rings: its share of an SM's memory if that lets copies run ahead.
/// `each`: the bytes of one slot of all rings; `other`: all other shared memory; alone: the CTA has
/// the SM to itself.
int64_t gpu_ring_room(const GpuTarget *t, const GpuShape *shape, bool alone, int64_t each,
                      int64_t other);

/// Whether each CTA processes several tiles (persist.c) for the ops in root. persistent: the value
/// of the axis; 0: not set.
bool gpu_persists(const GpuTarget *t, const Op *root, int persistent);

/* ---- chain.c: roles, before the passes and in them ----------------------------------------- */

/// Whether an extra warp may copy for a program, whose products are then skewed.
typedef enum GpuRolesFit {
    ROLES_NONE,
    ROLES_ONCE,   // for one tile a CTA: shared memory has no room for the next tile
    ROLES_WIDE,   // for one tile a CTA, with more sums than scores (wait_in_reduce.c)
    ROLES_PERSIST // also if CTAs process several tiles
} GpuRolesFit;

/// Predicts from the source IR whether the passes `roles` and `skew` take the program.
GpuRolesFit gpu_roles_fit(const GpuTarget *t, const Op *program, const GpuShape *shape);
/// Returns the load of a product's operand in the source IR, unchanged or transposed; NULL: the
/// operand is computed.
const Op *gpu_operand_load(const Value *v);

// The conditions that the prediction and the passes share.

/// Whether a CTA can have `warps` warps that compute, and one more warpgroup for the warp that
/// copies.
bool gpu_roles_have_warps(const GpuTarget *t, int64_t warps);
/// Registers that a thread has where `warps` compute and the copying warpgroup keeps few.
int gpu_role_registers(const GpuTarget *t, int64_t warps);
/// Whether a thread with `limit` registers holds blocks of `words` while two products are pending.
bool gpu_skew_has_registers(double words, double limit);

/* ---- cost_gpu.c ---------------------------------------------------------------------------- */

/// The estimated needs of a kernel's hungriest phase, and the resources of the target.
typedef struct GpuNeeds {
    double registers, most_registers; // of a thread
    double stage_bytes, most_bytes;   // of shared memory: one pipeline stage, the limit of a CTA
    int warps;                        // of a CTA, by default
    bool products, loops;             // the phase has some
    int slots;      // of its pipelines, if each CTA has an SM to itself; 0: the passes' default
    bool once;      // a persistent CTA would have only one tile
    bool lasts;     // CTAs process several tiles
    bool pairs;     // programs may share copies in pairs
    bool roles;     // all products form chains for which an extra warp may copy
    bool splits;    // a program is a loop that sums up products
    bool unaligned; // align-rows may copy an operand
    bool unsure;    // ... of which loaded numbers decide how much is read
    double aligned_bytes; // of the copies that it then makes
    double aligned_most;  // of those of one phase
} GpuNeeds;

/// Axes of the schedule that the cost model knows. 0: the passes' default.
typedef struct GpuAxes {
#define PRICED(name) int name;
#define UNPRICED(name)
#define AXIS(id, name, takes, model, ...) model(name)
#include "lang/axes.def"
#undef PRICED
#undef UNPRICED
    bool roles;   // an extra warp copies, and products are skewed
    double slack; // a program may need this fraction more registers than a thread has
} GpuAxes;

/// Estimates the seconds of one launch of a kernel in `tile` IR. dim_of as for cost_estimate
/// (passes/passes.h). axes and needs may be NULL.
double gpu_cost_estimate(const Op *kernel, const GpuTarget *target,
                         int64_t (*dim_of)(void *user, int parameter, int axis), void *user,
                         const GpuAxes *axes, GpuNeeds *needs);
/// Estimates one phase of the kernel.
struct CostDims;
/// *held, if not NULL: the programs that fit on an SM.
double gpu_cost_phase(const Op *phase, const GpuTarget *target, const struct CostDims *dims,
                      double *held);
enum { GPU_PAIR = 2 }; // programs (one CTA each) of a cluster that share copies
/// Whether the device's programs share copies in pairs: each brings half of a common block to both.
bool gpu_shares_copies(const Op *device);
/// Appends a line about each phase: bytes, FLOPs, the roof, and the model's estimate.
void gpu_cost_describe(Text *out, const Op *kernel, const GpuTarget *target,
                       int64_t (*dim_of)(void *user, int parameter, int axis), void *user,
                       const GpuAxes *axes);

#endif
