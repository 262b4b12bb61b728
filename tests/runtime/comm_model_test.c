// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model checker: ranks are fibers of one thread, and the checker orders their accesses to other
// ranks' memory. It runs the runtime's own code and kernels through an engine of its own, in all
// orders (a state seen before is explored once). It finds ranks that wait for ever, lost signals,
// and chunks that are read before they arrive or overwritten before they are read. Then it breaks
// the protocol in one place at a time, and must find each fault. Kernels are written by hand; if
// the compiler is built, there are also products from the compiler, by each of its plans.
#include "tests/runtime/ranks.h"

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ucontext.h>

enum {
    MOST = 4,
    STACK = 1 << 18,
    HEAP = 1 << 16,
    DEPTH = 1 << 12,
    SEEN = 1 << 22,
    K = 2,
    ANY = 1000
};

/// The broken part.
typedef enum Break {
    NOTHING,
    LOSE_FLAG, // signal number `which`, except the runtime's own
    LOSE_DONE, // a rank's end word, to one other rank
    LOSE_TURN, // a word of a barrier
    LATE_DATA, // a signal overtakes the put before it
    NO_WAIT,   // programs do not wait for their chunks
    LOSE_WAIT, // one wait of one rank for another
    NO_END,    // a launch ends without waiting for the others
    NO_TURN,   // a barrier does not wait
    SAME_TURN, // the same, and the epoch does not change there
    BREAKS
} Break;

/// The result of a compiled kernel; NO_PRODUCT: it is hand-written.
typedef enum Product { NO_PRODUCT, AG_GEMM, GEMM_RS, GEMM_AR } Product;

typedef struct Protocol {
    const char *name;
    tg_kernel *kernel;
    int64_t
        how; // for `folded` the number of iterations; for compiled kernels, whether programs wait
    Product product;
    bool mapped; // whether memory is mapped; then the requests of compiled code are steps
} Protocol;

typedef struct Fiber {
    ucontext_t context;
    char *stack;
    tg_context *current;
    bool ended, passed;
    bool last;   // whether it is in its last launch (all wait for rank 0 before the first)
    int waits;   // number of waits for other ranks in it
    int64_t saw; // number of changes at its last look without work; -1: it can continue
    int steps;
} Fiber;

/// A point where several fibers can continue.
typedef struct Choice {
    unsigned open; // fibers that have not been tried
    int taken;
} Choice;

static struct {
    int size, running;
    Fiber fibers[MOST];
    ucontext_t scheduler;
    char *memory;
    size_t bytes; // symmetric bytes of a rank
    int64_t changes;
    uint64_t hash;         // hash of memory at the last look
    int entered, finished; // ranks that have entered, and finished, the current launch
    bool aborts;
    int preemptions, most_preemptions;
    Choice path[DEPTH];
    int depth, length; // depth in this run; length of the path
    uint64_t *seen;
    long states, runs;
    /* the fault */
    Break broken;
    int which, flags, dones, turns, waits;
    struct Late {
        void *to;
        size_t bytes;
        char data[256];
    } late[MOST];
    tg_comm *comms[MOST];
    /* the protocol */
    Protocol p;
    int64_t rows, chunk;
    int launches;
} m;

/* ---- fibers ---------------------------------------------------------------------------------- */

static void leave(void) {
    Fiber *f = &m.fibers[m.running];
    f->current = tg_context_use(NULL);
    swapcontext(&f->context, &m.scheduler);
    tg_context_use(f->current);
}

/// Called before a step that other ranks may see.
static void step(void) {
    Fiber *f = &m.fibers[m.running];
    f->steps++;
    f->saw = -1;
    leave();
    m.changes++;
}

static char *at_rank(int rank, size_t at) {
    return m.memory + (size_t)rank * m.bytes + at;
}

/// Delivers the put that was held back.
static void arrive(int rank) {
    struct Late *l = &m.late[rank];
    if (l->bytes) memcpy(l->to, l->data, l->bytes);
    l->bytes = 0;
}

