// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the syntax tree: as indented text with expressions in prefix form (`--emit ast`), and
// expressions and types in source form (messages).
#include "frontend/ast.h"

/* ---- prefix form --------------------------------------------------------------------------- */

static void print_prefix(Text *out, const Expr *e);

static void print_prefixes(Text *out, Exprs list) {
    for (int i = 0; i < list.n; i++) {
        text_add(out, " ");
        print_prefix(out, list.at[i]);
    }
}

static void print_prefix_sub(Text *out, const Sub *s) {
    switch (s->kind) {
    case SUB_EXPR: print_prefix(out, s->lo); break;
    case SUB_SPAN:
        text_add(out, "(span ");
        print_prefix(out, s->lo);
        text_add(out, " ");
        print_prefix(out, s->hi);
        text_add(out, ")");
        break;
    case SUB_ALL: text_add(out, "(all)"); break;
    case SUB_NEW: text_add(out, "(new)"); break;
    case SUB_NAMED:
        text_add(out, "(%s= ", s->name.text);
        print_prefix(out, s->lo);
        text_add(out, ")");
        break;
    }
}

static void print_arg(Text *out, const Arg *a) {
    text_add(out, a->name.text ? " (%s= " : " ", a->name.text);
    print_prefix(out, a->value);
    text_add(out, a->name.text ? ")" : "");
}

/// Prints a string with its escapes.
static void print_prefix_string(Text *out, const char *s, size_t n) {
    text_add(out, "\"");
    for (size_t i = 0; i < n; i++) {
        const char *escaped = s[i] == '\n'   ? "\\n"
                              : s[i] == '\t' ? "\\t"
                              : s[i] == '"'  ? "\\\""
                              : s[i] == '\\' ? "\\\\"
                                             : NULL;
        text_bytes(out, escaped ? escaped : s + i, escaped ? 2 : 1);
    }
    text_add(out, "\"");
}

/// Prints literals and names, which look the same in both forms. Returns false for other
/// expressions.
static bool print_leaf(Text *out, const Expr *e) {
    switch (e->kind) {
    case EX_INT: text_add(out, "%s", e->integer.spelling); return true;
    case EX_FLOAT: text_add(out, "%s", e->floating.spelling); return true;
    case EX_STRING: print_prefix_string(out, e->string.text, e->string.len); return true;
    case EX_BOOL: text_add(out, "%s", e->boolean ? "true" : "false"); return true;
    case EX_INF: text_add(out, "inf"); return true;
    case EX_NAN: text_add(out, "nan"); return true;
    case EX_NAME: text_add(out, "%s", e->name); return true;
    default: return false;
    }
}

/// Prints a chain in prefix form: all operators, the last one first, then the operands.
static void print_prefix_chain(Text *out, const Expr *e) {
    const Expr *at = e;
    for (;; at = at->binary.a) {
        text_add(out, "(%s ", binary_spelling[at->binary.op]);
        if (at->binary.a->kind != EX_BINARY) break;
    }
    print_prefix(out, at->binary.a);
    for (;; at = at->binary.outer) {
        text_add(out, " ");
        print_prefix(out, at->binary.b);
        text_add(out, ")");
        if (at == e) return;
    }
}

