// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ptxas, a program of the CUDA toolkit: PTX to a cubin, with what it says of registers and spills.
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/nvidia/nvidia.h"
#include "backends/nvidia/search.h"

extern char **environ;

enum { PATH_BYTES = 4096 };

static bool take_path(const char *path, void *out) {
    if (access(path, X_OK) != 0 || strlen(path) >= PATH_BYTES) return false;
    memcpy(out, path, strlen(path) + 1);
    return true;
}

/// $CUDA_HOME, then PATH, then the usual place.
static bool find_ptxas(char *out) {
    static const char *const below[] = {"bin/ptxas", NULL};
    static const char *const usual[] = {"/usr/local/cuda*/bin/ptxas", NULL};
    if (nv_search(below, take_path, out)) return true;
    for (const char *s = getenv("PATH"); s && *s; s += strspn(s, ":")) {
        char path[PATH_BYTES];
        int len = (int)strcspn(s, ":");
        int n = snprintf(path, sizeof path, "%.*s/ptxas", len, s);
        if (n < (int)sizeof path && take_path(path, out)) return true;
        s += len;
    }
    return nv_search(usual, take_path, out);
}

/// All of a file, with a NUL byte behind; NULL where it cannot be read.
static char *read_file(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    long n = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    char *data = n < 0 ? NULL : malloc((size_t)n + 1);
    rewind(f);
    if (data && fread(data, 1, (size_t)n, f) != (size_t)n) {
        free(data);
        data = NULL;
    }
    fclose(f);
    if (!data) return NULL;
    data[n] = 0;
    *bytes = (size_t)n;
    return data;
}

/// False where the disk is full, too.
static bool write_file(const char *path, const char *data, size_t bytes) {
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool good = fwrite(data, 1, bytes, f) == bytes;
    return fclose(f) == 0 && good;
}

/// Runs it with both outputs in the file `log`; true where it says that all is well.
static bool run(const char *program, char *const *arguments, const char *log) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions)) return false;
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    int failed = posix_spawn(&child, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) return false;
    while (waitpid(child, &status, 0) < 0) continue;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// In a folder of its own, which is empty again afterwards.
static NvStatus assemble(const char *program, const char *folder, const char *ptx, size_t bytes,
                         const NvArch *arch, NvOutput *out) {
    char in[PATH_BYTES], cubin[PATH_BYTES], log[PATH_BYTES], name[32];
    size_t n;
    snprintf(in, sizeof in, "%s/in.ptx", folder);
    snprintf(cubin, sizeof cubin, "%s/out.cubin", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    snprintf(name, sizeof name, "-arch=%s", arch->name);
    const char *arguments[] = {"ptxas", "-v", name, in, "-o", cubin, NULL};
    bool good = write_file(in, ptx, bytes) && run(program, (char *const *)arguments, log);
    out->log = read_file(log, &n);
    if (good) out->data = read_file(cubin, &out->bytes);
    unlink(in);
    unlink(cubin);
    unlink(log);
    return out->data ? NV_OK : NV_FAILED;
}

NvStatus nv_ptxas(const char *ptx, size_t bytes, const NvArch *arch, NvOutput *out) {
    char program[PATH_BYTES], folder[PATH_BYTES / 2];
    const char *temporary = getenv("TMPDIR");
    *out = (NvOutput){0};
    if (!find_ptxas(program)) return NV_ABSENT;
    snprintf(folder, sizeof folder, "%s/tegula-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return NV_FAILED;
    NvStatus status = assemble(program, folder, ptx, bytes, arch, out);
    rmdir(folder);
    return status;
}
