// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An allocator that fails from a chosen allocation on, for tests of running out of memory.
#ifndef TESTS_UNIT_METER_H
#define TESTS_UNIT_METER_H

#include <stdlib.h>

/// Fails from allocation number `left` on, and counts live memory.
typedef struct Meter {
    long left, alive;
} Meter;

static inline void *metered(void *user, void *old, size_t size) {
    Meter *m = user;
    if (size == 0) {
        m->alive -= old != NULL;
        free(old);
        return NULL;
    }
    if (m->left-- <= 0) return NULL;
    m->alive += old == NULL;
    return realloc(old, size);
}

#endif
