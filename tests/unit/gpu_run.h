// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device code under test: a module of a kernel `k` that dispatches one device `d` on one program,
// run by the interpreter and, lowered, by the simulator, must leave the same memory behind.
#ifndef TESTS_UNIT_GPU_RUN_H
#define TESTS_UNIT_GPU_RUN_H

#include "ir/layout/layout.h"
#include "layout_random.h"
#include "runtime/abi.h"

enum { GPU_RUN_PARAMS = 8 };

typedef enum GpuData {
    GPU_SMALL,   // integers -4 .. 3 in any element: sums and products of them are exact
    GPU_ANY,     // any bits of an integer; floats in -2 .. 2
    GPU_SPECIAL, // with NaN, infinities and both zeros
    GPU_INDEX,   // -2 .. 17
} GpuData;

/// The text of the device under construction. Parameters are tensors in row-major order.
typedef struct GpuRun {
    Ctx *ctx;
    Text head, body;       // text of the module, of the device
    int warps, cluster, n; // warps of a CTA, CTAs (0: 1), number of parameters
    Type params[GPU_RUN_PARAMS];
    GpuData data[GPU_RUN_PARAMS];
    const char *target;
    int align; // alignment of the tensors' types
    bool near; // `near` of the tensors' types
    bool check;
    // After gpu_run, if the device records faults: tg_faults and its words.
    uint64_t *faults;
    const tg_site *const *sites;
} GpuRun;

void gpu_run_begin(GpuRun *r, Ctx *ctx, int warps);
/// Adds parameter %p<n>; returns n.
int gpu_run_param(GpuRun *r, Elem elem, const Layout *l, GpuData data);
/// Returns the text of a type: `f32[8x16; reg ...]`.
const char *gpu_run_type(GpuRun *r, Elem elem, const Layout *l);
/// Loads all of parameter n as %<name> in layout l (NULL: a scalar).
void gpu_run_load(GpuRun *r, const char *name, int n, const Layout *l);
void gpu_run_store(GpuRun *r, const char *name, int n, const Layout *l);
#define gpu_run_text(r, ...) text_add(&(r)->body, __VA_ARGS__)
/// Runs the device both ways. Fails the test, naming `what`, if an element differs by more than
/// tolerance * (1 + its size).
void gpu_run(GpuRun *r, double tolerance, const char *what);

/* ---- random cases -------------------------------------------------------------------------- */

typedef void GpuBody(Ctx *ctx, Random *random, const char *what);
/// Runs `body` n times, each in its own context, with random numbers from seed first + i * step.
/// Fails the test if a case ends with diagnostics.
void gpu_run_cases(GpuBody *body, int n, uint64_t first, uint64_t step);
/// Returns a shape over 32 lanes and 1, 2 or 4 warps of one CTA.
Shape gpu_run_shape(Random *random);
/// Returns the number of warps of the layout.
int gpu_run_warps(const Layout *l);

#endif
