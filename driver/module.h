// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Modules: a checked source, its kernels and the code that launches have asked for.
#ifndef DRIVER_MODULE_H
#define DRIVER_MODULE_H

#include "driver/tune/tune.h"
#include "runtime/base/fork_lock.h"

#include <stdlib.h>

typedef struct Made Made; // a variant and its code (jit.c)

/// What was measured when it was tuned, in seconds; 0: nothing.
typedef struct TunedTimes {
    double seconds, standard;
} TunedTimes;

typedef struct ModuleKernel {
    tg_kernel kernel;
    tg_module *module;
    const tg_kernel_info *info;
    Made *made;
} ModuleKernel;

enum { MAX_WARNINGS = 256 };

/// In the arena of ctx, like all it points to but code and variants. Sources are kept as texts:
/// each compilation reads them into a context of its own, which goes with it.
struct tg_module {
    Ctx *ctx;
    tg_context *context; // where its memory comes from and its warnings go; NULL: the shared one
    const char *path;
    int n_texts, n_paths, n_set, n_kernels;
    SourceText *texts;
    const char **paths;
    NamedValue *set;
    bool check, debug;
    const char *target, *codegen; // of the module's options, or NULL
    TuneMode tune;
    double tune_budget; // seconds; 0: the mode's
    ModuleKernel *kernels;
    tg_lock lock;      // of the lists of code and of warnings: nothing is compiled under it
    tg_lock searching; // one launch at a time that waits for its search
    int n_warned;
    uint64_t warned[MAX_WARNINGS]; // hashes of texts that were logged
};

/// A compile context's memory from the current context's hooks.
extern const Allocator module_allocator;
/// Logs a warning line by line, unless the module has logged it before. Under the lock, or before
/// others see the module.
void module_warn(tg_module *m, const char *text);

extern const tg_compiler jit_compiler; // its user is a ModuleKernel
/// Makes code for a launch. tuned: what was found for it; NULL: what is found now, if anything.
tg_status jit_compile(ModuleKernel *k, const tg_wanted *wanted, const TuneResult *tuned,
                      const tg_variant **out);
/// Frees a list of what was made, with the module's context current.
void made_release(Made *m);

/* ---- jit_tune.c: what tuning has to do with a launch ------------------------------------------
 */

/// Puts into the request what tuning found for it, after a search if the mode is one that waits.
/// False: nothing is known. A launch that is captured never waits for a search.
bool jit_settle(Ctx *ctx, ModuleKernel *k, const tg_wanted *wanted, Request *r, TunedTimes *times);
/// A line of the log, where a search found that the default is wrong.
void log_wrong_default(const TuneResult *result);

/// A line that says why there was no search: tg_last_error().
void jit_log_failure(void);

/* ---- jit_background.c: searches in the background
 * -------------------------------------------------
 */

/// Remembers that a launch could be tuned; a search begins when the process has lived for a while
/// and the kernel was launched often. `r` is copied. near: launches take meanwhile what another
/// shape says.
void jit_queue_search(ModuleKernel *k, const tg_wanted *wanted, const Request *r, bool near);

#endif
