// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The source files on the command line.
#include "tools/tegula/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint16_t source_read(Ctx *ctx, const char *path) {
    uint16_t file = source_find(ctx, &(Sources){0}, path);
    if (!file) cli_error("cannot read %s: %s", path, strerror(errno));
    return file;
}

const Importer *option_importer(Ctx *ctx, const Options *o) {
    Sources sources = {.n_paths = o->paths.n, .paths = o->paths.at};
    return source_importer(ctx, ctx_copy(ctx, &sources, sizeof sources));
}

bool file_can_be_written(Ctx *ctx, const char *path) {
    const char *temporary = ctx_format(ctx, "%s.tmp%ld", path, (long)getpid());
    struct stat s;
    bool folder = stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    FILE *f = folder ? NULL : fopen(temporary, "wb");
    if (folder) errno = EISDIR;
    if (!f) cli_error("cannot write %s: %s", path, strerror(errno));
    if (f) remove(temporary);
    return f && fclose(f) == 0;
}

bool file_write(Ctx *ctx, const char *path, const void *data, size_t bytes) {
    const char *temporary = ctx_format(ctx, "%s.tmp%ld", path, (long)getpid());
    FILE *f = fopen(temporary, "wb");
    bool ok = f && fwrite(data, 1, bytes, f) == bytes;
    if (f && fclose(f) != 0) ok = false;
    if (ok && rename(temporary, path) == 0) return true;
    cli_error("cannot write %s: %s", path, strerror(errno));
    if (f) remove(temporary);
    return false;
}
