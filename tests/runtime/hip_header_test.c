// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares our declarations of HIP with those of an installed ROCm of release 6 or later, if any:
// numbers, offsets of properties, and the arguments of each function.
#define __HIP_PLATFORM_AMD__ 1
#include "runtime/gpu/hip.h"

#include <hip/hip_runtime_api.h>
#include <stddef.h>
#include <stdlib.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(HIP_CLOCK_RATE, hipDeviceAttributeClockRate);
SAME(HIP_L2_BYTES, hipDeviceAttributeL2CacheSize);
SAME(HIP_MEMORY_BUS, hipDeviceAttributeMemoryBusWidth);
SAME(HIP_MEMORY_CLOCK, hipDeviceAttributeMemoryClockRate);
SAME(HIP_PROCESSORS, hipDeviceAttributeMultiprocessorCount);
SAME(HIP_SHARED, hipDeviceAttributeMaxSharedMemoryPerBlock);
// Numbers that are equal in CUDA and HIP.
SAME(CU_OUT_OF_MEMORY, hipErrorOutOfMemory);
SAME(CU_REGISTERS, HIP_FUNC_ATTRIBUTE_NUM_REGS);
SAME(CU_LOCAL_BYTES, HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(CU_CAPTURE_NONE, hipStreamCaptureStatusNone);
SAME(CU_CAPTURE_RELAXED, hipStreamCaptureModeRelaxed);
SAME(CU_NO_DESTRUCTOR_SYNC, hipUserObjectNoDestructorSync);
SAME(CU_MOVE, hipGraphUserObjectMove);
SAME(CU_NON_BLOCKING, hipStreamNonBlocking);
SAME(CU_NO_TIMING, hipEventDisableTiming);
// Numbers that have hints (hip.c).
SAME(3, hipErrorNotInitialized);
SAME(100, hipErrorNoDevice);
SAME(101, hipErrorInvalidDevice);
SAME(200, hipErrorInvalidImage);
SAME(209, hipErrorNoBinaryForGpu);
SAME(400, hipErrorInvalidHandle);
SAME(700, hipErrorIllegalAddress);
SAME(701, hipErrorLaunchOutOfResources);
SAME(719, hipErrorLaunchFailure);
SAME(900, hipErrorStreamCaptureUnsupported);
SAME(901, hipErrorStreamCaptureInvalidated);
SAME(906, hipErrorStreamCaptureImplicit);
SAME(offsetof(rt_hip_properties, name), offsetof(hipDeviceProp_tR0600, name));
SAME(offsetof(rt_hip_properties, arch), offsetof(hipDeviceProp_tR0600, gcnArchName));
_Static_assert(sizeof(rt_hip_properties) >= sizeof(hipDeviceProp_tR0600), "room for all of it");

// As in cuda_header_test.c: calls with arguments of our types.
static void *p;
static size_t n;

int main(int argc, char **argv) {
    (void)argv;
    if (argc < 1000) return 0; // these calls must not run
    int sum = hipInit(0) + hipDriverGetVersion(p) + hipGetDeviceCount(p) + hipDeviceGet(p, 0);
    sum += hipDrvGetErrorName((hipError_t)0, p) + hipDrvGetErrorString((hipError_t)0, p);
    sum += hipDeviceGetAttribute(p, (hipDeviceAttribute_t)0, 0) + hipGetDevice(p) + hipSetDevice(0);
    sum += hipGetDevicePropertiesR0600(p, 0) + hipDeviceSynchronize();
    sum += hipModuleLoadDataEx(p, p, 2, p, p) + hipModuleUnload(p) + hipModuleGetFunction(p, p, p);
    sum += hipFuncGetAttribute(p, (hipFunction_attribute)0, p);
    sum += hipModuleLaunchKernel(p, 1, 1, 1, 1, 1, 1, 0, p, p, p);
    sum += hipStreamCreateWithFlags(p, 1) + hipStreamDestroy(p) + hipStreamSynchronize(p);
    sum += hipStreamGetCaptureInfo_v2(p, p, p, p, p, p) + hipThreadExchangeStreamCaptureMode(p);
    sum += hipUserObjectCreate(p, p, free, 1, 1) + hipGraphRetainUserObject(p, p, 1, 1);
    sum += hipEventCreateWithFlags(p, 2) + hipEventDestroy(p) + hipEventRecord(p, p);
    sum += hipEventSynchronize(p) + hipEventElapsedTime(p, p, p);
    sum += hipMemGetInfo(p, p) + hipMalloc(p, n) + hipFree(p) + hipMallocAsync(p, n, p);
    sum += hipFreeAsync(p, p) + hipMemcpyHtoDAsync(p, p, n, p) + hipMemcpyDtoHAsync(p, p, n, p);
    sum += hipMemcpyDtoDAsync(p, p, n, p) + hipMemsetD32Async(p, 0, n, p);
    return sum + (int)hipHostRegister(p, n, 0) + (int)hipHostUnregister(p);
}
