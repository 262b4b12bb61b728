// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversion from one distributed layout A to another, B.
//
// Place (r, t) of B takes a place (s, u) of A with A(s, u) = B(r, t). Within a warp this takes as
// many rounds as B has registers. In round n thread t receives its register n ^ F t, from lane N n
// + M t, where it is register s. A lane can send one register in a round, so all lanes that read
// from it must want the same one: M must be one-to-one, except for lanes that want the same
// element. Then s depends on the sending lane, s = S n + G u, and `before` rearranges registers
// accordingly.
//
// The freedom for each lane bit t is the kernel of [B_reg A_reg A_lane]: F t, s and M t change
// together. The identity (nothing moves) is taken if possible, then any choice that keeps M
// one-to-one. If neither exists, each round is done twice, for lanes with t = 0 and with t = 1.
// Between warps, elements go through shared memory.
#include "ir/layout/layout.h"

#include <string.h>

/* ---- within a warp --------------------------------------------------------------------------- */

/// The route of one thread bit: registers F t and s, lanes M t.
typedef struct Route {
    Bits place, reg, lane;
} Route;

typedef struct LaneExchange {
    const Layout *a, *b;
    int n_a, n_b, lanes, threads; // bits
    F2 all;                       // [B_reg A_reg A_lane]
    F2 kernel;
    Route route[LAYOUT_MAX_BITS]; // of each thread bit
    F2Span taken;                 // the lanes M t chosen so far, for the lane bits t
    int n_extra;
    ConvertSwap extra[LAYOUT_MAX_BITS];
} LaneExchange;

static Bits thread_column(const Layout *l, int j) {
    return l->col[l->bits[LEVEL_REG] + j];
}

static Route split_route(const LaneExchange *x, Bits sum) {
    return (Route){sum & low_bits(x->n_b), sum >> x->n_b & low_bits(x->n_a),
                   sum >> (x->n_b + x->n_a)};
}

static Route add_route(Route r, Route s) {
    return (Route){r.place ^ s.place, r.reg ^ s.reg, r.lane ^ s.lane};
}

/// Tries the route within the lane, perhaps to another register.
static bool route_stays(LaneExchange *x, int j) {
    F2 registers = x->all;
    Bits sum, own = j < x->lanes ? bit(j) : 0;
    registers.n = x->n_b + x->n_a;
    if (!f2_solve(&registers, thread_column(x->a, j) ^ thread_column(x->b, j), &sum)) return false;
    x->route[j] = split_route(x, sum);
    x->route[j].lane = own;
    f2_add(&x->taken, own, own);
    return true;
}

/// Tries a copy: lane bit j wants the element of lane 0.
static bool route_copy(LaneExchange *x, int j) {
    F2 registers = x->all;
    Bits sum;
    registers.n = x->n_b;
    if (!f2_solve(&registers, thread_column(x->b, j), &sum)) return false;
    x->route[j] = split_route(x, sum);
    return true;
}

/// Takes M t = M c for a sum c of other lane bits: the bit reads from the same lane as c, and lanes
/// with the bit set receive another register in a second round.
static void route_twice(LaneExchange *x, int j, Route r) {
    Bits c;
    Route sum = {0};
    f2_reduce(&x->taken, r.lane, &c);
    for (; c; c &= c - 1) sum = add_route(sum, x->route[__builtin_ctzll(c)]);
    if (r.reg != sum.reg) x->extra[x->n_extra++] = (ConvertSwap){bit(j), r.reg ^ sum.reg};
    r.reg = sum.reg;
    x->route[j] = r;
}

/// Tries any lane that no other lane reads from.
static bool route_anywhere(LaneExchange *x, int j) {
    Bits sum;
    if (!f2_solve(&x->all, thread_column(x->b, j), &sum)) return false;
    Route r = split_route(x, sum);
    for (int i = 0; i <= x->kernel.n; i++) {
        x->route[j] = i ? add_route(r, split_route(x, x->kernel.col[i - 1])) : r;
        if (f2_add(&x->taken, x->route[j].lane, bit(j))) return true;
    }
    route_twice(x, j, r);
    return true;
}

/// Routes a warp or CTA bit: warp and CTA stay, and the lane may change along with them.
static bool route_warp(LaneExchange *x, int j) {
    Bits sum;
    if (!f2_solve(&x->all, thread_column(x->a, j) ^ thread_column(x->b, j), &sum)) return false;
    x->route[j] = split_route(x, sum);
    return true;
}

