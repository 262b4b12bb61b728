// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the runtime asks for code that it does not have, without knowing who makes it: the one table
// between runtime and compiler. The runtime alone (libtegula_rt) never fills it in.
#ifndef RUNTIME_COMPILER_H
#define RUNTIME_COMPILER_H

#include "runtime/abi.h"
#include "runtime/tegula.h"

#include <stdatomic.h>
#include <stdbool.h>

/// An argument of the launch that needs code: packs not merged, strides never NULL for a tensor.
typedef struct tg_actual {
    uint8_t null;       // an optional tensor that is not there
    uint8_t code, bits; // DLPack's type of a tensor or scalar
    int8_t rank;
    const int64_t *shape, *strides;
    uint8_t align;          // of a tensor: tg_alignment
    int64_t value;          // of an integer, bool or const parameter; of a float its bits
    const DLTensor *tensor; // the caller's, or NULL
    uint8_t symmetric;      // its first dimension is the ranks', of which `tensor` is the own part
} tg_actual;

/// The ranks of a collective launch.
typedef struct tg_ranks {
    int n, rank;        // how many, which one this is; 0: nobody has met
    int threads;        // of each, on the CPU
    int gpus;           // that they have, all together
    const int *devices; // of each, by this rank's numbers; NULL: the CPU
    bool near;          // processes that this one starts can stand for them
} tg_ranks;

/// A launch that needs code.
typedef struct tg_wanted {
    int capability; // of the GPU that has the tensors (90; 0x942 of gfx942), 0: the CPU has them
    int device;     // its number, or -1
    void *stream;   // of the launch there
    uint32_t home;  // of what is tuned for this launch: tg_variant.device
    bool captured;  // it is recorded, not run: nothing may wait for the device
    int n;
    const tg_actual *args; // one a parameter; symmetric ones with the dimension of ranks
    bool collective;       // all ranks are to run the same: rank 0 chooses
    tg_ranks ranks;        // of such
    tg_comm *comm;         // likewise; or NULL
    bool unmapped;         // the memory of other ranks cannot be accessed where it lies
    const char *config;    // tg_variant.config that rank 0 chose; NULL: it is open
} tg_wanted;

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct tg_compiler {
    /// Makes a variant that is right for these arguments, with hints for their extents. It stays
    /// valid as long as the kernel. Fails through tg_fail.
    tg_status (*compile)(void *user, const tg_wanted *wanted, const tg_variant **out);
    /// Seconds of a launch of a variant that was tuned, and of the default, when they were
    /// measured; false where that is not known. NULL: it never is.
    bool (*times)(void *user, const tg_variant *variant, double *seconds, double *standard);
} tg_compiler;

/// The others, which wait for what this rank chooses, are to wait on: it is at work.
void tg_comm_busy(tg_comm *comm);

/// Makes a kernel whose missing variants `compiler` makes; info, compiler and user outlive it.
tg_status tg_kernel_open(tg_kernel *kernel, const tg_kernel_info *info, const tg_compiler *compiler,
                         void *user);
/// Adds a variant, which stays valid as long as the kernel; while others launch it. From now on
/// launches take it where it comes first (tg_hint): a tuned one in place of what it was tuned from.
tg_status tg_kernel_adopt(tg_kernel *kernel, const tg_variant *variant);
/// How often it was launched, about, up to some hundreds; of kernels that were opened.
int tg_kernel_launches(const tg_kernel *kernel);
/// Frees what launches left in it.
void tg_kernel_close(tg_kernel *kernel);

/// Tuning that a launch left for later (background.c): run by a thread of low priority when the
/// process has lived two seconds and the kernel was launched twenty times. Owned by who adds it
/// until then.
typedef struct tg_queued_search tg_queued_search;
struct tg_queued_search {
    tg_queued_search *next;
    const tg_kernel *kernel;
    const void *owner; // who has to be there while it is run
    uint64_t hash;     // of what it is: there is one of a kind
    double not_before; // of rt_seconds
    /// In that thread; soon after *stop is set it returns. False: it is to be run later.
    bool (*run)(tg_queued_search *queued, const atomic_bool *stop);
    void (*release)(tg_queued_search *queued);
};
/// False: there is such a queued search, there are too many, or the process exits.
bool tg_queue_wanted(uint64_t hash);
/// Releases it sooner or later.
void tg_queue_search(tg_queued_search *queued);
/// Drops all queued searches of an owner; where one of them is being run, stops and waits for that.
void tg_queue_cancel(const void *owner);

/// What the driver took to load the image on a device; of PTX, to compile it. Negative where it is
/// not there.
double tg_image_load_seconds(const tg_image *image, int device);
/// Loads the image where it is not yet, so that no launch has to.
tg_status tg_image_prepare(tg_image *image, int device);
/// Unloads it from all devices, before its memory goes.
void tg_image_unload(tg_image *image);

/// Sets tg_last_error() of this thread and returns status.
tg_status tg_fail(tg_status status, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

/// How many forks lie between the first process and this one (fork_lock.h).
int tg_forks(void);
/// Between these a thread is in code that no child of a fork can go on with, as it has locks of its
/// own: the libraries of a compiler.
void tg_fork_unsafe_begin(void);
void tg_fork_unsafe_end(void);
/// Another thread of the parent was, when this process was forked.
bool tg_fork_was_unsafe(void);

/// Memory of the current context's hooks, aligned to 64 bytes.
void *tg_allocate(size_t bytes);
void tg_release(void *memory, size_t bytes);
/// A line to the current context's log hook.
void tg_log(const char *line);

/// The highest level that this CPU and its operating system offer.
/// TG_LEVEL=base|v3|v4|amx in the environment caps it.
enum tg_level tg_cpu_level(void);
/// Where kernels and results are kept: TG_CACHE, else what XDG_CACHE_HOME or HOME say. False: there
/// is no such folder, or TG_CACHE is `off`.
bool tg_cache_folder(char *out, size_t size);
/// "base", "v3", "v4", "amx": as TG_LEVEL has it.
const char *tg_level_name(enum tg_level level);
/// The CPU in its maker's words: "Intel(R) Xeon(R) Platinum 8481C".
enum { TG_CPU_NAME = 49 };
void tg_cpu_name(char out[TG_CPU_NAME]);
/// A device in words that no other one has, as far as speed goes: of a GPU its name, processors,
/// clocks, caches; of the CPU (-1) its name and model, and how many threads there are.
enum { TG_DEVICE_TEXT = 256 };
void tg_device_text(int device, int threads, char out[TG_DEVICE_TEXT]);
/// Of such words: tg_variant.device. Never 0.
uint32_t tg_device_hash(const char *text);

/// Results of objects on disk (tune_file.c): a file for each kernel and device, whose name begins
/// so.
#define TG_TUNED_FILE "tuned-"
typedef struct tg_tuned_file {
    char about[TG_DEVICE_TEXT + 64]; // "softmax on AMD EPYC, 2 threads"
    int sound, damaged;              // results
} tg_tuned_file;
/// Reads one. With `repair` what is damaged leaves it, and a file of nothing else is removed.
/// False, with errno, where it cannot be read or written.
bool tg_tuned_file_read(const char *path, bool repair, tg_tuned_file *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
