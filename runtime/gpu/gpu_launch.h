// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches on GPUs: devices, the code loaded on them, their workspaces, and what the functions of
// tg_env do there.
//
// A launch only adds work to a stream. Nothing on the way waits for the device, unless code with
// asserts or prints was launched, or something is used for the first time.
#ifndef RUNTIME_GPU_GPU_LAUNCH_H
#define RUNTIME_GPU_GPU_LAUNCH_H

#include "runtime/base/fork_lock.h"
#include "runtime/gpu/cuda.h"
#include "runtime/host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { RT_DEVICES = 64, RT_SPACES = 64, RT_MAPS = 64, RT_MAP_WAYS = 4, RT_DEVICE_ARGS = 512 };

typedef struct rt_space rt_space;
typedef struct rt_cuda_comm rt_cuda_comm;

/* ---- cuda_device.c ------------------------------------------------------------------------- */

/// A GPU that the process has used; it lasts as long as the process, as its context does.
typedef struct rt_device {
    int number;              // as the driver counts
    char name[96], arch[16]; // "sm_90", "gfx942"
    int capability;          // 90, 0x942
    int major, minor, processors, shared_bytes, l2_bytes, clock_khz, memory_khz, bus_bits;
    cu_context context;                  // CUDA's primary one, which other libraries use, too
    _Atomic(rt_space *) idle[RT_SPACES]; // workspaces of streams
    rt_space *captured;                  // of graphs; under `lock`
    tg_lock lock;
} rt_device;

/// NULL, with tg_last_error(), where there is none.
rt_device *rt_device_at(int number);

/// Makes the device's context the calling thread's until rt_leave.
typedef struct rt_entered {
    bool pushed;
    int before; // HIP's device of the thread
    int mode;   // of captures, before
} rt_entered;
tg_status rt_enter(const rt_device *d, rt_entered *e);
void rt_leave(rt_entered e);
/// Copies bytes of the device to the host, in the order of the stream, and waits. False: no copy.
bool rt_copy_from_device(int number, cu_stream stream, cu_pointer from, size_t bytes, void *to);
/// Bytes that are free there. False: it does not say.
bool rt_device_memory(int number, size_t *left);
/// Waits for a stream of the device that is entered, but no longer than `patience` seconds (0: as
/// long as it takes): then CU_NOT_READY.
cu_result rt_wait(cu_stream stream, double patience);
/// Fails for a launch that rt_wait did not see the end of: TG_ERROR_CONTRACT.
tg_status rt_does_not_end(double patience);
/// Lets this thread do what a capture on another stream forbids (allocate, load), until
/// rt_strict.
void rt_relax(rt_entered *e);
void rt_strict(rt_entered *e);

/* ---- cuda_program.c ------------------------------------------------------------------------ */

/// An image on a device.
typedef struct rt_program {
    cu_module module;
    double load_seconds; // the compilation of PTX included
    cu_function functions[];
} rt_program;

/// Where code runs: a device, and what was loaded there.
typedef struct rt_loaded {
    rt_device *device;
    const rt_program *program; // NULL: nothing yet
} rt_loaded;

/// Loads the image where it is not yet. In the device's context.
tg_status rt_program_get(tg_image *image, const rt_device *d, const rt_program **out);
/// Whether a device of the driver's maker and of this capability (90, 0x942) runs the image.
bool rt_image_runs(const tg_image *image, int capability);
/// The driver does not take the image, of which a launch failed to be loaded: none is to run it.
void rt_image_refuse(tg_image *image, bool refused);

/* ---- cuda_workspace.c: memory of a launch on the device ------------------------------------- */

