// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// roles: splits a device into roles, so that an extra warp starts the copies and the others
// multiply.
//
//   for %k { %A = ring_acquire %r, %n; copy_tma ...; ring_commit; %A' = ring_wait %r, %n
//            mma_start; await; ring_release %r, %n }
//   -> roles { for %k { ring_wait; mma_start; await; ring_release } }       8 warps
//            { for %k { ring_acquire; copy_tma ...; ring_commit } }         1 warp
//
// The pass clones the body. The producer keeps the loops, the acquires, copies and commits, and the
// scalars that these depend on; the consumer loses the acquires, copies and commits. So both take
// the same path through the loops, and a ring's items have the same numbers in both. The pass also
// divides the registers between the roles, and orders the fills of rings by the consumer's waits.
#include "passes/gpu/async/async.h"

#include "passes/passes.h"

#include <string.h>

enum {
    PRODUCER_WARPS = 1,
};

enum { CONSUMER, PRODUCER, N_ROLES };

typedef struct RoleSplit {
    PassEnv *env;
    Ir *ir;
    Ctx *ctx;
    Op *device;
    PtrMap seen; // values that the producer can compute, as far as visited
    const char *why;
    int rings;
} RoleSplit;

Op *device_roles(const Op *device) {
    for_each_op(op, device->regions[0]) {
        if (op->code == OP_ROLES) return op;
    }
    return NULL;
}

int role_first_warp(const Op *roles, int i) {
    const int64_t *warps = op_ints(roles, A_ROLE_WARPS)->ints;
    int first = 0;
    for (int k = 0; k < i; k++)
        first += ((int)warps[k] + GPU_GROUP_WARPS - 1) / GPU_GROUP_WARPS * GPU_GROUP_WARPS;
    return first;
}

/* ---- legality ------------------------------------------------------------------------------ */

static bool refuse_roles(RoleSplit *s, const char *why) {
    if (!s->why) s->why = why;
    return false;
}

static bool is_fill(const Op *op) {
    return op->code == OP_RING_ACQUIRE || op->code == OP_RING_COMMIT || op->code == OP_COPY_TMA;
}

static bool is_producers(RoleSplit *s, const Value *v);

static bool are_producers(RoleSplit *s, const Op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (!is_producers(s, operand(op, i))) return false;
    return true;
}

/// Whether the producer can compute carried value i of a loop, or result i of an `if`, from the
/// values that flow into it.
static bool slot_is_producers(RoleSplit *s, const Op *op, int i) {
    for (int r = 0; r < op->n_regions; r++)
        if (!is_producers(s, operand(terminator(op->regions[r]), i))) return false;
    return is_producers(s, operand(op, op->code == OP_FOR ? 2 + i : 0));
}

/// Whether the producer can compute v: it is a scalar that depends neither on a block nor on data
/// that the program writes.
static bool is_producers(RoleSplit *s, const Value *v) {
    if (map_get(&s->seen, v)) return true;
    map_set(s->ctx, &s->seen, v, (void *)(uintptr_t)v);
    const Op *op = v->def ? v->def : v->region->parent;
    if (!v->def && op->code == OP_DEVICE) return true;
    if (op->code == OP_RING_MAKE) return true;
    if (!ty_is_scalar(v->type)) return refuse_roles(s, "a copy depends on a block");
    if (!v->def && op->code == OP_FOR && v->index == 0)
        return is_producers(s, operand(op, 0)) && is_producers(s, operand(op, 1));
    if (op->code == OP_FOR && op->n_regions == 1)
        return slot_is_producers(s, op, v->def ? v->index : v->index - 1);
    if (op->code == OP_IF) return slot_is_producers(s, op, v->index);
    bool reads = op->code == OP_LOAD && !tree_writes(s->device, operand(op, 0));
    if (op->code == OP_DIM || op->code == OP_STRIDE || op->code == OP_ALIGN) return true;
    if (reads) {
        for (int i = 1; i < op->n_operands; i++)
            if (!is_producers(s, operand(op, i))) return false;
        return true;
    }
    if (!op_has(op, PURE) || op->n_regions)
        return refuse_roles(s, "a copy depends on data that the program computes");
    return are_producers(s, op);
}

/// Whether the producer can follow the loops and branches around a fill.
static bool way_is_producers(RoleSplit *s, const Op *fill) {
    for (const Op *op = fill->parent->parent; op != s->device; op = op->parent->parent) {
        if (op->code != OP_FOR && op->code != OP_IF)
            return refuse_roles(s, "it copies in a loop by condition");
        for (int i = 0; i < (op->code == OP_FOR ? 2 : 1); i++)
            if (!is_producers(s, operand(op, i))) return false;
    }
    return true;
}

