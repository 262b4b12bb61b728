// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks accesses, and moves data between memory and registers.
#include "tools/amdsim/machine.h"

/* ---- checks --------------------------------------------------------------------------------- */

enum { NEARBY = 4096 }; // bytes: a message names a buffer at most this far away

static void note_access(const Wave *w, const Inst *i, u64 at, int bytes) {
    w->m->result->address = at;
    w->m->result->bytes = (u32)bytes;
    w->m->result->atomic = i->memory.kind == ATOMIC || i->coherent;
}

/// The distance in bytes between an address and a buffer; 0 inside.
static u64 distance_to_buffer(const AmdsimBuffer *b, u64 at) {
    if (at < b->at) return b->at - at;
    return at < b->at + b->bytes ? 0 : at - b->at - b->bytes;
}

static _Noreturn void refuse_access(const Wave *w, const Inst *i, int lane, u64 at, int bytes,
                                    const char *kind) {
    const Machine *m = w->m;
    note_access(w, i, at, bytes);
    const AmdsimBuffer *near = m->buffers;
    for (size_t k = 1; k < m->n_buffers; k++)
        if (distance_to_buffer(&m->buffers[k], at) < distance_to_buffer(near, at))
            near = &m->buffers[k];
    if (m->n_buffers && distance_to_buffer(near, at) < NEARBY)
        fail(w, i, AMDSIM_ACCESS,
             "lane %d: %s of %d bytes at 0x%llx out of bounds, at %lld of a buffer of %lld bytes",
             lane, kind, bytes, (unsigned long long)at, (long long)(at - near->at),
             (long long)near->bytes);
    fail(w, i, AMDSIM_ACCESS, "lane %d: %s of %d bytes at 0x%llx, in no buffer", lane, kind, bytes,
         (unsigned long long)at);
}

void *global_at(const Wave *w, const Inst *i, int lane, u64 at, int bytes, bool store) {
    const Machine *m = w->m;
    for (size_t k = 0; k < m->n_buffers; k++) {
        const AmdsimBuffer *b = &m->buffers[k];
        if (at < b->at || at + (u64)bytes > b->at + b->bytes) continue;
        if (store && b->read_only) {
            note_access(w, i, at, bytes);
            fail(w, i, AMDSIM_ACCESS, "lane %d: store to read-only memory at 0x%llx", lane,
                 (unsigned long long)at);
        }
        return (void *)(uintptr_t)at;
    }
    refuse_access(w, i, lane, at, bytes, store ? "store" : "load");
}

enum { NO_WAVE = 0, MANY_WAVES = 255 };

/// Two waves must not access a byte without a barrier between them if one of them writes it.
static void note_shared_access(const Wave *w, const Inst *i, int lane, u32 at, bool store) {
    Machine *m = w->m;
    SharedByte *b = &m->access[at];
    uint8_t self = (uint8_t)(w->id + 1);
    bool written = b->write == m->epoch && b->writer != self;
    bool read = b->read == m->epoch && b->reader != self;
    if (written || (store && read))
        fail(w, i, AMDSIM_FAULT,
             "lane %d: a race in shared memory at %u: another wave %s it since the last barrier",
             lane, at, written ? "wrote" : "read");
    if (store) {
        b->write = m->epoch;
        b->writer = self;
        return;
    }
    if (b->write < m->first_epoch)
        fail(w, i, AMDSIM_FAULT, "lane %d: a load of shared memory at %u, which was never written",
             lane, at);
    b->reader = read ? MANY_WAVES : self;
    b->read = m->epoch;
}

void *shared_word(const Wave *w, const Inst *i, int lane, u64 at, int bytes) {
    if (at + (u64)bytes > w->m->shared_bytes)
        fail(w, i, AMDSIM_FAULT, "lane %d: %d bytes at %llu of shared memory, which has %u bytes",
             lane, bytes, (unsigned long long)at, w->m->shared_bytes);
    return w->m->shared + at;
}

void *shared_at(const Wave *w, const Inst *i, int lane, u64 at, int bytes, bool store) {
    void *p = shared_word(w, i, lane, at, bytes);
    for (int k = 0; k < bytes; k++) note_shared_access(w, i, lane, (u32)at + (u32)k, store);
    return p;
}

void *scratch_at(const Wave *w, const Inst *i, int lane, i64 offset, int bytes) {
    u32 size = w->m->private_bytes;
    if (offset < 0 || offset + bytes > size)
        fail(w, i, AMDSIM_FAULT, "lane %d: %d bytes at %lld of scratch, which has %u bytes", lane,
             bytes, (long long)offset, size);
    return w->scratch + (u64)lane * size + (u64)offset;
}

void *flat_at(const Wave *w, const Inst *i, int lane, u64 at, int bytes, bool store) {
    if (at >> 32 == SHARED_APERTURE) return shared_at(w, i, lane, (u32)at, bytes, store);
    if (at >> 32 == PRIVATE_APERTURE) return scratch_at(w, i, lane, (u32)at, bytes);
    return global_at(w, i, lane, at, bytes, store);
}

