// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parameters of a kernel: packs, dims, tensor types and launch checks.
//
//     kernel k(x: T[..R, N], y: T[..R, N])        x: f32[4, 3, 100], y contiguous
//       pack R    takes axes 0 and 1 of both; they lie as one in both, so they become one axis
//       dims      R = axis 0 of x, N = axis 1 of x: the first tensor that names a dim binds it
//       types     tensor<f32, ?x?, [?, 1]>: an extent is in the type where its dim is a constant of
//                 this instance, a stride where it is 0 or 1
//       checks    every other axis that names a dim has its extent; strides are as in the types
//
// Types need constants, and dims that are not constant are read from tensors with types. So names
// are bound in three steps: first the constants (other names are silently unknown), then the types
// of the region's arguments, then the remaining names.
#include "frontend/elab/elab_kernel.h"

#include <string.h>

/* ---- values of the instance ---------------------------------------------------------------- */

const NamedValue *value_of_name(int n, const NamedValue *values, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(values[i].name, name) == 0) return &values[i];
    return NULL;
}

const char *settings_text(Ctx *ctx, int n, const NamedValue *values) {
    Text t = {.ctx = ctx};
    for (int i = 0; i < n; i++) {
        text_add(&t, "%s", i ? " " : "");
        setting_text(&t, values[i].name, values[i].value);
    }
    return t.data ? t.data : "";
}

const NamedValue *inst_dim(const Inst *inst, const char *name) {
    return value_of_name(inst->n_dims, inst->dims, name);
}

const NamedValue *inst_set(const Inst *inst, const char *name) {
    return value_of_name(inst->n_set, inst->set, name);
}

/* ---- type parameters ----------------------------------------------------------------------- */

/// Returns the element of the first argument with this type name, else the fixed one, else a
/// default.
static Elem elem_of_generic(const Kernel *k, const Generic *g) {
    for (int i = 0; i < k->def->params.n; i++) {
        const Param *p = &k->def->params.at[i];
        bool typed = p->type && p->type->elem.text == g->name.text && i < k->inst->n_params;
        if (typed && !k->inst->params[i].null && k->inst->params[i].elem < EL_COUNT)
            return k->inst->params[i].elem;
    }
    const NamedValue *fixed = inst_dim(k->inst, g->name.text);
    return fixed && fixed->value >= 0 && fixed->value < EL_COUNT ? (Elem)fixed->value
                                                                 : el_constraint_default(g);
}

/// Binds the type parameters, before the parameters whose types use them.
static bool bind_generics(Elab *e) {
    const FnDef *f = e->kernel->def;
    for (int i = 0; i < f->generics.n; i++) {
        const Generic *g = &f->generics.at[i];
        if (el_bind_elem(e, f, g->name, elem_of_generic(e->kernel, g), g->name.loc) == EL_COUNT)
            return false;
    }
    return true;
}

/* ---- constants ----------------------------------------------------------------------------- */

/// Binds a constant parameter, which has no argument in the IR.
static bool bind_const_param(Elab *e, const KParam *kp) {
    const Param *p = kp->p;
    const NamedValue *fixed = inst_dim(e->kernel->inst, p->name.text);
    if (!fixed && !kp->inst->known_value) {
        el_fail(e, p->loc, D_CONST_UNKNOWN, p->name.text);
        return false;
    }
    int64_t v = kp->inst->known_value ? kp->inst->value : fixed->value;
    if (kp->elem == EL_COUNT || !elem_is(kp->elem, EC_INT | EC_BOOL)) {
        if (kp->elem != EL_COUNT) el_fail(e, p->loc, D_CONST_PARAM_TYPE, p->name.text);
        return false;
    }
    scope_bind(e, p->name, BIND_PARAM, kp->elem == EL_BOOL ? val_bool(v != 0) : val_int(v));
    return true;
}

