// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry point of the parser, and the feed between lexer and grammar. The feed remembers the
// last tokens and the open brackets for messages, bounds the nesting, and closes bodies that were
// left open.
#include "frontend/parser.h"
#include "frontend/syntax.h"

#include "lang/diag.h"

#include <string.h>

int lexer_scan(TEGSTYPE *value, TEGLTYPE *loc, void *scanner);
int teglex(TEGSTYPE *value, TEGLTYPE *loc, Parser *p);

/* ---- is it text? --------------------------------------------------------------------------- */

/// Returns the length of the UTF-8 sequence at s, with n bytes left; 0 if it is malformed.
static size_t utf8_length(const unsigned char *s, size_t n) {
    if (*s < 0x80) return 1;
    size_t len = *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : 2;
    if (*s < 0xc2 || *s > 0xf4 || len > n) return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    // Overlong forms, surrogates, beyond U+10FFFF.
    bool bad = (*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) ||
               (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f);
    return bad ? 0 : len;
}

static Loc loc_of_byte(const Parser *p, size_t at) {
    Loc loc = {.line = 1, .file = p->file, .len = 1};
    size_t start = 0;
    for (size_t i = 0; i < at; i++)
        if (p->text[i] == '\n') {
            loc.line++;
            start = i + 1;
        }
    size_t col = at - start + 1;
    loc.col = (uint16_t)(col < UINT16_MAX ? col : UINT16_MAX);
    return loc;
}

static bool is_valid_text(Parser *p) {
    const unsigned char *s = (const unsigned char *)p->text;
    if (p->len > MAX_SOURCE_BYTES) {
        diag(p->ctx, loc_of_byte(p, 0), D_FILE_TOO_LARGE, MAX_SOURCE_BYTES >> 20);
        return false;
    }
    for (size_t i = 0, n; i < p->len; i += n) {
        n = utf8_length(s + i, p->len - i);
        if (n && s[i]) continue;
        diag(p->ctx, loc_of_byte(p, i), D_NOT_TEXT, s[i]);
        if (p->len >= 2 && (s[0] ^ s[1]) == 0x01 && s[0] >= 0xfe)
            diag_hint(p->ctx, "the file seems to be UTF-16: save it as UTF-8");
        return false;
    }
    return true;
}

bool parser_init(Parser *p, Ctx *ctx, uint16_t file) {
    *p = (Parser){.ctx = ctx, .file = file};
    p->text = ctx_source_text(ctx, file, &p->len);
    if (!is_valid_text(p)) return false;
    lexer_start(p);
    return true;
}

/* ---- feed ---------------------------------------------------------------------------------- */

/// Tracks open brackets. A closing bracket pops its partner and all brackets left open inside, but
/// ')' and ']' do not pop a '{'.
static void track_brackets(Parser *p, Token t) {
    static const char pairs[] = "(){}[]";
    const char *at = t.kind > 0 && t.kind < 128 ? strchr(pairs, t.kind) : NULL;
    if (!at || !*at) return;
    if ((at - pairs) % 2 == 0) {
        if (p->open.n == AST_MAX_DEPTH) {
            diag(p->ctx, t.loc, D_TOO_DEEP, AST_MAX_DEPTH);
            ctx_give_up(p->ctx);
        }
        vec_push(p->ctx, &p->open, t);
        return;
    }
    for (int i = p->open.n - 1; i >= 0; i--) {
        int kind = p->open.data[i].kind;
        if (kind == at[-1]) {
            p->open.n = i;
            return;
        }
        if (kind == '{') return;
    }
}

/// Closes open bodies in front of a definition. A definition cannot stand in a body, so a brace is
/// missing above: reports that, and has the feed insert the braces.
static void close_bodies(Parser *p, Token t) {
    for (int i = 0; i < p->open.n; i++) p->missing += p->open.data[i].kind == '{';
    if (!p->missing) return;
    const char *text = ctx_intern(p->ctx, p->text + t.begin, t.end - t.begin);
    diag(p->ctx, t.loc, D_NESTED_DEFINITION, text);
    Token last = p->open.data[0];
    for (int i = 0; i < p->open.n; i++)
        if (p->open.data[i].kind == '{') last = p->open.data[i];
    diag_note(p->ctx, last.loc, "this '{' is still open");
}

static void remember_token(Parser *p, Token t) {
    p->recent[2] = p->recent[1];
    p->recent[1] = p->recent[0];
    p->recent[0] = t;
    track_brackets(p, t);
}

static bool begins_definition(int kind) {
    return kind == T_KERNEL || kind == T_FN || kind == T_IMPORT || kind == T_CONST;
}

/// The lexer function that Bison calls. While braces are missing it returns braces, then the
/// definition that it held back.
int teglex(TEGSTYPE *value, TEGLTYPE *loc, Parser *p) {
    if (p->missing == 0 && p->held.kind == 0) {
        int kind;
        do kind = lexer_scan(value, loc, p->scanner);
        while (p->skip_header && kind && kind != '{' && kind != '}');
        p->skip_header = false;
        Token t = {kind, *loc, p->start, p->at};
        if (kind == 0) { // flex gives no position for the end of the text
            t.begin = t.end = p->at;
            t.loc = *loc = loc_of_byte(p, p->at);
        }
        if (begins_definition(kind)) close_bodies(p, t);
        p->doc.n = 0;
        if (!p->missing) {
            remember_token(p, t);
            return kind;
        }
        p->held = t;
        p->held_doc = value->doc;
    }
    Token t = p->held;
    if (p->missing) {
        p->missing--;
        t = (Token){'}', t.loc, t.begin, t.begin};
    } else {
        p->held.kind = 0;
        value->doc = p->held_doc;
    }
    remember_token(p, t);
    *loc = t.loc;
    return t.kind;
}
