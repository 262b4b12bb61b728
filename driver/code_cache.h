// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where code is kept on disk (code_cache.c).
#ifndef DRIVER_CODE_CACHE_H
#define DRIVER_CODE_CACHE_H

#include "cache/store.h"
#include "driver/jit.h"

/// TG_CACHE=off.
bool cache_is_off(void);
/// Bytes that the entries may take. False, with the reason, where TG_CACHE_SIZE says no size.
bool cache_limit(int64_t *out, char why[STORE_WHY]);
/// Where the warning goes that nothing is kept, and why: to a program's user. Else, and in every
/// library, it goes to the log hook.
void code_cache_warn_by(void (*say)(const char *line));
/// "512M", "1.5G", "4096"; false: it is none.
bool cache_read_size(const char *text, int64_t *out);
/// What decides an answer of a request but for the compiler: its texts and options, whatever the
/// files are called and wherever they lie. All definitions of a program are in one name space, so
/// it does not matter, either, which file imports which.
void cache_add_request(Text *t, const Request *r);
/// The body of a message that is kept, which goes with ctx. False: there is none of that kind.
bool cache_get(Ctx *ctx, StoreKey key, StoreKind kind, WireKind message, Bytes *body);
/// Claims a key, for cache_release. False: another process, or thread, has it. *claim is -1 where
/// there are no claims.
bool cache_claim(StoreKey key, int *claim);
void cache_release(int claim);
/// Keeps an entry, where there is a store.
void cache_put(const StoreEntry *entry);

#endif
