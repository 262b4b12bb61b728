// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Declarations that the runtime's files share. None is visible outside of the library; names start
// with rt_.
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include "runtime/base/base.h"
#include "runtime/gpu/gpu_launch.h"
#include "runtime/host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { RT_MAX_THREADS = 1024, RT_PLACES = 64, RT_CALL_SETS = 16 };

/* ---- thread_pool.c: threads ----------------------------------------------------------------- */

/// A job's function. It runs on the caller and on the pool's threads that arrive while work is
/// left. `index` is below the requested number of workers; no two calls of one job have the same
/// one.
typedef void rt_work(void *job, int index);
typedef struct rt_pool rt_pool;

/// Creates a pool. Its threads start at first use, since starting them takes longer than most
/// kernels.
rt_pool *rt_pool_create(const tg_options *hooks, int threads);
void rt_pool_destroy(rt_pool *pool, const tg_options *hooks);
/// Runs a job. False: the pool serves another caller, so the caller must do the job itself. Never
/// waits for a thread that has not begun to work.
bool rt_pool_run(rt_pool *pool, int workers, rt_work *work, void *job);
/// The number of cores that this process may use.
int rt_cores(void);

/* ---- launcher.c: one launch at a time runs on a launcher ------------------------------------ */

typedef struct rt_launcher rt_launcher;

typedef struct rt_worker {
    tg_env env; // env.user is this worker
    rt_launcher *launcher;
    void *arena;
    int64_t arena_bytes;
    tg_failure failure;
    bool told;                // failure.text already names the memory that is missing
    tg_worker_record *record; // NULL: not recorded
} rt_worker;

/// An argument as code takes it. Strides and extents are those after packs are merged.
typedef struct rt_actual {
    const DLTensor *tensor; // NULL: null, or not a tensor
    void *data;             // of a symmetric tensor: rank 0's shard; `own` is the caller's
    const void *own;
    const int64_t *shape, *strides;
    // The caller's axes, after the axis of ranks if symmetric.
    const int64_t *given_shape, *given_strides;
    int given_rank;
    uintptr_t from, to;   // the bytes that the tensor spans; equal if it is empty
    int64_t value;        // of an integer; of a float, its bits
    int32_t rank, groups; // groups: number of axes left of the pack
    uint8_t null, code, bits;
    int64_t dense[TG_MAX_RANK], merged[2][TG_MAX_RANK], symmetric[2][TG_MAX_RANK];
} rt_actual;

typedef struct rt_block rt_block;

/// Fields that warm launches use come first.
struct rt_launcher {
    tg_context *context;
    tg_comm *comm;                        // of a collective launch; else NULL
    int place;                            // index in the context's places, or -1
    int device;                           // number of the GPU with the tensors; -1: the CPU
    int capability;                       // of that GPU: 90; 0: the CPU
    struct rt_calls *calls[RT_CALL_SETS]; // by kernel: its last launches
    rt_gpu gpu;
    void (*print)(void *user, const char *text);
    void *print_user;
    rt_block *blocks, **next_block; // workspaces, reused by later launches
    tg_record *record;              // of the launch, or NULL
    uint32_t counter;               // tg_env.counter of launches without a driver
    pthread_mutex_t failing;        // orders failures of several tasks
    uint16_t types[TG_MAX_TYPES];   // of the type parameters: code << 8 | bits; 0: not settled
    rt_actual actuals[TG_MAX_PARAMS];
    tg_slot slots[TG_MAX_PARAMS];
    rt_worker workers[]; // 0: the host side of the kernel; 1 .. threads: its tasks
};

rt_launcher *rt_launcher_create(tg_context *context);
void rt_launcher_destroy(rt_launcher *launcher);
/// Runs a kernel; returns a tg_run_status. The failure is in workers[0], or in tg_last_error() with
/// gpu.status. image: launched by the entry on a stream of the device; NULL: none. at: caches where
/// the image is loaded, from run to run.
int rt_launcher_run(rt_launcher *launcher, tg_entry *entry, const tg_slot *args, tg_image *image,
                    int device, rt_loaded *at, void *stream);