/// Checks the parts of a parameter's type that need no dims; finds its element.
static bool read_param(Elab *e, KParam *kp) {
    const Param *p = kp->p;
    const TypeExpr *t = p->type;
    if (!t || t->kind == TY_TUPLE || t->kind == TY_BLOCK) {
        el_fail(e, p->loc, D_KERNEL_PARAM, p->name.text);
        return false;
    }
    if (p->optional && t->kind != TY_TENSOR) {
        el_fail(e, p->loc, D_OPTIONAL_SCALAR, p->name.text);
        return false;
    }
    kp->elem = el_elem(e, t->elem);
    if (kp->elem == EL_COUNT) return false;
    Elem given = kp->inst->elem;
    if (!p->constant && !kp->inst->null && given < EL_COUNT && given != kp->elem) {
        el_fail(e, p->loc, D_PARAM_ELEM, p->name.text, elem_info[kp->elem].name,
                elem_info[given].name);
        if (t->kind == TY_TENSOR)
            diag_hint(e->ctx, "convert the argument, or take several types: <T: any> and T here");
        return false;
    }
    if (elem_info[kp->elem].bits < 8 && t->kind != TY_TENSOR) {
        el_fail(e, p->loc, D_STORAGE_TYPE, elem_info[kp->elem].name, "a scalar parameter");
        return false;
    }
    return !p->constant || bind_const_param(e, kp);
}

/* ---- packs --------------------------------------------------------------------------------- */

static Pack *find_pack(const Kernel *k, const char *name) {
    for (int i = 0; i < k->packs.n; i++)
        if (k->packs.data[i]->name == name) return k->packs.data[i];
    return NULL;
}

/// Returns the place of the pack in a tensor type, or -1.
static int pack_dim(const TypeExpr *t) {
    for (int i = 0; i < t->dims.n; i++)
        if (t->dims.at[i].pack) return i;
    return -1;
}

/// Whether the rank is known. In a call by another kernel, it may be the only known fact.
static bool has_known_rank(const ParamInst *inst) {
    return inst->known_shape || inst->rank > 0;
}

/// Whether one stride can walk the axes a and b > a of every tensor with this pack; all axes in
/// between have extent 1. Unknown strides count as if it could.
static bool pack_axes_lie_as_one(const Kernel *k, const Pack *pack, int a, int b) {
    for (int i = 0; i < k->def->params.n; i++) {
        const KParam *kp = &k->params[i];
        if (kp->pack != pack || !kp->inst->known_strides) continue;
        int at = pack_dim(kp->p->type);
        const int64_t *s = kp->inst->strides + at, *x = kp->inst->extents + at;
        int64_t step;
        if (__builtin_mul_overflow(s[b], x[b], &step) || s[a] != step) return false;
    }
    return true;
}

/// Returns an extent of a pack. All tensors that share the pack share its extents, so any known
/// tensor gives it.
static int64_t pack_extent(const Kernel *k, const Pack *pack, int axis) {
    for (int i = 0; i < k->def->params.n; i++) {
        const KParam *kp = &k->params[i];
        if (kp->pack == pack && kp->inst->known_shape)
            return kp->inst->extents[pack_dim(kp->p->type) + axis];
    }
    return DYNAMIC;
}

static bool is_empty_pack(const Kernel *k, const Pack *pack) {
    for (int i = 0; i < pack->given; i++)
        if (pack_extent(k, pack, i) == 0) return true;
    return false;
}

/// Cuts the axes of a pack into as few groups as possible, each walked with one stride. Axes of
/// extent 1 join any group. Without axes, or if all have extent 1 or the pack is empty, there is
/// one group.
static void group_pack(const Kernel *k, Pack *pack) {
    int last = -1; // the last axis with an extent other than 1
    bool empty = is_empty_pack(k, pack);
    pack->groups = 1;
    for (int i = 0; i < pack->given; i++) {
        if (!k->called && pack_extent(k, pack, i) == 1) continue;
        bool joins = !k->called && (empty || last < 0 || pack_axes_lie_as_one(k, pack, last, i));
        if (!joins && i > 0) pack->from[pack->groups++] = i;
        last = i;
    }
    pack->from[pack->groups] = pack->given;
}

/// Gives the pack the axes that the other dims of the type leave.
static bool read_pack(Elab *e, KParam *kp) {
    const TypeExpr *t = kp->p->type;
    int at = pack_dim(t), plain = t->dims.n - (at >= 0);
    int rank = has_known_rank(kp->inst) ? kp->inst->rank : t->dims.n;
    if (at < 0 ? rank != plain : rank < plain) {
        el_fail(e, kp->p->loc, D_PARAM_RANK, kp->p->name.text, plain, rank);
        return false;
    }
    if (at < 0) return true;
    const char *name = t->dims.at[at].expr->name;
    Pack *pack = find_pack(e->kernel, name);
    if (pack && pack->given != rank - plain && has_known_rank(kp->inst)) {
        el_fail(e, kp->p->loc, D_PACK_AXES, name, kp->p->name.text, rank - plain, pack->given);
        return false;
    }
    if (!pack) {
        pack = ctx_new(e->ctx, Pack);
        *pack = (Pack){.name = name, .given = rank - plain};
        vec_push(e->ctx, &e->kernel->packs, pack);
    }
    kp->pack = pack;
    return true;
}

