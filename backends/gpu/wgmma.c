// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products by warpgroups (wgmma): operands are in shared memory, named by descriptors. A may also
// be in registers.
//
// A descriptor holds the start address, two distances and the swizzle. In a buffer whose rows run
// along k (K-major), atoms of 8 rows follow each other at the *stride* distance, and steps of k
// move the start within a panel of a row. In a buffer whose rows run along m or n, atoms of 8 k
// follow at the stride distance, and panels at the *leading* distance.
//
// A unit with narrow sums (`partial_sum_k`) multiplies tile by tile. For every part of k of this
// length it starts from zeros, and each partial sum is added to the total in f32. This product has
// ended when the next op begins. Another warpgroup keeps the unit busy during the additions.
#include "backends/gpu/ring.h"

#include <string.h>

enum {
    TILE_M = 64,
    MOST_N = 256,
    CHAIN_N = 128,
    MOST_STEPS = 8,
    UNIT_LOG2 = 4,
    CTA_BYTES = 1 << 18, // limit of an address in a descriptor
    GROUP_BITS = 2,
    N_STEP = 8
};

typedef struct Wgmma {
    GpuFn *f;
    const Op *op;
    Elem elem;
    const Layout *d;
    int64_t k_step; // of an instruction
    int64_t n;      // columns of an instruction
    LLVMValueRef *sums;
    LLVMValueRef warp; // uniform
} Wgmma;

/// A buffer as an operand.
typedef struct WgmmaSide {
    SharedLayout shared;
    int k; // its axis of k; the other axis is rows or columns
    bool k_major;
    LLVMValueRef desc;  // i64, for element (0, 0) of this warpgroup's part
    const char *suffix; // "" or ".ta", ".tb"
} WgmmaSide;

static int64_t swizzle_code(int bytes) {
    return bytes == 128 ? 1 : bytes == 64 ? 2 : 3;
}

/// Returns the bytes from the buffer's start to this warpgroup's part of it, i32.
static LLVMValueRef group_offset(const Wgmma *w, const WgmmaSide *s, int d_axis) {
    GpuFn *f = w->f;
    Gen *g = f->g;
    LLVMValueRef sum = gpu_i32(f, 0);
    int first = layout_first(w->d, LEVEL_WARP);
    for (int i = GROUP_BITS; i < w->d->bits[LEVEL_WARP]; i++) {
        int64_t at[2] = {0};
        Bits image = w->d->col[first + i] >> layout_base(w->d, d_axis);
        at[!s->k] = (int64_t)(image & low_bits(w->d->log2[d_axis]));
        if (!at[!s->k]) continue;
        LLVMValueRef on =
            LLVMBuildAnd(g->b, LLVMBuildLShr(g->b, w->warp, gpu_i32(f, i), ""), gpu_i32(f, 1), "");
        LLVMValueRef bytes = gpu_i32(f, shared_offset(&s->shared, at));
        sum = LLVMBuildAdd(g->b, sum, LLVMBuildMul(g->b, on, bytes, ""), "");
    }
    return sum;
}

static WgmmaSide wgmma_side(const Wgmma *w, const Value *buf, int k, int d_axis,
                            const char *suffix) {
    GpuFn *f = w->f;
    Gen *g = f->g;
    const Type *t = buf->type;
    WgmmaSide s = {.shared = shared_of(t), .k = k, .k_major = t->inner == k};
    s.suffix = s.k_major ? "" : suffix;
    int64_t leading = s.k_major ? 1 << UNIT_LOG2 : s.shared.stride[!k];
    int64_t stride = s.shared.stride[s.k_major ? !k : k];
    uint64_t fixed = (uint64_t)(leading >> UNIT_LOG2) << 16 |
                     (uint64_t)(stride >> UNIT_LOG2) << 32 |
                     (uint64_t)swizzle_code(t->swizzle) << 62;
    LLVMValueRef start = gpu_shared_addr(f, gpu_buf(f, buf));
    start = LLVMBuildAdd(g->b, start, group_offset(w, &s, d_axis), "");
    if (f->kernel->together) // the rank of the CTA is above
        start = LLVMBuildAnd(g->b, start, gpu_i32(f, CTA_BYTES - 1), "");
    start = LLVMBuildLShr(g->b, start, gpu_i32(f, UNIT_LOG2), "");
    s.desc =
        LLVMBuildOr(g->b, LLVMBuildZExt(g->b, start, g->i64, ""), gen_i64(g, (int64_t)fixed), "");
    return s;
}

