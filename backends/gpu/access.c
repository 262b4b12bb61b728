// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the addresses and masks of the registers of an access: access.h.
#include "backends/gpu/access.h"

#include <string.h>

#include "backends/gpu/divisor.h"

/// One number of an axis, or one index of a pick: its contribution to the offset, and its liveness.
typedef struct AxisNumber {
    int64_t number;     // for an axis
    LLVMValueRef index; // for a pick
    LLVMValueRef offset, live;
} AxisNumber;

#define ALL (~(Bits)0) // dimensions

static LLVMBuilderRef access_builder(const GpuAccess *p) {
    return p->f->g->b;
}

static bool constant_number(LLVMValueRef v, int64_t *n) {
    if (!LLVMIsAConstantInt(v)) return false;
    *n = LLVMConstIntGetSExtValue(v);
    return true;
}

/* ---- blocks beside blocks ------------------------------------------------------------------ */

/// Returns l with only the dimensions at .. at + rank - 1.
static const Layout *slice_layout(GpuFn *f, const Layout *l, int at, int rank) {
    for (int d = l->rank - 1; d >= 0; d--)
        if (d < at || d >= at + rank) l = layout_slice(f->ctx, l, d, false);
    return l;
}

static LLVMValueRef *spread_registers(GpuFn *f, const Value *v, const Layout *l, int at) {
    int n = (int)layout_registers(l);
    LLVMValueRef *from = gpu_block(f, v), *out = ctx_array(f->ctx, LLVMValueRef, n);
    for (int r = 0; r < n; r++) {
        int64_t x[MAX_RANK], reg, thread;
        layout_at(l, r, 0, x);
        layout_find(v->type->layout, x + at, &reg, &thread);
        out[r] = from[reg];
    }
    return out;
}

static LLVMValueRef *spread_by_memory(GpuFn *f, const Value *v, const Layout *l, int at) {
    int n = (int)layout_registers(l);
    LLVMValueRef *out = ctx_array(f->ctx, LLVMValueRef, n);
    int64_t strides[MAX_RANK], all[MAX_RANK] = {0};
    LLVMValueRef base = gpu_spill(f, v, strides);
    memcpy(all + at, strides, (size_t)v->type->rank * sizeof *all);
    for (int r = 0; r < n; r++) {
        LLVMValueRef index = gpu_linear(f, l, r, all, 0), good = gpu_not_hole(f, l, r);
        if (gpu_always_hole(l, r)) index = gpu_i32(f, 0);
        if (good) index = LLVMBuildSelect(f->g->b, good, index, gpu_i32(f, 0), "");
        gpu_load_vector(f, v->type->elem, gpu_element(f, v->type->elem, base, index), 1, &out[r]);
    }
    return out;
}

LLVMValueRef *gpu_spread(GpuFn *f, const Value *v, const Layout *l, int at) {
    int n = l ? (int)layout_registers(l) : 1;
    if (v->type->rank == 0) {
        LLVMValueRef *out = ctx_array(f->ctx, LLVMValueRef, n);
        for (int r = 0; r < n; r++) out[r] = gpu_scalar(f, v);
        return out;
    }
    bool beside = slice_layout(f, l, at, v->type->rank) == gpu_layout(f, v);
    return beside ? spread_registers(f, v, l, at) : spread_by_memory(f, v, l, at);
}

/* ---- axes ---------------------------------------------------------------------------------- */

/// x clamped to 0 .. size, as i32.
static LLVMValueRef clamp_to_size(const GpuAccess *p, LLVMValueRef x, int64_t size) {
    const Gen *g = p->f->g;
    x = gen_max(g, gen_min(g, x, gen_i64(g, size)), gen_i64(g, 0));
    return LLVMBuildTrunc(g->b, x, g->i32, "");
}

/// Returns ceil(x / mul).
static LLVMValueRef divide_bound_up(const GpuAccess *p, LLVMValueRef x, int64_t mul) {
    const Gen *g = p->f->g;
    if (mul == 1) return x;
    return LLVMBuildSDiv(g->b, gen_add(g, x, gen_i64(g, mul - 1)), gen_i64(g, mul), "");
}

