// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Questions to the table of names of an analysis.
#include "tools/tegula/lsp/lsp.h"

#include <string.h>

static bool covers(const Analysis *a, Loc loc, size_t offset) {
    return loc.file == a->file && map_begin(&a->map, loc) <= offset &&
           offset <= map_end(&a->map, loc);
}

bool name_at(const Analysis *a, size_t offset, NameAt *out) {
    for (int i = 0; i < a->names.definitions.n; i++) {
        const Definition *d = &a->names.definitions.data[i];
        if (!covers(a, d->name.loc, offset)) continue;
        *out = (NameAt){d->name, i, false};
        return true;
    }
    for (int i = 0; i < a->names.uses.n; i++) {
        const NameUse *use = &a->names.uses.data[i];
        if (!covers(a, use->name.loc, offset)) continue;
        *out = (NameAt){use->name, use->to, use->option};
        return true;
    }
    return false;
}

/// The text from `from` to in front of `to`, without blanks at its end.
static const char *text_between(Ctx *ctx, const TextMap *map, Loc from, Loc to) {
    size_t begin = map_begin(map, from), end = map_begin(map, to);
    while (end > begin && strchr(" \t\r\n", map->text[end - 1])) end--;
    return end > begin ? ctx_format(ctx, "%.*s", (int)(end - begin), map->text + begin) : "";
}

const char *definition_head(Ctx *ctx, const Analysis *a, const Definition *d) {
    size_t n;
    const char *text = ctx_source_text(a->ctx, d->name.loc.file, &n);
    TextMap map;
    text_map(ctx, &map, text, n);
    if (d->item->kind == IT_FN)
        return text_between(ctx, &map, d->item->fn->loc, d->item->fn->body->loc);
    Text value = {.ctx = ctx};
    ast_print_expr(&value, d->item->constant.value);
    return ctx_format(ctx, "const %s = %s", d->name.text, value.data);
}

const char *definition_doc(const Definition *d) {
    return d->item && d->item->kind == IT_FN && (d->kind == NAME_FN || d->kind == NAME_KERNEL)
               ? d->item->fn->doc
               : NULL;
}

const BuiltinText *builtin_text(Ctx *ctx, const char *name) {
    const BuiltinText *all;
    int n = builtin_texts(ctx, &all);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0) return &all[i];
    return NULL;
}

const char *builtin_head(Ctx *ctx, const BuiltinText *b) {
    Text t = {.ctx = ctx};
    text_add(&t, "%s(%s", b->name, b->args);
    for (const char *s = b->named; *s;) {
        size_t n = strcspn(s, " "), name = strcspn(s, " =");
        text_add(&t, "%s%.*s", *b->args || s > b->named ? ", " : "", (int)name, s);
        if (name < n) text_add(&t, " = %.*s", (int)(n - name - 1), s + name + 1);
        s += n + (s[n] == ' ');
    }
    text_add(&t, ")");
    return t.data;
}

const TypeNote *type_at(const Analysis *a, size_t offset) {
    const TypeNote *best = NULL;
    for (int i = 0; i < a->names.types.n; i++) {
        const TypeNote *note = &a->names.types.data[i];
        if (note->expr && covers(a, note->loc, offset) && (!best || note->loc.len <= best->loc.len))
            best = note;
    }
    return best;
}

json_t *json_location(Ctx *ctx, const Analysis *a, Loc loc) {
    const char *uri = source_uri(ctx, a, loc.file);
    if (!uri) return NULL;
    TextMap other;
    size_t n;
    const char *text = ctx_source_text(a->ctx, loc.file, &n);
    if (loc.file != a->file) text_map(ctx, &other, text, n);
    return json_pack("{s:s,s:o}", "uri", uri, "range",
                     json_range_of(loc.file == a->file ? &a->map : &other, loc));
}
