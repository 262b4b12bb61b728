// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles a portable module to PTX by either generator, and parses ptxas's report on PTX.
#include <stdlib.h>
#include <string.h>

#include "backends/llvm/target.h"
#include "backends/nvidia/nvidia.h"

/* ---- PTX versions -------------------------------------------------------------------------- */

/// Returns 84 for a PTX text with ".version 8.4"; 0 without a version.
int nv_ptx_version(const char *ptx) {
    const char *at = strstr(ptx, ".version ");
    if (!at) return 0;
    char *end;
    long major = strtol(at + 9, &end, 10);
    return (int)(10 * major + (*end == '.' ? strtol(end + 1, NULL, 10) : 0));
}

// PTX ISA, release notes: each CUDA release reads its own version and all earlier ones.
int nv_ptx_of_driver(int cuda) {
    static const struct {
        int cuda, ptx;
    } rows[] = {{13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85}, {12040, 84},
                {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80}, {11080, 78}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (cuda >= rows[i].cuda) return rows[i].ptx;
    return 0;
}

/* ---- generators ---------------------------------------------------------------------------- */

static bool driver_refuses(const NvOptions *o) {
    return o->driver && nv_ptx_of_driver(o->driver) < NVVM_PTX;
}

/// Whether libNVVM is requested and available. Without a request LLVM's generator is used, which
/// takes milliseconds.
static bool by_nvvm(const NvOptions *o) {
    switch (o->codegen) {
    case NV_NVVM: return true;
    case NV_PREFER_NVVM: return nvvm_available() && !driver_refuses(o);
    default: return false;
    }
}

static void release_nv_output(void *thing) {
    nv_output_free(thing);
}

/// Ends the compilation if libNVVM refuses a module that the checker accepted.
static NvStatus run_nvvm(Gen *g, const GpuTarget *arch, const NvOptions *o, NvPtx *out) {
    NvOutput *made = ctx_new(g->ctx, NvOutput);
    ctx_defer(g->ctx, release_nv_output, made);
    if (driver_refuses(o)) {
        out->log = ctx_format(g->ctx,
                              "libNVVM writes PTX %d.%d, which the driver (CUDA %d.%d) does not "
                              "read: take the code generator nvptx, or a driver of CUDA 13",
                              NVVM_PTX / 10, NVVM_PTX % 10, o->driver / 1000, o->driver / 10 % 100);
        return NV_FAILED;
    }
    if (!nvvm_available()) {
        out->log = "libNVVM was not found: it is part of the CUDA toolkit and is looked for below "
                   "$CUDA_HOME, by the loader and in /usr/local/cuda*; or take the code generator "
                   "nvptx";
        return NV_ABSENT;
    }
    nvptx_bound_ctas(g, arch);
    nvvm_pin_invariants(g);
    const char *text = nvvm_write(g->ctx, g->module, arch);
    NvStatus status = nvvm_compile(text, strlen(text), arch, o->quick ? 0 : 3, made);
    if (status == NV_FAILED)
        ice(g->ctx, (Loc){0}, "libNVVM: %s", made->log ? made->log : "no message");
    if (status == NV_NO_MEMORY) ctx_leave(g->ctx, CTX_NO_MEMORY);
    if (status == NV_OK) out->text = ctx_copy(g->ctx, made->data, made->bytes + 1);
    return status;
}

// libNVVM turns unknown intrinsics into undefined functions.
static void check_ptx(Ctx *ctx, const char *ptx) {
    const char *at = strstr(ptx, ".extern .func");
    if (at) ice(ctx, (Loc){0}, "PTX calls a function: %.*s", (int)strcspn(at, ";{"), at);
}

NvStatus nv_compile(Gen *g, const GpuTarget *arch, const NvOptions *o, NvPtx *out) {
    double start = gpu_seconds();
    NvStatus status = NV_OK;
    *out = (NvPtx){.nvvm = by_nvvm(o)};
    module_verify(g);
    portable_check(g->ctx, g->module);
    nv_expand(g, arch);
    out->expand_seconds = gpu_seconds() - start;
    start = gpu_seconds();
    if (out->nvvm)
        status = run_nvvm(g, arch, o, out);
    else
        out->text = nvptx_emit(g, arch);
    out->generate_seconds = gpu_seconds() - start;
    if (status != NV_OK) return status;
    check_ptx(g->ctx, out->text);
    out->text = nv_wrap_abs(g->ctx, out->text);
    out->bytes = strlen(out->text);
    out->version = nv_ptx_version(out->text);
    return NV_OK;
}

/* ---- output of ptxas ----------------------------------------------------------------------- */

/// Returns the number before `what` in a line, for instance "0 bytes spill stores"; 0 if it is
/// absent.
static int number_before(const char *line, size_t len, const char *what) {
    const char *at = memmem(line, len, what, strlen(what));
    if (!at) return 0;
    while (at > line && at[-1] == ' ') at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
    return atoi(at);
}

/// "Compiling entry function 'k' for 'sm_90a'": returns the name between quotes.
static const char *quoted_name(Ctx *ctx, const char *line, size_t len) {
    const char *from = memchr(line, '\'', len);
    if (!from++) return "";
    return ctx_format(ctx, "%.*s", (int)strcspn(from, "'"), from);
}

static bool line_has(const char *line, size_t len, const char *what) {
    return memmem(line, len, what, strlen(what)) != NULL;
}

static void read_ptxas_line(Ctx *ctx, const char *line, size_t len, NvUses *out) {
    if (line_has(line, len, "Compiling entry function")) {
        NvUse use = {.kernel = quoted_name(ctx, line, len)};
        vec_push(ctx, out, use);
    }
    if (line_has(line, len, "C75") || line_has(line, len, "warning"))
        out->notes = ctx_format(ctx, "%s%.*s\n", out->notes ? out->notes : "", (int)len, line);
    NvUse *use = out->n ? &out->data[out->n - 1] : NULL;
    if (!use) return;
    use->spill_bytes += number_before(line, len, "bytes spill stores") +
                        number_before(line, len, "bytes spill loads");
    use->stack_bytes += number_before(line, len, "bytes stack frame");
    use->registers += number_before(line, len, "registers");
    use->barriers += number_before(line, len, "barriers");
    use->shared_bytes += number_before(line, len, "bytes smem");
}

void nv_read_log(Ctx *ctx, const char *log, NvUses *out) {
    *out = (NvUses){0};
    while (log && *log) {
        size_t len = strcspn(log, "\n");
        read_ptxas_line(ctx, log, len, out);
        log += len + (log[len] == '\n');
    }
}