/// Converts j < count and 0 <= base + j mul < extent to lo <= j < hi.
static void limit_axis(GpuAccess *p, int d) {
    const Gen *g = p->f->g;
    AccessDim *dim = &p->dims[d];
    const SubDim *s = &p->a.subs[d];
    LLVMValueRef count = gpu_scalar(p->f, sub_operand(p->op, &p->a, d, 1)), hi = NULL;
    int64_t n;
    if (dim->inside < 2 && !(constant_number(count, &n) && n >= s->size)) hi = count;
    if (!dim->inside) {
        LLVMValueRef end = LLVMBuildSub(g->b, p->tensor->dims[d], dim->at, "");
        end = divide_bound_up(p, end, s->mul);
        hi = hi ? gen_min(g, hi, end) : end;
        bool above = constant_number(dim->at, &n) && n >= 0;
        if (!above)
            dim->lo = clamp_to_size(p, divide_bound_up(p, LLVMBuildNeg(g->b, dim->at, ""), s->mul),
                                    s->size);
    }
    if (hi && !(constant_number(hi, &n) && n >= s->size)) dim->hi = clamp_to_size(p, hi, s->size);
    int axis = p->a.axis_of[d];
    bool holes = p->layout && layout_box(p->layout, axis) > p->layout->extents[axis];
    if (!dim->hi && holes) dim->hi = gpu_i32(p->f, s->size);
}

/// Whether no bit of the coordinate belongs to both registers and threads, so that the coordinate
/// is the sum of their parts.
static bool separates_registers(const Layout *l, int d) {
    Bits regs = 0, threads = 0, rows = layout_dim_mask(l, d);
    for (int j = 0; j < layout_n_bits(l); j++)
        *(j < l->bits[LEVEL_REG] ? &regs : &threads) |= l->col[j] & rows;
    return !(regs & threads);
}

static LLVMValueRef to_i64(const GpuAccess *p, LLVMValueRef x) {
    return LLVMBuildZExt(access_builder(p), x, p->f->g->i64, "");
}

static int64_t greatest_coordinate(const Layout *l, int d) {
    return layout_box(l, d) - 1;
}

/// Sums the thread's parts in 32 bits as long as they fit.
typedef struct ThreadSum {
    LLVMValueRef narrow, wide;
    int64_t most; // upper bound of `narrow`
} ThreadSum;

static void add_thread(GpuAccess *p, int d, ThreadSum *sum) {
    const Gen *g = p->f->g;
    int axis = p->a.axis_of[d];
    int64_t number, bytes = 0, most = INT32_MAX;
    LLVMValueRef thread, part;
    if (!separates_registers(p->layout, axis)) return;
    gpu_coord_parts(p->f, p->layout, 0, axis, &thread, &number);
    if (!thread) return;
    if (constant_number(p->dims[d].bytes, &bytes) && bytes >= 0 && bytes <= INT32_MAX)
        most = greatest_coordinate(p->layout, axis) * bytes;
    if (most < INT32_MAX - sum->most) {
        part = gen_mul(g, thread, gpu_i32(p->f, bytes));
        sum->narrow = sum->narrow ? LLVMBuildAdd(g->b, sum->narrow, part, "") : part;
        sum->most += most;
        return;
    }
    part = gen_mul(g, to_i64(p, thread), p->dims[d].bytes);
    sum->wide = sum->wide ? LLVMBuildAdd(g->b, sum->wide, part, "") : part;
}

/// Returns the thread's part of the offset in those dimensions that are axes.
static LLVMValueRef thread_offset(GpuAccess *p, Bits dims) {
    ThreadSum sum = {0};
    for (int d = 0; d < p->a.n_subs; d++)
        if (p->a.subs[d].kind == DIM_AXIS && dims >> d & 1) add_thread(p, d, &sum);
    if (!sum.narrow) return sum.wide;
    LLVMValueRef x = to_i64(p, sum.narrow);
    return sum.wide ? LLVMBuildAdd(access_builder(p), sum.wide, x, "") : x;
}

