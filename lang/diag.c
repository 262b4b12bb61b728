// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sources and diagnostics: collecting, rendering with a caret, "did you mean".
#include "lang/context.h"

#include "lang/diag.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    Severity severity;
    const char *name, *text;
} diag_info[D_COUNT] = {
#define DIAG(id, severity, text) [D_##id] = {SEV_##severity, #id, text},
#include "lang/diag.def"
};

const char *diag_name(unsigned id) {
    return diag_info[id].name;
}

/* ---- sources ------------------------------------------------------------------------------- */

uint16_t ctx_add_source(Ctx *ctx, const char *path, const char *text, size_t len) {
    char *copy = ctx_alloc(ctx, len + 1);
    if (len) memcpy(copy, text, len);
    Source s = {ctx_name(ctx, path), copy, len, copy, 1};
    vec_push(ctx, &ctx->sources, s);
    return (uint16_t)ctx->sources.n;
}

uint16_t ctx_source_count(const Ctx *ctx) {
    return (uint16_t)ctx->sources.n;
}

const char *ctx_source_path(const Ctx *ctx, uint16_t file) {
    return file && file <= ctx->sources.n ? ctx->sources.data[file - 1].path : "<unknown>";
}

const char *ctx_source_text(const Ctx *ctx, uint16_t file, size_t *len) {
    size_t unused;
    if (!len) len = &unused;
    if (!file || file > ctx->sources.n) {
        *len = 0;
        return "";
    }
    *len = ctx->sources.data[file - 1].len;
    return ctx->sources.data[file - 1].text;
}

/// The text of one line, without its end.
static const char *source_line(const Ctx *ctx, Loc loc, int *n) {
    size_t len;
    const char *s = ctx_source_text(ctx, loc.file, &len), *end = s + len;
    Source none = {.text = "", .line = "", .number = 1};
    Source *source = len ? &ctx->sources.data[loc.file - 1] : &none;
    // Messages mostly arrive in the order of their lines.
    uint32_t line = source->number <= loc.line ? source->number : 1;
    if (line > 1) s = source->line;
    for (; line < loc.line && s < end; line++) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        s = nl ? nl + 1 : end;
    }
    source->line = s;
    source->number = line;
    const char *stop = s < end ? memchr(s, '\n', (size_t)(end - s)) : NULL;
    *n = (int)((stop ? stop : end) - s);
    if (*n && s[*n - 1] == '\r') --*n;
    return s;
}

const char *diag_text_at(Ctx *ctx, Loc loc) {
    int n;
    if (!loc.file || loc.file > ctx->sources.n || !loc.line || !loc.col) return NULL;
    const char *line = source_line(ctx, loc, &n);
    if (loc.col - 1 + loc.len > n) return NULL;
    return ctx_intern(ctx, line + loc.col - 1, loc.len);
}

/* ---- collecting ---------------------------------------------------------------------------- */

static Diagnostic *new_diagnostic(Ctx *ctx, Severity severity, Loc loc, const char *text) {
    Diagnostic *d = ctx_new(ctx, Diagnostic);
    d->severity = severity;
    d->loc = loc;
    d->text = text;
    return d;
}

/// `text` is interned.
static bool already_said(const Ctx *ctx, Loc loc, DiagId id, const char *text) {
    for (const Diagnostic *d = map_get(&ctx->said, text); d; d = d->same)
        if (d->id == id && d->loc.file == loc.file && d->loc.line == loc.line &&
            d->loc.col == loc.col)
            return true;
    return false;
}

static void append_diagnostic(Ctx *ctx, DiagId id, Loc loc, const char *text) {
    text = ctx_name(ctx, text);
    Diagnostic *d = new_diagnostic(ctx, diag_info[id].severity, loc, text);
    d->id = id;
    d->same = map_get(&ctx->said, text);
    map_set(ctx, &ctx->said, text, d);
    *(ctx->last_diag ? &ctx->last_diag->next : &ctx->first_diag) = d;
    ctx->last_diag = d;
    ctx->n_errors += d->severity == SEV_ERROR;
}

void diag(Ctx *ctx, Loc loc, DiagId id, ...) {
    va_list ap;
    va_start(ap, id);
    const char *text = ctx_name(ctx, ctx_vformat(ctx, diag_info[id].text, ap));
    va_end(ap);
    ctx->repeated = already_said(ctx, loc, id, text);
    if (ctx->repeated) return;
    if (diag_info[id].severity == SEV_ERROR && ctx->n_errors >= MAX_ERRORS) {
        append_diagnostic(ctx, D_TOO_MANY_ERRORS, loc, diag_info[D_TOO_MANY_ERRORS].text);
        ctx_give_up(ctx);
    }
    append_diagnostic(ctx, id, loc, text);
}

DiagMark diag_mark(const Ctx *ctx) {
    return (DiagMark){ctx->last_diag, ctx->n_errors};
}

void diag_rewind(Ctx *ctx, DiagMark mark) {
    for (Diagnostic *d = mark.last ? mark.last->next : ctx->first_diag; d; d = d->next) {
        d->dropped = true; // oldest first, so earlier messages stay
        if (!d->same || !d->same->dropped) map_set(ctx, &ctx->said, d->text, d->same);
    }
    *(mark.last ? &mark.last->next : &ctx->first_diag) = NULL;
    ctx->last_diag = mark.last;
    ctx->n_errors = mark.n_errors;
}

DiagState diag_set_aside(Ctx *ctx) {
    DiagState state = {ctx->first_diag, ctx->last_diag, ctx->n_errors, ctx->said};
    ctx->first_diag = ctx->last_diag = NULL;
    ctx->n_errors = 0;
    ctx->said = (PtrMap){0};
    return state;
}

