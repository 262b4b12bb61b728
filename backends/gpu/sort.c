// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sorts lines of a block in shared memory, by a bitonic network or by digits (digit_sort.h). Either
// orders one number for each element. Its upper part is the key, as an integer in the requested
// order (gen_sort_key). Its lower part is the index of the element, which makes the sort stable and
// tells where each operand's element comes from. Key and index share an i32 or i64 if they fit;
// otherwise they are an i64 and an i32.
//
// All merges of the network ascend: the first step of a merge of 2^m elements compares i with its
// mirror image, and the following steps compare i with i + d for d = 2^(m-2) ... 1. Two loops over
// m and d run all steps, so the code size does not depend on the length. Lines are processed in
// groups that fit; a sort by digits takes one at a time.
#include "backends/gpu/digit_sort.h"
#include "backends/gpu/ops.h"
#include "backends/llvm/sort_key.h"

#include <string.h>

typedef struct GpuSort {
    GpuFn *f;
    const Op *op;
    const Layout *layout;
    int axis, n, log; // n operands; a line is padded to 2^log
    int64_t extent, lines, group, strides[MAX_RANK];
    int64_t registers;
    int parts, index_bits; // numbers an element; bits of the index in the first one
    Elem number;           // EL_I32 or EL_I64
    bool by_digits;
    GpuFlat flat[2];
} GpuSort;

/// A number, or the key and the index.
typedef struct GpuKeys {
    LLVMValueRef part[2];
} GpuKeys;

/* ---- numbers ------------------------------------------------------------------------------- */

static void choose_sort_numbers(GpuSort *s, Elem key) {
    int bits = gen_sort_key_bits(key) + s->log;
    s->parts = bits > 64 ? 2 : 1;
    s->number = bits > 32 ? EL_I64 : EL_I32;
    s->index_bits = s->parts == 1 ? s->log : 0;
}

static Elem part_elem(const GpuSort *s, int part) {
    return part ? EL_I32 : s->number;
}

static LLVMValueRef sort_number(const GpuSort *s, int64_t v) {
    return LLVMConstInt(gen_elem(s->f->g, s->number), (uint64_t)v, true);
}

/// Returns the bit of the number after those of the key.
static int key_end(const GpuSort *s) {
    return s->index_bits + gen_sort_key_bits(operand(s->op, 0)->type->elem);
}

/// Returns the bit that makes the order of keys unsigned, for a sort by digits.
static uint64_t sign_of_key(const GpuSort *s) {
    return s->by_digits ? (uint64_t)1 << (key_end(s) - 1) : 0;
}

/// Returns the number of the greatest key and of an index that no other exceeds.
static GpuKeys last_number(const GpuSort *s) {
    uint64_t greatest = ((uint64_t)1 << (key_end(s) - 1)) - 1;
    int64_t number = (int64_t)(greatest ^ sign_of_key(s));
    return (GpuKeys){{sort_number(s, number), gpu_i32(s->f, INT32_MAX)}};
}

static GpuKeys key_and_index(const GpuSort *s, LLVMValueRef key, LLVMValueRef index) {
    const Gen *g = s->f->g;
    Elem elem = operand(s->op, 0)->type->elem;
    LLVMTypeRef type = gen_elem(g, s->number);
    LLVMValueRef x = gen_sort_key(g, elem, key, op_flag(s->op, A_DESCENDING));
    if (LLVMTypeOf(x) != type) x = LLVMBuildSExt(g->b, x, type, "");
    LLVMValueRef sign = sort_number(s, (int64_t)sign_of_key(s));
    if (s->parts == 2) return (GpuKeys){{LLVMBuildXor(g->b, x, sign, ""), index}};
    x = LLVMBuildShl(g->b, x, sort_number(s, s->index_bits), "");
    x = LLVMBuildXor(g->b, x, sign, "");
    if (s->number == EL_I64) index = LLVMBuildZExt(g->b, index, g->i64, "");
    return (GpuKeys){{LLVMBuildOr(g->b, x, index, ""), NULL}};
}

static GpuKeys load_keys(const GpuSort *s, LLVMValueRef at) {
    GpuKeys k = {{NULL, NULL}};
    if (s->by_digits) at = gpu_digit_place(s->f, at);
    for (int i = 0; i < s->parts; i++) k.part[i] = gpu_elements_load(s->f, &s->flat[i], at);
    return k;
}