static void print_prefix(Text *out, const Expr *e) {
    if (print_leaf(out, e)) return;
    if (e->kind == EX_BINARY) {
        print_prefix_chain(out, e);
        return;
    }
    text_add(out, "(%s",
             e->kind == EX_UNARY ? unary_spelling[e->unary.op] : expr_kind_name[e->kind]);
    switch (e->kind) {
    case EX_TUPLE: print_prefixes(out, e->tuple); break;
    case EX_UNARY: print_prefixes(out, (Exprs){(Expr *[]){e->unary.x}, 1}); break;
    case EX_TERNARY:
        print_prefixes(out, (Exprs){(Expr *[]){e->ternary.cond, e->ternary.yes, e->ternary.no}, 3});
        break;
    case EX_CAST:
        text_add(out, " %s ", e->cast.elem.text);
        print_prefix(out, e->cast.x);
        break;
    case EX_CALL:
        print_prefixes(out, (Exprs){(Expr *[]){e->call.callee}, 1});
        for (int i = 0; i < e->call.args.n; i++) print_arg(out, &e->call.args.at[i]);
        break;
    case EX_SUBSCRIPT:
        print_prefixes(out, (Exprs){(Expr *[]){e->subscript.base}, 1});
        for (int i = 0; i < e->subscript.subs.n; i++) {
            text_add(out, " ");
            print_prefix_sub(out, &e->subscript.subs.at[i]);
        }
        break;
    case EX_MEMBER:
        print_prefixes(out, (Exprs){(Expr *[]){e->member.base}, 1});
        text_add(out, " %s", e->member.field.text);
        break;
    default: break;
    }
    text_add(out, ")");
}

/* ---- source form --------------------------------------------------------------------------- */

static void print_source(Text *out, const Expr *e);

static void print_list(Text *out, Exprs list, const char *separator) {
    for (int i = 0; i < list.n; i++) {
        text_add(out, "%s", i ? separator : "");
        ast_print_expr(out, list.at[i]);
    }
}

static void print_source_sub(Text *out, const Sub *s) {
    if (s->kind == SUB_NAMED) text_add(out, "%s = ", s->name.text);
    if (s->lo) ast_print_expr(out, s->lo);
    if (s->kind == SUB_SPAN) {
        text_add(out, " .. ");
        ast_print_expr(out, s->hi);
    }
    text_add(out, "%s", s->kind == SUB_ALL ? ":" : s->kind == SUB_NEW ? "None" : "");
}

static void print_call(Text *out, const Expr *e) {
    ast_print_expr(out, e->call.callee);
    text_add(out, "(");
    for (int i = 0; i < e->call.args.n; i++) {
        const Arg *a = &e->call.args.at[i];
        text_add(out, "%s", i ? ", " : "");
        if (a->name.text) text_add(out, "%s = ", a->name.text);
        ast_print_expr(out, a->value);
    }
    text_add(out, ")");
}

/// Prints a chain in source form. The parentheses of all left operands open first.
static void print_source_chain(Text *out, const Expr *e) {
    for (const Expr *at = e->binary.a; at->kind == EX_BINARY; at = at->binary.a)
        text_add(out, "%s", at->parens ? "(" : "");
    const Expr *at = chain_first(e);
    ast_print_expr(out, at->binary.a);
    for (;; at = at->binary.outer) {
        text_add(out, " %s ", binary_spelling[at->binary.op]);
        ast_print_expr(out, at->binary.b);
        if (at == e) return;
        text_add(out, "%s", at->parens ? ")" : "");
    }
}

static void print_source(Text *out, const Expr *e) {
    switch (e->kind) {
    case EX_TUPLE:
        text_add(out, "(");
        print_list(out, e->tuple, ", ");
        text_add(out, ")");
        break;
    case EX_UNARY:
        text_add(out, "%s", unary_spelling[e->unary.op]);
        ast_print_expr(out, e->unary.x);
        break;
    case EX_BINARY: print_source_chain(out, e); break;
    case EX_TERNARY:
        ast_print_expr(out, e->ternary.cond);
        text_add(out, " ? ");
        ast_print_expr(out, e->ternary.yes);
        text_add(out, " : ");
        ast_print_expr(out, e->ternary.no);
        break;
    case EX_CAST:
        ast_print_expr(out, e->cast.x);
        text_add(out, " as %s", e->cast.elem.text);
        break;
    case EX_CALL: print_call(out, e); break;
    case EX_SUBSCRIPT:
        ast_print_expr(out, e->subscript.base);
        for (int i = 0; i < e->subscript.subs.n; i++) {
            text_add(out, "%s", i ? ", " : "[");
            print_source_sub(out, &e->subscript.subs.at[i]);
        }
        text_add(out, "%s", e->subscript.subs.n ? "]" : "[]");
        break;
    case EX_MEMBER:
        ast_print_expr(out, e->member.base);
        text_add(out, ".%s", e->member.field.text);
        break;
    default: print_leaf(out, e); break;
    }
}

