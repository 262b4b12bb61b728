// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loop nests: gathers roots of one iteration space and emits them together, so that values they
// share are computed once, in registers.
#include <string.h>

#include "backends/cpu/emit.h"

/* ---- gathering ----------------------------------------------------------------------------- */

static Nest *pending_nest(Emit *e) {
    if (!e->nest) e->nest = ctx_new(e->ctx, Nest);
    return e->nest;
}

static bool root_defines(const Root *r, const Value *v) {
    if (r->kind == ROOT_BUFFER) return !r->keep && r->value == v;
    return v->def && v->def == r->op;
}

bool nest_defines(const Emit *e, const Value *v) {
    for (int i = 0; e->nest && i < e->nest->roots.n; i++)
        if (root_defines(&e->nest->roots.data[i], v)) return true;
    return false;
}

static bool meets_any_tensor(const Value *const *tensors, int n, const Value *t) {
    for (int i = 0; i < n; i++)
        if (tensors_may_meet(tensors[i], t)) return true;
    return false;
}

bool nest_writes(const Emit *e, const Value *tensor) {
    return e->nest && meets_any_tensor(e->nest->writes.data, e->nest->writes.n, tensor);
}

typedef struct Fit {
    Emit *e;
    Nest *nest;
    bool fits;
} Fit;

/// Within a nest a root may use a value of another root only at its own place. It must not use a
/// result of a reduction, or read a tensor that the nest writes.
static void check_fit(void *arg, Value *v, int axis, bool identity) {
    Fit *f = arg;
    (void)axis;
    for (int i = 0; i < f->nest->roots.n; i++) {
        const Root *r = &f->nest->roots.data[i];
        if (root_defines(r, v) && (r->kind == ROOT_REDUCE || !identity)) f->fits = false;
    }
    if (v->def && v->def->code == OP_LOAD && nest_writes(f->e, operand(v->def, 0))) f->fits = false;
}

static bool same_reduction(const Nest *n, const Root *r) {
    for (int i = 0; i < n->roots.n; i++) {
        const Root *other = &n->roots.data[i];
        if (r->kind == ROOT_REDUCE && other->kind == ROOT_REDUCE &&
            op_int(r->op, A_AXIS, 0) != op_int(other->op, A_AXIS, 0))
            return false;
        if (r->kind == ROOT_ATOMIC || other->kind == ROOT_ATOMIC) return false;
        // A register loop runs once a tile, not once a step of a reduction.
        if ((r->kind == ROOT_LOOP) != (other->kind == ROOT_LOOP) &&
            (r->kind == ROOT_REDUCE || other->kind == ROOT_REDUCE))
            return false;
    }
    return true;
}

static bool fits_nest(Emit *e, const Root *r) {
    Nest *n = pending_nest(e);
    if (n->roots.n == 0) return true;
    if (!ty_same_shape(n->space, root_space(r)) || !same_reduction(n, r)) return false;
    if (r->kind == ROOT_STORE) {
        const Value *t = access_of(r->op).tensor;
        if (nest_writes(e, t) || meets_any_tensor(n->reads.data, n->reads.n, t)) return false;
    }
    Fit f = {e, n, true};
    walk_nest_reads(e, r, -1, check_fit, &f);
    return f.fits;
}

static void note_reads(void *arg, Value *v, int axis, bool identity) {
    Emit *e = arg;
    (void)axis, (void)identity;
    if (v->def && v->def->code == OP_LOAD) vec_push(e->ctx, &e->nest->reads, operand(v->def, 0));
}

void nest_add(Emit *e, Root root) {
    if (!fits_nest(e, &root)) nest_flush(e);
    Nest *n = pending_nest(e);
    if (n->roots.n == 0) n->space = root_space(&root);
    vec_push(e->ctx, &n->roots, root);
    walk_nest_reads(e, &root, -1, note_reads, e);
    if (root.kind == ROOT_STORE) vec_push(e->ctx, &n->writes, access_of(root.op).tensor);
}

/* ---- values that need their buffers -------------------------------------------------------- */

static bool is_root_op(const Nest *n, const Op *op) {
    for (int i = 0; i < n->roots.n; i++)
        if (n->roots.data[i].op == op) return true;
    return false;
}

static bool is_written_in_nest(const Nest *n, const Value *v) {
    for (int i = 0; i < n->roots.n; i++)
        if (n->roots.data[i].kind == ROOT_BUFFER && n->roots.data[i].value == v) return true;
    return false;
}

/// Whether some user of v is outside the nest. `seen` holds the values visited so far.
static bool used_behind(Emit *e, const Nest *n, const Value *v, PtrMap *seen) {
    if (map_get(seen, v)) return false;
    map_set(e->ctx, seen, v, e);
    for_each_use(u, v) {
        const Op *op = u->user;
        if (is_root_op(n, op)) continue;
        if (!op_is_lazy(op)) return true;
        const Value *x = result(op, 0);
        if (x->type->rank == 0) return true;
        if (is_written_in_nest(n, x) && plan_is_cut(e, x)) continue; // a root itself
        if (used_behind(e, n, x, seen)) return true;
    }
    return false;
}