/// Returns the descriptor of the part that starts at these coordinates within the warpgroup's part.
static LLVMValueRef desc_at(const Wgmma *w, const WgmmaSide *s, int64_t row, int64_t k) {
    int64_t at[2];
    at[s->k] = k;
    at[!s->k] = row;
    int64_t units = shared_offset(&s->shared, at) >> UNIT_LOG2;
    return units ? LLVMBuildAdd(w->f->g->b, s->desc, gen_i64(w->f->g, units), "") : s->desc;
}

/* ---- registers ----------------------------------------------------------------------------- */

/// Lists the registers of l that form `tile`, if it starts at (row, column) of thread 0.
static void registers_at(const Wgmma *w, const Layout *l, const Layout *tile, int64_t row,
                         int64_t column, int64_t *regs) {
    for (int64_t i = 0; i < layout_registers(tile); i++) {
        int64_t at[MAX_RANK], thread;
        layout_at(tile, i, 0, at);
        at[0] += row;
        at[1] += column;
        layout_find(l, at, &regs[i], &thread);
        if (thread) ice(w->f->ctx, w->op->loc, "sums that are not in tiles of wgmma");
    }
}

static const Layout *wgmma_fragment(const Wgmma *w, const char *name, FragmentRole role,
                                    int64_t rows, int64_t columns) {
    const FragmentRow *row = fragment_find(name, role);
    if (!row) ice(w->f->ctx, w->op->loc, "no fragment %s", name);
    const int64_t extents[] = {rows, columns};
    return layout_tile(w->f->ctx, fragment_layout(w->f->ctx, row), extents, NULL);
}

/// Lists the words of A in registers, for the step at k.
static int a_words(const Wgmma *w, const Value *a, int64_t row, int64_t k, LLVMValueRef *words) {
    const char *name = ctx_format(w->f->ctx, "wgmma.m64k%d", (int)w->k_step);
    const Layout *tile = wgmma_fragment(w, name, FRAG_A, TILE_M, w->k_step);
    int64_t regs[64];
    LLVMValueRef x[64], *from = gpu_block(w->f, a);
    int n = (int)layout_registers(tile);
    registers_at(w, gpu_layout(w->f, a), tile, row, k, regs);
    for (int i = 0; i < n; i++) x[i] = from[regs[i]];
    return gpu_to_words(w->f, w->elem, n, x, words);
}

/* ---- instructions -------------------------------------------------------------------------- */

/// Emits one statement. It replaces the n registers by its results; its inputs are the first n_in
/// of them.
static void build_statement(GpuFn *f, const char *name, int n_in, int n, LLVMValueRef *regs) {
    LLVMValueRef x = portable_call(f->g, name, n_in, regs);
    for (int i = 0; i < n; i++) regs[i] = LLVMBuildExtractValue(f->g->b, x, (unsigned)i, "");
}

enum { MOST_REGISTERS = 192, REGISTER_STEP = 4 };

/// Returns how many of the remaining registers go into one statement.
static int registers_of_one(const GpuFn *f, const Op *op, int left) {
    int n = left < MOST_REGISTERS ? left : MOST_REGISTERS;
    if (n % REGISTER_STEP) ice(f->ctx, op->loc, "%d sums of a product", n);
    return n;
}

/// Passes the n registers through a wait for all products except the last `younger`.
static void wait_for_products(GpuFn *f, int younger, const char *kind, int n, LLVMValueRef *regs) {
    const char *name = ctx_format(f->ctx, "tg.nv.wgmma.wait.%d.%sx%d", younger, kind, n);
    build_statement(f, name, n, n, regs);
}

static const char *elem_name(const Value *v) {
    return v->type->elem == EL_F32 ? "tf32" : elem_info[v->type->elem].name;
}

enum { MOST_ARGS = 320 };

