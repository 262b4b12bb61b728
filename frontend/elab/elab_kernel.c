// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels: choices, clauses, the op around the body, and repeated elaboration if dims must become
// constants.
//
// The need for a constant dim may show in the middle of the body, after other ops have read it from
// a tensor. The dim is then noted, the op is dropped, and the kernel is elaborated again with the
// dim fixed: its name is a CONST, its extent is in the types, and a launch check guards it. Each
// round fixes at least one more dim, so the rounds end.
#include "frontend/elab/elab_kernel.h"

#include <string.h>

/* ---- choices ------------------------------------------------------------------------------- */

bool is_schedule_axis(const char *name) {
    return axis_by_name(name) != AXIS_COUNT;
}

/// Whether the axis may have the value; if not, reports it at loc.
static bool axis_takes(Elab *e, const char *name, int64_t v, Loc loc) {
    const AxisInfo *a = &axis_info[axis_by_name(name)];
    if (a->plan && v != PLAN_CHOSEN && !plan_name(v)) {
        el_fail(e, loc, D_OPTION_WORD, name, plan_names(e->ctx));
        return false;
    }
    if (axis_allows(axis_by_name(name), v)) return true;
    const char *what = ctx_format(e->ctx, "%lld or more", (long long)a->least);
    if (a->most != INT64_MAX)
        what = ctx_format(e->ctx, "%s from %lld to %lld", a->power ? "a power of two" : "a number",
                          (long long)a->least, (long long)a->most);
    el_fail(e, loc, D_AXIS_VALUE, name, what, (long long)v);
    return false;
}

/// Records a choice for `explain` and the keys of tuning.
static void note_config(Elab *e, const char *name, int64_t v) {
    NamedValue value = {name, v};
    vec_push(e->ctx, &e->kernel->config, value);
}

bool axis_plan(const char *axis, const Expr *x, int64_t *out) {
    bool word = x->kind == EX_NAME && setting_is_plan(axis);
    if (word) *out = plan_by_name(x->name);
    return word;
}

/// Warns of a pinned value that the kernel does not list. Any value is allowed, but this one is
/// probably a mistake.
static void check_listed(Elab *e, const Choice *c, int64_t value) {
    Text all = {.ctx = e->ctx};
    for (int i = 0; i < c->alternatives.n; i++) {
        int64_t listed;
        if (!axis_plan(c->name.text, c->alternatives.at[i], &listed)) {
            Val v = el_expr(e, c->alternatives.at[i]);
            if (v.kind != V_CONST || v.c.type == CK_FLOAT) return;
            listed = v.c.i;
        }
        if (listed == value) return;
        text_add(&all, "%s%lld", i ? " | " : "", (long long)listed);
    }
    diag(e->ctx, c->name.loc, D_TUNE_VALUE, (long long)value, c->name.text);
    diag_hint(e->ctx, "the kernel lists %s", all.data);
}

/// Binds a tune choice to its value: the instance's, else the one chosen to satisfy `where`, else
/// the first alternative.
static void bind_choice(Elab *e, const Choice *c) {
    const NamedValue *set = inst_set(e->kernel->inst, c->name.text);
    const Config *chosen = &e->kernel->chosen;
    Val v = el_expr(e, c->alternatives.at[0]);
    bool boolean = v.kind == V_CONST && v.c.type == CK_BOOL;
    if (v.kind != V_ERROR && (v.kind != V_CONST || v.c.type == CK_FLOAT)) {
        el_fail(e, c->alternatives.at[0]->loc, D_NOT_CONSTANT, "a tune value", val_text(e, v));
        v = val_error();
    }
    if (set) check_listed(e, c, set->value);
    if (!set) set = value_of_name(chosen->n, chosen->values, c->name.text);
    if (set) v = boolean ? val_bool(set->value != 0) : val_int(set->value);
    scope_bind(e, c->name, BIND_TUNE, v);
    if (v.kind == V_CONST) note_config(e, c->name.text, v.c.i);
}

static void no_axis(Elab *e, Name name) {
    el_fail(e, name.loc, D_NO_SCHEDULE, name.text);
    const char *close = closest_name(name.text, axis_names, AXIS_COUNT);
    if (close) diag_fix(e->ctx, name.loc, close, "did you mean '%s'?", close);
}

