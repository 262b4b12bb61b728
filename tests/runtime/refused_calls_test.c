// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The messages of the runtime when the system, a driver or a library refuses what it asks for. Each
// row runs in a process of its own, in which a call fails: with an error of the system, or because
// a library lacks a function. tests/inject makes each call fail, and this test reads the words.
#include "tests/runtime/gpu_kernels.h"
#include "tests/said.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEXT = 1024, RANKS = 3, LONG_MS = 60000 };

/* ---- calls that fail ------------------------------------------------------------------------- */

static struct {
    const char *call; // or the name that dlsym does not find
    int error;
} refused;

static bool is_refused(const char *call) {
    if (!refused.call || strcmp(refused.call, call) != 0) return false;
    errno = refused.error;
    return true;
}

/// The linker replaces calls of the runtime (--wrap). An error is the result, or errno.
#define WRAP(type, name, parameters, arguments, failure)                                           \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        return is_refused(#name) ? (failure) : __real_##name arguments;                            \
    }
WRAP(pid_t, fork, (void), (), -1)
WRAP(int, dup, (int fd), (fd), -1)
WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1)
WRAP(int, posix_spawnp,
     (pid_t * child, const char *file, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *how, char *const args[], char *const environment[]),
     (child, file, actions, how, args, environment), refused.error)
WRAP(int, pthread_create,
     (pthread_t * id, const pthread_attr_t *how, void *(*body)(void *), void *arg),
     (id, how, body, arg), (errno = 0, refused.error))

/// Refuses all libraries, or one whose name begins so. dlerror tells of it.
void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags) {
    bool one = refused.call && path && strncmp(path, refused.call, strlen(refused.call)) == 0;
    return __real_dlopen(one || is_refused("dlopen") ? "/nowhere/refused.so" : path, flags);
}

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name) {
    return is_refused(name) ? NULL : __real_dlsym(library, name);
}

/// Connections to the place where ranks meet are not refused.
static uint16_t meeting_port;
int __real_connect(int s, const struct sockaddr *at, socklen_t bytes);
int __wrap_connect(int s, const struct sockaddr *at, socklen_t bytes);
int __wrap_connect(int s, const struct sockaddr *at, socklen_t bytes) {
    const struct sockaddr_in *to = (const void *)at;
    bool meets = at->sa_family == AF_INET && to->sin_port == meeting_port;
    return !meets && is_refused("connect") ? -1 : __real_connect(s, at, bytes);
}

/* ---- launches -------------------------------------------------------------------------------- */

static Call call;
KERNEL(clustered, VARIANT(cluster_entry, &for_80));
KERNEL(mapped, VARIANT(map_entry, &for_80));
static int32_t scale_again(const tg_slot *args, const tg_env *env) {
    return scale_entry(args, env);
}
KERNEL(two_on_gpu, VARIANT(scale_entry, &for_80), VARIANT(scale_again, &for_80));

static tg_status needs_clusters(void) {
    return tg_launch(&clustered, on_device(&call, 0)->args, 3);
}

static tg_status needs_maps(void) {
    static tg_tensormap how = {.type = TG_MAP_F32, .rank = 1, .box = {4}};
    map = &how;
    return tg_launch(&mapped, on_device(&call, 0)->args, 3);
}

static tg_status has_no_gpu(void) {
    tg_device_info info = {.size = sizeof info};
    setenv("FAKE_CUDA_DEVICES", "none", 1);
    return tg_device_describe(0, &info);
}

/* ---- tuning ---------------------------------------------------------------------------------- */

/// A launch that looks for the fastest variant, which needs another process.
static tg_status tunes(tg_kernel *kernel, const tg_arg *args, int n) {
    tg_options options = {.size = sizeof options, .threads = 1, .log = note};
    tg_context *context;
    setenv("TG_TUNE", "exhaustive", 1);
    tg_status status = tg_context_create(&options, &context);
    if (status) return status;
    tg_context_use(context);
    return tg_launch(kernel, args, n);
}

static tg_status tunes_on_gpu(void) {
    return tunes(&two_on_gpu, on_device(&call, 0)->args, 3);
}

static int32_t put_entry(const tg_slot *args, const tg_env *env) {
    (void)env;
    *(float *)args[0].tensor.data = 1;
    return 0;
}

static int32_t put_again(const tg_slot *args, const tg_env *env) {
    return put_entry(args, env);
}

