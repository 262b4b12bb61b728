// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See fake_cuda.h. FAKE_CUDA_DEVICES="90,80" in the environment gives the compute capabilities of
// the devices. fake_hip.c makes the runtime of AMD GPUs of the same functions.
#include "tests/runtime/fake_cuda.h"

#include "runtime/cuda.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAKE_HIP
#define FIRST_CALL "cuInit"
#endif

enum { DEVICES = 8, KERNELS = 32, ARGS = 64, DEPTH = 16, NODES = 64, OBJECTS = 16 };
enum { SHARED_OPTIN = 227 << 10, NOT_PERMITTED = 900 };

struct cu_context_ {
    int device;
};
struct cu_stream_ {
    int device;
    unsigned long long id, capture; // capture 0: none
    struct cu_graph_ *graph;
    struct cu_stream_ *next; // of those that tests made, which last
};
typedef struct Kernel {
    char name[64];
    FakeKernel *run;
    int n;
    size_t sizes[ARGS];
} Kernel;
struct cu_module_ {
    int device;
    void *code; // of AMD's, a copy of the image
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
};
struct cu_object_ {
    void (*destroy)(void *);
    void *data;
};
typedef struct Node {
    FakeLaunch launch;
    struct cu_function_ *function;
    void *args[ARGS];
} Node;
struct cu_graph_ {
    int n_nodes, n_objects;
    Node nodes[NODES];
    struct cu_object_ objects[OBJECTS];
};

static struct cu_context_ contexts[DEVICES];
static struct cu_stream_ default_streams[DEVICES];
static Kernel kernels[KERNELS];
static int n_kernels, n_devices, initialized;
static _Atomic int n_allocated, n_modules, capturing;
static _Thread_local int relaxed;
static int capabilities[DEVICES];
static char mistake[256], last_map[512];
static const char *last_image;
static _Thread_local struct cu_context_ *stack[DEPTH];
static _Thread_local int depth;

/* ---- what tests ask ------------------------------------------------------------------------ */

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

static void wrong(const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    if (!mistake[0]) vsnprintf(mistake, sizeof mistake, format, ap);
    va_end(ap);
}

