// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and stores of global memory. Accesses without a mask are plain LLVM instructions, the
// others are rows of portable.def.
#include "backends/gpu/access.h"
#include "backends/gpu/ops.h"

/* ---- memory forms -------------------------------------------------------------------------- */

/// An access of `bytes` bytes: the suffix of its rows, and its number of values: 32-bit words, or
/// one of 16 bits.
typedef struct MemoryForm {
    const char *suffix;
    int n;
    LLVMTypeRef type;
} MemoryForm;

static MemoryForm memory_form(const Gen *g, int bytes) {
    switch (bytes) {
    case 1: return (MemoryForm){"b8", 1, g->i16};
    case 2: return (MemoryForm){"b16", 1, g->i16};
    case 4: return (MemoryForm){"b32", 1, g->i32};
    case 8: return (MemoryForm){"b32x2", 2, g->i32};
    default: return (MemoryForm){"b32x4", 4, g->i32};
    }
}

/// Returns the type that an LLVM instruction moves.
static LLVMTypeRef plain_type(const Gen *g, int bytes) {
    if (bytes < 4) return bytes == 1 ? g->i8 : g->i16;
    return bytes == 4 ? g->i32 : LLVMVectorType(g->i32, (unsigned)bytes / 4);
}

static LLVMValueRef widen_word(const Gen *g, LLVMValueRef x) {
    return LLVMTypeOf(x) == g->i32 ? x : LLVMBuildZExt(g->b, x, g->i32, "");
}

static LLVMValueRef narrow_word(const Gen *g, LLVMValueRef x, LLVMTypeRef type) {
    return type == g->i32 ? x : LLVMBuildTrunc(g->b, x, type, "");
}

/* ---- loads --------------------------------------------------------------------------------- */

// The `cache` of a subscript, in the spelling of the load.global rows.
static const char *cache_row(const GpuAccess *p) {
    static const char *const rows[] = {[CACHING_ABSENT] = "",
                                       [CACHING_ALL] = "",
                                       [CACHING_LAST] = ".last",
                                       [CACHING_FIRST] = ".first",
                                       [CACHING_NONE] = ".stream"};
    return rows[op_caching(p->op)];
}

static bool follows_load(const Value *v, int depth) {
    if (!v->def || v->def->n_regions || depth == 0) return false;
    if (v->def->code == OP_LOAD) return true;
    for (int i = 0; i < v->def->n_operands; i++)
        if (follows_load(operand(v->def, i), depth - 1)) return true;
    return false;
}

/// Whether each thread loads one element at an address that was loaded as well, for instance a
/// row's label: two latencies in sequence.
static bool is_lookup(const GpuAccess *p) {
    enum { FEW_OPS = 6 };
    bool found = false;
    for (int i = 1; i < p->op->n_operands; i++) found |= follows_load(operand(p->op, i), FEW_OPS);
    return found && gpu_access_registers(p) == 1;
}

/// Memory that nothing writes during the kernel may be read at any time, and more than once. An
/// assembler moves such a read to its use, even past barriers, and waits there. So lookups are
/// excluded, because their latency should be hidden.
static bool may_move_load(const GpuAccess *p) {
    return !p->tensor->written && !is_lookup(p);
}

/// Read-only caches do not see writes of this kernel.
static const char *coherence_suffix(const GpuAccess *p) {
    return may_move_load(p) ? ".nc" : "";
}

static void mark_invariant(const Gen *g, LLVMValueRef load) {
    unsigned kind = LLVMGetMDKindIDInContext(g->llvm, "invariant.load", 14);
    LLVMMetadataRef none = LLVMMDNodeInContext2(g->llvm, NULL, 0);
    LLVMSetMetadata(load, kind, LLVMMetadataAsValue(g->llvm, none));
}

static void read_plain(GpuAccess *p, LLVMValueRef at, int bytes, LLVMValueRef *words) {
    GpuFn *f = p->f;
    Gen *g = f->g;
    LLVMValueRef x = LLVMBuildLoad2(g->b, plain_type(g, bytes), at, "");
    LLVMSetAlignment(x, (unsigned)bytes);
    if (may_move_load(p)) mark_invariant(g, x);
    if (bytes <= 4) words[0] = widen_word(g, x);
    for (int i = 0; i < bytes / 4 && bytes > 4; i++)
        words[i] = LLVMBuildExtractElement(g->b, x, gpu_i32(f, i), "");
}