/* ---- record.c ------------------------------------------------------------------------------ */

/// Enclose a launch. It is recorded unless the record is NULL or another launch writes it. The
/// launcher keeps no record afterwards.
void rt_record_begin(rt_launcher *l, tg_record *record);
void rt_record_end(rt_launcher *l);
/// Enclose a phase on the host side. rt_record_phase returns its number.
int rt_record_phase(rt_launcher *l, int64_t tasks);
void rt_record_phase_end(rt_launcher *l, int phase);
/// Runs a task of a phase and records it.
int32_t rt_record_task(rt_worker *w, tg_task *task, void *context, int64_t number, int phase);
/// See tg_env.mark.
void rt_record_mark(const tg_env *env, const tg_site *site);
/// Adds a mark of device code; values: the clock.
void rt_record_device_mark(rt_launcher *l, const tg_site *site, int64_t program, uint64_t at);

/* ---- cuda_launch.c ------------------------------------------------------------------------- */

/// Begins a launch of the image; fails through tg_last_error(). rt_gpu_end must follow, even after
/// a failure. at: see rt_launcher_run.
tg_status rt_gpu_begin(rt_launcher *l, tg_image *image, int device, rt_loaded *at, void *stream,
                       rt_entered *entered);
void rt_gpu_end(rt_launcher *l, rt_entered entered);
/// Waits for device code that asserts or prints, and reports its faults. Returns a tg_run_status.
int32_t rt_gpu_faults(rt_launcher *l);
/// Allocates device memory until the launch has ended. NULL: it failed; gpu.status is set.
void *rt_gpu_workspace(rt_launcher *l, int64_t bytes);
/// See tg_env.counter. NULL: it failed; gpu.status is set.
uint32_t *rt_gpu_counter(rt_launcher *l);
int32_t rt_env_dispatch(const tg_env *env, int32_t function, int64_t programs, void *const *args);
int32_t rt_env_tensormap(const tg_env *env, const tg_tensormap *how, void *data,
                         const int64_t *dims, const int64_t *strides, void *out);

/* ---- context.c ----------------------------------------------------------------------------- */

struct tg_context {
    tg_options hooks; // allocate and release are never NULL
    int threads;
    int active;                      // number of them that work for one launch
    _Atomic int64_t workspace_limit; // bytes that a launch may use to be faster
    bool fill;                       // fill memory of launches with 0xff: NaN in every float type
    rt_pool *pool;
    tg_lock printing;
    _Alignas(64) tg_comm *comm;          // launches are this rank's; NULL: no ranks
    _Atomic uintptr_t places[RT_PLACES]; // of idle launchers
};

/// Returns the current context of this thread. NULL: no memory for the shared one.
tg_context *rt_context(void);
/// Takes a launcher. NULL: out of memory. It takes no lock, and does not allocate when warm.
rt_launcher *rt_claim(tg_context *context);
void rt_give_back(rt_launcher *launcher);

/* ---- bind.c: the arguments of a launch ----------------------------------------------------- */

/// Checks the arguments and fills in actuals and types.
tg_status rt_bind(rt_launcher *launcher, const tg_kernel_info *info, const tg_arg *args, int n);
/// The same, but any tensor may be missing.
tg_status rt_bind_given(rt_launcher *launcher, const tg_kernel_info *info, const tg_arg *args,
                        int n);
/// Copies a tensor; its shape and strides (or NULL) go into dims.
void rt_copy_tensor(DLTensor *out, int64_t dims[2][TG_MAX_RANK], const DLTensor *tensor,
                    const int64_t *strides);
/// Fails if a written tensor overlaps another one, unless the variant is proved right for that.
tg_status rt_check_overlaps(const rt_launcher *launcher, const tg_kernel_info *info,
                            const tg_variant *variant);

/// Converts a number to the bits that code of this type gets. False: an integer that does not fit.
bool rt_number(int code, int bits, const tg_arg *arg, int64_t *out);

/* ---- float_bits.c --------------------------------------------------------------------------- */

