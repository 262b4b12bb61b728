// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sorts lines of a block by a bitonic network over vectors in the arena.
//
// It sorts numbers. The upper part is the key, mapped so that signed integer order is the requested
// order (NaN last in either direction, -0 equal to 0). The lower part is the index of the element.
// It makes the sort stable and gives the source of each operand's element. Key and index share an
// i32 or i64 if they fit (one min and one max a step); otherwise they are two i64.
//
// All merges of the network ascend: the first step of a merge of 2^m elements compares i with its
// mirror image, and the following steps compare i with i + d for d = 2^(m-2) ... 1. Steps inside a
// vector are shuffles. The others are loops over pairs of vectors, and one loop over m serves
// merges of every length.
#include "backends/cpu/emit.h"
#include "backends/cpu/line_walk.h"
#include "backends/llvm/sort_key.h"

typedef struct LineSort {
    Op *op;
    int axis, lanes, log_lanes, log_length;
    int64_t extent, length; // length: a power of two, at least the number of lanes
    bool descending;
    Elem key;
    int n_parts;      // 1: key and index in one number, 2: separate numbers
    int part_bits;    // bits of a number
    LLVMTypeRef part; // vector of numbers
    LLVMValueRef base[2];
    const Place *line;
    Buffer *in[16], *out[16];
} LineSort;

/// A vector of numbers.
typedef struct SortKeys {
    LLVMValueRef part[2];
} SortKeys;

static int log2_up(int64_t n) {
    int log = 0;
    while ((int64_t)1 << log < n) log++;
    return log;
}

static LLVMValueRef key_constant(const LineSort *s, int64_t v) {
    LLVMTypeRef lane = LLVMGetElementType(s->part);
    return gen_same(LLVMConstInt(lane, (uint64_t)v, true), s->lanes);
}

/* ---- keys ---------------------------------------------------------------------------------- */

/// Returns the numbers of elements at .. at + lanes of the line. Dead elements are greater than all
/// others.
static SortKeys sort_keys_at(Emit *e, const LineSort *s, LLVMValueRef at, int live) {
    const Gen *g = e->g;
    Place p = line_place(s->line, s->axis, s->lanes, at, live);
    LLVMValueRef x = emit_unmasked(e, operand(s->op, 0), &p);
    x = gen_sort_key(g, s->key, x, s->descending);
    LLVMValueRef i = LLVMBuildAdd(g->b, gen_splat(g, at, s->lanes), gen_iota(g, s->lanes), "");
    i = gen_cast(g, EL_I64, s->part_bits == 32 ? EL_I32 : EL_I64, i);
    if (LLVMTypeOf(x) != s->part) x = LLVMBuildSExt(g->b, x, s->part, "");
    if (s->n_parts == 1) {
        x = LLVMBuildShl(g->b, x, key_constant(s, s->part_bits / 2), "");
        x = LLVMBuildOr(g->b, x, i, "");
    }
    LLVMValueRef alive = gen_first_lanes(g, live, s->lanes);
    LLVMValueRef last = key_constant(s, INT64_MAX >> (64 - s->part_bits));
    return (SortKeys){
        {LLVMBuildSelect(g->b, alive, x, last, ""), LLVMBuildSelect(g->b, alive, i, last, "")}};
}

/* ---- numbers in memory --------------------------------------------------------------------- */

static LLVMValueRef keys_at(Emit *e, const LineSort *s, int part, LLVMValueRef at) {
    return gen_offset(e->g, s->base[part], gen_mul(e->g, at, gen_i64(e->g, s->part_bits / 8)));
}

static SortKeys keys_load(Emit *e, const LineSort *s, LLVMValueRef at) {
    SortKeys k = {{NULL, NULL}};
    for (int i = 0; i < s->n_parts; i++)
        k.part[i] = memory_load(e, TENSOR_ARENA, s->part, keys_at(e, s, i, at),
                                (unsigned)(s->lanes * s->part_bits / 8));
    return k;
}

