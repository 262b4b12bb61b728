// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Proves that roles do not deadlock: all of them reach their ends, at whatever speed each runs.
//
// A role passes an acquire when all readers have released the previous item of the slot, and a wait
// when the item has been committed. Only one role fills a ring, and no role tests for an item
// without waiting for it. So the order in which roles run does not change where they stop, and one
// run, in which each role goes as far as it can, proves the result for all orders. A wait that
// no role serves stops the run.
//
// Unknown bounds are assumed to give a few iterations. The bounds of all roles are the same
// scalars, or computed from them. The numbers of one role hold for the others, too, and a bound
// that they do not share is an error. The pass tries no, one, two and three iterations, and enough
// to reuse all slots; more iterations repeat these. It tries tiles of equal numbers of iterations
// and tiles of different ones. Each time, roles must fill and read the same items.
#include "passes/gpu/sync_roles.h"
#include "passes/gpu/gpu.h"

#include "passes/util.h"

enum { MAX_ROLES = 8, MAX_RINGS = 64, SAME_BUDGET = 4000, MAX_PAIRS = 8 };

typedef struct RingEvent {
    Op *op;
    int64_t n;
} RingEvent;

typedef VEC(RingEvent) Events;
typedef VEC(int) ItemCounts; // indexed by number of the item

typedef struct RoleRing {
    const Value *ring;
    int readers; // number of roles that release its items
    Op *fill;
    ItemCounts committed, waited, released;
} RoleRing;

/// A scalar with a number that a role was walked with, for instance an unknown bound.
typedef struct Assumed {
    const Value *value;
    uint64_t turn; // iterations of the loops around it
    int64_t n;
} Assumed;

struct Meeting {
    Ctx *ctx;
    Op *roles;
    int role;
    Events events[MAX_ROLES];
    int at[MAX_ROLES];
    int n_rings;
    RoleRing rings[MAX_RINGS];
    VEC(Assumed) assumed;
    VEC(const Op *) loops; // loops by condition of the first role that has some
    int loops_of;
};

Meeting *meeting_begin(Ctx *ctx, Op *roles) {
    Meeting *m = ctx_new(ctx, Meeting);
    m->ctx = ctx;
    m->roles = roles;
    if (roles->n_regions > MAX_ROLES) ice(ctx, roles->loc, "more than %d roles", MAX_ROLES);
    return m;
}

void meeting_enter(Meeting *m, int i) {
    m->role = i;
}

static RoleRing *role_ring_of(Meeting *m, const Op *op) {
    const Value *ring = operand(op, 0);
    for (int i = 0; i < m->n_rings; i++)
        if (m->rings[i].ring == ring) return &m->rings[i];
    if (m->n_rings == MAX_RINGS) ice(m->ctx, op->loc, "more than %d rings", MAX_RINGS);
    m->rings[m->n_rings] = (RoleRing){.ring = ring};
    return &m->rings[m->n_rings++];
}

void meeting_event(Meeting *m, Op *op, int64_t n) {
    RingEvent e = {op, n};
    vec_push(m->ctx, &m->events[m->role], e);
    RoleRing *r = role_ring_of(m, op);
    if (op->code == OP_RING_ACQUIRE && !r->fill) r->fill = op;
}

/* ---- running ------------------------------------------------------------------------------- */

static int item_count_of(const ItemCounts *c, int64_t n) {
    return n < c->n ? c->data[n] : 0;
}

static void count_item(const Meeting *m, ItemCounts *c, int64_t n) {
    while (c->n <= n) vec_push(m->ctx, c, 0);
    c->data[n]++;
}

/// Returns false if the role has to wait here.
static bool step_event(Meeting *m, const RingEvent *e) {
    RoleRing *r = role_ring_of(m, e->op);
    int64_t before = e->n - r->ring->type->slots;
    switch (e->op->code) {
    case OP_RING_ACQUIRE:
        return before < 0 || (r->readers && item_count_of(&r->released, before) >= r->readers);
    case OP_RING_COMMIT: count_item(m, &r->committed, e->n); return true;
    case OP_RING_WAIT:
        if (!item_count_of(&r->committed, e->n)) return false;
        count_item(m, &r->waited, e->n);
        return true;
    default: count_item(m, &r->released, e->n); return true;
    }
}

static bool run_role(Meeting *m, int i) {
    int first = m->at[i];
    while (m->at[i] < m->events[i].n && step_event(m, &m->events[i].data[m->at[i]])) m->at[i]++;
    return m->at[i] > first;
}

static bool reads_ring(const Meeting *m, int role, const Value *ring) {
    for (int e = 0; e < m->events[role].n; e++) {
        const Op *op = m->events[role].data[e].op;
        if (op->code == OP_RING_RELEASE && operand(op, 0) == ring) return true;
    }
    return false;
}

