// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks with a GPU each: as threads of this process, then as processes of this host. Runs on real
// GPUs or on those of the stand-in driver (fake_cuda.h). Ends with 77 without two GPUs.
//
// comm_gpu [--launches N] [--time] [--nvshmem [--misuse NAME]] [--share W] [--tcp | --hosts]; a
// rank that is a process has also --rank R --ranks W --meet PATH. --share: W ranks, as processes
// only, share the GPUs. --misuse: unlike, odd, even, absent, dead, late. Otherwise all of them run
// one after the other, but NVSHMEM starts once in a process. --tcp: processes meet at a port;
// --hosts: as if each were on a host of its own.
#include "tests/runtime/comm_kernels.h"

#include "runtime/runtime.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { LONG_MS = 200000 };

static _Atomic int failures;
static const rt_cuda *cu;
static int launches = 5;
static int share; // number of ranks that share GPUs
static bool timed, nvshmem, tcp, hosts;
static const char *misuse;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (what) break;                                                                           \
        failures++;                                                                                \
        printf("FAIL line %d: %s (%s)\n", __LINE__, #what, tg_last_error());                       \
        fflush(stdout);                                                                            \
    } while (0)

/* ---- graphs: the real driver's or the stand-in's --------------------------------------------- */

static struct {
#define X(result, name, parameters) result(*name) parameters;
    FAKE_ENTRIES(X)
#undef X
} fake;
static struct {
    cu_result (*begin)(cu_stream, int), (*end)(cu_stream, void **);
    cu_result (*instantiate)(void **, void *, unsigned long long);
    cu_result (*launch)(void *, cu_stream), (*drop)(void *), (*drop_exec)(void *);
} graphs;

