// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference interpreter: registers, control flow, phases, effects.
#include "ir/interp/interp_private.h"

#include "lang/diag.h"

#include <math.h>
#include <string.h>

_Noreturn void run_error(Interp *it, const Op *op, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    const char *text = ctx_vformat(it->ctx, fmt, ap);
    va_end(ap);
    diag(it->ctx, op->loc, D_RUN_FAILED, text);
    ctx_give_up(it->ctx);
}

/// splitmix64.
uint64_t next_random(Interp *it) {
    uint64_t z = it->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double last_place(Elem e) {
    static const int bits[EL_COUNT] = {[EL_F64] = 53, [EL_F32] = 24,   [EL_F16] = 11,
                                       [EL_BF16] = 8, [EL_F8E4M3] = 4, [EL_F8E5M2] = 3};
    return ldexp(1, 1 - bits[e]);
}

Cell round_result(Interp *it, Elem e, Cell c, int units) {
    if (it->options.noise && elem_is(e, EC_FLOAT)) {
        double random = ldexp((double)(next_random(it) >> 11), -52) - 1;
        c.f *= 1 + units * last_place(e) * random;
    }
    return cell_wrap(e, c);
}

/* ---- registers and plans ------------------------------------------------------------------- */

static Reg *new_reg(Interp *it, const Value *v) {
    Reg *r = ctx_new(it->ctx, Reg);
    r->type = v->type;
    const Type *block = ty_promised(v->type) ? ty_promised(v->type) : v->type;
    if (ty_is_block(block)) {
        r->n = ty_count(block);
        r->cells = ctx_array(it->ctx, Cell, r->n);
    }
    map_set(it->ctx, &it->regs, v, r);
    return r;
}

void copy_reg(Reg *to, const Reg *from) {
    if (to == from) return;
    to->tensor = from->tensor;
    if (to->n) memcpy(to->cells, from->cells, (size_t)to->n * sizeof(Cell));
}

static int64_t carried_lanes(const Op *op) {
    int64_t n = 0;
    for (int i = 0; i < op->n_results; i++) {
        const Type *t = result(op, i)->type, *block = ty_promised(t) ? ty_promised(t) : t;
        if (ty_is_block(block)) n += ty_count(block);
    }
    return n;
}

/// Values are defined before their uses in this order, so operands already have registers.
static void plan_op(Op *op, void *arg) {
    Interp *it = arg;
    Plan *p = ctx_new(it->ctx, Plan);
    op->note = p;
    p->in = ctx_array(it->ctx, Reg *, op->n_operands);
    p->out = ctx_array(it->ctx, Reg *, op->n_results);
    p->args = ctx_array(it->ctx, Reg **, op->n_regions);
    for (int i = 0; i < op->n_operands; i++) p->in[i] = map_get(&it->regs, operand(op, i));
    for (int i = 0; i < op->n_results; i++) p->out[i] = new_reg(it, result(op, i));
    for (int r = 0; r < op->n_regions; r++) {
        p->args[r] = ctx_array(it->ctx, Reg *, op->regions[r]->n_args);
        for (int i = 0; i < op->regions[r]->n_args; i++)
            p->args[r][i] = new_reg(it, op->regions[r]->args[i]);
    }
    if (op_is_access(op)) {
        Access a = access_of(op);
        p->access = ctx_copy(it->ctx, &a, sizeof a);
    }
    p->temp = ctx_array(it->ctx, Cell, carried_lanes(op));
}

/* ---- control flow -------------------------------------------------------------------------- */

/// Assigns the yielded values to arguments first.. of a region, simultaneously.
static void carry_yielded(const Op *op, int region, int first, const Region *from) {
    Plan *p = plan_of(op);
    Cell *t = p->temp;
    int n = op->regions[region]->n_args - first;
    for (int i = 0; i < n; i++) {
        const Reg *y = yielded(from, i);
        memcpy(t, y->cells, (size_t)y->n * sizeof(Cell));
        t += y->n;
    }
    t = p->temp;
    for (int i = 0; i < n; i++) {
        Reg *a = p->args[region][first + i];
        memcpy(a->cells, t, (size_t)a->n * sizeof(Cell));
        t += a->n;
    }
}

static void start_for(Op *op) {
    for (int i = 0; i < op->n_results; i++) copy_reg(plan_of(op)->args[0][i + 1], in(op, i + 2));
}

static void finish_for(Op *op) {
    for (int i = 0; i < op->n_results; i++) copy_reg(out(op, i), plan_of(op)->args[0][i + 1]);
}

/// Runs at most `n` iterations from `from`. Returns the iteration at which it stopped.
static int64_t iterate_loop(Interp *it, Op *op, int64_t from, int64_t n) {
    int64_t hi = in_int(op, 1), step = op_int(op, A_STEP, 1);
    for (; n > 0 && from < hi; n--, from += step) {
        plan_of(op)->args[0][0]->cells[0].i = from;
        run_region(it, op->regions[0]);
        carry_yielded(op, 0, 1, op->regions[0]);
    }
    return from;
}

static void seek_effect(Op *op, void *found) {
    if (op_info[op->code].traits & (WRITES | EFFECT) && op->n_regions == 0) *(bool *)found = true;
}

static double approx_bound(Elem e) {
    return e == EL_F64 ? 1e-9 : e == EL_F32 ? 1e-3 : 1e-1;
}

/// Finds the coarsest rounding of the intermediate values.
static void seek_rounding(Op *op, void *bound) {
    Elem e = op->code == OP_CAST ? result(op, 0)->type->elem : EL_F64;
    if (elem_is(e, EC_FLOAT)) *(double *)bound = fmax(*(double *)bound, approx_bound(e));
}

static bool close_enough(Elem e, double bound, Cell a, Cell b) {
    if (!elem_is(e, EC_FLOAT)) return a.u == b.u;
    bound = fmax(bound, approx_bound(e));
    return cell_equal(e, a, b) || fabs(a.f - b.f) <= bound * (1 + fabs(a.f) + fabs(b.f));
}

/// Checks the promise of `merge f`: groups of consecutive iterations, each from the initial values
/// and joined by f in order, give the same result as one run. Runs the loop again in random groups
/// and compares.
static void check_merge(Interp *it, Op *op) {
    Region *join = op->regions[1];
    Reg **carried = plan_of(op)->args[0] + 1, **args = plan_of(op)->args[1];
    int n = op->n_results;
    int64_t hi = in_int(op, 1), at = in_int(op, 0);
    for (int i = 0; i < n; i++) copy_reg(args[i], in(op, i + 2));
    while (at < hi) {
        start_for(op);
        at = iterate_loop(it, op, at, 1 + (int64_t)(next_random(it) % 3));
        for (int i = 0; i < n; i++) copy_reg(args[n + i], carried[i]);
        run_region(it, join);
        for (int i = 0; i < n; i++) // b is not needed any more: through it
            copy_reg(args[n + i], yielded(join, i));
        for (int i = 0; i < n; i++) copy_reg(args[i], args[n + i]);
    }
    double bound = 0;
    op_walk_pre(op, seek_rounding, &bound);
    for (int i = 0; i < n; i++)
        for (int64_t j = 0; j < args[i]->n; j++)
            if (!close_enough(args[i]->type->elem, bound, args[i]->cells[j], out(op, i)->cells[j]))
                run_error(it, op,
                          "the merge function does not join groups of iterations: carried value %d "
                          "is %s in one run and %s in groups",
                          i + 1, cell_text(it->ctx, args[i]->type->elem, out(op, i)->cells[j]),
                          cell_text(it->ctx, args[i]->type->elem, args[i]->cells[j]));
}

static void do_for(Interp *it, Op *op) {
    start_for(op);
    iterate_loop(it, op, in_int(op, 0), INT64_MAX);
    finish_for(op);
    bool effect = false;
    if (it->options.check && op->n_regions == 2) {
        op_walk_pre(op, seek_effect, &effect);
        if (!effect) check_merge(it, op);
    }
}

static void do_while(Interp *it, Op *op) {
    Plan *p = plan_of(op);
    for (int i = 0; i < op->n_results; i++) copy_reg(p->args[0][i], in(op, i));
    for (;;) {
        run_region(it, op->regions[0]);
        if (!yielded(op->regions[0], 0)->cells[0].u) break;
        for (int i = 0; i < op->n_results; i++) copy_reg(p->args[1][i], p->args[0][i]);
        run_region(it, op->regions[1]);
        carry_yielded(op, 0, 0, op->regions[1]);
    }
    for (int i = 0; i < op->n_results; i++) copy_reg(out(op, i), p->args[0][i]);
}

static void do_if(Interp *it, Op *op) {
    Region *r = op->regions[in(op, 0)->cells[0].u ? 0 : 1];
    run_region(it, r);
    for (int i = 0; i < op->n_results; i++) copy_reg(out(op, i), yielded(r, i));
}

/* ---- phases -------------------------------------------------------------------------------- */

static bool is_innermost(const Region *r) {
    for_each_op(op, r) if (op->code == OP_PARALLEL) return false;
    return true;
}

static void run_one_program(Interp *it, Op *op, int64_t index) {
    plan_of(op)->args[0][0]->cells[0].i = index;
    it->program += is_innermost(op->regions[0]);
    race_program(it);
    run_region(it, op->regions[0]);
}

static void run_picked(Interp *it, Op *op, int64_t lo, int64_t n, int64_t step) {
    if (n > 0) run_one_program(it, op, lo + it->options.pick(it->options.user, n) * step);
}

/// Programs have no order. With a seed, they run with a stride that is coprime to their number. A
/// kernel with a combine runs in order, since the indices order its folds.
static void run_all_programs(Interp *it, Op *op, int64_t lo, int64_t n, int64_t step,
                             bool ordered) {
    int64_t stride = 1, start = 0;
    if (it->options.seed && n > 2 && !ordered) {
        start = (int64_t)(next_random(it) % (uint64_t)n);
        int64_t a, b;
        do {
            stride = 1 + (int64_t)(next_random(it) % (uint64_t)(n - 1));
            for (a = stride, b = n; b;) {
                int64_t r = a % b;
                a = b;
                b = r;
            }
        } while (a != 1);
    }
    for (int64_t i = 0, at = start; i < n; i++, at = (at + stride) % n)
        run_one_program(it, op, lo + at * step);
}

enum { COMBINES = 1, COMBINES_SHARDS = 2 };

static void seek_combine(Op *op, void *found) {
    if (op->code == OP_COMBINE)
        *(int *)found |= COMBINES | (value_is_sym(operand(op, 0)) ? COMBINES_SHARDS : 0);
}

static void run_parallel_phase(Interp *it, Op *op, int64_t lo, int64_t n, int64_t step) {
    bool outer = !it->in_phase;
    int found = 0;
    op_walk_pre(op, seek_combine, &found);
    it->in_phase = true;
    if (outer) race_phase(it);
    if (it->options.pick)
        run_picked(it, op, lo, n, step);
    else
        run_all_programs(it, op, lo, n, step, found != 0);
    if (!outer) return;
    it->in_phase = false;
    it->program = 0;
    memset(&it->writers, 0, sizeof it->writers);
    finish_folds(it);
    if (found & COMBINES_SHARDS) finish_shard_folds(it, op);
}

static void do_parallel(Interp *it, Op *op) {
    int64_t lo = in_int(op, 0), hi = in_int(op, 1), step = op_int(op, A_STEP, 1);
    run_parallel_phase(it, op, lo, step ? (hi > lo ? ceil_div(hi - lo, step) : 0) : 1, step);
}

static void do_launch(Interp *it, Op *op) {
    int64_t n = in_int(op, 0);
    run_parallel_phase(it, op, 0, n > 0 ? n : 0, 1);
}

/* ---- effects ------------------------------------------------------------------------------- */

static void add_reg_value(Text *t, const Reg *r) {
    Elem e = r->type->elem;
    if (r->type->rank == 0) {
        text_add(t, "%s", cell_text(t->ctx, e, r->cells[0]));
        return;
    }
    text_add(t, "[");
    for (int64_t i = 0; i < r->n && i < 16; i++)
        text_add(t, "%s%s", i ? ", " : "", cell_text(t->ctx, e, r->cells[i]));
    text_add(t, r->n > 16 ? ", ...]" : "]");
}

/// The op's text with each {} replaced by the next operand, starting at `first`.
static const char *filled_text(Interp *it, const Op *op, int first) {
    Text t = {.ctx = it->ctx};
    text_bytes(&t, "", 0);
    for (const char *s = op_str(op, A_TEXT); *s; s++) {
        if (s[0] == '{' && s[1] == '}' && first < op->n_operands) {
            add_reg_value(&t, in(op, first++));
            s++;
        } else {
            text_bytes(&t, s, 1);
        }
    }
    return t.data;
}

static void do_require(Interp *it, Op *op) {
    if (!in(op, 0)->cells[0].u) run_error(it, op, "%s", filled_text(it, op, 1));
}

static void do_assert(Interp *it, Op *op) {
    const Reg *c = in(op, 0);
    for (int64_t lane = 0; it->options.check && lane < c->n; lane++) {
        if (c->cells[lane].u) continue;
        Text where = {.ctx = it->ctx};
        text_bytes(&where, "", 0);
        int64_t rest = lane, size = c->n;
        for (int d = 0; d < c->type->rank; d++) {
            size /= c->type->extents[d];
            text_add(&where, "%s%lld", d ? ", " : " at [", (long long)(rest / size));
            rest %= size;
        }
        run_error(it, op, "assertion failed: %s%s%s", filled_text(it, op, 1), where.data,
                  c->type->rank ? "]" : "");
    }
}

static void do_print(Interp *it, Op *op) {
    if (!it->options.print) return;
    const char *text = filled_text(it, op, 0);
    if (has_company(it)) text = ctx_format(it->ctx, "rank %d: %s", it->rank, text);
    it->options.print(it->options.user, text);
}

static void do_call(Interp *it, Op *op) {
    Op *callee = find_kernel(it->module, op_str(op, A_CALLEE));
    for (int i = 0; i < op->n_operands; i++) copy_reg(plan_of(callee)->args[0][i], in(op, i));
    run_region(it, callee->regions[0]);
}

static void do_dispatch(Interp *it, Op *op) {
    Op *device = find_device(it->module, op_str(op, A_DEVICE));
    for (int i = 1; i < op->n_operands; i++) copy_reg(plan_of(device)->args[0][i], in(op, i));
    int64_t n = in_int(op, 0);
    run_parallel_phase(it, device, 0, n > 0 ? n : 0, 1);
}

/* ---- running ------------------------------------------------------------------------------- */

static void do_nothing(Interp *it, Op *op) {
    (void)it, (void)op;
}

// Elementwise ops share one row.
static Exec *const exec[OP_COUNT] = {
    [OP_CALL] = do_call,
    [OP_YIELD] = do_nothing,
    [OP_PARALLEL] = do_parallel,
    [OP_FOR] = do_for,
    [OP_WHILE] = do_while,
    [OP_IF] = do_if,
    [OP_CONST] = do_const,
    [OP_IOTA] = do_iota,
    [OP_BROADCAST] = do_broadcast,
    [OP_RESHAPE] = do_reshape,
    [OP_PERMUTE] = do_permute,
    [OP_SLICE] = do_slice,
    [OP_CONCAT] = do_concat,
    [OP_CAST] = do_cast,
    [OP_BITCAST] = do_bitcast,
    [OP_SELECT] = do_select,
    [OP_DOT] = do_dot,
    [OP_REDUCE] = do_reduce,
    [OP_SCAN] = do_scan,
    [OP_SORT] = do_sort,
    [OP_HISTOGRAM] = do_histogram,
    [OP_GATHER] = do_gather,
    [OP_DIM] = do_dim,
    [OP_STRIDE] = do_stride,
    [OP_ALIGN] = do_align,
    [OP_LOAD] = do_load,
    [OP_LIVE] = do_live,
    [OP_STORE] = do_store,
    [OP_ATOMIC] = do_atomic,
    [OP_COMBINE] = do_combine,
    [OP_SCRATCH] = do_scratch,
    [OP_WORKSPACE_LIMIT] = do_workspace_limit,
    [OP_RANK] = do_rank,
    [OP_COMM_BEGIN] = do_comm_begin,
    [OP_COMM_BARRIER] = do_comm_barrier,
    [OP_COMM_END] = do_comm_end,
    [OP_COMM_GATHER] = do_comm_gather,
    [OP_COMM_SCATTER] = do_comm_scatter,
    [OP_COMM_SIGNALS] = do_comm_signals,
    [OP_COMM_CONTROL] = do_comm_control,
    [OP_SIGNAL_WAIT] = do_signal_wait,
    [OP_SIGNAL_SET] = do_signal_set,
    [OP_COMM_FENCE] = do_comm_fence,
    [OP_REQUIRE] = do_require,
    [OP_ASSERT] = do_assert,
    [OP_PRINT] = do_print,
    [OP_LAUNCH] = do_launch,
    [OP_DISPATCH] = do_dispatch,
    [OP_CONTRACT] = do_contract,
    // A layout changes the place of elements, not their values.
    [OP_CONVERT] = do_reshape,
    [OP_RENEW] = do_reshape,
    [OP_DESC] = do_desc,
    [OP_BUF_ALLOC] = do_buf_alloc,
    [OP_BUF_VIEW] = do_buf_view,
    [OP_BUF_LOAD] = do_buf_load,
    [OP_BUF_STORE] = do_buf_store,
    [OP_BUF_PAD] = do_buf_pad,
    [OP_SHARED_FREE] = do_nothing,
    [OP_BARRIER] = do_nothing, // one thread
    [OP_FENCE] = do_nothing,
    [OP_COPY_ASYNC] = do_copy_async,
    [OP_COPY_TMA] = do_copy_tma,
    [OP_COPYOUT_TMA] = do_copyout_tma,
    [OP_MMA_START] = do_mma_start,
    [OP_SETTLED] = do_reshape,
    [OP_BLANK] = do_blank,
    [OP_AWAIT] = do_await,
    [OP_RING_MAKE] = do_ring_make,
    [OP_RING_ACQUIRE] = do_ring_acquire,
    [OP_RING_COMMIT] = do_ring_commit,
    [OP_TAKE_TILE] = do_take_tile,
    [OP_RING_WAIT] = do_ring_wait,
    [OP_RING_RELEASE] = do_ring_release,
    [OP_ROLES] = do_roles,
};

void run_op(Interp *it, Op *op) {
    if (it->options.max_steps && ++it->steps > it->options.max_steps)
        run_error(it, op, "gave up after %lld operations", (long long)it->options.max_steps);
    if (op_has(op, ELEMENTWISE))
        do_elementwise(it, op);
    else if (exec[op->code])
        exec[op->code](it, op);
    else
        ice(it->ctx, op->loc, "the interpreter has no %s", op_info[op->code].name);
}

void run_region(Interp *it, Region *r) {
    for_each_op(op, r) run_op(it, op);
}

void interp_launch(Interp *it, int n, const InterpArg *args) {
    Op *kernel = find_kernel(it->module, it->kernel);
    if (!kernel) ice(it->ctx, (Loc){0}, "no kernel %s to run", it->kernel ? it->kernel : "");
    for_each_op(k, it->module->regions[0]) if (k != kernel && k->code != OP_FUNC)
        op_walk_pre(k, plan_op, it);
    op_walk_pre(kernel, plan_op, it);
    Region *body = kernel->regions[0];
    if (body->n_args != n)
        ice(it->ctx, kernel->loc, "kernel has %d parameters, not %d", body->n_args, n);
    for (int i = 0; i < n; i++) {
        Reg *r = plan_of(kernel)->args[0][i];
        r->tensor = args[i].tensor;
        if (r->n) r->cells[0] = args[i].scalar;
    }
    run_region(it, body);
    check_counters(it);
}
