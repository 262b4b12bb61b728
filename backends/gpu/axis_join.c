// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joins lines along an axis: see axis_join.h.
//
// In step j of layout_scan, every element's block of 2^j elements meets its sibling block, in
// another register or by a shuffle. Both join their totals in the order of the line, so functions
// need not commute. Blocks after the end of the line (holes) do not take part: if the upper block
// of two is not empty, neither is the lower one. Steps that would leave the warp are omitted.
// Instead each thread gets the totals of all parts of its lines through shared memory.
#include "backends/gpu/axis_join.h"
#include "backends/gpu/block_elements.h"

/* ---- tuples -------------------------------------------------------------------------------- */

static Elem line_elem(const AxisJoin *s, int k) {
    return operand(s->op, k)->type->elem;
}

void axis_join_parts(const AxisJoin *s, LLVMValueRef *const a, LLVMValueRef *const b,
                     LLVMValueRef *out) {
    LLVMValueRef args[2 * GPU_TUPLE];
    for (int k = 0; k < s->n; k++) {
        args[k] = a[k];
        args[s->n + k] = b[k];
    }
    if (s->monoid != OP_COUNT)
        out[0] = gen_elementwise(s->f->g, s->monoid, line_elem(s, 0), args);
    else
        gpu_apply(s->f, s->op->regions[0], args, out);
}

static void take_lane_registers(const AxisJoin *s, LLVMValueRef *const *from, int64_t reg,
                                LLVMValueRef *to) {
    for (int k = 0; k < s->n; k++) to[k] = from[k][reg];
}

static void put_lane_registers(const AxisJoin *s, LLVMValueRef *const *to, int64_t reg,
                               LLVMValueRef *from) {
    for (int k = 0; k < s->n; k++) to[k][reg] = from[k];
}

/// Returns x if c holds, else y; c NULL: x.
static LLVMValueRef select_if(GpuFn *f, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y) {
    if (!c) return x;
    if (LLVMIsAConstantInt(c)) return LLVMConstIntGetZExtValue(c) ? x : y;
    return LLVMBuildSelect(f->g->b, c, x, y, "");
}

/* ---- setting up ---------------------------------------------------------------------------- */

int64_t *gpu_line_registers(GpuFn *f, const Op *op, const Layout *kept, const Layout *l) {
    int64_t *reg = ctx_array(f->ctx, int64_t, layout_registers(l));
    if (!layout_registers_from(kept, l, NULL, reg))
        ice(f->ctx, op->loc, "lines that are spread over other threads than their elements");
    return reg;
}

static AxisJoin *begin_in(GpuFn *f, const Op *op, int n, const Layout *l,
                          LLVMValueRef *const *regs) {
    AxisJoin *s = ctx_new(f->ctx, AxisJoin);
    if (n > GPU_TUPLE) ice(f->ctx, op->loc, "%s of more than %d blocks", op_info[op->code].name, n);
    s->f = f;
    s->op = op;
    s->n = n;
    s->monoid = n == 1 ? region_monoid(op->regions[0]) : OP_COUNT;
    s->layout = l;
    s->axis = (int)op_int(op, A_AXIS, 0);
    s->extent = l->extents[s->axis];
    s->reverse = op_flag(op, A_REVERSE);
    s->registers = layout_registers(l);
    s->plan = layout_scan(l, s->axis);
    while (s->near < s->plan.n && s->plan.steps[s->near].level <= LEVEL_LANE) s->near++;
    s->parts = ceil_div(s->extent, INT64_C(1) << s->near);
    s->same = ctx_array(f->ctx, int64_t, s->registers);
    for (int64_t r = 0; r < s->registers; r++) s->same[r] = r;
    for (int k = 0; k < n; k++)
        s->total[k] = ctx_copy(f->ctx, regs[k], (size_t)s->registers * sizeof(LLVMValueRef));
    return s;
}

