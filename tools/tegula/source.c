// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Source files that the command line names.
#include "tools/tegula/cli.h"

#include <errno.h>
#include <string.h>

uint16_t source_read(Ctx *ctx, const char *path) {
    uint16_t file = source_find(ctx, &(Sources){0}, path);
    if (!file) cli_error("cannot read %s: %s", path, strerror(errno));
    return file;
}

const Importer *option_importer(Ctx *ctx, const Options *o) {
    Sources sources = {.n_paths = o->paths.n, .paths = o->paths.at};
    return source_importer(ctx, ctx_copy(ctx, &sources, sizeof sources));
}
