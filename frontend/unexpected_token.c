// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages for an unexpected token: the expected tokens by class, and a hint if the text looks like
// a habit from another language.
#include "frontend/syntax.h"

#include "lang/diag.h"

#include <ctype.h>
#include <string.h>

/* ---- expected tokens ----------------------------------------------------------------------- */

/// Classes of tokens that a message names together. A token may belong to several: '(' begins an
/// expression, and continues one as a call.
enum { EXPR = 1, MORE = 2, ASSIGN = 4, STMT = 8, ITEM = 16, CLAUSE = 32, TYPE = 64 };

static const struct {
    const char *token;
    int classes;
} token_classes[] = {
    {"an integer", EXPR | STMT},
    {"a float", EXPR | STMT},
    {"a string", EXPR | STMT},
    {"a name", EXPR | STMT},
    {"'('", EXPR | STMT | MORE | TYPE},
    {"'-'", EXPR | MORE},
    {"'!'", EXPR},
    {"'~'", EXPR},
    {"'true'", EXPR | STMT},
    {"'false'", EXPR | STMT},
    {"'inf'", EXPR | STMT},
    {"'nan'", EXPR | STMT},
    {"'['", MORE | TYPE},
    {"'.'", MORE},
    {"'*'", MORE},
    {"'/'", MORE},
    {"'%'", MORE},
    {"'+'", MORE},
    {"'<<'", MORE},
    {"'>>'", MORE},
    {"'&'", MORE},
    {"'^'", MORE},
    {"'|'", MORE},
    {"'<'", MORE | TYPE},
    {"'>'", MORE},
    {"'<='", MORE},
    {"'>='", MORE},
    {"'=='", MORE},
    {"'!='", MORE},
    {"'&&'", MORE},
    {"'||'", MORE},
    {"'?'", MORE | TYPE},
    {"'as'", MORE},
    {"'..'", MORE},
    {"'by'", MORE},
    {"'merge'", MORE},
    {"'where'", MORE},
    {"'='", ASSIGN | MORE},
    {"'+='", ASSIGN},
    {"'-='", ASSIGN},
    {"'*='", ASSIGN},
    {"'/='", ASSIGN},
    {"'let'", STMT},
    {"'var'", STMT},
    {"'scratch'", STMT},
    {"'if'", STMT},
    {"'while'", STMT},
    {"'for'", STMT},
    {"'parallel'", STMT},
    {"'return'", STMT},
    {"'{'", STMT},
    {"'kernel'", ITEM},
    {"'fn'", ITEM},
    {"'import'", ITEM},
    {"'const'", ITEM | TYPE},
    {"'tune'", CLAUSE},
    {"'given'", CLAUSE},
    {"'require'", CLAUSE},
    {"'schedule'", CLAUSE},
    {"'sym'", TYPE},
};

/// If `sign` is among the wanted tokens, its class is wanted. The message then names the class by
/// `phrase`, or, without a phrase, omits its tokens. The first match gives the phrase.
static const struct {
    const char *sign, *phrase;
    int covers;
} wanted_classes[] = {
    {"'fn'", "a definition", ITEM},
    {"'let'", "a statement", STMT | EXPR},
    {"an integer", "an expression", EXPR},
    {"'sym'", "a type", TYPE | EXPR},
    {"'tune'", "a clause", CLAUSE},
    {"'+='", "'='", ASSIGN},
    {"'.'", NULL, MORE},
    {"'*'", NULL, MORE},
    {"'?'", NULL, TYPE},
};

enum { MAX_PHRASES = 6 };

typedef struct WantedTokens {
    const char *const *tokens;
    int n;
    const char *phrases[MAX_PHRASES]; // a message names no more
    int n_phrases;
} WantedTokens;

static bool wants_token(const WantedTokens *w, const char *token) {
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->tokens[i], token) == 0) return true;
    return false;
}

static int classes_of(const char *token) {
    for (size_t i = 0; i < sizeof token_classes / sizeof *token_classes; i++)
        if (strcmp(token_classes[i].token, token) == 0) return token_classes[i].classes;
    return 0;
}

static void add_phrase(WantedTokens *w, const char *phrase) {
    for (int i = 0; i < w->n_phrases; i++)
        if (strcmp(w->phrases[i], phrase) == 0) return;
    if (w->n_phrases < MAX_PHRASES) w->phrases[w->n_phrases++] = phrase;
}

