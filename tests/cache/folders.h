// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folders for tests of the store, and entries with distinguishable contents.
#ifndef TESTS_CACHE_FOLDERS_H
#define TESTS_CACHE_FOLDERS_H

#include "cache/store.h"

/// Makes a new folder. Its name is valid until the next call.
const char *fresh_folder(void);
void remove_folder(const char *path);
/// Opens the store, or fails the test.
Store *open_store(const char *folder, int64_t limit);

/// Key number n.
StoreKey key_number(int n);
/// Puts value `version` of key n: `bytes` bytes that follow from both numbers.
StoreStatus put_number(Store *s, int n, int64_t version, size_t bytes);
/// Returns the version of key n in the store; 0: none; -1: a value that was never put; NUMBER_BUSY:
/// other processes held the store for seconds.
enum { NUMBER_BUSY = -2 };
int64_t get_number(Store *s, int n);

#endif
