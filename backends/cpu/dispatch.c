// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches of device functions in host code: `dispatch` becomes a call through tg_env.
//
// A device function takes plain values. A tensor becomes its pointer and the values that its type
// leaves open. The values lie in 8-byte slots on the stack. An array points to them, as GPU drivers
// expect.
#include "backends/cpu/emit.h"
#include "runtime/abi.h"

typedef struct DeviceArg {
    LLVMValueRef x;
    bool in_memory; // x points to a tensor map
} DeviceArg;
typedef VEC(DeviceArg) DeviceArgs;

static void add_device_arg(Emit *e, DeviceArgs *out, LLVMValueRef x) {
    DeviceArg arg = {.x = x};
    vec_push(e->ctx, out, arg);
}

/// Whether v is an argument of the kernel. Values that a host loop carries are not.
static bool is_kernel_arg(const Value *v) {
    return !v->def && v->region->parent->code == OP_KERNEL;
}

/// Passes an argument from the entry's own location, by address or number. A runtime can then tell
/// it from other values (TG_DEVICE_REPLAYS).
static void add_own(Emit *e, const Value *v, DeviceArgs *out) {
    LLVMValueRef slots = LLVMGetParam(e->fn, 0);
    DeviceArg own = {.in_memory = true};
    own.x = gen_offset(e->g, slots, gen_i64(e->g, (int64_t)sizeof(tg_slot) * v->index));
    vec_push(e->ctx, out, own);
}

static void flatten_tensor(Emit *e, const Value *v, DeviceArgs *out) {
    const TensorRef *t = emit_tensor(e, v);
    const Type *type = v->type;
    if (is_kernel_arg(v))
        add_own(e, v, out);
    else
        add_device_arg(e, out, t->data);
    for (int d = 0; d < type->rank; d++)
        if (type->extents[d] == DYNAMIC) add_device_arg(e, out, t->dims[d]);
    for (int d = 0; d < type->rank; d++)
        if (type->strides[d] == DYNAMIC) add_device_arg(e, out, t->strides[d]);
}

static void flatten_argument(Emit *e, const Value *v, DeviceArgs *out) {
    DeviceArg map = {.in_memory = true};
    if (v->type->kind == TK_TENSOR) {
        flatten_tensor(e, v, out);
    } else if (v->type->kind == TK_DESC) {
        map.x = emit_scalar(e, v);
        vec_push(e->ctx, out, map);
    } else if (is_kernel_arg(v)) {
        add_own(e, v, out);
    } else {
        add_device_arg(e, out, gen_to_memory(e->g, v->type->elem, emit_scalar(e, v)));
    }
}

/// Builds an array of pointers to the values, both on the stack.
static LLVMValueRef argument_pointers(Emit *e, const DeviceArgs *flat) {
    Gen *g = e->g;
    LLVMValueRef values = stack_slots(e, flat->n), array = stack_slots(e, flat->n);
    for (int i = 0; i < flat->n; i++) {
        LLVMValueRef bytes = gen_i64(g, 8 * (int64_t)i), at = gen_offset(g, values, bytes);
        if (flat->data[i].in_memory)
            at = flat->data[i].x;
        else
            LLVMBuildStore(g->b, flat->data[i].x, at);
        LLVMBuildStore(g->b, at, gen_offset(g, array, bytes));
    }
    return array;
}

/// Returns the number of a function. Images list their functions in the order of the module.
static int device_number(const Op *op) {
    const char *name = op_str(op, A_DEVICE);
    const Op *module = op_enclosing(op, OP_MODULE);
    int n = 0;
    for_each_op(device, module->regions[0]) {
        if (device->code != OP_DEVICE) continue;
        if (op_str(device, A_NAME) == name) return n;
        n++;
    }
    return -1;
}

void lower_dispatch(Emit *e, Op *op) {
    Gen *g = e->g;
    DeviceArgs flat = {0};
    int number = device_number(op);
    if (number < 0) ice(e->ctx, op->loc, "there is no device '%s'", op_str(op, A_DEVICE));
    for (int i = 1; i < op->n_operands; i++) flatten_argument(e, operand(op, i), &flat);
    LLVMValueRef args[4] = {e->env, LLVMConstInt(g->i32, (uint64_t)number, false),
                            emit_scalar(e, operand(op, 0)), argument_pointers(e, &flat)};
    return_if_failed(e, env_call(e, ENV_DISPATCH, 4, args));
}
