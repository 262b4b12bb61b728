// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of the NVIDIA driver's interface that the runtime uses, with declarations of its own,
// resolved by dlopen (gpu_loader.c). Building needs no file of a CUDA toolkit;
// tests/runtime/cuda_header_test.c compares the declarations with the toolkit's. The runtime of AMD
// GPUs fills the same table (hip.h).
#ifndef RUNTIME_GPU_CUDA_H
#define RUNTIME_GPU_CUDA_H

#include "runtime/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct cu_context_ *cu_context;
typedef struct cu_module_ *cu_module;
typedef struct cu_function_ *cu_function;
typedef struct cu_stream_ *cu_stream;
typedef struct cu_event_ *cu_event;
typedef struct cu_graph_ *cu_graph;
typedef struct cu_object_ *cu_object;
typedef int cu_result, cu_device;
typedef struct cu_uuid {
    char bytes[16];
} cu_uuid;
typedef unsigned long long cu_pointer, cu_handle;

/// A launch attribute: 8 bytes, then a union of 64.
typedef struct cu_attribute {
    uint32_t id, pad;
    union {
        char room[64];
        uint32_t cluster[3];
        int early;
    } value;
} cu_attribute;

typedef struct cu_launch {
    uint32_t grid[3], block[3], shared_bytes;
    cu_stream stream;
    cu_attribute *attributes;
    uint32_t n_attributes;
} cu_launch;

/// The place of an allocation: on a device, and shareable with other processes.
typedef struct cu_place {
    int type, number;
} cu_place;
typedef struct cu_memory {
    int type, handles;
    cu_place place;
    void *windows;
    unsigned char flags[8];
} cu_memory;
typedef struct cu_access {
    cu_place place;
    int flags;
} cu_access;

/// One side of a copy of rows.
typedef struct cu_side {
    size_t x, y;
    int type;
    void *host;
    cu_pointer at;
    void *array;
    size_t pitch;
} cu_side;
typedef struct cu_rows {
    cu_side from, to;
    size_t bytes, rows;
} cu_rows;

// The numbers of the driver's enums in use.
enum {
    CU_OUT_OF_MEMORY = 2,
    CU_ATTRIBUTE_CLUSTER = 4,     // attributes of a launch
    CU_ATTRIBUTE_EARLY = 6,       //   it may begin before the preceding kernel ends
    CU_EARLY_DRIVER = 12030,      //   the first version that can capture this
    CU_MAX_SHARED = 8,            // attributes of a function
    CU_LARGE_CLUSTERS = 14,       //
    CU_REGISTERS = 4,             //
    CU_LOCAL_BYTES = 3,           //
    CU_CLOCK_RATE = 13,           // attributes of a device
    CU_PROCESSORS = 16,           //
    CU_MEMORY_CLOCK = 36,         //
    CU_MEMORY_BUS = 37,           //
    CU_L2_BYTES = 38,             //
    CU_MAJOR = 75,                //
    CU_ORDER_OF_WRITES = 118,     // the order of writes by network adapters
    CU_MINOR = 76,                //
    CU_SHARED_OPTIN = 97,         //
    CU_JIT_ERROR_LOG = 5,         // options of cuModuleLoadDataEx
    CU_JIT_ERROR_LOG_BYTES = 6,   //
    CU_CAPTURE_NONE = 0,          // states of a stream
    CU_CAPTURE_RELAXED = 2,       // what a thread may do while it captures
    CU_NO_DESTRUCTOR_SYNC = 1,    // an option of a user object
    CU_MOVE = 1,                  // passes on the reference
    CU_MAP_PROMOTION = 2,         // an option of a tensor map, which has 128 bytes
    CU_PINNED = 1,                // memory: its type
    CU_FILE_DESCRIPTOR = 1,       //   the handle by which others map it
    CU_ON_DEVICE = 1,             //   the type of its place
    CU_READ_WRITE = 3,            //   the access of its mappings
    CU_DEVICE_MEMORY = 2,         // a side of a copy of rows
    CU_HOST_PORTABLE = 1,         // host memory for all contexts
    CU_HOST_MAPPED = 2,           //   visible to devices
    CU_NON_BLOCKING = 1,          // a stream that does not synchronise with the default one
    CU_NO_TIMING = 2,             // an option of an event
    CU_WAIT_AT_LEAST = 0,         // a stream's wait for a word
    CU_PORTABLE_CLUSTER = 8,      // the largest cluster without CU_LARGE_CLUSTERS
    CU_DEFAULT_SHARED = 48 << 10, // the most shared memory without CU_MAX_SHARED
    CU_NOT_READY = 600            // the stream still has work
};

/* X(field, symbol, needed, parameters): all return a cu_result. Calls of warm launches come first.
 */