/// Rounds x to nearest in a float type of DLPack; returns the bits.
uint64_t rt_float_bits(int code, int bits, double x);
/// Bits of the type's significand, with the hidden one: 11 of f16.
int rt_significand(int code, int bits);

/* ---- pick.c: variants ---------------------------------------------------------------------- */

/// Picks the variant for the launcher's arguments. If none is right, the kernel's compiler (if any)
/// makes one. *chosen becomes true if the variant is not the remembered one; chosen may be NULL.
tg_status rt_pick(tg_kernel *kernel, const rt_launcher *launcher, const tg_variant **out,
                  bool *chosen);
/// Picks the variant with the config (tg_variant.config) that another rank chose. NULL: like
/// rt_pick.
tg_status rt_pick_as(tg_kernel *kernel, const rt_launcher *launcher, const char *config,
                     const tg_variant **out);
/// A hash of all properties that decide the variant of a launch.
uint64_t rt_hash_arguments(const rt_launcher *launcher, const tg_kernel_info *info);
/// A number that no other kernel of this process has or had, even at the same address. 0: out of
/// memory.
uint64_t rt_state_number(tg_kernel *kernel);
/// Whether the variant is right for the launcher's arguments, and the CPU runs it.
bool rt_serves(const rt_launcher *launcher, const tg_variant *variant);

/// Lists the variants of an object among which tuning may choose for the launcher's arguments. The
/// variant that launches take now comes first. Returns 0 if tuning is done for such extents, if
/// only one variant is left, or if that first one is excluded.
int rt_alternatives(tg_kernel *kernel, const rt_launcher *launcher, const tg_variant **out,
                    int most);
/// Excludes a variant of the object from tuning, because it crashed or hung.
void rt_exclude(tg_kernel *kernel, const tg_variant *variant);
/// Makes launches with such extents on the device (tg_variant.device) take the variant. Copies the
/// variant and the hints.
tg_status rt_adopt_tuned(tg_kernel *kernel, const tg_variant *variant, uint32_t device,
                         const tg_hint *hints, int n);
/// The first part of a kernel's state, which warm launches need (warm_launch.h).
typedef struct rt_pulse {
    _Atomic uint64_t epoch; // changes when a launch may have to choose another variant
    _Atomic int launches;   // up to RT_MANY; two threads at once may count one launch
} rt_pulse;
enum { RT_MANY = 1000 };
/// NULL: out of memory.
rt_pulse *rt_pulse_of(tg_kernel *kernel);
/// Frees the state of the kernel.
void rt_kernel_close(tg_kernel *kernel);
/// Makes the next launches choose anew.
void rt_forget(tg_kernel *kernel);
/// The state of rt_tune for a kernel. NULL: out of memory.
_Atomic uintptr_t *rt_tuner_of(tg_kernel *kernel);

/* ---- device_identity.c ---------------------------------------------------------------------- */

/// tg_variant.device of variants tuned on a GPU, or on the CPU (-1) with that number of threads.
uint32_t rt_device_hash(int device, int threads);

/* ---- tune_object.c: objects that tune themselves -------------------------------------------- */

/// Tunes, or queues a search, before a launch whose variant was not remembered. True: the choice
/// may have changed. While the stream is being captured it does nothing; a later launch tunes.
bool rt_tune(tg_kernel *kernel, const rt_launcher *launcher, const tg_arg *args, int n);

/* ---- tune_file.c: results on disk ----------------------------------------------------------- */

/// Adopts the stored results of the kernel for this device (a GPU's number, or -1).
void rt_tune_load(tg_kernel *kernel, int device, int threads);
/// Stores one more result. The variant must be one of the kernel's own. n -1: it is excluded
/// (rt_exclude). Failures are ignored, as the file is a cache.
void rt_tune_save(const tg_kernel *kernel, int device, int threads, const tg_variant *variant,
                  const tg_hint *hints, int n);

/* ---- comm_launch.c, comm_cpu.c: launches of several ranks ----------------------------------- */