/// Computes lo <= thread + number < hi by comparing the number with the bounds minus the thread's
/// part. Registers then differ in an immediate. No difference wraps, since bounds and coordinates
/// are at least 0.
static LLVMValueRef axis_live_mask(GpuAccess *p, int d, int64_t number, LLVMValueRef thread) {
    const Gen *g = p->f->g;
    const AccessDim *dim = &p->dims[d];
    LLVMValueRef hi = dim->hi, lo = dim->lo, live = NULL, at = gpu_i32(p->f, number);
    if (hi) {
        if (thread) hi = LLVMBuildSub(g->b, hi, thread, "");
        live = LLVMBuildICmp(g->b, LLVMIntSGT, hi, at, "");
    }
    if (lo) {
        if (thread) lo = LLVMBuildSub(g->b, lo, thread, "");
        live = gen_and(g, live, LLVMBuildICmp(g->b, LLVMIntSLE, lo, at, ""));
    }
    return live;
}

/// Returns the contribution of register reg along axis dimension d.
static const AxisNumber *axis_number(GpuAccess *p, int d, int64_t reg) {
    GpuFn *f = p->f;
    AccessDim *dim = &p->dims[d];
    int axis = p->a.axis_of[d];
    LLVMValueRef thread;
    int64_t number;
    gpu_coord_parts(f, p->layout, reg, axis, &thread, &number);
    for (int i = 0; i < dim->numbers.n; i++)
        if (dim->numbers.data[i]->number == number) return dim->numbers.data[i];
    AxisNumber *n = ctx_new(f->ctx, AxisNumber);
    n->number = number;
    if (separates_registers(p->layout, axis)) {
        n->offset = gen_mul(f->g, gen_i64(f->g, number), dim->bytes);
        n->live = axis_live_mask(p, d, number, thread);
    } else {
        LLVMValueRef x = gpu_coord(f, p->layout, reg, axis);
        n->offset = gen_mul(f->g, to_i64(p, x), dim->bytes);
        n->live = axis_live_mask(p, d, 0, x);
    }
    vec_push(f->ctx, &dim->numbers, n);
    return n;
}

/* ---- picks --------------------------------------------------------------------------------- */

static void bind_picks(GpuAccess *p, int d) {
    GpuFn *f = p->f;
    const Value *v = sub_operand(p->op, &p->a, d, 0);
    LLVMValueRef *from = gpu_spread(f, v, p->layout, p->a.pick_at);
    int n = gpu_access_registers(p);
    LLVMValueRef *index = p->dims[d].picks = ctx_array(f->ctx, LLVMValueRef, n);
    for (int r = 0; r < n; r++) {
        for (int q = 0; q < r && !index[r]; q++)
            if (from[q] == from[r]) index[r] = index[q];
        if (!index[r]) index[r] = gen_cast(f->g, v->type->elem, EL_I64, from[r]);
    }
}

static const AxisNumber *pick_number(GpuAccess *p, int d, int64_t reg) {
    const Gen *g = p->f->g;
    AccessDim *dim = &p->dims[d];
    LLVMValueRef index = dim->picks[reg];
    for (int i = 0; i < dim->numbers.n; i++)
        if (dim->numbers.data[i]->index == index) return dim->numbers.data[i];
    AxisNumber *n = ctx_new(p->f->ctx, AxisNumber);
    n->index = index;
    n->offset = gen_mul(g, index, dim->bytes);
    if (!dim->inside) n->live = LLVMBuildICmp(g->b, LLVMIntULT, index, p->tensor->dims[d], "");
    vec_push(p->f->ctx, &dim->numbers, n);
    return n;
}

/// Returns the liveness in the axes of picks. Unlike axes, they have no bound that excludes holes.
static LLVMValueRef pick_not_hole(GpuAccess *p, int64_t reg) {
    LLVMValueRef good = NULL;
    for (int i = 0; p->layout && i < p->a.pick_rank; i++) {
        int axis = p->a.pick_at + i;
        int64_t extent = p->layout->extents[axis];
        if (layout_box(p->layout, axis) == extent) continue;
        LLVMValueRef x = gpu_coord(p->f, p->layout, reg, axis);
        LLVMValueRef below =
            LLVMBuildICmp(access_builder(p), LLVMIntULT, x, gpu_i32(p->f, extent), "");
        good = gen_and(p->f->g, good, below);
    }
    return good;
}

