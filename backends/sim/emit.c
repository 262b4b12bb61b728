// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits the compiled code for the target functions and accesses of the portable module.
#include <stddef.h>
#include <string.h>

#include "backends/sim/machine.h"

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

static LLVMValueRef load_unaligned(Emit *e, LLVMTypeRef type, LLVMValueRef p) {
    LLVMValueRef v = LLVMBuildLoad2(e->g->b, type, p, "");
    LLVMSetAlignment(v, 1);
    return v;
}

static void store_unaligned(Emit *e, LLVMValueRef v, LLVMValueRef p) {
    LLVMSetAlignment(LLVMBuildStore(e->g->b, v, p), 1);
}

/* ---- the position of a lane ---------------------------------------------------------------- */

/// Loads an i32 field of the lane.
static void emit_field(Emit *e, LLVMValueRef call, size_t offset) {
    LLVMValueRef v = load_unaligned(e, e->g->i32, at_offset(e, e->lane, (int64_t)offset));
    portable_replace(e->g, call, 1, &v);
}

static size_t dimension_offset(const Fn *fn) {
    return 4 * (size_t)(*fn_capture(fn, 'd') - 'x');
}

void emit_thread_id(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)site;
    emit_field(e, call, offsetof(SimLane, thread) + dimension_offset(fn));
}
void emit_thread_count(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)site;
    emit_field(e, call, offsetof(SimLane, threads) + dimension_offset(fn));
}
void emit_cta_id(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)site;
    emit_field(e, call, offsetof(SimLane, cta) + dimension_offset(fn));
}
void emit_cta_count(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    (void)site;
    emit_field(e, call, offsetof(SimLane, ctas) + dimension_offset(fn));
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
    return load_unaligned(e, type, at_offset(e, e->lane, offsetof(SimLane, shared)));
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
    LLVMValueRef high =
        load_unaligned(e, e->g->i32, at_offset(e, e->lane, offsetof(SimLane, high)));
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
    store_unaligned(e, LLVMConstAllOnes(type), at_offset(e, p, VIEW_DIRTY));
    LLVMValueRef block =
        LLVMBuildLShr(b, shared_offset_of(e, p), LLVMConstInt(e->g->i64, SUMMARY_LOG2, false), "");
    LLVMValueRef summary = at_offset(e, shared_base(e), VIEW_SUMMARY);
    store_unaligned(e, LLVMConstInt(e->g->i8, 1, false),
                    LLVMBuildGEP2(b, e->g->i8, summary, &block, 1, ""));
}

/* ---- branches ------------------------------------------------------------------------------ */

void emit_path(Emit *e, LLVMValueRef condition, int site) {
    Gen *g = e->g;
    LLVMValueRef at = at_offset(e, e->lane, offsetof(SimLane, path));
    LLVMValueRef v = LLVMBuildIntCast2(g->b, condition, g->i32, false, "");
    v = LLVMBuildAdd(g->b, v, LLVMConstInt(g->i32, 2 * (unsigned)site, false), "");
    v = LLVMBuildXor(g->b, v, load_unaligned(e, g->i32, at), "");
    store_unaligned(e, LLVMBuildMul(g->b, v, LLVMConstInt(g->i32, 0x01000193, false), ""), at);
}

/* ---- accesses to global memory --------------------------------------------------------------- */

/// The address of a lane's access, and whether the lane is on.
typedef struct LanePlace {
    LLVMValueRef p, on;
} LanePlace;

/// The operands are the address and the mask.
static LanePlace masked_place(Emit *e, LLVMValueRef call) {
    LLVMValueRef p = LLVMBuildAddrSpaceCast(e->g->b, LLVMGetOperand(call, 0), e->g->ptr, "");
    return (LanePlace){p, LLVMGetOperand(call, 1)};
}

/// Adds two 32-bit numbers with saturation.
static LLVMValueRef add_to_most(Gen *g, LLVMValueRef a, LLVMValueRef b) {
    LLVMValueRef sum = LLVMBuildAdd(g->b, a, b, "");
    LLVMValueRef over = LLVMBuildICmp(g->b, LLVMIntULT, sum, a, "");
    return LLVMBuildSelect(g->b, over, LLVMConstAllOnes(g->i32), sum, "");
}

