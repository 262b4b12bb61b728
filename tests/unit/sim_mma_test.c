// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every alternative of every matrix instruction, in the simulator, against a plain product. The
// registers of each element follow the PTX manual; the layout of shared memory is the compiler's
// for TMA.
#include "sim_kernel.h"

#include "ir/eval.h"
#include "ir/layout/layout.h"
#include "passes/gpu/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 256 * 256 };

static uint64_t state = 1;

/// -4 .. 4, which all types represent (unsigned ones: 0 .. 4): sums are exact.
static int small(Elem e) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    int v = (int)(state >> 33) % 9 - 4;
    return elem_is(e, EC_UINT) ? abs(v) : v;
}

static uint64_t bits_of(Elem e, int v) {
    Cell c = {0};
    if (elem_is(e, EC_FLOAT))
        c.f = v;
    else
        c.i = v;
    return cell_bits(e, c);
}

static double value_of(Elem e, const void *p, int64_t i) {
    Cell c = cell_load(e, p, i);
    return elem_is(e, EC_FLOAT) ? c.f : (double)c.i;
}

/// An instruction with its matrices.
typedef struct Mma {
    char name[SIM_NAME];
    Elem a, b, d;
    int m, n, k, lanes;
    int base, grid;                   // addend of C; multiple to which terms are cut, 0: no cut
    int va[MOST], vb[MOST], vc[MOST]; // row-major
    double want[MOST];
} Mma;

static const char *part(const char *name, int i, char *out) {
    while (i-- > 0) name += strcspn(name, ".") + 1;
    sprintf(out, "%.*s", (int)strcspn(name, "."), name);
    return out;
}

static Elem type_of(const char *name, int i) {
    char text[SIM_NAME];
    part(name, i, text);
    bool f32 = strcmp(text, "tf32") == 0 || strcmp(text, "xf32") == 0;
    Elem e = f32 ? EL_F32 : elem_by_name(text);
    assert_int_not_equal(e, EL_COUNT);
    return e;
}

static void fill(Mma *x, bool add) {
    for (int i = 0; i < x->m * x->k; i++) x->va[i] = small(x->a);
    for (int i = 0; i < x->k * x->n; i++) x->vb[i] = small(x->b);
    for (int i = 0; i < x->m * x->n; i++) x->vc[i] = x->base + small(x->d);
    for (int i = 0; i < x->m; i++)
        for (int j = 0; j < x->n; j++) {
            int grid = x->grid ? x->grid : 1, sum = add ? x->vc[i * x->n + j] / grid * grid : 0;
            for (int l = 0; l < x->k; l++)
                sum += x->va[i * x->k + l] * x->vb[l * x->n + j] / grid * grid;
            x->want[i * x->n + j] = sum;
        }
}

/* ---- mma.sync ------------------------------------------------------------------------------ */

/// Row and column of element e of a lane, by the manual: a 32-bit register holds 32 / bits
/// elements; `wide` of them form a register.
static void place_a(const Mma *x, int lane, int e, int *row, int *col) {
    int per = 32 / elem_info[x->a].bits, r = per ? e / per : 0;
    if (!per) { // f64: one register
        *row = lane / 4;
        *col = lane % 4;
        return;
    }
    *row = lane / 4 + 8 * (r % 2);
    *col = lane % 4 * per + e % per + r / 2 * 4 * per;
}

static void place_b(const Mma *x, int lane, int e, int *row, int *col) {
    int per = 32 / elem_info[x->b].bits, r = per ? e / per : 0;
    *col = lane / 4;
    *row = per ? lane % 4 * per + e % per + r * 4 * per : lane % 4;
}

static void place_d(const Mma *x, int lane, int e, int *row, int *col) {
    (void)x;
    *row = lane / 4 + 8 * (e / 2);
    *col = lane % 4 * 2 + e % 2;
}

typedef void Place(const Mma *x, int lane, int e, int *row, int *col);

/// Stores `each` elements of every lane.
static int store_fragments(const Mma *x, Elem elem, const int *values, int each, int cols,
                           Place *place, void *out) {
    for (int lane = 0; lane < x->lanes; lane++)
        for (int e = 0; e < each; e++) {
            int r, c;
            place(x, lane, e, &r, &c);
            Cell cell = cell_from_bits(elem, bits_of(elem, values[r * cols + c]));
            cell_store(elem, out, lane * each + e, cell);
        }
    return each * elem_info[elem].bits / 8;
}

typedef struct MmaBuild {
    const Mma *x;
    Fn fn;
    int bytes[4]; // bytes of a lane in each buffer: A, B, C; D
} MmaBuild;

