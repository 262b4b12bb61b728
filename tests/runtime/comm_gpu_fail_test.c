// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks with a GPU each whose driver refuses a call, on the stand-in driver. Every function that
// the runtime calls for ranks fails once: all ranks must learn of it before the time limit, nothing
// may be left, and the next group must work. A time limit would show in a message ("waited").
#include "tests/runtime/comm_kernels.h"

#include "runtime/comm/comm_cuda.h"
#include "runtime/runtime.h"
#include "tests/open_files.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 2, LONG_MS = 600000, ERROR = 2, ROWS = 6, COLUMNS = 8, NARROW = 5 };
enum { TEXT = 512 };

static struct {
#define X(result, name, parameters) result(*name) parameters;
    FAKE_ENTRIES(X)
#undef X
} fake;

typedef struct Rank Rank;
typedef void Body(Rank *r);

struct Rank {
    int number;
    Body *body;
    const void *arg;
    pthread_t thread;
    pthread_barrier_t *all;
    tg_context *context;
    tg_comm *comm;
    cu_stream stream;   // one for all tests, since workspaces of streams are kept
    cu_pointer counted; // the number of wrong elements
    DLTensor a, bad;
    uint32_t seed;
    tg_status status; // of the last call
    char text[TEXT];  // its message
};

static tg_status note(Rank *r, tg_status status) {
    r->status = status;
    snprintf(r->text, sizeof r->text, "%s", status ? tg_last_error() : "");
    return status;
}

static struct {
    const char *call;
    _Atomic int skip; // calls that succeed before the one that fails
} later;

static void count_down(const char *call) {
    if (strcmp(call, later.call) == 0 && --later.skip == 0) fake.fake_fail(call, ERROR);
}

/// Makes a call fail, after `skip` calls that succeed. One rank does so before any rank goes on.
static void let_fail(Rank *r, const char *call, int skip) {
    pthread_barrier_wait(r->all);
    if (r->number == 0) {
        later.call = call;
        later.skip = skip;
        if (skip)
            fake.fake_watch(count_down);
        else
            fake.fake_fail(call, ERROR);
    }
    pthread_barrier_wait(r->all);
}

/// Withdraws an injected failure that no call has reached.
static void forget_failure(const char *call) {
    fake.fake_watch(NULL);
    fake.fake_fail(call, 0);
}

static tg_status open_group(Rank *r) {
    tg_comm_options options = {.size = sizeof options,
                               .engine = "threads",
                               .meet = "failures",
                               .rank = r->number,
                               .ranks = RANKS,
                               .device = r->number,
                               .heap = 4 << 20,
                               .timeout_ms = LONG_MS};
    tg_status status = note(r, tg_comm_create(&options, &r->comm));
    return status ? status : note(r, tg_context_set_comm(r->context, r->comm));
}

static void close_group(Rank *r) {
    tg_context_set_comm(r->context, NULL);
    tg_comm_destroy(r->comm);
    r->comm = NULL;
}

static tg_status make_tensor(Rank *r) {
    static const int64_t shape[2] = {ROWS, COLUMNS};
    return note(r, tg_sym_alloc(r->comm, (DLDataType){kDLUInt, 32, 1}, 2, shape, 0, &r->a));
}

static tg_status make(Rank *r, const DLTensor *a) {
    tg_arg args[] = {tg_tensor(a), tg_int(++r->seed), tg_int(r->number)};
    return note(r, tg_launch_on(&kernel_make, args, 3, r->stream));
}

static tg_status launch(Rank *r, tg_kernel *kernel, const DLTensor *a, int how) {
    tg_arg args[] = {tg_tensor(a), tg_tensor(&r->bad), tg_int(r->seed), tg_int(how), tg_int(2)};
    tg_status status = tg_launch_on(kernel, args, 5, r->stream);
    if (!status) status = tg_device_synchronize(r->number, r->stream);
    return note(r, status);
}

