// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The builtins of the language: their table, lookup, and helpers for their arguments. The
// elementwise ops of lang/elementwise.def are builtins by their names.
#include "frontend/builtins/builtins_private.h"

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
// its datum }
static const Builtin builtins[] = {
    // whole blocks
    {"reduce", 2, 2, "x, f", "axis order=fixed", 0, bi_reduce, 0},
    {"scan", 2, 2, "x, f", "axis reverse exclusive", 0, bi_scan, 0},
    {"sort", 1, 1, "x", "axis descending", 0, bi_sort, 0},
    {"topk", 2, 2, "x, k", "axis", 0, bi_topk, 0},
    {"min", 1, 2, "a, b", "axis", 0, bi_min_max, OP_MIN},
    {"max", 1, 2, "a, b", "axis", 0, bi_min_max, OP_MAX},
    {"isnan", 1, 1, "x", "", 0, bi_classify, OP_ISNAN},
    {"isinf", 1, 1, "x", "", 0, bi_classify, OP_ISINF},
    {"isfinite", 1, 1, "x", "", 0, bi_classify, OP_ISFINITE},
    {"dot", 2, 2, "a, b", "precision=ieee|tf32|tf32x3|fast", 0, bi_dot, 0},
    {"gather", 2, 2, "x, index", "axis", 0, bi_gather, 0},
    {"histogram", 2, 2, "x, n", "", 0, bi_histogram, 0},
    // shapes
    {"trans", 1, 1, "x", "", 0, bi_trans, 0},
    {"permute", 2, -1, "x, 1, 0, ...", "", 0, bi_permute, 0},
    {"reshape", 2, -1, "x, 64, 32, ...", "", 0, bi_reshape, 0},
    {"broadcast", 2, -1, "x, 64, 32, ...", "", 0, bi_broadcast, 0},
    {"concat", 2, -1, "a, b, ...", "axis", 0, bi_concat, 0},
    {"iota", 1, 1, "n", "axis", 0, bi_iota, 0},
    {"bitcast", 2, 2, "x, i32", "", 0, bi_bitcast, 0},
    {"extent", 2, 2, "x, axis", "", 0, bi_extent, 0},
    {"isfloat", 1, 1, "x", "", 0, bi_isfloat, 0},
    {"isint", 1, 1, "x", "", 0, bi_isint, 0},
    // positions
    {"index", 1, 1, "range", "", 0, bi_index, 0},
    {"valid", 1, 1, "range", "", 0, bi_valid, 0},
    {"present", 1, 1, "x", "", 0, bi_present, 0},
    {"range", 3, 3, "lo, hi, B", "", 0, bi_range, 0},
    {"cover", 1, 1, "N", "", 0, bi_cover, 0},
    {"ceildiv", 2, 2, "a, b", "", 0, bi_ceildiv, 0},
    {"stride", 2, 2, "tensor, dimension", "", BF_HOST, bi_stride, 0},
    {"align", 1, 1, "tensor", "", BF_HOST, bi_align, 0},
    // effects
    {"combine", 3, 3, "c[i], v, add", "keep", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_combine, 0},
    {"atomic_add", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM},
    {"atomic_max", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM},
    {"atomic_min", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM},
    {"atomic_and", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_INT},
    {"atomic_or", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_INT},
    {"atomic_xor", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_INT},
    {"atomic_xchg", 2, 2, "c[i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM},
    {"atomic_cas", 3, 3, "c[i], expected, v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic,
     EC_NUM},
    {"assert", 2, -1, "condition, \"text\", values ...", "", BF_EFFECT, bi_assert, 0},
    {"print", 1, -1, "values ...", "", BF_EFFECT, bi_print, 0},
    // several ranks: OpenSHMEM's
    {"my_pe", 0, 0, "", "", 0, bi_my_pe, 0},
    {"n_pes", 0, 0, "", "", 0, bi_n_pes, 0},
    {"put", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_put, 0},
    {"put_nbi", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_put, 0},
    {"get", 1, 1, "c[r][i]", "", BF_PLACE | BF_PROGRAM, bi_get, 0},
    {"get_nbi", 1, 1, "c[r][i]", "", BF_PLACE | BF_PROGRAM, bi_get, 0},
    {"put_signal", 4, 4, "c[r][i], v, s[r][j], x", "op=set|add",
     BF_EFFECT | BF_PLACE | BF_SIGNAL | BF_PROGRAM, bi_put_signal, 0},
    {"put_signal_nbi", 4, 4, "c[r][i], v, s[r][j], x", "op=set|add",
     BF_EFFECT | BF_PLACE | BF_SIGNAL | BF_PROGRAM, bi_put_signal, 0},
    {"signal_op", 2, 2, "s[r][j], x", "op=set|add", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_signal_op,
     0},
    {"signal_wait_until", 3, 3, "s[rank][j], ge, x", "peer", BF_EFFECT | BF_PLACE | BF_PROGRAM,
     bi_signal_wait, 0},
    {"atomic_set", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM},
    {"atomic_fetch", 1, 1, "c[r][i]", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM},
    {"atomic_swap", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM},
    {"atomic_compare_swap", 3, 3, "c[r][i], expected, v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM,
     bi_atomic, EC_NUM},
    {"atomic_inc", 1, 1, "c[r][i]", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM},
    {"atomic_fetch_inc", 1, 1, "c[r][i]", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic, EC_NUM},
    {"atomic_fetch_add", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic,
     EC_NUM},
    {"atomic_fetch_and", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic,
     EC_INT},
    {"atomic_fetch_or", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic,
     EC_INT},
    {"atomic_fetch_xor", 2, 2, "c[r][i], v", "", BF_EFFECT | BF_PLACE | BF_PROGRAM, bi_atomic,
     EC_INT},
    {"fence", 0, 0, "", "", BF_EFFECT | BF_PROGRAM, bi_fence, 0},
    {"quiet", 0, 0, "", "", BF_EFFECT | BF_PROGRAM, bi_fence, 1},
    {"barrier_all", 0, 0, "", "", BF_EFFECT | BF_HOST, bi_barrier_all, 0},
#define EW(id, name, n, classes, traits, cost, s, u, f, doc)                                       \
    {name, n, n, "", "", 0, bi_elementwise, OP_##id},
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