#define RT_CUDA_ENTRIES(X)                                                                         \
    X(current, "cuCtxGetCurrent", 1, (cu_context *))                                               \
    X(launch, "cuLaunchKernel", 1,                                                                 \
      (cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,          \
       cu_stream, void **, void **))                                                               \
    X(launch_ex, "cuLaunchKernelEx", 0, (const cu_launch *, cu_function, void **, void **))        \
    X(init, "cuInit", 1, (unsigned))                                                               \
    X(version, "cuDriverGetVersion", 1, (int *))                                                   \
    X(error_name, "cuGetErrorName", 1, (cu_result, const char **))                                 \
    X(error_text, "cuGetErrorString", 1, (cu_result, const char **))                               \
    X(device_count, "cuDeviceGetCount", 1, (int *))                                                \
    X(device, "cuDeviceGet", 1, (cu_device *, int))                                                \
    X(device_name, "cuDeviceGetName", 1, (char *, int, cu_device))                                 \
    X(device_attribute, "cuDeviceGetAttribute", 1, (int *, int, cu_device))                        \
    X(device_uuid, "cuDeviceGetUuid_v2", 0, (cu_uuid *, cu_device))                                \
    X(retain, "cuDevicePrimaryCtxRetain", 1, (cu_context *, cu_device))                            \
    X(push, "cuCtxPushCurrent_v2", 1, (cu_context))                                                \
    X(pop, "cuCtxPopCurrent_v2", 1, (cu_context *))                                                \
    X(synchronize, "cuCtxSynchronize", 1, (void))                                                  \
    X(module_load, "cuModuleLoadDataEx", 1, (cu_module *, const void *, unsigned, int *, void **)) \
    X(module_unload, "cuModuleUnload", 1, (cu_module))                                             \
    X(module_function, "cuModuleGetFunction", 1, (cu_function *, cu_module, const char *))         \
    X(function_set, "cuFuncSetAttribute", 1, (cu_function, int, int))                              \
    X(function_get, "cuFuncGetAttribute", 1, (int *, int, cu_function))                            \
    X(stream_create, "cuStreamCreate", 1, (cu_stream *, unsigned))                                 \
    X(stream_destroy, "cuStreamDestroy_v2", 1, (cu_stream))                                        \
    X(stream_synchronize, "cuStreamSynchronize", 1, (cu_stream))                                   \
    X(stream_query, "cuStreamQuery", 0, (cu_stream))                                               \
    X(stream_id, "cuStreamGetId", 0, (cu_stream, unsigned long long *))                            \
    X(stream_capture, "cuStreamGetCaptureInfo_v2", 0,                                              \
      (cu_stream, int *, unsigned long long *, cu_graph *, const void **, size_t *))               \
    X(stream_capture3, "cuStreamGetCaptureInfo_v3", 0,                                             \
      (cu_stream, int *, unsigned long long *, cu_graph *, const void **, const void **,           \
       size_t *))                                                                                  \
    X(capture_mode, "cuThreadExchangeStreamCaptureMode", 0, (int *))                               \
    X(object_create, "cuUserObjectCreate", 0,                                                      \
      (cu_object *, void *, void (*)(void *), unsigned, unsigned))                                 \
    X(graph_retain, "cuGraphRetainUserObject", 0, (cu_graph, cu_object, unsigned, unsigned))       \
    X(stream_priorities, "cuCtxGetStreamPriorityRange", 0, (int *, int *))                         \
    X(stream_create_first, "cuStreamCreateWithPriority", 0, (cu_stream *, unsigned, int))          \
    X(stream_wait, "cuStreamWaitEvent", 0, (cu_stream, cu_event, unsigned))                        \
    X(stream_wait_value, "cuStreamWaitValue64_v2", 0, (cu_stream, cu_pointer, uint64_t, unsigned)) \
    X(event_create, "cuEventCreate", 1, (cu_event *, unsigned))                                    \
    X(event_destroy, "cuEventDestroy_v2", 1, (cu_event))                                           \
    X(event_record, "cuEventRecord", 1, (cu_event, cu_stream))                                     \
    X(event_synchronize, "cuEventSynchronize", 1, (cu_event))                                      \
    X(event_elapsed, "cuEventElapsedTime", 1, (float *, cu_event, cu_event))                       \
    X(memory_info, "cuMemGetInfo_v2", 1, (size_t *, size_t *))                                     \
    X(allocate, "cuMemAlloc_v2", 1, (cu_pointer *, size_t))                                        \
    X(release, "cuMemFree_v2", 1, (cu_pointer))                                                    \
    X(allocate_async, "cuMemAllocAsync", 0, (cu_pointer *, size_t, cu_stream))                     \
    X(release_async, "cuMemFreeAsync", 0, (cu_pointer, cu_stream))                                 \
    X(to_device, "cuMemcpyHtoDAsync_v2", 1, (cu_pointer, const void *, size_t, cu_stream))         \
    X(to_host, "cuMemcpyDtoHAsync_v2", 1, (void *, cu_pointer, size_t, cu_stream))                 \
    X(on_device, "cuMemcpyDtoDAsync_v2", 1, (cu_pointer, cu_pointer, size_t, cu_stream))           \
    X(set_words, "cuMemsetD32Async", 1, (cu_pointer, unsigned, size_t, cu_stream))                 \
    X(pin, "cuMemHostRegister_v2", 0, (void *, size_t, unsigned))                                  \
    X(unpin, "cuMemHostUnregister", 0, (void *))                                                   \
    X(rows, "cuMemcpy2DAsync_v2", 0, (const cu_rows *, cu_stream))                                 \
    X(host_allocate, "cuMemHostAlloc", 0, (void **, size_t, unsigned))                             \
    X(host_release, "cuMemFreeHost", 0, (void *))                                                  \
    X(can_access, "cuDeviceCanAccessPeer", 0, (int *, cu_device, cu_device))                       \
    X(memory_grain, "cuMemGetAllocationGranularity", 0, (size_t *, const cu_memory *, int))        \
    X(memory_create, "cuMemCreate", 0,                                                             \
      (cu_handle *, size_t, const cu_memory *, unsigned long long))                                \
    X(memory_release, "cuMemRelease", 0, (cu_handle))                                              \
    X(memory_of, "cuMemRetainAllocationHandle", 0, (cu_handle *, void *))                          \
    X(memory_range, "cuMemGetAddressRange_v2", 0, (cu_pointer *, size_t *, cu_pointer))            \
    X(memory_export, "cuMemExportToShareableHandle", 0,                                            \
      (void *, cu_handle, int, unsigned long long))                                                \
    X(memory_import, "cuMemImportFromShareableHandle", 0, (cu_handle *, void *, int))              \
    X(reserve, "cuMemAddressReserve", 0,                                                           \
      (cu_pointer *, size_t, size_t, cu_pointer, unsigned long long))                              \
    X(unreserve, "cuMemAddressFree", 0, (cu_pointer, size_t))                                      \
    X(map, "cuMemMap", 0, (cu_pointer, size_t, size_t, cu_handle, unsigned long long))             \
    X(unmap, "cuMemUnmap", 0, (cu_pointer, size_t))                                                \
    X(set_access, "cuMemSetAccess", 0, (cu_pointer, size_t, const cu_access *, size_t))            \
    X(encode_tiled, "cuTensorMapEncodeTiled", 0,                                                   \
      (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,        \
       const uint32_t *, int, int, int, int))

