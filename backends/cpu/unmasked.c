// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides where a nest needs no masks.
//
// The reads and writes of a nest are live along its vectors up to a bound that is known at its
// start. Below the bound the body is emitted without masks, and a second time with masks for the
// rest. A mask takes three vector instructions, as many as a reduction of the masked value. This
// halves the time of short bodies on cached data.
#include "backends/cpu/emit.h"

/// Dimension d of an access is live at the coordinates lo <= c < hi of axis `level` of the nest.
typedef struct LiveBound {
    const void *key; // Prepared, or the op of a comparison
    int d;           // -1: the whole access, if `live` holds
    int level;       // -1: at all coordinates, if 0 is inside and size does not exceed the bound
    int64_t size;
    LLVMValueRef lo, hi, live;
} LiveBound;

struct Full {
    const Nest *nest;         // NULL: for a loop's body
    const struct Full *outer; // facts of the surrounding code
    VEC(LiveBound) bounds;
};

/* ---- masked accesses ----------------------------------------------------------------------- */

typedef struct BoundSurvey {
    Emit *e;
    struct Full *full;
    int level;
} BoundSurvey;

static LiveBound *find_bound(const struct Full *f, const void *key, int d, int level) {
    for (int i = 0; i < f->bounds.n; i++) {
        LiveBound *b = &f->bounds.data[i];
        if (b->key == key && b->d == d && b->level == level) return b;
    }
    return NULL;
}

static void add_live_bound(BoundSurvey *s, LiveBound b) {
    if (!find_bound(s->full, b.key, b.d, b.level)) vec_push(s->e->ctx, &s->full->bounds, b);
}

/// Adds the bounds of an access. Axis `axis` of its block runs along the level.
static void add_access_bounds(BoundSurvey *s, const Prepared *p, int axis) {
    if (p->live) add_live_bound(s, (LiveBound){p, -1, -1, 0, NULL, NULL, p->live});
    for (int d = 0; d < p->a.n_subs; d++) {
        const SubDim *sub = &p->a.subs[d];
        if (sub->kind != DIM_AXIS || (!p->lo[d] && !p->hi[d])) continue;
        if (sub->size == 1)
            add_live_bound(s, (LiveBound){p, d, -1, 1, p->lo[d], p->hi[d], NULL});
        else if (axis >= 0 && p->a.axis_of[d] == axis)
            add_live_bound(s, (LiveBound){p, d, s->level, sub->size, p->lo[d], p->hi[d], NULL});
    }
}

const Value *unmasked_below(const Op *op) {
    if (op->code != OP_LT || operand(op, 0)->type->elem != EL_I64) return NULL;
    const Op *x = operand(op, 0)->def, *y = operand(op, 1)->def;
    if (!x || x->code != OP_IOTA || !y || y->code != OP_BROADCAST) return NULL;
    return operand(y, 0)->type->rank == 0 ? operand(y, 0) : NULL;
}

static void see_bounded_value(void *arg, Value *v, int axis, bool identity) {
    BoundSurvey *s = arg;
    (void)identity;
    const Op *op = v->def;
    if (!op || v->type->rank == 0 || bound_buffer(s->e, v)) return;
    if (plan_in_register_loop(s->e, op)) return; // its scalars belong to an iteration
    if (op->code == OP_LOAD || op->code == OP_LIVE) {
        const Prepared *p = bound_access(s->e, op);
        if (p) add_access_bounds(s, p, axis);
    } else if (axis == 0 && unmasked_below(op)) {
        LLVMValueRef n = emit_scalar(s->e, unmasked_below(op));
        add_live_bound(s, (LiveBound){op, 0, s->level, v->type->extents[0], NULL, n, NULL});
    }
}

struct Full *unmasked_survey(Emit *e, const Nest *n) {
    if (n->vector < 0 || e->cpu->check) return NULL;
    struct Full *f = ctx_new(e->ctx, struct Full);
    f->nest = n;
    BoundSurvey s = {.e = e, .full = f};
    for (s.level = 0; s.level < n->n_axes; s.level++) {
        for (int i = 0; i < n->roots.n; i++) {
            const Root *r = &n->roots.data[i];
            walk_nest_reads(e, r, n->axes[s.level].axis, see_bounded_value, &s);
            if (r->kind == ROOT_STORE)
                add_access_bounds(&s, prepared_of(e, r->op), n->axes[s.level].axis);
        }
    }
    return f->bounds.n ? f : NULL;
}

/// Adds the bounds of the whole block of an access.
static void add_whole(BoundSurvey *s, const Prepared *p) {
    if (p->live) add_live_bound(s, (LiveBound){p, -1, -1, 0, NULL, NULL, p->live});
    for (int d = 0; d < p->a.n_subs; d++)
        if (p->a.subs[d].kind == DIM_AXIS && (p->lo[d] || p->hi[d]))
            add_live_bound(s, (LiveBound){p, d, -1, p->a.subs[d].size, p->lo[d], p->hi[d], NULL});
}

struct Full *unmasked_body(Emit *e, const Region *r) {
    if (e->cpu->check) return NULL;
    struct Full *f = ctx_new(e->ctx, struct Full);
    f->outer = e->full;
    BoundSurvey s = {.e = e, .full = f};
    for_each_op(op, r) {
        if (op->code == OP_YIELD || op->n_results == 0 || result(op, 0)->type->rank == 0) continue;
        const Prepared *p = bound_access(e, op);
        if ((op->code == OP_LOAD || op->code == OP_LIVE) && p) add_whole(&s, p);
        if (!unmasked_below(op)) continue;
        LLVMValueRef n = emit_scalar(e, unmasked_below(op));
        add_live_bound(&s, (LiveBound){op, 0, -1, result(op, 0)->type->extents[0], NULL, n, NULL});
    }
    return f->bounds.n ? f : NULL;
}

