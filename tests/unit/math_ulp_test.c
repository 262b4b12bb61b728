// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of stdlib/math.teg against the C library in long double: special values must be
// equal, and others within the bounds in lang/elementwise.def.
#include "frontend/frontend.h"
#include "ir/eval.h"
#include "ir/library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <tgmath.h>

typedef long double Real;

enum { RANDOM_POINTS = 4000, MAX_OPS = 2000 };

/* ---- a func as straight code --------------------------------------------------------------- */

typedef struct Step {
    const Op *op;
    Elem from, to;
    int args[3];
} Step;

typedef struct Code {
    int n_args, n;
    Elem elem; // of arguments and result
    int out;
    Step steps[MAX_OPS];
    Cell cells[MAX_OPS];
} Code;

static int slot_of(const Code *c, const Value *v) {
    return v->def ? c->n_args + v->def->mark : v->index;
}

static void flatten(Code *c, const Op *func) {
    const Region *body = func->regions[0];
    *c = (Code){.n_args = body->n_args, .elem = body->args[0]->type->elem};
    for (Op *op = body->first; op; op = op->next) {
        if (op->code == OP_YIELD) {
            c->out = slot_of(c, operand(op, 0));
            return;
        }
        assert_true(c->n + c->n_args < MAX_OPS && op->n_operands <= 3 && op->n_results == 1);
        Step *s = &c->steps[c->n];
        s->op = op;
        s->to = result(op, 0)->type->elem;
        s->from = op->n_operands ? operand(op, op->code == OP_SELECT)->type->elem : s->to;
        for (int i = 0; i < op->n_operands; i++) s->args[i] = slot_of(c, operand(op, i));
        op->mark = c->n++;
    }
}

static Cell step_value(const Step *s, const Cell *cells) {
    Cell a[3];
    for (int i = 0; i < s->op->n_operands; i++) a[i] = cells[s->args[i]];
    switch (s->op->code) {
    case OP_CONST: return cell_of_attr(s->to, op_const(s->op, A_VALUE));
    case OP_CAST: return cell_cast(s->from, s->to, a[0]);
    case OP_BITCAST: return cell_from_bits(s->to, cell_bits(s->from, a[0]));
    case OP_SELECT: return a[0].u ? a[1] : a[2];
    default: return eval_elementwise(s->op->code, s->from, a);
    }
}

static double call(Code *c, double x, double y) {
    c->cells[0].f = x;
    if (c->n_args > 1) c->cells[1].f = y;
    for (int i = 0; i < c->n; i++) c->cells[c->n_args + i] = step_value(&c->steps[i], c->cells);
    return c->cells[c->out].f;
}

/* ---- the table ----------------------------------------------------------------------------- */

// The expressions for floats in lang/elementwise.def, in long double: <tgmath.h> chooses expl for
// exp. Rows without a function of the library are not called.
#define fma_at(e, a, b, c)    fma(a, b, c)
#define nextafter_at(e, a, b) nextafter(a, b)
#define least(a, b)           fmin(a, b)
#define greatest(a, b)        fmax(a, b)
#define lgamma_at(a)          lgamma(a)
static Real ldexp_at(Real x, Real y) {
    return isnan(y) ? y : ldexpl(x, (int)fmaxl(-5000, fminl(5000, truncl(y))));
}

#define EW(id, name, n, classes, traits, cost, s, u, f, doc)                                       \
    static Real real_##id(Real a, Real b, Real c) {                                                \
        (void)a, (void)b, (void)c;                                                                 \
        return f;                                                                                  \
    }
#include "lang/elementwise.def"

static Real (*const reals[OP_COUNT])(Real a, Real b, Real c) = {
#define EW(id, ...) [OP_##id] = real_##id,
#include "lang/elementwise.def"
};

static const double specials[] = {
    0.0,
    -0.0,
    1,
    -1,
    INFINITY,
    -INFINITY,
    NAN,
    0x1p-149,
    -0x1p-149,
    0x1p-126,
    0x1.fffffep127,
    0.5,
    -0.5,
    2,
    -2,
    3,
    -3,
    2.5,
    -2.5,
    1e10,
    -1e10,
    16777215,
    -16777217,
    0x1.fffffep-1,
    127,
    -126,
    -149,
    -150,
    128,
    278,
    88.72283935546875,
    88.7228469848,
    709.78,
    709.79,
    -103.97,
    -745.2,
    171.7,
    0x1p-1074,
    0x1p-1022,
    0x1.fffffffffffffp1023,
    -170.5,
    0x1.6ac5b262ca1ffp849,
    0x1.921fb6p1,
    // the f32 and f64 numbers closest to a multiple of pi/2
    0x1.f37c8ap95,
    0x1.6ac5b262ca1ffp849,
};
enum { N_SPECIALS = sizeof specials / sizeof *specials };

/* ---- comparison ---------------------------------------------------------------------------- */

/// Returns one unit in the last place of x.
static Real ulp_of(Elem e, Real x) {
    int exponent, least = e == EL_F32 ? -126 : -1022, bits = e == EL_F32 ? 23 : 52;
    if (x == 0) return ldexpl(1, least - bits);
    frexpl(x, &exponent);
    return ldexpl(1, (exponent - 1 < least ? least : exponent - 1) - bits);
}

