// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predicts from the source IR whether roles.c and skew.c will transform a program, because the cost
// model should price only schedules that the passes will make. The passes decide by counts of
// warps, bytes of shared memory and registers. The prediction estimates these and calls the same
// functions.
//
//   for n { s = dot(q, k[n]); p, state = f(s, state); acc = acc * g + dot(p, v[n]) }
//
// The conditions: TMA copies all operands but p, two or more warpgroups have rows of their own, and
// registers and shared memory hold all blocks that are live at a time. Only products of 16-bit
// elements were measured (H200).
#include "passes/cost/cost.h"
#include "passes/gpu/gpu.h"
#include "passes/model.h"
#include "passes/util.h"

#include <math.h>

enum { MOST_DOTS = 2, MOST_LOADS = 4, MOST_SEEN = 256 };
enum { MOST_BITS = 16, LEAST_ROW = 32 };

typedef struct Chain {
    const GpuTarget *target;
    const Op *program, *loop;
    const Op *dots[MOST_DOTS], *loads[MOST_LOADS]; // the loads of operands
    int n_dots, n_loads;
    double stored;      // bytes of the largest stored block
    const Type *result; // its type
    bool mixed;         // something rules out roles
} Chain;

/* ---- loads and products -------------------------------------------------------------------- */

const Op *gpu_operand_load(const Value *v) {
    const Op *op = v->def;
    if (op && op->code == OP_PERMUTE) op = operand(op, 0)->def;
    return op && op->code == OP_LOAD ? op : NULL;
}

/// Whether TMA can copy the block: at full width, from one place, in rows that fill a panel.
static bool is_copied(const Op *load) {
    Access a = access_of(load);
    const Type *t = a.tensor->type;
    int along = -1;
    for (int d = 0; d < a.n_subs; d++)
        if (a.subs[d].kind == DIM_AXIS && t->strides[d] == 1) along = d;
    if (along < 0 || a.pick_at >= 0) return false;
    int64_t row = a.subs[along].size * elem_info[t->elem].bits / 8;
    return row >= LEAST_ROW && gpu_copy_width(load, &a, along).bytes == GPU_COPY_MOST;
}

static void add_load(Chain *c, const Op *load) {
    for (int i = 0; i < c->n_loads; i++)
        if (c->loads[i] == load) return;
    c->mixed |= c->n_loads == MOST_LOADS || !is_copied(load);
    if (!c->mixed) c->loads[c->n_loads++] = load;
}

static void add_dot(Chain *c, const Op *dot) {
    const Type *a = operand(dot, 0)->type, *b = operand(dot, 1)->type;
    const GpuUnit *unit = gpu_unit_for(c->target, a, b, op_precision(dot));
    const Op *loop = op_enclosing(dot, OP_FOR);
    c->mixed |= !unit || !(unit->features & GPU_WGMMA) || elem_info[a->elem].bits != MOST_BITS;
    c->mixed |= !loop || dot->parent != loop->regions[0] || loop->parent != c->program->regions[0];
    c->mixed |= c->n_dots == MOST_DOTS || (c->loop && c->loop != loop);
    if (c->mixed) return;
    c->loop = loop;
    c->dots[c->n_dots++] = dot;
}

static void look(Op *op, void *arg) {
    Chain *c = arg;
    if (cost_is_dead(op) || c->mixed) return;
    if (op->code == OP_DOT) add_dot(c, op);
    if (op->code != OP_STORE) return;
    const Type *block = access_of(op).value->type;
    if (cost_bytes(block) > c->stored) c->result = block;
    c->stored = fmax(c->stored, cost_bytes(block));
}

/* ---- order of the products ----------------------------------------------------------------- */

typedef struct Seen {
    const Value *v[MOST_SEEN];
    int n;
    bool blocks; // a block that the loop loads counts as state, too
} Seen;

/// Whether v, in the loop, may depend on carried values.
static bool rests_on_state(const Value *v, const Op *loop, Seen *seen) {
    if (!value_is_inside(v, loop)) return false;
    if (!v->def) return v->region != loop->regions[0] || v->index > 0;
    for (int i = 0; i < seen->n; i++)
        if (seen->v[i] == v) return false;
    if (seen->n == MOST_SEEN) return true;
    seen->v[seen->n++] = v;
    if (seen->blocks && v->def->code == OP_LOAD && ty_is_block(v->type)) return true;
    for (int i = 0; i < v->def->n_operands; i++)
        if (rests_on_state(operand(v->def, i), loop, seen)) return true;
    for (int r = 0; r < v->def->n_regions; r++) {
        const Op *end = terminator(v->def->regions[r]);
        if (v->index < end->n_operands && rests_on_state(operand(end, v->index), loop, seen))
            return true;
    }
    return false;
}

/// Whether the product cannot start an iteration early because its sums begin with v: v depends on
/// carried state, which skew.c does not compute earlier.
static bool begins_late(const Chain *c, const Value *v) {
    Seen seen = {.blocks = true};
    return rests_on_state(v, c->loop, &seen);
}

/// Whether the product's operands are loaded, so that it can start an iteration earlier. A block
/// that is added to its result becomes an operand (canonicalize.c).
static bool is_early(const Chain *c, const Op *dot) {
    Seen seen = {.n = 0};
    const Value *sum = result(dot, 0);
    if (dot->n_operands > 2 && begins_late(c, operand(dot, 2))) return false;
    const Op *user = value_has_one_use(sum) ? sum->uses->user : NULL;
    if (user && user->code == OP_ADD && begins_late(c, operand(user, !sum->uses->index)))
        return false;
    return gpu_operand_load(operand(dot, 0)) && !rests_on_state(operand(dot, 0), c->loop, &seen) &&
           !rests_on_state(operand(dot, 1), c->loop, &seen);
}

