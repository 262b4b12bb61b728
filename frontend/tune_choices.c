// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The space of tune values: all combinations that satisfy every `where`, in the order of the
// source. This file alone decides the members of the space and the first one.
//
// Choices are bound one after the other; the last one varies fastest. A condition is evaluated as
// soon as its last choice is bound, so it cuts all combinations with that prefix. The walk has a
// limit: a condition may be satisfied by one combination of 2^60.
#include "frontend/elab/elab_kernel.h"

#include <string.h>

// The limit on elaboration steps in one walk. Kernels need a few hundred.
enum { MAX_STEPS = 1 << 17 };

/// A tune value, or an axis of the compiler that `schedule` pins or narrows.
typedef struct Open {
    const Choice *choice;
    bool axis;
    const NamedValue *set; // set by the instance: the only value
} Open;

/// A condition, and the number of bound choices that it needs.
typedef struct Condition {
    const Expr *where;
    int after;
} Condition;

typedef struct Space {
    Elab *e;
    const Inst *inst;
    int max;
    uint64_t last_step;
    VEC(Open) choices;
    VEC(Condition) conditions;
    NamedValue *values; // one for each choice, as far as chosen
    Configs *out;
} Space;

static bool is_ended(const Space *s) {
    return s->out->n >= s->max || ctx_steps(s->e->ctx) >= s->last_step;
}

/// Whether the conditions allow the combination so far. A condition that is undecided, or decided
/// by made-up values, allows it.
static bool is_combination_allowed(Space *s, int bound) {
    int64_t v;
    for (int i = 0; i < s->conditions.n; i++) {
        const Condition *c = &s->conditions.data[i];
        if (c->after == bound && el_evaluate(s->e, c->where, &v) && !v &&
            !is_tentative(s->e, s->inst, c->where))
            return false;
    }
    return true;
}

static void choose_alternatives(Space *s, int i);

/// Takes value v for choice i, then walks the later choices.
static void choose_value(Space *s, int i, Val v, int64_t number) {
    const Open *open = &s->choices.data[i];
    s->values[i] = (NamedValue){open->choice->name.text, number};
    ctx_count(s->e->ctx, 1);
    scope_push(s->e);
    if (!open->axis) scope_bind(s->e, open->choice->name, BIND_TUNE, v);
    if (is_combination_allowed(s, i + 1)) choose_alternatives(s, i + 1);
    scope_pop(s->e);
}

/// Walks the alternatives of choice i, the first one first, and the later choices for each.
static void choose_alternatives(Space *s, int i) {
    if (i == s->choices.n) {
        Config config = {i, ctx_copy(s->e->ctx, s->values, sizeof *s->values * (size_t)i)};
        vec_push(s->e->ctx, s->out, config);
        return;
    }
    const Open *open = &s->choices.data[i];
    const Exprs *all = &open->choice->alternatives;
    int64_t number;
    Val v;
    for (int k = 0; k < all->n && !is_ended(s); k++) {
        const Expr *x = all->at[k];
        bool plan = open->axis && axis_plan(open->choice->name.text, x, &number);
        if (!plan && !el_evaluate(s->e, x, &number)) continue;
        v = plan ? val_int(number) : el_expr(s->e, x);
        if (open->set) {
            number = open->set->value;
            v = v.c.type == CK_BOOL ? val_bool(number != 0) : val_int(number);
        }
        choose_value(s, i, v, number);
        if (open->set) return;
    }
}

/* ---- names in conditions -------------------------------------------------------------------- */

/// Returns the argument's axis for dimension k of the type, or -1 for the pack.
static int axis_of_dim(const ParamInst *known, const Dims *dims, int k) {
    for (int i = 0; i < k; i++)
        if (dims->at[i].pack) return known->rank - dims->n + k;
    return dims->at[k].pack ? -1 : k;
}

static void bind_shape(Elab *e, const Param *p, const ParamInst *known, NamedValues *all) {
    const Dims *dims = &p->type->dims;
    for (int k = 0; k < dims->n; k++) {
        int axis = axis_of_dim(known, dims, k);
        const Expr *x = dims->at[k].expr;
        bool name = x->kind == EX_NAME && !is_constant_name(e->program, x);
        if (axis < 0 || axis >= known->rank || !name || known->extents[axis] == DYNAMIC) continue;
        named_value_add(e->ctx, all, x->name, known->extents[axis]);
    }
}

