// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// layouts: assigns each element of each block of a device to registers, lanes and warps.
//
//   %x = load %a ... : f16<64x32>; %d = dot %x, %y, %c [unit="mma.m16n8k16.f16"] : f32<64x64>
//   -> %x = load ... : f16[64x32; reg ...]
//      %u = convert %x : f16[64x32; ... tiles of A ...]
//      %d = dot %u, ... : f32[64x64; ... tiles of D ...]
//
// layout_infer.c finds the natural layouts. Then one walk rewrites the ops. An op gets its natural
// layout and requests each operand in the layout that it needs. A lazy value is rematerialised at
// its use. A value in another layout is converted, or recomputed from its loads if that is cheaper.
// Unused values are dead. If the device should be spread over a cluster, the pass lays out a copy
// on trial (cluster.c).
#include "passes/gpu/layouts.h"

#include "passes/passes.h"
#include "passes/util.h"

#define NEVER 1e30
enum { CHEAP = 10, MAX_DEPTH = 24 };

/// A value that exists in another layout.
typedef struct MadeLayout {
    const Layout *layout;
    Value *value;
    struct MadeLayout *next;
} MadeLayout;

/// The cost of a conversion from a layout.
typedef struct Move {
    const Layout *to;
    int bits; // of an element
    double cost;
    struct Move *next;
} Move;

/* ---- costs --------------------------------------------------------------------------------- */

/// Instructions per element to compute a lazy value.
static double lazy_weight(const Layouts *s, const Value *v, int depth) {
    if (!v->def || !v->type->rank || natural_of(s, v).layout) return 0;
    if (depth == 0) return CHEAP + 1;
    double sum = op_info[v->def->code].cost.layout;
    for (int i = 0; i < v->def->n_operands && sum <= CHEAP; i++)
        sum += lazy_weight(s, operand(v->def, i), depth - 1);
    return sum;
}

/// The issue slots of a conversion. The result is kept, since the same pairs recur and the search
/// for an intermediate layout is slow.
static double convert_slots(Layouts *s, const Value *v, const Layout *from, const Layout *to) {
    if (from == to) return 0;
    int bits = elem_info[v->type->elem].bits;
    if (bits < 8) bits = 8;
    Move *first = map_get(&s->moves, from);
    for (const Move *m = first; m; m = m->next)
        if (m->to == to && m->bits == bits) return m->cost;
    Move *m = ctx_new(s->ctx, Move);
    *m = (Move){to, bits, layout_convert(from, to, bits).cost, first};
    map_set(s->ctx, &s->moves, from, m);
    return m->cost;
}

static double cost_in(Layouts *s, const Value *v, const Layout *l, int depth);

/// The cost of recomputing op's result in l, minus the cost of the old result if that becomes dead.
static double again_cost(Layouts *s, const Op *op, const Layout *l, int depth) {
    const Value *v = result(op, 0);
    const Layout *natural = natural_of(s, v).layout;
    bool moves = natural && value_has_one_use(v); // the old result becomes dead
    double sum = op_info[op->code].cost.layout * (double)layout_registers(l);
    if (moves) sum -= op_info[op->code].cost.layout * (double)layout_registers(natural);
    if (op->code == OP_LOAD && s->fixed_loads) return NEVER;
    if (op->code == OP_LOAD) sum += access_cost(op, l) - (moves ? access_cost(op, natural) : 0);
    for (int i = 0; i < op->n_operands; i++) {
        const Value *x = operand(op, i);
        if (!ty_is_block(x->type) || !x->type->rank) continue;
        const Layout *lx = operand_layout(s, op, i, l);
        if (!lx) return NEVER;
        sum += cost_in(s, x, lx, depth - 1);
    }
    return sum;
}

static bool can_be_again(const Op *op, int depth) {
    return op && depth > 0 && op->n_results == 1 && (is_free(op) || op->code == OP_LOAD);
}

static double cost_in(Layouts *s, const Value *v, const Layout *l, int depth) {
    Natural n = natural_of(s, v);
    if (n.layout == l || !v->type->rank) return 0;
    double best = n.layout ? convert_slots(s, v, n.layout, l) : NEVER;
    if (best > 0 && can_be_again(v->def, depth)) {
        double again = again_cost(s, v->def, l, depth);
        if (again < best) best = again;
    }
    return best;
}

