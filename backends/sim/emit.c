// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stands in compiled code where the portable module has target functions and accesses.
#include <stddef.h>
#include <string.h>

#include "backends/sim/private.h"

/* ---- building blocks ----------------------------------------------------------------------- */

LLVMValueRef emit_address(Emit *e, const void *p) {
    return LLVMConstIntToPtr(LLVMConstInt(e->g->i64, (uintptr_t)p, false), e->g->ptr);
}

LLVMValueRef emit_host_call(Emit *e, void *function, LLVMTypeRef type, LLVMValueRef *args) {
    return LLVMBuildCall2(e->g->b, type, emit_address(e, function), args, LLVMCountParamTypes(type),
                          "");
}

static LLVMValueRef at_offset(Emit *e, LLVMValueRef p, int64_t bytes) {
    LLVMValueRef where = LLVMConstInt(e->g->i64, (uint64_t)bytes, true);
    return bytes ? LLVMBuildGEP2(e->g->b, e->g->i8, p, &where, 1, "") : p;
}

static LLVMValueRef load(Emit *e, LLVMTypeRef type, LLVMValueRef p) {
    LLVMValueRef v = LLVMBuildLoad2(e->g->b, type, p, "");
    LLVMSetAlignment(v, 1);
    return v;
}

static void store(Emit *e, LLVMValueRef v, LLVMValueRef p) {
    LLVMSetAlignment(LLVMBuildStore(e->g->b, v, p), 1);
}

/* ---- where a lane is ----------------------------------------------------------------------- */

/// An i32 of the lane.
static void emit_field(Emit *e, LLVMValueRef call, size_t offset) {
    LLVMValueRef v = load(e, e->g->i32, at_offset(e, e->lane, (int64_t)offset));
    portable_replace(e->g, call, 1, &v);
}

static size_t dimension(const Fn *fn) {
    return 4 * (size_t)(*fn_capture(fn, 'd') - 'x');
}

void emit_thread_id(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)site;
    emit_field(e, call, offsetof(SimLane, thread) + dimension(fn));
}
void emit_thread_count(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)site;
    emit_field(e, call, offsetof(SimLane, threads) + dimension(fn));
}
void emit_cta_id(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)site;
    emit_field(e, call, offsetof(SimLane, cta) + dimension(fn));
}
void emit_cta_count(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)site;
    emit_field(e, call, offsetof(SimLane, ctas) + dimension(fn));
}
void emit_lane_id(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)fn, (void)site;
    emit_field(e, call, offsetof(SimLane, lane));
}
void emit_warp_id(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)fn, (void)site;
    emit_field(e, call, offsetof(SimLane, warp));
}
void emit_cluster_rank(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)fn, (void)site;
    emit_field(e, call, offsetof(SimLane, rank));
}
void emit_cluster_count(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)fn, (void)site;
    emit_field(e, call, offsetof(SimLane, ranks));
}

/* ---- shared memory ------------------------------------------------------------------------- */

static LLVMValueRef shared_base(Emit *e) {
    LLVMTypeRef type = LLVMPointerTypeInContext(e->g->llvm, 3);
    return load(e, type, at_offset(e, e->lane, offsetof(SimLane, shared)));
}

void emit_shared_base(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)fn, (void)site;
    LLVMValueRef v = shared_base(e);
    portable_replace(e->g, call, 1, &v);
}

static LLVMValueRef shared_offset_of(Emit *e, LLVMValueRef p) {
    LLVMBuilderRef b = e->g->b;
    LLVMValueRef base = LLVMBuildPtrToInt(b, shared_base(e), e->g->i64, "");
    return LLVMBuildSub(b, LLVMBuildPtrToInt(b, p, e->g->i64, ""), base, "");
}

void emit_shared_addr(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)fn, (void)site;
    LLVMValueRef v = shared_offset_of(e, LLVMGetOperand(call, 0));
    v = LLVMBuildTrunc(e->g->b, v, e->g->i32, "");
    LLVMValueRef high = load(e, e->g->i32, at_offset(e, e->lane, offsetof(SimLane, high)));
    v = LLVMBuildAdd(e->g->b, v, high, "");
    portable_replace(e->g, call, 1, &v);
}

void emit_global_addr(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)fn, (void)site;
    LLVMValueRef v = LLVMBuildPtrToInt(e->g->b, LLVMGetOperand(call, 0), e->g->i64, "");
    portable_replace(e->g, call, 1, &v);
}

