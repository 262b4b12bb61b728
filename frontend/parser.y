// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The grammar. lang/grammar.md explains it; unexpected_token.c reports unexpected tokens. The
// grammar has no conflicts and uses LAC. It recovers at three places: ';', a block, and the '}' of
// a block.
%require "3.8"
%define api.pure full
%define api.prefix {teg}
%define api.token.prefix {T_}
%define api.location.type {Loc}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param {struct Parser *p}

%code requires {
#include "frontend/syntax.h"
}

%union {
    const char *doc;
    Expr *expr;
    Stmt *stmt;
    TypeExpr *type;
    FnDef *fn;
    Name name;
    Names names;
    Exprs exprs;
    Stmts stmts;
    TypeExprs types;
    Arg arg;
    Args args;
    Sub sub;
    Subs subs;
    Dim dim;
    Dims dims;
    Generic *generic;
    Generics generics;
    Param *param;
    Params params;
    Choice *choice;
    Choices choices;
    Clause *clause;
    Clauses clauses;
    Loop *loop;
    Loops loops;
    BinaryOp op;
}

%token END 0 "the end of the file"
%token <expr> INT "an integer" FLOAT "a float" STRING "a string"
%token <name> IDENT "a name"
%token <doc> KERNEL "'kernel'" FN "'fn'"
%token IMPORT "'import'" CONST "'const'"
%token TUNE "'tune'" WHERE "'where'" GIVEN "'given'" REQUIRE "'require'" SCHEDULE "'schedule'"
%token PARALLEL "'parallel'" FOR "'for'" IN "'in'" BY "'by'" MERGE "'merge'" WHILE "'while'"
%token IF "'if'" ELSE "'else'" LET "'let'" VAR "'var'" SCRATCH "'scratch'" RETURN "'return'"
%token SYM "'sym'" AS "'as'" NONE "'None'" TRUE "'true'" FALSE "'false'" INF "'inf'" NAN "'nan'"
%token DOTDOT "'..'" ANDAND "'&&'" OROR "'||'" EQ "'=='" NE "'!='" LE "'<='" GE "'>='"
%token SHL "'<<'" SHR "'>>'" ADDEQ "'+='" SUBEQ "'-='" MULEQ "'*='" DIVEQ "'/='"

%type <expr> expr or and cmp bitor bitxor bitand shift sum term cast unary postfix primary
%type <expr> init where
%type <exprs> exprs extents alternatives
%type <stmt> stmt block otherwise
%type <stmts> stmts
%type <type> type result
%type <types> types
%type <fn> signature
%type <name> ident merge
%type <names> pattern names kinds
%type <arg> arg
%type <args> args args_opt
%type <sub> sub
%type <subs> subs subs_opt
%type <dim> dim
%type <dims> dims dims_opt
%type <generic> generic
%type <generics> generics generics_opt
%type <param> param fparam ptype
%type <params> params params_opt fparams fparams_opt
%type <choice> choice
%type <choices> choices
%type <clause> clause
%type <clauses> clauses
%type <loop> loop span
%type <loops> loops
%type <op> assign relop

%code provides {
int teglex(TEGSTYPE *value, TEGLTYPE *loc, struct Parser *p);
}

%code {
#include "lang/diag.h"

// The arena serves Bison's stacks too; the LAC stack's helper knows no %param.
static _Thread_local Ctx *stack_arena;
#define YYSTACK_ALLOC(size) ctx_alloc(stack_arena, (size))
#define YYSTACK_ALLOC_MAXIMUM YYSIZE_MAXIMUM
// Enough for AST_MAX_DEPTH levels of any construct; deeper input gets a message.
#define YYMAXDEPTH (AST_MAX_DEPTH * 12)

/// Joins the locations of the first and the last part, as far as they share a line.
static Loc span_of(Loc first, Loc last) {
    if (last.line == first.line && last.col >= first.col)
        first.len = (uint16_t)(last.col + last.len - first.col);
    return first;
}
static Loc place_after(Loc l) {
    l.col = (uint16_t)(l.col + l.len);
    l.len = 0;
    return l;
}
#define YYLLOC_DEFAULT(loc, rhs, n)                                                                \
    ((loc) = (n) ? span_of(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n)) : place_after(YYRHSLOC(rhs, 0)))

