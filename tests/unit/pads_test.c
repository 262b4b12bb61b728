// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// No op lets the contents of lanes past the end of a range change a result, unless the pass `pads`
// warns.
//
// Each op that computes on blocks is tried on reads of 5 elements in blocks of 8, with several
// pads. If two pads give different results, one of them must have raised a warning. The compared
// result is the block itself, along the same range or all of it, and for lane-wise ops also its
// folds. An op of the table without a trial fails the test, so a new op cannot be forgotten.
#include "ir/interp/interp.h"
#include "passes/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LANES = 8, LIVE = 5, MAX_OUT = 64 };

/* ---- trials of ops ------------------------------------------------------------------------- */

/// %a and %b are padded blocks of 8 elements, and %o is a full one. The code makes %r of type `to`.
/// `along`: %r is compared along the range; otherwise all of it. An op may have several rows.
typedef struct Trial {
    OpCode op;
    const char *elem, *code, *to;
    bool along;
} Trial;

#define FOLD(f) "(%p: f32, %q: f32)\n %m = " f " %p, %q : f32\n yield %m }"
#define BEST                                                                                       \
    "{(%p: f32, %i: i64, %q: f32, %j: i64)\n %t = gt %q, %p : bool\n %v = select %t, %q, %p : "    \
    "f32\n"                                                                                        \
    " %k = select %t, %j, %i : i64\n yield %v, %k }"