/// The operands are a tensor's address and size, and the two parts of the offset.
static LanePlace buffer_place(Emit *e, LLVMValueRef call, const SimSite *site) {
    Gen *g = e->g;
    LLVMValueRef data = LLVMBuildAddrSpaceCast(g->b, LLVMGetOperand(call, 0), g->ptr, "");
    LLVMValueRef bytes = LLVMGetOperand(call, 1);
    LLVMValueRef at = add_to_most(g, LLVMGetOperand(call, 2), LLVMGetOperand(call, 3));
    LLVMValueRef on = LLVMBuildICmp(g->b, LLVMIntULT, at, bytes, "");
    if (e->image->check) {
        LLVMTypeRef types[] = {g->ptr, g->ptr, g->ptr, g->i32, g->i32};
        LLVMValueRef args[] = {e->lane, emit_address(e, site), data, bytes, at};
        void *check = (void *)(uintptr_t)sim_check_buffer;
        emit_host_call(e, check, LLVMFunctionType(g->void_, types, 5, false), args);
    }
    at = LLVMBuildZExt(g->b, at, g->i64, "");
    return (LanePlace){LLVMBuildGEP2(g->b, g->i8, data, &at, 1, ""), on};
}

/// Returns the address, or the lane's own spare bytes if it is off. `value`: address of the bytes
/// of a store.
static LLVMValueRef checked_address(Emit *e, const SimSite *site, LanePlace to,
                                    LLVMValueRef value) {
    Gen *g = e->g;
    if (e->image->check) {
        LLVMTypeRef types[] = {g->ptr, g->ptr, g->ptr, g->ptr, g->i32};
        // A C bool argument fills its register.
        LLVMValueRef whole = LLVMBuildZExt(g->b, to.on, g->i32, "");
        LLVMValueRef args[] = {e->lane, emit_address(e, site), to.p, value, whole};
        void *check = (void *)(uintptr_t)sim_check_masked;
        emit_host_call(e, check, LLVMFunctionType(g->void_, types, 5, false), args);
    }
    LLVMValueRef spare = at_offset(e, e->lane, offsetof(SimLane, spare));
    return LLVMBuildSelect(g->b, to.on, to.p, spare, "");
}

/// The type in memory of a value of the row: b8 has 16 bits in registers.
static LLVMTypeRef sim_memory_type(Emit *e, const Fn *fn, LLVMTypeRef type) {
    return strstr(fn->row->name, ".b8") || (fn_capture(fn, 'w') && *fn_capture(fn, 'w') == '8')
               ? e->g->i8
               : type;
}

static int type_bytes(LLVMTypeRef type) {
    return (int)LLVMGetIntTypeWidth(type) / 8;
}

/// pad: the first operand with the values of masked lanes; 0: masked lanes get zeros.
static void emit_lane_load(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site, unsigned pad) {
    LLVMValueRef values[4];
    LLVMTypeRef type = fn_letter_type(e->g->llvm, fn->result.letter);
    LLVMTypeRef memory = sim_memory_type(e, fn, type);
    int n = fn->result.count, size = type_bytes(memory);
    site->bytes = n * size;
    LanePlace from = pad ? masked_place(e, call) : buffer_place(e, call, site);
    LLVMValueRef p = checked_address(e, site, from, LLVMConstNull(e->g->ptr));
    for (int i = 0; i < n; i++) {
        LLVMValueRef v = load_unaligned(e, memory, at_offset(e, p, i * size));
        LLVMValueRef off = pad ? LLVMGetOperand(call, pad + (unsigned)i) : LLVMConstNull(type);
        if (memory != type) v = LLVMBuildZExt(e->g->b, v, type, "");
        values[i] = LLVMBuildSelect(e->g->b, from.on, v, off, "");
    }
    portable_replace(e->g, call, n, values);
}

/// group: the operand group with the values.
static void emit_lane_store(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site, int group) {
    LLVMValueRef values[4];
    int n = fn->groups[group].count, first = (int)LLVMGetNumArgOperands(call) - n;
    LLVMTypeRef memory = sim_memory_type(e, fn, LLVMTypeOf(LLVMGetOperand(call, (unsigned)first)));
    int size = type_bytes(memory);
    site->bytes = n * size;
    site->is_store = true;
    for (int i = 0; i < n; i++) {
        values[i] = LLVMGetOperand(call, (unsigned)(first + i));
        if (LLVMTypeOf(values[i]) != memory)
            values[i] = LLVMBuildTrunc(e->g->b, values[i], memory, "");
        if (e->image->check) store_unaligned(e, values[i], at_offset(e, e->frame, i * size));
    }
    LanePlace to = group == 2 ? masked_place(e, call) : buffer_place(e, call, site);
    LLVMValueRef p = checked_address(e, site, to, e->frame);
    for (int i = 0; i < n; i++) store_unaligned(e, values[i], at_offset(e, p, i * size));
    portable_replace(e->g, call, 0, NULL);
}

void emit_load_global(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    emit_lane_load(e, call, fn, site, 2);
}

void emit_store_global(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    emit_lane_store(e, call, fn, site, 2);
}

void emit_load_buffer(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    emit_lane_load(e, call, fn, site, 0);
}

void emit_store_buffer(Emit *e, LLVMValueRef call, const Fn *fn, SimSite *site) {
    emit_lane_store(e, call, fn, site, 3);
}
