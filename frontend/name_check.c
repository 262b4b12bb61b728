// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks names without an instance: undefined names, names that hide others, unused names, and
// statements after a `return`. The check covers the whole file, including fns without callers and
// branches that no instance takes.
#include "frontend/builtins/builtins.h"
#include "frontend/program.h"

#include "lang/diag.h"

#include <string.h>

typedef enum LocalKind { LOCAL_VARIABLE, LOCAL_PARAM, LOCAL_TUNE, LOCAL_QUIET } LocalKind;

/// QUIET: never reported as unused (dims, loop indices, parts of patterns).
typedef struct Local {
    Name name;
    LocalKind kind;
    NameKind what;
    bool used;
    const TypeExpr *type; // of a parameter, or NULL
    const char *span;     // the dim that a range covers, or NULL
    intptr_t hidden;      // the previous local of this name, as in Checker.last
    int definition;       // in the table of names, if there is one
} Local;

typedef struct NameChecker {
    const Program *p;
    Ctx *ctx;
    VEC(Local) locals; // innermost last
    PtrMap last;       // name -> the index of its innermost local, plus 1
    bool ranks;        // the kernel has symmetric tensors: `rank` is a name
    const Item *item;  // the definition that is being checked
} NameChecker;

/* ---- scopes -------------------------------------------------------------------------------- */

static Local *find_visible(NameChecker *c, const char *name) {
    intptr_t at = (intptr_t)map_get(&c->last, name);
    ctx_count(c->ctx, 1);
    return at ? &c->locals.data[at - 1] : NULL;
}

/// Declares a name. `_` stands for an unwanted value and may repeat; the function returns NULL for
/// it.
static Local *declare_name(NameChecker *c, Name name, LocalKind kind, NameKind what) {
    if (strcmp(name.text, "_") == 0) return NULL;
    const Local *hidden = find_visible(c, name.text);
    if (hidden) {
        diag(c->ctx, name.loc, D_HIDES, name.text);
        diag_note(c->ctx, hidden->name.loc, "the other '%s' is here", name.text);
    }
    Local local = {.name = name, .kind = kind, .what = what, .used = name.text[0] == '_'};
    local.hidden = (intptr_t)map_get(&c->last, name.text);
    if (c->p->names)
        local.definition = names_define(c->ctx, c->p->names,
                                        (Definition){.name = name, .kind = what, .item = c->item});
    vec_push(c->ctx, &c->locals, local);
    map_set(c->ctx, &c->last, name.text, (void *)(intptr_t)c->locals.n);
    return &c->locals.data[c->locals.n - 1];
}

/// The definition of a local, for more facts; NULL without a table.
static Definition *definition_of(const NameChecker *c, const Local *l) {
    return l && c->p->names ? &c->p->names->definitions.data[l->definition] : NULL;
}

/// Ends the scope that began with `mark` names, at the brace `end`.
static void leave_scope(NameChecker *c, int mark, Loc end) {
    static const char *const what[] = {"variable", "parameter", "tune value"};
    for (int i = mark; i < c->locals.n; i++) {
        const Local *l = &c->locals.data[i];
        if (l->used || l->kind == LOCAL_QUIET) continue;
        diag(c->ctx, l->name.loc, D_UNUSED, what[l->kind], l->name.text);
        if (l->what == NAME_LET)
            diag_offer(c->ctx, l->name.loc, ctx_format(c->ctx, "_%s", l->name.text));
    }
    for (; c->locals.n > mark; c->locals.n--) {
        const Local *l = &c->locals.data[c->locals.n - 1];
        map_set(c->ctx, &c->last, l->name.text, (void *)l->hidden);
        Definition *d = definition_of(c, l);
        if (d) d->end = end;
    }
}

/// Notes the use of a local, of an item, or, without both, of a builtin or an element type.
static void note_use(NameChecker *c, Name name, const Local *l, bool written) {
    if (!c->p->names) return;
    const Item *item = l ? NULL : program_find(c->p, name.text, name.loc.file);
    NameUse use = {.name = name, .to = l ? l->definition : -1, .written = written};
    if (item) use.target = item->kind == IT_FN ? item->fn->name.loc : item->constant.name.loc;
    names_use(c->ctx, c->p->names, use);
}

static const char *closest_local(NameChecker *c, const char *name) {
    const char **names = ctx_array(c->ctx, const char *, c->locals.n);
    for (int i = 0; i < c->locals.n; i++) names[i] = c->locals.data[i].name.text;
    const char *close = closest_name(name, names, c->locals.n);
    return close ? close : program_closest(c->p, name);
}

