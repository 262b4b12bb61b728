// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Completion and signature help. Both look at the text in front of the cursor, since the statement
// there is mostly incomplete, and at the names of the analysis.
#include "tools/tegula/lsp/lsp.h"

#include "lang/axes.h"
#include "stdlib/embedded.h"
#include "tools/tegula/check_json.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

enum CompletionKind {
    COMPLETE_TEXT = 1,
    COMPLETE_FUNCTION = 3,
    COMPLETE_VARIABLE = 6,
    COMPLETE_CLASS = 7,
    COMPLETE_PROPERTY = 10,
    COMPLETE_VALUE = 12,
    COMPLETE_KEYWORD = 14,
    COMPLETE_FILE = 17,
    COMPLETE_FOLDER = 19,
    COMPLETE_CONSTANT = 21,
    COMPLETE_TYPE_PARAM = 25,
};

/// The items of one answer. A name appears once: the first wins.
typedef struct Completion {
    const Request *r;
    Ctx *ctx;
    json_t *items;
    PtrMap seen;
} Completion;

/// `order` sorts: locals come before the file's definitions, builtins, and keywords.
static void add_item(Completion *c, const char *name, enum CompletionKind kind, char order,
                     const char *detail, const char *doc) {
    const char *key = ctx_name(c->ctx, name);
    if (map_get(&c->seen, key)) return;
    map_set(c->ctx, &c->seen, key, (void *)key);
    json_t *item = json_pack("{s:s,s:i,s:s}", "label", name, "kind", kind, "sortText",
                             ctx_format(c->ctx, "%c%s", order, name));
    if (detail) json_object_set_new(item, "detail", json_string(detail));
    if (doc && *doc)
        json_object_set_new(item, "documentation",
                            json_pack("{s:s,s:s}", "kind", "markdown", "value", doc));
    json_array_append_new(c->items, item);
}

/* ---- what may stand at the cursor ---------------------------------------------------------- */

static const char *const keyword_words[] = {
#define KEYWORD(id, word) word,
#include "lang/keywords.def"
};

static void add_keywords(Completion *c) {
    for (size_t i = 0; i < sizeof keyword_words / sizeof *keyword_words; i++)
        add_item(c, keyword_words[i], COMPLETE_KEYWORD, '5', NULL, NULL);
}

static void add_elements(Completion *c) {
    for (int i = 0; i < EL_COUNT; i++)
        add_item(c, elem_info[i].name, COMPLETE_CLASS, '4', "element type", NULL);
}

/// Whether a local is visible at the cursor.
static bool is_visible(const Analysis *a, const Definition *d, size_t offset) {
    return d->name.loc.file == a->file && map_end(&a->map, d->name.loc) <= offset &&
           (!d->end.line || offset <= map_begin(&a->map, d->end));
}

static void add_locals(Completion *c) {
    const Analysis *a = c->r->analysis;
    for (int i = a->names.definitions.n - 1; i >= 0; i--) {
        const Definition *d = &a->names.definitions.data[i];
        if (d->kind <= NAME_CONSTANT || !is_visible(a, d, c->r->offset)) continue;
        const TypeNote *note = names_type_of(&a->names, d->name.loc);
        Text type = {.ctx = c->ctx};
        if (d->type) ast_print_type(&type, d->type);
        const char *detail = d->type ? type.data : note ? note->text : NULL;
        add_item(c, d->name.text,
                 d->kind == NAME_TYPE_PARAM ? COMPLETE_TYPE_PARAM : COMPLETE_VARIABLE, '1', detail,
                 NULL);
    }
}

static void add_program_items(Completion *c, bool library) {
    const Analysis *a = c->r->analysis;
    for (int i = 0; i < a->names.definitions.n; i++) {
        const Definition *d = &a->names.definitions.data[i];
        bool prelude = a->program && program_find(a->program, d->name.text, a->file) == d->item &&
                       program_is_library(a->program, d->name.loc.file);
        if (d->kind > NAME_CONSTANT || prelude != library) continue;
        add_item(c, d->name.text, d->kind == NAME_CONSTANT ? COMPLETE_CONSTANT : COMPLETE_FUNCTION,
                 library ? '3' : '2', definition_head(c->ctx, a, d), definition_doc(d));
    }
}

