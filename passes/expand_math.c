// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expand-math: expands transcendental ops into the arithmetic of functions that are written in the
// language.
//
//   %y = exp %x : f16<64>
//   -> %a = cast %x : f32<64>; %b = (the ops of exp_f32 on %a) : f32<64>; %y = cast %b : f16<64>
//
// The library is a module of scalar funcs; rows of lang/elementwise.def map ops to functions. An op
// is expanded if it has a row and the target has no instruction for it (PassEnv.has_op). The scalar
// function is cloned with the block's shape, since it applies lane by lane. Elements narrower than
// f32 are computed in f32 and rounded once, unless the library or the target has their own version.
#include "passes/passes.h"
#include "passes/util.h"

#include "ir/library.h"

enum { MAX_ROUNDS = 8 }; // depth of functions that use other ops of the library

typedef struct MathExpansion {
    PassEnv *env;
    const Op *funcs[OP_COUNT][EL_COUNT];
    bool changed;
} MathExpansion;

static void read_library(MathExpansion *x, const Op *library) {
    for (int i = 0; i < N_LIBRARY_FNS; i++) {
        const LibraryFn *f = &library_fns[i];
        x->funcs[f->op][f->elem] = find_func(library, f->name);
    }
}

/// Whether the target has an instruction. Instructions exist in device code only, not on the host
/// side of a GPU kernel.
static bool target_has(const MathExpansion *x, const Op *op, Elem elem) {
    return x->env->has_op && op_enclosing(op, OP_LAUNCH) &&
           x->env->has_op(x->env->gpu, op->code, elem);
}

static void expand_math_op(Op *op, void *arg) {
    MathExpansion *x = arg;
    if (!op_has(op, ELEMENTWISE) || op->n_operands == 0) return;
    Elem elem = operand(op, 0)->type->elem, wide = elem;
    if (!elem_is(elem, EC_FLOAT) || target_has(x, op, elem)) return;
    if (!x->funcs[op->code][elem] && elem != EL_F64) wide = EL_F32;
    const Op *func = x->funcs[op->code][wide];
    if (!func) return;
    Builder b = build_before(x->env->ir, op);
    Value *args[3], *out;
    for (int i = 0; i < op->n_operands; i++) args[i] = build_cast(&b, operand(op, i), wide);
    if (target_has(x, op, wide))
        out = result(build_op(&b, op->code, op->n_operands, args, 1, &args[0]->type, 0), 0);
    else
        apply_lanes(&b, func->regions[0], args, args[0]->type, &out);
    value_replace(result(op, 0), build_cast(&b, out, result(op, 0)->type->elem));
    op_erase(op);
    x->changed = true;
}

void pass_expand_math(PassEnv *env, Op *module) {
    if (!env->library) return;
    MathExpansion *x = ctx_new(ir_ctx(env->ir), MathExpansion);
    x->env = env;
    read_library(x, env->library);
    int rounds = 0;
    do {
        if (rounds++ == MAX_ROUNDS)
            ice(ir_ctx(env->ir), module->loc, "a function of the library expands to itself");
        x->changed = false;
        for_each_kernel(k, module) op_walk_post(k, expand_math_op, x);
    } while (x->changed);
}