static void keys_store(Emit *e, const LineSort *s, LLVMValueRef at, const SortKeys *k) {
    for (int i = 0; i < s->n_parts; i++)
        memory_store(e, TENSOR_ARENA, k->part[i], keys_at(e, s, i, at),
                     (unsigned)(s->lanes * s->part_bits / 8));
}

/* ---- compare and exchange ------------------------------------------------------------------ */

/// Gives x the lesser and y the greater value of each lane.
static void exchange_keys(Emit *e, const LineSort *s, SortKeys *x, SortKeys *y) {
    const Gen *g = e->g;
    SortKeys low, high;
    if (s->n_parts == 1) {
        low.part[0] = gen_call2(g, "llvm.smin", x->part[0], y->part[0]);
        high.part[0] = gen_call2(g, "llvm.smax", x->part[0], y->part[0]);
    } else {
        LLVMValueRef less = LLVMBuildICmp(g->b, LLVMIntSLT, y->part[0], x->part[0], "");
        LLVMValueRef same = LLVMBuildICmp(g->b, LLVMIntEQ, y->part[0], x->part[0], "");
        LLVMValueRef before = LLVMBuildICmp(g->b, LLVMIntSLT, y->part[1], x->part[1], "");
        LLVMValueRef swap = LLVMBuildOr(g->b, less, LLVMBuildAnd(g->b, same, before, ""), "");
        for (int i = 0; i < 2; i++) {
            low.part[i] = LLVMBuildSelect(g->b, swap, y->part[i], x->part[i], "");
            high.part[i] = LLVMBuildSelect(g->b, swap, x->part[i], y->part[i], "");
        }
    }
    *x = low;
    *y = high;
}

static SortKeys shuffle_keys(Emit *e, const LineSort *s, const SortKeys *x, int flip) {
    int pick[MAX_LANES];
    for (int l = 0; l < s->lanes; l++) pick[l] = l ^ flip;
    SortKeys y = *x;
    for (int i = 0; i < s->n_parts; i++)
        y.part[i] = gen_shuffle(e->g, x->part[i], NULL, s->lanes, pick);
    return y;
}

/// Compares lane l with lane l ^ flip. The highest bit of flip says which of the two is the lower
/// place.
static void exchange_inside(Emit *e, const LineSort *s, SortKeys *x, int flip) {
    SortKeys y = shuffle_keys(e, s, x, flip), low = *x;
    exchange_keys(e, s, &low, &y);
    int top = 1;
    while (top * 2 <= flip) top *= 2;
    int pick[MAX_LANES];
    for (int l = 0; l < s->lanes; l++) pick[l] = l & top ? s->lanes + l : l;
    for (int i = 0; i < s->n_parts; i++)
        x->part[i] = gen_shuffle(e->g, low.part[i], y.part[i], s->lanes, pick);
}

/// Emits the last steps of a merge: distances lanes / 2 ... 1.
static void merge_inside(Emit *e, const LineSort *s, SortKeys *x, int distance) {
    for (; distance; distance /= 2) exchange_inside(e, s, x, distance);
}

static void sort_inside(Emit *e, const LineSort *s, SortKeys *x) {
    for (int length = 2; length <= s->lanes; length *= 2) {
        exchange_inside(e, s, x, length - 1);
        merge_inside(e, s, x, length / 4);
    }
}

/* ---- the network over vectors -------------------------------------------------------------- */

static LLVMValueRef shift_left_i64(const Gen *g, int64_t x, LLVMValueRef by) {
    return LLVMBuildShl(g->b, gen_i64(g, x), by, "");
}

/// Returns the i-th element whose bit 2^log is clear.
static LLVMValueRef without_bit(const Gen *g, LLVMValueRef i, LLVMValueRef log) {
    LLVMValueRef below = LLVMBuildSub(g->b, shift_left_i64(g, 1, log), gen_i64(g, 1), "");
    LLVMValueRef low = LLVMBuildAnd(g->b, i, below, "");
    return gen_add(g, gen_add(g, i, i), LLVMBuildSub(g->b, gen_i64(g, 0), low, ""));
}

