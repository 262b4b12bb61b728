// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model checker of GPU launches. The stand-in driver captures the operations on streams, and the
// checker runs them in all orders that streams and events allow (comm_model_gpu.h). It finds ranks
// that wait for ever, and reads of data that are not of the launch. Then it removes each signal and
// each wait, one at a time, and must find the resulting fault.
#include "tests/runtime/comm_kernels.h"
#include "tests/runtime/comm_model_gpu.h"

#include "runtime/comm/comm_cuda.h"
#include "runtime/runtime.h"

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

enum { LAUNCHES = 2, BOUND = 3, EVENTS = 64 };

/* ---- kernels --------------------------------------------------------------------------------- */

typedef enum How { // after enum tg_gather_how
    READ_THERE = 10,
    SEND,
    SEND_TURNS,
    COPY_TURNS, // a scatter in each iteration
    BY_RANK,    // a scatter to each rank, while data for the next rank are made
    ADD,
    WRITTEN // written before, in the same launch
} How;
enum { F_MAKE, F_TAKE, F_GIVE, F_FOLD, F_SEND, F_CLEAR, F_ADD, F_INSPECT, FUNCTIONS };

/// Host code as the compiler makes it, for shards [1, 2].
typedef struct Host {
    const tg_env *env;
    const tg_comm_calls *comm;
    void *a, *bad, *control;
    int64_t lead, zero;
    uint32_t one, two, seed, me, ranks;
} Host;

static int32_t take_all(Host *h, void *view, int64_t slot, void *flags, int function) {
    void *list[] = {&view,     &slot,   &flags,  &h->bad, &h->control, &h->one, &h->one,
                    &h->ranks, &h->one, &h->two, &h->two, &h->seed,    &h->me};
    return h->env->dispatch(h->env, function, 1, list);
}

/// Each iteration sends into the owners' stage and raises the same flags.
static int32_t send_turns(Host *h, int turns) {
    int64_t lead = 0, flags_lead = 0;
    char *stage = h->comm->workspace(h->env, 8 * (int64_t)h->ranks, &lead);
    char *flags = h->comm->signals(h->env, 0, h->ranks, &flags_lead);
    if (!stage || !flags) return TG_RUN_DEVICE;
    int32_t status = TG_RUN_OK;
    for (int t = 0; t < turns && !status; t++) {
        void *list[] = {&stage, &lead, &flags, &flags_lead, &h->seed, &h->me, &h->ranks};
        if (t) status = h->comm->barrier(h->env);
        if (!status) status = h->env->dispatch(h->env, F_SEND, 1, list);
        if (!status)
            status = take_all(h, stage + lead * h->me, 8, flags + flags_lead * h->me, F_FOLD);
        h->seed++;
    }
    return status;
}

/// Copies to the owners' stage: in each iteration, or once at the end, or rank by rank in one
/// iteration, with the own part last.
static int32_t copy_parts(Host *h, bool by_rank) {
    tg_scatter s = {.part = 8, .rows = 1, .row_bytes = 8, .pitch = 8, .chunk_rows = 1, .name = "a"};
    int64_t lead = 0;
    int turns = by_rank ? 1 : 2, launches = by_rank ? (int)h->ranks : 1;
    s.how = by_rank ? TG_SCATTER_BEHIND : TG_GATHER_BEFORE;
    s.local = h->env->workspace(h->env, 8 * (int64_t)h->ranks);
    s.stage = h->comm->workspace(h->env, 8 * (int64_t)h->ranks, &s.lead);
    s.flags = h->comm->signals(h->env, 0, h->ranks, &s.flags_lead);
    s.done = h->comm->signals(h->env, 1, h->ranks, &lead);
    if (!s.local || !s.stage || !s.flags || !s.done) return TG_RUN_DEVICE;
    s.done += lead / 8 * h->me;
    char *stage = (char *)s.stage + s.lead * h->me, *flags = (char *)s.flags + s.flags_lead * h->me;
    int32_t status = TG_RUN_OK;
    for (int t = 0; t < turns && !status; t++) {
        uint32_t peer = h->two, none = 0, *rows = by_rank ? &none : &h->one;
        void *list[] = {&s.local,  &s.part, &s.done, &h->control, &h->one,  &h->one,
                        &h->ranks, rows,    &peer,   &h->two,     &h->seed, &h->me};
        if (t) status = h->comm->barrier(h->env);
        for (int i = 1; i <= launches && !status; i++) {
            if (by_rank) peer = (h->me + (uint32_t)i) % h->ranks;
            s.peer = (int32_t)peer;
            status = h->env->dispatch(h->env, F_GIVE, 1, list);
            if (!status) status = h->comm->scatter(h->env, &s);
        }
        if (!status) status = take_all(h, stage, 8, flags, F_FOLD);
        h->seed++;
    }
    return status;
}

