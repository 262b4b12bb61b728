// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Proves the knowledge of a shared secret without revealing it: HMAC with SHA-256 (RFC 2104, FIPS
// 180-4).
#ifndef RUNTIME_BASE_HMAC_H
#define RUNTIME_BASE_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RT_PROOF = 32, RT_NONCE = 16 };

/// A part of a message. The parts are hashed in order.
typedef struct rt_piece {
    const void *bytes;
    size_t n;
} rt_piece;

void rt_sha256(const rt_piece *pieces, int n, uint8_t out[RT_PROOF]);
void rt_hmac(const char *key, const rt_piece *pieces, int n, uint8_t out[RT_PROOF]);
/// Compares in constant time.
bool rt_hmac_equal(const uint8_t *x, const uint8_t *y);
/// Fills in unpredictable bytes. Returns false if the system has none.
bool rt_nonce(uint8_t out[RT_NONCE]);

#endif
