// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The formatter's view of a source: its tokens and comments, and the white space between them.
// Private to fmt*.c.
#ifndef FRONTEND_FMT_H
#define FRONTEND_FMT_H

#include "frontend/syntax.h"

enum { FMT_WIDTH = 100, FMT_INDENT = 4 };

/// The white space in front of a piece.
typedef enum Gap { GAP_NONE, GAP_SPACE, GAP_LINE, GAP_EMPTY_LINE } Gap;

/// The cost of a line break in front of a piece. Each enclosing bracket adds to it.
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
    int kind; // the kind of the Token
    const char *text;
    int n;
    Gap gap;
    int source_lines; // line ends in front of it in the source
    int wrap;
    int depth;   // the number of enclosing ( [ <, since the last brace
    int partner; // index of the matching bracket, or -1
    bool glued;  // no space in front of it, unless it begins a line
} Piece;
typedef VEC(Piece) Pieces;

/* fmt_pieces.c */
/// Splits a source into pieces and tells their roles apart: `<` as comparison or bracket, `-` with
/// one or two operands, `:` of a type, a choice or a subscript. The source must parse.
void fmt_pieces(Parser *p, Pieces *out);

static inline bool is_comment(const Piece *x) {
    return x->kind == TOKEN_COMMENT;
}
/// Whether the piece runs to the end of its line.
static inline bool is_line_comment(const Piece *x) {
    return is_comment(x) && x->text[1] == '/';
}

#endif
