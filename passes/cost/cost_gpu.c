// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cost model of GPUs: estimates the seconds of a kernel.
//
// A phase takes the longest of four times: the work of its SMs (matrix units, the shared memory
// that feeds them, arithmetic), the traffic of L2, the traffic of memory, and the
// waits of an SM's programs in sequence. Blocks count at full size, so partial tiles cost their
// waste. The model ranks settings; it does not predict times.
#include "passes/combine.h"
#include "passes/cost/cost.h"
#include "passes/gpu/gpu.h"
#include "passes/grid.h"
#include "passes/model.h"
#include "passes/util.h"

#include <math.h>

/// The work of one program, or of one run of a region.
typedef struct GpuWork {
    double unit, shared, alu; // cycles of an SM
    double fma;               // share of alu: products without a matrix unit
    double masks;             // share of alu: masks and their selects, around which most steps
                              // branch
    double flops;             // of products
    double bytes;             // between the SM and L2
    double waits;             // cycles in which the SM idles if the program is alone
    double stage;             // bytes of one stage of its largest pipeline
    double kept;              // of blocks that are loaded once, perhaps operands of products
    double spills;            // slowdown from a lack of registers or shared memory
    bool ahead;               // a loop prefetches its next steps
    bool late;                // products run into the next step, and hold its slots
} GpuWork;

typedef struct GpuModel {
    const GpuTarget *target;
    GpuAxes axes;
    CostDims dims;
    double memory;   // bytes of the tensors that a phase accesses
    double searched; // the same, where short rows count as the bytes of long rows that take the
                     // same time
    const Value *seen[64];
    int n_seen;
    double copied;     // bytes that align-rows reads and writes before the phase
    double copy_bytes; // of the copies
    int copies;        // its tensors
    const Value *copies_of[ALIGN_ROWS_TENSORS];
    bool piped;       // inside a loop whose loads are copies
    bool looped;      // inside a loop that only reads
    bool alone;       // each CTA has an SM to itself
    double each;      // programs of an SM in the whole phase
    bool persists;    // CTAs go from tile to tile
    bool roles;       // an extra warp copies
    bool split;       // ... and waits for its items stand between exponentials
    bool mixed;       // for some products no extra warp could copy
    const Op *rows;   // the level whose neighbours are pairs of programs (multicast.c), or NULL
    const Op *parted; // the loop that split.c splits into `ways` parts, or NULL
    double ways;
    GpuShape shape; // of a CTA
    double threads; // of a CTA
    double ctas;    // of a program
    double held;    // CTAs of the phase that fit on an SM
    Text *out;      // the description for people, or NULL
    GpuNeeds needs; // of the phases so far
} GpuModel;

/* ---- ops ----------------------------------------------------------------------------------- */

/// Returns the unit that `select` will choose. On a target without a unit for f8, operands of f8
/// are multiplied as f16.
static const GpuUnit *unit_for_dot(const GpuModel *m, const Op *dot) {
    Type a = *operand(dot, 0)->type, b = *operand(dot, 1)->type;
    const GpuUnit *unit = gpu_unit_for(m->target, &a, &b, op_precision(dot));
    if (unit || elem_info[a.elem].bits != 8 || !elem_is(a.elem, EC_FLOAT)) return unit;
    a.elem = b.elem = EL_F16;
    return gpu_unit_for(m->target, &a, &b, op_precision(dot));
}

static double padded_extent(int64_t extent, int64_t unit) {
    return ceil((double)extent / (double)unit) * (double)unit;
}

static double panel_of(const GpuModel *m, double row_bytes) {
    return gpu_panel_bytes((int64_t)row_bytes, gpu_has(m->target, GPU_TMA));
}

/// Returns the ratio of a row's memory in panels to its bytes, since the last panel may be partial.
/// Rows below the narrowest panel are not copied to panels.
static double panel_waste(const GpuModel *m, double row_bytes) {
    enum { NARROWEST = 32 };
    if (row_bytes < NARROWEST) return 1;
    double panel = panel_of(m, row_bytes);
    return ceil(row_bytes / panel) * panel / row_bytes;
}

/// A product of FMAs. Threads take powers of two of rows and columns, in squares as far as
/// possible, and read the edges of their square in vectors.
static void add_fma_dot(const GpuModel *m, GpuWork *w, double steps, double rows, double columns,
                        double bytes) {
    double sums = exp2(ceil(log2(rows)) + ceil(log2(columns)));
    double edges = 2 * sqrt(fmax(1, sums / m->threads)), vector = COST_GPU_FMA_VECTOR_BYTES / bytes;
    double reads = steps * m->threads / m->target->lanes * edges / vector; // of warps
    double staged = steps * (rows + columns) / vector;                     // by threads
    double cycles = steps * sums / m->target->fma_cycle;
    w->fma += cycles;
    w->alu += cycles + reads * m->target->lanes / m->target->fma_cycle;
    w->alu += staged * COST_GPU_FMA_STAGE / m->target->fma_cycle;
    w->alu += COST_GPU_FMA_SEEN * reads * COST_GPU_FMA_READ;
    w->alu += COST_GPU_FMA_STEP;
    if (steps * (rows + columns + vector) * bytes > GPU_FMA_BYTES)
        w->alu += COST_GPU_FMA_PIECES * cycles;
    w->shared += reads * COST_GPU_FMA_READ;
}

