// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each elementwise op on each element, and each cast and bitcast, as a portable module: the checker
// accepts it, both generators and ptxas compile it without a call, and on the host its results
// equal the oracle's.
#include "backends/llvm/target.h"
#include "backends/nvidia/nvidia.h"
#include "ir/eval.h"
#include "tests/unit/portable_arith_rows.h"

#include <llvm-c/ExecutionEngine.h>
#include <llvm-c/Support.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- kernels ------------------------------------------------------------------------------- */

typedef enum Kind { ELEMENT, CAST, BITCAST } Kind;

// Three registers are computed at once: two may form a pair, one is alone.
enum { REGISTERS = 3 };

/// A function from REGISTERS values of each operand, 8 bytes apart, to as many results.
typedef struct Kernel {
    Kind kind;
    OpCode op;
    Elem from, to;
    int n_operands;
} Kernel;

enum { MAX_KERNELS = 2000 };
static Kernel kernels[MAX_KERNELS];
static int n_kernels;

static void add(Kind kind, OpCode op, Elem from, Elem to, int n) {
    assert_true(n_kernels < MAX_KERNELS);
    kernels[n_kernels++] = (Kernel){kind, op, from, to, n};
}

static void list_kernels(void) {
    n_kernels = 0;
    for (OpCode op = 0; op < OP_COUNT; op++)
        for (Elem e = 0; e < EL_COUNT; e++) {
            const OpInfo *info = &op_info[op];
            bool has = info->traits & ELEMENTWISE && info->n_operands > 0 &&
                       elem_info[e].bits >= 8 && info->classes & (int)elem_info[e].cls;
            if (has && gen_portable_has(NULL, op, e))
                add(ELEMENT, op, e, info->traits & COMPARES ? EL_BOOL : e, info->n_operands);
        }
    for (Elem a = 0; a < EL_COUNT; a++)
        for (Elem b = 0; b < EL_COUNT; b++) {
            if (a != b) add(CAST, 0, a, b, 1);
            if (elem_info[a].bits == elem_info[b].bits && elem_info[a].bits >= 8 && a != EL_BOOL &&
                b != EL_BOOL)
                add(BITCAST, 0, a, b, 1);
        }
}

static void apply(const Gen *g, const Kernel *k, LLVMValueRef *const *args, LLVMValueRef *out) {
    switch (k->kind) {
    case CAST: gen_cast_all(g, k->from, k->to, REGISTERS, args[0], out); break;
    case BITCAST:
        for (int r = 0; r < REGISTERS; r++) out[r] = gen_bitcast(g, k->from, k->to, args[0][r]);
        break;
    default: gen_elementwise_all(g, k->op, k->from, REGISTERS, args, out); break;
    }
}

static void emit_kernel(Gen *g, int i) {
    const Kernel *k = &kernels[i];
    LLVMTypeRef global = LLVMPointerTypeInContext(g->llvm, 1), params[2] = {global, global};
    LLVMValueRef fn = LLVMAddFunction(g->module, ctx_format(g->ctx, "k%d", i),
                                      LLVMFunctionType(g->void_, params, 2, false));
    LLVMValueRef all[3][REGISTERS], *args[3] = {all[0], all[1], all[2]}, out[REGISTERS];
    LLVMPositionBuilderAtEnd(g->b, LLVMAppendBasicBlockInContext(g->llvm, fn, ""));
    for (int n = 0; n < k->n_operands * REGISTERS; n++) {
        LLVMValueRef p = gen_offset(g, LLVMGetParam(fn, 0), gen_i64(g, 8 * n));
        LLVMValueRef v = LLVMBuildLoad2(g->b, gen_mem_elem(g, k->from), p, "");
        all[n / REGISTERS][n % REGISTERS] = gen_from_memory(g, k->from, v);
    }
    apply(g, k, args, out);
    for (int r = 0; r < REGISTERS; r++)
        LLVMBuildStore(g->b, gen_to_memory(g, k->to, out[r]),
                       gen_offset(g, LLVMGetParam(fn, 1), gen_i64(g, 8 * r)));
    LLVMBuildRetVoid(g->b);
}

static Gen *emit_all(Ctx *ctx, bool f8) {
    Gen *g = gen_create(ctx, "arith");
    g->portable = true;
    g->f8 = f8;
    for (int i = 0; i < n_kernels; i++) emit_kernel(g, i);
    module_verify(g);
    portable_check(ctx, g->module);
    return g;
}

/* ---- the generators ------------------------------------------------------------------------ */