static void tegerror(Loc *loc, Parser *p, const char *message);

/// Copies a struct into the arena, for structs that are too large for the union.
#define MADE(T, ...) ctx_copy(p->ctx, &(T){__VA_ARGS__}, sizeof(T))
#define BINARY(id, a, op_loc, b, loc) new_binary(p, (loc), BI_##id, (op_loc), (a), (b))

static FnDef *new_fn(Parser *p, Name name, Generics generics, Params params) {
    FnDef *f = ctx_new(p->ctx, FnDef);
    f->name = name;
    f->generics = generics;
    f->params = params;
    return f;
}

static void add_fn(Parser *p, FnDef *f, Loc loc, const char *doc, Stmt *body) {
    f->loc = loc;
    f->doc = doc;
    f->body = body;
    Item item = {.kind = IT_FN, .loc = loc, .fn = f};
    list_push(p, &p->module->items, item);
}

static void add_item(Parser *p, Item item) { list_push(p, &p->module->items, item); }

static void need_space(Parser *p, Loc loc) {
    diag(p->ctx, loc, D_ANGLE_EQUALS);
}
}

%%

module
    : %empty
    | module item
    ;
item
    : IMPORT STRING ';'
        { add_item(p, (Item){.kind = IT_IMPORT, .loc = @$, .import = {$2->string.text, @2}}); }
    | CONST ident '=' expr ';'
        { add_item(p, (Item){.kind = IT_CONST, .loc = @$, .constant = {$2, $4}}); }
    | FN signature '(' fparams_opt ')' result block
        { $2->params = $4; $2->result = $6; add_fn(p, $2, span_of(@1, @2), $1, $7); }
    | KERNEL signature '(' params_opt ')' clauses block
        {
            $2->is_kernel = true;
            $2->params = $4;
            $2->clauses = $6;
            add_fn(p, $2, span_of(@1, @2), $1, $7);
        }
    | error ';'      { yyerrok; }
    | error block    { yyerrok; }
    ;
signature: ident generics_opt { $$ = new_fn(p, $1, $2, (Params){0}); } ;
ident: IDENT ;

generics_opt
    : %empty                { $$ = (Generics){0}; }
    | '<' generics '>'      { $$ = $2; }
    ;
generics
    : generic               { $$ = (Generics){0}; list_push(p, &$$, *$1); }
    | generics ',' generic  { $$ = $1; list_push(p, &$$, *$3); }
    ;
generic: ident ':' kinds    { $$ = MADE(Generic, $1, $3); } ;
kinds
    : ident                 { $$ = (Names){0}; list_push(p, &$$, $1); }
    | kinds '|' ident       { $$ = $1; list_push(p, &$$, $3); }
    ;
result
    : %empty                { $$ = NULL; }
    | ':' type              { $$ = $2; }
    ;

params_opt
    : %empty                { $$ = (Params){0}; }
    | params
    ;
params
    : param                 { $$ = (Params){0}; list_push(p, &$$, *$1); }
    | params ',' param      { $$ = $1; list_push(p, &$$, *$3); }
    ;
param: ident ':' ptype      { $$ = $3; $$->name = $1; $$->loc = @$; } ;
fparams_opt
    : %empty                { $$ = (Params){0}; }
    | fparams
    ;
fparams
    : fparam                { $$ = (Params){0}; list_push(p, &$$, *$1); }
    | fparams ',' fparam    { $$ = $1; list_push(p, &$$, *$3); }
    ;
fparam
    : ident                 { $$ = MADE(Param, .name = $1, .loc = @$); }
    | param
    ;
ptype
    : type                  { $$ = MADE(Param, .type = $1); }
    | CONST ident
        { $$ = MADE(Param, .type = new_type(p, TY_SCALAR, @2, $2), .constant = true); }
    | type '?'              { $$ = MADE(Param, .type = $1, .optional = true); }
    ;

