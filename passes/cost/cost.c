// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost model of CPUs: estimates the seconds of a kernel on the threads of a CPU.
//
// A program takes the larger of its arithmetic and its traffic. Blocks count at full size, so
// partial tiles cost their waste; rows of a product count in whole registers. A phase takes as many
// rounds as its programs need on the threads, plus the start of a launch. The model ranks
// configurations; it does not predict times.
#include "passes/cost/cost.h"
#include "passes/grid.h"
#include "passes/model.h"
#include "passes/passes.h"
#include "passes/util.h"

#include "ir/eval.h"

#include <math.h>

enum { MAX_DEPTH = 32 };

typedef struct CpuWork {
    double vector_ops;  // native vector instructions
    double product_ops; // FMAs of native vectors
    double bytes;       // moved between memory and registers
    double far_bytes;   // share of `bytes` from tensors that exceed L2
    double far_rows;    // short rows that are started one after another
    bool again;         // blocks are traversed more than once
    double widest;      // rough bytes of the largest set of blocks live in one iteration
} CpuWork;

typedef struct CpuModel {
    Machine machine;
    CostDims dims;
} CpuModel;

/* ---- integers known at launch -------------------------------------------------------------- */

static bool find_known_value(const CostDims *m, const Value *v, int64_t *out, int depth);

static bool known_argument(const CostDims *m, const Value *v, int64_t *out, int depth) {
    const Op *owner = v->region->parent;
    int64_t lo, hi;
    for (const CostIndex *i = m->at; i; i = i->outer)
        if (i->index == v) return *out = i->value, true;
    if (owner->code == OP_KERNEL && m->dim_of)
        return (*out = m->dim_of(m->user, v->index, -1)) >= 0;
    if ((owner->code != OP_FOR && owner->code != OP_PARALLEL) || v->index > 0 ||
        !find_known_value(m, operand(owner, 0), &lo, depth) ||
        !find_known_value(m, operand(owner, 1), &hi, depth))
        return false;
    *out = op_int(owner, A_STEP, 1) ? lo + (hi - lo) / 2 : lo; // the typical iteration
    return true;
}

static bool find_known_extent(const CostDims *m, const Value *t, int axis, int64_t *out) {
    if (t->type->extents[axis] != DYNAMIC)
        *out = t->type->extents[axis];
    else if (!m->dim_of || t->def)
        return false;
    else
        *out = m->dim_of(m->user, t->index, axis);
    return *out >= 0;
}

/// Assumes the middle rank, so that a range over the ranks before it, or after it, has half of
/// them.
static bool known_rank(const CostDims *m, const Op *op, int64_t *out) {
    const Op *kernel = op_enclosing(op, OP_KERNEL);
    const Attr *sym = kernel ? op_ints(kernel, A_SYMMETRIC_PARAMS) : NULL;
    if (!sym || !sym->n || !find_known_extent(m, kernel->regions[0]->args[sym->ints[0]], 0, out))
        return false;
    *out /= 2;
    return true;
}

/// Finds the value of an i64 scalar. Returns false if the dims do not determine it.
static bool find_known_value(const CostDims *m, const Value *v, int64_t *out, int depth) {
    if (depth > MAX_DEPTH || v->type->kind != TK_BLOCK) return false;
    if (const_int(v, out)) return true;
    if (!v->def) return known_argument(m, v, out, depth + 1);
    if (v->def->code == OP_RANK) return known_rank(m, v->def, out);
    if (v->def->code == OP_DIM)
        return find_known_extent(m, operand(v->def, 0), (int)op_int(v->def, A_AXIS, 0), out);
    if (v->def->code == OP_CAST && elem_is(operand(v->def, 0)->type->elem, EC_INT))
        return find_known_value(m, operand(v->def, 0), out, depth + 1);
    if (!op_has(v->def, ELEMENTWISE) || !elem_is(operand(v->def, 0)->type->elem, EC_INT))
        return false;
    Cell cells[3];
    for (int i = 0; i < v->def->n_operands; i++)
        if (!find_known_value(m, operand(v->def, i), &cells[i].i, depth + 1)) return false;
    *out = eval_elementwise(v->def->code, operand(v->def, 0)->type->elem, cells).i;
    return true;
}