/// Operands are read from shared memory once for each tile of rows, or of both dimensions.
static void add_dot(const GpuModel *m, GpuWork *w, const Op *op, double times) {
    const Type *a = operand(op, 0)->type, *d = result(op, 0)->type;
    const GpuUnit *u = unit_for_dot(m, op);
    double rows = (double)d->extents[0], columns = (double)d->extents[1];
    double k = (double)a->extents[1], bytes = elem_info[a->elem].bits / 8.0;
    double rounds = u && gpu_in_three(op_precision(op)) ? 3 : 1;
    w->flops += 2 * times * rows * columns * k;
    if (!u) {
        add_fma_dot(m, w, times * k, rows, columns, bytes);
        return;
    }
    bool swap = rows < u->m && columns >= u->m;
    rows = padded_extent((int64_t)rows, swap ? u->n : u->m);
    columns = padded_extent((int64_t)columns, swap ? u->m : u->n);
    const Op *b = operand(op, 1)->def;
    bool along = b && b->code == OP_PERMUTE, group = u->features & GPU_WGMMA;
    w->late |= group && !u->chain;
    double odd = panel_of(m, columns * bytes) < COST_GPU_LINE ? COST_GPU_ODD_ROWS : 1;
    odd += COST_GPU_IN_VAIN * (panel_waste(m, columns * bytes) - 1);
    if (along || swap) odd = (int64_t)columns % 64 == 0 ? 1 : COST_GPU_ODD_COLUMNS;
    if (group && k * bytes < COST_GPU_LINE) odd = COST_GPU_ODD_ROWS;
    w->unit += times * rounds * odd * rows * columns * k / (m->target->unit_cycle * u->rate);
    if (group) w->unit += times * rounds * COST_GPU_START_GROUP * rows / u->m * k / u->k;
    double read_a = rows * (group ? 1 : COST_GPU_WARP_COLUMNS), read_b = columns;
    if (group && !gpu_operand_load(operand(op, 0))) read_a = 0; // it is in registers
    read_b *= group ? fmax(1, rows / u->m) : COST_GPU_WARP_ROWS;
    w->shared += times * rounds * (read_a + read_b) * k * bytes / COST_GPU_SHARED_CYCLE;
}

static double model_extent(const GpuModel *m, const Value *tensor, int d) {
    int64_t extent = tensor->type->extents[d];
    if (extent == DYNAMIC && !tensor->def && m->dims.dim_of)
        extent = m->dims.dim_of(m->dims.user, tensor->index, d);
    return extent > 0 ? (double)extent : 1;
}

/// Returns the contiguous bytes of a block's row. *along: its dimension, if any.
static double run_bytes(const Access *a, int *along) {
    double run = 1;
    for (int d = 0; d < a->n_subs; d++) {
        if (a->subs[d].kind != DIM_AXIS || a->tensor->type->strides[d] != 1) continue;
        run *= (double)a->subs[d].size;
        *along = d;
    }
    return run * elem_info[a->tensor->type->elem].bits / 8.0;
}

/// Returns the ratio of moved to requested bytes if a block's rows are short in memory.
static double run_waste(double run) {
    return run >= COST_GPU_LINE
               ? 1
               : 1 + COST_GPU_LINE_START / run - COST_GPU_LINE_START / COST_GPU_LINE;
}

/// Whether align-rows copies the operand that the op loads into aligned rows.
static bool is_aligned_first(const GpuModel *m, const Op *op) {
    return m->axes.align_rows > 0 && gpu_row_to_align(m->target, op) >= 0;
}

/// Returns the extra work of L2 if rows do not start at its lines. Copies request a
/// line of a block at a time, other accesses a row. Not measured on AMD.
static double split_waste(const GpuModel *m, const Op *op, const Access *a, double run, int along) {
    int bits = elem_info[a->tensor->type->elem].bits;
    if (along < 0 || a->n_subs < 2 || gpu_has_any(m->target, GPU_AMD)) return 1;
    if (is_aligned_first(m, op)) return 1;
    double row = model_extent(m, a->tensor, along) * bits / 8.0;
    double piece = m->piped ? fmin(run, COST_GPU_LINE) : run;
    return fmod(row, COST_GPU_LINE) == 0
               ? 1
               : 1 + COST_GPU_SPLIT_LINE * (COST_GPU_LINE - bits / 8.0) / piece;
}