static int32_t add_all(Host *h) {
    void *list[] = {&h->a, &h->lead, &h->me, &h->ranks};
    int32_t status = h->env->dispatch(h->env, F_CLEAR, 1, list);
    if (!status) status = h->comm->barrier(h->env);
    return status ? status : h->env->dispatch(h->env, F_ADD, 1, list);
}

static int32_t take_written(Host *h) {
    tg_gather g = {.data = h->a,
                   .lead = h->lead,
                   .rows = 1,
                   .row_bytes = 8,
                   .pitch = 8,
                   .chunk_rows = 1,
                   .name = "a",
                   .how = TG_GATHER_BEFORE};
    char *own = (char *)h->a + h->lead * h->me;
    void *list[] = {&own, &h->one, &h->two, &h->two, &h->seed, &h->me};
    int32_t status = h->env->dispatch(h->env, F_MAKE, 1, list);
    if (!status) status = h->comm->barrier(h->env);
    if (!status) status = h->comm->gather(h->env, &g);
    return status ? status : take_all(h, g.view, g.slot, NULL, F_TAKE);
}

static int32_t exchange_entry(const tg_slot *args, const tg_env *env) {
    const tg_comm_calls *comm = env->comm;
    Host h = {.env = env,
              .comm = comm,
              .a = args[0].tensor.data,
              .bad = args[1].tensor.data,
              .control = comm->control(env),
              .lead = args[0].tensor.strides[0] * 4,
              .one = 1,
              .two = 2,
              .seed = (uint32_t)args[2].bits,
              .me = (uint32_t)comm->rank,
              .ranks = (uint32_t)comm->size};
    How how = (How)args[3].bits;
    int32_t status = comm->begin(env, how == READ_THERE);
    if (status) return status;
    if (how == READ_THERE) status = take_all(&h, h.a, h.lead, NULL, F_TAKE);
    if (how == SEND) status = send_turns(&h, 1);
    if (how == SEND_TURNS) status = send_turns(&h, 2);
    if (how == COPY_TURNS || how == BY_RANK) status = copy_parts(&h, how == BY_RANK);
    if (how == ADD) status = add_all(&h);
    if (how == WRITTEN) status = take_written(&h);
    return status ? status : comm->end(env);
}

static int32_t inspect_entry(const tg_slot *args, const tg_env *env) {
    void *a = args[0].tensor.data, *list[] = {&a};
    return env->dispatch(env, F_INSPECT, 1, list);
}

enum { EARLY = TG_DEVICE_EARLY };
static const tg_device_function functions[FUNCTIONS] = {
    {"make", 32, 1, 0, 6, EARLY, 0},  {"take", 32, 1, 0, 13, EARLY, 0},
    {"give", 32, 1, 0, 12, EARLY, 0}, {"fold", 32, 1, 0, 13, EARLY, 0},
    {"send", 32, 1, 0, 7, EARLY, 0},  {"clear", 32, 1, 0, 4, EARLY, 0},
    {"add", 32, 1, 0, 4, EARLY, 0},   {"inspect", 32, 1, 0, 1, EARLY, 0},
};
static const char text[] = ".version 7.8\n.target sm_90\n.address_size 64\n"
                           "// griddepcontrol.wait\n";