static tg_status tunes_here(void) {
    static const uint8_t first[] = {0};
    static const tg_variant variants[] = {
        {.entry = put_entry, .params = first, .n_params = 1, .config = "B=1"},
        {.entry = put_again, .params = first, .n_params = 1, .config = "B=2"}};
    static const tg_param_info params[] = {
        {"y", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLFloat, 32, -1, 1, -1, 0}};
    static const tg_kernel_info info = {"put", "kernel put(y: f32[N])", params, variants, 1, 0, 2,
                                        0};
    static tg_kernel put = {.abi = TG_ABI, .info = &info};
    on_device(&call, -1);
    return tunes(&put, &call.args[1], 1);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static char meet[64];

static tg_comm_options options_of(const char *engine, int rank, int ranks, int device) {
    return (tg_comm_options){.size = sizeof(tg_comm_options),
                             .engine = engine,
                             .meet = meet,
                             .rank = rank,
                             .ranks = ranks,
                             .device = device,
                             .heap = 1 << 20,
                             .timeout_ms = LONG_MS};
}

static tg_status be_rank(const char *engine, int rank, int ranks, int device) {
    tg_comm_options options = options_of(engine, rank, ranks, device);
    tg_comm *comm;
    return tg_comm_create(&options, &comm);
}

static tg_status be_first_process(void) {
    return be_rank("processes", 0, 2, TG_COMM_CPU);
}

static tg_status be_shmem_rank(void) {
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    setenv("TG_OPENSHMEM_LIBRARY", FAKE_SHMEM, 0);
    return be_rank("openshmem", 0, 0, TG_COMM_CPU);
}

static tg_status lacks_shmem(void) {
    setenv("TG_OPENSHMEM_LIBRARY", "", 1);
    return be_shmem_rank();
}

static tg_status shmem_refuses(void) {
    setenv("FAKE_SHMEM", "refuses", 1);
    return be_shmem_rank();
}

static tg_status shmem_is_serial(void) {
    setenv("FAKE_SHMEM", "serial", 1);
    return be_shmem_rank();
}

static tg_status shmem_is_full(void) {
    setenv("FAKE_SHMEM", "full", 1);
    return be_shmem_rank();
}

static void *be_second_thread(void *text) {
    if (be_rank("threads", 1, 2, 1)) snprintf(text, TEXT, "%s", tg_last_error());
    return NULL;
}

/// Two ranks that pass each other memory of GPUs: both messages are noted.
static tg_status pass_memory(void) {
    static char text[TEXT];
    pthread_t second;
    if (__real_pthread_create(&second, NULL, be_second_thread, text)) return TG_ERROR_MEMORY;
    tg_status status = be_rank("threads", 0, 2, 0);
    pthread_join(second, NULL);
    note(NULL, text);
    return status;
}

static void find_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int s = __real_socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, n) || getsockname(s, (struct sockaddr *)&a, &n))
        abort();
    close(s);
    meeting_port = a.sin_port;
    snprintf(meet, sizeof meet, "127.0.0.1:%d", ntohs(a.sin_port));
}

static tg_status be_far_rank(int rank) {
    char host[16];
    snprintf(host, sizeof host, "host %d", rank);
    setenv("TG_COMM_HOST", host, 1);
    return be_rank("nvshmem", rank, RANKS, 0);
}

/// Ranks as if on several hosts, of which this process is the last one.
static tg_status be_far(void) {
    pid_t others[RANKS - 1];
    find_port();
    for (int r = 0; r < RANKS - 1; r++) {
        others[r] = __real_fork();
        if (others[r] == 0) _exit(be_far_rank(r) ? 1 : 0);
    }
    tg_status status = be_far_rank(RANKS - 1);
    for (int r = 0; r < RANKS - 1; r++) {
        kill(others[r], SIGKILL);
        waitpid(others[r], NULL, 0);
    }
    return status;
}

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct Row {
    tg_status (*body)(void);
    const char *call; // NULL: none is refused here
    int error;
    tg_status status;
    const char *text[2];
} Row;

