// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Between the lanes of a wave: shuffles, votes, reductions.
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

/// The value that lane `from` has of v. Lanes are addressed by bytes.
static LLVMValueRef value_of_lane(Expand *x, LLVMValueRef v, LLVMValueRef from) {
    const Gen *g = x->g;
    LLVMValueRef at = LLVMBuildShl(g->b, from, amd_i32(g, 2), "");
    return amd_intrinsic(g, "llvm.amdgcn.ds.bpermute", 2, at, v);
}

static LLVMValueRef lane_of(Expand *x) {
    LLVMValueRef kept = x->out[0];
    amd_lane_id(x);
    LLVMValueRef lane = x->out[0];
    x->out[0] = kept;
    return lane;
}

/// A lane beyond the wave's end gives a lane its own value.
void amd_shuffle(Expand *x) {
    const Gen *g = x->g;
    const char *mode = fn_capture(x->fn, 'm');
    LLVMValueRef last = amd_i32(g, x->gpu->lanes - 1), lane = lane_of(x), from;
    LLVMValueRef by = LLVMBuildAnd(g->b, x->in[1], last, "");
    if (!mode) { // up
        LLVMValueRef inside = LLVMBuildICmp(g->b, LLVMIntUGE, lane, by, "");
        from = LLVMBuildSelect(g->b, inside, LLVMBuildSub(g->b, lane, by, ""), lane, "");
    } else if (strcmp(mode, "down") == 0) {
        LLVMValueRef sum = LLVMBuildAdd(g->b, lane, by, "");
        LLVMValueRef inside = LLVMBuildICmp(g->b, LLVMIntULE, sum, last, "");
        from = LLVMBuildSelect(g->b, inside, sum, lane, "");
    } else {
        from = strcmp(mode, "idx") == 0 ? by : LLVMBuildXor(g->b, lane, by, "");
    }
    x->out[0] = value_of_lane(x, x->in[0], from);
}

static LLVMValueRef mask_of(Expand *x, LLVMValueRef yes) {
    LLVMTypeRef type = x->gpu->lanes == 64 ? x->g->i64 : x->g->i32;
    return gen_intrinsic(x->g, "llvm.amdgcn.ballot", 1, &type, 1, &yes);
}

void amd_vote(Expand *x) {
    const Gen *g = x->g;
    bool any = strcmp(fn_capture(x->fn, 'm'), "any") == 0;
    LLVMValueRef mask = mask_of(x, any ? x->in[0] : LLVMBuildNot(g->b, x->in[0], ""));
    x->out[0] =
        LLVMBuildICmp(g->b, any ? LLVMIntNE : LLVMIntEQ, mask, LLVMConstNull(LLVMTypeOf(mask)), "");
}

void amd_ballot(Expand *x) {
    if (x->gpu->lanes != 32) ice(x->g->ctx, (Loc){0}, "a ballot of more than 32 lanes");
    x->out[0] = mask_of(x, x->in[0]);
}

static const struct {
    const char *name; // what PTX calls it
    LLVMOpcode code;
    LLVMIntPredicate less; // of a minimum or maximum, where there is no code
} joins[] = {{"add.s32", LLVMAdd, 0},    {"and.b32", LLVMAnd, 0},    {"or.b32", LLVMOr, 0},
             {"xor.b32", LLVMXor, 0},    {"min.s32", 0, LLVMIntSLT}, {"max.s32", 0, LLVMIntSGT},
             {"min.u32", 0, LLVMIntULT}, {"max.u32", 0, LLVMIntUGT}};

static LLVMValueRef join(Expand *x, LLVMValueRef a, LLVMValueRef b) {
    const Gen *g = x->g;
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        if (strcmp(joins[i].name, fn_capture(x->fn, 'o')) != 0) continue;
        if (joins[i].code) return LLVMBuildBinOp(g->b, joins[i].code, a, b, "");
        return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, joins[i].less, a, b, ""), a, b, "");
    }
    ice(g->ctx, (Loc){0}, "no reduction %s", fn_capture(x->fn, 'o'));
}

void amd_redux(Expand *x) {
    LLVMValueRef v = x->in[0], lane = lane_of(x);
    for (int by = 1; by < x->gpu->lanes; by *= 2) {
        LLVMValueRef from = LLVMBuildXor(x->g->b, lane, amd_i32(x->g, by), "");
        v = join(x, v, value_of_lane(x, v, from));
    }
    x->out[0] = v;
}
