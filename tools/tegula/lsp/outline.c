// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts about a whole document: symbols, inlay hints, semantic tokens, formatting.
#include "tools/tegula/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

/* ---- symbols ------------------------------------------------------------------------------- */

json_t *lsp_symbols(Request *r) {
    enum { FUNCTION = 12, CONSTANT = 14, CLASS = 5 };
    const Analysis *a = r->analysis;
    json_t *all = json_array();
    for (int i = 0; i < a->names.definitions.n; i++) {
        const Definition *d = &a->names.definitions.data[i];
        if (d->kind > NAME_CONSTANT || d->name.loc.file != a->file) continue;
        const FnDef *f = d->item->kind == IT_FN ? d->item->fn : NULL;
        size_t begin = map_begin(&a->map, f ? f->loc : d->item->loc);
        size_t end = f ? map_end(&a->map, f->body->block.end) : map_end(&a->map, d->name.loc);
        if (end < map_end(&a->map, d->name.loc)) end = map_end(&a->map, d->name.loc);
        json_array_append_new(all,
                              json_pack("{s:s,s:s,s:i,s:o,s:o}", "name", d->name.text, "detail",
                                        f ? f->is_kernel ? "kernel" : "fn" : "const", "kind",
                                        f ? f->is_kernel ? CLASS : FUNCTION : CONSTANT, "range",
                                        json_range(&a->map, begin, end), "selectionRange",
                                        json_range_of(&a->map, d->name.loc)));
    }
    return all;
}

/* ---- inlay hints --------------------------------------------------------------------------- */

/// The text behind a name: a type or, for constants, a value. NULL: the source says it.
static const char *hint_text(Ctx *ctx, const Analysis *a, const Definition *d) {
    const TypeNote *note = names_type_of(&a->names, d->name.loc);
    bool bound = d->kind == NAME_LET || d->kind == NAME_VAR || d->kind == NAME_INDEX;
    if (!note || !bound || d->type || strchr(note->text, '?')) return NULL;
    bool value = strchr("-0123456789tf", *note->text) &&
                 (strchr("-0123456789", *note->text) || strcmp(note->text, "true") == 0 ||
                  strcmp(note->text, "false") == 0);
    return ctx_format(ctx, value ? " = %s" : ": %s", note->text);
}

json_t *lsp_inlay_hints(Request *r) {
    enum { TYPE = 1 };
    const Analysis *a = r->analysis;
    Position from = {0, 0}, to = {INT32_MAX, 0};
    const json_t *range = json_object_get(r->params, "range");
    json_read_position(json_object_get(range, "start"), &from);
    json_read_position(json_object_get(range, "end"), &to);
    size_t begin = map_offset(&a->map, from), end = map_offset(&a->map, to);
    json_t *all = json_array();
    for (int i = 0; i < a->names.definitions.n; i++) {
        const Definition *d = &a->names.definitions.data[i];
        if (d->name.loc.file != a->file) continue;
        size_t at = map_end(&a->map, d->name.loc);
        const char *text = at >= begin && at <= end ? hint_text(r->ctx, a, d) : NULL;
        if (text)
            json_array_append_new(all, json_pack("{s:o,s:s,s:i}", "position",
                                                 json_position(map_position(&a->map, at)), "label",
                                                 text, "kind", TYPE));
    }
    return all;
}

/* ---- semantic tokens ----------------------------------------------------------------------- */

enum TokenType {
    TOKEN_FUNCTION,
    TOKEN_VARIABLE,
    TOKEN_PARAMETER,
    TOKEN_TYPE,
    TOKEN_TYPE_PARAM,
    TOKEN_PROPERTY
};
enum TokenModifier { MOD_DEFINITION = 1, MOD_READONLY = 2, MOD_LIBRARY = 4, MOD_MODIFICATION = 8 };

json_t *token_legend(void) {
    return json_pack("{s:[s,s,s,s,s,s],s:[s,s,s,s]}", "tokenTypes", "function", "variable",
                     "parameter", "type", "typeParameter", "property", "tokenModifiers",
                     "definition", "readonly", "defaultLibrary", "modification");
}

typedef struct SemanticToken {
    size_t begin, end;
    int type, modifiers;
} SemanticToken;

static SemanticToken token_of_definition(const Analysis *a, const Definition *d) {
    SemanticToken t = {.type = TOKEN_VARIABLE};
    if (d->kind == NAME_KERNEL || d->kind == NAME_FN) t.type = TOKEN_FUNCTION;
    if (d->kind == NAME_PARAM) t.type = TOKEN_PARAMETER;
    if (d->kind == NAME_TYPE_PARAM) t.type = TOKEN_TYPE_PARAM;
    if (d->kind != NAME_VAR && t.type == TOKEN_VARIABLE) t.modifiers = MOD_READONLY;
    if (a->program && d->kind <= NAME_CONSTANT && program_is_library(a->program, d->name.loc.file))
        t.modifiers |= MOD_LIBRARY;
    return t;
}

