// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code on disk (code_cache.c).
#ifndef DRIVER_CODE_CACHE_H
#define DRIVER_CODE_CACHE_H

#include "cache/store.h"
#include "driver/jit.h"

/// Whether TG_CACHE=off.
bool cache_is_off(void);
/// Gets the limit for the bytes of all entries. False, with the reason: TG_CACHE_SIZE is not a
/// size.
bool cache_limit(int64_t *out, char why[STORE_WHY]);
/// Sends the warning that the cache is not used to a program's user. By default, and in libraries,
/// it goes to the log hook.
void code_cache_warn_by(void (*say)(const char *line));
/// Parses a size: "512M", "1.5G", "4096". False: not a size.
bool cache_read_size(const char *text, int64_t *out);
/// Adds all inputs of an answer but the compiler: texts and options, without names and places of
/// files. Imports need not be added, because all definitions of a program share one name space.
void cache_add_request(Text *t, const Request *r);
/// Reads the body of a stored message, which lives as long as ctx. False: none of that kind is
/// stored.
bool cache_get(Ctx *ctx, StoreKey key, StoreKind kind, WireKind message, Bytes *body);
/// Claims a key until cache_release. False: another process or thread has it. *claim is -1 if the
/// store supports no claims.
bool cache_claim(StoreKey key, int *claim);
void cache_release(int claim);
/// Stores an entry if a store is open.
void cache_put(const StoreEntry *entry);

#endif