static Loop *half_loop(Emit *e, const LineSort *s) {
    return loop_begin(e, gen_i64(e->g, 0), gen_i64(e->g, s->length / 2), s->lanes, "pair");
}

/// Compares every element with bit 2^log clear with its partner that has it set.
static void merge_step(Emit *e, const LineSort *s, LLVMValueRef log) {
    const Gen *g = e->g;
    Loop *l = half_loop(e, s);
    LLVMValueRef i = without_bit(g, l->iv, log), j = gen_add(g, i, shift_left_i64(g, 1, log));
    SortKeys x = keys_load(e, s, i), y = keys_load(e, s, j);
    exchange_keys(e, s, &x, &y);
    keys_store(e, s, i, &x);
    keys_store(e, s, j, &y);
    loop_end(e, l, NULL);
}

/// Compares every element of the lower halves of 2^(log + 1) with its mirror image in the upper
/// half.
static void mirror_step(Emit *e, const LineSort *s, LLVMValueRef log) {
    const Gen *g = e->g;
    Loop *l = half_loop(e, s);
    LLVMValueRef i = without_bit(g, l->iv, log);
    LLVMValueRef mask = LLVMBuildSub(g->b, shift_left_i64(g, 2, log), gen_i64(g, s->lanes), "");
    LLVMValueRef j = LLVMBuildXor(g->b, i, mask, "");
    SortKeys x = keys_load(e, s, i), y = keys_load(e, s, j);
    y = shuffle_keys(e, s, &y, s->lanes - 1);
    exchange_keys(e, s, &x, &y);
    y = shuffle_keys(e, s, &y, s->lanes - 1);
    keys_store(e, s, i, &x);
    keys_store(e, s, j, &y);
    loop_end(e, l, NULL);
}

static void each_vector(Emit *e, const LineSort *s, bool whole) {
    Loop *l = loop_begin(e, gen_i64(e->g, 0), gen_i64(e->g, s->length), s->lanes, "vector");
    SortKeys x = keys_load(e, s, l->iv);
    if (whole)
        sort_inside(e, s, &x);
    else
        merge_inside(e, s, &x, s->lanes / 2);
    keys_store(e, s, l->iv, &x);
    loop_end(e, l, NULL);
}

static void sort_network(Emit *e, const LineSort *s) {
    const Gen *g = e->g;
    each_vector(e, s, true);
    if (s->log_length == s->log_lanes) return;
    // Merges into runs of 2^(log + 1), log = log_lanes .. log_length - 1.
    Loop *l = loop_begin(e, gen_i64(g, s->log_lanes), gen_i64(g, s->log_length), 1, "merge");
    mirror_step(e, s, l->iv);
    LLVMValueRef steps = LLVMBuildSub(g->b, l->iv, gen_i64(g, s->log_lanes), "");
    Loop *d = loop_begin(e, gen_i64(g, 0), steps, 1, "distance");
    LLVMValueRef below = LLVMBuildSub(g->b, l->iv, gen_i64(g, 1), "");
    merge_step(e, s, LLVMBuildSub(g->b, below, d->iv, ""));
    loop_end(e, d, NULL);
    each_vector(e, s, false);
    loop_end(e, l, NULL);
}

/* ---- lines --------------------------------------------------------------------------------- */

static void fill_vector(Emit *e, void *arg, LLVMValueRef at, int live) {
    SortKeys k = sort_keys_at(e, arg, at, live);
    keys_store(e, arg, at, &k);
}

static void fill_sort_line(Emit *e, LineSort *s) {
    const Gen *g = e->g;
    for_vectors(e, s->extent, s->lanes, fill_vector, s);
    int64_t filled = ceil_div(s->extent, s->lanes) * s->lanes;
    if (filled == s->length) return;
    Loop *l = loop_begin(e, gen_i64(g, filled), gen_i64(g, s->length), s->lanes, "pad");
    LLVMValueRef last = key_constant(s, INT64_MAX >> (64 - s->part_bits));
    SortKeys k = {{last, last}};
    keys_store(e, s, l->iv, &k);
    loop_end(e, l, NULL);
}

