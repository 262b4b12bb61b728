// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// v_cmp_* and v_cmpx_*: comparisons that give a bit for each lane.
#include <math.h>
#include <stdio.h>

#include "tools/amdsim/bits.h"
#include "tools/amdsim/machine.h"

/// The relations that may hold between two values.
enum { LESS = 1, EQUAL = 2, MORE = 4, UNORDERED = 8, CLASS = 16 };

static const struct {
    const char *name;
    int holds;
} relations[] = {
    {"f", 0},
    {"lt", LESS},
    {"eq", EQUAL},
    {"le", LESS | EQUAL},
    {"gt", MORE},
    {"lg", LESS | MORE},
    {"ge", MORE | EQUAL},
    {"o", LESS | EQUAL | MORE},
    {"u", UNORDERED},
    {"nge", UNORDERED | LESS},
    {"nlg", UNORDERED | EQUAL},
    {"ngt", UNORDERED | LESS | EQUAL},
    {"nle", UNORDERED | MORE},
    {"neq", UNORDERED | LESS | MORE},
    {"nlt", UNORDERED | MORE | EQUAL},
    {"t", LESS | EQUAL | MORE | UNORDERED},
    {"tru", LESS | EQUAL | MORE | UNORDERED},
    {"ne", LESS | MORE},
    {"class", CLASS},
};

static bool is_float(Type type) {
    return type == T_f16 || type == T_f32 || type == T_f64;
}

static f64 float_value(Type type, u64 x) {
    return type == T_f64 ? f64_of(x) : type == T_f32 ? (f64)f32_of(x) : f16_of(x);
}

static i64 signed_value(Type type, u64 x) {
    return type == T_i64 ? (i64)x : type == T_i32 ? (i32)x : (i16)x;
}

static u64 unsigned_value(Type type, u64 x) {
    return type == T_u64 ? x : type == T_u32 ? (u32)x : (u16)x;
}

#define RELATION(A, B) ((A) < (B) ? LESS : (A) > (B) ? MORE : EQUAL)

static int relation_of(Type type, u64 a, u64 b) {
    if (is_float(type)) {
        f64 x = float_value(type, a), y = float_value(type, b);
        return isnan(x) || isnan(y) ? UNORDERED : RELATION(x, y);
    }
    if (type == T_i16 || type == T_i32 || type == T_i64)
        return RELATION(signed_value(type, a), signed_value(type, b));
    return RELATION(unsigned_value(type, a), unsigned_value(type, b));
}

/// The bit that v_cmp_class tests for this value: signalling NaN, quiet NaN, then from -inf to inf.
static int class_of(Type type, u64 x) {
    int mantissa = type == T_f64 ? 52 : type == T_f32 ? 23 : 10;
    u64 size = x & ((1ull << (type_bits(type) - 1)) - 1), least = 1ull << mantissa;
    u64 infinity = f64_bits(INFINITY);
    if (type != T_f64) infinity = type == T_f32 ? f32_bits(INFINITY) : 0x7c00;
    bool negative = x >> (type_bits(type) - 1) & 1;
    if (size > infinity) return size >> (mantissa - 1) & 1;
    int away = size == infinity ? 3 : size >= least ? 2 : size ? 1 : 0; // distance from zero
    return negative ? 5 - away : 6 + away;
}

static u64 compare_lanes(const Wave *w, const Inst *i, const Values *a, const Values *b, u64 mask) {
    u64 holds = 0;
    for (int l = 0; l < w->lanes; l++) {
        if (!is_on(mask, l)) continue;
        u64 is = i->compare.relation == CLASS
                     ? b->of[l] >> class_of(i->compare.type, a->of[l]) & 1
                     : !!(relation_of(i->compare.type, a->of[l], b->of[l]) & i->compare.relation);
        holds |= is << l;
    }
    return holds;
}

/// v_cmpx writes EXEC. On CDNA it has a result as well.
static void run_compare(Wave *w, const Inst *i) {
    Values a, b;
    int first = i->compare.first;
    Type second = i->compare.relation == CLASS ? T_u32 : i->compare.type;
    u64 mask = gather(w, i, first, 0, i->compare.type, &a);
    gather(w, i, first, 1, second, &b);
    u64 holds = compare_lanes(w, i, &a, &b, mask);
    if (i->compare.exec) write_exec(w, holds);
    if (first && !(i->compare.exec && w->m->rdna)) write_mask(w, &i->o[0], holds);
}

static Type type_of(const char *name) {
    static const char *const names[] = {"f16", "f32", "f64", "u16", "i16",
                                        "u32", "i32", "u64", "i64"};
    for (int k = 0; k < 9; k++)
        if (!strcmp(name, names[k])) return (Type)(T_f16 + k);
    return T_none;
}

bool decode_compare(Wave *w, Inst *i) {
    char name[8] = "", type[8] = "";
    if (!starts(i->name, "v_cmp")) return false;
    i->compare.exec = starts(i->name, "v_cmpx_");
    sscanf(i->name + (i->compare.exec ? 7 : 6), "%7[^_]_%7s", name, type);
    i->compare.type = type_of(type);
    i->compare.first = i->n >= 3;
    for (size_t k = 0; k < sizeof relations / sizeof *relations; k++) {
        if (strcmp(name, relations[k].name) != 0 || !i->compare.type) continue;
        i->compare.relation = relations[k].holds;
        i->run = run_compare;
        return true;
    }
    fail(w, i, AMDSIM_UNKNOWN, "this comparison is not emulated");
}