static tg_image image = {.kind = TG_IMAGE_PTX,
                         .arch = 90,
                         .target = "sm_90",
                         .bytes = text,
                         .size = sizeof text,
                         .functions = functions,
                         .n_functions = FUNCTIONS};
static const uint8_t all[] = {0, 1, 2, 3, 4};
#define TENSOR(name, flags, rank)                                                                  \
    { name, TG_PARAM_TENSOR, flags, kDLUInt, 32, -1, rank, -1, 0 }
#define SCALAR(name)                                                                               \
    { name, TG_PARAM_SCALAR, 0, kDLInt, 32, -1, 0, -1, 0 }
static const tg_param_info params[] = {TENSOR("a", TG_PARAM_SYM, 3),
                                       TENSOR("bad", TG_PARAM_WRITTEN, 1), SCALAR("seed"),
                                       SCALAR("how"), SCALAR("chunk")};
static const tg_param_info inspect_params[] = {TENSOR("a", 0, 2)};
#define KERNEL(name, list, n)                                                                      \
    static const tg_variant name##_variant = {                                                     \
        .entry = name##_entry, .params = all, .n_params = n, .config = "", .image = &image};       \
    static const tg_kernel_info name##_info = {#name, #name, list, &name##_variant, n, 0, 1, 0};   \
    static tg_kernel kernel_##name = {.abi = TG_ABI, .info = &name##_info}
KERNEL(exchange, params, 5);
KERNEL(inspect, inspect_params, 1);

static void never(const FakeLaunch *launch, void **args) {
    (void)launch, (void)args;
    fail_msg("what is captured does not run");
}

/* ---- a rank's launches ----------------------------------------------------------------------- */

typedef struct Protocol {
    const char *name;
    tg_kernel *kernel;
    int how;
    bool makes; // whether the rank writes its shard before each launch, and after the last one
    bool flags; // whether programs wait for flags
    bool turns;
    int early; // kernels of a launch and rank that may begin while their predecessors end
} Protocol;

static const Protocol protocols[] = {
    {"gather by pulls", &kernel_collect, TG_GATHER_PULL, true, true, false, 0},
    {"gather by pushes", &kernel_collect, TG_GATHER_PUSH, true, true, false, 0},
    {"gather before", &kernel_collect, TG_GATHER_BEFORE, true, false, false, 1},
    {"scatter by pushes", &kernel_spread, TG_GATHER_PUSH, false, true, false, 1},
    {"scatter before", &kernel_spread, TG_GATHER_BEFORE, false, true, false, 1},
    {"scatter before, two turns", &kernel_exchange, COPY_TURNS, false, true, true, 4},
    {"scatter rank by rank", &kernel_exchange, BY_RANK, false, true, false, 2},
    {"read in place", &kernel_exchange, READ_THERE, true, false, false, 2},
    {"stores and flags", &kernel_exchange, SEND, false, true, false, 3},
    {"stores and flags, two turns", &kernel_exchange, SEND_TURNS, false, true, true, 6},
    {"additions", &kernel_exchange, ADD, false, false, false, 4},
    {"copies of what the launch has written", &kernel_exchange, WRITTEN, false, false, false, 3},
};
enum { PROTOCOLS = sizeof protocols / sizeof *protocols };

static struct {
#define X(result, name, parameters) result(*name) parameters;
    FAKE_ENTRIES(X)
#undef X
} fake;

typedef struct Rank {
    int number, size, rows;
    const Protocol *protocol;
    rt_cuda_comm *state;
    cu_stream stream;
    void *graph;
    pthread_barrier_t *captured, *looked;
    char failure[256];
} Rank;