/// Launches of a group compute right results.
static void works(Rank *r) {
    uint32_t wrong = 1;
    if (open_group(r) || make_tensor(r)) return;
    for (int how = TG_GATHER_BEFORE; how <= TG_GATHER_PUSH; how++)
        if (make(r, &r->a) || launch(r, &kernel_collect, &r->a, how)) return;
    if (launch(r, &kernel_spread, &r->a, TG_GATHER_PUSH)) return;
    rt_entered e;
    if (rt_enter(rt_device_at(r->number), &e) ||
        rt_cuda_driver()->to_host(&wrong, r->counted, sizeof wrong, r->stream) || wrong) {
        r->status = TG_ERROR_INTERNAL;
        snprintf(r->text, sizeof r->text, "%u elements are wrong", wrong);
    }
    rt_leave(e);
    tg_sym_free(r->comm, &r->a);
    close_group(r);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void prepare_rank(Rank *r) {
    static const int64_t one[1] = {1};
    static cu_stream streams[RANKS];
    const rt_cuda *cu = rt_cuda_driver();
    cu_stream *stream = &streams[r->number];
    rt_entered e;
    if (rt_enter(rt_device_at(r->number), &e) ||
        (!*stream && cu->stream_create(stream, CU_NON_BLOCKING)) || cu->allocate(&r->counted, 4) ||
        cu->set_words(r->counted, 0, 1, *stream))
        abort();
    rt_leave(e);
    r->stream = *stream;
    r->bad = tg_dense((void *)(uintptr_t)r->counted, kDLUInt, 32, 1, one);
    r->bad.device = (DLDevice){kDLCUDA, r->number};
}

static void free_rank(Rank *r) {
    rt_entered e;
    if (rt_enter(rt_device_at(r->number), &e)) abort();
    rt_cuda_driver()->release(r->counted);
    rt_leave(e);
}

static void *rank_main(void *state) {
    Rank *r = state;
    tg_options options = {.size = sizeof options, .threads = 1};
    prepare_rank(r);
    if (tg_context_create(&options, &r->context)) abort();
    tg_context_use(r->context);
    r->body(r);
    tg_context_use(NULL);
    tg_context_destroy(r->context);
    free_rank(r);
    return NULL;
}

/// Runs the body on all ranks. Returns their records.
static const Rank *on_ranks(Body *body, const void *arg) {
    static Rank ranks[RANKS];
    pthread_barrier_t all;
    pthread_barrier_init(&all, NULL, RANKS);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (Rank){.number = i, .body = body, .arg = arg, .all = &all};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) pthread_join(ranks[i].thread, NULL);
    pthread_barrier_destroy(&all);
    return ranks;
}

static void expect_works(void) {
    const Rank *ranks = on_ranks(works, NULL);
    for (int i = 0; i < RANKS; i++)
        if (ranks[i].status) fail_msg("rank %d: %s", i, ranks[i].text);
}

/// Expects one rank to name the call and its purpose, and the others to say that this rank has
/// failed.
static void expect_told(const Rank *ranks, const char *call, const char *what) {
    int named = 0;
    for (int i = 0; i < RANKS; i++) {
        const char *text = ranks[i].text;
        if (!ranks[i].status) fail_msg("%s: rank %d is not told", call, i);
        if (strstr(text, "waited") || strstr(text, " 0 MiB"))
            fail_msg("%s: rank %d: %s", call, i, text);
        bool names = strstr(text, call) && strstr(text, what);
        named += names;
        if (!names && !strstr(text, "has failed") && !strstr(text, "symmetric memory left"))
            fail_msg("%s: rank %d: %s", call, i, text);
    }
    if (!named) fail_msg("no rank names %s and '%s': %s", call, what, ranks[0].text);
}

/// The resources that this process holds.
typedef struct Held {
    int memory, modules, files;
} Held;

static Held held_now(void) {
    return (Held){fake.fake_allocated(), fake.fake_modules(), count_files()};
}

