// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only way from arguments to an instance of a kernel. Every caller describes a kernel, its
// arguments and the options of its code by a Request; request_instance makes the instance and its
// build, and no other function does.
//
//     caller                          arguments                          entry
//     launches, other processes,      `args`: those of the launch        request_build
//     searches
//     tegula run, emit, explain, ...  `params`: of --arg; emit and       request_instance
//                                     explain leave unknown those that
//                                     are missing
//     objects (driver/aot)            `params`: made up for each of the  request_instance
//                                     variants
//
// A Request is plain data, so that another process can answer it (driver/remote/wire.c), and its
// bytes are part of the keys of the cache.
#ifndef DRIVER_REQUEST_H
#define DRIVER_REQUEST_H

#include "driver/driver.h"
#include "runtime/compiler.h"

/// Identifies the code of a variant: its facts and tune values, without hints.
typedef struct Key {
    const void *bytes;
    size_t n;
} Key;

/// The properties of a group that decide the speed of collective launches, besides the machine.
typedef struct Ranks {
    int n;       // 0: no symmetric tensors, or no group
    int threads; // of each rank
    int gpus;    // number of different GPUs of all ranks; 0: ranks on the CPU
} Ranks;

typedef struct Request {
    // The source, for request_build.
    const char *path; // of the main file, which is one of the texts
    int n_texts;
    const SourceText *texts; // all files but the library's
    int n_paths;
    const char *const *paths; // for imports
    const char *kernel;

    // The code. For target to driver see Build.
    int n_set;
    const NamedValue *set; // pinned tune values, and axes of the schedule
    int n_given;
    const NamedValue *given; // dims and inner types fixed by hand: Inst.dims
    bool tuned;              // `set` was tuned for these arguments
    bool check, debug;
    int threads;
    const char *target;
    const char *codegen, *machine;
    int driver;

    int n_args;            // the number of parameters
    const tg_actual *args; // of a launch; NULL: `params` describes them

    // Only in this process, never sent to another.
    const ParamInst *params; // if there are no `args`
    bool own_set;            // `set` is for this kernel alone, not for all of its module
    bool tentative;          // Inst.tentative
    Ranks ranks;             // for tuning
    int n_known;
    const Key *known;           // keys of known code
    const tg_kernel_info *info; // of the kernel; NULL: read it from the texts
} Request;

/// Describes a tensor of known shape, strides and element type. align: the bytes that its rows are
/// known to be aligned to; 0 or 1: unknown.
void request_describe_tensor(ParamInst *p, const Tensor *t, int align);
/// Pins one value of r->set, in place of an earlier one of the name.
void request_pin(Ctx *ctx, Request *r, const char *name, int64_t value);
/// Whether the kernel has a clause of this kind with a choice of this name.
bool kernel_has_choice(const FnDef *f, enum ClauseKind clause, const char *name);

/// Makes the instance of kernel f that a request asks for, and its build.
void request_instance(Ctx *ctx, const Request *r, const Program *p, const FnDef *f, Build *out);
/// Loads the texts of a request first. False: errors in the source were diagnosed.
bool request_build(Ctx *ctx, const Request *r, Build *out);

#endif