/// Returns the error in units of the last place; huge if a NaN, an infinity or the sign of 0 is
/// wrong.
static double error_of(OpCode op, Elem e, double x, double got, Real want) {
    Real limit = ldexpl(1, e == EL_F32 ? 128 : 1024);
    double rounded = e == EL_F32 ? (double)(float)want : (double)want;
    if (isnan(rounded) || isnan(got)) return isnan(rounded) && isnan(got) ? 0 : 1e30;
    if (rounded == 0 && got == 0) return signbit(got) == signbit(rounded) ? 0 : 1e30;
    if (isinf(rounded) && rounded == got) return 0;
    // an overflow at the border is an error of some units, not infinite
    Real a = isinf(got) ? copysignl(limit, got) : got;
    Real b = fabsl(want) > limit ? copysignl(limit, want) : want;
    Real unit = ulp_of(e, fabsl(b) == limit ? b / 2 : b);
    if (op == OP_LGAMMA && (x < 0 || fabsl(b) < 0.02L)) unit = fmaxl(unit, ulp_of(e, 1));
    return (double)(fabsl(a - b) / unit);
}

static uint64_t random_bits(void) {
    static uint64_t s = 88172645463325252u;
    s ^= s << 13;
    s ^= s >> 7;
    return s ^= s << 17;
}

/// Alternates between any bit pattern, a moderate number, and one near 1.
static double random_value(Elem e, int i) {
    uint64_t bits = random_bits();
    double moderate = (double)(int64_t)bits * (i % 2 ? 0x1p-58 : 0x1p-62);
    if (i % 3 == 0) return cell_from_bits(e, e == EL_F32 ? bits >> 32 : bits).f;
    return cell_wrap(e, (Cell){.f = i % 3 == 1 ? moderate : 1 + moderate / 8}).f;
}

static void compare(const LibraryFn *f, Code *c, double x, double y) {
    Elem e = c->elem;
    x = cell_wrap(e, (Cell){.f = x}).f;
    y = cell_wrap(e, (Cell){.f = y}).f;
    double got = call(c, x, y);
    Real want = reals[f->op](x, y, 0);
    double error = error_of(f->op, e, x, got, want);
    if (error <= f->ulps) return;
    fail_msg("%s(%a, %a) = %a, not %La: %g ulp, bound %g", f->name, x, y, got, want, error,
             f->ulps);
}

static void sweep(const LibraryFn *f, Code *c) {
    for (int i = 0; i < N_SPECIALS; i++)
        for (int j = 0; j < (c->n_args == 1 ? 1 : N_SPECIALS); j++)
            compare(f, c, specials[i], specials[j]);
    for (int i = 0; i < RANDOM_POINTS; i++)
        compare(f, c, random_value(c->elem, i), random_value(c->elem, i / 3));
}

/* ---- tests --------------------------------------------------------------------------------- */

static const Op *function(const Op *library, OpCode op, Elem e) {
    const LibraryFn *row = library_fn(op, e);
    const Op *f = row ? find_func(library, row->name) : NULL;
    if (!f) fail_msg("the library has no %s of %s", op_info[op].name, elem_info[e].name);
    return f;
}

static void check_bounds(Ctx *ctx, const Op *library) {
    Code *code = ctx_new(ctx, Code);
    for (int i = 0; i < N_LIBRARY_FNS; i++) {
        const LibraryFn *f = &library_fns[i];
        if (!f->how) continue; // exact, and checked by check_neighbours
        flatten(code, function(library, f->op, f->elem));
        sweep(f, code);
    }
}

/// The value whose representation is the upper bits.
static Cell any_value(Elem e, uint64_t bits) {
    return cell_from_bits(e, bits >> (64 - elem_info[e].bits));
}

/// The interpreter's nextafter is exact: for every pair of f8, and some pairs of wider types.
static void check_neighbours(Ctx *ctx, const Op *library) {
    Code *code = ctx_new(ctx, Code);
    for (Elem e = EL_F8E4M3; e <= EL_F64; e++) {
        flatten(code, function(library, OP_NEXTAFTER, e));
        for (int i = 0; i < 65536; i++) {
            bool all = elem_info[e].bits == 8;
            Cell args[] = {any_value(e, all ? (uint64_t)i << 48 : random_bits()),
                           any_value(e, all ? (uint64_t)i << 56 : random_bits())};
            Cell want = eval_elementwise(OP_NEXTAFTER, e, args);
            Cell got = {.f = call(code, args[0].f, args[1].f)};
            if (!cell_equal(e, want, got))
                fail_msg("%s: after %a towards %a comes %a, not %a", elem_info[e].name, args[0].f,
                         args[1].f, got.f, want.f);
        }
    }
}

typedef void Check(Ctx *ctx, const Op *library);

static void enter(Ctx *ctx, void *arg) {
    const Op *library = fe_math_library(ir_create(ctx), NULL);
    if (diag_errors(ctx) == 0) (*(Check **)arg)(ctx, library);
}

static void run(Check *check) {
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = ctx_protect(ctx, enter, &check);
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
        print_message("%s:%u: %s\n", ctx_source_path(ctx, d->loc.file), d->loc.line, d->text);
    assert_int_equal(status, CTX_OK);
    assert_int_equal(diag_errors(ctx), 0);
    ctx_destroy(ctx);
}

static void functions_keep_their_bounds(void **state) {
    (void)state;
    run(check_bounds);
}

static void neighbours_are_exact(void **state) {
    (void)state;
    run(check_neighbours);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_keep_their_bounds),
        cmocka_unit_test(neighbours_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