static void seek_effects(Op *op, void *found) {
    *(bool *)found |= op_has(op, EFFECT) || op_writes(op);
}

/// Whether the loop has one product that can start early, then one of its results, and no effects.
static bool is_chain(Chain *c) {
    bool effects = false;
    if (c->mixed || c->n_dots != MOST_DOTS || !is_early(c, c->dots[0])) return false;
    if (is_early(c, c->dots[1]) || gpu_operand_load(operand(c->dots[1], 0))) return false;
    op_walk_pre((Op *)c->loop, seek_effects, &effects);
    for (int i = 0; i < MOST_DOTS; i++)
        for (int k = i; k < 2; k++) { // the left operand of the second product is computed
            const Op *load = gpu_operand_load(operand(c->dots[i], k));
            if (!load) return false;
            add_load(c, load);
        }
    return !effects && !c->mixed;
}

/* ---- room ---------------------------------------------------------------------------------- */

bool gpu_roles_have_warps(const GpuTarget *t, int64_t warps) {
    return warps % GPU_GROUP_WARPS == 0 && (warps + GPU_GROUP_WARPS) * t->lanes <= GPU_MAX_THREADS;
}

int gpu_role_registers(const GpuTarget *t, int64_t warps) {
    int64_t few = (int64_t)GPU_PRODUCER_REGISTERS * GPU_GROUP_WARPS * t->lanes;
    int64_t more =
        (t->registers_sm - few) / (warps * t->lanes) / GPU_REGISTER_UNIT * GPU_REGISTER_UNIT;
    return more < GPU_GROUP_REGISTERS ? (int)more : GPU_GROUP_REGISTERS;
}

/// Registers of a thread in a skewed loop, besides blocks.
enum { SKEW_REGISTERS = 36 };

bool gpu_skew_has_registers(double words, double limit) {
    return words + SKEW_REGISTERS <= limit;
}

/// Whether registers hold both products' sums, and the second one's left operand.
static bool fits_registers(const Chain *c, const GpuShape *shape) {
    double words = (double)ty_count(result(c->dots[0], 0)->type);
    words += (double)ty_count(result(c->dots[1], 0)->type);
    words += (double)ty_count(operand(c->dots[1], 0)->type) * MOST_BITS / 32;
    double threads = shape->warps * (double)c->target->lanes;
    return gpu_skew_has_registers(words / threads, gpu_role_registers(c->target, shape->warps));
}

enum { SHARED_GAP = 1024 }; // maximum bytes between two buffers

/// Whether the tile loads an item outside the loop that is large enough to hold the tile's results
/// afterwards (stage_in_item.c).
static bool stages_in_item(const Chain *c) {
    for (int i = 0; i < c->n_loads; i++) {
        const Type *item = result(c->loads[i], 0)->type;
        if (c->loads[i]->parent != c->loop->regions[0] && c->result && c->result->rank == 2 &&
            item->elem == c->result->elem && item->extents[0] == c->result->extents[0] &&
            item->extents[1] >= c->result->extents[1])
            return true;
    }
    return false;
}

/// Whether shared memory holds two items of each ring of the loop, `of_tile` items of each load
/// outside the loop, and a tile's results. If the next tile's items are there, too, the results are
/// stored in pieces (split_epilogue.c).
static bool fits_shared(const Chain *c, int of_tile) {
    bool next = of_tile > 1, staged = !next && stages_in_item(c);
    double stored = next ? fmin(c->stored, SHARED_PIECE) : SHARED_SLACK + c->stored;
    double bytes = staged ? 0 : stored;
    for (int i = 0; i < c->n_loads; i++) {
        bool looped = c->loads[i]->parent == c->loop->regions[0];
        int64_t item = (int64_t)cost_bytes(result(c->loads[i], 0)->type);
        bytes += (double)(SHARED_GAP + item * (looped ? 2 : of_tile));
    }
    return bytes <= c->target->shared_cta;
}

GpuRolesFit gpu_roles_fit(const GpuTarget *t, const Op *program, const GpuShape *shape) {
    Chain c = {.target = t, .program = program};
    if (!gpu_has(t, GPU_WGMMA) || !gpu_has(t, GPU_TMA) || !shape->counted) return ROLES_NONE;
    op_walk_pre((Op *)program, look, &c);
    if (!is_chain(&c)) return ROLES_NONE;
    int groups = shape->warps / GPU_GROUP_WARPS;
    double rows = (double)result(c.dots[0], 0)->type->extents[0];
    if (groups < 2 || rows < groups * WARPS_GROUP_ROWS || !gpu_roles_have_warps(t, shape->warps))
        return ROLES_NONE;
    if (!fits_registers(&c, shape) || !fits_shared(&c, 1)) return ROLES_NONE;
    // For these wide heads, CTAs that take many tiles are up to 16 % slower (H200, 192 and 256
    // features).
    if (ty_count(result(c.dots[1], 0)->type) > ty_count(result(c.dots[0], 0)->type))
        return ROLES_WIDE;
    return fits_shared(&c, 2) ? ROLES_PERSIST : ROLES_ONCE;
}
