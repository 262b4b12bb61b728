// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations between the lanes of a wave: shuffles, votes, reductions.
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

/// Returns the value of v in lane `from`. Lanes are addressed in bytes.
static LLVMValueRef value_of_lane(Expand *x, LLVMValueRef v, LLVMValueRef from) {
    const Gen *g = x->g;
    LLVMValueRef at = LLVMBuildShl(g->b, from, amd_i32(g, 2), "");
    return amd_intrinsic(g, "llvm.amdgcn.ds.bpermute", 2, at, v);
}

static LLVMValueRef current_lane(Expand *x) {
    LLVMValueRef kept = x->out[0];
    amd_lane_id(x);
    LLVMValueRef lane = x->out[0];
    x->out[0] = kept;
    return lane;
}

/* ---- lanes whose numbers differ in the same bits ------------------------------------------- */

// Vector instructions can read from other lanes of a row of 16 (DPP), on RDNA also from the
// neighbouring row. Operations of shared memory's crossbar take as long as an access to it.

enum {
    ROW = 16,
    ROW_ROR = 0x120, // rotates by the number in the low bits
    ROW_MIRROR = 0x140,
    ROW_HALF_MIRROR = 0x141,
    ROW_XMASK = 0x160, // of RDNA
    CROSSBAR = 32,     // lanes
};

static LLVMValueRef by_dpp(const Expand *x, LLVMValueRef v, int control) {
    const Gen *g = x->g;
    LLVMValueRef all = amd_i32(g, 15), yes = LLVMConstInt(g->i1, 1, false);
    LLVMValueRef args[] = {LLVMGetPoison(g->i32), v, amd_i32(g, control), all, all, yes};
    return gen_intrinsic(g, "llvm.amdgcn.update.dpp", 1, (LLVMTypeRef[]){g->i32}, 6, args);
}

/// For each group of four lanes, two bits select the lane to read.
static LLVMValueRef in_quad(const Expand *x, LLVMValueRef v, int mask) {
    int control = 0;
    for (int i = 0; i < 4; i++) control |= (i ^ mask) << 2 * i;
    return mask ? by_dpp(x, v, control) : v;
}

/// Mirrors and a rotation by half a row are xors with 7, 15 and 8.
static LLVMValueRef in_row(const Expand *x, LLVMValueRef v, int mask) {
    if (x->gpu->lanes == 32) return by_dpp(x, v, ROW_XMASK | mask);
    switch (mask >> 2) {
    case 0: return in_quad(x, v, mask);
    case 1: return in_quad(x, by_dpp(x, v, ROW_HALF_MIRROR), mask ^ 7);
    case 2: return in_quad(x, by_dpp(x, v, ROW_ROR | 8), mask ^ 8);
    default: return in_quad(x, by_dpp(x, v, ROW_MIRROR), mask ^ 15);
    }
}

/// The lane reads from the other row of a pair; four bits select the lane there.
static LLVMValueRef across_rows(const Expand *x, LLVMValueRef v, int mask) {
    const Gen *g = x->g;
    uint64_t from = 0;
    for (int i = 0; i < ROW; i++) from |= (uint64_t)(i ^ (mask & (ROW - 1))) << 4 * i;
    LLVMValueRef low = amd_i32(g, (int64_t)(from & UINT32_MAX)),
                 high = amd_i32(g, (int64_t)(from >> 32));
    LLVMValueRef no = LLVMConstInt(g->i1, 0, false);
    LLVMValueRef args[] = {LLVMGetPoison(g->i32), v, low, high, no, no};
    return gen_intrinsic(g, "llvm.amdgcn.permlanex16", 1, (LLVMTypeRef[]){g->i32}, 6, args);
}

static LLVMValueRef value_across(Expand *x, LLVMValueRef v, int mask) {
    const Gen *g = x->g;
    if (mask == 0) return v;
    if (mask < ROW) return in_row(x, v, mask);
    if (x->gpu->lanes == 32) return across_rows(x, v, mask);
    if (mask < CROSSBAR) // lane & 31 ^ mask
        return amd_intrinsic(g, "llvm.amdgcn.ds.swizzle", 2, v,
                             amd_i32(g, mask << 10 | (CROSSBAR - 1)));
    return value_of_lane(x, v, LLVMBuildXor(g->b, current_lane(x), amd_i32(g, mask), ""));
}

/* ---- calls of kernels ---------------------------------------------------------------------- */

/// A source beyond the wave's end yields the lane's own value.
void amd_shuffle(Expand *x) {
    const Gen *g = x->g;
    const char *mode = fn_capture(x->fn, 'm');
    LLVMValueRef last = amd_i32(g, x->gpu->lanes - 1), from;
    LLVMValueRef by = LLVMBuildAnd(g->b, x->in[1], last, "");
    if (mode && strcmp(mode, "bfly") == 0 && LLVMIsAConstantInt(by)) {
        x->out[0] = value_across(x, x->in[0], (int)LLVMConstIntGetZExtValue(by));
        return;
    }
    LLVMValueRef lane = current_lane(x);
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
    const char *name; // PTX's name
    LLVMOpcode code;
    LLVMIntPredicate less; // for a minimum or maximum without an instruction
} joins[] = {{"add.s32", LLVMAdd, 0},    {"and.b32", LLVMAnd, 0},    {"or.b32", LLVMOr, 0},
             {"xor.b32", LLVMXor, 0},    {"min.s32", 0, LLVMIntSLT}, {"max.s32", 0, LLVMIntSGT},
             {"min.u32", 0, LLVMIntULT}, {"max.u32", 0, LLVMIntUGT}};

static LLVMValueRef join_lane_values(Expand *x, LLVMValueRef a, LLVMValueRef b) {
    const Gen *g = x->g;
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        if (strcmp(joins[i].name, fn_capture(x->fn, 'o')) != 0) continue;
        if (joins[i].code) return LLVMBuildBinOp(g->b, joins[i].code, a, b, "");
        return LLVMBuildSelect(g->b, LLVMBuildICmp(g->b, joins[i].less, a, b, ""), a, b, "");
    }
    ice(g->ctx, (Loc){0}, "no reduction %s", fn_capture(x->fn, 'o'));
}

void amd_redux(Expand *x) {
    LLVMValueRef v = x->in[0];
    for (int by = 1; by < x->gpu->lanes; by *= 2)
        v = join_lane_values(x, v, value_across(x, v, by));
    x->out[0] = v;
}
