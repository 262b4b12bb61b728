// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector instructions that do not fit a row: extra results, values of other lanes, masks.
#include <math.h>

#include "tools/amdsim/bits.h"
#include "tools/amdsim/machine.h"

/* ---- masks and carries ---------------------------------------------------------------------- */

static void run_choose(Wave *w, const Inst *i) {
    Type type = i->variant == 16 ? T_f16 : T_f32; // the type for abs and neg
    const Operand *condition = &i->o[3];
    u64 second = i->n > 3 ? read_operand(w, i, condition, mask_type(w), 0) : vcc_mask(w);
    Values a, b;
    u64 mask = gather(w, i, 1, 0, type, &a);
    gather(w, i, 1, 1, type, &b);
    for (int l = 0; l < w->lanes; l++)
        if (is_on(second & mask, l)) a.of[l] = b.of[l];
    scatter(w, i, &i->o[0], type == T_f16 ? T_b16 : T_b32, &a, mask);
}

enum { SUBTRACTS = 1, REVERSED = 2 };

/// v_{add,sub,subrev,addc,subb,subbrev}_co_u32 d, carry, a, b [, carry in]
static void run_carry(Wave *w, const Inst *i) {
    Values a, b;
    u64 mask = gather(w, i, 2, 0, T_u32, &a), carries = 0;
    gather(w, i, 2, 1, T_u32, &b);
    u64 in = i->n > 4 ? read_operand(w, i, &i->o[4], mask_type(w), 0) : 0;
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(mask, l)) continue;
        u64 x = (u32)(i->variant & REVERSED ? b : a).of[l], c = is_on(in, l);
        u64 y = (u32)(i->variant & REVERSED ? a : b).of[l] + c;
        bool subtracts = i->variant & SUBTRACTS;
        a.of[l] = (u32)(subtracts ? x - y : x + y);
        carries |= (u64)(subtracts ? y > x : (x + y) >> 32 != 0) << l;
    }
    scatter(w, i, &i->o[0], T_u32, &a, mask);
    write_mask(w, &i->o[1], carries);
}

/// v_mad_{u64_u32,i64_i32} d, carry, a, b, c
static void run_mad64(Wave *w, const Inst *i) {
    Values a, b, c;
    u64 mask = gather(w, i, 2, 0, T_u32, &a), carries = 0;
    gather(w, i, 2, 1, T_u32, &b);
    gather(w, i, 2, 2, T_u64, &c);
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(mask, l)) continue;
        u64 product =
            i->variant ? (u64)((i64)(i32)a.of[l] * (i32)b.of[l]) : (u64)(u32)a.of[l] * (u32)b.of[l];
        c.of[l] += product;
        carries |= (u64)(c.of[l] < product) << l;
    }
    scatter(w, i, &i->o[0], T_u64, &c, mask);
    write_mask(w, &i->o[1], carries);
}

/* ---- divisions ------------------------------------------------------------------------------ */

/// The limits of v_div_scale by type: mantissa bits, exponent bits, the scale, and the exponent
/// difference from which a quotient may overflow.
typedef struct Scaling {
    int mantissa, exponents, scale, far;
    f64 least;
} Scaling;
static const Scaling scaling32 = {23, 255, 64, 96, 0x1p-126};
static const Scaling scaling64 = {52, 2047, 128, 768, 0x1p-1022};

/// Returns the exponent by which `a` is scaled for C / B. *scaled: whether v_div_fmas undoes it.
static int division_scale(const Scaling *s, f64 a, f64 b, f64 c, int eb, int ec, bool *scaled) {
    bool tiny_inverse = s == &scaling64 ? eb >= 2045 : fabs(1 / b) < s->least && !isinf(b);
    bool tiny_quotient = fabs(c / b) < s->least || (s == &scaling64 && ec - eb < -1022);
    bool far = ec - eb >= s->far, is_b = a == b, is_c = a == c;
    *scaled = false;
    if (!far && eb == 0) return s->scale;
    *scaled = far || tiny_quotient;
    if (far) return is_b ? s->scale : 0;
    if (tiny_inverse && tiny_quotient) return is_b ? -s->scale : 0;
    if (tiny_inverse) return -s->scale;
    if (tiny_quotient) return is_c ? s->scale : 0;
    return ec <= s->mantissa ? s->scale : 0;
}

