// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See comm_kernels.h.
#include "tests/runtime/comm_kernels.h"

#include "runtime/comm/comm_cuda.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* ---- device code ----------------------------------------------------------------------------- */

// Thread 0 waits for [%flag] to reach the epoch; then all threads continue.
#define WAIT                                                                                       \
    "{ .reg .pred %p; .reg .b64 %v, %from, %now, %limit, %at;\n"                                   \
    "  mov.u32 %lane, %tid.x; setp.ne.u32 %p, %lane, 0; @%p bra GOT;\n"                            \
    "  ld.relaxed.sys.u64 %limit, [%control+8]; mov.u64 %from, %globaltimer;\n"                    \
    "AGAIN: ld.acquire.sys.u64 %v, [%flag]; setp.ge.s64 %p, %v, %epoch; @%p bra GOT;\n"            \
    "  ld.relaxed.sys.u64 %v, [%control+16]; setp.ne.u64 %p, %v, 0; @%p bra GOT;\n"                \
    "  ld.relaxed.sys.u64 %v, [%control+24]; setp.ne.u64 %p, %v, 0; @%p bra GOT;\n"                \
    "  mov.u64 %now, %globaltimer; sub.u64 %now, %now, %from;\n"                                   \
    "  setp.lt.u64 %p, %now, %limit; @%p bra AGAIN;\n"                                             \
    "  add.u64 %at, %control, 24; atom.cas.b64 %v, [%at], 0, 1;\n"                                 \
    "  setp.ne.u64 %p, %v, 0; @%p bra GOT; st.u64 [%control+32], 0;\n"                             \
    "  cvt.u64.u32 %v, %r; st.u64 [%control+40], %v;\n"                                            \
    "  cvt.u64.u32 %v, %c; st.u64 [%control+48], %v;\n"                                            \
    "GOT: bar.sync 0; }\n"
// %x: element %i of rank %r.
#define VALUE                                                                                      \
    "mad.lo.u32 %x, %r, 7, 3; add.u32 %y, %i, 1; mul.lo.u32 %x, %x, %y;\n"                         \
    "mad.lo.u32 %x, %seed, 1000003, %x;\n"
#define REGISTERS                                                                                  \
    ".reg .pred %p; .reg .b32 %lane, %r, %c, %i, %j, %k, %n, %x, %y, %seed, %step, %rank, "        \
    "%ranks;\n"                                                                                    \
    ".reg .b32 %rows, %cols, %pitch, %chunk, %chunks, %row, %col, %first;\n"                       \
    ".reg .b64 %a, %b, %d, %view, %slot, %flags, %flag, %control, %bad, %epoch;\n"
#define SHAPE                                                                                      \
    "ld.param.u32 %rows, [prows]; ld.param.u32 %cols, [pcols]; ld.param.u32 %pitch, [ppitch];\n"   \
    "ld.param.u32 %seed, [pseed]; ld.param.u32 %rank, [prank];\n"
#define CHUNKS                                                                                     \
    "ld.param.u32 %chunk, [pchunk]; ld.param.u32 %chunks, [pchunks];\n"                            \
    "ld.param.u32 %ranks, [pranks]; ld.param.u64 %control, [pcontrol];\n"                          \
    "ld.relaxed.sys.u64 %epoch, [%control];\n"
#define SHAPE_PARAMS                                                                               \
    ".param .u32 prows, .param .u32 pcols, .param .u32 ppitch, .param .u32 pseed,\n"               \
    ".param .u32 prank"
#define CHUNK_PARAMS                                                                               \
    ".param .u64 pcontrol, .param .u32 pchunk, .param .u32 pchunks, .param .u32 pranks"
