// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The formatter, second half: line breaks, indentation, long lines. It keeps the author's line ends
// where the rules allow. The rest of the layout depends on the pieces alone, so formatting twice
// changes nothing.
#include "frontend/fmt.h"
#include "frontend/parser.h"

#include <string.h>

/// One line of output. Trailing comments are kept apart, so that neighbours can be aligned.
typedef struct Line {
    int indent;
    Text code;
    const Piece *comment;
} Line;

typedef struct Fmt {
    Ctx *ctx;
    Pieces pieces;
    VEC(int) columns; // for each open ( [ <, the column where its contents begin
    VEC(Line) lines;
} Fmt;

/* ---- line breaks --------------------------------------------------------------------------- */

static bool is_kind(const Fmt *f, int i, int kind) {
    return i >= 0 && i < f->pieces.n && f->pieces.data[i].kind == kind;
}

/// Whether a brace block spans more than one line of the source.
static bool spans_lines(const Fmt *f, int open) {
    int close = f->pieces.data[open].partner;
    for (int i = open + 1; i <= close; i++)
        if (f->pieces.data[i].source_lines || is_line_comment(&f->pieces.data[i])) return true;
    return false;
}

static bool is_clause_word(int kind) {
    return kind == T_TUNE || kind == T_GIVEN || kind == T_REQUIRE || kind == T_SCHEDULE;
}

static bool ends_statement(int kind) {
    return kind == ';' || kind == '{' || kind == '}';
}

/// Whether the brace of a definition stays on its own line, below clauses on lines of their own.
static bool below_clauses(const Fmt *f, int brace) {
    for (int i = brace - 1; i >= 0 && !ends_statement(f->pieces.data[i].kind); i--)
        if (is_clause_word(f->pieces.data[i].kind) && f->pieces.data[i].source_lines) return true;
    return false;
}

/// Whether the piece always follows its predecessor on the same line, even if the author broke the
/// line there.
static bool joins_previous(const Fmt *f, int i) {
    if (is_comment(&f->pieces.data[i - 1])) return false;
    switch (f->pieces.data[i].kind) {
    case ',':
    case ';':
    case ')':
    case ']': return true;
    case T_ELSE: return is_kind(f, i - 1, '}');
    case '{': return !ends_statement(f->pieces.data[i - 1].kind) && !below_clauses(f, i);
    default: return false;
    }
}

/// Whether the line must end in front of piece i.
static bool must_break(const Fmt *f, int i) {
    const Piece *last = &f->pieces.data[i - 1];
    const Piece *x = &f->pieces.data[i];
    if (is_line_comment(last)) return true;
    if (is_line_comment(x) && !x->source_lines) return false;
    if (last->kind == '{' && spans_lines(f, i - 1)) return true;
    if (x->kind == '}' && x->partner >= 0 && spans_lines(f, x->partner)) return true;
    return last->kind == '}' && last->partner >= 0 && spans_lines(f, last->partner) &&
           x->kind != T_ELSE;
}

static void choose_gaps(Fmt *f) {
    for (int i = 0; i < f->pieces.n; i++) {
        Piece *x = &f->pieces.data[i];
        bool inner = i > 0 && !is_kind(f, i - 1, '{') && x->kind != '}' && !joins_previous(f, i);
        if (i == 0)
            x->gap = GAP_NONE;
        else if (x->source_lines > 1 && inner)
            x->gap = GAP_EMPTY_LINE;
        else if (must_break(f, i) || (x->source_lines && !joins_previous(f, i)))
            x->gap = GAP_LINE;
        else
            x->gap = x->glued ? GAP_NONE : GAP_SPACE;
    }
}

static void break_before(Fmt *f, int i, int end) {
    if (i < end && !is_line_comment(&f->pieces.data[i]) && f->pieces.data[i].gap < GAP_LINE)
        f->pieces.data[i].gap = GAP_LINE;
}

/// Puts each statement of a block on a line of its own; nested blocks stay as they are.
static void split_block(Fmt *f, int open, int close) {
    break_before(f, open + 1, close + 1);
    for (int i = open + 1, depth = 0; i < close; i++) {
        depth += is_kind(f, i, '{') - is_kind(f, i, '}');
        bool ends = is_kind(f, i, ';') || (is_kind(f, i, '}') && !is_kind(f, i + 1, T_ELSE));
        if (depth == 0 && ends) break_before(f, i + 1, close);
    }
    break_before(f, close, close + 1);
}

