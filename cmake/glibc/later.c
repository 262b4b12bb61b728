// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What static libraries ask of a later glibc than the bundle is for.
#include <stdint.h>
#include <sys/random.h>

/// libstdc++'s random_device, which LLVM seeds hashes of temporary names from. glibc has it from
/// 2.36 on.
uint32_t arc4random(void);
uint32_t arc4random(void) {
    uint32_t x = 0;
    while (getrandom(&x, sizeof x, 0) != (ssize_t)sizeof x) continue;
    return x;
}
