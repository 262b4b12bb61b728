// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulator has every row of portable.def, for the architectures with that row. Its conversions
// equal the language's, for all bits.
#include "sim_kernel.h"

#include "ir/eval.h"
#include "passes/gpu/gpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- all rows ------------------------------------------------------------------------------ */

/// Makes an operand by a load, so that its value is unknown.
static LLVMValueRef any_operand(SimKernel *k, char letter, int *at) {
    if (letter == 'g') return k->params[0];
    if (letter == 's') return k->shared;
    if (letter == 'p') return LLVMConstNull(k->g->ptr);
    LLVMTypeRef t = letter == 'b' ? k->g->i32 : fn_letter_type(k->g->llvm, letter);
    LLVMValueRef v = sim_load(k, t, k->params[0], sim_i32(k, 8 * (*at)++));
    return letter == 'b' ? LLVMBuildTrunc(k->g->b, v, k->g->i1, "") : v;
}

static void build_row(SimKernel *k, const void *name) {
    static LLVMValueRef args[FN_OPERANDS];
    Fn f;
    int n = 0, at = 0;
    assert_true(fn_find(name, &f));
    for (int i = 0; i < f.n_groups; i++)
        for (int j = 0; j < f.groups[i].count; j++)
            args[n++] = any_operand(k, f.groups[i].letter, &at);
    sim_call(k, name, n, args);
}

typedef struct Row {
    const char *name, *target;
} Row;

static void compile_row(Ctx *ctx, void *arg) {
    const Row *row = arg;
    SimKernel k = {.g = gen_create(ctx, "test")};
    LLVMTypeRef param = LLVMPointerTypeInContext(k.g->llvm, 1);
    k.fn = LLVMAddFunction(k.g->module, "k", LLVMFunctionType(k.g->void_, &param, 1, false));
    k.params[0] = LLVMGetParam(k.fn, 0);
    LLVMPositionBuilderAtEnd(k.g->b, LLVMAppendBasicBlockInContext(k.g->llvm, k.fn, ""));
    k.shared = sim_call(&k, "tg.shared.base", 0, NULL);
    build_row(&k, row->name);
    LLVMBuildRetVoid(k.g->b);
    sim_image_free(sim_compile(k.g, row->target, true));
}

static const GpuTarget *first_with(const FnRow *row) {
    const GpuTarget *t = gpu_targets;
    while (t->name && !fn_has(row, t)) t++;
    if (!t->name) fail_msg("no GPU has %s, which needs %s", row->name, row->needs);
    return t;
}

static void check_row(const char *name, const char *target, bool lacking) {
    Row row = {name, target};
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = llvm_protect(ctx, compile_row, &row);
    const Diagnostic *d = diag_first(ctx);
    if (lacking) {
        assert_int_equal(status, CTX_BUG);
        assert_non_null(strstr(d->text, " needs "));
    } else if (status != CTX_OK) {
        fail_msg("%s for %s: %s", name, target, d ? d->text : "");
    }
    ctx_destroy(ctx);
}

/// Tests each row for the first architecture that has it. An architecture without it must refuse
/// it.
static void all_rows(void **state) {
    char name[SIM_NAME];
    (void)state;
    for (int i = 0; i < fn_row_count; i++) {
        sim_row_name(&fn_rows[i], 0, 0, name);
        check_row(name, first_with(&fn_rows[i])->name, false);
        if (!fn_has(&fn_rows[i], gpu_targets)) check_row(name, gpu_targets->name, true);
    }
}

/* ---- conversions --------------------------------------------------------------------------- */

enum { THREADS = 1024, EACH = 64, VALUES = THREADS * EACH };

/// Calls a function of one operand on each of the values.
typedef struct Unary {
    const char *name;
    int operands, from, to; // bytes of the operand and of the result
} Unary;

static void build_cases(SimKernel *k, const void *arg) {
    const Unary *u = arg;
    Fn f;
    assert_true(fn_find(u->name, &f));
    LLVMTypeRef t = fn_letter_type(k->g->llvm, f.groups[0].letter);
    for (int i = 0; i < EACH; i++) {
        LLVMValueRef at = sim_add(k, sim_mul(k, k->thread, EACH), i), args[2];
        args[0] = args[1] = sim_load(k, t, k->params[0], sim_mul(k, at, u->from));
        LLVMValueRef r = sim_call(k, u->name, u->operands, args);
        sim_store(k, r, k->params[1], sim_mul(k, at, u->to));
    }
}

