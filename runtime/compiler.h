// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tg_compiler is the table through which the runtime requests missing code, without knowing the
// compiler. The runtime alone (libtegula_rt) never fills it in. The other declarations are the
// runtime's services for the compiler and driver.
#ifndef RUNTIME_COMPILER_H
#define RUNTIME_COMPILER_H

#include "runtime/abi.h"
#include "runtime/tegula.h"

#include <stdatomic.h>
#include <stdbool.h>

/// An argument of the launch that needs code. Packs are not merged; strides of a tensor are never
/// NULL.
typedef struct tg_actual {
    uint8_t null;       // an optional tensor that is missing
    uint8_t code, bits; // DLPack's type of a tensor or scalar
    int8_t rank;
    const int64_t *shape, *strides;
    uint8_t align;          // of a tensor: tg_alignment
    int64_t value;          // of an integer, bool or const parameter; of a float, its bits
    const DLTensor *tensor; // the caller's, or NULL
    uint8_t symmetric;      // the first dimension is the ranks'; `tensor` is the own part
} tg_actual;

/// The ranks of a collective launch.
typedef struct tg_ranks {
    int n, rank;        // number of ranks, and this one's number; n 0: no group
    int threads;        // of each rank, on the CPU
    int gpus;           // number of different GPUs of all ranks
    const int *devices; // of each rank, in this rank's numbering; NULL: the CPU
    bool near;          // processes started by this one can stand in for the ranks
} tg_ranks;

/// A launch that needs code.
typedef struct tg_wanted {
    int capability; // of the GPU with the tensors (90; 0x942 for gfx942); 0: the CPU
    int device;     // number of that GPU, or -1
    void *stream;   // of the launch on that GPU
    uint32_t home;  // tg_variant.device of variants tuned for this launch
    bool captured;  // the launch is recorded, not run: nothing may wait for the device
    int n;
    const tg_actual *args; // one for each parameter; symmetric ones include the dimension of ranks
    bool collective;       // all ranks run the same variant; rank 0 chooses
    tg_ranks ranks;        // of a collective launch
    tg_comm *comm;         // of a collective launch; or NULL
    bool unmapped;         // the memory of other ranks is not accessible in place
    const char *config;    // tg_variant.config chosen by rank 0; NULL: not chosen yet
} tg_wanted;

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct tg_compiler {
    /// Makes a variant that is right for these arguments, with hints for their extents. The variant
    /// lives as long as the kernel. Fails through tg_fail.
    tg_status (*compile)(void *user, const tg_wanted *wanted, const tg_variant **out);
    /// Gets the measured seconds of a launch of a tuned variant and of the default. False: not
    /// measured. NULL: never measured.
    bool (*times)(void *user, const tg_variant *variant, double *seconds, double *standard);
    /// Infers the tensors of all parameters from the given ones (tg_kernel_infer). types: of the
    /// type parameters, code << 8 | bits; 0: not settled. Fails through tg_fail.
    tg_status (*infer)(void *user, const tg_actual *args, const uint16_t *types, tg_inferred *out);
    /// Returns the kernel's `///` lines, joined by newlines; "" without any.
    const char *(*doc)(void *user);
} tg_compiler;

/// Tells ranks that wait for this rank's choice that it is at work, so that their time limit starts
/// anew.
void tg_comm_busy(tg_comm *comm);

/// Initialises a kernel whose missing variants `compiler` makes. info, compiler and user must
/// outlive it.
tg_status tg_kernel_open(tg_kernel *kernel, const tg_kernel_info *info, const tg_compiler *compiler,
                         void *user);
/// Adds a variant, which must live as long as the kernel. Other threads may launch the kernel
/// meanwhile. From now on launches take the variant if it comes first (tg_hint); so a tuned one
/// replaces the variant that it was tuned from.
tg_status tg_kernel_adopt(tg_kernel *kernel, const tg_variant *variant);
/// Returns the number of launches: approximate, with an upper limit. The kernel must be open.
int tg_kernel_launches(const tg_kernel *kernel);
/// Frees all state that launches have left in the kernel.
void tg_kernel_close(tg_kernel *kernel);