static void expect_nothing_left(const char *call, Held before) {
    Held now = held_now();
    const char *mistake = fake.fake_mistake();
    if (now.memory != before.memory)
        fail_msg("%s: %d pieces of device memory, %d before", call, now.memory, before.memory);
    if (now.modules != before.modules) fail_msg("%s: modules are left", call);
    if (now.files != before.files) fail_msg("%s: files are left open", call);
    if (mistake) fail_msg("%s: %s", call, mistake);
}

/* ---- creation -------------------------------------------------------------------------------- */

#define MEMORY " MiB a rank on device "
static const struct Creation {
    const char *call, *what;
} creations[] = {
    {"cuCtxPushCurrent", "device "},
    {"cuMemGetAllocationGranularity", MEMORY},
    {"cuDeviceGetUuid", MEMORY},
    {"cuMemCreate", "symmetric memory of "},
    {"cuMemExportToShareableHandle", "symmetric memory of "},
    {"cuMemImportFromShareableHandle", "must see all the devices: CUDA_VISIBLE_DEVICES"},
    {"cuMemAddressReserve", "symmetric memory of "},
    {"cuMemMap", "symmetric memory of "},
    {"cuMemSetAccess", "can it reach their memory (nvidia-smi topo -p2p r)?"},
    {"cuModuleLoadDataEx", "loading the steps of several ranks"},
    {"cuModuleGetFunction", "the steps of several ranks on device "},
    {"cuStreamCreateWithPriority", "ranks with GPUs"},
    {"cuEventCreate", "ranks with GPUs"},
    {"cuMemHostAlloc", "ranks with GPUs"},
    {"cuMemsetD32Async", "symmetric memory of "},
    {"cuMemcpyHtoDAsync", "symmetric memory of "},
};

/// The driver's name of a function, which may have a version.
static const char *entry_of(const char *call) {
    static const char *const versions[] = {"cuCtxPushCurrent_v2",    "cuDeviceGetUuid_v2",
                                           "cuMemcpyHtoDAsync_v2",   "cuMemcpyDtoHAsync_v2",
                                           "cuMemcpyDtoDAsync_v2",   "cuMemcpy2DAsync_v2",
                                           "cuStreamWaitValue64_v2", "cuMemcpyHtoD_v2"};
    size_t n = strlen(call);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (strncmp(versions[i], call, n) == 0 && versions[i][n] == '_') return versions[i];
    return call;
}

static void creates(Rank *r) {
    const struct Creation *f = r->arg;
    let_fail(r, entry_of(f->call), 0);
    if (!open_group(r)) close_group(r);
}

static void creation(void **state) {
    (void)state;
    expect_works();
    Held before = held_now();
    for (size_t i = 0; i < sizeof creations / sizeof *creations; i++) {
        const struct Creation *f = &creations[i];
        expect_told(on_ranks(creates, f), f->call, f->what);
        expect_nothing_left(f->call, before);
        expect_works();
    }
}

/* ---- launches -------------------------------------------------------------------------------- */

typedef struct Launch {
    const char *call, *what;
    tg_kernel *kernel;
    int how, skip;
    bool narrow; // a view whose rows have gaps
} Launch;

static const Launch refused[] = {
    {"cuLaunchKernel", "a step between ranks", &kernel_come, 0, 0, false},
    {"cuEventRecord", "a fork of streams between ranks", &kernel_collect, TG_GATHER_PULL, 0, false},
    {"cuStreamWaitEvent", "of streams between ranks", &kernel_collect, TG_GATHER_PUSH, 0, false},
    {"cuStreamWaitEvent", "of streams between ranks", &kernel_collect, TG_GATHER_BEFORE, 3, false},
    {"cuMemcpyDtoDAsync", "a copy between ranks", &kernel_collect, TG_GATHER_BEFORE, 0, false},
    {"cuMemcpyDtoDAsync", "between ranks", &kernel_collect, TG_GATHER_PUSH, 3, false},
    {"cuMemcpy2DAsync", "a copy of rows between ranks", &kernel_collect, TG_GATHER_PULL, 1, true},
    {"cuStreamWaitValue64", "a wait for a chunk between ranks", &kernel_spread, TG_GATHER_PUSH, 0,
     false},
    // The sides already wait for words that no program will raise.
    {"cuLaunchKernelEx", "give", &kernel_spread, TG_GATHER_PUSH, 0, false},
};

