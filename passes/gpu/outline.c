// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// outline: moves the bodies of launches out of the kernel into device functions.
//
//   kernel { ...; launch %n { (%task) body } }
//   -> device "kernel" { (%task, captured...) body }
//      kernel { ...; dispatch %n, captured... [device="kernel"] }
//
// Tensors and scalars that the body uses become parameters. Constants, blocks, dims of tensors that
// are parameters anyway, and multiples by constants are rematerialised on the device. So later
// passes still see that the start of a part of a loop is a multiple of its step. Merge functions
// are removed, since nothing calls them any more.
#include "passes/passes.h"
#include "passes/util.h"

typedef struct Outline {
    Ir *ir;
    Op *launch, *device;
    PtrMap map;  // value outside the launch -> value in the device
    Builder top; // start of the device, where values are rematerialised
    VEC(Value *) captured;
} Outline;

static bool is_query(const Op *op) {
    return op && (op->code == OP_DIM || op->code == OP_STRIDE || op->code == OP_ALIGN);
}

static Value *pass_to_device(Outline *o, Value *v) {
    Value *arg = region_add_arg(o->ir, o->device->regions[0], v->type, v->name);
    map_set(ir_ctx(o->ir), &o->map, v, arg);
    vec_push(ir_ctx(o->ir), &o->captured, v);
    return arg;
}

/// Whether v is a multiple of a power of two above 1, by its own op.
static bool is_multiple_by_constant(const Value *v) {
    const Op *op = def_of(v, OP_MUL);
    int64_t c;
    return op && v->type->elem == EL_I64 && const_int(operand(op, 1), &c) && c > 1 && c % 2 == 0;
}

/// Returns the device's value for v, which is defined outside.
static Value *capture_value(Outline *o, Value *v) {
    Value *known = map_get(&o->map, v);
    if (known) return known;
    bool block = ty_is_block(v->type) && v->type->rank;
    bool again = v->def && (block || v->def->code == OP_CONST || is_multiple_by_constant(v) ||
                            (is_query(v->def) && map_get(&o->map, operand(v->def, 0))));
    if (!again) return pass_to_device(o, v);
    for (int i = 0; i < v->def->n_operands; i++) capture_value(o, operand(v->def, i));
    op_clone(&o->top, v->def, &o->map);
    return map_get(&o->map, v);
}

/// Captures tensors first, since dims of captured tensors are not captured themselves.
static void capture_tensors(Op *op, void *arg) {
    Outline *o = arg;
    for (int i = 0; i < op->n_operands && !is_query(op); i++) {
        Value *v = operand(op, i);
        if (v->type->kind == TK_TENSOR && !value_is_inside(v, o->launch)) capture_value(o, v);
    }
}

static void capture_op_operands(Op *op, void *arg) {
    Outline *o = arg;
    if (op == o->launch) return;
    for (int i = 0; i < op->n_operands; i++) {
        Value *v = operand(op, i);
        if (!value_is_inside(v, o->launch)) op_set_operand(op, i, capture_value(o, v));
    }
}

/// Removes the second region of a loop, which merges two runs of it.
static void drop_merge(Op *op, void *arg) {
    (void)arg;
    if (op->code != OP_FOR || op->n_regions < 2) return;
    for (Op *last; (last = op->regions[1]->last);) op_erase(last);
    op->n_regions = 1;
}

static const char *device_name(Ir *ir, const Op *module, const Op *kernel) {
    const char *base = op_str(kernel, A_NAME), *name = base;
    for (int i = 1; find_device(module, name); i++) name = ctx_format(ir_ctx(ir), "%s.%d", base, i);
    return name;
}

static void outline_launch(PassEnv *env, Op *module, Op *kernel, Op *launch) {
    Ir *ir = env->ir;
    Outline o = {.ir = ir, .launch = launch};
    Builder at = build_before(ir, kernel);
    at.loc = launch->loc;
    o.device = build_op(&at, OP_DEVICE, 0, NULL, 0, NULL, 1);
    op_set_str(ir, o.device, A_NAME, device_name(ir, module, kernel));
    op_set_int(ir, o.device, A_WARPS, env->warps > 0 ? env->warps : 1);
    op_copy_attr(ir, o.device, kernel, ATTR_CONFIG);
    op_copy_attr(ir, o.device, launch, ATTR_PROGRAM_ORDER);
    if (op_flag(launch, A_MULTICAST)) op_set_flag(ir, o.device, A_MULTICAST, true);
    Region *body = o.device->regions[0], *from = launch->regions[0];
    Value *program = region_add_arg(ir, body, from->args[0]->type, "program");
    o.top = build_at_end(ir, body, launch->loc);
    op_walk_pre(launch, drop_merge, NULL);
    op_walk_pre(launch, capture_tensors, &o);
    op_walk_pre(launch, capture_op_operands, &o);
    value_replace(from->args[0], program);
    move_ops(from, body);
    Value **args = ctx_array(ir_ctx(ir), Value *, o.captured.n + 1);
    args[0] = operand(launch, 0);
    for (int i = 0; i < o.captured.n; i++) args[i + 1] = o.captured.data[i];
    Builder b = build_before(ir, launch);
    Op *dispatch = build_op(&b, OP_DISPATCH, o.captured.n + 1, args, 0, NULL, 0);
    op_set_str(ir, dispatch, A_DEVICE, op_str(o.device, A_NAME));
    op_erase(launch);
}

typedef struct Launches {
    Ctx *ctx;
    VEC(Op *) all;
} Launches;

static void find_launch(Op *op, void *arg) {
    Launches *l = arg;
    if (op->code == OP_LAUNCH) vec_push(l->ctx, &l->all, op);
}

void pass_outline(PassEnv *env, Op *module) {
    for_each_kernel(kernel, module) {
        Launches l = {.ctx = ir_ctx(env->ir)};
        op_walk_pre(kernel, find_launch, &l);
        for (int i = 0; i < l.all.n; i++) outline_launch(env, module, kernel, l.all.data[i]);
    }
    pass_dce(env, module);
}
