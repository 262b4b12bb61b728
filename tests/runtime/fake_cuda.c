// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See fake_cuda.h. FAKE_CUDA_DEVICES="90,80x40" in the environment gives the compute capabilities
// of the devices and their numbers of processors; with "none" the driver starts and finds no
// device. fake_hip.c makes the runtime of AMD GPUs from the same functions.
//
// fake_clock.h has the times of launches.
//
// FAKE_CUDA_WARM=N: a launch of N CTAs takes three times as long unless the caches were emptied
// before it.
//
// FAKE_CUDA_ILLEGAL=N: a launch of N CTAs makes an illegal access, and all later calls fail.
//
// FAKE_CUDA_PLAIN: no kernel may begin before its predecessor has ended.
//
// FAKE_CUDA_NO_ORDER: devices see network writes in any order.
//
// FAKE_STRICT: a mistake ends the process, for programs that never ask for mistakes.
#include "tests/runtime/fake_cuda.h"

#include "runtime/gpu/cuda.h"
#include "tests/runtime/fake_clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef FAKE_HIP
#define FIRST_CALL   "cuInit"
#define MOST_THREADS UINT64_MAX // of a launch
#endif

enum { DEVICES = 8, KERNELS = 32, ARGS = 64, DEPTH = 16, OBJECTS = 16, JOURNAL = 1 << 14 };
enum { NOT_PERMITTED = 900, ILLEGAL_ADDRESS = 700, PROCESSORS = 132 };
enum { CACHE_WORDS = 16 << 20 };

struct cu_context_ {
    int device;
};
struct cu_stream_ {
    int device, number;             // number: on its device, from 1; 0: the default stream
    unsigned long long id, capture; // capture 0: none
    struct cu_graph_ *graph;
    struct Op *waiting, **last; // operations after one that waits
    bool pressed;               // another operation waits for it, so nothing of it is delayed
    bool behind_kernel;         // whether its last operation is a kernel
    int forked; // joined to a capture of another stream: 1; with work that was not joined: 2
    struct cu_stream_ *next; // list of streams made by tests, which live on
    struct cu_stream_ *next_waiting;
};
typedef struct Kernel {
    char name[64];
    FakeKernel *run;
    int n;
    size_t sizes[ARGS];
} Kernel;
struct cu_module_ {
    int device;
    bool waits; // whether its text waits for the previous kernel; unknown for machine code
    void *code; // a copy of AMD's image
    struct cu_function_ *functions;
};
struct cu_function_ {
    struct cu_function_ *next;
    cu_module module;
    const Kernel *kernel; // NULL: it does nothing
    char name[64];
    int device, shared_bytes, large_clusters;
};
struct cu_event_ {
    double at;
    unsigned long long recorded, reached; // numbers of its records
    cu_stream by;
    struct cu_graph_ *graph; // graph of the capture that recorded it
    bool timed;
};
struct cu_object_ {
    void (*destroy)(void *);
    void *data;
};

static struct cu_context_ contexts[DEVICES];
static struct cu_stream_ default_streams[DEVICES];
static Kernel kernels[KERNELS];
static int n_kernels, n_devices, initialized;
static _Atomic int n_allocated, n_modules, capturing;
static _Atomic bool lost; // all calls fail
static _Thread_local int relaxed;
static Device devices[DEVICES];
static double device_clock; // in milliseconds
static double last_seconds; // of a launch
static bool emptied;        // caches were emptied since the last launch
static char mistake[256], last_map[512];
static const char *last_image;
static _Thread_local struct cu_context_ *stack[DEPTH];
static _Thread_local int depth;

/* ---- queries of tests ---------------------------------------------------------------------- */

static struct {
    char name[64];
    int calls, error;
} counts[128];

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

/// Under the lock.
static int entry_of(const char *name) {
    int i = 0;
    for (; counts[i].name[0]; i++)
        if (strcmp(counts[i].name, name) == 0) return i;
    snprintf(counts[i].name, sizeof counts[i].name, "%s", name);
    return i;
}

static void (*_Atomic watcher)(const char *call);

void fake_watch(void (*watch)(const char *call)) {
    watcher = watch;
}

static void tell(const char *call) {
    void (*watch)(const char *) = watcher;
    if (watch) watch(call);
}

