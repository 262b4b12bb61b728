// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches on GPUs: devices, loaded code, workspaces, and the functions of tg_env.
//
// A launch only adds work to a stream. It waits for the device only for code with asserts or
// prints, or at a first use.
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

/// A GPU that the process has used. It lives as long as the process, like its context.
typedef struct rt_device {
    int number;              // the driver's number
    char name[96], arch[16]; // "sm_90", "gfx942"
    int capability;          // 90, 0x942
    int major, minor, processors, shared_bytes, l2_bytes, clock_khz, memory_khz, bus_bits;
    cu_context context;                  // the primary context of CUDA, shared with other libraries
    _Atomic(rt_space *) idle[RT_SPACES]; // the workspaces of streams
    rt_space *captured;                  // of graphs; under `lock`
    tg_lock lock;
} rt_device;

/// Opens the device at its first use. On failure, *out is NULL.
tg_status rt_device_get(int number, rt_device **out);
/// Likewise; NULL, with tg_last_error(): failed.
rt_device *rt_device_at(int number);

/// Makes the device's context current in the calling thread until rt_leave.
typedef struct rt_entered {
    bool pushed;
    int before; // the thread's HIP device before
    int mode;   // the thread's capture mode before
} rt_entered;
tg_status rt_enter(const rt_device *d, rt_entered *e);
void rt_leave(rt_entered e);
/// Copies device memory to the host in stream order and waits.
tg_status rt_copy_from_device(int number, cu_stream stream, cu_pointer from, size_t bytes,
                              void *to);
/// The free memory of the device in bytes. Returns false if it is unknown.
bool rt_device_memory(int number, size_t *left);
/// Waits for a stream of the entered device, at most `patience` seconds (0: without a limit).
/// Returns CU_NOT_READY after that time.
cu_result rt_wait(cu_stream stream, double patience);
/// Fails with TG_ERROR_CONTRACT for a launch that exceeded rt_wait's time.
tg_status rt_does_not_end(double patience);
/// Allows this thread to allocate and load during a capture on another stream, until rt_strict.
void rt_relax(rt_entered *e);
void rt_strict(rt_entered *e);

/* ---- cuda_program.c ------------------------------------------------------------------------ */

/// An image on a device.
typedef struct rt_program {
    cu_module module;
    double load_seconds; // including the compilation of PTX
    cu_function functions[];
} rt_program;

/// A device and the program loaded on it.
typedef struct rt_loaded {
    rt_device *device;
    const rt_program *program; // NULL: not loaded yet
} rt_loaded;

/// Loads the image if necessary. The device's context must be current.
tg_status rt_program_get(tg_image *image, const rt_device *d, const rt_program **out);
/// Whether a device of the driver's vendor and this capability (90, 0x942) can run the image.
bool rt_image_runs(const tg_image *image, int capability);
/// Marks an image that the driver could not load, so that no launch uses it.
void rt_image_refuse(tg_image *image, bool refused);

/* ---- cuda_workspace.c: memory of a launch on the device ------------------------------------- */

/// Claims the workspace of a stream, or of a capture on it. Launches on a stream are in order and
/// share it. Only one launch has it at a time.
tg_status rt_workspace_claim(rt_device *d, cu_stream stream, rt_space **out);
void rt_workspace_give_back(rt_space *s);
/// Whether launches on the stream are being captured; never on the CPU (device -1).
bool rt_is_captured(int device, void *stream);
/// The n-th call of a launch gets the n-th piece. 0, with tg_last_error(): out of memory.
cu_pointer rt_workspace_take(rt_space *s, size_t bytes);
/// The buffer for asserts and prints, RT_FAULT_BYTES. 0: out of memory, or in a capture.
cu_pointer rt_workspace_faults(rt_space *s);
/// The workspace's counter (tg_env.counter).
tg_status rt_workspace_counter(rt_space *s, cu_pointer *out);
/// Whether it holds 0. Otherwise rt_workspace_counter sets it to 0.
bool rt_workspace_has_counter(const rt_space *s);
/// Sets the counter to 0 before its next use: a launch failed.
void rt_workspace_doubt_counter(rt_space *s);
enum { RT_FAULT_WORDS = 1 << 15, RT_FAULT_BYTES = 16 + 8 * RT_FAULT_WORDS };

