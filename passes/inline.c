// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// inline: replaces a call of another kernel by its body.
//
//   call %x, %y [callee = "softmax"]   ->   the requires, scratches and phases of softmax on %x, %y
//
// Called kernels other than the module's first one are removed afterwards.
#include "passes/passes.h"
#include "passes/util.h"

enum { MAX_DEPTH = 64 }; // of nested calls; the front end refuses recursion

typedef struct Inliner {
    Ir *ir;
    Op *module;
    VEC(Op *) called;
} Inliner;

static void expand_calls(Inliner *in, Region *r, int depth);

static void inline_call(Inliner *in, Op *call, int depth) {
    Ctx *ctx = ir_ctx(in->ir);
    Op *callee = find_kernel(in->module, op_str(call, A_CALLEE));
    if (!callee || depth > MAX_DEPTH || callee->regions[0]->n_args != call->n_operands)
        ice(ctx, call->loc, "call of `%s` cannot be expanded", op_str(call, A_CALLEE));
    PtrMap map = {0};
    Region *body = callee->regions[0];
    for (int i = 0; i < call->n_operands; i++) map_set(ctx, &map, body->args[i], operand(call, i));
    Op *before = call->prev;
    Builder b = build_before(in->ir, call);
    region_clone_body(&b, body, &map);
    vec_push(ctx, &in->called, callee);
    // The copied body may contain calls.
    Op *op = before ? before->next : call->parent->first;
    while (op != call) {
        Op *next = op->next;
        if (op->code == OP_CALL)
            inline_call(in, op, depth + 1);
        else
            for (int i = 0; i < op->n_regions; i++) expand_calls(in, op->regions[i], depth + 1);
        op = next;
    }
    op_erase(call);
}

static void expand_calls(Inliner *in, Region *r, int depth) {
    for_each_op_safe(op, r) {
        if (op->code == OP_CALL)
            inline_call(in, op, depth);
        else if (op_is_container(op))
            for (int i = 0; i < op->n_regions; i++) expand_calls(in, op->regions[i], depth);
    }
}

void pass_inline(PassEnv *env, Op *module) {
    Inliner in = {.ir = env->ir, .module = module};
    for_each_kernel(k, module) expand_calls(&in, k->regions[0], 0);
    Op *entry = find_kernel(module, NULL);
    for_each_op(op, module->regions[0]) {
        if (op->code == OP_KERNEL) {
            entry = op;
            break;
        }
    }
    for (int i = 0; i < in.called.n; i++)
        if (in.called.data[i] != entry && in.called.data[i]->parent) op_erase(in.called.data[i]);
}