static void build_mma(SimKernel *k, const void *arg) {
    const MmaBuild *b = arg;
    LLVMValueRef args[48];
    int n = 0;
    for (int i = 0; i < b->fn.n_groups; i++) {
        LLVMTypeRef t = fn_letter_type(k->g->llvm, b->fn.groups[i].letter);
        int size = b->bytes[i] / b->fn.groups[i].count;
        for (int j = 0; j < b->fn.groups[i].count; j++)
            args[n++] = sim_load(k, t, k->params[i],
                                 sim_add(k, sim_mul(k, k->thread, b->bytes[i]), j * size));
    }
    LLVMValueRef r = sim_call(k, b->x->name, n, args);
    int count = b->fn.result.count, size = b->bytes[2] / count;
    for (int j = 0; j < count; j++)
        sim_store(k, sim_result(k, r, count, j), k->params[3],
                  sim_add(k, sim_mul(k, k->thread, b->bytes[2]), j * size));
}

/// Places the three operands by the manual's formulas. A lane has each_a elements of A and each_b
/// of B.
static void run_mma(Mma *x, const char *target, int each_a, int each_b, Place *const *place) {
    static char a[16384], b[16384], c[16384], d[16384];
    int each_d = x->m * x->n / x->lanes;
    MmaBuild build = {.x = x};
    fill(x, true);
    assert_true(fn_find(x->name, &build.fn));
    build.bytes[0] = store_fragments(x, x->a, x->va, each_a, x->k, place[0], a);
    build.bytes[1] = store_fragments(x, x->b, x->vb, each_b, x->n, place[1], b);
    build.bytes[2] = store_fragments(x, x->d, x->vc, each_d, x->n, place[2], c);
    SimCase run = {.target = target, .threads = x->lanes, .n_buffers = 4, .check = true};
    run.buffers[0] = sim_buffer(a, sizeof a, true);
    run.buffers[1] = sim_buffer(b, sizeof b, true);
    run.buffers[2] = sim_buffer(c, sizeof c, true);
    run.buffers[3] = sim_buffer(d, sizeof d, false);
    run.build = build_mma;
    run.arg = &build;
    SimFailure f;
    if (!sim_case_run(&run, &f)) fail_msg("%s: %s", x->name, f.text);
    for (int lane = 0; lane < x->lanes; lane++)
        for (int e = 0; e < each_d; e++) {
            int r, col;
            place[2](x, lane, e, &r, &col);
            double got = value_of(x->d, d, lane * each_d + e);
            if (got != x->want[r * x->n + col])
                fail_msg("%s: (%d, %d) is %g, not %g", x->name, r, col, got,
                         x->want[r * x->n + col]);
        }
}

static void name_mma(Mma *x, const char *name, const char *shape) {
    char text[SIM_NAME];
    snprintf(x->name, sizeof x->name, "%s", name);
    assert_int_equal(sscanf(part(name, 3, text), shape, &x->m, &x->n, &x->k), 3);
    x->d = type_of(name, 4), x->a = type_of(name, 5), x->b = type_of(name, 6);
}

static void test_mma(const char *name) {
    static Mma x;
    static Place *const places[] = {place_a, place_b, place_d};
    name_mma(&x, name, "m%dn%dk%d");
    x.lanes = 32;
    run_mma(&x, "sm_90a", x.m * x.k / 32, x.k * x.n / 32, places);
}

/* ---- MFMA, WMMA: AMD's matrix instruction calculator ----------------------------------------- */

// A lane has one row of A and a run of k; lanes beyond the rows have the next runs.
static void mfma_a(const Mma *x, int lane, int e, int *row, int *col) {
    *row = lane % x->m;
    *col = lane / x->m * (x->m * x->k / 64) + e;
}

static void mfma_b(const Mma *x, int lane, int e, int *row, int *col) {
    mfma_a(x, lane, e, col, row);
}

// Runs of four rows; for f64 one.
static void mfma_d(const Mma *x, int lane, int e, int *row, int *col) {
    int run = x->d == EL_F64 ? 1 : 4, groups = 64 / x->n;
    *row = e / run * run * groups + lane / x->n * run + e % run;
    *col = lane % x->n;
}

// Both halves of a wave hold all of k.
static void wmma11_a(const Mma *x, int lane, int e, int *row, int *col) {
    (void)x;
    *row = lane % 16;
    *col = e;
}

static void wmma11_b(const Mma *x, int lane, int e, int *row, int *col) {
    wmma11_a(x, lane, e, col, row);
}

