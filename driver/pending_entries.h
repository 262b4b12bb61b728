// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Entries that wait for a store which other processes hold. They are copies, the oldest first.
#ifndef DRIVER_PENDING_ENTRIES_H
#define DRIVER_PENDING_ENTRIES_H

#include "cache/store.h"

typedef struct PendingEntry PendingEntry;
typedef struct PendingEntries {
    PendingEntry *first, *last;
    int n;                // number of entries
    int dropped;          // number of entries that were dropped above the limit
    int64_t bytes, limit; // of all values; the limit is PENDING_MOST if this one is 0 or more
} PendingEntries;

enum { PENDING_MOST = 64 << 20 };

/// Adds a copy, in place of an entry with the same key. Above the limit, the oldest entries are
/// dropped, as a store does. False: out of memory.
bool pending_add(PendingEntries *p, const StoreEntry *e);
/// NULL: none has the key.
const StoreEntry *pending_find(const PendingEntries *p, StoreKey key);
/// NULL: there are none.
StoreEntry *pending_oldest(const PendingEntries *p);
void pending_drop_oldest(PendingEntries *p);
/// Drops the entry with the key, if there is one.
void pending_drop(PendingEntries *p, StoreKey key);

#endif