void gpu_access_read(GpuAccess *p, LLVMValueRef at, int bytes, LLVMValueRef on, LLVMValueRef pad,
                     LLVMValueRef *words) {
    GpuFn *f = p->f;
    Gen *g = f->g;
    const char *cache = cache_row(p);
    if (!on && !*cache) {
        read_plain(p, at, bytes, words);
        return;
    }
    MemoryForm form = memory_form(g, bytes);
    LLVMValueRef args[2 + MAX_WORDS] = {at, on ? on : gpu_true(f)};
    for (int i = 0; i < form.n; i++) args[2 + i] = narrow_word(g, pad, form.type);
    const char *name =
        ctx_format(f->ctx, "tg.load.global%s%s.%s", coherence_suffix(p), cache, form.suffix);
    LLVMValueRef x = portable_call(g, name, 2 + form.n, args);
    if (form.n == 1) words[0] = widen_word(g, x);
    for (int i = 0; i < form.n && form.n > 1; i++)
        words[i] = LLVMBuildExtractValue(g->b, x, (unsigned)i, "");
}

/// Returns a word with the pad in all its elements. Elements wider than a word have two different
/// words, so a later select applies pads other than 0.
static LLVMValueRef pad_word(const GpuAccess *p, LLVMValueRef pad) {
    LLVMValueRef same[4] = {pad, pad, pad, pad}, word;
    int each = 4 / elem_bytes(p->elem);
    if (!each) return gpu_i32(p->f, 0);
    gpu_to_words(p->f, p->elem, each, same, &word);
    return word;
}

/// Reads under a buffer's bound. Elements beyond it read 0.
static void read_near(GpuAccess *p, int64_t reg, int bytes, LLVMValueRef *words) {
    GpuFn *f = p->f;
    MemoryForm form = memory_form(f->g, bytes);
    LLVMValueRef args[4] = {p->tensor->data, gpu_access_bound(p)};
    gpu_access_near(p, reg, bytes, NULL, args + 2);
    const char *name = ctx_format(f->ctx, "tg.load.buffer%s.%s", coherence_suffix(p), form.suffix);
    LLVMValueRef x = portable_call(f->g, name, 4, args);
    if (form.n == 1) words[0] = widen_word(f->g, x);
    for (int i = 0; i < form.n && form.n > 1; i++)
        words[i] = LLVMBuildExtractValue(f->g->b, x, (unsigned)i, "");
}

static void load_gpu_vector(GpuAccess *p, int64_t reg, int n, LLVMValueRef pad, LLVMValueRef *out) {
    GpuFn *f = p->f;
    Gen *g = f->g;
    LLVMValueRef words[MAX_WORDS];
    if (LLVMIsNull(pad) && !*cache_row(p) && gpu_access_is_near(p)) {
        read_near(p, reg, elem_bytes(p->elem) * n, words);
        gpu_from_words(f, p->elem, n, words, out);
        return;
    }
    LLVMValueRef on = gpu_access_live(p, reg), at = gpu_access_address(p, reg);
    if (n == 1 && !on) {
        LLVMValueRef x = LLVMBuildLoad2(g->b, gen_mem_elem(g, p->elem), at, "");
        LLVMSetAlignment(x, (unsigned)elem_bytes(p->elem));
        if (may_move_load(p)) mark_invariant(g, x);
        out[0] = gen_from_memory(g, p->elem, x);
        return;
    }
    int bytes = elem_bytes(p->elem) * n;
    gpu_access_read(p, at, bytes, on, pad_word(p, pad), words);
    gpu_from_words(f, p->elem, n, words, out);
    bool chosen = on && elem_bytes(p->elem) == 8 && !LLVMIsNull(pad);
    for (int i = 0; i < n && chosen; i++) out[i] = LLVMBuildSelect(g->b, on, out[i], pad, "");
}

/* ---- several loads ------------------------------------------------------------------------- */

