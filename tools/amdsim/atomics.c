// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operations of atomics: the rows of atomics.def.
#include <math.h>

#include "tools/amdsim/machine.h"

static u64 greater_u(u64 a, u64 b) {
    return a > b ? a : b;
}
static u64 lesser_u(u64 a, u64 b) {
    return a < b ? a : b;
}

/// Adds both halves. bf16 is truncated, not rounded.
static u64 packed_sum(u64 a, u64 b, bool bf16) {
    u64 r = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        u32 x = (u32)(a >> shift), y = (u32)(b >> shift);
        u64 sum = bf16 ? f32_bits(bf16_of(x) + bf16_of(y)) >> 16 : f16_bits(f16_of(x) + f16_of(y));
        r |= sum << shift;
    }
    return r;
}

u64 do_atomic(Atomic op, void *at, int bytes, u64 DATA, u64 COMPARE) {
    u64 X = 0, R = 0;
    memcpy(&X, at, (size_t)bytes);
    if (bytes == 4) DATA = (u32)DATA;
    i64 SX = bytes == 4 ? (i32)X : (i64)X, SDATA = bytes == 4 ? (i32)DATA : (i64)DATA;
    switch (op) {
#define ATOMIC(NAME, NAMES, CODE)                                                                  \
    case A_##NAME:                                                                                 \
        CODE;                                                                                      \
        break;
#include "tools/amdsim/atomics.def"
    case A_none: break;
    }
    memcpy(at, &R, (size_t)bytes);
    return X;
}

/// Whether the name begins with an entry of the list.
static bool begins_in_list(const char *list, const char *name) {
    for (;;) {
        size_t n = strcspn(list, ",");
        if (!strncmp(name, list, n)) return true;
        if (!list[n]) return false;
        list += n + 1;
    }
}

Atomic find_atomic(const char *name) {
    static const struct {
        Atomic atomic;
        const char *names;
    } rows[] = {
#define ATOMIC(NAME, NAMES, CODE) {A_##NAME, NAMES},
#include "tools/amdsim/atomics.def"
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (begins_in_list(rows[k].names, name)) return rows[k].atomic;
    return A_none;
}
