// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of the compiler as diagnostics of the editor, and their corrections as code actions.
#include "tools/tegula/lsp/lsp.h"

#include "lang/diag.h"
#include "tools/tegula/check_json.h"

#include <string.h>

/* ---- diagnostics --------------------------------------------------------------------------- */

/// The message and its hints.
static const char *full_message(Ctx *ctx, const Diagnostic *d) {
    Text t = {.ctx = ctx};
    text_add(&t, "%s", d->text);
    for (const Diagnostic *f = d->follow; f; f = f->next)
        if (f->severity == SEV_HINT) text_add(&t, "\nhint: %s", f->text);
    return t.data;
}

static json_t *related_notes(Ctx *ctx, const Analysis *a, const Diagnostic *d) {
    json_t *all = json_array();
    for (const Diagnostic *f = d->follow; f; f = f->next) {
        json_t *location =
            f->severity == SEV_NOTE && f->loc.file ? json_location(ctx, a, f->loc) : NULL;
        if (location)
            json_array_append_new(all, json_pack("{s:o,s:s}", "location", location, "message",
                                                 valid_utf8(ctx, f->text)));
    }
    return all;
}

/// The file that the document imports itself, on the way to `path`.
static const char *first_import(const Analysis *a, const char *path) {
    const char *own = ctx_source_path(a->ctx, a->file);
    for (int steps = 0; steps < a->imports.n; steps++) { // imports may form cycles
        const ImportNote *note = NULL;
        for (int i = 0; i < a->imports.n && !note; i++)
            if (strcmp(a->imports.data[i].found, path) == 0) note = &a->imports.data[i];
        if (!note || strcmp(note->from, own) == 0) break;
        path = note->from;
    }
    return path;
}

/// The place in the document: a message about an imported file stands at the import.
static Loc place_in_document(const Analysis *a, const Diagnostic *d) {
    if (d->loc.file == a->file) return d->loc;
    for (const Diagnostic *f = d->follow; f; f = f->next)
        if (f->loc.file == a->file) return f->loc;
    const Module *main = a->program && d->loc.file ? a->program->main : NULL;
    const char *own = ctx_source_path(a->ctx, a->file);
    const char *path = main ? first_import(a, ctx_source_path(a->ctx, d->loc.file)) : NULL;
    for (int i = 0; main && i < main->items.n; i++) {
        const Item *item = &main->items.at[i];
        if (item->kind == IT_IMPORT && strcmp(import_target(a, own, item->import.path), path) == 0)
            return item->import.loc;
    }
    return (Loc){.line = 1, .col = 1, .len = 1, .file = a->file};
}

static json_t *diagnostic_json(Ctx *ctx, const Analysis *a, const Diagnostic *d) {
    enum { ERROR = 1, WARNING = 2, UNNECESSARY = 1 };
    Loc loc = place_in_document(a, d);
    const char *message = full_message(ctx, d);
    if (d->loc.file && d->loc.file != a->file && loc.line != 0)
        message = ctx_format(ctx, "%s:%u: %s", ctx_source_path(a->ctx, d->loc.file), d->loc.line,
                             message);
    json_t *j = json_pack("{s:o,s:i,s:s,s:s,s:s}", "range", json_range_of(&a->map, loc), "severity",
                          d->severity == SEV_ERROR ? ERROR : WARNING, "code", diag_code(ctx, d->id),
                          "source", "tegula", "message", valid_utf8(ctx, message));
    json_t *notes = related_notes(ctx, a, d);
    if (json_array_size(notes)) json_object_set(j, "relatedInformation", notes);
    json_decref(notes);
    if (d->id == D_UNUSED || d->id == D_UNREACHABLE)
        json_object_set_new(j, "tags", json_pack("[i]", UNNECESSARY));
    return j;
}

typedef struct Publication {
    Server *server;
    Document *document;
    Analysis *analysis;
} Publication;

static void publish(Ctx *ctx, void *arg) {
    const Publication *p = arg;
    json_t *all = json_array();
    for (const Diagnostic *d = diag_first(p->analysis->ctx); d; d = d->next)
        json_array_append_new(all, diagnostic_json(ctx, p->analysis, d));
    transport_send(&p->server->transport,
                   json_pack("{s:s,s:s,s:{s:s,s:I,s:o}}", "jsonrpc", "2.0", "method",
                             "textDocument/publishDiagnostics", "params", "uri", p->document->uri,
                             "version", (json_int_t)p->document->version, "diagnostics", all));
}

void publish_diagnostics(Server *s, Document *d) {
    Publication p = {s, d, document_analysis(s, d)};
    Ctx *ctx = p.analysis ? ctx_create(NULL) : NULL;
    d->told = true;
    if (!ctx) return;
    ctx_protect(ctx, publish, &p);
    ctx_destroy(ctx);
}

/* ---- code actions -------------------------------------------------------------------------- */

static const char *fix_title(Ctx *ctx, const Analysis *a, const Diagnostic *d) {
    if (d->severity == SEV_HINT) return d->text;
    size_t begin = map_begin(&a->map, d->place), end = map_end(&a->map, d->place);
    return end > begin ? ctx_format(ctx, "replace '%.*s' by '%s'", (int)(end - begin),
                                    a->map.text + begin, d->fix)
                       : ctx_format(ctx, "insert '%s'", d->fix);
}

static void add_action(const Request *r, json_t *all, const Diagnostic *d, const Diagnostic *fix) {
    const Analysis *a = r->analysis;
    if (!fix->fix || fix->place.file != a->file) return;
    json_t *edit = json_pack("{s:o,s:s}", "range", json_range_of(&a->map, fix->place), "newText",
                             valid_utf8(r->ctx, fix->fix));
    json_array_append_new(all, json_pack("{s:s,s:s,s:[o],s:{s:{s:[o]}}}", "title",
                                         valid_utf8(r->ctx, fix_title(r->ctx, a, fix)), "kind",
                                         "quickfix", "diagnostics", diagnostic_json(r->ctx, a, d),
                                         "edit", "changes", r->document->uri, edit));
}

json_t *lsp_code_actions(Request *r) {
    const Analysis *a = r->analysis;
    Position from, to;
    const json_t *range = json_object_get(r->params, "range");
    if (!json_read_position(json_object_get(range, "start"), &from) ||
        !json_read_position(json_object_get(range, "end"), &to))
        return request_fail(r, RPC_PARAMS, "a range is missing");
    size_t begin = map_offset(&a->map, from), end = map_offset(&a->map, to);
    json_t *all = json_array();
    for (const Diagnostic *d = diag_first(a->ctx); d; d = d->next) {
        Loc loc = place_in_document(a, d);
        if (map_begin(&a->map, loc) > end || map_end(&a->map, loc) < begin) continue;
        add_action(r, all, d, d);
        for (const Diagnostic *f = d->follow; f; f = f->next) add_action(r, all, d, f);
    }
    return all;
}