/* ---- making values ------------------------------------------------------------------------- */

/// Returns the op before which a value made from v for `user` stands: the outermost loop between
/// the two, else `user`.
static Op *latest_place(const Value *v, Op *user) {
    const Region *home = v->def ? v->def->parent : v->region;
    Op *place = user;
    for (Op *at = user; at->parent != home;) {
        at = at->parent->parent;
        if (op_is_loop(at)) place = at;
    }
    return place;
}

static bool dominates_user(const Value *v, const Op *user) {
    const Op *at = user;
    const Region *home = v->def->parent;
    while (at->parent != home) {
        if (at->parent->parent->code == OP_DEVICE) return false;
        at = at->parent->parent;
    }
    return op_before(v->def, at);
}

static Value *find_made(Layouts *s, const Value *v, const Layout *l, const Op *user, bool here) {
    for (const MadeLayout *m = map_get(&s->made, v); m; m = m->next)
        if (m->layout == l && dominates_user(m->value, user) &&
            (!here || m->value->def->parent == user->parent))
            return m->value;
    return NULL;
}

static void add_made(Layouts *s, const Value *v, const Layout *l, Value *value) {
    MadeLayout *m = ctx_new(s->ctx, MadeLayout);
    *m = (MadeLayout){l, value, map_get(&s->made, v)};
    map_set(s->ctx, &s->made, v, m);
}

static Value *need_in_layout(Layouts *s, Value *v, const Layout *l, Op *user);

/// Clones the op that computes v before `at`, with the result in l.
static Value *recompute_in_layout(Layouts *s, Value *v, const Layout *l, Op *at) {
    Op *op = v->def;
    Value **in = ctx_array(s->ctx, Value *, op->n_operands + 1);
    for (int i = 0; i < op->n_operands; i++) {
        in[i] = operand(op, i);
        if (!ty_is_block(in[i]->type) || !in[i]->type->rank) continue;
        const Layout *lx = operand_layout(s, op, i, l);
        if (!lx) lx = natural_of(s, in[i]).layout; // a reshape that moves elements between threads
        in[i] = need_in_layout(s, in[i], lx ? lx : default_layout(s, in[i]->type), at);
    }
    Builder b = build_before(s->ir, at);
    b.loc = op->loc;
    const Type *type = ty_laid(s->ir, v->type->elem, l);
    Op *copy = build_op(&b, op->code, op->n_operands, in, 1, &type, 0);
    for (int i = 0; i < op->n_attrs; i++)
        op_set_attr(s->ir, copy, op->attrs[i].id, op->attrs[i].value);
    result(copy, 0)->name = v->name;
    return result(copy, 0);
}

static Value *convert_layout(Layouts *s, Value *v, const Layout *l, Op *at) {
    Builder b = build_before(s->ir, at);
    const Type *type = ty_laid(s->ir, v->type->elem, l);
    return result(build_op(&b, OP_CONVERT, 1, &v, 1, &type, 0), 0);
}

/// Returns v in layout l, for use by `user`.
static Value *need_in_layout(Layouts *s, Value *v, const Layout *l, Op *user) {
    if (!ty_is_block(v->type) || !v->type->rank || v->type->layout == l) return v;
    const Layout *natural = natural_of(s, v).layout;
    bool cheap = !natural && lazy_weight(s, v, MAX_DEPTH) <= CHEAP;
    Value *made = find_made(s, v, l, user, cheap);
    if (made) return made;
    double move = natural ? convert_slots(s, v, natural, l) : NEVER;
    bool anew = !natural || (move > 0 && can_be_again(v->def, MAX_DEPTH) &&
                             again_cost(s, v->def, l, MAX_DEPTH) < move);
    // A recomputed load stays at the place of the old one. A cheap value is made at its use, so
    // that its live range is short.
    Op *at = cheap ? user : anew && v->def ? v->def->next : latest_place(v, user);
    Value *out = anew ? recompute_in_layout(s, v, l, at) : convert_layout(s, v, l, at);
    add_made(s, v, l, out);
    return out;
}

