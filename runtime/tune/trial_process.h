// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes that try an object's variants on a GPU. A GPU's context does not survive a fork. The
// process is therefore the same program, or `true` with the library preloaded. Only a constructor
// of the runtime runs in it; `main` is never reached.
#ifndef RUNTIME_TUNE_TRIAL_PROCESS_H
#define RUNTIME_TUNE_TRIAL_PROCESS_H

#include "runtime/tune/sandbox.h"

#include <sys/types.h>

/// Starts a process with fd as its end of a socket. Options are copied; contents are passed with
/// their sizes. On failure, tg_last_error() has the reason and no process is left.
tg_status rt_spawn(const rt_sandbox_options *options, int fd, pid_t *child);

#endif