/* ---- axes ---------------------------------------------------------------------------------- */

/// Computes extent and stride of the axes from .. to of an argument, merged.
static void join_param_axes(KParam *kp, int from, int to) {
    const ParamInst *inst = kp->inst;
    int64_t extent = 1, stride = from < to ? inst->strides[to - 1] : 1;
    bool empty = false; // an extent of 0: the others may have any size
    for (int i = from; i < to && inst->known_shape; i++) {
        empty |= inst->extents[i] == 0;
        if (__builtin_mul_overflow(extent, inst->extents[i], &extent)) extent = INT64_MAX;
    }
    if (empty) extent = 0;
    for (int i = to - 1; i >= from; i--) {
        if (!inst->known_shape || inst->extents[i] == 1) continue;
        stride = inst->strides[i];
        break;
    }
    bool alone = to - from == 1; // an extent may be unknown next to known ones
    kp->extents[kp->n_axes] = !inst->known_shape ? DYNAMIC : alone ? inst->extents[from] : extent;
    kp->strides[kp->n_axes] = inst->known_strides ? stride : DYNAMIC;
}

/// Computes the axes of the IR tensor from those of the argument.
static bool read_param_axes(Elab *e, KParam *kp) {
    const TypeExpr *t = kp->p->type;
    int at = 0, total = t->dims.n + (kp->pack ? kp->pack->groups - 1 : 0);
    if (total > MAX_RANK) {
        el_fail(e, kp->p->loc, D_RANK, MAX_RANK);
        return false;
    }
    for (int i = 0; i < t->dims.n; i++) {
        int groups = t->dims.at[i].pack ? kp->pack->groups : 1;
        for (int g = 0; g < groups; g++, kp->n_axes++) {
            const Pack *pack = t->dims.at[i].pack ? kp->pack : NULL;
            int from = at + (pack ? pack->from[g] : 0), to = at + (pack ? pack->from[g + 1] : 1);
            join_param_axes(kp, from, to);
            kp->axis_expr[kp->n_axes] = pack ? NULL : t->dims.at[i].expr;
        }
        at += t->dims.at[i].pack ? kp->pack->given : 1;
    }
    return true;
}

/* ---- dims ---------------------------------------------------------------------------------- */

KDim *kernel_find_dim(const Kernel *k, const char *name) {
    for (int i = 0; i < k->dims.n; i++)
        if (k->dims.data[i]->name == name) return k->dims.data[i];
    return NULL;
}

/// Whether a clause `given` has the name. Such a dim is a constant if its value is known.
static bool in_given(const FnDef *f, const char *name) {
    for (int i = 0; i < f->clauses.n; i++)
        for (int c = 0; f->clauses.at[i].kind == CL_GIVEN && c < f->clauses.at[i].choices.n; c++)
            if (f->clauses.at[i].choices.at[c].name.text == name) return true;
    return false;
}

/// Whether the kernel, or a caller of it, has the axis `specialise`: all dims are constants.
static bool is_specialised(const Kernel *k) {
    for (; k; k = k->outer) {
        const NamedValue *v =
            value_of_name(k->config.n, k->config.data, axis_names[AXIS_SPECIALISE]);
        if (!v) v = inst_set(k->inst, axis_names[AXIS_SPECIALISE]);
        if (v && v->value > 0) return true;
    }
    return false;
}

/// Whether a dim is a constant. An unknown dim cannot be one; el_const_int reports an error if it
/// must be.
static bool is_fixed(const Kernel *k, const KDim *d) {
    if (!d->known) return false;
    if (is_specialised(k) || in_given(k->def, d->name)) return true;
    for (int i = 0; i < k->fixed.n; i++)
        if (k->fixed.data[i] == d->name) return true;
    return false;
}