static void find_driver(void) {
    const char *set = getenv("TG_CUDA_LIBRARY");
    void *library = dlopen(set && *set ? set : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
#define X(result, name, parameters) *(void **)&fake.name = dlsym(library, #name);
    FAKE_ENTRIES(X)
#undef X
    if (fake.fake_kernel) add_fake_kernels(fake.fake_kernel);
    *(void **)&graphs.begin = dlsym(library, "cuStreamBeginCapture_v2");
    *(void **)&graphs.end = dlsym(library, "cuStreamEndCapture");
    *(void **)&graphs.instantiate = dlsym(library, "cuGraphInstantiateWithFlags");
    *(void **)&graphs.launch = dlsym(library, "cuGraphLaunch");
    *(void **)&graphs.drop = dlsym(library, "cuGraphDestroy");
    *(void **)&graphs.drop_exec = dlsym(library, "cuGraphExecDestroy");
}

/* ---- a rank ---------------------------------------------------------------------------------- */

typedef struct Rank {
    const char *engine, *meet;
    int rank, ranks, device;
    tg_context *context;
    tg_comm *comm;
    cu_stream stream;
    cu_pointer counted; // counter of wrong elements
    DLTensor bad, a, wide;
    uint32_t seed;
} Rank;

static DLTensor on_device(const Rank *r, void *data, const int64_t *shape, int rank) {
    DLTensor t = tg_dense(data, kDLUInt, 32, rank, shape);
    t.device = (DLDevice){kDLCUDA, r->device};
    return t;
}

static bool launch(Rank *r, tg_kernel *kernel, const DLTensor *a, int how, int chunk) {
    tg_arg args[] = {tg_tensor(a), tg_tensor(&r->bad), tg_int(r->seed), tg_int(how), tg_int(chunk)};
    return tg_launch_on(kernel, args, 5, r->stream) == TG_OK;
}

static bool make(Rank *r, const DLTensor *a) {
    tg_arg args[] = {tg_tensor(a), tg_int(++r->seed), tg_int(r->rank)};
    return tg_launch_on(&kernel_make, args, 3, r->stream) == TG_OK;
}

/// Returns the number of wrong elements since the last call.
static uint32_t wrong(Rank *r) {
    uint32_t n = 1;
    CHECK(tg_device_synchronize(r->device, r->stream) == TG_OK);
    CHECK(cu->to_host(&n, r->counted, sizeof n, r->stream) == 0);
    CHECK(cu->stream_synchronize(r->stream) == 0);
    CHECK(cu->set_words(r->counted, 0, 1, r->stream) == 0);
    return n;
}

static void transfers(Rank *r, const DLTensor *a) {
    static const int hows[] = {TG_GATHER_PULL, TG_GATHER_PUSH, TG_GATHER_BEFORE};
    static const int chunks[] = {300, 64, 150, 299};
    for (int h = 0; h < 3; h++)
        for (int c = 0; c < 4; c++) {
            bool ran = true;
            for (int i = 0; i < launches && ran; i++)
                ran = make(r, a) && launch(r, &kernel_collect, a, hows[h], chunks[c]);
            CHECK(ran);
            CHECK(wrong(r) == 0);
            for (int i = 0; i < launches && ran && hows[h] != TG_GATHER_PULL; i++) {
                r->seed++;
                ran = launch(r, &kernel_spread, a, hows[h], chunks[c]);
            }
            CHECK(ran);
            CHECK(wrong(r) == 0);
        }
}

/// Without mapped memory, programs that access other ranks' memory are refused, and later launches
/// work.
static void reach(Rank *r) {
    bool mapped = rt_comm_is_mapped(r->comm);
    CHECK(launch(r, &kernel_reach, &r->a, 0, 1) == mapped);
    CHECK(mapped || strstr(tg_last_error(), "access other ranks' memory in place, which "
                                            "'nvshmem' does not map here"));
    CHECK(make(r, &r->a) && launch(r, &kernel_collect, &r->a, TG_GATHER_PUSH, 64));
    CHECK(wrong(r) == 0);
}

/// Without room for other ranks' shards, and without mapped memory, the launch provides room.
static void lean(Rank *r) {
    static const int64_t shape[2] = {300, 500};
    DLTensor t;
    CHECK(tg_sym_alloc(r->comm, r->a.dtype, 2, shape, TG_SYM_LEAN, &t) == TG_OK);
    transfers(r, &t);
    CHECK(tg_sym_free(r->comm, &t) == TG_OK);
}

/// Launches that only meet.
static void meetings(Rank *r) {
    for (int i = 0; i < 4 * launches; i++) CHECK(launch(r, &kernel_come, &r->a, 0, 1));
    CHECK(tg_device_synchronize(r->device, r->stream) == TG_OK);
}

/// Two launches of each kind, with different contents.
static void record(Rank *r) {
    for (int i = 0; i < 2; i++) {
        CHECK(make(r, &r->a) && launch(r, &kernel_collect, &r->a, TG_GATHER_PULL, 100));
        CHECK(make(r, &r->a) && launch(r, &kernel_collect, &r->a, TG_GATHER_PUSH, 64));
        CHECK(launch(r, &kernel_spread, &r->a, TG_GATHER_PUSH, 150));
        CHECK(launch(r, &kernel_spread, &r->a, TG_GATHER_BEFORE, 300));
    }
}

static void replays(Rank *r) {
    void *graph = NULL, *exec = NULL;
    if (fake.fake_capture) {
        fake.fake_capture(r->stream);
        record(r);
        graph = fake.fake_capture_end(r->stream);
        for (int i = 0; i < launches; i++) {
            fake.fake_replay(graph);
            CHECK(launch(r, &kernel_collect, &r->a, TG_GATHER_PUSH, 300)); // not part of the graph
        }
        CHECK(wrong(r) == 0);
        fake.fake_drop(graph);
        return;
    }
    if (!graphs.begin) return;
    CHECK(graphs.begin(r->stream, 1) == 0);
    record(r);
    CHECK(graphs.end(r->stream, &graph) == 0 && graph);
    if (!graph) return;
    CHECK(graphs.instantiate(&exec, graph, 0) == 0 && exec);
    for (int i = 0; i < launches; i++) {
        CHECK(graphs.launch(exec, r->stream) == 0);
        CHECK(launch(r, &kernel_collect, &r->a, TG_GATHER_PUSH, 300));
    }
    CHECK(wrong(r) == 0);
    graphs.drop_exec(exec);
    graphs.drop(graph);
}

/* ---- order ----------------------------------------------------------------------------------- */

/// The operations of one launch on streams, as letters: L is the launch's stream, S are side
/// streams. Numbers of streams differ between runs, these texts do not.
static const char *given(Rank *r, tg_kernel *kernel, int how, int chunk) {
    static _Thread_local char out[4096];
    int own = -1;
    out[0] = 0;
    fake.fake_journal(r->device);
    CHECK(launch(r, kernel, &r->a, how, chunk));
    char *rest = NULL;
    char *text = strdup(fake.fake_journal(r->device));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *what = strchr(line, ' ') + 1;
        int stream = atoi(line);
        if (own < 0) own = stream; // the first operation is on the launch's stream
        if (strncmp(what, "wait for a", 10) != 0 && strncmp(what, "wait", 4) == 0)
            what = (char *)(uintptr_t)(atoi(what + 9) == own ? "wait for L" : "wait for S");
        size_t n = strlen(out);
        snprintf(out + n, sizeof out - n, "%c %s\n", stream == own ? 'L' : 'S', what);
    }
    free(text);
    return out;
}

