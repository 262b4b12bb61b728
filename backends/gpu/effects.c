// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// assert, print, and the checks that --check adds: records in the memory of tg_faults
// (runtime/abi.h).
//
// If lanes of a block fail a check, the first one in row-major order is reported. All threads find
// it through shared memory as the minimum of their lane numbers. Then one thread claims room for a
// record and writes it. Elements of printed blocks are written by the threads that hold them.
#include "backends/gpu/block_elements.h"
#include "backends/gpu/ops.h"

#include <stddef.h>
#include <string.h>

enum { PRINTED_LANES = 16, HEAD_WORDS = 2 };

/* ---- sites --------------------------------------------------------------------------------- */

static char fault_letter(Elem elem) {
    switch (elem_info[elem].cls) {
    case EC_BOOL: return 'b';
    case EC_SINT: return 'd';
    case EC_UINT: return 'u';
    default: return elem == EL_F64 ? 'g' : 'f';
    }
}

static int count_letters(const char *types) {
    int n = 0;
    for (; *types; types++) n += *types != '[' && *types != ']' && *types != '+';
    return n;
}

int gpu_add_site(GpuFn *f, const Op *op, int kind, const char *text, const char *types,
                 int n_indices) {
    tg_site *s = ctx_new(f->ctx, tg_site);
    s->kind = kind;
    s->line = (int32_t)op->loc.line;
    s->column = op->loc.col;
    s->n_values = count_letters(types);
    s->n_indices = n_indices;
    s->file = op->loc.file ? gen_path(f->g, op->loc.file) : NULL;
    s->text = text;
    s->types = types;
    vec_push(f->ctx, &f->code->sites, s);
    return f->code->sites.n - 1;
}

/* ---- records ------------------------------------------------------------------------------- */

/// The record being written.
typedef struct FaultWriter {
    int site, n;        // n values
    LLVMValueRef on;    // i1: the thread that writes it; NULL: each thread writes its own part
    LLVMValueRef words; // its start
} FaultWriter;

static LLVMValueRef fault_field(GpuFn *f, size_t offset) {
    return gpu_offset_by(f, f->faults, (int64_t)offset);
}

/// Claims room for a record in threads that are on. Returns its first word, and an i1: there is
/// room.
static LLVMValueRef claim_record(GpuFn *f, const FaultWriter *r, LLVMValueRef on) {
    LLVMValueRef words = gpu_i32(f, r->n + HEAD_WORDS);
    return gpu_call(f, "tg.atomic.global.add.i32.gpu", 3, fault_field(f, offsetof(tg_faults, used)),
                    on, words);
}

static LLVMValueRef has_record_room(GpuFn *f, const FaultWriter *r, LLVMValueRef at) {
    const Gen *g = f->g;
    LLVMValueRef most =
        LLVMBuildLoad2(g->b, g->i32, fault_field(f, offsetof(tg_faults, capacity)), "");
    LLVMSetAlignment(most, 4);
    LLVMValueRef end = LLVMBuildAdd(g->b, at, gpu_i32(f, r->n + HEAD_WORDS), "");
    return LLVMBuildICmp(g->b, LLVMIntULE, end, most, "");
}

static void store_record_word(GpuFn *f, const FaultWriter *r, LLVMValueRef at, LLVMValueRef on,
                              LLVMValueRef x) {
    LLVMValueRef p = gpu_offset(f, r->words, gen_mul(f->g, at, gpu_i32(f, 8)));
    gpu_call(f, "tg.store.global.b64", 3, p, on ? on : gpu_true(f), x);
}

static LLVMValueRef words_at(GpuFn *f, LLVMValueRef at) {
    LLVMValueRef bytes = LLVMBuildZExt(f->g->b, at, f->g->i64, "");
    bytes = gen_mul(f->g, bytes, gen_i64(f->g, 8));
    return gpu_offset(f, fault_field(f, sizeof(tg_faults)), bytes);
}

/// Stores the head, and the failure flag by an atomic, since any number of programs may fail at
/// once.
static void store_head(GpuFn *f, const FaultWriter *r, LLVMValueRef on, bool fails) {
    int64_t head = r->site | (int64_t)r->n << 32;
    store_record_word(f, r, gpu_i32(f, 0), on, gen_i64(f->g, head));
    store_record_word(f, r, gpu_i32(f, 1), on, f->program);
    if (fails)
        gpu_call(f, "tg.atomic.global.or.i32.gpu", 3, fault_field(f, offsetof(tg_faults, failed)),
                 on, gpu_i32(f, 1));
}

