// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ends or stops processes inside the libraries that compile (libraries.def), and the programs that
// assemble and link.
#include "tests/inject/fail.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- libraries ------------------------------------------------------------------------------- */

#define LINKED(name, type, params, args)                                                           \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params {                                                                    \
        plan_pass(LIBRARY, CALLS_##name);                                                          \
        return __real_##name args;                                                                 \
    }
#define LOADED(name, type, params, args)                                                           \
    static type(*loaded_##name) params;                                                            \
    static type wrap_##name params {                                                               \
        plan_pass(LIBRARY, CALLS_##name);                                                          \
        return loaded_##name args;                                                                 \
    }
#include "tests/inject/libraries.def"
#undef LINKED
#undef LOADED

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);

void *__wrap_dlsym(void *library, const char *name) {
    void *found = __real_dlsym(library, name);
#define LINKED(name, type, params, args)
#define LOADED(function, type, params, args)                                                       \
    if (found && strcmp(name, #function) == 0) {                                                   \
        *(void **)&loaded_##function = found;                                                      \
        type(*wrapper) params = wrap_##function;                                                   \
        return *(void **)&wrapper;                                                                 \
    }
#include "tests/inject/libraries.def"
    return found;
}

/* ---- programs -------------------------------------------------------------------------------- */

int __real_posix_spawn(pid_t *p, const char *f, const posix_spawn_file_actions_t *a,
                       const posix_spawnattr_t *t, char *const v[], char *const e[]);
int __wrap_posix_spawn(pid_t *p, const char *f, const posix_spawn_file_actions_t *a,
                       const posix_spawnattr_t *t, char *const v[], char *const e[]);

/// The program that is started instead, with the fault's way of ending.
static char *script_of(Way way) {
    static char ends[] = "kill -ABRT $$", killed[] = "kill -KILL $$", hangs[] = "exec sleep 600";
    return way == ABORT ? ends : way == KILL ? killed : hangs;
}

int __wrap_posix_spawn(pid_t *p, const char *f, const posix_spawn_file_actions_t *a,
                       const posix_spawnattr_t *t, char *const v[], char *const e[]) {
    static char shell[] = "sh", option[] = "-c";
    Way way;
    if (plan_refuses(PROCESS, CALLS_posix_spawn)) return errno;
    if (!plan_hits(TOOL, CALLS_tool, &way)) return __real_posix_spawn(p, f, a, t, v, e);
    char *const command[] = {shell, option, script_of(way), NULL};
    return __real_posix_spawn(p, "/bin/sh", a, t, command, e);
}