static const Trial trials[] = {
    {OP_LOAD, "f32", "%r = load %x, %pad, %zero, %count [subs=(axis 8)] : f32<8>", "f32<8>", true},
    {OP_BROADCAST, "f32", "%h = reshape %a : f32<1x8>\n %r = broadcast %h : f32<2x8>", "f32<2x8>",
     true},
    {OP_RESHAPE, "f32", "%h = reshape %a : f32<2x4>\n %r = reshape %h : f32<8>", "f32<8>", true},
    {OP_RESHAPE, "f32",
     "%h = reshape %a : f32<2x4>\n %r = reduce %h [axis=1] : f32<2> {" FOLD("add"), "f32<2>",
     false},
    {OP_PERMUTE, "f32",
     "%h = reshape %a : f32<1x8>\n %k = permute %h [perm=[1, 0]] : f32<8x1>\n %r = reshape %k : "
     "f32<8>",
     "f32<8>", true},
    {OP_SLICE, "f32", "%r = slice %a [start=[0]] : f32<5>", "f32<5>", false},
    {OP_CONCAT, "f32",
     "%h = concat %a, %b [axis=0] : f32<16>\n %r = reduce %h [axis=0] : f32 {" FOLD("max"), "f32",
     false},
    {OP_CAST, "f32", "%h = cast %a : i32<8>\n %r = cast %h : f32<8>", "f32<8>", true},
    {OP_BITCAST, "f32",
     "%h = bitcast %a : i32<8>\n %r = reduce %h [axis=0] : i32 {(%p: i32, %q: i32)\n %m = max %p, "
     "%q : i32\n"
     " yield %m }",
     "i32", false},
    {OP_SELECT, "f32",
     "%c = lt %a, %o : bool<8>\n %h = select %c, %a, %b : f32<8>\n %r = reduce %h [axis=0] : f32 "
     "{" FOLD("add"),
     "f32", false},
    {OP_REDUCE, "f32", "%r = reduce %a [axis=0] : f32 {" FOLD("add"), "f32", false},
    {OP_REDUCE, "f32", "%r = reduce %a [axis=0] : f32 {" FOLD("mul"), "f32", false},
    {OP_REDUCE, "f32", "%r = reduce %a [axis=0] : f32 {" FOLD("max"), "f32", false},
    {OP_REDUCE, "f32", "%r = reduce %a [axis=0] : f32 {" FOLD("min"), "f32", false},
    {OP_REDUCE, "f32", "%r = reduce %a [axis=0] : f32 {" FOLD("hypot"), "f32", false},
    {OP_REDUCE, "f32", "%n = iota : i64<8>\n %v, %r = reduce %a, %n [axis=0] : f32, i64 " BEST,
     "i64", false},
    {OP_REDUCE, "f32",
     "%h = reshape %a : f32<1x8>\n %k = reduce %h [axis=0] : f32<8> {" FOLD(
         "add") "\n %r = reduce %k [axis=0] : f32 {(%x1: f32, %x2: f32)\n %x3 = max %x1, %x2 : "
                "f32\n yield %x3 }",
     "f32", false},
    {OP_SCAN, "f32", "%r = scan %a [axis=0] : f32<8> {" FOLD("add"), "f32<8>", true},
    {OP_SCAN, "f32", "%r = scan %a [axis=0, reverse=true] : f32<8> {" FOLD("add"), "f32<8>", true},
    {OP_SCAN, "f32", "%r = scan %a [axis=0, reverse=true] : f32<8> {" FOLD("max"), "f32<8>", true},
    {OP_SCAN, "f32",
     "%h = scan %a [axis=0] : f32<8> {" FOLD(
         "add") "\n %r = reduce %h [axis=0] : f32 {(%x1: f32, %x2: f32)\n %x3 = add %x1, %x2 : "
                "f32\n yield %x3 }",
     "f32", false},
    {OP_SCAN, "f32",
     "%n = iota : i64<8>\n %v, %r = scan %a, %n [axis=0, reverse=true] : f32<8>, i64<8> " BEST,
     "i64<8>", true},
    {OP_SORT, "f32", "%r = sort %a [axis=0] : f32<8>", "f32<8>", true},
    {OP_SORT, "f32", "%r = sort %a [axis=0, descending=true] : f32<8>", "f32<8>", true},
    {OP_SORT, "f32", "%n = iota : i64<8>\n %v, %r = sort %a, %n [axis=0] : f32<8>, i64<8>",
     "i64<8>", true},
    {OP_SORT, "bool", "%r = sort %a [axis=0] : bool<8>", "bool<8>", true},
    {OP_HISTOGRAM, "i32", "%r = histogram %a : i32<9>", "i32<9>", false},
    {OP_GATHER, "f32",
     "%n = const [value=7] : i64<8>\n %i = iota : i64<8>\n %k = sub %n, %i : i64<8>\n"
     " %r = gather %a, %k [axis=0] : f32<8>",
     "f32<8>", true},
    {OP_GATHER, "f32", "%n = cast %o : i64<8>\n %r = gather %a, %n [axis=0] : f32<8>", "f32<8>",
     true},
    {OP_DOT, "f32",
     "%h = reshape %a : f32<1x8>\n %k = reshape %o : f32<8x1>\n %r = dot %h, %k : f32<1x1>",
     "f32<1x1>", false},
    {OP_DOT, "f32",
     "%h = reshape %o : f32<1x8>\n %k = reshape %a : f32<8x1>\n %r = dot %h, %k : f32<1x1>",
     "f32<1x1>", false},
    {OP_LIVE, "f32", "%r = live %x, %zero, %count [subs=(axis 8)] : bool<8>", "bool<8>", false},
    {OP_COMBINE, "f32",
     "%all = const [value=8] : i64\n combine %z, %a, %zero, %all [n_tensors=1, subs=(axis 8)] "
     "{" FOLD("max") "\n %r = const [value=0.0] : f32",
     "f32", false},
    {OP_ATOMIC, "f32",
     "%h = atomic %z, %a, %zero, %count [op=\"add\", subs=(axis 8)] : f32<8>\n"
     " %r = const [value=0.0] : f32",
     "f32", false},
    {OP_STORE, "f32", "store %z, %a, %zero, %count [subs=(axis 8)]\n %r = const [value=0.0] : f32",
     "f32", false},
    {OP_ASSERT, "f32",
     "%h = gt %a, %o : bool<8>\n assert %h [text=\"\"]\n %r = const [value=0.0] : f32", "f32",
     false},
};

/// Whether the op needs no row here: it never has an operand with lanes past the end when the pass
/// runs, or it returns its operand unchanged.
static bool has_no_pads(OpCode op) {
    const OpInfo *info = &op_info[op];
    if (op >= OP_LAUNCH || info->traits & (HOST | TERMINATOR | ISOLATED)) return true;
    switch (op) {
    case OP_MODULE:
    case OP_CONST:
    case OP_IOTA:
    case OP_DIM:
    case OP_STRIDE:
    case OP_ALIGN:
    case OP_SIGNAL_WAIT:
    case OP_SIGNAL_SET:
    case OP_COMM_FENCE:
    case OP_PRINT:
    case OP_PARALLEL: // control flow: carried values are not followed
    case OP_FOR:
    case OP_WHILE:
    case OP_IF: return true;
    default: return false;
    }
}

/* ---- a run --------------------------------------------------------------------------------- */

typedef struct Run {
    const char *elem, *code, *to, *pad;
    bool along;
    unsigned char out[8 * MAX_OUT], z[8 * MAX_OUT];
    bool warned, failed_assert, ok;
} Run;

static const char *name_of(const char *type) {
    static char name[8];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(type, "<"), type);
    return name;
}