typedef struct Job {
    const GpuTarget *arch;
    bool nvvm, failed;
} Job;

static int count(const char *text, const char *what) {
    int n = 0;
    while ((text = strstr(text, what))) n++, text++;
    return n;
}

static void assemble(Job *job, const char *ptx) {
    NvOutput out;
    // Denormals are kept; f32 divisions and roots are exact.
    static const char *const never[] = {".extern .func", ".rn.ftz",  "add.ftz",   "mul.ftz",
                                        "cvt.ftz",       "div.full", "div.approx"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        if (!strstr(ptx, never[i])) continue;
        print_message("%s: %s\n", job->arch->name, never[i]);
        job->failed = true;
    }
    assert_int_equal(count(ptx, "sqrt.approx"), count(ptx, "rsqrt.approx"));
    NvStatus status = nv_ptxas(ptx, strlen(ptx), job->arch, &out);
    if (status == NV_FAILED) print_message("%s: %.4000s\n", job->arch->name, out.log);
    job->failed |= status == NV_FAILED;
    if (status == NV_OK)
        assert_int_equal(count(out.log, "0 bytes spill stores, 0 bytes spill"), n_kernels);
    nv_output_free(&out);
}

static void compile(Ctx *ctx, void *arg) {
    Job *job = arg;
    Gen *g = emit_all(ctx, gpu_meets(job->arch, "89"));
    nv_expand(g, job->arch);
    if (!job->nvvm) {
        assemble(job, nvptx_emit(g, job->arch));
        return;
    }
    NvOutput out;
    const char *text = nvvm_write(ctx, g->module, job->arch);
    NvStatus status = nvvm_compile(text, strlen(text), job->arch, 3, &out);
    if (status == NV_OK) assemble(job, out.data);
    if (status == NV_FAILED) print_message("libNVVM: %s\n", out.log);
    if (status == NV_ABSENT) print_message("no libNVVM\n");
    job->failed |= status == NV_FAILED;
    nv_output_free(&out);
}

static void protect(void (*body)(Ctx *ctx, void *arg), void *arg) {
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = llvm_protect(ctx, body, arg);
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) print_message("%s\n", d->text);
    ctx_destroy(ctx);
    assert_int_equal(status, CTX_OK);
}

static void compiles(void **state) {
    static const char *const archs[] = {"sm_80", "sm_90a"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        Job job = {.arch = nv_arch(archs[i % 2]), .nvvm = i / 2};
        protect(compile, &job);
        assert_false(job.failed);
    }
}

/* ---- values -------------------------------------------------------------------------------- */

static const double float_edges[] = {0.0,           -0.0,     1,        -1,         INFINITY,
                                     -INFINITY,     NAN,      0.5,      -0.5,       1.5,
                                     -1.5,          2.5,      -2.5,     3,          -3,
                                     0.49999997,    7,        -8,       127.5,      128,
                                     -128.5,        -129,     255.5,    256,        32767.5,
                                     -32769,        65504,    65519,    65520,      65535.5,
                                     65536,         448,      464,      480,        57344,
                                     61440,         1e10,     -1e10,    0x1p31,     -0x1p31,
                                     0x1p32,        0x1p63,   -0x1p63,  0x1p64,     -0x1p64,
                                     0x1.fffffep30, 0x1p-9,   0x1p-10,  0x1p-14,    0x1p-17,
                                     0x1p-24,       0x1p-25,  0x1p-126, 0x1p-127,   -0x1p-133,
                                     0x1p-149,      0x1p-150, 0x1p-134, -0x1.8p-16, 3.4e38,
                                     1e300,         -1e300,   5e-324,   88.7,       -87.4,
                                     -103.9,        128,      -149,     -150,       0x1.fffffep127};
static const int64_t int_edges[] = {
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    -8,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    100,
    127,
    128,
    -128,
    -129,
    255,
    256,
    32767,
    32768,
    -32768,
    65535,
    65536,
    0x7fffffff,
    -0x7fffffff,
    0x80000000,
    -0x80000000ll,
    1 << 24,
    16777217,
    ~0x7ffffffell,
    0xffffffff,
    0x100000000,
    INT64_MAX,
    INT64_MIN,
    INT64_MIN + 1,
};
enum {
    FLOAT_EDGES = sizeof float_edges / sizeof *float_edges,
    INT_EDGES = sizeof int_edges / sizeof *int_edges,
    RANDOM = 3000,
};

static uint64_t seed = 1;
static uint64_t next_random(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 32 ^ seed << 31;
}

