// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scans. Across the lanes' axis a scan is a loop with the state in vectors. Along it each vector is
// scanned in log2(lanes) steps, x = f(x shifted by 1, 2, 4 ... lanes, x), and then joined with the
// state before it. `reverse` walks from the end with opposite shifts.
#include "backends/cpu/emit.h"
#include "backends/cpu/line_walk.h"

enum { MAX_STATE = 16 };

typedef struct LineScan {
    Op *op;
    int n, axis, lane_axis, lanes;
    bool reverse, exclusive;
    int64_t extent; // along axis
    Buffer *out[MAX_STATE];
    const Place *line;
    LLVMValueRef state[MAX_STATE]; // vectors; NULL before the first element
} LineScan;

/// joined = f(before, after), lane by lane.
static void join_scan_states(Emit *e, const LineScan *s, LLVMValueRef *before, LLVMValueRef *after,
                             LLVMValueRef *joined) {
    LLVMValueRef args[2 * MAX_STATE];
    for (int i = 0; i < s->n; i++) {
        args[i] = before[i];
        args[s->n + i] = after[i];
    }
    emit_region_lanes(e, s->op->regions[0], args, joined);
}

static void read_scan_operands(Emit *e, const LineScan *s, const Place *p, LLVMValueRef *x) {
    for (int i = 0; i < s->n; i++) x[i] = emit_unmasked(e, operand(s->op, i), p);
}

static void write_results(Emit *e, const LineScan *s, const Place *p, const LLVMValueRef *x) {
    for (int i = 0; i < s->n; i++) buffer_store(e, s->out[i], p, x[i]);
}

static void state_init(Emit *e, LineScan *s) {
    for (int i = 0; i < s->n; i++) {
        s->state[i] = NULL;
        if (s->exclusive)
            s->state[i] = gen_splat(e->g, emit_scalar(e, operand(s->op, s->n + i)), s->lanes);
    }
}

/* ---- loops with a state -------------------------------------------------------------------- */

/// One step at coordinate `at` along the axis. It reads and changes s->state.
typedef void ScanStep(Emit *e, LineScan *s, LLVMValueRef at);

/// Emits `count` steps at distance `stride`, the first at `from`; downwards for s->reverse.
static void step_loop(Emit *e, LineScan *s, int64_t from, int64_t count, int stride,
                      ScanStep *step) {
    if (count <= 0) return;
    const Gen *g = e->g;
    Loop *l = loop_begin(e, gen_i64(g, 0), gen_i64(g, count * stride), stride, "scan");
    for (int i = 0; i < s->n; i++) s->state[i] = loop_carry(e, l, s->state[i]);
    LLVMValueRef first = gen_i64(g, from);
    step(e, s, s->reverse ? LLVMBuildSub(g->b, first, l->iv, "") : gen_add(g, first, l->iv));
    loop_end(e, l, s->state);
    for (int i = 0; i < s->n; i++) s->state[i] = l->carried[i];
}

/* ---- across the lanes ---------------------------------------------------------------------- */

/// Steps the vector of lanes at s->line, which has its live lanes set.
static void step_across(Emit *e, LineScan *s, LLVMValueRef at) {
    Place p = *s->line;
    p.at[s->axis] = at;
    LLVMValueRef x[MAX_STATE];
    read_scan_operands(e, s, &p, x);
    if (s->exclusive) write_results(e, s, &p, s->state);
    if (s->state[0])
        join_scan_states(e, s, s->state, x, s->state);
    else
        for (int i = 0; i < s->n; i++) s->state[i] = x[i];
    if (!s->exclusive) write_results(e, s, &p, s->state);
}

static void scan_across(Emit *e, void *arg, LLVMValueRef at, int live) {
    LineScan *s = arg;
    const Place *line = s->line;
    Place p = line_place(line, s->lane_axis, s->lanes, at, live);
    s->line = &p;
    state_init(e, s);
    int64_t from = s->reverse ? s->extent - 1 : 0, count = s->extent;
    if (!s->exclusive) {
        // The first element is the first state.
        step_across(e, s, gen_i64(e->g, from));
        from += s->reverse ? -1 : 1;
        count--;
    }
    step_loop(e, s, from, count, 1, step_across);
    s->line = line;
}

/* ---- along the lanes ----------------------------------------------------------------------- */

/// Moves lane l - d to lane l (l + d in reverse). The first d lanes come from `fill`, or are
/// undefined.
static LLVMValueRef shift_lanes(Emit *e, const LineScan *s, LLVMValueRef x, LLVMValueRef fill,
                                int d) {
    int pick[MAX_LANES];
    for (int l = 0; l < s->lanes; l++) {
        int from = s->reverse ? l + d : l - d;
        pick[l] = from >= 0 && from < s->lanes ? from : fill ? s->lanes + l : -1;
    }
    return gen_shuffle(e->g, x, fill, s->lanes, pick);
}