/// A caller's mistake, or a state of the machine, that causes an error.
typedef struct rt_hint {
    cu_result error;
    tg_status status;
    const char *hint; // the remedy, or NULL
} rt_hint;

/// The vendor of the GPUs, as named in messages.
typedef struct rt_maker {
    const char *name;               // "NVIDIA"
    const char *library, *variable; // the library's name, and the variable that overrides it
    const char *const *files;       // the files to try, in order; NULL at the end
    const char *oldest;             // the oldest release with all functions
    const char *visible;            // the variable that may hide devices
    const rt_hint *hints;
    int n_hints;
    bool hip;
} rt_maker;

typedef struct rt_cuda {
    _Alignas(64) cu_result (*device_current)(int *); // HIP only: each thread has a current device
#define X(field, symbol, needed, parameters) cu_result(*field) parameters;
    RT_CUDA_ENTRIES(X)
#undef X
    // HIP only.
    cu_result (*device_properties)(void *, int);
    cu_result (*device_set)(int);
    const rt_maker *maker;
    int driver_version; // such as 13000
    int n_devices;
} rt_cuda;

extern const rt_maker rt_maker_cuda, rt_maker_hip;
/// Resolves the functions in the library. Returns the name of a missing required one, or NULL.
const char *rt_cuda_entries(rt_cuda *cu, void *library);
const char *rt_hip_entries(rt_cuda *cu, void *library);
/// HIP's name of a CUDA function, such as "hipMalloc" for "cuMemAlloc".
const char *rt_hip_name(const char *call);

/// Loads the driver and counts its devices. Returns NULL with a reason in tg_last_error(). A
/// process uses the GPUs of one vendor: the one in TG_GPUS (cuda, hip), else NVIDIA's, and without
/// NVIDIA GPUs AMD's.
const rt_cuda *rt_cuda_load(void);
extern const rt_cuda *_Atomic rt_cuda_loaded;
static inline const rt_cuda *rt_cuda_driver(void) {
    const rt_cuda *cu = atomic_load_explicit(&rt_cuda_loaded, memory_order_acquire);
    return cu ? cu : rt_cuda_load();
}
/// The status of a failed call. The message has the call, the driver's text, the operation, and a
/// remedy.
tg_status rt_cuda_fail(const char *call, cu_result error, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));

#endif