static void store_keys(const GpuSort *s, LLVMValueRef at, LLVMValueRef on, const GpuKeys *k) {
    if (s->by_digits) at = gpu_digit_place(s->f, at);
    for (int i = 0; i < s->parts; i++) gpu_elements_store(s->f, &s->flat[i], at, on, k->part[i]);
}

/* ---- the network --------------------------------------------------------------------------- */

/// Returns an i1: y comes before x.
static LLVMValueRef is_pair_out_of_order(const GpuSort *s, const GpuKeys *x, const GpuKeys *y) {
    const Gen *g = s->f->g;
    LLVMValueRef less = LLVMBuildICmp(g->b, LLVMIntSLT, y->part[0], x->part[0], "");
    if (s->parts == 1) return less;
    LLVMValueRef same = LLVMBuildICmp(g->b, LLVMIntEQ, y->part[0], x->part[0], "");
    LLVMValueRef before = LLVMBuildICmp(g->b, LLVMIntSLT, y->part[1], x->part[1], "");
    return LLVMBuildOr(g->b, less, LLVMBuildAnd(g->b, same, before, ""), "");
}

static void exchange_pair(const GpuSort *s, LLVMValueRef i, LLVMValueRef j) {
    const Gen *g = s->f->g;
    GpuKeys x = load_keys(s, i), y = load_keys(s, j), low, high;
    LLVMValueRef swap = is_pair_out_of_order(s, &x, &y);
    for (int k = 0; k < s->parts; k++) {
        low.part[k] = LLVMBuildSelect(g->b, swap, y.part[k], x.part[k], "");
        high.part[k] = LLVMBuildSelect(g->b, swap, x.part[k], y.part[k], "");
    }
    store_keys(s, i, NULL, &low);
    store_keys(s, j, NULL, &high);
}

/// Compares every element with bit 2^log clear with its partner: the element xor `flip`.
static void sort_step(const GpuSort *s, LLVMValueRef log, LLVMValueRef flip) {
    GpuFn *f = s->f;
    const Gen *g = f->g;
    int64_t pairs = s->flat[0].count / 2;
    GpuLoop l = gpu_loop(f, f->thread, gpu_i32(f, pairs), f->threads, 0, NULL);
    LLVMValueRef high = LLVMBuildLShr(g->b, l.index, log, "");
    LLVMValueRef clear = LLVMBuildShl(g->b, high, log, "");
    LLVMValueRef i = LLVMBuildAdd(g->b, l.index, clear, ""); // inserts a zero at bit log
    exchange_pair(s, i, LLVMBuildXor(g->b, i, flip, ""));
    gpu_loop_end(f, &l, NULL);
    gpu_barrier(f);
}

static LLVMValueRef times_power_of_two(const GpuSort *s, int64_t times, LLVMValueRef log) {
    return LLVMBuildShl(s->f->g->b, gpu_i32(s->f, times), log, "");
}

/// Merges into runs of 2^(m + 1), m = 0 .. log - 1.
static void run_sort_network(const GpuSort *s) {
    GpuFn *f = s->f;
    const Gen *g = f->g;
    GpuLoop m = gpu_loop(f, gpu_i32(f, 0), gpu_i32(f, s->log), 1, 0, NULL);
    sort_step(s, m.index, LLVMBuildSub(g->b, times_power_of_two(s, 2, m.index), gpu_i32(f, 1), ""));
    GpuLoop d = gpu_loop(f, gpu_i32(f, 0), m.index, 1, 0, NULL);
    LLVMValueRef log = LLVMBuildSub(g->b, m.index, gpu_i32(f, 1), "");
    log = LLVMBuildSub(g->b, log, d.index, "");
    sort_step(s, log, times_power_of_two(s, 1, log));
    gpu_loop_end(f, &d, NULL);
    gpu_loop_end(f, &m, NULL);
}

