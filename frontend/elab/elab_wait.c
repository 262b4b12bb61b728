// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports waits that are certain never to end.
//
// The first check uses the text alone: no op raises a signal of the tensor, or only a later phase
// does. The second check simulates the kernel for a few numbers of ranks (elab_ranks.h): each rank
// performs its waits and raises in the order of the text. Every uncertainty favours progress: an
// uncertain raise happens, on every word and with every value that it may have; a wait that may be
// skipped, or may hold at first, does not block. The most advanced program of a rank counts. So a
// rank that is blocked in the simulation is blocked in every run.
#include "frontend/elab/elab_ranks.h"

/* ---- signals of later phases -------------------------------------------------------------- */

typedef struct Raised {
    const Value *words;
    const Op *phase; // of the wait; NULL: the phase may not block there
    const Op *late;  // a raise in a later phase
    bool found;
} Raised;

/// Returns the op of the host code that contains the op, or is it.
static const Op *host_op(const Op *op) {
    while (op->parent->parent->code != OP_KERNEL) op = op->parent->parent;
    return op;
}

static bool is_behind(const Op *op, const Op *other) {
    while (other && other != op) other = other->next;
    return other != NULL;
}

static void seek_raise(Op *op, void *arg) {
    Raised *r = arg;
    bool writes = op->code == OP_SIGNAL_SET || op->code == OP_STORE || op->code == OP_ATOMIC ||
                  op->code == OP_CALL,
         raises = false;
    for (int i = 0; writes && i < op->n_operands; i++)
        raises |= operand(op, i) == r->words && (i == 0 || op->code == OP_CALL);
    if (!raises) return;
    const Op *at = host_op(op);
    bool late = r->phase && at != r->phase && is_behind(at, r->phase);
    if (late && !r->late) r->late = op;
    r->found |= !late;
}

/// Whether a wait for v ends when its word is x.
static bool wait_ends_at(const Op *wait, int64_t x, int64_t v) {
    return compare_holds(op_compare(wait), x, v);
}

/// Whether the wait may hold at first. Words are initially 0. True if it is unknown.
static bool holds_at_first(const Op *wait) {
    int64_t v;
    return !const_int(operand(wait, 2), &v) || wait_ends_at(wait, 0, v);
}

/// Returns the phase whose programs all block at the wait; NULL: some may skip it, or the phase has
/// several rounds of it.
static const Op *waiting_phase(const Op *wait) {
    const Op *phase = host_op(wait);
    for (const Op *at = wait; at != phase; at = at->parent->parent)
        if (at->parent->parent->code == OP_IF || at->parent->parent->code == OP_WHILE) return NULL;
    return phase->code == OP_PARALLEL && !holds_at_first(wait) ? phase : NULL;
}

/// Reports a wait without any raise, or with raises only in programs that start after it has ended.
static void check_wait(Op *op, void *arg) {
    Elab *e = arg;
    if (op->code != OP_SIGNAL_WAIT) return;
    Raised r = {.words = operand(op, 0), .phase = waiting_phase(op)};
    const char *name = r.words->name ? r.words->name : "?";
    op_walk_pre(op_enclosing(op, OP_KERNEL), seek_raise, &r);
    if (r.found) return;
    diag(e->ctx, op->loc, r.late ? D_LATE_SIGNAL : D_NO_SIGNAL, name);
    if (r.late)
        diag_note(e->ctx, r.late->loc, "it is raised here, when all of this phase has ended");
    diag_hint(e->ctx,
              r.late ? "raise signals of '%s' in this phase, or in one before it"
                     : "signal_op(%s[r][...], x) raises one at rank r",
              name);
}

/* ---- a run in thought ---------------------------------------------------------------------- */

enum { MAX_EVENTS = 1024 };

/// A wait or a raise at a seat.
typedef struct SignalEvent {
    const Op *op;
    const Value *words;
    bool wait, certain;
    int n;             // coordinates; 0: it may be any word
    Fact at[MAX_RANK]; // the shard first
    Fact value;        // OPEN: any
} SignalEvent;

typedef struct Actor {
    Seat seat;
    VEC(SignalEvent) events;
    int done; // the number of events performed
} Actor;

/// An example of a wait that does not end.
typedef struct Finding {
    const Op *raise; // a raise that would end it; NULL: none
    int64_t ranks, rank;
} Finding;

typedef struct Play {
    Elab *e;
    int64_t ranks;
    Actor actors[MAX_SEATS];
    VEC(const Op *) waits; // of all seats
    PtrMap seen, ends;     // all waits, and those that some raise may end at some seat
    PtrMap found;          // wait -> Finding
} Play;

static void add_event(Actor *a, SignalEvent ev, int first) {
    const Op *op = ev.op;
    for (int i = first; first && i < op->n_operands && ev.n < MAX_RANK; i++)
        ev.at[ev.n++] = el_fact(&a->seat, operand(op, i));
    vec_push(a->seat.e->ctx, &a->events, ev);
}