type
    : ident                                     { $$ = new_type(p, TY_SCALAR, @$, $1); }
    | ident '<' extents '>'                     { $$ = new_block_type(p, @$, $1, $3); }
    | ident '[' dims_opt ']'                    { $$ = new_tensor_type(p, @$, $1, NULL, $3); }
    | SYM ident '[' expr ']' '[' dims_opt ']'   { $$ = new_tensor_type(p, @$, $2, $4, $7); }
    | '(' types ',' type ')'
        { list_push(p, &$2, $4); $$ = new_tuple_type(p, @$, $2); }
    ;
types
    : type                  { $$ = (TypeExprs){0}; list_push(p, &$$, $1); }
    | types ',' type        { $$ = $1; list_push(p, &$$, $3); }
    ;
extents
    : sum                   { $$ = (Exprs){0}; list_push(p, &$$, $1); }
    | extents ',' sum       { $$ = $1; list_push(p, &$$, $3); }
    ;
dims_opt
    : %empty                { $$ = (Dims){0}; }
    | dims
    ;
dims
    : dim                   { $$ = (Dims){0}; list_push(p, &$$, $1); }
    | dims ',' dim          { $$ = $1; list_push(p, &$$, $3); }
    ;
dim
    : expr                  { $$ = (Dim){false, $1}; }
    | DOTDOT ident          { $$ = (Dim){true, new_name(p, $2)}; }
    ;

clauses
    : %empty                { $$ = (Clauses){0}; }
    | clauses clause        { $$ = $1; list_push(p, &$$, *$2); }
    ;
clause
    : TUNE choices where    { $$ = MADE(Clause, CL_TUNE, @1, .choices = $2, .where = $3); }
    | GIVEN choices         { $$ = MADE(Clause, CL_GIVEN, @1, .choices = $2); }
    | SCHEDULE choices      { $$ = MADE(Clause, CL_SCHEDULE, @1, .choices = $2); }
    | REQUIRE exprs         { $$ = MADE(Clause, CL_REQUIRE, @1, .conditions = $2); }
    ;
where
    : %empty                { $$ = NULL; }
    | WHERE expr            { $$ = $2; }
    ;
choices
    : choice                { $$ = (Choices){0}; list_push(p, &$$, *$1); }
    | choices ',' choice    { $$ = $1; list_push(p, &$$, *$3); }
    ;
choice: ident '=' alternatives { $$ = MADE(Choice, $1, $3); } ;
alternatives
    : sum                   { $$ = (Exprs){0}; list_push(p, &$$, $1); }
    | alternatives '|' sum  { $$ = $1; list_push(p, &$$, $3); }
    ;
exprs
    : expr                  { $$ = (Exprs){0}; list_push(p, &$$, $1); }
    | exprs ',' expr        { $$ = $1; list_push(p, &$$, $3); }
    ;

block
    : '{' stmts '}'         { $$ = new_block(p, @1, $2, @3); }
    | '{' stmts error '}'   { $$ = new_block(p, @1, $2, @4); yyerrok; }
    ;
stmts
    : %empty                { $$ = (Stmts){0}; }
    | stmts stmt            { $$ = $1; if ($2) list_push(p, &$$, $2); }
    ;
stmt
    : LET pattern init              { $$ = new_bind(p, ST_LET, @$, $2, NULL, $3); }
    | VAR pattern init              { $$ = new_bind(p, ST_VAR, @$, $2, NULL, $3); }
    | LET ident ':' type init
        { $$ = new_bind(p, ST_LET, @$, (Names){MADE(Name, $2.text, $2.loc), 1}, $4, $5); }
    | VAR ident ':' type init
        { $$ = new_bind(p, ST_VAR, @$, (Names){MADE(Name, $2.text, $2.loc), 1}, $4, $5); }
    | LET ident ':' ident '<' extents GE expr ';'   { need_space(p, @7); $$ = NULL; }
    | VAR ident ':' ident '<' extents GE expr ';'   { need_space(p, @7); $$ = NULL; }
    | SCRATCH ident ':' type ';'
        { $$ = new_bind(p, ST_SCRATCH, @$, (Names){MADE(Name, $2.text, $2.loc), 1}, $4, NULL); }
    | postfix assign expr ';'       { $$ = new_assign(p, @$, $2, $1, $3); }
    | postfix ';'                   { $$ = new_expr_stmt(p, ST_EXPR, @$, $1); }
    | IF expr block otherwise       { $$ = new_if(p, span_of(@1, @2), $2, $3, $4); }
    | WHILE expr block              { $$ = new_while(p, span_of(@1, @2), $2, $3); }
    | FOR loops merge block         { $$ = new_grid(p, ST_FOR, span_of(@1, @3), $2, $3, $4); }
    | PARALLEL block
        { $$ = new_grid(p, ST_PARALLEL, @1, (Loops){0}, (Name){0}, $2); }
    | PARALLEL loops block
        { $$ = new_grid(p, ST_PARALLEL, span_of(@1, @2), $2, (Name){0}, $3); }
    | RETURN ';'                    { $$ = new_expr_stmt(p, ST_RETURN, @1, NULL); }
    | RETURN expr ';'               { $$ = new_expr_stmt(p, ST_RETURN, span_of(@1, @2), $2); }
    | block
    | error ';'                     { $$ = NULL; yyerrok; }
    | error block otherwise         { $$ = NULL; yyerrok; }
    ;
