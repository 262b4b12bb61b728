// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The syntax tree of one source file, and the entry points that make and print it.
//
// Nodes live in the arena of the compile context and never change after parsing. All texts (names,
// spellings) are interned, so equal names are equal pointers. Statements and expressions together
// nest at most AST_MAX_DEPTH levels, so recursive walks need no guard.
#ifndef FRONTEND_AST_H
#define FRONTEND_AST_H

#include "lang/base.h"

enum { AST_MAX_DEPTH = 200 };

/// An array of T in the arena: `for (int i = 0; i < list.n; i++) use(list.at[i]);`
#define AST_LIST(T)                                                                                \
    struct {                                                                                       \
        T *at;                                                                                     \
        int n;                                                                                     \
    }

typedef struct Expr Expr;
typedef struct Stmt Stmt;
typedef struct TypeExpr TypeExpr;

/// An identifier and its place in the source; text is NULL for an omitted optional name.
typedef struct Name {
    const char *text;
    Loc loc;
} Name;

typedef AST_LIST(Name) Names;
typedef AST_LIST(Expr *) Exprs;
typedef AST_LIST(Stmt *) Stmts;
typedef AST_LIST(TypeExpr *) TypeExprs;

/* ---- expressions --------------------------------------------------------------------------- */

#define AST_EXPRS(X)                                                                               \
    X(INT, "int")                                                                                  \
    X(FLOAT, "float")                                                                              \
    X(STRING, "string")                                                                            \
    X(BOOL, "bool")                                                                                \
    X(INF, "inf")                                                                                  \
    X(NAN, "nan")                                                                                  \
    X(NAME, "name")                                                                                \
    X(TUPLE, "tuple")                                                                              \
    X(UNARY, "unary")                                                                              \
    X(BINARY, "binary")                                                                            \
    X(TERNARY, "ternary")                                                                          \
    X(CAST, "cast")                                                                                \
    X(CALL, "call")                                                                                \
    X(SUBSCRIPT, "subscript")                                                                      \
    X(MEMBER, "member")

typedef enum ExprKind {
#define X(id, name) EX_##id,
    AST_EXPRS(X)
#undef X
} ExprKind;

#define AST_UNARIES(X)                                                                             \
    X(NEG, "-")                                                                                    \
    X(NOT, "!")                                                                                    \
    X(INV, "~")

typedef enum UnaryOp {
#define X(id, spelling) UN_##id,
    AST_UNARIES(X)
#undef X
} UnaryOp;

/// Loosest binding first, from OR on. Comparisons are not associative.
#define AST_BINARIES(X)                                                                            \
    X(OR, "||")                                                                                    \
    X(AND, "&&")                                                                                   \
    X(LT, "<")                                                                                     \
    X(GT, ">")                                                                                     \
    X(LE, "<=")                                                                                    \
    X(GE, ">=")                                                                                    \
    X(EQ, "==")                                                                                    \
    X(NE, "!=")                                                                                    \
    X(BITOR, "|")                                                                                  \
    X(BITXOR, "^")                                                                                 \
    X(BITAND, "&")                                                                                 \
    X(SHL, "<<")                                                                                   \
    X(SHR, ">>")                                                                                   \
    X(ADD, "+")                                                                                    \
    X(SUB, "-")                                                                                    \
    X(MUL, "*")                                                                                    \
    X(DIV, "/")                                                                                    \
    X(REM, "%")

typedef enum BinaryOp {
#define X(id, spelling) BI_##id,
    AST_BINARIES(X)
#undef X
        BI_COUNT,
    BI_NONE = BI_COUNT // a plain `=` assignment
} BinaryOp;

/// One argument of a call; named arguments follow the positional ones.
typedef struct Arg {
    Name name; // `axis` in `axis = 1`
    Expr *value;
} Arg;
typedef AST_LIST(Arg) Args;

/// One entry between the brackets of a subscript.
typedef struct Sub {
    enum SubKind {
        SUB_EXPR,  // lo: an index, a range, an integer block
        SUB_SPAN,  // lo .. hi, a constant slice
        SUB_ALL,   // :
        SUB_NEW,   // None, a new axis of extent 1
        SUB_NAMED, // name = lo, such as `pad = -inf`; these come last
    } kind;
    Loc loc;
    Name name;
    Expr *lo, *hi;
} Sub;
typedef AST_LIST(Sub) Subs;

