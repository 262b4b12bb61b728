// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The formatter, first half: turns text into pieces with their spaces and possible line breaks.
#include "frontend/fmt.h"
#include "frontend/parser.h"

#include <string.h>

int lexer_scan(TEGSTYPE *value, TEGLTYPE *loc, void *scanner);

/* ---- collecting ---------------------------------------------------------------------------- */

static int count_lines(const char *from, const char *to) {
    int n = 0;
    for (; from < to; from++) n += *from == '\n';
    return n;
}

static void add_token_piece(Parser *p, Pieces *out, Token t) {
    const char *text = p->text + t.begin;
    const char *before = out->n ? out->data[out->n - 1].text + out->data[out->n - 1].n : p->text;
    Piece x = {.kind = t.kind, .text = text, .n = (int)(t.end - t.begin), .partner = -1};
    x.source_lines = count_lines(before, text);
    // Only a comment can end in blanks.
    while (x.n && strchr(" \t\r\f\v", x.text[x.n - 1])) x.n--;
    vec_push(p->ctx, out, x);
}

static void collect_pieces(Parser *p, Pieces *out) {
    p->keep_comments = true;
    TEGSTYPE value;
    Loc loc;
    for (int kind = 1; kind;) {
        kind = lexer_scan(&value, &loc, p->scanner);
        p->doc.n = 0;
        for (int i = 0; i < p->comments.n; i++) add_token_piece(p, out, p->comments.data[i]);
        p->comments.n = 0;
        if (kind) add_token_piece(p, out, (Token){kind, loc, p->start, p->at});
    }
}

/* ---- roles --------------------------------------------------------------------------------- */

/// An open bracket, or the outermost level.
typedef struct BracketFrame {
    int open;      // index of the bracket
    int kind;      // its character
    int choices;   // `?` without their `:` so far
    bool in_type;  // after the `:` of a declaration
    bool types;    // a parenthesis around types
    bool glue_all; // a `[` that holds a lone `:`
} BracketFrame;

typedef struct PieceRoles {
    Ctx *ctx;
    Pieces *pieces;
    VEC(BracketFrame) frames;
    int last;   // the last code piece, or -1
    bool unary; // the last piece is an operator with one operand, or the `..` of a pack
} PieceRoles;

static BracketFrame *top_frame(PieceRoles *r) {
    return &r->frames.data[r->frames.n - 1];
}

static int kind_at(const PieceRoles *r, int i) {
    return i >= 0 ? r->pieces->data[i].kind : 0;
}

/// Whether the piece ends an operand, so that a following operator has two operands.
static bool ends_operand(int kind) {
    switch (kind) {
    case T_IDENT:
    case T_INT:
    case T_FLOAT:
    case T_STRING:
    case T_TRUE:
    case T_FALSE:
    case T_INF:
    case T_NAN:
    case T_NONE:
    case ')':
    case ']': return true;
    default: return false;
    }
}

static bool holds_type(const BracketFrame *f) {
    return f->in_type || f->types;
}

static int previous_code(const PieceRoles *r, int i) {
    do i--;
    while (i >= 0 && is_comment(&r->pieces->data[i]));
    return i;
}

static bool opens_angle(PieceRoles *r, int i) {
    if (kind_at(r, i) != '<' || kind_at(r, r->last) != T_IDENT) return false;
    int before = kind_at(r, previous_code(r, r->last));
    return before == T_KERNEL || before == T_FN || holds_type(top_frame(r));
}

static void open_frame(PieceRoles *r, int i) {
    BracketFrame f = {.open = i, .kind = kind_at(r, i)};
    int last = kind_at(r, r->last);
    f.types =
        f.kind == '(' && holds_type(top_frame(r)) && (last == ':' || last == ',' || last == '(');
    vec_push(r->ctx, &r->frames, f);
}

static void close_frame(PieceRoles *r, int i) {
    if (r->frames.n < 2) return;
    int open = top_frame(r)->open;
    r->pieces->data[open].partner = i;
    r->pieces->data[i].partner = open;
    r->frames.n--;
}

/// Decides the role of a `:`: the second part of a choice, an entry of a subscript, or the start of
/// a type.
static bool place_colon(PieceRoles *r, Piece *x) {
    BracketFrame *f = top_frame(r);
    if (f->choices) {
        f->choices--;
        x->wrap = WRAP_CHOICE;
        return false;
    }
    int last = kind_at(r, r->last);
    if (f->kind == '[' && (last == '[' || last == ',')) return last == '[';
    f->in_type = true;
    return true;
}

