// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sandboxes: processes in which the variants of an object are tried. A variant that crashes or
// hangs costs only itself.
//
// On a CPU the sandbox is a forked child. It sees the contents of the tensors, and its writes stay
// private. The program's other threads do not exist there and may have held any lock. The child
// therefore allocates from the system, has its own threads, and uses only kernels, the clock and a
// socket. It ends with the thread that made it. A GPU's context does not survive a fork. On a GPU
// the child is a new process (trial_process.h) with equivalent arguments.
#ifndef RUNTIME_TUNE_SANDBOX_H
#define RUNTIME_TUNE_SANDBOX_H

#include "runtime/tune/trial.h"

enum { RT_SANDBOX_LAUNCHES = 64 };

typedef struct rt_sandbox_options {
    rt_trial_options trial;
    const tg_variant *const *variants; // the first one is the reference
    int n;
    int device, threads;     // of the launch
    double deadline;         // of all trials, by rt_seconds; 0: none
    const atomic_bool *stop; // set to end requests soon with RT_CUT; or NULL
} rt_sandbox_options;

typedef struct rt_sandbox rt_sandbox;

/// Fails through tg_last_error() if no child is wanted (TG_TUNE_FORK=off; a GPU then tries variants
/// in this process) or no trial is possible. The arrays in the options must outlive the sandbox.
tg_status rt_sandbox_open(const rt_sandbox_options *options, rt_sandbox **out);
void rt_sandbox_close(rt_sandbox *box);

/// rt_trial_check, rt_trial_confirm and rt_trial_warm, and rt_trial_time (n <=
/// RT_SANDBOX_LAUNCHES), for a variant. The first check must be of the reference, number 0. Further
/// verdicts: RT_CRASHED, RT_HUNG, RT_CUT.
rt_verdict rt_sandbox_check(rt_sandbox *box, int id, double *seconds);
rt_verdict rt_sandbox_confirm(rt_sandbox *box, int id, double *times);
rt_verdict rt_sandbox_time(rt_sandbox *box, int id, int n, double *seconds);
/// The reason for the last verdict other than right.
const char *rt_sandbox_why(const rt_sandbox *box);
/// The seconds of work in trials, without the time in which they waited for a core.
double rt_sandbox_worked(const rt_sandbox *box);
/// No further trial is possible: the reference is wrong, no process can be started, or a launch
/// broke the device or does not end.
bool rt_sandbox_is_lost(const rt_sandbox *box);

/// The main loop of a child: it answers requests until the parent closes the socket. NULL options:
/// no trial is possible, as tg_last_error() says.
_Noreturn void rt_sandbox_serve(const rt_sandbox_options *options, int fd);

#endif