/// Whether the kernel has symmetric parameters.
bool rt_is_collective(const tg_kernel_info *info);
/// Whether a launch can access other ranks' memory in place. True for NULL.
bool rt_comm_is_mapped(const tg_comm *c);
/// Describes a group for searches, with that number of threads a rank.
tg_ranks rt_comm_ranks(const tg_comm *c, int threads);
/// Enters a collective launch on a context with ranks; sets l->comm until rt_comm_leave.
/// rt_comm_leave tells the other ranks of a failure, and returns its status. If rt_comm_enter
/// fails, rt_comm_leave must not be called.
tg_status rt_comm_enter(rt_launcher *l, const char *name);
tg_status rt_comm_leave(rt_launcher *l, tg_status status);
/// Tells the other ranks that this rank has come. Must precede the run of the code.
void rt_comm_announce(rt_launcher *l, const tg_kernel_info *info, const char *config);
/// Runs a task of a collective launch, after a push of a chunk that is ready.
int32_t rt_comm_task(const tg_env *env, tg_task *task, void *context, int64_t number, void *arena);
/// Runs a device function of a collective launch whose image is called (kind CALL).
int32_t rt_comm_call(const tg_env *env, tg_image *image, int32_t function, int64_t programs,
                     void *const *args);

/* ---- agreement.c ----------------------------------------------------------------------------- */

/// Finds the variant that all ranks run for the launcher's arguments.
tg_status rt_comm_agree(rt_launcher *l, tg_kernel *kernel, const tg_variant **out);

/* ---- run_variant.c: launches ---------------------------------------------------------------- */

/// Runs a variant on the bound arguments; one with GPU code on a stream of its device.
tg_status rt_run(rt_launcher *launcher, const tg_kernel_info *info, const tg_variant *variant,
                 void *stream);

/// Runs it with arguments in the form that its code takes. at: see rt_launcher_run.
tg_status rt_run_slots(rt_launcher *launcher, const tg_kernel_info *info, const tg_variant *variant,
                       const tg_slot *slots, rt_loaded *at, void *stream);

/// Turns the failure of the launcher's run into tg_last_error(), and returns its status.
tg_status rt_report(const rt_launcher *launcher, const tg_kernel_info *info);

/* ---- launch_memo.c: launches like one before ------------------------------------------------ */

/// Runs the memo of an equal earlier launch of the same launcher, with this launch's data and
/// numbers. Equal arguments need no further checks. False: no such memo.
bool rt_memo_launch(rt_launcher *launcher, tg_kernel *kernel, const tg_arg *args, int n,
                    void *stream, tg_status *status);
/// Keeps a memo of the launch that was just bound and picked. Without memory it keeps none. epoch:
/// read before the pick.
void rt_memo_keep(rt_launcher *launcher, const tg_kernel *kernel, const tg_variant *variant,
                  const tg_arg *args, int n, uint64_t epoch);
void rt_memo_forget(rt_launcher *launcher);

/* ---- pick.c, for launch_decision.c ---------------------------------------------------------- */

/// Returns the variant that rt_pick would take without compiling. NULL: a launch would compile.
/// tuned: it was tuned for about these extents.
const tg_variant *rt_known(tg_kernel *kernel, const rt_launcher *launcher, bool *tuned);
/// See tg_compiler.
bool rt_times(tg_kernel *kernel, const tg_variant *variant, double *seconds, double *standard);
/// Whether the kernel has a compiler for missing variants.
bool rt_compiles(tg_kernel *kernel);
/// See tg_compiler. The arguments are those that the launcher has bound.
tg_status rt_infer(tg_kernel *kernel, const rt_launcher *launcher, tg_inferred *out);
const char *rt_doc(tg_kernel *kernel);

/* ---- describe_arguments.c: texts ------------------------------------------------------------ */

/// The name of type parameter i: "T".
void rt_add_generic(rt_text *t, const tg_kernel_info *info, int i);
/// Fails with TG_ERROR_NOT_FOUND; the message lists the settings for which the kernel was compiled.
tg_status rt_no_variant(const rt_launcher *launcher, const tg_kernel_info *info);

#endif