/// v_div_scale d, scaled, a, b, c
static void run_div_scale(Wave *w, const Inst *i) {
    Type type = (Type)i->variant;
    const Scaling *s = type == T_f64 ? &scaling64 : &scaling32;
    Values x[3];
    u64 mask = exec_mask(w), scales = 0;
    for (int k = 0; k < 3; k++) gather(w, i, 2, k, type, &x[k]);
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(mask, l)) continue;
        f64 v[3];
        int e[3];
        bool scaled = false;
        for (int k = 0; k < 3; k++) {
            v[k] = type == T_f64 ? f64_of(x[k].of[l]) : (f64)f32_of(x[k].of[l]);
            e[k] = (int)(x[k].of[l] >> s->mantissa) & s->exponents;
        }
        f64 d = NAN;
        if (v[1] != 0 && v[2] != 0)
            d = ldexp(v[0], division_scale(s, v[0], v[1], v[2], e[1], e[2], &scaled));
        scales |= (u64)scaled << l;
        x[0].of[l] = type == T_f64 ? f64_bits(d) : f32_bits((f32)d);
    }
    scatter(w, i, &i->o[0], type, &x[0], mask);
    write_mask(w, &i->o[1], scales);
}

/* ---- lanes ---------------------------------------------------------------------------------- */

static int lane_operand(const Wave *w, const Inst *i, const Operand *o) {
    return (int)(read_operand(w, i, o, T_u32, 0) & (u64)(w->lanes - 1));
}

static void run_readlane(Wave *w, const Inst *i) {
    int l = lane_operand(w, i, &i->o[2]);
    check_operand(w, i, &i->o[1], 1);
    write_scalar(w, &i->o[0], 32, read_operand(w, i, &i->o[1], T_u32, l));
}

static void run_readfirstlane(Wave *w, const Inst *i) {
    u64 mask = exec_mask(w);
    int l = mask ? __builtin_ctzll(mask) : 0;
    check_operand(w, i, &i->o[1], 1);
    write_scalar(w, &i->o[0], 32, read_operand(w, i, &i->o[1], T_u32, l));
}

static void run_writelane(Wave *w, const Inst *i) {
    w->v[i->o[0].reg][lane_operand(w, i, &i->o[2])] = (u32)read_operand(w, i, &i->o[1], T_u32, 0);
}

/// Within rows of 16 lanes, or with `variant` from the other row of a pair, 4 bits for each lane
/// name the lane that it reads.
static void run_permlane16(Wave *w, const Inst *i) {
    u64 select = (u32)read_operand(w, i, &i->o[2], T_u32, 0);
    select |= read_operand(w, i, &i->o[3], T_u32, 0) << 32;
    u32 old[LANES];
    check_operand(w, i, &i->o[1], 1);
    memcpy(old, w->v[i->o[1].reg], sizeof old);
    for (int l = 0; l < w->lanes; l++)
        if (is_on(exec_mask(w), l))
            w->v[i->o[0].reg][l] = old[((l & ~15) ^ i->variant) + (select >> 4 * (l & 15) & 15)];
}

static void run_swap(Wave *w, const Inst *i) {
    for (int k = 0; k < 2; k++) check_operand(w, i, &i->o[k], 1);
    for (int l = 0; l < w->lanes; l++) {
        u32 *a = &w->v[i->o[0].reg][l], *b = &w->v[i->o[1].reg][l], old = *a;
        if (!is_on(exec_mask(w), l)) continue;
        *a = *b;
        *b = old;
    }
}

/// v_movrels adds M0 to the source's number; with `variant`, v_movreld adds it to the result's.
static void run_movrel(Wave *w, const Inst *i) {
    Operand o[2] = {i->o[0], i->o[1]};
    Operand *moved = &o[!i->variant];
    if (moved->kind != VECTOR || w->s[M0] + moved->reg >= (u32)VECTORS)
        fail(w, i, AMDSIM_FAULT, "M0 is %u: no such register", w->s[M0]);
    moved->reg += w->s[M0];
    check_operand(w, i, &o[1], 1);
    for (int l = 0; l < w->lanes; l++)
        if (is_on(exec_mask(w), l)) w->v[o[0].reg][l] = (u32)read_operand(w, i, &o[1], T_u32, l);
}

/* ---- conversions and mixed products --------------------------------------------------------- */

static F8 f8_form(const Wave *w, const Inst *i) {
    return (F8){.e5 = i->variant, .fnuz = w->m->fnuz};
}

/// Converts two f32 to two f8 in a half of the result.
static void run_to_f8(Wave *w, const Inst *i) {
    F8 form = f8_form(w, i);
    for (int k = 1; k <= 2; k++) check_operand(w, i, &i->o[k], 1);
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(exec_mask(w), l)) continue;
        u32 x = 0, *at = &w->v[i->o[0].reg][l];
        for (int k = 0; k < 2; k++) {
            const Operand *o = &i->o[1 + k];
            u64 bits = modified(o, T_f32, read_operand(w, i, o, T_f32, l));
            x |= f8_bits(f32_of(bits), form) << 8 * k;
        }
        *at = i->op_sel >> 2 & 1 ? (*at & 0xffff) | x << 16 : (*at & 0xffff0000) | x;
    }
}