static void launches(Rank *r) {
    const Launch *f = r->arg;
    static const int64_t narrow[2] = {ROWS, NARROW};
    static const int64_t strides[2] = {COLUMNS, 1};
    if (open_group(r) || make_tensor(r)) return;
    DLTensor a = r->a;
    if (f->narrow) a.shape = (int64_t *)(uintptr_t)narrow;
    if (f->narrow) a.strides = (int64_t *)(uintptr_t)strides;
    if (make(r, &a) || launch(r, f->kernel, &a, f->how)) return;
    if (make(r, &a)) return;
    let_fail(r, entry_of(f->call), f->skip);
    launch(r, f->kernel, &a, f->how);
    close_group(r);
}

static void launching(void **state) {
    (void)state;
    expect_works();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const Launch *f = &refused[i];
        Held before = held_now();
        expect_told(on_ranks(launches, f), f->call, f->what);
        forget_failure(entry_of(f->call));
        expect_nothing_left(f->call, before);
        expect_works();
    }
}

/* ---- calls that a launch on a GPU refuses ---------------------------------------------------- */

/// asks(a: sym u32[W][M, K], bad, seed, what: i64, chunk).
typedef enum What {
    FENCES,
    COPIES,
    SIGNALS,
    WAITS,
    ROOM,
    WORDS,
    LEAN_GATHER,
    PRIVATE_WORDS,
    MANY_SCATTERS
} What;
enum { HUGE_ROOM = 1 << 30 };

static int32_t fences(const tg_env *env) {
    int32_t status = env->comm->fence(env, 0);
    return status ? status : env->comm->fence(env, 1);
}

static int32_t scatters(const tg_env *env, int n, bool are_private) {
    const tg_comm_calls *comm = env->comm;
    tg_scatter s = {.part = 8, .rows = 1, .row_bytes = 8, .pitch = 8, .chunk_rows = 1, .name = "b"};
    int64_t lead;
    int32_t status = 0;
    s.how = TG_GATHER_PUSH;
    s.local = env->workspace(env, 8 * RANKS);
    s.stage = comm->workspace(env, 8 * RANKS, &s.lead);
    s.flags = comm->signals(env, 0, RANKS, &s.flags_lead);
    for (int i = 0; i < n && !status; i++) {
        s.done = are_private ? s.local : comm->signals(env, 1 + i, RANKS, &lead);
        if (!are_private) s.done += lead / 8 * comm->rank;
        status = comm->scatter(env, &s);
    }
    return status;
}

static int32_t gathers(const tg_env *env, const tg_slot *a) {
    tg_gather g = {.data = a->tensor.data,
                   .lead = a->tensor.strides[0] * 4,
                   .rows = 1,
                   .row_bytes = 4,
                   .pitch = 4,
                   .chunk_rows = 1,
                   .name = "a"};
    return env->comm->gather(env, &g);
}

