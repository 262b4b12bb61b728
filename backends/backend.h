// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiler offers to those who want machine code: targets, and code for them.
#ifndef BACKENDS_BACKEND_H
#define BACKENDS_BACKEND_H

#include <stddef.h>

#include "ir/ir.h"
#include "runtime/abi.h"

/// What a level of a target can do; what passes need to know of it.
typedef struct TargetInfo {
    const char *cpu, *features; // LLVM's names
    int vector_bytes, vector_registers;
    int64_t l1_bytes, l2_bytes; // of one core
} TargetInfo;

enum CodeTexts { TEXT_LLVM = 1, TEXT_ASM = 2, TEXT_OBJECT = 4 };

typedef struct CodeOptions {
    const char *level; // "host" (NULL), "x86-64-v3", "x86-64-v4": see target_info
    bool check;        // --check
    bool debug;        // debug information
    int texts;         // CodeTexts to keep
    const char *name;  // of the function in an object file; NULL: that of the kernel
} CodeOptions;

/// Machine code of one kernel. Not in the arena: it outlives the context that made it.
typedef struct Code {
    tg_entry *entry; // NULL where only texts were asked for
    char *llvm, *assembly;
    void *object;
    size_t object_bytes;
    void *jit; // owns the memory of entry
} Code;

typedef struct Backend {
    const char *name;
    /// Fills in what a level can do; false where there is no such level.
    bool (*info)(const char *level, TargetInfo *out);
    /// True where the target computes an elementwise op itself; the others go to expand-math.
    bool (*has_op)(OpCode code, Elem elem);
    /// Machine code of the only kernel of a grid-level module; NULL with diagnostics. `load`: link
    /// it into this process.
    Code *(*compile)(Ir *ir, Op *module, const CodeOptions *options, bool load);
} Backend;

extern const Backend cpu_backend;
extern const Backend *const backends[]; // NULL-terminated

void code_release(Code *code);

#endif
