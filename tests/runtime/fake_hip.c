// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A stand-in runtime of AMD GPUs: fake_cuda.c under HIP's names, with HIP's own functions.
// FAKE_HIP_DEVICES="gfx942,gfx1100" in the environment gives the architectures of the devices. Code
// objects run in the library of tools/amdsim, with its checks, if AMDSIM names it; otherwise they
// do nothing.
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

#include "runtime/gpu/hip.h"

#include <dlfcn.h>
#include <stdbool.h>

#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/hsaco.h"
#include "tools/amdsim/amdsim.h"

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

static AmdsimResult simulated; // of the last launch

enum { LAUNCH_FAILURE = 719 };

cu_result hipDrvGetErrorName(cu_result error, const char **name) {
    *name = error == 2                 ? "hipErrorOutOfMemory"
            : error == ILLEGAL_ADDRESS ? "hipErrorIllegalAddress"
            : error == LAUNCH_FAILURE  ? "hipErrorLaunchFailure"
                                       : "hipErrorOther";
    return 0;
}

cu_result hipDrvGetErrorString(cu_result error, const char **text) {
    bool launch = error == ILLEGAL_ADDRESS || error == LAUNCH_FAILURE;
    *text = error == 2 ? "out of memory" : launch ? simulated.message : "other error";
    return 0;
}

/// A thread uses device 0 until it selects another.
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
    unsigned char *at, *kept; // kept: contents before a launch
    size_t bytes;
} memory[MEMORY];
static pthread_mutex_t simulating = PTHREAD_MUTEX_INITIALIZER;

static size_t whole_words(size_t bytes) {
    return (bytes + WORD - 1) / WORD * WORD;
}

/// Records an allocation, or with no bytes a release. The rest of its last word is allocated, too.
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

static AmdsimStatus (*simulator)(const AmdsimLaunch *launch, AmdsimResult *result);

static void say_missing(void) {
    simulated.status = AMDSIM_FAULT;
    snprintf(simulated.message, sizeof simulated.message, "AMDSIM: %s", dlerror());
}

/// Loads the simulator. False: none is requested. A missing one fails the launch.
static bool find_simulator(void) {
    const char *path = getenv("AMDSIM");
    if (!path || !*path) return false;
    if (simulator) return true;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library) *(void **)&simulator = dlsym(library, "amdsim_launch");
    if (!simulator) say_missing();
    return true;
}

/// Scalar loads of arguments may read beyond them, up to the next 64 bytes.
typedef struct Args {
    _Alignas(64) unsigned char bytes[HSACO_ARG_BYTES];
    size_t n;
} Args;

/// Simulates with memory of the requested size, or up to the end of its last word.
static bool simulate(cu_function f, const FakeLaunch *launch, const Args *args, bool words) {
    const void *code = f->module->code;
    const char *seed = getenv("TG_SIM_SEED");
    AmdsimBuffer buffers[MEMORY];
    AmdsimLaunch l = {.code = code,
                      .code_bytes = hsaco_bytes(code),
                      .kernel = f->name,
                      .grid = {launch->grid, 1, 1},
                      .block = {launch->block, 1, 1},
                      .args = args->bytes,
                      .arg_bytes = args->n,
                      .shared_bytes = launch->shared_bytes,
                      .buffers = buffers,
                      .seed = seed ? strtoull(seed, NULL, 10) : 1};
    for (int i = 0; i < MEMORY; i++) {
        size_t n = memory[i].bytes;
        if (!memory[i].at) continue;
        buffers[l.n_buffers++] =
            (AmdsimBuffer){(uintptr_t)memory[i].at, words ? whole_words(n) : n, false};
    }
    return simulator(&l, &simulated) == AMDSIM_OK;
}

/// Atomics on parts of words access whole words. That is not out of bounds, although the rest of a
/// last word is not part of a tensor. Real errors are found in launches without such atomics, and
/// when this launch is repeated with only these words added. (The message may name a nearby
/// buffer.)
static bool is_partial_word(const AmdsimResult *r) {
    return r->status == AMDSIM_ACCESS && r->atomic && r->bytes == WORD;
}

/// False: there is too much memory to keep.
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

/// Whether the rest of each last word is unchanged.
static bool are_pads_whole(void) {
    for (int i = 0; i < MEMORY; i++)
        for (size_t k = memory[i].bytes; memory[i].at && k < whole_words(memory[i].bytes); k++)
            if (memory[i].at[k] != PAD) {
                simulated.status = AMDSIM_ACCESS;
                snprintf(simulated.message, sizeof simulated.message,
                         "byte %zu of a buffer of %zu bytes is changed", k, memory[i].bytes);
                return false;
            }
    return true;
}

static int simulate_launch(cu_function f, const FakeLaunch *launch, const HsacoKernel *k,
                           void **args) {
    Args a = {.n = (size_t)(k->arg_bytes + 63) / 64 * 64};
    if (!simulator) return LAUNCH_FAILURE;
    for (int i = 0; i < k->n_args; i++)
        memcpy(a.bytes + k->args[i].offset, args[i], (size_t)k->args[i].size);
    bool kept = keep_memory(), ok = simulate(f, launch, &a, false);
    bool again = !ok && kept && is_partial_word(&simulated);
    drop_kept(again);
    if (again) ok = simulate(f, launch, &a, true) && are_pads_whole();
    if (ok) return 0;
    return simulated.status == AMDSIM_ACCESS ? ILLEGAL_ADDRESS : LAUNCH_FAILURE;
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
