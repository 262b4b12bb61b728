// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/json.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

typedef struct JsonReader {
    Ctx *ctx;
    const char *at, *end;
    int line, depth;
    const char *error;
} JsonReader;

static bool fail_json(JsonReader *r, const char *what) {
    if (!r->error) r->error = ctx_format(r->ctx, "line %d: %s", r->line, what);
    return false;
}

static void skip_json_blanks(JsonReader *r) {
    for (; r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at; r->at++)
        r->line += *r->at == '\n';
}

static bool take_json_char(JsonReader *r, char c) {
    skip_json_blanks(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

/* ---- strings ------------------------------------------------------------------------------- */

static bool read_hex(JsonReader *r, unsigned *out) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        if (r->at == r->end || !isxdigit((unsigned char)*r->at))
            return fail_json(r, "expected four hexadecimal digits after \\u");
        int c = tolower((unsigned char)*r->at++);
        *out = *out * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

static void add_utf8(Text *t, unsigned c) {
    char bytes[4];
    int n = 0;
    if (c < 0x80) {
        bytes[n++] = (char)c;
    } else if (c < 0x800) {
        bytes[n++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        bytes[n++] = (char)(0xe0 | c >> 12);
        bytes[n++] = (char)(0x80 | (c >> 6 & 63));
    } else {
        bytes[n++] = (char)(0xf0 | c >> 18);
        bytes[n++] = (char)(0x80 | (c >> 12 & 63));
        bytes[n++] = (char)(0x80 | (c >> 6 & 63));
    }
    if (c >= 0x80) bytes[n++] = (char)(0x80 | (c & 63));
    text_bytes(t, bytes, (size_t)n);
}

/// Combines two halves of a UTF-16 pair into one character.
static bool read_unicode(JsonReader *r, Text *t) {
    unsigned c, low;
    if (!read_hex(r, &c)) return false;
    bool pair = c >= 0xd800 && c < 0xdc00 && r->end - r->at > 2 && memcmp(r->at, "\\u", 2) == 0;
    if (pair) {
        r->at += 2;
        if (!read_hex(r, &low)) return false;
        if (low < 0xdc00 || low > 0xdfff) return fail_json(r, "half a pair of UTF-16");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c >= 0xd800 && c < 0xe000) return fail_json(r, "half a pair of UTF-16");
    add_utf8(t, c);
    return true;
}

static bool read_escape(JsonReader *r, Text *t) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    if (c == 'u') return read_unicode(r, t);
    const char *found = c ? strchr(from, c) : NULL;
    if (!found) return fail_json(r, "unknown escape in a string");
    text_bytes(t, &to[found - from], 1);
    return true;
}

/// Reads a string after its opening quote.
static bool read_string(JsonReader *r, const char **out) {
    Text t = {.ctx = r->ctx};
    text_bytes(&t, "", 0);
    while (r->at < r->end && *r->at != '"') {
        if ((unsigned char)*r->at < ' ') return fail_json(r, "a string does not end");
        if (*r->at != '\\')
            text_bytes(&t, r->at++, 1);
        else if (r->at++, !read_escape(r, &t))
            return false;
    }
    if (r->at == r->end) return fail_json(r, "a string does not end");
    r->at++;
    *out = t.data ? t.data : "";
    return true;
}

/* ---- values -------------------------------------------------------------------------------- */

static bool read_value(JsonReader *r, Json *out);

static bool read_member_name(JsonReader *r, const char **out) {
    if (!take_json_char(r, '"')) return fail_json(r, "expected a name in quotes");
    if (!read_string(r, out)) return false;
    return take_json_char(r, ':') || fail_json(r, "expected ':'");
}

/// Reads items of a list, or members of an object, after the opening bracket.
static bool read_items(JsonReader *r, Json *out, char close) {
    const Json **end = &out->first;
    if (take_json_char(r, close)) return true;
    if (++r->depth > DEEPEST) return fail_json(r, "too many brackets within brackets");
    do {
        Json *item = ctx_new(r->ctx, Json);
        const char *name = NULL;
        if (close == '}' && !read_member_name(r, &name)) return false;
        if (!read_value(r, item)) return false;
        item->name = name;
        *end = item;
        end = &item->next;
    } while (take_json_char(r, ','));
    r->depth--;
    return take_json_char(r, close) ||
           fail_json(r, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
}

/// Follows JSON: no hexadecimal digits, no infinity, no leading blanks or '+'.
static bool read_json_number(JsonReader *r, Json *out) {
    char digits[64];
    size_t n = 0;
    while (r->at + n < r->end && n < sizeof digits - 1 && r->at[n] &&
           strchr("+-.0123456789eE", r->at[n]))
        n++;
    memcpy(digits, r->at, n);
    digits[n] = 0;
    char *end;
    out->kind = JSON_NUMBER;
    out->number = strtod(digits, &end);
    if (n == 0 || *end || *digits == '+' || !isfinite(out->number))
        return fail_json(r, "expected a value");
    r->at += n;
    return true;
}

static bool take_word(JsonReader *r, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static bool read_value(JsonReader *r, Json *out) {
    skip_json_blanks(r);
    *out = (Json){.line = r->line};
    if (take_json_char(r, '{')) return out->kind = JSON_OBJECT, read_items(r, out, '}');
    if (take_json_char(r, '[')) return out->kind = JSON_LIST, read_items(r, out, ']');
    if (take_json_char(r, '"')) return out->kind = JSON_TEXT, read_string(r, &out->text);
    if (take_word(r, "null")) return true;
    out->kind = JSON_BOOL;
    out->number = take_word(r, "true");
    if (out->number != 0 || take_word(r, "false")) return true;
    return read_json_number(r, out);
}

const Json *json_read(Ctx *ctx, const char *text, size_t n, const char **error) {
    JsonReader r = {.ctx = ctx, .at = text, .end = text + n, .line = 1};
    Json *out = ctx_new(ctx, Json);
    bool ok = read_value(&r, out);
    skip_json_blanks(&r);
    if (ok && r.at != r.end) ok = fail_json(&r, "more follows the value");
    if (!ok) *error = r.error;
    return ok ? out : NULL;
}

const Json *json_member(const Json *j, const char *name) {
    if (!j || j->kind != JSON_OBJECT) return NULL;
    for (const Json *m = j->first; m; m = m->next)
        if (strcmp(m->name, name) == 0) return m;
    return NULL;
}

/* ---- writing ------------------------------------------------------------------------------- */

void json_quote(Text *t, const char *text) {
    text_add(t, "\"");
    for (const char *c = text; *c; c++)
        if (*c == '"' || *c == '\\')
            text_add(t, "\\%c", *c);
        else if ((unsigned char)*c < ' ')
            text_add(t, "\\u%04x", (unsigned)*c);
        else
            text_bytes(t, c, 1);
    text_add(t, "\"");
}

/// Uses the fewest digits that read back the same.
void json_number(Text *t, double number) {
    char digits[32] = "null";
    for (int n = 6; isfinite(number) && n <= 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, number);
        if (strtod(digits, NULL) == number) break;
    }
    text_add(t, "%s", digits);
}
