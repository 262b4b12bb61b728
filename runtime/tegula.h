// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
/// Tegula's C API. It runs kernels that were compiled ahead of time (libtegula_rt, without a
/// compiler) or that are compiled at their first launch (libtegula).
///
/// Every function is thread-safe. None exits, aborts or prints. A function that fails returns a
/// status, and tg_last_error() gives the reason. Memory behind a pointer argument is read only
/// during the call.
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
    TG_ERROR_ARGUMENT = 1,    // an argument is missing, or has the wrong type, rank or device
    TG_ERROR_CONTRACT = 2,    // dims disagree, `require` or `assert` fails, or tensors overlap
    TG_ERROR_SOURCE = 3,      // the source does not compile
    TG_ERROR_NOT_FOUND = 4,   // no such kernel, file or variant
    TG_ERROR_MEMORY = 5,      // out of memory
    TG_ERROR_UNSUPPORTED = 6, // this build or this machine does not support it
    TG_ERROR_INTERNAL = 7,    // a bug in Tegula, or a fatal error of LLVM
    TG_ERROR_RANK = 8         // another rank failed, died or did not come
} tg_status;

/// Returns the status's name: "TG_OK", ...
const char *tg_status_name(tg_status status);
/// Returns the message of this thread's last failed call, with file, line and hint if known. Valid
/// until the thread's next failing call; never NULL.
const char *tg_last_error(void);
/// Returns the version: "0.1.0".
const char *tg_version(void);

/* ---- contexts ------------------------------------------------------------------------------ */

/// Threads and their memory. Kernels run on the calling thread's current context. By default that
/// is a shared context of the process, with one thread for each core.
typedef struct tg_context tg_context;

/// Options and hooks of a context. Each hook may be NULL. Threads that launch call the hooks. A
/// hook must not launch, and must not throw (C++).
typedef struct tg_options {
    size_t size; // sizeof(tg_options); later versions append fields
    int threads; // 0: one for each core that the process may use
    void *user;  // first argument of every hook
    /// Allocates memory for the runtime and the compiler, aligned to 64 bytes or more. Returns NULL
    /// if none is left.
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *memory, size_t bytes);
    /// Receives warnings and progress, one line a call, without newline. The library itself prints
    /// nothing. Without this hook, the reason for which a launch was not tuned is lost, and a
    /// launch that searches (TG_TUNE=block) is silent for its whole budget. With the hook, it
    /// reports its progress after half a second, and then every two seconds.
    void (*log)(void *user, const char *line);
    /// Receives the text that kernels `print`, from one thread at a time.
    void (*print)(void *user, const char *text);
    /// Replaces the context's own threads. It must call task(arg, i) for each i in [0, n), in any
    /// order, on any threads, and return when all calls have ended.
    void (*parallel)(void *user, size_t n, void (*task)(void *arg, size_t i), void *arg);
} tg_options;

/// Creates a context. options NULL: all defaults. TG_ERROR_ARGUMENT: `size` or the number of
/// threads is wrong.
tg_status tg_context_create(const tg_options *options, tg_context **out);
/// Destroys a context. No kernel may be running on it, its modules must be destroyed, and no other
/// thread may have it as its current context.
void tg_context_destroy(tg_context *context);
/// Makes context the calling thread's current one (NULL: the shared one). Returns the previous one.
tg_context *tg_context_use(tg_context *context);
int tg_context_threads(const tg_context *context);
/// Sets how many bytes of workspace each phase of a launch may use to be faster: for copies of
/// operands into aligned rows, and for the partial sums of split products. Without room, the phase
/// runs slower code. A launch keeps the workspaces of all its phases until it ends, so it may use
/// more than the limit. It fails if memory within the limit cannot be allocated. The limit holds
/// for launches that begin or are captured later, and not for tensors that a kernel declares
/// itself, or needs for its result. Contexts begin with TG_WORKSPACE_LIMIT. context NULL: the
/// calling thread's current one. TG_ERROR_ARGUMENT: bytes is negative.
tg_status tg_context_set_workspace_limit(tg_context *context, int64_t bytes);
/// Returns the limit. context as above.
int64_t tg_context_workspace_limit(const tg_context *context);
#define TG_WORKSPACE_LIMIT ((int64_t)512 << 20)

/* ---- arguments ----------------------------------------------------------------------------- */