static tg_status put(tg_comm *c, int rank, size_t at, const void *from, size_t bytes) {
    struct Late *l = &m.late[c->rank];
    step();
    arrive(c->rank);
    if (m.broken != LATE_DATA || at < sizeof(rt_control) || bytes > sizeof l->data) {
        memcpy(at_rank(rank, at), from, bytes);
        return TG_OK;
    }
    *l = (struct Late){.to = at_rank(rank, at), .bytes = bytes};
    memcpy(l->data, from, bytes);
    return TG_OK;
}

static tg_status get(tg_comm *c, int rank, size_t at, void *to, size_t bytes) {
    (void)c;
    step();
    memcpy(to, at_rank(rank, at), bytes);
    return TG_OK;
}

static bool is_lost(size_t at) {
    if (at >= sizeof(rt_control)) return m.flags++ == m.which && m.broken == LOSE_FLAG;
    size_t in = (at - offsetof(rt_control, from)) % sizeof(rt_from);
    if (in == offsetof(rt_from, barrier)) return m.turns++ == m.which && m.broken == LOSE_TURN;
    if (in != offsetof(rt_from, done)) return false;
    return m.dones++ == m.which && m.broken == LOSE_DONE;
}

static tg_status set(tg_comm *c, int rank, size_t at, int64_t value) {
    step();
    if (!is_lost(at)) memcpy(at_rank(rank, at), &value, sizeof value);
    // The word has overtaken the data, which arrive a step later.
    if (m.late[c->rank].bytes) {
        step();
        arrive(c->rank);
    }
    return TG_OK;
}

static tg_status add(tg_comm *c, int rank, size_t at, int64_t value) {
    int64_t before;
    step();
    memcpy(&before, at_rank(rank, at), sizeof before);
    before += value;
    memcpy(at_rank(rank, at), &before, sizeof before);
    (void)c;
    return TG_OK;
}

static tg_status quiet(tg_comm *c) {
    (void)c;
    return TG_OK;
}

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = rt_mix(h, word);
    }
    while (n--) h = rt_mix(h, *p++);
    return h;
}

/// Hashes the state. Fibers are determined by their steps and by the values that they read. Those
/// values are in memory; chunks of an earlier launch do not differ between orders.
static uint64_t hash_state(unsigned rest) {
    const size_t data = (sizeof(rt_control) + 0xffff) / 0x10000 * 0x10000;
    uint64_t h = rest;
    for (int r = 0; r < m.size; r++) {
        h = rt_mix(h, (uint64_t)m.fibers[r].steps);
        h = hash_bytes(h, at_rank(r, 0), offsetof(rt_control, from[m.size]));
        h = hash_bytes(h, at_rank(r, data), 2048);
        h = hash_bytes(h, at_rank(r, data + HEAP - HEAP / 64), HEAP / 64);
        h = rt_mix(h, m.late[r].bytes);
    }
    return h ? h : 1;
}

/// Ranks with mapped memory write there without a step.
static void note_changes(void) {
    uint64_t h = hash_state(0);
    m.changes += h != m.hash;
    m.hash = h;
}

/// A waiting rank continues when anything has changed.
static void progress(tg_comm *c) {
    if (m.aborts) atomic_store(&c->lost, 1);
    if (m.aborts) return;
    if (m.p.mapped) note_changes();
    m.fibers[m.running].saw = m.changes;
    leave();
}

static tg_status create(tg_comm *c, const tg_comm_options *o, size_t bytes) {
    c->rank = o->rank;
    c->size = c->local = o->ranks;
    m.bytes = bytes;
    c->host = (rt_heap){.flat = m.memory,
                        .own = at_rank(o->rank, 0),
                        .stride = bytes,
                        .bytes = bytes,
                        .mapped = m.p.mapped};
    return TG_OK;
}

static void destroy(tg_comm *c) {
    (void)c;
}

static const rt_engine engine = {.name = "model",
                                 .create = create,
                                 .destroy = destroy,
                                 .put = put,
                                 .get = get,
                                 .set = set,
                                 .add = add,
                                 .quiet = quiet,
                                 .progress = progress};

/* ---- memory that is mapped ------------------------------------------------------------------- */
// Programs access other ranks' memory between two calls of the runtime: these accesses are the
// steps.

static int32_t step_begin(const tg_env *env, int32_t how) {
    step();
    return rt_host_calls.begin(env, how);
}