/// Returns the dim's name of an axis. NULL: the axis is not a dim, and its extent is computed and
/// checked.
static const char *axis_name(Elab *e, const KParam *kp, int axis) {
    const Expr *x = kp->axis_expr[axis];
    if (x)
        return x->kind == EX_NAME && (el_binds(e, x) || kernel_find_dim(e->kernel, x->name))
                   ? x->name
                   : NULL;
    if (kp->pack->groups == 1) return kp->pack->name;
    int first = 0;
    while (kp->axis_expr[first]) first++;
    return ctx_name(e->ctx, ctx_format(e->ctx, "%s.%d", kp->pack->name, axis - first));
}

/// Adds a dim, bound by the first axis with its name. A value fixed by hand is known from the
/// start.
static void add_kernel_dim(Elab *e, const char *name, int param, int axis, int64_t plus) {
    Kernel *k = e->kernel;
    KParam *kp = &k->params[param];
    KDim *d = ctx_new(e->ctx, KDim);
    Loc loc = kp->axis_expr[axis] ? kp->axis_expr[axis]->loc : kp->p->loc;
    const NamedValue *v = inst_dim(k->inst, name);
    *d = (KDim){.name = name, .loc = loc, .param = param, .axis = axis, .plus = plus};
    d->most = INT64_MAX;
    d->known = v != NULL;
    d->value = v ? v->value : 0;
    kp->axis_dim[axis] = d;
    vec_push(e->ctx, &k->dims, d);
}

/// Finds or makes the dim of an axis, and records its value if this argument has it.
static void read_axis_dim(Elab *e, int param, int axis) {
    KParam *kp = &e->kernel->params[param];
    const char *name = axis_name(e, kp, axis);
    if (!name) return;
    kp->axis_dim[axis] = kernel_find_dim(e->kernel, name);
    if (!kp->axis_dim[axis]) add_kernel_dim(e, name, param, axis, 0);
}

/// Binds a name that appears only in a sum, such as E in `E + 1`, by that axis.
static void read_sum(Elab *e, int param, int axis) {
    const Expr *x = e->kernel->params[param].axis_expr[axis];
    if (!x || x->kind != EX_BINARY || (x->binary.op != BI_ADD && x->binary.op != BI_SUB)) return;
    const Expr *a = x->binary.a, *b = x->binary.b;
    if (b->kind != EX_INT || b->integer.value > INT32_MAX || !el_binds(e, a) ||
        kernel_find_dim(e->kernel, a->name))
        return;
    int64_t plus = (int64_t)b->integer.value;
    add_kernel_dim(e, a->name, param, axis, x->binary.op == BI_ADD ? plus : -plus);
}

static void note_extent(const KParam *kp, int axis) {
    KDim *d = kp->axis_dim[axis];
    if (!d || d->known || kp->extents[axis] == DYNAMIC) return;
    d->known = true;
    d->value = kp->extents[axis] - d->plus;
}

/// Plain names come first: `E + 1` binds E only if no tensor has E itself.
static void read_all_dims(Elab *e) {
    Kernel *k = e->kernel;
    for (int i = 0; i < k->def->params.n; i++)
        for (int a = 0; a < k->params[i].n_axes; a++) read_axis_dim(e, i, a);
    for (int i = 0; i < k->def->params.n; i++)
        for (int a = 0; a < k->params[i].n_axes; a++) {
            read_sum(e, i, a);
            note_extent(&k->params[i], a);
        }
}

/// Binds the names of dims: to their values if fixed, else, until tensors exist, to an unreported
/// error.
static void bind_kernel_dims(Elab *e) {
    Kernel *k = e->kernel;
    for (int i = 0; i < k->dims.n; i++) {
        KDim *d = k->dims.data[i];
        d->fixed = is_fixed(k, d);
        d->val = d->fixed ? val_int(d->value) : val_error();
        scope_bind(e, (Name){d->name, d->loc}, BIND_DIM, d->val);
    }
}

/// Returns the constant extent of an axis in the type of its tensor, or DYNAMIC.
static int64_t static_extent(Elab *e, const KParam *kp, int axis) {
    const KDim *d = kp->axis_dim[axis];
    if (d) return d->fixed ? d->value + d->plus : DYNAMIC;
    Val v = el_expr(e, kp->axis_expr[axis]);
    return v.kind == V_CONST && v.c.type == CK_INT && !v.c.wide && v.c.i >= 0 ? v.c.i : DYNAMIC;
}