/// Evaluates an alternative of a compiler's axis: a constant, or the name of a plan.
static bool schedule_axis_value(Elab *e, const char *axis, const Expr *x, int64_t *out) {
    int64_t plan;
    bool word = axis_plan(axis, x, &plan);
    Val v = word ? val_int(plan) : el_expr(e, x);
    bool constant = v.kind == V_CONST && v.c.type != CK_FLOAT;
    if (constant) *out = v.c.i;
    if (constant && !(word && *out == PLAN_CHOSEN)) return axis_takes(e, axis, *out, x->loc);
    if (word)
        el_fail(e, x->loc, D_OPTION_WORD, axis, plan_names(e->ctx));
    else if (v.kind != V_ERROR)
        el_fail(e, x->loc, D_NOT_CONSTANT, "an axis of the compiler", val_text(e, v));
    return false;
}

/// Reads the value of an axis: the instance's, else the first alternative. All alternatives are
/// checked, since searches try them.
static void read_schedule(Elab *e, const Choice *c) {
    const NamedValue *set = inst_set(e->kernel->inst, c->name.text);
    int64_t first = 0, value;
    bool right = is_schedule_axis(c->name.text);
    if (!right) no_axis(e, c->name);
    for (int i = 0; i < c->alternatives.n && is_schedule_axis(c->name.text); i++) {
        right &= schedule_axis_value(e, c->name.text, c->alternatives.at[i], &value);
        if (i == 0 && right) first = value;
    }
    if (right && set && c->alternatives.n > 1) check_listed(e, c, set->value);
    if (right) note_config(e, c->name.text, set ? set->value : first);
}

/// Names a similar tune value or axis, and else the tune values.
static void hint_choices(Elab *e, const FnDef *f, const char *name) {
    VEC(const char *) names = {0};
    Text all = {.ctx = e->ctx};
    for (int i = 0; i < f->clauses.n; i++)
        for (int c = 0; f->clauses.at[i].kind == CL_TUNE && c < f->clauses.at[i].choices.n; c++) {
            vec_push(e->ctx, &names, f->clauses.at[i].choices.at[c].name.text);
            text_add(&all, "%s%s", all.data ? ", " : "", f->clauses.at[i].choices.at[c].name.text);
        }
    for (int i = 0; i < AXIS_COUNT; i++) vec_push(e->ctx, &names, axis_names[i]);
    const char *close = closest_name(name, names.data, names.n);
    if (close)
        diag_hint(e->ctx, "did you mean '%s'?", close);
    else if (all.data)
        diag_hint(e->ctx, "it has: %s", all.data);
}

static const Choice *find_choice(const FnDef *f, const char *name) {
    for (int i = 0; i < f->clauses.n; i++)
        for (int c = 0; c < f->clauses.at[i].choices.n; c++) {
            const Choice *choice = &f->clauses.at[i].choices.at[c];
            if (f->clauses.at[i].kind == CL_TUNE && strcmp(choice->name.text, name) == 0)
                return choice;
        }
    return NULL;
}

/// Reports a --set of a name that the kernel does not have.
static void check_settings(Elab *e) {
    const Kernel *k = e->kernel;
    for (int i = 0; i < k->inst->n_set; i++) {
        const char *name = k->inst->set[i].name;
        if (find_choice(k->def, name)) continue;
        if (is_schedule_axis(name)) {
            axis_takes(e, name, k->inst->set[i].value, k->def->name.loc);
            continue;
        }
        el_fail(e, k->def->name.loc, D_NO_TUNE, k->def->name.text, name);
        hint_choices(e, k->def, name);
    }
}

/// Binds the choices in order: an alternative may use the names of earlier choices.
static void bind_choices(Elab *e) {
    const Clauses *clauses = &e->kernel->def->clauses;
    for (int i = 0; i < clauses->n; i++)
        for (int c = 0; c < clauses->at[i].choices.n; c++) {
            const Choice *choice = &clauses->at[i].choices.at[c];
            if (clauses->at[i].kind == CL_TUNE) bind_choice(e, choice);
            if (clauses->at[i].kind == CL_SCHEDULE) read_schedule(e, choice);
        }
}

/* ---- clauses ------------------------------------------------------------------------------- */

static const char *expr_text(Elab *e, const Expr *x) {
    Text t = {.ctx = e->ctx};
    ast_print_expr(&t, x);
    return message_text(e->ctx, &t);
}