/// Returns the slowdown of memory if a loop returns to the same row for the next bytes.
static double run_search(const GpuModel *m, const Access *a, double run, int along) {
    if (!m->looped || m->piped || along < 0) return 1;
    double row = model_extent(m, a->tensor, along) * elem_info[a->tensor->type->elem].bits / 8.0;
    double least = fmin(run, row);
    return 1 + COST_GPU_SHORT_RUNS * fmax(0, log2(fmin(COST_GPU_LONG_RUN, row) / least));
}

/// Whether v only feeds operands of products.
static bool feeds_dots(const Value *v) {
    for_each_use(u, v) {
        bool on = u->user->code == OP_PERMUTE && feeds_dots(result(u->user, 0));
        if (!on && !(u->user->code == OP_DOT && u->index < 2)) return false;
    }
    return v->uses != NULL;
}

/// Returns the width of the copies by which a pipeline loads for the op; 0: through registers. -1:
/// the op does not load an operand of products, or the target has no copies (AMD).
static int pipeline_copy_bytes(const GpuModel *m, const Op *op, const Access *a) {
    int along = -1;
    if (op->code != OP_LOAD || !gpu_has_any(m->target, GPU_CP_ASYNC | GPU_TMA)) return -1;
    run_bytes(a, &along);
    if (!feeds_dots(result(op, 0))) return -1;
    if (is_aligned_first(m, op)) return GPU_COPY_MOST;
    return along < 0 || a->pick_at >= 0 ? 0 : gpu_copy_width(op, a, along).bytes;
}

/// Returns the instructions per element for copies that threads make in a pipeline. Copies of 16
/// bytes are few, and are counted with a step.
static double copy_instructions(const GpuModel *m, const Op *op, const Access *a) {
    int bytes = pipeline_copy_bytes(m, op, a);
    if (a->pick_at >= 0) return COST_GPU_GATHER;
    if (bytes < 0 || bytes == GPU_COPY_MOST) return 0;
    if (!bytes && gpu_row_to_align(m->target, op) >= 0) return COST_GPU_ODD_ROWS_BY_HAND;
    if (!bytes) return COST_GPU_COPY_BY_HAND;
    return COST_GPU_COPY * elem_info[a->tensor->type->elem].bits / (8.0 * bytes);
}

/// Returns the factor on a block's traffic through L2: whole panels count, and each
/// program of a pair copies half of a common block.
static double copied_share(const GpuModel *m, const Op *op, const Access *a, double run) {
    if (!m->piped || pipeline_copy_bytes(m, op, a) != GPU_COPY_MOST) return 1;
    bool shared = m->rows && reads_same_rows(op, m->rows);
    return panel_waste(m, run) / (shared ? GPU_PAIR : 1);
}

/// Counts the bytes of a tensor that align-rows would copy: one reading, one writing.
static void note_rows_to_align(GpuModel *m, const Op *op, const Access *a) {
    int along = gpu_row_to_align(m->target, op);
    if (along < 0) return;
    m->needs.unsure |= gpu_reads_loaded_part(op);
    for (int i = 0; i < m->copies; i++)
        if (m->copies_of[i] == a->tensor) return;
    if (m->copies == ALIGN_ROWS_TENSORS) return;
    const Type *t = a->tensor->type;
    double rows = 1, row = model_extent(m, a->tensor, along);
    for (int d = 0; d < t->rank; d++)
        if (d != along) rows *= model_extent(m, a->tensor, d);
    double bytes = elem_info[t->elem].bits / 8.0,
           copy = rows * gpu_aligned_row(row, t->elem) * bytes;
    m->needs.unaligned = true;
    m->needs.aligned_bytes += copy;
    m->copied += rows * row * bytes + copy;
    m->copies_of[m->copies++] = a->tensor;
    m->copy_bytes += copy;
    m->needs.aligned_most = fmax(m->needs.aligned_most, m->copy_bytes);
}

/// Each tensor comes from memory once; all further reads come from L2.
static void add_gpu_access(GpuModel *m, GpuWork *w, const Op *op, const Type *t, double times) {
    Access a = access_of(op);
    int along = -1;
    double run = run_bytes(&a, &along), waste = run_waste(run);
    double all = waste * elem_info[t->elem].bits / 8.0;
    double copied = copied_share(m, op, &a, run);
    w->bytes += times * copied * waste * split_waste(m, op, &a, run, along) * cost_bytes(t);
    double instructions = a.pick_at >= 0 ? COST_GPU_GATHER : COST_GPU_ACCESS;
    if (m->piped) instructions = copy_instructions(m, op, &a);
    w->alu += times * (double)ty_count(t) / m->target->fma_cycle * instructions;
    note_rows_to_align(m, op, &a);
    for (int i = 0; i < m->n_seen; i++)
        if (m->seen[i] == a.tensor) return;
    if (m->n_seen < (int)(sizeof m->seen / sizeof *m->seen)) m->seen[m->n_seen++] = a.tensor;
    for (int d = 0; d < a.tensor->type->rank; d++) all *= model_extent(m, a.tensor, d);
    m->memory += all;
    m->searched += all * run_search(m, &a, run, along);
}

