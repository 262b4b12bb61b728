// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Renaming. The new texts are analysed before they are offered: every name must have the same
// definition as before, and no message may be new. So a rename that would capture a name, or be
// captured, is refused, whatever the rules of scopes are.
#include "tools/tegula/lsp/lsp.h"

#include "lang/diag.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the new name -------------------------------------------------------------------------- */

static bool is_keyword(const char *name) {
    static const char *const words[] = {
#define KEYWORD(id, word) word,
#include "lang/keywords.def"
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], name) == 0) return true;
    return false;
}

static bool is_name(const char *name) {
    enum { MAX_NAME = 255 };
    size_t n = strlen(name);
    if (!n || n > MAX_NAME || strchr("0123456789", *name)) return false;
    for (size_t i = 0; i < n; i++)
        if (!is_name_byte(name[i])) return false;
    return true;
}

/* ---- what can be renamed ------------------------------------------------------------------- */

/// Finds the definition at the cursor. Returns NULL, and fails the request, if it has a fixed name.
static const Definition *renamed_definition(Request *r, NameAt *at) {
    const Analysis *a = r->analysis;
    if (!name_at(a, r->offset, at)) return NULL;
    if (!a->program || at->definition < 0) {
        request_fail(r, RPC_REQUEST_FAILED, "this name belongs to the language");
        return NULL;
    }
    const Definition *d = &a->names.definitions.data[at->definition];
    if (program_is_library(a->program, d->name.loc.file) || d->name.loc.file != a->file) {
        request_fail(r, RPC_REQUEST_FAILED,
                     program_is_library(a->program, d->name.loc.file)
                         ? "this name belongs to the library"
                         : "rename it in the file that defines it");
        return NULL;
    }
    if (a->program->broken) {
        request_fail(r, RPC_REQUEST_FAILED, "the file has errors: correct them first");
        return NULL;
    }
    return d;
}

json_t *lsp_prepare_rename(Request *r) {
    NameAt at;
    if (!renamed_definition(r, &at)) return NULL;
    return json_pack("{s:o,s:s}", "range", json_range_of(&r->analysis->map, at.name.loc),
                     "placeholder", at.name.text);
}

/* ---- edits --------------------------------------------------------------------------------- */

typedef VEC(Loc) Places;

/// The definition and its uses within one file, in the order of the text, each place once.
static void places_in_file(Ctx *ctx, const NameTable *names, int definition, uint16_t file,
                           Places *out) {
    Loc own = names->definitions.data[definition].name.loc;
    if (own.file == file) vec_push(ctx, out, own);
    for (int i = 0; i < names->uses.n; i++) {
        Loc loc = names->uses.data[i].name.loc;
        if (names->uses.data[i].to == definition && loc.file == file) vec_push(ctx, out, loc);
    }
    for (int i = 1; i < out->n; i++) // few, and mostly in order
        for (int k = i; k > 0; k--) {
            Loc x = out->data[k - 1], y = out->data[k];
            if (x.line < y.line || (x.line == y.line && x.col <= y.col)) break;
            out->data[k - 1] = y;
            out->data[k] = x;
        }
    int n = 0;
    for (int i = 0; i < out->n; i++) { // a name that is noted twice has one edit
        const Loc *last = n ? &out->data[n - 1] : NULL, *next = &out->data[i];
        if (!last || last->line != next->line || last->col != next->col) out->data[n++] = *next;
    }
    out->n = n;
}

/// The text of a file with other names at these places.
static const char *renamed_text(Ctx *ctx, const TextMap *map, const Places *places,
                                const char *name) {
    Text t = {.ctx = ctx};
    size_t at = 0;
    for (int i = 0; i < places->n; i++) {
        size_t begin = map_begin(map, places->data[i]);
        text_bytes(&t, map->text + at, begin - at);
        text_add(&t, "%s", name);
        at = map_end(map, places->data[i]);
    }
    text_bytes(&t, map->text + at, map->n - at);
    return t.data;
}

