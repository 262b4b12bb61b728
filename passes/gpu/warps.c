// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses the warps of a CTA: enough that its blocks fit into registers, and few enough that each
// thread has elements for wide accesses. Rows that exceed one CTA are spread over a cluster of
// CTAs.
#include "passes/cost/cost.h"
#include "passes/gpu/layouts.h"
#include "passes/model.h"

#include <math.h>

/// Sizes that a walk over a program finds, in registers of all threads unless noted. An element of
/// up to 32 bits takes one register.
typedef struct RegisterSizes {
    const GpuTarget *target;
    double sums, widest; // of all results of products; of the largest block
    double moved;        // bytes of the largest load or store
    double operands;     // words of a warp for right operands in registers
    double split;        // words of operands that products take in two parts
    double held, staged; // words of operands of FMAs and AMD's units: live throughout; loaded in
                         // the loop
    double kept;         // words of left operands of NVIDIA's units from outside the loop
    double wide_kept;    // ... of products of f64
    double singles;      // operands' elements that are loaded one by one, narrower than a register
    int dots;
    bool groups;          // some products are of warpgroups
    bool narrow;          // ... of 8-bit elements
    bool beside_products; // loads of two-axis blocks that do not only feed products
    double height;        // of the highest product
    double fragments;     // registers of AMD's products for their fragments, besides the base
    double reduced;       // of the largest reduced block, which has `rows` rows of `row`
    double rows, row;
    double words;     // of all operands of that reduction
    double across;    // words that are loaded before a reduction and live after it
    double beside;    // registers of all such loads
    double once;      // ... of loads before a loop
    double carried;   // ... of carried values, and of values that programs combine
    double stored;    // of the largest store
    double picked;    // positions of a gather
    double scattered; // elements of the largest store to such positions
    int meetings;     // reductions
    int chain;        // elementwise ops of f64 on blocks, to which math functions expand
    bool doubles;     // f64 is stored; its functions take as many registers again
    bool lines;       // reductions are of rows, not of one block of elements
    bool joins;       // reductions join several blocks at once, so each element takes more
                      // registers
    int cluster;      // CTAs that share each block
} RegisterSizes;

static int registers_each(const Type *t) {
    return elem_info[t->elem].bits > 32 ? 2 : 1;
}

static double registers_in(const Type *t) {
    return (double)ty_count(t) * registers_each(t);
}

/// Returns the registers of packed elements. Bools take none.
static double packed_words(const Type *t) {
    return t->elem == EL_BOOL ? 0 : (double)ty_count(t) * elem_info[t->elem].bits / 32;
}

/// Returns the registers of a block in a layout of AMD's units, whose extents are powers of two.
static double held_words(const Type *t) {
    double words = packed_words(t);
    for (int d = 0; d < t->rank; d++)
        words *= exp2(ceil(log2((double)t->extents[d]))) / (double)t->extents[d];
    return words;
}

static void measure_rows(RegisterSizes *z, const Op *op) {
    const Type *t = operand(op, 0)->type;
    double n = registers_in(t);
    double row = (double)t->extents[op_int(op, A_AXIS, 0)] * registers_each(t);
    if (n <= z->reduced) return;
    z->reduced = n;
    z->lines = t->rank > 1;
    z->row = row;
    z->rows = n / row;
    z->words = 0;
    for (int i = 0; i < op->n_operands; i++) z->words += packed_words(operand(op, i)->type);
}

/// Whether the op starts a product, rather than continue another one's sums.
static bool begins_product(const Op *op) {
    const Op *sum = operand(op, 2)->def;
    return !sum || (sum->code != OP_MMA_START && sum->code != OP_AWAIT);
}

/// Returns the op that computes v, looking through casts, permutes and conversions.
static const Op *origin_op(const Value *v) {
    while (v->def &&
           (v->def->code == OP_PERMUTE || v->def->code == OP_CAST || v->def->code == OP_CONVERT))
        v = operand(v->def, 0);
    return v->def;
}

