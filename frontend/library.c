// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library of elementary functions: fns of std/math.teg and its imports as funcs of scalars.
#include "frontend/elab.h"

#include "stdlib/embedded.h"

#include <string.h>

/// Which functions are to be found in the library, by op and element.
typedef struct Wanted {
    bool at[OP_COUNT][EL_COUNT];
} Wanted;

/// Elements narrower than f32 are computed in f32 where they have no function of their own.
static void want(Op *op, void *arg) {
    Wanted *w = arg;
    if (!op_has(op, ELEMENTWISE) || op->n_operands == 0) return;
    Elem elem = operand(op, 0)->type->elem;
    OpCode code = op->code == OP_REM ? OP_FMOD : op->code;
    w->at[code][elem] = true;
    if (elem != EL_F64) w->at[code][EL_F32] = true;
}

/// A fn named after an op and an element, such as `exp_f32`, is a function; others are helpers.
static bool is_wanted(Ctx *ctx, const Wanted *w, const FnDef *f) {
    const char *name = f->name.text, *end = strrchr(name, '_');
    Elem elem = end ? elem_by_name(end + 1) : EL_COUNT;
    if (elem == EL_COUNT) return false;
    OpCode code = op_by_name(ctx_format(ctx, "%.*s", (int)(end - name), name));
    return code != OP_COUNT && (!w || w->at[code][elem]);
}

static Op *library_func(Elab *e, const FnDef *f) {
    Op *op = build_op(&e->b, OP_FUNC, 0, NULL, 0, NULL, 1);
    op_set_attr(e->ir, op, "name", at_str(e->ir, f->name.text));
    Val *args = ctx_array(e->ctx, Val, f->params.n);
    Builder old = el_enter(e, op->regions[0]);
    for (int i = 0; i < f->params.n; i++) {
        const Type *t = ty_scalar(e->ir, elem_by_name(f->params.at[i].type->elem.text));
        args[i] = val_ir(region_add_arg(e->ir, op->regions[0], t, f->params.at[i].name.text));
    }
    Value *v = el_typed(e, f->loc, el_inline(e, f->loc, f, f->params.n, args), EL_COUNT);
    if (v) build_yield(&e->b, 1, &v);
    el_leave(e, old);
    return op;
}

/// Adds the functions that are wanted and not there; what they use is wanted, too. False: none.
static bool add_functions(Elab *e, Wanted *w) {
    bool added = false;
    for (int k = 0; k < e->program->files.n; k++) {
        const Items *items = &e->program->files.data[k].module->items;
        for (int i = 0; i < items->n; i++) {
            const FnDef *f = items->at[i].kind == IT_FN ? items->at[i].fn : NULL;
            if (!f || !is_wanted(e->ctx, w, f) || find_func(e->module, f->name.text)) continue;
            Op *op = library_func(e, f);
            if (w) op_walk_pre(op, want, w);
            added = true;
        }
    }
    return added && diag_errors(e->ctx) == 0;
}

Op *fe_math_library(Ir *ir, Op *uses) {
    Ctx *ctx = ir_ctx(ir);
    const struct tg_embedded *f = tg_embedded_files;
    while (f->path && strcmp(f->path, "std/math.teg") != 0) f++;
    if (!f->path) return NULL;
    Wanted *w = uses ? ctx_new(ctx, Wanted) : NULL;
    if (uses) op_walk_pre(uses, want, w);
    uint16_t file = ctx_add_source(ctx, f->path, f->text, f->len);
    Elab e = elab_create(ir, fe_load(ctx, file, NULL));
    while (add_functions(&e, w))
        ;
    return e.module;
}
