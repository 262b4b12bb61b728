// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts about a kernel's host code for the runtime: whether repeated launches need it
// (runtime/abi.h, TG_DEVICE_REPLAYS).
#include "backends/gpu/gpu.h"
#include "runtime/abi.h"

enum { COMMON_ALIGN = 16 };

/// Whether the uses of an alignment depend only on properties that similar launches share.
static bool is_common_alignment(const Value *align) {
    for_each_use(u, align) {
        int64_t least;
        if (u->user->code != OP_GE || u->index != 0 || !const_int(operand(u->user, 1), &least) ||
            least > COMMON_ALIGN)
            return false;
    }
    return true;
}

/// Whether all tensors of the op are the kernel's own arguments, with unchanged addresses.
static bool takes_arguments(const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (operand(op, i)->type->kind == TK_TENSOR && operand(op, i)->def) return false;
    return true;
}

/// Whether the kernel's own arguments that are numbers are used only by the device.
static bool passes_numbers(const Region *body) {
    for (int i = 0; i < body->n_args; i++) {
        const Value *v = body->args[i];
        if (v->type->kind == TK_TENSOR) continue;
        for_each_use(u, v) if (u->user->code != OP_DISPATCH || u->index == 0) return false;
    }
    return true;
}

static bool comes_again_alike(const Op *kernel) {
    for_each_op(op, kernel->regions[0]) {
        switch (op->code) {
        case OP_CONST:
        case OP_REQUIRE:
        case OP_YIELD: break;
        case OP_ALIGN:
            if (!is_common_alignment(result(op, 0))) return false;
            break;
        case OP_DIM:
        case OP_STRIDE:
        case OP_DESC:
        case OP_DISPATCH:
            if (!takes_arguments(op)) return false;
            break;
        default:
            if (op->code != OP_CAST && !op_info[op->code].classes) return false;
        }
    }
    return true;
}

int gpu_host_again(const Op *kernel) {
    if (!comes_again_alike(kernel)) return 0;
    return TG_DEVICE_REPLAYS | (passes_numbers(kernel->regions[0]) ? TG_DEVICE_NUMBERS : 0);
}