static void write_text(const Run *r, Text *t) {
    int rank = 0;
    for (const char *c = strchr(r->to, '<'); c && *c; c++) rank += *c == '<' || *c == 'x';
    text_add(
        t,
        "module { kernel [name=\"k\"] {(%%x: tensor<%s, 5>, %%y: tensor<%s, 5>, %%w: tensor<%s, 8>,"
        " %%z: tensor<%s, 8>, %%u: tensor<%s",
        r->elem, r->elem, r->elem, r->elem, name_of(r->to));
    for (int d = 0; d < rank; d++) text_add(t, "%s?", d ? "x" : ", ");
    text_add(
        t,
        ">)\n %%zero = const [value=0] : i64\n %%count = dim %%x [axis=0, as_passed=true] : i64\n");
    text_add(t, " %%full = const [value=8] : i64\n %%pad = const [value=%s] : %s\n", r->pad,
             r->elem);
    text_add(t, " parallel %%zero, %%full [step=0] {(%%task: i64)\n");
    text_add(t, " %%a = load %%x, %%pad, %%zero, %%count [subs=(axis 8)] : %s<8>\n", r->elem);
    text_add(t, " %%b = load %%y, %%pad, %%zero, %%count [subs=(axis 8)] : %s<8>\n", r->elem);
    text_add(t, " %%o = load %%w, %%pad, %%zero, %%full [subs=(axis 8)] : %s<8>\n %s\n", r->elem,
             r->code);
    text_add(t, " store %%u, %%r");
    for (int d = 0; d < rank; d++)
        text_add(t, ", %%zero, %s", r->along && d == rank - 1 ? "%count" : "%full");
    text_add(t, " [subs=(");
    const char *c = strchr(r->to, '<');
    for (int d = 0; d < rank; d++) {
        int n = (int)strcspn(++c, "x>");
        text_add(t, "%saxis %.*s", d ? ", " : "", n, c);
        c += n;
    }
    text_add(t, ")]\n yield }\n yield } }\n");
}

static InterpArg tensor_of(Elem e, int rank, const int64_t *extents, void *data) {
    InterpArg a = {.tensor = {.data = data, .elem = e, .rank = rank}};
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        a.tensor.extents[d] = extents[d];
        a.tensor.strides[d] = stride;
        stride *= extents[d];
    }
    return a;
}

/// Live elements are from 1 to 6, with negative ones and fractions where the type has them.
static void fill(Elem e, int n, int64_t seed, unsigned char *data) {
    static const double values[] = {2.5, -3, 5, 1.25, -6, 4, 3, -1};
    for (int i = 0; i < n; i++)
        cell_store(e, data, i, cell_cast(EL_F64, e, (Cell){.f = values[(i * seed) % 8]}));
}

static void run_body(Ctx *ctx, void *arg) {
    Run *r = arg;
    Text t = {.ctx = ctx};
    write_text(r, &t);
    Ir *ir = ir_create(ctx);
    Op *module = ir_parse(ir, ctx_add_source(ctx, "trial.tir", t.data, strlen(t.data)));
    if (!module || !ir_verify(ir, module)) return;
    PassEnv env = {.ir = ir};
    pass_pads(&env, module);
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
        r->warned |= d->severity == SEV_WARNING;
    Elem e = find_kernel(module, "k")->regions[0]->args[0]->type->elem;
    Type to = *find_kernel(module, "k")->regions[0]->args[4]->type;
    unsigned char x[64], y[64], w[64];
    fill(e, LIVE, 1, x);
    fill(e, LIVE, 3, y);
    fill(e, LANES, 5, w);
    int64_t five = LIVE, eight = LANES, extents[MAX_RANK] = {0};
    const char *c = strchr(r->to, '<');
    for (int d = 0; d < to.rank; d++) {
        extents[d] = strtol(c + 1, (char **)&c, 10);
        if (r->along && d == to.rank - 1) extents[d] = LIVE;
    }
    InterpArg args[] = {tensor_of(e, 1, &five, x), tensor_of(e, 1, &five, y),
                        tensor_of(e, 1, &eight, w), tensor_of(e, 1, &eight, r->z),
                        tensor_of(to.elem, to.rank, extents, r->out)};
    InterpOptions how = {.seed = 3, .check = true};
    bool ran = interp_run(ir, module, "k", 5, args, &how);
    r->failed_assert = !ran;
    r->ok = true;
}