/// Returns the bits of a value in a message.
static LLVMValueRef fault_value_bits(GpuFn *f, Elem elem, LLVMValueRef x) {
    const Gen *g = f->g;
    if (elem_is(elem, EC_FLOAT))
        return LLVMBuildBitCast(g->b, gen_cast(g, elem, EL_F64, x), g->i64, "");
    return gen_cast(g, elem, EL_I64, x);
}

/// Writes a whole record in the thread that is on.
static void record_values(GpuFn *f, int site, LLVMValueRef on, int n, LLVMValueRef *values) {
    bool fails = ((const tg_site *)f->code->sites.data[site])->kind != TG_SITE_MARK;
    FaultWriter r = {.site = site, .n = n, .on = on};
    LLVMValueRef at = claim_record(f, &r, on);
    r.words = words_at(f, at);
    on = gen_and(f->g, on, has_record_room(f, &r, at));
    store_head(f, &r, on, fails);
    for (int i = 0; i < n; i++) store_record_word(f, &r, gpu_i32(f, HEAD_WORDS + i), on, values[i]);
}

/* ---- marks --------------------------------------------------------------------------------- */

void gpu_mark(GpuFn *f, const Op *op, const char *text) {
    if (!f->options->marks) return;
    const GpuRole *role = f->role;
    if (role) text = ctx_format(f->ctx, "%s: %s", role->name, text);
    LLVMValueRef first = gpu_i32(f, role ? role->first : 0);
    LLVMValueRef on = LLVMBuildICmp(f->g->b, LLVMIntEQ, f->cluster_thread, first, "");
    LLVMValueRef now = gpu_call(f, "tg.clock", 0);
    record_values(f, gpu_add_site(f, op, TG_SITE_MARK, text, "u", 0), on, 1, &now);
}

void gpu_mark_loop(GpuFn *f, const Op *loop, const char *text) {
    enum { MARKED_DEPTH = 2 }; // marks of deeper loops would take longer than their iterations
    if (f->loops < MARKED_DEPTH) gpu_mark(f, loop, text);
}

/* ---- operands as values -------------------------------------------------------------------- */

static int64_t shown_lanes(const Type *t) {
    int64_t n = ty_count(t);
    return n < PRINTED_LANES ? n : PRINTED_LANES;
}

/// Returns the letters of the operands from `first` on. *blocks: some operand is a block.
static const char *value_types(GpuFn *f, const Op *op, int first, bool *blocks) {
    Text types = {.ctx = f->ctx};
    text_bytes(&types, "", 0);
    for (int i = first; i < op->n_operands; i++) {
        const Type *t = operand(op, i)->type;
        *blocks |= t->rank != 0;
        if (t->rank) text_add(&types, "[");
        for (int64_t k = 0; k < shown_lanes(t); k++) text_add(&types, "%c", fault_letter(t->elem));
        if (t->rank) text_add(&types, shown_lanes(t) < ty_count(t) ? "+]" : "]");
    }
    return types.data;
}

/// Returns an i1: this thread reports the element, out of the threads that hold it. NULL: only one
/// does.
static LLVMValueRef reports_element(GpuFn *f, const Layout *l, int64_t reg) {
    return gen_and(f->g, gpu_owner(f, l), gpu_not_hole(f, l, reg));
}

/// Stores lanes 0 .. 15 of a block, from the threads that hold them, to words from `at` on.
static void store_lanes(GpuFn *f, const FaultWriter *r, const Value *v, int at, LLVMValueRef ok) {
    const Gen *g = f->g;
    const Layout *l = gpu_layout(f, v);
    int64_t strides[MAX_RANK], n = 1;
    for (int d = l->rank - 1; d >= 0; n *= l->extents[d--]) strides[d] = n;
    LLVMValueRef shown = gpu_i32(f, shown_lanes(v->type));
    for (int64_t reg = 0; reg < layout_registers(l); reg++) {
        LLVMValueRef lane = gpu_block_elements(f, l, reg, strides);
        LLVMValueRef on = LLVMBuildICmp(g->b, LLVMIntULT, lane, shown, "");
        if (LLVMIsAConstantInt(on) && !LLVMConstIntGetZExtValue(on)) continue;
        on = gen_and(g, gen_and(g, on, reports_element(f, l, reg)), ok);
        LLVMValueRef x = fault_value_bits(f, v->type->elem, gpu_block(f, v)[reg]);
        store_record_word(f, r, gen_add(g, lane, gpu_i32(f, at)), on, x);
    }
}

