// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// clip: marks counts that exclude no more lanes than the tensor's extent does.
//
//   %n = min(%K - %k, 64); load %x ..., %k, %n       (K = dim %x)
//   -> load ... [clip = [..., 1]]
//
// clip[d] = 1: each lane beyond the count of dimension d lies outside the tensor. A copy engine
// knows extents but no counts, so it may move such a block. The pass runs while the conditions of
// the launch are still in the IR.
#include "passes/gpu/gpu.h"
#include "passes/passes.h"
#include "passes/range/range.h"
#include "passes/util.h"

typedef struct Clip {
    Ir *ir;
    Ranges *ranges;
} Clip;

/// Returns x of a count min(x, size). NULL: the count is never below the size.
static Value *shortening_count(Value *count, int64_t size) {
    int64_t n;
    for (Op *min; (min = def_of(count, OP_MIN));) {
        int of = const_int(operand(min, 0), &n) && n >= size   ? 1
                 : const_int(operand(min, 1), &n) && n >= size ? 0
                                                               : -1;
        if (of < 0) break;
        count = operand(min, of);
    }
    return const_int(count, &n) && n >= size ? NULL : count;
}

bool gpu_count_repeats_extent(Ranges *r, const Op *op, const Access *a, int d) {
    const SubDim *sub = &a->subs[d];
    if (sub->kind != DIM_AXIS || sub->mul != 1) return sub->kind == DIM_AT;
    Value *count = shortening_count(sub_operand(op, a, d, 1), sub->size);
    if (!count) return true;
    Linear end = linear_add(linear_exact(r, sub_operand(op, a, d, 0)), linear_exact(r, count), 1);
    return prove_le(r, linear_extent(r, a->tensor, d), end);
}

static void annotate_clip(Op *op, void *arg) {
    Clip *c = arg;
    if (op->code != OP_LOAD && op->code != OP_STORE && op->code != OP_ATOMIC) return;
    ranges_at(c->ranges, op);
    Access a = access_of(op);
    int64_t clip[MAX_RANK];
    for (int d = 0; d < a.n_subs; d++) clip[d] = gpu_count_repeats_extent(c->ranges, op, &a, d);
    op_set_ints(c->ir, op, A_CLIP, clip, a.n_subs);
}

void pass_clip(PassEnv *env, Op *module) {
    for_each_kernel(k, module) {
        Clip c = {env->ir, ranges_of(env->ir, k)};
        op_walk_pre(k, annotate_clip, &c);
    }
}
