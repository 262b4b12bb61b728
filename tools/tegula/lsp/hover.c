// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hover, definitions, references and highlights: questions about the name at the cursor.
#include "tools/tegula/check_json.h"
#include "tools/tegula/lsp/lsp.h"

#include <string.h>

/* ---- hover --------------------------------------------------------------------------------- */

static const char *const kind_words[] = {
    [NAME_PARAM] = "parameter", [NAME_TYPE_PARAM] = "type", [NAME_DIM] = "dim",
    [NAME_TUNE] = "tune",       [NAME_LET] = "let",         [NAME_VAR] = "var",
    [NAME_SCRATCH] = "scratch", [NAME_INDEX] = "index",
};

static void add_code(Text *t, const char *code) {
    text_add(t, "```tegula\n%s\n```", code);
}

static void add_call_place(Text *t, const Analysis *a, const TypeNote *note) {
    if (note->call.line)
        text_add(t, "\n\nin the call at %sline %u",
                 note->call.file == a->file ? "" : ctx_source_path(a->ctx, note->call.file),
                 note->call.line);
}

/// Whether the text is a value instead of a type: "64", "true".
static bool is_value_text(const char *text) {
    return strchr("-0123456789", *text) || strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
}

/// `let acc: f32<64, 64>`; a type that is written stands in front of the one that was found.
static void hover_local(Text *t, const Analysis *a, const Definition *d) {
    const TypeNote *note = names_type_of(&a->names, d->name.loc);
    Text head = {.ctx = t->ctx};
    text_add(&head, "%s %s", kind_words[d->kind], d->name.text);
    if (d->type) text_add(&head, ": ");
    if (d->type) ast_print_type(&head, d->type);
    if (note && !d->type) text_add(&head, is_value_text(note->text) ? " = %s" : ": %s", note->text);
    add_code(t, head.data);
    if (note && d->type) text_add(t, "\n\n`%s`", note->text);
    if (note) add_call_place(t, a, note);
}

/// `reads a, b; writes c`.
static void add_accesses(Text *t, const Elaborated *code) {
    for (int written = 0; written <= 1; written++) {
        int n = 0;
        for (int i = 0; i < code->n_params; i++) {
            const ParamUse *use = &code->params[i];
            if (use->kind != PARAM_TENSOR || !(written ? use->written : use->read)) continue;
            text_add(t, "%s`%s`", n++ ? ", " : written ? "\n- writes " : "\n- reads ", use->name);
        }
    }
}

/// The facts of the instance that `check` elaborates.
static void add_kernel_facts(Text *t, const Analysis *a, const FnDef *f) {
    const Elaborated *code = NULL;
    for (int i = 0; i < a->names.kernels.n; i++)
        if (a->names.kernels.data[i].kernel == f) code = a->names.kernels.data[i].code;
    if (!code || !code->module) return;
    text_add(t, "\n");
    add_accesses(t, code);
    for (int i = 0; i < code->n_specialised; i++)
        text_add(t, "%s`%s`", i ? ", " : "\n- compiled for one value of ",
                 code->specialised[i].name);
    if (code->n_config)
        text_add(t, "\n- checked with `%s`", settings_text(t->ctx, code->n_config, code->config));
}

static void hover_item(Text *t, const Analysis *a, const Definition *d) {
    add_code(t, definition_head(t->ctx, a, d));
    const char *doc = definition_doc(d);
    if (doc) text_add(t, "\n\n%s", doc);
    if (d->kind == NAME_KERNEL) add_kernel_facts(t, a, d->item->fn);
    if (program_is_library(a->program, d->name.loc.file))
        text_add(t, "\n\n*%s*", ctx_source_path(a->ctx, d->name.loc.file));
}

/// The type of the call whose function stands at this place.
static const TypeNote *type_of_call(const Analysis *a, Loc callee) {
    for (int i = 0; i < a->names.types.n; i++) {
        const TypeNote *note = &a->names.types.data[i];
        if (!note->expr || note->expr->kind != EX_CALL) continue;
        Loc at = note->expr->call.callee->loc;
        if (at.file == callee.file && at.line == callee.line && at.col == callee.col) return note;
    }
    return NULL;
}

static bool hover_name(Text *t, const Analysis *a, const NameAt *at) {
    const BuiltinText *b = at->definition < 0 ? builtin_text(t->ctx, at->name.text) : NULL;
    Elem elem = elem_by_name(at->name.text);
    if (at->definition >= 0) {
        const Definition *d = &a->names.definitions.data[at->definition];
        bool item = d->kind <= NAME_CONSTANT;
        (item ? hover_item : hover_local)(t, a, d);
    } else if (b && !at->option) {
        add_code(t, builtin_head(t->ctx, b));
        text_add(t, "\n\n%s", b->meaning);
    } else if (elem != EL_COUNT) {
        add_code(t, elem_info[elem].name);
        text_add(t, "\n\nelement type, %d bits", elem_info[elem].bits);
    } else {
        return false;
    }
    const TypeNote *call = type_of_call(a, at->name.loc);
    if (call) text_add(t, "\n\nhere: `%s`", call->text);
    return true;
}