/// Sets the type of a tensor, after its dims are known. Strides of 0 and 1 are part of it.
static void set_tensor_type(Elab *e, KParam *kp) {
    int64_t extents[MAX_RANK], strides[MAX_RANK];
    for (int i = 0; i < kp->n_axes; i++) {
        bool known = kp->strides[i] == 0 || kp->strides[i] == 1;
        bool shards = i == 0 && kp->tensor->sym; // the runtime chooses the distance between shards
        extents[i] = static_extent(e, kp, i);
        strides[i] = known && !shards ? kp->strides[i] : DYNAMIC;
    }
    const Type *type = ty_tensor(e->ir, kp->elem, kp->n_axes, extents, strides);
    type = ty_aligned(e->ir, type, kp->inst->align);
    bool near = kp->inst->near && !kp->tensor->sym;
    kp->tensor->v->type = near ? ty_near(e->ir, type) : type;
}

static Value *axis_op(Elab *e, OpCode code, Value *tensor, int axis) {
    const Type *type = ty_scalar(e->ir, EL_I64);
    Op *op = build_op(&e->b, code, 1, &tensor, 1, &type, 0);
    op_set_int(e->ir, op, A_AXIS, axis);
    return result(op, 0);
}

/// Checks need the argument's own value; elsewhere `dim` of a known extent folds to a constant.
Value *kernel_passed(Elab *e, OpCode code, Value *tensor, int axis) {
    Value *v = axis_op(e, code, tensor, axis);
    const Type *t = tensor->type;
    if ((code == OP_DIM ? t->extents : t->strides)[axis] != DYNAMIC)
        op_set_flag(e->ir, v->def, A_AS_PASSED, true);
    return v;
}

Value *el_tensor_dim(Elab *e, const Tensor *t, int axis) {
    const Kernel *k = e->kernel;
    for (int i = 0; k && i < k->def->params.n; i++) {
        const KDim *d = k->params[i].axis_dim[axis];
        bool same = k->params[i].tensor && k->params[i].tensor->v == t->v && d && !d->plus;
        if (same && d->val.kind == V_IR)
            return d->val.ir.v; // one value for all tensors with the
                                // dim
    }
    return axis_op(e, OP_DIM, t->v, axis);
}

/// Binds the names of dims to their values at launch, after the tensors exist.
static void read_dims(Elab *e) {
    Kernel *k = e->kernel;
    for (int i = 0; i < k->dims.n; i++) {
        KDim *d = k->dims.data[i];
        if (d->fixed) continue;
        Value *v = axis_op(e, OP_DIM, k->params[d->param].tensor->v, d->axis);
        if (d->plus) v = build_binary(&e->b, OP_SUB, v, build_index(&e->b, d->plus));
        v->name = d->name;
        d->val = scope_find(e, d->name)->val = val_ir(v);
    }
    for (int i = 0; i < k->packs.n; i++) {
        const Pack *pack = k->packs.data[i];
        if (pack->groups == 1) continue;
        Val all = val_void();
        for (int g = 0; g < pack->groups; g++) {
            const char *name = ctx_name(e->ctx, ctx_format(e->ctx, "%s.%d", pack->name, g));
            Val extent = kernel_find_dim(k, name)->val;
            all = g ? el_binary(e, e->b.loc, BI_MUL, all, extent) : extent;
        }
        scope_bind(e, (Name){pack->name, e->b.loc}, BIND_DIM, all);
    }
}

/* ---- checks -------------------------------------------------------------------------------- */

void kernel_require(Elab *e, Loc loc, Value *cond, const char *text, int n, Value *const *values) {
    Value *operands[MAX_REQUIRE_VALUES + 1] = {cond};
    for (int i = 0; i < n; i++) operands[i + 1] = values[i];
    Builder b = e->b;
    b.loc = loc;
    Op *op = build_op(&b, OP_REQUIRE, n + 1, operands, 0, NULL, 0);
    op_set_str(e->ir, op, A_TEXT, text);
}