/// Whether v is computed from `index`; NULL: from the own rank.
static bool rests_on_index(const Value *v, const Value *index, int depth) {
    if (index ? v == index : def_of(v, OP_RANK) != NULL) return true;
    if (!v->def || depth > MAX_DEPTH) return false;
    for (int i = 0; i < v->def->n_operands; i++)
        if (rests_on_index(operand(v->def, i), index, depth + 1)) return true;
    return false;
}

/// Whether the bounds of the range depend on `index`, and the other dimensions of the access do
/// not.
static bool shares_dimension(const Op *op, const Op *access, int d, const Value *index) {
    Access a = access_of(access);
    if (!rests_on_index(operand(op, 0), index, 0) && !rests_on_index(operand(op, 1), index, 0))
        return false;
    for (int i = 0; i < a.n_subs; i++)
        if (i != d && rests_on_index(sub_operand(access, &a, i, 0), index, 0)) return false;
    return true;
}

/// Returns the number of ranges that share dimension d of the access, which the range's index
/// subscripts. These are the programs of an outer index that determines the bounds but no other
/// subscript, for instance the experts whose rows lie one after another. For shards, they include
/// the other ranks.
static double count_range_sharers(const CostDims *m, const Op *op, const Op *access, int d) {
    double n = 1;
    int64_t ranks;
    for (const Op *p = op->parent->parent; p; p = p->parent ? p->parent->parent : NULL)
        if ((p->code == OP_FOR || p->code == OP_PARALLEL) &&
            shares_dimension(op, access, d, p->regions[0]->args[0]))
            n *= fmax(1, cost_trips(m, p));
    const Value *tensor = operand(access, 0);
    if (value_is_sym(tensor) && shares_dimension(op, access, d, NULL) &&
        find_known_extent(m, tensor, 0, &ranks))
        n *= fmax(1, (double)ranks);
    return n;
}

/// Whether v is loaded data, or a loop's result.
static bool is_data(const Value *v, int depth) {
    if (!v->def || depth > MAX_DEPTH) return false;
    if (v->def->code == OP_LOAD || v->def->code == OP_FOR) return true;
    return v->def->code == OP_CAST && is_data(operand(v->def, 0), depth + 1);
}

/// Whether a subscript walks through the range: it is the index, or the index plus an offset from
/// data, as for ranges that lie one after another.
static bool is_through(const Value *sub, const Value *index) {
    const Op *add = def_of(sub, OP_ADD);
    if (sub == index || !add) return sub == index;
    return (operand(add, 0) == index && is_data(operand(add, 1), 0)) ||
           (operand(add, 1) == index && is_data(operand(add, 0), 0));
}

/// Returns the positions of one access; infinite if no subscript walks through the range.
static double positions_of(const CostDims *m, const Op *op, const Op *access) {
    double least = INFINITY;
    Access a = access_of(access);
    for (int d = 0; d < a.n_subs; d++) {
        int64_t extent;
        if (is_through(sub_operand(access, &a, d, 0), op->regions[0]->args[0]) &&
            find_known_extent(m, a.tensor, d, &extent))
            least = fmin(least, (double)extent / count_range_sharers(m, op, access, d));
    }
    return least;
}

/// Returns the maximum positions of a range whose bounds are data: its share of the tensors that it
/// subscripts. Infinite if unknown.
static double most_positions(const CostDims *m, const Op *op) {
    double least = INFINITY;
    for_each_use(u, op->regions[0]->args[0]) {
        if (op_is_access(u->user)) least = fmin(least, positions_of(m, op, u->user));
        if (u->user->code != OP_ADD) continue;
        for_each_use(w, result(u->user, 0)) {
            if (op_is_access(w->user)) least = fmin(least, positions_of(m, op, w->user));
        }
    }
    return least;
}

