// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/// Tegula's C API: run kernels that were compiled ahead of time (libtegula_rt, no compiler inside)
/// or that are compiled on their first launch (libtegula).
///
/// Every function is thread-safe. None exits, aborts or prints: what fails returns a status, and
/// tg_last_error() says why. Pointers that a call takes are read during the call alone.
#ifndef TEGULA_H
#define TEGULA_H

#include <stddef.h>
#include <stdint.h>

#include "tegula/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define TG_VERSION_MAJOR 0
#define TG_VERSION_MINOR 1

/* ---- status -------------------------------------------------------------------------------- */

typedef enum tg_status {
    TG_OK = 0,
    TG_ERROR_ARGUMENT = 1,    // an argument has the wrong type, rank, device, or is missing
    TG_ERROR_CONTRACT = 2,    // dims disagree, `require` or `assert` fails, tensors overlap
    TG_ERROR_SOURCE = 3,      // the source does not compile
    TG_ERROR_NOT_FOUND = 4,   // no such kernel, file or variant
    TG_ERROR_MEMORY = 5,      // out of memory
    TG_ERROR_UNSUPPORTED = 6, // this build or this machine cannot do it
    TG_ERROR_INTERNAL = 7,    // a mistake in Tegula, or a fatal error of LLVM
    TG_ERROR_RANK = 8         // another rank failed, has died or did not come
} tg_status;

/// "TG_OK", ...
const char *tg_status_name(tg_status status);
/// What the last failed call of this thread said, with file, line and hint where there are some.
/// Valid until the next failing call of this thread; never NULL.
const char *tg_last_error(void);
/// "0.1.0"
const char *tg_version(void);

/* ---- contexts ------------------------------------------------------------------------------ */

/// Threads and their memory. Kernels run on the calling thread's current context, by default one
/// that the process shares and that starts with all cores.
typedef struct tg_context tg_context;

/// Hooks, each may be NULL. Threads that launch call them; they may not launch, nor throw (C++).
typedef struct tg_options {
    size_t size; // sizeof(tg_options): later versions append fields
    int threads; // 0: one a core that the process may use
    void *user;  // first argument of every hook
    /// Memory of the runtime and the compiler, aligned to 64 bytes or more; NULL where none is
    /// left.
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *memory, size_t bytes);
    /// Warnings and progress, a line each without newline. The library prints nothing itself: where
    /// this is NULL nobody hears why a launch was not tuned, and one that searches (TG_TUNE=block)
    /// is silent for its whole budget. With a hook it says half a second after it began, and every
    /// two seconds, how far it is.
    void (*log)(void *user, const char *line);
    /// What kernels `print`; from one thread at a time.
    void (*print)(void *user, const char *text);
    /// Calls task(arg, i) for each i in [0, n), in any order, on any threads; returns when all have
    /// ended. Instead of threads of the context's own.
    void (*parallel)(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg);
} tg_options;

/// options NULL: all defaults. TG_ERROR_ARGUMENT of a wrong `size` or number of threads.
tg_status tg_context_create(const tg_options *options, tg_context **out);
/// No kernel may run on it, modules made with it must be gone, and no other thread may have it as
/// its current one.
void tg_context_destroy(tg_context *context);
/// Makes context the calling thread's current one (NULL: the shared one); returns the one before.
tg_context *tg_context_use(tg_context *context);
int tg_context_threads(const tg_context *context);

/* ---- arguments ----------------------------------------------------------------------------- */

// Tensors are DLPack's. Element types: bool is kDLBool of 8 bits; i4 and u4 are kDLInt and kDLUInt
// of 4 bits, two in a byte, the first in its lower half; bf16 is kDLBfloat; f8e4m3 and f8e5m2 are
// kDLFloat8_e4m3fn and kDLFloat8_e5m2. Strides may be NULL (dense), 0 (where the kernel only reads)
// or negative. Data may be NULL where there are no elements. A tensor that is written may not
// overlap another, unless both are one view and the kernel can work in place.

/// What a launch passes for one parameter. Make it with the functions below.
typedef enum tg_arg_kind { TG_ARG_TENSOR, TG_ARG_INT, TG_ARG_FLOAT } tg_arg_kind;
typedef struct tg_arg {
    tg_arg_kind kind;
    union {
        const DLTensor *tensor; // NULL: an optional tensor that is not there
        int64_t i;              // of integers and bool; floats take it, too
        double f;
    } as;
} tg_arg;

static inline tg_arg tg_tensor(const DLTensor *tensor) {
    tg_arg a;
    a.kind = TG_ARG_TENSOR;
    a.as.tensor = tensor;
    return a;
}
static inline tg_arg tg_none(void) {
    return tg_tensor(NULL);
}
static inline tg_arg tg_int(int64_t value) {
    tg_arg a;
    a.kind = TG_ARG_INT;
    a.as.i = value;
    return a;
}
static inline tg_arg tg_float(double value) {
    tg_arg a;
    a.kind = TG_ARG_FLOAT;
    a.as.f = value;
    return a;
}