static bool is_made_up(void *user, const Expr *name) {
    const Binding *b = scope_find(user, name->name);
    return b && (b->kind == BIND_DIM || b->kind == BIND_PARAM);
}

bool is_tentative(const Elab *e, const Inst *inst, const Expr *x) {
    return inst->tentative && expr_any_name(x, is_made_up, (void *)e);
}

/// Whether the condition is decided by real arguments; made-up ones do not count.
static bool condition_is_decided(Elab *e, const Expr *x, bool value) {
    return value || is_tentative(e, e->kernel->inst, x);
}

/// Checks a condition of `where`. Its dims become constants of this instance, since other extents
/// may lead to another choice.
static void check_where(Elab *e, const Expr *x) {
    bool value;
    if (el_const_bool(e, x->loc, el_expr(e, x), "'where'", &value) &&
        !condition_is_decided(e, x, value))
        el_fail(e, x->loc, D_WHERE, expr_text(e, x));
}

/// The values of the names in a condition, for the message about its failure.
typedef struct ConditionValues {
    Elab *e;
    Text text;     // "M is {}, BM is 8"
    Values values; // one for each {}
    const char *names[MAX_REQUIRE_VALUES];
    int n;
} ConditionValues;

static bool is_condition_noted(const ConditionValues *w, const char *name) {
    for (int i = 0; i < w->n; i++)
        if (w->names[i] == name) return true;
    return false;
}

static bool note_value(void *user, const Expr *name) {
    ConditionValues *w = user;
    const Binding *b = scope_find(w->e, name->name);
    if (!b || w->n == MAX_REQUIRE_VALUES || is_condition_noted(w, name->name)) return false;
    bool scalar = val_is_scalar(b->val);
    if (!scalar && b->val.kind != V_CONST) return false;
    if (scalar) vec_push(w->e->ctx, &w->values, b->val.ir.v);
    text_add(&w->text, "%s%s is %s", w->n ? ", " : "", name->name,
             scalar ? "{}" : val_const_text(w->e, b->val));
    w->names[w->n++] = name->name;
    return false;
}

static ConditionValues values_in(Elab *e, const Expr *x) {
    ConditionValues w = {.e = e, .text = {.ctx = e->ctx}};
    expr_any_name(x, note_value, &w);
    return w;
}

/// Reports a condition that is false for these constants.
static void condition_fails(Elab *e, const Expr *x) {
    ConditionValues w = values_in(e, x);
    el_fail(e, x->loc, D_REQUIRE_FALSE, expr_text(e, x));
    if (w.n && !w.values.n) diag_hint(e->ctx, "%s", w.text.data);
}

/// Checks a condition at each launch. The message shows the values that violate it.
static void require_at_launch(Elab *e, const Expr *x, Value *cond) {
    ConditionValues w = values_in(e, x);
    const char *text = ctx_format(e->ctx, "%s does not hold%s%s", expr_text(e, x), w.n ? ": " : "",
                                  w.n ? w.text.data : "");
    kernel_require(e, x->loc, cond, text, w.values.n, w.values.data);
}

/// Checks a condition now if it is decided, else at each launch.
static void check_condition(Elab *e, const Expr *x) {
    Val v = el_condition(e, el_expr(e, x));
    if (v.kind == V_ERROR) return;
    bool constant = v.kind == V_CONST && v.c.type == CK_BOOL;
    if (constant && condition_is_decided(e, x, v.c.i)) return;
    if (constant)
        condition_fails(e, x);
    else if (val_is_scalar(v) && v.ir.v->type->elem == EL_BOOL)
        require_at_launch(e, x, v.ir.v);
    else
        el_fail(e, x->loc, D_CONDITION, val_text(e, v));
    if (v.kind == V_IR && elem_is(v.ir.v->type->elem, EC_INT))
        diag_hint(e->ctx, "compare it: '%s == 0'", expr_text(e, x));
}

static void check_clauses(Elab *e) {
    const Clauses *clauses = &e->kernel->def->clauses;
    for (int i = 0; i < clauses->n; i++) {
        const Clause *c = &clauses->at[i];
        if (c->kind == CL_TUNE && c->where) check_where(e, c->where);
        for (int k = 0; c->kind == CL_REQUIRE && k < c->conditions.n; k++)
            check_condition(e, c->conditions.at[k]);
    }
}