static void add_builtins(Completion *c) {
    const BuiltinText *all;
    int n = builtin_texts(c->ctx, &all);
    for (int i = 0; i < n; i++)
        add_item(c, all[i].name, COMPLETE_FUNCTION, '3', builtin_head(c->ctx, &all[i]),
                 all[i].meaning);
}

/// While the text has errors, statements may be missing in the tree: their words may be names.
static void add_words(Completion *c) {
    const Analysis *a = c->r->analysis;
    if (a->program && !a->program->broken) return;
    for (size_t i = 0, n; i < a->map.n; i += n ? n : 1) {
        for (n = 0; i + n < a->map.n && is_name_byte(a->map.text[i + n]);) n++;
        bool name = n > 1 && n < 64 && !strchr("0123456789", a->map.text[i]);
        if (name && i + n != c->r->offset)
            add_item(c, ctx_intern(c->ctx, a->map.text + i, n), COMPLETE_TEXT, '6', NULL, NULL);
    }
}

/// The definition of the function called at the cursor, or NULL.
static const FnDef *called_fn(const Analysis *a, const char *name) {
    const Item *item = NULL;
    for (int i = 0; i < a->names.definitions.n && !item; i++) {
        const Definition *d = &a->names.definitions.data[i];
        bool visible = a->program && d->kind <= NAME_FN && strcmp(d->name.text, name) == 0;
        if (visible) item = program_find(a->program, d->name.text, a->file);
    }
    return item && item->kind == IT_FN ? item->fn : NULL;
}

/// The names of named arguments, `axis = `.
static void add_options(Completion *c, const OpenBracket *open) {
    const char *name = ctx_intern(c->ctx, open->name, open->n_name);
    const FnDef *f = called_fn(c->r->analysis, name);
    const BuiltinText *b = f ? NULL : builtin_text(c->ctx, name);
    for (int i = 0; f && i < f->params.n; i++)
        add_item(c, f->params.at[i].name.text, COMPLETE_PROPERTY, '0', "named argument", NULL);
    for (const char *s = b ? b->named : ""; *s;) {
        size_t n = strcspn(s, " "), word = strcspn(s, " =");
        add_item(c, ctx_intern(c->ctx, s, word), COMPLETE_PROPERTY, '0', ctx_intern(c->ctx, s, n),
                 NULL);
        s += n + (s[n] == ' ');
    }
}