/// Binds the other names that `where` may use: known const parameters and dims. A condition with an
/// unknown one is undecided.
static void bind_known(Elab *e, const Inst *inst) {
    NamedValues all = {0};
    for (int i = 0; i < inst->n_params && i < inst->kernel->params.n; i++) {
        const Param *p = &inst->kernel->params.at[i];
        const ParamInst *known = &inst->params[i];
        if (p->constant && known->known_value)
            named_value_add(e->ctx, &all, p->name.text, known->value);
        if (known->known_shape && param_is_tensor(p)) bind_shape(e, p, known, &all);
    }
    for (int i = 0; i < inst->n_dims; i++)
        named_value_add(e->ctx, &all, ctx_name(e->ctx, inst->dims[i].name), inst->dims[i].value);
    for (int i = 0; i < all.n; i++)
        scope_bind(e, (Name){all.data[i].name, (Loc){0}}, BIND_DIM, val_int(all.data[i].value));
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void list_choices(Space *s) {
    const Clauses *clauses = &s->inst->kernel->clauses;
    for (int i = 0; i < clauses->n; i++)
        for (int c = 0; c < clauses->at[i].choices.n; c++) {
            const Choice *choice = &clauses->at[i].choices.at[c];
            Open open = {choice, clauses->at[i].kind == CL_SCHEDULE,
                         inst_set(s->inst, choice->name.text)};
            if ((open.axis && !open.set) || clauses->at[i].kind == CL_TUNE)
                vec_push(s->e->ctx, &s->choices, open);
        }
    s->values = ctx_array(s->e->ctx, NamedValue, s->choices.n);
}

/// The names of a condition: the choices that it needs, and whether one has no value.
typedef struct WhereNames {
    const Space *space;
    int after;
    bool unknown; // one of the names has no value
} WhereNames;

static bool note_name(void *user, const Expr *name) {
    WhereNames *w = user;
    const Space *s = w->space;
    for (int i = s->choices.n - 1; i >= 0; i--) {
        const Open *open = &s->choices.data[i];
        if (open->axis || open->choice->name.text != name->name) continue;
        if (w->after <= i) w->after = i + 1;
        return false;
    }
    const char *text = name->name;
    w->unknown |= !scope_find(s->e, text) && !builtin_by_name(text) &&
                  elem_by_name(text) == EL_COUNT &&
                  !program_find(s->e->program, text, name->loc.file);
    return w->unknown;
}

/// Lists the conditions that can be decided.
static void list_conditions(Space *s) {
    const Clauses *clauses = &s->inst->kernel->clauses;
    for (int i = 0; i < clauses->n; i++) {
        const Expr *where = clauses->at[i].kind == CL_TUNE ? clauses->at[i].where : NULL;
        WhereNames w = {.space = s};
        if (!where || expr_any_name(where, note_name, &w)) continue;
        Condition c = {where, w.after};
        vec_push(s->e->ctx, &s->conditions, c);
    }
}

/// Walks the space. Returns whether it reached the end or the requested number of combinations.
static bool walk_choices(Space *s) {
    bind_known(s->e, s->inst);
    list_choices(s);
    list_conditions(s);
    s->last_step = ctx_steps(s->e->ctx) + MAX_STEPS;
    if (is_combination_allowed(s, 0)) choose_alternatives(s, 0);
    return s->out->n >= s->max || ctx_steps(s->e->ctx) < s->last_step;
}

void fe_configs(Ctx *ctx, const Program *p, const Inst *inst, int max, Configs *out) {
    Elab e = elab_constant(ctx, p);
    Space s = {.e = &e, .inst = inst, .max = max, .out = out};
    walk_choices(&s);
}

/* ---- the first one --------------------------------------------------------------------------- */

/// Returns all conditions as one text, and the location of the first; NULL without conditions.
static const char *all_conditions(Ctx *ctx, const FnDef *f, Loc *loc) {
    Text t = {.ctx = ctx};
    for (int i = f->clauses.n - 1; i >= 0; i--)
        if (f->clauses.at[i].kind == CL_TUNE && f->clauses.at[i].where)
            *loc = f->clauses.at[i].where->loc;
    for (int i = 0; i < f->clauses.n; i++) {
        const Expr *where = f->clauses.at[i].kind == CL_TUNE ? f->clauses.at[i].where : NULL;
        if (where && t.data) text_add(&t, " && ");
        if (where) ast_print_expr(&t, where);
    }
    return t.data ? message_text(ctx, &t) : NULL;
}

/// Whether the instance leaves any choice open.
static bool has_open(const Inst *inst) {
    for (int i = 0; i < inst->kernel->clauses.n; i++) {
        const Clause *c = &inst->kernel->clauses.at[i];
        for (int k = 0; c->kind == CL_TUNE && k < c->choices.n; k++)
            if (!inst_set(inst, c->choices.at[k].name.text)) return true;
    }
    return false;
}

static void hint_pinned(Elab *e, const Inst *inst) {
    if (inst->n_set) diag_hint(e->ctx, "set: %s", settings_text(e->ctx, inst->n_set, inst->set));
}

bool el_choose(Elab *e, const Inst *inst, Config *out) {
    Loc loc;
    const char *where = all_conditions(e->ctx, inst->kernel, &loc);
    *out = (Config){0};
    if (!where || !has_open(inst)) return true;
    Configs all = {0};
    Elab own = elab_constant(e->ctx, e->program);
    Space s = {.e = &own, .inst = inst, .max = 1, .out = &all};
    bool ended = walk_choices(&s);
    if (all.n) *out = all.data[0];
    if (all.n) return true;
    if (ended)
        el_fail(e, loc, D_WHERE_NONE, where);
    else
        el_fail(e, loc, D_WHERE_SEARCH, where);
    hint_pinned(e, inst);
    return false;
}