static bool is_known_name(NameChecker *c, const char *name, Loc loc) {
    return program_find(c->p, name, loc.file) || builtin_by_name(name) ||
           elem_by_name(name) != EL_COUNT || (c->ranks && strcmp(name, "rank") == 0);
}

/// Names from other languages, and Tegula's name for each.
static const struct {
    const char *theirs, *hint;
} habits[] = {
    {"np numpy math torch jnp tf", "functions have no prefix: write `exp(x)`"},
    {"tl triton",
     "functions have no prefix; reading is `x[i]`, or `x[i, pad = 0]` for elements outside"},
    {"null nullptr nil",
     "a kernel cannot pass nothing for an optional tensor: call it from outside"},
    {"len shape", "the dimensions of a tensor are names: N in `x: f32[N]`"},
    {"zeros full empty zeros_like", "a block of one value is written `var a: f32<16, 32> = 0;`"},
    {"mean average", "write `sum(x) / n` with n elements; padded ones do not count"},
    {"newaxis", "write `None`"},
    {"arange", "write `iota(n)`, or `index(r)` for the positions of a range"},
    {"square sqr", "write `sq(x)` or `x * x`"},
    {"maximum fmaxf fmax", "write `max(a, b)`"},
    {"minimum fminf fmin", "write `min(a, b)`"},
    {"matmul mm", "write `dot(a, b)`"},
    {"load", "reading is `x[i, j]`, for elements outside `x[i, j, pad = 0]`"},
    {"store", "writing is `y[i, j] = v;`"},
    {"program_id tid threadIdx blockIdx", "the place of a program is the index of `parallel`"},
    {"plus", "write `add`"},
    {"times", "write `mul`"},
    {"rank", "kernels with symmetric tensors have a rank: `a: sym f32[W][M]`"},
    {"my_rank rank_id", "the own rank is `rank`"},
    {"world_size num_ranks n_ranks", "the number of ranks is W in `a: sym f32[W][M]`"},
    {"shmem_put shmem_put_nbi shmem_putmem", "write `put(a[r][i], v)`"},
    {"shmem_get shmem_get_nbi shmem_getmem", "write `get(a[r][i])`, or `a[r][i]`"},
    {"shmem_signal_wait_until wait_until wait_until_all shmem_wait_until",
     "write `signal_wait_until(s[rank][i], ge, x)`"},
    {"signal_fetch shmem_signal_fetch",
     "`atomic_fetch(s[rank][i])` reads a word, `signal_wait_until` waits for one"},
    {"sync_all shmem_sync_all", "write `barrier_all()`, outside of programs"},
    {"shmem_my_pe shmem_n_pes shmem_fence shmem_quiet shmem_barrier_all shmem_atomic_fetch "
     "shmem_atomic_set shmem_atomic_swap shmem_atomic_compare_swap shmem_atomic_inc "
     "shmem_atomic_add "
     "shmem_atomic_fetch_inc shmem_atomic_fetch_add shmem_atomic_and shmem_atomic_or "
     "shmem_atomic_xor shmem_atomic_fetch_and shmem_atomic_fetch_or shmem_atomic_fetch_xor",
     "OpenSHMEM's functions have no prefix here"},
};

static bool has_listed_word(const char *words, const char *name) {
    size_t n = strlen(name);
    for (const char *s = words; (s = strstr(s, name)) != NULL; s += n)
        if ((s == words || s[-1] == ' ') && (s[n] == ' ' || !s[n])) return true;
    return false;
}

static void hint_name(NameChecker *c, const char *name, Loc loc) {
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        if (!has_listed_word(habits[i].theirs, name)) continue;
        diag_hint(c->ctx, "%s", habits[i].hint);
        return;
    }
    const char *close = closest_local(c, name);
    if (close) diag_fix(c->ctx, loc, close, "did you mean '%s'?", close);
}

static void use_name(NameChecker *c, const char *name, Loc loc) {
    Local *l = find_visible(c, name);
    if (l) l->used = true;
    bool known = l || is_known_name(c, name, loc);
    if (known) note_use(c, (Name){name, loc}, l, false);
    if (known) return;
    diag(c->ctx, loc, D_UNKNOWN_NAME, name);
    hint_name(c, name, loc);
}

