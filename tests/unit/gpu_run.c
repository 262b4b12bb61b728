// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device code under test: gpu_run.h.
#include "gpu_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/gpu/gpu.h"
#include "backends/llvm/target.h"
#include "backends/sim/sim.h"
#include "ir/interp/interp.h"

enum { FAULT_WORDS = 1024 };

/* ---- text ---------------------------------------------------------------------------------- */

void gpu_run_begin(GpuRun *r, Ctx *ctx, int warps) {
    *r = (GpuRun){.ctx = ctx, .warps = warps, .target = "sm_80"};
    r->head.ctx = r->body.ctx = ctx;
    text_add(&r->body, "%%zero = const [value=0] : i64\n");
}

const char *gpu_run_type(GpuRun *r, Elem elem, const Layout *l) {
    Text t = {.ctx = r->ctx};
    text_add(&t, "%s", elem_info[elem].name);
    if (l && l->rank) layout_print(&t, l);
    return t.data;
}

int gpu_run_param(GpuRun *r, Elem elem, const Layout *l, GpuData data) {
    Type *t = &r->params[r->n];
    *t = (Type){.kind = TK_TENSOR, .elem = elem, .rank = l ? l->rank : 0};
    int64_t stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        t->extents[d] = l->extents[d];
        t->strides[d] = stride;
        stride *= l->extents[d];
    }
    r->data[r->n] = data;
    return r->n++;
}

static void add_subs(GpuRun *r, const Type *t) {
    for (int d = 0; d < t->rank; d++)
        text_add(&r->body, ", %%zero, %%e%lld", (long long)t->extents[d]);
    text_add(&r->body, " [subs=(");
    for (int d = 0; d < t->rank; d++)
        text_add(&r->body, "%saxis %lld", d ? ", " : "", (long long)t->extents[d]);
    text_add(&r->body, ")]");
}

/// Defines a constant %e<n> for each extent where it is first needed.
static void add_extents(GpuRun *r, const Type *t) {
    for (int d = 0; d < t->rank; d++) {
        char name[32];
        snprintf(name, sizeof name, "%%e%lld =", (long long)t->extents[d]);
        if (!strstr(r->body.data, name))
            text_add(&r->body, "%s const [value=%lld] : i64\n", name, (long long)t->extents[d]);
    }
}

void gpu_run_load(GpuRun *r, const char *name, int n, const Layout *l) {
    const Type *t = &r->params[n];
    const char *zero = t->elem == EL_BOOL ? "false" : elem_is(t->elem, EC_FLOAT) ? "0.0" : "0";
    add_extents(r, t);
    text_add(&r->body, "%%pad_%s = const [value=%s] : %s\n", name, zero, elem_info[t->elem].name);
    text_add(&r->body, "%%%s = load %%p%d, %%pad_%s", name, n, name);
    add_subs(r, t);
    text_add(&r->body, " : %s\n", gpu_run_type(r, t->elem, l));
}

void gpu_run_store(GpuRun *r, const char *name, int n, const Layout *l) {
    (void)l;
    add_extents(r, &r->params[n]);
    text_add(&r->body, "store %%p%d, %%%s", n, name);
    add_subs(r, &r->params[n]);
    text_add(&r->body, "\n");
}

static void add_params(Ir *ir, GpuRun *r, Text *out) {
    for (int i = 0; i < r->n; i++) {
        const Type *t = &r->params[i];
        text_add(out, ", %%p%d: ", i);
        const Type *type = ty_tensor(ir, t->elem, t->rank, t->extents, t->strides);
        type = ty_aligned(ir, type, r->align);
        ir_print_type(out, r->near ? ty_near(ir, type) : type);
    }
}

static char *module_text(Ir *ir, GpuRun *r) {
    Text params = {.ctx = r->ctx}, t = {.ctx = r->ctx};
    add_params(ir, r, &params);
    text_add(&t, "module {\nkernel [name=\"k\"] {(%s)\n%%one = const [value=1] : i64\n",
             params.data + 2);
    text_add(&t, "dispatch %%one");
    for (int i = 0; i < r->n; i++) text_add(&t, ", %%p%d", i);
    text_add(&t, " [device=\"d\"]\nyield\n}\n");
    text_add(&t, "device [name=\"d\", warps=%d, cluster=%d] {(%%p: i64%s)\n%syield\n}\n}\n",
             r->warps, r->cluster ? r->cluster : 1, params.data, r->body.data);
    return t.data;
}