/// Converts two f8 in a half of the source to two f32.
static void run_from_f8(Wave *w, const Inst *i) {
    F8 form = f8_form(w, i);
    bool high = (i->sdwa && i->select[0] == 5) || (i->has_op_sel && i->op_sel & 1);
    check_operand(w, i, &i->o[1], 1);
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(exec_mask(w), l)) continue;
        u32 x = (u32)read_operand(w, i, &i->o[1], T_u32, l) >> (high ? 16 : 0);
        for (int k = 0; k < 2; k++)
            w->v[i->o[0].reg + k][l] = (u32)f32_bits(f8_of(x >> 8 * k, form));
    }
}

/// A source of v_fma_mix is an f32, or an f16 half if op_sel_hi is set; op_sel chooses the half.
/// Its neg_hi takes the absolute value.
static f32 mixed_source(const Wave *w, const Inst *i, int k, int lane) {
    const Operand *o = &i->o[1 + k];
    bool half = i->op_sel_hi >> k & 1;
    u64 bits = read_operand(w, i, o, half ? T_pk : T_f32, lane);
    f32 x = half ? (f32)f16_of(bits >> (i->op_sel >> k & 1 ? 16 : 0)) : f32_of(bits);
    if (o->abs || i->neg_hi >> k & 1) x = fabsf(x);
    return o->neg || i->neg_lo >> k & 1 ? -x : x;
}

enum { MIX_WHOLE, MIX_LOW, MIX_HIGH };

static void run_mix(Wave *w, const Inst *i) {
    for (int k = 1; k <= 3; k++) check_operand(w, i, &i->o[k], 1);
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(exec_mask(w), l)) continue;
        f32 x[3];
        for (int k = 0; k < 3; k++) x[k] = mixed_source(w, i, k, l);
        f32 d = fmaf(x[0], x[1], x[2]);
        if (i->clamp) d = isnan(d) || d < 0 ? 0 : fminf(d, 1);
        u32 *at = &w->v[i->o[0].reg][l], half = (u32)f16_bits(d);
        if (i->variant == MIX_WHOLE)
            *at = (u32)f32_bits(d);
        else
            *at = i->variant == MIX_LOW ? (*at & 0xffff0000) | half : (*at & 0xffff) | half << 16;
    }
}

/* ---- decoding ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    Run run;
    int variant;
} rows[] = {
    {"v_cndmask_b32", run_choose, 32},
    {"v_cndmask_b16", run_choose, 16},
    {"v_add_co_u32", run_carry, 0},
    {"v_addc_co_u32", run_carry, 0},
    {"v_sub_co_u32", run_carry, SUBTRACTS},
    {"v_subb_co_u32", run_carry, SUBTRACTS},
    {"v_subrev_co_u32", run_carry, SUBTRACTS | REVERSED},
    {"v_subbrev_co_u32", run_carry, SUBTRACTS | REVERSED},
    {"v_mad_u64_u32", run_mad64, false},
    {"v_mad_i64_i32", run_mad64, true},
    {"v_div_scale_f32", run_div_scale, T_f32},
    {"v_div_scale_f64", run_div_scale, T_f64},
    {"v_readlane_b32", run_readlane, 0},
    {"v_readfirstlane_b32", run_readfirstlane, 0},
    {"v_writelane_b32", run_writelane, 0},
    {"v_permlane16_b32", run_permlane16, 0},
    {"v_permlanex16_b32", run_permlane16, 16},
    {"v_swap_b32", run_swap, 0},
    {"v_movrels_b32", run_movrel, false},
    {"v_movreld_b32", run_movrel, true},
    {"v_cvt_pk_fp8_f32", run_to_f8, false},
    {"v_cvt_pk_bf8_f32", run_to_f8, true},
    {"v_cvt_pk_f32_fp8", run_from_f8, false},
    {"v_cvt_pk_f32_bf8", run_from_f8, true},
    {"v_fma_mix_f32", run_mix, MIX_WHOLE},
    {"v_fma_mixlo_f16", run_mix, MIX_LOW},
    {"v_fma_mixhi_f16", run_mix, MIX_HIGH},
    {"v_mad_mix_f32", run_mix, MIX_WHOLE},
    {"v_mad_mixlo_f16", run_mix, MIX_LOW},
    {"v_mad_mixhi_f16", run_mix, MIX_HIGH},
};

bool decode_special(Wave *w, Inst *i) {
    (void)w;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(i->name, rows[k].name) != 0) continue;
        i->run = rows[k].run;
        i->variant = rows[k].variant;
        // For these instructions op_sel_hi defaults to 0.
        if (i->run == run_mix && !strstr(i->text, "op_sel_hi")) i->op_sel_hi = 0;
        return true;
    }
    return false;
}
