// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The internals of Ctx, for the files of this folder only.
#ifndef LANG_CONTEXT_H
#define LANG_CONTEXT_H

#include "lang/base.h"

typedef struct Chunk Chunk;

typedef struct Deferred {
    void (*release)(void *thing);
    void *thing;
    struct Deferred *next;
} Deferred;

typedef struct InternedName {
    struct InternedName *next;
    uint64_t hash;
    size_t len;
    char text[];
} InternedName;

typedef struct Source {
    const char *path, *text;
    size_t len;
    const char *line; // the last line looked up, and its number
    uint32_t number;
} Source;

struct Landing {
    jmp_buf jump;
    struct Landing *outer;
};

struct Ctx {
    Allocator allocator;
    Chunk *chunks; // newest first
    size_t next_chunk;
    Deferred *deferred;
    struct Landing *landing; // the innermost ctx_protect
    InternedName **names;
    int n_names, name_cap;
    VEC(Source) sources;
    Diagnostic *first_diag, *last_diag;
    int n_errors;
    bool repeated; // the last message was a repetition: its notes and hints are dropped, too
    PtrMap said;   // interned text -> its last Diagnostic
    uint64_t steps;
    size_t bytes; // of all allocations
};

#endif