void diag_restore(Ctx *ctx, DiagState state) {
    ctx->first_diag = state.first;
    ctx->last_diag = state.last;
    ctx->n_errors = state.n_errors;
    ctx->said = state.said;
}

static Diagnostic *append_note(Ctx *ctx, Severity severity, Loc loc, const char *text) {
    if (!ctx->last_diag || ctx->repeated) return NULL;
    Diagnostic **end = &ctx->last_diag->follow;
    for (; *end; end = &(*end)->next)
        if ((*end)->loc.line == loc.line && strcmp((*end)->text, text) == 0) return *end;
    return *end = new_diagnostic(ctx, severity, loc, text);
}

void diag_note(Ctx *ctx, Loc loc, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    append_note(ctx, SEV_NOTE, loc, ctx_vformat(ctx, fmt, ap));
    va_end(ap);
}

void diag_hint(Ctx *ctx, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    append_note(ctx, SEV_HINT, (Loc){0}, ctx_vformat(ctx, fmt, ap));
    va_end(ap);
}

void diag_fix(Ctx *ctx, Loc loc, const char *replacement, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    append_note(ctx, SEV_HINT, (Loc){0}, ctx_vformat(ctx, fmt, ap));
    va_end(ap);
    diag_offer(ctx, loc, replacement);
}

void diag_offer(Ctx *ctx, Loc loc, const char *replacement) {
    Diagnostic *d = ctx->last_diag;
    if (!d || ctx->repeated || !loc.file) return;
    for (Diagnostic *f = d->follow; f; f = f->next) d = f;
    d->fix = ctx_name(ctx, replacement);
    d->place = loc;
}

int diag_errors(const Ctx *ctx) {
    return ctx->n_errors;
}

const Diagnostic *diag_first(const Ctx *ctx) {
    return ctx->first_diag;
}

_Noreturn void ice_at(Ctx *ctx, Loc loc, const char *file, int line, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = ctx_vformat(ctx, fmt, ap);
    va_end(ap);
    append_diagnostic(ctx, D_INTERNAL, loc, ctx_format(ctx, diag_info[D_INTERNAL].text, text));
    diag_note(ctx, (Loc){0}, "raised at %s:%d; please report it with the input", file, line);
    ctx_leave(ctx, CTX_BUG);
}

/* ---- rendering ----------------------------------------------------------------------------- */

static const struct {
    const char *name, *colour;
} severity_style[] = {
    [SEV_ERROR] = {"error", "\033[1;31m"},
    [SEV_WARNING] = {"warning", "\033[1;35m"},
    [SEV_NOTE] = {"note", "\033[1;36m"},
    [SEV_HINT] = {"hint", "\033[1;32m"},
};

/// Renders the source line and a caret line. Control and non-ASCII bytes print as '?', and tabs as
/// a blank, so the caret stays aligned.
static void render_caret(Text *out, const Ctx *ctx, Loc loc, const char *colour,
                         const char *plain) {
    int n;
    const char *line = source_line(ctx, loc, &n);
    int from = loc.col > 90 ? loc.col - 60 : 0;
    int to = n < from + 100 ? n : from + 100;
    char shown[101];
    for (int i = from; i < to; i++)
        shown[i - from] = line[i] == '\t' ? ' ' : line[i] < ' ' || line[i] > '~' ? '?' : line[i];
    text_add(out, "%5u | %.*s\n", (unsigned)loc.line, to > from ? to - from : 0, shown);
    text_add(out, "      | %*s%s^", loc.col - 1 - from > 0 ? loc.col - 1 - from : 0, "", colour);
    for (int i = 1; i < loc.len && loc.col + i <= to; i++) text_add(out, "~");
    text_add(out, "%s\n", plain);
}

static void render_one(Text *out, const Ctx *ctx, const Diagnostic *d, bool colour) {
    const char *on = colour ? severity_style[d->severity].colour : "";
    const char *plain = colour ? "\033[0m" : "";
    bool placed = d->loc.file != 0;
    if (placed)
        text_add(out, "%s:%u:%u: ", ctx_source_path(ctx, d->loc.file), (unsigned)d->loc.line,
                 (unsigned)d->loc.col);
    text_add(out, "%s%s:%s %s\n", on, severity_style[d->severity].name, plain, d->text);
    if (placed && d->loc.line) render_caret(out, ctx, d->loc, on, plain);
}

void diag_render(Text *out, const Ctx *ctx, const Diagnostic *d, bool colour) {
    render_one(out, ctx, d, colour);
    for (const Diagnostic *f = d->follow; f; f = f->next) render_one(out, ctx, f, colour);
}

/* ---- did you mean -------------------------------------------------------------------------- */

enum { MAX_NAME = 63 };

/// Levenshtein distance in which swapping two neighbours counts one. Names beyond MAX_NAME never
/// match.
static int edit_distance(const char *a, const char *b) {
    int n = (int)strlen(a), m = (int)strlen(b);
    if (n > MAX_NAME || m > MAX_NAME) return MAX_NAME;
    int rows[3][MAX_NAME + 1];
    for (int j = 0; j <= m; j++) rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *above = rows[(i + 2) % 3], *row = rows[i % 3], *two = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = two[j - 2] + 1 < best ? two[j - 2] + 1 : best;
            row[j] = best;
        }
    }
    return rows[n % 3][m];
}

const char *closest_name(const char *name, const char *const *names, int n) {
    const char *best = NULL;
    int limit = (int)strlen(name) / 3 + 1;
    for (int i = 0; i < n; i++) {
        int d = edit_distance(name, names[i]);
        if (d > 0 && d <= limit && d < (int)strlen(name)) {
            limit = d - 1;
            best = names[i];
        }
    }
    return best;
}