/* ---- vectors ------------------------------------------------------------------------------- */

static int least_int(int a, int64_t b) {
    return a < b ? a : (int)b;
}

/// Returns log2 of the greatest power of two that divides n. Every power divides 0.
static int trailing_twos(int64_t n) {
    return n ? __builtin_ctzll((Bits)n) : 62;
}

/// Returns the largest vector that the alignment of the data, strides and coordinates permits, as
/// log2 of elements.
static int aligned_bits(const GpuAccess *p, int vec_dim) {
    const Type *t = p->tensor->value->type;
    int bits = elem_info[p->elem].bits;
    int align = p->tensor->align, own = elem_bytes(p->elem),
        n = trailing_twos((int64_t)(align > own ? align : own) * 8 / bits);
    for (int d = 0; d < p->a.n_subs; d++) {
        const SubDim *s = &p->a.subs[d];
        if (t->strides[d] == DYNAMIC && !align) return 0;
        if (t->strides[d] != 1) {
            if (t->strides[d] != DYNAMIC) n = least_int(n, trailing_twos(t->strides[d]));
            continue;
        }
        if (s->kind == DIM_PICK || (s->kind == DIM_AXIS && d != vec_dim && s->size > 1)) return 0;
        n = least_int(n, trailing_twos(gpu_divisor(sub_operand(p->op, &p->a, d, 0))));
    }
    return n;
}

/// Returns an i1: the bounds of the vectors' axis are multiples of a vector's elements. NULL:
/// always.
static LLVMValueRef find_whole(GpuAccess *p) {
    const Gen *g = p->f->g;
    const AccessDim *dim = &p->dims[p->vec_dim];
    int64_t vector = (int64_t)1 << p->vec_bits, n;
    if (!dim->hi || gpu_bounds_divide(p, NULL)) return NULL;
    if (constant_number(dim->hi, &n) && n % vector == 0) return NULL;
    LLVMValueRef rest = LLVMBuildAnd(g->b, dim->hi, gpu_i32(p->f, vector - 1), "");
    return LLVMBuildICmp(g->b, LLVMIntEQ, rest, gpu_i32(p->f, 0), "");
}

/// Words that other ranks wait for are not part of vectors.
static void find_vectors(GpuAccess *p) {
    const Type *t = p->tensor->value->type;
    if (p->op->code == OP_STORE && op_flag(p->op, A_SYSTEM)) return;
    int most = trailing_twos(16 * 8 / elem_info[p->elem].bits);
    for (int d = 0; d < p->a.n_subs && p->layout; d++) {
        int x[LAYOUT_MAX_BITS], axis = p->a.axis_of[d];
        if (axis < 0 || t->strides[d] != 1 || p->a.subs[d].mul != 1) continue;
        int n =
            least_int(layout_vector(p->layout, axis, x), trailing_twos(p->layout->extents[axis]));
        n = least_int(least_int(n, most), aligned_bits(p, d));
        if (n > MAX_VECTOR_BITS) n = MAX_VECTOR_BITS;
        if (n <= p->vec_bits) continue;
        p->vec_bits = n;
        p->vec_dim = d;
        memcpy(p->vec, x, (size_t)n * sizeof *x);
    }
}

int64_t gpu_access_vector(const GpuAccess *p, int64_t first, int j) {
    for (int i = 0; i < MAX_VECTOR_BITS; i++)
        if (j >> i & 1) first ^= (int64_t)1 << p->vec[i];
    return first;
}

bool gpu_access_starts(const GpuAccess *p, int bits, int64_t reg) {
    for (int i = 0; i < bits; i++)
        if (reg >> p->vec[i] & 1) return false;
    return true;
}

AccessMark gpu_access_mark(const GpuAccess *p) {
    AccessMark m;
    for (int d = 0; d < MAX_RANK; d++) m.n[d] = p->dims[d].numbers.n;
    return m;
}

void gpu_access_rewind(GpuAccess *p, const AccessMark *mark) {
    for (int d = 0; d < MAX_RANK; d++) p->dims[d].numbers.n = mark->n[d];
}