static int32_t step_barrier(const tg_env *env) {
    step();
    m.turns++;
    return rt_host_calls.barrier(env);
}

static int32_t step_end(const tg_env *env) {
    step();
    return rt_host_calls.end(env);
}

static int32_t step_gather(const tg_env *env, tg_gather *g) {
    step();
    return rt_host_calls.gather(env, g);
}

static int32_t step_scatter(const tg_env *env, const tg_scatter *s) {
    step();
    return rt_host_calls.scatter(env, s);
}

static int32_t step_wait(const tg_env *env, const tg_site *site, const int64_t *word, int32_t how,
                         int64_t value, int64_t peer, int64_t number) {
    step();
    Fiber *f = &m.fibers[m.running];
    if (peer != m.running && f->last) {
        int which = f->waits++ * m.size + m.running;
        m.waits++;
        if (which == m.which && m.broken == LOSE_WAIT) return 0;
    }
    return rt_host_calls.wait(env, site, word, how, value, peer, number);
}

static int32_t step_signal(const tg_env *env, int64_t *word, int32_t how, int64_t value) {
    step();
    if (m.flags++ == m.which && m.broken == LOSE_FLAG) return 0;
    return rt_host_calls.signal(env, word, how, value);
}

static void step_at_calls(tg_comm_calls *calls) {
    calls->begin = step_begin;
    calls->barrier = step_barrier;
    calls->end = step_end;
    calls->gather = step_gather;
    calls->scatter = step_scatter;
    calls->wait = step_wait;
    calls->signal = step_signal;
}

/* ---- actions of ranks ------------------------------------------------------------------------ */

static int32_t no_wait(const tg_env *env, const tg_site *site, const int64_t *word, int32_t how,
                       int64_t value, int64_t peer, int64_t number) {
    (void)env, (void)site, (void)word, (void)how, (void)value, (void)peer, (void)number;
    return 0;
}

static int32_t no_end(const tg_env *env) {
    (void)env;
    return 0;
}

/// The epoch advances, but the rank has waited for no other.
static int32_t no_turn(const tg_env *env) {
    (void)env;
    tg_comm *c = m.comms[m.running];
    c->control->words[TG_CONTROL_EPOCH] = ++c->epoch;
    return 0;
}

/// The epoch that programs see does not change.
static int32_t same_turn(const tg_env *env) {
    int64_t *words = m.comms[m.running]->control->words, epoch = words[TG_CONTROL_EPOCH];
    int32_t failed = rt_host_calls.barrier(env);
    words[TG_CONTROL_EPOCH] = epoch;
    return failed;
}

static float value(int rank, int64_t i, int launch) {
    return (float)(rank * 100 + launch * 10 + 1) + (float)i;
}

/// Launches with different data each time, and poisons the data that were read.
static bool launch_all(tg_comm *c) {
    bool gathers = m.p.kernel == &gathered;
    int64_t part[2] = {m.rows, K}, all[2] = {m.rows * m.size, K}, n = m.rows * K;
    float data[16 * MOST];
    DLTensor sym, own = tg_dense(data, kDLFloat, 32, 2, all);
    if (tg_sym_alloc(c, (DLDataType){kDLFloat, 32, 1}, 2, part, 0, &sym)) return false;
    tg_arg args[4] = {tg_tensor(gathers ? &sym : &own), tg_tensor(gathers ? &own : &sym),
                      tg_int(m.p.how), tg_int(m.chunk)};
    float *shard = sym.data;
    m.entered++;
    for (int t = 0; t < m.launches; t++) {
        for (int64_t i = 0; i < n && gathers; i++) shard[i] = value(c->rank, i, t);
        for (int64_t i = 0; i < n * m.size; i++) data[i] = gathers ? -1 : value(c->rank, i, t);
        if (tg_launch(m.p.kernel, args, 4)) return false;
        for (int64_t i = 0; i < n && gathers; i++) shard[i] = -2;
        for (int64_t i = 0; i < n * m.size && gathers; i++)
            if (data[i] != 2 * value((int)(i / n), i % n, t)) return false;
        for (int64_t i = 0; i < n && !gathers; i++) {
            float sum = 0;
            int64_t turns = m.p.kernel == &folded ? m.p.how : 1;
            for (int64_t k = 0; k < turns * m.size; k++)
                sum += value((int)(k % m.size), c->rank * n + i, t) + (float)(k / m.size);
            if (shard[i] != sum) return false;
        }
    }
    return true;
}

