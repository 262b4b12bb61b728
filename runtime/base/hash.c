// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hashes, for tables and for telling things apart; not for secrets.
#include "runtime/base/base.h"

#include <string.h>

uint64_t rt_hash_bytes(uint64_t hash, const void *data, size_t n) {
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
    return (hash ^ n) * 0x9e3779b97f4a7c15u;
}

uint64_t rt_hash_text(uint64_t hash, const char *text) {
    return rt_hash_bytes(hash, text ? text : "", text ? strlen(text) : 0);
}
