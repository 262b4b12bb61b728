// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Differential tests: see differ.h.
#include "differ.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/interp/interp.h"
#include "runtime/host.h"
#include "tests/unit/cpu_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---------------------------------------------------------------------------------- */

void kernel_begin(KernelText *k, Ctx *ctx) {
    *k = (KernelText){.text = {.ctx = ctx}};
    text_add(&k->text, "module { kernel [name=\"k\"] {(");
}

void kernel_param(KernelText *k, const char *name, const char *elem, int rows, int columns,
                  bool column_major, Values values) {
    text_add(&k->text, "%s%%%s: tensor<%s, %dx%d, [%d, %d]>", k->n ? ", " : "", name, elem, rows,
             columns, column_major ? 1 : columns, column_major ? rows : 1);
    k->values[k->n++] = values;
}

void kernel_body(KernelText *k) {
    text_add(&k->text, ")\n%%one = const [value=1] : i64\nlaunch %%one {(%%task: i64)\n"
                       "%%zero = const [value=0] : i64\n");
}

static void extents(KernelText *k, const char *of, int rows, int columns) {
    text_add(&k->text,
             "%%%s_rows = const [value=%d] : i64\n%%%s_columns = const [value=%d] : i64\n", of,
             rows, of, columns);
}

const char *zero_of(const char *elem) {
    Elem e = elem_by_name(elem);
    return elem_is(e, EC_FLOAT) ? "0.0" : e == EL_BOOL ? "false" : "0";
}

void kernel_load(KernelText *k, const char *to, const char *from, const char *elem, int rows,
                 int columns) {
    extents(k, to, rows, columns);
    text_add(&k->text, "%%%s_pad = const [value=%s] : %s\n", to, zero_of(elem), elem);
    text_add(&k->text,
             "%%%s = load %%%s, %%%s_pad, %%zero, %%%s_rows, %%zero, %%%s_columns "
             "[subs=(axis %d, axis %d)] : %s<%dx%d>\n",
             to, from, to, to, to, rows, columns, elem, rows, columns);
}

void kernel_store(KernelText *k, const char *to, const char *value, int rows, int columns) {
    extents(k, to, rows, columns);
    text_add(&k->text,
             "store %%%s, %%%s, %%zero, %%%s_rows, %%zero, %%%s_columns "
             "[subs=(axis %d, axis %d)]\n",
             to, value, to, to, rows, columns);
}

/* ---- data ---------------------------------------------------------------------------------- */

static uint64_t seed;
static int draw(int n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

static Cell draw_cell(Elem elem, Values values) {
    static const double special[] = {0.0, -0.0, NAN, INFINITY, -INFINITY};
    Cell c;
    int small = draw(17) - 8;
    if (values == VALUES_INDEX) small = draw(20) - 2;
    c.i = elem == EL_BOOL ? draw(2) : elem_is(elem, EC_UINT) ? abs(small) : small;
    if (elem_is(elem, EC_FLOAT))
        c.f = values == VALUES_SPECIAL && draw(3) == 0 ? special[draw(5)] : small / 4.0;
    return c;
}

typedef struct Array {
    Tensor t;
    int64_t n;
} Array;

static Array array_of(Ctx *ctx, const Type *t) {
    Array a = {.t = {.elem = t->elem, .rank = t->rank}, .n = 1};
    for (int d = 0; d < t->rank; d++) {
        a.t.extents[d] = t->extents[d];
        a.t.strides[d] = t->strides[d];
        a.n *= t->extents[d];
    }
    a.t.data = ctx_alloc(ctx, (size_t)(a.n * elem_info[t->elem].bits / 8));
    return a;
}

static bool differs(Elem e, Cell want, Cell got, double tolerance) {
    if (!elem_is(e, EC_FLOAT)) return !cell_equal(e, want, got);
    if (cell_equal(e, want, got) || want.f == got.f) return false;
    return !(fabs(want.f - got.f) <= tolerance * (1 + fabs(want.f)));
}

static void compare(Ctx *ctx, const Array *want, const Array *got, int param, double tolerance,
                    const char *what) {
    for (int64_t i = 0; i < want->n; i++) {
        Elem e = want->t.elem;
        Cell w = cell_load(e, want->t.data, i), g = cell_load(e, got->t.data, i);
        if (differs(e, w, g, tolerance))
            fail_msg("%s: parameter %d, element %lld is %s, not %s", what, param, (long long)i,
                     cell_text(ctx, e, g), cell_text(ctx, e, w));
    }
}

/* ---- running ------------------------------------------------------------------------------- */

static void complain(Ctx *ctx, const KernelText *k, const char *what) {
    Text out = {.ctx = ctx};
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) diag_render(&out, ctx, d, false);
    fail_msg("%s:\n%s\n%s", what, out.data ? out.data : "", k->text.data);
}