/* ---- memory -------------------------------------------------------------------------------- */

typedef struct Memory {
    char *bytes[GPU_RUN_PARAMS];
    size_t size[GPU_RUN_PARAMS];
} Memory;

static size_t type_bytes(const Type *t) {
    size_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= (size_t)t->extents[d];
    return n * (size_t)(elem_info[t->elem].bits < 8 ? 8 : elem_info[t->elem].bits) / 8;
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double special(uint64_t x) {
    static const double values[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.5, -1.5, 3};
    return values[x % 8];
}

static Cell random_cell(Elem elem, GpuData data, uint64_t x) {
    bool is_float = elem_is(elem, EC_FLOAT);
    int64_t n = data == GPU_INDEX ? (int64_t)(x % 20) - 2 : (int64_t)(x % 8) - 4;
    Cell c;
    if (elem == EL_BOOL) return (Cell){.u = x >> 7 & 1};
    if (is_float)
        c.f = data == GPU_SPECIAL ? special(x)
              : data == GPU_ANY   ? (double)(x % 4096) / 1024 - 2
                                  : (double)n;
    else
        c.i = data == GPU_ANY ? (int64_t)x : n;
    return cell_wrap(elem, c);
}

static void fill(GpuRun *r, Memory *m, uint64_t seed) {
    for (int i = 0; i < r->n; i++) {
        const Type *t = &r->params[i];
        int bytes = elem_info[t->elem].bits / 8;
        m->size[i] = type_bytes(t);
        m->bytes[i] = ctx_alloc(r->ctx, m->size[i] + 64);
        m->bytes[i] += 64 - (uintptr_t)m->bytes[i] % 64;
        for (size_t k = 0; k < m->size[i] / (size_t)bytes; k++) {
            Cell c = random_cell(t->elem, r->data[i], next_random(&seed) >> 9);
            uint64_t bits = cell_bits(t->elem, c);
            memcpy(m->bytes[i] + k * (size_t)bytes, &bits, (size_t)bytes);
        }
    }
}

/* ---- both ways ----------------------------------------------------------------------------- */

static void fail_with(Ctx *ctx, const char *what, const char *text, const char *module) {
    for (const Diagnostic *d = diag_first(ctx); d; d = d->next) fprintf(stderr, "%s\n", d->text);
    fprintf(stderr, "%s\n", module);
    fail_msg("%s: %s", what, text);
}

static void interpret(Ir *ir, Op *module, GpuRun *r, Memory *m) {
    InterpArg args[GPU_RUN_PARAMS] = {0};
    for (int i = 0; i < r->n; i++) {
        const Type *t = &r->params[i];
        args[i].tensor = (Tensor){.data = m->bytes[i], .elem = t->elem, .rank = t->rank};
        memcpy(args[i].tensor.extents, t->extents, sizeof t->extents);
        memcpy(args[i].tensor.strides, t->strides, sizeof t->strides);
    }
    InterpOptions options = {0};
    if (!interp_run(ir, module, "k", r->n, args, &options)) ice(r->ctx, (Loc){0}, "interpreter");
}

static void simulate(Ir *ir, Op *module, GpuRun *r, Memory *m, const char *text, const char *what) {
    Gen *g = gen_create(r->ctx, "test");
    GpuOptions options = {.target = r->target, .check = r->check};
    GpuCode *code = gpu_lower(g, ir, module, &options);
    if (getenv("TG_TEST_LLVM")) LLVMDumpModule(g->module);
    portable_check(r->ctx, g->module);
    SimImage *image = sim_compile(g, r->target, true);
    void *args[GPU_RUN_PARAMS + 1];
    SimBuffer buffers[GPU_RUN_PARAMS + 1];
    for (int i = 0; i < r->n; i++) {
        args[i] = &m->bytes[i];
        // Atomics on small elements change whole words.
        buffers[i] = sim_buffer(m->bytes[i], ((int64_t)m->size[i] + 3) & ~3, true);
    }
    r->faults = ctx_array(r->ctx, uint64_t, FAULT_WORDS + 2);
    ((tg_faults *)r->faults)->capacity = FAULT_WORDS;
    args[r->n] = &r->faults;
    buffers[r->n] = sim_buffer(r->faults, (FAULT_WORDS + 2) * 8, true);
    r->sites = code->sites.data;
    SimRun run = {.args = args,
                  .shared_bytes = code->kernels[0].shared_bytes,
                  .seed = 1,
                  .buffers = buffers,
                  .n_buffers = r->n + 1};
    run.grid[0] = r->cluster;
    SimFailure failure;
    if (!image) fail_with(r->ctx, what, "the simulator takes it not", text);
    bool ok = sim_run(image, 0, &run, &failure);
    sim_image_free(image);
    if (!ok) fail_with(r->ctx, what, failure.text, text);
}

static void compare(GpuRun *r, const Memory *want, const Memory *got, double tolerance,
                    const char *what, const char *text) {
    for (int i = 0; i < r->n; i++) {
        Elem elem = r->params[i].elem;
        size_t bytes = (size_t)elem_info[elem].bits / 8;
        for (size_t k = 0; k < want->size[i] / bytes; k++) {
            uint64_t a = 0, b = 0;
            memcpy(&a, want->bytes[i] + k * bytes, bytes);
            memcpy(&b, got->bytes[i] + k * bytes, bytes);
            Cell x = cell_from_bits(elem, a), y = cell_from_bits(elem, b);
            bool same = a == b;
            if (elem_is(elem, EC_FLOAT))
                same |= (isnan(x.f) && isnan(y.f)) || x.f == y.f ||
                        fabs(x.f - y.f) <= tolerance * (1 + fabs(x.f));
            if (same) continue;
            char message[200];
            snprintf(message, sizeof message, "%%p%d[%zu] is %g (%lld), not %g (%lld)", i, k, y.f,
                     (long long)y.i, x.f, (long long)x.i);
            fail_with(r->ctx, what, message, text);
        }
    }
}

void gpu_run(GpuRun *r, double tolerance, const char *what) {
    Ir *ir = ir_create(r->ctx);
    char *text = module_text(ir, r);
    uint16_t file = ctx_add_source(r->ctx, "test", text, strlen(text));
    Op *module = ir_parse(ir, file);
    if (!module || !ir_verify(ir, module)) fail_with(r->ctx, what, "not a module", text);
    Memory want, got;
    fill(r, &want, 7);
    fill(r, &got, 7);
    interpret(ir, module, r, &want);
    simulate(ir, module, r, &got, text, what);
    compare(r, &want, &got, tolerance, what, text);
}

/* ---- random cases -------------------------------------------------------------------------- */

typedef struct Case {
    GpuBody *body;
    int number;
    uint64_t seed;
} Case;

static void run_case(Ctx *ctx, void *arg) {
    const Case *c = arg;
    Random random = {.state = c->seed};
    c->body(ctx, &random, ctx_format(ctx, "case %d", c->number));
}

void gpu_run_cases(GpuBody *body, int n, uint64_t first, uint64_t step) {
    for (int i = 0; i < n; i++) {
        Case c = {body, i, first + step * (uint64_t)i};
        Ctx *ctx = ctx_create(NULL);
        CtxStatus status = llvm_protect(ctx, run_case, &c);
        for (const Diagnostic *d = diag_first(ctx); d; d = d->next)
            fprintf(stderr, "case %d: %s\n", i, d->text);
        assert_int_equal(status, CTX_OK);
        ctx_destroy(ctx);
    }
}

Shape gpu_run_shape(Random *random) {
    Shape shape = random_shape(random);
    shape.box.bits[LEVEL_LANE] = 5;
    shape.box.bits[LEVEL_CTA] = 0;
    return shape;
}

int gpu_run_warps(const Layout *l) {
    return 1 << l->bits[LEVEL_WARP];
}