static void find_phrases(WantedTokens *w) {
    int covered = 0;
    for (size_t i = 0; i < sizeof wanted_classes / sizeof *wanted_classes; i++) {
        if (!wants_token(w, wanted_classes[i].sign) ||
            (covered & EXPR && wanted_classes[i].covers == MORE))
            continue;
        // A statement also covers expressions; one phrase names both.
        if (wanted_classes[i].phrase && !(covered & wanted_classes[i].covers & EXPR))
            add_phrase(w, wanted_classes[i].phrase);
        covered |= wanted_classes[i].covers;
    }
    // The brackets after the name of a type are not worth a mention.
    if (!covered && wants_token(w, "'['") && wants_token(w, "'<'")) covered = TYPE;
    // Extents have no comparisons, so there `>` is the closing bracket.
    bool closes = !wants_token(w, "'<'");
    for (int i = 0; i < w->n; i++) {
        bool bracket = closes && strcmp(w->tokens[i], "'>'") == 0;
        if (bracket || !(classes_of(w->tokens[i]) & covered)) add_phrase(w, w->tokens[i]);
    }
    if (!w->n_phrases) add_phrase(w, "an operator");
}

/// "a, b or c".
static const char *join_phrases(Ctx *ctx, const WantedTokens *w) {
    Text t = {.ctx = ctx};
    for (int i = 0; i < w->n_phrases; i++)
        text_add(&t, "%s%s", i == 0 ? "" : i == w->n_phrases - 1 ? " or " : ", ", w->phrases[i]);
    return t.data;
}

/* ---- found tokens -------------------------------------------------------------------------- */

static const char *token_text(const Parser *p, Token t) {
    return t.begin == t.end && t.kind == '}'
               ? "}"
               : ctx_intern(p->ctx, p->text + t.begin, t.end - t.begin);
}

static const char *describe_token(Parser *p, Token t) {
    if (t.kind == 0) return "the end of the file";
    if (t.begin < t.end && p->text[t.begin] == '"') return "a string";
    const char *text = token_text(p, t);
    return strlen(text) > 40 ? ctx_format(p->ctx, "'%.37s...'", text)
                             : ctx_format(p->ctx, "'%s'", text);
}

static bool is_word_token(const char *text) {
    return isalpha((unsigned char)*text) || *text == '_';
}

static bool is_reserved(const char *text) {
    static const char *const words[] = {
#define KEYWORD(id, word) word,
#include "lang/keywords.def"
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], text) == 0) return true;
    return false;
}

/* ---- habits -------------------------------------------------------------------------------- */

/// A habit from another language, and its hint. A pattern is NULL (matches anything), "@name",
/// "@number", "@ctype", or texts separated by blanks. `before` and `last` match the two tokens in
/// front of the unexpected one, `next` the text after it, `want` a token that would fit, `top` the
/// innermost open bracket.
typedef struct Habit {
    const char *before, *last, *found, *next, *want, *hint;
    const char *fix; // the text for the unexpected token that makes it right, or NULL
    char top;
} Habit;

