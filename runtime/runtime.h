// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the runtime share. Nothing of it is seen from outside: names start with rt_.
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

/// Runs on the caller and on those threads of the pool that come while there is work. `index` is
/// below the number of workers asked for and no two calls of one job share it.
typedef void rt_work(void *job, int index);
typedef struct rt_pool rt_pool;

/// Threads start when they are first needed: that takes longer than most kernels.
rt_pool *rt_pool_create(const tg_options *hooks, int threads);
void rt_pool_destroy(rt_pool *pool, const tg_options *hooks);
/// False where the pool serves another caller: the job then is the caller's own. Never waits for a
/// thread that has not begun to work.
bool rt_pool_run(rt_pool *pool, int workers, rt_work *work, void *job);
/// The cores that this process may use.
int rt_cores(void);

/* ---- launcher.c: one launch at a time runs on a launcher ------------------------------------ */

typedef struct rt_launcher rt_launcher;

typedef struct rt_worker {
    tg_env env; // env.user is this worker
    rt_launcher *launcher;
    void *arena;
    int64_t arena_bytes;
    tg_failure failure;
    bool told; // its text says already which memory is missing
} rt_worker;

/// An argument as code takes it. Strides and extents are those after packs were merged.
typedef struct rt_actual {
    const DLTensor *tensor; // NULL: none, or no tensor at all
    void *data;             // of a symmetric tensor rank 0's; `own` is what the caller gave
    const void *own;
    const int64_t *shape, *strides;
    // As the caller's axes are, behind that of ranks.
    const int64_t *given_shape, *given_strides;
    int given_rank;
    uintptr_t from, to;   // the bytes that the tensor spans; equal where there are none
    int64_t value;        // of an integer; of a float its bits
    int32_t rank, groups; // groups: axes left of the pack
    uint8_t null, code, bits;
    int64_t dense[TG_MAX_RANK], merged[2][TG_MAX_RANK], symmetric[2][TG_MAX_RANK];
} rt_actual;

typedef struct rt_block rt_block;

/// What warm launches look at comes first.
struct rt_launcher {
    tg_context *context;
    tg_comm *comm;                        // of a collective launch; else NULL
    int place;                            // among those of the context, or -1
    int device;                           // number of the GPU that has the tensors, -1: the CPU
    int capability;                       // of it: 90; 0: the CPU
    struct rt_calls *calls[RT_CALL_SETS]; // by kernel: the last ones of each
    rt_gpu gpu;
    void (*print)(void *user, const char *text);
    void *print_user;
    rt_block *blocks, **next_block; // workspaces, kept from launch to launch
    pthread_mutex_t failing;        // of several tasks at once
    uint16_t types[TG_MAX_TYPES];   // of the type parameters: code << 8 | bits; 0: open
    rt_actual actuals[TG_MAX_PARAMS];
    tg_slot slots[TG_MAX_PARAMS];
    rt_worker workers[]; // 0: the host side of the kernel; 1 .. threads: its tasks
};

rt_launcher *rt_launcher_create(tg_context *context);
void rt_launcher_destroy(rt_launcher *launcher);
/// Runs a kernel; a tg_run_status. The failure stands in workers[0], or is tg_last_error() with
/// gpu.status. image: what the entry launches, on a stream of the device; NULL: nothing. at: where
/// an earlier run of it was, or where this one is to be kept.
int rt_launcher_run(rt_launcher *launcher, tg_entry *entry, const tg_slot *args, tg_image *image,
                    int device, rt_loaded *at, void *stream);

/* ---- cuda_launch.c ------------------------------------------------------------------------- */

/// A launch of the image begins; fails through tg_last_error(). rt_gpu_end follows in any case.
/// at: as rt_launcher_run has it.
tg_status rt_gpu_begin(rt_launcher *l, tg_image *image, int device, rt_loaded *at, void *stream,
                       rt_entered *entered);
void rt_gpu_end(rt_launcher *l, rt_entered entered);
/// Waits for device code that asserts or prints, and reports what it did: a tg_run_status.
int32_t rt_gpu_faults(rt_launcher *l);
/// Device memory until the launch has run; NULL, with gpu.status, where there is none.
void *rt_gpu_workspace(rt_launcher *l, int64_t bytes);
int32_t rt_env_dispatch(const tg_env *env, int32_t function, int64_t programs, void *const *args);
int32_t rt_env_tensormap(const tg_env *env, const tg_tensormap *how, void *data,
                         const int64_t *dims, const int64_t *strides, void *out);

/* ---- context.c ----------------------------------------------------------------------------- */

