// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads, stores and atomics of memory: flat, global, scratch, buffer and scalar instructions.
#include "tools/amdsim/machine.h"

static int register_count(const Inst *i) {
    return i->memory.bytes < 4 ? 1 : i->memory.bytes / 4;
}

/// A load that goes straight to shared memory. Lanes write one after the other, from M0 on.
static void load_to_shared(const Wave *w, const Inst *i, int lane, const void *from) {
    u32 to = (w->s[M0] & 0xffff) + (u32)lane * 4;
    memcpy(shared_at(w, i, lane, to, 4, true), from, 4);
}

/// Performs an atomic. Its data begin at register `data`, followed by the comparand of a
/// compare-and-swap. The old value goes to register `result`, unless that is negative.
static void update_atomically(Wave *w, const Inst *i, int lane, void *at, int data, int result) {
    int bytes = i->memory.bytes;
    bool compares = i->memory.atomic == A_cmpswap;
    u64 other = compares ? lane_value(w, lane, data + bytes / 4, bytes) : 0;
    u64 old = do_atomic(i->memory.atomic, at, bytes, lane_value(w, lane, data, bytes), other);
    if (result >= 0) set_lane_value(w, lane, result, bytes, old);
}

static void check_data(const Wave *w, const Inst *i, const Operand *o) {
    check_operand(w, i, o, register_count(i) * (i->memory.atomic == A_cmpswap ? 2 : 1));
}

/* ---- flat, global, scratch ------------------------------------------------------------------ */

/// The operands of an instruction; NULL: absent.
typedef struct FlatOperands {
    const Operand *result, *address, *data, *base;
} FlatOperands;

static FlatOperands flat_operands(const Inst *i) {
    FlatOperands f = {0};
    int k = 0;
    bool loads = i->memory.kind == LOAD && !i->lds;
    if (loads || (i->memory.kind == ATOMIC && i->returns)) f.result = &i->o[k++];
    f.address = &i->o[k++];
    if (i->memory.kind != LOAD) f.data = &i->o[k++];
    f.base = k < i->n && i->o[k].kind == SCALAR && i->o[k].reg != NULL_REG ? &i->o[k] : NULL;
    return f;
}

static void *scratch_address(const Wave *w, const Inst *i, const FlatOperands *f, int lane) {
    i64 at = i->offset;
    if (f->address->kind == VECTOR) at += (i32)w->v[f->address->reg][lane];
    if (f->base) at += (i32)read_scalar(w, i, f->base->reg, 32);
    return scratch_at(w, i, lane, at, i->memory.bytes);
}

static void *flat_address(const Wave *w, const Inst *i, const FlatOperands *f, int lane) {
    int reg = f->address->reg;
    u64 at = f->base ? read_scalar(w, i, f->base->reg, 64) + w->v[reg][lane]
                     : lane_value(w, lane, reg, 8);
    return flat_at(w, i, lane, at + (u64)(i64)i->offset, i->memory.bytes, i->memory.kind != LOAD);
}

static void run_flat(Wave *w, const Inst *i) {
    FlatOperands f = flat_operands(i);
    bool scratch = i->memory.scratch;
    check_operand(w, i, f.address, f.base || scratch ? 1 : 2);
    if (f.data) check_data(w, i, f.data);
    w->vm.issued++;
    if (f.result) await_vectors(w, f.result->reg, register_count(i), false);
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(exec_mask(w), l)) continue;
        void *at = (scratch ? scratch_address : flat_address)(w, i, &f, l);
        if (i->lds)
            load_to_shared(w, i, l, at);
        else if (i->memory.kind == ATOMIC)
            update_atomically(w, i, l, at, f.data->reg, f.result ? f.result->reg : -1);
        else
            move_data(w, i, l, at, (f.data ? f.data : f.result)->reg);
    }
}

/* ---- buffer --------------------------------------------------------------------------------- */

/// buffer_{load,store,atomic} data, [address | off], resource, offset
typedef struct Resource {
    u64 base;
    u32 stride, records, offset; // offset: of the scalar operand
} Resource;