void gpu_access_each(GpuAccess *p, GpuMove *move, void *data, LLVMValueRef *out) {
    int n = gpu_access_registers(p);
    if (!p->whole) {
        move(p, p->vec_bits, data, out);
        return;
    }
    AccessMark mark = gpu_access_mark(p);
    LLVMValueRef *yes = ctx_array(p->f->ctx, LLVMValueRef, n);
    LLVMValueRef *no = ctx_array(p->f->ctx, LLVMValueRef, n);
    GpuIf i = gpu_if(p->f, p->whole);
    move(p, p->vec_bits, data, yes);
    gpu_access_rewind(p, &mark);
    gpu_else(p->f, &i);
    move(p, 0, data, no);
    gpu_access_rewind(p, &mark);
    gpu_end_if(p->f, &i);
    for (int r = 0; out && r < n; r++) out[r] = gpu_phi(p->f, &i, yes[r], no[r]);
}

/* ---- the whole ----------------------------------------------------------------------------- */

int gpu_access_registers(const GpuAccess *p) {
    return p->layout ? (int)layout_registers(p->layout) : 1;
}

bool gpu_access_never(const GpuAccess *p, int64_t reg) {
    return p->layout && gpu_always_hole(p->layout, reg);
}

static void prepare_dim(GpuAccess *p, int d) {
    const Gen *g = p->f->g;
    const SubDim *s = &p->a.subs[d];
    AccessDim *dim = &p->dims[d];
    LLVMValueRef stride = gen_mul(g, p->tensor->strides[d], gen_i64(g, p->unit));
    dim->bytes = s->kind == DIM_AXIS ? gen_mul(g, stride, gen_i64(g, s->mul)) : stride;
    if (s->kind == DIM_PICK) {
        bind_picks(p, d);
        return;
    }
    dim->at = gpu_scalar(p->f, sub_operand(p->op, &p->a, d, 0));
    p->uniform = gen_add(g, p->uniform, gen_mul(g, dim->at, stride));
    if (s->kind == DIM_AXIS)
        limit_axis(p, d);
    else if (!dim->inside)
        p->live =
            gen_and(g, p->live, LLVMBuildICmp(g->b, LLVMIntULT, dim->at, p->tensor->dims[d], ""));
}

// The maximum registers of a block that may be read either by vectors or by single elements, as a
// branch decides. All of them are live where the two paths join. A larger block is read by single
// elements only.
enum { MOST_JOINED = 4 };

/// Returns the type of the stored value of a store or atomic, or the type of the result.
static const Type *block_type(const Op *op, const Access *a) {
    return a->value ? a->value->type : result(op, 0)->type;
}

static GpuAccess plan_access(GpuFn *f, const Op *op, const Layout *layout) {
    GpuAccess p = {.f = f, .op = op, .a = access_of(op), .layout = layout};
    const Attr *inside = op_ints(op, A_IN_BOUNDS);
    p.tensor = gpu_tensor(f, p.a.tensor);
    p.elem = p.tensor->value->type->elem;
    p.unit = elem_info[p.elem].bits < 8 ? 1 : elem_bytes(p.elem);
    for (int d = 0; d < p.a.n_subs; d++)
        if (inside && d < inside->n) p.dims[d].inside = (int)inside->ints[d];
    find_vectors(&p);
    return p;
}

static const Layout *layout_of_access(const Op *op) {
    Access a = access_of(op);
    return a.rank ? block_type(op, &a)->layout : NULL;
}

GpuAccess gpu_access_plan(GpuFn *f, const Op *op) {
    return plan_access(f, op, layout_of_access(op));
}

GpuAccess *gpu_access(GpuFn *f, const Op *op) {
    return gpu_access_in(f, op, layout_of_access(op));
}

