// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that share memory: each is a process with a shard of its own, and reads the shards of all.
//   cc main.c $(pkg-config --cflags --libs tegula) -o ranks && ./ranks gather.teg 2
// This program starts the processes; `oshrun -n 2 ./ranks gather.teg` starts them, too.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tegula.h>
#include <unistd.h>

enum { N = 1000, MOST = 16 };

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, tg_last_error());
    return 1;
}

/// The launch is collective: it returns when all ranks have read this rank's shard.
static int gather(tg_comm *comm, const char *path) {
    static float all[MOST * N];
    int rank = tg_comm_rank(comm), ranks = tg_comm_ranks(comm);
    int64_t shard[1] = {N}, shards[2] = {ranks, N};
    DLDataType f32 = {kDLFloat, 32, 1};
    DLTensor a, out = tg_dense(all, kDLFloat, 32, 2, shards);
    tg_module *module;
    tg_kernel *kernel;
    if (ranks > MOST) return failed("too many ranks");
    if (tg_sym_alloc(comm, f32, 1, shard, 0, &a)) return failed("no symmetric memory");
    if (tg_module_from_file(path, NULL, &module)) return failed("cannot load");
    if (tg_module_kernel(module, "gather", &kernel)) return failed("no kernel");
    for (int i = 0; i < N; i++) ((float *)a.data)[i] = (float)(rank * N + i);
    tg_arg args[3] = {tg_tensor(&a), tg_tensor(&out), tg_float(2)};
    if (tg_launch(kernel, args, 3)) return failed("launch");
    int wrong = 0;
    for (int i = 0; i < ranks * N; i++) wrong += all[i] != 2 * (float)i;
    printf("rank %d of %d: %d of %d elements are wrong\n", rank, ranks, wrong, ranks * N);
    tg_module_destroy(module);
    return wrong != 0;
}

/// engine NULL: the environment chooses.
static int run_rank(const char *engine, const char *meet, int rank, int ranks, const char *path) {
    tg_comm_options options = {.size = sizeof options,
                               .engine = engine,
                               .meet = meet,
                               .rank = rank,
                               .ranks = ranks,
                               .device = -1,
                               .heap = 1 << 24};
    tg_comm *comm;
    if (tg_comm_create(&options, &comm)) return failed("the ranks do not meet");
    if (tg_context_set_comm(NULL, comm)) return failed("no context");
    int code = gather(comm, path);
    tg_context_set_comm(NULL, NULL);
    tg_comm_destroy(comm);
    return code;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "gather.teg";
    char meet[64];
    int ranks = argc > 2 ? atoi(argv[2]) : 0, code = 0;
    if (!ranks) return run_rank(NULL, NULL, -1, 0, path);
    snprintf(meet, sizeof meet, "/tmp/ranks-%d", (int)getpid());
    for (int r = 0; r < ranks; r++)
        if (fork() == 0) return run_rank("processes", meet, r, ranks, path);
    for (int r = 0, status; r < ranks; r++)
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) code = 1;
    return code;
}