AxisJoin *axis_join_begin(GpuFn *f, const Op *op, int n) {
    LLVMValueRef **regs = ctx_array(f->ctx, LLVMValueRef *, n);
    for (int k = 0; k < n; k++) regs[k] = gpu_block(f, operand(op, k));
    return begin_in(f, op, n, gpu_layout(f, operand(op, 0)), regs);
}

/* ---- steps in a warp ----------------------------------------------------------------------- */

/// The current step: partner[k][r] is the total of the sibling of register r's block.
typedef struct LineStep {
    LayoutStep x;
    int j;
    LLVMValueRef upper; // i1: the thread's part of the parity that tells an upper block; NULL: 0
    LLVMValueRef *partner[GPU_TUPLE];
} LineStep;

static bool is_first_register(const AxisJoin *s, int64_t r) {
    return s->same[r] == r;
}

/// Fetches the totals of sibling blocks, for the first register of each block.
static void meet_sibling_blocks(AxisJoin *s, LineStep *t) {
    GpuFn *f = s->f;
    for (int k = 0; k < s->n; k++) {
        LLVMValueRef *moved = ctx_array(f->ctx, LLVMValueRef, 2 * s->registers);
        LLVMValueRef *sent = moved + s->registers;
        int m = 0;
        t->partner[k] = ctx_array(f->ctx, LLVMValueRef, s->registers);
        for (int64_t r = 0; r < s->registers; r++)
            if (is_first_register(s, r)) sent[m++] = s->total[k][r ^ (int64_t)t->x.reg];
        if (t->x.thread)
            gpu_shuffle(f, "xor", gpu_i32(f, (int64_t)t->x.thread), line_elem(s, k), m, sent,
                        moved);
        else
            moved = sent;
        m = 0;
        for (int64_t r = 0; r < s->registers; r++)
            t->partner[k][r] = is_first_register(s, r) ? moved[m++] : t->partner[k][s->same[r]];
    }
}

/// Returns an i1, perhaps constant: register r is in the upper block of the two.
static LLVMValueRef is_upper(const AxisJoin *s, const LineStep *t, int64_t r) {
    const Gen *g = s->f->g;
    bool own = parity((Bits)r & t->x.own_reg);
    if (!t->upper) return LLVMConstInt(g->i1, own, false);
    return own ? LLVMBuildNot(g->b, t->upper, "") : t->upper;
}

/// Returns an i1: the upper block of register r begins before the end of the line. NULL: it does if
/// the lower block does.
static LLVMValueRef has_upper(const AxisJoin *s, const LineStep *t, int64_t r) {
    const Gen *g = s->f->g;
    int64_t size = INT64_C(2) << t->j;
    if (s->extent % size == 0) return NULL;
    LLVMValueRef at = gpu_coord(s->f, s->layout, r, s->axis);
    at = LLVMBuildAnd(g->b, at, gpu_i32(s->f, -size), "");
    at = LLVMBuildOr(g->b, at, gpu_i32(s->f, size / 2), "");
    return LLVMBuildICmp(g->b, LLVMIntULT, at, gpu_i32(s->f, s->extent), "");
}

/// Returns the totals of both blocks of register r in the order of the line.
static void in_line_order(const AxisJoin *s, const LineStep *t, int64_t r, LLVMValueRef *a,
                          LLVMValueRef *b) {
    LLVMValueRef upper = is_upper(s, t, r);
    for (int k = 0; k < s->n; k++) {
        LLVMValueRef own = s->total[k][r], other = t->partner[k][r];
        LLVMValueRef low = select_if(s->f, upper, other, own),
                     high = select_if(s->f, upper, own, other);
        a[k] = s->reverse ? high : low;
        b[k] = s->reverse ? low : high;
    }
}

/// For a known function the order is irrelevant.
static void join_totals(const AxisJoin *s, const LineStep *t, int64_t r, LLVMValueRef *joined) {
    LLVMValueRef a[GPU_TUPLE], b[GPU_TUPLE], *only = s->reverse ? b : a;
    LLVMValueRef both = has_upper(s, t, r);
    if (s->monoid == OP_COUNT || both) {
        in_line_order(s, t, r, a, b);
    } else {
        take_lane_registers(s, s->total, r, a);
        take_lane_registers(s, t->partner, r, b);
    }
    axis_join_parts(s, a, b, joined);
    for (int k = 0; k < s->n; k++) joined[k] = select_if(s->f, both, joined[k], only[k]);
}