/* ---- expressions --------------------------------------------------------------------------- */

static void resolve_expr(NameChecker *c, const Expr *x);

/// Resolves the value of a named argument, which may be a word of that option instead of a name.
static void resolve_option(NameChecker *c, const Expr *x) {
    if (x->kind != EX_NAME) {
        resolve_expr(c, x);
    } else {
        Local *l = find_visible(c, x->name);
        if (l) l->used = true;
        const Item *item = l ? NULL : program_find(c->p, x->name, x->loc.file);
        if (l || (item && item->kind == IT_CONST)) note_use(c, (Name){x->name, x->loc}, l, false);
    }
}

/// Notes the name of a named argument as a use of the fn's parameter.
static void note_option(NameChecker *c, const Expr *callee, Name name) {
    NameUse use = {.name = name, .to = -1, .option = true};
    const Item *item = callee->kind == EX_NAME && !find_visible(c, callee->name)
                           ? program_find(c->p, callee->name, callee->loc.file)
                           : NULL;
    int k = item && item->kind == IT_FN ? fn_param(item->fn, name.text) : -1;
    if (k >= 0) use.target = item->fn->params.at[k].name.loc;
    names_use(c->ctx, c->p->names, use);
}

static void resolve_call(NameChecker *c, const Expr *x) {
    resolve_expr(c, x->call.callee);
    for (int i = 0; i < x->call.args.n; i++) {
        const Arg *arg = &x->call.args.at[i];
        if (arg->name.text && c->p->names) note_option(c, x->call.callee, arg->name);
        (arg->name.text ? resolve_option : resolve_expr)(c, arg->value);
    }
}

/// Returns the dim whose whole range entry i is, or NULL; *index is the range's name.
static const char *entry_span(NameChecker *c, const Subs *subs, int i, const char **index) {
    const Sub *sub = &subs->at[i];
    const Local *l =
        sub->kind == SUB_EXPR && sub->lo->kind == EX_NAME ? find_visible(c, sub->lo->name) : NULL;
    if (l) *index = l->name.text;
    return l ? l->span : NULL;
}

static bool is_dim(const Dims *dims, int i, const char *name) {
    const Expr *x = dims->at[i].expr;
    return name && x->kind == EX_NAME && x->name == name;
}

/// Warns of swapped subscripts: x[n, m] of `x: f32[M, N]` reads another tile, and does not
/// transpose.
static void check_subscript_order(NameChecker *c, const Expr *x) {
    const Expr *base = x->subscript.base;
    const Subs *subs = &x->subscript.subs;
    int sym = base->kind == EX_SUBSCRIPT; // a[r][...]
    if (sym) base = base->subscript.base;
    const Local *t = base->kind == EX_NAME ? find_visible(c, base->name) : NULL;
    if (!t || !t->type || t->type->sym != sym || t->type->dims.n != subs->n + sym) return;
    for (int i = 0; i < subs->n; i++)
        for (int k = i + 1; k < subs->n; k++) {
            const char *a, *b, *first = entry_span(c, subs, i, &a);
            const char *second = first ? entry_span(c, subs, k, &b) : NULL;
            if (first == second || !is_dim(&t->type->dims, k + sym, first) ||
                !is_dim(&t->type->dims, i + sym, second))
                continue;
            diag(c->ctx, x->loc, D_SWAPPED, a, first, b, second, t->name.text);
            diag_hint(c->ctx, "trans(...) transposes a block, its subscripts do not");
            return;
        }
}

static void resolve_subscript(NameChecker *c, const Expr *x) {
    resolve_expr(c, x->subscript.base);
    check_subscript_order(c, x);
    for (int i = 0; i < x->subscript.subs.n; i++) {
        const Sub *sub = &x->subscript.subs.at[i];
        if (sub->lo) (sub->kind == SUB_NAMED ? resolve_option : resolve_expr)(c, sub->lo);
        if (sub->hi) resolve_expr(c, sub->hi);
    }
}

/// Element types from other languages, and Tegula's name for each.
static const struct {
    const char *theirs, *ours;
} other_names[] = {{"double", "f64"},  {"half", "f16"},    {"bfloat16", "bf16"}, {"short", "i16"},
                   {"long", "i64"},    {"char", "i8"},     {"size_t", "i64"},    {"float64", "f64"},
                   {"float32", "f32"}, {"float16", "f16"}, {"fp64", "f64"},      {"fp32", "f32"},
                   {"fp16", "f16"},    {"int64", "i64"},   {"int32", "i32"},     {"int16", "i16"},
                   {"int8", "i8"},     {"uint64", "u64"},  {"uint32", "u32"},    {"uint16", "u16"},
                   {"uint8", "u8"},    {"byte", "u8"},     {"boolean", "bool"}};

