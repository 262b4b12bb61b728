// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes registers. The destination of an access in flight must not be read before its
// s_waitcnt.
#include "tools/amdsim/machine.h"

int type_bits(Type type) {
    switch (type) {
    case T_f64:
    case T_u64:
    case T_i64:
    case T_b64: return 64;
    case T_f16:
    case T_u16:
    case T_i16:
    case T_b16: return 16;
    default: return 32;
    }
}

static u64 special_value(const Wave *w, int reg, int bits) {
    int shift = bits == 64 ? 32 : 0;
    switch (reg) {
    case SCC: return w->s[SCC];
    case SHARED_BASE: return (u64)SHARED_APERTURE << shift;
    case PRIVATE_BASE: return (u64)PRIVATE_APERTURE << shift;
    case VCCZ: return !vcc_mask(w);
    case EXECZ: return !exec_mask(w);
    default: return 0;
    }
}

u64 read_scalar(const Wave *w, const Inst *i, int reg, int bits) {
    if (reg >= SCC) return special_value(w, reg, bits);
    if (reg == NULL_REG) return 0;
    for (int k = reg; k <= reg + (bits == 64); k++)
        if (w->s_pending[k] > w->lgkm.done)
            fail(w, i, AMDSIM_FAULT, "s%d is read before its s_waitcnt lgkmcnt", k);
    return bits == 64 ? w->s[reg] | (u64)w->s[reg + 1] << 32 : w->s[reg];
}

void write_scalar(Wave *w, const Operand *o, int bits, u64 x) {
    if (o->kind != SCALAR || o->reg == NULL_REG) return;
    w->s[o->reg] = (u32)x;
    if (bits == 64) w->s[o->reg + 1] = (u32)(x >> 32);
}

void write_mask(Wave *w, const Operand *o, u64 x) {
    write_scalar(w, o, w->lanes, x);
}

void write_exec(Wave *w, u64 x) {
    w->s[EXEC] = (u32)x;
    if (w->lanes == 64) w->s[EXEC + 1] = (u32)(x >> 32);
}

static u64 real_bits(const Operand *o, Type type) {
    if (type_bits(type) == 16 || type == T_pk) return f16_bits(o->real);
    return type_bits(type) == 64 ? f64_bits(o->real) : f32_bits((f32)o->real);
}

/// A 32-bit literal is the upper half of an f64.
static u64 integer_bits(const Operand *o, Type type) {
    bool literal = o->integer >> 32 == 0 && o->integer > 64;
    return type == T_f64 && literal ? o->integer << 32 : o->integer;
}

u64 read_operand(const Wave *w, const Inst *i, const Operand *o, Type type, int lane) {
    switch (o->kind) {
    case VECTOR:
        if (type_bits(type) == 64) return lane_value(w, lane, o->reg, 8);
        return o->half == HIGH_HALF ? w->v[o->reg][lane] >> 16 : w->v[o->reg][lane];
    case SCALAR: return read_scalar(w, i, o->reg, type_bits(type));
    case FLOAT: return real_bits(o, type);
    case INTEGER: return integer_bits(o, type);
    default: return 0;
    }
}

/// A 16-bit result keeps the register's other half on RDNA and clears it on CDNA.
void write_vector(Wave *w, const Operand *o, int lane, Type type, u64 x) {
    u32 *at = &w->v[o->reg][lane];
    int bits = type_bits(type);
    if (bits == 64)
        set_lane_value(w, lane, o->reg, 8, x);
    else if (bits == 32)
        *at = (u32)x;
    else if (o->half == HIGH_HALF)
        *at = (*at & 0xffff) | (u32)x << 16;
    else
        *at = (u32)(x & 0xffff) | (o->half == LOW_HALF || w->m->rdna ? *at & 0xffff0000 : 0);
}

void check_vectors(const Wave *w, const Inst *i, int reg, int n) {
    for (int r = reg; r < reg + n && r < VECTORS; r++)
        if (w->v_pending[r] > (w->v_lgkm[r] ? w->lgkm.done : w->vm.done))
            fail(w, i, AMDSIM_FAULT, "%c%d is read before its s_waitcnt %s",
                 r < ACCUMULATORS ? 'v' : 'a', r % ACCUMULATORS,
                 w->v_lgkm[r] ? "lgkmcnt" : "vmcnt");
}

void check_operand(const Wave *w, const Inst *i, const Operand *o, int n) {
    if (o->kind == VECTOR) check_vectors(w, i, o->reg, n);
}

void await_vectors(Wave *w, int reg, int n, bool lgkm) {
    for (int r = reg; r < reg + n && r < VECTORS; r++) {
        w->v_pending[r] = lgkm ? w->lgkm.issued : w->vm.issued;
        w->v_lgkm[r] = lgkm;
    }
}