/// Counts the call; the error that it is to return.
static int called(const char *name) {
    pthread_mutex_lock(&counting);
    int i = entry_of(name), error = counts[i].error;
    counts[i].calls++;
    counts[i].error = 0;
    pthread_mutex_unlock(&counting);
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
stream_id_function cuStreamGetId;
stream_capture_function cuStreamGetCaptureInfo_v2;
capture_mode_function cuThreadExchangeStreamCaptureMode;
object_create_function cuUserObjectCreate;
graph_retain_function cuGraphRetainUserObject;
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

/// "90", "gfx942"
static int read_capability(const char **s) {
    bool hexadecimal = strncmp(*s, "gfx", 3) == 0;
    char *end;
    long n = strtol(*s + (hexadecimal ? 3 : 0), &end, hexadecimal ? 16 : 10);
    *s = end;
    return (int)n;
}

cu_result cuInit(unsigned flags) {
    CALLED();
    const char *s = getenv(variable);
    initialized = 1;
    if (flags) wrong("cuInit(%u)", flags);
    for (s = s ? s : some; *s && n_devices < DEVICES; s += *s == ',') {
        capabilities[n_devices] = read_capability(&s);
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
    *device = 100 + number; // no number to be mixed up with
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
    int capability = capabilities[device - 100];
    *value = attribute == CU_MAJOR          ? capability / 10
             : attribute == CU_MINOR        ? capability % 10
             : attribute == CU_PROCESSORS   ? 132
             : attribute == CU_SHARED_OPTIN ? SHARED_OPTIN
             : attribute == CU_L2_BYTES     ? 50 << 20
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

/// The device of the current context; -1, a mistake, where there is none.
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
/// PTX is text that ends in NUL and has a version, machine code begins as ELF files do. With
/// FAKE_CUDA_OLD the driver is older than any machine code.
static int check_image(const void *image, int device, void **copy) {
    (void)device, (void)copy;
    if (getenv("FAKE_CUDA_OLD") && memcmp(image, "\177ELF", 4) == 0) return 209;
    return memcmp(image, "\177ELF", 4) != 0 && !strstr(image, ".version") ? 200 : 0;
}

/// Kernels that no test has are not run.
static int run_code(cu_function f, const FakeLaunch *launch, void **args) {
    (void)f, (void)launch, (void)args;
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
        if (value > SHARED_OPTIN) return 1;
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
    (void)attribute, (void)function;
    *value = 0;
    return 0;
}

/* ---- streams, launches --------------------------------------------------------------------- */

static cu_stream resolve(const char *call, cu_stream stream) {
    int device = here(call);
    if (!stream) return &default_streams[device < 0 ? 0 : device];
    if (stream->device != device) wrong("%s: a stream of another device", call);
    return stream;
}

static void record(cu_stream stream, const FakeLaunch *launch, cu_function f, void **args) {
    struct cu_graph_ *g = stream->graph;
    Node *n = &g->nodes[g->n_nodes++];
    n->launch = *launch;
    n->function = f;
    for (int i = 0; f->kernel && i < f->kernel->n; i++) {
        n->args[i] = malloc(f->kernel->sizes[i]);
        memcpy(n->args[i], args[i], f->kernel->sizes[i]);
    }
}

static cu_result run(cu_function f, FakeLaunch launch, cu_stream stream, void **args) {
    int most = f->shared_bytes ? f->shared_bytes : CU_DEFAULT_SHARED;
    launch.name = f->name;
    launch.device = f->device;
    launch.stream = stream;
    if (!launch.grid || !launch.block || launch.block > 1024) return 1;
    if (launch.shared_bytes > (unsigned)most) return 1;
    if (launch.cluster == 0 || launch.grid % launch.cluster) return 912;
    if (launch.cluster > CU_PORTABLE_CLUSTER && !f->large_clusters) return 912;
    cu_stream s = resolve("a launch", stream);
    if (s->device != f->device) wrong("a function of another device is launched");
    if (s->graph)
        record(s, &launch, f, args);
    else if (f->kernel)
        f->kernel->run(&launch, args);
    else
        return run_code(f, &launch, args);
    return 0;
}

cu_result cuLaunchKernel(cu_function f, unsigned x, unsigned y, unsigned z, unsigned bx,
                         unsigned by, unsigned bz, unsigned shared, cu_stream stream, void **args,
                         void **extra) {
    CALLED();
    if (y != 1 || z != 1 || by != 1 || bz != 1 || extra) wrong("cuLaunchKernel: other dimensions");
    return run(f, (FakeLaunch){.grid = x, .block = bx, .shared_bytes = shared, .cluster = 1},
               stream, args);
}

#ifndef FAKE_HIP
cu_result cuLaunchKernelEx(const cu_launch *how, cu_function f, void **args, void **extra) {
    CALLED();
    FakeLaunch launch = {.grid = how->grid[0],
                         .block = how->block[0],
                         .shared_bytes = how->shared_bytes,
                         .cluster = 1};
    if (extra || how->grid[1] != 1 || how->grid[2] != 1) wrong("cuLaunchKernelEx: dimensions");
    for (unsigned i = 0; i < how->n_attributes; i++) {
        if (how->attributes[i].id != CU_ATTRIBUTE_CLUSTER) wrong("cuLaunchKernelEx: attribute");
        launch.cluster = how->attributes[i].value.cluster[0];
    }
    return run(f, launch, how->stream, args);
}
#endif

cu_result cuStreamCreate(cu_stream *stream, unsigned flags) {
    static unsigned long long ids = 100;
    CALLED();
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    **stream = (struct cu_stream_){.device = here(__func__), .id = ids++};
    return 0;
}

cu_result cuStreamDestroy_v2(cu_stream stream) {
    CALLED();
    free(stream);
    return 0;
}

cu_result cuStreamSynchronize(cu_stream stream) {
    CALLED();
    return resolve(__func__, stream)->graph ? NOT_PERMITTED : 0;
}

cu_result cuStreamGetId(cu_stream stream, unsigned long long *id) {
    CALLED();
    cu_stream s = resolve(__func__, stream);
    if (s->graph) { // drivers from 580 on
        wrong("cuStreamGetId: the stream is being captured, which this ends");
        return NOT_PERMITTED;
    }
    *id = s->id;
    return 0;
}

void *fake_stream(int device) {
    static cu_stream made;
    cu_stream s;
    stack[depth++] = &contexts[device];
    cuStreamCreate(&s, 0);
    depth--;
    s->next = made;
    return made = s;
}

/* ---- captures ------------------------------------------------------------------------------ */

void fake_capture(void *stream) {
    static unsigned long long ids = 1;
    cu_stream s = stream;
    s->graph = calloc(1, sizeof *s->graph);
    s->capture = ids++;
    capturing++;
}

void *fake_capture_end(void *stream) {
    cu_stream s = stream;
    struct cu_graph_ *g = s->graph;
    s->graph = NULL;
    s->capture = 0;
    capturing--;
    return g;
}

void fake_replay(void *graph) {
    struct cu_graph_ *g = graph;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].function->kernel)
            g->nodes[i].function->kernel->run(&g->nodes[i].launch, g->nodes[i].args);
}

void fake_drop(void *graph) {
    struct cu_graph_ *g = graph;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < ARGS; k++) free(g->nodes[i].args[k]);
    for (int i = 0; i < g->n_objects; i++) g->objects[i].destroy(g->objects[i].data);
    free(g);
}