static Resource read_resource(const Wave *w, const Inst *i, const Operand *o) {
    u64 low = read_scalar(w, i, o->reg, 64), high = read_scalar(w, i, o->reg + 2, 64);
    return (Resource){.base = low & 0xffffffffffffu,
                      .stride = low >> 48 & 0x3fff,
                      .records = (u32)high,
                      .offset = (u32)read_operand(w, i, o + 1, T_u32, 0)};
}

/// Returns NULL outside the resource's bounds. The scalar offset is not part of the comparison.
static void *buffer_lane_address(const Wave *w, const Inst *i, const Resource *r, int reg,
                                 int lane) {
    int bytes = i->memory.bytes;
    u32 index = i->idxen ? w->v[reg][lane] : 0;
    u64 offset = (u64)i->offset + (i->offen ? w->v[reg + i->idxen][lane] : 0);
    if (r->base == SCRATCH_RESOURCE)
        return scratch_at(w, i, lane, (i64)(i32)offset + (i32)r->offset, bytes);
    bool inside = r->stride ? index < r->records / r->stride : offset + (u64)bytes <= r->records;
    u64 at = r->base + r->offset + offset + (u64)r->stride * index;
    return inside ? flat_at(w, i, lane, at, bytes, i->memory.kind != LOAD) : NULL;
}

/// Out of bounds, a load gives 0 and other accesses do nothing.
static void run_buffer(Wave *w, const Inst *i) {
    static const u64 zero[2];
    int k = !i->lds;
    const Operand *data = &i->o[0], *address = &i->o[k];
    Resource r = read_resource(w, i, &i->o[k + 1]);
    check_operand(w, i, address, i->offen + i->idxen);
    if (i->memory.kind != LOAD) check_data(w, i, data);
    w->vm.issued++;
    if (k && (i->memory.kind == LOAD || (i->memory.kind == ATOMIC && i->returns)))
        await_vectors(w, data->reg, register_count(i), false);
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(exec_mask(w), l)) continue;
        void *at = buffer_lane_address(w, i, &r, address->reg, l);
        if (!at && i->memory.kind != LOAD) continue;
        if (i->lds)
            load_to_shared(w, i, l, at ? at : zero);
        else if (i->memory.kind == ATOMIC)
            update_atomically(w, i, l, at, data->reg, i->returns ? data->reg : -1);
        else
            move_data(w, i, l, at ? at : (void *)(uintptr_t)zero, data->reg);
    }
}

/* ---- scalars -------------------------------------------------------------------------------- */

static void run_scalar_load(Wave *w, const Inst *i) {
    const Operand *offset = &i->o[2];
    u64 at = read_operand(w, i, &i->o[1], T_b64, 0) + (u64)(i64)i->offset;
    if (offset->kind == INTEGER) at += offset->integer;
    if (offset->kind == SCALAR) at += (u32)read_scalar(w, i, offset->reg, 32);
    const void *from = global_at(w, i, 0, at & ~3ull, i->memory.bytes, false);
    w->lgkm.issued++;
    for (int k = 0; k < i->memory.bytes / 4; k++) {
        memcpy(&w->s[i->o[0].reg + k], (const uint8_t *)from + 4 * k, 4);
        w->s_pending[i->o[0].reg + k] = w->lgkm.issued;
    }
}

/* ---- decoding ------------------------------------------------------------------------------- */

/// A scalar load fills as many registers as its operand has.
static bool decode_scalar_load(Inst *i) {
    i->memory.kind = LOAD;
    i->memory.bytes = 4 * i->o[0].count;
    i->run = run_scalar_load;
    return i->o[0].kind == SCALAR && i->o[0].reg + i->o[0].count <= SCC;
}

bool decode_memory(Wave *w, Inst *i) {
    if (starts(i->name, "s_load_")) return decode_scalar_load(i);
    bool buffer = starts(i->name, "buffer_"), scratch = starts(i->name, "scratch_");
    if (!buffer && !scratch && !starts(i->name, "global_") && !starts(i->name, "flat_"))
        return false;
    if (strstr(i->name, "csub")) return false;
    read_memory_name(w, i);
    i->run = buffer ? run_buffer : run_flat;
    i->memory.scratch = scratch;
    return true;
}