/// Returns the required extent of an axis: its dim, or the expression in the type.
static Val axis_extent(Elab *e, KParam *kp, int axis) {
    const KDim *d = kp->axis_dim[axis];
    Val *v = &kp->axis_val[axis];
    if (v->kind != V_ERROR) return *v;
    if (!d)
        *v = el_expr(e, kp->axis_expr[axis]);
    else
        *v = d->plus ? el_binary(e, d->loc, BI_ADD, d->val, val_int(d->plus)) : d->val;
    if (v->kind == V_IR) *v = val_ir(el_index(e, kp->p->loc, *v, "a dimension"));
    return *v;
}

/// Checks an axis at launch, unless the dim is read from it.
static void check_axis(Elab *e, int param, int axis) {
    KParam *kp = &e->kernel->params[param];
    const KDim *d = kp->axis_dim[axis];
    if (d && !d->fixed && d->param == param && d->axis == axis) return; // this axis binds the dim
    const Expr *x = kp->axis_expr[axis];
    Loc loc = x ? x->loc : kp->p->loc;
    e->b.loc = loc;
    Value *expected = el_index(e, loc, axis_extent(e, kp, axis), "a dimension");
    if (!expected) return;
    Value *found = kernel_passed(e, OP_DIM, kp->tensor->v, axis);
    Text what = {.ctx = e->ctx};
    if (x)
        ast_print_expr(&what, x);
    else
        text_add(&what, "%s", d->name);
    const char *text =
        d && !d->fixed ? ctx_format(e->ctx, "%s is {} in '%s' and {} in '%s'", what.data,
                                    e->kernel->params[d->param].p->name.text, kp->p->name.text)
        : x && x->kind == EX_INT
            ? ctx_format(e->ctx, "dimension %d of '%s' must be {}, found {}", axis,
                         kp->p->name.text)
            : ctx_format(e->ctx, "%s is {} here and {} in '%s'", what.data, kp->p->name.text);
    kernel_require(e, loc, build_binary(&e->b, OP_EQ, found, expected), text, 2,
                   (Value *[]){expected, found});
}

/// Code for stride 1 loads whole vectors. It must not see another stride, unless the axis has at
/// most one element.
static void check_stride(Elab *e, const KParam *kp, int axis) {
    int64_t s = kp->tensor->v->type->strides[axis];
    if (s == DYNAMIC) return;
    e->b.loc = kp->p->loc;
    Value *found = kernel_passed(e, OP_STRIDE, kp->tensor->v, axis);
    Value *expected = build_index(&e->b, s);
    Value *extent = kernel_passed(e, OP_DIM, kp->tensor->v, axis);
    Value *few = build_binary(&e->b, OP_LE, extent, build_index(&e->b, 1));
    Value *same = build_binary(&e->b, OP_EQ, found, expected);
    kernel_require(e, kp->p->loc, build_binary(&e->b, OP_OR, same, few),
                   ctx_format(e->ctx, "compiled for stride {} in axis %d of '%s', found {}", axis,
                              kp->p->name.text),
                   2, (Value *[]){expected, found});
}

/// Checks that address and strides are multiples of the alignment in the type.
static void check_alignment(Elab *e, const KParam *kp) {
    const Type *t = kp->tensor->v->type;
    int64_t bits = (int64_t)t->align * 8;
    if (!t->align) return;
    e->b.loc = kp->p->loc;
    const Type *index = ty_scalar(e->ir, EL_I64);
    Op *align = build_op(&e->b, OP_ALIGN, 1, &kp->tensor->v, 1, &index, 0);
    Value *ok = build_binary(&e->b, OP_GE, result(align, 0), build_index(&e->b, t->align));
    for (int i = 0; i < t->rank; i++) {
        if (t->strides[i] != DYNAMIC) continue;
        Value *stride = kernel_passed(e, OP_STRIDE, kp->tensor->v, i);
        Value *width = build_index(&e->b, elem_info[t->elem].bits);
        Value *at = build_binary(&e->b, OP_MUL, stride, width);
        Value *rest = build_binary(&e->b, OP_AND, at, build_index(&e->b, bits - 1));
        Value *few = build_binary(&e->b, OP_LE, kernel_passed(e, OP_DIM, kp->tensor->v, i),
                                  build_index(&e->b, 1));
        Value *fits = build_binary(&e->b, OP_EQ, rest, build_index(&e->b, 0));
        Value *forward = build_binary(&e->b, OP_GE, stride, build_index(&e->b, 0));
        fits = build_binary(&e->b, OP_AND, fits, forward);
        ok = build_binary(&e->b, OP_AND, ok, build_binary(&e->b, OP_OR, fits, few));
    }
    kernel_require(e, kp->p->loc, ok,
                   ctx_format(e->ctx,
                              "compiled for '%s' at a multiple of %d bytes, its strides too",
                              kp->p->name.text, t->align),
                   0, NULL);
}

