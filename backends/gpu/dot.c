// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products without matrix units. Those with matrix units are in matrix.c.
//
// a and b pass through shared memory once, row by row, in the type of the computation. A thread's
// registers of the result are rows x vectors of columns. It takes a few steps of k at a time: it
// loads a vector along k for each of its rows and, for each k, its vectors of columns, and adds the
// outer product. Every element is summed in ascending order of k. If both operands do not fit, they
// pass in pieces along k.
#include "backends/gpu/block_elements.h"
#include "backends/gpu/ops.h"

#include <string.h>

enum { ACCESS_BYTES = 16 };

typedef struct Dot {
    GpuFn *f;
    const Op *op;
    Elem elem;            // of the sums
    const Layout *layout; // of the sums
    int64_t m, n, k;
    int64_t step, piece;      // of k: elements that a thread takes at once, and elements in shared
                              // memory
    int64_t pitch_a, pitch_b; // elements from row to row
    bool fill;                // zeros after the end of k
    GpuFlat a, b;
    int vec;                          // log2 of the columns of a vector
    int vec_bits[LAYOUT_MAX_BITS];    // their register bits
    int64_t n_rows, n_columns;        // of a thread: rows, and vectors of columns
    LLVMValueRef *rows, *columns;     // their first elements in a and b
    int64_t *row_of, *column_of, *at; // of each register: row, vector, position in the vector
} Dot;

/* ---- the thread's part --------------------------------------------------------------------- */

/// Returns the index of a value in a list. Appends the value if it is new.
static int64_t number_in_list(int64_t *list, int64_t *n, int64_t x) {
    for (int64_t i = 0; i < *n; i++)
        if (list[i] == x) return i;
    list[(*n)++] = x;
    return *n - 1;
}

/// Returns a coordinate of the block, clamped to the last `n` places before its end.
static LLVMValueRef clamped_coordinate(const Dot *s, int64_t reg, int d, int n) {
    GpuFn *f = s->f;
    int64_t last = s->layout->extents[d] - n;
    LLVMValueRef x = gpu_coord(f, s->layout, reg, d);
    if (layout_box(s->layout, d) == s->layout->extents[d]) return x;
    LLVMValueRef less = LLVMBuildICmp(f->g->b, LLVMIntULT, x, gpu_i32(f, last), "");
    return LLVMBuildSelect(f->g->b, less, x, gpu_i32(f, last), "");
}

/// The rows and columns of a thread are those of thread 0, moved by one offset.
static void find_part(Dot *s) {
    GpuFn *f = s->f;
    const Layout *l = s->layout;
    int64_t count = layout_registers(l);
    int64_t *lists = ctx_array(f->ctx, int64_t, 2 * count);
    s->row_of = ctx_array(f->ctx, int64_t, 3 * count);
    s->column_of = s->row_of + count;
    s->at = s->column_of + count;
    s->rows = ctx_array(f->ctx, LLVMValueRef, 2 * count);
    s->columns = s->rows + count;
    for (int64_t r = 0; r < count; r++) {
        int64_t x[MAX_RANK], base = r, rows = s->n_rows, columns = s->n_columns;
        for (int i = 0; i < s->vec; i++) {
            s->at[r] |= (r >> s->vec_bits[i] & 1) << i;
            base &= ~(INT64_C(1) << s->vec_bits[i]);
        }
        gpu_coord_numbers(l, base, x);
        s->row_of[r] = number_in_list(lists, &s->n_rows, x[0]);
        s->column_of[r] = number_in_list(lists + count, &s->n_columns, x[1]);
        if (s->n_rows > rows)
            s->rows[rows] =
                gen_mul(f->g, clamped_coordinate(s, base, 0, 1), gpu_i32(f, s->pitch_a));
        if (s->n_columns > columns)
            s->columns[columns] = clamped_coordinate(s, base, 1, 1 << s->vec);
    }
}

/* ---- operands to shared memory ------------------------------------------------------------- */

