// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products by matrix instructions of a warp (mma.sync, MFMA, WMMA). Each operand consists of tiles
// of the unit's fragment, so the registers of one instruction are a subset of the block's. A unit
// of several steps uses as many instructions, each with its share of the words of a tile of A and
// of B.
#include "backends/gpu/ops.h"

#include <string.h>

/// One operand: m x k, k x n or m x n in tiles of a fragment.
typedef struct FragmentTiles {
    Elem elem;
    const Layout *layout, *fragment;
    int bits[LAYOUT_MAX_BITS]; // register bits of the layout that belong to the fragment
    LLVMValueRef *regs;
    bool padded; // holes along k, which must be zeros
} FragmentTiles;

typedef struct MatrixProduct {
    GpuFn *f;
    const Op *op;
    const GpuUnit *unit;
    const char *call; // the target function
    FragmentTiles a, b, d;
} MatrixProduct;

/* ---- tiles --------------------------------------------------------------------------------- */

static void find_tiles(const MatrixProduct *p, FragmentRole role, const Value *v,
                       FragmentTiles *t) {
    GpuFn *f = p->f;
    t->elem = v->type->elem;
    t->layout = gpu_layout(f, v);
    t->regs = gpu_block(f, v);
    t->fragment = gpu_fragment(f->ctx, p->unit, role);
    if (!fragment_divides(t->fragment, t->layout, t->bits))
        ice(f->ctx, p->op->loc, "an operand that is not in tiles of %s", p->unit->name);
}

/// Whether both layouts give each warp the same part of a dimension.
static bool same_part(const Layout *x, int dx, const Layout *y, int dy) {
    int n = layout_thread_bits(x), lanes = x->bits[LEVEL_LANE];
    if (n != layout_thread_bits(y) || x->log2[dx] != y->log2[dy]) return false;
    for (int j = lanes; j < n; j++) {
        Bits a = x->col[x->bits[LEVEL_REG] + j] >> layout_base(x, dx) & low_bits(x->log2[dx]);
        Bits b = y->col[y->bits[LEVEL_REG] + j] >> layout_base(y, dy) & low_bits(y->log2[dy]);
        if (a != b) return false;
    }
    return true;
}

/// Whether every warp has the whole dimension.
static bool whole_part(const Layout *l, int d) {
    Bits reach = 0;
    for (int j = l->bits[LEVEL_LANE]; j < layout_thread_bits(l); j++)
        reach |= l->col[l->bits[LEVEL_REG] + j];
    return !(reach & layout_dim_mask(l, d));
}

/// Packs small elements into one word. The vector folds away if all elements are parts of one word.
static LLVMValueRef pack_fragment_word(GpuFn *f, Elem elem, int n, LLVMValueRef *x) {
    Gen *g = f->g;
    LLVMValueRef word = LLVMGetUndef(LLVMVectorType(gen_elem(g, elem), (unsigned)n));
    for (int i = 0; i < n; i++) {
        if (LLVMIsConstant(x[i])) {
            gpu_to_words(f, elem, n, x, &word); // a vector would be a constant expression
            return word;
        }
        word = LLVMBuildInsertElement(g->b, word, x[i], gpu_i32(f, i), "");
    }
    return LLVMBuildBitCast(g->b, word, g->i32, "");
}

/// Units of tf32 take f32 and ignore the bits after the first 11.
static bool is_tf32(const GpuUnit *unit) {
    return unit->precision == PRECISION_TF32;
}

/// Packs n elements into operands of an instruction, lowest first. Returns the number of operands.
static int pack_operands(const MatrixProduct *p, Elem elem, int n, LLVMValueRef *x,
                         LLVMValueRef *words) {
    GpuFn *f = p->f;
    int bits = elem_bytes(elem) * 8;
    bool rounds = elem == EL_F32 && is_tf32(p->unit), floats = p->unit->features & GPU_AMD;
    for (int i = 0; i < n && bits >= 32; i++) {
        words[i] = rounds ? gpu_call(f, "tg.cvt.tf32.f32", 1, x[i]) : x[i];
        if (rounds && floats) words[i] = LLVMBuildBitCast(f->g->b, words[i], f->g->f32, "");
    }
    if (bits >= 32) return n;
    int each = 32 / bits;
    for (int i = 0; i < n; i += each) words[i / each] = pack_fragment_word(f, elem, each, x + i);
    return n / each;
}