/// The workspace of a stream, or of what one capture records on it: launches there come one after
/// the other, so they share it. While a launch has it no other one does.
tg_status rt_workspace_claim(rt_device *d, cu_stream stream, rt_space **out);
void rt_workspace_give_back(rt_space *s);
/// Whether launches on the stream are recorded; of the CPU (device -1) none is.
bool rt_is_captured(int device, void *stream);
/// The n-th call of a launch takes the n-th piece of memory. 0, with tg_last_error(): none is left.
cu_pointer rt_workspace_take(rt_space *s, size_t bytes);
/// The buffer of asserts and prints: RT_FAULT_BYTES; 0 where there is none, or a capture.
cu_pointer rt_workspace_faults(rt_space *s);
enum { RT_FAULT_WORDS = 1 << 15, RT_FAULT_BYTES = 16 + 8 * RT_FAULT_WORDS };

/* ---- cuda_launch.c ------------------------------------------------------------------------- */

typedef struct rt_map {
    tg_tensormap how;
    void *data; // NULL: an empty place
    int64_t dims[5], strides[5];
    _Alignas(64) unsigned char bytes[TG_TENSORMAP_BYTES];
} rt_map;

/// What host code asked for, to be done again without it (replay.c).
typedef struct rt_replay rt_replay;

typedef struct rt_gpu rt_gpu;

/// What a collective launch tells its group of ranks (comm_cuda_calls.c).
typedef struct rt_gpu_observer {
    /// Before programs are launched: gives the stream the steps that it has not got yet. *runs:
    /// whether programs are to be launched at all. A tg_run_status.
    int32_t (*before)(rt_cuda_comm *g, rt_gpu *gpu, bool *runs);
    /// They have been, unless the driver refused.
    int32_t (*after)(rt_cuda_comm *g, rt_gpu *gpu, int function, bool launched);
    /// Whether they may begin while the step or the programs before them end, if they wait for that
    /// themselves.
    bool (*may_be_early)(const rt_cuda_comm *g);
    /// Whether the driver took that: if not, it is not asked again.
    void (*were_early)(rt_cuda_comm *g, bool taken);
    /// Something that is neither a step nor programs goes to the stream.
    void (*other)(rt_cuda_comm *g);
    /// The launch began, and failed.
    tg_status (*release)(rt_cuda_comm *g);
} rt_gpu_observer;

/// Whether a launch of ranks on the device failed before. Groups with GPUs set it; NULL: there is
/// none.
typedef tg_status rt_device_check(int device);
extern _Atomic(rt_device_check *) rt_ranks_check;

/// A device function of a launch that is called by the ranks: its image's dispatch, and their
/// waits.
typedef int32_t rt_ranks_call(const tg_env *env, tg_image *image, int32_t function,
                              int64_t programs, void *const *args);

/// What a launcher knows of the launch it serves, when that is one of GPU code.
struct rt_gpu {
    tg_image *image;           // NULL: the launch is the CPU's
    rt_device *device;         // NULL: the image is called
    const rt_program *program; // NULL: likewise
    cu_stream stream;
    rt_space *space;                 // NULL before something is needed
    tg_status status;                // of what failed here; tg_last_error() has the text
    bool faults;                     // a function was launched that may write them
    double patience;                 // rt_wait's, of launches that wait
    bool stuck;                      // one of them did not see its end
    tg_faults *called_faults;        // of called images; kept
    rt_cuda_comm *comm;              // of a collective launch that has begun, else NULL
    const rt_gpu_observer *observer; // of comm
    rt_ranks_call *call;             // calls functions of images, where tg_env.comm is there
    rt_replay *replay;               // where what is done is written down, else NULL
    void *args[RT_DEVICE_ARGS];
    rt_map maps[RT_MAPS];   // sets of RT_MAP_WAYS
    unsigned maps_replaced; // counts the maps whose place another one took
};

/// cuLaunchKernelEx, where the driver has it: it takes about 0.1 us less than cuLaunchKernel.
static inline cu_result rt_gpu_ask(const rt_cuda *cu, const cu_launch *how, cu_function function,
                                   void *const *args) {
    void **a = (void **)(uintptr_t)args;
    if (cu->launch_ex) return cu->launch_ex(how, function, a, NULL);
    return cu->launch(function, how->grid[0], 1, 1, how->block[0], 1, 1, how->shared_bytes,
                      how->stream, a, NULL);
}

