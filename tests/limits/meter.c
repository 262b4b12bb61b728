// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the counted costs of `tegula check` and `tegula fmt` for a file: "STATUS STEPS BYTES
// FMT_BYTES".
#include "driver/driver.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct Input {
    char *data;
    size_t n;
} Input;

static void check(Ctx *ctx, void *arg) {
    const Input *in = arg;
    Program *p = fe_load(ctx, ctx_add_source(ctx, "nasty.teg", in->data, in->n), NULL);
    if (!diag_errors(ctx)) program_check(ctx, p, false);
}

static void format(Ctx *ctx, void *arg) {
    const Input *in = arg;
    fe_format(ctx, ctx_add_source(ctx, "nasty.teg", in->data, in->n));
}

static bool read_input(const char *path, Input *in) {
    FILE *f = fopen(path, "rb");
    size_t room = 1 << 24;
    in->data = malloc(room);
    if (f && in->data) in->n = fread(in->data, 1, room, f);
    bool ok = f && in->data && in->n < room;
    if (f) fclose(f);
    return ok;
}

int main(int argc, char **argv) {
    Input in = {0};
    if (argc != 2 || !read_input(argv[1], &in)) return 2;
    Ctx *ctx = ctx_create(NULL), *other = ctx_create(NULL);
    if (!ctx || !other) return 2;
    CtxStatus status = ctx_protect(ctx, check, &in);
    ctx_protect(other, format, &in);
    printf("%d %llu %zu %zu\n", (int)status, (unsigned long long)ctx_steps(ctx), ctx_bytes(ctx),
           ctx_bytes(other));
    const Diagnostic *d = diag_first(ctx);
    while (d && d->severity != SEV_ERROR) d = d->next;
    if (d) printf("%s\n", d->text);
    ctx_destroy(ctx);
    ctx_destroy(other);
    free(in.data);
    return 0;
}