/// Decides the role of a `?`: `T[N]?` or `c ? a : b`.
static bool place_question(PieceRoles *r, Piece *x) {
    if (holds_type(top_frame(r))) return true;
    top_frame(r)->choices++;
    x->wrap = WRAP_CHOICE;
    return false;
}

/// Whether no space stands before piece i; sets r->unary for the piece after it.
static bool is_glued(PieceRoles *r, int i) {
    Piece *x = &r->pieces->data[i];
    int last = kind_at(r, r->last);
    bool after_opener = last == '(' || last == '[' || last == '.' || r->unary ||
                        (last == '<' && top_frame(r)->open == r->last);
    bool operand = ends_operand(last) || (last == '>' && r->pieces->data[r->last].partner >= 0);
    r->unary = false;
    switch (x->kind) {
    case ',':
    case ';':
    case ')':
    case ']': return true;
    case '.': return last != T_INT && last != T_FLOAT; // `2.x` is not a number
    case '(':
    case '[': return operand || after_opener;
    case '<': return opens_angle(r, i);
    case '>': return top_frame(r)->kind == '<';
    case ':': return place_colon(r, x) || after_opener;
    case '?': return place_question(r, x);
    case '-':
    case '!':
    case '~': r->unary = !operand; return after_opener;
    case T_DOTDOT:
        r->unary = last == '[' || (last == ',' && top_frame(r)->kind == '[');
        return after_opener;
    default: return after_opener;
    }
}

static void track_frames(PieceRoles *r, int i, bool angle) {
    Piece *x = &r->pieces->data[i];
    switch (x->kind) {
    case '(':
    case '[':
    case '{':
        if (x->kind == '{') top_frame(r)->in_type = false;
        open_frame(r, i);
        break;
    case ')':
    case ']':
    case '}': close_frame(r, i); break;
    case '<':
        if (angle) open_frame(r, i);
        break;
    case '>':
        if (top_frame(r)->kind == '<') close_frame(r, i);
        break;
    case '=':
    case ',':
    case ';': top_frame(r)->in_type = false; break;
    default: break;
    }
}

/* ---- line breaks --------------------------------------------------------------------------- */

static int operator_wrap(int kind) {
    switch (kind) {
    case ',': return WRAP_COMMA;
    case T_ANDAND:
    case T_OROR: return WRAP_LOGIC;
    case '+':
    case '-':
    case '*':
    case '/':
    case '%':
    case '&':
    case '|':
    case '^':
    case T_SHL:
    case T_SHR:
    case T_EQ:
    case T_NE:
    case T_LE:
    case T_GE: return WRAP_OPERATOR;
    case '=':
    case T_ADDEQ:
    case T_SUBEQ:
    case T_MULEQ:
    case T_DIVEQ: return WRAP_ASSIGN;
    default: return WRAP_NEVER;
    }
}

static bool is_clause(int kind) {
    return kind == T_TUNE || kind == T_GIVEN || kind == T_REQUIRE || kind == T_SCHEDULE ||
           kind == T_WHERE;
}

/// Sets the cost of a break: lines break before `? :` and clauses, and after commas and operators
/// with two operands.
static void place_wrap(PieceRoles *r, int i, bool behind_unary) {
    Piece *x = &r->pieces->data[i];
    int best = is_clause(x->kind) ? WRAP_CLAUSE : x->wrap ? x->wrap : WRAP_NEVER;
    int behind = behind_unary ? WRAP_NEVER : operator_wrap(kind_at(r, r->last));
    x->wrap = behind < best ? behind : best;
    x->depth = 0;
    for (int f = r->frames.n - 1; f > 0 && r->frames.data[f].kind != '{'; f--) x->depth++;
}

void fmt_pieces(Parser *p, Pieces *out) {
    collect_pieces(p, out);
    PieceRoles r = {.ctx = p->ctx, .pieces = out, .last = -1};
    vec_push(p->ctx, &r.frames, (BracketFrame){.open = -1});
    for (int i = 0; i < out->n; i++) {
        Piece *x = &out->data[i];
        bool behind_unary = r.unary;
        if (is_comment(x)) {
            x->wrap = WRAP_NEVER;
            continue;
        }
        bool angle = opens_angle(&r, i);
        x->glued = is_glued(&r, i);
        place_wrap(&r, i, behind_unary);
        track_frames(&r, i, angle);
        r.last = i;
    }
}