/// Returns the load that an operand comes from, if it stands in the product's region; else NULL.
static const Op *loaded_beside(const Value *v, const Op *dot) {
    const Op *op = origin_op(v);
    bool loaded = op && (op->code == OP_LOAD || op->code == OP_BUF_LOAD);
    return loaded && op->parent == dot->parent ? op : NULL;
}

/// Measures operands of AMD's products and FMAs. Blocks that are loaded in the loop come from
/// shared memory and pass through registers; other operands stay in registers. On gfx11 both halves
/// of a wave hold the same operand.
static void measure_operands(RegisterSizes *z, const Op *op, const GpuUnit *unit) {
    bool wmma = unit && unit->features & GPU_WMMA, twice = wmma && unit->generations == GPU_RDNA3;
    if (!unit || wmma)
        z->fragments = fmax(z->fragments, twice ? 2 * WARPS_FRAGMENTS : WARPS_FRAGMENTS);
    for (int i = 0; i < 2; i++) {
        double words = held_words(operand(op, i)->type);
        if (loaded_beside(operand(op, i), op))
            z->staged += words;
        else
            z->held += twice ? 2 * words : words;
    }
}

/// Returns the elements of a load whose axes are not contiguous in memory. No copy moves single
/// elements.
static double single_elements(const Op *load) {
    if (!load || load->code != OP_LOAD) return 0;
    Access a = access_of(load);
    const Type *t = result(load, 0)->type;
    bool single = a.pick_at < 0 && elem_info[t->elem].bits < 32;
    for (int d = 0; d < a.n_subs; d++)
        single &= a.subs[d].kind != DIM_AXIS || a.tensor->type->strides[d] != 1;
    return single ? (double)ty_count(t) : 0;
}

static void measure_dot(RegisterSizes *z, const Op *op) {
    const GpuUnit *unit = gpu_unit_of(op);
    if (!op_attr(op, ATTR_UNIT))
        unit =
            gpu_unit_for(z->target, operand(op, 0)->type, operand(op, 1)->type, op_precision(op));
    // A chain adds its sums to others, which take registers, too.
    bool chained = unit && gpu_chain(z->target, unit) && !(unit->features & GPU_WGMMA);
    bool three = gpu_in_three(op_precision(op));
    int parts = chained || three ? 2 : 1;
    const Type *sum = result(op, 0)->type;
    if (sum->kind == TK_PENDING) sum = ty_promised(sum);
    bool amd = gpu_has_any(z->target, GPU_AMD);
    double each = registers_each(sum) > 1 ? WARPS_WIDE_SUM : 1;
    z->sums += parts * (amd ? held_words(sum) : each * (double)ty_count(sum));
    z->groups |= unit && unit->features & GPU_WGMMA;
    z->narrow |= elem_info[operand(op, 0)->type->elem].bits == 8;
    z->height = fmax(z->height, (double)sum->extents[0]);
    z->dots++;
    double words = packed_words(operand(op, 1)->type);
    if (three)
        z->split += packed_words(operand(op, 0)->type) + words;
    else if (unit && !(unit->features & GPU_WGMMA) && words > z->operands)
        z->operands = words;
    for (int i = 0; i < 2; i++) z->singles += single_elements(loaded_beside(operand(op, i), op));
    if (amd || !unit) measure_operands(z, op, unit);
    const Op *left = origin_op(operand(op, 0));
    bool mma = !amd && unit && !(unit->features & GPU_WGMMA);
    if (!mma || !left || left->parent == op->parent) return;
    double kept = packed_words(operand(op, 0)->type);
    if (registers_each(sum) > 1)
        z->wide_kept += kept;
    else
        z->kept += kept;
}

static bool feeds_products(const Value *v) {
    for_each_use(u, v) {
        const Op *op = u->user;
        bool turned = op->code == OP_PERMUTE || op->code == OP_CONVERT;
        if (!(op->code == OP_DOT && u->index < 2) && !(turned && feeds_products(result(op, 0))))
            return false;
    }
    return true;
}