/* ---- prefixes ------------------------------------------------------------------------------ */

/// Puts `before` before prefix r of p if c holds (i1, perhaps constant; NULL: always).
static void extend_prefix(AxisJoin *s, GpuPrefix *p, int64_t r, LLVMValueRef c,
                          LLVMValueRef *before) {
    GpuFn *f = s->f;
    LLVMValueRef prefix[GPU_TUPLE], joined[GPU_TUPLE], has = p->has ? p->has[r] : NULL;
    if (c && LLVMIsAConstantInt(c) && !LLVMConstIntGetZExtValue(c)) return;
    take_lane_registers(s, p->at, r, prefix);
    bool none = has && LLVMIsAConstantInt(has) && !LLVMConstIntGetZExtValue(has);
    if (!none) axis_join_parts(s, before, prefix, joined);
    for (int k = 0; k < s->n; k++) {
        LLVMValueRef x = none ? before[k] : select_if(f, has, joined[k], before[k]);
        p->at[k][r] = select_if(f, c, x, prefix[k]);
    }
    if (has) p->has[r] = c ? LLVMBuildOr(f->g->b, has, c, "") : gpu_true(f);
}

void axis_join_extend_prefix(AxisJoin *s, int64_t r, LLVMValueRef c, LLVMValueRef *before) {
    if (!s->group)
        extend_prefix(s, &s->inner, r, c, before);
    else if (s->group[r] == r)
        extend_prefix(s, &s->outer, r, c, before);
}

static void extend_prefixes(AxisJoin *s, const LineStep *t) {
    const Gen *g = s->f->g;
    for (int64_t r = 0; r < s->registers; r++) {
        LLVMValueRef before[GPU_TUPLE], c = is_upper(s, t, r);
        if (s->group && s->group[r] != r) continue;
        take_lane_registers(s, t->partner, r, before);
        if (s->reverse) c = gen_and(g, has_upper(s, t, r), LLVMBuildNot(g->b, c, ""));
        axis_join_extend_prefix(s, r, c, before);
    }
}

/// From here on, the prefix of a block is stored once for all its registers. axis_join_finish joins
/// it to the prefixes of elements.
static void begin_outer(AxisJoin *s) {
    GpuFn *f = s->f;
    size_t bytes = (size_t)s->registers * sizeof(LLVMValueRef);
    bool shared = false;
    for (int64_t r = 0; r < s->registers; r++) shared |= !is_first_register(s, r);
    if (!shared) return;
    s->group = ctx_copy(f->ctx, s->same, (size_t)s->registers * sizeof *s->group);
    if (s->monoid == OP_COUNT) s->outer.has = ctx_alloc(f->ctx, bytes);
    for (int k = 0; k < s->n; k++) s->outer.at[k] = ctx_alloc(f->ctx, bytes);
    for (int64_t r = 0; r < s->registers; r++) {
        if (s->outer.has) s->outer.has[r] = LLVMConstInt(f->g->i1, 0, false);
        for (int k = 0; k < s->n; k++)
            s->outer.at[k][r] = s->outer.has ? LLVMConstNull(gen_elem(f->g, line_elem(s, k)))
                                             : gen_identity(f->g, s->monoid, line_elem(s, k));
    }
}

LLVMValueRef **axis_join_prefixes(AxisJoin *s) {
    for (int64_t r = 0; s->group && r < s->registers; r++) {
        int64_t first = s->group[r];
        LLVMValueRef before[GPU_TUPLE], has = s->outer.has ? s->outer.has[first] : NULL;
        take_lane_registers(s, s->outer.at, first, before);
        extend_prefix(s, &s->inner, r, has, before);
    }
    return s->inner.at;
}

