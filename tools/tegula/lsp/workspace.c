// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The folders of the workspace, and the search for imports.
#include "tools/tegula/lsp/lsp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- folders of the workspace -----------------------------------------------------------------
 */

static int root_index(const Server *s, const char *path) {
    for (int i = 0; i < s->n_roots; i++)
        if (strcmp(s->roots[i], path) == 0) return i;
    return -1;
}

void workspace_add(Ctx *ctx, Server *s, const char *uri) {
    const char *path = uri_path(ctx, uri);
    if (path[0] != '/' || root_index(s, path) >= 0) return;
    char **all = realloc(s->roots, sizeof *all * (size_t)(s->n_roots + 1));
    if (!all) return;
    s->roots = all;
    all[s->n_roots] = strdup(path);
    if (all[s->n_roots]) s->n_roots++;
}

void workspace_remove(Ctx *ctx, Server *s, const char *uri) {
    int at = root_index(s, uri_path(ctx, uri));
    if (at < 0) return;
    free(s->roots[at]);
    for (s->n_roots--; at < s->n_roots; at++) s->roots[at] = s->roots[at + 1];
}

/// The innermost folder of the workspace around a file, or NULL.
static const char *root_of(const Server *s, const char *file) {
    const char *best = NULL;
    for (int i = 0; i < s->n_roots; i++)
        if (is_below(file, s->roots[i]) && (!best || strlen(s->roots[i]) > strlen(best)))
            best = s->roots[i];
    return best;
}

const char *const *import_folders(Ctx *ctx, const Server *s, const char *file, int *n) {
    const char **all = ctx_array(ctx, const char *, s->n_paths *(s->n_roots + 1) + 1);
    const char *own = root_of(s, file);
    *n = 0;
    for (int i = 0; i < s->n_paths; i++) {
        const char *path = s->paths[i];
        bool relative = path[0] != '/';
        if (relative && own) all[(*n)++] = ctx_format(ctx, "%s/%s", own, path);
        for (int k = 0; relative && k < s->n_roots; k++)
            if (s->roots[k] != own) all[(*n)++] = ctx_format(ctx, "%s/%s", s->roots[k], path);
        all[(*n)++] = canonical_path(ctx, path);
    }
    return all;
}

/* ---- imports ----------------------------------------------------------------------------------
 */

typedef struct Finder {
    Analysis *a;
    const Importer *files;
} Finder;

/// Finds one path in an open document, else in a file. On failure, errno has the reason.
static uint16_t find_candidate(const Finder *f, Ctx *ctx, const char *path, const char *from) {
    const Document *d = document_at(ctx, f->a->server, path);
    const char *real = d ? ctx_format(ctx, "%s", d->real) : canonical_path(ctx, path);
    vec_push(ctx, &f->a->wanted, real);
    return d ? ctx_add_source(ctx, path, d->text, d->n)
             : f->files->find(f->files->user, ctx, path, from);
}

/// On failure, errno is that of the first candidate that exists, or else ENOENT.
static uint16_t find_import(void *user, Ctx *ctx, const char *path, const char *from) {
    const Finder *f = user;
    int n = 0;
    const char *const *folders = import_folders(ctx, f->a->server, from, &n);
    uint16_t file = find_candidate(f, ctx, path_beside(ctx, from, path), from);
    int reason = errno;
    for (int i = 0; i < n && !file && path[0] != '/'; i++) {
        const char *inner = path_beside(ctx, ctx_format(ctx, "%s/", folders[i]), path);
        file = find_candidate(f, ctx, inner, from);
        if (reason == ENOENT) reason = errno;
    }
    if (file) {
        ImportNote note = {from, path, ctx_source_path(ctx, file)};
        vec_push(ctx, &f->a->imports, note);
    }
    errno = reason;
    return file;
}

const char *import_target(const Analysis *a, const char *from, const char *path) {
    for (int i = 0; i < a->imports.n; i++) {
        const ImportNote *note = &a->imports.data[i];
        if (strcmp(note->from, from) == 0 && strcmp(note->path, path) == 0) return note->found;
    }
    return path;
}

const Importer *document_importer(Ctx *ctx, Analysis *a) {
    Finder *f = ctx_new(ctx, Finder);
    f->a = a;
    f->files = source_importer(ctx, ctx_new(ctx, Sources));
    Importer importer = {.find = find_import, .user = f};
    return ctx_copy(ctx, &importer, sizeof importer);
}
