// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the standard library during a build. The library is embedded as text, so an error in it
// would otherwise appear only with a user's first kernel.
#include "ir/library.h"
#include "driver/driver.h"
#include "lang/diag.h"
#include "stdlib/embedded.h"
#include "tools/tegula-opt/opt.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

typedef struct Library {
    const char *folder;
    VEC(struct tg_embedded) files; // sorted by name; the context owns their texts
} Library;

/* ---- files --------------------------------------------------------------------------------- */

static void release_text(void *text) {
    free(text);
}

static void release_folder(void *folder) {
    closedir(folder);
}

static bool read_file(Ctx *ctx, Library *l, const char *name) {
    const char *path = ctx_format(ctx, "%s/%s", l->folder, name);
    FILE *f = fopen(path, "rb");
    size_t len = 0;
    char *text = f ? read_all(f, &len) : NULL;
    if (f) fclose(f);
    if (!text) {
        diag(ctx, (Loc){0}, D_RUN_FAILED, ctx_format(ctx, "cannot read %s", path));
        return false;
    }
    ctx_defer(ctx, release_text, text);
    struct tg_embedded file = {ctx_format(ctx, "std/%s", name), text, len};
    vec_push(ctx, &l->files, file);
    return true;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct tg_embedded *)a)->path, ((const struct tg_embedded *)b)->path);
}

/// Reads the folder's *.teg files and ends the list. False: diagnosed.
static bool read_files(Ctx *ctx, Library *l) {
    DIR *folder = opendir(l->folder);
    if (folder) ctx_defer(ctx, release_folder, folder);
    for (const struct dirent *d; folder && (d = readdir(folder));) {
        const char *end = strrchr(d->d_name, '.');
        if (end && strcmp(end, ".teg") == 0 && !read_file(ctx, l, d->d_name)) return false;
    }
    if (!l->files.n) {
        const char *text = ctx_format(ctx, "no files of the library in %s", l->folder);
        diag(ctx, (Loc){0}, D_RUN_FAILED, text);
        return false;
    }
    qsort(l->files.data, (size_t)l->files.n, sizeof *l->files.data, by_path);
    vec_push(ctx, &l->files, (struct tg_embedded){0});
    return true;
}

/* ---- ops ----------------------------------------------------------------------------------- */

/// Line numbers of the rows of lang/elementwise.def.
static const int op_lines[OP_COUNT] = {
#define EW(id, ...) [OP_##id] = __LINE__,
#include "lang/elementwise.def"
};

/// Checks that every elementwise op of floats is an instruction of CPUs or a fn of the library, for
/// f32 and f64. Other targets have at least the same instructions, and narrower types go through
/// f32.
static void check_ops(Ctx *ctx) {
    static const Elem elems[] = {EL_F32, EL_F64};
    uint16_t file = ctx_add_source(ctx, "lang/elementwise.def", "", 0);
    for (OpCode op = 0; op < OP_COUNT; op++) {
        if (!(op_info[op].traits & ELEMENTWISE) || !(op_info[op].classes & EC_FLOAT)) continue;
        for (size_t i = 0; i < sizeof elems / sizeof *elems; i++) {
            if (cpu_backend.has_op(op, elems[i]) || library_fn(op, elems[i])) continue;
            Loc loc = {.line = (uint32_t)op_lines[op], .file = file, .col = 1};
            diag(ctx, loc, D_RUN_FAILED,
                 ctx_format(ctx, "nothing computes '%s' of %s", op_info[op].name,
                            elem_info[elems[i]].name));
            diag_hint(ctx, "it needs a row FUNCTIONS in lang/elementwise.def, or a row in "
                           "backends/llvm/elementwise.c");
        }
    }
}

/* ---- the check ----------------------------------------------------------------------------- */

static void check_files(Ctx *ctx, void *arg) {
    Library *l = arg;
    if (!read_files(ctx, l)) return;
    Importer importer = {.library = l->files.data};
    check_ops(ctx);
    if (!fe_check_library(ctx, &importer)) return;
    for (const struct tg_embedded *f = l->files.data; f->path; f++) {
        Program *p = fe_load(ctx, library_source(ctx, &importer, f->path), &importer);
        program_check(ctx, p, false);
    }
    // The library must be free of warnings too.
    if (diag_first(ctx)) ctx_leave(ctx, CTX_ERRORS);
}

int check_library(const char *folder) {
    Library l = {.folder = folder};
    return run_in_context(check_files, NULL, &l);
}
