// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See pending_entries.h. An entry is one block of memory with its texts.
#include "driver/pending_entries.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct PendingEntry {
    PendingEntry *next;
    StoreEntry entry;
    char bytes[]; // value and about
};

static PendingEntry *copy_entry(const StoreEntry *e) {
    size_t about = strlen(e->about) + 1;
    PendingEntry *p = malloc(sizeof *p + e->bytes + about);
    if (!p) return NULL;
    *p = (PendingEntry){.entry = *e};
    if (e->bytes) memcpy(p->bytes, e->value, e->bytes);
    memcpy(p->bytes + e->bytes, e->about, about);
    p->entry.value = p->bytes;
    p->entry.about = p->bytes + e->bytes;
    if (!p->entry.made) p->entry.made = time(NULL);
    return p;
}

static bool has_key(const PendingEntry *p, StoreKey key) {
    return memcmp(p->entry.key.bytes, key.bytes, sizeof key.bytes) == 0;
}

static void drop_entry(PendingEntries *p, PendingEntry **at, PendingEntry *before) {
    PendingEntry *gone = *at;
    *at = gone->next;
    if (p->last == gone) p->last = before;
    p->bytes -= (int64_t)gone->entry.bytes;
    p->n--;
    free(gone);
}

void pending_drop(PendingEntries *p, StoreKey key) {
    PendingEntry *before = NULL;
    for (PendingEntry **at = &p->first; *at; before = *at, at = &(*at)->next) {
        if (!has_key(*at, key)) continue;
        drop_entry(p, at, before);
        return;
    }
}

static void keep_limit(PendingEntries *p) {
    int64_t limit = p->limit && p->limit < PENDING_MOST ? p->limit : PENDING_MOST;
    for (; p->bytes > limit; p->dropped++) pending_drop_oldest(p);
}

bool pending_add(PendingEntries *p, const StoreEntry *e) {
    PendingEntry *added = copy_entry(e);
    if (!added) return false;
    pending_drop(p, e->key);
    *(p->last ? &p->last->next : &p->first) = added;
    p->last = added;
    p->bytes += (int64_t)e->bytes;
    p->n++;
    keep_limit(p);
    return true;
}

const StoreEntry *pending_find(const PendingEntries *p, StoreKey key) {
    for (const PendingEntry *at = p->first; at; at = at->next)
        if (has_key(at, key)) return &at->entry;
    return NULL;
}

StoreEntry *pending_oldest(const PendingEntries *p) {
    return p->first ? &p->first->entry : NULL;
}

void pending_drop_oldest(PendingEntries *p) {
    drop_entry(p, &p->first, NULL);
}