static bool wanted_later(Emit *e, const Nest *n, const Value *v) {
    PtrMap seen = {0};
    return used_behind(e, n, v, &seen);
}

static void result_buffers(Emit *e, Op *op) {
    for (int i = 0; i < op->n_results; i++)
        if (result(op, i)->type->rank && value_has_uses(result(op, i)))
            result_buffer(e, result(op, i));
}

/// Gives buffers to the results of register loops with later uses. Cut values without later uses
/// lose their buffers.
static void settle_buffers(Emit *e, Nest *n) {
    for (int i = 0, n_roots = n->roots.n; i < n_roots; i++) {
        Op *op = n->roots.data[i].op;
        if (n->roots.data[i].kind != ROOT_LOOP) continue;
        for (int k = 0; k < op->n_results; k++) {
            Value *v = result(op, k);
            if (v->type->rank && !is_written_in_nest(n, v) && wanted_later(e, n, v))
                vec_push(e->ctx, &n->roots,
                         ((Root){.kind = ROOT_BUFFER, .value = v, .out = result_buffer(e, v)}));
            bind_buffer(e, v, NULL); // in registers until the nest is done
        }
    }
    for (int i = n->roots.n - 1; i >= 0; i--) {
        Root *r = &n->roots.data[i];
        if (r->kind == ROOT_REDUCE || r->kind == ROOT_ATOMIC) result_buffers(e, r->op);
        if (r->kind != ROOT_BUFFER) continue;
        if (!r->keep && !debug_shows(e, r->value) && !wanted_later(e, n, r->value)) {
            for (int k = i; k + 1 < n->roots.n; k++) n->roots.data[k] = n->roots.data[k + 1];
            n->roots.n--;
        } else if (!r->out) {
            r->out = result_buffer(e, r->value);
            bind_buffer(e, r->value, NULL);
        }
    }
}

/* ---- emitting ------------------------------------------------------------------------------ */

static void add_places(Emit *e, const Nest *n, int level, Place p, Place *places, int *count) {
    if (level == n->n_axes) {
        if (*count == MAX_PLACES) ice(e->ctx, (Loc){0}, "a tile has too many places");
        places[(*count)++] = p;
        return;
    }
    const NestAxis *x = &n->axes[level];
    for (int i = 0; i < x->count; i++) {
        p.at[x->axis] = x->at[i];
        if (x->axis == p.axis) p.live = x->partial && i == x->count - 1 ? x->tail : x->unit;
        add_places(e, n, level + 1, p, places, count);
    }
}

/// Returns the current tile as a square, or NULL if it is not one.
static const Square *square_of(Emit *e, const Nest *n, const Place *places, int count) {
    if (n->square < 0 || count != n->lanes) return NULL;
    Square *s = ctx_new(e->ctx, Square);
    s->n = count;
    for (int i = 0; i < count; i++) s->rows[i] = places[i].at[n->square];
    return s;
}

int nest_places(Emit *e, Nest *n, Place *places) {
    for (int d = 0; d < n->n_axes; d++) {
        NestAxis *x = &n->axes[d];
        for (int i = 0; i < x->count; i++)
            x->at[i] = gen_add(e->g, x->origin, gen_i64(e->g, i * x->unit));
    }
    Place p = {.rank = n->space->rank, .axis = n->vector, .lanes = n->lanes, .live = n->lanes};
    int count = 0;
    add_places(e, n, 0, p, places, &count);
    return count;
}

static void store_places(Emit *e, const Root *r, int count, const Place *places, LLVMValueRef *x) {
    for (int k = 0; k < count; k++) emit_store(e, r->op, &places[k], x[k]);
}

static void write_root_store(Emit *e, const Root *r, int count, const Place *places,
                             LLVMValueRef *x) {
    if (!r->stream) {
        store_places(e, r, count, places, x);
        return;
    }
    If i = if_begin(e, r->stream, "stream");
    e->streaming = r->part;
    streaming_wanted(e);
    store_places(e, r, count, places, x);
    e->streaming = 0;
    if_else(e, &i);
    store_places(e, r, count, places, x);
    if_end(e, &i);
}