/// Iterations of a for, parallel or contract. The last one counts in proportion to its part of a
/// step.
double cost_parts(const CostDims *m, const Op *op) {
    int64_t lo, hi, step = op_int(op, A_STEP, 1);
    if (step == 0) return 1;
    if (!find_known_value(m, operand(op, 0), &lo, 0) ||
        !find_known_value(m, operand(op, 1), &hi, 0)) {
        double most = most_positions(m, op);
        return isinf(most) ? COST_UNKNOWN_TRIPS : most / (double)step;
    }
    return hi <= lo ? 0 : (double)(hi - lo) / (double)step;
}

bool cost_is_known(const CostDims *m, const Op *op) {
    int64_t lo, hi;
    return find_known_value(m, operand(op, 0), &lo, 0) &&
           find_known_value(m, operand(op, 1), &hi, 0);
}

bool cost_is_bounded(const CostDims *m, const Op *op) {
    return op_int(op, A_STEP, 1) == 0 || cost_is_known(m, op) || !isinf(most_positions(m, op));
}

bool cost_value(const CostDims *m, const Value *v, int64_t *out) {
    return find_known_value(m, v, out, 0);
}

double cost_trips(const CostDims *m, const Op *op) {
    return ceil(cost_parts(m, op));
}

static double model_parts(const CpuModel *m, const Op *op) {
    return cost_parts(&m->dims, op);
}
static double model_trips(const CpuModel *m, const Op *op) {
    return cost_trips(&m->dims, op);
}

double cost_turns(const CostDims *m, const Op *op) {
    if (op->code == OP_WHILE) return COST_UNKNOWN_TRIPS;
    return op->code == OP_FOR ? cost_trips(m, op) : 1;
}

double cost_host(const CostDims *dims, const Region *host,
                 double (*phase)(void *model, const Op *phase), void *model) {
    double sum = 0;
    for_each_op(op, host) {
        double inner = 0;
        if (op->code == OP_PARALLEL) {
            sum += phase(model, op);
            continue;
        }
        for (int i = 0; i < op->n_regions; i++)
            inner += cost_host(dims, op->regions[i], phase, model);
        sum += inner * cost_turns(dims, op);
    }
    return sum;
}

/* ---- work of a region ---------------------------------------------------------------------- */

double cost_bytes(const Type *t) {
    return (double)ty_count(t) * elem_info[t->elem].bits / 8;
}

/// The native vectors that hold a block. Each row of its last axis starts a new one.
static double block_vectors(const CpuModel *m, const Type *t) {
    if (t->rank == 0) return COST_CPU_SCALAR;
    double lanes = 8.0 * m->machine.vector_bytes / fmax(elem_info[t->elem].bits, 8);
    double row = (double)t->extents[t->rank - 1];
    return (double)ty_count(t) / row * ceil(row / lanes);
}

// Packing starts again with each row of a step, so a long step reads memory in long runs.
static void add_packing_rows(CpuWork *w, const Type *a, double steps) {
    w->vector_ops += steps * COST_CPU_ROW_START * (double)a->extents[0];
}

/// Up to four vectors of a row of the result share a loaded element of `a`.
static void add_product(const CpuModel *m, CpuWork *w, const Type *a, const Type *c, double times) {
    double row = block_vectors(m, c) / (double)c->extents[0], shared = fmin(row, 4);
    double each = 1 + COST_CPU_NARROW * (4 / shared - 1) / 3;
    w->product_ops += times * each * block_vectors(m, c) * (double)a->extents[1];
    w->bytes += times * (cost_bytes(c) / COST_CPU_STRIP); // a strip of the loop stays in registers
}

/// Whether each iteration of the loop reads other rows than the previous one, and the same columns.
static bool is_down_rows(const Op *op, const Access *a) {
    const Op *loop = op_enclosing(op, OP_FOR);
    const Value *index = loop ? loop->regions[0]->args[0] : NULL;
    int last = result(op, 0)->type->rank - 1;
    bool down = false;
    for (int d = 0; loop && d < a->n_subs; d++) {
        if (a->subs[d].kind != DIM_AXIS || sub_operand(op, a, d, 0) != index) continue;
        if (a->axis_of[d] == last) return false;
        down = true;
    }
    return down;
}

