// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Entry points of the elaborator; calls between kernels; scratch tensors.
//
// A called kernel becomes a kernel op of its own, elaborated for the facts that the caller knows
// about its tensors. Every dim that the callee holds as a constant becomes a constant of the
// caller, since the caller's code is right for that value only.
#include "frontend/elab/elab_kernel.h"

#include <string.h>

/* ---- scratch ------------------------------------------------------------------------------- */

/// Computes row-major strides, as far as the extents are constants.
static void scratch_strides(int rank, const int64_t *extents, int64_t *strides) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = step;
        bool known = step != DYNAMIC && extents[i] != DYNAMIC;
        if (!known || __builtin_mul_overflow(step, extents[i], &step)) step = DYNAMIC;
    }
}

/// Evaluates the dims of a scratch tensor. The type holds a dim as a constant only if the source
/// does; the op takes all dims as operands.
static bool scratch_dims(Elab *e, const TypeExpr *type, Tensor *t, Value **dims, int64_t *extents) {
    for (int i = 0; i < type->dims.n; i++) {
        const Expr *x = type->dims.at[i].expr;
        if (type->dims.at[i].pack) {
            el_fail(e, x->loc, D_SCRATCH_PACK);
            return false;
        }
        Val v = el_expr(e, x);
        dims[i] = el_index(e, x->loc, v, "an extent of scratch");
        if (!dims[i]) return false;
        extents[i] = v.kind == V_CONST ? v.c.i : DYNAMIC;
        t->dims[i] = (TensorDim){i, 1, false, v.kind == V_CONST ? v : val_ir(dims[i])};
    }
    return true;
}

/// The name is bound even after an error, to avoid errors at its uses.
void el_scratch(Elab *e, const Stmt *s) {
    const TypeExpr *type = s->bind.type;
    Name name = s->bind.names.at[0];
    Tensor *t = ctx_new(e->ctx, Tensor);
    *t = (Tensor){.name = name.text, .elem = el_elem(e, type->elem), .n_dims = type->dims.n};
    Value *dims[MAX_RANK];
    int64_t extents[MAX_RANK], strides[MAX_RANK];
    bool ok = t->elem != EL_COUNT;
    if (e->in_program || e->frame || !e->kernel) {
        ok = (el_fail(e, s->loc, D_SCRATCH_INSIDE), false);
        if (e->in_program)
            diag_hint(e->ctx, "a program keeps blocks in variables: `var t: f32<64> = 0;`");
    } else if (type->kind != TY_TENSOR || type->dims.n > MAX_RANK)
        ok = (el_fail(e, type->loc, D_SCRATCH_TYPE), false);
    else if (type->sym)
        ok = el_has_ranks(e, type->loc, "symmetric scratch");
    ok = ok && scratch_dims(e, type, t, dims, extents);
    if (ok && type->sym)
        ok = el_check_equal(e, type->loc, "the number of ranks", val_ir(el_ranks(e)),
                            t->dims[0].extent);
    t->sym = type->sym;
    if (ok) {
        scratch_strides(t->n_dims, extents, strides);
        if (type->sym) strides[0] = DYNAMIC;
        const Type *tensor = ty_tensor(e->ir, t->elem, t->n_dims, extents, strides);
        if (!type->sym) tensor = ty_scratch(e->ir, tensor);
        e->b.loc = el_loc(e, s->loc);
        Op *op = build_op(&e->b, OP_SCRATCH, t->n_dims, dims, 1, &tensor, 0);
        op_set_str(e->ir, op, A_NAME, name.text);
        if (type->sym) op_set_flag(e->ir, op, A_SYMMETRIC, true);
        t->v = result(op, 0);
        t->v->name = name.text;
        scope_bind(e, name, BIND_LET, val_tensor(t));
    } else {
        scope_bind(e, name, BIND_LET, val_error());
    }
}

/* ---- kernels calling kernels --------------------------------------------------------------- */