// Nearby loads are emitted together. They share the branch between vectors and single elements, and
// all are in flight before the first value is needed.
enum { MAX_GROUP = 6, GROUP_WORDS = 16, GROUP_REACH = 64 };

/// A load in progress. Control flow joins its slots: the words of vectors of small elements, else
/// the registers.
typedef struct GpuLoad {
    GpuAccess *p;
    const Value *value;
    LLVMValueRef pad;
    bool packed;
    int n_slots;
    LLVMValueRef *slots;
} GpuLoad;

static int words_of_vector(const GpuAccess *p) {
    return ceil_div(elem_bytes(p->elem) << p->vec_bits, 4);
}

static GpuLoad start_load(GpuFn *f, const Op *op) {
    GpuLoad l = {.p = gpu_access(f, op), .value = result(op, 0)};
    GpuAccess *p = l.p;
    l.pad = gpu_scalar(f, p->a.pad);
    l.packed = p->vec_bits && elem_bytes(p->elem) < 4;
    l.n_slots = gpu_access_registers(p);
    if (l.packed) l.n_slots = (l.n_slots >> p->vec_bits) * words_of_vector(p);
    l.slots = ctx_array(f->ctx, LLVMValueRef, l.n_slots);
    return l;
}

/// Loads one vector's registers by accesses of 2^bits elements.
static void load_pieces(const GpuLoad *l, int64_t first, int bits, LLVMValueRef *out) {
    GpuAccess *p = l->p;
    LLVMValueRef x[MAX_VECTOR];
    bool never = gpu_access_never(p, first);
    for (int i = 0; i < 1 << p->vec_bits; i += 1 << bits) {
        if (!never) load_gpu_vector(p, gpu_access_vector(p, first, i), 1 << bits, l->pad, x);
        for (int j = 0; j < 1 << bits; j++) out[i + j] = never ? l->pad : x[j];
    }
}

static void load_slots(const GpuLoad *l, int bits, LLVMValueRef *slots) {
    GpuAccess *p = l->p;
    LLVMValueRef x[MAX_VECTOR];
    for (int r = 0; r < gpu_access_registers(p); r++) {
        if (!gpu_access_starts(p, p->vec_bits, r)) continue;
        load_pieces(l, r, bits, x);
        if (l->packed) slots += gpu_to_words(p->f, p->elem, 1 << p->vec_bits, x, slots);
        for (int j = 0; j < 1 << p->vec_bits && !l->packed; j++)
            slots[gpu_access_vector(p, r, j)] = x[j];
    }
}

static void end_load(const GpuLoad *l) {
    GpuAccess *p = l->p;
    LLVMValueRef *out = gpu_new_block(p->f, l->value), *slots = l->slots, x[MAX_VECTOR];
    for (int r = 0; r < gpu_access_registers(p); r++) {
        if (!l->packed) out[r] = l->slots[r];
        if (!l->packed || !gpu_access_starts(p, p->vec_bits, r)) continue;
        gpu_from_words(p->f, p->elem, 1 << p->vec_bits, slots, x);
        slots += words_of_vector(p);
        for (int j = 0; j < 1 << p->vec_bits; j++) out[gpu_access_vector(p, r, j)] = x[j];
    }
}

/// Emits loads with conditions under one branch: vectors if all conditions hold, else single
/// elements.
static void run_load_branch(GpuFn *f, GpuLoad *loads, int n, LLVMValueRef whole) {
    LLVMValueRef *yes[MAX_GROUP];
    AccessMark marks[MAX_GROUP];
    for (int i = 0; i < n; i++) marks[i] = gpu_access_mark(loads[i].p);
    GpuIf branch = gpu_if(f, whole);
    for (int i = 0; i < n; i++) {
        yes[i] = ctx_array(f->ctx, LLVMValueRef, loads[i].n_slots);
        load_slots(&loads[i], loads[i].p->vec_bits, yes[i]);
        gpu_access_rewind(loads[i].p, &marks[i]);
    }
    gpu_else(f, &branch);
    for (int i = 0; i < n; i++) load_slots(&loads[i], 0, loads[i].slots);
    gpu_end_if(f, &branch);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < loads[i].n_slots; k++)
            loads[i].slots[k] = gpu_phi(f, &branch, yes[i][k], loads[i].slots[k]);
}