static bool fill_is_producers(RoleSplit *s, const Op *op) {
    for (int i = 0; i < op->n_operands; i++) {
        const Value *v = operand(op, i);
        bool own = v->def && is_fill(v->def);
        if (own || v->type->kind == TK_RING || v->type->kind == TK_DESC) continue;
        if (!is_producers(s, v)) return false;
    }
    return way_is_producers(s, op);
}

static void judge_role_op(Op *op, void *arg) {
    RoleSplit *s = arg;
    switch (op->code) {
    case OP_RING_MAKE:
        s->rings++;
        if (!ring_is_tma(result(op, 0))) refuse_roles(s, "threads copy what products read");
        break;
    case OP_RING_ACQUIRE:
    case OP_RING_COMMIT:
    case OP_COPY_TMA: fill_is_producers(s, op); break;
    case OP_SIGNAL_WAIT:
    case OP_SIGNAL_SET:
    case OP_COMM_FENCE: refuse_roles(s, "it waits for or tells other ranks"); break;
    case OP_DOT:
        if (gpu_unit_of(op)) refuse_roles(s, "products of warps, not of warpgroups");
        break;
    default: break;
    }
}

/// Only an acquire in a loop lets copies run ahead of the products.
static void seek_looped(Op *op, void *found) {
    *(bool *)found |= op->code == OP_RING_ACQUIRE && op_enclosing(op, OP_FOR);
}

/// Whether shared memory has room for roles. Roles run at the same time, so all buffers are live at
/// once. Rings with several items a tile have two slots. staged: an item holds the results
/// (stage_in_item.c).
static bool has_room_for_roles(const RoleSplit *s, bool staged) {
    int64_t bytes = lowering_bytes(s->ctx, s->device, NULL);
    for_each_op(op, s->device->regions[0]) {
        bool buffer = op->code == OP_BUF_ALLOC;
        if (buffer && !(staged && value_user(result(op, 0), OP_COPYOUT_TMA)))
            bytes += shared_room(buf_bytes(result(op, 0)->type));
        if (op->code != OP_RING_MAKE) continue;
        const Type *ring = result(op, 0)->type;
        const Op *acquire = value_user(result(op, 0), OP_RING_ACQUIRE);
        const Op *loop = acquire ? op_enclosing(acquire, OP_FOR) : NULL;
        bool looped = loop && !op_flag(loop, A_PROGRAM_LOOP); // once a tile: one slot suffices
        int slots = looped ? 2 : 1;
        bytes += shared_room(ring_bytes(ty_ring(s->ir, slots, ring->n_parts, ring->parts)));
    }
    return bytes <= s->env->gpu->shared_cta;
}

static const char *reason_against_roles(RoleSplit *s) {
    bool looped = false;
    op_walk_pre(s->device, judge_role_op, s);
    op_walk_pre(s->device, seek_looped, &looped);
    if (!s->rings || !looped) return "nothing is copied in a loop";
    if (!gpu_roles_have_warps(s->env->gpu, op_int(s->device, A_WARPS, 1)))
        return "its warps are not warpgroups";
    if (!s->why && !has_room_for_roles(s, false) &&
        !(has_room_for_roles(s, true) && stage_in_item(s->env, s->device)))
        return "shared memory has no room for two items of each ring";
    return s->why;
}

/* ---- taking apart -------------------------------------------------------------------------- */

static bool is_control(const Op *op) {
    return op->code == OP_FOR || op->code == OP_IF || op->code == OP_WHILE;
}

/// Erases an op that the role does not keep. The role also loses all uses of its results, as
/// legality has checked. Until they are erased, they use blocks of zeros.
static void erase_with_results(Ir *ir, Op *op) {
    Builder b = build_before(ir, op);
    for (int i = 0; i < op->n_results; i++) {
        Value *v = result(op, i);
        if (!value_has_uses(v)) continue;
        if (v->type->kind != TK_BLOCK) ice(ir_ctx(ir), op->loc, "a role lacks what it uses");
        const Attr *zero = elem_is(v->type->elem, EC_FLOAT) ? at_float(ir, 0) : at_int(ir, 0);
        if (v->type->elem == EL_BOOL) zero = at_bool(ir, false);
        value_replace(v, build_const(&b, v->type, zero));
    }
    op_erase(op);
}