/// Rank r's value for element i of row block `part`, where products go; b is the identity.
static float product(int64_t part, int64_t i, int launch) {
    int64_t n = m.rows * K;
    float sum = 0;
    if (m.p.product == AG_GEMM) return value((int)part, i, launch);
    for (int r = 0; r < m.size; r++) sum += value(r, part * n + i, launch);
    return sum;
}

/// The same for ag_gemm, gemm_rs and gemm_ar.
static bool launch_products(tg_comm *c) {
    static const float one[K * K] = {1, 0, 0, 1};
    bool gathers = m.p.product == AG_GEMM, scatters = m.p.product == GEMM_RS;
    int64_t part[2] = {m.rows, K}, rows[2] = {m.rows * (scatters ? m.size : 1), K};
    int64_t out[3] = {m.size, m.rows, K}, square[2] = {K, K}, n = m.rows * K;
    float data[16 * MOST];
    DLTensor sym, own = tg_dense(data, kDLFloat, 32, gathers ? 3 : 2, gathers ? out : rows);
    DLTensor b = tg_dense((void *)(uintptr_t)one, kDLFloat, 32, 2, square);
    if (tg_sym_alloc(c, (DLDataType){kDLFloat, 32, 1}, 2, part, 0, &sym)) return false;
    tg_arg args[3] = {tg_tensor(gathers ? &sym : &own), tg_tensor(&b),
                      tg_tensor(gathers ? &own : &sym)};
    float *shard = sym.data, *result = gathers ? data : shard;
    float *given = gathers ? shard : data;
    m.entered++;
    for (int t = 0; t < m.launches; t++) {
        for (int64_t i = 0; i < rows[0] * K; i++) given[i] = value(c->rank, i, t);
        for (int64_t i = 0; i < (gathers ? n * m.size : n); i++) result[i] = -1;
        m.fibers[c->rank].last = t == m.launches - 1;
        if (tg_launch(m.p.kernel, args, 3)) return false;
        for (int64_t i = 0; i < rows[0] * K; i++) given[i] = -2;
        for (int64_t i = 0; i < (gathers ? n * m.size : n); i++)
            if (result[i] != product(gathers ? i / n : scatters ? c->rank : 0, i % n, t))
                return false;
    }
    return true;
}

static void fiber_main(int rank) {
    tg_comm_options options = {.size = sizeof options,
                               .rank = rank,
                               .ranks = m.size,
                               .device = -1,
                               .heap = HEAP,
                               .timeout_ms = 1000000};
    tg_options one = {.size = sizeof one, .threads = 1};
    tg_context *context;
    tg_comm *c;
    Fiber *f = &m.fibers[rank];
    if (!tg_context_create(&one, &context) &&
        !rt_comm_open(&engine, &rt_memory_host, &options, &c)) {
        m.comms[rank] = c;
        if (m.p.mapped) step_at_calls(&c->calls);
        if (m.broken == NO_WAIT) c->calls.wait = no_wait;
        if (m.broken == NO_END) c->calls.end = no_end;
        if (m.broken == NO_TURN) c->calls.barrier = no_turn;
        if (m.broken == SAME_TURN) c->calls.barrier = same_turn;
        tg_context_set_comm(context, c);
        tg_context_use(context);
        f->passed = m.p.product ? launch_products(c) : launch_all(c);
        tg_context_use(NULL);
        m.finished++;
        tg_context_destroy(context);
        tg_comm_destroy(c);
    }
    f->ended = true;
    m.changes++;
    for (;;) leave();
}

/* ---- orders ---------------------------------------------------------------------------------- */

/// False: the state was there.
static bool add_state(uint64_t h) {
    size_t i = h % SEEN;
    while (m.seen[i] && m.seen[i] != h) i = (i + 1) % SEEN;
    bool fresh = !m.seen[i];
    m.seen[i] = h;
    m.states += fresh;
    return fresh;
}