static void run_loads(GpuFn *f, GpuLoad *loads, int n) {
    GpuLoad mixed[MAX_GROUP];
    LLVMValueRef whole = NULL;
    int n_mixed = 0;
    for (int i = 0; i < n; i++) {
        if (!loads[i].p->whole) {
            load_slots(&loads[i], loads[i].p->vec_bits, loads[i].slots);
            continue;
        }
        whole = gen_and(f->g, whole, loads[i].p->whole);
        mixed[n_mixed++] = loads[i];
    }
    if (n_mixed) run_load_branch(f, mixed, n_mixed, whole);
    for (int i = 0; i < n; i++) end_load(&loads[i]);
}

static bool is_whole_bytes(const Op *op) {
    return elem_info[result(op, 0)->type->elem].bits >= 8;
}

/// Whether the op is a load that may be emitted now, long before its position.
static bool may_come_early(GpuFn *f, const Op *op) {
    if (op->code != OP_LOAD || !result(op, 0)->type->rank || !is_whole_bytes(op)) return false;
    for (int i = 0; i < op->n_operands; i++)
        if (!map_get(&f->values, operand(op, i))) return false;
    return true;
}

/// Whether an op may stand between loads that are emitted together. It must have no effect, and
/// must not be a meeting of all threads, which would lengthen the lives of the loaded registers.
static bool may_stand_between(const Op *op) {
    if (op->code == OP_LOAD || op_has(op, ELEMENTWISE)) return true;
    switch (op->code) {
    case OP_CONVERT:
    case OP_REDUCE:
    case OP_SCAN:
    case OP_SORT:
    case OP_GATHER:
    case OP_HISTOGRAM:
    case OP_DOT: return false;
    default: return op_has(op, PURE) && !op->n_regions;
    }
}

static int words_of_load(const Op *op) {
    const Type *t = result(op, 0)->type;
    return gpu_registers(t) * elem_bytes(t->elem) / 4;
}

/// Finds the loads after op that may be emitted with it.
static int find_load_group(GpuFn *f, Op *op, Op **group) {
    int n = 1, words = 0, reach = GROUP_REACH;
    group[0] = op;
    for (Op *next = op->next; next && n < MAX_GROUP && reach--; next = next->next) {
        if (!may_stand_between(next)) break;
        if (!may_come_early(f, next)) continue;
        words += words_of_load(next);
        if (words > GROUP_WORDS) break; // they occupy registers earlier
        group[n++] = next;
    }
    return n;
}

void gpu_lower_load(GpuFn *f, Op *op) {
    Op *group[MAX_GROUP];
    GpuLoad loads[MAX_GROUP];
    if (map_get(&f->values, result(op, 0))) return; // emitted early with a group
    gpu_order_access(f, op);
    if (f->options->check) gpu_check_access(f, op);
    if (!is_whole_bytes(op)) {
        GpuAccess *p = gpu_access(f, op);
        gpu_load_nibbles(p, gpu_scalar(f, p->a.pad), gpu_new_block(f, result(op, 0)));
        return;
    }
    int n = f->options->check ? 1 : find_load_group(f, op, group);
    group[0] = op;
    for (int i = 1; i < n; i++) gpu_order_access(f, group[i]);
    // All of them come after a barrier that one of them needs, so the next barrier orders them.
    for (int i = 0; i < n; i++) gpu_order_access(f, group[i]);
    for (int i = 0; i < n; i++) loads[i] = start_load(f, group[i]);
    run_loads(f, loads, n);
}

/* ---- stores -------------------------------------------------------------------------------- */

static void write_plain_store(GpuAccess *p, LLVMValueRef at, int bytes, LLVMValueRef *words) {
    GpuFn *f = p->f;
    Gen *g = f->g;
    LLVMTypeRef type = plain_type(g, bytes);
    LLVMValueRef v = bytes <= 4 ? narrow_word(g, words[0], type) : LLVMGetUndef(type);
    for (int i = 0; i < bytes / 4 && bytes > 4; i++)
        v = LLVMBuildInsertElement(g->b, v, words[i], gpu_i32(f, i), "");
    LLVMSetAlignment(LLVMBuildStore(g->b, v, at), (unsigned)bytes);
}