static const Habit habits[] = {
    // Expressions.
    {.before = "<",
     .found = ">",
     .want = "'&&'",
     .hint = "expressions have no type arguments: calls infer them, `as` takes an element type"},
    {.found = "< > <= >= == !=",
     .want = "'&&'",
     .hint = "comparisons do not chain: write `a < b && b < c`"},
    {.found = "=",
     .want = "'&&'",
     .hint = "`==` compares; an assignment is a statement of its own"},
    {.found = "if", .want = "'&&'", .hint = "`c ? a : b` chooses a value"},
    {.found = "where", .want = "an integer", .hint = "`c ? a : b` chooses lane by lane"},
    {.found = "and", .want = "'&&'", .hint = "write `&&`", .fix = "&&"},
    {.found = "or", .want = "'||'", .hint = "write `||`", .fix = "||"},
    {.last = "not", .found = "@name", .hint = "write `!`"},
    {.last = "+", .found = "+", .hint = "there is no `++`: write `i += 1;`"},
    {.found = "+", .next = "+", .want = "'+='", .hint = "there is no `++`: write `i += 1;`"},
    {.found = "-", .next = "-", .want = "'-='", .hint = "there is no `--`: write `i -= 1;`"},
    {.last = "-", .found = ";", .hint = "there is no `--`: write `i -= 1;`"},
    {.last = "-", .found = ">", .hint = "there are no pointers: write `.`"},
    {.last = "*", .found = "*", .hint = "there is no `**`: write `pow(a, b)`"},
    {.last = "/", .found = "/", .hint = "integer division is `/`"},
    {.last = ".", .found = "..", .hint = "a span has two points: `lo .. hi`"},
    {.last = "..", .found = ".", .hint = "a span has two points: `lo .. hi`"},
    {.found = ".",
     .want = "an integer",
     .hint = "a float has digits on both sides of its point: 0.5"},
    {.found = "..", .want = "'&&'", .hint = "outside a loop header a range is `range(lo, hi, B)`"},
    {.found = ":", .want = "']'", .hint = "a slice is written `lo .. hi`", .fix = ".."},
    {.before = "@ctype",
     .last = ")",
     .found = "@name @number (",
     .hint = "a cast is written `x as f32`"},
    {.found = "{ [",
     .want = "an integer",
     .hint = "a tuple is written `(a, b)`; there are no lists"},
    {.found = "if for while let var",
     .want = "an integer",
     .hint = "statements are not expressions: `c ? a : b` chooses a value"},
    {.found = "& *", .want = "an integer", .hint = "there are no pointers and no addresses"},
    {.found = ")", .last = ",", .hint = "remove the comma before the closing bracket"},
    {.found = "]", .last = ",", .hint = "remove the comma before the closing bracket"},
    {.found = "+= -= *= /=", .want = "'&&'", .hint = "an assignment is a statement of its own"},
    // Statements.
    {.found = "% & ^ | << >>",
     .next = "=",
     .want = "'+='",
     .hint = "only `= += -= *= /=` assign: write `x = x % y;`"},
    {.found = "==", .want = "'='", .hint = "`=` assigns, `==` compares", .fix = "="},
    {.last = ":", .found = "=", .hint = "write `let x = ...;` or `var x = ...;`"},
    {.found = ":", .want = "'+='", .next = "=", .hint = "write `let x = ...;` or `var x = ...;`"},
    {.found = ":", .want = "'+='", .hint = "a variable is declared by `let` or `var`"},
    {.last = "elif elsif elseif", .hint = "write `else if`"},
    {.last = "else", .found = "@name", .hint = "bodies always stand in braces"},
    {.last = "def func function",
     .found = "@name",
     .hint = "a function is written `fn name(a, b) { ... }`"},
    {.last = "void", .found = "@name", .hint = "a function is written `fn name(a, b) { ... }`"},
    {.last = "@ctype const static auto",
     .found = "@name",
     .want = "'+='",
     .hint = "a variable is written `let x = 1;` or `var x: f32 = 1;`"},
    {.last = "@ctype",
     .found = "*",
     .hint = "there are no pointers: a tensor is written `x: f32[N]`"},
    {.found = ";", .want = "'let'", .hint = "there are no empty statements"},
    {.found = ",", .want = "'+='", .hint = "several are assigned as tuples: `(a, b) = (b, a);`"},
    {.before = "const", .found = ":", .hint = "a constant has no type: it takes that of its use"},
    {.found = ",",
     .want = "'='",
     .top = '{',
     .hint = "a tuple is taken apart by `let (a, b) = t;`"},
    {.last = "print assert",
     .want = "'+='",
     .hint = "the arguments of a call stand in parentheses"},
    {.found = ";", .want = "'='", .top = '{', .hint = "every variable starts with a value"},
    {.found = "(", .last = "for", .hint = "a loop is written `for i in 0 .. n { ... }`"},
    {.found = "(", .last = "parallel", .hint = "a grid is written `parallel m in M by BM { ... }`"},
    {.found = "=", .want = "'in'", .hint = "a loop is written `for i in 0 .. n { ... }`"},
    {.found = "else", .hint = "an `else` follows the `}` of an `if`"},
    {.found = ":", .want = "'tune'", .hint = "only a fn has a result type"},
    {.found = ":", .want = "'{'", .hint = "a body is written in braces"},
    {.found = "then do", .want = "'{'", .hint = "a body is written in braces"},
    {.found = "to until",
     .want = "'{'",
     .hint = "a range is written `0 .. n`, without its end",
     .fix = ".."},
    {.before = "tune schedule given",
     .found = "in : ==",
     .want = "'='",
     .hint = "alternatives follow `=`: `tune B = 64 | 128`"},
    {.last = "tune", .found = "(", .hint = "values stand without parentheses: `tune B = 64 | 128`"},
    {.found = "where",
     .want = "'tune'",
     .hint = "`where` follows the values of `tune`; a condition on dims is `require N % 8 == 0`"},
    {.found = "step", .want = "'by'", .hint = "the step follows `by`", .fix = "by"},
    {.found = "=", .want = "'{'", .hint = "a body is written in braces: `{ return e; }`"},
    {.found = "@name @number return let var if for while",
     .want = "'{'",
     .hint = "bodies always stand in braces"},
    // Definitions.
    {.found = "let var", .want = "'fn'", .hint = "a constant is written `const A = 3;`"},
    {.found = "@name",
     .want = "'fn'",
     .hint = "a definition is `kernel f(...) { ... }`, `fn f(...) { ... }` or `const A = 3;`"},
    {.before = "@number",
     .last = ",",
     .found = "@number",
     .hint = "`|` separates alternatives: `tune B = 64 | 128`"},
    {.last = "import", .hint = "a file is named by a string: `import \"std/merge.teg\";`"},
    {.found = "-", .next = ">", .want = "'{'", .hint = "a result type is written `fn f(a): f32`"},
    {.found = "] , )",
     .last = "@name",
     .want = "':'",
     .top = '(',
     .hint = "a kernel's parameter has a type: `x: f32[N]`, `n: i64`"},
    {.found = "> ,", .want = "':'", .hint = "a type parameter has a constraint: `T: float`"},
    {.found = "*",
     .want = "':'",
     .top = '(',
     .hint = "there are no pointers: a tensor is written `x: f32[N]`"},
    {.last = "@ctype",
     .found = "@name",
     .want = "':'",
     .top = '(',
     .hint = "the name comes first: `n: i64`, `x: f32[N]`"},
    {.last = "]",
     .found = "[",
     .hint = "the dimensions stand in one bracket: `f32[M, N]`; memory of W ranks is "
             "`sym f32[W][M, N]`"},
    {.last = "]",
     .found = ", ) ?",
     .want = "'['",
     .hint = "the number of ranks goes in a bracket of its own: `sym f32[W][M, N]`"},
};