/// A path as a string of the language has it; NULL: a string cannot have it.
static const char *string_text(Ctx *ctx, const char *path) {
    Text t = {.ctx = ctx};
    for (const char *s = path; *s; s++) {
        if (*s == '\n')
            text_add(&t, "\\n");
        else if (*s == '\t')
            text_add(&t, "\\t");
        else if (*s == '\r')
            return NULL;
        else
            text_add(&t, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    return t.data;
}

/// The path that is written in front of the cursor.
static const char *typed_path(Ctx *ctx, const char *text, const Cursor *cursor, size_t offset) {
    Text t = {.ctx = ctx};
    text_add(&t, "%s", "");
    for (size_t i = cursor->string; i < offset; i++) {
        bool escape = text[i] == '\\' && i + 1 < offset;
        i += escape;
        text_add(&t, "%c",
                 escape && text[i] == 'n'   ? '\n'
                 : escape && text[i] == 't' ? '\t'
                                            : text[i]);
    }
    return t.data;
}

/// The end of the path at the cursor: the closing quote, or the cursor if there is none.
static size_t string_end(const TextMap *map, size_t offset) {
    size_t end = offset;
    while (end < map->n && !strchr("\";\r\n", map->text[end]))
        end += 1 + (map->text[end] == '\\' && end + 1 < map->n && map->text[end + 1] != '\n');
    return end < map->n && map->text[end] == '"' ? end : offset;
}

/// Adds a path. The edit replaces the whole string: editors would replace the last word alone,
/// which is only a part of a path with blanks or slashes.
static void add_file(Completion *c, const Cursor *cursor, const char *path,
                     enum CompletionKind kind, char order, const char *detail) {
    const TextMap *map = &c->r->analysis->map;
    const char *text = string_text(c->ctx, path);
    size_t before = json_array_size(c->items);
    if (!text || strcmp(valid_utf8(c->ctx, path), path) != 0) return;
    add_item(c, path, kind, order, detail, NULL);
    if (json_array_size(c->items) == before) return;
    json_t *item = json_array_get(c->items, before);
    json_object_set_new(item, "filterText", json_string(text));
    json_object_set_new(item, "textEdit",
                        json_pack("{s:o,s:s}", "range",
                                  json_range(map, cursor->string, string_end(map, c->r->offset)),
                                  "newText", text));
}

/// Adds the files and folders at `typed` within a folder.
static void add_folder(Completion *c, const Cursor *cursor, const char *folder, const char *typed) {
    const char *slash = strrchr(typed, '/');
    int n_typed = slash ? (int)(slash - typed) + 1 : 0;
    const char *whole = typed[0] == '/' ? ctx_format(c->ctx, "%.*s", n_typed, typed)
                                        : ctx_format(c->ctx, "%s%.*s", folder, n_typed, typed);
    DIR *entries = *whole ? opendir(whole) : NULL;
    for (const struct dirent *e; entries && (e = readdir(entries)) != NULL;) {
        const char *file = ctx_format(c->ctx, "%s%s", whole, e->d_name);
        const char *path = ctx_format(c->ctx, "%.*s%s", n_typed, typed, e->d_name);
        struct stat info;
        size_t n = strlen(e->d_name);
        if (e->d_name[0] == '.' || stat(file, &info) != 0) continue;
        if (S_ISDIR(info.st_mode))
            add_file(c, cursor, ctx_format(c->ctx, "%s/", path), COMPLETE_FOLDER, '2', NULL);
        else if (n > 4 && strcmp(e->d_name + n - 4, ".teg") == 0 &&
                 strcmp(canonical_path(c->ctx, file), c->r->document->real) != 0)
            add_file(c, cursor, path, COMPLETE_FILE, '1', NULL);
    }
    if (entries) closedir(entries);
}

static void add_files(Completion *c, const Cursor *cursor) {
    const char *own = c->r->document->path, *slash = strrchr(own, '/');
    const char *typed = typed_path(c->ctx, c->r->analysis->map.text, cursor, c->r->offset);
    for (const struct tg_embedded *f = tg_embedded_files; f->path; f++)
        add_file(c, cursor, f->path, COMPLETE_FILE, '3', "library");
    int n = slash ? (int)(slash - own) + 1 : 0;
    add_folder(c, cursor, ctx_format(c->ctx, "%.*s", n, own), typed);
    for (const Document *d = c->r->server->documents; d; d = d->next) // some are not saved yet
        if (d != c->r->document && strncmp(d->path, own, (size_t)n) == 0)
            add_file(c, cursor, d->path + n, COMPLETE_FILE, '1', NULL);
    const char *const *folders = import_folders(c->ctx, c->r->server, own, &n);
    for (int i = 0; i < n && typed[0] != '/'; i++)
        add_folder(c, cursor, ctx_format(c->ctx, "%s/", folders[i]), typed);
}

static bool last_is(const Cursor *cursor, const char *word) {
    return cursor->n_last == strlen(word) && memcmp(cursor->last, word, cursor->n_last) == 0;
}

static void add_members(Completion *c) {
    static const char *const members[] = {"start", "end", "size", "tile"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        add_item(c, members[i], COMPLETE_PROPERTY, '1', "of a range", NULL);
}

static void add_types(Completion *c) {
    add_locals(c);
    add_elements(c);
}

static void add_axes(Completion *c) {
    for (int i = 0; i < AXIS_COUNT; i++)
        add_item(c, axis_names[i], COMPLETE_VALUE, '1', "axis of the compiler", NULL);
}

static void add_all(Completion *c, const Cursor *cursor) {
    const OpenBracket *open = cursor->n_open ? &cursor->open[cursor->n_open - 1] : NULL;
    if (open && open->name) add_options(c, open);
    add_locals(c);
    add_program_items(c, false);
    add_program_items(c, true);
    add_builtins(c);
    add_elements(c);
    add_keywords(c);
    add_words(c);
}

json_t *lsp_completion(Request *r) {
    Completion c = {.r = r, .ctx = r->ctx, .items = json_array()};
    Cursor *cursor = ctx_new(r->ctx, Cursor);
    cursor_scan(r->analysis->map.text, r->offset, cursor);
    if (cursor->place == IN_IMPORT)
        add_files(&c, cursor);
    else if (cursor->place != IN_CODE)
        ; // comments and strings have no names
    else if (last_is(cursor, "."))
        add_members(&c);
    else if (last_is(cursor, "as") || last_is(cursor, ":"))
        add_types(&c);
    else if (last_is(cursor, "schedule"))
        add_axes(&c);
    else
        add_all(&c, cursor);
    return json_pack("{s:b,s:o}", "isIncomplete", 0, "items", c.items);
}

/* ---- signature help ------------------------------------------------------------------------ */

/// The index of the parameter at the cursor: that of `name =` at its beginning, else its number.
static int active_parameter(const Request *r, const OpenBracket *open, json_t *parameters) {
    const char *text = r->analysis->map.text;
    size_t at = open->argument, n = 0;
    while (at < r->offset && strchr(" \t\r\n", text[at])) at++;
    while (at + n < r->offset && is_name_byte(text[at + n])) n++;
    size_t sign = at + n + strspn(text + at + n, " \t");
    bool named = n && text[sign] == '=' && text[sign + 1] != '=';
    for (size_t i = 0; named && i < json_array_size(parameters); i++) {
        const char *label =
            json_string_value(json_object_get(json_array_get(parameters, i), "label"));
        if (label && strncmp(label, text + at, n) == 0 && !is_name_byte(label[n])) return (int)i;
    }
    return open->commas;
}

static json_t *signature(const Request *r, const char *label, const char *doc, json_t *parameters,
                         const OpenBracket *open) {
    int active = active_parameter(r, open, parameters);
    json_t *one = json_pack("{s:s,s:o}", "label", label, "parameters", parameters);
    if (doc && *doc)
        json_object_set_new(one, "documentation",
                            json_pack("{s:s,s:s}", "kind", "markdown", "value", doc));
    return json_pack("{s:[o],s:i,s:i}", "signatures", one, "activeSignature", 0, "activeParameter",
                     active);
}

static json_t *fn_signature(const Request *r, const FnDef *f, const OpenBracket *open) {
    Text label = {.ctx = r->ctx};
    json_t *parameters = json_array();
    text_add(&label, "%s(", f->name.text);
    for (int i = 0; i < f->params.n; i++) {
        Text one = {.ctx = r->ctx};
        text_add(&one, "%s", f->params.at[i].name.text);
        if (f->params.at[i].type) text_add(&one, f->params.at[i].constant ? ": const " : ": ");
        if (f->params.at[i].type) ast_print_type(&one, f->params.at[i].type);
        if (f->params.at[i].optional) text_add(&one, "?");
        text_add(&label, "%s%s", i ? ", " : "", one.data);
        json_array_append_new(parameters, json_pack("{s:s}", "label", one.data));
    }
    text_add(&label, ")");
    return signature(r, label.data, f->doc, parameters, open);
}

/// The parts of `(a, b, axis = ...)`, split at commas.
static json_t *builtin_signature(const Request *r, const BuiltinText *b, const OpenBracket *open) {
    const char *label = builtin_head(r->ctx, b);
    json_t *parameters = json_array();
    for (const char *s = label + strlen(b->name) + 1; *s && *s != ')';) {
        size_t n = strcspn(s, ",)[");
        while (s[n] == '[') n += strcspn(s + n, "]"), n += strcspn(s + n, ",)[");
        json_array_append_new(parameters, json_pack("{s:s}", "label", ctx_intern(r->ctx, s, n)));
        s += n + (s[n] == ',');
        s += strspn(s, " ");
    }
    return signature(r, label, b->meaning, parameters, open);
}

json_t *lsp_signature(Request *r) {
    Cursor *cursor = ctx_new(r->ctx, Cursor);
    cursor_scan(r->analysis->map.text, r->offset, cursor);
    for (int i = cursor->n_open - 1; i >= 0 && cursor->open[i].kind != '{'; i--) {
        const OpenBracket *open = &cursor->open[i];
        if (!open->name) continue;
        const char *name = ctx_intern(r->ctx, open->name, open->n_name);
        const FnDef *f = called_fn(r->analysis, name);
        const BuiltinText *b = f ? NULL : builtin_text(r->ctx, name);
        if (f) return fn_signature(r, f, open);
        if (b) return builtin_signature(r, b, open);
    }
    return NULL;
}
