// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integer arithmetic for rows of several tables.
#ifndef TOOLS_AMDSIM_BITS_H
#define TOOLS_AMDSIM_BITS_H

#include "tools/amdsim/floats.h"

static inline i64 lesser(i64 a, i64 b) {
    return a < b ? a : b;
}
static inline i64 greater(i64 a, i64 b) {
    return a > b ? a : b;
}
static inline i64 clamped_to(i64 x, i64 low, i64 high) {
    return lesser(greater(x, low), high);
}
static inline u32 count_ones(u64 x) {
    return (u32)__builtin_popcountll(x);
}
static inline u64 reverse64(u64 x) {
    u64 r = 0;
    for (int i = 0; i < 64; i++) r |= (x >> i & 1) << (63 - i);
    return r;
}
static inline u32 reverse32(u32 x) {
    return (u32)(reverse64(x) >> 32);
}
/// These functions return -1 if no bit qualifies.
static inline u32 leading_zeros(u64 x, int bits) {
    return x ? (u32)(__builtin_clzll(x) - (64 - bits)) : ~0u;
}
static inline u32 trailing_zeros(u64 x) {
    return x ? (u32)__builtin_ctzll(x) : ~0u;
}
/// The number of leading bits that equal the first.
static inline u32 leading_signs(u32 x) {
    return leading_zeros(x ^ (u32)((i32)x >> 31), 32);
}
/// Returns `n` bits of `x`, from bit `at` on.
static inline u64 extract(u64 x, u32 at, u32 n) {
    return n >= 64 ? x >> at : x >> at & ((1ull << n) - 1);
}
/// The same, sign-extended; `bits`: the width of x.
static inline i64 extract_signed(u64 x, u32 at, u32 n, u32 bits) {
    if (!n) return 0;
    if (at + n > bits) n = bits - at;
    return (i64)(x << (64 - at - n)) >> (64 - n);
}
static inline u64 lanes_below(int lane) {
    return (1ull << lane) - 1;
}
static inline i64 signed24(u32 x) {
    return (i32)(x << 8) >> 8;
}
static inline u64 unsigned24(u32 x) {
    return x & 0xffffff;
}

#endif