static void add_gpu_region(GpuModel *m, GpuWork *w, const Region *r, double times);

static const Op *find_live_op(const Region *r, OpCode code) {
    for_each_op(op, r) {
        if (op->code == code && !cost_is_dead(op)) return op;
        for (int i = 0; i < op->n_regions; i++) {
            const Op *inner = find_live_op(op->regions[i], code);
            if (inner) return inner;
        }
    }
    return NULL;
}

/// Returns the bytes of the blocks that a loop's pipeline loads in each stage.
static double loaded_bytes(const GpuModel *m, const Region *r) {
    double sum = 0;
    for_each_op(op, r) {
        if (op->code != OP_LOAD) continue;
        Access a = access_of(op);
        int along = -1;
        double run = run_bytes(&a, &along);
        sum += cost_bytes(result(op, 0)->type) * (along < 0 ? 1 : panel_waste(m, run));
    }
    return sum;
}

/// Whether elements go through registers, so that each step waits for them: operands of FMAs,
/// gathers, and rows too irregular for any copy.
static bool loads_by_hand(const GpuModel *m, const Region *r) {
    for_each_op(op, r) {
        if (op->code == OP_DOT && !cost_is_dead(op) && !unit_for_dot(m, op)) return true;
        if (op->code == OP_LOAD) {
            Access a = access_of(op);
            if (a.pick_at >= 0 || pipeline_copy_bytes(m, op, &a) == 0) return true;
        }
        if (op_is_loop(op) && loads_by_hand(m, op->regions[op->n_regions - 1])) return true;
    }
    return false;
}

static double busy_cycles(const GpuWork *w) {
    double products = fmax(w->unit, w->shared);
    return fmax(products, w->alu) + COST_GPU_OVERLAP * fmin(products, w->alu);
}

/// Returns the further work that a program in a chain of warpgroups' products does not hide.
static double busy_among_few(const GpuModel *m, const GpuWork *w, double held) {
    bool few = m->shape.counted && held * m->shape.warps < COST_GPU_FEW_WARPS;
    return few ? COST_GPU_FEW_OVERLAP * fmin(fmax(w->unit, w->shared), w->alu) : 0;
}

/// Returns the cycles of a program with roles. Threads compute while a product is pending. If they
/// compute for longer than the product takes, the few warps of the single CTA leave issue slots
/// empty. Products take longer if they and the copies nearly fill the bandwidth of shared memory.
/// The model's errors for attention on an H200: 2 % in nine shapes with 128 features, 6 % with 192
/// and 256 features and 64 to 112 keys. With 64 features, programs with roles take 1.1 times as
/// long as many small CTAs.
static double busy_in_roles(const GpuWork *w, bool split) {
    double shared = w->shared + w->bytes / COST_GPU_SHARED_CYCLE; // with the copies
    double crowd = fmax(0, shared - COST_GPU_CROWD_FROM * w->unit);
    double products = fmax(w->unit, shared) + COST_GPU_CROWD * crowd, alu = w->alu - w->masks;
    double beyond = fmax(0, alu - products);
    double seen = split ? COST_GPU_ROLES_SPLIT : COST_GPU_ROLES;
    return products + seen * (alu - beyond) + COST_GPU_ISSUE * beyond;
}

/// Returns the maximum stages if an SM has few programs. Memory runs at full speed only if enough
/// loads are in flight: with 16 x 16 x 128 tiles and two programs an SM, six stages instead of four
/// gain 12 %.
static double stages_of_few(const GpuModel *m, double bytes) {
    double needed = COST_GPU_BYTES_AHEAD / (ceil(m->each) * fmax(bytes, 1));
    return m->alone ? COST_GPU_ALONE_STAGES : fmin(ceil(needed), COST_GPU_ALONE_STAGES);
}

/// Returns the slots of a pipeline that brings `bytes` in each step, as `schedule` chooses them.
static double stages_for(const GpuModel *m, const GpuWork *w, double bytes) {
    double other = COST_GPU_SHARED_REST + (m->persists ? COST_GPU_BESIDE : 0);
    double room = m->target->shared_cta - other, most = GPU_RING_SLOTS;
    if (m->axes.stages) return fmin(m->axes.stages, floor(room / fmax(bytes, 1)));
    if (!m->shape.chain) most = fmax(most, stages_of_few(m, bytes));
    bool rings = w->unit > 0 && gpu_has_any(m->target, GPU_CP_ASYNC | GPU_TMA);
    if (rings && !m->shape.chain && !m->alone)
        room = (double)gpu_ring_room(m->target, &m->shape, false, (int64_t)bytes, (int64_t)other);
    return fmin(most, floor(room / fmax(bytes, 1)));
}

