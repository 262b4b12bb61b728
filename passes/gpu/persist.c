// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// persist: launches one CTA an SM. Each CTA processes tile after tile, so that the start of a tile
// overlaps with the end of the previous one (see `schedule`).
//
//   device { (%program, ...) body }                           dispatch %n, ... [device=...]
//   -> device { (%program, ..., %n) for %tile = %program .. %n by 132 { body } }
//      dispatch min(%n, 132), ..., %n
//
// The pass applies only to products with tiles so large that an SM holds one at a time anyway.
// Smaller tiles share an SM, and one computes while the other waits.
//
// A tile that is stored at another rank is signalled when it has arrived, which takes a while. If
// nothing in this phase waits for the signal (`deferrable`), it is raised after the products of
// the next tile, before the stores of that tile:
//
//   for %tile { dot; store %stage, ...; signal_set %flags, ..., %r, %part [deferrable=true] }
//   -> %r', %part' = for %tile (%q = -1, %was = -1) {
//        dot; signal_set %flags, ..., %q, %was; store %stage, ...; yield %r, %part }
//      signal_set %flags, ..., %r', %part'
#include "passes/cost/cost.h"
#include "passes/gpu/gpu.h"

#include "passes/passes.h"
#include "passes/util.h"

#include <limits.h>
#include <string.h>

enum { LEAST_SUMS = 128 * 192 }; // least elements of a product's result

typedef struct DeviceSearch {
    int dots, loops, others, effects, prompt;
    int64_t sums;
} DeviceSearch;

/// Whether the op adds a block of results to memory where a store would write it.
static bool is_atomic_sum(const Op *op) {
    return op_update(op) == UPDATE_ADD && access_of(op).rank == 2 && !value_has_uses(result(op, 0));
}

static void look_at_device_op(Op *op, void *arg) {
    DeviceSearch *s = arg;
    if (cost_is_dead(op)) return;
    if (op->code == OP_DOT) {
        s->dots++;
        s->sums = ty_count(result(op, 0)->type);
    }
    s->loops += op_is_loop(op);
    s->prompt += op->code == OP_COMM_FENCE;
    s->prompt += op->code == OP_SIGNAL_SET && !op_flag(op, A_DEFERRABLE);
    s->effects += op->code == OP_PRINT || (op->code == OP_ATOMIC && !is_atomic_sum(op));
    s->others += op->code == OP_IF;
}

/// Whether CTAs may take several tiles: a program is one loop with one product. Unless `always`,
/// results must be large, and a signal that may not be deferred forbids several tiles: the CTA
/// would wait until its store over the link has arrived. A CTA with a single tile ends instead, and
/// makes room for the next CTA.
static bool may_persist(const GpuTarget *t, const Op *root, bool always) {
    DeviceSearch s = {0};
    if (!gpu_has(t, GPU_TMA)) return false;
    op_walk_pre((Op *)root, look_at_device_op, &s);
    return s.dots == 1 && s.loops == 1 && !s.others && !s.effects &&
           (always || (s.sums >= LEAST_SUMS && !s.prompt));
}

/// Whether a device with roles may persist. An extra warp copies the next tile's operands ahead, so
/// the code of the warps that multiply may have branches and chains of products.
static bool may_persist_in_roles(const PassEnv *env, const Op *root) {
    DeviceSearch s = {0};
    if (env->roles <= 0 || env->persistent <= 0 || !gpu_has(env->gpu, GPU_WGMMA)) return false;
    op_walk_pre((Op *)root, look_at_device_op, &s);
    return s.dots > 0 && s.loops == 1 && !s.effects && !s.prompt;
}

bool gpu_persists(const GpuTarget *t, const Op *root, int persistent) {
    return persistent >= 0 && may_persist(t, root, persistent > 0);
}

typedef struct DispatchSearch {
    const char *name;
    Op *found;
    int n;
} DispatchSearch;

static void find_only_dispatch(Op *op, void *arg) {
    DispatchSearch *f = arg;
    if (op->code != OP_DISPATCH || strcmp(op_str(op, A_DEVICE), f->name) != 0) return;
    f->found = op;
    f->n++;
}

/// Whether op may stay before the loop: it computes the same for all tiles.
static bool is_common_to_tiles(const Op *op, const Op *loop, const Value *program) {
    bool reads = op_is_load(op) && ty_is_scalar(result(op, 0)->type) &&
                 !tree_writes(op_enclosing(op, OP_DEVICE), operand(op, 0));
    if ((!op_has(op, PURE) && !reads) || op->n_regions) return false;
    for (int i = 0; i < op->n_operands; i++)
        if (operand(op, i) == program || value_is_inside(operand(op, i), loop)) return false;
    return true;
}

/* ---- signals of the tile before ------------------------------------------------------------ */

enum { SIGNAL_VALUE = 1, SIGNAL_FIRST = 2 }; // operands; coordinates follow