/// Returns the positions of a gather with two coordinates each. A third coordinate counts as half a
/// position.
static double gathered_positions(const Op *load) {
    Access a = access_of(load);
    double n = a.pick_at >= 0 ? 1 : 0, picks = 0;
    for (int i = 0; a.pick_at >= 0 && i < a.pick_rank; i++)
        n *= (double)result(load, 0)->type->extents[a.pick_at + i];
    for (int d = 0; d < a.n_subs; d++) picks += a.subs[d].kind == DIM_PICK;
    return n * fmax(2, picks) / 2;
}

/// Whether v, or a value that a few lanewise ops make from it, is used after op in op's region.
static bool lives_behind(const Value *v, const Op *op, int depth) {
    for_each_use(u, v) {
        const Op *user = u->user;
        while (user && user->parent != op->parent)
            user = user->parent ? user->parent->parent : NULL;
        if (!user || user == op) continue;
        if (op_before(op, user)) return true;
        bool same = op_has(user, ELEMENTWISE) || user->code == OP_CAST || user->code == OP_SELECT;
        if (depth && same && lives_behind(result(user, 0), op, depth - 1)) return true;
    }
    return false;
}

/// Measures the loaded blocks that live across the reduction: their registers, and the words of
/// those blocks that are at least as large as the reduced one.
static void measure_across(RegisterSizes *z, const Op *reduce) {
    int64_t least = ty_count(operand(reduce, 0)->type);
    double words = 0, registers = 0;
    for (const Op *op = reduce->prev; op; op = op->prev) {
        if (op->code != OP_LOAD || cost_is_dead(op)) continue;
        const Type *t = result(op, 0)->type;
        if (!lives_behind(result(op, 0), reduce, WARPS_FEW_OPS)) continue;
        registers += registers_in(t);
        if (ty_count(t) >= least) words += (double)ty_count(t) * elem_info[t->elem].bits / 32;
    }
    z->across = fmax(z->across, words);
    z->beside = fmax(z->beside, registers);
}

/// Measures the values that iterations carry, and the loads before the loop.
static void measure_loop(RegisterSizes *z, const Op *loop) {
    double registers = 0, once = 0;
    for (int i = 0; i < loop->n_results; i++)
        if (ty_is_block(result(loop, i)->type)) registers += registers_in(result(loop, i)->type);
    for (const Op *op = loop->prev; op; op = op->prev)
        if (op->code == OP_LOAD && !cost_is_dead(op)) once += registers_in(result(op, 0)->type);
    z->carried = fmax(z->carried, registers);
    z->once = fmax(z->once, once);
}

static void measure_op(Op *op, void *arg) {
    RegisterSizes *z = arg;
    const Type *t = op->n_results ? result(op, 0)->type : NULL;
    if (cost_is_dead(op)) return;
    z->chain += t && t->kind == TK_BLOCK && t->elem == EL_F64 && op_has(op, ELEMENTWISE);
    switch (op->code) {
    case OP_DOT: measure_dot(z, op); return;
    case OP_MMA_START:
        if (begins_product(op)) measure_dot(z, op);
        return;
    case OP_FOR: measure_loop(z, op); return;
    case OP_COMBINE:
        z->carried += (double)op_int(op, A_N_TENSORS, 1) * registers_in(access_of(op).value->type);
        return;
    case OP_STORE:
        t = operand(op, 1)->type;
        z->moved = fmax(z->moved, cost_bytes(t));
        z->stored = fmax(z->stored, registers_in(t));
        z->doubles |= t->elem == EL_F64;
        if (access_of(op).pick_at >= 0) z->scattered = fmax(z->scattered, (double)ty_count(t));
        break;
    case OP_REDUCE:
        z->meetings++;
        z->joins |= op->n_operands > 1;
        measure_rows(z, op);
        measure_across(z, op); // fallthrough
    case OP_SCAN:
    case OP_SORT:
    case OP_HISTOGRAM:
    case OP_GATHER: t = operand(op, 0)->type; break;
    case OP_LOAD:
        z->moved = fmax(z->moved, cost_bytes(t));
        z->picked = fmax(z->picked, gathered_positions(op));
        z->beside_products |= t->rank == 2 && !feeds_products(result(op, 0));
        break;
    case OP_ATOMIC: break;
    default: return;
    }
    if (registers_in(t) > z->widest) z->widest = registers_in(t);
}

