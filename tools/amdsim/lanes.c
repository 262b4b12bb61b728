// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the sources of a vector instruction and writes its result. DPP takes sources from other
// lanes; SDWA and op_sel take parts of registers; abs and neg come last. Results take omod, then
// clamp, then SDWA's part.
#include <math.h>

#include "tools/amdsim/dpp.h"
#include "tools/amdsim/machine.h"

/// Returns the lane that lane `l` reads; -1: none.
static int dpp_lane(const Inst *i, int l) {
    int n = i->dpp_arg[0], row = l & ~15, at = l & 15;
    switch (i->dpp) {
    case DPP_QUAD_PERM: return (l & ~3) + i->dpp_arg[l & 3];
    case DPP_SHL: return at + n < 16 ? l + n : -1;
    case DPP_SHR: return at >= n ? l - n : -1;
    case DPP_ROR: return row + ((at - n) & 15);
    case DPP_MIRROR: return row + 15 - at;
    case DPP_HALF_MIRROR: return (l & ~7) + 7 - (l & 7);
    case DPP_BCAST15: return l >= 16 ? row - 1 : -1;
    case DPP_BCAST31: return l >= 32 ? 31 : -1;
    case DPP_SHARE: return row + n;
    case DPP_XMASK: return row + (at ^ n);
    case DPP_8: return (l & ~7) + i->dpp_arg[l & 7];
    case DPP_WAVE_SHR: return l - 1;
    default: return l;
    }
}

/// Returns the first source of an instruction with DPP. A lane without a source, or whose source is
/// off, gets 0 or is not written.
static u64 gather_dpp(const Wave *w, const Inst *i, const Operand *o, Type type, Values *out) {
    u64 on = exec_mask(w), written = on;
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(on, l)) continue;
        int from = dpp_lane(i, l);
        bool enabled = i->row_mask >> (l >> 4) & 1 && i->bank_mask >> (l >> 2 & 3) & 1;
        if (enabled && from >= 0 && (is_on(on, from) || i->fetch_inactive))
            out->of[l] = read_operand(w, i, o, type, from);
        else if (enabled && i->bound_ctrl)
            out->of[l] = 0;
        else
            written &= ~(1ull << l);
    }
    return written;
}

static u64 gather_plain(const Wave *w, const Inst *i, const Operand *o, Type type, Values *out) {
    u64 on = exec_mask(w), same = o->kind == VECTOR ? 0 : read_operand(w, i, o, type, 0);
    for (int l = 0; l < w->lanes; l++)
        if (is_on(on, l)) out->of[l] = o->kind == VECTOR ? read_operand(w, i, o, type, l) : same;
    return on;
}

/// Extracts SDWA's part: a byte (0 to 3), a half (4, 5) or the whole word.
static u64 selected_part(u64 x, int select, bool sign) {
    if (select >= 6) return x;
    if (select >= 4) {
        u16 half = (u16)(x >> 16 * (select - 4));
        return sign ? (u32)(i16)half : half;
    }
    u8 byte = (u8)(x >> 8 * select);
    return sign ? (u32)(i8)byte : byte;
}

u64 modified(const Operand *o, Type type, u64 x) {
    u64 sign = type == T_f64 ? 1ull << 63 : type == T_f32 ? 1u << 31 : type == T_f16 ? 1u << 15 : 0;
    if (o->abs) x &= ~sign;
    return o->neg ? x ^ sign : x;
}

static bool takes_high(const Inst *i, const Operand *o, Type type, int k) {
    return type_bits(type) == 16 && i->has_op_sel && !o->half && i->op_sel >> k & 1 &&
           o->kind != FLOAT && o->kind != INTEGER;
}

u64 gather(const Wave *w, const Inst *i, int first, int k, Type type, Values *out) {
    Operand o = i->o[first + k];
    if (k == 0 && w->index_mode & 1 && o.kind == VECTOR) o.reg += w->index;
    if (o.reg >= VECTORS) fail(w, i, AMDSIM_FAULT, "register %d is beyond the last", o.reg);
    check_operand(w, i, &o, type_bits(type) == 64 ? 2 : 1);
    u64 mask = (k == 0 && i->dpp ? gather_dpp : gather_plain)(w, i, &o, type, out);
    bool sdwa = i->sdwa && k < 2, high = takes_high(i, &o, type, k);
    if (!sdwa && !high && !o.abs && !o.neg) return mask;
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(mask, l)) continue;
        u64 x =
            sdwa ? selected_part(out->of[l], i->select[k], o.sext) : out->of[l] >> (high ? 16 : 0);
        out->of[l] = modified(&o, type, x);
    }
    return mask;
}

static f64 clamped_to_one(f64 x) {
    return isnan(x) || x < 0 ? 0 : x > 1 ? 1 : x;
}

/// Applies omod and clamp.
static u64 result_bits(const Inst *i, Type type, u64 x) {
    static const f32 factor[] = {1, 2, 4, .5f};
    if (type == T_f32) {
        f32 scaled = i->omod ? f32_of(x) * factor[i->omod] : f32_of(x);
        return f32_bits(i->clamp ? (f32)clamped_to_one(scaled) : scaled);
    }
    if (!i->clamp) return x;
    if (type == T_f64) return f64_bits(clamped_to_one(f64_of(x)));
    return type == T_f16 ? f16_bits(clamped_to_one(f16_of(x))) : x;
}

/// Writes SDWA's part of the register. The rest is cleared, sign-extended or kept.
static void write_part(const Inst *i, u32 *at, u64 x) {
    bool byte = i->result_select < 4;
    u32 shift = byte ? 8 * i->result_select : 16 * (i->result_select - 4);
    u32 mask = byte ? 255 : 65535, y = ((u32)x & mask) << shift;
    if (i->result_unused == UNUSED_PRESERVE)
        y |= *at & ~(mask << shift);
    else if (i->result_unused == UNUSED_SEXT && x >> (byte ? 7 : 15) & 1)
        y |= ~((mask << shift) | ((1u << shift) - 1));
    *at = y;
}

void scatter(Wave *w, const Inst *i, const Operand *o, Type type, const Values *x, u64 mask) {
    Operand to = *o;
    if (w->index_mode & 8) to.reg += w->index;
    if (to.reg >= VECTORS) fail(w, i, AMDSIM_FAULT, "register %d is beyond the last", to.reg);
    bool high = i->has_op_sel && type_bits(type) == 16 && !to.half && i->sources &&
                i->op_sel >> i->sources & 1;
    if (high) to.half = HIGH_HALF;
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(mask, l)) continue;
        u64 bits = i->omod || i->clamp ? result_bits(i, type, x->of[l]) : x->of[l];
        if (i->sdwa && i->result_select != 6)
            write_part(i, &w->v[to.reg][l], bits);
        else
            write_vector(w, &to, l, type, bits);
    }
}