GpuAccess *gpu_access_in(GpuFn *f, const Op *op, const Layout *layout) {
    GpuAccess plan = plan_access(f, op, layout), *p = ctx_copy(f->ctx, &plan, sizeof plan);
    p->uniform = gen_i64(f->g, 0);
    for (int d = 0; d < p->a.n_subs; d++) prepare_dim(p, d);
    if (p->a.mask && p->a.mask->type->rank)
        p->masks = gpu_spread(f, p->a.mask, p->layout, p->a.pick_at);
    else if (p->a.mask)
        p->live = gen_and(f->g, p->live, gpu_scalar(f, p->a.mask));
    if (p->vec_bits) p->whole = find_whole(p);
    if (p->whole && f->rest && gpu_access_registers(p) > MOST_JOINED) {
        p->whole = NULL;
        p->vec_bits = 0;
    }
    if (p->layout) p->thread = thread_offset(p, ALL);
    if (elem_info[p->elem].bits < 8) return p;
    p->start = p->tensor->data;
    if (p->thread) p->start = gpu_offset(f, p->start, p->thread);
    p->start = gpu_offset(f, p->start, p->uniform);
    return p;
}

/// Returns the register's part of the offset along dimensions.
static LLVMValueRef register_offset(GpuAccess *p, int64_t reg, Bits dims) {
    LLVMValueRef sum = gen_i64(p->f->g, 0);
    for (int d = 0; d < p->a.n_subs; d++) {
        if (!(dims >> d & 1)) continue;
        if (p->a.subs[d].kind == DIM_AXIS)
            sum = gen_add(p->f->g, sum, axis_number(p, d, reg)->offset);
        else if (p->a.subs[d].kind == DIM_PICK)
            sum = gen_add(p->f->g, sum, pick_number(p, d, reg)->offset);
    }
    return sum;
}

LLVMValueRef gpu_access_offset(GpuAccess *p, int64_t reg) {
    LLVMValueRef sum = gen_add(p->f->g, p->uniform, register_offset(p, reg, ALL));
    return p->thread ? gen_add(p->f->g, p->thread, sum) : sum;
}

LLVMValueRef gpu_access_offset_along(GpuAccess *p, int64_t reg, Bits dims) {
    LLVMValueRef thread = thread_offset(p, dims), sum = register_offset(p, reg, dims);
    return thread ? gen_add(p->f->g, thread, sum) : sum;
}

LLVMValueRef gpu_access_address(GpuAccess *p, int64_t reg) {
    return gpu_offset(p->f, p->start, register_offset(p, reg, ALL));
}

LLVMValueRef gpu_access_live_along(GpuAccess *p, int64_t reg, Bits dims) {
    LLVMValueRef live = NULL;
    for (int d = 0; d < p->a.n_subs; d++) {
        if (!(dims >> d & 1)) continue;
        if (p->a.subs[d].kind == DIM_AXIS)
            live = gen_and(p->f->g, live, axis_number(p, d, reg)->live);
        else if (p->a.subs[d].kind == DIM_PICK)
            live = gen_and(p->f->g, live, pick_number(p, d, reg)->live);
    }
    return live;
}

LLVMValueRef gpu_access_live_besides(GpuAccess *p, int64_t reg, Bits dims) {
    const Gen *g = p->f->g;
    LLVMValueRef live = gen_and(g, p->live, gpu_access_live_along(p, reg, ~dims));
    if (p->masks) live = gen_and(g, live, p->masks[reg]);
    return gen_and(g, live, pick_not_hole(p, reg));
}

LLVMValueRef gpu_access_live(GpuAccess *p, int64_t reg) {
    return gpu_access_live_besides(p, reg, 0);
}

LLVMValueRef gpu_access_coordinate(GpuAccess *p, int d, int64_t reg) {
    const Gen *g = p->f->g;
    AccessDim *dim = &p->dims[d];
    if (p->a.subs[d].kind == DIM_PICK) return dim->picks[reg];
    if (p->a.subs[d].kind == DIM_AT) return dim->at;
    LLVMValueRef x = to_i64(p, gpu_coord(p->f, p->layout, reg, p->a.axis_of[d]));
    return gen_add(g, dim->at, gen_mul(g, x, gen_i64(g, p->a.subs[d].mul)));
}

/* ---- live ---------------------------------------------------------------------------------- */

void gpu_lower_live(GpuFn *f, Op *op) {
    GpuAccess *p = gpu_access(f, op);
    LLVMValueRef *out = gpu_new_block(f, result(op, 0));
    for (int r = 0; r < gpu_access_registers(p); r++) {
        LLVMValueRef live = gpu_access_never(p, r) ? NULL : gpu_access_live(p, r);
        out[r] = live ? live : gpu_true(f);
    }
}
