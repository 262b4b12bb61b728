// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Short names of types, as the tables' rows use them, and floats as bits. These conversions are
// independent of the compiler's, which are under test. f16 and f8 are computed in f64, which holds
// sums and products of two f16 exactly, so that the result is rounded once.
#ifndef TOOLS_AMDSIM_FLOATS_H
#define TOOLS_AMDSIM_FLOATS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef float f32;
typedef double f64;

static inline u64 f32_bits(f32 x) {
    u32 u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline f32 f32_of(u64 bits) {
    u32 u = (u32)bits;
    f32 x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static inline u64 f64_bits(f64 x) {
    u64 u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline f64 f64_of(u64 bits) {
    f64 x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline f32 bf16_of(u32 bits) {
    return f32_of((u64)(bits & 0xffff) << 16);
}

/// Rounds to nearest, ties to even.
u64 f16_bits(f64 x);
f64 f16_of(u64 bits);
/// Rounds toward zero; infinity remains.
u32 f16_toward_zero(f32 x);

/// A format of f8: 4 or 5 exponent bits; AMD's own (no infinity, no -0) or OCP's.
typedef struct F8 {
    bool e5, fnuz;
} F8;
f32 f8_of(u32 bits, F8 form);
/// Rounds to nearest. An overflow gives the largest value.
u32 f8_bits(f32 x, F8 form);

/// Minimum and maximum. A number wins over a NaN, and -0 is less than 0.
f64 least(f64 a, f64 b);
f64 greatest(f64 a, f64 b);

#endif