static int32_t asks_entry(const tg_slot *args, const tg_env *env) {
    const tg_comm_calls *comm = env->comm;
    int64_t word = 0, lead;
    int32_t status = comm->begin(env, TG_BEGIN_REACHES);
    if (status) return status;
    switch ((What)args[3].bits) {
    case FENCES: status = fences(env); break;
    case COPIES: status = comm->get(env, &word, args[0].tensor.data, 4); break;
    case SIGNALS: status = comm->signal(env, &word, TG_SIGNAL_SET, 1); break;
    case WAITS: status = comm->wait(env, NULL, &word, TG_CMP_EQ, 1, 0, 0); break;
    case ROOM: status = comm->workspace(env, HUGE_ROOM, &lead) ? 0 : TG_RUN_DEVICE; break;
    case WORDS: status = comm->signals(env, 0, HUGE_ROOM, &lead) ? 0 : TG_RUN_DEVICE; break;
    case LEAN_GATHER: status = gathers(env, &args[0]); break;
    case PRIVATE_WORDS: status = scatters(env, 1, true); break;
    case MANY_SCATTERS: status = scatters(env, RT_FILLS + 1, false); break;
    }
    return status ? status : comm->end(env);
}

static const tg_device_function none[] = {{"none", 32, 1, 0, 0, 0, 0}};
static const char ptx[] = ".version 7.8\n.target sm_90\n.address_size 64\n";
static tg_image image = {.kind = TG_IMAGE_PTX,
                         .arch = 90,
                         .target = "sm_90",
                         .bytes = ptx,
                         .size = sizeof ptx,
                         .functions = none,
                         .n_functions = 1};
static const uint8_t in_order[] = {0, 1, 2, 3, 4};
#define SCALAR(name)                                                                               \
    { name, TG_PARAM_SCALAR, 0, kDLInt, 32, -1, 0, -1, 0 }
static const tg_param_info params[] = {
    {"a", TG_PARAM_TENSOR, TG_PARAM_SYM, kDLUInt, 32, -1, 3, -1, 0},
    {"bad", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLUInt, 32, -1, 1, -1, 0},
    SCALAR("seed"),
    SCALAR("how"),
    SCALAR("chunk"),
};
static const tg_variant asks_variant = {
    .entry = asks_entry, .params = in_order, .n_params = 5, .config = "", .image = &image};
static const tg_kernel_info asks_info = {"asks", "asks", params, &asks_variant, 5, 0, 1, 0};
static tg_kernel kernel_asks = {.abi = TG_ABI, .info = &asks_info};

typedef struct Question {
    What what;
    const char *text; // NULL: it is answered
} Question;

static const Question questions[] = {
    {FENCES, NULL},
    {COPIES, "single copies of a launch on a GPU are its device's"},
    {SIGNALS, "signals of a launch on a GPU are its device's"},
    {WAITS, "signals of a launch on a GPU are its device's"},
    {ROOM, "1073741824 bytes of symmetric memory: "},
    {WORDS, "8589934592 bytes of signals: "},
    {LEAN_GATHER, "'a' has no room for the shards of other ranks: allocate it without TG_SYM_LEAN"},
    {PRIVATE_WORDS, "'b': the words of complete chunks are not in symmetric memory"},
    {MANY_SCATTERS, "a kernel scatters more than 4 tensors"},
};

static void asks(Rank *r) {
    const Question *q = r->arg;
    const int64_t shape[2] = {ROWS, COLUMNS};
    if (open_group(r)) return;
    int flags = q->what == LEAN_GATHER ? TG_SYM_LEAN : 0;
    if (note(r, tg_sym_alloc(r->comm, (DLDataType){kDLUInt, 32, 1}, 2, shape, flags, &r->a)))
        return;
    launch(r, &kernel_asks, &r->a, q->what);
    close_group(r);
}

static void asking(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        const Question *q = &questions[i];
        const Rank *ranks = on_ranks(asks, q);
        for (int k = 0; k < RANKS; k++) {
            const char *said = ranks[k].text;
            if (q->text ? !strstr(said, q->text) : ranks[k].status != TG_OK)
                fail_msg("question %zu: rank %d: '%s'", i, k, said);
        }
        const char *mistake = fake.fake_mistake();
        if (mistake) fail_msg("question %zu: %s", i, mistake);
    }
    expect_works();
}

/* ---- devices that give up -------------------------------------------------------------------- */