// Loops of all threads of the grid over the elements of chunk %c: %i counts within the shard, %d is
// the offset in bytes.
#define EACH(body)                                                                                 \
    "{ mul.lo.u32 %first, %c, %chunk; sub.u32 %n, %rows, %first; min.u32 %n, %n, %chunk;\n"        \
    "  mul.lo.u32 %n, %n, %cols; mov.u32 %lane, %tid.x; mov.u32 %j, %ctaid.x;\n"                   \
    "  mov.u32 %step, %ntid.x; mad.lo.u32 %j, %j, %step, %lane; mov.u32 %k, %nctaid.x;\n"          \
    "  mul.lo.u32 %step, %step, %k;\n"                                                             \
    "NEXT: setp.ge.u32 %p, %j, %n; @%p bra LAST;\n"                                                \
    "  div.u32 %row, %j, %cols; rem.u32 %col, %j, %cols; add.u32 %row, %row, %first;\n"            \
    "  mad.lo.u32 %i, %row, %cols, %col; mad.lo.u32 %row, %row, %pitch, %col;\n"                   \
    "  mul.wide.u32 %d, %row, 4;\n" body "  add.u32 %j, %j, %step; bra NEXT;\n"                    \
    "LAST: }\n"
#define COMPARE                                                                                    \
    VALUE "add.u64 %a, %view, %d; ld.relaxed.gpu.u32 %y, [%a]; setp.ne.u32 %p, %x, %y;\n"          \
          "@%p red.add.u32 [%bad], 1;\n"

