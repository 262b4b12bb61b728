// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads source files from disk or memory, and searches for imported files.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "driver/driver.h"
#include "frontend/program.h"
#include "stdlib/embedded.h"

enum { MAX_BYTES = 16 << 20 };

typedef struct File {
    FILE *f;
    char *text;
} File;

/// Called at the end of the context, even if an error has interrupted the reading.
static void file_release(void *thing) {
    File *file = thing;
    if (file->f) fclose(file->f);
    free(file->text);
}

/// Reads all of f. NULL, with errno, on failure.
static char *read_source_text(FILE *f, size_t *len) {
    size_t cap = 1 << 16, n = 0;
    char *text = malloc(cap);
    while (text) {
        n += fread(text + n, 1, cap - n, f);
        if (n < cap || n > MAX_BYTES) break;
        char *grown = realloc(text, cap *= 2);
        if (!grown) free(text);
        text = grown;
    }
    if (text && (ferror(f) || n > MAX_BYTES)) {
        if (!ferror(f)) errno = EFBIG;
        free(text);
        return NULL;
    }
    *len = n;
    return text;
}

/// Whether it is a regular file; devices and pipes may have no end. errno gets the reason.
static bool is_regular(const char *path) {
    struct stat s;
    if (stat(path, &s)) return false;
    errno = S_ISDIR(s.st_mode) ? EISDIR : EINVAL;
    return S_ISREG(s.st_mode);
}

static uint16_t read_source_file(Ctx *ctx, const char *path, bool is_stdin) {
    File *file = ctx_new(ctx, File);
    ctx_defer(ctx, file_release, file);
    FILE *f = file->f = is_stdin ? stdin : fopen(path, "rb");
    if (!f) return 0;
    size_t len = 0;
    file->text = read_source_text(f, &len);
    file->f = NULL;
    int error = errno;
    if (!is_stdin) fclose(f);
    errno = error;
    if (!file->text) return 0;
    return ctx_add_source(ctx, is_stdin ? "<stdin>" : path, file->text, len);
}

/// Files of the library always exist, and no other file can replace them.
static uint16_t find_text(Ctx *ctx, const Sources *sources, const char *path) {
    for (const struct tg_embedded *f = tg_embedded_files; f->path; f++)
        if (strcmp(f->path, path) == 0) return ctx_add_source(ctx, f->path, f->text, f->len);
    for (int i = 0; i < sources->n_texts; i++) {
        const SourceText *t = &sources->texts[i];
        if (strcmp(t->path, path) == 0) return ctx_add_source(ctx, t->path, t->text, t->length);
    }
    errno = ENOENT;
    return 0;
}

uint16_t source_find(Ctx *ctx, const Sources *sources, const char *path) {
    uint16_t file = find_text(ctx, sources, path);
    return file || sources->closed ? file : read_source_file(ctx, path, strcmp(path, "-") == 0);
}

static uint16_t find_in_folder(Ctx *ctx, const Sources *sources, const char *path) {
    uint16_t file = find_text(ctx, sources, path);
    return file || sources->closed || !is_regular(path) ? file : read_source_file(ctx, path, false);
}

/// On failure, errno is that of the first candidate that exists, or else ENOENT.
static uint16_t find_import(void *user, Ctx *ctx, const char *path, const char *from) {
    const Sources *sources = user;
    const char *slash = strrchr(from, '/');
    int dir = slash && path[0] != '/' ? (int)(slash - from) + 1 : 0;
    uint16_t file = find_in_folder(ctx, sources, ctx_format(ctx, "%.*s%s", dir, from, path));
    int reason = errno;
    for (int i = 0; i < sources->n_paths && !file; i++) {
        file = find_in_folder(ctx, sources, ctx_format(ctx, "%s/%s", sources->paths[i], path));
        if (reason == ENOENT) reason = errno;
    }
    errno = reason;
    return file;
}

Importer *source_importer(Ctx *ctx, const Sources *sources) {
    Importer importer = {.find = find_import, .user = (void *)sources};
    return ctx_copy(ctx, &importer, sizeof importer);
}

int program_texts(Ctx *ctx, const Program *p, SourceText **out) {
    int n = 0;
    *out = ctx_array(ctx, SourceText, p->files.n + 1);
    for (int i = 0; i < p->files.n; i++) {
        uint16_t file = p->files.data[i].module->file;
        SourceText t = {.path = ctx_source_path(ctx, file)};
        t.text = ctx_source_text(ctx, file, &t.length);
        if (!p->files.data[i].library) (*out)[n++] = t;
    }
    return n;
}