/// Returns 0 if the extents are unknown.
static double known_tensor_bytes(const CpuModel *m, const Value *tensor) {
    const Type *t = tensor->type;
    double bytes = elem_info[t->elem].bits / 8.0;
    for (int axis = 0; axis < t->rank; axis++) {
        int64_t extent;
        if (!find_known_extent(&m->dims, tensor, axis, &extent)) return 0;
        bytes *= (double)extent;
    }
    return bytes;
}

/// Returns the number of bytes from beyond L2 that take as long to load as the block takes.
static double far_bytes(const Type *t) {
    if (t->rank < 2) return cost_bytes(t);
    double row = (double)t->extents[t->rank - 1] * elem_info[t->elem].bits / 8;
    return cost_bytes(t) * fmax(1, COST_CPU_SHORT_ROW / row);
}

static void add_cpu_access(const CpuModel *m, CpuWork *w, const Op *op, const Type *t,
                           double times) {
    Access a = access_of(op);
    double gather = a.pick_at >= 0 ? COST_CPU_GATHER : 1;
    w->bytes += times * cost_bytes(t);
    if (op->code == OP_LOAD && known_tensor_bytes(m, operand(op, 0)) > (double)m->machine.l2_bytes)
        w->far_bytes += times * far_bytes(t);
    w->vector_ops += times * gather * fmax(block_vectors(m, t), 1);
    w->widest = fmax(w->widest, cost_bytes(t));
    if (op->code == OP_LOAD && is_down_rows(op, &a))
        w->far_rows += times * (double)(ty_count(t) / t->extents[t->rank - 1]);
}

static void add_cpu_region(const CpuModel *m, CpuWork *w, const Region *r, double times);

/// Whether the op has no live use. Such ops exist because the kernel is not optimised yet; `wide`,
/// for instance, makes ops only to compute types.
static bool is_dead(const Op *op, int depth) {
    if (!op_has(op, PURE) || depth == MAX_DEPTH) return false;
    for (int i = 0; i < op->n_results; i++)
        for_each_use(u, result(op, i)) if (!is_dead(u->user, depth + 1)) return false;
    return true;
}

bool cost_is_dead(const Op *op) {
    return is_dead(op, 0);
}

/// Whether v is loaded, computed and folded in one pass, with no other use.
static bool is_passed_once(const Value *v, int depth) {
    int uses = 0;
    for_each_use(u, v) uses += !is_dead(u->user, 0);
    if (!v->def || uses > 1 || depth == MAX_DEPTH) return false;
    if (v->def->code == OP_LOAD) return true;
    if (!op_has(v->def, PURE) || v->def->n_regions) return false;
    for (int i = 0; i < v->def->n_operands; i++) {
        const Value *x = operand(v->def, i);
        if (x->type->rank && !is_passed_once(x, depth + 1)) return false;
    }
    return true;
}

/// A reduction along the lanes folds each result from a vector, step after step.
static void add_reduction(const CpuModel *m, CpuWork *w, const Op *op, double times) {
    const Value *x = operand(op, 0);
    bool lanes = op_int(op, A_AXIS, 0) == x->type->rank - 1;
    double folds = lanes ? (double)ty_count(result(op, 0)->type) : COST_CPU_SCALAR;
    w->vector_ops += times * (block_vectors(m, x->type) + COST_CPU_FOLD * folds);
    w->again |= !is_passed_once(x, 0);
}