static int power_for(double warps, int most) {
    int n = 1;
    while (n < most && n < warps) n *= 2;
    return n;
}

/// Whether the program joins one block of tuples, for instance other programs' partial results. It
/// runs alone, with much work for each element.
static bool is_joined_block(const RegisterSizes *z) {
    return z->joins && !z->lines;
}

/// Returns the maximum warps. If one warp holds a row, it reduces it without the others.
static int most_warps(const RegisterSizes *z) {
    double lanes = z->target->lanes;
    bool rows = z->rows >= 1 && z->row <= WARPS_ROW_WARP && z->reduced >= z->widest &&
                z->words <= z->rows * lanes * WARPS_ROW_WORDS && !is_joined_block(z);
    int most = gpu_max_warps(z->target);
    return rows ? power_for(z->rows, most) : most;
}

/// Products of warpgroups need at least one warpgroup. If rows are reduced between two products,
/// each warpgroup has its share of the rows, so that one warpgroup reduces while another
/// multiplies.
static int least_for_products(const RegisterSizes *z) {
    double lanes = z->target->lanes;
    if (!z->groups) return power_for(z->sums / (lanes * WARPS_SUMS_LEAST), WARPS_PRODUCT_WARPS);
    double groups = z->dots > 1 ? fmax(1, z->rows / WARPS_GROUP_ROWS) : 1;
    return power_for(groups * WARPS_PRODUCT_WARPS, 2 * WARPS_PRODUCT_WARPS);
}

/// Warps that share a chain of products split the rows of the operands in registers, as long as
/// there are rows.
static double registers_of_amd(const RegisterSizes *z, int warps) {
    double lanes = z->target->lanes, share = warps;
    if (z->dots > 1 && z->rows >= 1) share = fmin(warps, fmax(1, z->rows / WARPS_UNIT_ROWS));
    return WARPS_BASE_AMD + z->held / (share * lanes) + (z->sums + z->staged) / (warps * lanes);
}

/// Returns the words of operands on NVIDIA's GPUs that go through registers, because no copy brings
/// them: those of FMAs, and of chains. Of scattered elements, half are in registers at a time.
static double words_through_registers(const RegisterSizes *z) {
    return z->singles + z->scattered / 2 + z->staged + (z->dots > 1 ? z->held : 0);
}

/// Whether the formula for chains of two products by warpgroups holds. Besides the sums, it counts
/// WARPS_NEXT_OPERAND registers for each element of the reduced block, which is also the next
/// operand. It counts none for masks of positions, since assemblers recompute them under pressure.
static bool is_reduced_counted(const RegisterSizes *z) {
    return z->groups && z->dots == 2 && z->rows >= 1 && !z->narrow && !z->beside_products;
}

static double registers_of_products(const RegisterSizes *z, int warps) {
    double lanes = z->target->lanes, threads = warps * lanes;
    if (is_reduced_counted(z))
        return WARPS_BASE_CHAIN + (z->sums + WARPS_NEXT_OPERAND * z->reduced) / threads;
    // A chain of products keeps rows within a warp, and each warp holds the whole right operand.
    double copies = z->dots > 1 || warps < 4 ? 1 : 2;
    double picks = WARPS_PICK_REGISTERS * z->picked * WARPS_PICK_WARPS / warps;
    double operands =
        WARPS_OPERANDS * z->operands / copies / lanes + WARPS_SPLIT_WORDS * z->split / threads;
    // Half of what a chain keeps is reloaded rather than kept beside the right operand. f64 is not,
    // since it changes its layout.
    double kept = z->dots > 1 ? z->kept / 2 + z->wide_kept : 0;
    return WARPS_BASE + (WARPS_SUMS * z->sums + kept + words_through_registers(z)) / threads +
           operands + picks;
}