// Tensors are DLPack's. Element types: bool is kDLBool of 8 bits. i4 and u4 are kDLInt and kDLUInt
// of 4 bits; two share a byte, the first in its lower half. bf16 is kDLBfloat. f8e4m3 and f8e5m2
// are kDLFloat8_e4m3fn and kDLFloat8_e5m2. Strides may be NULL (dense), 0 (if the kernel only reads
// the tensor) or negative. Data of an empty tensor may be NULL. A written tensor must not overlap
// another one, unless both are the same view and the kernel can work in place.

/// The argument of a launch for one parameter. The functions below make it.
typedef enum tg_arg_kind { TG_ARG_TENSOR, TG_ARG_INT, TG_ARG_FLOAT } tg_arg_kind;
typedef struct tg_arg {
    tg_arg_kind kind;
    union {
        const DLTensor *tensor; // NULL: an optional tensor that is missing
        int64_t i;              // for integers and bool; float parameters take it, too
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

/// Makes a dense row-major tensor in host memory. The tensor keeps the pointer to shape.
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

/// Runs a kernel on the current context, to its end. Any number of threads may launch at once, even
/// on one context; the context's threads help one launch at a time. args: one for each parameter,
/// in the order of the source, constants included. The first launch of a new kind compiles
/// (modules), or fails with TG_ERROR_NOT_FOUND and a list of the compiled kinds (objects).
///
/// With tensors of a GPU (kDLCUDA, kDLROCM; all on one device), the kernel runs there, on the
/// default stream. The call returns once the work is queued, and later calls report errors of the
/// device.
///
/// All ranks launch a kernel with symmetric tensors together (tg_context_set_comm). TG_ERROR_RANK:
/// another rank failed, died or did not come. TG_ERROR_CONTRACT: another rank launches something
/// else. After a failed launch the group can be used again, unless a rank has died.
tg_status tg_launch(tg_kernel *kernel, const tg_arg *args, int n);
/// Runs a kernel on a stream: a cudaStream_t, CUstream or hipStream_t of the tensors' device; NULL
/// is the default stream. If the stream is being captured, the launch becomes part of its graph.
/// Tensors of the CPU ignore the stream.
tg_status tg_launch_on(tg_kernel *kernel, const tg_arg *args, int n, void *stream);
/// Does all work that a launch with such arguments needs, without running the kernel: compiles,
/// loads the code on the device, and, with tuning that blocks, searches. Fails as the launch would.
tg_status tg_prepare(tg_kernel *kernel, const tg_arg *args, int n);

/// Describes the setting that a launch with such arguments runs now, and its reason, in one line:
/// "BM=64 BN=128; tuned for these extents: 12.1 us where the default takes 14 us", "BM=64 BN=64; by
/// the cost model". Neither compiles nor launches. The text is cut to `size` bytes, including its
/// NUL. TG_ERROR_NOT_FOUND: a launch would have to compile first. TG_ERROR_UNSUPPORTED: the kernel
/// has symmetric tensors, whose ranks choose together.
tg_status tg_kernel_decision(tg_kernel *kernel, const tg_arg *args, int n, char *text, size_t size);

enum tg_inferred_flags {
    TG_INFERRED_OPTIONAL = 1, // the parameter takes NULL
    TG_INFERRED_WRITTEN = 2,  // the kernel may write the tensor
    TG_INFERRED_READ = 4,     // a written tensor is read or added to, so it needs a first value
    TG_INFERRED_KNOWN = 8     // type, rank and shape are known
};

/// The tensor of a parameter, as far as the arguments determine it.
typedef struct tg_inferred {
    int flags; // enum tg_inferred_flags; 0: the parameter is a number
    DLDataType type;
    int rank;
    int64_t shape[8];
} tg_inferred;

/// Infers the types and shapes of results. args: as for a launch, but tensors may be missing
/// (tg_none); data of given tensors are not read. out: n elements, one for each parameter. A shape
/// follows from the dims of given tensors, from numbers, from constants of the file, and from
/// conditions `require NAME == expression`. A type parameter that no argument settles has the first
/// type of its list, or f64 if the list has it and a given tensor is f64. An optional tensor that
/// is missing is inferred too, if it can be; the caller decides whether to pass it.
///
/// TG_ERROR_ARGUMENT: an argument has the wrong type, rank or device, or the shape of a missing
/// tensor that is not optional does not follow. TG_ERROR_CONTRACT: dims of given tensors disagree.
/// TG_ERROR_UNSUPPORTED: the kernel is an object's, or has symmetric tensors.
tg_status tg_kernel_infer(tg_kernel *kernel, const tg_arg *args, int n, tg_inferred *out);

/// Returns the text of the `///` lines above the kernel in the source, joined by newlines. "": the
/// kernel has none, or is an object's. It is valid as long as the kernel.
const char *tg_kernel_doc(tg_kernel *kernel);
/// Returns the name in the source. (For a NULL kernel, these four functions return "", 0 or NULL.)
const char *tg_kernel_name(const tg_kernel *kernel);
/// Returns the header: "kernel softmax<T: float>(x: T[R, N], y: T[R, N])".
const char *tg_kernel_signature(const tg_kernel *kernel);
int tg_kernel_params(const tg_kernel *kernel);
/// Returns the name of parameter i, or NULL.
const char *tg_kernel_param(const tg_kernel *kernel, int i);

/* ---- GPUs ---------------------------------------------------------------------------------- */

/// Returns the number of GPUs that the process can use. 0 with a reason in tg_last_error(): no
/// driver. All GPUs are of one maker: TG_GPUS=cuda or hip chooses it; otherwise NVIDIA's GPUs are
/// used if any exist, else AMD's.
int tg_device_count(void);

typedef struct tg_device_info {
    size_t size;      // sizeof(tg_device_info), set by the caller
    const char *name; // "NVIDIA H200"; valid as long as the process
    int capability;   // 90: compute capability 9.0; for AMD, 0x942: gfx942
    int processors;   // SMs, or compute units
    int l2_bytes;
    int shared_bytes; // the most that one CTA can have
    int driver;       // driver version: 13000 for CUDA 13.0
} tg_device_info;
/// Fills *out. TG_ERROR_ARGUMENT: the device does not exist. TG_ERROR_UNSUPPORTED: no driver.
tg_status tg_device_describe(int device, tg_device_info *out);
/// Waits until all work of the stream has ended, and reports its errors. TG_ERROR_RANK: a wait for
/// another rank failed.
tg_status tg_device_synchronize(int device, void *stream);

/* ---- several ranks -------------------------------------------------------------------------- */

/// The end of one rank in a group. All ranks launch the same kernels in the same order, each on its
/// own context. Kernels with symmetric tensors (`sym`) need a context with such an end.
typedef struct tg_comm tg_comm;

enum tg_comm_device {
    TG_COMM_CPU = -1,
    TG_COMM_GPU = -2 // the GPU of the rank's number; more ranks than GPUs share them in turn
};

typedef struct tg_comm_options {
    size_t size; // sizeof(tg_comm_options)
    /// "threads", "processes", "openshmem", "nvshmem". NULL: TG_COMM; else openshmem if oshrun
    /// started the process; else processes if TG_RANK and TG_RANKS are set.
    const char *engine;
    /// The place where ranks meet: any name for threads, a path or host:port for processes. NULL:
    /// TG_MEET.
    const char *meet;
    int rank, ranks; // for threads and processes; -1 and 0: TG_RANK, TG_RANKS
    int device;      // GPU whose memory is shared, or enum tg_comm_device
    size_t heap;     // bytes of symmetric memory a rank; 0: TG_COMM_HEAP, else 1 GiB
    int timeout_ms;  // limit of every wait; 0: TG_COMM_TIMEOUT_MS, else 30000
} tg_comm_options;

/// Creates this rank's end. Collective: returns when all ranks have come. options NULL: all options
/// come from the environment. TG_ERROR_ARGUMENT: an option is wrong. TG_ERROR_CONTRACT: ranks give
/// different options. TG_ERROR_UNSUPPORTED: the engine's library or the GPU is missing.
/// TG_ERROR_RANK: a rank did not come in time.
///
/// A rank makes the collective calls of a group one at a time, and all ranks make them in the same
/// order. Launches of kernels with symmetric tensors are collective calls.
tg_status tg_comm_create(const tg_comm_options *options, tg_comm **out);
/// Destroys this rank's end. Collective. No kernel may be running, and no context may use the group
/// any more. Allowed for NULL, and after a rank has died.
void tg_comm_destroy(tg_comm *comm);
int tg_comm_rank(const tg_comm *comm);
int tg_comm_ranks(const tg_comm *comm);
/// Makes launches on the context launches of this rank; comm NULL: of no rank. context NULL: the
/// calling thread's current one. If the context was created without a number of threads, it takes
/// its rank's share of the cores. No kernel may be running on it.
tg_status tg_context_set_comm(tg_context *context, tg_comm *comm);
/// Waits until all ranks have come and all earlier launches have ended. Collective. TG_ERROR_RANK:
/// a rank has failed, has died or did not come in time.
tg_status tg_comm_barrier(tg_comm *comm);

enum tg_sym_flags {
    TG_SYM_LEAN = 1 // no room for other ranks' shards; kernels read them in place
};
/// Allocates a dense tensor in symmetric memory, filled with zeros. Collective: every rank passes
/// the same type and shape. out: the own shard; its shape is valid until tg_sym_free. A view into
/// it is symmetric, too, if every rank passes the same view. TG_ERROR_MEMORY: the heap is full on
/// some rank. TG_ERROR_CONTRACT: ranks ask for different tensors.
tg_status tg_sym_alloc(tg_comm *comm, DLDataType type, int rank, const int64_t *shape, int flags,
                       DLTensor *out);
/// Frees such a tensor. Collective. All work that uses it must have ended. TG_ERROR_ARGUMENT: the
/// tensor is not one of tg_sym_alloc.
tg_status tg_sym_free(tg_comm *comm, const DLTensor *tensor);

/* ---- PyTorch ------------------------------------------------------------------------------- */

/// The implementation of an operator of PyTorch by a kernel.
typedef struct tg_torch_operator tg_torch_operator;

/// Makes a kernel the implementation of an operator for tensors of the CPU and of GPUs (the
/// dispatch keys CPU and CUDA). The process must have loaded PyTorch. name:
/// "namespace::name". The program defines the operator's schema, before or after: by TORCH_LIBRARY
/// in C++, or by torch.library. arguments: for each argument of the schema, the number of the
/// kernel's parameter. A tensor is a Tensor, or Tensor? if it is optional; numbers are int
/// (SymInt), float and bool. results: likewise, for each result of the schema, a written tensor.
/// The call allocates results, as tg_kernel_infer describes them. Other parameters must be
/// optional, and are missing.
///
/// A call runs on PyTorch's current stream. It throws c10::Error with the message of a launch that
/// fails, and if the schema has another number of arguments or results. It cannot see that the
/// schema has other types: a call then has undefined behaviour. The kernel must outlive the
/// operator. TG_ERROR_ARGUMENT: a name or a number is wrong. TG_ERROR_UNSUPPORTED: PyTorch is not
/// loaded or too old, a number has an open type, or there are too many parameters (32) or operators
/// (256).
tg_status tg_torch_operator_create(tg_kernel *kernel, const char *name, const int *arguments,
                                   int n_arguments, const int *results, int n_results,
                                   tg_torch_operator **out);
/// Removes the implementation, and waits for calls of it that are running. NULL is allowed.
void tg_torch_operator_destroy(tg_torch_operator *op);

/* ---- modules: libtegula alone -------------------------------------------------------------- */

/// The kernels of one source file. Kernels of imported files can be called by them, but are
/// launched from a module of their own file.
typedef struct tg_module tg_module;

/// Options for compiling a module.
typedef struct tg_module_options {
    size_t size;          // sizeof(tg_module_options)
    const char *paths;    // folders for imports, separated by ':'; NULL: the file's folder
    const char *settings; // pinned tune values and schedule axes, "BM=64 plan=pull"; NULL: none
    int check;            // check bounds, asserts and divisions, like --check
    int debug;            // emit debug information
    const char *target;   // NULL: the tensors' device; "sim:sm_90a" simulates one on the CPU
    const char *codegen;  // for NVIDIA code: "nvvm", "nvptx", "auto"; NULL: TG_CODEGEN, else auto
    const char *tune;     // "off", "strict", "block", "background", "exhaustive"; NULL: TG_TUNE
    int tune_budget_ms;   // for one search; 0: TG_TUNE_BUDGET_MS, else the mode's default
} tg_module_options;

/// Reads and checks a source; launches compile its kernels. name is for messages and need not be a
/// file. options may be NULL. TG_ERROR_SOURCE: tg_last_error() has all messages.
tg_status tg_module_from_source(const char *source, size_t length, const char *name,
                                const tg_module_options *options, tg_module **out);
/// Reads and checks a file. "std/softmax.teg" is a file of the library, wherever the program runs.
tg_status tg_module_from_file(const char *path, const tg_module_options *options, tg_module **out);
/// Destroys a module. None of its kernels may be running.
void tg_module_destroy(tg_module *module);
int tg_module_kernels(const tg_module *module);
/// Returns the kernel by its number in the file; NULL: no such number. It lives as long as the
/// module.
tg_kernel *tg_module_kernel_at(tg_module *module, int i);
/// Finds a kernel by name. NULL finds the only one. TG_ERROR_NOT_FOUND lists the names.
tg_status tg_module_kernel(tg_module *module, const char *name, tg_kernel **out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