static bool is_list(const char *word) {
    return strcmp(word, "float") == 0 || strcmp(word, "int") == 0 || strcmp(word, "any") == 0;
}

void hint_elem(Ctx *ctx, Name found) {
    const char *name = found.text;
    const char *all[EL_COUNT], *meant = NULL;
    for (int i = 0; i < EL_COUNT; i++) all[i] = elem_info[i].name;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(name, other_names[i].theirs) == 0) meant = other_names[i].ours;
    if (!meant) meant = closest_name(name, all, EL_COUNT);
    if (is_list(name))
        diag_hint(ctx,
                  "'%s' stands for several types: write one, such as %s, or <T: %s> after the name "
                  "and T here",
                  name, strcmp(name, "int") == 0 ? "i64" : "f32", name);
    else if (name[0] >= 'A' && name[0] <= 'Z')
        diag_hint(ctx, "a type parameter is declared after the name: <%s: float>", name);
    else if (meant)
        diag_fix(ctx, found.loc, meant, "did you mean '%s'?", meant);
}

static void resolve_elem(NameChecker *c, Name name) {
    if (find_visible(c, name.text)) {
        use_name(c, name.text, name.loc);
    } else if (elem_by_name(name.text) == EL_COUNT && strcmp(name.text, "range") != 0) {
        diag(c->ctx, name.loc, D_NOT_AN_ELEM, name.text);
        hint_elem(c->ctx, name);
    } else {
        note_use(c, name, NULL, false);
    }
}

static void resolve_chain(NameChecker *c, const Expr *x) {
    const Expr *at = chain_first(x);
    resolve_expr(c, at->binary.a);
    for (;; at = at->binary.outer) {
        resolve_expr(c, at->binary.b);
        if (at == x) return;
    }
}

static void resolve_expr(NameChecker *c, const Expr *x) {
    switch (x->kind) {
    case EX_NAME: use_name(c, x->name, x->loc); break;
    case EX_TUPLE:
        for (int i = 0; i < x->tuple.n; i++) resolve_expr(c, x->tuple.at[i]);
        break;
    case EX_UNARY: resolve_expr(c, x->unary.x); break;
    case EX_BINARY: resolve_chain(c, x); break;
    case EX_TERNARY:
        resolve_expr(c, x->ternary.cond);
        resolve_expr(c, x->ternary.yes);
        resolve_expr(c, x->ternary.no);
        break;
    case EX_CAST:
        resolve_expr(c, x->cast.x);
        resolve_elem(c, x->cast.elem);
        break;
    case EX_CALL: resolve_call(c, x); break;
    case EX_SUBSCRIPT: resolve_subscript(c, x); break;
    case EX_MEMBER: resolve_expr(c, x->member.base); break;
    default: break;
    }
}

/* ---- types --------------------------------------------------------------------------------- */

/// Calls visit on the dims and extents of a type, and on its elements.
static void type_uses(NameChecker *c, const TypeExpr *t) {
    if (t->kind != TY_TUPLE) resolve_elem(c, t->elem);
    for (int i = 0; i < t->extents.n; i++) resolve_expr(c, t->extents.at[i]);
    for (int i = 0; i < t->dims.n; i++) resolve_expr(c, t->dims.at[i].expr);
    for (int i = 0; i < t->parts.n; i++) type_uses(c, t->parts.at[i]);
}

static void bind_place_name(NameChecker *c, const Expr *x) {
    if (x->kind != EX_NAME || find_visible(c, x->name)) return;
    const Item *item = program_find(c->p, x->name, x->loc.file);
    if (!item || item->kind != IT_CONST)
        declare_name(c, (Name){x->name, x->loc}, LOCAL_QUIET, NAME_DIM);
}

/// Declares the dims that a parameter's type binds.
static void type_binds(NameChecker *c, const TypeExpr *t) {
    for (int i = 0; i < t->extents.n; i++) bind_place_name(c, t->extents.at[i]);
    for (int i = 0; i < t->dims.n; i++) bind_place_name(c, t->dims.at[i].expr);
    for (int i = 0; i < t->parts.n; i++) type_binds(c, t->parts.at[i]);
}