/// Emits `steps` steps from k on for one tile of the result; add (i1): accumulates to its
/// registers.
static void multiply_wgmma_tile(Wgmma *w, const WgmmaSide *a, const WgmmaSide *b, int64_t row,
                                int64_t column, int64_t k, int steps, LLVMValueRef add) {
    GpuFn *f = w->f;
    Gen *g = f->g;
    LLVMValueRef args[MOST_ARGS];
    int64_t regs[MOST_N / 2];
    const Value *va = operand(w->op, 0), *vb = operand(w->op, 1);
    int n = 0, sums = (int)w->n / 2;
    for (int i = 0; i < steps; i++) {
        if (a)
            args[n++] = desc_at(w, a, row, k + i * w->k_step);
        else
            n += a_words(w, va, row, k + i * w->k_step, args + n);
    }
    for (int i = 0; i < steps; i++) args[n++] = desc_at(w, b, column, k + i * w->k_step);
    registers_at(w, w->d, wgmma_fragment(w, "wgmma.m64n8", FRAG_D, TILE_M, w->n), row, column,
                 regs);
    for (int i = 0; i < sums; i++) args[n++] = w->sums[regs[i]];
    args[n++] = add;
    const char *x = steps > 1 ? ctx_format(f->ctx, ".x%d", steps) : "";
    const char *name =
        ctx_format(f->ctx, "tg.nv.wgmma.m64n%dk%d.%s.%s.%s.%s%s%s%s", (int)w->n, (int)w->k_step,
                   elem_info[ty_promised(result(w->op, 0)->type)->elem].name, elem_name(va),
                   elem_name(vb), a ? "ss" : "rs", a ? a->suffix : "", b->suffix, x);
    LLVMValueRef sum = portable_call(g, name, n, args);
    for (int i = 0; i < sums; i++)
        w->sums[regs[i]] = LLVMBuildExtractValue(g->b, sum, (unsigned)i, "");
}

/// Returns the number of adjacent columns in one warpgroup.
static int64_t run_of_columns(const Layout *l) {
    int64_t run = l->extents[1];
    int first = layout_first(l, LEVEL_WARP);
    for (int i = GROUP_BITS; i < l->bits[LEVEL_WARP]; i++) {
        int64_t at = (int64_t)(l->col[first + i] & layout_dim_mask(l, 1)); // the lowest bits
        if (at && at < run) run = at;
    }
    return run;
}

/// Columns may continue from panel to panel only if they start with one.
static bool fits_panels(int64_t n, int64_t total, int64_t panel) {
    for (int64_t start = 0; panel && start < total; start += n)
        if (start % panel != 0 && start % panel + n > panel) return false;
    return true;
}

/// Returns the largest number of columns of an instruction, up to `most`, that divides the
/// adjacent columns. panel: the columns of a panel of B if its rows run along the columns of the
/// result, else 0.
static int64_t instruction_columns(const Wgmma *w, int64_t most, bool integers, int64_t panel) {
    int64_t part = run_of_columns(w->d), step = integers ? 2 * N_STEP : N_STEP;
    int64_t n = part < most ? part : most;
    while (part % n != 0 || n % step != 0 || !fits_panels(n, w->d->extents[1], panel)) n--;
    return n;
}

/// Whether thread 0 has the tile at (row, column).
static bool has_tile(const Layout *l, int64_t row, int64_t column) {
    const int64_t at[] = {row, column};
    int64_t reg, thread;
    layout_find(l, at, &reg, &thread);
    return thread == 0;
}

/// Returns the steps of one statement.
static int steps_at(int64_t at, int64_t end) {
    int n = MOST_STEPS;
    while (at + n > end) n /= 2;
    return n;
}

static int64_t depth_of(const Wgmma *w) {
    return operand(w->op, 0)->type->extents[1];
}

static LLVMValueRef constant_bool(const Wgmma *w, bool x) {
    return LLVMConstInt(w->f->g->i1, x, false);
}

static void multiply_wgmma_tiles(Wgmma *w, const WgmmaSide *a, const WgmmaSide *b) {
    int64_t steps = depth_of(w) / w->k_step, at = 0;
    LLVMValueRef add = constant_bool(w, true);
    if (w->op->n_operands > 3)
        add = LLVMBuildNot(w->f->g->b, gpu_scalar(w->f, operand(w->op, 3)), "");
    gpu_call(w->f, "tg.nv.wgmma.fence", 0);
    while (at < steps) {
        int n = steps_at(at, steps);
        for (int64_t i = 0; i < w->d->extents[0]; i += TILE_M)
            for (int64_t j = 0; j < w->d->extents[1]; j += w->n)
                if (has_tile(w->d, i, j))
                    multiply_wgmma_tile(w, a, b, i, j, at * w->k_step, n, add);
        add = constant_bool(w, true);
        at += n;
    }
    gpu_call(w->f, "tg.nv.wgmma.commit", 0);
}

