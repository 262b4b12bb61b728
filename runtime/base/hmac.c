// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See hmac.h.
#include "runtime/base/hmac.h"

#include <string.h>
#include <sys/random.h>

enum { BLOCK = 64, ROUNDS = 64, MOST_PIECES = 8 };

typedef struct Sha {
    uint32_t state[8];
    uint8_t block[BLOCK];
    uint64_t bytes;
} Sha;

static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static const uint32_t rounds[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static void spread_block(const uint8_t *block, uint32_t w[ROUNDS]) {
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < ROUNDS; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3) + w[i - 7] +
               (rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10);
    }
}

static void take_block(Sha *s) {
    uint32_t w[ROUNDS], v[8];
    spread_block(s->block, w);
    memcpy(v, s->state, sizeof v);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t x = v[7] + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                     ((e & v[5]) ^ (~e & v[6])) + rounds[i] + w[i];
        uint32_t y = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
                     ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += x;
        v[0] = x + y;
    }
    for (int i = 0; i < 8; i++) s->state[i] += v[i];
}

static void hash_more(Sha *s, const void *bytes, size_t n) {
    const uint8_t *from = bytes;
    for (size_t i = 0; i < n; i++) {
        s->block[s->bytes++ % BLOCK] = from[i];
        if (s->bytes % BLOCK == 0) take_block(s);
    }
}

static void end_hash(Sha *s, uint8_t out[RT_PROOF]) {
    static const uint8_t padding[BLOCK] = {0x80};
    uint64_t bits = 8 * s->bytes;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    hash_more(s, padding, 1 + (2 * BLOCK - 9 - s->bytes % BLOCK) % BLOCK);
    hash_more(s, length, sizeof length);
    for (int i = 0; i < RT_PROOF; i++) out[i] = (uint8_t)(s->state[i / 4] >> (24 - i % 4 * 8));
}

void rt_sha256(const rt_piece *pieces, int n, uint8_t out[RT_PROOF]) {
    Sha s = {.bytes = 0};
    memcpy(s.state, first, sizeof first);
    for (int i = 0; i < n; i++) hash_more(&s, pieces[i].bytes, pieces[i].n);
    end_hash(&s, out);
}

static void hash_with(const uint8_t key[BLOCK], uint8_t with, const rt_piece *pieces, int n,
                      uint8_t out[RT_PROOF]) {
    uint8_t pad[BLOCK];
    rt_piece all[MOST_PIECES + 1] = {{pad, BLOCK}};
    for (int i = 0; i < BLOCK; i++) pad[i] = key[i] ^ with;
    for (int i = 0; i < n; i++) all[i + 1] = pieces[i];
    rt_sha256(all, n + 1, out);
}

void rt_hmac(const char *key, const rt_piece *pieces, int n, uint8_t out[RT_PROOF]) {
    uint8_t block[BLOCK] = {0}, inner[RT_PROOF];
    size_t length = strlen(key);
    rt_piece whole = {key, length}, last = {inner, sizeof inner};
    if (length > BLOCK)
        rt_sha256(&whole, 1, block);
    else
        memcpy(block, key, length);
    hash_with(block, 0x36, pieces, n < MOST_PIECES ? n : MOST_PIECES, inner);
    hash_with(block, 0x5c, &last, 1, out);
}

bool rt_hmac_equal(const uint8_t *x, const uint8_t *y) {
    uint8_t other = 0;
    for (int i = 0; i < RT_PROOF; i++) other |= x[i] ^ y[i];
    return !other;
}

bool rt_nonce(uint8_t out[RT_NONCE]) {
    return getrandom(out, RT_NONCE, 0) == RT_NONCE;
}