static bool producer_loses(const Op *op) {
    bool effect = op_has(op, EFFECT) || op_writes(op);
    bool buffer = op->n_results && result(op, 0)->type->kind != TK_BLOCK;
    return !is_fill(op) && (effect || buffer);
}

static bool consumer_loses(const Op *op) {
    return is_fill(op);
}

/// Strips from the last op to the first, so that users go before their operands.
static void strip_role(Ir *ir, Region *r, bool (*loses)(const Op *op)) {
    for (Op *op = r->last, *before; op; op = before) {
        before = op->prev;
        if (op_has(op, TERMINATOR)) continue;
        if (is_control(op))
            for (int i = 0; i < op->n_regions; i++) strip_role(ir, op->regions[i], loses);
        else if (loses(op))
            erase_with_results(ir, op);
    }
}

/// Moves rings and buffers to the start: all roles share them.
static void gather_memory(RoleSplit *s) {
    Region *body = s->device->regions[0];
    Op *first = body->first;
    for_each_op_safe(op, body) {
        if (op->code != OP_RING_MAKE && op->code != OP_BUF_ALLOC) continue;
        if (op == first)
            first = first->next;
        else
            op_move_before(op, first);
    }
}

static Op *make_roles(RoleSplit *s) {
    Region *body = s->device->regions[0];
    Builder b = build_before(s->ir, terminator(body));
    Op *roles = build_op(&b, OP_ROLES, 0, NULL, 0, NULL, N_ROLES);
    for (Op *op = body->first, *next; op != roles; op = next) {
        next = op->next;
        if (op->code != OP_RING_MAKE && op->code != OP_BUF_ALLOC)
            op_move_to_end(op, roles->regions[CONSUMER]);
    }
    PtrMap map = {0};
    Builder second = build_at_end(s->ir, roles->regions[PRODUCER], s->device->loc);
    region_clone_body(&second, roles->regions[CONSUMER], &map);
    for (int i = 0; i < N_ROLES; i++) {
        Builder end = build_at_end(s->ir, roles->regions[i], s->device->loc);
        build_yield(&end, 0, NULL);
    }
    for_each_op(op, body) {
        if (op->code == OP_RING_MAKE)
            op_set_int(s->ir, op, A_READER_WARPS, op_int(s->device, A_WARPS, 1));
    }
    strip_role(s->ir, roles->regions[CONSUMER], consumer_loses);
    strip_role(s->ir, roles->regions[PRODUCER], producer_loses);
    return roles;
}

/* ---- order --------------------------------------------------------------------------------- */

/// Returns the op of region r that holds the user, or NULL.
static Op *user_in(const Use *u, const Region *r) {
    Op *op = u->user;
    while (op && op->parent != r) op = op->parent ? op->parent->parent : NULL;
    return op;
}

/// Returns the first op after `op`, in its region, that uses one of the buffers, or NULL.
static Op *first_user(const Op *op, int n, Value *const *bufs) {
    Op *first = NULL;
    for (int i = 0; i < n; i++) for_each_use(u, bufs[i]) {
            Op *user = user_in(u, op->parent);
            if (user && op_before(op, user) && (!first || op_before(user, first))) first = user;
        }
    return first;
}

typedef VEC(Op *) RoleOps;

static void collect_control_ops(Ctx *ctx, Region *r, OpCode code, RoleOps *out) {
    for_each_op(op, r) {
        if (op->code == code) vec_push(ctx, out, op);
        for (int i = 0; is_control(op) && i < op->n_regions; i++)
            collect_control_ops(ctx, op->regions[i], code, out);
    }
}

/// Moves waits, and pads by threads, to the first uses of their buffers. The last pads move first,
/// so that they stay in order. A wait branches, and assemblers order instructions only between
/// branches, which speaks for early waits. But items are in flight for most of an iteration, so
/// late waits are faster: by 2 to 4 % for attention on an H200.
static void sink_waits(RoleSplit *s, Region *r) {
    RoleOps waits = {0}, pads = {0};
    collect_control_ops(s->ctx, r, OP_BUF_PAD, &pads);
    collect_control_ops(s->ctx, r, OP_RING_WAIT, &waits);
    for (int i = pads.n - 1; i >= 0; i--) {
        Value *buf = operand(pads.data[i], 0);
        Op *first = first_user(pads.data[i], 1, &buf);
        if (first) op_move_before(pads.data[i], first);
    }
    for (int i = 0; i < waits.n; i++) {
        Value *bufs[MAX_RANK];
        int n = waits.data[i]->n_results;
        for (int k = 0; k < n && k < MAX_RANK; k++) bufs[k] = result(waits.data[i], k);
        Op *first = first_user(waits.data[i], n, bufs);
        if (first) op_move_before(waits.data[i], first);
    }
}