/// Declares the names that an axis binds only through a sum, such as E in `E + 1`.
static void type_binds_sums(NameChecker *c, const TypeExpr *t) {
    for (int i = 0; i < t->dims.n; i++) {
        const Expr *x = t->dims.at[i].expr;
        if (x->kind != EX_BINARY || x->binary.b->kind != EX_INT) continue;
        if (x->binary.op == BI_ADD || x->binary.op == BI_SUB) bind_place_name(c, x->binary.a);
    }
}

/* ---- statements ---------------------------------------------------------------------------- */

static void resolve_stmt(NameChecker *c, const Stmt *s);

static const char *name_in(const Expr *x) {
    return x->kind == EX_NAME ? x->name : NULL;
}

/// Returns N of `cover(N)`, or NULL.
static const char *covered_name(const Expr *x) {
    bool call = x && x->kind == EX_CALL && x->call.callee->kind == EX_NAME && x->call.args.n == 1;
    bool cover = call && strcmp(x->call.callee->name, "cover") == 0;
    return cover ? name_in(x->call.args.at[0].value) : NULL;
}

static void resolve_binding(NameChecker *c, const Stmt *s) {
    if (s->bind.value) resolve_expr(c, s->bind.value);
    if (s->bind.type) type_uses(c, s->bind.type);
    for (int i = 0; i < s->bind.names.n; i++) {
        Local *l =
            declare_name(c, s->bind.names.at[i], s->bind.pattern ? LOCAL_QUIET : LOCAL_VARIABLE,
                         s->kind == ST_LET   ? NAME_LET
                         : s->kind == ST_VAR ? NAME_VAR
                                             : NAME_SCRATCH);
        Definition *d = definition_of(c, l);
        if (d) d->type = s->bind.type;
        if (l && !s->bind.pattern) l->span = covered_name(s->bind.value);
    }
}

/// Resolves the target of an assignment. An assignment does not count as a use, but the name must
/// be defined.
static void resolve_place(NameChecker *c, const Expr *x) {
    if (x->kind == EX_TUPLE) {
        for (int i = 0; i < x->tuple.n; i++) resolve_place(c, x->tuple.at[i]);
    } else if (x->kind != EX_NAME || !find_visible(c, x->name)) {
        resolve_expr(c, x);
    } else {
        note_use(c, (Name){x->name, x->loc}, find_visible(c, x->name), true);
    }
}

static void resolve_grid(NameChecker *c, const Stmt *s) {
    int mark = c->locals.n;
    for (int i = 0; i < s->grid.loops.n; i++) {
        const Loop *loop = &s->grid.loops.at[i];
        if (loop->lo) resolve_expr(c, loop->lo);
        resolve_expr(c, loop->hi);
        if (loop->step) resolve_expr(c, loop->step);
        Local *l = declare_name(c, loop->index, LOCAL_QUIET, NAME_INDEX);
        if (l && !loop->lo) l->span = name_in(loop->hi);
    }
    if (s->kind == ST_FOR && s->grid.merge.text) use_name(c, s->grid.merge.text, s->grid.merge.loc);
    resolve_stmt(c, s->grid.body);
    leave_scope(c, mark, s->grid.body->block.end);
}

static void resolve_block(NameChecker *c, const Stmt *s) {
    int mark = c->locals.n;
    for (int i = 0; i < s->block.stmts.n; i++) {
        const Stmt *one = s->block.stmts.at[i];
        if (i > 0 && s->block.stmts.at[i - 1]->kind == ST_RETURN)
            diag(c->ctx, one->loc, D_UNREACHABLE);
        resolve_stmt(c, one);
    }
    leave_scope(c, mark, s->block.end);
}

static void resolve_stmt(NameChecker *c, const Stmt *s) {
    switch (s->kind) {
    case ST_LET:
    case ST_VAR:
    case ST_SCRATCH: resolve_binding(c, s); break;
    case ST_ASSIGN:
        resolve_expr(c, s->assign.value);
        resolve_place(c, s->assign.place);
        break;
    case ST_EXPR: resolve_expr(c, s->expr); break;
    case ST_RETURN:
        if (s->expr) resolve_expr(c, s->expr);
        break;
    case ST_IF:
        resolve_expr(c, s->branch.cond);
        resolve_stmt(c, s->branch.then);
        if (s->branch.otherwise) resolve_stmt(c, s->branch.otherwise);
        break;
    case ST_WHILE:
        resolve_expr(c, s->loop.cond);
        resolve_stmt(c, s->loop.body);
        break;
    case ST_FOR:
    case ST_PARALLEL: resolve_grid(c, s); break;
    case ST_BLOCK: resolve_block(c, s); break;
    }
}