static void wrong(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    if (!mistake[0]) vsnprintf(mistake, sizeof mistake, format, ap);
    va_end(ap);
    if (!getenv("FAKE_STRICT")) return;
    fprintf(stderr, "the stand-in of the driver: %s\n", mistake);
    _exit(70);
}

/// Counts the call. Returns the error that it has to return.
static int called(const char *name) {
    pthread_mutex_lock(&counting);
    int i = entry_of(name), error = counts[i].error;
    counts[i].calls++;
    counts[i].error = 0;
    pthread_mutex_unlock(&counting);
    tell(name);
    if (lost) error = ILLEGAL_ADDRESS;
    if (!initialized && strcmp(name, FIRST_CALL) != 0) wrong("%s before " FIRST_CALL, name);
    return error;
}
#define CALLED()                                                                                   \
    do {                                                                                           \
        int error_ = called(__func__);                                                             \
        if (error_) return error_;                                                                 \
    } while (0)

void fake_kernel(const char *name, FakeKernel *run, int n, const size_t *sizes) {
    Kernel *k = &kernels[n_kernels++];
    snprintf(k->name, sizeof k->name, "%s", name);
    k->run = run;
    k->n = n;
    memcpy(k->sizes, sizes, sizeof *sizes * (size_t)n);
}

void fake_fail(const char *call, int error) {
    pthread_mutex_lock(&counting);
    counts[entry_of(call)].error = error;
    pthread_mutex_unlock(&counting);
}

const char *fake_mistake(void) {
    static char last[sizeof mistake];
    memcpy(last, mistake, sizeof last);
    mistake[0] = 0;
    return last[0] ? last : NULL;
}

void fake_break(void) {
    lost = true;
}

int fake_calls(const char *call) {
    pthread_mutex_lock(&counting);
    int n = counts[entry_of(call)].calls;
    pthread_mutex_unlock(&counting);
    return n;
}

int fake_allocated(void) {
    return n_allocated;
}

int fake_modules(void) {
    return n_modules;
}

const char *fake_last_image(void) {
    return last_image;
}

double fake_seconds(void) {
    return last_seconds;
}

const char *fake_last_map(void) {
    return last_map;
}

/* ---- devices, contexts --------------------------------------------------------------------- */

/* The functions of the driver, which no header of ours declares. */
#define X(field, symbol, needed, parameters) typedef cu_result field##_function parameters;
RT_CUDA_ENTRIES(X)
#undef X
#ifndef FAKE_HIP
error_name_function cuGetErrorName;
error_text_function cuGetErrorString;
device_name_function cuDeviceGetName;
device_attribute_function cuDeviceGetAttribute;
retain_function cuDevicePrimaryCtxRetain;
current_function cuCtxGetCurrent;
push_function cuCtxPushCurrent_v2;
pop_function cuCtxPopCurrent_v2;
function_set_function cuFuncSetAttribute;
launch_ex_function cuLaunchKernelEx;
encode_tiled_function cuTensorMapEncodeTiled;
#endif
init_function cuInit;
version_function cuDriverGetVersion;
device_count_function cuDeviceGetCount;
device_function cuDeviceGet;
synchronize_function cuCtxSynchronize;
module_load_function cuModuleLoadDataEx;
module_unload_function cuModuleUnload;
module_function_function cuModuleGetFunction;
function_get_function cuFuncGetAttribute;
launch_function cuLaunchKernel;
stream_create_function cuStreamCreate;
stream_destroy_function cuStreamDestroy_v2;
stream_synchronize_function cuStreamSynchronize;
stream_query_function cuStreamQuery;
stream_id_function cuStreamGetId;
stream_capture_function cuStreamGetCaptureInfo_v2;
capture_mode_function cuThreadExchangeStreamCaptureMode;
object_create_function cuUserObjectCreate;
graph_retain_function cuGraphRetainUserObject;
#ifndef FAKE_HIP
stream_priorities_function cuCtxGetStreamPriorityRange;
stream_create_first_function cuStreamCreateWithPriority;
stream_wait_function cuStreamWaitEvent;
stream_wait_value_function cuStreamWaitValue64_v2;
rows_function cuMemcpy2DAsync_v2;
host_allocate_function cuMemHostAlloc;
host_release_function cuMemFreeHost;
can_access_function cuDeviceCanAccessPeer;
device_uuid_function cuDeviceGetUuid_v2;
memory_grain_function cuMemGetAllocationGranularity;
memory_create_function cuMemCreate;
memory_release_function cuMemRelease;
memory_export_function cuMemExportToShareableHandle;
memory_import_function cuMemImportFromShareableHandle;
reserve_function cuMemAddressReserve;
unreserve_function cuMemAddressFree;
map_function cuMemMap;
unmap_function cuMemUnmap;
set_access_function cuMemSetAccess;
memory_of_function cuMemRetainAllocationHandle;
memory_range_function cuMemGetAddressRange_v2;
cu_result cuCtxGetDevice(cu_device *device); // for fake_nvshmem.c
#endif
event_create_function cuEventCreate;
event_destroy_function cuEventDestroy_v2;
event_record_function cuEventRecord;
event_synchronize_function cuEventSynchronize;
event_elapsed_function cuEventElapsedTime;
memory_info_function cuMemGetInfo_v2;
allocate_function cuMemAlloc_v2;
release_function cuMemFree_v2;
allocate_async_function cuMemAllocAsync;
release_async_function cuMemFreeAsync;
to_device_function cuMemcpyHtoDAsync_v2;
to_host_function cuMemcpyDtoHAsync_v2;
on_device_function cuMemcpyDtoDAsync_v2;
set_words_function cuMemsetD32Async;
pin_function cuMemHostRegister_v2;
unpin_function cuMemHostUnregister;