/// Returns true in the live lanes that have a lane d before them.
static LLVMValueRef has_before(Emit *e, const LineScan *s, int d, int live) {
    LLVMValueRef lane[MAX_LANES];
    for (int l = 0; l < s->lanes; l++)
        lane[l] = LLVMConstInt(e->g->i1, s->reverse ? l + d < live : l >= d, false);
    return LLVMConstVector(lane, (unsigned)s->lanes);
}

/// Broadcasts the lane that holds the state after all live lanes.
static LLVMValueRef last_lane(Emit *e, const LineScan *s, LLVMValueRef x, int live) {
    int pick[MAX_LANES];
    for (int l = 0; l < s->lanes; l++) pick[l] = s->reverse ? 0 : live - 1;
    return gen_shuffle(e->g, x, NULL, s->lanes, pick);
}

static void scan_in_vector(Emit *e, const LineScan *s, int live, LLVMValueRef *x) {
    LLVMValueRef before[MAX_STATE], joined[MAX_STATE];
    for (int d = 1; d < live; d *= 2) {
        for (int i = 0; i < s->n; i++) before[i] = shift_lanes(e, s, x[i], NULL, d);
        join_scan_states(e, s, before, x, joined);
        LLVMValueRef keep = has_before(e, s, d, live);
        for (int i = 0; i < s->n; i++) x[i] = LLVMBuildSelect(e->g->b, keep, joined[i], x[i], "");
    }
}

static void vector_along(Emit *e, LineScan *s, LLVMValueRef at, int live) {
    Place p = line_place(s->line, s->axis, s->lanes, at, live);
    LLVMValueRef x[MAX_STATE], moved[MAX_STATE];
    read_scan_operands(e, s, &p, x);
    scan_in_vector(e, s, live, x);
    if (s->state[0]) join_scan_states(e, s, s->state, x, x);
    for (int i = 0; s->exclusive && i < s->n; i++) {
        // In reverse the lane before the first is the last live one.
        LLVMValueRef all = x[i];
        if (s->reverse && live < s->lanes)
            all = LLVMBuildSelect(e->g->b, gen_first_lanes(e->g, live, s->lanes), x[i], s->state[i],
                                  "");
        moved[i] = shift_lanes(e, s, all, s->state[i], 1);
    }
    write_results(e, s, &p, s->exclusive ? moved : x);
    for (int i = 0; i < s->n; i++) s->state[i] = last_lane(e, s, x[i], live);
}

static void step_along(Emit *e, LineScan *s, LLVMValueRef at) {
    vector_along(e, s, at, s->lanes);
}

// The partial vector is the last one, or the first in reverse. The first vector of an inclusive
// scan starts without a state, so it is outside the loop.
static void scan_along(Emit *e, void *arg, Place *line) {
    LineScan *s = arg;
    const Gen *g = e->g;
    s->line = line;
    state_init(e, s);
    int64_t whole = s->extent / s->lanes, from = 0;
    int rest = (int)(s->extent % s->lanes);
    if (s->reverse) {
        if (rest) vector_along(e, s, gen_i64(g, whole * s->lanes), rest);
        from = (whole - 1) * s->lanes;
    }
    if (whole && !s->state[0]) {
        step_along(e, s, gen_i64(g, from));
        from += s->reverse ? -s->lanes : s->lanes;
        whole--;
    }
    step_loop(e, s, from, whole, s->lanes, step_along);
    if (rest && !s->reverse) vector_along(e, s, gen_i64(g, s->extent - rest), rest);
}

static void scan_line(Emit *e, void *arg, Place *line) {
    LineScan *s = arg;
    s->line = line;
    const Type *t = result(s->op, 0)->type;
    for_vectors(e, t->extents[s->lane_axis], s->lanes, scan_across, s);
}

/* ---- the op -------------------------------------------------------------------------------- */

void lower_scan(Emit *e, Op *op) {
    const Type *t = result(op, 0)->type;
    LineScan s = {.op = op, .n = op->n_results, .axis = (int)op_int(op, A_AXIS, 0)};
    if (s.n > MAX_STATE) ice(e->ctx, op->loc, "a scan of more than %d blocks", MAX_STATE);
    s.reverse = op_flag(op, A_REVERSE);
    s.exclusive = op_flag(op, A_EXCLUSIVE);
    s.extent = t->extents[s.axis];
    s.lane_axis = line_axis(t);
    int bytes = 1;
    for (int i = 0; i < s.n; i++) {
        int b = elem_bytes(elem_computes_in(result(op, i)->type->elem));
        if (b > bytes) bytes = b;
        s.out[i] = result_buffer(e, result(op, i));
    }
    s.lanes = line_lanes(e, bytes, t->extents[s.lane_axis]);
    code_mark(e, op, op_info[op->code].name);
    if (s.lane_axis == s.axis)
        for_lines(e, t, 1u << s.axis, scan_along, &s);
    else
        for_lines(e, t, 1u << s.axis | 1u << s.lane_axis, scan_line, &s);
}