static bool record_all(Rank *r, const DLTensor *a, const DLTensor *bad) {
    const Protocol *p = r->protocol;
    bool passed = true;
    fake.fake_capture(r->stream);
    for (int t = 0; t < LAUNCHES + 1 && passed; t++) {
        int seed = p->turns ? 2 * t : t;
        tg_arg make[] = {tg_tensor(a), tg_int(seed), tg_int(r->number)};
        tg_arg args[] = {tg_tensor(a), tg_tensor(bad), tg_int(seed), tg_int(p->how), tg_int(1)};
        if (p->makes) passed = tg_launch_on(&kernel_make, make, 3, r->stream) == TG_OK;
        if (t == LAUNCHES || !passed) break;
        passed = tg_launch_on(p->kernel, args, 5, r->stream) == TG_OK;
        if (p->how == ADD && passed)
            passed = tg_launch_on(&kernel_inspect, args, 1, r->stream) == TG_OK;
    }
    r->graph = fake.fake_capture_end(r->stream);
    return passed;
}

static bool run_rank(Rank *r, const rt_cuda *cu, tg_comm **comm, tg_context **context) {
    static const int64_t one[1] = {1};
    tg_options options = {.size = sizeof options, .threads = 1};
    tg_comm_options group = {.size = sizeof group,
                             .engine = "threads",
                             .meet = "model",
                             .rank = r->number,
                             .ranks = r->size,
                             .device = r->number,
                             .heap = 1 << 20,
                             .timeout_ms = 20000};
    cu_pointer counted;
    DLTensor a;
    if (tg_context_create(&options, context) || tg_comm_create(&group, comm)) return false;
    r->state = (*comm)->memory_state;
    tg_context_use(*context);
    if (tg_context_set_comm(*context, *comm) || cu->allocate(&counted, 4) ||
        tg_sym_alloc(*comm, (DLDataType){kDLUInt, 32, 1}, 2, (int64_t[]){r->rows, 2}, 0, &a))
        return false;
    DLTensor bad = tg_dense((void *)(uintptr_t)counted, kDLUInt, 32, 1, one);
    bad.device = (DLDevice){kDLCUDA, r->number};
    bool passed = record_all(r, &a, &bad);
    if (!passed) snprintf(r->failure, sizeof r->failure, "%s", tg_last_error());
    pthread_barrier_wait(r->captured);
    pthread_barrier_wait(r->looked);
    fake.fake_drop(r->graph);
    cu->release(counted);
    return passed;
}

static void *rank_main(void *state) {
    Rank *r = state;
    rt_entered e = {0};
    tg_context *context = NULL;
    tg_comm *comm = NULL;
    const rt_cuda *cu = rt_cuda_driver();
    if (rt_enter(rt_device_at(r->number), &e) || cu->stream_create(&r->stream, CU_NON_BLOCKING))
        abort();
    if (!run_rank(r, cu, &comm, &context)) {
        fprintf(stderr, "rank %d: %s\n", r->number, tg_last_error());
        abort();
    }
    tg_context_use(NULL);
    tg_context_destroy(context);
    tg_comm_destroy(comm);
    cu->stream_destroy(r->stream);
    rt_leave(e);
    return NULL;
}

/* ---- from operations to steps ---------------------------------------------------------------- */

static int n_early; // number of these kernels on all ranks
static struct {
    const Rank *rank;
    int streams[MOST], n_streams, launches, n_events;
    struct {
        const void *event;
        uint8_t stream, at;
    } events[EVENTS];
} b;

static uint8_t cell_at(uint64_t at) {
    const rt_cuda_comm *g = b.rank->state;
    Cell cell = {MOST + b.rank->number, at};
    if (at >= g->reserved && at < g->reserved + g->stride * (size_t)b.rank->size) {
        cell.owner = (int)((at - g->reserved) / g->stride);
        cell.at = (at - g->reserved) % g->stride;
    }
    int i = 0;
    while (i < m.n_cells && (m.cells[i].owner != cell.owner || m.cells[i].at != cell.at)) i++;
    assert_true(i < CELLS);
    if (i == m.n_cells) m.cells[m.n_cells++] = cell;
    return (uint8_t)i;
}

static uint8_t word_of(int rank, size_t offset) {
    const rt_cuda_comm *g = b.rank->state;
    return cell_at((uintptr_t)g->words + g->stride * (size_t)rank + offset);
}