/// Writes the elements of every operand in the order of the numbers.
static void take_vector(Emit *e, void *arg, LLVMValueRef at, int live) {
    const LineSort *s = arg;
    const Gen *g = e->g;
    SortKeys k = keys_load(e, s, at);
    LLVMValueRef i = k.part[s->n_parts - 1];
    int index_bits = s->n_parts == 1 ? s->part_bits / 2 : 63;
    i = LLVMBuildAnd(g->b, i, key_constant(s, (int64_t)(~(uint64_t)0 >> (64 - index_bits))), "");
    if (s->part_bits == 32) i = LLVMBuildZExt(g->b, i, gen_vec(g->i64, s->lanes), "");
    Place to = line_place(s->line, s->axis, s->lanes, at, live);
    LLVMValueRef mask = gen_first_lanes(g, live, s->lanes);
    for (int n = 0; n < s->op->n_operands; n++) {
        const Buffer *b = s->in[n];
        if (!b) continue;
        LLVMValueRef first = buffer_address(e, b, s->line->at);
        LLVMValueRef apart = gen_same(gen_i64(g, b->strides[s->axis]), s->lanes);
        LLVMValueRef element = LLVMBuildMul(g->b, i, apart, "");
        LLVMTypeRef type = gen_mem_elem(g, b->elem);
        LLVMValueRef from = LLVMBuildGEP2(g->b, type, first, &element, 1, "");
        LLVMValueRef x = memory_gather(e, TENSOR_ARENA, type, from, mask, NULL);
        buffer_store(e, s->out[n], &to, gen_from_memory(g, b->elem, x));
    }
}

static void sort_line(Emit *e, void *arg, Place *line) {
    LineSort *s = arg;
    s->line = line;
    fill_sort_line(e, s);
    sort_network(e, s);
    for_vectors(e, s->extent, s->lanes, take_vector, s);
}

/* ---- the op -------------------------------------------------------------------------------- */

/// Gives key and index half of a number each, or a number each if the key has 64 bits.
static void choose_key_numbers(Emit *e, LineSort *s) {
    int bits = gen_sort_key_bits(s->key);
    s->n_parts = bits > 32 ? 2 : 1;
    s->part_bits = bits <= 16 && s->extent < 65535 ? 32 : 64;
    s->lanes = e->cpu->target.vector_bytes * 8 / s->part_bits;
    s->log_lanes = log2_up(s->lanes);
    s->log_length = log2_up(s->extent);
    if (s->log_length < s->log_lanes) s->log_length = s->log_lanes;
    s->length = (int64_t)1 << s->log_length;
    s->part = gen_vec(LLVMIntTypeInContext(e->g->llvm, (unsigned)s->part_bits), s->lanes);
}

void lower_sort(Emit *e, Op *op) {
    const Type *t = result(op, 0)->type;
    LineSort s = {.op = op, .axis = (int)op_int(op, A_AXIS, 0), .key = t->elem};
    s.extent = t->extents[s.axis];
    s.descending = op_flag(op, A_DESCENDING);
    if (op->n_operands > 16) ice(e->ctx, op->loc, "a sort of more than 16 blocks");
    choose_key_numbers(e, &s);
    int64_t arena[2];
    for (int i = 0; i < s.n_parts; i++)
        s.base[i] = arena_bytes(e, s.length * s.part_bits / 8, &arena[i]);
    for (int i = 0; i < op->n_operands; i++) {
        if (!value_has_uses(result(op, i))) continue; // often the key
        s.in[i] = buffer_of(e, operand(op, i));
        s.out[i] = result_buffer(e, result(op, i));
    }
    code_mark(e, op, op_info[op->code].name);
    for_lines(e, t, 1u << s.axis, sort_line, &s);
    for (int i = s.n_parts - 1; i >= 0; i--) arena_release(e, arena[i]);
}
