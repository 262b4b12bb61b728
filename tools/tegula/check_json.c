// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages in the form that programs read.
//
//   {"diagnostics": [{"severity": "error", "code": "unknown-name", "message": "...",
//     "file": "a.teg", "range": {"start": {"line": 1, "column": 5, "offset": 4}, "end": {...}},
//     "notes": [{"severity": "note" | "hint", "message": "...", "file": ..., "range": ...}],
//     "fixes": [{"title": "...", "edits": [{"file": ..., "range": ..., "text": "..."}]}]}]}
//
// Lines and columns count from 1, columns in characters; offsets are bytes from 0. A message
// without a place has no file and no range.
#include "tools/tegula/check_json.h"

#include "driver/json.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char *diag_code(Ctx *ctx, unsigned id) {
    char *code = ctx_format(ctx, "%s", diag_name(id));
    for (char *s = code; *s; s++) *s = *s == '_' ? '-' : (char)tolower((unsigned char)*s);
    return code;
}

/// The bytes of the character at s; 0: it is malformed. A NUL ends the text, and is no part of one.
static int utf8_bytes(const char *s) {
    unsigned char c = (unsigned char)*s;
    int n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80) return 0;
    unsigned char second = n > 2 ? (unsigned char)s[1] : 0;
    bool bad = (c == 0xe0 && second < 0xa0) || (c == 0xed && second > 0x9f) ||
               (c == 0xf0 && second < 0x90) || (c == 0xf4 && second > 0x8f);
    return bad ? 0 : n;
}

const char *valid_utf8(Ctx *ctx, const char *text) {
    Text t = {.ctx = ctx};
    text_bytes(&t, "", 0);
    for (const char *s = text; *s;) {
        int n = utf8_bytes(s);
        text_bytes(&t, n ? s : "?", n ? (size_t)n : 1);
        s += n ? n : 1;
    }
    return t.data;
}

static void add_text(Text *t, const char *text) {
    json_quote(t, valid_utf8(t->ctx, text));
}

/// The byte of a place, and the number of characters in front of it in its line.
static size_t place_offset(const Ctx *ctx, Loc loc, size_t *column) {
    size_t n, at = 0;
    const char *text = ctx_source_text(ctx, loc.file, &n);
    for (uint32_t line = 1; line < loc.line && at < n; at++) line += text[at] == '\n';
    size_t end = at + (loc.col ? loc.col - 1u : 0);
    *column = 1;
    for (; at < end && at < n; at++) *column += (text[at] & 0xc0) != 0x80;
    return at;
}

static void add_point(Text *t, const Ctx *ctx, Loc loc) {
    size_t column, offset = place_offset(ctx, loc, &column);
    text_add(t, "{\"line\": %u, \"column\": %zu, \"offset\": %zu}", (unsigned)loc.line, column,
             offset);
}

static void add_place(Text *t, const Ctx *ctx, Loc loc) {
    if (!loc.file) return;
    Loc end = loc;
    end.col = (uint16_t)(loc.col + loc.len);
    text_add(t, ", \"file\": ");
    add_text(t, ctx_source_path(ctx, loc.file));
    text_add(t, ", \"range\": {\"start\": ");
    add_point(t, ctx, loc);
    text_add(t, ", \"end\": ");
    add_point(t, ctx, end);
    text_add(t, "}");
}

static const char *const severity_words[] = {"error", "warning", "note", "hint"};

static void add_message(Text *t, const Ctx *ctx, const Diagnostic *d) {
    text_add(t, "{\"severity\": \"%s\", \"message\": ", severity_words[d->severity]);
    add_text(t, d->text);
    add_place(t, ctx, d->loc);
}

static void add_fix(Text *t, const Ctx *ctx, const Diagnostic *d, int *n) {
    if (!d->fix) return;
    text_add(t, "%s{\"title\": ", (*n)++ ? ", " : "");
    add_text(t, d->severity == SEV_HINT ? d->text : "correct the text");
    text_add(t, ", \"edits\": [{\"text\": ");
    add_text(t, d->fix);
    add_place(t, ctx, d->place);
    text_add(t, "}]}");
}

static void add_diagnostic(Text *t, Ctx *ctx, const Diagnostic *d) {
    add_message(t, ctx, d);
    text_add(t, ", \"code\": \"%s\", \"notes\": [", diag_code(ctx, d->id));
    for (const Diagnostic *f = d->follow; f; f = f->next) {
        text_add(t, "%s", f == d->follow ? "" : ", ");
        add_message(t, ctx, f);
        text_add(t, "}");
    }
    text_add(t, "], \"fixes\": [");
    int n = 0;
    add_fix(t, ctx, d, &n);
    for (const Diagnostic *f = d->follow; f; f = f->next) add_fix(t, ctx, f, &n);
    text_add(t, "]}");
}

static void print_all(Ctx *ctx, void *arg) {
    (void)arg;
    Text t = {.ctx = ctx};
    text_add(&t, "{\"diagnostics\": [");
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) {
        text_add(&t, d == diag_first(ctx) ? "\n" : ",\n");
        add_diagnostic(&t, ctx, d);
    }
    text_add(&t, "]}\n");
    fwrite(t.data, 1, t.n, stdout);
}

void print_diagnostics_json(Ctx *ctx) {
    ctx_protect(ctx, print_all, NULL);
}
