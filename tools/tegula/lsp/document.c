// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The open documents, and what their texts mean.
#include "tools/tegula/lsp/lsp.h"

#include "runtime/compiler.h"
#include "stdlib/embedded.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- texts --------------------------------------------------------------------------------- */

Document *document_find(Server *s, const char *uri) {
    for (Document *d = s->documents; d; d = d->next)
        if (strcmp(d->uri, uri) == 0) return d;
    return NULL;
}

const Document *document_at(Ctx *ctx, const Server *s, const char *path) {
    for (const Document *d = s->documents; d; d = d->next)
        if (strcmp(d->path, path) == 0) return d;
    const char *real = s->documents ? canonical_path(ctx, path) : NULL;
    for (const Document *d = s->documents; d; d = d->next)
        if (strcmp(d->real, real) == 0) return d;
    return NULL;
}

static void document_free(Document *d) {
    analysis_free(d->analysis);
    free(d->uri);
    free(d->path);
    free(d->real);
    free(d->text);
    free(d);
}

static Document *new_document(Ctx *ctx, Server *s, const char *uri) {
    const char *path = uri_path(ctx, uri), *real = canonical_path(ctx, path);
    Document *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->uri = strdup(uri);
    d->path = strdup(path);
    d->real = strdup(real);
    if (!d->uri || !d->path || !d->real) {
        document_free(d);
        return NULL;
    }
    d->next = s->documents;
    return s->documents = d;
}

bool document_open(Ctx *ctx, Server *s, const char *uri, const char *text, size_t n,
                   int64_t version) {
    Document *d = document_find(s, uri);
    if (!d) d = new_document(ctx, s, uri);
    if (!d || !document_replace(d, 0, d->n, text, n)) return false;
    d->version = version;
    document_outdated(s, d);
    return true;
}

bool document_replace(Document *d, size_t begin, size_t end, const char *text, size_t n) {
    size_t size = begin + n + (d->n - end);
    char *whole = malloc(size + 1);
    if (!whole) return false;
    if (begin) memcpy(whole, d->text, begin);
    memcpy(whole + begin, text, n);
    if (d->n > end) memcpy(whole + begin + n, d->text + end, d->n - end);
    whole[size] = 0;
    free(d->text);
    d->text = whole;
    d->n = size;
    return true;
}

/// Whether the analysis has read the document, or would do so if it were there. One without a
/// program may have ended before its imports.
static bool depends_on(const Analysis *a, const Document *d) {
    for (int i = 0; i < a->wanted.n; i++)
        if (strcmp(a->wanted.data[i], d->real) == 0) return true;
    return !a->program;
}

static void drop_analysis(Document *d) {
    analysis_free(d->analysis);
    d->analysis = NULL;
    d->told = false;
}

void document_outdated(Server *s, const Document *changed) {
    for (Document *d = s->documents; d; d = d->next)
        if (d == changed || (d->analysis && depends_on(d->analysis, changed))) drop_analysis(d);
}

void documents_outdated(Ctx *ctx, Server *s) {
    for (Document *d = s->documents; d; d = d->next) {
        char *real = strdup(canonical_path(ctx, d->path));
        if (real) {
            free(d->real);
            d->real = real;
        }
        drop_analysis(d);
    }
}

void document_close(Server *s, Document *d) {
    Document **link = &s->documents;
    while (*link != d) link = &(*link)->next;
    *link = d->next;
    document_outdated(s, d);
    document_free(d);
}

/* ---- files of the library -------------------------------------------------------------------- */

/// The folder of copies of the library; its name changes with the library. False: there is no
/// folder for kept files.
static bool library_folder(Ctx *ctx, char **out) {
    char folder[4096];
    uint64_t hash = 0;
    for (const struct tg_embedded *f = tg_embedded_files; f->path; f++)
        for (size_t i = 0; i < f->len; i++) hash = hash * 31 + (unsigned char)f->text[i];
    if (!tg_cache_folder(folder, sizeof folder)) return false;
    *out = ctx_format(ctx, "%s/library-%016llx", folder, (unsigned long long)hash);
    return true;
}

