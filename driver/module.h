// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Modules: a checked source, its kernels, and the code that launches have requested.
#ifndef DRIVER_MODULE_H
#define DRIVER_MODULE_H

#include "driver/tune/tune.h"
#include "runtime/base/fork_lock.h"

#include <stdlib.h>

typedef struct Made Made; // a variant and its code (jit.c)

/// Seconds measured by tuning, for the variant and the default; 0: not measured.
typedef struct TunedTimes {
    double seconds, standard;
} TunedTimes;

typedef struct ModuleKernel {
    tg_kernel kernel;
    tg_module *module;
    const tg_kernel_info *info;
    const FnDef *source;
    Made *made;
} ModuleKernel;

enum { MAX_WARNINGS = 256 };

/// Lives in the arena of ctx, like all parts but code and variants. Sources are kept as texts. Each
/// compilation reads them into a temporary context.
struct tg_module {
    Ctx *ctx;
    tg_context *context; // for memory and warnings; NULL: the shared one
    const char *path;
    int n_texts, n_paths, n_set, n_kernels;
    SourceText *texts;
    const char **paths;
    NamedValue *set;
    bool check, debug;
    const char *target, *codegen; // options of the module, or NULL
    TuneMode tune;
    double tune_budget;     // seconds; 0: the mode's default
    const Program *program; // names of the source; never changes after loading
    ModuleKernel *kernels;
    tg_lock lock;      // for lists of code and warnings; never held while compiling
    tg_lock searching; // serialises launches that wait for their search
    int n_warned;
    uint64_t warned[MAX_WARNINGS]; // hashes of logged texts
};

/// Allocates memory of compile contexts by the current context's hooks.
extern const Allocator module_allocator;
/// Logs a warning line by line, unless the module has logged it before. Call it under the lock, or
/// before other threads see the module.
void module_warn(tg_module *m, const char *text);

extern const tg_compiler jit_compiler; // its user is a ModuleKernel
/// Makes code for a launch. tuned: the result of tuning for it; NULL: looks for one.
tg_status jit_compile(ModuleKernel *k, const tg_wanted *wanted, const TuneResult *tuned,
                      const tg_variant **out);
/// See tg_compiler (infer_tensors.c).
tg_status jit_infer(void *user, const tg_actual *args, const uint16_t *types, tg_inferred *out);
/// Frees a list of variants. The module's context must be current.
void made_release(Made *m);

/* ---- jit_tune.c: tuning of a launch ---------------------------------------------------------- */

/// Puts the tuned setting into the request, after a search if the mode blocks. False: no setting is
/// known. A captured launch never waits for a search.
bool jit_settle(Ctx *ctx, ModuleKernel *k, const tg_wanted *wanted, Request *r, TunedTimes *times);
/// Logs a line if a search found that the default is wrong.
void log_wrong_default(const TuneResult *result);

/// Logs tg_last_error() as the reason for which no search was made.
void jit_log_failure(void);

/* ---- jit_background.c: searches in the background
 * -------------------------------------------------
 */

/// Queues a search for a launch. It begins once the process has lived for a while and the kernel
/// was launched often. Copies `r`. near: launches use another shape's setting meanwhile.
void jit_queue_search(ModuleKernel *k, const tg_wanted *wanted, const Request *r, bool near);

#endif
