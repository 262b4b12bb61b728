// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of matrix instructions.
#include "passes/gpu/layouts.h"

#include <string.h>

static const GpuUnit units[] = {
#define ROW(chain, name, m, n, k, a, b, sum, precision, arch, features, rate)                      \
    {name, m, n, k, EL_##a, EL_##b, EL_##sum, precision, arch, features, rate, chain},
#define UNIT(...)   ROW(0, __VA_ARGS__)
#define NARROW(...) ROW(GPU_CHAIN, __VA_ARGS__)
#include "passes/gpu/units.def"
#undef ROW
};
enum { N_UNITS = sizeof units / sizeof *units };

const GpuUnit *gpu_unit_of(const Op *dot) {
    const char *name = op_str(dot, "unit");
    for (int i = 0; name && i < N_UNITS; i++)
        if (strcmp(units[i].name, name) == 0) return &units[i];
    return NULL;
}

/// Whole rows by 64 and columns by 8, as they are or swapped.
static bool fits_warpgroups(const GpuUnit *u, int64_t m, int64_t n, int64_t k) {
    bool straight = m % u->m == 0 && n % u->n == 0;
    return k % u->k == 0 && (straight || (m < u->m && n % u->m == 0 && m % u->n == 0));
}

/// Rows and columns beyond the block are computed for nothing; along k they would be added up.
static bool fits(const GpuUnit *u, int64_t m, int64_t n, int64_t k) {
    if (u->features & GPU_WGMMA) return fits_warpgroups(u, m, n, k);
    return k % u->k == 0 && 2 * m >= u->m && n >= u->n;
}

/// No operand is cut.
static bool is_plain(const char *precision) {
    return !precision || strcmp(precision, "fast") == 0;
}

const GpuUnit *gpu_unit_for(const GpuTarget *t, const Type *a, const Type *b,
                            const char *precision) {
    for (int i = 0; i < N_UNITS; i++) {
        const GpuUnit *u = &units[i];
        const char *wanted = a->elem != EL_F32 ? "" : is_plain(precision) ? "ieee" : precision;
        if (u->a == a->elem && u->b == b->elem && t->arch >= u->arch && gpu_has(t, u->features) &&
            strcmp(u->precision, wanted) == 0 &&
            fits(u, a->extents[0], b->extents[1], a->extents[1]))
            return u;
    }
    return NULL;
}

const Layout *gpu_fragment(Ctx *ctx, const GpuUnit *unit, FragmentRole role) {
    const char *shape = strchr(unit->name, '.'), *end = strchr(shape + 1, '.');
    const char *name = ctx_intern(ctx, unit->name, (size_t)(end - unit->name));
    const FragmentRow *row = fragment_find(name, role);
    if (!row) ice(ctx, (Loc){0}, "%s has no fragments", unit->name);
    return fragment_layout(ctx, row);
}