init: '=' expr ';'                  { $$ = $2; } ;
pattern
    : ident                         { $$ = (Names){0}; list_push(p, &$$, $1); }
    | '(' names ')'                 { $$ = $2; }
    ;
names
    : ident ',' ident
        { $$ = (Names){0}; list_push(p, &$$, $1); list_push(p, &$$, $3); }
    | names ',' ident               { $$ = $1; list_push(p, &$$, $3); }
    ;
assign
    : '='                           { $$ = BI_NONE; }
    | ADDEQ                         { $$ = BI_ADD; }
    | SUBEQ                         { $$ = BI_SUB; }
    | MULEQ                         { $$ = BI_MUL; }
    | DIVEQ                         { $$ = BI_DIV; }
    ;
otherwise
    : %empty                        { $$ = NULL; }
    | ELSE block                    { $$ = $2; }
    | ELSE IF expr block otherwise  { $$ = new_if(p, span_of(@2, @3), $3, $4, $5); }
    ;
loops
    : loop                          { $$ = (Loops){0}; list_push(p, &$$, *$1); }
    | loops ',' loop                { $$ = $1; list_push(p, &$$, *$3); }
    ;
loop
    : ident IN span                 { $$ = $3; $$->index = $1; $$->loc = @$; }
    | ident IN span BY expr         { $$ = $3; $$->index = $1; $$->loc = @$; $$->step = $5; }
    ;
span
    : expr                          { $$ = MADE(Loop, .hi = $1); }
    | expr DOTDOT expr              { $$ = MADE(Loop, .lo = $1, .hi = $3); }
    ;
merge
    : %empty                        { $$ = (Name){0}; }
    | MERGE ident                   { $$ = $2; }
    ;

expr
    : or
    | or '?' expr ':' expr          { $$ = new_ternary(p, @$, $1, $3, $5); }
    ;
or
    : and
    | or OROR and                   { $$ = BINARY(OR, $1, @2, $3, @$); }
    ;
and
    : cmp
    | and ANDAND cmp                { $$ = BINARY(AND, $1, @2, $3, @$); }
    ;
cmp
    : bitor
    | bitor relop bitor             { $$ = new_binary(p, @$, $2, @2, $1, $3); }
    ;
relop
    : '<'   { $$ = BI_LT; }
    | '>'   { $$ = BI_GT; }
    | LE    { $$ = BI_LE; }
    | GE    { $$ = BI_GE; }
    | EQ    { $$ = BI_EQ; }
    | NE    { $$ = BI_NE; }
    ;
bitor
    : bitxor
    | bitor '|' bitxor              { $$ = BINARY(BITOR, $1, @2, $3, @$); }
    ;
bitxor
    : bitand
    | bitxor '^' bitand             { $$ = BINARY(BITXOR, $1, @2, $3, @$); }
    ;
bitand
    : shift
    | bitand '&' shift              { $$ = BINARY(BITAND, $1, @2, $3, @$); }
    ;
shift
    : sum
    | shift SHL sum                 { $$ = BINARY(SHL, $1, @2, $3, @$); }
    | shift SHR sum                 { $$ = BINARY(SHR, $1, @2, $3, @$); }
    ;