static bool gives(Rank *r, tg_kernel *kernel, int how, int chunk, const char *want) {
    static const char early[] = "early ";
    char expected[4096];
    snprintf(expected, sizeof expected, "%s", want);
    char *at = expected;
    while (getenv("FAKE_CUDA_PLAIN") && (at = strstr(at, early)))
        memmove(at, at + sizeof early - 1, strlen(at + sizeof early - 1) + 1);
    return strcmp(given(r, kernel, how, chunk), expected) == 0;
}

/// Far ranks put the words of a meeting after a quiet, and flags after a quiet of their chunk.
/// Programs begin when all of that has completed, and nothing begins early.
#define MEETS "L tg_comm_step\nL nvshmem_quiet\nL nvshmem_put\nL tg_comm_step\n"
#define SENDS "S nvshmem_put\nS nvshmem_quiet\nS nvshmem_put\n"
static void order_far(Rank *r) {
    static const char pull[] =
        MEETS "L record\nS wait for L\nS nvshmem_get\nS copy 1 x 8\nS nvshmem_get\nS copy 1 x 8\n"
              "S record\nL wait for S\nL take\n" MEETS "L record\n";
    static const char push[] = "L tg_comm_step\nL record\nS wait for L\n" SENDS SENDS
                               "S record\nL wait for S\nL take\n" MEETS "L record\n";
    static const char spread[] =
        "L tg_comm_step\nL record\nS wait for L\n"
        "S wait for a word\nS copy 1 x 600000\n" SENDS
        "S wait for a word\nS copy 1 x 600000\n" SENDS
        "L give\nL tg_comm_step\nS record\nL wait for S\nL fold\nL tg_comm_step\n" MEETS
        "L record\n";
    CHECK(make(r, &r->a) && launch(r, &kernel_spread, &r->a, TG_GATHER_PUSH, 150));
    CHECK(gives(r, &kernel_collect, TG_GATHER_PULL, 150, pull));
    CHECK(gives(r, &kernel_collect, TG_GATHER_PUSH, 150, push));
    CHECK(gives(r, &kernel_spread, TG_GATHER_PUSH, 150, spread));
}

/// Every operation that a launch waits for is submitted before it. Chunks precede their flags. The
/// side streams are joined before the last meeting. A step may begin early only right after
/// programs.
static void order(Rank *r) {
    static const char pull[] = "L tg_comm_step\nL record\nS wait for L\n"
                               "S copy 1 x 600000\nS copy 1 x 8\nS copy 1 x 600000\nS copy 1 x 8\n"
                               "L take\nS record\nL wait for S\nL tg_comm_step\nL record\n";
    static const char spread[] =
        "L tg_comm_step\nL record\nS wait for L\n"
        "S wait for a word\nS copy 1 x 600000\nS copy 1 x 8\n"
        "S wait for a word\nS copy 1 x 600000\nS copy 1 x 8\n"
        "L give\nL fold\nL early tg_comm_step\nS record\nL wait for S\nL tg_comm_step\nL record\n";
    static const char before[] =
        "L tg_comm_step\nL record\nS wait for L\nS copy 1 x 1200000\nS record\n"
        "L wait for S\nL take\nL early tg_comm_step\nL record\n";
    // Copies within a device complete before programs begin.
    static const char shared[] = "L tg_comm_step\nL record\nS wait for L\n"
                                 "S copy 1 x 600000\nS copy 1 x 8\n"
                                 "S copy 1 x 600000\nS copy 1 x 8\nS record\nL wait for S\n"
                                 "L take\nL early tg_comm_step\nL record\n";
    static const char spread_shared[] = "L tg_comm_step\nL record\nS wait for L\n"
                                        "S wait for a word\nS copy 1 x 600000\nS copy 1 x 8\n"
                                        "S wait for a word\nS copy 1 x 600000\nS copy 1 x 8\n"
                                        "L give\nL early tg_comm_step\nS record\n"
                                        "L wait for S\nL fold\n"
                                        "L early tg_comm_step\nL tg_comm_step\nL record\n";
    if (!fake.fake_journal || r->ranks != 2) return;
    if (!rt_comm_is_mapped(r->comm)) {
        order_far(r);
        return;
    }
    const char *gather = share ? shared : pull;
    CHECK(make(r, &r->a) && launch(r, &kernel_spread, &r->a, TG_GATHER_PUSH, 150));
    CHECK(gives(r, &kernel_collect, TG_GATHER_PULL, 150, gather));
    CHECK(gives(r, &kernel_collect, TG_GATHER_PUSH, 150, gather));
    CHECK(gives(r, &kernel_collect, TG_GATHER_BEFORE, 300, before));
    CHECK(gives(r, &kernel_spread, TG_GATHER_PUSH, 150, share ? spread_shared : spread));
}