static const char ctypes[] =
    "int float double char long short unsigned signed bool void half size_t "
    "uint int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t "
    "i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64";

/// Whether the text is one of the blank-separated words of `list`.
static bool is_listed_word(const char *list, const char *text) {
    size_t n = strlen(text);
    for (const char *s = list; n && (s = strstr(s, text)) != NULL; s += n)
        if ((s == list || s[-1] == ' ') && (s[n] == ' ' || !s[n])) return true;
    return false;
}

static bool fits_pattern(const char *pattern, const char *text) {
    if (!pattern) return true;
    return is_listed_word(pattern, text) ||
           (strstr(pattern, "@name") && is_word_token(text) && !is_reserved(text)) ||
           (strstr(pattern, "@number") && isdigit((unsigned char)*text)) ||
           (strstr(pattern, "@ctype") && is_listed_word(ctypes, text));
}

static const Habit *find_habit(Parser *p, const WantedTokens *w) {
    const char *texts[3];
    for (int i = 0; i < 3; i++) texts[i] = token_text(p, p->recent[i]);
    // The feed has processed the newest token already. A bracket that this token opened does not
    // enclose it; a bracket that it closed does.
    int top = p->open.n - 1;
    if (top >= 0 && p->open.data[top].begin == p->recent[0].begin)
        top--;
    else if (strchr(")]}", texts[0][0]) && texts[0][0] && p->open.n < p->open.cap)
        top++;
    const char *next = p->text + p->recent[0].end;
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        const Habit *h = &habits[i];
        if (fits_pattern(h->found, texts[0]) && fits_pattern(h->last, texts[1]) &&
            fits_pattern(h->before, texts[2]) && (!h->next || *next == *h->next) &&
            (!h->want || wants_token(w, h->want)) &&
            (!h->top || (top >= 0 && p->open.data[top].kind == h->top)))
            return h;
    }
    return NULL;
}

/// Finds a misspelt keyword in the first of two names: `kernal f(`, `retrun x`.
static const char *meant_word(Parser *p, const WantedTokens *w) {
    static const char *const items[] = {"kernel", "fn", "import", "const"};
    static const char *const stmts[] = {"let",   "var",    "if",      "else",    "for",
                                        "while", "return", "scratch", "parallel"};
    static const char *const clauses[] = {"tune", "given", "require", "schedule", "where"};
    const char *found = token_text(p, p->recent[0]), *last = token_text(p, p->recent[1]);
    if (is_word_token(found) && wants_token(w, "'fn'"))
        return closest_name(found, items, sizeof items / sizeof *items);
    if (is_word_token(found) && wants_token(w, "'tune'"))
        return closest_name(found, clauses, sizeof clauses / sizeof *clauses);
    if (is_word_token(last) && !is_reserved(last) && wants_token(w, "'+='"))
        return closest_name(last, stmts, sizeof stmts / sizeof *stmts);
    return NULL;
}

/* ---- the message --------------------------------------------------------------------------- */