static unsigned ready_fibers(void) {
    unsigned ready = 0;
    for (int r = 0; r < m.size; r++)
        if (!m.fibers[r].ended && m.fibers[r].saw != m.changes) ready |= 1u << r;
    return ready;
}

static int first_of(unsigned fibers) {
    return __builtin_ctz(fibers);
}

/// Chooses the fiber that continues. Within the path it follows the path. Behind its end the last
/// fiber continues, and the choice is recorded. If the state was seen before, *looks becomes false,
/// and the rest of the run is skipped.
static int choose(unsigned ready, bool *looks) {
    bool can_stay = ready >> m.running & 1;
    int stay = can_stay ? m.running : first_of(ready);
    if (!*looks || !m.entered || m.finished == m.size) return stay;
    if (m.depth == m.length) {
        bool bounded = m.most_preemptions < ANY; // then it is part of the state
        unsigned rest = ready | (unsigned)stay << 8 | (bounded ? (unsigned)m.preemptions << 16 : 0);
        if (m.length == DEPTH || !add_state(hash_state(rest))) {
            *looks = false;
            return stay;
        }
        unsigned others = ready & ~(1u << stay);
        if (can_stay && m.preemptions == m.most_preemptions) others = 0;
        m.path[m.length++] = (Choice){others, stay};
    }
    int taken = m.path[m.depth++].taken;
    m.preemptions += can_stay && taken != stay;
    return taken;
}

static void start(int rank) {
    Fiber *f = &m.fibers[rank];
    char *stack = f->stack ? f->stack : malloc(STACK);
    *f = (Fiber){.stack = stack, .saw = -1};
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = STACK;
    makecontext(&f->context, (void (*)(void))fiber_main, 1, rank);
}

/// Runs one order to its end. False: an error was found.
static bool run(void) {
    bool looks = true, right = true;
    memset(m.memory, 0, (size_t)m.size * (HEAP + (sizeof(rt_control) + 0xffff)));
    m.changes = m.depth = m.preemptions = m.running = m.flags = m.dones = m.turns = m.waits = 0;
    m.entered = m.finished = 0;
    m.aborts = false;
    memset(m.late, 0, sizeof m.late);
    for (int r = 0; r < m.size; r++) start(r);
    m.runs++;
    for (int left = m.size; left;) {
        unsigned ready = ready_fibers();
        if (!ready) { // all wait: the run ends
            right = false;
            m.aborts = true;
            for (int r = 0; r < m.size; r++) m.fibers[r].saw = -1;
            continue;
        }
        m.running = choose(ready, &looks);
        Fiber *f = &m.fibers[m.running];
        swapcontext(&m.scheduler, &f->context);
        left -= f->ended;
        right &= !f->ended || f->passed;
    }
    return right;
}

/// Advances to the next order by changing the last open choice. False: none is left.
static bool next_path(void) {
    while (m.length) {
        Choice *c = &m.path[m.length - 1];
        if (c->open) {
            c->taken = first_of(c->open);
            c->open &= c->open - 1;
            return true;
        }
        m.length--;
    }
    return false;
}