static void store_fault_operands(GpuFn *f, const FaultWriter *r, const Op *op, int first,
                                 LLVMValueRef ok) {
    int at = HEAD_WORDS;
    LLVMValueRef one = gen_and(f->g, ok, gpu_is_first_thread(f));
    for (int i = first; i < op->n_operands; i++) {
        const Value *v = operand(op, i);
        if (v->type->rank)
            store_lanes(f, r, v, at, ok);
        else
            store_record_word(f, r, gpu_i32(f, at), one,
                              fault_value_bits(f, v->type->elem, gpu_scalar(f, v)));
        at += (int)shown_lanes(v->type);
    }
}

/// Applies "tg.<what>" to a word of shared memory in each CTA.
static void on_words(GpuFn *f, const char *near, const char *far, LLVMValueRef word,
                     LLVMValueRef on, LLVMValueRef x) {
    LLVMValueRef at = gpu_shared_addr(f, word);
    if (f->kernel->cluster == 1) gpu_call(f, near, 3, at, on, x);
    for (int i = 0; i < f->kernel->cluster && f->kernel->cluster > 1; i++)
        gpu_call(f, far, 3, gpu_call(f, "tg.nv.cluster.addr", 2, at, gpu_i32(f, i)), on, x);
}

static LLVMValueRef read_shared_word(GpuFn *f, LLVMValueRef word) {
    LLVMValueRef x;
    gpu_program_barrier(f);
    gpu_load_vector(f, EL_I32, word, 1, &x);
    return x;
}

/// Broadcasts a number of one thread to all.
static LLVMValueRef from_thread_0(GpuFn *f, LLVMValueRef x) {
    LLVMValueRef word = gpu_shared_alloc_far(f, 4, 4);
    on_words(f, "tg.store.shared.b32", "tg.store.cluster.b32", word, gpu_is_first_thread(f), x);
    return read_shared_word(f, word);
}

/// Records the operands from `first` on and further values, if c holds (uniform; NULL: always).
static void record_operands(GpuFn *f, const Op *op, int site, int first, LLVMValueRef c, int n,
                            LLVMValueRef *more, bool blocks) {
    const tg_site *s = f->code->sites.data[site];
    FaultWriter r = {.site = site, .n = s->n_values};
    LLVMValueRef one = gen_and(f->g, c, gpu_is_first_thread(f)), at = claim_record(f, &r, one);
    if (blocks) at = from_thread_0(f, at);
    LLVMValueRef ok = gen_and(f->g, c, has_record_room(f, &r, at));
    r.words = words_at(f, at);
    one = gen_and(f->g, ok, gpu_is_first_thread(f));
    store_head(f, &r, one, s->kind != TG_SITE_PRINT);
    store_fault_operands(f, &r, op, first, ok);
    for (int i = 0; i < n; i++)
        store_record_word(f, &r, gpu_i32(f, HEAD_WORDS + r.n - n + i), one, more[i]);
}

void gpu_lower_print(GpuFn *f, Op *op) {
    bool blocks = false;
    const char *types = value_types(f, op, 0, &blocks);
    int site = gpu_add_site(f, op, TG_SITE_PRINT, op_str(op, A_TEXT), types, 0);
    record_operands(f, op, site, 0, NULL, 0, NULL, blocks);
}

/* ---- lanes that fail ----------------------------------------------------------------------- */

/// Lanes of a block in some layout, with some bad ones.
typedef struct BadLanes {
    const Layout *layout; // NULL for a scalar
    int64_t strides[MAX_RANK];
    LLVMValueRef own;   // i32: the least bad lane of this thread; -1 (unsigned): none
    LLVMValueRef first; // of all threads
} BadLanes;

static BadLanes lanes_of(GpuFn *f, const Layout *l) {
    BadLanes s = {.layout = l, .own = gpu_i32(f, -1)};
    int64_t n = 1;
    for (int d = l ? l->rank - 1 : -1; d >= 0; n *= l->extents[d--]) s.strides[d] = n;
    return s;
}

static int64_t lanes_registers(const BadLanes *s) {
    return s->layout ? layout_registers(s->layout) : 1;
}

static LLVMValueRef bad_lane_number(GpuFn *f, const BadLanes *s, int64_t reg) {
    return s->layout ? gpu_block_elements(f, s->layout, reg, s->strides) : gpu_i32(f, 0);
}

