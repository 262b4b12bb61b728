// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sandboxes: where the variants of an object are tried, so that one that crashes or does not end is
// a loss of that variant, and of nothing of the program's.
//
// On a CPU it is a child of this process, made by fork, which sees what the tensors held and whose
// writes are its own. Other threads of the program are not there, and may have held any lock: so it
// takes memory from the system, has threads of its own, and does nothing but kernels, the clock and
// a socket. It ends with the thread that made it. The context of a GPU does not survive a fork:
// there the child is started anew (trial_process.h), with arguments that are made alike.
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
    const atomic_bool *stop; // set: what is asked ends soon, as RT_CUT; or NULL
} rt_sandbox_options;

typedef struct rt_sandbox rt_sandbox;

/// Fails through tg_last_error(): no child is wanted (TG_TUNE_FORK=off; on a GPU variants are tried
/// in this process then), or no trial can be. The options' arrays must last.
tg_status rt_sandbox_open(const rt_sandbox_options *options, rt_sandbox **out);
void rt_sandbox_close(rt_sandbox *box);

/// rt_trial_check; rt_trial_confirm and rt_trial_warm; rt_trial_time (n <= RT_SANDBOX_LAUNCHES) of
/// a variant. The first check must be the reference's, number 0. Beside the verdicts of trials:
/// RT_CRASHED, RT_HUNG, RT_CUT.
rt_verdict rt_sandbox_check(rt_sandbox *box, int id, double *seconds);
rt_verdict rt_sandbox_confirm(rt_sandbox *box, int id, double *times);
rt_verdict rt_sandbox_time(rt_sandbox *box, int id, int n, double *seconds);
/// Why the last variant that was not right was not.
const char *rt_sandbox_why(const rt_sandbox *box);
/// Seconds that trials were at work, but for those in which they waited for a core.
double rt_sandbox_worked(const rt_sandbox *box);
/// Nothing can be tried any more: the reference is not right, there are no processes to be had, or
/// a launch broke the device or does not end there.
bool rt_sandbox_is_lost(const rt_sandbox *box);

/// What a child does: answers at its end of the socket until the parent has no more to ask. NULL:
/// nothing can be tried, as tg_last_error() says.
_Noreturn void rt_sandbox_serve(const rt_sandbox_options *options, int fd);

#endif