/// Returns the wait of one pipeline step. A slot is full when memory has answered and its bytes
/// have arrived, and free when its step, or the next one, has been computed. (128 x 256 x 64 by
/// wgmma: 1.12 times as long with three slots as with four.)
static double step_wait(const GpuModel *m, const GpuWork *step, double bytes) {
    double stages = fmax(1, stages_for(m, step, bytes)), compute = busy_cycles(step);
    double held = compute * (step->late && !m->shape.chain ? 2 : 1);
    return COST_GPU_STEP +
           fmax(0, (held + COST_GPU_LATENCY + bytes / COST_GPU_L2_CYCLE) / stages - compute);
}

static void add_step_work(GpuWork *w, const GpuWork *step, double times, double trips) {
    w->stage = fmax(w->stage, step->stage);
    w->unit += times * trips * step->unit;
    w->flops += times * trips * step->flops;
    w->shared += times * trips * step->shared;
    w->alu += times * trips * step->alu;
    w->fma += times * trips * step->fma;
    w->masks += times * trips * step->masks;
    w->bytes += times * trips * step->bytes;
    w->waits += times * trips * step->waits;
    w->ahead |= step->ahead;
}

/// Whether registers hold the blocks that the loop loads twice (passes/gpu/prefetch.c).
static bool runs_ahead(const GpuModel *m, const Region *r) {
    double elements = 0;
    for_each_op(op, r) {
        if (op->code == OP_FOR || op->code == OP_WHILE) return false;
        if (op->code == OP_LOAD) elements += (double)ty_count(result(op, 0)->type);
    }
    return elements > 0 && elements <= COST_GPU_AHEAD_THREAD * m->threads;
}

/// Loads of a loop with products run ahead. Other loops wait for theirs in each iteration.
static void add_loop_work(GpuModel *m, GpuWork *w, const Op *op, double times) {
    double trips = cost_turns(&m->dims, op);
    if (op == m->parted) trips = ceil(trips / m->ways);
    const Region *body = op->regions[op->code == OP_WHILE];
    GpuWork step = {0};
    double bytes = loaded_bytes(m, body);
    if (!find_live_op(body, OP_DOT)) {
        bool outer = m->looped;
        m->looped = !find_live_op(body, OP_STORE);
        add_gpu_region(m, &step, body, 1);
        m->looped = outer;
        bool ahead = runs_ahead(m, body);
        w->ahead |= ahead;
        if (ahead) step.waits -= fmin(COST_GPU_LATENCY, busy_cycles(&step));
        add_step_work(w, &step, times, trips);
        return;
    }
    bool outer = m->piped;
    m->piped = true;
    add_gpu_region(m, &step, body, 1);
    m->piped = outer;
    if (!loads_by_hand(m, body))
        step.waits = fmax(0, step.waits - COST_GPU_LATENCY) + step_wait(m, &step, bytes);
    if (m->rows) step.waits += COST_GPU_PAIR_STEP;
    w->stage = fmax(w->stage, bytes);
    w->ahead = true;
    add_step_work(w, &step, times, trips);
    w->waits += times * COST_GPU_LATENCY;
}

/// Whether the op adds a product to a sum. The product does the addition, so the op costs nothing.
static bool is_product_sum(const Op *op) {
    return op->code == OP_ADD && (def_of(operand(op, 0), OP_DOT) || def_of(operand(op, 1), OP_DOT));
}

/// Whether the op makes a block of bools, or selects by one.
static bool is_mask(const Op *op) {
    const Type *t = op->code == OP_SELECT ? operand(op, 0)->type : result(op, 0)->type;
    return ty_is_block(t) && t->elem == EL_BOOL;
}

static void add_gpu_op(GpuModel *m, GpuWork *w, const Op *op, double times) {
    if (cost_is_dead(op) || is_product_sum(op)) return;
    const Type *out = op->n_results ? result(op, 0)->type : NULL;
    switch (op->code) {
    case OP_FOR:
    case OP_WHILE: add_loop_work(m, w, op, times); return;
    case OP_IF:
        add_gpu_region(m, w, op->regions[0], times / 2);
        add_gpu_region(m, w, op->regions[1], times / 2);
        return;
    case OP_DOT: add_dot(m, w, op, times); return;
    case OP_LOAD:
        add_gpu_access(m, w, op, out, times);
        if (!m->piped && out->rank == 2) w->kept += times * cost_bytes(out);
        return;
    case OP_STORE:
    case OP_ATOMIC:
    case OP_COMBINE: add_gpu_access(m, w, op, access_of(op).value->type, times); return;
    case OP_REDUCE:
    case OP_SCAN:
    case OP_SORT:
        w->waits += times * COST_GPU_JOIN * (op->code == OP_SORT ? COST_GPU_SORT : 1);
        if (m->ctas > 1) w->waits += times * COST_GPU_JOIN_CTAS;
        out = operand(op, 0)->type;
        break;
    default: break;
    }
    if (!out || !ty_is_block(out)) return;
    double cycles = times * fmin(op_info[op->code].cost.model, COST_GPU_SPECIAL) *
                    (double)ty_count(out) / m->target->fma_cycle;
    w->alu += cycles;
    if (is_mask(op)) w->masks += cycles;
}