static void run_unary(const Unary *u, const void *in, void *out) {
    SimCase c = {.target = "sm_90a", .threads = THREADS, .n_buffers = 2};
    SimFailure f;
    c.buffers[0] = sim_buffer(in, VALUES * u->from, true);
    c.buffers[1] = sim_buffer(out, VALUES * u->to, false);
    c.build = build_cases;
    c.arg = u;
    if (!sim_case_run(&c, &f)) fail_msg("%s: %s", u->name, f.text);
}

/// f32 bits: all upper 16 bits with various lower ones, so that ties and their neighbours occur.
static void f32_values(uint32_t *out) {
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0x0fff, 0x1000, 0x1001, 0xffff};
    for (uint32_t i = 0; i < VALUES; i++)
        out[i] = i << 16 | (i % 16 < 9 ? low[(i + i / 16) % 9] : i * 40503 & 0xffff);
}

static bool is_nan(Elem e, uint64_t bits) {
    return isnan(cell_from_bits(e, bits).f);
}

static void check_bits(const char *name, Elem e, uint32_t from, uint64_t got) {
    uint64_t want = cell_bits(e, cell_wrap(e, cell_from_bits(EL_F32, from)));
    if (is_nan(e, want) ? !is_nan(e, got) : got != want)
        fail_msg("%s of %08x is %llx, not %llx", name, from, (unsigned long long)got,
                 (unsigned long long)want);
}

static void narrow(void **state) {
    static const struct {
        Unary u;
        Elem elem;
    } rows[] = {
        {{"tg.cvt.bf16.f32", 1, 4, 2}, EL_BF16},
        {{"tg.cvt.bf16x2.f32", 2, 4, 4}, EL_BF16},
        {{"tg.cvt.f16x2.f32", 2, 4, 4}, EL_F16},
        {{"tg.cvt.f8e4m3x2.f32", 2, 4, 2}, EL_F8E4M3},
        {{"tg.cvt.f8e5m2x2.f32", 2, 4, 2}, EL_F8E5M2},
    };
    static uint32_t in[VALUES];
    static uint8_t out[4 * VALUES];
    (void)state;
    f32_values(in);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const Unary *u = &rows[r].u;
        int size = elem_info[rows[r].elem].bits / 8;
        run_unary(u, in, out);
        for (int i = 0; i < VALUES; i++)
            for (int half = 0; half < u->operands; half++) {
                uint64_t got = 0;
                memcpy(&got, out + i * u->to + half * size, (size_t)size);
                check_bits(u->name, rows[r].elem, in[i], got);
            }
    }
}

static void widen(void **state) {
    static const struct {
        Unary u;
        Elem from, to;
    } rows[] = {
        {{"tg.cvt.f32.bf16", 1, 2, 4}, EL_BF16, EL_F32},
        {{"tg.cvt.f16x2.f8e4m3x2", 1, 2, 4}, EL_F8E4M3, EL_F16},
        {{"tg.cvt.f16x2.f8e5m2x2", 1, 2, 4}, EL_F8E5M2, EL_F16},
    };
    static uint16_t in[VALUES];
    static uint32_t out[VALUES];
    (void)state;
    for (int i = 0; i < VALUES; i++) in[i] = (uint16_t)i;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        run_unary(&rows[r].u, in, out);
        for (int i = 0; i < VALUES; i++) {
            Cell x = cell_from_bits(rows[r].from, in[i] & (rows[r].from == EL_BF16 ? 0xffff : 255));
            uint64_t got = out[i] & (rows[r].to == EL_F16 ? 0xffff : 0xffffffff);
            double y = cell_from_bits(rows[r].to, got).f;
            if (isnan(x.f) ? !isnan(y) : x.f != y)
                fail_msg("%s of %04x is %g, not %g", rows[r].u.name, in[i], y, x.f);
        }
    }
}

/// Rounds to nearest with 10 bits after the point, ties away from zero.
static void tf32(void **state) {
    static const Unary u = {"tg.cvt.tf32.f32", 1, 4, 4};
    static uint32_t in[VALUES], out[VALUES];
    (void)state;
    f32_values(in);
    run_unary(&u, in, out);
    for (int i = 0; i < VALUES; i++) {
        double x = cell_from_bits(EL_F32, in[i]).f, y = cell_from_bits(EL_F32, out[i]).f;
        if (isnan(x)) {
            assert_true(isnan(y));
            continue;
        }
        assert_int_equal(out[i] & 0x1fff, 0);
        if (isinf(x) || isinf(y)) continue;
        int e = x != 0 ? ilogb(x) : -126;
        double ulp = ldexp(1, (e < -126 ? -126 : e) - 10), scaled = fabs(x) / ulp;
        assert_true(fabs(y) == floor(scaled + 0.5) * ulp);
    }
}