static void add_cpu_op(const CpuModel *m, CpuWork *w, const Op *op, double times) {
    if (is_dead(op, 0)) return;
    const Type *out = op->n_results ? result(op, 0)->type : NULL;
    switch (op->code) {
    case OP_FOR:
    case OP_PARALLEL: add_cpu_region(m, w, op->regions[0], times * model_trips(m, op)); return;
    case OP_WHILE: add_cpu_region(m, w, op->regions[1], times * cost_turns(&m->dims, op)); return;
    case OP_IF:
        add_cpu_region(m, w, op->regions[0], times / 2);
        add_cpu_region(m, w, op->regions[1], times / 2);
        return;
    case OP_CONTRACT: {
        const Op *end = terminator(op->regions[0]);
        const Type *a = operand(end, 0)->type;
        add_cpu_region(m, w, op->regions[0], times * model_trips(m, op));
        add_packing_rows(w, a, times * model_trips(m, op));
        add_product(m, w, a, out, times * model_parts(m, op));
        return;
    }
    case OP_DOT: add_product(m, w, operand(op, 0)->type, out, times); return;
    case OP_LOAD: add_cpu_access(m, w, op, out, times); return;
    case OP_STORE:
    case OP_COMBINE: add_cpu_access(m, w, op, access_of(op).value->type, times); return;
    case OP_REDUCE: add_reduction(m, w, op, times); return;
    default:
        if (out && out->kind == TK_BLOCK)
            w->vector_ops += times * op_info[op->code].cost.model * block_vectors(m, out);
    }
}

static void add_cpu_region(const CpuModel *m, CpuWork *w, const Region *r, double times) {
    for_each_op(op, r) add_cpu_op(m, w, op, times);
}

/// The bandwidth for blocks without products. If a program traverses blocks several times while the
/// next program's are prefetched, a sixth of the first cache is fast; larger sets are slower.
static double pass_bandwidth(const CpuModel *m, const CpuWork *w) {
    if (!w->again) return COST_CPU_L1_BANDWIDTH;
    double fit = fmin(1, (double)m->machine.l1_bytes / COST_CPU_L1_PART / fmax(w->widest, 1));
    return COST_CPU_L1_BANDWIDTH * fit * fit;
}

static double work_seconds(const CpuModel *m, const CpuWork *w) {
    double compute =
        w->vector_ops / COST_CPU_CLOCK + w->product_ops / (COST_CPU_FMA * COST_CPU_CLOCK);
    if (w->product_ops == 0)
        return compute + w->far_rows * COST_CPU_FAR_ROW / COST_CPU_CLOCK +
               w->bytes / pass_bandwidth(m, w) + COST_CPU_LEAST;
    double bandwidth = w->widest <= (double)m->machine.l1_bytes   ? COST_CPU_L1_BANDWIDTH
                       : w->widest <= (double)m->machine.l2_bytes ? COST_CPU_L2_BANDWIDTH
                                                                  : COST_CPU_RAM_BANDWIDTH;
    return fmax(compute + w->far_bytes / COST_CPU_L3_BANDWIDTH, w->bytes / bandwidth) +
           COST_CPU_LEAST;
}

double program_seconds(const Region *body, const PassEnv *env) {
    CpuModel m = {.machine = {1, env->l1_bytes, env->l2_bytes, env->vector_bytes}};
    if (m.machine.vector_bytes <= 0) m.machine.vector_bytes = 32;
    CpuWork w = {0};
    add_cpu_region(&m, &w, body, 1);
    return work_seconds(&m, &w);
}

/* ---- kernels ------------------------------------------------------------------------------- */

/// Estimates a phase: the programs of the whole nest, dealt to the threads in rounds.
static double cpu_phase_seconds(const CpuModel *m, const Op *phase) {
    double programs = 1;
    const Op *p = phase;
    for (const Op *next = p; next; next = inner_parallel(p)) {
        p = next;
        programs *= model_trips(m, p);
    }
    CpuWork w = {0};
    add_cpu_region(m, &w, p->regions[0], 1);
    double start = w.product_ops == 0 ? COST_CPU_PROGRAM : COST_CPU_TASK;
    double threads = fmax(m->machine.threads, 1);
    double one = work_seconds(m, &w) + start, rounds = ceil(programs / threads);
    // Threads start at different times and differ in speed, and all wait for the last.
    double late = COST_CPU_LATE * fmax(0, log2(fmax(1, fmin(threads, programs))) - 1);
    // All threads share the memory bandwidth, and each byte comes from memory at least once.
    double memory = programs * w.bytes / (COST_CPU_RAM_BANDWIDTH * COST_CPU_MEMORY_THREADS);
    return COST_CPU_LAUNCH + fmax((rounds + late) * one, memory);
}

