// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares our declarations of the driver with those of an installed toolkit, if any: sizes,
// numbers, and the bytes of arguments of each function.
#include "runtime/gpu/cuda.h"

#include <cuda.h>
#include <stdlib.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CU_ATTRIBUTE_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(CU_ATTRIBUTE_EARLY, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(CU_MAX_SHARED, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(CU_LARGE_CLUSTERS, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(CU_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(CU_LOCAL_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(CU_CLOCK_RATE, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(CU_PROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CU_MEMORY_CLOCK, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
SAME(CU_MEMORY_BUS, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
SAME(CU_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(CU_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CU_ORDER_OF_WRITES, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
SAME(CU_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CU_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER);
SAME(CU_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(CU_NO_DESTRUCTOR_SYNC, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
SAME(CU_MOVE, CU_GRAPH_USER_OBJECT_MOVE);
SAME(CU_MAP_PROMOTION, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(CU_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(CU_FILE_DESCRIPTOR, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(CU_ON_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(CU_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(CU_DEVICE_MEMORY, CU_MEMORYTYPE_DEVICE);
SAME(CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(CU_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(CU_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(CU_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(CU_WAIT_AT_LEAST, CU_STREAM_WAIT_VALUE_GEQ);
SAME(CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(sizeof(cu_uuid), sizeof(CUuuid));
SAME(sizeof(cu_memory), sizeof(CUmemAllocationProp));
SAME(offsetof(cu_memory, place), offsetof(CUmemAllocationProp, location));
SAME(offsetof(cu_memory, flags), offsetof(CUmemAllocationProp, allocFlags));
SAME(sizeof(cu_access), sizeof(CUmemAccessDesc));
SAME(sizeof(cu_rows), sizeof(CUDA_MEMCPY2D));
SAME(offsetof(cu_rows, from.pitch), offsetof(CUDA_MEMCPY2D, srcPitch));
SAME(offsetof(cu_rows, to.at), offsetof(CUDA_MEMCPY2D, dstDevice));
SAME(offsetof(cu_rows, to.pitch), offsetof(CUDA_MEMCPY2D, dstPitch));
SAME(offsetof(cu_rows, rows), offsetof(CUDA_MEMCPY2D, Height));
SAME(TG_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(TG_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(TG_MAP_TF32_FTZ, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ);
SAME(sizeof(cu_launch), sizeof(CUlaunchConfig));
SAME(sizeof(cu_attribute), sizeof(CUlaunchAttribute));
SAME(offsetof(cu_launch, stream), offsetof(CUlaunchConfig, hStream));
SAME(offsetof(cu_launch, n_attributes), offsetof(CUlaunchConfig, numAttrs));
SAME(offsetof(cu_attribute, value), offsetof(CUlaunchAttribute, value));
SAME(offsetof(cu_attribute, value.early),
     offsetof(CUlaunchAttribute, value.programmaticStreamSerializationAllowed));
SAME(TG_TENSORMAP_BYTES, sizeof(CUtensorMap));

// Calls the toolkit's functions with arguments of our types. A different number of arguments, or a
// number for a pointer, does not compile. Pointers lose their type on the way.
static void *p;
static int i;
static size_t n;

int main(int argc, char **argv) {
    (void)argv;
    if (argc < 1000) return 0; // these calls must not run
    cuModuleLoadDataEx(p, p, 2, p, p);
    cuFuncSetAttribute(p, (CUfunction_attribute)i, i);
    cuLaunchKernel(p, 1, 1, 1, 1, 1, 1, 1, p, p, p);
    cuLaunchKernelEx(p, p, p, p);
    cuStreamGetId(p, p);
    cuStreamGetCaptureInfo_v3(p, p, p, p, p, p, p);
    cuThreadExchangeStreamCaptureMode(p);
    cuUserObjectCreate(p, p, free, 1, 1);
    cuGraphRetainUserObject(p, p, 1, 1);
    cuMemAllocAsync(p, n, p);
    cuMemFreeAsync(n, p);
    cuMemcpyHtoDAsync(n, p, n, p);
    cuMemcpyDtoHAsync(p, n, n, p);
    cuMemsetD32Async(n, 0, n, p);
    cuMemHostRegister(p, n, 0);
    cuMemHostUnregister(p);
    cuCtxGetStreamPriorityRange(p, p);
    cuStreamCreateWithPriority(p, 1, i);
    cuStreamWaitEvent(p, p, 0);
    cuStreamWaitValue64(p, n, 1, 0);
    cuMemcpy2DAsync(p, p);
    cuMemHostAlloc(p, n, 3);
    cuMemFreeHost(p);
    cuDeviceCanAccessPeer(p, i, i);
    cuDeviceGetUuid(p, i);
    cuMemGetAllocationGranularity(p, p, (CUmemAllocationGranularity_flags)i);
    cuMemCreate(p, n, p, 0);
    cuMemRelease(n);
    cuMemRetainAllocationHandle(p, p);
    cuMemGetAddressRange(p, p, n);
    cuMemExportToShareableHandle(p, n, (CUmemAllocationHandleType)i, 0);
    cuMemImportFromShareableHandle(p, p, (CUmemAllocationHandleType)i);
    cuMemAddressReserve(p, n, n, n, 0);
    cuMemAddressFree(n, n);
    cuMemMap(n, n, n, n, 0);
    cuMemUnmap(n, n);
    cuMemSetAccess(n, n, p, 1);
    return cuTensorMapEncodeTiled(p, (CUtensorMapDataType)i, 2, p, p, p, p, p,
                                  (CUtensorMapInterleave)i, (CUtensorMapSwizzle)i,
                                  (CUtensorMapL2promotion)i, (CUtensorMapFloatOOBfill)i);
}