/// Describes the facts that the caller knows about a tensor argument.
static bool describe_passed_tensor(Elab *e, Loc loc, const Param *p, Val v, ParamInst *out) {
    *out = (ParamInst){.elem = EL_COUNT, .null = v.kind == V_ABSENT};
    if (v.kind == V_ABSENT && p->optional) return true;
    if (v.kind != V_TENSOR || v.tensor->sym != p->type->sym || v.tensor->shard) {
        if (v.kind != V_ERROR)
            el_fail(e, loc, D_TYPE_MISMATCH, ctx_format(e->ctx, "'%s'", p->name.text),
                    p->type->sym ? "a symmetric tensor" : "a tensor", val_text(e, v));
        return false;
    }
    const Type *t = v.tensor->v->type;
    out->elem = t->elem;
    out->known_shape = out->known_strides = true;
    out->rank = t->rank;
    for (int i = 0; i < t->rank; i++) {
        out->strides[i] = t->strides[i];
        Val extent = val_ir(el_tensor_dim(e, v.tensor, i));
        if (!el_known_int(e, extent, &out->extents[i])) out->extents[i] = DYNAMIC;
    }
    return true;
}

/// Adds the operand of the call if the parameter takes one; constants and absent tensors do not.
static bool describe_arg(Elab *e, Loc loc, const Param *p, Val v, ParamInst *out, Values *args) {
    const char *what = ctx_format(e->ctx, "'%s'", p->name.text);
    if (p->type->kind == TY_TENSOR) {
        if (!describe_passed_tensor(e, loc, p, v, out)) return false;
        if (!out->null) vec_push(e->ctx, args, v.tensor->v);
        return true;
    }
    *out = (ParamInst){.elem = EL_COUNT};
    if (p->constant) {
        out->known_value = true;
        if (v.kind == V_CONST && v.c.type == CK_BOOL)
            out->value = v.c.i;
        else if (!el_const_int(e, loc, v, what, &out->value))
            return false;
        return true;
    }
    v = el_value(e, loc, v);
    Elem elem = elem_by_name(p->type->elem.text);
    if (elem == EL_COUNT) elem = el_default_elem(v);
    Value *x = v.kind == V_ERROR ? NULL : el_convert(e, loc, v, ty_scalar(e->ir, elem), what);
    if (!x) return false;
    out->elem = elem;
    vec_push(e->ctx, args, x);
    return true;
}

static bool is_calling(const Kernel *k, const FnDef *f) {
    for (; k; k = k->outer)
        if (k->def == f) return true;
    return false;
}

/// Makes each dim that the callee holds as a constant a constant of the caller, and marks the
/// tensors that the callee reads and writes.
static void take_over(Elab *e, Loc loc, const Kernel *callee, const Val *args) {
    for (int i = 0; i < callee->dims.n; i++) {
        const KDim *d = callee->dims.data[i];
        int64_t v;
        bool bounded = d->least > 0 || d->most < INT64_MAX;
        if (args[d->param].kind != V_TENSOR || (!d->fixed && !bounded)) continue;
        Value *extent = el_tensor_dim(e, args[d->param].tensor, d->axis);
        if (d->fixed)
            el_const_int(e, loc, val_ir(extent), d->name, &v);
        else
            kernel_note_bounds(e, extent, d->least, d->most);
    }
    for (int i = 0; i < callee->def->params.n; i++) {
        ParamUse *use = args[i].kind == V_TENSOR ? args[i].tensor->use : NULL;
        if (!use) continue;
        use->read |= callee->uses[i].read;
        use->written |= callee->uses[i].written;
    }
}

/// Reports an empty pack. Its axis of extent 1 cannot be made inside a launch: only the runtime
/// adds it.
static bool packs_have_axes(Elab *e, Loc loc, const Kernel *k) {
    for (int i = 0; i < k->packs.n; i++) {
        if (k->packs.data[i]->given > 0) continue;
        el_fail(e, loc, D_RANK_MISMATCH, ctx_format(e->ctx, "'..%s'", k->packs.data[i]->name), 1,
                0);
        return false;
    }
    return true;
}