/* ---- definitions --------------------------------------------------------------------------- */

static void resolve_generics(NameChecker *c, const FnDef *f) {
    for (int i = 0; i < f->generics.n; i++) {
        const Generic *g = &f->generics.at[i];
        declare_name(c, g->name, LOCAL_QUIET, NAME_TYPE_PARAM);
        for (int k = 0; k < g->constraint.n; k++) {
            const char *word = g->constraint.at[k].text;
            if (is_list(word) || elem_by_name(word) != EL_COUNT) continue;
            diag(c->ctx, g->constraint.at[k].loc, D_NOT_AN_ELEM, word);
            hint_elem(c->ctx, g->constraint.at[k]);
        }
    }
}

static void resolve_params(NameChecker *c, const FnDef *f) {
    for (int i = 0; i < f->params.n; i++) {
        const TypeExpr *t = f->params.at[i].type;
        Local *l = declare_name(c, f->params.at[i].name, LOCAL_PARAM, NAME_PARAM);
        if (l) l->type = t;
        Definition *d = definition_of(c, l);
        if (d) d->param = &f->params.at[i];
        if (d) d->type = t;
        c->ranks |= t && t->sym;
    }
    for (int i = 0; i < f->params.n; i++)
        if (f->params.at[i].type) type_binds(c, f->params.at[i].type);
    for (int i = 0; i < f->params.n; i++)
        if (f->params.at[i].type) type_binds_sums(c, f->params.at[i].type);
    for (int i = 0; i < f->params.n; i++)
        if (f->params.at[i].type) type_uses(c, f->params.at[i].type);
}

/// Declares tune names before dims, which must not hide them; conditions see both.
static void resolve_choices(NameChecker *c, const FnDef *f) {
    for (int i = 0; i < f->clauses.n; i++) {
        const Clause *clause = &f->clauses.at[i];
        for (int k = 0; clause->kind != CL_REQUIRE && k < clause->choices.n; k++) {
            const Choice *choice = &clause->choices.at[k];
            for (int a = 0; a < choice->alternatives.n; a++)
                (clause->kind == CL_SCHEDULE ? resolve_option
                                             : resolve_expr)(c, choice->alternatives.at[a]);
            if (clause->kind == CL_TUNE) declare_name(c, choice->name, LOCAL_TUNE, NAME_TUNE);
        }
    }
}

static void resolve_conditions(NameChecker *c, const FnDef *f) {
    for (int i = 0; i < f->clauses.n; i++) {
        const Clause *clause = &f->clauses.at[i];
        if (clause->where) resolve_expr(c, clause->where);
        for (int k = 0; k < clause->conditions.n; k++) resolve_expr(c, clause->conditions.at[k]);
        for (int k = 0; clause->kind == CL_GIVEN && k < clause->choices.n; k++)
            use_name(c, clause->choices.at[k].name.text, clause->choices.at[k].name.loc);
    }
}

static void check_count(NameChecker *c, const FnDef *f, int n, int most, const char *what) {
    if (n > most) diag(c->ctx, f->name.loc, D_TOO_MANY_PARAMS, most, what, f->name.text, n);
}

static void resolve_definition(NameChecker *c, const FnDef *f) {
    c->ranks = false;
    if (f->is_kernel) check_count(c, f, f->params.n, MAX_PARAMS, "parameters");
    if (f->is_kernel) check_count(c, f, f->generics.n, MAX_TYPE_PARAMS, "type parameters");
    resolve_generics(c, f);
    resolve_choices(c, f);
    resolve_params(c, f);
    resolve_conditions(c, f);
    if (f->result) type_uses(c, f->result);
    resolve_stmt(c, f->body);
    leave_scope(c, 0, f->body->block.end);
}

void program_check_names(const Program *p, const Module *m) {
    NameChecker c = {.p = p, .ctx = p->ctx};
    for (int i = 0; i < m->items.n; i++) {
        const Item *item = c.item = &m->items.at[i];
        if (item->kind == IT_FN) resolve_definition(&c, item->fn);
        if (item->kind == IT_CONST) resolve_expr(&c, item->constant.value);
    }
}
