// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory: that of the C library, unless a program has hooks for it.
#include "runtime/base/base.h"

#include <stdlib.h>

static void *default_allocate(void *user, size_t bytes) {
    (void)user;
    if (bytes > SIZE_MAX - RT_ALIGNMENT) return NULL;
    size_t room = (bytes + RT_ALIGNMENT - 1) / RT_ALIGNMENT * RT_ALIGNMENT;
    return aligned_alloc(RT_ALIGNMENT, room ? room : RT_ALIGNMENT);
}

static void default_release(void *user, void *memory, size_t bytes) {
    (void)user;
    (void)bytes;
    free(memory);
}

tg_options rt_default_hooks(void) {
    return (tg_options){.allocate = default_allocate, .release = default_release};
}

void *rt_allocate(const tg_options *hooks, size_t bytes) {
    return hooks->allocate(hooks->user, bytes);
}

void rt_release(const tg_options *hooks, void *memory, size_t bytes) {
    if (memory) hooks->release(hooks->user, memory, bytes);
}
