// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runtime of AMD GPUs that are not there: fake_cuda.c under HIP's names, with what HIP has of its
// own. FAKE_HIP_DEVICES="gfx942,gfx1100" in the environment gives the architectures of the devices.
// Code objects run where AMDSIM names a library that simulates them, with its checks; else they do
// nothing.
#define FAKE_HIP
#define FIRST_CALL                        "hipInit"
#define cuInit                            hipInit
#define cuDriverGetVersion                hipDriverGetVersion
#define cuDeviceGetCount                  hipGetDeviceCount
#define cuDeviceGet                       hipDeviceGet
#define cuCtxSynchronize                  hipDeviceSynchronize
#define cuModuleLoadDataEx                hipModuleLoadDataEx
#define cuModuleUnload                    hipModuleUnload
#define cuModuleGetFunction               hipModuleGetFunction
#define cuFuncGetAttribute                hipFuncGetAttribute
#define cuLaunchKernel                    hipModuleLaunchKernel
#define cuStreamCreate                    hipStreamCreateWithFlags
#define cuStreamDestroy_v2                hipStreamDestroy
#define cuStreamSynchronize               hipStreamSynchronize
#define cuStreamGetId                     hipStreamGetId
#define cuStreamGetCaptureInfo_v2         hipStreamGetCaptureInfo_v2
#define cuThreadExchangeStreamCaptureMode hipThreadExchangeStreamCaptureMode
#define cuUserObjectCreate                hipUserObjectCreate
#define cuGraphRetainUserObject           hipGraphRetainUserObject
#define cuEventCreate                     hipEventCreateWithFlags
#define cuEventDestroy_v2                 hipEventDestroy
#define cuEventRecord                     hipEventRecord
#define cuEventSynchronize                hipEventSynchronize
#define cuEventElapsedTime                hipEventElapsedTime
#define cuMemGetInfo_v2                   hipMemGetInfo
#define cuMemAlloc_v2                     hipMalloc
#define cuMemFree_v2                      hipFree
#define cuMemAllocAsync                   hipMallocAsync
#define cuMemFreeAsync                    hipFreeAsync
#define cuMemcpyHtoDAsync_v2              hipMemcpyHtoDAsync
#define cuMemcpyDtoHAsync_v2              hipMemcpyDtoHAsync
#define cuMemcpyDtoDAsync_v2              hipMemcpyDtoDAsync
#define cuMemsetD32Async                  hipMemsetD32Async
#define cuMemHostRegister_v2              hipHostRegister
#define cuMemHostUnregister               hipHostUnregister

#include "runtime/hip.h"

#include <dlfcn.h>
#include <stdbool.h>

#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/hsaco.h"

static int here(const char *call);
static int check_image(const void *image, int device, void **copy);
static int run_code(cu_function f, const FakeLaunch *launch, void **args);
static void note_memory(void *p, size_t bytes);
static bool has_kernel(cu_module module, const char *name);

#include "tests/runtime/fake_cuda.c"

/* ---- devices ------------------------------------------------------------------------------- */

cu_result hipDrvGetErrorName(cu_result error, const char **name);
cu_result hipDrvGetErrorString(cu_result error, const char **text);
cu_result hipDeviceGetAttribute(int *value, int attribute, cu_device device);
cu_result hipGetDevicePropertiesR0600(void *out, int device);
cu_result hipGetDevice(int *device);
cu_result hipSetDevice(int device);

static char simulated[512]; // what the simulator said of the last launch

cu_result hipDrvGetErrorName(cu_result error, const char **name) {
    *name = error == 2     ? "hipErrorOutOfMemory"
            : error == 719 ? "hipErrorLaunchFailure"
                           : "hipErrorOther";
    return 0;
}

cu_result hipDrvGetErrorString(cu_result error, const char **text) {
    *text = error == 2 ? "out of memory" : error == 719 ? simulated : "other error";
    return 0;
}

/// A thread has device 0 until it says otherwise.
static int here(const char *call) {
    (void)call;
    return depth ? stack[depth - 1]->device : 0;
}

cu_result hipGetDevice(int *device) {
    CALLED();
    *device = here(__func__);
    return 0;
}

cu_result hipSetDevice(int device) {
    CALLED();
    if (device < 0 || device >= n_devices) return 101;
    stack[0] = &contexts[device];
    depth = 1;
    return 0;
}

cu_result hipDeviceGetAttribute(int *value, int attribute, cu_device device) {
    CALLED();
    (void)device;
    *value = attribute == HIP_PROCESSORS ? 304
             : attribute == HIP_SHARED   ? 64 << 10
             : attribute == HIP_L2_BYTES ? 4 << 20
                                         : 1;
    if (attribute == CU_MAJOR || attribute == CU_MINOR)
        wrong("an attribute of CUDA's: %d", attribute);
    return 0;
}