/* ---- times ----------------------------------------------------------------------------------- */

/// Microseconds of a launch in a graph of `n` launches.
static double graph_time(Rank *r, tg_kernel *kernel, const DLTensor *a, int how, int chunk, int n) {
    cu_event from, to;
    float ms = 0, best = 1e9f;
    void *graph = NULL, *exec = NULL;
    CHECK(cu->event_create(&from, 0) == 0 && cu->event_create(&to, 0) == 0);
    CHECK(launch(r, kernel, a, how, chunk));
    CHECK(tg_comm_barrier(r->comm) == TG_OK);
    CHECK(graphs.begin(r->stream, 1) == 0);
    for (int i = 0; i < n; i++) CHECK(launch(r, kernel, a, how, chunk));
    CHECK(graphs.end(r->stream, &graph) == 0 && graph);
    CHECK(graphs.instantiate(&exec, graph, 0) == 0 && exec);
    for (int i = 0; i < 5; i++) {
        CHECK(tg_comm_barrier(r->comm) == TG_OK);
        cu->event_record(from, r->stream);
        CHECK(graphs.launch(exec, r->stream) == 0);
        cu->event_record(to, r->stream);
        CHECK(tg_device_synchronize(r->device, r->stream) == TG_OK);
        cu->event_elapsed(&ms, from, to);
        if (ms < best) best = ms;
    }
    graphs.drop_exec(exec);
    graphs.drop(graph);
    return best * 1e3 / n;
}

static void times(Rank *r) {
    static const char *const hows[] = {"before", "pull", "push"};
    double us = graph_time(r, &kernel_come, &r->a, 0, 1, 50);
    if (r->rank == 0) printf("%s: launch with two meetings %.2f us\n", r->engine, us);
    for (int mib = 1; mib <= 256; mib *= 4) {
        int64_t shape[2] = {(int64_t)mib * 512 / r->ranks, 512}; // rows of 2 KiB
        DLTensor t;
        CHECK(tg_sym_alloc(r->comm, r->a.dtype, 2, shape, 0, &t) == TG_OK);
        for (int how = 0; how < 3; how++)
            for (int chunks = 1; chunks <= 8; chunks *= 8) {
                CHECK(make(r, &t));
                us = graph_time(r, &kernel_collect, &t, how, (int)shape[0] / chunks, 10);
                double gb = (double)mib * 1048576 * (r->ranks - 1) / r->ranks / us * 1e-3;
                if (r->rank == 0)
                    printf("%s: gather %d MiB in all, %s, %d chunks: %.2f us, %.1f GB/s\n",
                           r->engine, mib, hows[how], chunks, us, gb);
            }
        CHECK(wrong(r) == 0);
        CHECK(tg_sym_free(r->comm, &t) == TG_OK);
    }
}

/* ---- failures -------------------------------------------------------------------------------- */

/// The last rank does not come. The others report it, also at later calls.
static void absent(Rank *r) {
    if (r->rank == r->ranks - 1) return;
    CHECK(launch(r, &kernel_come, &r->a, 0, 1));
    CHECK(tg_device_synchronize(r->device, r->stream) != TG_OK);
    char want[64];
    snprintf(want, sizeof want, "rank %d waited", r->rank);
    CHECK(strstr(tg_last_error(), want) || strstr(tg_last_error(), "has failed") ||
          strstr(tg_last_error(), "has died")); // a process that left
    if (r->rank == 0) printf("%s: absent rank: %s\n", r->engine, tg_last_error());
    CHECK(!launch(r, &kernel_come, &r->a, 0, 1));
}