static Run run_trial(const Trial *t, const char *pad) {
    Run r = {.elem = t->elem, .code = t->code, .to = t->to, .pad = pad, .along = t->along};
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = ctx_protect(ctx, run_body, &r);
    Text text = {.ctx = ctx};
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
        if (d->severity == SEV_ERROR && !r.ok) diag_render(&text, ctx, d, false);
    if (status == CTX_BUG || !r.ok) fail_msg("%s: %s", t->code, text.n ? text.data : "no run");
    ctx_destroy(ctx);
    return r;
}

/* ---- the tests ----------------------------------------------------------------------------- */

/// Any two pads must give one result, or one of them must raise a warning. Returns the number of
/// warnings.
static int check_trial(const Trial *t) {
    static const char *const floats[] = {"0.0",   "1.0",    "3.5",  "-7.0",
                                         "100.0", "-100.0", "-inf", "inf"};
    static const char *const ints[] = {"0", "1", "3", "-7", "100", "-100"}, *const bools[] = {
                                                                                "false", "true"};
    bool real = t->elem[0] == 'f', truth = t->elem[0] == 'b';
    const char *const *pads = real ? floats : truth ? bools : ints;
    int n = real ? 8 : truth ? 2 : 6, warned = 0;
    Run runs[8];
    for (int i = 0; i < n; i++) {
        runs[i] = run_trial(t, pads[i]);
        warned += runs[i].warned;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            const Run *a = &runs[i], *b = &runs[j];
            bool same = memcmp(a->out, b->out, sizeof a->out) == 0 &&
                        memcmp(a->z, b->z, sizeof a->z) == 0 &&
                        a->failed_assert == b->failed_assert;
            if (!same && !a->warned && !b->warned)
                fail_msg("'%s' differs with the pads %s and %s, and nothing warns:\n%s",
                         op_info[t->op].name, a->pad, b->pad, t->code);
        }
    return warned;
}

static void every_listed_op(void **state) {
    (void)state;
    int warned = 0;
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) warned += check_trial(&trials[i]);
    assert_true(warned > 50); // the trials reach the analysis
}

/// Tests an elementwise op on %a, with %b and %o: its own lanes, and folds over all lanes.
static void check_elementwise(OpCode op, const char *elem, const char *result) {
    static const char *const operands[][3] = {
        {"%a", "%b", "%o"}, {"%o", "%a", "%b"}, {"%a", "%o", "%o"}};
    static const char *const folds[] = {"add", "max", "mul"}, *const bits[] = {"and", "or", "xor"};
    for (int way = 0; way < 3; way++)
        for (int fold = -1; fold < 3; fold++) {
            char code[512], to[16];
            const char *name = strcmp(result, "bool") == 0 ? bits[fold < 0 ? 0 : fold]
                                                           : folds[fold < 0 ? 0 : fold];
            int n =
                snprintf(code, sizeof code, "%%%s = %s", fold < 0 ? "r" : "h", op_info[op].name);
            for (int i = 0; i < op_info[op].n_operands; i++)
                n += snprintf(code + n, sizeof code - (size_t)n, "%s %s", i ? "," : "",
                              operands[way][i]);
            n += snprintf(code + n, sizeof code - (size_t)n, " : %s<8>\n", result);
            if (fold >= 0)
                snprintf(code + n, sizeof code - (size_t)n,
                         "%%r = reduce %%h [axis=0] : %s {(%%p: %s, %%q: %s)\n %%m = %s %%p, %%q : "
                         "%s\n yield %%m }",
                         result, result, result, name, result);
            snprintf(to, sizeof to, fold < 0 ? "%s<8>" : "%s", result);
            check_trial(&(Trial){op, elem, code, to, fold < 0});
        }
}

static void every_elementwise_op(void **state) {
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        const OpInfo *info = &op_info[op];
        if (!(info->traits & ELEMENTWISE)) continue;
        const char *elems[] = {"f32", "i32", "bool"};
        const int classes[] = {EC_FLOAT, EC_SINT, EC_BOOL};
        for (int i = 0; i < 3; i++)
            if (info->classes & classes[i])
                check_elementwise((OpCode)op, elems[i],
                                  info->traits & COMPARES ? "bool" : elems[i]);
    }
}

static void every_op_of_the_table(void **state) {
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        bool tried = op_info[op].traits & ELEMENTWISE || has_no_pads((OpCode)op);
        for (size_t i = 0; i < sizeof trials / sizeof *trials && !tried; i++)
            tried = (int)trials[i].op == op;
        if (!tried)
            fail_msg("'%s' is not tried: say how pads go through it, and add a trial",
                     op_info[op].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_of_the_table),
        cmocka_unit_test(every_listed_op),
        cmocka_unit_test(every_elementwise_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