/* ---- the bound ----------------------------------------------------------------------------- */

static LLVMValueRef build_at_most(Emit *e, LLVMValueRef x, LLVMValueRef y) {
    return LLVMBuildICmp(e->g->b, LLVMIntSLE, x, y, "");
}

/// Whether the bound holds at the current places of an outer level, or at all places of an inner
/// one.
static LLVMValueRef bound_holds(Emit *e, const Nest *n, const LiveBound *b, int level) {
    Gen *g = e->g;
    if (b->live) return b->live;
    LLVMValueRef first = gen_i64(g, 0), end = gen_i64(g, b->size);
    if (b->level >= 0 && b->level < level) {
        const NestAxis *x = &n->axes[b->level];
        first = x->origin;
        end = gen_add(g, x->origin, gen_i64(g, (int64_t)x->count * x->unit));
    }
    LLVMValueRef c = b->lo ? build_at_most(e, b->lo, first) : NULL;
    return b->hi ? gen_and(g, c, build_at_most(e, end, b->hi)) : c;
}

LLVMValueRef unmasked_everywhere(Emit *e, const struct Full *f) {
    LLVMValueRef c = NULL;
    for (int i = 0; i < f->bounds.n; i++)
        c = gen_and(e->g, c, bound_holds(e, NULL, &f->bounds.data[i], 0));
    return c;
}

LLVMValueRef unmasked_bound(Emit *e, const Nest *n, int level) {
    Gen *g = e->g;
    const NestAxis *x = &n->axes[level];
    int64_t step = (int64_t)x->tile * x->unit, all = x->full / x->tile * step;
    LLVMValueRef bound = gen_i64(g, all), cond = NULL;
    for (int i = 0; i < n->full->bounds.n; i++) {
        const LiveBound *b = &n->full->bounds.data[i];
        if (b->level != level) {
            cond = gen_and(g, cond, bound_holds(e, n, b, level));
            continue;
        }
        if (b->lo) cond = gen_and(g, cond, build_at_most(e, b->lo, gen_i64(g, 0)));
        if (b->hi) bound = gen_min(g, bound, b->hi);
    }
    // An unsigned division by a power of two becomes a mask.
    bound = gen_max(g, bound, gen_i64(g, 0));
    LLVMValueRef tiles = LLVMBuildUDiv(g->b, bound, gen_i64(g, step), "");
    bound = gen_mul(g, tiles, gen_i64(g, step));
    return cond ? LLVMBuildSelect(g->b, cond, bound, gen_i64(g, 0), "") : bound;
}

LLVMValueRef unmasked_end(Emit *e, const Nest *n, int level) {
    Gen *g = e->g;
    const NestAxis *x = &n->axes[level];
    int64_t step = (int64_t)x->tile * x->unit, all = x->full / x->tile * step;
    LLVMValueRef end = NULL;
    for (int i = 0; i < n->full->bounds.n; i++) {
        const LiveBound *b = &n->full->bounds.data[i];
        if (b->level != level) continue;
        if (!b->hi) return gen_i64(g, all);
        end = gen_max(g, end ? end : gen_i64(g, 0), b->hi);
    }
    if (!end) return gen_i64(g, all); // the masks belong to other levels
    end = gen_add(g, gen_min(g, end, gen_i64(g, all)), gen_i64(g, step - 1));
    end = gen_mul(g, LLVMBuildUDiv(g->b, end, gen_i64(g, step), ""), gen_i64(g, step));
    return gen_min(g, end, gen_i64(g, all));
}

LLVMValueRef unmasked_written(Emit *e, const Nest *n, int level) {
    Gen *g = e->g;
    const NestAxis *x = &n->axes[level];
    LLVMValueRef end = NULL, all = gen_i64(g, x->full * x->unit);
    for (int i = 0; i < n->roots.n; i++) {
        const Root *r = &n->roots.data[i];
        if (r->kind != ROOT_STORE) return all;
        const LiveBound *b = NULL;
        const Prepared *p = prepared_of(e, r->op);
        for (int d = 0; d < p->a.n_subs && !(b && b->hi); d++) b = find_bound(n->full, p, d, level);
        if (!b || !b->hi) return all;
        end = end ? gen_max(g, end, b->hi) : b->hi;
    }
    return end ? gen_min(g, end, all) : all;
}

/* ---- asked while a body is emitted --------------------------------------------------------- */

static bool stands_at(const Nest *n, int level, LLVMValueRef at) {
    for (int i = 0; i < n->axes[level].count; i++)
        if (n->axes[level].at[i] == at) return true;
    return false;
}

bool unmasked_kills(const Emit *e, const void *key, int d, LLVMValueRef at) {
    const struct Full *f = e->dead;
    for (int i = 0; f && i < f->bounds.n; i++) {
        const LiveBound *b = &f->bounds.data[i];
        bool along = b->level >= 0 && f->nest->axes[b->level].axis == f->nest->vector;
        if (b->key == key && b->d == d && along && stands_at(f->nest, b->level, at)) return true;
    }
    return false;
}

bool unmasked_covers(const Emit *e, const void *key, int d, LLVMValueRef at) {
    for (const struct Full *f = e->full; f; f = f->outer) {
        for (int i = 0; i < f->bounds.n; i++) {
            const LiveBound *b = &f->bounds.data[i];
            if (b->key != key || b->d != d) continue;
            if (b->level < 0 || stands_at(f->nest, b->level, at)) return true;
        }
    }
    return false;
}
