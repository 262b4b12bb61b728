// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The folder of a store: whose it is, what it lies on, and the generations of the database in it.
#ifndef CACHE_FOLDER_H
#define CACHE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOLDER_PATH = 4096 };

typedef struct Folder {
    char path[FOLDER_PATH - 64];
    bool remote; // on a network: no write-ahead log
} Folder;

/// Makes the folder where it is missing, private to the user. False with the reason, of at most 511
/// characters, where it cannot be, or where another user may write to it, to its files, or to a
/// folder above it.
bool folder_open(Folder *f, const char *path, char *why);
/// The path of a generation's database.
void folder_file(const Folder *f, int generation, char out[FOLDER_PATH]);
/// The greatest number of a database that there is; 1 where there is none. Makes its file (0600).
int folder_newest(const Folder *f);
/// Whether each byte of a generation that is there can be read now. No connection to it may be open
/// in this process: its locks would end.
bool folder_can_read(const Folder *f, int generation);
/// Removes a generation's files. Processes that have it open keep what they have.
void folder_discard(const Folder *f, int generation);
/// Waits for the folder's lock, not for ever: -1 where it is not to be had, as on some networks.
int folder_lock(const Folder *f);
void folder_unlock(int lock);
/// Claims a number, of 62 bits: whoever else does so is told until the claim is closed or its
/// process has ended. 0, EAGAIN where another one has it, or an errno where there are no claims.
int folder_claim(const Folder *f, uint64_t number, int *claim);
void folder_release(int claim);

#endif
