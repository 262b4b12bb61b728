// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads any bytes as IR. The parser and the verifier must end with a module or with messages. A
// module that verifies is printed and read again, which must give the same text. Then it is folded,
// and must still verify.
#include "ir/ir.h"

#include <stdlib.h>
#include <string.h>

typedef struct Input {
    const char *text;
    size_t len;
} Input;

static char *print(Ctx *ctx, const Op *op) {
    Text out = {.ctx = ctx};
    ir_print(&out, op, true);
    return out.data;
}

static Op *read_back(Ctx *ctx, Ir *ir, const char *text) {
    Op *module = ir_parse(ir, ctx_add_source(ctx, "printed.tir", text, strlen(text)));
    if (!module || !ir_verify(ir, module)) abort();
    return module;
}

static void round_trip(Ctx *ctx, void *arg) {
    const Input *in = arg;
    Ir *ir = ir_create(ctx);
    Op *module = ir_parse(ir, ctx_add_source(ctx, "fuzz.tir", in->text, in->len));
    if (!module && !diag_errors(ctx)) abort();
    if (!module) return;
    // Any module that parses can be printed, whether or not it verifies.
    char *text = print(ctx, module);
    if (!ir_verify(ir, module)) return;
    if (strcmp(print(ctx, read_back(ctx, ir, text)), text) != 0) abort();
    rewrite_all(ir, module, NULL, 0);
    read_back(ctx, ir, print(ctx, module));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Ctx *ctx = ctx_create(NULL);
    Input in = {(const char *)data, size};
    CtxStatus status = ctx_protect(ctx, round_trip, &in);
    if (status == CTX_BUG || status == CTX_NO_MEMORY) abort();
    if (status == CTX_ERRORS && !diag_first(ctx)) abort();
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) {
        Text out = {.ctx = ctx};
        diag_render(&out, ctx, d, true);
    }
    ctx_destroy(ctx);
    return 0;
}