/// Writes what the device of a rank writes when it gives up, and expects the rank's message.
static void gives_up(Rank *r) {
    static const struct {
        int64_t by, failed; // by: the number of the rank + 1
        const char *text;
    } rows[] = {
        {2, 0, "rank 1 has failed; its message says why"},
        {1, 1, "a kernel: rank 0 waited 600 s for rank 1 to come to the same launch"},
    };
    if (open_group(r) || make_tensor(r) || make(r, &r->a)) return;
    if (launch(r, &kernel_collect, &r->a, TG_GATHER_PUSH)) return;
    bool told = true;
    int64_t *record = ((rt_cuda_comm *)r->comm->memory_state)->record;
    for (size_t i = 0; r->number == 0 && told && i < sizeof rows / sizeof *rows; i++) {
        record[TG_CONTROL_FAILED] = rows[i].failed;
        record[TG_CONTROL_LAUNCH] = -1; // of no known kernel
        record[TG_CONTROL_SITE] = -1;
        record[TG_CONTROL_PEER] = 1;
        record[TG_CONTROL_GIVE_UP] = rows[i].by;
        note(r, tg_device_synchronize(r->number, r->stream));
        told = told && r->status == TG_ERROR_RANK && strstr(r->text, rows[i].text);
    }
    if (told) note(r, TG_OK);
    close_group(r);
}