/// Returns the 32-bit words of the tile whose first element is at (row, column) in thread 0, in the
/// instruction's order. Returns their number, or 0 if the tile belongs to another warp.
static int tile_words(const MatrixProduct *p, const FragmentTiles *t, int64_t row, int64_t column,
                      LLVMValueRef *words) {
    GpuFn *f = p->f;
    const Layout *l = t->layout;
    int64_t at[2] = {row, column}, reg, thread;
    int n = t->fragment->bits[LEVEL_REG];
    LLVMValueRef x[LAYOUT_MAX_BITS];
    layout_find(l, at, &reg, &thread);
    if (thread) return 0;
    for (int i = 0; i < 1 << n; i++) {
        int64_t r = reg;
        for (int j = 0; j < n; j++) r ^= (int64_t)(i >> j & 1) << t->bits[j];
        x[i] = t->regs[r];
        if (!t->padded) continue;
        LLVMValueRef inside = gpu_not_hole(f, l, r), zero = LLVMConstNull(LLVMTypeOf(x[i]));
        if (inside) x[i] = LLVMBuildSelect(f->g->b, inside, x[i], zero, "");
    }
    return pack_operands(p, t->elem, 1 << n, x, words);
}

/* ---- instructions -------------------------------------------------------------------------- */

enum { MOST_WORDS = 16 };

/// Runs one step's instruction on the accumulators of one tile, in the block's registers. Its
/// operands are args[0..n_args).
static void multiply_tile(const MatrixProduct *p, int64_t row, int64_t column, int n_args,
                          LLVMValueRef *args) {
    const Gen *g = p->f->g;
    int64_t at[2] = {row, column}, reg[MOST_WORDS], first, thread;
    int n = 1 << p->d.fragment->bits[LEVEL_REG];
    layout_find(p->d.layout, at, &first, &thread);
    for (int i = 0; i < n; i++) {
        reg[i] = first;
        for (int j = 0; 1 << j < n; j++) reg[i] ^= (int64_t)(i >> j & 1) << p->d.bits[j];
        args[n_args + i] = p->d.regs[reg[i]];
    }
    LLVMValueRef sum = portable_call(g, p->call, n_args + n, args);
    for (int i = 0; i < n; i++)
        p->d.regs[reg[i]] = n > 1 ? LLVMBuildExtractValue(g->b, sum, (unsigned)i, "") : sum;
}

/// Returns the starts of thread 0's tiles of `size` along d.
static int64_t tile_starts(GpuFn *f, const Layout *l, int d, int64_t size, int64_t **out) {
    int64_t n = 0;
    *out = ctx_array(f->ctx, int64_t, layout_box(l, d) / size);
    for (int64_t i = 0; i < layout_box(l, d) && i < l->extents[d]; i += size) {
        int64_t at[MAX_RANK] = {0}, reg, thread;
        at[d] = i;
        layout_find(l, at, &reg, &thread);
        if (!thread) (*out)[n++] = i;
    }
    return n;
}

/// Loads the words of a row (or column) of tiles at step k.
static void load_tiles(MatrixProduct *p, const FragmentTiles *t, bool is_a, int64_t n,
                       const int64_t *at, int64_t k, LLVMValueRef (*words)[MOST_WORDS],
                       int *count) {
    for (int64_t i = 0; i < n; i++) {
        *count = tile_words(p, t, is_a ? at[i] : k, is_a ? k : at[i], words[i]);
        if (!*count) ice(p->f->ctx, p->op->loc, "the operands of a product are spread differently");
    }
}

/// Emits one step of all tiles. Adjacent instructions are independent.
static void one_step(const MatrixProduct *p, const int64_t *rows, int64_t m, const int64_t *columns,
                     int64_t n, LLVMValueRef (*a)[MOST_WORDS], LLVMValueRef (*b)[MOST_WORDS],
                     const int count[2], int step) {
    int n_a = count[0] / p->unit->steps, n_b = count[1] / p->unit->steps;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            LLVMValueRef args[3 * MOST_WORDS];
            memcpy(args, a[i] + step * n_a, sizeof *args * (size_t)n_a);
            memcpy(args + n_a, b[j] + step * n_b, sizeof *args * (size_t)n_b);
            multiply_tile(p, rows[i], columns[j], n_a + n_b, args);
        }
}