/// Makes the folders of a path, private to the user: the cache refuses a folder that others can
/// write to.
static void make_folders(Ctx *ctx, const char *path) {
    for (const char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/'))
        mkdir(ctx_format(ctx, "%.*s", (int)(s - path), path), 0700);
}

/// Returns the path of the copy of a library file, written if it does not exist; NULL if that
/// fails.
static const char *library_copy(Ctx *ctx, const char *path, const char *text, size_t n) {
    char *folder;
    if (!library_folder(ctx, &folder)) return NULL;
    const char *copy = ctx_format(ctx, "%s/%s", folder, path);
    if (access(copy, R_OK) == 0) return copy;
    make_folders(ctx, copy);
    const char *temporary = ctx_format(ctx, "%s.tmp%ld", copy, (long)getpid());
    FILE *f = fopen(temporary, "wb");
    bool ok = f && fwrite(text, 1, n, f) == n;
    if (f && fclose(f) != 0) ok = false;
    if (ok) ok = chmod(temporary, 0444) == 0 && rename(temporary, copy) == 0;
    if (!ok && f) remove(temporary);
    return ok ? copy : NULL;
}

const char *source_uri(Ctx *ctx, const Analysis *a, uint16_t file) {
    const char *path = ctx_source_path(a->ctx, file);
    if (path[0] == '/' || !a->program || !program_is_library(a->program, file)) {
        const Document *d = document_at(ctx, a->server, path);
        return d ? d->uri : path_uri(ctx, path);
    }
    size_t n;
    const char *text = ctx_source_text(a->ctx, file, &n), *copy = library_copy(ctx, path, text, n);
    return copy ? path_uri(ctx, copy) : NULL;
}

/// Returns the library's name of a copy of one of its files, or the path.
static const char *library_name(Ctx *ctx, const char *path) {
    char *folder;
    const char *name = strstr(path, "/library-");
    if (!name || !library_folder(ctx, &folder)) return path;
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

/* ---- analyses ------------------------------------------------------------------------------ */

typedef struct AnalysisRequest {
    Analysis *a;
    const char *path, *text;
    size_t n;
    bool with_types;
} AnalysisRequest;

static uint16_t add_document_source(Ctx *ctx, const AnalysisRequest *r, const Importer *importer) {
    const char *name = library_name(ctx, r->path);
    uint16_t file = name == r->path ? 0 : library_source(ctx, importer, name);
    return file ? file : ctx_add_source(ctx, r->path, r->text, r->n);
}

static void analyse_text(Ctx *ctx, void *arg) {
    AnalysisRequest *r = arg;
    Analysis *a = r->a;
    const Importer *importer = document_importer(ctx, a);
    a->file = add_document_source(ctx, r, importer);
    size_t n;
    const char *text = ctx_source_text(ctx, a->file, &n);
    text_map(ctx, &a->map, text, n);
    a->program = fe_load_names(ctx, a->file, importer, &a->names);
    if (!r->with_types) return;
    if (!diag_errors(ctx)) a->budget = program_check_kernels(ctx, a->program, false);
    if (a->program->broken) program_note_types(ctx, a->program);
}

Analysis *analysis_create(const Server *s, const char *path, const char *text, size_t n,
                          bool with_types) {
    Analysis *a = calloc(1, sizeof *a);
    if (a) a->ctx = ctx_create(NULL);
    if (!a || !a->ctx) {
        free(a);
        return NULL;
    }
    a->server = s;
    AnalysisRequest r = {a, path, text, n, with_types};
    a->status = ctx_protect(a->ctx, analyse_text, &r);
    if (a->status == CTX_NO_MEMORY || a->status == CTX_BUG) a->program = NULL;
    return a;
}

static void try_types(Ctx *ctx, void *arg) {
    Analysis *a = arg;
    program_check_types(ctx, a->program, a->typed++, a->budget);
}

bool analysis_try_types(Analysis *a, bool *found) {
    *found = false;
    if (a->status != CTX_OK || diag_errors(a->ctx) || a->typed >= fe_kernel_count(a->program))
        return false;
    DiagMark before = diag_mark(a->ctx);
    a->status = ctx_protect(a->ctx, try_types, a);
    *found = diag_mark(a->ctx).last != before.last;
    return true;
}

void analysis_free(Analysis *a) {
    if (a) ctx_destroy(a->ctx);
    free(a);
}

Analysis *document_analysis(Server *s, Document *d) {
    if (!d->analysis) d->analysis = analysis_create(s, d->path, d->text, d->n, true);
    return d->analysis;
}
