// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text in front of the cursor: open brackets, calls, strings and comments. It works on any
// text, also while a statement is incomplete.
#include "tools/tegula/lsp/lsp.h"

#include <string.h>

bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Returns the end of the comment or string at `at`, or `offset` if the cursor is in it.
static size_t skip_comment(const char *text, size_t at, size_t offset, Cursor *c) {
    bool line = text[at + 1] == '/';
    size_t i = at + 2;
    for (; i < offset; i++) {
        if (line && text[i] == '\n') return i;
        if (!line && i > at + 2 && text[i] == '/' && text[i - 1] == '*') return i + 1;
    }
    c->place = IN_COMMENT;
    return offset;
}

static size_t skip_string(const char *text, size_t at, size_t offset, Cursor *c) {
    for (size_t i = at + 1; i < offset; i++) {
        if (text[i] == '"' || text[i] == '\n') return i + 1;
        i += text[i] == '\\';
    }
    bool import = c->n_last == 6 && memcmp(c->last, "import", 6) == 0;
    c->place = import ? IN_IMPORT : IN_STRING;
    c->string = at + 1;
    return offset;
}

static void open_bracket(Cursor *c, char kind, size_t at) {
    if (c->n_open == MAX_OPEN) return;
    bool called = kind == '(' && c->last && is_name_byte(*c->last);
    c->open[c->n_open++] = (OpenBracket){.kind = kind,
                                         .name = called ? c->last : NULL,
                                         .n_name = called ? c->n_last : 0,
                                         .argument = at + 1};
}

/// A closing bracket ends its partner and all brackets left open inside; `)` and `]` end no brace.
static void close_bracket(Cursor *c, char kind) {
    char opener = kind == ')' ? '(' : kind == ']' ? '[' : '{';
    for (int i = c->n_open - 1; i >= 0; i--) {
        if (c->open[i].kind == opener) {
            c->n_open = i;
            return;
        }
        if (c->open[i].kind == '{') return;
    }
}

static void take_sign(Cursor *c, const char *text, size_t at) {
    char s = text[at];
    if (strchr("([{", s)) open_bracket(c, s, at);
    if (strchr(")]}", s)) close_bracket(c, s);
    if (s == ';') // a statement ends all brackets within its block
        while (c->n_open && c->open[c->n_open - 1].kind != '{') c->n_open--;
    if (s == ',' && c->n_open) {
        c->open[c->n_open - 1].commas++;
        c->open[c->n_open - 1].argument = at + 1;
    }
    c->last = text + at;
    c->n_last = 1;
}

void cursor_scan(const char *text, size_t offset, Cursor *c) {
    memset(c, 0, offsetof(Cursor, open));
    c->word = offset;
    for (size_t i = 0; i < offset;) {
        if (text[i] == '/' && i + 1 < offset && (text[i + 1] == '/' || text[i + 1] == '*')) {
            i = skip_comment(text, i, offset, c);
        } else if (text[i] == '"') {
            i = skip_string(text, i, offset, c);
        } else if (is_name_byte(text[i])) {
            size_t begin = i;
            while (i < offset && is_name_byte(text[i])) i++;
            c->word = begin;
            if (i == offset) return;
            c->last = text + begin;
            c->n_last = i - begin;
        } else {
            if (!strchr(" \t\r\n\f\v", text[i])) take_sign(c, text, i);
            i++;
        }
    }
    c->word = offset;
}
