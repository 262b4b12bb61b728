// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses any bytes. The parser must end with a tree or with messages. A valid source is printed,
// formatted and parsed again, which must give the same tree and text.
#include "frontend/frontend.h"

#include <stdlib.h>
#include <string.h>

typedef struct Input {
    const char *text;
    size_t len;
} Input;

static char *print(Ctx *ctx, uint16_t file) {
    Text out = {.ctx = ctx};
    ast_print(&out, fe_parse(ctx, file));
    return out.data;
}

static void round_trip(Ctx *ctx, void *arg) {
    const Input *in = arg;
    uint16_t file = ctx_add_source(ctx, "fuzz.teg", in->text, in->len);
    char *tree = print(ctx, file);
    if (diag_errors(ctx)) return;
    char *text = fe_format(ctx, file);
    uint16_t again = ctx_add_source(ctx, "formatted.teg", text, strlen(text));
    char *second = print(ctx, again);
    // A formatted text has no errors, gives the same tree, and does not change when formatted
    // again.
    if (diag_errors(ctx) || strcmp(tree, second) != 0) abort();
    if (strcmp(fe_format(ctx, again), text) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Ctx *ctx = ctx_create(NULL);
    Input in = {(const char *)data, size};
    CtxStatus status = ctx_protect(ctx, round_trip, &in);
    if (status == CTX_BUG || (status == CTX_ERRORS && !diag_first(ctx))) abort();
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) {
        Text out = {.ctx = ctx};
        diag_render(&out, ctx, d, true);
    }
    ctx_destroy(ctx);
    return 0;
}