/* ---- the op -------------------------------------------------------------------------------- */

/// Records the axes that only the instance sets.
static void note_set_axes(Elab *e) {
    const Inst *inst = e->kernel->inst;
    for (int i = 0; i < inst->n_set; i++) {
        const char *name = inst->set[i].name;
        if (is_schedule_axis(name) &&
            !value_of_name(e->kernel->config.n, e->kernel->config.data, name))
            note_config(e, name, inst->set[i].value);
    }
}

void kernel_set_config(Elab *e) {
    note_set_axes(e);
    Text t = {.ctx = e->ctx};
    for (int i = 0; i < e->kernel->config.n; i++)
        text_add(&t, "%s%s=%lld", i ? " " : "", e->kernel->config.data[i].name,
                 (long long)e->kernel->config.data[i].value);
    if (t.data) op_set_str(e->ir, e->kernel->op, A_CONFIG, t.data);
}

static void set_kernel_attrs(Elab *e, const char *name) {
    Kernel *k = e->kernel;
    const Region *r = k->op->regions[0];
    const char **params = ctx_array(e->ctx, const char *, r->n_args);
    VEC(int64_t) sym = {0};
    for (int i = 0; i < r->n_args; i++) params[i] = r->args[i]->name;
    for (int i = 0; i < k->def->params.n; i++) {
        const Tensor *t = k->params[i].tensor;
        if (t && t->sym) vec_push(e->ctx, &sym, (int64_t)t->v->index);
    }
    if (sym.n) op_set_ints(e->ir, k->op, A_SYMMETRIC_PARAMS, sym.data, sym.n);
    op_set_str(e->ir, k->op, A_NAME, name);
    op_set_strs(e->ir, k->op, A_PARAMS, params, r->n_args);
    if (k->def->doc) op_set_str(e->ir, k->op, A_DOC, k->def->doc);
    kernel_set_config(e);
}

/// Elaborates once. The mark is after the launch checks, so that later ones can be added there.
static bool elaborate_once(Elab *e, const char *name) {
    Kernel *k = e->kernel;
    k->config.n = 0;
    k->hoisted = (PtrMap){0};
    k->op = build_op(&e->b, OP_KERNEL, 0, NULL, 0, NULL, 1);
    Builder old = el_enter(e, k->op->regions[0]);
    scope_push(e);
    bind_choices(e);
    if (kernel_params(e)) {
        set_kernel_attrs(e, name);
        check_clauses(e);
        k->mark = build_bool(&e->b, ty_scalar(e->ir, EL_BOOL), true)->def;
        el_block(e, k->def->body);
        build_yield(&e->b, 0, NULL);
        kernel_check_written(e);
        if (k->rank && !el_failed(e)) el_collective(e, k->op);
        op_erase(k->mark);
    }
    scope_pop(e);
    el_leave(e, old);
    return !el_failed(e);
}

/// Reports the first block that is too large for every target.
static void check_size(Op *op, void *arg) {
    Elab *e = arg;
    for (int i = 0; i < op->n_results && !el_failed(e); i++) {
        const Type *t = result(op, i)->type;
        int64_t lanes = 1;
        for (int d = 0; ty_is_block(t) && d < t->rank && lanes <= MAX_LANES; d++)
            lanes *= t->extents[d]; // each is below 2^31
        if (lanes > MAX_LANES)
            diag(e->ctx, op->loc, D_BLOCK_TOO_LARGE, type_words(e, t), MAX_LANES);
    }
}

/// Elaborates until no more dims must be constants. Each round but the last adds a dim to `fixed`,
/// so the rounds end.
bool kernel_elaborate(Elab *e, Kernel *k, const char *name) {
    Kernel *outer = e->kernel;
    Scope *scope = e->scope;
    bool ok, again;
    if (!el_deeper(e, k->def->loc, k->def->body->depth)) return false;
    k->outer = outer;
    k->uses = ctx_array(e->ctx, ParamUse, k->def->params.n);
    e->kernel = k;
    e->scope = NULL;
    check_settings(e);
    do {
        int n_fixed = k->fixed.n;
        ok = el_choose(e, k->inst, &k->chosen) && elaborate_once(e, name);
        again = ok && k->fixed.n > n_fixed;
        if (again) op_erase(k->op);
    } while (again);
    if (ok) op_walk_pre(k->op, check_size, e);
    ok &= !el_failed(e);
    e->kernel = outer;
    e->scope = scope;
    e->depth -= k->def->body->depth;
    return ok;
}

