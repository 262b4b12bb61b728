// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What plans of transfers between ranks are expected to take: a model of one launch.
//
// All ranks do the same, one after the other shard. A transfer takes its bytes over the link and a
// little for each chunk. Programs are dealt to the SMs in the plan's order, the own shard's first
// (reads) or last (adds); those that read what comes begin when it is there, each SM when it is
// free. So a transfer hides behind programs only where there are more of them than SMs.
#include "passes/comm_cost.h"

#include "passes/comm.h"

#include <math.h>
#include <string.h>

enum {
    MOST_SLOTS = 256,
    MOST_CHUNKS = 8, // that are tried
};
#define PHASE 3e-6 // seconds to start and end the phase that folds
#define NEAR  1.03 // as quick, as far as the model knows

static const CommLink links[] = {
#define LINK(name, copy, store, load, start, chunk, meeting)                                       \
    {name, copy * 1e9, store * 1e9, load * 1e9, start * 1e-6, chunk * 1e-6, meeting * 1e-6},
#include "passes/gpu/links.def"
};

const CommLink *comm_link(const GpuTarget *gpu) {
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (strcmp(links[i].target, gpu->name) == 0) return &links[i];
    return NULL;
}

/* ---- programs on SMs ----------------------------------------------------------------------- */

/// SMs that are free from the same time on.
typedef struct Slots {
    int n;
    struct {
        double count, free;
    } of[MOST_SLOTS];
} Slots;

/// When the last of so many programs ends, none of which begins before `from`; *begin: the first
/// one's start.
static double run_programs(Slots *s, double programs, double from, double each, double *begin) {
    double end = from;
    *begin = INFINITY;
    while (programs > 0) {
        int at = 0;
        for (int i = 1; i < s->n; i++)
            if (s->of[i].free < s->of[at].free) at = i;
        double now = fmax(s->of[at].free, from), count = s->of[at].count;
        if (programs < count && s->n < MOST_SLOTS) {
            s->of[s->n].count = count - programs;
            s->of[s->n++].free = s->of[at].free;
            s->of[at].count = programs;
        }
        programs -= count;
        s->of[at].free = now + each;
        *begin = fmin(*begin, now);
        end = fmax(end, now + each);
    }
    return end;
}

/* ---- the timeline -------------------------------------------------------------------------- */

/// When it ends.
static double add_piece(CommTimeline *t, CommRow *r, double from, double to, int shard) {
    if (r->n < COMM_PIECES) r->pieces[r->n++] = (CommPiece){from, to, shard};
    t->end = fmax(t->end, to);
    return to;
}

/// Seconds of one program: what the phase takes, over the rounds that its programs need.
static double program_time(const CommWork *w) {
    return w->seconds / fmax(1, ceil(w->programs / w->gpu->sms));
}

static void lay_reads_direct(CommTimeline *t, const CommWork *w) {
    double begin = w->link->meeting, read = w->loaded / w->link->load;
    t->moved = read;
    add_piece(t, &t->link, begin, begin + read, 1);
    add_piece(t, &t->programs, begin, begin + fmax(w->seconds, read), 0);
}

/// Shards come, or their chunks; programs of a shard follow its chunks.
static void lay_reads(CommTimeline *t, const CommWork *w, PlanId plan, int64_t chunks) {
    bool before = plan == PLAN_BEFORE || w->whole;
    if (before) chunks = 1;
    double each = w->bytes / (double)chunks / w->link->copy + w->link->chunk;
    double link = w->link->start + (plan == PLAN_PUSH && !w->whole ? 0 : w->link->meeting);
    double all = link + each * (double)(chunks * (w->ranks - 1));
    double programs = w->programs / (double)(w->ranks * chunks), one = program_time(w), begin;
    Slots slots = {.n = 1};
    slots.of[0].count = w->gpu->sms;
    t->moved = all;
    for (int64_t shard = 0; shard < w->ranks; shard++)
        for (int64_t c = 0; c < chunks; c++) {
            double there = before ? all : 0;
            if (shard) link = add_piece(t, &t->link, link, link + each, (int)shard);
            if (shard && !before) there = link;
            double end = run_programs(&slots, programs, there, one, &begin);
            add_piece(t, &t->programs, begin, end, (int)shard);
        }
}

/// What is for other ranks is made first, and sent while it is, or at the end; then all is folded.
static void lay_adds(CommTimeline *t, const CommWork *w, PlanId plan) {
    bool before = plan == PLAN_BEFORE;
    double each = before ? w->bytes / w->link->copy + w->link->chunk : w->bytes / w->link->store;
    double work = w->seconds / (double)w->ranks, link = 0, now = 0;
    t->moved = each * (double)(w->ranks - 1);
    for (int64_t i = 1; i <= w->ranks; i++) {
        int shard = (int)(i % w->ranks);
        double began = now, from = fmax(link, began);
        now = add_piece(t, &t->programs, began, began + work, shard);
        if (shard && !before) link = add_piece(t, &t->link, from, fmax(from + each, now), shard);
    }
    for (int64_t i = 1; i < w->ranks && before; i++) {
        double from = fmax(link, now + w->link->start);
        link = add_piece(t, &t->link, from, from + each, (int)i);
    }
    double fold = w->bytes * (double)(w->ranks + 1) / w->gpu->bandwidth + PHASE;
    t->worked += fold;
    add_piece(t, &t->fold, fmax(now, link), fmax(now, link) + fold, 0);
}

void comm_lay(CommTimeline *t, const CommWork *w, PlanId plan, int64_t chunks) {
    *t = (CommTimeline){.worked = w->seconds};
    if (!chunks) chunks = comm_chunks((int64_t)w->bytes);
    if (w->adds)
        lay_adds(t, w, plan);
    else if (plan == PLAN_DIRECT)
        lay_reads_direct(t, w);
    else
        lay_reads(t, w, plan, chunks);
}