/// The last rank ends. The others learn of it before the time limit.
static void dead(Rank *r) {
    CHECK(launch(r, &kernel_come, &r->a, 0, 1));
    CHECK(tg_device_synchronize(r->device, r->stream) == TG_OK);
    CHECK(tg_comm_barrier(r->comm) == TG_OK);
    if (r->rank == r->ranks - 1) _exit(0);
    CHECK(!launch(r, &kernel_come, &r->a, 0, 1) ||
          tg_device_synchronize(r->device, r->stream) != TG_OK);
    CHECK(strstr(tg_last_error(), "has died") || strstr(tg_last_error(), "has ended"));
    if (r->rank == 0) printf("%s: dead rank: %s\n", r->engine, tg_last_error());
}

/// The last rank is slow, and everything works.
static void late(Rank *r) {
    for (int i = 0; i < 3; i++) {
        if (r->rank == r->ranks - 1) nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        CHECK(make(r, &r->a) && launch(r, &kernel_collect, &r->a, TG_GATHER_PULL, 2));
        CHECK(wrong(r) == 0);
    }
}

/// The last rank passes another part of a tensor, after `times` launches in which it did not.
static bool passes_part(Rank *r, int times) {
    static int64_t shape[2] = {2, 4};
    bool passed = true;
    DLTensor part = r->a;
    part.byte_offset = r->rank == r->ranks - 1 ? 4 * 4 : 0;
    part.shape = shape;
    for (int i = 0; i < times && passed; i++) passed = launch(r, &kernel_come, &part, 0, 1);
    return passed;
}

static bool runs(const Rank *r) {
    return tg_device_synchronize(r->device, r->stream) == TG_OK;
}

/// All ranks are told before the time limit.
static void unlike(Rank *r) {
    for (int i = 0; i < 3; i++) CHECK(launch(r, &kernel_come, &r->a, 0, 1));
    CHECK(!passes_part(r, 1) || !runs(r));
    CHECK(strstr(tg_last_error(), "another part of it, of that shape"));
    if (r->rank == 0) printf("%s: unlike: %s\n", r->engine, tg_last_error());
}

/// Returns the path of the file by which a rank shows that it is ahead of the last one. The path is
/// the same in all ranks, be they threads or processes.
static const char *ahead_file(const Rank *r, int rank, char out[300]) {
    const char *slash = strrchr(r->meet, '/');
    bool is_thread = strcmp(r->engine, "threads") == 0;
    snprintf(out, 300, "/tmp/comm_gpu-ahead-%d-%.200s-%d", (int)(is_thread ? getpid() : getppid()),
             slash ? slash + 1 : r->meet, rank);
    return out;
}

static void note_ahead(const Rank *r) {
    char path[300];
    FILE *f = fopen(ahead_file(r, r->rank, path), "w");
    CHECK(f && fclose(f) == 0);
}

static void wait_for_others(const Rank *r) {
    char path[300];
    for (int i = 0; i < r->ranks - 1; i++) {
        while (access(ahead_file(r, i, path), F_OK))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        unlink(path);
    }
}

/// The last rank comes when the others are ahead. Their hosts then do not see the mistake, but the
/// devices do. With the stand-in driver a launch has ended when it returns, so no rank could be
/// ahead; there a graph is replayed. Odd and even meetings use different words, so both are tried.
static void unlike_at(Rank *r, bool even) {
    bool last = r->rank == r->ranks - 1, passed;
    void *graph = NULL;
    CHECK(launch(r, &kernel_come, &r->a, 0, 1));
    if (even) CHECK(launch(r, &kernel_collect, &r->a, TG_GATHER_PUSH, 3)); // has one meeting
    if (fake.fake_capture) fake.fake_capture(r->stream);
    if (last) wait_for_others(r);
    passed = passes_part(r, last ? 1 : 3);
    if (!last) note_ahead(r);
    if (fake.fake_capture) graph = fake.fake_capture_end(r->stream);
    if (graph && passed) fake.fake_replay(graph);
    CHECK(!passed || !runs(r));
    CHECK(strstr(tg_last_error(), "met in different launches") ||
          strstr(tg_last_error(), "has failed"));
    if (r->rank == 0) printf("%s: unlike, ahead: %s\n", r->engine, tg_last_error());
    if (graph) fake.fake_drop(graph);
}

static void unlike_odd(Rank *r) {
    unlike_at(r, false);
}

