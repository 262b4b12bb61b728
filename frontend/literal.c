// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the values of literals, and reports malformed ones.
#include "frontend/syntax.h"

#include "lang/diag.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/// Returns at most 40 bytes of the source, for a message.
static const char *shown_text(Parser *p, const char *text, size_t n) {
    return n > 40 ? ctx_format(p->ctx, "%.37s...", text) : ctx_intern(p->ctx, text, n);
}

static int digit_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1; // an underscore, or the x of 0x
}

Expr *literal_int(Parser *p, Loc loc, const char *text, size_t n) {
    Expr *e = new_expr(p, EX_INT, loc);
    e->integer.spelling = ctx_intern(p->ctx, text, n);
    unsigned base = n > 1 && (text[1] | 32) == 'x' ? 16 : 10;
    bool zero_led = base == 10 && n > 1 && text[0] == '0';
    for (size_t i = base == 16 ? 2 : 0; i < n; i++) {
        int d = digit_value(text[i]);
        if (d < 0) continue;
        if (e->integer.value > (UINT64_MAX - (unsigned)d) / base) {
            diag(p->ctx, loc, D_INT_TOO_LARGE, shown_text(p, text, n));
            return e;
        }
        e->integer.value = e->integer.value * base + (unsigned)d;
    }
    if (zero_led && e->integer.value > 7) {
        diag(p->ctx, loc, D_LEADING_ZERO, shown_text(p, text, n));
        diag_hint(p->ctx, "there are no octal numbers: leave the zero out, or write 0x...");
    }
    return e;
}

/// strtod expects the decimal point of the host program's locale; this function always expects '.'.
static double to_double(const char *digits) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return NAN;
    double v = strtod_l(digits, NULL, c);
    freelocale(c);
    return v;
}

Expr *literal_float(Parser *p, Loc loc, const char *text, size_t n) {
    Expr *e = new_expr(p, EX_FLOAT, loc);
    e->floating.spelling = ctx_intern(p->ctx, text, n);
    char *digits = ctx_alloc(p->ctx, n + 1);
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (text[i] != '_') digits[m++] = text[i];
    e->floating.value = to_double(digits);
    if (isinf(e->floating.value)) {
        diag(p->ctx, loc, D_FLOAT_TOO_LARGE, shown_text(p, text, n));
        diag_hint(p->ctx, "infinity is written inf");
    }
    return e;
}

Expr *literal_string(Parser *p, Loc loc, const char *text, size_t n) {
    Expr *e = new_expr(p, EX_STRING, loc);
    static const char escapes[] = "n\nt\t\\\\\"\"";
    char *s = ctx_alloc(p->ctx, n + 1);
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        s[m++] = text[i];
        if (text[i] != '\\') continue;
        const char *known = escapes;
        while (*known && *known != text[i + 1]) known += 2;
        if (!*known) {
            int shown_bytes = (text[i + 1] & 0x80) == 0;
            diag(p->ctx, loc, D_BAD_ESCAPE, shown_bytes, text + i + 1);
            diag_hint(p->ctx, "known are \\n, \\t, \\\" and \\\\");
            break;
        }
        s[m - 1] = known[1];
        i++;
    }
    e->string.text = ctx_intern(p->ctx, s, m);
    e->string.len = m;
    return e;
}

void bad_number(Parser *p, Loc loc, const char *text, size_t n) {
    size_t digits = strspn(text, "0123456789_");
    bool point = digits < n && text[digits] == '.';
    size_t whole = point ? digits + 1 + strspn(text + digits + 1, "0123456789_") : digits;
    const char *rest = text + whole; // the rest after the well-formed part
    size_t m = n - whole;
    diag(p->ctx, loc, D_BAD_NUMBER, shown_text(p, text, n));
    if (point && whole == digits + 1)
        diag_fix(p->ctx, loc, ctx_format(p->ctx, "%.*s.0", (int)digits, text),
                 "a float has digits on both sides of its point: %.*s.0", (int)digits, text);
    else if (m == 1 && strchr("fFlLdD", *rest))
        diag_fix(p->ctx, loc, ctx_format(p->ctx, "%.*s%s", (int)whole, text, point ? "" : ".0"),
                 "a literal takes its type from the context and has no suffix: %.*s%s", (int)whole,
                 text, point ? "" : ".0");
    else if (m && strchr("uUlL", *rest))
        diag_fix(p->ctx, loc, ctx_format(p->ctx, "%.*s", (int)whole, text),
                 "a literal takes its type from the context and has no suffix: %.*s", (int)whole,
                 text);
    else if (n > 1 && text[0] == '0' && strchr("bBoO", text[1]))
        diag_hint(p->ctx, "numbers are decimal, or hexadecimal as 0xff");
    else if (m && (*rest == 'e' || *rest == 'E'))
        diag_hint(p->ctx, "an exponent is written 1e9 or 1.5e-3");
    else if (n > 1 && text[0] == '0' && (text[1] | 32) == 'x')
        diag_hint(p->ctx, "a hexadecimal number has digits 0-9 and a-f after 0x");
    else
        diag_hint(p->ctx, "a name begins with a letter; a product is written 3 * x");
}

/* ---- stray characters ---------------------------------------------------------------------- */

static const struct {
    const char *text, *hint;
} strays[] = {
    {"#", "there is no preprocessor: write `const N = 4;` or `import \"file.teg\";`"},
    {"@", "a product is `dot(a, b)`; a kernel is marked by the word `kernel`"},
    {"'", "text is written in double quotes"},
    {"`", "text is written in double quotes"},
    {"\\", "lines need no continuation mark"},
    {"\xe2\x80\x98", "text is written in straight double quotes"}, // curly quotes
    {"\xe2\x80\x99", "text is written in straight double quotes"},
    {"\xe2\x80\x9c", "text is written in straight double quotes"},
    {"\xe2\x80\x9d", "text is written in straight double quotes"},
    {"\xc3\x97", "multiplication is `*`"},
    {"\xc2\xb7", "multiplication is `*`"},
    {"\xe2\x88\x92", "this minus is not the one of the keyboard: write `-`"},
    {"\xe2\x80\x93", "this dash is not a minus: write `-`"},
    {"\xe2\x89\xa4", "write `<=`"},
    {"\xe2\x89\xa5", "write `>=`"},
    {"\xe2\x89\xa0", "write `!=`"},
    {"\xc2\xa0", "this is a no-break space: replace it by an ordinary one"},
    {"\xe2\x80\xa6", "a span is written `lo .. hi`"},
};

static unsigned code_point(const char *s, size_t n) {
    unsigned char lead = (unsigned char)*s;
    unsigned c = n == 1 ? lead : lead & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) c = c << 6 | ((unsigned char)s[i] & 0x3f);
    return c;
}

void bad_character(Parser *p, Loc loc, const char *text, size_t n) {
    bool visible = n > 1 || (*text > ' ' && *text < 0x7f);
    const char *what = visible ? ctx_format(p->ctx, "'%.*s'", (int)n, text) : "control character";
    diag(p->ctx, loc, D_BAD_CHARACTER, what, code_point(text, n));
    const char *hint = n > 1 ? "names are made of a-z, A-Z, 0-9 and _" : NULL;
    for (size_t i = 0; i < sizeof strays / sizeof *strays; i++)
        if (strlen(strays[i].text) == n && memcmp(strays[i].text, text, n) == 0)
            hint = strays[i].hint;
    if (hint) diag_hint(p->ctx, "%s", hint);
}