/// Makes the instance of a callee from the facts that the caller knows; nothing is made up.
static Kernel *callee_kernel(Elab *e, Loc loc, const FnDef *f, const Val *args, Values *operands) {
    Inst *inst = ctx_new(e->ctx, Inst);
    int n = f->params.n;
    *inst = (Inst){.kernel = f, .n_params = n, .params = ctx_array(e->ctx, ParamInst, n)};
    inst->check = e->check;
    for (int i = 0; i < n; i++)
        if (!describe_arg(e, loc, &f->params.at[i], args[i], &inst->params[i], operands))
            return NULL;
    Kernel *k = ctx_new(e->ctx, Kernel);
    *k = (Kernel){.def = f, .inst = inst, .called = true};
    return k;
}

/// Returns the key of a callee: all facts that its code depends on, as one text.
static const char *instance_key(Elab *e, const Inst *inst) {
    Text t = {.ctx = e->ctx};
    text_add(&t, "%p", (const void *)inst->kernel);
    for (int i = 0; i < inst->n_params; i++) {
        const ParamInst *p = &inst->params[i];
        text_add(&t, " %d%d%d%d %d %lld", (int)p->elem, p->null, p->known_shape, p->known_value,
                 p->rank, (long long)p->value);
        for (int d = 0; d < p->rank; d++)
            text_add(&t, ",%lld:%lld", (long long)p->extents[d], (long long)p->strides[d]);
    }
    return ctx_intern(e->ctx, t.data, t.n);
}

static bool elaborate_callee(Elab *e, Kernel *k) {
    Builder old = el_enter(e, e->module->regions[0]);
    int loop_depth = e->loop_depth;
    e->loop_depth = 0;
    bool ok = kernel_elaborate(e, k, k->name);
    e->loop_depth = loop_depth;
    el_leave(e, old);
    return ok;
}

/// Returns one shared kernel op for calls with the same facts about their arguments. Its errors are
/// reported only once. NULL after an error.
static Kernel *shared_callee(Elab *e, Kernel *k) {
    const char *key = instance_key(e, k->inst);
    Kernel *known = map_get(&e->callees, key);
    if (known) return known->op ? known : NULL;
    k->name = ctx_format(e->ctx, "%s.%d", k->def->name.text, ++e->n_called);
    map_set(e->ctx, &e->callees, key, k);
    uint64_t before = ctx_steps(e->ctx);
    if (!elaborate_callee(e, k)) k->op = NULL;
    k->steps += ctx_steps(e->ctx) - before;
    return k->op ? k : NULL;
}

/// Adds the callee's steps: each call becomes a copy of the callee.
static void count_call(Elab *e, Loc loc, const Kernel *callee) {
    e->kernel->steps += callee->steps;
    el_work(e, loc, e->kernel->steps);
}

static Val no_kernel_call(Elab *e, Loc loc, const FnDef *f) {
    Val v = el_fail(e, loc, D_KERNEL_CALL, f->name.text);
    diag_hint(e->ctx, "programs call functions: `fn name(a, b) { ... }`");
    return v;
}

Val el_call_kernel(Elab *e, Loc loc, const FnDef *f, const Val *args) {
    if (e->in_program || e->frame || !e->kernel) return no_kernel_call(e, loc, f);
    if (is_calling(e->kernel, f)) return el_fail(e, loc, D_RECURSION, f->name.text);
    Values operands = {0};
    Kernel *k = callee_kernel(e, loc, f, args, &operands);
    if (k) k = shared_callee(e, k);
    e->b.loc = el_loc(e, loc);
    if (!k || !packs_have_axes(e, loc, k)) return val_error();
    count_call(e, loc, k);
    Op *op = build_op(&e->b, OP_CALL, operands.n, operands.data, 0, NULL, 0);
    op_set_str(e->ir, op, A_CALLEE, k->name);
    take_over(e, loc, k, args);
    return val_void();
}