/// Emits the steps of k from `first` on as the outermost loop.
static void multiply_all_tiles(MatrixProduct *p, int64_t first, int64_t end) {
    GpuFn *f = p->f;
    int64_t *rows, *columns, step = p->a.fragment->extents[1];
    int64_t m = tile_starts(f, p->d.layout, 0, p->d.fragment->extents[0], &rows);
    int64_t n = tile_starts(f, p->d.layout, 1, p->d.fragment->extents[1], &columns);
    LLVMValueRef(*a)[MOST_WORDS] = ctx_alloc(f->ctx, sizeof *a * (size_t)m);
    LLVMValueRef(*b)[MOST_WORDS] = ctx_alloc(f->ctx, sizeof *b * (size_t)n);
    for (int64_t k = first; k < end; k += step) {
        int count[2] = {0};
        load_tiles(p, &p->a, true, m, rows, k, a, &count[0]);
        load_tiles(p, &p->b, false, n, columns, k, b, &count[1]);
        for (int s = 0; s < p->unit->steps; s++) one_step(p, rows, m, columns, n, a, b, count, s);
    }
}

/// Sums each `partial_sum_k` of k from zeros and adds it to the totals, because the unit's own sums
/// are narrow.
static void multiply_all_chains(MatrixProduct *p, int64_t chain) {
    GpuFn *f = p->f;
    LLVMValueRef *sums = p->d.regs, zero = gen_zero(f->g, p->d.elem, 0);
    int64_t depth = p->a.layout->extents[1], count = layout_registers(p->d.layout);
    for (int64_t k = 0; k < depth; k += chain) {
        p->d.regs = ctx_array(f->ctx, LLVMValueRef, count);
        for (int64_t r = 0; r < count; r++) p->d.regs[r] = zero;
        multiply_all_tiles(p, k, k + chain < depth ? k + chain : depth);
        for (int64_t r = 0; r < count; r++)
            sums[r] = LLVMBuildFAdd(f->g->b, sums[r], p->d.regs[r], "");
    }
    p->d.regs = sums;
}

/// Returns "f16" for "tg.nv.mma.m16n8k16.f32.f16.f16".
static const char *type_name(const GpuUnit *unit, Elem elem) {
    if (is_tf32(unit)) return unit->features & GPU_AMD ? "xf32" : "tf32";
    return elem_info[elem].name;
}

void gpu_matrix_dot(GpuFn *f, Op *op, const GpuUnit *unit) {
    Value *y = result(op, 0);
    MatrixProduct p = {.f = f, .op = op, .unit = unit};
    find_tiles(&p, FRAG_A, operand(op, 0), &p.a);
    find_tiles(&p, FRAG_B, operand(op, 1), &p.b);
    LLVMValueRef *sums = gpu_new_block(f, y);
    for (int r = 0; r < gpu_registers(y->type); r++)
        sums[r] = op->n_operands > 2 ? gpu_block(f, operand(op, 2))[r]
                                     : LLVMConstNull(gen_elem(f->g, y->type->elem));
    find_tiles(&p, FRAG_D, y, &p.d);
    p.a.padded = p.b.padded = layout_box(p.a.layout, 1) > p.a.layout->extents[1];
    if (!same_part(p.d.layout, 0, p.a.layout, 0) || !same_part(p.d.layout, 1, p.b.layout, 1) ||
        !whole_part(p.a.layout, 1) || !whole_part(p.b.layout, 0))
        ice(f->ctx, op->loc, "the operands of %s are spread differently", unit->name);
    p.call = ctx_format(f->ctx, "tg.%s.%s.%s.%s.%s", unit->features & GPU_AMD ? "amd" : "nv",
                        gpu_unit_base(f->ctx, unit), elem_info[y->type->elem].name,
                        type_name(unit, p.a.elem), type_name(unit, p.b.elem));
    int64_t chain = op_int(op, A_PARTIAL_SUM_K, 0);
    if (chain)
        multiply_all_chains(&p, chain);
    else
        multiply_all_tiles(&p, 0, p.a.layout->extents[1]);
}