/// Loads of one region overlap, so the region waits once for all.
static void add_gpu_region(GpuModel *m, GpuWork *w, const Region *r, double times) {
    bool waits = false;
    for_each_op(op, r) {
        waits |= op->code == OP_LOAD && !cost_is_dead(op);
        add_gpu_op(m, w, op, times);
    }
    if (waits) w->waits += times * COST_GPU_LATENCY;
}

/* ---- split loops --------------------------------------------------------------------------- */

static bool is_running_sum(const Op *loop, int i) {
    const Value *arg = loop_arg(loop, 0, i);
    const Op *next = operand(terminator(loop->regions[0]), i)->def;
    return next && next->code == OP_ADD && (operand(next, 0) == arg || operand(next, 1) == arg);
}

/// Returns the program's only loop if it sums up products, so that split.c may split it; else NULL.
static const Op *loop_to_split(const Region *program) {
    const Op *found = NULL;
    for_each_op(op, program) {
        if (!op_is_loop(op) || cost_is_dead(op)) continue;
        if (found || op->code != OP_FOR || op->n_regions > 1 || !op->n_results) return NULL;
        found = op;
    }
    if (!found || !tree_only_reads(found) || !find_live_op(found->regions[0], OP_DOT)) return NULL;
    for (int i = 0; i < found->n_results; i++)
        if (!is_running_sum(found, i)) return NULL;
    return found;
}

/// Returns the bytes of a part: of the values that the loop carries.
static double part_bytes(const Op *loop) {
    double bytes = 0;
    for (int i = 0; i < loop->n_results; i++) bytes += cost_bytes(result(loop, i)->type);
    return bytes;
}

/// Chooses the loop to split in a phase of so many programs, whose innermost level is p.
static void set_parts(GpuModel *m, const Op *p, double programs) {
    const Op *loop = loop_to_split(p->regions[0]);
    double ways = m->axes.split;
    bool fits = loop && programs * ways * part_bytes(loop) <= SPLIT_WORKSPACE;
    m->needs.splits |= loop != NULL;
    m->parted = ways > 1 && fits ? loop : NULL;
    m->ways = m->parted ? ways : 1;
}

/// Adds the work of a program that stores a part in place of the ops after its loop.
static void add_part_work(GpuModel *m, GpuWork *w, const Region *r) {
    for_each_op(op, r) {
        add_gpu_op(m, w, op, 1);
        if (op == m->parted) break;
    }
    double bytes = part_bytes(m->parted), numbers = bytes / sizeof(float);
    w->alu += numbers / m->target->fma_cycle * COST_GPU_ACCESS;
    w->bytes += bytes;
    w->waits += bytes / COST_GPU_L2_CYCLE;
}

/// Returns the seconds of the phase that joins the parts of so many programs. Parts are in L2.
static double join_seconds(const GpuModel *m, double programs) {
    const GpuTarget *t = m->target;
    double bytes = programs * part_bytes(m->parted);
    double sms = fmin(t->sms, fmax(1, ceil(bytes / sizeof(float) / SPLIT_JOIN_NUMBERS)));
    double cycles = COST_GPU_CTA_START + 2 * COST_GPU_LATENCY + bytes / sms / COST_GPU_L2_CYCLE;
    double seconds = COST_GPU_JOIN_PARTS + cycles / t->clock;
    if (m->out)
        text_add(m->out, "  their parts, %.3g MB, are joined in %.3g us\n", bytes * 1e-6,
                 seconds * 1e6);
    return seconds;
}

/// Returns the seconds of the phases that copy operands into aligned rows.
static double align_seconds(const GpuModel *m) {
    double seconds = m->copied / (ALIGN_ROWS_RATE * m->target->bandwidth);
    seconds += m->copies * COST_GPU_LAUNCH;
    if (m->out)
        text_add(m->out, "  copies of %d operands into aligned rows move %.3g MB in %.3g us\n",
                 m->copies, m->copied * 1e-6, seconds * 1e6);
    return seconds;
}

/* ---- phases -------------------------------------------------------------------------------- */

/// Returns the CTAs that an SM holds at a time.
static double resident_ctas(const GpuModel *m, double registers, GpuWork *w) {
    const GpuTarget *t = m->target;
    double threads = m->threads;
    double most = fmin(t->registers_thread, t->registers_sm / threads);
    double needed = fmax(registers, m->shape.at_once);
    w->spills = needed > most * (1 + m->axes.slack) ? COST_GPU_SPILLS * needed / most : 1;
    registers = fmin(registers, most);
    double n = fmin(t->threads_sm / threads, t->registers_sm / (registers * threads));
    double stages = stages_for(m, w, w->stage);
    if (w->fma > 0 && w->unit == 0)
        stages = fmin(stages, 1); // operands of FMAs have no pipeline
    else if (stages < 2)
        w->spills *= COST_GPU_SPILLS; // no pipeline
    if (stages < 1)
        w->spills *= COST_GPU_SPILLS; // not even a buffer: operands go through
                                      // registers
    if (m->shape.chain && !m->axes.stages)
        stages = fmin(stages, 2); // as `schedule` chooses if CTAs share an SM
    double shared = stages * w->stage + (m->shape.chain ? w->kept : 0);
    if (w->stage > 0) n = fmin(n, t->shared_sm / shared);
    return fmax(1, floor(fmin(n, t->ctas_sm)));
}

