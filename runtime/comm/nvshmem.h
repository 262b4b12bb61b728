// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVSHMEM's host library, as far as the runtime uses it. These are our own declarations for version
// 3 (include/host/nvshmemx_api.h of its package).
#ifndef RUNTIME_COMM_NVSHMEM_H
#define RUNTIME_COMM_NVSHMEM_H

#include "runtime/gpu/cuda.h"

#include <stddef.h>

typedef struct nv_identity {
    int version;
    char internal[124];
} nv_identity;
typedef struct nv_place { // a rank among all ranks
    int version;
    nv_identity *id;
    int rank, ranks;
} nv_place;
typedef struct nv_attributes {
    int version;
    void *mpi;
    struct {
        int version;
        nv_place place;
        char room[96];
    } args;
} nv_attributes;
_Static_assert(sizeof(nv_identity) == 128 && sizeof(nv_place) == 24 && sizeof(nv_attributes) == 144,
               "");
enum { NV_VERSION_1 = 1 << 16, NV_WITH_IDENTITY = 1 << 3 };

/* Calls on a stream end the process if the stream does not take them. Another rank's memory is
 * addressed by the same place in own memory. The local side must be memory of the library, too. */
/* NV_ENTRIES(X): X(field, symbol, result, parameters) */
#define NV_ENTRIES(X)                                                                              \
    X(identify, nvshmemx_get_uniqueid, int, (nv_identity *))                                       \
    X(set_place, nvshmemx_set_attr_uniqueid_args, int,                                             \
      (int, int, const nv_identity *, nv_attributes *))                                            \
    X(start, nvshmemx_hostlib_init_attr, int, (unsigned, nv_attributes *))                         \
    X(end, nvshmemx_hostlib_finalize, void, (void))                                                \
    X(allocate, nvshmem_malloc, void *, (size_t))                                                  \
    X(release, nvshmem_free, void, (void *))                                                       \
    X(rank, nvshmem_my_pe, int, (void))                                                            \
    X(mapped, nvshmem_ptr, void *, (const void *, int))                                            \
    X(put, nvshmemx_putmem_on_stream, void, (void *, const void *, size_t, int, cu_stream))        \
    X(get, nvshmemx_getmem_on_stream, void, (void *, const void *, size_t, int, cu_stream))        \
    X(quiet, nvshmemx_quiet_on_stream, void, (cu_stream))

#endif
