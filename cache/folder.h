// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The folder of a store: checks its ownership and file system, and manages the generations of its
// database.
#ifndef CACHE_FOLDER_H
#define CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOLDER_PATH = 4096 };

typedef struct Folder {
    char path[FOLDER_PATH - 64];
    bool remote; // on a network file system: no write-ahead log
} Folder;

/// Makes the folder if it is missing, private to the user. False: it cannot be made, or another
/// user may write to it, to its files, or to a folder above it. `why` then has the reason, of at
/// most 511 characters.
bool folder_open(Folder *f, const char *path, char *why);
/// Writes the path of a generation's database.
void folder_file(const Folder *f, int generation, char out[FOLDER_PATH]);
/// Returns the highest number of an existing database. Without one, creates its file (0600) and
/// returns 1.
int folder_newest(const Folder *f);
/// Whether each byte of a generation can be read now. Missing files count as readable. This process
/// must have no connection to it open, because closing the file would end SQLite's locks.
bool folder_can_read(const Folder *f, int generation);
/// Removes a generation's files. Processes that have them open keep them.
void folder_discard(const Folder *f, int generation);
/// Waits for the folder's lock, at most `ms` milliseconds. -1: it is not available, as on some
/// networks.
int folder_lock(const Folder *f, int ms);
void folder_unlock(int lock);
/// Claims a number of 62 bits, until the claim is closed or its process ends. Returns 0; EAGAIN if
/// another claim of the number is open; or an errno if the folder supports no claims.
int folder_claim(const Folder *f, uint64_t number, int *claim);
void folder_release(int claim);

#endif