static void need_operand(Layouts *s, Op *op, int i, const Layout *l) {
    Value *v = operand(op, i);
    if (ty_is_block(v->type) && v->type->rank) op_set_operand(op, i, need_in_layout(s, v, l, op));
}

/// Requests operand i in its natural layout, or in the default one.
static void need_any(Layouts *s, Op *op, int i) {
    Natural n = natural_of(s, operand(op, i));
    const Type *t = operand(op, i)->type;
    if (ty_is_block(t) && t->rank)
        need_operand(s, op, i, n.layout ? n.layout : default_layout(s, t));
}

static void lay_value(Layouts *s, Value *v, const Layout *l) {
    if (ty_is_block(v->type) && v->type->rank) v->type = ty_laid(s->ir, v->type->elem, l);
}

/* ---- ops ----------------------------------------------------------------------------------- */

static void visit_laid_region(Layouts *s, Region *r);

static void visit_loop(Layouts *s, Op *op) {
    int body = op->code == OP_WHILE, first = loop_first_init(op);
    for (int i = 0; i < op->n_results; i++) {
        const Layout *l = natural_of(s, result(op, i)).layout;
        if (!result(op, i)->type->rank) continue;
        need_operand(s, op, first + i, l);
        for (int r = 0; r <= body; r++) lay_value(s, loop_arg(op, r, i), l);
    }
    for (int r = 0; r < op->n_regions; r++) visit_laid_region(s, op->regions[r]);
    for (int i = 0; i < op->n_results; i++) {
        const Layout *l = natural_of(s, result(op, i)).layout;
        if (l) need_operand(s, terminator(op->regions[body]), i, l);
        lay_value(s, result(op, i), l);
    }
}

static void visit_if(Layouts *s, Op *op) {
    for (int r = 0; r < 2; r++) {
        visit_laid_region(s, op->regions[r]);
        for (int i = 0; i < op->n_results; i++) {
            const Layout *l = natural_of(s, result(op, i)).layout;
            if (l) need_operand(s, terminator(op->regions[r]), i, l);
        }
    }
    for (int i = 0; i < op->n_results; i++)
        lay_value(s, result(op, i), natural_of(s, result(op, i)).layout);
}

/// Stores the value in its natural layout, or in the layout that suits memory if that is cheaper.
static void visit_store(Layouts *s, Op *op) {
    Value *v = operand(op, 1);
    Access a = access_of(op);
    const Layout *natural = natural_of(s, v).layout, *best = natural;
    if (a.rank) {
        const Layout *walked = access_layout(s, op);
        if (!natural ||
            access_cost(op, walked) + cost_in(s, v, walked, MAX_DEPTH) < access_cost(op, natural))
            best = walked;
    }
    for (int i = 1; i < op->n_operands; i++)
        if (ty_is_block(operand(op, i)->type) && operand(op, i)->type->rank)
            need_operand(s, op, i, operand_layout(s, op, i, best));
}

static void visit_dot(Layouts *s, Op *op) {
    DotLayouts d = dot_layouts(s, op);
    const Layout *wanted[] = {d.a, d.b, d.d};
    for (int i = 0; i < op->n_operands; i++) {
        s->fixed_loads = i < 2; // such loads become asynchronous copies to shared memory
        if (wanted[i])
            need_operand(s, op, i, wanted[i]);
        else
            need_any(s, op, i);
    }
    s->fixed_loads = false;
    lay_value(s, result(op, 0), d.d);
}

/// For ops whose operands share one layout.
static void visit_whole(Layouts *s, Op *op) {
    const Layout *l = NULL;
    double most = -1;
    for (int i = 0; i < op->n_operands; i++) {
        Natural n = natural_of(s, operand(op, i));
        if (n.layout && n.weight > most) {
            l = n.layout;
            most = n.weight;
        }
    }
    if (!l) l = default_layout(s, operand(op, 0)->type);
    for (int i = 0; i < op->n_operands; i++) need_operand(s, op, i, l);
    for (int i = 0; i < op->n_results; i++)
        lay_value(s, result(op, i),
                  op->code == OP_REDUCE && result(op, i)->type->rank
                      ? layout_slice(s->ctx, l, (int)op_int(op, A_AXIS, 0), false)
                      : l);
}

