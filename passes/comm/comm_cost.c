// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Models the time of plans of transfers between ranks, for one launch.
//
// All ranks do the same, one shard after the other. A transfer takes its bytes over the link and a
// little for each chunk. If programs send it, it takes a phase of its own before all others. The
// SMs take a phase's programs in the plan's order: for reads, those of the own shard come first;
// for adds, they come last. A program begins when an SM is free and the transferred data that it
// reads has arrived. So a transfer overlaps with programs only if there are more programs than SMs.
// Phases follow one another. If a barrier precedes a phase and programs do not wait for parts, the
// phase starts with a meeting. Loads and stores of programs over the link hide behind their work: a
// phase takes the longer of the two. The latency of such a load is ignored, as other programs run
// meanwhile. On CPUs the cores do the copies, so transfers overlap with nothing.
#include "passes/comm/comm_cost.h"
#include "passes/model.h"

#include <math.h>
#include <string.h>

enum {
    MOST_SLOTS = 256,
    MOST_CHUNKS = 8, // maximum number to try
};
/* ---- programs on SMs ----------------------------------------------------------------------- */

/// Groups of SMs that become free at the same time.
typedef struct Slots {
    int n;
    struct {
        double count, free;
    } of[MOST_SLOTS];
} Slots;

/// Assigns `programs` programs to free slots, none before `from`. Returns the end of the last one.
/// *begin: the start of the first one.
static double time_programs(Slots *s, double programs, double from, double each, double *begin) {
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

/* ---- arrivals of copies -------------------------------------------------------------------- */

/// The way in which the shards of a tensor arrive: one after the other, or side by side, each chunk
/// by chunk.
typedef struct TransferWay {
    PlanId plan; // PLAN_DIRECT: they are not transferred
    int64_t chunks;
    double from, each; // start of the first chunk; seconds of a chunk
} TransferWay;

typedef struct Lay {
    const CommLaunch *l;
    CommTimeline *t;
    PlanId plan;
    TransferWay way[COMM_TENSORS];
    double now;    // end of the programs so far
    double link;   // end of the copies so far
    double hidden; // seconds of phases, each the longer of programs and link
    double met;    // seconds of meetings
} Lay;

/// Peers that are reached concurrently.
static double parallel_links(const CommLaunch *l) {
    return fmin((double)l->ranks - 1, l->link->peers);
}

/// The rate of all loads or stores of this rank together.
static double link_rate(const CommLaunch *l, double link) {
    return link * (l->beside ? parallel_links(l) : l->units);
}

/// Adds a piece to a row. Returns its end.
static double add_timeline_piece(CommTimeline *t, CommRow *r, double from, double to, int shard) {
    if (r->n < COMM_PIECES) r->pieces[r->n++] = (CommPiece){from, to, shard};
    t->end = fmax(t->end, to);
    return to;
}

/// Returns the time at which chunk c arrives, of the shard that is `shard` ranks away.
static double chunk_arrival(const Lay *y, const TransferWay *w, int64_t shard, int64_t c) {
    double turn = shard ? floor((double)(shard - 1) / parallel_links(y->l)) : 0;
    if (w->plan == PLAN_PUT) return w->from;
    return shard ? w->from + (turn * (double)w->chunks + (double)c + 1) * w->each : 0;
}

static double last_arrival(const Lay *y, const TransferWay *w) {
    return chunk_arrival(y, w, y->l->ranks - 1, w->chunks - 1);
}

static TransferWay way_of(const Lay *y, const CommTensor *t, int64_t chunks) {
    TransferWay w = {.plan = t->reads ? t->by[y->plan] : PLAN_DIRECT, .chunks = 1};
    if (w.plan == PLAN_DIRECT || w.plan == PLAN_PUT) return w;
    if (w.plan != PLAN_BEFORE) w.chunks = chunks ? chunks : comm_chunks((int64_t)t->bytes);
    double speed = y->l->link->copy * (y->l->beside ? 1 : y->l->units);
    w.each = t->bytes / (double)w.chunks / speed + y->l->link->chunk;
    return w;
}

/// Lays out the copies by engines: they begin with the launch, one tensor after another. Cores copy
/// only when programs need the data.
static void begin_copies(Lay *y, int64_t chunks) {
    const CommLink *link = y->l->link;
    for (int i = 0; i < y->l->n_tensors; i++) {
        TransferWay *w = &y->way[i];
        *w = way_of(y, &y->l->tensors[i], chunks);
        if (w->plan == PLAN_DIRECT || w->plan == PLAN_PUT || !y->l->beside) continue;
        w->from = fmax(y->link, link->start + (w->plan == PLAN_PUSH ? 0 : link->meeting));
        for (int64_t s = 1; s < y->l->ranks; s++)
            for (int64_t c = 0; c < w->chunks; c++) {
                double there = chunk_arrival(y, w, s, c);
                add_timeline_piece(y->t, &y->t->link, there - w->each, there, (int)s);
            }
        y->link = last_arrival(y, w);
    }
}

/// Lays out the phases in which programs send shards, one tensor after the other.
static void lay_puts(Lay *y) {
    const CommLaunch *l = y->l;
    int shard = l->ranks == 2 ? 1 : COMM_ALL;
    for (int i = 0; i < l->n_tensors; i++) {
        if (y->way[i].plan != PLAN_PUT) continue;
        double bytes = l->tensors[i].bytes * (double)(l->ranks - 1), begin = y->now;
        double seconds = bytes / link_rate(l, l->link->store) + (l->beside ? COST_GPU_LAUNCH : 0);
        y->now = add_timeline_piece(y->t, &y->t->put, begin, begin + seconds, COMM_ALL);
        y->way[i].from =
            add_timeline_piece(y->t, &y->t->link, begin, y->now + COST_COMM_SEEN, shard);
        y->t->sequence += seconds + COST_COMM_SEEN;
        y->hidden += seconds;
    }
}

/// Whether all ranks must arrive first, because programs access other ranks' shards in place.
static bool waits_for_all(const Lay *y) {
    for (int p = 0; p < y->l->n_phases; p++)
        for (int i = 0; i < y->l->n_tensors; i++) {
            const CommPhase *phase = &y->l->phases[p];
            if (phase->stored[i] > 0) return true;
            if (phase->read[i] > 0 && y->way[i].plan == PLAN_DIRECT) return true;
        }
    return false;
}

/* ---- phases -------------------------------------------------------------------------------- */

/// Seconds of the link for the programs' own loads and stores. Both directions run concurrently.
static double remote_access_seconds(const Lay *y, const CommPhase *p) {
    double read = 0, stored = 0;
    for (int i = 0; i < y->l->n_tensors; i++) {
        bool here = y->plan == PLAN_COPIES && y->l->tensors[i].written; // copied before the phase
        if (y->way[i].plan == PLAN_DIRECT && !here) read += p->read[i];
        stored += p->stored[i];
    }
    return fmax(read / link_rate(y->l, y->l->link->load),
                stored / link_rate(y->l, y->l->link->store));
}

/// Seconds in which the plan `copies` brings written shards before a phase that reads them.
static double copied_before(const Lay *y, const CommPhase *p) {
    double seconds = 0;
    for (int i = 0; i < y->l->n_tensors && y->plan == PLAN_COPIES; i++) {
        const CommTensor *t = &y->l->tensors[i];
        if (p->read[i] <= 0 || !t->written) continue;
        double bytes = t->bytes * (double)(y->l->ranks - 1);
        seconds += bytes / link_rate(y->l, y->l->link->copy) + y->l->link->start;
    }
    return seconds;
}

/// Returns the largest tensor that transfers bring for the phase, or -1.
static int largest_copied_tensor(const Lay *y, const CommPhase *p) {
    int at = -1;
    for (int i = 0; i < y->l->n_tensors; i++)
        if (p->read[i] > 0 && y->way[i].plan != PLAN_DIRECT &&
            (at < 0 || y->l->tensors[i].bytes > y->l->tensors[at].bytes))
            at = i;
    return at;
}

/// Returns the time of the last arrival among the tensors that arrive before the programs start.
static double all_there(const Lay *y, const CommPhase *p) {
    double there = 0;
    for (int i = 0; i < y->l->n_tensors; i++)
        if (p->read[i] > 0 && y->way[i].plan == PLAN_BEFORE)
            there = fmax(there, last_arrival(y, &y->way[i]));
    return there;
}

/// Seconds of one program: those of the phase, divided by the number of programs that an SM runs
/// one after the other. Copy engines take their share of memory bandwidth.
static double program_time(const Lay *y, const CommPhase *p, int main) {
    const CommLaunch *l = y->l;
    bool engines = l->beside && (y->way[main].plan == PLAN_PUSH || y->way[main].plan == PLAN_PULL);
    double bytes = l->tensors[main].bytes * (double)(l->ranks - 1);
    double slower = engines ? COST_COMM_SHARE * bytes / link_rate(l, l->link->copy) : 0;
    return (fmax(p->seconds, remote_access_seconds(y, p)) + slower) /
           fmax(1, ceil(p->programs / l->units));
}

/// Returns the slowdown of the own shard's programs. While other programs on the same SM wait for
/// data, fewer programs hide each other's latencies, so the SM does less work.
static double slowdown_of_waiting(const Lay *y, const CommPhase *p, const TransferWay *w) {
    bool waits = y->l->beside && w->plan != PLAN_PUT && w->plan != PLAN_BEFORE;
    if (!waits || p->held <= 1) return 1;
    double own = p->programs / (double)y->l->ranks / y->l->units;
    double working = fmin(p->held, fmax(1, own));
    return 1 + (COST_COMM_ALONE - 1) * (p->held - working) / (p->held - 1);
}

/// Lays out a copy by cores. They run no programs meanwhile, so the copy overlaps with nothing.
static void copy_by_cores(Lay *y, Slots *s, double seconds, int shard) {
    double least = INFINITY;
    for (int i = 0; i < s->n; i++) {
        least = fmin(least, s->of[i].free);
        s->of[i].free += seconds;
    }
    add_timeline_piece(y->t, &y->t->link, least, least + seconds, shard);
    y->t->sequence += seconds;
    y->hidden += seconds;
}

/// Lays out the copies by cores before a phase, of all tensors that it reads except one. Returns
/// their end.
static double copy_others(Lay *y, const CommPhase *p, double begin, int but) {
    Slots s = {.n = 1, .of = {{y->l->units, begin}}};
    for (int i = 0; i < y->l->n_tensors && !y->l->beside; i++) {
        const TransferWay *w = &y->way[i];
        if (i == but || p->read[i] <= 0 || w->plan == PLAN_DIRECT || w->plan == PLAN_PUT) continue;
        double copies = (double)(w->chunks * (y->l->ranks - 1));
        copy_by_cores(y, &s, w->each * copies, y->l->ranks == 2 ? 1 : COMM_ALL);
    }
    return s.of[0].free;
}

/// Lays out programs that start as the chunks of their shard arrive. Programs that do not know at
/// their start which part they read wait for all chunks.
static void lay_brought(Lay *y, const CommPhase *p, CommRow *row, double begin, int main) {
    const TransferWay *w = &y->way[main];
    bool whole = w->plan == PLAN_BEFORE && y->l->tensors[main].whole, beside = y->l->beside;
    int64_t shards = whole ? 1 : y->l->ranks;
    double programs = p->programs / (double)(shards * w->chunks), first;
    double one = program_time(y, p, main);
    double from = fmax(begin, beside ? all_there(y, p) : 0);
    Slots slots = {.n = 1, .of = {{y->l->units, begin}}};
    for (int64_t s = 1; s < y->l->ranks && !beside && w->plan == PLAN_BEFORE; s++)
        copy_by_cores(y, &slots, w->each, (int)s);
    for (int64_t s = 0; s < shards; s++)
        for (int64_t c = 0; c < w->chunks; c++) {
            bool chunk = s && w->plan != PLAN_BEFORE, put = w->plan == PLAN_PUT;
            if (chunk && !beside && !put) copy_by_cores(y, &slots, w->each, (int)s);
            double there = chunk && (beside || put) ? fmax(from, chunk_arrival(y, w, s, c)) : from;
            double each = s ? one : one * slowdown_of_waiting(y, p, w);
            y->now = time_programs(&slots, programs, there, each, &first);
            add_timeline_piece(y->t, row, first, y->now, whole ? COMM_ALL : (int)s);
        }
    for (int i = 0; i < slots.n; i++) y->now = fmax(y->now, slots.of[i].free);
}

static void lay_direct(Lay *y, const CommPhase *p, CommRow *row, double begin) {
    double link = remote_access_seconds(y, p);
    int shard = y->l->ranks == 2 ? 1 : COMM_ALL;
    if (link > 0) add_timeline_piece(y->t, &y->t->link, begin, begin + link, shard);
    y->now = add_timeline_piece(y->t, row, begin, begin + fmax(p->seconds, link), COMM_ALL);
}

/* ---- adds ---------------------------------------------------------------------------------- */

/// Bytes of a part, over all tensors that a phase adds to, or the bytes that atomics move instead.
static double added_bytes(const CommLaunch *l, const CommPhase *p, bool atomics) {
    double bytes = 0;
    for (int i = 0; i < l->n_tensors; i++)
        bytes += p->added[i] * (atomics ? l->tensors[i].growth : 1);
    return bytes;
}

/// Lays out the phase in which the owner clears its shard, and the meeting after it.
static double time_clear(Lay *y, const CommPhase *p, double begin) {
    double seconds = added_bytes(y->l, p, false) / y->l->bandwidth + COST_GPU_LAUNCH;
    y->met += y->l->link->meeting;
    y->t->sequence += seconds;
    y->hidden += seconds;
    return add_timeline_piece(y->t, &y->t->clear, begin, begin + seconds, 0) + y->l->link->meeting;
}

static void time_fold(Lay *y, const CommPhase *p, double begin) {
    double bytes = added_bytes(y->l, p, false);
    double seconds = bytes * (double)(y->l->ranks + 1) / y->l->bandwidth + COST_GPU_LAUNCH;
    y->t->sequence += seconds;
    y->hidden += seconds;
    y->now = add_timeline_piece(y->t, &y->t->fold, begin, begin + seconds, 0);
}

/// Whether copy engines send the contributions to one rank while the phase works for the next.
static bool pushes_parts(const Lay *y, const CommPhase *p) {
    bool all = y->plan == PLAN_PUSH;
    for (int i = 0; i < y->l->n_tensors; i++) all &= p->added[i] <= 0 || y->l->tensors[i].pushes;
    return all;
}

/// Seconds of the programs that contribute to one rank. Stores over the link delay them.
static double made_for_one(const Lay *y, const CommPhase *p, bool pushed, double held) {
    double reach = remote_access_seconds(y, p), ranks = (double)y->l->ranks;
    return pushed ? fmax(p->apart, reach / ranks) : fmax(p->seconds, reach) / ranks + held;
}

/// Lays out a phase that contributes. Programs for other ranks come first. Their data is sent while
/// the phase runs, or at its end. Then the owner folds.
static void lay_adds(Lay *y, const CommPhase *p, CommRow *row, double begin) {
    const CommLaunch *l = y->l;
    bool sums = y->plan == PLAN_ADD && added_bytes(l, p, true) > 0;
    bool before = y->plan == PLAN_BEFORE || y->plan == PLAN_COPIES, pushed = pushes_parts(y, p);
    bool copies = before || pushed;
    if (sums) begin = time_clear(y, p, begin);
    double bytes = added_bytes(l, p, sums), work = fmax(p->seconds, remote_access_seconds(y, p));
    double each = bytes / link_rate(l, copies ? l->link->copy : l->link->store);
    double link = begin, now = begin, held = copies || l->ranks < 2 ? 0 : COST_COMM_HELD * each;
    double made = made_for_one(y, p, pushed, held * (double)(l->ranks - 1) / (double)l->ranks);
    if (copies) each += l->link->chunk;
    for (int64_t i = 1; i <= l->ranks; i++) {
        int shard = (int)(i % l->ranks);
        double began = now;
        now = add_timeline_piece(y->t, row, began, began + made, shard);
        double from = fmax(link, pushed ? now + l->link->start : began);
        if (shard && !before)
            link = add_timeline_piece(y->t, &y->t->link, from, fmax(from + each, now), shard);
    }
    for (int64_t i = 1; i < l->ranks && before; i++) {
        double from = fmax(link, now + l->link->start);
        link = add_timeline_piece(y->t, &y->t->link, from, from + each, (int)i);
    }
    double moved = each * (double)(l->ranks - 1);
    y->t->sequence += moved;
    y->hidden += fmax(0, moved - work);
    y->now = fmax(now, link);
    if (!sums) time_fold(y, p, y->now);
}

/* ---- the launch ---------------------------------------------------------------------------- */

/// Whether ranks meet before the phase. They do not if programs can wait for parts and the plan
/// transfers data beside the programs.
static bool meets_before_phase(const Lay *y, const CommPhase *p) {
    bool parts = y->plan != PLAN_BEFORE && y->plan != PLAN_COPIES && y->plan != PLAN_ADD;
    return p->meets && !(p->parts && parts);
}

static void lay_phase(Lay *y, int at) {
    const CommPhase *p = &y->l->phases[at];
    CommRow *row = &y->t->programs[at];
    double begin = y->now, copies = copied_before(y, p);
    int main = largest_copied_tensor(y, p);
    bool adds = false;
    for (int i = 0; i < y->l->n_tensors; i++) adds |= p->added[i] > 0;
    if (meets_before_phase(y, p)) {
        begin += y->l->link->meeting;
        y->met += y->l->link->meeting;
    }
    if (copies > 0) add_timeline_piece(y->t, &y->t->link, begin, begin + copies, COMM_ALL);
    begin = copy_others(y, p, begin + copies, adds ? -1 : main);
    y->hidden += copies + fmax(p->seconds, remote_access_seconds(y, p));
    y->t->sequence += copies + p->seconds + remote_access_seconds(y, p);
    if (adds && main >= 0 && y->l->beside) begin = fmax(begin, last_arrival(y, &y->way[main]));
    if (adds)
        lay_adds(y, p, row, begin);
    else if (main >= 0)
        lay_brought(y, p, row, begin, main);
    else
        lay_direct(y, p, row, begin);
}

void comm_lay(CommTimeline *t, const CommLaunch *l, PlanId plan, int64_t chunks) {
    Lay y = {.l = l, .t = t, .plan = plan};
    *t = (CommTimeline){0};
    begin_copies(&y, chunks);
    t->sequence = y.link;
    if (waits_for_all(&y)) y.now = y.met = l->link->meeting;
    lay_puts(&y);
    for (int p = 0; p < l->n_phases; p++) lay_phase(&y, p);
    t->sequence += y.met;
    t->best = fmax(y.link, y.met + y.hidden);
}

/* ---- prices -------------------------------------------------------------------------------- */

static double price_plan(const CommLaunch *l, PlanId plan, int chunks) {
    CommTimeline t;
    comm_lay(&t, l, plan, chunks);
    return t.end;
}

static bool in_pieces(const CommLaunch *l, PlanId plan) {
    for (int i = 0; i < l->n_tensors; i++) {
        const CommTensor *t = &l->tensors[i];
        if (t->reads && (t->by[plan] == PLAN_PUSH || t->by[plan] == PLAN_PULL)) return true;
    }
    return false;
}

static CommPrice cheapest_chunks(const CommLaunch *l, PlanId plan, int chunks) {
    bool pieces = in_pieces(l, plan);
    CommPrice best = {plan, pieces ? 1 : 0, price_plan(l, plan, 1), NULL};
    if (pieces && chunks) return (CommPrice){plan, chunks, price_plan(l, plan, chunks), NULL};
    for (int k = 2; k <= MOST_CHUNKS && pieces; k *= 2) {
        double seconds = price_plan(l, plan, k);
        if (seconds * COST_COMM_NEAR < best.seconds) best = (CommPrice){plan, k, seconds, NULL};
    }
    return best;
}

static bool is_before(PlanId plan) {
    return plan == PLAN_BEFORE || plan == PLAN_COPIES;
}

/// Whether both plans treat all tensors alike.
static bool are_same(const CommLaunch *l, PlanId a, PlanId b) {
    for (int i = 0; i < l->n_tensors; i++) {
        const CommTensor *t = &l->tensors[i];
        if (t->reads && t->by[a] != t->by[b]) return false;
        if (t->adds && is_before(a) != is_before(b)) return false;
        if (t->adds && t->pushes && (a == PLAN_PUSH) != (b == PLAN_PUSH)) return false;
    }
    return true;
}

/// Prices the plan `add`: programs add to other ranks' memory in place, in any order. If it has no
/// price, *out holds the reason. Returns the number of prices, 0 or 1.
static int price_sums(const CommLaunch *l, CommPrice *out) {
    const char *why = NULL;
    bool sums = false;
    for (int i = 0; i < l->n_tensors; i++) {
        const CommTensor *t = &l->tensors[i];
        sums |= t->adds && (t->growth > 0 || t->no_sums);
        if (t->adds && t->no_sums) why = t->no_sums;
    }
    if (!sums) return 0;
    *out = (CommPrice){PLAN_ADD, 0, why ? INFINITY : price_plan(l, PLAN_ADD, 0), why};
    return 1;
}

int comm_prices(const CommLaunch *l, int plan, int chunks, CommPrice out[COMM_PRICES]) {
    static const PlanId order[] = {PLAN_DIRECT, PLAN_BEFORE, PLAN_PUT, PLAN_PUSH, PLAN_PULL};
    int n = 0;
    if (l->why) return 0;
    if (plan == PLAN_ADD) return price_sums(l, out);
    if (plan) {
        out[0] = cheapest_chunks(l, (PlanId)plan, chunks);
        return 1;
    }
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        bool same = false;
        for (int k = 0; k < n; k++) same |= are_same(l, out[k].plan, order[i]);
        if (!same) out[n++] = cheapest_chunks(l, order[i], chunks);
    }
    return n + price_sums(l, &out[n]);
}

const CommPrice *comm_best(const CommPrice *prices, int n) {
    double least = INFINITY;
    for (int i = 0; i < n; i++)
        if (n == 1 || prices[i].plan != PLAN_ADD) least = fmin(least, prices[i].seconds);
    for (int i = 0; i < n; i++)
        if (prices[i].seconds <= least * COST_COMM_NEAR && (n == 1 || prices[i].plan != PLAN_ADD))
            return &prices[i];
    return NULL;
}