/// Returns the maximum CTAs of an SM in a phase that combines, in which each CTA takes a group of
/// programs in turn.
static double combining_ctas(const GpuTarget *t, const Op *combine) {
    return ceil((double)combine_programs_gpu(combine) / t->sms);
}

/// Divides the work of a program among its CTAs.
static void share_work(GpuWork *w, double ctas) {
    w->flops /= ctas;
    w->unit /= ctas;
    w->shared /= ctas;
    w->alu /= ctas;
    w->fma /= ctas;
    w->masks /= ctas;
    w->bytes /= ctas;
}

/// Describes a phase: bytes, FLOPs, and the distance from the roof. The roof is the longest peak
/// time of memory, of the matrix units, and of the FMAs of other products.
static void describe_phase(const GpuModel *m, const GpuWork *w, double programs, double seconds) {
    const GpuTarget *t = m->target;
    double bytes = fmin(m->memory, programs * w->bytes), flops = programs * w->flops;
    double memory = bytes / t->bandwidth, each = programs / t->sms / t->clock;
    double units = w->unit * each, fma = w->fma * each, roof = fmax(memory, fmax(units, fma));
    text_add(m->out, "  %.0f programs move %.3g MB", programs, bytes * 1e-6);
    if (flops > 0)
        text_add(m->out, " and multiply %.3g GFLOP, %.3g FLOP a byte", flops * 1e-9,
                 flops / fmax(bytes, 1));
    text_add(m->out, ": %.3g us where the roof, %s, has %.3g us (%.0f%%)\n", seconds * 1e6,
             roof == memory  ? "that of memory"
             : roof == units ? "that of products"
                             : "that of products by multiply-adds",
             roof * 1e6, 100 * roof / seconds);
}

/// Records the needs of the phase that is closest to a limit, or exceeds it most.
static void note_needs(GpuModel *m, const GpuShape *shape, const GpuWork *w, const Region *body) {
    const GpuTarget *t = m->target;
    GpuNeeds *n = &m->needs;
    double most = fmin(t->registers_thread, t->registers_sm / m->threads);
    if (!n->most_registers || shape->registers / most > n->registers / n->most_registers) {
        n->registers = shape->registers;
        n->most_registers = most;
    }
    n->stage_bytes = fmax(n->stage_bytes, w->stage);
    n->most_bytes = t->shared_cta;
    if (shape->warps > n->warps) n->warps = shape->warps;
    n->products |= w->flops > 0;
    n->loops |= find_live_op(body, OP_FOR) != NULL;
    bool deep = !m->axes.stages && w->stage > 0 && stages_for(m, w, w->stage) > GPU_RING_SLOTS;
    if (deep) n->slots = (int)stages_for(m, w, w->stage);
}

/// Adds a second read of all loaded data. Then no row is held in registers beside the combined
/// values.
static void read_again(GpuModel *m, GpuWork *w, const Region *body, double programs) {
    double bytes = loaded_bytes(m, body);
    m->memory += programs * bytes;
    m->searched += programs * bytes;
    w->bytes += bytes;
    m->shape.at_once = 0;
}

/// Decides how CTAs divide the programs of the phase, whose innermost level is p.
static void set_shape(GpuModel *m, const Op *p, double programs) {
    const GpuTarget *t = m->target;
    bool pairs = m->rows != NULL;
    m->shape = gpu_shape_of_warps(t, p, pairs ? 1 : m->axes.cluster, m->axes.warps);
    m->threads = m->shape.warps * (double)t->lanes;
    m->ctas = m->shape.cluster;
    m->each = programs * m->shape.cluster / t->sms;
    m->alone = m->each <= 1;
    GpuRolesFit fit = gpu_roles_fit(t, p, &m->shape);
    m->roles = m->axes.roles && fit != ROLES_NONE;
    bool may_persist = m->roles ? fit == ROLES_PERSIST && m->axes.persistent > 0
                                : gpu_persists(t, p, m->axes.persistent);
    may_persist &= !m->parted; // a branch chooses between parts and results
    m->persists = may_persist && !m->alone;
    m->split = m->persists || fit == ROLES_WIDE;
    m->needs.roles |= fit != ROLES_NONE;
    m->mixed |= fit == ROLES_NONE && find_live_op(p->regions[0], OP_DOT) != NULL;
    m->needs.once |= may_persist && m->alone;
    m->needs.lasts |= m->persists;
}