sum
    : term
    | sum '+' term                  { $$ = BINARY(ADD, $1, @2, $3, @$); }
    | sum '-' term                  { $$ = BINARY(SUB, $1, @2, $3, @$); }
    ;
term
    : cast
    | term '*' cast                 { $$ = BINARY(MUL, $1, @2, $3, @$); }
    | term '/' cast                 { $$ = BINARY(DIV, $1, @2, $3, @$); }
    | term '%' cast                 { $$ = BINARY(REM, $1, @2, $3, @$); }
    ;
cast
    : unary
    | cast AS ident                 { $$ = new_cast(p, @$, $1, $3); }
    ;
unary
    : postfix
    | '-' unary                     { $$ = new_unary(p, @$, UN_NEG, $2); }
    | '!' unary                     { $$ = new_unary(p, @$, UN_NOT, $2); }
    | '~' unary                     { $$ = new_unary(p, @$, UN_INV, $2); }
    ;
postfix
    : primary
    | postfix '[' subs_opt ']'      { $$ = new_subscript(p, @$, $1, $3); }
    | postfix '(' args_opt ')'      { $$ = new_call(p, @$, $1, $3); }
    | postfix '.' ident             { $$ = new_member(p, @$, $1, $3); }
    ;
primary
    : INT
    | FLOAT
    | STRING
    | TRUE                          { $$ = new_bool(p, @$, true); }
    | FALSE                         { $$ = new_bool(p, @$, false); }
    | INF                           { $$ = new_expr(p, EX_INF, @$); }
    | NAN                           { $$ = new_expr(p, EX_NAN, @$); }
    | ident                         { $$ = new_name(p, $1); }
    | '(' expr ')'                  { $$ = $2; $$->parens = true; $$->loc = @$; }
    | '(' exprs ',' expr ')'        { list_push(p, &$2, $4); $$ = new_tuple(p, @$, $2); }
    ;
subs_opt
    : %empty                        { $$ = (Subs){0}; }
    | subs
    ;
subs
    : sub                           { $$ = (Subs){0}; list_push(p, &$$, $1); }
    | subs ',' sub                  { $$ = $1; list_push(p, &$$, $3); }
    ;
sub
    : expr                          { $$ = (Sub){SUB_EXPR, @$, .lo = $1}; }
    | expr DOTDOT expr              { $$ = (Sub){SUB_SPAN, @$, .lo = $1, .hi = $3}; }
    | ':'                           { $$ = (Sub){SUB_ALL, @$, .lo = NULL}; }
    | NONE                          { $$ = (Sub){SUB_NEW, @$, .lo = NULL}; }
    | ident '=' expr                { $$ = (Sub){SUB_NAMED, @$, $1, .lo = $3}; }
    ;
args_opt
    : %empty                        { $$ = (Args){0}; }
    | args
    ;
args
    : arg                           { $$ = (Args){0}; list_push(p, &$$, $1); }
    | args ',' arg                  { $$ = $1; list_push(p, &$$, $3); }
    ;
arg
    : expr                          { $$ = (Arg){{0}, $1}; }
    | ident '=' expr                { $$ = (Arg){$1, $3}; }
    ;

%%

static int yyreport_syntax_error(const yypcontext_t *context, Parser *p) {
    yysymbol_kind_t kinds[YYNTOKENS];
    const char *want[YYNTOKENS];
    int n = yypcontext_expected_tokens(context, kinds, YYNTOKENS);
    if (n < 0)
        return n;
    for (int i = 0; i < n; i++)
        want[i] = yysymbol_name(kinds[i]);
    syntax_error(p, want, n);
    return 0;
}

/// Bison itself calls this only if its stack is full.
static void tegerror(Loc *loc, Parser *p, const char *message) {
    (void)message;
    diag(p->ctx, *loc, D_TOO_DEEP, AST_MAX_DEPTH);
}

Module *fe_parse(Ctx *ctx, uint16_t file) {
    Parser p;
    bool text = parser_init(&p, ctx, file);
    p.module = ctx_new(ctx, Module);
    p.module->file = file;
    stack_arena = ctx;
    if (text)
        tegparse(&p);
    return p.module;
}