static const Row rows[] = {
    {needs_clusters,
     "cuLaunchKernelEx",
     0,
     TG_ERROR_UNSUPPORTED,
     {"clustered: 'clusters' needs clusters, which this driver has not"}},
    {needs_maps,
     "cuTensorMapEncodeTiled",
     0,
     TG_ERROR_UNSUPPORTED,
     {"mapped: this driver makes no such tensor maps"}},
    {has_no_gpu,
     NULL,
     0,
     TG_ERROR_UNSUPPORTED,
     {"the driver finds no NVIDIA GPU; CUDA_VISIBLE_DEVICES may hide them"}},
    {tunes_here,
     "fork",
     EAGAIN,
     TG_OK,
     {"'put' is not tuned: no process can be forked: Resource temporarily unavailable"}},
    {tunes_on_gpu,
     "memfd_create",
     EMFILE,
     TG_OK,
     {"'two_on_gpu' is not tuned: no file for another process: Too many open files"}},
    {tunes_on_gpu,
     "posix_spawnp",
     EAGAIN,
     TG_OK,
     {"'two_on_gpu' is not tuned: no process can be started: Resource temporarily unavailable"}},
    {be_first_process,
     "socket",
     EMFILE,
     TG_ERROR_INTERNAL,
     {"tg_comm_create: rank 0: a socket at '/nowhere/meet': Too many open files"}},
    {be_shmem_rank,
     "memfd_create",
     EMFILE,
     TG_ERROR_UNSUPPORTED,
     {"tg_comm_create: a library in memory: Too many open files"}},
    {be_shmem_rank,
     "dlopen",
     0,
     TG_ERROR_UNSUPPORTED,
     {"tg_comm_create: a library in memory: /nowhere/refused.so: cannot open"}},
    {lacks_shmem,
     "liboshmem.so",
     0,
     TG_ERROR_UNSUPPORTED,
     {"tg_comm_create: the engine 'openshmem' needs liboshmem.so of Open MPI (Debian: "
      "libopenmpi-dev, openmpi-bin), or TG_OPENSHMEM_LIBRARY set to its path: "}},
    {shmem_refuses, NULL, 0, TG_ERROR_UNSUPPORTED, {"tg_comm_create: shmem_init_thread failed"}},
    {shmem_is_serial,
     NULL,
     0,
     TG_ERROR_UNSUPPORTED,
     {"tg_comm_create: this OpenSHMEM library lets one thread alone call it"}},
    {shmem_is_full,
     NULL,
     0,
     TG_ERROR_MEMORY,
     {"tg_comm_create: shmem_align: no ",
      " bytes; SHMEM_SYMMETRIC_SIZE of OpenSHMEM says how many there are"}},
    {pass_memory, "dup", EMFILE, TG_ERROR_INTERNAL, {"tg_comm_create: dup: Too many open files"}},
    {be_far,
     "pthread_create",
     EAGAIN,
     TG_ERROR_MEMORY,
     {"tg_comm_create: no thread: Resource temporarily unavailable"}},
    {be_far,
     "connect",
     ENETUNREACH,
     TG_ERROR_RANK,
     {"tg_comm_create: rank 2 cannot connect to rank 1: Network is unreachable"}},
};

typedef struct Told {
    tg_status status;
    char text[TEXT];
} Told;
static Told *told; // by the process of a row

static void run_row(const Row *row) {
    refused.call = row->call;
    refused.error = row->error;
    told->status = row->body();
    snprintf(told->text, TEXT, "%s%.900s", told->status ? tg_last_error() : "", said.text);
    _exit(0);
}

static void messages(void **state) {
    (void)state;
    int failures = 0;
    for (int i = 0; i < COUNT(rows); i++) {
        const Row *row = &rows[i];
        int end = 0;
        *told = (Told){.status = TG_ERROR_INTERNAL, .text = "it ended"};
        fflush(NULL);
        pid_t pid = __real_fork();
        if (pid == 0) run_row(row);
        assert_int_equal(waitpid(pid, &end, 0), pid);
        bool right = end == 0 && told->status == row->status;
        for (int k = 0; k < 2 && row->text[k]; k++) right &= !!strstr(told->text, row->text[k]);
        if (!right)
            failures++, print_error("'%s' without %s: end %x, %s: %s\n", row->text[0],
                                    row->call ? row->call : "-", (unsigned)end,
                                    tg_status_name(told->status), told->text);
    }
    assert_int_equal(failures, 0);
}

int main(void) {
    snprintf(meet, sizeof meet, "/nowhere/meet");
    setenv("TG_CACHE", "off", 1);
    told = shared_memory(sizeof *told);
    if (!open_fake()) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