/* ---- steps in a warp, one by one ------------------------------------------------------------ */

static void lines_step(AxisJoin *s, int j) {
    GpuFn *f = s->f;
    LineStep t = {.x = s->plan.steps[j], .j = j};
    if (t.x.own_thread) t.upper = gpu_parity(f, t.x.own_thread);
    meet_sibling_blocks(s, &t);
    if (s->inner.at[0] && t.x.level != LEVEL_REG && !s->group) begin_outer(s);
    if (s->inner.at[0]) extend_prefixes(s, &t);
    LLVMValueRef *next[GPU_TUPLE];
    for (int k = 0; k < s->n; k++) next[k] = ctx_array(f->ctx, LLVMValueRef, s->registers);
    for (int64_t r = 0; r < s->registers; r++) {
        int64_t other = t.x.thread ? r : s->same[r ^ (int64_t)t.x.reg];
        if (other < s->same[r]) s->same[r] = other;
        LLVMValueRef joined[GPU_TUPLE];
        if (is_first_register(s, r))
            join_totals(s, &t, r, joined);
        else
            take_lane_registers(s, next, s->same[r], joined);
        put_lane_registers(s, next, r, joined);
    }
    for (int k = 0; k < s->n; k++) s->total[k] = next[k];
}

/* ---- parts --------------------------------------------------------------------------------- */

/// Returns the layout of blocks of 2^low elements along d, and the register bits of l that remain
/// in it.
static const Layout *blocks_layout(Ctx *ctx, const Layout *l, int d, int low, int *kept) {
    Layout p = *l;
    F2Span span = {0};
    int base = layout_base(l, d);
    p.log2[d] = (uint8_t)(l->log2[d] - low);
    p.extents[d] = ceil_div(l->extents[d], INT64_C(1) << low);
    for (int j = 0; j < layout_n_bits(l); j++) {
        p.col[j] = (l->col[j] & low_bits(base)) | l->col[j] >> (base + low) << base;
        if (j < l->bits[LEVEL_REG] && f2_add(&span, p.col[j], 0)) kept[span.n - 1] = j;
    }
    return layout_unique(ctx, &p);
}

static void store_in_cta(GpuFn *f, Elem elem, LLVMValueRef at, LLVMValueRef on, LLVMValueRef x) {
    int bits = 8 * elem_bytes(elem);
    x = gpu_to_bits(f, elem, x);
    if (bits == 8) x = LLVMBuildZExt(f->g->b, x, f->g->i16, "");
    gpu_call(f, ctx_format(f->ctx, "tg.store.cluster.b%d", bits), 3, at, on ? on : gpu_true(f), x);
}

/// The work of writing a block to all CTAs. Threads with copies of an element share the CTAs: each
/// writes to every 2^bits-th CTA from `first` on.
typedef struct Spread {
    int bits;
    LLVMValueRef first, on; // i32, i1
} Spread;

static Spread spread_of(GpuFn *f, const Layout *l) {
    LLVMBuilderRef b = f->g->b;
    Bits copies = layout_owner(l);
    Spread s = {.bits = 0};
    while (s.bits < l->bits[LEVEL_CTA] && copies >> s.bits & 1) s.bits++;
    Bits others = copies & ~low_bits(s.bits);
    s.first = LLVMBuildAnd(b, f->thread, gpu_i32(f, (int64_t)low_bits(s.bits)), "");
    LLVMValueRef x = LLVMBuildAnd(b, f->cluster_thread, gpu_i32(f, (int64_t)others), "");
    if (others) s.on = LLVMBuildICmp(b, LLVMIntEQ, x, gpu_i32(f, 0), "");
    return s;
}