/* ---- chains -------------------------------------------------------------------------------- */

/// Adds the sum of the steps first .. end - 1 to the sums of one tile. part: the registers for that
/// sum, with any contents before.
static void add_chain(Wgmma *w, const WgmmaSide *a, const WgmmaSide *b, int64_t row, int64_t column,
                      int64_t first, int64_t end, LLVMValueRef *part) {
    GpuFn *f = w->f;
    int64_t regs[CHAIN_N / 2];
    int n = (int)w->n / 2, steps;
    LLVMValueRef *sums = w->sums;
    registers_at(w, w->d, wgmma_fragment(w, "wgmma.m64n8", FRAG_D, TILE_M, w->n), row, column,
                 regs);
    w->sums = ctx_array(f->ctx, LLVMValueRef, layout_registers(w->d));
    for (int i = 0; i < n; i++) w->sums[regs[i]] = part[i];
    gpu_call(f, "tg.nv.wgmma.fence", 0);
    for (int64_t at = first; at < end; at += steps) {
        steps = steps_at(at, end);
        multiply_wgmma_tile(w, a, b, row, column, at * w->k_step, steps,
                            constant_bool(w, at > first));
    }
    gpu_call(f, "tg.nv.wgmma.commit", 0);
    for (int i = 0; i < n; i++) part[i] = w->sums[regs[i]];
    wait_for_products(f, 0, "f32", n, part);
    w->sums = sums;
    for (int i = 0; i < n; i++) sums[regs[i]] = LLVMBuildFAdd(f->g->b, sums[regs[i]], part[i], "");
}

/// The first product of a chain overwrites the registers of the previous chain without reading
/// them. With separate zeros, libNVVM's code would keep both chains and the sums in registers, and
/// spill.
static void multiply_wgmma_chains(Wgmma *w, const WgmmaSide *a, const WgmmaSide *b, int64_t chain) {
    int64_t steps = depth_of(w) / w->k_step, each = chain / w->k_step;
    LLVMValueRef part[CHAIN_N / 2];
    for (int i = 0; i < CHAIN_N / 2; i++) part[i] = gen_zero(w->f->g, EL_F32, 0);
    for (int64_t i = 0; i < w->d->extents[0]; i += TILE_M)
        for (int64_t j = 0; j < w->d->extents[1]; j += w->n)
            for (int64_t at = 0; has_tile(w->d, i, j) && at < steps; at += each)
                add_chain(w, a, b, i, j, at, at + each < steps ? at + each : steps, part);
}

/* ---- the op -------------------------------------------------------------------------------- */

void gpu_lower_mma_start(GpuFn *f, Op *op) {
    const Value *a = operand(op, 0), *b = operand(op, 1), *c = operand(op, 2), *y = result(op, 0);
    const Type *type = ty_promised(y->type);
    int bits = elem_info[b->type->elem].bits, n = gpu_registers(y->type);
    int64_t chain = op_int(op, A_PARTIAL_SUM_K, 0);
    Wgmma w = {.f = f, .op = op, .elem = b->type->elem, .d = type->layout, .k_step = 256 / bits};
    int64_t panel = b->type->inner == 0 ? 0 : b->type->swizzle * 8 / bits;
    w.n = instruction_columns(&w, chain ? CHAIN_N : MOST_N, elem_is(type->elem, EC_INT), panel);
    w.warp = gpu_uniform_warp(f);
    w.sums = ctx_array(f->ctx, LLVMValueRef, n);
    memcpy(w.sums, gpu_block(f, c), sizeof *w.sums * (size_t)n);
    WgmmaSide sa = {0}, sb = wgmma_side(&w, b, 0, 1, ".tb");
    bool from_buf = a->type->kind == TK_BUF;
    if (from_buf) sa = wgmma_side(&w, a, 1, 0, ".ta");
    if (chain)
        multiply_wgmma_chains(&w, from_buf ? &sa : NULL, &sb, chain);
    else
        multiply_wgmma_tiles(&w, from_buf ? &sa : NULL, &sb);
    gpu_set_block(f, y, w.sums);
}

