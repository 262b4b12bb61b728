// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of matrix instructions.
#include "passes/gpu/gpu.h"

#include <string.h>

static const GpuUnit units[] = {
#define ROW(chain, name, m, n, k, a, b, sum, precision, features, rate)                            \
    {name, m, n, k, 1, EL_##a, EL_##b, EL_##sum, PRECISION_##precision, features, 0, rate, chain},
#define UNIT(...)   ROW(0, __VA_ARGS__)
#define NARROW(...) ROW(GPU_CHAIN, __VA_ARGS__)
#define AMD(name, m, n, k, steps, a, b, sum, precision, generations, features, rate)               \
    {name,     m,           n,    k, steps, EL_##a, EL_##b, EL_##sum, PRECISION_##precision,       \
     features, generations, rate, 0},
#include "passes/gpu/units.def"
#undef ROW
};
enum { N_UNITS = sizeof units / sizeof *units };

const GpuUnit *gpu_unit_of(const Op *dot) {
    const char *name = op_str(dot, A_UNIT);
    for (int i = 0; name && i < N_UNITS; i++)
        if (strcmp(units[i].name, name) == 0) return &units[i];
    return NULL;
}

int gpu_chain(const GpuTarget *t, const GpuUnit *u) {
    return u->features & GPU_MMA && gpu_has(t, GPU_F8_HALVES) ? 0 : u->chain;
}

/// Whether the product has whole units of 64 rows and 8 columns, directly or transposed.
static bool fits_warpgroups(const GpuUnit *u, int64_t m, int64_t n, int64_t k) {
    bool straight = m % u->m == 0 && n % u->n == 0;
    return k % u->k == 0 && (straight || (m < u->m && n % u->m == 0 && m % u->n == 0));
}

/// Units may compute rows and columns beyond the block, which are dropped. Along k they would be
/// added up, so k must be whole.
bool gpu_unit_fits(const GpuUnit *u, int64_t m, int64_t n, int64_t k) {
    if (u->features & GPU_WGMMA) return fits_warpgroups(u, m, n, k);
    return k % u->k == 0 && 2 * m >= u->m && n >= u->n;
}

bool gpu_in_three(DotPrecision precision) {
    return precision == PRECISION_TF32X3;
}

/// Whether the unit is at least as precise as wanted. f32 always meets tf32.
static bool is_precise(const GpuUnit *u, DotPrecision wanted) {
    return u->precision == wanted || (u->precision == PRECISION_IEEE && wanted == PRECISION_TF32);
}

/// The precision that a unit of f32 needs.
static DotPrecision wanted_of_unit(DotPrecision precision) {
    bool rounds = precision == PRECISION_TF32 || gpu_in_three(precision);
    return rounds ? PRECISION_TF32 : PRECISION_IEEE;
}

static bool is_for(const GpuUnit *u, const GpuTarget *t, const Type *a, const Type *b,
                   DotPrecision precision) {
    bool three = gpu_in_three(precision);
    DotPrecision wanted = a->elem == EL_F32 ? wanted_of_unit(precision) : PRECISION_ABSENT;
    if (three && u->features & GPU_WGMMA) return false;
    int64_t m = a->extents[0], n = b->extents[1], k = a->extents[1];
    bool flips = u->features & GPU_AMD;
    return u->a == a->elem && u->b == b->elem && gpu_has(t, u->features) &&
           (!u->generations || gpu_has_any(t, u->generations)) && is_precise(u, wanted) &&
           (gpu_unit_fits(u, m, n, k) || (flips && gpu_unit_fits(u, n, m, k)));
}

const GpuUnit *gpu_unit_for(const GpuTarget *t, const Type *a, const Type *b,
                            DotPrecision precision) {
    for (int i = 0; i < N_UNITS; i++)
        if (is_for(&units[i], t, a, b, precision)) return &units[i];
    return NULL;
}

/// Whether a result can be the next product's operand as it is: each register and lane holds the
/// same numbers of rows in the result as numbers along k in the operand.
static bool takes_results(Ctx *ctx, const GpuUnit *u) {
    const Layout *b = gpu_fragment(ctx, u, FRAG_B), *d = gpu_fragment(ctx, u, FRAG_D);
    Bits inside = low_bits(b->log2[0]);
    for (int level = LEVEL_REG; level <= LEVEL_LANE; level++)
        for (int i = 0; i < b->bits[level]; i++) {
            Bits k = b->col[layout_first(b, (LayoutLevel)level) + i] >> layout_base(b, 0);
            Bits row = 0;
            if (i < d->bits[level])
                row = d->col[layout_first(d, (LayoutLevel)level) + i] >> layout_base(d, 0);
            if (k != (row & inside)) return false;
        }
    return true;
}

const GpuUnit *gpu_unit_in_chain(Ctx *ctx, const GpuTarget *t, const Type *a, const Type *b,
                                 DotPrecision precision, int64_t rows, bool takes) {
    for (int i = 0; i < N_UNITS; i++)
        if (units[i].features & GPU_AMD && is_for(&units[i], t, a, b, precision) &&
            units[i].n <= rows && (!takes || takes_results(ctx, &units[i])))
            return &units[i];
    return gpu_unit_for(t, a, b, precision);
}

const char *gpu_unit_base(Ctx *ctx, const GpuUnit *unit) {
    const char *shape = strchr(unit->name, '.'), *end = strchr(shape + 1, '.');
    return ctx_intern(ctx, unit->name, (size_t)(end - unit->name));
}

const Layout *gpu_fragment(Ctx *ctx, const GpuUnit *unit, FragmentRole role) {
    Elem elem = role == FRAG_A ? unit->a : role == FRAG_B ? unit->b : unit->sum;
    const char *name = gpu_unit_base(ctx, unit);
    const FragmentRow *row = fragment_of_bits(name, role, elem_info[elem].bits);
    if (!row) ice(ctx, (Loc){0}, "%s has no fragments", unit->name);
    const Layout *l = fragment_layout(ctx, row);
    if (role == FRAG_D || !(unit->features & GPU_AMD)) return l;
    return layout_runs(ctx, l, role == FRAG_A, unit->steps);
}
