// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ds_*: shared memory, and lane shuffles through the same hardware.
#include "tools/amdsim/machine.h"

static int lds_access_words(const Inst *i) {
    return i->memory.bytes < 4 ? 1 : i->memory.bytes / 4;
}

/* ---- loads and stores ----------------------------------------------------------------------- */

/// The address of access `n` of a lane; `address`: the value of its register.
static u64 lds_access_address(const Inst *i, u32 address, int n) {
    if (i->memory.accesses == 1) return (u64)address + (u64)i->offset;
    return (u64)address + (u64)(n ? i->offset1 : i->offset0) * (u64)i->memory.stride;
}

static void run_read(Wave *w, const Inst *i) {
    int reg = i->o[0].reg, n = i->memory.accesses;
    u32 address[LANES];
    check_operand(w, i, &i->o[1], 1);
    memcpy(address, w->v[i->o[1].reg], sizeof address);
    await_vectors(w, reg, lds_access_words(i) * n, true);
    for (int l = 0; l < w->lanes; l++)
        for (int k = 0; k < n && is_on(exec_mask(w), l); k++) {
            u64 at = lds_access_address(i, address[l], k);
            void *from = shared_at(w, i, l, at, i->memory.bytes, false);
            move_data(w, i, l, from, reg + k * lds_access_words(i));
        }
}

static void run_write(Wave *w, const Inst *i) {
    int n = i->memory.accesses;
    check_operand(w, i, &i->o[0], 1);
    for (int k = 0; k < n; k++) check_operand(w, i, &i->o[1 + k], lds_access_words(i));
    for (int l = 0; l < w->lanes; l++)
        for (int k = 0; k < n && is_on(exec_mask(w), l); k++) {
            u64 at = lds_access_address(i, w->v[i->o[0].reg][l], k);
            void *to = shared_at(w, i, l, at, i->memory.bytes, true);
            move_data(w, i, l, to, i->o[1 + k].reg);
        }
}

/* ---- atomics -------------------------------------------------------------------------------- */

/// ds_OP[_rtn] [result,] address, data [, data]. The comparand of a compare-and-swap comes first on
/// CDNA and second on RDNA (`cmpstore`).
static void run_atomic(Wave *w, const Inst *i) {
    const Operand *o = i->o + i->memory.returned;
    int bytes = i->memory.bytes;
    bool compares = i->memory.atomic == A_cmpswap, swapped = starts(i->name, "ds_cmpst_");
    for (int k = 0; k < 2 + compares; k++) check_operand(w, i, &o[k], k ? lds_access_words(i) : 1);
    if (i->memory.returned) await_vectors(w, i->o[0].reg, lds_access_words(i), true);
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(exec_mask(w), l)) continue;
        void *at = shared_word(w, i, l, (u64)w->v[o[0].reg][l] + (u64)i->offset, bytes);
        u64 first = lane_value(w, l, o[1].reg, bytes);
        u64 second = compares ? lane_value(w, l, o[2].reg, bytes) : 0;
        u64 old = do_atomic(i->memory.atomic, at, bytes, swapped ? second : first,
                            swapped ? first : second);
        if (i->memory.returned) set_lane_value(w, l, i->o[0].reg, bytes, old);
    }
}

/* ---- shuffles ------------------------------------------------------------------------------- */

static void write_shuffled(Wave *w, const Inst *i, const u32 *x) {
    for (int l = 0; l < w->lanes; l++)
        if (is_on(exec_mask(w), l)) w->v[i->o[0].reg][l] = x[l];
    await_vectors(w, i->o[0].reg, 1, true);
}

/// Returns the lane that a lane's address names.
static int named_lane(const Wave *w, const Inst *i, int l) {
    return (int)((w->v[i->o[1].reg][l] + (u32)i->offset) / 4) & (w->lanes - 1);
}

/// Reads from the named lane; a disabled lane gives 0.
static void run_bpermute(Wave *w, const Inst *i) {
    u32 x[LANES] = {0};
    for (int k = 1; k <= 2; k++) check_operand(w, i, &i->o[k], 1);
    for (int l = 0; l < w->lanes; l++) {
        int from = named_lane(w, i, l);
        if (is_on(exec_mask(w), from)) x[l] = w->v[i->o[2].reg][from];
    }
    write_shuffled(w, i, x);
}

/// Writes to the named lane.
static void run_permute(Wave *w, const Inst *i) {
    u32 x[LANES] = {0};
    for (int k = 1; k <= 2; k++) check_operand(w, i, &i->o[k], 1);
    for (int l = 0; l < w->lanes; l++)
        if (is_on(exec_mask(w), l)) x[named_lane(w, i, l)] = w->v[i->o[2].reg][l];
    write_shuffled(w, i, x);
}

/// The offset tells each lane of a group of 4 or 32 which lane it reads.
static int swizzled_lane(u32 offset, int l) {
    if (offset & 0x8000) return (l & ~3) + (int)(offset >> 2 * (l & 3) & 3);
    u32 at = (u32)l & 31;
    return (l & ~31) + (int)(((at & offset) | (offset >> 5 & 31)) ^ (offset >> 10 & 31));
}

static void run_swizzle(Wave *w, const Inst *i) {
    u32 x[LANES] = {0};
    check_operand(w, i, &i->o[1], 1);
    for (int l = 0; l < w->lanes; l++) {
        int from = swizzled_lane((u32)i->offset, l);
        if (is_on(exec_mask(w), from)) x[l] = w->v[i->o[1].reg][from];
    }
    write_shuffled(w, i, x);
}

/* ---- decoding ------------------------------------------------------------------------------- */

static void run_shared(Wave *w, const Inst *i) {
    static const Run runs[] = {[LOAD] = run_read, [STORE] = run_write, [ATOMIC] = run_atomic};
    w->lgkm.issued++;
    runs[i->memory.kind](w, i);
}

static void run_shuffle(Wave *w, const Inst *i) {
    w->lgkm.issued++;
    (starts(i->name, "ds_bpermute")  ? run_bpermute
     : starts(i->name, "ds_permute") ? run_permute
                                     : run_swizzle)(w, i);
}

bool decode_shared(Wave *w, Inst *i) {
    if (!starts(i->name, "ds_")) return false;
    if (strstr(i->name, "permute_b32") || starts(i->name, "ds_swizzle")) {
        i->run = run_shuffle;
        return true;
    }
    read_memory_name(w, i);
    i->memory.returned = strstr(i->name, "_rtn") != NULL;
    bool two = strstr(i->name, "read2") || strstr(i->name, "write2");
    i->memory.accesses = two ? 2 : 1;
    i->memory.stride = i->memory.bytes * (strstr(i->name, "st64") ? 64 : 1);
    i->run = run_shared;
    return true;
}
