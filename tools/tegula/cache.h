// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of objects in the folder of the store, for `tegula cache` (cache_objects.c).
#ifndef TOOLS_TEGULA_CACHE_H
#define TOOLS_TEGULA_CACHE_H

#include "cache/store.h"
#include "lang/base.h"
#include "runtime/compiler.h"

typedef struct ObjectFile {
    const char *path;
    const char *key; // the hash in its name
    int64_t bytes, changed;
    bool half; // it is being written, or its writer ended before it was complete
} ObjectFile;

typedef void ObjectsFn(void *user, const ObjectFile *f);
/// Visits the files of a folder in no order; false: it cannot be read.
bool objects_each(Ctx *ctx, const char *folder, ObjectsFn *each, void *user);
/// Removes the files written before a time, or all. Returns their number.
int objects_prune(Ctx *ctx, const char *folder, int64_t before, bool all);
/// Reads all files and removes damaged ones. Adds up results. Returns the path of a file that
/// cannot be read or written, or NULL.
const char *objects_verify(Ctx *ctx, const char *folder, int *sound, int *damaged);

/// objects_pack adds the files as entries of the store, for an export. objects_unpack turns such
/// entries into files that do not exist yet, and removes the entries; `added` counts new files.
StoreStatus objects_pack(Ctx *ctx, const char *folder, Store *store);
StoreStatus objects_unpack(Ctx *ctx, const char *folder, Store *store, int *added);

/// Prints tuning results that differ in two exports (NULL: the store): `-` is only in the first,
/// `+` only in the second, `~` is in both with different settings. Returns the number of lines. On
/// failure `bad` is the file.
StoreStatus cache_diff(Ctx *ctx, Store *store, const char *const files[2], const char **bad,
                       int *differences);

#endif