static SemanticToken token_of_use(Ctx *ctx, const Analysis *a, const NameUse *use) {
    SemanticToken t = {.type = TOKEN_PROPERTY};
    if (use->option) return t;
    if (use->to >= 0) {
        t = token_of_definition(a, &a->names.definitions.data[use->to]);
        t.modifiers |= use->written ? MOD_MODIFICATION : 0;
    } else {
        bool elem = elem_by_name(use->name.text) != EL_COUNT;
        bool function = !elem && builtin_text(ctx, use->name.text);
        t.type = elem ? TOKEN_TYPE : function ? TOKEN_FUNCTION : TOKEN_VARIABLE;
        t.modifiers = MOD_LIBRARY;
    }
    return t;
}

static int compare_tokens(const void *x, const void *y) {
    const SemanticToken *a = x, *b = y;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

typedef VEC(SemanticToken) SemanticTokens;

static void collect_tokens(Ctx *ctx, const Analysis *a, SemanticTokens *out) {
    for (int i = 0; i < a->names.definitions.n; i++) {
        const Definition *d = &a->names.definitions.data[i];
        if (d->name.loc.file != a->file) continue;
        SemanticToken t = token_of_definition(a, d);
        t.modifiers |= MOD_DEFINITION;
        t.begin = map_begin(&a->map, d->name.loc);
        t.end = map_end(&a->map, d->name.loc);
        vec_push(ctx, out, t);
    }
    for (int i = 0; i < a->names.uses.n; i++) {
        const NameUse *use = &a->names.uses.data[i];
        if (use->name.loc.file != a->file) continue;
        SemanticToken t = token_of_use(ctx, a, use);
        t.begin = map_begin(&a->map, use->name.loc);
        t.end = map_end(&a->map, use->name.loc);
        vec_push(ctx, out, t);
    }
    if (out->n) qsort(out->data, (size_t)out->n, sizeof *out->data, compare_tokens);
}

json_t *lsp_tokens(Request *r) {
    const Analysis *a = r->analysis;
    SemanticTokens tokens = {0};
    collect_tokens(r->ctx, a, &tokens);
    json_t *data = json_array();
    Position last = {0, 0};
    size_t end = 0;
    for (int i = 0; i < tokens.n; i++) {
        const SemanticToken *t = &tokens.data[i];
        if (t->end <= t->begin || (i && t->begin < end)) continue; // the second of two
        Position p = map_position(&a->map, t->begin);
        int64_t units = (int64_t)(t->end - t->begin); // names are ASCII
        int64_t numbers[] = {p.line - last.line,
                             p.line == last.line ? p.character - last.character : p.character,
                             units, t->type, t->modifiers};
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            json_array_append_new(data, json_integer(numbers[k]));
        last = p;
        end = t->end;
    }
    return json_pack("{s:o}", "data", data);
}

/* ---- formatting ---------------------------------------------------------------------------- */

typedef struct Formatting {
    const Document *document;
    char *text;
} Formatting;

static void format_text(Ctx *ctx, void *arg) {
    Formatting *f = arg;
    uint16_t file = ctx_add_source(ctx, f->document->path, f->document->text, f->document->n);
    f->text = fe_format(ctx, file);
}

/// One edit of the lines that differ. A text with errors stays as it is.
json_t *lsp_format(Request *r) {
    const Document *d = r->document;
    Formatting f = {.document = d};
    Ctx *ctx = ctx_create(NULL);
    if (!ctx) return NULL;
    ctx_protect(ctx, format_text, &f);
    json_t *edits = NULL;
    if (f.text) {
        size_t n = strlen(f.text), begin = 0, end = 0;
        while (begin < n && begin < d->n && f.text[begin] == d->text[begin]) begin++;
        while (begin && f.text[begin - 1] != '\n') begin--;
        while (end < n - begin && end < d->n - begin &&
               f.text[n - end - 1] == d->text[d->n - end - 1])
            end++;
        while (end && end < n && f.text[n - end - 1] != '\n') end--;
        TextMap map;
        text_map(r->ctx, &map, d->text, d->n);
        edits = json_array();
        if (begin + end < n || begin + end < d->n)
            json_array_append_new(edits, json_pack("{s:o,s:s%}", "range",
                                                   json_range(&map, begin, d->n - end), "newText",
                                                   f.text + begin, n - end - begin));
    }
    ctx_destroy(ctx);
    return edits;
}