void ast_print_expr(Text *out, const Expr *e) {
    bool own = e->parens && e->kind != EX_TUPLE;
    text_add(out, "%s", own ? "(" : "");
    print_source(out, e);
    text_add(out, "%s", own ? ")" : "");
}

const char *message_text(Ctx *ctx, const Text *t) {
    enum { MOST = 100 };
    return t->n <= MOST ? t->data : ctx_format(ctx, "%.*s ...", MOST - 4, t->data);
}

void ast_print_type(Text *out, const TypeExpr *t) {
    if (t->kind == TY_TUPLE) {
        text_add(out, "(");
    } else {
        text_add(out, "%s%s%s", t->sym ? "sym " : "", t->elem.text,
                 t->kind == TY_BLOCK    ? "<"
                 : t->kind == TY_TENSOR ? "["
                                        : "");
    }
    print_list(out, t->extents, ", ");
    for (int i = 0; i < t->dims.n; i++) {
        text_add(out, "%s%s", i <= t->sym ? "" : ", ", t->dims.at[i].pack ? ".." : "");
        ast_print_expr(out, t->dims.at[i].expr);
        if (i == 0 && t->sym) text_add(out, "][");
    }
    for (int i = 0; i < t->parts.n; i++) {
        text_add(out, "%s", i ? ", " : "");
        ast_print_type(out, t->parts.at[i]);
    }
    static const char *const closers[] = {
        [TY_SCALAR] = "", [TY_BLOCK] = ">", [TY_TENSOR] = "]", [TY_TUPLE] = ")"};
    text_add(out, "%s", closers[t->kind]);
}

/* ---- statements ---------------------------------------------------------------------------- */

static void print_stmt(Text *out, const Stmt *s, int indent);

static void add_prefix_line(Text *out, int indent, const char *word) {
    text_add(out, "%*s%s", 2 * indent, "", word);
}

static void print_value(Text *out, const Expr *e) {
    if (e) {
        text_add(out, " ");
        print_prefix(out, e);
    }
}

static void print_names(Text *out, Names names) {
    for (int i = 0; i < names.n; i++) text_add(out, "%s%s", i ? ", " : "", names.at[i].text);
}

static void print_bind(Text *out, const Stmt *s) {
    text_add(out, s->bind.pattern ? " (" : " ");
    print_names(out, s->bind.names);
    text_add(out, s->bind.pattern ? ")" : "");
    if (s->bind.type) {
        text_add(out, ": ");
        ast_print_type(out, s->bind.type);
    }
    text_add(out, s->bind.value ? " =" : "");
    print_value(out, s->bind.value);
    text_add(out, "\n");
}

static void print_grid(Text *out, const Stmt *s, int indent) {
    for (int i = 0; i < s->grid.loops.n; i++) {
        const Loop *l = &s->grid.loops.at[i];
        text_add(out, "%s %s in", i ? "," : "", l->index.text);
        print_value(out, l->lo);
        text_add(out, l->lo ? " .." : "");
        print_value(out, l->hi);
        text_add(out, l->step ? " by" : "");
        print_value(out, l->step);
    }
    text_add(out, s->grid.merge.text ? " merge %s\n" : "\n", s->grid.merge.text);
    print_stmt(out, s->grid.body, indent + 1);
}

static void print_branch(Text *out, const Stmt *s, int indent) {
    print_value(out, s->branch.cond);
    text_add(out, "\n");
    print_stmt(out, s->branch.then, indent + 1);
    if (s->branch.otherwise) {
        add_prefix_line(out, indent, "else\n");
        print_stmt(out, s->branch.otherwise, indent + 1);
    }
}

