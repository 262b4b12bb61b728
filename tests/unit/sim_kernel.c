// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for tests of the simulator: sim_kernel.h.
#include "sim_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- building blocks ----------------------------------------------------------------------- */

LLVMValueRef sim_i32(const SimKernel *k, int64_t v) {
    return LLVMConstInt(k->g->i32, (uint64_t)v, true);
}

LLVMValueRef sim_at(const SimKernel *k, LLVMValueRef p, LLVMValueRef bytes) {
    return LLVMBuildGEP2(k->g->b, k->g->i8, p, &bytes, 1, "");
}

LLVMValueRef sim_load(const SimKernel *k, LLVMTypeRef type, LLVMValueRef p, LLVMValueRef bytes) {
    return LLVMBuildLoad2(k->g->b, type, sim_at(k, p, bytes), "");
}

void sim_store(const SimKernel *k, LLVMValueRef v, LLVMValueRef p, LLVMValueRef bytes) {
    LLVMBuildStore(k->g->b, v, sim_at(k, p, bytes));
}

LLVMValueRef sim_add(const SimKernel *k, LLVMValueRef x, int64_t y) {
    return LLVMBuildAdd(k->g->b, x, LLVMConstInt(LLVMTypeOf(x), (uint64_t)y, true), "");
}

LLVMValueRef sim_mul(const SimKernel *k, LLVMValueRef x, int64_t y) {
    return LLVMBuildMul(k->g->b, x, LLVMConstInt(LLVMTypeOf(x), (uint64_t)y, true), "");
}

LLVMValueRef sim_call(const SimKernel *k, const char *name, int n, LLVMValueRef *args) {
    return portable_call(k->g, name, n, args);
}

LLVMValueRef sim_result(const SimKernel *k, LLVMValueRef v, int n, int i) {
    return n == 1 ? v : LLVMBuildExtractValue(k->g->b, v, (unsigned)i, "");
}

/* ---- compiling and running ------------------------------------------------------------------- */

typedef struct Job {
    const SimCase *c;
    SimImage *image;
} Job;

static void set(const SimKernel *k, const char *name, const char *value) {
    LLVMAddAttributeAtIndex(k->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(k->g->llvm, name, (unsigned)strlen(name),
                                                      value, (unsigned)strlen(value)));
}

static void compile(Ctx *ctx, void *arg) {
    Job *job = arg;
    SimKernel k = {.g = gen_create(ctx, "test")};
    LLVMTypeRef params[8];
    for (int i = 0; i < 8; i++) params[i] = LLVMPointerTypeInContext(k.g->llvm, 1);
    params[7] = k.g->ptr;
    k.fn = LLVMAddFunction(k.g->module, "k", LLVMFunctionType(k.g->void_, params, 8, false));
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5);
    LLVMAddAttributeAtIndex(
        k.fn, 8,
        LLVMCreateTypeAttribute(k.g->llvm, byval,
                                LLVMArrayType2(LLVMInt8TypeInContext(k.g->llvm), 128)));
    set(&k, "tg.maxntid", ctx_format(ctx, "%d,1,1", job->c->threads));
    for (unsigned i = 0; i < 8; i++) k.params[i] = LLVMGetParam(k.fn, i);
    LLVMPositionBuilderAtEnd(k.g->b, LLVMAppendBasicBlockInContext(k.g->llvm, k.fn, ""));
    k.thread = sim_call(&k, "tg.thread.id.x", 0, NULL);
    k.shared = sim_call(&k, "tg.shared.base", 0, NULL);
    k.base = sim_call(&k, "tg.shared.addr", 1, &k.shared);
    job->c->build(&k, job->c->arg);
    LLVMBuildRetVoid(k.g->b);
    job->image = sim_compile(k.g, job->c->target, job->c->check);
}

bool sim_case_run(const SimCase *c, SimFailure *failure) {
    Job job = {c, NULL};
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = llvm_protect(ctx, compile, &job);
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) fprintf(stderr, "%s\n", d->text);
    ctx_destroy(ctx);
    if (status != CTX_OK) return false;
    const void *values[8] = {NULL};
    void *args[8];
    for (int i = 0; i < 8; i++) {
        if (i < c->n_buffers) values[i] = c->buffers[i].base;
        args[i] = &values[i];
    }
    if (c->map) args[7] = (void *)(uintptr_t)c->map;
    SimRun run = {.args = args, .shared_bytes = c->shared_bytes, .seed = sim_seed()};
    if (c->check) {
        run.buffers = c->buffers;
        run.n_buffers = c->n_buffers;
    }
    bool good = sim_run(job.image, 0, &run, failure);
    if (good) good = sim_run(job.image, 0, &run, failure); // the first run's machine again
    sim_image_free(job.image);
    return good;
}

/* ---- names of a row ------------------------------------------------------------------------ */

/// The text in a name for alternative `pick` of the capture at s, "<k:...>"; false beyond the last.
/// A range offers its ends.
static bool alternative(const char *s, int pick, char *text, char *value) {
    for (const char *alt = s + 3;; alt++) {
        size_t len = strcspn(alt, "|>"), name = strcspn(alt, "=|>");
        const char *dots = memmem(alt, len, "..", 2);
        if (dots && *alt >= '0' && *alt <= '9') {
            if (pick < 2) {
                snprintf(text, 32, "%ld", strtol(pick ? dots + 2 : alt, NULL, 10));
                snprintf(value, 32, "%s", text);
                return true;
            }
            pick -= 2;
        } else if (pick-- == 0) {
            size_t skip = name < len ? name + 1 : 0;
            snprintf(text, 32, "%.*s", (int)name, alt);
            snprintf(value, 32, "%.*s", (int)(len - skip), alt + skip);
            return true;
        }
        alt += len;
        if (*alt == '>') return false;
    }
}

bool sim_row_name(const FnRow *row, int which, int pick, char *name) {
    char values[128][32] = {{0}}, text[32], value[32];
    int seen = 0;
    char *end = name + sprintf(name, "tg.");
    for (const char *s = row->name; *s;) {
        if (*s != '<') {
            *end++ = *s++;
        } else if (s[2] == '>') {
            end += sprintf(end, "%s", values[(int)s[1]]);
            s += 3;
        } else {
            if (!alternative(s, seen == which ? pick : 0, text, value)) return false;
            memcpy(values[(int)s[1]], value, sizeof value);
            end += sprintf(end, "%s", text);
            seen++;
            s = strchr(s, '>') + 1;
        }
    }
    *end = 0;
    return seen > which || (which == 0 && pick == 0);
}