#pragma GCC diagnostic ignored "-Woverlength-strings"
static const char text[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry make(.param .u64 pa, " SHAPE_PARAMS ") {\n" REGISTERS SHAPE
    "ld.param.u64 %view, [pa]; mov.u32 %r, %rank; mov.u32 %c, 0; mov.u32 %chunk, %rows;\n" EACH(
        VALUE
        "add.u64 %a, %view, %d; st.u32 [%a], %x;\n") "ret; }\n"
                                                     // All ranks' shards, the own one first.
                                                     ".visible .entry take(.param .u64 pview, "
                                                     ".param .u64 pslot, .param .u64 pflags,\n"
                                                     "    .param .u64 pbad, " CHUNK_PARAMS
                                                     ", " SHAPE_PARAMS
                                                     ") {\n" REGISTERS SHAPE CHUNKS
                                                     ".reg .b32 %turn; .reg .b64 %base; mov.u32 "
                                                     "%turn, 0; ld.param.u64 %base, [pview];\n"
                                                     "ld.param.u64 %slot, [pslot]; ld.param.u64 "
                                                     "%flags, [pflags]; ld.param.u64 %bad, "
                                                     "[pbad];\n"
                                                     "RANK: add.u32 %r, %turn, %rank; rem.u32 %r, "
                                                     "%r, %ranks; mov.u32 %c, 0;\n"
                                                     "cvt.u64.u32 %a, %r; mad.lo.u64 %view, %a, "
                                                     "%slot, %base;\n"
                                                     "CHUNK: setp.eq.u64 %p, %flags, 0; @%p bra "
                                                     "THERE;\n"
                                                     "mad.lo.u32 %x, %r, %chunks, %c; mad.wide.u32 "
                                                     "%flag, %x, 8, %flags;\n" WAIT "THERE:\n" EACH(
                                                         COMPARE) "add.u32 %c, %c, 1; setp.lt.u32 "
                                                                  "%p, %c, %chunks; @%p bra "
                                                                  "CHUNK;\n"
                                                                  "add.u32 %turn, %turn, 1; "
                                                                  "setp.lt.u32 %p, %turn, %ranks; "
                                                                  "@%p bra RANK;\n"
                                                                  "ret; }\n"
                                                                  // Parts for all ranks, of which
                                                                  // CTA c raises chunk c; the one
                                                                  // for part r is %i + r * 5 on.
                                                                  ".visible .entry give(.param "
                                                                  ".u64 plocal, .param .u64 ppart, "
                                                                  ".param .u64 pdone,\n"
                                                                  "    " CHUNK_PARAMS
                                                                  ", " SHAPE_PARAMS
                                                                  ") {\n" REGISTERS SHAPE CHUNKS
                                                                  ".reg .b32 %to, %threads; .reg "
                                                                  ".b64 %base, %part; ld.param.u64 "
                                                                  "%base, [plocal];\n"
                                                                  "ld.param.u64 %part, [ppart]; "
                                                                  "ld.param.u64 %flags, [pdone];\n"
                                                                  "mov.u32 %r, %rank; mov.u32 %c, "
                                                                  "%ctaid.x; mov.u32 %to, 0; "
                                                                  "mov.u32 %threads, %ntid.x;\n"
                                                                  "PART: cvt.u64.u32 %a, %to; "
                                                                  "mad.lo.u64 %view, %a, %part, "
                                                                  "%base;\n"
                                                                  "mul.lo.u32 %first, %c, %chunk; "
                                                                  "sub.u32 %n, %rows, %first; "
                                                                  "min.u32 %n, %n, %chunk;\n"
                                                                  "mul.lo.u32 %n, %n, %cols; "
                                                                  "mul.lo.u32 %first, %first, "
                                                                  "%cols; mov.u32 %j, %tid.x;\n"
                                                                  "NEXT: setp.ge.u32 %p, %j, %n; "
                                                                  "@%p bra LAST;\n"
                                                                  "add.u32 %i, %j, %first; "
                                                                  "mul.wide.u32 %d, %i, 4; "
                                                                  "mad.lo.u32 %i, %to, 5, "
                                                                  "%i;\n" VALUE
                                                                  "add.u64 %a, %view, %d; st.u32 "
                                                                  "[%a], %x; add.u32 %j, %j, "
                                                                  "%threads; bra NEXT;\n"
                                                                  "LAST: bar.sync 0; mov.u32 "
                                                                  "%lane, "
                                                                  "%tid.x; setp.ne.u32 %p, %lane, "
                                                                  "0; @%p bra SAID;\n"
                                                                  "mad.lo.u32 %x, %to, %chunks, "
                                                                  "%c; mad.wide.u32 %flag, %x, 8, "
                                                                  "%flags;\n"
                                                                  "fence.acq_rel.sys; "
                                                                  "st.release.sys.u64 [%flag], "
                                                                  "%epoch;\n"
                                                                  "SAID: add.u32 %to, %to, 1; "
                                                                  "setp.lt.u32 %p, %to, %ranks; "
                                                                  "@%p bra PART;\n"
                                                                  "ret; }\n"
                                                                  // Data that the others sent here.
                                                                  ".visible .entry fold(.param "
                                                                  ".u64 pview, .param .u64 pslot, "
                                                                  ".param .u64 pflags,\n"
                                                                  "    .param .u64 "
                                                                  "pbad, " CHUNK_PARAMS
                                                                  ", " SHAPE_PARAMS
                                                                  ") {\n" REGISTERS SHAPE CHUNKS
                                                                  ".reg .b64 %base; mov.u32 %r, 0; "
                                                                  "ld.param.u64 %base, [pview];\n"
                                                                  "ld.param.u64 %slot, [pslot]; "
                                                                  "ld.param.u64 %flags, [pflags]; "
                                                                  "ld.param.u64 %bad, [pbad];\n"
                                                                  "RANK: setp.eq.u32 %p, %r, "
                                                                  "%rank; @%p bra OWN; mov.u32 %c, "
                                                                  "0;\n"
                                                                  "cvt.u64.u32 %a, %r; mad.lo.u64 "
                                                                  "%view, %a, %slot, %base;\n"
                                                                  "CHUNK: mad.lo.u32 %x, %r, "
                                                                  "%chunks, %c; mad.wide.u32 "
                                                                  "%flag, %x, 8, %flags;\n" WAIT
                                                                      EACH(
                                                                          "mad.lo.u32 %i, %rank, "
                                                                          "5, %i;\n" COMPARE) "add."
                                                                                              "u32 "
                                                                                              "%c, "
                                                                                              "%c, "
                                                                                              "1; "
                                                                                              "setp"
                                                                                              ".lt."
                                                                                              "u32 "
                                                                                              "%p, "
                                                                                              "%c, "
                                                                                              "%chu"
                                                                                              "nks;"
                                                                                              " @%"
                                                                                              "p "
                                                                                              "bra "
                                                                                              "CHUN"
                                                                                              "K;\n"
                                                                                              "OWN:"
                                                                                              " add"
                                                                                              ".u32"
                                                                                              " %r,"
                                                                                              " %r,"
                                                                                              " 1; "
                                                                                              "setp"
                                                                                              ".lt."
                                                                                              "u32 "
                                                                                              "%p, "
                                                                                              "%r, "
                                                                                              "%ran"
                                                                                              "ks; "
                                                                                              "@%p "
                                                                                              "bra "
                                                                                              "RANK"
                                                                                              ";\n"
                                                                                              "ret;"
                                                                                              " }"
                                                                                              "\n";

/* ---- the same in C --------------------------------------------------------------------------- */

typedef struct Shape {
    uint32_t rows, cols, pitch, seed, rank;
} Shape;
typedef struct Chunks {
    int64_t *control;
    uint32_t rows, n, ranks;
} Chunks;

static uint32_t value(uint32_t r, uint32_t i, uint32_t seed) {
    return (r * 7 + 3) * (i + 1) + seed * 1000003;
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// Records the first failure of a launch.
static void fail_at(int64_t *control, int64_t site, int64_t peer, int64_t number) {
    int64_t none = 0;
    if (!__atomic_compare_exchange_n(&control[TG_CONTROL_FAILED], &none, 1, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    control[TG_CONTROL_SITE] = site;
    control[TG_CONTROL_PEER] = peer;
    control[TG_CONTROL_NUMBER] = number;
}

/// Whether a wait may look at its word again.
static bool may_wait(int64_t *control, int64_t from, int64_t site, int64_t peer, int64_t number) {
    if (__atomic_load_n(&control[TG_CONTROL_GIVE_UP], __ATOMIC_RELAXED) ||
        __atomic_load_n(&control[TG_CONTROL_FAILED], __ATOMIC_RELAXED))
        return false;
    sched_yield();
    if (now_ns() - from < control[TG_CONTROL_LIMIT]) return true;
    fail_at(control, site, peer, number);
    return false;
}

static void wait_for(int64_t *control, const int64_t *word, int64_t value_, int64_t peer,
                     int64_t number) {
    int64_t from = now_ns();
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value_)
        if (!may_wait(control, from, 0, peer, number)) return;
}

/// Waits for the word of a rank, which may be ahead if it has given up.
static void meet(int64_t *control, const uint64_t *place, uint64_t own, int64_t peer,
                 int64_t count) {
    int64_t from = now_ns();
    uint64_t word;
    while (rt_step_ahead(word = __atomic_load_n(place, __ATOMIC_ACQUIRE), own) < 0)
        if (!may_wait(control, from, RT_STEP_LATE, peer, count)) return;
    if (rt_step_ahead(word, own) == 0 && word != own) fail_at(control, RT_STEP_UNLIKE, peer, count);
}

static Shape shape_of(void **args) {
    return (Shape){*(uint32_t *)args[0], *(uint32_t *)args[1], *(uint32_t *)args[2],
                   *(uint32_t *)args[3], *(uint32_t *)args[4]};
}

static Chunks chunks_of(void **args) {
    return (Chunks){*(int64_t **)args[0], *(uint32_t *)args[1], *(uint32_t *)args[2],
                    *(uint32_t *)args[3]};
}

static void make_kernel(const FakeLaunch *launch, void **args) {
    uint32_t *a = *(uint32_t **)args[0];
    Shape s = shape_of(args + 1);
    (void)launch;
    for (uint32_t i = 0; i < s.rows * s.cols; i++)
        a[i / s.cols * s.pitch + i % s.cols] = value(s.rank, i, s.seed);
}

static void check_rank(Shape s, Chunks k, const uint32_t *view, const int64_t *flags, uint32_t r,
                       uint32_t *bad, uint32_t more) {
    for (uint32_t c = 0; c < k.n; c++) {
        uint32_t end = (c + 1) * k.rows < s.rows ? (c + 1) * k.rows : s.rows;
        if (flags) wait_for(k.control, &flags[r * k.n + c], k.control[TG_CONTROL_EPOCH], r, c);
        for (uint32_t i = c * k.rows * s.cols; i < end * s.cols; i++)
            *bad += view[i / s.cols * s.pitch + i % s.cols] != value(r, i + more, s.seed);
    }
}

static void take_kernel(const FakeLaunch *launch, void **args) {
    const char *view = *(char **)args[0];
    uint64_t slot = *(uint64_t *)args[1];
    const int64_t *flags = *(int64_t **)args[2];
    Chunks k = chunks_of(args + 4);
    Shape s = shape_of(args + 8);
    (void)launch;
    for (uint32_t i = 0; i < k.ranks; i++) {
        uint32_t r = (i + s.rank) % k.ranks;
        check_rank(s, k, (const uint32_t *)(const void *)(view + r * slot), flags, r,
                   *(uint32_t **)args[3], 0);
    }
}

static void give_kernel(const FakeLaunch *launch, void **args) {
    char *local = *(char **)args[0];
    uint64_t part = *(uint64_t *)args[1];
    int64_t *done = *(int64_t **)args[2];
    Chunks k = chunks_of(args + 3);
    Shape s = shape_of(args + 7);
    (void)launch;
    for (uint32_t to = 0; to < k.ranks; to++) {
        uint32_t *at = (uint32_t *)(void *)(local + to * part);
        for (uint32_t i = 0; i < s.rows * s.cols; i++) at[i] = value(s.rank, i + to * 5, s.seed);
        for (uint32_t c = 0; c < k.n; c++)
            __atomic_store_n(&done[to * k.n + c], k.control[TG_CONTROL_EPOCH], __ATOMIC_RELEASE);
    }
}

static void fold_kernel(const FakeLaunch *launch, void **args) {
    const char *view = *(char **)args[0];
    uint64_t slot = *(uint64_t *)args[1];
    Chunks k = chunks_of(args + 4);
    Shape s = shape_of(args + 8);
    (void)launch;
    for (uint32_t r = 0; r < k.ranks; r++)
        if (r != s.rank)
            check_rank(s, k, (const uint32_t *)(const void *)(view + r * slot),
                       *(int64_t **)args[2], r, *(uint32_t **)args[3], s.rank * 5);
}

/// The runtime's own kernel (comm_cuda_step.c).
static void step_kernel(const FakeLaunch *launch, void **args) {
    const rt_step *s = args[0];
    rt_cuda_words *own = (rt_cuda_words *)(uintptr_t)s->own;
    int64_t *record = (int64_t *)(uintptr_t)s->record, *control = own->control;
    bool pairs = s->stride == 0;
    (void)launch;
    if (s->flags & RT_STEP_EPOCH) {
        int64_t launches = control[TG_CONTROL_EPOCH] >> TG_EPOCH_BITS;
        __atomic_store_n(&control[TG_CONTROL_EPOCH], (launches + 1) << TG_EPOCH_BITS,
                         __ATOMIC_RELEASE);
        control[TG_CONTROL_LAUNCH] = s->launch;
    }
    if (s->flags & RT_STEP_SIGNAL) own->count++;
    uint64_t word = rt_step_word(s->what, own->count);
    for (int f = 0; f < RT_FILLS; f++)
        for (uint32_t i = 0; i < s->fills[f].words; i++)
            ((int64_t *)(uintptr_t)s->fills[f].at)[i] =
                s->fills[f].epoch ? control[TG_CONTROL_EPOCH] : 0;
    for (uint32_t r = 0; r < s->ranks && s->flags & RT_STEP_SIGNAL; r++) {
        rt_cuda_words *other = (rt_cuda_words *)(uintptr_t)(s->others + r * s->stride);
        __atomic_store_n(rt_came(other, pairs, own->count, s->rank), word, __ATOMIC_RELEASE);
    }
    for (uint32_t r = 0; r < s->ranks && s->flags & RT_STEP_WAIT; r++)
        meet(control, rt_came(own, pairs, own->count, r), word, r, own->count);
    if (s->flags & RT_STEP_TURN)
        __atomic_store_n(&control[TG_CONTROL_EPOCH], control[TG_CONTROL_EPOCH] + 1,
                         __ATOMIC_RELEASE);
    int64_t up = __atomic_load_n(&control[TG_CONTROL_GIVE_UP], __ATOMIC_ACQUIRE);
    if (control[TG_CONTROL_FAILED]) up = s->rank + 1;
    if (!up) return;
    for (uint32_t r = 0; r < s->ranks && control[TG_CONTROL_FAILED]; r++) {
        rt_cuda_words *other = (rt_cuda_words *)(uintptr_t)(s->others + r * s->stride);
        __atomic_store_n(&other->control[TG_CONTROL_GIVE_UP], up, __ATOMIC_RELEASE);
    }
    for (int i = 7; i > TG_CONTROL_GIVE_UP; i--) record[i] = control[i];
    __atomic_store_n(&record[TG_CONTROL_GIVE_UP], up, __ATOMIC_RELEASE);
}

void add_fake_kernels(void (*add)(const char *, FakeKernel *, int, const size_t *)) {
    static const size_t step[] = {sizeof(rt_step)};
    static const size_t make[] = {8, 4, 4, 4, 4, 4};
    static const size_t take[] = {8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4};
    static const size_t give[] = {8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4};
    add("tg_comm_step", step_kernel, 1, step);
    add("make", make_kernel, COUNT(make), make);
    add("take", take_kernel, COUNT(take), take);
    add("give", give_kernel, COUNT(give), give);
    add("fold", fold_kernel, COUNT(take), take);
}

/* ---- host code ------------------------------------------------------------------------------- */

enum { MAKE, TAKE, GIVE, FOLD };
enum { CTAS = 132, THREADS = 512, ALL_SHARED = 227 << 10 };

/// The host code's view of its arguments: a [W, rows, cols], bad, seed, how, chunk.
typedef struct Host {
    const tg_env *env;
    const tg_comm_calls *comm;
    char *a, *bad;
    int64_t lead, rank;
    uint32_t rows, cols, pitch, seed, me, ranks, chunk, chunks;
    int32_t how;
    void *control;
} Host;

static Host host_of(const tg_slot *args, const tg_env *env) {
    const tg_comm_calls *comm = env->comm;
    const int64_t *shape = args[0].tensor.shape, *strides = args[0].tensor.strides;
    Host h = {.env = env,
              .comm = comm,
              .a = args[0].tensor.data,
              .bad = args[1].tensor.data,
              .lead = strides[0] * 4,
              .rows = (uint32_t)shape[1],
              .cols = (uint32_t)shape[2],
              .pitch = (uint32_t)strides[1],
              .seed = (uint32_t)args[2].bits,
              .me = (uint32_t)comm->rank,
              .ranks = (uint32_t)comm->size,
              .how = (int32_t)args[3].bits,
              .chunk = (uint32_t)args[4].bits,
              .control = comm->control(env)};
    h.chunks = (h.rows + h.chunk - 1) / h.chunk;
    return h;
}

static int32_t make_entry(const tg_slot *args, const tg_env *env) {
    const int64_t *shape = args[0].tensor.shape, *strides = args[0].tensor.strides;
    void *a = args[0].tensor.data;
    uint32_t rows = (uint32_t)shape[0], cols = (uint32_t)shape[1], pitch = (uint32_t)strides[0];
    uint32_t seed = (uint32_t)args[1].bits, rank = (uint32_t)args[2].bits;
    void *list[] = {&a, &rows, &cols, &pitch, &seed, &rank};
    return env->dispatch(env, MAKE, 2 * CTAS, list);
}

static int32_t collect_entry(const tg_slot *args, const tg_env *env) {
    Host h = host_of(args, env);
    tg_gather g = {.data = h.a,
                   .lead = h.lead,
                   .rows = h.rows,
                   .row_bytes = 4 * (int64_t)h.cols,
                   .pitch = 4 * (int64_t)h.pitch,
                   .chunk_rows = h.chunk,
                   .name = "a",
                   .how = h.how};
    int32_t status = h.comm->begin(env, h.how == TG_GATHER_BEFORE);
    if (!status) status = h.comm->gather(env, &g);
    void *flags = h.how == TG_GATHER_BEFORE ? NULL : g.flags;
    void *list[] = {&g.view,  &g.slot, &flags,  &h.bad,   &h.control, &h.chunk, &h.chunks,
                    &h.ranks, &h.rows, &h.cols, &h.pitch, &h.seed,    &h.me};
    if (!status) status = env->dispatch(env, TAKE, CTAS, list);
    return status ? status : h.comm->end(env);
}

static int32_t spread_entry(const tg_slot *args, const tg_env *env) {
    Host h = host_of(args, env);
    int64_t row = 4 * (int64_t)h.cols, part = row * h.rows;
    tg_scatter s = {.part = part,
                    .rows = h.rows,
                    .row_bytes = row,
                    .pitch = row,
                    .chunk_rows = h.chunk,
                    .name = "a",
                    .how = h.how};
    int32_t status = h.comm->begin(env, 0);
    if (status) return status;
    s.local = env->workspace(env, part * h.ranks);
    s.stage = h.comm->workspace(env, part * h.ranks, &s.lead);
    s.flags = h.comm->signals(env, 0, (int64_t)h.chunks * h.ranks, &s.flags_lead);
    int64_t lead = 0;
    s.done = h.comm->signals(env, 1, (int64_t)h.chunks * h.ranks, &lead);
    if (s.done) s.done += lead / 8 * h.me;
    if (!s.local || !s.done || !s.stage || !s.flags) return env->fail(env, NULL, NULL);
    char *stage = (char *)s.stage + s.lead * h.me, *flags = (char *)s.flags + s.flags_lead * h.me;
    void *give[] = {&s.local, &part,   &s.done, &h.control, &h.chunk, &h.chunks,
                    &h.ranks, &h.rows, &h.cols, &h.cols,    &h.seed,  &h.me};
    void *fold[] = {&stage,   &part,   &flags,  &h.bad,  &h.control, &h.chunk, &h.chunks,
                    &h.ranks, &h.rows, &h.cols, &h.cols, &h.seed,    &h.me};
    if (h.how == TG_GATHER_PUSH) status = h.comm->scatter(env, &s);
    if (!status) status = env->dispatch(env, GIVE, h.chunks, give);
    if (!status && h.how != TG_GATHER_PUSH) status = h.comm->scatter(env, &s);
    if (!status) status = env->dispatch(env, FOLD, CTAS, fold);
    return status ? status : h.comm->end(env);
}

static int32_t come_entry(const tg_slot *args, const tg_env *env) {
    (void)args;
    int32_t status = env->comm->begin(env, 1);
    return status ? status : env->comm->end(env);
}

static int32_t reach_entry(const tg_slot *args, const tg_env *env) {
    (void)args;
    int32_t status = env->comm->begin(env, TG_BEGIN_REACHES);
    return status ? status : env->comm->end(env);
}

/* ---- kernels as data ------------------------------------------------------------------------- */

static const tg_device_function functions[] = {
    {"make", THREADS, 1, 0, 6, 0, 0},
    {"take", THREADS, 1, ALL_SHARED, 13, 0, 0}, // no other CTA fits beside it
    {"give", THREADS, 1, 0, 12, 0, 0},
    {"fold", THREADS, 1, ALL_SHARED, 13, 0, 0},
};
static const tg_site site = {0, 4, 5, 2, 0, 0, "k.teg", "rank {}'s chunk {} of 'a'", "dd"};
static const tg_site *const sites[] = {&site};
static tg_image image = {.kind = TG_IMAGE_PTX,
                         .arch = 80,
                         .target = "sm_80",
                         .bytes = text,
                         .size = sizeof text,
                         .functions = functions,
                         .n_functions = COUNT(functions),
                         .sites = sites,
                         .n_sites = COUNT(sites)};
static const uint8_t all[] = {0, 1, 2, 3, 4};
#define SYM(flags)                                                                                 \
    { "a", TG_PARAM_TENSOR, flags, kDLUInt, 32, -1, (flags) ? 3 : 2, -1, 0 }
#define SCALAR(name)                                                                               \
    { name, TG_PARAM_SCALAR, 0, kDLInt, 32, -1, 0, -1, 0 }
static const tg_param_info params[] = {
    SYM(TG_PARAM_SYM), {"bad", TG_PARAM_TENSOR, TG_PARAM_WRITTEN, kDLUInt, 32, -1, 1, -1, 0},
    SCALAR("seed"),    SCALAR("how"),
    SCALAR("chunk"),
};
static const tg_param_info make_params[] = {SYM(0), SCALAR("seed"), SCALAR("rank")};
#define KERNEL(name, list, n)                                                                      \
    static const tg_variant name##_variant = {                                                     \
        .entry = name##_entry, .params = all, .n_params = n, .config = "", .image = &image};       \
    static const tg_kernel_info name##_info = {#name, #name, list, &name##_variant, n, 0, 1, 0};   \
    tg_kernel kernel_##name = {.abi = TG_ABI, .info = &name##_info}
KERNEL(make, make_params, 3);
KERNEL(collect, params, 5);
KERNEL(spread, params, 5);
KERNEL(come, params, 5);
KERNEL(reach, params, 5);