static void print_stmt(Text *out, const Stmt *s, int indent) {
    add_prefix_line(out, indent, stmt_kind_name[s->kind]);
    switch (s->kind) {
    case ST_LET:
    case ST_VAR:
    case ST_SCRATCH: print_bind(out, s); break;
    case ST_ASSIGN:
        text_add(out, " %s=", s->assign.op == BI_NONE ? "" : binary_spelling[s->assign.op]);
        print_value(out, s->assign.place);
        print_value(out, s->assign.value);
        text_add(out, "\n");
        break;
    case ST_EXPR:
    case ST_RETURN:
        print_value(out, s->expr);
        text_add(out, "\n");
        break;
    case ST_IF: print_branch(out, s, indent); break;
    case ST_WHILE:
        print_value(out, s->loop.cond);
        text_add(out, "\n");
        print_stmt(out, s->loop.body, indent + 1);
        break;
    case ST_FOR:
    case ST_PARALLEL: print_grid(out, s, indent); break;
    case ST_BLOCK:
        text_add(out, "\n");
        for (int i = 0; i < s->block.stmts.n; i++)
            print_stmt(out, s->block.stmts.at[i], indent + 1);
        break;
    }
}

/* ---- definitions --------------------------------------------------------------------------- */

static void print_clause(Text *out, const Clause *c) {
    static const char *const words[] = {[CL_TUNE] = "tune",
                                        [CL_GIVEN] = "given",
                                        [CL_SCHEDULE] = "schedule",
                                        [CL_REQUIRE] = "require"};
    add_prefix_line(out, 1, words[c->kind]);
    for (int i = 0; i < c->choices.n; i++) {
        text_add(out, "%s %s =", i ? "," : "", c->choices.at[i].name.text);
        print_prefixes(out, c->choices.at[i].alternatives);
    }
    print_prefixes(out, c->conditions);
    text_add(out, c->where ? " where" : "");
    print_value(out, c->where);
    text_add(out, "\n");
}

static void print_param(Text *out, const Param *p) {
    add_prefix_line(out, 1, "param ");
    text_add(out, "%s", p->name.text);
    if (p->type) {
        text_add(out, p->constant ? ": const " : ": ");
        ast_print_type(out, p->type);
    }
    text_add(out, p->optional ? "?\n" : "\n");
}

static void print_fn(Text *out, const FnDef *f) {
    text_add(out, "%s %s\n", f->is_kernel ? "kernel" : "fn", f->name.text);
    if (f->doc) {
        add_prefix_line(out, 1, "doc ");
        const char *end = f->doc;
        while (*end) end++;
        print_prefix_string(out, f->doc, (size_t)(end - f->doc));
        text_add(out, "\n");
    }
    for (int i = 0; i < f->generics.n; i++) {
        add_prefix_line(out, 1, "generic ");
        text_add(out, "%s: ", f->generics.at[i].name.text);
        print_names(out, f->generics.at[i].constraint);
        text_add(out, "\n");
    }
    for (int i = 0; i < f->params.n; i++) print_param(out, &f->params.at[i]);
    if (f->result) {
        add_prefix_line(out, 1, "result ");
        ast_print_type(out, f->result);
        text_add(out, "\n");
    }
    for (int i = 0; i < f->clauses.n; i++) print_clause(out, &f->clauses.at[i]);
    print_stmt(out, f->body, 1);
}

void ast_print(Text *out, const Module *module) {
    text_add(out, "module\n");
    for (int i = 0; i < module->items.n; i++) {
        const Item *item = &module->items.at[i];
        switch (item->kind) {
        case IT_IMPORT: text_add(out, "import \"%s\"\n", item->import.path); break;
        case IT_CONST:
            text_add(out, "const %s =", item->constant.name.text);
            print_value(out, item->constant.value);
            text_add(out, "\n");
            break;
        case IT_FN: print_fn(out, item->fn); break;
        }
    }
}