static void wmma11_d(const Mma *x, int lane, int e, int *row, int *col) {
    (void)x;
    *row = 2 * e + lane / 16;
    *col = lane % 16;
}

static void wmma12_a(const Mma *x, int lane, int e, int *row, int *col) {
    int run = elem_info[x->a].bits == 8 ? 8 : 4;
    *row = lane % 16;
    *col = e / run * 8 + lane / 16 * run + e % run;
}

static void wmma12_b(const Mma *x, int lane, int e, int *row, int *col) {
    wmma12_a(x, lane, e, col, row);
}

static void wmma12_d(const Mma *x, int lane, int e, int *row, int *col) {
    (void)x;
    *row = 8 * (lane / 16) + e;
    *col = lane % 16;
}

static const struct {
    const char *prefix;
    int lanes, copies; // lanes that hold each element of A and of B
    Place *places[3];
} kinds[] = {{"tg.amd.mfma.", 64, 1, {mfma_a, mfma_b, mfma_d}},
             {"tg.amd.wmma11.", 32, 2, {wmma11_a, wmma11_b, wmma11_d}},
             {"tg.amd.wmma12.", 32, 1, {wmma12_a, wmma12_b, wmma12_d}}};

/// Runs the test for each GPU with the instruction.
static void test_amd(const char *name) {
    static Mma x;
    Fn fn;
    name_mma(&x, name, "%dx%dx%d");
    assert_true(fn_find(name, &fn));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(name, kinds[i].prefix, strlen(kinds[i].prefix)) != 0) continue;
        x.lanes = kinds[i].lanes;
        int each = kinds[i].copies * x.m * x.k / x.lanes;
        for (const GpuTarget *t = gpu_targets; t->name; t++)
            if (fn_has(fn.row, t)) run_mma(&x, t->name, each, each, kinds[i].places);
    }
}

/// Calls use() for each choice of each capture of the rows whose name begins with the prefix.
static int each_row(const char *prefix, void (*use)(const char *name)) {
    char name[SIM_NAME];
    int n = 0;
    for (int i = 0; i < fn_row_count; i++) {
        if (strncmp(fn_rows[i].name, prefix, strlen(prefix)) != 0) continue;
        for (int which = 0; which < FN_CAPTURES; which++)
            for (int pick = which > 0; sim_row_name(&fn_rows[i], which, pick, name); pick++, n++)
                use(name);
    }
    return n;
}

/// Beside 20000, which has 15 bits, units that keep 13 more bits lose the last bit of all other
/// terms.
static void few_bits(void **unused) {
    static const struct {
        const char *target;
        int grid;
    } rows[] = {{"sm_89", 2}, {"sm_90a", 0}, {"sm_100a", 2}, {"sm_120a", 2}};
    static Place *const places[] = {place_a, place_b, place_d};
    static Mma x;
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        x = (Mma){.lanes = 32, .base = 20000, .grid = rows[i].grid};
        name_mma(&x, "tg.nv.mma.m16n8k32.f32.f8e4m3.f8e4m3", "m%dn%dk%d");
        run_mma(&x, rows[i].target, x.m * x.k / 32, x.k * x.n / 32, places);
    }
}

static void mma(void **unused) {
    (void)unused;
    assert_true(each_row("nv.mma.", test_mma) > 8);
}

static void amd(void **unused) {
    (void)unused;
    assert_true(each_row("amd.", test_amd) > 24);
}

/* ---- wgmma --------------------------------------------------------------------------------- */

/// An operand in shared memory.
typedef struct Panel {
    int at, bytes, swizzle; // swizzle 16: none
    bool mn;                // elements along k are not next to each other
    int rows, k, size;      // of all k-steps
    SharedLayout layout;
} Panel;

static Panel make_panel(int at, int size, int rows, int k, bool mn, int swizzle) {
    Panel p = {.at = at, .swizzle = swizzle, .mn = mn, .rows = rows, .k = k, .size = size};
    int64_t extents[2] = {rows, k};
    p.layout = shared_swizzled(size, 2, extents, mn ? 0 : 1, mn ? 1 : 0, swizzle);
    p.bytes = (int)((p.layout.bytes + 1023) / 1024 * 1024);
    return p;
}

static void put(const Panel *p, Elem elem, const int *values, bool by_rows, char *shared) {
    for (int r = 0; r < p->rows; r++)
        for (int l = 0; l < p->k; l++) {
            int64_t at[2] = {r, l};
            int v = by_rows ? values[r * p->k + l] : values[l * p->rows + r];
            char *to = shared + p->at + shared_offset(&p->layout, at);
            cell_store(elem, to, 0, cell_from_bits(elem, bits_of(elem, v)));
        }
}