static bool begins_line(const Fmt *f, int i) {
    return f->pieces.data[i].gap >= GAP_LINE;
}

/// Whether the block of the brace at i is not empty and begins on the line of the brace.
static bool is_inline_block(const Fmt *f, int open) {
    int close = f->pieces.data[open].partner;
    for (int i = open + 1; i <= close; i++)
        if (begins_line(f, i)) return false;
    return close > open + 1;
}

/// Splits the line that begins at `from`: puts its first block on lines of its own, or, without a
/// block, each statement.
static bool split_line(Fmt *f, int from) {
    int end = from;
    for (int i = from; i == from || (i < f->pieces.n && !begins_line(f, i)); i++, end = i) {
        if (!is_kind(f, i, '{') || !is_inline_block(f, i)) continue;
        int close = f->pieces.data[i].partner;
        split_block(f, i, close);
        if (!is_kind(f, close + 1, T_ELSE)) break_before(f, close + 1, f->pieces.n);
        return true;
    }
    bool any = false;
    for (int i = from; i + 1 < end; i++) {
        if (!is_kind(f, i, ';') || is_line_comment(&f->pieces.data[i + 1])) continue;
        break_before(f, i + 1, end);
        any = true;
    }
    return any;
}

static int end_of_line(const Fmt *f, int from) {
    int i = from + 1;
    while (i < f->pieces.n && f->pieces.data[i].gap < GAP_LINE) i++;
    return i;
}

/* ---- lines --------------------------------------------------------------------------------- */

static Line *new_line(Fmt *f, int indent) {
    Line l = {.indent = indent, .code = {.ctx = f->ctx}};
    vec_push(f->ctx, &f->lines, l);
    return &f->lines.data[f->lines.n - 1];
}

/// Whether the piece begins a statement, a clause or a definition; `last` is the code piece before
/// it.
static bool begins_statement(const Fmt *f, int i, int last) {
    int kind = last >= 0 ? f->pieces.data[last].kind : ';';
    return ends_statement(kind) || is_kind(f, i, '{') || is_kind(f, i, '}') ||
           (is_clause_word(f->pieces.data[i].kind) && f->columns.n == 0);
}

/// Writes a piece and updates the columns of the open brackets. `at` is the column where it begins.
static void put_line_piece(Fmt *f, Line *line, int i, int at, int fallback) {
    const Piece *x = &f->pieces.data[i];
    text_bytes(&line->code, x->text, (size_t)x->n);
    bool opens = x->kind == '(' || x->kind == '[' || (x->kind == '<' && x->partner > i);
    bool closes =
        x->kind == ')' || x->kind == ']' || (x->kind == '>' && x->partner >= 0 && x->partner < i);
    if (opens) {
        // A bracket beyond half of the width leaves too little room for aligned contents.
        bool far = at + 1 > FMT_WIDTH / 2;
        bool at_end = i + 1 < f->pieces.n && f->pieces.data[i + 1].gap >= GAP_LINE;
        vec_push(f->ctx, &f->columns, at_end || far ? fallback : at + 1);
    }
    if (closes && f->columns.n) f->columns.n--;
}

/// Finds the best break in the pieces [from, over), whose last one exceeds the width; -1 if no
/// break is possible.
static int best_wrap(const Fmt *f, int from, int over) {
    int best = -1, least = WRAP_NEVER;
    for (int i = from + 1; i <= over; i++) {
        const Piece *x = &f->pieces.data[i];
        int cost = x->wrap + WRAP_PER_BRACKET * x->depth;
        if (x->wrap < WRAP_NEVER && cost <= least) {
            least = cost;
            best = i;
        }
    }
    return best;
}

/// Returns the first piece that ends beyond the width if the line begins at `column`, or `end`. A
/// piece counts together with the commas and brackets glued to it.
static int first_over(const Fmt *f, int from, int end, int column) {
    for (int i = from; i < end; i++) {
        const Piece *x = &f->pieces.data[i];
        if (is_line_comment(x) || (i > from && begins_line(f, i))) return end;
        column += x->n + (i > from && x->gap == GAP_SPACE);
        if (column > FMT_WIDTH) return i;
    }
    return end;
}