/* ---- cuda_launch.c ------------------------------------------------------------------------- */

typedef struct rt_map {
    tg_tensormap how;
    void *data; // NULL: an empty place
    int64_t dims[5], strides[5];
    _Alignas(64) unsigned char bytes[TG_TENSORMAP_BYTES];
} rt_map;

/// The recorded requests of host code, for a launch without it (replay.c).
typedef struct rt_replay rt_replay;

typedef struct rt_gpu rt_gpu;

/// Calls of a launch on a GPU to the group of ranks of a collective launch (comm_cuda_calls.c).
typedef struct rt_gpu_observer {
    /// Called before programs are launched: adds the pending steps to the stream. *runs: whether to
    /// launch the programs. Returns a tg_run_status.
    int32_t (*before)(rt_cuda_comm *g, rt_gpu *gpu, bool *runs);
    /// Called after programs were launched; launched: the driver accepted the launch.
    int32_t (*after)(rt_cuda_comm *g, rt_gpu *gpu, int function, bool launched);
    /// Whether the programs may start before the preceding step or programs end, if they wait for
    /// that end themselves.
    bool (*may_be_early)(const rt_cuda_comm *g);
    /// Reports whether the driver accepted an early launch. If not, no further one is tried.
    void (*were_early)(rt_cuda_comm *g, bool taken);
    /// Called before other work than steps and programs goes to the stream.
    void (*other)(rt_cuda_comm *g);
    /// Ends a launch that began and failed.
    tg_status (*release)(rt_cuda_comm *g);
} rt_gpu_observer;

/// Whether a launch of ranks on the device failed before. Groups with GPUs set it; NULL: there is
/// none.
typedef tg_status rt_device_check(int device);
extern _Atomic(rt_device_check *) rt_ranks_check;

/// Executes a device function of a called image for all ranks: its programs, and their waits for
/// other ranks.
typedef int32_t rt_ranks_call(const tg_env *env, tg_image *image, int32_t function,
                              int64_t programs, void *const *args);

/// The data of a launcher about a launch of GPU code.
struct rt_gpu {
    tg_image *image;           // NULL: the launch runs on the CPU
    rt_device *device;         // NULL: the image is a called one
    const rt_program *program; // NULL: the image is a called one
    cu_stream stream;
    rt_space *space;                 // NULL before the first request
    tg_status status;                // of a failure of the launch; tg_last_error() has the text
    bool follows;                    // the last request to the stream was a kernel
    bool faults;                     // a launched function may write fault records
    double patience;                 // the limit of rt_wait for synchronous launches
    bool stuck;                      // a synchronous launch exceeded it
    tg_faults *called_faults;        // for called images; kept between launches
    rt_cuda_comm *comm;              // of a collective launch in progress, else NULL
    const rt_gpu_observer *observer; // of comm
    rt_ranks_call *call;             // calls functions of images, if tg_env.comm is set
    rt_replay *replay;               // receives the requests of host code, else NULL
    void *args[RT_DEVICE_ARGS];
    rt_map maps[RT_MAPS];   // sets of RT_MAP_WAYS places
    unsigned maps_replaced; // counts replaced maps
};

/// cuLaunchKernelEx if the driver has it. It takes about 0.1 us less than cuLaunchKernel.
static inline cu_result rt_gpu_ask(const rt_cuda *cu, const cu_launch *how, cu_function function,
                                   void *const *args) {
    void **a = (void **)(uintptr_t)args;
    if (cu->launch_ex) return cu->launch_ex(how, function, a, NULL);
    return cu->launch(function, how->grid[0], 1, 1, how->block[0], 1, 1, how->shared_bytes,
                      how->stream, a, NULL);
}

