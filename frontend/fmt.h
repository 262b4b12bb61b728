// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The formatter's view of a source: its tokens and comments, and what stands between them.
// Private to fmt*.c.
#ifndef FRONTEND_FMT_H
#define FRONTEND_FMT_H

#include "frontend/syntax.h"

enum { FMT_WIDTH = 100, FMT_INDENT = 4 };

/// What stands in front of a piece.
typedef enum Gap { GAP_NONE, GAP_SPACE, GAP_LINE, GAP_EMPTY_LINE } Gap;

/// How willingly a long line is broken in front of a piece: smaller is better, brackets make it
/// worse.
enum {
    WRAP_CLAUSE = 1,
    WRAP_COMMA,
    WRAP_LOGIC,
    WRAP_CHOICE,
    WRAP_OPERATOR,
    WRAP_ASSIGN = 13,
    WRAP_PER_BRACKET = 8,
    WRAP_NEVER = 1000
};

typedef struct Piece {
    int kind; // as of Token
    const char *text;
    int n;
    Gap gap;
    int source_lines; // line ends in front of it in the source
    int wrap;
    int depth;   // of ( [ < around it, since the last brace
    int partner; // index of the other bracket, or -1
    bool glued;  // no space in front of it where it does not begin a line
} Piece;
typedef VEC(Piece) Pieces;

/* fmt_pieces.c */
/// The pieces of a source, with roles told apart: `<` that compares or brackets, `-` with one or
/// two operands, `:` of a type, a choice or a subscript. The source must parse.
void fmt_pieces(Parser *p, Pieces *out);

static inline bool is_comment(const Piece *x) {
    return x->kind == TOKEN_COMMENT;
}
/// Runs to the end of its line.
static inline bool is_line_comment(const Piece *x) {
    return is_comment(x) && x->text[1] == '/';
}

#endif