static void unlike_even(Rank *r) {
    unlike_at(r, true);
}

/* ---- all of a rank --------------------------------------------------------------------------- */

static bool open_comm(Rank *r, int timeout_ms) {
    tg_comm_options options = {.size = sizeof options,
                               .engine = r->engine,
                               .meet = r->meet,
                               .rank = r->rank,
                               .ranks = r->ranks,
                               .device = r->device,
                               .heap = timed ? (size_t)1 << 30 : (size_t)64 << 20,
                               .timeout_ms = timeout_ms};
    CHECK(tg_comm_create(&options, &r->comm) == TG_OK);
    return r->comm && tg_context_set_comm(r->context, r->comm) == TG_OK;
}

static void close_comm(Rank *r) {
    tg_context_set_comm(r->context, NULL);
    tg_comm_destroy(r->comm);
    r->comm = NULL;
}

static void work(Rank *r) {
    static const int64_t shape[2] = {300, 1000}, narrow[2] = {300, 900};
    static int64_t strides[2] = {1000, 1};
    CHECK(tg_sym_alloc(r->comm, r->bad.dtype, 2, shape, 0, &r->a) == TG_OK);
    DLTensor view = r->a;
    view.shape = (int64_t *)(uintptr_t)narrow;
    view.strides = strides;
    view.byte_offset = 64 * 4;
    transfers(r, &r->a);
    transfers(r, &view);
    meetings(r);
    for (int i = 0; i < launches; i++) reach(r);
    order(r);
    replays(r);
    if (!rt_comm_is_mapped(r->comm)) lean(r);
    if (timed && graphs.begin) times(r);
    CHECK(tg_sym_free(r->comm, &r->a) == TG_OK);
}

/// Runs a misuse in a group of its own, which cannot be used afterwards.
static void misused(Rank *r, const char *name, void (*how)(Rank *)) {
    static const int64_t shape[2] = {3, 4};
    const char *place = r->meet;
    char meet[256];
    snprintf(meet, sizeof meet, "%s-%s", place, name);
    if (!misuse) r->meet = meet;
    if (open_comm(r, how == absent ? 5000 : LONG_MS)) {
        CHECK(tg_sym_alloc(r->comm, r->bad.dtype, 2, shape, 0, &r->a) == TG_OK);
        how(r);
        close_comm(r);
    }
    r->meet = place;
}

/// Runs the requested misuse, or all that leave the process intact.
static void misuses(Rank *r) {
    static const struct {
        const char *name;
        void (*how)(Rank *);
        bool alone;
    } all[] = {{"unlike", unlike, false}, {"odd", unlike_odd, false}, {"even", unlike_even, false},
               {"absent", absent, false}, {"dead", dead, true},       {"late", late, true}};
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++)
        if (misuse ? strcmp(misuse, all[i].name) == 0 : !all[i].alone && !nvshmem)
            misused(r, all[i].name, all[i].how);
}

/// Threads that share a GPU are refused.
static void *neighbour_main(void *state) {
    const Rank *r = state;
    tg_comm_options options = {.size = sizeof options,
                               .engine = r->engine,
                               .meet = "neighbours",
                               .rank = r->rank,
                               .ranks = r->ranks,
                               .device = 0};
    tg_comm *c = NULL;
    CHECK(tg_comm_create(&options, &c) == TG_ERROR_UNSUPPORTED);
    CHECK(strstr(tg_last_error(), "ranks 0 and 1 are threads of one process and share a GPU"));
    return NULL;
}

static void *rank_main(void *state) {
    static const int64_t one[1] = {1};
    Rank *r = state;
    rt_device *d = rt_device_at(r->device);
    rt_entered e = {0};
    tg_options options = {.size = sizeof options, .threads = 1};
    CHECK(d && rt_enter(d, &e) == TG_OK);
    CHECK(tg_context_create(&options, &r->context) == TG_OK);
    tg_context_use(r->context);
    CHECK(cu->stream_create(&r->stream, CU_NON_BLOCKING) == 0);
    CHECK(cu->allocate(&r->counted, 4) == 0 && cu->set_words(r->counted, 0, 1, r->stream) == 0);
    r->bad = on_device(r, (void *)(uintptr_t)r->counted, one, 1);
    if (!misuse && open_comm(r, LONG_MS)) {
        work(r);
        close_comm(r);
    }
    misuses(r);
    cu->release(r->counted);
    cu->stream_destroy(r->stream);
    tg_context_use(NULL);
    tg_context_destroy(r->context);
    rt_leave(e);
    return NULL;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void as_threads(int ranks, void *(*run)(void *)) {
    pthread_t threads[8];
    Rank all[8];
    for (int i = 0; i < ranks; i++) {
        all[i] =
            (Rank){.engine = "threads", .meet = "comm_gpu", .rank = i, .ranks = ranks, .device = i};
        CHECK(pthread_create(&threads[i], NULL, run, &all[i]) == 0);
    }
    for (int i = 0; i < ranks; i++) pthread_join(threads[i], NULL);
}

/// Finds a free port.
static void find_port(char *out, size_t size) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(s >= 0 && bind(s, (struct sockaddr *)&a, n) == 0);
    CHECK(getsockname(s, (struct sockaddr *)&a, &n) == 0);
    close(s);
    snprintf(out, size, "127.0.0.1:%d", ntohs(a.sin_port));
}