/// How the driver is told to launch a function; `cluster` is part of it.
cu_launch rt_gpu_how(const rt_gpu *g, const tg_device_function *f, uint32_t ctas,
                     cu_attribute *cluster);
/// cuLaunchKernelEx, in the device's context; a tg_run_status.
int32_t rt_gpu_launch(rt_gpu *g, const tg_device_function *f, cu_function function,
                      const cu_launch *how, void *const *args);
/// What it did not launch, in words; gpu.device is there.
int32_t rt_gpu_launch_failed(rt_gpu *g, const tg_device_function *f, const cu_launch *how,
                             cu_result error);
/// 128 bytes for a tensor, as tg_env.tensormap has it; kept for the next time.
int32_t rt_gpu_map(rt_gpu *g, const tg_tensormap *how, void *data, const int64_t *dims,
                   const int64_t *strides, void *out);

/* ---- replay.c: launches without their host code ---------------------------------------------- */

enum { RT_REPLAY_LAUNCHES = 4, RT_REPLAY_ARGS = 64, RT_REPLAY_MAPS = 4, RT_REPLAY_AXES = 8 };

typedef struct rt_replay_map {
    const void *out; // where host code had it
    const tg_tensormap *how;
    int slot; // whose address it has
    void *data;
    int64_t dims[RT_REPLAY_AXES], strides[RT_REPLAY_AXES];
    _Alignas(64) unsigned char bytes[TG_TENSORMAP_BYTES];
} rt_replay_map;

/// What the driver is told, in one line of the cache, and what is seldom looked at.
typedef struct rt_replay_launch {
    _Alignas(64) cu_launch how; // all but the stream
    cu_function function;
    const tg_device_function *f;
    cu_attribute cluster;
} rt_replay_launch;

struct rt_replay {
    bool refused; // there is something that cannot be done again
    bool numbers; // it can whatever numbers have become
    bool enters;  // the device is entered before the launches: they are HIP's, or failed without
    uint8_t n, n_maps;
    uint8_t first[RT_REPLAY_LAUNCHES]; // of the arguments of each launch
    int n_args, n_slots;
    const tg_slot *slots; // of the entry: the same ones for all runs
    cu_context context;   // of the device
    rt_replay_launch launches[RT_REPLAY_LAUNCHES];
    _Alignas(64) void *args[RT_REPLAY_ARGS]; // into slots, values and maps
    // What stood on the stack. A map that was not filled in, of a tensor without elements, is taken
    // for a value: what is behind it is read.
    uint64_t values[RT_REPLAY_ARGS + TG_TENSORMAP_BYTES / 8];
    rt_replay_map maps[RT_REPLAY_MAPS];
};

_Static_assert(offsetof(rt_replay_launch, f) == 64 && offsetof(rt_replay, launches) == 64,
               "lines of the cache");
_Static_assert(RT_REPLAY_ARGS <= UINT8_MAX, "see `first`");

/// The launch that follows is to be written down: its entry gets these slots.
void rt_replay_begin(rt_replay *r, const tg_slot *slots, int n);
void rt_replay_add_launch(rt_replay *r, const rt_gpu *g, const tg_device_function *f,
                          cu_function function, uint32_t ctas, void *const *args);
void rt_replay_add_map(rt_replay *r, const tg_tensormap *how, void *data, const int64_t *dims,
                       const int64_t *strides, const void *out);
/// The same with the addresses that now stand in the slots: a tg_run_status, gpu.status says more.
int32_t rt_replay_run(rt_gpu *g, rt_replay *r, rt_device *device, void *stream);

/// Keeps what tg_last_error() says for the end of the launch.
static inline int32_t rt_gpu_failed(rt_gpu *g, tg_status status) {
    g->status = status;
    return TG_RUN_DEVICE;
}

#endif
