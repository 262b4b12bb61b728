// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A store on disk: values under keys of 16 bytes, in one SQLite database, for any number of
// processes at once. What is damaged is not there; nothing is ever found but what was put.
//
// Built on sqlite.org/wal.html and sqlite.org/howtocorrupt.html. No function exits or prints.
#ifndef CACHE_STORE_H
#define CACHE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Store Store;

typedef struct StoreKey {
    uint8_t bytes[16];
} StoreKey;

/// OBJECT: a file that objects keep beside the store, in exports.
typedef enum StoreKind { STORE_CODE = 1, STORE_TUNING = 2, STORE_OBJECT = 3 } StoreKind;

typedef struct StoreEntry {
    StoreKey key;
    StoreKind kind;
    const char *about;  // one line for people
    const void *value;  //
    size_t bytes;       // of the value
    int64_t made, used; // seconds since 1970; `used` is exact to an hour
} StoreEntry;

typedef enum StoreStatus {
    STORE_OK,
    STORE_ABSENT,  // no such entry, or a damaged one, which is then removed
    STORE_BUSY,    // another process held the file for too long: not done
    STORE_FULL,    // the disk, or the size that the process may write, is
    STORE_REFUSED, // the file system, or the database, does not allow it
    STORE_MEMORY,
} StoreStatus;

/// "the disk is full"
const char *store_status_text(StoreStatus status);

/// XXH3 with 128 bits.
StoreKey store_hash(const void *data, size_t n);

enum { STORE_WHY = 512 };
/// Opens or makes the store in a folder, which is made where it is missing (0700). It and its files
/// must belong to this user, and nobody else may write to them or to the folders above: machine
/// code is taken from there. NULL with the reason in `why`. `limit`: bytes of all entries, beyond
/// which the longest unused go; 0: no limit.
Store *store_open(const char *folder, int64_t limit, char why[STORE_WHY]);
void store_close(Store *s);
/// The database's path.
const char *store_path(const Store *s);

/// The value, from malloc.
StoreStatus store_get(Store *s, StoreKey key, StoreKind kind, void **value, size_t *bytes);
/// Adds an entry or replaces it. Once it returns STORE_OK, the entry survives the end of the
/// process, whatever that is.
StoreStatus store_put(Store *s, const StoreEntry *entry);
StoreStatus store_remove(Store *s, StoreKey key);

/// Claims a key, whether or not there is an entry: one claim of a key is open at a time, of all
/// processes and threads, until it is released or its process ends. STORE_BUSY: another one is.
/// STORE_REFUSED: there are no claims in this folder.
StoreStatus store_claim(const Store *s, StoreKey key, int *claim);
/// -1: none.
void store_release(int claim);

/// All sound entries, the last used first, values included where `values`. `visit` returns false to
/// stop. `damaged` counts the others, or is NULL.
StoreStatus store_each(Store *s, bool values, bool (*visit)(void *user, const StoreEntry *entry),
                       void *user, int *damaged);
typedef struct StoreSize {
    int entries;
    int64_t bytes; // of values
    int64_t file;  // of the database
} StoreSize;
StoreStatus store_size(Store *s, StoreSize *out);
/// Removes what was not used since `before` (seconds since 1970), then the longest unused until the
/// values take at most `limit` bytes (negative: no limit).
StoreStatus store_prune(Store *s, int64_t before, int64_t limit, int *removed);
/// Reads everything. Removes damaged entries and counts them.
StoreStatus store_verify(Store *s, int *sound, int *damaged);
/// Writes all sound entries to a new database, a file that other machines can import.
StoreStatus store_export(Store *s, const char *path);
/// All sound entries of such a file, which is only read. STORE_REFUSED: it is none.
StoreStatus store_each_in(const char *path, bool (*visit)(void *user, const StoreEntry *entry),
                          void *user, int *damaged);
/// Adds the sound entries of such a file, where they are not there. STORE_REFUSED: it is none.
StoreStatus store_import(Store *s, const char *path, int *added, int *damaged);
/// Gives the space of what was removed back to the file system.
StoreStatus store_compact(Store *s);

#endif