/// The descriptor of step i: start, leading and stride offsets as in the manual.
static uint64_t descriptor(const Panel *p, int step) {
    static const uint64_t modes[] = {[1] = 0, [2] = 3, [4] = 2, [8] = 1};
    uint64_t start = (uint64_t)p->at, lead = 16, stride = 8 * (uint64_t)p->swizzle;
    if (p->mn) {
        uint64_t panel = (uint64_t)(p->k * p->swizzle);
        start += (uint64_t)(step * 16 * p->swizzle);
        lead = p->swizzle == 16 ? 128 : panel;
        stride = p->swizzle == 16 ? panel : stride;
    } else {
        uint64_t panel = (uint64_t)(p->rows * p->swizzle);
        start += (uint64_t)(32 * step / p->swizzle) * panel + (uint64_t)(32 * step % p->swizzle);
        lead = p->swizzle == 16 ? panel : 16;
    }
    return start >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | modes[p->swizzle / 16] << 62;
}

typedef struct Wgmma {
    Mma x;
    Fn fn;
    Panel a, b;
    bool registers, add;
    int steps, shared_bytes, words; // words: words of A in a thread's registers
} Wgmma;

static void copy_to_shared(SimKernel *k, const Wgmma *w) {
    for (int i = 0; i < w->shared_bytes; i += 128 * 16) {
        LLVMValueRef at = sim_add(k, sim_mul(k, k->thread, 16), i);
        LLVMTypeRef t = LLVMVectorType(k->g->i32, 4);
        sim_store(k, sim_load(k, t, k->params[0], at), k->shared, at);
    }
    sim_call(k, "tg.nv.fence.proxy.async.shared", 0, NULL);
    sim_call(k, "tg.barrier", 0, NULL);
}

static void build_wgmma(SimKernel *k, const void *arg) {
    const Wgmma *w = arg;
    static LLVMValueRef args[FN_OPERANDS], parts[FN_OPERANDS];
    int n = 0, sums = w->fn.result.count;
    LLVMTypeRef sum = fn_letter_type(k->g->llvm, w->fn.result.letter);
    copy_to_shared(k, w);
    for (int i = 0; w->registers && i < w->words; i++)
        args[n++] = sim_load(k, k->g->i32, k->params[1],
                             sim_add(k, sim_mul(k, k->thread, 4 * w->words), 4 * i));
    for (int i = 0; !w->registers && i < w->steps; i++)
        args[n++] = LLVMConstInt(k->g->i64, descriptor(&w->a, i), false);
    for (int i = 0; i < w->steps; i++)
        args[n++] = LLVMConstInt(k->g->i64, descriptor(&w->b, i), false);
    for (int i = 0; i < sums; i++)
        args[n++] =
            sim_load(k, sum, k->params[2], sim_add(k, sim_mul(k, k->thread, 4 * sums), 4 * i));
    args[n++] = LLVMConstInt(k->g->i1, w->add, false);
    sim_call(k, "tg.nv.wgmma.fence", 0, NULL);
    LLVMValueRef r = sim_call(k, w->x.name, n, args);
    sim_call(k, "tg.nv.wgmma.commit", 0, NULL);
    int count = w->fn.result.count;
    for (int i = 0; i < count; i++) parts[i] = sim_result(k, r, count, i);
    // The smallest product has two registers, but the wait takes at least four.
    int passed = count < 4 ? 4 : count;
    for (int i = count; i < passed; i++) parts[i] = parts[0];
    char name[64];
    snprintf(name, sizeof name, "tg.nv.wgmma.wait.0.%cx%d", 0, passed);
    snprintf(name, sizeof name, "tg.nv.wgmma.wait.0.%s32x%d",
             w->fn.result.letter == 'f' ? "f" : "i", passed);
    r = sim_call(k, name, passed, parts);
    for (int i = 0; i < count; i++)
        sim_store(k, sim_result(k, r, passed, i), k->params[3],
                  sim_add(k, sim_mul(k, k->thread, 4 * sums), 4 * i));
}

/// Row and column of element e of a thread of the accumulator.
static void place_sum(int thread, int e, int *row, int *col) {
    *row = thread / 32 * 16 + thread % 32 / 4 + 8 * (e / 2 % 2);
    *col = e / 4 * 8 + thread % 4 * 2 + e % 2;
}