/* ---- dims that must be known --------------------------------------------------------------- */

/// Returns the dim of an axis of this kernel's parameters, or NULL.
static KDim *dim_of_param_axis(const Elab *e, const Value *tensor, int64_t axis) {
    const Kernel *k = e->kernel;
    for (int i = 0; k && i < k->def->params.n; i++)
        if (k->params[i].tensor && k->params[i].tensor->v == tensor)
            return k->params[i].axis_dim[axis];
    return NULL;
}

/// Returns the dim of a parameter that a `dim` op reads, or NULL.
static KDim *dim_of_op(const Elab *e, const Op *dim) {
    return dim_of_param_axis(e, operand(dim, 0), op_int(dim, A_AXIS, 0));
}

bool el_axis_is_ranks(const Elab *e, const Value *tensor, int64_t axis) {
    if (value_is_sym(tensor) && axis == 0) return true;
    const KDim *d = dim_of_param_axis(e, tensor, axis);
    for (int i = 0; d && d->plus == 0 && i < e->kernel->def->params.n; i++)
        if (e->kernel->params[i].axis_dim[0] == d && e->kernel->params[i].tensor &&
            e->kernel->params[i].tensor->sym)
            return true;
    return false;
}

bool el_dim_is_ranks(const Elab *e, const Op *dim) {
    return el_axis_is_ranks(e, operand(dim, 0), op_int(dim, A_AXIS, 0));
}

/// A shard has the same shape on all ranks, and so do the tensors checked against it.
bool el_common_dim(const Elab *e, const Op *dim) {
    const Kernel *k = e->kernel;
    const KDim *d = dim_of_op(e, dim);
    if (value_is_sym(operand(dim, 0))) return true;
    for (int i = 0; d && i < k->def->params.n; i++)
        for (int a = 0; a < k->params[i].n_axes; a++)
            if (k->params[i].axis_dim[a] == d && k->params[i].tensor && k->params[i].tensor->sym)
                return true;
    return false;
}

bool el_known_dim(Elab *e, const Op *dim, bool specialise, int64_t *out) {
    int64_t axis = op_int(dim, A_AXIS, 0), extent = operand(dim, 0)->type->extents[axis];
    KDim *d = dim_of_op(e, dim);
    *out = extent != DYNAMIC ? extent : d ? d->value + d->plus : 0;
    if (extent != DYNAMIC) return true;
    if (!d || !d->known) return false;
    for (int i = 0; i < e->kernel->fixed.n; i++)
        if (e->kernel->fixed.data[i] == d->name) return true;
    if (specialise) vec_push(e->ctx, &e->kernel->fixed, d->name);
    return true;
}

/// Returns the first dim without a value that v is computed from.
static const char *unknown_dim(Elab *e, const Value *v, int *budget) {
    if (!v->def || --*budget < 0) return NULL;
    if (v->def->code == OP_DIM) {
        const KDim *d = dim_of_op(e, v->def);
        return d && !d->known ? d->name : NULL;
    }
    for (int i = 0; i < v->def->n_operands; i++) {
        const char *name = unknown_dim(e, operand(v->def, i), budget);
        if (name) return name;
    }
    return NULL;
}

const char *el_unknown_dim(Elab *e, const Value *v) {
    int budget = 1000;
    return unknown_dim(e, v, &budget);
}

/* ---- checks of the launch ------------------------------------------------------------------ */

/// Returns v at the launch checks: v itself or a copy of its computation; NULL if it depends on
/// loops or tensors.
static Value *hoist_to_checks(Elab *e, Builder *b, Value *v) {
    PtrMap *copies = &e->kernel->hoisted;
    Value *copy = map_get(copies, v);
    if (copy) return copy;
    const Region *body = e->kernel->op->regions[0];
    if (!v->def) return v->region == body ? v : NULL;
    if (v->def->parent == body && op_before(v->def, e->kernel->mark)) {
        map_set(e->ctx, copies, v, v); // recorded, since many checks may look it up
        return v;
    }
    if (!op_has(v->def, PURE) || v->def->n_regions) return NULL;
    for (int i = 0; i < v->def->n_operands; i++)
        if (!hoist_to_checks(e, b, operand(v->def, i))) return NULL;
    op_clone(b, v->def, copies);
    return map_get(copies, v);
}