static int edges(Elem e) {
    return elem_is(e, EC_FLOAT) ? FLOAT_EDGES : INT_EDGES;
}

/// Edge i in the element's own bits.
static Cell edge(Elem e, int i) {
    return elem_is(e, EC_FLOAT) ? cell_wrap(e, (Cell){.f = float_edges[i]})
                                : cell_wrap(e, (Cell){.i = int_edges[i]});
}

/// Any value except a signalling NaN, which C's fmin and fmax propagate.
static Cell any(Elem e) {
    Cell c = cell_from_bits(e, e == EL_BOOL ? next_random() & 1 : next_random());
    return elem_is(e, EC_FLOAT) && isnan(c.f) ? (Cell){.f = NAN} : c;
}

/// Operands of trial i: every value of a narrow element alone, pairs of edges, random bits; false
/// beyond the last.
static bool trial(const Kernel *k, int i, Cell *x) {
    int n = edges(k->from), bits = elem_info[k->from].bits, all = bits <= 16 ? 1 << bits : n;
    if (k->n_operands == 1 && i < all)
        return x[0] = bits <= 16 ? cell_from_bits(k->from, (uint64_t)i) : edge(k->from, i), true;
    if (k->n_operands > 1 && i < n * n)
        return x[0] = edge(k->from, i / n), x[1] = edge(k->from, i % n),
               x[2] = edge(k->from, (int)(next_random() % (unsigned)n)), true;
    for (int j = 0; j < 3; j++) x[j] = any(k->from);
    return i < (k->n_operands == 1 ? all : n * n) + RANDOM;
}

/* ---- comparison ---------------------------------------------------------------------------- */

/// Approximate ops, with the greatest error in f32 and narrower types, in units of the last place.
static const struct {
    OpCode op;
    double f32, narrow;
} bounds[] = {
    {OP_EXP2, 4, 0.51},
    {OP_EXP, 4, 0.51},
    {OP_RSQRT, 1.1, 0.51},
    {OP_TANH, 0, 0.63},
};

static double bound_of(const Kernel *k) {
    for (size_t i = 0; k->kind == ELEMENT && i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].op == k->op && k->from != EL_F64)
            return k->from == EL_F32 ? bounds[i].f32 : bounds[i].narrow;
    return 0;
}

static Cell oracle(const Kernel *k, const Cell *x) {
    switch (k->kind) {
    case CAST: return cell_cast(k->from, k->to, x[0]);
    case BITCAST: return cell_from_bits(k->to, cell_bits(k->from, x[0]));
    default: return eval_elementwise(k->op, k->from, x);
    }
}

/// The distance from |x| to the next greater value.
static double step_at(Elem e, double x) {
    uint64_t bits = cell_bits(e, (Cell){.f = fabs(x)});
    double step = cell_from_bits(e, bits + 1).f - fabs(x);
    return isfinite(step) ? step : fabs(x) - cell_from_bits(e, bits - 1).f;
}

static double worst[OP_COUNT][EL_COUNT];

static bool close(const Kernel *k, const Cell *x, Cell got, Cell want) {
    double bound = bound_of(k);
    if (elem_is(k->to, EC_FLOAT) && isnan(want.f)) return isnan(got.f);
    bool zeros = elem_is(k->to, EC_FLOAT) && (k->op == OP_MIN || k->op == OP_MAX);
    if (zeros && want.f == 0) return got.f == 0;
    if (cell_bits(k->to, got) == cell_bits(k->to, want)) return true;
    if (bound == 0) return false;
    double exact = eval_function(k->op, EC_FLOAT)(k->from, x[0], x[1], x[2]).f;
    double error = fabs(got.f - exact) / step_at(k->to, want.f);
    worst[k->op][k->from] = fmax(worst[k->op][k->from], error);
    return error <= bound;
}

/* ---- on the host --------------------------------------------------------------------------- */

static void host_attribute(Gen *g, LLVMValueRef fn, const char *name, const char *value) {
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(g->llvm, name, (unsigned)strlen(name), value,
                                                      (unsigned)strlen(value)));
}

// LLVM calls these for conversions without a host instruction.
extern uint16_t truncate_double(double x) __asm__("__truncdfhf2");