static double price_cpu_phase(void *model, const Op *phase) {
    return cpu_phase_seconds(model, phase);
}

double cost_phase(const Op *phase, const Machine *machine, const CostDims *dims) {
    CpuModel m = {*machine, *dims};
    if (m.machine.vector_bytes <= 0) m.machine.vector_bytes = 32;
    return cpu_phase_seconds(&m, phase);
}

double cost_estimate(const Op *kernel, const Machine *machine,
                     int64_t (*dim_of)(void *user, int parameter, int axis), void *user) {
    CpuModel m = {*machine, {.dim_of = dim_of, .user = user}};
    if (m.machine.vector_bytes <= 0) m.machine.vector_bytes = 32;
    return cost_host(&m.dims, kernel->regions[0], price_cpu_phase, &m);
}

/* ---- products ------------------------------------------------------------------------------ */

enum { LOOKED_AT = 32 }; // iterations to sample, if they differ

typedef struct IndexBounds {
    const Value *index;
    bool found;
} IndexBounds;

static void seek_bound(Op *op, void *arg) {
    IndexBounds *b = arg;
    if (op->code == OP_FOR || op->code == OP_PARALLEL)
        b->found |= rests_on_index(operand(op, 0), b->index, 0) ||
                    rests_on_index(operand(op, 1), b->index, 0);
}

/// Whether the index of `op` decides the iterations of inner loops.
static bool decides_loops(const Op *op) {
    IndexBounds b = {.index = op->regions[0]->args[0]};
    for_each_op(inner, op->regions[0]) op_walk_pre(inner, seek_bound, &b);
    return b.found;
}

static double count_product_flops(const CpuModel *m, const Region *r);

/// Returns the FLOPs of products in one iteration, the mean over all.
static double mean_products(const CpuModel *m, const Op *op) {
    int64_t lo, hi, step = op_int(op, A_STEP, 1);
    bool loop = op->code == OP_FOR || op->code == OP_PARALLEL;
    if (!loop || step < 1 || !find_known_value(&m->dims, operand(op, 0), &lo, 0) ||
        !find_known_value(&m->dims, operand(op, 1), &hi, 0) || hi <= lo || !decides_loops(op))
        return count_product_flops(m, op->regions[0]);
    int64_t n = ceil_div(hi - lo, step), looks = n < LOOKED_AT ? n : LOOKED_AT;
    double sum = 0;
    for (int64_t i = 0; i < looks; i++) {
        CostIndex at = {op->regions[0]->args[0], lo + (2 * i + 1) * n / (2 * looks) * step,
                        m->dims.at};
        CpuModel own = *m;
        own.dims.at = &at;
        sum += count_product_flops(&own, op->regions[0]);
    }
    return sum / (double)looks;
}

/// Partial tiles count by their contents, so a product of matrices has 2 M N K.
static double count_product_flops(const CpuModel *m, const Region *r) {
    double sum = 0;
    for_each_op(op, r) {
        double inner = 0;
        if (op->code == OP_DOT && !is_dead(op, 0)) {
            const Type *a = operand(op, 0)->type;
            sum += 2 * (double)ty_count(result(op, 0)->type) * (double)a->extents[a->rank - 1];
        }
        if (op->n_regions) inner = mean_products(m, op);
        for (int i = 1; i < op->n_regions; i++) inner += count_product_flops(m, op->regions[i]);
        if (inner > 0)
            sum += inner * (op->code == OP_FOR || op->code == OP_PARALLEL ? model_parts(m, op) : 1);
    }
    return sum;
}

double cost_products(const Op *kernel, int64_t (*dim_of)(void *user, int parameter, int axis),
                     void *user) {
    CpuModel m = {.dims = {.dim_of = dim_of, .user = user}};
    return count_product_flops(&m, kernel->regions[0]);
}