/// Computes everything before writing anything, because a root may overwrite memory that others
/// read.
void nest_body(Emit *e, Nest *n) {
    Place places[MAX_PLACES];
    int count = nest_places(e, n, places);
    e->square = square_of(e, n, places, count);
    e->nest_cost = n->cost;
    e->n_wanted = 0;
    LLVMValueRef *x = ctx_array(e->ctx, LLVMValueRef, n->roots.n * count);
    for (int i = 0; i < n->roots.n; i++) {
        const Root *r = &n->roots.data[i];
        if (r->op) debug_at(e, r->op);
        if (r->kind == ROOT_LOOP) carried_loop(e, r->op, count, places);
        if (r->kind == ROOT_REDUCE) reduce_step(e, n, n->reductions[i], count, places);
        for (int k = 0; k < count; k++) {
            e->ahead = k + 1;
            if (r->kind == ROOT_STORE)
                x[i * count + k] = emit_vec(e, operand(r->op, 1), &places[k]);
            if (r->kind == ROOT_BUFFER) x[i * count + k] = emit_vec(e, r->value, &places[k]);
        }
        e->ahead = 0;
    }
    for (int i = 0; i < n->roots.n; i++) {
        const Root *r = &n->roots.data[i];
        if (r->op) debug_at(e, r->op);
        if (r->kind == ROOT_STORE) write_root_store(e, r, count, places, &x[i * count]);
        for (int k = 0; k < count; k++) {
            if (r->kind == ROOT_BUFFER) buffer_store(e, r->out, &places[k], x[i * count + k]);
            if (r->kind == ROOT_ATOMIC) atomic_element(e, r->op, &places[k]);
            if (r->kind == ROOT_ASSERT) assert_lanes(e, r->op, &places[k]);
        }
    }
    e->square = NULL;
}

static void nest_level(Emit *e, Nest *n, int level);

/// Emits whole tiles in a loop.
static void tiles_loop(Emit *e, Nest *n, int level, LLVMValueRef from, LLVMValueRef to) {
    NestAxis *x = &n->axes[level];
    x->partial = false;
    x->count = x->tile;
    streaming_decide(e, n, level);
    Loop *l = loop_begin(e, from, to, (int64_t)x->tile * x->unit, "tile");
    x->origin = l->iv;
    nest_level(e, n, level + 1);
    loop_end(e, l, NULL);
    for (int i = 0; i < n->roots.n; i++) n->roots.data[i].stream = NULL;
}

static bool only_stores(const Nest *n) {
    for (int i = 0; i < n->roots.n; i++)
        if (n->roots.data[i].kind != ROOT_STORE) return false;
    return true;
}

/// Splits the vectors' axis: first the tiles without masks, then the rest one vector at a time,
/// then pure padding, which only buffers need.
static void split_level(Emit *e, Nest *n, int level) {
    NestAxis *x = &n->axes[level];
    LLVMValueRef bound = unmasked_bound(e, n, level);
    e->full = n->full;
    tiles_loop(e, n, level, gen_i64(e->g, 0), bound);
    e->full = NULL;
    x->tile = 1;
    if (only_stores(n)) {
        tiles_loop(e, n, level, bound, unmasked_written(e, n, level));
        return;
    }
    LLVMValueRef end = unmasked_end(e, n, level);
    tiles_loop(e, n, level, bound, end);
    e->dead = n->full;
    tiles_loop(e, n, level, end, gen_i64(e->g, x->full * x->unit));
    e->dead = NULL;
}

static void nest_level(Emit *e, Nest *n, int level) {
    if (level == n->n_axes) {
        nest_body(e, n);
        return;
    }
    NestAxis *x = &n->axes[level];
    if (x->axis == n->reduced) {
        reduce_level(e, n, level);
        return;
    }
    int64_t tiles = x->full / x->tile, done = tiles * x->tile;
    int tile = x->tile;
    if (tiles == 1) {
        int mark = memo_mark(e);
        x->partial = false;
        x->count = x->tile;
        x->origin = gen_i64(e->g, 0);
        nest_level(e, n, level + 1);
        memo_forget(e, mark);
    } else if (tiles > 1 && n->full && x->axis == n->vector) {
        split_level(e, n, level);
        done = x->full;
    } else if (tiles > 1) {
        tiles_loop(e, n, level, gen_i64(e->g, 0), gen_i64(e->g, done * x->unit));
    }
    x->tile = tile;
    x->count = (int)(x->full - done) + (x->tail ? 1 : 0);
    if (x->count == 0) return;
    x->partial = x->tail != 0;
    x->origin = gen_i64(e->g, done * x->unit);
    int mark = memo_mark(e);
    nest_level(e, n, level + 1);
    memo_forget(e, mark);
}

void nest_flush(Emit *e) {
    Nest *n = e->nest;
    if (!n || n->roots.n == 0) return;
    e->nest = NULL;
    settle_buffers(e, n);
    nest_shape(e, n);
    n->full = unmasked_survey(e, n);
    code_note_nest(e, n);
    n->reductions = ctx_array(e->ctx, struct Reduction *, n->roots.n);
    int mark = memo_mark(e);
    nest_level(e, n, 0);
    memo_forget(e, mark);
    for (int i = 0; i < n->roots.n; i++) {
        Root *r = &n->roots.data[i];
        if (r->kind == ROOT_BUFFER && !r->keep) bind_buffer(e, r->value, r->out);
    }
}