/// A dense row-major tensor in the memory of this machine; shape is kept as a pointer.
static inline DLTensor tg_dense(const void *data, DLDataTypeCode code, int bits, int rank,
                                const int64_t *shape) {
    DLTensor t;
    t.data = (void *)(uintptr_t)data;
    t.device.device_type = kDLCPU;
    t.device.device_id = 0;
    t.ndim = rank;
    t.dtype.code = (uint8_t)code;
    t.dtype.bits = (uint8_t)bits;
    t.dtype.lanes = 1;
    t.shape = (int64_t *)(uintptr_t)shape;
    t.strides = NULL;
    t.byte_offset = 0;
    return t;
}

/* ---- kernels ------------------------------------------------------------------------------- */

/// A kernel of an object file or of a module.
typedef struct tg_kernel tg_kernel;

/// Runs a kernel on the current context, to its end. Any number of threads may launch at once, also
/// on one context; threads of the context help one launch at a time. args: one a parameter, in the
/// order of the source, constants included. A first launch of a new kind compiles (modules) or
/// fails with TG_ERROR_NOT_FOUND and what there is (objects).
///
/// Tensors of a GPU (kDLCUDA, kDLROCM; all of one device) make it a launch there, on the default
/// stream: it returns when the work is on its way, and errors of the device show in a later call.
///
/// Kernels with symmetric tensors are launched by all ranks together (tg_context_set_comm).
/// TG_ERROR_RANK: another rank failed, did not come, or died; TG_ERROR_CONTRACT: it launches
/// something else. The group can be used again after a launch that failed, unless a rank has died.
tg_status tg_launch(tg_kernel *kernel, const tg_arg *args, int n);
/// The same on a stream: a cudaStream_t, CUstream or hipStream_t of the tensors' device, NULL for
/// the default one. A stream that is being captured gets the launch into its graph. For tensors of
/// the CPU the stream means nothing.
tg_status tg_launch_on(tg_kernel *kernel, const tg_arg *args, int n, void *stream);
/// Prepares what a launch with such arguments needs, without running it: compiles, loads the code
/// on the device, and with tuning that blocks searches. Fails as the launch would.
tg_status tg_prepare(tg_kernel *kernel, const tg_arg *args, int n);

/// What a launch with such arguments runs now, and why, as one line: "BM=64 BN=128; tuned for these
/// extents: 12.1 us where the default takes 14 us", "BM=64 BN=64; by the cost model". Compiles
/// nothing and launches nothing. The text is cut to `size` bytes, its NUL included.
/// TG_ERROR_NOT_FOUND: a launch would have to compile first. TG_ERROR_UNSUPPORTED of kernels with
/// symmetric tensors, whose ranks choose together.
tg_status tg_kernel_decision(tg_kernel *kernel, const tg_arg *args, int n, char *text, size_t size);

/// The name in the source. (Of a NULL kernel these four say "", 0 and NULL.)
const char *tg_kernel_name(const tg_kernel *kernel);
/// "kernel softmax<T: float>(x: T[R, N], y: T[R, N])"
const char *tg_kernel_signature(const tg_kernel *kernel);
int tg_kernel_params(const tg_kernel *kernel);
/// Name of parameter i, or NULL.
const char *tg_kernel_param(const tg_kernel *kernel, int i);

/* ---- GPUs ---------------------------------------------------------------------------------- */

/// How many GPUs the process can use; 0, with tg_last_error() saying why, where there is no driver.
/// They are of one maker: of TG_GPUS=cuda or hip, else NVIDIA's where there are any, else AMD's.
int tg_device_count(void);

typedef struct tg_device_info {
    size_t size;      // sizeof(tg_device_info), set by the caller
    const char *name; // "NVIDIA H200"; lasts as long as the process
    int capability;   // 90: compute capability 9.0; of AMD's 0x942: gfx942
    int processors;   // SMs, compute units
    int l2_bytes;
    int shared_bytes; // of one CTA at most
    int driver;       // its version: 13000 of CUDA 13.0
} tg_device_info;
/// TG_ERROR_ARGUMENT: there is no such device; TG_ERROR_UNSUPPORTED: no driver.
tg_status tg_device_describe(int device, tg_device_info *out);
/// Waits until all work of the stream is done, and reports what went wrong in it; TG_ERROR_RANK of
/// a wait for another rank.
tg_status tg_device_synchronize(int device, void *stream);

/* ---- several ranks -------------------------------------------------------------------------- */

/// One rank's end of a group whose members launch the same kernels in the same order, each with its
/// own context. Kernels with symmetric tensors (`sym`) run on contexts that have one.
typedef struct tg_comm tg_comm;

enum tg_comm_device {
    TG_COMM_CPU = -1,
    TG_COMM_GPU = -2 // that of the rank's number; where there are fewer, ranks share them in turn
};

