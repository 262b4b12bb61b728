// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses LLVM's facts about kernels from the metadata of an assembly text.
#include <stdlib.h>
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

/// Reads the number of `key` from "    .vgpr_count:     12".
static bool number_of_key(const char *line, size_t n, const char *key, int *out) {
    while (n && (*line == ' ' || *line == '-')) line++, n--;
    size_t len = strlen(key);
    if (n <= len || memcmp(line, key, len) != 0 || line[len] != ':') return false;
    *out = atoi(line + len + 1);
    return true;
}

static const char *kernel_name_in(Ctx *ctx, const char *line, size_t n) {
    const char *at = memmem(line, n, ".name:", 6);
    if (!at || line[4] == ' ') return NULL; // deeper: belongs to an argument
    at += 6;
    at += strspn(at, " '");
    return ctx_intern(ctx, at, strcspn(at, "'\n"));
}

static void read_metadata_line(Ctx *ctx, const char *line, size_t n, AmdUse *use) {
    const struct {
        const char *key;
        int *to;
    } rows[] = {{".vgpr_count", &use->vector},
                {".agpr_count", &use->accumulators},
                {".sgpr_count", &use->scalar},
                {".private_segment_fixed_size", &use->scratch_bytes},
                {".group_segment_fixed_size", &use->shared_bytes},
                {".kernarg_segment_size", &use->kernarg_bytes},
                {".wavefront_size", &use->lanes}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (number_of_key(line, n, rows[i].key, rows[i].to)) return;
    const char *name = kernel_name_in(ctx, line, n);
    if (name) use->kernel = name;
}

/// A kernel begins with a dash in the third column, and ends at the next one or at the end of the
/// list.
void amd_read_uses(Ctx *ctx, const char *assembly, AmdUses *out) {
    *out = (AmdUses){0};
    const char *at = strstr(assembly, "amdhsa.kernels:");
    if (!at) return;
    AmdUse use = {0};
    bool any = false;
    for (at = strchr(at, '\n'); at++; at = strchr(at, '\n')) {
        size_t n = strcspn(at, "\n");
        bool begins = strncmp(at, "  - ", 4) == 0;
        if (begins || *at != ' ') {
            if (any) vec_push(ctx, out, use);
            use = (AmdUse){0};
            any = begins;
        }
        if (*at != ' ') return;
        read_metadata_line(ctx, at, n, &use);
    }
}

/* ---- for people ---------------------------------------------------------------------------- */

static int round_up_int(int n, int unit) {
    return (n + unit - 1) / unit * unit;
}

static int lesser_of(int a, int b) {
    return a < b ? a : b;
}

/// Returns the number of CTAs of `waves` waves, if each SIMD holds `held` waves.
static int ctas_of(int waves, int simds, int held) {
    if (waves <= simds) return held * simds / waves;
    return held / ((waves + simds - 1) / simds);
}

/// Returns the CTAs that a compute unit holds at once, and the limiting resource. All registers of
/// a wave are in one SIMD.
static int resident_amd_ctas(const GpuTarget *gpu, const AmdUse *u, int threads,
                             const char **bound) {
    bool cdna = gpu->lanes == 64;
    int simds = cdna ? 4 : 2, unit = cdna ? 8 : 24; // granule of registers
    int waves = (threads + gpu->lanes - 1) / gpu->lanes;
    int given = round_up_int(u->vector ? u->vector : 1, unit), all = gpu->lanes * simds;
    int n = ctas_of(waves, simds, gpu->threads_sm / all);
    *bound = "waves";
    int by_registers = ctas_of(waves, simds, gpu->registers_sm / all / given);
    if (by_registers < n) n = by_registers, *bound = "registers";
    if (u->shared_bytes && gpu->shared_sm / u->shared_bytes < n)
        n = gpu->shared_sm / u->shared_bytes, *bound = "shared memory";
    if (waves > 1 && gpu->ctas_sm < n) n = gpu->ctas_sm, *bound = "barriers";
    return n;
}

static void describe_amd_use(Text *out, const GpuTarget *gpu, const AmdUse *u, int threads) {
    text_add(out, ", %d vector registers", u->vector);
    if (u->accumulators) text_add(out, " (%d of them accumulators)", u->accumulators);
    text_add(out, ", %d scalar, ", u->scalar);
    if (u->scratch_bytes)
        text_add(out, "%d bytes spilled", u->scratch_bytes);
    else
        text_add(out, "none spilled");
    const char *bound;
    int most = gpu->threads_sm / gpu->lanes, n = resident_amd_ctas(gpu, u, threads, &bound);
    int waves = lesser_of(most, n * ((threads + gpu->lanes - 1) / gpu->lanes));
    text_add(out, "; a compute unit holds %d: %d of %d waves, by %s", n, waves, most, bound);
}

void amd_describe(Ctx *ctx, Text *out, const GpuTarget *gpu, const GpuCode *code,
                  const char *assembly) {
    AmdUses uses;
    amd_read_uses(ctx, assembly, &uses);
    for (int i = 0; i < code->n; i++) {
        const GpuKernel *k = &code->kernels[i];
        text_add(out, "  %s: %d threads, %d bytes of shared memory", k->name, k->threads,
                 (int)k->shared_bytes);
        for (int j = 0; j < uses.n; j++)
            if (strcmp(uses.data[j].kernel, k->name) == 0)
                describe_amd_use(out, gpu, &uses.data[j], k->threads);
        text_add(out, "\n");
    }
}