/// Whether the consumer waits for `other`'s item first, in the same iteration.
static bool comes_first(const Op *acquire, const Op *other) {
    const Op *a = value_user(operand(acquire, 0), OP_RING_WAIT);
    const Op *b = value_user(operand(other, 0), OP_RING_WAIT);
    return a && b && a->parent == b->parent && op_before(b, a);
}

/// Returns the fill that follows this one without a loop or branch between, or NULL.
static Op *next_fill(Op *acquire) {
    for (Op *op = acquire->next; op && !is_control(op); op = op->next)
        if (op->code == OP_RING_ACQUIRE) return op;
    return NULL;
}

/// Moves a whole fill, from its acquire to its commit, after the commit of another one.
static void move_fill(Op *acquire, const Op *behind) {
    const Op *end = value_user(operand(acquire, 0), OP_RING_COMMIT);
    Op *at = value_user(operand(behind, 0), OP_RING_COMMIT)->next;
    for (Op *op = acquire, *next; op; op = next) {
        next = op->next;
        bool last = op == end;
        if (is_fill(op)) op_move_before(op, at);
        if (last) break;
    }
}

/// Swaps two neighbouring fills that are in the wrong order. Returns false if there are none.
static bool order_two(Region *r) {
    for_each_op(op, r) {
        Op *next = op->code == OP_RING_ACQUIRE ? next_fill(op) : NULL;
        if (!next || !comes_first(op, next)) continue;
        move_fill(op, next);
        return true;
    }
    return false;
}

/// Orders the fills like the consumer's waits.
static void order_fills(Region *r) {
    while (order_two(r)) {
    }
    for_each_op(op, r) for (int i = 0; is_control(op) && i < op->n_regions; i++)
        order_fills(op->regions[i]);
}

/* ---- registers ----------------------------------------------------------------------------- */

/// Gives the registers that the producer's warpgroup returns to the consumers. 0: consumers have
/// the maximum from the start.
static void share_registers(RoleSplit *s, Op *roles) {
    int lanes = s->env->gpu->lanes, pool = s->env->gpu->registers_sm;
    int64_t warps = op_int(s->device, A_WARPS, 1), few = GPU_PRODUCER_REGISTERS;
    int64_t all =
        pool / ((warps + GPU_GROUP_WARPS) * lanes) / GPU_REGISTER_UNIT * GPU_REGISTER_UNIT;
    int64_t more = gpu_role_registers(s->env->gpu, warps);
    bool asks = more > all;
    int64_t regs[N_ROLES] = {asks ? more : 0, asks ? few : 0};
    int64_t of_role[N_ROLES] = {warps, PRODUCER_WARPS};
    static const char *const names[N_ROLES] = {"consumer", "producer"};
    op_set_strs(s->ir, roles, A_ROLE_NAMES, names, N_ROLES);
    op_set_ints(s->ir, roles, A_ROLE_WARPS, of_role, N_ROLES);
    if (asks) op_set_ints(s->ir, roles, A_ROLE_REGISTERS, regs, N_ROLES);
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void note_roles(RoleSplit *s, const char *text) {
    op_set_str(s->ir, s->device, A_ROLE_NOTE, text);
}

static void split_into_roles(RoleSplit *s) {
    const char *why = reason_against_roles(s);
    if (why) {
        if (s->rings) note_roles(s, ctx_format(s->ctx, "no warp of its own for copies: %s", why));
        return;
    }
    gather_memory(s);
    Op *roles = make_roles(s);
    share_registers(s, roles);
    sink_waits(s, roles->regions[CONSUMER]);
    order_fills(roles->regions[PRODUCER]);
    const Attr *regs = op_ints(roles, A_ROLE_REGISTERS);
    note_roles(s, regs ? ctx_format(s->ctx,
                                    "a producer warp starts copies (%d registers; others have %d)",
                                    (int)regs->ints[PRODUCER], (int)regs->ints[CONSUMER])
                       : "a producer warp starts copies");
}

void pass_roles(PassEnv *env, Op *module) {
    if (!env->gpu || env->roles <= 0 || !gpu_has(env->gpu, GPU_WGMMA)) return;
    for_each_op(op, module->regions[0]) {
        RoleSplit s = {.env = env, .ir = env->ir, .ctx = ir_ctx(env->ir), .device = op};
        if (op->code == OP_DEVICE) split_into_roles(&s);
    }
    pass_dce(env, module); // removes values that the producer carried only for the consumer
}
