// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runtime of AMD GPUs that are not there: fake_cuda.c under HIP's names, with what HIP has of its
// own. FAKE_HIP_DEVICES="gfx942,gfx1100" in the environment gives the architectures of the devices.
// Code objects run where AMDSIM names a library that simulates them, with its checks; else they do
// nothing.
#define FAKE_HIP
#define FIRST_CALL                        "hipInit"
#define MOST_THREADS                      UINT32_MAX // of a launch
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
#define cuStreamQuery                     hipStreamQuery
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
    static const struct {
        int attribute, value;
    } known[] = {{HIP_PROCESSORS, 304},     {HIP_SHARED, 64 << 10}, {HIP_L2_BYTES, 4 << 20},
                 {HIP_CLOCK_RATE, 2100000}, {HIP_MEMORY_BUS, 8192}, {HIP_MEMORY_CLOCK, 1300000}};
    CALLED();
    if (device < 100 || device - 100 >= n_devices) return 101;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute) {
            *value = known[i].value;
            return 0;
        }
    wrong("hipDeviceGetAttribute: %d", attribute);
    return 1;
}

cu_result hipGetDevicePropertiesR0600(void *out, int device) {
    CALLED();
    rt_hip_properties *p = out;
    if (device < 0 || device >= n_devices) return 101;
    snprintf(p->name, sizeof p->name, "Fake GPU %d", device);
    snprintf(p->arch, sizeof p->arch, "gfx%x:sramecc+:xnack-",
             (unsigned)devices[device].capability);
    return 0;
}

/* ---- code ---------------------------------------------------------------------------------- */

/// Code of another architecture is refused.
static int check_image(const void *image, int device, void **copy) {
    size_t n = hsaco_bytes(image);
    if (!n) return 200;
    if (hsaco_arch(image) != devices[device].capability) return 209;
    *copy = malloc(n);
    memcpy(*copy, image, n);
    return 0;
}

static bool has_kernel(cu_module module, const char *name) {
    HsacoKernel k;
    return hsaco_kernel(module->code, name, &k);
}

enum { MEMORY = 200, WORD = 4, PAD = 0xa5, KEPT = 64 << 20 };
static struct {
    unsigned char *at, *kept; // kept: what it held before a launch
    size_t bytes;
} memory[MEMORY];
static pthread_mutex_t simulating = PTHREAD_MUTEX_INITIALIZER;

static size_t whole_words(size_t bytes) {
    return (bytes + WORD - 1) / WORD * WORD;
}

/// Allocated, or with no bytes released. The rest of its last word is there, too.
static void note_memory(void *p, size_t bytes) {
    pthread_mutex_lock(&simulating);
    int i = 0;
    while (i < MEMORY && memory[i].at != (bytes ? NULL : p)) i++;
    if (i == MEMORY) {
        wrong(bytes ? "more pieces of memory than there is room for"
                    : "unknown memory is released");
    } else {
        memory[i].at = bytes ? p : NULL;
        memory[i].bytes = bytes;
        if (bytes) memset((char *)p + bytes, PAD, whole_words(bytes) - bytes);
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

/// A launch with its arguments as the metadata lay them out. Scalar loads may reach beyond those,
/// up to the next 64 bytes.
typedef struct Simulated {
    cu_function f;
    const FakeLaunch *launch;
    _Alignas(64) unsigned char args[HSACO_ARG_BYTES];
    size_t arg_bytes;
} Simulated;

/// With memory as long as it was asked for, or to the end of its last word.
static bool simulate(const Simulated *s, bool words) {
    const void *code = s->f->module->code;
    uint32_t grid[3] = {s->launch->grid, 1, 1}, block[3] = {s->launch->block, 1, 1};
    const char *seed = getenv("TG_SIM_SEED");
    simulator.clear();
    for (int i = 0; i < MEMORY; i++) {
        size_t n = memory[i].bytes;
        if (memory[i].at) simulator.region((uintptr_t)memory[i].at, words ? whole_words(n) : n, 0);
    }
    int failed =
        simulator.launch(code, hsaco_bytes(code), s->f->name, grid, block, s->args, s->arg_bytes,
                         s->launch->shared_bytes, 1, seed ? strtoull(seed, NULL, 10) : 1);
    if (failed) snprintf(simulated, sizeof simulated, "%s", simulator.error());
    return !failed;
}

/// Atomics on parts of words take the whole ones: that is no access out of bounds, though the rest
/// of a last word is no part of a tensor. What is, is found in all launches without such atomics,
/// and when this one is made again with no more than these words. (The buffer that the message
/// names is one nearby.)
static bool is_partial_word(const char *error) {
    bool atomic = strstr(error, "_atomic_") || strstr(error, " sc1") || strstr(error, " glc");
    return atomic && strstr(error, " of 4 bytes out of bounds, at ");
}

/// False: there is too much of it.
static bool keep_memory(void) {
    size_t all = 0;
    for (int i = 0; i < MEMORY; i++) all += memory[i].at ? memory[i].bytes : 0;
    for (int i = 0; i < MEMORY && all <= KEPT; i++) {
        if (!memory[i].at) continue;
        memory[i].kept = malloc(memory[i].bytes);
        memcpy(memory[i].kept, memory[i].at, memory[i].bytes);
    }
    return all <= KEPT;
}

static void drop_kept(bool restore) {
    for (int i = 0; i < MEMORY; i++) {
        if (memory[i].kept && restore) memcpy(memory[i].at, memory[i].kept, memory[i].bytes);
        free(memory[i].kept);
        memory[i].kept = NULL;
    }
}

/// Nothing was left in the rest of last words.
static bool are_pads_whole(void) {
    for (int i = 0; i < MEMORY; i++)
        for (size_t k = memory[i].bytes; memory[i].at && k < whole_words(memory[i].bytes); k++)
            if (memory[i].at[k] != PAD) {
                snprintf(simulated, sizeof simulated,
                         "byte %zu of a buffer of %zu bytes is changed", k, memory[i].bytes);
                return false;
            }
    return true;
}

static int simulate_launch(cu_function f, const FakeLaunch *launch, const HsacoKernel *k,
                           void **args) {
    Simulated s = {.f = f, .launch = launch, .arg_bytes = (size_t)(k->arg_bytes + 63) / 64 * 64};
    if (!simulator.launch) return 719;
    for (int i = 0; i < k->n_args; i++)
        memcpy(s.args + k->args[i].offset, args[i], (size_t)k->args[i].size);
    bool kept = keep_memory(), ok = simulate(&s, false);
    bool again = !ok && kept && is_partial_word(simulated);
    drop_kept(again);
    if (again) ok = simulate(&s, true) && are_pads_whole();
    return ok ? 0 : 719;
}

static int run_code(cu_function f, const FakeLaunch *launch, void **args) {
    HsacoKernel k;
    if (!hsaco_kernel(f->module->code, f->name, &k)) return 1;
    if (launch->block != (unsigned)k.threads) wrong("%s: %u threads", f->name, launch->block);
    if (launch->shared_bytes) wrong("%s: dynamic shared memory", f->name);
    for (int i = 0; i < k.n_args; i++)
        if (!args[i]) wrong("%s: argument %d is missing", f->name, i);
    pthread_mutex_lock(&simulating);
    int error = find_simulator() ? simulate_launch(f, launch, &k, args) : 0;
    pthread_mutex_unlock(&simulating);
    return error;
}