/// Notes the bad lanes of register reg.
static void note_bad(GpuFn *f, BadLanes *s, int64_t reg, LLVMValueRef bad) {
    const Gen *g = f->g;
    if (s->layout) bad = gen_and(g, bad, reports_element(f, s->layout, reg));
    LLVMValueRef lane = bad_lane_number(f, s, reg);
    LLVMValueRef less = LLVMBuildICmp(g->b, LLVMIntULT, lane, s->own, "");
    s->own = LLVMBuildSelect(g->b, LLVMBuildAnd(g->b, bad, less, ""), lane, s->own, "");
}

/// Returns an i1 that is equal in all threads: some lane is bad. s->first is the first one. Scalars
/// are equal in all threads.
static LLVMValueRef find_first(GpuFn *f, BadLanes *s) {
    const Gen *g = f->g;
    LLVMValueRef none = gpu_i32(f, -1);
    s->first = s->own;
    if (s->layout) {
        LLVMValueRef word = gpu_shared_alloc_far(f, 4, 4);
        on_words(f, "tg.store.shared.b32", "tg.store.cluster.b32", word, gpu_is_first_thread(f),
                 none);
        gpu_program_barrier(f);
        on_words(f, "tg.atomic.shared.min.u32.cta", "tg.atomic.cluster.min.u32.gpu", word,
                 LLVMBuildICmp(g->b, LLVMIntNE, s->own, none, ""), s->own);
        s->first = read_shared_word(f, word);
    }
    return LLVMBuildICmp(g->b, LLVMIntNE, s->first, none, "");
}

/// Returns the indices of the first bad lane.
static int first_indices(GpuFn *f, const BadLanes *s, LLVMValueRef *out) {
    const Gen *g = f->g;
    int rank = s->layout ? s->layout->rank : 0;
    for (int d = 0; d < rank; d++) {
        LLVMValueRef x = LLVMBuildUDiv(g->b, s->first, gpu_i32(f, s->strides[d]), "");
        x = LLVMBuildURem(g->b, x, gpu_i32(f, s->layout->extents[d]), "");
        out[d] = LLVMBuildZExt(g->b, x, g->i64, "");
    }
    return rank;
}

void gpu_lower_assert(GpuFn *f, Op *op) {
    if (!f->options->check) return;
    const Value *c = operand(op, 0);
    BadLanes s = lanes_of(f, c->type->rank ? gpu_layout(f, c) : NULL);
    for (int64_t r = 0; r < lanes_registers(&s); r++)
        note_bad(f, &s, r, LLVMBuildNot(f->g->b, gpu_block(f, c)[r], ""));
    LLVMValueRef bad = find_first(f, &s), indices[MAX_RANK];
    int n = first_indices(f, &s, indices);
    bool blocks = false;
    Text types = {.ctx = f->ctx};
    text_add(&types, "%s", value_types(f, op, 1, &blocks));
    for (int d = 0; d < n; d++) text_add(&types, "d");
    int site = gpu_add_site(f, op, TG_SITE_ASSERT, op_str(op, A_TEXT), types.data, n);
    record_operands(f, op, site, 1, bad, n, indices, blocks);
}

/* ---- division ------------------------------------------------------------------------------ */

void gpu_check_division(GpuFn *f, const Op *op) {
    if ((op->code != OP_DIV && op->code != OP_REM) || operand(op, 0)->type->rank) return;
    Elem elem = operand(op, 0)->type->elem;
    if (elem_is(elem, EC_FLOAT)) return;
    LLVMValueRef x = gpu_scalar(f, operand(op, 0)), y = gpu_scalar(f, operand(op, 1));
    LLVMValueRef bad = LLVMBuildICmp(f->g->b, LLVMIntEQ, y, LLVMConstNull(LLVMTypeOf(y)), "");
    if (LLVMIsAConstantInt(bad) && !LLVMConstIntGetZExtValue(bad)) return;
    const char types[2] = {fault_letter(elem), 0};
    int site =
        gpu_add_site(f, op, TG_SITE_DIVIDE, "division of {} by 0", ctx_name(f->ctx, types), 0);
    LLVMValueRef value = fault_value_bits(f, elem, x);
    record_values(f, site, gen_and(f->g, bad, gpu_is_first_thread(f)), 1, &value);
}

/* ---- bounds -------------------------------------------------------------------------------- */

/// Returns the register of a block in the shape of the picks for register reg of the access.
static int64_t pick_register(GpuFn *f, const Access *a, const Layout *l, int64_t reg,
                             const Layout *picks) {
    int64_t x[MAX_RANK], found, thread;
    gpu_coord_numbers(l, reg, x);
    layout_find(picks, x + a->pick_at, &found, &thread);
    if (thread) ice(f->ctx, (Loc){0}, "picks that are spread over other threads");
    return found;
}

