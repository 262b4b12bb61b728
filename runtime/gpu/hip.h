// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime of AMD GPUs. Its functions have the parameters of their counterparts in the CUDA
// driver, so one table serves both (cuda.h). Functions without a counterpart are declared here.
#ifndef RUNTIME_GPU_HIP_H
#define RUNTIME_GPU_HIP_H

#include "runtime/gpu/cuda.h"

/* X(field of rt_cuda, symbol, needed). Clusters, tensor maps and attributes of functions that a
 * launch needs there have no counterpart, nor do contexts: a thread has a device. */
#define RT_HIP_ENTRIES(X)                                                                          \
    X(init, "hipInit", 1)                                                                          \
    X(version, "hipDriverGetVersion", 1)                                                           \
    X(error_name, "hipDrvGetErrorName", 0)                                                         \
    X(error_text, "hipDrvGetErrorString", 0)                                                       \
    X(device_count, "hipGetDeviceCount", 1)                                                        \
    X(device, "hipDeviceGet", 1)                                                                   \
    X(device_attribute, "hipDeviceGetAttribute", 1)                                                \
    X(device_properties, "hipGetDevicePropertiesR0600", 1)                                         \
    X(device_current, "hipGetDevice", 1)                                                           \
    X(device_set, "hipSetDevice", 1)                                                               \
    X(synchronize, "hipDeviceSynchronize", 1)                                                      \
    X(module_load, "hipModuleLoadDataEx", 1)                                                       \
    X(module_unload, "hipModuleUnload", 1)                                                         \
    X(module_function, "hipModuleGetFunction", 1)                                                  \
    X(function_get, "hipFuncGetAttribute", 1)                                                      \
    X(launch, "hipModuleLaunchKernel", 1)                                                          \
    X(stream_create, "hipStreamCreateWithFlags", 1)                                                \
    X(stream_destroy, "hipStreamDestroy", 1)                                                       \
    X(stream_synchronize, "hipStreamSynchronize", 1)                                               \
    X(stream_query, "hipStreamQuery", 0)                                                           \
    X(stream_id, "hipStreamGetId", 0)                                                              \
    X(stream_capture, "hipStreamGetCaptureInfo_v2", 0)                                             \
    X(capture_mode, "hipThreadExchangeStreamCaptureMode", 0)                                       \
    X(object_create, "hipUserObjectCreate", 0)                                                     \
    X(graph_retain, "hipGraphRetainUserObject", 0)                                                 \
    X(event_create, "hipEventCreateWithFlags", 1)                                                  \
    X(event_destroy, "hipEventDestroy", 1)                                                         \
    X(event_record, "hipEventRecord", 1)                                                           \
    X(event_synchronize, "hipEventSynchronize", 1)                                                 \
    X(event_elapsed, "hipEventElapsedTime", 1)                                                     \
    X(memory_info, "hipMemGetInfo", 1)                                                             \
    X(allocate, "hipMalloc", 1)                                                                    \
    X(release, "hipFree", 1)                                                                       \
    X(allocate_async, "hipMallocAsync", 0)                                                         \
    X(release_async, "hipFreeAsync", 0)                                                            \
    X(to_device, "hipMemcpyHtoDAsync", 1)                                                          \
    X(to_host, "hipMemcpyDtoHAsync", 1)                                                            \
    X(on_device, "hipMemcpyDtoDAsync", 1)                                                          \
    X(set_words, "hipMemsetD32Async", 1)                                                           \
    X(pin, "hipHostRegister", 0)                                                                   \
    X(unpin, "hipHostUnregister", 0)

/// The fields of hipGetDevicePropertiesR0600 (release 6 and later) in use.
typedef struct rt_hip_properties {
    char name[256];
    char numbers[1160 - 256];
    char arch[256]; // "gfx942:sramecc+:xnack-"
    char room[4096 - 1160 - 256];
} rt_hip_properties;

// The numbers of device attributes.
enum {
    HIP_CLOCK_RATE = 5,
    HIP_L2_BYTES = 19,
    HIP_MEMORY_BUS = 59,
    HIP_MEMORY_CLOCK = 60,
    HIP_PROCESSORS = 63,
    HIP_SHARED = 74
};

#endif