/// Of an odd number of bits, the lowest is an idle one, or one of the index, by which the numbers
/// are in order already.
static void run_digit_passes(const GpuSort *s) {
    Elem key = operand(s->op, 0)->type->elem;
    int end = key_end(s), first = s->index_bits + gen_sort_key_idle_bits(key);
    first -= (end - first) % 2;
    GpuDigitSort d = {s->flat, s->parts, first, end, INT64_C(1) << s->log};
    gpu_sort_by_digits(s->f, &d);
}

/* ---- a group of lines ---------------------------------------------------------------------- */

/// Returns the place of register r's element in the group; *on: it is in the group.
static LLVMValueRef place_in_group(const GpuSort *s, const GpuPieces *p, int64_t r,
                                   LLVMValueRef *on) {
    return gpu_in_piece(s->f, p, gpu_block_elements(s->f, s->layout, r, s->strides), on);
}

static void put_numbers(const GpuSort *s, const GpuPieces *p) {
    GpuFn *f = s->f;
    LLVMValueRef *key = gpu_block(f, operand(s->op, 0));
    GpuKeys last = last_number(s);
    for (int i = 0; i < s->parts; i++) gpu_elements_fill(f, &s->flat[i], last.part[i]);
    gpu_barrier(f);
    for (int64_t r = 0; r < s->registers; r++) {
        if (gpu_always_hole(s->layout, r)) continue;
        LLVMValueRef on = gpu_writes(f, s->layout, r), at = place_in_group(s, p, r, &on);
        GpuKeys k = key_and_index(s, key[r], gpu_coord(f, s->layout, r, s->axis));
        store_keys(s, at, on, &k);
    }
    gpu_barrier(f);
}

/// Finds the place in the group of each register's element.
static void find_sources(const GpuSort *s, const GpuPieces *p, LLVMValueRef *at, LLVMValueRef *on) {
    GpuFn *f = s->f;
    const Gen *g = f->g;
    for (int64_t r = 0; r < s->registers; r++) {
        on[r] = gpu_not_hole(f, s->layout, r);
        LLVMValueRef place = place_in_group(s, p, r, &on[r]);
        if (on[r]) place = LLVMBuildSelect(g->b, on[r], place, gpu_i32(f, 0), "");
        GpuKeys k = load_keys(s, place);
        LLVMValueRef i = k.part[s->parts - 1];
        if (LLVMTypeOf(i) != g->i32) i = LLVMBuildTrunc(g->b, i, g->i32, "");
        i = LLVMBuildAnd(g->b, i, gpu_i32(f, (INT64_C(1) << s->log) - 1), "");
        place = LLVMBuildAnd(g->b, place, gpu_i32(f, -(INT64_C(1) << s->log)), "");
        at[r] = LLVMBuildOr(g->b, place, i, "");
    }
}

/// Moves one operand to the new order. Elements outside the lines of the group keep `regs`.
static void move_sorted_operand(const GpuSort *s, const GpuPieces *p, int k, LLVMValueRef *const at,
                                LLVMValueRef *const on, LLVMValueRef *const regs,
                                LLVMValueRef *out) {
    GpuFn *f = s->f;
    LLVMValueRef *x = gpu_block(f, operand(s->op, k));
    // The numbers have been read, so the values reuse their room.
    GpuFlat values = {s->flat[0].base, operand(s->op, k)->type->elem, s->group << s->log};
    gpu_barrier(f);
    for (int64_t r = 0; r < s->registers; r++) {
        if (gpu_always_hole(s->layout, r)) continue;
        LLVMValueRef writes = gpu_writes(f, s->layout, r), place = place_in_group(s, p, r, &writes);
        gpu_elements_store(f, &values, place, writes, x[r]);
    }
    gpu_barrier(f);
    for (int64_t r = 0; r < s->registers; r++) {
        LLVMValueRef moved = gpu_elements_load(f, &values, at[r]);
        out[r] = on[r] ? LLVMBuildSelect(f->g->b, on[r], moved, regs[r], "") : moved;
    }
}

static void sort_group(const GpuSort *s, const GpuPieces *p, LLVMValueRef *next) {
    LLVMValueRef *at = ctx_array(s->f->ctx, LLVMValueRef, 2 * s->registers);
    LLVMValueRef *on = at + s->registers;
    put_numbers(s, p);
    if (s->by_digits)
        run_digit_passes(s);
    else
        run_sort_network(s);
    find_sources(s, p, at, on);
    for (int k = 0; k < s->n; k++) {
        int64_t first = k * s->registers;
        if (value_has_uses(result(s->op, k)))
            move_sorted_operand(s, p, k, at, on, p->carried + first, next + first);
        else // often the key
            memcpy(next + first, p->carried + first, (size_t)s->registers * sizeof *next);
    }
}