/// Kernels run on the host's instructions, and target functions on their C implementations.
static LLVMExecutionEngineRef load(Gen *g) {
    const char *cpu, *features;
    char *error = NULL;
    LLVMExecutionEngineRef engine;
    struct LLVMMCJITCompilerOptions options;
    LLVMLinkInMCJIT();
    llvm_host(&cpu, &features);
    LLVMAddSymbol("__truncdfhf2", (void *)(uintptr_t)truncate_double);
    for (LLVMValueRef f = LLVMGetFirstFunction(g->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f)) {
            host_attribute(g, f, "target-cpu", cpu);
            host_attribute(g, f, "target-features", features);
        }
    LLVMInitializeMCJITCompilerOptions(&options, sizeof options);
    assert_false(
        LLVMCreateMCJITCompilerForModule(&engine, g->module, &options, sizeof options, &error));
    for (LLVMValueRef f = LLVMGetFirstFunction(g->module); f; f = LLVMGetNextFunction(f)) {
        const char *name = LLVMGetValueName2(f, &(size_t){0});
        if (!LLVMIsDeclaration(f) || strncmp(name, "tg.", 3) != 0) continue;
        if (!arith_row(name)) print_message("no function for %s\n", name);
        assert_non_null(arith_row(name));
        LLVMAddGlobalMapping(engine, f, arith_row(name));
    }
    return engine;
}

static const char *kernel_text(Ctx *ctx, const Kernel *k) {
    const char *what = k->kind == CAST      ? "cast"
                       : k->kind == BITCAST ? "bitcast"
                                            : op_info[k->op].name;
    return ctx_format(ctx, "%s %s -> %s", what, elem_info[k->from].name, elem_info[k->to].name);
}

/// i4 and u4 are extended in their byte.
static void put(Elem e, uint64_t *at, Cell c) {
    *at = elem_info[e].bits == 4 ? c.u & 255 : cell_bits(e, c);
}

static Cell get(Elem e, uint64_t bits) {
    if (elem_info[e].bits != 4) return cell_from_bits(e, bits);
    return (Cell){.i = e == EL_I4 ? (int8_t)bits : (int64_t)(bits & 255)};
}

static void complain(Ctx *ctx, const Kernel *k, const Cell *x, Cell got, Cell want) {
    print_message("%s of %s %s %s: %s, not %s\n", kernel_text(ctx, k),
                  cell_text(ctx, k->from, x[0]), cell_text(ctx, k->from, x[1]),
                  cell_text(ctx, k->from, x[2]), cell_text(ctx, k->to, got),
                  cell_text(ctx, k->to, want));
}

/// Runs all trials, three at once, and prints the first few differences.
static bool run_kernel(Ctx *ctx, const Kernel *k, uint64_t address) {
    void (*code)(const uint64_t *, uint64_t *) =
        (void (*)(const uint64_t *, uint64_t *))(uintptr_t)address;
    int wrong = 0;
    Cell x[REGISTERS][3] = {{{0}}};
    bool more = true;
    for (int i = 0; more && wrong < 3; i += REGISTERS) {
        uint64_t in[3 * REGISTERS], out[REGISTERS] = {0};
        for (int r = 0; r < REGISTERS; r++) {
            more &= trial(k, i + r, x[r]);
            for (int j = 0; j < 3; j++) put(k->from, &in[j * REGISTERS + r], x[r][j]);
        }
        code(in, out);
        for (int r = 0; r < REGISTERS; r++) {
            Cell got = get(k->to, out[r]), want = oracle(k, x[r]);
            if (close(k, x[r], got, want)) continue;
            complain(ctx, k, x[r], got, want);
            wrong++;
        }
    }
    return wrong == 0;
}

static void run_all(Ctx *ctx, void *arg) {
    Gen *g = emit_all(ctx, *(bool *)arg);
    LLVMExecutionEngineRef engine = load(g);
    bool good = true;
    for (int i = 0; i < n_kernels; i++) {
        bool again = bound_of(&kernels[i]) > 0;
        for (arith_bend = again ? -1 : 0; arith_bend <= again; arith_bend++)
            good &= run_kernel(ctx, &kernels[i],
                               LLVMGetFunctionAddress(engine, ctx_format(ctx, "k%d", i)));
    }
    LLVMDisposeExecutionEngine(engine);
    assert_true(good);
}

static void values(void **state) {
    bool f8[2] = {false, true};
    (void)state;
    for (int i = 0; i < 2; i++) protect(run_all, &f8[i]);
    for (OpCode op = 0; op < OP_COUNT; op++)
        for (Elem e = 0; e < EL_COUNT; e++)
            if (worst[op][e] > 0)
                print_message("%s of %s: %.2f units\n", op_info[op].name, elem_info[e].name,
                              worst[op][e]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiles),
        cmocka_unit_test(values),
    };
    list_kernels();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