void gpu_access_write(GpuAccess *p, LLVMValueRef at, int bytes, LLVMValueRef on,
                      LLVMValueRef *words) {
    Gen *g = p->f->g;
    if (!on) {
        write_plain_store(p, at, bytes, words);
        return;
    }
    MemoryForm form = memory_form(g, bytes);
    LLVMValueRef args[2 + MAX_WORDS] = {at, on};
    for (int i = 0; i < form.n; i++) args[2 + i] = narrow_word(g, words[i], form.type);
    const char *name = ctx_format(p->f->ctx, "tg.store.global.%s", form.suffix);
    portable_call(g, name, 2 + form.n, args);
}

/// Elements beyond the bound are not written.
static void write_near(GpuAccess *p, int64_t reg, int bytes, LLVMValueRef owner,
                       LLVMValueRef *words) {
    GpuFn *f = p->f;
    MemoryForm form = memory_form(f->g, bytes);
    LLVMValueRef args[4 + MAX_WORDS] = {p->tensor->data, gpu_access_bound(p)};
    gpu_access_near(p, reg, bytes, owner, args + 2);
    for (int i = 0; i < form.n; i++) args[4 + i] = narrow_word(f->g, words[i], form.type);
    const char *name = ctx_format(f->ctx, "tg.store.buffer.%s", form.suffix);
    portable_call(f->g, name, 4 + form.n, args);
}

/// Programs of other ranks wait for this word.
static void store_raised_word(GpuAccess *p, int64_t reg, LLVMValueRef x, LLVMValueRef owner) {
    LLVMValueRef on = gen_and(p->f->g, gpu_access_live(p, reg), owner);
    gpu_call(p->f, "tg.signal.put", 3, gpu_access_address(p, reg), on ? on : gpu_true(p->f), x);
}

static void store_vector(GpuAccess *p, int64_t reg, int n, LLVMValueRef *x, LLVMValueRef owner) {
    Gen *g = p->f->g;
    LLVMValueRef words[MAX_WORDS];
    if (op_flag(p->op, A_SYSTEM)) {
        store_raised_word(p, reg, x[0], owner);
        return;
    }
    if (gpu_access_is_near(p)) {
        gpu_to_words(p->f, p->elem, n, x, words);
        write_near(p, reg, elem_bytes(p->elem) * n, owner, words);
        return;
    }
    LLVMValueRef on = gen_and(g, gpu_access_live(p, reg), owner), at = gpu_access_address(p, reg);
    if (n == 1 && !on) {
        LLVMValueRef s = LLVMBuildStore(g->b, gen_to_memory(g, p->elem, x[0]), at);
        LLVMSetAlignment(s, (unsigned)elem_bytes(p->elem));
        return;
    }
    gpu_to_words(p->f, p->elem, n, x, words);
    gpu_access_write(p, at, elem_bytes(p->elem) * n, on, words);
}

LLVMValueRef gpu_access_owner(const GpuAccess *p) {
    GpuFn *f = p->f;
    if (p->layout) return gpu_owner(f, p->layout);
    return gpu_is_first_thread(f);
}

static void store_block_registers(GpuAccess *p, int bits, void *data, LLVMValueRef *out) {
    LLVMValueRef owner = data, *regs = gpu_block(p->f, p->a.value), x[MAX_VECTOR];
    int n = 1 << bits;
    (void)out;
    for (int r = 0; r < gpu_access_registers(p); r++) {
        if (!gpu_access_starts(p, bits, r) || gpu_access_never(p, r)) continue;
        for (int j = 0; j < n; j++) x[j] = regs[gpu_access_vector(p, r, j)];
        store_vector(p, r, n, x, owner);
    }
}

void gpu_lower_store(GpuFn *f, Op *op) {
    gpu_order_access(f, op);
    if (f->options->check) gpu_check_access(f, op);
    GpuAccess *p = gpu_access(f, op);
    LLVMValueRef owner = gpu_access_owner(p);
    if (elem_info[p->elem].bits < 8)
        gpu_store_nibbles(p, gpu_block(f, p->a.value), owner);
    else
        gpu_access_each(p, store_block_registers, owner, NULL);
}