/* ---- entry points -------------------------------------------------------------------------- */

Elab elab_create(Ir *ir, const Program *p) {
    Elab e = {.ctx = ir_ctx(ir), .ir = ir, .program = p};
    e.errors_before = diag_errors(e.ctx);
    e.first_step = ctx_steps(e.ctx);
    e.module = build_module(ir);
    e.b = build_at_end(ir, e.module->regions[0], (Loc){0});
    return e;
}

/// Lists the dims and the extents for which this code is right, as a key for compiled code.
static void list_dims(Elab *e, const Kernel *k, Elaborated *out) {
    VEC(NamedValue) fixed = {0};
    VEC(DimUse) all = {0};
    for (int i = 0; i < k->dims.n; i++) {
        const KDim *d = k->dims.data[i];
        NamedValue v = {d->name, d->value};
        DimUse use = {d->name, d->param, d->axis, d->least, d->most};
        if (d->fixed) use.least = use.most = d->value + d->plus;
        if (d->fixed) vec_push(e->ctx, &fixed, v);
        vec_push(e->ctx, &all, use);
    }
    out->specialised = fixed.data;
    out->n_specialised = fixed.n;
    out->dims = all.data;
    out->n_dims = all.n;
}

typedef struct Reached {
    Ctx *ctx;
    PtrMap named;      // name -> kernel op
    VEC(Op *) kernels; // reachable kernels, in the order of the search
    PtrMap seen;
} Reached;

static void reach_kernel(Reached *r, Op *kernel) {
    if (!kernel || map_get(&r->seen, kernel)) return;
    map_set(r->ctx, &r->seen, kernel, kernel);
    vec_push(r->ctx, &r->kernels, kernel);
}

static void reach_callee(Op *op, void *arg) {
    Reached *r = arg;
    if (op->code == OP_CALL)
        reach_kernel(r, map_get(&r->named, ctx_name(r->ctx, op_str(op, A_CALLEE))));
}

/// Drops kernels that only an earlier round of the caller called. The caller becomes the first op
/// of the module, since passes launch the first kernel.
static void drop_unused(Elab *e, const Kernel *k) {
    Reached r = {.ctx = e->ctx};
    for_each_op(op, e->module->regions[0])
        map_set(e->ctx, &r.named, ctx_name(e->ctx, op_str(op, A_NAME)), op);
    reach_kernel(&r, k->op);
    for (int i = 0; i < r.kernels.n; i++) op_walk_pre(r.kernels.data[i], reach_callee, &r);
    for_each_op_safe(op, e->module->regions[0]) {
        if (!map_get(&r.seen, op)) op_erase(op);
    }
    Op *first = e->module->regions[0]->first;
    if (first != k->op) op_move_before(k->op, first);
}

Elaborated *fe_elaborate(Ir *ir, const Program *p, const Inst *inst) {
    Elab e = elab_create(ir, p);
    Elaborated *out = ctx_new(e.ctx, Elaborated);
    const FnDef *f = inst->kernel;
    out->name = f->name.text;
    if (p->broken) return out;
    Kernel *k = ctx_new(e.ctx, Kernel);
    *k = (Kernel){.def = f, .inst = inst};
    e.check = inst->check;
    if (!kernel_elaborate(&e, k, f->name.text)) {
        out->n_specialised = k->fixed.n;
        for (int i = 0; i < k->dims.n; i++) out->n_specialised += k->dims.data[i]->most < INT64_MAX;
        return out;
    }
    el_settle_presents(&e);
    drop_unused(&e, k);
    out->module = e.module;
    out->n_params = f->params.n;
    out->params = k->uses;
    out->n_config = k->config.n;
    out->config = k->config.data;
    list_dims(&e, k, out);
    return out;
}