static void as_processes(const char *program, int ranks) {
    pid_t pids[8];
    char numbers[4][16], meet[64];
    snprintf(meet, sizeof meet, "/tmp/comm_gpu.%d", (int)getpid());
    if (tcp) find_port(meet, sizeof meet);
    for (int i = 0; i < ranks; i++) {
        snprintf(numbers[0], 16, "%d", i);
        snprintf(numbers[1], 16, "%d", ranks);
        snprintf(numbers[2], 16, "%d", launches);
        snprintf(numbers[3], 16, "%d", share);
        char *args[] = {(char *)(uintptr_t)program,
                        (char *)(uintptr_t) "--rank",
                        numbers[0],
                        (char *)(uintptr_t) "--ranks",
                        numbers[1],
                        (char *)(uintptr_t) "--launches",
                        numbers[2],
                        (char *)(uintptr_t) "--share",
                        numbers[3],
                        (char *)(uintptr_t) "--meet",
                        meet,
                        (char *)(uintptr_t)(nvshmem ? "--nvshmem"
                                            : timed ? "--time"
                                                    : NULL),
                        (char *)(uintptr_t)(nvshmem && misuse ? "--misuse" : NULL),
                        (char *)(uintptr_t)misuse,
                        NULL};
        if (hosts) setenv("TG_COMM_HOST", numbers[0], 1);
        CHECK(posix_spawn(&pids[i], program, NULL, NULL, args, environ) == 0);
    }
    for (int i = 0; i < ranks; i++) {
        int status = 1;
        waitpid(pids[i], &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(int argc, char **argv) {
    Rank own = {.engine = "processes", .rank = -1};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--time") == 0) timed = true;
        if (strcmp(argv[i], "--nvshmem") == 0) nvshmem = true;
        if (strcmp(argv[i], "--hosts") == 0) hosts = true;
        if (strcmp(argv[i], "--tcp") == 0 || hosts) tcp = true;
        if (strcmp(argv[i], "--rank") == 0) own.rank = atoi(value);
        if (strcmp(argv[i], "--ranks") == 0) own.ranks = atoi(value);
        if (strcmp(argv[i], "--launches") == 0) launches = atoi(value);
        if (strcmp(argv[i], "--meet") == 0) own.meet = value;
        if (strcmp(argv[i], "--share") == 0) share = atoi(value);
        if (strcmp(argv[i], "--misuse") == 0) misuse = value;
    }
    int devices = tg_device_count();
    if (devices < 1 || (devices < 2 && !share)) {
        printf("skipped: %d GPUs; ranks with GPUs need two\n", devices);
        return 77;
    }
    cu = rt_cuda_driver();
    find_driver();
    if (nvshmem) own.engine = "nvshmem";
    if (own.rank >= 0) {
        own.device = own.rank % devices;
        rank_main(&own);
    } else {
        int ranks = share ? share : devices < 4 ? devices : 4;
        if (!nvshmem && !share) as_threads(2, rank_main);
        if (!nvshmem && !share && ranks > 2) as_threads(ranks, rank_main);
        if (!nvshmem) as_threads(2, neighbour_main);
        as_processes(argv[0], ranks);
    }
    const char *mistake = fake.fake_mistake ? fake.fake_mistake() : NULL;
    if (mistake) printf("FAIL: the driver was asked for what is wrong: %s\n", mistake);
    if (own.rank < 0) printf("%d failures\n", failures + (mistake != NULL));
    return failures || mistake ? 1 : 0;
}