static void run_native(Ir *ir, Op *module, const char *level, int n, const Array *data,
                       const KernelText *k, const char *what) {
    CodeOptions options = {.level = level};
    Code *code = compile_native(ir, module, &options, true);
    if (!code) complain(ir_ctx(ir), k, what);
    tg_slot slots[8];
    for (int i = 0; i < n; i++) {
        slots[i].tensor.data = data[i].t.data;
        slots[i].tensor.shape = data[i].t.extents;
        slots[i].tensor.strides = data[i].t.strides;
    }
    tg_host *host = tg_host_create(1);
    tg_failure failure;
    assert_int_equal(tg_host_run(host, code->entry, slots, NULL, NULL, &failure), TG_RUN_OK);
    tg_host_destroy(host);
    code_release(code);
}

static Op *parse_kernel(Ir *ir, KernelText *k, const char *what) {
    Ctx *ctx = k->text.ctx;
    text_add(&k->text, "yield }\nyield } }\n");
    Op *module = ir_parse(ir, ctx_add_source(ctx, "kernel.tir", k->text.data, k->text.n));
    if (!module || !ir_verify(ir, module)) complain(ctx, k, what);
    return module;
}

const char *differ_assembly(KernelText *k, const char *level) {
    Ir *ir = ir_create(k->text.ctx);
    CodeOptions options = {.level = level, .texts = TEXT_ASM};
    Code *code = compile_native(ir, parse_kernel(ir, k, level), &options, false);
    if (!code) complain(k->text.ctx, k, level);
    const char *text = ctx_format(k->text.ctx, "%s", code->assembly);
    code_release(code);
    return text;
}

void differ_run(KernelText *k, double tolerance, const char *what) {
    static const char *const levels[] = {NULL, "x86-64-v3"};
    Ctx *ctx = k->text.ctx;
    Ir *ir = ir_create(ctx);
    Op *module = parse_kernel(ir, k, what);
    const Region *r = find_kernel(module, NULL)->regions[0];
    Array want[8], got[2][8];
    InterpArg args[8];
    for (int i = 0; i < r->n_args; i++) {
        want[i] = array_of(ctx, r->args[i]->type);
        for (int64_t j = 0; j < want[i].n; j++) {
            Elem e = want[i].t.elem;
            cell_store(e, want[i].t.data, j, cell_wrap(e, draw_cell(e, k->values[i])));
        }
        for (int l = 0; l < 2; l++) {
            got[l][i] = array_of(ctx, r->args[i]->type);
            memcpy(got[l][i].t.data, want[i].t.data,
                   (size_t)(want[i].n * elem_info[want[i].t.elem].bits / 8));
        }
        args[i].tensor = want[i].t;
    }
    if (!interp_run(ir, module, NULL, r->n_args, args, &(InterpOptions){0})) complain(ctx, k, what);
    for (int l = 0; l < 2; l++) {
        run_native(ir, module, levels[l], r->n_args, got[l], k, what);
        for (int i = 0; i < r->n_args; i++) compare(ctx, &want[i], &got[l][i], i, tolerance, what);
    }
}