static void integers(void **state) {
    static const struct {
        Unary u;
        Elem to;
    } rows[] = {
        {{"tg.cvt.i32.f32", 1, 4, 4}, EL_I32},
        {{"tg.cvt.u32.f32", 1, 4, 4}, EL_U32},
    };
    static uint32_t in[VALUES], out[VALUES];
    (void)state;
    f32_values(in);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        run_unary(&rows[r].u, in, out);
        for (int i = 0; i < VALUES; i++)
            assert_int_equal(
                out[i], cell_bits(rows[r].to,
                                  cell_cast(EL_F32, rows[r].to, cell_from_bits(EL_F32, in[i]))));
    }
}

/* ---- buffers ------------------------------------------------------------------------------- */

/// A lane accesses offsets[2 * thread] + offsets[2 * thread + 1] in a buffer of `bytes` bytes.
typedef struct BufferCase {
    int64_t bytes;
    bool store;
} BufferCase;

static void build_buffer(SimKernel *k, const void *arg) {
    const BufferCase *c = arg;
    LLVMValueRef args[5] = {k->params[0], sim_i32(k, c->bytes)};
    LLVMValueRef at = sim_mul(k, k->thread, 8);
    args[2] = sim_load(k, k->g->i32, k->params[1], at);
    args[3] = sim_load(k, k->g->i32, k->params[1], sim_add(k, at, 4));
    args[4] = k->thread;
    if (c->store) {
        sim_call(k, "tg.store.buffer.b32", 5, args);
        return;
    }
    LLVMValueRef v = sim_call(k, "tg.load.buffer.nc.b32", 4, args);
    sim_store(k, v, k->params[2], sim_mul(k, k->thread, 4));
}

enum { BUFFER_WORDS = 16, BUFFER_LANES = 32 };

static bool run_buffer(const BufferCase *how, uint32_t *data, const uint32_t *offsets,
                       uint32_t *out, SimFailure *f) {
    SimCase c = {.target = "gfx1100", .threads = BUFFER_LANES, .n_buffers = 3, .check = true};
    c.buffers[0] = sim_buffer(data, BUFFER_WORDS * sizeof *data, true);
    c.buffers[1] = sim_buffer(offsets, 2 * BUFFER_LANES * sizeof *offsets, true);
    c.buffers[2] = sim_buffer(out, BUFFER_LANES * sizeof *out, false);
    c.build = build_buffer;
    c.arg = how;
    return sim_case_run(&c, f);
}

/// An access that begins past the bound reads 0 and writes nothing, also if the sum of the parts
/// overflows 32 bits. An access that the bound cuts, or a bound past the tensor, is a bug.
static void buffer_bounds(void **state) {
    static uint32_t data[BUFFER_WORDS], offsets[2 * BUFFER_LANES], out[BUFFER_LANES];
    const uint32_t far = 0x80000000;
    BufferCase all = {sizeof data, false}, write = {sizeof data - 8, true}, cut = {6, false},
               beyond = {sizeof data + 4, false};
    SimFailure f;
    (void)state;
    for (uint32_t i = 0; i < BUFFER_LANES; i++) {
        bool live = i < BUFFER_WORDS;
        offsets[2 * i] = live ? i : i % 3 == 0 ? sizeof data : i % 3 == 1 ? far : far + 4 * i;
        offsets[2 * i + 1] = live ? 3 * i : i % 3 == 0 ? 4 * i : i % 3 == 1 ? far : UINT32_MAX - i;
    }
    for (uint32_t i = 0; i < BUFFER_WORDS; i++) data[i] = 100 + i;
    if (!run_buffer(&all, data, offsets, out, &f)) fail_msg("%s", f.text);
    for (uint32_t i = 0; i < BUFFER_LANES; i++)
        assert_int_equal(out[i], i < BUFFER_WORDS ? 100 + i : 0);
    if (!run_buffer(&write, data, offsets, out, &f)) fail_msg("%s", f.text);
    for (uint32_t i = 0; i < BUFFER_WORDS; i++)
        assert_int_equal(data[i], i < BUFFER_WORDS - 2 ? i : 100 + i);
    assert_false(run_buffer(&cut, data, offsets, out, &f));
    assert_non_null(strstr(f.text, "cut by the bound"));
    assert_false(run_buffer(&beyond, data, offsets, out, &f));
    assert_non_null(strstr(f.text, "a bound beyond its tensor"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows), cmocka_unit_test(narrow),   cmocka_unit_test(widen),
        cmocka_unit_test(tf32),     cmocka_unit_test(integers), cmocka_unit_test(buffer_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