typedef struct LinePlace {
    int block;     // indentation of the block
    int statement; // the column of this statement's continuation lines
    int last;      // the last code piece
} LinePlace;

static int column_of(Fmt *f, LinePlace *at, int i) {
    const Piece *x = &f->pieces.data[i];
    if (begins_statement(f, i, at->last)) {
        int column = at->block - (x->kind == '}' ? FMT_INDENT : 0);
        at->statement = column + (is_clause_word(x->kind) ? x->n + 1 : FMT_INDENT);
        return column;
    }
    return f->columns.n ? f->columns.data[f->columns.n - 1] : at->statement;
}

/// Writes the pieces [from, end), which belong on one line of the source or by the rules.
static void put_line(Fmt *f, LinePlace *at, int from, int end) {
    while (from < end) {
        int column = column_of(f, at, from);
        int over = first_over(f, from, end, column);
        int stop = over < end ? best_wrap(f, from, over) : end;
        if (stop < 0) stop = end;
        Line *line = new_line(f, column);
        for (int i = from; i < stop; i++) {
            const Piece *x = &f->pieces.data[i];
            if (is_line_comment(x) && i > from) {
                line->comment = x;
                continue;
            }
            if (i > from && x->gap == GAP_SPACE) text_add(&line->code, " ");
            put_line_piece(f, line, i, column + (int)line->code.n, at->statement);
            at->block += x->kind == '{' ? FMT_INDENT : x->kind == '}' ? -FMT_INDENT : 0;
            at->last = is_comment(x) ? at->last : i;
        }
        from = stop;
    }
}

static void put_lines(Fmt *f) {
    LinePlace at = {.last = -1};
    for (int from = 0, end; from < f->pieces.n; from = end) {
        // A long line that holds blocks or several statements is split.
        int n = f->pieces.n;
        while (first_over(f, from, n, column_of(f, &at, from)) < n && split_line(f, from)) continue;
        end = end_of_line(f, from);
        if (f->pieces.data[from].gap == GAP_EMPTY_LINE) new_line(f, 0);
        put_line(f, &at, from, end);
    }
}

/* ---- output -------------------------------------------------------------------------------- */

static int width_at(const Line *l) {
    return l->indent + (int)l->code.n;
}

/// Neighbouring lines with trailing comments. Their comments begin in one column, if they fit.
typedef struct Column {
    int end; // the line after the group
    int at;
    bool fits;
} Column;

static Column measure_group(const Fmt *f, int from) {
    Column c = {.end = from};
    int longest = 0;
    for (; c.end < f->lines.n && f->lines.data[c.end].comment; c.end++) {
        const Line *l = &f->lines.data[c.end];
        c.at = width_at(l) >= c.at ? width_at(l) + 1 : c.at;
        longest = l->comment->n > longest ? l->comment->n : longest;
    }
    c.fits = c.at + longest <= FMT_WIDTH;
    return c;
}

static void write_lines(const Fmt *f, Text *out) {
    text_bytes(out, "", 0);
    Column c = {0};
    for (int i = 0; i < f->lines.n; i++) {
        const Line *l = &f->lines.data[i];
        if (l->code.n) text_add(out, "%*s%s", l->indent, "", l->code.data);
        if (l->comment) {
            if (i >= c.end) c = measure_group(f, i);
            text_add(out, "%*s", c.fits ? c.at - width_at(l) : 1, "");
            text_bytes(out, l->comment->text, (size_t)l->comment->n);
        }
        text_add(out, "\n");
    }
}

char *fe_format(Ctx *ctx, uint16_t file) {
    int before = diag_errors(ctx);
    fe_parse(ctx, file);
    if (diag_errors(ctx) != before) return NULL;
    Parser p;
    parser_init(&p, ctx, file);
    Fmt f = {.ctx = ctx};
    fmt_pieces(&p, &f.pieces);
    choose_gaps(&f);
    put_lines(&f);
    Text out = {.ctx = ctx};
    write_lines(&f, &out);
    return out.data;
}