/// A called kernel may raise any word of its tensors.
static void add_call(Actor *a, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (value_is_sym(operand(op, i)))
            add_event(a, (SignalEvent){.op = op, .words = operand(op, i)}, 0);
}

/// Stores to one word and atomics count as raises. The value of an atomic is unknown.
static void add_word_access(Actor *a, const Op *op) {
    Access x = access_of(op);
    bool word = x.rank == 0 && !x.mask;
    SignalEvent ev = {.op = op, .words = x.tensor};
    if (op->code == OP_STORE && word) ev.value = el_fact(&a->seat, x.value);
    add_event(a, ev, word ? x.first[0] : 0);
}

static void add_event_op(Actor *a, const Op *op, bool certain) {
    if (op->code == OP_CALL) {
        add_call(a, op);
    } else if (op->code == OP_STORE || op->code == OP_ATOMIC) {
        if (value_is_sym(operand(op, 0))) add_word_access(a, op);
    } else if (op->code == OP_SIGNAL_SET) {
        SignalEvent ev = {.op = op, .words = operand(op, 0)};
        if (op_update(op) != UPDATE_ADD) ev.value = el_fact(&a->seat, operand(op, 1));
        add_event(a, ev, 2);
    } else if (op->code == OP_SIGNAL_WAIT) {
        SignalEvent ev = {.op = op, .words = operand(op, 0), .wait = true, .certain = certain};
        ev.value = el_fact(&a->seat, operand(op, 2));
        add_event(a, ev, 4);
    }
}

/// A grid counts as having programs, for any bounds.
static void add_event_region(Actor *a, const Region *r, bool certain) {
    for_each_op(op, r) {
        add_event_op(a, op, certain);
        bool certain_loop = op->code == OP_PARALLEL;
        for (int i = 0; i < op->n_regions; i++) {
            Taken taken = el_taken(&a->seat, op->regions[i]);
            if (taken == NEVER) continue;
            add_event_region(a, op->regions[i], certain && (taken == ALWAYS || certain_loop));
        }
    }
}

static bool may_be(Fact f, int64_t n) {
    return f.kind != NUMBER || f.number == n;
}

/// Whether a raise may hit the word of the wait.
static bool may_raise(const SignalEvent *raise, const SignalEvent *wait) {
    if (raise->wait || raise->words != wait->words) return false;
    for (int i = 0; i < raise->n && i < wait->n; i++)
        if (wait->at[i].kind == NUMBER && !may_be(raise->at[i], wait->at[i].number)) return false;
    return true;
}

static bool may_end(const SignalEvent *raise, const SignalEvent *wait) {
    return may_raise(raise, wait) &&
           (raise->value.kind != NUMBER || wait->value.kind != NUMBER ||
            wait_ends_at(wait->op, raise->value.number, wait->value.number));
}

/// Whether a wait cannot block: its word is outside of the tensor, or the wait holds at first.
static bool is_no_wait(const Seat *at, const SignalEvent *wait) {
    for (int i = 0; i < wait->n; i++)
        if (el_outside(at, wait->words, i, wait->at[i])) return true;
    return wait->value.kind == NUMBER && wait_ends_at(wait->op, 0, wait->value.number);
}

/// Finds a raise that may end a wait, among all raises of all ranks or those performed so far.
static const Op *find_raise(const Play *p, const SignalEvent *wait, bool all) {
    for (int i = 0; i < p->ranks; i++) {
        const Actor *a = &p->actors[i];
        for (int k = 0; k < (all ? a->events.n : a->done); k++)
            if (may_end(&a->events.data[k], wait)) return a->events.data[k].op;
    }
    return NULL;
}

static bool goes_on(const Play *p, const Actor *a, const SignalEvent *ev) {
    return !ev->wait || !ev->certain || ev->value.kind != NUMBER || is_no_wait(&a->seat, ev) ||
           find_raise(p, ev, false);
}

static void play_events(Play *p) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < p->ranks; i++) {
            Actor *a = &p->actors[i];
            while (a->done < a->events.n && goes_on(p, a, &a->events.data[a->done])) {
                a->done++;
                moved = true;
            }
        }
    }
}

static void note_finding(Play *p, const Actor *a, const SignalEvent *ev, const Op *raise) {
    if (map_get(&p->found, ev->op)) return;
    Finding *f = ctx_new(p->e->ctx, Finding);
    *f = (Finding){raise, p->ranks, a->seat.rank};
    map_set(p->e->ctx, &p->found, ev->op, f);
}

/// Finds the waits that no raise ends, at one seat.
static void find_endless(Play *p, const Actor *a) {
    Ctx *ctx = p->e->ctx;
    for (int i = 0; i < a->events.n; i++) {
        const SignalEvent *ev = &a->events.data[i];
        if (!ev->wait) continue;
        if (!map_get(&p->seen, ev->op)) vec_push(ctx, &p->waits, ev->op);
        map_set(ctx, &p->seen, ev->op, (void *)ev->op);
        if (is_no_wait(&a->seat, ev) || find_raise(p, ev, true))
            map_set(ctx, &p->ends, ev->op, (void *)ev->op);
        else if (ev->certain)
            note_finding(p, a, ev, NULL);
    }
}