cu_result cuStreamGetCaptureInfo_v2(cu_stream stream, int *state, unsigned long long *id,
                                    cu_graph *graph, const void **nodes, size_t *n) {
    CALLED();
    cu_stream s = resolve(__func__, stream);
    if (nodes || n) wrong("cuStreamGetCaptureInfo: more is asked for");
    *state = s->graph ? 1 : 0;
    *id = s->capture;
    *graph = s->graph;
    return 0;
}

cu_result cuThreadExchangeStreamCaptureMode(int *mode) {
    CALLED();
    int before = relaxed ? CU_CAPTURE_RELAXED : 0;
    relaxed = *mode == CU_CAPTURE_RELAXED;
    *mode = before;
    return 0;
}

cu_result cuUserObjectCreate(cu_object *object, void *data, void (*destroy)(void *), unsigned n,
                             unsigned flags) {
    static struct cu_object_ last;
    CALLED();
    if (n != 1 || flags != CU_NO_DESTRUCTOR_SYNC) wrong("cuUserObjectCreate");
    last = (struct cu_object_){destroy, data};
    *object = &last;
    return 0;
}

cu_result cuGraphRetainUserObject(cu_graph graph, cu_object object, unsigned n, unsigned flags) {
    CALLED();
    if (n != 1 || flags != CU_MOVE) wrong("cuGraphRetainUserObject");
    graph->objects[graph->n_objects++] = *object;
    return 0;
}

/* ---- events -------------------------------------------------------------------------------- */

cu_result cuEventCreate(cu_event *event, unsigned flags) {
    CALLED();
    (void)flags;
    *event = calloc(1, sizeof **event);
    return 0;
}

cu_result cuEventDestroy_v2(cu_event event) {
    CALLED();
    free(event);
    return 0;
}

cu_result cuEventRecord(cu_event event, cu_stream stream) {
    static double now;
    CALLED();
    resolve(__func__, stream);
    event->at = now += 0.25;
    return 0;
}

cu_result cuEventSynchronize(cu_event event) {
    CALLED();
    (void)event;
    return 0;
}

cu_result cuEventElapsedTime(float *milliseconds, cu_event from, cu_event to) {
    CALLED();
    *milliseconds = (float)(to->at - from->at);
    return 0;
}

/* ---- memory -------------------------------------------------------------------------------- */

cu_result cuMemGetInfo_v2(size_t *left, size_t *all) {
    CALLED();
    *left = (size_t)1 << 30;
    *all = (size_t)2 << 30;
    return 0;
}

static cu_result allocate(cu_pointer *at, size_t bytes) {
    enum { POISONED = 1 << 24 }; // of large ones the start: memory is the host's
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
    return allocate(at, bytes);
}

cu_result cuMemFreeAsync(cu_pointer at, cu_stream stream) {
    CALLED();
    if (resolve(__func__, stream)->graph) wrong("cuMemFreeAsync in a capture");
    note_memory((void *)(uintptr_t)at, 0);
    free((void *)(uintptr_t)at);
    n_allocated--;
    return 0;
}

cu_result cuMemcpyHtoDAsync_v2(cu_pointer to, const void *from, size_t bytes, cu_stream stream) {
    CALLED();
    resolve(__func__, stream);
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

cu_result cuMemcpyDtoHAsync_v2(void *to, cu_pointer from, size_t bytes, cu_stream stream) {
    CALLED();
    resolve(__func__, stream);
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}

cu_result cuMemcpyDtoDAsync_v2(cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream) {
    CALLED();
    resolve(__func__, stream);
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return 0;
}

/// What stays pinned counts as memory that was not given back.
cu_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
    CALLED();
    here(__func__);
    if (!at || !bytes || flags) wrong("%s(%p, %zu, %u)", __func__, at, bytes, flags);
    n_allocated++;
    return 0;
}

cu_result cuMemHostUnregister(void *at) {
    CALLED();
    if (!at) wrong("%s(NULL)", __func__);
    n_allocated--;
    return 0;
}

cu_result cuMemsetD32Async(cu_pointer at, unsigned value, size_t n, cu_stream stream) {
    CALLED();
    resolve(__func__, stream);
    for (size_t i = 0; i < n; i++) ((unsigned *)(uintptr_t)at)[i] = value;
    return 0;
}

#ifndef FAKE_HIP
/* ---- tensor maps --------------------------------------------------------------------------- */

/// The rules of the driver's documentation that a caller can break.
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