#ifdef FAKE_HIP
static const char variable[] = "FAKE_HIP_DEVICES", some[] = "gfx942,gfx1100";
#else
static const char variable[] = "FAKE_CUDA_DEVICES", some[] = "90,80";
#endif

/// Parses "90" or "gfx942".
static int read_capability(const char **s) {
    bool hexadecimal = strncmp(*s, "gfx", 3) == 0;
    char *end;
    long n = strtol(*s + (hexadecimal ? 3 : 0), &end, hexadecimal ? 16 : 10);
    *s = end;
    return (int)n;
}

/// Parses a number after an 'x'; otherwise returns `other`.
static int read_number(const char **s, int other) {
    char *end;
    if (**s != 'x') return other;
    long n = strtol(*s + 1, &end, 10);
    *s = end;
    return (int)n;
}

cu_result cuInit(unsigned flags) {
    CALLED();
    const char *s = getenv(variable);
    initialized = 1;
    if (flags) wrong("cuInit(%u)", flags);
    if (s && strcmp(s, "none") == 0) return 0;
    for (s = s ? s : some; *s && n_devices < DEVICES; s += *s == ',') {
        Device *d = &devices[n_devices];
        d->capability = read_capability(&s);
        d->processors = read_number(&s, PROCESSORS);
        d->shared = read_number(&s, 0);
        d->rate = read_number(&s, 0);
        contexts[n_devices].device = n_devices;
        default_streams[n_devices] =
            (struct cu_stream_){.device = n_devices, .id = (unsigned)n_devices + 1};
        n_devices++;
    }
    return n_devices ? 0 : 100;
}

cu_result cuDriverGetVersion(int *version) {
    CALLED();
    *version = 13000;
    return 0;
}

#ifndef FAKE_HIP
cu_result cuGetErrorName(cu_result error, const char **name) {
    *name = error == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                           : "CUDA_ERROR_OTHER";
    return 0;
}

cu_result cuGetErrorString(cu_result error, const char **text) {
    *text = error == 2     ? "out of memory"
            : error == 700 ? "an illegal memory access was encountered"
                           : "other error";
    return 0;
}

#endif

cu_result cuDeviceGetCount(int *count) {
    CALLED();
    *count = n_devices;
    return 0;
}

cu_result cuDeviceGet(cu_device *device, int number) {
    CALLED();
    *device = 100 + number; // differs from other numbers
    return number < n_devices ? 0 : 101;
}

#ifndef FAKE_HIP
cu_result cuDeviceGetName(char *name, int n, cu_device device) {
    CALLED();
    snprintf(name, (size_t)n, "Fake GPU %d", device - 100);
    return 0;
}

cu_result cuDeviceGetAttribute(int *value, int attribute, cu_device device) {
    CALLED();
    int capability = devices[device - 100].capability;
    *value = attribute == CU_MAJOR             ? capability / 10
             : attribute == CU_MINOR           ? capability % 10
             : attribute == CU_PROCESSORS      ? devices[device - 100].processors
             : attribute == CU_SHARED_OPTIN    ? shared_of(&devices[device - 100])
             : attribute == CU_L2_BYTES        ? 50 << 20
             : attribute == CU_ORDER_OF_WRITES ? (getenv("FAKE_CUDA_NO_ORDER") ? 0 : 100)
                                               : 1;
    return 0;
}

cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device) {
    CALLED();
    *context = &contexts[device - 100];
    return 0;
}

cu_result cuCtxGetCurrent(cu_context *context) {
    CALLED();
    *context = depth ? stack[depth - 1] : NULL;
    return 0;
}

cu_result cuCtxPushCurrent_v2(cu_context context) {
    CALLED();
    stack[depth++] = context;
    return 0;
}

cu_result cuCtxPopCurrent_v2(cu_context *context) {
    CALLED();
    if (!depth) return 201;
    *context = stack[--depth];
    return 0;
}

/// The device of the current context; -1, and a mistake, without one.
static int here(const char *call) {
    if (depth) return stack[depth - 1]->device;
    wrong("%s without a context", call);
    return -1;
}
#endif

cu_result cuCtxSynchronize(void) {
    CALLED();
    here(__func__);
    return capturing ? NOT_PERMITTED : 0;
}

/* ---- modules ------------------------------------------------------------------------------- */

#ifndef FAKE_HIP
/// PTX is text that ends in NUL and has a version. Machine code begins as an ELF file. With
/// FAKE_CUDA_OLD the driver is older than any machine code.
static int check_image(const void *image, int device, void **copy) {
    (void)device, (void)copy;
    if (getenv("FAKE_CUDA_OLD") && memcmp(image, "\177ELF", 4) == 0) return 209;
    return memcmp(image, "\177ELF", 4) != 0 && !strstr(image, ".version") ? 200 : 0;
}

/// Kernels that no test registered do not run.
static int run_code(cu_function f, const FakeLaunch *launch, void **args) {
    const char *illegal = getenv("FAKE_CUDA_ILLEGAL");
    (void)f, (void)args;
    lost |= illegal && launch->grid == strtoul(illegal, NULL, 10);
    return 0;
}

static void note_memory(void *p, size_t bytes) {
    (void)p, (void)bytes;
}

static bool has_kernel(cu_module module, const char *name) {
    (void)module, (void)name;
    return true;
}
#endif

cu_result cuModuleLoadDataEx(cu_module *module, const void *image, unsigned n, int *options,
                             void **values) {
    int error = called(__func__);
    for (unsigned i = 0; i < n; i++)
        if (options[i] == CU_JIT_ERROR_LOG && error) strcpy(values[i], "ptxas fatal: told so");
    if (error) return error;
    if (capturing && !relaxed) return NOT_PERMITTED;
    void *code = NULL;
    error = check_image(image, here(__func__), &code);
    if (error) return error;
    *module = calloc(1, sizeof **module);
    (*module)->device = here(__func__);
    (*module)->code = code;
    (*module)->waits =
        memcmp(image, "\177ELF", 4) == 0 || strstr(image, "griddepcontrol.wait") != NULL;
    n_modules++;
    last_image = memcmp(image, "\177ELF", 4) == 0 ? "machine code" : "PTX";
    return 0;
}

