// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The builtins of the language: their table, lookup, and helpers for their arguments. The
// elementwise ops of lang/elementwise.def are builtins by their names.
#include "frontend/builtins/builtins_private.h"
#include "frontend/names.h"

#include <string.h>

static Val bi_elementwise(Elab *e, const Call *call) {
    return el_elementwise(e, call->loc, (OpCode)call->builtin->arg, call->builtin->name, call->n,
                          call->args);
}

/// isnan, isinf and isfinite are constants for integers, so generic code can call them.
static Val bi_classify(Elab *e, const Call *call) {
    const Type *t = val_type(call->args[0]);
    if (t && elem_is(t->elem, EC_INT)) return val_bool(call->builtin->arg == OP_ISFINITE);
    return bi_elementwise(e, call);
}

// { name, least and most positional arguments, their description, named arguments, flags, function,
// its datum, its meaning }
static const Builtin builtins[] = {
    // whole blocks
    {"reduce", 2, 2, "x, f", "axis order=fixed", 0, bi_reduce, 0,
     "folds a block, or a tuple of blocks, along an axis by an associative function"},
    {"scan", 2, 2, "x, f", "axis reverse exclusive", 0, bi_scan, 0, "running folds along an axis"},
    {"sort", 1, 1, "x", "axis descending", 0, bi_sort, 0,
     "sorts along an axis, stably; a tuple is ordered by its first block"},
    {"topk", 2, 2, "x, k", "axis", 0, bi_topk, 0,
     "the k greatest along an axis and their positions"},
    {"min", 1, 2, "a, b", "axis", 0, bi_min_max, OP_MIN,
     "the lesser of two, lane by lane; of one block the least element"},
    {"max", 1, 2, "a, b", "axis", 0, bi_min_max, OP_MAX,
     "the greater of two, lane by lane; of one block the greatest element"},
    {"isnan", 1, 1, "x", "", 0, bi_classify, OP_ISNAN, "whether the value is NaN"},
    {"isinf", 1, 1, "x", "", 0, bi_classify, OP_ISINF, "whether the value is infinite"},
    {"isfinite", 1, 1, "x", "", 0, bi_classify, OP_ISFINITE, "whether the value is finite"},
    {"dot", 2, 2, "a, b", "precision=ieee|tf32|tf32x3|fast", 0, bi_dot, 0,
     "the matrix product of <M, K> and <K, N>"},
    {"gather", 2, 2, "x, index", "axis", 0, bi_gather, 0,
     "picks along an axis; a position outside gives 0"},
    {"histogram", 2, 2, "x, n", "", 0, bi_histogram, 0,
     "counts how often each of 0 .. n - 1 occurs"},
    // shapes
    {"trans", 1, 1, "x", "", 0, bi_trans, 0, "exchanges the last two axes"},
    {"permute", 2, -1, "x, 1, 0, ...", "", 0, bi_permute, 0, "the axes in another order"},
    {"reshape", 2, -1, "x, 64, 32, ...", "", 0, bi_reshape, 0,
     "the same elements in row-major order, in another shape"},
    {"broadcast", 2, -1, "x, 64, 32, ...", "", 0, bi_broadcast, 0, "repeats axes of extent 1"},
    {"concat", 2, -1, "a, b, ...", "axis", 0, bi_concat, 0,
     "one block after the other along an axis"},
    {"iota", 1, 1, "n", "axis", 0, bi_iota, 0,
     "the numbers 0 .. n - 1; of a block, the numbers of the lanes along an axis"},
    {"bitcast", 2, 2, "x, i32", "", 0, bi_bitcast, 0, "the same bits as another element type"},
    {"bits", 1, 1, "x", "", 0, bi_bits, 0, "the bits as an unsigned integer of the same width"},
    {"bitsize", 1, 1, "x", "", 0, bi_bitsize, 0, "the bits of an element, a constant"},
    {"extent", 2, 2, "x, axis", "", 0, bi_extent, 0, "the extent of an axis, a constant"},
    {"isfloat", 1, 1, "x", "", 0, bi_isfloat, 0, "whether the elements are floats, a constant"},
    {"isint", 1, 1, "x", "", 0, bi_isint, 0, "whether the elements are integers, a constant"},
    // positions
    {"index", 1, 1, "range", "", 0, bi_index, 0, "the positions of a range, as a block"},
    {"valid", 1, 1, "range", "", 0, bi_valid, 0, "which positions lie inside"},
    {"present", 1, 1, "x", "", 0, bi_present, 0,
     "which elements do not lie past the end of a range"},
    {"range", 3, 3, "lo, hi, B", "", 0, bi_range, 0,
     "a range of B positions from lo on, live below hi"},
    {"cover", 1, 1, "N", "", 0, bi_cover, 0, "one range over all of 0 .. N - 1"},
    {"ceildiv", 2, 2, "a, b", "", 0, bi_ceildiv, 0, "a / b, rounded up"},
    {"stride", 2, 2, "tensor, dimension", "", BF_HOST, bi_stride, 0,
     "the stride of a tensor in elements"},
    {"align", 1, 1, "tensor", "", BF_HOST, bi_align, 0,
     "the greatest power of 2 that divides the address"},
    // effects
    {"combine", 3, 3, "c[i], v, add", "keep", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_combine, 0,
     "joins the contributions of programs by a function"},
    {"atomic_add", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM,
     "adds to an element and gives its old value"},
    {"atomic_max", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM,
     "raises an element and gives its old value"},
    {"atomic_min", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM,
     "lowers an element and gives its old value"},
    {"atomic_and", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_INT,
     "joins bits by and, and gives the old value"},
    {"atomic_or", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_INT,
     "joins bits by or, and gives the old value"},
    {"atomic_xor", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_INT,
     "joins bits by xor, and gives the old value"},
    {"atomic_xchg", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM,
     "replaces an element and gives its old value"},
    {"atomic_cas", 3, 3, "c[i], expected, v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic,
     EC_NUM, "replaces an element that equals `expected`, and gives its old value"},
    {"assert", 2, -1, "condition, \"text\", values ...", "", BF_EFFECT, bi_assert, 0,
     "fails the launch under --check if the condition is false"},
    {"print", 1, -1, "values ...", "", BF_EFFECT, bi_print, 0, "prints texts, scalars and blocks"},
    // several ranks: OpenSHMEM's
    {"my_pe", 0, 0, "", "", 0, bi_my_pe, 0, "the own rank"},
    {"n_pes", 0, 0, "", "", 0, bi_n_pes, 0, "the number of ranks"},
    {"put", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_put, 0,
     "stores in a rank's shard"},
    {"put_nbi", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_put, 0,
     "stores in a rank's shard; it has arrived after quiet()"},
    {"get", 1, 1, "c[r][i]", "", BF_PLACE | BF_PROGRAM, bi_get, 0, "reads from a rank's shard"},
    {"get_nbi", 1, 1, "c[r][i]", "", BF_PLACE | BF_PROGRAM, bi_get, 0, "reads from a rank's shard"},
    {"put_signal", 4, 4, "c[r][i], v, s[r][j], x", "op=set|add",
     BF_EFFECT | BF_PLACE | BF_SIGNAL | BF_PROGRAM, bi_put_signal, 0,
     "stores in a rank's shard, then raises a signal there"},
    {"put_signal_nbi", 4, 4, "c[r][i], v, s[r][j], x", "op=set|add",
     BF_EFFECT | BF_PLACE | BF_SIGNAL | BF_PROGRAM, bi_put_signal, 0,
     "as put_signal; the data has arrived when the signal has"},
    {"signal_op", 2, 2, "s[r][j], x", "op=set|add", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_signal_op,
     0, "raises a signal after all earlier writes of this program"},
    {"signal_wait_until", 3, 3, "s[rank][j], ge, x", "peer", BF_EFFECT | BF_PLACE | BF_PROGRAM,
     bi_signal_wait, 0, "waits until a signal compares with a value"},
    {"atomic_set", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM,
     "replaces an element"},
    {"atomic_fetch", 1, 1, "c[r][i]", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM,
     "reads an element atomically"},
    {"atomic_swap", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM,
     "replaces an element and gives its old value"},
    {"atomic_compare_swap", 3, 3, "c[r][i], expected, v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM,
     bi_atomic, EC_NUM, "replaces an element that equals `expected`, and gives its old value"},
    {"atomic_inc", 1, 1, "c[r][i]", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM,
     "adds 1 to an element"},
    {"atomic_fetch_inc", 1, 1, "c[r][i]", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM,
     "adds 1 to an element and gives its old value"},
    {"atomic_fetch_add", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic,
     EC_NUM, "adds to an element and gives its old value"},
    {"atomic_fetch_and", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic,
     EC_INT, "joins bits by and, and gives the old value"},
    {"atomic_fetch_or", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic,
     EC_INT, "joins bits by or, and gives the old value"},
    {"atomic_fetch_xor", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic,
     EC_INT, "joins bits by xor, and gives the old value"},
    {"fence", 0, 0, "", "", BF_EFFECT | BF_PROGRAM, bi_fence, 0,
     "orders earlier puts before later ones"},
    {"quiet", 0, 0, "", "", BF_EFFECT | BF_PROGRAM, bi_fence, 1,
     "waits until all earlier puts have arrived"},
    {"barrier_all", 0, 0, "", "", BF_EFFECT | BF_HOST, bi_barrier_all, 0, "waits for all ranks"},
#define EW(id, name, n, classes, traits, cost, s, u, f, doc)                                       \
    {name, n, n, "", "", 0, bi_elementwise, OP_##id, doc},
#include "lang/elementwise.def"
};

enum { N_BUILTINS = sizeof builtins / sizeof *builtins };

/// Finds a builtin by name. The first row of a name wins: `min` and similar rows precede the
/// elementwise ops of that name.
const Builtin *builtin_by_name(const char *name) {
    for (int i = 0; i < N_BUILTINS; i++)
        if (strcmp(builtins[i].name, name) == 0) return &builtins[i];
    return NULL;
}

int builtin_names(Ctx *ctx, const char *const **names) {
    const char **all = ctx_array(ctx, const char *, N_BUILTINS);
    for (int i = 0; i < N_BUILTINS; i++) all[i] = builtins[i].name;
    *names = all;
    return N_BUILTINS;
}

/// "a, b" of an elementwise op, whose row has no names of operands.
static const char *elementwise_args(int n) {
    static const char *const args[] = {"", "a", "a, b", "a, b, c"};
    return args[n <= 3 && n >= 0 ? n : 0];
}

int builtin_texts(Ctx *ctx, const BuiltinText **out) {
    BuiltinText *all = ctx_array(ctx, BuiltinText, N_BUILTINS);
    int n = 0;
    for (int i = 0; i < N_BUILTINS; i++) {
        const Builtin *b = &builtins[i];
        if (builtin_by_name(b->name) != b) continue;
        const char *args = b->apply == bi_elementwise ? elementwise_args(b->min_args) : b->args;
        all[n++] = (BuiltinText){b->name, args, b->named, b->meaning};
    }
    *out = all;
    return n;
}

/* ---- arguments ----------------------------------------------------------------------------- */

Val bad_argument(Elab *e, const Call *call, int i, const char *wanted) {
    return el_fail(e, call->locs[i], D_ARGUMENT, i + 1, call->builtin->name, wanted,
                   val_text(e, call->args[i]));
}

Value *arg_block(Elab *e, const Call *call, int i, int min_rank, int classes, const char *wanted) {
    Val v = el_value(e, call->locs[i], call->args[i]);
    if (val_is(v, V_ERROR)) return NULL;
    Value *x = min_rank == 0    ? el_typed(e, call->locs[i], v, EL_COUNT)
               : v.kind == V_IR ? v.ir.v
                                : NULL;
    if (!x || x->type->rank < min_rank || !elem_is(x->type->elem, classes)) {
        bad_argument(e, call, i, wanted);
        return NULL;
    }
    return x;
}

bool arg_axis(Elab *e, const Call *call, int named, int rank, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    if (val_is(call->named[named], V_ABSENT)) return true;
    return el_axis(e, call->named_locs[named], call->named[named], rank, out);
}

bool arg_flag(Elab *e, const Call *call, int named, bool *out) {
    *out = false;
    if (val_is(call->named[named], V_ABSENT)) return true;
    return el_const_bool(e, call->named_locs[named], call->named[named], "this option", out);
}

Elem wide_elem(Elem e) {
    return elem_is(e, EC_FLOAT) && elem_info[e].bits < 32 ? EL_F32 : e;
}
