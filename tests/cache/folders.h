// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Folders for tests of the store, and entries with distinguishable contents.
#ifndef TESTS_CACHE_FOLDERS_H
#define TESTS_CACHE_FOLDERS_H

#include "cache/store.h"

/// A new folder, whose name is kept until the next call.
const char *fresh_folder(void);
void remove_folder(const char *path);
/// The store, or the test fails.
Store *open_store(const char *folder, int64_t limit);

/// Key number n.
StoreKey key_number(int n);
/// Puts value `version` of key n: bytes that follow from both, `bytes` of them.
StoreStatus put_number(Store *s, int n, int64_t version, size_t bytes);
/// The version of key n that the store has; 0: none; -1: what it has was never put; NUMBER_BUSY:
/// other processes had the store for seconds.
enum { NUMBER_BUSY = -2 };
int64_t get_number(Store *s, int n);

#endif