static json_t *text_edits(const TextMap *map, const Places *places, const char *name) {
    json_t *edits = json_array();
    for (int i = 0; i < places->n; i++)
        json_array_append_new(
            edits,
            json_pack("{s:o,s:s}", "range", json_range_of(map, places->data[i]), "newText", name));
    return edits;
}

/* ---- is it the same program? --------------------------------------------------------------- */

static int count_messages(const Analysis *a) {
    int n = 0;
    for (const Diagnostic *d = diag_first(a->ctx); d; d = d->next) n++;
    return n;
}

/// Finds why the meaning has changed; NULL: it has not. Analyses visit a text in one order, so the
/// numbers of definitions and uses agree.
static const char *changed_meaning(Ctx *ctx, const Analysis *old, const Analysis *new) {
    if (!new || !new->program) return "the file cannot be analysed with this name";
    if (count_messages(new) != count_messages(old))
        for (const Diagnostic *d = diag_first(new->ctx); d; d = d->next)
            if (d->id == D_HIDES || d->id == D_DEFINED_TWICE || d->severity == SEV_ERROR)
                return ctx_format(ctx, "line %u: %s", d->loc.line, d->text);
    bool same = new->names.uses.n == old->names.uses.n &&new->names.definitions.n ==
                old->names.definitions.n &&count_messages(new) == count_messages(old);
    for (int i = 0; same && i < old->names.uses.n; i++)
        if (new->names.uses.data[i].to != old->names.uses.data[i].to)
            return ctx_format(ctx, "line %u: '%s' would mean something else",
                              new->names.uses.data[i].name.loc.line,
                              new->names.uses.data[i].name.text);
    return same ? NULL : "another name would change its meaning";
}

/* ---- other files --------------------------------------------------------------------------- */

typedef struct Rename {
    Request *r;
    const char *old, *name;
    Loc defined;
    json_t *changes;
    const char *refusal;
    int n_files;
    PtrMap visited; // canonical paths
} Rename;

/// A file that may import the renamed definition: analyses it, and adds its edits.
static void rename_in_importer(Rename *n, const char *path, const char *text, size_t length) {
    Request *r = n->r;
    Server *s = r->server;
    Analysis *before = analysis_create(s, path, text, length, false);
    Analysis *after = NULL;
    int definition = -1;
    for (int i = 0; before && before->program && i < before->names.definitions.n; i++) {
        const Definition *d = &before->names.definitions.data[i];
        Loc loc = d->name.loc;
        if (loc.line == n->defined.line && loc.col == n->defined.col && d->kind <= NAME_CONSTANT &&
            document_at(r->ctx, s, ctx_source_path(before->ctx, loc.file)) == r->document)
            definition = i;
    }
    Places places = {0};
    if (definition >= 0) places_in_file(r->ctx, &before->names, definition, before->file, &places);
    if (definition >= 0) {
        const char *new = renamed_text(r->ctx, &before->map, &places, n->name);
        char *own = r->document->text;
        size_t own_n = r->document->n;
        Places in_own = {0};
        places_in_file(r->ctx, &r->analysis->names,
                       names_definition_at(&r->analysis->names, n->defined), r->analysis->file,
                       &in_own);
        const char *own_new = renamed_text(r->ctx, &r->analysis->map, &in_own, n->name);
        r->document->text = (char *)own_new; // imports see the open document
        r->document->n = strlen(own_new);
        after = analysis_create(s, path, new, strlen(new), false);
        r->document->text = own;
        r->document->n = own_n;
        const char *why = changed_meaning(r->ctx, before, after);
        if (why) n->refusal = ctx_format(r->ctx, "in %s, %s", path, why);
        if (places.n)
            json_object_set_new(n->changes, source_uri(r->ctx, before, before->file),
                                text_edits(&before->map, &places, n->name));
    }
    analysis_free(before);
    analysis_free(after);
}