static Step *add_step(int stream, Kind kind) {
    assert_true(m.n[stream] < STEPS);
    Step *step = &m.steps[stream][m.n[stream]++];
    *step = (Step){.kind = kind, .b = NONE};
    return step;
}

static Program *add_program(Step *step) {
    assert_true(step->n < PROGRAMS);
    Program *p = &step->programs[step->n++];
    *p = (Program){.flag = NONE, .read = NONE, .to = NONE, .raise = NONE};
    return p;
}

static uint8_t shard_value(uint32_t seed, uint32_t rank, uint32_t chunk) {
    return (uint8_t)(1 + (seed * MOST + rank) * 2 + chunk);
}

static uint8_t part_value(uint32_t seed, uint32_t from, uint32_t to, uint32_t chunk) {
    return (uint8_t)(64 + ((seed * MOST + from) * MOST + to) * 2 + chunk);
}

static void build_meeting(int stream, const rt_step *step, int me) {
    enum { EVEN = offsetof(rt_cuda_words, came), ODD = EVEN + 8 * RT_COMM_RANKS };
    assert_true(b.launches < 4);
    for (int q = 0; q < m.size && step->flags & RT_STEP_SIGNAL; q++) {
        if (q == me) continue;
        *add_step(stream, TELL) = (Step){.kind = TELL,
                                         .a = word_of(q, EVEN + 8 * (size_t)me),
                                         .b = word_of(q, ODD + 8 * (size_t)me),
                                         .value = (uint8_t)b.launches};
    }
    for (int q = 0; q < m.size && step->flags & RT_STEP_WAIT; q++) {
        if (q == me) continue;
        *add_step(stream, MEET) = (Step){.kind = MEET,
                                         .a = word_of(me, EVEN + 8 * (size_t)q),
                                         .b = word_of(me, ODD + 8 * (size_t)q),
                                         .value = (uint8_t)b.launches};
    }
}

static void build_step(int stream, const rt_step *step) {
    int me = rank_of(stream);
    if (step->flags & RT_STEP_EPOCH) {
        add_step(stream, EPOCH);
        b.launches++;
    }
    if (step->flags & RT_STEP_SIGNAL) add_step(stream, COUNT);
    for (int f = 0; f < RT_FILLS; f++)
        for (uint32_t i = 0; i < step->fills[f].words; i++)
            add_step(stream, step->fills[f].epoch ? MARK : CLEAR)->a =
                cell_at(step->fills[f].at + 8 * i);
    build_meeting(stream, step, me);
    if (step->flags & RT_STEP_TURN) add_step(stream, TURN);
}

static uint64_t wide(void *const *args, int i) {
    return *(const uint64_t *)args[i];
}

static uint32_t narrow(void *const *args, int i) {
    return *(const uint32_t *)args[i];
}

/// Builds take and fold.
static void build_takes(Step *step, void *const *args, bool folds) {
    uint64_t flags = wide(args, 2);
    uint32_t chunks = narrow(args, 6), ranks = narrow(args, 7), seed = narrow(args, 11);
    uint32_t me = narrow(args, 12);
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t c = 0; c < chunks && !(folds && r == me); c++) {
            Program *p = add_program(step);
            p->read = cell_at(wide(args, 0) + r * wide(args, 1) + 8 * c);
            p->want = folds ? part_value(seed, r, me, c) : shard_value(seed, r, c);
            if (flags) p->flag = cell_at(flags + 8 * (r * chunks + c));
        }
}

/// Parts for all ranks, or for one; then the columns are the rank's number, and rows are 0.
static void build_gives(Step *step, void *const *args) {
    uint32_t chunks = narrow(args, 5), ranks = narrow(args, 6), seed = narrow(args, 10);
    uint32_t me = narrow(args, 11), rows = narrow(args, 7), only = narrow(args, 8);
    for (uint32_t to = 0; to < ranks; to++)
        for (uint32_t c = 0; c < chunks && (rows ? to != me : to == only); c++) {
            Program *p = add_program(step);
            p->to = cell_at(wide(args, 0) + to * wide(args, 1) + 8 * c);
            p->value = part_value(seed, me, to, c);
            p->raise = cell_at(wide(args, 2) + 8 * (to * chunks + c));
        }
}