/// Checks that the last element ends before the span, and that none lies before element 0.
static void check_span(Elab *e, const KParam *kp) {
    const Type *t = kp->tensor->v->type;
    int64_t span = (int64_t)1 << TENSOR_SPAN_LOG2;
    if (!t->near) return;
    e->b.loc = kp->p->loc;
    Value *last = build_index(&e->b, 0), *forward = NULL, *none = build_index(&e->b, 0);
    for (int i = 0; i < t->rank; i++) {
        Value *stride = kernel_passed(e, OP_STRIDE, kp->tensor->v, i);
        Value *more = kernel_passed(e, OP_DIM, kp->tensor->v, i);
        more = build_binary(&e->b, OP_SUB, more, build_index(&e->b, 1));
        more = build_binary(&e->b, OP_MAX, more, none);
        Value *part = build_binary(&e->b, OP_MUL, more, stride);
        Value *ahead = build_binary(&e->b, OP_GE, part, none);
        last = build_binary(&e->b, OP_ADD, last, part);
        forward = forward ? build_binary(&e->b, OP_AND, forward, ahead) : ahead;
    }
    Value *most = build_index(&e->b, span * 8 / elem_info[t->elem].bits - 1);
    Value *ok = build_binary(&e->b, OP_LT, last, most);
    if (forward) ok = build_binary(&e->b, OP_AND, ok, forward);
    kernel_require(e, kp->p->loc, ok,
                   ctx_format(e->ctx, "compiled for '%s' of fewer than %lld bytes",
                              kp->p->name.text, (long long)span),
                   0, NULL);
}

/// Checks that elements of a written tensor do not coincide: no stride is 0 over an extent above 1.
/// A stride of 0 is part of the tensor's type, so code without this check never runs on a tensor
/// with one.
static void check_written_axis(Elab *e, const KParam *kp, int axis) {
    Value *tensor = kp->tensor->v;
    if (tensor->type->strides[axis] != 0) return;
    Value *extent = kernel_passed(e, OP_DIM, tensor, axis);
    const char *text = ctx_format(
        e->ctx, "'%s' is written, but the {} elements of axis %d are one: its stride is 0",
        kp->p->name.text, axis);
    kernel_require(e, kp->p->loc, build_binary(&e->b, OP_LE, extent, build_index(&e->b, 1)), text,
                   1, &extent);
}

void kernel_check_written(Elab *e) {
    const Kernel *k = e->kernel;
    Builder old = e->b;
    e->b.before = k->mark;
    for (int i = 0; i < k->def->params.n; i++) {
        const KParam *kp = &k->params[i];
        if (!kp->tensor || !kp->use->written) continue;
        e->b.loc = kp->p->loc;
        for (int a = 0; a < kp->n_axes; a++) check_written_axis(e, kp, a);
    }
    e->b = old;
}

/// Sets the tensor's dims as the body sees them.
static void set_tensor_dims(Elab *e, KParam *kp) {
    Tensor *t = kp->tensor;
    for (int i = 0, axis = 0; i < t->n_dims; i++) {
        const Dim *dim = &kp->p->type->dims.at[i];
        int axes = dim->pack ? kp->pack->groups : 1;
        Val extent = axes == 1 ? axis_extent(e, kp, axis) : el_expr(e, dim->expr);
        t->dims[i] = (TensorDim){axis, axes, dim->pack, extent};
        axis += axes;
    }
}

/* ---- all of it ----------------------------------------------------------------------------- */

/// Records how the runtime must pass this argument.
static void describe_param_use(KParam *kp) {
    const Param *p = kp->p;
    *kp->use = (ParamUse){.name = p->name.text,
                          .kind = p->constant          ? PARAM_CONST
                                  : param_is_tensor(p) ? PARAM_TENSOR
                                                       : PARAM_SCALAR,
                          .elem = kp->elem,
                          .rank = kp->n_axes,
                          .optional = p->optional,
                          .null = kp->inst->null,
                          .pack_at = -1};
    if (!kp->pack) return;
    kp->use->pack_at = pack_dim(p->type);
    kp->use->pack_given = kp->pack->given;
    kp->use->pack_rank = kp->pack->groups;
    memcpy(kp->use->pack_from, kp->pack->from, sizeof kp->pack->from);
}