struct Expr {
    ExprKind kind;
    uint16_t depth; // of the subtree, at most AST_MAX_DEPTH; a chain of operators is one level
    bool parens;    // was written in parentheses
    Loc loc;        // from its first token to the end of that line at most
    union {
        struct {
            uint64_t value;
            const char *spelling; // as written: 1_000, 0xff
        } integer;
        struct {
            double value; // correctly rounded
            const char *spelling;
        } floating;
        struct {
            const char *text; // escapes resolved; holds no NUL byte
            size_t len;
        } string;
        bool boolean;
        const char *name;
        Exprs tuple; // two or more
        struct {
            UnaryOp op;
            Expr *x;
        } unary;
        struct {
            BinaryOp op;
            Loc op_loc;
            Expr *a, *b;
            Expr *outer; // the operator that has this one as its left operand, or NULL
        } binary;
        struct {
            Expr *cond, *yes, *no;
        } ternary;
        struct {
            Expr *x;
            Name elem; // f32, or a type parameter
        } cast;
        struct {
            Expr *callee; // any postfix expression; a NAME in every correct program
            Args args;
        } call;
        struct {
            Expr *base; // `c[r][m, n]` is a SUBSCRIPT of a SUBSCRIPT
            Subs subs;
        } subscript;
        struct {
            Expr *base;
            Name field;
        } member;
    };
};

/* ---- types --------------------------------------------------------------------------------- */

/// One dimension of a tensor type: an expression (a new name binds it), or `..N`.
typedef struct Dim {
    bool pack;
    Expr *expr; // a NAME if pack is set
} Dim;
typedef AST_LIST(Dim) Dims;

struct TypeExpr {
    enum TypeExprKind {
        TY_SCALAR, // elem
        TY_BLOCK,  // elem<extents>; also range<B>, whose elem is "range"
        TY_TENSOR, // elem[dims]; rank 0 has no dims
        TY_TUPLE,  // (parts), two or more
    } kind;
    uint16_t depth;
    bool sym; // TENSOR: `sym elem[dims 0][dims 1...]`
    Loc loc;
    Name elem;
    Exprs extents;
    Dims dims;
    TypeExprs parts;
};

/* ---- statements ---------------------------------------------------------------------------- */

#define AST_STMTS(X)                                                                               \
    X(LET, "let")                                                                                  \
    X(VAR, "var")                                                                                  \
    X(SCRATCH, "scratch")                                                                          \
    X(ASSIGN, "assign")                                                                            \
    X(EXPR, "expr")                                                                                \
    X(IF, "if")                                                                                    \
    X(WHILE, "while")                                                                              \
    X(FOR, "for")                                                                                  \
    X(PARALLEL, "parallel")                                                                        \
    X(RETURN, "return")                                                                            \
    X(BLOCK, "block")

typedef enum StmtKind {
#define X(id, name) ST_##id,
    AST_STMTS(X)
#undef X
} StmtKind;

/// `index in lo .. hi by step`; lo is NULL in `index in hi`, step is NULL without `by`.
typedef struct Loop {
    Name index;
    Expr *lo, *hi, *step;
    Loc loc;
} Loop;

typedef AST_LIST(Loop) Loops;

struct Stmt {
    StmtKind kind;
    uint16_t depth;
    Loc loc;
    union {
        struct {            // LET, VAR, SCRATCH
            Names names;    // one, or the pattern of a tuple
            bool pattern;   // was `(a, b)`
            TypeExpr *type; // NULL if it is inferred; then there is one name
            Expr *value;    // NULL in SCRATCH
        } bind;
        struct {
            BinaryOp op; // BI_NONE, ADD, SUB, MUL, DIV
            Expr *place; // any postfix expression or a tuple of them
            Expr *value;
        } assign;
        Expr *expr; // EXPR; RETURN, NULL in `return;`
        struct {
            Expr *cond;
            Stmt *then;      // a BLOCK
            Stmt *otherwise; // NULL, a BLOCK or an IF
        } branch;
        struct {
            Expr *cond;
            Stmt *body;
        } loop; // WHILE
        struct {
            Loops loops; // FOR: one or more; PARALLEL: none or more
            Name merge;  // of FOR
            Stmt *body;
        } grid; // FOR, PARALLEL
        struct {
            Stmts stmts;
            Loc end; // the closing brace
        } block;
    };
};

