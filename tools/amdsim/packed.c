// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Packed arithmetic: the rows of packed.def.
#include <math.h>

#include "tools/amdsim/bits.h"
#include "tools/amdsim/machine.h"

enum { UNSIGNED, SIGNED, FLOAT_HALVES, WORD, MOVE };
#define TYPE_UNSIGNED        i64
#define TYPE_SIGNED          i64
#define TYPE_FLOAT           f64
#define TYPE_WORD            f32
#define TYPE_MOVE            f32
#define READ_UNSIGNED(X)     ((u16)(X))
#define READ_SIGNED(X)       ((i16)(X))
#define READ_FLOAT(X)        f16_of(X)
#define READ_WORD(X)         f32_of(X)
#define READ_MOVE(X)         f32_of(X)
#define BITS_UNSIGNED(D)     ((u16)(D))
#define BITS_SIGNED(D)       ((u16)(D))
#define BITS_FLOAT(D)        f16_bits(D)
#define BITS_WORD(D)         f32_bits(D)
#define BITS_MOVE(D)         f32_bits(D)
#define KIND_UNSIGNED        UNSIGNED
#define KIND_SIGNED          SIGNED
#define KIND_FLOAT           FLOAT_HALVES
#define KIND_WORD            WORD
#define KIND_MOVE            MOVE
#define SATURATE(X, LOW, HI) (i->clamp ? clamped_to(X, LOW, HI) : (X))

/// Computes one half of a lane's result.
#define PACKED(NAME, TYPE, CODE)                                                                   \
    static u32 NAME(const Inst *i, const u32 *x, bool high) {                                      \
        TYPE_##TYPE A = READ_##TYPE(x[0]), B = READ_##TYPE(x[1]), C = READ_##TYPE(x[2]), D;        \
        (void)i, (void)B, (void)C, (void)high;                                                     \
        CODE;                                                                                      \
        return (u32)BITS_##TYPE(D);                                                                \
    }
#include "tools/amdsim/packed.def"

typedef struct PackedOp {
    const char *name;
    int kind;
    u32 (*compute)(const Inst *i, const u32 *x, bool high);
} PackedOp;
#define PACKED(NAME, TYPE, CODE) {#NAME, KIND_##TYPE, NAME},
static const PackedOp rows[] = {
#include "tools/amdsim/packed.def"
};

static bool has_words(const PackedOp *row) {
    return row->kind >= WORD;
}

/// Whether the upper half of source `k` contributes to the half `high` of the result.
static bool takes_upper(const Inst *i, int k, bool high) {
    const PackedOp *row = i->row;
    return (high && row->kind != MOVE ? i->op_sel_hi : i->op_sel) >> k & 1;
}

static u32 word_source(const Wave *w, const Inst *i, const Operand *o, bool upper, int lane) {
    if (o->kind == VECTOR) return w->v[o->reg + upper][lane];
    if (o->kind == SCALAR) return (u32)read_scalar(w, i, o->reg + upper, 32);
    return (u32)read_operand(w, i, o, T_f32, lane);
}

/// A float constant is the lower half; the upper half is 0.
static u32 half_source(const Wave *w, const Inst *i, const Operand *o, bool upper, int lane) {
    u32 x = (u32)read_operand(w, i, o, T_pk, lane);
    if (o->kind == FLOAT) return upper ? 0 : x & 0xffff;
    return upper ? x >> 16 : x & 0xffff;
}

static u32 compute_half(const Wave *w, const Inst *i, bool high, int lane) {
    const PackedOp *row = i->row;
    u32 x[3] = {0}, sign = has_words(row) ? 1u << 31 : 1u << 15;
    for (int k = 0; k < i->n - 1 && k < 3; k++) {
        bool upper = takes_upper(i, k, high);
        x[k] = (has_words(row) ? word_source : half_source)(w, i, &i->o[1 + k], upper, lane);
        if ((high ? i->neg_hi : i->neg_lo) >> k & 1) x[k] ^= sign;
    }
    u32 bits = row->compute(i, x, high);
    if (!i->clamp || row->kind != FLOAT_HALVES) return bits;
    f64 d = f16_of(bits);
    return (u32)f16_bits(isnan(d) || d < 0 ? 0 : fmin(d, 1));
}

static void run_packed(Wave *w, const Inst *i) {
    const PackedOp *row = i->row;
    u32 half[2][LANES] = {{0}};
    for (int k = 1; k < i->n; k++) check_operand(w, i, &i->o[k], 1 + has_words(row));
    for (int l = 0; l < w->lanes; l++)
        for (int high = 0; high < 2 && is_on(exec_mask(w), l); high++)
            half[high][l] = compute_half(w, i, high, l);
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(exec_mask(w), l)) continue;
        u32 low = half[0][l], high = half[1][l];
        w->v[i->o[0].reg][l] = has_words(row) ? low : low | high << 16;
        if (has_words(row)) w->v[i->o[0].reg + 1][l] = high;
    }
}

bool decode_packed(Wave *w, Inst *i) {
    (void)w;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(i->name, rows[k].name) != 0) continue;
        i->row = &rows[k];
        i->run = run_packed;
        return true;
    }
    return false;
}