void emit_mark(Emit *e, LLVMValueRef p, int bytes) {
    LLVMBuilderRef b = e->g->b;
    LLVMTypeRef type = LLVMIntTypeInContext(e->g->llvm, 8 * (unsigned)bytes);
    store(e, LLVMConstAllOnes(type), at_offset(e, p, VIEW_DIRTY));
    LLVMValueRef block =
        LLVMBuildLShr(b, shared_offset_of(e, p), LLVMConstInt(e->g->i64, SUMMARY_LOG2, false), "");
    LLVMValueRef summary = at_offset(e, shared_base(e), VIEW_SUMMARY);
    store(e, LLVMConstInt(e->g->i8, 1, false), LLVMBuildGEP2(b, e->g->i8, summary, &block, 1, ""));
}

/* ---- branches ------------------------------------------------------------------------------ */

void emit_path(Emit *e, LLVMValueRef condition, int site) {
    Gen *g = e->g;
    LLVMValueRef at = at_offset(e, e->lane, offsetof(SimLane, path));
    LLVMValueRef v = LLVMBuildIntCast2(g->b, condition, g->i32, false, "");
    v = LLVMBuildAdd(g->b, v, LLVMConstInt(g->i32, 2 * (unsigned)site, false), "");
    v = LLVMBuildXor(g->b, v, load(e, g->i32, at), "");
    store(e, LLVMBuildMul(g->b, v, LLVMConstInt(g->i32, 0x01000193, false), ""), at);
}

/* ---- masked access to global memory ---------------------------------------------------------- */

/// The address, or that of bytes of the lane's own where it is off. `value`: where the bytes of a
/// store are.
static LLVMValueRef masked_address(Emit *e, LLVMValueRef call, const SimSite *site,
                                   LLVMValueRef value) {
    Gen *g = e->g;
    LLVMValueRef p = LLVMBuildAddrSpaceCast(g->b, LLVMGetOperand(call, 0), g->ptr, "");
    LLVMValueRef on = LLVMGetOperand(call, 1);
    if (e->image->check) {
        LLVMTypeRef types[] = {g->ptr, g->ptr, g->ptr, g->ptr, g->i32};
        // C's bool fills its register.
        LLVMValueRef whole = LLVMBuildZExt(g->b, on, g->i32, "");
        LLVMValueRef args[] = {e->lane, emit_address(e, site), p, value, whole};
        void *check = (void *)(uintptr_t)sim_check_masked;
        emit_host_call(e, check, LLVMFunctionType(g->void_, types, 5, false), args);
    }
    LLVMValueRef spare = at_offset(e, e->lane, offsetof(SimLane, spare));
    return LLVMBuildSelect(g->b, on, p, spare, "");
}

/// What memory has of a value of the row: b8 goes through 16 bits.
static LLVMTypeRef memory_type(Emit *e, const Fn *fn, LLVMTypeRef type) {
    return strstr(fn->row->name, ".b8") || (fn_capture(fn, 'w') && *fn_capture(fn, 'w') == '8')
               ? e->g->i8
               : type;
}

static int type_bytes(LLVMTypeRef type) {
    return (int)LLVMGetIntTypeWidth(type) / 8;
}

void emit_load_global(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    LLVMValueRef values[4], on = LLVMGetOperand(call, 1);
    LLVMTypeRef type = fn_letter_type(e->g->llvm, fn->result.letter);
    LLVMTypeRef memory = memory_type(e, fn, type);
    int n = fn->result.count, size = type_bytes(memory);
    site->bytes = n * size;
    LLVMValueRef p = masked_address(e, call, site, LLVMConstNull(e->g->ptr));
    for (int i = 0; i < n; i++) {
        LLVMValueRef v = load(e, memory, at_offset(e, p, i * size));
        if (memory != type) v = LLVMBuildZExt(e->g->b, v, type, "");
        values[i] = LLVMBuildSelect(e->g->b, on, v, LLVMGetOperand(call, 2 + (unsigned)i), "");
    }
    portable_replace(e->g, call, n, values);
}

void emit_store_global(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    LLVMValueRef values[4];
    LLVMTypeRef memory = memory_type(e, fn, LLVMTypeOf(LLVMGetOperand(call, 2)));
    int n = fn->groups[2].count, size = type_bytes(memory);
    site->bytes = n * size;
    site->is_store = true;
    for (int i = 0; i < n; i++) {
        values[i] = LLVMGetOperand(call, 2 + (unsigned)i);
        if (LLVMTypeOf(values[i]) != memory)
            values[i] = LLVMBuildTrunc(e->g->b, values[i], memory, "");
        if (e->image->check) store(e, values[i], at_offset(e, e->frame, i * size));
    }
    LLVMValueRef p = masked_address(e, call, site, e->frame);
    for (int i = 0; i < n; i++) store(e, values[i], at_offset(e, p, i * size));
    portable_replace(e->g, call, 0, NULL);
}