/// Puts A of all steps into registers, by the manual.
static void put_registers(Wgmma *w, char *out) {
    int per = 32 / elem_info[w->x.a].bits, each = w->words * per;
    for (int t = 0; t < 128; t++)
        for (int e = 0; e < each; e++) {
            int r = e / per, row = t / 32 * 16 + t % 32 / 4 + 8 * (r % 2);
            int col = t % 4 * per + e % per + r / 2 * 4 * per;
            int v = w->x.va[row * w->x.k + col];
            cell_store(w->x.a, out, t * each + e, cell_from_bits(w->x.a, bits_of(w->x.a, v)));
        }
}

static void run_wgmma(Wgmma *w, const char *what) {
    static _Alignas(16) char shared[256 << 10], registers[64 << 10], c[128 << 10], d[128 << 10];
    memset(shared, 0, sizeof shared);
    if (w->registers)
        put_registers(w, registers);
    else
        put(&w->a, w->x.a, w->x.va, true, shared);
    put(&w->b, w->x.b, w->x.vb, false, shared);
    int each = 64 * w->x.n / 128;
    for (int t = 0; t < 128; t++)
        for (int e = 0; e < each; e++) {
            int row, col;
            place_sum(t, e, &row, &col);
            int v = w->x.vc[row * w->x.n + col];
            cell_store(w->x.d, c, t * each + e, cell_from_bits(w->x.d, bits_of(w->x.d, v)));
        }
    SimCase run = {.target = "sm_90a", .threads = 128, .n_buffers = 4, .check = true};
    run.shared_bytes = w->shared_bytes;
    run.buffers[0] = sim_buffer(shared, sizeof shared, true);
    run.buffers[1] = sim_buffer(registers, sizeof registers, true);
    run.buffers[2] = sim_buffer(c, sizeof c, true);
    run.buffers[3] = sim_buffer(d, sizeof d, false);
    run.build = build_wgmma;
    run.arg = w;
    SimFailure f;
    if (!sim_case_run(&run, &f)) fail_msg("%s: %s", what, f.text);
    for (int t = 0; t < 128; t++)
        for (int e = 0; e < each; e++) {
            int row, col;
            place_sum(t, e, &row, &col);
            double got = value_of(w->x.d, d, t * each + e), want = w->x.want[row * w->x.n + col];
            if (got != want) fail_msg("%s: (%d, %d) is %g, not %g", what, row, col, got, want);
        }
}

static void test_wgmma(const char *name) {
    static const int swizzles[] = {16, 32, 64, 128};
    static int turn;
    static Wgmma w;
    char shape[SIM_NAME], what[2 * SIM_NAME];
    assert_true(fn_find(name, &w.fn));
    snprintf(w.x.name, sizeof w.x.name, "%s", name);
    assert_int_equal(sscanf(part(name, 3, shape), "m%dn%dk%d", &w.x.m, &w.x.n, &w.x.k), 3);
    w.x.d = type_of(name, 4), w.x.a = type_of(name, 5), w.x.b = type_of(name, 6);
    const char *s = fn_capture(&w.fn, 's'), *ta = fn_capture(&w.fn, 'x');
    const char *tb = fn_capture(&w.fn, 'y');
    w.steps = atoi(s);
    w.registers = strstr(name, ".rs") != NULL;
    w.x.k *= w.steps;
    w.words = 4 * w.steps;
    int size = elem_info[w.x.a].bits / 8;
    for (int i = 0; i < 4; i++) {
        int swizzle = swizzles[(i + turn) % 4];
        // The largest ones take long, so one choice suffices.
        if (w.x.n == 256 && i > 0) continue;
        w.add = (turn + i) % 3 != 0;
        fill(&w.x, w.add);
        w.a = make_panel(0, size, 64, w.x.k, ta && *ta == '1', swizzle);
        w.b = make_panel(w.a.bytes, size, w.x.n, w.x.k, tb && *tb == '1',
                         swizzles[(i + turn / 4) % 4]);
        w.shared_bytes = (w.a.bytes + w.b.bytes + 2047) / 2048 * 2048;
        snprintf(what, sizeof what, "%s, swizzles %d and %d", name, swizzle, w.b.swizzle);
        run_wgmma(&w, what);
    }
    turn++;
}

static void wgmma(void **unused) {
    (void)unused;
    assert_true(each_row("nv.wgmma.m64", test_wgmma) > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mma), cmocka_unit_test(few_bits),
                                       cmocka_unit_test(amd), cmocka_unit_test(wgmma)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