/// Doubles the warps until a thread has registers for its share of the words that go through
/// registers. Each warpgroup has its own rows.
static int fit_registers(const RegisterSizes *z, int warps) {
    bool amd = gpu_has_any(z->target, GPU_AMD);
    int most = 2 * WARPS_PRODUCT_WARPS;
    double room = z->target->registers_thread - (amd ? z->fragments : 0);
    if (!amd && ((words_through_registers(z) == 0 && z->wide_kept == 0) ||
                 (z->groups && z->height < 2 * WARPS_GROUP_ROWS)))
        return warps;
    while (warps < most && (amd ? registers_of_amd : registers_of_products)(z, warps) > room)
        warps *= 2;
    return warps;
}

/// Returns the warps that hold the reduced block with these bytes and elements a thread.
static double warps_holding(const RegisterSizes *z, double bytes, double elements) {
    double widest = is_joined_block(z) ? z->words : z->widest;
    return fmax(z->moved / bytes, widest / elements) / z->target->lanes;
}

/// Chooses the warps for rows. The largest CTA has an SM to itself. A CTA with half of its threads
/// can use as many registers in all, twice as many a thread. If those hold the row, the smaller CTA
/// is better, because fewer threads wait for each other. For f64 a thread gets half as many
/// elements, unless that costs registers.
static int warps_for_rows(const RegisterSizes *z) {
    int largest = gpu_max_warps(z->target);
    // With little work a row, more threads keep more loads in flight.
    int share = z->meetings == 1 && z->lines && z->rows == 1 && z->stored < z->reduced ? 2 : 1;
    int warps =
        power_for(warps_holding(z, WARPS_ROW_BYTES, WARPS_ROW_ELEMENTS) * share, most_warps(z));
    int full = z->target->registers_sm / ((z->target->registers_thread + 1) * z->target->lanes);
    if (z->doubles && 2 * warps <= full) return 2 * warps;
    double alone = warps_holding(z, 2 * WARPS_ROW_BYTES, 2 * WARPS_ROW_ELEMENTS);
    return warps == largest && !z->joins && alone <= largest / 2 ? largest / 2 : warps;
}

static int warps_for(const RegisterSizes *z) {
    double lanes = z->target->lanes, widest = z->widest / z->cluster;
    if (z->sums == 0 && z->cluster > 1)
        return power_for(widest / (lanes * WARPS_ELEMENTS_CLUSTER) * (z->doubles ? 2 : 1),
                         gpu_max_warps(z->target));
    if (z->sums == 0 && z->reduced > 0) return warps_for_rows(z);
    if (z->sums == 0) return power_for(widest / (lanes * WARPS_ELEMENTS_THREAD), most_warps(z));
    int least = least_for_products(z);
    int fit = power_for(z->sums / (lanes * WARPS_SUMS_THREAD), 2 * WARPS_PRODUCT_WARPS);
    int warps = fit > least ? fit : least;
    return fit_registers(z, warps);
}

/// Returns a lower bound, over all orders of instructions, of the registers of all threads for
/// carried values and for rows that live across a reduction. 0: no carried value is as long as a
/// row.
static double rows_at_once(const RegisterSizes *z) {
    bool rows = z->sums == 0 && z->reduced > 0 && z->carried >= z->row;
    return rows ? WARPS_WIDEST * z->widest + z->beside + z->once + z->carried : 0;
}

static int cluster_for(const RegisterSizes *z) {
    double row = z->rows == 1 ? fmax(z->row, z->across) : z->row;
    double part = z->doubles ? 0.25 : 1;
    bool spread = z->sums == 0 && row > part * WARPS_ROW_CTA;
    double room = z->target->registers_sm - WARPS_BASE_FEW * GPU_MAX_THREADS / 2;
    double share = z->rows == 1 ? rows_at_once(z) / room : 0;
    return power_for(fmax(spread ? row / (part * WARPS_ROW_SHARE) : 1, share),
                     GPU_PORTABLE_CLUSTER);
}