static bool find_routes(LaneExchange *x) {
    bool open[LAYOUT_MAX_BITS];
    for (int j = 0; j < x->lanes; j++) open[j] = !route_stays(x, j) && !route_copy(x, j);
    for (int j = 0; j < x->lanes; j++)
        if (open[j] && !route_anywhere(x, j)) return false;
    for (int j = x->lanes; j < x->threads; j++)
        if (!route_stays(x, j) && !route_warp(x, j)) return false;
    return true;
}

/// Turns a linear map from threads to registers into swaps: one for each dimension of its image.
static int make_swaps(const F2 *m, ConvertSwap *swaps) {
    F2Span s = {0};
    int n = 0;
    for (int j = 0; j < m->n; j++)
        if (f2_add(&s, m->col[j], bit(n))) swaps[n++] = (ConvertSwap){0, m->col[j]};
    for (int j = 0; j < m->n; j++) {
        Bits used;
        f2_reduce(&s, m->col[j], &used);
        for (int i = 0; i < n; i++) swaps[i].mask |= (used >> i & 1) << j;
    }
    return n;
}

/// Returns G with G (M t) = s of t on lanes, and 0 on lanes that no lane reads from.
static F2 sender_map(const LaneExchange *x) {
    F2Span s = {0};
    F2 g = {.n = x->threads}, reg = {0};
    for (int j = 0; j < x->lanes; j++)
        if (f2_add(&s, x->route[j].lane, bit(reg.n))) reg.col[reg.n++] = x->route[j].reg;
    for (int j = 0; j < x->lanes; j++)
        if (f2_add(&s, bit(j), bit(reg.n))) reg.col[reg.n++] = 0;
    for (int j = 0; j < x->lanes; j++) {
        Bits used;
        f2_reduce(&s, bit(j), &used);
        g.col[j] = f2_apply(&reg, used);
    }
    return g;
}

bool convert_stays(const Conversion *c, const Layout *to, int64_t round) {
    bool stays = f2_apply(&c->from_round, (Bits)round) == 0;
    for (int j = 0; j < c->from_thread.n; j++)
        stays &= c->from_thread.col[j] == (j < to->bits[LEVEL_LANE] ? bit(j) : 0);
    return stays;
}

// Issue slots of a warp. A shuffle has a quarter of the rate of arithmetic, a line of shared memory
// an eighth; a barrier waits.
enum { SELECT_COST = 1, SHUFFLE_COST = 4 };
static const int barrier_cost[N_LEVELS] = {0, 30, 60, 400};

static void exchange_cost(Conversion *c, const LaneExchange *x, int elem_bits) {
    int64_t rounds = 0, repeats = layout_repeats(x->b);
    int most = 0, packed = 0;
    for (int64_t n = 0; n < (int64_t)1 << c->round_bits; n++) rounds += !convert_stays(c, x->b, n);
    while (elem_bits << most < 32) most++;
    for (int j = 0; j < c->round_bits && packed < most; j++)
        if (!c->from_round.col[j]) {
            c->pack |= bit(j);
            packed++;
        }
    c->shuffles = rounds ? repeats * ((rounds + bit(packed) - 1) >> packed) << c->n_extra : 0;
    if (elem_bits > 32) c->shuffles *= elem_bits / 32;
    bool moves = c->n_before || c->n_after;
    c->kind = c->shuffles ? CONVERT_SHUFFLE : moves ? CONVERT_SELECT : CONVERT_RENAME;
    c->scope = c->shuffles ? LEVEL_LANE : LEVEL_REG;
    int64_t selects = ((int64_t)c->n_before << x->n_a) + ((int64_t)c->n_after << x->n_b);
    if (c->n_extra) selects += (int64_t)1 << (x->n_b + c->n_extra);
    c->cost = (double)(c->shuffles * SHUFFLE_COST + repeats * selects * SELECT_COST);
}