static void rename_in_file(Rename *n, const char *path) {
    const char *real = ctx_name(n->r->ctx, canonical_path(n->r->ctx, path));
    if (map_get(&n->visited, real)) return;
    map_set(n->r->ctx, &n->visited, real, (void *)real);
    const Document *open = document_at(n->r->ctx, n->r->server, path);
    if (strcmp(real, n->r->document->real) == 0) return;
    Ctx *ctx = ctx_create(NULL);
    if (!ctx) return;
    size_t length = open ? open->n : 0;
    const char *text = open ? open->text : NULL;
    uint16_t file = open ? 0 : source_find(ctx, &(Sources){0}, path);
    if (file) text = ctx_source_text(ctx, file, &length);
    if (text && strstr(text, "import") && strstr(text, n->old))
        rename_in_importer(n, path, text, length);
    ctx_destroy(ctx);
}

/// Visits the source files of a folder and its subfolders.
static void rename_in_folder(Rename *n, const char *path, int depth) {
    enum { MAX_FILES = 5000, MAX_FOLDERS = 12 };
    DIR *folder = depth < MAX_FOLDERS ? opendir(path) : NULL;
    for (const struct dirent *e; folder && (e = readdir(folder)) != NULL;) {
        if (e->d_name[0] == '.' || n->refusal) continue;
        const char *inner = ctx_format(n->r->ctx, "%s/%s", path, e->d_name);
        struct stat info;
        size_t length = strlen(inner);
        if (lstat(inner, &info) != 0) continue;
        if (S_ISDIR(info.st_mode)) rename_in_folder(n, inner, depth + 1);
        if (!S_ISREG(info.st_mode) || length <= 4 || strcmp(inner + length - 4, ".teg") != 0)
            continue;
        if (++n->n_files > MAX_FILES)
            n->refusal = "the workspace has too many files to search for uses";
        else
            rename_in_file(n, inner);
    }
    if (folder) closedir(folder);
}

/// Visits all folders of the workspace, and the open documents outside of them.
static void rename_elsewhere(Rename *n) {
    const Server *s = n->r->server;
    for (int i = 0; i < s->n_roots && !n->refusal; i++) rename_in_folder(n, s->roots[i], 0);
    for (const Document *d = s->documents; d && !n->refusal; d = d->next)
        rename_in_file(n, d->path);
}

/* ---- the request --------------------------------------------------------------------------- */

json_t *lsp_rename(Request *r) {
    const char *name = json_string_value(json_object_get(r->params, "newName"));
    const Analysis *a = r->analysis;
    NameAt at;
    if (!name || !is_name(name)) return request_fail(r, RPC_PARAMS, "this is not a name");
    if (is_keyword(name))
        return request_fail(r, RPC_REQUEST_FAILED,
                            ctx_format(r->ctx, "'%s' is a reserved word", name));
    const Definition *d = renamed_definition(r, &at);
    if (!d) return NULL;
    Places places = {0};
    places_in_file(r->ctx, &a->names, at.definition, a->file, &places);
    const char *text = renamed_text(r->ctx, &a->map, &places, name);
    Analysis *before = analysis_create(r->server, r->document->path, a->map.text, a->map.n, false);
    Analysis *after =
        before ? analysis_create(r->server, r->document->path, text, strlen(text), false) : NULL;
    const char *why = before ? changed_meaning(r->ctx, before, after) : "out of memory";
    analysis_free(before);
    analysis_free(after);
    Rename n = {.r = r,
                .old = d->name.text,
                .name = name,
                .defined = d->name.loc,
                .refusal = why,
                .changes = json_object()};
    json_object_set_new(n.changes, r->document->uri, text_edits(&a->map, &places, name));
    if (!why && d->kind <= NAME_CONSTANT) rename_elsewhere(&n);
    if (!n.refusal) return json_pack("{s:o}", "changes", n.changes);
    json_decref(n.changes);
    return request_fail(r, RPC_REQUEST_FAILED, n.refusal);
}