static void build_sends(Step *step, void *const *args) {
    uint32_t seed = narrow(args, 4), me = narrow(args, 5), ranks = narrow(args, 6);
    for (uint32_t to = 0; to < ranks; to++) {
        if (to == me) continue;
        Program *p = add_program(step);
        p->to = cell_at(wide(args, 0) + to * wide(args, 1) + 8 * me);
        p->value = part_value(seed, me, to, 0);
        p->raise = cell_at(wide(args, 2) + to * wide(args, 3) + 8 * me);
    }
}

static void build_launch(int stream, const FakeOp *op) {
    void *const *args = op->args;
    if (strcmp(op->name, "tg_comm_step") == 0) {
        build_step(stream, args[0]);
        return;
    }
    Step *step = add_step(stream, LAUNCH);
    if (strcmp(op->name, "take") == 0) build_takes(step, args, false);
    if (strcmp(op->name, "fold") == 0) build_takes(step, args, true);
    if (strcmp(op->name, "give") == 0) build_gives(step, args);
    if (strcmp(op->name, "send") == 0) build_sends(step, args);
    if (strcmp(op->name, "make") == 0)
        for (uint32_t c = 0; c < narrow(args, 1); c++) {
            Program *p = add_program(step);
            p->to = cell_at(wide(args, 0) + 8 * c);
            p->value = shard_value(narrow(args, 4), narrow(args, 5), c);
        }
    if (strcmp(op->name, "clear") == 0)
        add_program(step)->to = cell_at(wide(args, 0) + wide(args, 1) * narrow(args, 2));
    if (strcmp(op->name, "add") == 0)
        for (uint32_t to = 0; to < narrow(args, 3); to++) {
            Program *p = add_program(step);
            p->to = cell_at(wide(args, 0) + wide(args, 1) * to);
            p->value = (uint8_t)(1 << narrow(args, 2));
            p->adds = true;
        }
    if (strcmp(op->name, "inspect") == 0) {
        Program *p = add_program(step);
        p->read = cell_at(wide(args, 0));
        p->want = (uint8_t)((1 << m.size) - 1);
    }
    assert_true(step->n > 0);
}

static int stream_of(int number) {
    int i = 0;
    while (i < b.n_streams && b.streams[i] != number) i++;
    assert_true(i < MOST);
    if (i == b.n_streams) b.streams[b.n_streams++] = number;
    return b.rank->number * MOST + i;
}

static void build_event(int stream, const FakeOp *op) {
    if (op->kind == OP_RECORD) {
        assert_true(b.n_events < EVENTS);
        b.events[b.n_events].event = op->event;
        b.events[b.n_events].stream = (uint8_t)stream;
        b.events[b.n_events++].at = (uint8_t)m.n[stream];
        add_step(stream, RECORD);
        return;
    }
    int i = b.n_events - 1;
    while (i >= 0 && b.events[i].event != op->event) i--;
    assert_true(i >= 0);
    Step *step = add_step(stream, AWAIT_EVENT);
    step->stream = b.events[i].stream;
    step->at = b.events[i].at;
}

static void build_op(const FakeOp *op) {
    int stream = stream_of(op->stream);
    n_early += op->early;
    switch (op->kind) {
    case OP_LAUNCH: build_launch(stream, op); break;
    case OP_RECORD:
    case OP_WAIT: build_event(stream, op); break;
    case OP_WAIT_VALUE: add_step(stream, AWAIT_WORD)->a = cell_at(op->at); break;
    case OP_SET: fail_msg("nothing is set here"); break;
    case OP_COPY:
        assert_true(op->rows == 1 && op->bytes == 8);
        if (m.fine) add_step(stream, READ)->b = cell_at(op->from);
        Step *step = add_step(stream, m.fine ? WRITE : COPY);
        step->a = cell_at(op->to);
        step->b = cell_at(op->from);
        break;
    }
}