/// Counts the roles that release items of each ring; all warps of such a role do. Returns the
/// ring_make of a ring that expects another number of warps, or NULL.
static Op *count_ring_readers(Meeting *m) {
    const int64_t *warps = op_ints(m->roles, A_ROLE_WARPS)->ints;
    Op *other = NULL;
    for (int k = 0; k < m->n_rings; k++) {
        RoleRing *r = &m->rings[k];
        int64_t all = 0;
        for (int i = 0; i < m->roles->n_regions; i++) {
            bool one = reads_ring(m, i, r->ring);
            r->readers += one;
            all += one ? warps[i] : 0;
        }
        if (all && op_int(r->ring->def, A_READER_WARPS, 0) != all) other = r->ring->def;
    }
    return other;
}

static Blocked find_blocked(const Meeting *m) {
    Op *at = NULL;
    for (int i = 0; i < m->roles->n_regions && !at; i++)
        if (m->at[i] < m->events[i].n) at = m->events[i].data[m->at[i]].op;
    return (Blocked){at, "roles wait for each other, or for an event that never comes"};
}

/// Returns whether the role waits for items of the ring, and how many it waits for.
static bool count_waits(const Meeting *m, int role, const Value *ring, ItemCounts *c) {
    for (int e = 0; e < m->events[role].n; e++) {
        const RingEvent *event = &m->events[role].data[e];
        if (event->op->code == OP_RING_WAIT && operand(event->op, 0) == ring)
            count_item(m, c, event->n);
    }
    return c->n > 0;
}

/// Checks that each role that reads a ring waits for all of its items.
static Blocked find_unread(const Meeting *m, const RoleRing *r) {
    for (int i = 0; i < m->roles->n_regions; i++) {
        ItemCounts waits = {0};
        if (!count_waits(m, i, r->ring, &waits)) continue;
        for (int64_t n = 0; n < r->committed.n; n++)
            if (!item_count_of(&waits, n))
                return (Blocked){r->fill, "a role that reads the ring leaves an item"};
    }
    return (Blocked){0};
}

/// Checks that each item is committed once and waited for.
static Blocked find_unequal(const Meeting *m) {
    for (int k = 0; k < m->n_rings; k++) {
        const RoleRing *r = &m->rings[k];
        if (r->committed.n != r->waited.n)
            return (Blocked){r->fill ? r->fill : r->ring->def,
                             "roles fill and read different numbers of items"};
        for (int64_t n = 0; n < r->committed.n; n++)
            if (item_count_of(&r->committed, n) != 1 || !item_count_of(&r->waited, n))
                return (Blocked){r->fill, "an item is filled twice or never, or is not read"};
        Blocked unread = find_unread(m, r);
        if (unread.op) return unread;
    }
    return (Blocked){0};
}

/* ---- equal scalars of roles ---------------------------------------------------------------- */

/// A comparison of two roles' scalars. Values that loops carry are equal if they begin equal and
/// each iteration keeps them equal. So a pair is assumed equal while its own iteration is compared.
typedef struct Comparison {
    int budget, n_pairs;
    const Value *pairs[MAX_PAIRS][2];
} Comparison;

static bool same_scalar(const Value *a, const Value *b, Comparison *c);

/// Whether the loops x and y carry the same tile: both continue with the tile that an item names.
static bool same_tile(const Op *x, const Op *y);

static bool same_bounds(const Op *x, const Op *y, Comparison *c) {
    return x->code == OP_FOR && y->code == OP_FOR && op_int(x, A_STEP, 1) == op_int(y, A_STEP, 1) &&
           same_scalar(operand(x, 0), operand(y, 0), c) &&
           same_scalar(operand(x, 1), operand(y, 1), c);
}

/// Adds the pair. Returns false if there are too many.
static bool suppose_same(Comparison *c, const Value *a, const Value *b) {
    if (c->n_pairs == MAX_PAIRS) return false;
    c->pairs[c->n_pairs][0] = a;
    c->pairs[c->n_pairs++][1] = b;
    return true;
}

static bool is_supposed_same(const Comparison *c, const Value *a, const Value *b) {
    for (int i = 0; i < c->n_pairs; i++)
        if (c->pairs[i][0] == a && c->pairs[i][1] == b) return true;
    return false;
}

/// Whether value i that x carries is value k of y in every iteration.
static bool same_carried(const Op *x, int i, const Op *y, int k, Comparison *c) {
    const Region *r = x->regions[0], *s = y->regions[0];
    const Value *a = r->args[1 + i], *b = s->args[1 + k];
    return is_supposed_same(c, a, b) ||
           (same_bounds(x, y, c) && same_scalar(operand(x, 2 + i), operand(y, 2 + k), c) &&
            suppose_same(c, a, b) && same_scalar(operand(r->last, i), operand(s->last, k), c));
}

/// Whether the arguments are indices of loops with the same bounds, or values that they carry.
static bool same_arg(const Value *a, const Value *b, Comparison *c) {
    const Op *x = a->region->parent, *y = b->region->parent;
    if (x->code == OP_WHILE && y->code == OP_WHILE)
        return !a->index && !b->index && same_tile(x, y);
    if (x->code != OP_FOR || y->code != OP_FOR || !a->index != !b->index) return false;
    return a->index ? same_carried(x, a->index - 1, y, b->index - 1, c) : same_bounds(x, y, c);
}