/// Gives each CTA of the cluster the whole block.
static void write_to_cluster(GpuFn *f, const Layout *l, const SharedLayout *s, LLVMValueRef base,
                             Elem elem, LLVMValueRef *regs) {
    GpuSharedMap map = gpu_shared_map(f, l, s);
    Spread spread = spread_of(f, l);
    for (int64_t r = 0; r < layout_registers(l); r++) {
        if (gpu_always_hole(l, r)) continue;
        LLVMValueRef at = gpu_shared_addr(f, gpu_shared_at(f, &map, base, r));
        LLVMValueRef on = gen_and(f->g, spread.on, gpu_not_hole(f, l, r));
        for (int i = 0; i < f->kernel->cluster >> spread.bits; i++) {
            LLVMValueRef cta = gen_add(f->g, spread.first, gpu_i32(f, (int64_t)i << spread.bits));
            store_in_cta(f, elem, gpu_call(f, "tg.nv.cluster.addr", 2, at, cta), on, regs[r]);
        }
    }
}

static void exchange_some(GpuFn *f, const Layout *from, const Layout *to, int n, const Elem *elems,
                          LLVMValueRef *const *in, LLVMValueRef **out) {
    Conversion *plan = ctx_array(f->ctx, Conversion, n);
    LLVMValueRef *base = ctx_array(f->ctx, LLVMValueRef, n);
    bool cluster = layout_convert_shared(from, to, 8 * elem_bytes(elems[0])).scope == LEVEL_CTA;
    for (int k = 0; k < n; k++) {
        plan[k] = layout_convert_shared(from, to, 8 * elem_bytes(elems[k]));
        base[k] = cluster ? gpu_shared_alloc_far(f, plan[k].shared.bytes, 16)
                          : gpu_shared_alloc(f, plan[k].shared.bytes, 16);
    }
    for (int k = 0; k < n; k++) {
        if (cluster)
            write_to_cluster(f, from, &plan[k].shared, base[k], elems[k], in[k]);
        else
            gpu_shared_write(f, from, &plan[k].shared, &plan[k].write, base[k], elems[k], in[k]);
    }
    if (cluster)
        gpu_program_barrier(f);
    else
        gpu_barrier(f);
    for (int k = 0; k < n; k++) {
        out[k] = ctx_array(f->ctx, LLVMValueRef, layout_registers(to));
        gpu_shared_read(f, to, &plan[k].shared, &plan[k].read, base[k], elems[k], out[k]);
    }
}

/// If shared memory has no room for all blocks at once, they are moved one after the other.
void gpu_exchange(GpuFn *f, const Layout *from, const Layout *to, int n, const Elem *elems,
                  LLVMValueRef *const *in, LLVMValueRef **out) {
    int64_t bytes = 0;
    for (int k = 0; k < n; k++)
        bytes += layout_convert_shared(from, to, 8 * elem_bytes(elems[k])).shared.bytes;
    int64_t room = gpu_shared_room(f);
    int each = bytes <= room ? n : 1;
    for (int k = 0; k < n; k += each) {
        int before = gpu_shared_open(f);
        Conversion c = layout_convert_shared(from, to, 8 * elem_bytes(elems[k]));
        if (c.shared.bytes > room && c.scope != LEVEL_CTA) {
            out[k] = ctx_array(f->ctx, LLVMValueRef, layout_registers(to));
            gpu_move_in_pieces(f, from, to, elems[k], in[k], out[k]);
            gpu_shared_close(f, before);
        } else {
            exchange_some(f, from, to, each, elems + k, in + k, out + k);
        }
        if (each < n) gpu_shared_close(f, before);
    }
}

/// Sorts registers into [line][part], for a layout whose coordinate along the axis is the part.
static void sort_parts(AxisJoin *s, const Layout *l, int low, const int64_t *line,
                       LLVMValueRef *const *regs) {
    for (int64_t r = 0; r < layout_registers(l); r++) {
        int64_t x[MAX_RANK];
        gpu_coord_numbers(l, r, x);
        int64_t part = x[s->axis] >> low;
        for (int k = 0; k < s->n && part < s->parts; k++)
            s->part[k][line[r] * s->parts + part] = regs[k][r];
    }
}