/// The launch parameters for a function, including its cluster.
cu_launch rt_gpu_how(const rt_gpu *g, const tg_device_function *f, uint32_t ctas,
                     cu_attribute *cluster);
/// Launches in the device's context. Returns a tg_run_status.
int32_t rt_gpu_launch(rt_gpu *g, const tg_device_function *f, cu_function function,
                      const cu_launch *how, void *const *args);
/// Whether a launch recorded by a capture uses the workspace.
bool rt_workspace_is_captured(const rt_space *s);
/// Reports a failed launch in words. gpu.device must be set.
int32_t rt_gpu_launch_failed(rt_gpu *g, const tg_device_function *f, const cu_launch *how,
                             cu_result error);
/// The 128 bytes of a tensor map, as in tg_env.tensormap; kept for later launches.
int32_t rt_gpu_map(rt_gpu *g, const tg_tensormap *how, void *data, const int64_t *dims,
                   const int64_t *strides, void *out);

/* ---- replay.c: launches without their host code ---------------------------------------------- */

enum { RT_REPLAY_LAUNCHES = 4, RT_REPLAY_ARGS = 64, RT_REPLAY_MAPS = 4, RT_REPLAY_AXES = 8 };

typedef struct rt_replay_map {
    const void *out; // the address that host code used
    const tg_tensormap *how;
    int slot; // the slot with its address
    void *data;
    int64_t dims[RT_REPLAY_AXES], strides[RT_REPLAY_AXES];
    _Alignas(64) unsigned char bytes[TG_TENSORMAP_BYTES];
} rt_replay_map;

/// The launch parameters in one cache line, followed by rarely used data.
typedef struct rt_replay_launch {
    _Alignas(64) cu_launch how; // complete except for the stream
    cu_function function;
    const tg_device_function *f;
    cu_attribute cluster;
} rt_replay_launch;

struct rt_replay {
    bool refused; // some request cannot be replayed
    bool numbers; // it can be replayed with any numbers
    bool enters;  // enters the device before launching: for HIP, or after a failure without it
    uint8_t n, n_maps;
    uint8_t first[RT_REPLAY_LAUNCHES]; // the first argument of each launch
    int n_args, n_slots;
    const tg_slot *slots; // of the entry; the same for all runs
    cu_context context;   // of the device
    rt_replay_launch launches[RT_REPLAY_LAUNCHES];
    _Alignas(64) void *args[RT_REPLAY_ARGS]; // pointers into slots, values and maps
    // Values from the stack. The map of a tensor without elements is not filled in and counts as a
    // value; the bytes after it are copied too.
    uint64_t values[RT_REPLAY_ARGS + TG_TENSORMAP_BYTES / 8];
    rt_replay_map maps[RT_REPLAY_MAPS];
};

_Static_assert(offsetof(rt_replay_launch, f) == 64 && offsetof(rt_replay, launches) == 64,
               "lines of the cache");
_Static_assert(RT_REPLAY_ARGS <= UINT8_MAX, "see `first`");

/// Starts recording the next launch. Its entry receives these slots.
void rt_replay_begin(rt_replay *r, const tg_slot *slots, int n);
void rt_replay_add_launch(rt_replay *r, const rt_gpu *g, const tg_device_function *f,
                          cu_function function, uint32_t ctas, void *const *args);
void rt_replay_add_map(rt_replay *r, const tg_tensormap *how, void *data, const int64_t *dims,
                       const int64_t *strides, const void *out);
/// Repeats the recorded requests with the current addresses in the slots. Returns a tg_run_status;
/// gpu.status has details.
int32_t rt_replay_run(rt_gpu *g, rt_replay *r, rt_device *device, void *stream);

/// Keeps a failed status until the end of the launch.
static inline int32_t rt_gpu_failed(rt_gpu *g, tg_status status) {
    g->status = status;
    return TG_RUN_DEVICE;
}

#endif