/// Explores all orders, or those up to the first error.
static bool explore(const Protocol *p, int size, int64_t rows, int launches, int most_preemptions) {
    m.p = *p;
    m.size = size;
    m.rows = rows;
    m.chunk = 1;
    m.launches = launches;
    m.most_preemptions = most_preemptions;
    m.length = 0;
    m.states = m.runs = 0;
    memset(m.seen, 0, sizeof *m.seen * SEEN);
    bool right;
    do right = run();
    while (right && next_path() && m.states < SEEN / 2);
    assert_true(m.states < SEEN / 2);
    return right;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const Protocol protocols[] = {
    {"gather before", &gathered, TG_GATHER_BEFORE, NO_PRODUCT, false},
    {"gather by pulls", &gathered, TG_GATHER_PULL, NO_PRODUCT, false},
    {"gather by pushes", &gathered, TG_GATHER_PUSH, NO_PRODUCT, false},
    {"read directly", &gathered, TG_GATHER_DIRECT, NO_PRODUCT, false},
    {"scatter before", &reduced, TG_GATHER_BEFORE, NO_PRODUCT, false},
    {"scatter by pushes", &reduced, TG_GATHER_PUSH, NO_PRODUCT, false},
    {"sums in two turns", &folded, 2, NO_PRODUCT, false},
};
enum { PROTOCOLS = sizeof protocols / sizeof *protocols };

/// Each order makes its communicators anew. The memory stays with the process, because new pages
/// would take longer than everything else.
static int setup(void **state) {
    (void)state;
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    m.memory = aligned_alloc(64, MOST * (HEAP + (size_t)(1 << 20)));
    m.seen = malloc(sizeof *m.seen * SEEN);
    return !m.memory || !m.seen;
}

static void expect_right(const Protocol *p, int size, int64_t rows, int launches, int preemptions) {
    m.broken = NOTHING;
    bool right = explore(p, size, rows, launches, preemptions);
    fprintf(stderr, "%s, %d ranks: %ld states, %ld orders\n", p->name, size, m.states, m.runs);
    assert_true(right);
}

/// Two and three ranks in all orders; four with a bound on how often a rank that could continue
/// does not.
static void all_orders(void **state) {
    (void)state;
    for (int i = 0; i < PROTOCOLS; i++) {
        expect_right(&protocols[i], 2, 2, 2, ANY);
        expect_right(&protocols[i], 3, 1, 2, ANY);
        expect_right(&protocols[i], 4, 1, 1, 1);
    }
}

/// Whether the exploration with this number of ranks finds the break.
static bool is_caught(const Protocol *p, int size, Break broken, int which) {
    m.broken = broken;
    m.which = which;
    bool right = explore(p, size, 4 - size, 2, ANY);
    if (right)
        fprintf(stderr, "%s, %d ranks: break %d, number %d is not found\n", p->name, size, broken,
                which);
    return !right;
}

/// Loses each signal to another rank, one at a time.
static void lost_signals(void **state) {
    (void)state;
    for (int k = 0; k < 2 * PROTOCOLS; k++) {
        const Protocol *p = &protocols[k / 2];
        int size = 2 + k % 2, others = size * (size - 1);
        expect_right(p, size, 4 - size, 2, 0);
        int flags = m.flags, dones = m.dones, turns = m.turns;
        assert_int_equal(dones, 2 * others); // for two launches
        assert_int_equal(turns, p->kernel == &folded ? 2 * others : 0);
        for (int f = 0; f < flags; f++) assert_true(is_caught(p, size, LOSE_FLAG, f));
        for (int d = 0; d < dones; d++) assert_true(is_caught(p, size, LOSE_DONE, d));
        for (int t = 0; t < turns; t++) assert_true(is_caught(p, size, LOSE_TURN, t));
    }
}

/// Breaks the order of data: signals after them, waits before them, ends between two launches. If
/// all data are copied before programs start, the copying waits.
static void lost_order(void **state) {
    (void)state;
    for (int i = 0; i < PROTOCOLS; i++) {
        const Protocol *p = &protocols[i];
        bool turns = p->kernel == &folded;
        bool pushes = (turns || p->kernel == &reduced || p->how == TG_GATHER_PUSH);
        if (pushes) assert_true(is_caught(p, 2, LATE_DATA, 0));
        if (turns || p->how != TG_GATHER_BEFORE) assert_true(is_caught(p, 2, NO_WAIT, 0));
        if (turns) assert_true(is_caught(p, 2, NO_TURN, 0));
        if (turns) assert_true(is_caught(p, 2, SAME_TURN, 0));
        assert_true(is_caught(p, 2, NO_END, 0));
    }
}

/* ---- compiled kernels ------------------------------------------------------------------------ */

#ifdef TG_COMPILED
// Objects of comm_model.teg by `tegula build`, one for each plan.
#define PLAN(p) extern tg_kernel p##_ag_gemm_kernel, p##_gemm_rs_kernel, p##_gemm_ar_kernel
PLAN(direct);
PLAN(before);
PLAN(pull);
PLAN(push);
PLAN(add);
PLAN(copies);
PLAN(put);

// Programs that store into other ranks' memory, or read in place data written in this launch, need
// mapped memory.
static const Protocol compiled[] = {
    {"ag_gemm, before", &before_ag_gemm_kernel, 0, AG_GEMM, false},
    {"ag_gemm, pull", &pull_ag_gemm_kernel, 1, AG_GEMM, false},
    {"ag_gemm, push", &push_ag_gemm_kernel, 1, AG_GEMM, false},
    {"ag_gemm, copies", &copies_ag_gemm_kernel, 1, AG_GEMM, false},
    {"gemm_rs, before", &before_gemm_rs_kernel, 1, GEMM_RS, false},
    {"gemm_rs, copies", &copies_gemm_rs_kernel, 1, GEMM_RS, false},
    {"gemm_ar, copies", &copies_gemm_ar_kernel, 1, GEMM_AR, false},
    {"ag_gemm, direct", &direct_ag_gemm_kernel, 1, AG_GEMM, true},
    {"ag_gemm, mapped, pull", &pull_ag_gemm_kernel, 1, AG_GEMM, true},
    {"ag_gemm, mapped, push", &push_ag_gemm_kernel, 1, AG_GEMM, true},
    {"ag_gemm, put", &put_ag_gemm_kernel, 1, AG_GEMM, true},
    {"gemm_rs, direct", &direct_gemm_rs_kernel, 1, GEMM_RS, true},
    {"gemm_rs, add", &add_gemm_rs_kernel, 0, GEMM_RS, true},
    {"gemm_ar, direct", &direct_gemm_ar_kernel, 1, GEMM_AR, true},
    {"gemm_ar, mapped, before", &before_gemm_ar_kernel, 1, GEMM_AR, true},
    {"gemm_ar, add", &add_gemm_ar_kernel, 0, GEMM_AR, true},
};
enum { COMPILED = sizeof compiled / sizeof *compiled };

/// gemm_ar's programs wait for parts if no other operation makes all ranks meet. Shards are cleared
/// before programs add to them.
static bool has_turns(const Protocol *p) {
    bool phases = p->product == GEMM_AR && p->kernel != &direct_gemm_ar_kernel;
    return phases || p->kernel == &add_gemm_rs_kernel;
}

/// Three ranks launch once; gemm_ar has two phases, and a bound on how often a rank that could
/// continue does not. Of five rows, one rank has three parts and another two.
static void compiled_orders(void **state) {
    (void)state;
    for (int i = 0; i < COMPILED; i++) {
        bool phases = compiled[i].product == GEMM_AR;
        expect_right(&compiled[i], 2, 2, 2, ANY);
        assert_int_equal(m.turns > 0, has_turns(&compiled[i]));
        expect_right(&compiled[i], 3, 1, 1, phases ? 2 : ANY);
        if (phases) expect_right(&compiled[i], 2, 5, 1, 2);
        if (phases) expect_right(&compiled[i], 3, 4, 1, 1);
    }
}

/// Removes signals, ends, waits and barriers of compiled code; each must be noticed. Of several
/// waits for a chunk, the first is removed.
static void compiled_breaks(void **state) {
    (void)state;
    for (int i = 0; i < COMPILED; i++) {
        const Protocol *p = &compiled[i];
        expect_right(p, 2, 2, 2, 0);
        int flags = m.flags, turns = m.turns, waits = m.waits;
        for (int f = 0; f < flags; f++) assert_true(is_caught(p, 2, LOSE_FLAG, f));
        bool own_words = p->mapped && p->product != AG_GEMM && p->how;
        for (int w = 0; w < waits && own_words; w++) assert_true(is_caught(p, 2, LOSE_WAIT, w));
        if (p->how) assert_true(is_caught(p, 2, NO_WAIT, 0));
        if (turns) assert_true(is_caught(p, 2, NO_TURN, 0));
        assert_true(is_caught(p, 2, NO_END, 0));
    }
}
static int run_compiled(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_orders),
        cmocka_unit_test(compiled_breaks),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
#else
static int run_compiled(void) {
    fprintf(stderr, "no compiler was built\n");
    return 2;
}
#endif

/// With an argument: tests compiled kernels.
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_orders),
        cmocka_unit_test(lost_signals),
        cmocka_unit_test(lost_order),
    };
    (void)argv;
    return argc > 1 ? run_compiled() : cmocka_run_group_tests(tests, setup, NULL);
}