/* ---- sums that begin ----------------------------------------------------------------------- */

static void blank_registers(GpuFn *f, const Op *op, LLVMValueRef *regs) {
    const Type *t = result(op, 0)->type;
    const char *kind = elem_info[t->elem].name;
    int total = gpu_registers(t), n;
    for (int first = 0; first < total; first += n) {
        n = registers_of_one(f, op, total - first);
        const char *name = ctx_format(f->ctx, "tg.nv.wgmma.blank.%sx%d", kind, n);
        build_statement(f, name, 0, n, regs + first);
    }
}

/// A statement without an instruction makes registers with undefined contents. LLVM would turn
/// undefined values into zeros again.
void gpu_lower_blank(GpuFn *f, Op *op) {
    const Value *y = result(op, 0), *zeros = operand(op, 0);
    const Op *known = def_of(zeros, OP_CONST);
    LLVMValueRef zero = gen_zero(f->g, y->type->elem, 0), *regs = gpu_new_block(f, y);
    if (known && !op_const(known, A_VALUE)->i) {
        blank_registers(f, op, regs);
        return;
    }
    GpuIf i = gpu_if(f, gpu_scalar(f, zeros));
    gpu_else(f, &i);
    blank_registers(f, op, regs);
    gpu_end_if(f, &i);
    for (int r = 0; r < gpu_registers(y->type); r++) regs[r] = gpu_phi(f, &i, zero, regs[r]);
}

/* ---- waiting ------------------------------------------------------------------------------- */

void gpu_lower_settled(GpuFn *f, Op *op) {
    gpu_set_block(f, result(op, 0), gpu_block(f, operand(op, 0)));
}

/// Lists the registers of all operands one after another.
static LLVMValueRef *flatten_wgmma_operands(GpuFn *f, const Op *op, int *total) {
    *total = 0;
    for (int i = 0; i < op->n_operands; i++) *total += gpu_registers(operand(op, i)->type);
    LLVMValueRef *flat = ctx_array(f->ctx, LLVMValueRef, *total), *at = flat;
    for (int i = 0; i < op->n_operands; i++) {
        int n = gpu_registers(operand(op, i)->type);
        memcpy(at, gpu_block(f, operand(op, i)), sizeof *at * (size_t)n);
        at += n;
    }
    return flat;
}

/// All products in flight go through the wait, so that none of their uses can move above it. One
/// statement takes at most MOST_REGISTERS; further statements repeat the wait at no cost.
static void wait_products(GpuFn *f, const Op *op) {
    int total, n, younger = (int)op_int(op, A_IN_FLIGHT, 0);
    LLVMValueRef *flat = flatten_wgmma_operands(f, op, &total);
    const char *kind = elem_is(operand(op, 0)->type->elem, EC_FLOAT) ? "f32" : "i32";
    for (int first = 0; first < total; first += n) {
        n = registers_of_one(f, op, total - first);
        wait_for_products(f, younger, kind, n, flat + first);
    }
    for (int i = 0; i < op->n_results; i++) {
        gpu_set_block(f, result(op, i), flat);
        flat += gpu_registers(result(op, i)->type);
    }
}

/// Whether all operands are chains. Their products have already been waited for, one chain after
/// another.
static bool all_in_chains(const Op *op) {
    for (int i = 0; i < op->n_operands; i++) {
        const Op *start = def_of(operand(op, i), OP_MMA_START);
        if (!start || !op_int(start, A_PARTIAL_SUM_K, 0)) return false;
    }
    return true;
}

void gpu_lower_await(GpuFn *f, Op *op) {
    if (op->n_operands && all_in_chains(op))
        for (int i = 0; i < op->n_results; i++)
            gpu_set_block(f, result(op, i), gpu_block(f, operand(op, i)));
    else if (op->n_operands)
        wait_products(f, op);
    else
        gpu_call(f, op_flag(op, A_WRITTEN) ? "tg.nv.tma.wait.0" : "tg.nv.tma.wait.read.0", 0);
}
