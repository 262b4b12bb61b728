// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the kernels of an object that spill registers to memory, from their descriptors.
#include <llvm-c/Object.h>
#include <string.h>

#include "backends/amdgpu/amdgpu.h"

static void release_binary(void *thing) {
    LLVMDisposeBinary(thing);
}
static void release_buffer(void *thing) {
    LLVMDisposeMemoryBuffer(thing);
}

/// The descriptor of a symbol, for instance "softmax.kd", begins with the bytes of shared memory
/// and of scratch, 32 bits each.
static uint32_t scratch_bytes_at(LLVMSectionIteratorRef section, uint64_t address) {
    uint32_t bytes;
    memcpy(&bytes, LLVMGetSectionContents(section) + address + sizeof bytes, sizeof bytes);
    return bytes;
}

bool amd_has_scratch(Ctx *ctx, const AmdObject *object, const char *kernel) {
    char *error = NULL;
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRange(object->bytes, object->size, "kernels.o", false);
    ctx_defer(ctx, release_buffer, buffer);
    LLVMBinaryRef binary = LLVMCreateBinary(buffer, NULL, &error);
    if (!binary) ice(ctx, (Loc){0}, "LLVM's object cannot be read: %s", error);
    ctx_defer(ctx, release_binary, binary);
    const char *name = ctx_format(ctx, "%s.kd", kernel);
    LLVMSectionIteratorRef section = LLVMObjectFileCopySectionIterator(binary);
    LLVMSymbolIteratorRef symbol = LLVMObjectFileCopySymbolIterator(binary);
    bool found = false;
    for (; !LLVMObjectFileIsSymbolIteratorAtEnd(binary, symbol); LLVMMoveToNextSymbol(symbol)) {
        if (strcmp(LLVMGetSymbolName(symbol), name) != 0) continue;
        LLVMMoveToContainingSection(section, symbol);
        found = scratch_bytes_at(section, LLVMGetSymbolAddress(symbol)) > 0;
    }
    LLVMDisposeSymbolIterator(symbol);
    LLVMDisposeSectionIterator(section);
    return found;
}