typedef struct tg_comm_options {
    size_t size; // sizeof(tg_comm_options)
    /// "threads", "processes", "openshmem", "nvshmem"; NULL: TG_COMM, else openshmem where oshrun
    /// started the process, else processes where TG_RANK and TG_RANKS are set.
    const char *engine;
    /// Where ranks meet: any name for threads, a path or host:port for processes; NULL: TG_MEET.
    const char *meet;
    int rank, ranks;  // of threads and processes; -1 and 0: TG_RANK, TG_RANKS
    int device;       // GPU whose memory is shared, or one of tg_comm_device
    size_t heap;      // bytes of symmetric memory a rank; 0: TG_COMM_HEAP, else 1 GiB
    int timeout_ms;   // of every wait; 0: TG_COMM_TIMEOUT_MS, else 30000
} tg_comm_options;

/// Collective: returns when all ranks have come. options NULL: all from the environment.
/// TG_ERROR_ARGUMENT of wrong options, TG_ERROR_CONTRACT where ranks give different ones,
/// TG_ERROR_UNSUPPORTED where the engine's library or the GPU is missing, TG_ERROR_RANK where a
/// rank does not come in time. Collective calls of one group come one at a time, in the same order
/// on all ranks; launches of kernels with symmetric tensors are among them.
tg_status tg_comm_create(const tg_comm_options *options, tg_comm **out);
/// Collective. No kernel may be running, and no context may have it any more. NULL is allowed, and
/// a group of which a rank has died.
void tg_comm_destroy(tg_comm *comm);
int tg_comm_rank(const tg_comm *comm);
int tg_comm_ranks(const tg_comm *comm);
/// Launches on the context are those of this rank from now on; comm NULL: of none. context NULL:
/// the calling thread's current one. A context that was not told its threads takes its rank's part
/// of the cores. No kernel may be running on it.
tg_status tg_context_set_comm(tg_context *context, tg_comm *comm);
/// Collective: waits until all ranks have come and what was launched before has run.
/// TG_ERROR_RANK: one did not come in time, has failed or has died.
tg_status tg_comm_barrier(tg_comm *comm);

enum tg_sym_flags {
    TG_SYM_LEAN = 1 // without room for the other ranks' shards: kernels read them in place
};
/// Collective: a dense tensor in symmetric memory, zero at first; every rank gives the same type
/// and shape. out: the own shard; its shape is kept until tg_sym_free. Views into it are symmetric,
/// too, if every rank passes the same one. TG_ERROR_MEMORY where the heap has no room on some rank,
/// TG_ERROR_CONTRACT where ranks ask for different tensors.
tg_status tg_sym_alloc(tg_comm *comm, DLDataType type, int rank, const int64_t *shape, int flags,
                       DLTensor *out);
/// Collective. Work that uses it must be done. TG_ERROR_ARGUMENT: it is no tensor of tg_sym_alloc.
tg_status tg_sym_free(tg_comm *comm, const DLTensor *tensor);

/* ---- modules: libtegula alone -------------------------------------------------------------- */

/// The kernels of one source file. Those that it imports can be called by them, and launched from a
/// module of their own file.
typedef struct tg_module tg_module;

/// How a module is compiled.
typedef struct tg_module_options {
    size_t size;          // sizeof(tg_module_options)
    const char *paths;    // where imports are looked for, separated by ':'; NULL: beside the file
    const char *settings; // tune values and schedule axes to pin, "BM=64 plan=pull"; NULL: chosen
    int check;            // bounds, asserts and divisions are checked, as by --check
    int debug;            // debug information
    const char *target;   // NULL: that of the tensors; "sim:sm_90a" simulates one on the CPU
    const char *codegen;  // of NVIDIA code: "nvvm", "nvptx", "auto"; NULL: TG_CODEGEN, else auto
    const char *tune;     // "off", "strict", "block", "background", "exhaustive"; NULL: TG_TUNE
    int tune_budget_ms;   // of one search; 0: TG_TUNE_BUDGET_MS, else that of the mode
} tg_module_options;

/// Reads and checks a source. Kernels are compiled when they are launched. name stands in messages;
/// it need not be a file. options may be NULL. TG_ERROR_SOURCE: tg_last_error() has every message.
tg_status tg_module_from_source(const char *source, size_t length, const char *name,
                                const tg_module_options *options, tg_module **out);
/// "std/softmax.teg" is a file of the library, wherever the program runs.
tg_status tg_module_from_file(const char *path, const tg_module_options *options, tg_module **out);
/// No kernel of it may be running.
void tg_module_destroy(tg_module *module);
int tg_module_kernels(const tg_module *module);
/// The kernel by its number in the file; NULL where there is none. It lives as long as the module.
tg_kernel *tg_module_kernel_at(tg_module *module, int i);
/// By name; NULL finds the only one. TG_ERROR_NOT_FOUND lists what there is.
tg_status tg_module_kernel(tg_module *module, const char *name, tg_kernel **out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