static bool hover_expr(Text *t, const Analysis *a, size_t offset) {
    const TypeNote *note = type_at(a, offset);
    if (!note) return false;
    add_code(t, note->text);
    add_call_place(t, a, note);
    return true;
}

/// The function of a call in a statement with an error, which has no names in the tables.
static bool called_name(const Request *r, NameAt *out, size_t *begin, size_t *end) {
    const Analysis *a = r->analysis;
    const char *text = a->map.text;
    Cursor *cursor = ctx_new(r->ctx, Cursor);
    cursor_scan(text, r->offset, cursor);
    *begin = *end = cursor->word;
    while (is_name_byte(text[*end])) (*end)++;
    if (cursor->place != IN_CODE || *begin == *end) return false;
    if (text[*end + strspn(text + *end, " \t\r\n")] != '(') return false;
    *out = (NameAt){.definition = -1};
    out->name.text = ctx_intern(r->ctx, text + *begin, *end - *begin);
    for (int i = 0; a->program && i < a->names.definitions.n && out->definition < 0; i++) {
        const Definition *d = &a->names.definitions.data[i];
        bool item = d->kind <= NAME_FN && strcmp(d->name.text, out->name.text) == 0;
        if (item && program_find(a->program, d->name.text, a->file) == d->item) out->definition = i;
    }
    return out->definition >= 0 || builtin_text(r->ctx, out->name.text);
}

json_t *lsp_hover(Request *r) {
    const Analysis *a = r->analysis;
    Text t = {.ctx = r->ctx};
    NameAt at;
    size_t begin = 0, end = 0;
    bool named = a->program && name_at(a, r->offset, &at) && hover_name(&t, a, &at);
    if (named) {
        begin = map_begin(&a->map, at.name.loc);
        end = map_end(&a->map, at.name.loc);
    } else if (!hover_expr(&t, a, r->offset)) {
        named = called_name(r, &at, &begin, &end) && hover_name(&t, a, &at);
        if (!named) return NULL;
    }
    json_t *hover = json_pack("{s:{s:s,s:s}}", "contents", "kind", "markdown", "value",
                              valid_utf8(r->ctx, t.data));
    if (named) json_object_set_new(hover, "range", json_range(&a->map, begin, end));
    return hover;
}

/* ---- definitions --------------------------------------------------------------------------- */

/// The import at the cursor leads to the start of its file.
static json_t *imported_file(Request *r) {
    const Analysis *a = r->analysis;
    const Module *main = a->program ? a->program->main : NULL;
    for (int i = 0; main && i < main->items.n; i++) {
        const Item *item = &main->items.at[i];
        if (item->kind != IT_IMPORT || map_begin(&a->map, item->import.loc) > r->offset ||
            map_end(&a->map, item->import.loc) < r->offset)
            continue;
        const char *path = import_target(a, ctx_source_path(a->ctx, a->file), item->import.path);
        for (int k = 0; k < a->program->files.n; k++) {
            const LoadedFile *f = &a->program->files.data[k];
            Loc start = {.line = 1, .col = 1, .file = f->module->file};
            if (strcmp(f->path, path) == 0) return json_location(r->ctx, a, start);
        }
    }
    return NULL;
}

json_t *lsp_definition(Request *r) {
    NameAt at;
    if (!name_at(r->analysis, r->offset, &at)) return imported_file(r);
    if (at.definition < 0) return NULL;
    return json_location(r->ctx, r->analysis,
                         r->analysis->names.definitions.data[at.definition].name.loc);
}

/* ---- references ---------------------------------------------------------------------------- */

json_t *lsp_references(Request *r) {
    const Analysis *a = r->analysis;
    NameAt at;
    if (!name_at(a, r->offset, &at)) return NULL;
    json_t *all = json_array();
    const json_t *context = json_object_get(r->params, "context");
    bool itself = json_is_true(json_object_get(context, "includeDeclaration"));
    if (itself && at.definition >= 0)
        json_array_append_new(
            all, json_location(r->ctx, a, a->names.definitions.data[at.definition].name.loc));
    for (int i = 0; i < a->names.uses.n; i++) {
        const NameUse *use = &a->names.uses.data[i];
        if (use->to != at.definition || (use->to < 0 && use->name.text != at.name.text)) continue;
        json_t *location = json_location(r->ctx, a, use->name.loc);
        if (location) json_array_append_new(all, location);
    }
    return all;
}

static void add_highlight(json_t *all, const Analysis *a, Loc loc, bool written) {
    enum { READ = 2, WRITE = 3 };
    if (loc.file == a->file)
        json_array_append_new(all, json_pack("{s:o,s:i}", "range", json_range_of(&a->map, loc),
                                             "kind", written ? WRITE : READ));
}

json_t *lsp_highlight(Request *r) {
    const Analysis *a = r->analysis;
    NameAt at;
    if (!name_at(a, r->offset, &at)) return NULL;
    json_t *all = json_array();
    if (at.definition >= 0)
        add_highlight(all, a, a->names.definitions.data[at.definition].name.loc, true);
    for (int i = 0; i < a->names.uses.n; i++) {
        const NameUse *use = &a->names.uses.data[i];
        if (use->to == at.definition && (use->to >= 0 || use->name.text == at.name.text))
            add_highlight(all, a, use->name.loc, use->written);
    }
    return all;
}