static Op *late_signal(Op *device) {
    for_each_op(op, device->regions[0]) {
        if (op->code == OP_SIGNAL_SET && op_flag(op, A_DEFERRABLE)) return op;
    }
    return NULL;
}

/// Returns the first op of the region that writes a tensor.
static Op *first_write(const Region *r) {
    for_each_op(op,
                r) if (op_is_access(op) && op->code != OP_LOAD && op->code != OP_LIVE) return op;
    return NULL;
}

/// Returns the loop with iterations that raise the previous iteration's signal. Before the first
/// tile the coordinates are -1: a signal outside of its words is not raised.
static Op *carry_signal(Ir *ir, Op *loop, Op *set) {
    Region *body = loop->regions[0];
    const Type *types[MAX_RANK];
    Value *now[MAX_RANK], *last[SIGNAL_FIRST + MAX_RANK];
    int n = set->n_operands - SIGNAL_FIRST;
    for (int i = 0; i < n; i++) {
        now[i] = operand(set, SIGNAL_FIRST + i);
        types[i] = now[i]->type;
    }
    loop = op_add_results(ir, loop, n, types);
    Builder before = build_before(ir, loop);
    for (int i = 0; i < set->n_operands; i++) last[i] = operand(set, i);
    for (int i = 0; i < n; i++) {
        op_add_operand(ir, loop, build_index(&before, -1));
        op_set_operand(set, SIGNAL_FIRST + i, region_add_arg(ir, body, types[i], now[i]->name));
        op_add_operand(ir, terminator(body), now[i]);
        last[SIGNAL_FIRST + i] = result(loop, i);
    }
    op_move_before(set, first_write(body));
    Builder after = build_after(ir, loop);
    Op *end = build_op(&after, OP_SIGNAL_SET, set->n_operands, last, 0, NULL, 0);
    for (int i = 0; i < set->n_attrs; i++)
        op_set_attr(ir, end, set->attrs[i].id, set->attrs[i].value);
    return loop;
}

/* ---- the loop ------------------------------------------------------------------------------ */

/// Returns the number of CTAs, which is the step from tile to tile. If CTAs send tiles to the ranks
/// in turn, each CTA should reach all ranks, so the step is no multiple of 2 or 3, the factors of
/// usual numbers of ranks. Pairs of programs send nothing and stay together.
static int programs_a_round(const PassEnv *env, Op *device) {
    int n = env->gpu->sms;
    if (op_flag(device, A_MULTICAST)) return n - n % GPU_PAIR;
    while (late_signal(device) && n > 1 && (n % 2 == 0 || n % 3 == 0)) n--;
    return n;
}

/// Returns one program an SM, or one a tile if tiles are fewer. If tiles exceed the limit on
/// programs of a launch, returns their number, so that the launch is refused: code that computes
/// with numbers of programs relies on that limit.
static Value *programs_for(Builder *host, Value *tiles, int sms) {
    Value *most = build_index(host, INT_MAX);
    Value *few = ix_min(host, tiles, build_index(host, sms));
    return build_select(host, build_binary(host, OP_GT, tiles, most), tiles, few);
}

static void make_loop(PassEnv *env, Op *device, Op *dispatch) {
    Ir *ir = env->ir;
    Region *body = device->regions[0];
    Value *program = body->args[0], *count = operand(dispatch, 0);
    int round = programs_a_round(env, device);
    Op *set = late_signal(device);
    Builder host = build_before(ir, dispatch), b = build_before(ir, body->first);
    op_add_operand(ir, dispatch, count);
    op_set_operand(dispatch, 0, programs_for(&host, count, round));
    Value *total = region_add_arg(ir, body, count->type, "tiles");
    Op *loop = build_programs(&b, program, total, round, 0, NULL);
    Value *tile = region_add_arg(ir, loop->regions[0], program->type, "tile");
    for (Op *op = loop->next, *next; op && !op_has(op, TERMINATOR); op = next) {
        next = op->next;
        if (is_common_to_tiles(op, loop, program))
            op_move_before(op, loop);
        else
            op_move_to_end(op, loop->regions[0]);
    }
    Builder end = build_at_end(ir, loop->regions[0], device->loc);
    build_yield(&end, 0, NULL);
    value_replace(program, tile);
    op_set_operand(loop, 0, program);
    if (set) loop = carry_signal(ir, loop, set);
}

void pass_persist(PassEnv *env, Op *module) {
    if (!env->gpu) return;
    for_each_op(op, module->regions[0]) {
        if (op->code != OP_DEVICE) continue;
        if (!gpu_persists(env->gpu, op, env->persistent) && !may_persist_in_roles(env, op))
            continue;
        if (!gpu_persists(env->gpu, op, env->persistent))
            op_set_flag(env->ir, op, A_DYNAMIC_TILES, true);
        DispatchSearch f = {.name = op_str(op, A_NAME)};
        op_walk_pre(module, find_only_dispatch, &f);
        if (f.n == 1) make_loop(env, op, f.found);
    }
}
