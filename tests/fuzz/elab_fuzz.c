// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elaborates the kernels of any program. The result must be messages, or IR that verifies.
#include "frontend/frontend.h"

#include <stdlib.h>

typedef struct Input {
    const char *text;
    size_t len;
} Input;

enum { MAX_CONFIGS = 8 };

static void elaborate(Ctx *ctx, const Program *p, const FnDef *kernel) {
    Ir *ir = ir_create(ctx);
    int before = diag_errors(ctx);
    Inst *inst = fe_default_inst(ctx, p, kernel);
    Configs configs = {0};
    fe_configs(ctx, p, inst, MAX_CONFIGS, &configs);
    Elaborated *code = fe_elaborate(ir, p, inst);
    if (code->module && !ir_verify(ir, code->module)) abort();
    if (!code->module && diag_errors(ctx) == before) abort();
}

static void all_kernels(Ctx *ctx, void *arg) {
    const Input *in = arg;
    uint16_t file = ctx_add_source(ctx, "fuzz.teg", in->text, in->len);
    Program *p = fe_load(ctx, file, NULL);
    for (int i = 0; i < fe_kernel_count(p) && !diag_errors(ctx); i++)
        elaborate(ctx, p, fe_kernel(p, i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Ctx *ctx = ctx_create(NULL);
    Input in = {(const char *)data, size};
    CtxStatus status = ctx_protect(ctx, all_kernels, &in);
    if (status == CTX_BUG || (status == CTX_ERRORS && !diag_first(ctx))) abort();
    ctx_destroy(ctx);
    return 0;
}