/* ---- what a kernel does -------------------------------------------------------------------- */

typedef struct Find {
    const CostDims *dims;
    Value *tensor;
    bool adds;
} Find;

static int64_t extent_of(const CostDims *dims, const Value *tensor, int axis) {
    int64_t extent = tensor->type->extents[axis];
    return extent == DYNAMIC ? dims->dim_of(dims->user, tensor->index, axis) : extent;
}

/// Bytes that programs load of the tensor where it may be another rank's.
static double loaded_bytes(const Find *f, const Region *r) {
    double sum = 0;
    for_each_op(op, r) {
        double inner = 0;
        for (int i = 0; i < op->n_regions; i++) inner += loaded_bytes(f, op->regions[i]);
        if (inner > 0)
            sum += inner * (op->code == OP_FOR || op->code == OP_PARALLEL || op->code == OP_CONTRACT
                                ? cost_trips(f->dims, op)
                                : 1);
        if (op->code != OP_LOAD || operand(op, 0) != f->tensor || cost_is_dead(op)) continue;
        Access a = access_of(op);
        bool own = a.subs[0].kind == DIM_AT && comm_is_own(sub_operand(op, &a, 0, 0));
        if (!own) sum += cost_bytes(result(op, 0)->type);
    }
    return sum;
}

static void find_adds(Op *op, void *arg) {
    Find *f = arg;
    if (op->code != OP_COMBINE || !comm_is_add(op)) return;
    for (int i = 0; i < (int)op_int(op, "n", 1); i++) f->adds |= operand(op, i) == f->tensor;
}

/// False where the tensor is not moved by plans, or extents are not known.
static bool work_of(Comm *c, Find *f, CommWork *w) {
    CommReads reads = {.tensor = f->tensor};
    const Type *t = f->tensor->type;
    w->ranks = extent_of(f->dims, f->tensor, 0);
    w->bytes = elem_info[t->elem].bits / 8.0;
    if (w->ranks < 2) return false;
    for (int d = 1; d < t->rank; d++) w->bytes *= (double)extent_of(f->dims, f->tensor, d);
    if (w->bytes <= 0) return false;
    f->adds = false;
    op_walk_pre(c->kernel, find_adds, f);
    w->adds = f->adds;
    if (w->adds) return true;
    comm_find_reads(c, &reads);
    if (!reads.remote || reads.against) return false;
    w->whole = reads.chunked != NULL;
    w->loaded = loaded_bytes(f, c->kernel->regions[0]) * (double)(w->ranks - 1) / (double)w->ranks;
    return true;
}

int comm_works(Ir *ir, Op *kernel, const GpuTarget *gpu, const CostDims *dims, double seconds,
               CommWork out[COMM_TENSORS]) {
    const Attr *sym = op_attr(kernel, "sym");
    const CommLink *link = comm_link(gpu);
    Comm c = {.ir = ir, .ctx = ir_ctx(ir), .kernel = kernel};
    int n = 0;
    if (!sym || !link || seconds <= 0) return 0;
    double programs = cost_grid(kernel, dims->dim_of, dims->user).programs;
    if (!isfinite(programs)) return 0;
    for (int i = 0; i < sym->n && n < COMM_TENSORS; i++) {
        Find f = {.dims = dims, .tensor = kernel->regions[0]->args[sym->ints[i]]};
        out[n] = (CommWork){.argument = f.tensor->index,
                            .gpu = gpu,
                            .link = link,
                            .seconds = seconds,
                            .programs = programs};
        n += work_of(&c, &f, &out[n]);
    }
    return n;
}

/* ---- prices -------------------------------------------------------------------------------- */

/// Of all tensors: what each one's transfers add to the launch.
static double price(const CommWork *works, int n, PlanId plan, int chunks) {
    double sum = works[0].seconds;
    CommTimeline t;
    for (int i = 0; i < n; i++) {
        comm_lay(&t, &works[i], plan, chunks);
        sum += t.end - works[i].seconds;
    }
    return sum;
}

static CommPrice cheapest(const CommWork *works, int n, PlanId plan, int chunks) {
    bool pieces = plan == PLAN_PUSH || plan == PLAN_PULL;
    CommPrice best = {plan, pieces ? 1 : 0, price(works, n, plan, 1)};
    if (pieces && chunks) return (CommPrice){plan, chunks, price(works, n, plan, chunks)};
    for (int k = 2; k <= MOST_CHUNKS && pieces; k *= 2) {
        double seconds = price(works, n, plan, k);
        if (seconds * NEAR < best.seconds) best = (CommPrice){plan, k, seconds};
    }
    return best;
}

int comm_prices(const CommWork *works, int n, int plan, int chunks, CommPrice out[COMM_PRICES]) {
    static const PlanId order[] = {PLAN_DIRECT, PLAN_BEFORE, PLAN_PUSH, PLAN_PULL};
    int n_prices = 0;
    bool reads = false;
    for (int i = 0; i < n; i++) reads |= !works[i].adds;
    for (size_t i = 0; i < sizeof order / sizeof *order && n; i++) {
        bool same = !reads && order[i] != PLAN_DIRECT && order[i] != PLAN_BEFORE;
        if (plan ? (int)order[i] == plan : !same)
            out[n_prices++] = cheapest(works, n, order[i], chunks);
    }
    return n_prices;
}

const CommPrice *comm_best(const CommPrice *prices, int n) {
    double least = INFINITY;
    for (int i = 0; i < n; i++) least = fmin(least, prices[i].seconds);
    for (int i = 0; i < n; i++)
        if (prices[i].seconds <= least * NEAR) return &prices[i];
    return NULL;
}