/// Adds a note at the open bracket if its closing bracket was expected and the two are on different
/// lines.
static void note_opener(Parser *p, const WantedTokens *w) {
    static const char *const closers[] = {"')'", "']'", "'}'"};
    Token found = p->recent[0];
    for (int i = p->open.n - 1; i >= 0; i--) {
        Token t = p->open.data[i];
        if (t.begin == found.begin) continue;
        const char *closer = closers[t.kind == '(' ? 0 : t.kind == '[' ? 1 : 2];
        bool ends = !found.kind || strchr(")]};{", found.kind);
        if (ends && wants_token(w, closer) && (found.kind == 0 || found.loc.line != t.loc.line))
            diag_note(p->ctx, t.loc, "to match this '%c'", t.kind);
        return;
    }
}

/// Returns the location for a missing ';' or ')': the end of the last token, not the start of the
/// next line.
static Loc end_of_last(const Parser *p) {
    Loc loc = p->recent[1].loc;
    loc.col = (uint16_t)(loc.col + loc.len);
    loc.len = 1;
    return loc;
}

static bool is_misplaced_word(const WantedTokens *w, const char *text) {
    return is_reserved(text) && wants_token(w, "a name") && !wants_token(w, "an integer") &&
           !wants_token(w, "'sym'");
}

/// Reports a token that is missing at the end of a line, and offers to insert it.
static void expected_before(Parser *p, const WantedTokens *w, const char *what) {
    Loc end = end_of_last(p);
    const char *quoted = w->phrases[0];
    diag(p->ctx, end, D_EXPECTED_BEFORE, join_phrases(p->ctx, w), what);
    end.len = 0;
    if (w->n_phrases == 1 && strlen(quoted) > 2)
        diag_offer(p->ctx, end, ctx_intern(p->ctx, quoted + 1, strlen(quoted) - 2));
}

static void report_unexpected(Parser *p, const WantedTokens *w) {
    Token found = p->recent[0], last = p->recent[1];
    bool next_line = last.loc.line && found.loc.line > last.loc.line;
    const char *what = describe_token(p, found);
    if (is_misplaced_word(w, token_text(p, found)))
        diag(p->ctx, found.loc, D_RESERVED, token_text(p, found));
    else if (next_line && w->phrases[0][0] == '\'')
        expected_before(p, w, what);
    else
        diag(p->ctx, found.loc, D_EXPECTED, join_phrases(p->ctx, w), what);
}

void syntax_error(Parser *p, const char *const *want, int n) {
    WantedTokens w = {.tokens = want, .n = n};
    // After an invalid character or an unterminated string, the rest of the line causes no further
    // messages.
    uint32_t bad = p->bad_line;
    if (bad && (bad == p->recent[0].loc.line || bad == p->recent[1].loc.line)) return;
    find_phrases(&w);
    report_unexpected(p, &w);
    note_opener(p, &w);
    const Habit *habit = find_habit(p, &w);
    const char *hint = habit ? habit->hint : NULL, *word = meant_word(p, &w);
    const char *found = token_text(p, p->recent[0]);
    if (word && (!hint || !wants_token(&w, "'+='")))
        diag_fix(p->ctx, p->recent[wants_token(&w, "'+='")].loc, word, "did you mean '%s'?", word);
    else if (hint)
        diag_fix(p->ctx, habit->fix ? p->recent[0].loc : (Loc){0}, habit->fix ? habit->fix : "",
                 "%s", hint);
    else if (is_reserved(found) && wants_token(&w, "an integer"))
        diag_hint(p->ctx, "'%s' is a reserved word", found);
    // The header of a C loop contains semicolons, which are not places to resume parsing.
    p->skip_header = strcmp(found, "(") == 0 && strcmp(token_text(p, p->recent[1]), "for") == 0;
}

/* ---- statements without effect ------------------------------------------------------------- */

static const struct {
    const char *word, *hint;
} useless_words[] = {
    {"break", "there is no `break`: use `while` with a condition, or `return;` outside loops"},
    {"continue", "there is no `continue`: use `if`"},
    {"pass", "an empty body is `{ }`"},
};

void useless_statement(Parser *p, const Expr *e) {
    diag(p->ctx, e->loc, D_USELESS_STATEMENT);
    const char *hint = "a statement is a call, an assignment, or begins with a word such as `let`";
    for (size_t i = 0; i < sizeof useless_words / sizeof *useless_words; i++)
        if (e->kind == EX_NAME && strcmp(e->name, useless_words[i].word) == 0)
            hint = useless_words[i].hint;
    diag_hint(p->ctx, "%s", hint);
}