/// Moves the builder to the launch checks and returns the old builder.
static Builder at_checks(Elab *e) {
    Builder old = e->b;
    e->b.region = e->kernel->op->regions[0];
    e->b.before = e->kernel->mark;
    return old;
}

/// Adds c to a bound. INT64_MAX and INT64_MIN stand for none, and sums stay within them.
static int64_t add_to_bound(int64_t bound, int64_t c) {
    int64_t sum;
    if (bound == INT64_MAX || bound == INT64_MIN) return bound;
    return __builtin_add_overflow(bound, c, &sum) ? c > 0 ? INT64_MAX : INT64_MIN : sum;
}

/// Narrows the bounds of the dims of v. For v = dim, dim - constant or min(dim, constant) the
/// bounds follow directly; in a longer expression each dim is limited to its present value.
void kernel_note_bounds(Elab *e, const Value *v, int64_t least, int64_t most) {
    const Op *op = v->def;
    int64_t c;
    if (!op || !e->kernel) return;
    if (op->code == OP_DIM) {
        KDim *d = dim_of_op(e, op);
        if (!d || d->fixed) return;
        if (least > d->least) d->least = least;
        if (most < d->most) d->most = most;
    } else if (op->code == OP_SUB && const_int(operand(op, 1), &c)) {
        kernel_note_bounds(e, operand(op, 0), add_to_bound(least, c), add_to_bound(most, c));
    } else if (op->code == OP_MIN &&
               (const_int(operand(op, 1), &c) || const_int(operand(op, 0), &c))) {
        int64_t own;
        Value *other = operand(op, const_int(operand(op, 1), &own) ? 0 : 1);
        kernel_note_bounds(e, other, least, most < c ? most : INT64_MAX);
    } else if (op->code == OP_CAST) {
        kernel_note_bounds(e, operand(op, 0), least, most);
    } else {
        for (int i = 0; i < op->n_operands; i++)
            if (el_known_int(e, val_ir(operand(op, i)), &c))
                kernel_note_bounds(e, operand(op, i), c, c);
    }
}

/// Smaller values are correct too, but other code serves them better. If v depends on loops or
/// tensors, its value was not known at compile time, so it gets no check.
void el_require_range(Elab *e, Value *v, int64_t least, int64_t n) {
    if (!e->kernel || !e->kernel->mark) return;
    kernel_note_bounds(e, v, least, n);
    Builder old = at_checks(e);
    Value *x = hoist_to_checks(e, &e->b, v);
    if (x) {
        Value *limit = build_index(&e->b, n);
        kernel_require(e, e->b.loc, build_binary(&e->b, OP_LE, x, limit),
                       "compiled for at most {} here, found {}", 2, (Value *[]){limit, x});
    }
    e->b = old;
}

/// Unequal constant extents are an error; other extents are compared at launch, once for all
/// programs.
bool el_check_equal(Elab *e, Loc loc, const char *what, Val expected, Val found) {
    int64_t a, b;
    if (expected.kind == V_ERROR || found.kind == V_ERROR) return false;
    bool constant = expected.kind == V_CONST && found.kind == V_CONST;
    if (constant && el_known_int(e, expected, &a) && el_known_int(e, found, &b)) {
        if (a != b) el_fail(e, loc, D_EXTENT_MISMATCH, what, (long long)a, (long long)b);
        return a == b;
    }
    Value *x = el_index(e, loc, expected, "an extent"), *y = el_index(e, loc, found, "an extent");
    if (!x || !y) return false;
    if (x == y || !e->kernel || !e->kernel->mark) return true;
    Builder old = at_checks(e);
    x = hoist_to_checks(e, &e->b, x);
    y = hoist_to_checks(e, &e->b, y);
    if (x && y)
        kernel_require(e, el_loc(e, loc), build_binary(&e->b, OP_EQ, x, y),
                       ctx_format(e->ctx, "%s has an extent of {}, not {}", what), 2,
                       (Value *[]){y, x});
    e->b = old;
    return true;
}