static LLVMValueRef pick_of(GpuFn *f, const Access *a, const BadLanes *s, int64_t reg,
                            const Value *v) {
    if (!v->type->rank) return gpu_scalar(f, v);
    return gpu_block(f, v)[pick_register(f, a, s->layout, reg, gpu_layout(f, v))];
}

static LLVMValueRef lane_along(GpuFn *f, const BadLanes *s, int64_t reg, int axis) {
    return LLVMBuildZExt(f->g->b, gpu_coord(f, s->layout, reg, axis), f->g->i64, "");
}

/// Returns whether all entries of the lane are valid: below the counts of their axes, and not
/// masked.
static LLVMValueRef valid_lane(GpuFn *f, const Op *op, const Access *a, const BadLanes *s,
                               int64_t reg) {
    const Gen *g = f->g;
    LLVMValueRef valid = NULL;
    for (int d = 0; d < a->n_subs; d++) {
        if (a->axis_of[d] < 0) continue;
        LLVMValueRef count = gpu_scalar(f, sub_operand(op, a, d, 1));
        LLVMValueRef lane = lane_along(f, s, reg, a->axis_of[d]);
        valid = gen_and(g, valid, LLVMBuildICmp(g->b, LLVMIntSLT, lane, count, ""));
    }
    return a->mask ? gen_and(g, valid, pick_of(f, a, s, reg, a->mask)) : valid;
}

/// Returns coordinate d of the lane, i64.
static LLVMValueRef lane_coordinate(GpuFn *f, const Op *op, const Access *a, const BadLanes *s,
                                    int64_t reg, int d) {
    const Gen *g = f->g;
    const Value *first = sub_operand(op, a, d, 0);
    if (a->subs[d].kind == DIM_AT)
        return gen_cast(g, first->type->elem, EL_I64, gpu_scalar(f, first));
    if (a->subs[d].kind == DIM_PICK)
        return gen_cast(g, first->type->elem, EL_I64, pick_of(f, a, s, reg, first));
    LLVMValueRef lane = lane_along(f, s, reg, a->axis_of[d]);
    lane = gen_mul(g, lane, gen_i64(g, a->subs[d].mul));
    return gen_add(g, gpu_scalar(f, first), lane);
}

static void check_lanes_dimension(GpuFn *f, const Op *op, const Access *a, const Layout *l, int d) {
    const Gen *g = f->g;
    BadLanes s = lanes_of(f, l);
    LLVMValueRef dim = gpu_tensor(f, a->tensor)->dims[d], wrong = gen_i64(g, 0);
    for (int64_t r = 0; r < lanes_registers(&s); r++) {
        LLVMValueRef x = lane_coordinate(f, op, a, &s, r, d), before = s.own;
        LLVMValueRef bad = LLVMBuildICmp(g->b, LLVMIntUGE, x, dim, "");
        bad = gen_and(g, bad, LLVMBuildICmp(g->b, LLVMIntNE, x, gen_i64(g, -1), ""));
        note_bad(f, &s, r, gen_and(g, valid_lane(f, op, a, &s, r), bad));
        LLVMValueRef changed = LLVMBuildICmp(g->b, LLVMIntNE, before, s.own, "");
        wrong = LLVMBuildSelect(g->b, changed, x, wrong, "");
    }
    LLVMValueRef on = find_first(f, &s), values[2] = {wrong, dim};
    on = gen_and(g, on,
                 l ? LLVMBuildICmp(g->b, LLVMIntEQ, s.own, s.first, "") : gpu_is_first_thread(f));
    const char *name = a->tensor->name ? a->tensor->name : "a tensor";
    const char *text =
        ctx_format(f->ctx, "index {} is outside dimension %d of `%s`, which is {}", d, name);
    record_values(f, gpu_add_site(f, op, TG_SITE_BOUNDS, text, "dd", 0), on, 2, values);
}

void gpu_check_access(GpuFn *f, const Op *op) {
    if (!f->options->check || !op_flag(op, A_CHECKED)) return;
    Access a = access_of(op);
    const Value *block = op->code == OP_LOAD ? result(op, 0) : a.value;
    const Attr *inside = op_ints(op, A_IN_BOUNDS);
    for (int d = 0; d < a.n_subs; d++)
        if (!inside || !inside->ints[d])
            check_lanes_dimension(f, op, &a, a.rank ? gpu_layout(f, block) : NULL, d);
}