/// Returns the cycles of the SM with the most programs. programs: those of the whole phase.
static double phase_cycles(GpuModel *m, const Op *phase, GpuWork *w, double programs) {
    const GpuTarget *t = m->target;
    double held = m->roles ? 1 : resident_ctas(m, m->shape.registers, w);
    double each = ceil(programs / t->sms);
    const Op *combine = find_live_op(phase->regions[0], OP_COMBINE);
    if (combine) held = fmin(held, combining_ctas(t, combine));
    m->held = held;
    if (m->roles) w->spills = 1;
    double compute =
        m->roles ? busy_in_roles(w, m->split) : busy_cycles(w) + busy_among_few(m, w, held);
    if (w->fma > 0 && w->unit == 0 && held < 2) compute *= COST_GPU_FMA_ALONE;
    double hidden = m->roles ? 2 * COST_GPU_LATENCY : COST_GPU_LATENCY;
    double busy = each * compute,
           start = m->roles ? COST_GPU_ROLES_START : COST_GPU_LATENCY + COST_GPU_CTA_START;
    double rounds = ceil(each / held), starts = m->persists ? 1 : rounds;
    double alone = rounds * (w->waits - hidden + compute) + starts * start;
    double read = each * w->bytes / COST_GPU_L2_CYCLE, longest = fmax(busy, fmax(alone, read));
    return longest + COST_GPU_REST * (busy + alone + read - longest);
}

static double gpu_phase_seconds(GpuModel *m, const Op *phase) {
    const GpuTarget *t = m->target;
    double programs = 1;
    const Op *p = phase;
    for (const Op *next = p; next; next = inner_parallel(p)) {
        p = next;
        programs *= cost_trips(&m->dims, p);
    }
    const Op *rows = paired_level(t, phase);
    double tiles = rows ? cost_trips(&m->dims, rows) : 0;
    bool pairs = m->axes.cluster == GPU_PAIR && tiles > 1;
    if (pairs) programs *= GPU_PAIR * ceil(tiles / GPU_PAIR) / tiles;
    m->rows = pairs ? rows : NULL;
    m->needs.pairs |= tiles > 1;
    GpuWork w = {0};
    set_parts(m, p, programs);
    programs *= m->ways;
    set_shape(m, p, programs);
    m->memory = m->searched = 0;
    m->n_seen = m->copies = 0;
    m->copied = m->copy_bytes = 0;
    if (m->parted)
        add_part_work(m, &w, p->regions[0]);
    else
        add_gpu_region(m, &w, p->regions[0], 1);
    note_needs(m, &m->shape, &w, p->regions[0]);
    bool columns = gpu_goes_by_columns(t, &m->shape, p);
    if (columns) read_again(m, &w, p->regions[0], programs);
    share_work(&w, m->ctas);
    programs *= m->ctas;
    double cycles = phase_cycles(m, phase, &w, programs), seconds = cycles / t->clock * w.spills;
    double memory = fmin(m->memory, programs * w.bytes) / t->bandwidth;
    memory *= m->searched / fmax(m->memory, 1);
    // Without prefetches, memory rests while a program computes, unless other programs share the
    // SM.
    double rest = w.ahead ? COST_GPU_REST : fmax(COST_GPU_REST, COST_GPU_ALONE / m->held);
    double all =
        COST_GPU_LAUNCH * (columns ? 2 : 1) + fmax(seconds, memory) + rest * fmin(seconds, memory);
    if (m->axes.align_rows > 0 && m->copies) all += align_seconds(m);
    if (m->out) describe_phase(m, &w, programs, all);
    return all + (m->parted ? join_seconds(m, programs) : 0);
}

static double price_gpu_phase(void *model, const Op *phase) {
    return gpu_phase_seconds(model, phase);
}

static double gpu_host_seconds(GpuModel *m, const Op *kernel) {
    return cost_host(&m->dims, kernel->regions[0], price_gpu_phase, m);
}

double gpu_cost_phase(const Op *phase, const GpuTarget *target, const CostDims *dims,
                      double *held) {
    GpuModel m = {.target = target, .dims = *dims};
    double seconds = gpu_phase_seconds(&m, phase);
    if (held) *held = m.held;
    return seconds;
}

double gpu_cost_estimate(const Op *kernel, const GpuTarget *target,
                         int64_t (*dim_of)(void *user, int parameter, int axis), void *user,
                         const GpuAxes *axes, GpuNeeds *needs) {
    GpuModel m = {.target = target,
                  .axes = axes ? *axes : (GpuAxes){0},
                  .dims = {.dim_of = dim_of, .user = user}};
    double seconds = gpu_host_seconds(&m, kernel);
    m.needs.once &= !m.needs.lasts;
    m.needs.roles &= !m.mixed;
    if (needs) *needs = m.needs;
    return seconds;
}

void gpu_cost_describe(Text *out, const Op *kernel, const GpuTarget *target,
                       int64_t (*dim_of)(void *user, int parameter, int axis), void *user,
                       const GpuAxes *axes) {
    GpuModel m = {
        .target = target, .axes = *axes, .dims = {.dim_of = dim_of, .user = user}, .out = out};
    gpu_host_seconds(&m, kernel);
}