bool layout_convert_near(const Layout *a, const Layout *b, int elem_bits, Conversion *c) {
    if (!layout_same_box(a, b)) return false;
    for (int level = LEVEL_LANE; level < N_LEVELS; level++)
        if (a->bits[level] != b->bits[level]) return false;
    LaneExchange x = {.a = a, .b = b, .n_a = a->bits[LEVEL_REG], .n_b = b->bits[LEVEL_REG]};
    x.lanes = a->bits[LEVEL_LANE];
    x.threads = layout_thread_bits(a);
    F2 a_reg = layout_level(a, LEVEL_REG), a_lane = layout_level(a, LEVEL_LANE);
    F2 own = f2_join(&a_reg, &a_lane, 0);
    x.all = layout_level(b, LEVEL_REG);
    x.all = f2_join(&x.all, &own, 0);
    x.kernel = f2_kernel(&x.all);
    if (!find_routes(&x)) return false;
    *c = (Conversion){.round_bits = x.n_b};
    F2 g = sender_map(&x), place = {.n = x.threads};
    c->send.n = c->from_round.n = x.n_b;
    c->from_thread.n = x.threads;
    for (int j = 0; j < x.n_b; j++) {
        Bits sum;
        if (!f2_solve(&own, b->col[j], &sum)) return false;
        c->from_round.col[j] = sum >> x.n_a;
        c->send.col[j] = (sum & low_bits(x.n_a)) ^ f2_apply(&g, c->from_round.col[j]);
    }
    for (int j = 0; j < x.threads; j++) {
        c->from_thread.col[j] = x.route[j].lane;
        place.col[j] = x.route[j].place;
        if (j >= x.lanes) g.col[j] = x.route[j].reg ^ f2_apply(&g, x.route[j].lane);
    }
    c->n_before = make_swaps(&g, c->before);
    c->n_after = make_swaps(&place, c->after);
    c->n_extra = x.n_extra;
    memcpy(c->extra, x.extra, sizeof c->extra);
    exchange_cost(c, &x, elem_bits);
    return true;
}

/* ---- through shared memory ------------------------------------------------------------------- */

/// Whether every place of b finds its element in a without crossing a level above `level`.
static bool found_within(const Layout *a, const Layout *b, LayoutLevel level) {
    int first = a->bits[LEVEL_REG], inside = layout_first(a, (LayoutLevel)(level + 1));
    F2 m = layout_f2(a);
    m.n = inside;
    F2Span s = f2_span(&m);
    if (layout_owner(a) >> (inside - first)) return false; // copies outside do not write
    for (int at = 0; at < N_LEVELS; at++) {
        F2 own = layout_level(a, (LayoutLevel)at), wanted = layout_level(b, (LayoutLevel)at);
        if (at > (int)level && own.n != wanted.n) return false;
        for (int j = 0; j < wanted.n; j++)
            if (!f2_contains(&s, (at > (int)level ? own.col[j] : 0) ^ wanted.col[j])) return false;
    }
    return true;
}

static LayoutLevel crossed_level(const Layout *a, const Layout *b) {
    int level = LEVEL_REG;
    while (level < LEVEL_CTA && !found_within(a, b, (LayoutLevel)level)) level++;
    return (LayoutLevel)level;
}

static void finish_shared(Conversion *c, const Layout *from, const Layout *to) {
    shared_access(from, &c->shared, 16, &c->write);
    shared_access(to, &c->shared, 16, &c->read);
    c->write_conflicts = shared_conflicts(from, &c->shared, &c->write, BANKS_IN_ORDER, false);
    c->read_conflicts = shared_conflicts(to, &c->shared, &c->read, BANKS_IN_ORDER, true);
    c->owner = layout_owner(from);
    c->cost = shared_cost(from, &c->shared, &c->write, BANKS_IN_ORDER, false) +
              shared_cost(to, &c->shared, &c->read, BANKS_IN_ORDER, true) + barrier_cost[c->scope];
}

/// Converts by coordinates, through rows with the padding of the fewest conflicts.
static Conversion convert_address(const Layout *from, const Layout *to, int elem_bytes) {
    Conversion best = {.cost = 0};
    for (int pad = 0; pad <= 16; pad = pad ? pad * 2 : elem_bytes > 4 ? elem_bytes : 4) {
        Conversion c = {.kind = CONVERT_ADDRESS, .scope = LEVEL_WARP};
        if (from->bits[LEVEL_CTA]) c.scope = LEVEL_CTA;
        c.shared = shared_plain(elem_bytes, from->rank, from->extents, pad);
        finish_shared(&c, from, to);
        if (!best.cost || c.cost < best.cost) best = c;
    }
    return best;
}

Conversion layout_convert_shared(const Layout *from, const Layout *to, int elem_bits) {
    int bytes = elem_bits < 8 ? 1 : elem_bits / 8;
    if (!layout_same_box(from, to)) return convert_address(from, to, bytes);
    Conversion c = {.kind = CONVERT_SHARED, .scope = crossed_level(from, to)};
    if (c.scope == LEVEL_REG) c.scope = LEVEL_LANE;
    c.shared = shared_between(from, to, bytes, BANKS_IN_ORDER, false);
    finish_shared(&c, from, to);
    return c;
}

Conversion layout_convert(const Layout *from, const Layout *to, int elem_bits) {
    Conversion near;
    if (from == to) return (Conversion){.kind = CONVERT_NONE};
    Conversion far = layout_convert_shared(from, to, elem_bits);
    if (!layout_convert_near(from, to, elem_bits, &near)) return far;
    return near.cost <= far.cost ? near : far;
}
