// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes in which an object's variants are tried on a GPU. Its context does not survive a fork,
// so such a process is the program once more, or `true` with the library preloaded, of which
// nothing runs but a constructor of the runtime: `main` is never reached.
#ifndef RUNTIME_TUNE_TRIAL_PROCESS_H
#define RUNTIME_TUNE_TRIAL_PROCESS_H

#include "runtime/tune/sandbox.h"

#include <sys/types.h>

/// Starts one whose end of a socket is fd; what it needs of the options is copied. Its contents
/// come with the bytes of each. Fails through tg_last_error() and leaves no process then.
tg_status rt_spawn(const rt_sandbox_options *options, int fd, pid_t *child);

#endif