static double registers_for(const RegisterSizes *z, int warps) {
    double threads = warps * (double)z->target->lanes;
    if (z->sums == 0) return WARPS_BASE_FEW + WARPS_WIDEST * z->widest / z->cluster / threads;
    if (gpu_has_any(z->target, GPU_AMD)) return registers_of_amd(z, warps);
    return registers_of_products(z, warps);
}

GpuShape gpu_shape_of_warps(const GpuTarget *target, const Op *root, int cluster, int warps) {
    RegisterSizes z = {.target = target};
    op_walk_pre((Op *)root, measure_op, &z);
    z.cluster = cluster > 0 ? power_for(cluster, GPU_MAX_CLUSTER) : cluster_for(&z);
    if (!gpu_has(target, GPU_CLUSTER)) z.cluster = 1;
    warps = warps > 0 ? power_for(warps, gpu_max_warps(target)) : warps_for(&z);
    GpuShape s = {.warps = warps, .cluster = z.cluster, .chain = z.dots > 1};
    s.registers = registers_for(&z, s.warps);
    s.counted = is_reduced_counted(&z);
    s.at_once = WARPS_BASE_FEW + rows_at_once(&z) / (z.cluster * s.warps * target->lanes);
    return s;
}

GpuShape gpu_shape(const GpuTarget *target, const Op *root, int cluster) {
    return gpu_shape_of_warps(target, root, cluster, 0);
}

GpuShape gpu_shape_of(const GpuTarget *target, const Op *device) {
    RegisterSizes z = {.target = target, .cluster = (int)op_int(device, A_CLUSTER, 1)};
    op_walk_pre((Op *)device, measure_op, &z);
    GpuShape s = {
        .warps = (int)op_int(device, A_WARPS, 1), .cluster = z.cluster, .chain = z.dots > 1};
    s.registers = registers_for(&z, s.warps);
    s.counted = is_reduced_counted(&z);
    return s;
}

bool gpu_holds_rows(const PassEnv *env, const Op *device) {
    const GpuTarget *t = env->gpu;
    RegisterSizes z = {.target = t};
    op_walk_pre((Op *)device, measure_op, &z);
    int ctas = !gpu_has(t, GPU_CLUSTER) ? 1 : env->cluster > 0 ? env->cluster : cluster_for(&z);
    double each = fmin(t->registers_thread, (double)t->registers_sm / GPU_MAX_THREADS);
    double part = z.chain > WARPS_FUNCTION_OPS ? WARPS_F64_FUNCTIONS
                  : z.doubles                  ? WARPS_F64_ROWS
                                               : 1;
    return z.sums > 0 || part * z.across / ctas <= (each - WARPS_BASE_FEW) * GPU_MAX_THREADS;
}

/// Returns the number of CTAs that run on an SM at the same time, as far as its registers hold
/// them. One works while another starts, ends, or computes between two products. *least: the slots
/// of its rings that each CTA needs. In a chain of products two suffice, since a step has enough
/// work.
static int64_t side_by_side(const GpuTarget *t, const GpuShape *shape, int *least) {
    bool tma = gpu_has(t, GPU_TMA); // a copy engine holds a slot longer
    *least = shape->chain && tma ? WARPS_CHAIN_SLOTS : WARPS_SLOTS;
    double of_cta = shape->registers * shape->warps * t->lanes;
    if (shape->chain) return (int64_t)fmax(1, t->registers_sm / of_cta);
    return shape->warps <= WARPS_FEW_WARPS ? 2 : 1;
}

int64_t gpu_ring_room(const GpuTarget *t, const GpuShape *shape, bool alone, int64_t each,
                      int64_t other) {
    int least;
    for (int64_t n = alone ? 1 : side_by_side(t, shape, &least); n > 1; n--) {
        int64_t part = t->shared_sm / n - WARPS_CTA_BYTES - other;
        if (part >= least * each) return part;
    }
    return t->shared_cta - other;
}

GpuShape choose_shape(const PassEnv *env, const Op *device) {
    return gpu_shape_of_warps(env->gpu, device, env->cluster, env->warps);
}