/// A search that a launch has put off (background.c). A thread of low priority runs it once the
/// process has lived for two seconds and the kernel was launched twenty times. The queue takes
/// ownership.
typedef struct tg_queued_search tg_queued_search;
struct tg_queued_search {
    tg_queued_search *next;
    const tg_kernel *kernel;
    const void *owner; // must exist while the search runs
    uint64_t hash;     // identifies the search; the queue holds one of a kind
    double not_before; // on the clock of rt_seconds
    /// Runs in that thread; returns soon after *stop is set. False: run it again later.
    bool (*run)(tg_queued_search *queued, const atomic_bool *stop);
    void (*release)(tg_queued_search *queued);
};
/// False: the queue has such a search or is full, or the process is exiting.
bool tg_queue_wanted(uint64_t hash);
/// Adds a search to the queue, which releases it in the end.
void tg_queue_search(tg_queued_search *queued);
/// Drops all queued searches of an owner. If one of them is running, stops it and waits for its
/// end.
void tg_queue_cancel(const void *owner);

/// Returns the seconds in which the driver loaded the image on a device; for PTX, compiled it.
/// Negative: the image is not loaded.
double tg_image_load_seconds(const tg_image *image, int device);
/// Loads the image unless it is loaded, so that no launch has to.
tg_status tg_image_prepare(tg_image *image, int device);
/// Unloads the image from all devices. Must precede freeing its memory.
void tg_image_unload(tg_image *image);

/// Sets tg_last_error() of this thread and returns status.
tg_status tg_fail(tg_status status, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

/// Returns the number of forks between the first process and this one (fork_lock.h).
int tg_forks(void);
/// Enclose code that a child of a fork cannot continue, because it has locks of its own: the
/// libraries of a compiler.
void tg_fork_unsafe_begin(void);
void tg_fork_unsafe_end(void);
/// Whether another thread of the parent was in such code when this process was forked.
bool tg_fork_was_unsafe(void);

/// Allocates by the current context's hooks, aligned to 64 bytes.
void *tg_allocate(size_t bytes);
void tg_release(void *memory, size_t bytes);
/// Sends a line to the current context's log hook.
void tg_log(const char *line);

/// Returns the highest level of this CPU and its operating system. TG_LEVEL=base|v3|v4|amx in the
/// environment caps it.
enum tg_level tg_cpu_level(void);
/// Gets the folder for kernels and results: TG_CACHE, or else from XDG_CACHE_HOME or HOME. False:
/// no folder is set, or TG_CACHE is `off`.
bool tg_cache_folder(char *out, size_t size);
/// "base", "v3", "v4", "amx": the names in TG_LEVEL.
const char *tg_level_name(enum tg_level level);
/// The CPU's name as its maker gives it: "Intel(R) Xeon(R) Platinum 8481C".
enum { TG_CPU_NAME = 49 };
void tg_cpu_name(char out[TG_CPU_NAME]);
/// Describes a device so that devices of different speed have different texts. GPU: name,
/// processors, clocks, caches. CPU (-1): name, model, and number of threads.
enum { TG_DEVICE_TEXT = 256 };
void tg_device_text(int device, int threads, char out[TG_DEVICE_TEXT]);
/// A hash of such a text: tg_variant.device. Never 0.
uint32_t tg_device_hash(const char *text);

/// Tuning results of objects on disk (tune_file.c). Each kernel and device has a file; its name
/// begins with this.
#define TG_TUNED_FILE "tuned-"
typedef struct tg_tuned_file {
    char about[TG_DEVICE_TEXT + 64]; // "softmax on AMD EPYC, 2 threads"
    int sound, damaged;              // numbers of results
} tg_tuned_file;
/// Reads such a file. With `repair`, damaged results are removed, and a file without any sound ones
/// is deleted. False, with errno: it cannot be read or written.
bool tg_tuned_file_read(const char *path, bool repair, tg_tuned_file *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
