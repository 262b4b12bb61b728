// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the system calls of a launch, and measures its time. If the linker wraps these functions
// (COUNTS_CALLS), the runtime's calls come here. One file of a program includes this.
#ifndef TESTS_RUNTIME_COUNTED_H
#define TESTS_RUNTIME_COUNTED_H

#include <pthread.h>
#include <stddef.h>
#include <time.h>

static _Atomic long counted_calls;

#ifdef COUNTS_CALLS
#define COUNTED(type, name, parameters, arguments)                                                 \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        counted_calls++;                                                                           \
        return __real_##name arguments;                                                            \
    }
COUNTED(void *, malloc, (size_t n), (n))
COUNTED(void *, calloc, (size_t n, size_t size), (n, size))
COUNTED(void *, realloc, (void *old, size_t n), (old, n))
COUNTED(void *, aligned_alloc, (size_t alignment, size_t n), (alignment, n))
COUNTED(int, posix_memalign, (void **out, size_t alignment, size_t n), (out, alignment, n))
COUNTED(int, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
COUNTED(int, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
COUNTED(int, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
COUNTED(int, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
COUNTED(long, syscall, (long n, long a, long b, long c, long d, long e, long f),
        (n, a, b, c, d, e, f))
#endif

/// Returns nanoseconds of a monotonic clock.
static inline double counted_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#endif