/* ---- data ----------------------------------------------------------------------------------- */

void load_words(Wave *w, int lane, const void *at, int reg, int bytes) {
    for (int k = 0; k < bytes / 4; k++)
        memcpy(&w->v[reg + k][lane], (const uint8_t *)at + 4 * k, 4);
}

void store_words(const Wave *w, int lane, void *at, int reg, int bytes) {
    for (int k = 0; k < bytes / 4; k++) memcpy((uint8_t *)at + 4 * k, &w->v[reg + k][lane], 4);
}

u64 lane_value(const Wave *w, int lane, int reg, int bytes) {
    return w->v[reg][lane] | (bytes == 8 ? (u64)w->v[reg + 1][lane] << 32 : 0);
}

void set_lane_value(Wave *w, int lane, int reg, int bytes, u64 x) {
    w->v[reg][lane] = (u32)x;
    if (bytes == 8) w->v[reg + 1][lane] = (u32)(x >> 32);
}

/// Loads a byte or a half into a register or a half of one.
static void load_part(const Inst *i, const void *at, u32 *reg) {
    u32 x = 0;
    memcpy(&x, at, (size_t)i->memory.bytes);
    if (i->memory.sign) x = i->memory.bytes == 1 ? (u32)(i8)x : (u32)(i16)x;
    if (i->memory.low) x = (*reg & 0xffff0000) | (x & 0xffff);
    if (i->memory.high) x = (*reg & 0xffff) | x << 16;
    *reg = x;
}

void move_data(Wave *w, const Inst *i, int lane, void *at, int reg) {
    int bytes = i->memory.bytes;
    if (i->memory.kind == LOAD) {
        if (bytes >= 4)
            load_words(w, lane, at, reg, bytes);
        else
            load_part(i, at, &w->v[reg][lane]);
        return;
    }
    u32 x = w->v[reg][lane] >> (i->memory.high ? 16 : 0);
    if (bytes >= 4)
        store_words(w, lane, at, reg, bytes);
    else
        memcpy(at, &x, (size_t)bytes);
}

/* ---- names ---------------------------------------------------------------------------------- */

/// Reads the size of a load or store. A text that is a prefix of another one comes after it.
static void read_size(Inst *i) {
    static const struct {
        const char *text;
        int bytes;
        bool sign;
    } sizes[] = {{"dwordx4", 16, 0}, {"dwordx3", 12, 0}, {"dwordx2", 8, 0}, {"dword", 4, 0},
                 {"ubyte", 1, 0},    {"sbyte", 1, 1},    {"ushort", 2, 0},  {"sshort", 2, 1},
                 {"byte", 1, 0},     {"short", 2, 0},    {"b128", 16, 0},   {"b96", 12, 0},
                 {"b64", 8, 0},      {"b32", 4, 0},      {"b16", 2, 0},     {"b8", 1, 0},
                 {"u8", 1, 0},       {"i8", 1, 1},       {"u16", 2, 0},     {"i16", 2, 1}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        if (strstr(i->name, sizes[k].text)) {
            i->memory.bytes = sizes[k].bytes;
            i->memory.sign = sizes[k].sign;
            return;
        }
}

/// Returns the operation's name within the atomic's name.
static const char *atomic_name(const Inst *i) {
    const char *at = strstr(i->name, "atomic_");
    return at ? at + strlen("atomic_") : i->name + strlen("ds_");
}

void read_memory_name(const Wave *w, Inst *i) {
    bool is_store = strstr(i->name, "store") || strstr(i->name, "write");
    bool is_load = strstr(i->name, "load") || strstr(i->name, "read");
    bool exchanges = starts(i->name, "ds_wrxchg") || starts(i->name, "ds_storexchg");
    i->memory.kind = strstr(i->name, "atomic") || exchanges ? ATOMIC
                     : is_store                             ? STORE
                     : is_load                              ? LOAD
                                                            : ATOMIC;
    i->lds |= strstr(i->name, "_lds_") != NULL;
    if (i->memory.kind == ATOMIC) {
        i->memory.bytes = strstr(i->name, "_x2") || strstr(i->name, "64") ? 8 : 4;
        i->memory.atomic = find_atomic(atomic_name(i));
        if (!i->memory.atomic) fail(w, i, AMDSIM_UNKNOWN, "this atomic is not emulated");
        return;
    }
    bool high = strstr(i->name, "d16_hi") || strstr(i->name, "_hi_");
    i->memory.high = high;
    i->memory.low = !high && i->memory.kind == LOAD && strstr(i->name, "d16");
    read_size(i);
    if (!i->memory.bytes) fail(w, i, AMDSIM_UNKNOWN, "the size of this access is not known");
}
