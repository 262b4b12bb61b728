// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in for an OpenSHMEM library with one rank. FAKE_SHMEM is its fault: "refuses" (it does
// not start), "serial" (one thread alone may call it), "full" (it has no memory).
#include <stdlib.h>
#include <string.h>

static int is_fault(const char *name) {
    const char *set = getenv("FAKE_SHMEM");
    return set && strcmp(set, name) == 0;
}

int shmem_init_thread(int requested, int *provided);
int shmem_init_thread(int requested, int *provided) {
    *provided = is_fault("serial") ? 0 : requested;
    return is_fault("refuses") ? 7 : 0;
}

int shmem_my_pe(void);
int shmem_my_pe(void) {
    return 0;
}

int shmem_n_pes(void);
int shmem_n_pes(void) {
    return 1;
}

void *shmem_align(size_t alignment, size_t bytes);
void *shmem_align(size_t alignment, size_t bytes) {
    return is_fault("full") ? NULL : aligned_alloc(alignment, bytes);
}

// No fault comes to these calls.
#define UNUSED(name)                                                                               \
    void name(void);                                                                               \
    void name(void) {                                                                              \
        abort();                                                                                   \
    }
UNUSED(shmem_finalize)
UNUSED(shmem_free)
UNUSED(shmem_ptr)
UNUSED(shmem_barrier_all)
UNUSED(shmem_putmem)
UNUSED(shmem_getmem)
UNUSED(shmem_putmem_nbi)
UNUSED(shmem_getmem_nbi)
UNUSED(shmem_long_atomic_set)
UNUSED(shmem_long_atomic_add)
UNUSED(shmem_fence)
UNUSED(shmem_quiet)