cu_result hipGetDevicePropertiesR0600(void *out, int device) {
    CALLED();
    rt_hip_properties *p = out;
    if (device < 0 || device >= n_devices) return 101;
    snprintf(p->name, sizeof p->name, "Fake GPU %d", device);
    snprintf(p->arch, sizeof p->arch, "gfx%x:sramecc+:xnack-", (unsigned)capabilities[device]);
    return 0;
}

/* ---- code ---------------------------------------------------------------------------------- */

/// Code of another architecture is refused.
static int check_image(const void *image, int device, void **copy) {
    size_t n = hsaco_bytes(image);
    if (!n) return 200;
    if (hsaco_arch(image) != capabilities[device]) return 209;
    *copy = malloc(n);
    memcpy(*copy, image, n);
    return 0;
}

static bool has_kernel(cu_module module, const char *name) {
    HsacoKernel k;
    return hsaco_kernel(module->code, name, &k);
}

enum { MEMORY = 200 };
static struct {
    void *at;
    size_t bytes;
} memory[MEMORY];
static pthread_mutex_t simulating = PTHREAD_MUTEX_INITIALIZER;

/// Allocated, or with no bytes released.
static void note_memory(void *p, size_t bytes) {
    pthread_mutex_lock(&simulating);
    for (int i = 0; i < MEMORY; i++) {
        if (memory[i].at != (bytes ? NULL : p)) continue;
        memory[i].at = bytes ? p : NULL;
        memory[i].bytes = bytes;
        break;
    }
    pthread_mutex_unlock(&simulating);
}

static struct {
    int (*launch)(const void *code, uint64_t bytes, const char *kernel, const uint32_t *grid,
                  const uint32_t *block, const void *args, uint64_t arg_bytes, uint32_t shared,
                  int checked, uint64_t seed);
    void (*region)(uint64_t at, uint64_t bytes, int read_only);
    void (*clear)(void);
    const char *(*error)(void);
} simulator;

/// False where none is asked for; one that cannot be had is a failure of the launch.
static bool find_simulator(void) {
    const char *path = getenv("AMDSIM");
    if (!path || !*path) return false;
    if (simulator.launch) return true;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(simulated, sizeof simulated, "AMDSIM: %s", dlerror());
        return true;
    }
    *(void **)&simulator.region = dlsym(library, "amdsim_region");
    *(void **)&simulator.clear = dlsym(library, "amdsim_clear");
    *(void **)&simulator.error = dlsym(library, "amdsim_error");
    *(void **)&simulator.launch = dlsym(library, "amdsim_launch");
    return true;
}

/// The arguments as the metadata lay them out. Scalar loads may reach beyond them, up to the next
/// 64 bytes.
static int simulate(cu_function f, const FakeLaunch *launch, const HsacoKernel *k, void **args) {
    _Alignas(64) unsigned char bytes[HSACO_ARG_BYTES] = {0};
    uint32_t grid[3] = {launch->grid, 1, 1}, block[3] = {launch->block, 1, 1};
    const char *seed = getenv("TG_SIM_SEED");
    if (!simulator.launch) return 719;
    for (int i = 0; i < k->n_args; i++) memcpy(bytes + k->args[i].offset, args[i], k->args[i].size);
    simulator.clear();
    for (int i = 0; i < MEMORY; i++)
        if (memory[i].at) simulator.region((uintptr_t)memory[i].at, memory[i].bytes, 0);
    int failed = simulator.launch(f->module->code, hsaco_bytes(f->module->code), f->name, grid,
                                  block, bytes, (k->arg_bytes + 63) / 64 * 64, launch->shared_bytes,
                                  1, seed ? strtoull(seed, NULL, 10) : 1);
    if (failed) snprintf(simulated, sizeof simulated, "%s", simulator.error());
    return failed ? 719 : 0;
}

static int run_code(cu_function f, const FakeLaunch *launch, void **args) {
    HsacoKernel k;
    if (!hsaco_kernel(f->module->code, f->name, &k)) return 1;
    if (launch->block != (unsigned)k.threads) wrong("%s: %u threads", f->name, launch->block);
    if (launch->shared_bytes) wrong("%s: dynamic shared memory", f->name);
    pthread_mutex_lock(&simulating);
    int error = find_simulator() ? simulate(f, launch, &k, args) : 0;
    pthread_mutex_unlock(&simulating);
    return error;
}