static void giving_up(void **state) {
    (void)state;
    const Rank *ranks = on_ranks(gives_up, NULL);
    for (int k = 0; k < RANKS; k++)
        if (ranks[k].status) fail_msg("rank %d: '%s'", k, ranks[k].text);
    expect_works();
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void expect_said(Rank *r, bool done, const char *call, const char *what) {
    const char *text = tg_last_error();
    if (!done && strstr(text, call) && strstr(text, what)) return;
    r->status = TG_ERROR_INTERNAL;
    snprintf(r->text, sizeof r->text, "%s: %s", call, done ? "nothing is said" : text);
}

/// Rank 0 alone reads and writes, and reads again.
static void reads_and_writes(Rank *r) {
    uint32_t words[COLUMNS] = {1, 2, 3}, got[COLUMNS] = {0};
    if (open_group(r) || make_tensor(r)) return;
    if (r->number == 0) {
        fake.fake_fail("cuMemcpyHtoDAsync_v2", ERROR);
        expect_said(r, tg_host_write(r->comm, r->a.data, words, sizeof words), "cuMemcpyHtoD",
                    MEMORY);
        fake.fake_fail("cuMemcpyDtoHAsync_v2", ERROR);
        expect_said(r, tg_host_read(r->comm, 0, r->a.data, got, sizeof got), "cuMemcpyDtoH",
                    MEMORY);
        bool same = tg_host_write(r->comm, r->a.data, words, sizeof words) &&
                    tg_host_read(r->comm, 0, r->a.data, got, sizeof got) &&
                    memcmp(words, got, sizeof got) == 0;
        if (!same) r->status = TG_ERROR_INTERNAL, strcpy(r->text, "other words are read");
        fake.fake_fail("cuCtxSynchronize", ERROR);
        expect_said(r, r->comm->memory->settle(r->comm) == TG_OK, "cuCtxSynchronize",
                    "waiting for device 0 (");
    }
    tg_comm_barrier(r->comm);
    close_group(r);
}

static void memory(void **state) {
    (void)state;
    const Rank *ranks = on_ranks(reads_and_writes, NULL);
    for (int i = 0; i < RANKS; i++)
        if (ranks[i].status) fail_msg("rank %d: %s", i, ranks[i].text);
    assert_null(fake.fake_mistake());
}

/// Memory that was used before and cannot be cleared is not given to anyone.
static void clears(Rank *r) {
    if (open_group(r) || make_tensor(r) || note(r, tg_sym_free(r->comm, &r->a))) return;
    let_fail(r, "cuMemsetD32Async", 0);
    make_tensor(r);
    close_group(r);
}

static void clearing(void **state) {
    (void)state;
    Held before = held_now();
    expect_told(on_ranks(clears, NULL), "cuMemsetD32Async", "symmetric memory of ");
    expect_nothing_left("cuMemsetD32Async", before);
    expect_works();
}

/* ---- profiles -------------------------------------------------------------------------------- */

enum { EVENTS = 64, TRACED = 40, CHUNKS = 3 };

typedef struct Traced {
    tg_event events[EVENTS];
    tg_trace trace;
} Traced;

static bool profile(Rank *r, Traced *t) {
    if (t) t->trace = (tg_trace){.events = t->events, .capacity = EVENTS};
    bool done = tg_host_profile(r->comm, TG_PART_ALL, t ? &t->trace : NULL);
    note(r, done ? TG_OK : TG_ERROR_INTERNAL);
    return done;
}

static bool launch_traced(Rank *r, int n) {
    for (int i = 0; i < n && !r->status; i++)
        if (!make(r, &r->a)) launch(r, &kernel_collect, &r->a, TG_GATHER_BEFORE);
    return !r->status;
}

#define EXPECT(r, condition)                                                                       \
    do {                                                                                           \
        if ((condition) || (r)->status) break;                                                     \
        (r)->status = TG_ERROR_INTERNAL;                                                           \
        snprintf((r)->text, TEXT, "line %d: %s", __LINE__, #condition);                            \
    } while (0)

/// Each launch copies the other rank's shard, chunk by chunk.
static void expect_events(Rank *r, const Traced *t) {
    int kinds[TG_EVENTS] = {0};
    for (size_t i = 0; i < EVENTS; i++) {
        const tg_event *e = &t->events[i];
        EXPECT(r, e->kind >= 0 && e->kind < TG_EVENTS && e->from <= e->to);
        if (r->status) return;
        if (e->kind == TG_EVENT_COPY) {
            EXPECT(r, e->peer == 1 - r->number && e->thread == e->peer + 1);
            EXPECT(r, e->number == kinds[TG_EVENT_COPY] % CHUNKS);
        }
        kinds[e->kind]++;
    }
    EXPECT(r, kinds[TG_EVENT_COPY] >= CHUNKS * 2 && kinds[TG_EVENT_TASK] && kinds[TG_EVENT_MEET]);
    EXPECT(r, kinds[TG_EVENT_WAIT] == 0);
}

/// A trace holds the events that fit, and counts the others.
static void traces(Rank *r) {
    Traced *t = calloc(1, sizeof *t);
    if (open_group(r) || make_tensor(r)) return;
    EXPECT(r, tg_host_seconds(r->comm) < 0); // no launch was timed
    if (profile(r, t) && launch_traced(r, TRACED)) {
        EXPECT(r, tg_host_seconds(r->comm) >= 0);
    }
    if (profile(r, NULL)) {
        EXPECT(r, t->trace.n > TRACED * CHUNKS && t->trace.error_ns >= 0);
        expect_events(r, t);
    }
    launch_traced(r, 1); // no event is noted any more
    size_t n = t->trace.n;
    EXPECT(r, profile(r, NULL) && t->trace.n == n);
    close_group(r);
    free(t);
}

static void tracing(void **state) {
    (void)state;
    Held before = held_now();
    const Rank *ranks = on_ranks(traces, NULL);
    for (int i = 0; i < RANKS; i++)
        if (ranks[i].status) fail_msg("rank %d: %s", i, ranks[i].text);
    expect_nothing_left("a trace", before);
}

/// Rank 0's driver refuses events, at the profile's beginning or while launches are traced. Then
/// the next trace works.
typedef struct Event {
    const char *call;
    int skip;
    bool launched; // the trace begins before the failure
} Event;

static const Event of_events[] = {
    {"cuEventCreate", 0, false},      {"cuEventCreate", 2, false},
    {"cuEventCreate", 3, false},      {"cuEventRecord", 0, false},
    {"cuEventRecord", 1, false},      {"cuEventSynchronize", 0, false},
    {"cuEventElapsedTime", 0, false}, {"cuEventElapsedTime", 0, true},
};

static void fails_to_trace(Rank *r) {
    const Event *f = r->arg;
    Traced *t = calloc(1, sizeof *t);
    bool fails = r->number == 0;
    if (open_group(r) || make_tensor(r)) return;
    if (f->launched && !(profile(r, t) && launch_traced(r, 2))) return;
    tg_comm_barrier(r->comm);
    if (fails) {
        later.call = f->call;
        later.skip = f->skip;
        if (f->skip) fake.fake_watch(count_down);
        if (!f->skip) fake.fake_fail(f->call, ERROR);
        bool done = profile(r, f->launched ? NULL : t);
        r->status = TG_OK;
        EXPECT(r, !done && strstr(r->text, "the profile of a launch"));
        forget_failure(f->call);
    }
    tg_comm_barrier(r->comm);
    if (!r->status && profile(r, t) && launch_traced(r, 2) && profile(r, NULL))
        EXPECT(r, t->trace.n > 2 * CHUNKS);
    close_group(r);
    free(t);
}

static void events(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof of_events / sizeof *of_events; i++) {
        const Event *f = &of_events[i];
        Held before = held_now();
        const Rank *ranks = on_ranks(fails_to_trace, f);
        for (int k = 0; k < RANKS; k++)
            if (ranks[k].status) fail_msg("%s %d: rank %d: %s", f->call, f->skip, k, ranks[k].text);
        expect_nothing_left(f->call, before);
    }
}

/// An event that the driver refuses in the middle of a launch harms the trace only.
static void loses_a_trace(Rank *r) {
    Traced *t = calloc(1, sizeof *t);
    if (open_group(r) || make_tensor(r)) return;
    bool began = profile(r, t);
    tg_comm_barrier(r->comm);
    if (r->number == 0) fake.fake_fail("cuEventCreate", ERROR); // of the first event noted
    tg_comm_barrier(r->comm);
    bool ran = began && launch_traced(r, 2);
    bool done = ran && profile(r, NULL);
    pthread_barrier_wait(r->all);
    char text[TEXT];
    snprintf(text, sizeof text, "%s", r->text);
    r->status = TG_OK;
    EXPECT(r, ran && (done || strstr(text, "the profile of a launch")));
    if (profile(r, t) && launch_traced(r, 2) && profile(r, NULL))
        EXPECT(r, t->trace.n > 2 * CHUNKS);
    r->seed = done;
    close_group(r);
    free(t);
}

static void lost_events(void **state) {
    (void)state;
    const Rank *ranks = on_ranks(loses_a_trace, NULL);
    for (int k = 0; k < RANKS; k++)
        if (ranks[k].status) fail_msg("rank %d: %s", k, ranks[k].text);
    assert_int_equal(ranks[0].seed + ranks[1].seed, 1); // one rank's trace was lost
}

static bool find_driver(void) {
    const char *path = getenv("TG_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return false;
#define X(result, name, parameters) *(void **)&fake.name = dlsym(library, #name);
    FAKE_ENTRIES(X)
#undef X
    if (fake.fake_kernel) add_fake_kernels(fake.fake_kernel);
    return fake.fake_kernel && tg_device_count() >= RANKS;
}

int main(void) {
    if (!find_driver()) return fprintf(stderr, "TG_CUDA_LIBRARY must be the fake driver\n"), 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creation), cmocka_unit_test(launching),   cmocka_unit_test(memory),
        cmocka_unit_test(asking),   cmocka_unit_test(clearing),    cmocka_unit_test(tracing),
        cmocka_unit_test(events),   cmocka_unit_test(lost_events), cmocka_unit_test(giving_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