struct tg_context {
    tg_options hooks; // allocate and release are always there
    int threads;
    int active; // of those, how many work for a launch
    bool fill;  // memory that a launch gets holds bytes of 0xff: NaN in every float type
    rt_pool *pool;
    tg_lock printing;
    _Alignas(64) tg_comm *comm;          // whose launches are this rank's; NULL: there are no ranks
    _Atomic uintptr_t places[RT_PLACES]; // of launchers
};

/// The current one of this thread; NULL where there is no memory for the shared one.
tg_context *rt_context(void);
/// Takes a launcher; NULL where there is no memory. Neither locks, nor allocates when warm.
rt_launcher *rt_claim(tg_context *context);
void rt_give_back(rt_launcher *launcher);

/* ---- bind.c: the arguments of a launch ----------------------------------------------------- */

/// Checks the arguments and fills in actuals and types.
tg_status rt_bind(rt_launcher *launcher, const tg_kernel_info *info, const tg_arg *args, int n);
/// A copy of a tensor whose shape and strides (or NULL) stand in dims.
void rt_copy_tensor(DLTensor *out, int64_t dims[2][TG_MAX_RANK], const DLTensor *tensor,
                    const int64_t *strides);
/// A written tensor may overlap no other, unless the variant was proved right for that.
tg_status rt_check_overlaps(const rt_launcher *launcher, const tg_kernel_info *info,
                            const tg_variant *variant);

/// The bits that code of this type gets for a number; false: an integer that does not fit.
bool rt_number(int code, int bits, const tg_arg *arg, int64_t *out);

/* ---- float_bits.c --------------------------------------------------------------------------- */

/// The bits of x in a float type of DLPack, to nearest.
uint64_t rt_float_bits(int code, int bits, double x);
/// Bits of its significand, the hidden one included: 11 of f16.
int rt_significand(int code, int bits);

/* ---- pick.c: variants ---------------------------------------------------------------------- */

/// The variant for the launcher's arguments; compiles where there is none and a compiler. chosen
/// becomes true where it was not the one that was remembered; it may be NULL.
tg_status rt_pick(tg_kernel *kernel, const rt_launcher *launcher, const tg_variant **out,
                  bool *chosen);
/// The one of a config (tg_variant.config) that another rank chose; NULL: what rt_pick says.
tg_status rt_pick_as(tg_kernel *kernel, const rt_launcher *launcher, const char *config,
                     const tg_variant **out);
/// A hash of all that decides which variant a launch takes.
uint64_t rt_hash_arguments(const rt_launcher *launcher, const tg_kernel_info *info);
/// What no other kernel of this process has, or had where this one is; 0: no memory.
uint64_t rt_state_number(tg_kernel *kernel);
/// Whether the variant is right for the launcher's arguments, and the CPU runs it.
bool rt_serves(const rt_launcher *launcher, const tg_variant *variant);

/// The variants of an object among which tuning may choose for the launcher's arguments, what
/// launches take now first. 0: it has been tuned for such extents, there is but one, or that first
/// one is excluded.
int rt_alternatives(tg_kernel *kernel, const rt_launcher *launcher, const tg_variant **out,
                    int most);
/// Tuning tries a variant of the object no more: it crashed or hung.
void rt_exclude(tg_kernel *kernel, const tg_variant *variant);
/// From now on launches with such extents on the device (tg_variant.device) take the variant; it
/// and the hints are copied.
tg_status rt_adopt_tuned(tg_kernel *kernel, const tg_variant *variant, uint32_t device,
                         const tg_hint *hints, int n);
/// A kernel's state begins with what warm launches need of it (warm_launch.h).
typedef struct rt_pulse {
    _Atomic uint64_t epoch; // changes where what a launch was to run may be another one now
    _Atomic int launches;   // up to RT_MANY: two threads that count at once may count one
} rt_pulse;
enum { RT_MANY = 1000 };
/// NULL: no memory.
rt_pulse *rt_pulse_of(tg_kernel *kernel);
/// Frees what is known of the kernel.
void rt_kernel_close(tg_kernel *kernel);
/// The next launches choose anew.
void rt_forget(tg_kernel *kernel);
/// What rt_tune keeps of a kernel; NULL: no memory.
_Atomic uintptr_t *rt_tuner_of(tg_kernel *kernel);

/* ---- device_identity.c ---------------------------------------------------------------------- */

/// tg_variant.device of what is tuned on a GPU, or on the CPU (-1) by so many threads.
uint32_t rt_device_hash(int device, int threads);

/* ---- tune_object.c: objects that are tuned where they run ----------------------------------- */