/// Stores adjacent registers along dimension 1 as one vector.
static void put_vector(const Dot *s, const Layout *l, const GpuFlat *flat, int64_t pitch,
                       const GpuPieces *p, int k_dim, int64_t r, int n, LLVMValueRef *x) {
    GpuFn *f = s->f;
    const Gen *g = f->g;
    int64_t strides[2] = {pitch, 1};
    LLVMValueRef on = gpu_writes(f, l, r), at = gpu_block_elements(f, l, r, strides);
    if (p->first) {
        LLVMValueRef k = gpu_coord(f, l, r, k_dim);
        gpu_in_piece(f, p, k, &on);
        LLVMValueRef back = gen_mul(g, p->first, gpu_i32(f, strides[k_dim]));
        at = LLVMBuildSub(g->b, at, back, "");
    }
    at = gen_mul(g, at, gpu_i32(f, elem_bytes(s->elem)));
    gpu_store_shared_if(f, s->elem, gpu_offset(f, flat->base, at), n, x, on);
}

static void put_operand(const Dot *s, int which, const GpuPieces *p) {
    GpuFn *f = s->f;
    const Value *v = operand(s->op, which);
    const Layout *l = gpu_layout(f, v);
    LLVMValueRef *regs = gpu_block(f, v);
    const GpuFlat *flat = which ? &s->b : &s->a;
    int64_t pitch = which ? s->pitch_b : s->pitch_a;
    int bit_of[LAYOUT_MAX_BITS], vec = layout_vector(l, 1, bit_of);
    while (vec && (elem_bytes(s->elem) << vec > ACCESS_BYTES || l->extents[1] & ((1 << vec) - 1)))
        vec--;
    Bits inside = 0;
    for (int i = 0; i < vec; i++) inside |= bit(bit_of[i]);
    for (int64_t r = 0; r < layout_registers(l); r++) {
        LLVMValueRef x[ACCESS_BYTES];
        if ((Bits)r & inside || gpu_always_hole(l, r)) continue;
        for (int j = 0; j < 1 << vec; j++) {
            int64_t q = r;
            for (int i = 0; i < vec; i++) q |= (int64_t)(j >> i & 1) << bit_of[i];
            x[j] = gen_cast(f->g, v->type->elem, s->elem, regs[q]);
        }
        put_vector(s, l, flat, pitch, p, which ? 0 : 1, r, 1 << vec, x);
    }
}

/* ---- outer products ------------------------------------------------------------------------ */

static LLVMValueRef build_multiply_add(const Dot *s, LLVMValueRef a, LLVMValueRef b,
                                       LLVMValueRef c) {
    const Gen *g = s->f->g;
    LLVMTypeRef type = LLVMTypeOf(c);
    LLVMValueRef args[3] = {a, b, c};
    if (elem_is(s->elem, EC_FLOAT)) return gen_intrinsic(g, "llvm.fma", 1, &type, 3, args);
    return LLVMBuildAdd(g->b, LLVMBuildMul(g->b, a, b, ""), c, "");
}

static void load_elements_at(const Dot *s, const GpuFlat *flat, LLVMValueRef at, int n,
                             LLVMValueRef *out) {
    LLVMValueRef bytes = gen_mul(s->f->g, at, gpu_i32(s->f, elem_bytes(s->elem)));
    gpu_load_vector(s->f, s->elem, gpu_offset(s->f, flat->base, bytes), n, out);
}

/// Emits the steps k .. k + step - 1 of the piece.
static void add_products(const Dot *s, LLVMValueRef k, LLVMValueRef *sums) {
    GpuFn *f = s->f;
    const Gen *g = f->g;
    int width = 1 << s->vec;
    LLVMValueRef *a = ctx_array(f->ctx, LLVMValueRef, s->n_rows * s->step);
    LLVMValueRef *b = ctx_array(f->ctx, LLVMValueRef, s->n_columns * width);
    for (int64_t i = 0; i < s->n_rows; i++)
        load_elements_at(s, &s->a, gen_add(g, s->rows[i], k), (int)s->step, a + i * s->step);
    LLVMValueRef row = gen_mul(g, k, gpu_i32(f, s->pitch_b));
    for (int64_t kk = 0; kk < s->step; kk++) {
        for (int64_t j = 0; j < s->n_columns; j++) {
            LLVMValueRef at = gen_add(g, s->columns[j], row);
            at = gen_add(g, at, gpu_i32(f, kk * s->pitch_b));
            load_elements_at(s, &s->b, at, width, b + j * width);
        }
        for (int64_t r = 0; r < layout_registers(s->layout); r++)
            sums[r] = build_multiply_add(s, a[s->row_of[r] * s->step + kk],
                                         b[s->column_of[r] * width + s->at[r]], sums[r]);
    }
}