/// Returns the totals of blocks as registers of blocks_layout.
static const Layout *line_parts_block(AxisJoin *s, LLVMValueRef **in) {
    const Layout *l = s->layout;
    int bits[LAYOUT_MAX_BITS];
    const Layout *from = blocks_layout(s->f->ctx, l, s->axis, s->near, bits);
    for (int k = 0; k < s->n; k++)
        in[k] = ctx_array(s->f->ctx, LLVMValueRef, layout_registers(from));
    for (int64_t q = 0; q < layout_registers(from); q++) {
        int64_t r = q >> from->bits[LEVEL_REG] << l->bits[LEVEL_REG];
        for (int i = 0; i < from->bits[LEVEL_REG]; i++) r |= (q >> i & 1) << bits[i];
        for (int k = 0; k < s->n; k++) in[k][q] = s->total[k][r];
    }
    return from;
}

static void take_elems(const AxisJoin *s, Elem *elems) {
    for (int k = 0; k < s->n; k++) elems[k] = line_elem(s, k);
}

static void gather_parts(AxisJoin *s, const Layout *kept) {
    GpuFn *f = s->f;
    const Layout *rest = layout_slice(f->ctx, s->layout, s->axis, false);
    LLVMValueRef *in[GPU_TUPLE], *out[GPU_TUPLE];
    Elem elems[GPU_TUPLE];
    take_elems(s, elems);
    const Layout *from = line_parts_block(s, in);
    const Layout *to = layout_stack(f->ctx, rest, s->axis, (int)s->parts);
    gpu_exchange(f, from, to, s->n, elems, in, out);
    sort_parts(s, to, 0, gpu_line_registers(f, s->op, kept, to), out);
}

/// Runs after the steps in the warp.
static void find_line_parts(AxisJoin *s) {
    GpuFn *f = s->f;
    const Layout *kept = layout_slice(f->ctx, s->layout, s->axis, true);
    s->lines = layout_registers(kept);
    s->line = gpu_line_registers(f, s->op, kept, s->layout);
    for (int k = 0; k < s->n; k++)
        s->part[k] = ctx_array(f->ctx, LLVMValueRef, s->lines * s->parts);
    if (s->near == s->plan.n)
        sort_parts(s, s->layout, s->near, s->line, s->total);
    else
        gather_parts(s, kept);
}

void axis_join_finish(AxisJoin *s) {
    for (int j = 0; j < s->near; j++) lines_step(s, j);
    find_line_parts(s);
}

/* ---- reductions ---------------------------------------------------------------------------- */

bool gpu_should_spread(const Op *op, int n, const Layout *l, int64_t lines, int64_t parts) {
    enum { FEW_PARTS = 32, FEW_WORDS = 64, WORD = 4 };
    int64_t words = 0;
    for (int k = 0; k < n; k++) words += ceil_div(elem_bytes(operand(op, k)->type->elem), WORD);
    bool few = lines * parts <= FEW_PARTS && lines * parts * words <= FEW_WORDS;
    return lines > 1 && !few && !l->bits[LEVEL_CTA];
}

const Layout *gpu_spread_layout(GpuFn *f, const Layout *l, int d) {
    BlockAccess a = {.rank = l->rank,
                     .elem_bits = 8,
                     .extents = l->extents,
                     .contiguous = d,
                     .align_bytes = 1,
                     .lane_bits = l->bits[LEVEL_LANE],
                     .warp_bits = l->bits[LEVEL_WARP],
                     .max_bytes = 16};
    int64_t places = 1;
    for (int i = 0; i < l->rank; i++) places *= layout_box(l, i);
    while (a.align_bytes < a.max_bytes && a.align_bytes < places / f->threads) a.align_bytes *= 2;
    return layout_blocked(f->ctx, &a);
}