/// After a choice that was not remembered, before the launch: true where it may be another one now.
/// Never while the stream is being captured: a later launch will do it.
bool rt_tune(tg_kernel *kernel, const rt_launcher *launcher, const tg_arg *args, int n);

/* ---- tune_file.c: what was found, on disk --------------------------------------------------- */

/// Adopts what is known of the kernel on this device (a GPU's number, or -1).
void rt_tune_load(tg_kernel *kernel, int device, int threads);
/// Keeps one more result: the variant is one of the kernel's own. n: -1: it is excluded
/// (rt_exclude). Fails silently: it is a cache.
void rt_tune_save(const tg_kernel *kernel, int device, int threads, const tg_variant *variant,
                  const tg_hint *hints, int n);

/* ---- comm_launch.c, comm_cpu.c: launches of several ranks ----------------------------------- */

/// Whether the kernel has symmetric parameters.
bool rt_is_collective(const tg_kernel_info *info);
/// Whether a launch accesses other ranks' memory where it lies; NULL: it has none.
bool rt_comm_is_mapped(const tg_comm *c);
/// What a search is to know of a group, with so many threads a rank.
tg_ranks rt_comm_ranks(const tg_comm *c, int threads);
/// A launch of one on a context with ranks begins: l->comm is set until rt_comm_leave, which tells
/// the others of a failure and returns it. Where it fails there is nothing to leave.
tg_status rt_comm_enter(rt_launcher *l, const char *name);
tg_status rt_comm_leave(rt_launcher *l, tg_status status);
/// Tells the others that this rank has come, before the code runs.
void rt_comm_announce(rt_launcher *l, const tg_kernel_info *info, const char *config);
/// A task of a collective launch, and what is to be done between two of them.
int32_t rt_comm_task(const tg_env *env, tg_task *task, void *context, int64_t number, void *arena);
/// A device function of one that is called, not launched.
int32_t rt_comm_call(const tg_env *env, tg_image *image, int32_t function, int64_t programs,
                     void *const *args);

/* ---- agreement.c ----------------------------------------------------------------------------- */

/// The variant that all ranks run for the launcher's arguments.
tg_status rt_comm_agree(rt_launcher *l, tg_kernel *kernel, const tg_variant **out);

/* ---- run_variant.c: launches ---------------------------------------------------------------- */

/// Runs a variant on the arguments that are bound; a GPU's on a stream of its device.
tg_status rt_run(rt_launcher *launcher, const tg_kernel_info *info, const tg_variant *variant,
                 void *stream);

/// The same with the arguments that its code takes. at: as rt_launcher_run has it.
tg_status rt_run_slots(rt_launcher *launcher, const tg_kernel_info *info, const tg_variant *variant,
                       const tg_slot *slots, rt_loaded *at, void *stream);

/// What a run of the launcher that failed has told.
tg_status rt_report(const rt_launcher *launcher, const tg_kernel_info *info);

/* ---- launch_memo.c: launches like one before ------------------------------------------------ */

/// Runs what an equal launch before, of the same launcher, was bound to, with the data, and the
/// numbers, of this one; such arguments need no further checks. False: there is none.
bool rt_memo_launch(rt_launcher *launcher, tg_kernel *kernel, const tg_arg *args, int n,
                    void *stream, tg_status *status);
/// The launch that was bound and picked for last is one to come again. No memory: it is not kept.
/// epoch: from before it was picked for.
void rt_memo_keep(rt_launcher *launcher, const tg_kernel *kernel, const tg_variant *variant,
                  const tg_arg *args, int n, uint64_t epoch);
void rt_memo_forget(rt_launcher *launcher);

/* ---- pick.c, for launch_decision.c ---------------------------------------------------------- */

/// What rt_pick would take of what there is; NULL: a launch would have it compiled. tuned: it was
/// for about these extents.
const tg_variant *rt_known(tg_kernel *kernel, const rt_launcher *launcher, bool *tuned);
/// See tg_compiler.
bool rt_times(tg_kernel *kernel, const tg_variant *variant, double *seconds, double *standard);
/// Some compiler makes what is missing.
bool rt_compiles(tg_kernel *kernel);

/* ---- describe_arguments.c: texts ------------------------------------------------------------ */

/// The name of type parameter i: "T".
void rt_add_generic(rt_text *t, const tg_kernel_info *info, int i);
/// TG_ERROR_NOT_FOUND with what the kernel was compiled for.
tg_status rt_no_variant(const rt_launcher *launcher, const tg_kernel_info *info);

#endif