static bool has_same_attrs(const Op *a, const Op *b) {
    if (a->n_attrs != b->n_attrs) return false;
    for (int i = 0; i < a->n_attrs; i++)
        if (op_attr(b, a->attrs[i].id) != a->attrs[i].value) return false;
    return true;
}

/// Whether two roles compute the scalars by the same ops from the same values.
static bool same_scalar(const Value *a, const Value *b, Comparison *c) {
    if (a == b) return true;
    if (--c->budget < 0 || a->type != b->type) return false;
    if (!a->def && !b->def) return same_arg(a, b, c);
    const Op *x = a->def, *y = b->def;
    if (!x || !y || x->code != y->code) return false;
    if (x->code == OP_FOR) return same_carried(x, a->index, y, b->index, c);
    if (!op_has(x, PURE) && x->code != OP_LOAD && x->code != OP_RING_WAIT) return false;
    if (x->n_operands != y->n_operands || x->n_regions || a->index != b->index ||
        !has_same_attrs(x, y))
        return false;
    for (int i = 0; i < x->n_operands; i++)
        if (!same_scalar(operand(x, i), operand(y, i), c)) return false;
    return true;
}

/* ---- loops of tiles ------------------------------------------------------------------------ */

/// Returns the ring whose items name the loop's next tile. NULL: the tile comes from elsewhere.
static const Value *told_by(const Op *loop) {
    Value *next = operand(terminator(loop->regions[1]), 0);
    const Op *wait = def_of(next, OP_RING_WAIT);
    if (wait && next->index == operand(wait, 0)->type->n_parts) return operand(wait, 0);
    for_each_use(u, next) {
        const Op *op = u->user;
        if (op->code == OP_RING_COMMIT && op->parent == loop->regions[1] &&
            u->index == op->n_operands - 1)
            return operand(op, 0);
    }
    return NULL;
}

/// Whether each iteration takes one item, and no other op does. Then item n belongs to iteration n.
static bool tells_once(const Op *loop, const Value *ring) {
    int n = 0;
    for_each_use(u, ring) {
        const Op *op = u->user;
        if (op->code != OP_RING_WAIT && op->code != OP_RING_COMMIT) continue;
        if (op->parent == loop->regions[1]) n++;
    }
    return n == 1;
}

static bool same_test(const Op *x, const Op *y) {
    const Op *a = operand(terminator(x->regions[0]), 0)->def;
    const Op *b = operand(terminator(y->regions[0]), 0)->def;
    Comparison c = {.budget = SAME_BUDGET};
    return a && b && a->code == OP_LT && b->code == OP_LT &&
           operand(a, 0) == x->regions[0]->args[0] && operand(b, 0) == y->regions[0]->args[0] &&
           same_scalar(operand(a, 1), operand(b, 1), &c);
}

static bool same_tile(const Op *x, const Op *y) {
    const Value *ring = told_by(x);
    Comparison c = {.budget = SAME_BUDGET};
    return x == y || (ring && ring == told_by(y) && op_flag(ring->def, A_SCALAR) &&
                      tells_once(x, ring) && tells_once(y, ring) && same_test(x, y) &&
                      same_scalar(operand(x, 0), operand(y, 0), &c));
}

bool meeting_goes_on(Meeting *m, const Op *loop) {
    if (!m->loops.n) m->loops_of = m->role;
    if (m->loops_of == m->role) {
        vec_push(m->ctx, &m->loops, loop);
        return true;
    }
    for (int i = 0; i < m->loops.n; i++)
        if (same_tile(m->loops.data[i], loop)) return true;
    return false;
}

void meeting_assume(Meeting *m, const Value *v, uint64_t turn, int64_t n) {
    Assumed a = {v, turn, n};
    vec_push(m->ctx, &m->assumed, a);
}

bool meeting_knows(const Meeting *m, const Value *v, uint64_t turn, int64_t *n) {
    for (int i = 0; i < m->assumed.n; i++) {
        const Assumed *a = &m->assumed.data[i];
        if (a->turn != turn || !same_scalar(a->value, v, &(Comparison){.budget = SAME_BUDGET}))
            continue;
        *n = a->n;
        return true;
    }
    return false;
}

/* ---- the proof ----------------------------------------------------------------------------- */

Blocked meeting_run(Meeting *m) {
    Op *other = count_ring_readers(m);
    if (other) return (Blocked){other, "its readers are not the warps that release its items"};
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < m->roles->n_regions; i++) more |= run_role(m, i);
    }
    Blocked b = find_blocked(m);
    return b.op ? b : find_unequal(m);
}

const char *meeting_line(const Meeting *m) {
    int64_t items = 0;
    for (int k = 0; k < m->n_rings; k++) items += m->rings[k].committed.n;
    return ctx_format(m->ctx,
                      "roles: %d, of which one fills each ring; their loops have the same bounds; "
                      "all come to their ends, looked at for %d items of %d rings",
                      m->roles->n_regions, (int)items, m->n_rings);
}
