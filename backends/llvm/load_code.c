// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads code that another process made into this one.
#include <stdlib.h>
#include <string.h>

#include "backends/llvm/target.h"

typedef struct CodeLoad {
    Code *code;
    const char *name;
} CodeLoad;

static void load_object_code(Ctx *ctx, void *arg) {
    const CodeLoad *l = arg;
    Gen g = {.ctx = ctx};
    code_load(&g, l->code, l->name);
}

Code *code_from_object(Ctx *ctx, const void *object, size_t bytes, const char *name) {
    CodeLoad l = {calloc(1, sizeof(Code)), name};
    if (l.code) l.code->object = malloc(bytes + 1);
    CtxStatus status = CTX_NO_MEMORY;
    if (l.code && l.code->object) {
        memcpy(l.code->object, object, bytes);
        l.code->object_bytes = bytes;
        status = llvm_protect(ctx, load_object_code, &l);
    }
    if (status == CTX_OK) return l.code;
    code_release(l.code);
    ctx_pass_on(ctx, status);
    return NULL;
}