/* ---- the op -------------------------------------------------------------------------------- */

/// Chooses the lines that are sorted together. In shared memory each line is contiguous. Each
/// thread takes the same number of pairs of a network, so a group has at least as many pairs as
/// threads.
static void choose_group(GpuSort *s) {
    const Layout *l = s->layout;
    int64_t length = INT64_C(1) << s->log, stride = length, bytes = 0;
    for (int d = l->rank - 1; d >= 0; d--) {
        s->strides[d] = d == s->axis ? 1 : stride;
        if (d != s->axis) stride *= l->extents[d];
    }
    s->lines = stride / length;
    for (int i = 0; i < s->parts; i++) bytes += elem_bytes(part_elem(s, i));
    for (int k = 0; k < s->n; k++) {
        int elem = elem_bytes(operand(s->op, k)->type->elem);
        if (elem > bytes) bytes = elem;
    }
    s->group = 1;
    if (s->by_digits) return;
    int64_t least = ceil_div(2 * (int64_t)s->f->threads, length);
    s->group = GPU_PIECE_BYTES / (bytes * length);
    if (s->group > s->lines) s->group = s->lines;
    if (s->group < least) s->group = least;
    if (length * s->group % (2 * s->f->threads)) s->group = ceil_div(s->group, least) * least;
}

/// Allocates the numbers' room, which must also fit values of 8 bytes.
static void allocate_sort_room(GpuSort *s) {
    GpuFn *f = s->f;
    int64_t values = s->group << s->log, bytes = 0, at = 0, widest = 0;
    int64_t count = s->by_digits ? gpu_digit_places(values) : values;
    for (int i = 0; i < s->parts; i++) bytes += gpu_elements_bytes(f, part_elem(s, i), count);
    for (int k = 0; k < s->n; k++) {
        widest = gpu_elements_bytes(f, operand(s->op, k)->type->elem, values);
        if (widest > bytes) bytes = widest;
    }
    LLVMValueRef base = gpu_shared_alloc(f, bytes, 16);
    for (int i = 0; i < s->parts; i++) {
        s->flat[i] = (GpuFlat){gpu_offset_by(f, base, at), part_elem(s, i), count};
        at += gpu_elements_bytes(f, part_elem(s, i), count);
    }
}

void gpu_lower_sort(GpuFn *f, Op *op) {
    GpuSort s = {.f = f, .op = op, .n = op->n_operands, .axis = (int)op_int(op, A_AXIS, 0)};
    s.layout = gpu_layout(f, operand(op, 0));
    s.registers = layout_registers(s.layout);
    s.extent = s.layout->extents[s.axis];
    while (INT64_C(1) << s.log < s.extent) s.log++;
    choose_sort_numbers(&s, operand(op, 0)->type->elem);
    Elem key = operand(op, 0)->type->elem;
    int bits = gen_sort_key_bits(key) - gen_sort_key_idle_bits(key);
    int64_t bytes = elem_bytes(s.number) + (s.parts == 2 ? elem_bytes(EL_I32) : 0);
    s.by_digits = gpu_sorts_by_digits(f, s.log, bits, bytes);
    choose_group(&s);
    allocate_sort_room(&s);
    int n = s.n * (int)s.registers;
    LLVMValueRef *init = ctx_array(f->ctx, LLVMValueRef, n),
                 *next = ctx_array(f->ctx, LLVMValueRef, n);
    for (int k = 0; k < s.n; k++)
        for (int64_t r = 0; r < s.registers; r++)
            init[k * s.registers + r] = gpu_block(f, operand(op, k))[r];
    GpuPieces p = gpu_pieces(f, s.lines << s.log, s.group << s.log, n, init);
    sort_group(&s, &p, next);
    gpu_pieces_end(f, &p, next);
    for (int k = 0; k < s.n; k++) gpu_set_block(f, result(op, k), p.carried + k * s.registers);
}