/* ---- definitions --------------------------------------------------------------------------- */

/// `T: f16 | bf16`.
typedef struct Generic {
    Name name;
    Names constraint; // element types and names of lists of them
} Generic;
typedef AST_LIST(Generic) Generics;

typedef struct Param {
    Name name;
    TypeExpr *type; // NULL: anything (fn only)
    bool constant;  // const i64
    bool optional;  // T[N]?
    Loc loc;
} Param;
typedef AST_LIST(Param) Params;

static inline bool param_is_tensor(const Param *p) {
    return p->type && p->type->kind == TY_TENSOR;
}

/// `BM = 64 | 128`.
typedef struct Choice {
    Name name;
    Exprs alternatives;
} Choice;
typedef AST_LIST(Choice) Choices;

typedef struct Clause {
    enum ClauseKind { CL_TUNE, CL_GIVEN, CL_SCHEDULE, CL_REQUIRE } kind;
    Loc loc;
    Choices choices;  // all but REQUIRE
    Expr *where;      // of TUNE, or NULL
    Exprs conditions; // of REQUIRE
} Clause;
typedef AST_LIST(Clause) Clauses;

/// A fn or a kernel; a fn has no clauses, a kernel no result.
typedef struct FnDef {
    bool is_kernel;
    Name name;
    Loc loc;         // from the keyword
    const char *doc; // text of the `///` lines above, joined by newlines, or NULL
    Generics generics;
    Params params;
    Clauses clauses;
    TypeExpr *result; // NULL if it is inferred
    Stmt *body;       // a BLOCK
} FnDef;

typedef struct Item {
    enum ItemKind { IT_IMPORT, IT_CONST, IT_FN } kind; // FN: kernels too
    Loc loc;
    union {
        struct {
            const char *path; // as written, escapes resolved
            Loc loc;
        } import;
        struct {
            Name name;
            Expr *value;
        } constant;
        FnDef *fn;
    };
} Item;
typedef AST_LIST(Item) Items;

typedef struct Module {
    uint16_t file; // of the context's sources
    Items items;
} Module;

/* ---- tables (ast.c) ------------------------------------------------------------------------ */

extern const char *const expr_kind_name[];
extern const char *const stmt_kind_name[];
extern const char *const unary_spelling[];
extern const char *const binary_spelling[];

/* ---- looking up (ast.c) -------------------------------------------------------------------- */

/// Returns the index of the parameter, or of the type parameter, of this name; -1 if the function
/// has none.
int fn_param(const FnDef *f, const char *name);
int fn_generic(const FnDef *f, const char *name);

/* ---- walking (ast.c) ----------------------------------------------------------------------- */

// A chain of operators, `a + b - c`, can be as long as its source. Walks therefore iterate along
// left operands instead of recursing:
//     const Expr *at = chain_first(x);
//     visit(at->binary.a);
//     for (;; at = at->binary.outer) { visit(at->binary.b); if (at == x) break; }

/// Returns the innermost operator of the chain that ends in the operator x. Its left operand is not
/// part of the chain.
const Expr *chain_first(const Expr *x);
/// Whether test(user, name) holds for any name in x, including names of functions.
typedef bool NameTest(void *user, const Expr *name);
bool expr_any_name(const Expr *x, NameTest *test, void *user);

/* ---- printing (ast_print.c) ---------------------------------------------------------------- */

/// Prints the tree as indented text, without positions and comments, for `--emit ast`.
void ast_print(Text *out, const Module *module);
/// Prints the expression in source form on one line, for messages: `min(L, m.end) - 1`.
void ast_print_expr(Text *out, const Expr *e);
/// Returns the text, shortened to the length that fits a message.
const char *message_text(Ctx *ctx, const Text *t);
void ast_print_type(Text *out, const TypeExpr *t);

#endif