/// Joins neighbouring parts, pair by pair.
static void join_line_parts(AxisJoin *s, int64_t line) {
    for (int64_t n = s->parts; n > 1; n = (n + 1) / 2)
        for (int64_t i = 0; i < n; i += 2) {
            LLVMValueRef a[GPU_TUPLE], b[GPU_TUPLE];
            int64_t at = line * s->parts;
            take_lane_registers(s, s->part, at + i, a);
            if (i + 1 < n) {
                take_lane_registers(s, s->part, at + i + 1, b);
                axis_join_parts(s, a, b, a);
            }
            put_lane_registers(s, s->part, at + i / 2, a);
        }
}

/// Moves the blocks to a layout in which each line is in one warp, reduces them there, and moves
/// the results to their users.
static void reduce_spread(AxisJoin *s, const Layout *from, LLVMValueRef *const *in,
                          LLVMValueRef **out) {
    GpuFn *f = s->f;
    LLVMValueRef *moved[GPU_TUPLE], *reduced[GPU_TUPLE];
    Elem elems[GPU_TUPLE];
    take_elems(s, elems);
    const Layout *to = gpu_spread_layout(f, from, s->axis);
    gpu_exchange(f, from, to, s->n, elems, in, moved);
    AxisJoin *t = begin_in(f, s->op, s->n, to, moved);
    t->spread = true;
    if (from->rank == 1) {
        axis_join_reduce(t, out);
        return;
    }
    axis_join_reduce(t, reduced);
    gpu_exchange(f, layout_slice(f->ctx, to, s->axis, false),
                 layout_slice(f->ctx, s->layout, s->axis, false), s->n, elems, reduced, out);
}

/// Counts the joins of a thread in the steps within its warp. If a step of lanes precedes steps of
/// registers, the thread joins once for each register.
static int64_t count_joins(const Layout *l, int d) {
    LayoutScan plan = layout_scan(l, d);
    int64_t blocks = layout_registers(l), joins = 0;
    for (int j = 0; j < plan.n && plan.steps[j].level <= LEVEL_LANE; j++) {
        if (plan.steps[j].level == LEVEL_REG) blocks /= 2;
        joins += blocks;
    }
    return joins;
}

/// Whether all blocks fit in shared memory, with padded rows, beside its current contents.
static bool has_room_for_blocks(const AxisJoin *s) {
    enum { PADS = 16 }; // the reciprocal of the largest share of a row that its pad takes
    int64_t bytes = 0;
    for (int k = 0; k < s->n; k++) bytes += elem_bytes(line_elem(s, k));
    for (int d = 0; d < s->layout->rank; d++) bytes *= s->layout->extents[d];
    return s->f->shared_fixed + bytes + bytes / PADS <= s->f->target->shared_cta;
}

/// Whether it is less work to move the blocks to gpu_spread_layout first.
static bool is_awkward(const AxisJoin *s) {
    if (s->spread || s->layout->bits[LEVEL_CTA] || !has_room_for_blocks(s)) return false;
    const Layout *to = gpu_spread_layout(s->f, s->layout, s->axis);
    return count_joins(s->layout, s->axis) > 2 * count_joins(to, s->axis) + s->n * s->registers / 2;
}

void axis_join_reduce(AxisJoin *s, LLVMValueRef **out) {
    GpuFn *f = s->f;
    if (is_awkward(s)) {
        reduce_spread(s, s->layout, s->total, out);
        return;
    }
    for (int j = 0; j < s->near; j++) lines_step(s, j);
    int64_t lines = layout_registers(layout_slice(f->ctx, s->layout, s->axis, true));
    bool far = s->near < s->plan.n && !s->spread && s->layout->rank > 1;
    if (far && gpu_should_spread(s->op, s->n, s->layout, lines, s->parts)) {
        LLVMValueRef *in[GPU_TUPLE];
        const Layout *from = line_parts_block(s, in);
        reduce_spread(s, from, in, out);
        return;
    }
    find_line_parts(s);
    for (int k = 0; k < s->n; k++) out[k] = ctx_array(f->ctx, LLVMValueRef, s->lines);
    for (int64_t l = 0; l < s->lines; l++) {
        join_line_parts(s, l);
        for (int k = 0; k < s->n; k++) out[k][l] = s->part[k][l * s->parts];
    }
}
