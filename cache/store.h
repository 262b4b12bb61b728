// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A store on disk: values under keys of 16 bytes, in one SQLite database, for any number of
// processes at once. Damaged entries count as absent; a read returns only bytes that were put.
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

/// OBJECT: results of objects, which have their own file beside the store; only in exports.
typedef enum StoreKind { STORE_CODE = 1, STORE_TUNING = 2, STORE_OBJECT = 3 } StoreKind;

typedef struct StoreEntry {
    StoreKey key;
    StoreKind kind;
    const char *about;  // one line for people
    const void *value;  // the bytes
    size_t bytes;       // number of bytes in value
    int64_t made, used; // seconds since 1970; `used` is accurate to an hour
} StoreEntry;

typedef enum StoreStatus {
    STORE_OK,
    STORE_ABSENT,  // no such entry, or a damaged one, which is removed
    STORE_BUSY,    // another process held the file for too long; nothing was done
    STORE_FULL,    // the disk is full, or the process's file size limit is reached
    STORE_REFUSED, // the file system or the database does not allow it
    STORE_MEMORY,
} StoreStatus;

/// Returns the status as text: "no space is left".
const char *store_status_text(StoreStatus status);

/// Hashes with XXH3, 128 bits.
StoreKey store_hash(const void *data, size_t n);

enum { STORE_WHY = 512 };
/// Opens the store in a folder, and creates both if they are missing (folder: 0700). The folder and
/// its files must belong to this user, and no other user may write to them or to the folders above,
/// because machine code is loaded from there. NULL: it failed; `why` has the reason. `limit`: bytes
/// of all entries; above it, the longest unused entries are removed; 0: no limit.
Store *store_open(const char *folder, int64_t limit, char why[STORE_WHY]);
enum { STORE_PATIENCE = 5000 }; // milliseconds
/// store_open that returns a status, and NULL in *out if it fails. STORE_BUSY: another process held
/// the store, and a later call may succeed. `patience`: for how many milliseconds each call of the
/// store, this one too, waits for another process; store_open takes STORE_PATIENCE.
StoreStatus store_connect(const char *folder, int64_t limit, int patience, Store **out,
                          char why[STORE_WHY]);
void store_close(Store *s);
/// Sets the patience of the later calls.
void store_patience(Store *s, int ms);
/// The database's path.
const char *store_path(const Store *s);

/// Reads a value. The caller frees it.
StoreStatus store_get(Store *s, StoreKey key, StoreKind kind, void **value, size_t *bytes);
/// Adds or replaces an entry. After STORE_OK, the entry survives any end of the process.
StoreStatus store_put(Store *s, const StoreEntry *entry);
/// Adds an entry that was made a while ago (entry->made). It replaces an older one, but none that
/// was made in the same second or later.
StoreStatus store_put_late(Store *s, const StoreEntry *entry);
StoreStatus store_remove(Store *s, StoreKey key);

/// Claims a key, with or without an entry, until it is released or the process ends. A key has one
/// open claim at a time, over all processes and threads. STORE_BUSY: another claim is open.
/// STORE_REFUSED: the folder supports no claims.
StoreStatus store_claim(const Store *s, StoreKey key, int *claim);
/// Releases a claim; -1: does nothing.
void store_release(int claim);

/// Visits all sound entries, the last used first, with their values if `values`. `visit` returns
/// false to stop. damaged: gets the number of damaged entries; or NULL.
StoreStatus store_each(Store *s, bool values, bool (*visit)(void *user, const StoreEntry *entry),
                       void *user, int *damaged);
typedef struct StoreSize {
    int entries;
    int64_t bytes; // of all values
    int64_t file;  // of the database file
} StoreSize;
StoreStatus store_size(Store *s, StoreSize *out);
/// Removes entries that were not used since `before` (seconds since 1970). Then removes the longest
/// unused ones until the values have at most `limit` bytes (negative: no limit).
StoreStatus store_prune(Store *s, int64_t before, int64_t limit, int *removed);
/// Reads all entries. Counts them, and removes the damaged ones.
StoreStatus store_verify(Store *s, int *sound, int *damaged);
/// Writes all sound entries to a new database file, which other machines can import.
StoreStatus store_export(Store *s, const char *path);
/// Visits all sound entries of such a file, which is opened for reading only. STORE_REFUSED: it is
/// not such a file.
StoreStatus store_each_in(const char *path, bool (*visit)(void *user, const StoreEntry *entry),
                          void *user, int *damaged);
/// Adds the sound entries of such a file that the store does not have. STORE_REFUSED: it is not
/// such a file.
StoreStatus store_import(Store *s, const char *path, int *added, int *damaged);
/// Returns the space of removed entries to the file system.
StoreStatus store_compact(Store *s);

#endif
