// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations that lexer, parser and formatter share; private to them.
#ifndef FRONTEND_SYNTAX_H
#define FRONTEND_SYNTAX_H

#include "frontend/frontend.h"

/// A token or comment of the text. `kind` is a T_ code of parser.h, a character, or TOKEN_COMMENT;
/// begin == end for a brace that the parser inserts.
typedef struct Token {
    int kind;
    Loc loc;
    size_t begin, end;
} Token;
typedef VEC(Token) Tokens;

enum { TOKEN_COMMENT = -1, MAX_NAME_BYTES = 255, MAX_ARGUMENTS = 255, MAX_SOURCE_BYTES = 16 << 20 };

typedef struct Parser {
    Ctx *ctx;
    uint16_t file;
    const char *text; // of the file
    size_t len;
    void *scanner;

    // Lexer: begin and end of the last match, and the start of the line that it ended on.
    size_t start, at, line_start;
    uint32_t line;
    Text doc; // `///` lines that no definition has claimed yet
    bool keep_comments;
    Tokens comments; // since the last token, if comments are kept

    // Feed: the last three tokens, newest first, and the open brackets.
    Token recent[3];
    Tokens open;
    uint32_t bad_line; // the line of the last invalid token
    bool skip_header;  // drop all tokens before the next brace
    int missing;       // the number of closing braces still to insert in front of this definition:
    Token held;
    const char *held_doc;

    Module *module;
} Parser;

/* parse.c */
/// Readies the parser for a file. Returns false, with a message, if the bytes are not valid text:
/// not UTF-8, a NUL, too long.
bool parser_init(Parser *p, Ctx *ctx, uint16_t file);

/* lexer.l */
/// Makes p->scanner read the text from its start.
void lexer_start(Parser *p);

/* literal.c */
Expr *literal_int(Parser *p, Loc loc, const char *text, size_t n);
Expr *literal_float(Parser *p, Loc loc, const char *text, size_t n);
/// `text` is the part between the quotes.
Expr *literal_string(Parser *p, Loc loc, const char *text, size_t n);
/// Reports the error in a malformed number.
void bad_number(Parser *p, Loc loc, const char *text, size_t n);
/// Reports a character that begins no token.
void bad_character(Parser *p, Loc loc, const char *text, size_t n);

/* unexpected_token.c */
/// Reports an unexpected newest token. `want` has the parser's names of the tokens that fit.
void syntax_error(Parser *p, const char *const *want, int n);
/// Reports an expression statement `e;` without effect.
void useless_statement(Parser *p, const Expr *e);

/* ast.c: constructors. They compute `depth` and leave by ctx_give_up beyond AST_MAX_DEPTH. */
#define list_push(p, list, x)                                                                      \
    ((list)->at = list_grow((p)->ctx, (list)->at, (list)->n, sizeof *(list)->at),                  \
     (void)((list)->at[(list)->n++] = (x)))
void *list_grow(Ctx *ctx, void *at, int n, size_t size);

Expr *new_expr(Parser *p, ExprKind kind, Loc loc);
Expr *new_name(Parser *p, Name name);
Expr *new_bool(Parser *p, Loc loc, bool value);
Expr *new_tuple(Parser *p, Loc loc, Exprs parts);
Expr *new_unary(Parser *p, Loc loc, UnaryOp op, Expr *x);
Expr *new_binary(Parser *p, Loc loc, BinaryOp op, Loc op_loc, Expr *a, Expr *b);
Expr *new_ternary(Parser *p, Loc loc, Expr *cond, Expr *yes, Expr *no);
Expr *new_cast(Parser *p, Loc loc, Expr *x, Name elem);
Expr *new_call(Parser *p, Loc loc, Expr *callee, Args args);
Expr *new_subscript(Parser *p, Loc loc, Expr *base, Subs subs);
Expr *new_member(Parser *p, Loc loc, Expr *base, Name field);

TypeExpr *new_type(Parser *p, enum TypeExprKind kind, Loc loc, Name elem);
TypeExpr *new_block_type(Parser *p, Loc loc, Name elem, Exprs extents);
TypeExpr *new_tensor_type(Parser *p, Loc loc, Name elem, Expr *ranks, Dims dims);
TypeExpr *new_tuple_type(Parser *p, Loc loc, TypeExprs parts);

Stmt *new_bind(Parser *p, StmtKind kind, Loc loc, Names names, TypeExpr *type, Expr *value);
Stmt *new_assign(Parser *p, Loc loc, BinaryOp op, Expr *place, Expr *value);
Stmt *new_expr_stmt(Parser *p, StmtKind kind, Loc loc, Expr *e);
Stmt *new_if(Parser *p, Loc loc, Expr *cond, Stmt *then, Stmt *otherwise);
Stmt *new_while(Parser *p, Loc loc, Expr *cond, Stmt *body);
Stmt *new_grid(Parser *p, StmtKind kind, Loc loc, Loops loops, Name merge, Stmt *body);
Stmt *new_block(Parser *p, Loc loc, Stmts stmts, Loc end);

#endif