cu_result cuModuleUnload(cu_module module) {
    CALLED();
    if (here(__func__) != module->device) wrong("a module is unloaded in another context");
    for (struct cu_function_ *f = module->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    free(module->code);
    free(module);
    n_modules--;
    return 0;
}

cu_result cuModuleGetFunction(cu_function *function, cu_module module, const char *name) {
    CALLED();
    if (strncmp(name, "missing", 7) == 0) return 500;
    if (!has_kernel(module, name)) return 500;
    cu_function f = calloc(1, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->device = module->device;
    f->module = module;
    f->next = module->functions;
    module->functions = f;
    for (int i = 0; i < n_kernels; i++)
        if (strcmp(kernels[i].name, name) == 0) f->kernel = &kernels[i];
    *function = f;
    return 0;
}

#ifndef FAKE_HIP
cu_result cuFuncSetAttribute(cu_function function, int attribute, int value) {
    CALLED();
    if (attribute == CU_MAX_SHARED) {
        if (value > shared_of(&devices[function->device])) return 1;
        function->shared_bytes = value;
    } else if (attribute == CU_LARGE_CLUSTERS) {
        function->large_clusters = value;
    } else {
        wrong("cuFuncSetAttribute: %d", attribute);
    }
    return 0;
}
#endif

cu_result cuFuncGetAttribute(int *value, int attribute, cu_function function) {
    CALLED();
    if (attribute != CU_REGISTERS && attribute != CU_LOCAL_BYTES)
        wrong("cuFuncGetAttribute: %d", attribute);
    if (!function) return 400;
    *value = 0;
    return 0;
}

#include "tests/runtime/fake_streams.h"

/* ---- memory -------------------------------------------------------------------------------- */

cu_result cuMemGetInfo_v2(size_t *left, size_t *all) {
    CALLED();
    *left = (size_t)1 << 30;
    *all = (size_t)2 << 30;
    return 0;
}

static cu_result allocate(cu_pointer *at, size_t bytes) {
    enum {
        POISONED = 1 << 24
    }; // only the start of large memory is poisoned, since it is the host's
    if (!bytes) return 1;
    if (bytes >= (size_t)1 << 31) return CU_OUT_OF_MEMORY;
    void *p = aligned_alloc(512, (bytes + 511) / 512 * 512);
    if (!p) return CU_OUT_OF_MEMORY;
    memset(p, 0xa5, bytes < POISONED ? bytes : POISONED);
    *at = (uintptr_t)p;
    n_allocated++;
    note_memory(p, bytes);
    return 0;
}

cu_result cuMemAlloc_v2(cu_pointer *at, size_t bytes) {
    CALLED();
    here(__func__);
    if (capturing && !relaxed) return NOT_PERMITTED;
    return allocate(at, bytes);
}

cu_result cuMemFree_v2(cu_pointer at) {
    CALLED();
    if (capturing && !relaxed) return NOT_PERMITTED;
    note_memory((void *)(uintptr_t)at, 0);
    free((void *)(uintptr_t)at);
    n_allocated--;
    return 0;
}

cu_result cuMemAllocAsync(cu_pointer *at, size_t bytes, cu_stream stream) {
    CALLED();
    if (resolve(__func__, stream)->graph) wrong("cuMemAllocAsync in a capture");
    cu_result error = allocate(at, bytes);
    if (!error) note_pooled(*at, bytes);
    return error;
}

cu_result cuMemFreeAsync(cu_pointer at, cu_stream stream) {
    CALLED();
    if (resolve(__func__, stream)->graph) wrong("cuMemFreeAsync in a capture");
    note_memory((void *)(uintptr_t)at, 0);
    free((void *)(uintptr_t)at);
    n_allocated--;
    return 0;
}

/// Memory that stays pinned counts as not freed.
cu_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
    CALLED();
    here(__func__);
    if (!at || !bytes || flags) wrong("%s(%p, %zu, %u)", __func__, at, bytes, flags);
    note_pinned(NULL, at, bytes);
    n_allocated++;
    return 0;
}

cu_result cuMemHostUnregister(void *at) {
    CALLED();
    if (!at) wrong("%s(NULL)", __func__);
    note_pinned(at, NULL, 0);
    n_allocated--;
    return 0;
}

#ifndef FAKE_HIP
#include "tests/runtime/fake_memory.h"

/* ---- tensor maps --------------------------------------------------------------------------- */

/// Checks the rules of the driver's documentation.
cu_result cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *data,
                                 const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                 const uint32_t *steps, int interleave, int swizzle, int promotion,
                                 int fill) {
    CALLED();
    int n = snprintf(last_map, sizeof last_map, "type %d swizzle %d fill %d promotion %d:", type,
                     swizzle, fill, promotion);
    bool bad = (uintptr_t)map % 64 || (uintptr_t)data % 16 || rank < 1 || rank > 5 || interleave;
    for (uint32_t i = 0; i < rank && !bad; i++) {
        n +=
            snprintf(last_map + n, sizeof last_map - (size_t)n, " %" PRIu64 "/%u", dims[i], box[i]);
        bad |= !dims[i] || dims[i] > (uint64_t)1 << 32 || !box[i] || box[i] > 256 || steps[i] != 1;
        if (i == 0) continue;
        n += snprintf(last_map + n, sizeof last_map - (size_t)n, "@%" PRIu64, strides[i - 1]);
        bad |= strides[i - 1] % 16 || strides[i - 1] >= (uint64_t)1 << 40;
    }
    if (bad) return 1;
    memset(map, 0, TG_TENSORMAP_BYTES);
    memcpy(map, &data, sizeof data);
    return 0;
}
#endif