static void build(const Rank *r) {
    FakeOp op;
    memset(&b, 0, sizeof b);
    b.rank = r;
    m.epochs[r->number] = word_of(r->number, offsetof(rt_cuda_words, control));
    m.counts[r->number] = word_of(r->number, offsetof(rt_cuda_words, count));
    for (int i = 0; fake.fake_graph_op(r->graph, i, &op); i++) build_op(&op);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/// Passes the steps of a protocol with `size` ranks to `look`, which returns whether they are as
/// expected.
static void with_ranks(const Protocol *p, int size, int rows, bool (*look)(const Protocol *)) {
    pthread_barrier_t captured, looked;
    pthread_t threads[MOST];
    Rank ranks[MOST];
    pthread_barrier_init(&captured, NULL, (unsigned)size + 1);
    pthread_barrier_init(&looked, NULL, (unsigned)size + 1);
    for (int i = 0; i < size; i++) {
        ranks[i] = (Rank){.number = i,
                          .size = size,
                          .rows = rows,
                          .protocol = p,
                          .captured = &captured,
                          .looked = &looked};
        assert_int_equal(pthread_create(&threads[i], NULL, rank_main, &ranks[i]), 0);
    }
    pthread_barrier_wait(&captured);
    m.size = size;
    m.fine = size == 2;
    m.n_cells = n_early = 0;
    memset(m.n, 0, sizeof m.n);
    memset(m.steps, 0, sizeof m.steps);
    for (int i = 0; i < size; i++) {
        assert_string_equal(ranks[i].failure, "");
        build(&ranks[i]);
    }
    bool good = look(p);
    pthread_barrier_wait(&looked);
    for (int i = 0; i < size; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&captured);
    pthread_barrier_destroy(&looked);
    assert_true(good);
}

static int setup(void **state) {
    (void)state;
    const char *name = getenv("TG_CUDA_LIBRARY");
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return 1;
#define X(result, name, parameters) *(void **)&fake.name = dlsym(library, #name);
    FAKE_ENTRIES(X)
#undef X
    static const size_t send[] = {8, 8, 8, 8, 4, 4, 4}, add[] = {8, 8, 4, 4}, inspect[] = {8};
    if (!fake.fake_kernel) return 1;
    add_fake_kernels(fake.fake_kernel);
    fake.fake_kernel("send", never, 7, send);
    fake.fake_kernel("clear", never, 4, add);
    fake.fake_kernel("add", never, 4, add);
    fake.fake_kernel("inspect", never, 1, inspect);
    return !model_setup();
}

static bool expect_right(const Protocol *p) {
    bool right = model_explore(m.size < MOST ? ANY : BOUND);
    fprintf(stderr, "%s, %d ranks: %ld states, %d kernels begin early\n", p->name, m.size, m.states,
            n_early);
    return right && n_early == p->early * LAUNCHES * m.size;
}

/// Two and three ranks in all orders; four with a bound on postponed steps.
static void all_orders(void **state) {
    (void)state;
    for (int i = 0; i < PROTOCOLS; i++)
        for (int size = 2; size <= MOST; size++)
            with_ranks(&protocols[i], size, size == 2 ? 2 : 1, expect_right);
}

/// Removes an action from a step, or from its program i. False: it has none of this kind.
typedef bool Change(const Protocol *p, Step *step, int i);

/// Whether programs wait for the cell; with `side`, whether side streams do.
static bool is_waited_for(uint8_t cell, bool side) {
    for (int i = 0; i < m.size * MOST; i++)
        for (int k = 0; k < m.n[i]; k++) {
            const Step *step = &m.steps[i][k];
            if (side && step->kind == AWAIT_WORD && step->a == cell) return true;
            for (int p = 0; p < step->n && !side; p++)
                if (step->programs[p].flag == cell) return true;
        }
    return false;
}

/// Signals that announce data: counts, and flags of copies, programs and the own stream. Words that
/// side streams wait for are raised at the end at the latest.
static bool lose_signal(const Protocol *p, Step *step, int i) {
    Program *program = &step->programs[i];
    bool flags = step->kind == COPY || step->kind == WRITE || step->kind == MARK;
    (void)p;
    if (step->kind == LAUNCH && program->raise != NONE && is_waited_for(program->raise, false))
        return program->raise = NONE, true;
    return step->lost = step->kind == TELL || (flags && is_waited_for(step->a, false));
}

static bool is_marked(uint8_t cell) {
    for (int i = 0; i < m.size * MOST; i++)
        for (int k = 0; k < m.n[i]; k++)
            if (m.steps[i][k].kind == MARK && m.steps[i][k].a == cell) return true;
    return false;
}

/// Loses a wait, but not a program's wait for a word that its own stream has marked before, nor the
/// stream's wait for a copy whose flag programs of any rank have waited for.
static bool lose_wait(const Protocol *p, Step *step, int i) {
    Program *program = &step->programs[i];
    if (step->kind == LAUNCH && program->flag != NONE && !is_marked(program->flag))
        return program->flag = NONE, true;
    bool joins = step->kind == AWAIT_EVENT && step->stream % MOST && p->flags;
    return step->lost = step->kind == MEET || step->kind == AWAIT_WORD ||
                        (step->kind == AWAIT_EVENT && !joins);
}

/// Loses a step that makes a launch use other words than the previous launch.
static bool lose_count(const Protocol *p, Step *step, int i) {
    (void)i;
    return step->lost = step->kind == COUNT || (step->kind == EPOCH && p->flags) ||
                        (step->kind == CLEAR && is_waited_for(step->a, true)) ||
                        (step->kind == TURN && p->turns);
}

/// Flags that precede the data that they announce.
static bool lose_order(const Protocol *p, Step *step, int i) {
    Program *program = &step->programs[i];
    bool waited = program->raise != NONE &&
                  (is_waited_for(program->raise, false) || is_waited_for(program->raise, true));
    (void)p;
    if (step->kind == LAUNCH && waited) return program->hasty = true;
    if (step->kind != COPY || step[1].kind != COPY || !is_waited_for(step[1].a, false))
        return false;
    Step first = step[0];
    step[0] = step[1];
    step[1] = first;
    return true;
}

/// The number of changes made on one rank, in one launch or in all; -1: one was not noticed.
static int count_found(const Protocol *p, Change *change, bool in_all) {
    int changes = 0, missed = 0;
    for (int stream = 0; stream < m.size * MOST; stream++) {
        Step *steps = m.steps[stream], saved[STEPS];
        int period = m.n[stream] / LAUNCHES; // the last step may be an extra one
        for (int k = 0; k < (in_all ? period : m.n[stream]); k++)
            for (int i = 0; i < (steps[k].n ? steps[k].n : 1); i++) {
                memcpy(saved, steps, sizeof saved);
                bool has = change(p, &steps[k], i);
                for (int t = 1; t < LAUNCHES && in_all && has; t++)
                    (void)change(p, &steps[k + t * period], i);
                bool right = has && model_explore(ANY);
                if (right)
                    fprintf(stderr, "%s, %d ranks: stream %d, step %d (kind %d), %d: not found\n",
                            p->name, m.size, stream, k, saved[k].kind, i);
                memcpy(steps, saved, sizeof saved);
                changes += has;
                missed += right;
            }
    }
    return missed ? -1 : changes;
}

static bool expect_found(const Protocol *p) {
    int signals = count_found(p, lose_signal, false), waits = count_found(p, lose_wait, true);
    int counts = count_found(p, lose_count, true), orders = count_found(p, lose_order, true);
    fprintf(stderr, "%s, %d ranks, found: %d signals, %d waits, %d counts, %d orders\n", p->name,
            m.size, signals, waits, counts, orders);
    return signals > 0 && waits > 0 && counts > 0 && orders >= 0;
}

/// Removes each signal, wait, new count and order on one rank.
static void lost(void **state) {
    (void)state;
    for (int i = 0; i < PROTOCOLS; i++)
        for (int size = 2; size < MOST; size++)
            with_ranks(&protocols[i], size, size == 2 ? 2 : 1, expect_found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_orders),
        cmocka_unit_test(lost),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