/// Packs are cut after all parameters are read; axes are read after packs are cut.
static bool read_params(Elab *e) {
    Kernel *k = e->kernel;
    bool ok = true;
    for (int i = 0; i < k->def->params.n; i++) {
        KParam *kp = &k->params[i];
        *kp = (KParam){.p = &k->def->params.at[i], .inst = &k->inst->params[i], .use = &k->uses[i]};
        ok &= read_param(e, kp) && (!param_is_tensor(kp->p) || kp->inst->null || read_pack(e, kp));
    }
    for (int i = 0; ok && i < k->packs.n; i++) group_pack(k, k->packs.data[i]);
    for (int i = 0; ok && i < k->def->params.n; i++)
        if (param_is_tensor(k->params[i].p) && !k->params[i].inst->null)
            ok &= read_param_axes(e, &k->params[i]);
    return ok;
}

/// Binds a non-tensor parameter, or an absent tensor, in the scope.
static void bind_param(Elab *e, KParam *kp) {
    describe_param_use(kp);
    if (kp->tensor) {
        set_tensor_dims(e, kp);
        scope_bind(e, kp->p->name, BIND_PARAM, val_tensor(kp->tensor));
    } else if (param_is_tensor(kp->p)) {
        scope_bind(e, kp->p->name, BIND_PARAM, val_absent());
    }
}

/// Adds the region's argument of a parameter. Scalars are bound at once, since dims may name them.
static void add_param_arg(Elab *e, KParam *kp) {
    if (kp->p->constant || (param_is_tensor(kp->p) && kp->inst->null)) return;
    const Type *type = ty_scalar(e->ir, kp->elem); // a tensor's type is set after its dims are read
    Value *v = region_add_arg(e->ir, e->kernel->op->regions[0], type, kp->p->name.text);
    if (!param_is_tensor(kp->p)) {
        scope_bind(e, kp->p->name, BIND_PARAM, val_ir(v));
        return;
    }
    Tensor *t = ctx_new(e->ctx, Tensor);
    *t = (Tensor){.name = kp->p->name.text, .v = v, .elem = kp->elem, .use = kp->use};
    t->n_dims = kp->p->type->dims.n;
    t->sym = kp->p->type->sym;
    kp->tensor = t;
}

/// Reads the rank and the number of ranks, if the kernel has symmetric tensors.
static void read_ranks(Elab *e) {
    Kernel *k = e->kernel;
    const Type *index = ty_scalar(e->ir, EL_I64);
    k->rank = k->ranks = k->control = NULL;
    for (int i = 0; i < k->def->params.n && !k->rank; i++) {
        const Tensor *t = k->params[i].tensor;
        if (!t || !t->sym) continue;
        k->rank = result(build_op(&e->b, OP_RANK, 0, NULL, 1, &index, 0), 0);
        k->rank->name = "rank";
        k->ranks = el_tensor_dim(e, t, 0);
    }
}

/// The head of this file explains the order.
bool kernel_params(Elab *e) {
    Kernel *k = e->kernel;
    int n = k->def->params.n;
    if (!bind_generics(e)) return false;
    k->params = ctx_array(e->ctx, KParam, n);
    k->dims.n = k->packs.n = 0;
    if (!read_params(e)) return false;
    for (int i = 0; i < n; i++) add_param_arg(e, &k->params[i]);
    read_all_dims(e);
    bind_kernel_dims(e);
    for (int i = 0; i < n; i++)
        if (k->params[i].tensor) set_tensor_type(e, &k->params[i]);
    read_dims(e);
    read_ranks(e);
    for (int i = 0; i < n; i++) bind_param(e, &k->params[i]);
    for (int i = 0; i < n; i++) {
        for (int a = 0; a < k->params[i].n_axes; a++) {
            check_axis(e, i, a);
            check_stride(e, &k->params[i], a);
        }
        if (k->params[i].tensor) check_alignment(e, &k->params[i]);
        if (k->params[i].tensor) check_span(e, &k->params[i]);
    }
    return !el_failed(e);
}
