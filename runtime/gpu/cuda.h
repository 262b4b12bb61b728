// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The driver of NVIDIA GPUs as we use it: our own declarations, resolved by dlopen (gpu_loader.c).
// No file of a CUDA toolkit is needed to build; tests/runtime/cuda_header_test.c compares the two.
// The runtime of AMD GPUs fills the same table (hip.h).
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

/// One attribute of a launch: 8 bytes, then a union of 64.
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

/// Where memory is made: on a device, so that other processes can map it.
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

/// A copy of rows.
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

// Numbers of the driver's enums that we pass or understand.
enum {
    CU_OUT_OF_MEMORY = 2,
    CU_ATTRIBUTE_CLUSTER = 4,     // of a launch
    CU_ATTRIBUTE_EARLY = 6,       //   it may begin while the kernel before it ends
    CU_EARLY_DRIVER = 12030,      //   the first version that captures this
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
    CU_ORDER_OF_WRITES = 118,     // by network adapters
    CU_MINOR = 76,                //
    CU_SHARED_OPTIN = 97,         //
    CU_JIT_ERROR_LOG = 5,         // options of cuModuleLoadDataEx
    CU_JIT_ERROR_LOG_BYTES = 6,   //
    CU_CAPTURE_NONE = 0,          // states of a stream
    CU_CAPTURE_RELAXED = 2,       // what a thread may do while it captures
    CU_NO_DESTRUCTOR_SYNC = 1,    // of a user object
    CU_MOVE = 1,                  // its reference
    CU_MAP_PROMOTION = 2,         // of a tensor map: 128 bytes
    CU_PINNED = 1,                // memory: its type
    CU_FILE_DESCRIPTOR = 1,       //   what others map it by
    CU_ON_DEVICE = 1,             //   the type of its place
    CU_READ_WRITE = 3,            //   who maps it may
    CU_DEVICE_MEMORY = 2,         // a side of a copy of rows
    CU_HOST_PORTABLE = 1,         // host memory of all contexts
    CU_HOST_MAPPED = 2,           //   which devices see
    CU_NON_BLOCKING = 1,          // a stream that the default one does not wait for
    CU_NO_TIMING = 2,             // an event
    CU_WAIT_AT_LEAST = 0,         // a stream's wait for a word
    CU_PORTABLE_CLUSTER = 8,      // most CTAs without CU_LARGE_CLUSTERS
    CU_DEFAULT_SHARED = 48 << 10, // most bytes without CU_MAX_SHARED
    CU_NOT_READY = 600            // what a stream was given is not done yet
};

/* X(field, symbol, needed, parameters): all return a cu_result. What warm launches call is first.
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

/// A mistake of the caller's, or of the machine, behind an error.
typedef struct rt_hint {
    cu_result error;
    tg_status status;
    const char *hint; // what to do, or NULL
} rt_hint;

/// Whose GPUs they are, in messages.
typedef struct rt_maker {
    const char *name;               // "NVIDIA"
    const char *library, *variable; // its name, and the variable that names a file instead
    const char *const *files;       // to be tried, in this order; NULL at the end
    const char *oldest;             // release that has all that is needed
    const char *visible;            // what may hide devices
    const rt_hint *hints;
    int n_hints;
    bool hip;
} rt_maker;

typedef struct rt_cuda {
    _Alignas(64) cu_result (*device_current)(int *); // of HIP, which has a device of each thread
#define X(field, symbol, needed, parameters) cu_result(*field) parameters;
    RT_CUDA_ENTRIES(X)
#undef X
    // Of HIP alone, too.
    cu_result (*device_properties)(void *, int);
    cu_result (*device_set)(int);
    const rt_maker *maker;
    int driver_version; // 13000
    int n_devices;
} rt_cuda;

extern const rt_maker rt_maker_cuda, rt_maker_hip;
/// Finds the functions in the library: the name of one that is needed and missing, or NULL.
const char *rt_cuda_entries(rt_cuda *cu, void *library);
const char *rt_hip_entries(rt_cuda *cu, void *library);
/// HIP's name of a function of CUDA's, "hipMalloc" of "cuMemAlloc".
const char *rt_hip_name(const char *call);

/// The driver with its devices counted, or NULL: tg_last_error() says what is missing. A process
/// uses the GPUs of one maker: those of TG_GPUS (cuda, hip), or NVIDIA's, or where there are none
/// AMD's.
const rt_cuda *rt_cuda_load(void);
extern const rt_cuda *_Atomic rt_cuda_loaded;
static inline const rt_cuda *rt_cuda_driver(void) {
    const rt_cuda *cu = atomic_load_explicit(&rt_cuda_loaded, memory_order_acquire);
    return cu ? cu : rt_cuda_load();
}
/// The status of a failed call, with its name, the driver's words for the error, what was being
/// done, and what to try.
tg_status rt_cuda_fail(const char *call, cu_result error, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));

#endif