static void find_held(Play *p, const Actor *a) {
    const SignalEvent *ev = a->done < a->events.n ? &a->events.data[a->done] : NULL;
    if (ev) note_finding(p, a, ev, find_raise(p, ev, true));
}

/// Simulates this number of ranks. Returns false if the ranks have too many events.
static bool play_ranks(Play *p, const Op *kernel) {
    for (int i = 0; i < p->ranks; i++) {
        Actor *a = &p->actors[i];
        *a = (Actor){.seat = {p->e, p->ranks, i}};
        add_event_region(a, kernel->regions[0], true);
        if (a->events.n > MAX_EVENTS) return false;
    }
    play_events(p);
    for (int i = 0; i < p->ranks; i++) find_endless(p, &p->actors[i]);
    for (int i = 0; i < p->ranks; i++) find_held(p, &p->actors[i]);
    return true;
}

/* ---- reports ------------------------------------------------------------------------------- */

static const char *waited_name(const Op *wait) {
    const char *name = operand(wait, 0)->name;
    return name ? name : "?";
}

/// The first op that raises a word of the tensor.
static void seek_other(Op *op, void *arg) {
    Raised *r = arg;
    if (op->code == OP_SIGNAL_SET && operand(op, 0) == r->words && !r->late) r->late = op;
}

static void report_never(const Play *p, const Op *wait, const Finding *f) {
    Raised other = {.words = operand(wait, 0)};
    if (f)
        diag(p->e->ctx, wait->loc, D_NO_END_RANKS, f->ranks, waited_name(wait), f->rank);
    else
        diag(p->e->ctx, wait->loc, D_NO_END, waited_name(wait));
    op_walk_pre(op_enclosing(wait, OP_KERNEL), seek_other, &other);
    if (other.late)
        diag_note(p->e->ctx, other.late->loc, "another word is raised here, or to another value");
    diag_hint(p->e->ctx,
              "signal_op(%s[r][i], x) raises word i of rank r to x, and adds x to it "
              "with `op = add`",
              waited_name(wait));
}

static void report_held(const Play *p, const Op *wait, const Finding *f) {
    diag(p->e->ctx, wait->loc, D_HELD, f->ranks, f->rank, waited_name(wait));
    diag_note(p->e->ctx, f->raise->loc, "it is raised here");
    diag_hint(p->e->ctx, "let each rank raise its signals before it waits");
}

/// Reports waits that no raise ends. Returns their number.
static int report_endless(const Play *p) {
    int n = 0;
    for (int i = 0; i < p->waits.n; i++) {
        const Op *wait = p->waits.data[i];
        const Finding *f = map_get(&p->found, wait);
        bool never = !map_get(&p->ends, wait);
        if (!never && (!f || f->raise)) continue;
        report_never(p, wait, never ? NULL : f);
        n++;
    }
    return n;
}

/// Reports waits. A wait that no raise ends explains all other blocked waits, so these are then not
/// reported.
static void report_waits(const Play *p) {
    if (report_endless(p) > 0) return;
    for (int i = 0; i < p->waits.n; i++) {
        const Finding *f = map_get(&p->found, p->waits.data[i]);
        if (f) report_held(p, p->waits.data[i], f);
    }
}

/* ---- ranks that waits name ----------------------------------------------------------------- */

/// Returns the only signal that any seat can mean; NULL: there are several, or another kind of
/// raise.
static const Op *only_raise(const Play *p, const Op *wait) {
    const Op *found = NULL;
    for (int i = 0; i < p->ranks * p->ranks; i++) {
        const Actor *waits = &p->actors[i % p->ranks], *raises = &p->actors[i / p->ranks];
        for (int w = 0; w < waits->events.n; w++) {
            if (waits->events.data[w].op != wait) continue;
            for (int k = 0; k < raises->events.n; k++) {
                const SignalEvent *raise = &raises->events.data[k];
                if (!may_raise(raise, &waits->events.data[w])) continue;
                if (raise->op->code != OP_SIGNAL_SET || (found && found != raise->op)) return NULL;
                found = raise->op;
            }
        }
    }
    return found;
}

static void name_peers(const Play *p) {
    for (int i = 0; i < p->waits.n; i++) {
        const Op *raise = only_raise(p, p->waits.data[i]);
        if (raise) el_name_peer(p->e, (Op *)p->waits.data[i], raise);
    }
}

void el_check_waits(Elab *e, Op *kernel) {
    op_walk_pre(kernel, check_wait, e);
    int64_t counts[MAX_COUNTS];
    Play *p = ctx_new(e->ctx, Play);
    *p = (Play){.e = e};
    int n = el_failed(e) ? 0 : el_rank_counts(e, counts);
    for (int i = 0; i < n; i++) {
        p->ranks = counts[i];
        if (p->ranks == 1 || p->ranks > MAX_SEATS || !play_ranks(p, kernel)) return;
    }
    report_waits(p);
    if (n > 0 && !el_failed(e)) name_peers(p);
}