static void add_piece_products(const Dot *s, LLVMValueRef *sums) {
    GpuFn *f = s->f;
    int n = (int)layout_registers(s->layout);
    if (s->piece <= s->step) {
        add_products(s, gpu_i32(f, 0), sums);
        return;
    }
    GpuLoop l = gpu_loop(f, gpu_i32(f, 0), gpu_i32(f, s->piece), s->step, n, sums);
    memcpy(sums, l.phi, (size_t)n * sizeof *sums);
    add_products(s, l.index, sums);
    gpu_loop_end(f, &l, sums);
    memcpy(sums, l.phi, (size_t)n * sizeof *sums);
}

/* ---- the op -------------------------------------------------------------------------------- */

static int64_t round_up_to(int64_t n, int64_t unit) {
    return ceil_div(n, unit) * unit;
}

/// Chooses the layout of both operands in shared memory. Rows begin an odd number of accesses
/// apart, so that lanes that use different rows use different banks.
static void choose_room(Dot *s) {
    int bytes = elem_bytes(s->elem);
    s->step = ACCESS_BYTES / bytes;
    s->vec = layout_vector(s->layout, 1, s->vec_bits);
    s->m = s->layout->extents[0];
    s->n = s->layout->extents[1];
    while (bytes << s->vec > ACCESS_BYTES || s->n & ((1 << s->vec) - 1)) s->vec--;
    s->pitch_b = round_up_to(s->n, s->step);
    if (s->pitch_b / s->step % 2 == 0) s->pitch_b += s->step;
    int64_t whole = round_up_to(s->k, s->step);
    int64_t pads = bytes * (s->m * s->step + 2 * s->f->threads),
            most = gpu_shared_room(s->f) - pads;
    most = most < GPU_FMA_BYTES ? most : GPU_FMA_BYTES;
    s->piece = most / bytes / (s->m + s->pitch_b) / 16 * 16;
    if (s->piece < 16) s->piece = 16;
    if (s->piece > whole) s->piece = whole;
    s->pitch_a = s->piece + s->step;
    s->fill = s->k % s->piece != 0;
}

static void put_operands(const Dot *s, const GpuPieces *p) {
    GpuFn *f = s->f;
    if (s->fill) {
        gpu_elements_fill(f, &s->a, gen_zero(f->g, s->elem, 0));
        gpu_elements_fill(f, &s->b, gen_zero(f->g, s->elem, 0));
        gpu_barrier(f);
    }
    put_operand(s, 0, p);
    put_operand(s, 1, p);
    gpu_barrier(f);
}

static void fma_dot(GpuFn *f, Op *op) {
    Value *y = result(op, 0);
    Dot s = {.f = f, .op = op, .elem = y->type->elem, .layout = gpu_layout(f, y)};
    int n = (int)layout_registers(s.layout);
    s.k = operand(op, 0)->type->extents[1];
    choose_room(&s);
    find_part(&s);
    LLVMValueRef *sums = ctx_array(f->ctx, LLVMValueRef, n);
    for (int r = 0; r < n; r++)
        sums[r] = op->n_operands > 2 ? gpu_block(f, operand(op, 2))[r] : gen_zero(f->g, s.elem, 0);
    s.a = gpu_elements_alloc(f, s.elem, s.m * s.pitch_a);
    s.b = gpu_elements_alloc(f, s.elem, s.piece * s.pitch_b);
    GpuPieces p = gpu_pieces(f, s.k, s.piece, n, sums);
    LLVMValueRef *next = ctx_copy(f->ctx, p.carried, (size_t)n * sizeof *next);
    put_operands(&s, &p);
    add_piece_products(&s, next);
    gpu_pieces_end(f, &p, next);
    gpu_set_block(f, y, p.carried);
}

void gpu_lower_dot(GpuFn *f, Op *op) {
    const GpuUnit *unit = gpu_unit_of(op);
    if (unit)
        gpu_matrix_dot(f, op, unit);
    else
        fma_dot(f, op);
}