static void visit_gather(Layouts *s, Op *op) {
    const Layout *l = natural_of(s, result(op, 0)).layout;
    need_any(s, op, 0);
    need_operand(s, op, 1, l);
    lay_value(s, result(op, 0), l);
}

/// For ops whose operands' layouts follow from that of the result.
static void visit_mapped(Layouts *s, Op *op, const Layout *l) {
    for (int i = 0; i < op->n_operands; i++) {
        Value *v = operand(op, i);
        if (!ty_is_block(v->type) || !v->type->rank) continue;
        const Layout *lx = operand_layout(s, op, i, l);
        // Slices and concatenations take parts of any layout.
        bool part = op->code == OP_SLICE || op->code == OP_CONCAT || !lx;
        if (part && (op->code != OP_CONCAT || !lx)) lx = natural_of(s, v).layout;
        need_operand(s, op, i, lx ? lx : default_layout(s, v->type));
    }
    lay_value(s, result(op, 0), l);
}

static void visit_laid_op(Layouts *s, Op *op) {
    switch (op->code) {
    case OP_FOR:
    case OP_WHILE: visit_loop(s, op); return;
    case OP_IF: visit_if(s, op); return;
    case OP_YIELD: return;
    case OP_STORE: visit_store(s, op); return;
    case OP_DOT: visit_dot(s, op); return;
    case OP_REDUCE:
    case OP_SCAN:
    case OP_SORT: visit_whole(s, op); return;
    case OP_GATHER: visit_gather(s, op); return;
    default: break;
    }
    const Layout *l = op->n_results ? natural_of(s, result(op, 0)).layout : NULL;
    if (op->code == OP_HISTOGRAM || !op->n_results) { // histogram, assert, print
        for (int i = 0; i < op->n_operands; i++)
            if (op->code == OP_HISTOGRAM && i > 0)
                need_operand(s, op, i, operand(op, 0)->type->layout);
            else
                need_any(s, op, i);
        if (l) lay_value(s, result(op, 0), l);
    } else if (l) {
        visit_mapped(s, op, l);
    } else if (!is_free(op) || !result(op, 0)->type->rank) {
        for (int i = 0; i < op->n_operands; i++) need_any(s, op, i);
    }
}

static void visit_laid_region(Layouts *s, Region *r) {
    for_each_op_safe(op, r) visit_laid_op(s, op);
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void lay_out_device(PassEnv *env, Op *device, GpuShape shape) {
    Layouts *s = ctx_new(ir_ctx(env->ir), Layouts);
    *s = (Layouts){.env = env,
                   .ir = env->ir,
                   .ctx = ir_ctx(env->ir),
                   .device = device,
                   .lane_bits = gpu_lane_bits(env->gpu),
                   .warp_bits = __builtin_ctz((unsigned)shape.warps),
                   .cta_bits = __builtin_ctz((unsigned)shape.cluster)};
    op_set_int(env->ir, device, A_WARPS, shape.warps);
    if (shape.cluster > 1) op_set_int(env->ir, device, A_CLUSTER, shape.cluster);
    infer_layouts(s);
    visit_laid_region(s, device->regions[0]);
}

/// Lays out a copy on trial. Returns false, with the device unchanged, if elements would have to
/// move between CTAs.
static bool spread_over_cluster(PassEnv *env, Op *device, GpuShape shape) {
    PtrMap map = {0};
    Builder b = build_before(env->ir, device);
    Op *trial = op_clone(&b, device, &map);
    lay_out_device(env, trial, shape);
    bool good = !find_crossing(ir_ctx(env->ir), trial);
    op_erase(good ? device : trial);
    return good;
}

static void choose_and_lay_out(PassEnv *env, Op *device) {
    GpuShape shape = choose_shape(env, device);
    if (shape.cluster > 1 && spread_over_cluster(env, device, shape)) return;
    PassEnv alone = *env;
    alone.cluster = 1;
    lay_out_device(env, device, choose_shape(&alone, device));
}

void pass_layouts(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op_safe(op, module->regions[0]) {
        if (op->code == OP_DEVICE) choose_and_lay_out(env, op);
    }
    pass_dce(env, module);
}
